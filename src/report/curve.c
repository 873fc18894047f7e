/* curve.c - the series of a model of series as a curve, with the weights of a row over its
 * steps: drawn, as text, and as JSON. */
#include "report/looking.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void qkv__look_free_series(qkv_look_series *s, qkv_context *ctx)
{
    for (size_t i = 0; s->names && i < s->columns; i++)
        qkv_free(ctx, s->names[i]);
    if (ctx) {
        qkv_free(ctx, s->names);
        qkv_free(ctx, s->values);
        qkv_free(ctx, s->answers);
    }
    *s = (qkv_look_series){0};
}

static size_t row_count(const qkv_look_series *s) { return s->read + s->made; }

static double value_at(const qkv_look_series *s, size_t row, size_t column)
{
    return (double)s->values[row * s->columns + column];
}

static double answer_at(const qkv_look_series *s, size_t row, size_t column)
{
    return column < s->targets ? (double)s->answers[row * s->targets + column] : (double)NAN;
}

/* The least and the largest of a column, apart by more than nothing. */
static void range_of(const qkv_look_series *s, size_t column, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < row_count(s); i++) {
        double v = value_at(s, i, column), y = answer_at(s, i, column);
        *low = fmin(*low, fmin(v, y)); /* of a NaN and a number the number */
        *high = fmax(*high, fmax(v, y));
    }
    if (!(*high > *low)) {
        *low = isfinite(*low) ? *low - 1 : 0;
        *high = *low + 2;
    }
}

/* What an answer is called in a caption; "": there is none. */
static const char *answer_note(const qkv_look_series *s)
{
    for (size_t i = 0; i < row_count(s) * s->targets; i++)
        if (isfinite(s->answers[i]))
            return s->made ? "; blue: the model" : "; blue: what is filled in";
    return "";
}

static double peak_of(const double *row, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, row[i]);
    return most;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void qkv__look_series_json(const qkv_look *l, bool visible, qkv_json_writer *w)
{
    const qkv_look_series *s = &l->series;
    qkv_str name;
    qkv_str_init(&name, l->ctx);
    qkv_json_begin_object(w, "series");
    if (s->names)
        qkv_json_begin_array(w, "columns");
    for (size_t i = 0; s->names && i < s->columns; i++) {
        qkv_str_clear(&name);
        if (visible)
            qkv_str_visible(&name, s->names[i], strlen(s->names[i]), QKV_ESCAPE_NOTHING, false);
        qkv_json_put_string(w, NULL, !visible ? s->names[i] : name.data ? name.data : "");
    }
    if (s->names)
        qkv_json_end_array(w);
    qkv_str_free(&name);
    qkv_json_put_int(w, "first", (int64_t)s->first);
    qkv_json_put_int(w, "read", (int64_t)s->read);
    qkv_json_put_int(w, "made", (int64_t)s->made);
    qkv__look_put_rows(w, "values", s->values, row_count(s), s->columns);
    qkv__look_put_rows(w, "answers", s->answers, row_count(s), s->targets);
    qkv_json_end_object(w);
}

/* ---- drawings -------------------------------------------------------------------------------- */

enum { WIDTH = 720, CURVE = 150, LEFT = 64, RIGHT = 16, TOP = 30, GAP = 34, MOST_CURVES = 4 };

/* One column's frame and scale. */
typedef struct {
    const qkv_look_series *s;
    size_t column;
    qkv_frame frame;
    double low, high;
} curve;

static double x_of(const curve *c, double row)
{
    return c->frame.x + c->frame.width * row / (double)row_count(c->s);
}

static double y_of(const curve *c, double value)
{
    return c->frame.y + c->frame.height * (1 - (value - c->low) / (c->high - c->low));
}

typedef double curve_value(const qkv_look_series *s, size_t row, size_t column);

/* Rows from .. to - 1 of what `value` says, as a line; a row between missing ones as a point. */
static void draw_values(qkv_drawing *d, const curve *c, qkv_point *points, curve_value *value,
                        size_t from, size_t to, qkv_ink ink, bool dashed)
{
    for (size_t i = from; i < to; i++)
        points[i] = (qkv_point){x_of(c, (double)i + 0.5), y_of(c, value(c->s, i, c->column))};
    qkv_draw_polyline(d, points + from, to - from, ink, 1.5, dashed);
    for (size_t i = from; i < to; i++)
        if (isfinite(points[i].y) && (i == from || !isfinite(points[i - 1].y)) &&
            (i + 1 == to || !isfinite(points[i + 1].y)))
            qkv_draw_circle(d, points[i].x, points[i].y, 2.5, ink, qkv_ink_none());
}

static void draw_scale(qkv_drawing *d, const curve *c)
{
    const qkv_text_style end = {.size = 11, .anchor = QKV_ANCHOR_END,
                                .ink = qkv_ink_of(QKV_INK_FAINT)};
    const qkv_frame f = c->frame;
    char text[64];
    (void)snprintf(text, sizeof text, "%.4g", c->high);
    qkv_draw_text(d, f.x - 5, f.y + 10, text, &end);
    (void)snprintf(text, sizeof text, "%.4g", c->low);
    qkv_draw_text(d, f.x - 5, f.y + f.height, text, &end);
    (void)snprintf(text, sizeof text, "row %zu", c->s->first + 1);
    qkv_draw_text(d, f.x, f.y + f.height + 14, text,
                  &(qkv_text_style){.size = 11, .ink = qkv_ink_of(QKV_INK_FAINT)});
    (void)snprintf(text, sizeof text, "row %zu", c->s->first + row_count(c->s));
    qkv_draw_text(d, f.x + f.width, f.y + f.height + 14, text, &end);
    if (c->s->names)
        qkv_draw_text(d, f.x + f.width, f.y - 5, c->s->names[c->column],
                      &(qkv_text_style){.size = 11, .anchor = QKV_ANCHOR_END});
}

static void draw_curve(qkv_drawing *d, const curve *c, const qkv_look_axis *keys,
                       const double *row, double peak, qkv_point *points)
{
    const qkv_look_series *s = c->s;
    const qkv_frame f = c->frame;
    for (size_t i = 0; i < keys->count && peak > 0; i++) {
        double from = (double)(keys->from + i * keys->span);
        double to = fmin(from + (double)keys->span, (double)row_count(s));
        qkv_ink ink = qkv_ink_series(1);
        ink.transparency = 1 - 0.8 * row[i] / peak;
        qkv_draw_rect(d, (qkv_frame){x_of(c, from), f.y, x_of(c, to) - x_of(c, from), f.height},
                      ink, qkv_ink_none());
    }
    qkv_draw_rect(d, f, qkv_ink_none(), qkv_ink_of(QKV_INK_GRID));
    if (s->made)
        qkv_draw_line(d, x_of(c, (double)s->read), f.y, x_of(c, (double)s->read),
                      f.y + f.height, qkv_ink_of(QKV_INK_FAINT), 1);
    draw_values(d, c, points, value_at, 0, s->read, qkv_ink_of(QKV_INK_TEXT), false);
    draw_values(d, c, points, value_at, s->read, row_count(s), qkv_ink_of(QKV_INK_TEXT), true);
    draw_values(d, c, points, answer_at, 0, row_count(s), qkv_ink_series(0), false);
    draw_scale(d, c);
}

qkv_status qkv__look_draw_row(const qkv_look *l, const qkv_look_axis *keys, const double *row,
                              const char *title, qkv_drawing **out)
{
    const qkv_look_series *s = &l->series;
    size_t curves = s->columns < MOST_CURVES ? s->columns : MOST_CURVES;
    double peak = peak_of(row, keys->count);
    char note[160];
    bool truth = false;
    for (size_t i = s->read * s->columns; i < row_count(s) * s->columns; i++)
        truth = truth || isfinite(s->values[i]);
    qkv_point *points = qkv_calloc(l->ctx, row_count(s) + 1, sizeof *points);
    qkv_status status = points ? qkv_drawing_create(out, l->ctx, WIDTH, TOP + 18 +
                                                    (double)curves * (CURVE + GAP))
                               : QKV_E_MEMORY;
    if (status) {
        qkv_free(l->ctx, points);
        return status;
    }
    int shaded = keys->count ? snprintf(note, sizeof note, "Shaded: weight, full colour %.3f. ",
                                        peak) : 0;
    (void)snprintf(note + shaded, sizeof note - (size_t)shaded, "Black: the series%s%s.",
                   truth ? ", dashed the truth" : "", answer_note(s));
    qkv_drawing_describe(*out, title, note);
    qkv_draw_text(*out, LEFT, 18, title, &(qkv_text_style){.bold = true});
    for (size_t i = 0; i < curves; i++) {
        curve c = {.s = s, .column = i,
                   .frame = {LEFT, TOP + (double)i * (CURVE + GAP), WIDTH - LEFT - RIGHT, CURVE}};
        range_of(s, i, &c.low, &c.high);
        draw_curve(*out, &c, keys, row, peak, points);
    }
    qkv_draw_text(*out, LEFT, TOP + (double)curves * (CURVE + GAP) + 6, note,
                  &(qkv_text_style){.size = 11, .ink = qkv_ink_of(QKV_INK_FAINT)});
    qkv_free(l->ctx, points);
    status = qkv_drawing_status(*out);
    if (status) {
        qkv_drawing_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- text for a terminal --------------------------------------------------------------------- */

enum { LINES = 8, MOST_ACROSS = 96, LISTED = 8 };

/* The mean of a column over the rows of a position. */
static double position_mean(const qkv_look_series *s, const qkv_look_axis *a, size_t position)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < a->span; i++) {
        size_t row = a->from + position * a->span + i;
        double v = row < row_count(s) ? value_at(s, row, 0) : (double)NAN;
        if (row < row_count(s) && !isfinite(v))
            v = answer_at(s, row, 0);
        sum += isfinite(v) ? v : 0;
        n += isfinite(v) != 0;
    }
    return n ? sum / (double)n : (double)NAN;
}

static void put_curve(qkv_str *out, const qkv_look_series *s, const qkv_look_axis *a, size_t wide)
{
    double low, high;
    range_of(s, 0, &low, &high);
    for (int line = LINES - 1; line >= 0; line--) {
        if (line == LINES - 1 || !line)
            qkv_str_printf(out, "%10.4g |", line ? high : low);
        else
            qkv_str_puts(out, "           |");
        for (size_t i = 0; i < a->count; i++) {
            double share = (position_mean(s, a, i) - low) / (high - low);
            bool here = isfinite(share) && lround(share * (LINES - 1)) == line;
            for (size_t k = 0; k < wide; k++)
                qkv_str_puts(out, here ? "*" : " ");
        }
        qkv_str_puts(out, "\n");
    }
}

/* The positions with the largest weights, the largest first. */
static void put_largest(qkv_str *out, const qkv_look_axis *a, const double *row)
{
    double before = INFINITY;
    size_t listed = 0;
    while (listed < LISTED) {
        double next = 0;
        for (size_t i = 0; i < a->count; i++)
            next = row[i] < before && row[i] > next ? row[i] : next;
        if (!(next > 0))
            break;
        for (size_t i = 0; i < a->count && listed < LISTED; i++) {
            if (row[i] < next || row[i] > next)
                continue;
            qkv_str_printf(out, "%5zu  %-24s %6.3f\n", i, a->labels[i], row[i]);
            listed++;
        }
        before = next;
    }
}

void qkv__look_text_row(const qkv_look *l, const qkv_look_axis *keys, const double *row,
                        qkv_str *out)
{
    static const char levels[] = " .:-=+*#%@";
    double most = peak_of(row, keys->count);
    size_t wide = keys->count <= MOST_ACROSS / 4 ? 4 : keys->count <= MOST_ACROSS / 2 ? 2 : 1;
    put_curve(out, &l->series, keys, wide);
    qkv_str_puts(out, "   weights |");
    for (size_t i = 0; i < keys->count; i++)
        for (size_t k = 0; k < wide; k++)
            qkv_str_add(out, &levels[(size_t)(most > 0 ? row[i] / most * (sizeof levels - 1.001)
                                                       : 0)], 1);
    qkv_str_printf(out, "   @ is %.3f\n", most);
    put_largest(out, keys, row);
}
