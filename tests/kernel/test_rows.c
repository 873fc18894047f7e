/* test_rows.c - kernels that work row by row, of every table, against formulas in double: norms,
 * rows by index, rotary positions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 40 };

static bool often(void) { return qkv_rng_below(&kt.rng, 4) != 0; }

/* ---- norms ------------------------------------------------------------------------------- */

typedef struct {
    qkv_k_norm_args a;
    float *s, *weight, *bias;
    double *mean, *rstd; /* of s */
} norm_problem;

static norm_problem random_norm(size_t round)
{
    static const size_t usual[] = {768, 2048, 512, 1280, 640, 3072, 8192, 9000};
    norm_problem p = {.a = {.rms = coin(), .eps = coin() ? 1e-5 : 1e-12}};
    p.a.N = qkv_rng_below(&kt.rng, 8) ? qkv_rng_below(&kt.rng, 40) : 1100;
    p.a.C = 1 + random_size() % 2500;
    if (round % 3 == 0) {
        p.a.C = usual[round / 3 % (sizeof usual / sizeof *usual)];
        p.a.N = qkv_rng_below(&kt.rng, 12);
    }
    if (p.a.N > 100)
        p.a.C = coin() ? 1 + p.a.C % 100 : 4 + p.a.C % 25 * 4;
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
        norm_problem p = random_norm((size_t)round);
        const size_t N = p.a.N, C = p.a.C, n = N * C;
        float *x = p.s, *residual = coin() ? randoms(n) : NULL, *here = copied(x, n);
        float *sum = residual && coin() ? poisoned(n) : NULL, *y = poisoned(n);
        if (sum && coin())
            sum = here;
        float *mean = often() ? poisoned(N) : NULL, *rstd = often() ? poisoned(N) : NULL;
        c->k->norm(&c->e, y, sum, mean, rstd, here, residual, p.weight, p.bias, &p.a);
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
            double scale = 1 + fabs(v);
            if (C < 8) /* few may lie close together, and then what rounds the mean counts */
                scale += 5e-3 * p.rstd[i / C] * (1 + fabs(p.mean[i / C]));
            scale *= 1 + fabs(p.weight ? (double)p.weight[i % C] : 0);
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
        norm_problem p = random_norm((size_t)round);
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

/* ---- rows by index ----------------------------------------------------------------------- */

static int32_t *random_ids(size_t N, uint32_t below)
{
    int32_t *ids = malloc((N + 1) * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < N; i++)
        ids[i] = (int32_t)qkv_rng_below(&kt.rng, below);
    return ids;
}

/* Rows of the table by index, several thousand of them: few indices, so that hundreds of rows come
 * together, and indices of more than 16 bits. */
static void check_embed_many(const kernel_case *c)
{
    static const uint32_t below[] = {1, 3, 40, 300, 70000};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        size_t V = below[i], N = 2000 + qkv_rng_below(&kt.rng, 3000), C = 1 + i % 4 * 2;
        int32_t *ids = random_ids(N, (uint32_t)V);
        float *dy = randoms(N * C), *d = randoms(V * C);
        double *want = calloc(V * C, sizeof *want), *size = calloc(V * C, sizeof *size);
        assert_true(want && size);
        for (size_t k = 0; k < N / 4; k++)
            ids[N / 2 + k] = ids[0]; /* a long run that is not the first */
        for (size_t k = 0; k < N / 4 && V > 65541; k++)
            ids[k] = k / 3 % 2 ? 5 : 65541; /* which differ in their upper bits alone */
        for (size_t k = 0; k < V * C; k++)
            want[k] = (double)d[k];
        for (size_t k = 0; k < N * C; k++) {
            size_t at = (size_t)ids[k / C] * C + k % C;
            want[at] += 0.5 * (double)dy[k];
            size[at] += fabs((double)dy[k]);
        }
        c->k->embed_bwd(&c->e, d, ids, dy, 0.5, N, C);
        for (size_t k = 0; k < V * C; k++)
            near_at("dtable", k, d[k], want[k], 2e-6, 1 + size[k]);
        free(want);
        free(size);
        free(ids);
        free_arrays();
    }
}

static void check_embed(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        enum { V = 13, P = 9 };
        size_t N = qkv_rng_below(&kt.rng, 60), C = random_size();
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
    double angle = a->sign * (double)position * a->frequency[i];
    double lo = a->scale * (double)head[i], hi = a->scale * (double)head[i + half];
    return d < half ? lo * cos(angle) - hi * sin(angle) : hi * cos(angle) + lo * sin(angle);
}

static void check_rotary(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        qkv_k_rotary_args a = {.N = qkv_rng_below(&kt.rng, 60), .sign = coin() ? 1 : -1};
        a.H = 1 + qkv_rng_below(&kt.rng, 5);
        a.D = round == 0 ? 600 : 1 + qkv_rng_below(&kt.rng, 140);
        a.width = coin() ? a.D / 2 * 2 : qkv_rng_below(&kt.rng, (uint32_t)a.D + 1) / 2 * 2;
        double frequency[300], base = coin() ? 10000 : 500000;
        for (size_t i = 0; i < a.width / 2; i++)
            frequency[i] = pow(base, -2 * (double)i / (double)a.width) / (coin() ? 1 : 8);
        a.frequency = frequency;
        a.scale = coin() ? 1 : 1.2;
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
        KERNEL_CHECK(check_embed),
        KERNEL_CHECK(check_embed_many),
        KERNEL_CHECK(check_rotary),
    };
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
