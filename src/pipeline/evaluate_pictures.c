/* evaluate_pictures.c - judging models of pictures: labels, colours, hidden patches, classes of
 * pixels, and networks that compare pictures. */
#include "pipeline/held_out.h"
#include "pipeline/judges.h"
#include "pipeline/masks.h"
#include "pipeline/picture.h"

#include "qkv/colorize.h"
#include "qkv/looks.h"
#include "qkv/recognize.h"
#include "qkv/reconstruct.h"
#include "qkv/segment.h"

enum { RGB = 3, MOST_SIDE = 256 };

/* Those of the file with the model's classes. */
static qkv_status open_labelled(const qkv_pipeline *p, const char *file, qkv_pixels **out)
{
    qkv_pixels *read = NULL;
    const qkv_picture_format *f = qkv__picture_format_of(p->model);
    if (!file)
        return qkv__evaluate_kept(p, QKV__VALID_IMAGES, out);
    qkv_status status = qkv__pictures_load(&read, p->ctx, file, f);
    if (!status)
        status = qkv__pixels_copy(out, p->ctx, NULL, read, NULL, qkv_pixels_count(read), p->model,
                                  file);
    qkv_pixels_close(read);
    return status;
}

qkv_status qkv__evaluate_recognize(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                   qkv_measures *out)
{
    qkv_pixels *pixels = NULL;
    qkv_recognize_score s = {0};
    qkv_status status = open_labelled(p, o->file, &pixels);
    if (!status)
        status = qkv_recognize_evaluate(p->model, p->tape, pixels, 0, &s);
    qkv_measures_add(out, "accuracy", s.accuracy);
    qkv_measures_add(out, "loss", s.loss);
    out->scored = s.pictures;
    qkv_pixels_close(pixels);
    return status;
}

qkv_status qkv__evaluate_colorize(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                  qkv_measures *out)
{
    const qkv_dense_config *c = qkv_model_config(p->model);
    qkv_pixels *pictures = NULL;
    qkv_colorize_score s = {0};
    qkv_status status = qkv__evaluate_squares(p, o->file, c->trunk.image, RGB, &pictures);
    if (!status)
        status = qkv_colorize_evaluate(p->model, p->tape, pictures, 0, &s);
    qkv_measures_add(out, "psnr", s.psnr);
    qkv_measures_add(out, "psnr_hints", s.psnr_hints);
    qkv_measures_add(out, "psnr_mean", s.mean);
    qkv_measures_add(out, "psnr_nearest", s.nearest);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}

qkv_status qkv__evaluate_reconstruct(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                     qkv_measures *out)
{
    const qkv_mae_config *c = qkv_model_config(p->model);
    qkv_pixels *pictures = NULL;
    qkv_reconstruct_score s = {0};
    qkv_status status = qkv__evaluate_squares(p, o->file, c->trunk.image, c->trunk.channels,
                                              &pictures);
    if (!status)
        status = qkv_reconstruct_evaluate(p->model, p->tape, pictures, o->mask, 0, &s);
    qkv_measures_add(out, "psnr", s.psnr);
    qkv_measures_add(out, "loss", s.loss);
    qkv_measures_add(out, "psnr_mean", s.mean);
    qkv_measures_add(out, "psnr_nearest", s.nearest);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}

/* A network that a VQGAN's training taught lies in the run's folder train, beside what that held
 * out. It compares pictures of any size. */
static qkv_status open_compared(const qkv_pipeline *p, const char *file, qkv_pixels **out)
{
    qkv_picture_format f;
    if (!file)
        return qkv__evaluate_kept(p, "../../" QKV__VALID_IMAGES, out);
    qkv_status status = qkv__pictures_format(&f, p->ctx, file, MOST_SIDE);
    f.channels = RGB;
    return status ? status : qkv__pictures_load(out, p->ctx, file, &f);
}

qkv_status qkv__evaluate_looks(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                               qkv_measures *out)
{
    qkv_pixels *pictures = NULL;
    qkv_looks_score s = {0};
    qkv_status status = open_compared(p, o->file, &pictures);
    if (!status)
        status = qkv_looks_evaluate(p->model, p->tape, pictures, &s);
    qkv_measures_add(out, "ranks_blur", s.blur);
    qkv_measures_add(out, "ranks_noise", s.noise);
    out->scored = s.pictures;
    qkv_pixels_close(pictures);
    return status;
}

static qkv_status open_masks(const qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                             qkv__picture_set *out)
{
    const qkv_dense_config *c = qkv_model_config(p->model);
    qkv_mask_palette palette;
    if (!o->images != !o->masks)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "--images and --masks: both expected, found one "
                        "of them");
    if (o->images) {
        qkv_status status = qkv__masks_of_model(&palette, p->model);
        return status ? status : qkv__masks_load(out, p->ctx, o->images, o->masks, &palette,
                                                 c->trunk.image);
    }
    qkv_status status = qkv__evaluate_kept(p, QKV__VALID_IMAGES, &out->images);
    return status ? status : qkv__evaluate_kept(p, QKV__VALID_MASKS, &out->classes);
}

qkv_status qkv__evaluate_segment(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                 qkv_measures *out)
{
    qkv__picture_set data = {0};
    qkv_segment_score s = {0};
    qkv_status status = open_masks(p, o, &data);
    const qkv_segment_data held_out = {data.images, data.classes};
    if (!status)
        status = qkv_segment_evaluate(p->model, p->tape, &held_out, 0, &s);
    qkv_measures_add(out, "miou", s.miou);
    qkv_measures_add(out, "accuracy", s.accuracy);
    qkv_measures_add(out, "loss", s.loss);
    out->scored = s.pictures;
    qkv__picture_set_close(&data);
    return status;
}
