/* kv_slots.c - sequences of unequal lengths in one cache of keys and values, each in a slot of its
 * own, which is used again without being cleared. */
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

/* Rows of x behind what their slots hold. */
static void kv_slots_write(qkv_tape *t, const qkv_kv_cache *c, const qkv_kv_slots *s,
                           const qkv__kv_side *side, const qkv_tensor *x, size_t width)
{
    size_t bytes = qkv__kv_bytes(c->store);
    const size_t dense[] = {c->heads * width, width, 1};
    for (size_t i = 0; i < s->sequences; i++) {
        size_t n = (size_t)(s->offsets[i + 1] - s->offsets[i]);
        size_t row = (size_t)s->slots[i] * c->capacity + (size_t)s->past[i];
        char *to = (char *)side->data + row * c->heads * width * bytes;
        const qkv_real *from = qkv__real(x) + (size_t)s->offsets[i] * x->stride[1];
        if (c->store == QKV_KV_F32)
            t->k->copy(&t->exec, (qkv_real *)(void *)to, dense, from, x->stride + 1,
                       (size_t[]){n, c->heads, width}, 3, false);
        else
            t->k->kv_store(&t->exec, to, side->scale ? side->scale + row * c->heads : NULL, from,
                           x->stride[1], x->stride[2], (qkv_k_kv)c->store, n, c->heads, width);
    }
}

/* What attention reads: a view of all the memory, or reals made of the rows that are seen, which
 * stand one after another (total in all). begins: where they are in the memory. */
static qkv_tensor *kv_slots_read(qkv_tape *t, const qkv_kv_cache *c, const qkv_kv_slots *s,
                                 const qkv__kv_side *side, size_t width, const int32_t *begins,
                                 const int32_t *lengths, size_t total)
{
    size_t shape[] = {1, c->most * c->capacity, c->heads, width}, bytes = qkv__kv_bytes(c->store);
    if (c->store == QKV_KV_F32)
        return qkv__new_over(t, QKV_REAL, side->data, 4, shape);
    shape[1] = total;
    qkv_tensor *all = qkv__new(t, QKV_REAL, 4, shape);
    qkv_real *to = all ? qkv__real(all) : NULL;
    for (size_t i = 0; all && i < s->sequences; i++) {
        size_t row = (size_t)begins[i] * c->heads, n = (size_t)lengths[i] * c->heads;
        t->k->kv_load(&t->exec, to, (const char *)side->data + row * width * bytes,
                      side->scale ? side->scale + row : NULL, (qkv_k_kv)c->store, n, width);
        to += n * width;
    }
    return all;
}

bool qkv_kv_cache_put(qkv_tape *t, qkv_kv_cache *c, const qkv_kv_slots *s, qkv_tensor *k,
                      qkv_tensor *v, struct qkv_attention_options *o, qkv_tensor **k_all,
                      qkv_tensor **v_all)
{
    qkv_tensor *in[] = {k, v};
    *k_all = *v_all = NULL;
    if (!qkv__ready_reals(t, "kv_cache", 2, in))
        return false;
    if (qkv__recording(t, 2, in))
        return qkv__op_fail(t, "kv_cache", "keys and values that want a gradient: nothing goes "
                            "back through a cache, so the tape must not record") != NULL;
    if (!kv_slots_shapes_fit(t, c, k, v) || !kv_slots_fit(t, c, s, k->shape[1]))
        return false;
    int32_t *begins = qkv__step_alloc(t, (3 * s->sequences + 1) * sizeof *begins);
    if (!begins)
        return false;
    int32_t *lengths = begins + s->sequences, *copied = lengths + s->sequences;
    size_t total = 0;
    for (size_t i = 0; i < s->sequences; i++) {
        int32_t first = s->first ? s->first[i] : 0;
        begins[i] = s->slots[i] * (int32_t)c->capacity + first;
        lengths[i] = s->past[i] - first + s->offsets[i + 1] - s->offsets[i];
        copied[i] = (int32_t)total;
        total += (size_t)lengths[i];
    }
    o->sequences = s->sequences;
    o->q_offsets = s->offsets;
    o->k_begins = c->store == QKV_KV_F32 ? begins : copied;
    o->k_lengths = lengths;
    kv_slots_write(t, c, s, &c->k, k, c->D);
    kv_slots_write(t, c, s, &c->v, v, c->Dv);
    *k_all = kv_slots_read(t, c, s, &c->k, c->D, begins, lengths, total);
    *v_all = kv_slots_read(t, c, s, &c->v, c->Dv, begins, lengths, total);
    return *k_all && *v_all;
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
    return true;
}
