/* masks.h - images whose pixels say what is there: a colour, or a level of grey, for each class.
 * Layer: image */
#ifndef QKV_MASKS_H
#define QKV_MASKS_H

#include <qkv/pixels.h>

QKV_BEGIN_DECLS

enum { QKV_MASK_CLASSES = 256, QKV_MASK_NAME = 8 };

/* The colours of a set of masks, 0xRRGGBB, rising: a class each. Zeroed: none. */
typedef struct {
    uint32_t color[QKV_MASK_CLASSES];
    size_t count;
} qkv_mask_palette;

/* A colour as a class's name: "17" for a grey of that level, else "#rrggbb"; and back. false: it is
 * no such name. */
void qkv_mask_name(char out[QKV_MASK_NAME], uint32_t color);
bool qkv_mask_color(const char *name, uint32_t *color);

/* The colours of all masks that can be read. None, and more than 256 colours, are errors that name
 * a file. On failure *out is empty. */
qkv_status qkv_mask_palette_read(qkv_mask_palette *out, qkv_context *ctx,
                                 const qkv_image_list *masks);

/* Reads images and the masks of the same names, but for what is behind the last dot, into memory,
 * all of them side x side: images squashed, with 3 channels; of masks the nearest pixel's class
 * (1 channel). A pair of which one cannot be read is told to event (may be NULL) and left out; when
 * none is left, that is an error, with the last one's sentence. So are, and the sentence names the
 * file: an image without a mask or of another size than its mask, a mask with a colour that the
 * palette has not. On failure *images and *classes are NULL. */
qkv_status qkv_masks_read(qkv_pixels **images, qkv_pixels **classes, qkv_context *ctx,
                          const qkv_image_list *files, const qkv_image_list *masks,
                          const qkv_mask_palette *palette, size_t side, qkv_pixels_fn *event,
                          void *user);

QKV_END_DECLS
#endif
