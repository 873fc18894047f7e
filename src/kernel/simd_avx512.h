/* simd_avx512.h - simd.h's types in AVX-512: 16 floats a vector. */
#ifndef QKV_SIMD_AVX512_H
#define QKV_SIMD_AVX512_H

#include <immintrin.h>

enum { VF = 16 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

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
static inline vf vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
static inline float vf_sum(vf a) { return _mm512_reduce_add_ps(a); }
static inline float vf_maximum(vf a) { return _mm512_reduce_max_ps(a); }

/* p 2^n, forced to 0 below and to inf above exp's range of x. */
static inline vf vf_scale2(vf p, vf n, vf x)
{
    vf y = _mm512_scalef_ps(p, n);
    y = vf_select(vf_lt(x, vf_set1(-87.336544f)), vf_zero(), y);
    return vf_select(vf_lt(vf_set1(88.722839f), x), vf_set1(__builtin_inff()), y);
}

#endif
