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

/* Rows of x behind what their slots hold; a view of all the memory. */
static qkv_tensor *kv_slots_write(qkv_tape *t, const qkv_kv_cache *c, const qkv_kv_slots *s,
                                  qkv_real *memory, const qkv_tensor *x, size_t width)
{
    const size_t shape[] = {1, c->most * c->capacity, c->heads, width};
    qkv_tensor *all = qkv__new_over(t, QKV_REAL, memory, 4, shape);
    for (size_t i = 0; all && i < s->sequences; i++) {
        size_t n = (size_t)(s->offsets[i + 1] - s->offsets[i]);
        size_t row = (size_t)s->slots[i] * c->capacity + (size_t)s->past[i];
        t->k->copy(&t->exec, memory + row * c->heads * width, all->stride + 1,
                   qkv__real(x) + (size_t)s->offsets[i] * x->stride[1], x->stride + 1,
                   (size_t[]){n, c->heads, width}, 3, false);
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
    int32_t *begins = qkv__step_alloc(t, (2 * s->sequences + 1) * sizeof *begins);
    if (!begins)
        return false;
    int32_t *lengths = begins + s->sequences;
    for (size_t i = 0; i < s->sequences; i++) {
        int32_t first = s->first ? s->first[i] : 0;
        begins[i] = s->slots[i] * (int32_t)c->capacity + first;
        lengths[i] = s->past[i] - first + s->offsets[i + 1] - s->offsets[i];
    }
    o->sequences = s->sequences;
    o->q_offsets = s->offsets;
    o->k_begins = begins;
    o->k_lengths = lengths;
    *k_all = kv_slots_write(t, c, s, c->k, k, c->D);
    *v_all = kv_slots_write(t, c, s, c->v, v, c->Dv);
    return *k_all && *v_all;
}

/* Within a slot rows move towards its beginning, one after another, so that none is overwritten
 * before it has moved. */
static bool kv_slots_move(qkv_tape *t, qkv_kv_cache *c, size_t slot, size_t first, size_t count)
{
    qkv__mark mark = qkv__arena_mark(t->host);
    size_t *to = qkv__arena_alloc(t->host, (2 * count + 1) * sizeof *to), *from = to + count;
    t->status = to ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; to && i < count; i++) {
        to[i] = slot * c->capacity + i;
        from[i] = to[i] + first;
    }
    size_t k_row = c->heads * c->D, v_row = c->heads * c->Dv;
    if (to) {
        t->k->move(&t->exec, c->k, k_row, to, from, count, k_row);
        t->k->move(&t->exec, c->v, v_row, to, from, count, v_row);
    }
    qkv__arena_release(t->host, mark);
    return to != NULL;
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
    if (to == from)
        return !first || kv_slots_move(t, c, to, first, count);
    size_t k_row = c->heads * c->D, v_row = c->heads * c->Dv, shape[] = {1, 0};
    for (int i = 0; i < 2; i++) {
        qkv_real *memory = i ? c->v : c->k;
        size_t row = i ? v_row : k_row;
        shape[1] = count * row;
        t->k->copy(&t->exec, memory + to * c->capacity * row, (size_t[]){shape[1], 1},
                   memory + (from * c->capacity + first) * row, (size_t[]){shape[1], 1}, shape, 2,
                   false);
    }
    return true;
}
