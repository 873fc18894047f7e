/* exchange.c - gradients and values between ranks.
 *
 * A bucket's gradient goes out in windows, so that what is received needs little memory: of each
 * window a rank receives its part of every other rank's gradient, and adds them up. */
#include "train/exchange.h"

#include <string.h>

#include "base/device.h"
#include "tensor/make.h"
#include "train/window.h"

enum { FLIGHTS = QKV__FLIGHTS };

/* A window under way. Requests: (ranks). */
typedef struct {
    bool used, added;
    size_t bucket, from, count; /* of this rank's slice: numbers of the bucket */
    qkv_real *buffer;           /* (ranks, window) */
    qkv__request *receives, *sends;
    bool *receiving, *sending;
} flight;

struct qkv__exchange {
    qkv_context *ctx;
    const qkv__partition *part;
    int rank, ranks;
    size_t window; /* numbers of a slice that one message carries */
    flight flights[FLIGHTS];
    size_t *queue; /* (buckets) handed over in this update */
    size_t queued, at, offset; /* at: the first that is not begun whole; offset: from where on */
    size_t numbers, arrived, ended; /* ended: buckets that are done */
    qkv__exchange_done_fn *done; /* NULL: nobody is told */
    void *user;
    qkv__request *shares; /* (buckets, ranks, 2) */
    size_t share_count;
    qkv__arena *memory;
};

/* ---- making ------------------------------------------------------------------------------- */

static bool make_flight(qkv__exchange *x, flight *f)
{
    size_t n = (size_t)x->ranks;
    f->buffer = qkv__arena_zalloc(x->memory, n * x->window * sizeof *f->buffer);
    f->receives = qkv__arena_zalloc(x->memory, n * sizeof *f->receives);
    f->sends = qkv__arena_zalloc(x->memory, n * sizeof *f->sends);
    f->receiving = qkv__arena_zalloc(x->memory, n * sizeof *f->receiving);
    f->sending = qkv__arena_zalloc(x->memory, n * sizeof *f->sending);
    return f->buffer && f->receives && f->sends && f->receiving && f->sending;
}

size_t qkv__exchange_window(const qkv__partition *partition, size_t ranks)
{
    size_t most = 1;
    for (size_t i = 0; i < partition->bucket_count; i++) {
        const qkv__bucket *b = &partition->buckets[i];
        size_t slice = b->chunk ? b->count / ranks : b->count;
        most = slice > most ? slice : most;
    }
    return most < QKV__WINDOW ? most : QKV__WINDOW;
}

qkv_status qkv__exchange_create(qkv__exchange **out, qkv_context *ctx,
                                const qkv__partition *partition)
{
    qkv__exchange *x = qkv_calloc(ctx, 1, sizeof *x);
    *out = NULL;
    if (!x)
        return QKV_E_MEMORY;
    *x = (qkv__exchange){.ctx = ctx, .part = partition, .rank = qkv_dist_rank(ctx),
                         .ranks = qkv_dist_size(ctx)};
    x->window = qkv__exchange_window(partition, (size_t)x->ranks);
    size_t n = partition->bucket_count;
    bool fine = !qkv__arena_create(&x->memory, ctx, "exchange");
    fine = fine && (x->queue = qkv__arena_zalloc(x->memory, (n + 1) * sizeof *x->queue));
    fine = fine && (x->shares = qkv__arena_zalloc(x->memory, (n + 1) * 2 * (size_t)x->ranks *
                                                                 sizeof *x->shares));
    for (int i = 0; i < FLIGHTS && fine && x->ranks > 1; i++)
        fine = make_flight(x, &x->flights[i]);
    if (!fine) {
        qkv__exchange_destroy(x);
        return QKV_E_MEMORY;
    }
    *out = x;
    return QKV_OK;
}

void qkv__exchange_destroy(qkv__exchange *x)
{
    if (!x)
        return;
    qkv__arena_destroy(x->memory);
    qkv_free(x->ctx, x);
}

static void slice_of(const qkv__exchange *x, size_t bucket, int rank, size_t *from, size_t *to)
{
    qkv__bucket_slice(x->part, bucket, (size_t)x->ranks, (size_t)rank, from, to);
}

/* ---- windows ------------------------------------------------------------------------------ */

/* What window `offset` of the bucket has of a rank's slice. */
static size_t window_of(const qkv__exchange *x, size_t bucket, int rank, size_t offset,
                        size_t *from)
{
    size_t to;
    slice_of(x, bucket, rank, from, &to);
    size_t length = to - *from, left = offset < length ? length - offset : 0;
    *from += offset;
    return left < x->window ? left : x->window;
}

static qkv_status begin_flight(qkv__exchange *x, flight *f, size_t bucket, size_t offset)
{
    qkv_real *grad = x->part->buckets[bucket].grad;
    int tag = QKV__DIST_TAG + (int)bucket;
    qkv_status status = QKV_OK;
    f->used = true;
    f->added = false;
    f->bucket = bucket;
    f->count = window_of(x, bucket, x->rank, offset, &f->from);
    for (int r = 0; r < x->ranks && !status; r++) {
        size_t from, count = window_of(x, bucket, r, offset, &from);
        f->receiving[r] = r != x->rank && f->count;
        f->sending[r] = r != x->rank && count;
        if (f->receiving[r])
            status = qkv__dist_receive(x->ctx, f->buffer + (size_t)r * x->window,
                                       f->count * sizeof *grad, r, tag, &f->receives[r]);
        if (f->sending[r] && !status)
            status = qkv__dist_send(x->ctx, grad + from, count * sizeof *grad, r, tag,
                                    &f->sends[r]);
    }
    return status;
}

/* The next window of the queue, in a flight that is free. */
static qkv_status begin_next(qkv__exchange *x, flight *f)
{
    size_t bucket = x->queue[x->at], left = 0;
    qkv_status status = begin_flight(x, f, bucket, x->offset);
    x->offset += x->window;
    for (int r = 0; r < x->ranks; r++) {
        size_t from;
        left += window_of(x, bucket, r, x->offset, &from);
    }
    if (!left) {
        x->at++;
        x->offset = 0;
    }
    return status;
}

/* Sum of the ranks' parts, as a tree: ((0 + 1) + (2 + 3)) .. */
static void add_up(qkv__exchange *x, const flight *f)
{
    qkv_real *own = x->part->buckets[f->bucket].grad + f->from;
    for (int stride = 1; stride < x->ranks; stride *= 2)
        for (int r = 0; r + stride < x->ranks; r += 2 * stride) {
            qkv_real *to = r == x->rank ? own : f->buffer + (size_t)r * x->window;
            const qkv_real *more = r + stride == x->rank
                                       ? own : f->buffer + (size_t)(r + stride) * x->window;
            qkv__partition_add(x->part, to, more, f->count);
        }
    if (x->rank)
        memcpy(own, f->buffer, f->count * sizeof *own);
}

/* Tests one side's messages; *done: all are. */
static qkv_status test_side(qkv__exchange *x, qkv__request *requests, bool *pending, bool *done)
{
    qkv_status status = QKV_OK;
    *done = true;
    for (int r = 0; r < x->ranks && !status; r++) {
        bool over = true;
        if (pending[r])
            status = qkv__dist_test(x->ctx, &requests[r], &over);
        pending[r] = pending[r] && !over;
        *done = *done && !pending[r];
    }
    return status;
}

/* Is a window of the bucket under way, or still to begin? */
static bool has_flights(const qkv__exchange *x, size_t bucket)
{
    bool has = x->at < x->queued && x->queue[x->at] == bucket;
    for (int i = 0; i < FLIGHTS; i++)
        has = has || (x->flights[i].used && x->flights[i].bucket == bucket);
    return has;
}

static qkv_status advance_flight(qkv__exchange *x, flight *f)
{
    bool received, sent;
    qkv_status status = test_side(x, f->receives, f->receiving, &received);
    if (!status)
        status = test_side(x, f->sends, f->sending, &sent);
    if (status)
        return status;
    if (received && !f->added) {
        if (f->count)
            add_up(x, f);
        x->arrived += f->count;
        f->added = true;
    }
    f->used = !(f->added && sent);
    bool ended = !f->used && !has_flights(x, f->bucket);
    x->ended += ended;
    if (ended && x->done)
        x->done(x->user, f->bucket);
    return QKV_OK;
}

qkv_status qkv__exchange_poll(qkv__exchange *x)
{
    qkv_status status = QKV_OK;
    for (int i = 0; i < FLIGHTS && !status && x->ranks > 1; i++) {
        if (x->flights[i].used)
            status = advance_flight(x, &x->flights[i]);
        if (!x->flights[i].used && x->at < x->queued && !status)
            status = begin_next(x, &x->flights[i]);
    }
    return status;
}

qkv_status qkv__exchange_add(qkv__exchange *x, size_t bucket)
{
    size_t from, to;
    slice_of(x, bucket, x->rank, &from, &to);
    x->queue[x->queued++] = bucket;
    x->numbers += to - from;
    return qkv__exchange_poll(x);
}

static bool is_under_way(const qkv__exchange *x)
{
    bool any = x->at < x->queued;
    for (int i = 0; i < FLIGHTS; i++)
        any = any || x->flights[i].used;
    return any && x->ranks > 1;
}

qkv_status qkv__exchange_finish(qkv__exchange *x)
{
    qkv_status status = QKV_OK;
    unsigned idle = 0;
    while (is_under_way(x) && !status) {
        size_t before = x->arrived;
        status = qkv__exchange_poll(x);
        if (x->arrived != before)
            idle = 0;
        else if (is_under_way(x) && !status)
            status = qkv__dist_pause(x->ctx, &idle);
    }
    x->queued = x->at = x->offset = x->numbers = x->arrived = x->ended = 0;
    return status;
}

void qkv__exchange_on_done(qkv__exchange *x, qkv__exchange_done_fn *fn, void *user)
{
    x->done = fn;
    x->user = user;
}

size_t qkv__exchange_waiting(const qkv__exchange *x) { return x->queued - x->ended; }

double qkv__exchange_arrived(const qkv__exchange *x, size_t later)
{
    size_t all = x->numbers + later;
    return all ? (double)x->arrived / (double)all : 1;
}

/* ---- values ------------------------------------------------------------------------------- */

qkv_status qkv__exchange_share(qkv__exchange *x, size_t bucket)
{
    qkv_real *data = x->part->buckets[bucket].data;
    int tag = QKV__DIST_TAG + (int)(x->part->bucket_count + bucket);
    size_t own, own_end, from, to;
    qkv_status status = QKV_OK;
    slice_of(x, bucket, x->rank, &own, &own_end);
    for (int i = 1; i < x->ranks && !status; i++) {
        int r = (x->rank + i) % x->ranks;
        slice_of(x, bucket, r, &from, &to);
        if (to > from)
            status = qkv__dist_receive(x->ctx, data + from, (to - from) * sizeof *data, r, tag,
                                       &x->shares[x->share_count++]);
        if (own_end > own && !status)
            status = qkv__dist_send(x->ctx, data + own, (own_end - own) * sizeof *data, r, tag,
                                    &x->shares[x->share_count++]);
    }
    return status;
}

qkv_status qkv__exchange_shared(qkv__exchange *x)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < x->share_count && !status; i++)
        status = qkv__dist_wait(x->ctx, &x->shares[i]);
    x->share_count = 0;
    return status;
}
