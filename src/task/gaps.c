/* gaps.c - hiding spans of a series. */
#include "task/gaps.h"

#include <math.h>

static const uint32_t GAP = 0x47415053u; /* a stream of numbers */

/* Four words for a row of a column of a sample. */
static void gaps_draw(uint64_t seed, uint64_t sample, size_t row, size_t column, uint32_t word[4])
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)row, (uint32_t)sample,
                                 (uint32_t)(sample >> 32) ^ (uint32_t)column << 8, GAP};
    qkv__philox(word, counter, key);
}

static double share_of(uint32_t word) { return word / 4294967296.0; } /* [0, 1) */

/* Hides spans of one column; a span ends, or begins, at each row with a probability of its own. */
static size_t hide_column(const qkv_series_config *c, uint64_t seed, uint64_t sample, size_t stream,
                          size_t column, size_t rows, qkv_real *out)
{
    double ends = 1 / (double)c->mask_span, begins = ends * c->mask / (1 - c->mask);
    size_t hidden = 0;
    bool inside = false;
    for (size_t i = 0; i < rows; i++) {
        uint32_t word[4];
        qkv_real *value = &out[i * c->columns + column];
        gaps_draw(seed, sample, i, stream, word);
        inside = i ? share_of(word[0]) < (inside ? 1 - ends : begins)
                   : share_of(word[0]) < c->mask;
        if (!inside)
            continue;
        hidden += isfinite(*value) != 0;
        *value = (qkv_real)NAN;
    }
    return hidden;
}

/* Hides one known value, if there is one. */
static size_t hide_one(const qkv_series_config *c, uint64_t seed, uint64_t sample, size_t rows,
                       qkv_real *out)
{
    uint32_t word[4];
    size_t n = rows * c->columns;
    gaps_draw(seed, sample, rows, 0, word);
    for (size_t i = 0; i < n; i++) {
        qkv_real *value = &out[(word[0] + i) % n];
        if (!isfinite(*value))
            continue;
        *value = (qkv_real)NAN;
        return 1;
    }
    return 0;
}

size_t qkv__gaps_hide(const qkv_series_config *c, uint64_t seed, uint64_t sample,
                      const qkv_real *window, size_t rows, qkv_real *out)
{
    uint32_t word[4];
    size_t hidden = 0;
    for (size_t i = 0; i < rows * c->columns; i++)
        out[i] = window[i];
    gaps_draw(seed, sample, rows, 1, word);
    bool together = share_of(word[0]) < 0.5;
    for (size_t j = 0; j < c->columns; j++)
        hidden += hide_column(c, seed, sample, together ? 0 : j, j, rows, out);
    return hidden ? hidden : hide_one(c, seed, sample, rows, out);
}
