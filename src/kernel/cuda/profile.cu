/* profile.cu - seconds of each kernel: with QKV_CUDA_PROFILE in the environment every call waits
 * until it is done, and a table is printed at the end of the program. */
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "kernel/cuda/cuda.cuh"

enum slot {
#define KERNEL(name, parameters, arguments) SLOT_##name,
#define KERNEL_SUM(name, parameters, arguments) SLOT_##name,
#include "kernel/slots.h"
    SLOTS
};

static const char *const names[SLOTS] = {
#define KERNEL(name, parameters, arguments) #name,
#define KERNEL_SUM(name, parameters, arguments) #name,
#include "kernel/slots.h"
};

static double seconds[SLOTS];
static size_t calls[SLOTS];
static const qkv_kernels *plain;
static const qkv_kernels *rounds;

static double cuda_now(void)
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double begin(void)
{
    cuda_note(cudaStreamSynchronize(cuda_stream()));
    return cuda_now();
}

static void end(slot s, double start)
{
    cuda_note(cudaStreamSynchronize(cuda_stream()));
    seconds[s] += cuda_now() - start;
    calls[s]++;
}

#define TIME(which, name, parameters, arguments)                                                   \
    static void which##_##name parameters                                                          \
    {                                                                                              \
        double start = begin();                                                                    \
        which->name arguments;                                                                     \
        end(SLOT_##name, start);                                                                   \
    }
#define TIME_SUM(which, name, parameters, arguments)                                               \
    static double which##_##name parameters                                                        \
    {                                                                                              \
        double start = begin();                                                                    \
        double sum = which->name arguments;                                                        \
        end(SLOT_##name, start);                                                                   \
        return sum;                                                                                \
    }
#define KERNEL(name, parameters, arguments) TIME(plain, name, parameters, arguments)
#define KERNEL_SUM(name, parameters, arguments) TIME_SUM(plain, name, parameters, arguments)
#include "kernel/slots.h"
#define KERNEL(name, parameters, arguments) TIME(rounds, name, parameters, arguments)
#define KERNEL_SUM(name, parameters, arguments) TIME_SUM(rounds, name, parameters, arguments)
#include "kernel/slots.h"

static void print_profile(void)
{
    double all = 0;
    for (double s : seconds)
        all += s;
    for (int done = 0; done < SLOTS; done++) {
        int most = 0;
        for (int i = 1; i < SLOTS; i++)
            most = seconds[i] > seconds[most] ? i : most;
        if (seconds[most] <= 0)
            break;
        fprintf(stderr, "%-20s %9zu calls %10.4f s %5.1f %%\n", names[most], calls[most],
                seconds[most], 100 * seconds[most] / all);
        seconds[most] = 0;
    }
}

/* Puts kernels that time themselves into the place of those in both tables. */
void cuda_profile(qkv_kernels *f32, qkv_kernels *bf16)
{
    static qkv_kernels kept[2];
    if (!getenv("QKV_CUDA_PROFILE"))
        return;
    kept[0] = *f32, kept[1] = *bf16;
    plain = &kept[0], rounds = &kept[1];
#define KERNEL(name, parameters, arguments) f32->name = plain_##name, bf16->name = rounds_##name;
#define KERNEL_SUM(name, parameters, arguments) KERNEL(name, parameters, arguments)
#include "kernel/slots.h"
    atexit(print_profile);
}
