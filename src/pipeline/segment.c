/* segment.c - the class of every pixel of an image. */
#include "pipeline/masks.h"
#include "pipeline/options.h"
#include "pipeline/image.h"

#include "qkv/painting.h"
#include "qkv/segment.h"

#define FIELD(member) .offset = offsetof(qkv_pipeline_segment_options, member)
static const qkv_option rows[] = {
    {.flag = "mask", .key = "mask", .type = QKV_OPT_BOOL, FIELD(mask),
     .help = "write them in the colours of the masks in training, not in ones that differ well"},
};
QKV__OPTIONS(qkv_pipeline_segment, "Segmenting")

static qkv_status choose_colors(const qkv_pipeline *p, bool mask, qkv_segmentation *out)
{
    qkv_mask_palette palette = {0};
    qkv_status status = mask ? qkv__masks_of_model(&palette, p->model) : QKV_OK;
    for (size_t i = 0; i < out->classes && !status; i++) {
        qkv_class_color(i, out->color[i]);
        for (int k = 0; k < 3 && mask; k++)
            out->color[i][k] = (uint8_t)(palette.color[i] >> (16 - 8 * k));
    }
    return status;
}

static void segment_paint(qkv_segmentation *s)
{
    for (size_t i = 0; i < s->image.width * s->image.height; i++) {
        size_t class_ = s->map[i];
        s->pixels[class_]++;
        for (int k = 0; k < 3; k++)
            s->image.data[3 * i + (size_t)k] = s->color[class_][k];
    }
}

qkv_status qkv_pipeline_segment(qkv_pipeline *p, const qkv_image_source *in,
                                const qkv_pipeline_segment_options *options,
                                qkv_segmentation *out)
{
    *out = (qkv_segmentation){.ctx = p->ctx};
    if (!qkv_model_can(p->model, QKV_CAN_SEGMENT))
        return qkv__pipeline_refuse(p, "tell pixels' classes");
    out->classes = ((const qkv_pixelwise_config *)qkv_model_config(p->model))->outputs;
    qkv_status status = qkv__image_load(&out->image, p->ctx, in);
    if (!status) {
        out->map = qkv_calloc(p->ctx, out->image.height, out->image.width);
        status = out->map ? QKV_OK : QKV_E_MEMORY;
    }
    if (!status)
        status = qkv_segment(out->map, p->model, p->tape, &out->image);
    if (!status)
        status = choose_colors(p, options && options->mask, out);
    if (status)
        qkv_segmentation_free(out);
    else
        segment_paint(out);
    return status;
}

void qkv_segmentation_free(qkv_segmentation *s)
{
    if (s->ctx) {
        qkv_image_free(&s->image, s->ctx);
        qkv_free(s->ctx, s->map);
    }
    *s = (qkv_segmentation){0};
}
