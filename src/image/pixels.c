/* pixels.c - pixel files: images of one size with their classes and names, mapped.
 *
 * A safetensors file: `images`, U8 (count, height, width, channels); `labels`, I32 (count), the
 * class of each, -1: none; `names` and `classes`, U8, the images' and the classes' names one
 * after another, each with a 0 behind it. */
#include "qkv/pixels.h"

#include <math.h>
#include <string.h>

#include "io/safetensors_header.h"

enum { MAX_SIDE = 1 << 16 };

struct qkv_pixels {
    qkv_context *ctx;
    qkv_safetensors *file;
    size_t height, width, channels, count, classes;
    const uint8_t *images, *labels; /* labels: I32 (count), possibly unaligned */
    const char **names;             /* (count + classes) */
};

/* ---- writing --------------------------------------------------------------------------------- */

enum { LABELS, NAMES, CLASSES, PARTS }; /* what follows the images, in the order of the file */

struct qkv_pixels_writer {
    qkv_context *ctx;
    qkv__stream out;
    size_t height, width, channels, count, classes;
    int32_t largest; /* class; -1: none */
    qkv_str part[PARTS];
};

static qkv_status pixels_append(qkv_pixels_writer *w, int part, const void *data, size_t size)
{
    qkv_str_add(&w->part[part], data, size);
    return w->part[part].failed ? QKV_E_MEMORY : QKV_OK;
}

qkv_status qkv_pixels_create(qkv_pixels_writer **out, qkv_context *ctx, const char *path,
                             size_t height, size_t width, size_t channels)
{
    *out = NULL;
    if (height < 1 || height > MAX_SIDE || width < 1 || width > MAX_SIDE ||
        (channels != 1 && channels != 3))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "images of %zu x %zu with %zu channels: sides up "
                        "to %d and 1 or 3 channels expected", height, width, channels, MAX_SIDE);
    qkv_pixels_writer *w = qkv_calloc(ctx, 1, sizeof *w);
    if (!w)
        return QKV_E_MEMORY;
    *w = (qkv_pixels_writer){.ctx = ctx, .height = height, .width = width, .channels = channels,
                             .largest = -1};
    for (int i = 0; i < PARTS; i++)
        qkv_str_init(&w->part[i], ctx);
    qkv_status status = qkv__stream_begin(&w->out, ctx, path);
    if (status) {
        qkv_pixels_abandon(w);
        return status;
    }
    *out = w;
    return QKV_OK;
}

qkv_status qkv_pixels_add_class(qkv_pixels_writer *w, const char *name)
{
    w->classes++;
    return pixels_append(w, CLASSES, name, strlen(name) + 1);
}

qkv_status qkv_pixels_add(qkv_pixels_writer *w, const uint8_t *data, int32_t class_,
                          const char *name)
{
    if (class_ < -1)
        return qkv_fail(w->ctx, QKV_E_ARGUMENT, "%s: class %d", name, (int)class_);
    w->largest = class_ > w->largest ? class_ : w->largest;
    qkv_status status = qkv__stream_put(&w->out, data, w->height * w->width * w->channels);
    w->count++;
    if (!status)
        status = pixels_append(w, LABELS, &class_, sizeof class_);
    return status ? status : pixels_append(w, NAMES, name, strlen(name) + 1);
}

static qkv_status pixels_take(qkv_pixels **out, qkv_context *ctx, qkv_safetensors *file,
                              const char *name);

/* The file's tensors: all is given by the images and the parts that follow them. */
static qkv_status pixels_finish(qkv_pixels_writer *w, qkv_safetensors **out)
{
    static const char *const metadata[] = {NULL};
    const size_t shape[4] = {w->count, w->height, w->width, w->channels};
    const size_t *names = &w->part[NAMES].len, *classes = &w->part[CLASSES].len;
    const void *data[PARTS];
    for (int i = 0; i < PARTS; i++)
        data[i] = w->part[i].data ? w->part[i].data : "";
    const qkv_safetensors_entry entries[] = {
        {.name = "images", .ndim = 4, .shape = shape, .store = QKV_STORE_U8, .raw = ""},
        {.name = "labels", .ndim = 1, .shape = shape, .store = QKV_STORE_I32, .raw = data[LABELS]},
        {.name = "names", .ndim = 1, .shape = names, .store = QKV_STORE_U8, .raw = data[NAMES]},
        {.name = "classes", .ndim = 1, .shape = classes, .store = QKV_STORE_U8,
         .raw = data[CLASSES]}};
    return qkv__stream_finish(&w->out, entries, 1 + PARTS, metadata, out);
}

qkv_status qkv_pixels_finish(qkv_pixels_writer *w, qkv_pixels **out)
{
    qkv_safetensors *file = NULL;
    qkv_status status = QKV_OK;
    if (out)
        *out = NULL;
    if (w->largest >= 0 && (size_t)w->largest >= w->classes)
        status = qkv_fail(w->ctx, QKV_E_ARGUMENT, "an image of class %d, and %zu classes",
                          (int)w->largest, w->classes);
    if (!status)
        status = pixels_finish(w, out ? &file : NULL);
    if (file)
        status = pixels_take(out, w->ctx, file, w->out.path ? w->out.path : "images");
    qkv_pixels_abandon(w);
    return status;
}

void qkv_pixels_abandon(qkv_pixels_writer *w)
{
    if (!w)
        return;
    qkv__stream_abandon(&w->out);
    for (int i = 0; i < PARTS; i++)
        qkv_str_free(&w->part[i]);
    qkv_free(w->ctx, w);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* How many names the text holds; SIZE_MAX when the last one has no 0 behind it. */
static size_t count_names(const qkv_safetensor *text)
{
    const char *at = text->data;
    size_t n = 0;
    for (size_t i = 0; i < text->bytes; i++)
        n += !at[i];
    return text->bytes && at[text->bytes - 1] ? SIZE_MAX : n;
}

static void point_at_names(const char **names, size_t count, const char *text)
{
    for (; count--; text += strlen(text) + 1)
        *names++ = text;
}

/* The images' names and the classes', whose number is counted. */
static qkv_status pixels_read_names(qkv_pixels *p, const char *name)
{
    const qkv_safetensor *names, *classes;
    qkv_status status = qkv__safetensors_expect(p->file, "names", QKV_STORE_U8, 1, &names);
    if (!status)
        status = qkv__safetensors_expect(p->file, "classes", QKV_STORE_U8, 1, &classes);
    if (status)
        return status;
    p->classes = count_names(classes);
    if (p->classes == SIZE_MAX || count_names(names) != p->count)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: a name with a 0 behind it for each of %zu "
                        "images, and for each class, expected", name, p->count);
    p->names = qkv_calloc(p->ctx, p->count + p->classes + 1, sizeof *p->names);
    if (!p->names)
        return QKV_E_MEMORY;
    point_at_names(p->names, p->count, names->data);
    point_at_names(p->names + p->count, p->classes, classes->data);
    return QKV_OK;
}

static qkv_status pixels_check(qkv_pixels *p, const char *name)
{
    const qkv_safetensor *images, *labels;
    qkv_status status = qkv__safetensors_expect(p->file, "images", QKV_STORE_U8, 4, &images);
    if (status)
        return status;
    const size_t *shape = images->shape;
    if ((shape[3] != 1 && shape[3] != 3) || shape[1] < 1 || shape[1] > MAX_SIDE || shape[2] < 1 ||
        shape[2] > MAX_SIDE)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: images of %zu x %zu with %zu channels: sides "
                        "up to %d and 1 or 3 channels expected", name, shape[1], shape[2],
                        shape[3], MAX_SIDE);
    p->count = shape[0];
    p->height = shape[1];
    p->width = shape[2];
    p->channels = shape[3];
    status = qkv_safetensors_get(p->file, "labels", 1, shape, &labels);
    if (!status)
        status = qkv__safetensors_expect(p->file, "labels", QKV_STORE_I32, 1, &labels);
    if (!status)
        status = pixels_read_names(p, name);
    if (status)
        return status;
    p->images = images->data;
    p->labels = labels->data;
    for (size_t i = 0; i < p->count; i++) {
        int32_t label = qkv_pixels_class(p, i);
        if (label < -1 || (label >= 0 && (size_t)label >= p->classes))
            return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: an image of a class beyond the %zu that "
                            "there are", name, p->classes);
    }
    return QKV_OK;
}

/* The file is the set's, or closed. */
static qkv_status pixels_take(qkv_pixels **out, qkv_context *ctx, qkv_safetensors *file,
                              const char *name)
{
    qkv_pixels *p = qkv_calloc(ctx, 1, sizeof *p);
    if (!p) {
        qkv_safetensors_close(file);
        return QKV_E_MEMORY;
    }
    p->ctx = ctx;
    p->file = file;
    qkv_status status = pixels_check(p, name);
    if (status)
        qkv_pixels_close(p);
    else
        *out = p;
    return status;
}

qkv_status qkv_pixels_open(qkv_pixels **out, qkv_context *ctx, const char *path)
{
    qkv_safetensors *file;
    *out = NULL;
    qkv_status status = qkv_safetensors_open(&file, ctx, path);
    return status ? status : pixels_take(out, ctx, file, path);
}

void qkv_pixels_close(qkv_pixels *p)
{
    if (!p)
        return;
    qkv_free(p->ctx, p->names);
    qkv_safetensors_close(p->file);
    qkv_free(p->ctx, p);
}

size_t qkv_pixels_count(const qkv_pixels *p) { return p->count; }
size_t qkv_pixels_height(const qkv_pixels *p) { return p->height; }
size_t qkv_pixels_width(const qkv_pixels *p) { return p->width; }
size_t qkv_pixels_channels(const qkv_pixels *p) { return p->channels; }
size_t qkv_pixels_classes(const qkv_pixels *p) { return p->classes; }

bool qkv_pixels_labelled(const qkv_pixels *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (qkv_pixels_class(p, i) < 0)
            return false;
    return p->classes > 1;
}

const uint8_t *qkv_pixels_data(const qkv_pixels *p, size_t i)
{
    return p->images + i * p->height * p->width * p->channels;
}

int32_t qkv_pixels_class(const qkv_pixels *p, size_t i)
{
    int32_t label;
    memcpy(&label, p->labels + i * sizeof label, sizeof label);
    return label;
}

const char *qkv_pixels_name(const qkv_pixels *p, size_t i) { return p->names[i]; }

const char *const *qkv_pixels_class_names(const qkv_pixels *p) { return p->names + p->count; }

const char *qkv_pixels_class_name(const qkv_pixels *p, size_t class_)
{
    return p->names[p->count + class_];
}

void qkv_pixels_stats(const qkv_pixels *p, const size_t *images, size_t count, double mean[3],
                      double std[3])
{
    size_t C = p->channels, size = p->height * p->width * C;
    uint64_t sum[3] = {0}, squares[3] = {0};
    for (size_t i = 0; i < count; i++) {
        const uint8_t *data = qkv_pixels_data(p, images ? images[i] : i);
        for (size_t k = 0; k < size; k += C)
            for (size_t c = 0; c < C; c++) {
                sum[c] += data[k + c];
                squares[c] += (uint64_t)data[k + c] * data[k + c];
            }
    }
    double n = (double)count * (double)(p->height * p->width);
    for (size_t c = 0; c < 3; c++) {
        double m = n > 0 ? (double)sum[c] / n : 0;
        double variance = n > 0 ? (double)squares[c] / n - m * m : 0;
        mean[c] = m / 255;
        std[c] = sqrt(variance > 0 ? variance : 0) / 255;
    }
}
