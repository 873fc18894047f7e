/* simd_small_neon.h - what simd_small.h multiplies bytes with, in NEON; with the dot products of
 * ARMv8.2 where these are compiled for. */
#ifndef QKV_SIMD_SMALL_NEON_H
#define QKV_SIMD_SMALL_NEON_H

#include <string.h>

#include "kernel/simd.h"

static inline int8x16_t small_bytes(vi x) { return vreinterpretq_s8_u64(x); }
static inline vi small_of_bytes(uint8x16_t x) { return vreinterpretq_u64_u8(x); }

/* Signed bytes meet signed ones. */
static inline vi small_line(const unsigned char *p, const qkv_k_small_type TYPE)
{
    uint8x16_t line = vld1q_u8(p);
    return small_of_bytes(TYPE == QKV_K_INT8 ? veorq_u8(line, vdupq_n_u8(128)) : line);
}
static inline vi small_low(vi line)
{
    return small_of_bytes(vandq_u8(vreinterpretq_u8_u64(line), vdupq_n_u8(15)));
}
static inline vi small_high(vi line)
{
    return small_of_bytes(vshrq_n_u8(vreinterpretq_u8_u64(line), 4));
}
static inline vi small_four(const int8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return vi_set1(word);
}
#ifdef __ARM_FEATURE_DOTPROD
enum { SMALL_OFFSET8 = 0, SMALL_ROWS = 3 };

static inline vi small_dot8(vi acc, vi w, vi x)
{
    return vreinterpretq_u64_s32(vdotq_s32(vreinterpretq_s32_u64(acc), small_bytes(w),
                                           small_bytes(x)));
}
#else
enum { SMALL_OFFSET8 = 0, SMALL_ROWS = 2 };

/* Two products fit 16 bits: 2 x 127 x 127 is 32258. */
static inline vi small_dot8(vi acc, vi w, vi x)
{
    int8x16_t a = small_bytes(w), b = small_bytes(x);
    int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return vreinterpretq_u64_s32(vpadalq_s16(vreinterpretq_s32_u64(acc), vpaddq_s16(low, high)));
}
#endif
static inline vi small_dot4(vi acc, vi w, vi x) { return small_dot8(acc, w, x); }
static inline vf small_real(vi x) { return vcvtq_f32_s32(vreinterpretq_s32_u64(x)); }
static inline vf small_scales(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
static inline void small_put(int8_t *q, vf x)
{
    int16x4_t halves = vqmovn_s32(vcvtnq_s32_f32(x));
    int8x8_t bytes = vqmovn_s16(vcombine_s16(halves, halves));
    vst1_lane_s32((int32_t *)(void *)q, vreinterpret_s32_s8(bytes), 0);
}

#endif
