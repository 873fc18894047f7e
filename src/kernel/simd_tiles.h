/* simd_tiles.h - AMX tiles of bf16: their sizes, and the shapes of the tile registers. Include
 * after simd.h, for AVX-512 with AMX.
 *
 * A register has up to 16 rows of 64 bytes: 16 x 16 sums in f32, or 16 rows of 32 numbers in bf16.
 * A product adds to sums (16, 16) the product of a first operand (16 rows, 32 numbers along k) and
 * a second one: 16 rows, each a pair of numbers that follow along k, of 16 columns. */
#ifndef QKV_SIMD_TILES_H
#define QKV_SIMD_TILES_H

#include "kernel/simd_words.h"

enum {
    SIDE = 16,                /* rows of a tile, columns of its sums */
    DEPTH = 32,               /* numbers along k of a tile in bf16 */
    TILE = SIDE * DEPTH / 2,  /* its words of 32 bits: two numbers each, or one sum */
    TILE_BYTES = 4 * TILE,
    ROW_BYTES = 2 * DEPTH
};

static inline size_t units_of(size_t n, size_t unit) { return (n + unit - 1) / unit; }

/* The size of pieces of n, as few as have at most `most` each, and as equal as they can be. */
static inline size_t even_pieces(size_t n, size_t most) { return units_of(n, units_of(n, most)); }

/* gcc's tile instructions do not say which memory they read: between writing it and a tile that is
 * loaded from it, where both are in one function. */
static inline void tiles_fence(void) { __asm__ volatile("" : : : "memory"); }

/* For the calling thread, until _tile_release. Registers 0 to 3 hold sums and 4 and 5 first
 * operands, both of `rows` rows; 6 and 7 hold second operands. A row of a first operand has
 * `bytes` bytes, and a second operand a row for every 4 of them. Both at most: SIDE, ROW_BYTES. */
static inline void configure_tiles(size_t rows, size_t bytes)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? bytes : ROW_BYTES);
        shape.rows[i] = (uint8_t)(i >= 6 ? bytes / 4 : rows);
    }
    __asm__ volatile("" : : "r"(&shape) : "memory"); /* the intrinsic names 8 bytes of it alone */
    _tile_loadconfig(&shape);
}

/* A row of a first operand: the `n` <= DEPTH numbers at `from`, then zeros. */
static inline __m512i tile_row(const float *from, size_t n)
{
    vf first = vf_get(from, at_most(n, VF));
    vf second = n > VF ? vf_get(from + VF, n - VF) : vf_zero();
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

/* One operand of a product: lanes (rows of a first operand, columns of a second), each of k
 * numbers. */
typedef struct {
    const float *x;
    size_t ld, lanes, k;
    bool along;     /* numbers of a lane lie side by side, lanes ld apart; else the other way */
    bool lane_rows; /* the rows of its tiles are lanes; else pairs of numbers along k */
} operand;

/* The words of a tile, of `lanes` lanes and k numbers: constants where the tile is whole. */
QKV_INLINE void pack_words(uint32_t *to, const float *from, size_t ld, size_t lanes, size_t k,
                           bool along, bool turn)
{
    vf word[VF];
    QKV_UNROLL
    for (size_t r = 0; r < SIDE; r++) {
        word[r] = vf_zero();
        if (along && r < lanes) {
            word[r] = (vf)tile_row(from + r * ld, k);
        } else if (!along && 2 * r < k) {
            vf first = vf_get(from + 2 * r * ld, lanes);
            vf second = 2 * r + 1 < k ? vf_get(from + (2 * r + 1) * ld, lanes) : vf_zero();
            word[r] = (vf)simd_words_of(first, second);
        }
    }
    if (turn)
        vf_transpose(word);
    QKV_UNROLL
    for (size_t r = 0; r < SIDE; r++)
        _mm512_storeu_si512(to + r * SIDE, (__m512i)word[r]);
}

/* Lays out a tile of an operand: lanes i .. i+15, numbers p .. p+31 along k; 0 beyond it. */
static inline void pack_tile(uint32_t *to, const operand *o, size_t i, size_t p)
{
    const size_t lanes = o->lanes > i ? at_most(o->lanes - i, SIDE) : 0;
    const size_t k = lanes ? at_most(o->k - p, DEPTH) : 0;
    const float *from = o->x + (!lanes ? 0 : o->along ? i * o->ld + p : p * o->ld + i);
    if (lanes < SIDE || k < DEPTH)
        pack_words(to, from, o->ld, lanes, k, o->along, o->along != o->lane_rows);
    else if (o->along && o->lane_rows)
        pack_words(to, from, o->ld, SIDE, DEPTH, true, false);
    else if (o->along)
        pack_words(to, from, o->ld, SIDE, DEPTH, true, true);
    else if (o->lane_rows)
        pack_words(to, from, o->ld, SIDE, DEPTH, false, true);
    else
        pack_words(to, from, o->ld, SIDE, DEPTH, false, false);
}

#endif
