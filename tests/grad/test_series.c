/* test_series.c - gradients of a filler's and a classifier's outputs to all parameters, against
 * differences, with gaps in the series and series of unequal lengths. Errors are measured as in
 * test_block.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/base.h"
#include "qkv/series.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { B = 3, ROWS = 12, COLUMNS = 2, MOST = B * ROWS * COLUMNS, SAMPLE = 8 };
static const double tolerance = 1e-7, step = 1e-5;

#define BASE .columns = COLUMNS, .rows = 8, .width = 8, .heads = 2, .ff_width = 12,            \
             .act = QKV_ACT_GELU, .mask = 0.5, .mask_span = 2, .classes = 3
static const struct {
    qkv_series_config config;
    bool classifier, unequal;
} cases[] = {
    {{BASE, .patch = 2, .layers = 2}, false, false},
    {{BASE, .patch = 4, .layers = 1, .position_kind = QKV_POSITIONS_SINUSOID, .dropout = 0.2,
      .head_dropout = 0.3}, false, true},
    {{BASE, .patch = 1, .layers = 1, .attention_dropout = 0.1}, true, true},
    {{BASE, .patch = 2, .layers = 1, .head_dropout = 0.2}, true, false},
};

typedef struct {
    size_t number; /* of the case */
    qkv_context *ctx;
    qkv_tape *t;
    qkv_model *m;
    double rows[ROWS * COLUMNS], target[MOST];
} fixture;

/* The outputs' inner product with numbers at random. */
static qkv_tensor *forward(fixture *f)
{
    static const size_t lengths[B] = {8, 3, 5};
    const double *windows[B] = {f->rows, f->rows + COLUMNS, f->rows + 4 * COLUMNS};
    const qkv_series_batch in = {.data = windows, .count = B,
                                 .lengths = cases[f->number].unequal ? lengths : NULL};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, true);
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 3, .step = 7, .samples = B});
    qkv_tensor *y = cases[f->number].classifier ? qkv_series_class_logits(f->m, f->t, &in)
                                                : qkv_series_fill(f->m, f->t, &in);
    if (!y)
        return NULL;
    const size_t shape[] = {qkv_dim(y, 0), qkv_dim(y, 1)};
    return qkv_sum(f->t, qkv_mul(f->t, y, qkv_tensor_from(f->t, f->target, 2, shape)));
}

static double loss(fixture *f)
{
    qkv_tensor *y = forward(f);
    if (qkv_tape_status(f->t))
        fail_msg("case %zu: %s", f->number, qkv_context_message(f->ctx));
    return qkv_item(f->t, y);
}

static double difference(fixture *f, double *value)
{
    const double middle = *value;
    volatile double high = middle + step, low = middle - step;
    *value = high;
    double up = loss(f);
    *value = low;
    double down = loss(f);
    *value = middle;
    return (up - down) / (high - low);
}

static void fill(double *x, size_t n, qkv_rng *r, double scale, double center)
{
    for (size_t i = 0; i < n; i++)
        x[i] = center + scale * qkv_rng_normal(r);
}

static void make(fixture *f, size_t number)
{
    qkv_rng r;
    *f = (fixture){.number = number};
    qkv_rng_init(&r, 5, number);
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    const qkv_model_type *type = cases[number].classifier ? qkv_series_classifier_type()
                                                          : qkv_series_filler_type();
    if (qkv_model_create(&f->m, f->ctx, type, &cases[number].config))
        fail_msg("case %zu: %s", number, qkv_context_message(f->ctx));
    qkv_params *ps = qkv_model_params(f->m);
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        if (!qkv_param_frozen(p))
            fill(qkv_param_data(p), qkv_param_count(p), &r, 0.4, qkv_param_ndim(p) == 1);
    }
    fill(f->rows, COUNT(f->rows), &r, 3, 10);
    f->rows[7] = f->rows[9] = f->rows[10] = NAN;
    fill(f->target, COUNT(f->target), &r, 2, 0);
    qkv_series s = {f->rows, ROWS, COLUMNS};
    assert_int_equal(qkv_series_fit_scale(f->m, &s), QKV_OK);
}

/* The largest error of a parameter's gradient; *largest: the largest gradient. */
static double check_param(fixture *f, qkv_param *p, double *largest)
{
    const double *g = qkv_param_grad(p);
    size_t count = qkv_param_count(p), stride = count > SAMPLE ? count / SAMPLE : 1;
    double worst = 0;
    *largest = 0;
    for (size_t j = 0; g && j < count; j++)
        *largest = fmax(*largest, fabs(g[j]));
    for (size_t j = 0; j < count; j += stride) {
        double error = fabs((g ? g[j] : 0) - difference(f, &qkv_param_data(p)[j]));
        if (!(error <= worst))
            worst = error;
    }
    return worst;
}

static void check(size_t number)
{
    enum { PARAMS = 80 };
    fixture f;
    double worst[PARAMS], largest[PARAMS], most = 0;
    make(&f, number);
    qkv_params *ps = qkv_model_params(f.m);
    size_t n = qkv_params_count(ps);
    assert_true(n <= PARAMS);
    assert_int_equal(qkv_backward(f.t, forward(&f)), QKV_OK);
    for (size_t i = 0; i < n; i++) {
        worst[i] = largest[i] = 0;
        if (!qkv_param_frozen(qkv_params_at(ps, i)))
            worst[i] = check_param(&f, qkv_params_at(ps, i), &largest[i]);
        most = fmax(most, largest[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (!(worst[i] <= tolerance * fmax(largest[i], 1e-3 * most)))
            fail_msg("case %zu: gradient of %s is off by %.3g of %.3g", number,
                     qkv_param_name(qkv_params_at(ps, i)), worst[i], largest[i]);
    assert_true(most > 0);
    qkv_model_destroy(f.m);
    qkv_tape_destroy(f.t);
    qkv_context_destroy(f.ctx);
}

static void gradients_of_encoders(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        check(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_of_encoders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
