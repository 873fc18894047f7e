/* simd_attention_forward.c - attention in tiles with a running maximum and sum
 * (FlashAttention-2, Dao 2023). Blocks of queries are independent; the largest of a sequence
 * come first, and threads take the next one whenever they are free. */
#include <omp.h>

#include "kernel/simd_attention_parts.h"

/* One thread's memory. */
typedef struct {
    float *q;      /* (D, TQ), scaled */
    float *v;      /* (TK, padded(Dv)) */
    float *out;    /* (TQ, padded(Dv)), not yet divided by sum */
    float *tile;   /* (TK, TQ): scores, then weights */
    float *keep;   /* (TK, TQ); NULL without dropout */
    float *max, *sum, *alpha; /* (TQ) */
} room;

static size_t simd_attention_forward_room_size(const attention_args *a)
{
    size_t tiles = a->dropout.p > 0 ? 2 : 1;
    return a->D * TQ + (TK + TQ) * padded(a->Dv) + tiles * TK * TQ + 3 * TQ;
}

static room simd_attention_forward_room_at(float *p, const attention_args *a)
{
    room r;
    r.q = p;
    r.v = r.q + a->D * TQ;
    r.out = r.v + TK * padded(a->Dv);
    r.tile = r.out + TQ * padded(a->Dv);
    r.max = r.tile + TK * TQ;
    r.sum = r.max + TQ;
    r.alpha = r.sum + TQ;
    r.keep = a->dropout.p > 0 ? r.alpha + TQ : NULL;
    return r;
}

/* Scores become exp(score - max) in place, hidden ones 0; max, sum and alpha (what earlier sums
 * are worth now) move on. */
static void tile_softmax(room *m, const block *x, size_t j0, size_t nk)
{
    for (size_t i = 0; i < x->rows; i += VF) {
        lane_keys see = lanes_of(x, i, j0, nk);
        float *tile = m->tile + i;
        vf old = vf_load(m->max + i), max = old, sum = vf_zero(), hidden = vf_set1(-INFINITY);
        for (size_t j = 0; j < see.full; j++) {
            max = vf_max(vf_load(tile + j * TQ), max);
        }
        for (size_t j = see.full; j < see.part; j++) {
            vf s = vf_select(vf_lt(vf_set1((float)j), see.limit), vf_load(tile + j * TQ), hidden);
            vf_store(tile + j * TQ, s);
            max = vf_max(s, max);
        }
        vf base = vf_select(vf_lt(hidden, max), max, vf_zero()); /* all hidden so far: any */
        for (size_t j = 0; j < see.part; j++) {
            vf p = vf_exp(vf_load(tile + j * TQ) - base);
            vf_store(tile + j * TQ, p);
            sum = sum + p;
        }
        for (size_t j = see.part; j < nk; j++) {
            vf_store(tile + j * TQ, vf_zero());
        }
        vf alpha = vf_exp(old - base);
        vf_store(m->alpha + i, alpha);
        vf_store(m->max + i, max);
        vf_store(m->sum + i, vf_fma(vf_load(m->sum + i), alpha, sum));
    }
}

static void tile_drop(room *m, const block *x, size_t j0, size_t nk)
{
    tile_dropout(m->keep, x, j0, nk);
    for (size_t j = 0; j < nk; j++) {
        for (size_t i = 0; i < x->rows; i += VF) {
            float *p = m->tile + j * TQ + i;
            vf_store(p, vf_load(p) * vf_load(m->keep + j * TQ + i));
        }
    }
}

static void block_store(const room *m, const block *x, float *out, float *lse)
{
    const attention_args *a = x->a;
    size_t whole = a->Dv / VF * VF;
    for (size_t i = 0; i < x->rows; i++) {
        size_t row = a->q_begin[x->b] + x->i0 + i;
        const float *from = m->out + i * padded(a->Dv);
        float *to = out + row * a->o_row + x->h * a->o_head;
        bool blind = !(m->sum[i] > 0);
        vf scale = vf_set1(blind ? 0 : 1 / m->sum[i]);
        for (size_t c = 0; c < whole; c += VF) {
            vf_store(to + c, vf_load(from + c) * scale);
        }
        if (whole < a->Dv) {
            vf_store_n(to + whole, vf_load(from + whole) * scale, a->Dv - whole);
        }
        lse[row * a->H + x->h] = blind ? -INFINITY : m->max[i] + logf(m->sum[i]);
    }
}

static void block_forward(room *m, const block *x, float *out, float *lse, const float *q,
                          const float *k, const float *v)
{
    const attention_args *a = x->a;
    size_t width = padded(a->Dv), first = a->k_begin[x->b];
    pack_transposed(m->q, q + (a->q_begin[x->b] + x->i0) * a->q_row + x->h * a->q_head, a->q_row,
                    x->rows, a->D, (float)a->scale);
    memset(m->out, 0, TQ * width * sizeof *m->out);
    for (size_t i = 0; i < TQ; i++) {
        m->max[i] = -INFINITY;
        m->sum[i] = 0;
    }
    for (size_t j0 = 0; j0 < x->keys; j0 += TK) {
        size_t nk = at_most(x->keys - j0, TK);
        tile_product(m->tile, x, k + (first + j0) * a->k_row + x->kv * a->k_head, a->k_row, m->q,
                     a->D, j0, nk);
        if (a->bias) {
            tile_bias(m->tile, x, j0, nk);
        }
        tile_softmax(m, x, j0, nk);
        if (m->keep) {
            tile_drop(m, x, j0, nk);
        }
        pack_rows(m->v, v + (first + j0) * a->v_row + x->kv * a->v_head, a->v_row, nk, a->Dv, 1);
        for (size_t i = 0; i < x->rows; i += MR) {
            size_t rows = at_most(x->rows - i, MR);
            product_columns(m->out + i * width, width, m->tile + i, m->v, width, rows, width / VF,
                            keys_seen(x, i + rows - 1, j0, nk), m->alpha + i);
        }
    }
    block_store(m, x, out, lse);
}

void attention_tiled(const qkv_exec *e, float *out, float *lse, const float *q, const float *k,
                     const float *v, const attention_args *a)
{
    qkv__mark mark = qkv__arena_mark(e->scratch);
    size_t size = padded(simd_attention_forward_room_size(a)), tasks = 0;
    float *memory = qkv__arena_alloc(e->scratch, (size_t)e->threads * size * sizeof *memory);
    size_t *first = qkv__arena_alloc(e->scratch, (a->B + 1) * sizeof *first); /* task of b */
    if (!memory || !first || e->meta) {
        qkv__arena_release(e->scratch, mark);
        return;
    }
    for (size_t b = 0; b < a->B; b++) {
        first[b] = tasks;
        tasks += a->H * ((a->q_len[b] + TQ - 1) / TQ);
    }
    first[a->B] = tasks;
#pragma omp parallel num_threads(e->threads) if (tasks > 1) default(none) \
    shared(out, lse, q, k, v, a, size, tasks, memory, first)
    {
        room m = simd_attention_forward_room_at(memory + (size_t)omp_get_thread_num() * size, a);
        size_t b = 0;
#pragma omp for schedule(monotonic : dynamic)
        for (size_t n = 0; n < tasks; n++) {
            while (n >= first[b + 1]) { /* a thread's tasks only go up */
                b++;
            }
            size_t blocks = (first[b + 1] - first[b]) / a->H, i = (n - first[b]) % blocks;
            block x = block_of(a, b, (n - first[b]) / blocks, (blocks - 1 - i) * TQ);
            block_forward(&m, &x, out, lse, q, k, v);
        }
    }
    qkv__arena_release(e->scratch, mark);
}
