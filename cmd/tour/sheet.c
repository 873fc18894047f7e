/* sheet.c - pictures side by side in one PNG, and what a chapter says of it. */
#include <string.h>

#include "tour/pictures.h"

enum { TILE = 96, GAP = 6, FRAME = 3, PAPER = 236 };

static size_t zoom_of(const tour_sheet *s) { return s->side < TILE ? TILE / s->side : 1; }

static void fill(tour_sheet *s, size_t x, size_t y, size_t side, const uint8_t rgb[3])
{
    for (size_t i = 0; i < side * side; i++)
        memcpy(s->image.data + ((y + i / side) * s->image.width + x + i % side) * 3, rgb, 3);
}

qkv_status tour_sheet_create(tour_sheet *s, qkv_context *ctx, size_t rows, size_t columns,
                             size_t side)
{
    *s = (tour_sheet){.ctx = ctx, .side = side};
    size_t step = side * zoom_of(s) + GAP;
    qkv_status status =
        qkv_image_create(&s->image, ctx, columns * step + GAP, rows * step + GAP, 3);
    if (!status)
        memset(s->image.data, PAPER, s->image.width * s->image.height * 3);
    return status;
}

void tour_sheet_put(tour_sheet *s, size_t row, size_t column, const uint8_t *rgb,
                    const uint8_t *frame)
{
    size_t zoom = zoom_of(s), tile = s->side * zoom;
    size_t x = GAP + column * (tile + GAP), y = GAP + row * (tile + GAP);
    if (frame)
        fill(s, x - FRAME, y - FRAME, tile + 2 * FRAME, frame);
    for (size_t i = 0; i < s->side * s->side; i++)
        fill(s, x + i % s->side * zoom, y + i / s->side * zoom, zoom, rgb + 3 * i);
}

static qkv_status write_image(const tour *t, const char *name, const qkv_image *image,
                              const char *caption)
{
    qkv_context *ctx = t->page->c->ctx;
    char *path = qkv_path_join(ctx, t->dir, name);
    qkv_status status = path ? qkv_image_write(image, ctx, path) : QKV_E_MEMORY;
    if (status == QKV_E_UNSUPPORTED) {
        page_text(t->page, "(This build of qkv writes no pictures.)");
        status = QKV_OK;
    } else if (!status && caption) {
        page_text(t->page, "Look at %s: %s", path, caption);
    }
    qkv_free(ctx, path);
    return status;
}

qkv_status tour_sheet_write(tour_sheet *s, const tour *t, const char *name, const char *caption)
{
    qkv_status status = write_image(t, name, &s->image, caption);
    tour_sheet_free(s);
    return status;
}

void tour_sheet_free(tour_sheet *s)
{
    if (s->ctx)
        qkv_image_free(&s->image, s->ctx);
    *s = (tour_sheet){0};
}

qkv_status tour_picture_write(const tour *t, const char *name, const uint8_t *rgb, size_t side)
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
