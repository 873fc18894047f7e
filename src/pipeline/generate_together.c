/* generate_together.c - several texts at once. They end in any order, and are told of in theirs:
 * the first that has not ended is told of as it is made, the others' tokens are kept until then. */
#include <string.h>

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "pipeline/prompts.h"
#include "qkv/batch.h"

typedef struct {
    uint64_t id; /* in the batch */
    qkv_ids made;
    bool ended;
} text_made;

typedef struct {
    qkv_pipeline *p;
    const qkv__prompts *prompts;
    const qkv_pipeline_generate_options *o;
    qkv__telling telling;
    qkv_batch *batch;
    text_made *texts; /* (count) */
    size_t count, added, first; /* first: that is told of; of it `told` tokens have been */
    size_t told, made;
} together;

static const qkv_ids *together_prompt(const together *g, size_t i)
{
    return &g->prompts->list[i / g->o->count];
}

/* ---- telling ------------------------------------------------------------------------------ */

static qkv_status together_tell_prompt(together *g)
{
    return qkv__tell_prompt(&g->telling, g->first, together_prompt(g, g->first));
}

/* All that is known of the first text that has not been told of whole, and of those after it. */
static qkv_status together_tell_all(together *g)
{
    qkv_status status = QKV_OK;
    while (!status && !g->telling.stopped && g->first < g->added) {
        text_made *t = &g->texts[g->first];
        for (; g->told < t->made.count && !g->telling.stopped; g->told++) {
            const qkv_generated token = {.id = t->made.data[g->told]};
            qkv__tell_token(&g->telling, g->first, token);
        }
        if (!t->ended && !g->telling.stopped)
            break;
        status = qkv__tell_end(&g->telling, g->first, &t->made);
        qkv_ids_free(&t->made, g->p->ctx);
        g->told = 0;
        if (++g->first < g->count && !status && !g->telling.stopped)
            status = together_tell_prompt(g);
    }
    return status;
}

/* ---- making ------------------------------------------------------------------------------- */

/* Memory for the longest. A window that slides leaves a quarter to slide in. */
static size_t together_positions(const together *g)
{
    const qkv_model *m = g->p->model;
    size_t most = qkv_lm_positions(m), window = g->o->window ? g->o->window : most, longest = 0;
    window = qkv_lm_has_max_positions(m) && window > most ? most : window;
    for (size_t i = 0; i < g->prompts->count; i++) {
        size_t n = g->prompts->list[i].count, read = n < window ? n : window;
        size_t need = g->o->tokens <= window - read ? read + g->o->tokens : window + window / 4 + 1;
        longest = need > longest ? need : longest;
    }
    return longest;
}

static qkv_status together_add(together *g)
{
    int32_t ends[QKV_LM_EOS_IDS];
    qkv_generate_options o = qkv__generate_settings(g->p, g->o, ends);
    qkv_status status = QKV_OK;
    while (!status && g->added < g->count && qkv_batch_waiting(g->batch) < g->o->batch) {
        const qkv_ids *prompt = together_prompt(g, g->added);
        o.index = g->added;
        status = qkv_batch_add(g->batch, prompt->data, prompt->count, &o,
                               &g->texts[g->added].id);
        g->added += !status;
    }
    return status;
}

/* Ids count up from 1, as texts do from 0. */
static qkv_status together_take(together *g)
{
    const qkv_batch_event *e;
    size_t n = qkv_batch_events(g->batch, &e);
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < n && !status; i++) {
        text_made *t = &g->texts[e[i].sequence - 1];
        if (e[i].kind == QKV_BATCH_TOKEN)
            status = qkv_ids_add(&t->made, g->p->ctx, e[i].id);
        else
            t->ended = true;
        g->made += e[i].kind == QKV_BATCH_TOKEN ? 1 : g->o->tokens - t->made.count;
    }
    return status;
}

static qkv_status together_run(together *g)
{
    qkv_status status = together_tell_prompt(g);
    while (!status && !g->telling.stopped && g->first < g->count) {
        status = together_add(g);
        if (!status)
            status = qkv_batch_step(g->batch);
        if (!status)
            status = together_take(g);
        if (!status)
            status = together_tell_all(g);
        if (!status)
            status = qkv__progress(g->p->ctx, "generating", "tokens", g->made,
                                   g->count * g->o->tokens);
    }
    return status;
}

qkv_status qkv__generate_together(qkv_pipeline *p, const qkv__prompts *prompts,
                                  const qkv_pipeline_generate_options *o, qkv_generated_fn *fn,
                                  void *user)
{
    together g = {.p = p, .prompts = prompts, .o = o,
                  .telling = {.p = p, .fn = fn, .user = user}};
    qkv_batch_options b = qkv_batch_defaults();
    qkv_status status = QKV_OK;
    if (!qkv__mul_size(prompts->count, o->count, &g.count) ||
        !(g.texts = qkv_calloc(p->ctx, g.count, sizeof *g.texts)))
        status = QKV_E_MEMORY;
    b.sequences = g.count < o->batch ? g.count : o->batch;
    b.positions = together_positions(&g);
    b.pack = b.sequences > 2;
    b.kv = o->kv;
    if (!status)
        status = qkv_batch_create(&g.batch, p->model, &b);
    if (!status)
        status = together_run(&g);
    for (size_t i = 0; g.texts && i < g.count; i++)
        qkv_ids_free(&g.texts[i].made, p->ctx);
    qkv_free(p->ctx, g.texts);
    qkv__telling_free(&g.telling);
    qkv_batch_destroy(g.batch);
    return status;
}
