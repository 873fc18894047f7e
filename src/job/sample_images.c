/* sample_images.c - samples of images: what becomes of those that are held out, and new ones. */
#include "job/sample.h"

#include <stdio.h>
#include <string.h>

#include "qkv/codes.h"
#include "qkv/painting.h"
#include "qkv/sample_codes.h"
#include "task/common.h"

enum { COLUMNS = 8, MOST_ROWS = 3, SIDE = 64, GAP = 2, MARGIN = 2, PAPER = 255, IMAGINED = 4 };

/* A sheet for images of this size, small ones enlarged. */
static qkv_sheet sheet_of(size_t height, size_t width)
{
    size_t side = height < width ? height : width;
    return (qkv_sheet){.height = height, .width = width, .zoom = side < SIDE ? SIDE / side : 1,
                       .gap = GAP, .margin = MARGIN};
}

static qkv_status image_sample(qkv_samples *out, const char *name, qkv_sheet *s, qkv_context *ctx,
                               qkv_status status)
{
    if (!status)
        status = qkv_samples_image(out, name, &s->image);
    qkv_image_free(&s->image, ctx);
    return status;
}

static size_t shown_count(const qkv_pixels *p)
{
    return qkv_pixels_count(p) < COLUMNS ? qkv_pixels_count(p) : COLUMNS;
}

qkv_status qkv__sample_images(const qkv__image_job *p, qkv_tape *t,
                             const qkv__sample_images_kind *kind, qkv_samples *out)
{
    qkv_context *ctx = p->base.ctx;
    const qkv_pixels *images = qkv__sample_set(p)->images;
    size_t n = shown_count(images), height = qkv_pixels_height(images);
    size_t width = qkv_pixels_width(images), channels = qkv_pixels_channels(images);
    size_t each = height * width * channels;
    qkv_sheet sheet = sheet_of(height, width);
    uint8_t *room = qkv_malloc(ctx, MOST_ROWS * each), *rows[MOST_ROWS];
    qkv_status status = room ? qkv_sheet_create(&sheet, ctx, kind->rows, n, channels, PAPER)
                             : QKV_E_MEMORY;
    for (size_t k = 0; k < MOST_ROWS; k++)
        rows[k] = room ? room + k * each : NULL;
    for (size_t i = 0; i < n && !status; i++) {
        status = kind->paint(p, t, qkv__evenly(i, n, qkv_pixels_count(images)), rows);
        for (size_t k = 0; k < kind->rows && !status; k++)
            qkv_sheet_put(&sheet, k, i, rows[k], channels);
    }
    qkv_free(ctx, room);
    return image_sample(out, kind->name, &sheet, ctx, status);
}

/* ---- classes ------------------------------------------------------------------------------ */

static qkv_status put_labels(const qkv__image_job *p, qkv_tape *t, const size_t *numbers, size_t n,
                             qkv_str *text)
{
    qkv_model *m = p->base.model;
    const qkv_pixels *images = qkv__sample_set(p)->images;
    qkv_tensor *y = qkv_vit_logits(m, t, qkv__images_values(m, t, images, numbers, n));
    const qkv_real *logits = qkv_data(t, y);
    if (!logits)
        return qkv_tape_status(t);
    size_t classes = qkv_dim(y, -1);
    for (size_t i = 0; i < n; i++) {
        qkv__sample_label(text, m, logits + i * classes, classes,
                          qkv_pixels_class(images, numbers[i]));
        qkv_str_puts(text, "\n");
    }
    return text->failed ? QKV_E_MEMORY : QKV_OK;
}

qkv_status qkv__sample_image_labels(const qkv__image_job *p, qkv_tape *t, qkv_samples *out)
{
    qkv_context *ctx = p->base.ctx;
    const qkv_pixels *images = qkv__sample_set(p)->images;
    size_t n = shown_count(images), numbers[COLUMNS];
    qkv_sheet sheet = sheet_of(qkv_pixels_height(images), qkv_pixels_width(images));
    qkv_str text;
    qkv_str_init(&text, ctx);
    qkv_status status = qkv_sheet_create(&sheet, ctx, 1, n, qkv_pixels_channels(images), PAPER);
    for (size_t i = 0; i < n; i++)
        numbers[i] = qkv__evenly(i, n, qkv_pixels_count(images));
    for (size_t i = 0; i < n && !status; i++)
        qkv_sheet_put(&sheet, 0, i, qkv_pixels_data(images, numbers[i]),
                      qkv_pixels_channels(images));
    status = image_sample(out, "images", &sheet, ctx, status);
    if (!status)
        status = put_labels(p, t, numbers, n, &text);
    if (!status)
        status = qkv_samples_text(out, "labels", text.data, text.len);
    qkv_str_free(&text);
    return status;
}

/* ---- from a prior --------------------------------------------------------------------------- */

qkv_status qkv__sample_imagined(qkv__prior *codecs, const qkv__run *r, const qkv_code_grids *grids,
                                qkv_samples *out)
{
    qkv_context *ctx = r->ctx;
    size_t n = grids->count < IMAGINED ? grids->count : IMAGINED;
    qkv_sample_codes_options o = {.count = n, .conditions = grids->conditions,
                                  .codes = qkv__codec_config(codecs->vqgan)->codes,
                                  .sampling = qkv_sampling_defaults()};
    size_t height = codecs->rows * codecs->factor, width = codecs->columns * codecs->factor;
    size_t codes = codecs->rows * codecs->columns, each = height * width * codecs->colors;
    qkv_sheet sheet = sheet_of(height, width);
    int32_t *made = qkv_malloc(ctx, n * codes * sizeof *made);
    uint8_t *images = qkv_malloc(ctx, n * each);
    o.sampling.temperature = 1;
    qkv_status status = made && images ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv_sample_codes(r->model, &o, NULL, NULL, made);
    if (!status)
        status = qkv_images_decode(codecs->vqgan, codecs->tape, made, n, codecs->rows,
                                   codecs->columns, images);
    if (!status)
        status = qkv_sheet_create(&sheet, ctx, 1, n, codecs->colors, PAPER);
    for (size_t i = 0; i < n && !status; i++)
        qkv_sheet_put(&sheet, 0, i, images + i * each, codecs->colors);
    qkv_free(ctx, made);
    qkv_free(ctx, images);
    return image_sample(out, "imagined", &sheet, ctx, status);
}
