/* gguf_types.c - ggml's types: numbers in blocks, of which each has a scale. The layout of a block,
 * and which of the possible numbers is nearest, are those of ggml's reference code; a comment gives
 * each block's bytes. */
#include <math.h>
#include <string.h>

#include "io/convert.h"
#include "io/gguf_types.h"

enum { SMALL = 32, LARGE = 256 }; /* numbers in a block */

static float load_half(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return qkv__from_f16(h);
}

static void store_half(uint8_t *p, float x)
{
    uint16_t h = qkv__to_f16(x);
    memcpy(p, &h, sizeof h);
}

/* ---- numbers by themselves ------------------------------------------------------------------- */

static void decode_f32(qkv_real *out, const uint8_t *in, size_t n)
{
    (void)qkv__store_read(out, in, QKV_STORE_F32, n);
}

static void decode_f16(qkv_real *out, const uint8_t *in, size_t n)
{
    (void)qkv__store_read(out, in, QKV_STORE_F16, n);
}

static void decode_bf16(qkv_real *out, const uint8_t *in, size_t n)
{
    (void)qkv__store_read(out, in, QKV_STORE_BF16, n);
}

static void decode_f64(qkv_real *out, const uint8_t *in, size_t n)
{
    (void)qkv__store_read(out, in, QKV_STORE_F64, n);
}

static void encode_f32(uint8_t *out, const qkv_real *x, size_t n)
{
    (void)qkv__store_write(out, x, QKV_STORE_F32, n);
}

static void encode_f16(uint8_t *out, const qkv_real *x, size_t n)
{
    (void)qkv__store_write(out, x, QKV_STORE_F16, n);
}

static void encode_bf16(uint8_t *out, const qkv_real *x, size_t n)
{
    (void)qkv__store_write(out, x, QKV_STORE_BF16, n);
}

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

/* d, 32 of 8 bits: d q. */
static void decode_q8_0(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 34, out += SMALL) {
        float d = load_half(in);
        for (int i = 0; i < SMALL; i++)
            out[i] = (qkv_real)((float)(int8_t)in[2 + i] * d);
    }
}

static float largest_of_block(const qkv_real *x)
{
    float most = 0, value = 0;
    for (int i = 0; i < SMALL; i++)
        if (fabsf((float)x[i]) > most) {
            value = (float)x[i];
            most = fabsf(value);
        }
    return value;
}

/* 1 / d; 0 where d is so small that halves take it for 0. */
static float inverse_of(float d)
{
    const float inverse = d != 0 ? 1 / d : 0;
    return isfinite(inverse) ? inverse : 0;
}

static void encode_q8_0(uint8_t *out, const qkv_real *x, size_t blocks)
{
    for (; blocks--; out += 34, x += SMALL) {
        float d = fabsf(largest_of_block(x)) / 127, inverse = inverse_of(d);
        store_half(out, d);
        for (int i = 0; i < SMALL; i++)
            out[2 + i] = (uint8_t)(int8_t)roundf((float)x[i] * inverse);
    }
}

/* d, 32 of 4 bits, number i and number i + 16 in a byte: d (q - 8). */
static void decode_q4_0(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 18, out += SMALL) {
        float d = load_half(in);
        for (int i = 0; i < 16; i++) {
            out[i] = (qkv_real)((float)((in[2 + i] & 15) - 8) * d);
            out[i + 16] = (qkv_real)((float)((in[2 + i] >> 4) - 8) * d);
        }
    }
}

/* The number of the largest magnitude becomes -8 d. In double, since the reference's compiler may
 * fuse the product with the sum. */
static unsigned nearest_q4_0(float x, float inverse)
{
    double q = trunc((double)x * (double)inverse + 8.5);
    return q > 15 ? 15 : (unsigned)q;
}

static void encode_q4_0(uint8_t *out, const qkv_real *x, size_t blocks)
{
    for (; blocks--; out += 18, x += SMALL) {
        float d = largest_of_block(x) / -8, inverse = inverse_of(d);
        store_half(out, d);
        for (int i = 0; i < 16; i++)
            out[2 + i] = (uint8_t)(nearest_q4_0((float)x[i], inverse) |
                                   nearest_q4_0((float)x[i + 16], inverse) << 4);
    }
}

/* d, m, 32 of 4 bits: d q + m. */
static void decode_q4_1(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 20, out += SMALL) {
        float d = load_half(in), m = load_half(in + 2);
        for (int i = 0; i < 16; i++) {
            float low = (float)(in[4 + i] & 15) * d, high = (float)(in[4 + i] >> 4) * d;
            out[i] = (qkv_real)(low + m);
            out[i + 16] = (qkv_real)(high + m);
        }
    }
}

/* Number i of 5 bits: 4 of them in nibbles, the fifth in the word `high`. */
static int five_bits(const uint8_t *nibbles, const uint8_t *high, int i)
{
    uint32_t word;
    memcpy(&word, high, sizeof word);
    int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    return low | (int)(word >> i & 1) << 4;
}

/* d, 32 fifth bits, 32 of 4 bits: d (q - 16). */
static void decode_q5_0(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 22, out += SMALL) {
        float d = load_half(in);
        for (int i = 0; i < SMALL; i++)
            out[i] = (qkv_real)((float)(five_bits(in + 6, in + 2, i) - 16) * d);
    }
}

/* d, m, 32 fifth bits, 32 of 4 bits: d q + m. */
static void decode_q5_1(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 24, out += SMALL) {
        float d = load_half(in), m = load_half(in + 2);
        for (int i = 0; i < SMALL; i++) {
            float q = (float)five_bits(in + 8, in + 4, i) * d;
            out[i] = (qkv_real)(q + m);
        }
    }
}

/* ---- blocks of 256, in parts that have scales of few bits themselves ------------------------- */

/* Scale and minimum, 6 bits each, of part i of 8, in 12 bytes. */
static void six_bits(const uint8_t *p, int i, int *scale, int *minimum)
{
    *scale = i < 4 ? p[i] & 63 : (p[i + 4] & 15) | p[i - 4] >> 6 << 4;
    *minimum = i < 4 ? p[i + 4] & 63 : p[i + 4] >> 4 | p[i] >> 6 << 4;
}

/* A part of 32 numbers: d scale q - dmin minimum, q of 4 bits and a fifth (bit `part` of high, or
 * NULL: there is none). */
static void decode_part(qkv_real *out, const uint8_t *in, const uint8_t *high, const uint8_t *low,
                        int part)
{
    int scale, minimum;
    six_bits(in + 4, part, &scale, &minimum);
    float d = load_half(in) * (float)scale, m = load_half(in + 2) * (float)minimum;
    for (int i = 0; i < SMALL; i++) {
        int q = low[part / 2 * SMALL + i] >> part % 2 * 4 & 15;
        if (high)
            q |= (high[i] >> part & 1) << 4;
        float product = d * (float)q;
        out[i] = (qkv_real)(product - m);
    }
}

/* d, dmin, 12 of scales, 128 of 4 bits. */
static void decode_q4_k(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 144)
        for (int part = 0; part < 8; part++, out += SMALL)
            decode_part(out, in, NULL, in + 16, part);
}

/* d, dmin, 12 of scales, 32 of fifth bits, 128 of 4 bits. */
static void decode_q5_k(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 176)
        for (int part = 0; part < 8; part++, out += SMALL)
            decode_part(out, in, in + 16, in + 48, part);
}

/* 128 of 4 bits, 64 of 2 bits above them, 16 scales of 8 bits, d: d scale (q - 32). */
static void decode_q6_k(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 210, out += LARGE) {
        float d = load_half(in + 208);
        for (int i = 0; i < LARGE; i++) {
            int half = i / 128, quarter = i % 128 / 32, at = i % 32;
            int low = in[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
            int high = in[128 + half * 32 + at] >> quarter * 2 & 3;
            float scale = d * (float)(int8_t)in[192 + i / 16];
            out[i] = (qkv_real)(scale * (float)((low | high << 4) - 32));
        }
    }
}

/* 16 of scale and minimum, 64 of 2 bits, d, dmin: d scale q - dmin minimum. */
static void decode_q2_k(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 84, out += LARGE) {
        float d = load_half(in + 80), dmin = load_half(in + 82);
        for (int i = 0; i < LARGE; i++) {
            int q = in[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
            float scale = d * (float)(in[i / 16] & 15), m = dmin * (float)(in[i / 16] >> 4);
            float product = scale * (float)q;
            out[i] = (qkv_real)(product - m);
        }
    }
}

/* 32 of third bits, 64 of 2 bits, 12 of scales, d: d (scale - 32) q; a third bit that is not set
 * takes 4 off. */
static void decode_q3_k(qkv_real *out, const uint8_t *in, size_t blocks)
{
    for (; blocks--; in += 110, out += LARGE) {
        float d = load_half(in + 108);
        const uint8_t *scales = in + 96;
        for (int i = 0; i < LARGE; i++) {
            int part = i / 16, q = in[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
            int low = scales[part % 8] >> part / 8 * 4 & 15;
            int high = scales[8 + part % 4] >> part / 4 * 2 & 3;
            q -= in[i % 32] >> i / 32 & 1 ? 0 : 4;
            float scale = d * (float)((low | high << 4) - 32);
            out[i] = (qkv_real)(scale * (float)q);
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static const qkv__gguf_type types[] = {
    {"F32", 0, 0, 1, 4, decode_f32, encode_f32},
    {"F16", 1, 1, 1, 2, decode_f16, encode_f16},
    {"BF16", 30, 32, 1, 2, decode_bf16, encode_bf16},
    {"F64", 28, 0, 1, 8, decode_f64, NULL},
    {"Q8_0", 8, 7, SMALL, 34, decode_q8_0, encode_q8_0},
    {"Q4_0", 2, 2, SMALL, 18, decode_q4_0, encode_q4_0},
    {"Q4_1", 3, 3, SMALL, 20, decode_q4_1, NULL},
    {"Q5_0", 6, 8, SMALL, 22, decode_q5_0, NULL},
    {"Q5_1", 7, 9, SMALL, 24, decode_q5_1, NULL},
    {"Q2_K", 10, 10, LARGE, 84, decode_q2_k, NULL},
    {"Q3_K", 11, 12, LARGE, 110, decode_q3_k, NULL},
    {"Q4_K", 12, 15, LARGE, 144, decode_q4_k, NULL},
    {"Q5_K", 13, 17, LARGE, 176, decode_q5_k, NULL},
    {"Q6_K", 14, 18, LARGE, 210, decode_q6_k, NULL},
    {"Q8_1", 9, 0, SMALL, 40, NULL, NULL},     {"Q8_K", 15, 0, LARGE, 292, NULL, NULL},
    {"IQ2_XXS", 16, 0, LARGE, 66, NULL, NULL}, {"IQ2_XS", 17, 0, LARGE, 74, NULL, NULL},
    {"IQ3_XXS", 18, 0, LARGE, 98, NULL, NULL}, {"IQ1_S", 19, 0, LARGE, 50, NULL, NULL},
    {"IQ4_NL", 20, 0, SMALL, 18, NULL, NULL},  {"IQ3_S", 21, 0, LARGE, 110, NULL, NULL},
    {"IQ2_S", 22, 0, LARGE, 82, NULL, NULL},   {"IQ4_XS", 23, 0, LARGE, 136, NULL, NULL},
    {"I8", 24, 0, 1, 1, NULL, NULL},           {"I16", 25, 0, 1, 2, NULL, NULL},
    {"I32", 26, 0, 1, 4, NULL, NULL},          {"I64", 27, 0, 1, 8, NULL, NULL},
    {"IQ1_M", 29, 0, LARGE, 56, NULL, NULL},   {"TQ1_0", 34, 0, LARGE, 54, NULL, NULL},
    {"TQ2_0", 35, 0, LARGE, 66, NULL, NULL},   {"MXFP4", 39, 0, SMALL, 17, NULL, NULL},
    {"NVFP4", 40, 0, 64, 36, NULL, NULL},      {"Q1_0", 41, 0, 128, 18, NULL, NULL},
};

const qkv__gguf_type *qkv__gguf_type_find(uint32_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

const qkv__gguf_type *qkv__gguf_type_named(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *a = types[i].name, *b = name;
        while (*a && (*a == *b || (*a >= 'A' && *a <= 'Z' && *a + 32 == *b)))
            a++, b++;
        if (!*a && !*b)
            return &types[i];
    }
    return NULL;
}
