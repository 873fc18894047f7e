/* simd_attention_bf16.c - attention whose operands are rounded to bf16, forward, and the tables'
 * functions: by AMX, or by AVX512_BF16. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx512
#include "kernel/simd_attention_bf16_tiles.h"

static qkv_k_attention_fn *attention_f32; /* what served before; the same in every table */
static qkv_k_attention_bwd_fn *backward_f32;

/* ---- forward ------------------------------------------------------------------------------- */

/* One thread's memory. */
typedef struct {
    running run;
    float *rows;       /* (TQ, padded(D)): queries, scaled */
    float *out;        /* (depth_v units, TQ), not yet divided by sum */
    uint32_t *q, *room; /* tiles of the queries; of a tile of weights */
} room;

static size_t simd_attention_bf16_room_size(const attention_args *a)
{
    return running_size(a, 1) + TQ * padded(a->D) + units_of(a->Dv, UNIT) * UNIT * TQ +
           tiles_size(TQ, a->D) + tiles_size(TQ, TK);
}

static room simd_attention_bf16_room_at(float *p, const attention_args *a)
{
    room r = { .run = running_at(p, a, 0), .rows = p + running_size(a, 1) };
    r.out = r.rows + TQ * padded(a->D);
    r.q = (void *)(r.out + units_of(a->Dv, UNIT) * UNIT * TQ);
    r.room = r.q + tiles_size(TQ, a->D);
    return r;
}

/* What earlier sums are worth now. */
static void scale_sums(const room *m, size_t rows, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        for (size_t i = 0; i < rows; i += VF) {
            vf_store(m->out + c * TQ + i,
                     vf_load(m->out + c * TQ + i) * vf_load(m->run.alpha + i));
        }
    }
}

static void block_forward_bf16(const forward_pass *f, const block *x, float *memory)
{
    const attention_args *a = x->a;
    const key_tiles *t = f->more;
    size_t row = a->q_begin[x->b] + x->i0;
    room m = simd_attention_bf16_room_at(memory, a);
    float scale[TQ];
    pack_rows(m.rows, f->q + row * a->q_row + x->h * a->q_head, a->q_row, x->rows, a->D,
              (float)a->scale);
    tiles q = tiles_make(m.q, &(operand){ m.rows, padded(a->D), x->rows, a->D, .along = true });
    t->by->begin();
    for (size_t j0 = x->first; j0 < x->keys; j0 += TK) {
        size_t nk = at_most(x->keys - j0, TK);
        tile_scores(m.run.tile, t->by, x, keys_down(t, t->k, t->depth_k, x, j0), q, t->depth_k,
                    j0, nk);
        tile_weights(&m.run, x, j0, nk);
        if (j0 > x->first) {
            scale_sums(&m, x->rows, a->Dv);
        }
        add_over_keys(m.out, t->by, x, keys_across(t, t->v_across, t->depth_v, x, j0), t->depth_v,
                      m.run.tile, m.room, j0, nk, j0 > x->first);
    }
    t->by->end();
    running_end(&m.run, x, scale, f->lse);
    if (x->first == x->keys) {
        memset(m.out, 0, units_of(a->Dv, UNIT) * UNIT * TQ * sizeof *m.out);
    }
    unpack_transposed(f->out + row * a->o_row + x->h * a->o_head, a->o_row, m.out, x->rows, a->Dv,
                      scale, false);
}

static void group_forward_bf16(const forward_pass *f, const block *x, size_t blocks, float *memory)
{
    for (size_t g = 0; g < blocks; g++) {
        block_forward_bf16(f, x + g, memory);
    }
}

/* ---- the tables' functions ----------------------------------------------------------------- */

/* Whether products are large enough for tiles. */
static bool worth_tiles(const attention_args *a)
{
    size_t queries = 0, keys = 0;
    for (size_t b = 0; b < a->B; b++) {
        queries = a->q_len[b] > queries ? a->q_len[b] : queries;
        keys = a->k_len[b] > keys ? a->k_len[b] : keys;
    }
    return queries >= SIDE && keys >= SIDE && a->D >= SIDE && a->Dv >= SIDE;
}

static void forward_by(const engine *by, const qkv_exec *e, float *out, float *lse,
                       const float *q, const float *k, const float *v, const attention_args *a)
{
    qkv__mark mark = qkv__arena_mark(e->scratch);
    key_tiles t = { .by = by };
    if (!worth_tiles(a)) {
        attention_f32(e, out, lse, q, k, v, a);
    } else if (key_tiles_make(&t, e, a, k, v, true)) {
        forward_pass f = { a, out, lse, q, k, v, &t, 1 };
        attention_forward(e, &f, simd_attention_bf16_room_size(a), group_forward_bf16);
    }
    qkv__arena_release(e->scratch, mark);
}

static void backward_by(const engine *by, const qkv_exec *e, const backward_pass *g)
{
    if (worth_tiles(g->a)) {
        reverse_bf16(e, g, by);
    } else {
        backward_f32(e, g->dq, g->dk, g->dv, g->dbias, g->dout, g->out, g->lse, g->q, g->k, g->v,
                     g->a, g->w);
    }
}

/* The two functions of a table. */
#define ATTENTION_BY(name)                                                                        \
    static void attention_##name(const qkv_exec *e, float *out, float *lse, const float *q,       \
                                 const float *k, const float *v, const attention_args *a)         \
    {                                                                                             \
        forward_by(&attention_by_##name, e, out, lse, q, k, v, a);                                \
    }                                                                                             \
    static void attention_##name##_bwd(                                                           \
        const qkv_exec *e, float *dq, float *dk, float *dv, float *dbias, const float *dout,      \
        const float *out, const float *lse, const float *q, const float *k, const float *v,       \
        const attention_args *a, const attention_bwd_args *w)                                     \
    {                                                                                             \
        backward_pass g = { .a = a, .w = w, .dq = dq, .dk = dk, .dv = dv, .dbias = dbias,         \
                            .dout = dout, .out = out, .lse = lse, .q = q, .k = k, .v = v };       \
        backward_by(&attention_by_##name, e, &g);                                                 \
    }
ATTENTION_BY(amx)
ATTENTION_BY(dot)

void QKV_SIMD(qkv__kernels_attention_bf16)(qkv_kernels *k)
{
    attention_f32 = k->attention;
    backward_f32 = k->attention_bwd;
    k->attention = attention_dot;
    k->attention_bwd = attention_dot_bwd;
}

void QKV_SIMD(qkv__kernels_attention_amx)(qkv_kernels *k)
{
    attention_f32 = k->attention;
    backward_f32 = k->attention_bwd;
    k->attention = attention_amx;
    k->attention_bwd = attention_amx_bwd;
}

#else
void QKV_SIMD(qkv__kernels_attention_bf16)(qkv_kernels *k) { (void)k; }
void QKV_SIMD(qkv__kernels_attention_amx)(qkv_kernels *k) { (void)k; }
#endif
