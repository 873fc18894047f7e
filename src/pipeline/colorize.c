/* colorize.c - an image in the colours that a model gives it, and where a patch of it looked for
 * them. */
#include "pipeline/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/options.h"
#include "qkv/color.h"
#include "qkv/colorize.h"
#include "qkv/image_file.h"
#include "qkv/ops.h"
#include "qkv/painting.h"

enum { LEAST_SIDE = 256, HALF = 128 }; /* of the image of attention; a light level of a mask */
static const double LEAST_LISTED = 0.01;

static const char *const greys[] = {"lightness", "weights", NULL};
#define FIELD(member) .offset = offsetof(qkv_pipeline_colorize_options, member)
static const qkv_option rows[] = {
    {.flag = "hint", .key = "hint", .type = QKV_OPT_LIST, FIELD(hints), .value = "X,Y,#RRGGBB",
     .help = "the colour at a pixel, from the left and the top; as often as you like"},
    {.flag = "missing", .key = "missing", .type = QKV_OPT_LIST, FIELD(missing),
     .value = "X,Y,W,H",
     .help = "a part that has lost its colours, as often as you like; all others are kept"},
    {.flag = "mask", .key = "mask", .type = QKV_OPT_STRING, FIELD(mask), .value = "F.png",
     .help = "an image that is light where colours are missing"},
    {.flag = "grey", .key = "grey", .type = QKV_OPT_ENUM, FIELD(grey), .names = greys,
     .initial = "lightness",
     .help = "what missing colours became: their lightness, or 0.29 R + 0.58 G + 0.11 B"},
    {.flag = "attention", .key = "attention", .type = QKV_OPT_STRING, FIELD(attention),
     .value = "X,Y",
     .help = "show where the patch at that pixel looked: a list, and beside --out the image "
             "F-attention.png"},
    {.flag = "layer", .key = "layer", .type = QKV_OPT_SIZE, FIELD(layer), .initial = "0",
     .help = "in which layer, from 1; 0: the last"},
};
QKV__OPTIONS(qkv_pipeline_colorize, "Colouring")

/* ---- hints --------------------------------------------------------------------------------- */

static bool read_color(const char *text, uint8_t rgb[3])
{
    if (strlen(text) != 7 || text[0] != '#' || strspn(text + 1, "0123456789abcdefABCDEF") != 6)
        return false;
    unsigned long value = strtoul(text + 1, NULL, 16);
    for (int k = 0; k < 3; k++)
        rgb[k] = (uint8_t)(value >> (16 - 8 * k));
    return true;
}

/* *out is to be freed with qkv_free. */
static qkv_status pipeline_colorize_read_hints(qkv_context *ctx, const qkv_strings *texts,
                                               qkv_color_hint **out)
{
    qkv_color_hint *h = *out = qkv_calloc(ctx, texts->count + 1, sizeof *h);
    if (!h)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < texts->count; i++, h++) {
        const char *at = texts->items[i];
        if (!qkv__image_place(&at, &h->x, &h->y) || *at++ != ',' || !read_color(at, h->rgb))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "--hint: x,y,#rrggbb expected, found %.60s",
                            texts->items[i]);
    }
    return QKV_OK;
}

/* ---- what is missing ------------------------------------------------------------------------ */

static qkv_status colorize_add_mask(uint8_t *missing, qkv_context *ctx, const qkv_image *in,
                                    const char *path)
{
    qkv_image mask = {0};
    qkv_status status = qkv_image_read(&mask, ctx, path, NULL);
    if (!status && (mask.width != in->width || mask.height != in->height))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %zu x %zu expected, as the image is, found "
                          "%zu x %zu", path, in->width, in->height, mask.width, mask.height);
    for (size_t i = 0; i < in->width * in->height && !status; i++)
        missing[i] |= mask.data[i * mask.channels] >= HALF;
    qkv_image_free(&mask, ctx);
    return status;
}

static qkv_status colorize_add_part(uint8_t *missing, qkv_context *ctx, const qkv_image *in,
                           const char *text)
{
    size_t x, y, width, height;
    const char *at = text;
    if (!qkv__image_place(&at, &x, &y) || *at++ != ',' || !qkv__image_place(&at, &width, &height) ||
        *at || !width || !height || x >= in->width || y >= in->height || width > in->width - x ||
        height > in->height - y)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--missing: x,y,width,height within an image of %zu x "
                        "%zu expected, found %.60s", in->width, in->height, text);
    for (size_t i = 0; i < height; i++)
        memset(missing + (y + i) * in->width + x, 1, width);
    return QKV_OK;
}

/* Where the image is without colours: *out is to be freed with qkv_free; NULL: everywhere. There
 * the image becomes grey, as the options say. */
static qkv_status colorize_read_missing(uint8_t **out, qkv_context *ctx, qkv_image *image,
                                        const qkv_pipeline_colorize_options *o)
{
    size_t n = image->width * image->height;
    bool part = o->mask || o->missing.count;
    uint8_t *missing = *out = part ? qkv_calloc(ctx, n, 1) : NULL;
    qkv_status status = part && !missing ? QKV_E_MEMORY : QKV_OK;
    if (!status && o->mask)
        status = colorize_add_mask(missing, ctx, image, o->mask);
    for (size_t i = 0; i < o->missing.count && !status; i++)
        status = colorize_add_part(missing, ctx, image, o->missing.items[i]);
    for (size_t i = 0; i < n && !status; i++) {
        uint8_t *p = image->data + 3 * i;
        qkv_real lab[3];
        if (part && !missing[i])
            continue;
        if (o->grey == QKV_GREY_WEIGHTS) {
            memset(p, (int)(0.29 * p[0] + 0.58 * p[1] + 0.11 * p[2] + 0.5), 3);
        } else if (part) { /* a grey of that lightness */
            qkv_bytes_to_lab(lab, p, 1);
            lab[1] = lab[2] = 0;
            qkv_lab_to_srgb(lab, lab, 1);
            memset(p, (int)(255 * (double)lab[1] + 0.5), 3);
        }
    }
    return status;
}

/* ---- attention ------------------------------------------------------------------------------ */

typedef struct {
    size_t patches, asked; /* in a row of patches; number of the one that is asked */
    double *weights;       /* (patches, patches): mean over the heads; NULL: none is asked */
    size_t heads;          /* summed up so far */
} watching;

static void add_weights(void *user, const char *name, int sequence, int head, size_t row,
                        size_t count, size_t S, const qkv_real *weights)
{
    (void)name, (void)sequence, (void)head, (void)row, (void)count;
    watching *w = user;
    for (size_t i = 0; i < S; i++)
        w->weights[i] += (double)weights[i];
    w->heads++;
}

static qkv_status colorize_watch(watching *w, const qkv_pipeline *p, const qkv_image *in,
                                 const qkv_pipeline_colorize_options *o)
{
    const qkv_patches_config *c =
        &((const qkv_pixelwise_config *)qkv_model_config(p->model))->trunk;
    const char *at = o->attention;
    size_t x, y;
    if (!qkv__image_place(&at, &x, &y) || *at || x >= in->width || y >= in->height)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "--attention: x,y in an image of %zu x %zu "
                        "expected, found %.60s", in->width, in->height, o->attention);
    if (o->layer > c->layers)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "--layer: the model has %zu layers, found %zu",
                        c->layers, o->layer);
    char name[64];
    (void)snprintf(name, sizeof name, "layer.%zu.attn", (o->layer ? o->layer : c->layers) - 1);
    w->patches = c->image / c->patch;
    w->asked = y * w->patches / in->height * w->patches + x * w->patches / in->width;
    w->weights = qkv_calloc(p->ctx, w->patches * w->patches, sizeof *w->weights);
    if (!w->weights)
        return QKV_E_MEMORY;
    const qkv_attention_probe probe = {.name = name, .sequence = 0, .head = -1, .row = w->asked,
                                       .rows = 1, .fn = add_weights, .user = w};
    return qkv_attention_probe_add(p->tape, &probe);
}

/* The pixel in the middle of a patch. */
static size_t colorize_middle(size_t patch, size_t patches, size_t pixels)
{
    return (2 * patch + 1) * pixels / (2 * patches);
}

/* The patches with the most weight, the first first. */
static void list_attended(const watching *w, qkv_colorization *out)
{
    enum { MOST = sizeof out->attended / sizeof *out->attended };
    size_t n = w->patches * w->patches, listed[MOST] = {0}, count = 0;
    while (count < MOST) {
        size_t best = n;
        for (size_t i = 0; i < n; i++) {
            bool known = false;
            for (size_t k = 0; k < count; k++)
                known = known || listed[k] == i;
            if (!known && w->weights[i] >= LEAST_LISTED &&
                (best == n || w->weights[i] > w->weights[best]))
                best = i;
        }
        if (best == n)
            break;
        out->attended[count] = (qkv_attended){
            .x = colorize_middle(best % w->patches, w->patches, out->image.width),
            .y = colorize_middle(best / w->patches, w->patches, out->image.height),
            .weight = w->weights[best], .itself = best == w->asked};
        listed[count++] = best;
    }
    out->attended_count = count;
}

static qkv_status show_attention(watching *w, qkv_colorization *out)
{
    for (size_t i = 0; i < w->patches * w->patches; i++)
        w->weights[i] /= (double)w->heads;
    list_attended(w, out);
    qkv_status status = qkv_image_enlarge(&out->attention, out->ctx, &out->image, LEAST_SIDE);
    if (!status)
        qkv_image_dim(&out->attention, w->weights, w->patches, w->patches, w->asked);
    return status;
}

/* ---- colouring ------------------------------------------------------------------------------ */

qkv_status qkv_pipeline_colorize(qkv_pipeline *p, const qkv_image_source *in,
                                 const qkv_pipeline_colorize_options *options,
                                 qkv_colorization *out)
{
    const qkv_pipeline_colorize_options o = options ? *options : qkv_pipeline_colorize_defaults();
    qkv_color_hint *hints = NULL;
    qkv_image image = {0};
    uint8_t *missing = NULL;
    watching w = {0};
    *out = (qkv_colorization){.ctx = p->ctx};
    if (!qkv_model_can(p->model, QKV_CAN_COLORIZE))
        return qkv__pipeline_refuse(p, "colour images");
    if (o.layer && !o.attention)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "--layer: --attention expected beside it, with the "
                        "pixel whose patch's attention in that layer is shown");
    qkv_status status = pipeline_colorize_read_hints(p->ctx, &o.hints, &hints);
    if (!status)
        status = qkv__image_load(&image, p->ctx, in);
    if (!status)
        status = colorize_read_missing(&missing, p->ctx, &image, &o);
    if (!status && o.attention)
        status = colorize_watch(&w, p, &image, &o);
    if (!status)
        status = qkv_colorize(&out->image, p->model, p->tape, &image, missing, hints,
                              o.hints.count);
    if (!status && o.attention)
        status = show_attention(&w, out);
    qkv_probes_clear(p->tape);
    if (!status && missing)
        out->seen = image;
    else
        qkv_image_free(&image, p->ctx);
    qkv_free(p->ctx, missing);
    qkv_free(p->ctx, w.weights);
    qkv_free(p->ctx, hints);
    if (status)
        qkv_colorization_free(out);
    return status;
}

void qkv_colorization_free(qkv_colorization *c)
{
    if (c->ctx) {
        qkv_image_free(&c->image, c->ctx);
        qkv_image_free(&c->seen, c->ctx);
        qkv_image_free(&c->attention, c->ctx);
    }
    *c = (qkv_colorization){0};
}
