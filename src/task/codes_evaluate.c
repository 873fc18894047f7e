/* codes_evaluate.c - coding images, decoding them, and evaluating what comes back. */
#include <math.h>
#include <string.h>

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
    size_t each;    /* numbers of an image */
    size_t *met;    /* (codes) how often */
    uint8_t *bytes; /* (2, EVAL_BATCH, each): the true ones, the decoded ones */
    double unlike, squares, ssim;
} evaluation;

static void add_images(evaluation *j, size_t n)
{
    const uint8_t *a = j->bytes, *b = j->bytes + EVAL_BATCH * j->each;
    size_t height = qkv_pixels_height(j->pixels), width = qkv_pixels_width(j->pixels);
    for (size_t i = 0; i < n * j->each; i++)
        j->squares += (a[i] - b[i]) * (a[i] - b[i]);
    for (size_t i = 0; i < n; i++)
        j->ssim += qkv_ssim(a + i * j->each, b + i * j->each, height, width,
                            qkv_pixels_channels(j->pixels));
}

static qkv_status codes_evaluate_batch(evaluation *j, const size_t *images, size_t n)
{
    qkv_tape *t = j->t;
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
    j->unlike += (double)n * (double)qkv_item(t, unlike);
    const int32_t *ids = qkv_data_ids(t, codes);
    for (size_t i = 0; ids && i < qkv_count(codes); i++)
        j->met[ids[i]]++;
    to_bytes(j->bytes, qkv_data(t, x), n * j->each);
    to_bytes(j->bytes + EVAL_BATCH * j->each, qkv_data(t, y), n * j->each);
    add_images(j, n);
    return QKV_OK;
}

static void sum_up(const evaluation *j, size_t count, size_t codes, qkv_codes_score *out)
{
    double all = 0, entropy = 0, n = (double)count;
    for (size_t k = 0; k < codes; k++) {
        all += (double)j->met[k];
        out->used += (j->met[k] > 0) / (double)codes;
    }
    for (size_t k = 0; k < codes; k++)
        if (j->met[k])
            entropy -= (double)j->met[k] / all * log2((double)j->met[k] / all);
    out->perplexity = exp2(entropy);
    out->loss = j->unlike / n;
    out->psnr = qkv_psnr(j->squares, n * (double)j->each);
    out->ssim = j->ssim / n;
    out->images = count;
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
    size_t n = qkv_pixels_count(pixels), count = qkv__limited(limit, n);
    evaluation j = {.model = m, .lpips = lpips, .perceptual = perceptual, .t = t, .pixels = pixels};
    j.each = qkv_pixels_height(pixels) * qkv_pixels_width(pixels) * c->colors;
    j.met = qkv_calloc(ctx, c->codes, sizeof *j.met);
    j.bytes = qkv_malloc(ctx, 2 * EVAL_BATCH * j.each);
    status = j.met && j.bytes ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i += EVAL_BATCH) {
        size_t images[EVAL_BATCH], b = count - i < EVAL_BATCH ? count - i : EVAL_BATCH;
        for (size_t k = 0; k < b; k++)
            images[k] = qkv__evenly(i + k, count, n);
        status = codes_evaluate_batch(&j, images, b);
    }
    if (!status)
        sum_up(&j, count, c->codes, out);
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

qkv_status qkv_codes_find(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels, double *share)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_ENCODE_IMAGES))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    *share = 0;
    qkv_status status = qkv__codes_check(m, pixels, "held-out");
    if (status)
        return status;
    size_t height = qkv_pixels_height(pixels), width = qkv_pixels_width(pixels);
    size_t factor = qkv_vqgan_factor(m), rows = height / factor, columns = width / factor;
    size_t each = height * width * qkv_pixels_channels(pixels), n = qkv_pixels_count(pixels);
    size_t found = 0;
    uint8_t *decoded = qkv_malloc(ctx, each);
    int32_t *codes = qkv_calloc(ctx, rows, columns * sizeof *codes);
    status = decoded && codes ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++) {
        status = qkv_images_encode(m, t, qkv_pixels_data(pixels, i), 1, height, width, codes);
        if (!status)
            status = qkv_images_decode(m, t, codes, 1, rows, columns, decoded);
        if (!status)
            found += is_nearest(pixels, i, decoded, each);
    }
    *share = status ? 0 : (double)found / (double)n;
    qkv_free(ctx, codes);
    qkv_free(ctx, decoded);
    return status;
}

/* ---- how they look to a network ----------------------------------------------------------- */

typedef struct {
    qkv_model *model, *lpips;
    qkv_tape *t;
    const qkv_pixels *pixels;
    size_t each;       /* numbers of an image */
    uint8_t *bytes[2]; /* (batch, each): the true ones, the decoded ones */
    int32_t *codes;
    qkv_frechet *frechet;
    double unlike;
} comparing;

/* Those bytes as a network sees them; what it makes of each image, on the mean, is kept. */
static qkv_tensor *codes_evaluate_look_at(comparing *c, size_t n, bool decoded)
{
    qkv_tensor *x = qkv__images_tensor(c->t, c->pixels, n);
    if (x)
        from_bytes(qkv_tensor_fill(x), c->bytes[decoded], qkv_count(x));
    qkv_tensor *features = qkv_perceptual_features(c->lpips, c->t, x);
    const qkv_tensor *means = qkv_mean_axis(c->t, qkv_mean_axis(c->t, features, 1), 1);
    if (means)
        qkv_frechet_add(c->frechet, decoded, qkv_data(c->t, means), n);
    return x;
}

static qkv_status compare_batch(comparing *c, size_t first, size_t n)
{
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
    qkv_tensor *x = codes_evaluate_look_at(c, n, false), *y = codes_evaluate_look_at(c, n, true);
    qkv_tensor *unlike = qkv_perceptual_distance(c->lpips, c->t, y, x);
    c->unlike += (double)n * (double)qkv_item(c->t, unlike);
    status = qkv_tape_status(c->t);
    qkv_tape_reset(c->t);
    return status;
}

static qkv_status codes_evaluate_prepare(comparing *c, qkv_context *ctx, size_t batch,
                                         size_t features)
{
    size_t factor = qkv_vqgan_factor(c->model);
    size_t codes = c->each / (factor * factor * qkv_pixels_channels(c->pixels));
    c->bytes[0] = qkv_malloc(ctx, batch * c->each);
    c->bytes[1] = qkv_malloc(ctx, batch * c->each);
    c->codes = qkv_calloc(ctx, batch, codes * sizeof *c->codes);
    return c->bytes[0] && c->bytes[1] && c->codes
               ? qkv_frechet_create(&c->frechet, ctx, features)
               : QKV_E_MEMORY;
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
    size_t count = qkv_pixels_count(pixels);
    size_t area = qkv_pixels_height(pixels) * qkv_pixels_width(pixels);
    size_t batch = area < MOST_PIXELS / EVAL_BATCH ? EVAL_BATCH : MOST_PIXELS / area;
    comparing c = {.model = m, .lpips = lpips, .t = t, .pixels = pixels,
                   .each = area * qkv_pixels_channels(pixels)};
    batch = batch ? batch : 1;
    out->features = of_perceptual->channels.item[of_perceptual->channels.count - 1];
    out->images = count;
    status = codes_evaluate_prepare(&c, ctx, batch, out->features);
    for (size_t i = 0; i < count && !status; i += batch)
        status = compare_batch(&c, i, count - i < batch ? count - i : batch);
    if (!status)
        status = qkv_frechet_distance(c.frechet, &out->frechet);
    out->lpips = c.unlike / (double)count;
    qkv_frechet_destroy(c.frechet);
    qkv_free(ctx, c.codes);
    qkv_free(ctx, c.bytes[1]);
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
