/* resize.c - resizing in two passes, across and down, in whole numbers as Pillow 13 does it:
 * weights of 22 bits, every pass rounded to 8. The pass that shrinks more comes first; before
 * version 13 it was always the one across, and some pixels differ by 1. */
#include "qkv/resize.h"

#include <math.h>

#include "base/base.h"

enum { BITS = 22 }; /* 8 for the sum, 2 for overshoot, of 32 */

/* ---- filters ------------------------------------------------------------------------------ */

static double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

static double resize_triangle(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

static double resize_cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static const struct {
    double (*weight)(double x);
    double reach;
} filters[QKV_RESIZE_FILTERS] = {
    [QKV_RESIZE_BOX] = {box, 0.5},
    [QKV_RESIZE_BILINEAR] = {resize_triangle, 1},
    [QKV_RESIZE_BICUBIC] = {resize_cubic, 2},
};

/* ---- weights ------------------------------------------------------------------------------ */

/* For each of the `count` results along an axis: `n` weights, the first for place `from`. */
typedef struct {
    size_t count, room; /* room: weights kept for each */
    size_t *from, *n;
    double *real; /* (room) while they are made */
    int32_t *weight;
} axis;

static void free_axis(axis *a, qkv_context *ctx)
{
    qkv_free(ctx, a->from);
    qkv_free(ctx, a->n);
    qkv_free(ctx, a->real);
    qkv_free(ctx, a->weight);
}

static void fill_weights(axis *a, size_t i, double centre, double scale, qkv_resize_filter f)
{
    double sum = 0;
    for (size_t k = 0; k < a->n[i]; k++) {
        a->real[k] = filters[f].weight(((double)(a->from[i] + k) - centre + 0.5) * (1 / scale));
        sum += a->real[k];
    }
    for (size_t k = 0; k < a->n[i]; k++) {
        double w = sum != 0 ? a->real[k] / sum : a->real[k];
        a->weight[i * a->room + k] = (int32_t)(w * (1 << BITS) + (w < 0 ? -0.5 : 0.5));
    }
}

/* From the places [first, end) of `size` to `count` results. On failure the caller frees. */
static qkv_status make_axis(axis *a, qkv_context *ctx, size_t size, double first, double end,
                            size_t count, qkv_resize_filter f)
{
    double step = (end - first) / (double)count, scale = step > 1 ? step : 1;
    double reach = filters[f].reach * scale;
    size_t total;
    a->count = count;
    a->room = 2 * (size_t)ceil(reach) + 1;
    if (!qkv__mul_size(count, a->room, &total))
        return QKV_E_MEMORY;
    a->from = qkv_calloc(ctx, count, sizeof *a->from);
    a->n = qkv_calloc(ctx, count, sizeof *a->n);
    a->real = qkv_calloc(ctx, a->room, sizeof *a->real);
    a->weight = qkv_calloc(ctx, total, sizeof *a->weight);
    if (!a->from || !a->n || !a->real || !a->weight)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < count; i++) {
        double centre = first + ((double)i + 0.5) * step;
        double low = centre - reach + 0.5, high = centre + reach + 0.5;
        a->from[i] = low > 0 ? (size_t)low : 0;
        size_t stop = high < (double)size ? (size_t)high : size;
        a->n[i] = stop - a->from[i];
        fill_weights(a, i, centre, scale, f);
    }
    return QKV_OK;
}

/* ---- passes ------------------------------------------------------------------------------- */

static uint8_t resize_rounded(int64_t sum)
{
    sum = (sum + (1 << (BITS - 1))) >> BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Rows of in, from `first` down, across to the width of out. */
static void across(const qkv_image *in, const axis *a, qkv_image *out, size_t first)
{
    size_t C = in->channels;
    for (size_t y = 0; y < out->height; y++) {
        const uint8_t *row = in->data + (y + first) * in->width * C;
        for (size_t x = 0; x < out->width; x++)
            for (size_t c = 0; c < C; c++) {
                const int32_t *w = a->weight + x * a->room;
                const uint8_t *p = row + a->from[x] * C + c;
                int64_t sum = 0;
                for (size_t k = 0; k < a->n[x]; k++)
                    sum += (int64_t)w[k] * p[k * C];
                out->data[(y * out->width + x) * C + c] = resize_rounded(sum);
            }
    }
}

/* in's rows begin with row `first` of what the weights count. */
static void down(const qkv_image *in, const axis *a, qkv_image *out, size_t first)
{
    size_t width = in->width * in->channels;
    for (size_t y = 0; y < out->height; y++) {
        const int32_t *w = a->weight + y * a->room;
        const uint8_t *column = in->data + (a->from[y] - first) * width;
        for (size_t x = 0; x < width; x++) {
            int64_t sum = 0;
            for (size_t k = 0; k < a->n[y]; k++)
                sum += (int64_t)w[k] * column[k * width + x];
            out->data[y * width + x] = resize_rounded(sum);
        }
    }
}

static qkv_status passes(qkv_image *out, qkv_context *ctx, const qkv_image *in, const axis *x,
                         const axis *y, bool down_first)
{
    size_t last = y->count - 1, first = y->from[0], rows = y->from[last] + y->n[last] - first;
    qkv_image half = {0};
    qkv_status status = down_first
                            ? qkv_image_create(&half, ctx, in->width, y->count, in->channels)
                            : qkv_image_create(&half, ctx, x->count, rows, in->channels);
    if (!status)
        status = qkv_image_create(out, ctx, x->count, y->count, in->channels);
    if (!status && down_first) {
        down(in, y, &half, 0);
        across(&half, x, out, 0);
    } else if (!status) {
        across(in, x, &half, first);
        down(&half, y, out, first);
    }
    qkv_image_free(&half, ctx);
    return status;
}

qkv_status qkv_image_resize(qkv_image *out, qkv_context *ctx, const qkv_image *in, size_t width,
                            size_t height, qkv_resize_filter filter, const qkv_box *part)
{
    qkv_box b = {0, 0, (double)in->width, (double)in->height};
    axis x = {0}, y = {0};
    *out = (qkv_image){0};
    if (part)
        b = *part;
    if (!width || !height || !(b.left >= 0 && b.left < b.right && b.right <= (double)in->width) ||
        !(b.top >= 0 && b.top < b.bottom && b.bottom <= (double)in->height))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%g to %g and %g to %g of %zu x %zu pixels cannot "
                        "become %zu x %zu", b.left, b.right, b.top, b.bottom, in->width,
                        in->height, width, height);
    double wide = (double)width / (b.right - b.left), tall = (double)height / (b.bottom - b.top);
    bool down_first = tall < 1 && tall < wide;
    qkv_status status = make_axis(&x, ctx, in->width, b.left, b.right, width, filter);
    if (!status)
        status = make_axis(&y, ctx, in->height, b.top, b.bottom, height, filter);
    if (!status)
        status = passes(out, ctx, in, &x, &y, down_first);
    free_axis(&x, ctx);
    free_axis(&y, ctx);
    if (status)
        qkv_image_free(out, ctx);
    return status;
}
