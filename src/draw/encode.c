/* encode.c - images as data URIs, SHA-256, deflate, numbers as text. */
#include "draw/encode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "io/image_codecs.h"

#ifdef QKV_HAVE_IMAGES
#define ZLIB_CONST /* next_in points to const */
#include <limits.h>
#include <zlib.h>
#endif

static bool encode_append(void *user, const void *data, size_t size)
{
    qkv_str *s = user;
    qkv_str_add(s, data, size);
    return !s->failed;
}

qkv_status qkv__png_uri(qkv_str *out, const qkv_image *image)
{
    qkv_str file;
    qkv_str_init(&file, out->ctx);
    qkv_status status = qkv__png_encode(image, out->ctx, encode_append, &file);
    if (!status) {
        qkv_str_puts(out, "data:image/png;base64,");
        qkv__base64_put(out, file.data, file.len);
    }
    status = !status && out->failed ? QKV_E_MEMORY : status;
    qkv_str_free(&file);
    return status;
}

/* ---- SHA-256 --------------------------------------------------------------------------------- */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t sha_turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void sha_block(uint32_t state[8], const uint8_t *p)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (sha_turn(a, 7) ^ sha_turn(a, 18) ^ a >> 3) +
               (sha_turn(b, 17) ^ sha_turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t t1 = s[7] + (sha_turn(e, 6) ^ sha_turn(e, 11) ^ sha_turn(e, 25)) +
                      ((e & s[5]) ^ (~e & s[6])) + round_constants[i] + w[i];
        uint32_t t2 = (sha_turn(a, 2) ^ sha_turn(a, 13) ^ sha_turn(a, 22)) +
                      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void qkv__sha256(uint8_t out[32], const void *data, size_t size)
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *p = data;
    uint8_t last[128] = {0};
    size_t whole = size / 64 * 64, rest = size - whole;
    for (size_t i = 0; i < whole; i += 64)
        sha_block(state, p + i);
    if (rest)
        memcpy(last, p + whole, rest);
    last[rest] = 0x80;
    size_t end = rest < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++)
        last[end - 1 - (size_t)i] = (uint8_t)((uint64_t)size * 8 >> (8 * i));
    for (size_t i = 0; i < end; i += 64)
        sha_block(state, last + i);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- deflate --------------------------------------------------------------------------------- */

#ifdef QKV_HAVE_IMAGES
bool qkv__deflate(qkv_str *out, const void *data, size_t size)
{
    uint8_t piece[16384];
    z_stream z = {0};
    const uint8_t *p = data;
    int code = Z_OK;
    if (deflateInit(&z, 9) != Z_OK)
        return false;
    for (size_t left = size; code == Z_OK && !out->failed;) {
        if (z.avail_in == 0 && left) {
            z.next_in = p + (size - left);
            z.avail_in = left < INT_MAX ? (uInt)left : (uInt)INT_MAX;
            left -= z.avail_in;
        }
        z.next_out = piece;
        z.avail_out = sizeof piece;
        code = deflate(&z, left ? Z_NO_FLUSH : Z_FINISH);
        qkv_str_add(out, (const char *)piece, sizeof piece - z.avail_out);
    }
    deflateEnd(&z);
    return code == Z_STREAM_END && !out->failed;
}
#else
bool qkv__deflate(qkv_str *out, const void *data, size_t size)
{
    (void)out;
    (void)data;
    (void)size;
    return false;
}
#endif

/* ---- numbers --------------------------------------------------------------------------------- */

void qkv__put_real(qkv_str *out, double value, int decimals, bool trim)
{
    static const int64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    decimals = decimals < 0 ? 0 : decimals > 6 ? 6 : decimals;
    if (!isfinite(value)) {
        qkv_str_puts(out, isnan(value) ? "NaN" : value > 0.0 ? "∞" : "−∞");
        return;
    }
    if (fabs(value) >= 1e9) {
        char text[32];
        (void)snprintf(text, sizeof text, "%.2e", value);
        char *comma = strchr(text, ','); /* a locale's decimal point */
        if (comma)
            *comma = '.';
        qkv_str_puts(out, text);
        return;
    }
    int64_t unit = powers[decimals], v = (int64_t)llround(fabs(value) * (double)unit);
    for (; trim && unit > 1 && v % 10 == 0; unit /= 10, decimals--)
        v /= 10;
    qkv_str_printf(out, "%s%lld", value < 0.0 && v > 0 ? "-" : "", (long long)(v / unit));
    if (unit > 1)
        qkv_str_printf(out, ".%0*lld", decimals, (long long)(v % unit));
}
