/* simd_small_vnni.h - what simd_small.h multiplies bytes with, in AVX-512 with VNNI. */
#ifndef QKV_SIMD_SMALL_VNNI_H
#define QKV_SIMD_SMALL_VNNI_H

#include <string.h>

#include "kernel/simd.h"

enum { SMALL_OFFSET8 = 128, SMALL_ROWS = 0 };

static inline vi small_line(const unsigned char *p, const qkv_k_small_type TYPE)
{
    (void)TYPE;
    return _mm512_loadu_si512(p);
}
static inline vi small_low(vi line) { return _mm512_and_si512(line, _mm512_set1_epi8(15)); }
static inline vi small_high(vi line) { return small_low(_mm512_srli_epi16(line, 4)); }
static inline vi small_four(const int8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}
static inline vi small_dot8(vi acc, vi w, vi x) { return _mm512_dpbusd_epi32(acc, w, x); }
static inline vi small_dot4(vi acc, vi w, vi x) { return _mm512_dpbusd_epi32(acc, w, x); }
static inline vf small_real(vi x) { return _mm512_cvtepi32_ps(x); }
static inline vf small_scales(const uint16_t *p)
{
    vi words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
static inline void small_put(int8_t *q, vf x)
{
    _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

#endif
