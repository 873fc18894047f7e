/* kv_cache.c - keys and values of earlier positions, so that decoding computes each once. */
#include <string.h>

#include "tensor/tape.h"

struct qkv_kv_cache {
    qkv_context *ctx;
    size_t B, capacity, length, window, heads, D, Dv; /* window: 0, or what append shows */
    qkv_real *k, *v; /* (B, capacity, heads, D) and (B, capacity, heads, Dv) */
};

qkv_status qkv_kv_cache_create(qkv_kv_cache **out, qkv_context *ctx, size_t B, size_t capacity,
                               size_t Hkv, size_t D, size_t Dv)
{
    *out = NULL;
    qkv_kv_cache *c = qkv__calloc(ctx, 1, sizeof *c);
    if (!c)
        return QKV_E_MEMORY;
    *c = (qkv_kv_cache){.ctx = ctx, .B = B, .capacity = capacity, .heads = Hkv, .D = D, .Dv = Dv};
    size_t rows, k_bytes, v_bytes;
    bool fits = qkv__mul_size(B, capacity, &rows) && qkv__mul_size(rows, Hkv, &rows) &&
                qkv__mul_size(rows, D * sizeof(qkv_real), &k_bytes) &&
                qkv__mul_size(rows, Dv * sizeof(qkv_real), &v_bytes);
    if (!fits) {
        qkv__free(ctx, c);
        return qkv__fail(ctx, QKV_E_ARGUMENT, "a cache of %zu x %zu positions has no size", B,
                         capacity);
    }
    c->k = qkv__malloc(ctx, k_bytes);
    c->v = c->k ? qkv__malloc(ctx, v_bytes) : NULL;
    if (!c->v) {
        qkv_kv_cache_destroy(c);
        return QKV_E_MEMORY;
    }
    *out = c;
    return QKV_OK;
}

void qkv_kv_cache_destroy(qkv_kv_cache *c)
{
    if (!c)
        return;
    qkv__free(c->ctx, c->k);
    qkv__free(c->ctx, c->v);
    qkv__free(c->ctx, c);
}

size_t qkv_kv_cache_length(const qkv_kv_cache *c) { return c->length; }

void qkv_kv_cache_truncate(qkv_kv_cache *c, size_t length)
{
    if (length < c->length)
        c->length = length;
}

void qkv_kv_cache_window(qkv_kv_cache *c, size_t positions) { c->window = positions; }

static bool fits(const qkv_kv_cache *c, const qkv_tensor *x, size_t width)
{
    return x->ndim == 4 && x->shape[0] == c->B && x->shape[2] == c->heads && x->shape[3] == width;
}

/* Positions first .. end-1 of memory, which holds the whole capacity. */
static qkv_tensor *view(qkv_tape *t, const qkv_kv_cache *c, qkv_real *memory, size_t width,
                        size_t first, size_t end)
{
    size_t shape[] = {c->B, c->capacity, c->heads, width};
    qkv_tensor *whole = qkv_tensor_wrap(t, memory, 4, shape);
    shape[1] = end - first;
    return whole ? qkv__view(t, whole, 4, shape, whole->stride, first * c->heads * width,
                             QKV__OTHER) : NULL;
}

/* Copies x behind what is there and returns a view of everything in the window. */
static qkv_tensor *put(qkv_tape *t, const qkv_kv_cache *c, qkv_real *memory, const qkv_tensor *x,
                       size_t width)
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
    *k_all = view(t, c, c->k, c->D, 0, c->length);
    *v_all = view(t, c, c->v, c->Dv, 0, c->length);
    return *k_all && *v_all;
}

bool qkv_kv_cache_append(qkv_tape *t, qkv_kv_cache *c, qkv_tensor *k, qkv_tensor *v,
                         qkv_tensor **k_all, qkv_tensor **v_all)
{
    qkv_tensor *in[] = {k, v};
    *k_all = *v_all = NULL;
    if (!qkv__ready_reals(t, "kv_cache", 2, in))
        return false;
    if (qkv__recording(t, 2, in))
        return qkv__op_fail(t, "kv_cache", "keys and values that want a gradient: nothing goes "
                            "back through a cache, so the tape must not record") != NULL;
    if (!fits(c, k, c->D) || !fits(c, v, c->Dv) || k->shape[1] != v->shape[1])
        return qkv__op_fail(t, "kv_cache", "k %s and v %s do not fit (%zu, T, %zu, %zu or %zu)",
                            qkv__shape_text(t, k), qkv__shape_text(t, v), c->B, c->heads, c->D,
                            c->Dv) != NULL;
    if (k->shape[1] > c->capacity - c->length)
        return qkv__op_fail(t, "kv_cache", "full: %zu of %zu positions used, %zu more wanted",
                            c->length, c->capacity, k->shape[1]) != NULL;
    if (c->window && k->shape[1] > 1 && c->length + k->shape[1] > c->window)
        return qkv__op_fail(t, "kv_cache", "%zu positions at once pass the window of %zu",
                            k->shape[1], c->window) != NULL;
    *k_all = put(t, c, c->k, k, c->D);
    *v_all = put(t, c, c->v, v, c->Dv);
    c->length += k->shape[1];
    return *k_all && *v_all;
}
