/* cross_entropy.cu - cross-entropy of rows of logits with its gradient: a block for a row, which is
 * read once where shared memory can keep it. */
#include "kernel/cuda/cross_entropy.cuh"
#include "kernel/cuda/operands.cuh"

/* ---- one target a row ------------------------------------------------------------------------ */

typedef struct {
    float *loss, *nll, *dlogits;
    int32_t *argmax;
    const float *logits;
    const int32_t *targets;
    bf16 *copy; /* of dlogits, whose rows then begin at multiples of 16 bytes; or NULL */
    xent_sizes s;
} xent_job;

/* d = scale (p - q), p = exp(x - max) / sum, and its copy. d may be x: a thread writes what it
 * alone has read. */
static __device__ __forceinline__ void xent_write(float *d, bf16 *copy, const float *x,
                                                  const float4 *kept, row_groups g, row_reading r,
                                                  int target, xent_sizes s)
{
    const float by = (float)s.scale / r.sum;
    const float on = (float)(s.scale * s.on), off = (float)(s.scale * s.off);
    for (unsigned start = threadIdx.x; start < g.count; start += AHEAD * blockDim.x) {
        float4 v[AHEAD];
        if (!kept)
            load_groups(v, x, g, start, 0);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const unsigned j = start + (unsigned)i * blockDim.x;
            const int first = group_first(g, j);
            if (j >= g.count)
                break;
            if (kept)
                v[i] = kept[j];
            v[i].x = expf(v[i].x - r.max) * by - (first == target ? on : off);
            v[i].y = expf(v[i].y - r.max) * by - (first + 1 == target ? on : off);
            v[i].z = expf(v[i].z - r.max) * by - (first + 2 == target ? on : off);
            v[i].w = expf(v[i].w - r.max) * by - (first + 3 == target ? on : off);
            store_group(d, g, j, v[i]);
            if (copy)
                operand_store(copy + first, v[i].x, v[i].y, v[i].z, v[i].w);
        }
    }
}

static __device__ __forceinline__ void xent_row(xent_job a, size_t row, float4 *kept,
                                                float *partial, double *partial_double)
{
    const float *x = a.logits + row * a.s.V;
    const row_groups g = groups_of(x, a.s.V);
    const bool counts = a.targets[row] != a.s.ignore, smooth = a.s.off != 0;
    const int target = counts ? a.targets[row] : 0;
    const float of_target = x[target], of_first = x[0]; /* dlogits may be written over them */
    row_reading r = reading_of_none();
    double others = 0;
    if (counts || a.argmax) {
        r = xent_read(x, counts && a.dlogits ? kept : NULL, g, smooth, target, &others);
        r = block_reading(r, a.argmax != NULL, partial);
        others = smooth ? block_sum(others, partial_double) : 0;
    }
    if (threadIdx.x == 0)
        xent_tell(a, row, r, counts, of_target, of_first, others);
    bf16 *copy = a.copy ? a.copy + row * a.s.V : NULL;
    if (a.dlogits && counts) {
        xent_write(a.dlogits + row * a.s.V, copy, x, kept, g, r, target, a.s);
    } else if (a.dlogits) {
        xent_clear(a.dlogits + row * a.s.V, g);
        for (size_t c = 4 * threadIdx.x; copy && c < a.s.V; c += 4 * blockDim.x)
            operand_store(copy + c, 0, 0, 0, 0);
    }
}

/* KEEP: rows stay in shared memory from when they are read until their gradient is written. */
template <bool KEEP> __global__ void __launch_bounds__(ROW_THREADS_MOST) xent_rows(xent_job a)
{
    DYNAMIC_SHARED(shared);
    __shared__ float partial[WARP];
    __shared__ double partial_double[WARP];
    for (size_t row = blockIdx.x; row < a.s.N; row += gridDim.x)
        xent_row(a, row, KEEP ? (float4 *)shared : NULL, partial, partial_double);
}

static void xent_launch(const xent_job &a)
{
    enum { KEPT_MOST = 220 << 10, KEPT_LEAST = 16 << 10 };
    const size_t bytes = (a.s.V + 3 + 3) / 4 * sizeof(float4);
    const bool keep = a.dlogits && bytes >= KEPT_LEAST && bytes <= KEPT_MOST;
    if (a.s.N == 0)
        return;
    if (!keep) {
        LAUNCH(xent_rows<false>, row_blocks(a.s.N), row_threads(a.s.V), 0, a);
        return;
    }
    cuda_note(cudaFuncSetAttribute(xent_rows<true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   KEPT_MOST));
    LAUNCH(xent_rows<true>, row_blocks(a.s.N), row_threads(a.s.V), bytes, a);
}

static void cuda_xent(const qkv_exec *, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                      qkv_real *dlogits, const qkv_real *logits, const int32_t *targets,
                      const qkv_k_xent_args *args)
{
    xent_launch({loss, nll, dlogits, argmax, logits, targets, NULL, *args});
}

static void cuda_xent_bf16(const qkv_exec *, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                           qkv_real *dlogits, const qkv_real *logits, const int32_t *targets,
                           const qkv_k_xent_args *args)
{
    const bool aligned = args->V % 8 == 0 && (uintptr_t)logits % 16 == 0 &&
                         (uintptr_t)dlogits % 16 == 0;
    bf16 *copy = dlogits && aligned ? operand_room(dlogits, args->N * args->V) : NULL;
    xent_launch({loss, nll, dlogits, argmax, logits, targets, copy, *args});
    operand_written(copy);
}

/* ---- a distribution a row -------------------------------------------------------------------- */

typedef struct {
    float *loss, *nll, *dlogits;
    int32_t *argmax;
    const float *logits, *targets;
    xent_sizes s;
} xent_soft_job;

/* Sums over a row, z being x - max: of the targets, of target z and of z. */
typedef struct {
    float targets, hard, all;
} soft_sums;

static __device__ __forceinline__ void soft_add(soft_sums *s, float x, float target, float max,
                                                bool smooth)
{
    const float z = x - max;
    s->targets += target;
    s->hard += target == 0 ? 0 : target * z; /* 0 log 0 is 0 */
    s->all += smooth ? z : 0;
}

static __device__ soft_sums soft_read(const float *x, const float *targets, row_groups g, float max,
                                      bool smooth, float *partial)
{
    soft_sums s = {0, 0, 0};
    for (unsigned j = threadIdx.x; j < g.count; j += blockDim.x) {
        const float4 v = load_group(x, g, j, max), t = load_group(targets, g, j, 0);
        soft_add(&s, v.x, t.x, max, smooth);
        soft_add(&s, v.y, t.y, max, smooth);
        soft_add(&s, v.z, t.z, max, smooth);
        soft_add(&s, v.w, t.w, max, smooth);
    }
    s.targets = block_sum(s.targets, partial);
    s.hard = block_sum(s.hard, partial);
    s.all = smooth ? block_sum(s.all, partial) : 0;
    return s;
}

static __device__ __forceinline__ void xent_soft_row(xent_soft_job a, size_t row, float *partial)
{
    const float *x = a.logits + row * a.s.V, *targets = a.targets + row * a.s.V;
    const row_groups g = groups_of(x, a.s.V);
    const float of_first = x[0];
    double unused;
    row_reading r = xent_read(x, NULL, g, false, 0, &unused);
    r = block_reading(r, a.argmax != NULL, partial);
    const soft_sums sums = soft_read(x, targets, g, r.max, a.s.off != 0, partial);
    const double spread = a.s.on - a.s.off, log_sum = log((double)r.sum);
    const double of_q = a.s.off * (double)a.s.V + spread * (double)sums.targets;
    if (threadIdx.x == 0) {
        const double all = a.s.off == 0 ? 0 : a.s.off * (double)sums.all;
        a.loss[row] = (float)(of_q * log_sum - spread * (double)sums.hard - all);
        if (a.nll)
            a.nll[row] = (float)((double)sums.targets * log_sum - (double)sums.hard);
        if (a.argmax)
            a.argmax[row] = of_first != of_first ? 0 : r.at;
    }
    if (!a.dlogits)
        return;
    float *d = a.dlogits + row * a.s.V;
    const float by = (float)(a.s.scale * of_q) / r.sum;
    const float on = (float)(a.s.scale * spread), off = (float)(a.s.scale * a.s.off);
    for (unsigned j = threadIdx.x; j < g.count; j += blockDim.x) {
        const float4 v = load_group(x, g, j, 0), t = load_group(targets, g, j, 0);
        store_group(d, g, j, make_float4(expf(v.x - r.max) * by - (off + on * t.x),
                                         expf(v.y - r.max) * by - (off + on * t.y),
                                         expf(v.z - r.max) * by - (off + on * t.z),
                                         expf(v.w - r.max) * by - (off + on * t.w)));
    }
}

static __global__ void __launch_bounds__(ROW_THREADS_MOST) xent_soft_rows(xent_soft_job a)
{
    __shared__ float partial[WARP];
    for (size_t row = blockIdx.x; row < a.s.N; row += gridDim.x)
        xent_soft_row(a, row, partial);
}

static void cuda_xent_soft(const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
                           qkv_real *dlogits, const qkv_real *logits, const qkv_real *targets,
                           const qkv_k_xent_args *args)
{
    (void)e;
    const xent_soft_job a = {loss, nll, dlogits, argmax, logits, targets, *args};
    if (args->N > 0)
        LAUNCH(xent_soft_rows, row_blocks(args->N), row_threads(args->V), 0, a);
}

extern "C" void qkv__cuda_cross_entropy(qkv_kernels *k)
{
    k->xent = cuda_xent;
    k->xent_soft = cuda_xent_soft;
    k->xent_pair = cuda_xent_pair;
}

extern "C" void qkv__cuda_cross_entropy_bf16(qkv_kernels *k) { k->xent = cuda_xent_bf16; }
