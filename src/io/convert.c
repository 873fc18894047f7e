/* convert.c - half, bfloat16 and the integer types of files, to and from reals. */
#include "io/convert.h"

#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are little-endian, and this code copies numbers as they stand"
#endif

static const struct {
    const char *name;
    size_t bytes;
} stores[] = {{"?", 0},   {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"I16", 2},
              {"U16", 2}, {"F16", 2},  {"BF16", 2}, {"I32", 4}, {"U32", 4},
              {"F32", 4}, {"F64", 8},  {"I64", 8}, {"U64", 8}, {"?", 0}};

const char *qkv_store_name(qkv_store store)
{
    return stores[store].name;
}

size_t qkv_store_bytes(qkv_store store)
{
    return stores[store].bytes;
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Half: 1 sign, 5 exponent (bias 15), 10 fraction; below 2^-14 in steps of 2^-24. */
float qkv__from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest < 0x0400)
        return from_bits(sign | to_bits((float)rest * 0x1p-24f));
    if (rest >= 0x7c00)
        return from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    return from_bits(sign | ((rest << 13) + (112u << 23)));
}

uint16_t qkv__to_f16(float x)
{
    uint32_t bits = to_bits(x), sign = bits >> 16 & 0x8000, a = bits & 0x7fffffff, half;
    if (a > 0x7f800000) {
        half = 0x7e00;
    } else if (a >= 0x47800000) { /* 2^16 and above */
        half = 0x7c00;
    } else if (a >= 0x38800000) { /* 2^-14: a carry may run into infinity, as it should */
        half = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
    } else if (a >= 0x33000000) { /* 2^-25: in units of 2^-24 */
        uint32_t shift = 126 - (a >> 23), fraction = (a & 0x7fffff) | 0x800000;
        uint32_t rest = fraction & ((1u << shift) - 1), middle = 1u << (shift - 1);
        half = fraction >> shift;
        half += rest > middle || (rest == middle && (half & 1));
    } else {
        half = 0;
    }
    return (uint16_t)(sign | half);
}

float qkv__from_bf16(uint16_t b)
{
    return from_bits((uint32_t)b << 16);
}

uint16_t qkv__to_bf16(float x)
{
    uint32_t bits = to_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t load16(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void read_floats(qkv_real *out, const unsigned char *p, qkv_store store, size_t n)
{
    float f;
    double d;
    switch (store) {
    case QKV_STORE_F16:
        for (size_t i = 0; i < n; i++)
            out[i] = (qkv_real)qkv__from_f16(load16(p + 2 * i));
        break;
    case QKV_STORE_BF16:
        for (size_t i = 0; i < n; i++)
            out[i] = (qkv_real)qkv__from_bf16(load16(p + 2 * i));
        break;
    case QKV_STORE_F32:
        if (sizeof(qkv_real) == sizeof f) {
            if (n)
                memcpy(out, p, n * sizeof f);
            break;
        }
        for (size_t i = 0; i < n; i++) {
            memcpy(&f, p + 4 * i, sizeof f);
            out[i] = (qkv_real)f;
        }
        break;
    default:
        for (size_t i = 0; i < n; i++) {
            memcpy(&d, p + 8 * i, sizeof d);
            out[i] = (qkv_real)d;
        }
        break;
    }
}

static bool is_float(qkv_store store)
{
    return store == QKV_STORE_F16 || store == QKV_STORE_BF16 || store == QKV_STORE_F32 ||
           store == QKV_STORE_F64;
}

bool qkv__store_read(qkv_real *out, const void *src, qkv_store store, size_t n)
{
    const unsigned char *p = src;
    if (is_float(store)) {
        read_floats(out, p, store, n);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        int64_t value;
        if (!qkv__store_read_ints(&value, p + i * qkv_store_bytes(store), store, 1))
            return false;
        out[i] = store == QKV_STORE_U64 ? (qkv_real)(uint64_t)value : (qkv_real)value;
    }
    return store != QKV_STORE_OTHER;
}

bool qkv__store_read_ints(int64_t *out, const void *src, qkv_store store, size_t n)
{
    const unsigned char *p = src;
    size_t bytes = qkv_store_bytes(store);
    bool is_signed = store == QKV_STORE_I8 || store == QKV_STORE_I16 || store == QKV_STORE_I32;
    if (is_float(store) || bytes == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t word = 0, sign = (uint64_t)1 << (8 * bytes - 1);
        memcpy(&word, p + i * bytes, bytes);
        if (is_signed) /* sign extension by two's complement */
            word = (word ^ sign) - sign;
        if (store == QKV_STORE_BOOL)
            word = word != 0;
        memcpy(&out[i], &word, sizeof word);
    }
    return true;
}

bool qkv__store_write(void *out, const qkv_real *src, qkv_store store, size_t n)
{
    unsigned char *p = out;
    if (!is_float(store))
        return false;
    switch (store) {
    case QKV_STORE_F16:
        for (size_t i = 0; i < n; i++) {
            uint16_t word = qkv__to_f16((float)src[i]);
            memcpy(p + 2 * i, &word, sizeof word);
        }
        break;
    case QKV_STORE_BF16:
        for (size_t i = 0; i < n; i++) {
            uint16_t word = qkv__to_bf16((float)src[i]);
            memcpy(p + 2 * i, &word, sizeof word);
        }
        break;
    case QKV_STORE_F32:
        for (size_t i = 0; i < n; i++) {
            float f = (float)src[i];
            memcpy(p + 4 * i, &f, sizeof f);
        }
        break;
    default:
        for (size_t i = 0; i < n; i++) {
            double d = (double)src[i];
            memcpy(p + 8 * i, &d, sizeof d);
        }
        break;
    }
    return true;
}
