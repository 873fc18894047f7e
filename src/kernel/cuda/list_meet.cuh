/* list_meet.cuh - where the blocks of a list's launch meet, and what they do meanwhile: they bring
 * the weights of products to come into the second-level cache, so that memory is read all the
 * time. */
#ifndef QKV_KERNEL_CUDA_LIST_MEET_CUH
#define QKV_KERNEL_CUDA_LIST_MEET_CUH

#include "kernel/cuda/list_items.cuh"

enum {
    LIST_LINE = 128,        /* bytes of a line of the cache */
    LIST_BRING = 16 << 10,  /* bytes that a block asks for at a time */
    LIST_BRINGS = 4,        /* while the blocks meet once */
    LIST_AHEAD = 12 << 20   /* bytes that have been asked for and not yet been read, at most */
};

/* A number of blocks that all wait for; arrived NULL: nobody waits. */
struct meeting {
    unsigned *arrived, wanted;
};

/* The block has come: what its threads wrote is seen by whoever has met them. */
static __device__ __forceinline__ void meet_begin(const meeting &m)
{
    __syncthreads();
    if (m.arrived && threadIdx.x == 0)
#ifdef QKV_CUDA_EMULATED
        atomicAdd(m.arrived, 1u);
#else
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(m.arrived) : "memory");
#endif
}

/* All blocks have come. */
static __device__ __forceinline__ void meet_end(const meeting &given)
{
#ifdef QKV_CUDA_EMULATED
    (void)given;
#else
    const meeting m = given;
    if (m.arrived && threadIdx.x == 0) {
        unsigned now;
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(now)
                         : "l"(m.arrived)
                         : "memory");
        while ((int)(now - m.wanted) < 0);
    }
#endif
    __syncthreads();
}

/* ---- weights to come ------------------------------------------------------------------------- */

/* Of the product at `at` in the list, 0: none, `done` bytes have been asked for; of all products
 * that have not begun, `ahead`. One thread's business, not the one's that waits for the
 * other blocks. */
struct weights_ahead {
    unsigned at;
    size_t done, ahead;
};

/* The line of the cache that p is in. */
static __device__ __forceinline__ void bring_line(const void *p)
{
#ifdef QKV_CUDA_EMULATED
    (void)p;
#else
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}

/* p and bytes: multiples of 16. */
static __device__ __forceinline__ void bring(const char *p, unsigned bytes)
{
#ifdef QKV_CUDA_EMULATED
    emulated_aligned(p, 16);
    (void)bytes;
#elif __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
#else
    for (unsigned at = 0; at < bytes; at += LIST_LINE)
        bring_line(p + at);
#endif
}

static __device__ __forceinline__ bool brings(void) { return threadIdx.x == WARP; }

static __device__ __forceinline__ void bring_some(weights_ahead &b, const char *items)
{
    const size_t now = (size_t)gridDim.x * LIST_BRING;
    if (!brings())
        return;
    for (int i = 0; i < LIST_BRINGS && b.at && b.ahead < LIST_AHEAD; i++) {
        const list_item &item = *(const list_item *)(items + b.at);
        const size_t place = b.done + (size_t)blockIdx.x * LIST_BRING, all = item.weight_bytes;
        const size_t left = all - b.done;
        if (place + LIST_ALIGN <= all)
            bring(item.weights + place,
                  all - place < LIST_BRING ? (unsigned)(all - place) / LIST_ALIGN * LIST_ALIGN
                                           : +LIST_BRING);
        b.done += now, b.ahead += now < left ? now : left;
        if (now >= left)
            b.at = item.product, b.done = 0;
    }
}

/* Product i begins. */
static __device__ __forceinline__ void leave_behind(weights_ahead &b, const char *items,
                                                    const list_item *i)
{
    if (!brings())
        return;
    const bool now = b.at && items + b.at == (const char *)i;
    b.ahead = now || b.ahead < i->weight_bytes ? 0 : b.ahead - i->weight_bytes;
    b.at = now ? i->product : b.at;
    b.done = now ? 0 : b.done;
}

#endif
