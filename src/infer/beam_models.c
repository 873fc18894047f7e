/* beam_models.c - translators that score tokens together. The mean of their logits, made into
 * probabilities, is the geometric mean of theirs, normalised: softmax does not see what each model
 * adds to all of its logits. */
#include "infer/beam_models.h"

qkv_status qkv__beam_models_add(qkv__beam_models *ms, qkv_model *m)
{
    const qkv_marian_config *c = qkv_model_config(m);
    const qkv_marian_config *first = ms->count ? qkv_model_config(ms->models[0].model) : c;
    if (c->vocab != first->vocab || c->positions < first->positions)
        return qkv_fail(ms->ctx, QKV_E_ARGUMENT, "a model of %zu tokens and %zu positions beside "
                        "one of %zu and %zu: as many tokens and no fewer positions expected",
                        c->vocab, c->positions, first->vocab, first->positions);
    if (!qkv__grow(ms->ctx, &ms->models, &ms->capacity, ms->count + 1, sizeof *ms->models))
        return QKV_E_MEMORY;
    ms->models[ms->count++] = (qkv__beam_model){.model = m};
    return QKV_OK;
}

qkv_status qkv__beam_models_begin(qkv__beam_models *ms, size_t rows, size_t capacity, size_t source)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < ms->count && !status; i++) {
        qkv__beam_model *m = &ms->models[i];
        if (m->cache && qkv_marian_cache_reset(m->cache, rows, source))
            continue;
        qkv_lm_cache_destroy(m->cache);
        status = qkv_marian_cache_create(&m->cache, m->model, rows, capacity, source, true);
    }
    return status;
}

qkv_status qkv__beam_models_choices(qkv__beam_models *ms, const int32_t *tokens, size_t count)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < ms->count && !status; i++)
        status = qkv_marian_head_create(&ms->models[i].head, ms->models[i].model, tokens, count);
    return status;
}

void qkv__beam_models_end(qkv__beam_models *ms)
{
    for (size_t i = 0; i < ms->count; i++) {
        qkv__beam_model *m = &ms->models[i];
        qkv_marian_head_destroy(m->head);
        m->head = NULL;
        m->memory = NULL;
    }
}

void qkv__beam_models_free(qkv__beam_models *ms)
{
    qkv__beam_models_end(ms);
    for (size_t i = 0; i < ms->count; i++)
        qkv_lm_cache_destroy(ms->models[i].cache);
    qkv_free(ms->ctx, ms->models);
}

void qkv__beam_models_encode(qkv__beam_models *ms, qkv_tape *t, const qkv_marian_side *source)
{
    for (size_t i = 0; i < ms->count; i++)
        ms->models[i].memory = qkv_marian_encode(ms->models[i].model, t, source);
}

static qkv_tensor *logits_of(qkv__beam_model *m, qkv_tape *t, const qkv_marian_side *target,
                             const qkv_marian_side *source)
{
    qkv_tensor *h = qkv_marian_decode(m->model, t, target, m->memory, source, m->cache);
    m->memory = NULL;
    return m->head ? qkv_marian_head_logits(m->head, t, h) : qkv_marian_logits(m->model, t, h);
}

qkv_tensor *qkv__beam_models_logits(qkv__beam_models *ms, qkv_tape *t,
                                    const qkv_marian_side *target, const qkv_marian_side *source)
{
    qkv_tensor *sum = logits_of(&ms->models[0], t, target, source);
    for (size_t i = 1; i < ms->count; i++)
        sum = qkv_add(t, sum, logits_of(&ms->models[i], t, target, source));
    return ms->count > 1 ? qkv_scale(t, sum, 1 / (double)ms->count) : sum;
}

bool qkv__beam_models_reserve(qkv__beam_models *ms, qkv_tape *t, size_t capacity)
{
    bool fine = true;
    for (size_t i = 0; i < ms->count && fine; i++)
        fine = qkv_lm_cache_reserve(t, ms->models[i].cache, capacity);
    return fine;
}

bool qkv__beam_models_select(qkv__beam_models *ms, qkv_tape *t, const size_t *rows, size_t n)
{
    bool fine = true;
    for (size_t i = 0; i < ms->count && fine; i++)
        fine = qkv_lm_cache_select(t, ms->models[i].cache, rows, n);
    return fine;
}
