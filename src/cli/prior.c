/* prior.c - opening a prior's directory; pictures as the tokens that it knows. */
#include "cli/prior.h"

#include <math.h>
#include <string.h>

#include "io/file.h"
#include "qkv/codes.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"
#include "qkv/npy.h"

static const qkv_vqgan_config *config_of(const qkv_model *vqgan) { return qkv_model_config(vqgan); }

/* ---- the models ---------------------------------------------------------------------------- */

static qkv_status load_coder(qkv_model **out, qkv_context *ctx, const char *dir)
{
    qkv_status status = qkv_hub_load(out, ctx, dir);
    if (!status && qkv_model_type_of(*out) != &qkv_vqgan_type)
        status = qkv__fail(ctx, QKV_E_ARGUMENT, "%s: a %s has no codes for pictures", dir,
                           qkv_model_type_name(qkv_model_type_of(*out)));
    return status;
}

size_t cli_prior_condition_side(const cli_prior *p)
{
    return config_of(p->condition)->image / qkv_vqgan_factor(p->condition);
}

qkv_status cli_prior_coders(cli_prior *p, cli *c, const char *vqgan, const char *condition,
                            size_t height, size_t width)
{
    p->c = c;
    qkv_status status = load_coder(&p->vqgan, c->ctx, vqgan);
    if (!status && condition)
        status = load_coder(&p->condition, c->ctx, condition);
    if (!status)
        status = qkv_tape_create(&p->tape, c->ctx);
    if (status)
        return status;
    p->factor = qkv_vqgan_factor(p->vqgan);
    p->colors = config_of(p->vqgan)->colors;
    height = height ? height : config_of(p->vqgan)->image;
    width = width ? width : config_of(p->vqgan)->image;
    p->rows = height / p->factor;
    p->columns = width / p->factor;
    p->before = p->condition ? cli_prior_condition_side(p) * cli_prior_condition_side(p) : 1;
    if (height % p->factor || width % p->factor)
        return qkv__fail(c->ctx, QKV_E_ARGUMENT, "%zu x %zu pixels: multiples of %zu expected, the "
                         "side of a code of %s", width, height, p->factor, vqgan);
    return QKV_OK;
}

qkv_status cli_prior_fits(const cli_prior *p, const char *dir)
{
    const qkv_gpt_config *g = qkv_model_config(p->prior);
    size_t codes = config_of(p->vqgan)->codes;
    size_t others = p->condition ? config_of(p->condition)->codes : 0;
    if (p->before != g->before || p->rows != g->rows || p->columns != g->columns)
        return qkv__fail(p->c->ctx, QKV_E_FORMAT, "%s: %zu x %zu codes after %zu tokens expected, "
                         "as those of the pictures, found %zu x %zu after %zu", dir, p->rows,
                         p->columns, p->before, g->rows, g->columns, g->before);
    if (codes > g->vocab || others > g->vocab)
        return qkv__fail(p->c->ctx, QKV_E_FORMAT, "%s: vocab_size: at least %zu expected, the "
                         "codes of the pictures, found %zu", dir, codes > others ? codes : others,
                         g->vocab);
    return QKV_OK;
}

qkv_status cli_prior_open(cli_prior *p, cli *c, const char *dir)
{
    qkv_status status = qkv_hub_load(&p->prior, c->ctx, dir);
    if (!status && qkv_model_type_of(p->prior) != &qkv_prior_type)
        status = qkv__fail(c->ctx, QKV_E_ARGUMENT, "%s: a %s imagines no pictures", dir,
                           qkv_model_type_name(qkv_model_type_of(p->prior)));
    if (status)
        return status;
    const qkv_gpt_config *g = qkv_model_config(p->prior);
    char *vqgan = qkv__path_join(c->ctx, dir, CLI_PRIOR_VQGAN);
    char *condition = qkv__path_join(c->ctx, dir, CLI_PRIOR_CONDITION);
    status = vqgan && condition ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = cli_prior_coders(p, c, vqgan, qkv__dir_exists(condition) ? condition : NULL, 0, 0);
    p->rows = g->rows; /* whatever size the VQGAN has learnt on */
    p->columns = g->columns;
    qkv__free(c->ctx, vqgan);
    qkv__free(c->ctx, condition);
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
    o.channels = config_of(p->condition)->colors;
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
    int32_t *found = qkv__calloc(p->c->ctx, n, codes * sizeof *found);
    qkv_status status = found ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv_pictures_encode(p->vqgan, p->tape, pictures, n, p->rows * p->factor,
                                     p->columns * p->factor, found);
    for (size_t i = 0; i < n && !status; i++)
        memcpy(tokens + i * length + p->before, found + i * codes, codes * sizeof *found);
    qkv__free(p->c->ctx, found);
    return status ? status : put_conditions(p, pictures, n, classes, length, tokens);
}

/* ---- grids in files ------------------------------------------------------------------------ */

qkv_status cli_grids_save(qkv_context *ctx, const char *path, const int32_t *tokens, size_t count,
                          size_t length)
{
    const size_t shape[] = {count, length};
    qkv_real *numbers = qkv__calloc(ctx, count, length * sizeof *numbers);
    for (size_t i = 0; numbers && i < count * length; i++)
        numbers[i] = (qkv_real)tokens[i];
    qkv_status status = numbers ? qkv_npy_save(ctx, path, 2, shape, numbers, QKV_STORE_I32)
                                : QKV_E_MEMORY;
    qkv__free(ctx, numbers);
    return status;
}

qkv_status cli_grids_take(cli_grids *out, qkv_context *ctx, const int32_t *tokens, size_t count,
                          const qkv_model *prior)
{
    const qkv_gpt_config *c = qkv_model_config(prior);
    size_t codes = c->rows * c->columns, length = c->before + codes;
    *out = (cli_grids){.ctx = ctx};
    out->grids = qkv__calloc(ctx, count, codes * sizeof *out->grids);
    out->conditions = qkv__calloc(ctx, count, c->before * sizeof *out->conditions);
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
    qkv_array a = {0};
    *out = (cli_grids){0};
    qkv_status status = qkv_npy_load(&a, ctx, path);
    if (!status && (a.ndim != 2 || !a.count || a.shape[1] != length))
        status = qkv__fail(ctx, QKV_E_FORMAT, "%s: rows of %zu tokens expected, found an array of "
                           "%d axes and %zu numbers", path, length, a.ndim, a.count);
    int32_t *tokens = status ? NULL : qkv__calloc(ctx, a.count, sizeof *tokens);
    if (!status && !tokens)
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < a.count && !status; i++) {
        double v = (double)a.data[i];
        if (!(v >= 0 && v < (double)c->vocab) || v != floor(v))
            status = qkv__fail(ctx, QKV_E_FORMAT, "%s: number %zu is %g; whole numbers below %zu "
                               "expected", path, i, v, c->vocab);
        else
            tokens[i] = (int32_t)v;
    }
    if (!status)
        status = cli_grids_take(out, ctx, tokens, a.shape[0], prior);
    qkv__free(ctx, tokens);
    qkv_array_free(&a);
    return status;
}

void cli_grids_free(cli_grids *g)
{
    qkv__free(g->ctx, g->grids);
    qkv__free(g->ctx, g->conditions);
    *g = (cli_grids){0};
}
