/* test_batch_norm_golden.c - what batch norm keeps of two batches, and how it then evaluates,
 * against PyTorch's BatchNorm2d (recipe: tools/make-golden/ops.py), with each instruction set's
 * kernels. Its gradients are in test_ops_golden.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "golden.h"
#include "isas.h"
#include "qkv/nn.h"

enum { MOST = 256 };

typedef struct {
    qkv_real x[MOST];
    int ndim;
    const size_t *shape;
    size_t count;
} numbers;

static void load(const qkv_safetensors *golden, const char *name, numbers *out)
{
    const qkv_safetensor *s = qkv_safetensors_find(golden, name);
    assert_non_null(s);
    assert_true(s->count <= MOST);
    assert_int_equal(qkv_safetensors_read(golden, s, 0, s->count, out->x), QKV_OK);
    out->ndim = s->ndim;
    out->shape = s->shape;
    out->count = s->count;
}

static void compare(const qkv_safetensors *golden, const char *name, const qkv_real *got)
{
    numbers expected;
    load(golden, name, &expected);
    assert_non_null(got);
    double size = largest(expected.x, expected.count);
    for (size_t i = 0; i < expected.count; i++)
        if (!(fabs((double)got[i] - (double)expected.x[i]) <= 1e-5 * size))
            fail_msg("%s[%zu]: %g, not %g", name, i, (double)got[i], (double)expected.x[i]);
}

static void run_all(unsigned isa)
{
    qkv_context_options o = qkv_context_defaults();
    o.isa = isa;
    o.threads = 2;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_safetensors *golden;
    qkv_batch_norm_layer layer;
    numbers in;
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_int_equal(qkv_params_create(&ps, ctx), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&golden, ctx,
                                          QKV_SOURCE_DIR "/tests/golden/ops.safetensors"), QKV_OK);
    load(golden, "batch_norm.in0", &in);
    assert_true(qkv_batch_norm_create(&layer, ps, "norm", in.shape[in.ndim - 1]));
    for (int i = 0; i < 3; i++) { /* x, x + 1, and x to evaluate */
        qkv_tape_mode(t, true, i < 2);
        qkv_tensor *x = qkv_tensor_from(t, in.x, in.ndim, in.shape);
        for (size_t j = 0; j < in.count && i == 1; j++)
            qkv_tensor_fill(x)[j] += 1;
        qkv_tensor *y = qkv_batch_norm_forward(&layer, t, x);
        if (i == 2)
            compare(golden, "batch_norm.eval", qkv_data(t, y));
    }
    compare(golden, "batch_norm.running_mean", qkv_param_data(layer.mean));
    compare(golden, "batch_norm.running_var", qkv_param_data(layer.variance));
    assert_true(qkv_param_data(layer.batches)[0] == 2);
    qkv_safetensors_close(golden);
    qkv_params_destroy(ps);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
