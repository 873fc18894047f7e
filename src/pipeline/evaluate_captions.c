/* evaluate_captions.c - evaluating vectors of images and texts: how often an image's caption is the
 * nearest, and a caption's image. */
#include "io/file.h"
#include "pipeline/captioned.h"
#include "pipeline/evaluators.h"
#include "pipeline/held_out.h"
#include "pipeline/image.h"
#include "qkv/clip.h"
#include "qkv/embed.h"
#include "task/vectors.h"
#include "text/texts.h"

enum { FIELDS = 3 };

/* The images and captions that training kept, or those of files. */
static qkv_status open_captioned(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                 qkv__captioned *read, qkv_pixels **images, qkv_records **captions)
{
    const qkv_clip_config *c = qkv_model_config(p->model);
    qkv_path path;
    if (!o->file != !o->captions)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT,
                        "--file and --captions: both or none expected, found one");
    qkv_status status;
    if (!o->file) {
        status = qkv__evaluate_kept(p, QKV__VALID_IMAGES, images);
        if (!status)
            status = qkv__evaluate_held_out(p, QKV__VALID_RECORDS, &path);
        return status ? status
                      : qkv__records_open_of(captions, p->ctx, path.text, FIELDS, p->tokenizer);
    }
    status = qkv__captioned_load(read, p->ctx, o->file, o->captions,
                                 qkv__image_format_of(p->model));
    if (status)
        return status;
    status = qkv__captioned_records(captions, read, p->tokenizer, c->text.positions, NULL,
                                    qkv_pixels_count(read->images), NULL);
    *images = read->images;
    read->images = NULL;
    return status;
}

static qkv_status evaluate_captioned(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                     qkv_metrics *out)
{
    qkv__captioned read = {.ctx = p->ctx};
    qkv_pixels *images = NULL;
    qkv_records *captions = NULL;
    qkv_recall_score s = {0};
    qkv_status status = open_captioned(p, o, &read, &images, &captions);
    if (!status) {
        (void)qkv__image_format_of(p->model); /* which the model is given if it has none */
        const qkv_captioned data = {images, captions};
        status = qkv_captions_evaluate(p->model, p->tape, &data, 0, &s);
        out->scored = qkv_pixels_count(images);
    }
    qkv__recall_add(out, &s);
    qkv_metrics_add(out, "to_caption_1", s.recall1[0]);
    qkv_metrics_add(out, "to_caption_5", s.recall5[0]);
    qkv_metrics_add(out, "to_image_1", s.recall1[1]);
    qkv_metrics_add(out, "to_image_5", s.recall5[1]);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_pixels_close(images);
    qkv_records_close(captions);
    qkv__captioned_close(&read);
    return status;
}

const qkv__evaluator qkv__evaluator_captions = {
    .can = QKV_CAN_EMBED_BOTH, .evaluate = evaluate_captioned, .unit = "images", .text = true};
