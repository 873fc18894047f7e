/* gguf_llama3.c - llama3's way to extend rotary positions (src/nn/rotary.c), of which a file does
 * not have the parameters but what they make: for each frequency the number it is divided by.
 *
 * Let a frequency make x turns a token, and let it be divided by d(x). Between its ends 1 / factor
 * and 1, 1 / d is a line in x, which reaches them at x = low / length and x = high / length. So the
 * divisors tell the factor and these two quotients. Where the length is not told, every length has
 * a low and a high that make the same frequencies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hub/gguf_parts.h"

static const double NEAR = 1e-5, PI = 3.14159265358979323846;
enum { LEAST_LENGTH = 256, DIGITS = 17 };

/* What is searched, and arrays of n. */
typedef struct {
    qkv_rotary_config *c;
    size_t head_width, n, told; /* told: the length; 0: it is not */
    double *divisors, *made, *scratch, *x;
    double *height; /* of the line: (1 / d - 1 / factor) / (1 - 1 / factor) */
} search;

void qkv__llama3_divisors(const qkv_rotary_config *c, size_t head_width, double *out,
                          double *scratch)
{
    qkv_rotary_config plain = *c;
    plain.kind = QKV_ROPE_DEFAULT;
    (void)qkv_rotary_frequencies(&plain, head_width, out);
    (void)qkv_rotary_frequencies(c, head_width, scratch);
    for (size_t i = 0; i < head_width / 2; i++)
        out[i] /= scratch[i];
}

/* Whether s->c makes the divisors. */
static bool makes(const search *s)
{
    bool same = s->c->low > 0 && s->c->high > s->c->low;
    if (same)
        qkv__llama3_divisors(s->c, s->head_width, s->made, s->scratch);
    for (size_t i = 0; same && i < s->n; i++)
        same = fabs(s->made[i] - s->divisors[i]) <= NEAR * s->made[i];
    return same;
}

/* With low and high of all models that Meta published, and the length told or a power of two. */
static bool find_usual_ends(search *s)
{
    s->c->low = 1;
    s->c->high = 4;
    s->c->original = s->told;
    if (s->told)
        return makes(s);
    for (s->c->original = LEAST_LENGTH; s->c->original <= QKV__GGUF_MOST_LENGTH;
         s->c->original *= 2)
        if (makes(s))
            return true;
    return false;
}

/* A line that rises from 0 to 1 as the heights do. */
typedef struct {
    double slope, x, height; /* at x */
} line;

static line find_line(const search *s)
{
    const double *x = s->x, *y = s->height;
    size_t first = 0;
    while (first < s->n && y[first] >= 1 - NEAR)
        first++;
    size_t end = first;
    while (end < s->n && y[end] > NEAR)
        end++;
    if (end - first > 1) /* several frequencies lie on it */
        return (line){(y[first] - y[end - 1]) / (x[first] - x[end - 1]), x[first], y[first]};
    if (end == 0) /* none, and all are divided by the factor */
        return (line){1 / x[0], x[0], 0};
    if (end == first) /* none: it joins the ends */
        return (line){1 / (x[end - 1] - x[end]), x[end - 1], 1};
    /* One: as steep as its neighbours need it. */
    const double down = y[first] / (x[first] - x[end]);
    const double up = first ? (1 - y[first]) / (x[first - 1] - x[first]) : 0;
    return (line){fmax(up, down), x[first], y[first]};
}

static double rounded(double x, int digits)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%.*g", digits, x);
    return strtod(text, NULL);
}

/* With the length told, or that of which low is 1; of all low and high the shortest decimals. */
static bool find_any_ends(search *s)
{
    qkv_rotary_config *c = s->c, plain = *c;
    plain.kind = QKV_ROPE_DEFAULT;
    (void)qkv_rotary_frequencies(&plain, s->head_width, s->x);
    for (size_t i = 0; i < s->n; i++) {
        s->x[i] /= 2 * PI;
        s->height[i] = (1 / s->divisors[i] - 1 / c->factor) / (1 - 1 / c->factor);
    }
    const line l = find_line(s);
    const double low = l.x - l.height / l.slope, high = low + 1 / l.slope;
    if (!(low > 1.0 / QKV__GGUF_MOST_LENGTH && high > low))
        return false;
    c->original = s->told ? s->told : (size_t)fmax(1, round(1 / low));
    for (int digits = 1; digits <= DIGITS; digits++) {
        c->low = rounded(low * (double)c->original, digits);
        c->high = rounded(high * (double)c->original, digits);
        if (makes(s))
            return true;
    }
    return false;
}

qkv_status qkv__llama3_of_divisors(qkv_context *ctx, qkv_rotary_config *c, size_t told,
                                   const qkv_real *divisors, size_t head_width, bool *found)
{
    const size_t n = head_width / 2;
    double *arrays = qkv_malloc(ctx, 5 * n * sizeof *arrays);
    if (!arrays)
        return QKV_E_MEMORY;
    search s = {c, head_width, n, told, arrays, arrays + n, arrays + 2 * n, arrays + 3 * n,
                arrays + 4 * n};
    for (size_t i = 0; i < n; i++)
        s.divisors[i] = (double)divisors[i];
    c->kind = QKV_ROPE_LLAMA3;
    c->factor = s.divisors[n - 1]; /* the lowest frequency's */
    *found = c->factor >= 1 && isfinite(c->factor) && c->base > 1 &&
             (find_usual_ends(&s) || (c->factor > 1 && find_any_ends(&s)));
    qkv_free(ctx, arrays);
    return QKV_OK;
}
