/* kv_slots.c - sequences of unequal lengths in one cache of keys and values, each in a slot of its
 * own, which is used again without being cleared. */
#include <math.h>

#include "tensor/kv_memory.h"

/* The sentence of the first thing that does not fit; true: all does. */
static bool kv_slots_fit(qkv_tape *t, const qkv_kv_cache *c, const qkv_kv_slots *s, size_t rows)
{
    if (c->most * c->capacity > INT32_MAX)
        return qkv__op_fail(t, "kv_cache", "%zu slots of %zu positions are more than %d",
                            c->most, c->capacity, (int)INT32_MAX) != NULL;
    if (s->offsets[0] != 0)
        return qkv__op_fail(t, "kv_cache", "offsets begin at %d, not at 0",
                            (int)s->offsets[0]) != NULL;
    for (size_t i = 0; i < s->sequences; i++) {
        int32_t n = s->offsets[i + 1] - s->offsets[i], first = s->first ? s->first[i] : 0;
        if (n < 0 || s->slots[i] < 0 || (size_t)s->slots[i] >= c->most)
            return qkv__op_fail(t, "kv_cache", "sequence %zu: %d rows for slot %d of %zu", i,
                                (int)n, (int)s->slots[i], c->most) != NULL;
        if (s->past[i] < 0 || first < 0 || first > s->past[i])
            return qkv__op_fail(t, "kv_cache", "sequence %zu: %d positions of which those from %d "
                                "are seen", i, (int)s->past[i], (int)first) != NULL;
        if ((size_t)s->past[i] + (size_t)n > c->capacity)
            return qkv__op_fail(t, "kv_cache", "slot %d is full: %d of %zu positions used, %d more "
                                "wanted", (int)s->slots[i], (int)s->past[i], c->capacity,
                                (int)n) != NULL;
    }
    if ((size_t)s->offsets[s->sequences] != rows)
        return qkv__op_fail(t, "kv_cache", "offsets end at %d; %zu rows expected",
                            (int)s->offsets[s->sequences], rows) != NULL;
    return true;
}

static bool kv_slots_shapes_fit(qkv_tape *t, const qkv_kv_cache *c, const qkv_tensor *k,
                                const qkv_tensor *v)
{
    bool fit = k->ndim == 4 && v->ndim == 4 && k->shape[0] == 1 && v->shape[0] == 1 &&
               k->shape[1] == v->shape[1] && k->shape[2] == c->heads && v->shape[2] == c->heads &&
               k->shape[3] == c->D && v->shape[3] == c->Dv;
    return fit || qkv__op_fail(t, "kv_cache", "k %s and v %s do not fit (1, rows, %zu, %zu or %zu)",
                               qkv__shape_text(t, k), qkv__shape_text(t, v), c->heads, c->D,
                               c->Dv);
}

/* Where the pass's rows go: (rows), of the step. NULL: out of memory. */
static size_t *kv_slots_places(qkv_tape *t, const qkv_kv_cache *c, const qkv_kv_slots *s,
                               size_t rows)
{
    size_t *places = qkv__step_alloc(t, (rows + 1) * sizeof *places);
    for (size_t i = 0; i < s->sequences && places; i++) {
        const size_t first = (size_t)s->offsets[i], end = (size_t)s->offsets[i + 1];
        for (size_t r = first; r < end; r++)
            places[r] = (size_t)s->slots[i] * c->capacity + (size_t)s->past[i] + (r - first);
    }
    return places;
}

static void kv_slots_write(qkv_tape *t, const qkv_kv_cache *c, const qkv__kv_side *side,
                           const qkv_tensor *x, const size_t *places, size_t width)
{
    t->k->kv_store(&t->exec, side->data, side->scale, qkv__real(x), x->stride[1], x->stride[2],
                   places, (qkv_k_kv)c->store, x->shape[1], c->heads, width);
}

bool qkv_kv_cache_put(qkv_tape *t, qkv_kv_cache *c, const qkv_kv_slots *s, qkv_tensor *k,
                      qkv_tensor *v)
{
    qkv_tensor *in[] = {k, v};
    if (!qkv__ready_reals(t, "kv_cache", 2, in))
        return false;
    if (qkv__recording(t, 2, in))
        return qkv__op_fail(t, "kv_cache", "keys and values that want a gradient: nothing goes "
                            "back through a cache, so the tape must not record") != NULL;
    if (!kv_slots_shapes_fit(t, c, k, v) || !kv_slots_fit(t, c, s, k->shape[1]))
        return false;
    const size_t *places = kv_slots_places(t, c, s, k->shape[1]);
    k = k->stride[3] == 1 ? k : qkv_contiguous(t, k);
    v = v->stride[3] == 1 ? v : qkv_contiguous(t, v);
    if (!places || !k || !v)
        return false;
    kv_slots_write(t, c, &c->k, k, places, c->D);
    kv_slots_write(t, c, &c->v, v, places, c->Dv);
    for (size_t i = 0; i < s->sequences; i++)
        qkv__kv_write(c, (size_t)s->slots[i] * c->capacity + (size_t)s->past[i],
                      (size_t)(s->offsets[i + 1] - s->offsets[i]));
    return true;
}

/* ---- reading ------------------------------------------------------------------------------ */

static size_t kv_slots_first(const qkv_kv_slots *s, size_t i)
{
    return s->first ? (size_t)s->first[i] : 0;
}

/* Positions of sequence i that are seen, after the pass's rows were appended. */
static size_t kv_slots_seen(const qkv_kv_slots *s, size_t i)
{
    return (size_t)(s->past[i] + s->offsets[i + 1] - s->offsets[i]) - kv_slots_first(s, i);
}

/* All sequences at once, where they lie. */
static qkv_tensor *kv_slots_attend_all(qkv_tape *t, qkv_kv_cache *c, const qkv_kv_slots *s,
                                       qkv_tensor *q, qkv_attention_options *o)
{
    const size_t rows = c->most * c->capacity;
    int32_t *begins = qkv__step_alloc(t, (2 * s->sequences + 1) * sizeof *begins);
    if (!begins)
        return NULL;
    int32_t *lengths = begins + s->sequences;
    for (size_t i = 0; i < s->sequences; i++) {
        begins[i] = s->slots[i] * (int32_t)c->capacity + (int32_t)kv_slots_first(s, i);
        lengths[i] = (int32_t)kv_slots_seen(s, i);
    }
    o->sequences = s->sequences;
    o->q_offsets = s->offsets;
    o->k_begins = begins;
    o->k_lengths = lengths;
    qkv_tensor *k = qkv__new_over(t, QKV_REAL, c->k.data, 4, (size_t[]){1, rows, c->heads, c->D});
    qkv_tensor *v = qkv__new_over(t, QKV_REAL, c->v.data, 4, (size_t[]){1, rows, c->heads, c->Dv});
    return qkv_attention(t, q, k, v, o);
}

/* Whether the kernel for few queries of a sequence serves: nobody asks for weights or drops any. */
static bool kv_slots_few(const qkv_tape *t, const qkv_kv_cache *c, const qkv_kv_slots *s,
                         const qkv_tensor *q, const qkv_attention_options *o)
{
    bool few = !t->probes && !(t->train && o->dropout > 0) && q->shape[3] == c->D &&
               q->shape[2] % c->heads == 0;
    for (size_t i = 0; i < s->sequences; i++)
        few = few && s->offsets[i + 1] - s->offsets[i] <= QKV_K_FEW;
    return few;
}

/* All sequences at once, their keys and values as they are stored. */
static qkv_tensor *kv_slots_attend_stored(qkv_tape *t, const qkv_kv_cache *c,
                                          const qkv_kv_slots *s, qkv_tensor *q,
                                          const qkv_attention_options *o)
{
    const size_t n = s->sequences, rows = q->shape[1], heads = q->shape[2];
    qkv_tensor *y = qkv__new(t, QKV_REAL, 4, (size_t[]){1, rows, heads, c->Dv});
    size_t *list = qkv__step_alloc(t, (4 * n + 1) * sizeof *list);
    qkv_real *lse = qkv__step_memory(t, (rows * heads + 1) * sizeof *lse);
    q = qkv_contiguous(t, q);
    if (!y || !list || !lse || !q)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        list[i] = (size_t)s->offsets[i];
        list[n + i] = (size_t)(s->offsets[i + 1] - s->offsets[i]);
        list[2 * n + i] = (size_t)s->slots[i] * c->capacity + kv_slots_first(s, i);
        list[3 * n + i] = kv_slots_seen(s, i);
    }
    const qkv_k_attention_args a = {
        .B = n, .H = heads, .Hkv = c->heads, .D = c->D, .Dv = c->Dv, .q_begin = list,
        .q_len = list + n, .k_begin = list + 2 * n, .k_len = list + 3 * n,
        .k_len_full = list + 3 * n, .q_row = heads * c->D, .q_head = c->D,
        .o_row = heads * c->Dv, .o_head = c->Dv, .causal = o->causal,
        .window = o->causal ? o->window : 0,
        .scale = o->scale != 0 ? o->scale : 1 / sqrt((double)c->D)};
    const qkv_k_stored k = {(qkv_k_kv)c->store, c->k.data, c->k.scale};
    const qkv_k_stored v = {(qkv_k_kv)c->store, c->v.data, c->v.scale};
    t->k->attention_stored(&t->exec, qkv__real(y), lse, qkv__real(q), &k, &v, &a);
    return y;
}

/* What sequence i sees, as reals. */
static qkv_tensor *kv_slots_load(qkv_tape *t, const qkv_kv_cache *c, const qkv_kv_slots *s,
                                 size_t i, const qkv__kv_side *side, size_t width)
{
    size_t n = kv_slots_seen(s, i), shape[] = {1, n, c->heads, width};
    size_t row = ((size_t)s->slots[i] * c->capacity + kv_slots_first(s, i)) * c->heads;
    qkv_tensor *x = qkv__new(t, QKV_REAL, 4, shape);
    if (x)
        t->k->kv_load(&t->exec, qkv__real(x),
                      (const char *)side->data + row * width * qkv__kv_bytes(c->store),
                      side->scale ? side->scale + row : NULL, (qkv_k_kv)c->store, n * c->heads,
                      width);
    return x;
}

/* One sequence after another, so that its reals are still in the processor's cache when attention
 * reads them. */
static qkv_tensor *kv_slots_attend_each(qkv_tape *t, const qkv_kv_cache *c, const qkv_kv_slots *s,
                                        qkv_tensor *q, const qkv_attention_options *o)
{
    qkv_tensor *y = qkv__new(t, QKV_REAL, 4, (size_t[]){1, q->shape[1], q->shape[2], c->Dv});
    for (size_t i = 0; y && i < s->sequences && !t->status; i++) {
        size_t from = (size_t)s->offsets[i], end = (size_t)s->offsets[i + 1];
        if (from == end)
            continue;
        qkv__mark mark = qkv__arena_mark(t->step);
        qkv_tensor *k = kv_slots_load(t, c, s, i, &c->k, c->D);
        qkv_tensor *v = kv_slots_load(t, c, s, i, &c->v, c->Dv);
        qkv_tensor *part = qkv_attention(t, qkv_slice(t, q, 1, from, end), k, v, o);
        if (part)
            t->device->copy(qkv__real(y) + from * y->stride[1], qkv__real(part),
                            qkv_count(part) * sizeof(qkv_real));
        qkv__arena_release(t->step, mark);
    }
    return t->status ? NULL : y;
}

qkv_tensor *qkv_kv_cache_attend(qkv_tape *t, qkv_kv_cache *c, const qkv_kv_slots *s, qkv_tensor *q,
                                const struct qkv_attention_options *options)
{
    qkv_attention_options o = *options;
    if (!qkv__ready_reals(t, "kv_cache", 1, &q) || !kv_slots_fit(t, c, s, qkv_dim(q, 1)))
        return NULL;
    if (q->ndim != 4 || q->shape[0] != 1 || qkv__recording(t, 1, &q))
        return qkv__op_fail(t, "kv_cache", "q %s is not (1, rows, heads, width), or wants a "
                            "gradient", qkv__shape_text(t, q));
    o.sequences = 0;
    o.q_offsets = o.k_offsets = o.k_lengths = o.k_begins = NULL;
    o.bias = o.mask = o.relative = NULL;
    if (c->store == QKV_KV_F32)
        return kv_slots_attend_all(t, c, s, q, &o);
    return (kv_slots_few(t, c, s, q, &o) ? kv_slots_attend_stored : kv_slots_attend_each)(t, c, s,
                                                                                          q, &o);
}

/* Positions, of which each takes `bytes` bytes; the two may overlap. */
static void kv_slots_copy(qkv_tape *t, const qkv_kv_cache *c, void *memory, size_t bytes, size_t to,
                          size_t from, size_t count)
{
    char *p = memory;
    if (p)
        t->device->copy(p + to * c->capacity * bytes, p + from * bytes, count * bytes);
}

bool qkv_kv_cache_copy(qkv_tape *t, qkv_kv_cache *c, size_t to, size_t from, size_t first,
                       size_t count)
{
    if (t->status)
        return false;
    if (to >= c->most || from >= c->most || count > c->capacity || first > c->capacity - count)
        return qkv__op_fail(t, "kv_cache", "positions %zu .. %zu of slot %zu for slot %zu: %zu "
                            "slots of %zu expected", first, first + count, from, to, c->most,
                            c->capacity) != NULL;
    size_t row = from * c->capacity + first, number = c->heads * qkv__kv_bytes(c->store);
    kv_slots_copy(t, c, c->k.data, c->D * number, to, row, count);
    kv_slots_copy(t, c, c->v.data, c->Dv * number, to, row, count);
    kv_slots_copy(t, c, c->k.scale, c->heads * sizeof(qkv_real), to, row, count);
    kv_slots_copy(t, c, c->v.scale, c->heads * sizeof(qkv_real), to, row, count);
    qkv__kv_write(c, to * c->capacity, count);
    return true;
}
