/* simd_softmax.c - softmax and cross-entropy in vector types. A row of a vocabulary is read from
 * memory once: maximum and sum run along together, a chunk of the row at a time, and what the
 * second pass needs is still in the cache. */
#include <math.h>

#include "kernel/simd.h"
#include "kernel/topk.h"

enum { GRAIN = 16384, CHUNK = 1024 };

/* ---- spans of one row -------------------------------------------------------------------- */

static float span_max(const float *x, size_t n)
{
    const vf lowest = vf_set1(-INFINITY);
    vf a = lowest, b = lowest;
    size_t i = 0;
    for (; i + 2 * VF <= n; i += 2 * VF) {
        a = vf_max(a, vf_load(x + i));
        b = vf_max(b, vf_load(x + i + VF));
    }
    for (; i + VF <= n; i += VF)
        a = vf_max(a, vf_load(x + i));
    if (i < n)
        b = vf_max(b, vf_select(vm_first(n - i), vf_load_n(x + i, n - i), lowest));
    return vf_maximum(vf_max(a, b));
}

/* Sum of exp(x - max). */
static float span_exp_sum(const float *x, float max, size_t n)
{
    const vf m = vf_set1(max);
    vf a = vf_zero(), b = vf_zero();
    size_t i = 0;
    for (; i + 2 * VF <= n; i += 2 * VF) {
        a += vf_exp(vf_load(x + i) - m);
        b += vf_exp(vf_load(x + i + VF) - m);
    }
    for (; i + VF <= n; i += VF)
        a += vf_exp(vf_load(x + i) - m);
    if (i < n)
        b += vf_where(vm_first(n - i), vf_exp(vf_load_n(x + i, n - i) - m));
    return vf_sum(a + b);
}

/* y = exp(x - max), whose sum is returned. */
static float span_exp(float *y, const float *x, float max, size_t n)
{
    const vf m = vf_set1(max);
    vf sum = vf_zero();
    size_t i = 0;
    for (; i + VF <= n; i += VF) {
        vf v = vf_exp(vf_load(x + i) - m);
        vf_store(y + i, v);
        sum += v;
    }
    if (i < n) {
        vf v = vf_where(vm_first(n - i), vf_exp(vf_load_n(x + i, n - i) - m));
        vf_store_n(y + i, v, n - i);
        sum += v;
    }
    return vf_sum(sum);
}

/* y = exp(x - max) scale - shift. */
static void span_gradient(float *y, const float *x, float max, float scale, float shift, size_t n)
{
    const vf m = vf_set1(max), k = vf_set1(scale), s = vf_set1(shift);
    size_t i = 0;
    for (; i + VF <= n; i += VF)
        vf_store(y + i, vf_exp(vf_load(x + i) - m) * k - s);
    if (i < n)
        vf_store_n(y + i, vf_exp(vf_load_n(x + i, n - i) - m) * k - s, n - i);
}

static double span_sum(const float *x, size_t n)
{
    vd sum = vd_zero();
    for (size_t i = 0; i < n; i += VF) {
        vf v = vf_get(x + i, n - i < VF ? n - i : VF);
        sum += vd_lo(v) + vd_hi(v);
    }
    return vd_sum(sum);
}

static void zero(float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = 0;
}

/* ---- softmax ----------------------------------------------------------------------------- */

static void softmax_row(float *y, const float *x, size_t C)
{
    float max = span_max(x, C), sum = 0;
    if (max == -INFINITY) {
        zero(y, C);
        return;
    }
    for (size_t c = 0; c < C; c += CHUNK)
        sum += span_exp(y + c, x + c, max, C - c < CHUNK ? C - c : CHUNK);
    const vf scale = vf_set1(1 / sum);
    for (size_t c = 0; c < C; c += VF) {
        size_t k = C - c < VF ? C - c : VF;
        vf_put(y + c, vf_get(y + c, k) * scale, k);
    }
}

static void simd_softmax(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, N, C) \
    if (N * C >= GRAIN)
    for (size_t r = 0; r < N; r++)
        softmax_row(y + r * C, x + r * C, C);
}

static void softmax_bwd_row(float *dx, const float *y, const float *dy, bool acc, size_t C)
{
    vf a = vf_zero(), b = vf_zero();
    size_t c = 0;
    for (; c + 2 * VF <= C; c += 2 * VF) {
        a = vf_fma(vf_load(y + c), vf_load(dy + c), a);
        b = vf_fma(vf_load(y + c + VF), vf_load(dy + c + VF), b);
    }
    for (; c < C; c += VF) {
        size_t k = C - c < VF ? C - c : VF;
        a = vf_fma(vf_get(y + c, k), vf_get(dy + c, k), a);
    }
    const vf dot = vf_set1(vf_sum(a + b));
    for (c = 0; c < C; c += VF) {
        size_t k = C - c < VF ? C - c : VF;
        vf d = vf_get(y + c, k) * (vf_get(dy + c, k) - dot);
        if (acc)
            d += vf_get(dx + c, k);
        vf_put(dx + c, d, k);
    }
}

static void simd_softmax_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *y,
                             const qkv_real *dy, bool acc, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(dx, y, dy, acc, N, C) \
    if (N * C >= GRAIN)
    for (size_t r = 0; r < N; r++)
        softmax_bwd_row(dx + r * C, y + r * C, dy + r * C, acc, C);
}

/* ---- cross-entropy ----------------------------------------------------------------------- */

typedef struct {
    float max;
    double sum;   /* of exp(x - max) */
    double total; /* of x, when asked for */
    size_t best;  /* index of the first maximum */
} xent_stats;

static xent_stats row_stats(const float *x, bool want_total, size_t V)
{
    xent_stats s = {.max = -INFINITY};
    for (size_t c = 0; c < V; c += CHUNK) {
        size_t n = V - c < CHUNK ? V - c : CHUNK;
        float max = span_max(x + c, n);
        if (max > s.max) {
            s.sum *= exp((double)s.max - (double)max);
            s.max = max;
            s.best = c;
        }
        if (s.max != -INFINITY || max != -INFINITY) /* else there is nothing to add yet */
            s.sum += (double)span_exp_sum(x + c, s.max, n);
        if (want_total)
            s.total += span_sum(x + c, n);
    }
    size_t i = s.best;
    while (i < V && x[i] != s.max)
        i++;
    s.best = i < V ? i : 0;
    return s;
}

/* With m the largest logit and z_v = x_v - m, z being z_t:
 *     loss = log sum exp z - on z_t - off sum_{v != t} z_v. */
static double row_loss(const xent_stats *s, double log_sum, double z, const qkv_k_xent_args *a)
{
    double others = a->off == 0 ? 0 : s->total - (double)a->V * (double)s->max - z;
    return log_sum - a->on * z - a->off * others;
}

static void simd_softmax_xent_row(float *loss, float *nll, int32_t *argmax, float *dlogits,
                                  const float *x, int32_t target, const qkv_k_xent_args *a)
{
    bool counts = target != a->ignore;
    xent_stats s = {0};
    if (counts || argmax)
        s = row_stats(x, counts && a->off != 0, a->V);
    if (argmax)
        *argmax = (int32_t)s.best;
    if (!counts) {
        *loss = 0;
        if (nll)
            *nll = 0;
        if (dlogits)
            zero(dlogits, a->V);
        return;
    }
    double z = (double)x[target] - (double)s.max, log_sum = log(s.sum);
    *loss = (float)row_loss(&s, log_sum, z, a);
    if (nll)
        *nll = (float)(log_sum - z);
    if (!dlogits)
        return;
    span_gradient(dlogits, x, s.max, (float)(a->scale / s.sum), (float)(a->scale * a->off), a->V);
    dlogits[target] = (float)(a->scale * (exp(z) / s.sum - a->on));
}

static void simd_xent(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                      qkv_real *dlogits, const qkv_real *logits, const int32_t *targets,
                      const qkv_k_xent_args *args)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(loss, nll, argmax, dlogits, logits, targets, args) if (args->N * args->V >= GRAIN)
    for (size_t r = 0; r < args->N; r++)
        simd_softmax_xent_row(loss + r, nll ? nll + r : NULL, argmax ? argmax + r : NULL,
                              dlogits ? dlogits + r * args->V : NULL, logits + r * args->V,
                              targets[r], args);
}

/* ---- cross-entropy of two readings ------------------------------------------------------- */

/* A row of logits and its log sum exp. */
typedef struct {
    const float *x;
    float z;
} reading;

static reading simd_softmax_read_row(double *loss, double *nll, const float *x, int32_t target,
                                     const qkv_k_xent_args *a)
{
    xent_stats s = row_stats(x, a->off != 0, a->V);
    double z = (double)x[target] - (double)s.max, log_sum = log(s.sum);
    *loss = row_loss(&s, log_sum, z, a);
    *nll = log_sum - z;
    return (reading){x, (float)((double)s.max + log_sum)};
}

/* Sum of p (log p - log q). */
static float divergence(reading p, reading q, size_t V)
{
    const vf zp = vf_set1(p.z), zq = vf_set1(q.z);
    vf sum = vf_zero();
    for (size_t i = 0; i < V; i += VF) {
        size_t n = V - i < VF ? V - i : VF;
        vf a = vf_get(p.x + i, n) - zp, b = vf_get(q.x + i, n) - zq;
        vf term = vf_exp(a) * (a - b);
        sum += n < VF ? vf_where(vm_first(n), term) : term;
    }
    return vf_sum(sum);
}

/* Both gradients but for what the target has over the other classes; see ref_rows.c. */
static void pair_gradients(float *da, float *db, reading p, reading q, float pq, float qp,
                           const qkv_k_xent_args *args)
{
    const vf za = vf_set1(p.z), zb = vf_set1(q.z), h = vf_set1((float)(args->rdrop / 2));
    const vf kl = vf_set1(pq), lk = vf_set1(qp);
    const vf scale = vf_set1((float)args->scale), off = vf_set1((float)args->off);
    for (size_t i = 0; i < args->V; i += VF) {
        size_t n = args->V - i < VF ? args->V - i : VF;
        vf a = vf_get(p.x + i, n) - za, b = vf_get(q.x + i, n) - zb, d = a - b;
        a = vf_exp(a);
        b = vf_exp(b);
        vf_put(da + i, scale * (a - off + h * (a * (d - kl) + a - b)), n);
        vf_put(db + i, scale * (b - off + h * (b - a - b * (d + lk))), n);
    }
}

/* row: loss, nll and kl. */
static void simd_softmax_xent_pair_row(float row[3], float *da, float *db, const float *a,
                                       const float *b, int32_t target, const qkv_k_xent_args *args)
{
    row[0] = row[1] = row[2] = 0;
    if (target == args->ignore) {
        if (da) {
            zero(da, args->V);
            zero(db, args->V);
        }
        return;
    }
    double of_a, of_b, nll_a, nll_b, gold = args->scale * (args->on - args->off);
    reading p = simd_softmax_read_row(&of_a, &nll_a, a, target, args);
    reading q = simd_softmax_read_row(&of_b, &nll_b, b, target, args);
    float pq = divergence(p, q, args->V), qp = divergence(q, p, args->V);
    row[0] = (float)(of_a + of_b + args->rdrop / 2 * ((double)pq + (double)qp));
    row[1] = (float)(nll_a + nll_b);
    row[2] = (float)(((double)pq + (double)qp) / 2);
    if (!da)
        return;
    pair_gradients(da, db, p, q, pq, qp, args);
    da[target] -= (float)gold;
    db[target] -= (float)gold;
}

static void simd_xent_pair(const qkv_exec *e, qkv_real *loss, qkv_real *nll, qkv_real *kl,
                           qkv_real *da, qkv_real *db, const qkv_real *a, const qkv_real *b,
                           const int32_t *targets, const qkv_k_xent_args *args)
{
    size_t N = args->N, V = args->V;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(loss, nll, kl, da, db, a, b, targets, args, N, V) if (N * V >= GRAIN)
    for (size_t r = 0; r < N; r++) {
        float row[3];
        simd_softmax_xent_pair_row(row, da ? da + r * V : NULL, da ? db + r * V : NULL,
                                   a + r * V, b + r * V, targets[r], args);
        loss[r] = row[0];
        if (nll)
            nll[r] = row[1];
        if (kl)
            kl[r] = row[2];
    }
}

/* ---- the likeliest ----------------------------------------------------------------------- */

/* Those of x (n; columns first ..) that are among the largest so far. */
static void span_top(const qkv__top *t, const float *x, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i += 4 * VF) {
        size_t m = n - i < 4 * VF ? n - i : 4 * VF;
        if (!(span_max(x + i, m) > qkv__top_least(t)))
            continue;
        for (size_t j = i; j < i + m; j++)
            if (x[j] > qkv__top_least(t))
                qkv__top_insert(t, x[j], first + j);
    }
}

/* Columns `from` to `end` of a row, none of them banned. */
static void top_columns(const qkv__top *t, xent_stats *s, const float *x, size_t from, size_t end)
{
    for (size_t c = from; c < end; c += CHUNK) {
        size_t n = end - c < CHUNK ? end - c : CHUNK;
        float max = span_max(x + c, n);
        if (max > s->max) {
            s->sum *= exp((double)s->max - (double)max);
            s->max = max;
        }
        if (s->max != -INFINITY || max != -INFINITY)
            s->sum += (double)span_exp_sum(x + c, s->max, n);
        if (max > qkv__top_least(t))
            span_top(t, x + c, c, n);
    }
}

static void simd_softmax_top_row(const qkv__top *t, const float *x, const qkv_k_top_args *a)
{
    xent_stats s = {.max = -INFINITY};
    size_t from = 0;
    qkv__top_clear(t);
    for (size_t i = 0; i < a->bans; i++) {
        top_columns(t, &s, x, from, (size_t)a->banned[i]);
        from = (size_t)a->banned[i] + 1;
    }
    top_columns(t, &s, x, from, a->V);
    qkv__top_finish(t, x, (double)s.max, s.sum, a);
}

/* The same; a short list grows in memory of the thread, for its neighbours are other threads'. */
static void simd_softmax_top_apart(float *value, int32_t *id, const float *x,
                                   const qkv_k_top_args *a)
{
    enum { SHORT = 64 };
    float values[SHORT];
    int32_t ids[SHORT];
    bool apart = a->k <= SHORT;
    const qkv__top t = {apart ? values : value, apart ? ids : id, a->k};
    simd_softmax_top_row(&t, x, a);
    for (size_t i = 0; apart && i < a->k; i++) {
        value[i] = values[i];
        id[i] = ids[i];
    }
}

static void simd_top(const qkv_exec *e, qkv_real *value, int32_t *id, const qkv_real *x,
                     const qkv_k_top_args *args)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(value, id, x, args) \
    if (args->N * args->V >= GRAIN)
    for (size_t r = 0; r < args->N; r++)
        simd_softmax_top_apart(value + r * args->k, id + r * args->k, x + r * args->V, args);
}

void QKV_SIMD(qkv__kernels_softmax)(qkv_kernels *k)
{
    k->softmax = simd_softmax;
    k->softmax_bwd = simd_softmax_bwd;
    k->xent = simd_xent;
    k->xent_pair = simd_xent_pair;
    k->top = simd_top;
}
