/* prior.c - opening a prior's directory; images as the tokens that it knows. */
#include "pipeline/prior.h"

#include <string.h>

#include "io/file.h"
#include "qkv/codes.h"
#include "qkv/gpt.h"

/* ---- the models ---------------------------------------------------------------------------- */

size_t qkv__prior_condition_side(const qkv__prior *p)
{
    return qkv__codec_config(p->condition)->image / qkv_vqgan_factor(p->condition);
}

qkv_status qkv__prior_codecs(qkv__prior *p, qkv_context *ctx, const char *vqgan,
                             const char *condition, size_t height, size_t width)
{
    p->ctx = ctx;
    qkv_status status = qkv__codec_load(&p->vqgan, ctx, vqgan);
    if (!status && condition)
        status = qkv__codec_load(&p->condition, ctx, condition);
    if (!status)
        status = qkv_tape_create(&p->tape, ctx);
    if (status)
        return status;
    p->factor = qkv_vqgan_factor(p->vqgan);
    p->colors = qkv__codec_config(p->vqgan)->colors;
    height = height ? height : qkv__codec_config(p->vqgan)->image;
    width = width ? width : qkv__codec_config(p->vqgan)->image;
    p->rows = height / p->factor;
    p->columns = width / p->factor;
    p->before = p->condition ? qkv__prior_condition_side(p) * qkv__prior_condition_side(p) : 1;
    if (height % p->factor || width % p->factor)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%zu x %zu pixels: multiples of %zu expected, the "
                        "side of a code of %s", width, height, p->factor, vqgan);
    return QKV_OK;
}

qkv_status qkv__prior_fits(const qkv__prior *p, const char *dir)
{
    const qkv_gpt_config *g = qkv_model_config(p->prior);
    size_t codes = qkv__codec_config(p->vqgan)->codes;
    size_t others = p->condition ? qkv__codec_config(p->condition)->codes : 0;
    if (p->before != g->before || p->rows != g->rows || p->columns != g->columns)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: %zu x %zu codes after %zu tokens expected, "
                        "as those of the images, found %zu x %zu after %zu", dir, p->rows,
                        p->columns, p->before, g->rows, g->columns, g->before);
    if (codes > g->vocab || others > g->vocab)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: vocab_size: at least %zu expected, the "
                        "codes of the images, found %zu", dir, codes > others ? codes : others,
                        g->vocab);
    return QKV_OK;
}

qkv_status qkv__prior_open(qkv__prior *p, qkv_model *prior, const char *dir)
{
    qkv_context *ctx = qkv_model_context(prior);
    const qkv_gpt_config *g = qkv_model_config(prior);
    const qkv_path vqgan = qkv_path_in(dir, QKV__PRIOR_VQGAN);
    const qkv_path condition = qkv_path_in(dir, QKV__PRIOR_CONDITION);
    *p = (qkv__prior){.prior = prior};
    qkv_status status = qkv__prior_codecs(p, ctx, vqgan.text,
                                          qkv_dir_exists(condition.text) ? condition.text : NULL,
                                          0, 0);
    p->rows = g->rows; /* whatever size the VQGAN has learnt on */
    p->columns = g->columns;
    return status ? status : qkv__prior_fits(p, dir);
}

void qkv__prior_close(qkv__prior *p)
{
    qkv_tape_destroy(p->tape);
    qkv_model_destroy(p->vqgan);
    qkv_model_destroy(p->condition);
    *p = (qkv__prior){0};
}

/* ---- images ------------------------------------------------------------------------------ */

qkv_status qkv__prior_condition(qkv__prior *p, const qkv_image *image, size_t rows,
                                size_t columns, int32_t *codes)
{
    qkv_context *ctx = p->ctx;
    size_t factor = qkv_vqgan_factor(p->condition);
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_image copy;
    qkv_status status = qkv_image_create(&copy, ctx, image->width, image->height,
                                         image->channels);
    if (status)
        return status;
    memcpy(copy.data, image->data, image->width * image->height * image->channels);
    o.height = rows * factor;
    o.width = columns * factor;
    o.channels = qkv__codec_config(p->condition)->colors;
    status = qkv_image_fit(&copy, ctx, &o);
    if (!status)
        status = qkv_images_encode(p->condition, p->tape, copy.data, 1, o.height, o.width, codes);
    qkv_image_free(&copy, ctx);
    return status;
}

/* What stands before the codes of n images, at the front of each one's tokens. */
static qkv_status put_conditions(qkv__prior *p, const uint8_t *images, size_t n,
                                 const int32_t *classes, size_t length, int32_t *tokens)
{
    size_t width = p->columns * p->factor, height = p->rows * p->factor;
    size_t side = p->condition ? qkv__prior_condition_side(p) : 1;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const uint8_t *data = images + i * width * height * p->colors;
        /* qkv_image has no const data; nothing is written to it. */
        const qkv_image image = {width, height, p->colors, (uint8_t *)(uintptr_t)data};
        tokens[i * length] = classes ? classes[i] : 0;
        if (p->condition)
            status = qkv__prior_condition(p, &image, side, side, tokens + i * length);
    }
    return status;
}

qkv_status qkv__prior_tokens(qkv__prior *p, const uint8_t *images, size_t n,
                             const int32_t *classes, int32_t *tokens)
{
    size_t codes = p->rows * p->columns, length = p->before + codes;
    int32_t *found = qkv_calloc(p->ctx, n, codes * sizeof *found);
    qkv_status status = found ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv_images_encode(p->vqgan, p->tape, images, n, p->rows * p->factor,
                                   p->columns * p->factor, found);
    for (size_t i = 0; i < n && !status; i++)
        memcpy(tokens + i * length + p->before, found + i * codes, codes * sizeof *found);
    qkv_free(p->ctx, found);
    return status ? status : put_conditions(p, images, n, classes, length, tokens);
}

/* ---- sets of images ---------------------------------------------------------------------- */

enum { CODED = 32 }; /* images coded at once */

/* Where the coding of a set stands. */
typedef struct {
    qkv__prior *p;
    const qkv_pixels *pixels;
    const qkv__coding *o;
    size_t length;   /* of an image's tokens */
    int32_t *tokens; /* (images, views, length) */
    size_t done;
} coding;

static qkv_status prior_tell(const coding *k)
{
    return qkv__progress(k->p->ctx, "coding", "images", k->done,
                         qkv_pixels_count(k->pixels) * k->o->views);
}

/* View number `view` of n images; numbers (n) says which. */
static qkv_status code_batch(coding *k, const uint8_t *images, const size_t *numbers, size_t n,
                             size_t view)
{
    qkv_context *ctx = k->p->ctx;
    int32_t classes[CODED], *made = qkv_calloc(ctx, n, k->length * sizeof *made);
    for (size_t i = 0; i < n; i++)
        classes[i] = qkv_pixels_class(k->pixels, numbers[i]);
    qkv_status status = made ? qkv__prior_tokens(k->p, images, n, k->o->classes ? classes : NULL,
                                                 made)
                             : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++)
        memcpy(k->tokens + (numbers[i] * k->o->views + view) * k->length, made + i * k->length,
               k->length * sizeof *made);
    qkv_free(ctx, made);
    k->done += n;
    return status ? status : prior_tell(k);
}

/* The images as they are. */
static qkv_status code_plain(coding *k)
{
    qkv_context *ctx = k->p->ctx;
    size_t count = qkv_pixels_count(k->pixels), numbers[CODED];
    size_t each = qkv_pixels_height(k->pixels) * qkv_pixels_width(k->pixels) *
                  qkv_pixels_channels(k->pixels);
    uint8_t *batch = qkv_calloc(ctx, CODED, each);
    qkv_status status = batch ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i += CODED) {
        size_t n = count - i < CODED ? count - i : CODED;
        for (size_t b = 0; b < n; b++) {
            numbers[b] = i + b;
            memcpy(batch + b * each, qkv_pixels_data(k->pixels, i + b), each);
        }
        status = code_batch(k, batch, numbers, n, 0);
    }
    qkv_free(ctx, batch);
    return status;
}

/* And changed, each once in every view. */
static qkv_status code_changed(coding *k)
{
    size_t count = qkv_pixels_count(k->pixels);
    const qkv_batches_options o = {.count = count, .mean = {0.5, 0.5, 0.5}, .std = {1, 1, 1},
                                   .seed = k->o->seed, .augment = k->o->augment};
    qkv_batches *b = NULL;
    qkv_status status = qkv_batches_create(&b, k->p->ctx, k->pixels, &o);
    for (size_t view = 1; view < k->o->views && !status; view++)
        for (size_t i = 0; i < count && !status; i += CODED) {
            const uint8_t *images;
            const size_t *numbers;
            size_t n = count - i < CODED ? count - i : CODED;
            status = qkv_batches_bytes(b, (view - 1) * count + i, n, &images, NULL, &numbers);
            if (!status)
                status = code_batch(k, images, numbers, n, view);
        }
    qkv_batches_destroy(b);
    return status;
}

qkv_status qkv__prior_code(qkv__prior *p, const qkv_pixels *pixels, const qkv__coding *o,
                           int32_t *tokens)
{
    coding k = {.p = p, .pixels = pixels, .o = o, .tokens = tokens,
                .length = p->before + p->rows * p->columns};
    qkv_status status = prior_tell(&k);
    if (!status)
        status = code_plain(&k);
    return !status && o->views > 1 ? code_changed(&k) : status;
}

/* ---- grids in files ------------------------------------------------------------------------ */

qkv_status qkv__grid_set_take(qkv__grid_set *out, qkv_context *ctx, const int32_t *tokens,
                              size_t count, const qkv_model *prior)
{
    const qkv_gpt_config *c = qkv_model_config(prior);
    size_t codes = c->rows * c->columns, length = c->before + codes;
    *out = (qkv__grid_set){.ctx = ctx};
    out->grids = qkv_calloc(ctx, count, codes * sizeof *out->grids);
    out->conditions = qkv_calloc(ctx, count, c->before * sizeof *out->conditions);
    if (!out->grids || !out->conditions) {
        qkv__grid_set_free(out);
        return QKV_E_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(out->conditions + i * c->before, tokens + i * length, c->before * sizeof *tokens);
        memcpy(out->grids + i * codes, tokens + i * length + c->before, codes * sizeof *tokens);
    }
    out->g = (qkv_code_grids){.count = count, .codes = codes, .columns = c->columns,
                              .before = c->before, .grids = out->grids,
                              .conditions = out->conditions};
    return QKV_OK;
}

qkv_status qkv__grid_set_load(qkv__grid_set *out, qkv_context *ctx, const char *path,
                              const qkv_model *prior)
{
    const qkv_gpt_config *c = qkv_model_config(prior);
    size_t length = c->before + c->rows * c->columns;
    size_t count, found;
    int32_t *tokens;
    *out = (qkv__grid_set){0};
    qkv_status status = qkv__codes_load(&tokens, ctx, path, &count, &found);
    if (!status && found != length)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: rows of %zu tokens expected, found %zu", path,
                          length, found);
    for (size_t i = 0; i < count * length && !status; i++)
        if ((size_t)tokens[i] >= c->vocab)
            status = qkv_fail(ctx, QKV_E_FORMAT, "%s: number %zu is %d; whole numbers below %zu "
                              "expected", path, i, (int)tokens[i], c->vocab);
    if (!status)
        status = qkv__grid_set_take(out, ctx, tokens, count, prior);
    qkv_free(ctx, tokens);
    return status;
}

void qkv__grid_set_free(qkv__grid_set *g)
{
    qkv_free(g->ctx, g->grids);
    qkv_free(g->ctx, g->conditions);
    *g = (qkv__grid_set){0};
}
