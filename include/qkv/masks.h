/* masks.h - segmentation masks: images in which each colour or grey level is a class.
 * Layer: image */
#ifndef QKV_MASKS_H
#define QKV_MASKS_H

#include <qkv/pixels.h>

QKV_BEGIN_DECLS

enum { QKV_MASK_CLASSES = 256, QKV_MASK_NAME = 8 };

/* The colours of a set of masks, 0xRRGGBB, increasing; the index is the class. Zeroed: none. */
typedef struct {
    uint32_t color[QKV_MASK_CLASSES];
    size_t count;
} qkv_mask_palette;

/* Converts a colour to a class name: "17" for the grey (17, 17, 17), else "#rrggbb"; and back.
 * false: not a valid name. */
void qkv_mask_name(char out[QKV_MASK_NAME], uint32_t color);
bool qkv_mask_color(const char *name, uint32_t *color);

/* Collects the colours of all readable masks. No mask, or more than 256 colours, is an error whose
 * message names a file. On failure *out is empty. */
qkv_status qkv_mask_palette_read(qkv_mask_palette *out, qkv_context *ctx,
                                 const qkv_image_list *masks);

/* Fills classes (side, side): of each pixel the class of the nearest one of the mask. name: the
 * mask's, for the message when a colour is not in the palette (QKV_E_FORMAT). */
qkv_status qkv_mask_classes(uint8_t *classes, qkv_context *ctx, const qkv_image *mask,
                            const char *name, const qkv_mask_palette *palette, size_t side);

/* Reads images and their masks (same file name without extension) into memory, resized to side x
 * side without keeping the aspect ratio: images with 3 channels, masks with 1, the class of the
 * nearest pixel. A pair with an unreadable file is reported to event (may be NULL) and skipped; if
 * none is left, the last error is returned. Also errors, whose message names the file: an image
 * without a mask, a mask of another size than its image, a colour that is not in the palette. On
 * failure *images and *classes are NULL. */
qkv_status qkv_masks_read(qkv_pixels **images, qkv_pixels **classes, qkv_context *ctx,
                          const qkv_image_list *files, const qkv_image_list *masks,
                          const qkv_mask_palette *palette, size_t side, qkv_pixels_fn *event,
                          void *user);

QKV_END_DECLS
#endif
