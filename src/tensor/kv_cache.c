/* kv_cache.c - keys and values of earlier positions, so that decoding computes each once; and,
 * for beams, sequences that take each other's places. */
#include <string.h>

#include "tensor/kv_memory.h"

/* Memory for `capacity` positions of each sequence, of heads of this width. On failure *out holds
 * nothing. */
static qkv_status kv_cache_allocate(const qkv_kv_cache *c, size_t capacity, size_t width,
                                    qkv__kv_side *out)
{
    size_t rows, bytes, scale_bytes;
    *out = (qkv__kv_side){0};
    bool fits = qkv__add_size(c->most, 1, &rows) && qkv__mul_size(rows, capacity, &rows) &&
                qkv__mul_size(rows, c->heads, &rows) &&
                qkv__mul_size(rows, width * qkv__kv_bytes(c->store), &bytes) &&
                qkv__mul_size(rows, sizeof(qkv_real), &scale_bytes);
    if (!fits)
        return qkv_fail(c->ctx, QKV_E_ARGUMENT, "a cache of %zu x %zu positions has no size",
                         c->most, capacity);
    const qkv__device *device = qkv__context_device(c->ctx);
    out->data = device->alloc(c->ctx, bytes);
    if (c->store == QKV_KV_INT8 && out->data)
        out->scale = device->alloc(c->ctx, scale_bytes);
    if (out->data && (out->scale || c->store != QKV_KV_INT8))
        return QKV_OK;
    device->free(c->ctx, out->data);
    *out = (qkv__kv_side){0};
    return QKV_E_MEMORY;
}

qkv_status qkv_kv_cache_create_as(qkv_kv_cache **out, qkv_context *ctx, qkv_kv_store store,
                                  size_t B, size_t capacity, size_t Hkv, size_t D, size_t Dv)
{
    *out = NULL;
    if (store < QKV_KV_F32 || store > QKV_KV_INT8)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "no cache stores numbers as %d", (int)store);
    qkv_kv_cache *c = qkv_calloc(ctx, 1, sizeof *c);
    if (!c)
        return QKV_E_MEMORY;
    *c = (qkv_kv_cache){.ctx = ctx, .store = store, .B = B, .most = B, .heads = Hkv, .D = D,
                        .Dv = Dv};
    qkv_status status = kv_cache_allocate(c, capacity, D, &c->k);
    if (!status)
        status = kv_cache_allocate(c, capacity, Dv, &c->v);
    if (!status && !(c->written = qkv_calloc(ctx, (B + 1) * capacity, sizeof *c->written)))
        status = QKV_E_MEMORY;
    if (status) {
        qkv_kv_cache_destroy(c);
        return status;
    }
    c->capacity = capacity;
    *out = c;
    return QKV_OK;
}

qkv_status qkv_kv_cache_create(qkv_kv_cache **out, qkv_context *ctx, size_t B, size_t capacity,
                               size_t Hkv, size_t D, size_t Dv)
{
    return qkv_kv_cache_create_as(out, ctx, QKV_KV_F32, B, capacity, Hkv, D, Dv);
}

static void kv_cache_free(const qkv_kv_cache *c, qkv__kv_side *side)
{
    const qkv__device *device = qkv__context_device(c->ctx);
    device->free(c->ctx, side->data);
    device->free(c->ctx, side->scale);
}

void qkv_kv_cache_destroy(qkv_kv_cache *c)
{
    if (!c)
        return;
    kv_cache_free(c, &c->k);
    kv_cache_free(c, &c->v);
    qkv_free(c->ctx, c->written);
    qkv_free(c->ctx, c);
}

/* False, and the tape has failed, for a cache that only slots can be used of. */
static bool kv_cache_plain(qkv_tape *t, const qkv_kv_cache *c)
{
    return c->store == QKV_KV_F32 ||
           qkv__op_fail(t, "kv_cache", "a cache of bf16 or int8 takes positions by "
                        "qkv_kv_cache_put alone");
}

size_t qkv_kv_cache_length(const qkv_kv_cache *c) { return c->length; }

size_t qkv_kv_cache_bytes(const qkv_kv_cache *c)
{
    size_t numbers = (c->D + c->Dv) * qkv__kv_bytes(c->store);
    size_t scales = c->store == QKV_KV_INT8 ? 2 * sizeof(qkv_real) : 0;
    return (c->most + 1) * c->capacity * c->heads * (numbers + scales);
}

bool qkv_kv_cache_reset(qkv_kv_cache *c, size_t B, size_t capacity)
{
    if (B > c->most || capacity > c->capacity)
        return false;
    c->B = B;
    c->length = 0;
    return true;
}

void qkv_kv_cache_truncate(qkv_kv_cache *c, size_t length)
{
    if (length < c->length)
        c->length = length;
}

/* The copies that make sequence i (of n) what rows[i] was, in an order in which none overwrites
 * what another still needs: at most 2 n. A ring (1 <- 2 <- 1) goes over the spare sequence.
 * readers[j]: how many others still need the old j. */
static size_t kv_cache_plan(const qkv_kv_cache *c, const size_t *rows, size_t n, size_t *readers,
                            size_t *to, size_t *from)
{
    size_t moves = 0;
    for (size_t j = 0; j < c->most; j++)
        readers[j] = 0;
    for (size_t i = 0; i < n; i++)
        readers[rows[i]] += rows[i] != i;
    for (size_t ring = 0; ring < 2; ring++) /* first those that nobody needs, then the rings */
        for (size_t first = 0; first < n; first++) {
            bool open = rows[first] != first && readers[first] != SIZE_MAX;
            if (!open || (!ring && readers[first]))
                continue;
            if (ring) {
                to[moves] = c->most;
                from[moves++] = first;
                readers[first]--;
            }
            for (size_t i = first; i < n && rows[i] != i && readers[i] == 0;) {
                size_t source = rows[i];
                to[moves] = i;
                from[moves++] = ring && source == first ? c->most : source;
                readers[i] = SIZE_MAX; /* done */
                if (ring && source == first)
                    break;
                readers[source]--;
                i = source;
            }
        }
    return moves;
}

/* The position at which each move begins: what a place already holds is not copied again, and
 * hypotheses of one text have its first tokens in common. */
static void kv_cache_begins(qkv_kv_cache *c, const size_t *to, const size_t *from, size_t moves,
                            size_t *begin)
{
    for (size_t i = 0; i < moves; i++) {
        uint64_t *a = c->written + to[i] * c->capacity, *b = c->written + from[i] * c->capacity;
        size_t p = 0;
        while (p < c->length && a[p] == b[p])
            p++;
        memcpy(a + p, b + p, (c->length - p) * sizeof *a);
        begin[i] = p;
    }
}

static void kv_cache_move(qkv_tape *t, const qkv_kv_cache *c, const qkv__kv_side *side,
                          size_t width, const size_t *to, const size_t *from,
                          const size_t *positions, size_t *begin, size_t moves)
{
    size_t row = c->heads * width;
    for (size_t i = 0; i < moves; i++)
        begin[i] = positions[i] * row;
    t->k->move(&t->exec, side->data, c->capacity * row, to, from, begin, moves, c->length * row);
}

bool qkv_kv_cache_select(qkv_tape *t, qkv_kv_cache *c, const size_t *rows, size_t n)
{
    if (t->status || !kv_cache_plain(t, c))
        return false;
    for (size_t i = 0; i < n; i++)
        if (n > c->most || rows[i] >= c->B)
            return qkv__op_fail(t, "kv_cache", "sequence %zu of %zu taken for place %zu of %zu",
                                rows[i], c->B, i, c->most) != NULL;
    qkv__mark mark = qkv__arena_mark(t->host);
    size_t *list = qkv__arena_alloc(t->host, (c->most + 8 * n + 1) * sizeof *list);
    if (list) {
        size_t *to = list + c->most, *from = to + 2 * n, *at = from + 2 * n, *begin = at + 2 * n,
               moves = kv_cache_plan(c, rows, n, list, to, from);
        kv_cache_begins(c, to, from, moves, at);
        kv_cache_move(t, c, &c->k, c->D, to, from, at, begin, moves);
        kv_cache_move(t, c, &c->v, c->Dv, to, from, at, begin, moves);
        c->B = n;
    }
    qkv__arena_release(t->host, mark);
    t->status = list ? QKV_OK : QKV_E_MEMORY;
    return list != NULL;
}

bool qkv_kv_cache_reserve(qkv_tape *t, qkv_kv_cache *c, size_t capacity)
{
    qkv__kv_side *old[] = {&c->k, &c->v}, new[2];
    const size_t width[] = {c->D, c->Dv};
    if (t->status || !kv_cache_plain(t, c) || capacity <= c->capacity)
        return !t->status;
    t->status = kv_cache_allocate(c, capacity, width[0], &new[0]);
    if (t->status)
        return false;
    t->status = kv_cache_allocate(c, capacity, width[1], &new[1]);
    if (t->status) {
        kv_cache_free(c, &new[0]);
        return false;
    }
    uint64_t *written = qkv_calloc(c->ctx, (c->most + 1) * capacity, sizeof *written);
    if (!written) {
        kv_cache_free(c, &new[0]);
        kv_cache_free(c, &new[1]);
        t->status = QKV_E_MEMORY;
        return false;
    }
    for (size_t b = 0; b < c->B; b++)
        memcpy(written + b * capacity, c->written + b * c->capacity, c->length * sizeof *written);
    qkv_free(c->ctx, c->written);
    c->written = written;
    for (int i = 0; i < 2; i++) {
        size_t row = c->heads * width[i], shape[] = {c->B, c->length * row};
        t->k->copy(&t->exec, new[i].data, (size_t[]){capacity * row, 1}, old[i]->data,
                   (size_t[]){c->capacity * row, 1}, shape, 2, false);
        kv_cache_free(c, old[i]);
        *old[i] = new[i];
    }
    c->capacity = capacity;
    return true;
}

void qkv_kv_cache_window(qkv_kv_cache *c, size_t positions) { c->window = positions; }

static bool kv_cache_fits(const qkv_kv_cache *c, const qkv_tensor *x, size_t width)
{
    return x->ndim == 4 && x->shape[0] == c->B && x->shape[2] == c->heads && x->shape[3] == width;
}

/* Positions first .. end-1 of memory, which holds the whole capacity. */
static qkv_tensor *view(qkv_tape *t, const qkv_kv_cache *c, qkv_real *memory, size_t width,
                        size_t first, size_t end)
{
    size_t shape[] = {c->B, c->capacity, c->heads, width};
    qkv_tensor *whole = qkv__new_over(t, QKV_REAL, memory, 4, shape);
    shape[1] = end - first;
    return whole ? qkv__view(t, whole, 4, shape, whole->stride, first * c->heads * width,
                             QKV__OTHER) : NULL;
}

/* Copies x behind what is there and returns a view of everything in the window. */
static qkv_tensor *kv_cache_put(qkv_tape *t, const qkv_kv_cache *c, qkv_real *memory,
                                const qkv_tensor *x, size_t width)
{
    size_t end = c->length + x->shape[1];
    size_t first = c->window && end > c->window ? end - c->window : 0;
    qkv_tensor *all = view(t, c, memory, width, first, end);
    if (all)
        t->k->copy(&t->exec, memory + c->length * c->heads * width, all->stride, qkv__real(x),
                   x->stride, x->shape, 4, false);
    return all;
}

bool qkv_kv_cache_all(qkv_tape *t, qkv_kv_cache *c, qkv_tensor **k_all, qkv_tensor **v_all)
{
    *k_all = *v_all = NULL;
    if (!kv_cache_plain(t, c))
        return false;
    *k_all = view(t, c, c->k.data, c->D, 0, c->length);
    *v_all = view(t, c, c->v.data, c->Dv, 0, c->length);
    return *k_all && *v_all;
}

bool qkv_kv_cache_append(qkv_tape *t, qkv_kv_cache *c, qkv_tensor *k, qkv_tensor *v,
                         qkv_tensor **k_all, qkv_tensor **v_all)
{
    qkv_tensor *in[] = {k, v};
    *k_all = *v_all = NULL;
    if (!qkv__ready_reals(t, "kv_cache", 2, in) || !kv_cache_plain(t, c))
        return false;
    if (qkv__recording(t, 2, in))
        return qkv__op_fail(t, "kv_cache", "keys and values that want a gradient: nothing goes "
                            "back through a cache, so the tape must not record") != NULL;
    if (!kv_cache_fits(c, k, c->D) || !kv_cache_fits(c, v, c->Dv) || k->shape[1] != v->shape[1])
        return qkv__op_fail(t, "kv_cache", "k %s and v %s do not fit (%zu, T, %zu, %zu or %zu)",
                            qkv__shape_text(t, k), qkv__shape_text(t, v), c->B, c->heads, c->D,
                            c->Dv) != NULL;
    if (k->shape[1] > c->capacity - c->length)
        return qkv__op_fail(t, "kv_cache", "full: %zu of %zu positions used, %zu more wanted",
                            c->length, c->capacity, k->shape[1]) != NULL;
    if (c->window && k->shape[1] > 1 && c->length + k->shape[1] > c->window)
        return qkv__op_fail(t, "kv_cache", "%zu positions at once pass the window of %zu",
                            k->shape[1], c->window) != NULL;
    *k_all = kv_cache_put(t, c, c->k.data, k, c->D);
    *v_all = kv_cache_put(t, c, c->v.data, v, c->Dv);
    for (size_t b = 0; b < c->B; b++)
        qkv__kv_write(c, b * c->capacity + c->length, k->shape[1]);
    c->length += k->shape[1];
    return *k_all && *v_all;
}
