/* lend.c - memory of gradients, lent to activations: who borrows, how much, and where. */
#include "tensor/lend.h"

void qkv__lend_lay_out(qkv__lending *l, void *begin, size_t bytes)
{
    l->laid_out = true;
    l->begin = begin;
    l->size = l->low = l->floor = bytes;
}

void qkv__lend_forget(qkv__lending *l)
{
    if (l->borrower)
        qkv__lend_end(l->borrower);
    *l = (qkv__lending){.owner = l->owner};
}

void qkv__lend_begin(qkv__lending *l, qkv__lending **tape)
{
    if (*tape || l->borrower)
        return;
    *tape = l;
    l->borrower = tape;
    l->low = l->floor = l->size;
    l->next = 0;
}

void qkv__lend_end(qkv__lending **tape)
{
    if (*tape)
        (*tape)->borrower = NULL;
    *tape = NULL;
}

void *qkv__lend_take(qkv__lending *l, size_t bytes)
{
    const size_t room = l->low - l->floor;
    if (!bytes || bytes > room)
        return NULL;
    size_t need = (bytes + QKV__LEND_ALIGN - 1) / QKV__LEND_ALIGN * QKV__LEND_ALIGN;
    if (need > room)
        return NULL;
    l->low -= need;
    return l->begin + l->low;
}

size_t qkv__lent(const qkv__lending *l) { return l ? l->size - l->low : 0; }
void qkv__lend_return(qkv__lending *l, size_t lent) { l->low = l->size - lent; }

bool qkv__lend_has(const qkv__lending *l, const void *p)
{
    return p && l->begin && (const char *)p >= l->begin && (const char *)p < l->begin + l->size;
}

bool qkv__lend_holds(const qkv__lending *l, const void *p, size_t bytes)
{
    return l->borrower && qkv__lend_has(l, p) && (const char *)p + bytes > l->begin + l->low;
}
