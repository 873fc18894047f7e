/* generate.c - continuing text, one token at a time, with keys and values kept. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "infer/likeliest.h"
#include "model/model.h"
#include "qkv/infer.h"

typedef struct qkv_generator generator;
struct qkv_generator {
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *own_tape, *tape; /* tape: this, unless the caller has one */
    qkv_lm_cache *cache;
    qkv_ids all; /* the prompt and what was made */
    size_t from; /* the cache holds tokens `from` on of all */
    qkv_real *logits;
    qkv_real *own; /* (V) the model's distribution */
    int32_t *order;
    size_t V, window, capacity, reused;
    bool likeliest;   /* tokens are chosen where the logits lie */
    int32_t chosen;   /* so; -1: the logits have been copied */
    int32_t only;     /* where `logits` are a 1 among zeros; -1: they are not */
};

/* Logits of the token after ids (n), which come after what the cache holds; or that token. */
static qkv_status generate_step(generator *g, const int32_t *ids, size_t n)
{
    size_t shape[] = {1, n};
    qkv_tape_reset(g->tape);
    qkv_tape_mode(g->tape, false, false);
    qkv_tensor *x = qkv_tensor_ids(g->tape, ids, 2, shape);
    qkv_tensor *h = qkv_lm_hidden(g->model, g->tape, x, 0, NULL, g->cache);
    h = h ? qkv_slice(g->tape, h, 1, n - 1, n) : NULL;
    qkv_tensor *all = qkv_lm_logits(g->model, g->tape, h);
    qkv_real log_p;
    if (g->likeliest && qkv__likeliest(g->tape, all, &g->chosen, &log_p))
        return QKV_OK;
    g->chosen = g->only = -1;
    const qkv_real *logits = qkv_data(g->tape, all);
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
static qkv_status reread(generator *g)
{
    g->from = g->all.count - (g->window > 1 ? (g->window + 1) / 2 : 1);
    qkv_lm_cache_truncate(g->cache, 0);
    return generate_step(g, g->all.data + g->from, g->all.count - g->from);
}

static qkv_status generate_next(generator *g)
{
    size_t held = qkv_lm_cache_length(g->cache);
    size_t fresh = g->all.count - g->from - held;
    if (qkv_lm_has_max_positions(g->model) && held + fresh > g->window)
        return reread(g);
    return generate_step(g, g->all.data + g->from + held, fresh);
}

/* How many of the first tokens of the prompt (n), all but the last at most, the cache holds. */
static size_t held_prefix(const generator *g, const int32_t *prompt, size_t n, size_t window)
{
    size_t held = g->cache ? qkv_lm_cache_length(g->cache) : 0, same = 0;
    if (g->from || window != g->window || n > window)
        return 0;
    if (held > g->all.count)
        held = g->all.count;
    while (same < held && same + 1 < n && g->all.data[same] == prompt[same])
        same++;
    return same;
}

/* A cache with the keys and values of the prompt's first `reused` tokens, and room. */
static qkv_status generate_cache(generator *g, size_t capacity)
{
    if (g->reused) {
        qkv_lm_cache_truncate(g->cache, g->reused);
        if (capacity <= g->capacity)
            return QKV_OK;
        qkv_tape_reset(g->own_tape);
        if (qkv_lm_cache_reserve(g->own_tape, g->cache, capacity)) {
            g->capacity = capacity;
            return QKV_OK;
        }
        qkv_lm_cache_destroy(g->cache);
        g->cache = NULL;
        return qkv_tape_status(g->own_tape);
    }
    qkv_lm_cache_destroy(g->cache);
    g->cache = NULL;
    g->capacity = capacity;
    qkv_status status = qkv_lm_cache_create(&g->cache, g->model, 1, capacity);
    if (!status)
        qkv_lm_cache_window(g->cache, g->window);
    return status;
}

static qkv_status generate_set_up(generator *g, const int32_t *prompt, size_t n,
                                  const qkv_generate_options *o)
{
    size_t positions = qkv_lm_positions(g->model);
    size_t window = o->window ? o->window : positions;
    if (qkv_lm_has_max_positions(g->model) && window > positions)
        window = positions;
    size_t capacity = (n < window ? n : window) + o->tokens;
    if (qkv_lm_has_max_positions(g->model) && capacity > window)
        capacity = window;
    if (n == 0)
        return qkv_fail(g->ctx, QKV_E_ARGUMENT, "the prompt has no tokens");
    for (size_t i = 0; i < n; i++)
        if (prompt[i] < 0 || (size_t)prompt[i] >= g->V)
            return qkv_fail(g->ctx, QKV_E_ARGUMENT, "token %d of the prompt is not below %zu",
                            (int)prompt[i], g->V);
    g->tape = o->tape ? o->tape : g->own_tape;
    g->reused = held_prefix(g, prompt, n, window);
    g->window = window;
    g->from = n > window ? n - window : 0;
    g->all.count = 0;
    qkv_status status = generate_cache(g, capacity);
    if (!status && o->model_distribution && !g->own)
        g->own = qkv_malloc(g->ctx, g->V * sizeof *g->own);
    if (!status && o->model_distribution && !g->own)
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

/* All probability to the token that was chosen. */
static void generate_only(generator *g)
{
    if (g->only < 0)
        memset(g->logits, 0, g->V * sizeof *g->logits);
    else
        g->logits[g->only] = 0;
    g->only = g->chosen;
    g->logits[g->only] = 1;
}

/* The next token, whose distribution stays in g->logits. */
static int32_t generate_choose(generator *g, const qkv_sampling *sampling, double u)
{
    if (g->chosen >= 0) {
        generate_only(g);
        return g->chosen;
    }
    qkv_sampling_distribution(sampling, g->logits, g->V, g->all.data, g->all.count, g->order);
    return qkv_sampling_draw(g->logits, g->V, u);
}

static qkv_status infer_generate_run(generator *g, const qkv_generate_options *o,
                                     qkv_generate_fn *fn, void *user)
{
    qkv_real *own = o->model_distribution ? g->own : NULL;
    qkv_rng r;
    qkv_rng_init(&r, o->seed, qkv_hash64("generate", 8) + o->index);
    g->likeliest = !own && qkv__takes_likeliest(&o->sampling);
    g->only = -1; /* the caller may have written there */
    for (size_t i = 0; i < o->tokens; i++) {
        qkv_status status = generate_next(g);
        if (status)
            return status;
        if (own) {
            memcpy(own, g->logits, g->V * sizeof *own);
            qkv_sampling_distribution(&(qkv_sampling){.temperature = 1}, own, g->V, NULL, 0,
                                      g->order);
        }
        int32_t id = generate_choose(g, &o->sampling, qkv_rng_uniform(&r));
        if (id < 0 || is_stop(o, id))
            return QKV_OK;
        if ((status = qkv_ids_add(&g->all, g->ctx, id)) != QKV_OK)
            return status;
        if (fn && !fn(user, id, g->logits, own, g->V))
            return QKV_OK;
    }
    return QKV_OK;
}

qkv_status qkv_generator_create(qkv_generator **out, qkv_model *m)
{
    *out = NULL;
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    generator *g = qkv_calloc(ctx, 1, sizeof *g);
    if (!g)
        return QKV_E_MEMORY;
    *g = (generator){.ctx = ctx, .model = m, .V = qkv_lm_vocab(m)};
    qkv_status status = qkv_tape_create(&g->own_tape, ctx);
    g->logits = qkv_malloc(ctx, g->V * sizeof *g->logits);
    g->order = qkv_malloc(ctx, 2 * g->V * sizeof *g->order);
    if (!status && (!g->logits || !g->order))
        status = QKV_E_MEMORY;
    if (status)
        qkv_generator_destroy(g);
    else
        *out = g;
    return status;
}

void qkv_generator_destroy(qkv_generator *g)
{
    if (!g)
        return;
    qkv_lm_cache_destroy(g->cache);
    qkv_tape_destroy(g->own_tape);
    qkv_ids_free(&g->all, g->ctx);
    qkv_free(g->ctx, g->logits);
    qkv_free(g->ctx, g->own);
    qkv_free(g->ctx, g->order);
    qkv_free(g->ctx, g);
}

size_t qkv_generator_reused(const qkv_generator *g) { return g->reused; }

qkv_status qkv_generator_run(qkv_generator *g, const int32_t *prompt, size_t n,
                             const qkv_generate_options *options, qkv_generate_fn *fn, void *user,
                             qkv_ids *out)
{
    qkv_status status = generate_set_up(g, prompt, n, options);
    if (!status)
        status = infer_generate_run(g, options, fn, user);
    size_t made = g->all.count > n ? g->all.count - n : 0;
    if (!status && made && out) {
        if (!qkv__ids_reserve(g->ctx, out, made))
            return QKV_E_MEMORY;
        memcpy(out->data + out->count, g->all.data + n, made * sizeof *out->data);
        out->count += made;
    }
    return status;
}

qkv_status qkv_generate(qkv_model *m, const int32_t *prompt, size_t n,
                        const qkv_generate_options *options, qkv_generate_fn *fn, void *user,
                        qkv_ids *out)
{
    qkv_generator *g;
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    qkv_status status = qkv_generator_create(&g, m);
    if (!status)
        status = qkv_generator_run(g, prompt, n, options, fn, user, out);
    qkv_generator_destroy(g);
    return status;
}
