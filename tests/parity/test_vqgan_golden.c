/* test_vqgan_golden.c - VQGAN and its discriminator against a torch module of the same wiring: a
 * directory in taming-transformers' names, loaded here, gives the same vectors, codes, pictures,
 * loss and gradient of every tensor (recipe: tools/make-golden/vqgan.py). The parameters are
 * computed by a rule that both sides know, so only samples of the gradients are compared, and
 * products with a fixed vector. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "model_golden.h"
#include "qkv/vqgan.h"

enum { SAMPLES = 64, SIDE = 16, MOST_ROWS = 256 };

/* Number i under that name, evenly in [-1, 1). */
static float noise(const char *name, size_t i)
{
    uint32_t h = 2166136261u, x = (uint32_t)i * 0x9E3779B1u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    x ^= h;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    x ^= x >> 16;
    return (float)((double)x / 2147483648.0 - 1);
}

/* ---- the directory ------------------------------------------------------------------------ */

typedef struct {
    qkv_safetensors_entry entry[MOST_ROWS];
    size_t shape[MOST_ROWS][QKV_MAX_DIMS];
    char name[MOST_ROWS][128];
    size_t count;
} rows;

static size_t numbers_of(const qkv_row *row)
{
    size_t n = 1;
    for (int i = 0; i < row->ndim; i++)
        n *= row->shape[i];
    return n;
}

/* Parameters by the rule; what batch norm keeps as a new layer has it. */
static qkv_status add_row(void *user, const qkv_row *row)
{
    static const int64_t none = 0;
    rows *r = user;
    size_t n = numbers_of(row), i = r->count++;
    bool flat = row->ndim <= 1, norm = flat && strstr(row->name, "weight");
    bool kept = row->kind == QKV_ROW_FIXED, ones = norm || strstr(row->name, "running_var");
    float scale = flat ? 0.3f : (float)(1.7 / sqrt((double)(n / row->shape[0])));
    float *data = malloc(n * sizeof *data);
    assert_true(data && r->count < MOST_ROWS);
    for (size_t k = 0; k < n; k++)
        data[k] = (kept ? 0 : noise(row->name, k) * scale) + (ones ? 1 : 0);
    memcpy(r->shape[i], row->shape, sizeof r->shape[i]);
    (void)snprintf(r->name[i], sizeof r->name[i], "%s", row->name);
    r->entry[i] = (qkv_safetensors_entry){.name = r->name[i], .ndim = row->ndim,
                                          .shape = r->shape[i], .data = data,
                                          .raw = row->integer ? &none : NULL,
                                          .store = row->integer ? QKV_STORE_I64 : QKV_STORE_F32};
    return QKV_OK;
}

static qkv_vqgan_config tiny(void)
{
    qkv_vqgan_config c;
    qkv_option_defaults(qkv_model_type_config(&qkv_vqgan_type), &c);
    c.channels = 32;
    c.multiples = (qkv_sizes){2, {1, 2}};
    c.blocks = 1;
    c.attention = (qkv_sizes){1, {8}};
    c.image = SIDE;
    c.z_channels = 24;
    c.code_width = 16;
    c.codes = 40;
    c.judge_channels = 8;
    c.judge_layers = 2;
    return c;
}

/* As qkv saves one, but with the rule's tensors. */
static void make_directory(char folder[PATH_BYTES])
{
    static rows r;
    qkv_context *ctx;
    qkv_model *m;
    const qkv_vqgan_config c = tiny();
    r.count = 0;
    make_folder(folder);
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_model_create(&m, ctx, &qkv_vqgan_type, &c), QKV_OK);
    assert_int_equal(qkv_hub_save(m, folder, NULL), QKV_OK);
    assert_int_equal(qkv_model_visit(m, add_row, &r), QKV_OK);
    assert_int_equal(qkv_safetensors_save(ctx, in(folder, "model.safetensors"), r.entry, r.count,
                                          NULL), QKV_OK);
    for (size_t i = 0; i < r.count; i++)
        free((void *)(uintptr_t)r.entry[i].data);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
}

static void open_model(fixture *f, const char *folder, unsigned isa)
{
    qkv_context_options o = qkv_context_defaults();
    o.isa = isa;
    o.threads = 2;
    *f = (fixture){.name = "vqgan"};
    assert_int_equal(qkv_context_create(&f->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    if (qkv_hub_load(&f->model, f->ctx, folder))
        fail_msg("%s", qkv_context_message(f->ctx));
    assert_int_equal(qkv_safetensors_open(&f->golden, f->ctx, QKV_SOURCE_DIR
                                          "/tests/golden/vqgan.safetensors"), QKV_OK);
}

/* ---- comparing ----------------------------------------------------------------------------- */

static void compare_tensor(fixture *f, const char *name, const qkv_tensor *x)
{
    if (qkv_tape_status(f->t))
        fail_msg("%s", qkv_context_message(f->ctx));
    compare(f, name, name, qkv_data(f->t, x), qkv_count(x));
}

static void compare_codes(fixture *f, const qkv_tensor *codes)
{
    int64_t expected[2 * SIDE * SIDE / 4];
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, "codes");
    assert_non_null(s);
    assert_non_null(qkv_data_ids(codes));
    assert_int_equal(s->count, qkv_count(codes));
    assert_int_equal(qkv_safetensors_read_ints(f->golden, s, 0, s->count, expected), QKV_OK);
    for (size_t i = 0; i < s->count; i++)
        assert_int_equal(qkv_data_ids(codes)[i], expected[i]);
}

/* What a bias adds to all pixels of a channel, a norm whose groups are one channel takes away, so
 * many of them have no gradient by mathematics; keys' never have one. */
static bool idle(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && strcmp(end, ".bias") == 0 && !strstr(name, "norm");
}

static qkv_status compare_samples(void *user, const qkv_row *row)
{
    fixture *f = user;
    char name[160];
    if (row->kind != QKV_ROW_PARAM)
        return QKV_OK;
    (void)snprintf(name, sizeof name, "grad.%s", row->name);
    size_t n = numbers_of(row), got, samples = n < SAMPLES ? n : SAMPLES;
    const qkv_real *grad = qkv_param_grad(row->param);
    qkv_real *expected = take(f, name, &got);
    assert_non_null(grad);
    assert_int_equal(got, samples + 1);
    double error = 0, dot = 0, size = fmax((double)expected[samples],
                                           (idle(row->name) ? 5e-2 : 1e-3) *
                                               largest_of_layer(f, row->name));
    for (size_t i = 0; i < samples; i++) {
        double e = fabs(element(row, grad + row->offset, n > SAMPLES ? i * n / SAMPLES : i) -
                        (double)expected[i]);
        error = e <= error ? error : e;
    }
    check(f, name, error, size);
    free(expected);
    (void)snprintf(name, sizeof name, "dot.%s", row->name);
    for (size_t i = 0; i < n; i++)
        dot += element(row, grad + row->offset, i) * (double)noise(name, i);
    expected = take(f, name, &got);
    check(f, name, fabs(dot - (double)expected[0]), size * sqrt((double)n));
    free(expected);
    return QKV_OK;
}

static qkv_tensor *picture(fixture *f)
{
    const size_t shape[] = {2, SIDE, SIDE, 3};
    qkv_tensor *x = qkv_tensor_from(f->t, NULL, 4, shape);
    assert_non_null(x);
    for (size_t i = 0; i < qkv_count(x); i++)
        qkv_tensor_fill(x)[i] = noise("pixels", i);
    return x;
}

/* mean (a - b)^2, where b does not move */
static qkv_tensor *distance(fixture *f, qkv_tensor *a, qkv_tensor *b)
{
    return qkv_mse_loss(f->t, a, qkv_detach(f->t, b));
}

static void train_step(const char *folder, unsigned isa)
{
    fixture f;
    open_model(&f, folder, isa);
    qkv_tape *t = f.t;
    qkv_tape_mode(t, true, true);
    qkv_tensor *x = picture(&f), *z = qkv_vqgan_encode(f.model, t, x);
    qkv_tensor *codes = qkv_vqgan_codes(f.model, t, z);
    qkv_tensor *vectors = qkv_vqgan_vectors(f.model, t, codes);
    qkv_tensor *through = qkv_add(t, z, qkv_detach(t, qkv_sub(t, vectors, z)));
    qkv_tensor *y = qkv_vqgan_decode(f.model, t, through);
    qkv_tensor *quantiser = qkv_add(t, distance(&f, z, vectors),
                                    qkv_scale(t, distance(&f, vectors, z), 0.25));
    qkv_tensor *logits = qkv_vqgan_judge(f.model, t, x);
    qkv_tensor *judged = qkv_mean(t, qkv_vqgan_judge(f.model, t, y));
    qkv_tensor *loss = qkv_add(t, qkv_l1_loss(t, y, x), qkv_scale(t, quantiser, 2));
    loss = qkv_add(t, loss, qkv_scale(t, judged, -0.1));
    compare_tensor(&f, "z", z);
    compare_codes(&f, codes);
    compare_tensor(&f, "decoded", y);
    compare_tensor(&f, "logits", logits);
    compare_tensor(&f, "loss", loss);
    assert_int_equal(qkv_backward(t, loss), QKV_OK);
    assert_int_equal(qkv_model_visit(f.model, compare_samples, &f), QKV_OK);
    print_message("vqgan: at worst %.3g of what is allowed\n", f.worst);
    close_fixture(&f);
}

static void run_all(unsigned isa)
{
    char folder[PATH_BYTES];
    make_directory(folder);
    train_step(folder, isa);
    remove_folder(folder);
}

/* Without a tape every layer's memory is released as soon as the next one has it, and the same
 * comes out. */
static void test_inference(void **state)
{
    (void)state;
    char folder[PATH_BYTES];
    fixture f;
    make_directory(folder);
    open_model(&f, folder, QKV_ISA_ALL);
    qkv_tape_mode(f.t, false, false);
    qkv_tensor *z = qkv_vqgan_encode(f.model, f.t, picture(&f));
    qkv_tensor *codes = qkv_vqgan_codes(f.model, f.t, z);
    compare_tensor(&f, "z", z);
    compare_codes(&f, codes);
    compare_tensor(&f, "decoded",
                   qkv_vqgan_decode(f.model, f.t, qkv_vqgan_vectors(f.model, f.t, codes)));
    close_fixture(&f);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_avx2), cmocka_unit_test(test_all),
        cmocka_unit_test(test_inference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
