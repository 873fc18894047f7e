/* emulator.cpp - runs the blocks of a launch one after another and the threads of a block as
 * coroutines: each runs until a barrier or a warp operation, and goes on when all whom it waits for
 * are there. A wait that cannot end ends the program. */
#include <atomic>
#include <cstdio>
#include <malloc.h>
#include <mutex>
#include <sys/mman.h>
#include <vector>

#include "cuda_runtime.h"

#ifndef __x86_64__
#error "the emulator switches coroutines by instructions of x86-64"
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

enum { STACK = 256 << 10, THREADS = 1024, SHARED = 256 << 10 };
enum state { READY, AT_BLOCK, AT_WARP, DONE };

struct fiber {
    void *sp;
    char *stack; /* NULL: not started, or done */
    state now;
    unsigned mask; /* AT_WARP: lanes that it waits for */
    int vote;
    uint3 index;
};

std::mutex one_launch;
fiber fibers[THREADS];
unsigned count, current;
void *scheduler;
std::vector<char *> stacks;
const std::function<void()> *body;
char slots[THREADS / 32][32 * 64];
int votes[THREADS / 32][32];
__attribute__((aligned(1024))) char shared_memory[SHARED];
int block_vote, block_count, block_all;
bool backward; /* every second launch begins with its last blocks */

} // namespace

extern "C" void emulated_switch(void **save, void *load);
asm(R"(
.text
.globl emulated_switch
.hidden emulated_switch
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

static void fiber_main()
{
    (*body)();
    fibers[current].now = DONE;
    emulated_switch(&fibers[current].sp, scheduler);
    abort();
}

static void fiber_start(fiber *f)
{
    if (stacks.empty()) {
        void *p = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            abort();
        stacks.push_back((char *)p);
    }
    f->stack = stacks.back();
    stacks.pop_back();
    void **top = (void **)(f->stack + STACK) - 1; /* calls want the stack 16-byte aligned + 8 */
    *--top = (void *)fiber_main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    f->sp = top;
}

/* Runs thread i until it waits or ends. */
static void fiber_run(unsigned i)
{
    fiber *f = &fibers[i];
    current = i;
    threadIdx = f->index;
    if (!f->stack)
        fiber_start(f);
    emulated_switch(&scheduler, f->sp);
    if (f->now == DONE) {
        stacks.push_back(f->stack);
        f->stack = NULL;
    }
}

static void fiber_wait(state how)
{
    fibers[current].now = how;
    emulated_switch(&fibers[current].sp, scheduler);
}

/* Lets go on whose warp mates have all come. */
static bool release_warp(unsigned first)
{
    bool released = false;
    unsigned waiting = 0, alive = 0;
    for (unsigned l = 0; l < 32 && first + l < count; l++) {
        alive |= (unsigned)(fibers[first + l].now != DONE) << l;
        waiting |= (unsigned)(fibers[first + l].now == AT_WARP) << l;
    }
    for (unsigned l = 0; l < 32 && first + l < count; l++) {
        fiber *f = &fibers[first + l];
        if (f->now == AT_WARP && !(f->mask & alive & ~waiting)) {
            unsigned group = f->mask & alive;
            for (unsigned k = 0; k < 32; k++)
                if (group >> k & 1)
                    fibers[first + k].now = READY;
            waiting &= ~group;
            released = true;
        }
    }
    return released;
}

static void run_block()
{
    for (unsigned i = 0; i < count; i++)
        fibers[i].now = READY;
    for (;;) {
        bool ran = false, alive = false, blocked = true;
        for (unsigned w = 0; w < count; w += 32) {
            bool again = true;
            while (again) {
                for (unsigned i = w; i < w + 32 && i < count; i++)
                    if (fibers[i].now == READY) {
                        fiber_run(i);
                        ran = true;
                    }
                again = release_warp(w);
            }
        }
        for (unsigned i = 0; i < count; i++) {
            alive |= fibers[i].now != DONE;
            blocked &= fibers[i].now == DONE || fibers[i].now == AT_BLOCK;
        }
        if (!alive)
            return;
        if (blocked) {
            block_vote = 0, block_all = 1, block_count = 0;
            for (unsigned i = 0; i < count; i++)
                if (fibers[i].now == AT_BLOCK) {
                    block_vote |= fibers[i].vote != 0;
                    block_all &= fibers[i].vote != 0;
                    block_count += fibers[i].vote != 0;
                    fibers[i].now = READY;
                }
        } else if (!ran) {
            fprintf(stderr, "emulator: threads of a block wait for each other for ever\n");
            abort();
        }
    }
}

void emulated_launch(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel)
{
    std::lock_guard<std::mutex> lock(one_launch);
    count = block.x * block.y * block.z;
    if (count == 0 || count > THREADS || shared > (227 << 10) || grid.x == 0 || grid.y == 0 ||
        grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
        fprintf(stderr, "emulator: no such launch: grid %u %u %u, block %u %u %u, shared %zu\n",
                grid.x, grid.y, grid.z, block.x, block.y, block.z, shared);
        abort();
    }
    gridDim = grid;
    blockDim = block;
    body = &kernel;
    for (unsigned i = 0; i < count; i++)
        fibers[i].index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    backward = !backward;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {backward ? grid.x - 1 - x : x, y, z};
                memset(shared_memory, 0xff, shared); /* NaNs */
                run_block();
            }
}

void emulated_expect(bool so, const char *else_what)
{
    if (so)
        return;
    fprintf(stderr, "emulator: %s\n", else_what);
    abort();
}

char *emulated_dynamic_shared() { return shared_memory; }
char *emulated_warp_slots() { return slots[current / 32]; }

void __syncthreads() { fiber_wait(AT_BLOCK); }

int __syncthreads_or(int x)
{
    fibers[current].vote = x;
    fiber_wait(AT_BLOCK);
    return block_vote;
}

int __syncthreads_and(int x)
{
    fibers[current].vote = x;
    fiber_wait(AT_BLOCK);
    return block_all;
}

int __syncthreads_count(int x)
{
    fibers[current].vote = x;
    fiber_wait(AT_BLOCK);
    return block_count;
}

void __syncwarp(unsigned mask)
{
    fibers[current].mask = mask;
    fiber_wait(AT_WARP);
}

unsigned __ballot_sync(unsigned mask, int x)
{
    unsigned result = 0;
    int *vote = votes[current / 32];
    vote[current % 32] = x;
    __syncwarp(mask);
    for (unsigned l = 0; l < 32; l++)
        result |= (unsigned)(mask >> l & 1 && vote[l]) << l;
    __syncwarp(mask);
    return result;
}

/* ---- device memory: at most as many bytes as the environment's QKV_EMULATED_BYTES ------------ */

static std::atomic<size_t> bytes_held;

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    static const char *most = getenv("QKV_EMULATED_BYTES");
    const bool fits = !most || bytes_held + bytes <= strtoull(most, nullptr, 10);
    *p = fits ? aligned_alloc(256, (bytes + 256) / 256 * 256) : nullptr;
    if (!*p)
        return cudaErrorMemoryAllocation;
    bytes_held += malloc_usable_size(*p);
    memset(*p, 0xff, bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    bytes_held -= malloc_usable_size(p);
    free(p);
    return cudaSuccess;
}
