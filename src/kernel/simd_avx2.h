/* simd_avx2.h - simd.h's types in AVX2 with FMA: 8 floats a vector. */
#ifndef QKV_SIMD_AVX2_H
#define QKV_SIMD_AVX2_H

#include <immintrin.h>

enum { VF = 8, VD = 4 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm; /* all bits of a lane set or clear */
typedef __m256d vd;

static inline vf vf_set1(float x) { return _mm256_set1_ps(x); }
static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
static inline __m256i vi_first(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vm vm_first(size_t n) { return _mm256_castsi256_ps(vi_first(n)); }
static inline vf vf_load_n(const float *p, size_t n) /* the rest is 0 */
{
    return _mm256_maskload_ps(p, vi_first(n));
}
static inline void vf_store_n(float *p, vf x, size_t n) { _mm256_maskstore_ps(p, vi_first(n), x); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }   /* a b + c */
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); } /* c - a b */
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); } /* b when either is NaN */
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vm vf_ge(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
/* x where m holds, 0 elsewhere. */
static inline vf vf_where(vm m, vf x) { return _mm256_and_ps(m, x); }
static inline vf vf_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }
static inline float vf_sum(vf a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline void vf_sum4(float *out, vf a, vf b, vf c, vf d)
{
    out[0] = vf_sum(a);
    out[1] = vf_sum(b);
    out[2] = vf_sum(c);
    out[3] = vf_sum(d);
}
static inline float vf_maximum(vf a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* p 2^n for n <= 128, 0 below exp's range of x. n is split in two so that 2^128 and 2^-126 can
 * be reached. */
static inline vf vf_scale2(vf p, vf n, vf x)
{
    __m256i e = _mm256_cvtps_epi32(vf_max(n, vf_set1(-126.0f)));
    __m256i half = _mm256_srai_epi32(e, 1), bias = _mm256_set1_epi32(127);
    vf a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf b = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(e, half), bias), 23));
    return _mm256_andnot_ps(vf_lt(x, vf_set1(-87.336544f)), p * a * b);
}
/* p 2^n for n of -126 .. 126, 0 where x < -126. */
static inline vf vf_scale2_near(vf p, vf n, vf x)
{
    __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    vf y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    return _mm256_andnot_ps(vf_lt(x, vf_set1(-126.0f)), y);
}

/* 32-bit words, unsigned. */
static inline vi vi_set1(uint32_t x) { return _mm256_set1_epi32((int)x); }
static inline vi vi_load(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void vi_store(uint32_t *p, vi x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
static inline vm vi_ge(vi a, vi b)
{
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a));
}
/* Low and high halves of the 64-bit products. */
static inline void vi_mul_wide(vi *low, vi *high, vi a, vi b)
{
    vi even = _mm256_mul_epu32(a, b);
    vi odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

/* r[i] lane j and r[j] lane i change places. */
static inline void vf_transpose(vf r[VF])
{
    vf u[VF];
    for (int g = 0; g < VF; g += 4) {
        vf a = _mm256_unpacklo_ps(r[g], r[g + 1]), b = _mm256_unpackhi_ps(r[g], r[g + 1]);
        vf c = _mm256_unpacklo_ps(r[g + 2], r[g + 3]), d = _mm256_unpackhi_ps(r[g + 2], r[g + 3]);
        u[g] = _mm256_shuffle_ps(a, c, 0x44);
        u[g + 1] = _mm256_shuffle_ps(a, c, 0xee);
        u[g + 2] = _mm256_shuffle_ps(b, d, 0x44);
        u[g + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    for (int c = 0; c < 4; c++) {
        r[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
        r[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
    }
}

/* Doubles of the lower and the upper half. */
static inline vd vd_zero(void) { return _mm256_setzero_pd(); }
static inline vd vd_lo(vf a) { return _mm256_cvtps_pd(_mm256_castps256_ps128(a)); }
static inline vd vd_hi(vf a) { return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)); }
static inline double vd_sum(vd a)
{
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

/* Words of 64 bits, for Philox: + ^ << >> are C's own. */
static inline vi vi_set64(uint64_t x) { return _mm256_set1_epi64x((long long)x); }
static inline vi vi_shr32(vi a) { return _mm256_srli_epi64(a, 32); }
/* a b of the lower 32 bits of each. */
static inline vi vi_mul32(vi a, vi b) { return _mm256_mul_epu32(a, b); }
/* The lower 32 bits of lo below the lower 32 bits of hi. */
static inline vi vi_join32(vi lo, vi hi)
{
    return _mm256_blend_epi32(lo, _mm256_slli_epi64(hi, 32), 0xAA);
}
/* Every other 64-bit lane of a and b in turn: the even ones, the odd ones. */
static inline vi vi_zip_even(vi a, vi b) { return _mm256_unpacklo_epi64(a, b); }
static inline vi vi_zip_odd(vi a, vi b) { return _mm256_unpackhi_epi64(a, b); }
/* The lane numbers that vi_zip_even, then vi_zip_odd bring into order. */
static inline vi vi_zip_order(void) { return _mm256_setr_epi64x(0, 2, 1, 3); }

#endif
