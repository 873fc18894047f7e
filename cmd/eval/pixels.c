/* pixels.c - judging models of every pixel. */
#include "eval/kinds.h"
#include "pipeline/masks.h"
#include "qkv/codes.h"
#include "qkv/colorize.h"
#include "qkv/hub.h"
#include "qkv/looks.h"
#include "qkv/reconstruct.h"
#include "qkv/segment.h"

enum { RGB = 3, MOST_SIDE = 256, MOST_FOUND = 2000 }; /* pictures that are looked for */

bool eval_takes_colorize(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_colorizer_type; }
bool eval_takes_segment(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_segmenter_type; }
bool eval_takes_codes(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_vqgan_type; }
bool eval_takes_looks(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_perceptual_type; }
bool eval_takes_reconstruct(const qkv_model *m) { return qkv_model_type_of(m) == &qkv_mae_type; }

/* The pictures of the file, or those that training held out. */
static qkv_status open_pictures(eval *e, const char *path, const char *held_out, size_t side,
                                size_t channels, qkv_pixels **out)
{
    const qkv_picture_format f = qkv__pictures_square(side, channels);
    return path ? qkv__pictures_load(out, e->c->ctx, path, &f)
                : eval_kept_pictures(e, held_out, out);
}

qkv_status eval_colorize(eval *e, qkv_measures *out)
{
    const qkv_dense_config *c = qkv_model_config(e->model);
    qkv_pixels *pictures = NULL;
    qkv_colorize_score s = {0};
    qkv_status status = open_pictures(e, e->file, "valid-images.safetensors", c->trunk.image, RGB,
                                      &pictures);
    if (!status)
        status = qkv_colorize_evaluate(e->model, e->tape, pictures, 0, &s);
    qkv_measures_add(out, "psnr", s.psnr);
    qkv_measures_add(out, "psnr_hints", s.psnr_hints);
    qkv_measures_add(out, "psnr_mean", s.mean);
    qkv_measures_add(out, "psnr_nearest", s.nearest);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}

qkv_status eval_reconstruct(eval *e, qkv_measures *out)
{
    const qkv_mae_config *c = qkv_model_config(e->model);
    qkv_pixels *pictures = NULL;
    qkv_reconstruct_score s = {0};
    qkv_status status = open_pictures(e, e->file, "valid-images.safetensors", c->trunk.image,
                                      c->trunk.channels, &pictures);
    if (!status)
        status = qkv_reconstruct_evaluate(e->model, e->tape, pictures, e->mask, 0, &s);
    qkv_measures_add(out, "psnr", s.psnr);
    qkv_measures_add(out, "loss", s.loss);
    qkv_measures_add(out, "psnr_mean", s.mean);
    qkv_measures_add(out, "psnr_nearest", s.nearest);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}

/* What the network that was named says of decoded pictures. */
static qkv_status look_at_decoded(eval *e, const qkv_pixels *pictures, qkv_measures *out)
{
    qkv_model *looks = NULL;
    qkv_codes_likeness s = {0};
    qkv_status status = qkv_hub_load(&looks, e->c->ctx, e->lpips);
    if (!status) {
        status = qkv_codes_compare(e->model, looks, e->tape, pictures, &s);
        if (status)
            qkv_fail_prefix(e->c->ctx, e->lpips);
    }
    qkv_measures_add(out, "lpips", s.lpips);
    qkv_measures_add(out, "frechet", s.frechet);
    qkv_model_destroy(looks);
    return status;
}

qkv_status eval_codes(eval *e, qkv_measures *out)
{
    const qkv_vqgan_config *c = qkv_model_config(e->model);
    qkv_pixels *pictures = NULL;
    qkv_codes_score s = {0};
    qkv_status status =
        open_pictures(e, e->file, "valid-images.safetensors", c->image, c->colors, &pictures);
    if (!status)
        status = qkv_codes_evaluate(e->model, NULL, 0, e->tape, pictures, 0, &s);
    qkv_measures_add(out, "psnr", s.psnr);
    qkv_measures_add(out, "ssim", s.ssim);
    qkv_measures_add(out, "codes_used", s.used);
    qkv_measures_add(out, "perplexity", s.perplexity);
    qkv_measures_add(out, "loss", s.loss);
    if (!status && s.pictures <= MOST_FOUND) {
        double found;
        status = qkv_codes_find(e->model, e->tape, pictures, &found);
        qkv_measures_add(out, "found_again", found);
    }
    if (!status && e->lpips)
        status = look_at_decoded(e, pictures, out);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}

/* A network that a VQGAN's training taught lies in the run's folder train, beside what that held
 * out. It looks at pictures of any size. */
static qkv_status open_looked_at(eval *e, qkv_pixels **out)
{
    qkv_picture_format f;
    if (!e->file)
        return eval_kept_pictures(e, "../../valid-images.safetensors", out);
    qkv_status status = qkv__pictures_format(&f, e->c->ctx, e->file, MOST_SIDE);
    f.channels = RGB;
    return status ? status : qkv__pictures_load(out, e->c->ctx, e->file, &f);
}

qkv_status eval_looks(eval *e, qkv_measures *out)
{
    qkv_pixels *pictures = NULL;
    qkv_looks_score s = {0};
    qkv_status status = open_looked_at(e, &pictures);
    if (!status)
        status = qkv_looks_evaluate(e->model, e->tape, pictures, &s);
    qkv_measures_add(out, "ranks_blur", s.blur);
    qkv_measures_add(out, "ranks_noise", s.noise);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}

static qkv_status open_masks(eval *e, qkv__picture_set *out)
{
    const qkv_dense_config *c = qkv_model_config(e->model);
    qkv_mask_palette palette;
    if (!e->images != !e->masks)
        return qkv_fail(e->c->ctx, QKV_E_ARGUMENT, "--images and --masks: both expected, found "
                        "one of them");
    if (e->images) {
        qkv_status status = qkv__masks_of_model(&palette, e->model);
        return status ? status : qkv__masks_load(out, e->c->ctx, e->images, e->masks, &palette,
                                                c->trunk.image);
    }
    qkv_status status = open_pictures(e, NULL, "valid-images.safetensors", 0, 0, &out->images);
    return status ? status : open_pictures(e, NULL, "valid-masks.safetensors", 0, 0, &out->classes);
}

qkv_status eval_segment(eval *e, qkv_measures *out)
{
    qkv__picture_set data = {0};
    qkv_segment_score s = {0};
    qkv_status status = open_masks(e, &data);
    const qkv_segment_data held_out = {data.images, data.classes};
    if (!status)
        status = qkv_segment_evaluate(e->model, e->tape, &held_out, 0, &s);
    qkv_measures_add(out, "miou", s.miou);
    qkv_measures_add(out, "accuracy", s.accuracy);
    qkv_measures_add(out, "loss", s.loss);
    out->scored = s.pictures;
    qkv__picture_set_close(&data);
    return status;
}
