/* json.c - parts of JSON that several answers and pages have. */
#include "report/looking.h"

void qkv__look_put_rows(qkv_json_writer *w, const char *name, const float *values, size_t rows,
                        size_t columns)
{
    qkv_json_begin_array(w, name);
    for (size_t i = 0; i < rows; i++) {
        qkv_json_begin_array(w, NULL);
        for (size_t j = 0; j < columns; j++)
            qkv_json_put_float(w, NULL, values[i * columns + j]);
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

void qkv__look_put_cells(qkv_json_writer *w, const qkv_look_axis *a)
{
    if (a->cells)
        qkv_json_put_ids(w, "cells", a->cells, a->count - a->lead);
    if (a->span) {
        qkv_json_put_int(w, "from", (int64_t)a->from);
        qkv_json_put_int(w, "span", (int64_t)a->span);
    }
}
