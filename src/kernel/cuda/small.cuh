/* small.cuh - weights in fewer bits on the device: where their numbers lie (kernel/small.h has the
 * layout). */
#ifndef QKV_KERNEL_CUDA_SMALL_CUH
#define QKV_KERNEL_CUDA_SMALL_CUH

#include "kernel/cuda/elements.cuh"

/* Words are multiples of 16 bytes in memory. */
struct small_matrix {
    qkv_k_small_type type;
    uint32_t *words; /* (groups, lines, QKV_K_PACKED) */
    void *scales;    /* INT8: float (rows); INT4: bf16 (groups, blocks, QKV_K_PACKED) */
    size_t n, k, lines;
    size_t blocks; /* of integers: along k, of numbers of x that share a scale */
};

/* Numbers of a row in a line. */
static constexpr __host__ __device__ int small_numbers(int type)
{
    return type == QKV_K_BF16 ? 2 : type == QKV_K_INT8 ? 4 : 8;
}

/* Numbers of x that share a scale; bf16: of a line. */
static constexpr __host__ __device__ int small_block(int type)
{
    return type == QKV_K_BF16   ? 2
           : type == QKV_K_INT8 ? (int)QKV_K_INT8_BLOCK
                                : (int)QKV_K_INT4_BLOCK;
}

static inline small_matrix small_matrix_of(const qkv_k_small *w)
{
    const size_t block = small_block(w->type), blocks = (w->k + block - 1) / block;
    return {w->type, (uint32_t *)w->words, w->scales, w->n, w->k,
            blocks * block / small_numbers(w->type), blocks};
}

static __device__ __forceinline__ float bf16_low(uint32_t word)
{
    return __uint_as_float(word << 16);
}
static __device__ __forceinline__ float bf16_high(uint32_t word)
{
    return __uint_as_float(word & 0xffff0000u);
}

static __device__ __forceinline__ size_t small_word(const small_matrix &w, size_t row, size_t line)
{
    return (row / QKV_K_PACKED * w.lines + line) * QKV_K_PACKED + row % QKV_K_PACKED;
}

/* Place of the scale of a block of a row, of blocks in 4 bits. */
static __device__ __forceinline__ size_t small_scale4(const small_matrix &w, size_t row,
                                                      size_t block)
{
    return (row / QKV_K_PACKED * w.blocks + block) * QKV_K_PACKED + row % QKV_K_PACKED;
}

/* The numbers of a row in a line: what small_reals of kernel/small.h gives. */
template <int TYPE>
static __device__ __forceinline__ void small_line(float out[8], const small_matrix &w, size_t row,
                                                  size_t line)
{
    const uint32_t word = w.words[small_word(w, row, line)];
    if constexpr (TYPE == QKV_K_BF16) {
        out[0] = bf16_low(word);
        out[1] = bf16_high(word);
    } else if constexpr (TYPE == QKV_K_INT8) {
        const float scale = ((const float *)w.scales)[row];
        for (int i = 0; i < 4; i++)
            out[i] = __fmul_rn(scale, (float)((int)(word >> 8 * i & 255) - 128));
    } else {
        const size_t block = line / (QKV_K_INT4_BLOCK / 8);
        const float scale = bf16_low(((const uint16_t *)w.scales)[small_scale4(w, row, block)]);
        for (int i = 0; i < 4; i++) {
            out[i] = __fmul_rn(scale, (float)((int)(word >> 8 * i & 15) - 8));
            out[i + 4] = __fmul_rn(scale, (float)((int)(word >> (8 * i + 4) & 15) - 8));
        }
    }
}

/* ---- rows by index --------------------------------------------------------------------------- */

struct embed_small_args {
    float *y;
    const int32_t *ids, *positions; /* positions NULL: none */
    const float *ptable;
    small_matrix table;
    float factor;
    size_t N;
};

/* A thread has one line's numbers of a row of y: lines first, first + step, .. of all rows. */
template <int TYPE>
static __device__ __forceinline__ void embed_lines(const embed_small_args &a, size_t first,
                                                   size_t step)
{
    enum { NUMBERS = small_numbers(TYPE) };
    for (size_t i = first; i < a.table.lines * a.N; i += step) {
        size_t n, line;
        float out[8];
        split(i, a.table.lines, &n, &line);
        small_line<TYPE>(out, a.table, (size_t)a.ids[n], line);
        const size_t C = a.table.k;
        const float *place = a.positions ? a.ptable + (size_t)a.positions[n] * C : NULL;
        for (size_t p = line * NUMBERS; p < (line + 1) * NUMBERS && p < C; p++)
            a.y[n * C + p] = __fadd_rn(__fmul_rn(a.factor, out[p % NUMBERS]), place ? place[p] : 0);
    }
}

#endif
