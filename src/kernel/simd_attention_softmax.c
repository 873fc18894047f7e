/* simd_attention_softmax.c - tiles of scores become weights, with what is added to and drawn for
 * them: forward with a running maximum and sum, backward from the saved log-sum-exp. */
#include "kernel/simd_attention_parts.h"

static void tile_bias(float *tile, const block *x, size_t j0, size_t nk)
{
    const attention_args *a = x->a;
    for (size_t i = 0; i < x->rows; i++) {
        const float *row = a->bias + qkv__bias_row(a, x->b, x->h, x->i0 + i) + j0;
        size_t seen = keys_seen(x, i, j0, nk);
        for (size_t j = 0; j < seen; j++) {
            tile[j * TQ + i] += row[j];
        }
    }
}

static void tile_window(float *tile, const block *x, size_t j0, size_t nk)
{
    const vf hidden = vf_set1(-INFINITY);
    for (size_t i = 0; i < x->rows; i += VF) {
        float passed[VF];
        for (size_t c = 0; c < VF; c++) {
            passed[c] = (float)keys_passed(x, i + c, j0, nk);
        }
        vf limit = vf_load(passed);
        for (size_t j = 0; j < keys_passed(x, i + VF - 1, j0, nk); j++) {
            float *score = tile + j * TQ + i;
            vf_store(score, vf_select(vf_lt(vf_set1((float)j), limit), hidden, vf_load(score)));
        }
    }
}

void tile_complete(float *tile, const block *x, size_t j0, size_t nk)
{
    if (x->a->bias) {
        tile_bias(tile, x, j0, nk);
    }
    if (x->a->window) {
        tile_window(tile, x, j0, nk);
    }
}

void tile_dropout(float *keep, const block *x, size_t j0, size_t nk)
{
    const attention_args *a = x->a;
    const qkv_k_dropout_args *d = &a->dropout;
    vi threshold = vi_set1(qkv__dropout_threshold(d->p));
    vf kept = vf_set1((float)(1 / (1 - d->p)));
    for (size_t i = 0; i < x->rows; i += VF) {
        uint32_t low[VF], high[VF];
        for (size_t c = 0; c < VF; c++) { /* counter of key 0: element index / 4 */
            uint64_t row = d->first + a->q_begin[x->b] + x->i0 + i + c;
            uint64_t counter = (row * a->H + x->h) << 18;
            low[c] = (uint32_t)counter;
            high[c] = (uint32_t)(counter >> 32);
        }
        for (size_t j = 0; j < nk; j += 4) {
            vi words[4] = { vi_add(vi_load(low), vi_set1((uint32_t)((j0 + j) / 4))),
                            vi_load(high), vi_set1((uint32_t)d->step), vi_set1(d->dropout_id) };
            vi_philox(words, (uint32_t)d->seed, (uint32_t)(d->seed >> 32));
            for (size_t c = 0; c < 4; c++) {
                vf_store(keep + (j + c) * TQ + i,
                         vf_select(vi_ge(words[c], threshold), kept, vf_zero()));
            }
        }
    }
}

/* ---- forward ------------------------------------------------------------------------------- */

size_t running_size(const attention_args *a, size_t group)
{
    return (a->dropout.p > 0 ? 2 : 1) * TK * TQ + group * 3 * TQ;
}

running running_at(float *p, const attention_args *a, size_t g)
{
    bool dropout = a->dropout.p > 0;
    running m = { .tile = p, .keep = dropout ? p + TK * TQ : NULL };
    m.max = p + (dropout ? 2 : 1) * TK * TQ + g * 3 * TQ;
    m.sum = m.max + TQ;
    m.alpha = m.sum + TQ;
    for (size_t i = 0; i < TQ; i++) {
        m.max[i] = -INFINITY;
        m.sum[i] = 0;
    }
    return m;
}

/* Scores become exp(score - max) in place, hidden ones 0; max, sum and alpha (what earlier sums
 * are worth now) move on. */
static void tile_softmax(const running *m, const block *x, size_t j0, size_t nk)
{
    const vf unit = vf_set1((float)LOG2_E);
    for (size_t i = 0; i < x->rows; i += VF) {
        lane_keys see = lanes_of(x, i, j0, nk);
        float *tile = m->tile + i;
        vf old = vf_load(m->max + i), sum = vf_zero(), hidden = vf_set1(-INFINITY), max = hidden;
        for (size_t j = 0; j < see.full; j++) {
            max = vf_max(vf_load(tile + j * TQ), max);
        }
        for (size_t j = see.full; j < see.part; j++) {
            vf s = vf_select(vf_lt(vf_set1((float)j), see.limit), vf_load(tile + j * TQ), hidden);
            vf_store(tile + j * TQ, s);
            max = vf_max(s, max);
        }
        max = vf_max(max * unit, old);
        vf base = vf_select(vf_lt(hidden, max), max, vf_zero()); /* all hidden so far: any */
        for (size_t j = 0; j < see.part; j++) {
            vf p = vf_exp2(vf_fma(vf_load(tile + j * TQ), unit, -base));
            vf_store(tile + j * TQ, p);
            sum = sum + p;
        }
        for (size_t j = see.part; j < nk; j++) {
            vf_store(tile + j * TQ, vf_zero());
        }
        vf alpha = vf_exp2(old - base);
        vf_store(m->alpha + i, alpha);
        vf_store(m->max + i, max);
        vf_store(m->sum + i, vf_fma(vf_load(m->sum + i), alpha, sum));
    }
}

static void tile_drop(const running *m, const block *x, size_t j0, size_t nk)
{
    tile_dropout(m->keep, x, j0, nk);
    for (size_t j = 0; j < nk; j++) {
        for (size_t i = 0; i < x->rows; i += VF) {
            float *p = m->tile + j * TQ + i;
            vf_store(p, vf_load(p) * vf_load(m->keep + j * TQ + i));
        }
    }
}

void tile_weights(const running *m, const block *x, size_t j0, size_t nk)
{
    tile_complete(m->tile, x, j0, nk);
    tile_softmax(m, x, j0, nk);
    if (m->keep) {
        tile_drop(m, x, j0, nk);
    }
}

void running_end(const running *m, const block *x, float *scale, float *lse)
{
    const attention_args *a = x->a;
    for (size_t i = 0; i < TQ; i++) {
        bool blind = i >= x->rows || !(m->sum[i] > 0);
        scale[i] = blind ? 0 : 1 / m->sum[i];
        if (i < x->rows) {
            size_t row = a->q_begin[x->b] + x->i0 + i;
            double log_sum = m->max[i] / LOG2_E + log(m->sum[i]);
            lse[row * a->H + x->h] = blind ? -INFINITY : (float)log_sum;
        }
    }
}

/* ---- backward ------------------------------------------------------------------------------ */

size_t reversed_size(const attention_args *a)
{
    return (a->dropout.p > 0 ? 3 : 2) * TK * TQ;
}

static float simd_attention_softmax_dot(const float *x, const float *y, size_t n)
{
    vf sum = vf_zero();
    size_t c = 0;
    for (; c + VF <= n; c += VF) {
        sum = vf_fma(vf_load(x + c), vf_load(y + c), sum);
    }
    if (c < n) {
        sum = vf_fma(vf_load_n(x + c, n - c), vf_load_n(y + c, n - c), sum);
    }
    return vf_sum(sum);
}

reversed reversed_at(float *tiles, float *rows, const backward_pass *g, const block *x)
{
    const attention_args *a = g->a;
    size_t row = a->q_begin[x->b] + x->i0;
    const float *dout = g->dout + row * g->w->do_row + x->h * g->w->do_head;
    const float *out = g->out + row * a->o_row + x->h * a->o_head;
    reversed m = { .weights = tiles, .ds = tiles + TK * TQ, .lse = rows, .delta = rows + TQ };
    m.keep = a->dropout.p > 0 ? m.ds + TK * TQ : NULL;
    for (size_t i = 0; i < TQ; i++) {
        float lse = i < x->rows ? g->lse[(row + i) * a->H + x->h] : INFINITY;
        m.lse[i] = lse == -INFINITY ? INFINITY : (float)(lse * LOG2_E);
        m.delta[i] = 0;
        if (i + SOON < x->rows) {
            fetch_row(dout + (i + SOON) * g->w->do_row, a->Dv, false);
            fetch_row(out + (i + SOON) * a->o_row, a->Dv, false);
        }
        if (i < x->rows) {
            m.delta[i] = simd_attention_softmax_dot(dout + i * g->w->do_row, out + i * a->o_row,
                                                    a->Dv);
        }
    }
    return m;
}

/* weights holds scores and ds the gradient of the weights: one vector of queries, keys
 * begin .. end-1. */
static inline __attribute__((always_inline)) void
lanes_gradient(const reversed *m, size_t i, size_t begin, size_t end, vf limit, const bool masked,
               const bool dropout)
{
    vf lse = vf_load(m->lse + i), delta = vf_load(m->delta + i);
    for (size_t j = begin; j < end; j++) {
        float *weight = m->weights + j * TQ + i, *ds = m->ds + j * TQ + i;
        vf p = vf_exp2(vf_fma(vf_load(weight), vf_set1((float)LOG2_E), -lse)), dp = vf_load(ds);
        if (masked) {
            p = vf_select(vf_lt(vf_set1((float)j), limit), p, vf_zero());
        }
        if (dropout) {
            vf keep = vf_load(m->keep + j * TQ + i);
            vf_store(ds, p * vf_fma(keep, dp, vf_zero() - delta));
            vf_store(weight, p * keep);
        } else {
            vf_store(ds, p * (dp - delta));
            vf_store(weight, p);
        }
    }
}

static void tile_softmax_gradient(const reversed *m, const block *x, size_t j0, size_t nk)
{
    for (size_t i = 0; i < x->rows; i += VF) {
        lane_keys see = lanes_of(x, i, j0, nk);
        if (m->keep) {
            lanes_gradient(m, i, 0, see.part, see.limit, true, true);
        } else {
            lanes_gradient(m, i, 0, see.full, see.limit, false, false);
            lanes_gradient(m, i, see.full, see.part, see.limit, true, false);
        }
        for (size_t j = see.part; j < nk; j++) {
            vf_store(m->weights + j * TQ + i, vf_zero());
            vf_store(m->ds + j * TQ + i, vf_zero());
        }
    }
}

void tile_gradients(const reversed *m, const block *x, size_t j0, size_t nk)
{
    tile_complete(m->weights, x, j0, nk);
    if (m->keep) {
        tile_dropout(m->keep, x, j0, nk);
    }
    tile_softmax_gradient(m, x, j0, nk);
}
