/* Ten steps of every optimiser and its variants, and every schedule, against PyTorch and
 * transformers (recipe: tools/make-golden/opt.py), with each instruction set's kernels. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "isas.h"
#include "qkv/opt.h"
#include "qkv/safetensors.h"
#include "tensor/param.h"

enum { STEPS = 10, PARAMS = 2, NUMBERS = 13 * 11, RATES = 120 };
static const double tolerance = 1e-6;
static const char *const param_names[PARAMS] = {"w", "b"};

/* The arguments of one torch.optim class; fields not given are torch's defaults. */
typedef struct {
    const char *name;
    qkv_optimizer_kind kind;
    double lr, decay, momentum, dampening, alpha, eps, beta1, beta2;
    bool nesterov, centered;
} variant;

static const variant variants[] = {
    {.name = "sgd", .kind = QKV_OPTIMIZER_SGD, .lr = 0.1},
    {.name = "sgd_decay", .kind = QKV_OPTIMIZER_SGD, .lr = 0.1, .decay = 0.05},
    {.name = "sgd_momentum", .kind = QKV_OPTIMIZER_SGD, .lr = 0.1, .momentum = 0.9},
    {.name = "sgd_dampening", .kind = QKV_OPTIMIZER_SGD, .lr = 0.1, .momentum = 0.9,
     .dampening = 0.3, .decay = 0.05},
    {.name = "sgd_nesterov", .kind = QKV_OPTIMIZER_SGD, .lr = 0.1, .momentum = 0.9,
     .nesterov = true, .decay = 0.05},
    {.name = "rmsprop", .kind = QKV_OPTIMIZER_RMSPROP, .lr = 0.01},
    {.name = "rmsprop_decay", .kind = QKV_OPTIMIZER_RMSPROP, .lr = 0.01, .alpha = 0.9,
     .eps = 1e-6, .decay = 0.05},
    {.name = "rmsprop_momentum", .kind = QKV_OPTIMIZER_RMSPROP, .lr = 0.01, .momentum = 0.9},
    {.name = "rmsprop_centered", .kind = QKV_OPTIMIZER_RMSPROP, .lr = 0.01, .centered = true},
    {.name = "rmsprop_all", .kind = QKV_OPTIMIZER_RMSPROP, .lr = 0.01, .alpha = 0.95,
     .eps = 1e-5, .centered = true, .momentum = 0.8, .decay = 0.05},
    {.name = "adam", .kind = QKV_OPTIMIZER_ADAM, .lr = 1e-2},
    {.name = "adam_decay", .kind = QKV_OPTIMIZER_ADAM, .lr = 1e-2, .decay = 0.05},
    {.name = "adam_paper", .kind = QKV_OPTIMIZER_ADAM, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.98,
     .eps = 1e-9},
    {.name = "adamw", .kind = QKV_OPTIMIZER_ADAMW, .lr = 1e-2},
    {.name = "adamw_gpt", .kind = QKV_OPTIMIZER_ADAMW, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95,
     .decay = 0.1},
};

static qkv_optimizer_options options_of(const variant *v)
{
    qkv_optimizer_options o = qkv_optimizer_defaults(v->kind);
    o.weight_decay = v->decay > 0.0 ? v->decay : o.weight_decay;
    o.momentum = v->momentum;
    o.dampening = v->dampening;
    o.nesterov = v->nesterov;
    o.centered = v->centered;
    o.alpha = v->alpha > 0.0 ? v->alpha : o.alpha;
    o.eps = v->eps > 0.0 ? v->eps : o.eps;
    o.beta1 = v->beta1 > 0.0 ? v->beta1 : o.beta1;
    o.beta2 = v->beta2 > 0.0 ? v->beta2 : o.beta2;
    return o;
}

typedef struct {
    qkv_context *ctx;
    qkv_safetensors *golden;
    qkv_params *params;
    size_t count[PARAMS];
} fixture;

/* Numbers begin .. begin+n-1 of "name.suffix". */
static void read_golden(const fixture *f, const char *name, const char *suffix, size_t begin,
                        size_t n, qkv_real *out)
{
    char full[64];
    (void)snprintf(full, sizeof full, "%s.%s", name, suffix);
    const qkv_safetensor *t = qkv_safetensors_find(f->golden, full);
    if (!t || begin + n > t->count)
        fail_msg("%s is not in the golden file", full);
    assert_int_equal(qkv_safetensors_read(f->golden, t, begin, n, out), QKV_OK);
}

/* max|a-b| <= tolerance * max|b|. */
static void assert_close(const char *what, size_t step, const qkv_real *a, const qkv_real *b,
                         size_t n)
{
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        error = fmax(error, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
        if (isnan(a[i]))
            error = INFINITY;
    }
    if (!(error <= tolerance * size))
        fail_msg("%s, step %zu: off by %.2g of %.2g", what, step, error, size);
}

static void begin(fixture *f)
{
    static const size_t shapes[PARAMS][2] = {{13, 11}, {9, 0}};
    assert_int_equal(qkv_params_create(&f->params, f->ctx), QKV_OK);
    for (int i = 0; i < PARAMS; i++) {
        qkv_param *p = qkv_param_create(f->params, param_names[i], 2 - i, shapes[i]);
        assert_non_null(p);
        f->count[i] = qkv_param_count(p);
        read_golden(f, "start", param_names[i], 0, f->count[i], qkv_param_data(p));
        qkv_param_touch(p);
    }
}

static void give_gradients(fixture *f, size_t step)
{
    qkv_params_zero_grad(f->params);
    for (int i = 0; i < PARAMS; i++) {
        qkv_param *p = qkv_params_at(f->params, (size_t)i);
        assert_non_null(qkv__param_grad_memory(p));
        p->has_grad = true;
        read_golden(f, "grads", param_names[i], step * f->count[i], f->count[i],
                    qkv_param_grad(p));
        qkv_param_touch_grad(p);
    }
}

static void compare(fixture *f, const char *name, size_t step)
{
    qkv_real expected[NUMBERS];
    for (int i = 0; i < PARAMS; i++) {
        read_golden(f, name, param_names[i], step * f->count[i], f->count[i], expected);
        assert_close(name, step, qkv_param_data(qkv_params_at(f->params, (size_t)i)), expected,
                     f->count[i]);
    }
}

static void test_variants(void **state)
{
    fixture *f = *state;
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        begin(f);
        qkv_optimizer_options oo = options_of(&variants[v]);
        qkv_optimizer *o;
        assert_int_equal(qkv_optimizer_create(&o, f->params, &oo, NULL, 0), QKV_OK);
        for (size_t step = 0; step < STEPS; step++) {
            give_gradients(f, step);
            qkv_optimizer_step_args args = {.lr = variants[v].lr};
            assert_int_equal(qkv_optimizer_step(o, &args, NULL), QKV_OK);
            compare(f, variants[v].name, step);
        }
        qkv_optimizer_destroy(o);
        qkv_params_destroy(f->params);
    }
}

static qkv_schedule gpt_schedule(void)
{
    qkv_schedule s = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    s.lr = 3e-3;
    s.min_lr = 3e-4;
    s.warmup = 12;
    s.steps = 100;
    return s;
}

/* Clipping, decay for the matrix alone and a schedule, all at once. */
static void test_run(void **state)
{
    fixture *f = *state;
    begin(f);
    qkv_optimizer_options oo = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    oo.weight_decay = 0.1;
    oo.beta2 = 0.95;
    qkv_optimizer *o;
    assert_int_equal(
        qkv_optimizer_create(&o, f->params, &oo, qkv_optimizer_decay_matrices(), 1), QKV_OK);
    qkv_schedule s = gpt_schedule();
    for (size_t step = 0; step < STEPS; step++) {
        double norm;
        give_gradients(f, step);
        qkv_optimizer_step_args args = {.lr = qkv_schedule_lr(&s, step), .max_norm = 1.0};
        assert_int_equal(qkv_optimizer_step(o, &args, &norm), QKV_OK);
        qkv_real got = (qkv_real)norm, expected;
        read_golden(f, "adamw_run", "norms", step, 1, &expected);
        assert_close("adamw_run.norms", step, &got, &expected, 1);
        compare(f, "adamw_run", step);
    }
    qkv_optimizer_destroy(o);
    qkv_params_destroy(f->params);
}

/* lr 3e-3, warm-up 12 of 100 steps, decay 25, width 64, but for what a row says. */
typedef struct {
    const char *name;
    qkv_schedule_kind kind;
    double min_lr, start_lr;
    bool no_warmup;
    size_t rates;
} plan;

static const plan plans[] = {
    {"constant", QKV_SCHEDULE_CONSTANT, 0.0, 0.0, false, RATES},
    {"linear", QKV_SCHEDULE_LINEAR, 0.0, 0.0, false, RATES},
    {"linear_min", QKV_SCHEDULE_LINEAR, 3e-4, 0.0, true, RATES},
    {"cosine", QKV_SCHEDULE_COSINE, 0.0, 0.0, false, 101}, /* theirs rise again after the end */
    {"cosine_min", QKV_SCHEDULE_COSINE, 3e-4, 0.0, false, 101},
    {"cosine_annealing", QKV_SCHEDULE_COSINE, 3e-4, 0.0, true, 100},
    {"cosine_gpt", QKV_SCHEDULE_COSINE, 3e-4, -1.0, false, RATES},
    {"inverse_sqrt", QKV_SCHEDULE_INVERSE_SQRT, 0.0, 0.0, false, RATES},
    {"noam", QKV_SCHEDULE_NOAM, 0.0, 0.0, false, RATES},
    {"wsd", QKV_SCHEDULE_WSD, 3e-4, 3e-4, false, RATES},
};

static void test_schedules(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        qkv_schedule s = gpt_schedule();
        s.kind = plans[i].kind;
        s.min_lr = plans[i].min_lr;
        s.start_lr = plans[i].start_lr;
        s.warmup = plans[i].no_warmup ? 0 : s.warmup;
        s.lr = s.kind == QKV_SCHEDULE_NOAM ? 2.0 : s.lr;
        s.decay = 25;
        s.width = 64;
        qkv_real got, expected[RATES];
        read_golden(f, "schedule", plans[i].name, 0, plans[i].rates, expected);
        for (size_t step = 0; step < plans[i].rates; step++) {
            got = (qkv_real)qkv_schedule_lr(&s, step);
            if (!(fabs((double)got - (double)expected[step]) <= tolerance * s.lr))
                fail_msg("%s, step %zu: %.9g instead of %.9g", plans[i].name, step, (double)got,
                         (double)expected[step]);
        }
    }
}

static fixture *open_fixture(unsigned isa)
{
    static fixture f;
    qkv_context_options co = qkv_context_defaults();
    co.isa = isa;
    assert_int_equal(qkv_context_create(&f.ctx, &co), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&f.golden, f.ctx, "tests/golden/opt.safetensors"),
                     QKV_OK);
    return &f;
}

static int setup_reference(void **state)
{
    *state = open_fixture(QKV_ISA_REFERENCE);
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    qkv_safetensors_close(f->golden);
    qkv_context_destroy(f->ctx);
    return 0;
}

static void run_all(unsigned isa)
{
    void *state = open_fixture(isa);
    test_variants(&state);
    test_run(&state);
    (void)teardown(&state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS
        cmocka_unit_test_setup_teardown(test_schedules, setup_reference, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
