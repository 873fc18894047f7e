/* ref_elementwise.c - loops over elements in plain C: the reference for simd_elementwise.c,
 * and what runs where there is no vector code. Simple first; threads where sizes warrant. */
#include "kernel/ref_math.h"

enum { STRIP = 64, SUM_BLOCKS = 1024 };

/* ---- activations ------------------------------------------------------------------------- */

#define SQRT_HALF ((qkv_real)0.70710678118654752440)
#define INV_SQRT_2PI ((qkv_real)0.39894228040143267794)
#define GELU_SCALE ((qkv_real)1.59576912160573071176) /* 2 sqrt(2/pi) */
#define GELU_CUBIC ((qkv_real)0.044715)
#define QUICK ((qkv_real)1.702)
#define LEAK ((qkv_real)0.2)

static qkv_real ref_elementwise_sigmoid(qkv_real x) { return 1 / (1 + real_exp(-x)); }

/* (1 + tanh(u)) / 2 = sigmoid(2u) keeps the relative accuracy of the negative tail. */
static qkv_real gelu_tanh_gate(qkv_real x)
{
    return ref_elementwise_sigmoid(GELU_SCALE * (x + GELU_CUBIC * x * x * x));
}

static qkv_real act_value(qkv_real x, qkv_k_act act)
{
    switch (act) {
    case QKV_K_RELU: return x < 0 ? 0 : x;
    case QKV_K_GELU: return x * (real_erfc(-x * SQRT_HALF) / 2);
    case QKV_K_GELU_TANH: return x * gelu_tanh_gate(x);
    case QKV_K_QUICK_GELU: return x * ref_elementwise_sigmoid(QUICK * x);
    case QKV_K_SILU: return x * ref_elementwise_sigmoid(x);
    case QKV_K_SIGMOID: return ref_elementwise_sigmoid(x);
    case QKV_K_TANH: return real_tanh(x);
    case QKV_K_LEAKY_RELU: return x < 0 ? LEAK * x : x;
    case QKV_K_NONE:
    case QKV_K_ACT_COUNT: break;
    }
    return x;
}

/* d act / dx. The slope of RELU at 0 is 0, as PyTorch has it. */
static qkv_real act_slope(qkv_real x, qkv_k_act act)
{
    switch (act) {
    case QKV_K_RELU: return x > 0 ? 1 : x != x ? x : 0;
    case QKV_K_GELU:
        return real_erfc(-x * SQRT_HALF) / 2 + x * INV_SQRT_2PI * real_exp(-x * x / 2);
    case QKV_K_GELU_TANH: {
        qkv_real s = gelu_tanh_gate(x);
        /* Beyond 30 s (1 - s) is 0 and x^2 may overflow. */
        qkv_real c = x > 30 ? 30 : x < -30 ? -30 : x;
        return s + c * s * (1 - s) * GELU_SCALE * (1 + 3 * GELU_CUBIC * c * c);
    }
    case QKV_K_QUICK_GELU: {
        qkv_real s = ref_elementwise_sigmoid(QUICK * x);
        return s + QUICK * x * s * (1 - s);
    }
    case QKV_K_SILU: {
        qkv_real s = ref_elementwise_sigmoid(x);
        return s + x * s * (1 - s);
    }
    case QKV_K_SIGMOID: {
        qkv_real s = ref_elementwise_sigmoid(x);
        return s * (1 - s);
    }
    case QKV_K_TANH: {
        qkv_real t = real_tanh(x);
        return 1 - t * t;
    }
    case QKV_K_LEAKY_RELU: return x > 0 ? 1 : x != x ? x : LEAK;
    case QKV_K_NONE:
    case QKV_K_ACT_COUNT: break;
    }
    return 1;
}

static void ref_act(const qkv_exec *e, qkv_real *y, const qkv_real *x, qkv_k_act act, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, act, n) \
    if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++)
        y[i] = act_value(x[i], act);
}

static void ref_act_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *x, const qkv_real *dy,
                        qkv_k_act act, bool acc, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(dx, x, dy, act, acc, n) \
    if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++) {
        qkv_real d = act_slope(x[i], act) * dy[i];
        dx[i] = acc ? dx[i] + d : d;
    }
}

static void ref_gated(const qkv_exec *e, qkv_real *y, const qkv_real *gate, size_t ldg,
                      const qkv_real *up, size_t ldu, qkv_k_act act, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, gate, ldg, up, ldu, act, N, C) if (N * C >= REF_GRAIN)
    for (size_t r = 0; r < N; r++)
        for (size_t c = 0; c < C; c++)
            y[r * C + c] = act_value(gate[r * ldg + c], act) * up[r * ldu + c];
}

static void ref_gated_bwd(const qkv_exec *e, qkv_real *dgate, size_t lddg, bool acc_gate,
                          qkv_real *dup, size_t lddu, bool acc_up, const qkv_real *gate,
                          size_t ldg, const qkv_real *up, size_t ldu, const qkv_real *dy,
                          qkv_k_act act, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none)                              \
    shared(dgate, lddg, acc_gate, dup, lddu, acc_up, gate, ldg, up, ldu, dy, act, N, C)      \
    if (N * C >= REF_GRAIN)
    for (size_t r = 0; r < N; r++) {
        for (size_t c = 0; c < C; c++) {
            qkv_real x = gate[r * ldg + c], u = up[r * ldu + c], d = dy[r * C + c];
            if (dgate) {
                qkv_real *out = &dgate[r * lddg + c], g = act_slope(x, act) * u * d;
                *out = acc_gate ? *out + g : g;
            }
            if (dup) {
                qkv_real *out = &dup[r * lddu + c], g = act_value(x, act) * d;
                *out = acc_up ? *out + g : g;
            }
        }
    }
}

/* ---- arithmetic -------------------------------------------------------------------------- */

static void ref_axpy(const qkv_exec *e, qkv_real *y, const qkv_real *x, double alpha, bool acc,
                     size_t n)
{
    qkv_real a = (qkv_real)alpha;
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, a, acc, n) \
    if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++)
        y[i] = acc ? y[i] + a * x[i] : a * x[i];
}

static void ref_add(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, a, b, n) \
    if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void ref_mul(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b, bool acc,
                    size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, a, b, acc, n) \
    if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++)
        y[i] = acc ? y[i] + a[i] * b[i] : a[i] * b[i];
}

/* ---- sums -------------------------------------------------------------------------------- */

static void ref_sum_rows(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t ldx, bool acc,
                         size_t N, size_t C)
{
    size_t strips = (C + STRIP - 1) / STRIP;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, x, ldx, acc, N, C, strips) if (N * C >= REF_GRAIN)
    for (size_t s = 0; s < strips; s++) {
        size_t first = s * STRIP, width = C - first < STRIP ? C - first : STRIP;
        double sum[STRIP] = {0};
        for (size_t r = 0; r < N; r++)
            for (size_t c = 0; c < width; c++)
                sum[c] += (double)x[r * ldx + first + c];
        for (size_t c = 0; c < width; c++) {
            qkv_real total = (qkv_real)sum[c];
            y[first + c] = acc ? y[first + c] + total : total;
        }
    }
}

/* The array in at most SUM_BLOCKS blocks whose size depends on n alone, added in order. */
static double blocked_sum(const qkv_exec *e, const qkv_real *x, bool squares, size_t n)
{
    size_t block = (n + SUM_BLOCKS - 1) / SUM_BLOCKS;
    if (block < REF_GRAIN / 4)
        block = REF_GRAIN / 4;
    size_t blocks = (n + block - 1) / block;
    double part[SUM_BLOCKS];
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(part, x, squares, n, block, blocks) if (n >= REF_GRAIN)
    for (size_t b = 0; b < blocks; b++) {
        size_t end = n - b * block < block ? n : (b + 1) * block;
        double sum = 0;
        for (size_t i = b * block; i < end; i++)
            sum += squares ? (double)x[i] * (double)x[i] : (double)x[i];
        part[b] = sum;
    }
    double total = 0;
    for (size_t b = 0; b < blocks; b++)
        total += part[b];
    return total;
}

static double ref_sum(const qkv_exec *e, const qkv_real *x, size_t n)
{
    return blocked_sum(e, x, false, n);
}

static double ref_sum_squares(const qkv_exec *e, const qkv_real *x, size_t n)
{
    return blocked_sum(e, x, true, n);
}

static void ref_many_sums(const qkv_exec *e, double *sums, const qkv_real *const *x,
                          const size_t *n, size_t count, bool squares)
{
    for (size_t i = 0; i < count; i++)
        sums[i] = blocked_sum(e, x[i], squares, n[i]);
}

/* ---- dropout ----------------------------------------------------------------------------- */

static void ref_dropout(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                        const qkv_real *residual, bool acc, const qkv_k_dropout_args *args,
                        size_t n)
{
    uint32_t threshold = qkv__dropout_threshold(args->p);
    qkv_real scale = (qkv_real)(1 / (1 - args->p));
    uint64_t first = args->first, groups = n ? (first + n - 1) / 4 - first / 4 + 1 : 0;
    const uint32_t key[2] = {(uint32_t)args->seed, (uint32_t)(args->seed >> 32)};
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, x, residual, acc, args, n, threshold, scale, first, groups, key) \
    if (n >= REF_GRAIN)
    for (uint64_t k = 0; k < groups; k++) {
        uint64_t group = first / 4 + k;
        const uint32_t counter[4] = {(uint32_t)group, (uint32_t)(group >> 32),
                                     (uint32_t)args->step, args->dropout_id};
        uint32_t word[4];
        qkv__philox(word, counter, key);
        for (uint64_t lane = 0; lane < 4; lane++) {
            uint64_t g = group * 4 + lane;
            if (g < first || g - first >= n)
                continue;
            size_t i = (size_t)(g - first);
            qkv_real v = word[lane] >= threshold ? x[i] * scale : 0;
            v = residual ? residual[i] + v : v;
            y[i] = acc ? y[i] + v : v;
        }
    }
}

void qkv__kernels_ref_elementwise(qkv_kernels *k)
{
    k->axpy = ref_axpy;
    k->add = ref_add;
    k->mul = ref_mul;
    k->act = ref_act;
    k->act_bwd = ref_act_bwd;
    k->gated = ref_gated;
    k->gated_bwd = ref_gated_bwd;
    k->sum_rows = ref_sum_rows;
    k->sum = ref_sum;
    k->sum_squares = ref_sum_squares;
    k->many_sums = ref_many_sums;
    k->copy = qkv__ref_copy;
    k->move = qkv__ref_move;
    k->dropout = ref_dropout;
}
