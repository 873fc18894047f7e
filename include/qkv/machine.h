/* machine.h - time, memory, and measured limits of the machine, so that speed can be reported as a
 * share of them.
 * Layer: base */
#ifndef QKV_MACHINE_H
#define QKV_MACHINE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* Model name, family and model number of the processor; never NULL. */
const char *qkv_machine_cpu(void);

/* Name of the i-th library that qkv computes or decodes with ("oneDNN"); NULL past the last. Sets
 * *version ("2.6.3"). */
const char *qkv_machine_library(size_t i, const char **version);

double qkv_now(void); /* seconds of a monotonic clock */

/* Resident memory of the process, bytes: now, and the maximum so far; 0 if unknown. */
size_t qkv_machine_rss(void);
size_t qkv_machine_peak_rss(void);

/* Peak floating-point operations per second: the best of `repeats` products of 2048 x 2048 matrices
 * with the context's threads and instruction set, after a warm-up product. Takes 48 MB, and 0.1 s
 * per product on two cores. 0 on failure, recorded in the context. */
double qkv_machine_peak_flops(qkv_context *ctx, int repeats);

/* True if training rounds to bf16, as qkv_context_bf16. With QKV_BF16_AUTO the first call times
 * products in f32 and bf16 on one thread, by its CPU time, reports the faster as a note, and fixes
 * the context's choice. qkv_tape_create calls it. If memory for it is missing, f32 is used. */
bool qkv_machine_bf16(qkv_context *ctx);

/* Bytes by which the process grows when the context's threads compute products as in training:
 * other libraries' copies of operands, thread stacks. Computes one product of 1536 x 1536 matrices
 * in 28 MB. Call it early in a process, before freed memory can hide the growth. 0 on failure,
 * recorded in the context. */
size_t qkv_machine_product_bytes(qkv_context *ctx);

/* Bytes read per second from 256 MB by all of the context's threads: the best of five passes.
 * 0 on failure, recorded in the context. */
double qkv_machine_read_bandwidth(qkv_context *ctx);

QKV_END_DECLS
#endif
