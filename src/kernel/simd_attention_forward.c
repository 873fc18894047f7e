/* simd_attention_forward.c - attention in tiles with a running maximum and sum
 * (FlashAttention-2, Dao 2023). Blocks of queries are independent; the largest of a sequence
 * come first, and threads take the next one whenever they are free. */
#include <omp.h>

#include "kernel/simd_attention_parts.h"

void attention_forward(const qkv_exec *e, const forward_pass *f, size_t room,
                       forward_block_fn *run)
{
    const attention_args *a = f->a;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    size_t size = padded(room), tasks = 0;
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
    shared(f, a, run, size, tasks, memory, first)
    {
        float *mine = memory + (size_t)omp_get_thread_num() * size;
        size_t b = 0;
#pragma omp for schedule(monotonic : dynamic)
        for (size_t n = 0; n < tasks; n++) {
            while (n >= first[b + 1]) { /* a thread's tasks only go up */
                b++;
            }
            size_t blocks = (first[b + 1] - first[b]) / a->H, i = (n - first[b]) % blocks;
            block x = block_of(a, b, (n - first[b]) / blocks, (blocks - 1 - i) * TQ);
            run(f, &x, mine);
        }
    }
    qkv__arena_release(e->scratch, mark);
}

/* One thread's memory. */
typedef struct {
    running run;
    float *q;   /* (D, TQ), scaled */
    float *v;   /* (TK, padded(Dv)) */
    float *out; /* (TQ, padded(Dv)), not yet divided by sum */
} room;

static size_t simd_attention_forward_room_size(const attention_args *a)
{
    return running_size(a) + a->D * TQ + (TK + TQ) * padded(a->Dv);
}

static room simd_attention_forward_room_at(float *p, const attention_args *a)
{
    room r = { .run = running_at(p, a), .q = p + running_size(a) };
    r.v = r.q + a->D * TQ;
    r.out = r.v + TK * padded(a->Dv);
    return r;
}

static void block_store(const room *m, const block *x, const forward_pass *f)
{
    const attention_args *a = x->a;
    float scale[TQ];
    running_end(&m->run, x, scale, f->lse);
    for (size_t i = 0; i < x->rows; i++) {
        size_t row = a->q_begin[x->b] + x->i0 + i;
        unpack_rows(f->out + row * a->o_row + x->h * a->o_head, 0, m->out + i * padded(a->Dv), 0,
                    1, a->Dv, scale[i], false);
    }
}

static void block_forward(const forward_pass *f, const block *x, float *memory)
{
    const attention_args *a = x->a;
    room m = simd_attention_forward_room_at(memory, a);
    size_t width = padded(a->Dv), first = a->k_begin[x->b];
    pack_transposed(m.q, f->q + (a->q_begin[x->b] + x->i0) * a->q_row + x->h * a->q_head,
                    a->q_row, x->rows, a->D, (float)a->scale);
    memset(m.out, 0, TQ * width * sizeof *m.out);
    for (size_t j0 = x->first; j0 < x->keys; j0 += TK) {
        size_t nk = at_most(x->keys - j0, TK);
        tile_product(m.run.tile, x, f->k + (first + j0) * a->k_row + x->kv * a->k_head, a->k_row,
                     m.q, a->D, j0, nk);
        tile_weights(&m.run, x, j0, nk);
        pack_rows(m.v, f->v + (first + j0) * a->v_row + x->kv * a->v_head, a->v_row, nk, a->Dv, 1);
        for (size_t i = 0; i < x->rows; i += MR) {
            size_t rows = at_most(x->rows - i, MR);
            product_columns(m.out + i * width, width, m.run.tile + i, m.v, width, rows, width / VF,
                            keys_seen(x, i + rows - 1, j0, nk), m.run.alpha + i);
        }
    }
    block_store(&m, x, f);
}

void attention_tiled(const qkv_exec *e, float *out, float *lse, const float *q, const float *k,
                     const float *v, const attention_args *a)
{
    forward_pass f = { a, out, lse, q, k, v, NULL };
    attention_forward(e, &f, simd_attention_forward_room_size(a), block_forward);
}
