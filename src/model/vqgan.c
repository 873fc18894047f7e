/* vqgan.c - VQGAN: encoder, table of codes, decoder and discriminator put together. */
#include "model/tables.h"
#include "qkv/vqgan.h"

#include <math.h>
#include <string.h>

#include "model/discriminator.h"
#include "model/vqgan_tower.h"
#include "tensor/make.h"

enum { GROUPS = 32 };                    /* of channels, in every norm */
enum { WINDOW = 9, DISC_WINDOW = 16 }; /* pixels of 3 x 3, of 4 x 4 */

typedef struct {
    qkv_model *base;
    const qkv_vqgan_config *c; /* base->config */
    qkv__tower encoder, decoder;
    qkv__conv before, after; /* the codes: quant_conv, post_quant_conv */
    qkv_param *table;        /* (codes, code width) */
    qkv_param *usage;        /* (codes), frozen, in no file but a run's state */
    qkv__discriminator discriminator;
} vqgan;

static size_t levels(const vqgan *m) { return m->c->multiples.count; }
static size_t vqgan_factor(const vqgan *m) { return (size_t)1 << (levels(m) - 1); }

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status vqgan_check(const vqgan *m)
{
    const qkv_vqgan_config *c = m->c;
    qkv_context *ctx = m->base->ctx;
    const char *name = m->base->type->name;
    if (!c->multiples.count)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: ch_mult: one level at least expected", name);
    if (c->channels % GROUPS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: ch: a multiple of %d expected, found %zu", name,
                        GROUPS, c->channels);
    if (c->colors != 1 && c->colors != 3)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: in_channels: 1 or 3 expected, found %zu", name,
                        c->colors);
    if (c->blocks + 1 > QKV__TOWER_BLOCKS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: num_res_blocks: at most %d expected, found %zu",
                        name, QKV__TOWER_BLOCKS - 1, c->blocks);
    if (c->image % ((size_t)1 << (c->multiples.count - 1)))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: resolution %zu cannot be halved %zu times", name,
                        c->image, c->multiples.count - 1);
    if (c->disc_layers > QKV__DISCRIMINATOR_LAYERS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: disc_num_layers: at most %d expected, found "
                        "%zu", name, QKV__DISCRIMINATOR_LAYERS, c->disc_layers);
    return QKV_OK;
}

static qkv_status vqgan_make(qkv_model *base)
{
    vqgan *m = base->self;
    m->base = base;
    qkv_params *ps = base->params;
    const qkv_vqgan_config *c = m->c = base->config;
    qkv_status status = vqgan_check(m);
    if (status)
        return status;
    m->table = qkv__matrix(ps, "quantize.embedding.weight", c->codes, c->code_width);
    m->usage = qkv__vector(ps, "quantize.usage", c->codes);
    if (m->usage)
        qkv_param_freeze(m->usage, true);
    uint32_t blocks = 0;
    bool fine = m->table && m->usage &&
                qkv__tower_make(&m->encoder, ps, c, "encoder", false, &blocks) &&
                qkv__tower_make(&m->decoder, ps, c, "decoder", true, &blocks) &&
                qkv__conv_make(&m->before, ps, "quant_conv", c->z_channels, c->code_width, 1,
                               true) &&
                qkv__conv_make(&m->after, ps, "post_quant_conv", c->code_width, c->z_channels, 1,
                               true) &&
                qkv__discriminator_make(&m->discriminator, ps, c);
    return fine ? qkv__params_status(ps) : qkv_context_status(base->ctx);
}

/* In the windows of blocks, in and out of the halves, and in the discriminator's second layer: all
 * that a field alone makes large. */
static double vqgan_parameter_count(const qkv_model_type *type, const void *config)
{
    const qkv_vqgan_config *c = config;
    double n = (double)c->channels, discriminator = (double)c->disc_channels;
    double sum = (double)c->codes * (double)c->code_width;
    (void)type;
    for (size_t i = 0; i < c->multiples.count; i++) {
        n = (double)c->channels * (double)c->multiples.item[i];
        sum += (double)c->blocks * 4 * WINDOW * n * n / (i ? 1 : 2);
    }
    sum += 2 * (double)c->z_channels * (WINDOW * n + (double)c->code_width);
    sum += 2 * (double)c->colors * WINDOW * (double)c->channels;
    return sum + (c->disc_layers ? 2 * DISC_WINDOW * discriminator * discriminator : 0);
}

/* ---- rows --------------------------------------------------------------------------------- */

static qkv_status vqgan_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    vqgan *m = base->self;
    qkv__visit v = {.fn = fn, .user = user};
    qkv_state_entry table = {.kind = QKV_STATE_PARAM, .param = m->table, .ndim = 2,
                             .shape = {m->c->codes, m->c->code_width}, .perm = {0, 1},
                             .init = QKV_INIT_UNIFORM, .scale = 1 / (double)m->c->codes};
    qkv__tower_visit(&m->encoder, &v);
    qkv__tower_visit(&m->decoder, &v);
    qkv__visit_entry(&v, &table, "quantize.embedding.weight");
    qkv__visit_conv(&v, "quant_conv", &m->before, 0);
    qkv__visit_conv(&v, "post_quant_conv", &m->after, 0);
    qkv__discriminator_visit(&m->discriminator, &v);
    return v.status;
}

/* ---- public ------------------------------------------------------------------------------- */

size_t qkv_vqgan_factor(const qkv_model *base)
{
    const vqgan *m = qkv__model_as(base, NULL, __func__, QKV_CAN_ENCODE_IMAGES);
    return m ? vqgan_factor(m) : 0;
}

static bool images_fit(const vqgan *m, qkv_tape *t, const qkv_tensor *x)
{
    size_t f = vqgan_factor(m);
    if (!x || qkv_tape_status(t))
        return false;
    if (qkv_ndim(x) == 4 && qkv_dim(x, 3) == m->c->colors && qkv_dim(x, 1) % f == 0 &&
        qkv_dim(x, 2) % f == 0)
        return true;
    qkv__op_fail(t, "vqgan", "images %s: sides that are multiples of %zu and %zu channels "
                 "expected", qkv__shape_text(t, x), f, m->c->colors);
    return false;
}

qkv_tensor *qkv_vqgan_encode(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    vqgan *m = qkv__model_as(base, t, __func__, QKV_CAN_ENCODE_IMAGES);
    if (!m || !images_fit(m, t, pixels))
        return NULL;
    pixels = qkv_probe(t, "pixels", pixels);
    return qkv__conv_forward(&m->before, t, qkv__tower_forward(&m->encoder, t, pixels), NULL);
}

qkv_tensor *qkv_vqgan_codes(qkv_model *base, qkv_tape *t, qkv_tensor *z)
{
    vqgan *m = qkv__model_as(base, t, __func__, QKV_CAN_ENCODE_IMAGES);
    return m ? qkv_vector_quantize(t, z, qkv_use(t, m->table)) : NULL;
}

qkv_tensor *qkv_vqgan_vectors(qkv_model *base, qkv_tape *t, qkv_tensor *codes)
{
    vqgan *m = qkv__model_as(base, t, __func__, QKV_CAN_ENCODE_IMAGES);
    return m ? qkv_embedding(t, codes, qkv_use(t, m->table), 1, NULL, NULL) : NULL;
}

qkv_tensor *qkv_vqgan_decode(qkv_model *base, qkv_tape *t, qkv_tensor *vectors)
{
    vqgan *m = qkv__model_as(base, t, __func__, QKV_CAN_ENCODE_IMAGES);
    return m ? qkv__tower_forward(&m->decoder, t, qkv__conv_forward(&m->after, t, vectors, NULL))
             : NULL;
}

qkv_tensor *qkv_vqgan_discriminate(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const vqgan *m = qkv__model_as(base, t, __func__, QKV_CAN_ENCODE_IMAGES);
    if (m && !m->discriminator.layers)
        return qkv__op_fail(t, "discriminator",
                            "a model without a discriminator (disc_num_layers 0)");
    return m ? qkv__discriminator_forward(&m->discriminator, t, pixels) : NULL;
}

qkv_param *qkv_vqgan_last(qkv_model *base)
{
    const vqgan *m = qkv__model_as(base, NULL, __func__, QKV_CAN_ENCODE_IMAGES);
    return m ? m->decoder.out.weight : NULL;
}

qkv_param *qkv_vqgan_usage(qkv_model *base)
{
    const vqgan *m = qkv__model_as(base, NULL, __func__, QKV_CAN_ENCODE_IMAGES);
    return m ? m->usage : NULL;
}

qkv_param *qkv_vqgan_codebook(qkv_model *base)
{
    const vqgan *m = qkv__model_as(base, NULL, __func__, QKV_CAN_ENCODE_IMAGES);
    return m ? m->table : NULL;
}

bool qkv_vqgan_is_discriminator(const qkv_param *p)
{
    return strncmp(qkv_param_name(p), qkv__discriminator_prefix,
                   strlen(qkv__discriminator_prefix)) == 0;
}

/* ---- FLOPs -------------------------------------------------------------------------------- */

static double decoder_flops(const vqgan *m, double images, double codes, int passes)
{
    return qkv__conv_flops(&m->after, images * codes, passes) +
           qkv__tower_flops(&m->decoder, images, codes * pow(4, (double)(levels(m) - 1)), passes);
}

static double model_vqgan_flops(const qkv_model *base, const qkv_workload *w)
{
    const vqgan *m = base->self;
    size_t shrink = w->part == QKV_PART_DECODER ? vqgan_factor(m) : 1;
    size_t height = w->height ? w->height : m->c->image / shrink;
    size_t width = w->width ? w->width : m->c->image / shrink;
    double B = w->samples, places = (double)height * (double)width;
    int passes = qkv__passes(w->pass);
    if (w->part == QKV_PART_DECODER)
        return decoder_flops(m, B, places, passes);
    if (w->part == QKV_PART_DISCRIMINATOR)
        return qkv__discriminator_flops(&m->discriminator, B, height, width, passes);
    double codes = places / pow(4, (double)(levels(m) - 1));
    return qkv__tower_flops(&m->encoder, B, places, passes) +
           qkv__conv_flops(&m->before, B * codes, passes) +
           2 * B * codes * (double)(m->c->codes * m->c->code_width) +
           decoder_flops(m, B, codes, passes);
}

static const qkv_builtin_type builtin = {.can = QKV_CAN_ENCODE_IMAGES};

static const qkv_model_type vqgan_type = {
    .name = "qkv_vqgan", .architecture = "VQModel", .config = &qkv__vqgan_config,
    .config_size = sizeof(qkv_vqgan_config), .self_size = sizeof(vqgan),
    .parameter_count = vqgan_parameter_count,
    .make = vqgan_make, .visit = vqgan_visit, .flops = model_vqgan_flops,
    .preset = qkv__vqgan_preset, .builtin = &builtin};

const qkv_model_type *qkv_vqgan_type(void) { return &vqgan_type; }
