/* test_rounded.c - a device's kernels whose arguments lie in bf16, against the plain ones. */
#include "rounded_arguments.h"

/* ---- products ---- */

static void check_gemm(const kernel_case *c)
{
    for (unsigned round = 0; round < 64; round++) {
        const bool ta = coin(), tb = coin(), acc = coin(), biased = coin();
        const unsigned bits = round % 8;
        const bool eights = coin();
        size_t m = 1 + qkv_rng_below(&kt.rng, 90), n = 1 + qkv_rng_below(&kt.rng, 90);
        size_t k = 1 + qkv_rng_below(&kt.rng, 90);
        m = eights ? 8 * m : m, n = eights ? 8 * n : n, k = eights ? 8 * k : k;
        if (!bits && m * n * k < QKV__BF16_LEAST)
            continue;
        const argument a = input(m * k, bits >> 1 & 1), b = input(k * n, bits >> 2 & 1);
        argument want = answer(m * n, bits & 1, acc);
        const argument bias = input(n, false);
        const qkv_k_gemm_args g = {ta, tb, acc, m, n, k, ta ? m : k, tb ? k : n, n,
                                   biased ? bias.wide : NULL};
        const qkv_exec e = exec_of(c, bits);
        float *got = given(&want);
        c->k->gemm(&e, got, given(&a), given(&b), &g);
        plain->gemm(&c->e, want.wide, a.wide, b.wide, &g);
        compare("c", &want, got, 1e-5, sqrt((double)k) + (acc || biased ? 8 : 0));
        free_arrays();
    }
}

/* Rows of c, or of a, in bf16 that have room to the next multiple of 8, as logits do. */
static void check_gemm_rows(const kernel_case *c)
{
    for (unsigned round = 0; round < 24; round++) {
        const bool logits = round % 2, biased = coin(), acc = coin();
        const size_t m = 40 + qkv_rng_below(&kt.rng, 40), V = 41 + qkv_rng_below(&kt.rng, 60);
        const size_t C = 8 * (4 + qkv_rng_below(&kt.rng, 9)), ld = (V + 7) / 8 * 8;
        const argument w = input(V * C, false), bias = input(V, false);
        const argument x = logits ? input(m * C, false) : input(m * ld, true);
        argument y = logits ? answer(m * ld, true, false) : answer(m * C, false, acc);
        for (size_t i = 0; i < m && !logits; i++)
            for (size_t v = V; v < ld; v++) {
                x.wide[i * ld + v] = 0;
                x.bits[i * ld + v] = 0;
            }
        const qkv_k_gemm_args g =
            logits ? (qkv_k_gemm_args){false, true, false, m, V, C, C, C, ld,
                                       biased ? bias.wide : NULL, 0}
                   : (qkv_k_gemm_args){false, false, acc, m, C, V, ld, C, C, NULL, 0};
        const qkv_exec e = exec_of(c, logits ? 1 : 2);
        float *got = given(&y);
        c->k->gemm(&e, got, given(&x), w.wide, &g);
        plain->gemm(&c->e, y.wide, x.wide, w.wide, &g);
        for (size_t i = 0; i < m && logits; i++)
            for (size_t v = V; v < ld; v++) /* what is there does not matter */
                y.wide[i * ld + v] = number_of(y.bits[i * ld + v]);
        compare("c", &y, got, 1e-5, 2 * sqrt((double)(C + V)));
        free_arrays();
    }
}

static void check_sum_rows(const kernel_case *c)
{
    for (int round = 0; round < 24; round++) {
        const size_t N = 1 + qkv_rng_below(&kt.rng, 600), C = 1 + qkv_rng_below(&kt.rng, 300);
        const size_t ld = coin() ? C : C + 1 + qkv_rng_below(&kt.rng, 9);
        const argument x = input(N * ld, true);
        const bool acc = coin();
        argument want = answer(C, false, acc);
        const qkv_exec e = exec_of(c, 2);
        float *got = given(&want);
        c->k->sum_rows(&e, got, given(&x), ld, acc, N, C);
        plain->sum_rows(&c->e, want.wide, x.wide, ld, acc, N, C);
        compare("sums", &want, got, 1e-6, sqrt((double)N) + 1);
        free_arrays();
    }
}

/* ---- norms ---- */

static size_t norm_width(int round)
{
    static const size_t widths[] = {1, 3, 64, 96, 768, 770, 1024, 2052, 5000};
    return widths[round % 9];
}

static void check_norm(const kernel_case *c)
{
    for (int round = 0; round < 36; round++) {
        const qkv_k_norm_args args = {round % 2, 1e-5, 1 + qkv_rng_below(&kt.rng, 20),
                                      norm_width(round)};
        const size_t n = args.N * args.C;
        const bool adds = coin();
        const argument x = input(n, false), residual = input(n, false);
        const argument weight = input(args.C, false), bias = input(args.C, false);
        argument y = answer(n, true, false), sum = answer(n, false, false);
        argument mean = answer(args.N, false, false), rstd = answer(args.N, false, false);
        float *got = given(&y), *got_sum = given(&sum), *got_mean = given(&mean),
              *got_rstd = given(&rstd);
        const qkv_exec e = exec_of(c, 1);
        c->k->norm(&e, got, got_sum, got_mean, got_rstd, x.wide, adds ? residual.wide : NULL,
                   weight.wide, bias.wide, &args);
        plain->norm(&c->e, y.wide, sum.wide, mean.wide, rstd.wide, x.wide,
                    adds ? residual.wide : NULL, weight.wide, bias.wide, &args);
        compare("y", &y, got, 1e-5, 1);
        if (adds)
            compare("sum", &sum, got_sum, 1e-6, 1);
        compare("rstd", &rstd, got_rstd, 1e-5, (double)rstd.wide[0]);
        if (!args.rms)
            compare("mean", &mean, got_mean, 1e-5, 1);
        free_arrays();
    }
}

static void check_norm_bwd(const kernel_case *c)
{
    for (int round = 0; round < 36; round++) {
        const qkv_k_norm_args args = {round % 2, 1e-5, 1 + qkv_rng_below(&kt.rng, 40),
                                      norm_width(round)};
        const size_t n = args.N * args.C;
        const bool acc = coin(), sums = coin();
        const argument s = input(n, false), dy = input(n, true), dsum = input(n, false);
        const argument weight = input(args.C, false);
        float *mean = randoms(args.N), *rstd = randoms(args.N);
        argument dx = answer(n, false, acc);
        argument dweight = answer(args.C, false, acc), dbias = answer(args.C, false, acc);
        float *got = given(&dx), *got_weight = given(&dweight), *got_bias = given(&dbias);
        const qkv_exec e = exec_of(c, 1 << 7);
        c->k->norm_bwd(&e, got, acc, got_weight, acc, got_bias, acc, s.wide, mean, rstd,
                       weight.wide, given(&dy), sums ? dsum.wide : NULL, &args);
        plain->norm_bwd(&c->e, dx.wide, acc, dweight.wide, acc, dbias.wide, acc, s.wide, mean, rstd,
                        weight.wide, dy.wide, sums ? dsum.wide : NULL, &args);
        compare("dx", &dx, got, 1e-4, 10);
        compare("dweight", &dweight, got_weight, 1e-5, 10 * sqrt((double)args.N));
        compare("dbias", &dbias, got_bias, 1e-5, sqrt((double)args.N) + 1);
        free_arrays();
    }
}

/* ---- elements ---- */

static void check_activations(const kernel_case *c)
{
    for (unsigned round = 0; round < 4 * QKV_K_ACT_COUNT; round++) {
        const qkv_k_act act = round % QKV_K_ACT_COUNT;
        const size_t n = 1 + qkv_rng_below(&kt.rng, 3000);
        const bool acc = coin();
        const argument x = input(n, true), dy = input(n, true);
        argument y = answer(n, true, false), dx = answer(n, true, acc);
        qkv_exec e = exec_of(c, 3);
        c->k->act(&e, given(&y), given(&x), act, n);
        plain->act(&c->e, y.wide, x.wide, act, n);
        compare("y", &y, NULL, 1e-6, 1);
        e = exec_of(c, 7);
        c->k->act_bwd(&e, given(&dx), given(&x), given(&dy), act, acc, n);
        plain->act_bwd(&c->e, dx.wide, x.wide, dy.wide, act, acc, n);
        compare("dx", &dx, NULL, 1e-6, 4);
        free_arrays();
    }
}

static void check_gated(const kernel_case *c)
{
    for (int round = 0; round < 24; round++) {
        const size_t N = 1 + qkv_rng_below(&kt.rng, 30), C = (1 + qkv_rng_below(&kt.rng, 40)) *
                                                             (coin() ? 8 : 1);
        const bool acc = coin();
        const argument packed = input(N * 2 * C, true), dy = input(N * C, true);
        argument y = answer(N * C, true, false), d = answer(N * 2 * C, true, acc);
        qkv_exec e = exec_of(c, 7);
        c->k->gated(&e, given(&y), (float *)(void *)packed.bits, 2 * C,
                    (float *)(void *)(packed.bits + C), 2 * C, QKV_K_SILU, N, C);
        plain->gated(&c->e, y.wide, packed.wide, 2 * C, packed.wide + C, 2 * C, QKV_K_SILU, N, C);
        compare("y", &y, NULL, 1e-6, 4);
        e = exec_of(c, 31);
        c->k->gated_bwd(&e, (float *)(void *)d.bits, 2 * C, acc, (float *)(void *)(d.bits + C),
                        2 * C, acc, (float *)(void *)packed.bits, 2 * C,
                        (float *)(void *)(packed.bits + C), 2 * C, given(&dy), QKV_K_SILU, N, C);
        plain->gated_bwd(&c->e, d.wide, 2 * C, acc, d.wide + C, 2 * C, acc, packed.wide, 2 * C,
                         packed.wide + C, 2 * C, dy.wide, QKV_K_SILU, N, C);
        compare("d", &d, NULL, 1e-6, 8);
        free_arrays();
    }
}

static void check_copy(const kernel_case *c)
{
    for (unsigned round = 0; round < 32; round++) {
        const unsigned bits = 1 + round % 3;
        const size_t shape[] = {1 + qkv_rng_below(&kt.rng, 9), 1 + qkv_rng_below(&kt.rng, 40)};
        const bool turned = coin(), acc = coin();
        const size_t n = shape[0] * shape[1], sy[] = {shape[1], 1};
        const size_t sx[] = {turned ? 1 : shape[1], turned ? shape[0] : 1};
        const argument x = input(n, bits >> 1 & 1);
        argument y = answer(n, bits & 1, acc);
        const qkv_exec e = exec_of(c, bits);
        float *got = given(&y);
        c->k->copy(&e, got, sy, given(&x), sx, shape, 2, acc);
        plain->copy(&c->e, y.wide, sy, x.wide, sx, shape, 2, acc);
        compare("y", &y, got, 1e-7, 4);
        free_arrays();
    }
}

/* As many as do not fit one launch, from anywhere in an array. */
static void check_many_sums(const kernel_case *c)
{
    enum { MANY = 431, ROOM = 20100 };
    const qkv_real *x[MANY], *all = randoms(ROOM);
    size_t n[MANY];
    double sums[MANY];
    for (int round = 0; round < 4; round++) {
        const bool squares = round % 2;
        const size_t count = round < 2 ? MANY : qkv_rng_below(&kt.rng, 9);
        for (size_t i = 0; i < count; i++) {
            n[i] = round < 2 ? qkv_rng_below(&kt.rng, 40) : random_size();
            x[i] = all + qkv_rng_below(&kt.rng, ROOM - (uint32_t)n[i]);
        }
        c->k->many_sums(&c->e, sums, x, n, count, squares);
        for (size_t i = 0; i < count; i++)
            assert_true(sums[i] ==
                        (squares ? c->k->sum_squares : c->k->sum)(&c->e, x[i], n[i]));
    }
    free_arrays();
}

/* ---- cross-entropy ---- */

/* In memory that a card reads, as all arrays are. */
static int32_t *ids_of(size_t n) { return (int32_t *)(void *)poisoned(n); }

static void check_xent(const kernel_case *c)
{
    static const size_t classes[] = {1, 5, 8, 65, 257, 1000, 5003, 9000};
    for (int round = 0; round < 48; round++) {
        const size_t V = classes[round % 8], N = 1 + qkv_rng_below(&kt.rng, 6);
        const size_t ld = (V + 7) / 8 * 8 + 8 * qkv_rng_below(&kt.rng, 2);
        const bool apart = coin();
        const double smooth = coin() && V > 1 ? 0.1 / (double)(V - 1) : 0;
        const argument x = input(N * ld, true);
        argument d = apart ? answer(N * ld, true, false) : x;
        float *dense = poisoned(N * V), *gradient = poisoned(N * V);
        argument loss = answer(N, false, false), nll = answer(N, false, false);
        float *got_loss = poisoned(N), *got_nll = poisoned(N);
        int32_t *targets = ids_of(N), *want_at = ids_of(N), *at = ids_of(N);
        for (size_t i = 0; i < N; i++) {
            memcpy(dense + i * V, x.wide + i * ld, V * sizeof *dense);
            targets[i] = coin() ? (int32_t)qkv_rng_below(&kt.rng, V) : coin() ? -7 : 0;
        }
        qkv_k_xent_args args = {1 - smooth * (double)(V - 1), smooth, 0.25, -7, N, V, 0, ld};
        const qkv_exec e = exec_of(c, 0xc);
        c->k->xent(&e, got_loss, got_nll, at, given(&d), given(&x), targets, &args);
        args.ld = 0;
        plain->xent(&c->e, loss.wide, nll.wide, want_at, gradient, dense, targets, &args);
        compare("loss", &loss, got_loss, 1e-5, 10);
        compare("nll", &nll, got_nll, 1e-5, 10);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(at[i], want_at[i]);
        for (size_t i = 0; i < N; i++)
            for (size_t v = 0; v < V; v++)
                near_at("dlogits", i * V + v, number_of(d.bits[i * ld + v]),
                        (double)gradient[i * V + v], rounding, 1e-4);
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DEVICE_CHECK(check_gemm),        DEVICE_CHECK(check_gemm_rows),
        DEVICE_CHECK(check_sum_rows),
        DEVICE_CHECK(check_norm),        DEVICE_CHECK(check_norm_bwd),
        DEVICE_CHECK(check_activations), DEVICE_CHECK(check_gated),
        DEVICE_CHECK(check_copy),        KERNEL_CHECK(check_many_sums),
        DEVICE_CHECK(check_xent),
    };
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
