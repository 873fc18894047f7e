/* attention_few.cu - attention of 1 to 4 queries a sequence, for generation: what takes time is
 * reading keys and values, as reals, bf16 or 8-bit integers, so they are read once for all queries
 * and heads that share them, by as many blocks as fill the card. Each block takes a part of a
 * sequence's keys; each group of lanes takes keys of its own, 8 channels a lane, with a largest
 * score and sums of its own. Groups are combined at the end, then blocks, in the order of their
 * numbers. */
#include "kernel/cuda/attention_few_block.cuh"
#include "kernel/cuda/list.cuh"

/* Block x: rows, head of keys, sequence; y: split. */
template <int kind, int ROWS, int KEYS>
static __global__ void __launch_bounds__(FEW_THREADS, ROWS == 1 ? 5 : ROWS == 2 ? 4 : 3)
    few(const __grid_constant__ att_problem p, const few_job w)
{
    DYNAMIC_SHARED(memory);
    few_part_of<kind, ROWS, KEYS>(p, w, (int)blockIdx.x, (int)blockIdx.y, (float *)memory);
}

/* Block x: query, head, sequence. */
static __global__ void few_combine(const __grid_constant__ att_problem p, const few_job w)
{
    __shared__ float share[FEW_SPLITS];
    few_whole(p, w, (int)blockIdx.x, share);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Parts of the keys that fill a card, of blocks that take `step` keys at a time. */
static int few_splits(const att_problem &p, const few_job &w, size_t blocks, int step)
{
    int span = p.longest_k;
    if (p.window && p.window + w.queries < span)
        span = p.window + w.queries;
    size_t splits = (FEW_BLOCKS + blocks - 1) / blocks, most = (span + step - 1) / step;
    most = most > FEW_SPLITS ? (size_t)FEW_SPLITS : most < 1 ? 1 : most;
    return (int)(splits > most ? most : splits);
}

template <int kind, int ROWS, int KEYS>
static void few_launch_rows(const qkv_exec *e, const att_problem &p, few_job w)
{
    const bool lists = list_has_few(p);
    const int rows = p.H / p.Hkv * w.queries, threads = lists ? +LIST_THREADS : +FEW_THREADS;
    w.row_blocks = (rows + ROWS - 1) / ROWS;
    const size_t blocks = (size_t)p.B * p.Hkv * w.row_blocks;
    w.splits = few_splits(p, w, blocks, threads / w.lanes * KEYS);
    const size_t queries = (size_t)p.B * p.H * w.queries;
    const size_t floats = queries * w.splits * ((size_t)p.Dv + 2);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    w.part = NULL;
    if (w.splits > 1)
        w.part = (float *)qkv__arena_alloc(e->scratch, floats * sizeof *w.part);
    if ((w.splits == 1 || w.part) &&
        !(lists && list_few((qkv_k_kv)kind, ROWS, blocks, p, w))) {
        LAUNCH((few<kind, ROWS, KEYS>), dim3((unsigned)blocks, w.splits), FEW_THREADS,
               few_room(w, ROWS, FEW_THREADS) * sizeof(float), p, w);
        if (w.splits > 1)
            LAUNCH(few_combine, (unsigned)queries, FEW_THREADS, 0, p, w);
    }
    qkv__arena_release(e->scratch, mark);
}

template <int kind>
static void few_launch(const qkv_exec *e, const att_problem &p, const few_job &w)
{
    const int rows = p.H / p.Hkv * w.queries;
    if (rows == 1)
        few_launch_rows<kind, 1, 4>(e, p, w);
    else if (rows == 2)
        few_launch_rows<kind, 2, 4>(e, p, w);
    else if (rows <= 4 || list_has_few(p))
        few_launch_rows<kind, 4, 4>(e, p, w);
    else
        few_launch_rows<kind, 8, 2>(e, p, w);
}

/* Whether few kernels serve a problem, whose rows can be read 8 channels at a time. */
static bool few_fits(const att_problem &p)
{
    return p.longest_q <= QKV_K_FEW && !p.dropout && p.D % 8 == 0 && p.Dv % 8 == 0 &&
           p.D <= FEW_WIDTH && p.Dv <= FEW_WIDTH && p.D > 0 && p.Dv > 0;
}

static few_job few_job_of(const att_problem &p, float *out, float *lse, const float *q)
{
    few_job w = {};
    w.q = q, w.out = out, w.lse = lse;
    w.queries = p.longest_q;
    w.lanes = 2;
    while (w.lanes * 8 < p.D || w.lanes * 8 < p.Dv)
        w.lanes *= 2;
    return w;
}

bool att_few(const qkv_exec *e, float *out, float *lse, const float *q, const float *k,
             const float *v, const att_problem &p)
{
    if (!few_fits(p) || !att_wide(k, p.k_row, p.k_head, p.D) ||
        !att_wide(v, p.v_row, p.v_head, p.Dv))
        return false;
    few_job w = few_job_of(p, out, lse, q);
    w.k = {k, NULL, p.k_row, p.k_head};
    w.v = {v, NULL, p.v_row, p.v_head};
    few_launch<QKV_K_KV_REAL>(e, p, w);
    return true;
}

void cuda_attention_stored(const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
                           const qkv_k_stored *k, const qkv_k_stored *v,
                           const qkv_k_attention_args *a)
{
    att_problem p;
    if (!att_problem_of(&p, a) || p.longest_q == 0)
        return;
    if (!few_fits(p) || k->kind != v->kind || (uintptr_t)k->data % 16 || (uintptr_t)v->data % 16) {
        att_stored_as_reals(e, out, lse, q, k, v, a);
        return;
    }
    few_job w = few_job_of(p, out, lse, q);
    w.k = {k->data, k->scale, a->Hkv * a->D, a->D};
    w.v = {v->data, v->scale, a->Hkv * a->Dv, a->Dv};
    if (k->kind == QKV_K_KV_BF16)
        few_launch<QKV_K_KV_BF16>(e, p, w);
    else
        few_launch<QKV_K_KV_INT8>(e, p, w);
}
