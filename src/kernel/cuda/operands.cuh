/* operands.cuh - copies in bf16 of what products multiply.
 *
 * Values are f32 in memory, and products of bf16 read copies that are rounded to nearest, ties to
 * even. The last copies are kept, each until anything but a product, or a kernel that says what
 * alone it writes, has been launched: a backward pass multiplies a gradient twice, and kernels that
 * write what a product reads next leave its copy beside it. Parameters, whose states have versions,
 * have copies of their own: as many as memory has room for, until it is wanted. An update writes
 * that of what it updates. */
#ifndef QKV_KERNEL_CUDA_OPERANDS_CUH
#define QKV_KERNEL_CUDA_OPERANDS_CUH

#include "kernel/cuda/cuda.cuh"

/* The copy of x (rows, cols; row stride ldx), made unless it is kept; rows *ldy apart. *padded:
 * rows of zeros follow, to a multiple of 8. version: b_version of a product. NULL without memory.
 * Between lock and unlock, for two operands of one product. */
const bf16 *operand_rounded(const float *x, size_t rows, size_t cols, size_t ldx, size_t *ldy,
                            bool *padded = NULL, uint64_t version = 0);

/* y (all) = x (n) in bf16, and zeros. */
void operand_round_vector(bf16 *y, const float *x, size_t n, size_t all);

/* A kernel is to write x (n numbers) and their copy: where that goes, NULL: nowhere. Other threads
 * wait from here to operand_written. */
bf16 *operand_room(const float *x, size_t n);
/* It has been launched. copy: what operand_room gave. */
void operand_written(const bf16 *copy);

/* A kernel is to write x (n numbers), a parameter, which from `version` becomes `becomes`: its copy
 * if there is one of numbers in x's order, which the kernel writes too, else NULL. Other threads
 * wait from here to operand_updated. */
bf16 *operand_to_update(const float *x, size_t n, uint64_t version, uint64_t becomes);
/* It has been launched. copy: what operand_to_update gave. */
void operand_updated(const bf16 *copy);

/* Around a product: products of different threads take turns. unlock: after it wrote c (m rows,
 * ldc apart). */
void operands_lock(void);
void operands_unlock(const float *c, size_t m, size_t ldc);

/* Frees the copies of parameters in memory that is to be freed. */
void operands_drop(const void *memory, size_t bytes);
/* Frees the copies, but of those that a product is being made of; false: there were none. */
bool operands_forget(void);

/* 4 numbers of a copy. */
static __device__ __forceinline__ void operand_store(bf16 *copy, float a, float b, float c, float d)
{
    __nv_bfloat162 *to = (__nv_bfloat162 *)copy;
    to[0] = __floats2bfloat162_rn(a, b);
    to[1] = __floats2bfloat162_rn(c, d);
}

#endif
