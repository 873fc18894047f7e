/* simd_attention_bf16_backward.c - gradients of attention whose operands are rounded to bf16, block
 * by block as in f32. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx512
#include "kernel/simd_attention_bf16_tiles.h"

/* One thread's memory: tiles of a block, by what lies along k of the products they enter. */
typedef struct {
    reversed rev;
    float *rows; /* (TQ, padded(D)): queries, scaled */
    float *dq;   /* (depth_k units, TQ), not yet scaled */
    tiles q, dout;            /* along channels: of scores */
    tiles q_down, dout_down;  /* along queries: of dk, dv */
    uint32_t *room;           /* tiles of weights or their gradients */
} room;

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static size_t simd_attention_bf16_backward_room_size(const attention_args *a)
{
    return reversed_size(a) + REVERSED_ROWS + TQ * padded(a->D) + units_of(a->D, UNIT) * UNIT * TQ +
           tiles_size(TQ, a->D) + tiles_size(TQ, a->Dv) + tiles_size(a->D, TQ) +
           tiles_size(a->Dv, TQ) + most(tiles_size(TQ, TK), tiles_size(TK, TQ));
}

static room block_load_bf16(float *p, const backward_pass *g, const block *x)
{
    const attention_args *a = g->a;
    const attention_bwd_args *w = g->w;
    const size_t row = a->q_begin[x->b] + x->i0, rows = x->rows, wide = padded(a->D);
    const float *dout = g->dout + row * w->do_row + x->h * w->do_head;
    float *own = p + reversed_size(a);
    room r = { .rev = reversed_at(p, own, g, x), .rows = own + REVERSED_ROWS };
    r.dq = r.rows + TQ * wide;
    uint32_t *at = (void *)(r.dq + units_of(a->D, UNIT) * UNIT * TQ);
    pack_rows(r.rows, g->q + row * a->q_row + x->h * a->q_head, a->q_row, rows, a->D,
              (float)a->scale);
    r.q = tiles_make(at, &(operand){ r.rows, wide, rows, a->D, .along = true });
    at += tiles_size(TQ, a->D);
    r.dout = tiles_make(at, &(operand){ dout, w->do_row, rows, a->Dv, .along = true });
    at += tiles_size(TQ, a->Dv);
    r.q_down = tiles_make(at, &(operand){ r.rows, wide, a->D, rows, .along = false });
    at += tiles_size(a->D, TQ);
    r.dout_down = tiles_make(at, &(operand){ dout, w->do_row, a->Dv, rows,
                                            .along = false });
    r.room = at + tiles_size(a->Dv, TQ);
    return r;
}

/* sums (nk, depth units) += the tile, as rows of keys, times rows of the block's queries. */
static void add_over_queries(float *sums, const engine *by, const block *x, const float *tile,
                             tiles rows, size_t depth, uint32_t *memory, size_t j0, size_t nk)
{
    const size_t steps = units_of(x->rows, DEPTH);
    tiles a = tiles_make(memory, &(operand){ tile, TQ, nk, x->rows, .along = true,
                                             .lane_rows = true });
    for (size_t j = 0; j < nk; j += UNIT, a.at += 2 * a.panel) {
        size_t skip = first_query(x, j0 + j) / DEPTH;
        if (skip < steps) {
            tiles left = { a.at + skip * a.step, a.panel, a.step };
            tiles right = { rows.at + skip * rows.step, rows.panel, rows.step };
            by->multiply(sums + j * depth * UNIT, depth * UNIT, left, right, 1, depth,
                         steps - skip, true);
        }
    }
}

static void block_backward_bf16(const backward_pass *g, const block *x, float *memory, float *dk,
                                float *dv)
{
    const attention_args *a = g->a;
    const attention_bwd_args *w = g->w;
    const key_tiles *t = g->more;
    const engine *by = t->by;
    room m = block_load_bf16(memory, g, x);
    float scale[TQ];
    by->begin();
    for (size_t j0 = x->first; j0 < x->keys; j0 += TK) {
        size_t nk = at_most(x->keys - j0, TK);
        tile_scores(m.rev.weights, by, x, keys_down(t, t->k, t->depth_k, x, j0), m.q, t->depth_k,
                    j0, nk);
        tile_scores(m.rev.ds, by, x, keys_down(t, t->v, t->depth_v, x, j0), m.dout, t->depth_v,
                    j0, nk);
        tile_gradients(&m.rev, x, j0, nk);
        if (g->dv) {
            add_over_queries(dv + j0 * g->width_v, by, x, m.rev.weights, m.dout_down, t->depth_v,
                             m.room, j0, nk);
        }
        if (g->dk) {
            add_over_queries(dk + j0 * g->width_k, by, x, m.rev.ds, m.q_down, t->depth_k, m.room,
                             j0, nk);
        }
        if (g->dq) {
            add_over_keys(m.dq, by, x, keys_across(t, t->k_across, t->depth_k, x, j0), t->depth_k,
                          m.rev.ds, m.room, j0, nk, j0 > x->first);
        }
    }
    by->end();
    for (size_t i = 0; i < TQ; i++) {
        scale[i] = x->first < x->keys ? (float)a->scale : 0;
    }
    if (g->dq) {
        if (x->first == x->keys) {
            memset(m.dq, 0, t->depth_k * UNIT * TQ * sizeof *m.dq);
        }
        unpack_transposed(g->dq + (a->q_begin[x->b] + x->i0) * w->dq_row + x->h * w->dq_head,
                          w->dq_row, m.dq, x->rows, a->D, scale, w->acc_q);
    }
}

/* Tiles of keys are laid out already, so nothing is to be shared. */
static void group_backward_bf16(const backward_pass *g, const block *x, size_t blocks,
                                float *memory, float *dk, float *dv)
{
    for (size_t n = 0; n < blocks; n++) {
        block_backward_bf16(g, x + n, memory, dk, dv);
    }
}

void reverse_bf16(const qkv_exec *e, const backward_pass *g, const engine *by)
{
    qkv__mark mark = qkv__arena_mark(e->scratch);
    key_tiles t = { .by = by };
    if (key_tiles_make(&t, e, g->a, g->k, g->v, false)) {
        backward_pass with = *g;
        with.more = &t;
        with.width_k = t.depth_k * UNIT;
        with.width_v = t.depth_v * UNIT;
        with.unit = UNIT;
        with.room = simd_attention_bf16_backward_room_size(g->a);
        with.run = group_backward_bf16;
        attention_reverse(e, &with);
    }
    qkv__arena_release(e->scratch, mark);
}
#endif
