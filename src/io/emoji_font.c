/* emoji_font.c - PNG images in a TrueType font (OpenType 1.9: tables cmap, CBLC, CBDT). It draws
 * no outlines and knows no ligatures. Every offset and length is the file's word, and is checked.
 *
 * Numbers have the most significant byte first. CBLC: sizes of 48 bytes, each an array of ranges
 * of glyphs (first, last, where its index is); an index says where each glyph's data begins in
 * CBDT. */
#include "io/emoji_font.h"

#include <string.h>

enum { GLYPHS = 1 << 16, CODES = 0x110000, STRIKE_BYTES = 48, RANGE_BYTES = 8, GROUP_BYTES = 12 };

typedef struct {
    const uint8_t *data;
    size_t size;
} bytes;

typedef struct {
    qkv_context *ctx;
    const char *path;
    bytes file, cmap, cblc, cbdt;
    qkv__emoji *glyphs; /* (GLYPHS), by glyph; size 0: no image, or taken */
    qkv__emoji *out;
    size_t count;
} font;

/* ---- pieces of the file ------------------------------------------------------------------- */

/* True when there are n bytes from `at` on. */
static bool emoji_font_holds(const bytes *b, size_t at, size_t n)
{
    return at <= b->size && n <= b->size - at;
}

/* Numbers at places that holds() has allowed. */
static uint32_t u16(const bytes *b, size_t at)
{
    return (uint32_t)(b->data[at] << 8 | b->data[at + 1]);
}

static uint32_t u32(const bytes *b, size_t at) { return u16(b, at) << 16 | u16(b, at + 2); }

static qkv_status cut_short(const font *f, const char *table)
{
    return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: table %s ends within what it says it holds",
                    f->path, table);
}

static qkv_status emoji_font_find_table(const font *f, const char *tag, bytes *out)
{
    size_t tables = u16(&f->file, 4);
    for (size_t i = 0, at = 12; i < tables && emoji_font_holds(&f->file, at, 16); i++, at += 16) {
        if (memcmp(f->file.data + at, tag, 4) != 0)
            continue;
        size_t from = u32(&f->file, at + 8), size = u32(&f->file, at + 12);
        if (!emoji_font_holds(&f->file, from, size))
            return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: table %s, %zu bytes from %zu on, lies "
                            "beyond the file's %zu", f->path, tag, size, from, f->file.size);
        *out = (bytes){f->file.data + from, size};
        return QKV_OK;
    }
    return qkv_fail(f->ctx, QKV_E_UNSUPPORTED, "%s: a font with coloured bitmaps (tables cmap, "
                    "CBLC, CBDT) expected, found no table %s", f->path, tag);
}

/* ---- images of glyphs ------------------------------------------------------------------- */

/* The image in CBDT from `from` to `end`, behind the glyph's measures, which nobody needs. */
static qkv_status read_glyph(font *f, size_t glyph, uint32_t format, size_t from, size_t end)
{
    size_t length_at = from + (format == 17 ? 5 : format == 18 ? 8 : 0);
    if (from == end)
        return QKV_OK;
    if (from > end || end > f->cbdt.size || length_at + 4 > end ||
        u32(&f->cbdt, length_at) > end - length_at - 4)
        return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: the image of glyph %zu does not fit into "
                        "bytes %zu to %zu of table CBDT's %zu", f->path, glyph, from, end,
                        f->cbdt.size);
    f->glyphs[glyph] = (qkv__emoji){0, f->cbdt.data + length_at + 4, u32(&f->cbdt, length_at)};
    return QKV_OK;
}

/* Glyphs first .. last, whose index begins at `at`. */
static qkv_status read_range(font *f, size_t first, size_t last, size_t at)
{
    if (!emoji_font_holds(&f->cblc, at, 8))
        return cut_short(f, "CBLC");
    uint32_t kind = u16(&f->cblc, at), format = u16(&f->cblc, at + 2);
    size_t base = u32(&f->cblc, at + 4), width = kind == 1 ? 4 : 2;
    if ((kind != 1 && kind != 3) || format < 17 || format > 19)
        return qkv_fail(f->ctx, QKV_E_UNSUPPORTED, "%s: bitmaps of format 17 to 19 by an index "
                        "of format 1 or 3 expected, found %u by %u", f->path, format, kind);
    if (!emoji_font_holds(&f->cblc, at + 8, (last - first + 2) * width))
        return cut_short(f, "CBLC");
    qkv_status status = QKV_OK;
    for (size_t g = first; g <= last && !status; g++) {
        size_t i = at + 8 + (g - first) * width;
        size_t from = kind == 1 ? u32(&f->cblc, i) : u16(&f->cblc, i);
        size_t end = kind == 1 ? u32(&f->cblc, i + 4) : u16(&f->cblc, i + 2);
        status = read_glyph(f, g, format, base + from, base + end);
    }
    return status;
}

/* Where the description of the largest bitmaps is; 0: there is none. */
static size_t largest_strike(const font *f)
{
    size_t best = 0, strikes = u32(&f->cblc, 4);
    for (size_t i = 0, at = 8; i < strikes && emoji_font_holds(&f->cblc, at, STRIKE_BYTES); i++) {
        if (!best || f->cblc.data[at + 45] > f->cblc.data[best + 45]) /* pixels of an em */
            best = at;
        at += STRIKE_BYTES;
    }
    return best;
}

static qkv_status read_glyphs(font *f)
{
    size_t strike = emoji_font_holds(&f->cblc, 0, 8) ? largest_strike(f) : 0;
    if (!strike)
        return cut_short(f, "CBLC");
    size_t array = u32(&f->cblc, strike), ranges = u32(&f->cblc, strike + 8), next = 0;
    if (!emoji_font_holds(&f->cblc, array, ranges * RANGE_BYTES))
        return cut_short(f, "CBLC");
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < ranges && !status; i++) {
        size_t at = array + i * RANGE_BYTES;
        size_t first = u16(&f->cblc, at), last = u16(&f->cblc, at + 2);
        if (first < next || last < first)
            return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: ranges of glyphs in rising order expected "
                            "in table CBLC, found %zu to %zu after %zu", f->path, first, last,
                            next);
        next = last + 1;
        status = read_range(f, first, last, array + u32(&f->cblc, at + 4));
    }
    return status;
}

/* ---- codes -------------------------------------------------------------------------------- */

/* Gives codes first .. last their glyphs' images. */
static void take_group(font *f, size_t first, size_t last, size_t glyph)
{
    for (size_t code = first; code <= last && glyph < GLYPHS; code++, glyph++) {
        qkv__emoji *e = &f->glyphs[glyph];
        if (!e->size)
            continue;
        f->out[f->count] = *e;
        f->out[f->count++].code = (uint32_t)code;
        e->size = 0;
    }
}

/* Format 12: groups of codes in a row that have glyphs in a row. */
static qkv_status read_groups(font *f, size_t at)
{
    if (!emoji_font_holds(&f->cmap, at, 16))
        return cut_short(f, "cmap");
    size_t groups = u32(&f->cmap, at + 12), next = 0;
    at += 16;
    if (!emoji_font_holds(&f->cmap, at, groups * GROUP_BYTES))
        return cut_short(f, "cmap");
    for (size_t i = 0; i < groups; i++, at += GROUP_BYTES) {
        size_t first = u32(&f->cmap, at), last = u32(&f->cmap, at + 4);
        if (first < next || last < first || last >= CODES)
            return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: groups of codes in rising order expected "
                            "in table cmap, found %zx to %zx after %zx", f->path, first, last,
                            next);
        next = last + 1;
        take_group(f, first, last, u32(&f->cmap, at + 8));
    }
    return QKV_OK;
}

static qkv_status read_codes(font *f)
{
    size_t maps = emoji_font_holds(&f->cmap, 0, 4) ? u16(&f->cmap, 2) : 0;
    for (size_t i = 0; i < maps; i++) {
        size_t at = 4 + 8 * i;
        if (!emoji_font_holds(&f->cmap, at, 8) ||
            !emoji_font_holds(&f->cmap, u32(&f->cmap, at + 4), 2)) return cut_short(f, "cmap");
        if (u16(&f->cmap, u32(&f->cmap, at + 4)) == 12)
            return read_groups(f, u32(&f->cmap, at + 4));
    }
    return qkv_fail(f->ctx, QKV_E_UNSUPPORTED, "%s: no codes of 32 bits (format 12) in table "
                    "cmap", f->path);
}

/* ---- the font ----------------------------------------------------------------------------- */

bool qkv__font_begins(const uint8_t *data, size_t size)
{
    return size >= 12 && memcmp(data, "\0\1\0\0", 4) == 0;
}

qkv_status qkv__emoji_font_read(qkv__emoji **out, size_t *count, qkv_context *ctx,
                                const char *path, const uint8_t *data, size_t size)
{
    font f = {.ctx = ctx, .path = path, .file = {data, size}};
    *out = NULL;
    *count = 0;
    if (!qkv__font_begins(data, size))
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: not a TrueType font, or cut short", path);
    qkv_status status = emoji_font_find_table(&f, "cmap", &f.cmap);
    if (!status)
        status = emoji_font_find_table(&f, "CBLC", &f.cblc);
    if (!status)
        status = emoji_font_find_table(&f, "CBDT", &f.cbdt);
    if (status)
        return status;
    f.glyphs = qkv_calloc(ctx, GLYPHS, sizeof *f.glyphs);
    f.out = qkv_calloc(ctx, GLYPHS, sizeof *f.out);
    status = f.glyphs && f.out ? read_glyphs(&f) : QKV_E_MEMORY;
    if (!status)
        status = read_codes(&f);
    if (!status && !f.count)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: no character of this font has a coloured "
                          "bitmap", path);
    qkv_free(ctx, f.glyphs);
    if (status) {
        qkv_free(ctx, f.out);
        return status;
    }
    *out = f.out;
    *count = f.count;
    return QKV_OK;
}
