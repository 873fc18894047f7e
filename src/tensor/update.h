/* update.h - what optimisers and averages do to a parameter's numbers. They know rules and
 * groups; where the numbers live and which kernel moves them is known here alone. */
#ifndef QKV_TENSOR_UPDATE_H
#define QKV_TENSOR_UPDATE_H

#include "qkv/tensor.h"

typedef enum {
    QKV__UPDATE_SGD,
    QKV__UPDATE_RMSPROP,
    QKV__UPDATE_ADAM,
    QKV__UPDATE_ADAMW,
    QKV__UPDATE_MUON /* not for qkv__param_update */
} qkv__update_rule;

enum { QKV__UPDATE_STATES = 3 };

/* Fields that a rule does not use are ignored. */
typedef struct {
    qkv__update_rule rule;
    double lr, weight_decay;
    const qkv_real *grad; /* of the elements to update; NULL: the parameter's own */
    double grad_scale; /* multiplies the gradient first */
    double momentum, dampening;
    bool nesterov;
    double alpha, eps, beta1, beta2;
    uint64_t step; /* of this parameter, this one included: from 1 */
} qkv__update;

/* One update of p's elements from .. from + n - 1 from their gradient, which must be there. state:
 * arrays of n, NULL where the rule has none: sgd {momentum}, rmsprop {mean of squares, momentum,
 * mean of gradients}, adam and adamw {mean of gradients, mean of squares}. */
void qkv__param_update(qkv_param *p, const qkv__update *u,
                       qkv_real *const state[QKV__UPDATE_STATES], size_t from, size_t n);

/* ---- Muon, in the parts that a parameter of several matrices takes ---- */

/* buffer += (1 - momentum) (grad_scale g - buffer). out: the buffer, or what Nesterov's momentum
 * makes of it, grad_scale g + momentum (buffer - grad_scale g). Both are of p's size; g and
 * grad_scale are u's. */
void qkv__param_momentum(qkv_param *p, const qkv__update *u, qkv_real *buffer, qkv_real *out,
                         double momentum, bool nesterov);

/* Numbers of work that qkv__orthogonalize takes, and floating-point operations of its products. */
size_t qkv__orthogonalize_work(size_t rows, size_t columns);
double qkv__orthogonalize_flops(size_t rows, size_t columns, int steps);

/* The steps of Newton-Schulz's iteration from x / max(|x|, eps): the matrix with x's singular
 * vectors and singular values near 1. It lies in x or in work, whose other contents are lost. p:
 * whose context's products to use, those of training. NULL: out of memory. */
qkv_real *qkv__orthogonalize(const qkv_param *p, qkv_real *x, size_t rows, size_t columns,
                             int steps, double eps, qkv_real *work);

/* p = keep p + rate x for n elements of p from element `from` on. */
void qkv__param_add(qkv_param *p, size_t from, const qkv_real *x, double keep, double rate,
                    size_t n);

/* ---- norms and averages ---- */

/* Sum of squares of the gradient, in an order that depends on its size and the team's alone;
 * 0 without one. */
double qkv__param_grad_squares(qkv_param *p);

/* Did the kernels that worked on this parameter since the last call lack scratch memory? Then
 * their numbers mean nothing. */
bool qkv__param_lacked_scratch(const qkv_param *p);

/* Sum of squares of the values, likewise. */
double qkv__param_squares(const qkv_param *p);

/* average += weight (x - average) for the n elements x of p from `from` on; weight 1 copies. */
void qkv__param_mix(qkv_real *average, const qkv_param *p, double weight, size_t from, size_t n);

/* Exchanges the n elements of p from `from` on with other. */
void qkv__param_swap(qkv_real *other, qkv_param *p, size_t from, size_t n);

#endif
