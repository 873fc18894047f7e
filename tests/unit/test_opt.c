/* Optimisers around the kernels: groups, clipping, missing and bad gradients, state, averages, and
 * the corner points of every schedule. The updates themselves: tests/parity/test_opt_golden.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "failing.h"
#include "params.h"
#include "qkv/opt.h"
#include "tensor/param.h"

typedef struct {
    qkv_context *ctx;
    qkv_params *ps;
    qkv_param *w, *b;
} fixture;

static void give_grad(qkv_param *p, double value)
{
    assert_non_null(qkv__param_grad_memory(p));
    p->has_grad = true;
    for (size_t i = 0; i < qkv_param_count(p); i++)
        qkv_param_grad(p)[i] = (qkv_real)value;
    qkv_param_touch_grad(p);
}

static int setup(void **state)
{
    static fixture f;
    params_begin(&f.ctx, NULL, &f.ps);
    const size_t shape[] = {2, 3};
    f.w = qkv_param_create(f.ps, "h.0.weight", 2, shape);
    f.b = qkv_param_create(f.ps, "h.0.bias", 1, shape);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    params_end(f->ctx, NULL, f->ps);
    return 0;
}

static qkv_optimizer *make(fixture *f, qkv_optimizer_kind kind, const qkv_optimizer_rule *rules,
                           size_t n)
{
    qkv_optimizer_options oo = qkv_optimizer_defaults(kind);
    qkv_optimizer *o;
    assert_int_equal(qkv_optimizer_create(&o, f->ps, &oo, rules, n), QKV_OK);
    return o;
}

static void test_groups(void **state)
{
    fixture *f = *state;
    double lr, decay;
    qkv_optimizer *o = make(f, QKV_OPTIMIZER_ADAMW, qkv_optimizer_decay_matrices(), 1);
    assert_true(qkv_optimizer_group_of(o, f->w, &lr, &decay));
    assert_near(lr, 1.0);
    assert_near(decay, 0.01);
    assert_true(qkv_optimizer_group_of(o, f->b, &lr, &decay));
    assert_near(decay, 0.0);
    qkv_optimizer_destroy(o);

    const qkv_optimizer_rule rules[] = {
        {"h.?.weight", 2, 2, 0.5, -1.0, false},
        {"*.bias", 0, 0, 1.0, -1.0, true},
        {NULL, 0, 0, 7.0, 7.0, false}, /* every parameter was matched before */
    };
    o = make(f, QKV_OPTIMIZER_ADAMW, rules, 3);
    assert_true(qkv_optimizer_group_of(o, f->w, &lr, &decay));
    assert_near(lr, 0.5);
    assert_near(decay, 0.01);
    assert_false(qkv_optimizer_group_of(o, f->b, NULL, NULL));
    assert_int_equal(qkv_optimizer_state_count(o), 1 + 2);
    qkv_optimizer_destroy(o);
}

/* SGD moves by rate times scale, so the scale can be read off. */
static void test_rate_scale_and_exclusion(void **state)
{
    fixture *f = *state;
    const qkv_optimizer_rule rules[] = {{"h.0.weight", 0, 0, 0.5, -1.0, false},
                                  {"*", 0, 0, 1.0, -1.0, true}};
    qkv_optimizer *o = make(f, QKV_OPTIMIZER_SGD, rules, 2);
    give_grad(f->w, 1.0);
    give_grad(f->b, NAN); /* not this optimiser's: neither moved nor in the norm */
    double norm;
    qkv_optimizer_step_args args = {.lr = 0.1, .grad_scale = 0.5};
    assert_int_equal(qkv_optimizer_step(o, &args, &norm), QKV_OK);
    assert_near(norm, 0.5 * sqrt(6.0));
    assert_near((double)qkv_param_data(f->w)[5], -0.1 * 0.5 * 0.5);
    assert_near((double)qkv_param_data(f->b)[0], 0.0);
    qkv_optimizer_destroy(o);
}

static void test_clipping(void **state)
{
    fixture *f = *state;
    qkv_optimizer *o = make(f, QKV_OPTIMIZER_SGD, NULL, 0);
    give_grad(f->w, 3.0);
    give_grad(f->b, 4.0);
    double norm, total = sqrt(6 * 9.0 + 2 * 16.0);
    qkv_optimizer_step_args args = {.lr = 1.0, .max_norm = 2.0};
    assert_int_equal(qkv_optimizer_step(o, &args, &norm), QKV_OK);
    assert_near(norm, total);
    assert_near((double)qkv_param_data(f->w)[0], -3.0 * 2.0 / (total + 1e-6));
    assert_near((double)qkv_param_data(f->b)[1], -4.0 * 2.0 / (total + 1e-6));
    args.max_norm = 100.0; /* nothing to clip: gradients are never enlarged */
    assert_int_equal(qkv_optimizer_step(o, &args, NULL), QKV_OK);
    assert_near((double)qkv_param_data(f->w)[0], -3.0 * 2.0 / (total + 1e-6) - 3.0);
    qkv_optimizer_destroy(o);
}

static void test_bad_gradient(void **state)
{
    fixture *f = *state;
    qkv_optimizer *o = make(f, QKV_OPTIMIZER_ADAM, NULL, 0);
    give_grad(f->w, 1.0);
    give_grad(f->b, 1.0);
    qkv_param_grad(f->b)[1] = INFINITY;
    qkv_param_touch_grad(f->b);
    double norm;
    qkv_optimizer_step_args args = {.lr = 0.1, .max_norm = 1.0};
    assert_int_equal(qkv_optimizer_step(o, &args, &norm), QKV_E_NUMERIC);
    assert_false(isfinite(norm));
    assert_non_null(strstr(qkv_context_message(f->ctx), "h.0.bias"));
    assert_near((double)qkv_param_data(f->w)[0], 0.0);
    assert_int_equal(((int32_t *)qkv_optimizer_state(o, 0).data)[0], 0);
    qkv_optimizer_destroy(o);
}

/* As in PyTorch, a parameter without gradient keeps its state and its count of steps, and a
 * frozen one is left alone. */
static void test_absent_gradient(void **state)
{
    fixture *f = *state;
    qkv_optimizer *o = make(f, QKV_OPTIMIZER_ADAM, NULL, 0);
    qkv_optimizer_step_args args = {.lr = 0.1};
    give_grad(f->w, 1.0);
    assert_int_equal(qkv_optimizer_step(o, &args, NULL), QKV_OK);
    give_grad(f->b, 1.0);
    qkv_param_freeze(f->w, true);
    assert_int_equal(qkv_optimizer_step(o, &args, NULL), QKV_OK);
    qkv_param_freeze(f->w, false);
    const int32_t *step = qkv_optimizer_state(o, 0).data;
    assert_int_equal(step[0], 1);
    assert_int_equal(step[1], 1);
    /* Adam's first step is the rate itself, whenever it comes. */
    assert_near((double)qkv_param_data(f->w)[0], -0.1);
    assert_near((double)qkv_param_data(f->b)[0], -0.1);
    qkv_optimizer_destroy(o);
}

/* State written out and read into a fresh optimiser goes on to the same bits. */
static void test_state(void **state)
{
    fixture *f = *state;
    qkv_optimizer *a = make(f, QKV_OPTIMIZER_ADAMW, NULL, 0);
    qkv_optimizer *b = make(f, QKV_OPTIMIZER_ADAMW, NULL, 0);
    qkv_optimizer_step_args args = {.lr = 0.1};
    give_grad(f->w, 0.3);
    give_grad(f->b, -0.2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(qkv_optimizer_step(a, &args, NULL), QKV_OK);
    assert_int_equal(qkv_optimizer_state_count(a), 5);
    assert_string_equal(qkv_optimizer_state(a, 0).what, "step");
    assert_string_equal(qkv_optimizer_state(a, 4).what, "exp_avg_sq");
    assert_string_equal(qkv_optimizer_state(a, 4).param, "h.0.bias");
    for (size_t i = 0; i < 5; i++) {
        qkv_state from = qkv_optimizer_state(a, i), to = qkv_optimizer_state(b, i);
        size_t bytes = from.dtype == QKV_I32 ? sizeof(int32_t) : sizeof(qkv_real);
        for (int d = 0; d < from.ndim; d++)
            bytes *= from.shape[d];
        void *in = qkv_state_map(&to), *out = qkv_state_map(&from);
        memcpy(in, out, bytes);
        qkv_state_unmap(&from, out, false);
        qkv_state_unmap(&to, in, true);
    }
    qkv_real saved[6], straight[6];
    memcpy(saved, qkv_param_data(f->w), sizeof saved);
    assert_int_equal(qkv_optimizer_step(a, &args, NULL), QKV_OK);
    memcpy(straight, qkv_param_data(f->w), sizeof straight);
    memcpy(qkv_param_data(f->w), saved, sizeof saved);
    qkv_param_touch(f->w);
    assert_int_equal(qkv_optimizer_step(b, &args, NULL), QKV_OK);
    assert_memory_equal(qkv_param_data(f->w), straight, sizeof straight);
    qkv_optimizer_destroy(a);
    qkv_optimizer_destroy(b);
}

static void test_bad_options(void **state)
{
    fixture *f = *state;
    qkv_optimizer *o;
    qkv_optimizer_options oo = qkv_optimizer_defaults(QKV_OPTIMIZER_SGD);
    oo.nesterov = true;
    assert_int_equal(qkv_optimizer_create(&o, f->ps, &oo, NULL, 0), QKV_E_ARGUMENT);
    assert_null(o);
    assert_non_null(strstr(qkv_context_message(f->ctx), "nesterov"));
    oo = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAM);
    oo.beta2 = 1.0;
    assert_int_equal(qkv_optimizer_create(&o, f->ps, &oo, NULL, 0), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(f->ctx), "beta2"));
    oo = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    oo.weight_decay = NAN;
    assert_int_equal(qkv_optimizer_create(&o, f->ps, &oo, NULL, 0), QKV_E_ARGUMENT);
}

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < QKV_OPTIMIZER_COUNT; i++) {
        qkv_optimizer_kind kind = QKV_OPTIMIZER_COUNT;
        assert_true(qkv_optimizer_find(qkv_optimizer_name((qkv_optimizer_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    for (int i = 0; i < QKV_SCHEDULE_COUNT; i++) {
        qkv_schedule_kind kind = QKV_SCHEDULE_COUNT;
        assert_true(qkv_schedule_find(qkv_schedule_name((qkv_schedule_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    qkv_schedule_kind kind;
    assert_false(qkv_schedule_find("cosin", &kind));
}

static void set_all(qkv_param *p, double value)
{
    for (size_t i = 0; i < qkv_param_count(p); i++)
        qkv_param_data(p)[i] = (qkv_real)value;
    qkv_param_touch(p);
}

static void test_plain_average(void **state)
{
    fixture *f = *state;
    qkv_average_options ao = {0};
    qkv_average *a;
    assert_int_equal(qkv_average_create(&a, f->ps, &ao), QKV_OK);
    assert_int_equal(qkv_average_swap(a), QKV_E_ARGUMENT);
    const double values[] = {1.0, 4.0, -2.0, 7.0};
    for (int i = 0; i < 4; i++) {
        set_all(f->w, values[i]);
        qkv_average_add(a);
    }
    assert_int_equal(qkv_average_swap(a), QKV_OK);
    assert_near((double)qkv_param_data(f->w)[3], 2.5);
    assert_int_equal(qkv_average_swap(a), QKV_OK);
    assert_near((double)qkv_param_data(f->w)[3], 7.0);
    assert_int_equal(qkv_average_state_count(a), 3);
    assert_int_equal(*(int32_t *)qkv_average_state(a, 0).data, 4);
    assert_string_equal(qkv_average_state(a, 1).param, "h.0.weight");
    qkv_average_destroy(a);
}

static void test_exponential_average(void **state)
{
    fixture *f = *state;
    const bool ramps[] = {false, true};
    for (int r = 0; r < 2; r++) {
        qkv_average_options ao = {.decay = 0.9, .ramp = ramps[r]};
        qkv_average *a;
        assert_int_equal(qkv_average_create(&a, f->ps, &ao), QKV_OK);
        double expected = 0.0;
        for (int i = 0; i < 6; i++) {
            double x = i * i, decay = ramps[r] ? fmin(0.9, (1.0 + i) / (10.0 + i)) : 0.9;
            set_all(f->b, x);
            qkv_average_add(a);
            expected = i ? decay * expected + (1.0 - decay) * x : x;
        }
        assert_int_equal(qkv_average_swap(a), QKV_OK);
        assert_near((double)qkv_param_data(f->b)[1], expected);
        qkv_average_destroy(a);
    }
    qkv_average *a;
    assert_int_equal(qkv_average_create(&a, f->ps, &(qkv_average_options){.decay = 1.0}),
                     QKV_E_ARGUMENT);
}

/* Whichever allocation fails: nothing is made, nothing leaks, the context says why. */
static void test_memory_failures(void **state)
{
    (void)state;
    failing f = {.left = SIZE_MAX};
    const qkv_context_options co = failing_options(&f);
    qkv_context *ctx;
    qkv_params *ps;
    assert_int_equal(qkv_context_create(&ctx, &co), QKV_OK);
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    const size_t shape[] = {3, 5};
    assert_non_null(qkv_param_create(ps, "w", 2, shape));
    size_t before = f.live, failures = 0;
    qkv_optimizer_options oo = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAM);
    for (size_t n = 0;; n++) {
        qkv_optimizer *o = NULL;
        qkv_average *a = NULL;
        f.left = n;
        qkv_status status = qkv_optimizer_create(&o, ps, &oo, NULL, 0);
        if (!status)
            status = qkv_average_create(&a, ps, &(qkv_average_options){.decay = 0.9});
        bool whole = o && a;
        qkv_optimizer_destroy(o);
        qkv_average_destroy(a);
        assert_int_equal(f.live, before);
        if (whole)
            break;
        assert_int_equal(status, QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(ctx)) > 0);
        failures++;
    }
    assert_true(failures >= 6);
    qkv_params_destroy(ps);
    qkv_context_destroy(ctx);
    assert_int_equal(f.live, 0);
}

/* The tables say what the structs' own defaults say, and name the kinds alike. */
static void test_tables(void **state)
{
    (void)state;
    qkv_optimizer_options from_table;
    memset(&from_table, 0x55, sizeof from_table);
    qkv_option_defaults(qkv_optimizer_table(), &from_table);
    qkv_optimizer_options own = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    assert_int_equal(from_table.kind, own.kind);
    assert_near(from_table.weight_decay, own.weight_decay);
    assert_near(from_table.beta1 + from_table.beta2, own.beta1 + own.beta2);
    assert_near(from_table.eps * 1e8, own.eps * 1e8);
    assert_near(from_table.alpha, own.alpha);
    assert_near(from_table.momentum + from_table.dampening, own.momentum + own.dampening);
    assert_true(from_table.nesterov == own.nesterov && from_table.centered == own.centered);
    for (int i = 0; i < QKV_OPTIMIZER_COUNT; i++)
        assert_string_equal(qkv_optimizer_table()->rows[0].names[i],
                            qkv_optimizer_name((qkv_optimizer_kind)i));
    qkv_schedule s;
    memset(&s, 0x55, sizeof s);
    qkv_option_defaults(qkv_schedule_table(), &s);
    qkv_schedule cosine = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    assert_int_equal(s.kind, cosine.kind);
    assert_near(s.lr + s.min_lr + s.start_lr, cosine.lr + cosine.min_lr + cosine.start_lr);
    assert_true(s.warmup == 0 && s.steps == 0 && s.decay == 0 && s.width == cosine.width);
    for (int i = 0; i < QKV_SCHEDULE_COUNT; i++)
        assert_string_equal(qkv_schedule_table()->rows[0].names[i],
                            qkv_schedule_name((qkv_schedule_kind)i));
}

typedef struct {
    qkv_schedule_kind kind;
    uint64_t step;
    double lr; /* with lr 1, min_lr 0.1, warmup 4, steps 20, decay 8, width 16 */
} corner;

static void test_schedule_corners(void **state)
{
    (void)state;
    static const corner corners[] = {
        {QKV_SCHEDULE_CONSTANT, 0, 0.2},      {QKV_SCHEDULE_CONSTANT, 3, 0.8},
        {QKV_SCHEDULE_CONSTANT, 4, 1.0},      {QKV_SCHEDULE_CONSTANT, 1000000, 1.0},
        {QKV_SCHEDULE_LINEAR, 4, 1.0},        {QKV_SCHEDULE_LINEAR, 12, 0.55},
        {QKV_SCHEDULE_LINEAR, 20, 0.1},       {QKV_SCHEDULE_LINEAR, 21, 0.1},
        {QKV_SCHEDULE_COSINE, 4, 1.0},        {QKV_SCHEDULE_COSINE, 12, 0.55},
        {QKV_SCHEDULE_COSINE, 20, 0.1},       {QKV_SCHEDULE_COSINE, UINT64_MAX, 0.1},
        {QKV_SCHEDULE_INVERSE_SQRT, 4, 1.0},  {QKV_SCHEDULE_INVERSE_SQRT, 16, 0.5},
        {QKV_SCHEDULE_INVERSE_SQRT, 4000000, 0.1}, {QKV_SCHEDULE_NOAM, 0, 0.25 / 8.0},
        {QKV_SCHEDULE_NOAM, 3, 0.125},        {QKV_SCHEDULE_NOAM, 999999, 0.1},
        {QKV_SCHEDULE_WSD, 4, 1.0},           {QKV_SCHEDULE_WSD, 12, 1.0},
        {QKV_SCHEDULE_WSD, 14, 0.55},         {QKV_SCHEDULE_WSD, 20, 0.1},
    };
    for (size_t i = 0; i < sizeof corners / sizeof *corners; i++) {
        qkv_schedule s = qkv_schedule_defaults(corners[i].kind);
        s.lr = 1.0;
        s.min_lr = 0.1;
        s.warmup = 4;
        s.steps = 20;
        s.decay = 8;
        s.width = 16;
        assert_near(qkv_schedule_lr(&s, corners[i].step), corners[i].lr);
    }
}

/* Without a length of its own the decay of wsd is the last fifth. */
static void test_wsd_decay(void **state)
{
    (void)state;
    qkv_schedule s = qkv_schedule_defaults(QKV_SCHEDULE_WSD);
    s.lr = 1.0;
    s.steps = 100;
    assert_near(qkv_schedule_lr(&s, 80), 1.0);
    assert_near(qkv_schedule_lr(&s, 85), 0.5);
}

/* Nothing set but the kind: no division by zero, no rate out of [0, lr]. */
static void test_schedule_defaults(void **state)
{
    (void)state;
    for (int k = 0; k < QKV_SCHEDULE_COUNT; k++) {
        qkv_schedule s = qkv_schedule_defaults((qkv_schedule_kind)k);
        for (uint64_t step = 0; step < 50; step++) {
            double lr = qkv_schedule_lr(&s, step);
            assert_true(lr >= 0.0 && lr <= s.lr);
        }
    }
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(test_groups),        EACH(test_rate_scale_and_exclusion),
        EACH(test_clipping),      EACH(test_bad_gradient),
        EACH(test_absent_gradient), EACH(test_state),
        EACH(test_bad_options),   EACH(test_plain_average),
        EACH(test_exponential_average),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_memory_failures),
        cmocka_unit_test(test_schedule_corners),
        cmocka_unit_test(test_wsd_decay),
        cmocka_unit_test(test_schedule_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
