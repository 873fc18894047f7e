/* param_gradients.h - gradients of a scalar to all parameters of a set, against central
 * differences, in the double build.
 *
 * Of each parameter that is not frozen a sample of elements is moved; its error is measured by the
 * parameter's largest gradient, or 1e-3 of the largest of all where that is more (the gradient of
 * an attention key's bias is zero by mathematics). */
#ifndef QKV_TESTS_PARAM_GRADIENTS_H
#define QKV_TESTS_PARAM_GRADIENTS_H

#include <math.h>
#include <stdio.h>

#include "qkv/model.h"
#include "qkv/ops.h"
#include "qkv/random.h"

enum { GRADIENTS_PARAMS = 80, GRADIENTS_SAMPLE = 12 };

/* Resets the tape and records the scalar; the same one whenever parameters are the same. */
typedef qkv_tensor *scalar_fn(void *user);

typedef struct {
    char name[32];
    qkv_context *ctx;
    qkv_tape *t;
    qkv_model *m; /* whose parameters they are, or NULL */
    qkv_params *ps;
    scalar_fn *scalar;
    void *user; /* of the scalar */
} param_gradients;

static inline void fill_normal(double *x, size_t n, qkv_rng *r, double scale, double center)
{
    for (size_t i = 0; i < n; i++)
        x[i] = center + scale * qkv_rng_normal(r);
}

/* Numbers at random; those of vectors, which are biases and scales of norms, around 1. */
static inline void fill_params(qkv_params *ps, qkv_rng *r, double scale)
{
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        if (!qkv_param_frozen(p))
            fill_normal(qkv_param_data(p), qkv_param_count(p), r, scale, qkv_param_ndim(p) == 1);
    }
}

/* A context and a tape; a model of that type and configuration, or, if type is NULL, an empty set
 * of parameters. */
static inline void open_gradients(param_gradients *c, const char *name, const qkv_model_type *type,
                                  const void *config)
{
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    assert_int_equal(qkv_context_create(&c->ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&c->t, c->ctx), QKV_OK);
    if (type ? qkv_model_create(&c->m, c->ctx, type, config) : qkv_params_create(&c->ps, c->ctx))
        fail_msg("%s: %s", name, qkv_context_message(c->ctx));
    if (type)
        c->ps = qkv_model_params(c->m);
}

static inline qkv_tensor *gradients_record(const param_gradients *c)
{
    qkv_tensor *y = c->scalar(c->user);
    if (qkv_tape_status(c->t))
        fail_msg("%s: %s", c->name, qkv_context_message(c->ctx));
    return y;
}

static inline double gradients_difference(const param_gradients *c, double *value)
{
    const double middle = *value;
    volatile double high = middle + 1e-5, low = middle - 1e-5;
    *value = high;
    double up = qkv_item(c->t, gradients_record(c));
    *value = low;
    double down = qkv_item(c->t, gradients_record(c));
    *value = middle;
    return (up - down) / (high - low);
}

/* The largest error of the sample; *largest: the largest gradient. `first` shifts the sample. */
static inline double gradients_error(const param_gradients *c, qkv_param *p, size_t first,
                                     double *largest)
{
    const double *g = qkv_param_grad(p);
    size_t count = qkv_param_count(p);
    size_t stride = count > GRADIENTS_SAMPLE ? count / GRADIENTS_SAMPLE : 1;
    double worst = 0;
    *largest = 0;
    for (size_t j = 0; g && j < count; j++)
        *largest = fmax(*largest, fabs(g[j]));
    for (size_t j = first % stride; j < count; j += stride) {
        double error = fabs((g ? g[j] : 0) - gradients_difference(c, &qkv_param_data(p)[j]));
        if (!(error <= worst))
            worst = error;
    }
    return worst;
}

/* Of all parameters; what open_gradients made is gone afterwards. */
static inline void check_gradients(param_gradients *c)
{
    size_t n = qkv_params_count(c->ps);
    double worst[GRADIENTS_PARAMS], largest[GRADIENTS_PARAMS], most = 0;
    assert_true(n <= GRADIENTS_PARAMS);
    assert_int_equal(qkv_backward(c->t, gradients_record(c)), QKV_OK);
    for (size_t i = 0; i < n; i++) {
        qkv_param *p = qkv_params_at(c->ps, i);
        worst[i] = largest[i] = 0;
        if (!qkv_param_frozen(p))
            worst[i] = gradients_error(c, p, i, &largest[i]);
        most = fmax(most, largest[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (!(worst[i] <= 1e-7 * fmax(largest[i], 1e-3 * most)))
            fail_msg("%s: gradient of %s is off by %.3g of %.3g", c->name,
                     qkv_param_name(qkv_params_at(c->ps, i)), worst[i], largest[i]);
    assert_true(most > 0);
    if (c->m)
        qkv_model_destroy(c->m);
    else
        qkv_params_destroy(c->ps);
    qkv_tape_destroy(c->t);
    qkv_context_destroy(c->ctx);
}

#endif
