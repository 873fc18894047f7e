/* ref_small.c - products with weights in fewer bits in plain C: the measure of the others. */
#include "kernel/ref_math.h"
#include "kernel/small.h"

typedef struct {
    qkv_real *y;
    const qkv_real *x;
    const qkv_k_small *w;
    const qkv_real *bias;
    size_t ldy, ldx, m, block, blocks;
    const int8_t *q;         /* (m, blocks, block): x in 8 bits */
    const qkv_real *q_scale; /* (m, blocks) */
} product;

/* q (block) stands for x (n <= block); returns the scale, NaN when x is not finite. */
static qkv_real round_block(int8_t *q, const qkv_real *x, size_t n, size_t block)
{
    qkv_real most = 0, odd = 0;
    memset(q, 0, block);
    for (size_t i = 0; i < n; i++) {
        qkv_real size = (qkv_real)fabs((double)x[i]);
        most = size > most ? size : most;
        odd += x[i] * 0;
    }
    qkv_real inverse = 127 / most;
    if (!isfinite(odd) || !isfinite(inverse))
        return odd;
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)nearbyint((double)(x[i] * inverse));
    return most / 127;
}

static void round_rows(const qkv_exec *e, const product *t, int8_t *q, qkv_real *scale)
{
    size_t m = t->m, blocks = t->blocks;
#pragma omp parallel for num_threads(e->threads) if (m * t->w->k > REF_GRAIN) schedule(static)     \
    default(none) shared(t, q, scale, m, blocks)
    for (size_t i = 0; i < m * blocks; i++) {
        size_t at = i % blocks * t->block, left = t->w->k - at;
        scale[i] = round_block(q + i * t->block, t->x + i / blocks * t->ldx + at,
                               left < t->block ? left : t->block, t->block);
    }
}

/* Row j of w with row i of x, whose scales come with it. */
static qkv_real integer_entry(const product *t, size_t i, size_t j)
{
    qkv_real sum = 0;
    for (size_t b = 0; b < t->blocks; b++) {
        const int8_t *q = t->q + (i * t->blocks + b) * t->block;
        size_t at = b * t->block, left = t->w->k - at;
        int dot = 0;
        for (size_t p = 0; p < t->block && p < left; p++)
            dot += q[p] * qkv__small_integer(t->w, j, at + p);
        sum += (qkv_real)dot * (qkv_real)qkv__small_scale(t->w, j, at) *
               t->q_scale[i * t->blocks + b];
    }
    return sum;
}

static qkv_real bf16_entry(const product *t, size_t i, size_t j)
{
    qkv_real sum = 0;
    for (size_t p = 0; p < t->w->k; p++)
        sum += t->x[i * t->ldx + p] * (qkv_real)qkv__small_number(t->w, j, p);
    return sum;
}

static void ref_small_small(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x,
                            size_t ldx, const qkv_k_small *w, const qkv_real *bias, size_t m)
{
    product t = {.y = y, .x = x, .w = w, .bias = bias, .ldy = ldy, .ldx = ldx, .m = m};
    qkv__mark mark = qkv__arena_mark(e->scratch);
    if (w->type != QKV_K_BF16) {
        t.block = qkv__small_kinds[w->type].block;
        t.blocks = qkv__small_padded(w) / t.block;
        qkv_real *scale = qkv__arena_alloc(e->scratch, m * t.blocks * sizeof *scale);
        int8_t *q = scale ? qkv__arena_alloc(e->scratch, m * t.blocks * t.block) : NULL;
        if (!q) {
            qkv__arena_release(e->scratch, mark);
            return;
        }
        round_rows(e, &t, q, scale);
        t.q = q;
        t.q_scale = scale;
    }
#pragma omp parallel for num_threads(e->threads) if (m * w->n * w->k > REF_GRAIN)                  \
    schedule(static) default(none) shared(t)
    for (size_t j = 0; j < t.w->n; j++)
        for (size_t i = 0; i < t.m; i++)
            t.y[i * t.ldy + j] = (t.w->type == QKV_K_BF16 ? bf16_entry : integer_entry)(&t, i, j) +
                                 (t.bias ? t.bias[j] : 0);
    qkv__arena_release(e->scratch, mark);
}

/* A line's numbers, turned: out (numbers, QKV_K_PACKED). scale: of the rows' integers there. */
static void widen_bf16(qkv_real out[][QKV_K_PACKED], const unsigned char *line,
                       const qkv_real *scale)
{
    (void)scale;
    for (size_t j = 0; j < QKV_K_PACKED; j++) {
        uint32_t pair;
        memcpy(&pair, line + 4 * j, sizeof pair);
        out[0][j] = (qkv_real)qkv__bf16_number((uint16_t)pair);
        out[1][j] = (qkv_real)qkv__bf16_number((uint16_t)(pair >> 16));
    }
}

static void widen_int8(qkv_real out[][QKV_K_PACKED], const unsigned char *line,
                       const qkv_real *scale)
{
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < QKV_K_PACKED; j++)
            out[i][j] = scale[j] * (qkv_real)((int)line[4 * j + i] - 128);
}

static void widen_int4(qkv_real out[][QKV_K_PACKED], const unsigned char *line,
                       const qkv_real *scale)
{
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < QKV_K_PACKED; j++) {
            out[i][j] = scale[j] * (qkv_real)((int)(line[4 * j + i] & 15) - 8);
            out[i + 4][j] = scale[j] * (qkv_real)((int)(line[4 * j + i] >> 4) - 8);
        }
}

static void (*const widen_lines[])(qkv_real[][QKV_K_PACKED], const unsigned char *,
                                   const qkv_real *) = {
    [QKV_K_BF16] = widen_bf16, [QKV_K_INT8] = widen_int8, [QKV_K_INT4] = widen_int4};

/* Rows first .. first+rows-1 of w, of one group, turned. */
static void widen_group(qkv_real *y, size_t ldy, const qkv_k_small *w, size_t first, size_t rows)
{
    const size_t numbers = qkv__small_kinds[w->type].numbers;
    const size_t block = w->type == QKV_K_INT4 ? QKV_K_INT4_BLOCK : w->k;
    const unsigned char *line = (const unsigned char *)w->words +
                                first / QKV_K_PACKED * qkv__small_group_bytes(w);
    qkv_real scale[QKV_K_PACKED] = {0}, out[8][QKV_K_PACKED];
    for (size_t p = 0; p < w->k; p += numbers, line += QKV__SMALL_LINE) {
        size_t left = w->k - p;
        for (size_t j = 0; j < rows && w->type != QKV_K_BF16 && p % block == 0; j++)
            scale[j] = (qkv_real)qkv__small_scale(w, first + j, p);
        widen_lines[w->type](out, line, scale);
        for (size_t i = 0; i < numbers && i < left; i++)
            memcpy(y + (p + i) * ldy, out[i], rows * sizeof *y);
    }
}

static void ref_small_widen(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_k_small *w,
                            size_t first, size_t n)
{
    size_t groups = (n + QKV_K_PACKED - 1) / QKV_K_PACKED;
#pragma omp parallel for num_threads(e->threads) if (n * w->k > REF_GRAIN) schedule(static)        \
    default(none) shared(y, ldy, w, first, n, groups)
    for (size_t g = 0; g < groups; g++) {
        size_t at = g * QKV_K_PACKED, left = n - at;
        widen_group(y + at, ldy, w, first + at, left < QKV_K_PACKED ? left : QKV_K_PACKED);
    }
}

static void ref_small_embed_small(const qkv_exec *e, qkv_real *y, const int32_t *ids,
                                  const qkv_k_small *table, double scale, const int32_t *positions,
                                  const qkv_real *ptable, size_t N)
{
    qkv_real factor = (qkv_real)scale;
    size_t C = table->k;
#pragma omp parallel for num_threads(e->threads) if (N * C > REF_GRAIN) schedule(static)           \
    default(none) shared(y, ids, table, factor, positions, ptable, N, C)
    for (size_t i = 0; i < N; i++) {
        qkv_real *row = y + i * C;
        const qkv_real *place = positions ? ptable + (size_t)positions[i] * C : NULL;
        qkv__small_reals(table, (size_t)ids[i], row);
        for (size_t c = 0; c < C; c++)
            row[c] = factor * row[c] + (place ? place[c] : 0);
    }
}

static void ref_small_take_small(const qkv_exec *e, const qkv_k_small *y, const qkv_k_small *x,
                                 const int32_t *ids)
{
    size_t groups = qkv__small_groups(y);
    qkv__small_clear(y);
#pragma omp parallel for num_threads(e->threads) if (y->n * y->k > REF_GRAIN) schedule(static)     \
    default(none) shared(y, x, ids, groups)
    for (size_t g = 0; g < groups; g++) /* rows of a group share lines */
        for (size_t i = g * QKV_K_PACKED; i < (g + 1) * QKV_K_PACKED && i < y->n; i++)
            qkv__small_copy(y, i, x, (size_t)ids[i]);
}

void qkv__kernels_ref_small(qkv_kernels *k)
{
    k->small = k->small_many = ref_small_small;
    k->widen = ref_small_widen;
    k->embed_small = ref_small_embed_small;
    k->take_small = ref_small_take_small;
}
