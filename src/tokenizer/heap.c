/* heap.c - a binary heap. */
#include "tokenizer/heap.h"

static bool above(qkv__heap_entry a, qkv__heap_entry b)
{
    return a.key != b.key ? a.key < b.key : a.value < b.value;
}

bool qkv__heap_push(qkv__heap *h, qkv_context *ctx, uint64_t key, uint64_t value)
{
    const qkv__heap_entry e = {key, value};
    if (!qkv__grow(ctx, &h->entries, &h->capacity, h->count + 1, sizeof *h->entries))
        return false;
    size_t i = h->count++;
    for (; i > 0 && above(e, h->entries[(i - 1) / 2]); i = (i - 1) / 2)
        h->entries[i] = h->entries[(i - 1) / 2];
    h->entries[i] = e;
    return true;
}

qkv__heap_entry qkv__heap_pop(qkv__heap *h)
{
    qkv__heap_entry *all = h->entries, top = all[0], e = all[--h->count];
    size_t i = 0, n = h->count;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && above(all[child + 1], all[child]))
            child++;
        if (!above(all[child], e))
            break;
        all[i] = all[child];
        i = child;
    }
    all[i] = e;
    return top;
}
