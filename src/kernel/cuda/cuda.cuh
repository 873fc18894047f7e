/* cuda.cuh - what the files of CUDA kernels share: launches, errors, copies of small host arrays,
 * sums over warps and blocks.
 *
 * Every kernel of a process runs on one stream, so each sees what those before it wrote, and
 * scratch memory can be released as soon as the kernel that uses it is launched, or listed
 * (list.cuh). The same files are compiled as C++ against tests/cuda/emulator, which runs blocks and
 * threads on the CPU, one after another: write LAUNCH for <<<>>>, DYNAMIC_SHARED for shared memory
 * whose size the launch gives, and no float atomics (sums have an order that sizes alone
 * decide). */
#ifndef QKV_KERNEL_CUDA_CUH
#define QKV_KERNEL_CUDA_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" {
#include "base/device.h"
#include "kernel/kernel.h"
}

typedef __nv_bfloat16 bf16;

/* Does the kernel's parameter i hold bf16 (qkv_exec)? */
static inline bool holds_bf16(const qkv_exec *e, unsigned i) { return e->bf16 >> i & 1; }

/* ---- launches -------------------------------------------------------------------------------- */

/* BARE: of what waits itself (gather.cuh), whose writes have been counted. */
#ifdef QKV_CUDA_EMULATED
#define LAUNCH_BARE(kernel, grid, block, shared, ...)                                              \
    emulated_launch(grid, block, shared, [=]() { kernel(__VA_ARGS__); })
#define DYNAMIC_SHARED(name) char *name = emulated_dynamic_shared()
#else
#define LAUNCH_BARE(kernel, grid, block, shared, ...)                                              \
    (kernel<<<grid, block, shared, cuda_bare_stream()>>>(__VA_ARGS__),                             \
     cuda_note(cudaGetLastError()))
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) char name[]
#endif
/* kernel<<<grid, block, shared>>>(arguments); the name of a template with several parameters in
 * parentheses. An error is remembered (cuda_error). */
#define LAUNCH(kernel, grid, block, shared, ...)                                                   \
    ((void)cuda_stream(), LAUNCH_BARE(kernel, grid, block, shared, __VA_ARGS__), cuda_wrote())

enum { WARP = 32, BLOCK = 256, GRID_MOST = 1 << 20 };

/* The stream, once kernels that wait in a list (list.cuh) or a gathering (gather.cuh) have been
 * launched: whatever is asked of it is asked right after this call. */
cudaStream_t cuda_stream(void);
cudaStream_t cuda_bare_stream(void); /* kernels may be waiting */
/* Remembers the first error that is not cudaSuccess; sync reports it. */
void cuda_note(cudaError_t error);
int cuda_multiprocessors(void);
/* Counts what may have written to device memory: launches, copies and fills. */
void cuda_wrote(void);
typedef struct {
    uint64_t all, own; /* of every thread, of the calling one */
} cuda_writes;
cuda_writes cuda_writes_now(void);
/* What the calling thread launched since then wrote `bytes` from `to` on, and `more_bytes` from
 * `more` on, and nothing else: copies of what products read (operands.cu) stay right, but of
 * that. */
void cuda_wrote_alone(cuda_writes since, const void *to, size_t bytes, const void *more = NULL,
                      size_t more_bytes = 0);
/* A copy of a small host array on the device, perhaps one that was made before, valid for what is
 * launched before the next half of UPLOADS_BYTES of uploads; at most UPLOAD_MOST bytes, else NULL
 * and an error is remembered. */
enum { UPLOAD_MOST = 4 << 20, UPLOADS_BYTES = 64 << 20 };
const void *cuda_upload(const void *host, size_t bytes);

/* Blocks for n threads of BLOCK; kernels go on in steps of the grid where that is not enough. */
static inline unsigned cuda_blocks(size_t n)
{
    const size_t blocks = (n + BLOCK - 1) / BLOCK, most = GRID_MOST;
    return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

/* for (FOR_EACH(i, n)) { ... }: the threads of a one-dimensional grid share 0 .. n-1. */
#define FOR_EACH(i, n)                                                                             \
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                            \
    i += (size_t)gridDim.x * blockDim.x

/* p, which points into the device's memory and not into shared memory: loads are quicker then. */
template <typename T> static __device__ __forceinline__ T *in_global(T *p)
{
#ifndef QKV_CUDA_EMULATED
    __builtin_assume(__isGlobal(p));
#endif
    return p;
}

/* And p, which points into shared memory. */
template <typename T> static __device__ __forceinline__ T *in_shared(T *p)
{
#ifndef QKV_CUDA_EMULATED
    __builtin_assume(__isShared(p));
#endif
    return p;
}

/* ---- bf16 ---------------------------------------------------------------------------------- */

/* x and y in bf16, x in the low half; and back. */
static __device__ __forceinline__ unsigned bf16_pair(float x, float y)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
    unsigned word;
    memcpy(&word, &both, sizeof word);
    return word;
}

static __device__ __forceinline__ float2 floats_of_pair(unsigned pair)
{
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

/* ---- sums: over the whole warp, or the whole block; every thread gets the result ------------- */

static __device__ __forceinline__ float warp_sum(float x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

static __device__ __forceinline__ double warp_sum(double x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

static __device__ __forceinline__ float warp_max(float x)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d)); /* NaN: the other one */
    return x;
}

/* partial: WARP numbers of shared memory, which may be used again at once: the function ends with a
 * barrier. blockDim.x is a multiple of WARP, of at most 1024. */
template <typename T> static __device__ __forceinline__ T block_sum(T x, T *partial)
{
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_sum(x);
    if (lane == 0)
        partial[warp] = x;
    __syncthreads();
    x = lane < warps ? partial[lane] : (T)0;
    x = warp_sum(x);
    __syncthreads();
    return x;
}

static __device__ __forceinline__ float block_max(float x, float *partial)
{
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_max(x);
    if (lane == 0)
        partial[warp] = x;
    __syncthreads();
    x = lane < warps ? partial[lane] : partial[0];
    x = warp_max(x);
    __syncthreads();
    return x;
}

/* ---- the files: each fills the slots that it has --------------------------------------------- */

extern "C" {
qkv__fill_fn qkv__cuda_elementwise, qkv__cuda_activations, qkv__cuda_copy, qkv__cuda_sums,
    qkv__cuda_update, qkv__cuda_norms, qkv__cuda_rows, qkv__cuda_channels, qkv__cuda_group_norm,
    qkv__cuda_cross_entropy, qkv__cuda_top, qkv__cuda_embedding, qkv__cuda_gemm, qkv__cuda_gemv,
    qkv__cuda_small, qkv__cuda_widen, qkv__cuda_conv, qkv__cuda_pool, qkv__cuda_kv,
    qkv__cuda_attention;
/* Products and attention of operands rounded to bf16, over those of f32. */
qkv__fill_fn qkv__cuda_gemm_bf16, qkv__cuda_attention_bf16, qkv__cuda_conv_bf16,
    qkv__cuda_activations_bf16, qkv__cuda_norms_bf16, qkv__cuda_cross_entropy_bf16,
    qkv__cuda_cross_entropy_rounded,
    qkv__cuda_conv_rounded, qkv__cuda_conv_cudnn;
/* Kernels that time themselves, where the environment asks for it. */
void cuda_profile(qkv_kernels *f32, qkv_kernels *bf16);
/* The products, for other files. */
qkv_k_gemm_fn cuda_gemm, cuda_gemm_bf16;
}

#endif
