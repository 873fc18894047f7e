/* test_quantized_golden.c - directories that compressed-tensors packed (recipe:
 * tools/make-golden/quantized.py), read here: the same weights to the bit and the same logits; and
 * nearly so where they are kept in as many bits as they have. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "files.h"
#include "golden.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"
#include "tapes.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/quantized/"
enum { B = 2, T = 17, ROWS = B * T };

/* off: of a logit, as a share of the largest, where x and the output layer are rounded too. */
static const struct {
    const char *name;
    qkv_weights weights;
    double off;
} models[] = {{"int8", QKV_WEIGHTS_INT8, 0.04}, {"int8-groups", QKV_WEIGHTS_INT8, 0.04},
              {"int4", QKV_WEIGHTS_INT4, 0.04}, {"int4-rows", QKV_WEIGHTS_INT4, 0.04}};
enum { MODELS = sizeof models / sizeof *models };

static const char *golden_path(const char *name, const char *end)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, GOLDEN "%s%s", name, end);
    return path;
}

static qkv_safetensors *open_golden(fixture *f, const char *name)
{
    qkv_safetensors *s;
    if (qkv_safetensors_open(&s, f->ctx, golden_path(name, ".safetensors")))
        fail_msg("%s", qkv_context_message(f->ctx));
    return s;
}

static qkv_real *take(const qkv_safetensors *s, const char *name, size_t *count)
{
    const qkv_safetensor *t = qkv_safetensors_find(s, name);
    assert_non_null(t);
    qkv_real *x = malloc(t->count * sizeof *x);
    assert_non_null(x);
    assert_int_equal(qkv_safetensors_read(s, t, 0, t->count, x), QKV_OK);
    *count = t->count;
    return x;
}

/* Logits may be off by `share` of the largest. */
static void check_logits(fixture *f, const char *name, qkv_model *m, double share)
{
    const size_t shape[] = {B, T};
    qkv_safetensors *golden = open_golden(f, name);
    size_t n;
    int64_t wide[ROWS];
    int32_t ids[ROWS];
    const qkv_safetensor *t = qkv_safetensors_find(golden, "ids");
    assert_true(t && t->count == ROWS);
    assert_int_equal(qkv_safetensors_read_ints(golden, t, 0, ROWS, wide), QKV_OK);
    for (size_t i = 0; i < ROWS; i++)
        ids[i] = (int32_t)wide[i];
    qkv_real *expected = take(golden, "logits", &n);
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, false);
    qkv_tensor *x = qkv_tensor_ids(f->t, ids, 2, shape);
    const qkv_tensor *y = qkv_lm_logits(m, f->t, qkv_lm_hidden(m, f->t, x, 0, NULL, NULL));
    assert_true(y && qkv_count(y) == n);
    const qkv_real *found = qkv_data(f->t, y);
    double allowed = share * largest(expected, n), worst = 0;
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)found[i] - (double)expected[i]);
        worst = !(off <= worst) ? off : worst;
    }
    print_message("%s: off by %.3g, %.3g allowed\n", name, worst, allowed);
    assert_true(worst <= allowed);
    qkv_tape_reset(f->t);
    free(expected);
    qkv_safetensors_close(golden);
}

/* What the model would save as f32 is what compressed-tensors unpacks. */
static void check_weights(fixture *f, const char *name, qkv_model *m)
{
    static const char *const tensors[] = {"model.layers.0.self_attn.k_proj.weight",
                                          "model.layers.0.mlp.down_proj.weight"};
    char dir[] = "/tmp/qkv-quantized-XXXXXX", path[PATH_BYTES];
    assert_non_null(mkdtemp(dir));
    assert_int_equal(qkv_hub_save(m, dir, NULL), QKV_OK);
    qkv_safetensors *golden = open_golden(f, name), *saved;
    assert_int_equal(qkv_safetensors_open(&saved, f->ctx, dir), QKV_OK);
    for (size_t i = 0; i < 2; i++) {
        size_t n, count;
        qkv_real *expected = take(golden, tensors[i], &n), *found = take(saved, tensors[i], &count);
        assert_int_equal(n, count);
        assert_memory_equal(found, expected, n * sizeof *found);
        free(expected);
        free(found);
    }
    qkv_safetensors_close(golden);
    qkv_safetensors_close(saved);
    static const char *const files[] = {"config.json", "model.safetensors",
                                        "generation_config.json"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void test_in_f32(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < MODELS; i++) {
        qkv_model *m;
        if (qkv_hub_load(&m, f->ctx, golden_path(models[i].name, "")))
            fail_msg("%s", qkv_context_message(f->ctx));
        check_logits(f, models[i].name, m, 1e-5);
        check_weights(f, models[i].name, m);
        qkv_model_destroy(m);
    }
}

static void test_as_stored(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < MODELS; i++) {
        qkv_model *m;
        qkv_weights weights;
        const char *path = golden_path(models[i].name, "");
        assert_int_equal(qkv_hub_weights(&weights, f->ctx, path), QKV_OK);
        assert_int_equal(weights, models[i].weights);
        assert_int_equal(qkv_hub_load_stored(&m, f->ctx, path, QKV_WEIGHTS_AUTO), QKV_OK);
        check_logits(f, models[i].name, m, models[i].off);
        qkv_model_destroy(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_f32, setup, teardown),
        cmocka_unit_test_setup_teardown(test_as_stored, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
