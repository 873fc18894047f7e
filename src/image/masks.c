/* masks.c - images whose pixels say what is there. */
#include "qkv/masks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum {
    GREY_LEVELS = 0x010101, /* a grey colour is its level times this */
    MESSAGE_BYTES = 1024
};

/* ---- colours ------------------------------------------------------------------------------ */

void qkv_mask_name(char out[QKV_MASK_NAME], uint32_t color)
{
    if (color % GREY_LEVELS == 0 && color / GREY_LEVELS < 256)
        (void)snprintf(out, QKV_MASK_NAME, "%u", (unsigned)(color / GREY_LEVELS));
    else
        (void)snprintf(out, QKV_MASK_NAME, "#%06x", (unsigned)(color & 0xffffff));
}

bool qkv_mask_color(const char *name, uint32_t *color)
{
    char back[QKV_MASK_NAME];
    if (name[0] == '#')
        *color = (uint32_t)strtoul(name + 1, NULL, 16) & 0xffffff;
    else
        *color = ((uint32_t)strtoul(name, NULL, 10) & 0xff) * GREY_LEVELS;
    qkv_mask_name(back, *color);
    return strcmp(back, name) == 0;
}

static uint32_t color_at(const qkv_image *mask, size_t pixel)
{
    const uint8_t *p = mask->data + pixel * mask->channels;
    if (mask->channels == 1)
        return p[0] * (uint32_t)GREY_LEVELS;
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/* Where the colour is, or would be, in the palette. */
static size_t masks_place_of(const qkv_mask_palette *p, uint32_t color)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->color[middle] < color)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool masks_has(const qkv_mask_palette *p, size_t place, uint32_t color)
{
    return place < p->count && p->color[place] == color;
}

static qkv_status read_mask(const qkv_image_list *masks, size_t i, qkv_image *out)
{
    qkv_image_options o = qkv_image_defaults();
    o.channels = 0;
    return qkv_image_list_read(masks, i, out, &o);
}

/* Adds a mask's colours. */
static qkv_status masks_collect(qkv_mask_palette *p, qkv_context *ctx, const qkv_image *mask,
                                const char *name)
{
    for (size_t i = 0; i < mask->width * mask->height; i++) {
        uint32_t color = color_at(mask, i);
        size_t place = masks_place_of(p, color);
        if (masks_has(p, place, color))
            continue;
        if (p->count == QKV_MASK_CLASSES)
            return qkv_fail(ctx, QKV_E_FORMAT, "%s: the masks have more than %d colours, one for "
                            "each class expected", name, (int)QKV_MASK_CLASSES);
        memmove(p->color + place + 1, p->color + place,
                (p->count - place) * sizeof *p->color);
        p->color[place] = color;
        p->count++;
    }
    return QKV_OK;
}

qkv_status qkv_mask_palette_read(qkv_mask_palette *out, qkv_context *ctx,
                                 const qkv_image_list *masks)
{
    qkv_status status = QKV_OK, read = QKV_E_FORMAT;
    *out = (qkv_mask_palette){0};
    for (size_t i = 0; i < qkv_image_list_count(masks) && !status; i++) {
        qkv_image mask = {0};
        read = read_mask(masks, i, &mask);
        if (!read)
            status = masks_collect(out, ctx, &mask, qkv_image_list_name(masks, i));
        else if (read == QKV_E_MEMORY)
            status = read;
        qkv_image_free(&mask, ctx);
    }
    if (!status && !out->count) /* the last one's sentence is there */
        status = read;
    if (status)
        *out = (qkv_mask_palette){0};
    return status;
}

qkv_status qkv_mask_classes(uint8_t *classes, qkv_context *ctx, const qkv_image *mask,
                            const char *name, const qkv_mask_palette *palette, size_t side)
{
    for (size_t i = 0; i < side * side; i++) {
        size_t y = (2 * (i / side) + 1) * mask->height / (2 * side);
        size_t x = (2 * (i % side) + 1) * mask->width / (2 * side);
        uint32_t color = color_at(mask, y * mask->width + x);
        size_t place = masks_place_of(palette, color);
        char text[QKV_MASK_NAME];
        if (!masks_has(palette, place, color)) {
            qkv_mask_name(text, color);
            return qkv_fail(ctx, QKV_E_FORMAT, "%s: the pixel at %zu,%zu is %s, which is no class "
                            "of the model", name, x, y, text);
        }
        classes[i] = (uint8_t)place;
    }
    return QKV_OK;
}

/* ---- pairs --------------------------------------------------------------------------------- */

/* A file's name without folders and what is behind the last dot. */
typedef struct {
    const char *text;
    size_t len, mask;
} stem;

static stem stem_of(const char *name, size_t mask)
{
    const char *slash = strrchr(name, '/'), *begin = slash ? slash + 1 : name;
    const char *dot = strrchr(begin, '.');
    return (stem){begin, dot ? (size_t)(dot - begin) : strlen(begin), mask};
}

static int masks_by_text(const void *a, const void *b)
{
    const stem *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->text, y->text, n);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

typedef struct {
    qkv_context *ctx;
    const qkv_image_list *files, *masks;
    const qkv_mask_palette *palette;
    size_t side;
    stem *stems; /* of the masks, sorted */
    uint8_t *classes; /* (side, side) */
    qkv_pixels_writer *images_out, *classes_out;
    qkv_pixels_event state;
    char last[MESSAGE_BYTES]; /* why the last pair was left out */
    qkv_pixels_fn *event;
    void *user;
} reading;

/* The mask of an image: one of its name and size. *bad: it cannot be read, as the context says. */
static qkv_status add_mask(reading *r, const qkv_image *image, const char *name, bool *bad)
{
    stem wanted = stem_of(name, 0);
    const stem *found =
        bsearch(&wanted, r->stems, qkv_image_list_count(r->masks), sizeof wanted, masks_by_text);
    if (!found)
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: there is no mask \"%.*s\" for it", name,
                        (int)wanted.len, wanted.text);
    const char *mask_name = qkv_image_list_name(r->masks, found->mask);
    qkv_image mask = {0};
    qkv_status status = read_mask(r->masks, found->mask, &mask);
    *bad = status && status != QKV_E_MEMORY;
    if (!status && (mask.width != image->width || mask.height != image->height))
        status = qkv_fail(r->ctx, QKV_E_FORMAT, "%s: %zu x %zu pixels expected, as in %s, found "
                          "%zu x %zu", mask_name, image->width, image->height, name, mask.width,
                          mask.height);
    if (!status)
        status = qkv_mask_classes(r->classes, r->ctx, &mask, mask_name, r->palette, r->side);
    if (!status)
        status = qkv_pixels_add(r->classes_out, r->classes, -1, mask_name);
    qkv_image_free(&mask, r->ctx);
    return status;
}

static qkv_status masks_tell(reading *r, const char *bad)
{
    r->state.bad = bad;
    r->state.skipped += bad != NULL;
    if (bad)
        snprintf(r->last, sizeof r->last, "%s", bad);
    if (r->event && !r->event(r->user, &r->state))
        return qkv_fail(r->ctx, QKV_E_CANCELLED, "stopped while images were read");
    return QKV_OK;
}

static qkv_status masks_add_pair(reading *r, size_t i)
{
    qkv_pixels_options o = qkv_pixels_defaults();
    o.width = o.height = r->side;
    const char *name = qkv_image_list_name(r->files, i);
    qkv_image image = {0};
    qkv_status status = qkv_image_list_read(r->files, i, &image, NULL);
    bool bad = status && status != QKV_E_MEMORY;
    r->state.done++;
    if (!status)
        status = add_mask(r, &image, name, &bad);
    if (!status)
        status = qkv_image_fit(&image, r->ctx, &o);
    if (!status)
        status = qkv_pixels_add(r->images_out, image.data, -1, name);
    qkv_image_free(&image, r->ctx);
    return status && !bad ? status : masks_tell(r, bad ? qkv_context_message(r->ctx) : NULL);
}

static qkv_status masks_begin(reading *r)
{
    size_t n = qkv_image_list_count(r->masks);
    r->stems = qkv_calloc(r->ctx, n + 1, sizeof *r->stems);
    r->classes = qkv_calloc(r->ctx, r->side, r->side);
    if (!r->stems || !r->classes)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        r->stems[i] = stem_of(qkv_image_list_name(r->masks, i), i);
    qsort(r->stems, n, sizeof *r->stems, masks_by_text);
    qkv_status status = qkv_pixels_create(&r->images_out, r->ctx, NULL, r->side, r->side, 3);
    return status ? status
                  : qkv_pixels_create(&r->classes_out, r->ctx, NULL, r->side, r->side, 1);
}

/* Both sets, or neither. */
static qkv_status masks_finish(reading *r, qkv_status status, qkv_pixels **images,
                               qkv_pixels **classes)
{
    if (status) {
        qkv_pixels_abandon(r->images_out);
        qkv_pixels_abandon(r->classes_out);
    } else {
        status = qkv_pixels_finish(r->images_out, images);
        qkv_status second = qkv_pixels_finish(r->classes_out, classes);
        status = status ? status : second;
    }
    if (status) {
        qkv_pixels_close(*images);
        qkv_pixels_close(*classes);
        *images = *classes = NULL;
    }
    qkv_free(r->ctx, r->stems);
    qkv_free(r->ctx, r->classes);
    return status;
}

qkv_status qkv_masks_read(qkv_pixels **images, qkv_pixels **classes, qkv_context *ctx,
                          const qkv_image_list *files, const qkv_image_list *masks,
                          const qkv_mask_palette *palette, size_t side, qkv_pixels_fn *event,
                          void *user)
{
    reading r = {.ctx = ctx, .files = files, .masks = masks, .palette = palette,
                 .side = side, .event = event, .user = user};
    *images = *classes = NULL;
    r.state.count = qkv_image_list_count(files);
    qkv_status status = masks_begin(&r);
    for (size_t i = 0; i < r.state.count && !status; i++)
        status = masks_add_pair(&r, i);
    if (!status && r.state.skipped == r.state.count)
        status = r.state.count == 1
                     ? qkv_fail(ctx, QKV_E_FORMAT, "%s", r.last)
                     : qkv_fail(ctx, QKV_E_FORMAT, "none of %zu images can be read; the last: "
                                "%s", r.state.count, r.last);
    return masks_finish(&r, status, images, classes);
}
