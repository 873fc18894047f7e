/* partition.c - from a list of parameters to buckets, chunks and pieces. */
#include "tensor/partition.h"

#include <string.h>

#include "tensor/param.h"

enum { LINE = 64 / sizeof(qkv_real), BUCKET = 1 << 20 }; /* numbers */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- the plan ----------------------------------------------------------------------------- */

/* The number of a bucket's next parameter: the last one that was made comes first, since a
 * backward pass ends with it first. */
static size_t order_at(const qkv__partition *p, size_t i)
{
    return qkv_params_count(p->params) - 1 - i;
}

static bool is_whole(const qkv_param *x, bool matrices_whole)
{
    return matrices_whole && qkv_param_hidden(x, 0);
}

/* A bucket ends: its size and chunks are known. load: (chunks) what whole ones gave each. */
static void end_bucket(qkv__partition *p, qkv__bucket *b, bool whole, size_t *load)
{
    size_t unit = LINE * p->chunks;
    b->chunk = whole ? 0 : round_up(b->count, unit) / p->chunks;
    b->count = whole ? round_up(b->count, LINE) : b->chunk * p->chunks;
    for (size_t c = 1; whole && c < p->chunks; c++)
        if (load[c] < load[b->home])
            b->home = c;
    load[b->home] += whole ? b->count : 0;
}

static void plan_buckets(qkv__partition *p, bool matrices_whole, size_t *load)
{
    bool whole = false;
    for (size_t i = 0; i < qkv_params_count(p->params); i++) {
        size_t k = order_at(p, i);
        const qkv_param *x = qkv_params_at(p->params, k);
        p->bucket_of[k] = SIZE_MAX;
        if (qkv_param_frozen(x))
            continue;
        qkv__bucket *b = p->bucket_count ? &p->buckets[p->bucket_count - 1] : NULL;
        bool alone = qkv__param_is_table(x) && x->count >= BUCKET; /* ready before its neighbours */
        bool full = b && (b->count >= BUCKET || alone);
        if (!b || whole || is_whole(x, matrices_whole) || full) {
            if (b)
                end_bucket(p, b, whole, load);
            b = &p->buckets[p->bucket_count++];
            *b = (qkv__bucket){0};
        }
        whole = is_whole(x, matrices_whole);
        p->bucket_of[k] = p->bucket_count - 1;
        p->place_of[k] = b->count;
        b->count += round_up(x->count, LINE);
    }
    if (p->bucket_count)
        end_bucket(p, &p->buckets[p->bucket_count - 1], whole, load);
}

/* The pieces of a parameter, which lies at `place`; counts them only where list is NULL. */
static size_t cut(const qkv__partition *p, size_t param, qkv__piece *list)
{
    const qkv__bucket *b = &p->buckets[p->bucket_of[param]];
    size_t place = p->place_of[param], n = 0, count = qkv_params_at(p->params, param)->count;
    for (size_t from = 0, end; from < count; from = end, n++) {
        size_t chunk = b->chunk ? (place + from) / b->chunk : b->home;
        end = b->chunk && (chunk + 1) * b->chunk < place + count ? (chunk + 1) * b->chunk - place
                                                                : count;
        if (list)
            list[n] = (qkv__piece){param, from, end - from, chunk, from == 0};
    }
    return n;
}

static void plan_pieces(qkv__partition *p)
{
    size_t n = 0;
    for (size_t i = 0; i < qkv_params_count(p->params); i++) {
        size_t k = order_at(p, i);
        if (p->bucket_of[k] == SIZE_MAX)
            continue;
        qkv__bucket *b = &p->buckets[p->bucket_of[k]];
        b->first = b->pieces ? b->first : n;
        size_t more = cut(p, k, p->pieces + n);
        b->pieces += more;
        n += more;
    }
    p->piece_count = n;
}

static size_t most_pieces(const qkv__partition *p)
{
    size_t n = 0;
    for (size_t k = 0; k < qkv_params_count(p->params); k++)
        n += p->bucket_of[k] == SIZE_MAX ? 0 : cut(p, k, NULL);
    return n;
}

/* ---- memory ------------------------------------------------------------------------------- */

static qkv_real *clear_numbers(qkv__arena *arena, qkv_params *params, size_t n)
{
    qkv_real *x = qkv__arena_alloc(arena, n * sizeof *x);
    if (x)
        qkv__params_device(params)->clear(qkv__params_context(params), x, n * sizeof *x);
    return x;
}

static bool allocate_buckets(qkv__partition *p, qkv__arena *fresh, bool come_and_go)
{
    bool fine = true;
    for (size_t i = 0; i < p->bucket_count && fine; i++)
        fine = (p->buckets[i].data = clear_numbers(fresh, p->params, p->buckets[i].count)) != NULL;
    for (size_t i = 0; i < p->bucket_count && fine && !come_and_go; i++)
        fine = (p->buckets[i].grad = clear_numbers(fresh, p->params, p->buckets[i].count)) != NULL;
    return fine;
}

static void move_param(const qkv__partition *p, size_t k, qkv_real *to)
{
    qkv_param *x = qkv_params_at(p->params, k);
    qkv__params_device(p->params)->copy(to, x->data, x->count * sizeof *to);
    x->data = to;
    x->grad = NULL;
    x->has_grad = x->has_packed = false;
    x->packed = NULL;
}

static void place_grads(const qkv__partition *p, size_t bucket)
{
    const qkv__bucket *b = &p->buckets[bucket];
    for (size_t i = b->first; i < b->first + b->pieces; i++) {
        size_t k = p->pieces[i].param;
        qkv_params_at(p->params, k)->grad = b->grad ? b->grad + p->place_of[k] : NULL;
    }
}

/* Values go to the fresh arena, and the old one ends. */
static qkv_status move_all(qkv__partition *p, bool come_and_go)
{
    qkv_context *ctx = qkv__params_context(p->params);
    size_t n = qkv_params_count(p->params);
    qkv__arena *fresh = NULL;
    qkv_real **to = qkv_calloc(ctx, n, sizeof *to);
    bool fine = to && !qkv__arena_create_on(&fresh, ctx, qkv__params_device(p->params),
                                            "parameter");
    fine = fine && allocate_buckets(p, fresh, come_and_go);
    for (size_t k = 0; k < n && fine; k++) {
        const qkv_param *x = qkv_params_at(p->params, k);
        bool in_bucket = p->bucket_of[k] != SIZE_MAX;
        to[k] = in_bucket ? p->buckets[p->bucket_of[k]].data + p->place_of[k]
                          : qkv__arena_alloc(fresh, x->count * sizeof *x->data);
        fine = to[k] != NULL;
    }
    for (size_t k = 0; k < n && fine; k++)
        move_param(p, k, to[k]);
    for (size_t i = 0; i < p->bucket_count && fine; i++)
        place_grads(p, i);
    qkv__arena_destroy(fine ? qkv__params_exchange(p->params, fresh) : fresh);
    qkv_free(ctx, to);
    return fine ? QKV_OK : QKV_E_MEMORY;
}

qkv_status qkv__partition_create(qkv__partition **out, qkv_params *params, size_t chunks,
                                 bool matrices_whole, bool come_and_go)
{
    qkv_context *ctx = qkv__params_context(params);
    size_t n = qkv_params_count(params);
    qkv__partition *p = qkv_calloc(ctx, 1, sizeof *p);
    size_t *load = qkv_calloc(ctx, chunks, sizeof *load);
    *out = NULL;
    if (p) {
        *p = (qkv__partition){.params = params, .chunks = chunks};
        p->buckets = qkv_calloc(ctx, n, sizeof *p->buckets);
        p->bucket_of = qkv_calloc(ctx, n, sizeof *p->bucket_of);
        p->place_of = qkv_calloc(ctx, n, sizeof *p->place_of);
    }
    bool fine = p && load && p->buckets && p->bucket_of && p->place_of;
    if (fine) {
        plan_buckets(p, matrices_whole, load);
        p->pieces = qkv_calloc(ctx, most_pieces(p) + 1, sizeof *p->pieces);
    }
    fine = fine && p->pieces;
    if (fine)
        plan_pieces(p);
    qkv_status status = fine ? move_all(p, come_and_go) : QKV_E_MEMORY;
    qkv_free(ctx, load);
    if (status)
        qkv__partition_destroy(p);
    else
        *out = p;
    return status;
}

void qkv__partition_destroy(qkv__partition *p)
{
    if (!p)
        return;
    qkv_context *ctx = qkv__params_context(p->params);
    qkv_free(ctx, p->buckets);
    qkv_free(ctx, p->bucket_of);
    qkv_free(ctx, p->place_of);
    qkv_free(ctx, p->pieces);
    qkv_free(ctx, p);
}

/* ---- working on it ------------------------------------------------------------------------ */

void qkv__bucket_range(const qkv__bucket *b, size_t first, size_t end, size_t *from, size_t *to)
{
    bool home = !b->chunk && b->home >= first && b->home < end;
    *from = b->chunk ? first * b->chunk : 0;
    *to = b->chunk ? end * b->chunk : home ? b->count : 0;
}

void qkv__bucket_slice(const qkv__partition *p, size_t bucket, size_t ranks, size_t rank,
                       size_t *from, size_t *to)
{
    size_t each = p->chunks / ranks, first = rank * each;
    qkv__bucket_range(&p->buckets[bucket], first, first + each, from, to);
}

void qkv__partition_own(const qkv__partition *p, size_t param, size_t ranks, size_t rank,
                        size_t *from, size_t *to)
{
    size_t begin = p->place_of[param], count = qkv_params_at(p->params, param)->count;
    qkv__bucket_slice(p, p->bucket_of[param], ranks, rank, from, to);
    *from = *from > begin ? *from - begin : 0;
    *to = *to > begin ? *to - begin : 0;
    *to = *to < count ? *to : count;
    *from = *from < *to ? *from : *to;
}

bool qkv__bucket_has_grad(const qkv__partition *p, size_t bucket)
{
    const qkv__bucket *b = &p->buckets[bucket];
    bool has = false;
    for (size_t i = b->first; i < b->first + b->pieces && !has; i++)
        has = qkv_params_at(p->params, p->pieces[i].param)->has_grad;
    return has;
}

void qkv__bucket_complete(const qkv__partition *p, size_t bucket)
{
    const qkv__bucket *b = &p->buckets[bucket];
    for (size_t i = b->first; i < b->first + b->pieces; i++) {
        qkv_param *x = qkv_params_at(p->params, p->pieces[i].param);
        if (!x->has_grad)
            qkv__params_device(p->params)->fill(x->grad, 0, x->count * sizeof *x->grad);
        x->grad_version++;
    }
}

void qkv__bucket_swap(const qkv__partition *p, size_t bucket, qkv_real **other)
{
    qkv__bucket *b = &p->buckets[bucket];
    qkv_real *grad = b->grad;
    b->grad = *other;
    *other = grad;
    place_grads(p, bucket);
}

void qkv__bucket_take(const qkv__partition *p, size_t bucket, qkv_real *grad)
{
    p->buckets[bucket].grad = grad;
    place_grads(p, bucket);
}

qkv_real *qkv__bucket_drop(const qkv__partition *p, size_t bucket)
{
    qkv_real *grad = p->buckets[bucket].grad;
    qkv__bucket_take(p, bucket, NULL);
    return grad;
}

void qkv__partition_add(const qkv__partition *p, qkv_real *y, const qkv_real *x, size_t n)
{
    qkv_exec e = qkv__params_exec(p->params);
    qkv__params_kernels(p->params)->axpy(&e, y, x, 1, true, n);
}

qkv_real *qkv__partition_grad(const qkv__partition *p, size_t param, size_t element)
{
    const qkv__bucket *b = &p->buckets[p->bucket_of[param]];
    size_t at = p->place_of[param] + element;
    return b->slice ? b->slice + (at - b->slice_from) : b->grad + at;
}

const qkv_real *qkv__piece_grad(const qkv__partition *p, const qkv__piece *piece)
{
    return qkv__partition_grad(p, piece->param, piece->from);
}

double qkv__piece_squares(const qkv__partition *p, const qkv__piece *piece)
{
    qkv_exec e = qkv__params_exec(p->params);
    return qkv__params_kernels(p->params)->sum_squares(&e, qkv__piece_grad(p, piece),
                                                       piece->count);
}

void qkv__bucket_touch(const qkv__partition *p, size_t bucket)
{
    const qkv__bucket *b = &p->buckets[bucket];
    for (size_t i = b->first; i < b->first + b->pieces; i++)
        if (p->pieces[i].first)
            qkv__param_changed(qkv_params_at(p->params, p->pieces[i].param));
}
