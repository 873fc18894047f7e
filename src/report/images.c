/* images.c - looking inside models of images: classifiers, masked autoencoders, segmenters,
 * colourers. Each runs as its own call does, with probes on the tape. */
#include <stdio.h>
#include <string.h>

#include "pipeline/image.h"
#include "pipeline/image_set.h"
#include "report/patches.h"
#include "report/looking.h"
#include "qkv/mae.h"
#include "qkv/pixelwise.h"
#include "qkv/vit.h"

/* ---- panels ---------------------------------------------------------------------------------- */

/* Positions, filters and neighbours of patches. */
qkv_status qkv__look_patch_panels(qkv__looking *l)
{
    qkv__look_reading r;
    qkv_image input = {0};
    qkv_pixels *set = NULL;
    qkv_status status = qkv__look_positions(l);
    if (status || !qkv__look_reading_of(&r, l->p))
        return status;
    const qkv_pixels_options o = qkv__pixels_options(&r.format);
    status = qkv__look_reading_input(&r, l, &input);
    if (!status)
        status = qkv__look_among(l, &o, &set);
    if (!status)
        status = qkv__look_filters(l, &r, set, &input);
    if (!status)
        status = qkv__look_nearest(l, &r, set, &input);
    qkv_pixels_close(set);
    qkv_image_free(&input, l->p->ctx);
    return status;
}

static qkv_status panels_masked(qkv__looking *l)
{
    qkv_status status = qkv__look_reconstruction(l);
    return status ? status : qkv__look_patch_panels(l);
}

static qkv_status panels_segmenter(qkv__looking *l)
{
    qkv_status status = qkv__look_segments(l);
    return status ? status : qkv__look_patch_panels(l);
}

static qkv_status panels_colorizer(qkv__looking *l)
{
    qkv_status status = qkv__look_hints(l);
    return status ? status : qkv__look_patch_panels(l);
}

static qkv_status no_image(const qkv__looking *l)
{
    return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: a %s model reads images: none was given",
                    l->p->dir, l->out->kind);
}

static bool has_image(const qkv__looking *l)
{
    return l->in->image.path || l->in->image.image;
}

/* The whole grid of an image of the model's side. */
static qkv_status look_grid(qkv__looking *l, size_t axis, const char *name, size_t lead,
                            size_t side)
{
    return has_image(l) ? qkv__look_patches(l, axis, name, lead, side, side, NULL, side * side)
                        : no_image(l);
}

/* The input as the model sees it: cropped or squashed as its directory says. */
static qkv_status add_input(qkv__looking *l)
{
    qkv__look_reading r;
    qkv_image image = {0};
    qkv_status status = qkv__look_reading_of(&r, l->p) ? QKV_OK : QKV_E_UNSUPPORTED;
    if (!status)
        status = qkv__look_reading_input(&r, l, &image);
    if (!status)
        status = qkv__look_add_image(l, "input", &image);
    qkv_image_free(&image, l->p->ctx);
    return status;
}

qkv_status qkv__look_read_image(qkv__looking *l, size_t lead, size_t side)
{
    qkv_status status = look_grid(l, 0, "patches", lead, side);
    return status ? status : add_input(l);
}

/* ---- classifiers ----------------------------------------------------------------------------- */

/* Tokens behind the class token: registers, or that of distillation. */
static qkv_status name_leads(qkv__looking *l, const qkv_patches_config *c)
{
    qkv_look_axis *a = &l->out->axes[0];
    for (size_t i = 1; i < a->lead; i++) {
        char label[32] = "[DIST]";
        if (c->registers)
            (void)snprintf(label, sizeof label, "[REG %zu]", i);
        qkv_free(l->p->ctx, a->labels[i]);
        if (!(a->labels[i] = qkv_strdup(l->p->ctx, label)))
            return QKV_E_MEMORY;
    }
    return QKV_OK;
}

/* CCT's tokens are pixels behind its convolutions; it has no class token. */
static qkv_status prepare_image_classes(qkv__looking *l)
{
    const qkv_vit_config *c = qkv_model_config(l->p->model);
    size_t leads = qkv_vit_leads(l->p->model);
    bool cct = leads == 0;
    size_t side = qkv__image_format_of(l->p->model)->height;
    for (size_t i = 0; cct && i < c->convolutions; i++)
        side = (side + 1) / 2;
    qkv_status status = qkv__look_read_image(l, leads, cct ? side : side / c->trunk.patch);
    return status ? status : name_leads(l, &c->trunk);
}

static bool look_take_classes(void *user, const qkv_image_labels *found)
{
    qkv__looking *l = user;
    if (found->error)
        return true;
    return !qkv__look_classes(l, found->probabilities, found->classes);
}

static qkv_status run_image_classes(qkv__looking *l)
{
    qkv_status status = qkv_pipeline_classify_images(l->p, &l->in->image, 1, look_take_classes, l);
    return status || l->out->class_count ? status : QKV_E_MEMORY;
}

const qkv__look_kind qkv__look_image_classes = {
    .can = QKV_CAN_CLASSIFY_IMAGES, .attentions = {{"layer", "attn", 0, 0, false}},
    .prepare = prepare_image_classes, .run = run_image_classes, .panels = qkv__look_patch_panels,
    .patch = &qkv__patch_image_classes};

/* ---- masked autoencoders --------------------------------------------------------------------- */

/* The encoder reads visible patches in the order of the masks, the decoder all in their places. */
static qkv_status prepare_masked(qkv__looking *l)
{
    const qkv_mae_config *c = qkv_model_config(l->p->model);
    size_t side = c->trunk.image / c->trunk.patch, patches = side * side;
    int32_t *order = qkv_calloc(l->p->ctx, patches, sizeof *order);
    if (!order)
        return QKV_E_MEMORY;
    qkv_mae_shuffle(order, patches, l->o.seed, 0);
    qkv_status status = has_image(l) ? QKV_OK : no_image(l);
    if (!status)
        status = qkv__look_patches(l, 0, "visible patches", 1, side, side, order,
                                   qkv_mae_kept(patches, l->o.mask));
    qkv_free(l->p->ctx, order);
    return status ? status : look_grid(l, 1, "patches", 1, side);
}

static qkv_status run_masked(qkv__looking *l)
{
    qkv_pipeline_reconstruct_options o = qkv_pipeline_reconstruct_defaults();
    qkv_reconstruction found;
    o.mask = l->o.mask;
    o.seed = l->o.seed;
    qkv_status status = qkv_pipeline_reconstruct(l->p, &l->in->image, &o, &found);
    if (!status)
        status = qkv__look_add_image(l, "input", &found.image);
    if (!status)
        status = qkv__look_add_image(l, "hidden", &found.hidden);
    if (!status)
        status = qkv__look_add_image(l, "filled in", &found.filled);
    qkv_reconstruction_free(&found);
    return status;
}

const qkv__look_kind qkv__look_masked = {
    .can = QKV_CAN_RECONSTRUCT,
    .attentions = {{"layer", "attn", 0, 0, false}, {"decoder.layer", "attn", 1, 1, false}},
    .prepare = prepare_masked, .run = run_masked, .panels = panels_masked,
    .patch = &qkv__patch_masked};

/* ---- outputs for every pixel ----------------------------------------------------------------- */

static qkv_status prepare_pixels(qkv__looking *l)
{
    const qkv_patches_config *c =
        &((const qkv_pixelwise_config *)qkv_model_config(l->p->model))->trunk;
    return look_grid(l, 0, "patches", 0, c->image / c->patch);
}

static qkv_status add_source(qkv__looking *l)
{
    qkv_image image;
    qkv_status status = qkv__image_load(&image, l->p->ctx, &l->in->image);
    if (!status)
        status = qkv__look_add_image(l, "input", &image);
    qkv_image_free(&image, l->p->ctx);
    return status;
}

static qkv_status run_segmenter(qkv__looking *l)
{
    qkv_segmentation found;
    qkv_status status = add_source(l);
    if (status)
        return status;
    status = qkv_pipeline_segment(l->p, &l->in->image, NULL, &found);
    if (!status)
        status = qkv__look_add_image(l, "classes", &found.image);
    qkv_segmentation_free(&found);
    return status;
}

static qkv_status run_colorizer(qkv__looking *l)
{
    qkv_pipeline_colorize_options o = qkv_pipeline_colorize_defaults();
    qkv_colorization found;
    qkv_status status = add_source(l);
    if (status)
        return status;
    o.hints = l->o.hints;
    status = qkv_pipeline_colorize(l->p, &l->in->image, &o, &found);
    if (!status)
        status = qkv__look_add_image(l, "colours", &found.image);
    qkv_colorization_free(&found);
    return status;
}

const qkv__look_kind qkv__look_segmenter = {
    .can = QKV_CAN_SEGMENT, .attentions = {{"layer", "attn", 0, 0, false}},
    .prepare = prepare_pixels, .run = run_segmenter, .panels = panels_segmenter,
    .patch = &qkv__patch_segmenter};
const qkv__look_kind qkv__look_colorizer = {
    .can = QKV_CAN_COLORIZE, .attentions = {{"layer", "attn", 0, 0, false}},
    .prepare = prepare_pixels, .run = run_colorizer, .panels = panels_colorizer,
    .patch = &qkv__patch_colorizer};
