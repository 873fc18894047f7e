/* simd_words.h - pairs of numbers in bf16 as words of 32 bits: what products of bf16 take. Include
 * after simd.h, for AVX-512. */
#ifndef QKV_SIMD_WORDS_H
#define QKV_SIMD_WORDS_H

/* Words of 16 lanes: the lower halves are of x, the upper of y. */
static inline __m512i simd_words_of(vf x, vf y)
{
    const __m512i turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                          24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                          16, 0);
    return _mm512_permutexvar_epi16(turn, (__m512i)_mm512_cvtne2ps_pbh(y, x));
}

#endif
