/* colorize.c - colours for grey images: hints by chance to learn from, the same hints for every
 * model to evaluate it by, and a user's. */
#include "qkv/colorize.h"

#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "qkv/color.h"
#include "qkv/score.h"
#include "task/common.h"
#include "task/tables.h"

enum { IN = QKV_COLORIZER_INPUTS, EVAL_IMAGES = 64 };
static const double AB = 110; /* numbers of a and b are over this */

#define FIELD(member) .offset = offsetof(qkv_colorize_options, member)
static const qkv_option rows[] = {
    {.flag = "huber", .key = "huber", .type = QKV_OPT_REAL, .min = 1e-4, .max = 10, FIELD(huber),
     .initial = "1", .help = "errors (of a and b, over 110) count squared up to here"},
    {.flag = "hints", .key = "hints", .type = QKV_OPT_SIZE, .max = 65536, FIELD(hints),
     .initial = "64", .help = "most hints that training gives an image"},
};
const qkv_option_table qkv__colorize_table = {"Colouring", rows, sizeof rows / sizeof *rows,
                                              sizeof(qkv_colorize_options)};
const qkv_option_table *qkv_colorize_table(void) { return &qkv__colorize_table; }

qkv_colorize_options qkv_colorize_defaults(void)
{
    qkv_colorize_options o;
    qkv_option_defaults(&qkv__colorize_table, &o);
    o.augment = qkv_augment_defaults();
    return o;
}

typedef struct {
    qkv__image_task base;
    qkv_colorize_options o;
    qkv_real *lab; /* (room) of a part's images, (.., H, W, 3) */
    size_t room;
} colorize;

/* ---- images and hints -------------------------------------------------------------------- */

/* A model's input without hints, in (pixels, 4). */
static void put_lightness(qkv_real *in, const qkv_real *lab, size_t pixels)
{
    memset(in, 0, pixels * IN * sizeof *in);
    for (size_t i = 0; i < pixels; i++)
        in[IN * i] = (lab[3 * i] - 50) / 100;
}

static size_t cells(const qkv_pixelwise_config *c) { return c->trunk.image / c->cell; } /* in a
                                                                                           row */

/* Tells a and b, over 110, of a cell. */
static void put_hint(qkv_real *in, const qkv_pixelwise_config *c, size_t cell, const double ab[2])
{
    size_t top = cell / cells(c) * c->cell, left = cell % cells(c) * c->cell;
    for (size_t y = top; y < top + c->cell; y++)
        for (size_t x = left; x < left + c->cell; x++) {
            qkv_real *pixel = in + IN * (y * c->trunk.image + x);
            pixel[1] = (qkv_real)ab[0];
            pixel[2] = (qkv_real)ab[1];
            pixel[3] = 1;
        }
}

/* The mean colour of a cell, over 110. */
static void cell_color(double ab[2], const qkv_pixelwise_config *c, const qkv_real *lab,
                       size_t cell)
{
    size_t top = cell / cells(c) * c->cell, left = cell % cells(c) * c->cell;
    double n = (double)(c->cell * c->cell) * AB;
    ab[0] = ab[1] = 0;
    for (size_t y = top; y < top + c->cell; y++)
        for (size_t x = left; x < left + c->cell; x++)
            for (size_t k = 0; k < 2; k++)
                ab[k] += (double)lab[3 * (y * c->trunk.image + x) + 1 + k] / n;
}

/* Hint i of an image whose hints are drawn with r: a cell of its own. */
static size_t hint_cell(const qkv_pixelwise_config *c, size_t i, uint64_t order)
{
    size_t n = cells(c) * cells(c);
    return (size_t)qkv_shuffled(i, n, order);
}

static void put_hints(qkv_real *in, const qkv_pixelwise_config *c, const qkv_real *lab,
                      size_t count, uint64_t order)
{
    for (size_t i = 0; i < count; i++) {
        double ab[2];
        size_t cell = hint_cell(c, i, order);
        cell_color(ab, c, lab, cell);
        put_hint(in, c, cell, ab);
    }
}

qkv_status qkv_colorize_mean(qkv_context *ctx, const qkv_pixels *p, const size_t *images,
                             size_t count, double mean[2])
{
    size_t n = qkv_pixels_height(p) * qkv_pixels_width(p);
    qkv_real *lab = qkv_malloc(ctx, 3 * n * sizeof *lab);
    mean[0] = mean[1] = 0;
    if (!lab)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < count; i++) {
        qkv_bytes_to_lab(lab, qkv_pixels_data(p, images ? images[i] : i), n);
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; k < 2; k++)
                mean[k] += (double)lab[3 * j + 1 + k] / (double)(n * count);
    }
    qkv_free(ctx, lab);
    return QKV_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

/* in (pixels, 4) and what it should become, ab (pixels, 2), of a sample (pixels, 3), by way of its
 * Lab. */
static void colorize_make_sample(const colorize *s, uint64_t sample, const uint8_t *rgb,
                                 qkv_real *lab, qkv_real *in, qkv_real *ab)
{
    const qkv_pixelwise_config *c = qkv_model_config(s->base.model);
    size_t pixels = c->trunk.image * c->trunk.image, n = cells(c) * cells(c);
    qkv_bytes_to_lab(lab, rgb, pixels);
    put_lightness(in, lab, pixels);
    for (size_t j = 0; j < pixels; j++)
        for (size_t k = 0; k < 2; k++)
            ab[2 * j + k] = lab[3 * j + 1 + k] / (qkv_real)AB;
    qkv_rng r;
    qkv_rng_init(&r, s->base.seed, qkv_hash64("hints", 5) + sample);
    size_t most = s->o.hints < n ? s->o.hints : n;
    size_t count = (size_t)pow(1 + (double)most, qkv_rng_uniform(&r)) - 1;
    put_hints(in, c, lab, count, qkv__rng_u64(&r));
}

static qkv_tensor *colorize_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    colorize *s = self;
    const qkv_pixelwise_config *c = qkv_model_config(s->base.model);
    size_t B = part->count, side = c->trunk.image, pixels = side * side;
    size_t in_shape[] = {B, side, side, IN}, ab_shape[] = {B, side, side, 2};
    double begun = qkv_now();
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, in_shape);
    qkv_tensor *y = qkv_tensor_from(t, NULL, 4, ab_shape);
    const uint8_t *rgb;
    uint64_t first = qkv__first_sample(part);
    if (!x || !y || !qkv__grow(s->base.ctx, &s->lab, &s->room, B * pixels * 3, sizeof *s->lab) ||
        qkv_batches_bytes(s->base.batches, first, B, &rgb, NULL, NULL))
        return NULL;
    qkv_real *in = qkv_tensor_fill(x), *ab = qkv_tensor_fill(y);
    int threads = qkv_context_threads(s->base.ctx);
#pragma omp parallel for num_threads(threads) default(none) \
    shared(s, B, pixels, rgb, in, ab, first)
    for (size_t i = 0; i < B; i++)
        colorize_make_sample(s, first + i, rgb + i * pixels * 3, s->lab + i * pixels * 3,
                             in + i * pixels * IN, ab + i * pixels * 2);
    qkv__add_data_time(part, begun);
    y = qkv_huber_loss(t, qkv_pixelwise_forward(s->base.model, t, x), y, s->o.huber);
    return qkv__share_of_batch(t, y, part);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

/* Squared errors of a and b. */
typedef struct {
    double none, hints, mean, nearest;
} errors;
enum { ERRORS = sizeof(errors) / sizeof(double) };

static double squared(const qkv_real *lab, double a, double b)
{
    double da = a - (double)lab[1], db = b - (double)lab[2];
    return da * da + db * db;
}

static double add_predicted(const qkv_real *ab, const qkv_real *lab, size_t pixels)
{
    double sum = 0;
    for (size_t i = 0; i < pixels; i++)
        sum += squared(lab + 3 * i, AB * (double)ab[2 * i], AB * (double)ab[2 * i + 1]);
    return sum;
}

/* Of the hint whose middle is nearest to each pixel. */
static double add_nearest(const qkv_pixelwise_config *c, const qkv_real *lab, size_t count,
                          uint64_t order)
{
    size_t side = c->trunk.image;
    double sum = 0, ab[QKV_COLORIZE_HINTS][2], middle[QKV_COLORIZE_HINTS][2];
    for (size_t h = 0; h < count; h++) {
        size_t cell = hint_cell(c, h, order);
        cell_color(ab[h], c, lab, cell);
        for (size_t k = 0; k < 2; k++)
            middle[h][k] = ((double)(k ? cell / cells(c) : cell % cells(c)) + 0.5) *
                               (double)c->cell - 0.5;
    }
    for (size_t i = 0; i < side * side; i++) {
        size_t best = 0;
        double least = INFINITY;
        for (size_t h = 0; h < count; h++) {
            double d = hypot(middle[h][0] - (double)(i % side), middle[h][1] - (double)(i / side));
            if (d < least) {
                least = d;
                best = h;
            }
        }
        sum += squared(lab + 3 * i, AB * ab[best][0], AB * ab[best][1]);
    }
    return sum;
}

/* The colours of B images (side, side, 4) at in; NULL on failure. */
static const qkv_real *predict(qkv_model *m, qkv_tape *t, qkv_real *in, size_t B)
{
    const qkv_pixelwise_config *c = qkv_model_config(m);
    size_t shape[] = {B, c->trunk.image, c->trunk.image, IN};
    qkv__begin_inference(t);
    return qkv_data(t, qkv_pixelwise_forward(m, t, qkv_tensor_wrap(t, in, 4, shape)));
}

/* Which images: `count`, evenly over all; and memory for a batch. */
typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv_pixels *images;
    size_t count;
    qkv_real *in, *lab;
} evaluated;

static qkv_status colorize_evaluate_batch(const evaluated *j, size_t done, size_t B, errors *sum)
{
    qkv_model *m = j->model;
    qkv_tape *t = j->tape;
    const qkv_pixelwise_config *c = qkv_model_config(m);
    size_t pixels = c->trunk.image * c->trunk.image, all = qkv_pixels_count(j->images);
    size_t n = cells(c) * cells(c), hints = n < QKV_COLORIZE_HINTS ? n : QKV_COLORIZE_HINTS;
    for (size_t i = 0; i < B; i++) {
        qkv_real *lab = j->lab + i * pixels * 3;
        qkv_bytes_to_lab(lab, qkv_pixels_data(j->images, qkv__evenly(done + i, j->count, all)),
                         pixels);
        put_lightness(j->in + i * pixels * IN, lab, pixels);
    }
    const qkv_real *ab = predict(m, t, j->in, B);
    for (size_t i = 0; i < B && ab; i++)
        sum->none += add_predicted(ab + i * pixels * 2, j->lab + i * pixels * 3, pixels);
    for (size_t i = 0; i < B && ab; i++) {
        const qkv_real *lab = j->lab + i * pixels * 3;
        qkv_rng r;
        qkv_rng_init(&r, 0, qkv_hash64("judge", 5) + qkv__evenly(done + i, j->count, all));
        uint64_t order = qkv__rng_u64(&r);
        put_hints(j->in + i * pixels * IN, c, lab, hints, order);
        sum->nearest += add_nearest(c, lab, hints, order);
        for (size_t k = 0; k < pixels; k++)
            sum->mean += squared(lab + 3 * k, c->mean_a, c->mean_b);
    }
    ab = ab ? predict(m, t, j->in, B) : NULL;
    for (size_t i = 0; i < B && ab; i++)
        sum->hints += add_predicted(ab + i * pixels * 2, j->lab + i * pixels * 3, pixels);
    return ab ? QKV_OK : qkv_tape_status(t);
}

static qkv_status colorize_part(void *user, size_t part, double *out)
{
    const evaluated *j = user;
    size_t from = part * EVAL_IMAGES, left = j->count - from;
    errors sum = {0};
    qkv_status status = colorize_evaluate_batch(j, from, left < EVAL_IMAGES ? left : EVAL_IMAGES,
                                                &sum);
    memcpy(out, &sum, sizeof sum);
    return status;
}

static qkv_status check_images(const qkv_model *m, const qkv_pixels *p, const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_pixelwise_config *c = qkv_model_config(m);
    if (qkv_pixels_height(p) != c->trunk.image || qkv_pixels_width(p) != c->trunk.image ||
        qkv_pixels_channels(p) != 3)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s images are %zu x %zu with %zu channels, "
                        "the model's %zu x %zu with 3", what, qkv_pixels_width(p),
                        qkv_pixels_height(p), qkv_pixels_channels(p), c->trunk.image,
                        c->trunk.image);
    return QKV_OK;
}

qkv_status qkv_colorize_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *images,
                                 size_t limit, qkv_colorize_score *out)
{
    *out = (qkv_colorize_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_COLORIZE))
        return QKV_E_ARGUMENT;
    qkv_status status = check_images(m, images, "held-out");
    if (status)
        return status;
    const qkv_pixelwise_config *c = qkv_model_config(m);
    qkv_context *ctx = qkv_model_context(m);
    size_t all = qkv_pixels_count(images), pixels = c->trunk.image * c->trunk.image;
    evaluated j = {.model = m, .tape = t, .images = images, .count = qkv__limited(limit, all)};
    errors sum;
    double sums[ERRORS] = {0};
    j.in = qkv_malloc(ctx, EVAL_IMAGES * pixels * IN * sizeof *j.in);
    j.lab = qkv_malloc(ctx, EVAL_IMAGES * pixels * 3 * sizeof *j.lab);
    status = j.in && j.lab ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__dist_map_sum(ctx, (j.count + EVAL_IMAGES - 1) / EVAL_IMAGES, ERRORS,
                                   colorize_part, &j, sums);
    memcpy(&sum, sums, sizeof sum);
    qkv_tape_reset(t);
    qkv_free(ctx, j.in);
    qkv_free(ctx, j.lab);
    double n = 2 * (double)(j.count * pixels);
    *out = (qkv_colorize_score){qkv_psnr(sum.none, n), qkv_psnr(sum.hints, n),
                                qkv_psnr(sum.mean, n), qkv_psnr(sum.nearest, n), j.count};
    return status;
}

static qkv_status task_colorize_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    colorize *s = self;
    qkv_colorize_score score;
    qkv_status status = qkv_colorize_evaluate(s->base.model, t, s->base.valid, limit, &score);
    double both = (score.psnr + score.psnr_hints) / 2; /* serves either use */
    *out = (qkv_metrics){.item = {{"psnr_both", both}, {"psnr", score.psnr},
                                  {"psnr_hints", score.psnr_hints}, {"psnr_mean", score.mean},
                                  {"psnr_nearest", score.nearest}},
                         .count = 5, .more_is_better = true, .scored = score.images,
                         .units = qkv_pixels_count(s->base.valid)};
    return status;
}

/* ---- colouring ------------------------------------------------------------------------------ */

static qkv_status task_colorize_read_hints(qkv_real *in, qkv_model *m, const qkv_image *image,
                                           const qkv_color_hint *hints, size_t count)
{
    const qkv_pixelwise_config *c = qkv_model_config(m);
    for (size_t i = 0; i < count; i++) {
        const qkv_color_hint *h = hints + i;
        qkv_real lab[3];
        if (h->x >= image->width || h->y >= image->height)
            return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "hint %zu,%zu: the image is "
                            "%zu x %zu", h->x, h->y, image->width, image->height);
        size_t x = h->x * cells(c) / image->width, y = h->y * cells(c) / image->height;
        qkv_bytes_to_lab(lab, h->rgb, 1);
        const double ab[2] = {(double)lab[1] / AB, (double)lab[2] / AB};
        put_hint(in, c, y * cells(c) + x, ab);
    }
    return QKV_OK;
}

/* Tells the mean colour of each cell that has at least half of its colours. */
static qkv_status read_known(qkv_real *in, qkv_model *m, const qkv_image *image,
                             const uint8_t *missing)
{
    const qkv_pixelwise_config *c = qkv_model_config(m);
    qkv_context *ctx = qkv_model_context(m);
    size_t n = cells(c);
    enum { A, B, KNOWN, PIXELS, SUMS };
    double(*sums)[SUMS] = qkv_calloc(ctx, n * n, sizeof *sums);
    if (!sums)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < image->width * image->height; i++) {
        qkv_real lab[3];
        size_t x = i % image->width * n / image->width, y = i / image->width * n / image->height;
        double *sum = sums[y * n + x];
        sum[PIXELS]++;
        if (missing[i])
            continue;
        qkv_bytes_to_lab(lab, image->data + 3 * i, 1);
        sum[A] += (double)lab[1] / AB;
        sum[B] += (double)lab[2] / AB;
        sum[KNOWN]++;
    }
    for (size_t i = 0; i < n * n; i++)
        if (sums[i][KNOWN] > 0 && 2 * sums[i][KNOWN] >= sums[i][PIXELS])
            put_hint(in, c, i, (const double[]){sums[i][A] / sums[i][KNOWN],
                                                sums[i][B] / sums[i][KNOWN]});
    qkv_free(ctx, sums);
    return QKV_OK;
}

/* A pixel of that lightness and these colours. */
static void put_pixel(uint8_t *rgb, qkv_real L, qkv_real a, qkv_real b)
{
    qkv_real lab[3] = {L, a, b};
    qkv_lab_to_srgb(lab, lab, 1);
    for (size_t k = 0; k < 3; k++)
        rgb[k] = (uint8_t)(255 * lab[k] + (qkv_real)0.5);
}

/* Gives `small`, which has the model's size, the model's colours. */
static qkv_status color_small(qkv_image *small, qkv_model *m, qkv_tape *t, const qkv_image *whole,
                              const uint8_t *missing, const qkv_color_hint *hints, size_t count)
{
    qkv_context *ctx = qkv_model_context(m);
    size_t n = small->width * small->height;
    qkv_real *lab = qkv_malloc(ctx, n * (3 + IN) * sizeof *lab);
    if (!lab)
        return QKV_E_MEMORY;
    qkv_real *in = lab + 3 * n;
    qkv_bytes_to_lab(lab, small->data, n);
    put_lightness(in, lab, n);
    qkv_status status = missing ? read_known(in, m, whole, missing) : QKV_OK;
    if (!status)
        status = task_colorize_read_hints(in, m, whole, hints, count);
    const qkv_real *ab = status ? NULL : predict(m, t, in, 1);
    if (!status && !ab)
        status = qkv_tape_status(t);
    for (size_t i = 0; i < n && ab; i++)
        put_pixel(small->data + 3 * i, lab[3 * i], (qkv_real)AB * ab[2 * i],
                  (qkv_real)AB * ab[2 * i + 1]);
    qkv_free(ctx, lab);
    return status;
}

/* Gives `colored` the lightness of `in`, of its size, and what of it is not missing. */
static void take_lightness(qkv_image *colored, const qkv_image *in, const uint8_t *missing)
{
    for (size_t i = 0; i < in->width * in->height; i++) {
        qkv_real light[3], color[3];
        if (missing && !missing[i]) {
            memcpy(colored->data + 3 * i, in->data + 3 * i, 3);
            continue;
        }
        qkv_bytes_to_lab(light, in->data + 3 * i, 1);
        qkv_bytes_to_lab(color, colored->data + 3 * i, 1);
        put_pixel(colored->data + 3 * i, light[0], color[1], color[2]);
    }
}

qkv_status qkv_colorize(qkv_image *out, qkv_model *m, qkv_tape *t, const qkv_image *in,
                        const uint8_t *missing, const qkv_color_hint *hints, size_t count)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_pixelwise_config *c = qkv_model_config(m);
    qkv_image small = {0};
    *out = (qkv_image){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_COLORIZE))
        return QKV_E_ARGUMENT;
    if (in->channels != 3)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "an image of %zu channels: 3 expected",
                        in->channels);
    size_t side = c->trunk.image;
    qkv_status status = qkv_image_resize(&small, ctx, in, side, side, QKV_RESIZE_BICUBIC, NULL);
    if (!status)
        status = color_small(&small, m, t, in, missing, hints, count);
    if (!status)
        status = qkv_image_resize(out, ctx, &small, in->width, in->height, QKV_RESIZE_BICUBIC,
                                  NULL);
    if (!status && (missing || in->width != side || in->height != side))
        take_lightness(out, in, missing);
    qkv_image_free(&small, ctx);
    return status;
}

/* ---- the task ------------------------------------------------------------------------------ */

static void colorize_destroy(void *self)
{
    colorize *s = self;
    qkv_free(s->base.ctx, s->lab);
    qkv__image_task_destroy(s);
}

static const qkv_task_type colorize_type = {.name = "colorize", .unit = "images", .phases = 1,
                                            .loss = colorize_loss,
                                            .evaluate = task_colorize_evaluate,
                                            .flops = qkv__image_task_flops,
                                            .destroy = colorize_destroy};

qkv_status qkv_task_colorize(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                             const qkv_pixels *valid, const qkv_colorize_options *options,
                             uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_COLORIZE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(model);
    qkv_status status = check_images(model, train, "training");
    if (!status && valid)
        status = check_images(model, valid, "held-out");
    qkv_colorize_options o = options ? *options : qkv_colorize_defaults();
    if (!status && qkv_augment_mixes(&o.augment))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "images that are to be coloured are not mixed");
    colorize *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    s->o = o;
    status = qkv__image_task_init(&s->base, model, train, valid, seed,
                                  (qkv_batches_options){.augment = o.augment}, NULL);
    return qkv__task_finish(out, status,
                            (qkv_task){&colorize_type, s, model, seed, valid != NULL});
}
