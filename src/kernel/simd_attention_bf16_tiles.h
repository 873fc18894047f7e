/* simd_attention_bf16_tiles.h - what the forward and the backward pass of attention share whose
 * operands are rounded to bf16: keys and values as tiles, and products of tiles by AMX or
 * AVX512_BF16.
 *
 * Queries, keys, weights and gradients are rounded to nearest, ties to even, where a product takes
 * them. Scores, softmax and all sums are in f32, by the functions that serve f32. Tiles are those
 * of simd_tiles.h. A unit is two of them: 32 keys, queries or channels. */
#ifndef QKV_SIMD_ATTENTION_BF16_TILES_H
#define QKV_SIMD_ATTENTION_BF16_TILES_H

#include "kernel/simd_attention_parts.h"
#include "kernel/simd_tiles.h"

enum { UNIT = 2 * SIDE };

/* An operand as tiles: number i across lanes and p along k is at + i * panel + p * step. */
typedef struct {
    const uint32_t *at;
    size_t panel, step;
} tiles;

/* Products of tiles. begin and end enclose them in a thread. */
typedef struct {
    void (*begin)(void);
    /* c (m units, n units; row stride ldc) = [c +] a b, over `steps` tiles along k. */
    void (*multiply)(float *c, size_t ldc, tiles a, tiles b, size_t m, size_t n, size_t steps,
                     bool add);
    void (*end)(void);
} engine;
#define attention_by_amx QKV_SIMD(qkv__attention_by_amx)
#define attention_by_dot QKV_SIMD(qkv__attention_by_dot)
extern const engine attention_by_amx, attention_by_dot; /* dot: AVX512_BF16 */

/* Keys and values of all sequences, laid out once. A sequence's keys begin a unit. */
typedef struct {
    const engine *by;
    size_t depth_k, depth_v; /* tiles along D, Dv: units of them */
    size_t *first;           /* (B): units of the sequences before, of each key/value head */
    /* Tiles whose rows are keys, and tiles whose rows are channels; NULL: not needed. */
    uint32_t *k, *v, *k_across, *v_across;
} key_tiles;

/* The layouts that are wanted; in scratch memory. False when there is none. */
#define key_tiles_make QKV_SIMD(qkv__attention_key_tiles_make)
bool key_tiles_make(key_tiles *t, const qkv_exec *e, const attention_args *a, const float *k,
                    const float *v, bool forward);
/* Of the block's keys j0 and on, a multiple of UNIT: rows are keys; rows are channels. */
#define keys_down QKV_SIMD(qkv__attention_keys_down)
#define keys_across QKV_SIMD(qkv__attention_keys_across)
tiles keys_down(const key_tiles *t, const uint32_t *from, size_t depth, const block *x, size_t j0);
tiles keys_across(const key_tiles *t, const uint32_t *from, size_t depth, const block *x,
                  size_t j0);

/* Words of the tiles of an operand with that many lanes and numbers along k. */
static inline size_t tiles_size(size_t lanes, size_t k)
{
    return 2 * units_of(lanes, UNIT) * units_of(k, DEPTH) * TILE;
}
/* Lays an operand out at `to`. */
#define tiles_make QKV_SIMD(qkv__attention_tiles_make)
tiles tiles_make(uint32_t *to, const operand *o);

/* tile (TK, TQ) = keys (rows of a) times queries (columns of b), without the units that no query
 * sees. */
#define tile_scores QKV_SIMD(qkv__attention_tile_scores)
void tile_scores(float *tile, const engine *by, const block *x, tiles a, tiles b, size_t steps,
                 size_t j0, size_t nk);
/* sum (channels, TQ) = [sum +] channels (rows of a, along keys) times the tile. room: tiles. */
#define add_over_keys QKV_SIMD(qkv__attention_add_over_keys)
void add_over_keys(float *sum, const engine *by, const block *x, tiles a, size_t depth,
                   const float *tile, uint32_t *room, size_t j0, size_t nk, bool add);
/* y (rows, n; row stride ldy) = [y +] scale[row] x (n, TQ) transposed */
#define unpack_transposed QKV_SIMD(qkv__attention_unpack_transposed)
void unpack_transposed(float *y, size_t ldy, const float *x, size_t rows, size_t n,
                       const float *scale, bool acc);

/* The backward pass of either engine. */
#define reverse_bf16 QKV_SIMD(qkv__attention_reverse_bf16)
void reverse_bf16(const qkv_exec *e, const backward_pass *g, const engine *by);

#endif
