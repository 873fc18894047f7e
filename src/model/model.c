/* model.c - what all models share. */
#include "model/model.h"

#include <string.h>

#include "tensor/make.h"

const char *const qkv__activation_names[] = {"linear", "relu", "gelu", "gelu_new", "quick_gelu",
                                             "silu", "sigmoid", "tanh", NULL};

const char *qkv_model_type_name(const qkv_model_type *type) { return type->name; }
const char *qkv_model_type_architecture(const qkv_model_type *type) { return type->architecture; }
const char *qkv_model_type_prefix(const qkv_model_type *type) { return type->prefix; }
const qkv_option_table *qkv_model_type_config(const qkv_model_type *type) { return type->config; }
size_t qkv_model_type_config_size(const qkv_model_type *type) { return type->config_size; }

qkv_status qkv_model_create(qkv_model **out, qkv_context *ctx, const qkv_model_type *type,
                            const void *config)
{
    *out = NULL;
    qkv_model *m = qkv_calloc(ctx, 1, type->model_size);
    if (!m)
        return QKV_E_MEMORY;
    m->type = type;
    m->ctx = ctx;
    m->config = qkv_malloc(ctx, type->config_size);
    qkv_status status = m->config ? qkv_params_create(&m->params, ctx) : QKV_E_MEMORY;
    if (!status) {
        memcpy(m->config, config, type->config_size);
        status = type->make(m);
    }
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
    qkv_free(m->ctx, m->config);
    qkv_free(m->ctx, m);
}

const qkv_model_type *qkv_model_type_of(const qkv_model *m) { return m->type; }
const void *qkv_model_config(const qkv_model *m) { return m->config; }
qkv_params *qkv_model_params(qkv_model *m) { return m->params; }
qkv_context *qkv_model_context(const qkv_model *m) { return m->ctx; }

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

void qkv_model_set_ends(qkv_model *m, const int32_t *ids, size_t count)
{
    m->end_count = count < QKV_LM_ENDS ? count : QKV_LM_ENDS;
    memcpy(m->ends, ids, m->end_count * sizeof *ids);
}

size_t qkv_model_end_count(const qkv_model *m) { return m->end_count; }

void qkv_model_set_pictures(qkv_model *m, const qkv_picture_format *format)
{
    m->pictures = *format;
}

const qkv_picture_format *qkv_model_pictures(const qkv_model *m)
{
    return m->pictures.height ? &m->pictures : NULL;
}

qkv_status qkv_model_visit(qkv_model *m, qkv_row_fn *fn, void *user)
{
    return m->type->visit(m, fn, user);
}

static qkv_status init_row(void *user, const qkv_row *row)
{
    if (row->kind == QKV_ROW_PARAM)
        qkv_row_init(row, *(const uint64_t *)user);
    return QKV_OK;
}

qkv_status qkv_model_init(qkv_model *m, uint64_t seed)
{
    qkv_status status = qkv_model_visit(m, init_row, &seed);
    return status ? status : qkv__params_status(m->params);
}

/* ---- sizes by name -------------------------------------------------------------------------- */

bool qkv__size_take(const qkv__named_size *list, const char *name, size_t *width, size_t *layers,
                    size_t *heads)
{
    while (list->name && strcmp(list->name, name) != 0)
        list++;
    if (!list->name)
        return false;
    *width = list->width;
    *layers = list->layers;
    *heads = list->heads;
    return true;
}

const char *qkv__size_name(const qkv__named_size *list, size_t i, const char **summary)
{
    size_t count = 0;
    while (list[count].name)
        count++;
    if (i >= count)
        return NULL;
    if (summary)
        *summary = list[i].summary;
    return list[i].name;
}

/* ---- language models ------------------------------------------------------------------------- */

bool qkv_model_is_lm(const qkv_model *m) { return m->type->lm != NULL; }
size_t qkv_lm_vocab(const qkv_model *m) { return m->type->lm->vocab(m); }
size_t qkv_lm_positions(const qkv_model *m) { return m->type->lm->positions(m); }
bool qkv_lm_has_horizon(const qkv_model *m) { return m->type->lm->has_horizon(m); }

size_t qkv_lm_ends(const qkv_model *m, int32_t out[QKV_LM_ENDS])
{
    memcpy(out, m->ends, sizeof m->ends);
    if (m->end_count)
        return m->end_count;
    out[0] = m->type->lm->eos(m);
    return out[0] >= 0;
}

size_t qkv_lm_flops(const qkv_model *m, size_t rows, size_t length)
{
    return m->type->lm->flops(m, rows, length);
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

qkv_status qkv_lm_cache_create(qkv_lm_cache **out, qkv_model *m, size_t B, size_t capacity)
{
    size_t layers = m->type->lm->layers(m);
    qkv_status status = qkv__cache_create(out, m->ctx, layers, capacity);
    for (size_t i = 0; i < layers && !status; i++)
        status = m->type->lm->block_cache(m, &(*out)->blocks[i], B, capacity);
    if (status) {
        qkv_lm_cache_destroy(*out);
        *out = NULL;
    }
    return status;
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

qkv_tensor *qkv_lm_hidden(qkv_model *m, qkv_tape *t, qkv_tensor *ids, size_t sequences,
                          const int32_t *offsets, qkv_lm_cache *cache)
{
    return m->type->lm->hidden(m, t, ids, sequences, offsets, cache);
}

qkv_tensor *qkv_lm_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden)
{
    return qkv_linear(t, hidden, qkv_use(t, m->type->lm->head(m)), NULL, QKV_ACT_NONE);
}

qkv_tensor *qkv_lm_loss(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *targets,
                        const qkv_cross_entropy_options *options)
{
    return qkv_classifier_loss(t, hidden, qkv_use(t, m->type->lm->head(m)), NULL, targets,
                               options);
}
