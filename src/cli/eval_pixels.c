/* eval_pixels.c - judging models of every pixel. */
#include "cli/eval.h"
#include "cli/pixels.h"
#include "qkv/colorize.h"
#include "qkv/reconstruct.h"

enum { RGB = 3 };

bool eval_takes_colorize(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_colorizer_type; }
bool eval_takes_reconstruct(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_mae_type; }

/* The pictures of the file, or those that training held out. */
static qkv_status open_pictures(eval *e, const char *path, const char *held_out, size_t side,
                                size_t channels, qkv_pixels **out)
{
    char *kept = NULL;
    if (path)
        return cli_pixels_read(out, e->c, path, side, channels);
    qkv_status status = eval_held_out(e, held_out, &kept);
    if (!status)
        status = qkv_pixels_open(out, e->c->ctx, kept);
    qkv__free(e->c->ctx, kept);
    return status;
}

qkv_status eval_colorize(eval *e, qkv_measures *out)
{
    const qkv_dense_config *c = qkv_model_config(e->model);
    qkv_pixels *pictures = NULL;
    qkv_colorize_score s = {0};
    qkv_status status = open_pictures(e, e->file, "valid.pixels", c->trunk.image, RGB,
                                      &pictures);
    if (!status)
        status = qkv_colorize_evaluate(e->model, e->tape, pictures, 0, &s);
    eval_add(out, "psnr", s.psnr);
    eval_add(out, "psnr_hints", s.psnr_hints);
    eval_add(out, "psnr_mean", s.mean);
    eval_add(out, "psnr_nearest", s.nearest);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}

qkv_status eval_reconstruct(eval *e, qkv_measures *out)
{
    const qkv_mae_config *c = qkv_model_config(e->model);
    qkv_pixels *pictures = NULL;
    qkv_reconstruct_score s = {0};
    qkv_status status = open_pictures(e, e->file, "valid.pixels", c->trunk.image,
                                      c->trunk.channels, &pictures);
    if (!status)
        status = qkv_reconstruct_evaluate(e->model, e->tape, pictures, e->mask, 0, &s);
    eval_add(out, "psnr", s.psnr);
    eval_add(out, "loss", s.loss);
    eval_add(out, "psnr_mean", s.mean);
    eval_add(out, "psnr_nearest", s.nearest);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}
