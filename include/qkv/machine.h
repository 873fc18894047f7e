/* machine.h - time, memory, and measured limits of the machine, so that speed can be reported as a
 * share of them.
 * Layer: base */
#ifndef QKV_MACHINE_H
#define QKV_MACHINE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* Model name, family and model number of the processor; never NULL. */
const char *qkv_machine_cpu(void);

/* Name of the card that ctx computes on; NULL: it is the processor. */
const char *qkv_machine_card(const qkv_context *ctx);

/* Name of the i-th library that qkv computes or decodes with ("oneDNN"); NULL past the last. Sets
 * *version ("2.6.3"). */
const char *qkv_machine_library(size_t i, const char **version);

double qkv_now(void); /* seconds of a monotonic clock */

/* Resident memory of the process, bytes: now, and the maximum so far; 0 if unknown. */
size_t qkv_machine_rss(void);
size_t qkv_machine_peak_rss(void);

/* Peak floating-point operations per second: the best of `repeats` products of 2048 x 2048 matrices
 * with the context's threads and instruction set, after a warm-up product. Takes 48 MB, and 0.1 s
 * per product on two cores. On a card the matrices are 8192 x 8192, in 0.8 GB of its memory. Where
 * a product of 256 x 256 runs below 1e9 operations per second (on a card 512 x 512, 1e11), as on
 * emulated devices, that rate is the answer. 0 on failure, recorded in the context. */
double qkv_machine_peak_flops(qkv_context *ctx, int repeats);

/* The kind of products that training uses: "f32", "bf16" (qkv's kernels for
 * AVX512_BF16), "bf16 (AMX)" or "bf16 (oneDNN)".
 * If the context allows several, the first call times them on one thread, by its CPU time, takes
 * the fastest (oneDNN's where it is faster by a tenth), which a note reports, and fixes the
 * context's choice. qkv_tape_create calls it. If memory for the timing is missing, the first of
 * the kinds that the context allows is used. */
const char *qkv_machine_products(qkv_context *ctx);

/* One kind of products and how fast it is. */
typedef struct {
    const char *name; /* as qkv_machine_products */
    double flops;     /* floating-point operations per second, one thread */
    bool chosen;      /* what training takes, if it may take any */
} qkv_products_rate;
enum { QKV_PRODUCTS_KINDS = 4 };

/* Times every kind of products that this processor and the context's instruction sets have: a
 * layer's product and its weights' gradient, 256 x 768 x 768, operands in f32 in memory. f32 is
 * first. Takes 1/10 second and 5 MB; the context's choice stays. Returns how many kinds there are;
 * 0 if memory is missing, recorded in the context. */
size_t qkv_machine_products_rates(qkv_context *ctx, qkv_products_rate rates[QKV_PRODUCTS_KINDS]);

/* Bytes by which the process grows when the context's threads compute products as in training:
 * other libraries' copies of operands, thread stacks. Computes one product of 1536 x 1536 matrices
 * in 28 MB; of 256 x 256 where qkv_machine_peak_flops takes these. Call it early in a process,
 * before freed memory can hide the growth. 0 on failure, recorded in the context. */
size_t qkv_machine_product_bytes(qkv_context *ctx);

/* Bytes read per second from 256 MB by all of the context's threads: the best of five passes. On a
 * card: bytes read and written per second when it copies 1 GB within its memory. 0 on failure,
 * recorded in the context. */
double qkv_machine_read_bandwidth(qkv_context *ctx);

QKV_END_DECLS
#endif
