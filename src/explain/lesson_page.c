/* lesson_page.c - the lesson as a page: complete as it is, and alive where scripts run. The script
 * makes the same elements (lesson.js). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/encode.h"
#include "draw/page.h"
#include "explain/lesson.h"
#include "qkv/json.h"

enum { HEAT_CLASSES = 21, DECIMALS = 4 };

static const struct {
    const char *id, *title, *text;
} sections[QKV__STEPS] = {
    [QKV__STEP_INPUT] = {"step-input", "1. Words are rows",
        "Every word is a row of X. Positions, where they are switched on, are added to it."},
    [QKV__STEP_PROJECT] = {"step-project", "2. Queries, keys, values",
        "Three matrices, which training would find, make of each row a query (what the word looks "
        "for), a key (what it is found by) and a value (what it hands over)."},
    [QKV__STEP_SCORES] = {"step-scores", "3. Scores",
        "A score is the dot product of a query and a key: row \"sat\", column \"cat\" says how "
        "much \"sat\" looks for what \"cat\" is found by. A head takes its own columns of Q, K "
        "and V. (b_K adds the same number to all scores of a row, so no weight depends on it.)"},
    [QKV__STEP_SCALE] = {"step-scale", "4. Scale",
        "Sums of d_k products grow with d_k and push softmax to its ends, so scores are divided "
        "by √d_k, where d_k is the width of a head."},
    [QKV__STEP_MASK] = {"step-mask", "5. Mask",
        "A hidden key's score becomes −∞ before the softmax, so its weight is exactly 0. The "
        "causal mask hides the keys after each word; the diagonal stays."},
    [QKV__STEP_SOFTMAX] = {"step-softmax", "6. Softmax",
        "Each row becomes a distribution: exp(score) over the row's sum. A row sums to 1."},
    [QKV__STEP_HEADS] = {"step-heads", "7. Weighted values, heads side by side",
        "The output of a head is the mean of its values, weighted by the row. Heads stand side by "
        "side, not stacked: each word stays one row."},
    [QKV__STEP_OUTPUT] = {"step-output", "8. Output",
        "W_O mixes the heads. Here it is the identity until you change it."},
};

/* ---- matrices -------------------------------------------------------------------------------- */

/* The fewest decimals, at most 4, that show all numbers to f32's precision. */
static int lesson_decimals(const qkv_real *x, size_t n)
{
    double unit = 1.0;
    for (int decimals = 0; decimals < DECIMALS; decimals++, unit *= 10.0) {
        bool exact = true;
        for (size_t i = 0; i < n && exact; i++) {
            double v = (double)x[i], off = fabs(v - round(v * unit) / unit);
            exact = isinf(v) || off < 1e-6 * fmax(1.0, fabs(v));
        }
        if (exact)
            return decimals;
    }
    return DECIMALS;
}

static void lesson_label(const qkv__lesson *l, qkv_str *out, size_t i)
{
    if (l->o.words)
        qkv_str_visible(out, l->o.words[i], strlen(l->o.words[i]), QKV_ESCAPE_XML, false);
    else
        qkv_str_printf(out, "%zu", i + 1);
}

static void lesson_row(const qkv__lesson *l, qkv_str *out, const qkv__lesson_matrix *m, size_t i,
                       const qkv_real *x)
{
    size_t columns = qkv_dim(m->x, 1);
    int decimals = lesson_decimals(x, qkv_count(m->x));
    qkv_str_puts(out, "<tr>");
    if (m->by_words) {
        qkv_str_puts(out, "<th scope=\"row\">");
        lesson_label(l, out, i);
        qkv_str_puts(out, "</th>");
    }
    for (size_t j = 0; j < columns; j++) {
        double value = (double)x[i * columns + j];
        if (m->weights)
            qkv_str_printf(out, "<td class=\"h%d\">", (int)(value * (HEAT_CLASSES - 1) + 0.5));
        else
            qkv_str_puts(out, "<td>");
        qkv__put_real(out, value, decimals, false);
        qkv_str_puts(out, "</td>");
    }
    qkv_str_puts(out, "</tr>\n");
}

static void lesson_table(const qkv__lesson *l, qkv_str *out, const qkv__lesson_matrix *m)
{
    const qkv_real *x = qkv_data(l->t, m->x);
    size_t rows = qkv_dim(m->x, 0), columns = qkv_dim(m->x, 1);
    qkv_str_printf(out, "<table class=\"matrix\" data-key=\"%s\"><caption>%s</caption>\n", m->key,
                   m->title);
    if (m->words_across) {
        qkv_str_puts(out, "<thead><tr><td></td>");
        for (size_t j = 0; j < columns; j++) {
            qkv_str_puts(out, "<th scope=\"col\">");
            lesson_label(l, out, j);
            qkv_str_puts(out, "</th>");
        }
        qkv_str_puts(out, "</tr></thead>\n");
    }
    qkv_str_puts(out, "<tbody>\n");
    for (size_t i = 0; x && i < rows; i++)
        lesson_row(l, out, m, i, x);
    qkv_str_puts(out, "</tbody></table>\n");
}

/* Puts the text on the page and frees it. */
static void lesson_html(qkv_page *p, qkv_str *text)
{
    if (text->failed)
        qkv__page_fail(p, QKV_E_MEMORY);
    else
        qkv_page_html(p, text->data);
    qkv_str_free(text);
}

static void lesson_section(qkv_page *p, const qkv__lesson *l, qkv__lesson_step step)
{
    qkv_str out;
    qkv_str_init(&out, l->ctx);
    qkv_page_heading(p, 2, sections[step].id, sections[step].title);
    qkv_page_text(p, sections[step].text);
    qkv_str_printf(&out, "<div class=\"row\" id=\"%s-matrices\">\n", sections[step].id);
    for (size_t i = 0; i < l->count; i++)
        if (l->matrices[i].step == step)
            lesson_table(l, &out, &l->matrices[i]);
    qkv_str_puts(&out, "</div>\n");
    lesson_html(p, &out);
}

/* ---- what the script reads ------------------------------------------------------------------- */

static void lesson_put_matrix(qkv_json_writer *w, const qkv__lesson *l,
                              const qkv__lesson_matrix *m)
{
    const qkv_real *x = qkv_data(l->t, m->x);
    size_t columns = qkv_dim(m->x, 1), n = qkv_count(m->x);
    qkv_json_begin_array(w, m->key);
    for (size_t i = 0; x && i < n; i++) {
        if (i % columns == 0)
            qkv_json_begin_array(w, NULL);
        if (isfinite((double)x[i]))
            qkv_json_put_float(w, NULL, (float)x[i]);
        else
            qkv_json_put_null(w, NULL); /* -inf: a hidden key */
        if (i % columns == columns - 1)
            qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

static void lesson_json(qkv_page *p, const qkv__lesson *l)
{
    const qkv_explain_options *o = &l->o;
    qkv_json_writer w;
    qkv_json_writer_init(&w, l->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    if (o->words)
        qkv_json_put_strings(&w, "words", o->words, o->rows);
    qkv_json_put_int(&w, "rows", (int64_t)o->rows);
    qkv_json_put_int(&w, "width", (int64_t)o->width);
    qkv_json_put_int(&w, "heads", (int64_t)o->heads);
    qkv_json_put_bool(&w, "scaled", !o->unscaled);
    qkv_json_put_bool(&w, "causal", o->causal);
    qkv_json_put_bool(&w, "biases", o->biases);
    qkv_json_put_bool(&w, "positions", o->positions);
    qkv_json_put_real(&w, "difference", l->difference);
    qkv_json_begin_object(&w, "matrices");
    for (size_t i = 0; i < l->count; i++)
        lesson_put_matrix(&w, l, &l->matrices[i]);
    qkv_json_end_object(&w);
    qkv_json_begin_object(&w, "titles");
    for (size_t i = 0; i < l->count; i++)
        qkv_json_put_string(&w, l->matrices[i].key, l->matrices[i].title);
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    const char *text = qkv_json_writer_text(&w);
    if (text)
        qkv_page_json(p, "lesson", text);
    else
        qkv__page_fail(p, QKV_E_MEMORY);
    qkv_json_writer_free(&w);
}

/* Classes h0 .. h20: the sequential scale, with text that is read on it. */
static void lesson_css(qkv_page *p, qkv_context *ctx)
{
    qkv_str css;
    qkv_str_init(&css, ctx);
    for (int i = 0; i < HEAT_CLASSES; i++) {
        uint8_t back[3], front[3];
        double value = (double)i / (HEAT_CLASSES - 1);
        qkv_ink_color(qkv_ink_heat(value), false, back);
        qkv_ink_color((qkv_ink){.role = QKV_INK_ON_HEAT, .value = value}, false, front);
        qkv_str_printf(&css, ".matrix td.h%d{background:#%02x%02x%02x;color:#%02x%02x%02x}\n", i,
                       back[0], back[1], back[2], front[0], front[1], front[2]);
    }
    if (css.failed)
        qkv__page_fail(p, QKV_E_MEMORY);
    else
        qkv_page_css(p, css.data);
    qkv_page_css(p, qkv__file_lesson_css);
    qkv_str_free(&css);
}

static void lesson_fill(qkv_page *p, const qkv__lesson *l)
{
    lesson_css(p, l->ctx);
    qkv_page_text(p, "Scaled dot-product attention with several heads, as in Vaswani et al. 2017, "
                     "3.2: every matrix with its numbers. Check one entry of each by hand, and "
                     "you have checked all that attention computes.");
    qkv_page_html(p, "<div id=\"controls\" class=\"panel\" role=\"group\" "
                     "aria-label=\"Switches of the lesson\" hidden></div>\n"
                     "<p id=\"status\" role=\"status\"></p>\n");
    for (int step = 0; step < QKV__STEPS; step++)
        lesson_section(p, l, (qkv__lesson_step)step);
    qkv_page_printf(p, "qkv_attention, the fused op that models run, gives the heads of these "
                       "settings too: %zu %s, %s, %s, biases %s, positions %s. The largest "
                       "difference is %.1g.",
                    l->o.heads, l->o.heads > 1 ? "heads" : "head",
                    l->o.unscaled ? "not scaled" : "scaled",
                    l->o.causal ? "causal mask" : "no mask", l->o.biases ? "on" : "off",
                    l->o.positions ? "on" : "off", l->difference);
    qkv__lesson_sinusoids(p, l->ctx);
    qkv__lesson_errata(p, l->ctx);
    lesson_json(p, l);
    qkv_page_js(p, qkv__file_lesson_js);
}

qkv_status qkv_explain_page(qkv_context *ctx, const qkv_explain_options *options,
                            const char *path)
{
    qkv__lesson l;
    qkv_page *p = NULL;
    qkv_status status = qkv__lesson_create(&l, ctx, options);
    if (status)
        return status;
    status = qkv_page_create(&p, ctx, &(qkv_page_options){
        .title = "Attention, with every number", .subtitle = "The worked example of qkv explain"});
    if (!status) {
        lesson_fill(p, &l);
        status = qkv_tape_status(l.t);
    }
    if (!status)
        status = qkv_page_save(p, path);
    qkv_page_destroy(p);
    qkv__lesson_destroy(&l);
    return status;
}
