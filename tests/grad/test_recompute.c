/* test_recompute.c - functions whose tensors are not kept: the values, gradients and calls of a
 * tape that keeps everything, to the bit, in less memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"
#include "params.h"
#include "qkv/extend.h"

enum { ROWS = 6, WIDTH = 8, WEIGHTS = 3, LAYERS = 4 };

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_param *w[WEIGHTS], *mean, *variance;
    bool again;       /* through qkv_recompute */
    int calls, ready; /* of functions; of the callback */
    double complete[WEIGHTS]; /* an element of the gradient when the callback came */
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const size_t square[] = {WIDTH, WIDTH}, vector[] = {WIDTH};
    qkv_rng r;
    qkv_rng_init(&r, 3, 1);
    params_begin(&f->ctx, &f->t, &f->ps);
    for (int i = 0; i < WEIGHTS; i++) {
        f->w[i] = qkv_param_create(f->ps, "w", 2, square);
        for (size_t c = 0; c < WIDTH * WIDTH; c++)
            qkv_param_data(f->w[i])[c] = 0.5 * qkv_rng_normal(&r);
    }
    f->mean = qkv_param_create(f->ps, "mean", 1, vector);
    f->variance = qkv_param_create(f->ps, "variance", 1, vector);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    params_end(f->ctx, f->t, f->ps);
    free(f);
    return 0;
}

/* ---- functions ------------------------------------------------------------------------------ */

typedef struct {
    fixture *f;
    int layer;
    qkv_tensor *memory; /* from outside, not among the inputs */
    bool nested;
} part_args;

static bool run(qkv_tape *t, qkv_recomputed_fn *fn, const part_args *args, int n_in,
                qkv_tensor *const *in, int n_out, qkv_tensor **out)
{
    const qkv_recompute_args a = {fn, args, sizeof *args, n_in, n_out, in};
    if (args->f->again)
        return qkv_recompute(t, &a, out);
    qkv_tensor *from[QKV_RECOMPUTE_TENSORS];
    memcpy(from, in, (size_t)n_in * sizeof(qkv_tensor *));
    for (int i = 0; i < n_out; i++)
        out[i] = NULL;
    return fn(t, args, from, out);
}

/* x, branch -> the sum, a branch of it; weight 0 is every layer's. */
static bool layer(qkv_tape *t, const void *args, qkv_tensor *const *in, qkv_tensor **out)
{
    const part_args *a = args;
    fixture *f = a->f;
    f->calls++;
    qkv_tensor *x = in[1] ? qkv_add(t, in[0], in[1]) : in[0];
    const part_args inner = {f, a->layer + 1, a->memory, false};
    if (a->nested) {
        qkv_tensor *next[2], *from[] = {x, NULL};
        if (!run(t, layer, &inner, 2, from, 2, next))
            return false;
        x = qkv_add(t, next[0], next[1]);
    }
    qkv_tensor *y = qkv_linear(t, x, qkv_use(t, f->w[0]), NULL, QKV_ACT_GELU);
    y = qkv_dropout(t, y, 0.3, (uint32_t)a->layer);
    y = qkv_linear(t, y, qkv_use(t, f->w[1 + a->layer % 2]), NULL, QKV_ACT_NONE);
    y = qkv_batch_norm(t, y, NULL, NULL, &(qkv_running){f->mean, f->variance, NULL, 0.1}, 1e-5);
    out[0] = x;
    out[1] = qkv_mul(t, y, a->memory);
    return out[1] != NULL;
}

static qkv_tensor *rows(fixture *f, uint64_t seed)
{
    const size_t shape[] = {ROWS, WIDTH};
    double x[ROWS * WIDTH];
    qkv_rng r;
    qkv_rng_init(&r, seed, 2);
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        x[i] = qkv_rng_normal(&r);
    return qkv_tensor_from(f->t, x, 2, shape);
}

typedef struct {
    qkv_tensor *x, *memory, *loss;
} pass;

static pass forward(fixture *f, bool nested)
{
    qkv_tensor *out[2] = {NULL, NULL};
    pass p;
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, true);
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 5, .step = 7});
    p.x = qkv_require_grad(f->t, rows(f, 1));
    p.memory = qkv_require_grad(f->t, rows(f, 2));
    out[0] = p.x;
    for (int i = 0; i < LAYERS; i++) {
        const part_args args = {f, i, p.memory, nested};
        qkv_tensor *in[] = {out[0], out[1]};
        if (!run(f->t, layer, &args, 2, in, 2, out))
            break;
    }
    qkv_tensor *y = qkv_add(f->t, out[0], out[1]);
    p.loss = qkv_sum(f->t, qkv_mul(f->t, y, qkv_mul(f->t, y, rows(f, 3))));
    return p;
}

/* Numbers of a run, and of one that is to be the same. */
typedef struct {
    double values[4096];
    size_t count;
} numbers;

static void keep(numbers *n, const double *x, size_t count)
{
    assert_non_null(x);
    assert_true(n->count + count <= sizeof n->values / sizeof *n->values);
    memcpy(n->values + n->count, x, count * sizeof *x);
    n->count += count;
}

static void keep_tensor(numbers *n, fixture *f, const qkv_tensor *x)
{
    assert_non_null(x);
    keep(n, qkv_data(f->t, x), qkv_count(x));
}

static void keep_params(numbers *n, fixture *f)
{
    for (int i = 0; i < WEIGHTS; i++)
        keep(n, qkv_param_grad(f->w[i]), WIDTH * WIDTH);
}

static void expect_same(const numbers *a, const numbers *b)
{
    assert_true(a->count > 0 && a->count == b->count);
    assert_memory_equal(a->values, b->values, a->count * sizeof *a->values);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void on_ready(void *user, qkv_param *p)
{
    fixture *f = user;
    assert_non_null(qkv_param_grad(p));
    f->ready++;
    for (int i = 0; i < WEIGHTS; i++)
        if (f->w[i] == p)
            f->complete[i] = qkv_param_grad(p)[1];
}

/* Two passes whose gradients add up, with everything that a backward pass leaves behind. */
static numbers train(fixture *f, bool nested, bool again)
{
    numbers n = {.count = 0};
    f->again = again;
    f->ready = f->calls = 0;
    qkv_params_zero_grad(f->ps);
    for (size_t c = 0; c < WIDTH; c++) {
        qkv_param_data(f->mean)[c] = 0;
        qkv_param_data(f->variance)[c] = 1;
    }
    qkv_tape_on_grad_ready(f->t, on_ready, f);
    for (int i = 0; i < 2; i++) {
        pass p = forward(f, nested);
        keep(&n, (double[]){qkv_item(f->t, p.loss)}, 1);
        qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 99});
        qkv_tape_mode(f->t, true, false);
        assert_int_equal(qkv_backward(f->t, p.loss), QKV_OK);
        keep_tensor(&n, f, qkv_grad_of(f->t, p.x));
        keep_tensor(&n, f, qkv_grad_of(f->t, p.memory));
        keep_params(&n, f);
        for (int w = 0; w < WEIGHTS; w++)
            assert_true(f->complete[w] == qkv_param_grad(f->w[w])[1]);
    }
    qkv_tape_on_grad_ready(f->t, NULL, NULL);
    keep(&n, qkv_param_data(f->mean), WIDTH);
    keep(&n, qkv_param_data(f->variance), WIDTH);
    return n;
}

/* Dropout, statistics, a weight of all layers, a tensor from outside; one callback a weight,
 * when its gradient is complete. */
static void test_same_bits(void **state)
{
    fixture *f = *state;
    for (int nested = 0; nested < 2; nested++) {
        numbers kept = train(f, nested, false);
        int calls = f->calls;
        assert_int_equal(f->ready, 2 * WEIGHTS);
        numbers again = train(f, nested, true);
        expect_same(&kept, &again);
        assert_int_equal(f->calls, 2 * calls);
        assert_int_equal(f->ready, 2 * WEIGHTS);
    }
}

/* The graph stays for a second pass; one pass goes to chosen tensors alone. */
static numbers passes(fixture *f, bool again)
{
    numbers n = {.count = 0};
    f->again = again;
    f->ready = 0;
    qkv_params_zero_grad(f->ps);
    qkv_tape_on_grad_ready(f->t, on_ready, f);
    pass p = forward(f, true);
    qkv_tensor *weight = qkv_use(f->t, f->w[0]), *wrt[] = {p.memory, weight};
    qkv_backward_args first = {.n = 1, .outputs = &p.loss, .n_wrt = 2, .wrt = wrt,
                               .retain_graph = true};
    assert_int_equal(qkv_backward_from(f->t, &first), QKV_OK);
    assert_null(qkv_param_grad(f->w[0]));
    assert_int_equal(f->ready, 0);
    keep_tensor(&n, f, qkv_grad_of(f->t, p.memory));
    keep_tensor(&n, f, qkv_grad_of(f->t, weight));
    for (int i = 0; i < 2; i++) {
        qkv_backward_args all = {.n = 1, .outputs = &p.loss, .retain_graph = i == 0};
        assert_int_equal(qkv_backward_from(f->t, &all), QKV_OK);
        keep_params(&n, f);
    }
    assert_int_equal(f->ready, 2 * WEIGHTS);
    qkv_tape_on_grad_ready(f->t, NULL, NULL);
    assert_int_equal(qkv_backward(f->t, p.loss), QKV_E_SHAPE); /* the graph is gone */
    return n;
}

static void test_passes(void **state)
{
    fixture *f = *state;
    numbers kept = passes(f, false), again = passes(f, true);
    expect_same(&kept, &again);
}

/* Outputs of every kind: an input, a view of one, a tensor twice, parts of one, nothing. */
static bool odd_outputs(qkv_tape *t, const void *args, qkv_tensor *const *in, qkv_tensor **out)
{
    (void)args;
    const size_t sizes[] = {WIDTH / 2, WIDTH / 2}, flat[] = {ROWS * WIDTH};
    qkv_tensor *part[2], *y = qkv_mul(t, in[0], in[0]);
    if (!y || !qkv_split(t, y, -1, 2, sizes, part))
        return false;
    out[0] = in[0];
    out[1] = qkv_reshape(t, in[0], 1, flat);
    out[2] = out[3] = y;
    out[4] = part[1];
    out[5] = NULL;
    out[6] = qkv_detach(t, y);
    return true;
}

static numbers odd(fixture *f, bool again)
{
    numbers n = {.count = 0};
    const part_args args = {f, 0, NULL, false};
    f->again = again;
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, true);
    qkv_tensor *x = qkv_require_grad(f->t, rows(f, 1)), *out[7], *sum = NULL;
    assert_true(run(f->t, odd_outputs, &args, 1, &x, 7, out));
    assert_ptr_equal(out[0], x);
    assert_ptr_equal(out[2], out[3]);
    assert_null(out[5]);
    qkv_require_grad(f->t, out[2]);
    for (int i = 0; i < 7; i++)
        if (out[i]) {
            qkv_tensor *s = qkv_sum(f->t, qkv_mul(f->t, out[i], out[i]));
            sum = sum ? qkv_add(f->t, sum, s) : s;
        }
    assert_int_equal(qkv_backward(f->t, sum), QKV_OK);
    keep_tensor(&n, f, sum);
    keep_tensor(&n, f, qkv_grad_of(f->t, x));
    return n;
}

static void test_odd_outputs(void **state)
{
    fixture *f = *state;
    numbers kept = odd(f, false), again = odd(f, true);
    expect_same(&kept, &again);
}

/* A weight that was frozen, or was not, when the function ran stays so for its gradient. */
static void test_freezing(void **state)
{
    fixture *f = *state;
    f->again = true;
    qkv_param_freeze(f->w[0], true);
    pass p = forward(f, false);
    qkv_param_freeze(f->w[0], false);
    qkv_param_freeze(f->w[1], true);
    qkv_param_freeze(f->w[2], true);
    assert_int_equal(qkv_backward(f->t, p.loss), QKV_OK);
    assert_null(qkv_param_grad(f->w[0]));
    assert_non_null(qkv_param_grad(f->w[1]));
    assert_non_null(qkv_param_grad(f->w[2]));
}

static qkv_tensor *checked(void *user, qkv_tape *t)
{
    fixture *f = user;
    (void)t;
    qkv_tensor *out[2], *in[] = {rows(f, 1), NULL};
    const part_args args = {f, 0, rows(f, 2), true};
    return run(f->t, layer, &args, 2, in, 2, out) ? qkv_add(f->t, out[0], out[1]) : NULL;
}

static qkv_tensor *on_tape(void *user, qkv_tape *t)
{
    fixture *f = user;
    qkv_tape *own = f->t;
    f->t = t;
    qkv_tensor *y = checked(f, t);
    f->t = own;
    return y;
}

static void test_differences(void **state)
{
    fixture *f = *state;
    f->again = true;
    qkv_param_freeze(f->mean, true);
    qkv_param_freeze(f->variance, true);
    const qkv_gradient_options o = {.train = true, .seed = 2};
    qkv_gradient_result r;
    if (qkv_gradient_check(f->ps, on_tape, f, &o, &r))
        fail_msg("%s", qkv_context_message(f->ctx));
    assert_true(r.checked >= 3 * 16);
}

/* ---- memory --------------------------------------------------------------------------------- */

static bool wide(qkv_tape *t, const void *args, qkv_tensor *const *in, qkv_tensor **out)
{
    qkv_tensor *x = in[0];
    (void)args;
    for (int i = 0; i < 16; i++)
        x = qkv_mul(t, x, x);
    out[0] = x;
    return x != NULL;
}

static size_t memory_of(fixture *f, int functions, bool again)
{
    enum { LENGTH = 1 << 14 };
    const size_t shape[] = {LENGTH};
    const part_args args = {f, 0, NULL, false};
    qkv_tape *own = f->t;
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    f->again = again;
    qkv_tensor *x = qkv_require_grad(f->t, qkv_tensor_from(f->t, NULL, 1, shape));
    for (size_t i = 0; i < LENGTH; i++)
        qkv_tensor_fill(x)[i] = 1;
    for (int i = 0; i < functions; i++)
        assert_true(run(f->t, wide, &args, 1, &x, 1, &x));
    assert_int_equal(qkv_backward(f->t, qkv_sum(f->t, x)), QKV_OK);
    size_t most = qkv_tape_high_water(f->t) / (LENGTH * sizeof(double));
    qkv_tape_destroy(f->t);
    f->t = own;
    return most;
}

/* In units of a tensor: 16 a function, or one and 16 in all; beside gradients. */
static void test_memory(void **state)
{
    fixture *f = *state;
    assert_in_range(memory_of(f, 8, false), 8 * 16, 8 * 16 + 5);
    assert_in_range(memory_of(f, 8, true), 8 + 16, 8 + 16 + 5);
    assert_int_equal(memory_of(f, 16, true) - memory_of(f, 8, true), 8);
}

/* ---- errors --------------------------------------------------------------------------------- */

static bool asks(qkv_tape *t, const void *args, qkv_tensor *const *in, qkv_tensor **out)
{
    (void)args;
    out[0] = qkv_require_grad(t, qkv_mul(t, in[0], in[0]));
    return out[0] != NULL;
}

static bool changes(qkv_tape *t, const void *args, qkv_tensor *const *in, qkv_tensor **out)
{
    const part_args *a = args;
    out[0] = a->f->calls++ ? qkv_sum(t, in[0]) : qkv_mul(t, in[0], in[0]);
    return true;
}

static bool fails(qkv_tape *t, const void *args, qkv_tensor *const *in, qkv_tensor **out)
{
    (void)t, (void)args, (void)in, (void)out;
    return false;
}

static void expect_refused(fixture *f, qkv_recomputed_fn *fn, const char *text)
{
    const part_args args = {f, 0, NULL, false};
    f->again = true;
    f->calls = 0;
    qkv_tape_reset(f->t);
    qkv_tensor *out, *x = qkv_require_grad(f->t, rows(f, 1));
    if (run(f->t, fn, &args, 1, &x, 1, &out))
        assert_int_equal(qkv_backward(f->t, qkv_sum(f->t, out)), QKV_E_SHAPE);
    assert_int_equal(qkv_tape_status(f->t), QKV_E_SHAPE);
    if (!strstr(qkv_context_message(f->ctx), text))
        fail_msg("\"%s\" lacks \"%s\"", qkv_context_message(f->ctx), text);
}

static void test_errors(void **state)
{
    fixture *f = *state;
    expect_refused(f, asks, "ask outside qkv_recompute");
    expect_refused(f, changes, "output 0 was (6, 8), and is () when it is computed again");
    expect_refused(f, fails, "the function failed");
    qkv_tape_reset(f->t);
    qkv_tensor *x = rows(f, 1), *out[9];
    assert_false(qkv_recompute(f->t, &(qkv_recompute_args){wide, NULL, 0, 1, 9, &x}, out));
    assert_non_null(strstr(qkv_context_message(f->ctx), "9 outputs"));
    qkv_tape_reset(f->t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_odd_outputs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_freezing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_differences, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
