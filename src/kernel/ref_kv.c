/* ref_kv.c - keys and values of a cache as they are, as bf16, or as 8-bit integers with a scale for
 * each head of a position. Loops that a compiler turns into vectors: memory sets their speed. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"
#include "kernel/ref_math.h"

static const float int8_most = 127;
static const float nothing = 1e-30f; /* its inverse is still a number */

static uint16_t kv_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? bits >> 16 | 0x40 : rounded); /* NaN stays one */
}

static void kv_put_bf16(uint16_t *y, const qkv_real *x, size_t D)
{
#pragma omp simd
    for (size_t i = 0; i < D; i++)
        y[i] = kv_to_bf16((float)x[i]);
}

/* Returns the scale. */
static qkv_real kv_put_int8(int8_t *y, const qkv_real *x, size_t D)
{
    float most = 0;
    int ill = 0;
    for (size_t i = 0; i < D; i++) {
        float a = fabsf((float)x[i]);
        most = a > most ? a : most;
        ill += !(a <= FLT_MAX);
    }
    bool finite = !ill;
    float by = finite && most > nothing ? int8_most / most : 0;
#pragma omp simd
    for (size_t i = 0; i < D; i++) {
        float a = finite ? (float)x[i] * by : 0;
        y[i] = (int8_t)(a + (a < 0 ? -0.5f : 0.5f));
    }
    return finite ? (qkv_real)(most / int8_most) : (qkv_real)NAN;
}

static void ref_kv_store(const qkv_exec *e, void *y, qkv_real *scale, const qkv_real *x,
                         size_t x_row, size_t x_head, const size_t *places, qkv_k_kv kind,
                         size_t rows, size_t heads, size_t D)
{
    size_t count = rows * heads;
#pragma omp parallel for num_threads(e->threads) if (count * D >= REF_GRAIN) default(none)        \
    shared(y, scale, x, x_row, x_head, places, kind, count, heads, D)
    for (size_t i = 0; i < count; i++) {
        const qkv_real *from = x + i / heads * x_row + i % heads * x_head;
        const size_t to = places[i / heads] * heads + i % heads;
        if (kind == QKV_K_KV_REAL)
            memcpy((qkv_real *)y + to * D, from, D * sizeof *from);
        else if (kind == QKV_K_KV_BF16)
            kv_put_bf16((uint16_t *)y + to * D, from, D);
        else
            scale[to] = kv_put_int8((int8_t *)y + to * D, from, D);
    }
}

static void kv_get_bf16(qkv_real *y, const uint16_t *x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] = (qkv_real)qkv__bf16_number(x[i]);
}

static void kv_get_int8(qkv_real *y, const int8_t *x, qkv_real scale, size_t D)
{
#pragma omp simd
    for (size_t i = 0; i < D; i++)
        y[i] = (qkv_real)x[i] * scale;
}

static void ref_kv_load(const qkv_exec *e, qkv_real *y, const void *x, const qkv_real *scale,
                        qkv_k_kv kind, size_t rows, size_t D)
{
#pragma omp parallel for num_threads(e->threads) if (rows * D >= REF_GRAIN) default(none)         \
    shared(y, x, scale, kind, rows, D) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        if (kind == QKV_K_KV_BF16)
            kv_get_bf16(y + i * D, (const uint16_t *)x + i * D, D);
        else
            kv_get_int8(y + i * D, (const int8_t *)x + i * D, scale[i], D);
    }
}

static void stored_load(const qkv_exec *e, qkv_real *y, const qkv_k_stored *x, size_t first,
                        size_t rows, size_t D)
{
    const size_t bytes = x->kind == QKV_K_KV_INT8 ? sizeof(int8_t) : sizeof(uint16_t);
    ref_kv_load(e, y, (const char *)x->data + first * D * bytes,
                x->scale ? x->scale + first : NULL, x->kind, rows, D);
}

static qkv_k_attention_fn *attention_of_reals; /* the plain one */

/* Sequence by sequence, its keys and values as reals. */
static void ref_attention_stored(const qkv_exec *e, qkv_real *out, qkv_real *lse,
                                 const qkv_real *q, const qkv_k_stored *k, const qkv_k_stored *v,
                                 const qkv_k_attention_args *a)
{
    static const size_t begin = 0;
    for (size_t b = 0; b < a->B; b++) {
        size_t first = a->k_begin[b] * a->Hkv, rows = a->k_len_full[b] * a->Hkv;
        qkv__mark mark = qkv__arena_mark(e->scratch);
        qkv_real *keys = qkv__arena_alloc(e->scratch, (rows * a->D + 1) * sizeof *keys);
        qkv_real *values = qkv__arena_alloc(e->scratch, (rows * a->Dv + 1) * sizeof *values);
        if (keys && values && !e->meta) {
            qkv_k_attention_args one = *a;
            one.B = 1;
            one.q_begin = a->q_begin + b;
            one.q_len = a->q_len + b;
            one.k_begin = &begin;
            one.k_len = a->k_len + b;
            one.k_len_full = a->k_len_full + b;
            one.k_row = a->Hkv * a->D;
            one.k_head = a->D;
            one.v_row = a->Hkv * a->Dv;
            one.v_head = a->Dv;
            one.bias = a->bias ? a->bias + b * a->bias_b : NULL;
            stored_load(e, keys, k, first, rows, a->D);
            stored_load(e, values, v, first, rows, a->Dv);
            attention_of_reals(e, out, lse, q, keys, values, &one);
        }
        qkv__arena_release(e->scratch, mark);
    }
}

void qkv__kernels_ref_kv(qkv_kernels *k)
{
    attention_of_reals = k->attention;
    k->attention_stored = ref_attention_stored;
    k->kv_store = ref_kv_store;
    k->kv_load = ref_kv_load;
}
