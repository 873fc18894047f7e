/* test_conv.c - convolution and pooling of every table against the plain one, which the double
 * build holds against the definition: random sizes, windows, strides and padding, outputs stored
 * and added to; more shapes than the fast one keeps plans for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

static size_t among(size_t low, size_t high)
{
    return low + qkv__rng_below(&kt.rng, (uint32_t)(high - low + 1));
}

static qkv_k_conv_args random_args(void)
{
    static const size_t channels[] = {1, 3, 4, 8, 16, 17, 32, 64};
    qkv_k_conv_args a = {.B = among(1, 3), .H = among(1, 20), .W = among(1, 20),
                         .C = channels[among(0, 7)], .N = channels[among(0, 7)],
                         .KH = among(1, 4), .KW = among(1, 4), .stride = among(1, 3),
                         .top = among(0, 2), .left = among(0, 2)};
    size_t bottom = among(0, 2), right = among(0, 2);
    while (a.H + a.top + bottom < a.KH)
        a.H++;
    while (a.W + a.left + right < a.KW)
        a.W++;
    a.OH = (a.H + a.top + bottom - a.KH) / a.stride + 1;
    a.OW = (a.W + a.left + right - a.KW) / a.stride + 1;
    return a;
}

static void compare_arrays(const char *what, const float *got, const float *want, size_t n,
                           double scale)
{
    for (size_t i = 0; i < n; i++)
        near_at(what, i, got[i], want[i], 1e-5, scale);
}

static void one(const kernel_case *c, const qkv_k_conv_args *a)
{
    const qkv_kernels *plain = qkv__kernels(QKV_ISA_REFERENCE);
    size_t nx = a->B * a->H * a->W * a->C, nw = a->N * a->KH * a->KW * a->C;
    size_t ny = a->B * a->OH * a->OW * a->N;
    float *x = randoms(nx), *w = randoms(nw), *y = poisoned(ny), *y0 = poisoned(ny);
    float *bias = coin() ? randoms(a->N) : NULL;
    bool acc = coin();
    float *dx = output(nx, acc), *dx0 = copied(dx, nx), *dw = output(nw, acc);
    float *dw0 = copied(dw, nw), *dy = randoms(ny);
    c->k->conv(&c->e, y, x, w, bias, a);
    plain->conv(&c->e, y0, x, w, bias, a);
    compare_arrays("y", y, y0, ny, sqrt((double)(a->KH * a->KW * a->C)));
    c->k->conv_bwd_data(&c->e, dx, dy, w, a, acc);
    plain->conv_bwd_data(&c->e, dx0, dy, w, a, acc);
    compare_arrays("dx", dx, dx0, nx, sqrt((double)(a->KH * a->KW * a->N)));
    c->k->conv_bwd_weights(&c->e, dw, dy, x, a, acc);
    plain->conv_bwd_weights(&c->e, dw0, dy, x, a, acc);
    compare_arrays("dw", dw, dw0, nw, sqrt((double)(a->B * a->OH * a->OW)));
    free_arrays();
}

static void random_shapes(const kernel_case *c)
{
    enum { SHAPES = 40 };
    qkv_k_conv_args first[4];
    for (size_t i = 0; i < SHAPES; i++) {
        qkv_k_conv_args a = random_args();
        if (i < 4)
            first[i] = a;
        one(c, &a);
    }
    for (size_t i = 0; i < 4; i++) /* again: their plans are gone */
        one(c, &first[i]);
}

/* Of few different numbers, so that many are equal, and of some that are none. */
static void largest(const kernel_case *c)
{
    enum { SHAPES = 60 };
    static const float levels[] = {-1, 0, 0.5f, 2, -INFINITY, NAN};
    for (size_t s = 0; s < SHAPES; s++) {
        qkv_k_conv_args a = random_args();
        size_t nx = a.B * a.H * a.W * a.C, ny = a.B * a.OH * a.OW * a.C;
        float *x = randoms(nx), *y = poisoned(ny), *y0 = poisoned(ny);
        int32_t *from = (int32_t *)(void *)poisoned(ny), *from0 = (int32_t *)(void *)poisoned(ny);
        for (size_t i = 0; i < nx && s % 2; i++)
            x[i] = levels[among(0, s % 3 ? 4 : 5)];
        c->k->max_pool(&c->e, y, from, x, &a);
        qkv__kernels(QKV_ISA_REFERENCE)->max_pool(&c->e, y0, from0, x, &a);
        assert_memory_equal(from, from0, ny * sizeof *from);
        for (size_t i = 0; i < ny; i++)
            assert_true(y[i] == y0[i] || (isnan(y[i]) && isnan(y0[i])));
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_CHECK(random_shapes),
        KERNEL_CHECK(largest),
    };
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
