/* Ten steps of Muon against torch.optim.Muon (recipe: tools/make-golden/muon.py), with each
 * instruction set's kernels: PyTorch's rule in float64 closely, and as PyTorch runs it, with
 * Newton-Schulz in bfloat16, loosely; and qkv's in bfloat16 as loosely. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "isas.h"
#include "qkv/machine.h"
#include "qkv/opt.h"
#include "qkv/safetensors.h"
#include "tensor/param.h"

enum { STEPS = 10, PARAMS = 5, NUMBERS = 256 };

static const struct {
    const char *name;
    int ndim;
    size_t shape[4], n, rows[3]; /* n matrices */
} given[PARAMS] = {
    {"wide", 2, {7, 20}, 1, {7}},
    {"tall", 2, {24, 5}, 1, {24}},
    {"square", 2, {16, 16}, 1, {16}},
    {"packed", 2, {12, 8}, 3, {6, 3, 3}},
    {"window", 4, {6, 3, 3, 4}, 1, {6}},
};

static const struct {
    const char *name;
    bool plain;
    qkv_muon_adjust adjust;
    double momentum, decay, eps;
    int steps;
} variants[] = {
    {"default", false, QKV_MUON_ORIGINAL, 0.95, 0.1, 1e-7, 5},
    {"plain", true, QKV_MUON_ORIGINAL, 0.9, 0, 1e-7, 5},
    {"match", false, QKV_MUON_MATCH_RMS_ADAMW, 0.95, 0.3, 1e-7, 5},
    {"spectral", false, QKV_MUON_SPECTRAL, 0.95, 0.1, 20, 3},
};

typedef struct {
    qkv_context *ctx;
    qkv_safetensors *golden;
    qkv_params *params;
    bool exact; /* products in f32 */
} fixture;

/* Numbers begin .. begin+n-1 of "name[suffix].param". */
static void read_golden(const fixture *f, const char *name, const char *suffix, const char *param,
                        size_t begin, size_t n, qkv_real *out)
{
    char full[64];
    (void)snprintf(full, sizeof full, "%s%s.%s", name, suffix, param);
    const qkv_safetensor *t = qkv_safetensors_find(f->golden, full);
    if (!t || begin + n > t->count)
        fail_msg("%s is not in the golden file", full);
    assert_int_equal(qkv_safetensors_read(f->golden, t, begin, n, out), QKV_OK);
}

static void begin(fixture *f)
{
    assert_int_equal(qkv_params_create(&f->params, f->ctx), QKV_OK);
    for (int i = 0; i < PARAMS; i++) {
        qkv_param *p = qkv_param_create(f->params, given[i].name, given[i].ndim, given[i].shape);
        assert_non_null(p);
        assert_int_equal(qkv_param_set_hidden(p, given[i].n, given[i].rows), QKV_OK);
        read_golden(f, "start", "", given[i].name, 0, qkv_param_count(p), qkv_param_data(p));
        qkv_param_touch(p);
    }
}

static void give_gradients(fixture *f, size_t step)
{
    for (int i = 0; i < PARAMS; i++) {
        qkv_param *p = qkv_params_at(f->params, (size_t)i);
        size_t n = qkv_param_count(p);
        assert_non_null(qkv__param_grad_memory(p));
        p->has_grad = true;
        read_golden(f, "grads", "", given[i].name, step * n, n, qkv_param_grad(p));
        qkv_param_touch_grad(p);
    }
}

/* max|a-b| <= of_size * max|b| + of_move * how far b is from the start. */
static void compare(const fixture *f, const char *name, const char *suffix, size_t step,
                    double of_size, double of_move)
{
    for (int i = 0; i < PARAMS; i++) {
        qkv_param *p = qkv_params_at(f->params, (size_t)i);
        size_t n = qkv_param_count(p);
        qkv_real expected[NUMBERS], from[NUMBERS];
        read_golden(f, name, suffix, given[i].name, step * n, n, expected);
        read_golden(f, "start", "", given[i].name, 0, n, from);
        double error = 0, moved = 0, size = 0;
        for (size_t j = 0; j < n; j++) {
            double x = (double)qkv_param_data(p)[j];
            error = isnan(x) ? INFINITY : fmax(error, fabs(x - (double)expected[j]));
            size = fmax(size, fabs((double)expected[j]));
            moved = fmax(moved, fabs((double)from[j] - (double)expected[j]));
        }
        if (!(error <= of_size * size + of_move * moved))
            fail_msg("%s%s.%s, step %zu: off by %.2g, moved by %.2g", name, suffix, given[i].name,
                     step, error, moved);
    }
}

static void test_variants(void **state)
{
    fixture *f = *state;
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        begin(f);
        qkv_optimizer_options oo = qkv_optimizer_defaults(QKV_OPTIMIZER_MUON);
        oo.muon_nesterov = !variants[v].plain;
        oo.muon_adjust = variants[v].adjust;
        oo.muon_momentum = variants[v].momentum;
        oo.weight_decay = variants[v].decay;
        oo.muon_eps = variants[v].eps;
        oo.muon_steps = variants[v].steps;
        qkv_optimizer *o;
        assert_int_equal(qkv_optimizer_create(&o, f->params, &oo, NULL, 0), QKV_OK);
        for (size_t step = 0; step < STEPS; step++) {
            give_gradients(f, step);
            assert_int_equal(qkv_optimizer_step(o, &(qkv_optimizer_step_args){.lr = 0.02}, NULL),
                             QKV_OK);
            if (f->exact)
                compare(f, variants[v].name, "", step, 1e-6, 0);
            compare(f, variants[v].name, "_bf16", step, 0, f->exact ? 0.05 : 0.1);
        }
        qkv_optimizer_destroy(o);
        qkv_params_destroy(f->params);
    }
}

static fixture *open_fixture(unsigned isa, int products)
{
    static fixture f;
    qkv_context_options co = qkv_context_defaults();
    co.isa = isa;
    co.products = products;
    assert_int_equal(qkv_context_create(&f.ctx, &co), QKV_OK);
    f.exact = strcmp(qkv_machine_products(f.ctx), "f32") == 0;
    assert_int_equal(qkv_safetensors_open(&f.golden, f.ctx, "tests/golden/muon.safetensors"),
                     QKV_OK);
    return &f;
}

static void close_fixture(fixture *f)
{
    qkv_safetensors_close(f->golden);
    qkv_context_destroy(f->ctx);
}

static void try_products(unsigned isa, int products)
{
    void *state = open_fixture(isa, products);
    test_variants(&state);
    close_fixture(state);
}

static void run_all(unsigned isa) { try_products(isa, QKV_PRODUCTS_F32); }

/* Training's products in bf16, where the processor has them. */
static void test_bf16(void **state)
{
    (void)state;
    try_products(QKV_ISA_ALL, QKV_PRODUCTS_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS
        cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
