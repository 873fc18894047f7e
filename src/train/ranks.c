/* ranks.c - shards, their sums, and the update of what a rank owns. */
#include "train/ranks.h"

#include <math.h>
#include <string.h>

#include "base/device.h"
#include "train/rows.h"
#include "train/running.h"
#include "train/slices.h"
#include "train/window.h"
#include "tensor/make.h"

enum { LEVELS = 32 }; /* of the tree of this rank's shards */

/* A shard's loss, as it goes to the other ranks. */
typedef struct {
    double loss;
    int32_t terms;
    int32_t grads; /* of parameters that have one: the same on every rank */
    double term[QKV_TERMS];
} shard_loss;

struct qkv__ranks {
    qkv_context *ctx;
    qkv_params *params;
    qkv__partition *part;
    qkv__exchange *exchange;
    qkv__running_values *running;
    int rank, ranks;
    size_t shards, mine; /* of a batch; of this rank */
    qkv__own *own;       /* (parameters) */
    qkv__arena *host, *memory; /* of arrays that the host follows; the device's, of sums */
    /* Sums of 2^i of this rank's shards that wait for as many more. */
    size_t levels;
    bool full[LEVELS];
    qkv_real **waiting[LEVELS]; /* (buckets) */
    qkv__slices *slices; /* NULL: gradients are kept whole */
    qkv__rows *rows;     /* NULL: embeddings add to gradients, as ever */
    /* The backward pass that is under way. */
    bool last;
    size_t *ready; /* (buckets) parameters whose gradient is complete */
    bool *added;   /* (buckets) handed to the exchange */
    size_t most_pieces;         /* of a rank */
    double *squares, *gathered; /* (pieces); (ranks, most_pieces), behind them (most_pieces) own */
    shard_loss *losses;         /* (shards) */
    shard_loss *own_losses;     /* (mine) */
    const char *names[QKV_TERMS];
    qkv_status status; /* of messages during the backward pass */
    double slowest, messages, arrived; /* sums over all phases */
    size_t phases;
};

/* ---- making ------------------------------------------------------------------------------- */

static size_t owner_of(const qkv__ranks *r, const qkv__piece *piece)
{
    return piece->chunk / (r->shards / (size_t)r->ranks);
}

qkv__own qkv__ranks_own_of(const qkv__ranks *r, size_t param, int rank)
{
    size_t from, to;
    if (!qkv__ranks_cuts(r, param))
        return (qkv__own){0, qkv_param_count(qkv_params_at(r->params, param))};
    qkv__partition_own(r->part, param, (size_t)r->ranks, (size_t)rank, &from, &to);
    return (qkv__own){from, to - from};
}

bool qkv__ranks_cuts(const qkv__ranks *r, size_t param)
{
    return r && r->part->bucket_of[param] != SIZE_MAX;
}

const qkv__own *qkv__ranks_own(const qkv__ranks *r) { return r ? r->own : NULL; }

static size_t count_levels(size_t shards)
{
    size_t n = 0;
    for (size_t most = shards - 1; most; most /= 2)
        n++;
    return n;
}

static bool make_levels(qkv__ranks *r)
{
    const qkv__device *device = qkv__context_device(r->ctx);
    bool fine = true;
    r->levels = count_levels(r->mine);
    for (size_t k = 0; k < r->levels && fine; k++) {
        r->waiting[k] = qkv__arena_zalloc(r->host, r->part->bucket_count * sizeof(qkv_real *));
        fine = r->waiting[k] != NULL;
        for (size_t b = 0; b < r->part->bucket_count && fine; b++) {
            size_t bytes = r->part->buckets[b].count * sizeof(qkv_real);
            r->waiting[k][b] = qkv__arena_alloc(r->memory, bytes);
            if (r->waiting[k][b])
                device->clear(r->ctx, r->waiting[k][b], bytes);
            fine = r->waiting[k][b] != NULL;
        }
    }
    return fine;
}

static void count_pieces(qkv__ranks *r)
{
    for (int rank = 0; rank < r->ranks; rank++) {
        size_t n = 0;
        for (size_t i = 0; i < r->part->piece_count; i++)
            n += owner_of(r, &r->part->pieces[i]) == (size_t)rank;
        r->most_pieces = n > r->most_pieces ? n : r->most_pieces;
    }
}

static bool allocate_ranks(qkv__ranks *r)
{
    size_t n = r->part->bucket_count, ranks = (size_t)r->ranks;
    count_pieces(r);
    r->own = qkv__arena_zalloc(r->host, (qkv_params_count(r->params) + 1) * sizeof *r->own);
    r->ready = qkv__arena_zalloc(r->host, (n + 1) * sizeof *r->ready);
    r->added = qkv__arena_zalloc(r->host, (n + 1) * sizeof *r->added);
    r->squares = qkv__arena_zalloc(r->host, (r->part->piece_count + 1) * sizeof *r->squares);
    r->gathered = qkv__arena_zalloc(r->host, (ranks + 1) * (r->most_pieces + 1) *
                                                   sizeof *r->gathered);
    r->losses = qkv__arena_zalloc(r->host, r->shards * sizeof *r->losses);
    r->own_losses = qkv__arena_zalloc(r->host, r->mine * sizeof *r->own_losses);
    return r->own && r->ready && r->added && r->squares && r->gathered && r->losses &&
           r->own_losses && make_levels(r);
}

/* A backward pass that is faster than the messages waits for them: else gradients that are not gone
 * would fill the memory. */
static void wait_for_room(void *ranks)
{
    qkv__ranks *r = ranks;
    double waited = qkv__dist_waited(r->ctx);
    unsigned idle = 0;
    while (!r->status && qkv__exchange_waiting(r->exchange) >= QKV__WAITING) {
        size_t before = qkv__exchange_waiting(r->exchange);
        r->status = qkv__exchange_poll(r->exchange);
        if (!r->status && qkv__exchange_waiting(r->exchange) == before)
            r->status = qkv__dist_pause(r->ctx, &idle);
    }
    r->messages += qkv__dist_waited(r->ctx) - waited;
}

qkv_status qkv__ranks_create(qkv__ranks **out, qkv_params *params, size_t shards, size_t passes,
                             qkv_optimizer_kind kind)
{
    qkv_context *ctx = qkv__params_context(params);
    *out = NULL;
    if (!qkv__context_device(ctx)->host && qkv_dist_size(ctx) > 1)
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "several ranks need a device whose memory the host "
                        "sees");
    qkv__ranks *r = qkv_calloc(ctx, 1, sizeof *r);
    if (!r)
        return QKV_E_MEMORY;
    *r = (qkv__ranks){.ctx = ctx, .params = params, .rank = qkv_dist_rank(ctx),
                      .ranks = qkv_dist_size(ctx), .shards = shards,
                      .mine = shards / (size_t)qkv_dist_size(ctx)};
    bool come_and_go = r->ranks > 1 && r->mine == 1 && passes == 1;
    qkv_status status = qkv__arena_create(&r->host, ctx, "ranks");
    if (!status)
        status = qkv__arena_create_on(&r->memory, ctx, qkv__context_device(ctx), "ranks");
    if (!status)
        status = qkv__partition_create(&r->part, params, shards, kind == QKV_OPTIMIZER_MUON,
                                       come_and_go);
    if (!status && !allocate_ranks(r))
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv__exchange_create(&r->exchange, ctx, r->part);
    if (!status && come_and_go)
        status = qkv__slices_create(&r->slices, r->part, (size_t)r->ranks, (size_t)r->rank);
    if (!status && come_and_go) {
        qkv__exchange_on_done(r->exchange, qkv__slices_keep, r->slices);
        qkv__slices_on_take(r->slices, wait_for_room, r);
    }
    if (!status && passes == 1)
        status = qkv__rows_create(&r->rows, r->part);
    if (!status)
        status = qkv__running_create(&r->running, params, shards);
    for (size_t i = 0; i < qkv_params_count(params) && !status; i++)
        r->own[i] = qkv__ranks_own_of(r, i, r->rank);
    if (status)
        qkv__ranks_destroy(r);
    else
        *out = r;
    return status;
}

void qkv__ranks_destroy(qkv__ranks *r)
{
    if (!r)
        return;
    qkv__rows_destroy(r->rows);
    qkv__slices_destroy(r->slices);
    for (size_t b = 0; r->part && b < r->part->bucket_count; b++)
        (void)qkv__bucket_drop(r->part, b); /* which may lie in memory that ends here */
    qkv_params_zero_grad(r->params);
    qkv__running_destroy(r->running);
    qkv__exchange_destroy(r->exchange);
    qkv__partition_destroy(r->part);
    qkv__arena_destroy(r->memory);
    qkv__arena_destroy(r->host);
    qkv_free(r->ctx, r);
}

/* ---- values ------------------------------------------------------------------------------- */

qkv_status qkv__ranks_broadcast(qkv__ranks *r)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < qkv_params_count(r->params) && !status && r->ranks > 1; i++) {
        qkv_param *p = qkv_params_at(r->params, i);
        if (qkv__param_fixed(p))
            continue; /* every rank has read it */
        qkv_real *x = qkv_param_data(p);
        status = x ? qkv__dist_broadcast(r->ctx, x, qkv_param_count(p) * sizeof *x) : QKV_E_MEMORY;
        if (!status)
            qkv_param_touch(p);
    }
    return status;
}

qkv_status qkv__ranks_share(qkv__ranks *r)
{
    qkv_status status = QKV_OK;
    for (size_t b = 0; b < r->part->bucket_count && !status; b++) {
        status = qkv__exchange_share(r->exchange, b);
        qkv__bucket_touch(r->part, b);
    }
    return status ? status : qkv__exchange_shared(r->exchange);
}

/* ---- shards ------------------------------------------------------------------------------- */

size_t qkv__ranks_shards(const qkv__ranks *r) { return r ? r->mine : 1; }

void qkv__ranks_shard(const qkv__ranks *r, size_t i, size_t batch, size_t *from, size_t *to)
{
    size_t shards = r ? r->shards : 1, k = r ? (size_t)r->rank * r->mine + i : 0;
    *from = batch * k / shards;
    *to = batch * (k + 1) / shards;
}

void qkv__ranks_begin(qkv__ranks *r) { qkv__running_begin(r->running); }

/* Adds what waits to the bucket's gradient. */
static void add_waiting(qkv__ranks *r, size_t level, size_t b)
{
    const qkv__bucket *bucket = &r->part->buckets[b];
    qkv__partition_add(r->part, bucket->grad, r->waiting[level][b], bucket->count);
}

/* The bucket's gradient of the last shard is complete: so is that of all of this rank's. */
static qkv_status bucket_ready(qkv__ranks *r, size_t b)
{
    qkv__bucket_complete(r->part, b);
    for (size_t k = 0; k < r->levels; k++)
        if (r->full[k])
            add_waiting(r, k, b);
    r->added[b] = true;
    return qkv__exchange_add(r->exchange, b);
}

void qkv__ranks_last_pass(qkv__ranks *r, size_t shard)
{
    if (!r)
        return;
    r->last = shard + 1 == r->mine;
    memset(r->ready, 0, r->part->bucket_count * sizeof *r->ready);
}

static size_t count_trained(const qkv__ranks *r, size_t b)
{
    const qkv__bucket *bucket = &r->part->buckets[b];
    size_t n = 0;
    for (size_t i = bucket->first; i < bucket->first + bucket->pieces; i++) {
        const qkv__piece *piece = &r->part->pieces[i];
        n += piece->first && !qkv_param_frozen(qkv_params_at(r->params, piece->param));
    }
    return n;
}

/* Gradients that tape passes have completed: a qkv_grad_ready_fn. */
static void on_ready(void *ranks, qkv_param *p)
{
    qkv__ranks *r = ranks;
    size_t k = qkv__param_index(p), b = r->part->bucket_of[k];
    if (!r->last || b == SIZE_MAX)
        return;
    bool complete = ++r->ready[b] == count_trained(r, b);
    qkv_status status = complete ? bucket_ready(r, b) : qkv__exchange_poll(r->exchange);
    r->status = r->status ? r->status : status;
}

void qkv__ranks_listen(qkv__ranks *r, qkv_tape *t)
{
    qkv_tape_on_grad_ready(t, on_ready, r);
    if (r->rows)
        qkv__tape_on_grad_rows(t, qkv__rows_take, r->rows);
}

static int32_t count_grads(const qkv__ranks *r)
{
    int32_t n = 0;
    for (size_t i = 0; i < qkv_params_count(r->params); i++)
        n += qkv__param_has_grad(qkv_params_at(r->params, i));
    return n;
}

/* A shard that others follow: its gradient waits, with those before it that it completes. */
static void put_aside(qkv__ranks *r, size_t shard)
{
    size_t level = 0;
    for (; shard >> level & 1; level++)
        r->full[level] = false;
    for (size_t b = 0; b < r->part->bucket_count; b++) {
        if (!qkv__bucket_has_grad(r->part, b))
            continue;
        qkv__bucket_complete(r->part, b);
        for (size_t k = 0; k < level; k++)
            add_waiting(r, k, b);
        qkv__bucket_swap(r->part, b, &r->waiting[level][b]);
    }
    r->full[level] = true;
}

qkv_status qkv__ranks_end_shard(qkv__ranks *r, size_t shard, double loss, const qkv_terms *terms)
{
    shard_loss *own = &r->own_losses[shard];
    qkv_status status = r->status;
    *own = (shard_loss){.loss = loss, .terms = terms->count, .grads = count_grads(r)};
    for (int i = 0; i < terms->count; i++) {
        own->term[i] = terms->item[i].value;
        r->names[i] = terms->item[i].name;
    }
    qkv__running_end_shard(r->running, shard);
    if (shard + 1 < r->mine) {
        put_aside(r, shard);
        return QKV_OK;
    }
    r->arrived += qkv__exchange_arrived(r->exchange, r->rows ? qkv__rows_numbers(r->rows) : 0);
    for (size_t b = 0; b < r->part->bucket_count && !status; b++)
        if (!r->added[b] && qkv__bucket_has_grad(r->part, b))
            status = bucket_ready(r, b);
    r->last = false;
    r->status = QKV_OK;
    return status;
}

/* ---- sums --------------------------------------------------------------------------------- */

static qkv_status gather_losses(qkv__ranks *r, qkv__ranks_sums *out)
{
    qkv_status status = qkv__dist_gather(r->ctx, r->own_losses, r->mine * sizeof *r->own_losses,
                                         r->losses);
    out->loss = 0;
    out->terms.count = 0;
    for (size_t s = 0; s < r->shards && !status; s++) {
        const shard_loss *x = &r->losses[s];
        if (x->grads != r->own_losses[0].grads || x->terms != r->own_losses[0].terms)
            return qkv_fail(r->ctx, QKV_E_ARGUMENT, "shard %zu of the batch has gradients of %d "
                            "parameters and %d terms, shard %zu of %d and %d", s, (int)x->grads,
                            (int)x->terms, (size_t)r->rank * r->mine,
                            (int)r->own_losses[0].grads, (int)r->own_losses[0].terms);
        out->loss += x->loss;
        for (int i = 0; i < x->terms; i++)
            qkv_terms_add(&out->terms, r->names[i], x->term[i]);
    }
    return status;
}

/* Sums of squares of all pieces, on every rank. */
static qkv_status gather_squares(qkv__ranks *r)
{
    size_t ranks = (size_t)r->ranks, n = 0;
    double *own = r->gathered + ranks * r->most_pieces;
    size_t at[2] = {0, 0}; /* of the rank that is being read */
    for (size_t i = 0; i < r->part->piece_count; i++) {
        const qkv__piece *piece = &r->part->pieces[i];
        const qkv_param *p = qkv_params_at(r->params, piece->param);
        bool counts = qkv__param_has_grad(p) && !qkv_param_frozen(p);
        if (owner_of(r, piece) == (size_t)r->rank)
            own[n++] = counts ? qkv__piece_squares(r->part, piece) : 0;
    }
    qkv_status status = qkv__dist_gather(r->ctx, own, r->most_pieces * sizeof *own, r->gathered);
    for (size_t rank = 0; rank < ranks && !status; rank++) {
        at[0] = rank * r->most_pieces;
        for (size_t i = 0; i < r->part->piece_count; i++)
            if (owner_of(r, &r->part->pieces[i]) == rank)
                r->squares[i] = r->gathered[at[0]++];
    }
    return status;
}

static qkv_status gradient_norm(const qkv__ranks *r, double *norm)
{
    double total = 0;
    const char *bad = NULL;
    for (size_t i = 0; i < r->part->piece_count; i++) {
        total += r->squares[i];
        if (!isfinite(total) && !bad)
            bad = qkv_param_name(qkv_params_at(r->params, r->part->pieces[i].param));
    }
    *norm = sqrt(total);
    return bad ? qkv_fail(r->ctx, QKV_E_NUMERIC, "the gradient of %s is not finite", bad) : QKV_OK;
}

double qkv__ranks_squares(const qkv__ranks *r, size_t param)
{
    const qkv__partition *p = r->part;
    double sum = 0;
    if (p->bucket_of[param] == SIZE_MAX)
        return 0;
    const qkv__bucket *b = &p->buckets[p->bucket_of[param]];
    for (size_t i = b->first; i < b->first + b->pieces; i++)
        if (p->pieces[i].param == param)
            sum += r->squares[i];
    return sum;
}

/* ---- the update ----------------------------------------------------------------------------- */

static qkv_status update_bucket(qkv__ranks *r, size_t b, qkv_optimizer *o, double lr, double scale)
{
    const qkv__bucket *bucket = &r->part->buckets[b];
    for (size_t i = bucket->first; i < bucket->first + bucket->pieces; i++) {
        const qkv__piece *x = &r->part->pieces[i];
        if (owner_of(r, x) == (size_t)r->rank &&
            !qkv__optimizer_update(o, x->param, x->from, x->count, qkv__piece_grad(r->part, x), lr,
                                   scale))
            return QKV_E_MEMORY;
    }
    qkv__bucket_touch(r->part, b);
    return qkv__exchange_share(r->exchange, b);
}

static qkv_status update_all(qkv__ranks *r, qkv_optimizer *o, const qkv_optimizer_step_args *args,
                             double norm)
{
    qkv_status status = QKV_OK;
    double scale = args->max_norm > 0 ? fmin(1, args->max_norm / (norm + 1e-6)) : 1;
    qkv__optimizer_count(o);
    for (size_t b = 0; b < r->part->bucket_count && !status; b++)
        if (r->added[b])
            status = update_bucket(r, b, o, args->lr, scale);
    return status ? status : qkv__exchange_shared(r->exchange);
}

qkv_status qkv__ranks_agree(qkv__ranks *r, qkv_status status)
{
    double begun = qkv_now();
    status = qkv__dist_agree(r->ctx, status);
    r->slowest += qkv_now() - begun;
    r->phases++;
    return status;
}

qkv_status qkv__ranks_finish(qkv__ranks *r, qkv_optimizer *optimizer,
                             const qkv_optimizer_step_args *args, qkv__ranks_sums *out)
{
    double waited = qkv__dist_waited(r->ctx);
    qkv_status status = gather_losses(r, out);
    if (!status)
        status = qkv__running_finish(r->running);
    if (!status)
        status = qkv__exchange_finish(r->exchange);
    if (!status && r->rows)
        status = qkv__rows_finish(r->rows);
    if (!status)
        status = gather_squares(r);
    if (!status)
        status = gradient_norm(r, &out->norm);
    if (!status)
        status = update_all(r, optimizer, args, out->norm);
    r->messages += qkv__dist_waited(r->ctx) - waited;
    memset(r->added, 0, r->part->bucket_count * sizeof *r->added);
    memset(r->full, 0, sizeof r->full);
    return status;
}

qkv__ranks_cost qkv__ranks_cost_of(const qkv__ranks *r)
{
    return (qkv__ranks_cost){r->slowest, r->messages,
                             r->phases ? r->arrived / (double)r->phases : 1};
}
