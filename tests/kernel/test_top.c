/* test_top.c - the likeliest columns of rows of logits, of every table, against sorting them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 60, MOST_BANS = 4 };

typedef struct {
    qkv_k_top_args a;
    int32_t banned[MOST_BANS];
} problem;

static void random_problem(problem *p)
{
    *p = (problem){.a.N = qkv_rng_below(&kt.rng, 9), .a.V = 1 + random_size(),
                   .a.k = 1 + qkv_rng_below(&kt.rng, 20), .a.renormalize = coin()};
    size_t v = qkv_rng_below(&kt.rng, 3) ? (size_t)qkv_rng_below(&kt.rng, (uint32_t)p->a.V) : 0;
    while (coin() && p->a.bans < MOST_BANS && v < p->a.V) {
        p->banned[p->a.bans++] = (int32_t)v;
        v += 1 + qkv_rng_below(&kt.rng, (uint32_t)p->a.V);
    }
    p->a.banned = p->banned;
}

static bool is_banned(const problem *p, size_t v)
{
    for (size_t i = 0; i < p->a.bans; i++)
        if ((size_t)p->banned[i] == v)
            return true;
    return false;
}

/* The likeliest column after `last` in the order of the answer, or V. */
static size_t next_column(const problem *p, const float *x, size_t last)
{
    size_t best = p->a.V;
    for (size_t v = 0; v < p->a.V; v++) {
        bool later = last == p->a.V || x[v] < x[last] || (x[v] == x[last] && v > last);
        if (later && x[v] > -INFINITY && !is_banned(p, v) && (best == p->a.V || x[v] > x[best]))
            best = v;
    }
    return best;
}

static void check_row(const problem *p, const float *x, const float *value, const int32_t *id)
{
    double max = -INFINITY, sum = 0;
    for (size_t v = 0; v < p->a.V; v++)
        if (!p->a.renormalize || !is_banned(p, v))
            max = (double)x[v] > max ? (double)x[v] : max;
    for (size_t v = 0; v < p->a.V; v++)
        if (x[v] > -INFINITY && (!p->a.renormalize || !is_banned(p, v)))
            sum += exp((double)x[v] - max);
    size_t v = p->a.V;
    for (size_t i = 0; i < p->a.k; i++) {
        if (i == 0 || v != p->a.V)
            v = next_column(p, x, v);
        bool none = v == p->a.V;
        assert_int_equal(id[i], none ? -1 : (int32_t)v);
        near_at("value", i, value[i], none ? -INFINITY : (double)x[v] - max - log(sum), 2e-6, 1);
    }
}

static void check_top(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        problem p;
        random_problem(&p);
        size_t N = p.a.N, V = p.a.V, k = p.a.k;
        float *x = randoms(N * V), *value = poisoned(N * k);
        int32_t *id = (int32_t *)(void *)poisoned(N * k);
        for (size_t i = 0; i < N * V; i++) {
            x[i] = coin() ? x[i] * 5 : roundf(x[i]); /* some are equal */
            if (qkv_rng_below(&kt.rng, 9) == 0)
                x[i] = -INFINITY;
            if (round % 3 == 0 && is_banned(&p, i % V))
                x[i] = 60; /* more than all others together */
        }
        for (size_t r = 0; r < N && round % 7 == 0; r += 2)
            for (size_t v = 0; v < V; v++)
                x[r * V + v] = -INFINITY;
        c->k->top(&c->e, value, id, x, &p.a);
        for (size_t r = 0; r < N; r++)
            check_row(&p, x + r * V, value + r * k, id + r * k);
        free_arrays();
    }
}

static void check_nan(const kernel_case *c)
{
    enum { V = 2100, K = 3 };
    static const size_t places[] = {0, 1023, 1500, V - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        float *x = randoms(V), *value = poisoned(K);
        int32_t *id = (int32_t *)(void *)poisoned(K);
        x[places[i]] = NAN;
        c->k->top(&c->e, value, id, x, &(qkv_k_top_args){.N = 1, .V = V, .k = K});
        assert_true(isnan(value[0]));
        free_arrays();
    }
}

/* Many columns, of which all or nearly all are equal, and answers that are long. */
static void check_many(const kernel_case *c)
{
    static const struct {
        size_t V, k;
        bool equal;
    } cases[] = {{20011, 5, true}, {20011, 700, true}, {9000, 700, false}, {3001, 1500, false},
                 {3001, 4000, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        problem p = {.a = {.N = 2, .V = cases[i].V, .k = cases[i].k, .bans = 2}};
        p.banned[0] = 1;
        p.banned[1] = 1000;
        p.a.banned = p.banned;
        size_t n = p.a.N * p.a.V, k = p.a.k;
        float *x = randoms(n), *value = poisoned(p.a.N * k);
        int32_t *id = (int32_t *)(void *)poisoned(p.a.N * k);
        for (size_t j = 0; j < n && cases[i].equal; j++)
            x[j] = j % 1900 ? -0.5f : j % 3800 ? 0 : -0.0f;
        c->k->top(&c->e, value, id, x, &p.a);
        for (size_t r = 0; r < p.a.N; r++) {
            const float *row = x + r * p.a.V;
            check_row(&p, row, value + r * k, id + r * k);
        }
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {KERNEL_CHECK(check_top), KERNEL_CHECK(check_many),
                                       KERNEL_CHECK(check_nan)};
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
