/* generate.c - continuing text, one token at a time, with keys and values kept. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "model/model.h"
#include "qkv/infer.h"

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *tape; /* its own, unless the caller has one */
    qkv_lm_cache *cache;
    qkv_ids all; /* the prompt and what was made */
    qkv_real *logits;
    qkv_real *own; /* (V) the model's distribution; NULL: not asked for */
    int32_t *order;
    size_t V, window;
} generator;

/* Logits of the token after ids (n), which come after what the cache holds. */
static qkv_status generate_step(generator *g, const int32_t *ids, size_t n)
{
    size_t shape[] = {1, n};
    qkv_tape_reset(g->tape);
    qkv_tape_mode(g->tape, false, false);
    qkv_tensor *x = qkv_tensor_ids(g->tape, ids, 2, shape);
    qkv_tensor *h = qkv_lm_hidden(g->model, g->tape, x, 0, NULL, g->cache);
    h = h ? qkv_slice(g->tape, h, 1, n - 1, n) : NULL;
    const qkv_real *logits = qkv_data(g->tape, qkv_lm_logits(g->model, g->tape, h));
    if (!logits)
        return qkv_tape_status(g->tape);
    memcpy(g->logits, logits, g->V * sizeof *logits);
    for (size_t i = 0; i < g->V; i++)
        if (isnan(logits[i]))
            return qkv_fail(g->ctx, QKV_E_NUMERIC, "after %zu tokens the model's logit of token "
                            "%zu is not a number", qkv_lm_cache_length(g->cache), i);
    return QKV_OK;
}

/* Positions ran out: the last half of the window is read anew, from position 0. */
static qkv_status reread(generator *g, size_t *from)
{
    *from = g->all.count - (g->window > 1 ? (g->window + 1) / 2 : 1);
    qkv_lm_cache_truncate(g->cache, 0);
    return generate_step(g, g->all.data + *from, g->all.count - *from);
}

/* The cache holds tokens `from` on of all. */
static qkv_status generate_next(generator *g, size_t *from)
{
    size_t held = qkv_lm_cache_length(g->cache);
    size_t fresh = g->all.count - *from - held;
    if (qkv_lm_has_max_positions(g->model) && held + fresh > g->window)
        return reread(g, from);
    return generate_step(g, g->all.data + *from + held, fresh);
}

static qkv_status generate_set_up(generator *g, const int32_t *prompt, size_t n,
                                  const qkv_generate_options *o)
{
    g->V = qkv_lm_vocab(g->model);
    size_t positions = qkv_lm_positions(g->model);
    g->window = o->window ? o->window : positions;
    if (qkv_lm_has_max_positions(g->model) && g->window > positions)
        g->window = positions;
    size_t capacity = (n < g->window ? n : g->window) + o->tokens;
    if (qkv_lm_has_max_positions(g->model) && capacity > g->window)
        capacity = g->window;
    if (n == 0)
        return qkv_fail(g->ctx, QKV_E_ARGUMENT, "the prompt has no tokens");
    for (size_t i = 0; i < n; i++)
        if (prompt[i] < 0 || (size_t)prompt[i] >= g->V)
            return qkv_fail(g->ctx, QKV_E_ARGUMENT, "token %d of the prompt is not below %zu",
                            (int)prompt[i], g->V);
    qkv_status status = QKV_OK;
    g->tape = o->tape;
    if (!g->tape)
        status = qkv_tape_create(&g->tape, g->ctx);
    if (!status)
        status = qkv_lm_cache_create(&g->cache, g->model, 1, capacity);
    if (!status)
        qkv_lm_cache_window(g->cache, g->window);
    g->logits = qkv_malloc(g->ctx, g->V * sizeof *g->logits);
    g->order = qkv_malloc(g->ctx, 2 * g->V * sizeof *g->order);
    if (o->model_distribution)
        g->own = qkv_malloc(g->ctx, g->V * sizeof *g->own);
    if (!g->logits || !g->order || (o->model_distribution && !g->own))
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++)
        status = qkv_ids_add(&g->all, g->ctx, prompt[i]);
    return status;
}

static bool is_stop(const qkv_generate_options *o, int32_t id)
{
    for (size_t i = 0; i < o->stops; i++)
        if (o->stop[i] == id)
            return true;
    return false;
}

static qkv_status infer_generate_run(generator *g, size_t prompt, const qkv_generate_options *o,
                                     qkv_generate_fn *fn, void *user)
{
    qkv_rng r;
    qkv_rng_init(&r, o->seed, qkv_hash64("generate", 8) + o->index);
    size_t from = prompt > g->window ? prompt - g->window : 0;
    for (size_t i = 0; i < o->tokens; i++) {
        qkv_status status = generate_next(g, &from);
        if (status)
            return status;
        if (g->own) {
            memcpy(g->own, g->logits, g->V * sizeof *g->own);
            qkv_sampling_distribution(&(qkv_sampling){.temperature = 1}, g->own, g->V, NULL, 0,
                                      g->order);
        }
        qkv_sampling_distribution(&o->sampling, g->logits, g->V, g->all.data, g->all.count,
                                  g->order);
        int32_t id = qkv_sampling_draw(g->logits, g->V, qkv_rng_uniform(&r));
        if (id < 0 || is_stop(o, id))
            return QKV_OK;
        if ((status = qkv_ids_add(&g->all, g->ctx, id)) != QKV_OK)
            return status;
        if (fn && !fn(user, id, g->logits, g->own, g->V))
            return QKV_OK;
    }
    return QKV_OK;
}

qkv_status qkv_generate(qkv_model *m, const int32_t *prompt, size_t n,
                        const qkv_generate_options *options, qkv_generate_fn *fn, void *user,
                        qkv_ids *out)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    generator g = {.ctx = qkv_model_context(m), .model = m};
    qkv_status status = generate_set_up(&g, prompt, n, options);
    if (!status)
        status = infer_generate_run(&g, n, options, fn, user);
    if (!status && g.all.count > n && out) {
        size_t made = g.all.count - n;
        if (!qkv__ids_reserve(g.ctx, out, made)) {
            status = QKV_E_MEMORY;
        } else {
            memcpy(out->data + out->count, g.all.data + n, made * sizeof *out->data);
            out->count += made;
        }
    }
    qkv_lm_cache_destroy(g.cache);
    if (g.tape != options->tape)
        qkv_tape_destroy(g.tape);
    qkv_free(g.ctx, g.all.data);
    qkv_free(g.ctx, g.logits);
    qkv_free(g.ctx, g.own);
    qkv_free(g.ctx, g.order);
    return status;
}
