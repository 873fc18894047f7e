/* test_batch_norm.c - batch norm's tensors in a file: PyTorch's names, shapes and types. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "files.h"
#include "hub/parts.h"
#include "model/model.h"
#include "qkv/safetensors.h"

enum { C = 3, COUNT = 70000 };

/* A model that is one batch norm. */
typedef struct {
    qkv_model base;
    qkv_batch_norm_layer layer;
} model;

static qkv_status visit(qkv_model *m, qkv_state_entry_fn *fn, void *user)
{
    return qkv_batch_norm_visit(&((model *)m)->layer, "features.1", fn, user);
}

static const qkv_model_type type = {.name = "test", .architecture = "Test", .prefix = "",
                                    .visit = visit};

static void fill(model *m, qkv_real first, qkv_real count)
{
    qkv_param *p[] = {m->layer.weight, m->layer.bias, m->layer.mean, m->layer.variance};
    for (size_t i = 0; i < 4 * C; i++)
        qkv_param_data(p[i / C])[i % C] = first + (qkv_real)i;
    qkv_param_data(m->layer.batches)[0] = count;
}

static void expect(model *m, qkv_real first, qkv_real count)
{
    qkv_param *p[] = {m->layer.weight, m->layer.bias, m->layer.mean, m->layer.variance};
    for (size_t i = 0; i < 4 * C; i++)
        assert_true(qkv_param_data(p[i / C])[i % C] == first + (qkv_real)i);
    assert_true(qkv_param_data(m->layer.batches)[0] == count);
}

static void expect_file(qkv_context *ctx, const char *dir)
{
    static const struct { const char *name, *dtype; int ndim; } rows[] = {
        {"features.1.weight", "F32", 1}, {"features.1.bias", "F32", 1},
        {"features.1.running_mean", "F32", 1}, {"features.1.running_var", "F32", 1},
        {"features.1.num_batches_tracked", "I64", 0},
    };
    qkv_safetensors *file;
    assert_int_equal(qkv_safetensors_open(&file, ctx, dir), QKV_OK);
    assert_int_equal(qkv_safetensors_count(file), 5);
    for (size_t i = 0; i < 5; i++) {
        const qkv_safetensor *t = qkv_safetensors_find(file, rows[i].name);
        assert_non_null(t);
        assert_string_equal(t->dtype, rows[i].dtype);
        assert_int_equal(t->ndim, rows[i].ndim);
    }
    int64_t count;
    assert_int_equal(qkv_safetensors_read_ints(file, qkv_safetensors_find(file, rows[4].name), 0, 1,
                                               &count), QKV_OK);
    assert_int_equal(count, COUNT);
    qkv_safetensors_close(file);
}

static void test_file(void **state)
{
    (void)state;
    char dir[PATH_BYTES];
    const qkv_hub_save_options o = {.store = QKV_STORE_F32};
    model m = {.base = {.type = &type}};
    make_folder(dir);
    assert_int_equal(qkv_context_create(&m.base.ctx, NULL), QKV_OK);
    assert_int_equal(qkv_params_create(&m.base.params, m.base.ctx), QKV_OK);
    assert_true(qkv_batch_norm_create(&m.layer, m.base.params, "norm", C));
    assert_true(qkv_param_frozen(m.layer.batches));
    fill(&m, 5, COUNT);
    assert_int_equal(qkv__hub_write_weights(&m.base, dir, &o), QKV_OK);
    expect_file(m.base.ctx, dir);
    fill(&m, -1, -1);
    assert_int_equal(qkv__hub_read_weights(&m.base, dir, false), QKV_OK);
    expect(&m, 5, COUNT);
    qkv_params_destroy(m.base.params);
    qkv_context_destroy(m.base.ctx);
    remove_folder(dir);
}

/* A count that is no integer is another thing. */
static void test_refused(void **state)
{
    (void)state;
    char dir[PATH_BYTES];
    const size_t shape[] = {C};
    const qkv_real numbers[C] = {1, 1, 1};
    static const char *const names[] = {"features.1.weight", "features.1.bias",
                                        "features.1.running_mean", "features.1.running_var",
                                        "features.1.num_batches_tracked"};
    qkv_safetensors_entry entries[5];
    model m = {.base = {.type = &type}};
    make_folder(dir);
    for (size_t i = 0; i < 5; i++)
        entries[i] = (qkv_safetensors_entry){.name = names[i], .ndim = i < 4, .shape = shape,
                                             .store = QKV_STORE_F32, .data = numbers};
    assert_int_equal(qkv_context_create(&m.base.ctx, NULL), QKV_OK);
    assert_int_equal(qkv_params_create(&m.base.params, m.base.ctx), QKV_OK);
    assert_true(qkv_batch_norm_create(&m.layer, m.base.params, "norm", C));
    assert_int_equal(qkv_safetensors_save(m.base.ctx, in(dir, "model.safetensors"), entries, 5,
                                          NULL), QKV_OK);
    assert_int_equal(qkv__hub_read_weights(&m.base, dir, false), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(m.base.ctx), "num_batches_tracked"));
    qkv_params_destroy(m.base.params);
    qkv_context_destroy(m.base.ctx);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
