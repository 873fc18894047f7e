/* gradcheck.h - backward passes against central differences, in the double build.
 *
 * A check gives a function of input tensors. gradcheck runs it on random inputs, starts the
 * backward pass from a random cotangent (a plain sum is blind: softmax outputs always sum to
 * one), and compares every input's gradient with differences of the outputs. It does so with
 *   - dense inputs, all gradients wanted;
 *   - each input's gradient wanted alone, which nobody else's may disturb;
 *   - the function called twice on the same inputs, where later gradients must add to earlier;
 *   - inputs that are strided views into larger tensors.
 * Inputs must keep away from kinks: choose their range, or map them. */
#ifndef QKV_TESTS_GRADCHECK_H
#define QKV_TESTS_GRADCHECK_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "qkv/ops.h"

enum { GRADCHECK_INPUTS = 8, GRADCHECK_OUTPUTS = 4, GRADCHECK_ELEMENTS = 4096 };

/* Puts outputs into out and returns how many there are. */
typedef int gradcheck_fn(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user);

typedef struct {
    int ndim;
    size_t shape[QKV_MAX_DIMS];
    double low, high;      /* uniform in [low, high); both 0: [-1, 1) */
    double (*map)(double); /* applied to what was drawn, or NULL */
} gradcheck_input;

typedef struct {
    const char *name;
    gradcheck_fn *fn;
    const void *user;
    int inputs;
    gradcheck_input input[GRADCHECK_INPUTS];
    bool train;       /* dropout drops */
    double tolerance; /* 0: 1e-7 */
    uint64_t seed;
} gradcheck_case;

typedef struct {
    const gradcheck_case *c;
    qkv_context *ctx;
    qkv_tape *t;
    double *value[GRADCHECK_INPUTS], *numeric[GRADCHECK_INPUTS];
    double *cotangent[GRADCHECK_OUTPUTS];
    size_t count[GRADCHECK_INPUTS], out_count[GRADCHECK_OUTPUTS];
    int outputs;
} gradcheck_state;

static size_t gradcheck_elements(int ndim, const size_t *shape)
{
    size_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    return n;
}

/* Input i on the tape; strided: as a view into a larger tensor whose other elements are NaN, with
 * its first two axes stored the other way round when there are three or more. */
static qkv_tensor *gradcheck_make(gradcheck_state *s, int i, bool strided)
{
    const gradcheck_input *in = &s->c->input[i];
    qkv_tape *t = s->t;
    if (!strided || in->ndim == 0)
        return qkv_require_grad(t, qkv_tensor_from(t, s->value[i], in->ndim, in->shape));
    size_t shape[QKV_MAX_DIMS], C = in->shape[in->ndim - 1], rows = s->count[i] / C;
    memcpy(shape, in->shape, sizeof shape);
    bool swap = in->ndim >= 3;
    if (swap) {
        shape[0] = in->shape[1];
        shape[1] = in->shape[0];
    }
    shape[in->ndim - 1] = C + 3;
    qkv_tensor *root = qkv_tensor_from(t, NULL, in->ndim, shape);
    assert_non_null(root);
    double *data = qkv_tensor_fill(root);
    for (size_t j = 0; j < qkv_count(root); j++)
        data[j] = NAN;
    size_t inner = swap ? rows / (in->shape[0] * in->shape[1]) : 1;
    for (size_t r = 0; r < rows; r++) {
        size_t to = r;
        if (swap) {
            size_t a = r / inner / in->shape[1], b = r / inner % in->shape[1];
            to = (b * in->shape[0] + a) * inner + r % inner;
        }
        memcpy(data + to * (C + 3) + 2, s->value[i] + r * C, C * sizeof *data);
    }
    qkv_require_grad(t, root);
    qkv_tensor *x = qkv_slice(t, root, -1, 2, 2 + C);
    static const int swapped[QKV_MAX_DIMS] = {1, 0, 2, 3, 4, 5, 6, 7};
    return swap ? qkv_permute(t, x, swapped) : x;
}

/* Runs the function; returns the number of outputs, checked to be there. */
static int gradcheck_forward(gradcheck_state *s, bool strided, qkv_tensor **in, qkv_tensor **out)
{
    qkv_tape_reset(s->t);
    qkv_tape_mode(s->t, true, s->c->train);
    qkv_tape_randomness(s->t, &(qkv_randomness){.seed = 5, .step = 3});
    for (int i = 0; i < s->c->inputs; i++)
        in[i] = gradcheck_make(s, i, strided);
    int n = s->c->fn(s->t, in, out, s->c->user);
    if (qkv_tape_status(s->t))
        fail_msg("%s: %s", s->c->name, qkv_context_message(s->ctx));
    return n;
}

/* Sum over outputs of cotangent times (output at x+h - output at x-h). */
static double gradcheck_difference(gradcheck_state *s, double *x, double h)
{
    static double plus[GRADCHECK_OUTPUTS][GRADCHECK_ELEMENTS];
    qkv_tensor *in[GRADCHECK_INPUTS], *out[GRADCHECK_OUTPUTS];
    double at = *x, sum = 0;
    *x = at + h;
    gradcheck_forward(s, false, in, out);
    for (int o = 0; o < s->outputs; o++)
        memcpy(plus[o], qkv_data(s->t, out[o]), s->out_count[o] * sizeof(double));
    *x = at - h;
    gradcheck_forward(s, false, in, out);
    for (int o = 0; o < s->outputs; o++) {
        const double *minus = qkv_data(s->t, out[o]);
        for (size_t j = 0; j < s->out_count[o]; j++)
            sum += s->cotangent[o][j] * (plus[o][j] - minus[j]);
    }
    volatile double high = at + h, low = at - h; /* the step as it was, not as it was meant */
    *x = at;
    return sum / (high - low);
}

/* times: what the expected gradient is multiplied by. A gradient nobody wrote is zero. */
static void gradcheck_compare(gradcheck_state *s, const char *how, int i, qkv_tensor *x,
                              double times)
{
    const qkv_tensor *g = qkv_grad_of(s->t, x);
    const double *got = g ? qkv_data(s->t, g) : NULL;
    double worst = 0, largest = 0;
    for (size_t j = 0; j < s->count[i]; j++) {
        double a = got ? got[j] : 0, b = times * s->numeric[i][j];
        double error = fabs(a - b), size = fmax(fabs(a), fabs(b));
        worst = error > worst || isnan(error) ? error : worst;
        largest = size > largest ? size : largest;
        if (isnan(worst))
            break;
    }
    double tolerance = s->c->tolerance > 0 ? s->c->tolerance : 1e-7;
    /* Where the true gradient is zero both sides are rounding; that is evaluated against one. */
    double relative = worst / (largest > 1e-3 ? largest : 1);
    if (!(relative <= tolerance))
        fail_msg("%s (%s): gradient of input %d is off by %.3g, relative %.3g", s->c->name, how, i,
                 worst, relative);
}

/* runs: how often the function is called; wrt: the only input whose gradient is wanted, or -1. */
static void gradcheck_backward(gradcheck_state *s, const char *how, bool strided, int runs, int wrt)
{
    qkv_tensor *in[GRADCHECK_INPUTS], *out[2 * GRADCHECK_OUTPUTS];
    const qkv_tensor *cotangents[2 * GRADCHECK_OUTPUTS];
    int n = gradcheck_forward(s, strided, in, out);
    if (runs == 2)
        s->c->fn(s->t, in, out + n, s->c->user);
    for (int o = 0; o < runs * n; o++) {
        size_t shape[QKV_MAX_DIMS];
        for (int a = 0; a < qkv_ndim(out[o]); a++)
            shape[a] = qkv_dim(out[o], a);
        cotangents[o] = qkv_tensor_wrap(s->t, s->cotangent[o % n], qkv_ndim(out[o]), shape);
    }
    qkv_backward_args args = {.n = runs * n, .outputs = out, .gradients = cotangents};
    if (wrt >= 0) {
        args.n_wrt = 1;
        args.wrt = &in[wrt];
    }
    if (qkv_backward_from(s->t, &args))
        fail_msg("%s: %s", s->c->name, qkv_context_message(s->ctx));
    for (int i = 0; i < s->c->inputs; i++)
        if (wrt < 0 || i == wrt)
            gradcheck_compare(s, how, i, in[i], runs);
}

static void gradcheck_prepare(gradcheck_state *s, qkv_rng *rng)
{
    for (int i = 0; i < s->c->inputs; i++) {
        const gradcheck_input *in = &s->c->input[i];
        double low = in->low, high = in->high;
        if (low == 0 && high == 0) {
            low = -1;
            high = 1;
        }
        s->count[i] = gradcheck_elements(in->ndim, in->shape);
        assert_true(s->count[i] <= GRADCHECK_ELEMENTS);
        s->value[i] = calloc(s->count[i], sizeof(double));
        s->numeric[i] = calloc(s->count[i], sizeof(double));
        for (size_t j = 0; j < s->count[i]; j++) {
            double v = low + (high - low) * qkv_rng_uniform(rng);
            s->value[i][j] = in->map ? in->map(v) : v;
        }
    }
    qkv_tensor *in[GRADCHECK_INPUTS], *out[GRADCHECK_OUTPUTS];
    s->outputs = gradcheck_forward(s, false, in, out);
    for (int o = 0; o < s->outputs; o++) {
        s->out_count[o] = qkv_count(out[o]);
        assert_true(s->out_count[o] <= GRADCHECK_ELEMENTS);
        s->cotangent[o] = calloc(s->out_count[o], sizeof(double));
        for (size_t j = 0; j < s->out_count[o]; j++)
            s->cotangent[o][j] = qkv_rng_normal(rng);
    }
}

static void gradcheck(const gradcheck_case *c)
{
    gradcheck_state s = {.c = c};
    qkv_context_options options = qkv_context_defaults();
    options.threads = 2;
    assert_int_equal(qkv_context_create(&s.ctx, &options), QKV_OK);
    assert_int_equal(qkv_tape_create(&s.t, s.ctx), QKV_OK);
    qkv_rng rng;
    qkv_rng_init(&rng, 20 + c->seed, qkv_hash64(c->name, strlen(c->name)));
    gradcheck_prepare(&s, &rng);
    for (int i = 0; i < c->inputs; i++)
        for (size_t j = 0; j < s.count[i]; j++)
            s.numeric[i][j] = gradcheck_difference(&s, &s.value[i][j], 1e-5);
    gradcheck_backward(&s, "dense", false, 1, -1);
    for (int i = 0; i < c->inputs; i++)
        gradcheck_backward(&s, "alone", false, 1, i);
    gradcheck_backward(&s, "twice", false, 2, -1);
    gradcheck_backward(&s, "strided", true, 1, -1);
    gradcheck_backward(&s, "strided, twice", true, 2, -1);
    for (int i = 0; i < c->inputs; i++) {
        free(s.value[i]);
        free(s.numeric[i]);
    }
    for (int o = 0; o < s.outputs; o++)
        free(s.cotangent[o]);
    qkv_tape_destroy(s.t);
    qkv_context_destroy(s.ctx);
}

static inline void gradcheck_all(const gradcheck_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gradcheck(&cases[i]);
}

#endif
