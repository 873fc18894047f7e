/* chart_sheets.c - many small maps, many images. */
#include <math.h>
#include <stdio.h>

#include "draw/axis.h"

enum { GAP = 5, KEY_BYTES = 96 };

/* ---- maps ------------------------------------------------------------------------------------ */

static qkv_frame sheets_rooms(const qkv_map_grid *g)
{
    return (qkv_frame){g->down ? 42.0 : 22.0, g->across ? 34.0 : 18.0,
                       g->own_scale ? 6.0 : QKV__SCALE_ROOM, 4.0};
}

/* Height over width of a map: that of its matrix, but not so far from a square that maps become
 * bars or towers. */
static double sheets_map_shape(const qkv_map_grid *g)
{
    return g->columns ? fmin(fmax((double)g->rows / (double)g->columns, 0.5), 2.0) : 1.0;
}

void qkv_map_grid_size(const qkv_map_grid *g, double cell, double *width, double *height)
{
    qkv_frame room = sheets_rooms(g);
    double tall = cell * sheets_map_shape(g);
    *width = room.x + room.width + (cell + GAP) * (double)g->maps_across;
    *height = room.y + room.height + (tall + GAP) * (double)g->maps_down +
              (g->title ? QKV__TITLE_ROOM : 0);
}

static void sheets_map(qkv_drawing *d, const qkv_map_grid *g, qkv_frame at,
                       const qkv__scale *shared, size_t i, size_t j)
{
    char name[KEY_BYTES], key[KEY_BYTES];
    size_t n = g->rows * g->columns;
    const float *values = g->values + (i * g->maps_across + j) * n;
    qkv__scale own = g->own_scale ? qkv__scale_of(0.0, 0.0, g->diverging, values, n) : *shared;
    (void)snprintf(name, sizeof name, "%s %zu, %s %zu", g->down ? g->down : "row", i,
                   g->across ? g->across : "column", j);
    (void)snprintf(key, sizeof key, "%s-%zu-%zu", g->key ? g->key : "", i, j);
    qkv_draw_begin(d, name, g->key ? key : NULL);
    qkv__draw_matrix(d, at, &own, values, g->rows, g->columns);
    qkv_draw_rect(d, at, qkv_ink_none(), qkv_ink_of(QKV_INK_GRID));
    qkv_draw_end(d);
}

static void sheets_numbers(qkv_drawing *d, const qkv_map_grid *g, qkv_frame first)
{
    char text[24];
    qkv_text_style across = {.size = QKV__SMALL, .anchor = QKV_ANCHOR_MIDDLE,
                             .ink = qkv_ink_of(QKV_INK_FAINT)}, down = across;
    down.anchor = QKV_ANCHOR_END;
    for (size_t j = 0; j < g->maps_across; j++) {
        (void)snprintf(text, sizeof text, "%zu", j);
        qkv_draw_text(d, first.x + (first.width + GAP) * (double)j + 0.5 * first.width,
                      first.y - 5.0, text, &across);
    }
    for (size_t i = 0; i < g->maps_down; i++) {
        (void)snprintf(text, sizeof text, "%zu", i);
        qkv_draw_text(d, first.x - 6.0,
                      first.y + (first.height + GAP) * (double)i + 0.5 * first.height + 4.0,
                      text, &down);
    }
}

void qkv_draw_map_grid(qkv_drawing *d, const qkv_frame *frame, const qkv_map_grid *g)
{
    qkv_frame f = qkv__chart_frame(d, frame, g->title), room = sheets_rooms(g);
    if (!g->maps_down || !g->maps_across || !g->rows || !g->columns)
        return;
    double across = (double)g->maps_across, down = (double)g->maps_down;
    double wide = (f.width - room.x - room.width) / across - GAP;
    double tall = (f.height - room.y - room.height) / down - GAP;
    double shape = sheets_map_shape(g);
    wide = fmax(fmin(wide, tall / shape), 1.0);
    tall = wide * shape;
    qkv__scale scale = qkv__scale_of(g->min, g->max, g->diverging, g->values,
                                     g->maps_down * g->maps_across * g->rows * g->columns);
    qkv_frame first = {f.x + room.x, f.y + room.y, wide, tall};
    sheets_numbers(d, g, first);
    if (g->across)
        qkv_draw_text(d, first.x + 0.5 * (wide + GAP) * across, f.y + 13.0, g->across,
                      &(qkv_text_style){.anchor = QKV_ANCHOR_MIDDLE});
    if (g->down)
        qkv_draw_text(d, f.x + 13.0, first.y + 0.5 * (tall + GAP) * down, g->down,
                      &(qkv_text_style){.anchor = QKV_ANCHOR_MIDDLE, .upward = true});
    for (size_t i = 0; i < g->maps_down; i++)
        for (size_t j = 0; j < g->maps_across; j++) {
            qkv_frame at = {first.x + (wide + GAP) * (double)j,
                            first.y + (tall + GAP) * (double)i, wide, tall};
            sheets_map(d, g, at, &scale, i, j);
        }
    if (!g->own_scale)
        qkv__draw_scale(d,
                        (qkv_frame){first.x + (wide + GAP) * across + 6.0, first.y, 12.0,
                                    (tall + GAP) * down - GAP},
                        &scale);
}

/* ---- images ---------------------------------------------------------------------------------- */

static size_t sheets_columns(const qkv_image_sheet *s)
{
    size_t columns = s->columns ? s->columns : (size_t)ceil(sqrt((double)s->count));
    return columns < 1 ? 1 : columns > s->count && s->count ? s->count : columns;
}

/* The largest height over width of the images. */
static double sheets_shape(const qkv_image_sheet *s)
{
    double shape = 0.0;
    for (size_t i = 0; i < s->count; i++)
        if (s->images[i].width)
            shape = fmax(shape, (double)s->images[i].height / (double)s->images[i].width);
    return shape > 0.0 ? shape : 1.0;
}

void qkv_images_size(const qkv_image_sheet *s, double cell, double *width, double *height)
{
    size_t columns = sheets_columns(s), rows = (s->count + columns - 1) / columns;
    double label = s->labels ? QKV__LABEL_ROOM : 0.0;
    *width = GAP + (cell + GAP) * (double)columns;
    *height = GAP + (cell * sheets_shape(s) + label + GAP) * (double)(rows ? rows : 1) +
              (s->title ? QKV__TITLE_ROOM : 0);
}

void qkv_draw_images(qkv_drawing *d, const qkv_frame *frame, const qkv_image_sheet *s)
{
    qkv_frame f = qkv__chart_frame(d, frame, s->title);
    size_t columns = sheets_columns(s), rows = (s->count + columns - 1) / columns;
    double label = s->labels ? QKV__LABEL_ROOM : 0.0;
    double wide = (f.width - GAP) / (double)columns - GAP;
    double tall = (f.height - GAP) / (double)(rows ? rows : 1) - GAP - label;
    for (size_t i = 0; i < s->count; i++) {
        const qkv_image *image = &s->images[i];
        if (!image->width || !image->height)
            continue;
        double scale = fmin(wide / (double)image->width, tall / (double)image->height);
        double w = scale * (double)image->width, h = scale * (double)image->height;
        double x = f.x + GAP + (wide + GAP) * (double)(i % columns);
        double y = f.y + GAP + (tall + GAP + label) * (double)(i / columns);
        qkv_draw_image(d, (qkv_frame){x + 0.5 * (wide - w), y + 0.5 * (tall - h), w, h}, image,
                       s->smooth);
        if (!s->labels || !s->labels[i])
            continue;
        qkv_draw_name(d, s->labels[i]);
        qkv__draw_label(d, x + 0.5 * wide, y + tall + 13.0, s->labels[i], wide,
                        &(qkv_text_style){.size = QKV__SMALL, .anchor = QKV_ANCHOR_MIDDLE});
    }
}
