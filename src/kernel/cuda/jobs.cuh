/* jobs.cuh - many jobs of one kind by one launch: their table is a parameter of the kernel, whose
 * blocks find the job that they are for. */
#ifndef QKV_KERNEL_CUDA_JOBS_CUH
#define QKV_KERNEL_CUDA_JOBS_CUH

#include "kernel/cuda/cuda.cuh"

enum { JOBS_BYTES = 4000 }; /* of a table: the parameters of a kernel may be 4,096 bytes */

template <typename Job> struct jobs {
    enum { MOST = (JOBS_BYTES - 8) / (sizeof(Job) + sizeof(unsigned)) };
    Job of[MOST];
    unsigned end[MOST]; /* blocks of a job and of those before it */
    int count;

    void add(const Job &job, unsigned job_blocks)
    {
        end[count] = blocks() + job_blocks;
        of[count++] = job;
    }
    bool full() const { return count == MOST; }
    unsigned blocks() const { return count ? end[count - 1] : 0; }
};

/* The job of the running block, and which of the job's blocks it is. */
struct job_place {
    int job;
    unsigned block, blocks;
};

template <typename Job>
static __device__ __forceinline__ job_place place_of_block(const jobs<Job> &all)
{
    int low = 0, high = all.count - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (all.end[middle] <= blockIdx.x)
            low = middle + 1;
        else
            high = middle;
    }
    const unsigned first = low ? all.end[low - 1] : 0;
    return {low, blockIdx.x - first, all.end[low] - first};
}

#endif
