/* elementwise.cu - arithmetic on elements: sums, products, scaled rows, exp, 1/x, exchange, and
 * dropout. Memory sets the speed of all of it. */
#include "kernel/cuda/arithmetic.cuh"
#include "kernel/cuda/gather.cuh"
#include "kernel/cuda/list.cuh"

static void cuda_axpy(const qkv_exec *e, qkv_real *y, const qkv_real *x, double alpha, bool acc,
                      size_t n)
{
    (void)e;
    const axpy_body body = {y, x, (float)alpha, acc};
    if (!list_axpy(body, n))
        launch_elements(body, n, aligned16(y, x));
}

/* b in bf16. */
struct add_rounded_body {
    float *y;
    const float *a;
    const bf16 *b;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(a + i), u = load<W>(b + i);
        for (int k = 0; k < W; k++)
            v.v[k] += u.v[k];
        store<W>(y + i, v);
    }
};

/* b may hold bf16. */
static void cuda_add(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n)
{
    const add_body body = {y, a, b};
    if (holds_bf16(e, 2))
        launch_elements(add_rounded_body{y, a, (const bf16 *)b}, n, aligned16(y, a, b));
    else if (!list_add(body, n))
        launch_elements(body, n, aligned16(y, a, b));
}

static void cuda_mul(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b, bool acc,
                     size_t n)
{
    (void)e;
    const mul_body body = {y, a, b, acc};
    if (!list_mul(body, n))
        launch_elements(body, n, aligned16(y, a, b));
}

/* Of W elements of one row. */
struct scale_rows_body {
    float *y;
    const float *x, *factor;
    size_t C;
    bool acc;
    template <int W> __device__ void at(size_t i) const
    {
        size_t row, column;
        split(i, C, &row, &column);
        const float by = factor[row];
        pack<W> v = {};
        if (by != 0) {
            v = load<W>(x + i);
            for (int k = 0; k < W; k++)
                v.v[k] *= by;
        } else if (acc) {
            return;
        }
        put<W>(y + i, v, acc);
    }
};

static void cuda_scale_rows(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                            const qkv_real *factor, bool acc, size_t N, size_t C)
{
    (void)e;
    launch_elements(scale_rows_body{y, x, factor, C, acc}, N * C, C % 4 == 0 && aligned16(y, x));
}

struct exp_body {
    float *y;
    const float *x;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(x + i);
        for (int k = 0; k < W; k++)
            v.v[k] = expf(v.v[k]);
        store<W>(y + i, v);
    }
};

static void cuda_exp(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t n)
{
    (void)e;
    launch_elements(exp_body{y, x}, n, aligned16(y, x));
}

struct reciprocal_body {
    float *y;
    const float *x;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(x + i);
        for (int k = 0; k < W; k++)
            v.v[k] = 1 / v.v[k];
        store<W>(y + i, v);
    }
};

static void cuda_reciprocal(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t n)
{
    (void)e;
    launch_elements(reciprocal_body{y, x}, n, aligned16(y, x));
}

struct swap_body {
    float *x, *y;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(x + i), u = load<W>(y + i);
        store<W>(x + i, u);
        store<W>(y + i, v);
    }
};

static void cuda_swap(const qkv_exec *e, qkv_real *x, qkv_real *y, size_t n)
{
    (void)e;
    gather_elements(swap_body{x, y}, n, {{x, y}, nullptr});
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* Philox4x32-10, as qkv__philox. */
static __device__ __forceinline__ void philox(uint32_t out[4], uint64_t group, uint32_t step,
                                              uint32_t id, uint32_t k0, uint32_t k1)
{
    uint32_t c0 = (uint32_t)group, c1 = (uint32_t)(group >> 32), c2 = step, c3 = id;
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

struct dropout_args {
    float *y;
    const float *x, *residual;
    size_t n;
    uint64_t first;
    float scale;
    uint32_t threshold, step, id, k0, k1;
    bool acc;
};

template <int W>
static __device__ __forceinline__ void drop(const dropout_args &a, const uint32_t *word, size_t i)
{
    pack<W> v = load<W>(a.x + i);
    for (int k = 0; k < W; k++)
        v.v[k] = word[k] >= a.threshold ? __fmul_rn(v.v[k], a.scale) : 0;
    if (a.residual) {
        const pack<W> r = load<W>(a.residual + i);
        for (int k = 0; k < W; k++)
            v.v[k] = r.v[k] + v.v[k];
    }
    put<W>(a.y + i, v, a.acc);
}

/* A thread has the 4 elements of a group of the stream, those of them that the arrays have. fours:
 * the arrays begin where a group does, at a multiple of 16 bytes. */
static __global__ void __launch_bounds__(BLOCK) dropout_kernel(dropout_args a, uint64_t groups,
                                                               bool fours)
{
    for (FOR_EACH(k, groups)) {
        const uint64_t group = a.first / 4 + k;
        uint32_t word[4];
        philox(word, group, a.step, a.id, a.k0, a.k1);
        if (fours && 4 * k + 4 <= a.n) {
            drop<4>(a, word, 4 * k);
            continue;
        }
        for (int lane = 0; lane < 4; lane++) {
            const uint64_t g = 4 * group + (uint64_t)lane;
            if (g >= a.first && g - a.first < a.n)
                drop<1>(a, word + lane, g - a.first);
        }
    }
}

static void cuda_dropout(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                         const qkv_real *residual, bool acc, const qkv_k_dropout_args *args,
                         size_t n)
{
    (void)e;
    if (n == 0)
        return;
    dropout_args a = {};
    a.y = y, a.x = x, a.residual = residual, a.n = n, a.first = args->first, a.acc = acc;
    a.scale = (float)(1 / (1 - args->p));
    a.threshold = qkv__dropout_threshold(args->p);
    a.step = (uint32_t)args->step, a.id = args->dropout_id;
    a.k0 = (uint32_t)args->seed, a.k1 = (uint32_t)(args->seed >> 32);
    const uint64_t groups = (a.first + n - 1) / 4 - a.first / 4 + 1;
    const bool fours = a.first % 4 == 0 && aligned16(y, x, residual);
    LAUNCH(dropout_kernel, cuda_blocks(groups), BLOCK, 0, a, groups, fours);
}

extern "C" void qkv__cuda_elementwise(qkv_kernels *k)
{
    k->axpy = cuda_axpy;
    k->add = cuda_add;
    k->mul = cuda_mul;
    k->scale_rows = cuda_scale_rows;
    k->exp = cuda_exp;
    k->reciprocal = cuda_reciprocal;
    k->swap = cuda_swap;
    k->dropout = cuda_dropout;
}
