/* batch.c - a batch of sequences that come and go: making it, adding to it, asking it. */
#include <string.h>

#include "infer/sequences.h"
#include "model/model.h"

enum { MOST_SEQUENCES = 4096, MOST_CHUNK = 65536, SPARE = 4 };

qkv_batch_options qkv_batch_defaults(void)
{
    return (qkv_batch_options){.sequences = 8, .chunk = 256, .share = true, .pack = true};
}

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status batch_check(qkv_context *ctx, const qkv_batch_options *o)
{
    if (!o->sequences || o->sequences > MOST_SEQUENCES)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "a batch of %zu sequences; 1 to %d expected",
                        o->sequences, (int)MOST_SEQUENCES);
    if (o->chunk < 2 * QKV_BATCH_FEW || o->chunk > MOST_CHUNK)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "chunks of %zu tokens; %d to %d expected", o->chunk,
                        2 * QKV_BATCH_FEW, (int)MOST_CHUNK);
    if (o->sequences * o->positions > INT32_MAX || o->positions > INT32_MAX)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%zu sequences of %zu positions are more than %d",
                        o->sequences, o->positions, (int)INT32_MAX);
    return QKV_OK;
}

/* A pass has at most a row a slot, or a chunk and those that may not be left over. */
static qkv_status batch_make_pass(qkv_batch *b)
{
    size_t most = b->o.sequences, rows = b->o.chunk + QKV_BATCH_FEW * (most + 1);
    int32_t *list = qkv_calloc(b->ctx, rows + 6 * (most + 1), sizeof *list);
    if (!list)
        return QKV_E_MEMORY;
    qkv__pass *p = &b->pass;
    p->ids = list;
    p->offsets = list + rows;
    p->slots = p->offsets + most + 1;
    p->past = p->slots + most + 1;
    p->first = p->past + most + 1;
    p->positions = p->first + most + 1;
    p->last = p->positions + most + 1;
    return QKV_OK;
}

static qkv_status batch_make(qkv_batch *b)
{
    size_t V = qkv_lm_vocab(b->model);
    qkv_status status = batch_check(b->ctx, &b->o);
    if (!status)
        status = qkv_tape_create(&b->tape, b->ctx);
    if (!status)
        status = qkv_lm_cache_create_as(&b->cache, b->model, b->o.kv, b->o.sequences,
                                        b->o.positions);
    if (!status)
        status = batch_make_pass(b);
    if (status)
        return status;
    qkv_tape_pack(b->tape, b->o.pack);
    qkv_tape_batch_invariant(b->tape, true);
    b->stats.cache_bytes = qkv_lm_cache_bytes(b->cache);
    b->slots = qkv_calloc(b->ctx, b->o.sequences, sizeof *b->slots);
    b->events = qkv_calloc(b->ctx, 2 * b->o.sequences, sizeof *b->events);
    size_t threads = (size_t)qkv_context_threads(b->ctx);
    b->choosers = threads < b->o.sequences ? threads : b->o.sequences;
    b->logits = qkv_malloc(b->ctx, b->choosers * V * sizeof *b->logits);
    b->order = qkv_malloc(b->ctx, b->choosers * 2 * V * sizeof *b->order);
    return b->slots && b->events && b->logits && b->order ? QKV_OK : QKV_E_MEMORY;
}

qkv_status qkv_batch_create(qkv_batch **out, qkv_model *m, const qkv_batch_options *options)
{
    *out = NULL;
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_GENERATE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    qkv_batch *b = qkv_calloc(ctx, 1, sizeof *b);
    if (!b)
        return QKV_E_MEMORY;
    *b = (qkv_batch){.ctx = ctx, .model = m, .o = options ? *options : qkv_batch_defaults(),
                     .fixed = qkv_lm_has_max_positions(m)};
    size_t positions = qkv_lm_positions(m);
    if (!b->o.positions)
        b->o.positions = b->fixed ? positions : positions + (positions + SPARE - 1) / SPARE;
    qkv_status status = batch_make(b);
    if (status) {
        qkv_batch_destroy(b);
        return status;
    }
    *out = b;
    return QKV_OK;
}

void qkv__sequence_free(qkv_context *ctx, qkv__sequence *s)
{
    qkv_ids_free(&s->all, ctx);
    qkv_free(ctx, s->stop);
    *s = (qkv__sequence){0};
}

void qkv_batch_destroy(qkv_batch *b)
{
    if (!b)
        return;
    for (size_t i = 0; b->slots && i < b->o.sequences; i++)
        qkv__sequence_free(b->ctx, &b->slots[i]);
    for (size_t i = 0; i < b->waiting_count; i++)
        qkv__sequence_free(b->ctx, &b->waiting[i]);
    qkv_lm_cache_destroy(b->cache);
    qkv_tape_destroy(b->tape);
    qkv_free(b->ctx, b->pass.ids);
    qkv_free(b->ctx, b->slots);
    qkv_free(b->ctx, b->waiting);
    qkv_free(b->ctx, b->events);
    qkv_free(b->ctx, b->logits);
    qkv_free(b->ctx, b->order);
    qkv_free(b->ctx, b);
}

/* ---- adding and removing -------------------------------------------------------------------- */

/* The tokens that the sequence's model sees at once. */
static size_t batch_window(const qkv_batch *b, const qkv_generate_options *o)
{
    size_t positions = qkv_lm_positions(b->model), window = o->window ? o->window : positions;
    return b->fixed && window > positions ? positions : window;
}

static qkv_status batch_check_prompt(const qkv_batch *b, const int32_t *prompt, size_t n,
                                     const qkv_generate_options *o)
{
    size_t V = qkv_lm_vocab(b->model), window = batch_window(b, o);
    if (n == 0)
        return qkv_fail(b->ctx, QKV_E_ARGUMENT, "the prompt has no tokens");
    for (size_t i = 0; i < n; i++)
        if (prompt[i] < 0 || (size_t)prompt[i] >= V)
            return qkv_fail(b->ctx, QKV_E_ARGUMENT, "token %d of the prompt is not below %zu",
                            (int)prompt[i], V);
    if (o->tape || o->model_distribution)
        return qkv_fail(b->ctx, QKV_E_ARGUMENT, "a batch has a tape of its own, and does not hand "
                        "on the model's distribution");
    size_t read = n < window ? n : window;
    size_t need = o->tokens < window - read ? read + o->tokens : window;
    if (need > b->o.positions)
        return qkv_fail(b->ctx, QKV_E_ARGUMENT, "a prompt of %zu tokens and %zu more need %zu "
                        "positions; the batch has %zu for a sequence", n, o->tokens, need,
                        b->o.positions);
    return QKV_OK;
}

/* A sequence that owns copies of what the caller gave. */
static qkv_status batch_fill(const qkv_batch *b, qkv__sequence *s, const int32_t *prompt, size_t n,
                             const qkv_generate_options *o)
{
    *s = (qkv__sequence){.prompt = n, .tokens = o->tokens, .window = batch_window(b, o),
                         .sampling = o->sampling, .stops = o->stops};
    s->from = n > s->window ? n - s->window : 0;
    qkv_rng_init(&s->random, o->seed, qkv_hash64("generate", 8) + o->index);
    s->stop = qkv_malloc(b->ctx, (o->stops + 1) * sizeof *s->stop);
    if (!s->stop || !qkv__ids_reserve(b->ctx, &s->all, n)) {
        qkv__sequence_free(b->ctx, s);
        return QKV_E_MEMORY;
    }
    if (o->stops)
        memcpy(s->stop, o->stop, o->stops * sizeof *s->stop);
    memcpy(s->all.data, prompt, n * sizeof *prompt);
    s->all.count = n;
    return QKV_OK;
}

qkv_status qkv_batch_add(qkv_batch *b, const int32_t *prompt, size_t n,
                         const qkv_generate_options *options, uint64_t *id)
{
    qkv__sequence s;
    qkv_status status = batch_check_prompt(b, prompt, n, options);
    if (!status && !qkv__grow(b->ctx, &b->waiting, &b->waiting_room, b->waiting_count + 1,
                              sizeof *b->waiting))
        status = QKV_E_MEMORY;
    if (!status)
        status = batch_fill(b, &s, prompt, n, options);
    if (status)
        return status;
    s.id = ++b->last_id;
    b->waiting[b->waiting_count++] = s;
    if (id)
        *id = s.id;
    return QKV_OK;
}

void qkv__batch_end(qkv_batch *b, qkv__sequence *s)
{
    s->live = false;
    s->ended = b->step;
}

qkv_status qkv_batch_remove(qkv_batch *b, uint64_t id)
{
    for (size_t i = 0; i < b->o.sequences; i++)
        if (b->slots[i].live && b->slots[i].id == id) {
            qkv__batch_end(b, &b->slots[i]);
            return QKV_OK;
        }
    for (size_t i = 0; i < b->waiting_count; i++)
        if (b->waiting[i].id == id) {
            qkv__sequence_free(b->ctx, &b->waiting[i]);
            b->waiting_count--;
            memmove(b->waiting + i, b->waiting + i + 1,
                    (b->waiting_count - i) * sizeof *b->waiting);
            return QKV_OK;
        }
    return qkv_fail(b->ctx, QKV_E_ARGUMENT, "the batch has no sequence %llu",
                    (unsigned long long)id);
}

/* ---- asking ------------------------------------------------------------------------------- */

/* In the order of ids: a sequence's events of a step are neighbours, so few are passed. */
void qkv__batch_event(qkv_batch *b, const qkv__sequence *s, qkv_batch_event_kind kind, int32_t id)
{
    size_t at = b->event_count++;
    for (; at > 0 && b->events[at - 1].sequence > s->id; at--)
        b->events[at] = b->events[at - 1];
    b->events[at] = (qkv_batch_event){.sequence = s->id, .kind = kind, .id = id};
}

size_t qkv_batch_events(const qkv_batch *b, const qkv_batch_event **out)
{
    *out = b->events;
    return b->event_count;
}

size_t qkv_batch_live(const qkv_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->o.sequences; i++)
        n += b->slots[i].live;
    return n;
}

size_t qkv_batch_waiting(const qkv_batch *b) { return b->waiting_count; }
qkv_batch_stats qkv_batch_statistics(const qkv_batch *b) { return b->stats; }
