/* tape.c - the tape: step memory, sticky errors, the graph of what was computed, names. */
#include "tensor/tape.h"

#include <stdio.h>
#include <string.h>

#include "tensor/param.h"

static uint64_t epochs; /* distinct over all tapes, so that a stale leaf is never taken for new */

static uint64_t next_epoch(void) { return __atomic_add_fetch(&epochs, 1, __ATOMIC_RELAXED); }

static qkv_status tape_create_memory(qkv_tape *t, qkv__memory *m)
{
    qkv_status status = qkv__arena_create_on(&m->step, t->ctx, t->device, "step");
    return status ? status : qkv__arena_create(&m->host, t->ctx, "step");
}

qkv_status qkv_tape_create(qkv_tape **out, qkv_context *ctx)
{
    *out = NULL;
    qkv_tape *t = qkv_calloc(ctx, 1, sizeof *t);
    if (!t)
        return QKV_E_MEMORY;
    t->ctx = ctx;
    (void)qkv_machine_products(ctx);
    t->k = qkv__kernels_of(ctx, true);
    t->exec = qkv__exec_of(ctx, NULL);
    t->record = true;
    t->epoch = next_epoch();
    t->device = qkv__context_device(ctx);
    if (tape_create_memory(t, &t->kept) || tape_create_memory(t, &t->brief) ||
        qkv__arena_create_on(&t->remade, ctx, t->device, "step") ||
        qkv__arena_create_on(&t->exec.scratch, ctx, t->device, "scratch")) {
        qkv_tape_destroy(t);
        return QKV_E_MEMORY;
    }
    t->step = t->kept.step;
    t->host = t->kept.host;
    *out = t;
    return QKV_OK;
}

void qkv_tape_destroy(qkv_tape *t)
{
    if (!t)
        return;
    qkv_probes_clear(t);
    qkv__lend_end(&t->lender);
    t->device->sync(t->ctx);
    qkv__arena_destroy(t->kept.step);
    qkv__arena_destroy(t->kept.host);
    qkv__arena_destroy(t->brief.step);
    qkv__arena_destroy(t->brief.host);
    qkv__arena_destroy(t->remade);
    qkv__arena_destroy(t->exec.scratch);
    qkv_free(t->ctx, t);
}

void qkv_tape_reset(qkv_tape *t)
{
    t->status = t->device->check(t->ctx);
    qkv__lend_end(&t->lender);
    qkv__arena_reset(t->kept.step);
    qkv__arena_reset(t->kept.host);
    qkv__arena_reset(t->brief.step);
    qkv__arena_reset(t->brief.host);
    qkv__arena_reset(t->remade);
    qkv__arena_reset(t->exec.scratch);
    t->remade_count = 0;
    t->remaking = false;
    t->epoch = next_epoch();
    t->first = t->last = NULL;
    t->leaves = NULL;
    t->pool_classes = 0;
    t->empty = NULL;
    t->spare_bytes = 0;
    t->pass = t->dropped = 0;
    t->entries = NULL;
    t->name_depth = 0;
    t->name[0] = 0;
}

qkv_status qkv_tape_status(const qkv_tape *t) { return t->status; }

void qkv_tape_mode(qkv_tape *t, bool record, bool train)
{
    t->record = record;
    t->train = train;
    t->k = qkv__kernels_of(t->ctx, record);
}

void qkv__begin_inference(qkv_tape *t)
{
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
}

bool qkv__pause(qkv_tape *t)
{
    const bool recorded = t->record;
    t->record = false;
    t->paused = recorded;
    return recorded;
}

void qkv__resume(qkv_tape *t, bool recorded)
{
    t->record = recorded;
    t->paused = false;
}
bool qkv__records(const qkv_tape *t) { return t->record; }
bool qkv__trains(const qkv_tape *t) { return t->train; }
bool qkv__recomputes(const qkv_tape *t) { return t->recompute && t->record; }
void qkv_tape_pack(qkv_tape *t, bool pack) { t->pack = pack; }
void qkv_tape_batch_invariant(qkv_tape *t, bool invariant) { t->invariant = invariant; }
void qkv_tape_recompute(qkv_tape *t, bool recompute) { t->recompute = recompute; }

void qkv_tape_randomness(qkv_tape *t, const qkv_randomness *r) { t->random = *r; }

size_t qkv_tape_used(const qkv_tape *t)
{
    return qkv__arena_used(t->kept.step) + qkv__arena_used(t->kept.host) +
           qkv__arena_used(t->brief.step) + qkv__arena_used(t->brief.host) +
           qkv__arena_used(t->remade);
}

size_t qkv_tape_high_water(const qkv_tape *t)
{
    return qkv__arena_high_water(t->kept.step) + qkv__arena_high_water(t->kept.host) +
           qkv__arena_high_water(t->brief.step) + qkv__arena_high_water(t->brief.host) +
           qkv__arena_high_water(t->remade);
}

size_t qkv_tape_scratch_high_water(const qkv_tape *t)
{
    return qkv__arena_high_water(t->exec.scratch);
}

/* ---- errors ------------------------------------------------------------------------------- */

void *qkv__op_fail(qkv_tape *t, const char *op, const char *fmt, ...)
{
    if (t->status)
        return NULL;
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    t->status = qkv_fail(t->ctx, QKV_E_SHAPE, "%s%s%s: %s", op, t->name[0] ? " at " : "", t->name,
                         text);
    return NULL;
}

bool qkv__take_status(qkv_tape *t, qkv_status status)
{
    t->status = t->status ? t->status : status;
    return !status;
}

bool qkv__ready(qkv_tape *t, const char *op, int n, qkv_tensor *const *in)
{
    if (t->status || !qkv__take_status(t, qkv__working(t->ctx)))
        return false;
    for (int i = 0; i < n; i++)
        if (!in[i] || in[i]->root->gone)
            return qkv__op_fail(t, op, "input %d is %s", i, in[i] ? "gone" : "NULL") != NULL;
    for (int i = 0; i < n; i++)
        qkv__arrive(t, in[i]);
    return true;
}

const char *qkv__shape_text(qkv_tape *t, const qkv_tensor *x)
{
    if (!x)
        return "none";
    char *text = qkv__step_alloc(t, 256);
    if (!text)
        return "(?)";
    size_t n = 0;
    text[n++] = '(';
    for (int i = 0; i < x->ndim; i++)
        n += (size_t)snprintf(text + n, 256 - n, i ? ", %zu" : "%zu", x->shape[i]);
    snprintf(text + n, 256 - n, ")");
    return text;
}

/* False, and a sentence. */
static bool small_fail(qkv_tape *t, const char *op, const qkv_tensor *x)
{
    const qkv_param *p = x->root->param;
    return qkv__op_fail(t, op, "parameter %s is kept in %s, which this op does not read",
                        qkv_param_name(p), qkv__weights_names[qkv_param_weights(p)]) != NULL;
}

const qkv_k_small *qkv__small_of(qkv_tape *t, const char *op, const qkv_tensor *x)
{
    if (!x || x->dtype != (qkv_dtype)QKV__SMALL || x->root != x)
        return NULL;
    if (!x->trains)
        return &x->param->small;
    const qkv_param *p = x->param;
    return qkv__op_fail(t, op, "parameter %s is kept in %s, which cannot be trained",
                        qkv_param_name(p), qkv__weights_names[qkv_param_weights(p)]);
}

bool qkv__ready_reals(qkv_tape *t, const char *op, int n, qkv_tensor *const *in)
{
    if (!qkv__ready(t, op, n, in))
        return false;
    for (int i = 0; i < n; i++)
        if (in[i]->root->dtype == (qkv_dtype)QKV__SMALL)
            return small_fail(t, op, in[i]);
        else if (in[i]->dtype != QKV_REAL)
            return qkv__op_fail(t, op, "input %d, %s, does not hold real numbers", i,
                                qkv__shape_text(t, in[i])) != NULL;
    return true;
}

static void *tape_take(qkv_tape *t, qkv__arena *from, size_t bytes)
{
    void *p = t->status ? NULL : qkv__arena_alloc(from, bytes);
    if (!p && !t->status)
        t->status = QKV_E_MEMORY;
    return p;
}

qkv_real *qkv__scratch(qkv_tape *t, size_t n)
{
    return tape_take(t, t->exec.scratch, n * sizeof(qkv_real));
}

void *qkv__step_alloc(qkv_tape *t, size_t bytes) { return tape_take(t, t->host, bytes); }
void *qkv__step_memory(qkv_tape *t, size_t bytes) { return tape_take(t, t->step, bytes); }
bool qkv__step_room(qkv_tape *t, size_t bytes)
{
    qkv__mark mark = qkv__arena_mark(t->step);
    void *room = qkv__step_memory(t, bytes);
    qkv__arena_release(t->step, mark);
    return room != NULL;
}

/* ---- graph -------------------------------------------------------------------------------- */

bool qkv__recording(const qkv_tape *t, int n, qkv_tensor *const *in)
{
    if (!t->record || t->status)
        return false;
    for (int i = 0; i < n; i++)
        if (in[i] && in[i]->root->needs_grad)
            return true;
    return false;
}

static void tape_note(qkv_tape *t, const qkv_op *op, int n_in, qkv_tensor *const *in, int n_out,
                      qkv_tensor *const *out, const void *params, size_t params_size)
{
    size_t tensors = (size_t)(n_in + n_out);
    qkv__node *n = qkv__step_alloc(t, sizeof *n + tensors * sizeof(qkv_tensor *) + params_size);
    if (!n)
        return;
    qkv_tensor **lists = (qkv_tensor **)(n + 1);
    void *copy = lists + tensors;
    memcpy(lists, in, (size_t)n_in * sizeof *lists);
    memcpy(lists + n_in, out, (size_t)n_out * sizeof *lists);
    if (params_size)
        memcpy(copy, params, params_size);
    *n = (qkv__node){op, copy, n_in, n_out, lists, lists + n_in, t->last, NULL, 0,
                      qkv__lent(t->lender)};
    if (t->last)
        t->last->next = n;
    else
        t->first = n;
    t->last = n;
    for (int i = 0; i < n_in; i++)
        if (in[i] && !t->region) /* of a region its own node counts */
            in[i]->root->uses++;
    for (int i = 0; i < n_out; i++) {
        out[i]->root->needs_grad = true;
        out[i]->root->noted = t->dropped + 1;
        out[i]->root->maker = out[i]->root->remade ? n : NULL;
    }
}

qkv_tensor *qkv__record(qkv_tape *t, const qkv_op *op, int n_in, qkv_tensor *const *in, int n_out,
                        qkv_tensor *const *out, const void *params, size_t params_size)
{
    if (!t->status && qkv__arena_failed(t->exec.scratch))
        t->status = QKV_E_MEMORY;
    if (qkv__recording(t, n_in, in))
        tape_note(t, op, n_in, in, n_out, out, params, params_size);
    return t->status ? NULL : out[0];
}

void qkv__record_table(qkv_tape *t, const qkv_tensor *y, int i)
{
    if (!y || !t->on_rows || t->region || !t->last || t->last->out[0] != y)
        return;
    t->last->table = i;
    t->last->in[i]->root->row_uses++;
}

uint64_t qkv__first_row(const qkv_tape *t, size_t N, size_t leading)
{
    if (t->random.first_row)
        return t->random.first_row;
    size_t samples = t->random.samples ? t->random.samples : leading;
    return samples ? t->random.first_sample * (N / samples) : 0;
}

/* ---- names and callbacks ------------------------------------------------------- */

void qkv_name_push(qkv_tape *t, const char *fmt, ...)
{
    size_t len = strlen(t->name);
    if (t->name_depth < QKV__NAME_DEPTH)
        t->name_len[t->name_depth] = len;
    t->name_depth++;
    va_list args;
    va_start(args, fmt);
    size_t room = sizeof t->name - len;
    if (room > 1) {
        if (len)
            t->name[len++] = '.', room--;
        vsnprintf(t->name + len, room, fmt, args);
    }
    va_end(args);
}

void qkv_name_pop(qkv_tape *t)
{
    if (t->name_depth == 0)
        return;
    t->name_depth--;
    if (t->name_depth < QKV__NAME_DEPTH)
        t->name[t->name_len[t->name_depth]] = 0;
}

void qkv_probes_clear(qkv_tape *t)
{
    while (t->probes) {
        qkv__probe *p = t->probes;
        t->probes = p->next;
        qkv_free(t->ctx, p->pattern);
        qkv_free(t->ctx, p);
    }
}

void qkv_tape_on_grad_ready(qkv_tape *t, qkv_grad_ready_fn *fn, void *user)
{
    t->on_ready = fn;
    t->ready_user = user;
}

void qkv__tape_on_grad_rows(qkv_tape *t, qkv__grad_rows_fn *fn, void *user)
{
    t->on_rows = fn;
    t->rows_user = user;
}
