/* random.h - counter-based random numbers: Philox4x32-10 (Salmon et al. 2011).
 * Layer: base
 *
 * A number depends on (seed, stream, index) alone, not on threads. A stream can be resumed at any
 * index. */
#ifndef QKV_RANDOM_H
#define QKV_RANDOM_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* A stream of random numbers. The seed is the key, (stream, index) the counter. */
typedef struct {
    uint64_t seed;
    uint64_t stream; /* identifies the purpose; different streams share no numbers */
    uint64_t index;
    uint32_t buffer[4];
    int left;
} qkv_rng;

void qkv_rng_init(qkv_rng *r, uint64_t seed, uint64_t stream);
uint32_t qkv_rng_u32(qkv_rng *r);
uint32_t qkv_rng_below(qkv_rng *r, uint32_t n); /* uniform in [0, n), unbiased; n > 0 */
double qkv_rng_uniform(qkv_rng *r);             /* [0, 1), 53 bits */
double qkv_rng_normal(qkv_rng *r);              /* mean 0, variance 1 (Box-Muller) */

uint64_t qkv_hash64(const void *data, size_t len); /* FNV-1a; derives stream ids from names */

QKV_END_DECLS
#endif
