/* reconstruct.c - an image, what a model sees of it, what it makes of that. */
#include "pipeline/image.h"

#include "pipeline/options.h"
#include "qkv/reconstruct.h"

#define FIELD(member) .offset = offsetof(qkv_pipeline_reconstruct_options, member)
static const qkv_option rows[] = {
    {.key = "mask", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW | QKV_OPT_HIDDEN, .max = 1,
     FIELD(mask), .initial = "0.75", .help = "share hidden"},
    {.key = "seed", .type = QKV_OPT_U64, .flags = QKV_OPT_HIDDEN, FIELD(seed), .initial = "0",
     .help = "says which patches are hidden"},
    {.flag = "paste", .key = "paste", .type = QKV_OPT_BOOL, FIELD(paste),
     .help = "show visible patches as they are, not as the model has them"},
};
QKV__OPTIONS(qkv_pipeline_reconstruct, "Filling in")

qkv_status qkv_pipeline_reconstruct(qkv_pipeline *p, const qkv_image_source *in,
                                    const qkv_pipeline_reconstruct_options *options,
                                    qkv_reconstruction *out)
{
    const qkv_pipeline_reconstruct_options o =
        options ? *options : qkv_pipeline_reconstruct_defaults();
    *out = (qkv_reconstruction){.ctx = p->ctx};
    if (!qkv_model_can(p->model, QKV_CAN_RECONSTRUCT))
        return qkv__pipeline_refuse(p, "fill in hidden patches");
    if (!(o.mask >= 0 && o.mask < 1))
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "mask: a share in [0, 1) expected, found %g",
                        o.mask);
    const qkv_patches_config *c = &((const qkv_mae_config *)qkv_model_config(p->model))->trunk;
    qkv_image *const made[] = {&out->hidden, &out->filled};
    qkv_status status = qkv__image_fit(&out->image, p->ctx, in, c->image, c->image,
                                       c->channels);
    for (int i = 0; i < 2 && !status; i++)
        status = qkv_image_create(made[i], p->ctx, c->image, c->image, c->channels);
    if (!status)
        status = qkv_reconstruct(p->model, p->tape, out->image.data, o.mask, o.seed, o.paste,
                                 out->hidden.data, out->filled.data);
    if (status)
        qkv_reconstruction_free(out);
    return status;
}

void qkv_reconstruction_free(qkv_reconstruction *r)
{
    qkv_image *const images[] = {&r->image, &r->hidden, &r->filled};
    for (int i = 0; i < 3 && r->ctx; i++)
        qkv_image_free(images[i], r->ctx);
    *r = (qkv_reconstruction){0};
}
