/* simd_avx512.h - simd.h's types in AVX-512: 16 floats a vector. */
#ifndef QKV_SIMD_AVX512_H
#define QKV_SIMD_AVX512_H

#include <immintrin.h>

enum { VF = 16, VD = 8 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __m512d vd;

static inline vf vf_set1(float x) { return _mm512_set1_ps(x); }
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
static inline vm vm_first(size_t n) { return (vm)((1u << n) - 1u); } /* the first n < 16 lanes */
static inline vf vf_load_n(const float *p, size_t n) /* the rest is 0 */
{
    return _mm512_maskz_loadu_ps(vm_first(n), p);
}
static inline void vf_store_n(float *p, vf x, size_t n)
{
    _mm512_mask_storeu_ps(p, vm_first(n), x);
}
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a b + c */
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a b */
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); } /* b when either is NaN */
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vm vf_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
/* x where m holds, 0 elsewhere. */
static inline vf vf_where(vm m, vf x) { return _mm512_maskz_mov_ps(m, x); }
static inline vf vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
static inline float vf_sum(vf a) { return _mm512_reduce_add_ps(a); }
/* out[0..3] = the sums of a, b, c, d, each added up in the order of vf_sum. */
static inline void vf_sum4(float *out, vf a, vf b, vf c, vf d)
{
    vf ab = _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xEE);
    vf cd = _mm512_shuffle_f32x4(c, d, 0x44) + _mm512_shuffle_f32x4(c, d, 0xEE);
    vf all = _mm512_shuffle_f32x4(ab, cd, 0x88) + _mm512_shuffle_f32x4(ab, cd, 0xDD);
    all += _mm512_permute_ps(all, 0x4E);
    all += _mm512_permute_ps(all, 0xB1);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, all)));
}
static inline float vf_maximum(vf a) { return _mm512_reduce_max_ps(a); }

/* p 2^n for n <= 128, 0 below exp's range of x. */
static inline vf vf_scale2(vf p, vf n, vf x)
{
    vm above = _mm512_cmp_ps_mask(x, vf_set1(-87.336544f), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(above, p, n);
}
/* p 2^n for n of -126 .. 126, 0 where x < -126. */
static inline vf vf_scale2_near(vf p, vf n, vf x)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, vf_set1(-126.0f), _CMP_NLT_UQ), p, n);
}

/* 32-bit words, unsigned. */
static inline vi vi_set1(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline vi vi_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
static inline void vi_store(uint32_t *p, vi x) { _mm512_storeu_si512(p, x); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
static inline vm vi_ge(vi a, vi b) { return _mm512_cmpge_epu32_mask(a, b); }
/* Low and high halves of the 64-bit products. */
static inline void vi_mul_wide(vi *low, vi *high, vi a, vi b)
{
    vi even = _mm512_mul_epu32(a, b);
    vi odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

/* r[i] lane j and r[j] lane i change places. */
static inline void vf_transpose(vf r[VF])
{
    vf u[VF];
    for (int g = 0; g < VF; g += 4) {
        vf a = _mm512_unpacklo_ps(r[g], r[g + 1]), b = _mm512_unpackhi_ps(r[g], r[g + 1]);
        vf c = _mm512_unpacklo_ps(r[g + 2], r[g + 3]), d = _mm512_unpackhi_ps(r[g + 2], r[g + 3]);
        u[g] = _mm512_shuffle_ps(a, c, 0x44);
        u[g + 1] = _mm512_shuffle_ps(a, c, 0xee);
        u[g + 2] = _mm512_shuffle_ps(b, d, 0x44);
        u[g + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    for (int c = 0; c < 4; c++) {
        vf a = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);
        vf b = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
        vf d = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
        vf f = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
        r[c] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[4 + c] = _mm512_shuffle_f32x4(d, f, 0x88);
        r[8 + c] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[12 + c] = _mm512_shuffle_f32x4(d, f, 0xdd);
    }
}

/* Doubles of the lower and the upper half. */
static inline vd vd_zero(void) { return _mm512_setzero_pd(); }
static inline vd vd_lo(vf a) { return _mm512_cvtps_pd(_mm512_castps512_ps256(a)); }
static inline vd vd_hi(vf a) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1)); }
static inline double vd_sum(vd a) { return _mm512_reduce_add_pd(a); }

/* Words of 64 bits, for Philox: + ^ << >> are C's own. */
static inline vi vi_set64(uint64_t x) { return _mm512_set1_epi64((long long)x); }
static inline vi vi_shr32(vi a) { return _mm512_srli_epi64(a, 32); }
/* a b of the lower 32 bits of each. */
static inline vi vi_mul32(vi a, vi b) { return _mm512_mul_epu32(a, b); }
/* The lower 32 bits of lo below the lower 32 bits of hi. */
static inline vi vi_join32(vi lo, vi hi)
{
    return _mm512_mask_shuffle_epi32(lo, 0xAAAA, hi, _MM_PERM_CCAA);
}
/* Every other 64-bit lane of a and b in turn: the even ones, the odd ones. */
static inline vi vi_zip_even(vi a, vi b) { return _mm512_unpacklo_epi64(a, b); }
static inline vi vi_zip_odd(vi a, vi b) { return _mm512_unpackhi_epi64(a, b); }
/* The lane numbers that vi_zip_even, then vi_zip_odd bring into order. */
static inline vi vi_zip_order(void) { return _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7); }

#endif
