/* codes_sheets.c - codes as images: each decoded alone, where it occurs, the patches that are
 * nearest to it. */
#include "report/code_panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "qkv/codes.h"

enum { ALONE = 256, ALONE_SIDE = 8, SHEET_COLUMNS = 16, WINDOW = 3 };
static const double ALONE_CELL = 40, CELL = 56, CELL_GAP = 6, LABEL_WIDTH = 96, LINE = 14;

/* ---- each code alone ------------------------------------------------------------------------- */

/* Images of the most frequent codes, each the middle of a grid that has the code everywhere. Grids
 * are as large as an image's, at most ALONE_SIDE codes a side: decoders normalise over the whole
 * image, and small ones come out in other colours. */
typedef struct {
    const qkv__code_set *s;
    size_t count;
    size_t side;       /* of a grid */
    qkv_image *images; /* (count) factor x factor pixels */
} alone_sheet;

static qkv_status decode_alone(alone_sheet *a, size_t first, size_t n, int32_t *grids,
                               uint8_t *decoded)
{
    const qkv__look_codes *c = a->s->c;
    size_t f = c->factor, C = c->config->colors, side = a->side, middle = side / 2 * f;
    for (size_t i = 0; i < n * side * side; i++)
        grids[i] = a->s->order[first + i / (side * side)];
    qkv_status status = qkv_images_decode(c->vqgan, c->tape, grids, n, side, side, decoded);
    for (size_t i = 0; i < n && !status; i++) {
        qkv_image *to = &a->images[first + i];
        status = qkv_image_create(to, c->ctx, f, f, C);
        for (size_t y = 0; y < f && !status; y++)
            memcpy(to->data + y * f * C,
                   decoded + ((i * side * f + middle + y) * side * f + middle) * C, f * C);
    }
    return status;
}

static qkv_status make_alone(alone_sheet *a)
{
    const qkv__look_codes *c = a->s->c;
    size_t most = c->config->codes, least = c->rows < c->columns ? c->rows : c->columns;
    a->count = most < ALONE ? most : ALONE;
    a->side = least < ALONE_SIDE ? least : ALONE_SIDE;
    size_t codes = a->side * a->side, pixels = codes * c->factor * c->factor;
    size_t batch = qkv__look_codes_batch(pixels);
    a->images = qkv_calloc(c->ctx, a->count, sizeof *a->images);
    int32_t *grids = qkv_calloc(c->ctx, batch, codes * sizeof *grids);
    uint8_t *decoded = qkv_calloc(c->ctx, batch, pixels * c->config->colors);
    qkv_status status = a->images && grids && decoded ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < a->count && !status; i += batch) {
        status = decode_alone(a, i, a->count - i < batch ? a->count - i : batch, grids, decoded);
        if (!status && batch < a->count)
            status = qkv__progress(c->ctx, "decoding", "codes",
                                   a->count - i < batch ? a->count : i + batch, a->count);
    }
    qkv_free(c->ctx, grids);
    qkv_free(c->ctx, decoded);
    return status;
}

static void free_alone(alone_sheet *a)
{
    for (size_t i = 0; a->images && i < a->count; i++)
        qkv_image_free(&a->images[i], a->s->c->ctx);
    qkv_free(a->s->c->ctx, a->images);
}

/* An image with an outline, for those that are as light as the page. */
static void draw_outlined(qkv_drawing *d, qkv_frame frame, const qkv_image *image)
{
    qkv_draw_image(d, frame, image, false);
    qkv_draw_rect(d, frame, qkv_ink_none(), qkv_ink_of(QKV_INK_GRID));
}

static qkv_status draw_alone(const alone_sheet *a, qkv_drawing **out)
{
    const double step = ALONE_CELL + CELL_GAP, tall = step + LINE;
    size_t rows = (a->count + SHEET_COLUMNS - 1) / SHEET_COLUMNS;
    qkv_status status = qkv_drawing_create(out, a->s->c->ctx, CELL_GAP + step * SHEET_COLUMNS,
                                           CELL_GAP + tall * (double)rows);
    for (size_t i = 0; i < a->count && !status; i++) {
        double x = CELL_GAP + step * (double)(i % SHEET_COLUMNS);
        double y = CELL_GAP + tall * (double)(i / SHEET_COLUMNS);
        char text[64];
        draw_outlined(*out, (qkv_frame){x, y, ALONE_CELL, ALONE_CELL}, &a->images[i]);
        (void)snprintf(text, sizeof text, "code %d: %zu patches", (int)a->s->order[i],
                       a->s->counts[a->s->order[i]]);
        qkv_draw_name(*out, text);
        (void)snprintf(text, sizeof text, "%d", (int)a->s->order[i]);
        qkv_draw_text(*out, x + ALONE_CELL / 2, y + ALONE_CELL + LINE - 2, text,
                      &(qkv_text_style){.size = 11, .anchor = QKV_ANCHOR_MIDDLE});
    }
    return status;
}

static qkv_status panel_alone(const alone_sheet *a)
{
    const qkv__code_set *s = a->s;
    qkv_drawing *d;
    qkv_json_writer w;
    char note[320];
    qkv_status status = draw_alone(a, &d);
    if (status)
        return status;
    (void)snprintf(note, sizeof note, "%zu of %zu codes, the most frequent first: the middle of a "
                   "grid of %zu x %zu that has the code everywhere. A decoder sees neighbours, "
                   "too, so the code looks different among others.%s", a->count,
                   s->c->config->codes, a->side, a->side,
                   s->used < a->count ? " The last ones do not occur." : "");
    qkv_json_writer_init(&w, s->c->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_ids(&w, "codes", s->order, a->count);
    qkv_json_begin_array(&w, "counts");
    for (size_t i = 0; i < a->count; i++)
        qkv_json_put_int(&w, NULL, (int64_t)s->counts[s->order[i]]);
    qkv_json_end_array(&w);
    qkv_json_end_object(&w);
    return qkv__look_add_panel(s->c->l, "codes-alone", "Each code decoded alone", note, d, &w);
}

/* ---- patches of codes ------------------------------------------------------------------------ */

/* Patches of the most frequent codes, a row for each. */
typedef struct {
    const alone_sheet *alone;
    size_t count;
    size_t found[QKV__CODES_SHOWN];
    qkv__code_patch at[QKV__CODES_SHOWN][QKV__CODE_PATCHES];
} patch_rows;

/* The patch with one code around it, as far as the image goes; *frame, in units of a code, is where
 * the patch is in it. */
static qkv_status cut_patch(const qkv__code_set *s, const qkv__code_patch *at, qkv_image *out,
                            qkv_frame *frame)
{
    const qkv__look_codes *c = s->c;
    size_t f = c->factor, C = c->config->colors, row = at->place / c->columns;
    size_t column = at->place % c->columns;
    size_t high = c->rows < WINDOW ? c->rows : WINDOW;
    size_t wide = c->columns < WINDOW ? c->columns : WINDOW;
    size_t top = row ? row - 1 : 0, left = column ? column - 1 : 0;
    top = top + high > c->rows ? c->rows - high : top;
    left = left + wide > c->columns ? c->columns - wide : left;
    *frame = (qkv_frame){(double)(column - left), (double)(row - top), 1, 1};
    qkv_status status = qkv_image_create(out, c->ctx, wide * f, high * f, C);
    const uint8_t *image = qkv__code_set_image(s, at->image);
    for (size_t y = 0; y < high * f && !status; y++)
        memcpy(out->data + y * wide * f * C,
               image + ((top * f + y) * c->columns * f + left * f) * C, wide * f * C);
    return status;
}

static qkv_status draw_patch(qkv_drawing *d, const qkv__code_set *s, const qkv__code_patch *at,
                             double x, double y)
{
    qkv_image image;
    qkv_frame frame;
    char text[160];
    qkv_status status = cut_patch(s, at, &image, &frame);
    if (status)
        return status;
    double unit = CELL * (double)s->c->factor /
                  (double)(image.width > image.height ? image.width : image.height);
    draw_outlined(d, (qkv_frame){x, y, unit * (double)image.width / (double)s->c->factor,
                                 unit * (double)image.height / (double)s->c->factor}, &image);
    qkv_draw_rect(d, (qkv_frame){x + unit * frame.x, y + unit * frame.y, unit, unit},
                  qkv_ink_none(), qkv_ink_of(QKV_INK_MARK));
    (void)snprintf(text, sizeof text, "%.100s: %zu,%zu",
                   s->among ? qkv_pixels_name(s->among, at->image) : "the input",
                   at->place / s->c->columns, at->place % s->c->columns);
    qkv_draw_name(d, text);
    if (!isnan(at->distance)) {
        (void)snprintf(text, sizeof text, "%.3g", at->distance);
        qkv_draw_text(d, x + CELL / 2, y + CELL + LINE - 3, text,
                      &(qkv_text_style){.size = 10, .anchor = QKV_ANCHOR_MIDDLE});
    }
    qkv_image_free(&image, s->c->ctx);
    return QKV_OK;
}

static qkv_status draw_patches(const patch_rows *r, qkv_drawing **out)
{
    const qkv__code_set *s = r->alone->s;
    double step = CELL + CELL_GAP, tall = step + LINE;
    qkv_status status = qkv_drawing_create(
        out, s->c->ctx, LABEL_WIDTH + step * (QKV__CODE_PATCHES + 1) + 2 * CELL_GAP,
        CELL_GAP + tall * (double)(r->count ? r->count : 1));
    if (status)
        return status;
    for (size_t k = 0; k < r->count && !status; k++) {
        char text[64];
        int32_t code = s->order[k];
        double y = CELL_GAP + tall * (double)k, x = LABEL_WIDTH;
        (void)snprintf(text, sizeof text, "code %d", (int)code);
        qkv_draw_text(*out, CELL_GAP, y + CELL / 2, text, &(qkv_text_style){.bold = true});
        (void)snprintf(text, sizeof text, "%zu patches", s->counts[code]);
        qkv_draw_text(*out, CELL_GAP, y + CELL / 2 + LINE, text,
                      &(qkv_text_style){.size = 11, .ink = qkv_ink_of(QKV_INK_FAINT)});
        draw_outlined(*out, (qkv_frame){x, y, CELL, CELL}, &r->alone->images[k]);
        for (size_t i = 0; i < r->found[k] && !status; i++)
            status = draw_patch(*out, s, &r->at[k][i], x + step * (double)(i + 1) + 2 * CELL_GAP,
                                y);
    }
    if (status) {
        qkv_drawing_destroy(*out);
        *out = NULL;
    }
    return status;
}

static void put_patches(qkv_json_writer *w, const patch_rows *r)
{
    const qkv__code_set *s = r->alone->s;
    qkv_json_begin_object(w, NULL);
    qkv_json_begin_array(w, "codes");
    for (size_t k = 0; k < r->count; k++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "code", s->order[k]);
        qkv_json_put_int(w, "count", (int64_t)s->counts[s->order[k]]);
        qkv_json_begin_array(w, "patches");
        for (size_t i = 0; i < r->found[k]; i++) {
            const qkv__code_patch *at = &r->at[k][i];
            qkv_json_begin_object(w, NULL);
            qkv_json_put_int(w, "image", (int64_t)at->image);
            if (s->among)
                qkv_json_put_string(w, "name", qkv_pixels_name(s->among, at->image));
            qkv_json_put_int(w, "row", (int64_t)(at->place / s->c->columns));
            qkv_json_put_int(w, "column", (int64_t)(at->place % s->c->columns));
            if (!isnan(at->distance))
                qkv_json_put_real(w, "distance", at->distance);
            qkv_json_end_object(w);
        }
        qkv_json_end_array(w);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

static qkv_status add_patches(const patch_rows *r, const char *name, const char *title,
                              const char *note)
{
    qkv_drawing *d;
    qkv_json_writer w;
    qkv_status status = draw_patches(r, &d);
    if (status)
        return status;
    qkv_json_writer_init(&w, r->alone->s->c->ctx, -1);
    put_patches(&w, r);
    return qkv__look_add_panel(r->alone->s->c->l, name, title, note, d, &w);
}

static qkv_status panel_where(patch_rows *r)
{
    for (size_t k = 0; k < r->count; k++)
        r->found[k] = qkv__code_set_where(r->alone->s, r->alone->s->order[k], r->at[k]);
    return add_patches(r, "codes-where", "Where codes occur",
                       "The most frequent codes: each decoded alone, then patches that have it "
                       "(framed) with one code around them, of as many images as there are.");
}

static qkv_status panel_nearest(patch_rows *r)
{
    const qkv__code_set *s = r->alone->s;
    for (size_t k = 0; k < r->count; k++) {
        const qkv__code_patch *best = s->nearest + (size_t)s->order[k] * QKV__CODE_PATCHES;
        for (r->found[k] = 0; r->found[k] < QKV__CODE_PATCHES; r->found[k]++) {
            if (best[r->found[k]].image == SIZE_MAX)
                break;
            r->at[k][r->found[k]] = best[r->found[k]];
        }
    }
    return add_patches(r, "codes-nearest", "Patches nearest to codes",
                       "The same codes, and the patches at which the encoder's output is nearest "
                       "to the code's vector, with the distance: what the code stands for before "
                       "rounding.");
}

qkv_status qkv__look_codes_sheets(const qkv__code_set *s)
{
    alone_sheet a = {.s = s};
    patch_rows r = {.alone = &a};
    r.count = s->used < QKV__CODES_SHOWN ? s->used : QKV__CODES_SHOWN;
    qkv_status status = make_alone(&a);
    if (!status)
        status = panel_alone(&a);
    if (!status)
        status = panel_where(&r);
    if (!status)
        status = panel_nearest(&r);
    free_alone(&a);
    return status;
}
