/* simd_small_avx2.h - what simd_small.h multiplies bytes with, in AVX2; with AVX_VNNI where that is
 * compiled for. */
#ifndef QKV_SIMD_SMALL_AVX2_H
#define QKV_SIMD_SMALL_AVX2_H

#include <string.h>

#include "kernel/simd.h"

static inline vi small_low(vi line) { return _mm256_and_si256(line, _mm256_set1_epi8(15)); }
static inline vi small_high(vi line) { return small_low(_mm256_srli_epi16(line, 4)); }
static inline vi small_four(const int8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm256_set1_epi32(word);
}
enum { SMALL_ROWS = 4 };
#ifdef __AVXVNNI__
enum { SMALL_OFFSET8 = 128 };

static inline vi small_line(const unsigned char *p, const qkv_k_small_type TYPE)
{
    (void)TYPE;
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline vi small_dot8(vi acc, vi w, vi x) { return _mm256_dpbusd_avx_epi32(acc, w, x); }
static inline vi small_dot4(vi acc, vi w, vi x) { return _mm256_dpbusd_avx_epi32(acc, w, x); }
#else
#define SMALL_SHORT4
enum { SMALL_OFFSET8 = 0 };

static inline vi small_line(const unsigned char *p, const qkv_k_small_type TYPE)
{
    vi line = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return TYPE == QKV_K_INT8 ? _mm256_xor_si256(line, _mm256_set1_epi8(-128)) : line;
}
static inline vi small_pairs(vi acc, vi pairs)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
static inline vi small_dot8(vi acc, vi w, vi x)
{
    return small_pairs(acc, _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x)));
}
/* Of 4 bits a whole block fits 16: 16 x 15 x 127 is 30480 in each half of a lane. */
static inline vi small_dot4(vi acc, vi w, vi x)
{
    return _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, x));
}
static inline vi small_begin(int32_t start, const qkv_k_small_type TYPE)
{
    return vi_set1(TYPE == QKV_K_INT4 ? 0 : (uint32_t)start);
}
static inline vi small_end(vi acc, int32_t start, const qkv_k_small_type TYPE)
{
    return TYPE == QKV_K_INT4 ? small_pairs(vi_set1((uint32_t)start), acc) : acc;
}
#endif
static inline vf small_real(vi x) { return _mm256_cvtepi32_ps(x); }
static inline vf small_scales(const uint16_t *p)
{
    vi words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
static inline void small_put(int8_t *q, vf x)
{
    vi words = _mm256_cvtps_epi32(x);
    __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(words),
                                     _mm256_extracti128_si256(words, 1));
    _mm_storel_epi64((__m128i *)(void *)q, _mm_packs_epi16(halves, halves));
}

#endif
