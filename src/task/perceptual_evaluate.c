/* perceptual_evaluate.c - evaluating a perceptual network: whether images look the less like
 * themselves the more they are blurred, or the more noise lies over them. */
#include <math.h>

#include "dist/map.h"
#include "task/common.h"
#include "task/perceptual.h"

enum { COLORS = 3, STRENGTHS = QKV_PERCEPTUAL_STRENGTHS, REACHES = 3, MOST_REACH = 12 };
static const double VALUES = 2; /* from the darkest value to the brightest, -1 to 1 */
static const uint64_t SEED = 0x6E6F697365ull; /* all networks see the same noise */

static const double blur_widths[STRENGTHS] = {0.5, 1, 2, 4};
static const double noise_stds[STRENGTHS] = {0.02, 0.05, 0.1, 0.2};
const double *qkv_perceptual_blurs(void) { return blur_widths; }
const double *qkv_perceptual_noises(void) { return noise_stds; }

typedef struct {
    qkv_model *model;
    qkv_tape *t;
    const qkv_pixels *pixels;
    size_t height, width, count; /* count: numbers of an image */
    qkv_real *x, *y, *half;      /* (count) each: an image, a changed one, one half changed */
} evaluation;

/* ---- changes ------------------------------------------------------------------------------ */

/* out: the weighed means along an axis of n places, `step` numbers apart, about each number of in;
 * beyond its ends is what is at them. */
static void blur_axis(const evaluation *j, qkv_real *out, const qkv_real *in, double sigma,
                      size_t n, size_t step)
{
    double weights[MOST_REACH + 1], all = 0;
    size_t reach = (size_t)ceil(REACHES * sigma);
    for (size_t k = 0; k <= reach; k++) {
        weights[k] = exp(-(double)(k * k) / (2 * sigma * sigma));
        all += k ? 2 * weights[k] : weights[k];
    }
    for (size_t i = 0; i < j->count; i++) {
        size_t at = i / step % n, begin = i - at * step;
        double sum = weights[0] * (double)in[i];
        for (size_t k = 1; k <= reach; k++) {
            size_t before = at > k ? at - k : 0, behind = at + k < n ? at + k : n - 1;
            sum += weights[k] * ((double)in[begin + before * step] +
                                 (double)in[begin + behind * step]);
        }
        out[i] = (qkv_real)(sum / all);
    }
}

/* A Gaussian of standard deviation sigma pixels, cut off at three of them. */
static void perceptual_evaluate_blur(const evaluation *j, double sigma, uint64_t number)
{
    (void)number;
    blur_axis(j, j->half, j->x, sigma, j->width, COLORS);
    blur_axis(j, j->y, j->half, sigma, j->height, COLORS * j->width);
}

/* Of standard deviation sigma of all values; what leaves their range ends at it. */
static void add_noise(const evaluation *j, double sigma, uint64_t number)
{
    qkv_rng r;
    qkv_rng_init(&r, SEED, number);
    for (size_t i = 0; i < j->count; i++) {
        double v = (double)j->x[i] + VALUES * sigma * qkv_rng_normal(&r);
        j->y[i] = (qkv_real)(v < -1 ? -1 : v < 1 ? v : 1);
    }
}

/* ---- ranking ------------------------------------------------------------------------------ */

typedef void change_fn(const evaluation *j, double sigma, uint64_t number);

/* *ranks: whether each change is further from the image than the one before it, the first than
 * the image itself. */
static qkv_status rank(const evaluation *j, change_fn *change, const double *strengths,
                       size_t image, bool *ranks)
{
    const size_t shape[] = {1, j->height, j->width, COLORS};
    double last = 0;
    *ranks = true;
    for (size_t i = 0; i < STRENGTHS && *ranks; i++) {
        change(j, strengths[i], image * STRENGTHS + i);
        qkv__begin_inference(j->t);
        qkv_tensor *x = qkv_tensor_wrap(j->t, j->x, 4, shape);
        qkv_tensor *y = qkv_tensor_wrap(j->t, j->y, 4, shape);
        double d = (double)qkv_item(j->t, qkv_perceptual_distance(j->model, j->t, y, x));
        if (qkv_tape_status(j->t))
            return qkv_tape_status(j->t);
        *ranks = d > last;
        last = d;
    }
    return QKV_OK;
}

/* ranks: whether blurs of the image rank, and noises. */
static qkv_status perceptual_part(void *user, size_t image, double ranks[2])
{
    static const double half[] = {0.5, 0.5, 0.5}; /* mean and standard deviation: to [-1, 1] */
    const evaluation *j = user;
    bool by_blur = false, by_noise = false;
    qkv_pixels_values(j->x, qkv_model_context(j->model), j->pixels, &image, 1, half, half);
    qkv_status status = rank(j, perceptual_evaluate_blur, blur_widths, image, &by_blur);
    if (!status)
        status = rank(j, add_noise, noise_stds, image, &by_noise);
    ranks[0] = by_blur;
    ranks[1] = by_noise;
    return status;
}

qkv_status qkv_perceptual_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                   qkv_perceptual_score *out)
{
    qkv_context *ctx = qkv_model_context(m);
    *out = (qkv_perceptual_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_COMPARE_IMAGES))
        return QKV_E_ARGUMENT;
    size_t n = qkv_pixels_count(pixels);
    double ranks[2] = {0, 0};
    qkv_status status = qkv__perceptual_check(m, pixels);
    if (status)
        return status;
    evaluation j = {.model = m, .t = t, .pixels = pixels, .height = qkv_pixels_height(pixels),
                    .width = qkv_pixels_width(pixels)};
    j.count = j.height * j.width * COLORS;
    j.x = qkv_calloc(ctx, 3, j.count * sizeof *j.x);
    if (!j.x)
        return QKV_E_MEMORY;
    j.y = j.x + j.count;
    j.half = j.y + j.count;
    status = qkv__dist_map_sum(ctx, n, 2, perceptual_part, &j, ranks);
    qkv_tape_reset(t);
    qkv_free(ctx, j.x);
    out->blur = ranks[0] / (double)n;
    out->noise = ranks[1] / (double)n;
    out->images = n;
    return status;
}
