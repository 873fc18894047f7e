/* activations.cu - activations and their slopes, and products of them with a second input (gated
 * units). Each activation is a kernel of its own; formulas are those of ref_elementwise.c. */
#include "kernel/cuda/activations.cuh"
#include "kernel/cuda/list.cuh"
#include "kernel/cuda/operands.cuh"

/* d act / dx. The slope of RELU at 0 is 0, as PyTorch has it. */
template <int A> static __device__ __forceinline__ float act_slope(float x)
{
    if constexpr (A == QKV_K_RELU) {
        return x > 0 ? 1 : x != x ? x : 0;
    } else if constexpr (A == QKV_K_GELU) {
        return erfcf(-x * sqrt_half) / 2 + x * inv_sqrt_2pi * expf(-x * x / 2);
    } else if constexpr (A == QKV_K_GELU_TANH) {
        const float s = tanh_gate(x);
        /* Beyond 30 s (1 - s) is 0 and x^2 may overflow. */
        const float c = x > 30 ? 30 : x < -30 ? -30 : x;
        return s + c * s * (1 - s) * gelu_scale * (1 + 3 * gelu_cubic * c * c);
    } else if constexpr (A == QKV_K_QUICK_GELU) {
        const float s = sigmoid(quick * x);
        return s + quick * x * s * (1 - s);
    } else if constexpr (A == QKV_K_SILU) {
        const float s = sigmoid(x);
        return s + x * s * (1 - s);
    } else if constexpr (A == QKV_K_SIGMOID) {
        const float s = sigmoid(x);
        return s * (1 - s);
    } else if constexpr (A == QKV_K_TANH) {
        const float t = tanhf(x);
        return 1 - t * t;
    } else if constexpr (A == QKV_K_LEAKY_RELU) {
        return x > 0 ? 1 : x != x ? x : leak;
    } else {
        return 1;
    }
}

/* W numbers of a copy, at i: a multiple of 4 where W is 4. */
template <int W> static __device__ __forceinline__ void store_copy(bf16 *copy, size_t i, pack<W> v)
{
    if (!copy)
        return;
    store<W>(copy + i, v);
}

/* copy: of y in bf16, or NULL. */
template <int A, typename T> struct act_body {
    T *y;
    const T *x;
    bf16 *copy;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(x + i);
        for (int k = 0; k < W; k++)
            v.v[k] = act_value<A>(v.v[k]);
        store<W>(y + i, v);
        store_copy<W>(copy, i, v);
    }
};

static void activate(qkv_real *y, const qkv_real *x, bf16 *copy, qkv_k_act act, size_t n)
{
#define ACT(A) launch_elements(act_body<A, float>{y, x, copy}, n, aligned16(y, x))
    BY_ACTIVATION(act, ACT)
#undef ACT
}

static void cuda_act(const qkv_exec *, qkv_real *y, const qkv_real *x, qkv_k_act act, size_t n)
{
    if (!list_act(y, x, act, n))
        activate(y, x, NULL, act, n);
}

/* y and x in bf16, both or neither. */
static void cuda_act_bf16(const qkv_exec *e, qkv_real *y, const qkv_real *x, qkv_k_act act,
                          size_t n)
{
    if (e->bf16) {
        const cuda_writes before = cuda_writes_now();
#define ACT(A)                                                                                     \
    launch_elements<act_body<A, bf16>, 8>({(bf16 *)y, (const bf16 *)x, NULL}, n, aligned16(y, x))
        BY_ACTIVATION(act, ACT)
#undef ACT
        cuda_wrote_alone(before, y, n * sizeof(bf16));
        return;
    }
    bf16 *copy = operand_room(y, n);
    activate(y, x, copy, act, n);
    operand_written(copy);
}

template <int A, typename T> struct act_bwd_body {
    T *dx;
    const T *x, *dy;
    bf16 *copy; /* of what is stored, or NULL */
    bool acc;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(x + i), d = load<W>(dy + i);
        for (int k = 0; k < W; k++)
            d.v[k] *= act_slope<A>(v.v[k]);
        put<W>(dx + i, d, acc);
        store_copy<W>(copy, i, d);
    }
};

static void activate_bwd(qkv_real *dx, const qkv_real *x, const qkv_real *dy, bf16 *copy,
                         qkv_k_act act, bool acc, size_t n)
{
#define ACT_BWD(A)                                                                                 \
    launch_elements(act_bwd_body<A, float>{dx, x, dy, copy, acc}, n, aligned16(dx, x, dy))
    BY_ACTIVATION(act, ACT_BWD)
#undef ACT_BWD
}

static void cuda_act_bwd(const qkv_exec *, qkv_real *dx, const qkv_real *x, const qkv_real *dy,
                         qkv_k_act act, bool acc, size_t n)
{
    activate_bwd(dx, x, dy, NULL, act, acc, n);
}

/* dx, x and dy in bf16, all or none. */
static void cuda_act_bwd_bf16(const qkv_exec *e, qkv_real *dx, const qkv_real *x,
                              const qkv_real *dy, qkv_k_act act, bool acc, size_t n)
{
    if (e->bf16) {
        const cuda_writes before = cuda_writes_now();
#define ACT_BWD(A)                                                                                 \
    launch_elements<act_bwd_body<A, bf16>, 8>(                                                     \
        {(bf16 *)dx, (const bf16 *)x, (const bf16 *)dy, NULL, acc}, n, aligned16(dx, x, dy))
        BY_ACTIVATION(act, ACT_BWD)
#undef ACT_BWD
        cuda_wrote_alone(before, dx, n * sizeof(bf16));
        return;
    }
    bf16 *copy = acc ? NULL : operand_room(dx, n);
    activate_bwd(dx, x, dy, copy, act, acc, n);
    operand_written(copy);
}

/* ---- gated: W elements of one row ------------------------------------------------------------ */

template <typename T, int WIDTH>
static void gate_up(const gated_args<T> &a, qkv_k_act act, size_t n)
{
    const bool wide = a.C % WIDTH == 0 && a.ldg % WIDTH == 0 && a.ldu % WIDTH == 0 &&
                      aligned16(a.y, a.gate, a.up);
#define GATED(A) launch_elements<gated_body<A, T>, WIDTH>({a}, n, wide)
    BY_ACTIVATION(act, GATED)
#undef GATED
}

/* Of y, gate and up all hold bf16, or none. */
static void cuda_gated(const qkv_exec *e, qkv_real *y, const qkv_real *gate, size_t ldg,
                       const qkv_real *up, size_t ldu, qkv_k_act act, size_t N, size_t C)
{
    const gated_args<float> a = {y, gate, up, ldg, ldu, C};
    if (e->bf16)
        gate_up<bf16, 8>({(bf16 *)y, (const bf16 *)gate, (const bf16 *)up, ldg, ldu, C}, act,
                         N * C);
    else if (!list_gated(a, act, N))
        gate_up<float, 4>(a, act, N * C);
}

template <typename T> struct gated_bwd_args {
    T *dgate, *dup; /* NULL: not wanted */
    const T *gate, *up, *dy;
    size_t lddg, lddu, ldg, ldu, C;
    bool acc_gate, acc_up;
};

template <int A, typename T> struct gated_bwd_body {
    gated_bwd_args<T> a;
    template <int W> __device__ void at(size_t i) const
    {
        size_t r, c;
        split(i, a.C, &r, &c);
        const pack<W> g = load<W>(a.gate + r * a.ldg + c), d = load<W>(a.dy + i);
        const pack<W> u = load<W>(a.up + r * a.ldu + c);
        pack<W> out;
        if (a.dgate) {
            for (int k = 0; k < W; k++)
                out.v[k] = act_slope<A>(g.v[k]) * u.v[k] * d.v[k];
            put<W>(a.dgate + r * a.lddg + c, out, a.acc_gate);
        }
        if (a.dup) {
            for (int k = 0; k < W; k++)
                out.v[k] = act_value<A>(g.v[k]) * d.v[k];
            put<W>(a.dup + r * a.lddu + c, out, a.acc_up);
        }
    }
};

template <typename T, int WIDTH>
static void gate_up_bwd(const gated_bwd_args<T> &a, qkv_k_act act, size_t n)
{
    const bool strides = a.C % WIDTH == 0 && a.ldg % WIDTH == 0 && a.ldu % WIDTH == 0 &&
                         (!a.dgate || a.lddg % WIDTH == 0) && (!a.dup || a.lddu % WIDTH == 0);
    const bool wide = strides && aligned16(a.dgate, a.dup, a.gate, a.up, a.dy);
#define GATED_BWD(A) launch_elements<gated_bwd_body<A, T>, WIDTH>({a}, n, wide)
    BY_ACTIVATION(act, GATED_BWD)
#undef GATED_BWD
}

/* As cuda_gated. */
static void cuda_gated_bwd(const qkv_exec *e, qkv_real *dgate, size_t lddg, bool acc_gate,
                           qkv_real *dup, size_t lddu, bool acc_up, const qkv_real *gate,
                           size_t ldg, const qkv_real *up, size_t ldu, const qkv_real *dy,
                           qkv_k_act act, size_t N, size_t C)
{
    if (e->bf16)
        gate_up_bwd<bf16, 8>({(bf16 *)dgate, (bf16 *)dup, (const bf16 *)gate, (const bf16 *)up,
                              (const bf16 *)dy, lddg, lddu, ldg, ldu, C, acc_gate, acc_up},
                             act, N * C);
    else
        gate_up_bwd<float, 4>({dgate, dup, gate, up, dy, lddg, lddu, ldg, ldu, C, acc_gate, acc_up},
                              act, N * C);
}

extern "C" void qkv__cuda_activations(qkv_kernels *k)
{
    k->act = cuda_act;
    k->act_bwd = cuda_act_bwd;
    k->gated = cuda_gated;
    k->gated_bwd = cuda_gated_bwd;
}

/* Of a step whose products are of bf16: each leaves a copy of what it stores. */
extern "C" void qkv__cuda_activations_bf16(qkv_kernels *k)
{
    k->act = cuda_act_bf16;
    k->act_bwd = cuda_act_bwd_bf16;
}
