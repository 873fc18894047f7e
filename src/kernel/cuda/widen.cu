/* widen.cu - weights in fewer bits as reals: turned for products, and as rows of an embedding; and
 * rows of such a matrix as another one. */
#include "kernel/cuda/list.cuh"
#include "kernel/cuda/small.cuh"

/* A thread has one row's numbers of a line; neighbours have neighbouring rows. */
template <int TYPE>
static __global__ void __launch_bounds__(BLOCK) widen_kernel(float *y, size_t ldy, small_matrix w,
                                                             size_t first, size_t n)
{
    enum { NUMBERS = small_numbers(TYPE) };
    for (FOR_EACH(i, w.lines * n)) {
        size_t line, j;
        float out[8];
        split(i, n, &line, &j);
        small_line<TYPE>(out, w, first + j, line);
        for (int p = 0; p < NUMBERS; p++)
            if (line * NUMBERS + p < w.k)
                y[(line * NUMBERS + p) * ldy + j] = out[p];
    }
}

static void cuda_widen(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_k_small *w,
                       size_t first, size_t n)
{
    (void)e;
    const small_matrix s = small_matrix_of(w);
    const unsigned blocks = cuda_blocks(s.lines * n);
    if (s.lines == 0 || n == 0)
        return;
    if (w->type == QKV_K_BF16)
        LAUNCH(widen_kernel<QKV_K_BF16>, blocks, BLOCK, 0, y, ldy, s, first, n);
    else if (w->type == QKV_K_INT8)
        LAUNCH(widen_kernel<QKV_K_INT8>, blocks, BLOCK, 0, y, ldy, s, first, n);
    else
        LAUNCH(widen_kernel<QKV_K_INT4>, blocks, BLOCK, 0, y, ldy, s, first, n);
}

template <int TYPE>
static __global__ void __launch_bounds__(BLOCK) embed_kernel(embed_small_args a)
{
    embed_lines<TYPE>(a, (size_t)blockIdx.x * blockDim.x + threadIdx.x,
                      (size_t)gridDim.x * blockDim.x);
}

static void cuda_embed_small(const qkv_exec *e, qkv_real *y, const int32_t *ids,
                             const qkv_k_small *table, double scale, const int32_t *positions,
                             const qkv_real *ptable, size_t N)
{
    (void)e;
    const embed_small_args a = {y, ids, positions, ptable, small_matrix_of(table), (float)scale, N};
    const unsigned blocks = cuda_blocks(a.table.lines * N);
    if (a.table.lines == 0 || N == 0 || list_embed_small(a))
        return;
    if (table->type == QKV_K_BF16)
        LAUNCH(embed_kernel<QKV_K_BF16>, blocks, BLOCK, 0, a);
    else if (table->type == QKV_K_INT8)
        LAUNCH(embed_kernel<QKV_K_INT8>, blocks, BLOCK, 0, a);
    else
        LAUNCH(embed_kernel<QKV_K_INT4>, blocks, BLOCK, 0, a);
}

/* Rows past n, which fill up the last group, become those of a matrix of zeros. */
static __global__ void __launch_bounds__(BLOCK) take_words(small_matrix y, small_matrix x,
                                                           const int32_t *ids, uint32_t zero,
                                                           size_t total)
{
    for (FOR_EACH(i, total)) {
        size_t group, line;
        split(i / QKV_K_PACKED, y.lines, &group, &line);
        const size_t row = group * QKV_K_PACKED + i % QKV_K_PACKED;
        y.words[i] = row < y.n ? x.words[small_word(x, (size_t)ids[row], line)] : zero;
    }
}

static __global__ void __launch_bounds__(BLOCK) take_scales8(small_matrix y, small_matrix x,
                                                             const int32_t *ids, size_t total)
{
    for (FOR_EACH(row, total))
        ((float *)y.scales)[row] = row < y.n ? ((const float *)x.scales)[ids[row]] : 0;
}

static __global__ void __launch_bounds__(BLOCK) take_scales4(small_matrix y, small_matrix x,
                                                             const int32_t *ids, size_t total)
{
    for (FOR_EACH(i, total)) {
        size_t group, block;
        split(i / QKV_K_PACKED, y.blocks, &group, &block);
        const size_t row = group * QKV_K_PACKED + i % QKV_K_PACKED;
        ((uint16_t *)y.scales)[i] =
            row < y.n ? ((const uint16_t *)x.scales)[small_scale4(x, (size_t)ids[row], block)] : 0;
    }
}

static void cuda_take_small(const qkv_exec *e, const qkv_k_small *to, const qkv_k_small *from,
                            const int32_t *ids)
{
    (void)e;
    const small_matrix y = small_matrix_of(to), x = small_matrix_of(from);
    const size_t rows = (y.n + QKV_K_PACKED - 1) / QKV_K_PACKED * QKV_K_PACKED;
    const size_t words = rows * y.lines, scales = rows * y.blocks;
    const uint32_t zero = to->type == QKV_K_BF16 ? 0 : to->type == QKV_K_INT8 ? 0x80808080u
                                                                             : 0x88888888u;
    if (words == 0)
        return;
    LAUNCH(take_words, cuda_blocks(words), BLOCK, 0, y, x, ids, zero, words);
    if (to->type == QKV_K_INT8)
        LAUNCH(take_scales8, cuda_blocks(rows), BLOCK, 0, y, x, ids, rows);
    else if (to->type == QKV_K_INT4)
        LAUNCH(take_scales4, cuda_blocks(scales), BLOCK, 0, y, x, ids, scales);
}

extern "C" void qkv__cuda_widen(qkv_kernels *k)
{
    k->widen = cuda_widen;
    k->embed_small = cuda_embed_small;
    k->take_small = cuda_take_small;
}
