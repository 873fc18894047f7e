/* prior.c - opening a prior's directory; pictures as the tokens that it knows. */
#include "use/prior.h"

#include <string.h>

#include "io/file.h"
#include "qkv/codes.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"
#include "qkv/image_file.h"

/* ---- the models ---------------------------------------------------------------------------- */

size_t cli_prior_condition_side(const cli_prior *p)
{
    return cli_coder_config(p->condition)->image / qkv_vqgan_factor(p->condition);
}

qkv_status cli_prior_coders(cli_prior *p, cli *c, const char *vqgan, const char *condition,
                            size_t height, size_t width)
{
    p->c = c;
    qkv_status status = cli_coder_load(&p->vqgan, c->ctx, vqgan);
    if (!status && condition)
        status = cli_coder_load(&p->condition, c->ctx, condition);
    if (!status)
        status = qkv_tape_create(&p->tape, c->ctx);
    if (status)
        return status;
    p->factor = qkv_vqgan_factor(p->vqgan);
    p->colors = cli_coder_config(p->vqgan)->colors;
    height = height ? height : cli_coder_config(p->vqgan)->image;
    width = width ? width : cli_coder_config(p->vqgan)->image;
    p->rows = height / p->factor;
    p->columns = width / p->factor;
    p->before = p->condition ? cli_prior_condition_side(p) * cli_prior_condition_side(p) : 1;
    if (height % p->factor || width % p->factor)
        return qkv_fail(c->ctx, QKV_E_ARGUMENT, "%zu x %zu pixels: multiples of %zu expected, the "
                         "side of a code of %s", width, height, p->factor, vqgan);
    return QKV_OK;
}

qkv_status cli_prior_fits(const cli_prior *p, const char *dir)
{
    const qkv_gpt_config *g = qkv_model_config(p->prior);
    size_t codes = cli_coder_config(p->vqgan)->codes;
    size_t others = p->condition ? cli_coder_config(p->condition)->codes : 0;
    if (p->before != g->before || p->rows != g->rows || p->columns != g->columns)
        return qkv_fail(p->c->ctx, QKV_E_FORMAT, "%s: %zu x %zu codes after %zu tokens expected, "
                         "as those of the pictures, found %zu x %zu after %zu", dir, p->rows,
                         p->columns, p->before, g->rows, g->columns, g->before);
    if (codes > g->vocab || others > g->vocab)
        return qkv_fail(p->c->ctx, QKV_E_FORMAT, "%s: vocab_size: at least %zu expected, the "
                         "codes of the pictures, found %zu", dir, codes > others ? codes : others,
                         g->vocab);
    return QKV_OK;
}

qkv_status cli_prior_open(cli_prior *p, cli *c, const char *dir)
{
    qkv_status status = qkv_hub_load(&p->prior, c->ctx, dir);
    if (!status && qkv_model_type_of(p->prior) != &qkv_prior_type)
        status = qkv_fail(c->ctx, QKV_E_ARGUMENT, "%s: a %s imagines no pictures", dir,
                           qkv_model_type_name(qkv_model_type_of(p->prior)));
    if (status)
        return status;
    const qkv_gpt_config *g = qkv_model_config(p->prior);
    char *vqgan = qkv_path_join(c->ctx, dir, CLI_PRIOR_VQGAN);
    char *condition = qkv_path_join(c->ctx, dir, CLI_PRIOR_CONDITION);
    status = vqgan && condition ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = cli_prior_coders(p, c, vqgan, qkv_dir_exists(condition) ? condition : NULL, 0, 0);
    p->rows = g->rows; /* whatever size the VQGAN has learnt on */
    p->columns = g->columns;
    qkv_free(c->ctx, vqgan);
    qkv_free(c->ctx, condition);
    return status ? status : cli_prior_fits(p, dir);
}

void cli_prior_close(cli_prior *p)
{
    qkv_tape_destroy(p->tape);
    qkv_model_destroy(p->vqgan);
    qkv_model_destroy(p->condition);
    p->tape = NULL;
    p->vqgan = p->condition = NULL;
}

/* ---- pictures ------------------------------------------------------------------------------ */

qkv_status cli_prior_read(const cli_prior *p, const char *path, size_t height, size_t width,
                          qkv_image *out)
{
    qkv_pixels_options o = qkv_pixels_defaults();
    o.height = height;
    o.width = width;
    o.channels = p->colors;
    o.fit = QKV_FIT_CROP;
    qkv_status status = qkv_image_read(out, p->c->ctx, path, NULL);
    return status ? status : qkv_image_fit(out, p->c->ctx, &o);
}

qkv_status cli_prior_condition(cli_prior *p, const qkv_image *picture, size_t rows, size_t columns,
                               int32_t *codes)
{
    qkv_context *ctx = p->c->ctx;
    size_t factor = qkv_vqgan_factor(p->condition);
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_image copy;
    qkv_status status = qkv_image_create(&copy, ctx, picture->width, picture->height,
                                         picture->channels);
    if (status)
        return status;
    memcpy(copy.data, picture->data, picture->width * picture->height * picture->channels);
    o.height = rows * factor;
    o.width = columns * factor;
    o.channels = cli_coder_config(p->condition)->colors;
    status = qkv_image_fit(&copy, ctx, &o);
    if (!status)
        status = qkv_pictures_encode(p->condition, p->tape, copy.data, 1, o.height, o.width, codes);
    qkv_image_free(&copy, ctx);
    return status;
}

/* What stands before the codes of n pictures, at the front of each one's tokens. */
static qkv_status put_conditions(cli_prior *p, const uint8_t *pictures, size_t n,
                                 const int32_t *classes, size_t length, int32_t *tokens)
{
    size_t width = p->columns * p->factor, height = p->rows * p->factor;
    size_t side = p->condition ? cli_prior_condition_side(p) : 1;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const uint8_t *data = pictures + i * width * height * p->colors;
        /* qkv_image has no const data; nothing is written to it. */
        const qkv_image picture = {width, height, p->colors, (uint8_t *)(uintptr_t)data};
        tokens[i * length] = classes ? classes[i] : 0;
        if (p->condition)
            status = cli_prior_condition(p, &picture, side, side, tokens + i * length);
    }
    return status;
}

qkv_status cli_prior_tokens(cli_prior *p, const uint8_t *pictures, size_t n, const int32_t *classes,
                            int32_t *tokens)
{
    size_t codes = p->rows * p->columns, length = p->before + codes;
    int32_t *found = qkv_calloc(p->c->ctx, n, codes * sizeof *found);
    qkv_status status = found ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv_pictures_encode(p->vqgan, p->tape, pictures, n, p->rows * p->factor,
                                     p->columns * p->factor, found);
    for (size_t i = 0; i < n && !status; i++)
        memcpy(tokens + i * length + p->before, found + i * codes, codes * sizeof *found);
    qkv_free(p->c->ctx, found);
    return status ? status : put_conditions(p, pictures, n, classes, length, tokens);
}

/* ---- sets of pictures ---------------------------------------------------------------------- */

enum { CODED = 32 }; /* pictures coded at once */

/* Where the coding of a set stands. */
typedef struct {
    cli_prior *p;
    const qkv_pixels *pixels;
    const cli_coding *o;
    size_t length;   /* of a picture's tokens */
    int32_t *tokens; /* (pictures, views, length) */
    cli_progress line;
    size_t done;
} coding;

/* View number `view` of n pictures; numbers (n) says which. */
static qkv_status code_batch(coding *k, const uint8_t *pictures, const size_t *numbers, size_t n,
                             size_t view)
{
    qkv_context *ctx = k->p->c->ctx;
    int32_t classes[CODED], *made = qkv_calloc(ctx, n, k->length * sizeof *made);
    for (size_t i = 0; i < n; i++)
        classes[i] = qkv_pixels_class(k->pixels, numbers[i]);
    qkv_status status = made ? cli_prior_tokens(k->p, pictures, n, k->o->classes ? classes : NULL,
                                                made)
                             : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++)
        memcpy(k->tokens + (numbers[i] * k->o->views + view) * k->length, made + i * k->length,
               k->length * sizeof *made);
    qkv_free(ctx, made);
    k->done += n;
    if (!status && cli_progress_due(&k->line))
        cli_progress_show(&k->line, k->done, qkv_pixels_count(k->pixels) * k->o->views, NULL);
    return status;
}

/* The pictures as they are. */
static qkv_status code_plain(coding *k)
{
    qkv_context *ctx = k->p->c->ctx;
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
    qkv_status status = qkv_batches_create(&b, k->p->c->ctx, k->pixels, &o);
    for (size_t view = 1; view < k->o->views && !status; view++)
        for (size_t i = 0; i < count && !status; i += CODED) {
            const uint8_t *pictures;
            const size_t *numbers;
            size_t n = count - i < CODED ? count - i : CODED;
            status = qkv_batches_bytes(b, (view - 1) * count + i, n, &pictures, NULL, &numbers);
            if (!status)
                status = code_batch(k, pictures, numbers, n, view);
        }
    qkv_batches_destroy(b);
    return status;
}

qkv_status cli_prior_code(cli_prior *p, const qkv_pixels *pixels, const cli_coding *o,
                          int32_t *tokens)
{
    coding k = {.p = p, .pixels = pixels, .o = o, .tokens = tokens,
                .length = p->before + p->rows * p->columns};
    cli_progress_begin(&k.line, p->c, "coding", "pictures", 0);
    qkv_status status = code_plain(&k);
    if (!status && o->views > 1)
        status = code_changed(&k);
    cli_progress_end(&k.line);
    return status;
}

/* ---- grids in files ------------------------------------------------------------------------ */

qkv_status cli_grids_take(cli_grids *out, qkv_context *ctx, const int32_t *tokens, size_t count,
                          const qkv_model *prior)
{
    const qkv_gpt_config *c = qkv_model_config(prior);
    size_t codes = c->rows * c->columns, length = c->before + codes;
    *out = (cli_grids){.ctx = ctx};
    out->grids = qkv_calloc(ctx, count, codes * sizeof *out->grids);
    out->conditions = qkv_calloc(ctx, count, c->before * sizeof *out->conditions);
    if (!out->grids || !out->conditions) {
        cli_grids_free(out);
        return QKV_E_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(out->conditions + i * c->before, tokens + i * length, c->before * sizeof *tokens);
        memcpy(out->grids + i * codes, tokens + i * length + c->before, codes * sizeof *tokens);
    }
    out->g = (qkv_grids){.count = count, .codes = codes, .columns = c->columns,
                         .before = c->before, .grids = out->grids, .conditions = out->conditions};
    return QKV_OK;
}

qkv_status cli_grids_load(cli_grids *out, qkv_context *ctx, const char *path,
                          const qkv_model *prior)
{
    const qkv_gpt_config *c = qkv_model_config(prior);
    size_t length = c->before + c->rows * c->columns;
    size_t count, found;
    int32_t *tokens;
    *out = (cli_grids){0};
    qkv_status status = cli_codes_load(&tokens, ctx, path, &count, &found);
    if (!status && found != length)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: rows of %zu tokens expected, found %zu", path,
                           length, found);
    for (size_t i = 0; i < count * length && !status; i++)
        if ((size_t)tokens[i] >= c->vocab)
            status = qkv_fail(ctx, QKV_E_FORMAT, "%s: number %zu is %d; whole numbers below %zu "
                               "expected", path, i, (int)tokens[i], c->vocab);
    if (!status)
        status = cli_grids_take(out, ctx, tokens, count, prior);
    qkv_free(ctx, tokens);
    return status;
}

void cli_grids_free(cli_grids *g)
{
    qkv_free(g->ctx, g->grids);
    qkv_free(g->ctx, g->conditions);
    *g = (cli_grids){0};
}
