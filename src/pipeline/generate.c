/* generate.c - continuing a text, token by token. */
#include <string.h>

#include "pipeline/changing.h"
#include "pipeline/options.h"
#include "pipeline/pipeline.h"
#include "pipeline/prompts.h"
#include "qkv/gpt.h"
#include "qkv/pipeline_text.h"

static const char *const kv_names[] = {"f32", "bf16", "int8", NULL}; /* of qkv_kv_store */

#define FIELD(member) .offset = offsetof(qkv_pipeline_generate_options, member)
static const qkv_option rows[] = {
    {.flag = "prompt", .key = "prompt", .type = QKV_OPT_STRING, FIELD(prompt), .value = "TEXT",
     .initial = "\n", .help = "text to continue"},
    {.flag = "file", .key = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "FILE",
     .help = "file with the text to continue"},
    {.flag = "lines", .key = "lines", .type = QKV_OPT_STRING, FIELD(lines), .value = "FILE",
     .help = "file with a text to continue on each line"},
    {.flag = "tokens", .key = "tokens", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(tokens),
     .initial = "256", .help = "tokens to make at most"},
    {.flag = "count", .key = "count", .type = QKV_OPT_SIZE, .min = 1, .max = 1e6, FIELD(count),
     .initial = "1", .help = "continuations of each text"},
    {.flag = "batch", .key = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 4096, FIELD(batch),
     .initial = "8", .help = "texts that are made at once, where there are several"},
    {.flag = "kv", .key = "kv", .type = QKV_OPT_ENUM, FIELD(kv), .names = kv_names,
     .initial = "f32", .help = "how the cache stores keys and values"},
    QKV__SAMPLING_ROWS,
    {.flag = "window", .key = "window", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(window),
     .initial = "0", .help = "earlier tokens to look at; 0: as many as it was trained on"},
    {.flag = "show-next", .key = "show_next", .type = QKV_OPT_SIZE, .max = QKV_GENERATE_NEXT,
     FIELD(show_next), .value = "K", .initial = "0",
     .help = "show the model's K likeliest tokens at each step, and the one that was drawn"},
    {.flag = "change", .key = "changes", .type = QKV_OPT_LIST, FIELD(changes), .value = "CHANGE",
     .help = "scale, ablate or steer at a place, as in `qkv look`; as often as you like"},
    {.key = "seed", .type = QKV_OPT_U64, .flags = QKV_OPT_HIDDEN, FIELD(seed), .initial = "0",
     .help = "of the tokens drawn"},
};
QKV__OPTIONS(qkv_pipeline_generate, "Generating")

typedef struct {
    qkv_pipeline *p;
    const qkv_pipeline_generate_options *o;
    qkv__telling telling;
    qkv_changes *changes; /* NULL: none */
    qkv__prompts prompts;
    qkv_ids made;
    qkv_text texts;       /* of next, one after the other */
    qkv_next_token *next; /* (show_next + 1) */
    size_t index, count; /* of the continuation; of all */
    size_t tokens;  /* of it */
    int32_t last;   /* token of it, or of the prompt */
    qkv_status why; /* of an end that the listener wanted */
} job;

static qkv_status generate_report(const job *j, size_t tokens)
{
    return qkv__progress(j->p->ctx, "generating", "tokens", j->index * j->o->tokens + tokens,
                         j->count * j->o->tokens);
}

/* The most likely tokens, the first first, ties by rising id; their number. */
static size_t generate_rank(qkv_next_token *next, size_t most, const qkv_real *p, size_t V)
{
    size_t count = 0;
    for (size_t v = 0; v < V; v++) {
        if (!(p[v] > 0) || (count == most && (double)p[v] <= next[count - 1].probability))
            continue;
        size_t i = count < most ? count++ : count - 1;
        for (; i > 0 && next[i - 1].probability < (double)p[v]; i--)
            next[i] = next[i - 1];
        next[i] = (qkv_next_token){.id = (int32_t)v, .probability = (double)p[v]};
    }
    return count;
}

/* Appends what the token adds to the text that ends with `before`: a space belongs to it or not
 * depending on what it follows. */
static qkv_status generate_text_of(job *j, int32_t before, int32_t id)
{
    const int32_t pair[] = {before, id};
    qkv_text alone = {0}, both = {0};
    qkv_status status = qkv_tokenizer_decode(j->p->tokenizer, pair, 1, 0, &alone);
    if (!status)
        status = qkv_tokenizer_decode(j->p->tokenizer, pair, 2, 0, &both);
    bool follows = !status && both.len >= alone.len &&
                   (!alone.len || memcmp(alone.data, both.data, alone.len) == 0);
    size_t from = follows ? alone.len : 0;
    if (!status && !follows) {
        both.len = 0;
        status = qkv_tokenizer_decode(j->p->tokenizer, &id, 1, 0, &both);
    }
    if (!status && both.len > from)
        status = qkv__text_add(j->p->ctx, &j->texts, both.data + from, both.len - from)
                     ? QKV_OK
                     : QKV_E_MEMORY;
    qkv_text_free(&alone, j->p->ctx);
    qkv_text_free(&both, j->p->ctx);
    return status;
}

/* Fills next of a step at which id was drawn; *count is its length. */
static qkv_status generate_candidates(job *j, int32_t id, const qkv_real *p, size_t V,
                                      size_t *count)
{
    size_t n = generate_rank(j->next, j->o->show_next, p, V), at = 0;
    while (at < n && j->next[at].id != id)
        at++;
    if (at == n)
        j->next[n++] = (qkv_next_token){.id = id, .probability = (double)p[id]};
    j->next[at].drawn = true;
    qkv_status status = QKV_OK;
    j->texts.len = 0;
    for (size_t i = 0; i < n && !status; i++) {
        size_t from = j->texts.len;
        status = generate_text_of(j, j->last, j->next[i].id);
        j->next[i].len = j->texts.len - from;
    }
    for (size_t i = 0, from = 0; i < n; from += j->next[i++].len)
        j->next[i].text = j->texts.data ? j->texts.data + from : "";
    *count = n;
    return status;
}

static bool generate_on_token(void *user, int32_t id, const qkv_real *p, const qkv_real *model,
                              size_t V)
{
    job *j = user;
    qkv_generated token = {.id = id, .probabilities = p, .vocab = V, .model_probabilities = model,
                           .next = model ? j->next : NULL};
    if (model && (j->why = generate_candidates(j, id, model, V, &token.next_count)) != QKV_OK)
        return false;
    qkv__tell_token(&j->telling, j->index, token);
    j->last = id;
    j->why = generate_report(j, ++j->tokens);
    return !j->telling.stopped && !j->why;
}

static qkv_status generate_one(job *j)
{
    const qkv_pipeline *p = j->p;
    const qkv_ids *prompt = &j->prompts.list[j->index / j->o->count];
    int32_t ends[QKV_LM_EOS_IDS];
    qkv_generate_options o = qkv__generate_settings(p, j->o, ends);
    o.index = j->index;
    o.model_distribution = j->o->show_next > 0;
    if (j->changes)
        o.tape = p->tape;
    j->tokens = j->made.count = 0;
    j->last = prompt->data[prompt->count - 1];
    qkv_status status = qkv__tell_prompt(&j->telling, j->index, prompt);
    if (!status && !j->telling.stopped)
        status = qkv_generate(p->model, prompt->data, prompt->count, &o, generate_on_token, j,
                              &j->made);
    if (!status)
        status = j->why;
    if (!status)
        status = qkv__tell_end(&j->telling, j->index, &j->made);
    return status ? status : generate_report(j, j->o->tokens);
}

static qkv_status generate_make_room(job *j)
{
    if (j->o->show_next > QKV_GENERATE_NEXT)
        return qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "show_next is %zu; at most %d expected",
                        j->o->show_next, (int)QKV_GENERATE_NEXT);
    if (!j->o->show_next)
        return QKV_OK;
    j->next = qkv_calloc(j->p->ctx, j->o->show_next + 1, sizeof *j->next);
    return j->next ? QKV_OK : QKV_E_MEMORY;
}

/* One after another: what is watched or changed is one text at a time. */
static qkv_status generate_each(job *j)
{
    const qkv_pipeline *p = j->p;
    qkv_status status = generate_make_room(j);
    if (!status)
        status = qkv__changes_read(&j->changes, p->ctx, &j->o->changes);
    for (; j->index < j->count && !status && !j->telling.stopped; j->index++) {
        if (j->changes)
            status = qkv_changes_apply(j->changes, p->tape);
        if (!status)
            status = generate_one(j);
        if (j->changes)
            qkv_probes_clear(p->tape);
    }
    if (!status)
        status = qkv__changes_check(p, j->changes);
    qkv_changes_destroy(j->changes);
    return status;
}

qkv_status qkv_pipeline_generate(qkv_pipeline *p, const qkv_pipeline_generate_options *options,
                                 qkv_generated_fn *fn, void *user)
{
    const qkv_pipeline_generate_options o = options ? *options : qkv_pipeline_generate_defaults();
    job j = {.p = p, .o = &o, .telling = {.p = p, .fn = fn, .user = user}};
    if (!qkv_model_can(p->model, QKV_CAN_GENERATE) || qkv_model_can(p->model, QKV_CAN_SAMPLE_CODES))
        return qkv__pipeline_refuse(p, "continue text");
    qkv_status status = qkv__pipeline_text(p);
    if (!status)
        status = qkv__prompts_read(&j.prompts, p, &o);
    j.count = j.prompts.count * o.count;
    bool each = o.show_next || o.changes.count;
    bool together = !each && ((j.count > 1 && o.batch > 1) || o.kv != QKV_KV_F32);
    if (!status && each && o.kv != QKV_KV_F32)
        status = qkv_fail(p->ctx, QKV_E_ARGUMENT, "kv is %s: with show_next and changes the cache "
                          "stores f32", kv_names[o.kv]);
    if (!status)
        status = together ? qkv__generate_together(p, &j.prompts, &o, fn, user)
                          : generate_each(&j);
    qkv__prompts_free(&j.prompts, p->ctx);
    qkv_ids_free(&j.made, p->ctx);
    qkv__telling_free(&j.telling);
    qkv_text_free(&j.texts, p->ctx);
    qkv_free(p->ctx, j.next);
    return status;
}
