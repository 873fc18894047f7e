/* ref_math.h - what the plain C kernels share: the C library's functions in the precision of
 * qkv_real, and the size below which loops stay on one thread. For ref_*.c alone. */
#ifndef QKV_REF_MATH_H
#define QKV_REF_MATH_H

#include <math.h>

#include "kernel/kernel.h"

enum { REF_GRAIN = 16384 }; /* elements; starting a team costs what a few thousand take */

qkv_k_copy_fn qkv__ref_copy; /* ref_copy.c; entered by ref_elementwise.c */
qkv_k_move_fn qkv__ref_move; /* likewise */

#ifdef QKV_F64
static inline qkv_real real_exp(qkv_real x) { return exp(x); }
static inline qkv_real real_tanh(qkv_real x) { return tanh(x); }
static inline qkv_real real_erfc(qkv_real x) { return erfc(x); }
static inline qkv_real real_sqrt(qkv_real x) { return sqrt(x); }
#else
static inline qkv_real real_exp(qkv_real x) { return expf(x); }
static inline qkv_real real_tanh(qkv_real x) { return tanhf(x); }
static inline qkv_real real_erfc(qkv_real x) { return erfcf(x); }
static inline qkv_real real_sqrt(qkv_real x) { return sqrtf(x); }
#endif

#endif
