/* charsmap.c - SentencePiece's precompiled rules: which strings of characters are
 * replaced by which, as a double-array trie (Darts) and the replacements one after another.
 *
 * The trie's units are not trusted: every step is checked against their number. */
#include "tokenizer/charsmap.h"

#include <string.h>

static uint32_t unit(const qkv__charsmap *m, size_t at)
{
    const unsigned char *u = (const unsigned char *)m->blob + 4 + 4 * at;
    return (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

/* How far the children of a unit are. */
static size_t charsmap_offset(uint32_t u)
{
    return (size_t)(u >> 10) << ((u & 0x200) >> 6);
}

qkv_status qkv__charsmap_init(qkv__charsmap *m, qkv_context *ctx, const char *name,
                              const char *blob, size_t len)
{
    *m = (qkv__charsmap){0};
    if (len == 0)
        return QKV_OK;
    const unsigned char *b = (const unsigned char *)blob;
    size_t trie = len < 4 ? 0 : (size_t)b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 |
                                    (size_t)b[3] << 24;
    if (trie < 4 || trie % 4 || trie >= len - 4 || blob[len - 1] != 0)
        return qkv_fail(ctx, QKV_E_FORMAT,
                        "%s: the map of characters is broken: %zu bytes, of which the trie "
                        "takes %zu", name, len, trie);
    m->blob = qkv_malloc(ctx, len);
    if (!m->blob)
        return QKV_E_MEMORY;
    memcpy(m->blob, blob, len);
    m->len = len;
    m->units = trie / 4;
    return QKV_OK;
}

void qkv__charsmap_free(qkv__charsmap *m, qkv_context *ctx)
{
    qkv_free(ctx, m->blob);
    *m = (qkv__charsmap){0};
}

size_t qkv__charsmap_find(const qkv__charsmap *m, const char *s, size_t len, bool shortest,
                          const char **replacement)
{
    size_t found = 0, pool = m->len - 4 - 4 * m->units;
    size_t at = m->units ? charsmap_offset(unit(m, 0)) : 0;
    for (size_t i = 0; i < len && m->units && s[i]; i++) {
        at ^= (unsigned char)s[i];
        if (at >= m->units)
            break;
        uint32_t u = unit(m, at);
        if ((u & 0x800000ffu) != (unsigned char)s[i])
            break;
        at ^= charsmap_offset(u);
        if (!(u >> 8 & 1) || at >= m->units)
            continue;
        size_t value = unit(m, at) & 0x7fffffffu;
        if (value >= pool) /* points at nothing */
            continue;
        found = i + 1;
        *replacement = m->blob + 4 + 4 * m->units + value; /* the blob ends in a 0 */
        if (shortest)
            break;
    }
    return found;
}
