/* What a program brings of its own: ops, their gradients' check, model types, tasks. */
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

static qkv_tape *t;

static int set_up_tape(void **state)
{
    return set_up(state) || qkv_tape_create(&t, ctx);
}

static int tear_down_tape(void **state)
{
    qkv_tape_destroy(t);
    return tear_down(state);
}

static void expect_message(const char *words)
{
    if (!strstr(qkv_context_message(ctx), words))
        fail_msg("\"%s\" expected in: %s", words, qkv_context_message(ctx));
}

/* ---- an op with all that there is ------------------------------------------------------------ */

/* y[i, c] = scale sum over k of table[ids[i], k] w[k, c]; bias[c] is added where there is one. The
 * picked rows are saved; scratch holds a row on the way back. */
typedef struct {
    qkv_real scale;
} pick_params;

static bool pick_shape(const qkv_op_call *c, qkv_op_shape *out)
{
    if (c->inputs < 3 || qkv_ndim(c->x[0]) != 2 || qkv_ndim(c->x[1]) != 2 ||
        qkv_dim(c->x[0], 1) != qkv_dim(c->x[1], 0) || qkv_tensor_dtype(c->x[2]) != QKV_I32)
        return qkv_tape_fail(c->tape, "pick", "%d inputs do not fit", c->inputs);
    out->shape[0] = qkv_dim(c->x[2], 0);
    out->shape[1] = qkv_dim(c->x[1], 1);
    out->saved = out->shape[0] * qkv_dim(c->x[0], 1);
    out->scratch = qkv_dim(c->x[0], 1);
    return true;
}

static void pick_forward(const qkv_op_call *c)
{
    const pick_params *p = c->params;
    size_t K = qkv_dim(c->x[0], 1), C = qkv_dim(c->x[1], 1), N = c->count / C;
    for (size_t i = 0; i < N; i++) {
        memcpy(c->saved + i * K, c->in[0] + (size_t)c->ids[2][i] * K, K * sizeof *c->saved);
        memcpy(c->scratch, c->saved + i * K, K * sizeof *c->saved);
        for (size_t j = 0; j < C; j++) {
            qkv_real sum = c->inputs > 3 && c->in[3] ? c->in[3][j] / p->scale : 0;
            for (size_t k = 0; k < K; k++)
                sum += c->scratch[k] * c->in[1][k * C + j];
            c->out[i * C + j] = p->scale * sum;
        }
    }
}

static void pick_backward(const qkv_op_call *c)
{
    const pick_params *p = c->params;
    size_t K = qkv_dim(c->x[0], 1), C = qkv_dim(c->x[1], 1), N = c->count / C;
    for (int i = 0; i < c->inputs; i++)
        if (c->grad_in[i])
            memset(c->grad_in[i], 0, qkv_count(c->x[i]) * sizeof *c->grad_in[i]);
    assert_null(c->grad_in[2]);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < C; j++) {
            qkv_real g = p->scale * c->grad_out[i * C + j];
            if (c->inputs > 3 && c->grad_in[3])
                c->grad_in[3][j] += c->grad_out[i * C + j];
            for (size_t k = 0; k < K; k++) {
                c->scratch[k] = g * c->in[1][k * C + j];
                if (c->grad_in[0])
                    c->grad_in[0][(size_t)c->ids[2][i] * K + k] += c->scratch[k];
                if (c->grad_in[1])
                    c->grad_in[1][k * C + j] += g * c->saved[i * K + k];
            }
        }
}

static const qkv_op_type pick = {"pick", pick_shape, pick_forward, pick_backward};
static const pick_params half = {(qkv_real)0.5};

enum { ROWS = 4, K = 3, C = 2, PICKED = 5 };
static const int32_t places[PICKED] = {3, 0, 0, 2, 3};

typedef struct {
    qkv_param *table, *w, *bias;
} operands;

static operands make_operands(qkv_params *ps)
{
    const size_t table[] = {ROWS, K}, w[] = {C, K}, bias[] = {C};
    operands o = {qkv_param_create(ps, "table", 2, table), qkv_param_create(ps, "w", 2, w),
                  qkv_param_create(ps, "bias", 1, bias)};
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        for (size_t k = 0; k < qkv_param_count(qkv_params_at(ps, i)); k++)
            qkv_param_data(qkv_params_at(ps, i))[k] = (qkv_real)sin((double)(7 * i + k + 1));
        qkv_param_touch(qkv_params_at(ps, i));
    }
    return o;
}

/* w is stored the other way round: the op gets it dense. */
static qkv_tensor *by_own_op(void *user, qkv_tape *tape)
{
    const operands *o = user;
    static const int turned[] = {1, 0};
    const size_t n[] = {PICKED};
    qkv_tensor *in[] = {qkv_use(tape, o->table), qkv_permute(tape, qkv_use(tape, o->w), turned),
                        qkv_tensor_ids(tape, places, 1, n), qkv_use(tape, o->bias)};
    return qkv_apply(tape, &pick, 4, in, &half, sizeof half);
}

static qkv_tensor *by_library(void *user, qkv_tape *tape)
{
    const operands *o = user;
    const size_t n[] = {PICKED};
    qkv_tensor *x = qkv_embedding(tape, qkv_tensor_ids(tape, places, 1, n),
                                  qkv_use(tape, o->table), 1, NULL, NULL);
    x = qkv_scale(tape, qkv_linear(tape, x, qkv_use(tape, o->w), NULL, QKV_ACT_NONE), 0.5);
    return qkv_add(tape, x, qkv_use(tape, o->bias));
}

/* Twice in one sum, so that later gradients are added; x + x of one parameter too. */
static void same_as_the_library(void **state)
{
    (void)state;
    enum { MOST = ROWS * K };
    qkv_params *ps;
    qkv_real values[2][PICKED * C], gradients[2][3][MOST];
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    operands o = make_operands(ps);
    for (int own = 0; own < 2; own++) {
        qkv_function *fn = own ? by_own_op : by_library;
        qkv_tape_reset(t);
        qkv_tensor *y = fn(&o, t), *z = qkv_mul(t, y, fn(&o, t));
        assert_int_equal(qkv_backward(t, qkv_sum(t, z)), QKV_OK);
        memcpy(values[own], qkv_data(t, y), sizeof values[own]);
        for (size_t i = 0; i < 3; i++)
            memcpy(gradients[own][i], qkv_param_grad(qkv_params_at(ps, i)),
                   qkv_param_count(qkv_params_at(ps, i)) * sizeof(qkv_real));
        qkv_params_zero_grad(ps);
    }
    for (size_t k = 0; k < PICKED * C; k++)
        assert_true(fabs((double)(values[0][k] - values[1][k])) < 1e-6);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < qkv_param_count(qkv_params_at(ps, i)); k++)
            if (!(fabs((double)(gradients[0][i][k] - gradients[1][i][k])) < 1e-5))
                fail_msg("%s[%zu]: %g, by the library %g", qkv_param_name(qkv_params_at(ps, i)), k,
                         (double)gradients[1][i][k], (double)gradients[0][i][k]);
    qkv_params_destroy(ps);
}

/* ---- an op that gets one input twice -------------------------------------------------------- */

static void product_forward(const qkv_op_call *c)
{
    for (size_t i = 0; i < c->count; i++)
        c->out[i] = c->in[0][i] * c->in[1][i];
}

static void product_backward(const qkv_op_call *c)
{
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < c->count && c->grad_in[s]; i++)
            c->grad_in[s][i] = c->grad_out[i] * c->in[1 - s][i];
}

static const qkv_op_type product = {"product", NULL, product_forward, product_backward};

static void one_input_twice(void **state)
{
    (void)state;
    const qkv_real data[] = {1, -2, 3};
    const size_t shape[] = {3};
    qkv_tensor *x = qkv_require_grad(t, qkv_tensor_from(t, data, 1, shape));
    qkv_tensor *in[] = {x, x};
    assert_int_equal(qkv_backward(t, qkv_sum(t, qkv_apply(t, &product, 2, in, NULL, 0))), QKV_OK);
    for (size_t i = 0; i < 3; i++)
        assert_true(qkv_data(t, qkv_grad_of(t, x))[i] == 2 * data[i]);
}

static void ops_fail_with_a_sentence(void **state)
{
    (void)state;
    const size_t shape[] = {2, 2};
    qkv_tensor *x = qkv_tensor_from(t, NULL, 2, shape), *in[] = {x, x, x, NULL};
    qkv_name_push(t, "h.%d", 3);
    assert_null(qkv_apply(t, &pick, 3, in, &half, sizeof half));
    expect_message("pick at h.3: 3 inputs do not fit");
    assert_int_equal(qkv_tape_status(t), QKV_E_ARGUMENT);
    assert_null(qkv_tape_fail(t, "later", "is not said"));
    expect_message("pick at h.3");
    qkv_tape_reset(t);
    in[0] = NULL;
    assert_null(qkv_apply(t, &product, 1, in, NULL, 0));
    expect_message("product: input 0 is NULL");
    qkv_tape_reset(t);
    in[0] = qkv_tensor_from(t, NULL, 2, shape);
    assert_null(qkv_apply(t, &product, QKV_OP_INPUTS + 1, in, NULL, 0));
    expect_message("9 inputs: 1 to 8 expected");
}

/* ---- the check of gradients ----------------------------------------------------------------- */

static void wrong_backward(const qkv_op_call *c)
{
    product_backward(c);
    for (size_t i = 0; i < c->count; i++) /* 2.5 % of the whole gradient */
        c->grad_in[0][i] *= (qkv_real)1.05;
}

static const qkv_op_type wrong_product = {"wrong", NULL, product_forward, wrong_backward};

static qkv_tensor *wrong_function(void *user, qkv_tape *tape)
{
    const operands *o = user;
    qkv_tensor *in[] = {qkv_use(tape, o->table), qkv_use(tape, o->table)};
    return qkv_softmax(tape, qkv_apply(tape, &wrong_product, 2, in, NULL, 0));
}

static qkv_tensor *no_function(void *user, qkv_tape *tape)
{
    return user ? NULL : qkv_tape_fail(tape, "fn", "%s", "did not want to");
}

static void gradients_are_checked(void **state)
{
    (void)state;
    qkv_params *ps;
    qkv_gradient_result r;
    qkv_real before[ROWS * K];
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    operands o = make_operands(ps);
    memcpy(before, qkv_param_data(o.table), sizeof before);
    if (qkv_gradient_check(ps, by_own_op, &o, NULL, &r))
        fail_msg("%s", qkv_context_message(ctx));
    assert_true(r.worst < 1e-3 && r.param && r.checked == ROWS * K + C * K + C);
    assert_memory_equal(before, qkv_param_data(o.table), sizeof before);
    assert_int_equal(qkv_gradient_check(ps, wrong_function, &o, NULL, &r), QKV_E_NUMERIC);
    expect_message("gradient of table[");
    assert_memory_equal(before, qkv_param_data(o.table), sizeof before);
    assert_int_equal(qkv_gradient_check(ps, no_function, NULL, NULL, NULL), QKV_E_ARGUMENT);
    expect_message("fn: did not want to");
    assert_int_equal(qkv_gradient_check(ps, no_function, &o, NULL, NULL), QKV_E_ARGUMENT);
    expect_message("no output");
    qkv_param_freeze(o.table, true);
    const qkv_gradient_options some = {.samples = 2, .seed = 4};
    assert_int_equal(qkv_gradient_check(ps, by_own_op, &o, &some, &r), QKV_OK);
    assert_int_equal(r.checked, 4); /* of w and of bias */
    qkv_params_destroy(ps);
}

/* ---- model types ---------------------------------------------------------------------------- */

typedef struct {
    size_t width;
    double slope;
} own_config;

static const qkv_option own_rows[] = {
    {.key = "width", .type = QKV_OPT_SIZE, .min = 1, .max = 64,
     .offset = offsetof(own_config, width), .initial = "3", .help = "numbers"},
    {.key = "slope", .type = QKV_OPT_REAL, .max = 9, .offset = offsetof(own_config, slope),
     .initial = "0.5", .help = "of all"},
};
static const qkv_option_table own_table = {"Own", own_rows, 2, sizeof(own_config)};

typedef struct {
    qkv_linear_layer layer;
    qkv_param *fixed;
} own_self;

static qkv_status make_own(qkv_model *m)
{
    const own_config *c = qkv_model_config(m);
    own_self *self = qkv_model_self(m);
    if (c->width == 13)
        return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "own: %d is no width", 13);
    (void)qkv_linear_create(&self->layer, qkv_model_params(m), "layer", c->width, 2);
    self->fixed = qkv_param_create(qkv_model_params(m), "fixed", 1, &c->width);
    qkv_param_freeze(self->fixed, true);
    qkv_param_data(self->fixed)[0] = 7;
    qkv_param_touch(self->fixed);
    return QKV_OK;
}

static const qkv_model_type own = {.name = "own", .config = &own_table,
                                   .config_size = sizeof(own_config), .make = make_own,
                                   .self_size = sizeof(own_self)};

static void types_are_registered(void **state)
{
    (void)state;
    const qkv_model_type nameless = {.make = make_own}, gpt2 = {.name = "gpt2", .make = make_own};
    const qkv_model_type again = {.name = "own", .make = make_own}, idle = {.name = "idle"};
    qkv_model_type double_gpt2 = gpt2;
    double_gpt2.architecture = "GPT2LMHeadModel";
    const qkv_model_type *const bad[] = {&nameless, &idle, &double_gpt2};
    assert_null(qkv_model_type_find(ctx, "own", NULL));
    assert_int_equal(qkv_model_type_register(ctx, &own), QKV_OK);
    assert_int_equal(qkv_model_type_register(ctx, &own), QKV_OK);
    assert_ptr_equal(qkv_model_type_find(ctx, "own", NULL), &own);
    assert_null(qkv_model_type_find(NULL, "own", NULL));
    assert_int_equal(qkv_model_type_register(ctx, &again), QKV_E_ARGUMENT);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qkv_model *m;
        assert_int_equal(qkv_model_type_register(ctx, bad[i]), QKV_E_ARGUMENT);
        if (bad[i] != &double_gpt2)
            assert_int_equal(qkv_model_create(&m, ctx, bad[i], NULL), QKV_E_ARGUMENT);
    }
    assert_int_equal(qkv_model_type_register(ctx, &gpt2), QKV_OK); /* another architecture */
    assert_ptr_equal(qkv_model_type_find(ctx, "gpt2", "GPT2LMHeadModel"), qkv_gpt2_type());
    assert_ptr_equal(qkv_model_type_find(ctx, "gpt2", "gpt2"), &gpt2);
}

/* Saved and loaded by name, the configuration and what is frozen too; init draws matrices alone. */
static void own_models_are_saved(void **state)
{
    (void)state;
    own_config c = {.width = 5, .slope = 2};
    qkv_model *m, *back;
    assert_int_equal(qkv_model_create(&m, ctx, &own, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 3), QKV_OK);
    own_self *self = qkv_model_self(m);
    assert_true(qkv_param_data(self->fixed)[0] == 7 && qkv_param_data(self->layer.bias)[0] == 0);
    assert_true(qkv_param_data(self->layer.weight)[0] != 0);
    assert_int_equal(qkv_hub_save(m, folder, NULL), QKV_OK);
    assert_int_equal(qkv_hub_load(&back, ctx, folder), QKV_E_FORMAT); /* nobody knows it yet */
    expect_message("\"own\" found");
    assert_int_equal(qkv_model_type_register(ctx, &own), QKV_OK);
    if (qkv_hub_load(&back, ctx, folder))
        fail_msg("%s", qkv_context_message(ctx));
    assert_ptr_equal(qkv_model_type_of(back), &own);
    assert_memory_equal(qkv_model_config(back), &c, sizeof c);
    for (size_t i = 0; i < qkv_params_count(qkv_model_params(m)); i++) {
        qkv_param *p = qkv_params_at(qkv_model_params(m), i);
        qkv_param *q = qkv_params_at(qkv_model_params(back), i);
        assert_memory_equal(qkv_param_data(p), qkv_param_data(q),
                            qkv_param_count(p) * sizeof(qkv_real));
    }
    assert_true(qkv_model_flops(m, &(qkv_workload){.samples = 1}) == 0);
    expect_message("own models do not count operations");
    assert_null(qkv_model_type_preset_name(&own, 0, NULL));
    assert_false(qkv_model_type_preset(&own, "tiny", &c));
    assert_int_equal(qkv_lm_vocab(m), 0);
    expect_message("predicts the next token: a own does not");
    qkv_model_destroy(back);
    c.width = 13;
    assert_int_equal(qkv_model_create(&back, ctx, &own, &c), QKV_E_ARGUMENT);
    expect_message("own: 13 is no width");
    c.width = 65;
    assert_int_equal(qkv_model_create(&back, ctx, &own, &c), QKV_E_ARGUMENT);
    expect_message("own: width: an integer from 1 to 64 expected, found 65");
    qkv_model_destroy(m);
}

/* ---- tasks ---------------------------------------------------------------------------------- */

static qkv_tensor *silent_loss(void *self, qkv_tape *tape, const qkv_micro_batch *part)
{
    (void)tape;
    if (self)
        qkv_fail(ctx, QKV_E_FORMAT, "batch %d is not there", (int)part->step);
    return NULL;
}

static void tasks_fail_with_a_sentence(void **state)
{
    (void)state;
    qkv_train_options o = qkv_train_defaults();
    qkv_task_type type = qkv_task_type_defaults("own", silent_loss);
    qkv_model *m;
    assert_int_equal(qkv_model_create(&m, ctx, &own, NULL), QKV_OK);
    qkv_task task = {&type, NULL, m, 1, false};
    o.steps = 2;
    assert_int_equal(qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, NULL),
                     QKV_E_ARGUMENT);
    expect_message("step 1: task own: the loss is NULL");
    task.self = m;
    assert_int_equal(qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, NULL),
                     QKV_E_FORMAT);
    expect_message("step 1: batch 0 is not there");
    task.held_out = true; /* and nothing to evaluate by */
    assert_int_equal(qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, NULL),
                     QKV_E_ARGUMENT);
    expect_message("evaluate are required");
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_the_library),      cmocka_unit_test(one_input_twice),
        cmocka_unit_test(ops_fail_with_a_sentence), cmocka_unit_test(gradients_are_checked),
        cmocka_unit_test(types_are_registered),     cmocka_unit_test(own_models_are_saved),
        cmocka_unit_test(tasks_fail_with_a_sentence),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
