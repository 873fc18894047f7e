/* rng.c - counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random
 * numbers: as easy as 1, 2, 3"), and a stream of them. */
#include <math.h>

#include "base/base.h"

void qkv__philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void qkv_rng_init(qkv_rng *r, uint64_t seed, uint64_t stream)
{
    *r = (qkv_rng){.seed = seed, .stream = stream};
}

uint32_t qkv_rng_u32(qkv_rng *r)
{
    if (r->left == 0) {
        uint32_t counter[4] = {(uint32_t)r->index, (uint32_t)(r->index >> 32),
                               (uint32_t)r->stream, (uint32_t)(r->stream >> 32)};
        uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)};
        qkv__philox(r->buffer, counter, key);
        r->index++;
        r->left = 4;
    }
    return r->buffer[4 - r->left--];
}

uint32_t qkv_rng_below(qkv_rng *r, uint32_t n)
{
    uint32_t floor = (uint32_t)(-n) % n; /* 2^32 mod n: numbers below it would favour low values */
    for (;;) {
        uint64_t product = (uint64_t)qkv_rng_u32(r) * n; /* Lemire 2019 */
        if ((uint32_t)product >= floor)
            return (uint32_t)(product >> 32);
    }
}

double qkv_rng_uniform(qkv_rng *r)
{
    uint64_t high = qkv_rng_u32(r) >> 5, low = qkv_rng_u32(r) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

double qkv_rng_normal(qkv_rng *r)
{
    double u = 1.0 - qkv_rng_uniform(r); /* (0, 1] */
    double v = qkv_rng_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

uint64_t qkv_hash64(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}
