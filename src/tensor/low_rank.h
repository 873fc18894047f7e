/* low_rank.h - low-rank terms of matrices, as ops add them (LoRA, Hu et al. 2021, section 4.1).
 * A parameter lists its terms (make.h); the ops that multiply with it add what they make of x. */
#ifndef QKV_TENSOR_LOW_RANK_H
#define QKV_TENSOR_LOW_RANK_H

#include "tensor/tape.h"

/* What the forward pass of a product leaves for its backward pass. */
typedef struct {
    size_t count;
    struct qkv__term *list; /* (count), in step memory */
} qkv__terms;

/* Tensors A, B of each term that counts of the parameter that w is, put into in; returns their
 * number, 2 a term. */
enum { QKV__TERM_INPUTS = 2 * QKV__TERMS };
size_t qkv__terms_use(qkv_tape *t, const qkv_tensor *w, qkv_tensor **in);

/* A product y (M, N) = x (M, K) w^T, whose leading axis is `leading`. */
typedef struct {
    size_t M, K, N, leading;
} qkv__product_sizes;

/* Adds to y what the terms make of x. in: of qkv__terms_use. recording: a backward pass may
 * follow, for which out is filled. */
void qkv__terms_add(qkv_tape *t, qkv__terms *out, const qkv_tensor *w, qkv_tensor *const *in,
                    qkv_real *y, const qkv_real *x, const qkv__product_sizes *s, bool recording);

/* Adds to the gradients of A and B, where they are wanted, and to dx (M, K) unless it is NULL. */
void qkv__terms_backward(qkv_tape *t, const qkv__terms *terms, qkv_tensor *const *in, qkv_real *dx,
                         const qkv_real *x, const qkv_real *dy, const qkv__product_sizes *s);

#endif
