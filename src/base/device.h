/* device.h - the memory that kernels work on, and the only ways in and out of it.
 *
 * Tensors, parameters, gradients, optimiser states and caches lie in device memory. Code above
 * the kernels passes pointers into it on and never follows them: it copies in, copies out, maps,
 * or calls a kernel. The CPU is the one real device; its memory is the host's, so that mapping
 * costs nothing. The tests have a second one, whose memory cannot be read outside kernels and
 * copies (tests/support/guarded.c). docs/adding.md says what a further device takes. */
#ifndef QKV_BASE_DEVICE_H
#define QKV_BASE_DEVICE_H

#include "base/base.h"

struct qkv_kernels; /* kernel/kernel.h */

struct qkv__device {
    const char *name;
    bool host; /* the host may follow pointers into this memory */
    /* 64-byte aligned, not cleared. NULL on failure, and the context says so. */
    void *(*alloc)(qkv_context *ctx, size_t bytes);
    void (*free)(qkv_context *ctx, void *p); /* p may be NULL */
    void (*copy_in)(void *to, const void *host, size_t bytes);
    void (*copy_out)(void *host, const void *from, size_t bytes); /* after all work before it */
    void (*copy)(void *to, const void *from, size_t bytes);       /* they may overlap */
    void (*fill)(void *to, int byte, size_t bytes);
    /* All of it becomes 0, and takes no memory until it is written to where that can be. */
    void (*clear)(qkv_context *ctx, void *p, size_t bytes);
    /* Waits for all work before it, and says whether it was done. */
    qkv_status (*sync)(qkv_context *ctx);
    /* Says what is known of that without waiting. Memory may be given back to an arena before the
     * work on it is done: what comes later is done after it. */
    qkv_status (*check)(qkv_context *ctx);
    /* Its kernels for QKV_ISA_* bits; NULL: those that the library has for it. */
    const struct qkv_kernels *(*kernels)(unsigned isa);
    /* Bit i: they have products of qkv__products i, the last of them the fastest; 0: those that the
     * processor has. */
    unsigned products;
    size_t block_bytes; /* of temporaries that long work is cut into; 0: as on the processor */
    /* A norm takes as long as reading memory does: nothing is made again (qkv__for_products). And
     * no memory of gradients is lent (tensor/lend.h). */
    bool keeps;
    /* Kernels whose products are of bf16 read and write activations in bf16 (qkv_exec): norms,
     * linear layers, gated units, attention and cross-entropy make such (qkv__for_products). */
    bool rounds;
};

extern const qkv__device qkv__cpu;
extern const qkv__device qkv__meta; /* the CPU's memory, in which nothing is moved */

/* Device memory as the host sees it: p itself where the host may follow it; else a copy, made by
 * map and written back by unmap if write. NULL: out of memory, and the context says so. */
void *qkv__map(qkv_context *ctx, void *p, size_t bytes);
void qkv__unmap(qkv_context *ctx, void *mapped, void *p, size_t bytes, bool write);

#endif
