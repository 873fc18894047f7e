/* nearest.c - the panel "nearest": for patches of the input those whose embeddings are nearest
 * by cosine, in the input and in a set of images. Positions are not part of an embedding. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/patches.h"
#include "qkv/chart.h"

enum { ASKED_SIDE = 5, NEAREST = 5 };

typedef struct {
    const qkv__look_reading *r;
    qkv__looking *l;
    size_t asked_count, width;
    size_t *asked;            /* (asked_count) patches of the input, with different pixels */
    uint64_t *hashes;         /* (asked_count) of their pixels */
    float *queries;           /* (asked_count, width) of length 1 */
    qkv_real *values;         /* an image's numbers */
    qkv__look_best *best;     /* (asked_count, 2): in the input, in the set */
} neighbours;

static void free_neighbours(neighbours *n, qkv_context *ctx)
{
    qkv_free(ctx, n->asked);
    qkv_free(ctx, n->hashes);
    qkv_free(ctx, n->queries);
    qkv_free(ctx, n->values);
    qkv_free(ctx, n->best);
}

/* The pixel where a patch begins. */
static size_t begins(const qkv__look_reading *r, size_t at)
{
    return at * r->format.width / r->side;
}

static uint64_t hash_of(const neighbours *n, const uint8_t *image, size_t patch)
{
    const qkv__look_reading *r = n->r;
    return qkv__look_window_hash(r, image, begins(r, patch % r->side), begins(r, patch / r->side),
                                 r->cell);
}

/* Patches evenly over the grid, at most ASKED_SIDE in a row. */
static qkv_status choose_asked(neighbours *n, qkv_context *ctx, const uint8_t *input)
{
    const qkv__look_reading *r = n->r;
    size_t side = r->side < ASKED_SIDE ? r->side : ASKED_SIDE, most = side * side;
    n->asked = qkv_malloc(ctx, most * sizeof *n->asked);
    n->hashes = qkv_malloc(ctx, most * sizeof *n->hashes);
    n->values = qkv_malloc(ctx, r->format.height * r->format.width * r->inputs *
                                    sizeof *n->values);
    n->best = qkv__look_bests(ctx, 2 * most, NEAREST);
    if (!n->asked || !n->hashes || !n->values || !n->best)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < most; i++) {
        size_t patch = (2 * (i / side) + 1) * r->side / (2 * side) * r->side +
                       (2 * (i % side) + 1) * r->side / (2 * side);
        uint64_t hash = hash_of(n, input, patch);
        bool known = false;
        for (size_t k = 0; k < n->asked_count; k++)
            known = known || n->hashes[k] == hash;
        n->asked[n->asked_count] = patch;
        n->hashes[n->asked_count] = hash;
        n->asked_count += known ? 0 : 1;
    }
    return QKV_OK;
}

/* The tokens of an image, (patches, width), on the tape. */
static const qkv_real *embed(neighbours *n, const uint8_t *bytes)
{
    const qkv__look_reading *r = n->r;
    qkv_tape *t = n->l->p->tape;
    size_t shape[] = {1, r->format.height, r->format.width, r->inputs};
    qkv__look_reading_values(r, bytes, n->values);
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = r->embed(n->l->p->model, t, qkv_tensor_from(t, n->values, 4, shape));
    n->width = x ? qkv_dim(x, -1) : 0;
    return x && qkv_count(x) == r->side * r->side * n->width ? qkv_data(t, x) : NULL;
}

static double look_length(const qkv_real *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static qkv_status keep_queries(neighbours *n, const qkv_real *tokens)
{
    n->queries = qkv_malloc(n->l->p->ctx, n->asked_count * n->width * sizeof *n->queries);
    for (size_t i = 0; n->queries && i < n->asked_count; i++) {
        const qkv_real *x = tokens + n->asked[i] * n->width;
        double length = look_length(x, n->width);
        for (size_t j = 0; j < n->width; j++)
            n->queries[i * n->width + j] = (float)(length > 0 ? (double)x[j] / length : 0);
    }
    return n->queries ? QKV_OK : QKV_E_MEMORY;
}

/* The patches of image number `image`: 0 is the input. Patches with the pixels of the one
 * that is asked are left out. */
static void compare(neighbours *n, const qkv_real *tokens, const uint8_t *bytes, size_t image)
{
    const qkv__look_reading *r = n->r;
    for (size_t p = 0; p < r->side * r->side; p++) {
        const qkv_real *x = tokens + p * n->width;
        double length = look_length(x, n->width);
        uint64_t hash = hash_of(n, bytes, p);
        for (size_t i = 0; i < n->asked_count && length > 0; i++) {
            double sum = 0;
            if (n->hashes[i] == hash)
                continue;
            for (size_t j = 0; j < n->width; j++)
                sum += (double)n->queries[i * n->width + j] * (double)x[j];
            const qkv__look_found found = {.value = sum / length, .image = image,
                                           .x = begins(r, p % r->side),
                                           .y = begins(r, p / r->side), .hash = hash};
            qkv__look_best_add(&n->best[2 * i + (image > 0)], &found, 1);
        }
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static void put_nearest(qkv_json_writer *w, const neighbours *n, const qkv_pixels *set)
{
    static const char *const names[] = {"input", "set"};
    qkv_json_begin_object(w, NULL);
    qkv_json_begin_array(w, "patches");
    for (size_t i = 0; i < n->asked_count; i++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "row", (int64_t)(n->asked[i] / n->r->side));
        qkv_json_put_int(w, "column", (int64_t)(n->asked[i] % n->r->side));
        for (size_t k = 0; k < (set ? 2U : 1U); k++) {
            qkv_json_begin_array(w, names[k]);
            for (size_t j = 0; j < n->best[2 * i + k].count; j++) {
                const qkv__look_found *x = &n->best[2 * i + k].items[j];
                qkv_json_begin_object(w, NULL);
                if (x->image)
                    qkv_json_put_string(w, "image", qkv_pixels_name(set, x->image - 1));
                qkv_json_put_int(w, "x", (int64_t)x->x);
                qkv_json_put_int(w, "y", (int64_t)x->y);
                qkv_json_put_real(w, "cosine", x->value);
                qkv_json_end_object(w);
            }
            qkv_json_end_array(w);
        }
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

/* What the drawing is of. */
typedef struct {
    const neighbours *n;
    const uint8_t *input;
    const qkv_pixels *set; /* NULL: none */
} nearest_tiles;

/* Widths: the nearest of a side; place and tile of the patch that was asked. */
enum { GROUP = NEAREST * (QKV__TILE + 2) + 14, PLACE = 46, FIRST = PLACE + QKV__TILE + 14 };

static void draw_where(const void *self, qkv_drawing *d, double x)
{
    const nearest_tiles *t = self;
    qkv_draw_text(d, x + FIRST, 16, "in the image", NULL);
    if (t->set)
        qkv_draw_text(d, x + FIRST + GROUP, 16, "in the set", NULL);
}

static void draw_asked(const void *self, qkv_drawing *d, size_t i, double x, double y,
                       uint8_t *data)
{
    const nearest_tiles *t = self;
    const neighbours *n = t->n;
    const qkv__look_reading *r = n->r;
    size_t row = n->asked[i] / r->side, column = n->asked[i] % r->side;
    char label[48];
    (void)snprintf(label, sizeof label, "%zu,%zu", row, column);
    qkv_draw_text(d, x + PLACE - 6, y + 0.65 * QKV__TILE, label,
                  &(qkv_text_style){.size = 11, .anchor = QKV_ANCHOR_END});
    const qkv__look_found itself = {.value = 1, .x = begins(r, column), .y = begins(r, row)};
    qkv__look_draw_found(d, r, &itself, t->input, t->set, r->cell, itself.value, x + PLACE, y,
                         data);
    for (size_t k = 0; k < 2; k++)
        for (size_t j = 0; j < n->best[2 * i + k].count; j++) {
            const qkv__look_found *at = &n->best[2 * i + k].items[j];
            qkv__look_draw_found(d, r, at, t->input, t->set, r->cell, at->value,
                                 x + FIRST + (double)(k * GROUP + j * (QKV__TILE + 2)), y, data);
        }
}

static qkv_status draw_neighbours(const neighbours *n, const uint8_t *input,
                                  const qkv_pixels *set, qkv_drawing **out)
{
    const nearest_tiles t = {n, input, set};
    const qkv__look_tiles tiles = {
        .count = n->asked_count, .pixels = n->r->cell * n->r->cell, .self = &t,
        .wide = FIRST - 14 + GROUP * (set ? 2 : 1) + 20, .head = draw_where, .row = draw_asked};
    return qkv__look_draw_tiles(n->l->p->ctx, &tiles, out);
}

static qkv_status add_neighbours(qkv__looking *l, const neighbours *n, const uint8_t *input,
                                 const qkv_pixels *set)
{
    qkv_json_writer w;
    qkv_drawing *d = NULL;
    qkv_json_writer_init(&w, l->p->ctx, -1);
    put_nearest(&w, n, set);
    qkv_status status = draw_neighbours(n, input, set, &d);
    if (!status)
        return qkv__look_add_panel(
            l, "nearest", "Nearest patches",
            n->r->step == 1 ? "Patches by row and column, and those whose tokens, made by the "
                              "convolutions, have the largest cosine. A token also reads pixels "
                              "around its patch. Equal ones are shown once."
                            : "Patches by row and column, and those whose embeddings, without "
                              "positions, have the largest cosine. Equal ones are shown once.",
            d, &w);
    qkv_json_writer_free(&w);
    return status;
}

qkv_status qkv__look_nearest(qkv__looking *l, const qkv__look_reading *r, const qkv_pixels *set,
                             const qkv_image *input)
{
    neighbours n = {.r = r, .l = l};
    const qkv_real *tokens;
    qkv_status status = choose_asked(&n, l->p->ctx, input->data);
    if (!status && !(tokens = embed(&n, input->data)))
        status = qkv_tape_status(l->p->tape);
    else if (!status) {
        status = keep_queries(&n, tokens);
        if (!status)
            compare(&n, tokens, input->data, 0);
    }
    for (size_t i = 0; set && i < qkv_pixels_count(set) && !status; i++) {
        tokens = embed(&n, qkv_pixels_data(set, i));
        status = qkv_tape_status(l->p->tape);
        if (tokens && !status)
            compare(&n, tokens, qkv_pixels_data(set, i), i + 1);
    }
    if (!status && n.queries)
        status = add_neighbours(l, &n, input->data, set);
    free_neighbours(&n, l->p->ctx);
    return status;
}
