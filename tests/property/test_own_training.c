/* A network and a loss of a program's own, with an op of its own and dropout, get from the loop
 * what the library's have: a run that is stopped and resumed ends with the bits of one that was
 * not, in one pass a batch or several, with AdamW and with Muon; what was saved is what was
 * evaluated best; probes see its tensors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "qkv.h"

enum { IN = 3, HIDDEN = 8, BATCH = 8, STEPS = 30 };

typedef struct {
    qkv_linear_layer first, second;
} network;

static qkv_status make(qkv_model *m)
{
    network *n = qkv_model_self(m);
    (void)qkv_linear_create(&n->first, qkv_model_params(m), "first", IN, HIDDEN);
    (void)qkv_linear_create(&n->second, qkv_model_params(m), "second", HIDDEN, 1);
    const size_t rows[] = {HIDDEN / 2, HIDDEN / 2};
    return qkv_param_set_hidden(n->first.weight, 2, rows);
}

/* y = x + sin^2(x) (Ziyin et al. 2020); its derivative is saved. */
static bool snake_shape(const qkv_op_call *c, qkv_op_shape *out)
{
    out->saved = qkv_count(c->x[0]);
    return true;
}

static void snake_forward(const qkv_op_call *c)
{
    for (size_t i = 0; i < c->count; i++) {
        double x = (double)c->in[0][i];
        c->out[i] = (qkv_real)(x + sin(x) * sin(x));
        c->saved[i] = (qkv_real)(1 + sin(2 * x));
    }
}

static void snake_backward(const qkv_op_call *c)
{
    for (size_t i = 0; i < c->count; i++)
        c->grad_in[0][i] = c->grad_out[i] * c->saved[i];
}

static const qkv_op_type snake = {"snake", snake_shape, snake_forward, snake_backward};

static qkv_tensor *error(const network *n, qkv_tape *t, size_t first, size_t count)
{
    qkv_real x[BATCH][IN], y[BATCH];
    const size_t in[] = {count, IN}, out[] = {count, 1};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < IN; k++)
            x[i][k] = (qkv_real)sin((double)(IN * (first + i) + k));
        y[i] = x[i][0] * x[i][1] - x[i][2];
    }
    qkv_tensor *h = qkv_linear_forward(&n->first, t, qkv_tensor_from(t, x[0], 2, in),
                                       QKV_ACT_NONE);
    h = qkv_dropout(t, qkv_probe(t, "hidden", qkv_apply(t, &snake, 1, &h, NULL, 0)), 0.1, 0);
    h = qkv_linear_forward(&n->second, t, h, QKV_ACT_NONE);
    return qkv_mse_loss(t, h, qkv_tensor_from(t, y, 2, out));
}

static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    size_t first = (size_t)part->step * part->total + part->first;
    return qkv_scale(t, error(self, t, first, part->count),
                     (double)part->count / (double)part->total);
}

static qkv_status evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    (void)limit;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_metrics_add(out, "loss", (double)qkv_item(t, error(self, t, 1000000, BATCH)));
    return qkv_tape_status(t);
}

static const qkv_model_type own = {.name = "own_network", .make = make,
                                   .self_size = sizeof(network)};
static const qkv_task_type task_type = {.name = "own_task", .unit = "rows", .phases = 1,
                                        .loss = loss, .evaluate = evaluate};

static bool until(void *user, const qkv_train_event *e)
{
    return e->kind != QKV_TRAIN_STEP || e->step < *(const uint64_t *)user;
}

static qkv_model *run(const char *dir, bool resume, uint64_t step, size_t parts, double ema,
                      qkv_optimizer_kind kind)
{
    const qkv_optimizer_options optimizer = qkv_optimizer_defaults(kind);
    qkv_model *m;
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result result;
    o.steps = STEPS;
    o.batch = BATCH;
    o.accumulation_steps = parts;
    o.ema = ema;
    o.eval_every = 7;
    o.clip = 1;
    assert_int_equal(qkv_model_create(&m, ctx, &own, NULL), QKV_OK);
    assert_int_equal(qkv_model_init(m, resume ? 99 : 1), QKV_OK); /* a checkpoint has it all */
    qkv_task task = {&task_type, qkv_model_self(m), m, 5, true};
    if (qkv_train(&task, &o, &optimizer, NULL, dir, resume, until, &step, &result))
        fail_msg("%s", qkv_context_message(ctx));
    assert_int_equal(result.step, step);
    return m;
}

static bool same(qkv_model *a, qkv_model *b)
{
    for (size_t i = 0; i < qkv_params_count(qkv_model_params(a)); i++) {
        qkv_param *p = qkv_params_at(qkv_model_params(a), i);
        qkv_param *q = qkv_params_at(qkv_model_params(b), i);
        if (memcmp(qkv_param_data(p), qkv_param_data(q), qkv_param_count(p) * sizeof(qkv_real)))
            return false;
    }
    return true;
}

static void resumed_is_straight(void **state)
{
    (void)state;
    static const struct {
        size_t parts;
        double ema;
        uint64_t stops[3];
        qkv_optimizer_kind kind;
    } runs[] = {{1, 0, {0}, QKV_OPTIMIZER_ADAMW},
                {1, 0.9, {10}, QKV_OPTIMIZER_ADAMW},
                {3, 0.9, {1, 13, 29}, QKV_OPTIMIZER_ADAMW},
                {3, 0.9, {1, 13, 29}, QKV_OPTIMIZER_MUON}};
    assert_int_equal(qkv_model_type_register(ctx, &own), QKV_OK);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char straight[PATH_BYTES + 16], stopped[PATH_BYTES + 16];
        snprintf(straight, sizeof straight, "%s/straight%zu", folder, i);
        snprintf(stopped, sizeof stopped, "%s/stopped%zu", folder, i);
        qkv_model *a = run(straight, false, STEPS, runs[i].parts, runs[i].ema, runs[i].kind);
        qkv_model *b, *c;
        for (size_t k = 0; k < 3 && runs[i].stops[k]; k++) {
            b = run(stopped, k > 0, runs[i].stops[k], runs[i].parts, runs[i].ema, runs[i].kind);
            assert_false(same(a, b));
            qkv_model_destroy(b);
        }
        b = run(stopped, runs[i].stops[0] > 0, STEPS, runs[i].parts, runs[i].ema,
                runs[i].kind);
        assert_true(same(a, b));
        assert_int_equal(qkv_hub_load(&c, ctx, stopped), QKV_OK);
        qkv_model_destroy(b);
        assert_int_equal(qkv_hub_load(&b, ctx, straight), QKV_OK);
        assert_true(same(b, c));
        qkv_model_destroy(a);
        qkv_model_destroy(b);
        qkv_model_destroy(c);
    }
}

static qkv_tensor *whole_error(void *self, qkv_tape *t) { return error(self, t, 3, BATCH); }

/* With dropout too, which is the same each time. */
static void its_gradients_are_right(void **state)
{
    (void)state;
    qkv_model *m;
    qkv_gradient_result r;
    const qkv_gradient_options o = {.train = true, .samples = 64};
    assert_int_equal(qkv_model_create(&m, ctx, &own, NULL), QKV_OK);
    assert_int_equal(qkv_model_init(m, 1), QKV_OK);
    if (qkv_gradient_check(qkv_model_params(m), whole_error, qkv_model_self(m), &o, &r))
        fail_msg("%s", qkv_context_message(ctx));
    assert_true(r.checked == HIDDEN * (IN + 1) + HIDDEN + 1 && r.worst < 2e-3);
    qkv_model_destroy(m);
}

static qkv_tensor *count_probe(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    assert_string_equal(name, "hidden");
    assert_int_equal(qkv_dim(x, 1), HIDDEN);
    assert_int_equal(qkv_tape_status(t), QKV_OK);
    ++*(int *)user;
    return x;
}

static void probes_see_it(void **state)
{
    (void)state;
    int seen = 0;
    qkv_model *m;
    qkv_tape *t;
    assert_int_equal(qkv_model_create(&m, ctx, &own, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_int_equal(qkv_probe_add(t, "hid*", count_probe, &seen), QKV_OK);
    assert_non_null(error(qkv_model_self(m), t, 0, 2));
    assert_int_equal(seen, 1);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_is_straight),
        cmocka_unit_test(its_gradients_are_right),
        cmocka_unit_test(probes_see_it),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
