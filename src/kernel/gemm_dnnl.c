/* gemm_dnnl.c - matrix products from oneDNN, 2.x and 3.x alike, in f32 or of operands in bf16.
 *
 * dnnl_sgemm takes sizes, strides and all transposes at run time; there is nothing to create,
 * cache or reorder. Left to thread itself it falls to 75 % of the machine's limit where b is
 * transposed and k is large, so we cut c into one piece a thread and each thread computes its
 * own: 91 to 105 % on every shape that GPT models train with (2 cores of Zen 4). A matmul
 * primitive with weights in the library's own layout is as fast, but the reordering costs 3 to
 * 10 %. Which instructions the library uses is its own choice.
 * For bf16 the operands are rounded into scratch first, each number once, and the library's own
 * choice of instructions (AMX, where the processor has it) decides how fast the product is.
 * Few rows (1 to 32) without a tape are gemv's: the library copies b into blocks first, which few
 * rows do not pay for. */
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "kernel/matmul_dnnl.h"

/* Rows and columns of c per turn of the library's inner loop; what copying one element of an
 * operand into its cache blocks costs, in multiplications. */
enum { UNIT_M = 8, UNIT_N = 48, COPY = 16 };
static const size_t worth_threads = 1u << 17; /* multiplications that pay for waking a team */

/* The same in every table: for what the library refuses, and how numbers are rounded. */
static qkv_k_gemm_fn *reference;
static qkv_k_round_fn *gemm_dnnl_round;

typedef struct {
    size_t down, across; /* pieces of c */
    size_t rows, cols;   /* of a piece, unless it is the last of its direction */
} grid;

static size_t piece_size(size_t size, size_t pieces, size_t unit)
{
    size_t units = (size + unit - 1) / unit;
    return (units + pieces - 1) / pieces * unit;
}

/* The cut of c into one piece a thread whose largest piece is done first: it multiplies
 * rows x cols, and copies rows of op(a) and columns of op(b), all times k. */
static grid gemm_dnnl_choose_grid(const qkv_k_gemm_args *args, size_t team)
{
    grid best = {1, 1, args->m, args->n};
    size_t least = SIZE_MAX;
    if (args->m * args->n * args->k <= worth_threads) {
        return best;
    }
    for (size_t across = 1; across <= team; across++) {
        size_t down = team / across;
        grid g = {down, across, piece_size(args->m, down, UNIT_M),
                  piece_size(args->n, across, UNIT_N)};
        size_t cost = g.rows * g.cols + COPY * (g.rows + g.cols);
        if (cost < least) {
            least = cost;
            best = g;
        }
    }
    return best;
}

/* c (m, n) = [c +] bias. */
static void add_bias(float *c, const qkv_k_gemm_args *args)
{
    for (size_t i = 0; i < args->m; i++) {
        float *row = c + i * args->ldc;
        if (!args->acc) {
            memcpy(row, args->bias, args->n * sizeof *row);
            continue;
        }
        for (size_t j = 0; j < args->n; j++) {
            row[j] += args->bias[j];
        }
    }
}

/* A product: its operands, and what they were rounded to, or NULL. */
typedef struct {
    const float *a, *b;
    const uint16_t *a16, *b16;
    size_t lda16, ldb16;
} factors;

/* The whole product in the calling thread, if that is all the library thinks it has. */
static void product(const qkv_exec *e, float *c, const factors *f, const qkv_k_gemm_args *args)
{
    qkv_k_gemm_args rest = *args; /* what remains once c holds the bias */
    if (args->bias) {
        add_bias(c, args);
        rest.acc = true;
        rest.bias = NULL;
    }
    qkv_k_gemm_args rounded = rest;
    rounded.lda = f->lda16;
    rounded.ldb = f->ldb16;
    if (f->a16 && qkv__matmul_dnnl(c, f->a16, f->b16, &rounded))
        return;
    dnnl_status_t status = dnnl_sgemm(
        args->ta ? 'T' : 'N', args->tb ? 'T' : 'N', (dnnl_dim_t)args->m, (dnnl_dim_t)args->n,
        (dnnl_dim_t)args->k, 1.0f, f->a, (dnnl_dim_t)args->lda, f->b, (dnnl_dim_t)args->ldb,
        rest.acc ? 1.0f : 0.0f, c, (dnnl_dim_t)args->ldc);
    if (status != dnnl_success) {
        qkv_exec alone = {1, e->scratch, e->meta, 0};
        reference(&alone, c, f->a, f->b, &rest);
    }
}

static void gemm_dnnl_piece(const qkv_exec *e, float *c, const factors *f,
                            const qkv_k_gemm_args *args, const grid *g, size_t i, size_t j)
{
    factors at = *f;
    qkv_k_gemm_args part = *args;
    size_t row = i * g->rows, col = j * g->cols;
    if (row >= args->m || col >= args->n) {
        return;
    }
    part.m = args->m - row < g->rows ? args->m - row : g->rows;
    part.n = args->n - col < g->cols ? args->n - col : g->cols;
    part.bias = args->bias ? args->bias + col : NULL;
    at.a += args->ta ? row : row * args->lda;
    at.b += args->tb ? col * args->ldb : col;
    if (f->a16) {
        at.a16 += args->ta ? row : row * f->lda16;
        at.b16 += args->tb ? col * f->ldb16 : col;
    }
    product(e, c + row * args->ldc + col, &at, &part);
}

/* The product cut into one piece a thread. */
static void gemm_dnnl_cut(const qkv_exec *e, float *c, const factors *f,
                          const qkv_k_gemm_args *args)
{
    grid g = gemm_dnnl_choose_grid(args, (size_t)e->threads);
    size_t pieces = g.down * g.across;
    if (pieces == 1) {
        int before = omp_get_max_threads();
        omp_set_num_threads(1);
        product(e, c, f, args);
        omp_set_num_threads(before);
        return;
    }
    /* Inside a region the library does not thread. */
#pragma omp parallel for num_threads((int)pieces) schedule(static) default(none)                   \
    shared(e, c, f, args, g, pieces)
    for (size_t p = 0; p < pieces; p++) {
        gemm_dnnl_piece(e, c, f, args, &g, p / g.across, p % g.across);
    }
}

static void gemm_dnnl_gemm(const qkv_exec *e, float *c, const float *a, const float *b,
                           const qkv_k_gemm_args *args)
{
    if (args->m == 0 || args->n == 0 || args->k == 0)
        reference(e, c, a, b, args);
    else
        gemm_dnnl_cut(e, c, &(factors){a, b, NULL, NULL, 0, 0}, args);
}

/* ---- of operands rounded to bf16 ---------------------------------------------------------- */

/* y (rows, columns), dense, of x, whose rows are ld apart. */
static void round_matrix(const qkv_exec *e, uint16_t *y, const float *x, size_t ld, size_t rows,
                         size_t columns)
{
    if (ld == columns || rows == 1) {
        gemm_dnnl_round(e, y, x, rows * columns);
        return;
    }
    const qkv_exec alone = {1, e->scratch, e->meta, 0};
#pragma omp parallel for num_threads(e->threads) schedule(static) default(none)                    \
    shared(y, x, ld, rows, columns, alone, gemm_dnnl_round)
    for (size_t i = 0; i < rows; i++)
        gemm_dnnl_round(&alone, y + i * columns, x + i * ld, columns);
}

static void gemm_dnnl_bf16(const qkv_exec *e, float *c, const float *a, const float *b,
                           const qkv_k_gemm_args *args)
{
    if (args->m * args->n * args->k < QKV__BF16_LEAST) {
        if (!e->meta)
            gemm_dnnl_gemm(e, c, a, b, args);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const size_t m = args->m, n = args->n, k = args->k;
    uint16_t *a16 = qkv__arena_alloc(e->scratch, m * k * sizeof *a16);
    uint16_t *b16 = a16 ? qkv__arena_alloc(e->scratch, k * n * sizeof *b16) : NULL;
    if (b16 && !e->meta) {
        factors f = {a, b, a16, b16, args->ta ? m : k, args->tb ? k : n};
        round_matrix(e, a16, a, args->lda, args->ta ? k : m, f.lda16);
        round_matrix(e, b16, b, args->ldb, args->tb ? n : k, f.ldb16);
        gemm_dnnl_cut(e, c, &f, args);
    }
    qkv__arena_release(e->scratch, mark);
}

void qkv__kernels_dnnl(qkv_kernels *k)
{
    reference = k->gemm;
    k->gemm = gemm_dnnl_gemm;
}

void qkv__kernels_dnnl_bf16(qkv_kernels *k, qkv_k_round_fn *round)
{
    gemm_dnnl_round = round;
    k->gemm = gemm_dnnl_bf16;
}
