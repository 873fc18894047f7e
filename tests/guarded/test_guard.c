/* test_guard.c - that the guarded device is one: the host cannot read its memory, a kernel refuses
 * the host's; and that the ways in and out of it lead there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/param.h"
#include "tensor/tape.h"

static const size_t shape[] = {2, 3};
static const qkv_real numbers[] = {1, 2, 3, 4, 5, 6};

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_param *p;
} fixture;

static int setup(void **state)
{
    static fixture f;
    assert_int_equal(qkv_context_create(&f.ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&f.t, f.ctx), QKV_OK);
    assert_int_equal(qkv_params_create(&f.ps, f.ctx), QKV_OK);
    f.p = qkv_param_create(f.ps, "p", 2, shape);
    assert_non_null(f.p);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    qkv_tape_destroy(f->t);
    qkv_params_destroy(f->ps);
    qkv_context_destroy(f->ctx);
    return 0;
}

static void expect(const qkv_real *x, const qkv_real *expected, size_t n)
{
    assert_non_null(x);
    assert_memory_equal(x, expected, n * sizeof *x);
}

static void read_it(fixture *f, qkv_real *p)
{
    (void)f;
    (void)*(volatile qkv_real *)p;
}

static void write_it(fixture *f, qkv_real *p)
{
    (void)f;
    *(volatile qkv_real *)p = 1;
}

static void add_to_host(fixture *f, qkv_real *p)
{
    qkv_real mine[6];
    f->t->k->add(&f->t->exec, mine, p, p, 6);
}

/* What is done to p, device memory, ends the process with the signal. */
static void ends(fixture *f, void (*fn)(fixture *f, qkv_real *p), qkv_real *p, int expected)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(expected, SIG_DFL);
        (void)freopen("/dev/null", "w", stderr);
        fn(f, p);
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == expected);
}

static void test_guard(void **state)
{
    fixture *f = *state;
    qkv_tensor *x = qkv_tensor_from(f->t, numbers, 2, shape), *y = qkv_add(f->t, x, x);
    assert_non_null(y);
    qkv_real *memory[] = {f->p->data, qkv__real(x), qkv__real(y), qkv__scratch(f->t, 6)};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        ends(f, read_it, memory[i], SIGSEGV);
        ends(f, write_it, memory[i], SIGSEGV);
        ends(f, add_to_host, memory[i], SIGABRT);
    }
}

static void test_tensors(void **state)
{
    fixture *f = *state;
    qkv_real mine[6] = {0};
    qkv_tensor *x = qkv_tensor_from(f->t, NULL, 2, shape);
    qkv_tensor *w = qkv_tensor_wrap(f->t, mine, 2, shape);
    memcpy(qkv_tensor_fill(x), numbers, sizeof numbers);
    memcpy(mine, numbers, sizeof mine);
    const qkv_real sums[] = {2, 4, 6, 8, 10, 12}, first[] = {2, 8}, one = 21;
    qkv_tensor *y = qkv_add(f->t, x, w);
    expect(qkv_data(f->t, y), sums, 6);
    expect(qkv_data(f->t, qkv_slice(f->t, y, 1, 0, 1)), first, 2);
    assert_true(qkv_item(f->t, qkv_sum(f->t, x)) == one);
    qkv_tensor_fill(x)[0] = 0; /* once more: the next op sees it */
    assert_true(qkv_item(f->t, qkv_sum(f->t, x)) == one - 1);
    const int32_t ids[] = {0, 1, 2, 3, 4, 5}, turned[] = {0, 3, 1, 4, 2, 5};
    qkv_tensor *i = qkv_permute(f->t, qkv_tensor_ids(f->t, ids, 2, shape), (int[]){1, 0});
    assert_memory_equal(qkv_data_ids(f->t, i), turned, sizeof turned);
    assert_int_equal(qkv_tape_status(f->t), QKV_OK);
}

static void test_parameters(void **state)
{
    fixture *f = *state;
    const qkv_real ones[] = {1, 1, 1, 1, 1, 1}, sevens[] = {7, 7, 7, 7, 7, 7};
    memcpy(qkv_param_data(f->p), numbers, sizeof numbers);
    qkv_param_touch(f->p);
    expect(qkv_data(f->t, qkv_use(f->t, f->p)), numbers, 6);
    assert_int_equal(qkv_backward(f->t, qkv_sum(f->t, qkv_use(f->t, f->p))), QKV_OK);
    expect(qkv_param_grad(f->p), ones, 6);
    memcpy(qkv_param_grad(f->p), sevens, sizeof sevens);
    qkv_param_touch_grad(f->p);
    assert_true(f->t->k->sum(&f->t->exec, f->p->grad, 6) == 42);
    f->t->k->add(&f->t->exec, f->p->data, f->p->grad, f->p->grad, 6);
    f->p->version++; /* not the host: its copy is stale */
    assert_true(qkv_param_data(f->p)[5] == 14);
}

/* ---- copies of numbers, and waits ---- */

static const qkv__device *counted;
static int copies_in, copies_out, waits;

static void count_in(void *to, const void *host, size_t bytes)
{
    copies_in++;
    counted->copy_in(to, host, bytes);
}

static void count_out(void *host, const void *from, size_t bytes)
{
    copies_out++;
    counted->copy_out(host, from, bytes);
}

static qkv_status count_waits(qkv_context *ctx)
{
    waits++;
    return counted->sync(ctx);
}

/* A loss's value and the 1 that a pass starts from stay with the host until an op reads them; a
 * reset does not wait. */
static void test_copies(void **state)
{
    fixture *f = *state;
    counted = f->t->device;
    qkv__device device = *counted;
    device.copy_in = count_in;
    device.copy_out = count_out;
    device.sync = count_waits;
    f->t->device = &device;
    qkv_tensor *target = qkv_tensor_from(f->t, numbers, 2, shape);
    qkv_tensor *loss = qkv_mse_loss(f->t, qkv_use(f->t, f->p), target);
    assert_int_equal(copies_in, 1); /* the target */
    (void)qkv_item(f->t, loss);
    assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
    (void)qkv_item(f->t, loss);
    assert_int_equal(copies_in, 1);
    assert_int_equal(copies_out, 0);
    (void)qkv_item(f->t, qkv_scale(f->t, loss, 2));
    assert_int_equal(copies_in, 2);
    assert_int_equal(copies_out, 1);
    qkv_tape_reset(f->t);
    assert_int_equal(waits, 0);
    f->t->device = counted;
}

typedef struct {
    double sum;
} seen;

static qkv_tensor *see(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    seen *s = user;
    assert_string_equal(name, "h.0.value");
    const qkv_real *data = qkv_data(t, x);
    for (size_t i = 0; i < qkv_count(x); i++)
        s->sum += (double)data[i];
    return x;
}

static void test_probe(void **state)
{
    fixture *f = *state;
    seen s = {0};
    assert_int_equal(qkv_probe_add(f->t, NULL, see, &s), QKV_OK);
    qkv_name_push(f->t, "h.%d", 0);
    qkv_probe(f->t, "value", qkv_scale(f->t, qkv_tensor_from(f->t, numbers, 2, shape), 2));
    assert_true(s.sum == 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_guard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_probe, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
