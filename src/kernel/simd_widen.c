/* simd_widen.c - the numbers that weights in fewer bits stand for, turned: a line's word of each
 * row of a group (small.h) becomes a lane of the vectors that are stored along n. */
#include "kernel/simd.h"
#include "kernel/small.h"

enum { MOST = 8 /* numbers of a line */ };
static const size_t worth_threads = 1u << 15; /* numbers that pay for waking a team */

typedef uint32_t widen_words __attribute__((vector_size(VF * 4)));
typedef uint16_t widen_halves __attribute__((vector_size(VF * 2)));
typedef int32_t widen_integers __attribute__((vector_size(VF * 4)));

/* VF rows of a line, times their scales where they are integers. TYPE is a constant where this is
 * inlined. */
QKV_INLINE void widen_line(vf out[MOST], const unsigned char *line, vf scale,
                           const qkv_k_small_type TYPE)
{
    widen_words word = (widen_words)vf_load((const float *)(const void *)line);
    if (TYPE == QKV_K_BF16) {
        out[0] = (vf)(word << 16);
        out[1] = (vf)(word & 0xffff0000u);
        return;
    }
    const uint32_t bits = TYPE == QKV_K_INT8 ? 255 : 15;
    const int32_t offset = TYPE == QKV_K_INT8 ? 128 : 8;
    for (uint32_t i = 0; i < (TYPE == QKV_K_INT8 ? 4 : 8); i++) {
        widen_words low = word >> (8 * (i % 4) + i / 4 * 4) & bits;
        out[i] = scale * __builtin_convertvector((widen_integers)low - offset, vf);
    }
}

/* Scales of VF rows at number p of k. */
QKV_INLINE vf widen_scales(const qkv_k_small *w, size_t row, size_t p, const qkv_k_small_type TYPE)
{
    if (TYPE == QKV_K_INT8)
        return vf_load((const float *)w->scales + row);
    size_t blocks = qkv__small_padded(w) / QKV_K_INT4_BLOCK;
    widen_halves half;
    memcpy(&half, (const uint16_t *)w->scales + row % QKV_K_PACKED +
                      (row / QKV_K_PACKED * blocks + p / QKV_K_INT4_BLOCK) * QKV_K_PACKED,
           sizeof half);
    return (vf)(__builtin_convertvector(half, widen_words) << 16);
}

/* Rows row .. row+lanes-1 of w, lanes <= VF. */
QKV_INLINE void widen_rows(float *y, size_t ldy, const qkv_k_small *w, size_t row, size_t lanes,
                           const qkv_k_small_type TYPE)
{
    const size_t numbers = TYPE == QKV_K_BF16 ? 2 : TYPE == QKV_K_INT8 ? 4 : 8;
    const size_t block = TYPE == QKV_K_INT4 ? QKV_K_INT4_BLOCK : w->k;
    const unsigned char *line = (const unsigned char *)w->words +
                                row / QKV_K_PACKED * qkv__small_group_bytes(w) +
                                row % QKV_K_PACKED * 4;
    vf scale = vf_zero();
    for (size_t p = 0; p < w->k; p += numbers, line += QKV__SMALL_LINE) {
        vf out[MOST];
        if (TYPE != QKV_K_BF16 && p % block == 0)
            scale = widen_scales(w, row, p, TYPE);
        widen_line(out, line, scale, TYPE);
        for (size_t i = 0; i < at_most(numbers, w->k - p); i++)
            vf_put(y + (p + i) * ldy, out[i], lanes);
    }
}

static void widen_typed(float *y, size_t ldy, const qkv_k_small *w, size_t row, size_t lanes)
{
    switch (w->type) {
    case QKV_K_BF16: widen_rows(y, ldy, w, row, lanes, QKV_K_BF16); break;
    case QKV_K_INT8: widen_rows(y, ldy, w, row, lanes, QKV_K_INT8); break;
    default: widen_rows(y, ldy, w, row, lanes, QKV_K_INT4);
    }
}

static void simd_widen_widen(const qkv_exec *e, float *y, size_t ldy, const qkv_k_small *w,
                             size_t first, size_t n)
{
    size_t team = n * w->k > worth_threads ? (size_t)e->threads : 1;
#pragma omp parallel for num_threads((int)team) if (team > 1) schedule(static) default(none)       \
    shared(y, ldy, w, first, n)
    for (size_t line = 0; line < n; line += QKV__LINE)
        for (size_t c = line; c < at_most(n, line + QKV__LINE); c += VF)
            widen_typed(y + c, ldy, w, first + c, at_most(n - c, VF));
}

void QKV_SIMD(qkv__kernels_widen)(qkv_kernels *k) { k->widen = simd_widen_widen; }
