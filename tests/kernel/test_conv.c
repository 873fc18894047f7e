/* test_conv.c - convolution and pooling of every table against the plain one, which the double
 * build holds against the definition: random sizes, windows, strides and padding, outputs stored
 * and added to; more shapes than the fast one keeps plans for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "io/convert.h"
#include "kernels.h"

static size_t among(size_t low, size_t high)
{
    return low + qkv_rng_below(&kt.rng, (uint32_t)(high - low + 1));
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

/* Windows of 3 x 3 one pixel apart, with channels in sixteens: planes as large as these (320
 * tiles of 2 x 2) have an algorithm of their own. */
static qkv_k_conv_args large_plane(void)
{
    static const size_t channels[] = {32, 48, 80, 144};
    size_t bottom = among(1, 2), right = among(1, 2);
    qkv_k_conv_args a = {.B = among(2, 3), .H = among(22, 26), .W = among(30, 36),
                         .C = channels[among(0, 3)], .N = channels[among(0, 3)], .KH = 3,
                         .KW = 3, .stride = 1, .top = among(0, 2), .left = among(0, 2)};
    a.OH = a.H + a.top + bottom - 2;
    a.OW = a.W + a.left + right - 2;
    return a;
}

static void three_by_three(const kernel_case *c)
{
    enum { SHAPES = 8 };
    for (size_t i = 0; i < SHAPES; i++) {
        qkv_k_conv_args a = large_plane();
        one(c, &a);
    }
}

/* There the bits do not depend on the team. With few channels (the first shape) the windows'
 * gradient is summed in segments of the tiles. */
static void teams(const kernel_case *c)
{
    enum { SHAPES = 3, LEAST = 4, MOST = 8 };
    for (size_t i = 0; i < SHAPES; i++) {
        qkv_k_conv_args a = large_plane();
        a.C = i ? a.C : 32;
        a.N = i ? a.N : 32;
        size_t nx = a.B * a.H * a.W * a.C, nw = a.N * a.KH * a.KW * a.C;
        size_t ny = a.B * a.OH * a.OW * a.N;
        float *x = randoms(nx), *w = randoms(nw), *dy = randoms(ny), *y = poisoned(ny);
        float *dx = poisoned(nx), *dw = poisoned(nw);
        c->k->conv(&c->e, y, x, w, NULL, &a);
        c->k->conv_bwd_data(&c->e, dx, dy, w, &a, false);
        c->k->conv_bwd_weights(&c->e, dw, dy, x, &a, false);
        for (int team = LEAST; team <= MOST; team++) {
            kernel_case other = {c->name, c->k, c->e};
            float *y1 = poisoned(ny), *dx1 = poisoned(nx), *dw1 = poisoned(nw);
            other.e.threads = team;
            c->k->conv(&other.e, y1, x, w, NULL, &a);
            c->k->conv_bwd_data(&other.e, dx1, dy, w, &a, false);
            c->k->conv_bwd_weights(&other.e, dw1, dy, x, &a, false);
            assert_memory_equal(y1, y, ny * sizeof *y);
            assert_memory_equal(dx1, dx, nx * sizeof *dx);
            assert_memory_equal(dw1, dw, nw * sizeof *dw);
        }
        free_arrays();
    }
}

static void round_all(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = qkv__from_bf16(qkv__to_bf16(x[i]));
}

static bool all_bf16(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != qkv__from_bf16(qkv__to_bf16(x[i])))
            return false;
    return true;
}

/* Of the table that rounds to bf16: the same as in f32 where nothing is lost by rounding, and in
 * most shapes (all that the library does so) not the same where something is. */
static void rounded(void **state)
{
    enum { SHAPES = 40 };
    static const size_t channels[] = {16, 32, 64, 128};
    size_t differ[3] = {0};
    (void)state;
    if (!table_rounds(QKV__BF16))
        skip();
    kernel_case bf16 = {"bf16", qkv__kernels(QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV__BF16), kt.e};
    kernel_case f32 = {"f32", qkv__kernels(QKV_ISA_AVX2 | QKV_ISA_AVX512), kt.e};
    for (size_t s = 0; s < SHAPES; s++) {
        qkv_k_conv_args a = random_args();
        a.C = channels[among(0, 3)];
        a.N = channels[among(0, 3)];
        bf16.e.threads = f32.e.threads = s % 2 ? 3 : 1;
        size_t n[] = {a.B * a.H * a.W * a.C, a.N * a.KH * a.KW * a.C, a.B * a.OH * a.OW * a.N};
        float *x = randoms(n[0]), *w = randoms(n[1]), *dy = randoms(n[2]);
        for (int lossy = 0; lossy < 2; lossy++) {
            float *got[] = {poisoned(n[2]), poisoned(n[0]), poisoned(n[1])};
            float *want[] = {poisoned(n[2]), poisoned(n[0]), poisoned(n[1])};
            for (int k = 0; k < 2; k++) {
                const kernel_case *c = k ? &bf16 : &f32;
                float **to = k ? got : want;
                if (!k && !lossy) {
                    round_all(x, n[0]);
                    round_all(w, n[1]);
                    round_all(dy, n[2]);
                }
                c->k->conv(&c->e, to[0], x, w, NULL, &a);
                c->k->conv_bwd_data(&c->e, to[1], dy, w, &a, false);
                c->k->conv_bwd_weights(&c->e, to[2], dy, x, &a, false);
            }
            const size_t terms[] = {a.KH * a.KW * a.C, a.KH * a.KW * a.N, a.B * a.OH * a.OW};
            for (int k = 0; k < 3; k++) {
                size_t size = n[(k + 2) % 3];
                /* cuDNN rounds what it gives, too. */
                bool rounds = on_a_device() && all_bf16(got[k], size);
                double tolerance = lossy ? 0x1p-7 : rounds ? 0x1p-8 : 1e-5;
                for (size_t i = 0; i < size; i++)
                    near_at("rounded", i, got[k][i], want[k][i], tolerance,
                            sqrt((double)terms[k]));
                differ[k] += lossy && memcmp(got[k], want[k], size * sizeof **got) != 0;
            }
            for (size_t i = 0; i < n[0]; i++) /* for the second time */
                x[i] += 0x1p-10f * (float)rnd();
            for (size_t i = 0; i < n[1]; i++)
                w[i] += 0x1p-10f * (float)rnd();
            for (size_t i = 0; i < n[2]; i++)
                dy[i] += 0x1p-10f * (float)rnd();
        }
        free_arrays();
    }
    for (int k = 0; k < 3; k++)
        assert_true(differ[k] > SHAPES / 2 || !differ[k]); /* 0: there is no such library */
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

/* Gradients of pooling, and the mean with its own, against the plain table. */
static void pooling(const kernel_case *c)
{
    enum { SHAPES = 40 };
    const qkv_kernels *plain = qkv__kernels(QKV_ISA_REFERENCE);
    for (size_t s = 0; s < SHAPES; s++) {
        qkv_k_conv_args a = random_args();
        size_t nx = a.B * a.H * a.W * a.C, ny = a.B * a.OH * a.OW * a.C;
        bool acc = coin();
        float *x = randoms(nx), *dy = randoms(ny), *y = poisoned(ny), *y0 = poisoned(ny);
        float *dx = output(nx, acc), *dx0 = copied(dx, nx);
        float *mean_dx = copied(dx, nx), *mean_dx0 = copied(dx, nx);
        int32_t *from = (int32_t *)(void *)poisoned(ny);
        plain->max_pool(&c->e, y0, from, x, &a);
        c->k->max_pool_bwd(&c->e, dx, dy, from, &a, acc);
        plain->max_pool_bwd(&c->e, dx0, dy, from, &a, acc);
        compare_arrays("max_pool_bwd", dx, dx0, nx, 1);
        c->k->mean_pool(&c->e, y, x, &a);
        plain->mean_pool(&c->e, y0, x, &a);
        compare_arrays("mean_pool", y, y0, ny, 1);
        c->k->mean_pool_bwd(&c->e, mean_dx, dy, &a, acc);
        plain->mean_pool_bwd(&c->e, mean_dx0, dy, &a, acc);
        compare_arrays("mean_pool_bwd", mean_dx, mean_dx0, nx, 1);
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_CHECK(random_shapes),
        KERNEL_CHECK(three_by_three),
        KERNEL_CHECK(teams),
        KERNEL_CHECK(largest),
        KERNEL_CHECK(pooling),
        cmocka_unit_test(rounded),
    };
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
