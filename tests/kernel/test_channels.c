/* test_channels.c - kernels that go channel by channel over all rows, of every table, against
 * formulas in double. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 40 };

static size_t random_rows(void)
{
    return qkv_rng_below(&kt.rng, 8) ? qkv_rng_below(&kt.rng, 150) : 8192 + 77;
}

static size_t random_channels(size_t N)
{
    return 1 + random_size() % (N > 1000 ? 20 : 300);
}

static void check_dot(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = random_rows(), C = random_channels(N);
        float *x = randoms(N * C), *m = randoms(C), *a = coin() ? randoms(N * C) : NULL;
        float *y = poisoned(C);
        c->k->channel_dot(&c->e, y, a, x, m, N, C);
        for (size_t i = 0; i < C; i++) {
            double want = 0, size = 1;
            for (size_t r = 0; r < N; r++) {
                double d = (double)x[r * C + i] - (double)m[i];
                double term = d * (a ? (double)a[r * C + i] : d);
                want += term;
                size += fabs(term);
            }
            near_at("channel_dot", i, y[i], want, 2e-6, size);
        }
        free_arrays();
    }
}

static void check_map(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = random_rows(), C = random_channels(N), n = N * C;
        bool acc = coin(), second = coin();
        float *x = randoms(n), *m = coin() ? randoms(C) : NULL, *q = randoms(C);
        float *u = second ? randoms(n) : NULL, *p = second ? randoms(C) : NULL;
        float *r = coin() ? randoms(C) : NULL, *y = output(n, acc), *was = copied(y, n);
        const qkv_k_channel_map_args args = {.m = m, .q = q, .u = u, .p = p, .r = r};
        c->k->channel_map(&c->e, y, acc, x, &args, N, C);
        for (size_t i = 0; i < n; i++) {
            size_t j = i % C;
            double d = (double)x[i] - (m ? (double)m[j] : 0), a = d * (double)q[j];
            double b = u ? (double)p[j] * (double)u[i] : 0, e = r ? (double)r[j] : 0;
            double before = acc ? (double)was[i] : 0;
            near_at("channel_map", i, y[i], before + a + b + e, 1e-6,
                    1 + fabs(a) + fabs(b) + fabs(e) + fabs(before));
        }
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {KERNEL_CHECK(check_dot), KERNEL_CHECK(check_map)};
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
