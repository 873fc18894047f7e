/* gather.cuh - updates of many parameters by few launches: elements of one kind of body are put
 * off, and one launch carries out as many as its table has room for, as soon as anything else is
 * asked of the stream (cuda_stream) or of the list (list.cuh). What has been gathered counts as
 * launched: its arrays' memory can be released.
 *
 * Of list and gathering, what was asked for first is launched first: whoever adds to one launches
 * what is in the other. */
#ifndef QKV_KERNEL_CUDA_GATHER_CUH
#define QKV_KERNEL_CUDA_GATHER_CUH

#include "kernel/cuda/elements.cuh"
#include "kernel/cuda/jobs.cuh"

/* What a body writes, and perhaps reads, and what it reads alone; NULL: none. */
struct gather_arrays {
    const float *written[4], *read;
};

typedef void gather_launch_fn(const void *table);

/* A table (JOBS_BYTES) for one job more with these arrays, of n numbers each, that `launch` carries
 * out; all zeros if it is the first one. It is locked until gather_done. */
void *gather_begin(gather_launch_fn *launch, const gather_arrays &arrays, size_t n);
void gather_done(bool full);
/* Launches what is gathered. */
void gather_flush(void);

template <typename Body> struct gathered {
    Body body;
    size_t n;
    bool wide;
};

template <typename Body>
static __global__ void __launch_bounds__(BLOCK)
    gathered_elements(const __grid_constant__ jobs<gathered<Body>> all)
{
    const job_place at = place_of_block(all);
    const gathered<Body> job = all.of[at.job];
    some_elements<4>(job.body, job.n, job.wide, (size_t)at.block * blockDim.x + threadIdx.x,
                     (size_t)at.blocks * blockDim.x);
}

template <typename Body> static void gather_launch(const void *table)
{
    const jobs<gathered<Body>> &all = *(const jobs<gathered<Body>> *)table;
    LAUNCH_BARE(gathered_elements<Body>, all.blocks(), BLOCK, 0, all);
}

template <typename Body>
static inline void gather_elements(const Body &body, size_t n, const gather_arrays &a)
{
    typedef jobs<gathered<Body>> table;
    static_assert(sizeof(table) <= JOBS_BYTES && sizeof(gathered<Body>) >= 32,
                  "a table that gather_begin has room for");
    if (n == 0)
        return;
    const bool wide = aligned16(a.written[0], a.written[1], a.written[2], a.written[3], a.read);
    table *all = (table *)gather_begin(gather_launch<Body>, a, n);
    all->add({body, n, wide}, cuda_blocks(wide ? (n + 3) / 4 : n));
    gather_done(all->full());
}

#endif
