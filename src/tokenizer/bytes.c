/* bytes.c - characters and pieces that stand for bytes. */
#include "tokenizer/bytes.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static bool stands_for_itself(int c)
{
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || c >= 0xae;
}

/* The other 68 bytes get U+0100 onward: 0 to 0x20, 0x7f to 0xa0, 0xad. */
int32_t qkv__byte_char(uint8_t byte)
{
    if (stands_for_itself(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100 + byte;
    return byte == 0xad ? 0x143 : 0x121 + (byte - 0x7f);
}

int qkv__char_byte(int32_t cp)
{
    if (cp < 0 || cp > 0x143)
        return -1;
    if (cp < 0x100)
        return stands_for_itself(cp) ? (int)cp : -1;
    if (cp <= 0x120)
        return (int)cp - 0x100;
    return cp == 0x143 ? 0xad : (int)cp - 0x121 + 0x7f;
}

int qkv__fallback_byte(const char *piece, size_t len)
{
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    if (len != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>')
        return -1;
    const char *high = memchr(digits, piece[3], 32), *low = memchr(digits, piece[4], 32);
    return high && low ? (int)((high - digits) % 16 * 16 + (low - digits) % 16) : -1;
}

int32_t qkv__fallback_find(const qkv__vocab *pieces, char byte)
{
    char name[8];
    (void)snprintf(name, sizeof name, "<0x%02X>", (unsigned)(unsigned char)byte);
    return qkv__vocab_find(pieces, name, 6);
}

bool qkv__fallback_put(qkv_ids *ids, qkv_context *ctx, const qkv__vocab *pieces,
                       const int32_t *to_id, const char *bytes, size_t len)
{
    size_t before = ids->count;
    for (size_t i = 0; i < len; i++) {
        int32_t id = qkv__fallback_find(pieces, bytes[i]);
        if (id < 0 || !qkv__ids_push(ctx, ids, to_id ? to_id[id] : id)) {
            ids->count = before;
            return false;
        }
    }
    return true;
}

void qkv__bytes_to_chars(qkv_str *out, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c[4];
        qkv_str_add(out, c, qkv__utf8_put(c, qkv__byte_char((uint8_t)bytes[i])));
    }
}
