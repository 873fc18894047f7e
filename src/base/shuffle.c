/* shuffle.c - a random order that needs no memory: where index i goes is computed, so a training
 * run's place in its data is one number. */
#include <string.h>

#include "base/base.h"

/* A Feistel network over 2 * half bits permutes [0, 4^half); indices that fall outside [0, n) are
 * walked on until they fall inside (Black and Rogaway 2002). */
uint64_t qkv_shuffled(uint64_t i, uint64_t n, uint64_t seed)
{
    unsigned half = 1;
    while (half < 32 && (n - 1) >> (2 * half))
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    if (n < 2)
        return 0;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t counter[4] = {(uint32_t)right, round, half, 0x5348554Eu}, word[4];
            qkv__philox(word, counter, key);
            uint64_t next = left ^ (word[0] & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

uint64_t qkv__epoch_place(uint64_t seed, const char *stream, uint64_t sample, uint64_t n)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, qkv_hash64(stream, strlen(stream)) + sample / n);
    return qkv_shuffled(sample % n, n, qkv__rng_u64(&r));
}
