/* small.cu - products with weights in fewer bits: w is read once, at the speed of memory, for up to
 * 8 rows of x, and for more from the second-level cache by blocks that run side by side. Where w is
 * integers, x is rounded to 8 bits first.
 *
 * A block has one group of 16 rows of w. 4 threads read a line in vectors of 4 rows and go along k
 * in units, whose sums the block adds up in the end. The order of every sum depends on k alone:
 * what a row gets does not depend on the rows beside it. */
#include "kernel/cuda/list.cuh"
#include "kernel/cuda/small_product.cuh"

/* ---- launches -------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(BLOCK) round_kernel(int8_t *q, float *scale,
                                                             small_product t, size_t block)
{
    round_blocks(q, scale, t, block, (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP,
                 (size_t)gridDim.x * (BLOCK / WARP));
}

template <int TYPE, int M>
static __global__ void __launch_bounds__(BLOCK, M >= 4 ? 2 : 3)
    small_kernel(small_product t, size_t chunks)
{
    __shared__ float part[BLOCK / WARP][M][QKV_K_PACKED];
    size_t group, chunk;
    split(blockIdx.x, chunks, &group, &chunk);
    float sum[M][4] = {};
    small_sums<TYPE, M>(sum, t, group, chunk, NULL);
    small_finish<TYPE, M>(sum, t, group, chunk, part, [&t](size_t i, size_t j, float sum) {
        t.y[i * t.ldy + j] = sum + (t.bias ? t.bias[j] : 0);
    });
}

template <int TYPE, int M> static void launch_small(const small_product &t)
{
    const size_t chunks = (t.m + M - 1) / M, groups = (t.w.n + QKV_K_PACKED - 1) / QKV_K_PACKED;
    const size_t units = (t.w.lines + unit_lines(TYPE) - 1) / unit_lines(TYPE);
    const size_t threads = (units * QUAD + WARP - 1) / WARP * WARP;
    LAUNCH((small_kernel<TYPE, M>), (unsigned)(groups * chunks),
           (unsigned)smaller(threads ? threads : (size_t)WARP, BLOCK), 0, t, chunks);
}

template <int TYPE> static void launch_type(const small_product &t)
{
    if (t.m == 1)
        launch_small<TYPE, 1>(t);
    else if (t.m == 2)
        launch_small<TYPE, 2>(t);
    else if (t.m <= 4)
        launch_small<TYPE, 4>(t);
    else
        launch_small<TYPE, ROWS>(t);
}

/* Rows past m, which fill up the last ROWS, hold anything. False: no scratch memory. */
static bool round_x(const qkv_exec *e, small_product *t)
{
    const size_t block = small_block(t->w.type), count = t->m * t->w.blocks;
    const size_t room = (t->m + ROWS - 1) / ROWS * ROWS * t->w.blocks + 1;
    float *scale = (float *)qkv__arena_alloc(e->scratch, room * sizeof *scale);
    int8_t *q = scale ? (int8_t *)qkv__arena_alloc(e->scratch, room * block) : NULL;
    if (!q)
        return false;
    if (count)
        LAUNCH(round_kernel, cuda_blocks(count * WARP), BLOCK, 0, q, scale, *t, block);
    t->q = q;
    t->q_scale = scale;
    return true;
}

static void multiply(const qkv_exec *e, small_product t)
{
    qkv__mark mark = qkv__arena_mark(e->scratch);
    if (t.w.type == QKV_K_BF16)
        launch_type<QKV_K_BF16>(t);
    else if (round_x(e, &t) && t.w.type == QKV_K_INT8)
        launch_type<QKV_K_INT8>(t);
    else if (t.q)
        launch_type<QKV_K_INT4>(t);
    qkv__arena_release(e->scratch, mark);
}

static void cuda_small(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, size_t ldx,
                       const qkv_k_small *w, const qkv_real *bias, size_t m)
{
    const small_product t = {y, x, bias, small_matrix_of(w), ldy, ldx, m, NULL, NULL,
                             (m == 1 || ldx % 4 == 0) && aligned16(x)};
    if (m && w->n && !list_small(t))
        multiply(e, t);
}

extern "C" void qkv__cuda_small(qkv_kernels *k) { k->small = k->small_many = cuda_small; }
