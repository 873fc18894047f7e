/* codes.c - looking inside a VQGAN: the image as codes, what its pixels attend to, what its
 * codes mean, what its discriminator says. */
#include "report/code_panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/codec.h"
#include "pipeline/image.h"
#include "qkv/chart.h"
#include "qkv/codes.h"
#include "qkv/score.h"

enum { SIDE = 512, MOST_INDICES = 1024, WINDOW = 4 };

qkv__look_codes qkv__look_codes_of(qkv__looking *l, qkv_model *vqgan, qkv_tape *t, size_t rows,
                                   size_t columns, const int32_t *grid)
{
    return (qkv__look_codes){.l = l, .ctx = l->p->ctx, .tape = t, .vqgan = vqgan,
                             .config = qkv__codec_config(vqgan),
                             .factor = qkv_vqgan_factor(vqgan), .rows = rows, .columns = columns,
                             .places = rows * columns, .grid = grid};
}

qkv_status qkv__look_codes_decode(const qkv__look_codes *c, const int32_t *codes, qkv_image *out)
{
    qkv_status status = qkv_image_create(out, c->ctx, c->columns * c->factor, c->rows * c->factor,
                                         c->config->colors);
    if (status)
        return status;
    status = qkv_images_decode(c->vqgan, c->tape, codes, 1, c->rows, c->columns, out->data);
    if (status)
        qkv_image_free(out, c->ctx);
    return status;
}

void qkv__look_codes_copy(const qkv__look_codes *c, const qkv_image *from, size_t place,
                          qkv_image *to)
{
    size_t f = c->factor, C = from->channels;
    size_t at = (place / c->columns * f * from->width + place % c->columns * f) * C;
    for (size_t y = 0; y < f; y++)
        memcpy(to->data + at + y * from->width * C, from->data + at + y * from->width * C, f * C);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static qkv_status prepare_codes(qkv__looking *l)
{
    const qkv_vqgan_config *c = qkv__codec_config(l->p->model);
    size_t side = c->image / qkv_vqgan_factor(l->p->model);
    qkv_image image;
    if (!l->in->image.path && !l->in->image.image)
        return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: a %s model reads images: none was given",
                        l->p->dir, l->out->kind);
    qkv_status status = qkv__look_patches(l, 0, "codes", 0, side, side, NULL, side * side);
    if (status)
        return status;
    status = qkv__image_fit(&image, l->p->ctx, &l->in->image, c->image, c->image, c->colors);
    if (!status)
        status = qkv__look_add_image(l, "input", &image);
    qkv_image_free(&image, l->p->ctx);
    return status;
}

/* Encodes and decodes as `qkv encode` and `qkv decode` do. */
static qkv_status run_codes(qkv__looking *l)
{
    const qkv_look_axis *a = &l->out->axes[0];
    const qkv_image *input = &l->out->images[0].image;
    qkv_image decoded;
    for (size_t i = 0; i < a->count; i++) {
        qkv_status status = qkv_ids_add(&l->ids[0], l->p->ctx, 0);
        if (status)
            return status;
    }
    qkv_status status = qkv_images_encode(l->p->model, l->p->tape, input->data, 1, input->height,
                                          input->width, l->ids[0].data);
    if (status)
        return status;
    const qkv__look_codes c = qkv__look_codes_of(l, l->p->model, l->p->tape, a->rows,
                                                 a->columns, l->ids[0].data);
    status = qkv__look_codes_decode(&c, c.grid, &decoded);
    if (!status)
        status = qkv__look_add_image(l, "reconstruction", &decoded);
    qkv_image_free(&decoded, l->p->ctx);
    return status;
}

/* Attention over the grid of codes: "encoder.down.3.attn.0", "encoder.mid.attn_1",
 * "decoder.mid.attn_1", "decoder.up.3.attn.0", in order of the pass. Attention at other sizes of
 * the image has no axis here; a capture has it. */
static bool codes_attention_at(const qkv__looking *l, const char *name, size_t *attention,
                               size_t *layer)
{
    const qkv_vqgan_config *c = qkv__codec_config(l->p->model);
    size_t last = c->multiples.count - 1, level, block, in_level = 0;
    for (size_t i = 0; i < c->attention.count; i++)
        if (c->attention.item[i] == c->image >> last)
            in_level = c->blocks;
    *attention = strncmp(name, "decoder.", 8) == 0;
    name += strcspn(name, ".");
    if (strcmp(name, ".mid.attn_1") == 0) {
        *layer = *attention ? 0 : in_level;
        return true;
    }
    if (sscanf(name, *attention ? ".up.%zu.attn.%zu" : ".down.%zu.attn.%zu", &level, &block) != 2 ||
        level != last)
        return false;
    *layer = *attention ? block + 1 : block;
    return true;
}

/* ---- the grid -------------------------------------------------------------------------------- */

/* The index in the middle of its cell, on a ground that the image shines through. */
static void draw_index(qkv_drawing *d, qkv_frame cell, int32_t code)
{
    qkv_ink under = qkv_ink_of(QKV_INK_BACKGROUND);
    char text[16];
    double size = fmin(13, cell.width / 2.6), x = cell.x + cell.width / 2;
    double y = cell.y + cell.height / 2;
    (void)snprintf(text, sizeof text, "%d", (int)code);
    double wide = fmin(cell.width, qkv_text_width(text, size) + 4);
    under.transparency = 0.25;
    qkv_draw_rect(d, (qkv_frame){x - wide / 2, y - size / 2 - 2, wide, size + 4}, under,
                  qkv_ink_none());
    qkv_draw_text(d, x, y + 0.36 * size, text,
                  &(qkv_text_style){.size = size, .anchor = QKV_ANCHOR_MIDDLE});
}

static qkv_status draw_grid(const qkv__look_codes *c, const qkv_image *image, qkv_drawing **out)
{
    double cell = fmax(8, SIDE / (double)(c->rows > c->columns ? c->rows : c->columns));
    qkv_status status = qkv_drawing_create(out, c->ctx, cell * (double)c->columns,
                                           cell * (double)c->rows);
    if (status)
        return status;
    qkv_draw_image(*out, (qkv_frame){0, 0, cell * (double)c->columns, cell * (double)c->rows},
                   image, false);
    for (size_t i = 0; i < c->places; i++) {
        const qkv_frame at = {cell * (double)(i % c->columns), cell * (double)(i / c->columns),
                              cell, cell};
        char text[64], key[64];
        (void)snprintf(text, sizeof text, "%zu,%zu: code %d", i / c->columns, i % c->columns,
                       (int)c->grid[i]);
        (void)snprintf(key, sizeof key, "code-%zu,%zu", i / c->columns, i % c->columns);
        qkv_draw_begin(*out, text, key);
        qkv_draw_rect(*out, at, qkv_ink_none(), qkv_ink_of(QKV_INK_BACKGROUND));
        if (c->places <= MOST_INDICES)
            draw_index(*out, at, c->grid[i]);
        qkv_draw_end(*out);
    }
    return QKV_OK;
}

static void put_code_rows(qkv_json_writer *w, const qkv__look_codes *c)
{
    qkv_json_begin_array(w, "codes");
    for (size_t i = 0; i < c->rows; i++)
        qkv_json_put_ids(w, NULL, c->grid + i * c->columns, c->columns);
    qkv_json_end_array(w);
}

qkv_status qkv__look_codes_grid(const qkv__look_codes *c, const qkv_image *image)
{
    qkv_drawing *d;
    qkv_json_writer w;
    char note[256];
    qkv_status status = draw_grid(c, image, &d);
    if (status)
        return status;
    (void)snprintf(note, sizeof note, "%zu x %zu codes of %zu, each for %zu x %zu pixels.",
                   c->rows, c->columns, c->config->codes, c->factor, c->factor);
    qkv_json_writer_init(&w, c->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_int(&w, "rows", (int64_t)c->rows);
    qkv_json_put_int(&w, "columns", (int64_t)c->columns);
    put_code_rows(&w, c);
    qkv_json_end_object(&w);
    return qkv__look_add_panel(c->l, "codes-grid", "The image as codes", note, d, &w);
}

/* ---- the discriminator ----------------------------------------------------------------------- */

/* The discriminator's logits of an image, (rows, columns), freed by the caller. */
typedef struct {
    size_t rows, columns;
    float *logits;
    double mean;
} code_verdict;

static qkv_status discriminate(const qkv__look_codes *c, const qkv_image *image,
                               code_verdict *out)
{
    qkv_tape *t = c->tape;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, (size_t[]){1, image->height, image->width,
                                                           image->channels});
    qkv_real *pixels = x ? qkv_tensor_fill(x) : NULL;
    for (size_t i = 0; pixels && i < qkv_count(x); i++)
        pixels[i] = (qkv_real)((double)image->data[i] / 127.5 - 1);
    const qkv_tensor *y = qkv_vqgan_discriminate(c->vqgan, t, x);
    const qkv_real *found = qkv_data(t, y);
    if (!found)
        return qkv_tape_status(t);
    *out = (code_verdict){.rows = qkv_dim(y, 1), .columns = qkv_dim(y, 2)};
    out->logits = qkv_calloc(c->ctx, qkv_count(y), sizeof *out->logits);
    for (size_t i = 0; out->logits && i < qkv_count(y); i++) {
        out->logits[i] = (float)found[i];
        out->mean += (double)found[i] / (double)qkv_count(y);
    }
    qkv_tape_reset(t);
    return out->logits ? QKV_OK : QKV_E_MEMORY;
}

/* Both images under their maps, on one scale. */
static qkv_status draw_verdict(const qkv__look_codes *c, const code_verdict v[2],
                               const qkv_image *const images[2], qkv_drawing **out)
{
    static const char *const titles[] = {"the input", "the reconstruction"};
    double width, height, most = 0;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < v[i].rows * v[i].columns; k++)
            most = fmax(most, fabs((double)v[i].logits[k]));
    qkv_heat_map map = {.rows = v[0].rows, .columns = v[0].columns, .diverging = true,
                        .square = true, .min = -most, .max = most > 0 ? most : 1,
                        .title = titles[0], .numbers = true};
    qkv_heat_size(&map, fmax(8, 288 / (double)v[0].columns), &width, &height);
    qkv_status status = qkv_drawing_create(out, c->ctx, 2 * width, height);
    if (status)
        return status;
    for (size_t i = 0; i < 2; i++) {
        map.values = v[i].logits;
        map.title = titles[i];
        map.beneath = images[i];
        map.key = i ? "verdict1" : "verdict0";
        qkv_draw_heat(*out, &(qkv_frame){(double)i * width, 0, width, height}, &map);
    }
    return QKV_OK;
}

static void put_verdict(qkv_json_writer *w, const char *name, const code_verdict *v)
{
    qkv_json_begin_array(w, name);
    for (size_t i = 0; i < v->rows; i++) {
        qkv_json_begin_array(w, NULL);
        for (size_t k = 0; k < v->columns; k++)
            qkv_json_put_float(w, NULL, v->logits[i * v->columns + k]);
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

/* Pixels a side that a logit depends on: two windows of stride 1 behind the strided ones. */
static size_t patch_side(const qkv__look_codes *c)
{
    size_t side = 1 + 2 * (WINDOW - 1);
    for (size_t i = 0; i < c->config->disc_layers; i++)
        side = (side - 1) * 2 + WINDOW;
    return side;
}

static qkv_status add_verdict(const qkv__look_codes *c, const code_verdict v[2],
                              const qkv_image *const images[2])
{
    qkv_drawing *d;
    qkv_json_writer w;
    char note[400];
    qkv_status status = draw_verdict(c, v, images, &d);
    if (status)
        return status;
    (void)snprintf(note, sizeof note, "The discriminator's logit for overlapping patches of %zu x "
                   "%zu pixels, cut at the edges: positive is real, negative decoded. Means: "
                   "input %.2f, reconstruction %.2f. Training with --disc-loss hinge pushes them "
                   "to 1 and -1.", patch_side(c), patch_side(c), v[0].mean, v[1].mean);
    qkv_json_writer_init(&w, c->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_int(&w, "patch", (int64_t)patch_side(c));
    put_verdict(&w, "input", &v[0]);
    put_verdict(&w, "reconstruction", &v[1]);
    qkv_json_end_object(&w);
    return qkv__look_add_panel(c->l, "codes-verdict", "The discriminator's verdict", note, d, &w);
}

/* Why there is no verdict; NULL: there is one. */
static const char *no_verdict(const qkv__look_codes *c)
{
    size_t i = 0;
    if (!c->config->disc_layers)
        return "The model has no discriminator (disc_num_layers 0).";
    if (c->config->image >> c->config->disc_layers < 3)
        return "The images are too small for the model's discriminator.";
    for (qkv_param *p; (p = qkv_params_at(qkv_model_params(c->vqgan), i)) != NULL; i++)
        if (qkv_vqgan_is_discriminator(p) && strstr(qkv_param_name(p), "num_batches_tracked") &&
            qkv_param_data(p)[0] > 0)
            return NULL;
    return "The model's discriminator was not trained.";
}

static qkv_status add_no_verdict(const qkv__look_codes *c, const char *why)
{
    qkv_drawing *d;
    qkv_status status = qkv_drawing_create(&d, c->ctx, SIDE, 28);
    if (status)
        return status;
    qkv_draw_text(d, 4, 18, "no verdict", NULL);
    return qkv__look_add_panel(c->l, "codes-verdict", "The discriminator's verdict", why, d,
                               NULL);
}

qkv_status qkv__look_codes_verdict(const qkv__look_codes *c, const qkv_image *input,
                                   const qkv_image *decoded)
{
    const qkv_image *const images[] = {input, decoded};
    code_verdict v[2] = {{0}, {0}};
    const char *missing = no_verdict(c);
    if (missing)
        return add_no_verdict(c, missing);
    qkv_status status = discriminate(c, input, &v[0]);
    if (!status)
        status = discriminate(c, decoded, &v[1]);
    if (!status)
        status = add_verdict(c, v, images);
    qkv_free(c->ctx, v[0].logits);
    qkv_free(c->ctx, v[1].logits);
    return status;
}

/* ---- panels ---------------------------------------------------------------------------------- */

static qkv_status panels_codes(qkv__looking *l)
{
    const qkv_look_axis *a = &l->out->axes[0];
    const qkv_image *input = &l->out->images[0].image, *decoded = &l->out->images[1].image;
    const qkv__look_codes c = qkv__look_codes_of(l, l->p->model, l->p->tape, a->rows,
                                                 a->columns, l->ids[0].data);
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv__code_set set = {0};
    qkv_pixels *among = NULL;
    o.height = input->height;
    o.width = input->width;
    o.channels = input->channels;
    o.fit = QKV_FIT_CROP;
    qkv_status status = qkv__look_codes_grid(&c, decoded);
    if (!status)
        status = qkv__look_among(l, &o, &among);
    if (!status)
        status = qkv__code_set_read(&set, &c, among, input);
    if (!status)
        status = qkv__look_codes_usage(&set);
    if (!status)
        status = qkv__look_codes_sheets(&set);
    if (!status)
        status = qkv__look_codes_together(&set);
    qkv__code_set_free(&set);
    qkv_pixels_close(among);
    return status ? status : qkv__look_codes_verdict(&c, input, decoded);
}

const qkv__look_kind qkv__look_codes_kind = {
    .can = QKV_CAN_ENCODE_IMAGES,
    .attentions = {{"encoder", "attn", 0, 0, false}, {"decoder", "attn", 0, 0, false}},
    .attention_at = codes_attention_at, .prepare = prepare_codes, .run = run_codes,
    .panels = panels_codes, .patch = &qkv__patch_codes};
