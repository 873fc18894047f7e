/* model.c - what all models share. */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "tensor/make.h"

const char *const qkv__activation_names[] = {"linear", "relu", "gelu", "gelu_new", "quick_gelu",
                                             "silu", "sigmoid", "tanh", NULL};

qkv_model_type qkv_model_type_defaults(const char *name, qkv_status (*make)(qkv_model *m),
                                       size_t self_size)
{
    return (qkv_model_type){.name = name, .make = make, .self_size = self_size};
}

/* ---- what a type says of itself ------------------------------------------------------------- */

const char *qkv_model_type_name(const qkv_model_type *type) { return type->name; }
size_t qkv_model_type_config_size(const qkv_model_type *type) { return type->config_size; }

const char *qkv_model_type_architecture(const qkv_model_type *type)
{
    return type->architecture ? type->architecture : type->name;
}

const char *qkv_model_type_prefix(const qkv_model_type *type)
{
    return type->prefix ? type->prefix : "";
}

const qkv_option_table *qkv_model_type_config(const qkv_model_type *type)
{
    static const qkv_option_table empty = {"Model", NULL, 0, 0};
    return type->config ? type->config : &empty;
}

const char *qkv_model_type_preset_name(const qkv_model_type *type, size_t i, const char **summary)
{
    return type->preset ? type->preset(type, i, summary, NULL) : NULL;
}

bool qkv_model_type_preset(const qkv_model_type *type, const char *name, void *config)
{
    const char *at;
    for (size_t i = 0; (at = qkv_model_type_preset_name(type, i, NULL)); i++)
        if (strcmp(at, name) == 0)
            return type->preset(type, i, NULL, config) != NULL;
    return false;
}

const char *qkv__size_take(const qkv__named_size *list, size_t i, const char **summary,
                           size_t *width, size_t *layers, size_t *heads)
{
    for (; list->name && i; i--)
        list++;
    if (!list->name)
        return NULL;
    if (summary)
        *summary = list->summary;
    *width = list->width;
    *layers = list->layers;
    *heads = list->heads;
    return list->name;
}

double qkv__flops(qkv_pass pass, double products, double attention)
{
    return 2 * qkv__passes(pass) * products + (pass == QKV_PASS_FORWARD ? 1 : 3.5) * attention;
}

int qkv__passes(qkv_pass pass) { return 3 - (int)pass; }

/* ---- is a model of a kind? ------------------------------------------------------------------ */

/* What models of each capability do, in the order of the bits. */
static const char *const abilities[] = {
    "predicts the next token", "samples codes",  "fills masks",      "classifies text",
    "translates",              "forecasts",      "classifies images", "segments images",
    "colorizes images",        "reconstructs images", "encodes images", "compares images",
    "embeds text", "embeds images"};

static unsigned can(const qkv_model *m) { return m->type->builtin ? m->type->builtin->can : 0; }

bool qkv_model_can(const qkv_model *m, unsigned capabilities)
{
    return (can(m) & capabilities) != 0;
}

bool qkv__model_reads_text(const qkv_model *m)
{
    return m->type->builtin && m->type->builtin->reads_text;
}

/* NULL, and a sentence: the function takes a model that is or does something else. */
static void *model_refuse(const qkv_model *m, qkv_tape *t, const char *function, const char *takes,
                          const char *verb)
{
    if (!t || !qkv_tape_status(t)) {
        qkv_status status = qkv_fail(m->ctx, QKV_E_ARGUMENT, "%s takes a model that %s: a %s %s "
                                     "not", function, takes, qkv_model_type_architecture(m->type),
                                     verb);
        if (t)
            (void)qkv__take_status(t, status);
    }
    return NULL;
}

void *qkv__model_as(const qkv_model *m, qkv_tape *t, const char *function, unsigned capabilities)
{
    if (can(m) & capabilities)
        return m->self;
    char takes[160] = "";
    for (size_t i = 0, n = 0; i < sizeof abilities / sizeof *abilities && n < sizeof takes; i++)
        if (capabilities >> i & 1)
            n += (size_t)snprintf(takes + n, sizeof takes - n, "%s%s", n ? " or " : "",
                                  abilities[i]);
    return model_refuse(m, t, function, takes, "does");
}

void *qkv__model_of(const qkv_model *m, qkv_tape *t, const char *function,
                    const qkv_model_type *type)
{
    char takes[80];
    if (m->type == type)
        return m->self;
    (void)snprintf(takes, sizeof takes, "is a %s", qkv_model_type_architecture(type));
    return model_refuse(m, t, function, takes, "is");
}

/* ---- making ------------------------------------------------------------------------------- */

qkv_status qkv__model_type_check(qkv_context *ctx, const qkv_model_type *type)
{
    if (!type || !type->name || !type->make)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "model type %s: a name and make are required",
                        type && type->name ? type->name : "?");
    if (type->config_size && !type->config)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "model type %s: a configuration of %zu bytes without "
                        "a table that describes it", type->name, type->config_size);
    return QKV_OK;
}

/* The configuration, which no type has unless it is in its table's ranges, and what make makes. */
static qkv_status model_build(qkv_model *m, const void *config)
{
    const qkv_model_type *type = m->type;
    const qkv_option_table *table = qkv_model_type_config(type);
    if (config)
        memcpy(m->config, config, type->config_size);
    else
        qkv_option_defaults(table, m->config);
    qkv_status status = qkv__options_check(m->ctx, table, m->config, type->name);
    if (!status)
        status = type->make(m);
    return status ? status : qkv__params_status(m->params);
}

qkv_status qkv_model_create(qkv_model **out, qkv_context *ctx, const qkv_model_type *type,
                            const void *config)
{
    *out = NULL;
    qkv_status status = qkv__model_type_check(ctx, type);
    qkv_model *m = status ? NULL : qkv_calloc(ctx, 1, sizeof *m);
    if (!m)
        return status ? status : QKV_E_MEMORY;
    m->type = type;
    m->ctx = ctx;
    m->config = qkv_calloc(ctx, 1, type->config_size);
    m->self = m->config ? qkv_calloc(ctx, 1, type->self_size) : NULL;
    status = m->self ? qkv_params_create(&m->params, ctx) : QKV_E_MEMORY;
    if (!status)
        status = model_build(m, config);
    if (status) {
        qkv_model_destroy(m);
        return status;
    }
    *out = m;
    return QKV_OK;
}

void qkv_model_destroy(qkv_model *m)
{
    if (!m)
        return;
    qkv_model_set_labels(m, NULL, 0);
    qkv_params_destroy(m->params);
    qkv_free(m->ctx, m->self);
    qkv_free(m->ctx, m->config);
    qkv_free(m->ctx, m);
}

const qkv_model_type *qkv_model_type_of(const qkv_model *m) { return m->type; }
const void *qkv_model_config(const qkv_model *m) { return m->config; }
void *qkv_model_self(const qkv_model *m) { return m->self; }
qkv_params *qkv_model_params(qkv_model *m) { return m->params; }
qkv_context *qkv_model_context(const qkv_model *m) { return m->ctx; }

double qkv_model_flops(const qkv_model *m, const qkv_workload *given)
{
    qkv_workload adapted = *given; /* its matrices are frozen */
    adapted.pass = given->pass == QKV_PASS_TRAIN && m->adapters ? QKV_PASS_INPUT : given->pass;
    const qkv_workload *w = &adapted;
    if (m->type->flops && (w->part == QKV_PART_WHOLE || qkv_model_can(m, QKV_CAN_ENCODE_IMAGES)))
        return m->type->flops(m, w);
    qkv_fail(m->ctx, QKV_E_UNSUPPORTED, "qkv_model_flops: %s models do not count %s",
             m->type->name, m->type->flops ? "parts" : "operations");
    return 0;
}

qkv_status qkv_model_set_labels(qkv_model *m, const char *const *names, size_t count)
{
    char **copy = count ? qkv_calloc(m->ctx, count, sizeof *copy) : NULL;
    qkv_status status = count && !copy ? QKV_E_MEMORY : QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        copy[i] = qkv_strdup(m->ctx, names[i]);
        status = copy[i] ? QKV_OK : QKV_E_MEMORY;
    }
    char **old = status ? copy : m->labels;
    size_t old_count = status ? count : m->label_count;
    for (size_t i = 0; old && i < old_count; i++)
        qkv_free(m->ctx, old[i]);
    qkv_free(m->ctx, old);
    if (!status) {
        m->labels = copy;
        m->label_count = count;
    }
    return status;
}

size_t qkv_model_label_count(const qkv_model *m) { return m->label_count; }

const char *qkv_model_label(const qkv_model *m, size_t i)
{
    return i < m->label_count ? m->labels[i] : NULL;
}

const char *const *qkv_model_labels(const qkv_model *m)
{
    return (const char *const *)m->labels;
}

void qkv_model_set_eos_ids(qkv_model *m, const int32_t *ids, size_t count)
{
    m->eos_count = count < QKV_LM_EOS_IDS ? count : QKV_LM_EOS_IDS;
    memcpy(m->eos_ids, ids, m->eos_count * sizeof *ids);
}

size_t qkv_model_eos_count(const qkv_model *m) { return m->eos_count; }

void qkv_model_set_image_format(qkv_model *m, const qkv_image_format *format)
{
    m->images = *format;
}

const qkv_image_format *qkv_model_image_format(const qkv_model *m)
{
    return m->images.height ? &m->images : NULL;
}

/* A type that names no rows of its own: each parameter as it is. */
static qkv_status visit_params(qkv_model *m, qkv_state_entry_fn *fn, void *user)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < qkv_params_count(m->params) && !status; i++) {
        qkv_param *p = qkv_params_at(m->params, i);
        qkv_state_entry row = {.name = qkv_param_name(p), .param = p, .ndim = qkv_param_ndim(p),
                               .kind = qkv_param_frozen(p) ? QKV_STATE_FIXED : QKV_STATE_PARAM,
                               .init = QKV_INIT_NONE, .decay = qkv_param_ndim(p) > 1};
        for (int k = 0; k < row.ndim; k++) {
            row.shape[k] = qkv_param_dim(p, k);
            row.perm[k] = k;
        }
        if (row.ndim > 1) {
            row.init = QKV_INIT_NORMAL;
            row.scale = sqrt((double)row.shape[0] / (double)qkv_param_count(p));
        }
        status = fn(user, &row);
    }
    return status;
}

qkv_status qkv_model_visit(qkv_model *m, qkv_state_entry_fn *fn, void *user)
{
    return m->type->visit ? m->type->visit(m, fn, user) : visit_params(m, fn, user);
}

static qkv_status init_row(void *user, const qkv_state_entry *row)
{
    if (row->kind == QKV_STATE_PARAM)
        qkv_state_entry_init(row, *(const uint64_t *)user);
    return QKV_OK;
}

qkv_status qkv_model_init(qkv_model *m, uint64_t seed)
{
    qkv_status status = qkv_model_visit(m, init_row, &seed);
    if (!status && m->type->builtin && m->type->builtin->after_init)
        m->type->builtin->after_init(m);
    return status ? status : qkv__params_status(m->params);
}

/* ---- language models ------------------------------------------------------------------------- */

/* NULL, and t or the context has failed, for a model of another kind. */
static const qkv__lm *lm_of(const qkv_model *m, qkv_tape *t, const char *function)
{
    return qkv__model_as(m, t, function, QKV_CAN_GENERATE) ? m->type->builtin->lm : NULL;
}

size_t qkv_lm_vocab(const qkv_model *m)
{
    const qkv__lm *lm = lm_of(m, NULL, __func__);
    return lm ? lm->vocab(m) : 0;
}

size_t qkv_lm_positions(const qkv_model *m)
{
    const qkv__lm *lm = lm_of(m, NULL, __func__);
    return lm ? lm->positions(m) : 0;
}

bool qkv_lm_has_max_positions(const qkv_model *m)
{
    const qkv__lm *lm = lm_of(m, NULL, __func__);
    return lm && lm->has_max_positions(m);
}

size_t qkv_lm_eos_ids(const qkv_model *m, int32_t out[QKV_LM_EOS_IDS])
{
    const qkv__lm *lm = lm_of(m, NULL, __func__);
    memcpy(out, m->eos_ids, sizeof m->eos_ids);
    if (!lm || m->eos_count)
        return lm ? m->eos_count : 0;
    out[0] = lm->eos(m);
    return out[0] >= 0;
}

qkv_status qkv__cache_create(qkv_lm_cache **out, qkv_context *ctx, size_t layers,
                             size_t capacity)
{
    *out = NULL;
    qkv_lm_cache *c = qkv_calloc(ctx, 1, sizeof *c);
    qkv_block_cache *blocks = c ? qkv_calloc(ctx, layers, sizeof *blocks) : NULL;
    if (!blocks) {
        qkv_free(ctx, c);
        return QKV_E_MEMORY;
    }
    *c = (qkv_lm_cache){.ctx = ctx, .layers = layers, .capacity = capacity, .blocks = blocks};
    *out = c;
    return QKV_OK;
}

qkv_status qkv_lm_cache_create_as(qkv_lm_cache **out, qkv_model *m, qkv_kv_store store, size_t B,
                                  size_t capacity)
{
    const qkv__lm *lm = lm_of(m, NULL, __func__);
    size_t layers = lm ? lm->layers(m) : 0;
    *out = NULL;
    qkv_status status = lm ? qkv__cache_create(out, m->ctx, layers, capacity) : QKV_E_ARGUMENT;
    for (size_t i = 0; i < layers && !status; i++)
        status = lm->block_cache(m, &(*out)->blocks[i], store, B, capacity);
    if (status) {
        qkv_lm_cache_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv_lm_cache_create(qkv_lm_cache **out, qkv_model *m, size_t B, size_t capacity)
{
    return qkv_lm_cache_create_as(out, m, QKV_KV_F32, B, capacity);
}

void qkv_lm_cache_destroy(qkv_lm_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->blocks && i < c->layers; i++) {
        qkv_kv_cache_destroy(c->blocks[i].self);
        qkv_kv_cache_destroy(c->blocks[i].cross);
    }
    qkv_free(c->ctx, c->blocks);
    qkv_free(c->ctx, c);
}

size_t qkv_lm_cache_length(const qkv_lm_cache *c) { return c->length; }

void qkv_lm_cache_truncate(qkv_lm_cache *c, size_t length)
{
    for (size_t i = 0; i < c->layers; i++)
        qkv_kv_cache_truncate(c->blocks[i].self, length);
    if (length < c->length)
        c->length = length;
}

bool qkv_lm_cache_select(qkv_tape *t, qkv_lm_cache *c, const size_t *rows, size_t n)
{
    for (size_t i = 0; i < c->layers; i++)
        if (!qkv_kv_cache_select(t, c->blocks[i].self, rows, n))
            return false;
    return true;
}

bool qkv_lm_cache_reserve(qkv_tape *t, qkv_lm_cache *c, size_t capacity)
{
    for (size_t i = 0; i < c->layers; i++)
        if (!qkv_kv_cache_reserve(t, c->blocks[i].self, capacity))
            return false;
    c->capacity = capacity > c->capacity ? capacity : c->capacity;
    return true;
}

void qkv_lm_cache_window(qkv_lm_cache *c, size_t positions)
{
    for (size_t i = 0; i < c->layers; i++)
        qkv_kv_cache_window(c->blocks[i].self, positions);
}

size_t qkv_lm_cache_bytes(const qkv_lm_cache *c)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->layers; i++)
        bytes += qkv_kv_cache_bytes(c->blocks[i].self);
    return bytes;
}

bool qkv_lm_cache_copy(qkv_tape *t, qkv_lm_cache *c, size_t to, size_t from, size_t first,
                       size_t count)
{
    for (size_t i = 0; i < c->layers; i++)
        if (!qkv_kv_cache_copy(t, c->blocks[i].self, to, from, first, count))
            return false;
    return true;
}

qkv_tensor *qkv_lm_hidden(qkv_model *m, qkv_tape *t, qkv_tensor *ids, size_t sequences,
                          const int32_t *offsets, qkv_lm_cache *cache)
{
    const qkv__lm *lm = lm_of(m, t, __func__);
    if (lm && cache && (cache->layers != lm->layers(m) || cache->blocks[0].cross))
        return qkv__op_fail(t, __func__, "a cache of another model");
    return lm ? lm->hidden(m, t, ids,
                           &(qkv_sequence){.sequences = sequences, .offsets = offsets}, cache)
              : NULL;
}

qkv_tensor *qkv_lm_hidden_slots(qkv_model *m, qkv_tape *t, qkv_tensor *ids,
                                const qkv_kv_slots *slots, qkv_lm_cache *cache)
{
    const qkv__lm *lm = lm_of(m, t, __func__);
    if (lm && (cache->layers != lm->layers(m) || cache->blocks[0].cross))
        return qkv__op_fail(t, __func__, "a cache of another model");
    return lm ? lm->hidden(m, t, ids, &(qkv_sequence){.slots = slots}, cache) : NULL;
}

qkv_tensor *qkv_lm_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden)
{
    const qkv__lm *lm = lm_of(m, t, __func__);
    return lm ? qkv_linear(t, hidden, qkv_use(t, lm->head(m)), NULL, QKV_ACT_NONE) : NULL;
}

qkv_tensor *qkv_lm_loss(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *targets,
                        const qkv_cross_entropy_options *options)
{
    const qkv__lm *lm = lm_of(m, t, __func__);
    return lm ? qkv_classifier_loss(t, hidden, qkv_use(t, lm->head(m)), NULL, targets, options)
              : NULL;
}
