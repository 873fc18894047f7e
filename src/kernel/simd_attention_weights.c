/* simd_attention_weights.c - rows of attention weights, computed again from queries, keys and the
 * log-sum-exp: blocks of queries in tiles, as in the forward pass, and few rows without packing. */
#include <omp.h>

#include "kernel/simd_attention_parts.h"

enum { BLOCK_FROM = 8 }; /* rows from which packing pays */

/* One thread's memory. */
typedef struct {
    float *q;    /* (D, TQ), scaled */
    float *tile; /* (TK, TQ): scores, then weights */
    float *base, *sum; /* (TQ) */
} weights_room;

static weights_room weights_room_at(float *p, const attention_args *a)
{
    return (weights_room){ p, p + a->D * TQ, p + a->D * TQ + TK * TQ,
                           p + a->D * TQ + TK * TQ + TQ };
}

/* Scores become exp(score - lse), hidden ones 0; their sums move on. */
static void tile_exponentials(weights_room *m, const block *x, size_t j0, size_t nk)
{
    for (size_t i = 0; i < x->rows; i += VF) {
        lane_keys see = lanes_of(x, i, j0, nk);
        float *tile = m->tile + i;
        vf base = vf_load(m->base + i), sum = vf_load(m->sum + i);
        for (size_t j = 0; j < see.part; j++) {
            vf p = vf_exp(vf_load(tile + j * TQ) - base);
            if (j >= see.full) {
                p = vf_select(vf_lt(vf_set1((float)j), see.limit), p, vf_zero());
            }
            vf_store(tile + j * TQ, p);
            sum = sum + p;
        }
        for (size_t j = see.part; j < nk; j++) {
            vf_store(tile + j * TQ, vf_zero());
        }
        vf_store(m->sum + i, sum);
    }
}

/* to (rows, S) = the tile transposed: queries down, keys j0 .. j0+nk-1 across. */
static void tile_store(float *to, size_t S, const weights_room *m, const block *x, size_t j0,
                       size_t nk)
{
    for (size_t i = 0; i < x->rows; i += VF) {
        size_t rows = at_most(x->rows - i, VF);
        for (size_t j = 0; j < nk; j += VF) {
            vf r[VF];
            size_t keys = at_most(nk - j, VF);
            for (size_t c = 0; c < VF; c++) {
                r[c] = c < keys ? vf_load(m->tile + (j + c) * TQ + i) : vf_zero();
            }
            vf_transpose(r);
            for (size_t c = 0; c < rows; c++) {
                vf_store_n(to + (i + c) * S + j0 + j, r[c], keys);
            }
        }
    }
}

/* Rows become distributions, so that the rounding of the log-sum-exp does not show. */
static void rows_finish(float *weights, size_t S, const weights_room *m, const block *x,
                        const bool *blind)
{
    for (size_t i = 0; i < x->rows; i++) {
        float *w = weights + i * S;
        size_t seen = blind[i] ? 0 : keys_seen(x, i, 0, x->keys);
        vf scale = vf_set1(1 / m->sum[i]);
        for (size_t j = 0; j + VF <= seen; j += VF) {
            vf_store(w + j, vf_load(w + j) * scale);
        }
        for (size_t j = seen / VF * VF; j < seen; j++) {
            w[j] /= m->sum[i];
        }
        memset(w + seen, 0, (S - seen) * sizeof *w);
    }
}

static void block_weights(weights_room *m, const block *x, float *weights, const float *lse,
                          const float *q, const float *k)
{
    const attention_args *a = x->a;
    size_t S = a->k_len[x->b], query = a->q_begin[x->b] + x->i0;
    bool blind[TQ];
    for (size_t i = 0; i < TQ; i++) {
        float of = i < x->rows ? lse[(query + i) * a->H + x->h] : 0;
        blind[i] = of == -INFINITY;
        m->base[i] = blind[i] ? 0 : of;
        m->sum[i] = 0;
    }
    pack_transposed(m->q, q + query * a->q_row + x->h * a->q_head, a->q_row, x->rows, a->D,
                    (float)a->scale);
    k += a->k_begin[x->b] * a->k_row + x->kv * a->k_head;
    for (size_t i = 0; i < x->rows; i++) {
        memset(weights + i * S, 0, x->first * sizeof *weights);
    }
    for (size_t j0 = x->first; j0 < x->keys; j0 += TK) {
        size_t nk = at_most(x->keys - j0, TK);
        tile_product(m->tile, x, k + j0 * a->k_row, a->k_row, m->q, a->D, j0, nk, NULL);
        tile_complete(m->tile, x, j0, nk);
        tile_exponentials(m, x, j0, nk);
        tile_store(weights, S, m, x, j0, nk);
    }
    rows_finish(weights, S, m, x, blind);
}

void attention_weights(const qkv_exec *e, float *weights, const float *lse, const float *q,
                       const float *k, const attention_args *a, size_t b, size_t h, size_t row,
                       size_t rows)
{
    qkv__mark mark = qkv__arena_mark(e->scratch);
    size_t size = a->D * TQ + TK * TQ + 2 * TQ, blocks = (rows + TQ - 1) / TQ;
    float *memory = rows < BLOCK_FROM
                        ? NULL
                        : qkv__arena_alloc(e->scratch, (size_t)e->threads * size * sizeof *memory);
    if (!memory) {
        attention_weights_few(e, weights, lse, q, k, a, b, h, row, rows);
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads(e->threads) if (blocks > 1) default(none) \
    shared(weights, lse, q, k, a, b, h, row, rows, size, blocks, memory)
    for (size_t n = 0; n < blocks; n++) {
        weights_room m = weights_room_at(memory + (size_t)omp_get_thread_num() * size, a);
        block x = block_of(a, b, h, row + n * TQ);
        x.rows = at_most(x.rows, rows - n * TQ);
        x.keys = keys_seen(&x, x.rows - 1, 0, a->k_len[b]);
        x.first = at_most(x.first, x.keys);
        block_weights(&m, &x, weights + n * TQ * a->k_len[b], lse, q, k);
    }
    qkv__arena_release(e->scratch, mark);
}
