/* pickle_machine.h - the machine that pickle.c's opcodes work on: its input, stack, marks and memo.
 * Values and arrays live in the arena; what an array outgrew stays there. */
#ifndef QKV_SRC_PYTORCH_PICKLE_MACHINE_H
#define QKV_SRC_PYTORCH_PICKLE_MACHINE_H

#include <string.h>

#include "pytorch/value.h"

enum { QKV__PICKLE_BLOCK = 64 }; /* values made at once */

typedef struct {
    qkv__value **items;
    size_t count, room;
} pointers;

typedef struct {
    size_t *items; /* how high the stack was */
    size_t count, room;
} marks;

typedef struct {
    qkv_context *ctx;
    qkv__arena *arena;
    const char *path;
    const qkv__pickle_host *host;
    const uint8_t *begin, *p, *end;
    pointers stack, memo;
    size_t remembered; /* values in the memo */
    marks marks;
    qkv__value *block; /* new values, */
    size_t left;       /* as many */
} machine;

static inline qkv_status broken(const machine *m, const char *what)
{
    return qkv_fail(m->ctx, QKV_E_FORMAT, "%s: pickle: byte %zu: %s", m->path,
                    (size_t)(m->p - m->begin), what);
}

/* Room for one more in an array of elements of that size; the old one stays in the arena. */
static inline bool grow(machine *m, void **items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    size_t more = *room ? 2 * *room : 8;
    void *wider = qkv__arena_alloc(m->arena, more * size);
    if (!wider)
        return false;
    if (count)
        memcpy(wider, *items, count * size);
    *items = wider;
    *room = more;
    return true;
}

static inline qkv_status append(machine *m, pointers *to, qkv__value *v)
{
    void *items = to->items;
    if (!grow(m, &items, to->count, &to->room, sizeof v))
        return QKV_E_MEMORY;
    to->items = items;
    to->items[to->count++] = v;
    return QKV_OK;
}

static inline qkv__value *make(machine *m, qkv__value_kind kind)
{
    if (!m->left) {
        m->block = qkv__arena_zalloc(m->arena, QKV__PICKLE_BLOCK * sizeof *m->block);
        m->left = m->block ? QKV__PICKLE_BLOCK : 0;
    }
    if (!m->left)
        return NULL;
    m->left--;
    m->block->kind = kind;
    return m->block++;
}

static inline qkv_status push(machine *m, qkv__value *v)
{
    return v ? append(m, &m->stack, v) : QKV_E_MEMORY;
}

static inline qkv_status push_integer(machine *m, qkv__value_kind kind, int64_t x)
{
    qkv__value *v = make(m, kind);
    if (v)
        v->as.integer = x;
    return push(m, v);
}

/* Values above the last mark, or on the whole stack. */
static inline size_t height(const machine *m)
{
    return m->stack.count - (m->marks.count ? m->marks.items[m->marks.count - 1] : 0);
}

static inline qkv_status need(const machine *m, size_t values)
{
    return height(m) >= values ? QKV_OK : broken(m, "the stack is empty");
}

static inline qkv__value *pop(machine *m)
{
    return m->stack.items[--m->stack.count];
}

static inline qkv__value *top(const machine *m)
{
    return m->stack.items[m->stack.count - 1];
}

/* *count values above the last mark are the topmost ones; the mark goes. */
static inline qkv_status pop_mark(machine *m, size_t *count)
{
    if (!m->marks.count)
        return broken(m, "there is no mark");
    *count = height(m);
    m->marks.count--;
    return QKV_OK;
}

static inline qkv_status take(machine *m, size_t bytes, const uint8_t **out)
{
    if (bytes > (size_t)(m->end - m->p))
        return broken(m, "it ends early");
    *out = m->p;
    m->p += bytes;
    return QKV_OK;
}

/* An unsigned number of 1 to 8 bytes, little-endian. */
static inline qkv_status take_number(machine *m, size_t bytes, uint64_t *out)
{
    const uint8_t *p = NULL;
    qkv_status status = take(m, bytes, &p);
    *out = 0;
    if (!status)
        memcpy(out, p, bytes);
    return status;
}

/* A length of that many bytes, and what it is the length of. */
static inline qkv_status take_counted(machine *m, size_t bytes, const uint8_t **out, size_t *length)
{
    uint64_t n;
    qkv_status status = take_number(m, bytes, &n);
    if (!status && n > (size_t)(m->end - m->p))
        status = broken(m, "it ends early");
    *length = (size_t)n;
    return status ? status : take(m, *length, out);
}

#endif
