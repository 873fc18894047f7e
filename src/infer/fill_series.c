/* fill_series.c - filling in what is missing of a series. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "model/model.h"
#include "qkv/infer.h"
#include "tensor/make.h"

/* One window of the series: rows `at` .. at + length - 1. */
typedef struct {
    size_t at, length;
} window;

static bool has_gap(const qkv_series *s, const window *w)
{
    for (size_t i = w->at * s->columns; i < (w->at + w->length) * s->columns; i++)
        if (!isfinite(s->data[i]))
            return true;
    return false;
}

/* Rows between a row and the nearer end of the window that has it, where the series goes on. */
static size_t depth(const qkv_series *s, const window *w, size_t row)
{
    size_t before = w->at ? row - w->at : SIZE_MAX;
    size_t behind = w->at + w->length < s->rows ? w->at + w->length - 1 - row : SIZE_MAX;
    return before < behind ? before : behind;
}

/* Fills the rows of out that lie deeper in this window than in those before it. */
static qkv_status fill_window(qkv_model *m, qkv_tape *t, const qkv_series *s, const window *w,
                              size_t *deepest, qkv_real *out)
{
    size_t C = s->columns;
    const qkv_real *mean = qkv_series_mean(m), *std = qkv_series_std(m);
    const qkv_real *data = s->data + w->at * C;
    qkv__begin_inference(t);
    const qkv_series_batch in = {.data = &data, .lengths = &w->length, .count = 1};
    const qkv_real *y = qkv_data(t, qkv_series_fill(m, t, &in));
    for (size_t i = 0; i < w->length && y; i++) {
        size_t row = w->at + i, here = depth(s, w, row);
        if (deepest[row] && here < deepest[row])
            continue;
        deepest[row] = here;
        for (size_t j = 0; j < C; j++)
            if (!isfinite(s->data[row * C + j]))
                out[row * C + j] = y[i * C + j] * std[j] + mean[j];
    }
    return qkv_tape_status(t);
}

qkv_status qkv_fill_series(qkv_model *m, const qkv_series *s, qkv_real *out)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_FILL_SERIES))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    const qkv_series_config *c = qkv_model_config(m);
    if (s->columns != c->columns || !s->rows)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "rows of %zu numbers expected, found %zu rows of %zu",
                        c->columns, s->rows, s->columns);
    qkv_tape *t = NULL;
    size_t *deepest = qkv_calloc(ctx, s->rows, sizeof *deepest);
    qkv_status status = deepest ? qkv_tape_create(&t, ctx) : QKV_E_MEMORY;
    size_t length = s->rows < c->rows ? s->rows : c->rows, step = length / 2 ? length / 2 : 1;
    memcpy(out, s->data, s->rows * s->columns * sizeof *out);
    for (size_t at = 0; !status; at += step) {
        const window w = {at + length < s->rows ? at : s->rows - length, length};
        if (has_gap(s, &w))
            status = fill_window(m, t, s, &w, deepest, out);
        if (w.at + length == s->rows)
            break;
    }
    for (size_t i = 0; i < s->rows * s->columns && !status; i++)
        if (!isfinite(out[i]))
            status = qkv_fail(ctx, QKV_E_NUMERIC, "what fills a gap is %g", (double)out[i]);
    qkv_tape_destroy(t);
    qkv_free(ctx, deepest);
    return status;
}
