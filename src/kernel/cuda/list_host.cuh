/* list_host.cuh - how the files that fill a list see it. */
#ifndef QKV_KERNEL_CUDA_LIST_HOST_CUH
#define QKV_KERNEL_CUDA_LIST_HOST_CUH

#include "kernel/cuda/list_items.cuh"

/* Memory that a kernel reads or writes: bytes from p on. alone: by the block that does such items
 * alone, one after another. */
struct list_access {
    const void *p;
    size_t bytes;
    bool writes, alone;
};

enum { LIST_ACCESSES = 320, LIST_DATA_MOST = 8 };

/* What has been done to memory since all blocks met. */
struct list_phase {
    list_access of[LIST_ACCESSES];
    int count;
};

/* The list that is being filled. Its functions are called with its lock held. */
struct list_state {
    alignas(LIST_ALIGN) char items[LIST_BYTES];
    unsigned bytes;     /* of items */
    unsigned last;      /* where the last item is */
    unsigned product;   /* where the last product is; the first item's field says where the first */
    unsigned maker;     /* of the copies that are last and part of another item */
    unsigned barriers;
    unsigned shift;
    bool live;          /* a kernel that begins a list is among them; else data and copies alone */
    bool only_data;
    unsigned launches;  /* of its first items, since it began */
    unsigned data[LIST_DATA_MOST]; /* where items of the host's data are */
    int data_count;
    const char *kept; /* the last of list_keep; NULL: none */
    size_t kept_bytes;
    list_phase phase, before; /* before: what was written in the phase before */
};

/* Whether a kernel may be listed: one that begins a list, or joins. It locks the list until
 * list_done, where it says true. What has been gathered before was launched then. */
bool list_lock(bool begins);
void list_done(void);
/* Before the first list_out. False: the host's memory cannot be written to, and none is. */
bool list_out_begin(void);
/* Launches what there is, with the lock held. */
void list_end(void);

list_state *list_now(void);
static inline list_item *list_at(list_state *l, unsigned at)
{
    return (list_item *)(l->items + at);
}
static inline list_item *list_last(list_state *l) { return l->bytes ? list_at(l, l->last) : NULL; }

/* Room for an item, after a flush if there is none: to be filled in, behind its head. accesses (n):
 * what it reads and writes; it waits if something of the phase is in its way. */
list_item *list_add_item(list_kind kind, size_t bytes, const list_access *accesses, int n);
/* Whether they can be done in the phase that is going on: none is in the way of another's, and
 * there is room to remember them. */
bool list_agrees(const list_access *accesses, int n);
/* Whether one was written in the phase before: it cannot be read until the blocks have met. */
bool list_is_late(const list_access &a);
/* Adds them to the phase. False: there is no room, and nothing was added. */
bool list_remember(const list_access *accesses, int n);
static inline list_access list_reads(const void *p, size_t bytes, bool alone = false)
{
    return {p, bytes, false, alone};
}
static inline list_access list_writes(const void *p, size_t bytes, bool alone = false)
{
    return {p, bytes, true, alone};
}

/* The host's data for `to`, or for others to read where that is NULL. */
void list_add_data(void *to, const void *data, size_t bytes);
/* The host's data for p in a pending item that nothing has overwritten, or NULL; and the device's
 * address of what is in the list. */
const void *list_given(const void *p, size_t bytes);
const void *list_on_device(const void *in_list);
/* A copy of data in the list where the device will see it; the last one again if they are alike. */
const void *list_keep(const void *data, size_t bytes);

/* The product that is an item, with its tail. */
struct list_made {
    float *y;
    size_t m, n, ldy;
    list_tail *tail;
};
/* False: the item is none, or NULL. */
bool list_product_of(list_item *i, list_made *p);

/* ---- what the functions of list.cuh are written with ----------------------------------------- */

static inline list_access reads(const float *p, size_t n) { return list_reads(p, n * sizeof *p); }
static inline list_access writes(const float *p, size_t n)
{
    return list_writes(p, n * sizeof *p);
}

/* Numbers from the first of the first row to the last of the last. */
static inline size_t span(size_t rows, size_t apart, size_t n)
{
    return rows ? (rows - 1) * apart + n : 0;
}

template <typename Item>
static inline Item *list_add_plain(list_kind kind, const list_access *accesses, int n)
{
    return (Item *)list_add_item(kind, sizeof(Item), accesses, n);
}

/* The last item, if it is of this kind. */
static inline list_item *list_last_of(list_kind kind)
{
    list_item *last = list_last(list_now());
    return last && last->kind == kind ? last : NULL;
}

/* The last item goes on to here. */
static inline void list_grow(list_item *last, const void *end)
{
    const size_t bytes = (const char *)end - (const char *)last;
    last->bytes = (uint32_t)((bytes + LIST_ALIGN - 1) / LIST_ALIGN * LIST_ALIGN);
    list_now()->bytes = list_now()->last + last->bytes;
}

static inline bool list_has_room(size_t bytes)
{
    return list_now()->bytes + bytes + LIST_ALIGN <= LIST_BYTES;
}

#endif
