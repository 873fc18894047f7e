/* perceptual.c - a network of convolutions, and the distance between what it makes of two
 * images. */
#include "qkv/perceptual.h"

#include <math.h>
#include <stdio.h>

#include "model/model.h"
#include "nn/conv.h"
#include "tensor/make.h"

#define CONFIG qkv_perceptual_config
#include "model/config_rows.h"

enum { COLORS = 3, WINDOW = 3, MOST = 8 }; /* MOST: convolutions of a stage */
static const double LENGTH_EPS = 1e-20;    /* 1e-10 beside a length, where that matters */

/* What LPIPS does to pixels in [-1, 1] first: ImageNet's mean and standard deviation. */
static const qkv_real shift[COLORS] = {(qkv_real)-.030, (qkv_real)-.088, (qkv_real)-.188};
static const qkv_real scale[COLORS] = {(qkv_real).458, (qkv_real).448, (qkv_real).450};

#define SIZES_ROW(key_, member, initial_, help_)                                               \
    {.key = key_, .type = QKV_OPT_SIZES, .min = 1, .max = QKV__MOST_SIZE, FIELD(member),       \
     .initial = initial_, .help = help_}
static const qkv_option rows[] = {
    SIZES_ROW("channels", channels, "64,128,256,512,512", "of each stage"),
    SIZES_ROW("convolutions", convolutions, "2,2,3,3,3", "in each stage"),
    SIZE_ROW("answers", answers, 0, "0", "numbers that training asks for"),
};
static const qkv_option_table table = {"Perceptual network", rows, sizeof rows / sizeof *rows,
                                sizeof(CONFIG)};

typedef struct {
    qkv_model *base;
    const qkv_perceptual_config *c; /* base->config */
    qkv__conv conv[QKV_SIZES][MOST];
    qkv_param *weights[QKV_SIZES]; /* (1, channels) of the distance */
    qkv_linear_layer head;
} perceptual;

static size_t stages(const perceptual *m) { return m->c->channels.count; }

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status perceptual_check(const perceptual *m)
{
    const qkv_perceptual_config *c = m->c;
    bool fine = c->channels.count > 0 && c->channels.count == c->convolutions.count;
    for (size_t i = 0; i < c->convolutions.count; i++)
        fine = fine && c->convolutions.item[i] <= MOST;
    return fine ? QKV_OK
                : qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "%s: channels of %zu stages and "
                           "convolutions of %zu, at most %d each: as many expected, one at least",
                           m->base->type->name, c->channels.count, c->convolutions.count, MOST);
}

static bool make_stage(perceptual *m, size_t s)
{
    const qkv_perceptual_config *c = m->c;
    size_t in = s ? c->channels.item[s - 1] : COLORS, out = c->channels.item[s];
    char name[64];
    bool fine = true;
    for (size_t k = 0; k < c->convolutions.item[s] && fine; k++) {
        snprintf(name, sizeof name, "stage.%zu.%zu", s, k);
        fine = qkv__conv_make(&m->conv[s][k], m->base->params, name, k ? out : in, out, WINDOW,
                              true);
    }
    snprintf(name, sizeof name, "weights.%zu", s);
    m->weights[s] = fine ? qkv__matrix(m->base->params, name, 1, out) : NULL;
    if (!m->weights[s])
        return false;
    qkv_param_freeze(m->weights[s], true);
    for (size_t i = 0; i < out; i++) /* a net of our own: all alike */
        qkv_param_data(m->weights[s])[i] = (qkv_real)(1.0 / (double)stages(m));
    qkv_param_touch(m->weights[s]);
    return true;
}

static qkv_status perceptual_make(qkv_model *base)
{
    perceptual *m = base->self;
    m->base = base;
    m->c = base->config;
    qkv_status status = perceptual_check(m);
    bool fine = !status;
    for (size_t s = 0; fine && s < stages(m); s++)
        fine = make_stage(m, s);
    if (fine && m->c->answers)
        (void)qkv_linear_create(&m->head, base->params, "head",
                                m->c->channels.item[stages(m) - 1], m->c->answers);
    if (status)
        return status;
    return fine ? qkv__params_status(base->params) : qkv_context_status(base->ctx);
}

static double perceptual_parameter_count(const qkv_model_type *type, const void *config)
{
    const qkv_perceptual_config *c = config;
    double sum = 0;
    (void)type;
    for (size_t s = 0; s < c->channels.count && s < c->convolutions.count; s++)
        sum += ((double)c->convolutions.item[s] - 1) * WINDOW * WINDOW *
               (double)c->channels.item[s] * (double)c->channels.item[s];
    return sum;
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Convolutions are counted as torchvision's VGG counts layers: ReLUs and pools between them. */
static qkv_status perceptual_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    perceptual *m = base->self;
    qkv__visit v = {.fn = fn, .user = user};
    char name[64];
    size_t place = 0;
    for (size_t s = 0; s < stages(m); s++, place++)
        for (size_t k = 0; k < m->c->convolutions.item[s]; k++, place += 2) {
            const qkv__conv *c = &m->conv[s][k];
            snprintf(name, sizeof name, "net.slice%zu.%zu", s + 1, place);
            qkv__visit_conv(&v, name, c, sqrt(2 / (double)(c->in * WINDOW * WINDOW)));
        }
    for (size_t s = 0; s < stages(m); s++) {
        qkv_state_entry row = {.kind = QKV_STATE_FIXED, .param = m->weights[s], .ndim = 4,
                               .shape = {1, m->c->channels.item[s], 1, 1}, .perm = {0, 1, 2, 3},
                               .init = QKV_INIT_NONE};
        snprintf(name, sizeof name, "lin%zu.model.1.weight", s);
        qkv__visit_entry(&v, &row, name);
    }
    if (m->c->answers)
        qkv__visit_linear_layer(&v, "head", &m->head, 0.01);
    qkv__visit_kind(&v, "scaling_layer.shift", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    qkv__visit_kind(&v, "scaling_layer.scale", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    return v.status;
}

/* ---- forward ------------------------------------------------------------------------------ */

static qkv_tensor *scaled(qkv_tape *t, qkv_tensor *pixels)
{
    const size_t shape[] = {COLORS};
    qkv_tensor *x = qkv_sub(t, pixels, qkv_tensor_from(t, shift, 1, shape));
    return qkv_div(t, x, qkv_tensor_from(t, scale, 1, shape));
}

static qkv_tensor *perceptual_run_stage(const perceptual *m, qkv_tape *t, size_t s, qkv_tensor *x)
{
    const size_t count = m->c->convolutions.item[s];
    if (s)
        x = qkv_max_pool2d(t, x, 2, NULL);
    for (size_t k = 0; k < count; k++) {
        qkv__for_products(t, k + 1 < count); /* the next layers alone read it */
        qkv_tensor *y = qkv__conv_forward(&m->conv[s][k], t, x, &qkv__conv_same);
        qkv__let_go(t, x);
        x = qkv_activate(t, y, QKV_ACT_RELU);
        qkv__for_products(t, false);
    }
    return x;
}

/* Of an image whose gradient nobody wants: but for the result, memory is given back. */
static qkv_tensor *run_stage_detached(const perceptual *m, qkv_tape *t, size_t s, qkv_tensor *x)
{
    const bool recorded = qkv__pause(t);
    const qkv_scope scope = qkv_scope_begin(t);
    x = qkv_scope_end(t, scope, perceptual_run_stage(m, t, s, x));
    qkv__resume(t, recorded);
    return x;
}

qkv_tensor *qkv_perceptual_features(qkv_model *base, qkv_tape *t, qkv_tensor *pixels)
{
    const perceptual *m = qkv__model_as(base, t, __func__, QKV_CAN_COMPARE_IMAGES);
    if (!m)
        return NULL;
    qkv_tensor *x = scaled(t, pixels);
    for (size_t s = 0; s < stages(m); s++)
        x = perceptual_run_stage(m, t, s, x);
    return x;
}

qkv_tensor *qkv_perceptual_answers(qkv_model *base, qkv_tape *t, qkv_tensor *features, bool each)
{
    const perceptual *m = qkv__model_as(base, t, __func__, QKV_CAN_COMPARE_IMAGES);
    if (!m)
        return NULL;
    if (!m->head.weight)
        return qkv__op_fail(t, "answers", "a perceptual network that is asked nothing");
    if (!each)
        features = qkv_mean_axis(t, qkv_mean_axis(t, features, 1), 1);
    return qkv_linear_forward(&m->head, t, features, QKV_ACT_NONE);
}

qkv_tensor *qkv_perceptual_distance(qkv_model *base, qkv_tape *t, qkv_tensor *a, qkv_tensor *b)
{
    const perceptual *m = qkv__model_as(base, t, __func__, QKV_CAN_COMPARE_IMAGES);
    if (!m)
        return NULL;
    qkv_tensor *x = scaled(t, a), *y = scaled(t, b ? qkv_detach(t, b) : NULL), *sum = NULL;
    for (size_t s = 0; s < stages(m); s++) {
        x = perceptual_run_stage(m, t, s, x);
        y = run_stage_detached(m, t, s, y);
        qkv_tensor *d = qkv_sub(t, qkv_l2_normalize(t, x, LENGTH_EPS),
                                qkv_l2_normalize(t, y, LENGTH_EPS));
        qkv_tensor *part = qkv_mean(t, qkv_linear(t, qkv_mul(t, d, d), qkv_use(t, m->weights[s]),
                                                  NULL, QKV_ACT_NONE));
        sum = sum ? qkv_add(t, sum, part) : part;
    }
    return sum;
}

static double perceptual_flops(const qkv_model *base, const qkv_workload *w)
{
    const perceptual *m = base->self;
    size_t height = w->height, width = w->width;
    double sum = 0;
    for (size_t s = 0; s < stages(m); s++, height /= 2, width /= 2)
        for (size_t k = 0; k < m->c->convolutions.item[s]; k++)
            sum += qkv__conv_flops(&m->conv[s][k], w->samples * (double)(height * width),
                                   qkv__passes(w->pass));
    return sum;
}

static const qkv_builtin_type builtin = {.can = QKV_CAN_COMPARE_IMAGES};

static const qkv_model_type perceptual_type = {
    .name = "qkv_perceptual", .architecture = "LPIPS", .config = &table,
    .config_size = sizeof(qkv_perceptual_config), .self_size = sizeof(perceptual),
    .parameter_count = perceptual_parameter_count, .make = perceptual_make,
    .visit = perceptual_visit, .flops = perceptual_flops, .builtin = &builtin};

const qkv_model_type *qkv_perceptual_type(void) { return &perceptual_type; }
