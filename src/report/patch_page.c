/* patch_page.c - the page of activation patching: both answers, and every grid, whose numbers
 * look_patch.js reads out by mouse and keys. */
#include <stdio.h>
#include <string.h>

#include "report/tables.h"
#include "report/looking.h"
#include "qkv/painting.h"

extern const char qkv__file_look_patch_js[], qkv__file_look_css[];

enum { ENLARGED = 192, TABLED = 32 }; /* positions of a grid that is a table, too */

static void page_outcomes(qkv_page *page, const qkv_patch *x)
{
    static const char *const columns[] = {"answer", "clean", "corrupt"};
    qkv__look_cells t = {.ctx = x->ctx};
    for (size_t i = 0; i < x->outcome_count; i++) {
        qkv__look_cell(&t, "%.120s", x->outcomes[i].name);
        qkv__look_cell(&t, "%.4f", x->outcomes[i].clean);
        qkv__look_cell(&t, "%.4f", x->outcomes[i].corrupt);
    }
    qkv_page_heading(page, 2, "answers", "Answers");
    qkv_page_printf(page, "Measured: \"%s\"%s%s%s at %s: %.4f for the clean input, %.4f for the "
                    "corrupt one.", x->answer, x->other ? " less \"" : "",
                    x->other ? x->other : "", x->other ? "\"" : "", x->where, x->clean,
                    x->corrupt);
    qkv__look_table(page, &t, x->numbers ? "Numbers" : "Probabilities", columns, 3);
}

static void page_inputs(qkv_page *page, const qkv_patch *x)
{
    const qkv_look *sides[] = {&x->clean_input, &x->corrupt_input};
    qkv_page_heading(page, 2, "inputs", "Inputs");
    for (size_t s = 0; s < 2; s++) {
        qkv_page_heading(page, 3, NULL, s ? "Corrupt" : "Clean");
        qkv_page_begin(page, QKV_PAGE_ROW, NULL, NULL);
        for (size_t i = 0; i < sides[s]->images_count; i++) {
            char id[32];
            qkv_image large;
            (void)snprintf(id, sizeof id, "%s%zu", s ? "corrupt" : "clean", i);
            if (qkv_image_enlarge(&large, x->ctx, &sides[s]->images[i].image, ENLARGED))
                continue;
            qkv_page_image(page, &large, id, sides[s]->images[i].name, sides[s]->images[i].name);
            qkv_image_free(&large, x->ctx);
        }
        qkv_page_end(page);
    }
}

static void put_grid_table(qkv_page *page, const qkv_patch *x, const qkv_patch_grid *g)
{
    static const char *const columns[] = {"layer", "position", "", "measure", "share"};
    const qkv_look_axis *a = &x->corrupt_input.axes[g->axis];
    qkv__look_cells t = {.ctx = x->ctx};
    for (size_t i = 0; i < g->layers * g->positions; i++) {
        size_t position = i % g->positions;
        qkv__look_cell(&t, "%.60s", g->names[i / g->positions]);
        qkv__look_cell(&t, "%zu", position);
        qkv__look_cell(&t, "%.120s", x->heads ? "head" : a->labels[position]);
        qkv__look_cell(&t, "%.4f", g->values[i]);
        qkv__look_cell(&t, "%.1f %%", 100 * qkv_patch_share(x, g->values[i]));
    }
    qkv_page_begin(page, QKV_PAGE_DETAILS, NULL, "The numbers");
    qkv__look_table(page, &t, "The measure with one activation patched", columns, 5);
    qkv_page_end(page);
}

static qkv_status page_grid(qkv_page *page, const qkv_patch *x, size_t i)
{
    const qkv_patch_grid *g = &x->grids[i];
    const qkv_look_axis *a = &x->corrupt_input.axes[g->axis];
    qkv_drawing *d;
    char id[32];
    (void)snprintf(id, sizeof id, "grid%zu", i);
    qkv_page_heading(page, 2, id, g->pattern);
    qkv_page_printf(page, "%zu layers, %zu %s.", g->layers, g->positions,
                    x->heads ? "heads, each patched at all positions" : a->name);
    qkv_status status = qkv_patch_draw(x, i, &d);
    if (status)
        return status;
    (void)snprintf(id, sizeof id, "patch%zu", i);
    qkv_page_begin(page, QKV_PAGE_PANEL, id, "One activation");
    (void)snprintf(id, sizeof id, "figure%zu", i);
    qkv_page_figure(page, d, id, "The share of the difference between the answers that one clean "
                                 "activation restores. 1: the clean answer, 0: the corrupt one.");
    qkv_page_end(page);
    qkv_drawing_destroy(d);
    if (g->positions <= TABLED)
        put_grid_table(page, x, g);
    return QKV_OK;
}

/* The block "patch" that look_patch.js reads. */
static qkv_status page_data(qkv_page *page, const qkv_patch *x)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, x->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_patch_json(x, &w);
    qkv_json_begin_array(&w, "axes");
    for (size_t i = 0; i < x->grid_count; i++) {
        const qkv_look_axis *a = &x->corrupt_input.axes[x->grids[i].axis];
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_int(&w, "lead", (int64_t)a->lead);
        qkv_json_put_int(&w, "rows", x->heads ? 0 : (int64_t)a->rows);
        qkv_json_put_int(&w, "columns", (int64_t)a->columns);
        if (a->cells)
            qkv_json_put_ids(&w, "cells", a->cells, a->count - a->lead);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    qkv_json_end_object(&w);
    const char *text = qkv_json_writer_text(&w);
    if (text)
        qkv_page_json(page, "patch", text);
    qkv_json_writer_free(&w);
    return text ? QKV_OK : QKV_E_MEMORY;
}

qkv_status qkv_patch_page(const qkv_patch *x, const qkv_look_page_options *options,
                          const char *path)
{
    const qkv_look_page_options o = options ? *options : (qkv_look_page_options){0};
    qkv_page *page;
    char title[128];
    (void)snprintf(title, sizeof title, "Activation patching of a %s model",
                   x->corrupt_input.kind);
    qkv_status status = qkv_page_create(&page, x->ctx, &(qkv_page_options){
        .title = o.title ? o.title : title, .subtitle = o.input});
    if (status)
        return status;
    page_outcomes(page, x);
    if (x->corrupt_input.images_count)
        page_inputs(page, x);
    for (size_t i = 0; i < x->grid_count && !status; i++)
        status = page_grid(page, x, i);
    if (!status)
        status = page_data(page, x);
    qkv_page_heading(page, 2, "reading", "Reading this page");
    qkv_page_text(page, "The model reads the corrupt input; one activation, at one layer and "
                  "position, is replaced by that of the clean input, and everything behind it is "
                  "computed again (Vig et al. 2020; Meng et al. 2022). A large share says that "
                  "what makes the difference passes there. Shares of several activations do not "
                  "add up.");
    qkv_page_css(page, qkv__file_look_css);
    qkv_page_js(page, qkv__file_look_patch_js);
    if (!status)
        status = qkv_page_save(page, path);
    qkv_page_destroy(page);
    return status;
}
