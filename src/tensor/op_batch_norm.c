/* op_batch_norm.c - batch norm: every channel normalised over all rows of a batch while training,
 * by the statistics that were kept of earlier batches otherwise (Ioffe and Szegedy 2015). */
#include <math.h>

#include "tensor/param.h"
#include "tensor/tape.h"

typedef struct {
    const qkv_real *mean, *rstd; /* (C) */
    bool own; /* they are the batch's, so they depend on x */
    size_t N, C;
} batch_params;

/* What x is multiplied by: weight rstd. NULL fails the tape. */
static qkv_real *slopes(qkv_tape *t, const batch_params *p, const qkv_tensor *weight)
{
    qkv_real *q = qkv__scratch(t, p->C);
    if (q && weight)
        t->k->mul(&t->exec, q, p->rstd, qkv__real(weight), false, p->C);
    else if (q)
        t->device->copy(q, p->rstd, p->C * sizeof *q);
    return q;
}

/* With s = sum dy and d = sum dy (x - mean), N rows:
 *     dx = slope (dy - s/N - (x - mean) rstd^2 d/N), or slope dy where the statistics are given. */
static void pass_x(qkv_tape *t, const qkv__node *n, const qkv_real *s, const qkv_real *d)
{
    const batch_params *p = n->params;
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc), *slope = dx ? slopes(t, p, n->in[1]) : NULL;
    if (!slope)
        return;
    if (!p->own) {
        const qkv_k_channel_map_args g = {.q = slope};
        t->k->channel_map(&t->exec, dx, acc, dy, &g, p->N, p->C);
        return;
    }
    const size_t bytes = p->C * sizeof *slope;
    qkv__mark mark = qkv__arena_mark(t->host);
    const qkv_real *slope_of = qkv__read(t, slope, bytes), *rstd = qkv__read(t, p->rstd, bytes);
    const qkv_real *sums = qkv__read(t, s, bytes), *dots = qkv__read(t, d, bytes);
    qkv_real *to_q = qkv__scratch(t, p->C), *q = qkv__draft(t, to_q, p->C);
    qkv_real *to_r = qkv__scratch(t, p->C), *r = qkv__draft(t, to_r, p->C);
    for (size_t c = 0; !t->status && c < p->C; c++) {
        qkv_real share = slope_of[c] / (qkv_real)p->N;
        q[c] = -share * rstd[c] * rstd[c] * dots[c];
        r[c] = -share * sums[c];
    }
    qkv__bring(t, to_q, q, p->C);
    qkv__bring(t, to_r, r, p->C);
    const qkv_k_channel_map_args g = {.u = dy, .p = slope, .m = p->mean, .q = to_q, .r = to_r};
    if (!t->status)
        t->k->channel_map(&t->exec, dx, acc, qkv__real(n->in[0]), &g, p->N, p->C);
    qkv__arena_release(t->host, mark);
}

static void batch_norm_backward(qkv_tape *t, const qkv__node *n)
{
    const batch_params *p = n->params;
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *s = qkv__scratch(t, p->C), *d = qkv__scratch(t, p->C);
    if (s && d) {
        bool acc;
        t->k->sum_rows(&t->exec, s, dy, p->C, false, p->N, p->C);
        t->k->channel_dot(&t->exec, d, dy, qkv__real(n->in[0]), p->mean, p->N, p->C);
        qkv_real *dweight = qkv__grad(t, n->in[1], &acc);
        if (dweight)
            t->k->mul(&t->exec, dweight, d, p->rstd, acc, p->C);
        qkv__grad_add(t, n->in[2], s, 1.0, p->C);
        pass_x(t, n, s, d);
    }
    qkv__arena_release(t->exec.scratch, mark);
}

static const qkv_op batch_norm_op = {.name = "batch_norm", .backward = batch_norm_backward};

/* ---- statistics ---------------------------------------------------------------------------- */

/* Takes in a batch's mean and its variance times N. */
static void op_batch_norm_remember(const qkv_running *g, const qkv_real *mean,
                                   const qkv_real *squares, size_t N)
{
    qkv_real *m = qkv_param_data(g->mean), *v = qkv_param_data(g->variance);
    qkv_real *batches = g->batches ? qkv_param_data(g->batches) : NULL;
    double share = g->momentum == 0 ? 0.1 : g->momentum;
    if (batches)
        batches[0]++;
    if (g->momentum < 0)
        share = 1 / (double)batches[0];
    for (size_t c = 0; c < qkv_param_count(g->mean); c++) {
        m[c] = (qkv_real)((1 - share) * (double)m[c] + share * (double)mean[c]);
        double variance = (double)squares[c] / (double)(N - 1); /* unbiased, as PyTorch's */
        v[c] = (qkv_real)((1 - share) * (double)v[c] + share * variance);
    }
    qkv_param_touch(g->mean);
    qkv_param_touch(g->variance);
    if (batches)
        qkv_param_touch(g->batches);
}

/* Mean and 1 / sqrt(variance + eps) of every channel. */
static void find_statistics(qkv_tape *t, qkv_real *mean, qkv_real *rstd, const qkv_tensor *x,
                            const batch_params *p, const qkv_running *g, double eps)
{
    const size_t C = p->C, bytes = C * sizeof *mean;
    const double count = p->own ? (double)p->N : 1;
    qkv__mark mark = qkv__arena_mark(t->host);
    qkv_real *means = qkv__draft(t, mean, C), *slope = qkv__draft(t, rstd, C);
    const qkv_real *variance = NULL, *sum = NULL;
    qkv_real *squares = p->own ? qkv__scratch(t, C) : NULL;
    if (!p->own) {
        t->device->copy(mean, g->mean->data, bytes);
        variance = qkv_param_data(g->variance);
    } else if (means && squares) {
        t->k->sum_rows(&t->exec, mean, qkv__real(x), C, false, p->N, C);
        sum = qkv__read(t, mean, bytes);
        for (size_t c = 0; sum && c < C; c++)
            means[c] = sum[c] / (qkv_real)p->N;
        qkv__bring(t, mean, means, C);
        t->k->channel_dot(&t->exec, squares, NULL, qkv__real(x), mean, p->N, C);
        variance = qkv__read(t, squares, bytes);
    }
    for (size_t c = 0; variance && slope && c < C; c++)
        slope[c] = (qkv_real)(1 / sqrt((double)variance[c] / count + eps));
    qkv__bring(t, rstd, slope, C);
    if (p->own && g && !t->again && !t->status && !qkv__context_meta(t->ctx))
        op_batch_norm_remember(g, means, variance, p->N);
    qkv__arena_release(t->host, mark);
}

/* ---- the op -------------------------------------------------------------------------------- */

static bool kept_fits(const qkv_running *g, size_t C)
{
    return !g || (qkv_param_count(g->mean) == C && qkv_param_count(g->variance) == C &&
                  (g->batches ? qkv_param_count(g->batches) == 1 : g->momentum >= 0));
}

static bool op_batch_norm_fits(qkv_tape *t, qkv_tensor *const *in, const qkv_running *g)
{
    const qkv_tensor *x = in[0];
    size_t C = qkv__channels(x);
    if (x->ndim && qkv_count(x) && qkv__is_vector(in[1], C) && qkv__is_vector(in[2], C) &&
        kept_fits(g, C))
        return true;
    return qkv__op_fail(t, "batch_norm", "x %s, weight %s, bias %s and running statistics of %zu "
                        "channels do not fit", qkv__shape_text(t, x), qkv__shape_text(t, in[1]),
                        qkv__shape_text(t, in[2]), g ? qkv_param_count(g->mean) : C) != NULL;
}

qkv_tensor *qkv_batch_norm(qkv_tape *t, qkv_tensor *x, qkv_tensor *weight, qkv_tensor *bias,
                           const qkv_running *running, double eps)
{
    x = qkv__widened(t, x);
    qkv_tensor *in[] = {x, weight, bias};
    if (!qkv__ready_reals(t, "batch_norm", 1, in) || !op_batch_norm_fits(t, in, running))
        return NULL;
    qkv__arrive(t, weight);
    qkv__arrive(t, bias);
    in[0] = qkv_contiguous(t, x);
    batch_params p = {.own = t->train || !running, .N = qkv__rows(x), .C = qkv__channels(x)};
    if (p.own && p.N < 2)
        return qkv__op_fail(t, "batch_norm", "x %s has one value per channel to train on: it has "
                            "no variance", qkv__shape_text(t, x));
    qkv_tensor *y = qkv__new_like(t, x);
    qkv_real *mean = qkv__step_memory(t, p.C * sizeof *mean);
    qkv_real *rstd = qkv__step_memory(t, p.C * sizeof *rstd);
    if (t->status)
        return NULL;
    p.mean = mean;
    p.rstd = rstd;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    find_statistics(t, mean, rstd, in[0], &p, running, eps);
    qkv_real *slope = slopes(t, &p, weight);
    const qkv_k_channel_map_args g = {.m = mean, .q = slope, .r = bias ? qkv__real(bias) : NULL};
    if (slope)
        t->k->channel_map(&t->exec, qkv__real(y), false, qkv__real(in[0]), &g, p.N, p.C);
    qkv__arena_release(t->exec.scratch, mark);
    if (t->status)
        return NULL;
    return qkv__record(t, &batch_norm_op, 3, in, 1, &y, &p, sizeof p);
}
