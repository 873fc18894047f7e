/* test_pytorch_golden.c - files of torch.save against what the reference library says they hold:
 * both formats, every protocol and type, views, shared storages, nested containers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "golden.h"
#include "pytorch/pytorch.h"
#include "qkv/safetensors.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/pytorch"

static const struct {
    const char *file, *holds;
} files[] = {
    {"types.pth", "types.safetensors"},
    {"types-legacy.pth", "types.safetensors"},
    {"newer.pth", "newer.safetensors"},
    {"newer-legacy.pth", "newer.safetensors"},
    {"views.pth", "views.safetensors"},
    {"views-legacy.pth", "views.safetensors"},
    {"nested.pth", "nested.safetensors"},
    {"nested-p5.pth", "nested.safetensors"},
    {"nested-legacy.pth", "nested.safetensors"},
    {"nested-legacy-p3.pth", "nested.safetensors"},
    {"nested-legacy-p4.pth", "nested.safetensors"},
    {"python2.pth", "python2.safetensors"},
};

static qkv__pytorch *open_golden(const char *name, const char *under)
{
    qkv__pytorch *p;
    qkv__pytorch_options o = {.under = under};
    if (qkv__pytorch_open(&p, ctx, in(GOLDEN, name), &o))
        fail_msg("%s", qkv_context_message(ctx));
    return p;
}

static qkv_safetensors *open_tensors(const char *path)
{
    qkv_safetensors *s;
    if (qkv_safetensors_open(&s, ctx, path))
        fail_msg("%s", qkv_context_message(ctx));
    return s;
}

/* The file as safetensors, opened. */
static qkv_safetensors *convert(const char *name, const char *under, qkv_store store)
{
    const char *path = in(folder, "model.safetensors");
    qkv__pytorch *p = open_golden(name, under);
    if (qkv__pytorch_save(p, path, store, 0))
        fail_msg("%s", qkv_context_message(ctx));
    qkv__pytorch_close(p);
    return open_tensors(path);
}

static void files_hold_what_they_should(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        qkv_safetensors *got = convert(files[i].file, NULL, QKV_STORE_NONE);
        qkv_safetensors *expected = open_tensors(in(GOLDEN, files[i].holds));
        print_message("%s\n", files[i].file);
        assert_same_tensors(got, expected);
        qkv_safetensors_close(expected);
        qkv_safetensors_close(got);
    }
}

static void one_part_of_a_file(void **state)
{
    (void)state;
    qkv__pytorch *p;
    qkv_safetensors *s = convert("nested.pth", "state_dict", QKV_STORE_NONE);
    assert_int_equal(qkv_safetensors_count(s), 7);
    assert_non_null(qkv_safetensors_find(s, "0.weight"));
    assert_non_null(qkv_safetensors_find(s, "1.num_batches_tracked"));
    qkv_safetensors_close(s);
    p = open_golden("nested.pth", "7.deep.er");
    assert_int_equal(qkv__pytorch_count(p), 1);
    assert_string_equal(qkv__pytorch_at(p, 0)->name, "tensor");
    qkv__pytorch_close(p);
    qkv__pytorch_options o = {.under = "state"};
    assert_int_equal(qkv__pytorch_open(&p, ctx, GOLDEN "/nested.pth", &o), QKV_E_FORMAT);
    assert_null(p);
    assert_non_null(strstr(qkv_context_message(ctx), "no tensors beneath state"));
}

static void a_tensor_alone(void **state)
{
    (void)state;
    qkv_safetensors *s = convert("tensor.pth", NULL, QKV_STORE_NONE);
    const qkv_safetensor *t = qkv_safetensors_find(s, "tensor");
    assert_non_null(t);
    assert_int_equal(t->count, 3);
    qkv_safetensors_close(s);
    static const char *const same[] = {"rezipped.pth", "zip64.pth", "attributes.pth"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        s = convert(same[i], NULL, QKV_STORE_NONE);
        t = qkv_safetensors_find(s, "w");
        assert_non_null(t);
        assert_int_equal(t->count, 2);
        qkv_safetensors_close(s);
    }
}

/* Objects of other classes are as if they were not there; tensors are never lost with them. */
static void objects_left_out(void **state)
{
    (void)state;
    static const char *const left[] = {"objects.pth", "refused-system.pth", "refused-class.pth",
                                       "refused-system-legacy.pth", "refused-eval.pth"};
    const qkv__pytorch_options o = {.skip_objects = true};
    qkv__pytorch *p;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        if (qkv__pytorch_open(&p, ctx, in(GOLDEN, left[i]), &o))
            fail_msg("%s", qkv_context_message(ctx));
        assert_int_equal(qkv__pytorch_count(p), 1);
        assert_string_equal(qkv__pytorch_at(p, 0)->name, "weight");
        assert_true(qkv__pytorch_left_out(p) >= 1);
        qkv__pytorch_close(p);
    }
    assert_int_equal(qkv__pytorch_open(&p, ctx, GOLDEN "/refused-complex.pth", &o),
                     QKV_E_UNSUPPORTED);
    assert_int_equal(qkv__pytorch_open(&p, ctx, GOLDEN "/refused-sparse.pth", &o),
                     QKV_E_UNSUPPORTED);
    assert_non_null(strstr(qkv_context_message(ctx), "torch._utils._rebuild_sparse_tensor"));
}

/* Floating-point tensors change their type, strided ones too; others stay. */
static void another_type(void **state)
{
    (void)state;
    static const qkv_store stores[] = {QKV_STORE_F32, QKV_STORE_F16, QKV_STORE_BF16};
    for (size_t k = 0; k < 3; k++) {
        qkv_safetensors *s = convert("views.pth", NULL, stores[k]);
        qkv_safetensors *from = open_tensors(in(GOLDEN, "views.safetensors"));
        for (size_t i = 0; i < qkv_safetensors_count(s); i++) {
            const qkv_safetensor *t = qkv_safetensors_at(s, i);
            const qkv_safetensor *old = qkv_safetensors_at(from, i);
            qkv_real x[24], y[24];
            assert_int_equal(t->store, old->store == QKV_STORE_BOOL ? old->store : stores[k]);
            assert_int_equal(qkv_safetensors_read(s, t, 0, t->count, x), QKV_OK);
            assert_int_equal(qkv_safetensors_read(from, old, 0, t->count, y), QKV_OK);
            for (size_t e = 0; e < t->count; e++)
                assert_true(x[e] >= y[e] - 0.004f && x[e] <= y[e] + 0.004f);
        }
        qkv_safetensors_close(from);
        qkv_safetensors_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_what_they_should),
        cmocka_unit_test(one_part_of_a_file),
        cmocka_unit_test(a_tensor_alone),
        cmocka_unit_test(objects_left_out),
        cmocka_unit_test(another_type),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
