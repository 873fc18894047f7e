/* chart_heat.c - a matrix as colours, alone or over an image. */
#include <math.h>
#include <stdio.h>

#include "draw/axis.h"
#include "draw/encode.h"

enum { NAMED_CELLS = 4096, LONGEST = 140 };

/* Room around the cells. */
typedef struct {
    double left, right, above, below;
    bool upward; /* column labels */
} heat_room;

static double heat_widest(const char *const *labels, size_t count)
{
    double width = 0.0;
    for (size_t i = 0; labels && i < count; i++)
        width = fmax(width, qkv_text_width(labels[i] ? labels[i] : "", QKV__SMALL));
    return fmin(width, LONGEST);
}

static heat_room heat_rooms(const qkv_heat_map *map, double cell)
{
    double widest = heat_widest(map->column_labels, map->columns);
    heat_room r = {.left = 4.0, .right = map->no_scale ? 4.0 : QKV__SCALE_ROOM, .above = 4.0,
                   .below = 4.0};
    r.upward = widest > cell - 4.0;
    if (map->row_labels)
        r.left += heat_widest(map->row_labels, map->rows) + 6.0;
    r.left += map->y_label ? QKV__LABEL_ROOM : 0;
    if (map->column_labels)
        r.above += r.upward ? widest + 6.0 : 16.0;
    r.below += map->x_label ? QKV__LABEL_ROOM : 0;
    return r;
}

void qkv_heat_size(const qkv_heat_map *map, double cell, double *width, double *height)
{
    heat_room r = heat_rooms(map, cell);
    *width = r.left + r.right + cell * (double)map->columns;
    *height = r.above + r.below + cell * (double)map->rows + (map->title ? QKV__TITLE_ROOM : 0);
    if (map->title)
        *width = fmax(*width, qkv_bold_width(map->title, QKV__TITLE_SIZE) + 4);
}

/* Where the cells are. */
static qkv_frame heat_inside(const qkv_heat_map *map, qkv_frame f, heat_room *r)
{
    *r = heat_rooms(map, INFINITY);
    double cell = (f.width - r->left - r->right) / (double)map->columns;
    *r = heat_rooms(map, cell);
    qkv_frame inside = {f.x + r->left, f.y + r->above, f.width - r->left - r->right,
                        f.height - r->above - r->below};
    inside.width = fmax(inside.width, 1.0);
    inside.height = fmax(inside.height, 1.0);
    if (map->square) {
        cell = fmin(inside.width / (double)map->columns, inside.height / (double)map->rows);
        inside.width = cell * (double)map->columns;
        inside.height = cell * (double)map->rows;
    }
    return inside;
}

static void heat_labels(qkv_drawing *d, qkv_frame f, const qkv_heat_map *map, bool upward)
{
    double width = f.width / (double)map->columns, height = f.height / (double)map->rows;
    double end = -INFINITY;
    for (size_t i = 0; map->row_labels && i < map->rows; i++) {
        double y = f.y + height * ((double)i + 0.5) + 4.0;
        if (y < end + 10.0)
            continue;
        qkv__draw_label(d, f.x - 6.0, y, map->row_labels[i] ? map->row_labels[i] : "", LONGEST,
                        &(qkv_text_style){.size = QKV__SMALL, .anchor = QKV_ANCHOR_END});
        end = y;
    }
    end = -INFINITY;
    for (size_t j = 0; map->column_labels && j < map->columns; j++) {
        double x = f.x + width * ((double)j + 0.5);
        if (upward && x < end + 10.0)
            continue;
        qkv__draw_label(d, upward ? x + 4.0 : x, f.y - 5.0,
                        map->column_labels[j] ? map->column_labels[j] : "", LONGEST,
                        &(qkv_text_style){.size = QKV__SMALL, .upward = upward,
                                          .anchor = upward ? QKV_ANCHOR_START
                                                           : QKV_ANCHOR_MIDDLE});
        end = x;
    }
    if (map->x_label)
        qkv_draw_text(d, f.x + 0.5 * f.width, f.y + f.height + 15.0, map->x_label,
                      &(qkv_text_style){.anchor = QKV_ANCHOR_MIDDLE});
}

/* "row, column: value" */
static void heat_name(qkv_drawing *d, const qkv_heat_map *map, size_t i, size_t j, double value)
{
    qkv_str name;
    const char *row = map->row_labels ? map->row_labels[i] : NULL;
    const char *column = map->column_labels ? map->column_labels[j] : NULL;
    qkv_str_init(&name, d->ctx);
    if (row)
        qkv_str_printf(&name, "%s, ", row);
    else
        qkv_str_printf(&name, "%zu, ", i);
    if (column)
        qkv_str_printf(&name, "%s: ", column);
    else
        qkv_str_printf(&name, "%zu: ", j);
    qkv__put_real(&name, value, 6, true);
    if (!name.failed)
        qkv_draw_name(d, name.data);
    else
        qkv__drawing_fail(d, QKV_E_MEMORY);
    qkv_str_free(&name);
}

static void heat_cells(qkv_drawing *d, qkv_frame f, const qkv_heat_map *map,
                       const qkv__scale *scale)
{
    double width = f.width / (double)map->columns, height = f.height / (double)map->rows;
    bool named = map->rows * map->columns <= NAMED_CELLS;
    double clear = map->beneath ? (map->transparency > 0.0 ? map->transparency : 0.4)
                                : map->transparency;
    qkv__draw_begin_cells(d, NULL, map->key);
    for (size_t i = 0; i < map->rows && !qkv_drawing_status(d); i++)
        for (size_t j = 0; j < map->columns; j++) {
            double value = (double)map->values[i * map->columns + j];
            qkv_ink ink = qkv__scale_ink(scale, value);
            ink.transparency = clear;
            qkv_draw_rect(d,
                          (qkv_frame){f.x + width * (double)j, f.y + height * (double)i, width,
                                      height},
                          ink, qkv_ink_none());
            if (named)
                heat_name(d, map, i, j, value);
        }
    qkv_draw_end(d);
}

static void heat_numbers(qkv_drawing *d, qkv_frame f, const qkv_heat_map *map,
                         const qkv__scale *scale)
{
    double width = f.width / (double)map->columns, height = f.height / (double)map->rows;
    double size = fmin(12.0, 0.7 * height), widest = 0.0;
    qkv_str text;
    qkv_str_init(&text, d->ctx);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < map->rows * map->columns; i++) {
            double value = (double)map->values[i];
            qkv_str_clear(&text);
            qkv__put_real(&text, value, map->decimals ? map->decimals : 2, false);
            if (text.failed || isnan(value))
                continue;
            if (pass == 0) {
                widest = fmax(widest, qkv_text_width(text.data, 1.0));
                size = fmin(size, 0.9 * width / widest);
            } else if (size >= 6.0) {
                qkv_draw_text(d, f.x + width * ((double)(i % map->columns) + 0.5),
                              f.y + height * ((double)(i / map->columns) + 0.5) + 0.36 * size,
                              text.data,
                              &(qkv_text_style){.size = size, .anchor = QKV_ANCHOR_MIDDLE,
                                                .ink = qkv__scale_ink_on(scale, value)});
            }
        }
    if (text.failed)
        qkv__drawing_fail(d, QKV_E_MEMORY);
    qkv_str_free(&text);
}

void qkv_draw_heat(qkv_drawing *d, const qkv_frame *frame, const qkv_heat_map *map)
{
    heat_room room;
    qkv_frame f = qkv__chart_frame(d, frame, map->title);
    if (!map->rows || !map->columns)
        return;
    qkv_frame inside = heat_inside(map, f, &room);
    qkv__scale scale = qkv__scale_of(map->min, map->max, map->diverging, map->values,
                                     map->rows * map->columns);
    if (map->beneath)
        qkv_draw_image(d, inside, map->beneath, true);
    if (map->rows * map->columns > NAMED_CELLS && !map->beneath)
        qkv__draw_matrix(d, inside, &scale, map->values, map->rows, map->columns);
    else
        heat_cells(d, inside, map, &scale);
    if (map->numbers)
        heat_numbers(d, inside, map, &scale);
    heat_labels(d, inside, map, room.upward);
    if (map->y_label)
        qkv_draw_text(d, f.x + 13.0, inside.y + 0.5 * inside.height, map->y_label,
                      &(qkv_text_style){.anchor = QKV_ANCHOR_MIDDLE, .upward = true});
    if (!map->no_scale)
        qkv__draw_scale(d,
                        (qkv_frame){inside.x + inside.width + 12.0, inside.y, 12.0,
                                    inside.height},
                        &scale);
}
