/* cross_entropy_pair.cu - cross-entropy of two readings of every row and how far they are apart. */
#include "kernel/cuda/cross_entropy.cuh"

typedef struct {
    float *loss, *nll, *kl, *da, *db;
    const float *a, *b;
    const int32_t *targets;
    xent_sizes s;
} xent_pair_job;

/* What turns logits into log-probabilities: x - max - log_sum. */
typedef struct {
    float max, log_sum;
    double loss, nll; /* of this reading */
} pair_reading;

static __device__ __forceinline__ pair_reading pair_read(const float *x, int target,
                                                         xent_sizes s, float *partial,
                                                         double *partial_double)
{
    const bool smooth = s.off != 0;
    const row_groups g = groups_of(x, s.V);
    const float of_target = x[target];
    double others;
    row_reading r = xent_read(x, NULL, g, smooth, target, &others);
    r = block_reading(r, false, partial);
    others = smooth ? block_sum(others, partial_double) : 0;
    const double log_sum = log((double)r.sum), t = (double)of_target - (double)r.max;
    others -= (double)(s.V - 1) * (double)r.max;
    pair_reading p = {r.max, (float)log_sum, log_sum - s.on * t - (smooth ? s.off * others : 0),
                      log_sum - t};
    return p;
}

static __device__ __forceinline__ float log_probability(float x, pair_reading p)
{
    return x - p.max - p.log_sum;
}

/* With p and q the probabilities and d = log p - log q: sums of p d and of -q d. */
static __device__ __forceinline__ void pair_add(float2 *sums, float a, float b, pair_reading of_a,
                                                pair_reading of_b, bool inside)
{
    const float la = log_probability(a, of_a), lb = log_probability(b, of_b), d = la - lb;
    sums->x += inside ? expf(la) * d : 0;
    sums->y -= inside ? expf(lb) * d : 0;
}

typedef struct {
    float scale, half, pq, qp;
} pair_slopes;

/* a and b become their gradients; y: what the target has of them. */
static __device__ __forceinline__ void pair_slope(float *a, float *b, float y, pair_reading of_a,
                                                  pair_reading of_b, pair_slopes s)
{
    const float la = log_probability(*a, of_a), lb = log_probability(*b, of_b), d = la - lb;
    const float p = expf(la), q = expf(lb);
    *a = s.scale * (p - y + s.half * (p * (d - s.pq) + p - q));
    *b = s.scale * (q - y + s.half * (q * (-d - s.qp) + q - p));
}

static __device__ __forceinline__ void pair_row(xent_pair_job j, size_t row, float *partial,
                                                double *partial_double)
{
    const float *a = j.a + row * j.s.V, *b = j.b + row * j.s.V;
    const row_groups g = groups_of(a, j.s.V);
    const int target = j.targets[row];
    const pair_reading of_a = pair_read(a, target, j.s, partial, partial_double);
    const pair_reading of_b = pair_read(b, target, j.s, partial, partial_double);
    float2 sums = make_float2(0, 0);
    for (unsigned i = threadIdx.x; i < g.count; i += blockDim.x) {
        const int first = group_first(g, i);
        const float4 v = load_group(a, g, i, 0), w = load_group(b, g, i, 0);
        pair_add(&sums, v.x, w.x, of_a, of_b, in_row(g, first));
        pair_add(&sums, v.y, w.y, of_a, of_b, in_row(g, first + 1));
        pair_add(&sums, v.z, w.z, of_a, of_b, in_row(g, first + 2));
        pair_add(&sums, v.w, w.w, of_a, of_b, in_row(g, first + 3));
    }
    const float pq = block_sum(sums.x, partial), qp = block_sum(sums.y, partial);
    const double both = (double)pq + (double)qp, half = j.s.rdrop / 2;
    if (threadIdx.x == 0) {
        j.loss[row] = (float)(of_a.loss + of_b.loss + half * both);
        if (j.nll)
            j.nll[row] = (float)(of_a.nll + of_b.nll);
        if (j.kl)
            j.kl[row] = (float)(both / 2);
    }
    if (!j.da)
        return;
    const pair_slopes s = {(float)j.s.scale, (float)half, pq, qp};
    const float on = (float)j.s.on, off = (float)j.s.off;
    for (unsigned i = threadIdx.x; i < g.count; i += blockDim.x) {
        const int first = group_first(g, i);
        float4 v = load_group(a, g, i, 0), w = load_group(b, g, i, 0);
        pair_slope(&v.x, &w.x, first == target ? on : off, of_a, of_b, s);
        pair_slope(&v.y, &w.y, first + 1 == target ? on : off, of_a, of_b, s);
        pair_slope(&v.z, &w.z, first + 2 == target ? on : off, of_a, of_b, s);
        pair_slope(&v.w, &w.w, first + 3 == target ? on : off, of_a, of_b, s);
        store_group(j.da + row * j.s.V, g, i, v);
        store_group(j.db + row * j.s.V, g, i, w);
    }
}

/* A row that is ignored. */
static __device__ void pair_none(xent_pair_job j, size_t row)
{
    const row_groups g = groups_of(j.a + row * j.s.V, j.s.V);
    if (threadIdx.x == 0) {
        j.loss[row] = 0;
        if (j.nll)
            j.nll[row] = 0;
        if (j.kl)
            j.kl[row] = 0;
    }
    if (!j.da)
        return;
    xent_clear(j.da + row * j.s.V, g);
    xent_clear(j.db + row * j.s.V, g);
}

static __global__ void __launch_bounds__(ROW_THREADS_MOST) xent_pair_rows(xent_pair_job j)
{
    __shared__ float partial[WARP];
    __shared__ double partial_double[WARP];
    for (size_t row = blockIdx.x; row < j.s.N; row += gridDim.x) {
        if (j.targets[row] == j.s.ignore)
            pair_none(j, row);
        else
            pair_row(j, row, partial, partial_double);
    }
}

extern "C" void cuda_xent_pair(const qkv_exec *e, qkv_real *loss, qkv_real *nll, qkv_real *kl,
                               qkv_real *da, qkv_real *db, const qkv_real *a, const qkv_real *b,
                               const int32_t *targets, const qkv_k_xent_args *args)
{
    (void)e;
    const xent_pair_job j = {loss, nll, kl, da, db, a, b, targets, *args};
    if (args->N > 0)
        LAUNCH(xent_pair_rows, row_blocks(args->N), row_threads(args->V), 0, j);
}
