/* tables.c - tables on pages of looks. */
#include "report/tables.h"

#include <stdarg.h>
#include <stdio.h>

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
