/* beam_search.c - beam search over a batch of sentences: what runs of all of them are the rows of
 * one pass of the decoder. A sentence that is finished leaves, and the last one takes its rows. */
#include <math.h>
#include <string.h>

#include "dist/dist.h"
#include "model/model.h"
#include "qkv/marian.h"
#include "infer/beam.h"
#include "infer/beam_list.h"
#include "infer/beam_models.h"

enum { FIRST_CAPACITY = 32 }; /* positions that caches have room for at first */
enum { UNPACKED = 3, WARM = 4 }; /* products before a weight is packed; rows of one that counts */

struct qkv_beam_search {
    qkv_context *ctx;
    qkv__beam_models models;
    qkv_generation g;
    size_t k, most; /* tokens asked for of each row; tokens of the longest answer */
    qkv_tape *tape;
    qkv__tree tree;
    qkv__beam_list list;
    qkv_beam_stats stats;

    /* Room for `sentences` sentences and their beams. */
    size_t sentences;
    qkv__sentence *sentence;  /* (sentences): the first `active` run, the others are done */
    qkv__beam *beams;         /* (sentences, 2, beams), and k candidates behind them */
    int32_t *begins, *lengths, *queries; /* (sentences), (sentences), (sentences + 1) */
    int32_t *tokens, *ids;    /* (rows), (rows, k) */
    qkv_real *log_p;          /* (rows, k) */
    size_t *picks;            /* (rows): the row that each was one step before */
    size_t active;

    qkv_hypothesis *found; /* (asked, beams): by sentence and rank */
    int32_t *said;         /* their ids */
    size_t asked;          /* sentences of the last run */
    size_t dealt;          /* batches that ranks have shared out */
};

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status beam_search_check(const qkv_model *m, const qkv_generation *g)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_marian_config *c = qkv_model_config(m);
    if (g->beams < 1 || g->beams > QKV_BEAMS || 2 * g->beams + g->ban_count > c->vocab)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%zu beams: 1 to %d are possible, and no more than "
                        "half of the %zu tokens", g->beams, QKV_BEAMS, c->vocab);
    if (g->start < 0 || (size_t)g->start >= c->vocab ||
        (g->forced_eos >= 0 && (size_t)g->forced_eos >= c->vocab))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "token %d to start with, %d to end with: the "
                        "vocabulary has %zu", g->start, g->forced_eos, c->vocab);
    if (!isfinite(g->length_penalty) || !isfinite(g->length_factor))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the length penalty or factor is not a number");
    return QKV_OK;
}

/* How many tokens an answer may have. */
static qkv_status find_most(qkv_beam_search *s)
{
    const qkv_marian_config *c = qkv_model_config(qkv_beam_search_model(s));
    const qkv_generation *g = &s->g;
    size_t most = g->max_new_tokens ? g->max_new_tokens
                  : g->max_length   ? g->max_length - 1
                                    : c->positions;
    if (most < 1 || most > c->positions)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "answers of %zu tokens: the model has positions "
                        "for 1 to %zu", most, c->positions);
    s->most = most;
    return QKV_OK;
}

qkv_status qkv_beam_search_create(qkv_beam_search **out, qkv_model *m, const qkv_generation *g)
{
    qkv_context *ctx = qkv_model_context(m);
    *out = NULL;
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    qkv_status status = beam_search_check(m, g);
    if (status)
        return status;
    qkv_beam_search *s = qkv_calloc(ctx, 1, sizeof *s);
    if (!s)
        return QKV_E_MEMORY;
    *s = (qkv_beam_search){.ctx = ctx, .models.ctx = ctx, .g = *g, .tree.ctx = ctx};
    s->k = (g->eos_count > 1 ? 1 + g->eos_count : 2) * g->beams;
    status = qkv__beam_models_add(&s->models, m);
    if (!status)
        status = find_most(s);
    if (!status)
        status = qkv_tape_create(&s->tape, ctx);
    if (!status)
        qkv_tape_pack(s->tape, true);
    if (status) {
        qkv_beam_search_destroy(s);
        return status;
    }
    *out = s;
    return QKV_OK;
}

qkv_status qkv_beam_search_add(qkv_beam_search *s, qkv_model *m)
{
    return qkv__model_as(m, NULL, __func__, QKV_CAN_TRANSLATE) ? qkv__beam_models_add(&s->models, m)
                                                               : QKV_E_ARGUMENT;
}

static void free_room(qkv_beam_search *s)
{
    void *all[] = {s->sentence, s->beams, s->begins, s->tokens, s->ids, s->log_p, s->picks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        qkv_free(s->ctx, all[i]);
    s->sentence = NULL;
    s->beams = NULL;
    s->begins = s->tokens = s->ids = NULL;
    s->log_p = NULL;
    s->picks = NULL;
    s->sentences = 0;
}

static void free_found(qkv_beam_search *s)
{
    qkv_free(s->ctx, s->found);
    qkv_free(s->ctx, s->said);
    s->found = NULL;
    s->said = NULL;
    s->asked = 0;
}

void qkv_beam_search_destroy(qkv_beam_search *s)
{
    if (!s)
        return;
    free_room(s);
    free_found(s);
    qkv__beam_models_free(&s->models);
    qkv_tape_destroy(s->tape);
    qkv_ids_free(&s->list.tokens, s->ctx);
    qkv_free(s->ctx, s->tree.nodes);
    qkv_free(s->ctx, s);
}

static qkv_status beam_search_make_room(qkv_beam_search *s, size_t n)
{
    size_t beams = s->g.beams, rows = n * beams;
    if (n <= s->sentences)
        return QKV_OK;
    free_room(s);
    s->sentence = qkv_calloc(s->ctx, n, sizeof *s->sentence);
    s->beams = qkv_calloc(s->ctx, 2 * rows + s->k + 1, sizeof *s->beams);
    s->begins = qkv_calloc(s->ctx, 3 * n + 1, sizeof *s->begins);
    s->tokens = qkv_calloc(s->ctx, rows, sizeof *s->tokens);
    s->ids = qkv_calloc(s->ctx, rows, s->k * sizeof *s->ids);
    s->log_p = qkv_calloc(s->ctx, rows, s->k * sizeof *s->log_p);
    s->picks = qkv_calloc(s->ctx, rows, sizeof *s->picks);
    if (!s->sentence || !s->beams || !s->begins || !s->tokens || !s->ids || !s->log_p || !s->picks)
        return QKV_E_MEMORY;
    s->lengths = s->begins + n;
    s->queries = s->lengths + n;
    s->sentences = n;
    return QKV_OK;
}

/* Tokens that the answer to a sentence of n tokens may have. */
static size_t most_of(const qkv_beam_search *s, int32_t n)
{
    double most = s->g.length_factor * n + QKV_LENGTH_SPARE;
    return s->g.length_factor > 0 && most < (double)s->most ? (size_t)most : s->most;
}

/* ---- the batch ------------------------------------------------------------------------------ */

static qkv_status beam_search_begin(qkv_beam_search *s, const int32_t *offsets, size_t n)
{
    size_t beams = s->g.beams, capacity = s->most < FIRST_CAPACITY ? s->most : FIRST_CAPACITY;
    if (n == 0 || offsets[0] != 0)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "no sentences, or none that begins at 0");
    for (size_t i = 0; i < n; i++)
        if (offsets[i + 1] <= offsets[i])
            return qkv_fail(s->ctx, QKV_E_ARGUMENT, "sentence %zu has no tokens", i);
    qkv_status status = beam_search_make_room(s, n);
    if (!status)
        status = qkv__beam_models_begin(&s->models, n * beams, capacity, (size_t)offsets[n]);
    for (size_t i = 0; i < n && !status; i++) {
        qkv__beam *room = s->beams + 2 * i * beams;
        s->sentence[i] = (qkv__sentence){.running = 1, .run = room, .done = room + beams, .row = i,
                                         .index = i,
                                         .most = most_of(s, offsets[i + 1] - offsets[i])};
        room[0] = (qkv__beam){.node = -1, .token = s->g.start};
        s->picks[i] = i;
    }
    s->active = n;
    s->tree.count = 0;
    return status;
}

/* log_p and ids of the likeliest of the tokens that are chosen among. */
static bool beam_search_choose(qkv_beam_search *s, qkv_tensor *logits, size_t rows)
{
    const qkv__beam_list *l = &s->list;
    const qkv_generation *g = &s->g;
    bool few = l->tokens.count > 0;
    const qkv_topk_options top = {.k = s->k, .banned = few ? l->banned : g->banned,
                                  .bans = few ? l->bans : g->ban_count,
                                  .renormalize = g->renormalize};
    if (!qkv_topk(s->tape, logits, &top, s->log_p, s->ids))
        return false;
    if (few)
        qkv__beam_list_name(l, s->ids, rows * s->k);
    s->stats.choices += qkv_count(logits);
    return true;
}

/* Runs the decoders on the last token of every row: log_p and ids of the likeliest ones. */
static qkv_status look_ahead(qkv_beam_search *s, const int32_t *offsets, size_t length)
{
    qkv_tape *t = s->tape;
    size_t rows = 0;
    for (size_t i = 0; i < s->active; i++) {
        const qkv__sentence *x = &s->sentence[i];
        s->begins[i] = offsets[x->index];
        s->lengths[i] = offsets[x->index + 1] - offsets[x->index];
        s->queries[i] = (int32_t)rows;
        for (size_t b = 0; b < x->running; b++)
            s->tokens[rows++] = x->run[b].token;
    }
    s->queries[s->active] = (int32_t)rows;
    qkv_marian_side source = {.sequences = s->active, .begins = s->begins, .lengths = s->lengths,
                              .queries = s->queries};
    qkv_marian_side target = {.ids = qkv_tensor_ids(t, s->tokens, 2, (size_t[]){rows, 1})};
    size_t capacity = FIRST_CAPACITY;
    while (capacity < length)
        capacity *= 2;
    (void)qkv__beam_models_reserve(&s->models, t, capacity < s->most ? capacity : s->most);
    if (!beam_search_choose(s, qkv__beam_models_logits(&s->models, t, &target, &source), rows))
        return qkv_tape_status(t);
    s->stats.rows += rows;
    s->stats.steps++;
    for (size_t r = 0; r < rows; r++)
        if (isnan(s->log_p[r * s->k]) || s->ids[r * s->k] < 0)
            return qkv_fail(s->ctx, QKV_E_NUMERIC, "after %zu tokens no token is likelier than "
                            "others: a logit is not a number", length - 1);
    return QKV_OK;
}

/* The same where the last token is not the model's choice. */
static void force_end(qkv_beam_search *s)
{
    size_t rows = 0;
    for (size_t i = 0; i < s->active; i++)
        rows += s->sentence[i].running;
    for (size_t r = 0; r < rows; r++) {
        s->log_p[r * s->k] = 0;
        s->ids[r * s->k] = s->g.forced_eos;
        if (s->k > 1)
            s->ids[r * s->k + 1] = -1;
    }
}

/* Every sentence takes its step; those that are over change places with the last ones. */
static qkv_status advance(qkv_beam_search *s, size_t length)
{
    qkv__beam_step step = {&s->g, s->k, length, s->most,
                           s->beams + 2 * s->sentences * s->g.beams};
    for (size_t i = 0; i < s->active; i++) {
        qkv__sentence *x = &s->sentence[i];
        qkv_status status = qkv__beam_advance(x, &s->tree, &step, s->log_p + x->row * s->k,
                                              s->ids + x->row * s->k);
        if (status)
            return status;
    }
    for (size_t i = 0; i < s->active;) {
        qkv__sentence leaves = s->sentence[i];
        if (!leaves.over) {
            i++;
            continue;
        }
        s->sentence[i] = s->sentence[--s->active];
        s->sentence[s->active] = leaves;
    }
    return QKV_OK;
}

/* The caches follow: row by row, which row of the last step it goes on from. */
static qkv_status beam_search_follow(qkv_beam_search *s)
{
    size_t rows = 0;
    for (size_t i = 0; i < s->active; i++) {
        qkv__sentence *x = &s->sentence[i];
        for (size_t b = 0; b < x->running; b++)
            s->picks[rows + b] = x->row + x->run[b].from;
        x->row = rows;
        rows += x->running;
    }
    return qkv__beam_models_select(&s->models, s->tape, s->picks, rows)
               ? QKV_OK : qkv_tape_status(s->tape);
}

/* ---- what was found -------------------------------------------------------------------- */

static size_t beam_search_length_of(const qkv__tree *t, int32_t node)
{
    size_t n = 0;
    for (; node >= 0; node = t->nodes[node].parent)
        n++;
    return n;
}

static qkv_status beam_search_collect(qkv_beam_search *s, size_t n)
{
    size_t total = 0, beams = s->g.beams;
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < s->sentence[i].finished; b++)
            total += beam_search_length_of(&s->tree, s->sentence[i].done[b].node);
    s->found = qkv_calloc(s->ctx, n * beams, sizeof *s->found);
    s->said = qkv_calloc(s->ctx, total + 1, sizeof *s->said);
    if (!s->found || !s->said)
        return QKV_E_MEMORY;
    int32_t *to = s->said;
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < s->sentence[i].finished; b++) {
            const qkv__beam *done = &s->sentence[i].done[b];
            size_t count = beam_search_length_of(&s->tree, done->node), at = count;
            for (int32_t node = done->node; node >= 0; node = s->tree.nodes[node].parent)
                to[--at] = s->tree.nodes[node].token;
            s->found[s->sentence[i].index * beams + b] =
                (qkv_hypothesis){to, count, (double)done->log_p, (double)done->score};
            to += count;
        }
    s->asked = n;
    s->stats.sentences += n;
    return QKV_OK;
}

static qkv_status beam_search_search(qkv_beam_search *s, const int32_t *ids, const int32_t *offsets,
                                     size_t n)
{
    size_t shape[] = {1, (size_t)offsets[n]};
    qkv_tape_reset(s->tape);
    qkv_tape_mode(s->tape, false, false);
    qkv_marian_side source = {.ids = qkv_tensor_ids(s->tape, ids, 2, shape), .sequences = n,
                              .offsets = offsets};
    qkv_status status = QKV_OK;
    qkv__beam_models_encode(&s->models, s->tape, &source);
    (void)qkv__beam_models_select(&s->models, s->tape, s->picks, n);
    s->stats.source_rows += shape[1];
    for (size_t length = 1; s->active && !status; length++) {
        if (length == s->most && s->g.forced_eos >= 0)
            force_end(s);
        else
            status = look_ahead(s, offsets, length);
        if (!status)
            status = advance(s, length);
        qkv_tape_reset(s->tape);
        qkv_tape_mode(s->tape, false, false);
        if (!status)
            status = beam_search_follow(s);
    }
    return status ? status : beam_search_collect(s, n);
}

qkv_status qkv_beam_search_run(qkv_beam_search *s, const int32_t *ids, const int32_t *offsets,
                               size_t n)
{
    free_found(s);
    qkv_status status = beam_search_begin(s, offsets, n);
    if (!status)
        status = qkv__beam_list_begin(&s->list, qkv_beam_search_model(s), &s->g, s->k, ids,
                                      (size_t)offsets[n]);
    if (!status && s->list.tokens.count)
        status = qkv__beam_models_choices(&s->models, s->list.tokens.data, s->list.tokens.count);
    if (!status)
        status = beam_search_search(s, ids, offsets, n);
    s->list.tokens.count = 0;
    qkv__beam_models_end(&s->models);
    return status;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Encodes WARM sentences and takes a step of them, so often that all weights are packed. */
static qkv_status warm_up(qkv_beam_search *s)
{
    const int32_t x = s->g.start;
    const int32_t ids[WARM] = {x, x, x, x}, offsets[WARM + 1] = {0, 1, 2, 3, 4};
    const qkv_beam_stats stats = s->stats;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i <= UNPACKED && !status; i++) {
        status = beam_search_begin(s, offsets, WARM);
        if (status)
            break;
        qkv_tape_reset(s->tape);
        qkv_tape_mode(s->tape, false, false);
        qkv_marian_side source = {.ids = qkv_tensor_ids(s->tape, ids, 2, (size_t[]){1, WARM}),
                                  .sequences = WARM, .offsets = offsets};
        qkv__beam_models_encode(&s->models, s->tape, &source);
        (void)qkv__beam_models_select(&s->models, s->tape, s->picks, WARM);
        status = look_ahead(s, offsets, 1);
        qkv__beam_models_end(&s->models);
    }
    s->stats = stats;
    return status;
}

/* Products with weights have other bits before these are packed, which the first batches do. So
 * the first rank searches them, as the only rank would; others begin with packed weights, and have
 * as many more of the next. */
qkv_status qkv__beam_search_deal(qkv_beam_search *s, size_t *rank)
{
    size_t size = (size_t)qkv_dist_size(s->ctx), batch = s->dealt++;
    size_t next = batch - UNPACKED, ahead = UNPACKED * (size - 1);
    *rank = batch < UNPACKED || size == 1 ? 0
            : next < ahead                ? 1 + next % (size - 1)
                                          : (next - ahead) % size;
    return batch == 0 && qkv_dist_rank(s->ctx) > 0 ? warm_up(s) : QKV_OK;
}

qkv_status qkv_beam_search_shortlist(qkv_beam_search *s, const qkv_shortlist *list,
                                     const qkv_shortlist_options *options)
{
    const qkv_marian_config *c = qkv_model_config(qkv_beam_search_model(s));
    if (list && qkv_shortlist_vocab(list) != c->vocab)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "a shortlist of %zu tokens: the model has %zu",
                        qkv_shortlist_vocab(list), c->vocab);
    s->list.from = list;
    if (list)
        s->list.o = *options;
    return QKV_OK;
}

const qkv_hypothesis *qkv_beam_search_found(const qkv_beam_search *s, size_t sentence, size_t rank)
{
    const qkv_hypothesis *h = s->found + sentence * s->g.beams + rank;
    return sentence < s->asked && rank < s->g.beams && h->ids ? h : NULL;
}

void qkv_beam_search_pack(qkv_beam_search *s, bool pack) { qkv_tape_pack(s->tape, pack); }
size_t qkv__beam_search_beams(const qkv_beam_search *s) { return s->g.beams; }
qkv_beam_stats qkv_beam_search_stats(const qkv_beam_search *s) { return s->stats; }
qkv_model *qkv_beam_search_model(const qkv_beam_search *s) { return s->models.models[0].model; }
