/* Muon around its rule (tests/parity/test_muon_golden.c): that matrices come out orthogonal,
 * however large and however packed; what is left to AdamW; settings that are refused; state; what
 * a run is told. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "params.h"
#include "qkv/gpt.h"
#include "qkv/nn.h"
#include "qkv/train.h"
#include "tensor/param.h"

typedef struct {
    qkv_context *ctx;
    qkv_params *ps;
} fixture;

static int setup(void **state)
{
    static fixture f;
    params_begin(&f.ctx, NULL, &f.ps);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    params_end(f->ctx, NULL, f->ps);
    return 0;
}

static qkv_param *matrix(qkv_params *ps, const char *name, size_t rows, size_t columns)
{
    const size_t shape[] = {rows, columns};
    qkv_param *p = qkv_param_create(ps, name, 2, shape);
    assert_non_null(p);
    return p;
}

static qkv_param *hidden(qkv_params *ps, const char *name, size_t rows, size_t columns)
{
    qkv_param *p = matrix(ps, name, rows, columns);
    assert_int_equal(qkv_param_set_hidden(p, 1, &rows), QKV_OK);
    return p;
}

/* Normal numbers of a stream, times scale. */
static void give_grad(qkv_param *p, uint64_t stream, double scale)
{
    qkv_rng r;
    qkv_rng_init(&r, 5, stream);
    assert_non_null(qkv__param_grad_memory(p));
    p->has_grad = true;
    for (size_t i = 0; i < qkv_param_count(p); i++)
        qkv_param_grad(p)[i] = (qkv_real)(scale * qkv_rng_normal(&r));
    qkv_param_touch_grad(p);
}

/* No momentum and no decay: from zeros, a step at this rate gives minus the orthogonal matrix. */
static qkv_optimizer *make_plain(qkv_params *ps)
{
    qkv_optimizer_options oo = qkv_optimizer_defaults(QKV_OPTIMIZER_MUON);
    qkv_optimizer *o;
    oo.muon_momentum = 0;
    oo.weight_decay = 0;
    oo.muon_adjust = QKV_MUON_ORIGINAL;
    assert_int_equal(qkv_optimizer_create(&o, ps, &oo, NULL, 0), QKV_OK);
    return o;
}

/* ---- orthogonality ------------------------------------------------------------------------- */

/* The iteration in double, for rows <= columns. */
static void iterate(double *x, size_t rows, size_t columns)
{
    double norm = 0, *gram = malloc(rows * rows * sizeof *gram);
    double *next = malloc(rows * columns * sizeof *next);
    assert_true(gram && next);
    for (size_t i = 0; i < rows * columns; i++)
        norm += x[i] * x[i];
    for (size_t i = 0; i < rows * columns; i++)
        x[i] /= sqrt(norm);
    for (int step = 0; step < 5; step++) {
        for (size_t i = 0; i < rows * rows; i++) {
            gram[i] = 0;
            for (size_t k = 0; k < columns; k++)
                gram[i] += x[i / rows * columns + k] * x[i % rows * columns + k];
        }
        for (size_t i = 0; i < rows; i++) {
            double *y = next + i * columns;
            for (size_t k = 0; k < columns; k++)
                y[k] = 3.4445 * x[i * columns + k];
            for (size_t j = 0; j < rows; j++) {
                double factor = -4.7750 * gram[i * rows + j];
                for (size_t k = 0; k < rows; k++)
                    factor += 2.0315 * gram[i * rows + k] * gram[k * rows + j];
                for (size_t k = 0; k < columns; k++)
                    y[k] += factor * x[j * columns + k];
            }
        }
        memcpy(x, next, rows * columns * sizeof *x);
    }
    free(gram);
    free(next);
}

/* The change of p, a matrix of m x n from row `from` on, is -factor times the iteration of its
 * gradient, and its singular values are near 1: |u O| for unit vectors u of the shorter side. */
static void check_orthogonal(qkv_param *p, size_t from, size_t m, size_t n)
{
    bool tall = m > n;
    size_t rows = tall ? n : m, columns = tall ? m : n;
    double *x = malloc(m * n * sizeof *x), factor = sqrt(fmax(1, (double)m / (double)n));
    assert_non_null(x);
    for (size_t i = 0; i < m * n; i++)
        x[tall ? i % n * columns + i / n : i] = (double)qkv_param_grad(p)[from * n + i];
    iterate(x, rows, columns);
    for (size_t i = 0; i < m * n; i++) {
        double got = (double)qkv_param_data(p)[from * n + i] / -factor;
        double want = x[tall ? i % n * columns + i / n : i];
        if (!(fabs(got - want) <= 1e-4))
            fail_msg("%s, element %zu: %g instead of %g", qkv_param_name(p), i, got, want);
    }
    qkv_rng r;
    qkv_rng_init(&r, 6, 0);
    for (int turn = 0; turn < 20; turn++) {
        double in = 0, out = 0, *u = calloc(columns, sizeof *u);
        assert_non_null(u);
        for (size_t i = 0; i < rows; i++) {
            double a = turn < 10 ? qkv_rng_normal(&r) : (double)(i == (size_t)turn % rows);
            in += a * a;
            for (size_t k = 0; k < columns; k++)
                u[k] += a * x[i * columns + k];
        }
        for (size_t k = 0; k < columns; k++)
            out += u[k] * u[k];
        free(u);
        assert_true(sqrt(out / in) > 0.6 && sqrt(out / in) < 1.25);
    }
    free(x);
}

static void test_orthogonal(void **state)
{
    fixture *f = *state;
    /* Symmetric products of one panel and of several, on either side. */
    qkv_param *p[] = {hidden(f->ps, "wide", 40, 100), hidden(f->ps, "tall", 90, 33),
                      hidden(f->ps, "panels", 150, 290), hidden(f->ps, "tall_panels", 280, 129),
                      hidden(f->ps, "row", 1, 12)};
    qkv_param *packed = matrix(f->ps, "packed", 60, 50);
    const size_t parts[] = {30, 10, 20};
    assert_int_equal(qkv_param_set_hidden(packed, 3, parts), QKV_OK);
    qkv_optimizer *o = make_plain(f->ps);
    for (size_t i = 0; i < qkv_params_count(f->ps); i++)
        give_grad(qkv_params_at(f->ps, i), i, 0.01);
    assert_int_equal(qkv_optimizer_step(o, &(qkv_optimizer_step_args){.lr = 1}, NULL), QKV_OK);
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        check_orthogonal(p[i], 0, qkv_param_dim(p[i], 0), qkv_param_dim(p[i], 1));
    check_orthogonal(packed, 0, 30, 50);
    check_orthogonal(packed, 30, 10, 50);
    check_orthogonal(packed, 40, 20, 50);
    qkv_optimizer_destroy(o);
}

/* The size of a gradient does not matter, so neither does clipping; none at all moves nothing. */
static void test_size_of_gradient(void **state)
{
    fixture *f = *state;
    qkv_param *large = hidden(f->ps, "large", 6, 9), *small = hidden(f->ps, "small", 6, 9);
    qkv_param *zero = hidden(f->ps, "zero", 6, 9);
    qkv_optimizer *o = make_plain(f->ps);
    give_grad(large, 1, 100);
    give_grad(small, 1, 1e-3);
    give_grad(zero, 1, 0);
    double norm;
    const qkv_optimizer_step_args args = {.lr = 0.1, .max_norm = 1};
    assert_int_equal(qkv_optimizer_step(o, &args, &norm), QKV_OK);
    assert_true(norm > 100);
    for (size_t i = 0; i < 54; i++) {
        assert_near((double)qkv_param_data(large)[i], (double)qkv_param_data(small)[i]);
        assert_true(qkv_param_data(zero)[i] == 0);
    }
    qkv_optimizer_destroy(o);
}

/* ---- groups -------------------------------------------------------------------------------- */

/* What is not a hidden layer's moves as AdamW moves it. */
static void test_rest_is_adamws(void **state)
{
    fixture *f = *state;
    qkv_params *other;
    assert_int_equal(qkv_params_create(&other, f->ctx), QKV_OK);
    qkv_param *w = hidden(f->ps, "w", 4, 6), *table = matrix(f->ps, "tokens", 5, 3);
    qkv_param *alone = matrix(other, "tokens", 5, 3);
    qkv_optimizer_options oo = qkv_optimizer_defaults(QKV_OPTIMIZER_MUON);
    qkv_optimizer *muon, *adamw;
    oo.adamw_lr_scale = 0.5;
    oo.weight_decay = 0.3;
    assert_int_equal(qkv_optimizer_create(&muon, f->ps, &oo, NULL, 0), QKV_OK);
    oo.kind = QKV_OPTIMIZER_ADAMW;
    assert_int_equal(qkv_optimizer_create(&adamw, other, &oo, NULL, 0), QKV_OK);
    for (uint64_t step = 0; step < 3; step++) {
        give_grad(w, step, 1);
        give_grad(table, step, 1);
        give_grad(alone, step, 1);
        assert_int_equal(qkv_optimizer_step(muon, &(qkv_optimizer_step_args){.lr = 0.2}, NULL),
                         QKV_OK);
        assert_int_equal(qkv_optimizer_step(adamw, &(qkv_optimizer_step_args){.lr = 0.1}, NULL),
                         QKV_OK);
    }
    assert_memory_equal(qkv_param_data(table), qkv_param_data(alone), 15 * sizeof(qkv_real));
    double scale;
    assert_true(qkv_optimizer_group_of(muon, table, &scale, NULL));
    assert_near(scale, 0.5);
    assert_true(qkv_optimizer_group_of(muon, w, &scale, NULL));
    assert_near(scale, 1);
    assert_int_equal(qkv_optimizer_state_count(muon), 4);
    assert_string_equal(qkv_optimizer_state(muon, 1).what, "momentum_buffer");
    assert_string_equal(qkv_optimizer_state(muon, 3).what, "exp_avg_sq");
    /* 5 iterations of 2 (2 m^2 n + m^3) and 2 m^2 n */
    assert_near(qkv_optimizer_flops(muon), 5 * (4 * 16 * 6 + 2 * 64));
    assert_near(qkv_optimizer_flops(adamw), 0);
    qkv_optimizer_destroy(muon);
    qkv_optimizer_destroy(adamw);
    qkv_params_destroy(other);
}

/* A llama of 2 heads of 4. 0: the field's default. */
static qkv_model *tiny_llama(fixture *f, size_t layers, size_t kv_heads, size_t ff_width)
{
    qkv_gpt_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(qkv_llama_type()), &c);
    c.vocab = 11;
    c.positions = 8;
    c.width = 8;
    c.layers = layers;
    c.heads = 2;
    c.kv_heads = kv_heads;
    c.ff_width = ff_width;
    assert_int_equal(qkv_model_create(&m, f->ctx, qkv_llama_type(), &c), QKV_OK);
    return m;
}

/* Of a network the blocks' matrices, with queries, keys and values apart. */
static void test_hidden_of_models(void **state)
{
    fixture *f = *state;
    qkv_model *m = tiny_llama(f, 2, 1, 0);
    qkv_params *ps = qkv_model_params(m);
    size_t found = 0;
    for (size_t i = 0; i < qkv_params_count(ps); i++)
        found += qkv_param_hidden(qkv_params_at(ps, i), 0) > 0;
    assert_int_equal(found, 2 * 4);
    const struct {
        const char *name;
        size_t rows[4];
    } some[] = {{"h.1.attn.qkv.weight", {8, 4, 4}}, {"h.0.attn.out.weight", {8}}, {"tokens", {0}}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const qkv_param *p = qkv_params_find(ps, some[i].name);
        assert_non_null(p);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(qkv_param_hidden(p, k), some[i].rows[k]);
    }
    qkv_model_destroy(m);
    qkv_mha_config mha = qkv_mha_defaults();
    mha.width = 6;
    mha.memory_width = 10;
    mha.heads = 3;
    mha.cross = true;
    const qkv_mha_params *p = qkv_mha_parameters(qkv_mha_create(f->ps, &mha, "cross", 0));
    assert_int_equal(qkv_param_hidden(p->q_weight, 0), 6);
    assert_int_equal(qkv_param_hidden(p->kv_weight, 1), 6);
    assert_int_equal(qkv_param_hidden(p->kv_weight, 2), 0);
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void refused(fixture *f, const qkv_optimizer_options *oo, const char *said)
{
    qkv_optimizer *o;
    assert_int_equal(qkv_optimizer_create(&o, f->ps, oo, NULL, 0), QKV_E_ARGUMENT);
    assert_null(o);
    if (!strstr(qkv_context_message(f->ctx), said))
        fail_msg("%s; %s expected", qkv_context_message(f->ctx), said);
}

static void test_refused(void **state)
{
    fixture *f = *state;
    const qkv_optimizer_options fine = qkv_optimizer_defaults(QKV_OPTIMIZER_MUON);
    qkv_optimizer_options oo = fine;
    (void)matrix(f->ps, "tokens", 5, 3);
    refused(f, &fine, "hidden layer");
    qkv_param_freeze(hidden(f->ps, "w", 4, 6), true);
    refused(f, &fine, "hidden layer");
    qkv_param_freeze(qkv_params_find(f->ps, "w"), false);
    oo.muon_steps = 0;
    refused(f, &oo, "muon_steps is 0; 1 to 99");
    oo.muon_steps = 100;
    refused(f, &oo, "muon_steps is 100");
    oo = fine;
    oo.muon_momentum = 1;
    refused(f, &oo, "muon_momentum is 1; 0 <=");
    oo = fine;
    oo.muon_eps = 0;
    refused(f, &oo, "muon_eps is 0");
    oo.muon_eps = NAN;
    refused(f, &oo, "muon_eps");
    oo = fine;
    oo.adamw_lr_scale = -1;
    refused(f, &oo, "adamw_lr_scale is -1; 0 or more");
    oo = fine;
    oo.muon_adjust = QKV_MUON_ADJUST_COUNT;
    refused(f, &oo, "muon_adjust 3");
}

static void test_refused_declarations(void **state)
{
    fixture *f = *state;
    qkv_param *w = hidden(f->ps, "w", 7, 6);
    const size_t n = 7, rows[] = {3, 4, 0, 0, 0}, ones[] = {1, 1, 1, 1, 3}, huge[] = {8, SIZE_MAX};
    assert_int_equal(qkv_param_set_hidden(qkv_param_create(f->ps, "b", 1, &n), 1, &n),
                     QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(f->ctx), "b: 1 to 4 matrices"));
    assert_int_equal(qkv_param_set_hidden(w, 0, rows), QKV_E_ARGUMENT);
    assert_int_equal(qkv_param_set_hidden(w, 1, rows), QKV_E_ARGUMENT);
    assert_int_equal(qkv_param_set_hidden(w, 3, rows), QKV_E_ARGUMENT);
    assert_int_equal(qkv_param_set_hidden(w, 5, ones), QKV_E_ARGUMENT);
    assert_int_equal(qkv_param_set_hidden(w, 2, huge), QKV_E_ARGUMENT);
    assert_int_equal(qkv_param_hidden(w, 0), 7);
    assert_int_equal(qkv_param_set_hidden(w, 2, rows), QKV_OK);
    assert_int_equal(qkv_param_hidden(w, 1), 4);
    assert_int_equal(qkv_param_hidden(w, 4), 0);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Whichever allocation fails, nothing leaks; a step takes none after the first, whose products and
 * sums may need scratch. */
static void test_memory(void **state)
{
    (void)state;
    failing f = {.left = SIZE_MAX};
    const qkv_context_options co = failing_options(&f);
    const qkv_optimizer_options oo = qkv_optimizer_defaults(QKV_OPTIMIZER_MUON);
    qkv_context *ctx;
    qkv_params *ps;
    assert_int_equal(qkv_context_create(&ctx, &co), QKV_OK);
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    qkv_param *w = hidden(ps, "w", 140, 200), *b = matrix(ps, "tokens", 5, 3);
    give_grad(w, 1, 1);
    give_grad(b, 2, 1);
    size_t before = f.live, failures = 0;
    qkv_optimizer *o = NULL;
    for (size_t n = 0; !o; n++) {
        f.left = n;
        if (qkv_optimizer_create(&o, ps, &oo, NULL, 0)) {
            assert_int_equal(f.live, before);
            failures++;
        }
    }
    assert_true(failures >= 5);
    const qkv_optimizer_step_args one = {.lr = 1};
    f.left = SIZE_MAX;
    assert_int_equal(qkv_optimizer_step(o, &one, NULL), QKV_OK);
    f.left = 0;
    assert_int_equal(qkv_optimizer_step(o, &one, NULL), QKV_OK);
    assert_true(qkv_optimizer_bytes(o) >= (2 * 140 * 200 + 30 + 140 * 200 + 2 * 140 * 140) *
                                              sizeof(qkv_real));
    f.left = SIZE_MAX;
    qkv_optimizer_destroy(o);
    qkv_params_destroy(ps);
    qkv_context_destroy(ctx);
    assert_int_equal(f.live, 0);
}

/* ---- what a run is told -------------------------------------------------------------------- */

typedef struct {
    qkv_params *ps;
    double flops;
    int notes;
    char note[256];
} script;

static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    const script *s = self;
    qkv_tensor *sum = NULL;
    (void)part;
    for (size_t i = 0; i < qkv_params_count(s->ps); i++) {
        qkv_tensor *x = qkv_use(t, qkv_params_at(s->ps, i));
        x = qkv_sum(t, qkv_mul(t, x, x));
        sum = sum ? qkv_add(t, sum, x) : x;
    }
    return sum;
}

static double flops_of(void *self) { return ((script *)self)->flops; }

static bool on_event(void *user, const qkv_train_event *e)
{
    script *s = user;
    if (e->kind == QKV_TRAIN_NOTE) {
        s->notes++;
        snprintf(s->note, sizeof s->note, "%s", e->text);
    }
    return true;
}

static void train_one(script *s, qkv_model *m, qkv_optimizer_kind kind)
{
    const qkv_task_type type = {.name = "script", .phases = 1, .loss = loss, .flops = flops_of};
    const qkv_optimizer_options oo = qkv_optimizer_defaults(kind);
    qkv_task task = {&type, s, m, 1, false};
    qkv_train_options o = qkv_train_defaults();
    o.steps = 2;
    o.batch = 4;
    s->notes = 0;
    assert_int_equal(qkv_train(&task, &o, &oo, NULL, NULL, false, on_event, s, NULL), QKV_OK);
}

static void test_large_share(void **state)
{
    fixture *f = *state;
    qkv_model *m = tiny_llama(f, 1, 0, 8);
    assert_int_equal(qkv_model_init(m, 3), QKV_OK);
    /* 7 matrices of 8 x 8: 5 iterations of 6 m^3 each */
    double own = 7.0 * 5 * 6 * 512;
    script s = {.ps = qkv_model_params(m), .flops = own / 12};
    train_one(&s, m, QKV_OPTIMIZER_MUON);
    assert_int_equal(s.notes, 1);
    assert_non_null(strstr(s.note, "is 75 % of an update's arithmetic"));
    assert_non_null(strstr(s.note, "--batch 108 it is 10 %"));
    s.flops = own * 3;
    train_one(&s, m, QKV_OPTIMIZER_MUON);
    assert_int_equal(s.notes, 0);
    s.flops = own / 12;
    train_one(&s, m, QKV_OPTIMIZER_ADAMW);
    assert_int_equal(s.notes, 0);
    qkv_model_destroy(m);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(test_orthogonal),
        EACH(test_size_of_gradient),
        EACH(test_rest_is_adamws),
        EACH(test_hidden_of_models),
        EACH(test_refused),
        EACH(test_refused_declarations),
        cmocka_unit_test(test_memory),
        EACH(test_large_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
