/* series.c - encoders of series: patches of rows through a linear layer, positions, a pre-norm
 * stack of the one block, and a head: a filler's for each token's rows, a classifier's for the mean
 * of the tokens. */
#include "qkv/series.h"

#include <math.h>
#include <stdio.h>

#include "model/series_tower.h"
#include "model/tables.h"
#include "tensor/make.h"

/* Dropout sites that no block has. */
#define SERIES_DROPOUT_IDS 0xE0000000u
enum { SITE_INPUT, SITE_NORM, SITE_HEAD };
static const double SERIES_NORM_EPS = 1e-5; /* added to variances */

typedef struct {
    qkv_model *base;
    qkv_series_config *c; /* base->config */
    qkv__series_scale scale;
    qkv__series_tower tower;
    qkv_linear_layer embed;  /* (width, 2 patch columns): values, and which are known */
    qkv_linear_layer head;   /* (patch columns, width), or (classes, width) */
} encoder;

static const unsigned ANY = QKV_CAN_FILL_SERIES | QKV_CAN_CLASSIFY_SERIES;

static bool classifies(const encoder *m)
{
    return m->base->type == qkv_series_classifier_type();
}

size_t qkv_series_tokens(const qkv_series_config *c, size_t rows)
{
    return (rows + c->patch - 1) / c->patch;
}

/* ---- making ---------------------------------------------------------------------------------- */

static qkv_status series_complete_config(encoder *m)
{
    qkv_series_config *c = m->c;
    if (!c->ff_width)
        c->ff_width = 4 * c->width;
    c->init_range = qkv__init_range(c->init_range, 1, c->width);
    return qkv__series_check(m->base, c->width, c->heads, c->position_kind, c->rows, c->patch);
}

static qkv_status series_make_tower(encoder *m)
{
    const qkv_series_config *c = m->c;
    qkv_block_config b = qkv_block_defaults();
    b.width = c->width;
    b.heads = c->heads;
    b.ff_width = c->ff_width;
    b.norm_eps = SERIES_NORM_EPS;
    b.act = c->act;
    b.dropout = c->dropout;
    b.attention_dropout = c->attention_dropout;
    m->tower = (qkv__series_tower){.name = "encoder", .tokens = c->rows / c->patch,
                                   .kind = c->position_kind,
                                   .input_dropout_id = SERIES_DROPOUT_IDS + SITE_INPUT,
                                   .norm_dropout_id = SERIES_DROPOUT_IDS + SITE_NORM};
    return qkv__series_tower_make(&m->tower, m->base->params, &b, c->layers, 0, 0);
}

static qkv_status series_make(qkv_model *base)
{
    encoder *m = base->self;
    m->base = base;
    m->c = base->config;
    qkv_status status = series_complete_config(m);
    if (status)
        return status;
    const qkv_series_config *c = m->c;
    qkv_params *ps = base->params;
    size_t values = c->patch * c->columns;
    status = qkv__series_scale_make(&m->scale, ps, c->columns);
    (void)qkv_linear_create(&m->embed, ps, "embed", 2 * values, c->width);
    if (!status)
        status = series_make_tower(m);
    (void)qkv_linear_create(&m->head, ps, "head", c->width, classifies(m) ? c->classes : values);
    return status ? status : qkv__params_status(ps);
}

/* A filler's head starts at zero: it begins with what it interpolates. */
static qkv_status series_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    encoder *m = base->self;
    const qkv_series_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__series_scale_visit(&m->scale, &v);
    qkv__visit_linear_layer(&v, "embed", &m->embed, 1 / sqrt((double)(c->patch * c->columns)));
    qkv__series_tower_visit(&m->tower, &v, c->init_range);
    qkv__visit_linear_layer(&v, "head", &m->head, classifies(m) ? c->init_range : 0);
    return v.status;
}

/* ---- scale ----------------------------------------------------------------------------------- */

const qkv_real *qkv_series_mean(const qkv_model *base)
{
    const encoder *m = qkv__model_as(base, NULL, __func__, ANY);
    return m ? qkv_param_data(m->scale.mean) : NULL;
}

const qkv_real *qkv_series_std(const qkv_model *base)
{
    const encoder *m = qkv__model_as(base, NULL, __func__, ANY);
    return m ? qkv_param_data(m->scale.std) : NULL;
}

qkv_status qkv_series_fit_scale(qkv_model *base, const qkv_series *s)
{
    encoder *m = qkv__model_as(base, NULL, __func__, ANY);
    return m ? qkv__series_scale_fit(&m->scale, base, s) : QKV_E_ARGUMENT;
}

/* ---- input ----------------------------------------------------------------------------------- */

void qkv_series_interpolate(qkv_real *column, size_t rows, size_t stride, qkv_real otherwise)
{
    size_t before = SIZE_MAX; /* the last row that is there */
    for (size_t i = 0; i < rows; i++) {
        if (!isfinite(column[i * stride]))
            continue;
        qkv_real b = column[i * stride], a = before == SIZE_MAX ? b : column[before * stride];
        size_t from = before == SIZE_MAX ? 0 : before + 1;
        double gap = (double)(i - from + 1);
        for (size_t k = from; k < i; k++)
            column[k * stride] = (qkv_real)((double)a + ((double)b - (double)a) *
                                                            ((double)(k - from + 1) / gap));
        before = i;
    }
    for (size_t i = before == SIZE_MAX ? 0 : before + 1; i < rows; i++)
        column[i * stride] = before == SIZE_MAX ? otherwise : column[before * stride];
}

/* What the model reads of a batch: x (1, tokens, 2 patch columns), the interpolated values alone
 * (tokens patch, columns), and where series begin in tokens. */
typedef struct {
    qkv_tensor *x, *plain, *positions;
    int32_t *offsets; /* (count + 1) */
    size_t tokens;
} seen;

static size_t length_of(const encoder *m, const qkv_series_batch *in, size_t i)
{
    return in->lengths ? in->lengths[i] : m->c->rows;
}

/* rows (length, columns) -> plain (tokens patch, columns) and x of its tokens. Rows behind the end
 * are unknown. */
static void see_series(const encoder *m, const qkv_real *data, size_t length, size_t tokens,
                       qkv_real *plain, qkv_real *x)
{
    size_t C = m->c->columns, P = m->c->patch * C;
    const qkv_real *mean = qkv_param_data(m->scale.mean), *std = qkv_param_data(m->scale.std);
    for (size_t i = 0; i < tokens * P; i++) {
        bool known = i < length * C && isfinite(data[i]);
        plain[i] = known ? (data[i] - mean[i % C]) / std[i % C] : (qkv_real)NAN;
        x[i / P * 2 * P + P + i % P] = known;
    }
    for (size_t j = 0; j < C; j++)
        qkv_series_interpolate(plain + j, tokens * m->c->patch, C, 0);
    for (size_t i = 0; i < tokens * P; i++)
        x[i / P * 2 * P + i % P] = plain[i];
}

static bool see_batch(const encoder *m, qkv_tape *t, const qkv_series_batch *in, seen *s)
{
    const qkv_series_config *c = m->c;
    *s = (seen){.offsets = qkv__step_alloc(t, (in->count + 1) * sizeof *s->offsets)};
    for (size_t i = 0; i < in->count && s->offsets; i++) {
        s->offsets[i] = (int32_t)s->tokens;
        s->tokens += qkv_series_tokens(c, length_of(m, in, i));
    }
    if (!s->offsets)
        return false;
    s->offsets[in->count] = (int32_t)s->tokens;
    size_t values = c->patch * c->columns, plain[] = {s->tokens * c->patch, c->columns};
    s->x = qkv_tensor_from(t, NULL, 3, (size_t[]){1, s->tokens, 2 * values});
    s->plain = qkv_tensor_from(t, NULL, 2, plain);
    int32_t *places = qkv__step_alloc(t, (s->tokens + 1) * sizeof *places);
    if (!s->x || !s->plain || !places)
        return false;
    for (size_t i = 0; i < in->count; i++) {
        size_t first = (size_t)s->offsets[i], n = (size_t)s->offsets[i + 1] - first;
        see_series(m, in->data[i], length_of(m, in, i), n,
                   qkv_tensor_fill(s->plain) + first * values,
                   qkv_tensor_fill(s->x) + first * 2 * values);
        for (size_t k = 0; k < n; k++)
            places[first + k] = (int32_t)k;
    }
    s->positions = qkv_tensor_ids(t, places, 2, (size_t[]){1, s->tokens});
    return s->positions != NULL;
}

static bool check_batch(const encoder *m, qkv_tape *t, const qkv_series_batch *in)
{
    for (size_t i = 0; i < in->count; i++)
        if (!length_of(m, in, i) || length_of(m, in, i) > m->c->rows) {
            (void)qkv__op_fail(t, "series", "a series of %zu rows, the model reads 1 to %zu",
                               length_of(m, in, i), m->c->rows);
            return false;
        }
    return in->count > 0 && !qkv_tape_status(t);
}

/* ---- forward --------------------------------------------------------------------------------- */

static qkv_tensor *series_encode(encoder *m, qkv_tape *t, const qkv_series_batch *in, seen *s)
{
    if (!m || !check_batch(m, t, in) || !see_batch(m, t, in, s))
        return NULL;
    double p = m->c->dropout;
    qkv_sequence seq = {0};
    if (in->count > 1) {
        seq.sequences = in->count;
        seq.offsets = s->offsets;
    }
    qkv_tensor *at = qkv_embedding(t, s->positions, qkv_use(t, m->tower.positions), 1, NULL, NULL);
    qkv_tensor *x = qkv_add(t, qkv_linear_forward(&m->embed, t, s->x, QKV_ACT_NONE), at);
    x = p > 0 ? qkv_dropout(t, x, p, m->tower.input_dropout_id) : x;
    return qkv__stack_forward(&m->tower.stack, t, x, &seq, NULL);
}

/* The head of y, behind its dropout. */
static qkv_tensor *series_head(const encoder *m, qkv_tape *t, qkv_tensor *y)
{
    double p = m->c->head_dropout;
    y = y && p > 0 ? qkv_dropout(t, y, p, SERIES_DROPOUT_IDS + SITE_HEAD) : y;
    return qkv_linear_forward(&m->head, t, y, QKV_ACT_NONE);
}

qkv_tensor *qkv_series_hidden(qkv_model *base, qkv_tape *t, const qkv_series_batch *in)
{
    seen s;
    return series_encode(qkv__model_as(base, t, __func__, ANY), t, in, &s);
}

qkv_tensor *qkv_series_fill(qkv_model *base, qkv_tape *t, const qkv_series_batch *in)
{
    seen s;
    encoder *m = qkv__model_as(base, t, __func__, QKV_CAN_FILL_SERIES);
    qkv_tensor *y = series_encode(m, t, in, &s);
    if (!y)
        return NULL;
    size_t shape[] = {s.tokens * m->c->patch, m->c->columns};
    return qkv_add(t, qkv_reshape(t, series_head(m, t, y), 2, shape), s.plain);
}

qkv_tensor *qkv_series_class_logits(qkv_model *base, qkv_tape *t, const qkv_series_batch *in)
{
    seen s;
    encoder *m = qkv__model_as(base, t, __func__, QKV_CAN_CLASSIFY_SERIES);
    qkv_tensor *y = series_encode(m, t, in, &s);
    qkv_tensor *share = y ? qkv_tensor_from(t, NULL, 2, (size_t[]){in->count, s.tokens}) : NULL;
    if (!share)
        return NULL;
    qkv_real *w = qkv_tensor_fill(share); /* of each token in its series' mean */
    for (size_t i = 0; i < in->count; i++)
        for (size_t k = 0; k < s.tokens; k++) {
            bool own = (int32_t)k >= s.offsets[i] && (int32_t)k < s.offsets[i + 1];
            w[i * s.tokens + k] = own ? 1 / (qkv_real)(s.offsets[i + 1] - s.offsets[i]) : 0;
        }
    y = qkv_reshape(t, y, 2, (size_t[]){s.tokens, m->c->width});
    return series_head(m, t, qkv_matmul(t, share, false, y, false));
}

/* ---- the types ------------------------------------------------------------------------------- */

static double series_products(const qkv_series_config *c, bool classifier, double tokens)
{
    double d = (double)c->width, values = (double)(c->patch * c->columns);
    double block = 4 * d * d + 2 * d * (double)c->ff_width;
    return tokens * ((double)c->layers * block + 2 * d * values) +
           (classifier ? d * (double)c->classes : tokens * d * values);
}

/* length: rows of a series; 0: the model's. */
static double series_flops(const qkv_model *base, const qkv_workload *w)
{
    const qkv_series_config *c = base->config;
    double rows_ = w->length > 0 ? w->length : (double)c->rows, T = rows_ / (double)c->patch;
    return w->samples * qkv__flops(w->pass, series_products(c, classifies(base->self), T),
                                   4 * (double)c->layers * T * T * (double)c->width);
}

static double series_parameter_count(const qkv_model_type *type, const void *config)
{
    const qkv_series_config *c = config;
    double d = (double)c->width, ff = c->ff_width ? (double)c->ff_width : 4 * d;
    double values = (double)c->patch * (double)c->columns;
    double outputs = type == qkv_series_classifier_type() ? (double)c->classes : values;
    return d * ((double)c->layers * (4 * d + 2 * ff) + (double)(c->rows / c->patch) + 2 * values +
                outputs);
}

#define SERIES(name_, architecture_, config_, builtin_)                                          \
    .name = name_, .architecture = architecture_, .config = config_,                             \
    .config_size = sizeof(qkv_series_config), .self_size = sizeof(encoder),                      \
    .parameter_count = series_parameter_count, .make = series_make, .visit = series_visit,       \
    .flops = series_flops, .builtin = builtin_

static const qkv_builtin_type fills = {.can = QKV_CAN_FILL_SERIES};
static const qkv_builtin_type labels = {.can = QKV_CAN_CLASSIFY_SERIES};

static const qkv_model_type filler = {SERIES("qkv_series_filler", "QkvSeriesFiller",
                                             &qkv__series_filler_config, &fills)};
static const qkv_model_type classifier = {SERIES("qkv_series_classifier", "QkvSeriesClassifier",
                                                 &qkv__series_classifier_config, &labels)};

const qkv_model_type *qkv_series_filler_type(void) { return &filler; }
const qkv_model_type *qkv_series_classifier_type(void) { return &classifier; }
