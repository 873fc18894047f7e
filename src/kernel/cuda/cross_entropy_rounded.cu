/* cross_entropy_rounded.cu - cross-entropy of rows of logits in bf16, whose gradient takes their
 * place in bf16: a block for a row, which shared memory keeps where it fits. Sums are in f32. */
#include "kernel/cuda/cross_entropy.cuh"

enum { LOGITS_THREADS = 512, LOGITS_GROUP = 8 };
static const float log2_e = 1.44269504088896340736f;

/* Rows begin at multiples of 16 bytes, ld numbers apart. */
typedef struct {
    float *loss, *nll;
    int32_t *argmax;
    bf16 *dlogits;
    const bf16 *logits;
    const int32_t *targets;
    xent_sizes s;
} logits_job;

/* Eight numbers, of which those from `count` on are absent. */
typedef struct {
    float v[LOGITS_GROUP];
} logits_group;

static __device__ __forceinline__ logits_group group_of(uint4 words, int count)
{
    const unsigned word[] = {words.x, words.y, words.z, words.w};
    logits_group g;
#pragma unroll
    for (int i = 0; i < LOGITS_GROUP / 2; i++) {
        const float2 two = floats_of_pair(word[i]);
        g.v[2 * i] = 2 * i < count ? two.x : -INFINITY;
        g.v[2 * i + 1] = 2 * i + 1 < count ? two.y : -INFINITY;
    }
    return g;
}

static __device__ __forceinline__ float exp_from(float x, float max)
{
    return exp2f((x - max) * log2_e);
}

static __device__ __forceinline__ void read_logits(row_reading *r, const logits_group &g, int first)
{
    float most = g.v[0];
#pragma unroll
    for (int i = 1; i < LOGITS_GROUP; i++)
        most = fmaxf(most, g.v[i]);
    if (most > r->max) {
        r->sum *= exp_from(r->max, most);
        r->max = most;
        int at = LOGITS_GROUP - 1;
#pragma unroll
        for (int i = LOGITS_GROUP - 2; i >= 0; i--)
            at = g.v[i] == most ? i : at;
        r->at = first + at;
    }
    const float m = r->max == -INFINITY ? 0 : r->max;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < LOGITS_GROUP; i++)
        sum += exp_from(g.v[i], m);
    r->sum += sum;
}

/* The sum of a group without the target's. */
static __device__ __forceinline__ float logits_of_others(const logits_group &g, int first,
                                                         int target, int count)
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < LOGITS_GROUP; i++)
        sum += i < count && first + i != target ? g.v[i] : 0;
    return sum;
}

/* d = scale (p - q); numbers between V and ld become 0. */
static __device__ __forceinline__ uint4 logits_gradient(const logits_group &g, int first,
                                                        int target, int count, float max, float by,
                                                        float on, float off)
{
    float d[LOGITS_GROUP];
#pragma unroll
    for (int i = 0; i < LOGITS_GROUP; i++)
        d[i] = i < count ? exp_from(g.v[i], max) * by - (first + i == target ? on : off) : 0;
    return make_uint4(bf16_pair(d[0], d[1]), bf16_pair(d[2], d[3]), bf16_pair(d[4], d[5]),
                      bf16_pair(d[6], d[7]));
}

static __device__ __forceinline__ row_reading logits_read(const uint4 *x, uint4 *kept, int V,
                                                          bool smooth, int target, double *others)
{
    const unsigned groups = (unsigned)(V + LOGITS_GROUP - 1) / LOGITS_GROUP;
    row_reading r = reading_of_none();
    for (unsigned start = threadIdx.x; start < groups; start += AHEAD * blockDim.x) {
        uint4 words[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const unsigned j = start + (unsigned)i * blockDim.x;
            words[i] = x[j < groups ? j : start];
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const unsigned j = start + (unsigned)i * blockDim.x;
            if (j >= groups)
                break;
            const int first = (int)j * LOGITS_GROUP, count = V - first;
            const logits_group g = group_of(words[i], count);
            if (kept)
                kept[j] = words[i];
            read_logits(&r, g, first);
            if (smooth)
                *others += (double)logits_of_others(g, first, target, count);
        }
    }
    return r;
}

static __device__ __forceinline__ void logits_row(const logits_job &a, size_t row, uint4 *kept,
                                                  float *partial, double *partial_double)
{
    const bf16 *logits = a.logits + row * a.s.ld;
    const uint4 *x = (const uint4 *)logits;
    const int V = (int)a.s.V;
    const unsigned groups = (unsigned)(V + LOGITS_GROUP - 1) / LOGITS_GROUP;
    const bool counts = a.targets[row] != a.s.ignore, smooth = a.s.off != 0;
    const int target = counts ? a.targets[row] : 0;
    /* dlogits may be written over them */
    const float of_target = __bfloat162float(logits[target]);
    const float of_first = __bfloat162float(logits[0]);
    row_reading r = reading_of_none();
    double others = 0;
    if (counts || a.argmax) {
        r = logits_read(x, counts && a.dlogits ? kept : NULL, V, smooth, target, &others);
        r = block_reading(r, a.argmax != NULL, partial);
        others = smooth ? block_sum(others, partial_double) : 0;
    }
    if (threadIdx.x == 0)
        xent_tell(a, row, r, counts, of_target, of_first, others);
    if (!a.dlogits)
        return;
    uint4 *d = (uint4 *)(a.dlogits + row * a.s.ld);
    const float by = (float)a.s.scale / r.sum;
    const float on = (float)(a.s.scale * a.s.on), off = (float)(a.s.scale * a.s.off);
    for (unsigned j = threadIdx.x; j < groups; j += blockDim.x) {
        const int first = (int)j * LOGITS_GROUP, count = V - first;
        d[j] = !counts ? make_uint4(0, 0, 0, 0)
                       : logits_gradient(group_of(kept ? kept[j] : x[j], count), first, target,
                                         count, r.max, by, on, off);
    }
}

/* KEEP: rows stay in shared memory from when they are read until their gradient is written. */
template <bool KEEP> __global__ void __launch_bounds__(LOGITS_THREADS, 2) logits_rows(logits_job a)
{
    DYNAMIC_SHARED(shared);
    __shared__ float partial[WARP];
    __shared__ double partial_double[WARP];
    for (size_t row = blockIdx.x; row < a.s.N; row += gridDim.x)
        logits_row(a, row, KEEP ? (uint4 *)shared : NULL, partial, partial_double);
}

static void launch_logits(const logits_job &a)
{
    enum { KEPT_MOST = 220 << 10 };
    const size_t bytes = (a.s.V + LOGITS_GROUP - 1) / LOGITS_GROUP * sizeof(uint4);
    const unsigned threads = bytes < 64 * sizeof(uint4)    ? 64
                             : bytes < 1024 * sizeof(uint4) ? 128
                                                            : (unsigned)LOGITS_THREADS;
    if (a.s.N == 0)
        return;
    if (!a.dlogits || bytes > KEPT_MOST) {
        LAUNCH(logits_rows<false>, row_blocks(a.s.N), threads, 0, a);
        return;
    }
    cuda_note(cudaFuncSetAttribute(logits_rows<true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   KEPT_MOST));
    LAUNCH(logits_rows<true>, row_blocks(a.s.N), threads, bytes, a);
}

static qkv_k_xent_fn *xent_f32; /* of logits in f32, which leaves a copy of their gradient */

/* logits and dlogits may hold bf16, both if there are both. */
static void cuda_xent_rounded(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                              qkv_real *dlogits, const qkv_real *logits, const int32_t *targets,
                              const qkv_k_xent_args *args)
{
    if (!holds_bf16(e, 3)) {
        xent_f32(e, loss, nll, argmax, dlogits, logits, targets, args);
        return;
    }
    const cuda_writes before = cuda_writes_now();
    logits_job a = {loss, nll, argmax, (bf16 *)dlogits, (const bf16 *)logits, targets, *args};
    a.s.ld = a.s.ld ? a.s.ld : a.s.V;
    launch_logits(a);
    if (!argmax && !nll)
        cuda_wrote_alone(before, dlogits, dlogits ? args->N * a.s.ld * sizeof(bf16) : 0, loss,
                         args->N * sizeof(float));
}

extern "C" void qkv__cuda_cross_entropy_rounded(qkv_kernels *k)
{
    xent_f32 = k->xent;
    k->xent = cuda_xent_rounded;
}
