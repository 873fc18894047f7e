/* looks_judge.c - judging a perceptual network: whether pictures look the less like themselves the
 * more they are blurred, or the more noise lies over them. */
#include <math.h>

#include "base/base.h"
#include "task/looks.h"

enum { COLORS = 3, STRENGTHS = QKV_LOOKS_STRENGTHS, REACHES = 3, MOST_REACH = 12 };
static const double VALUES = 2; /* from the darkest value to the brightest, -1 to 1 */
static const uint64_t SEED = 0x6E6F697365ull; /* all networks see the same noise */

const double qkv_looks_blurs[STRENGTHS] = {0.5, 1, 2, 4};
const double qkv_looks_noises[STRENGTHS] = {0.02, 0.05, 0.1, 0.2};

typedef struct {
    qkv_model *model;
    qkv_tape *t;
    size_t height, width, count; /* count: numbers of a picture */
    qkv_real *x, *y, *half;      /* (count) each: a picture, a changed one, one half changed */
} judging;

/* ---- changes ------------------------------------------------------------------------------ */

/* out: the weighed means along an axis of n places, `step` numbers apart, about each number of in;
 * beyond its ends is what is at them. */
static void blur_axis(const judging *j, qkv_real *out, const qkv_real *in, double sigma, size_t n,
                      size_t step)
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

/* A Gaussian of deviation sigma pixels, cut off at three of them. */
static void blur(const judging *j, double sigma, uint64_t number)
{
    (void)number;
    blur_axis(j, j->half, j->x, sigma, j->width, COLORS);
    blur_axis(j, j->y, j->half, sigma, j->height, COLORS * j->width);
}

/* Of deviation sigma of all values; what leaves their range ends at it. */
static void add_noise(const judging *j, double sigma, uint64_t number)
{
    qkv_rng r;
    qkv_rng_init(&r, SEED, number);
    for (size_t i = 0; i < j->count; i++) {
        double v = (double)j->x[i] + VALUES * sigma * qkv_rng_normal(&r);
        j->y[i] = (qkv_real)(v < -1 ? -1 : v < 1 ? v : 1);
    }
}

/* ---- ranking ------------------------------------------------------------------------------ */

typedef void change_fn(const judging *j, double sigma, uint64_t number);

/* *ranks: whether each change is further from the picture than the one before it, the first than
 * the picture itself. */
static qkv_status rank(const judging *j, change_fn *change, const double *strengths, size_t picture,
                       bool *ranks)
{
    const size_t shape[] = {1, j->height, j->width, COLORS};
    double last = 0;
    *ranks = true;
    for (size_t i = 0; i < STRENGTHS && *ranks; i++) {
        change(j, strengths[i], picture * STRENGTHS + i);
        qkv_tape_reset(j->t);
        qkv_tape_mode(j->t, false, false);
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

qkv_status qkv_looks_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                              qkv_looks_score *out)
{
    static const double half[] = {0.5, 0.5, 0.5}; /* mean and deviation: to [-1, 1] */
    qkv_context *ctx = qkv_model_context(m);
    size_t n = qkv_pixels_count(pixels), blurs = 0, noises = 0;
    *out = (qkv_looks_score){0};
    qkv_status status = qkv__looks_check(m, pixels);
    if (status)
        return status;
    judging j = {.model = m, .t = t, .height = qkv_pixels_height(pixels),
                 .width = qkv_pixels_width(pixels)};
    j.count = j.height * j.width * COLORS;
    j.x = qkv_calloc(ctx, 3, j.count * sizeof *j.x);
    if (!j.x)
        return QKV_E_MEMORY;
    j.y = j.x + j.count;
    j.half = j.y + j.count;
    for (size_t i = 0; i < n && !status; i++) {
        bool by_blur = false, by_noise = false;
        qkv_pixels_values(j.x, ctx, pixels, &i, 1, half, half);
        status = rank(&j, blur, qkv_looks_blurs, i, &by_blur);
        if (!status)
            status = rank(&j, add_noise, qkv_looks_noises, i, &by_noise);
        blurs += by_blur;
        noises += by_noise;
    }
    qkv_tape_reset(t);
    qkv_free(ctx, j.x);
    out->blur = (double)blurs / (double)n;
    out->noise = (double)noises / (double)n;
    out->pictures = n;
    return status;
}
