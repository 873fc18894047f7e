/* pool.c - memory of intermediates' gradients, used again and again within a backward pass. */
#include "tensor/tape.h"

enum { SPARE_ALIGN = 64 };

struct qkv__buffer {
    qkv_real *data;
    struct qkv__buffer *next;
};

static void pool_push(struct qkv__buffer **list, struct qkv__buffer *b)
{
    b->next = *list;
    *list = b;
}

static void *new_buffer(qkv_tape *t, size_t bytes)
{
    size_t need = (bytes + SPARE_ALIGN - 1) / SPARE_ALIGN * SPARE_ALIGN;
    if (need == 0 || need > t->spare_bytes)
        return qkv__step_memory(t, bytes);
    void *p = t->spare;
    t->spare += need;
    t->spare_bytes -= need;
    return p;
}

/* The smallest free buffer that is not twice too large, else a new one. */
qkv_real *qkv__pool_take(qkv_tape *t, size_t bytes)
{
    qkv__pool_class *best = NULL;
    for (int i = 0; i < t->pool_classes; i++) {
        qkv__pool_class *c = &t->pool[i];
        bool fits = c->free && c->bytes >= bytes && c->bytes / 2 <= bytes;
        if (fits && (!best || c->bytes < best->bytes))
            best = c;
    }
    if (!best)
        return new_buffer(t, bytes);
    struct qkv__buffer *b = best->free;
    best->free = b->next;
    pool_push(&t->empty, b);
    return b->data;
}

void qkv__pool_give(qkv_tape *t, qkv_real *p, size_t bytes)
{
    qkv__pool_class *c = NULL;
    for (int i = 0; i < t->pool_classes && !c; i++)
        if (t->pool[i].bytes == bytes)
            c = &t->pool[i];
    if (!c) {
        if (t->pool_classes == QKV__POOL_CLASSES)
            return; /* stays unused until the reset */
        c = &t->pool[t->pool_classes++];
        *c = (qkv__pool_class){bytes, NULL};
    }
    struct qkv__buffer *b = t->empty;
    if (b)
        t->empty = b->next;
    else if (!(b = qkv__step_alloc(t, sizeof *b)))
        return;
    b->data = p;
    pool_push(&c->free, b);
}

void qkv__grad_spare(qkv_tape *t, void *p, size_t bytes)
{
    if (t->retain_graph || t->region || bytes <= t->spare_bytes)
        return;
    t->spare = p;
    t->spare_bytes = bytes;
}
