/* list_out.cu - what the host wants of a list's results is written to its memory by the launch
 * itself: the host waits for a number there instead of the launch's end and a copy. */
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>

#include "kernel/cuda/list_host.cuh"

enum { QUERY_EVERY = 1 << 12 };

/* In memory that the host and the card both have. */
struct out_memory {
    char data[LIST_OUT_MOST];
    std::atomic<unsigned> written; /* the number of the last item that was done */
};

static std::mutex lock; /* of who waits; taken before the list's */
static out_memory *memory;
static unsigned number;

bool list_out_begin(void)
{
    void *p = NULL;
    if (cudaHostAlloc(&p, sizeof *memory, cudaHostAllocMapped) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    memory = new (p) out_memory();
    return true;
}

static bool list_item_out(const void *from, size_t bytes)
{
    const list_access access = list_reads(from, bytes, true);
    if (!list_lock(false))
        return false;
    list_out_item *item = list_add_plain<list_out_item>(LIST_OUT, &access, 1);
    item->from = (const char *)from;
    item->n = bytes;
    item->to = memory->data;
    item->written = (unsigned *)&memory->written;
    item->number = ++number;
    list_end();
    list_done();
    return true;
}

/* A launch that failed writes no number. */
static bool wait_for_number(void)
{
    for (unsigned i = 1; memory->written.load(std::memory_order_acquire) != number; i++) {
        const cudaError_t error = i % QUERY_EVERY ? cudaErrorNotReady
                                                  : cudaStreamQuery(cuda_bare_stream());
        if (error == cudaErrorNotReady)
            continue;
        cuda_note(error);
        return memory->written.load(std::memory_order_acquire) == number;
    }
    return true;
}

bool list_out(void *host, const void *from, size_t bytes)
{
    if (!memory || bytes > LIST_OUT_MOST)
        return false;
    std::lock_guard<std::mutex> guard(lock);
    if (!list_item_out(from, bytes))
        return false;
    if (wait_for_number())
        memcpy(host, memory->data, bytes);
    return true;
}
