/* pixels.c - pixel files: pictures of one size with their classes and names, mapped.
 *
 *   the pictures, (count, height, width, channels), a byte each;
 *   the class of each, 4 bytes, -1: none;
 *   8 bytes for each picture, then for each class: where its name ends in the text;
 *   the text: names one after another, each with a 0 behind it;
 *   every part padded to a multiple of 8 bytes; then the last 48 bytes:
 *   offset  size  what
 *        0     8  "qkvpixel"
 *        8     4  version, 1
 *       12     4  channels
 *       16     4  height
 *       20     4  width
 *       24     8  how many pictures
 *       32     8  how many classes
 *       40     8  bytes of text
 * All in the order of the machine's bytes: the file belongs to a run on one machine, and one
 * written in another order has another version. */
#include "qkv/pixels.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "io/file.h"

enum { TRAILER = 48, VERSION = 1, MAX_SIDE = 1 << 16 };
static const char magic[8] = {'q', 'k', 'v', 'p', 'i', 'x', 'e', 'l'};

struct qkv_pixels {
    qkv_context *ctx;
    qkv__map map; /* of the file, or nothing */
    void *owned;  /* what was made in memory, or NULL */
    size_t height, width, channels, count, classes;
    const uint8_t *data;
    const int32_t *ids;   /* (count): classes */
    const uint64_t *ends; /* (count + classes) */
    const char *text;
};

/* ---- writing --------------------------------------------------------------------------------- */

/* An array that grows. */
typedef struct {
    char *data;
    size_t size, capacity; /* bytes */
} buffer;

typedef struct {
    buffer text, ends;
    uint64_t count;
} names;

struct qkv_pixels_writer {
    qkv_context *ctx;
    qkv__writer *file; /* NULL: in memory */
    char *path;        /* NULL: in memory */
    size_t height, width, channels;
    int32_t largest; /* class; -1: none */
    buffer kept;     /* the file when in memory */
    buffer ids;
    names pictures, classes;
};

static qkv_status append(qkv_context *ctx, buffer *b, const void *data, size_t size)
{
    if (size > b->capacity - b->size) {
        size_t capacity = 2 * (b->size + size) + 4096;
        char *grown = qkv__realloc(ctx, b->data, b->size, capacity);
        if (!grown)
            return QKV_E_MEMORY;
        b->data = grown;
        b->capacity = capacity;
    }
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    return QKV_OK;
}

static qkv_status put(qkv_pixels_writer *w, const void *data, size_t size)
{
    return w->file ? qkv__writer_put(w->file, data, size) : append(w->ctx, &w->kept, data, size);
}

static uint64_t padded(uint64_t size) { return (size + 7) / 8 * 8; }

/* What makes `size` bytes a multiple of 8. */
static qkv_status pad(qkv_pixels_writer *w, uint64_t size)
{
    static const char zeros[8] = {0};
    return put(w, zeros, (size_t)(padded(size) - size));
}

static qkv_status add_name(qkv_pixels_writer *w, names *n, const char *name)
{
    qkv_status status = append(w->ctx, &n->text, name, strlen(name) + 1);
    uint64_t end = n->text.size;
    n->count++;
    return status ? status : append(w->ctx, &n->ends, &end, sizeof end);
}

qkv_status qkv_pixels_create(qkv_pixels_writer **out, qkv_context *ctx, const char *path,
                             size_t height, size_t width, size_t channels)
{
    *out = NULL;
    if (height < 1 || height > MAX_SIDE || width < 1 || width > MAX_SIDE ||
        (channels != 1 && channels != 3))
        return qkv__fail(ctx, QKV_E_ARGUMENT, "pictures of %zu x %zu with %zu channels: sides up "
                         "to %d and 1 or 3 channels expected", height, width, channels, MAX_SIDE);
    qkv_pixels_writer *w = qkv__calloc(ctx, 1, sizeof *w);
    if (!w)
        return QKV_E_MEMORY;
    w->ctx = ctx;
    w->height = height;
    w->width = width;
    w->channels = channels;
    w->largest = -1;
    qkv_status status = QKV_OK;
    if (path) {
        w->path = qkv__strdup(ctx, path);
        status = w->path ? qkv__writer_open(&w->file, ctx, path) : QKV_E_MEMORY;
    }
    if (status) {
        qkv_pixels_abandon(w);
        return status;
    }
    *out = w;
    return QKV_OK;
}

qkv_status qkv_pixels_add_class(qkv_pixels_writer *w, const char *name)
{
    return add_name(w, &w->classes, name);
}

qkv_status qkv_pixels_add(qkv_pixels_writer *w, const uint8_t *data, int32_t class_,
                          const char *name)
{
    if (class_ < -1)
        return qkv__fail(w->ctx, QKV_E_ARGUMENT, "%s: class %d", name, (int)class_);
    w->largest = class_ > w->largest ? class_ : w->largest;
    qkv_status status = put(w, data, w->height * w->width * w->channels);
    if (!status)
        status = append(w->ctx, &w->ids, &class_, sizeof class_);
    return status ? status : add_name(w, &w->pictures, name);
}

/* Classes' names follow the pictures' names. */
static void shift_ends(qkv_pixels_writer *w)
{
    for (uint64_t i = 0; i < w->classes.count; i++) {
        uint64_t end;
        char *at = w->classes.ends.data + i * sizeof end;
        memcpy(&end, at, sizeof end);
        end += w->pictures.text.size;
        memcpy(at, &end, sizeof end);
    }
}

/* All that follows the pixels. */
static qkv_status put_end(qkv_pixels_writer *w)
{
    uint32_t four[4] = {VERSION, (uint32_t)w->channels, (uint32_t)w->height, (uint32_t)w->width};
    uint64_t three[3] = {w->pictures.count, w->classes.count,
                         w->pictures.text.size + w->classes.text.size};
    char h[TRAILER];
    memcpy(h, magic, sizeof magic);
    memcpy(h + 8, four, sizeof four);
    memcpy(h + 24, three, sizeof three);
    shift_ends(w);
    const buffer *const parts[] = {&w->ids, &w->pictures.ends, &w->classes.ends,
                                   &w->pictures.text, &w->classes.text};
    uint64_t size = three[0] * w->height * w->width * w->channels;
    qkv_status status = pad(w, size);
    for (size_t i = 0; !status && i < sizeof parts / sizeof *parts; i++) {
        status = put(w, parts[i]->data, parts[i]->size);
        if (!status && i == 0)
            status = pad(w, parts[i]->size);
    }
    if (!status)
        status = pad(w, three[2]);
    return status ? status : put(w, h, sizeof h);
}

static qkv_status read_trailer(qkv_pixels *p, const uint8_t *data, size_t size, const char *name);

/* Takes what was kept in memory. */
static qkv_status adopt(qkv_pixels_writer *w, qkv_pixels **out)
{
    qkv_pixels *p = qkv__calloc(w->ctx, 1, sizeof *p);
    if (!p)
        return QKV_E_MEMORY;
    p->ctx = w->ctx;
    p->owned = w->kept.data;
    w->kept.data = NULL;
    qkv_status status = read_trailer(p, p->owned, w->kept.size, "pictures");
    if (status)
        qkv_pixels_close(p);
    else
        *out = p;
    return status;
}

qkv_status qkv_pixels_finish(qkv_pixels_writer *w, qkv_pixels **out)
{
    qkv_status status = QKV_OK;
    if (out)
        *out = NULL;
    if (w->largest >= 0 && (uint64_t)w->largest >= w->classes.count)
        status = qkv__fail(w->ctx, QKV_E_ARGUMENT, "a picture of class %d, and %llu classes",
                           (int)w->largest, (unsigned long long)w->classes.count);
    if (!status)
        status = put_end(w);
    if (!status && w->file) {
        qkv__writer *file = w->file;
        w->file = NULL;
        status = qkv__writer_close(file);
        if (!status && out)
            status = qkv_pixels_open(out, w->ctx, w->path);
    } else if (!status && out) {
        status = adopt(w, out);
    }
    qkv_pixels_abandon(w);
    return status;
}

void qkv_pixels_abandon(qkv_pixels_writer *w)
{
    if (!w)
        return;
    qkv__writer_abandon(w->file);
    buffer *const all[] = {&w->kept, &w->ids, &w->pictures.text, &w->pictures.ends,
                           &w->classes.text, &w->classes.ends};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        qkv__free(w->ctx, all[i]->data);
    qkv__free(w->ctx, w->path);
    qkv__free(w->ctx, w);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Do the names lie one after another, each with a 0 behind it, and fill the text? */
static bool names_fit(const qkv_pixels *p, uint64_t text)
{
    uint64_t before = 0;
    for (size_t i = 0; i < p->count + p->classes; i++) {
        if (p->ends[i] <= before || p->ends[i] > text || p->text[p->ends[i] - 1])
            return false;
        before = p->ends[i];
    }
    return before == text;
}

static bool classes_fit(const qkv_pixels *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->ids[i] < -1 || (p->ids[i] >= 0 && (size_t)p->ids[i] >= p->classes))
            return false;
    return true;
}

static qkv_status read_trailer(qkv_pixels *p, const uint8_t *data, size_t size, const char *name)
{
    uint32_t four[4];  /* version, channels, height, width */
    uint64_t three[3]; /* pictures, classes, bytes of text */
    if (size < TRAILER || memcmp(data + size - TRAILER, magic, sizeof magic))
        return qkv__fail(p->ctx, QKV_E_FORMAT, "%s: not a qkv pixel file, or cut short", name);
    memcpy(four, data + size - TRAILER + 8, sizeof four);
    memcpy(three, data + size - TRAILER + 24, sizeof three);
    if (four[0] != VERSION)
        return qkv__fail(p->ctx, QKV_E_FORMAT, "%s: version %d expected, %u found", name, VERSION,
                         (unsigned)four[0]);
    uint64_t body = size - TRAILER, n = three[0], classes = three[1], text = three[2];
    bool sane = (four[1] == 1 || four[1] == 3) && four[2] >= 1 && four[2] <= MAX_SIDE &&
                four[3] >= 1 && four[3] <= MAX_SIDE;
    uint64_t one = sane ? (uint64_t)four[1] * four[2] * four[3] : 1;
    if (!sane || n > body / one || n > body / 12 || classes > body / 8 || text > body ||
        padded(n * one) + padded(4 * n) + 8 * (n + classes) + padded(text) != body)
        return qkv__fail(p->ctx, QKV_E_FORMAT, "%s: %llu pictures of %u x %u with %u channels, %llu"
                         " classes and %llu bytes of names do not fill %llu bytes", name,
                         (unsigned long long)n, (unsigned)four[2], (unsigned)four[3],
                         (unsigned)four[1], (unsigned long long)classes, (unsigned long long)text,
                         (unsigned long long)body);
    p->channels = four[1];
    p->height = four[2];
    p->width = four[3];
    p->count = (size_t)n;
    p->classes = (size_t)classes;
    p->data = data;
    data += padded(n * one);
    p->ids = (const int32_t *)(const void *)data;
    data += padded(4 * n);
    p->ends = (const uint64_t *)(const void *)data;
    p->text = (const char *)(data + 8 * (n + classes));
    if (!names_fit(p, text))
        return qkv__fail(p->ctx, QKV_E_FORMAT, "%s: names that do not lie one after another", name);
    if (!classes_fit(p))
        return qkv__fail(p->ctx, QKV_E_FORMAT, "%s: a picture of a class beyond the %llu that "
                         "there are", name, (unsigned long long)classes);
    return QKV_OK;
}

qkv_status qkv_pixels_open(qkv_pixels **out, qkv_context *ctx, const char *path)
{
    *out = NULL;
    qkv_pixels *p = qkv__calloc(ctx, 1, sizeof *p);
    if (!p)
        return QKV_E_MEMORY;
    p->ctx = ctx;
    qkv_status status = qkv__map_open(&p->map, ctx, path);
    if (!status)
        status = read_trailer(p, p->map.data, p->map.size, path);
    if (status) {
        qkv_pixels_close(p);
        return status;
    }
    *out = p;
    return QKV_OK;
}

void qkv_pixels_close(qkv_pixels *p)
{
    if (!p)
        return;
    qkv__map_close(&p->map);
    qkv__free(p->ctx, p->owned);
    qkv__free(p->ctx, p);
}

size_t qkv_pixels_count(const qkv_pixels *p) { return p->count; }
size_t qkv_pixels_height(const qkv_pixels *p) { return p->height; }
size_t qkv_pixels_width(const qkv_pixels *p) { return p->width; }
size_t qkv_pixels_channels(const qkv_pixels *p) { return p->channels; }
size_t qkv_pixels_classes(const qkv_pixels *p) { return p->classes; }

const uint8_t *qkv_pixels_data(const qkv_pixels *p, size_t i)
{
    return p->data + i * p->height * p->width * p->channels;
}

int32_t qkv_pixels_class(const qkv_pixels *p, size_t i) { return p->ids[i]; }

const char *qkv_pixels_name(const qkv_pixels *p, size_t i)
{
    return p->text + (i ? p->ends[i - 1] : 0);
}

const char *qkv_pixels_class_name(const qkv_pixels *p, size_t class_)
{
    return qkv_pixels_name(p, p->count + class_);
}

void qkv_pixels_stats(const qkv_pixels *p, const size_t *pictures, size_t count, double mean[3],
                      double std[3])
{
    size_t C = p->channels, size = p->height * p->width * C;
    uint64_t sum[3] = {0}, squares[3] = {0};
    for (size_t i = 0; i < count; i++) {
        const uint8_t *data = qkv_pixels_data(p, pictures ? pictures[i] : i);
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
