/* image_list.c - what images there are below a path, and the class of each. */
#include "image/image_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "image/emoji_groups.h"
#include "io/emoji_font.h"
#include "io/file.h"
#include "io/idx.h"
#include "io/image_file.h"
#include "io/image_codecs.h"
#include "io/tar.h"

enum { MOST_IN_IDX = 1 << 23 }; /* images: each takes 112 bytes and more of memory */

typedef struct {
    const char *name, *group; /* group: the class by name, or NULL */
    const uint8_t *data;      /* in an archive or font, or pixels; NULL: of the file `name` */
    size_t size;
    int32_t class_;
} item;

struct qkv_image_list {
    qkv_context *ctx;
    qkv__arena *arena; /* names */
    qkv__map map;      /* the archive or font */
    qkv__idx images, labels;
    item *items;
    size_t count, room;
    const char **classes;
    size_t class_count;
    const char *deeper; /* a folder too deep to be looked into, or NULL */
};

/* ---- the list ----------------------------------------------------------------------------- */

static const char *keep(qkv_image_list *p, const char *text, size_t n)
{
    char *copy = qkv__arena_alloc(p->arena, n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

static qkv_status image_list_add(qkv_image_list *p, item i)
{
    if (!i.name)
        return QKV_E_MEMORY;
    if (!qkv__grow(p->ctx, &p->items, &p->room, p->count + 1, sizeof *p->items))
        return QKV_E_MEMORY;
    i.class_ = -1;
    p->items[p->count++] = i;
    return QKV_OK;
}

static bool is_image(const char *name)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = strlen(ends[i]);
        if (n > m && strcasecmp(name + n - m, ends[i]) == 0)
            return true;
    }
    return false;
}

/* ---- folders ------------------------------------------------------------------------------ */

/* Images of one folder; inside: those of folders in it too, which are their classes. */
static qkv_status add_folder(qkv_image_list *p, const char *path, const char *group, bool inside)
{
    qkv_names names = {0};
    qkv_status status = qkv_dir_list(&names, p->ctx, path);
    for (size_t i = 0; i < names.count && !status; i++) {
        char *file = qkv_path_join(p->ctx, path, names.names[i]);
        if (!file)
            status = QKV_E_MEMORY;
        else if (qkv_dir_exists(file) && inside)
            status = add_folder(p, file, keep(p, names.names[i], strlen(names.names[i])), false);
        else if (qkv_dir_exists(file))
            p->deeper = p->deeper ? p->deeper : keep(p, file, strlen(file));
        else if (is_image(names.names[i]))
            status = image_list_add(p, (item){.name = keep(p, file, strlen(file)), .group = group});
        qkv_free(p->ctx, file);
    }
    qkv_names_free(&names);
    return status;
}

/* ---- archives ----------------------------------------------------------------------------- */

/* The folder that a/b/c.png lies in directly, b; NULL when there is none, or none with a name. */
static const char *last_folder(qkv_image_list *p, const char *name)
{
    const char *end = strrchr(name, '/'), *begin = end;
    if (!end)
        return NULL;
    while (begin > name && begin[-1] != '/')
        begin--;
    size_t n = (size_t)(end - begin);
    bool dots = n && n <= 2 && strspn(begin, ".") >= n;
    return n && !dots ? keep(p, begin, n) : NULL;
}

static qkv_status add_tar(qkv_image_list *p, const char *path)
{
    qkv__tar t = {p->ctx, path, p->map.data, p->map.size, 0};
    qkv__tar_entry e;
    bool more = true;
    while (more) {
        qkv_status status = qkv__tar_next(&t, &e, &more);
        if (!status && more && is_image(e.name))
            status = image_list_add(p, (item){.name = keep(p, e.name, strlen(e.name)),
                                              .group = last_folder(p, e.name), .data = e.data,
                                              .size = e.size});
        if (status)
            return status;
    }
    return QKV_OK;
}

/* ---- fonts -------------------------------------------------------------------------------- */

/* A character's group is its folder, its code its name: "font.ttf/faces/1f600". */
static qkv_status add_font(qkv_image_list *p, const char *path)
{
    qkv__emoji *emoji;
    size_t count;
    qkv_status status = qkv__emoji_font_read(&emoji, &count, p->ctx, path, p->map.data,
                                             p->map.size);
    for (size_t i = 0; i < count && !status; i++) {
        char name[4096];
        const char *group = qkv__emoji_group(emoji[i].code);
        snprintf(name, sizeof name, "%s/%s/%04x", path, group, (unsigned)emoji[i].code);
        status = image_list_add(p, (item){.name = keep(p, name, strlen(name)), .group = group,
                                          .data = emoji[i].data, .size = emoji[i].size});
    }
    qkv_free(p->ctx, emoji);
    return status;
}

/* ---- idx ---------------------------------------------------------------------------------- */

/* "train-images-idx3-ubyte.gz" -> "train-labels-idx1-ubyte.gz"; false: no such words. */
static bool labels_path(const char *path, char *out, size_t size)
{
    const char *base = qkv_path_name(path);
    const char *images = strstr(base, "images"), *dims = images ? strstr(images, "idx") : NULL;
    if (!dims || !dims[3])
        return false;
    int n = snprintf(out, size, "%.*slabels%.*sidx1%s", (int)(images - path), path,
                     (int)(dims - images - 6), images + 6, dims + 4);
    return n > 0 && (size_t)n < size;
}

static qkv_status open_labels(qkv_image_list *p, const char *path)
{
    char labels[4096];
    if (!labels_path(path, labels, sizeof labels) || !qkv_file_exists(labels))
        return QKV_OK;
    qkv_status status = qkv__idx_open(&p->labels, p->ctx, labels);
    if (!status && (p->labels.ndim != 1 || p->labels.shape[0] != p->images.shape[0]))
        status = qkv_fail(p->ctx, QKV_E_FORMAT, "%s: %zu labels expected, one for each image "
                          "of %s, found %zu in %zu dimensions", labels, p->images.shape[0], path,
                          p->labels.shape[0], p->labels.ndim);
    return status;
}

static qkv_status open_idx(qkv_image_list *p, const char *path)
{
    qkv_status status = qkv__idx_open(&p->images, p->ctx, path);
    const size_t *s = p->images.shape;
    if (!status && (p->images.ndim < 3 || (p->images.ndim == 4 && s[3] != 1 && s[3] != 3)))
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: images expected, (count, rows, columns), "
                        "found %zu dimensions", path, p->images.ndim);
    if (!status && s[0] > MOST_IN_IDX)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: at most %d images expected, found %zu", path,
                        (int)MOST_IN_IDX, s[0]);
    return status ? status : open_labels(p, path);
}

static qkv_status add_idx(qkv_image_list *p, const char *path)
{
    const char *labels[256] = {NULL};
    qkv_status status = open_idx(p, path);
    const size_t *s = p->images.shape;
    size_t size = status ? 0 : s[1] * s[2] * (p->images.ndim == 4 ? s[3] : 1);
    for (size_t i = 0; !status && i < s[0]; i++) {
        char name[4096], group[8];
        const char **label = p->labels.data ? &labels[p->labels.data[i]] : NULL;
        snprintf(name, sizeof name, "%s, image %zu", path, i + 1);
        if (label && !*label) { /* of one length, so that their order is that of numbers */
            snprintf(group, sizeof group, "%3d", p->labels.data[i]);
            *label = keep(p, group, strlen(group));
        }
        status = image_list_add(p, (item){.name = keep(p, name, strlen(name)),
                                          .group = label ? *label : NULL,
                                          .data = p->images.data + i * size, .size = size});
    }
    return status;
}

/* ---- classes ------------------------------------------------------------------------------ */

static int image_list_by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

static int image_list_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of all classes, sorted, each once. One alone tells nothing: then there are none. */
static qkv_status image_list_number_classes(qkv_image_list *p)
{
    size_t n = 0;
    p->classes = qkv_calloc(p->ctx, p->count, sizeof *p->classes);
    if (!p->classes)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].group)
            p->classes[n++] = p->items[i].group;
    qsort(p->classes, n, sizeof *p->classes, image_list_by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(p->classes[i], p->classes[p->class_count - 1]) != 0)
            p->classes[p->class_count++] = p->classes[i];
    if (p->class_count == 1)
        p->class_count = 0;
    for (size_t i = 0; p->class_count && i < p->count; i++) {
        const char **found = p->items[i].group
                                 ? bsearch(&p->items[i].group, p->classes, p->class_count,
                                           sizeof *p->classes, image_list_by_text)
                                 : NULL;
        p->items[i].class_ = found ? (int32_t)(found - p->classes) : -1;
    }
    return QKV_OK;
}

/* ---- the set ------------------------------------------------------------------------------ */

static qkv_status add_file(qkv_image_list *p, const char *path)
{
    qkv_status status = qkv__map_file(&p->map, p->ctx, path);
    if (status)
        return status;
    if (is_image(path) || qkv__image_begins(p->map.data, p->map.size))
        return image_list_add(p, (item){.name = keep(p, path, strlen(path))});
    if (qkv__tar_begins(p->map.data, p->map.size))
        return add_tar(p, path);
    if (qkv__font_begins(p->map.data, p->map.size))
        return add_font(p, path);
    if (qkv__idx_begins(p->map.data, p->map.size))
        return add_idx(p, path);
    return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: a PNG or JPEG image, a folder, a tar archive, an "
                    "idx file or a font expected, found something else", path);
}

qkv_status qkv_image_list_open(qkv_image_list **out, qkv_context *ctx, const char *path)
{
    *out = NULL;
    qkv_image_list *p = qkv_calloc(ctx, 1, sizeof *p);
    if (!p)
        return QKV_E_MEMORY;
    p->ctx = ctx;
    bool folder = qkv_dir_exists(path);
    qkv_status status = qkv__arena_create(&p->arena, ctx, "images");
    if (!status)
        status = folder ? add_folder(p, path, NULL, true) : add_file(p, path);
    if (!status && qkv__arena_failed(p->arena))
        status = QKV_E_MEMORY;
    if (!status && !p->count && p->deeper)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: no PNG or JPEG images in it or its folders, "
                          "and %s is deeper: the folder whose folders are the classes expected",
                          path, p->deeper);
    else if (!status && !p->count)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: no PNG or JPEG images in it", path);
    if (!status && !p->images.data)
        qsort(p->items, p->count, sizeof *p->items, image_list_by_name);
    if (!status)
        status = image_list_number_classes(p);
    if (status) {
        qkv_image_list_close(p);
        return status;
    }
    *out = p;
    return QKV_OK;
}

void qkv_image_list_close(qkv_image_list *p)
{
    if (!p)
        return;
    qkv__idx_close(&p->images);
    qkv__idx_close(&p->labels);
    qkv__map_close(&p->map);
    qkv__arena_destroy(p->arena);
    qkv_free(p->ctx, p->classes);
    qkv_free(p->ctx, p->items);
    qkv_free(p->ctx, p);
}

size_t qkv_image_list_count(const qkv_image_list *p) { return p->count; }
const char *qkv_image_list_name(const qkv_image_list *p, size_t i) { return p->items[i].name; }
int32_t qkv_image_list_class(const qkv_image_list *p, size_t i) { return p->items[i].class_; }
size_t qkv_image_list_classes(const qkv_image_list *p) { return p->class_count; }

const char *qkv_image_list_class_name(const qkv_image_list *p, size_t class_)
{
    const char *name = p->classes[class_];
    return name + strspn(name, " "); /* of idx files */
}

/* Pixels as they lie in an idx file. */
static qkv_status copy_pixels(const qkv_image_list *p, qkv_context *ctx, const item *i,
                              qkv_image *out, const qkv_image_options *options)
{
    const size_t *s = p->images.shape;
    const qkv__image_bytes image = {ctx, i->name, i->data, i->size,
                                    options ? *options : qkv_image_defaults()};
    qkv_status status =
        qkv__image_create(&image, out, s[2], s[1], p->images.ndim == 4 ? s[3] : 1);
    if (status)
        return status;
    memcpy(out->data, i->data, i->size);
    return qkv_image_channels(out, ctx, image.o.channels);
}

qkv_status qkv__image_list_read(const qkv_image_list *p, qkv_context *ctx, size_t at,
                                qkv_image *out, const qkv_image_options *options)
{
    const item *i = &p->items[at];
    if (p->images.data)
        return copy_pixels(p, ctx, i, out, options);
    return i->data ? qkv_image_decode(out, ctx, i->data, i->size, i->name, options)
                   : qkv_image_read(out, ctx, i->name, options);
}

qkv_status qkv_image_list_read(const qkv_image_list *p, size_t i, qkv_image *out,
                               const qkv_image_options *options)
{
    return qkv__image_list_read(p, p->ctx, i, out, options);
}

/* How files begin: idx or a tar archive of nothing, gzip, PNG, JPEG, font; what a tar archive has
 * further on; and what is refused, but not as text: zip, WebP. */
static const struct {
    size_t at, size;
    const char *bytes;
} MARKS[] = {{0, 2, "\0\0"},       {0, 2, "\x1f\x8b"}, {0, 4, "\x89PNG"}, {0, 2, "\xff\xd8"},
             {0, 4, "\0\1\0\0"}, {257, 5, "ustar"},  {0, 4, "PK\3\4"},  {0, 4, "RIFF"}};

bool qkv_is_image_list(const char *path)
{
    char head[512] = {0};
    if (qkv_dir_exists(path))
        return true;
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    size_t size = fread(head, 1, sizeof head, f);
    (void)fclose(f);
    for (size_t i = 0; i < sizeof MARKS / sizeof *MARKS; i++)
        if (size >= MARKS[i].at + MARKS[i].size &&
            memcmp(head + MARKS[i].at, MARKS[i].bytes, MARKS[i].size) == 0)
            return true;
    return false;
}
