/* small.h - weights in fewer bits: where the numbers of a qkv_k_small lie, on the host.
 *
 * Rows lie in groups of QKV_K_PACKED = 16, of which the last is filled up, and every group in lines
 * of 64 bytes along k, in each of which row i of the group has bytes 4 i .. 4 i + 3:
 *   bf16  two numbers a line; the lower half of the word comes first;
 *   int8  four numbers a line, -127 .. 127 plus 128, k rounded up to blocks of QKV_K_INT8_BLOCK;
 *         scales are floats, one a row (n rounded up to groups);
 *   int4  eight numbers a line, each plus 8: in the lower halves of the bytes the first four, in
 *         the upper ones the others; k rounded up to blocks of QKV_K_INT4_BLOCK; scales are bf16,
 *         (groups, blocks, 16).
 * So a line is a vector of unsigned bytes whose rows are multiplied with the same numbers of x. */
#ifndef QKV_KERNEL_SMALL_H
#define QKV_KERNEL_SMALL_H

#include <string.h>

#include "kernel/kernel.h"

enum { QKV__SMALL_LINE = 64 }; /* bytes */

/* Numbers of a row in a line, what is added to an integer, and numbers of x that share a scale
 * (bf16: those of a line). */
typedef struct {
    size_t numbers;
    int offset;
    size_t block;
} qkv__small_kind;
extern const qkv__small_kind qkv__small_kinds[]; /* by qkv_k_small_type */

/* k rounded up to blocks: what a row of w has room for. */
static inline size_t qkv__small_padded(const qkv_k_small *w)
{
    size_t block = qkv__small_kinds[w->type].block;
    return (w->k + block - 1) / block * block;
}
static inline size_t qkv__small_groups(const qkv_k_small *w)
{
    return (w->n + QKV_K_PACKED - 1) / QKV_K_PACKED;
}
/* Bytes of a group's lines; of all words, and of all scales. */
size_t qkv__small_group_bytes(const qkv_k_small *w);
size_t qkv__small_word_bytes(const qkv_k_small *w);
size_t qkv__small_scale_bytes(const qkv_k_small *w);

/* Scales of a row: 0 in bf16, 1 in 8 bits, one a block in 4. */
size_t qkv__small_row_scales(const qkv_k_small *w);

uint16_t qkv__small_to_bf16(float x); /* to nearest, ties to even */

/* w[row, at], an integer; and in bf16 the number. */
int qkv__small_integer(const qkv_k_small *w, size_t row, size_t at);
float qkv__small_number(const qkv_k_small *w, size_t row, size_t at);
/* The scale of w[row, at]. */
float qkv__small_scale(const qkv_k_small *w, size_t row, size_t at);

/* Integers in -8 .. 7 that stand for n <= QKV_K_INT4_BLOCK numbers, and their scale, a bf16 number.
 * NaN: x has numbers that are not finite. */
float qkv__small_int4(int8_t *q, const qkv_real *x, size_t n);

/* Of 8 bits: an integer is x times the inverse of the scale, which is 0 where all of x is (or
 * nearly), and where x is not finite; then *scale is NaN. */
float qkv__small_inverse8(const qkv_real *x, size_t n, float *scale);
int qkv__small_int8(float x, float inverse);

/* Row j becomes what stands for x (k). */
void qkv__small_round(const qkv_k_small *w, size_t row, const qkv_real *x);
/* Row `row` of w becomes row `from` of x, which has w's type and k. */
void qkv__small_copy(const qkv_k_small *w, size_t row, const qkv_k_small *x, size_t from);
/* What a row stands for. */
void qkv__small_reals(const qkv_k_small *w, size_t row, qkv_real *x);
/* All of w becomes zero, its filling included. */
void qkv__small_clear(const qkv_k_small *w);
/* All rows of w become what stands for x (n, k). */
void qkv__small_round_all(const qkv_k_small *w, const qkv_real *x, int threads);

#endif
