/* test_memory.c - what training takes while it runs: in a steady step nothing is allocated by
 * qkv and the libraries allocate the same every time; 500 steps do not grow; attention at 8192
 * tokens takes memory linear in their number.
 *
 * The program brings its own malloc and mmap, which tell from the address they return to whose
 * call it was: qkv is linked into the program, the libraries are not. What an OpenMP runtime takes
 * for its own threads is its affair. glibc alone; a sanitizer has a malloc of its own, so there
 * only what the context counts is looked at. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/device.h"
#include "isas.h"
#include "qkv/gpt.h"
#include "qkv/opt.h"

/* ---- who allocates ------------------------------------------------------------------------ */

typedef struct {
    long qkv, libraries, openmp; /* calls */
} calls;

static struct {
    int on;
    calls made;
    uintptr_t openmp[4][2]; /* where the runtimes' code begins and ends; 0: no more */
} counted;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)
#define COUNTS_CALLS 1
#pragma GCC visibility push(default) /* or the libraries would not find them */
extern char __executable_start, etext;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static void count(const void *caller)
{
    if (!__atomic_load_n(&counted.on, __ATOMIC_RELAXED))
        return;
    uintptr_t at = (uintptr_t)caller;
    long *made = &counted.made.libraries;
    if (at >= (uintptr_t)&__executable_start && at < (uintptr_t)&etext)
        made = &counted.made.qkv;
    for (size_t i = 0; i < 4; i++)
        if (at >= counted.openmp[i][0] && at < counted.openmp[i][1])
            made = &counted.made.openmp;
    __atomic_add_fetch(made, 1, __ATOMIC_RELAXED);
}

/* Code of libomp and libgomp; clang's builds load both. */
static int find_openmp(struct dl_phdr_info *info, size_t size, void *count_)
{
    size_t *n = count_;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum && strstr(info->dlpi_name, "omp.so"); i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || *n == 4)
            continue;
        counted.openmp[*n][0] = info->dlpi_addr + part->p_vaddr;
        counted.openmp[(*n)++][1] = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

static int find_libraries(void **state)
{
    size_t n = 0;
    (void)state;
    return dl_iterate_phdr(find_openmp, &n);
}

void *malloc(size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_realloc(p, bytes);
}

void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **p, size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    *p = __libc_memalign(alignment, bytes);
    return *p ? 0 : ENOMEM;
}

__attribute__((noinline)) /* where this program calls it: the caller is what counts */
void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    count(__builtin_return_address(0));
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}
#pragma GCC visibility pop
#else
#define COUNTS_CALLS 0
static int find_libraries(void **state)
{
    (void)state;
    return 0;
}
#endif

/* ---- a small training run ------------------------------------------------------------------- */

typedef struct {
    size_t batch, length;
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *tape;
    qkv_optimizer *optimizer;
    int32_t *ids;
} training;

static void training_begin(training *r, const qkv_model_type *type, int threads, size_t width,
                           size_t batch, size_t length)
{
    qkv_context_options o = qkv_context_defaults();
    o.threads = threads;
    *r = (training){.batch = batch, .length = length};
    assert_int_equal(qkv_context_create(&r->ctx, &o), QKV_OK);
    qkv_gpt_config config;
    qkv_option_defaults(qkv_model_type_config(type), &config);
    config.vocab = 300;
    config.positions = length;
    config.width = width;
    config.layers = 2;
    config.heads = 2;
    config.dropout = config.embd_dropout = config.attention_dropout = 0.1;
    assert_int_equal(qkv_model_create(&r->model, r->ctx, type, &config), QKV_OK);
    assert_int_equal(qkv_model_init(r->model, 1), QKV_OK);
    assert_int_equal(qkv_tape_create(&r->tape, r->ctx), QKV_OK);
    qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    assert_int_equal(qkv_optimizer_create(&r->optimizer, qkv_model_params(r->model), &adamw,
                                          qkv_optimizer_decay_matrices(), 1), QKV_OK);
    r->ids = qkv_calloc(r->ctx, batch * length + 1, sizeof *r->ids);
    assert_non_null(r->ids);
    for (size_t i = 0; i <= batch * length; i++)
        r->ids[i] = (int32_t)(i * 7 % config.vocab);
}

static void training_end(training *r)
{
    qkv_free(r->ctx, r->ids);
    qkv_optimizer_destroy(r->optimizer);
    qkv_tape_destroy(r->tape);
    qkv_model_destroy(r->model);
    qkv_context_destroy(r->ctx);
}

static qkv_status training_step(training *r, uint64_t step)
{
    qkv_tape *t = r->tape;
    size_t shape[] = {r->batch, r->length};
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    qkv_tape_randomness(t, &(qkv_randomness){.seed = 1, .step = step});
    qkv_tensor *ids = qkv_tensor_ids(t, r->ids, 2, shape);
    qkv_tensor *targets = qkv_tensor_ids(t, r->ids + 1, 2, shape);
    qkv_tensor *h = qkv_lm_hidden(r->model, t, ids, 0, NULL, NULL);
    qkv_status status = qkv_backward(t, qkv_lm_loss(r->model, t, h, targets, NULL));
    if (!status)
        status = qkv_optimizer_step(r->optimizer,
                                    &(qkv_optimizer_step_args){.lr = 1e-3, .max_norm = 1}, NULL);
    qkv_params_zero_grad(qkv_model_params(r->model));
    return status;
}

/* ---- tests -------------------------------------------------------------------------------- */

enum { WARM_UPS = 2, STEPS = 6 };

static void check_steady(const qkv_model_type *type)
{
    training r;
    calls made[STEPS];
    training_begin(&r, type, 2, 128, 4, 64); /* wide enough for every product's team */
    for (uint64_t i = 0; i < WARM_UPS; i++)
        assert_int_equal(training_step(&r, i), QKV_OK);
    qkv_memory_stats before = qkv_context_memory(r.ctx);
    for (uint64_t i = 0; i < STEPS; i++) {
        counted.made = (calls){0};
        __atomic_store_n(&counted.on, 1, __ATOMIC_SEQ_CST);
        qkv_status status = training_step(&r, WARM_UPS + i);
        __atomic_store_n(&counted.on, 0, __ATOMIC_SEQ_CST);
        made[i] = counted.made;
        assert_int_equal(status, QKV_OK);
    }
    qkv_memory_stats after = qkv_context_memory(r.ctx);
    print_message("%s: %ld calls by the libraries in every step\n", qkv_model_type_name(type),
                  made[0].libraries);
    bool card = qkv__context_device(r.ctx)->products != 0; /* whose driver has its own affairs */
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(made[i].qkv, 0);
        assert_true(card || made[i].libraries == made[0].libraries);
    }
    assert_int_equal(after.calls, before.calls);
    assert_int_equal(after.live_bytes, before.live_bytes);
    training_end(&r);
}

static void test_steady_step(void **state)
{
    (void)state;
    check_steady(qkv_gpt2_type());
    check_steady(qkv_llama_type());
}

/* That the counting sees calls and knows whose they are, so that a zero says something. */
static void test_counting(void **state)
{
    (void)state;
    if (!COUNTS_CALLS)
        skip();
    qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    counted.made = (calls){0};
    __atomic_store_n(&counted.on, 1, __ATOMIC_SEQ_CST);
    void *p = qkv_malloc(ctx, 100);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *text = strdup("allocated by the C library");
    __atomic_store_n(&counted.on, 0, __ATOMIC_SEQ_CST);
    assert_string_equal(text, "allocated by the C library"); /* or clang leaves it out */
    assert_int_equal(counted.made.qkv, 2);
    assert_int_equal(counted.made.libraries, 1);
    assert_int_equal(counted.made.openmp, 0);
    assert_true(counted.openmp[0][0] > 0);
    munmap(page, 4096);
    free(text);
    qkv_free(ctx, p);
    qkv_context_destroy(ctx);
}

static void test_500_steps(void **state)
{
    (void)state;
    training r;
    training_begin(&r, qkv_llama_type(), 1, 16, 2, 16);
    size_t early = 0;
    for (uint64_t i = 0; i < 500; i++) {
        assert_int_equal(training_step(&r, i), QKV_OK);
        if (i == 19)
            early = qkv_machine_rss();
    }
    size_t late = qkv_machine_rss();
    print_message("%zu kB after 20 steps, %zu kB after 500\n", early >> 10, late >> 10);
    if (COUNTS_CALLS) /* a sanitizer keeps for a while what was freed */
        assert_true(late <= early + (512 << 10)); /* 1 kB a step; the system counts in lumps */
    training_end(&r);
}

/* Attention of T tokens, forward and backward: bytes of step memory and scratch. */
static size_t attention_bytes(unsigned isa, size_t T)
{
    qkv_context_options o = qkv_context_defaults();
    o.threads = 2;
    o.isa = isa;
    qkv_context *ctx;
    qkv_tape *t;
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    const size_t shape[] = {1, T, 1, 16};
    qkv_tensor *in[3];
    for (size_t i = 0; i < 3; i++) {
        in[i] = qkv_require_grad(t, qkv_tensor_from(t, NULL, 4, shape));
        assert_non_null(in[i]);
        for (size_t n = 0; n < qkv_count(in[i]); n++)
            qkv_tensor_fill(in[i])[n] = (qkv_real)((double)((n + i) * 37 % 101) / 50 - 1);
    }
    qkv_tensor *y = qkv_attention(t, in[0], in[1], in[2],
                                  &(qkv_attention_options){.causal = true});
    assert_int_equal(qkv_backward_from(t, &(qkv_backward_args){.n = 1, .outputs = &y}), QKV_OK);
    size_t bytes = qkv_tape_high_water(t) + qkv_tape_scratch_high_water(t);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return bytes;
}

static void test_attention_is_linear(void **state)
{
    (void)state;
    for (size_t i = 0; i < ISAS; i++) {
        if (isa_list[i] == QKV_ISA_REFERENCE || !machine_has(isa_list[i]))
            continue;
        size_t rss = qkv_machine_peak_rss(), bytes[3];
        for (size_t n = 0; n < 3; n++)
            bytes[n] = attention_bytes(isa_list[i], (size_t)2048 << n);
        size_t grown = qkv_machine_peak_rss() - rss;
        print_message("%zu, %zu, %zu bytes at 2048, 4096, 8192 tokens; peak grew by %zu\n",
                      bytes[0], bytes[1], bytes[2], grown);
        /* a + b T: both steps have the same slope; a square would quadruple. */
        assert_in_range(bytes[2] - bytes[1], 2 * (bytes[1] - bytes[0]) - 65536,
                        2 * (bytes[1] - bytes[0]) + 65536);
        /* All of it is near what is resident, and that far from the weights' 268 MB. */
        assert_true(bytes[2] < (size_t)16 << 20);
        if (COUNTS_CALLS)
            assert_true(grown < bytes[2] + ((size_t)8 << 20));
    }
}

/* A convolution and its gradients take less beside their tensors than the windows written out
 * would, which is 9 times the image. */
static void test_convolution_unfolds_nothing(void **state)
{
    (void)state;
    const size_t image[] = {1, 96, 96, 64}, window[] = {64, 3, 3, 64};
    const size_t unfolded = 9 * 96 * 96 * 64 * sizeof(qkv_real);
    const qkv_conv_options same = {.top = 1, .left = 1, .bottom = 1, .right = 1};
    qkv_context_options o = qkv_context_defaults();
    o.threads = 2;
    qkv_context *ctx;
    qkv_tape *t;
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    size_t rss = qkv_machine_peak_rss();
    qkv_tensor *in[] = {qkv_tensor_from(t, NULL, 4, image), qkv_tensor_from(t, NULL, 4, window)};
    for (size_t i = 0; i < 2; i++) {
        qkv_require_grad(t, in[i]);
        for (size_t n = 0; n < qkv_count(in[i]); n++)
            qkv_tensor_fill(in[i])[n] = (qkv_real)((double)((n + i) * 37 % 101) / 50 - 1);
    }
    qkv_tensor *y = qkv_conv2d(t, in[0], in[1], NULL, &same);
    assert_int_equal(qkv_backward_from(t, &(qkv_backward_args){.n = 1, .outputs = &y}), QKV_OK);
    size_t scratch = qkv_tape_scratch_high_water(t), beside = qkv_tape_high_water(t);
    size_t grown = qkv_machine_peak_rss() - rss;
    print_message("%zu bytes of scratch, %zu of tensors, peak grew by %zu; unfolded: %zu\n",
                  scratch, beside, grown, unfolded);
    /* A card writes the windows out, once, and gets tiles that its products fill. */
    bool card = qkv__context_device(ctx)->products != 0;
    assert_true(scratch < (card ? unfolded + unfolded / 16 : unfolded / 4));
    if (COUNTS_CALLS && !card) /* what the library might take for itself is in there */
        assert_true(grown < beside + unfolded / 2);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_500_steps),
        cmocka_unit_test(test_attention_is_linear),
        cmocka_unit_test(test_convolution_unfolds_nothing),
        cmocka_unit_test(test_counting),
        cmocka_unit_test(test_steady_step),
    };
    return cmocka_run_group_tests(tests, find_libraries, NULL);
}
