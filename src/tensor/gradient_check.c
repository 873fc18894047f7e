/* gradient_check.c - a backward pass against differences of the forward one. */
#include <math.h>
#include <string.h>

#include "qkv/extend.h"
#include "tensor/tape.h"

/* Steps and tolerances that the type of the numbers allows. */
#ifdef QKV_F64
static const double STEP = 1e-3, TOLERANCE = 1e-6;
#else
static const double STEP = 1e-2, TOLERANCE = 1e-2;
#endif
enum { SAMPLES = 16 };

typedef struct {
    qkv_context *ctx;
    qkv_params *ps;
    qkv_tape *tape;
    qkv_function *fn;
    void *user;
    qkv_gradient_options o;
    double *cotangent; /* (count), made at the first call */
    size_t count;
} checking;

/* fn's output; NULL, and the context says why, on failure. */
static qkv_tensor *run_function(checking *k, bool record)
{
    const qkv_randomness r = {.seed = k->o.seed};
    qkv_tape_reset(k->tape);
    qkv_tape_mode(k->tape, record, k->o.train);
    qkv_tape_randomness(k->tape, &r);
    qkv_tensor *y = k->fn(k->user, k->tape);
    if (qkv_tape_status(k->tape))
        return NULL;
    if (!y || (k->cotangent && qkv_count(y) != k->count))
        return qkv_tape_fail(k->tape, "gradient check", y ? "an output of another size than before"
                                                          : "no output");
    return y;
}

/* <cotangent, fn>, summed in double; NaN on failure. */
static double value(checking *k)
{
    qkv_tensor *y = run_function(k, false);
    const qkv_real *at = y ? qkv_data(k->tape, y) : NULL;
    double sum = 0;
    for (size_t i = 0; at && i < k->count; i++)
        sum += k->cotangent[i] * (double)at[i];
    return at ? sum : NAN;
}

/* Gradients of all parameters, from a cotangent that no symmetry of the function hides from. */
static qkv_status go_back(checking *k)
{
    qkv_tensor *y = run_function(k, true);
    if (!y)
        return qkv_tape_status(k->tape);
    size_t shape[QKV_MAX_DIMS];
    for (int i = 0; i < qkv_ndim(y); i++)
        shape[i] = qkv_dim(y, i);
    k->count = qkv_count(y);
    k->cotangent = qkv_calloc(k->ctx, k->count, sizeof *k->cotangent);
    qkv_tensor *c = k->cotangent ? qkv_tensor_from(k->tape, NULL, qkv_ndim(y), shape) : NULL;
    if (!c)
        return QKV_E_MEMORY;
    qkv_rng r;
    qkv_rng_init(&r, k->o.seed, qkv_hash64("cotangent", 9));
    for (size_t i = 0; i < k->count; i++)
        k->cotangent[i] = (double)(qkv_tensor_fill(c)[i] = (qkv_real)qkv_rng_normal(&r));
    const qkv_tensor *const gradients[] = {c};
    const qkv_backward_args args = {.n = 1, .outputs = &y, .gradients = gradients};
    qkv_params_zero_grad(k->ps);
    return qkv_backward_from(k->tape, &args);
}

/* d<c, fn>/d(element i of p), from four values. */
static double gradient_check_difference(checking *k, qkv_param *p, size_t i)
{
    qkv_real *x = qkv_param_data(p) + i, at = *x;
    const double h = k->o.step * (1 + fabs((double)at)), times[] = {1, -1, 2, -2};
    double f[4], moved[4];
    for (int s = 0; s < 4; s++) {
        *x = (qkv_real)((double)at + times[s] * h);
        moved[s] = (double)*x - (double)at; /* as it was, not as it was meant */
        qkv_param_touch(p);
        f[s] = value(k);
    }
    *x = at;
    qkv_param_touch(p);
    return (4 * (f[0] - f[1]) / (moved[0] - moved[1]) - (f[2] - f[3]) / (moved[2] - moved[3])) / 3;
}

static qkv_status check_param(checking *k, qkv_param *p, qkv_rng *r, qkv_gradient_result *out)
{
    const qkv_real *g = qkv_param_grad(p);
    size_t count = qkv_param_count(p), n = k->o.samples < count ? k->o.samples : count;
    double largest = 0;
    for (size_t i = 0; g && i < count; i++)
        largest = fmax(largest, fabs((double)g[i]));
    for (size_t s = 0; s < n; s++) {
        size_t i = n == count ? s : qkv_rng_below(r, (uint32_t)count);
        double numeric = gradient_check_difference(k, p, i), mine = g ? (double)g[i] : 0;
        if (qkv_tape_status(k->tape))
            return qkv_tape_status(k->tape);
        /* Where all gradients are near nothing, both sides are rounding: evaluated against 1e-3. */
        double error = fabs(numeric - mine) / fmax(fmax(largest, fabs(numeric)), 1e-3);
        out->checked++;
        if (!(error <= out->worst)) {
            out->worst = error;
            out->param = qkv_param_name(p);
        }
        if (!(error <= k->o.tolerance))
            return qkv_fail(k->ctx, QKV_E_NUMERIC, "gradient of %s[%zu]: backward says %g, "
                            "differences %g", qkv_param_name(p), i, mine, numeric);
    }
    return QKV_OK;
}

qkv_status qkv_gradient_check(qkv_params *ps, qkv_function *fn, void *user,
                              const qkv_gradient_options *options, qkv_gradient_result *result)
{
    checking k = {.ctx = qkv__params_context(ps), .ps = ps, .fn = fn, .user = user};
    qkv_gradient_result out = {0};
    if (options)
        k.o = *options;
    k.o.tolerance = k.o.tolerance > 0 ? k.o.tolerance : TOLERANCE;
    k.o.step = k.o.step > 0 ? k.o.step : STEP;
    k.o.samples = k.o.samples ? k.o.samples : SAMPLES;
    qkv_rng r;
    qkv_rng_init(&r, k.o.seed, qkv_hash64("places", 6));
    qkv_status status = qkv_tape_create(&k.tape, k.ctx);
    if (!status)
        status = go_back(&k);
    for (size_t i = 0; i < qkv_params_count(ps) && !status; i++)
        if (!qkv_param_frozen(qkv_params_at(ps, i)))
            status = check_param(&k, qkv_params_at(ps, i), &r, &out);
    qkv_params_zero_grad(ps);
    qkv_free(k.ctx, k.cotangent);
    qkv_tape_destroy(k.tape);
    if (result)
        *result = out;
    return status;
}
