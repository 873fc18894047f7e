/* simd_attention_tile.c - blocks of queries, their packing, their scores with a tile of keys. */
#include "kernel/simd_attention_parts.h"

block block_of(const attention_args *a, size_t b, size_t h, size_t i0)
{
    block x = { .a = a, .b = b, .h = h, .kv = h / (a->H / a->Hkv), .i0 = i0 };
    x.rows = at_most(a->q_len[b] - i0, TQ);
    x.diagonal = a->causal;
    x.shift = (ptrdiff_t)(i0 + a->k_len_full[b]) - (ptrdiff_t)a->q_len[b];
    x.keys = keys_seen(&x, x.rows - 1, 0, a->k_len[b]);
    x.first = at_most(keys_passed(&x, 0, 0, a->k_len[b]) / TK * TK, x.keys);
    return x;
}

/* rows, cols <= VF */
static void transpose_corner(float *y, const float *x, size_t ldx, size_t rows, size_t cols,
                             vf scale)
{
    vf r[VF];
    for (size_t i = 0; i < VF; i++) {
        vf z = i >= rows    ? vf_zero()
               : cols == VF ? vf_load(x + i * ldx)
                            : vf_load_n(x + i * ldx, cols);
        r[i] = z * scale;
    }
    vf_transpose(r);
    for (size_t c = 0; c < cols; c++) {
        vf_store(y + c * TQ, r[c]);
    }
}

void pack_transposed(float *y, const float *x, size_t ldx, size_t rows, size_t cols, float scale)
{
    for (size_t i = 0; i < rows; i += VF) {
        for (size_t r = i + VF; r < at_most(rows, i + 2 * VF); r++) {
            fetch_row(x + r * ldx, cols, false);
        }
        for (size_t c = 0; c < cols; c += VF) {
            transpose_corner(y + c * TQ + i, x + i * ldx + c, ldx, at_most(rows - i, VF),
                             at_most(cols - c, VF), vf_set1(scale));
        }
    }
}

void pack_rows(float *y, const float *x, size_t ldx, size_t rows, size_t cols, float scale)
{
    vf s = vf_set1(scale);
    size_t whole = cols / VF * VF;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < whole; c += VF) {
            vf_store(y + c, vf_load(x + r * ldx + c) * s);
        }
        if (whole < cols) {
            vf_store(y + whole, vf_load_n(x + r * ldx + whole, cols - whole) * s);
        }
        y += padded(cols);
    }
}

void unpack_rows(float *y, size_t ldy, const float *x, size_t width, size_t rows, size_t n,
                 float scale, bool acc)
{
    vf s = vf_set1(scale);
    size_t whole = n / VF * VF;
    for (size_t r = 0; r < rows; r++, y += ldy, x += width) {
        if (r + SOON < rows) {
            fetch_row(y + SOON * ldy, n, true);
        }
        for (size_t c = 0; c < whole; c += VF) {
            vf before = acc ? vf_load(y + c) : vf_zero();
            vf_store(y + c, vf_fma(vf_load(x + c), s, before));
        }
        if (whole < n) {
            vf before = acc ? vf_load_n(y + whole, n - whole) : vf_zero();
            vf_store_n(y + whole, vf_fma(vf_load(x + whole), s, before), n - whole);
        }
    }
}

void tile_product(float *tile, const block *x, const float *k, size_t k_row, const float *q,
                  size_t n, size_t j0, size_t nk, next_keys *next)
{
    size_t end = padded(x->rows);
    for (size_t j = 0; j < nk; j += MR) {
        if (next) {
            next_fetch(next, x->a);
        }
        size_t begin = first_query(x, j0 + j) / VF * VF;
        if (begin < end) {
            product_rows(tile + j * TQ + begin, TQ, k + j * k_row, k_row, q + begin, TQ,
                         at_most(nk - j, MR), (end - begin) / VF, n, NULL);
        }
    }
}
