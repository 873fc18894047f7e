/* test_series.c - gradients of a filler's and a classifier's outputs to all parameters, against
 * differences, with gaps in the series and series of unequal lengths. Errors are measured as in
 * differences, with gaps in the series and series of unequal lengths. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "param_gradients.h"
#include "qkv/series.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { B = 3, ROWS = 12, COLUMNS = 2, MOST = B * ROWS * COLUMNS };

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
    param_gradients g;
    double rows[ROWS * COLUMNS], target[MOST];
} fixture;

/* The outputs' inner product with numbers at random. */
static qkv_tensor *forward(void *user)
{
    fixture *f = user;
    static const size_t lengths[B] = {8, 3, 5};
    const double *windows[B] = {f->rows, f->rows + COLUMNS, f->rows + 4 * COLUMNS};
    const qkv_series_batch in = {.data = windows, .count = B,
                                 .lengths = cases[f->number].unequal ? lengths : NULL};
    qkv_tape_reset(f->g.t);
    qkv_tape_mode(f->g.t, true, true);
    qkv_tape_randomness(f->g.t, &(qkv_randomness){.seed = 3, .step = 7, .samples = B});
    qkv_tensor *y = cases[f->number].classifier ? qkv_series_class_logits(f->g.m, f->g.t, &in)
                                                : qkv_series_fill(f->g.m, f->g.t, &in);
    if (!y)
        return NULL;
    const size_t shape[] = {qkv_dim(y, 0), qkv_dim(y, 1)};
    return qkv_sum(f->g.t, qkv_mul(f->g.t, y, qkv_tensor_from(f->g.t, f->target, 2, shape)));
}

static void check(size_t number)
{
    char name[24];
    qkv_rng r;
    fixture f = {.number = number, .g = {.scalar = forward, .user = &f}};
    (void)snprintf(name, sizeof name, "case %zu", number);
    qkv_rng_init(&r, 5, number);
    open_gradients(&f.g, name, cases[number].classifier ? qkv_series_classifier_type()
                                                        : qkv_series_filler_type(),
                   &cases[number].config);
    fill_params(f.g.ps, &r, 0.4);
    fill_normal(f.rows, COUNT(f.rows), &r, 3, 10);
    f.rows[7] = f.rows[9] = f.rows[10] = NAN;
    fill_normal(f.target, COUNT(f.target), &r, 2, 0);
    qkv_series s = {f.rows, ROWS, COLUMNS};
    assert_int_equal(qkv_series_fit_scale(f.g.m, &s), QKV_OK);
    check_gradients(&f.g);
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
