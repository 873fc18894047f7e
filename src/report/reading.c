/* reading.c - how models of images read patches: sizes, filters, the numbers they get. */
#include <stdio.h>
#include <string.h>

#include "pipeline/image.h"
#include "pipeline/image_set.h"
#include "report/patches.h"
#include "qkv/clip.h"
#include "qkv/color.h"
#include "qkv/mae.h"
#include "qkv/pixelwise.h"
#include "qkv/vit.h"

enum { RGB = 3, BICUBIC = 3 };

static qkv_image_format square_format(const qkv_model *m, const qkv_patches_config *c,
                                      size_t channels)
{
    qkv_image_format f = {.resample = 2, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    if (qkv_model_image_format(m))
        f = *qkv_model_image_format(m);
    f.height = f.width = c->image;
    f.resize = 0;
    f.channels = channels;
    return f;
}

static void read_by_convolutions(qkv__look_reading *r, const qkv_vit_config *c)
{
    r->side = r->format.height;
    for (size_t i = 0; i < c->convolutions; i++)
        r->side = (r->side + 1) / 2;
    r->step = 1;
    r->weight = NULL;
}

bool qkv__look_reading_of(qkv__look_reading *out, const qkv_pipeline *p)
{
    const void *config = qkv_model_config(p->model);
    const qkv_patches_config *c;
    const char *weight = "patches.weight";
    bool cct = false;
    bool pixelwise = qkv_model_can(p->model, QKV_CAN_SEGMENT | QKV_CAN_COLORIZE);
    *out = (qkv__look_reading){.lab = qkv_model_can(p->model, QKV_CAN_COLORIZE)};
    if (qkv_model_can(p->model, QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_EMBED_IMAGES)) {
        c = &((const qkv_vit_config *)config)->trunk;
        cct = qkv_vit_leads(p->model) == 0;
        out->embed = qkv_vit_embed;
        out->format = *qkv__image_format_of(p->model);
    } else if (qkv_model_can(p->model, QKV_CAN_RECONSTRUCT)) {
        c = &((const qkv_mae_config *)config)->trunk;
        out->embed = qkv_mae_embed;
        out->format = square_format(p->model, c, c->channels);
        out->format.crop = true;
    } else if (qkv_model_can(p->model, QKV_CAN_EMBED_BOTH)) {
        c = &((const qkv_clip_config *)config)->vision;
        weight = "vision.patches";
        out->embed = qkv_clip_embed;
        out->format = *qkv__image_format_of(p->model);
    } else if (pixelwise) {
        c = &((const qkv_pixelwise_config *)config)->trunk;
        out->embed = qkv_pixelwise_embed;
        out->format = square_format(p->model, c, RGB);
        out->format.crop = false;
        out->format.resample = out->lab ? BICUBIC : 2;
    } else {
        return false;
    }
    out->side = out->format.height / c->patch;
    out->step = out->window = c->patch;
    out->weight = qkv_params_find(qkv_model_params(p->model), weight);
    if (cct)
        read_by_convolutions(out, config);
    if (cct)
        out->weight = qkv_params_find(qkv_model_params(p->model), "convolution.0");
    else
        out->bias = qkv_params_find(qkv_model_params(p->model), "patches.bias");
    if (!out->weight || !out->side)
        return false;
    if (cct)
        out->window = qkv_param_dim(out->weight, 1);
    out->cell = out->format.height / out->side;
    out->filters = qkv_param_dim(out->weight, 0);
    out->inputs = qkv_param_count(out->weight) / out->filters / out->window / out->window;
    return true;
}

qkv_status qkv__look_reading_input(const qkv__look_reading *r, const qkv__looking *l,
                                   qkv_image *out)
{
    const qkv_pixels_options o = qkv__pixels_options(&r->format);
    qkv_status status = qkv__image_load(out, l->p->ctx, &l->in->image);
    return status ? status : qkv_image_fit(out, l->p->ctx, &o);
}

void qkv__look_reading_values(const qkv__look_reading *r, const uint8_t *bytes, qkv_real *out)
{
    size_t pixels = r->format.height * r->format.width, C = r->format.channels;
    for (size_t i = 0; i < pixels && r->lab; i++) {
        qkv_real lab[3];
        qkv_bytes_to_lab(lab, bytes + RGB * i, 1);
        out[r->inputs * i] = (lab[0] - 50) / 100;
        for (size_t k = 1; k < r->inputs; k++)
            out[r->inputs * i + k] = 0;
    }
    for (size_t i = 0; i < pixels * C && !r->lab; i++)
        out[i] = (qkv_real)((bytes[i] / 255.0 - r->format.mean[i % C]) / r->format.std[i % C]);
}

qkv_image qkv__look_window(const qkv__look_reading *r, const uint8_t *image, size_t x, size_t y,
                           size_t side, uint8_t *data)
{
    size_t C = r->format.channels;
    for (size_t i = 0; i < side; i++)
        memcpy(data + i * side * C, image + ((y + i) * r->format.width + x) * C, side * C);
    for (size_t i = 0; i < side * side && r->lab; i++) { /* what a colourer sees of it */
        qkv_real lab[3];
        qkv_bytes_to_lab(lab, data + RGB * i, 1);
        lab[1] = lab[2] = 0;
        qkv_lab_to_srgb(lab, lab, 1);
        memset(data + RGB * i, (int)(255 * (double)lab[1] + 0.5), RGB);
    }
    return (qkv_image){.width = side, .height = side, .channels = C, .data = data};
}

uint64_t qkv__look_window_hash(const qkv__look_reading *r, const uint8_t *image, size_t x,
                               size_t y, size_t side)
{
    size_t row = side * r->format.channels;
    uint64_t hash = 0;
    for (size_t i = 0; i < side; i++) {
        const uint8_t *pixels = image + ((y + i) * r->format.width + x) * r->format.channels;
        hash = hash * 0x9E3779B97F4A7C15ull + qkv_hash64(pixels, row);
    }
    return hash;
}

void qkv__look_draw_tile(qkv_drawing *d, double x, double y, double width, double height,
                         const qkv_image *image, const char *name)
{
    const qkv_frame f = {x, y, width, height};
    qkv_draw_image(d, f, image, false);
    qkv_draw_rect(d, f, qkv_ink_none(), qkv_ink_of(QKV_INK_GRID));
    qkv_draw_name(d, name);
}

qkv_status qkv__look_draw_tiles(qkv_context *ctx, const qkv__look_tiles *t, qkv_drawing **out)
{
    enum { HEAD = 24, BELOW = 2, BETWEEN = 4 };
    size_t half = (t->count + 1) / 2;
    double height = (double)half * (QKV__TILE + BETWEEN);
    uint8_t *data = qkv_malloc(ctx, t->pixels * RGB);
    *out = NULL;
    qkv_status status = data ? qkv_drawing_create(out, ctx, 2 * t->wide, HEAD + height + BELOW)
                             : QKV_E_MEMORY;
    for (size_t column = 0; column < 2 && !status; column++)
        t->head(t->self, *out, (double)column * t->wide);
    for (size_t i = 0; i < t->count && !status; i++)
        t->row(t->self, *out, i, (double)(i / half) * t->wide,
               HEAD + (double)(i % half) * (QKV__TILE + BETWEEN), data);
    if (!status)
        status = qkv_drawing_status(*out);
    qkv_free(ctx, data);
    if (status) {
        qkv_drawing_destroy(*out);
        *out = NULL;
    }
    return status;
}

void qkv__look_draw_found(qkv_drawing *d, const qkv__look_reading *r, const qkv__look_found *f,
                          const uint8_t *input, const qkv_pixels *set, size_t side, double value,
                          double x, double y, uint8_t *data)
{
    char name[96];
    const uint8_t *image = f->image ? qkv_pixels_data(set, f->image - 1) : input;
    const qkv_image patch = qkv__look_window(r, image, f->x, f->y, side, data);
    (void)snprintf(name, sizeof name, "%s %zu,%zu: %.3f", f->image ? "set" : "input", f->x, f->y,
                   value);
    qkv__look_draw_tile(d, x, y, QKV__TILE, QKV__TILE, &patch, name);
}

/* ---- the best of many ------------------------------------------------------------------------ */

qkv__look_best *qkv__look_bests(qkv_context *ctx, size_t count, size_t room)
{
    qkv__look_best *out = qkv_calloc(ctx, count, sizeof *out + room * sizeof *out->items);
    qkv__look_found *items = (qkv__look_found *)(out ? out + count : NULL);
    for (size_t i = 0; out && i < count; i++)
        out[i] = (qkv__look_best){.room = room, .items = items + i * room};
    return out;
}

static size_t look_apart(size_t a, size_t b) { return a > b ? a - b : b - a; }

static bool alike(const qkv__look_found *a, const qkv__look_found *b, size_t side)
{
    if (a->hash == b->hash)
        return true;
    return a->image == b->image && look_apart(a->x, b->x) < side && look_apart(a->y, b->y) < side;
}

void qkv__look_best_add(qkv__look_best *b, const qkv__look_found *f, size_t side)
{
    size_t at = 0, kept;
    if (!(b->count < b->room || f->value > b->items[b->count - 1].value))
        return;
    while (at < b->count && b->items[at].value >= f->value && !alike(&b->items[at], f, side))
        at++;
    if (at < b->count && b->items[at].value >= f->value)
        return;
    kept = at; /* takes out what is worse and alike */
    for (size_t i = at; i < b->count; i++)
        if (!alike(&b->items[i], f, side))
            b->items[kept++] = b->items[i];
    b->count = kept < b->room ? kept + 1 : b->room;
    for (size_t i = b->count - 1; i > at; i--)
        b->items[i] = b->items[i - 1];
    b->items[at] = *f;
}
