/* vqgan.c - VQGAN: encoder, table of codes, decoder and discriminator put together. */
#include "model/vqgan_config.h"

#include <math.h>
#include <string.h>

#include "model/discriminator.h"
#include "model/vqgan_half.h"
#include "tensor/make.h"

enum { GROUPS = 32 };                    /* of channels, in every norm */
enum { WINDOW = 9, JUDGE_WINDOW = 16 }; /* pixels of 3 x 3, of 4 x 4 */

typedef struct {
    qkv_model base;
    const qkv_vqgan_config *c; /* base.config */
    qkv__half encoder, decoder;
    qkv__conv before, after; /* the codes: quant_conv, post_quant_conv */
    qkv_param *table;        /* (codes, code width) */
    qkv_param *usage;        /* (codes), frozen, in no file but a run's state */
    qkv__judge_net judge;
} vqgan;

static size_t levels(const vqgan *m) { return m->c->multiples.count; }

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status check(const vqgan *m)
{
    const qkv_vqgan_config *c = m->c;
    qkv_context *ctx = m->base.ctx;
    const char *name = m->base.type->name;
    if (!c->multiples.count)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: ch_mult: one level at least expected", name);
    if (c->channels % GROUPS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: ch: a multiple of %d expected, found %zu", name,
                        GROUPS, c->channels);
    if (c->colors != 1 && c->colors != 3)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: in_channels: 1 or 3 expected, found %zu", name,
                        c->colors);
    if (c->blocks + 1 > QKV__HALF_BLOCKS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: num_res_blocks: at most %d expected, found %zu",
                        name, QKV__HALF_BLOCKS - 1, c->blocks);
    if (c->image % ((size_t)1 << (c->multiples.count - 1)))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: resolution %zu cannot be halved %zu times", name,
                        c->image, c->multiples.count - 1);
    if (c->judge_layers > QKV__JUDGE_LAYERS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: disc_num_layers: at most %d expected, found "
                        "%zu", name, QKV__JUDGE_LAYERS, c->judge_layers);
    return QKV_OK;
}

static qkv_status make(qkv_model *base)
{
    vqgan *m = (vqgan *)base;
    qkv_params *ps = base->params;
    const qkv_vqgan_config *c = m->c = base->config;
    qkv_status status = check(m);
    if (status)
        return status;
    m->table = qkv__matrix(ps, "quantize.embedding.weight", c->codes, c->code_width);
    m->usage = qkv__vector(ps, "quantize.usage", c->codes);
    if (m->usage)
        qkv_param_freeze(m->usage, true);
    uint32_t blocks = 0;
    bool fine = m->table && m->usage &&
                qkv__half_make(&m->encoder, ps, c, "encoder", false, &blocks) &&
                qkv__half_make(&m->decoder, ps, c, "decoder", true, &blocks) &&
                qkv__conv_make(&m->before, ps, "quant_conv", c->z_channels, c->code_width, 1,
                               true) &&
                qkv__conv_make(&m->after, ps, "post_quant_conv", c->code_width, c->z_channels, 1,
                               true) &&
                qkv__judge_make(&m->judge, ps, c);
    return fine ? qkv__params_status(ps) : qkv_context_status(base->ctx);
}

/* In the windows of blocks, in and out of the halves, and in the discriminator's second layer: all
 * that a field alone makes large. */
static double numbers(const qkv_model_type *type, const void *config)
{
    const qkv_vqgan_config *c = config;
    double n = (double)c->channels, judge = (double)c->judge_channels;
    double sum = (double)c->codes * (double)c->code_width;
    (void)type;
    for (size_t i = 0; i < c->multiples.count; i++) {
        n = (double)c->channels * (double)c->multiples.item[i];
        sum += (double)c->blocks * 4 * WINDOW * n * n / (i ? 1 : 2);
    }
    sum += 2 * (double)c->z_channels * (WINDOW * n + (double)c->code_width);
    sum += 2 * (double)c->colors * WINDOW * (double)c->channels;
    return sum + (c->judge_layers ? 2 * JUDGE_WINDOW * judge * judge : 0);
}

/* ---- rows --------------------------------------------------------------------------------- */

static qkv_status visit(qkv_model *base, qkv_row_fn *fn, void *user)
{
    vqgan *m = (vqgan *)base;
    qkv__visit v = {.fn = fn, .user = user};
    qkv_row table = {.kind = QKV_ROW_PARAM, .param = m->table, .ndim = 2,
                     .shape = {m->c->codes, m->c->code_width}, .perm = {0, 1},
                     .init = QKV_INIT_UNIFORM, .scale = 1 / (double)m->c->codes};
    qkv__half_visit(&m->encoder, &v);
    qkv__half_visit(&m->decoder, &v);
    qkv__visit_row(&v, &table, "quantize.embedding.weight");
    qkv__visit_conv(&v, "quant_conv", &m->before, 0);
    qkv__visit_conv(&v, "post_quant_conv", &m->after, 0);
    qkv__judge_visit(&m->judge, &v);
    return v.status;
}

/* ---- public ------------------------------------------------------------------------------- */

size_t qkv_vqgan_factor(const qkv_model *base)
{
    return (size_t)1 << (levels((const vqgan *)base) - 1);
}

static bool pictures_fit(const vqgan *m, qkv_tape *t, const qkv_tensor *x)
{
    size_t factor = qkv_vqgan_factor(&m->base);
    if (!x || qkv_tape_status(t))
        return false;
    if (qkv_ndim(x) == 4 && qkv_dim(x, 3) == m->c->colors && qkv_dim(x, 1) % factor == 0 &&
        qkv_dim(x, 2) % factor == 0)
        return true;
    qkv__op_fail(t, "vqgan", "pictures %s: sides that are multiples of %zu and %zu channels "
                 "expected", qkv__shape_text(t, x), factor, m->c->colors);
    return false;
}

qkv_tensor *qkv_vqgan_encode(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    vqgan *m = (vqgan *)base;
    if (!pictures_fit(m, t, pixels))
        return NULL;
    return qkv__conv_forward(&m->before, t, qkv__half_forward(&m->encoder, t, pixels), NULL);
}

qkv_tensor *qkv_vqgan_codes(qkv_model *base, qkv_tape *t, qkv_tensor *z)
{
    return qkv_nearest(t, z, qkv_use(t, ((vqgan *)base)->table));
}

qkv_tensor *qkv_vqgan_vectors(qkv_model *base, qkv_tape *t, qkv_tensor *codes)
{
    return qkv_embedding(t, codes, qkv_use(t, ((vqgan *)base)->table), 1, NULL, NULL);
}

qkv_tensor *qkv_vqgan_decode(qkv_model *base, qkv_tape *t, qkv_tensor *vectors)
{
    vqgan *m = (vqgan *)base;
    return qkv__half_forward(&m->decoder, t, qkv__conv_forward(&m->after, t, vectors, NULL));
}

qkv_tensor *qkv_vqgan_judge(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const vqgan *m = (const vqgan *)base;
    if (!m->judge.layers)
        return qkv__op_fail(t, "judge", "a model without a discriminator (disc_num_layers 0)");
    return qkv__judge_forward(&m->judge, t, pixels);
}

qkv_param *qkv_vqgan_last(qkv_model *base) { return ((vqgan *)base)->decoder.out.weight; }
qkv_param *qkv_vqgan_usage(qkv_model *base) { return ((vqgan *)base)->usage; }
qkv_param *qkv_vqgan_table(qkv_model *base) { return ((vqgan *)base)->table; }

bool qkv_vqgan_judges(const qkv_param *p)
{
    return strncmp(qkv_param_name(p), qkv__judge_prefix, strlen(qkv__judge_prefix)) == 0;
}

/* ---- FLOPs -------------------------------------------------------------------------------- */

static double decoder_flops(const vqgan *m, double pictures, double codes, bool trains)
{
    double pixels = codes * pow(4, (double)(levels(m) - 1));
    return qkv__conv_flops(&m->after, pictures * codes, trains ? 3 : 1) +
           qkv__half_flops(&m->decoder, pictures, pixels, trains);
}

double qkv_vqgan_flops(const qkv_model *base, size_t pictures, size_t height, size_t width,
                       bool trains)
{
    const vqgan *m = (const vqgan *)base;
    double B = (double)pictures, pixels = (double)height * (double)width;
    double codes = pixels / pow(4, (double)(levels(m) - 1));
    return qkv__half_flops(&m->encoder, B, pixels, trains) +
           qkv__conv_flops(&m->before, B * codes, trains ? 3 : 1) +
           2 * B * codes * (double)(m->c->codes * m->c->code_width) +
           decoder_flops(m, B, codes, trains);
}

double qkv_vqgan_decode_flops(const qkv_model *base, size_t pictures, size_t rows, size_t columns)
{
    return decoder_flops((const vqgan *)base, (double)pictures, (double)rows * (double)columns,
                         false);
}

double qkv_vqgan_judge_flops(const qkv_model *base, size_t pictures, size_t height, size_t width,
                             bool frozen)
{
    return qkv__judge_flops(&((const vqgan *)base)->judge, (double)pictures, height, width,
                            frozen);
}

const qkv_model_type qkv_vqgan_type = {
    "qkv_vqgan", "VQModel", "", &qkv__vqgan_config, sizeof(qkv_vqgan_config), sizeof(vqgan),
    numbers, make, visit, NULL};
