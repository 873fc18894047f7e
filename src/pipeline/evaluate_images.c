/* evaluate_images.c - evaluating models of images: labels, colours, hidden patches, classes of
 * pixels, and networks that compare images. */
#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"
#include "pipeline/masks.h"
#include "pipeline/image.h"

#include "qkv/colorize.h"
#include "qkv/perceptual_task.h"
#include "qkv/classify_images.h"
#include "qkv/reconstruct.h"
#include "qkv/segment.h"

enum { RGB = 3, MOST_SIDE = 256 };

static qkv_status evaluate_classify_images(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                     qkv_metrics *out)
{
    qkv_pixels *pixels = NULL;
    qkv_classify_images_score s = {0};
    qkv_status status = o->file ? qkv__pixels_load(&pixels, p->ctx, o->file,
                                                   qkv__image_format_of(p->model), p->model)
                                : qkv__evaluate_kept(p, QKV__VALID_IMAGES, &pixels);
    if (!status)
        status = qkv_classify_images_evaluate(p->model, p->tape, pixels, 0, &s);
    qkv_metrics_add(out, "accuracy", s.accuracy);
    qkv_metrics_add(out, "loss", s.loss);
    out->scored = s.images;
    qkv_pixels_close(pixels);
    return status;
}

const qkv__evaluator qkv__evaluator_classify_images = {
    .can = QKV_CAN_CLASSIFY_IMAGES, .evaluate = evaluate_classify_images, .unit = "images"};

static qkv_status evaluate_colorize(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                    qkv_metrics *out)
{
    const qkv_pixelwise_config *c = qkv_model_config(p->model);
    qkv_pixels *images = NULL;
    qkv_colorize_score s = {0};
    qkv_status status = qkv__evaluate_squares(p, o->file, c->trunk.image, RGB, &images);
    if (!status)
        status = qkv_colorize_evaluate(p->model, p->tape, images, 0, &s);
    qkv_metrics_add(out, "psnr", s.psnr);
    qkv_metrics_add(out, "psnr_hints", s.psnr_hints);
    qkv_metrics_add(out, "psnr_mean", s.mean);
    qkv_metrics_add(out, "psnr_nearest", s.nearest);
    out->scored = s.images;
    qkv_pixels_close(images);
    return status;
}

const qkv__evaluator qkv__evaluator_colorize = {
    .can = QKV_CAN_COLORIZE, .evaluate = evaluate_colorize, .unit = "images"};

static qkv_status evaluate_reconstruct(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                       qkv_metrics *out)
{
    const qkv_mae_config *c = qkv_model_config(p->model);
    qkv_pixels *images = NULL;
    qkv_reconstruct_score s = {0};
    qkv_status status = qkv__evaluate_squares(p, o->file, c->trunk.image, c->trunk.channels,
                                              &images);
    if (!status)
        status = qkv_reconstruct_evaluate(p->model, p->tape, images, o->mask, 0, &s);
    qkv_metrics_add(out, "psnr", s.psnr);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "psnr_mean", s.mean);
    qkv_metrics_add(out, "psnr_nearest", s.nearest);
    out->scored = s.images;
    qkv_pixels_close(images);
    return status;
}

const qkv__evaluator qkv__evaluator_reconstruct = {
    .can = QKV_CAN_RECONSTRUCT, .evaluate = evaluate_reconstruct, .unit = "images"};

/* A network that a VQGAN's training taught lies in the run's folder train, beside what that held
 * out. It compares images of any size. */
static qkv_status open_compared(const qkv_pipeline *p, const char *file, qkv_pixels **out)
{
    qkv_image_format f;
    if (!file)
        return qkv__evaluate_kept(p, "../../" QKV__VALID_IMAGES, out);
    qkv_status status = qkv__images_format(&f, p->ctx, file, MOST_SIDE);
    f.channels = RGB;
    return status ? status : qkv__images_load(out, p->ctx, file, &f);
}

static qkv_status evaluate_perceptual(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                 qkv_metrics *out)
{
    qkv_pixels *images = NULL;
    qkv_perceptual_score s = {0};
    qkv_status status = open_compared(p, o->file, &images);
    if (!status)
        status = qkv_perceptual_evaluate(p->model, p->tape, images, &s);
    qkv_metrics_add(out, "ranks_blur", s.blur);
    qkv_metrics_add(out, "ranks_noise", s.noise);
    out->scored = s.images;
    qkv_pixels_close(images);
    return status;
}

const qkv__evaluator qkv__evaluator_perceptual = {
    .can = QKV_CAN_COMPARE_IMAGES, .evaluate = evaluate_perceptual, .unit = "images"};

static qkv_status open_masks(const qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                             qkv__image_set *out)
{
    const qkv_pixelwise_config *c = qkv_model_config(p->model);
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

static qkv_status evaluate_segment(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                   qkv_metrics *out)
{
    qkv__image_set data = {0};
    qkv_segment_score s = {0};
    qkv_status status = open_masks(p, o, &data);
    const qkv_segment_data held_out = {data.images, data.classes};
    if (!status)
        status = qkv_segment_evaluate(p->model, p->tape, &held_out, 0, &s);
    qkv_metrics_add(out, "miou", s.miou);
    qkv_metrics_add(out, "accuracy", s.accuracy);
    qkv_metrics_add(out, "loss", s.loss);
    out->scored = s.images;
    qkv__image_set_close(&data);
    return status;
}

const qkv__evaluator qkv__evaluator_segment = {
    .can = QKV_CAN_SEGMENT, .evaluate = evaluate_segment, .unit = "images",
    .data = QKV__ON_MASKS};
