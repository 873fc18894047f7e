/* simd_attention_parts.h - what the attention files share: a tile of keys x queries, which the
 * products of simd_product.h fill and empty.
 *
 * A tile is stored by key, with the TQ queries of its block along the lanes:
 *     tile[j * TQ + i]: key j (at most TK), query i (at most TQ).
 * So the softmax runs down the tile without crossing lanes, keys and values are read where they
 * lie, and a key length cuts rows off instead of lanes. Only queries are packed transposed. */
#ifndef QKV_SIMD_ATTENTION_H
#define QKV_SIMD_ATTENTION_H

#include <math.h>
#include <string.h>

#include "kernel/simd_product.h"

enum {
    TQ = ACROSS,  /* queries a block */
    GROUP = 4,    /* blocks that go through the keys together, at most */
    TK = 96,      /* keys a tile: a multiple of MR and of Philox's four words */
    FEW = QKV_K_FEW /* queries a sequence, at most, for the path that packs nothing */
};

typedef qkv_k_attention_args attention_args;
typedef qkv_k_attention_bwd_args attention_bwd_args;

/* exp(x) is 2^(x log2 e), which has fewer steps. */
#define LOG2_E 1.4426950408889634

/* n up to a multiple of the vector */
static inline size_t padded(size_t n) { return (n + VF - 1) / VF * VF; }

/* ---- blocks and tiles (simd_attention_tile.c) ------------------------------------------------ */

/* Up to TQ queries of one (sequence, head). */
typedef struct {
    const attention_args *a;
    size_t b, h, kv;
    size_t i0, rows;  /* queries i0 .. i0+rows-1 of the sequence */
    size_t first;     /* no query sees keys before it; a multiple of TK, or keys */
    size_t keys;      /* what its last query sees, and no query more */
    ptrdiff_t shift;  /* query i0+i sees key j when j <= shift + i; only if diagonal */
    bool diagonal;    /* causal */
} block;

#define block_of QKV_SIMD(qkv__attention_block)
block block_of(const attention_args *a, size_t b, size_t h, size_t i0);

static inline size_t clamp(ptrdiff_t n, size_t limit)
{
    return n < 0 ? 0 : at_most((size_t)n, limit);
}

/* Of the keys j0 .. j0+nk-1: how many query i of the block sees, the window left aside. */
static inline size_t keys_seen(const block *x, size_t i, size_t j0, size_t nk)
{
    return x->diagonal ? clamp(x->shift + (ptrdiff_t)i + 1 - (ptrdiff_t)j0, nk) : nk;
}

/* Of the keys j0 .. j0+nk-1: how many lie before the window of query i, and are hidden from it. */
static inline size_t keys_passed(const block *x, size_t i, size_t j0, size_t nk)
{
    ptrdiff_t end = x->shift + (ptrdiff_t)i + 1 - (ptrdiff_t)x->a->window;
    return x->a->window ? clamp(end - (ptrdiff_t)j0, nk) : 0;
}

/* The first query of the block that sees key j, the window left aside; TQ or more if none. */
static inline size_t first_query(const block *x, size_t j)
{
    return x->diagonal ? clamp((ptrdiff_t)j - x->shift, SIZE_MAX / 2) : 0;
}

/* Rows so far ahead are fetched into the first cache where one is touched after another: they lie
 * in pages of their own. */
enum { SOON = 8 };
static inline void fetch_row(const float *x, size_t n, const bool write)
{
    for (size_t c = 0; c < n; c += QKV__LINE) {
        if (write) {
            __builtin_prefetch(x + c, 1);
        } else {
            __builtin_prefetch(x + c);
        }
    }
}

/* y (cols, TQ) = scale x (rows, cols; row stride ldx) transposed; queries from rows to the next
 * multiple of VF get 0. */
#define pack_transposed QKV_SIMD(qkv__attention_pack_transposed)
void pack_transposed(float *y, const float *x, size_t ldx, size_t rows, size_t cols, float scale);
/* y (rows, padded(cols)) = scale x (rows, cols; row stride ldx), filled up with 0. */
#define pack_rows QKV_SIMD(qkv__attention_pack_rows)
void pack_rows(float *y, const float *x, size_t ldx, size_t rows, size_t cols, float scale);

/* y (rows, n; row stride ldy) = [y +] scale x (rows, width) */
#define unpack_rows QKV_SIMD(qkv__attention_unpack_rows)
void unpack_rows(float *y, size_t ldy, const float *x, size_t width, size_t rows, size_t n,
                 float scale, bool acc);

/* Keys and values that the next tile begins with: they are fetched into the second cache, some at a
 * time, between the products of this one. No processor foresees rows so far apart. */
typedef struct {
    const float *k, *v;
    size_t keys, step; /* left; at a time */
} next_keys;

/* Up to TK of the keys from j0 on and before `end`, in so many calls of tile_product. k and v point
 * at key 0 of a head. */
static inline next_keys next_of(const attention_args *a, const float *k, const float *v, size_t j0,
                                size_t end, size_t calls)
{
    const size_t turns = TK / MR * calls;
    return (next_keys){ k + j0 * a->k_row, v + j0 * a->v_row, at_most(end - j0, TK),
                        (TK + turns - 1) / turns };
}

static inline void next_fetch(next_keys *next, const attention_args *a)
{
    enum { SECOND = 2 }; /* of __builtin_prefetch: the second cache */
    for (size_t end = next->keys - at_most(next->keys, next->step); next->keys > end;) {
        for (size_t c = 0; c < a->D; c += QKV__LINE) {
            __builtin_prefetch(next->k + c, 0, SECOND);
        }
        for (size_t c = 0; c < a->Dv; c += QKV__LINE) {
            __builtin_prefetch(next->v + c, 0, SECOND);
        }
        next->k += a->k_row;
        next->v += a->v_row;
        next->keys--;
    }
}

/* tile = k q^T for the keys j0 .. j0+nk-1, without the blocks nobody sees. k points at key j0;
 * q is packed transposed (n, TQ). next: NULL, or what is fetched meanwhile. */
#define tile_product QKV_SIMD(qkv__attention_tile_product)
void tile_product(float *tile, const block *x, const float *k, size_t k_row, const float *q,
                  size_t n, size_t j0, size_t nk, next_keys *next);
/* Completes a tile of scores: adds the bias; -INFINITY where a key lies before the window. */
#define tile_complete QKV_SIMD(qkv__attention_tile_complete)
void tile_complete(float *tile, const block *x, size_t j0, size_t nk);
/* keep = 1 / (1 - p) or 0 for every weight of the tile. */
#define tile_dropout QKV_SIMD(qkv__attention_tile_dropout)
void tile_dropout(float *keep, const block *x, size_t j0, size_t nk);

/* The keys of a tile as the vector of queries i .. i+VF-1 sees them: all see the first `full`,
 * some see those up to `part`, none see the rest. */
typedef struct {
    size_t full, part;
    vf limit; /* lane sees key j of the tile when j < limit */
} lane_keys;

static inline lane_keys lanes_of(const block *x, size_t i, size_t j0, size_t nk)
{
    float limit[VF];
    for (size_t c = 0; c < VF; c++) {
        limit[c] = (float)keys_seen(x, i + c, j0, nk);
    }
    return (lane_keys){ keys_seen(x, i, j0, nk), keys_seen(x, i + VF - 1, j0, nk),
                        vf_load(limit) };
}

/* ---- softmax of a block (simd_attention_softmax.c) ------------------------------------------- */

/* A block of queries on its way through the keys, forward. */
typedef struct {
    float *tile;              /* (TK, TQ): scores, then weights */
    float *keep;              /* (TK, TQ); NULL without dropout */
    float *max, *sum;         /* (TQ): so far; max of scores times log2 e */
    float *alpha;             /* (TQ): what earlier sums are worth now */
} running;

#define running_size QKV_SIMD(qkv__attention_running_size)
size_t running_size(const attention_args *a, size_t group);
/* In memory of that many floats, of block g of a group, before the first key. The blocks share a
 * tile. */
#define running_at QKV_SIMD(qkv__attention_running_at)
running running_at(float *p, const attention_args *a, size_t g);
/* Scores become exp(score + bias - max) times what dropout keeps, hidden ones 0; max, sum and
 * alpha move on. */
#define tile_weights QKV_SIMD(qkv__attention_tile_weights)
void tile_weights(const running *m, const block *x, size_t j0, size_t nk);
/* scale (TQ): 1 / sum, 0 for a query that saw nothing. Stores the log-sum-exp of every query. */
#define running_end QKV_SIMD(qkv__attention_running_end)
void running_end(const running *m, const block *x, float *scale, float *lse);

/* A block of queries on its way through the keys, backward. */
typedef struct {
    float *weights;      /* (TK, TQ): scores, then weights after dropout */
    float *ds;           /* (TK, TQ): gradient of the weights, then of the scores */
    float *keep;         /* (TK, TQ); NULL without dropout */
    float *lse;          /* (TQ): log-sum-exp times log2 e; +inf where nothing is seen */
    float *delta;        /* (TQ): sum of dout out */
} reversed;

/* A backward pass: what all tasks read, and where results go. */
typedef struct backward_pass backward_pass;

/* Floats of its tiles, which blocks may share, and of what is its own. */
#define reversed_size QKV_SIMD(qkv__attention_reversed_size)
size_t reversed_size(const attention_args *a);
enum { REVERSED_ROWS = 2 * TQ };
#define reversed_at QKV_SIMD(qkv__attention_reversed_at)
reversed reversed_at(float *tiles, float *rows, const backward_pass *g, const block *x);
#define tile_gradients QKV_SIMD(qkv__attention_tile_gradients)
void tile_gradients(const reversed *m, const block *x, size_t j0, size_t nk);

/* ---- passes over all blocks ------------------------------------------------------------------ */

/* What all blocks of a forward pass read, and where results go. */
typedef struct {
    const attention_args *a;
    float *out, *lse;
    const float *q, *k, *v;
    const void *more; /* of the path */
    size_t group;     /* blocks a task, up to GROUP */
} forward_pass;

/* Blocks of queries of one (sequence, head) that follow each other, with one thread's memory. */
typedef void forward_group_fn(const forward_pass *f, const block *x, size_t blocks, float *room);
/* room: floats a thread. */
#define attention_forward QKV_SIMD(qkv__attention_forward)
void attention_forward(const qkv_exec *e, const forward_pass *f, size_t room,
                       forward_group_fn *run);

/* Blocks likewise; adds to dk and dv, sums over the queries of a task. */
typedef void backward_group_fn(const backward_pass *g, const block *x, size_t blocks, float *room,
                               float *dk, float *dv);
struct backward_pass {
    const attention_args *a;
    const attention_bwd_args *w;
    float *dq, *dk, *dv, *dbias;
    const float *dout, *out, *lse, *q, *k, *v;
    const void *more;        /* of the path */
    size_t width_k, width_v; /* D and Dv, filled up: rows of dk and dv as sums */
    size_t unit;             /* of keys: sums have a multiple of it */
    size_t room;             /* floats a thread */
    backward_group_fn *run;
    size_t parts, longest;   /* tasks a (sequence, key/value head); most keys of a sequence */
    size_t group;            /* blocks a call of run, up to GROUP */
};
/* parts, longest and group are set. */
#define attention_reverse QKV_SIMD(qkv__attention_reverse)
void attention_reverse(const qkv_exec *e, backward_pass *g);

/* ---- the paths ------------------------------------------------------------------------------- */

#define attention_tiled QKV_SIMD(qkv__attention_tiled)
qkv_k_attention_fn attention_tiled;
#define attention_few QKV_SIMD(qkv__attention_few)
qkv_k_attention_fn attention_few;
#define attention_few_stored QKV_SIMD(qkv__attention_few_stored)
qkv_k_attention_stored_fn attention_few_stored;
#define attention_backward QKV_SIMD(qkv__attention_backward)
qkv_k_attention_bwd_fn attention_backward;
#define attention_weights QKV_SIMD(qkv__attention_weights)
qkv_k_attention_rows_fn attention_weights;
/* For few rows: packs nothing. */
#define attention_weights_few QKV_SIMD(qkv__attention_weights_few)
qkv_k_attention_rows_fn attention_weights_few;

#endif
