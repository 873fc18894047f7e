/* mma.cuh - tensor cores: products of small matrices in bf16 with sums in f32, what loads their
 * operands from shared memory, and copies to shared memory that run beside the arithmetic.
 *
 * Lane l of a warp has g = l / 4 and t = l % 4. Of a (16, 16): a[0] is row g, columns 2t and 2t+1;
 * a[1] row g + 8; a[2] row g, columns 2t+8 and 2t+9; a[3] row g + 8 of these. Of b (16, 8): b0 is
 * rows 2t and 2t+1 of column g, b1 rows 2t+8 and 2t+9. Of c (16, 8): c[0], c[1] are row g, columns
 * 2t and 2t+1; c[2], c[3] row g + 8. Two neighbours share a register, the first in its low half. */
#ifndef QKV_KERNEL_CUDA_MMA_CUH
#define QKV_KERNEL_CUDA_MMA_CUH

#include "kernel/cuda/cuda.cuh"

#ifndef QKV_CUDA_EMULATED

/* c += a b */
static __device__ __forceinline__ void mma_16x8x16(float (&c)[4], const unsigned (&a)[4],
                                                   unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Four matrices (8, 8): lane l gives the address of row l % 8 of matrix l / 8, 16 bytes aligned to
 * 16. x[i] is row g of matrix i, columns 2t and 2t+1; across: column g, rows 2t and 2t+1. */
static __device__ __forceinline__ void load_matrices(unsigned (&x)[4], const bf16 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}

static __device__ __forceinline__ void load_matrices_across(unsigned (&x)[4], const bf16 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* 16 bytes to shared memory, both aligned to 16; of nothing but zeros where there is no source. */
static __device__ __forceinline__ void copy_async_16(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

static __device__ __forceinline__ void copy_async_8(void *to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
                 :
                 : "r"(shared_address(to)), "l"(from)
                 : "memory");
}

/* Copies since the last one are a group; waits for all but the last `left` groups of the thread. */
static __device__ __forceinline__ void copy_async_group(void)
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int left> static __device__ __forceinline__ void copy_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" : : "n"(left) : "memory");
}

/* 2^x; 0 below 2^-126. */
static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else

/* The same by what the lanes of the warp tell each other. */
struct emulated_operands {
    unsigned a[4], b[2];
};

static inline float emulated_half(unsigned word, int high)
{
    return __uint_as_float(high ? word & 0xffff0000u : word << 16);
}

static inline void mma_16x8x16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    char *slots = emulated_warp_slots();
    const unsigned lane = emulated_lane(), g = lane / 4, t = lane % 4;
    const emulated_operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    memcpy(slots + lane * 64, &mine, sizeof mine);
    __syncwarp();
    for (unsigned k = 0; k < 16; k++) {
        const unsigned pair = k % 8 / 2, high = k % 2, later = k / 8;
        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = g + i / 2 * 8, column = 2 * t + i % 2;
            const emulated_operands *x =
                (const emulated_operands *)(slots + (row % 8 * 4 + pair) * 64);
            const emulated_operands *y =
                (const emulated_operands *)(slots + (column * 4 + pair) * 64);
            c[i] += emulated_half(x->a[row / 8 + 2 * later], high) *
                    emulated_half(y->b[later], high);
        }
    }
    __syncwarp();
}

static inline void emulated_matrices(unsigned (&x)[4], const bf16 *row, bool across)
{
    char *slots = emulated_warp_slots();
    const unsigned lane = emulated_lane(), g = lane / 4, t = lane % 4;
    emulated_aligned(row, 16);
    memcpy(slots + lane * 64, &row, sizeof row);
    __syncwarp();
    for (unsigned i = 0; i < 4; i++) {
        uint16_t half[2];
        for (unsigned n = 0; n < 2; n++) {
            const bf16 *from;
            memcpy(&from, slots + (i * 8 + (across ? 2 * t + n : g)) * 64, sizeof from);
            memcpy(&half[n], from + (across ? g : 2 * t + n), sizeof half[n]);
        }
        x[i] = half[0] | (unsigned)half[1] << 16;
    }
    __syncwarp();
}

static inline void load_matrices(unsigned (&x)[4], const bf16 *row)
{
    emulated_matrices(x, row, false);
}

static inline void load_matrices_across(unsigned (&x)[4], const bf16 *row)
{
    emulated_matrices(x, row, true);
}

static inline void copy_async_16(void *to, const void *from, bool there)
{
    emulated_aligned(to, 16);
    if (there)
        emulated_aligned(from, 16);
    if (there)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
}

static inline void copy_async_8(void *to, const void *from)
{
    emulated_aligned(to, 8);
    emulated_aligned(from, 8);
    memcpy(to, from, 8);
}

static inline void copy_async_group(void) {}
template <int left> static inline void copy_async_wait(void) {}

static inline float exp2_fast(float x)
{
    return x < -126 ? 0 : std::exp2(x);
}

#endif
#endif
