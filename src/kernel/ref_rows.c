/* ref_rows.c - kernels that work row by row, in plain C: norms, softmax, cross-entropy, rows by
 * index, rotary positions. Sums over a row run in double, in order. */
#include "kernel/ref_math.h"
#include "kernel/topk.h"

/* ---- norms ------------------------------------------------------------------------------- */

/* Mean (0 for rms) and 1 / sqrt(variance + eps) of one row. */
static void row_statistics(double *mean, double *rstd, const qkv_real *s,
                           const qkv_k_norm_args *a)
{
    double m = 0, v = 0;
    if (!a->rms) {
        for (size_t c = 0; c < a->C; c++)
            m += (double)s[c];
        m /= (double)a->C;
    }
    for (size_t c = 0; c < a->C; c++)
        v += ((double)s[c] - m) * ((double)s[c] - m);
    *mean = m;
    *rstd = 1 / sqrt(v / (double)a->C + a->eps);
}

static void ref_norm(const qkv_exec *e, qkv_real *y, qkv_real *sum, qkv_real *mean,
                     qkv_real *rstd, const qkv_real *x, const qkv_real *residual,
                     const qkv_real *weight, const qkv_real *bias, const qkv_k_norm_args *args)
{
    const size_t C = args->C;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, sum, mean, rstd, x, residual, weight, bias, args, C) \
    if (args->N * C >= REF_GRAIN)
    for (size_t r = 0; r < args->N; r++) {
        const qkv_real *s = x + r * C;
        qkv_real *out = y + r * C;
        if (residual) {
            qkv_real *kept = sum ? sum + r * C : out;
            for (size_t c = 0; c < C; c++)
                kept[c] = s[c] + residual[r * C + c];
            s = kept;
        }
        double m, k;
        row_statistics(&m, &k, s, args);
        for (size_t c = 0; c < C; c++) {
            qkv_real v = (qkv_real)(((double)s[c] - m) * k);
            v = weight ? v * weight[c] : v;
            out[c] = bias ? v + bias[c] : v;
        }
        if (mean && !args->rms)
            mean[r] = (qkv_real)m;
        if (rstd)
            rstd[r] = (qkv_real)k;
    }
}

static void norm_bwd_row(qkv_real *dx, bool acc, const qkv_real *s, double mean, double rstd,
                         const qkv_real *weight, const qkv_real *dy, const qkv_real *dsum,
                         const qkv_k_norm_args *a)
{
    double sum_g = 0, sum_gx = 0; /* of g = dy weight and of g (s - mean) rstd */
    for (size_t c = 0; c < a->C; c++) {
        double g = (double)dy[c] * (weight ? (double)weight[c] : 1);
        sum_g += g;
        sum_gx += g * ((double)s[c] - mean) * rstd;
    }
    sum_g = a->rms ? 0 : sum_g / (double)a->C;
    sum_gx /= (double)a->C;
    for (size_t c = 0; c < a->C; c++) {
        double g = (double)dy[c] * (weight ? (double)weight[c] : 1);
        double d = rstd * (g - sum_g - ((double)s[c] - mean) * rstd * sum_gx);
        d += dsum ? (double)dsum[c] : 0;
        dx[c] = (qkv_real)(acc ? (double)dx[c] + d : d);
    }
}

static void norm_bwd_parameters(const qkv_exec *e, qkv_real *dweight, bool acc_weight,
                                qkv_real *dbias, bool acc_bias, const qkv_real *s,
                                const qkv_real *mean, const qkv_real *rstd, const qkv_real *dy,
                                const qkv_k_norm_args *args)
{
    const size_t C = args->C;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(dweight, acc_weight, dbias, acc_bias, s, mean, rstd, dy, args, C) \
    if (args->N * C >= REF_GRAIN)
    for (size_t c = 0; c < C; c++) {
        double w = 0, b = 0;
        for (size_t r = 0; r < args->N; r++) {
            double m = args->rms ? 0 : (double)mean[r];
            w += (double)dy[r * C + c] * ((double)s[r * C + c] - m) * (double)rstd[r];
            b += (double)dy[r * C + c];
        }
        if (dweight)
            dweight[c] = (qkv_real)(acc_weight ? (double)dweight[c] + w : w);
        if (dbias)
            dbias[c] = (qkv_real)(acc_bias ? (double)dbias[c] + b : b);
    }
}

static void ref_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                         bool acc_weight, qkv_real *dbias, bool acc_bias, const qkv_real *s,
                         const qkv_real *mean, const qkv_real *rstd, const qkv_real *weight,
                         const qkv_real *dy, const qkv_real *dsum, const qkv_k_norm_args *args)
{
    const size_t C = args->C;
    if (dweight || dbias)
        norm_bwd_parameters(e, dweight, acc_weight, dbias, acc_bias, s, mean, rstd, dy, args);
    if (!dx)
        return;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(dx, acc, s, mean, rstd, weight, dy, dsum, args, C) if (args->N * C >= REF_GRAIN)
    for (size_t r = 0; r < args->N; r++)
        norm_bwd_row(dx + r * C, acc, s + r * C, args->rms ? 0 : (double)mean[r],
                     (double)rstd[r], weight, dy + r * C, dsum ? dsum + r * C : NULL, args);
}

/* ---- softmax and cross-entropy ----------------------------------------------------------- */

static size_t first_largest(const qkv_real *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static void ref_softmax(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N, size_t C)
{
    if (C == 0)
        return;
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, N, C) \
    if (N * C >= REF_GRAIN)
    for (size_t r = 0; r < N; r++) {
        const qkv_real *in = x + r * C;
        qkv_real *out = y + r * C, max = in[first_largest(in, C)];
        double sum = 0;
        for (size_t c = 0; c < C; c++) {
            out[c] = in[c] == (qkv_real)-INFINITY ? 0 : real_exp(in[c] - max);
            sum += (double)out[c];
        }
        qkv_real scale = sum == 0 ? 0 : (qkv_real)(1 / sum);
        for (size_t c = 0; c < C; c++)
            out[c] *= scale;
    }
}

static void ref_softmax_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *y,
                            const qkv_real *dy, bool acc, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(dx, y, dy, acc, N, C) \
    if (N * C >= REF_GRAIN)
    for (size_t r = 0; r < N; r++) {
        double dot = 0;
        for (size_t c = 0; c < C; c++)
            dot += (double)y[r * C + c] * (double)dy[r * C + c];
        for (size_t c = 0; c < C; c++) {
            qkv_real d = y[r * C + c] * (dy[r * C + c] - (qkv_real)dot);
            dx[r * C + c] = acc ? dx[r * C + c] + d : d;
        }
    }
}

/* Sum of exp(x - x[best]), x[best] being the largest. */
static double exp_sum(const qkv_real *x, size_t best, size_t V)
{
    double sum = 1;
    for (size_t v = 0; v < V; v++)
        sum += v == best ? 0 : (double)real_exp(x[v] - x[best]);
    return sum;
}

/* Returns z = log sum exp x. The loss, -sum q log p, is with m the largest logit
 *     log sum exp(x - m) - on (x_t - m) - off sum_{v != t} (x_v - m). */
static double reading(double *loss, const qkv_real *x, size_t target, const qkv_k_xent_args *a)
{
    size_t best = first_largest(x, a->V);
    double max = (double)x[best], log_sum = log(exp_sum(x, best, a->V)), others = 0;
    for (size_t v = 0; a->off != 0 && v < a->V; v++)
        others += v == target ? 0 : (double)x[v] - max;
    *loss = log_sum - a->on * ((double)x[target] - max) - a->off * others;
    return max + log_sum;
}

static double probability(qkv_real x, double z)
{
    return (double)real_exp((qkv_real)((double)x - z));
}

static void ref_rows_xent_row(qkv_real *loss, qkv_real *nll, int32_t *argmax, qkv_real *dlogits,
                              const qkv_real *x, int32_t target, const qkv_k_xent_args *a)
{
    size_t t = (size_t)target;
    bool counts = target != a->ignore;
    if (argmax)
        *argmax = (int32_t)first_largest(x, a->V);
    double sum = 0, z = counts ? reading(&sum, x, t, a) : 0;
    *loss = (qkv_real)sum;
    if (nll)
        *nll = (qkv_real)(counts ? z - (double)x[t] : 0);
    for (size_t v = 0; dlogits && v < a->V; v++) {
        double q = v == t ? a->on : a->off;
        dlogits[v] = (qkv_real)(counts ? a->scale * (probability(x[v], z) - q) : 0);
    }
}

static void ref_xent(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                     qkv_real *dlogits, const qkv_real *logits, const int32_t *targets,
                     const qkv_k_xent_args *args)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(loss, nll, argmax, dlogits, logits, targets, args) if (args->N * args->V >= REF_GRAIN)
    for (size_t r = 0; r < args->N; r++)
        ref_rows_xent_row(loss + r, nll ? nll + r : NULL, argmax ? argmax + r : NULL,
                          dlogits ? dlogits + r * args->V : NULL, logits + r * args->V, targets[r],
                          args);
}

/* loss = (sum q) log sum exp z - sum q z, z as above. */
static void xent_soft_row(qkv_real *loss, qkv_real *nll, int32_t *argmax, qkv_real *dlogits,
                          const qkv_real *x, const qkv_real *target, const qkv_k_xent_args *a)
{
    size_t best = first_largest(x, a->V);
    qkv_real max = x[best];
    if (argmax)
        *argmax = (int32_t)best;
    double sum = exp_sum(x, best, a->V), sum_target = 0, hard = 0, all = 0;
    for (size_t v = 0; v < a->V; v++) {
        double z = (double)(x[v] - max);
        sum_target += (double)target[v];
        hard += target[v] == 0 ? 0 : (double)target[v] * z; /* 0 log 0 is 0 */
        all += a->off == 0 ? 0 : a->off * z;
    }
    double spread = a->on - a->off, log_sum = log(sum);
    double sum_q = a->off * (double)a->V + spread * sum_target;
    *loss = (qkv_real)(sum_q * log_sum - spread * hard - all);
    if (nll)
        *nll = (qkv_real)(sum_target * log_sum - hard);
    for (size_t v = 0; dlogits && v < a->V; v++) {
        double q = a->off + spread * (double)target[v];
        dlogits[v] = (qkv_real)(a->scale * (sum_q * (double)real_exp(x[v] - max) / sum - q));
    }
}

static void ref_xent_soft(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                          qkv_real *dlogits, const qkv_real *logits, const qkv_real *targets,
                          const qkv_k_xent_args *args)
{
    const size_t V = args->V;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(loss, nll, argmax, dlogits, logits, targets, args, V) if (args->N * V >= REF_GRAIN)
    for (size_t r = 0; r < args->N; r++)
        xent_soft_row(loss + r, nll ? nll + r : NULL, argmax ? argmax + r : NULL,
                      dlogits ? dlogits + r * V : NULL, logits + r * V, targets + r * V, args);
}

/* row: loss, nll and kl. With p and q the probabilities and d = log p - log q: KL(p||q) = sum p d,
 * whose gradients are p (d - KL(p||q)) for the logits of p and q - p for those of q. */
static void ref_rows_xent_pair_row(qkv_real row[3], qkv_real *da, qkv_real *db, const qkv_real *a,
                                   const qkv_real *b, int32_t target, const qkv_k_xent_args *args)
{
    size_t V = args->V, t = (size_t)target;
    row[0] = row[1] = row[2] = 0;
    if (target == args->ignore) {
        for (size_t v = 0; v < V && da; v++)
            da[v] = db[v] = 0;
        return;
    }
    double of_a, of_b, za = reading(&of_a, a, t, args), zb = reading(&of_b, b, t, args);
    double pq = 0, qp = 0, half = args->rdrop / 2;
    for (size_t v = 0; v < V; v++) {
        double d = ((double)a[v] - za) - ((double)b[v] - zb);
        pq += probability(a[v], za) * d;
        qp -= probability(b[v], zb) * d;
    }
    row[0] = (qkv_real)(of_a + of_b + half * (pq + qp));
    row[1] = (qkv_real)(za - (double)a[t] + zb - (double)b[t]);
    row[2] = (qkv_real)((pq + qp) / 2);
    for (size_t v = 0; v < V && da; v++) {
        double y = v == t ? args->on : args->off, d = ((double)a[v] - za) - ((double)b[v] - zb);
        double p = probability(a[v], za), q = probability(b[v], zb);
        da[v] = (qkv_real)(args->scale * (p - y + half * (p * (d - pq) + p - q)));
        db[v] = (qkv_real)(args->scale * (q - y + half * (q * (-d - qp) + q - p)));
    }
}

static void ref_xent_pair(const qkv_exec *e, qkv_real *loss, qkv_real *nll, qkv_real *kl,
                          qkv_real *da, qkv_real *db, const qkv_real *a, const qkv_real *b,
                          const int32_t *targets, const qkv_k_xent_args *args)
{
    size_t N = args->N, V = args->V;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(loss, nll, kl, da, db, a, b, targets, args, N, V) if (N * V >= REF_GRAIN)
    for (size_t r = 0; r < N; r++) {
        qkv_real row[3];
        ref_rows_xent_pair_row(row, da ? da + r * V : NULL, da ? db + r * V : NULL, a + r * V,
                               b + r * V, targets[r], args);
        loss[r] = row[0];
        if (nll)
            nll[r] = row[1];
        if (kl)
            kl[r] = row[2];
    }
}

/* ---- the likeliest ----------------------------------------------------------------------- */

static void ref_rows_top_row(const qkv__top *t, const qkv_real *x, const qkv_k_top_args *a)
{
    double max = -INFINITY, sum = 0;
    qkv__top_clear(t);
    for (size_t v = 0, ban = 0; v < a->V; v++) {
        if (ban < a->bans && (size_t)a->banned[ban] == v) {
            ban++;
            continue;
        }
        double y = (double)x[v];
        if (y > max) {
            sum *= exp(max - y);
            max = y;
        }
        sum += y == -INFINITY ? 0 : exp(y - max);
        if (x[v] > qkv__top_least(t))
            qkv__top_insert(t, x[v], v);
    }
    qkv__top_finish(t, x, max, sum, a);
}

static void ref_top(const qkv_exec *e, qkv_real *value, int32_t *id, const qkv_real *x,
                    const qkv_k_top_args *args)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(value, id, x, args) \
    if (args->N * args->V >= REF_GRAIN)
    for (size_t r = 0; r < args->N; r++)
        ref_rows_top_row(&(qkv__top){value + r * args->k, id + r * args->k, args->k},
                         x + r * args->V, args);
}

/* ---- rows by index ----------------------------------------------------------------------- */

static void ref_embed(const qkv_exec *e, qkv_real *y, const int32_t *ids, const qkv_real *table,
                      double scale, const int32_t *positions, const qkv_real *ptable, size_t N,
                      size_t C)
{
    qkv_real k = (qkv_real)scale;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, ids, table, k, positions, ptable, N, C) if (N * C >= REF_GRAIN)
    for (size_t r = 0; r < N; r++) {
        const qkv_real *row = table + (size_t)ids[r] * C;
        const qkv_real *shift = ptable ? ptable + (size_t)positions[r] * C : NULL;
        for (size_t c = 0; c < C; c++)
            y[r * C + c] = shift ? k * row[c] + shift[c] : k * row[c];
    }
}

/* Threads share the channels, so each element of dtable sees its rows in order. */
static void ref_embed_bwd(const qkv_exec *e, qkv_real *dtable, const int32_t *ids,
                          const qkv_real *dy, double scale, size_t N, size_t C)
{
    enum { STRIP = 16 };
    qkv_real k = (qkv_real)scale;
    size_t strips = (C + STRIP - 1) / STRIP;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(dtable, ids, dy, k, N, C, strips) if (N * C >= REF_GRAIN)
    for (size_t s = 0; s < strips; s++) {
        size_t end = C - s * STRIP < STRIP ? C : (s + 1) * STRIP;
        for (size_t r = 0; r < N; r++)
            for (size_t c = s * STRIP; c < end; c++)
                dtable[(size_t)ids[r] * C + c] += k * dy[r * C + c];
    }
}

/* ---- rotary ------------------------------------------------------------------------------ */

static void rotate_row(qkv_real *y, const qkv_real *x, double position,
                       const qkv_k_rotary_args *a)
{
    size_t half = a->width / 2;
    for (size_t i = 0; i < half; i++) {
        double angle = position * a->frequency[i];
        qkv_real c = (qkv_real)(a->scale * cos(angle));
        qkv_real s = (qkv_real)(a->scale * a->sign * sin(angle));
        for (size_t h = 0; h < a->H; h++) {
            const qkv_real *in = x + h * a->hx + i;
            qkv_real *out = y + h * a->hy + i;
            qkv_real lo = in[0] * c - in[half] * s, hi = in[half] * c + in[0] * s;
            out[0] = a->acc ? out[0] + lo : lo;
            out[half] = a->acc ? out[half] + hi : hi;
        }
    }
    for (size_t h = 0; h < a->H; h++) {
        const qkv_real *in = x + h * a->hx;
        qkv_real *out = y + h * a->hy;
        for (size_t d = a->width; d < a->D; d++)
            out[d] = a->acc ? out[d] + in[d] : in[d];
    }
}

static void ref_rotary(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                       const int32_t *positions, const qkv_k_rotary_args *args)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, positions, args) \
    if (args->N * args->H * args->D >= REF_GRAIN)
    for (size_t r = 0; r < args->N; r++)
        rotate_row(y + r * args->sy, x + r * args->sx, positions[r], args);
}

/* ---- the nearest code ------------------------------------------------------------------- */

static void ref_row_squares(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, N, C) \
    if (N * C >= REF_GRAIN)
    for (size_t n = 0; n < N; n++) {
        double sum = 0;
        for (size_t c = 0; c < C; c++)
            sum += (double)x[n * C + c] * (double)x[n * C + c];
        y[n] = (qkv_real)sum;
    }
}

static void ref_nearest(const qkv_exec *e, int32_t *id, const qkv_real *products,
                        const qkv_real *x2, const qkv_real *code2, size_t N, size_t K)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(id, products, x2, code2, N, K) if (N * K >= REF_GRAIN)
    for (size_t n = 0; n < N; n++) {
        qkv_real least = INFINITY;
        id[n] = 0;
        for (size_t k = 0; k < K; k++) {
            qkv_real d = x2[n] + code2[k] - 2 * products[n * K + k];
            if (d < least) {
                least = d;
                id[n] = (int32_t)k;
            }
        }
    }
}

void qkv__kernels_ref_rows(qkv_kernels *k)
{
    k->norm = ref_norm;
    k->norm_bwd = ref_norm_bwd;
    k->softmax = ref_softmax;
    k->softmax_bwd = ref_softmax_bwd;
    k->xent = ref_xent;
    k->xent_soft = ref_xent_soft;
    k->xent_pair = ref_xent_pair;
    k->top = ref_top;
    k->embed = ref_embed;
    k->embed_bwd = ref_embed_bwd;
    k->row_squares = ref_row_squares;
    k->nearest = ref_nearest;
    k->rotary = ref_rotary;
}
