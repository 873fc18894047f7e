/* test_groups.c - group norm, the search for the nearest code and squares of rows, of every table,
 * against formulas in double. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 40 };
static const double EPS = 0.05;

typedef struct {
    qkv_k_group_norm_args a;
    size_t n, width; /* numbers in all, channels of a group */
    float *x, *weight, *bias, *dy;
    double *u, *far, *du; /* (n) what goes into the activation; standard deviations; d(loss)/du */
} problem;

static double sigmoid(double u) { return 1 / (1 + exp(-u)); }

/* Index of number i in (B, G). */
static size_t group_of(const problem *p, size_t i)
{
    return i / (p->a.N * p->a.C) * p->a.G + i % p->a.C / p->width;
}

static void draw(problem *p)
{
    size_t B = 1 + qkv_rng_below(&kt.rng, 3), G = 1 + qkv_rng_below(&kt.rng, 5);
    size_t width = 1 + qkv_rng_below(&kt.rng, 30);
    size_t N = qkv_rng_below(&kt.rng, 8) ? 1 + qkv_rng_below(&kt.rng, 200) : 64 * 64 + 1000;
    if (N > 1000)
        width = 1 + width % 4;
    *p = (problem){.a = {.B = B, .N = N, .C = G * width, .G = G, .eps = EPS, .silu = coin()},
                   .n = B * N * G * width, .width = width};
    p->x = randoms(p->n);
    p->dy = randoms(p->n);
    p->weight = randoms(p->a.C);
    p->bias = randoms(p->a.C);
    p->u = calloc(p->n, sizeof *p->u);
    p->far = calloc(p->n, sizeof *p->far);
    p->du = calloc(p->n, sizeof *p->du);
    assert_true(p->u && p->far && p->du);
}

/* sums (B, G) of v, divided by how many numbers a group has. */
static double *means(const problem *p, const double *v)
{
    double *m = calloc(p->a.B * p->a.G, sizeof *m);
    assert_non_null(m);
    for (size_t i = 0; i < p->n; i++)
        m[group_of(p, i)] += v[i] / (double)(p->a.N * p->width);
    return m;
}

/* Fills u, far and du; returns mean and 1/standard deviation of every group. */
static void solve(problem *p, double **mean, double **rstd)
{
    for (size_t i = 0; i < p->n; i++)
        p->u[i] = (double)p->x[i];
    *mean = means(p, p->u);
    for (size_t i = 0; i < p->n; i++)
        p->u[i] = pow((double)p->x[i] - (*mean)[group_of(p, i)], 2);
    *rstd = means(p, p->u);
    for (size_t g = 0; g < p->a.B * p->a.G; g++)
        (*rstd)[g] = 1 / sqrt((*rstd)[g] + EPS);
    for (size_t i = 0; i < p->n; i++) {
        size_t g = group_of(p, i), c = i % p->a.C;
        p->far[i] = ((double)p->x[i] - (*mean)[g]) * (*rstd)[g];
        p->u[i] = p->far[i] * (double)p->weight[c] + (double)p->bias[c];
        double s = sigmoid(p->u[i]);
        p->du[i] = (double)p->dy[i] * (p->a.silu ? s * (1 + p->u[i] * (1 - s)) : 1);
    }
}

static void finish(problem *p, double *mean, double *rstd)
{
    free(p->u);
    free(p->far);
    free(p->du);
    free(mean);
    free(rstd);
    free_arrays();
}

static void check_forward(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        problem p;
        double *mean, *rstd;
        draw(&p);
        solve(&p, &mean, &rstd);
        size_t groups = p.a.B * p.a.G;
        float *y = poisoned(p.n), *m = poisoned(groups), *r = poisoned(groups);
        c->k->group_norm(&c->e, y, m, r, p.x, p.weight, p.bias, &p.a);
        /* One number alone, or several alike, have no standard deviation to be measured by. */
        for (size_t g = 0; g < groups; g++) {
            near_at("mean", g, m[g], mean[g], 1e-6, 1);
            near_at("rstd", g, r[g], rstd[g], 1e-5, rstd[g] < 100 ? rstd[g] : 1e5);
        }
        for (size_t i = 0; i < p.n; i++)
            near_at("group_norm", i, y[i], p.a.silu ? p.u[i] * sigmoid(p.u[i]) : p.u[i], 1e-5,
                    1 + rstd[group_of(&p, i)]);
        finish(&p, mean, rstd);
    }
}

static void check_dx(const problem *p, const float *dx, const float *was, const double *rstd)
{
    double *g = calloc(p->n, sizeof *g), *gx = calloc(p->n, sizeof *gx);
    assert_true(g && gx);
    for (size_t i = 0; i < p->n; i++) {
        g[i] = p->du[i] * (double)p->weight[i % p->a.C];
        gx[i] = g[i] * p->far[i];
    }
    double *mg = means(p, g), *mgx = means(p, gx);
    for (size_t i = 0; i < p->n; i++) {
        size_t k = group_of(p, i);
        double want = rstd[k] * (g[i] - mg[k] - p->far[i] * mgx[k]);
        double before = was ? (double)was[i] : 0;
        if (rstd[k] < 100)
            near_at("dx", i, dx[i], before + want, 2e-5, 1 + fabs(before) + rstd[k] * rstd[k]);
    }
    free(g);
    free(gx);
    free(mg);
    free(mgx);
}

static void check_backward(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        problem p;
        double *mean, *rstd;
        draw(&p);
        solve(&p, &mean, &rstd);
        size_t groups = p.a.B * p.a.G, C = p.a.C;
        bool acc = coin();
        float *m = poisoned(groups), *r = poisoned(groups), *dx = coin() ? output(p.n, acc) : NULL;
        float *was = acc && dx ? copied(dx, p.n) : NULL;
        float *dweight = coin() ? poisoned(C) : NULL, *dbias = coin() ? poisoned(C) : NULL;
        for (size_t g = 0; g < groups; g++) {
            m[g] = (float)mean[g];
            r[g] = (float)rstd[g];
        }
        c->k->group_norm_bwd(&c->e, dx, acc, dweight, dbias, p.dy, p.x, m, r, p.weight, p.bias,
                             &p.a);
        if (dx)
            check_dx(&p, dx, was, rstd);
        for (size_t k = 0; k < C; k++) {
            double dw = 0, db = 0, size = 1;
            for (size_t i = k; i < p.n; i += C) {
                dw += p.du[i] * p.far[i];
                db += p.du[i];
                size += fabs(p.du[i]) * (1 + fabs(p.far[i])) * (1 + rstd[group_of(&p, i)]);
            }
            if (dweight)
                near_at("dweight", k, dweight[k], dw, 5e-6, size);
            if (dbias)
                near_at("dbias", k, dbias[k], db, 5e-6, size);
        }
        finish(&p, mean, rstd);
    }
}

/* Whole numbers, so that many are equally near and nothing is rounded. */
static void check_nearest(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = 1 + qkv_rng_below(&kt.rng, 60), K = 1 + qkv_rng_below(&kt.rng, 700);
        float *products = randoms(N * K), *x2 = randoms(N), *code2 = randoms(K);
        int32_t *id = (int32_t *)(void *)poisoned(N);
        for (size_t i = 0; i < N * K; i++)
            products[i] = (float)qkv_rng_below(&kt.rng, 20) - 10;
        for (size_t i = 0; i < N; i++)
            x2[i] = (float)qkv_rng_below(&kt.rng, 9);
        for (size_t i = 0; i < K; i++)
            code2[i] = (float)qkv_rng_below(&kt.rng, 9);
        c->k->nearest(&c->e, id, products, x2, code2, N, K);
        for (size_t n = 0; n < N; n++) {
            size_t best = 0;
            for (size_t k = 1; k < K; k++)
                if (code2[k] - 2 * products[n * K + k] <
                    code2[best] - 2 * products[n * K + best])
                    best = k;
            assert_int_equal(id[n], best);
        }
        products[0] = NAN;
        c->k->nearest(&c->e, id, products, x2, code2, 1, 1);
        assert_int_equal(id[0], 0);
        free_arrays();
    }
}

static void check_row_squares(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t N = qkv_rng_below(&kt.rng, 20), C = random_size();
        float *x = randoms(N * C), *y = poisoned(N);
        c->k->row_squares(&c->e, y, x, N, C);
        for (size_t n = 0; n < N; n++) {
            double want = 0;
            for (size_t i = 0; i < C; i++)
                want += pow((double)x[n * C + i], 2);
            near_at("row_squares", n, y[n], want, 1e-7, 0);
        }
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {KERNEL_CHECK(check_forward), KERNEL_CHECK(check_backward),
                                       KERNEL_CHECK(check_nearest),
                                       KERNEL_CHECK(check_row_squares)};
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
