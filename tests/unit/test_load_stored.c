/* test_load_stored.c - models that are kept in fewer bits while they are read: the same as reading
 * all and storing then, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qkv/gpt.h"
#include "qkv/hub.h"
#include "tapes.h"

enum { TOKENS = 9 };

/* A random model of the type in a directory of its own, under `dir`. */
static void save_model(qkv_context *ctx, const qkv_model_type *type, char *dir)
{
    qkv_gpt_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.vocab = 300;
    c.width = 96;
    c.layers = 2;
    c.heads = c.kv_heads = 4;
    c.positions = 64;
    assert_int_equal(qkv_model_create(&m, ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 3), QKV_OK);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(qkv_hub_save(m, dir, NULL), QKV_OK);
    qkv_model_destroy(m);
}

static void remove_model(const char *dir)
{
    static const char *const files[] = {"config.json", "model.safetensors",
                                        "generation_config.json"};
    char path[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

static double loss_of(qkv_tape *t, qkv_model *m)
{
    const int32_t ids[TOKENS] = {5, 9, 1, 77, 3, 12, 40, 8, 299};
    const size_t shape[] = {1, TOKENS};
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_tensor_ids(t, ids, 2, shape);
    qkv_tensor *y = qkv_lm_loss(m, t, qkv_lm_hidden(m, t, x, 0, NULL, NULL), x, NULL);
    double loss = y ? (double)qkv_item(t, y) : -1;
    qkv_tape_reset(t);
    return loss;
}

/* gpt2 keeps query, key and value in one tensor, turned; llama in three. */
static void test_same_as_storing(void **state)
{
    fixture *f = *state;
    const qkv_model_type *const types[] = {qkv_gpt2_type(), qkv_llama_type()};
    for (size_t i = 0; i < 2; i++) {
        char dir[] = "/tmp/qkv-stored-XXXXXX";
        save_model(f->ctx, types[i], dir);
        for (qkv_weights w = QKV_WEIGHTS_AUTO; w <= QKV_WEIGHTS_INT4; w++) {
            qkv_model *whole, *stored;
            assert_int_equal(qkv_hub_load(&whole, f->ctx, dir), QKV_OK);
            assert_int_equal(qkv_params_store(qkv_model_params(whole), w), QKV_OK);
            assert_int_equal(qkv_hub_load_stored(&stored, f->ctx, dir, w), QKV_OK);
            qkv_params *a = qkv_model_params(whole), *b = qkv_model_params(stored);
            for (size_t k = 0; k < qkv_params_count(a); k++)
                assert_int_equal(qkv_param_weights(qkv_params_at(a, k)),
                                 qkv_param_weights(qkv_params_at(b, k)));
            assert_int_equal(qkv_params_bytes(a), qkv_params_bytes(b));
            double expected = loss_of(f->t, whole);
            assert_true(expected > 0 && loss_of(f->t, stored) == expected);
            qkv_model_destroy(whole);
            qkv_model_destroy(stored);
        }
        remove_model(dir);
    }
}

static void test_refusals(void **state)
{
    fixture *f = *state;
    char dir[] = "/tmp/qkv-stored-XXXXXX", path[64];
    qkv_model *m = NULL;
    save_model(f->ctx, qkv_llama_type(), dir);
    assert_int_equal(qkv_hub_load_stored(&m, f->ctx, dir, (qkv_weights)9), QKV_E_ARGUMENT);
    assert_null(m);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_int_equal(truncate(path, 5000), 0); /* in the middle of the tensors, or before them */
    assert_int_not_equal(qkv_hub_load_stored(&m, f->ctx, dir, QKV_WEIGHTS_INT8), QKV_OK);
    assert_null(m);
    assert_non_null(strstr(qkv_context_message(f->ctx), dir));
    remove_model(dir);
    assert_int_not_equal(qkv_hub_load_stored(&m, f->ctx, dir, QKV_WEIGHTS_AUTO), QKV_OK);
    assert_null(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_as_storing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
