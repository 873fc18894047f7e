/* zip.c - the directory of a zip archive (PKWARE's APPNOTE 6.3), checked before it is used.
 *
 * It stands at the end: entry headers, then with large archives the zip64 end record and its
 * locator, then the end record. All numbers are little-endian. */
#include "io/zip.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the fixed part of each record. */
enum { LOCAL = 30, CENTRAL = 46, END = 22, END64 = 56, LOCATOR64 = 20 };
enum { LONGEST_COMMENT = 65535 };
enum { ENCRYPTED = 1 }; /* of an entry's flags */

static const char sign_local[4] = {'P', 'K', 3, 4}, sign_central[4] = {'P', 'K', 1, 2},
                  sign_end[4] = {'P', 'K', 5, 6}, sign_end64[4] = {'P', 'K', 6, 6},
                  sign_locator64[4] = {'P', 'K', 6, 7};

typedef struct {
    qkv_context *ctx;
    const char *path;
    const uint8_t *data;
    size_t size;
    uint64_t begin, bytes, count; /* of the directory */
} reader;

static uint64_t zip_get(const uint8_t *p, size_t bytes)
{
    uint64_t x = 0;
    memcpy(&x, p, bytes);
    return x;
}

static bool signed_as(const uint8_t *p, const char sign[4])
{
    return memcmp(p, sign, 4) == 0;
}

static qkv_status zip_broken(const reader *r, const char *what)
{
    return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: zip archive: %s", r->path, what);
}

/* ---- where the directory is ------------------------------------------------------------------ */

static qkv_status find_large(reader *r, const uint8_t *end)
{
    size_t at = (size_t)(end - r->data);
    const uint8_t *locator = at >= LOCATOR64 ? end - LOCATOR64 : NULL;
    if (!locator || !signed_as(locator, sign_locator64))
        return QKV_OK;
    uint64_t where = zip_get(locator + 8, 8);
    if (at < END64 || where > at - END64 || !signed_as(r->data + where, sign_end64))
        return zip_broken(r, "its zip64 end record is missing");
    const uint8_t *p = r->data + where;
    r->count = zip_get(p + 32, 8);
    r->bytes = zip_get(p + 40, 8);
    r->begin = zip_get(p + 48, 8);
    return QKV_OK;
}

static qkv_status find_directory(reader *r)
{
    size_t back = END;
    while (back <= r->size && back <= END + LONGEST_COMMENT) {
        const uint8_t *p = r->data + r->size - back;
        if (signed_as(p, sign_end) && zip_get(p + 20, 2) == back - END)
            break;
        back++;
    }
    if (back > r->size || back > END + LONGEST_COMMENT)
        return zip_broken(r, "its end is missing: the file is cut short");
    const uint8_t *end = r->data + r->size - back;
    r->count = zip_get(end + 10, 2);
    r->bytes = zip_get(end + 12, 4);
    r->begin = zip_get(end + 16, 4);
    qkv_status status = find_large(r, end);
    size_t limit = r->size - back;
    if (!status && (r->begin > limit || r->bytes > limit - r->begin))
        status = zip_broken(r, "its directory lies outside the file");
    if (!status && r->count > r->bytes / CENTRAL)
        status = zip_broken(r, "its directory has no room for all entries");
    return status;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Fields of 32 bits that are all ones stand in the zip64 extra field, in this order. */
static bool zip_widen(const uint8_t *extra, size_t length, uint64_t *const fields[3])
{
    bool wanted = false;
    for (int i = 0; i < 3; i++)
        wanted = wanted || *fields[i] == UINT32_MAX;
    while (wanted && length >= 4) {
        size_t kind = (size_t)zip_get(extra, 2), bytes = (size_t)zip_get(extra + 2, 2);
        if (bytes > length - 4)
            return false;
        const uint8_t *p = extra + 4, *end = p + bytes;
        for (int i = 0; i < 3 && kind == 1; i++) {
            if (*fields[i] != UINT32_MAX)
                continue;
            if (end - p < 8)
                return false;
            *fields[i] = zip_get(p, 8);
            p += 8;
        }
        if (kind == 1)
            return true;
        extra += 4 + bytes;
        length -= 4 + bytes;
    }
    return !wanted;
}

/* The bytes behind the local header at that place; they end before the directory. */
static qkv_status find_data(const reader *r, uint64_t local, qkv__zip_entry *out)
{
    if (r->begin < LOCAL || local > r->begin - LOCAL)
        return zip_broken(r, "an entry lies outside the file");
    const uint8_t *p = r->data + local;
    if (!signed_as(p, sign_local))
        return zip_broken(r, "an entry's header is missing");
    uint64_t data = local + LOCAL + zip_get(p + 26, 2) + zip_get(p + 28, 2);
    if (data > r->begin || out->size > r->begin - data)
        return zip_broken(r, "an entry lies outside the file");
    out->data = r->data + data;
    return QKV_OK;
}

/* The entry whose header is at *at, which moves behind it. */
static qkv_status take_entry(const reader *r, const uint8_t **at, qkv__zip_entry *out)
{
    const uint8_t *p = *at, *end = r->data + r->begin + r->bytes;
    if ((size_t)(end - p) < CENTRAL || !signed_as(p, sign_central))
        return zip_broken(r, "its directory is damaged");
    size_t name = (size_t)zip_get(p + 28, 2), extra = (size_t)zip_get(p + 30, 2);
    size_t length = CENTRAL + name + extra + (size_t)zip_get(p + 32, 2);
    if ((size_t)(end - p) < length)
        return zip_broken(r, "its directory is damaged");
    uint64_t packed = zip_get(p + 20, 4), size = zip_get(p + 24, 4), local = zip_get(p + 42, 4);
    if (!zip_widen(p + CENTRAL + name, extra, (uint64_t *const[3]){&size, &packed, &local}))
        return zip_broken(r, "an entry's zip64 field is damaged");
    if (zip_get(p + 8, 2) & ENCRYPTED)
        return qkv_fail(r->ctx, QKV_E_UNSUPPORTED, "%s: zip archive: its entries are encrypted",
                        r->path);
    if (zip_get(p + 10, 2) != 0)
        return qkv_fail(r->ctx, QKV_E_UNSUPPORTED, "%s: zip archive: expected stored entries, "
                        "found compression method %d", r->path, (int)zip_get(p + 10, 2));
    if (packed != size || size > SIZE_MAX)
        return zip_broken(r, "a stored entry has two sizes");
    *out = (qkv__zip_entry){.name = (const char *)p + CENTRAL, .name_length = name,
                            .size = (size_t)size};
    *at = p + length;
    return find_data(r, local, out);
}

static int zip_by_name(const void *a, const void *b)
{
    const qkv__zip_entry *x = a, *y = b;
    size_t shorter = x->name_length < y->name_length ? x->name_length : y->name_length;
    int order = shorter ? memcmp(x->name, y->name, shorter) : 0;
    return order ? order : (x->name_length > y->name_length) - (x->name_length < y->name_length);
}

/* ---- shared ---------------------------------------------------------------------------------- */

bool qkv__zip_begins(const uint8_t *data, size_t size)
{
    return size >= 4 && (signed_as(data, sign_local) || signed_as(data, sign_end));
}

qkv_status qkv__zip_read(qkv__zip *out, qkv_context *ctx, qkv__arena *arena, const char *path,
                         const uint8_t *data, size_t size)
{
    reader r = {.ctx = ctx, .path = path, .data = data, .size = size};
    *out = (qkv__zip){0};
    qkv_status status = find_directory(&r);
    if (status)
        return status;
    size_t count = (size_t)r.count;
    out->entries = qkv__arena_alloc(arena, (count + 1) * sizeof *out->entries);
    if (!out->entries)
        return QKV_E_MEMORY;
    const uint8_t *at = data + r.begin;
    for (size_t i = 0; i < count && !status; i++)
        status = take_entry(&r, &at, &out->entries[i]);
    if (status)
        return status;
    const char *first = count ? out->entries[0].name : NULL;
    if (count)
        qsort(out->entries, count, sizeof *out->entries, zip_by_name);
    for (size_t i = 0; i < count; i++) {
        if (out->entries[i].name == first)
            out->first = &out->entries[i];
        if (i && zip_by_name(&out->entries[i - 1], &out->entries[i]) == 0)
            return zip_broken(&r, "two entries have one name");
    }
    out->count = count;
    return QKV_OK;
}

const qkv__zip_entry *qkv__zip_find(const qkv__zip *z, const char *folder, size_t folder_length,
                                    const char *name, size_t name_length)
{
    char whole[512];
    size_t slash = folder_length ? 1 : 0;
    if (!z->count || folder_length > sizeof whole / 2 || name_length > sizeof whole / 2 - 1)
        return NULL;
    memcpy(whole, folder, folder_length);
    memcpy(whole + folder_length, "/", slash);
    memcpy(whole + folder_length + slash, name, name_length);
    const qkv__zip_entry key = {.name = whole, .name_length = folder_length + slash + name_length};
    return bsearch(&key, z->entries, z->count, sizeof key, zip_by_name);
}
