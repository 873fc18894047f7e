/* import.c - models out of files with other libraries' names, and into them. Such a file has no
 * configuration: it is derived from shapes, as far as they tell. Here are files of timm and of
 * facebookresearch/mae; taming.c has the others. */
#include "hub/import_source.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "model/model.h"
#include "qkv/gpt.h"
#include "qkv/mae.h"
#include "qkv/vqgan.h"

enum { HEAD_WIDTH = 64, DECODER_HEAD_WIDTH = 32, BILINEAR = 2, BICUBIC };
static const double NORM_EPS = 1e-6, INIT_RANGE = 0.02;

/* ---- timm's Vision Transformer, facebookresearch/mae --------------------------------------- */

static qkv_status derive_trunk(const qkv__import_source *f, const qkv_hub_import_options *o,
                               qkv_patches_config *c)
{
    size_t rows = 0, side = 0;
    qkv_status status = qkv__import_size(f, "patch_embed.proj.weight", 4, 0, &c->width);
    if (!status)
        status = qkv__import_size(f, "patch_embed.proj.weight", 4, 1, &c->channels);
    if (!status)
        status = qkv__import_size(f, "patch_embed.proj.weight", 4, 2, &c->patch);
    if (!status)
        status = qkv__import_size(f, "pos_embed", 3, 1, &rows);
    if (!status)
        status = qkv__import_size(f, "blocks.0.mlp.fc1.weight", 2, 0, &c->ff_width);
    if (status)
        return status;
    while ((side + 1) * (side + 1) < rows)
        side++;
    if (side == 0 || side * side + 1 != rows)
        return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: tensor \"%spos_embed\": expected rows for a "
                        "first token and a square of patches, found %zu", f->path, f->under,
                        rows);
    if (!qkv__mul_size(side, c->patch, &c->image))
        return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: patches of %zu pixels", f->path, c->patch);
    c->layers = qkv__import_count(f, "blocks", 0, 1, "norm1.weight");
    c->qkv_bias = qkv__import_tensor(f, "blocks.0.attn.qkv.bias") != NULL;
    c->norm_eps = o->norm_eps > 0 ? o->norm_eps : NORM_EPS;
    c->init_range = INIT_RANGE;
    return qkv__import_heads(f, c->width, HEAD_WIDTH, "num_attention_heads", o->heads, &c->heads);
}

static qkv_status derive_decoder(const qkv__import_source *f, const qkv_hub_import_options *o,
                                 qkv_mae_config *c)
{
    qkv_status status = qkv__import_size(f, "decoder_embed.weight", 2, 0, &c->decoder_width);
    if (!status)
        status = qkv__import_size(f, "decoder_blocks.0.mlp.fc1.weight", 2, 0,
                                  &c->decoder_ff_width);
    if (status)
        return status;
    c->decoder_layers = qkv__import_count(f, "decoder_blocks", 0, 1, "norm1.weight");
    c->norm_pix = o->norm_pix;
    return qkv__import_heads(f, c->decoder_width, DECODER_HEAD_WIDTH,
                             "decoder_num_attention_heads", o->decoder_heads, &c->decoder_heads);
}

/* As many numbers as the image has channels; absent: they stay. */
static qkv_status read_channels(const qkv__json *j, const char *key, double least, size_t count,
                                double *out)
{
    qkv__json list, item;
    if (!qkv__json_has(j, key))
        return QKV_OK;
    qkv_status status = qkv__json_get_array(j, key, &list);
    if (!status && qkv__json_count(&list) != count)
        return qkv__json_fail(j, key, "expected %zu numbers, found %zu", count,
                              qkv__json_count(&list));
    for (size_t i = 0; i < count && !status; i++) {
        qkv__json_item(&list, i, &item);
        status = qkv__json_get_real(&item, NULL, least, 1e6, &out[i]);
    }
    return status;
}

/* timm's own config.json beside the file says how that model wants images. */
static qkv_status read_neighbour(const qkv__import_source *f, const char *path, qkv_image_format *p)
{
    qkv__json root, j;
    const char *filter = "bicubic";
    qkv_status status = qkv__json_load(&root, f->ctx, path);
    if (status)
        return status;
    if (qkv__json_has(&root, "pretrained_cfg")) {
        status = qkv__json_get_object(&root, "pretrained_cfg", &j);
        if (!status)
            status = read_channels(&j, "mean", -1e6, p->channels, p->mean);
        if (!status)
            status = read_channels(&j, "std", 1e-6, p->channels, p->std);
        if (!status)
            status = qkv__json_opt_string(&j, "interpolation", &filter);
        p->resample = !status && strcmp(filter, "bilinear") == 0 ? BILINEAR : BICUBIC;
    }
    qkv__json_free(&root);
    return status;
}

/* What either library does to images, unless a model of it says otherwise. */
static qkv_status set_images(const qkv__import_source *f, qkv_model *m, const qkv_patches_config *c)
{
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    qkv_image_format p = {.height = c->image, .width = c->image, .resample = BICUBIC,
                          .channels = c->channels};
    bool mae = qkv_model_type_of(m) == qkv_mae_type();
    if (c->channels != 1 && c->channels != 3)
        return QKV_OK;
    for (int i = 0; i < 3; i++) {
        p.mean[i] = mae ? mean[i] : 0.5;
        p.std[i] = mae ? std[i] : 0.5;
    }
    const qkv_path path = qkv_path_beside(f->path, "config.json");
    qkv_status status = QKV_OK;
    if (qkv_file_exists(path.text))
        status = read_neighbour(f, path.text, &p);
    if (!status)
        qkv_model_set_image_format(m, &p);
    return status;
}

static qkv_status make_patches(qkv_model **out, const qkv__import_source *f,
                               const qkv_model_type *type, const void *config)
{
    qkv_status status = qkv__import_make(out, f, type, config);
    return status ? status : qkv__hub_read_named(*out, f->tensors, f->under);
}

static qkv_status import_patches(qkv_model **out, const qkv__import_source *f,
                                 const qkv_hub_import_options *o)
{
    bool mae = qkv__import_tensor(f, "decoder_embed.weight") != NULL;
    qkv_vit_config vit;
    qkv_mae_config full;
    qkv_option_defaults(qkv_model_type_config(qkv_vit_type()), &vit);
    qkv_option_defaults(qkv_model_type_config(qkv_mae_type()), &full);
    qkv_patches_config *trunk = mae ? &full.trunk : &vit.trunk;
    qkv_status status = derive_trunk(f, o, trunk);
    if (!status && mae)
        status = derive_decoder(f, o, &full);
    if (!status && !mae && qkv__import_tensor(f, "head.weight"))
        status = qkv__import_size(f, "head.weight", 2, 0, &vit.classes);
    if (!status)
        status = mae ? make_patches(out, f, qkv_mae_type(), &full)
                     : make_patches(out, f, qkv_vit_type(), &vit);
    return status ? status : set_images(f, *out, trunk);
}

/* ---- public --------------------------------------------------------------------------------- */

qkv_status qkv_hub_import(qkv_model **out, qkv_context *ctx, const char *path,
                          const qkv_hub_import_options *options)
{
    qkv_hub_import_options o = options ? *options : (qkv_hub_import_options){0};
    qkv__import_source f = {.ctx = ctx, .path = path};
    bool patches = false;
    *out = NULL;
    qkv_status status = qkv__import_open(&f, &o);
    if (f.pytorch)
        o.under = NULL; /* names are without it already */
    if (!status && !o.distance && !o.part)
        status = qkv__import_find(&f, "patch_embed.proj.weight", "blocks.0.attn.qkv.weight",
                                  o.under, NULL, &patches);
    if (!status)
        status = patches ? import_patches(out, &f, &o) : qkv__taming_import(out, &f, &o);
    qkv__import_close(&f);
    if (status) {
        qkv_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv_hub_export(qkv_model *m, const char *path, const qkv_hub_save_options *options)
{
    const qkv_model_type *const known[] = {qkv_vit_type(), qkv_mae_type(), qkv_vqgan_type(),
                                           qkv_prior_type()};
    qkv_hub_save_options o = options ? *options : qkv_hub_save_defaults();
    const qkv_model_type *type = qkv_model_type_of(m);
    if ((o.vqgan && !qkv__model_as(o.vqgan, NULL, __func__, QKV_CAN_ENCODE_IMAGES)) ||
        (o.condition && !qkv__model_as(o.condition, NULL, __func__, QKV_CAN_ENCODE_IMAGES)))
        return QKV_E_ARGUMENT;
    if (!o.store)
        o.store = QKV_STORE_F32;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (type == known[i])
            return qkv__hub_write_named(m, path, &o);
    return qkv_fail(qkv_model_context(m), QKV_E_UNSUPPORTED, "other libraries' names are known "
                    "for vit, vit_mae, qkv_vqgan and qkv_prior, not for %s",
                    qkv_model_type_name(type));
}
