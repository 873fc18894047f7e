/* simd_attention_forward.c - attention in tiles with a running maximum and sum
 * (FlashAttention-2, Dao 2023). Blocks of queries are independent. A task is a group of blocks that
 * follow each other: a tile of keys and values is fetched once for all of them. The largest groups
 * of a sequence come first, and threads take the next one whenever they are free. */
#include <omp.h>

#include "kernel/simd_attention_parts.h"

void attention_forward(const qkv_exec *e, const forward_pass *f, size_t room,
                       forward_group_fn *run)
{
    const attention_args *a = f->a;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    size_t size = padded(room), tasks = 0, across = f->group * TQ;
    float *memory = qkv__arena_alloc(e->scratch, (size_t)e->threads * size * sizeof *memory);
    size_t *first = qkv__arena_alloc(e->scratch, (a->B + 1) * sizeof *first); /* task of b */
    if (!memory || !first || e->meta) {
        qkv__arena_release(e->scratch, mark);
        return;
    }
    for (size_t b = 0; b < a->B; b++) {
        first[b] = tasks;
        tasks += a->H * ((a->q_len[b] + across - 1) / across);
    }
    first[a->B] = tasks;
#pragma omp parallel num_threads(e->threads) if (tasks > 1) default(none) \
    shared(f, a, run, size, tasks, memory, first, across)
    {
        float *mine = memory + (size_t)omp_get_thread_num() * size;
        size_t b = 0;
#pragma omp for schedule(monotonic : dynamic)
        for (size_t n = 0; n < tasks; n++) {
            while (n >= first[b + 1]) { /* a thread's tasks only go up */
                b++;
            }
            size_t groups = (first[b + 1] - first[b]) / a->H, g = (n - first[b]) % groups;
            size_t begin = (groups - 1 - g) * across, count = 0;
            block x[GROUP];
            for (size_t i = begin; i < at_most(a->q_len[b], begin + across); i += TQ) {
                x[count++] = block_of(a, b, (n - first[b]) / groups, i);
            }
            run(f, x, count, mine);
        }
    }
    qkv__arena_release(e->scratch, mark);
}

/* One thread's memory. */
typedef struct {
    float *v; /* (TK, padded(Dv)) */
    struct {
        running run;
        float *q;   /* (D, TQ), scaled */
        float *out; /* (TQ, padded(Dv)), not yet divided by sum */
    } of[GROUP];
} room;

static size_t simd_attention_forward_room_size(const attention_args *a, size_t group)
{
    return running_size(a, group) + group * TQ * (a->D + padded(a->Dv)) + TK * padded(a->Dv);
}

static room simd_attention_forward_room_at(float *p, const attention_args *a, size_t group)
{
    room r = { .v = p + running_size(a, group) };
    float *at = r.v + TK * padded(a->Dv);
    for (size_t g = 0; g < group; g++) {
        r.of[g].run = running_at(p, a, g);
        r.of[g].q = at;
        r.of[g].out = at + a->D * TQ;
        at = r.of[g].out + TQ * padded(a->Dv);
    }
    return r;
}

static void queries_load(const room *m, size_t g, const forward_pass *f, const block *x)
{
    const attention_args *a = x->a;
    pack_transposed(m->of[g].q, f->q + (a->q_begin[x->b] + x->i0) * a->q_row + x->h * a->q_head,
                    a->q_row, x->rows, a->D, (float)a->scale);
    memset(m->of[g].out, 0, TQ * padded(a->Dv) * sizeof(float));
}

static void block_store(const room *m, size_t g, const forward_pass *f, const block *x)
{
    const attention_args *a = x->a;
    float scale[TQ];
    running_end(&m->of[g].run, x, scale, f->lse);
    float *out = f->out + (a->q_begin[x->b] + x->i0) * a->o_row + x->h * a->o_head;
    for (size_t i = 0; i < x->rows; i++) {
        if (i + SOON < x->rows) {
            fetch_row(out + (i + SOON) * a->o_row, a->Dv, true);
        }
        unpack_rows(out + i * a->o_row, 0, m->of[g].out + i * padded(a->Dv), 0, 1, a->Dv,
                    scale[i], false);
    }
}

/* The keys j0 .. j0+nk-1, whose values are packed, for one block. k points at key 0. */
static void block_add(const room *m, size_t g, const float *k, const block *x, size_t j0,
                      size_t nk, next_keys *next)
{
    const attention_args *a = x->a;
    const running *run = &m->of[g].run;
    size_t width = padded(a->Dv);
    tile_product(run->tile, x, k + j0 * a->k_row, a->k_row, m->of[g].q, a->D, j0, nk,
                 next);
    tile_weights(run, x, j0, nk);
    for (size_t i = 0; i < x->rows; i += MR) {
        size_t rows = at_most(x->rows - i, MR);
        product_columns(m->of[g].out + i * width, width, run->tile + i, m->v, width, rows,
                        width / VF, keys_seen(x, i + rows - 1, j0, nk), run->alpha + i);
    }
}

static void group_forward(const forward_pass *f, const block *x, size_t blocks, float *memory)
{
    const attention_args *a = x->a;
    const float *k = f->k + a->k_begin[x->b] * a->k_row + x->kv * a->k_head;
    const float *v = f->v + a->k_begin[x->b] * a->v_row + x->kv * a->v_head;
    room m = simd_attention_forward_room_at(memory, a, f->group);
    size_t end = x[blocks - 1].keys; /* later blocks see no fewer */
    for (size_t g = 0; g < blocks; g++) {
        queries_load(&m, g, f, x + g);
    }
    for (size_t j0 = x->first, nk; j0 < end; j0 += nk) {
        nk = at_most(end - j0, TK);
        pack_rows(m.v, v + j0 * a->v_row, a->v_row, nk, a->Dv, 1);
        next_keys next = next_of(a, k, v, j0 + nk, end, blocks);
        for (size_t g = 0; g < blocks; g++) {
            if (x[g].first <= j0 && j0 < x[g].keys) {
                block_add(&m, g, k, x + g, j0, at_most(x[g].keys - j0, TK), &next);
            }
        }
    }
    for (size_t g = 0; g < blocks; g++) {
        block_store(&m, g, f, x + g);
    }
}

/* Blocks a task: as many as leave each thread eight tasks. */
static size_t group_for(const qkv_exec *e, const attention_args *a)
{
    size_t blocks = 0, group = GROUP;
    for (size_t b = 0; b < a->B; b++) {
        blocks += a->H * ((a->q_len[b] + TQ - 1) / TQ);
    }
    while (group > 1 && blocks < 8 * group * (size_t)e->threads) {
        group /= 2;
    }
    return group;
}

void attention_tiled(const qkv_exec *e, float *out, float *lse, const float *q, const float *k,
                     const float *v, const attention_args *a)
{
    forward_pass f = { a, out, lse, q, k, v, NULL, group_for(e, a) };
    attention_forward(e, &f, simd_attention_forward_room_size(a, f.group), group_forward);
}
