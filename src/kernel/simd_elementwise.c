/* simd_elementwise.c - elementwise kernels in vector types: written to run at the speed of
 * memory, each array read and written once. The strided copy stays plain C. */
#include "kernel/simd_math.h"
#include "kernel/simd_random.h"

enum {
    GRAIN = 16384, /* elements below which one thread does it all */
    BLOCK = 2048,  /* elements a thread works on at a time; a multiple of VF */
    SUM_BLOCKS = 1024,
    COLUMNS = 1024 /* of sum_rows at a time */
};

static size_t simd_elementwise_block_end(size_t b, size_t n)
{
    return n - b < BLOCK ? n : b + BLOCK;
}

/* ---- activations ------------------------------------------------------------------------- */

/* Each returns act(x) and sets its slope; whichever a caller drops is not computed. */
typedef vf act_fn(vf x, vf *slope);

QKV_INLINE vf none(vf x, vf *slope)
{
    *slope = vf_set1(1.0f);
    return x;
}
QKV_INLINE vf relu(vf x, vf *slope)
{
    vf step = vf_where(vf_lt(vf_zero(), x), vf_set1(1.0f));
    *slope = vf_select(vf_ge(vf_abs(x), vf_zero()), step, x); /* NaN stays */
    return vf_max(vf_zero(), x);
}
QKV_INLINE vf gelu(vf x, vf *slope)
{
    vf density, cdf = vf_normal_cdf(x, &density);
    *slope = vf_fma(x, density, cdf);
    return x * cdf;
}
QKV_INLINE vf gelu_tanh(vf x, vf *slope)
{
    /* (1 + tanh u) / 2 = sigmoid(2u) */
    vf cubic = vf_fma(vf_set1(0.044715f) * x * x, x, x), one = vf_set1(1.0f);
    vf s = vf_sigmoid(cubic * vf_set1(1.59576912160573f));
    /* Beyond 30 s (1 - s) is 0 and x^2 may overflow. */
    vf c = vf_min(vf_max(x, vf_set1(-30.0f)), vf_set1(30.0f));
    vf inner = vf_fma(c * c, vf_set1(3 * 0.044715f), one) * vf_set1(1.59576912160573f);
    *slope = vf_fma(c * s * (one - s), inner, s);
    return x * s;
}
QKV_INLINE vf quick_gelu(vf x, vf *slope)
{
    vf k = x * vf_set1(1.702f), s = vf_sigmoid(k);
    *slope = vf_fma(k * s, vf_set1(1.0f) - s, s);
    return x * s;
}
QKV_INLINE vf silu(vf x, vf *slope)
{
    vf s = vf_sigmoid(x);
    *slope = vf_fma(x * s, vf_set1(1.0f) - s, s);
    return x * s;
}
QKV_INLINE vf sigmoid(vf x, vf *slope)
{
    vf s = vf_sigmoid(x);
    *slope = s * (vf_set1(1.0f) - s);
    return s;
}
QKV_INLINE vf tangent(vf x, vf *slope)
{
    vf t = vf_tanh(x);
    *slope = vf_fnma(t, t, vf_set1(1.0f));
    return t;
}

QKV_INLINE vf leaky_relu(vf x, vf *slope)
{
    vf leak = vf_set1(0.2f), step = vf_select(vf_lt(vf_zero(), x), vf_set1(1.0f), leak);
    *slope = vf_select(vf_ge(vf_abs(x), vf_zero()), step, x); /* NaN stays */
    return vf_select(vf_lt(x, vf_zero()), leak * x, x);
}

/* y = f(x), slope = f'(x); NULL: not wanted. */
QKV_INLINE void map(float *y, float *slope, const float *x, size_t n, act_fn *f)
{
    for (size_t i = 0; i < n; i += VF) {
        size_t k = n - i < VF ? n - i : VF;
        vf d, v = f(vf_get(x + i, k), &d);
        if (y)
            vf_put(y + i, v, k);
        if (slope)
            vf_put(slope + i, d, k);
    }
}

QKV_INLINE void act_map(float *y, float *slope, const float *x, size_t n, qkv_k_act act)
{
    switch (act) {
    case QKV_K_RELU: map(y, slope, x, n, relu); return;
    case QKV_K_GELU: map(y, slope, x, n, gelu); return;
    case QKV_K_GELU_TANH: map(y, slope, x, n, gelu_tanh); return;
    case QKV_K_QUICK_GELU: map(y, slope, x, n, quick_gelu); return;
    case QKV_K_SILU: map(y, slope, x, n, silu); return;
    case QKV_K_SIGMOID: map(y, slope, x, n, sigmoid); return;
    case QKV_K_TANH: map(y, slope, x, n, tangent); return;
    case QKV_K_LEAKY_RELU: map(y, slope, x, n, leaky_relu); return;
    case QKV_K_NONE:
    case QKV_K_ACT_COUNT: map(y, slope, x, n, none);
    }
}

static void act_values(float *y, const float *x, size_t n, qkv_k_act act)
{
    act_map(y, NULL, x, n, act);
}

static void act_slopes(float *slope, const float *x, size_t n, qkv_k_act act)
{
    act_map(NULL, slope, x, n, act);
}

static void act_both(float *y, float *slope, const float *x, size_t n, qkv_k_act act)
{
    act_map(y, slope, x, n, act);
}

/* y = [y +] a b [c] over n elements; y may be an input. */
QKV_INLINE void product(float *y, const float *a, const float *b, const float *c, bool acc,
                        size_t n)
{
    for (size_t i = 0; i < n; i += VF) {
        size_t k = n - i < VF ? n - i : VF;
        vf v = vf_get(a + i, k) * vf_get(b + i, k);
        if (c)
            v = v * vf_get(c + i, k);
        if (acc)
            v = vf_get(y + i, k) + v;
        vf_put(y + i, v, k);
    }
}

static void simd_act(const qkv_exec *e, qkv_real *y, const qkv_real *x, qkv_k_act act, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, act, n) \
    if (n >= GRAIN)
    for (size_t b = 0; b < n; b += BLOCK)
        act_values(y + b, x + b, simd_elementwise_block_end(b, n) - b, act);
}

static void simd_act_bwd(const qkv_exec *e, qkv_real *dx, const qkv_real *x, const qkv_real *dy,
                         qkv_k_act act, bool acc, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(dx, x, dy, act, acc, n) \
    if (n >= GRAIN)
    for (size_t b = 0; b < n; b += BLOCK) {
        float slope[BLOCK];
        size_t k = simd_elementwise_block_end(b, n) - b;
        act_slopes(slope, x + b, k, act);
        product(dx + b, slope, dy + b, NULL, acc, k);
    }
}

static void simd_gated(const qkv_exec *e, qkv_real *y, const qkv_real *gate, size_t ldg,
                       const qkv_real *up, size_t ldu, qkv_k_act act, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, gate, ldg, up, ldu, act, N, C) if (N * C >= GRAIN)
    for (size_t r = 0; r < N; r++) {
        for (size_t b = 0; b < C; b += BLOCK) {
            float value[BLOCK];
            size_t k = simd_elementwise_block_end(b, C) - b;
            act_values(value, gate + r * ldg + b, k, act);
            product(y + r * C + b, value, up + r * ldu + b, NULL, false, k);
        }
    }
}

static void simd_gated_bwd(const qkv_exec *e, qkv_real *dgate, size_t lddg, bool acc_gate,
                           qkv_real *dup, size_t lddu, bool acc_up, const qkv_real *gate,
                           size_t ldg, const qkv_real *up, size_t ldu, const qkv_real *dy,
                           qkv_k_act act, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none)                          \
    shared(dgate, lddg, acc_gate, dup, lddu, acc_up, gate, ldg, up, ldu, dy, act, N, C)  \
    if (N * C >= GRAIN)
    for (size_t r = 0; r < N; r++) {
        for (size_t b = 0; b < C; b += BLOCK) {
            float value[BLOCK], slope[BLOCK];
            size_t k = simd_elementwise_block_end(b, C) - b;
            const float *d = dy + r * C + b;
            act_both(value, slope, gate + r * ldg + b, k, act);
            if (dgate)
                product(dgate + r * lddg + b, slope, up + r * ldu + b, d, acc_gate, k);
            if (dup)
                product(dup + r * lddu + b, value, d, NULL, acc_up, k);
        }
    }
}

/* ---- arithmetic -------------------------------------------------------------------------- */

static void simd_axpy(const qkv_exec *e, qkv_real *y, const qkv_real *x, double alpha, bool acc,
                      size_t n)
{
    const vf a = vf_set1((float)alpha);
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, a, acc, n) \
    if (n >= GRAIN)
    for (size_t b = 0; b < n; b += BLOCK) {
        size_t end = simd_elementwise_block_end(b, n);
        for (size_t i = b; i < end; i += VF) {
            size_t k = end - i < VF ? end - i : VF;
            vf v = vf_get(x + i, k) * a;
            if (acc)
                v = vf_get(y + i, k) + v;
            vf_put(y + i, v, k);
        }
    }
}

static void simd_add(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b,
                     size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, a, b, n) \
    if (n >= GRAIN)
    for (size_t j = 0; j < n; j += BLOCK) {
        size_t end = simd_elementwise_block_end(j, n);
        for (size_t i = j; i < end; i += VF) {
            size_t k = end - i < VF ? end - i : VF;
            vf_put(y + i, vf_get(a + i, k) + vf_get(b + i, k), k);
        }
    }
}

static void simd_mul(const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b,
                     bool acc, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, a, b, acc, n) \
    if (n >= GRAIN)
    for (size_t i = 0; i < n; i += BLOCK)
        product(y + i, a + i, b + i, NULL, acc, simd_elementwise_block_end(i, n) - i);
}

/* ---- sums -------------------------------------------------------------------------------- */

/* Columns c0 .. c0+width-1: rows are added 64 at a time in float, then those sums, so that the
 * error grows with 64 + N/64 and not with N. */
static void sum_columns(float *y, const float *x, size_t ldx, bool acc, size_t N, size_t width)
{
    enum { ROWS = 64 };
    float total[COLUMNS], part[COLUMNS];
    for (size_t c = 0; c < width; c++)
        total[c] = acc ? y[c] : 0;
    for (size_t r0 = 0; r0 < N; r0 += ROWS) {
        size_t r1 = N - r0 < ROWS ? N : r0 + ROWS;
        for (size_t c = 0; c < width; c++)
            part[c] = 0;
        size_t r = r0;
        for (; r + 4 <= r1; r += 4) {
            const float *a = x + r * ldx, *b = a + ldx, *c = b + ldx, *d = c + ldx;
            for (size_t i = 0; i < width; i++)
                part[i] += (a[i] + b[i]) + (c[i] + d[i]);
        }
        for (; r < r1; r++)
            for (size_t c = 0; c < width; c++)
                part[c] += x[r * ldx + c];
        for (size_t c = 0; c < width; c++)
            total[c] += part[c];
    }
    for (size_t c = 0; c < width; c++)
        y[c] = total[c];
}

static void simd_sum_rows(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t ldx, bool acc,
                          size_t N, size_t C)
{
    if (C == 0)
        return;
    /* Whole cache lines, in as many pieces for each thread; columns do not depend on each other. */
    const size_t team = (size_t)e->threads, line = 16;
    const size_t pieces = (C + team * COLUMNS - 1) / (team * COLUMNS) * team;
    const size_t width = ((C + pieces - 1) / pieces + line - 1) / line * line;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, x, ldx, acc, N, C, width) if (N * C >= GRAIN)
    for (size_t c = 0; c < C; c += width)
        sum_columns(y + c, x + c, ldx, acc, N, C - c < width ? C - c : width);
}

/* The array in at most SUM_BLOCKS blocks whose size depends on n alone, added in order. */
QKV_INLINE double blocked_sum(const qkv_exec *e, const float *x, bool squares, size_t n)
{
    size_t block = (n + SUM_BLOCKS - 1) / SUM_BLOCKS;
    block = block < BLOCK ? BLOCK : (block + VF - 1) / VF * VF;
    size_t blocks = (n + block - 1) / block;
    double part[SUM_BLOCKS];
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(part, x, squares, n, block, blocks) if (n >= GRAIN)
    for (size_t b = 0; b < blocks; b++) {
        size_t end = n - b * block < block ? n : (b + 1) * block;
        vd s0 = vd_zero(), s1 = vd_zero();
        for (size_t i = b * block; i < end; i += VF) {
            vf v = vf_get(x + i, end - i < VF ? end - i : VF);
            vd lo = vd_lo(v), hi = vd_hi(v);
            if (squares) {
                lo = lo * lo;
                hi = hi * hi;
            }
            s0 += lo;
            s1 += hi;
        }
        part[b] = vd_sum(s0 + s1);
    }
    double total = 0;
    for (size_t b = 0; b < blocks; b++)
        total += part[b];
    return total;
}

static double simd_sum(const qkv_exec *e, const qkv_real *x, size_t n)
{
    return blocked_sum(e, x, false, n);
}

static double simd_sum_squares(const qkv_exec *e, const qkv_real *x, size_t n)
{
    return blocked_sum(e, x, true, n);
}

static void simd_many_sums(const qkv_exec *e, double *sums, const qkv_real *const *x,
                           const size_t *n, size_t count, bool squares)
{
    for (size_t i = 0; i < count; i++)
        sums[i] = blocked_sum(e, x[i], squares, n[i]);
}

/* ---- dropout ----------------------------------------------------------------------------- */

typedef struct {
    float *y;
    const float *x, *residual;
    bool acc;
    vf scale;
} drop;

QKV_INLINE void drop_vector(const drop *d, vm keep, size_t i, size_t k)
{
    vf v = vf_where(keep, vf_get(d->x + i, k) * d->scale);
    if (d->residual)
        v = vf_get(d->residual + i, k) + v;
    if (d->acc)
        v = vf_get(d->y + i, k) + v;
    vf_put(d->y + i, v, k);
}

/* Elements before the first whole group of four. */
static size_t drop_head(const drop *d, const qkv_k_dropout_args *args, size_t n)
{
    size_t head = (size_t)(-args->first % 4);
    head = head < n ? head : n;
    uint64_t group = args->first / 4;
    const uint32_t key[2] = {(uint32_t)args->seed, (uint32_t)(args->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)group, (uint32_t)(group >> 32), (uint32_t)args->step,
                                 args->dropout_id};
    uint32_t word[4], threshold = qkv__dropout_threshold(args->p);
    qkv__philox(word, counter, key);
    for (size_t i = 0; i < head; i++) {
        bool kept = word[(args->first + i) % 4] >= threshold;
        float v = kept ? d->x[i] * (float)(1 / (1 - args->p)) : 0;
        v = d->residual ? d->residual[i] + v : v;
        d->y[i] = d->acc ? d->y[i] + v : v;
    }
    return head;
}

static void simd_dropout(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                         const qkv_real *residual, bool acc, const qkv_k_dropout_args *args,
                         size_t n)
{
    const drop d = {y, x, residual, acc, vf_set1((float)(1 / (1 - args->p)))};
    size_t head = drop_head(&d, args, n);
    uint64_t group = (args->first + head) / 4;
    vf_dropout stream;
    vf_dropout_init(&stream, args);
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(d, stream, head, group, n) if (n >= GRAIN)
    for (size_t b = head; b < n; b += BLOCK) {
        size_t end = simd_elementwise_block_end(b, n);
        for (size_t i = b; i < end; i += 2 * VF) {
            vm keep[2];
            vf_dropout_keep(keep, &stream, group + (i - head) / 4);
            drop_vector(&d, keep[0], i, end - i < VF ? end - i : VF);
            if (end - i > VF)
                drop_vector(&d, keep[1], i + VF, end - i < 2 * VF ? end - i - VF : VF);
        }
    }
}

void QKV_SIMD(qkv__kernels_elementwise)(qkv_kernels *k)
{
    k->axpy = simd_axpy;
    k->add = simd_add;
    k->mul = simd_mul;
    k->act = simd_act;
    k->act_bwd = simd_act_bwd;
    k->gated = simd_gated;
    k->gated_bwd = simd_gated_bwd;
    k->sum_rows = simd_sum_rows;
    k->sum = simd_sum;
    k->sum_squares = simd_sum_squares;
    k->many_sums = simd_many_sums;
    k->dropout = simd_dropout;
}
