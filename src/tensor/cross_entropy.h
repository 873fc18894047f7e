/* cross_entropy.h - what the two cross-entropy losses share: checks, smoothing, normalisation. */
#ifndef QKV_TENSOR_CROSS_ENTROPY_H
#define QKV_TENSOR_CROSS_ENTROPY_H

#include "tensor/tape.h"

/* Checks targets against N rows of V classes and fills args for all N rows; args->scale is what
 * the sum of row losses is multiplied by (1 when every target is ignored: the loss is then 0).
 * False when something does not fit; the tape then says what. */
bool qkv__cross_entropy_plan(qkv_tape *t, const char *op, qkv_k_xent_args *args,
                             const qkv_tensor *targets, size_t N, size_t V,
                             const qkv_cross_entropy_options *o);

/* The loss of so many rows, or pairs of them, from each row's, as the kernels give them; o->terms
 * too, if asked, from nll and, with rdrop, kl. */
double qkv__cross_entropy_sum(qkv_tape *t, const qkv_cross_entropy_options *o,
                              const qkv_k_xent_args *args, const qkv_real *loss,
                              const qkv_real *nll, const qkv_real *kl, size_t rows);

#endif
