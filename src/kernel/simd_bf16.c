/* simd_bf16.c - products whose operands are rounded to bf16, with sums in f32, by AVX512_BF16:
 * half the time of f32, and an error of 2^-9 of each operand.
 *
 * Operands stay f32 in memory. They are rounded where a product packs them anyway: into panels, in
 * which two numbers that follow each other along k make a word, and the words of a panel's lanes
 * (rows of op(a), columns of op(b)) lie side by side. A panel of b, at most KC long, stays in the
 * first cache while a block of rows of a, in the second, meets it (Goto and van de Geijn 2008). */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx512
#include "kernel/simd_words.h"

enum {
    MR = 8, NR = 32, PANEL = 16, /* rows and columns of a tile of c; lanes of a panel of a */
    KC = 320, MC = 192, NC = 1024 /* the largest block */
};
static const size_t worth_threads = 1u << 17; /* multiplications that pay for waking a team */

static qkv_k_gemm_fn *in_f32; /* what served before; the same in every table */

static size_t simd_bf16_rounded(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* ---- packing ------------------------------------------------------------------------------ */

/* Panels of `width` lanes, k / 2 rounded up words of each: number p along k of lane i is
 * x[i * ld + p], or x[p * ld + i] if lanes lie side by side. What is beyond the last lane of the
 * last panel means nothing. */
static void pack_rows(uint32_t *to, size_t width, const float *x, size_t ld, size_t lanes, size_t k)
{
    size_t words = (k + 1) / 2;
    for (size_t i = 0; i < lanes; i += PANEL)
        for (size_t p = 0; p < words; p += VF) {
            size_t left = k - 2 * p, low = at_most(left, VF), high = at_most(left - low, VF);
            uint32_t *at = to + i / width * width * words + p * width + i % width;
            vf word[VF];
            for (size_t r = 0; r < VF; r++) {
                const float *from = x + at_most(i + r, lanes - 1) * ld + 2 * p;
                vf a = vf_get(from, low), b = high ? vf_get(from + VF, high) : vf_zero();
                word[r] = (vf)_mm512_cvtne2ps_pbh(b, a);
            }
            vf_transpose(word);
            for (size_t r = 0; r < VF && p + r < words; r++)
                _mm512_storeu_si512(at + r * width, (__m512i)word[r]);
        }
}

static void pack_lanes(uint32_t *to, size_t width, const float *x, size_t ld, size_t lanes,
                       size_t k)
{
    size_t words = (k + 1) / 2;
    for (size_t p = 0; p < words; p++, x += 2 * ld)
        for (size_t i = 0; i < lanes; i += PANEL) {
            size_t count = at_most(lanes - i, PANEL);
            vf first = vf_get(x + i, count);
            vf second = 2 * p + 1 < k ? vf_get(x + ld + i, count) : vf_zero();
            _mm512_storeu_si512(to + i / width * width * words + p * width + i % width,
                                simd_words_of(first, second));
        }
}

/* ---- tiles -------------------------------------------------------------------------------- */

/* What a tile's sums are added to: nothing (bias NULL, acc false), a bias, or what c holds. */
typedef struct {
    bool acc;
    const float *bias; /* of the tile's first column */
} start;

/* c (rows, columns) = start + sum; rows <= MR, columns <= NR, constants where the tile is whole. */
QKV_INLINE void put(float *c, size_t ldc, vf sum[MR][2], size_t rows, size_t columns, start s)
{
    for (size_t v = 0; v < 2 && v * VF < columns; v++) {
        size_t lanes = at_most(columns - v * VF, VF);
        vf bias = s.bias ? vf_get(s.bias + v * VF, lanes) : vf_zero();
        for (size_t r = 0; r < MR && r < rows; r++) {
            float *to = c + r * ldc + v * VF;
            vf before = s.acc ? (vf)(vf_get(to, lanes) + bias) : bias;
            vf_put(to, before + sum[r][v], lanes);
        }
    }
}

/* The same, sum being the product of half a panel of a and one of b. */
static void simd_bf16_tile(float *c, size_t ldc, const uint32_t *a, const uint32_t *b, size_t words,
                           size_t rows, size_t columns, start s)
{
    vf sum[MR][2];
    for (size_t r = 0; r < MR; r++)
        sum[r][0] = sum[r][1] = vf_zero();
    for (size_t r = 0; r < rows; r++) { /* c is far away: bring it while the sums are made */
        __builtin_prefetch(c + r * ldc, 1);
        __builtin_prefetch(c + r * ldc + columns - 1, 1);
    }
    for (size_t p = 0; p < words; p++, a += PANEL, b += NR) {
        __m512bh left = (__m512bh)_mm512_loadu_si512(b);
        __m512bh right = (__m512bh)_mm512_loadu_si512(b + PANEL);
        for (size_t r = 0; r < MR; r++) {
            __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[r]);
            sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, left);
            sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, right);
        }
    }
    if (rows == MR && columns == NR)
        put(c, ldc, sum, MR, NR, s);
    else
        put(c, ldc, sum, rows, columns, s);
}

/* ---- a thread's piece of c ---------------------------------------------------------------- */

typedef struct {
    float *c;
    const float *a, *b;
    const qkv_k_gemm_args *args;
    size_t kc; /* length of all blocks along k but the last */
} job;

/* Rows i .. i+m-1 of columns j .. j+n-1, numbers p .. p+k-1 along k. Both are packed. */
static void simd_bf16_block(const job *t, const uint32_t *a, const uint32_t *b, size_t i, size_t m,
                            size_t j, size_t n, size_t p, size_t k)
{
    const qkv_k_gemm_args *g = t->args;
    size_t words = (k + 1) / 2;
    for (size_t y = 0; y < n; y += NR) {
        start s = {g->acc || p, g->bias && !p ? g->bias + j + y : NULL};
        for (size_t x = 0; x < m; x += MR)
            simd_bf16_tile(t->c + (i + x) * g->ldc + j + y, g->ldc,
                           a + x / PANEL * PANEL * words + x % PANEL, b + y * words, words,
                           at_most(m - x, MR), at_most(n - y, NR), s);
    }
}

/* Rows i0 .. i1-1 of columns j0 .. j1-1, with room for a block of each operand. */
static void simd_bf16_piece(const job *t, uint32_t *room, size_t i0, size_t i1, size_t j0,
                            size_t j1)
{
    const qkv_k_gemm_args *g = t->args;
    uint32_t *a = room, *b = room + MC * t->kc / 2;
    for (size_t j = j0; j < j1; j += NC)
        for (size_t p = 0; p < g->k; p += t->kc) {
            size_t n = at_most(j1 - j, NC), k = at_most(g->k - p, t->kc);
            if (g->tb)
                pack_rows(b, NR, t->b + j * g->ldb + p, g->ldb, n, k);
            else
                pack_lanes(b, NR, t->b + p * g->ldb + j, g->ldb, n, k);
            for (size_t i = i0; i < i1; i += MC) {
                size_t m = at_most(i1 - i, MC);
                if (g->ta)
                    pack_lanes(a, PANEL, t->a + p * g->lda + i, g->lda, m, k);
                else
                    pack_rows(a, PANEL, t->a + i * g->lda + p, g->lda, m, k);
                simd_bf16_block(t, a, b, i, m, j, n, p, k);
            }
        }
}

typedef struct {
    size_t down, across;
} grid;

/* The cut of c into one piece a thread that packs and multiplies least: packing a number costs as
 * much as 4 products with it. */
static grid simd_bf16_choose_grid(const qkv_k_gemm_args *g, size_t team)
{
    enum { PACKING = 4 };
    grid best = {1, 1};
    size_t least = SIZE_MAX;
    for (size_t across = 1; across <= team && g->m * g->n * g->k > worth_threads; across++) {
        size_t down = team / across;
        size_t m = simd_bf16_rounded((g->m + down - 1) / down, MR);
        size_t n = simd_bf16_rounded((g->n + across - 1) / across, NR);
        size_t cost = m * n + PACKING * (m + n);
        if (cost < least) {
            least = cost;
            best = (grid){down, across};
        }
    }
    return best;
}

static void simd_bf16_gemm(const qkv_exec *e, float *c, const float *a, const float *b,
                           const qkv_k_gemm_args *args)
{
    if (args->m * args->n * args->k < QKV__BF16_LEAST) {
        if (!e->meta)
            in_f32(e, c, a, b, args);
        return;
    }
    grid g = simd_bf16_choose_grid(args, (size_t)e->threads);
    size_t blocks = (args->k + KC - 1) / KC, pieces = g.down * g.across;
    job t = {c, a, b, args, simd_bf16_rounded((args->k + blocks - 1) / blocks, 2)};
    size_t words = (MC + simd_bf16_rounded(at_most(args->n, NC), NR)) * t.kc / 2;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    uint32_t *room = qkv__arena_alloc(e->scratch, pieces * words * sizeof *room);
    size_t m = simd_bf16_rounded((args->m + g.down - 1) / g.down, MR);
    size_t n = simd_bf16_rounded((args->n + g.across - 1) / g.across, NR);
    if (room && !e->meta) {
#pragma omp parallel for num_threads((int)pieces) if (pieces > 1) schedule(static) default(none)   \
    shared(t, g, room, words, pieces, m, n, args)
        for (size_t p = 0; p < pieces; p++) {
            size_t i = p / g.across * m, j = p % g.across * n;
            if (i < args->m && j < args->n)
                simd_bf16_piece(&t, room + p * words, i, at_most(args->m, i + m), j,
                                at_most(args->n, j + n));
        }
    }
    qkv__arena_release(e->scratch, mark);
}

void QKV_SIMD(qkv__round_bf16)(const qkv_exec *e, uint16_t *y, const float *x, size_t n)
{
#pragma omp parallel for num_threads(e->threads) if (n > worth_threads) default(none) \
    shared(y, x, n)
    for (size_t i = 0; i < n; i += 2 * VF) {
        size_t low = at_most(n - i, VF), high = at_most(n - i - low, VF);
        vf a = vf_get(x + i, low), b = high ? vf_get(x + i + VF, high) : vf_zero();
        _mm512_mask_storeu_epi16(y + i, (__mmask32)((1ull << (low + high)) - 1),
                                 (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
}

void QKV_SIMD(qkv__kernels_bf16)(qkv_kernels *k)
{
    in_f32 = k->gemm;
    k->gemm = simd_bf16_gemm;
}

#else
void QKV_SIMD(qkv__kernels_bf16)(qkv_kernels *k) { (void)k; }
#endif
