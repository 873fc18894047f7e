/* rotary.c - angles of rotary positions, also of models whose context was extended past the length
 * that they were first trained for. */
#include <math.h>

#include "nn/rotary.h"

static const double PI = 3.14159265358979323846;

size_t qkv_rotary_width(const qkv_rotary_config *c, size_t head_width)
{
    return c->share > 0 ? (size_t)((double)head_width * c->share) : head_width;
}

qkv_status qkv__rotary_check(qkv_context *ctx, const qkv_rotary_config *c, size_t head_width,
                             const char *name)
{
    size_t width = qkv_rotary_width(c, head_width);
    if (width % 2 != 0 || width > head_width)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: rotary positions need an even number of channels "
                        "of a head, not %zu of %zu", name, width, head_width);
    if (c->kind < 0 || c->kind > QKV_ROPE_YARN)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: rotary positions of kind %d", name, (int)c->kind);
    if (c->kind != QKV_ROPE_DEFAULT && !(c->factor >= 1))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: rotary positions are extended by the factor %g: "
                        "1 or more expected", name, c->factor);
    if (c->kind > QKV_ROPE_LINEAR && !c->original)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: rotary positions are extended from an original "
                        "length of 0", name);
    if (c->kind == QKV_ROPE_LLAMA3 && !(c->high > c->low && c->low > 0))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: rotary positions with factors %g for low and %g "
                        "for high frequencies: 0 < low < high expected", name, c->low, c->high);
    return QKV_OK;
}

/* Frequencies of fewer than `low` turns in the original length are divided by the factor, those of
 * more than `high` stay, and what lies between is mixed (Llama 3.1, Dubey et al. 2024). */
static double llama3_frequency(const qkv_rotary_config *c, double frequency)
{
    double turns = (double)c->original * frequency / (2 * PI);
    double mix = fmin(1, fmax(0, (turns - c->low) / (c->high - c->low)));
    return frequency * (mix + (1 - mix) / c->factor);
}

/* The pair that makes so many turns in the original length; real (YaRN, Peng et al. 2023, 3.2). */
static double pair_of_turns(const qkv_rotary_config *c, double turns, size_t width)
{
    return (double)width * log((double)c->original / (turns * 2 * PI)) / (2 * log(c->base));
}

/* Pairs before `low` keep their frequency, those after `high` are divided by the factor. The ends
 * are whole, and the last one at most width - 1, as in the code that its authors published. */
static double yarn_frequency(const qkv_rotary_config *c, double frequency, size_t i, size_t width)
{
    double low = pair_of_turns(c, c->beta_fast > 0 ? c->beta_fast : 32, width);
    double high = pair_of_turns(c, c->beta_slow > 0 ? c->beta_slow : 1, width);
    if (!c->fractional) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)width - 1);
    high += low == high ? 0.001 : 0;
    double mix = fmin(1, fmax(0, ((double)i - low) / (high - low)));
    return frequency * (1 - mix + mix / c->factor);
}

static double yarn_scale_of(double factor, double weight)
{
    return factor > 1 ? 0.1 * weight * log(factor) + 1 : 1;
}

static double yarn_scale(const qkv_rotary_config *c)
{
    if (c->attention_factor > 0)
        return c->attention_factor;
    if (c->mscale > 0 && c->mscale_all_dim > 0)
        return yarn_scale_of(c->factor, c->mscale) / yarn_scale_of(c->factor, c->mscale_all_dim);
    return yarn_scale_of(c->factor, 1);
}

double qkv_rotary_frequencies(const qkv_rotary_config *c, size_t head_width, double *frequency)
{
    size_t width = qkv_rotary_width(c, head_width);
    for (size_t i = 0; i < width / 2; i++) {
        double f = pow(c->base, -2 * (double)i / (double)width);
        frequency[i] = c->kind == QKV_ROPE_LINEAR   ? f / c->factor
                       : c->kind == QKV_ROPE_LLAMA3 ? llama3_frequency(c, f)
                       : c->kind == QKV_ROPE_YARN   ? yarn_frequency(c, f, i, width)
                                                    : f;
    }
    return c->kind == QKV_ROPE_YARN ? yarn_scale(c) : 1;
}
