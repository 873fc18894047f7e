/* test_models_golden.c - whole models against transformers (recipe: tools/make-golden/models.py):
 * a directory it saved, loaded here, gives the same logits, loss and gradient of every tensor,
 * with each instruction set's kernels, and is saved again with the same tensors.
 *
 * A tensor may be off by 1e-5 of its largest number, or of 1e-3 of the largest gradient of its
 * layer where that is more: the gradient of a key bias is zero by mathematics. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "files.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/models/"
enum { B = 2, T = 17, ROWS = B * T };
static const double tolerance = 1e-5;

static const char *const models[] = {"gpt2", "gpt2-untied", "llama", "llama-tied"};
enum { MODELS = sizeof models / sizeof *models };

typedef struct {
    const char *name;
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *t;
    qkv_safetensors *golden;
    int32_t ids[ROWS], targets[ROWS];
    double worst; /* of all comparisons, as a share of what is allowed */
} fixture;

static void read_ids(const fixture *f, const char *name, int32_t *out)
{
    int64_t wide[ROWS];
    const qkv_safetensor *s;
    const size_t shape[] = {B, T};
    assert_int_equal(qkv_safetensors_get(f->golden, name, 2, shape, &s), QKV_OK);
    assert_int_equal(qkv_safetensors_read_ints(f->golden, s, 0, ROWS, wide), QKV_OK);
    for (size_t i = 0; i < ROWS; i++)
        out[i] = (int32_t)wide[i];
}

static void open_fixture(fixture *f, const char *name, unsigned isa)
{
    qkv_context_options o = qkv_context_defaults();
    o.isa = isa;
    o.threads = 2;
    *f = (fixture){.name = name};
    char path[PATH_BYTES];
    assert_int_equal(qkv_context_create(&f->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    if (qkv_hub_load(&f->model, f->ctx, path))
        fail_msg("%s", qkv_context_message(f->ctx));
    (void)snprintf(path, sizeof path, GOLDEN "%s.safetensors", name);
    assert_int_equal(qkv_safetensors_open(&f->golden, f->ctx, path), QKV_OK);
    read_ids(f, "ids", f->ids);
    read_ids(f, "targets", f->targets);
}

static void close_fixture(fixture *f)
{
    qkv_safetensors_close(f->golden);
    qkv_tape_destroy(f->t);
    qkv_model_destroy(f->model);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
}

/* The numbers of a golden tensor; the caller frees. */
static qkv_real *take(const fixture *f, const char *name, size_t *count)
{
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, name);
    if (!s)
        fail_msg("%s: %s is not in the golden file", f->name, name);
    qkv_real *x = malloc((s->count + 1) * sizeof *x);
    assert_non_null(x);
    assert_int_equal(qkv_safetensors_read(f->golden, s, 0, s->count, x), QKV_OK);
    *count = s->count;
    return x;
}

static double largest(const qkv_real *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

static void check(fixture *f, const char *what, double error, double size)
{
    if (!(error <= tolerance * size))
        fail_msg("%s: %s: off by %.3g of %.3g", f->name, what, error, size);
    f->worst = fmax(f->worst, error / (tolerance * size));
}

static void compare(fixture *f, const char *what, const char *golden, const qkv_real *got,
                    size_t count)
{
    size_t n;
    qkv_real *expected = take(f, golden, &n);
    double error = 0;
    assert_non_null(got);
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)got[i] - (double)expected[i]);
        if (!(e <= error))
            error = e;
    }
    check(f, what, error, largest(expected, n));
    free(expected);
}

/* ---- gradients -------------------------------------------------------------------------- */

/* Bytes of the name that say which layer it is: "transformer.h.0." or all of it. */
static size_t layer_part(const char *name)
{
    size_t digit = strcspn(name, "0123456789");
    return name[digit] ? digit + strspn(name + digit, "0123456789") + 1 : strlen(name);
}

static double largest_of_layer(const fixture *f, const char *name)
{
    double most = 0;
    for (size_t i = 0; i < qkv_safetensors_count(f->golden); i++) {
        const char *other = qkv_safetensors_at(f->golden, i)->name;
        if (strncmp(other, "grad.", 5) != 0 || strncmp(other + 5, name, layer_part(name)) != 0)
            continue;
        size_t n;
        qkv_real *g = take(f, other, &n);
        most = fmax(most, largest(g, n));
        free(g);
    }
    return most;
}

/* The number of the row's region that the file has at (i, j). */
static double element(const qkv_row *row, const qkv_real *region, size_t i, size_t j)
{
    bool transposed = row->ndim == 2 && row->perm[0] == 1;
    return (double)region[transposed ? j * row->shape[0] + i : i * row->shape[1] + j];
}

static qkv_status compare_gradient(void *user, const qkv_row *row)
{
    fixture *f = user;
    char golden[128];
    if (row->kind != QKV_ROW_PARAM)
        return QKV_OK;
    (void)snprintf(golden, sizeof golden, "grad.%s", row->name);
    const qkv_real *grad = qkv_param_grad(row->param);
    size_t rows = row->ndim == 2 ? row->shape[0] : 1, columns = row->shape[row->ndim - 1], n;
    qkv_row flat = *row;
    flat.shape[0] = rows;
    flat.shape[1] = columns;
    qkv_real *expected = take(f, golden, &n);
    assert_non_null(grad);
    assert_int_equal(n, rows * columns);
    double error = 0;
    for (size_t i = 0; i < n; i++) {
        double got = element(&flat, grad + row->offset, i / columns, i % columns);
        double e = fabs(got - (double)expected[i]);
        if (!(e <= error))
            error = e;
    }
    check(f, golden, error, fmax(largest(expected, n), 1e-3 * largest_of_layer(f, row->name)));
    free(expected);
    return QKV_OK;
}

static qkv_status count_rows(void *user, const qkv_row *row)
{
    *(size_t *)user += row->kind == QKV_ROW_PARAM;
    return QKV_OK;
}

/* ---- the tests ---------------------------------------------------------------------------- */

static qkv_tensor *hidden(fixture *f, size_t batch, size_t length, const int32_t *ids,
                          size_t sequences, const int32_t *offsets, qkv_lm_cache *cache)
{
    const size_t shape[] = {batch, length};
    qkv_tensor *x = qkv_tensor_ids(f->t, ids, 2, shape);
    return qkv_lm_hidden(f->model, f->t, x, sequences, offsets, cache);
}

static void compare_logits(fixture *f, const char *what, qkv_tensor *h)
{
    const qkv_tensor *logits = qkv_lm_logits(f->model, f->t, h);
    if (qkv_tape_status(f->t))
        fail_msg("%s: %s: %s", f->name, what, qkv_context_message(f->ctx));
    compare(f, what, "logits", qkv_data(f->t, logits), qkv_count(logits));
}

static void train_step(fixture *f)
{
    size_t rows = 0, goldens = 0;
    const size_t shape[] = {B, T};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, false);
    qkv_params_zero_grad(qkv_model_params(f->model));
    qkv_tensor *h = hidden(f, B, T, f->ids, 0, NULL, NULL);
    compare_logits(f, "logits", h);
    qkv_tensor *loss =
        qkv_lm_loss(f->model, f->t, h, qkv_tensor_ids(f->t, f->targets, 2, shape), NULL);
    compare(f, "loss", "loss", qkv_data(f->t, loss), 1);
    assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
    assert_int_equal(qkv_model_visit(f->model, compare_gradient, f), QKV_OK);
    assert_int_equal(qkv_model_visit(f->model, count_rows, &rows), QKV_OK);
    for (size_t i = 0; i < qkv_safetensors_count(f->golden); i++)
        goldens += strncmp(qkv_safetensors_at(f->golden, i)->name, "grad.", 5) == 0;
    assert_int_equal(rows, goldens);
}

static void run_all(unsigned isa)
{
    for (size_t i = 0; i < MODELS; i++) {
        fixture f;
        open_fixture(&f, models[i], isa);
        train_step(&f);
        print_message("%s: at worst %.3g of what is allowed\n", f.name, f.worst);
        close_fixture(&f);
    }
}

static void test_reference(void **state)
{
    (void)state;
    run_all(QKV_ISA_REFERENCE);
}

static void test_avx2(void **state)
{
    (void)state;
    run_all(QKV_ISA_AVX2);
}

static void test_all(void **state)
{
    (void)state;
    run_all(QKV_ISA_ALL);
}

/* Both sequences as one packed row, which is how lengths that differ are computed. */
static void test_packed(void **state)
{
    (void)state;
    static const int32_t offsets[] = {0, T, ROWS};
    for (size_t i = 0; i < MODELS; i++) {
        fixture f;
        open_fixture(&f, models[i], QKV_ISA_ALL);
        qkv_tape_mode(f.t, false, false);
        compare_logits(&f, "packed logits", hidden(&f, 1, ROWS, f.ids, B, offsets, NULL));
        close_fixture(&f);
    }
}

/* A few tokens, one token, the rest: with keys and values kept in between. */
static void test_decoding(void **state)
{
    (void)state;
    static const size_t cuts[] = {0, 5, 6, 7, T};
    for (size_t i = 0; i < MODELS; i++) {
        fixture f;
        qkv_lm_cache *cache;
        qkv_tensor *part[4];
        open_fixture(&f, models[i], QKV_ISA_ALL);
        qkv_tape_mode(f.t, false, false);
        assert_int_equal(qkv_lm_cache_create(&cache, f.model, B, T), QKV_OK);
        for (size_t k = 0; k < 4; k++) {
            int32_t ids[ROWS];
            size_t n = cuts[k + 1] - cuts[k];
            for (size_t b = 0; b < B; b++)
                memcpy(ids + b * n, f.ids + b * T + cuts[k], n * sizeof *ids);
            part[k] = hidden(&f, B, n, ids, 0, NULL, cache);
        }
        compare_logits(&f, "logits with a cache", qkv_concat(f.t, 1, 4, part));
        qkv_lm_cache_destroy(cache);
        close_fixture(&f);
    }
}

static void compare_files(qkv_context *ctx, const char *expected, const char *got)
{
    qkv_safetensors *a, *b;
    assert_int_equal(qkv_safetensors_open(&a, ctx, expected), QKV_OK);
    if (qkv_safetensors_open(&b, ctx, got))
        fail_msg("%s", qkv_context_message(ctx));
    assert_int_equal(qkv_safetensors_count(a), qkv_safetensors_count(b));
    for (size_t i = 0; i < qkv_safetensors_count(a); i++) {
        const qkv_safetensor *x = qkv_safetensors_at(a, i), *y = qkv_safetensors_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_string_equal(x->dtype, y->dtype);
        assert_int_equal(x->ndim, y->ndim);
        assert_memory_equal(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    qkv_safetensors_close(a);
    qkv_safetensors_close(b);
}

/* Saved whole and in shards: the tensors are the original's, byte for byte; the configuration,
 * read again, is the same. */
static void test_saved_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * MODELS; i++) {
        fixture f;
        char folder[PATH_BYTES];
        qkv_model *again;
        qkv_hub_save_options o = qkv_hub_save_defaults();
        o.shard_bytes = i % 2 ? 10000 : 0;
        open_fixture(&f, models[i / 2], QKV_ISA_ALL);
        make_folder(folder);
        assert_int_equal(qkv_hub_save(f.model, folder, &o), QKV_OK);
        assert_int_equal(access(in(folder, "model.safetensors"), F_OK) == 0, i % 2 == 0);
        compare_files(f.ctx, in(GOLDEN, f.name), folder);
        assert_int_equal(qkv_hub_load(&again, f.ctx, folder), QKV_OK);
        assert_memory_equal(qkv_model_config(f.model), qkv_model_config(again),
                            sizeof(qkv_gpt_config));
        qkv_model_destroy(again);
        remove_folder(folder);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_all),       cmocka_unit_test(test_packed),
        cmocka_unit_test(test_decoding),  cmocka_unit_test(test_saved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
