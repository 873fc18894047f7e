/* base64.c - bytes as text and back. */
#include "base/base64.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void qkv__base64_put(qkv_str *out, const void *data, size_t size)
{
    const uint8_t *p = data;
    char piece[4 * 256];
    size_t used = 0;
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t v = (uint32_t)p[i] << 16;
        v |= n > 1 ? (uint32_t)p[i + 1] << 8 : 0;
        v |= n > 2 ? (uint32_t)p[i + 2] : 0;
        for (size_t j = 0; j < 4; j++)
            piece[used++] = j > n ? '=' : digits[v >> (18 - 6 * j) & 63];
        if (used == sizeof piece || i + 3 >= size) {
            qkv_str_add(out, piece, used);
            used = 0;
        }
    }
}

bool qkv__base64_take(qkv_str *out, const char *text)
{
    uint32_t bits = 0;
    size_t len = strlen(text), count = 0;
    bool padded = len % 4 == 0;
    while (padded && len && text[len - 1] == '=' && count++ < 2)
        len--;
    for (size_t i = 0; i < len; i++) {
        const char *digit = strchr(digits, text[i]);
        if (!digit)
            return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        char byte = (char)(bits >> (i % 4 == 1 ? 4 : i % 4 == 2 ? 2 : 0) & 0xff);
        if (i % 4)
            qkv_str_add(out, &byte, 1);
    }
    return len % 4 != 1 && !out->failed;
}
