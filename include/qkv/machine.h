/* machine.h - the clock, memory in use, and the limits of this machine, measured, so that speed can
 * be told as a share of them.
 * Layer: base */
#ifndef QKV_MACHINE_H
#define QKV_MACHINE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* Model name, family and model of the processor; never NULL. */
const char *qkv_machine_cpu(void);

/* Name of the i-th library below this one that decides what it computes or reads, NULL past the
 * last; *version is set: "oneDNN", "2.6.3". */
const char *qkv_machine_library(size_t i, const char **version);

double qkv_now(void); /* seconds of a clock that only goes forward */

/* Bytes of memory that this process has now, and the most that it has had; 0 where unknown. */
size_t qkv_machine_rss(void);
size_t qkv_machine_peak_rss(void);

/* The most floating-point operations a second: the best of `repeats` products of 2048 x 2048
 * matrices with the context's threads and instruction set, after one that is not timed. Takes
 * 48 MB and, on two cores, 0.1 s a product. 0 on failure, and the context says why. */
double qkv_machine_peak_flops(qkv_context *ctx, int repeats);

/* Does training round to bf16? As qkv_context_bf16; with QKV_BF16_AUTO the first call times
 * products of either kind on one thread, by its processor time, says on the context's events which
 * was the faster, and the context keeps to that. Making a tape calls it. Without memory for it f32
 * stays. */
bool qkv_machine_bf16(qkv_context *ctx);

/* Bytes that the process grows by when the context's threads multiply as training does: libraries'
 * copies of operands, stacks of threads. One product of 1536 x 1536 matrices is made, in 28 MB.
 * Meant for a young process: memory that was taken and given back hides what is taken now. 0 on
 * failure, and the context says why. */
size_t qkv_machine_product_bytes(qkv_context *ctx);

/* Bytes read a second, by all of the context's threads from 256 MB: the best of five passes.
 * 0 on failure, and the context says why. */
double qkv_machine_read_bandwidth(qkv_context *ctx);

QKV_END_DECLS
#endif
