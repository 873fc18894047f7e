/* group_norm.cuh - what both passes of group norm share: sizes, numbers of groups for the channels
 * of a thread, sums over the channels of a group. */
#ifndef QKV_KERNEL_CUDA_GROUP_NORM_CUH
#define QKV_KERNEL_CUDA_GROUP_NORM_CUH

#include "kernel/cuda/columns.cuh"

typedef struct {
    size_t B, N, C, G, width; /* width: channels of a group */
    float eps;
    bool silu;
} group_sizes;

static inline group_sizes group_sizes_of(const qkv_k_group_norm_args *args)
{
    group_sizes s = {args->B, args->N, args->C, args->G, args->C / args->G, (float)args->eps,
                     args->silu};
    return s;
}

/* v[g], g being the group of each of a thread's columns; v (B, G). */
template <bool QUADS>
static __device__ __forceinline__ float4 load_of_groups(const float *v, column_place at,
                                                        group_sizes s)
{
    const size_t last = s.C - 1, c = at.c, step = at.step;
    v += at.image * s.G;
    return make_float4(v[min(c, last) / s.width], v[min(c + step, last) / s.width],
                       v[min(c + 2 * step, last) / s.width], v[min(c + 3 * step, last) / s.width]);
}

static __device__ __forceinline__ float4 times4(float4 a, float4 b)
{
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

/* The sigmoid beside numbers of type T: of fewer digits where they are bf16. */
template <typename T> static __device__ __forceinline__ float group_sigmoid(float u)
{
    if constexpr (sizeof(T) == sizeof(float))
        return 1 / (1 + expf(-u));
    else
        return __fdividef(1, 1 + __expf(-u));
}

typedef struct {
    double x, y;
} sum_pair;

/* Both sums of a group, a warp's: over the chunks of its image and its channels. partial
 * (B * chunks, 2, C); times weight where it is not NULL. */
static __device__ __forceinline__ sum_pair group_sums(const float *partial, const float *weight,
                                                      group_sizes s, size_t chunks, size_t group)
{
    const size_t image = group / s.G, first = group % s.G * s.width;
    sum_pair sum = {0, 0};
    for (size_t i = threadIdx.x % WARP; i < chunks * s.width; i += WARP) {
        size_t c = first + i % s.width;
        const float *p = partial + (image * chunks + i / s.width) * 2 * s.C + c;
        double by = weight ? (double)weight[c] : 1;
        sum.x += (double)p[0] * by;
        sum.y += (double)p[s.C] * by;
    }
    sum.x = warp_sum(sum.x);
    sum.y = warp_sum(sum.y);
    return sum;
}

/* Of BLOCK threads, with a warp for each group. */
static inline unsigned group_blocks(group_sizes s)
{
    return (unsigned)((s.B * s.G + BLOCK / WARP - 1) / (BLOCK / WARP));
}

extern "C" qkv_k_group_norm_bwd_fn cuda_group_norm_bwd;

#endif
