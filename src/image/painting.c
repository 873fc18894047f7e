/* painting.c - images that show what a model of images does. */
#include "qkv/painting.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

enum { MOST_SIDE = 8192 }; /* of an enlarged image */

qkv_status qkv_image_enlarge(qkv_image *out, qkv_context *ctx, const qkv_image *in, size_t least)
{
    size_t shorter = in->width < in->height ? in->width : in->height, C = in->channels;
    size_t n = shorter < least ? (least + shorter - 1) / shorter : 1;
    size_t longer = in->width > in->height ? in->width : in->height, most = MOST_SIDE / longer;
    n = n <= most ? n : most ? most : 1; /* a line of pixels stays thin */
    qkv_status status = qkv_image_create(out, ctx, n * in->width, n * in->height, C);
    for (size_t y = 0; y < out->height && !status; y++)
        for (size_t x = 0; x < out->width; x++)
            memcpy(out->data + (y * out->width + x) * C,
                   in->data + (y / n * in->width + x / n) * C, C);
    return status;
}

static const double FAINT = 0.12; /* what is left of a patch without attention */

void qkv_image_dim(qkv_image *image, const double *weights, size_t rows, size_t columns,
                   size_t framed)
{
    static const uint8_t red[3] = {255, 32, 32};
    size_t H = image->height, W = image->width;
    double most = 0;
    for (size_t i = 0; i < rows * columns; i++)
        most = fmax(most, weights[i]);
    for (size_t i = 0; i < H * W; i++) {
        size_t y = i / W, x = i % W, row = y * rows / H, column = x * columns / W;
        double share = FAINT + (1 - FAINT) * weights[row * columns + column] / most;
        size_t top = row * H / rows, left = column * W / columns, frame = H / rows / 12 + 1;
        bool edge = y - top < frame || x - left < frame || (row + 1) * H / rows - y <= frame ||
                    (column + 1) * W / columns - x <= frame;
        uint8_t *pixel = image->data + 3 * i;
        for (size_t k = 0; k < 3; k++)
            pixel[k] = edge && row * columns + column == framed
                           ? red[k] : (uint8_t)(share * (double)pixel[k] + 0.5);
    }
}

void qkv_class_color(size_t class_, uint8_t rgb[3])
{
    static const uint8_t first[][3] = {{0, 0, 0},      {230, 25, 75},  {60, 180, 75},
                                       {255, 225, 25}, {0, 130, 200},  {245, 130, 48},
                                       {145, 30, 180}, {70, 240, 240}, {240, 50, 230},
                                       {210, 245, 60}, {250, 190, 212}, {0, 128, 128}};
    enum { FIRST = sizeof first / sizeof *first };
    if (class_ < FIRST) {
        memcpy(rgb, first[class_], 3);
        return;
    }
    uint64_t h = qkv_hash64(&class_, sizeof class_);
    for (int k = 0; k < 3; k++)
        rgb[k] = (uint8_t)(h >> (8 * k));
}

qkv_status qkv_sheet_create(qkv_sheet *s, qkv_context *ctx, size_t rows, size_t columns,
                            size_t channels, uint8_t paper)
{
    size_t across = columns * (s->width * s->zoom + s->gap) - s->gap + 2 * s->margin;
    size_t down = rows * (s->height * s->zoom + s->gap) - s->gap + 2 * s->margin;
    qkv_status status = qkv_image_create(&s->image, ctx, across, down, channels);
    if (!status)
        memset(s->image.data, paper, across * down * channels);
    return status;
}

void qkv_sheet_put(qkv_sheet *s, size_t row, size_t column, const uint8_t *image,
                   size_t channels)
{
    size_t high = s->height * s->zoom, wide = s->width * s->zoom, n = s->image.channels;
    size_t top = s->margin + row * (high + s->gap), left = s->margin + column * (wide + s->gap);
    for (size_t i = 0; i < high * wide; i++) {
        size_t y = i / wide, x = i % wide;
        const uint8_t *from = image + (y / s->zoom * s->width + x / s->zoom) * channels;
        uint8_t *to = s->image.data + ((top + y) * s->image.width + left + x) * n;
        for (size_t k = 0; k < n; k++)
            to[k] = from[k < channels ? k : 0];
    }
}
