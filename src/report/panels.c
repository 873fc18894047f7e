/* panels.c - panels: drawings of what else is known of a model and its input, each with the
 * numbers behind it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/looking.h"
#include "qkv/chart.h"

qkv_status qkv__look_add_panel(qkv__looking *l, const char *name, const char *title,
                               const char *note, qkv_drawing *drawing, qkv_json_writer *numbers)
{
    qkv_look *out = l->out;
    qkv_context *ctx = out->ctx;
    const char *text = numbers ? qkv_json_writer_text(numbers) : "null";
    qkv_look_panel p = {.name = name, .title = title, .drawing = drawing};
    qkv_status status = drawing ? qkv_drawing_status(drawing) : QKV_E_MEMORY;
    if (!status && text && note) {
        p.note = qkv_strdup(ctx, note);
        p.json = qkv_strdup(ctx, text);
    }
    if (!status && (!p.note || !p.json || !qkv__grow(ctx, &out->panels, &l->panel_room,
                                                     out->panel_count + 1, sizeof p)))
        status = QKV_E_MEMORY;
    if (numbers)
        qkv_json_writer_free(numbers);
    if (!status) {
        qkv_drawing_describe(drawing, title, note);
        out->panels[out->panel_count++] = p;
        return QKV_OK;
    }
    qkv_free(ctx, p.note);
    qkv_free(ctx, p.json);
    qkv_drawing_destroy(drawing);
    return status;
}

const qkv_look_panel *qkv_look_panel_of(const qkv_look *l, const char *name)
{
    for (size_t i = 0; i < l->panel_count; i++)
        if (strcmp(l->panels[i].name, name) == 0)
            return &l->panels[i];
    qkv_str names;
    qkv_str_init(&names, l->ctx);
    for (size_t i = 0; i < l->panel_count; i++)
        qkv_str_printf(&names, "%s%s", i ? ", " : "", l->panels[i].name);
    (void)qkv_fail(l->ctx, QKV_E_ARGUMENT, "there is no panel \"%.60s\"; a %s model has: %s", name,
                   l->kind, names.len ? names.data : "none");
    qkv_str_free(&names);
    return NULL;
}

/* ---- images of a set ------------------------------------------------------------------------- */

enum { AMONG = 2000 }; /* images at most */

/* Reads `count` images evenly from the list; unreadable ones are left out. */
static qkv_status read_among(qkv__looking *l, const qkv_image_list *list, size_t count,
                             const qkv_pixels_options *o, qkv_pixels_writer *w, size_t *added)
{
    qkv_context *ctx = l->p->ctx;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        size_t at = qkv_image_list_count(list) * i / count;
        qkv_image image = {0};
        qkv_status read = qkv_image_list_read(list, at, &image, NULL);
        if (!read)
            read = qkv_image_fit(&image, ctx, o);
        if (read == QKV_E_MEMORY)
            status = read;
        if (!read) {
            status = qkv_pixels_add(w, image.data, -1, qkv_image_list_name(list, at));
            ++*added;
        }
        qkv_image_free(&image, ctx);
    }
    return status;
}

qkv_status qkv__look_among(qkv__looking *l, const qkv_pixels_options *o, qkv_pixels **out)
{
    qkv_image_list *list = NULL;
    qkv_pixels_writer *w = NULL;
    size_t added = 0;
    *out = NULL;
    if (!l->o.among)
        return QKV_OK;
    qkv_status status = qkv_image_list_open(&list, l->p->ctx, l->o.among);
    if (!status)
        status = qkv_pixels_create(&w, l->p->ctx, NULL, o->height, o->width, o->channels);
    if (!status) {
        size_t count = qkv_image_list_count(list);
        status = read_among(l, list, count < AMONG ? count : AMONG, o, w, &added);
    }
    if (!status && !added)
        status = qkv_fail(l->p->ctx, QKV_E_FORMAT, "%s: no image could be read", l->o.among);
    qkv_image_list_close(list);
    if (status)
        qkv_pixels_abandon(w);
    else
        status = qkv_pixels_finish(w, out);
    return status;
}

/* ---- the residual stream --------------------------------------------------------------------- */

static double norm_of(const qkv_real *x, size_t width)
{
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* (states, positions) norms, and the same as JSON. */
static void measure_stream(const qkv__looking *l, size_t positions, float *norms,
                           qkv_json_writer *w)
{
    size_t width = l->state_size / sizeof(qkv_real) / positions;
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "axis", l->out->axes[l->out->predicted].name);
    qkv_json_begin_array(w, "norms");
    for (size_t i = 0; i < l->state_count; i++) {
        qkv_json_begin_array(w, NULL);
        for (size_t j = 0; j < positions; j++) {
            norms[i * positions + j] = (float)norm_of(l->states[i] + j * width, width);
            qkv_json_put_float(w, NULL, norms[i * positions + j]);
        }
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

enum { STATE_NAME = 32 };

/* The names of the states point into text (count * STATE_NAME). */
static void name_states(char *text, const char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        names[i] = text + i * STATE_NAME;
        (void)snprintf(text + i * STATE_NAME, STATE_NAME, i + 1 < count ? "before layer %zu"
                                                                        : "output", i);
    }
}

static qkv_status draw_stream(qkv__looking *l, const float *norms, const char *const *names,
                              qkv_drawing **d)
{
    enum { LABELLED = 64 };
    double width, height;
    const qkv_look_axis *axis = &l->out->axes[l->out->predicted];
    bool labels = axis->count <= LABELLED;
    const qkv_heat_map map = {
        .values = norms, .rows = l->state_count, .columns = axis->count, .x_label = axis->name,
        .row_labels = names, .key = "stream",
        .column_labels = labels ? (const char *const *)axis->labels : NULL};
    qkv_heat_size(&map, 24, &width, &height);
    qkv_status status = qkv_drawing_create(d, l->p->ctx, labels ? width : 760, height);
    if (!status)
        qkv_draw_heat(*d, NULL, &map);
    return status;
}

qkv_status qkv__look_stream(qkv__looking *l)
{
    qkv_context *ctx = l->p->ctx;
    size_t positions = l->out->axes[l->out->predicted].count, count = l->state_count;
    if (!count || !positions)
        return QKV_OK;
    float *norms = qkv_calloc(ctx, count * positions, sizeof *norms);
    char *text = qkv_calloc(ctx, count, STATE_NAME);
    const char **names = qkv_calloc(ctx, count, sizeof *names);
    qkv_drawing *d = NULL;
    qkv_json_writer w;
    qkv_json_writer_init(&w, ctx, -1);
    qkv_status status = norms && text && names ? QKV_OK : QKV_E_MEMORY;
    if (!status) {
        measure_stream(l, positions, norms, &w);
        name_states(text, names, count);
        status = draw_stream(l, norms, names, &d);
    }
    qkv_free(ctx, norms);
    qkv_free(ctx, text);
    qkv_free(ctx, names);
    if (status) {
        qkv_json_writer_free(&w);
        return status;
    }
    return qkv__look_add_panel(l, "stream", "Norm of the residual stream",
                               "|x| of each position before each layer and after the last. A "
                               "position that stands out is often one that many heads attend to.",
                               d, &w);
}
