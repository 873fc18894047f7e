/* simd_winograd_parts.h - Winograd's F(2 x 2, 3 x 3) (Lavin and Gray 2016): a convolution whose
 * windows are 3 x 3 and one pixel apart, in 16 multiplications for each four outputs where the
 * definition takes 36.
 *
 * The outputs are cut into tiles of 2 x 2, which see patches d of 4 x 4. With window g:
 *     y = A' ((G g G') . (B' d B)) A      A'  1  1  1  0    B'  1  0 -1  0    G   1   0   0
 *                                             0  1 -1 -1        0  1  1  0       1/2 1/2 1/2
 *                                                               0 -1  1  0       1/2-1/2 1/2
 *                                                               0  1  0 -1        0   0   1
 * ' transposes, . multiplies number by number. Over channels each of the 16 numbers becomes a
 * product of matrices, tiles x channels times channels x outputs. The gradient of g is
 *     dg = G' (sum over tiles of (A dy A') . (B' d B)) G. */
#ifndef QKV_SIMD_WINOGRAD_PARTS_H
#define QKV_SIMD_WINOGRAD_PARTS_H

#include "kernel/simd_product.h"

enum {
    SIDE = 4, PLACES = SIDE * SIDE, /* of a patch */
    WINDOW = 3,
    PANEL = NV * VF, /* columns of a register block */
    SKEW = 16        /* numbers between matrices, so that they do not meet in one set of a cache */
};

/* What is convolved: images (B, H, W, C) to images (B, OH, OW, N). */
typedef struct {
    size_t B, H, W, C, OH, OW, N, top, left;
    size_t down, across, tiles; /* of an image's outputs; of all images */
} plane;

static inline plane plane_of(const qkv_k_conv_args *a)
{
    size_t down = (a->OH + 1) / 2, across = (a->OW + 1) / 2;
    return (plane){a->B, a->H, a->W, a->C, a->OH, a->OW, a->N, a->top, a->left, down, across,
                   a->B * down * across};
}

/* Where a tile lies. */
typedef struct {
    size_t image, y, x; /* its first output */
} place;

static inline place place_of(const plane *p, size_t tile)
{
    size_t in_image = tile % (p->down * p->across);
    return (place){tile / (p->down * p->across), in_image / p->across * 2,
                   in_image % p->across * 2};
}

/* The pixels of a tile's patch, NULL outside the image. Returns whether all are inside. */
static inline bool patch_pixels(const float *at[PLACES], const float *x, const plane *p,
                                size_t tile)
{
    place o = place_of(p, tile);
    bool whole = true;
    for (size_t i = 0; i < PLACES; i++) {
        size_t r = o.y + i / SIDE - p->top, c = o.x + i % SIDE - p->left; /* wraps before 0 */
        bool there = r < p->H && c < p->W;
        at[i] = there ? x + ((o.image * p->H + r) * p->W + c) * p->C : NULL;
        whole = whole && there;
    }
    return whole;
}

QKV_INLINE vf pixel_get(const float *at, size_t c, bool whole)
{
    return whole || at ? vf_load(at + c) : vf_zero();
}

/* to = B' (d0, d1, d2, d3). */
QKV_INLINE void by_b(vf to[SIDE], vf d0, vf d1, vf d2, vf d3)
{
    to[0] = d0 - d2;
    to[1] = d1 + d2;
    to[2] = d2 - d1;
    to[3] = d1 - d3;
}

/* v, `step` apart = B' d B for channels c .. c + width - 1 of a patch, whole vectors. */
QKV_INLINE void patch_transform(float *v, size_t step, const float *const at[PLACES], size_t c,
                                size_t width, bool whole)
{
    for (size_t j = 0; j < width; j += VF) {
        vf rows[SIDE][SIDE], out[SIDE]; /* rows[column]: that column by B' */
        QKV_UNROLL
        for (size_t k = 0; k < SIDE; k++) {
            by_b(rows[k], pixel_get(at[k], c + j, whole), pixel_get(at[SIDE + k], c + j, whole),
                 pixel_get(at[2 * SIDE + k], c + j, whole),
                 pixel_get(at[3 * SIDE + k], c + j, whole));
        }
        QKV_UNROLL
        for (size_t r = 0; r < SIDE; r++) {
            by_b(out, rows[0][r], rows[1][r], rows[2][r], rows[3][r]);
            QKV_UNROLL
            for (size_t k = 0; k < SIDE; k++) {
                vf_store(v + (r * SIDE + k) * step + j, out[k]);
            }
        }
    }
}

/* v (PLACES; step apart) of (count, width): the patches of tiles first .. first + count - 1. */
static inline void patches(float *v, size_t step, const float *x, const plane *p, size_t first,
                           size_t count, size_t c, size_t width)
{
    for (size_t i = 0; i < count; i++) {
        const float *at[PLACES];
        if (patch_pixels(at, x, p, first + i))
            patch_transform(v + i * width, step, at, c, width, true);
        else
            patch_transform(v + i * width, step, at, c, width, false);
    }
}

#define winograd_weights QKV_SIMD(qkv__winograd_weights)
/* dw (N, 3, 3, C) = [+=] the windows' gradient. */
void winograd_weights(const qkv_exec *e, float *dw, const float *dy, const float *x,
                      const plane *p, bool acc);

#endif
