/* tables.c - tables and images on pages of looks. */
#include "report/tables.h"

#include <stdarg.h>
#include <stdio.h>

#include "qkv/painting.h"

void qkv__look_cell(qkv__look_cells *t, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char *copy = NULL;
    if (!t->failed && qkv__grow(t->ctx, &t->cells, &t->room, t->count + 1, sizeof *t->cells))
        copy = qkv_strdup(t->ctx, text);
    t->failed = !copy;
    if (copy)
        t->cells[t->count++] = copy;
}

void qkv__look_table(qkv_page *page, qkv__look_cells *t, const char *caption,
                     const char *const *columns, size_t column_count)
{
    if (!t->failed && t->count)
        qkv_page_table(page, &(qkv_page_table_options){
            .caption = caption, .columns = columns, .cells = (const char *const *)t->cells,
            .row_count = t->count / column_count, .column_count = column_count, .numbers = true});
    for (size_t i = 0; i < t->count; i++)
        qkv_free(t->ctx, t->cells[i]);
    qkv_free(t->ctx, t->cells);
}

void qkv__look_page_images(qkv_page *page, qkv_context *ctx, const qkv_look *const sides[2],
                           const char *const names[2], const char *const ids[2])
{
    enum { ENLARGED = 192 };
    for (size_t s = 0; s < 2; s++) {
        qkv_page_heading(page, 3, NULL, names[s]);
        qkv_page_begin(page, QKV_PAGE_ROW, NULL, NULL);
        for (size_t i = 0; i < sides[s]->images_count; i++) {
            char id[48];
            qkv_image large;
            (void)snprintf(id, sizeof id, "%.16s%zu", ids[s], i);
            if (qkv_image_enlarge(&large, ctx, &sides[s]->images[i].image, ENLARGED))
                continue;
            qkv_page_image(page, &large, id, sides[s]->images[i].name, sides[s]->images[i].name);
            qkv_image_free(&large, ctx);
        }
        qkv_page_end(page);
    }
}
