/* test_versions.c - a parameter's version, by which copies of it are known: it changes with the
 * values, whatever changes them, with nothing else, and is never one that a parameter has had. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "params.h"
#include "qkv/ops.h"
#include "tensor/param.h"
#include "tensor/tape.h"
#include "tensor/update.h"

enum { N = 16 };

static uint64_t last; /* versions come in order */

static void changed(const char *what, const qkv_param *p)
{
    if (p->version <= last)
        fail_msg("%s: version %d after %d", what, (int)p->version, (int)last);
    last = p->version;
}

static void same(const char *what, const qkv_param *p)
{
    if (p->version != last)
        fail_msg("%s: version %d instead of %d", what, (int)p->version, (int)last);
}

static qkv_param *matrix(qkv_params *ps, const char *name)
{
    qkv_param *p = qkv__param_linear(qkv_param_create(ps, name, 2, (const size_t[]){N, N}));
    assert_non_null(p);
    changed(name, p);
    return p;
}

static void give_grad(qkv_param *p)
{
    qkv_real *g = qkv__param_grad_memory(p);
    assert_non_null(g);
    p->has_grad = true;
    g = qkv_param_grad(p);
    for (size_t i = 0; i < N * N; i++)
        g[i] = 1;
    qkv_param_touch_grad(p);
}

static void check_updates(qkv_context *ctx, qkv_params *ps, qkv_param *p)
{
    qkv_real *none[QKV__UPDATE_STATES] = {NULL, NULL, NULL};
    const qkv__update u = {.rule = QKV__UPDATE_SGD, .lr = 0.1, .grad_scale = 1, .step = 1};
    qkv__arena *memory;
    assert_int_equal(qkv__arena_create_on(&memory, ctx, qkv__params_device(ps), "other"), QKV_OK);
    qkv_real *other = qkv__arena_zalloc(memory, N * N * sizeof *other);
    assert_non_null(other);
    give_grad(p);
    same("a gradient", p);
    qkv__param_update(p, &u, none, 0, N * N);
    changed("update", p);
    qkv__param_update(p, &u, none, 0, N);
    changed("update of a part", p);
    qkv__param_add(p, N, other, 0.5, 1, N);
    changed("addition", p);
    qkv__param_mix(other, p, 0.5, 0, N * N);
    same("average", p);
    qkv__param_swap(other, p, 0, N * N);
    changed("swap", p);
    qkv__arena_destroy(memory);
}

static void check_terms(qkv_params *ps, qkv_param *p)
{
    qkv_param *a = matrix(ps, "a"), *b = matrix(ps, "b");
    last = p->version;
    const qkv__low_rank term = {.a = a, .b = b, .scale = 1};
    assert_int_equal(qkv__param_add_term(p, &term, NULL), QKV_OK);
    assert_int_equal(qkv__param_merge_terms(p), QKV_OK);
    last = b->version;
    changed("merged terms", p);
}

/* What products are told of tensors. */
static void check_tensors(qkv_tape *t, qkv_param *p)
{
    qkv_tensor *w = qkv_use(t, p), *view = qkv_reshape(t, w, 2, (const size_t[]){N / 2, 2 * N});
    assert_non_null(view);
    assert_true(qkv__version_of(w) == p->version && qkv__version_of(view) == p->version);
    assert_int_equal(qkv__version_of(qkv_add(t, w, w)), 0);
}

static void test_versions(void **state)
{
    (void)state;
    for (int model = 0; model < 2; model++) { /* the second may lie where the first lay */
        qkv_context *ctx;
        qkv_params *ps;
        qkv_tape *t;
        params_begin(&ctx, &t, &ps);
        qkv_param *p = matrix(ps, "p");
        assert_non_null(qkv_param_data(p));
        same("a look", p);
        qkv_param_touch(p);
        changed("touch", p);
        check_updates(ctx, ps, p);
        check_terms(ps, p);
        check_tensors(t, p);
        assert_int_equal(qkv_params_store(ps, QKV_WEIGHTS_BF16), QKV_OK);
        changed("other memory", p);
        for (size_t i = 0; i < qkv_params_count(ps); i++)
            last = last > qkv_params_at(ps, i)->version ? last : qkv_params_at(ps, i)->version;
        params_end(ctx, t, ps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
