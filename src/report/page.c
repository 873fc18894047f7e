/* page.c - what was seen, as a page: an overview that needs no script, and the data with
 * which look.js explores every head. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/tables.h"
#include "report/looking.h"
#include "qkv/chart.h"
#include "qkv/page.h"
#include "qkv/painting.h"

extern const char qkv__file_look_js[], qkv__file_look_codes_js[], qkv__file_look_series_js[],
    qkv__file_look_css[];

enum { MOST_WEIGHTS = 4 << 20, LISTED = 40 }; /* weights in the page's data; rows of tables */

/* ---- data ------------------------------------------------------------------------------------ */

/* One attention's maps as streams of u16: counts of each row, then keys, each as the distance from
 * the one before, then weights times 65535. The last map is the rollout, if there is one. */
typedef struct {
    uint16_t *data;
    size_t maps, rows, entries;
    double least;
} packed_maps;

static size_t count_weights(const qkv_look *l, const qkv_look_attention *a, double least)
{
    size_t n = 0, rows = l->axes[a->query].count, keys = l->axes[a->key].count;
    for (size_t i = 0; i < a->layers * a->heads; i++)
        for (size_t e = 0; a->maps[i].rows && e < a->maps[i].start[a->maps[i].rows]; e++)
            n += (double)a->maps[i].weight[e] >= least;
    for (size_t i = 0; a->rollout && i < rows * keys; i++)
        n += (double)a->rollout[i] >= least;
    return n;
}

/* The streams that are being filled. */
typedef struct {
    uint16_t *count, *key, *weight;
    size_t last;
} packing;

static void pack_weight(packing *p, size_t key, double weight)
{
    *p->key++ = (uint16_t)(key - p->last);
    *p->weight++ = (uint16_t)lround(weight * 65535);
    p->last = key;
    ++*p->count;
}

static void pack_map(packing *p, const qkv_head_map *m, size_t rows, double least)
{
    for (size_t i = 0; i < rows; i++, p->count++) {
        p->last = 0;
        for (size_t e = i < m->rows ? m->start[i] : 0; i < m->rows && e < m->start[i + 1]; e++)
            if ((double)m->weight[e] >= least)
                pack_weight(p, m->key[e], (double)m->weight[e]);
    }
}

static qkv_status pack_maps(packed_maps *out, const qkv_look *l, const qkv_look_attention *a,
                            double least, size_t most)
{
    size_t rows = l->axes[a->query].count, keys = l->axes[a->key].count, n;
    while ((n = count_weights(l, a, least)) > most)
        least *= 2;
    *out = (packed_maps){.maps = a->layers * a->heads + (a->rollout != NULL), .rows = rows,
                         .entries = n, .least = least};
    out->data = qkv_calloc(l->ctx, out->maps * rows + 2 * n + 1, sizeof *out->data);
    if (!out->data)
        return QKV_E_MEMORY;
    packing p = {.count = out->data, .key = out->data + out->maps * rows};
    p.weight = p.key + n;
    for (size_t i = 0; i < a->layers * a->heads; i++)
        pack_map(&p, &a->maps[i], rows, least);
    for (size_t i = 0; a->rollout && i < rows; i++, p.count++) {
        p.last = 0;
        for (size_t j = 0; j < keys; j++)
            if ((double)a->rollout[i * keys + j] >= least)
                pack_weight(&p, j, (double)a->rollout[i * keys + j]);
    }
    return QKV_OK;
}

static void put_page_axis(qkv_json_writer *w, const qkv_look_axis *a)
{
    qkv_str label;
    qkv_str_init(&label, w->text.ctx);
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "name", a->name);
    qkv_json_put_int(w, "lead", (int64_t)a->lead);
    qkv_json_put_int(w, "rows", (int64_t)a->rows);
    qkv_json_put_int(w, "columns", (int64_t)a->columns);
    qkv_json_begin_array(w, "labels");
    for (size_t i = 0; i < a->count; i++) {
        qkv_str_clear(&label);
        qkv_str_visible(&label, a->labels[i], strlen(a->labels[i]), QKV_ESCAPE_NOTHING, false);
        qkv_json_put_string(w, NULL, label.data ? label.data : "");
    }
    qkv_json_end_array(w);
    qkv__look_put_cells(w, a);
    qkv_json_end_object(w);
    qkv_str_free(&label);
}

static void put_page_guesses(qkv_json_writer *w, const qkv_look *l)
{
    size_t n = l->axes[l->predicted].count;
    qkv_str word;
    qkv_str_init(&word, l->ctx);
    qkv_json_begin_object(w, "predictions");
    qkv_json_put_int(w, "axis", (int64_t)l->predicted);
    qkv_json_put_int(w, "layers", (int64_t)l->lens_layers);
    qkv_json_put_int(w, "top", (int64_t)l->top);
    qkv_json_begin_array(w, "words");
    for (size_t i = 0; i < l->word_count; i++) {
        qkv_str_clear(&word);
        qkv_str_visible(&word, l->words[i], strlen(l->words[i]), QKV_ESCAPE_NOTHING, false);
        qkv_json_put_string(w, NULL, word.data ? word.data : "");
    }
    qkv_json_end_array(w);
    qkv_json_put_ids(w, "ids", l->word_ids, l->word_count);
    qkv_json_begin_array(w, "guesses"); /* id, then p in ten thousandths */
    for (size_t i = 0; i < l->lens_layers * n * l->top; i++) {
        qkv_json_put_int(w, NULL, l->guesses[i].id);
        qkv_json_put_int(w, NULL, lround(1e4 * (double)l->guesses[i].p));
    }
    qkv_json_end_array(w);
    qkv_json_end_object(w);
    qkv_str_free(&word);
}

/* The blocks that look.js reads: "look", and "maps0", "norms0" of each attention. */
static qkv_status put_data(qkv_page *page, const qkv_look *l, double least, double *shown)
{
    qkv_json_writer w;
    qkv_status status = QKV_OK;
    qkv_json_writer_init(&w, l->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_begin_array(&w, "axes");
    for (size_t i = 0; i < l->axes_count; i++)
        put_page_axis(&w, &l->axes[i]);
    qkv_json_end_array(&w);
    qkv_json_begin_array(&w, "attentions");
    for (size_t i = 0; i < l->attentions_count && !status; i++) {
        const qkv_look_attention *a = &l->attentions[i];
        packed_maps maps;
        char id[32];
        status = pack_maps(&maps, l, a, least, MOST_WEIGHTS / l->attentions_count);
        if (status)
            break;
        *shown = maps.least > *shown ? maps.least : *shown;
        (void)snprintf(id, sizeof id, "maps%zu", i);
        qkv_page_bytes(page, id, maps.data,
                       (maps.maps * maps.rows + 2 * maps.entries) * sizeof *maps.data);
        (void)snprintf(id, sizeof id, "norms%zu", i);
        if (a->value_norms)
            qkv_page_bytes(page, id, a->value_norms,
                           a->layers * a->heads * l->axes[a->key].count * sizeof(float));
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_string(&w, "name", a->name);
        qkv_json_put_int(&w, "query", (int64_t)a->query);
        qkv_json_put_int(&w, "key", (int64_t)a->key);
        qkv_json_put_bool(&w, "causal", a->causal);
        qkv_json_put_int(&w, "layers", (int64_t)a->layers);
        qkv_json_put_int(&w, "heads", (int64_t)a->heads);
        qkv_json_put_bool(&w, "rollout", a->rollout != NULL);
        qkv_json_put_bool(&w, "norms", a->value_norms != NULL);
        qkv_json_put_int(&w, "entries", (int64_t)maps.entries);
        qkv__look_put_names(&w, a);
        qkv_json_end_object(&w);
        qkv_free(l->ctx, maps.data);
    }
    qkv_json_end_array(&w);
    if (l->top)
        put_page_guesses(&w, l);
    if (l->series.columns)
        qkv__look_series_json(l, true, &w);
    qkv_json_end_object(&w);
    const char *text = qkv_json_writer_text(&w);
    if (!status && !text)
        status = QKV_E_MEMORY;
    if (!status)
        qkv_page_json(page, "look", text);
    qkv_json_writer_free(&w);
    return status;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_figures_table(qkv_page *page, const qkv_look *l, const qkv_look_attention *a)
{
    static const char *const columns[] = {"layer", "head", "entropy, nats", "mean distance",
                                          "on the first", "on the previous", "on itself",
                                          "largest"};
    qkv__look_cells t = {.ctx = l->ctx};
    for (size_t i = 0; i < a->layers * a->heads; i++) {
        const qkv_head_figures *f = &a->figures[i];
        qkv__look_cell(&t, "%zu", i / a->heads);
        qkv__look_cell(&t, "%zu", i % a->heads);
        qkv__look_cell(&t, "%.2f", f->entropy);
        qkv__look_cell(&t, "%.1f", f->distance);
        qkv__look_cell(&t, "%.2f", f->first);
        qkv__look_cell(&t, "%.2f", f->previous);
        qkv__look_cell(&t, "%.2f", f->same);
        qkv__look_cell(&t, "%.2f", f->most);
    }
    qkv_page_begin(page, QKV_PAGE_DETAILS, NULL, "Figures of every head");
    qkv__look_table(page, &t, "Means over the rows of each head", columns, 8);
    qkv_page_end(page);
}

static void put_predicted(qkv_page *page, const qkv_look *l)
{
    static const char *const columns[] = {"position", "token", "prediction", "p", "second", "p"};
    const qkv_look_axis *a = &l->axes[l->predicted];
    const qkv_look_guess *own = l->guesses + (l->lens_layers - 1) * a->count * l->top;
    qkv__look_cells t = {.ctx = l->ctx};
    for (size_t i = 0; i < a->count && i < LISTED; i++) {
        qkv__look_cell(&t, "%zu", i);
        qkv__look_cell(&t, "%.120s", a->labels[i]);
        for (size_t k = 0; k < 2; k++) {
            bool there = k < l->top && own[i * l->top + k].id >= 0;
            qkv__look_cell(&t, "%.120s", there ? qkv_look_word(l, own[i * l->top + k].id) : "");
            qkv__look_cell(&t, "%.3f", there ? (double)own[i * l->top + k].p : 0.0);
        }
    }
    qkv_page_heading(page, 2, "predictions", "Predictions");
    qkv_page_begin(page, QKV_PAGE_DETAILS, NULL, "What the model predicts at each position");
    qkv__look_table(page, &t, "The model's own distribution", columns, 6);
    qkv_page_end(page);
    qkv_page_begin(page, QKV_PAGE_PANEL, "lens", "Predictions of each layer");
    qkv_page_end(page);
}

static void put_class_table(qkv_page *page, const qkv_look *l)
{
    static const char *const columns[] = {"class", "probability"};
    qkv__look_cells t = {.ctx = l->ctx};
    for (size_t i = 0; i < l->class_count && i < 10; i++) {
        qkv__look_cell(&t, "%.120s", qkv_look_word(l, l->classes[i].id));
        qkv__look_cell(&t, "%.4f", (double)l->classes[i].p);
    }
    qkv_page_heading(page, 2, "classes", "Classes");
    qkv__look_table(page, &t, "The likeliest classes", columns, 2);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_images(qkv_page *page, const qkv_look *l)
{
    qkv_page_heading(page, 2, "images", "Images");
    qkv_page_begin(page, QKV_PAGE_ROW, NULL, NULL);
    for (size_t i = 0; i < l->images_count; i++) {
        char id[32];
        qkv_image large;
        (void)snprintf(id, sizeof id, "image%zu", i);
        if (qkv_image_enlarge(&large, l->ctx, &l->images[i].image, 128))
            continue;
        qkv_page_image(page, &large, id, l->images[i].name, l->images[i].name);
        qkv_image_free(&large, l->ctx);
    }
    qkv_page_end(page);
}

/* "\"[CLS]\" and 64 patches". */
static void count_axis(char *out, size_t size, const qkv_look_axis *a)
{
    if (a->lead == 1)
        (void)snprintf(out, size, "\"%.40s\" and %zu %s", a->labels[0], a->count - 1, a->name);
    else if (a->lead)
        (void)snprintf(out, size, "%zu tokens and %zu %s", a->lead, a->count - a->lead, a->name);
    else
        (void)snprintf(out, size, "%zu %s", a->count, a->name);
}

static qkv_status put_attention(qkv_page *page, const qkv_look *l, size_t i)
{
    const qkv_look_attention *a = &l->attentions[i];
    const qkv_look_axis *q = &l->axes[a->query], *k = &l->axes[a->key];
    qkv_drawing *d;
    char id[32], queries[128], keys[128];
    (void)snprintf(id, sizeof id, "attention%zu", i);
    qkv_page_heading(page, 2, id, a->name);
    count_axis(queries, sizeof queries, q);
    count_axis(keys, sizeof keys, k);
    qkv_page_printf(page, "%s attend to %s, in %zu layer%s of %zu head%s%s.", queries,
                    q == k ? "each other" : keys, a->layers, a->layers == 1 ? "" : "s", a->heads,
                    a->heads == 1 ? "" : "s",
                    a->causal ? "; a position sees itself and those before it" : "");
    qkv_status status = qkv_look_draw_heads(l, i, &d);
    if (status)
        return status;
    (void)snprintf(id, sizeof id, "heads%zu", i);
    qkv_page_figure(page, d, id, "Every head: queries down, keys across, each map on its own "
                                 "scale. Click one to open it below.");
    qkv_drawing_destroy(d);
    (void)snprintf(id, sizeof id, "explorer%zu", i);
    qkv_page_begin(page, QKV_PAGE_PANEL, id, "Where one position attends to");
    status = qkv_look_draw(l, &(qkv_look_choice){.attention = i, .layer = (int)a->layers - 1,
                                                 .head = -1, .position = q->count / 2}, &d);
    if (!status) {
        (void)snprintf(id, sizeof id, "map%zu", i);
        qkv_page_figure(page, d, id, k->rows ? "The patches that the position in the middle "
                                               "attends to, last layer, mean of the heads."
                                             : "Last layer, mean of the heads.");
        qkv_drawing_destroy(d);
    }
    qkv_page_end(page);
    put_figures_table(page, l, a);
    return status;
}

/* Each panel with its numbers in the block "NAME-data". */
static void put_panels(qkv_page *page, const qkv_look *l)
{
    for (size_t i = 0; i < l->panel_count; i++) {
        const qkv_look_panel *p = &l->panels[i];
        char id[64];
        qkv_page_heading(page, 2, p->name, p->title);
        (void)snprintf(id, sizeof id, "%s-figure", p->name);
        qkv_page_figure(page, p->drawing, id, p->note);
        (void)snprintf(id, sizeof id, "%s-data", p->name);
        qkv_page_json(page, id, p->json);
    }
}

/* What weights, and the views that the page has, mean. */
static void put_reading(qkv_page *page, const qkv_look *l, double shown)
{
    bool norms = false, rollout = false;
    for (size_t i = 0; i < l->attentions_count; i++) {
        norms = norms || l->attentions[i].value_norms;
        rollout = rollout || l->attentions[i].rollout;
    }
    qkv_page_heading(page, 2, "reading", "Reading this page");
    qkv_page_printf(page, "Weights below %.4g are not on this page. A weight says how much of a "
                    "value is mixed in, not how much that changes the answer: values differ in "
                    "size, and layers above mix again (Jain and Wallace 2019, \"Attention is not "
                    "Explanation\").%s%s%s", shown,
                    norms ? " \"By value norm\" multiplies weights by |v W_O| (Kobayashi et al. "
                            "2020)." : "",
                    rollout ? " \"Rollout\" multiplies the layers, half of each being the "
                              "residual stream (Abnar and Zuidema 2020)." : "",
                    l->top && l->lens_layers > 1 ?
                        " Predictions of a layer are its stream read by the last norm and the "
                        "output layer (logit lens, nostalgebraist 2020)." : "");
}

qkv_status qkv_look_page(const qkv_look *l, const qkv_look_page_options *options,
                         const char *path)
{
    const qkv_look_page_options o = options ? *options : (qkv_look_page_options){0};
    qkv_page *page;
    char title[256];
    double shown = o.least > 0 ? o.least : 0.001;
    (void)snprintf(title, sizeof title, "Inside a %s model%s%s", l->kind,
                   l->adapters ? " with " : "", l->adapters ? l->adapters : "");
    qkv_status status = qkv_page_create(&page, l->ctx, &(qkv_page_options){
        .title = o.title ? o.title : title, .subtitle = o.input});
    if (status)
        return status;
    if (l->images_count)
        put_images(page, l);
    if (l->class_count)
        put_class_table(page, l);
    for (size_t i = 0; i < l->attentions_count && !status; i++)
        status = put_attention(page, l, i);
    if (!status && l->top)
        put_predicted(page, l);
    put_panels(page, l);
    if (!status)
        status = put_data(page, l, shown, &shown);
    put_reading(page, l, shown);
    qkv_page_css(page, qkv__file_look_css);
    if (l->series.columns)
        qkv_page_js(page, qkv__file_look_series_js);
    qkv_page_js(page, qkv__file_look_js);
    qkv_page_js(page, qkv__file_look_codes_js);
    if (!status)
        status = qkv_page_save(page, path);
    qkv_page_destroy(page);
    return status;
}
