/* attention_problem.h - random attention problems with every option, and their answers computed
 * the long way: whole matrices of weights, in double. Shared by the tests of the kernels. */
#ifndef ATTENTION_PROBLEM_H
#define ATTENTION_PROBLEM_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

enum { MAX_B = 4, GUARD = 64 };

/* (rows, heads, width) somewhere in a larger buffer; what lies between is never to be touched. */
typedef struct {
    float *buffer, *data;
    size_t rows, heads, width, row, head, total;
} array;

typedef struct {
    qkv_k_attention_args a;
    qkv_k_attention_bwd_args w;
    size_t q_begin[MAX_B], q_len[MAX_B], k_begin[MAX_B], k_len[MAX_B], k_len_full[MAX_B];
    array q, k, v, dout, bias;
    size_t q_rows, k_rows, longest_q, longest_k;
    bool want_q, want_k, want_v, want_bias;
    /* answers, dense (rows, heads, width), in double; gradients without what they add to */
    double *out, *lse, *dq, *dk, *dv, *dbias;
    double *weights; /* (q_rows, H, longest_k), before dropout */
} problem;

typedef struct {
    uint64_t state;
} dice;

static inline uint32_t roll(dice *d, uint32_t n) /* [0, n) */
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((d->state >> 33) % n);
}

static inline float roll_real(dice *d) /* about normal */
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += (float)roll(d, 1u << 20) / (float)(1u << 20) - 0.5f;
    }
    return sum * 1.7f;
}

static inline float poison(void)
{
    uint32_t bits = 0x7fc5a5a5u; /* a NaN of our own */
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline bool is_poison(float x)
{
    float p = poison();
    return memcmp(&x, &p, sizeof x) == 0;
}

/* layout 0: dense; 1: padded everywhere; 2: heads outermost. */
static inline array array_make(size_t rows, size_t heads, size_t width, unsigned layout)
{
    array x = { NULL, NULL, rows, heads, width, heads * width, width, 0 };
    if (layout == 1) {
        x.head = width + 3;
        x.row = heads * x.head + 5;
    } else if (layout == 2) {
        x.head = rows * width;
        x.row = width;
    }
    x.total = 2 * GUARD + rows * x.row + heads * x.head;
    x.buffer = malloc(x.total * sizeof *x.buffer);
    x.data = x.buffer + GUARD;
    for (size_t i = 0; i < x.total; i++) {
        x.buffer[i] = poison();
    }
    return x;
}

static inline float *at(const array *x, size_t row, size_t head)
{
    return x->data + row * x->row + head * x->head;
}

static inline void array_fill(array *x, dice *d)
{
    for (size_t n = 0; n < x->rows * x->heads; n++) {
        float *y = at(x, n / x->heads, n % x->heads);
        for (size_t c = 0; c < x->width; c++) {
            y[c] = roll_real(d);
        }
    }
}

/* Floats of the buffer that belong to no element and hold anything but poison. */
static inline size_t array_strays(const array *x)
{
    char *mine = calloc(x->total, 1);
    size_t strays = 0;
    for (size_t n = 0; n < x->rows * x->heads; n++) {
        float *y = at(x, n / x->heads, n % x->heads);
        memset(mine + (y - x->buffer), 1, x->width);
    }
    for (size_t i = 0; i < x->total; i++) {
        strays += !mine[i] && !is_poison(x->buffer[i]);
    }
    free(mine);
    return strays;
}

/* ---- the long way --------------------------------------------------------------------------- */

static inline double keep_factor(const qkv_k_attention_args *a, size_t row, size_t h, size_t j)
{
    const qkv_k_dropout_args *d = &a->dropout;
    if (!(d->p > 0)) {
        return 1;
    }
    uint64_t g = (((d->first + row) * a->H + h) << 20) + j;
    uint32_t out[4], counter[4] = { (uint32_t)(g >> 2), (uint32_t)(g >> 34), (uint32_t)d->step,
                                    d->dropout_id };
    uint32_t key[2] = { (uint32_t)d->seed, (uint32_t)(d->seed >> 32) };
    qkv__philox(out, counter, key);
    return out[g & 3] < qkv__dropout_threshold(d->p) ? 0 : 1 / (1 - d->p);
}

static inline double dot_of(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++) {
        sum += (double)x[c] * (double)y[c];
    }
    return sum;
}

/* Weights of one query and the sum of their exponentials' logarithm. */
static inline void answer_weights(problem *p, size_t b, size_t h, size_t i)
{
    const qkv_k_attention_args *a = &p->a;
    size_t row = p->q_begin[b] + i, kv = h / (a->H / a->Hkv);
    double *w = p->weights + (row * a->H + h) * p->longest_k, max = -INFINITY, sum = 0;
    for (size_t j = 0; j < p->k_len[b]; j++) {
        long last = (long)i + (long)p->k_len_full[b] - (long)p->q_len[b];
        bool hidden = a->causal && ((long)j > last ||
                                    (a->window && (long)j <= last - (long)a->window));
        w[j] = a->scale * dot_of(at(&p->q, row, h), at(&p->k, p->k_begin[b] + j, kv), a->D);
        if (a->bias) {
            w[j] += (double)a->bias[qkv__bias_row(a, b, h, i) + (ptrdiff_t)j];
        }
        w[j] = hidden ? -INFINITY : w[j];
        max = fmax(max, w[j]);
    }
    for (size_t j = 0; j < p->k_len[b]; j++) {
        w[j] = max == -INFINITY ? 0 : exp(w[j] - max);
        sum += w[j];
    }
    p->lse[row * a->H + h] = max + log(sum);
    for (size_t j = 0; j < p->k_len[b]; j++) {
        w[j] = sum > 0 ? w[j] / sum : 0;
    }
}

static inline void answer_query(problem *p, size_t b, size_t h, size_t i)
{
    const qkv_k_attention_args *a = &p->a;
    size_t row = p->q_begin[b] + i, kv = h / (a->H / a->Hkv);
    const double *w = p->weights + (row * a->H + h) * p->longest_k;
    const float *dout = at(&p->dout, row, h), *q = at(&p->q, row, h);
    double *out = p->out + (row * a->H + h) * a->Dv, *dq = p->dq + (row * a->H + h) * a->D;
    double delta = 0;
    for (size_t j = 0; j < p->k_len[b]; j++) {
        const float *v = at(&p->v, p->k_begin[b] + j, kv);
        double keep = keep_factor(a, row, h, j);
        delta += w[j] * keep * dot_of(dout, v, a->Dv);
        for (size_t c = 0; c < a->Dv; c++) {
            out[c] += w[j] * keep * (double)v[c];
        }
    }
    for (size_t j = 0; j < p->k_len[b]; j++) {
        size_t key = p->k_begin[b] + j;
        const float *k = at(&p->k, key, kv), *v = at(&p->v, key, kv);
        double keep = keep_factor(a, row, h, j);
        double ds = w[j] * (keep * dot_of(dout, v, a->Dv) - delta);
        double *dk = p->dk + (key * a->Hkv + kv) * a->D, *dv = p->dv + (key * a->Hkv + kv) * a->Dv;
        for (size_t c = 0; c < a->D; c++) {
            dq[c] += a->scale * ds * (double)k[c];
            dk[c] += a->scale * ds * (double)q[c];
        }
        for (size_t c = 0; c < a->Dv; c++) {
            dv[c] += w[j] * keep * (double)dout[c];
        }
        if (a->bias) {
            p->dbias[a->bias - p->bias.data + qkv__bias_row(a, b, h, i) + (ptrdiff_t)j] += ds;
        }
    }
}

static inline void answer(problem *p)
{
    const qkv_k_attention_args *a = &p->a;
    for (size_t b = 0; b < a->B; b++) {
        for (size_t h = 0; h < a->H; h++) {
            for (size_t i = 0; i < p->q_len[b]; i++) {
                answer_weights(p, b, h, i);
                answer_query(p, b, h, i);
            }
        }
    }
}

/* ---- making and freeing -------------------------------------------------------------------- */

/* What a case may contain; sizes are limits. heads: of keys and values, of all
 * sequences together; 0: a few. */
typedef struct {
    size_t max_t, max_s, max_d, heads;
    bool causal, window, lengths, packed, bias, relative, dropout, grouped, strides, accumulate,
        drop_outputs, same, long_enough; /* queries as keys; 16 of each, where not packed */
} recipe;

static inline void problem_rows(problem *p, const recipe *r, dice *d)
{
    size_t t = 1 + roll(d, (uint32_t)r->max_t), s = 1 + roll(d, (uint32_t)r->max_s);
    t = r->long_enough && t < 16 ? 16 : t;
    s = r->same ? t : r->long_enough && s < 16 ? 16 : s;
    for (size_t b = 0; b < p->a.B; b++) {
        p->q_len[b] = r->packed ? roll(d, (uint32_t)r->max_t + 1) : t;
        p->k_len_full[b] = r->packed && !r->same ? roll(d, (uint32_t)r->max_s + 1) :
                           r->packed ? p->q_len[b] : s;
        p->k_len[b] = p->k_len_full[b];
        if (r->lengths) {
            p->k_len[b] = roll(d, (uint32_t)p->k_len[b] + 1);
        }
        p->q_begin[b] = p->q_rows;
        p->k_begin[b] = p->k_rows;
        p->q_rows += p->q_len[b];
        p->k_rows += p->k_len_full[b];
        p->longest_q = p->q_len[b] > p->longest_q ? p->q_len[b] : p->longest_q;
        p->longest_k = p->k_len[b] > p->longest_k ? p->k_len[b] : p->longest_k;
    }
    p->a.q_begin = p->q_begin;
    p->a.q_len = p->q_len;
    p->a.k_begin = p->k_begin;
    p->a.k_len = p->k_len;
    p->a.k_len_full = p->k_len_full;
}

static inline void problem_bias(problem *p, dice *d)
{
    size_t b = roll(d, 2) ? p->a.B : 1, h = roll(d, 2) ? p->a.H : 1;
    size_t t = roll(d, 4) ? p->longest_q : 1;
    p->bias = array_make(b * h * t, 1, p->longest_k, 0);
    array_fill(&p->bias, d);
    for (size_t i = 0; i < b * h * t * p->longest_k; i++) {
        p->bias.data[i] = roll(d, 10) ? p->bias.data[i] : -INFINITY;
    }
    p->a.bias = p->bias.data;
    p->a.bias_t = t > 1 ? (ptrdiff_t)p->longest_k : 0;
    p->a.bias_h = h > 1 ? t * p->longest_k : 0;
    p->a.bias_b = b > 1 ? h * t * p->longest_k : 0;
}

/* A bias of j - i alone, of each head or of all. */
static inline void problem_relative(problem *p, dice *d)
{
    size_t h = roll(d, 3) ? p->a.H : 1, n = p->longest_q + p->longest_k - 1;
    p->bias = array_make(h, 1, n, 0);
    array_fill(&p->bias, d);
    p->a.bias = p->bias.data + p->longest_q - 1;
    p->a.bias_t = -1;
    p->a.bias_h = h > 1 ? n : 0;
}

static inline double *zeros(size_t n) { return calloc(n + 1, sizeof(double)); }

static inline void problem_answers(problem *p)
{
    const qkv_k_attention_args *a = &p->a;
    p->out = zeros(p->q_rows * a->H * a->Dv);
    p->lse = zeros(p->q_rows * a->H);
    p->dq = zeros(p->q_rows * a->H * a->D);
    p->dk = zeros(p->k_rows * a->Hkv * a->D);
    p->dv = zeros(p->k_rows * a->Hkv * a->Dv);
    p->dbias = zeros(p->bias.rows * p->bias.width);
    p->weights = zeros(p->q_rows * a->H * p->longest_k);
    answer(p);
}

/* Without answers. channels: of every head; 0: as the recipe says. */
static inline void problem_draw(problem *p, const recipe *r, size_t channels, dice *d)
{
    *p = (problem){ .want_q = true, .want_k = true, .want_v = true,
                    .want_bias = r->bias || r->relative };
    qkv_k_attention_args *a = &p->a;
    a->B = 1 + roll(d, r->max_t > 200 ? 1 : 3);
    a->Hkv = r->heads ? r->heads / a->B : 1 + roll(d, 3);
    a->H = a->Hkv * (r->grouped ? 1 + roll(d, 3) : 1);
    a->D = 1 + roll(d, (uint32_t)r->max_d);
    a->D = roll(d, 2) ? (a->D + 15) / 16 * 16 : a->D;
    a->Dv = roll(d, 2) ? a->D : 1 + roll(d, (uint32_t)r->max_d);
    if (channels)
        a->D = a->Dv = channels;
    a->causal = r->causal || r->window;
    a->window = r->window ? 1 + roll(d, (uint32_t)r->max_s) : 0;
    a->scale = roll(d, 3) ? 1 / sqrt((double)a->D) : 0.5;
    problem_rows(p, r, d);
    p->q = array_make(p->q_rows, a->H, a->D, r->strides ? roll(d, 3) : 0);
    p->k = array_make(p->k_rows, a->Hkv, a->D, r->strides ? roll(d, 3) : 0);
    p->v = array_make(p->k_rows, a->Hkv, a->Dv, r->strides ? roll(d, 3) : 0);
    p->dout = array_make(p->q_rows, a->H, a->Dv, r->strides ? roll(d, 3) : 0);
    array_fill(&p->q, d);
    array_fill(&p->k, d);
    array_fill(&p->v, d);
    array_fill(&p->dout, d);
    a->q_row = p->q.row, a->q_head = p->q.head;
    a->k_row = p->k.row, a->k_head = p->k.head;
    a->v_row = p->v.row, a->v_head = p->v.head;
    p->w.do_row = p->dout.row, p->w.do_head = p->dout.head;
    if (r->relative && p->longest_q && p->longest_k) {
        problem_relative(p, d);
    } else if (r->bias) {
        problem_bias(p, d);
    }
    if (r->dropout) {
        a->dropout = (qkv_k_dropout_args){ 0.3, 0x123456789abcdefu + roll(d, 1000), roll(d, 99),
                                           ((uint64_t)roll(d, 4) << 20) + 3, 7 };
    }
    if (r->accumulate) {
        p->w.acc_q = roll(d, 2), p->w.acc_k = roll(d, 2), p->w.acc_v = roll(d, 2);
    }
    if (r->drop_outputs) {
        p->want_q = roll(d, 2), p->want_k = roll(d, 2), p->want_v = roll(d, 2);
        p->want_bias = (r->bias || r->relative) && roll(d, 2);
    }
}

static inline void problem_make(problem *p, const recipe *r, dice *d)
{
    problem_draw(p, r, 0, d);
    problem_answers(p);
}

static inline void problem_free(problem *p)
{
    array *arrays[] = { &p->q, &p->k, &p->v, &p->dout, &p->bias };
    double *answers[] = { p->out, p->lse, p->dq, p->dk, p->dv, p->dbias, p->weights };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        free(arrays[i]->buffer);
    }
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        free(answers[i]);
    }
}

#endif
