/* test_forecast.c - gradients of the forecaster's losses to all its parameters, against
 * differences, in every choice it has. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "param_gradients.h"
#include "qkv/forecast.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { B = 2, ROWS = 9, HORIZON = 5, COLUMNS = 3 };

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
    param_gradients g;
    double rows[ROWS * COLUMNS], target[B * HORIZON * COLUMNS];
} fixture;

static qkv_tensor *forward(void *user)
{
    fixture *f = user;
    const qkv_forecast_config *c = qkv_model_config(f->g.m);
    const double *windows[B] = {f->rows, f->rows + COLUMNS};
    size_t shape[] = {B, HORIZON, c->targets};
    qkv_tape_reset(f->g.t);
    qkv_tape_mode(f->g.t, true, true);
    qkv_tape_randomness(f->g.t, &(qkv_randomness){.seed = 3, .step = 7});
    qkv_tensor *target = qkv_tensor_from(f->g.t, f->target, 3, shape);
    qkv_tensor *y = qkv_forecast_forced(f->g.m, f->g.t, windows, target, B);
    return qkv_forecast_loss(f->g.m, f->g.t, y, target);
}

static void check(size_t number)
{
    char name[24];
    qkv_rng r;
    fixture f = {.number = number, .g = {.scalar = forward, .user = &f}};
    (void)snprintf(name, sizeof name, "case %zu", number);
    qkv_rng_init(&r, 5, number);
    open_gradients(&f.g, name, qkv_forecast_type(), &cases[number]);
    fill_params(f.g.ps, &r, 0.4);
    fill_normal(f.rows, COUNT(f.rows), &r, 3, 10);
    fill_normal(f.target, COUNT(f.target), &r, 2, 0);
    qkv_series s = {f.rows, ROWS, COLUMNS};
    assert_int_equal(qkv_forecast_fit_scale(f.g.m, &s), QKV_OK);
    check_gradients(&f.g);
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
