/* test_alloc_fail.c - the n-th allocation fails, for every n: each time a clean error or the
 * right answer, never a crash, and all memory comes back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "qkv/ops.h"

typedef struct {
    long left; /* allocations that still work; < 0: all */
    size_t live;
} failing;

static void *failing_alloc(void *user, size_t bytes)
{
    failing *f = user;
    if (f->left == 0)
        return NULL;
    if (f->left > 0)
        f->left--;
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    f->live += p != NULL;
    return p;
}

static void failing_free(void *user, void *p)
{
    failing *f = user;
    f->live -= p != NULL;
    free(p);
}

/* A block's worth of ops, wide enough that step memory needs several allocations. */
static qkv_tensor *forward(qkv_tape *t, qkv_param *const *w)
{
    enum { B = 2, T = 96, H = 4, D = 16, C = H * D, V = 50 };
    int32_t ids[B * T];
    for (int i = 0; i < B * T; i++)
        ids[i] = i * 7 % V;
    const size_t shape[] = {B, T}, third[] = {C, C, C};
    qkv_tensor *tokens = qkv_tensor_ids(t, ids, 2, shape);
    qkv_tensor *x = qkv_embedding(t, tokens, qkv_use(t, w[0]), 1, NULL, NULL), *part[3], *sum;
    x = qkv_norm(t, QKV_NORM_LAYER, x, NULL, NULL, 1e-5);
    qkv_split(t, qkv_linear(t, x, qkv_use(t, w[1]), NULL, QKV_ACT_NONE), -1, 3, third, part);
    for (int i = 0; i < 3; i++)
        part[i] = qkv_reshape(t, part[i], 4, (const size_t[]){B, T, H, D});
    qkv_tensor *y = qkv_attention(t, part[0], part[1], part[2],
                                  &(qkv_attention_options){.causal = true, .dropout = 0.1});
    y = qkv_reshape(t, y, 3, (const size_t[]){B, T, C});
    y = qkv_residual_norm(t, QKV_NORM_RMS, y, x, NULL, NULL, 1e-5, &sum);
    y = qkv_dropout_add(t, qkv_activate(t, y, QKV_ACT_GELU), sum, 0.1, 1);
    y = qkv_div(t, y, qkv_exp(t, qkv_mean_axis(t, y, 0)));
    return qkv_classifier_loss(t, y, qkv_use(t, w[0]), NULL, tokens, NULL);
}

/* Two steps. Returns the loss, or -1 after a failure, which must have been said. */
static double run(failing *memory)
{
    qkv_context_options o = qkv_context_defaults();
    o.threads = 2;
    o.alloc = failing_alloc;
    o.free = failing_free;
    o.user = memory;
    qkv_context *ctx;
    qkv_tape *t = NULL;
    qkv_params *ps = NULL;
    double loss = -1;
    if (qkv_context_create(&ctx, &o)) {
        assert_null(ctx);
        return -1;
    }
    const size_t shapes[2][2] = {{50, 64}, {192, 64}};
    qkv_param *w[2] = {NULL, NULL};
    if (qkv_tape_create(&t, ctx) == QKV_OK && qkv_params_create(&ps, ctx) == QKV_OK)
        for (int i = 0; i < 2 && (i == 0 || w[0]); i++)
            w[i] = qkv_param_create(ps, i ? "w1" : "w0", 2, shapes[i]);
    bool ok = w[0] && w[1];
    for (size_t i = 0; ok && i < 2; i++)
        for (size_t j = 0; j < qkv_param_count(w[i]); j++)
            qkv_param_data(w[i])[j] = (qkv_real)((double)(j * 37 % 101) / 100 - 0.5);
    for (int step = 0; ok && step < 2; step++) {
        qkv_tape_reset(t);
        qkv_tape_mode(t, true, true);
        qkv_params_zero_grad(ps);
        qkv_tensor *y = forward(t, w);
        loss = (double)qkv_item(t, y);
        ok = qkv_backward(t, y) == QKV_OK;
        assert_int_equal(ok, qkv_tape_status(t) == QKV_OK);
    }
    if (!ok) {
        loss = -1;
        assert_int_equal(qkv_context_status(ctx), QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(ctx)) > 0);
    }
    qkv_params_destroy(ps);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return loss;
}

static void test_every_allocation(void **state)
{
    (void)state;
    failing memory = {.left = -1};
    double expected = run(&memory);
    assert_true(expected > 0);
    assert_int_equal(memory.live, 0);
    long failures = 0;
    for (long n = 0;; n++) {
        assert_true(n < 1000);
        memory.left = n;
        double loss = run(&memory);
        assert_int_equal(memory.live, 0);
        if (memory.left > 0 && loss >= 0) { /* more allocations were allowed than are made */
            assert_true(loss == expected);
            break;
        }
        failures += loss < 0;
    }
    assert_true(failures > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
