/* filters.c - the panels "filters" and "exciting": the kernels of a model's patch embedding as
 * images, or the principal components of many (Dosovitskiy et al. 2020, figure 7), and the patches
 * to which each responds most and least. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/patches.h"
#include "qkv/chart.h"
#include "qkv/color.h"

enum { SHOWN = 64, COMPONENTS = 28, LISTED = 3, SIDES = 4, RGB = 3 };
static const double AB = 110;

/* What patches are compared with: the filters, or their principal components. */
typedef struct {
    const qkv__look_reading *r;
    size_t count, width; /* numbers of each */
    bool components;
    double *rows;   /* (count, width) */
    double *shares; /* of components: of the filters' variance */
    double *columns; /* (width, count): rows, transposed */
    double *sums;    /* (count) of a window */
    qkv__look_best *best;     /* (count, SIDES): the input's most, least, the set's most, least */
    qkv_real *values;         /* (height, width, inputs) of an image */
} features;

static void free_features(features *f, qkv_context *ctx)
{
    qkv_free(ctx, f->rows);
    qkv_free(ctx, f->shares);
    qkv_free(ctx, f->columns);
    qkv_free(ctx, f->sums);
    qkv_free(ctx, f->best);
    qkv_free(ctx, f->values);
}

static qkv_status make_features(features *f, qkv_context *ctx, const qkv__look_reading *r)
{
    *f = (features){.r = r, .width = r->window * r->window * r->inputs, .count = r->filters};
    size_t n = r->filters * f->width, pixels = r->format.height * r->format.width;
    f->components = r->filters > SHOWN;
    if (f->components) {
        size_t most = f->width < r->filters ? f->width : r->filters;
        f->count = most < COMPONENTS ? most : COMPONENTS;
    }
    double *all = qkv_malloc(ctx, n * sizeof *all);
    f->rows = qkv_malloc(ctx, n * sizeof *f->rows);
    f->shares = qkv_calloc(ctx, f->count, sizeof *f->shares);
    f->columns = qkv_malloc(ctx, f->count * f->width * sizeof *f->columns);
    f->sums = qkv_malloc(ctx, f->count * sizeof *f->sums);
    f->best = qkv__look_bests(ctx, f->count * SIDES, LISTED);
    f->values = qkv_malloc(ctx, pixels * r->inputs * sizeof *f->values);
    const qkv_real *weight = qkv_param_data(r->weight);
    qkv_status status = all && f->rows && f->shares && f->columns && f->sums && f->best &&
                        f->values && weight ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++)
        all[i] = f->rows[i] = (double)weight[i];
    if (!status && f->components)
        status = qkv__look_components(ctx, all, r->filters, f->width, f->count, f->rows,
                                      f->shares);
    for (size_t i = 0; i < f->count * f->width && !status; i++)
        f->columns[i % f->width * f->count + i / f->width] = f->rows[i];
    qkv_free(ctx, all);
    return status;
}

/* ---- responses ------------------------------------------------------------------------------- */

/* The sums of all features over the window at (x, y). */
static void add_products(features *f, size_t x, size_t y)
{
    const qkv__look_reading *r = f->r;
    const qkv_real *bias = r->bias && !f->components ? qkv_param_data(r->bias) : NULL;
    size_t row = r->window * r->inputs;
    for (size_t k = 0; k < f->count; k++)
        f->sums[k] = bias ? (double)bias[k] : 0;
    for (size_t i = 0; i < f->width; i++) {
        double value =
            (double)f->values[((y + i / row) * r->format.width + x) * r->inputs + i % row];
        const double *weights = f->columns + i * f->count;
        for (size_t k = 0; k < f->count; k++)
            f->sums[k] += weights[k] * value;
    }
}

/* All windows of an image: number 0 is the input, others the set's. */
static void respond(features *f, const uint8_t *bytes, size_t image)
{
    const qkv__look_reading *r = f->r;
    qkv__look_reading_values(r, bytes, f->values);
    for (size_t y = 0; y + r->window <= r->format.height; y += r->step)
        for (size_t x = 0; x + r->window <= r->format.width; x += r->step) {
            qkv__look_found found = {.image = image, .x = x, .y = y};
            found.hash = qkv__look_window_hash(r, bytes, x, y, r->window);
            add_products(f, x, y);
            for (size_t k = 0; k < f->count; k++) {
                qkv__look_best *best = f->best + k * SIDES + (image ? 2 : 0);
                found.value = f->sums[k];
                qkv__look_best_add(best, &found, r->window);
                found.value = -f->sums[k];
                qkv__look_best_add(best + 1, &found, r->window);
            }
        }
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Weights as an image, mid-grey at 0. A colourer's: lightness, a and b as a colour; to the right
 * the weights of "the colour is known". data: (window, 2 window, 3). */
static qkv_image filter_image(const qkv__look_reading *r, const double *weights, uint8_t *data)
{
    size_t n = r->window * r->window, wide = r->lab ? 2 * r->window : r->window;
    size_t C = r->lab ? RGB : r->inputs;
    double largest = 1e-30;
    for (size_t i = 0; i < n * r->inputs; i++)
        largest = fmax(largest, fabs(weights[i]));
    for (size_t i = 0; i < n * C && !r->lab; i++)
        data[i] = (uint8_t)lround(127.5 + 127 * weights[i] / largest);
    for (size_t i = 0; i < n && r->lab; i++) {
        const double *w = weights + i * r->inputs;
        uint8_t *left = data + RGB * (i / r->window * wide + i % r->window);
        qkv_real color[RGB] = {(qkv_real)(50 + 50 * w[0] / largest),
                               (qkv_real)(AB * w[1] / largest), (qkv_real)(AB * w[2] / largest)};
        qkv_lab_to_srgb(color, color, 1);
        for (size_t c = 0; c < RGB; c++) {
            left[c] = (uint8_t)lround(255 * (double)color[c]);
            left[RGB * r->window + c] = (uint8_t)lround(127.5 + 127 * w[RGB] / largest);
        }
    }
    return (qkv_image){.width = wide, .height = r->window, .channels = C, .data = data};
}

static size_t sheet_columns(const features *f) { return f->r->lab ? 8 : 16; }

static double sheet_height(const features *f, size_t count)
{
    return 30 + (double)((count + sheet_columns(f) - 1) / sheet_columns(f) * (QKV__TILE + 4));
}

/* A sheet of `count` filters; the room they take below `top` is added to it. */
static void draw_filters(qkv_drawing *d, const features *f, const double *rows, size_t count,
                         double *top, const char *title, uint8_t *data)
{
    size_t columns = sheet_columns(f), wide = f->r->lab ? 2 * QKV__TILE : QKV__TILE;
    char name[64];
    qkv_draw_text(d, 4, *top + 14, title, &(qkv_text_style){.bold = true});
    for (size_t i = 0; i < count; i++) {
        const qkv_image image = filter_image(f->r, rows + i * f->width, data);
        (void)snprintf(name, sizeof name, "%zu", i);
        qkv__look_draw_tile(d, 4 + (double)(i % columns * (wide + 4)),
                            *top + 22 + (double)(i / columns * (QKV__TILE + 4)), (double)wide,
                            QKV__TILE, &image, name);
    }
    *top += sheet_height(f, count);
}

static qkv_status draw_all_filters(const features *f, qkv_context *ctx, qkv_drawing **out)
{
    const qkv__look_reading *r = f->r;
    size_t shown = r->filters < SHOWN ? r->filters : SHOWN;
    char title[96];
    double top = 0, share = 0;
    double *rows = qkv_malloc(ctx, shown * f->width * sizeof *rows);
    uint8_t *data = qkv_malloc(ctx, r->window * r->window * 2 * RGB);
    double height = sheet_height(f, shown) + (f->components ? sheet_height(f, f->count) : 0);
    qkv_status status = QKV_E_MEMORY;
    if (rows && data)
        status = qkv_drawing_create(out, ctx, 16 * (QKV__TILE + 4) + 8, height);
    const qkv_real *weight = qkv_param_data(r->weight);
    for (size_t i = 0; i < shown * f->width && !status; i++)
        rows[i] = (double)weight[i];
    for (size_t i = 0; i < f->count; i++)
        share += f->shares[i];
    if (!status && f->components) {
        (void)snprintf(title, sizeof title, "%zu principal components of %zu filters: %.0f %% of "
                       "their variance", f->count, r->filters, 100 * share);
        draw_filters(*out, f, f->rows, f->count, &top, title, data);
    }
    if (!status) {
        (void)snprintf(title, sizeof title, shown < r->filters ? "The first %zu of %zu filters"
                                                               : "All %zu filters",
                       shown, r->filters);
        draw_filters(*out, f, rows, shown, &top, title, data);
        status = qkv_drawing_status(*out);
    }
    qkv_free(ctx, rows);
    qkv_free(ctx, data);
    return status;
}

/* ---- panels ---------------------------------------------------------------------------------- */

static qkv_status add_filters(qkv__looking *l, const features *f)
{
    const qkv__look_reading *r = f->r;
    qkv_json_writer w;
    qkv_drawing *d = NULL;
    char note[400];
    qkv_json_writer_init(&w, l->p->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_int(&w, "filters", (int64_t)r->filters);
    qkv_json_put_int(&w, "window", (int64_t)r->window);
    qkv_json_put_int(&w, "inputs", (int64_t)r->inputs);
    qkv_json_put_int(&w, "components", f->components ? (int64_t)f->count : 0);
    if (f->components)
        qkv_json_put_reals(&w, "variance", f->shares, f->count);
    qkv_json_end_object(&w);
    (void)snprintf(note, sizeof note, "Each %s is a kernel of %zu x %zu pixels, on its own scale; "
                   "mid-grey is 0.%s%s", r->step == 1 ? "filter of the first convolution"
                                                     : "row of the patch embedding",
                   r->window, r->window,
                   f->components ? " Components are what the filters have in common, by the share "
                                   "of their variance." : "",
                   r->lab ? " Left, the weights of lightness, a and b as a colour; right, of "
                            "whether the colour is known." : "");
    qkv_status status = draw_all_filters(f, l->p->ctx, &d);
    if (!status)
        return qkv__look_add_panel(l, "filters", "Filters of the patches", note, d, &w);
    qkv_drawing_destroy(d);
    qkv_json_writer_free(&w);
    return status;
}

static const char *const side_names[SIDES] = {"most", "least", "most", "least"};

static void put_best(qkv_json_writer *w, const qkv__look_best *best, bool least, size_t side,
                     const qkv_pixels *set)
{
    qkv_json_begin_array(w, side_names[side]);
    for (size_t i = 0; i < best->count; i++) {
        const qkv__look_found *x = &best->items[i];
        qkv_json_begin_object(w, NULL);
        if (x->image)
            qkv_json_put_string(w, "image", qkv_pixels_name(set, x->image - 1));
        qkv_json_put_int(w, "x", (int64_t)x->x);
        qkv_json_put_int(w, "y", (int64_t)x->y);
        qkv_json_put_real(w, "response", least ? -x->value : x->value);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

static void put_exciting(qkv_json_writer *w, const features *f, const qkv_pixels *set)
{
    qkv_json_begin_object(w, NULL);
    qkv_json_begin_array(w, f->components ? "components" : "filters");
    for (size_t k = 0; k < f->count; k++) {
        qkv_json_begin_object(w, NULL);
        for (size_t side = 0; side < SIDES; side++) {
            if (side == 2 && !set)
                break;
            if (side % 2 == 0)
                qkv_json_begin_object(w, side ? "set" : "input");
            put_best(w, &f->best[k * SIDES + side], side % 2 == 1, side, set);
            if (side % 2 == 1)
                qkv_json_end_object(w);
        }
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

/* What the drawing is of. */
typedef struct {
    const features *f;
    const uint8_t *input;
    const qkv_pixels *set; /* NULL: none */
} exciting;

enum { GROUP = LISTED * (QKV__TILE + 2) + 14, NUMBER = 26 }; /* widths: a side's, a number's */

static double feature_width(const features *f) { return f->r->lab ? 2 * QKV__TILE : QKV__TILE; }

static void draw_sides(const void *self, qkv_drawing *d, double x)
{
    static const char *const heads[SIDES] = {"most", "least", "set: most", "set: least"};
    const exciting *e = self;
    for (size_t side = 0; side < (e->set ? SIDES : 2U); side++)
        qkv_draw_text(d, x + NUMBER + feature_width(e->f) + GROUP * (double)side + 14, 16,
                      heads[side], NULL);
}

/* One feature: its number, itself, its patches. */
static void draw_feature(const void *self, qkv_drawing *d, size_t k, double x, double y,
                         uint8_t *data)
{
    const exciting *e = self;
    const features *f = e->f;
    double wide = feature_width(f), left = x + NUMBER;
    char name[32];
    (void)snprintf(name, sizeof name, "%zu", k);
    qkv_draw_text(d, left - 4, y + 0.65 * QKV__TILE, name,
                  &(qkv_text_style){.size = 11, .anchor = QKV_ANCHOR_END});
    const qkv_image image = filter_image(f->r, f->rows + k * f->width, data);
    qkv__look_draw_tile(d, left, y, wide, QKV__TILE, &image, name);
    for (size_t side = 0; side < (e->set ? SIDES : 2U); side++) {
        const qkv__look_best *best = &f->best[k * SIDES + side];
        double first = left + wide + GROUP * (double)side + 14;
        for (size_t i = 0; i < best->count; i++)
            qkv__look_draw_found(d, f->r, &best->items[i], e->input, e->set, f->r->window,
                                 (side % 2 ? -1 : 1) * best->items[i].value,
                                 first + (double)i * (QKV__TILE + 2), y, data);
    }
}

static qkv_status draw_exciting(const features *f, qkv_context *ctx, const uint8_t *input,
                                const qkv_pixels *set, qkv_drawing **out)
{
    const exciting e = {f, input, set};
    const qkv__look_tiles tiles = {
        .count = f->count, .pixels = 2 * f->r->window * f->r->window, .self = &e,
        .wide = NUMBER + feature_width(f) + GROUP * (double)(set ? SIDES : 2U) + 24,
        .head = draw_sides, .row = draw_feature};
    return qkv__look_draw_tiles(ctx, &tiles, out);
}

static qkv_status add_exciting(qkv__looking *l, const features *f, const uint8_t *input,
                               const qkv_pixels *set)
{
    qkv_json_writer w;
    qkv_drawing *d = NULL;
    char note[400];
    qkv_json_writer_init(&w, l->p->ctx, -1);
    put_exciting(&w, f, set);
    (void)snprintf(note, sizeof note, "Each row: a %s, and the patches of the image%s to which it "
                   "responds most and least: %s. Patches that overlap or are equal are shown "
                   "once.", f->components ? "component" : "filter", set ? " and of the set" : "",
                   f->components ? "the sum of its products with the pixels"
                                 : "weights times pixels, and the bias");
    qkv_status status = draw_exciting(f, l->p->ctx, input, set, &d);
    if (!status)
        return qkv__look_add_panel(l, "exciting", "Patches that excite the filters", note, d, &w);
    qkv_json_writer_free(&w);
    return status;
}

qkv_status qkv__look_filters(qkv__looking *l, const qkv__look_reading *r, const qkv_pixels *set,
                             const qkv_image *input)
{
    features f;
    qkv_status status = make_features(&f, l->p->ctx, r);
    if (!status)
        respond(&f, input->data, 0);
    for (size_t i = 0; set && i < qkv_pixels_count(set) && !status; i++)
        respond(&f, qkv_pixels_data(set, i), i + 1);
    if (!status)
        status = add_filters(l, &f);
    if (!status)
        status = add_exciting(l, &f, input->data, set);
    free_features(&f, l->p->ctx);
    return status;
}
