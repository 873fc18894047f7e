/* batch_step.c - one step of a batch: a pass for sequences that read a token or a few, one for
 * newcomers that read their prompts, and a token for each that has read all it has. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "infer/likeliest.h"
#include "infer/sequences.h"
#include "tensor/make.h"

enum { LOGIT_ROWS = 32 }; /* of a product; all of a large batch would be more than the weights */

/* ---- before a pass ------------------------------------------------------------------------ */

/* Room for what is read next. Learned positions ran out: the last half of the window is read anew,
 * from position 0. Rotary ones go on: what is out of sight makes room. */
static qkv_status batch_make_room(qkv_batch *b, size_t slot)
{
    qkv__sequence *s = &b->slots[slot];
    size_t fresh = qkv__sequence_fresh(s);
    if (b->fixed && s->held + fresh > s->window) {
        s->from = s->all.count - (s->window > 1 ? (s->window + 1) / 2 : 1);
        s->held = s->whole = 0;
    } else if (s->held + fresh > b->o.positions) {
        size_t keep = s->window - fresh, drop = s->held - keep;
        if (!qkv_lm_cache_copy(b->tape, b->cache, slot, slot, drop, keep))
            return qkv_tape_status(b->tape);
        s->base += drop;
        s->held = keep;
        s->whole = 0;
    }
    return qkv__ids_reserve(b->ctx, &s->all, 1) ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status batch_prepare(qkv_batch *b)
{
    qkv_status status = QKV_OK;
    qkv__batch_admit(b);
    for (size_t i = 0; i < b->o.sequences && !status; i++) {
        qkv__sequence *s = &b->slots[i];
        if (s->live && !s->tokens) {
            qkv__batch_event(b, s, QKV_BATCH_LENGTH, -1);
            qkv__batch_end(b, s);
        }
        if (s->live)
            status = batch_make_room(b, i);
    }
    return status;
}

/* The next `rows` tokens of a slot's sequence join the pass. */
static void batch_join(qkv_batch *b, size_t slot, size_t rows)
{
    qkv__pass *p = &b->pass;
    const qkv__sequence *s = &b->slots[slot];
    size_t i = p->count++, end = s->held + rows;
    p->slots[i] = (int32_t)slot;
    p->past[i] = (int32_t)s->held;
    p->first[i] = (int32_t)(end > s->window ? end - s->window : 0);
    p->positions[i] = (int32_t)(s->base + s->held);
    p->last[i] = rows == qkv__sequence_fresh(s) ? (int32_t)(p->rows + rows - 1) : -1;
    memcpy(p->ids + p->rows, s->all.data + s->from + s->base + s->held, rows * sizeof *p->ids);
    p->rows += rows;
    p->offsets[i + 1] = (int32_t)p->rows;
}

/* All that have few tokens to read, most of them one. */
static void batch_gather_few(qkv_batch *b)
{
    b->pass.count = b->pass.rows = 0;
    for (size_t i = 0; i < b->o.sequences; i++) {
        size_t fresh = b->slots[i].live ? qkv__sequence_fresh(&b->slots[i]) : 0;
        if (fresh && fresh <= QKV_BATCH_FEW)
            batch_join(b, i, fresh);
    }
}

/* The next reader of a prompt after sequence `after`, in the order of ids; o.sequences: none. */
static size_t batch_next_reader(const qkv_batch *b, uint64_t after)
{
    size_t next = b->o.sequences;
    for (size_t i = 0; i < b->o.sequences; i++) {
        const qkv__sequence *s = &b->slots[i];
        if (s->live && s->id > after && qkv__sequence_fresh(s) > QKV_BATCH_FEW &&
            (next == b->o.sequences || s->id < b->slots[next].id))
            next = i;
    }
    return next;
}

/* Parts of prompts. No part is so short that attention would read it by the other path. */
static void batch_gather_readers(qkv_batch *b)
{
    b->pass.count = b->pass.rows = 0;
    size_t i, left = b->o.chunk;
    for (uint64_t id = 0; left > QKV_BATCH_FEW; id = b->slots[i].id) {
        i = batch_next_reader(b, id);
        if (i == b->o.sequences)
            return;
        if (!qkv__batch_share(b, i))
            continue;
        size_t fresh = qkv__sequence_fresh(&b->slots[i]);
        size_t rows = fresh <= left + QKV_BATCH_FEW ? fresh : left;
        batch_join(b, i, rows);
        left -= rows < left ? rows : left;
    }
}

/* ---- after a pass ------------------------------------------------------------------------- */

static bool batch_stops(const qkv__sequence *s, int32_t id)
{
    for (size_t i = 0; i < s->stops; i++)
        if (s->stop[i] == id)
            return true;
    return id < 0;
}

/* The sequence's next token. */
static void batch_take(qkv_batch *b, qkv__sequence *s, int32_t id)
{
    if (batch_stops(s, id)) {
        qkv__batch_event(b, s, QKV_BATCH_STOP, -1);
        qkv__batch_end(b, s);
        return;
    }
    s->all.data[s->all.count++] = id; /* the room was made before the pass */
    b->stats.made++;
    qkv__batch_event(b, s, QKV_BATCH_TOKEN, id);
    if (s->all.count - s->prompt == s->tokens) {
        qkv__batch_event(b, s, QKV_BATCH_LENGTH, -1);
        qkv__batch_end(b, s);
    }
}

/* It, from its logits (V); QKV_E_NUMERIC: that of token *id is not a number. spare (V) and order
 * (2 V) are scratch. Sequences may choose at the same time. */
static qkv_status batch_choose(qkv__sequence *s, int32_t *id, const qkv_real *logits, size_t V,
                               qkv_real *spare, int32_t *order)
{
    for (size_t i = 0; i < V; i++)
        if (isnan(logits[i])) {
            *id = (int32_t)i;
            return QKV_E_NUMERIC;
        }
    memcpy(spare, logits, V * sizeof *logits);
    qkv_sampling_distribution(&s->sampling, spare, V, s->all.data, s->all.count, order);
    *id = qkv_sampling_draw(spare, V, qkv_rng_uniform(&s->random));
    return QKV_OK;
}

static void batch_fail(qkv_batch *b, qkv__sequence *s, int32_t id)
{
    qkv__batch_end(b, s);
    s->whole = 0;
    (void)qkv_fail(b->ctx, QKV_E_NUMERIC, "sequence %llu: after %zu tokens the model's logit of "
                   "token %d is not a number", (unsigned long long)s->id, s->all.count, (int)id);
}

/* The slot of the pass's sequence i holds what the pass has read. */
static void batch_advance(qkv_batch *b, size_t i, bool few)
{
    const qkv__pass *p = &b->pass;
    qkv__sequence *s = &b->slots[p->slots[i]];
    bool whole = !few && s->whole == s->held && !s->base;
    s->held += (size_t)(p->offsets[i + 1] - p->offsets[i]);
    if (whole)
        s->whole = s->held;
}

/* Rows of the pass whose sequences (of) get a token. */
typedef struct {
    int32_t rows[LOGIT_ROWS];
    size_t of[LOGIT_ROWS], n;
} batch_rows;

static qkv__sequence *batch_sequence(qkv_batch *b, const batch_rows *r, size_t i)
{
    return &b->slots[b->pass.slots[r->of[i]]];
}

/* Where all of them take the likeliest token. */
static bool batch_choose_likeliest(qkv_batch *b, qkv_tensor *logits, const batch_rows *r, bool few)
{
    int32_t ids[LOGIT_ROWS];
    qkv_real log_p[LOGIT_ROWS];
    bool all = logits != NULL;
    for (size_t i = 0; i < r->n && all; i++)
        all = qkv__takes_likeliest(&batch_sequence(b, r, i)->sampling);
    if (!all || !qkv__likeliest(b->tape, logits, ids, log_p))
        return false;
    for (size_t i = 0; i < r->n; i++) {
        qkv__sequence *s = batch_sequence(b, r, i);
        batch_advance(b, r->of[i], few);
        (void)qkv_rng_uniform(&s->random); /* as if it had been drawn */
        batch_take(b, s, ids[i]);
    }
    return true;
}

static qkv_status batch_choose_rows(qkv_batch *b, qkv_tensor *h, const batch_rows *r, bool few)
{
    size_t shape[] = {qkv_dim(h, 1), qkv_dim(h, 2)}, V = qkv_lm_vocab(b->model);
    qkv_tensor *chosen = qkv_embedding(b->tape, qkv_tensor_ids(b->tape, r->rows, 1, &r->n),
                                       qkv_reshape(b->tape, h, 2, shape), 1.0, NULL, NULL);
    qkv_tensor *all = qkv_lm_logits(b->model, b->tape, chosen);
    if (batch_choose_likeliest(b, all, r, few))
        return QKV_OK;
    const qkv_real *logits = qkv_data(b->tape, all);
    if (!logits)
        return qkv_tape_status(b->tape);
    int32_t ids[LOGIT_ROWS];
    qkv_status told[LOGIT_ROWS], status = QKV_OK;
#pragma omp parallel for num_threads((int)b->choosers) schedule(dynamic) default(none) \
    shared(b, r, logits, V, ids, told) if (r->n > 1)
    for (size_t i = 0; i < r->n; i++) {
        size_t thread = (size_t)omp_get_thread_num();
        told[i] = batch_choose(batch_sequence(b, r, i), &ids[i], logits + i * V, V,
                               b->logits + thread * V, b->order + thread * 2 * V);
    }
    for (size_t i = 0; i < r->n; i++) {
        qkv__sequence *s = batch_sequence(b, r, i);
        batch_advance(b, r->of[i], few);
        if (told[i])
            batch_fail(b, s, ids[i]);
        else
            batch_take(b, s, ids[i]);
        status = status ? status : told[i];
    }
    return status;
}

/* Tokens of some sequences of the pass, from number *next on, of which h (1, rows, width) has the
 * last row; *next moves past them. Only those advance whose logits there is memory for: another
 * step may read the others' rows again. */
static qkv_status batch_choose_some(qkv_batch *b, qkv_tensor *h, size_t *next, bool few)
{
    batch_rows r = {.n = 0};
    for (; *next < b->pass.count && r.n < LOGIT_ROWS; ++*next)
        if (b->pass.last[*next] >= 0) {
            r.of[r.n] = *next;
            r.rows[r.n++] = b->pass.last[*next];
        } else {
            batch_advance(b, *next, few);
        }
    return r.n ? batch_choose_rows(b, h, &r, few) : QKV_OK;
}

static qkv_status batch_run(qkv_batch *b, bool few)
{
    qkv__pass *p = &b->pass;
    if (!p->count)
        return qkv_tape_status(b->tape);
    qkv__begin_inference(b->tape);
    const qkv_kv_slots slots = {p->count, p->offsets, p->slots, p->past, p->first, p->positions};
    qkv_tensor *ids = qkv_tensor_ids(b->tape, p->ids, 2, (size_t[]){1, p->rows});
    qkv_tensor *h = qkv_lm_hidden_slots(b->model, b->tape, ids, &slots, b->cache);
    if (!h)
        return qkv_tape_status(b->tape);
    b->stats.passes++;
    b->stats.rows += p->rows;
    qkv_status status = QKV_OK;
    for (size_t next = 0; next < p->count && h;) {
        qkv_scope scope = qkv_scope_begin(b->tape);
        qkv_status some = batch_choose_some(b, h, &next, few);
        h = next < p->count ? qkv_scope_end(b->tape, scope, h) : h;
        status = status ? status : some;
    }
    return h || status ? status : qkv_tape_status(b->tape);
}

qkv_status qkv_batch_step(qkv_batch *b)
{
    b->event_count = 0;
    b->step++;
    qkv__begin_inference(b->tape);
    qkv_status status = batch_prepare(b);
    if (status)
        return status;
    batch_gather_readers(b);
    batch_gather_few(b);
    status = batch_run(b, true);
    batch_gather_readers(b);
    qkv_status readers = batch_run(b, false);
    return status ? status : readers;
}
