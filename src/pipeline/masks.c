/* masks.c - images with their masks, and a model's classes as colours. */
#include "pipeline/masks.h"

#include "qkv/pixelwise.h"

qkv_status qkv__masks_load(qkv__image_set *out, qkv_context *ctx, const char *images,
                           const char *masks, const qkv_mask_palette *palette, size_t side)
{
    qkv_image_list *files = NULL, *of_classes = NULL;
    qkv__reading r;
    *out = (qkv__image_set){0};
    qkv_status status = qkv_image_list_open(&files, ctx, images);
    if (!status)
        status = qkv_image_list_open(&of_classes, ctx, masks);
    if (!status) {
        qkv__reading_begin(&r, ctx, files);
        status = qkv_masks_read(&out->images, &out->classes, ctx, files, of_classes,
                                palette, side, qkv__reading_event, &r);
    }
    if (!status)
        qkv__reading_end(&r, images);
    qkv_image_list_close(files);
    qkv_image_list_close(of_classes);
    return status;
}

qkv_status qkv__masks_palette(qkv_mask_palette *out, qkv_context *ctx, const char *path)
{
    qkv_image_list *masks = NULL;
    qkv_status status = qkv_image_list_open(&masks, ctx, path);
    if (!status)
        status = qkv_mask_palette_read(out, ctx, masks);
    qkv_image_list_close(masks);
    return status;
}

qkv_status qkv__masks_of_model(qkv_mask_palette *out, const qkv_model *m)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_pixelwise_config *c = qkv_model_config(m);
    *out = (qkv_mask_palette){0};
    if (c->outputs > QKV_MASK_CLASSES || qkv_model_label_count(m) != c->outputs)
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "the model's %zu classes have %zu names; so many, "
                        "at most %d, expected", c->outputs, qkv_model_label_count(m),
                        (int)QKV_MASK_CLASSES);
    for (size_t i = 0; i < c->outputs; i++) {
        const char *name = qkv_model_label(m, i);
        if (!qkv_mask_color(name, &out->color[i]) ||
            (i && out->color[i] <= out->color[i - 1]))
            return qkv_fail(ctx, QKV_E_UNSUPPORTED, "the model's class \"%.40s\" is no colour in "
                            "rising order, as #rrggbb or 0 to 255", name);
    }
    out->count = c->outputs;
    return QKV_OK;
}

qkv_status qkv__masks_label(qkv_model *m, const qkv_mask_palette *palette)
{
    char text[QKV_MASK_CLASSES][QKV_MASK_NAME];
    const char *names[QKV_MASK_CLASSES];
    for (size_t i = 0; i < palette->count; i++) {
        qkv_mask_name(text[i], palette->color[i]);
        names[i] = text[i];
    }
    return qkv_model_set_labels(m, names, palette->count);
}
