/* tables.h - tables and images on pages of looks. */
#ifndef QKV_SRC_REPORT_TABLES_H
#define QKV_SRC_REPORT_TABLES_H

#include "base/base.h"
#include "qkv/page.h"
#include "qkv/pipeline_look.h"

/* Cells of a table: texts that are made one after another. Set ctx, zero the rest. */
typedef struct {
    qkv_context *ctx;
    char **cells;
    size_t count, room;
    bool failed;
} qkv__look_cells;

void qkv__look_cell(qkv__look_cells *t, const char *fmt, ...) QKV_PRINTF(2, 3);
/* Adds the table to the page and frees the cells. Nothing is added without cells, or when memory
 * gave out. */
void qkv__look_table(qkv_page *page, qkv__look_cells *t, const char *caption,
                     const char *const *columns, size_t column_count);

/* The images of two results, each under its name. ids begin those of the images. */
void qkv__look_page_images(qkv_page *page, qkv_context *ctx, const qkv_look *const sides[2],
                           const char *const names[2], const char *const ids[2]);

#endif
