/* reconstruct.c - filling in the hidden patches of images. */
#include "qkv/reconstruct.h"

#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "qkv/score.h"
#include "task/common.h"

enum { EVAL_BATCH = 32, GREY = 128 };
static const uint64_t EVAL_SEED = 0x68696464656E0ull; /* all models are asked the same patches */
static const double PATCH_EPS = 1e-6; /* as in qkv_mae_targets */

/* Where the patches of an image are. */
typedef struct {
    size_t image, patch, channels, side; /* side: patches in a row */
} grid;

typedef struct {
    qkv__image_task base;
    int32_t *order; /* (room) of the part at hand, (.., patches) */
    size_t room;
} reconstruct;

static const qkv_mae_config *reconstruct_config_of(const qkv_model *m)
{
    return qkv_model_config(m);
}

static grid grid_of(const qkv_model *m)
{
    const qkv_patches_config *c = &reconstruct_config_of(m)->trunk;
    return (grid){c->image, c->patch, c->channels, c->image / c->patch};
}

static size_t reconstruct_patches(const grid *g) { return g->side * g->side; }
static size_t numbers(const grid *g) { return g->patch * g->patch * g->channels; }

/* Where in an image value i of patch p is: rows, columns, channels of a patch. */
static size_t reconstruct_place(const grid *g, size_t p, size_t i)
{
    size_t channel = i % g->channels, pixel = i / g->channels;
    size_t y = p / g->side * g->patch + pixel / g->patch;
    size_t x = p % g->side * g->patch + pixel % g->patch;
    return (y * g->image + x) * g->channels + channel;
}

/* ---- training ---------------------------------------------------------------------------- */

/* Uninitialised room for n images. */
static qkv_tensor *room_for(qkv_tape *t, const grid *g, size_t n)
{
    size_t shape[] = {n, g->image, g->image, g->channels};
    return qkv_tensor_from(t, NULL, 4, shape);
}

static qkv_tensor *reconstruct_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    reconstruct *s = self;
    qkv_model *m = s->base.model;
    double begun = qkv_now();
    grid g = grid_of(m);
    size_t n = part->count, L = reconstruct_patches(&g);
    uint64_t first = qkv__first_sample(part);
    qkv_tensor *x = room_for(t, &g, n);
    if (!x || !qkv__grow(s->base.ctx, &s->order, &s->room, n * L, sizeof *s->order) ||
        qkv_batches_get(s->base.batches, first, n, qkv_tensor_fill(x), NULL, NULL))
        return NULL;
    for (size_t i = 0; i < n; i++)
        qkv_mae_shuffle(s->order + i * L, L, s->base.seed, first + i);
    qkv__add_data_time(part, begun);
    qkv_mae_masks masks = {n, L, qkv_mae_kept(L, reconstruct_config_of(m)->mask_ratio), s->order};
    qkv_tensor *y = qkv_mae_decode(m, t, qkv_mae_encode(m, t, x, &masks), &masks);
    return qkv__share_of_batch(t, qkv_mae_loss(m, t, y, x, &masks), part);
}

/* ---- filling in --------------------------------------------------------------------------- */

/* What takes a patch as the model has learnt it back to pixels as it gets them. */
static void patch_scale(const grid *g, const qkv_real *image, size_t p, double *shift,
                        double *scale)
{
    size_t n = numbers(g);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)image[reconstruct_place(g, p, i)];
    *shift = sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = (double)image[reconstruct_place(g, p, i)] - *shift;
        squares += d * d;
    }
    *scale = sqrt(squares / (double)(n > 1 ? n - 1 : 1) + PATCH_EPS);
}

/* Patches (n, patches, numbers) as learnt -> images (n, image, image, channels) in [0, 1]. x: the
 * true images as the model gets them. */
static void to_images(const qkv_model *m, const qkv_real *learnt, const qkv_real *x, size_t n,
                      qkv_real *out)
{
    grid g = grid_of(m);
    const qkv_image_format *f = qkv_model_image_format(m);
    size_t size = g.image * g.image * g.channels;
    bool normed = reconstruct_config_of(m)->norm_pix;
    for (size_t b = 0; b < n; b++)
        for (size_t p = 0; p < reconstruct_patches(&g); p++) {
            double shift = 0, scale = 1;
            if (normed)
                patch_scale(&g, x + b * size, p, &shift, &scale);
            for (size_t i = 0; i < numbers(&g); i++, learnt++) {
                size_t c = i % g.channels;
                double v = ((double)*learnt * scale + shift) * f->std[c] + f->mean[c];
                v = v > 0 ? v : 0; /* and what is no number */
                out[b * size + reconstruct_place(&g, p, i)] = (qkv_real)(v < 1 ? v : 1);
            }
        }
}

/* pixels x (n, ..) on the tape -> out (n, image, image, channels), the caller's, in [0, 1];
 * *share: the loss, unless NULL. */
static qkv_status fill_in(qkv_model *m, qkv_tape *t, qkv_tensor *x, const qkv_mae_masks *masks,
                          qkv_real *out, double *share)
{
    qkv_tensor *y = qkv_mae_decode(m, t, qkv_mae_encode(m, t, x, masks), masks);
    if (share)
        *share = (double)qkv_item(t, qkv_mae_loss(m, t, y, x, masks));
    const qkv_real *learnt = qkv_data(t, qkv_mae_patches(m, t, y)), *pixels = qkv_data(t, x);
    if (!qkv_tape_status(t))
        to_images(m, learnt, pixels, masks->images, out);
    return qkv_tape_status(t);
}

/* ---- evaluation -------------------------------------------------------------------------- */

typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv_pixels *pixels;
    grid g;
    size_t kept;
    bool others; /* evaluate the mean and the nearest pixel as well */
    int32_t order[EVAL_BATCH * 4096]; /* (batch, patches) */
    bool seen[4096];                  /* of the image at hand */
    qkv_real *filled;                 /* (EVAL_BATCH images) */
    size_t count;                     /* images, evenly over all */
} evaluation;
enum { MODEL, MEAN, NEAREST, LOSS, SUMS }; /* sums of squares; of losses */

/* The mean visible colour. */
static void mean_colour(const evaluation *j, const uint8_t *image, double mean[3])
{
    const grid *g = &j->g;
    double sum[3] = {0, 0, 0}, count = 0;
    for (size_t p = 0; p < reconstruct_patches(g); p++)
        for (size_t i = 0; i < numbers(g) && j->seen[p]; i++) {
            sum[i % g->channels] += image[reconstruct_place(g, p, i)];
            count += i % g->channels == 0;
        }
    for (size_t c = 0; c < 3; c++)
        mean[c] = sum[c] / count;
}

/* How far v is from first .. first + patch - 1, and the nearest of them. */
static size_t into(size_t v, size_t first, size_t patch, size_t *nearest)
{
    *nearest = v < first ? first : v >= first + patch ? first + patch - 1 : v;
    return v > *nearest ? v - *nearest : *nearest - v;
}

/* The visible pixel nearest to (x, y). */
static size_t nearest_pixel(const evaluation *j, size_t x, size_t y)
{
    const grid *g = &j->g;
    size_t best = SIZE_MAX, at = 0;
    for (size_t p = 0; p < reconstruct_patches(g); p++) {
        size_t px, py;
        if (!j->seen[p])
            continue;
        size_t dx = into(x, p % g->side * g->patch, g->patch, &px);
        size_t dy = into(y, p / g->side * g->patch, g->patch, &py);
        if (dx * dx + dy * dy >= best)
            continue;
        best = dx * dx + dy * dy;
        at = (py * g->image + px) * g->channels;
    }
    return at;
}

/* Adds the errors of the image's hidden patches to sums; order: its own. */
static void evaluate_image(evaluation *j, const uint8_t *image, const qkv_real *filled,
                           const int32_t *order, double sums[SUMS])
{
    const grid *g = &j->g;
    double mean[3] = {0, 0, 0};
    for (size_t p = 0; p < reconstruct_patches(g); p++)
        j->seen[order[p]] = p < j->kept;
    if (j->others)
        mean_colour(j, image, mean);
    for (size_t p = 0; p < reconstruct_patches(g); p++)
        for (size_t i = 0; i < numbers(g) && !j->seen[p]; i += g->channels) {
            size_t at = reconstruct_place(g, p, i), pixel = at / g->channels;
            size_t near =
                j->others ? nearest_pixel(j, pixel % g->image, pixel / g->image) : at;
            for (size_t c = 0; c < g->channels; c++) {
                double v = image[at + c];
                double off[] = {255 * (double)filled[at + c] - v, mean[c] - v,
                                image[near + c] - v};
                for (int k = 0; k < 3; k++)
                    sums[k] += off[k] * off[k];
            }
        }
}

static qkv_status reconstruct_part(void *user, size_t part, double *sums)
{
    evaluation *j = user;
    size_t begin = part * EVAL_BATCH, left = j->count - begin;
    size_t n = left < EVAL_BATCH ? left : EVAL_BATCH;
    const qkv_image_format *f = qkv_model_image_format(j->model);
    size_t number[EVAL_BATCH], L = reconstruct_patches(&j->g), total = qkv_pixels_count(j->pixels);
    size_t size = j->g.image * j->g.image * j->g.channels;
    double share;
    for (size_t i = 0; i < n; i++) {
        number[i] = qkv__evenly(begin + i, j->count, total);
        qkv_mae_shuffle(j->order + i * L, L, EVAL_SEED, number[i]);
    }
    qkv__begin_inference(j->tape);
    qkv_tensor *x = room_for(j->tape, &j->g, n);
    if (!x)
        return qkv_tape_status(j->tape);
    qkv_pixels_values(qkv_tensor_fill(x), qkv_model_context(j->model), j->pixels, number, n,
                      f->mean, f->std);
    qkv_mae_masks masks = {n, L, j->kept, j->order};
    qkv_status status = fill_in(j->model, j->tape, x, &masks, j->filled, &share);
    sums[LOSS] = status ? 0 : share * (double)n;
    for (size_t i = 0; i < n && !status; i++)
        evaluate_image(j, qkv_pixels_data(j->pixels, number[i]), j->filled + i * size,
                       j->order + i * L, sums);
    return status;
}

static qkv_status reconstruct_evaluate_all(evaluation *j, size_t limit, qkv_reconstruct_score *out)
{
    size_t count = j->count = qkv__limited(limit, qkv_pixels_count(j->pixels));
    double sums[SUMS] = {0};
    qkv_status status = qkv__dist_map_sum(qkv_model_context(j->model),
                                          (count + EVAL_BATCH - 1) / EVAL_BATCH, SUMS,
                                          reconstruct_part, j, sums);
    if (status)
        return status;
    double values = (double)(count * (reconstruct_patches(&j->g) - j->kept) * numbers(&j->g));
    *out = (qkv_reconstruct_score){
        .psnr = qkv_psnr(sums[MODEL], values), .loss = sums[LOSS] / (double)count,
        .mean = qkv_psnr(sums[MEAN], values), .nearest = qkv_psnr(sums[NEAREST], values),
        .images = count};
    return QKV_OK;
}

static qkv_status check_model(const qkv_model *m)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_image_format *f = qkv_model_image_format(m);
    grid g = grid_of(m);
    if (!f || f->channels != g.channels)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the model reads %zu channels; it is told how for "
                        "%zu", g.channels, f ? f->channels : 0);
    if (reconstruct_patches(&g) > 4096 || reconstruct_patches(&g) < 2)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "2 to 4096 patches in an image expected, found %zu",
                        reconstruct_patches(&g));
    return QKV_OK;
}

static qkv_status reconstruct_check(const qkv_model *m, const qkv_pixels *p, const char *what)
{
    qkv_status status = check_model(m);
    if (status)
        return status;
    grid g = grid_of(m);
    if (qkv_pixels_height(p) == g.image && qkv_pixels_width(p) == g.image &&
        qkv_pixels_channels(p) == g.channels)
        return QKV_OK;
    return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "the %s images are %zu x %zu x %zu, "
                    "the model's %zu x %zu x %zu", what, qkv_pixels_height(p),
                    qkv_pixels_width(p), qkv_pixels_channels(p), g.image, g.image, g.channels);
}

/* others: fill in the score's mean and nearest as well. */
static qkv_status reconstruct_evaluate_with(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                            double ratio, bool others, size_t limit,
                                            qkv_reconstruct_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    *out = (qkv_reconstruct_score){0};
    qkv_status status = QKV_OK;
    evaluation *j = qkv_calloc(ctx, 1, sizeof *j);
    if (!j)
        return QKV_E_MEMORY;
    j->model = m;
    j->tape = t;
    j->pixels = pixels;
    j->others = others;
    j->g = grid_of(m);
    j->kept = qkv_mae_kept(reconstruct_patches(&j->g), ratio < 0
                           ? reconstruct_config_of(m)->mask_ratio : ratio);
    j->filled = qkv_calloc(ctx, EVAL_BATCH * reconstruct_patches(&j->g), numbers(&j->g) *
                           sizeof(qkv_real));
    status = j->filled ? QKV_OK : QKV_E_MEMORY;
    if (!status && j->kept == reconstruct_patches(&j->g))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "no patch is hidden: there is nothing to evaluate");
    if (!status)
        status = reconstruct_evaluate_all(j, limit, out);
    qkv_tape_reset(t);
    qkv_free(ctx, j->filled);
    qkv_free(ctx, j);
    return status;
}

qkv_status qkv_reconstruct_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                    double ratio, size_t limit, qkv_reconstruct_score *out)
{
    *out = (qkv_reconstruct_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_RECONSTRUCT))
        return QKV_E_ARGUMENT;
    qkv_status status = reconstruct_check(m, pixels, "held-out");
    return status ? status : reconstruct_evaluate_with(m, t, pixels, ratio, true, limit, out);
}

/* ---- one image --------------------------------------------------------------------------- */

/* Puts grey over what is hidden; into filled goes what the model says, or (paste) the truth where
 * it was seen. */
static void reconstruct_paint(const grid *g, const uint8_t *image, const qkv_real *values,
                              const qkv_mae_masks *masks, bool paste, uint8_t *hidden,
                              uint8_t *filled)
{
    for (size_t k = 0; k < masks->patches; k++)
        for (size_t i = 0; i < numbers(g); i++) {
            size_t at = reconstruct_place(g, (size_t)masks->order[k], i);
            bool seen = k < masks->kept;
            hidden[at] = seen ? image[at] : GREY;
            filled[at] = seen && paste ? image[at]
                                       : (uint8_t)(255 * (double)values[at] + 0.5);
        }
}

static qkv_tensor *one_image(qkv_tape *t, const qkv_model *m, const uint8_t *image)
{
    const qkv_image_format *f = qkv_model_image_format(m);
    grid g = grid_of(m);
    qkv_tensor *x = room_for(t, &g, 1);
    qkv_real *values = qkv_tensor_fill(x);
    for (size_t i = 0; values && i < reconstruct_patches(&g) * numbers(&g); i++) {
        size_t c = i % g.channels;
        values[i] = (qkv_real)((image[i] / 255.0 - f->mean[c]) / f->std[c]);
    }
    return x;
}

qkv_status qkv_reconstruct(qkv_model *m, qkv_tape *t, const uint8_t *image, double ratio,
                           uint64_t seed, bool paste, uint8_t *hidden, uint8_t *filled)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_RECONSTRUCT))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    qkv_status status = check_model(m);
    if (status)
        return status;
    if (!(ratio >= 0 && ratio < 1))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the share of hidden patches is in [0, 1), not %g",
                        ratio);
    grid g = grid_of(m);
    size_t L = reconstruct_patches(&g);
    int32_t *order = qkv_calloc(ctx, L, sizeof *order);
    qkv_real *values = qkv_calloc(ctx, L, numbers(&g) * sizeof *values);
    qkv__begin_inference(t);
    status = order && values ? QKV_OK : QKV_E_MEMORY;
    qkv_mae_masks masks = {1, L, qkv_mae_kept(L, ratio), order};
    if (!status) {
        qkv_mae_shuffle(order, L, seed, 0);
        status = fill_in(m, t, one_image(t, m, image), &masks, values, NULL);
    }
    if (!status)
        reconstruct_paint(&g, image, values, &masks, paste, hidden, filled);
    qkv_tape_reset(t);
    qkv_free(ctx, values);
    qkv_free(ctx, order);
    return status;
}

/* ---- the task ---------------------------------------------------------------------------- */

static qkv_status task_reconstruct_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    const qkv__image_task *s = self;
    qkv_reconstruct_score score;
    qkv_status status = reconstruct_evaluate_with(s->model, t, s->valid, -1, false, limit, &score);
    *out = (qkv_metrics){.item = {{"psnr", score.psnr}, {"loss", score.loss}}, .count = 2,
                         .more_is_better = true, .scored = score.images,
                         .units = qkv_pixels_count(s->valid)};
    return status;
}

static void reconstruct_destroy(void *self)
{
    reconstruct *s = self;
    qkv_free(s->base.ctx, s->order);
    qkv__image_task_destroy(s);
}

static const qkv_task_type reconstruct_type = {.name = "reconstruct", .unit = "images",
                                               .phases = 1, .loss = reconstruct_loss,
                                               .evaluate = task_reconstruct_evaluate,
                                               .flops = qkv__image_task_flops,
                                               .destroy = reconstruct_destroy};

qkv_status qkv_task_reconstruct(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                                const qkv_pixels *valid, const qkv_augment_options *augment,
                                uint64_t seed)
{
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_RECONSTRUCT))
        return QKV_E_ARGUMENT;
    qkv_status status = reconstruct_check(model, train, "training");
    if (!status && valid)
        status = reconstruct_check(model, valid, "held-out");
    if (status)
        return status;
    grid g = grid_of(model);
    if (qkv_mae_kept(reconstruct_patches(&g),
                     reconstruct_config_of(model)->mask_ratio) == reconstruct_patches(&g))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "mask_ratio %g: no patch is hidden",
                        reconstruct_config_of(model)->mask_ratio);
    if (augment && qkv_augment_mixes(augment))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "images that are to be filled in are not mixed");
    reconstruct *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    qkv_batches_options b = {0};
    if (augment)
        b.augment = *augment;
    status = qkv__image_task_init(&s->base, model, train, valid, seed, b,
                                  qkv_model_image_format(model));
    return qkv__task_finish(out, status,
                            (qkv_task){&reconstruct_type, s, model, seed, valid != NULL});
}
