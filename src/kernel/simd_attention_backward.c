/* simd_attention_backward.c - gradients of attention in tiles, from the saved log-sum-exp
 * (FlashAttention-2, Dao 2023, algorithm 2, with the queries outside).
 *
 * A unit is one (sequence, key/value head) with all query heads it serves. Its blocks of queries
 * are dealt to `parts` tasks, the same way every time; each sums dk and dv in memory of its own,
 * and the parts are added in order. So the result depends on sizes and the team size alone. */
#include <omp.h>

#include "kernel/simd_attention_parts.h"

/* What all tasks read, and where results go. */
typedef struct {
    const attention_args *a;
    const attention_bwd_args *w;
    float *dq, *dk, *dv, *dbias;
    const float *dout, *out, *lse, *q, *k, *v;
    size_t parts, longest; /* tasks a unit; most keys of a sequence */
    size_t width_k, width_v; /* padded D and Dv */
} job;

/* One task's memory for a block of queries and a tile of keys. */
typedef struct {
    float *q, *q_rows;       /* scaled: (D, TQ) and (TQ, width_k) */
    float *dout, *dout_rows; /* (Dv, TQ) and (TQ, width_v) */
    float *k;                /* (TK, width_k) */
    float *dq;               /* (TQ, width_k), not yet scaled */
    float *weights, *ds;     /* (TK, TQ): after dropout; gradient of the scores */
    float *keep;             /* (TK, TQ); NULL without dropout */
    float *lse, *delta;      /* (TQ): +inf where nothing is seen; sum of dout out */
    float *dk, *dv;          /* (longest, width_k), (longest, width_v): sums of the task */
} room;

static size_t block_size(const job *g)
{
    const attention_args *a = g->a;
    size_t tiles = a->dropout.p > 0 ? 3 : 2;
    return (a->D + a->Dv) * TQ + (2 * g->width_k + g->width_v) * TQ + TK * g->width_k +
           tiles * TK * TQ + 2 * TQ;
}

static size_t sums_size(const job *g) { return g->longest * (g->width_k + g->width_v); }

static room simd_attention_backward_room_at(float *p, float *sums, const job *g)
{
    const attention_args *a = g->a;
    room r;
    r.q = p;
    r.q_rows = r.q + a->D * TQ;
    r.dout = r.q_rows + TQ * g->width_k;
    r.dout_rows = r.dout + a->Dv * TQ;
    r.k = r.dout_rows + TQ * g->width_v;
    r.dq = r.k + TK * g->width_k;
    r.weights = r.dq + TQ * g->width_k;
    r.ds = r.weights + TK * TQ;
    r.lse = r.ds + TK * TQ;
    r.delta = r.lse + TQ;
    r.keep = a->dropout.p > 0 ? r.delta + TQ : NULL;
    r.dk = sums;
    r.dv = sums ? sums + g->longest * g->width_k : NULL;
    return r;
}

static float simd_attention_backward_dot(const float *x, const float *y, size_t n)
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

static void block_load(room *m, const block *x, const job *g)
{
    const attention_args *a = g->a;
    const attention_bwd_args *w = g->w;
    size_t row = a->q_begin[x->b] + x->i0;
    const float *q = g->q + row * a->q_row + x->h * a->q_head;
    const float *dout = g->dout + row * w->do_row + x->h * w->do_head;
    const float *out = g->out + row * a->o_row + x->h * a->o_head;
    pack_transposed(m->q, q, a->q_row, x->rows, a->D, (float)a->scale);
    pack_transposed(m->dout, dout, w->do_row, x->rows, a->Dv, 1);
    if (g->dk) {
        pack_rows(m->q_rows, q, a->q_row, x->rows, a->D, (float)a->scale);
    }
    if (g->dv) {
        pack_rows(m->dout_rows, dout, w->do_row, x->rows, a->Dv, 1);
    }
    memset(m->dq, 0, TQ * g->width_k * sizeof *m->dq);
    for (size_t i = 0; i < TQ; i++) {
        float lse = i < x->rows ? g->lse[(row + i) * a->H + x->h] : INFINITY;
        m->lse[i] = lse == -INFINITY ? INFINITY : lse;
        m->delta[i] = 0;
        if (i < x->rows)
            m->delta[i] = simd_attention_backward_dot(dout + i * w->do_row, out + i * a->o_row,
                                                      a->Dv);
    }
}

/* weights holds scores and ds the gradient of the weights: one vector of queries, keys
 * begin .. end-1. */
static inline __attribute__((always_inline)) void
lanes_gradient(room *m, size_t i, size_t begin, size_t end, vf limit, const bool masked,
               const bool dropout)
{
    vf lse = vf_load(m->lse + i), delta = vf_load(m->delta + i);
    for (size_t j = begin; j < end; j++) {
        float *weight = m->weights + j * TQ + i, *ds = m->ds + j * TQ + i;
        vf p = vf_exp(vf_load(weight) - lse), dp = vf_load(ds);
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

static void tile_softmax_gradient(room *m, const block *x, size_t j0, size_t nk)
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

/* weights and ds of a tile. */
static void tile_gradients(room *m, const block *x, const job *g, size_t j0, size_t nk)
{
    const attention_args *a = g->a;
    size_t key = a->k_begin[x->b] + j0;
    tile_product(m->weights, x, g->k + key * a->k_row + x->kv * a->k_head, a->k_row, m->q, a->D,
                 j0, nk);
    tile_product(m->ds, x, g->v + key * a->v_row + x->kv * a->v_head, a->v_row, m->dout, a->Dv,
                 j0, nk);
    if (a->bias) {
        tile_bias(m->weights, x, j0, nk);
    }
    if (m->keep) {
        tile_dropout(m->keep, x, j0, nk);
    }
    tile_softmax_gradient(m, x, j0, nk);
}

/* sums (nk, width) += tile times the block's rows */
static void add_to_keys(float *sums, const float *tile, const block *x, const float *rows,
                        size_t width, size_t j0, size_t nk)
{
    static const float one[MR] = { 1, 1, 1, 1, 1, 1 };
    for (size_t j = 0; j < nk; j += MR) {
        size_t i = first_query(x, j0 + j);
        if (i < x->rows) {
            product_rows(sums + j * width, width, tile + j * TQ + i, TQ, rows + i * width, width,
                         at_most(nk - j, MR), width / VF, x->rows - i, one);
        }
    }
}

static void add_to_queries(room *m, const block *x, const job *g, size_t j0, size_t nk)
{
    static const float one[MR] = { 1, 1, 1, 1, 1, 1 };
    const attention_args *a = g->a;
    size_t key = a->k_begin[x->b] + j0, width = g->width_k;
    pack_rows(m->k, g->k + key * a->k_row + x->kv * a->k_head, a->k_row, nk, a->D, 1);
    for (size_t i = 0; i < x->rows; i += MR) {
        size_t rows = at_most(x->rows - i, MR);
        product_columns(m->dq + i * width, width, m->ds + i, m->k, width, rows, width / VF,
                        keys_seen(x, i + rows - 1, j0, nk), one);
    }
}

/* y (rows, n; row stride ldy) = [y +] scale x (rows, width) */
static void unpack_rows(float *y, size_t ldy, const float *x, size_t width, size_t rows, size_t n,
                        float scale, bool acc)
{
    vf s = vf_set1(scale);
    size_t whole = n / VF * VF;
    for (size_t r = 0; r < rows; r++, y += ldy, x += width) {
        for (size_t c = 0; c < whole; c += VF) {
            vf before = acc ? vf_load(y + c) : vf_zero();
            vf_store(y + c, vf_fma(vf_load(x + c), s, before));
        }
        if (whole < n) {
            vf before = acc ? vf_load_n(y + whole, n - whole) : vf_zero();
            vf_store_n(y + whole, vf_fma(vf_load(x + whole), s, before), n - whole);
        }
    }
}

static void block_backward(room *m, const block *x, const job *g)
{
    const attention_args *a = g->a;
    const attention_bwd_args *w = g->w;
    block_load(m, x, g);
    for (size_t j0 = 0; j0 < x->keys; j0 += TK) {
        size_t nk = at_most(x->keys - j0, TK);
        tile_gradients(m, x, g, j0, nk);
        if (g->dv) {
            add_to_keys(m->dv + j0 * g->width_v, m->weights, x, m->dout_rows, g->width_v, j0, nk);
        }
        if (g->dk) {
            add_to_keys(m->dk + j0 * g->width_k, m->ds, x, m->q_rows, g->width_k, j0, nk);
        }
        if (g->dq) {
            add_to_queries(m, x, g, j0, nk);
        }
    }
    if (g->dq) {
        size_t row = a->q_begin[x->b] + x->i0;
        unpack_rows(g->dq + row * w->dq_row + x->h * w->dq_head, w->dq_row, m->dq, g->width_k,
                    x->rows, a->D, (float)a->scale, w->acc_q);
    }
}

/* The blocks of one unit that fall to one part: dealt back and forth, as later ones are larger
 * when causal. */
static void task_backward(room *m, const job *g, size_t unit, size_t part)
{
    const attention_args *a = g->a;
    size_t b = unit / a->Hkv, kv = unit % a->Hkv, heads = a->H / a->Hkv;
    size_t blocks = (a->q_len[b] + TQ - 1) / TQ;
    if (m->dk) {
        memset(m->dk, 0, a->k_len[b] * g->width_k * sizeof *m->dk);
        memset(m->dv, 0, a->k_len[b] * g->width_v * sizeof *m->dv);
    }
    for (size_t n = 0; n < heads * blocks; n++) {
        size_t turn = n % (2 * g->parts);
        if ((turn < g->parts ? turn : 2 * g->parts - 1 - turn) == part) {
            block x = block_of(a, b, kv * heads + n / blocks, n % blocks * TQ);
            block_backward(m, &x, g);
        }
    }
}

/* y = [y +] the sums of all parts, in order; keys that nobody sees get 0. */
static void keys_store(float *y, size_t ldy, float *sums, size_t stride, size_t parts,
                       size_t width, size_t seen, size_t keys, size_t n, bool acc)
{
    for (size_t p = 1; p < parts; p++) {
        for (size_t c = 0; c < seen * width; c += VF) {
            vf_store(sums + c, vf_load(sums + c) + vf_load(sums + p * stride + c));
        }
    }
    unpack_rows(y, ldy, sums, width, seen, n, 1, acc);
    for (size_t j = seen; !acc && j < keys; j++) {
        memset(y + j * ldy, 0, n * sizeof *y);
    }
}

/* sums: those of the unit's first part, the others behind it. */
static void unit_store(const job *g, float *sums, size_t unit)
{
    const attention_args *a = g->a;
    const attention_bwd_args *w = g->w;
    size_t b = unit / a->Hkv, kv = unit % a->Hkv, size = sums_size(g);
    if (g->dk) {
        keys_store(g->dk + a->k_begin[b] * w->dk_row + kv * w->dk_head, w->dk_row, sums, size,
                   g->parts, g->width_k, a->k_len[b], a->k_len_full[b], a->D, w->acc_k);
    }
    if (g->dv) {
        keys_store(g->dv + a->k_begin[b] * w->dv_row + kv * w->dv_head, w->dv_row,
                   sums + g->longest * g->width_k, size, g->parts, g->width_v, a->k_len[b],
                   a->k_len_full[b], a->Dv, w->acc_v);
    }
}

/* The fewest parts that keep nine tenths of the team at work. */
static size_t parts_for(size_t units, size_t threads)
{
    for (size_t parts = 1; parts < threads; parts++) {
        size_t tasks = units * parts, rounds = (tasks + threads - 1) / threads;
        if (10 * tasks >= 9 * rounds * threads) {
            return parts;
        }
    }
    return threads;
}

/* One part a unit: a thread's sums serve one unit after the other. */
static void run_units(const qkv_exec *e, const job *g, float *memory, float *sums)
{
    size_t units = g->a->B * g->a->Hkv, floats = padded(block_size(g)), size = sums_size(g);
#pragma omp parallel num_threads(e->threads) if (units > 1) default(none) \
    shared(g, memory, sums, units, floats, size)
    {
        size_t t = (size_t)omp_get_thread_num();
        float *mine = sums ? sums + t * size : NULL;
        room m = simd_attention_backward_room_at(memory + t * floats, mine, g);
#pragma omp for schedule(dynamic)
        for (size_t unit = 0; unit < units; unit++) {
            task_backward(&m, g, unit, 0);
            unit_store(g, mine, unit);
        }
    }
}

static void run_parts(const qkv_exec *e, const job *g, float *memory, float *sums)
{
    size_t units = g->a->B * g->a->Hkv, floats = padded(block_size(g)), size = sums_size(g);
    size_t tasks = units * g->parts;
#pragma omp parallel num_threads(e->threads) default(none) \
    shared(g, memory, sums, units, tasks, floats, size)
    {
        float *mine = memory + (size_t)omp_get_thread_num() * floats;
#pragma omp for schedule(dynamic)
        for (size_t n = 0; n < tasks; n++) {
            room m = simd_attention_backward_room_at(mine, sums ? sums + n * size : NULL, g);
            task_backward(&m, g, n / g->parts, n % g->parts);
        }
#pragma omp for schedule(dynamic)
        for (size_t unit = 0; unit < units; unit++) {
            unit_store(g, sums ? sums + unit * g->parts * size : NULL, unit);
        }
    }
}

/* The gradient of the bias on its own: one task owns queries i0 .. of all sequences and heads,
 * which are those that may share its memory. */
static void bias_block(room *m, const job *g, size_t i0)
{
    const attention_args *a = g->a;
    for (size_t n = 0; n < a->B * a->H; n++) {
        if (i0 >= a->q_len[n / a->H]) {
            continue;
        }
        block x = block_of(a, n / a->H, n % a->H, i0);
        float *dbias = g->dbias + x.b * a->bias_b + x.h * a->bias_h;
        block_load(m, &x, g);
        for (size_t j0 = 0; j0 < x.keys; j0 += TK) {
            size_t nk = at_most(x.keys - j0, TK);
            tile_gradients(m, &x, g, j0, nk);
            for (size_t i = 0; i < x.rows; i++) {
                float *row = dbias + (i0 + i) * a->bias_t + j0;
                for (size_t j = 0; j < keys_seen(&x, i, j0, nk); j++) {
                    row[j] += m->ds[j * TQ + i];
                }
            }
        }
    }
}

static void run_bias(const qkv_exec *e, const job *g, float *memory)
{
    size_t longest = 0, floats = padded(block_size(g));
    for (size_t b = 0; b < g->a->B; b++) {
        longest = g->a->q_len[b] > longest ? g->a->q_len[b] : longest;
    }
    size_t blocks = (longest + TQ - 1) / TQ;
#pragma omp parallel num_threads(e->threads) if (blocks > 1 && g->a->bias_t) default(none) \
    shared(g, memory, floats, blocks)
    {
        room m = simd_attention_backward_room_at(memory + (size_t)omp_get_thread_num() * floats,
                                                 NULL, g);
#pragma omp for schedule(dynamic)
        for (size_t n = 0; n < blocks; n++) {
            bias_block(&m, g, (blocks - 1 - n) * TQ);
        }
    }
}

void attention_backward(const qkv_exec *e, float *dq, float *dk, float *dv, float *dbias,
                        const float *dout, const float *out, const float *lse, const float *q,
                        const float *k, const float *v, const attention_args *a,
                        const attention_bwd_args *w)
{
    job g = { a, w, dq, dk, dv, dbias, dout, out, lse, q, k, v, 1, 0, padded(a->D),
              padded(a->Dv) };
    size_t threads = (size_t)e->threads, units = a->B * a->Hkv;
    g.parts = parts_for(units, threads);
    for (size_t b = 0; b < a->B; b++) {
        g.longest = a->k_len[b] > g.longest ? a->k_len[b] : g.longest;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    size_t tasks = g.parts > 1 ? units * g.parts : threads;
    float *memory = qkv__arena_alloc(e->scratch, threads * padded(block_size(&g)) * sizeof(float));
    float *sums = NULL;
    if (dk || dv) {
        sums = qkv__arena_alloc(e->scratch, (tasks * sums_size(&g) + VF) * sizeof(float));
    }
    if (memory && (sums || !(dk || dv)) && !e->meta) {
        if (dbias) {
            run_bias(e, &g, memory);
        }
        if (dq || dk || dv) {
            (g.parts > 1 ? run_parts : run_units)(e, &g, memory, sums);
        }
    }
    qkv__arena_release(e->scratch, mark);
}
