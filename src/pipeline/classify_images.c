/* classify_images.c - labels for images. */
#include <string.h>

#include "dist/dist.h"
#include "pipeline/image.h"
#include "pipeline/image_set.h"
#include "qkv/classify_images.h"
#include "task/common.h"
#include "task/parts.h"

enum { AT_ONCE = 256 }; /* images in memory that are labelled together, at most */
enum { PATHS = 64 };    /* of several: that a rank labels before all hear of them */

typedef struct {
    qkv_pipeline *p;
    qkv_image_labels_fn *fn;
    void *user;
    bool alone; /* the set is this rank's; else ranks share its images */
} labelling;

static qkv_status classify_images_tell(const labelling *l, const qkv_image_labels *found)
{
    if (l->fn(l->user, found))
        return QKV_OK;
    return qkv_fail(l->p->ctx, QKV_E_CANCELLED, "stopped while images were labelled");
}

/* Probabilities of images 0 .. n - 1 of the set. */
static qkv_status label_numbers(const labelling *l, const qkv_pixels *set, const size_t *numbers,
                                size_t n, size_t classes, qkv_real *probs)
{
    qkv_pipeline *p = l->p;
    size_t batch = qkv__images_batch(set), from, to;
    if (l->alone)
        return qkv_classify_images(p->model, p->tape, set, numbers, n, probs);
    qkv__own_stretch(p->ctx, (n + batch - 1) / batch, &from, &to);
    from *= batch;
    to = to * batch < n ? to * batch : n;
    qkv_status status = qkv_classify_images(p->model, p->tape, set, numbers + from, to - from,
                                            probs + from * classes);
    return qkv__share_rows(p->ctx, status, probs, from, to, classes * sizeof *probs);
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
        status = label_numbers(l, set, numbers, n, classes, probs);
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

/* ---- paths that ranks share ---------------------------------------------------------------- */

/* What a rank has to say of images, one after another: a note, a name or an error with a 0 byte at
 * its end, and the probabilities. */
typedef struct {
    size_t input, classes, words; /* words: bytes, the 0 among them */
    qkv_status status;            /* of an error */
    bool is_named;
} note;

static bool take_down(void *user, const qkv_image_labels *found)
{
    qkv_str *out = user;
    const char *words = found->error ? found->error : found->name ? found->name : "";
    note n = {.input = found->input, .classes = found->error ? 0 : found->classes,
              .words = strlen(words) + 1, .is_named = found->name != NULL};
    n.status = found->error ? qkv_context_status(out->ctx) : QKV_OK;
    qkv_str_add(out, (const char *)&n, sizeof n);
    qkv_str_add(out, words, n.words);
    if (n.classes)
        qkv_str_add(out, (const char *)found->probabilities,
                    n.classes * sizeof *found->probabilities);
    return !out->failed;
}

/* Hands on what ranks have said of these paths; probs: room for one. */
static qkv_status read_out(const labelling *l, const qkv_image_source *images, const char *at,
                           const char *end, qkv_real *probs)
{
    qkv_status status = QKV_OK;
    note n;
    for (; at < end && !status; at += n.words + n.classes * sizeof *probs) {
        memcpy(&n, at, sizeof n);
        at += sizeof n;
        memcpy(probs, at + n.words, n.classes * sizeof *probs);
        qkv_image_labels found = {.input = n.input, .name = n.is_named ? at : NULL,
                                  .probabilities = probs, .classes = n.classes};
        if (n.status) {
            (void)qkv_fail(l->p->ctx, n.status, "%s", at);
            found = (qkv_image_labels){.input = n.input, .name = images[n.input].path,
                                       .error = qkv_context_message(l->p->ctx)};
        }
        status = classify_images_tell(l, &found);
    }
    return status;
}

/* Labels the files images[first] .. images[first + n - 1]: a rank has a stretch of them. */
static qkv_status label_paths(const labelling *l, const qkv_image_source *images, size_t first,
                              size_t n)
{
    qkv_context *ctx = l->p->ctx;
    size_t classes = ((const qkv_vit_config *)qkv_model_config(l->p->model))->classes, from, to;
    qkv_str said;
    void *all = NULL;
    size_t bytes = 0;
    qkv_str_init(&said, ctx);
    const labelling own = {.p = l->p, .fn = take_down, .user = &said, .alone = true};
    qkv_real *probs = qkv_calloc(ctx, classes, sizeof *probs);
    qkv_status status = probs ? QKV_OK : QKV_E_MEMORY;
    qkv__own_stretch(ctx, n, &from, &to);
    for (size_t i = first + from; i < first + to && !status; i++)
        status = label_path(&own, images[i].path, i);
    status = qkv__dist_agree(ctx, said.failed ? QKV_E_MEMORY : status);
    if (!status)
        status = qkv__dist_concat(ctx, said.data, said.len, &all, &bytes);
    if (!status)
        status = read_out(l, images, all, (const char *)all + bytes, probs);
    qkv_free(ctx, all);
    qkv_free(ctx, probs);
    qkv_str_free(&said);
    return qkv__dist_agree(ctx, status);
}

/* How many of the images from the first on are files that ranks share: fewer than two are not. */
static size_t shared_paths(const qkv_context *ctx, const qkv_image_source *images, size_t left)
{
    size_t ranks = (size_t)qkv_dist_size(ctx), n = 0;
    while (ranks > 1 && n < left && n < ranks * PATHS && images[n].path)
        n++;
    return n;
}

qkv_status qkv_pipeline_classify_images(qkv_pipeline *p, const qkv_image_source *images,
                                        size_t count, qkv_image_labels_fn *fn, void *user)
{
    const labelling l = {.p = p, .fn = fn, .user = user};
    qkv_status status = QKV_OK;
    if (!qkv_model_can(p->model, QKV_CAN_CLASSIFY_IMAGES))
        return qkv__pipeline_refuse(p, "label images");
    for (size_t i = 0, n; i < count && !status; i += n) {
        n = shared_paths(p->ctx, images + i, count - i);
        if (n > 1) {
            status = label_paths(&l, images, i, n);
            continue;
        }
        for (n = 0; i + n < count && n < AT_ONCE && !images[i + n].path; n++)
            ;
        status = n ? label_images(&l, images + i, n, i) : label_path(&l, images[i].path, i);
        n += n == 0;
    }
    return status;
}
