/* evaluate_views.c - evaluating vectors of images: whether two views of an image find each other
 * and, where images have classes, what neighbours and a linear classifier make of the vectors. */
#include <string.h>

#include "io/file.h"
#include "pipeline/evaluators.h"
#include "pipeline/held_out.h"
#include "pipeline/image.h"
#include "pipeline/image_set.h"
#include "qkv/pipeline_embed.h"
#include "qkv/vit.h"
#include "task/parts.h"
#include "task/vectors.h"

enum { BATCH = 128, VIEWS = 2, NEIGHBOURS = 10 };
static const uint64_t SEED = 0x7669657773ull; /* all models get the same views */

typedef struct {
    qkv_pipeline *p;
    qkv_pixels *train, *test;     /* train: NULL where there is none with classes */
    qkv_real *train_x, *test_x;   /* vectors, then pixels */
    int32_t *train_c, *test_c;    /* classes; NULL: without */
} evaluation;

static size_t vector_width(const qkv_pipeline *p)
{
    return ((const qkv_vit_config *)qkv_model_config(p->model))->trunk.width;
}

/* ---- data -------------------------------------------------------------------------------- */

static qkv_status open_test(evaluation *e, const char *file)
{
    qkv_pipeline *p = e->p;
    qkv_pixels *read = NULL;
    if (!file)
        return qkv__evaluate_kept(p, QKV__VALID_IMAGES, &e->test);
    qkv_status status = qkv__images_load(&read, p->ctx, file, qkv__image_format_of(p->model));
    if (!status)
        status = qkv__pixels_copy(&e->test, p->ctx, NULL, read, NULL, qkv_pixels_count(read),
                                  qkv_model_label_count(p->model) && qkv_pixels_classes(read)
                                      ? p->model : NULL, file);
    qkv_pixels_close(read);
    return status;
}

/* The classes of all images; *out stays NULL when one has none. */
static qkv_status take_classes(qkv_context *ctx, const qkv_pixels *p, int32_t **out)
{
    if (!qkv_pixels_labelled(p))
        return QKV_OK;
    *out = qkv_calloc(ctx, qkv_pixels_count(p), sizeof **out);
    for (size_t i = 0; i < qkv_pixels_count(p) && *out; i++)
        (*out)[i] = qkv_pixels_class(p, i);
    return *out ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status evaluate_views_open(evaluation *e, const char *file)
{
    qkv_context *ctx = e->p->ctx;
    const qkv_path path = qkv_path_in(e->p->dir, QKV__TRAIN_IMAGES);
    qkv_status status = open_test(e, file);
    if (!status)
        status = take_classes(ctx, e->test, &e->test_c);
    if (status || !e->test_c || !qkv_file_exists(path.text))
        return status;
    status = qkv_pixels_open(&e->train, ctx, path.text);
    return status ? status : take_classes(ctx, e->train, &e->train_c);
}

/* ---- two views of each --------------------------------------------------------------------- */

/* Vectors of views [from, to), BATCH or fewer, into their rows, and the images' numbers. */
static qkv_status view_some(const evaluation *e, qkv_batches *views, size_t from, size_t to,
                            qkv_real *rows, size_t *numbers)
{
    qkv_pipeline *p = e->p;
    size_t width = vector_width(p);
    const size_t shape[] = {to - from, qkv_pixels_height(e->test), qkv_pixels_width(e->test),
                            qkv_pixels_channels(e->test)};
    qkv_tape_reset(p->tape);
    qkv_tape_mode(p->tape, false, false);
    qkv_tensor *x = qkv_tensor_from(p->tape, NULL, 4, shape);
    if (!x)
        return qkv_tape_status(p->tape);
    qkv_status status = qkv_batches_get(views, from, to - from, qkv_tensor_fill(x), NULL,
                                        numbers + from);
    const qkv_real *y = status ? NULL : qkv_data(p->tape, qkv_vit_vectors(p->model, p->tape, x));
    if (y)
        memcpy(rows + from * width, y, (to - from) * width * sizeof *y);
    return status ? status : qkv_tape_status(p->tape);
}

/* Vectors of all test images in both views, out (VIEWS, count, width). Ranks share the work; rows,
 * numbers: room for (VIEWS count) of both. */
static qkv_status view_vectors(const evaluation *e, qkv_batches *views, qkv_real *rows,
                               size_t *numbers, qkv_real *out)
{
    qkv_context *ctx = e->p->ctx;
    size_t n = qkv_pixels_count(e->test), all = VIEWS * n, width = vector_width(e->p), from, to;
    qkv_status status = QKV_OK;
    qkv__own_stretch(ctx, (all + BATCH - 1) / BATCH, &from, &to);
    from *= BATCH;
    to = to * BATCH < all ? to * BATCH : all;
    for (size_t i = from; i < to && !status; i += BATCH)
        status = view_some(e, views, i, to - i < BATCH ? to : i + BATCH, rows, numbers);
    status = qkv__share_rows(ctx, status, rows, from, to, width * sizeof *rows);
    if (!status)
        status = qkv__share_rows(ctx, status, numbers, from, to, sizeof *numbers);
    for (size_t i = 0; i < all && !status; i++)
        memcpy(out + (i % VIEWS * n + numbers[i]) * width, rows + i * width, width * sizeof *out);
    return status;
}

static qkv_status recall_views(const evaluation *e, qkv_metrics *out)
{
    qkv_context *ctx = e->p->ctx;
    size_t n = qkv_pixels_count(e->test), width = vector_width(e->p);
    const qkv_image_format *f = qkv__image_format_of(e->p->model);
    qkv_batches_options o = {.count = n, .seed = SEED, .views = VIEWS,
                             .augment = qkv_embed_images_defaults().augment};
    qkv_batches *views = NULL;
    qkv_recall_score s = {0};
    memcpy(o.mean, f->mean, sizeof o.mean);
    memcpy(o.std, f->std, sizeof o.std);
    qkv_real *x = qkv_calloc(ctx, 2 * VIEWS * n, width * sizeof *x);
    size_t *numbers = qkv_calloc(ctx, VIEWS * n, sizeof *numbers);
    qkv_status status = x && numbers ? qkv_batches_create(&views, ctx, e->test, &o) : QKV_E_MEMORY;
    if (!status)
        status = view_vectors(e, views, x + VIEWS * n * width, numbers, x);
    if (!status)
        status = qkv__recall(ctx, e->p->tape, x, x + n * width, n, width, 1, &s);
    qkv__recall_add(out, &s);
    qkv_batches_destroy(views);
    qkv_free(ctx, numbers);
    qkv_free(ctx, x);
    return status;
}

/* ---- classes ------------------------------------------------------------------------------- */

/* A probe on rows of `width` numbers. */
static qkv_status evaluate_views_probe(const evaluation *e, size_t width, double *accuracy)
{
    const qkv_labelled_rows train = {e->train_x, e->train_c, qkv_pixels_count(e->train), width};
    const qkv_labelled_rows test = {e->test_x, e->test_c, qkv_pixels_count(e->test), width};
    return qkv_linear_probe(e->p->ctx, &train, &test, qkv_model_label_count(e->p->model), SEED,
                            accuracy);
}

/* Room for rows of `width` numbers of both sets. */
static qkv_status make_rows(evaluation *e, size_t width)
{
    qkv_context *ctx = e->p->ctx;
    qkv_free(ctx, e->train_x);
    qkv_free(ctx, e->test_x);
    e->train_x = qkv_calloc(ctx, e->train ? qkv_pixels_count(e->train) : 1,
                            width * sizeof *e->train_x);
    e->test_x = qkv_calloc(ctx, qkv_pixels_count(e->test), width * sizeof *e->test_x);
    return e->train_x && e->test_x ? QKV_OK : QKV_E_MEMORY;
}

static void take_pixels(const qkv_pixels *p, size_t width, qkv_real *out)
{
    for (size_t i = 0; i < qkv_pixels_count(p); i++)
        for (size_t k = 0; k < width; k++)
            out[i * width + k] = (qkv_real)qkv_pixels_data(p, i)[k] / 255;
}

/* By the classes of training images; by each other where there are none. */
static qkv_status by_classes(evaluation *e, qkv_metrics *out)
{
    qkv_pipeline *p = e->p;
    size_t width = vector_width(p), n = qkv_pixels_count(e->test);
    size_t train = e->train_c ? qkv_pixels_count(e->train) : 0;
    double knn = 0, vectors = 0, pixels = 0;
    qkv_status status = make_rows(e, width);
    if (!status)
        status = qkv__image_set_vectors(p->model, p->tape, e->test, NULL, n, false, e->test_x);
    if (!status && train)
        status = qkv__image_set_vectors(p->model, p->tape, e->train, NULL, train, false,
                                        e->train_x);
    if (!status)
        status = qkv_knn_accuracy(p->tape, e->test_x, e->test_c, n, train ? e->train_x : NULL,
                                  e->train_c, train, width, NEIGHBOURS, &knn);
    qkv_metrics_add(out, "knn", knn);
    if (status || !train)
        return status;
    status = evaluate_views_probe(e, width, &vectors);
    width = qkv_pixels_height(e->test) * qkv_pixels_width(e->test) * qkv_pixels_channels(e->test);
    if (!status)
        status = make_rows(e, width);
    if (!status) {
        take_pixels(e->train, width, e->train_x);
        take_pixels(e->test, width, e->test_x);
        status = evaluate_views_probe(e, width, &pixels);
    }
    qkv_metrics_add(out, "probe", vectors);
    qkv_metrics_add(out, "probe_pixels", pixels);
    return status;
}

static qkv_status evaluate_views(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                 qkv_metrics *out)
{
    evaluation e = {.p = p};
    qkv_status status = evaluate_views_open(&e, o->file);
    if (!status)
        status = recall_views(&e, out);
    if (!status && e.test_c)
        status = by_classes(&e, out);
    out->scored = status ? 0 : qkv_pixels_count(e.test);
    qkv_pixels_close(e.train);
    qkv_pixels_close(e.test);
    qkv_free(p->ctx, e.train_x);
    qkv_free(p->ctx, e.test_x);
    qkv_free(p->ctx, e.train_c);
    qkv_free(p->ctx, e.test_c);
    return status;
}

const qkv__evaluator qkv__evaluator_views = {
    .can = QKV_CAN_EMBED_IMAGES, .evaluate = evaluate_views, .unit = "images"};
