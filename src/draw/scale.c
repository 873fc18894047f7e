/* scale.c - values as colours. */
#include <math.h>
#include <string.h>

#include "draw/axis.h"

qkv__scale qkv__scale_of(double min, double max, bool diverging, const float *values,
                         size_t count)
{
    qkv__scale s = {min, max, diverging};
    if (min == 0.0 && max == 0.0) {
        for (size_t i = 0; i < count; i++)
            if (isfinite(values[i])) {
                s.min = fmin(s.min, (double)values[i]);
                s.max = fmax(s.max, (double)values[i]);
            }
    }
    if (diverging) {
        s.max = fmax(fabs(s.min), fabs(s.max));
        s.min = -s.max;
    }
    if (s.max <= s.min)
        s.max = s.min + 1.0;
    return s;
}

static double scale_share(const qkv__scale *s, double value)
{
    if (isnan(value))
        return value;
    double share = fmin(fmax((value - s->min) / (s->max - s->min), 0.0), 1.0);
    return s->diverging ? 2.0 * share - 1.0 : share;
}

qkv_ink qkv__scale_ink(const qkv__scale *s, double value)
{
    double share = scale_share(s, value);
    return s->diverging ? qkv_ink_diverging(share) : qkv_ink_heat(share);
}

qkv_ink qkv__scale_ink_on(const qkv__scale *s, double value)
{
    if (isnan(value))
        return qkv_ink_of(QKV_INK_TEXT);
    return (qkv_ink){.role = s->diverging ? QKV_INK_ON_DIVERGING : QKV_INK_ON_HEAT,
                     .value = scale_share(s, value)};
}

void qkv__draw_scale(qkv_drawing *d, qkv_frame at, const qkv__scale *s)
{
    enum { STEPS = 48 };
    qkv__ticks ticks;
    qkv__axis axis = {s->min, s->max, at.y + at.height, at.y, false};
    qkv__draw_begin_cells(d, NULL, NULL);
    for (int i = 0; i < STEPS; i++) {
        double value = s->max - (i + 0.5) / STEPS * (s->max - s->min);
        qkv_draw_rect(d,
                      (qkv_frame){at.x, at.y + at.height * i / STEPS, at.width,
                                  at.height / STEPS + 0.2},
                      qkv__scale_ink(s, value), qkv_ink_none());
    }
    qkv_draw_end(d);
    qkv__axis_ticks(&axis, (size_t)fmax(1.0, fmin(5.0, at.height / 22.0)), &ticks);
    for (size_t i = 0; i < ticks.count; i++) {
        double y = qkv__axis_at(&axis, ticks.at[i]);
        qkv_draw_line(d, at.x + at.width, y, at.x + at.width + 4.0, y,
                      qkv_ink_of(QKV_INK_FAINT), 1.0);
        qkv_draw_text(d, at.x + at.width + 7.0, y + 4.0, ticks.text[i],
                      &(qkv_text_style){.size = QKV__SMALL, .ink = qkv_ink_of(QKV_INK_FAINT)});
    }
}

qkv_status qkv__scale_image(const qkv__scale *s, qkv_image *out, qkv_context *ctx,
                            const float *values, size_t rows, size_t columns)
{
    enum { LEVELS = 256, MISSING = LEVELS };
    uint8_t colors[LEVELS + 1][3];
    qkv_status status = qkv_image_create(out, ctx, columns, rows, 3);
    double step = (s->max - s->min) / (LEVELS - 1);
    for (int i = 0; i < LEVELS; i++)
        qkv_ink_color(qkv__scale_ink(s, s->min + step * i), false, colors[i]);
    qkv_ink_color(qkv__scale_ink(s, NAN), false, colors[MISSING]);
    for (size_t i = 0; !status && i < rows * columns; i++) {
        double level = fmin(fmax(((double)values[i] - s->min) / step, 0.0), LEVELS - 1.0);
        memcpy(out->data + 3 * i, colors[isnan(values[i]) ? MISSING : (int)(level + 0.5)], 3);
    }
    return status;
}

static void scale_cells(qkv_drawing *d, qkv_frame at, const qkv__scale *s, const float *values,
                        size_t rows, size_t columns)
{
    double width = at.width / (double)columns, height = at.height / (double)rows;
    qkv__draw_begin_cells(d, NULL, NULL);
    for (size_t i = 0; i < rows * columns; i++)
        qkv_draw_rect(d,
                      (qkv_frame){at.x + width * (double)(i % columns),
                                  at.y + height * (double)(i / columns), width, height},
                      qkv__scale_ink(s, (double)values[i]), qkv_ink_none());
    qkv_draw_end(d);
}

void qkv__draw_matrix(qkv_drawing *d, qkv_frame at, const qkv__scale *s, const float *values,
                      size_t rows, size_t columns)
{
#ifdef QKV_HAVE_IMAGES
    const bool images = true;
#else
    const bool images = false;
#endif
    qkv_image image = {0};
    if (qkv_drawing_status(d) || !rows || !columns)
        return;
    if (!images) {
        scale_cells(d, at, s, values, rows, columns);
        return;
    }
    qkv__drawing_fail(d, qkv__scale_image(s, &image, d->ctx, values, rows, columns));
    if (image.data)
        qkv_draw_image(d, at, &image, false);
    qkv_image_free(&image, d->ctx);
}
