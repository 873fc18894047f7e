/* simd_random.h - Philox4x32-10 in vectors, as far as dropout needs it: which of 2 VF elements in
 * a row are kept. The same decisions as qkv__philox and qkv_k_dropout_args, to the bit.
 *
 * Each 64-bit lane runs one counter; a word is a lane's lower half, its upper half may hold
 * anything. */
#ifndef QKV_SIMD_RANDOM_H
#define QKV_SIMD_RANDOM_H

#include "kernel/simd.h"

typedef struct {
    vi key[2][10]; /* of every round */
    vi step, dropout_id, threshold;
} vf_dropout;

static inline void vf_dropout_init(vf_dropout *d, const qkv_k_dropout_args *args)
{
    uint32_t k0 = (uint32_t)args->seed, k1 = (uint32_t)(args->seed >> 32);
    for (uint32_t round = 0; round < 10; round++) {
        d->key[0][round] = vi_set64((uint32_t)(k0 + round * 0x9E3779B9u));
        d->key[1][round] = vi_set64((uint32_t)(k1 + round * 0xBB67AE85u));
    }
    d->step = vi_set64((uint32_t)args->step);
    d->dropout_id = vi_set64(args->dropout_id);
    uint32_t threshold = qkv__dropout_threshold(args->p);
    d->threshold = vi_set64((uint64_t)threshold << 32 | threshold);
}

/* keep[i]: elements 4 group + i VF ... of the stream. */
static inline void vf_dropout_keep(vm keep[2], const vf_dropout *d, uint64_t group)
{
    const vi m0 = vi_set64(0xD2511F53u), m1 = vi_set64(0xCD9E8D57u);
    vi c0 = vi_set64(group) + vi_zip_order(), c1 = vi_shr32(c0), c2 = d->step, c3 = d->dropout_id;
    for (int round = 0; round < 10; round++) {
        vi p0 = vi_mul32(c0, m0), p1 = vi_mul32(c2, m1);
        c0 = vi_shr32(p1) ^ c1 ^ d->key[0][round];
        c1 = p1;
        c2 = vi_shr32(p0) ^ c3 ^ d->key[1][round];
        c3 = p0;
    }
    vi a = vi_join32(c0, c1), b = vi_join32(c2, c3);
    keep[0] = vi_ge(vi_zip_even(a, b), d->threshold);
    keep[1] = vi_ge(vi_zip_odd(a, b), d->threshold);
}

#endif
