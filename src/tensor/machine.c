/* machine.c - measures what this machine can do at best: products and reading. */
#include "qkv/machine.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/device.h"
#include "kernel/kernel.h"
#include "kernel/small.h"
#include "tensor/param.h"
#include "tensor/tape.h"

enum {
    PRODUCT_SIZE = 1536,
    READ_PASSES = 5,
    STREAMS = 4,
    LINE_WORDS = 8,
    COPIES = 4
};
static const size_t read_bytes = (size_t)1 << 28, card_bytes = (size_t)1 << 30;

/* Products whose rate is a device's limit. Below `least` FLOP/s (an emulated device, on which a
 * large product takes minutes) it is the best rate of `tries` small ones. Several, because a thread
 * that waits for a busy processor once must not look like an emulated one. */
typedef struct {
    size_t first, size;
    int tries;
    double least;
} limit_products;
static const limit_products of_processor = {256, 2048, 5, 1e9}, of_card = {512, 8192, 1, 1e11};

/* A device with products of its own is a card; the tests' guarded one has the processor's. */
const char *qkv_machine_card(const qkv_context *ctx)
{
    const qkv__device *device = qkv__context_device(ctx);
    return device->products ? device->name : NULL;
}

static void machine_fill(qkv_real *x, size_t n, int threads)
{
#pragma omp parallel for num_threads(threads) default(none) shared(x, n)
    for (size_t i = 0; i < n; i++) {
        x[i] = (qkv_real)(i % 17) / 16;
    }
}

/* glibc 2.36 (not 2.41) does not use freed memory again that was aligned to pages, as oneDNN's
 * copies of operands are: six large products leave 22 MB a thread behind, which would count as
 * memory that training takes. */
static void give_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Of products of size x size matrices, of training or of inference; 0: a failure. */
static double best_product(qkv_context *ctx, bool training, size_t size, int repeats)
{
    const qkv__device *device = qkv__context_device(ctx);
    const size_t n = size * size;
    qkv_exec e = qkv__exec_of(ctx, NULL);
    double best = 0;
    if (qkv__arena_create_on(&e.scratch, ctx, device, "scratch")) {
        return 0;
    }
    const size_t bytes = 3 * n * sizeof(qkv_real);
    qkv_real *c = device->alloc(ctx, bytes), *first = c ? qkv__map(ctx, c, bytes) : NULL;
    if (first) {
        (void)qkv_machine_products(ctx);
        const qkv_kernels *k = qkv__kernels_of(ctx, training);
        qkv_k_gemm_args args = {
            .m = size, .n = size, .k = size, .lda = size, .ldb = size, .ldc = size};
        machine_fill(first, 3 * n, e.threads);
        qkv__unmap(ctx, first, c, bytes, true);
        for (int i = 0; i <= repeats; i++) {
            double start = qkv_now();
            k->gemm(&e, c, c + n, c + 2 * n, &args);
            (void)device->sync(ctx);
            double rate = 2.0 * (double)n * (double)size / (qkv_now() - start);
            best = i > 0 && rate > best ? rate : best;
        }
    }
    device->free(ctx, c);
    qkv__arena_destroy(e.scratch);
    give_back();
    return best;
}

/* The same, of x (size, size) and a weight (size, size) in fewer bits. */
static double best_small_product(qkv_context *ctx, qkv_weights weights, size_t size, int repeats)
{
    const qkv__device *device = qkv__context_device(ctx);
    const size_t n = size * size;
    qkv_k_small w = {.type = qkv__small_type(weights), .n = size, .k = size};
    const size_t words = qkv__small_word_bytes(&w);
    const size_t reals = 2 * n * sizeof(qkv_real);
    const size_t bytes = reals + words + qkv__small_scale_bytes(&w);
    double best = 0;
    qkv_tape *t;
    if (qkv_tape_create(&t, ctx))
        return 0;
    qkv_tape_mode(t, false, false);
    qkv_real *x = device->alloc(ctx, bytes), *first = x ? qkv__map(ctx, x, bytes) : NULL;
    if (first) {
        w.words = (char *)first + reals;
        w.scales = (char *)w.words + words;
        qkv__small_clear(&w);
        machine_fill(first, n, t->exec.threads);
        qkv__unmap(ctx, first, x, bytes, true);
        w.words = (char *)x + reals;
        w.scales = (char *)w.words + words;
        for (int i = 0; i <= repeats; i++) {
            double start = qkv_now();
            qkv__small_product(t, x + n, x, &w, NULL, size);
            (void)device->sync(ctx);
            double rate = 2.0 * (double)n * (double)size / (qkv_now() - start);
            best = i > 0 && rate > best ? rate : best;
        }
        if (qkv_tape_status(t))
            best = 0;
    }
    device->free(ctx, x);
    qkv_tape_destroy(t);
    give_back();
    return best;
}

/* Of training's products, or of inference's with such weights; a card multiplies in f32. */
static double best_of(qkv_context *ctx, bool training, qkv_weights weights, size_t size,
                      int repeats)
{
    return weights > QKV_WEIGHTS_F32 && !qkv__context_device(ctx)->products
               ? best_small_product(ctx, weights, size, repeats)
               : best_product(ctx, training, size, repeats);
}

static double limit_of(qkv_context *ctx, bool training, qkv_weights weights, int repeats)
{
    if (repeats < 1) {
        qkv_fail(ctx, QKV_E_ARGUMENT, "peak: repeats must be at least 1, not %d", repeats);
        return 0;
    }
    const limit_products *of = qkv__context_device(ctx)->products ? &of_card : &of_processor;
    double rate = best_of(ctx, training, weights, of->first, of->tries);
    return rate < of->least ? rate : best_of(ctx, training, weights, of->size, repeats);
}

double qkv_machine_peak_flops(qkv_context *ctx, int repeats)
{
    return limit_of(ctx, true, QKV_WEIGHTS_F32, repeats);
}

double qkv_weights_peak_flops(qkv_context *ctx, qkv_weights weights, int repeats)
{
    if (weights > QKV_WEIGHTS_INT4) {
        qkv_fail(ctx, QKV_E_ARGUMENT, "peak: no weights of kind %d", (int)weights);
        return 0;
    }
    return limit_of(ctx, false, weights, repeats);
}

size_t qkv_machine_product_bytes(qkv_context *ctx)
{
    const size_t begin = qkv_machine_rss(); /* small products leave stacks and code behind, too */
    const bool slow = best_product(ctx, true, of_processor.first, of_processor.tries) <
                      of_processor.least;
    const size_t settled = qkv_machine_rss(), left = settled > begin ? settled - begin : 0;
    const size_t size = slow ? of_processor.first : PRODUCT_SIZE, n = size * size;
    const size_t bytes = 3 * n * sizeof(qkv_real);
    const qkv__device *device = qkv__context_device(ctx);
    qkv_exec e = qkv__exec_of(ctx, NULL);
    size_t grown = 0;
    if (qkv__arena_create_on(&e.scratch, ctx, device, "scratch"))
        return 0;
    qkv_real *c = device->alloc(ctx, bytes), *first = c ? qkv__map(ctx, c, bytes) : NULL;
    if (first) {
        machine_fill(first, 3 * n, e.threads);
        qkv__unmap(ctx, first, c, bytes, true);
        size_t before = qkv_machine_rss();
        qkv__kernels_of(ctx, true)->gemm(&e, c, c + n, c + 2 * n, &(qkv_k_gemm_args){
            .m = size, .n = size, .k = size, .lda = size, .ldb = size, .ldc = size});
        size_t after = qkv_machine_peak_rss(), scratch = qkv__arena_high_water(e.scratch);
        grown = left + (after > before + scratch ? after - before - scratch : 0);
    }
    device->free(ctx, c);
    qkv__arena_destroy(e.scratch);
    return grown;
}

/* Everything read once, by each thread its part, as STREAMS runs side by side. A word of each line
 * brings the whole line, and loading all eight words leaves fewer lines in flight: 25 GB/s instead
 * of 31 on one core of Zen 4. The value only makes sure that the loads are done. */
static uint64_t machine_read_all(const uint64_t *x, size_t run, int threads)
{
    uint64_t all = 0;
#pragma omp parallel for num_threads(threads) schedule(static) default(none)                       \
    shared(x, run, threads) reduction(^ : all)
    for (int t = 0; t < threads; t++) {
        const uint64_t *part = x + (size_t)t * STREAMS * run;
        uint64_t sum[STREAMS] = {0};
        for (size_t i = 0; i < run; i += LINE_WORDS) {
            for (size_t s = 0; s < STREAMS; s++) {
                sum[s] ^= part[s * run + i];
            }
        }
        all ^= sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
    }
    return all;
}

/* Copies are asked for several at a time, so that waiting for them is none of their time. */
static double card_bandwidth(qkv_context *ctx, const qkv__device *device)
{
    char *to = device->alloc(ctx, 2 * card_bytes);
    double best = 0;
    if (!to)
        return 0;
    device->fill(to, 0, 2 * card_bytes);
    for (int i = 0; i < READ_PASSES; i++) {
        if (device->sync(ctx))
            break;
        double start = qkv_now();
        for (int k = 0; k < COPIES; k++)
            device->copy(to, to + card_bytes, card_bytes);
        if (device->sync(ctx))
            break;
        double rate = 2.0 * COPIES * (double)card_bytes / (qkv_now() - start);
        best = rate > best ? rate : best;
    }
    device->free(ctx, to);
    return best;
}

/* The memory is an arena's, as a model's weights are on the CPU: it has the same kind of pages. */
double qkv_machine_read_bandwidth(qkv_context *ctx)
{
    int threads = qkv_context_threads(ctx);
    size_t run = read_bytes / sizeof(uint64_t) / (size_t)threads / STREAMS;
    run = run / LINE_WORDS * LINE_WORDS;
    size_t words = run * STREAMS * (size_t)threads;
    const qkv__device *device = qkv__context_device(ctx);
    qkv__arena *memory;
    double best = 0;
    if (device->products)
        return card_bandwidth(ctx, device);
    if (qkv__arena_create(&memory, ctx, "bandwidth")) {
        return 0;
    }
    uint64_t *x = qkv__arena_alloc(memory, words * sizeof *x);
    if (x) {
#pragma omp parallel for num_threads(threads) schedule(static) default(none) shared(x, words)
        for (size_t i = 0; i < words; i++) {
            x[i] = i;
        }
        volatile uint64_t seen = 0;
        for (int i = 0; i < READ_PASSES; i++) {
            double start = qkv_now();
            seen ^= machine_read_all(x, run, threads);
            double rate = (double)(words * sizeof *x) / (qkv_now() - start);
            best = rate > best ? rate : best;
        }
        (void)seen; /* written, so that the reads are made */
    }
    qkv__arena_destroy(memory);
    return best;
}
