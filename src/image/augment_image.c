/* augment_image.c - what chance does to one image: parts of it, its mirror image, RandAugment,
 * holes; and which pixel of it each one of the result was. */
#include <math.h>
#include <string.h>

#include "image/augment_steps.h"

/* ---- places ---------------------------------------------------------------------------------- */

/* The pixels of the sample come from where m says, each from the nearest. */
static void augment_image_follow(qkv__augmenter *a, const qkv_image *image, const double m[6])
{
    size_t W = image->width, H = image->height;
    if (!a->from)
        return;
    for (size_t y = 0; y < H; y++)
        for (size_t x = 0; x < W; x++) {
            double at[2];
            bool inside = qkv__place(at, m, image, x, y);
            a->spare_from[y * W + x] = inside ? a->from[(size_t)at[1] * W + (size_t)at[0]] : -1;
        }
    int32_t *kept = a->from;
    a->from = a->spare_from;
    a->spare_from = kept;
}

static void follow_none(qkv__augmenter *a, const qkv_image *image)
{
    for (size_t i = 0; a->from && i < image->width * image->height; i++)
        a->from[i] = (int32_t)i;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* Whole pixels of an image. */
typedef struct {
    size_t left, top, width, height;
} part;

static double between(qkv_rng *r, double low, double high)
{
    return low + (high - low) * qkv_rng_uniform(r);
}

/* A part of share [low, high] of the area whose width is its height times a ratio in
 * [least, most], equally likely by logarithm. false when ten tries did not fit. */
static bool draw_part(part *p, const qkv_image *of, double low, double high, double least,
                      double most, qkv_rng *r)
{
    double area = (double)of->width * (double)of->height;
    for (int i = 0; i < 10; i++) {
        double share = area * between(r, low, high);
        double ratio = exp(between(r, log(least), log(most)));
        p->width = (size_t)(sqrt(share * ratio) + 0.5);
        p->height = (size_t)(sqrt(share / ratio) + 0.5);
        if (!p->width || !p->height || p->width > of->width || p->height > of->height)
            continue;
        p->left = qkv_rng_below(r, (uint32_t)(of->width - p->width + 1));
        p->top = qkv_rng_below(r, (uint32_t)(of->height - p->height + 1));
        return true;
    }
    return false;
}

/* A part becomes the whole. */
static qkv_status crop(qkv_image *out, const qkv_image *in, const qkv_augment_options *o,
                       qkv_rng *r, qkv__augmenter *a)
{
    part p;
    qkv_image made;
    if (!draw_part(&p, in, o->crop_scale, 1, 3.0 / 4, 4.0 / 3, r))
        p = (part){0, 0, in->width, in->height};
    const qkv_box box = {(double)p.left, (double)p.top, (double)(p.left + p.width),
                         (double)(p.top + p.height)};
    qkv_status status = qkv_image_resize(&made, a->ctx, in, out->width, out->height,
                                         o->crop_filter, &box);
    if (status)
        return status;
    memcpy(out->data, made.data, made.width * made.height * made.channels);
    qkv_image_free(&made, a->ctx);
    const double m[6] = {(double)p.width / (double)in->width, 0, (double)p.left,
                         0, (double)p.height / (double)in->height, (double)p.top};
    augment_image_follow(a, in, m);
    return QKV_OK;
}

static void fill_pixels(uint8_t *to, size_t n, size_t C, const uint8_t fill[3])
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * C, fill, C);
}

/* Moved by up to pad pixels each way, fewer than the image has. */
static void shift(qkv_image *out, const qkv_image *in, size_t pad, const uint8_t fill[3],
                  qkv_rng *r, qkv__augmenter *a)
{
    size_t W = in->width, H = in->height, C = in->channels;
    size_t x = qkv_rng_below(r, (uint32_t)(2 * pad + 1)); /* of the cut in the padded image */
    size_t y = qkv_rng_below(r, (uint32_t)(2 * pad + 1));
    size_t from = x > pad ? x - pad : 0, to = x < pad ? pad - x : 0;
    size_t n = W - from - to;
    const double m[6] = {1, 0, (double)x - (double)pad, 0, 1, (double)y - (double)pad};
    augment_image_follow(a, in, m);
    for (size_t row = 0; row < H; row++) {
        uint8_t *line = out->data + row * W * C;
        if (row + y < pad || row + y - pad >= H) {
            fill_pixels(line, W, C, fill);
            continue;
        }
        fill_pixels(line, to, C, fill);
        memcpy(line + to * C, in->data + ((row + y - pad) * W + from) * C, n * C);
        fill_pixels(line + (to + n) * C, from, C, fill);
    }
}

static void mirror(qkv_image *image, qkv__augmenter *a)
{
    size_t W = image->width, C = image->channels;
    const double m[6] = {-1, 0, (double)W, 0, 1, 0};
    augment_image_follow(a, image, m);
    for (size_t y = 0; y < image->height; y++) {
        uint8_t *row = image->data + y * W * C;
        for (size_t x = 0; x < W / 2; x++)
            for (size_t c = 0; c < C; c++) {
                uint8_t *left = row + x * C + c, *right = row + (W - 1 - x) * C + c, kept = *left;
                *left = *right;
                *right = kept;
            }
    }
}

static void erase(qkv_image *image, const uint8_t fill[3], qkv_rng *r)
{
    part p;
    if (!draw_part(&p, image, 0.02, 1.0 / 3, 0.3, 1 / 0.3, r))
        return;
    for (size_t y = p.top; y < p.top + p.height; y++)
        fill_pixels(image->data + (y * image->width + p.left) * image->channels, p.width,
                    image->channels, fill);
}

/* ---- colours --------------------------------------------------------------------------------- */

static void exchange(qkv_image *image, qkv__augmenter *a)
{
    uint8_t *kept = image->data;
    image->data = a->spare.data;
    a->spare.data = kept;
}

/* The four changes of SimCLR, in any order. */
static void jitter(qkv_image *image, double strength, const uint8_t fill[3], qkv_rng *r,
                   qkv__augmenter *a)
{
    static qkv__image_op_fn *const ops[] = {qkv__brightness, qkv__contrast, qkv__saturate,
                                            qkv__hue};
    enum { OPS = sizeof ops / sizeof *ops };
    size_t order[OPS] = {0, 1, 2, 3};
    if (qkv_rng_uniform(r) >= 0.8)
        return;
    for (size_t i = 0; i < OPS; i++) {
        size_t k = i + qkv_rng_below(r, (uint32_t)(OPS - i)), op = order[k];
        order[k] = order[i];
        double by = op == OPS - 1 ? between(r, -0.2 * strength, 0.2 * strength)
                                  : between(r, 1 - 0.8 * strength, 1 + 0.8 * strength);
        ops[op](&a->spare, image, by, fill);
        exchange(image, a);
    }
}

/* ---- RandAugment ---------------------------------------------------------------------------- */

/* value = base + span * magnitude / 10, or base - .., by chance. */
static const struct {
    qkv__image_op_fn *op; /* what changes values, or */
    qkv__place_fn *place;   /* places; neither: nothing happens */
    double base, span;
    bool either;
} changes[] = {
    {NULL, NULL, 0, 0, false},
    {qkv__autocontrast, NULL, 0, 0, false},
    {qkv__equalize, NULL, 0, 0, false},
    {NULL, qkv__rotate, 0, 30, true},
    {qkv__solarize, NULL, 256, -256, false},
    {qkv__saturate, NULL, 1, 0.9, true},
    {qkv__posterize, NULL, 8, -4, false},
    {qkv__contrast, NULL, 1, 0.9, true},
    {qkv__brightness, NULL, 1, 0.9, true},
    {qkv__sharpness, NULL, 1, 0.9, true},
    {NULL, qkv__shear_x, 0, 0.3, true},
    {NULL, qkv__shear_y, 0, 0.3, true},
    {NULL, qkv__translate_x, 0, 0.45, true},
    {NULL, qkv__translate_y, 0, 0.45, true},
};
enum { CHANGES = sizeof changes / sizeof *changes };

/* In the order of changes. */
static const char *const names[CHANGES + 1] = {
    "identity",  "autocontrast", "equalize",   "rotate",    "solarize", "color",       "posterize",
    "contrast",  "brightness",   "sharpness",  "shear-x",   "shear-y",  "translate-x",
    "translate-y", NULL};
const char *const *qkv_augment_names(void) { return names; }

/* Leaves the result in image, whose memory may change places with the spare one's. */
static void change(qkv_image *image, const qkv_augment_options *o, const uint8_t fill[3],
                   qkv_rng *r, qkv__augmenter *a)
{
    uint32_t which = qkv_rng_below(r, CHANGES);
    double magnitude = o->magnitude;
    if (o->magnitude_spread > 0)
        magnitude += o->magnitude_spread * qkv_rng_normal(r);
    magnitude = magnitude < 0 ? 0 : magnitude > 10 ? 10 : magnitude;
    double by = changes[which].span * magnitude / 10;
    if (changes[which].either && qkv_rng_u32(r) >> 31)
        by = -by;
    by += changes[which].base;
    if (changes[which].op) {
        changes[which].op(&a->spare, image, by, fill);
    } else if (changes[which].place) {
        double m[6];
        changes[which].place(m, image, by);
        qkv__transform(&a->spare, image, m, fill);
        augment_image_follow(a, image, m);
    } else {
        return;
    }
    exchange(image, a);
}

/* ---- one sample ----------------------------------------------------------------------------- */

qkv_status qkv__augment(qkv_image *out, const qkv_image *from, const qkv_augment_options *o,
                        const uint8_t fill[3], qkv_rng *r, qkv__augmenter *a)
{
    uint8_t *const home = out->data, *const spare = a->spare.data;
    size_t size = from->width * from->height * from->channels;
    const qkv_image *in = from;
    follow_none(a, from);
    if (o->crop_scale > 0) {
        qkv_status status = crop(out, in, o, r, a);
        if (status)
            return status;
        in = out;
    }
    if (o->crop_pad && in == out) {
        shift(&a->spare, in, o->crop_pad, fill, r, a);
        memcpy(home, spare, size);
    } else if (o->crop_pad) {
        shift(out, in, o->crop_pad, fill, r, a);
    } else if (in == from) {
        memcpy(home, from->data, size);
    }
    if (o->flip && qkv_rng_u32(r) >> 31)
        mirror(out, a);
    if (o->jitter > 0)
        jitter(out, o->jitter, fill, r, a);
    if (o->grey > 0 && qkv_rng_uniform(r) < o->grey) {
        qkv__saturate(&a->spare, out, 0, fill);
        exchange(out, a);
    }
    for (size_t i = 0; i < o->randaugment; i++)
        change(out, o, fill, r, a);
    if (o->erase > 0 && qkv_rng_uniform(r) < o->erase)
        erase(out, fill, r);
    if (out->data != home) { /* an odd number of exchanges */
        memcpy(home, out->data, size);
        out->data = home;
        a->spare.data = spare;
    }
    return QKV_OK;
}
