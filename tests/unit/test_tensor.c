/* test_tensor.c - views of up to eight dimensions, and errors that stay. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/device.h"
#include "qkv/machine.h"
#include "qkv/ops.h"
#include "tapes.h"

/* Element i is i. */
static qkv_tensor *counting(qkv_tape *t, int ndim, const size_t *shape)
{
    qkv_tensor *x = qkv_tensor_from(t, NULL, ndim, shape);
    assert_non_null(x);
    for (size_t i = 0; i < qkv_count(x); i++)
        qkv_tensor_fill(x)[i] = (qkv_real)i;
    return x;
}

static void expect(qkv_tape *t, const qkv_tensor *x, const int *expected)
{
    assert_non_null(x);
    const qkv_real *data = qkv_data(t, x);
    for (size_t i = 0; i < qkv_count(x); i++)
        assert_int_equal((int)data[i], expected[i]);
}

static void test_small_views(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    qkv_tensor *x = counting(t, 2, (const size_t[]){3, 4});
    expect(t, qkv_slice(t, x, 1, 1, 3), (const int[]){1, 2, 5, 6, 9, 10});
    expect(t, qkv_slice(t, x, -2, 2, 3), (const int[]){8, 9, 10, 11});
    expect(t, qkv_permute(t, x, (const int[]){1, 0}),
           (const int[]){0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
    /* A column, one element wide, as a vector: its innermost axis is made contiguous. */
    qkv_tensor *column = qkv_reshape(t, qkv_slice(t, x, 1, 2, 3), 1, (const size_t[]){3});
    expect(t, qkv_scale(t, column, 1), (const int[]){2, 6, 10});
    qkv_tensor *cube = qkv_reshape(t, x, 3, (const size_t[]){3, 2, 2});
    expect(t, qkv_permute(t, cube, (const int[]){1, 0, 2}),
           (const int[]){0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11});
    qkv_tensor *turned = qkv_permute(t, cube, (const int[]){1, 0, 2});
    expect(t, qkv_reshape(t, turned, 1, (const size_t[]){12}),
           (const int[]){0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11});
    qkv_tensor *part[2];
    assert_true(qkv_split(t, x, 1, 2, (const size_t[]){3, 1}, part));
    expect(t, part[0], (const int[]){0, 1, 2, 4, 5, 6, 8, 9, 10});
    expect(t, part[1], (const int[]){3, 7, 11});
    assert_int_equal(qkv_dim(x, -1), 4);
    assert_int_equal(qkv_dim(x, 5), 1);
}

static void test_ids(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    const int32_t ids[] = {0, 1, 2, 3, 4, 5};
    qkv_tensor *x = qkv_tensor_ids(t, ids, 2, (const size_t[]){2, 3});
    qkv_tensor *turned = qkv_permute(t, x, (const int[]){1, 0});
    assert_int_equal(qkv_tensor_dtype(turned), QKV_I32);
    assert_null(qkv_data(t, turned)); /* not reals */
    qkv_tensor *table = counting(t, 2, (const size_t[]){6, 1});
    expect(t, qkv_embedding(t, turned, table, 1, NULL, NULL), (const int[]){0, 3, 1, 4, 2, 5});
}

/* An image (B, H, W, C) into patches of p x p: (B, H/p, p, W/p, p, C) with the middle axes
 * exchanged. Written out as loops on the other side. */
static void test_patchify(void **state)
{
    enum { B = 2, H = 6, W = 4, C = 3, P = 2 };
    qkv_tape *t = ((fixture *)*state)->t;
    qkv_tensor *x = counting(t, 4, (const size_t[]){B, H, W, C});
    x = qkv_reshape(t, x, 6, (const size_t[]){B, H / P, P, W / P, P, C});
    x = qkv_permute(t, x, (const int[]){0, 1, 3, 2, 4, 5});
    x = qkv_reshape(t, x, 3, (const size_t[]){B, H / P * (W / P), P * P * C});
    int expected[B * H * W * C], n = 0;
    for (int b = 0; b < B; b++)
        for (int i = 0; i < H / P; i++)
            for (int j = 0; j < W / P; j++)
                for (int r = 0; r < P; r++)
                    for (int s = 0; s < P; s++)
                        for (int c = 0; c < C; c++)
                            expected[n++] = ((b * H + i * P + r) * W + j * P + s) * C + c;
    expect(t, x, expected);
}

/* Eight axes, reversed: element (a, b, .., h) of the result is element (h, .., b, a) of x. */
static void test_eight_axes(void **state)
{
    qkv_tape *t = ((fixture *)*state)->t;
    const size_t shape[] = {2, 3, 1, 2, 2, 3, 1, 2};
    const int axes[] = {7, 6, 5, 4, 3, 2, 1, 0};
    qkv_tensor *x = counting(t, 8, shape), *y = qkv_permute(t, x, axes);
    const qkv_real *data = qkv_data(t, y);
    for (size_t i = 0; i < qkv_count(y); i++) {
        size_t rest = i, from = 0, at[8];
        for (int d = 7; d >= 0; d--) {
            at[7 - d] = rest % shape[7 - d];
            rest /= shape[7 - d];
        }
        for (int d = 0; d < 8; d++)
            from = from * shape[d] + at[d];
        assert_int_equal((int)data[i], from);
    }
    assert_null(qkv_reshape(t, x, 9, (const size_t[]){1, 1, 1, 1, 1, 1, 1, 1, 144}));
    assert_int_equal(qkv_tape_status(t), QKV_E_SHAPE);
}

static void expect_failure(fixture *f, const void *result, const char *part, const char *other)
{
    assert_null(result);
    assert_int_equal(qkv_tape_status(f->t), QKV_E_SHAPE);
    const char *text = qkv_context_message(f->ctx);
    if (!strstr(text, part) || !strstr(text, other))
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", text, part, other);
    qkv_tape_reset(f->t);
}

/* The sentence names the op, where in the model it is, and the shapes. */
static void test_errors_name_shapes(void **state)
{
    fixture *f = *state;
    qkv_tape *t = f->t;
    const size_t a[] = {4, 128, 768}, b[] = {4, 127, 768}, w[] = {10, 700};
    qkv_name_push(t, "h.%d", 3);
    qkv_name_push(t, "mlp");
    expect_failure(f, qkv_add(t, counting(t, 3, a), counting(t, 3, b)), "add at h.3.mlp: ",
                   "(4, 128, 768) and (4, 127, 768)");
    expect_failure(f, qkv_linear(t, counting(t, 3, a), counting(t, 2, w), NULL, QKV_ACT_NONE),
                   "linear: ", "(10, 700)");
    expect_failure(f, qkv_matmul(t, counting(t, 2, w), false, counting(t, 2, w), false),
                   "matmul: ", "(10, 700) and (10, 700)");
    expect_failure(f, qkv_slice(t, counting(t, 2, w), 0, 5, 11), "slice: ", "[5, 11)");
    expect_failure(f, qkv_permute(t, counting(t, 2, w), (const int[]){0, 0}), "permute: ", "axes");
    expect_failure(f, qkv_reshape(t, counting(t, 2, w), 1, (const size_t[]){6999}), "reshape: ",
                   "7000 elements, the new shape 6999");
    expect_failure(f, qkv_concat(t, 0, 2, (qkv_tensor *[]){counting(t, 2, w), counting(t, 3, b)}),
                   "concat: ", "(4, 127, 768)");
    expect_failure(f, qkv_dropout(t, counting(t, 2, w), 1, 0), "dropout: ", "[0, 1)");
    const int32_t bad[] = {1, 10};
    const size_t two[] = {2};
    expect_failure(f, qkv_embedding(t, qkv_tensor_ids(t, bad, 1, two), counting(t, 2, w), 1, NULL,
                                    NULL), "embedding: id 10", "[0, 10)");
    expect_failure(f, qkv_cross_entropy(t, counting(t, 2, (const size_t[]){2, 5}),
                                        qkv_tensor_ids(t, bad, 1, two), NULL),
                   "cross_entropy: target 10", "[0, 5)");
    expect_failure(f, qkv_mul(t, qkv_tensor_ids(t, bad, 1, two), counting(t, 1, two)), "mul: ",
                   "does not hold real numbers");
}

/* The first error stays, whatever follows; NULL goes in and NULL comes out. */
static void test_errors_are_sticky(void **state)
{
    fixture *f = *state;
    qkv_tape *t = f->t;
    qkv_tensor *x = counting(t, 2, (const size_t[]){2, 3});
    qkv_tensor *y = qkv_add(t, x, counting(t, 2, (const size_t[]){4, 3}));
    assert_null(y);
    char first[256];
    strncpy(first, qkv_context_message(f->ctx), sizeof first - 1);
    first[sizeof first - 1] = 0;
    qkv_tensor *part[2], *sum = x;
    assert_null(qkv_mul(t, x, x));
    assert_null(qkv_matmul(t, y, false, x, true));
    assert_null(qkv_norm(t, QKV_NORM_LAYER, y, NULL, NULL, 1e-5));
    assert_null(qkv_residual_norm(t, QKV_NORM_RMS, y, x, NULL, NULL, 1e-5, &sum));
    assert_null(sum);
    assert_null(qkv_softmax(t, y));
    assert_null(qkv_attention(t, y, y, y, NULL));
    assert_null(qkv_ntxent_loss(t, y, x, 0.5));
    assert_null(qkv_reshape(t, y, 0, NULL));
    assert_null(qkv_detach(t, y));
    assert_null(qkv_require_grad(t, y));
    assert_false(qkv_split(t, y, 0, 2, (const size_t[]){1, 1}, part));
    assert_null(part[0]);
    assert_null(qkv_tensor_from(t, NULL, 0, NULL));
    assert_true(isnan((double)qkv_item(t, y)));
    assert_int_equal(qkv_backward(t, y), QKV_E_SHAPE);
    assert_string_equal(qkv_context_message(f->ctx), first);
    qkv_tape_reset(t);
    assert_int_equal(qkv_tape_status(t), QKV_OK);
    assert_null(qkv_softmax(t, NULL)); /* a NULL out of nowhere is an error of its own */
    assert_non_null(strstr(qkv_context_message(f->ctx), "softmax: input 0 is NULL"));
}

/* (64, 64) of numbers that bf16 does not have, times itself, as a tape does it that records or
 * does not. */
static void square(qkv_real *y, int products, bool record)
{
    enum { N = 64 };
    qkv_context *ctx;
    qkv_tape *t;
    qkv_context_options o = {.threads = 1, .products = products};
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_tape_mode(t, record, false);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 2, (const size_t[]){N, N});
    for (size_t i = 0; i < N * N; i++)
        qkv_tensor_fill(x)[i] = 1 + (qkv_real)(i % 251) / 1024;
    memcpy(y, qkv_data(t, qkv_matmul(t, x, false, x, false)), N * N * sizeof *y);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

/* Only what is recorded is rounded, and only if somebody asked. */
static void test_bf16_is_for_training(void **state)
{
    enum { N = 64 * 64 };
    qkv_real f32[N], y[N];
    (void)state;
    square(f32, QKV_PRODUCTS_F32, true);
    square(y, QKV_PRODUCTS_BF16, false);
    assert_memory_equal(y, f32, sizeof y);
    square(y, QKV_PRODUCTS_BF16, true);
    size_t differ = 0;
    for (size_t i = 0; i < N; i++) {
        differ += y[i] != f32[i];
        assert_true(fabs((double)(y[i] - f32[i])) < 0x1p-8 * (double)f32[i]);
    }
    assert_true(differ > 0 || !qkv__cpu_bf16());
}

/* Keeps the name of the kind that products are in. */
static bool hear(void *user, const qkv_event *event)
{
    (void)sscanf(event->text, "products in %19[^:]", (char *)user);
    return true;
}

/* The first tape measures; what it found stays, unless a run goes on that had something else. */
static void test_fastest_products(void **state)
{
    (void)state;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_context_options o = {.threads = 1, .products = QKV_PRODUCTS_AUTO + 1};
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_E_ARGUMENT);
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_context_configure(ctx, &o), QKV_E_ARGUMENT);
    assert_int_equal(qkv_context_set_products(ctx, -1), QKV_E_ARGUMENT);
    o.products = QKV_PRODUCTS_AUTO;
    assert_int_equal(qkv_context_configure(ctx, &o), QKV_OK);
    char said[20] = "";
    qkv_context_on_event(ctx, hear, said);
    assert_int_equal(qkv_context_products(ctx),
                     qkv__cpu_bf16() ? QKV_PRODUCTS_AUTO : QKV_PRODUCTS_F32);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_tape_destroy(t);
    const char *kind = qkv_machine_products(ctx);
    assert_int_equal(qkv_context_products(ctx),
                     strcmp(kind, "f32") == 0 ? QKV_PRODUCTS_F32 : QKV_PRODUCTS_BF16);
    assert_string_equal(said, qkv__cpu_bf16() ? kind : "");
    for (int i = 0; i < QKV__PRODUCTS_COUNT; i++) {
        const char *was = qkv__products_name((qkv__products)i);
        bool exists = qkv__products_exist(ctx, (qkv__products)i);
        assert_true(qkv__context_keep_products(ctx, was) == exists);
        if (exists)
            assert_string_equal(qkv_machine_products(ctx), was);
    }
    assert_false(qkv__context_keep_products(ctx, "f8"));
    assert_int_equal(qkv_context_set_products(ctx, QKV_PRODUCTS_F32), QKV_OK);
    assert_false(qkv__context_keep_products(ctx, "bf16")); /* somebody said so */
    assert_string_equal(qkv_machine_products(ctx), "f32");
    qkv_context_destroy(ctx);
}

/* Every kind is timed, f32 first, and the context's choice stays. A card's are not timed. */
static void test_products_rates(void **state)
{
    fixture *f = *state;
    qkv_products_rate rates[QKV_PRODUCTS_KINDS];
    size_t n = qkv_machine_products_rates(f->ctx, rates);
    if (qkv__context_device(f->ctx)->products) {
        assert_int_equal(n, 0);
        return;
    }
    assert_in_range(n, 1, QKV_PRODUCTS_KINDS);
    assert_true(n > 1 || !qkv__cpu_bf16());
    assert_string_equal(rates[0].name, "f32");
    for (size_t i = 0; i < n; i++)
        assert_true(rates[i].flops > 1e6 && rates[i].flops < 1e15);
    assert_int_equal(qkv_context_products(f->ctx), QKV_PRODUCTS_F32);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_small_views), TEST(test_ids),                TEST(test_patchify),
        TEST(test_eight_axes),  TEST(test_errors_name_shapes), TEST(test_errors_are_sticky),
        cmocka_unit_test(test_bf16_is_for_training),
        cmocka_unit_test(test_fastest_products),
        TEST(test_products_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
