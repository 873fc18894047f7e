/* emoji_font.h - the coloured bitmaps of a TrueType font. */
#ifndef QKV_SRC_IO_EMOJI_FONT_H
#define QKV_SRC_IO_EMOJI_FONT_H

#include "base/base.h"

/* The image of a character. */
typedef struct {
    uint32_t code;       /* of Unicode */
    const uint8_t *data; /* a PNG file, where it lies in the font; not looked into */
    size_t size;
} qkv__emoji;

/* True when the bytes begin as a font does. */
bool qkv__font_begins(const uint8_t *data, size_t size);

/* The characters that the font (data, size) has images for, in the order of their codes: the
 * bitmaps of tables CBLC and CBDT, of the largest size, by the codes of table cmap; where several
 * characters have one image, the first. Sequences of characters are left out. *out is the
 * caller's, freed with qkv_free; none at all is an error. path is for sentences. On failure *out
 * is NULL. */
qkv_status qkv__emoji_font_read(qkv__emoji **out, size_t *count, qkv_context *ctx,
                                const char *path, const uint8_t *data, size_t size);

#endif
