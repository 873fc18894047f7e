/* mix.c - mixtures of two samples: how much of each, and where. */
#include <math.h>

#include "image/augment_steps.h"

/* Gamma(a, 1), Marsaglia and Tsang 2000. Its logarithm, since small a give tiny numbers. */
static double log_gamma_number(qkv_rng *r, double a)
{
    double lift = 0;
    if (a < 1) { /* Gamma(a) = Gamma(a + 1) U^(1/a) */
        lift = log(1 - qkv_rng_uniform(r)) / a;
        a += 1;
    }
    double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = qkv_rng_normal(r), v = 1 + c * x;
        v = v * v * v;
        if (v > 0 && log(1 - qkv_rng_uniform(r)) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + lift;
    }
}

double qkv__rng_beta(qkv_rng *r, double a)
{
    double x = log_gamma_number(r, a), y = log_gamma_number(r, a);
    return 1 / (1 + exp(y - x));
}

/* A box of about share 1 - keep of the area about a place anywhere, cut at the edges; keep
 * becomes what is left. */
static void draw_box(qkv__mixture *m, size_t height, size_t width, qkv_rng *r)
{
    double side = sqrt(1 - m->keep);
    size_t h = (size_t)((double)height * side) / 2, w = (size_t)((double)width * side) / 2;
    size_t y = qkv_rng_below(r, (uint32_t)height), x = qkv_rng_below(r, (uint32_t)width);
    m->top = y > h ? y - h : 0;
    m->left = x > w ? x - w : 0;
    m->bottom = y + h < height ? y + h : height;
    m->right = x + w < width ? x + w : width;
    m->keep = 1 - (double)((m->bottom - m->top) * (m->right - m->left)) / (double)(height * width);
}

qkv__mixture qkv__draw_mixture(const qkv_augment_options *o, size_t height, size_t width,
                               qkv_rng *r)
{
    qkv__mixture m = {.keep = 1, .pixel_keep = 1};
    bool cut = o->cutmix > 0;
    if (qkv_rng_uniform(r) >= o->mix)
        return m;
    if (o->mixup > 0 && o->cutmix > 0)
        cut = qkv_rng_u32(r) >> 31;
    m.keep = qkv__rng_beta(r, cut ? o->cutmix : o->mixup);
    if (cut)
        draw_box(&m, height, width, r);
    else
        m.pixel_keep = m.keep;
    return m;
}
