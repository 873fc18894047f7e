/* codes_evaluate.c - coding images, decoding them, and evaluating what comes back. */
#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "qkv/score.h"
#include "task/codes_evaluate.h"
#include "task/common.h"
#include "task/perceptual.h"

enum { EVAL_BATCH = 16, MOST_COLORS = 3 };
enum { MOST_PIXELS = 1 << 16 }; /* that a network looks at at once, unless one image has more */
static const double PIXEL[MOST_COLORS] = {0.5, 0.5, 0.5}; /* mean and standard deviation: to [-1,
                                                             1] */

qkv_tensor *qkv__codes_unlike(qkv_model *lpips, double weight, qkv_tape *t, qkv_tensor *y,
                              qkv_tensor *x, const qkv_micro_batch *part)
{
    qkv_tensor *error = qkv_l1_loss(t, y, x);
    qkv__report(part, "rec", t, error);
    if (!lpips || weight == 0)
        return error;
    qkv_tensor *distance = qkv_perceptual_distance(lpips, t, y, x);
    qkv__report(part, "perceptual", t, distance);
    return qkv_add(t, error, qkv_scale(t, distance, weight));
}

qkv_status qkv__codes_check(qkv_model *m, const qkv_pixels *p, const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_vqgan_config *c = qkv_model_config(m);
    size_t factor = qkv_vqgan_factor(m), height = qkv_pixels_height(p);
    size_t width = qkv_pixels_width(p);
    if (qkv_pixels_channels(p) != c->colors || c->colors > MOST_COLORS || height % factor ||
        width % factor)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s images, %zu x %zu pixels of %zu channels: "
                        "multiples of %zu with %zu channels expected", what, width, height,
                        qkv_pixels_channels(p), factor, c->colors);
    return QKV_OK;
}

/* Values in [-1, 1] as 8 bits: what is no number becomes 0. */
static void to_bytes(uint8_t *out, const qkv_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v = ((double)x[i] + 1) * 127.5;
        v = v > 0 ? v : 0;
        out[i] = (uint8_t)(v < 255 ? v + 0.5 : 255);
    }
}

static void from_bytes(qkv_real *out, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (qkv_real)((double)x[i] / 127.5 - 1);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

typedef struct {
    qkv_model *model, *lpips;
    double perceptual;
    qkv_tape *t;
    const qkv_pixels *pixels;
    size_t count, each; /* images, evenly over all; numbers of one */
    size_t codes;
    double *met;    /* (codes) how often, in this rank's parts */
    uint8_t *bytes; /* (2, EVAL_BATCH, each): the true ones, the decoded ones */
} evaluation;
enum { UNLIKE, SQUARES, SSIM, SUMS };

static void add_images(const evaluation *j, size_t n, double sums[SUMS])
{
    const uint8_t *a = j->bytes, *b = j->bytes + EVAL_BATCH * j->each;
    size_t height = qkv_pixels_height(j->pixels), width = qkv_pixels_width(j->pixels);
    for (size_t i = 0; i < n * j->each; i++)
        sums[SQUARES] += (a[i] - b[i]) * (a[i] - b[i]);
    for (size_t i = 0; i < n; i++)
        sums[SSIM] += qkv_ssim(a + i * j->each, b + i * j->each, height, width,
                               qkv_pixels_channels(j->pixels));
}

static qkv_status codes_part(void *user, size_t part, double *sums)
{
    evaluation *j = user;
    size_t images[EVAL_BATCH], from = part * EVAL_BATCH, left = j->count - from;
    size_t n = left < EVAL_BATCH ? left : EVAL_BATCH;
    qkv_tape *t = j->t;
    for (size_t i = 0; i < n; i++)
        images[i] = qkv__evenly(from + i, j->count, qkv_pixels_count(j->pixels));
    qkv__begin_inference(t);
    qkv_tensor *x = qkv__images_tensor(t, j->pixels, n);
    if (!x)
        return qkv_tape_status(t);
    qkv_pixels_values(qkv_tensor_fill(x), qkv_model_context(j->model), j->pixels, images, n,
                      PIXEL, PIXEL);
    qkv_tensor *codes = qkv_vqgan_codes(j->model, t, qkv_vqgan_encode(j->model, t, x));
    qkv_tensor *y = qkv_vqgan_decode(j->model, t, qkv_vqgan_vectors(j->model, t, codes));
    qkv_tensor *unlike = qkv__codes_unlike(j->lpips, j->perceptual, t, y, x, NULL);
    if (qkv_tape_status(t))
        return qkv_tape_status(t);
    sums[UNLIKE] = (double)n * (double)qkv_item(t, unlike);
    const int32_t *ids = qkv_data_ids(t, codes);
    for (size_t i = 0; ids && i < qkv_count(codes); i++)
        j->met[ids[i]]++;
    to_bytes(j->bytes, qkv_data(t, x), n * j->each);
    to_bytes(j->bytes + EVAL_BATCH * j->each, qkv_data(t, y), n * j->each);
    add_images(j, n, sums);
    return QKV_OK;
}

/* A part for each rank: the codes that it met. */
static qkv_status met_part(void *user, size_t part, double *met)
{
    const evaluation *j = user;
    (void)part;
    memcpy(met, j->met, j->codes * sizeof *met);
    return QKV_OK;
}

/* met (codes) */
static void sum_up(const evaluation *j, const double *sums, const double *met,
                   qkv_codes_score *out)
{
    double all = 0, entropy = 0, n = (double)j->count;
    for (size_t k = 0; k < j->codes; k++) {
        all += met[k];
        out->used += (met[k] > 0) / (double)j->codes;
    }
    for (size_t k = 0; k < j->codes; k++)
        if (met[k] > 0)
            entropy -= met[k] / all * log2(met[k] / all);
    out->perplexity = exp2(entropy);
    out->loss = sums[UNLIKE] / n;
    out->psnr = qkv_psnr(sums[SQUARES], n * (double)j->each);
    out->ssim = sums[SSIM] / n;
    out->images = j->count;
}

qkv_status qkv_codes_evaluate(qkv_model *m, qkv_model *lpips, double perceptual, qkv_tape *t,
                              const qkv_pixels *pixels, size_t limit, qkv_codes_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    *out = (qkv_codes_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_ENCODE_IMAGES) ||
        (lpips && !qkv__model_as(lpips, NULL, __func__, QKV_CAN_COMPARE_IMAGES)))
        return QKV_E_ARGUMENT;
    qkv_status status = qkv__codes_check(m, pixels, "held-out");
    if (status)
        return status;
    const qkv_vqgan_config *c = qkv_model_config(m);
    size_t count = qkv__limited(limit, qkv_pixels_count(pixels));
    evaluation j = {.model = m, .lpips = lpips, .perceptual = perceptual, .t = t, .pixels = pixels,
                    .count = count, .codes = c->codes};
    double sums[SUMS] = {0};
    j.each = qkv_pixels_height(pixels) * qkv_pixels_width(pixels) * c->colors;
    j.met = qkv_calloc(ctx, 2 * c->codes, sizeof *j.met); /* this rank's, then all */
    j.bytes = qkv_malloc(ctx, 2 * EVAL_BATCH * j.each);
    status = j.met && j.bytes ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__dist_map_sum(ctx, (count + EVAL_BATCH - 1) / EVAL_BATCH, SUMS, codes_part,
                                   &j, sums);
    if (!status)
        status = qkv__dist_map_sum(ctx, (size_t)qkv_dist_size(ctx), c->codes, met_part, &j,
                                   j.met + c->codes);
    if (!status)
        sum_up(&j, sums, j.met + c->codes, out);
    qkv_tape_reset(t);
    qkv_free(ctx, j.bytes);
    qkv_free(ctx, j.met);
    return status;
}

/* ---- finding them again ------------------------------------------------------------------- */

/* Squared error of two images (n), or anything above `most` when it is more. */
static uint64_t apart(const uint8_t *a, const uint8_t *b, size_t n, uint64_t most)
{
    enum { PIECE = 1024 };
    uint64_t sum = 0;
    for (size_t i = 0; i < n && sum <= most; i += PIECE) {
        int32_t piece = 0;
        for (size_t k = i; k < n && k < i + PIECE; k++)
            piece += (a[k] - b[k]) * (a[k] - b[k]);
        sum += (uint64_t)piece;
    }
    return sum;
}

static bool is_nearest(const qkv_pixels *p, size_t image, const uint8_t *decoded, size_t each)
{
    uint64_t own = apart(qkv_pixels_data(p, image), decoded, each, UINT64_MAX);
    for (size_t i = 0; i < qkv_pixels_count(p); i++)
        if (i != image && apart(qkv_pixels_data(p, i), decoded, each, own) <= own)
            return false;
    return true;
}

typedef struct {
    qkv_model *model;
    qkv_tape *t;
    const qkv_pixels *pixels;
    size_t height, width, factor, each; /* of an image; pixels of a code; numbers of an image */
    uint8_t *decoded;                   /* (each) */
    int32_t *codes;
} finding;

/* *found: whether an image is the nearest to what its codes become. */
static qkv_status find_part(void *user, size_t image, double *found)
{
    const finding *f = user;
    qkv_status status = qkv_images_encode(f->model, f->t, qkv_pixels_data(f->pixels, image), 1,
                                          f->height, f->width, f->codes);
    if (!status)
        status = qkv_images_decode(f->model, f->t, f->codes, 1, f->height / f->factor,
                                   f->width / f->factor, f->decoded);
    if (!status)
        *found = is_nearest(f->pixels, image, f->decoded, f->each);
    return status;
}

qkv_status qkv_codes_find(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels, double *share)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_ENCODE_IMAGES))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    *share = 0;
    qkv_status status = qkv__codes_check(m, pixels, "held-out");
    if (status)
        return status;
    size_t n = qkv_pixels_count(pixels);
    double found = 0;
    finding f = {.model = m, .t = t, .pixels = pixels, .height = qkv_pixels_height(pixels),
                 .width = qkv_pixels_width(pixels), .factor = qkv_vqgan_factor(m)};
    f.each = f.height * f.width * qkv_pixels_channels(pixels);
    f.decoded = qkv_malloc(ctx, f.each);
    f.codes = qkv_calloc(ctx, f.height / f.factor, f.width / f.factor * sizeof *f.codes);
    status = f.decoded && f.codes ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__dist_map_sum(ctx, n, 1, find_part, &f, &found);
    *share = status ? 0 : found / (double)n;
    qkv_free(ctx, f.codes);
    qkv_free(ctx, f.decoded);
    return status;
}

/* ---- how they look to a network ----------------------------------------------------------- */

typedef struct {
    qkv_model *model, *lpips;
    qkv_tape *t;
    const qkv_pixels *pixels;
    size_t each, batch, features; /* numbers of an image; images of a part; numbers of a row */
    uint8_t *bytes[2]; /* (batch, each): the true ones, the decoded ones */
    int32_t *codes;
} comparing;

/* Those bytes as a network sees them; rows (n, features): what it makes of each image, on the
 * mean. */
static qkv_tensor *codes_evaluate_look_at(const comparing *c, size_t n, bool decoded, double *rows)
{
    qkv_tensor *x = qkv__images_tensor(c->t, c->pixels, n);
    if (x)
        from_bytes(qkv_tensor_fill(x), c->bytes[decoded], qkv_count(x));
    qkv_tensor *features = qkv_perceptual_features(c->lpips, c->t, x);
    const qkv_tensor *means = qkv_mean_axis(c->t, qkv_mean_axis(c->t, features, 1), 1);
    const qkv_real *from = means ? qkv_data(c->t, means) : NULL;
    for (size_t i = 0; from && i < n * c->features; i++)
        rows[i] = (double)from[i];
    return x;
}

/* out: how unlike they look in sum, then a row of each of the part's images, then of each decoded
 * one. */
static qkv_status compare_part(void *user, size_t part, double *out)
{
    const comparing *c = user;
    size_t first = part * c->batch, left = qkv_pixels_count(c->pixels) - first;
    size_t n = left < c->batch ? left : c->batch;
    size_t height = qkv_pixels_height(c->pixels), width = qkv_pixels_width(c->pixels);
    size_t factor = qkv_vqgan_factor(c->model);
    for (size_t i = 0; i < n; i++)
        memcpy(c->bytes[0] + i * c->each, qkv_pixels_data(c->pixels, first + i), c->each);
    qkv_status status = qkv_images_encode(c->model, c->t, c->bytes[0], n, height, width,
                                          c->codes);
    if (!status)
        status = qkv_images_decode(c->model, c->t, c->codes, n, height / factor, width / factor,
                                   c->bytes[1]);
    if (status)
        return status;
    qkv_tape_mode(c->t, false, false);
    qkv_tensor *x = codes_evaluate_look_at(c, n, false, out + 1);
    qkv_tensor *y = codes_evaluate_look_at(c, n, true, out + 1 + n * c->features);
    qkv_tensor *unlike = qkv_perceptual_distance(c->lpips, c->t, y, x);
    *out = (double)n * (double)qkv_item(c->t, unlike);
    status = qkv_tape_status(c->t);
    qkv_tape_reset(c->t);
    return status;
}

/* Adds a part's rows (2, n, C) of both sides; room (C). */
static void add_rows(qkv_frechet *f, const double *rows, size_t n, size_t C, qkv_real *room)
{
    for (size_t i = 0; i < 2 * n; i++) {
        for (size_t k = 0; k < C; k++)
            room[k] = (qkv_real)rows[i * C + k];
        qkv_frechet_add(f, i >= n, room, 1);
    }
}

/* Compares part by part. */
static qkv_status compare_all(comparing *c, qkv_context *ctx, qkv_codes_likeness *out)
{
    size_t width = 1 + 2 * c->batch * c->features, count = out->images;
    size_t parts = (count + c->batch - 1) / c->batch;
    double *all = qkv_calloc(ctx, parts + 1, width * sizeof *all), unlike = 0;
    qkv_real *room = qkv_calloc(ctx, c->features, sizeof *room);
    qkv_frechet *f = NULL;
    qkv_status status = all && room ? qkv_frechet_create(&f, ctx, c->features) : QKV_E_MEMORY;
    if (!status)
        status = qkv__dist_map(ctx, parts, width, compare_part, c, all);
    for (size_t i = 0; i < parts && !status; i++) {
        size_t left = count - i * c->batch, n = left < c->batch ? left : c->batch;
        unlike += all[i * width];
        add_rows(f, all + i * width + 1, n, c->features, room);
    }
    if (!status)
        status = qkv_frechet_distance(f, &out->frechet);
    out->lpips = unlike / (double)count;
    qkv_frechet_destroy(f);
    qkv_free(ctx, room);
    qkv_free(ctx, all);
    return status;
}

qkv_status qkv_codes_compare(qkv_model *m, qkv_model *lpips, qkv_tape *t,
                             const qkv_pixels *pixels, qkv_codes_likeness *out)
{
    qkv_context *ctx = qkv_model_context(m);
    *out = (qkv_codes_likeness){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_ENCODE_IMAGES) ||
        !qkv__model_as(lpips, NULL, __func__, QKV_CAN_COMPARE_IMAGES))
        return QKV_E_ARGUMENT;
    qkv_status status = qkv__codes_check(m, pixels, "held-out");
    if (!status)
        status = qkv__perceptual_check(lpips, pixels);
    if (status)
        return status;
    const qkv_perceptual_config *of_perceptual = qkv_model_config(lpips);
    size_t area = qkv_pixels_height(pixels) * qkv_pixels_width(pixels);
    size_t batch = area < MOST_PIXELS / EVAL_BATCH ? EVAL_BATCH : MOST_PIXELS / area;
    comparing c = {.model = m, .lpips = lpips, .t = t, .pixels = pixels,
                   .each = area * qkv_pixels_channels(pixels)};
    size_t factor = qkv_vqgan_factor(m);
    c.batch = batch ? batch : 1;
    c.features = of_perceptual->channels.item[of_perceptual->channels.count - 1];
    out->features = c.features;
    out->images = qkv_pixels_count(pixels);
    c.bytes[0] = qkv_malloc(ctx, 2 * c.batch * c.each);
    c.bytes[1] = c.bytes[0] + c.batch * c.each;
    c.codes = qkv_calloc(ctx, c.batch, area / (factor * factor) * sizeof *c.codes);
    status = c.bytes[0] && c.codes ? compare_all(&c, ctx, out) : QKV_E_MEMORY;
    qkv_free(ctx, c.codes);
    qkv_free(ctx, c.bytes[0]);
    return status;
}

/* ---- images and codes ------------------------------------------------------------------- */

qkv_status qkv_images_encode(qkv_model *m, qkv_tape *t, const uint8_t *images, size_t n,
                             size_t height, size_t width, int32_t *codes)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_ENCODE_IMAGES))
        return QKV_E_ARGUMENT;
    const size_t shape[] = {n, height, width,
                            ((const qkv_vqgan_config *)qkv_model_config(m))->colors};
    qkv__begin_inference(t);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, shape);
    if (x)
        from_bytes(qkv_tensor_fill(x), images, qkv_count(x));
    qkv_tensor *ids = qkv_vqgan_codes(m, t, qkv_vqgan_encode(m, t, x));
    const int32_t *found = qkv_data_ids(t, ids);
    if (found)
        memcpy(codes, found, qkv_count(ids) * sizeof *codes);
    qkv_status status = qkv_tape_status(t);
    qkv_tape_reset(t);
    return status;
}

qkv_status qkv_images_decode(qkv_model *m, qkv_tape *t, const int32_t *codes, size_t n,
                             size_t rows, size_t columns, uint8_t *images)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_ENCODE_IMAGES))
        return QKV_E_ARGUMENT;
    const qkv_vqgan_config *c = qkv_model_config(m);
    const size_t shape[] = {n, rows, columns};
    for (size_t i = 0; i < n * rows * columns; i++)
        if (codes[i] < 0 || (size_t)codes[i] >= c->codes)
            return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "row %zu, column %zu: code %d; "
                            "0 to %zu expected", i / columns % rows, i % columns, (int)codes[i],
                            c->codes - 1);
    qkv__begin_inference(t);
    qkv_tensor *ids = qkv_tensor_ids(t, codes, 3, shape);
    qkv_tensor *y = qkv_vqgan_decode(m, t, qkv_vqgan_vectors(m, t, ids));
    if (y)
        to_bytes(images, qkv_data(t, y), qkv_count(y));
    qkv_status status = qkv_tape_status(t);
    qkv_tape_reset(t);
    return status;
}
