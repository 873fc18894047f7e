/* pictures.c - pictures, from files into sets; names of those that are written. */
#include "use/pictures.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "io/file.h"

/* How files begin: idx or a tar archive of nothing, gzip, PNG, JPEG, font; what a tar archive has
 * further on; and what is refused, but not as text: zip, WebP. */
static const struct {
    size_t at, size;
    const char *bytes;
} MARKS[] = {{0, 2, "\0\0"},       {0, 2, "\x1f\x8b"}, {0, 4, "\x89PNG"}, {0, 2, "\xff\xd8"},
             {0, 4, "\0\1\0\0"}, {257, 5, "ustar"},  {0, 4, "PK\3\4"},  {0, 4, "RIFF"}};

bool cli_is_pictures(const char *path)
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

int cli_png_only(const cli *c, const char *out)
{
    const char *end = strrchr(out, '.');
    if (!end || (strcasecmp(end, ".jpg") != 0 && strcasecmp(end, ".jpeg") != 0))
        return 0;
    return cli_usage(c, "--out: pictures are written as PNG: a name with .png expected, found "
                     "%.200s", out);
}

void cli_picture_set_close(cli_picture_set *s)
{
    qkv_pixels_close(s->images);
    qkv_pixels_close(s->classes);
    *s = (cli_picture_set){0};
}

void cli_reading_begin(cli_reading *r, cli *c)
{
    *r = (cli_reading){.c = c};
    cli_progress_begin(&r->line, c, "reading", "pictures", 0);
}

bool cli_reading_show(void *user, const qkv_pixels_event *event)
{
    cli_reading *r = user;
    if (event->count == 1) /* it is read at once, or the sentence at the end is of it */
        return !cli_stopped();
    if (event->bad) {
        cli_progress_hide(&r->line);
        cli_note(r->c, "%s: left out", event->bad);
    }
    r->skipped = event->skipped;
    r->count = event->count;
    cli_progress_show(&r->line, event->done, event->count, NULL);
    return !cli_stopped();
}

void cli_reading_end(cli_reading *r, const char *path)
{
    cli_progress_end(&r->line);
    if (path && r->skipped)
        cli_note(r->c, "%s: %zu of %zu pictures could not be read", path, r->skipped, r->count);
}

qkv_picture_format cli_pictures_square(size_t side, size_t channels)
{
    return (qkv_picture_format){.height = side, .width = side, .channels = channels, .crop = true,
                                .resample = 2, .std = {1, 1, 1}};
}

qkv_status cli_pictures_format(qkv_picture_format *out, cli *c, const char *path, size_t most)
{
    qkv_image_options o = qkv_image_defaults();
    qkv_pictures *pictures = NULL;
    qkv_image image = {0};
    o.channels = 0;
    qkv_status status = qkv_pictures_open(&pictures, c->ctx, path), bad = QKV_E_FORMAT;
    for (size_t i = 0; !status && bad && i < qkv_pictures_count(pictures); i++)
        bad = qkv_pictures_read(pictures, i, &image, &o);
    size_t shorter = image.width < image.height ? image.width : image.height;
    *out = cli_pictures_square(shorter < most ? shorter : most, image.channels);
    out->crop = image.width != image.height;
    qkv_image_free(&image, c->ctx);
    qkv_pictures_close(pictures);
    return status ? status : bad;
}

qkv_status cli_pictures_read(qkv_pixels **out, cli *c, const char *path,
                             const qkv_picture_format *format)
{
    static const qkv_resize_filter filters[] = {QKV_RESIZE_BILINEAR, QKV_RESIZE_BICUBIC,
                                                QKV_RESIZE_BOX}; /* Pillow's 2, 3, 4 */
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_pictures *pictures = NULL;
    cli_reading r;
    *out = NULL;
    o.height = format->height;
    o.width = format->width;
    o.channels = format->channels;
    o.fit = format->crop ? QKV_FIT_CROP : QKV_FIT_SQUASH;
    if (format->resample >= 2 && format->resample <= 4)
        o.filter = filters[format->resample - 2];
    qkv_status status = qkv_pictures_open(&pictures, c->ctx, path);
    if (status)
        return status;
    cli_reading_begin(&r, c);
    status = qkv_pixels_read(out, c->ctx, pictures, NULL, &o, cli_reading_show, &r);
    cli_reading_end(&r, status ? NULL : path);
    qkv_pictures_close(pictures);
    return status;
}

/* The model's class for every class of the set; freed with qkv_free. */
static qkv_status map_classes(cli *c, const qkv_pixels *p, const qkv_model *m, int32_t **out)
{
    size_t classes = qkv_pixels_classes(p), labels = qkv_model_label_count(m);
    int32_t *map = *out = qkv_malloc(c->ctx, (classes + 1) * sizeof *map);
    for (size_t i = 0; map && i < classes; i++) {
        map[i] = -1;
        for (size_t k = 0; k < labels && map[i] < 0; k++)
            if (strcmp(qkv_pixels_class_name(p, i), qkv_model_label(m, k)) == 0)
                map[i] = (int32_t)k;
    }
    return map ? QKV_OK : QKV_E_MEMORY;
}

/* map NULL: without its class. */
static qkv_status add(cli *c, qkv_pixels_writer *w, const qkv_pixels *from, size_t i,
                      const int32_t *map, const char *where)
{
    int32_t class_ = map ? qkv_pixels_class(from, i) : -1;
    if (map && class_ < 0)
        return qkv_fail(c->ctx, QKV_E_FORMAT, "%s: %s has no class: it lies in no folder", where,
                         qkv_pixels_name(from, i));
    if (map && map[class_] < 0)
        return qkv_fail(c->ctx, QKV_E_FORMAT, "%s: the model has no class \"%.60s\"", where,
                         qkv_pixels_class_name(from, (size_t)class_));
    return qkv_pixels_add(w, qkv_pixels_data(from, i), map ? map[class_] : -1,
                          qkv_pixels_name(from, i));
}

qkv_status cli_pictures_copy(qkv_pixels **out, cli *c, const char *path, const qkv_pixels *from,
                             const size_t *numbers, size_t count, const qkv_model *m,
                             const char *where)
{
    qkv_pixels_writer *w = NULL;
    int32_t *map = NULL;
    *out = NULL;
    qkv_status status = qkv_pixels_create(&w, c->ctx, path, qkv_pixels_height(from),
                                          qkv_pixels_width(from), qkv_pixels_channels(from));
    if (!status && m)
        status = map_classes(c, from, m, &map);
    for (size_t i = 0; m && i < qkv_model_label_count(m) && !status; i++)
        status = qkv_pixels_add_class(w, qkv_model_label(m, i));
    for (size_t i = 0; i < count && !status; i++)
        status = add(c, w, from, numbers ? numbers[i] : i, map, where);
    if (status)
        qkv_pixels_abandon(w);
    else
        status = qkv_pixels_finish(w, out);
    qkv_free(c->ctx, map);
    return status;
}
