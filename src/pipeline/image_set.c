/* image_set.c - images, from files into sets. */
#include "pipeline/image_set.h"

#include <string.h>

void qkv__image_set_close(qkv__image_set *s)
{
    qkv_pixels_close(s->images);
    qkv_pixels_close(s->classes);
    *s = (qkv__image_set){0};
}

void qkv__reading_begin(qkv__reading *r, qkv_context *ctx, const qkv_image_list *images)
{
    *r = (qkv__reading){.ctx = ctx, .count = qkv_image_list_count(images)};
    if (r->count > 1) /* one is read at once, or the sentence at the end is of it */
        (void)qkv__progress(ctx, "reading", "images", 0, r->count);
}

bool qkv__reading_event(void *user, const qkv_pixels_event *event)
{
    qkv__reading *r = user;
    if (r->count == 1)
        return true;
    r->skipped = event->skipped;
    if (!event->bad)
        return !qkv__progress(r->ctx, "reading", "images", event->done, event->count);
    qkv__note(r->ctx, "%s: left out", event->bad);
    return true;
}

void qkv__reading_end(const qkv__reading *r, const char *path)
{
    if (r->skipped)
        qkv__note(r->ctx, "%s: %zu of %zu images could not be read", path, r->skipped, r->count);
}

qkv_image_format qkv__images_square(size_t side, size_t channels)
{
    return (qkv_image_format){.height = side, .width = side, .channels = channels, .crop = true,
                              .resample = 2, .std = {1, 1, 1}};
}

qkv_status qkv__images_format(qkv_image_format *out, qkv_context *ctx, const char *path,
                              size_t most)
{
    qkv_image_options o = qkv_image_defaults();
    qkv_image_list *images = NULL;
    qkv_image image = {0};
    o.channels = 0;
    qkv_status status = qkv_image_list_open(&images, ctx, path), bad = QKV_E_FORMAT;
    for (size_t i = 0; !status && bad && i < qkv_image_list_count(images); i++)
        bad = qkv_image_list_read(images, i, &image, &o);
    size_t shorter = image.width < image.height ? image.width : image.height;
    *out = qkv__images_square(shorter < most ? shorter : most, image.channels);
    out->crop = image.width != image.height;
    qkv_image_free(&image, ctx);
    qkv_image_list_close(images);
    return status ? status : bad;
}

qkv_pixels_options qkv__pixels_options(const qkv_image_format *format)
{
    static const qkv_resize_filter filters[] = {QKV_RESIZE_BILINEAR, QKV_RESIZE_BICUBIC,
                                                QKV_RESIZE_BOX}; /* Pillow's 2, 3, 4 */
    qkv_pixels_options o = qkv_pixels_defaults();
    o.height = format->height;
    o.width = format->width;
    o.channels = format->channels;
    o.fit = format->crop ? QKV_FIT_CROP : QKV_FIT_SQUASH;
    o.resize = format->resize;
    if (format->resample >= 2 && format->resample <= 4)
        o.filter = filters[format->resample - 2];
    return o;
}

qkv_status qkv__images_load(qkv_pixels **out, qkv_context *ctx, const char *path,
                            const qkv_image_format *format)
{
    const qkv_pixels_options o = qkv__pixels_options(format);
    qkv_image_list *images = NULL;
    qkv__reading r;
    *out = NULL;
    qkv_status status = qkv_image_list_open(&images, ctx, path);
    if (status)
        return status;
    qkv__reading_begin(&r, ctx, images);
    status = qkv_pixels_read(out, ctx, images, NULL, &o, qkv__reading_event, &r);
    if (!status)
        qkv__reading_end(&r, path);
    qkv_image_list_close(images);
    return status;
}

/* The model's class for every class of the set; freed with qkv_free. */
static qkv_status map_classes(qkv_context *ctx, const qkv_pixels *p, const qkv_model *m,
                              int32_t **out)
{
    size_t classes = qkv_pixels_classes(p), labels = qkv_model_label_count(m);
    int32_t *map = *out = qkv_malloc(ctx, (classes + 1) * sizeof *map);
    for (size_t i = 0; map && i < classes; i++) {
        map[i] = -1;
        for (size_t k = 0; k < labels && map[i] < 0; k++)
            if (strcmp(qkv_pixels_class_name(p, i), qkv_model_label(m, k)) == 0)
                map[i] = (int32_t)k;
    }
    return map ? QKV_OK : QKV_E_MEMORY;
}

/* map NULL: without its class. */
static qkv_status image_set_add(qkv_context *ctx, qkv_pixels_writer *w, const qkv_pixels *from,
                                size_t i, const int32_t *map, const char *where)
{
    int32_t class_ = map ? qkv_pixels_class(from, i) : -1;
    if (map && class_ < 0)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: %s has no class: it lies in no folder", where,
                        qkv_pixels_name(from, i));
    if (map && map[class_] < 0)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: the model has no class \"%.60s\"", where,
                        qkv_pixels_class_name(from, (size_t)class_));
    return qkv_pixels_add(w, qkv_pixels_data(from, i), map ? map[class_] : -1,
                          qkv_pixels_name(from, i));
}

qkv_status qkv__pixels_copy(qkv_pixels **out, qkv_context *ctx, const char *path,
                            const qkv_pixels *from, const size_t *numbers, size_t count,
                            const qkv_model *m, const char *where)
{
    qkv_pixels_writer *w = NULL;
    int32_t *map = NULL;
    *out = NULL;
    qkv_status status = qkv_pixels_create(&w, ctx, path, qkv_pixels_height(from),
                                          qkv_pixels_width(from), qkv_pixels_channels(from));
    if (!status && m)
        status = map_classes(ctx, from, m, &map);
    for (size_t i = 0; m && i < qkv_model_label_count(m) && !status; i++)
        status = qkv_pixels_add_class(w, qkv_model_label(m, i));
    for (size_t i = 0; i < count && !status; i++)
        status = image_set_add(ctx, w, from, numbers ? numbers[i] : i, map, where);
    if (status)
        qkv_pixels_abandon(w);
    else
        status = qkv_pixels_finish(w, out);
    qkv_free(ctx, map);
    return status;
}

qkv_status qkv__pixels_load(qkv_pixels **out, qkv_context *ctx, const char *path,
                            const qkv_image_format *format, const qkv_model *m)
{
    qkv_pixels *read = NULL;
    *out = NULL;
    qkv_status status = qkv__images_load(&read, ctx, path, format);
    if (!status)
        status = qkv__pixels_copy(out, ctx, NULL, read, NULL, qkv_pixels_count(read), m, path);
    qkv_pixels_close(read);
    return status;
}
