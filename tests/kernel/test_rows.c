/* test_rows.c - kernels that work row by row, of every table, against formulas in double: norms,
 * softmax, cross-entropy, rows by index, rotary positions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 40 };

static bool often(void) { return qkv__rng_below(&kt.rng, 4) != 0; }

/* ---- norms ------------------------------------------------------------------------------- */

typedef struct {
    qkv_k_norm_args a;
    float *s, *weight, *bias;
    double *mean, *rstd; /* of s */
} norm_problem;

static norm_problem random_norm(void)
{
    norm_problem p = {.a = {.rms = coin(), .eps = coin() ? 1e-5 : 1e-12}};
    p.a.N = qkv__rng_below(&kt.rng, 8) ? qkv__rng_below(&kt.rng, 40) : 1100;
    p.a.C = 1 + random_size() % 2500;
    if (p.a.N > 100)
        p.a.C = 1 + p.a.C % 100;
    size_t n = p.a.N * p.a.C;
    double shift = 3 * rnd();
    p.s = poisoned(n);
    for (size_t i = 0; i < n; i++)
        p.s[i] = (float)(shift + rnd());
    p.weight = often() ? randoms(p.a.C) : NULL;
    p.bias = often() ? randoms(p.a.C) : NULL;
    return p;
}

static void find_statistics(norm_problem *p)
{
    const size_t N = p->a.N, C = p->a.C;
    p->mean = calloc(2 * N + 1, sizeof *p->mean);
    assert_non_null(p->mean);
    p->rstd = p->mean + N;
    for (size_t r = 0; r < N; r++) {
        double m = 0, v = 0;
        for (size_t c = 0; c < C && !p->a.rms; c++)
            m += (double)p->s[r * C + c] / (double)C;
        for (size_t c = 0; c < C; c++)
            v += pow((double)p->s[r * C + c] - m, 2) / (double)C;
        p->mean[r] = m;
        p->rstd[r] = 1 / sqrt(v + p->a.eps);
    }
}

static void check_norm(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        norm_problem p = random_norm();
        const size_t N = p.a.N, C = p.a.C, n = N * C;
        float *x = p.s, *residual = coin() ? randoms(n) : NULL;
        float *sum = residual && coin() ? poisoned(n) : NULL, *y = poisoned(n);
        float *mean = often() ? poisoned(N) : NULL, *rstd = often() ? poisoned(N) : NULL;
        c->k->norm(&c->e, y, sum, mean, rstd, x, residual, p.weight, p.bias, &p.a);
        if (residual)
            p.s = copied(x, n);
        for (size_t i = 0; i < n && residual; i++) {
            p.s[i] = x[i] + residual[i];
            assert_true(!sum || sum[i] == p.s[i]);
        }
        find_statistics(&p);
        for (size_t r = 0; r < N; r++) {
            if (mean && !p.a.rms)
                near_at("mean", r, mean[r], p.mean[r], 1e-6, 1);
            if (mean && p.a.rms)
                assert_true(isnan(mean[r]));
            /* One channel has no spread, and what rounding leaves of it is divided by eps. */
            if (rstd && C > 1)
                near_at("rstd", r, rstd[r], p.rstd[r], 1e-4, 0);
        }
        for (size_t i = 0; i < n && (C > 1 || p.a.rms); i++) {
            double v = ((double)p.s[i] - p.mean[i / C]) * p.rstd[i / C];
            double scale = (1 + fabs(v)) * (1 + fabs(p.weight ? (double)p.weight[i % C] : 0));
            v = v * (p.weight ? (double)p.weight[i % C] : 1);
            v += p.bias ? (double)p.bias[i % C] : 0;
            near_at("y", i, y[i], v, C < 8 ? 1e-4 : 3e-6, scale);
        }
        free(p.mean);
        free_arrays();
    }
}

/* dx in double, of s alone, (N, C); to be freed. */
static double *norm_dx(const norm_problem *p, const float *dy)
{
    const size_t C = p->a.C;
    double *dx = calloc(p->a.N * C + 1, sizeof *dx);
    assert_non_null(dx);
    for (size_t r = 0; r < p->a.N; r++) {
        double sum_g = 0, sum_gx = 0, k = p->rstd[r];
        for (int pass = 0; pass < 2; pass++) {
            for (size_t c = 0; c < C; c++) {
                size_t i = r * C + c;
                double g = (double)dy[i] * (p->weight ? (double)p->weight[c] : 1);
                double x = ((double)p->s[i] - p->mean[r]) * k;
                if (pass) {
                    dx[i] = k * (g - sum_g - x * sum_gx);
                    continue;
                }
                sum_g += p->a.rms ? 0 : g / (double)C;
                sum_gx += g * x / (double)C;
            }
        }
    }
    return dx;
}

static void check_parameter(const char *what, const norm_problem *p, const float *got,
                            const float *was, bool acc, const float *dy, bool weight)
{
    for (size_t c = 0; c < p->a.C; c++) {
        double want = acc ? (double)was[c] : 0, size = 1;
        for (size_t r = 0; r < p->a.N; r++) {
            size_t i = r * p->a.C + c;
            double x = weight ? ((double)p->s[i] - p->mean[r]) * p->rstd[r] : 1;
            want += (double)dy[i] * x;
            size += fabs((double)dy[i] * x);
        }
        near_at(what, c, got[c], want, 1e-5, size);
    }
}

static void check_norm_bwd(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        norm_problem p = random_norm();
        const size_t N = p.a.N, C = p.a.C, n = N * C;
        find_statistics(&p);
        float *mean = p.a.rms ? NULL : poisoned(N), *rstd = poisoned(N);
        for (size_t r = 0; r < N; r++) {
            if (mean)
                mean[r] = (float)p.mean[r];
            rstd[r] = (float)p.rstd[r];
        }
        bool acc = coin(), acc_w = coin(), acc_b = coin(), in_place = !acc && coin();
        float *dy = randoms(n), *dsum = coin() ? randoms(n) : NULL;
        float *dx = often() ? output(n, acc) : NULL, *dx0 = dx ? copied(dx, n) : NULL;
        float *add = dsum ? copied(dsum, n) : NULL;
        if (dx && dsum && in_place)
            dx = dsum;
        float *dw = often() ? output(C, acc_w) : NULL, *dw0 = dw ? copied(dw, C) : NULL;
        float *db = often() ? output(C, acc_b) : NULL, *db0 = db ? copied(db, C) : NULL;
        float *dw2 = dw ? copied(dw, C) : NULL, *db2 = db ? copied(db, C) : NULL;
        c->k->norm_bwd(&c->e, dx, acc, dw, acc_w, db, acc_b, p.s, mean, rstd, p.weight, dy, dsum,
                       &p.a);
        double *exact = norm_dx(&p, dy);
        for (size_t i = 0; i < n && dx && C > 2; i++) {
            double want = exact[i], scale = p.rstd[i / C] * 10;
            want += (add ? (double)add[i] : 0) + (acc ? (double)dx0[i] : 0);
            near_at("dx", i, dx[i], want, C < 8 ? 1e-3 : 5e-6, scale + 1);
        }
        if (dw && C > 2)
            check_parameter("dweight", &p, dw, dw0, acc_w, dy, true);
        if (db)
            check_parameter("dbias", &p, db, db0, acc_b, dy, false);
        qkv_exec other = c->e;
        other.threads = 2;
        c->k->norm_bwd(&other, NULL, false, dw2, acc_w, db2, acc_b, p.s, mean, rstd, p.weight, dy,
                       NULL, &p.a);
        assert_true(!dw || !memcmp(dw, dw2, C * sizeof *dw));
        assert_true(!db || !memcmp(db, db2, C * sizeof *db));
        free(exact);
        free(p.mean);
        free_arrays();
    }
}

/* ---- softmax ----------------------------------------------------------------------------- */

static float *random_logits(size_t N, size_t C)
{
    float *x = randoms(N * C);
    for (size_t r = 0; r < N; r++) {
        float scale = coin() ? 1.0f : 20.0f, shift = coin() ? 0.0f : 100.0f;
        for (size_t c = 0; c < C; c++) {
            float *v = &x[r * C + c];
            *v = *v * scale + shift;
            if (qkv__rng_below(&kt.rng, 50) == 0)
                *v = -INFINITY;
        }
        bool none = qkv__rng_below(&kt.rng, 10) == 0;
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
        size_t N = qkv__rng_below(&kt.rng, 20), C = random_size();
        float *x = random_logits(N, C), *y = poisoned(N * C), *z = copied(x, N * C);
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
        size_t N = qkv__rng_below(&kt.rng, 20), C = random_size(), n = N * C;
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
    p.a.N = qkv__rng_below(&kt.rng, 20);
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
        p.targets[r] = (int32_t)qkv__rng_below(&kt.rng, (uint32_t)p.a.V);
        if (qkv__rng_below(&kt.rng, 4) == 0)
            p.targets[r] = p.a.ignore;
        /* Rows whose maximum moves up late, ties, and hidden classes where nothing is smoothed. */
        float *x = p.x + r * p.a.V, slope = coin() ? 0.0f : 0.01f;
        for (size_t v = 0; v < p.a.V; v++) {
            x[v] = (coin() ? x[v] : roundf(x[v])) * 3 + slope * (float)v + 50;
            if (!smooth && qkv__rng_below(&kt.rng, 30) == 0)
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
        if (d)
            near_at("dlogits", v, d[v], ignored ? 0 : g, 2e-6, ignored ? 0 : v == t ? 1 : 1e-4);
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
        float *d = often() ? coin() ? copied(p.x, n) : poisoned(n) : NULL;
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
    want += p->a.agreement / 2 * (pq + qp);
    near_at("loss", r, loss, want, 1e-5, ignored ? 0 : 1);
    for (size_t v = 0; v < V && da; v++) {
        double y = v == t ? p->a.on : p->a.off, h = p->a.agreement / 2, d = la[v] - lb[v];
        double pa = exp(la[v]), pb = exp(lb[v]);
        double ga = ignored ? 0 : p->a.scale * (pa - y + h * (pa * (d - pq) + pa - pb));
        double gb = ignored ? 0 : p->a.scale * (pb - y + h * (pb * (-d - qp) + pb - pa));
        near_at("da", v, da[r * V + v], ga, 2e-5, ignored ? 0 : 1);
        near_at("db", v, db[r * V + v], gb, 2e-5, ignored ? 0 : 1);
    }
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
        p.a.agreement = coin() ? 5 : 0.3;
        bool wanted = often(), in_place = coin();
        float *a = in_place ? copied(p.x, n) : p.x, *second = in_place ? copied(b, n) : b;
        float *da = in_place ? a : poisoned(n), *db = in_place ? second : poisoned(n);
        c->k->xent_pair(&c->e, loss, wanted ? da : NULL, wanted ? db : NULL, a, second, p.targets,
                        &p.a);
        for (size_t r = 0; r < p.a.N; r++)
            check_pair_row(&p, p.x, b, r, loss[r], wanted ? da : NULL, db);
        free(p.targets);
        free_arrays();
    }
}

/* NaN in a row that counts is seen in the loss; in an ignored row it is not. */
static void check_xent_nan(const kernel_case *c)
{
    for (size_t at = 0; at < 40; at += 13) {
        qkv_k_xent_args a = {.on = 1, .scale = 1, .ignore = -1, .N = 2, .V = 40};
        const int32_t targets[2] = {5, -1};
        float *x = randoms(80), loss[2], *d = poisoned(80);
        x[at] = x[40 + at] = NAN;
        c->k->xent(&c->e, loss, NULL, NULL, d, x, targets, &a);
        assert_true(isnan(loss[0]) && loss[1] == 0);
        assert_true(isnan(d[7]) && d[47] == 0);
        free_arrays();
    }
}

/* ---- rows by index ----------------------------------------------------------------------- */

static int32_t *random_ids(size_t N, uint32_t below)
{
    int32_t *ids = malloc((N + 1) * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < N; i++)
        ids[i] = (int32_t)qkv__rng_below(&kt.rng, below);
    return ids;
}

static void check_embed(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        enum { V = 13, P = 9 };
        size_t N = qkv__rng_below(&kt.rng, 60), C = random_size();
        double scale = coin() ? 1 : rnd();
        bool with_positions = coin();
        int32_t *ids = random_ids(N, V), *positions = random_ids(N, P);
        float *table = randoms(V * C), *ptable = randoms(P * C), *y = poisoned(N * C);
        c->k->embed(&c->e, y, ids, table, scale, with_positions ? positions : NULL,
                    with_positions ? ptable : NULL, N, C);
        for (size_t i = 0; i < N * C; i++) {
            double want = scale * (double)table[(size_t)ids[i / C] * C + i % C];
            if (with_positions)
                want += (double)ptable[(size_t)positions[i / C] * C + i % C];
            near_at("embed", i, y[i], want, 3e-7, 2);
        }
        float *d = randoms(V * C), *was = copied(d, V * C), *d2 = copied(d, V * C);
        c->k->embed_bwd(&c->e, d, ids, y, scale, N, C);
        for (size_t i = 0; i < V * C; i++) {
            double want = (double)was[i], size = 1;
            for (size_t r = 0; r < N; r++) {
                bool hit = (size_t)ids[r] == i / C;
                want += hit ? scale * (double)y[r * C + i % C] : 0;
                size += hit ? fabs(scale * (double)y[r * C + i % C]) : 0;
            }
            near_at("dtable", i, d[i], want, 1e-6, size);
        }
        qkv_exec other = c->e;
        other.threads = 2;
        c->k->embed_bwd(&other, d2, ids, y, scale, N, C);
        assert_true(C == 0 || !memcmp(d, d2, V * C * sizeof *d));
        free(ids);
        free(positions);
        free_arrays();
    }
}

/* ---- rotary ------------------------------------------------------------------------------ */

static double rotated(const qkv_k_rotary_args *a, const float *head, int32_t position, size_t d)
{
    size_t half = a->width / 2, i = d % (half ? half : 1);
    if (d >= a->width)
        return (double)head[d];
    double angle = a->sign * (double)position * pow(a->base, -2 * (double)i / (double)a->width);
    double lo = (double)head[i], hi = (double)head[i + half];
    return d < half ? lo * cos(angle) - hi * sin(angle) : hi * cos(angle) + lo * sin(angle);
}

static void check_rotary(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        qkv_k_rotary_args a = {.N = qkv__rng_below(&kt.rng, 60), .sign = coin() ? 1 : -1};
        a.H = 1 + qkv__rng_below(&kt.rng, 5);
        a.D = round == 0 ? 600 : 1 + qkv__rng_below(&kt.rng, 140);
        a.width = coin() ? a.D / 2 * 2 : qkv__rng_below(&kt.rng, (uint32_t)a.D + 1) / 2 * 2;
        a.base = coin() ? 10000 : 500000;
        a.acc = coin();
        a.hx = a.D + (coin() ? 3 : 0);
        a.sx = a.H * a.hx + (coin() ? 100 : 0);
        a.hy = a.D;
        a.sy = a.H * a.hy + (coin() ? 50 : 0);
        int32_t *positions = random_ids(a.N, round % 2 ? 300 : 1000000);
        float *x = randoms(a.N * a.sx), *y = poisoned(a.N * a.sy), *was = randoms(a.N * a.sy);
        for (size_t r = 0; r < a.N && a.acc; r++)
            memcpy(y + r * a.sy, was + r * a.sy, a.H * a.D * sizeof *y);
        c->k->rotary(&c->e, y, x, positions, &a);
        for (size_t i = 0; i < a.N * a.sy; i++) {
            size_t r = i / a.sy, h = i % a.sy / a.hy, d = i % a.sy % a.hy;
            if (h >= a.H) {
                assert_true(isnan(y[i]));
                continue;
            }
            double want = rotated(&a, x + r * a.sx + h * a.hx, positions[r], d);
            near_at("rotary", i, y[i], want + (a.acc ? (double)was[i] : 0), 4e-7, 4);
        }
        free(positions);
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_CHECK(check_norm),
        KERNEL_CHECK(check_norm_bwd),
        KERNEL_CHECK(check_softmax),
        KERNEL_CHECK(check_softmax_bwd),
        KERNEL_CHECK(check_xent),
        KERNEL_CHECK(check_xent_pair),
        KERNEL_CHECK(check_xent_nan),
        KERNEL_CHECK(check_embed),
        KERNEL_CHECK(check_rotary),
    };
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
