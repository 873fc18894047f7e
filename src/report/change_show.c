/* change_show.c - what changes of a pass did, as lines of text, JSON and a page. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/tables.h"
#include "report/looking.h"

enum { SHOWN = 8, NAMED = 24 };

/* A prediction or class before and after. */
typedef struct {
    const char *name;
    double before, after; /* probabilities; -1: not among the QKV_CHANGED_TOP likeliest */
} changed_answer;

/* The predictions at a position; of a classifier its classes. */
static const qkv_look_guess *answers_at(const qkv_look *l, size_t at, size_t *count)
{
    *count = l->class_count ? l->class_count : l->top;
    return l->class_count ? l->classes : l->guesses + at * l->top;
}

static double probability_of(const qkv_look *l, size_t at, int32_t id)
{
    size_t n;
    const qkv_look_guess *g = answers_at(l, at, &n);
    for (size_t i = 0; i < n; i++)
        if (g[i].id == id)
            return (double)g[i].p;
    return -1;
}

/* The likeliest before, then those that changes made the likeliest. Their number. */
static size_t changed_answers(const qkv_changed *c, size_t at, changed_answer out[2 * SHOWN])
{
    size_t count = 0, n;
    int32_t ids[2 * SHOWN];
    const qkv_look *sides[] = {&c->before, &c->after};
    if (!c->before.class_count && !c->before.top)
        return 0;
    for (size_t s = 0; s < 2; s++) {
        const qkv_look_guess *g = answers_at(sides[s], at, &n);
        for (size_t i = 0; i < n && i < SHOWN && g[i].id >= 0; i++) {
            bool had = false;
            for (size_t k = 0; k < count; k++)
                had = had || ids[k] == g[i].id;
            if (had)
                continue;
            ids[count] = g[i].id;
            out[count++] = (changed_answer){qkv_look_word(sides[s], g[i].id),
                                            probability_of(&c->before, at, g[i].id),
                                            probability_of(&c->after, at, g[i].id)};
        }
    }
    return count;
}

static size_t positions_of(const qkv_changed *c)
{
    return c->before.top ? c->before.axes[c->before.predicted].count : 0;
}

/* The position that is listed. QKV_E_ARGUMENT: there is none such. */
static qkv_status changed_position(const qkv_changed *c, int at, size_t *out)
{
    size_t n = positions_of(c);
    *out = at < 0 ? (n ? n - 1 : 0) : (size_t)at;
    if (n && *out >= n)
        return qkv_fail(c->ctx, QKV_E_ARGUMENT, "position: there are %zu %s, found %zu", n,
                        c->before.axes[c->before.predicted].name, *out);
    return QKV_OK;
}

/* The share of an image's values that differ by more than 1 of 255, and their mean difference. */
static void image_difference(const qkv_image *a, const qkv_image *b, double *share, double *mean)
{
    size_t n = a->width * a->height * a->channels, changed = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        int d = a->data[i] > b->data[i] ? a->data[i] - b->data[i] : b->data[i] - a->data[i];
        changed += d > 1;
        sum += d;
    }
    *share = n ? (double)changed / (double)n : 0;
    *mean = n ? sum / (double)n : 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_name(qkv_str *out, const char *name)
{
    qkv_str shown;
    size_t columns = 0;
    qkv_str_init(&shown, out->ctx);
    qkv_str_visible(&shown, name, strlen(name), QKV_ESCAPE_NOTHING, false);
    for (const char *p = shown.data ? shown.data : ""; *p && columns < NAMED; p++) {
        columns += ((unsigned char)p[1] & 0xc0) != 0x80;
        qkv_str_add(out, p, 1);
    }
    for (; columns < NAMED; columns++)
        qkv_str_puts(out, " ");
    qkv_str_free(&shown);
}

static void put_probability(qkv_str *out, double p)
{
    if (p < 0)
        qkv_str_puts(out, "       -");
    else
        qkv_str_printf(out, " %7.4f", p);
}

static void put_image_lines(qkv_str *out, const qkv_changed *c)
{
    for (size_t i = 0; i < c->before.images_count && i < c->after.images_count; i++) {
        double share, mean;
        image_difference(&c->before.images[i].image, &c->after.images[i].image, &share, &mean);
        qkv_str_printf(out, "%-24s %5.1f %% of its values change, by %.2f of 255 in the mean\n",
                       c->before.images[i].name, 100 * share, mean);
    }
}

/* A number that a model of series made: row i is of those that are forecast, or of those that were
 * read. */
typedef struct {
    size_t row, column;
    double before, after;
} changed_number;

/* The next such number from *at on, where answers have one; false: there is none. */
static bool next_number(const qkv_changed *c, size_t *at, changed_number *out)
{
    const qkv_look_series *s = &c->before.series, *after = &c->after.series;
    size_t n = (s->read + s->made) * s->targets;
    while (*at < n && !isfinite(s->answers[*at]))
        ++*at;
    if (*at >= n)
        return false;
    *out = (changed_number){*at / s->targets - (s->made ? s->read : 0), *at % s->targets,
                            (double)s->answers[*at], (double)after->answers[*at]};
    ++*at;
    return true;
}

/* The cosine of an encoder's vectors before and after. */
static double vector_cosine(const qkv_changed *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->before.vector_width; i++)
        sum += (double)c->before.vector[i] * (double)c->after.vector[i];
    return sum;
}

static void column_of(const qkv_look_series *s, size_t j, char *out, size_t size)
{
    if (s->names)
        (void)snprintf(out, size, "%.100s", s->names[j]);
    else
        (void)snprintf(out, size, "column %zu", j);
}

static void put_numbers(qkv_str *out, const qkv_changed *c)
{
    const qkv_look_series *s = &c->before.series;
    char name[128];
    changed_number x;
    for (size_t at = 0, k = 0; next_number(c, &at, &x); k++) {
        column_of(s, x.column, name, sizeof name);
        if (!k)
            qkv_str_printf(out, "%-*s    before     after\n", NAMED,
                           s->made ? "forecast" : "filled in");
        qkv_str_printf(out, "row %-4zu ", x.row);
        put_name(out, name);
        qkv_str_printf(out, " %9.4g %9.4g\n", x.before, x.after);
    }
}

qkv_status qkv_changed_text(const qkv_changed *c, int at, qkv_str *out)
{
    changed_answer all[2 * SHOWN];
    size_t position;
    qkv_status status = changed_position(c, at, &position);
    if (status)
        return status;
    size_t n = changed_answers(c, position, all);
    if (n && positions_of(c)) {
        qkv_str_printf(out, "at position %zu, ", position);
        put_name(out, c->before.axes[c->before.predicted].labels[position]);
        qkv_str_puts(out, "\n");
    }
    if (n)
        qkv_str_printf(out, "%-*s  before   after\n", NAMED, "");
    for (size_t i = 0; i < n; i++) {
        put_name(out, all[i].name);
        put_probability(out, all[i].before);
        put_probability(out, all[i].after);
        qkv_str_puts(out, "\n");
    }
    put_image_lines(out, c);
    put_numbers(out, c);
    if (c->before.vector)
        qkv_str_printf(out, "cosine of the vectors before and after: %.4f\n", vector_cosine(c));
    if (c->text_before)
        qkv_str_printf(out, "before: %s\nafter:  %s\n", c->text_before, c->text_after);
    return out->failed ? QKV_E_MEMORY : QKV_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_answers(qkv_json_writer *w, const qkv_changed *c, size_t position)
{
    changed_answer all[2 * SHOWN];
    size_t n = changed_answers(c, position, all);
    qkv_json_begin_array(w, c->before.class_count ? "classes" : "predictions");
    for (size_t i = 0; i < n; i++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_string(w, c->before.class_count ? "label" : "text", all[i].name);
        if (all[i].before >= 0)
            qkv_json_put_real(w, "before", all[i].before);
        if (all[i].after >= 0)
            qkv_json_put_real(w, "after", all[i].after);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

/* (rows, columns) of the forecast, before and after; of a filler the numbers that were missing. */
static void put_series(qkv_json_writer *w, const qkv_changed *c)
{
    const qkv_look_series *s = &c->before.series;
    changed_number x;
    if (s->made) {
        size_t read = s->read * s->targets;
        qkv__look_put_rows(w, "forecast_before", s->answers + read, s->made, s->targets);
        qkv__look_put_rows(w, "forecast_after", c->after.series.answers + read, s->made,
                           s->targets);
        return;
    }
    qkv_json_begin_array(w, "filled");
    for (size_t at = 0; next_number(c, &at, &x);) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "row", (int64_t)x.row);
        qkv_json_put_int(w, "column", (int64_t)x.column);
        qkv_json_put_real(w, "before", x.before);
        qkv_json_put_real(w, "after", x.after);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

void qkv_changed_json(const qkv_changed *c, int at, qkv_json_writer *w)
{
    size_t position;
    qkv_json_put_string(w, "kind", c->before.kind);
    if (!changed_position(c, at, &position) && (c->before.top || c->before.class_count)) {
        if (positions_of(c))
            qkv_json_put_int(w, "position", (int64_t)position);
        put_answers(w, c, position);
    }
    qkv_json_begin_array(w, "images");
    for (size_t i = 0; i < c->before.images_count && i < c->after.images_count; i++) {
        double share, mean;
        image_difference(&c->before.images[i].image, &c->after.images[i].image, &share, &mean);
        qkv_json_begin_object(w, NULL);
        qkv_json_put_string(w, "name", c->before.images[i].name);
        qkv_json_put_real(w, "changed", share);
        qkv_json_put_real(w, "mean_difference", mean);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    if (c->before.series.targets)
        put_series(w, c);
    if (c->before.vector)
        qkv_json_put_real(w, "cosine", vector_cosine(c));
    if (c->text_before) {
        qkv_json_put_string(w, "text_before", c->text_before);
        qkv_json_put_string(w, "text_after", c->text_after);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

static void cell_probability(qkv__look_cells *t, double p)
{
    if (p < 0)
        qkv__look_cell(t, "-");
    else
        qkv__look_cell(t, "%.4f", p);
}

static void page_answers(qkv_page *page, const qkv_changed *c, size_t position)
{
    static const char *const columns[] = {"answer", "before", "after"};
    changed_answer all[2 * SHOWN];
    size_t n = changed_answers(c, position, all);
    qkv__look_cells t = {.ctx = c->ctx};
    char caption[64] = "Probabilities";
    if (!n)
        return;
    if (positions_of(c))
        (void)snprintf(caption, sizeof caption, "Probabilities at position %zu", position);
    for (size_t i = 0; i < n; i++) {
        qkv__look_cell(&t, "%.120s", all[i].name);
        cell_probability(&t, all[i].before);
        cell_probability(&t, all[i].after);
    }
    qkv_page_heading(page, 2, "answers", c->before.class_count ? "Classes" : "Predictions");
    qkv__look_table(page, &t, caption, columns, 3);
}

/* The likeliest prediction at every position, before and after. */
static void page_positions(qkv_page *page, const qkv_changed *c)
{
    static const char *const columns[] = {"position", "token", "before", "p", "after", "p"};
    const qkv_look_axis *a = &c->before.axes[c->before.predicted];
    qkv__look_cells t = {.ctx = c->ctx};
    for (size_t i = 0; i < a->count && i < 512; i++) {
        const qkv_look_guess *b = c->before.guesses + i * c->before.top;
        const qkv_look_guess *d = c->after.guesses + i * c->after.top;
        qkv__look_cell(&t, "%zu", i);
        qkv__look_cell(&t, "%.120s", a->labels[i]);
        qkv__look_cell(&t, "%.120s", qkv_look_word(&c->before, b->id));
        qkv__look_cell(&t, "%.4f", (double)b->p);
        qkv__look_cell(&t, "%.120s", qkv_look_word(&c->after, d->id));
        qkv__look_cell(&t, "%.4f", (double)d->p);
    }
    qkv_page_begin(page, QKV_PAGE_DETAILS, "positions", "The likeliest prediction everywhere");
    qkv__look_table(page, &t, a->name, columns, 6);
    qkv_page_end(page);
}

static void page_numbers(qkv_page *page, const qkv_changed *c)
{
    enum { MOST = 1024 };
    static const char *const columns[] = {"row", "column", "before", "after"};
    const qkv_look_series *s = &c->before.series;
    qkv__look_cells t = {.ctx = c->ctx};
    char name[128];
    changed_number x;
    size_t count = 0;
    for (size_t at = 0; count < MOST && next_number(c, &at, &x); count++) {
        column_of(s, x.column, name, sizeof name);
        qkv__look_cell(&t, "%zu", x.row);
        qkv__look_cell(&t, "%s", name);
        qkv__look_cell(&t, "%.4g", x.before);
        qkv__look_cell(&t, "%.4g", x.after);
    }
    if (!count)
        return;
    qkv_page_heading(page, 2, "forecast", s->made ? "Forecast" : "Filled in");
    qkv__look_table(page, &t, "Before and after", columns, 4);
}

static void page_images(qkv_page *page, const qkv_changed *c)
{
    static const char *const names[] = {"Before", "After"}, *const ids[] = {"before", "after"};
    const qkv_look *const sides[] = {&c->before, &c->after};
    qkv_page_heading(page, 2, "images", "Images");
    qkv__look_page_images(page, c->ctx, sides, names, ids);
}

qkv_status qkv_changed_page(const qkv_changed *c, int at, const qkv_look_page_options *options,
                            const char *path)
{
    const qkv_look_page_options o = options ? *options : (qkv_look_page_options){0};
    qkv_page *page;
    size_t position;
    char title[128];
    (void)snprintf(title, sizeof title, "A changed %s model", c->before.kind);
    qkv_status status = changed_position(c, at, &position);
    if (!status)
        status = qkv_page_create(&page, c->ctx, &(qkv_page_options){
            .title = o.title ? o.title : title, .subtitle = o.input});
    if (status)
        return status;
    page_answers(page, c, position);
    if (positions_of(c))
        page_positions(page, c);
    if (c->text_before) {
        qkv_page_heading(page, 2, "text", "How it goes on");
        qkv_page_text(page, "Before:");
        qkv_page_code(page, c->text_before);
        qkv_page_text(page, "After:");
        qkv_page_code(page, c->text_after);
    }
    page_numbers(page, c);
    if (c->before.vector) {
        qkv_page_heading(page, 2, "vector", "Vector");
        qkv_page_printf(page, "Cosine of the vectors before and after: %.4f.", vector_cosine(c));
    }
    if (c->before.images_count)
        page_images(page, c);
    status = qkv_page_save(page, path);
    qkv_page_destroy(page);
    return status;
}
