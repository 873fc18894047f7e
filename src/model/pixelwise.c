/* pixelwise.c - models of every pixel: the trunk of patches, and a linear layer that makes of each
 * token the numbers of its patch's pixels; around them convolutions, if there are any. It knows
 * nothing of what the numbers mean. */
#include "model/tables.h"
#include "qkv/pixelwise.h"

#include <math.h>
#include <stdio.h>

#include "nn/conv.h"
#include "nn/patches.h"
#include "tensor/make.h"

enum { MOST_CONVOLUTIONS = 8, WINDOW = 3 };

typedef struct {
    qkv_model *base;
    qkv_pixelwise_config *c; /* base->config */
    qkv__patches trunk;
    qkv_linear_layer head; /* rows: row in the patch, column, number */
    /* With convolutions: */
    qkv__conv stem[MOST_CONVOLUTIONS], merge, out;
    qkv_param *detail_weight; /* (width, patch * patch * conv_channels) */
} pixelwise;

enum { COLORS = 2, CELLS = 16 }; /* a and b; hints that fit side by side */

/* Of the initial standard deviation: first guesses near nothing. */
static const double HEAD_SHARE = 0.1;

/* Numbers of a pixel that a token makes. */
static size_t numbers_of_pixel(const qkv_pixelwise_config *c)
{
    return c->convolutions ? c->conv_channels : c->outputs;
}

static size_t head_rows(const qkv_pixelwise_config *c)
{
    return c->trunk.patch * c->trunk.patch * numbers_of_pixel(c);
}

static qkv_status pixelwise_check(const qkv_model *base, qkv_pixelwise_config *c)
{
    const char *name = base->type->name;
    if (base->type == qkv_colorizer_type()) {
        c->outputs = COLORS;
        if (c->trunk.channels != QKV_COLORIZER_INPUTS)
            return qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s: num_channels: %d expected (lightness, "
                            "a, b, whether they are known), found %zu", name,
                            (int)QKV_COLORIZER_INPUTS, c->trunk.channels);
        bool given = c->cell;
        if (!given)
            c->cell = c->trunk.image < CELLS ? 1 : c->trunk.image / CELLS;
        while (!given && c->trunk.image % c->cell)
            c->cell--;
        if (c->trunk.image % c->cell)
            return qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s: hint_size %zu does not divide "
                            "image_size %zu", name, c->cell, c->trunk.image);
    } else {
        c->tanh = false; /* its table has no such field, so nobody has set it */
    }
    if (c->convolutions > MOST_CONVOLUTIONS || (c->convolutions && !c->conv_channels))
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s: %zu convolutions with %zu channels: 0 to "
                        "%d expected, none without channels", name, c->convolutions,
                        c->conv_channels, MOST_CONVOLUTIONS);
    return QKV_OK;
}

static void make_convolutions(pixelwise *m, qkv_params *ps)
{
    const qkv_pixelwise_config *c = m->c;
    size_t k = c->conv_channels, patch = c->trunk.patch;
    for (size_t i = 0; i < c->convolutions; i++) {
        char name[32];
        snprintf(name, sizeof name, "stem.%zu", i);
        (void)qkv__conv_make(&m->stem[i], ps, name, i ? k : c->trunk.channels, k, WINDOW, true);
    }
    m->detail_weight = qkv__matrix(ps, "detail.weight", c->trunk.width, patch * patch * k);
    (void)qkv__conv_make(&m->merge, ps, "merge", k, k, WINDOW, true);
    (void)qkv__conv_make(&m->out, ps, "out", k, c->outputs, WINDOW, true);
}

static qkv_status pixelwise_make(qkv_model *base)
{
    pixelwise *m = base->self;
    m->base = base;
    qkv_pixelwise_config *c = m->c = base->config;
    static const qkv__patches_kind kind = {.no_first = true, .dropout_id = 0xE0000000u};
    qkv_status status = pixelwise_check(base, c);
    if (!status)
        status = qkv__patches_complete(base->ctx, &c->trunk, base->type->name);
    if (!status)
        status = qkv__patches_make(&m->trunk, base->params, &c->trunk, kind);
    if (status)
        return status;
    (void)qkv_linear_create(&m->head, base->params, "head", c->trunk.width, head_rows(c));
    if (c->convolutions)
        make_convolutions(m, base->params);
    return qkv__params_status(base->params);
}

/* He et al. 2015, for what a ReLU follows. */
static double std(const qkv__conv *c)
{
    return sqrt(2.0 / (double)(WINDOW * WINDOW * c->in));
}

static void visit_convolutions(const pixelwise *m, qkv__visit *v)
{
    const qkv_pixelwise_config *c = m->c;
    size_t patch = c->trunk.patch;
    for (size_t i = 0; i < c->convolutions; i++) {
        char name[32];
        snprintf(name, sizeof name, "stem.%zu", i);
        qkv__visit_conv(v, name, &m->stem[i], std(&m->stem[i]));
    }
    qkv__visit_convolution(v, "detail.weight", m->detail_weight, c->trunk.width, c->conv_channels,
                           patch, c->trunk.init_range);
    qkv__visit_conv(v, "merge", &m->merge, std(&m->merge));
    qkv__visit_conv(v, "out", &m->out, HEAD_SHARE * std(&m->out));
}

static qkv_status pixelwise_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    pixelwise *m = base->self;
    const qkv_pixelwise_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__patches_visit(&m->trunk, &v);
    qkv__visit_linear_layer(&v, "head", &m->head,
                      (c->convolutions ? 1 : HEAD_SHARE) * c->trunk.init_range);
    if (c->convolutions)
        visit_convolutions(m, &v);
    return v.status;
}

/* What the surroundings of each pixel say, (B, H, W, conv_channels); NULL: no convolutions. */
static qkv_tensor *look_around(const pixelwise *m, qkv_tape *t, qkv_tensor *x)
{
    for (size_t i = 0; i < m->c->convolutions; i++)
        x = qkv_activate(t, qkv__conv_forward(&m->stem[i], t, x, &qkv__conv_same), QKV_ACT_RELU);
    return m->c->convolutions ? x : NULL;
}

/* pixels, what is around them or NULL -> the tokens of patches. */
static qkv_tensor *pixelwise_embed(const pixelwise *m, qkv_tape *t, qkv_tensor *pixels,
                                   qkv_tensor *around)
{
    qkv_tensor *x = qkv__patches_embed(&m->trunk, t, pixels);
    if (!around)
        return x;
    return qkv_add(t, x, qkv_linear(t, qkv_patchify(t, around, m->c->trunk.patch),
                                    qkv_use(t, m->detail_weight), NULL, QKV_ACT_NONE));
}

qkv_tensor *qkv_pixelwise_embed(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const pixelwise *m = qkv__model_as(base, t, __func__, QKV_CAN_SEGMENT | QKV_CAN_COLORIZE);
    return m ? pixelwise_embed(m, t, pixels, look_around(m, t, pixels)) : NULL;
}

qkv_tensor *qkv_pixelwise_forward(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    pixelwise *m = qkv__model_as(base, t, __func__, QKV_CAN_SEGMENT | QKV_CAN_COLORIZE);
    if (!m)
        return NULL;
    const qkv_pixelwise_config *c = m->c;
    qkv_activation last = c->tanh ? QKV_ACT_TANH : QKV_ACT_NONE;
    pixels = qkv_probe(t, "pixels", pixels);
    qkv_tensor *around = look_around(m, t, pixels), *x = pixelwise_embed(m, t, pixels, around);
    if (!x)
        return NULL;
    size_t p = c->trunk.patch;
    x = qkv__patches_through(&m->trunk, t, x, qkv_dim(pixels, 1) / p, qkv_dim(pixels, 2) / p);
    x = qkv_linear_forward(&m->head, t, x, around ? QKV_ACT_NONE : last);
    x = qkv_unpatchify(t, x, p, qkv_dim(pixels, 1) / p, qkv_dim(pixels, 2) / p);
    if (!around)
        return x;
    x = qkv__conv_forward(&m->merge, t, qkv_add(t, x, around), &qkv__conv_same);
    x = qkv__conv_forward(&m->out, t, qkv_activate(t, x, QKV_ACT_RELU), &qkv__conv_same);
    return c->tanh ? qkv_activate(t, x, last) : x;
}

static double pixelwise_flops(const qkv_model *base, const qkv_workload *w)
{
    const pixelwise *m = base->self;
    const qkv_pixelwise_config *c = base->config;
    size_t side = c->trunk.image / c->trunk.patch, tokens = side * side;
    int passes = qkv__passes(w->pass);
    double pixels = w->samples * (double)(c->trunk.image * c->trunk.image);
    double width = (double)c->trunk.width, rows = w->samples * (double)tokens;
    double sum = qkv__patches_embed_flops(&c->trunk, passes, rows) +
                 qkv__patches_stack_flops(&c->trunk, passes, w->samples, tokens) +
                 qkv__flops(w->pass, rows * width * (double)head_rows(c), 0);
    for (size_t i = 0; i < c->convolutions; i++)
        sum += qkv__conv_flops(&m->stem[i], pixels, i || passes < 3 ? passes : 2);
    return !c->convolutions ? sum : sum + qkv__conv_flops(&m->merge, pixels, passes) +
           qkv__conv_flops(&m->out, pixels, passes) +
           qkv__flops(w->pass, width * (double)c->conv_channels * pixels, 0);
}

static double pixelwise_parameter_count(const qkv_model_type *type, const void *config)
{
    const qkv_pixelwise_config *c = config;
    double patch = (double)c->trunk.patch, of_pixel = (double)c->outputs;
    double k = c->convolutions ? (double)c->conv_channels : 0;
    if (type == qkv_colorizer_type())
        of_pixel = COLORS;
    double of_token = patch * patch * (k > 0 ? 2 * k : of_pixel); /* detail and head */
    return qkv__patches_parameters(&c->trunk) + of_token * (double)c->trunk.width +
           WINDOW * WINDOW * k * (of_pixel + k * (double)c->convolutions);
}

static const qkv_builtin_type segmenter = {.can = QKV_CAN_SEGMENT};
static const qkv_builtin_type colorizer = {.can = QKV_CAN_COLORIZE};

#define DENSE(name_, architecture_, table)                                                     \
    .name = name_, .architecture = architecture_, .prefix = "vit.", .config = table,           \
    .config_size = sizeof(qkv_pixelwise_config), .self_size = sizeof(pixelwise),              \
    .parameter_count = pixelwise_parameter_count, .make = pixelwise_make,                      \
    .visit = pixelwise_visit, .flops = pixelwise_flops

static const qkv_model_type segmenter_type = {
    DENSE("qkv_segmenter", "QkvSegmenter", &qkv__segmenter_config), .builtin = &segmenter};
static const qkv_model_type colorizer_type = {
    DENSE("qkv_colorizer", "QkvColorizer", &qkv__colorizer_config), .builtin = &colorizer};

const qkv_model_type *qkv_segmenter_type(void) { return &segmenter_type; }
const qkv_model_type *qkv_colorizer_type(void) { return &colorizer_type; }
