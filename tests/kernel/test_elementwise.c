/* test_elementwise.c - elementwise kernels of every table against formulas in double: random
 * sizes, poisoned outputs, guards, in-place calls, rows with gaps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 40 };

/* ---- formulas ---------------------------------------------------------------------------- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double act_value(double x, qkv_k_act act)
{
    double u = sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x);
    switch (act) {
    case QKV_K_RELU: return x < 0 ? 0 : x;
    case QKV_K_GELU: return x * erfc(-x / sqrt(2)) / 2;
    case QKV_K_GELU_TANH: return x * sigmoid(2 * u);
    case QKV_K_QUICK_GELU: return x * sigmoid(1.702 * x);
    case QKV_K_SILU: return x * sigmoid(x);
    case QKV_K_SIGMOID: return sigmoid(x);
    case QKV_K_TANH: return tanh(x);
    case QKV_K_LEAKY_RELU: return x < 0 ? 0.2 * x : x;
    default: return x;
    }
}

/* Slopes by central differences of the formulas above: error about 1e-10. */
static double act_slope(double x, qkv_k_act act)
{
    double h = 1e-5;
    if (act == QKV_K_RELU || act == QKV_K_NONE)
        return act == QKV_K_NONE || x > 0;
    if (act == QKV_K_LEAKY_RELU)
        return x > 0 ? 1 : 0.2;
    return (act_value(x + h, act) - act_value(x - h, act)) / (2 * h);
}

/* Relative: a rounding of the exponent matters as often as the exponent is large. */
static double act_tolerance(double x, qkv_k_act act)
{
    double exponent = x > 0 || act == QKV_K_TANH ? 0 : -2 * x;
    if (exponent > 0 && (act == QKV_K_GELU || act == QKV_K_GELU_TANH))
        exponent = x * x / 2 - x * x * x / 10;
    return 5e-7 + 1.5e-7 * exponent;
}

/* ---- activations ------------------------------------------------------------------------- */

static float *act_inputs(size_t n)
{
    static const float special[] = {0, -0.0f, 1e-30f, -1e-8f, 0.62499f, 0.6251f, 3, -3, -9, 12,
                                    -14.4f, -15, 40, -87, -100, 1000, -1000, 1e15f, -1e15f};
    float *x = randoms(n);
    for (size_t i = 0; i < n; i++)
        x[i] *= coin() ? 1 : 5;
    for (size_t i = 0; i < sizeof special / sizeof *special && n > 40; i++)
        x[2 * i] = special[i];
    return x;
}

static void check_act(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (qkv_k_act act = QKV_K_NONE; act < QKV_K_ACT_COUNT; act++) {
            size_t n = random_size();
            float *x = act_inputs(n), *y = coin() ? copied(x, n) : poisoned(n);
            bool in_place = n && !isnan(y[0]);
            c->k->act(&c->e, y, in_place ? y : x, act, n);
            for (size_t i = 0; i < n; i++) {
                double want = act_value((double)x[i], act);
                near_at("act", i, y[i], want, act_tolerance((double)x[i], act), 1e-30);
            }
            free_arrays();
        }
    }
}

static void check_act_bwd(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (qkv_k_act act = QKV_K_NONE; act < QKV_K_ACT_COUNT; act++) {
            size_t n = random_size();
            bool acc = coin(), in_place = !acc && coin();
            float *x = act_inputs(n), *dy = randoms(n), *dx = output(n, acc);
            float *was = copied(dx, n);
            if (in_place)
                dx = copied(dy, n);
            c->k->act_bwd(&c->e, dx, x, in_place ? dx : dy, act, acc, n);
            for (size_t i = 0; i < n; i++) {
                double want = act_slope((double)x[i], act) * (double)dy[i];
                if (fabsf(x[i]) > 1e10f && act != QKV_K_RELU && act != QKV_K_NONE)
                    continue; /* the difference quotient is no measure there */
                double scale = 1 + fabs((double)dy[i]);
                near_at("dx", i, dx[i], acc ? (double)was[i] + want : want, 2e-6, scale);
            }
            free_arrays();
        }
    }
}

static void check_act_nan(const kernel_case *c)
{
    for (qkv_k_act act = QKV_K_NONE; act < QKV_K_ACT_COUNT; act++) {
        float *x = randoms(40), *y = poisoned(40), *dx = poisoned(40), *dy = randoms(40);
        x[3] = x[36] = NAN;
        c->k->act(&c->e, y, x, act, 40);
        c->k->act_bwd(&c->e, dx, x, dy, act, false, 40);
        for (size_t i = 0; i < 40; i++) {
            assert_int_equal(isnan(y[i]) != 0, i == 3 || i == 36);
            assert_int_equal(isnan(dx[i]) != 0, act != QKV_K_NONE && (i == 3 || i == 36));
        }
        free_arrays();
    }
}

/* (N, C) of rows ld apart; what lies between the rows stays poisoned. */
static void gap_untouched(const float *x, size_t ld, size_t N, size_t C)
{
    for (size_t r = 0; r + 1 < N; r++)
        for (size_t i = C; i < ld; i++)
            assert_true(isnan(x[r * ld + i]));
}

static float *gapped(size_t ld, size_t N, size_t C, bool filled)
{
    float *x = poisoned(N * ld);
    for (size_t r = 0; r < N && filled; r++)
        for (size_t i = 0; i < C; i++)
            x[r * ld + i] = (float)rnd();
    return x;
}

static void check_gated(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = qkv_rng_below(&kt.rng, 9), C = random_size();
        size_t ldg = C + (coin() ? C : 0), ldu = C + (coin() ? 5 : 0), lddg = C + 3, lddu = C;
        qkv_k_act act = qkv_rng_below(&kt.rng, QKV_K_ACT_COUNT);
        bool acc_gate = coin(), acc_up = coin();
        bool want_gate = qkv_rng_below(&kt.rng, 4) > 0, want_up = qkv_rng_below(&kt.rng, 4) > 0;
        float *gate = gapped(ldg, N, C, true), *up = gapped(ldu, N, C, true);
        float *y = poisoned(N * C), *dy = randoms(N * C);
        float *dgate = gapped(lddg, N, C, acc_gate), *dup = gapped(lddu, N, C, acc_up);
        float *dgate0 = copied(dgate, N * lddg), *dup0 = copied(dup, N * lddu);
        c->k->gated(&c->e, y, gate, ldg, up, ldu, act, N, C);
        c->k->gated_bwd(&c->e, want_gate ? dgate : NULL, lddg, acc_gate, want_up ? dup : NULL,
                        lddu, acc_up, gate, ldg, up, ldu, dy, act, N, C);
        for (size_t i = 0; i < N * C; i++) {
            size_t r = i / C, k = i % C, at = r * lddg + k, au = r * lddu + k;
            double g = (double)gate[r * ldg + k], u = (double)up[r * ldu + k], d = (double)dy[i];
            near_at("y", i, y[i], act_value(g, act) * u, 1e-6, 1);
            double want = act_slope(g, act) * u * d + (acc_gate ? (double)dgate0[at] : 0);
            if (want_gate)
                near_at("dgate", i, dgate[at], want, 2e-6, 1);
            want = act_value(g, act) * d + (acc_up ? (double)dup0[au] : 0);
            if (want_up)
                near_at("dup", i, dup[au], want, 2e-6, 1);
        }
        gap_untouched(dgate, lddg, N, C);
        if (!want_gate && N * lddg > 0)
            assert_memory_equal(dgate, dgate0, N * lddg * sizeof *dgate);
        if (!want_up && N * lddu > 0)
            assert_memory_equal(dup, dup0, N * lddu * sizeof *dup);
        free_arrays();
    }
}

/* ---- arithmetic -------------------------------------------------------------------------- */

static void check_arithmetic(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_size();
        bool acc = coin();
        double alpha = rnd();
        float *a = randoms(n), *b = randoms(n), *y = output(n, acc), *was = copied(y, n);
        c->k->axpy(&c->e, y, a, alpha, acc, n);
        for (size_t i = 0; i < n; i++)
            near_at("axpy", i, y[i], alpha * (double)a[i] + (acc ? (double)was[i] : 0), 3e-7, 3);
        float *z = copied(was, n);
        c->k->mul(&c->e, z, a, b, acc, n);
        for (size_t i = 0; i < n; i++)
            near_at("mul", i, z[i], (double)a[i] * (double)b[i] + (acc ? (double)was[i] : 0), 3e-7,
                    3);
        if (!acc) {
            float *own = copied(a, n), *factor = copied(b, n);
            c->k->axpy(&c->e, own, own, alpha, false, n);
            c->k->mul(&c->e, factor, a, factor, false, n);
            assert_true(n == 0 || !memcmp(own, y, n * sizeof *y));
            assert_true(n == 0 || !memcmp(factor, z, n * sizeof *z));
        }
        float *s = poisoned(n), *left = copied(a, n), *right = copied(b, n);
        c->k->add(&c->e, s, a, b, n);
        c->k->add(&c->e, left, left, b, n);
        c->k->add(&c->e, right, a, right, n);
        for (size_t i = 0; i < n; i++) {
            near_at("add", i, s[i], (double)a[i] + (double)b[i], 1e-7, 0);
            assert_true(left[i] == s[i] && right[i] == s[i]);
        }
        free_arrays();
    }
}

static void check_sums(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = round ? random_size() : 3000001;
        float *x = randoms(n);
        double sum = 0, squares = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)x[i];
            size += fabs((double)x[i]);
            squares += (double)x[i] * (double)x[i];
        }
        assert_true(fabs(c->k->sum(&c->e, x, n) - sum) <= 1e-12 * size);
        assert_true(fabs(c->k->sum_squares(&c->e, x, n) - squares) <= 1e-12 * squares);
        qkv_exec other = c->e;
        other.threads = 2;
        assert_true(c->k->sum(&other, x, n) == c->k->sum(&c->e, x, n));
        assert_true(c->k->sum_squares(&other, x, n) == c->k->sum_squares(&c->e, x, n));
        free_arrays();
    }
    float *huge = copied((const float[]){1e30f, -1e30f, 2e30f}, 3);
    double got = c->k->sum_squares(&c->e, huge, 3);
    assert_true(fabs(got - 6e60) < 1e54);
    free_arrays();
}

static void check_sum_rows(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = qkv_rng_below(&kt.rng, 200), C = random_size();
        if (N * C > 1000000)
            N = 3;
        if (round == 0) {
            N = 9001;
            C = 128;
        }
        size_t ldx = C + (coin() ? 7 : 0);
        bool acc = coin();
        float *x = gapped(ldx, N, C, true), *y = output(C, acc), *was = copied(y, C);
        float *again = copied(y, C);
        c->k->sum_rows(&c->e, y, x, ldx, acc, N, C);
        for (size_t i = 0; i < C; i++) {
            double want = acc ? (double)was[i] : 0, size = fabs(want);
            for (size_t r = 0; r < N; r++) {
                want += (double)x[r * ldx + i];
                size += fabs((double)x[r * ldx + i]);
            }
            near_at("sum_rows", i, y[i], want, 1e-6, size);
        }
        qkv_exec other = c->e;
        other.threads = 2;
        c->k->sum_rows(&other, again, x, ldx, acc, N, C);
        if (C)
            assert_memory_equal(again, y, C * sizeof *y);
        free_arrays();
    }
}

/* ---- copies ------------------------------------------------------------------------------ */

/* y dense in a random order of x's dimensions; some of x's strides 0. */
static void check_copy(const kernel_case *c)
{
    for (int round = 0; round < 8 * ROUNDS; round++) {
        int ndim = (int)qkv_rng_below(&kt.rng, 9);
        uint32_t largest = ndim < 3 ? 150 : ndim < 5 ? 20 : 5;
        size_t shape[8] = {0}, sx[8] = {0}, sy[8] = {0}, nx = 1, ny = 1;
        int order[8];
        for (int i = 0; i < ndim; i++) {
            shape[i] = qkv_rng_below(&kt.rng, 40) ? 1 + qkv_rng_below(&kt.rng, largest) : 0;
            order[i] = i;
        }
        for (int i = ndim - 1; i > 0; i--) {
            int j = (int)qkv_rng_below(&kt.rng, (uint32_t)i + 1), t = order[i];
            order[i] = order[j];
            order[j] = t;
        }
        for (int i = ndim - 1; i >= 0; i--) {
            sy[i] = ny;
            ny *= shape[i];
            int d = order[i];
            sx[d] = qkv_rng_below(&kt.rng, 8) ? nx : 0;
            nx *= sx[d] ? shape[d] : 1;
        }
        bool acc = coin();
        float *x = randoms(nx), *y = output(ny, acc), *was = copied(y, ny);
        c->k->copy(&c->e, y, sy, x, sx, shape, ndim, acc);
        for (size_t i = 0; i < ny; i++) {
            size_t rest = i, at = 0;
            for (int d = ndim - 1; d >= 0; d--) {
                at += rest % shape[d] * sx[d];
                rest /= shape[d];
            }
            assert_true(y[i] == (acc ? was[i] + x[at] : x[at]));
        }
        free_arrays();
    }
}

/* Both sides with gaps: a block of columns moves into another block of columns. */
static void check_copy_slices(const kernel_case *c)
{
    const size_t N = 300, C = 70, ldx = 100, ldy = 90;
    const size_t shape[] = {N, C}, sx[] = {ldx, 1}, sy[] = {ldy, 1};
    float *x = gapped(ldx, N, C, true), *y = poisoned(N * ldy);
    c->k->copy(&c->e, y, sy, x, sx, shape, 2, false);
    for (size_t i = 0; i < N * C; i++)
        assert_true(y[i / C * ldy + i % C] == x[i / C * ldx + i % C]);
    gap_untouched(y, ldy, N, C);
    free_arrays();
}

/* ---- dropout ----------------------------------------------------------------------------- */

static bool kept(const qkv_k_dropout_args *a, uint64_t i)
{
    uint64_t g = a->first + i;
    const uint32_t counter[4] = {(uint32_t)(g / 4), (uint32_t)(g / 4 >> 32), (uint32_t)a->step,
                                 a->dropout_id};
    const uint32_t key[2] = {(uint32_t)a->seed, (uint32_t)(a->seed >> 32)};
    uint32_t word[4];
    qkv__philox(word, counter, key);
    return (double)word[g % 4] >= floor(a->p * 4294967296.0);
}

static void check_dropout(const kernel_case *c)
{
    static const double rates[] = {0, 0.1, 0.5, 0.9, 1e-9, 0.999999};
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_size();
        qkv_k_dropout_args a = {
            .p = rates[round % 6], .seed = 0x123456789abcdef0u + (uint64_t)round,
            .step = (uint64_t)round * 77, .first = qkv_rng_below(&kt.rng, 1000),
            .dropout_id = (uint32_t)round,
        };
        a.first += round % 3 ? 0 : 0x3fffffff0u; /* group numbers cross 32 bits */
        bool acc = coin(), add = coin();
        int in_place = acc ? 0 : (int)qkv_rng_below(&kt.rng, 3); /* y is x, y is residual */
        float *x = randoms(n), *res = add ? randoms(n) : NULL, *y = output(n, acc);
        float *was = copied(y, n), scale = (float)(1 / (1 - a.p));
        const float *in = x, *shift = res;
        if (in_place == 1)
            in = y = copied(x, n);
        if (in_place == 2 && add)
            shift = y = copied(res, n);
        c->k->dropout(&c->e, y, in, shift, acc, &a, n);
        for (size_t i = 0; i < n; i++) {
            float want = kept(&a, i) ? x[i] * scale : 0;
            want = add ? res[i] + want : want;
            near_at("dropout", i, y[i], acc ? (double)was[i] + (double)want : (double)want, 3e-7,
                    kept(&a, i) ? fabs((double)(x[i] * scale)) + 1 : 0);
        }
        free_arrays();
    }
}

/* A tensor in two parts keeps what it keeps in one. */
static void check_dropout_parts(const kernel_case *c)
{
    const size_t n = 30000;
    for (size_t cut = 0; cut < 70; cut += 1 + cut / 8) {
        qkv_k_dropout_args a = {.p = 0.3, .seed = 5, .step = 9, .first = 21, .dropout_id = 3};
        float *x = randoms(n), *whole = poisoned(n), *parts = poisoned(n);
        c->k->dropout(&c->e, whole, x, NULL, false, &a, n);
        c->k->dropout(&c->e, parts, x, NULL, false, &a, cut);
        a.first += cut;
        c->k->dropout(&c->e, parts + cut, x + cut, NULL, false, &a, n - cut);
        assert_memory_equal(whole, parts, n * sizeof *x);
        free_arrays();
    }
}

static void check_scale_rows(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = random_size() % 300, C = 1 + random_size() % 300;
        bool acc = coin();
        float *x = randoms(N * C), *factor = randoms(N), *y = output(N * C, acc);
        float *was = copied(y, N * C);
        for (size_t r = 0; r < N; r += 3) { /* what is dropped is not looked at */
            factor[r] = 0;
            x[r * C] = NAN;
        }
        c->k->scale_rows(&c->e, y, x, factor, acc, N, C);
        for (size_t i = 0; i < N * C; i++) {
            double v = factor[i / C] == 0 ? 0 : (double)factor[i / C] * (double)x[i];
            near_at("scale_rows", i, y[i], (acc ? (double)was[i] : 0) + v, 3e-7, 1 + fabs(v));
        }
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_CHECK(check_act),
        KERNEL_CHECK(check_act_bwd),
        KERNEL_CHECK(check_act_nan),
        KERNEL_CHECK(check_gated),
        KERNEL_CHECK(check_arithmetic),
        KERNEL_CHECK(check_sums),
        KERNEL_CHECK(check_sum_rows),
        KERNEL_CHECK(check_copy),
        KERNEL_CHECK(check_copy_slices),
        KERNEL_CHECK(check_dropout),
        KERNEL_CHECK(check_dropout_parts),
        KERNEL_CHECK(check_scale_rows),
    };
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
