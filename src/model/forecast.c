/* forecast.c - rows of numbers in, rows of numbers out: patches of rows through a linear layer, a
 * pre-norm stack of the one block, and a linear layer over all tokens (the encoder alone) or over
 * each token of a second stack with cross-attention (forecast_decoder.c). */
#include "model/tables.h"
#include "qkv/forecast.h"

#include <math.h>
#include <stdio.h>

#include "model/forecaster.h"
#include "tensor/make.h"

enum { DECODER_INDEX = 1 << 20 }; /* of the first decoder block: dropout sites of its own */
static const double WINDOW_EPS = 1e-5, NORM_EPS = 1e-5; /* added to variances */

typedef qkv__forecaster forecaster;
typedef qkv__series_tower tower;
typedef qkv__forecast_view view;

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status forecast_complete_config(forecaster *m)
{
    qkv_forecast_config *c = m->c;
    if (c->targets > c->columns)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "qkv_forecast: %zu of %zu columns cannot be "
                        "forecast", c->targets, c->columns);
    if (c->causal && !c->decoder_layers)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "qkv_forecast: a causal decoder has at least "
                        "1 layer, decoder_layers is 0");
    if (!c->targets)
        c->targets = c->columns;
    if (!c->ff_width)
        c->ff_width = 4 * c->width;
    c->init_range = qkv__init_range(c->init_range, 1, c->width);
    return qkv__series_check(m->base, c->width, c->heads, c->position_kind, c->context, c->patch);
}

/* A decoder's first token follows the encoder's last. */
static qkv_status forecast_make_tower(forecaster *m, bool decoder)
{
    const qkv_forecast_config *c = m->c;
    size_t T = c->context / c->patch;
    tower *s = decoder ? &m->decoder : &m->encoder;
    qkv_block_config b = qkv_block_defaults();
    b.width = c->width;
    b.heads = c->heads;
    b.ff_width = c->ff_width;
    b.norm_eps = NORM_EPS;
    b.act = c->act;
    b.cross = decoder;
    b.causal = decoder && c->causal;
    b.dropout = c->dropout;
    b.attention_dropout = c->attention_dropout;
    *s = (tower){.name = decoder ? "decoder" : "encoder", .kind = c->position_kind,
                 .tokens = decoder ? (c->horizon + c->patch - 1) / c->patch : T,
                 .input_dropout_id = QKV__FORECAST_DROPOUT_IDS +
                                     (decoder ? QKV__FORECAST_TARGET : QKV__FORECAST_SOURCE),
                 .norm_dropout_id = QKV__FORECAST_DROPOUT_IDS +
                                    (decoder ? QKV__FORECAST_DECODER : QKV__FORECAST_ENCODER)};
    return qkv__series_tower_make(s, m->base->params, &b, decoder ? c->decoder_layers : c->layers,
                                  decoder ? DECODER_INDEX : 0, decoder ? T : 0);
}

/* The last layer's outputs and inputs: all rows from all tokens, or a patch from each. */
static void head_shape(const qkv_forecast_config *c, size_t *outputs, size_t *inputs)
{
    size_t targets = c->targets ? c->targets : c->columns;
    *outputs = (c->decoder_layers ? c->patch : c->horizon) * targets;
    *inputs = c->width * (c->decoder_layers ? 1 : c->context / c->patch);
}

static qkv_status forecast_make(qkv_model *base)
{
    forecaster *m = base->self;
    m->base = base;
    m->c = base->config;
    qkv_status status = forecast_complete_config(m);
    if (status)
        return status;
    const qkv_forecast_config *c = m->c;
    qkv_params *ps = base->params;
    size_t outputs, inputs;
    head_shape(c, &outputs, &inputs);
    status = qkv__series_scale_make(&m->scale, ps, c->columns);
    (void)qkv_linear_create(&m->embed, ps, "embed", c->patch * c->columns, c->width);
    if (!status)
        status = forecast_make_tower(m, false);
    if (!status && c->decoder_layers)
        status = forecast_make_tower(m, true);
    if (status)
        return status;
    if (c->causal)
        (void)qkv_linear_create(&m->embed_rows, ps, "embed_rows", c->patch * c->targets, c->width);
    (void)qkv_linear_create(&m->head, ps, "head", inputs, outputs);
    if (c->linear)
        (void)qkv_linear_create(&m->linear, ps, "linear", c->context * c->columns,
                                c->horizon * c->targets);
    return qkv__params_status(ps);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* The last layers start at zero: the first forecast is what numbers are measured from. */
static qkv_status forecast_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    forecaster *m = base->self;
    const qkv_forecast_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__series_scale_visit(&m->scale, &v);
    qkv__visit_linear_layer(&v, "embed", &m->embed, 1 / sqrt((double)(c->patch * c->columns)));
    if (c->causal)
        qkv__visit_linear_layer(&v, "embed_rows", &m->embed_rows,
                                1 / sqrt((double)(c->patch * c->targets)));
    qkv__series_tower_visit(&m->encoder, &v, c->init_range);
    if (c->decoder_layers)
        qkv__series_tower_visit(&m->decoder, &v, c->init_range);
    qkv__visit_linear_layer(&v, "head", &m->head, 0);
    if (c->linear)
        qkv__visit_linear_layer(&v, "linear", &m->linear, 0);
    return v.status;
}

/* ---- scale --------------------------------------------------------------------------------- */

const qkv_real *qkv_forecast_mean(const qkv_model *base)
{
    const forecaster *m = qkv__model_of(base, NULL, __func__, qkv_forecast_type());
    return m ? qkv_param_data(m->scale.mean) : NULL;
}

const qkv_real *qkv_forecast_std(const qkv_model *base)
{
    const forecaster *m = qkv__model_of(base, NULL, __func__, qkv_forecast_type());
    return m ? qkv_param_data(m->scale.std) : NULL;
}

qkv_status qkv_forecast_fit_scale(qkv_model *base, const qkv_series *s)
{
    forecaster *m = qkv__model_of(base, NULL, __func__, qkv_forecast_type());
    return m ? qkv__series_scale_fit(&m->scale, base, s) : QKV_E_ARGUMENT;
}

/* ---- forward ------------------------------------------------------------------------------ */

static void standardize(const forecaster *m, qkv_real *out, const qkv_real *rows, size_t count)
{
    const qkv_real *mean = qkv_param_data(m->scale.mean), *std = qkv_param_data(m->scale.std);
    size_t C = m->c->columns;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < C; j++)
            out[i * C + j] = (rows[i * C + j] - mean[j]) / std[j];
}

/* Mean and standard deviation of n numbers, `stride` apart. */
static void window_moments(const qkv_real *x, size_t n, size_t stride, double *mean, double *std)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i * stride];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i * stride] - *mean;
        squares += d * d;
    }
    *std = sqrt(squares / (double)n + WINDOW_EPS);
}

/* x (context, columns): column j from the window's own center, in its own scale. */
static void normalize_column(const qkv_forecast_config *c, qkv_real *x, size_t j, double *center,
                             double *scale)
{
    size_t C = c->columns, N = c->context;
    *center = (double)x[(N - 1) * C + j];
    *scale = 1;
    if (c->normalization == QKV_NORMALIZE_WINDOW)
        window_moments(x + j, N, C, center, scale);
    for (size_t i = 0; i < N; i++)
        x[i * C + j] = (qkv_real)(((double)x[i * C + j] - *center) / *scale);
}

static bool forecast_look_at(const forecaster *m, qkv_tape *t, const qkv_real *const *windows,
                             size_t B, view *out)
{
    const qkv_forecast_config *c = m->c;
    size_t C = c->columns, K = c->targets, N = c->context;
    size_t shape[] = {B, N / c->patch, c->patch * C}, one[] = {B, 1, K};
    bool own = c->normalization != QKV_NORMALIZE_SERIES;
    *out = (view){.x = qkv_tensor_from(t, NULL, 3, shape)};
    if (own) {
        out->center = qkv_tensor_from(t, NULL, 3, one);
        out->scale = qkv_tensor_from(t, NULL, 3, one);
    }
    if (!out->x || (own && !out->scale))
        return false;
    for (size_t b = 0; b < B; b++) {
        qkv_real *x = qkv_tensor_fill(out->x) + b * N * C;
        standardize(m, x, windows[b], N);
        for (size_t j = 0; own && j < C; j++) {
            double center, scale;
            normalize_column(c, x, j, &center, &scale);
            if (j >= K)
                continue;
            qkv_tensor_fill(out->center)[b * K + j] = (qkv_real)center;
            qkv_tensor_fill(out->scale)[b * K + j] = (qkv_real)scale;
        }
    }
    return true;
}

/* target NULL: a causal decoder's are its own forecasts. */
static qkv_tensor *forecast_pass(forecaster *m, qkv_tape *t, const qkv_real *const *windows,
                                 qkv_tensor *target, size_t B)
{
    const qkv_forecast_config *c = m->c;
    view in;
    if (qkv_tape_status(t) || !forecast_look_at(m, t, windows, B, &in))
        return NULL;
    size_t flat[] = {B, c->context * c->columns}, rows_[] = {B, c->horizon, c->targets};
    qkv_tensor *e = qkv_linear_forward(&m->embed, t, in.x, QKV_ACT_NONE), *l = NULL;
    qkv_tensor *memory = qkv__forecast_run(m, t, &m->encoder, e, NULL, 0, NULL);
    if (c->linear)
        l = qkv_reshape(t, qkv_linear_forward(&m->linear, t, qkv_reshape(t, in.x, 2, flat),
                                              QKV_ACT_NONE), 3, rows_);
    if (!memory || (c->linear && !l))
        return NULL;
    qkv_tensor *y = !c->causal ? qkv__forecast_joint(m, t, e, memory)
                    : target   ? qkv__forecast_forced(m, t, &in, memory, target, l)
                               : qkv__forecast_roll_out(m, t, &in, memory, l);
    if (l && !c->causal)
        y = qkv_add(t, y, l);
    return in.center ? qkv_add(t, qkv_mul(t, y, in.scale), in.center) : y;
}

qkv_tensor *qkv_forecast_forward(qkv_model *base, qkv_tape *t, const qkv_real *const *windows,
                                 size_t B)
{
    forecaster *m = qkv__model_of(base, t, __func__, qkv_forecast_type());
    if (m && m->c->causal && qkv__records(t))
        return qkv__op_fail(t, "forecast", "a causal decoder is rolled out on a tape that does not "
                            "record; qkv_forecast_forced is for training");
    return m ? forecast_pass(m, t, windows, NULL, B) : NULL;
}

qkv_tensor *qkv_forecast_forced(qkv_model *base, qkv_tape *t, const qkv_real *const *windows,
                                qkv_tensor *target, size_t B)
{
    forecaster *m = qkv__model_of(base, t, __func__, qkv_forecast_type());
    return m && target ? forecast_pass(m, t, windows, target, B) : NULL;
}

qkv_tensor *qkv_forecast_loss(qkv_model *base, qkv_tape *t, qkv_tensor *forecast,
                              qkv_tensor *target)
{
    if (!qkv__model_of(base, t, __func__, qkv_forecast_type()))
        return NULL;
    const qkv_forecast_config *c = base->config;
    if (c->loss == QKV_FORECAST_MAE)
        return qkv_l1_loss(t, forecast, target);
    return c->loss == QKV_FORECAST_MSE ? qkv_mse_loss(t, forecast, target)
                                       : qkv_huber_loss(t, forecast, target, 1);
}

static double model_forecast_flops(const qkv_model *base, const qkv_workload *w)
{
    const forecaster *m = base->self;
    const qkv_forecast_config *c = m->c;
    size_t outputs, inputs;
    head_shape(c, &outputs, &inputs);
    double d = (double)c->width, T = (double)m->encoder.tokens, D = (double)m->decoder.tokens;
    double block = 4 * d * d + 2 * d * (double)c->ff_width, L = (double)c->layers;
    double L2 = (double)c->decoder_layers;
    double products = T * d * (double)(c->patch * c->columns) + L * T * block +
                      L2 * (D * (block + 2 * d * d) + T * 2 * d * d) +
                      (double)outputs * (double)inputs * (L2 > 0 ? D : 1);
    if (c->linear)
        products += (double)(c->horizon * c->targets) * (double)(c->context * c->columns);
    if (c->causal)
        products += D * d * (double)(c->patch * c->targets);
    double attention = L * 4 * T * T * d + L2 * (4 * D * D + 4 * D * T) * d;
    return w->samples * qkv__flops(w->pass, products, attention);
}

static double forecast_parameter_count(const qkv_model_type *type, const void *config)
{
    (void)type;
    const qkv_forecast_config *c = config;
    size_t outputs, inputs;
    head_shape(c, &outputs, &inputs);
    double d = (double)c->width, ff = c->ff_width ? (double)c->ff_width : 4 * d;
    double targets = (double)(c->targets ? c->targets : c->columns);
    double embed = d * (double)c->patch * (double)c->columns;
    double positions = d * (double)(c->context / c->patch);
    double linear = (double)c->horizon * targets * (double)c->context * (double)c->columns;
    return d * ((double)c->layers * (4 * d + 2 * ff) +
                (double)c->decoder_layers * (8 * d + 2 * ff)) +
           embed + positions + (double)outputs * (double)inputs + (c->linear ? linear : 0) +
           (c->causal ? d * (double)c->patch * targets : 0);
}

static const qkv_builtin_type builtin = {.can = QKV_CAN_FORECAST};

static const qkv_model_type forecast_type = {
    .name = "qkv_forecast", .architecture = "QkvForecaster", .config = &qkv__forecast_config,
    .config_size = sizeof(qkv_forecast_config), .self_size = sizeof(forecaster),
    .parameter_count = forecast_parameter_count, .make = forecast_make, .visit = forecast_visit,
    .flops = model_forecast_flops, .builtin = &builtin};

const qkv_model_type *qkv_forecast_type(void) { return &forecast_type; }
