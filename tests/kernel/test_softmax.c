/* test_softmax.c - softmax and cross-entropy, of every table, against formulas in double. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 40 };

static bool often(void) { return qkv_rng_below(&kt.rng, 4) != 0; }

/* ---- softmax ----------------------------------------------------------------------------- */

static float *random_logits(size_t N, size_t C)
{
    float *x = randoms(N * C);
    for (size_t r = 0; r < N; r++) {
        float scale = coin() ? 1.0f : 20.0f, shift = coin() ? 0.0f : 100.0f;
        for (size_t c = 0; c < C; c++) {
            float *v = &x[r * C + c];
            *v = *v * scale + shift;
            if (qkv_rng_below(&kt.rng, 50) == 0)
                *v = -INFINITY;
        }
        bool none = qkv_rng_below(&kt.rng, 10) == 0;
        for (size_t c = 0; c < C && none; c++)
            x[r * C + c] = -INFINITY;
    }
    return x;
}

static double row_max(const float *x, size_t C)
{
    double max = -INFINITY;
    for (size_t c = 0; c < C; c++)
        max = (double)x[c] > max ? (double)x[c] : max;
    return max;
}

static double row_exp_sum(const float *x, double max, size_t C)
{
    double sum = 0;
    for (size_t c = 0; c < C; c++)
        sum += exp((double)x[c] - max);
    return sum;
}

static void check_softmax(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = qkv_rng_below(&kt.rng, 20), C = random_size();
        size_t shift = qkv_rng_below(&kt.rng, 4); /* y is aligned in another way than x */
        float *x = random_logits(N, C), *y = poisoned(N * C + shift) + shift;
        float *z = copied(x, N * C);
        c->k->softmax(&c->e, y, x, N, C);
        c->k->softmax(&c->e, z, z, N, C);
        for (size_t r = 0; r < N && C > 0; r++) {
            double max = row_max(x + r * C, C), sum = row_exp_sum(x + r * C, max, C);
            for (size_t i = r * C; i < (r + 1) * C; i++) {
                double want = isinf(max) ? 0 : exp((double)x[i] - max) / sum;
                /* x - max is rounded to its own size. */
                double tolerance = 5e-7 + 1e-7 * (isinf(want) || want == 0 ? 0 : -log(want));
                near_at("softmax", i, y[i], want, tolerance, 1e-31);
                assert_true(z[i] == y[i]);
            }
        }
        free_arrays();
    }
}

static void check_softmax_bwd(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = qkv_rng_below(&kt.rng, 20), C = random_size(), n = N * C;
        bool acc = coin();
        float *x = random_logits(N, C), *y = poisoned(n), *dy = randoms(n), *dx = output(n, acc);
        float *was = copied(dx, n), *z = copied(dy, n);
        c->k->softmax(&c->e, y, x, N, C);
        c->k->softmax_bwd(&c->e, dx, y, dy, acc, N, C);
        c->k->softmax_bwd(&c->e, z, y, z, false, N, C);
        for (size_t r = 0; r < N; r++) {
            double dot = 0;
            for (size_t i = r * C; i < (r + 1) * C; i++)
                dot += (double)y[i] * (double)dy[i];
            for (size_t i = r * C; i < (r + 1) * C; i++) {
                double want = (double)y[i] * ((double)dy[i] - dot);
                near_at("dx in place", i, z[i], want, 1e-6, (double)y[i] * 3 + 1e-30);
                near_at("dx", i, dx[i], want + (acc ? (double)was[i] : 0), 1e-6, 1);
            }
        }
        free_arrays();
    }
}

/* ---- cross-entropy ----------------------------------------------------------------------- */

typedef struct {
    qkv_k_xent_args a;
    float *x;
    int32_t *targets;
} xent_problem;

static xent_problem random_xent(int round)
{
    xent_problem p = {.a = {.on = 1, .scale = 0.3, .ignore = coin() ? -100 : 0}};
    p.a.N = qkv_rng_below(&kt.rng, 20);
    p.a.V = round == 0 ? 50257 : 1 + random_size();
    bool smooth = coin() && p.a.V > 1;
    if (smooth) {
        p.a.off = 0.1 / (double)p.a.V;
        p.a.on = 1 - p.a.off * (double)(p.a.V - 1);
    }
    p.x = randoms(p.a.N * p.a.V);
    p.targets = calloc(p.a.N + 1, sizeof *p.targets);
    assert_non_null(p.targets);
    for (size_t r = 0; r < p.a.N; r++) {
        p.targets[r] = (int32_t)qkv_rng_below(&kt.rng, (uint32_t)p.a.V);
        if (qkv_rng_below(&kt.rng, 4) == 0)
            p.targets[r] = p.a.ignore;
        /* Rows whose maximum moves up late, ties, and hidden classes where nothing is smoothed. */
        float *x = p.x + r * p.a.V, slope = coin() ? 0.0f : 0.01f;
        for (size_t v = 0; v < p.a.V; v++) {
            x[v] = (coin() ? x[v] : roundf(x[v])) * 3 + slope * (float)v + 50;
            if (!smooth && qkv_rng_below(&kt.rng, 30) == 0)
                x[v] = -INFINITY;
        }
        for (size_t v = 0; v < p.a.V && v < 2000 && !smooth && round % 2; v++)
            x[v] = -INFINITY;
        x[p.a.V - 1] = 55;
    }
    return p;
}

static size_t first_max(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 0; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static void check_xent_row(const xent_problem *p, size_t r, float loss, const float *nll,
                           const float *d)
{
    const size_t V = p->a.V;
    const float *x = p->x + r * V;
    bool ignored = p->targets[r] == p->a.ignore;
    size_t t = ignored ? 0 : (size_t)p->targets[r];
    double max = row_max(x, V), log_sum = log(row_exp_sum(x, max, V)) + max, want = 0;
    for (size_t v = 0; v < V; v++) {
        double q = v == t ? p->a.on : p->a.off;
        want += q == 0 ? 0 : q * (log_sum - (double)x[v]);
        double g = p->a.scale * (exp((double)x[v] - log_sum) - q);
        /* Where p is next to q, their difference has the rounding errors of both. */
        double size = v == t ? 1 : 1e-4 + exp((double)x[v] - log_sum) + q;
        if (d)
            near_at("dlogits", v, d[v], ignored ? 0 : g, 2e-6, ignored ? 0 : size);
    }
    near_at("loss", r, loss, ignored ? 0 : want, 1e-5, ignored ? 0 : 1);
    if (nll)
        near_at("nll", r, nll[r], ignored ? 0 : log_sum - (double)x[t], 1e-5, ignored ? 0 : 1);
}

static void check_xent(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        xent_problem p = random_xent(round);
        const size_t N = p.a.N, V = p.a.V, n = N * V;
        float *loss = poisoned(N), *nll = coin() ? poisoned(N) : NULL;
        size_t shift = qkv_rng_below(&kt.rng, 4);
        float *d = often() ? coin() ? copied(p.x, n) : poisoned(n + shift) + shift : NULL;
        int32_t *argmax = often() ? malloc((N + 1) * sizeof *argmax) : NULL;
        bool in_place = d && n && !isnan(d[0]);
        c->k->xent(&c->e, loss, nll, argmax, d, in_place ? d : p.x, p.targets, &p.a);
        for (size_t r = 0; r < N; r++) {
            check_xent_row(&p, r, loss[r], nll, d ? d + r * V : NULL);
            assert_true(!argmax || (size_t)argmax[r] == first_max(p.x + r * V, V));
        }
        free(argmax);
        free(p.targets);
        free_arrays();
    }
}

/* Distributions of which some classes have no part. */
static float *random_targets(size_t N, size_t V)
{
    float *y = randoms(N * V);
    for (size_t r = 0; r < N; r++) {
        double sum = 1e-3;
        for (size_t v = 0; v < V; v++) {
            y[r * V + v] = coin() ? fabsf(y[r * V + v]) : 0;
            sum += (double)y[r * V + v];
        }
        for (size_t v = 0; v < V; v++)
            y[r * V + v] = (float)((double)y[r * V + v] / sum);
    }
    return y;
}

static void check_soft_row(const xent_problem *p, const float *y, size_t r, float loss,
                           const float *nll, const float *d)
{
    const size_t V = p->a.V;
    const float *x = p->x + r * V;
    double max = row_max(x, V), log_sum = log(row_exp_sum(x, max, V)) + max, want = 0, hard = 0;
    double of_q = 0, spread = p->a.on - p->a.off;
    for (size_t v = 0; v < V; v++) {
        double q = p->a.off + spread * (double)y[v], log_p = (double)x[v] - log_sum;
        of_q += q;
        want -= q == 0 ? 0 : q * log_p;
        hard -= y[v] == 0 ? 0 : (double)y[v] * log_p;
    }
    near_at("loss", r, loss, want, 1e-5, 1);
    if (nll)
        near_at("nll", r, nll[r], hard, 1e-5, 1);
    for (size_t v = 0; v < V && d; v++) {
        double q = p->a.off + spread * (double)y[v], at = of_q * exp((double)x[v] - log_sum);
        near_at("dlogits", v, d[v], p->a.scale * (at - q), 3e-6, 1e-4 + at + q);
    }
}

static void check_xent_soft(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        xent_problem p = random_xent(round);
        const size_t N = p.a.N, V = p.a.V, n = N * V;
        for (size_t i = 0; i < n; i++)
            p.x[i] = isinf(p.x[i]) ? 40 : p.x[i];
        float *y = random_targets(N, V), *loss = poisoned(N), *nll = coin() ? poisoned(N) : NULL;
        float *d = often() ? coin() ? copied(p.x, n) : poisoned(n) : NULL;
        int32_t *argmax = often() ? malloc((N + 1) * sizeof *argmax) : NULL;
        bool in_place = d && n && !isnan(d[0]);
        c->k->xent_soft(&c->e, loss, nll, argmax, d, in_place ? d : p.x, y, &p.a);
        for (size_t r = 0; r < N; r++) {
            check_soft_row(&p, y + r * V, r, loss[r], nll, d ? d + r * V : NULL);
            assert_true(!argmax || (size_t)argmax[r] == first_max(p.x + r * V, V));
        }
        free(argmax);
        free(p.targets);
        free_arrays();
    }
}

/* log p of all classes, and the cross-entropy. */
static double log_row(double *y, const float *x, size_t t, const qkv_k_xent_args *a)
{
    double max = row_max(x, a->V), log_sum = log(row_exp_sum(x, max, a->V)) + max, loss = 0;
    for (size_t v = 0; v < a->V; v++) {
        y[v] = (double)x[v] - log_sum;
        loss -= (v == t ? a->on : a->off) * y[v];
    }
    return loss;
}

static void check_pair_row(const xent_problem *p, const float *a, const float *b, size_t r,
                           float loss, const float *da, const float *db)
{
    const size_t V = p->a.V, t = (size_t)p->targets[r];
    bool ignored = p->targets[r] == p->a.ignore;
    double *la = calloc(V, sizeof *la), *lb = calloc(V, sizeof *lb), pq = 0, qp = 0;
    assert_true(la && lb);
    double want = ignored ? 0 : log_row(la, a + r * V, t, &p->a) + log_row(lb, b + r * V, t, &p->a);
    for (size_t v = 0; v < V && !ignored; v++) {
        pq += exp(la[v]) * (la[v] - lb[v]);
        qp += exp(lb[v]) * (lb[v] - la[v]);
    }
    want += p->a.rdrop / 2 * (pq + qp);
    near_at("loss", r, loss, want, 1e-5, ignored ? 0 : 1);
    for (size_t v = 0; v < V && da; v++) {
        double y = v == t ? p->a.on : p->a.off, h = p->a.rdrop / 2, d = la[v] - lb[v];
        double pa = exp(la[v]), pb = exp(lb[v]);
        double ga = ignored ? 0 : p->a.scale * (pa - y + h * (pa * (d - pq) + pa - pb));
        double gb = ignored ? 0 : p->a.scale * (pb - y + h * (pb * (-d - qp) + pb - pa));
        near_at("da", v, da[r * V + v], ga, 2e-5, ignored ? 0 : 1);
        near_at("db", v, db[r * V + v], gb, 2e-5, ignored ? 0 : 1);
    }
    free(la);
    free(lb);
}

/* The terms of the row's loss by themselves. */
static void check_pair_terms(const xent_problem *p, const float *b, size_t r, const float *nll,
                             const float *kl)
{
    const size_t V = p->a.V, t = (size_t)p->targets[r];
    bool ignored = p->targets[r] == p->a.ignore;
    const qkv_k_xent_args plain = {.on = 1, .V = V};
    double *la = calloc(V, sizeof *la), *lb = calloc(V, sizeof *lb), both = 0;
    assert_true(la && lb);
    double want = ignored ? 0 : log_row(la, p->x + r * V, t, &plain) +
                                    log_row(lb, b + r * V, t, &plain);
    for (size_t v = 0; v < V && !ignored; v++)
        both += (exp(la[v]) - exp(lb[v])) * (la[v] - lb[v]) / 2;
    if (nll)
        near_at("nll", r, nll[r], want, 1e-5, ignored ? 0 : 1);
    if (kl)
        near_at("kl", r, kl[r], both, 1e-5, ignored ? 0 : 1);
    free(la);
    free(lb);
}

static void check_xent_pair(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        xent_problem p = random_xent(2); /* its classes are all there where they are smoothed */
        const size_t n = p.a.N * p.a.V;
        for (size_t i = 0; i < n; i++)
            p.x[i] = isinf(p.x[i]) ? 40 : p.x[i];
        float *b = randoms(n), *loss = poisoned(p.a.N);
        for (size_t i = 0; i < n; i++)
            b[i] = p.x[i] + b[i];
        p.a.rdrop = coin() ? 5 : 0.3;
        bool wanted = often(), in_place = coin();
        float *a = in_place ? copied(p.x, n) : p.x, *second = in_place ? copied(b, n) : b;
        float *da = in_place ? a : poisoned(n), *db = in_place ? second : poisoned(n);
        float *nll = often() ? poisoned(p.a.N) : NULL, *kl = often() ? poisoned(p.a.N) : NULL;
        c->k->xent_pair(&c->e, loss, nll, kl, wanted ? da : NULL, wanted ? db : NULL, a, second,
                        p.targets, &p.a);
        for (size_t r = 0; r < p.a.N; r++) {
            check_pair_row(&p, p.x, b, r, loss[r], wanted ? da : NULL, db);
            check_pair_terms(&p, b, r, nll, kl);
        }
        free(p.targets);
        free_arrays();
    }
}

/* NaN in a row that counts is seen in the loss; in an ignored row it is not. */
static void check_xent_nan(const kernel_case *c)
{
    for (size_t at = 0; at < 40; at += 13) {
        qkv_k_xent_args a = {.on = 1, .scale = 1, .ignore = -1, .N = 2, .V = 40};
        int32_t *targets = (int32_t *)(void *)poisoned(2);
        float *x = randoms(80), *loss = poisoned(2), *d = poisoned(80);
        targets[0] = 5;
        targets[1] = -1;
        x[at] = x[40 + at] = NAN;
        c->k->xent(&c->e, loss, NULL, NULL, d, x, targets, &a);
        assert_true(isnan(loss[0]) && loss[1] == 0);
        assert_true(isnan(d[7]) && d[47] == 0);
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_CHECK(check_softmax),
        KERNEL_CHECK(check_softmax_bwd),
        KERNEL_CHECK(check_xent),
        KERNEL_CHECK(check_xent_soft),
        KERNEL_CHECK(check_xent_pair),
        KERNEL_CHECK(check_xent_nan),
    };
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
