/* test_rounded_images.c - a device's convolutions, sums and group norms whose images, results and
 * gradients lie in bf16, against the plain ones. */
#include "rounded_arguments.h"

static size_t among(size_t low, size_t high)
{
    return low + qkv_rng_below(&kt.rng, (uint32_t)(high - low + 1));
}

/* ---- convolutions ---- */

enum { PLAIN = 40, PRODUCTS = 8, LARGE = 8, ROUNDS = PLAIN + PRODUCTS + LARGE };

/* Windows of any kind; of one pixel, which are products; or so many that a library may take them.
 * That rounds all that it makes to bf16. */
static qkv_k_conv_args some_convolution(unsigned round)
{
    static const size_t channels[] = {1, 3, 4, 8, 16, 17, 32}, many[] = {60, 64, 72};
    qkv_k_conv_args a = {.B = among(1, 3), .H = among(4, 14), .W = among(4, 14),
                         .C = channels[among(0, 6)], .N = channels[among(0, 6)],
                         .KH = among(1, 4), .KW = among(1, 4), .stride = among(1, 2),
                         .top = among(0, 2), .left = among(0, 2)};
    size_t bottom = among(0, 2), right = among(0, 2);
    if (round >= PLAIN)
        a.KH = a.KW = a.stride = 1, a.top = a.left = bottom = right = 0;
    if (round >= PLAIN + PRODUCTS) {
        a.B = 1, a.H = a.W = 24, a.KH = a.KW = 3, a.stride = 1;
        a.C = many[among(0, 2)], a.N = many[among(0, 2)];
        a.top = among(0, 1), a.left = bottom = right = 1;
    }
    a.OH = (a.H + a.top + bottom - a.KH) / a.stride + 1;
    a.OW = (a.W + a.left + right - a.KW) / a.stride + 1;
    return a;
}

static double tolerance(unsigned round) { return round >= PLAIN + PRODUCTS ? 1e-2 : 1e-5; }

static void check_conv(const kernel_case *c)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        const qkv_k_conv_args a = some_convolution(round);
        const unsigned bits = round % 4;
        const size_t of_window = a.KH * a.KW * a.C;
        const argument x = input(a.B * a.H * a.W * a.C, bits >> 1 & 1);
        const argument w = input(a.N * of_window, false), bias = input(a.N, false);
        argument y = answer(a.B * a.OH * a.OW * a.N, bits & 1, false);
        float *got = given(&y), *of = coin() ? bias.wide : NULL;
        const qkv_exec e = exec_of(c, bits);
        c->k->conv(&e, got, given(&x), w.wide, of, &a);
        plain->conv(&c->e, y.wide, x.wide, w.wide, of, &a);
        compare("y", &y, got, tolerance(round), sqrt((double)of_window) + 8);
        free_arrays();
    }
}

static void check_conv_bwd_data(const kernel_case *c)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        const qkv_k_conv_args a = some_convolution(round);
        const unsigned bits = round % 4;
        const bool acc = coin();
        const argument w = input(a.N * a.KH * a.KW * a.C, false);
        const argument dy = input(a.B * a.OH * a.OW * a.N, bits >> 1 & 1);
        argument dx = answer(a.B * a.H * a.W * a.C, bits & 1, acc);
        float *got = given(&dx);
        const qkv_exec e = exec_of(c, bits);
        c->k->conv_bwd_data(&e, got, given(&dy), w.wide, &a, acc);
        plain->conv_bwd_data(&c->e, dx.wide, dy.wide, w.wide, &a, acc);
        compare("dx", &dx, got, tolerance(round), sqrt((double)(a.KH * a.KW * a.N)) + 8);
        free_arrays();
    }
}

static void check_conv_bwd_weights(const kernel_case *c)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        const qkv_k_conv_args a = some_convolution(round);
        const unsigned bits = 2 * (round % 4);
        const bool acc = coin();
        const argument x = input(a.B * a.H * a.W * a.C, bits >> 2 & 1);
        const argument dy = input(a.B * a.OH * a.OW * a.N, bits >> 1 & 1);
        argument dw = answer(a.N * a.KH * a.KW * a.C, false, acc);
        float *got = given(&dw);
        const qkv_exec e = exec_of(c, bits);
        c->k->conv_bwd_weights(&e, got, given(&dy), given(&x), &a, acc);
        plain->conv_bwd_weights(&c->e, dw.wide, dy.wide, x.wide, &a, acc);
        compare("dw", &dw, got, tolerance(round), sqrt((double)(a.B * a.OH * a.OW)) + 8);
        free_arrays();
    }
}

/* ---- sums ---- */

static void check_add(const kernel_case *c)
{
    for (int round = 0; round < 12; round++) {
        const size_t n = random_size();
        const argument a = input(n, false), b = input(n, true);
        argument y = answer(n, false, false);
        float *got = given(&y);
        const qkv_exec e = exec_of(c, 1 << 2);
        c->k->add(&e, got, a.wide, given(&b), n);
        plain->add(&c->e, y.wide, a.wide, b.wide, n);
        compare("y", &y, got, 1e-7, 1);
        free_arrays();
    }
}

/* ---- group norm ---- */

static qkv_k_group_norm_args some_groups(unsigned round)
{
    const size_t G = among(1, 5), width = coin() ? 4 * among(1, 9) : among(1, 9);
    return (qkv_k_group_norm_args){.B = among(1, 3), .N = round % 8 ? among(1, 60) : 2000,
                                   .C = G * width, .G = G, .eps = 0.05, .silu = coin()};
}

static void check_group_norm(const kernel_case *c)
{
    for (unsigned round = 0; round < 48; round++) {
        const qkv_k_group_norm_args a = some_groups(round);
        const bool to_bf16 = round & 1, of_bf16 = round >> 1 & 1;
        const size_t n = a.B * a.N * a.C, groups = a.B * a.G;
        const argument x = input(n, of_bf16), weight = input(a.C, false), bias = input(a.C, false);
        argument y = answer(n, to_bf16, false), mean = answer(groups, false, false);
        argument rstd = answer(groups, false, false);
        float *got = given(&y), *got_mean = given(&mean), *got_rstd = given(&rstd);
        const qkv_exec e = exec_of(c, to_bf16 | (unsigned)of_bf16 << 3);
        c->k->group_norm(&e, got, got_mean, got_rstd, given(&x), weight.wide, bias.wide, &a);
        plain->group_norm(&c->e, y.wide, mean.wide, rstd.wide, x.wide, weight.wide, bias.wide, &a);
        compare("y", &y, got, 1e-5, 4);
        compare("mean", &mean, got_mean, 1e-5, 1);
        compare("rstd", &rstd, got_rstd, 1e-5, (double)rstd.wide[0]);
        free_arrays();
    }
}

static void check_group_norm_bwd(const kernel_case *c)
{
    for (unsigned round = 0; round < 48; round++) {
        const qkv_k_group_norm_args a = some_groups(round);
        const bool dy_bf16 = round & 1, x_bf16 = round >> 1 & 1, acc = coin();
        const bool wanted = round % 5 > 0;
        const size_t n = a.B * a.N * a.C, groups = a.B * a.G;
        const argument x = input(n, x_bf16), dy = input(n, dy_bf16);
        const argument weight = input(a.C, false), bias = input(a.C, false);
        float *y = poisoned(n), *mean = poisoned(groups), *rstd = poisoned(groups);
        argument dx = answer(n, x_bf16, acc), dweight = answer(a.C, false, false);
        argument dbias = answer(a.C, false, false);
        float *got = given(&dx), *got_weight = given(&dweight), *got_bias = given(&dbias);
        const qkv_exec e = exec_of(c, (unsigned)x_bf16 * (1 + (1 << 4)) + (unsigned)dy_bf16 * 8);
        plain->group_norm(&c->e, y, mean, rstd, x.wide, weight.wide, bias.wide, &a);
        c->k->group_norm_bwd(&e, wanted ? got : NULL, acc, got_weight, got_bias, given(&dy),
                             given(&x), mean, rstd, weight.wide, bias.wide, &a);
        plain->group_norm_bwd(&c->e, dx.wide, acc, dweight.wide, dbias.wide, dy.wide, x.wide, mean,
                              rstd, weight.wide, bias.wide, &a);
        if (wanted)
            compare("dx", &dx, got, 2e-5, 10);
        compare("dweight", &dweight, got_weight, 1e-5, 4 * sqrt((double)(a.B * a.N)) + 1);
        compare("dbias", &dbias, got_bias, 1e-5, 2 * sqrt((double)(a.B * a.N)) + 1);
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DEVICE_CHECK(check_conv),
        DEVICE_CHECK(check_conv_bwd_data),
        DEVICE_CHECK(check_conv_bwd_weights),
        DEVICE_CHECK(check_add),
        DEVICE_CHECK(check_group_norm),
        DEVICE_CHECK(check_group_norm_bwd),
    };
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
