/* gather.cu - the gathering that waits: its table, what its jobs read and write, its launch. */
#include "kernel/cuda/gather.cuh"

#include <atomic>
#include <mutex>

#include "kernel/cuda/list.cuh"

enum { ARRAYS_MOST = 4 * JOBS_BYTES / 32 }; /* of a table: no job has less than 32 bytes */

/* Memory from one address up to another. */
struct ranges {
    uintptr_t from[ARRAYS_MOST], to[ARRAYS_MOST];
    int count;
};

static std::mutex lock;
static std::atomic<bool> pending;
static gather_launch_fn *how;
alignas(16) static char table[JOBS_BYTES];
static ranges written, read_alone;

/* With the lock held. */
static void launch_all(void)
{
    if (pending)
        how(table);
    written.count = read_alone.count = 0;
    pending = false;
}

/* Without an early end: most have none, and it goes quicker. */
static bool meets(const ranges &r, const float *p, size_t n)
{
    const uintptr_t from = (uintptr_t)p, to = (uintptr_t)(p + n);
    bool any = false;
    for (int i = 0; i < r.count; i++)
        any |= (r.from[i] < to) & (from < r.to[i]);
    return p && any;
}

/* Jobs of one launch have no order. */
static bool depends(const gather_arrays &arrays, size_t n)
{
    bool any = meets(written, arrays.read, n);
    for (const float *p : arrays.written)
        any = any || meets(written, p, n) || meets(read_alone, p, n);
    return any;
}

static void remember(ranges *r, const float *p, size_t n)
{
    if (!p)
        return;
    r->from[r->count] = (uintptr_t)p;
    r->to[r->count++] = (uintptr_t)(p + n);
}

void *gather_begin(gather_launch_fn *launch, const gather_arrays &arrays, size_t n)
{
    list_flush();
    lock.lock();
    if (pending && (how != launch || depends(arrays, n)))
        launch_all();
    if (!pending)
        memset(table, 0, sizeof table);
    how = launch;
    for (const float *p : arrays.written)
        remember(&written, p, n);
    remember(&read_alone, arrays.read, n);
    pending = true;
    cuda_wrote();
    return table;
}

void gather_done(bool full)
{
    if (full)
        launch_all();
    lock.unlock();
}

void gather_flush(void)
{
    if (!pending)
        return;
    std::lock_guard<std::mutex> guard(lock);
    launch_all();
}
