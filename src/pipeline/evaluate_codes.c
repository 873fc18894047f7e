/* evaluate_codes.c - evaluating models that code images, and priors on the codes. */
#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"
#include "pipeline/image_set.h"

#include <math.h>

#include "io/file.h"
#include "qkv/codes.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"

enum { MOST_FOUND = 2000 }; /* images that are looked for */

/* ---- VQGANs ---------------------------------------------------------------------------------- */

/* What the network in a directory says of decoded images. */
static qkv_status compare_decoded(qkv_pipeline *p, const char *dir, const qkv_pixels *images,
                                  qkv_metrics *out)
{
    qkv_model *lpips = NULL;
    qkv_codes_likeness s = {0};
    qkv_status status = qkv_hub_load(&lpips, p->ctx, dir);
    if (!status && !qkv_model_can(lpips, QKV_CAN_COMPARE_IMAGES)) {
        status = qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s: a perceptual network for images of 3 "
                          "channels expected, found a %s", dir,
                          qkv_model_type_name(qkv_model_type_of(lpips)));
    } else if (!status) {
        status = qkv_codes_compare(p->model, lpips, p->tape, images, &s);
        if (status)
            qkv_fail_prefix(p->ctx, dir);
    }
    qkv_metrics_add(out, "lpips", s.lpips);
    qkv_metrics_add(out, "frechet", s.frechet);
    qkv_model_destroy(lpips);
    return status;
}

static qkv_status evaluate_codes(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                 qkv_metrics *out)
{
    const qkv_vqgan_config *c = qkv_model_config(p->model);
    qkv_pixels *images = NULL;
    qkv_codes_score s = {0};
    qkv_status status = qkv__evaluate_squares(p, o->file, c->image, c->colors, &images);
    if (!status)
        status = qkv_codes_evaluate(p->model, NULL, 0, p->tape, images, 0, &s);
    qkv_metrics_add(out, "psnr", s.psnr);
    qkv_metrics_add(out, "ssim", s.ssim);
    qkv_metrics_add(out, "codes_used", s.used);
    qkv_metrics_add(out, "perplexity", s.perplexity);
    qkv_metrics_add(out, "loss", s.loss);
    if (!status && s.images <= MOST_FOUND) {
        double found;
        status = qkv_codes_find(p->model, p->tape, images, &found);
        qkv_metrics_add(out, "found_again", found);
    }
    if (!status && o->lpips)
        status = compare_decoded(p, o->lpips, images, out);
    out->scored = s.images;
    qkv_pixels_close(images);
    return status;
}

const qkv__evaluator qkv__evaluator_codes = {
    .can = QKV_CAN_ENCODE_IMAGES, .evaluate = evaluate_codes, .unit = "images", .lpips = true};

/* ---- priors ---------------------------------------------------------------------------------- */

/* The images' tokens. */
static qkv_status code_images(qkv_pipeline *p, const qkv_pixels *pixels, qkv__grid_set *out)
{
    qkv__prior *c = &p->codecs;
    size_t count = qkv_pixels_count(pixels), length = c->before + c->rows * c->columns;
    int32_t *tokens = qkv_calloc(p->ctx, count, length * sizeof *tokens);
    const qkv__coding o = {.views = 1, .classes = qkv_model_label_count(p->model) > 0};
    qkv_status status = tokens ? qkv__prior_code(c, pixels, &o, tokens) : QKV_E_MEMORY;
    if (!status)
        status = qkv__grid_set_take(out, p->ctx, tokens, count, p->model);
    qkv_free(p->ctx, tokens);
    return status;
}

static qkv_status evaluate_codes_read_images(qkv_pipeline *p, const char *file, qkv__grid_set *out)
{
    qkv_pixels *pixels = NULL;
    qkv_status status = qkv__pipeline_codecs(p);
    const qkv__prior *c = &p->codecs;
    qkv_image_format f = qkv__images_square(0, c->colors);
    f.height = c->rows * c->factor;
    f.width = c->columns * c->factor;
    if (!status)
        status = qkv__pixels_load(&pixels, p->ctx, file, &f,
                                  qkv_model_label_count(p->model) ? p->model : NULL);
    if (!status)
        status = code_images(p, pixels, out);
    qkv_pixels_close(pixels);
    return status;
}

/* What training kept in DIR/train/name. */
static qkv_status read_kept(const qkv_pipeline *p, const char *name, qkv__grid_set *out)
{
    qkv_path path;
    qkv_status status = qkv__evaluate_held_out(p, name, &path);
    return status ? status : qkv__grid_set_load(out, p->ctx, path.text, p->model);
}

/* The counted neighbours' bits, where what was counted is still there. */
static qkv_status count_bigrams(const qkv_pipeline *p, const qkv_code_grids *valid, double *bits)
{
    const qkv_path path = qkv_path_in(p->dir, QKV__TRAIN_ARRAY);
    qkv__grid_set train = {0};
    *bits = NAN;
    if (!qkv_file_exists(path.text))
        return QKV_OK;
    qkv_status status = qkv__grid_set_load(&train, p->ctx, path.text, p->model);
    if (!status)
        status = qkv_prior_bigram(p->ctx, &train.g, valid, qkv_lm_vocab(p->model), bits);
    qkv__grid_set_free(&train);
    return status;
}

static qkv_status evaluate_prior(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                 qkv_metrics *out)
{
    qkv__grid_set grids = {0};
    qkv_prior_score s = {0};
    double bigram = NAN;
    qkv_status status = o->file ? evaluate_codes_read_images(p, o->file, &grids)
                                : read_kept(p, QKV__VALID_ARRAY, &grids);
    if (!status)
        status = qkv_prior_evaluate(p->model, p->tape, &grids.g, 0, &s);
    if (!status)
        status = count_bigrams(p, &grids.g, &bigram);
    qkv_metrics_add(out, "bits_per_code", s.bits_per_code);
    if (!isnan(bigram))
        qkv_metrics_add(out, "bits_bigram", bigram);
    qkv_metrics_add(out, "loss", s.loss);
    out->scored = s.codes;
    qkv__grid_set_free(&grids);
    return status;
}

const qkv__evaluator qkv__evaluator_prior = {
    .can = QKV_CAN_SAMPLE_CODES, .evaluate = evaluate_prior, .unit = "codes"};
