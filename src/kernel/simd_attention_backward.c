/* simd_attention_backward.c - gradients of attention in tiles, from the saved log-sum-exp
 * (FlashAttention-2, Dao 2023, algorithm 2, with the queries outside).
 *
 * A unit is one (sequence, key/value head) with all query heads it serves. Groups of its blocks of
 * queries are dealt to `parts` tasks, the same way every time; each sums dk and dv in memory of its
 * own, and the parts are added in order. So the result depends on sizes and the team size alone. */
#include <omp.h>

#include "kernel/simd_attention_parts.h"

/* ---- blocks in f32 ------------------------------------------------------------------------- */

/* A block of queries in one task's memory. */
typedef struct {
    reversed rev;
    float *q, *q_rows;       /* scaled: (D, TQ) and (TQ, width_k) */
    float *dout, *dout_rows; /* (Dv, TQ) and (TQ, width_v) */
    float *dq;               /* (TQ, width_k), not yet scaled */
} loaded;

/* What its blocks share: tiles of weights and gradients, a tile of keys (TK, width_k). */
typedef struct {
    float *tiles, *k, *blocks;
} room;

static size_t block_size(const attention_args *a)
{
    return REVERSED_ROWS + (a->D + a->Dv) * TQ + 2 * TQ * padded(a->D) + TQ * padded(a->Dv);
}

static size_t simd_attention_backward_room_size(const attention_args *a)
{
    return reversed_size(a) + TK * padded(a->D) + GROUP * block_size(a);
}

static room simd_attention_backward_room_at(float *p, const attention_args *a)
{
    float *k = p + reversed_size(a);
    return (room){ p, k, k + TK * padded(a->D) };
}

static loaded block_load(const room *m, size_t n, const backward_pass *g, const block *x)
{
    const attention_args *a = g->a;
    const attention_bwd_args *w = g->w;
    const float *q = g->q + (a->q_begin[x->b] + x->i0) * a->q_row + x->h * a->q_head;
    const float *dout = g->dout + (a->q_begin[x->b] + x->i0) * w->do_row + x->h * w->do_head;
    float *at = m->blocks + n * block_size(a);
    loaded r = { .rev = reversed_at(m->tiles, at, g, x), .q = at + REVERSED_ROWS };
    r.q_rows = r.q + a->D * TQ;
    r.dout = r.q_rows + TQ * padded(a->D);
    r.dout_rows = r.dout + a->Dv * TQ;
    r.dq = r.dout_rows + TQ * padded(a->Dv);
    pack_transposed(r.q, q, a->q_row, x->rows, a->D, (float)a->scale);
    pack_transposed(r.dout, dout, w->do_row, x->rows, a->Dv, 1);
    if (g->dk) {
        pack_rows(r.q_rows, q, a->q_row, x->rows, a->D, (float)a->scale);
    }
    if (g->dv) {
        pack_rows(r.dout_rows, dout, w->do_row, x->rows, a->Dv, 1);
    }
    memset(r.dq, 0, TQ * padded(a->D) * sizeof *r.dq);
    return r;
}

/* k and v point at key 0. */
static void gradients_of_tile(const loaded *m, const block *x, const float *k, const float *v,
                              size_t j0, size_t nk, next_keys *next)
{
    const attention_args *a = x->a;
    tile_product(m->rev.weights, x, k + j0 * a->k_row, a->k_row, m->q, a->D, j0, nk, next);
    tile_product(m->rev.ds, x, v + j0 * a->v_row, a->v_row, m->dout, a->Dv, j0, nk, next);
    tile_gradients(&m->rev, x, j0, nk);
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

/* k (nk, width) is packed. */
static void add_to_queries(const loaded *m, const float *k, const block *x, size_t width,
                           size_t j0, size_t nk)
{
    static const float one[MR] = { 1, 1, 1, 1, 1, 1 };
    for (size_t i = 0; i < x->rows; i += MR) {
        size_t rows = at_most(x->rows - i, MR);
        product_columns(m->dq + i * width, width, m->rev.ds + i, k, width, rows, width / VF,
                        keys_seen(x, i + rows - 1, j0, nk), one);
    }
}

static void queries_store(const loaded *m, const backward_pass *g, const block *x)
{
    const attention_args *a = g->a;
    const attention_bwd_args *w = g->w;
    size_t row = a->q_begin[x->b] + x->i0;
    unpack_rows(g->dq + row * w->dq_row + x->h * w->dq_head, w->dq_row, m->dq, g->width_k,
                x->rows, a->D, (float)a->scale, w->acc_q);
}

/* A tile of keys and values is fetched once for all blocks. */
static void group_backward(const backward_pass *g, const block *x, size_t blocks, float *memory,
                           float *dk, float *dv)
{
    const attention_args *a = g->a;
    const float *k = g->k + a->k_begin[x->b] * a->k_row + x->kv * a->k_head;
    const float *v = g->v + a->k_begin[x->b] * a->v_row + x->kv * a->v_head;
    const room m = simd_attention_backward_room_at(memory, a);
    loaded of[GROUP];
    size_t end = x[blocks - 1].keys; /* earlier blocks see no more */
    for (size_t n = 0; n < blocks; n++) {
        of[n] = block_load(&m, n, g, x + n);
    }
    for (size_t j0 = x->first, tile; j0 < end; j0 += tile) {
        tile = at_most(end - j0, TK);
        if (g->dq) {
            pack_rows(m.k, k + j0 * a->k_row, a->k_row, tile, a->D, 1);
        }
        next_keys next = next_of(a, k, v, j0 + tile, end, 2 * blocks);
        for (size_t n = 0; n < blocks; n++) {
            const block *y = x + n;
            if (j0 < y->first || j0 >= y->keys) {
                continue;
            }
            size_t nk = at_most(y->keys - j0, TK);
            gradients_of_tile(of + n, y, k, v, j0, nk, &next);
            if (g->dv) {
                add_to_keys(dv + j0 * g->width_v, of[n].rev.weights, y, of[n].dout_rows,
                            g->width_v, j0, nk);
            }
            if (g->dk) {
                add_to_keys(dk + j0 * g->width_k, of[n].rev.ds, y, of[n].q_rows, g->width_k, j0,
                            nk);
            }
            if (g->dq) {
                add_to_queries(of + n, m.k, y, g->width_k, j0, nk);
            }
        }
    }
    for (size_t n = 0; n < blocks && g->dq; n++) {
        queries_store(of + n, g, x + n);
    }
}

/* ---- all blocks ---------------------------------------------------------------------------- */

/* One task's memory. */
typedef struct {
    float *memory;
    float *dk, *dv; /* (longest, width_k), (longest, width_v): sums of the task; NULL: unwanted */
} task_room;

static size_t sums_size(const backward_pass *g) { return g->longest * (g->width_k + g->width_v); }

static task_room task_room_at(float *memory, float *sums, const backward_pass *g)
{
    return (task_room){ memory, sums, sums ? sums + g->longest * g->width_k : NULL };
}

/* Groups of blocks of one unit that fall to one part: dealt back and forth, as later ones are
 * larger when causal. */
static void task_backward(const task_room *m, const backward_pass *g, size_t unit, size_t part)
{
    const attention_args *a = g->a;
    size_t b = unit / a->Hkv, kv = unit % a->Hkv, heads = a->H / a->Hkv;
    size_t blocks = (a->q_len[b] + TQ - 1) / TQ, groups = (blocks + g->group - 1) / g->group;
    if (m->dk) {
        size_t keys = (a->k_len[b] + g->unit - 1) / g->unit * g->unit;
        memset(m->dk, 0, keys * g->width_k * sizeof *m->dk);
        memset(m->dv, 0, keys * g->width_v * sizeof *m->dv);
    }
    for (size_t n = 0; n < heads * groups; n++) {
        size_t turn = n % (2 * g->parts), i = n % groups * g->group, count = 0;
        block x[GROUP];
        if ((turn < g->parts ? turn : 2 * g->parts - 1 - turn) != part) {
            continue;
        }
        while (count < at_most(blocks - i, g->group)) {
            x[count] = block_of(a, b, kv * heads + n / groups, (i + count) * TQ);
            count++;
        }
        g->run(g, x, count, m->memory, m->dk, m->dv);
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
static void unit_store(const backward_pass *g, float *sums, size_t unit)
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

/* Blocks a group: as many as leave each part eight groups. */
static size_t backward_group_for(const attention_args *a, size_t parts)
{
    size_t blocks = 0, group = GROUP;
    for (size_t b = 0; b < a->B; b++) {
        size_t all = a->H / a->Hkv * ((a->q_len[b] + TQ - 1) / TQ);
        blocks = all > blocks ? all : blocks;
    }
    while (group > 1 && parts > 1 && blocks < 8 * group * parts) {
        group /= 2;
    }
    return group;
}

/* One part a unit: a thread's sums serve one unit after the other. */
static void run_units(const qkv_exec *e, const backward_pass *g, float *memory, float *sums)
{
    size_t units = g->a->B * g->a->Hkv, floats = padded(g->room), size = sums_size(g);
#pragma omp parallel num_threads(e->threads) if (units > 1) default(none) \
    shared(g, memory, sums, units, floats, size)
    {
        size_t t = (size_t)omp_get_thread_num();
        float *mine = sums ? sums + t * size : NULL;
        task_room m = task_room_at(memory + t * floats, mine, g);
#pragma omp for schedule(dynamic)
        for (size_t unit = 0; unit < units; unit++) {
            task_backward(&m, g, unit, 0);
            unit_store(g, mine, unit);
        }
    }
}

static void run_parts(const qkv_exec *e, const backward_pass *g, float *memory, float *sums)
{
    size_t units = g->a->B * g->a->Hkv, floats = padded(g->room), size = sums_size(g);
    size_t tasks = units * g->parts;
#pragma omp parallel num_threads(e->threads) default(none) \
    shared(g, memory, sums, units, tasks, floats, size)
    {
        float *mine = memory + (size_t)omp_get_thread_num() * floats;
#pragma omp for schedule(dynamic)
        for (size_t n = 0; n < tasks; n++) {
            task_room m = task_room_at(mine, sums ? sums + n * size : NULL, g);
            task_backward(&m, g, n / g->parts, n % g->parts);
        }
#pragma omp for schedule(dynamic)
        for (size_t unit = 0; unit < units; unit++) {
            unit_store(g, sums ? sums + unit * g->parts * size : NULL, unit);
        }
    }
}

/* The gradient of the bias on its own, in f32, from one block. */
static void bias_block(float *memory, const backward_pass *g, size_t b, size_t h, size_t i0)
{
    const attention_args *a = g->a;
    if (i0 >= a->q_len[b]) {
        return;
    }
    block x = block_of(a, b, h, i0);
    const float *k = g->k + a->k_begin[b] * a->k_row + x.kv * a->k_head;
    const float *v = g->v + a->k_begin[b] * a->v_row + x.kv * a->v_head;
    const room at = simd_attention_backward_room_at(memory, a);
    const loaded m = block_load(&at, 0, g, &x);
    for (size_t j0 = x.first; j0 < x.keys; j0 += TK) {
        size_t nk = at_most(x.keys - j0, TK);
        next_keys next = next_of(a, k, v, j0 + nk, x.keys, 2);
        gradients_of_tile(&m, &x, k, v, j0, nk, &next);
        for (size_t i = 0; i < x.rows; i++) {
            float *row = g->dbias + qkv__bias_row(a, b, h, i0 + i) + j0;
            for (size_t j = 0; j < keys_seen(&x, i, j0, nk); j++) {
                row[j] += m.rev.ds[j * TQ + i];
            }
        }
    }
}

/* A task owns what may share its memory: a block of queries of all sequences and heads or, where
 * rows overlap, a head with all of its queries. */
static void run_bias(const qkv_exec *e, const backward_pass *g, float *memory)
{
    size_t longest = 0, floats = padded(g->room);
    for (size_t b = 0; b < g->a->B; b++) {
        longest = g->a->q_len[b] > longest ? g->a->q_len[b] : longest;
    }
    size_t B = g->a->B, H = g->a->H, blocks = (longest + TQ - 1) / TQ;
    bool by_head = g->a->bias_t < 0, apart = by_head ? g->a->bias_h > 0 : g->a->bias_t > 0;
    size_t tasks = by_head ? H : blocks, inner = by_head ? blocks : H;
#pragma omp parallel num_threads(e->threads) if (tasks > 1 && apart) default(none) \
    shared(g, memory, floats, B, inner, tasks, by_head, blocks)
    {
        float *mine = memory + (size_t)omp_get_thread_num() * floats;
#pragma omp for schedule(dynamic)
        for (size_t n = 0; n < tasks; n++) {
            for (size_t m = 0; m < B * inner; m++) {
                size_t h = by_head ? n : m % inner, i = by_head ? m % inner : blocks - 1 - n;
                bias_block(mine, g, m / inner, h, i * TQ);
            }
        }
    }
}

void attention_reverse(const qkv_exec *e, backward_pass *g)
{
    const attention_args *a = g->a;
    size_t threads = (size_t)e->threads, units = a->B * a->Hkv;
    g->parts = parts_for(units, threads);
    g->group = backward_group_for(a, g->parts);
    g->longest = 0;
    for (size_t b = 0; b < a->B; b++) {
        size_t keys = (a->k_len[b] + g->unit - 1) / g->unit * g->unit;
        g->longest = keys > g->longest ? keys : g->longest;
    }
    if (g->dbias) {
        size_t least = simd_attention_backward_room_size(a);
        g->room = least > g->room ? least : g->room;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    size_t tasks = g->parts > 1 ? units * g->parts : threads;
    float *memory = qkv__arena_alloc(e->scratch, threads * padded(g->room) * sizeof(float));
    float *sums = NULL;
    if (g->dk || g->dv) {
        sums = qkv__arena_alloc(e->scratch, (tasks * sums_size(g) + VF) * sizeof(float));
    }
    if (memory && (sums || !(g->dk || g->dv)) && !e->meta) {
        if (g->dbias) {
            run_bias(e, g, memory);
        }
        if (g->dq || g->dk || g->dv) {
            (g->parts > 1 ? run_parts : run_units)(e, g, memory, sums);
        }
    }
    qkv__arena_release(e->scratch, mark);
}

void attention_backward(const qkv_exec *e, float *dq, float *dk, float *dv, float *dbias,
                        const float *dout, const float *out, const float *lse, const float *q,
                        const float *k, const float *v, const attention_args *a,
                        const attention_bwd_args *w)
{
    backward_pass g = { .a = a, .w = w, .dq = dq, .dk = dk, .dv = dv, .dbias = dbias,
                        .dout = dout, .out = out, .lse = lse, .q = q, .k = k, .v = v,
                        .width_k = padded(a->D), .width_v = padded(a->Dv), .unit = 1,
                        .room = simd_attention_backward_room_size(a), .run = group_backward };
    attention_reverse(e, &g);
}
