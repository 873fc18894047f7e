/* test_forecast.c - gradients of the forecaster's losses to all its parameters, against
 * differences, in every choice it has. Errors are measured as in test_block.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/base.h"
#include "qkv/forecast.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { B = 2, ROWS = 9, HORIZON = 5, COLUMNS = 3, SAMPLE = 8 };
static const double tolerance = 1e-7, step = 1e-5;

#define BASE .columns = COLUMNS, .context = 8, .horizon = HORIZON, .width = 8, .heads = 2,     \
             .ff_width = 12, .act = QKV_ACT_GELU
static const qkv_forecast_config cases[] = {
    {BASE, .targets = 2, .patch = 2, .layers = 2, .linear = true},
    {BASE, .patch = 1, .layers = 1, .normalization = QKV_NORMALIZE_WINDOW,
     .position_kind = QKV_POSITIONS_SINUSOID, .loss = QKV_FORECAST_HUBER, .linear = true},
    {BASE, .targets = 1, .patch = 4, .layers = 1, .normalization = QKV_NORMALIZE_LAST,
     .loss = QKV_FORECAST_MAE, .dropout = 0.2, .attention_dropout = 0.1, .head_dropout = 0.3},
    {BASE, .targets = 2, .patch = 2, .layers = 1, .decoder_layers = 2, .linear = true},
    {BASE, .targets = 2, .patch = 2, .layers = 1, .decoder_layers = 2, .causal = true,
     .linear = true, .normalization = QKV_NORMALIZE_WINDOW, .dropout = 0.2, .head_dropout = 0.1},
    {BASE, .patch = 4, .layers = 1, .decoder_layers = 1, .causal = true},
    {BASE, .patch = 4, .layers = 1, .decoder_layers = 1, .dropout = 0.1,
     .position_kind = QKV_POSITIONS_SINUSOID, .normalization = QKV_NORMALIZE_WINDOW},
};

typedef struct {
    size_t number; /* of the case */
    qkv_context *ctx;
    qkv_tape *t;
    qkv_model *m;
    double rows[ROWS * COLUMNS], target[B * HORIZON * COLUMNS];
} fixture;

static qkv_tensor *forward(fixture *f)
{
    const qkv_forecast_config *c = qkv_model_config(f->m);
    const double *windows[B] = {f->rows, f->rows + COLUMNS};
    size_t shape[] = {B, HORIZON, c->targets};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, true);
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 3, .step = 7});
    qkv_tensor *target = qkv_tensor_from(f->t, f->target, 3, shape);
    qkv_tensor *y = qkv_forecast_forced(f->m, f->t, windows, target, B);
    return qkv_forecast_loss(f->m, f->t, y, target);
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
    if (qkv_model_create(&f->m, f->ctx, qkv_forecast_type(), &cases[number]))
        fail_msg("case %zu: %s", number, qkv_context_message(f->ctx));
    qkv_params *ps = qkv_model_params(f->m);
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        if (!qkv_param_frozen(p))
            fill(qkv_param_data(p), qkv_param_count(p), &r, 0.4, qkv_param_ndim(p) == 1);
    }
    fill(f->rows, COUNT(f->rows), &r, 3, 10);
    fill(f->target, COUNT(f->target), &r, 2, 0);
    qkv_series s = {f->rows, ROWS, COLUMNS};
    assert_int_equal(qkv_forecast_fit_scale(f->m, &s), QKV_OK);
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

static void test_forecast(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        check(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forecast)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
