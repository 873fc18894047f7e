/* tar.c - POSIX 1003.1 archives (ustar, pax) and GNU's: blocks of 512 bytes, a header before each
 * file. */
#include "io/tar.h"

#include <string.h>

enum {
    BLOCK = 512,
    SIZE = 124, SIZE_END = 136,
    CHECKSUM = 148, CHECKSUM_END = 156,
    TYPE = 156, MAGIC = 257,
    PREFIX = 345, PREFIX_END = 500
};

/* Octal digits between blanks, or GNU's binary for what is too large for them. */
static bool number(const uint8_t *p, size_t from, size_t end, uint64_t *out)
{
    uint64_t v = 0;
    size_t digits = 0;
    if (p[from] & 0x80) {
        for (size_t i = from + 1; i < end; i++) {
            if (v >> 56)
                return false;
            v = v << 8 | p[i];
        }
        *out = v;
        return p[from] == 0x80;
    }
    while (from < end && p[from] == ' ')
        from++;
    for (; from < end && p[from] >= '0' && p[from] <= '7'; from++, digits++)
        v = v << 3 | (uint64_t)(p[from] - '0');
    *out = v;
    return digits > 0;
}

static bool checksum_fits(const uint8_t *h)
{
    uint64_t want, sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= CHECKSUM && i < CHECKSUM_END ? ' ' : h[i];
    return number(h, CHECKSUM, CHECKSUM_END, &want) && want == sum;
}

static bool is_zero(const uint8_t *h)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (h[i])
            return false;
    return true;
}

bool qkv__tar_begins(const uint8_t *data, size_t size)
{
    return size >= BLOCK && (memcmp(data + MAGIC, "ustar", 5) == 0 || is_zero(data) ||
                             (data[0] && checksum_fits(data)));
}

/* Appends at most n bytes, up to a 0. */
static void add_name(char *name, const uint8_t *text, size_t n)
{
    size_t used = strlen(name), i = 0;
    for (; i < n && text[i] && used + i + 1 < QKV__TAR_NAME; i++)
        name[used + i] = (char)text[i];
    name[used + i] = 0;
}

/* The value of "path" among pax records: "LENGTH key=value\n". */
static void pax_name(char *name, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t length = 0, i = at;
        for (; i < size && data[i] >= '0' && data[i] <= '9' && length <= size; i++)
            length = 10 * length + (size_t)(data[i] - '0');
        if (i >= size || data[i] != ' ' || length < i - at + 7 || length > size - at)
            return;
        if (memcmp(data + i + 1, "path=", 5) == 0) {
            *name = 0;
            add_name(name, data + i + 6, at + length - 1 - (i + 6));
        }
        at += length;
    }
}

static void header_name(char *name, const uint8_t *h)
{
    *name = 0;
    if (memcmp(h + MAGIC, "ustar\0", 6) == 0 && h[PREFIX]) {
        add_name(name, h + PREFIX, PREFIX_END - PREFIX);
        add_name(name, (const uint8_t *)"/", 1);
    }
    add_name(name, h, 100);
}

qkv_status qkv__tar_next(qkv__tar *t, qkv__tar_entry *e, bool *more)
{
    char longer[QKV__TAR_NAME] = ""; /* a name that came before the header */
    *more = false;
    while (t->size - t->at >= BLOCK && !is_zero(t->data + t->at)) {
        const uint8_t *h = t->data + t->at;
        uint64_t size;
        if (!checksum_fits(h) || !number(h, SIZE, SIZE_END, &size))
            return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: byte %zu: a damaged tar header", t->path,
                            t->at);
        size_t left = t->size - t->at - BLOCK;
        if (size > left)
            return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: cut short: %llu bytes at %zu, %zu are left",
                            t->path, (unsigned long long)size, t->at + BLOCK, left);
        size_t blocks = ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
        *e = (qkv__tar_entry){.data = h + BLOCK, .size = (size_t)size};
        t->at += BLOCK + (blocks < left ? blocks : left);
        if (h[TYPE] == 'L') {
            *longer = 0;
            add_name(longer, e->data, e->size);
        } else if (h[TYPE] == 'x') {
            pax_name(longer, e->data, e->size);
        } else if (h[TYPE] == '0' || h[TYPE] == 0) {
            if (*longer)
                memcpy(e->name, longer, sizeof longer);
            else
                header_name(e->name, h);
            *more = true;
            return QKV_OK;
        } else if (h[TYPE] != 'g') {
            *longer = 0; /* it was a folder's */
        }
    }
    if (t->at < t->size && t->size - t->at < BLOCK)
        return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: cut short: a header of %d bytes at %zu, %zu "
                        "are left", t->path, (int)BLOCK, t->at, t->size - t->at);
    return QKV_OK;
}
