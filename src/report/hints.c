/* hints.c - the panel "hints" of a colourer: what the colours of one patch came from. What the
 * patch attends to, layer by layer; of each hint the attention that it gets, and how much the
 * patch's colours change without it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/image.h"
#include "report/over.h"
#include "report/patches.h"
#include "qkv/color.h"
#include "qkv/pixelwise.h"

enum { RGB = 3, LINE = 20, MOST_MAPS = 6, MOST_ABLATED = 32, LISTED = 24 };

typedef struct {
    size_t x, y; /* pixels of the input */
    uint8_t rgb[RGB];
    size_t patch;      /* that has the pixel */
    double attention;  /* of the layer in which it gets the most */
    size_t layer;      /* that layer */
    double rollout;
    double change;     /* of the patch's a and b without the hint, mean distance; NaN: not tried */
} hint;

typedef struct {
    size_t side, layers;        /* patches in a row */
    size_t x, y, row, column;   /* the pixel; its patch */
    const qkv_image *image;     /* the colours */
    float *maps;                /* (layers + 1, side * side): of each layer, and the rollout */
    hint *hints;
    size_t count;
} hints_panel;

static size_t hints_patch(const hints_panel *h, size_t x, size_t y)
{
    return y * h->side / h->image->height * h->side + x * h->side / h->image->width;
}

/* The colouring has checked them. */
static void parse_hint(hint *h, const char *text)
{
    const char *at = text;
    if (!qkv__image_place(&at, &h->x, &h->y) || *at != ',')
        return;
    unsigned long value = strtoul(at + 2, NULL, 16);
    for (size_t c = 0; c < RGB; c++)
        h->rgb[c] = (uint8_t)(value >> (16 - 8 * c));
}

static qkv_status read_maps(hints_panel *h, qkv__looking *l)
{
    const qkv_look_attention *a = &l->out->attentions[0];
    size_t n = h->side * h->side;
    qkv_status status = QKV_OK;
    h->maps = qkv_calloc(l->p->ctx, (a->layers + 1) * n, sizeof *h->maps);
    h->hints = qkv_calloc(l->p->ctx, l->o.hints.count + 1, sizeof *h->hints);
    if (!h->maps || !h->hints)
        return QKV_E_MEMORY;
    h->layers = a->layers;
    for (size_t i = 0; i <= a->layers && !status; i++)
        if (i < a->layers || a->rollout)
            status = qkv__look_patch_row(l->out, i < a->layers ? (int)i : -1, h->row, h->column,
                                         h->maps + i * n);
    for (size_t i = 0; i < l->o.hints.count && !status; i++) {
        hint *x = &h->hints[h->count++];
        parse_hint(x, l->o.hints.items[i]);
        x->patch = hints_patch(h, x->x, x->y);
        x->rollout = (double)h->maps[a->layers * n + x->patch];
        x->change = (double)NAN;
        for (size_t k = 0; k < a->layers; k++) {
            double weight = (double)h->maps[k * n + x->patch];
            x->layer = weight > x->attention ? k : x->layer;
            x->attention = fmax(x->attention, weight);
        }
    }
    return status;
}

/* Mean distance of the patch's colours in a and b. */
static double color_distance(const hints_panel *h, const qkv_image *other)
{
    double sum = 0;
    size_t count = 0, wanted = h->row * h->side + h->column;
    for (size_t i = 0; i < other->width * other->height; i++) {
        qkv_real a[RGB], b[RGB];
        if (hints_patch(h, i % other->width, i / other->width) != wanted)
            continue;
        qkv_bytes_to_lab(a, h->image->data + RGB * i, 1);
        qkv_bytes_to_lab(b, other->data + RGB * i, 1);
        sum += hypot((double)(a[1] - b[1]), (double)(a[2] - b[2]));
        count++;
    }
    return count ? sum / (double)count : 0;
}

/* Colours the image again without each hint. */
static qkv_status ablate_hints(hints_panel *h, qkv__looking *l)
{
    qkv_context *ctx = l->p->ctx;
    qkv_status status = QKV_OK;
    const char **kept = qkv_calloc(ctx, h->count + 1, sizeof *kept);
    if (!kept)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < h->count && i < MOST_ABLATED && !status; i++) {
        qkv_pipeline_colorize_options o = qkv_pipeline_colorize_defaults();
        qkv_colorization found;
        size_t n = 0;
        for (size_t k = 0; k < h->count; k++)
            if (k != i)
                kept[n++] = l->o.hints.items[k];
        o.hints = (qkv_strings){.items = kept, .count = n};
        status = qkv_pipeline_colorize(l->p, &l->in->image, &o, &found);
        if (!status)
            h->hints[i].change = color_distance(h, &found.image);
        qkv_colorization_free(&found);
    }
    qkv_free(ctx, kept);
    return status;
}

static int by_change(const void *a, const void *b)
{
    const hint *x = a, *y = b;
    if (x->change != y->change && !isnan(x->change) && !isnan(y->change))
        return x->change > y->change ? -1 : 1;
    return x->attention > y->attention ? -1 : x->attention < y->attention;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* The chosen patch and the hints on a picture at f. */
static void mark_hints(qkv_drawing *d, qkv_frame f, const hints_panel *h)
{
    double cell_w = f.width / (double)h->side, cell_h = f.height / (double)h->side;
    qkv_draw_rect(d, (qkv_frame){f.x + cell_w * (double)h->column, f.y + cell_h * (double)h->row,
                                 cell_w, cell_h},
                  qkv_ink_none(), qkv_ink_of(QKV_INK_MARK));
    qkv_draw_name(d, "the chosen patch");
    for (size_t i = 0; i < h->count; i++) {
        const hint *x = &h->hints[i];
        double at_x = f.x + f.width * ((double)x->x + 0.5) / (double)h->image->width;
        double at_y = f.y + f.height * ((double)x->y + 0.5) / (double)h->image->height;
        char name[48];
        qkv_draw_circle(d, at_x, at_y, 6, qkv_ink_of(QKV_INK_BACKGROUND),
                        qkv_ink_of(QKV_INK_TEXT));
        qkv__look_draw_swatch(d, at_x - 3.5, at_y - 3.5, 7, x->rgb);
        (void)snprintf(name, sizeof name, "hint %zu,%zu #%02x%02x%02x", x->x, x->y, x->rgb[0],
                       x->rgb[1], x->rgb[2]);
        qkv_draw_name(d, name);
    }
}

static void draw_hint_table(qkv_drawing *d, const hints_panel *h, double top)
{
    static const char *const heads[] = {"hint", "most attention", "in layer", "rollout",
                                        "colour changes without it by"};
    static const double at[] = {26, 220, 300, 380, 400};
    const qkv_text_style right = {.anchor = QKV_ANCHOR_END};
    char text[64];
    for (size_t i = 0; i < 5 && h->count; i++)
        qkv_draw_text(d, at[i], top + 12, heads[i],
                      &(qkv_text_style){.bold = true,
                                        .anchor = i && i < 4 ? QKV_ANCHOR_END
                                                             : QKV_ANCHOR_START});
    for (size_t i = 0; i < h->count && i < LISTED; i++) {
        const hint *x = &h->hints[i];
        double y = top + (double)((i + 1) * LINE);
        qkv__look_draw_swatch(d, 4, y, 14, x->rgb);
        (void)snprintf(text, sizeof text, "%zu,%zu #%02x%02x%02x", x->x, x->y, x->rgb[0],
                       x->rgb[1], x->rgb[2]);
        qkv_draw_text(d, at[0], y + 12, text, NULL);
        (void)snprintf(text, sizeof text, "%.3f", x->attention);
        qkv_draw_text(d, at[1], y + 12, text, &right);
        (void)snprintf(text, sizeof text, "%zu", x->layer);
        qkv_draw_text(d, at[2], y + 12, text, &right);
        (void)snprintf(text, sizeof text, "%.3f", x->rollout);
        qkv_draw_text(d, at[3], y + 12, text, &right);
        if (!isnan(x->change)) {
            (void)snprintf(text, sizeof text, "%.1f", x->change);
            qkv_draw_text(d, at[4], y + 12, text, NULL);
        }
    }
}

/* The picture, then a map of each layer (evenly, if there are many), then the rollout. */
static qkv_status draw_hint_maps(const hints_panel *h, qkv_context *ctx, qkv_drawing **out)
{
    enum { TALL = QKV__OVER_SIDE + QKV__OVER_TITLE + 16, ACROSS = 4 };
    size_t maps = h->layers < MOST_MAPS ? h->layers : MOST_MAPS, n = h->side * h->side;
    size_t rows = (maps + 2 + ACROSS - 1) / ACROSS, across = maps + 2 < ACROSS ? maps + 2 : ACROSS;
    size_t lines = !h->count ? 0 : 1 + (h->count < LISTED ? h->count : LISTED);
    qkv_status status = qkv_drawing_create(out, ctx, (double)(across * QKV__OVER_ROOM),
                                           (double)(rows * TALL + lines * LINE) + 8);
    for (size_t i = 0; i < maps + 2 && !status; i++) {
        double x = (double)(i % ACROSS * QKV__OVER_ROOM), y = (double)(i / ACROSS * TALL);
        size_t layer = i == maps + 1 ? h->layers : i ? (i - 1) * h->layers / maps : 0;
        qkv_frame f;
        char title[48], key[32];
        (void)snprintf(title, sizeof title, "Attention, layer %zu", layer);
        (void)snprintf(key, sizeof key, "layer%zu", layer);
        const qkv__look_over map = {.title = layer == h->layers ? "Rollout" : title,
                                    .picture = h->image, .values = h->maps + layer * n,
                                    .rows = h->side, .columns = h->side,
                                    .key = layer == h->layers ? "rollout" : key};
        if (i)
            qkv__look_draw_over(*out, x, y, &map, &f);
        else
            qkv__look_draw_picture(*out, x, y, "The model's colours", h->image, &f);
        mark_hints(*out, f, h);
    }
    if (!status) {
        draw_hint_table(*out, h, (double)(rows * TALL));
        status = qkv_drawing_status(*out);
    }
    return status;
}

static void put_hint_list(qkv_json_writer *w, const hints_panel *h)
{
    size_t n = h->side * h->side;
    qkv_json_begin_object(w, NULL);
    qkv_json_put_int(w, "x", (int64_t)h->x);
    qkv_json_put_int(w, "y", (int64_t)h->y);
    qkv_json_put_int(w, "row", (int64_t)h->row);
    qkv_json_put_int(w, "column", (int64_t)h->column);
    qkv_json_begin_array(w, "hints");
    for (size_t i = 0; i < h->count; i++) {
        const hint *x = &h->hints[i];
        char color[8];
        (void)snprintf(color, sizeof color, "#%02x%02x%02x", x->rgb[0], x->rgb[1], x->rgb[2]);
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "x", (int64_t)x->x);
        qkv_json_put_int(w, "y", (int64_t)x->y);
        qkv_json_put_string(w, "colour", color);
        qkv_json_put_real(w, "attention", x->attention);
        qkv_json_put_int(w, "layer", (int64_t)x->layer);
        qkv_json_put_real(w, "rollout", x->rollout);
        qkv_json_put_real(w, "change", x->change);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    qkv_json_begin_array(w, "attention");
    for (size_t k = 0; k <= h->layers; k++) {
        if (k == h->layers) {
            qkv_json_end_array(w);
            qkv_json_begin_array(w, "rollout");
        } else {
            qkv_json_begin_array(w, NULL);
        }
        for (size_t i = 0; i < n; i++)
            qkv_json_put_float(w, NULL, h->maps[k * n + i]);
        qkv_json_end_array(w);
    }
    qkv_json_end_object(w);
}

qkv_status qkv__look_hints(qkv__looking *l)
{
    const qkv_patches_config *c =
        &((const qkv_pixelwise_config *)qkv_model_config(l->p->model))->trunk;
    hints_panel h = {.side = c->image / c->patch, .image = &l->out->images[1].image};
    qkv_drawing *d = NULL;
    qkv_json_writer w;
    char note[500];
    qkv_status status = qkv__look_pixel(l, l->o.pixel, "--pixel", h.image, &h.x, &h.y);
    if (status)
        return status;
    h.row = hints_patch(&h, h.x, h.y) / h.side;
    h.column = hints_patch(&h, h.x, h.y) % h.side;
    status = read_maps(&h, l);
    if (!status)
        status = ablate_hints(&h, l);
    if (!status) {
        qsort(h.hints, h.count, sizeof *h.hints, by_change);
        status = draw_hint_maps(&h, l->p->ctx, &d);
    }
    if (!status) {
        qkv_json_writer_init(&w, l->p->ctx, -1);
        put_hint_list(&w, &h);
        (void)snprintf(note, sizeof note, "The patch with the pixel %zu,%zu (framed; --pixel X,Y "
                       "chooses): what it attends to in each layer, the mean of the heads, and "
                       "what flows to it through all. %s", h.x, h.y,
                       h.count ? "Circles are hints. The image is coloured again without each; "
                                 "the change is the mean distance in a and b of Lab."
                               : "No hints were given (--hint X,Y,#RRGGBB).");
        status = qkv__look_add_panel(l, "hints", "What a patch's colours came from", note, d, &w);
    } else {
        qkv_drawing_destroy(d);
    }
    qkv_free(l->p->ctx, h.maps);
    qkv_free(l->p->ctx, h.hints);
    return status;
}
