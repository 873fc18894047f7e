/* taming.c - models out of files with taming-transformers' names, which are those that they have
 * here too: VQGAN, the prior on its codes, and the network of LPIPS, also as VGG16's own file and
 * the weights of the distance apart. Their configuration is derived from shapes. */
#include <stdio.h>
#include <string.h>

#include "hub/import_source.h"
#include "qkv/gpt.h"
#include "qkv/perceptual.h"
#include "qkv/vqgan.h"

enum { SIDE = 256, HEAD_WIDTH = 64, BILINEAR = 2, STAGES = 5, NAME = 96 };

/* ---- numbers ------------------------------------------------------------------------------ */

typedef struct {
    const qkv__import_source *f;
    const qkv__import_source *distance; /* the file with the distance's weights; NULL: f */
    bool trunk;                   /* f is VGG16's own: "features.0" for "net.slice1.0" */
    bool *used;                   /* one per tensor of f */
} loader;

/* What the file calls the row, in `out`; *in: the file that has it. */
static void name_row(const loader *l, const qkv_state_entry *row, char out[2 * QKV__IMPORT_NAME],
                     const qkv__import_source **in)
{
    static const char slice[] = "net.slice1."; /* the digit varies */
    const char *name = row->name, *stem = "";
    bool net = strncmp(name, "net.", 4) == 0;
    *in = l->distance && !net ? l->distance : l->f;
    if (l->trunk && net) {
        stem = "features.";
        name += sizeof slice - 1;
    }
    snprintf(out, 2 * QKV__IMPORT_NAME, "%s%s%s", (*in)->under, stem, name);
}

static qkv_status taming_load_row(void *user, const qkv_state_entry *row)
{
    loader *l = user;
    char name[2 * QKV__IMPORT_NAME];
    const qkv__import_source *in;
    name_row(l, row, name, &in);
    const qkv_safetensor *t = qkv_safetensors_find(in->tensors, name);
    if (t && in == l->f)
        l->used[t - qkv_safetensors_at(in->tensors, 0)] = true;
    if (row->kind == QKV_STATE_TIED || row->kind == QKV_STATE_IGNORED)
        return QKV_OK;
    return qkv__hub_read_row(row, in->ctx, in->tensors, name);
}

/* Names that begin with one of `parts` (NULL at the end) are the model's, and it must have had a
 * use for each; others are left out. */
static qkv_status taming_check_used(const loader *l, const qkv_model *m, const char *const *parts,
                                    size_t *left_out)
{
    const qkv__import_source *f = l->f;
    size_t n = strlen(f->under), count = 0;
    for (size_t i = 0; i < qkv_safetensors_count(f->tensors); i++) {
        const qkv_safetensor *t = qkv_safetensors_at(f->tensors, i);
        bool under = strncmp(t->name, f->under, n) == 0;
        if (l->used[i])
            continue;
        for (size_t k = 0; under && parts[k]; k++)
            if (strncmp(t->name + n, parts[k], strlen(parts[k])) == 0)
                return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: tensor %s has no place in this %s "
                                "model", t->file, t->name,
                                qkv_model_type_name(qkv_model_type_of(m)));
        count++;
    }
    if (left_out)
        *left_out = count;
    return QKV_OK;
}

/* Makes the model of that configuration and fills it. */
static qkv_status taming_load(qkv_model **out, loader *l, const qkv_model_type *type,
                              const void *config, const char *const *parts, size_t *left_out)
{
    const qkv__import_source *f = l->f;
    qkv_status status = qkv__import_make(out, f, type, config);
    if (status)
        return status;
    l->used = qkv_calloc(f->ctx, qkv_safetensors_count(f->tensors) + 1, sizeof *l->used);
    status = l->used ? qkv_model_visit(*out, taming_load_row, l) : QKV_E_MEMORY;
    if (!status)
        status = taming_check_used(l, *out, parts, left_out);
    qkv_free(f->ctx, l->used);
    return status;
}

/* ---- VQGAN -------------------------------------------------------------------------------- */

/* Codes by other numbers than their rows', or by none. */
static qkv_status refuse_quantiser(const qkv__import_source *f)
{
    if (qkv__import_tensor(f, "quantize.proj.weight"))
        return qkv_fail(f->ctx, QKV_E_UNSUPPORTED, "%s: a Gumbel quantiser (%squantize.proj."
                        "weight); one of nearest codes expected", f->path, f->under);
    if (qkv__import_tensor(f, "quantize.used"))
        return qkv_fail(f->ctx, QKV_E_UNSUPPORTED, "%s: a remapped codebook (%squantize.used); "
                        "one without other numbers for its codes expected", f->path, f->under);
    return QKV_OK;
}

/* Levels, what each multiplies the channels by, and whether its blocks attend. */
static qkv_status derive_levels(const qkv__import_source *f, qkv_vqgan_config *c)
{
    size_t levels = qkv__import_count(f, "encoder.down", 0, 1, "block.0.norm1.weight"), out = 0;
    if (!levels || levels > QKV_SIZES)
        return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: %zu levels in %sencoder.down; 1 to %d "
                        "expected", f->path, levels, f->under, QKV_SIZES);
    c->multiples = (qkv_sizes){.count = levels};
    c->attention = (qkv_sizes){0};
    for (size_t i = 0; i < levels; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "encoder.down.%zu.block.0.conv1.weight", i);
        qkv_status status = qkv__import_size(f, name, 4, 0, &out);
        if (!status && out % c->channels)
            status = qkv_fail(f->ctx, QKV_E_FORMAT, "%s: tensor \"%s%s\": a multiple of %zu "
                              "channels expected, found %zu", f->path, f->under, name,
                              c->channels, out);
        if (status)
            return status;
        c->multiples.item[i] = out / c->channels;
        snprintf(name, sizeof name, "encoder.down.%zu.attn.0.norm.weight", i);
        if (qkv__import_tensor(f, name))
            c->attention.item[c->attention.count++] = c->image >> i;
    }
    c->blocks = qkv__import_count(f, "encoder.down.0.block", 0, 1, "norm1.weight");
    return QKV_OK;
}

/* Its convolutions stand at 0, 2, 5, 8, ..; the last but one keeps the image's size. */
static qkv_status derive_discriminator(const qkv__import_source *f, qkv_vqgan_config *c)
{
    static const char stem[] = "loss.discriminator.main";
    size_t behind = qkv__import_count(f, stem, 2, 3, "weight");
    c->disc_layers = 0;
    if (!qkv__import_tensor(f, "loss.discriminator.main.0.weight"))
        return QKV_OK;
    if (behind < 2)
        return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: %zu convolutions in %s%s; 3 at least expected",
                        f->path, behind + 1, f->under, stem);
    c->disc_layers = behind - 1;
    return qkv__import_size(f, "loss.discriminator.main.0.weight", 4, 0, &c->disc_channels);
}

static qkv_status derive_vqgan(const qkv__import_source *f, const qkv_hub_import_options *o,
                               qkv_vqgan_config *c)
{
    qkv_option_defaults(qkv_model_type_config(qkv_vqgan_type()), c);
    c->image = o->side ? o->side : SIDE;
    qkv_status status = qkv__import_size(f, "encoder.conv_in.weight", 4, 0, &c->channels);
    if (!status)
        status = qkv__import_size(f, "encoder.conv_in.weight", 4, 1, &c->colors);
    if (!status)
        status = qkv__import_size(f, "encoder.conv_out.weight", 4, 0, &c->z_channels);
    if (!status)
        status = qkv__import_size(f, "quantize.embedding.weight", 2, 0, &c->codes);
    if (!status)
        status = qkv__import_size(f, "quantize.embedding.weight", 2, 1, &c->code_width);
    if (!status)
        status = derive_levels(f, c);
    return status ? status : derive_discriminator(f, c);
}

static qkv_status import_vqgan(qkv_model **out, qkv__import_source *f,
                               const qkv_hub_import_options *o)
{
    static const char *const parts[] = {"encoder.", "decoder.", "quantize.", "quant_conv.",
                                        "post_quant_conv.", "loss.discriminator.", NULL};
    loader l = {.f = f};
    qkv_vqgan_config c;
    qkv_status status = refuse_quantiser(f);
    if (!status)
        status = derive_vqgan(f, o, &c);
    if (!status)
        status = taming_load(out, &l, qkv_vqgan_type(), &c, parts, o->left_out);
    if (status)
        return status;
    qkv_image_format p = {.height = c.image, .width = c.image, .channels = c.colors,
                          .crop = true, .resample = BILINEAR, .mean = {0.5, 0.5, 0.5},
                          .std = {0.5, 0.5, 0.5}};
    qkv_model_set_image_format(*out, &p);
    return QKV_OK;
}

/* ---- the prior ---------------------------------------------------------------------------- */

/* Its masks are no part of the model, which always looks back alone. */
static qkv_status check_mask(const qkv__import_source *f)
{
    const qkv_safetensor *t = qkv__import_tensor(f, "transformer.blocks.0.attn.mask");
    qkv_real ahead = 0;
    if (!t || t->count < 2)
        return QKV_OK;
    qkv_status status = qkv_safetensors_read(f->tensors, t, 1, 1, &ahead);
    if (!status && ahead != 0)
        status = qkv_fail(f->ctx, QKV_E_UNSUPPORTED, "%s: tensor %s: codes attend to later ones "
                          "(n_unmasked); a causal model expected", f->path, t->name);
    return status;
}

/* The grid of codes, and what stands before it: positions of both, but for the last code. */
static void derive_grid(const qkv_hub_import_options *o, qkv_gpt_config *c)
{
    size_t side = 1, half = 1;
    while ((side + 1) * (side + 1) <= c->positions)
        side++;
    while (2 * (half + 1) * (half + 1) <= c->positions)
        half++;
    c->before = o->before ? o->before : 2 * half * half == c->positions ? half * half : 1;
    size_t codes = c->positions >= c->before ? c->positions + 1 - c->before : 1;
    while (side * side > codes)
        side--;
    c->rows = c->columns = side;
}

static qkv_status import_prior(qkv_model **out, qkv__import_source *f,
                               const qkv_hub_import_options *o)
{
    static const char *const parts[] = {"transformer.", NULL};
    loader l = {.f = f};
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &c);
    c.layers = qkv__import_count(f, "transformer.blocks", 0, 1, "ln1.weight");
    qkv_status status = check_mask(f);
    if (!status)
        status = qkv__import_size(f, "transformer.tok_emb.weight", 2, 0, &c.vocab);
    if (!status)
        status = qkv__import_size(f, "transformer.tok_emb.weight", 2, 1, &c.width);
    if (!status)
        status = qkv__import_size(f, "transformer.pos_emb", 3, 1, &c.positions);
    if (!status)
        status = qkv__import_heads(f, c.width, HEAD_WIDTH, "num_attention_heads", o->heads,
                                   &c.heads);
    if (status)
        return status;
    derive_grid(o, &c);
    return taming_load(out, &l, qkv_prior_type(), &c, parts, o->left_out);
}

/* ---- LPIPS -------------------------------------------------------------------------------- */

/* VGG16's stages, of any widths: how many convolutions, and where the first stands in the file. */
static const size_t convolutions[STAGES] = {2, 2, 3, 3, 3}, places[STAGES] = {0, 5, 10, 17, 24};

static qkv_status import_perceptual(qkv_model **out, loader *l, const qkv_hub_import_options *o)
{
    static const char *const nets[] = {"net.", NULL}, *const trunks[] = {"features.", NULL};
    qkv_perceptual_config c;
    qkv_status status = QKV_OK;
    qkv_option_defaults(qkv_model_type_config(qkv_perceptual_type()), &c);
    c.answers = 0;
    c.channels.count = c.convolutions.count = STAGES;
    for (size_t s = 0; s < STAGES && !status; s++) {
        char name[NAME];
        if (l->trunk)
            snprintf(name, sizeof name, "features.%zu.weight", places[s]);
        else
            snprintf(name, sizeof name, "net.slice%zu.%zu.weight", s + 1, places[s]);
        c.convolutions.item[s] = convolutions[s];
        status = qkv__import_size(l->f, name, 4, 0, &c.channels.item[s]);
    }
    return status ? status : taming_load(out, l, qkv_perceptual_type(), &c, l->trunk ? trunks
                                         : nets, o->left_out);
}

/* With the weights of the distance in a file of their own. */
static qkv_status import_trunk(qkv_model **out, qkv__import_source *f, bool trunk,
                               const qkv_hub_import_options *o)
{
    qkv__import_source distance = {.ctx = f->ctx, .path = o->distance};
    const qkv_hub_import_options plain = {.skip_objects = o->skip_objects};
    bool found = false;
    qkv_status status = qkv__import_open(&distance, &plain);
    if (!status)
        status = qkv__import_find(&distance, "lin0.model.1.weight", "lin4.model.1.weight", NULL,
                                  NULL, &found);
    if (!status && !found)
        status = qkv_fail(f->ctx, QKV_E_FORMAT, "%s: the weights of LPIPS' distance expected "
                          "(lin0.model.1.weight), found other names", o->distance);
    loader l = {.f = f, .distance = &distance, .trunk = trunk};
    if (!status)
        status = import_perceptual(out, &l, o);
    qkv__import_close(&distance);
    return status;
}

/* ---- which it is ---------------------------------------------------------------------------- */

/* VGG16 whose distance is in another file, by either library's names. */
static qkv_status find_trunk(qkv_model **out, qkv__import_source *f,
                             const qkv_hub_import_options *o)
{
    bool found = false, trunk = true;
    qkv_status status = qkv__import_find(f, "features.0.weight", "features.17.weight",
                                         o->under, NULL, &found);
    if (!status && !found) {
        trunk = false;
        status = qkv__import_find(f, "net.slice1.0.weight", "net.slice4.17.weight",
                                  o->under, NULL, &found);
    }
    if (!status && !found)
        status = qkv_fail(f->ctx, QKV_E_FORMAT, "%s: the names of VGG16 (features.0.weight) "
                          "expected, found others", f->path);
    return status ? status : import_trunk(out, f, trunk, o);
}

static qkv_status import_lpips(qkv_model **out, qkv__import_source *f,
                               const qkv_hub_import_options *o)
{
    loader l = {.f = f};
    return import_perceptual(out, &l, o);
}

typedef struct {
    const char *end, *beside; /* tensors that such a model has */
    qkv_status (*import)(qkv_model **out, qkv__import_source *f, const qkv_hub_import_options *o);
} family;

qkv_status qkv__taming_import(qkv_model **out, qkv__import_source *f,
                              const qkv_hub_import_options *o)
{
    static const family families[] = {
        {"transformer.tok_emb.weight", "transformer.pos_emb", import_prior},
        {"encoder.conv_in.weight", "quantize.embedding.weight", import_vqgan},
        {"encoder.conv_in.weight", "quantize.proj.weight", import_vqgan},
        {"net.slice1.0.weight", "lin0.model.1.weight", import_lpips},
    };
    bool found = false;
    qkv_status status = QKV_OK;
    if (o->distance)
        return find_trunk(out, f, o);
    for (size_t i = o->part != NULL; i < sizeof families / sizeof *families; i++) {
        status = qkv__import_find(f, families[i].end, families[i].beside, o->under, o->part,
                                  &found);
        if (status || found)
            return status ? status : families[i].import(out, f, o);
    }
    return QKV_OK;
}
