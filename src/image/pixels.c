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
 * All in the order of the machine's bytes: the file belongs to a run on one machine. */
#include "qkv/pixels.h"

#include <math.h>
#include <string.h>

#include "io/store.h"

enum { TRAILER = 48, MAX_SIDE = 1 << 16 };
static const qkv__trailer trailer = {
    .kind = "pixel", .magic = {'q', 'k', 'v', 'p', 'i', 'x', 'e', 'l'}, .version = 1,
    .size = TRAILER};

struct qkv_pixels {
    qkv_context *ctx;
    qkv__map map; /* begins with the pictures */
    size_t height, width, channels, count, classes;
    const int32_t *ids;   /* (count): classes */
    const uint64_t *ends; /* (count + classes) */
    const char *text;
};

/* ---- writing --------------------------------------------------------------------------------- */

/* What follows the pictures, in the order of the file. */
enum { CLASSES, ENDS, CLASS_ENDS, TEXT, CLASS_TEXT, PARTS };

struct qkv_pixels_writer {
    qkv_context *ctx;
    qkv__store store;
    size_t height, width, channels;
    uint64_t count, classes;
    int32_t largest; /* class; -1: none */
    qkv_str part[PARTS];
};

static qkv_status append(qkv_pixels_writer *w, int part, const void *data, size_t size)
{
    qkv_str_add(&w->part[part], data, size);
    return w->part[part].failed ? QKV_E_MEMORY : QKV_OK;
}

static qkv_status add_name(qkv_pixels_writer *w, int text, int ends, const char *name)
{
    qkv_status status = append(w, text, name, strlen(name) + 1);
    uint64_t end = w->part[text].len;
    return status ? status : append(w, ends, &end, sizeof end);
}

qkv_status qkv_pixels_create(qkv_pixels_writer **out, qkv_context *ctx, const char *path,
                             size_t height, size_t width, size_t channels)
{
    *out = NULL;
    if (height < 1 || height > MAX_SIDE || width < 1 || width > MAX_SIDE ||
        (channels != 1 && channels != 3))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "pictures of %zu x %zu with %zu channels: sides up "
                        "to %d and 1 or 3 channels expected", height, width, channels, MAX_SIDE);
    qkv_pixels_writer *w = qkv_calloc(ctx, 1, sizeof *w);
    if (!w)
        return QKV_E_MEMORY;
    *w = (qkv_pixels_writer){.ctx = ctx, .height = height, .width = width, .channels = channels,
                             .largest = -1};
    for (int i = 0; i < PARTS; i++)
        qkv_str_init(&w->part[i], ctx);
    qkv_status status = qkv__store_begin(&w->store, ctx, path);
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
    return add_name(w, CLASS_TEXT, CLASS_ENDS, name);
}

qkv_status qkv_pixels_add(qkv_pixels_writer *w, const uint8_t *data, int32_t class_,
                          const char *name)
{
    if (class_ < -1)
        return qkv_fail(w->ctx, QKV_E_ARGUMENT, "%s: class %d", name, (int)class_);
    w->largest = class_ > w->largest ? class_ : w->largest;
    qkv_status status =
        qkv__store_put(&w->store, data, w->height * w->width * w->channels);
    w->count++;
    if (!status)
        status = append(w, CLASSES, &class_, sizeof class_);
    return status ? status : add_name(w, TEXT, ENDS, name);
}

/* Classes' names follow the pictures' names. */
static void shift_ends(qkv_pixels_writer *w)
{
    for (uint64_t i = 0; i < w->classes; i++) {
        uint64_t end;
        char *at = w->part[CLASS_ENDS].data + i * sizeof end;
        memcpy(&end, at, sizeof end);
        end += w->part[TEXT].len;
        memcpy(at, &end, sizeof end);
    }
}

/* All that follows the pixels. */
static qkv_status put_end(qkv_pixels_writer *w)
{
    uint32_t four[4] = {trailer.version, (uint32_t)w->channels, (uint32_t)w->height,
                        (uint32_t)w->width};
    uint64_t three[3] = {w->count, w->classes, w->part[TEXT].len + w->part[CLASS_TEXT].len};
    char h[TRAILER];
    memcpy(h, trailer.magic, sizeof trailer.magic);
    memcpy(h + 8, four, sizeof four);
    memcpy(h + 24, three, sizeof three);
    shift_ends(w);
    qkv_status status = qkv__store_pad(&w->store);
    for (int i = 0; !status && i < PARTS; i++) {
        status = qkv__store_put(&w->store, w->part[i].data, w->part[i].len);
        if (!status && i == CLASSES)
            status = qkv__store_pad(&w->store);
    }
    if (!status)
        status = qkv__store_pad(&w->store);
    return status ? status : qkv__store_put(&w->store, h, sizeof h);
}

static qkv_status take(qkv_pixels **out, qkv__map *map, const char *name);

qkv_status qkv_pixels_finish(qkv_pixels_writer *w, qkv_pixels **out)
{
    qkv_status status = QKV_OK;
    if (out)
        *out = NULL;
    if (w->largest >= 0 && (uint64_t)w->largest >= w->classes)
        status = qkv_fail(w->ctx, QKV_E_ARGUMENT, "a picture of class %d, and %llu classes",
                          (int)w->largest, (unsigned long long)w->classes);
    if (!status)
        status = put_end(w);
    qkv__map map;
    if (!status)
        status = qkv__store_finish(&w->store, out ? &map : NULL);
    if (!status && out)
        status = take(out, &map, w->store.path ? w->store.path : "pictures");
    qkv_pixels_abandon(w);
    return status;
}

void qkv_pixels_abandon(qkv_pixels_writer *w)
{
    if (!w)
        return;
    qkv__store_abandon(&w->store);
    for (int i = 0; i < PARTS; i++)
        qkv_str_free(&w->part[i]);
    qkv_free(w->ctx, w);
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

static uint64_t padded(uint64_t size) { return (size + 7) / 8 * 8; }

static qkv_status read_trailer(qkv_pixels *p, const char *name)
{
    uint32_t four[4];  /* version, channels, height, width */
    uint64_t three[3]; /* pictures, classes, bytes of text */
    const uint8_t *h = qkv__trailer_of(&p->map, &trailer, name), *data = p->map.data;
    if (!h)
        return QKV_E_FORMAT;
    memcpy(four, h + 8, sizeof four);
    memcpy(three, h + 24, sizeof three);
    uint64_t body = p->map.size - TRAILER, n = three[0], classes = three[1], text = three[2];
    bool sane = (four[1] == 1 || four[1] == 3) && four[2] >= 1 && four[2] <= MAX_SIDE &&
                four[3] >= 1 && four[3] <= MAX_SIDE;
    uint64_t one = sane ? (uint64_t)four[1] * four[2] * four[3] : 1;
    if (!sane || n > body / one || n > body / 12 || classes > body / 8 || text > body ||
        padded(n * one) + padded(4 * n) + 8 * (n + classes) + padded(text) != body)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: %llu pictures of %u x %u with %u channels, %llu"
                        " classes and %llu bytes of names do not fill %llu bytes", name,
                        (unsigned long long)n, (unsigned)four[2], (unsigned)four[3],
                        (unsigned)four[1], (unsigned long long)classes, (unsigned long long)text,
                        (unsigned long long)body);
    p->channels = four[1];
    p->height = four[2];
    p->width = four[3];
    p->count = (size_t)n;
    p->classes = (size_t)classes;
    data += padded(n * one);
    p->ids = (const int32_t *)(const void *)data;
    data += padded(4 * n);
    p->ends = (const uint64_t *)(const void *)data;
    p->text = (const char *)(data + 8 * (n + classes));
    if (!names_fit(p, text))
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: names that do not lie one after another", name);
    if (!classes_fit(p))
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: a picture of a class beyond the %llu that "
                        "there are", name, (unsigned long long)classes);
    return QKV_OK;
}

/* The map is the set's, or closed. */
static qkv_status take(qkv_pixels **out, qkv__map *map, const char *name)
{
    qkv_pixels *p = qkv_calloc(map->ctx, 1, sizeof *p);
    if (!p) {
        qkv__map_close(map);
        return QKV_E_MEMORY;
    }
    p->ctx = map->ctx;
    p->map = *map;
    qkv_status status = read_trailer(p, name);
    if (status)
        qkv_pixels_close(p);
    else
        *out = p;
    return status;
}

qkv_status qkv_pixels_open(qkv_pixels **out, qkv_context *ctx, const char *path)
{
    qkv__map map;
    *out = NULL;
    qkv_status status = qkv__map_open(&map, ctx, path);
    return status ? status : take(out, &map, path);
}

void qkv_pixels_close(qkv_pixels *p)
{
    if (!p)
        return;
    qkv__map_close(&p->map);
    qkv_free(p->ctx, p);
}

size_t qkv_pixels_count(const qkv_pixels *p) { return p->count; }
size_t qkv_pixels_height(const qkv_pixels *p) { return p->height; }
size_t qkv_pixels_width(const qkv_pixels *p) { return p->width; }
size_t qkv_pixels_channels(const qkv_pixels *p) { return p->channels; }
size_t qkv_pixels_classes(const qkv_pixels *p) { return p->classes; }

const uint8_t *qkv_pixels_data(const qkv_pixels *p, size_t i)
{
    return p->map.data + i * p->height * p->width * p->channels;
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
