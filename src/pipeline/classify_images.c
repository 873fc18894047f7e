/* classify_images.c - labels for images. */
#include "pipeline/image.h"
#include "pipeline/image_set.h"

#include <string.h>

#include "qkv/classify_images.h"

enum { AT_ONCE = 256 }; /* images in memory that are labelled together, at most */

typedef struct {
    qkv_pipeline *p;
    qkv_image_labels_fn *fn;
    void *user;
} labelling;

static qkv_status classify_images_tell(const labelling *l, const qkv_image_labels *found)
{
    if (l->fn(l->user, found))
        return QKV_OK;
    return qkv_fail(l->p->ctx, QKV_E_CANCELLED, "stopped while images were labelled");
}

/* Labels all of a set. input: the number of its first image; `step` more for each next. */
static qkv_status label_set(const labelling *l, const qkv_pixels *set, size_t input, size_t step)
{
    qkv_context *ctx = l->p->ctx;
    size_t n = qkv_pixels_count(set);
    size_t classes = ((const qkv_vit_config *)qkv_model_config(l->p->model))->classes;
    size_t *numbers = qkv_calloc(ctx, n, sizeof *numbers);
    qkv_real *probs = qkv_calloc(ctx, n, classes * sizeof *probs);
    qkv_status status = numbers && probs ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++)
        numbers[i] = i;
    if (!status)
        status = qkv_classify_images(l->p->model, l->p->tape, set, numbers, n, probs);
    for (size_t i = 0; i < n && !status; i++)
        status = classify_images_tell(l, &(qkv_image_labels){
            .input = input + i * step, .name = qkv_pixels_name(set, i),
            .probabilities = probs + i * classes, .classes = classes});
    qkv_free(ctx, numbers);
    qkv_free(ctx, probs);
    return status;
}

/* What is at a path. */
static qkv_status label_path(const labelling *l, const char *path, size_t input)
{
    qkv_context *ctx = l->p->ctx;
    qkv_pixels *set = NULL;
    qkv_status status = qkv__images_load(&set, ctx, path, qkv__image_format_of(l->p->model));
    if (status == QKV_E_IO || status == QKV_E_FORMAT || status == QKV_E_UNSUPPORTED)
        return classify_images_tell(l, &(qkv_image_labels){.input = input, .name = path,
                                                           .error = qkv_context_message(ctx)});
    if (!status)
        status = label_set(l, set, input, 0);
    qkv_pixels_close(set);
    return status;
}

/* Images (n) in memory, the first of number input. */
static qkv_status label_images(const labelling *l, const qkv_image_source *images, size_t n,
                               size_t input)
{
    qkv_context *ctx = l->p->ctx;
    const qkv_image_format *f = qkv__image_format_of(l->p->model);
    const qkv_pixels_options o = qkv__pixels_options(f);
    qkv_pixels_writer *w = NULL;
    qkv_pixels *set = NULL;
    qkv_status status = qkv_pixels_create(&w, ctx, NULL, f->height, f->width, f->channels);
    for (size_t i = 0; i < n && !status; i++) {
        qkv_image image = {0};
        status = qkv__image_load(&image, ctx, images + i);
        if (!status) /* first, as from a file */
            status = qkv_image_channels(&image, ctx, f->channels);
        if (!status)
            status = qkv_image_fit(&image, ctx, &o);
        if (!status)
            status = qkv_pixels_add(w, image.data, -1, "");
        qkv_image_free(&image, ctx);
    }
    if (status)
        qkv_pixels_abandon(w);
    else
        status = qkv_pixels_finish(w, &set);
    if (!status)
        status = label_set(l, set, input, 1);
    qkv_pixels_close(set);
    return status;
}

qkv_status qkv_pipeline_classify_images(qkv_pipeline *p, const qkv_image_source *images,
                                        size_t count, qkv_image_labels_fn *fn, void *user)
{
    const labelling l = {p, fn, user};
    qkv_status status = QKV_OK;
    if (!qkv_model_can(p->model, QKV_CAN_CLASSIFY_IMAGES))
        return qkv__pipeline_refuse(p, "label images");
    for (size_t i = 0, n; i < count && !status; i += n) {
        for (n = 0; i + n < count && n < AT_ONCE && !images[i + n].path; n++)
            ;
        status = n ? label_images(&l, images + i, n, i) : label_path(&l, images[i].path, i);
        n += n == 0;
    }
    return status;
}
