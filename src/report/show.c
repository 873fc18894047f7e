/* show.c - what was seen, as rows, JSON and text for a terminal. */
#include "report/looking.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------ */

static qkv_status check_choice(const qkv_look *l, const qkv_look_choice *c)
{
    if (c->attention >= l->attentions_count)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "attention: the model has %zu kinds, found %zu",
                        l->attentions_count, c->attention);
    const qkv_look_attention *a = &l->attentions[c->attention];
    if (c->layer >= (int)a->layers || (c->layer < 0 && !a->rollout))
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, c->layer < 0 ? "layer: %s have no rollout"
                                                             : "layer: %s have %zu layers, "
                                                               "found %d",
                        a->name, a->layers, c->layer);
    if (c->head >= (int)a->heads)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "head: %s have %zu heads, found %d", a->name,
                        a->heads, c->head);
    if (c->position >= l->axes[a->query].count)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "position: there are %zu %s, found %zu",
                        l->axes[a->query].count, l->axes[a->query].name, c->position);
    return QKV_OK;
}

/* A causal lead, as a prior's class, attends to itself alone. */
static size_t first_position(const qkv_look_axis *q, bool causal)
{
    if (q->lead && !causal)
        return 0;
    return q->rows ? q->lead + q->rows / 2 * q->columns + q->columns / 2 : q->count - 1;
}

qkv_status qkv_look_choose(const qkv_look *l, const char *attention, qkv_look_choice *out)
{
    size_t i = l->attentions_count;
    *out = (qkv_look_choice){.layer = -1, .head = -1};
    while (i-- > 0)
        if (!attention || strcmp(l->attentions[i].name, attention) == 0) {
            const qkv_look_attention *a = &l->attentions[i];
            *out = (qkv_look_choice){.attention = i, .layer = (int)a->layers - 1, .head = -1,
                                     .position = first_position(&l->axes[a->query], a->causal)};
            return QKV_OK;
        }
    return qkv_fail(l->ctx, QKV_E_ARGUMENT, "attention: a %s model has no %.60s", l->kind,
                    attention ? attention : "attention");
}

qkv_status qkv_look_row(const qkv_look *l, const qkv_look_choice *c, double *row)
{
    qkv_status status = check_choice(l, c);
    if (status)
        return status;
    const qkv_look_attention *a = &l->attentions[c->attention];
    size_t keys = l->axes[a->key].count;
    for (size_t j = 0; j < keys; j++)
        row[j] = c->layer < 0 ? (double)a->rollout[c->position * keys + j] : 0;
    for (size_t h = 0; h < a->heads && c->layer >= 0; h++) {
        const qkv_head_map *m = &a->maps[(size_t)c->layer * a->heads + h];
        if ((c->head >= 0 && (size_t)c->head != h) || c->position >= m->rows)
            continue;
        for (size_t k = m->start[c->position]; k < m->start[c->position + 1]; k++)
            row[m->key[k]] += (double)m->weight[k] / (c->head < 0 ? (double)a->heads : 1);
    }
    return QKV_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_axis(qkv_json_writer *w, const qkv_look_axis *a)
{
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "name", a->name);
    qkv_json_put_int(w, "count", (int64_t)a->count);
    qkv_json_put_strings(w, "labels", (const char *const *)a->labels, a->count);
    if (a->rows) {
        qkv_json_put_int(w, "lead", (int64_t)a->lead);
        qkv_json_put_int(w, "rows", (int64_t)a->rows);
        qkv_json_put_int(w, "columns", (int64_t)a->columns);
    }
    qkv__look_put_cells(w, a);
    qkv_json_end_object(w);
}

void qkv__look_put_names(qkv_json_writer *w, const qkv_look_attention *a)
{
    qkv_place at;
    bool numbered = true;
    for (size_t i = 0; i < a->layers; i++)
        numbered = numbered && (!a->maps[i * a->heads].attention ||
                                qkv_place_parse(&at, a->maps[i * a->heads].attention));
    if (numbered)
        return;
    qkv_json_begin_array(w, "names");
    for (size_t i = 0; i < a->layers; i++) {
        const char *name = a->maps[i * a->heads].attention;
        qkv_json_put_string(w, NULL, name ? name : "");
    }
    qkv_json_end_array(w);
}

static void put_figures(qkv_json_writer *w, const qkv_look_attention *a)
{
    qkv_json_begin_array(w, "figures");
    for (size_t i = 0; i < a->layers * a->heads; i++) {
        const qkv_head_figures *f = &a->figures[i];
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "layer", (int64_t)(i / a->heads));
        qkv_json_put_int(w, "head", (int64_t)(i % a->heads));
        qkv_json_put_real(w, "entropy", f->entropy);
        qkv_json_put_real(w, "distance", f->distance);
        qkv_json_put_real(w, "first", f->first);
        qkv_json_put_real(w, "previous", f->previous);
        qkv_json_put_real(w, "same", f->same);
        qkv_json_put_real(w, "most", f->most);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

static void put_guesses(qkv_json_writer *w, const qkv_look *l, const qkv_look_guess *g, size_t n)
{
    qkv_json_begin_array(w, NULL);
    for (size_t i = 0; i < n; i++) {
        if (g[i].id < 0)
            continue;
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "id", g[i].id);
        qkv_json_put_string(w, "text", qkv_look_word(l, g[i].id));
        qkv_json_put_real(w, "p", (double)g[i].p);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

static void put_predictions(qkv_json_writer *w, const qkv_look *l)
{
    size_t n = l->axes[l->predicted].count;
    qkv_json_put_string(w, "predicted", l->axes[l->predicted].name);
    qkv_json_begin_array(w, "predictions");
    for (size_t i = 0; i < n; i++)
        put_guesses(w, l, l->guesses + ((l->lens_layers - 1) * n + i) * l->top, l->top);
    qkv_json_end_array(w);
    qkv_json_begin_array(w, "lens");
    for (size_t layer = 0; layer + 1 < l->lens_layers; layer++) {
        qkv_json_begin_array(w, NULL);
        for (size_t i = 0; i < n; i++)
            put_guesses(w, l, l->guesses + (layer * n + i) * l->top, l->top);
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

static void put_choice(qkv_json_writer *w, const qkv_look *l, const qkv_look_choice *c)
{
    const qkv_look_attention *a = &l->attentions[c->attention];
    double *row = qkv_calloc(l->ctx, l->axes[a->key].count + 1, sizeof *row);
    if (row && !qkv_look_row(l, c, row)) {
        qkv_json_begin_object(w, "row");
        qkv_json_put_string(w, "attention", a->name);
        qkv_json_put_int(w, "layer", c->layer);
        qkv_json_put_int(w, "head", c->head);
        qkv_json_put_int(w, "position", (int64_t)c->position);
        qkv_json_put_reals(w, "weights", row, l->axes[a->key].count);
        qkv_json_end_object(w);
    }
    qkv_free(l->ctx, row);
}

void qkv_look_json(const qkv_look *l, const qkv_look_choice *c, qkv_json_writer *w)
{
    qkv_json_put_string(w, "kind", l->kind);
    if (l->adapters)
        qkv_json_put_string(w, "adapters", l->adapters);
    qkv_json_begin_array(w, "axes");
    for (size_t i = 0; i < l->axes_count; i++)
        put_axis(w, &l->axes[i]);
    qkv_json_end_array(w);
    qkv_json_begin_array(w, "attentions");
    for (size_t i = 0; i < l->attentions_count; i++) {
        const qkv_look_attention *a = &l->attentions[i];
        qkv_json_begin_object(w, NULL);
        qkv_json_put_string(w, "name", a->name);
        qkv_json_put_string(w, "queries", l->axes[a->query].name);
        qkv_json_put_string(w, "keys", l->axes[a->key].name);
        qkv_json_put_int(w, "layers", (int64_t)a->layers);
        qkv_json_put_int(w, "heads", (int64_t)a->heads);
        qkv__look_put_names(w, a);
        put_figures(w, a);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    if (l->top)
        put_predictions(w, l);
    if (l->class_count) {
        qkv_json_begin_array(w, "classes");
        for (size_t i = 0; i < l->class_count; i++) {
            qkv_json_begin_object(w, NULL);
            qkv_json_put_string(w, "label", qkv_look_word(l, l->classes[i].id));
            qkv_json_put_real(w, "p", (double)l->classes[i].p);
            qkv_json_end_object(w);
        }
        qkv_json_end_array(w);
    }
    if (l->series.columns)
        qkv__look_series_json(l, false, w);
    qkv_json_begin_object(w, "panels");
    for (size_t i = 0; i < l->panel_count; i++)
        qkv_json_put_text(w, l->panels[i].name, l->panels[i].json);
    qkv_json_end_object(w);
    if (c)
        put_choice(w, l, c);
}

/* ---- text for a terminal --------------------------------------------------------------------- */

enum { BAR = 40, LABEL = 24 };

/* A label on one line: control characters and line ends as spaces, cut to LABEL columns. */
static void put_label(qkv_str *out, const char *label)
{
    size_t columns = 0;
    for (const char *p = label; *p && columns < LABEL; p++) {
        columns += ((unsigned char)*p & 0xc0) != 0x80;
        qkv_str_add(out, (unsigned char)*p < 32 || *p == 127 ? " " : p, 1);
    }
    for (; columns < LABEL; columns++)
        qkv_str_puts(out, " ");
}

static void put_bars(qkv_str *out, const qkv_look_axis *a, const double *row, double most)
{
    for (size_t j = 0; j < a->count; j++) {
        size_t bar = (size_t)lround(BAR * (most > 0 ? row[j] / most : 0));
        qkv_str_printf(out, "%5zu ", j);
        put_label(out, a->labels[j]);
        qkv_str_printf(out, " %6.3f ", row[j]);
        for (size_t i = 0; i < bar; i++)
            qkv_str_puts(out, "#");
        qkv_str_puts(out, "\n");
    }
}

/* Two characters for a patch, the darker the less; "  " where a patch was not read. */
static void put_grid(qkv_str *out, const qkv_look_axis *a, const double *row, double most)
{
    static const char levels[] = " .:-=+*#%@";
    for (size_t i = 0; i < a->lead; i++)
        qkv_str_printf(out, "%s %.3f\n", a->labels[i], row[i]);
    for (size_t cell = 0; cell < a->rows * a->columns; cell++) {
        double weight = 0;
        for (size_t i = a->lead; i < a->count; i++)
            if ((a->cells ? (size_t)a->cells[i - a->lead] : i - a->lead) == cell)
                weight = row[i];
        size_t level = (size_t)(most > 0 ? weight / most * (sizeof levels - 1.001) : 0);
        qkv_str_printf(out, "%c%c%s", levels[level], levels[level],
                       (cell + 1) % a->columns ? "" : "\n");
    }
}

qkv_status qkv_look_text(const qkv_look *l, const qkv_look_choice *c, qkv_str *out)
{
    qkv_status status = check_choice(l, c);
    if (status)
        return status;
    const qkv_look_attention *a = &l->attentions[c->attention];
    const qkv_look_axis *keys = &l->axes[a->key];
    double *row = qkv_calloc(l->ctx, keys->count + 1, sizeof *row), most = 0;
    if (!row || qkv_look_row(l, c, row)) {
        qkv_free(l->ctx, row);
        return QKV_E_MEMORY;
    }
    for (size_t j = 0; j < keys->count; j++)
        most = row[j] > most && j >= keys->lead ? row[j] : most;
    qkv_str_printf(out, "%s, ", a->name);
    if (c->layer < 0)
        qkv_str_puts(out, "rollout");
    else if (c->head < 0)
        qkv_str_printf(out, "layer %d, mean of %zu heads", c->layer, a->heads);
    else
        qkv_str_printf(out, "layer %d, head %d", c->layer, c->head);
    qkv_str_printf(out, ", position %zu: ", c->position);
    put_label(out, l->axes[a->query].labels[c->position]);
    qkv_str_printf(out, "\n");
    if (keys->span)
        qkv__look_text_row(l, keys, row, out);
    else
        (keys->rows ? put_grid : put_bars)(out, keys, row, most);
    if (keys->rows)
        qkv_str_printf(out, "@ is %.3f\n", most);
    qkv_free(l->ctx, row);
    return out->failed ? QKV_E_MEMORY : QKV_OK;
}
