/* index.c - the page of a tour: what each chapter learnt, its pictures, and links to what its model
 * attends to. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tour/chapter.h"

void tour_say(const tour *t, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    page_text(t->page, "%s", text);
    qkv_page_text(t->index, text);
}

void tour_link(const tour *t, const char *dir, const char *file, const char *text)
{
    const qkv_path path = qkv_path_in(dir, file);
    if (qkv_file_exists(path.text))
        qkv_page_link(t->index, path.text + strlen(t->root) + 1, text);
}

/* The drawing as a figure of the index; it is destroyed. */
static void put_drawing(const tour *t, qkv_drawing *d, const char *caption)
{
    if (d)
        qkv_page_figure(t->index, d, NULL, caption);
    qkv_drawing_destroy(d);
}

void tour_index_curve(const tour *t, const double *y, size_t count, const char *title)
{
    enum { WIDTH = 480, HEIGHT = 200 };
    qkv_drawing *d = NULL;
    double x[TOUR_CURVE_COLUMNS];
    char caption[128];
    const qkv_curve curve = {.x = x, .y = y, .count = count};
    for (size_t i = 0; i < count; i++)
        x[i] = 100 * (double)(i + 1) / (double)count;
    (void)snprintf(caption, sizeof caption, "%.*s", (int)strcspn(title, ":"), title);
    if (qkv_drawing_create(&d, t->page->c->ctx, WIDTH, HEIGHT))
        return; /* a page without the curve says what it says */
    qkv_drawing_describe(d, caption, NULL);
    qkv_draw_lines(d, NULL, &(qkv_line_chart){.x_label = "% of the time", .curves = &curve,
                                              .count = 1});
    put_drawing(t, d, caption);
}

qkv_status tour_look(const tour *t, const char *dir, const qkv_look_input *in, const char *file,
                     const char *caption)
{
    qkv_context *ctx = t->page->c->ctx;
    qkv_pipeline *p = NULL;
    qkv_drawing *d = NULL;
    qkv_look l = {0};
    qkv_status status = qkv_pipeline_open(&p, ctx, dir);
    if (!status)
        status = qkv_pipeline_look(p, in, NULL, &l);
    if (!status && l.attentions_count) {
        qkv_look_choice c;
        status = qkv_look_choose(&l, NULL, &c);
        if (!status)
            status = qkv_look_draw(&l, &c, &d);
    }
    if (!status)
        status = qkv_look_page(&l, &(qkv_look_page_options){.input = in->text},
                               qkv_path_in(t->dir, file).text);
    if (!status) {
        put_drawing(t, d, caption);
        tour_link(t, t->dir, file, "What it attends to: every head, layer and position");
    }
    qkv_look_free(&l);
    qkv_pipeline_close(p);
    if (status != QKV_E_UNSUPPORTED) /* a build without images */
        return status;
    page_text(t->page, "(This build of qkv draws no images.)");
    return QKV_OK;
}
