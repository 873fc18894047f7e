/* small.c - weights in fewer bits: rounding them, and their layout. On the host, once a model. */
#include "kernel/small.h"

#include <math.h>

const qkv__small_kind qkv__small_kinds[] = {
    [QKV_K_BF16] = {2, 0, 2},
    [QKV_K_INT8] = {4, 128, QKV_K_INT8_BLOCK},
    [QKV_K_INT4] = {8, 8, QKV_K_INT4_BLOCK},
};

size_t qkv__small_group_bytes(const qkv_k_small *w)
{
    return qkv__small_padded(w) / qkv__small_kinds[w->type].numbers * QKV__SMALL_LINE;
}

size_t qkv__small_word_bytes(const qkv_k_small *w)
{
    return qkv__small_groups(w) * qkv__small_group_bytes(w);
}

size_t qkv__small_row_scales(const qkv_k_small *w)
{
    return w->type == QKV_K_BF16   ? 0
           : w->type == QKV_K_INT8 ? 1
                                   : qkv__small_padded(w) / QKV_K_INT4_BLOCK;
}

size_t qkv__small_scale_bytes(const qkv_k_small *w)
{
    size_t bytes = w->type == QKV_K_INT4 ? sizeof(uint16_t) : sizeof(float);
    return qkv__small_groups(w) * QKV_K_PACKED * qkv__small_row_scales(w) * bytes;
}

uint16_t qkv__small_to_bf16(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    if (isnan(x))
        return (uint16_t)(word >> 16 | 0x40u);
    return (uint16_t)((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
}

/* ---- places -------------------------------------------------------------------------------- */

/* The byte of an integer; that of the first half of a number in bf16. */
static unsigned char *byte_of(const qkv_k_small *w, size_t row, size_t at)
{
    size_t numbers = qkv__small_kinds[w->type].numbers, in_line = at % numbers;
    size_t byte = w->type == QKV_K_BF16 ? 2 * in_line : in_line % 4;
    return (unsigned char *)w->words + row / QKV_K_PACKED * qkv__small_group_bytes(w) +
           at / numbers * QKV__SMALL_LINE + row % QKV_K_PACKED * 4 + byte;
}

int qkv__small_integer(const qkv_k_small *w, size_t row, size_t at)
{
    int byte = *byte_of(w, row, at);
    if (w->type == QKV_K_INT4)
        byte = at % 8 < 4 ? byte & 15 : byte >> 4;
    return byte - qkv__small_kinds[w->type].offset;
}

static void put_integer(const qkv_k_small *w, size_t row, size_t at, int value)
{
    unsigned char *byte = byte_of(w, row, at);
    unsigned word = (unsigned)(value + qkv__small_kinds[w->type].offset);
    if (w->type != QKV_K_INT4)
        *byte = (unsigned char)word;
    else if (at % 8 < 4)
        *byte = (unsigned char)((*byte & 0xf0u) | word);
    else
        *byte = (unsigned char)((*byte & 0x0fu) | word << 4);
}

float qkv__small_number(const qkv_k_small *w, size_t row, size_t at)
{
    const unsigned char *byte = byte_of(w, row, at);
    return qkv__bf16_number((uint16_t)(byte[0] | byte[1] << 8));
}

/* Where the scale of a row's block is, of blocks in 4 bits. */
static uint16_t *block_scale(const qkv_k_small *w, size_t row, size_t block)
{
    size_t blocks = qkv__small_row_scales(w);
    return (uint16_t *)w->scales +
           (row / QKV_K_PACKED * blocks + block) * QKV_K_PACKED + row % QKV_K_PACKED;
}

float qkv__small_scale(const qkv_k_small *w, size_t row, size_t at)
{
    if (w->type == QKV_K_INT8)
        return ((const float *)w->scales)[row];
    return qkv__bf16_number(*block_scale(w, row, at / QKV_K_INT4_BLOCK));
}

/* ---- rounding ------------------------------------------------------------------------------ */

/* The nearest integer, of two the even one, of |x| below 2^22. */
static float small_nearest(float x)
{
    const float big = 12582912.0f;
    return (x + big) - big;
}

/* The largest |x|; NaN when one of them is not finite. */
static float largest_of(const qkv_real *x, size_t n)
{
    float most = 0, odd = 0;
    for (size_t i = 0; i < n; i++) {
        float size = fabsf((float)x[i]);
        most = size > most ? size : most;
        odd += size * 0;
    }
    return most + odd;
}

float qkv__small_inverse8(const qkv_real *x, size_t n, float *scale)
{
    float most = largest_of(x, n), inverse = 127 / most;
    bool fine = isfinite(most) && isfinite(inverse);
    *scale = fine ? most / 127 : isfinite(most) ? 0 : NAN;
    return fine ? inverse : 0;
}

int qkv__small_int8(float x, float inverse)
{
    return inverse > 0 ? (int)small_nearest(x * inverse) : 0;
}

/* What a scale gives: with integers q = x / scale, at least -8 and at most 7, the best scale s for
 * them is <x, q> / <q, q>, here to the nearest bf16 number. Its squared error is less than |x|^2 by
 * 2 s <x, q> - s^2 <q, q>. */
typedef struct {
    float scale, gain;
} fitted;

static fitted small_fit(const float x[QKV_K_INT4_BLOCK], float inverse)
{
    float xq = 0, qq = 0;
    for (size_t i = 0; i < QKV_K_INT4_BLOCK; i++) {
        float q = small_nearest(x[i] * inverse);
        q = q > 7 ? 7 : q < -8 ? -8 : q;
        xq += x[i] * q;
        qq += q * q;
    }
    if (!(qq > 0))
        return (fitted){0, 0};
    float scale = qkv__bf16_number(qkv__small_to_bf16(xq / qq));
    return (fitted){scale, scale * (2 * xq - scale * qq)};
}

/* Scales are tried that put the largest number at 6 to 8.5, either way round, since -8 has no
 * counterpart; and at 1 to 5, so that numbers that were rounded before stay what they are. */
float qkv__small_int4(int8_t *q, const qkv_real *x, size_t n)
{
    static const float places[] = {1, 2,    3,   4,    5, 6,    6.25f, 6.5f,
                                   6.75f, 7, 7.25f, 7.5f, 7.75f, 8, 8.25f, 8.5f};
    const size_t tries = sizeof places / sizeof *places;
    float all[QKV_K_INT4_BLOCK] = {0}, most = largest_of(x, n);
    memset(q, 0, n);
    if (!isfinite(most) || !isfinite(9 / most))
        return isfinite(most) ? 0 : NAN;
    for (size_t i = 0; i < n; i++)
        all[i] = (float)x[i];
    fitted best = {0, 0};
    for (int sign = -1; sign <= 1; sign += 2)
        for (size_t t = 0; t < tries; t++) {
            fitted now = small_fit(all, (float)sign * places[t] / most);
            best = now.gain > best.gain ? now : best;
        }
    float inverse = 1 / best.scale;
    if (!isfinite(best.scale) || !isfinite(inverse))
        return 0;
    for (size_t i = 0; i < n; i++) {
        float value = small_nearest(all[i] * inverse);
        q[i] = (int8_t)(value > 7 ? 7 : value < -8 ? -8 : value);
    }
    return best.scale;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void put_scale(const qkv_k_small *w, size_t row, size_t i, float scale)
{
    if (w->type == QKV_K_INT8)
        ((float *)w->scales)[row] = scale;
    else
        *block_scale(w, row, i) = qkv__small_to_bf16(scale);
}

static void round_bf16(const qkv_k_small *w, size_t row, const qkv_real *x)
{
    for (size_t i = 0; i < w->k; i++) {
        unsigned char *byte = byte_of(w, row, i);
        uint16_t half = qkv__small_to_bf16((float)x[i]);
        byte[0] = (unsigned char)(half & 255u);
        byte[1] = (unsigned char)(half >> 8);
    }
}

static void round_int8(const qkv_k_small *w, size_t row, const qkv_real *x)
{
    float scale, inverse = qkv__small_inverse8(x, w->k, &scale);
    for (size_t i = 0; i < w->k; i++)
        put_integer(w, row, i, qkv__small_int8((float)x[i], inverse));
    put_scale(w, row, 0, scale);
}

static void round_int4(const qkv_k_small *w, size_t row, const qkv_real *x)
{
    int8_t q[QKV_K_INT4_BLOCK];
    for (size_t at = 0; at < w->k; at += QKV_K_INT4_BLOCK) {
        size_t left = w->k - at, n = left < QKV_K_INT4_BLOCK ? left : QKV_K_INT4_BLOCK;
        put_scale(w, row, at / QKV_K_INT4_BLOCK, qkv__small_int4(q, x + at, n));
        for (size_t i = 0; i < n; i++)
            put_integer(w, row, at + i, q[i]);
    }
}

void qkv__small_round(const qkv_k_small *w, size_t row, const qkv_real *x)
{
    static void (*const rounds[])(const qkv_k_small *, size_t, const qkv_real *) = {
        [QKV_K_BF16] = round_bf16, [QKV_K_INT8] = round_int8, [QKV_K_INT4] = round_int4};
    rounds[w->type](w, row, x);
}

void qkv__small_copy(const qkv_k_small *w, size_t row, const qkv_k_small *x, size_t from)
{
    size_t bytes = qkv__small_group_bytes(w);
    unsigned char *to = byte_of(w, row, 0);
    const unsigned char *at = byte_of(x, from, 0);
    for (size_t line = 0; line < bytes; line += QKV__SMALL_LINE)
        memcpy(to + line, at + line, 4);
    if (w->type == QKV_K_INT8)
        ((float *)w->scales)[row] = ((const float *)x->scales)[from];
    for (size_t i = 0; w->type == QKV_K_INT4 && i < qkv__small_row_scales(w); i++)
        *block_scale(w, row, i) = *block_scale(x, from, i);
}

void qkv__small_reals(const qkv_k_small *w, size_t row, qkv_real *x)
{
    for (size_t i = 0; i < w->k; i++)
        x[i] = w->type == QKV_K_BF16
                   ? (qkv_real)qkv__small_number(w, row, i)
                   : (qkv_real)qkv__small_scale(w, row, i) *
                         (qkv_real)qkv__small_integer(w, row, i);
}

void qkv__small_clear(const qkv_k_small *w)
{
    static const unsigned char zero[] = {[QKV_K_BF16] = 0, [QKV_K_INT8] = 128, [QKV_K_INT4] = 0x88};
    memset(w->words, zero[w->type], qkv__small_word_bytes(w));
    if (w->type != QKV_K_BF16)
        memset(w->scales, 0, qkv__small_scale_bytes(w));
}

void qkv__small_round_all(const qkv_k_small *w, const qkv_real *x, int threads)
{
    size_t groups = qkv__small_groups(w);
    qkv__small_clear(w);
#pragma omp parallel for num_threads(threads) schedule(static) default(none) shared(w, x, groups)
    for (size_t g = 0; g < groups; g++)
        for (size_t i = 0; i < QKV_K_PACKED && g * QKV_K_PACKED + i < w->n; i++)
            qkv__small_round(w, g * QKV_K_PACKED + i, x + (g * QKV_K_PACKED + i) * w->k);
}
