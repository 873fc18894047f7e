/* test_images.c - gradients of what images need beside convolution: patches, interpolation,
 * rows picked and put back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static int patches(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_patchify(t, in[0], 2);
    out[1] = qkv_unpatchify(t, in[1], 2, 3, 2);
    return 2;
}

typedef struct {
    qkv_interpolation how;
    size_t rows, columns;
} size;

static int interpolate(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const size *s = user;
    out[0] = qkv_interpolate(t, in[0], s->how, s->rows, s->columns);
    return 1;
}

static int positions(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const size *s = user;
    out[0] = qkv_interpolate_positions(t, in[0], s->how, 2, 3, 4, s->rows, s->columns);
    out[1] = qkv_interpolate_positions(t, in[1], s->how, 0, 3, 4, s->rows, s->columns);
    return 2;
}

static int group_norm(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    const bool *silu = user;
    out[0] = qkv_group_norm(t, in[0], in[1], in[2], 3, 1e-3, *silu);
    return 1;
}

static int upsample(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_upsample(t, in[0], 2);
    out[1] = qkv_upsample(t, in[0], 3);
    return 2;
}

/* Two samples of four tokens: two of each are kept, then put back with one token in the gaps. */
static int hide(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    static const int32_t keep[] = {2, 0, 5, 7}, back[] = {1, 4, 0, 4, 4, 2, 4, 3};
    const size_t rows[] = {8, 3}, kept[] = {4, 3};
    qkv_tensor *x = qkv_reshape(t, in[0], 2, rows);
    x = qkv_embedding(t, qkv_tensor_ids(t, keep, 2, (size_t[]){2, 2}), x, 1, NULL, NULL);
    qkv_tensor *parts[] = {qkv_reshape(t, x, 2, kept), in[1]};
    out[0] = x;
    out[1] = qkv_embedding(t, qkv_tensor_ids(t, back, 2, (size_t[]){2, 4}),
                           qkv_concat(t, 0, 2, parts), 1, NULL, NULL);
    return 2;
}

static void test_gradients(void **state)
{
    (void)state;
    static const size sizes[] = {
        {QKV_BILINEAR, 5, 7}, {QKV_BICUBIC, 5, 7}, {QKV_BILINEAR, 2, 3}, {QKV_BICUBIC, 2, 3},
        {QKV_BICUBIC, 3, 6},  {QKV_BILINEAR, 6, 4}, {QKV_BICUBIC, 3, 4},
        {QKV_BICUBIC_ANTIALIASED, 5, 7}, {QKV_BICUBIC_ANTIALIASED, 2, 3},
    };
    const gradcheck_case cases[] = {
        {.name = "patches", .fn = patches, .inputs = 2,
         .input = {{4, {2, 4, 6, 3}}, {3, {2, 6, 12}}}},
        {.name = "hide", .fn = hide, .inputs = 2, .input = {{3, {2, 4, 3}}, {2, {1, 3}}}},
        {.name = "group norm", .fn = group_norm, .user = &(bool){false}, .inputs = 3,
         .input = {{4, {2, 3, 2, 6}}, {1, {6}}, {1, {6}}}},
        {.name = "group norm and silu", .fn = group_norm, .user = &(bool){true}, .inputs = 3,
         .input = {{4, {2, 3, 2, 6}}, {1, {6}}, {1, {6}}}},
        {.name = "upsample", .fn = upsample, .inputs = 1, .input = {{4, {2, 3, 2, 3}}}},
    };
    gradcheck_all(cases, COUNT(cases));
    for (size_t i = 0; i < COUNT(sizes); i++) {
        gradcheck(&(gradcheck_case){.name = "interpolate", .fn = interpolate, .user = &sizes[i],
                                    .inputs = 1, .input = {{4, {2, 3, 4, 2}}}});
        gradcheck(&(gradcheck_case){.name = "positions", .fn = positions, .user = &sizes[i],
                                    .inputs = 2, .input = {{2, {14, 3}}, {2, {12, 3}}}});
    }
}

/* Patches put together again are the image; a linear layer on them is a strided convolution. */
static void test_patches(void **state)
{
    (void)state;
    enum { B = 2, H = 6, W = 9, C = 2, P = 3, N = 4 };
    const size_t xs[] = {B, H, W, C}, ws[] = {N, P, P, C}, ms[] = {N, P * P * C};
    double x[B * H * W * C], w[N * P * P * C];
    qkv_context *ctx;
    qkv_tape *t;
    for (size_t i = 0; i < COUNT(x); i++)
        x[i] = (double)(i * 37 % 101) / 50 - 1;
    for (size_t i = 0; i < COUNT(w); i++)
        w[i] = (double)(i * 53 % 97) / 50 - 1;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_tensor *image = qkv_tensor_from(t, x, 4, xs), *rows = qkv_patchify(t, image, P);
    const double *back = qkv_data(t, qkv_unpatchify(t, rows, P, H / P, W / P));
    assert_non_null(back);
    assert_memory_equal(x, back, sizeof x);
    const double *y = qkv_data(t, qkv_linear(t, rows, qkv_tensor_from(t, w, 2, ms), NULL,
                                             QKV_ACT_NONE));
    const double *z = qkv_data(t, qkv_conv2d(t, image, qkv_tensor_from(t, w, 4, ws), NULL,
                                             &(qkv_conv_options){.stride = P}));
    assert_non_null(y);
    assert_non_null(z);
    for (size_t i = 0; i < B * (H / P) * (W / P) * N; i++)
        assert_true(fabs(y[i] - z[i]) <= 1e-12);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_context *ctx;
    qkv_tape *t;
    const size_t image[] = {1, 4, 6, 3}, table[] = {13, 8};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    for (int i = 0; i < 5; i++) {
        qkv_tape_reset(t);
        qkv_tensor *x = qkv_tensor_from(t, NULL, 4, image);
        qkv_tensor *p = qkv_tensor_from(t, NULL, 2, table);
        assert_null(i == 0   ? qkv_patchify(t, x, 3)
                    : i == 1 ? qkv_unpatchify(t, qkv_patchify(t, x, 2), 2, 2, 2)
                    : i == 2 ? qkv_interpolate(t, x, QKV_BICUBIC, 3, 0)
                    : i == 3 ? qkv_interpolate(t, p, QKV_BICUBIC, 3, 3)
                             : qkv_interpolate_positions(t, p, QKV_BICUBIC, 0, 3, 4, 5, 5));
        assert_int_equal(qkv_tape_status(t), QKV_E_SHAPE);
    }
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_patches),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
