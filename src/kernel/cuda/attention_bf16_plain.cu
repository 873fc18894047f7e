/* attention_bf16_plain.cu - attention of arguments in bf16 by the kernels of f32: what those of
 * tensor cores do not serve. Arguments in bf16 are widened to scratch memory, results rounded. */
#include "kernel/cuda/attention_bf16.cuh"

enum { AT_ONCE = 256 }; /* sequences of a launch */

typedef struct {
    size_t begin;
    int rows;
} piece;

/* Row by row of pieces, from `x` to `y`, one of which is bf16. */
static __global__ void move_rows(const piece *pieces, unsigned blocks, const rows_in x,
                                 const rows_out y, int heads)
{
    const piece p = pieces[blockIdx.x / blocks];
    const int row0 = (int)(blockIdx.x % blocks) * PACK_ROWS, per_row = heads * x.width;
    const int items = min(p.rows - row0, (int)PACK_ROWS) * per_row;
    for (int item = (int)threadIdx.x; item < items; item += BLOCK) {
        const size_t row = p.begin + (size_t)(row0 + item / per_row);
        const size_t head = (size_t)(item % per_row / x.width);
        const size_t c = (size_t)(item % x.width);
        const size_t from = row * x.row + head * x.head + c, to = row * y.row + head * y.head + c;
        if (y.bf16)
            ((bf16 *)y.x)[to] = __float2bfloat16_rn(((const float *)x.x)[from]);
        else
            ((float *)y.x)[to] = __bfloat162float(((const bf16 *)x.x)[from]);
    }
}

/* An argument: rows of queries or of keys. */
typedef struct {
    const size_t *begin, *count;
    size_t B, heads, width;
} rows_shape;

static void move(const rows_shape &s, const rows_in &x, const rows_out &y)
{
    for (size_t b = 0; b < s.B; b += AT_ONCE) {
        const size_t n = s.B - b < AT_ONCE ? s.B - b : (size_t)AT_ONCE;
        piece list[AT_ONCE];
        int most = 0;
        for (size_t i = 0; i < n; i++) {
            list[i] = {s.begin[b + i], (int)s.count[b + i]};
            most = most > list[i].rows ? most : list[i].rows;
        }
        const unsigned blocks = (unsigned)((most + PACK_ROWS - 1) / PACK_ROWS);
        const piece *pieces = (const piece *)cuda_upload(list, n * sizeof *list);
        if (blocks && pieces)
            LAUNCH(move_rows, (unsigned)n * blocks, BLOCK, 0, pieces, blocks, x, y, (int)s.heads);
    }
}

/* An argument as the kernels of f32 see it: itself, or a dense copy in scratch memory. */
typedef struct {
    float *x;
    size_t row, head;
    rows_out original; /* x NULL: it was f32, or is not there */
    rows_shape shape;
} plain;

static plain plain_of(const qkv_exec *e, bool bf16, bool read, const qkv_real *x, size_t row,
                      size_t head, const rows_shape &s)
{
    plain p = {(float *)x, row, head, {}, s};
    if (!bf16 || !x)
        return p;
    size_t rows = 0;
    for (size_t b = 0; b < s.B; b++)
        rows = rows > s.begin[b] + s.count[b] ? rows : s.begin[b] + s.count[b];
    p.row = s.heads * s.width, p.head = s.width;
    p.x = (float *)qkv__arena_alloc(e->scratch, (rows * p.row + 1) * sizeof *p.x);
    p.original = rows_to((void *)x, row, head, true, false);
    if (p.x && read)
        move(s, rows_of(x, row, head, s.width, true), rows_to(p.x, p.row, p.head, false, false));
    return p;
}

static void write_back(const plain &p)
{
    if (p.original.x)
        move(p.shape, rows_of(p.x, p.row, p.head, p.shape.width, false), p.original);
}

void attention_plain(qkv_k_attention_fn *f32, const qkv_exec *e, qkv_real *out, qkv_real *lse,
                     const qkv_real *q, const qkv_real *k, const qkv_real *v,
                     const attention_args *a)
{
    if (!e->bf16) {
        f32(e, out, lse, q, k, v, a);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    attention_args args = *a;
    qkv_exec exec = *e;
    exec.bf16 = 0;
    const plain o = plain_of(e, in_bf16(e, 0), false, out, a->o_row, a->o_head,
                             {a->q_begin, a->q_len, a->B, a->H, a->Dv});
    const plain x = plain_of(e, in_bf16(e, 2), true, q, a->q_row, a->q_head,
                             {a->q_begin, a->q_len, a->B, a->H, a->D});
    const plain y = plain_of(e, in_bf16(e, 3), true, k, a->k_row, a->k_head,
                             {a->k_begin, a->k_len, a->B, a->Hkv, a->D});
    const plain z = plain_of(e, in_bf16(e, 4), true, v, a->v_row, a->v_head,
                             {a->k_begin, a->k_len, a->B, a->Hkv, a->Dv});
    args.o_row = o.row, args.o_head = o.head, args.q_row = x.row, args.q_head = x.head;
    args.k_row = y.row, args.k_head = y.head, args.v_row = z.row, args.v_head = z.head;
    if ((o.x || !out) && (x.x || !q) && (y.x || !k) && (z.x || !v)) {
        f32(&exec, o.x, lse, x.x, y.x, z.x, &args);
        write_back(o);
    }
    qkv__arena_release(e->scratch, mark);
}

void attention_plain_bwd(qkv_k_attention_bwd_fn *f32, const qkv_exec *e, qkv_real *dq,
                         qkv_real *dk, qkv_real *dv, qkv_real *dbias, const qkv_real *dout,
                         const qkv_real *out, const qkv_real *lse, const qkv_real *q,
                         const qkv_real *k, const qkv_real *v, const attention_args *a,
                         const qkv_k_attention_bwd_args *w)
{
    if (!e->bf16) {
        f32(e, dq, dk, dv, dbias, dout, out, lse, q, k, v, a, w);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    attention_args args = *a;
    qkv_k_attention_bwd_args bwd = *w;
    qkv_exec exec = *e;
    exec.bf16 = 0;
    const rows_shape of_q = {a->q_begin, a->q_len, a->B, a->H, a->D};
    const rows_shape of_out = {a->q_begin, a->q_len, a->B, a->H, a->Dv};
    const rows_shape of_k = {a->k_begin, a->k_len_full, a->B, a->Hkv, a->D};
    const rows_shape of_v = {a->k_begin, a->k_len_full, a->B, a->Hkv, a->Dv};
    const struct {
        int parameter;
        bool read;
        const qkv_real *x;
        size_t row, head;
        const rows_shape &shape;
    } list[] = {
        {0, w->acc_q, dq, w->dq_row, w->dq_head, of_q},
        {1, w->acc_k, dk, w->dk_row, w->dk_head, of_k},
        {2, w->acc_v, dv, w->dv_row, w->dv_head, of_v},
        {4, true, dout, w->do_row, w->do_head, of_out},
        {5, true, out, a->o_row, a->o_head, of_out},
        {7, true, q, a->q_row, a->q_head, of_q},
        {8, true, k, a->k_row, a->k_head, of_k},
        {9, true, v, a->v_row, a->v_head, of_v},
    };
    enum { DQ, DK, DV, DOUT, OUT, Q, K, V, COUNT };
    plain p[COUNT];
    bool all = true;
    for (int i = 0; i < COUNT; i++) {
        p[i] = plain_of(e, in_bf16(e, list[i].parameter), list[i].read, list[i].x, list[i].row,
                        list[i].head, list[i].shape);
        all = all && (p[i].x || !list[i].x);
    }
    bwd.dq_row = p[DQ].row, bwd.dq_head = p[DQ].head, bwd.dk_row = p[DK].row;
    bwd.dk_head = p[DK].head, bwd.dv_row = p[DV].row, bwd.dv_head = p[DV].head;
    bwd.do_row = p[DOUT].row, bwd.do_head = p[DOUT].head;
    args.o_row = p[OUT].row, args.o_head = p[OUT].head;
    args.q_row = p[Q].row, args.q_head = p[Q].head;
    args.k_row = p[K].row, args.k_head = p[K].head;
    args.v_row = p[V].row, args.v_head = p[V].head;
    if (all) {
        f32(&exec, p[DQ].x, p[DK].x, p[DV].x, dbias, p[DOUT].x, p[OUT].x, lse, p[Q].x, p[K].x,
            p[V].x, &args, &bwd);
        for (int i = DQ; i <= DV; i++)
            write_back(p[i]);
    }
    qkv__arena_release(e->scratch, mark);
}
