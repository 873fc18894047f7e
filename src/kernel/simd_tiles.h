/* simd_tiles.h - AMX tiles of bf16: their sizes, and the shapes of the tile registers. Include
 * after simd.h, for AVX-512 with AMX.
 *
 * A register has up to 16 rows of 64 bytes: 16 x 16 sums in f32, or 16 rows of 32 numbers in bf16.
 * A product adds to sums (16, 16) the product of a first operand (16 rows, 32 numbers along k) and
 * a second one: 16 rows, each a pair of numbers that follow along k, of 16 columns. */
#ifndef QKV_SIMD_TILES_H
#define QKV_SIMD_TILES_H

enum {
    SIDE = 16,                /* rows of a tile, columns of its sums */
    DEPTH = 32,               /* numbers along k of a tile in bf16 */
    TILE = SIDE * DEPTH / 2,  /* its words of 32 bits: two numbers each, or one sum */
    TILE_BYTES = 4 * TILE,
    ROW_BYTES = 2 * DEPTH
};

static inline size_t units_of(size_t n, size_t unit) { return (n + unit - 1) / unit; }

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
    vf first = vf_get(from, n < VF ? n : VF);
    vf second = n > VF ? vf_get(from + VF, n - VF) : vf_zero();
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

#endif
