/* patch_show.c - what activation patching found, as drawings, JSON and lines of text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/looking.h"
#include "qkv/chart.h"

enum { NUMBERED = 24, ACROSS = 4, MAP = 150, GAP = 12, TITLE = 26, SCALE = 60, LISTED = 12 };

double qkv_patch_share(const qkv_patch *x, double value)
{
    double whole = x->clean - x->corrupt;
    return whole != 0 ? (value - x->corrupt) / whole : 0;
}

/* The positions of a grid; NULL: heads. */
static const qkv_look_axis *axis_of(const qkv_patch *x, const qkv_patch_grid *g)
{
    return x->heads ? NULL : &x->corrupt_input.axes[g->axis];
}

/* "5", or "5 \"cat\""; a patch's row and column. */
static void name_place(const qkv_patch *x, const qkv_patch_grid *g, size_t position, char *out,
                       size_t size)
{
    const qkv_look_axis *a = axis_of(x, g);
    if (!a)
        (void)snprintf(out, size, "head %zu", position);
    else if (a->rows)
        (void)snprintf(out, size, "%s%s", position < a->lead ? "" : "patch ", a->labels[position]);
    else
        (void)snprintf(out, size, "position %zu \"%.80s\"", position, a->labels[position]);
}

/* ---- drawings -------------------------------------------------------------------------------- */

static void patch_title(const qkv_patch *x, const qkv_patch_grid *g, char *out, size_t size)
{
    (void)snprintf(out, size, "%.60s, share restored of \"%.40s\"", g->pattern, x->answer);
}

/* Layers and positions of a sequence, or heads, as one map. */
static qkv_status draw_sequence(const qkv_patch *x, const qkv_patch_grid *g, const float *shares,
                                const char *key, qkv_drawing **out)
{
    const qkv_look_axis *a = axis_of(x, g);
    char title[200];
    double width, height;
    patch_title(x, g, title, sizeof title);
    const qkv_heat_map map = {.title = title, .x_label = a ? "position" : "head",
                              .y_label = "layer", .values = shares, .rows = g->layers,
                              .columns = g->positions, .diverging = true, .max = 1, .key = key,
                              .row_labels = (const char *const *)g->names,
                              .column_labels = a ? (const char *const *)a->labels : NULL,
                              .numbers = g->positions <= NUMBERED};
    qkv_heat_size(&map, 34, &width, &height);
    qkv_status status = qkv_drawing_create(out, x->ctx, fmax(width, 360), height);
    if (status)
        return status;
    qkv_drawing_describe(*out, title, "layers down, positions across");
    qkv_draw_heat(*out, NULL, &map);
    return qkv_drawing_status(*out);
}

enum { LAYER_TITLE = 64 };

/* A layer's name, and the share at the position before the patches, if there is one. */
static void layer_title(const qkv_patch_grid *g, const qkv_look_axis *a, size_t layer,
                        const float *shares, char title[LAYER_TITLE])
{
    bool number = strspn(g->names[layer], "0123456789") == strlen(g->names[layer]);
    int n = snprintf(title, LAYER_TITLE, "%s%.30s", number ? "layer " : "", g->names[layer]);
    if (a->lead)
        (void)snprintf(title + n, LAYER_TITLE - (size_t)n, ", %s %.2f", a->labels[0],
                       (double)shares[0]);
}

/* Pixels from one map to the next: a map, or the widest title. */
static double maps_step(const qkv_patch_grid *g, const qkv_look_axis *a, const float *shares)
{
    double step = MAP;
    for (size_t i = 0; i < g->layers; i++) {
        char title[LAYER_TITLE];
        layer_title(g, a, i, shares + i * g->positions, title);
        step = fmax(step, qkv_bold_width(title, 14));
    }
    return step + GAP;
}

/* One layer's shares over the image; patches that the stack does not see are missing. */
static void draw_layer(qkv_drawing *d, qkv_frame frame, bool scale, const qkv_patch *x,
                       const qkv_patch_grid *g, size_t layer, const float *shares, double most,
                       float *cells)
{
    const qkv_look_axis *a = &x->corrupt_input.axes[g->axis];
    const qkv_look *in = &x->corrupt_input;
    char title[LAYER_TITLE], key[64];
    layer_title(g, a, layer, shares, title);
    for (size_t i = 0; i < a->rows * a->columns; i++)
        cells[i] = NAN;
    for (size_t i = a->lead; i < a->count; i++)
        cells[a->cells ? (size_t)a->cells[i - a->lead] : i - a->lead] = shares[i];
    (void)snprintf(key, sizeof key, "patch-%zu-%zu", (size_t)(g - x->grids), layer);
    const qkv_heat_map map = {.title = title, .values = cells, .rows = a->rows,
                              .columns = a->columns, .square = true, .diverging = true,
                              .max = most, .no_scale = !scale, .key = key,
                              .beneath = in->images_count ? &in->images[0].image : NULL};
    frame.width += scale ? SCALE : 0;
    qkv_draw_heat(d, &frame, &map);
}

/* A map over the image for each layer, on one scale. */
static qkv_status draw_maps(const qkv_patch *x, const qkv_patch_grid *g, const float *shares,
                            qkv_drawing **out)
{
    const qkv_look_axis *a = &x->corrupt_input.axes[g->axis];
    size_t across = g->layers < ACROSS ? g->layers : ACROSS;
    size_t down = (g->layers + across - 1) / across;
    double most = 1e-6, step = MAP + TITLE + GAP, right = maps_step(g, a, shares);
    char title[200];
    float *cells = qkv_calloc(x->ctx, a->rows * a->columns + 1, sizeof *cells);
    if (!cells)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < g->layers * g->positions; i++)
        if (i % g->positions >= a->lead)
            most = fmax(most, fabs((double)shares[i]));
    patch_title(x, g, title, sizeof title);
    double width = fmax((double)across * right + SCALE, 16 + qkv_bold_width(title, 13));
    qkv_status status = qkv_drawing_create(out, x->ctx, width, TITLE + (double)down * step);
    for (size_t i = 0; i < g->layers && !status; i++) {
        const qkv_frame frame = {(double)(i % across) * right,
                                 TITLE + (double)(i / across) * step, MAP, MAP + TITLE};
        draw_layer(*out, frame, i + 1 == across, x, g, i, shares + i * g->positions, most, cells);
        status = qkv_drawing_status(*out);
    }
    qkv_free(x->ctx, cells);
    if (status)
        return status;
    qkv_draw_text(*out, 4, 16, title, &(qkv_text_style){.size = 13, .bold = true});
    qkv_drawing_describe(*out, title, "a map of the image's patches for each layer");
    return qkv_drawing_status(*out);
}

qkv_status qkv_patch_draw(const qkv_patch *x, size_t grid, qkv_drawing **out)
{
    *out = NULL;
    if (grid >= x->grid_count)
        return qkv_fail(x->ctx, QKV_E_ARGUMENT, "grid: there are %zu, found %zu", x->grid_count,
                        grid);
    const qkv_patch_grid *g = &x->grids[grid];
    const qkv_look_axis *a = axis_of(x, g);
    char key[32];
    float *shares = qkv_calloc(x->ctx, g->layers * g->positions + 1, sizeof *shares);
    if (!shares)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < g->layers * g->positions; i++)
        shares[i] = (float)qkv_patch_share(x, g->values[i]);
    (void)snprintf(key, sizeof key, "patch-%zu", grid);
    qkv_status status = a && a->rows ? draw_maps(x, g, shares, out)
                                     : draw_sequence(x, g, shares, key, out);
    qkv_free(x->ctx, shares);
    if (status) {
        qkv_drawing_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_patch_grid(qkv_json_writer *w, const qkv_patch *x, const qkv_patch_grid *g)
{
    const qkv_look_axis *a = axis_of(x, g);
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "stack", g->stack);
    qkv_json_put_strings(w, "layers", (const char *const *)g->names, g->layers);
    qkv_json_put_string(w, "positions", a ? a->name : "heads");
    if (a)
        qkv_json_put_strings(w, "labels", (const char *const *)a->labels, a->count);
    qkv_json_begin_array(w, "values");
    for (size_t i = 0; i < g->layers; i++)
        qkv_json_put_reals(w, NULL, g->values + i * g->positions, g->positions);
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

void qkv_patch_json(const qkv_patch *x, qkv_json_writer *w)
{
    qkv_json_put_string(w, "answer", x->answer);
    if (x->other)
        qkv_json_put_string(w, "other", x->other);
    qkv_json_put_string(w, "where", x->where);
    qkv_json_put_string(w, "place", x->place);
    qkv_json_put_real(w, "clean", x->clean);
    qkv_json_put_real(w, "corrupt", x->corrupt);
    qkv_json_begin_array(w, "outcomes");
    for (size_t i = 0; i < x->outcome_count; i++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_string(w, "name", x->outcomes[i].name);
        qkv_json_put_real(w, "clean", x->outcomes[i].clean);
        qkv_json_put_real(w, "corrupt", x->outcomes[i].corrupt);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    qkv_json_begin_array(w, "grids");
    for (size_t i = 0; i < x->grid_count; i++)
        put_patch_grid(w, x, &x->grids[i]);
    qkv_json_end_array(w);
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct {
    size_t at;
    double size;
} patched_place;

static int larger_first(const void *a, const void *b)
{
    const patched_place *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static qkv_status put_strongest(const qkv_patch *x, const qkv_patch_grid *g, qkv_str *out)
{
    size_t n = g->layers * g->positions, wide = 2;
    char name[128];
    patched_place *all = qkv_calloc(x->ctx, n + 1, sizeof *all);
    if (!all)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        all[i] = (patched_place){i, fabs(g->values[i] - x->corrupt)};
    qsort(all, n, sizeof *all, larger_first);
    for (size_t i = 0; i < g->layers; i++)
        wide = strlen(g->names[i]) > wide ? strlen(g->names[i]) : wide;
    for (size_t i = 0; i < n && i < LISTED; i++) {
        double value = g->values[all[i].at];
        name_place(x, g, all[i].at % g->positions, name, sizeof name);
        qkv_str_printf(out, "  layer %*s, %-28s %8.3f  %4.0f %%\n", (int)wide,
                       g->names[all[i].at / g->positions], name, value,
                       100 * qkv_patch_share(x, value));
    }
    qkv_free(x->ctx, all);
    return QKV_OK;
}

qkv_status qkv_patch_text(const qkv_patch *x, qkv_str *out)
{
    qkv_status status = QKV_OK;
    qkv_str_printf(out, "%s%s%s at %s: clean %.3f, corrupt %.3f\n", x->answer,
                   x->other ? " - " : "", x->other ? x->other : "", x->where, x->clean,
                   x->corrupt);
    for (size_t i = 0; i < x->grid_count && !status; i++) {
        const qkv_patch_grid *g = &x->grids[i];
        bool small = g->positions <= LISTED && (x->heads || !axis_of(x, g)->rows);
        qkv_str_printf(out, "%s: %s\n", g->pattern,
                       small ? x->heads ? "layers down, heads across"
                                        : "layers down, positions across"
                             : "the activations that matter most, and the share they restore");
        for (size_t k = 0; small && k < g->layers * g->positions; k++)
            qkv_str_printf(out, "%8.3f%s", g->values[k], (k + 1) % g->positions ? "" : "\n");
        if (!small)
            status = put_strongest(x, g, out);
    }
    return status ? status : out->failed ? QKV_E_MEMORY : QKV_OK;
}
