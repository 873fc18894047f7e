/* grids.c - judging priors on the codes of pictures. */
#include <math.h>

#include "eval/kinds.h"
#include "pipeline/pictures.h"
#include "pipeline/prior.h"
#include "io/file.h"
#include "qkv/gpt.h"

bool eval_takes_grids(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_prior_type; }

/* The pictures' tokens. */
static qkv_status code_pictures(eval *e, qkv__prior *p, const qkv_pixels *pixels,
                                qkv__grid_set *out)
{
    qkv_context *ctx = e->c->ctx;
    size_t count = qkv_pixels_count(pixels), length = p->before + p->rows * p->columns;
    int32_t *tokens = qkv_calloc(ctx, count, length * sizeof *tokens);
    const qkv__coding o = {.views = 1, .classes = qkv_model_label_count(p->prior) > 0};
    qkv_status status = tokens ? qkv__prior_code(p, pixels, &o, tokens) : QKV_E_MEMORY;
    if (!status)
        status = qkv__grid_set_take(out, ctx, tokens, count, p->prior);
    qkv_free(ctx, tokens);
    return status;
}

static qkv_status read_pictures(eval *e, qkv__grid_set *out)
{
    qkv__prior p = {0};
    qkv_pixels *all = NULL, *pixels = NULL;
    qkv_status status = qkv__prior_open(&p, e->c->ctx, e->dir);
    qkv_picture_format f = qkv__pictures_square(0, p.colors);
    f.height = p.rows * p.factor;
    f.width = p.columns * p.factor;
    if (!status)
        status = qkv__pictures_load(&all, e->c->ctx, e->file, &f);
    if (!status)
        status = qkv__pixels_copy(&pixels, e->c->ctx, NULL, all, NULL, qkv_pixels_count(all),
                                   qkv_model_label_count(p.prior) ? p.prior : NULL, e->file);
    if (!status)
        status = code_pictures(e, &p, pixels, out);
    qkv_pixels_close(pixels);
    qkv_pixels_close(all);
    qkv__prior_close(&p);
    qkv_model_destroy(p.prior);
    return status;
}

/* What training kept in DIR/train/name. */
static qkv_status read_kept(eval *e, const char *name, qkv__grid_set *out)
{
    char *path = NULL;
    qkv_status status = eval_held_out(e, name, &path);
    if (!status)
        status = qkv__grid_set_load(out, e->c->ctx, path, e->model);
    qkv_free(e->c->ctx, path);
    return status;
}

/* The counted neighbours' bits, where what was counted is still there. */
static qkv_status count_bigrams(eval *e, const qkv_grids *valid, double *bits)
{
    qkv__grid_set train = {0};
    qkv_str path;
    *bits = NAN;
    qkv_str_init(&path, e->c->ctx);
    qkv_str_printf(&path, "%s/train/train.npy", e->dir);
    qkv_status status = path.data ? QKV_OK : QKV_E_MEMORY;
    if (!status && qkv_file_exists(path.data)) {
        status = qkv__grid_set_load(&train, e->c->ctx, path.data, e->model);
        if (!status)
            status = qkv_grids_bigram(e->c->ctx, &train.g, valid, qkv_lm_vocab(e->model), bits);
    }
    qkv__grid_set_free(&train);
    qkv_str_free(&path);
    return status;
}

qkv_status eval_grids(eval *e, qkv_measures *out)
{
    qkv__grid_set grids = {0};
    qkv_grids_score s = {0};
    double bigram = NAN;
    qkv_status status = e->file ? read_pictures(e, &grids) : read_kept(e, "valid.npy", &grids);
    if (!status)
        status = qkv_grids_evaluate(e->model, e->tape, &grids.g, 0, &s);
    if (!status)
        status = count_bigrams(e, &grids.g, &bigram);
    qkv_measures_add(out, "bits_per_code", s.bits_per_code);
    if (!isnan(bigram))
        qkv_measures_add(out, "bits_bigram", bigram);
    qkv_measures_add(out, "loss", s.loss);
    out->scored = s.codes;
    qkv__grid_set_free(&grids);
    return status;
}
