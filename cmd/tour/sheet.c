/* sheet.c - images side by side in one PNG, and what a chapter says of it. */
#include <string.h>

#include "tour/images.h"

enum { TILE = 96, GAP = 6, FRAME = 3, PAPER = 236 };

qkv_status tour_sheet_create(tour_sheet *s, qkv_context *ctx, size_t rows, size_t columns,
                             size_t side)
{
    *s = (tour_sheet){.ctx = ctx, .s = {.height = side, .width = side, .gap = GAP, .margin = GAP,
                                        .zoom = side < TILE ? TILE / side : 1}};
    return qkv_sheet_create(&s->s, ctx, rows, columns, 3, PAPER);
}

void tour_sheet_put(tour_sheet *s, size_t row, size_t column, const uint8_t *rgb,
                    const uint8_t *frame)
{
    size_t tile = s->s.width * s->s.zoom, side = tile + 2 * FRAME;
    size_t x = GAP + column * (tile + GAP) - FRAME, y = GAP + row * (tile + GAP) - FRAME;
    for (size_t i = 0; frame && i < side * side; i++)
        memcpy(s->s.image.data + ((y + i / side) * s->s.image.width + x + i % side) * 3, frame, 3);
    qkv_sheet_put(&s->s, row, column, rgb, 3);
}

static qkv_status write_image(const tour *t, const char *name, const qkv_image *image,
                              const char *caption)
{
    const qkv_path path = qkv_path_in(t->dir, name);
    qkv_status status = qkv_image_write(image, t->page->c->ctx, path.text);
    if (status == QKV_E_UNSUPPORTED) {
        page_text(t->page, "(This build of qkv writes no images.)");
        status = QKV_OK;
    } else if (!status && caption) {
        page_text(t->page, "Look at %s: %s", path.text, caption);
        qkv_page_image(t->index, image, NULL, caption, caption);
    }
    return status;
}

qkv_status tour_sheet_write(tour_sheet *s, const tour *t, const char *name, const char *caption)
{
    qkv_status status = write_image(t, name, &s->s.image, caption);
    tour_sheet_free(s);
    return status;
}

void tour_sheet_free(tour_sheet *s)
{
    if (s->ctx)
        qkv_image_free(&s->s.image, s->ctx);
    *s = (tour_sheet){0};
}

qkv_status tour_image_write(const tour *t, const char *name, const uint8_t *rgb, size_t side)
{
    qkv_image image;
    qkv_status status = qkv_image_create(&image, t->page->c->ctx, side, side, 3);
    if (status)
        return status;
    memcpy(image.data, rgb, side * side * 3);
    status = write_image(t, name, &image, NULL);
    qkv_image_free(&image, t->page->c->ctx);
    return status;
}
