/* simd_neon.h - simd.h's types in Advanced SIMD of 64-bit Arm: 4 floats a vector. */
#ifndef QKV_SIMD_NEON_H
#define QKV_SIMD_NEON_H

#include <arm_neon.h>

enum { VF = 4, VD = 2 };
typedef float32x4_t vf;
typedef uint64x2_t vi; /* + ^ << >> of C work on words of 64 bits, as in the other headers */
typedef uint32x4_t vm; /* all bits of a lane set or clear */
typedef float64x2_t vd;

static inline uint32x4_t vi_words(vi x) { return vreinterpretq_u32_u64(x); }
static inline vi vi_of_words(uint32x4_t x) { return vreinterpretq_u64_u32(x); }

static inline vf vf_set1(float x) { return vdupq_n_f32(x); }
static inline vf vf_zero(void) { return vdupq_n_f32(0); }
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline void vf_store(float *p, vf x) { vst1q_f32(p, x); }
static inline vm vm_first(size_t n)
{
    const uint32_t lanes[VF] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(lanes), vdupq_n_u32((uint32_t)n));
}
static inline vf vf_load_n(const float *p, size_t n) /* the rest is 0 */
{
    const float32x2_t none = vdup_n_f32(0);
    switch (n) {
    case 0: return vf_zero();
    case 1: return vcombine_f32(vld1_lane_f32(p, none, 0), none);
    case 2: return vcombine_f32(vld1_f32(p), none);
    case 3: return vcombine_f32(vld1_f32(p), vld1_lane_f32(p + 2, none, 0));
    default: return vld1q_f32(p);
    }
}
static inline void vf_store_n(float *p, vf x, size_t n)
{
    if (n >= VF) {
        vst1q_f32(p, x);
        return;
    }
    if (n >= 2)
        vst1_f32(p, vget_low_f32(x));
    if (n == 1)
        vst1q_lane_f32(p, x, 0);
    else if (n == 3)
        vst1q_lane_f32(p + 2, x, 2);
}
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }  /* a b + c */
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); } /* c - a b */
static inline vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); } /* b: NaN */
static inline vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vf vf_round(vf a) { return vrndnq_f32(a); } /* to nearest, ties to even */
static inline vm vf_lt(vf a, vf b) { return vcltq_f32(a, b); }
static inline vm vf_ge(vf a, vf b) { return vcgeq_f32(a, b); }
/* x where m holds, 0 elsewhere. */
static inline vf vf_where(vm m, vf x)
{
    return vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(x)));
}
static inline vf vf_select(vm m, vf yes, vf no) { return vbslq_f32(m, yes, no); }
static inline float vf_sum(vf a) { return vaddvq_f32(a); } /* (a0 + a1) + (a2 + a3) */
/* out[0..3] = the sums of a, b, c, d, each added up in the order of vf_sum. */
static inline void vf_sum4(float *out, vf a, vf b, vf c, vf d)
{
    vst1q_f32(out, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}
static inline float vf_maximum(vf a) { return vmaxvq_f32(a); }

/* p 2^n for n <= 128, 0 below exp's range of x. n is split in two so that 2^128 and 2^-126 can
 * be reached. */
static inline vf vf_scale2(vf p, vf n, vf x)
{
    int32x4_t e = vcvtnq_s32_f32(vf_max(n, vf_set1(-126.0f)));
    int32x4_t half = vshrq_n_s32(e, 1), bias = vdupq_n_s32(127);
    vf a = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    vf b = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vsubq_s32(e, half), bias), 23));
    return vf_select(vf_lt(x, vf_set1(-87.336544f)), vf_zero(), p * a * b);
}
/* p 2^n for n of -126 .. 126, 0 where x < -126. */
static inline vf vf_scale2_near(vf p, vf n, vf x)
{
    int32x4_t exponent = vshlq_n_s32(vcvtnq_s32_f32(n), 23);
    vf y = vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), exponent));
    return vf_select(vf_lt(x, vf_set1(-126.0f)), vf_zero(), y);
}

/* 32-bit words, unsigned. */
static inline vi vi_set1(uint32_t x) { return vi_of_words(vdupq_n_u32(x)); }
static inline vi vi_load(const uint32_t *p) { return vi_of_words(vld1q_u32(p)); }
static inline void vi_store(uint32_t *p, vi x) { vst1q_u32(p, vi_words(x)); }
static inline vi vi_add(vi a, vi b) { return vi_of_words(vaddq_u32(vi_words(a), vi_words(b))); }
static inline vi vi_xor(vi a, vi b) { return veorq_u64(a, b); }
static inline vm vi_ge(vi a, vi b) { return vcgeq_u32(vi_words(a), vi_words(b)); }
/* Low and high halves of the 64-bit products. */
static inline void vi_mul_wide(vi *low, vi *high, vi a, vi b)
{
    uint32x4_t x = vi_words(a), y = vi_words(b);
    uint64x2_t first = vmull_u32(vget_low_u32(x), vget_low_u32(y)), second = vmull_high_u32(x, y);
    *low = vi_of_words(vuzp1q_u32(vi_words(first), vi_words(second)));
    *high = vi_of_words(vuzp2q_u32(vi_words(first), vi_words(second)));
}

/* r[i] lane j and r[j] lane i change places. */
static inline void vf_transpose(vf r[VF])
{
    vf a = vzip1q_f32(r[0], r[2]), b = vzip2q_f32(r[0], r[2]);
    vf c = vzip1q_f32(r[1], r[3]), d = vzip2q_f32(r[1], r[3]);
    r[0] = vzip1q_f32(a, c);
    r[1] = vzip2q_f32(a, c);
    r[2] = vzip1q_f32(b, d);
    r[3] = vzip2q_f32(b, d);
}

/* Doubles of the lower and the upper half. */
static inline vd vd_zero(void) { return vdupq_n_f64(0); }
static inline vd vd_lo(vf a) { return vcvt_f64_f32(vget_low_f32(a)); }
static inline vd vd_hi(vf a) { return vcvt_high_f64_f32(a); }
static inline double vd_sum(vd a) { return vaddvq_f64(a); }

/* Words of 64 bits, for Philox: + ^ << >> are C's own. */
static inline vi vi_set64(uint64_t x) { return vdupq_n_u64(x); }
static inline vi vi_shr32(vi a) { return vshrq_n_u64(a, 32); }
/* a b of the lower 32 bits of each. */
static inline vi vi_mul32(vi a, vi b) { return vmull_u32(vmovn_u64(a), vmovn_u64(b)); }
/* The lower 32 bits of lo below the lower 32 bits of hi. */
static inline vi vi_join32(vi lo, vi hi) { return vsliq_n_u64(lo, hi, 32); }
/* Every other 64-bit lane of a and b in turn: the even ones, the odd ones. */
static inline vi vi_zip_even(vi a, vi b) { return vzip1q_u64(a, b); }
static inline vi vi_zip_odd(vi a, vi b) { return vzip2q_u64(a, b); }
/* The lane numbers that vi_zip_even, then vi_zip_odd bring into order. */
static inline vi vi_zip_order(void)
{
    const uint64_t lanes[VD] = {0, 1};
    return vld1q_u64(lanes);
}

#endif
