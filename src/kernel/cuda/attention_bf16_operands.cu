/* attention_bf16_operands.cu - what attention on tensor cores has of its arguments: sequences, and
 * operands in bf16 that are rounded or copied to scratch memory where tensors do not have them as
 * the kernels read them. */
#include <climits>
#include <cstdlib>

#include "kernel/cuda/attention_bf16.cuh"

/* ---- sequences ------------------------------------------------------------------------------- */

static void dropout_of(attention_shape *s, const qkv_k_dropout_args *d)
{
    s->first = d->first;
    s->key[0] = (uint32_t)d->seed;
    s->key[1] = (uint32_t)(d->seed >> 32);
    s->step = (uint32_t)d->step;
    s->id = d->dropout_id;
    s->threshold = qkv__dropout_threshold(d->p);
    s->kept = d->p > 0 ? (float)(1 / (1 - d->p)) : 1;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* False if there is one that is too long, or none that is long enough. */
static bool sequences_of(sequence *list, attention_sizes *n, const attention_args *a)
{
    const size_t most = 1 << 28;
    *n = {};
    for (size_t b = 0; b < a->B; b++) {
        if (a->q_len[b] > most || a->k_len_full[b] > most)
            return false;
        list[b] = {a->q_begin[b], a->k_begin[b], n->rows_q, n->rows_k, (int)a->q_len[b],
                   (int)a->k_len[b], (int)a->k_len_full[b],
                   (int)a->k_len_full[b] - (int)a->q_len[b]};
        n->longest_q = larger(n->longest_q, a->q_len[b]);
        n->longest_k = larger(n->longest_k, a->k_len[b]);
        n->longest_full = larger(n->longest_full, a->k_len_full[b]);
        n->rows_q += a->q_len[b];
        n->rows_k += a->k_len[b];
    }
    return n->longest_q >= LEAST && n->longest_k >= LEAST;
}

static bool suits(const attention_args *a)
{
    return !a->bias && a->scale > 0 && a->D >= LEAST && a->D <= 128 && a->Dv >= LEAST &&
           a->Dv <= 128 && a->H <= 65536 && a->B > 0 && a->B <= UPLOAD_MOST / sizeof(sequence);
}

bool attention_bf16_shape(attention_shape *s, attention_sizes *n, const attention_args *a)
{
    sequence *list = suits(a) ? (sequence *)malloc(a->B * sizeof *list) : NULL;
    *s = {};
    if (list && sequences_of(list, n, a))
        s->sequences = (const sequence *)cuda_upload(list, a->B * sizeof *list);
    free(list);
    s->H = (int)a->H, s->Hkv = (int)a->Hkv, s->D = (int)a->D, s->Dv = (int)a->Dv;
    s->window = a->causal && a->window && a->window < INT_MAX / 4 ? (int)a->window : INT_MAX / 4;
    s->causal = a->causal;
    s->scale = (float)a->scale;
    s->scale2 = (float)(a->scale * 1.4426950408889634);
    dropout_of(s, &a->dropout);
    return s->sequences != NULL;
}

/* ---- operands -------------------------------------------------------------------------------- */

static __global__ void pack(const packing p)
{
    const pack_job &job = p.job[blockIdx.y];
    const sequence q = p.sequences[blockIdx.x / p.blocks];
    const int row0 = (int)(blockIdx.x % p.blocks) * PACK_ROWS, eights = p.D / 8;
    const int per_row = job.heads * eights, rows = (job.keys ? q.keys : q.queries) - row0;
    const size_t begin = (job.keys ? q.k_begin : q.q_begin) + (size_t)row0;
    const size_t at = (job.keys ? q.k_at : q.q_at) + (size_t)row0;
    const int items = min(rows, (int)PACK_ROWS) * per_row;
    for (int item = (int)threadIdx.x; item < items; item += BLOCK) {
        float x[8];
        load_eight(x, job.from, begin + (size_t)(item / per_row), item % per_row / eights,
                   item % eights * 8);
        ((uint4 *)job.to)[at * (size_t)per_row + (size_t)item] = round_eight(x);
    }
}

bool attention_operand(operand *o, packing *p, const qkv_exec *e, const attention_sizes &n,
                       const rows_in &x, size_t heads, bool keys)
{
    if (x.bf16 && x.wide && x.width % 8 == 0) {
        *o = {(const bf16 *)x.x, x.row, x.head, x.width, false};
        return true;
    }
    const size_t rows = keys ? n.rows_k : n.rows_q, D = (size_t)p->D;
    bf16 *to = (bf16 *)qkv__arena_alloc(e->scratch, rows * heads * D * sizeof *to);
    p->job[p->jobs++] = {x, to, (int)heads, keys};
    *o = {to, heads * D, D, (int)D, true};
    return to != NULL;
}

void attention_pack(packing *p, const attention_sizes &n, size_t B)
{
    const size_t longest = n.longest_q > n.longest_k ? n.longest_q : n.longest_k;
    p->blocks = (unsigned)((longest + PACK_ROWS - 1) / PACK_ROWS);
    if (p->jobs)
        LAUNCH(pack, dim3((unsigned)B * p->blocks, (unsigned)p->jobs), BLOCK, 0, *p);
}
