/* ref_attention.c - plain C: attention, row by row, nothing stored but the log-sum-exp.
 * Scores are computed again wherever they are needed, in double: this is what the other attention
 * kernels are evaluated by, not what is fast. */
#include <math.h>

#include "kernel/kernel.h"

typedef qkv_k_attention_args args_of;

/* Keys that query i of sequence b sees: ref_attention_first .. the result - 1. */
static size_t visible(const args_of *a, size_t b, size_t i)
{
    if (!a->causal) {
        return a->k_len[b];
    }
    size_t past = i + 1 + a->k_len_full[b];
    size_t count = past > a->q_len[b] ? past - a->q_len[b] : 0;
    return count < a->k_len[b] ? count : a->k_len[b];
}

/* The first of them. */
static size_t ref_attention_first(const args_of *a, size_t b, size_t i)
{
    size_t past = i + 1 + a->k_len_full[b], hidden = a->q_len[b] + a->window;
    return a->window && past > hidden ? past - hidden : 0;
}

static double ref_attention_dot(const qkv_real *x, const qkv_real *y, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++) {
        sum += (double)x[c] * (double)y[c];
    }
    return sum;
}

/* What the weight of key j is multiplied by: 1 / (1 - p) or 0. */
static double kept(const args_of *a, size_t b, size_t h, size_t i, size_t j)
{
    const qkv_k_dropout_args *d = &a->dropout;
    if (!(d->p > 0)) {
        return 1;
    }
    uint64_t row = d->first + a->q_begin[b] + i;
    uint64_t g = ((row * a->H + h) << 20) + j;
    uint32_t word[4], counter[4] = { (uint32_t)(g / 4), (uint32_t)(g / 4 >> 32),
                                     (uint32_t)d->step, d->dropout_id };
    uint32_t key[2] = { (uint32_t)d->seed, (uint32_t)(d->seed >> 32) };
    qkv__philox(word, counter, key);
    return word[g % 4] >= qkv__dropout_threshold(d->p) ? 1 / (1 - d->p) : 0;
}

/* One query against the keys and values that serve its head. */
typedef struct {
    size_t b, h, i, first, keys; /* it sees keys first .. keys-1 */
    const qkv_real *q, *k, *v, *bias;
} query;

static query query_of(const qkv_real *q, const qkv_real *k, const qkv_real *v, const args_of *a,
                      size_t b, size_t h, size_t i)
{
    size_t group = h / (a->H / a->Hkv);
    query x = { .b = b, .h = h, .i = i, .first = ref_attention_first(a, b, i),
                .keys = visible(a, b, i) };
    x.q = q + (a->q_begin[b] + i) * a->q_row + h * a->q_head;
    x.k = k + a->k_begin[b] * a->k_row + group * a->k_head;
    if (v) {
        x.v = v + a->k_begin[b] * a->v_row + group * a->v_head;
    }
    if (a->bias) {
        x.bias = a->bias + qkv__bias_row(a, b, h, i);
    }
    return x;
}

static double ref_attention_score(const query *x, const args_of *a, size_t j)
{
    double s = a->scale * ref_attention_dot(x->q, x->k + j * a->k_row, a->D);
    return x->bias ? s + (double)x->bias[j] : s;
}

static double weight(const query *x, const args_of *a, double lse, size_t j)
{
    return lse == -INFINITY ? 0 : exp(ref_attention_score(x, a, j) - lse);
}

static double log_sum_exp(const query *x, const args_of *a)
{
    double max = -INFINITY, sum = 0;
    for (size_t j = x->first; j < x->keys; j++) {
        max = fmax(max, ref_attention_score(x, a, j));
    }
    if (max == -INFINITY) {
        return max;
    }
    for (size_t j = x->first; j < x->keys; j++) {
        sum += exp(ref_attention_score(x, a, j) - max);
    }
    return max + log(sum);
}

static void ref_attention_attend(qkv_real *out, const query *x, const args_of *a, double lse)
{
    for (size_t c = 0; c < a->Dv; c++) {
        out[c] = 0;
    }
    for (size_t j = x->first; j < x->keys; j++) {
        double w = weight(x, a, lse, j) * kept(a, x->b, x->h, x->i, j);
        for (size_t c = 0; c < a->Dv; c++) {
            out[c] = (qkv_real)((double)out[c] + w * (double)x->v[j * a->v_row + c]);
        }
    }
}

static void ref_attention_attention(const qkv_exec *e, qkv_real *out, qkv_real *lse,
                                    const qkv_real *q,
                                    const qkv_real *k, const qkv_real *v, const args_of *a)
{
#pragma omp parallel for num_threads(e->threads) collapse(2) default(none) \
    shared(out, lse, q, k, v, a)
    for (size_t b = 0; b < a->B; b++) {
        for (size_t h = 0; h < a->H; h++) {
            for (size_t i = 0; i < a->q_len[b]; i++) {
                size_t row = a->q_begin[b] + i;
                query x = query_of(q, k, v, a, b, h, i);
                double l = log_sum_exp(&x, a);
                lse[row * a->H + h] = (qkv_real)l;
                ref_attention_attend(out + row * a->o_row + h * a->o_head, &x, a, l);
            }
        }
    }
}

static void zero_rows(qkv_real *x, size_t row_stride, size_t rows, size_t n)
{
    for (size_t r = 0; x && r < rows; r++) {
        for (size_t c = 0; c < n; c++) {
            x[r * row_stride + c] = 0;
        }
    }
}

static void add_scaled(qkv_real *y, double w, const qkv_real *x, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        y[c] = (qkv_real)((double)y[c] + w * (double)x[c]);
    }
}

/* Where the gradients of one query and of its keys and values go; NULL: not wanted. */
typedef struct {
    qkv_real *dq, *dk, *dv, *dbias;
} gradients;

static void query_backward(const gradients *g, const query *x, const args_of *a,
                           const qkv_k_attention_bwd_args *w, const qkv_real *dout,
                           const qkv_real *out, double lse)
{
    double delta = ref_attention_dot(dout, out, a->Dv);
    for (size_t j = x->first; j < x->keys; j++) {
        double p = weight(x, a, lse, j), keep = kept(a, x->b, x->h, x->i, j);
        double ds = p * (keep * ref_attention_dot(dout, x->v + j * a->v_row, a->Dv) - delta);
        if (g->dv) {
            add_scaled(g->dv + j * w->dv_row, p * keep, dout, a->Dv);
        }
        if (g->dk) {
            add_scaled(g->dk + j * w->dk_row, a->scale * ds, x->q, a->D);
        }
        if (g->dq) {
            add_scaled(g->dq, a->scale * ds, x->k + j * a->k_row, a->D);
        }
        if (g->dbias) {
            g->dbias[j] = (qkv_real)((double)g->dbias[j] + ds);
        }
    }
}

/* Heads that share keys and values run one after another; a bias may be shared by all, so with
 * its gradient wanted there is one thread. */
static void attention_bwd(const qkv_exec *e, qkv_real *dq, qkv_real *dk, qkv_real *dv,
                          qkv_real *dbias, const qkv_real *dout, const qkv_real *out,
                          const qkv_real *lse, const qkv_real *q, const qkv_real *k,
                          const qkv_real *v, const args_of *a, const qkv_k_attention_bwd_args *w)
{
    size_t heads = a->H / a->Hkv;
    int threads = dbias ? 1 : e->threads;
#pragma omp parallel for num_threads(threads) collapse(2) default(none) \
    shared(dq, dk, dv, dbias, dout, out, lse, q, k, v, a, w, heads)
    for (size_t b = 0; b < a->B; b++) {
        for (size_t kv = 0; kv < a->Hkv; kv++) {
            gradients g = { NULL, NULL, NULL, NULL };
            g.dk = dk ? dk + a->k_begin[b] * w->dk_row + kv * w->dk_head : NULL;
            g.dv = dv ? dv + a->k_begin[b] * w->dv_row + kv * w->dv_head : NULL;
            zero_rows(w->acc_k ? NULL : g.dk, w->dk_row, a->k_len_full[b], a->D);
            zero_rows(w->acc_v ? NULL : g.dv, w->dv_row, a->k_len_full[b], a->Dv);
            for (size_t n = 0; n < heads * a->q_len[b]; n++) {
                size_t h = kv * heads + n / a->q_len[b], i = n % a->q_len[b];
                size_t row = a->q_begin[b] + i;
                query x = query_of(q, k, v, a, b, h, i);
                g.dq = dq ? dq + row * w->dq_row + h * w->dq_head : NULL;
                g.dbias = dbias ? dbias + (x.bias - a->bias) : NULL;
                zero_rows(w->acc_q ? NULL : g.dq, 0, 1, a->D);
                query_backward(&g, &x, a, w, dout + row * w->do_row + h * w->do_head,
                               out + row * a->o_row + h * a->o_head,
                               (double)lse[row * a->H + h]);
            }
        }
    }
}

/* Divided by their sum at the end, so that the rounding of lse does not show. */
static void attention_rows(const qkv_exec *e, qkv_real *weights, const qkv_real *lse,
                           const qkv_real *q, const qkv_real *k, const args_of *a, size_t b,
                           size_t h, size_t row, size_t rows)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(weights, lse, q, k, a, b, h, row, rows)
    for (size_t r = 0; r < rows; r++) {
        query x = query_of(q, k, NULL, a, b, h, row + r);
        qkv_real *y = weights + r * a->k_len[b];
        double l = (double)lse[(a->q_begin[b] + row + r) * a->H + h], sum = 0;
        for (size_t j = 0; j < a->k_len[b]; j++) {
            double w = j >= x.first && j < x.keys ? weight(&x, a, l, j) : 0;
            sum += w;
            y[j] = (qkv_real)w;
        }
        for (size_t j = 0; sum > 0 && j < a->k_len[b]; j++) {
            y[j] = (qkv_real)((double)y[j] / sum);
        }
    }
}

void qkv__kernels_ref_attention(qkv_kernels *k)
{
    k->attention = ref_attention_attention;
    k->attention_bwd = attention_bwd;
    k->attention_rows = attention_rows;
}
