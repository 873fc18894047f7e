/* list.cu - the list of kernels that wait: its memory, what is in whose way, its launch. */
#include "kernel/cuda/list.cuh"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "kernel/cuda/gather.cuh"
#include "kernel/cuda/list_host.cuh"

enum {
    SLOTS = 4, /* lists on the device, used in turn */
    EARLY = 10 /* barriers of a list that begins before it is complete */
};

typedef enum { LIST_OFF, LIST_ON, LIST_ALL } list_mode;

static std::mutex lock;
static list_state now;
static list_mode mode;
static char *device_lists;
static unsigned *arrived, arrivals;
static unsigned slot;
static std::atomic<bool> pending;

void list_begin(void)
{
    const char *asked = getenv("QKV_CUDA_LIST");
    mode = !asked || strcmp(asked, "0") != 0 ? LIST_ON : LIST_OFF;
    if (asked && strcmp(asked, "all") == 0)
        mode = LIST_ALL;
    if (getenv("QKV_CUDA_PROFILE"))
        mode = LIST_OFF; /* each kernel's time is taken */
    if (mode == LIST_OFF)
        return;
    if (!list_blocks() || cudaMalloc((void **)&device_lists, SLOTS * LIST_BYTES) != cudaSuccess ||
        cudaMalloc((void **)&arrived, sizeof *arrived) != cudaSuccess ||
        cudaMemsetAsync(arrived, 0, sizeof *arrived, cuda_bare_stream()) != cudaSuccess) {
        (void)cudaGetLastError();
        mode = LIST_OFF;
    }
    (void)list_out_begin();
}

list_state *list_now(void) { return &now; }

bool list_lock(bool begins)
{
    const bool joins = !begins && mode != LIST_ALL;
    if (mode == LIST_OFF || (joins && !pending))
        return false;
    gather_flush();
    lock.lock();
    if (joins && !now.live) {
        lock.unlock();
        return false;
    }
    return true;
}

void list_done(void) { lock.unlock(); }

/* ---- the launch ------------------------------------------------------------------------------ */

/* Data alone is copied without a launch. */
static void copy_data(void)
{
    for (unsigned at = 0; at < now.bytes; at += list_at(&now, at)->bytes) {
        const list_data *d = (const list_data *)list_at(&now, at);
        if (d->to)
            cuda_note(cudaMemcpyAsync(d->to, d + 1, d->n, cudaMemcpyHostToDevice,
                                      cuda_bare_stream()));
    }
}

static void launch(unsigned bytes, unsigned barriers)
{
    char *to = device_lists + slot * LIST_BYTES;
    /* What may be paged out is read before the call returns. */
    cuda_note(cudaMemcpyAsync(to, now.items, bytes, cudaMemcpyHostToDevice, cuda_bare_stream()));
    if (list_run({to, bytes, arrived, arrivals}))
        arrivals += barriers * list_blocks();
    slot = (slot + 1) % SLOTS;
}

/* With the lock held: launches what is there. */
static void launch_all(void)
{
    if (!now.bytes)
        return;
    if (now.only_data)
        copy_data();
    else
        launch(now.bytes, now.barriers);
    now.bytes = now.last = now.product = now.barriers = 0;
    now.phase.count = now.before.count = now.data_count = 0;
    now.kept = NULL;
    now.launches++;
}

/* Whoever sees that nothing is pending may go on: it has been launched. */
void list_end(void)
{
    launch_all();
    now.live = false;
    now.launches = 0;
    pending = false;
}

void list_flush(void)
{
    if (!pending)
        return;
    lock.lock();
    list_end();
    lock.unlock();
}

/* ---- items ----------------------------------------------------------------------------------- */

static bool in_the_way(const list_access &a, const list_access &b)
{
    return (a.writes || b.writes) && !(a.alone && b.alone) &&
           (const char *)a.p < (const char *)b.p + b.bytes &&
           (const char *)b.p < (const char *)a.p + a.bytes;
}

/* What these write is no longer what the host gave. */
static void forget_data(const list_access *accesses, int n)
{
    for (int i = 0; i < now.data_count; i++)
        for (int k = 0; k < n; k++) {
            const list_data *d = (const list_data *)list_at(&now, now.data[i]);
            if (accesses[k].writes && in_the_way(accesses[k], list_reads(d->to, d->n))) {
                now.data[i--] = now.data[--now.data_count];
                break;
            }
        }
}

bool list_agrees(const list_access *accesses, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < now.phase.count; k++)
            if (in_the_way(accesses[i], now.phase.of[k]))
                return false;
    return now.phase.count + n <= LIST_ACCESSES;
}

bool list_is_late(const list_access &a)
{
    for (int k = 0; k < now.before.count; k++)
        if (in_the_way(a, now.before.of[k]))
            return true;
    return false;
}

/* All blocks meet. */
static void end_phase(void)
{
    now.before.count = 0;
    for (int k = 0; k < now.phase.count; k++)
        if (now.phase.of[k].writes)
            now.before.of[now.before.count++] = now.phase.of[k];
    now.phase.count = 0;
    now.barriers++;
}

bool list_remember(const list_access *accesses, int n)
{
    if (now.phase.count + n > LIST_ACCESSES)
        return false;
    forget_data(accesses, n);
    for (int i = 0; i < n; i++)
        if (accesses[i].p && accesses[i].bytes)
            now.phase.of[now.phase.count++] = accesses[i];
    return true;
}

/* Whether the first items of a long list are to begin, while the host goes on listing. What stands
 * last may not be another's part. */
static bool is_time(void)
{
    const list_item *last = list_last(&now);
    return now.launches == 0 && now.barriers >= EARLY && last &&
           !(last->kind == LIST_NORM && last->flags & LIST_JOINED);
}

list_item *list_add_item(list_kind kind, size_t bytes, const list_access *accesses, int n)
{
    const size_t need = (bytes + LIST_ALIGN - 1) / LIST_ALIGN * LIST_ALIGN;
    bool waits = !list_agrees(accesses, n);
    if (now.bytes + need > LIST_BYTES || (waits && is_time())) {
        now.only_data = false; /* whoever adds this item may refer to data on the device */
        launch_all();
        waits = false;
    }
    list_item *item = list_at(&now, now.bytes);
    *item = {};
    item->kind = (uint16_t)kind;
    item->bytes = (uint32_t)need;
    if (now.bytes == 0)
        now.only_data = true;
    now.only_data = now.only_data && kind == LIST_DATA;
    if (waits && now.bytes) {
        item->flags = LIST_WAITS;
        end_phase();
    }
    list_remember(accesses, n);
    now.last = now.bytes;
    now.bytes += (unsigned)need;
    pending = true;
    cuda_wrote();
    return item;
}

/* ---- data of the host ------------------------------------------------------------------------ */

const void *list_on_device(const void *in_list)
{
    return device_lists + slot * LIST_BYTES + ((const char *)in_list - now.items);
}

const void *list_given(const void *p, size_t bytes)
{
    for (int i = 0; p && i < now.data_count; i++) {
        const list_data *d = (const list_data *)list_at(&now, now.data[i]);
        if (p >= d->to && (const char *)p + bytes <= (const char *)d->to + d->n)
            return (const char *)(d + 1) + ((const char *)p - (const char *)d->to);
    }
    return NULL;
}

void list_add_data(void *to, const void *data, size_t bytes)
{
    const list_access access = list_writes(to, bytes);
    list_data *d = (list_data *)list_add_item(LIST_DATA, sizeof *d + bytes, &access, to ? 1 : 0);
    d->to = to;
    d->n = bytes;
    memcpy((void *)(d + 1), data, bytes);
    if (to && now.data_count < LIST_DATA_MOST)
        now.data[now.data_count++] = now.last;
}

const void *list_keep(const void *data, size_t bytes)
{
    if (!now.kept || now.kept_bytes != bytes || memcmp(now.kept, data, bytes) != 0) {
        list_add_data(NULL, data, bytes);
        now.kept = (const char *)list_last(&now) + sizeof(list_data);
        now.kept_bytes = bytes;
    }
    return list_on_device(now.kept);
}
