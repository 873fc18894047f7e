/* simd_attention_tile.c - packing blocks of queries, and tiles of scores with what is added to
 * and drawn for them. */
#include "kernel/simd_attention_parts.h"

block block_of(const attention_args *a, size_t b, size_t h, size_t i0)
{
    block x = { .a = a, .b = b, .h = h, .kv = h / (a->H / a->Hkv), .i0 = i0 };
    x.rows = at_most(a->q_len[b] - i0, TQ);
    x.diagonal = a->causal;
    x.shift = (ptrdiff_t)(i0 + a->k_len_full[b]) - (ptrdiff_t)a->q_len[b];
    x.keys = keys_seen(&x, x.rows - 1, 0, a->k_len[b]);
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

void tile_product(float *tile, const block *x, const float *k, size_t k_row, const float *q,
                  size_t n, size_t j0, size_t nk)
{
    size_t end = padded(x->rows);
    for (size_t j = 0; j < nk; j += MR) {
        size_t begin = first_query(x, j0 + j) / VF * VF;
        if (begin < end) {
            product_rows(tile + j * TQ + begin, TQ, k + j * k_row, k_row, q + begin, TQ,
                         at_most(nk - j, MR), (end - begin) / VF, n, NULL);
        }
    }
}

void tile_bias(float *tile, const block *x, size_t j0, size_t nk)
{
    const attention_args *a = x->a;
    const float *bias = a->bias + x->b * a->bias_b + x->h * a->bias_h + j0;
    for (size_t i = 0; i < x->rows; i++) {
        const float *row = bias + (x->i0 + i) * a->bias_t;
        size_t seen = keys_seen(x, i, j0, nk);
        for (size_t j = 0; j < seen; j++) {
            tile[j * TQ + i] += row[j];
        }
    }
}

void tile_dropout(float *keep, const block *x, size_t j0, size_t nk)
{
    const attention_args *a = x->a;
    const qkv_k_dropout_args *d = &a->dropout;
    vi threshold = vi_set1(qkv__dropout_threshold(d->p));
    vf kept = vf_set1((float)(1 / (1 - d->p)));
    for (size_t i = 0; i < x->rows; i += VF) {
        uint32_t low[VF], high[VF];
        for (size_t c = 0; c < VF; c++) { /* counter of key 0: element index / 4 */
            uint64_t row = d->first + a->q_begin[x->b] + x->i0 + i + c;
            uint64_t counter = (row * a->H + x->h) << 18;
            low[c] = (uint32_t)counter;
            high[c] = (uint32_t)(counter >> 32);
        }
        for (size_t j = 0; j < nk; j += 4) {
            vi words[4] = { vi_add(vi_load(low), vi_set1((uint32_t)((j0 + j) / 4))),
                            vi_load(high), vi_set1((uint32_t)d->step), vi_set1(d->dropout_id) };
            vi_philox(words, (uint32_t)d->seed, (uint32_t)(d->seed >> 32));
            for (size_t c = 0; c < 4; c++) {
                vf_store(keep + (j + c) * TQ + i,
                         vf_select(vi_ge(words[c], threshold), kept, vf_zero()));
            }
        }
    }
}
