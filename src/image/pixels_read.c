/* pixels_read.c - images of all kinds and sizes become a set of pixels of one. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "image/image_list.h"
#include "qkv/pixels.h"

enum {
    MESSAGE_BYTES = 1024,
    CHUNK_BYTES = 32 << 20, /* of images that are decoded before they are written */
    CHUNK_MOST = 256
};

/* An image that was tried. */
typedef struct {
    qkv_status status;
    char why[MESSAGE_BYTES];
} outcome;

typedef struct {
    qkv_context *ctx;
    const qkv_image_list *images;
    qkv_pixels_options o;
    qkv_image_options decode;
    int threads;
    qkv_context **workers; /* (threads): a context serves one thread at a time */
    size_t chunk, size;    /* images; bytes of one */
    uint8_t *data;         /* (chunk, size) */
    outcome *outcomes;     /* (chunk) */
    qkv_pixels_fn *event;
    void *user;
    qkv_pixels_event state;
    char last[MESSAGE_BYTES]; /* why the last one was left out */
} reading;

qkv_pixels_options qkv_pixels_defaults(void)
{
    return (qkv_pixels_options){.channels = 3, .filter = QKV_RESIZE_BILINEAR,
                                .background = {255, 255, 255}};
}

/* The largest part in the middle with the shape of the wanted size. */
static qkv_box pixels_read_middle(const qkv_image *image, size_t width, size_t height)
{
    double w = (double)image->width, h = (double)image->height;
    double across = w / (double)width, down = h / (double)height;
    double scale = across < down ? across : down;
    double cut_x = (w - scale * (double)width) / 2, cut_y = (h - scale * (double)height) / 2;
    cut_x = cut_x > 0 ? cut_x : 0; /* not below it by a rounding */
    cut_y = cut_y > 0 ? cut_y : 0;
    return (qkv_box){cut_x, cut_y, w - cut_x, h - cut_y};
}

/* The first and the last place, of `size`, that become `cut` pixels in the middle of `resized`. */
static void pixels_read_cut(size_t size, size_t resized, size_t cut, double *first, double *last)
{
    double scale = (double)size / (double)resized;
    size_t from = (resized - cut) / 2;
    *first = scale * (double)from;
    *last = fmin(scale * (double)(from + cut), (double)size);
}

/* What becomes width x height when the image is resized and then cut. */
static qkv_status pixels_read_resized(qkv_box *box, qkv_context *ctx, const qkv_image *image,
                                      const qkv_pixels_options *o, size_t width, size_t height)
{
    size_t shorter = image->width < image->height ? image->width : image->height;
    bool squash = o->fit == QKV_FIT_SQUASH;
    size_t wide = squash ? o->resize : o->resize * image->width / shorter;
    size_t tall = squash ? o->resize : o->resize * image->height / shorter;
    if (width > wide || height > tall)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "an image of %zu x %zu, resized to %zu x %zu, cannot "
                        "be cut to %zu x %zu", image->width, image->height, wide, tall, width,
                        height);
    pixels_read_cut(image->width, wide, width, &box->left, &box->right);
    pixels_read_cut(image->height, tall, height, &box->top, &box->bottom);
    return QKV_OK;
}

qkv_status qkv_image_fit(qkv_image *image, qkv_context *ctx, const qkv_pixels_options *o)
{
    size_t width = o->width ? o->width : image->width;
    size_t height = o->height ? o->height : image->height;
    if (width != image->width || height != image->height || o->resize) {
        qkv_image fitted;
        qkv_box box = {0, 0, (double)image->width, (double)image->height};
        qkv_status status = QKV_OK;
        if (o->resize)
            status = pixels_read_resized(&box, ctx, image, o, width, height);
        else if (o->fit == QKV_FIT_CROP)
            box = pixels_read_middle(image, width, height);
        if (status)
            return status;
        status = qkv_image_resize(&fitted, ctx, image, width, height, o->filter, &box);
        qkv_image_free(image, ctx);
        *image = fitted;
        if (status)
            return status;
    }
    return qkv_image_channels(image, ctx, o->channels);
}

/* Tells of an image that is left out, or of progress. */
static qkv_status pixels_read_tell(reading *r, const char *bad)
{
    r->state.bad = bad;
    if (bad) {
        r->state.skipped++;
        snprintf(r->last, sizeof r->last, "%s", bad);
    }
    if (r->event && !r->event(r->user, &r->state))
        return qkv_fail(r->ctx, QKV_E_CANCELLED, "stopped while images were read");
    return QKV_OK;
}

/* What the options leave open, from the first image that can be read. */
static qkv_status pixels_read_settle(reading *r)
{
    qkv_image image = {0};
    if (r->o.width && r->o.height && r->o.channels)
        return QKV_OK;
    for (size_t i = 0; i < r->state.count; i++) {
        qkv_status status =
            qkv__image_list_read(r->images, r->workers[0], i, &image, &r->decode);
        if (status == QKV_E_MEMORY)
            return qkv_fail(r->ctx, status, "%s", qkv_context_message(r->workers[0]));
        if (status)
            continue;
        r->o.width = r->o.width ? r->o.width : image.width;
        r->o.height = r->o.height ? r->o.height : image.height;
        r->o.channels = r->o.channels ? r->o.channels : image.channels;
        qkv_image_free(&image, r->workers[0]);
        return QKV_OK;
    }
    r->o.width = r->o.height = r->o.channels = 1; /* every one will be told of, and none left */
    return QKV_OK;
}

static qkv_status pixels_read_begin(reading *r)
{
    r->threads = qkv_context_threads(r->ctx);
    r->workers = qkv_calloc(r->ctx, (size_t)r->threads, sizeof(qkv_context *));
    if (!r->workers)
        return QKV_E_MEMORY;
    qkv_context_options one = qkv_context_defaults();
    one.threads = 1;
    for (int i = 0; i < r->threads; i++)
        if (qkv_context_create(&r->workers[i], &one))
            return qkv_fail(r->ctx, QKV_E_MEMORY, "out of memory");
    qkv_status status = pixels_read_settle(r);
    if (status)
        return status;
    r->decode.channels = r->o.channels;
    r->size = r->o.width * r->o.height * r->o.channels;
    r->chunk = r->size ? CHUNK_BYTES / r->size : 0;
    r->chunk = r->chunk < CHUNK_MOST ? r->chunk : CHUNK_MOST;
    r->chunk = r->chunk < (size_t)r->threads ? (size_t)r->threads : r->chunk;
    r->data = qkv_calloc(r->ctx, r->chunk, r->size);
    r->outcomes = qkv_calloc(r->ctx, r->chunk, sizeof *r->outcomes);
    return r->data && r->outcomes ? QKV_OK : QKV_E_MEMORY;
}

static void pixels_read_end(reading *r)
{
    for (int i = 0; r->workers && i < r->threads; i++)
        qkv_context_destroy(r->workers[i]);
    qkv_free(r->ctx, r->workers);
    qkv_free(r->ctx, r->data);
    qkv_free(r->ctx, r->outcomes);
}

/* Decodes image i for place k of the chunk. */
static void pixels_read_decode(const reading *r, qkv_context *worker, size_t i, size_t k)
{
    qkv_image image = {0};
    outcome *o = &r->outcomes[k];
    o->status = qkv__image_list_read(r->images, worker, i, &image, &r->decode);
    if (!o->status)
        o->status = qkv_image_fit(&image, worker, &r->o);
    if (o->status)
        snprintf(o->why, sizeof o->why, "%s", qkv_context_message(worker));
    else
        memcpy(r->data + k * r->size, image.data, r->size);
    qkv_image_free(&image, worker);
}

/* Images first .. first + n - 1, in order whoever decoded them. */
static qkv_status write_chunk(reading *r, qkv_pixels_writer *w, size_t first, size_t n)
{
    qkv_status status = QKV_OK;
    for (size_t k = 0; !status && k < n; k++) {
        const outcome *o = &r->outcomes[k];
        r->state.done++;
        if (o->status == QKV_E_MEMORY)
            status = qkv_fail(r->ctx, o->status, "%s", o->why);
        else if (o->status)
            status = pixels_read_tell(r, o->why);
        else
            status = qkv_pixels_add(w, r->data + k * r->size,
                                    qkv_image_list_class(r->images, first + k),
                                    qkv_image_list_name(r->images, first + k));
    }
    return status ? status : pixels_read_tell(r, NULL);
}

static qkv_status pixels_read_write_all(reading *r, qkv_pixels_writer *w)
{
    qkv_status status = QKV_OK;
    for (size_t c = 0; !status && c < qkv_image_list_classes(r->images); c++)
        status = qkv_pixels_add_class(w, qkv_image_list_class_name(r->images, c));
    for (size_t first = 0; !status && first < r->state.count; first += r->chunk) {
        size_t left = r->state.count - first, n = left < r->chunk ? left : r->chunk;
#pragma omp parallel for num_threads(r->threads) schedule(dynamic) default(none) \
    shared(r, first, n)
        for (size_t k = 0; k < n; k++)
            pixels_read_decode(r, r->workers[omp_get_thread_num()], first + k, k);
        status = write_chunk(r, w, first, n);
    }
    if (!status && r->state.skipped == r->state.count)
        status = r->state.count == 1
                     ? qkv_fail(r->ctx, QKV_E_FORMAT, "%s", r->last)
                     : qkv_fail(r->ctx, QKV_E_FORMAT, "none of %zu images can be read; the "
                                "last: %s", r->state.count, r->last);
    return status;
}

qkv_status qkv_pixels_read(qkv_pixels **out, qkv_context *ctx, const qkv_image_list *images,
                           const char *path, const qkv_pixels_options *options,
                           qkv_pixels_fn *event, void *user)
{
    qkv_pixels_writer *w = NULL;
    reading r = {.ctx = ctx, .images = images, .event = event, .user = user};
    *out = NULL;
    r.o = options ? *options : qkv_pixels_defaults();
    r.decode = qkv_image_defaults();
    r.decode.channels = r.o.channels;
    memcpy(r.decode.background, r.o.background, sizeof r.o.background);
    r.state.count = qkv_image_list_count(images);
    qkv_status status = pixels_read_begin(&r);
    if (!status)
        status = qkv_pixels_create(&w, ctx, path, r.o.height, r.o.width, r.o.channels);
    if (!status)
        status = pixels_read_write_all(&r, w);
    if (status)
        qkv_pixels_abandon(w);
    else
        status = qkv_pixels_finish(w, out);
    pixels_read_end(&r);
    return status;
}
