/* Parameters in buckets, chunks and pieces: every element once, values kept, gradients in place;
 * and updates piece by piece, which have the bits of whole ones whoever does which piece. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "opt/state.h"
#include "params.h"
#include "tensor/param.h"
#include "tensor/partition.h"
#include "tensor/update.h"

enum { PARAMS = 7 };
static const size_t counts[PARAMS] = {1, 40, 3 * 17, 1 << 20, 16, 999, 12 * 12};
static qkv_context *ctx;
static qkv_params *ps;

/* Parameters of these sizes with values of their own; number 4 is frozen, 6 a hidden matrix. */
static void make_params(void)
{
    params_begin(&ctx, NULL, &ps);
    for (size_t k = 0; k < PARAMS; k++) {
        char name[16];
        const size_t shape[] = {k == 6 ? 12 : counts[k], 12};
        (void)snprintf(name, sizeof name, "p%zu", k);
        qkv_param *p = qkv_param_create(ps, name, k == 6 ? 2 : 1, shape);
        assert_non_null(p);
        for (size_t i = 0; i < counts[k]; i++)
            qkv_param_data(p)[i] = (qkv_real)(k + 1) / (qkv_real)(i % 97 + 1);
        qkv_param_touch(p);
    }
    const size_t rows = 12;
    qkv_param_freeze(qkv_params_at(ps, 4), true);
    assert_int_equal(qkv_param_set_hidden(qkv_params_at(ps, 6), 1, &rows), QKV_OK);
}

static void free_params(void) { params_end(ctx, NULL, ps); }

/* Values as make_params wrote them? */
static void check_values(void)
{
    for (size_t k = 0; k < PARAMS; k++)
        for (size_t i = 0; i < counts[k]; i += 7)
            assert_true(qkv_param_data(qkv_params_at(ps, k))[i] ==
                        (qkv_real)(k + 1) / (qkv_real)(i % 97 + 1));
}

static void check_pieces(const qkv__partition *p, bool whole)
{
    size_t seen[PARAMS] = {0};
    for (size_t b = 0; b < p->bucket_count; b++) {
        const qkv__bucket *bucket = &p->buckets[b];
        assert_true(bucket->chunk ? bucket->count == bucket->chunk * p->chunks : whole);
        for (size_t i = bucket->first; i < bucket->first + bucket->pieces; i++) {
            const qkv__piece *x = &p->pieces[i];
            size_t from, to, at = p->place_of[x->param] + x->from;
            assert_int_equal(p->bucket_of[x->param], b);
            assert_int_equal(x->from, seen[x->param]); /* one after another */
            assert_true(x->first == (x->from == 0) && x->count > 0);
            seen[x->param] += x->count;
            qkv__bucket_range(bucket, x->chunk, x->chunk + 1, &from, &to);
            assert_true(from <= at && at + x->count <= to); /* within its chunk */
        }
    }
    for (size_t k = 0; k < PARAMS; k++)
        assert_int_equal(seen[k], k == 4 ? 0 : counts[k]);
    assert_int_equal(p->bucket_of[4], SIZE_MAX);
}

static void check_memory(const qkv__partition *p)
{
    for (size_t k = 0; k < PARAMS; k++) {
        const qkv_param *x = qkv_params_at(ps, k);
        if (k == 4)
            continue;
        const qkv__bucket *b = &p->buckets[p->bucket_of[k]];
        assert_ptr_equal(x->data, b->data + p->place_of[k]);
        assert_ptr_equal(x->grad, b->grad + p->place_of[k]);
        assert_true(p->place_of[k] + counts[k] <= b->count);
        assert_int_equal(p->place_of[k] % 16, 0);
    }
}

static void test_layout(void **state)
{
    (void)state;
    for (size_t chunks = 1; chunks <= 8; chunks += chunks < 3 ? 1 : 5)
        for (int whole = 0; whole < 2; whole++) {
            qkv__partition *p;
            make_params();
            assert_int_equal(qkv__partition_create(&p, ps, chunks, whole, false), QKV_OK);
            assert_true(p->bucket_count > 1);
            check_pieces(p, whole);
            check_memory(p);
            check_values();
            if (whole) /* alone, and of one chunk */
                assert_int_equal(p->buckets[p->bucket_of[6]].pieces, 1);
            qkv__partition_destroy(p);
            check_values();
            free_params();
        }
}

static void test_swap(void **state)
{
    (void)state;
    qkv__partition *p;
    make_params();
    assert_int_equal(qkv__partition_create(&p, ps, 4, false, false), QKV_OK);
    size_t b = p->bucket_of[5];
    qkv_real *grad = p->buckets[b].grad;
    qkv_real *other = qkv_calloc(ctx, p->buckets[b].count, sizeof *other), *mine = other;
    qkv__bucket_swap(p, b, &other);
    assert_ptr_equal(other, grad);
    assert_ptr_equal(qkv_params_at(ps, 5)->grad, mine + p->place_of[5]);
    qkv__bucket_swap(p, b, &other);
    assert_ptr_equal(qkv_params_at(ps, 5)->grad, grad + p->place_of[5]);
    assert_false(qkv__bucket_has_grad(p, b));
    const qkv__device *device = qkv__context_device(ctx);
    qkv_real last = 1;
    device->fill(grad, 1, p->buckets[b].count * sizeof *grad);
    qkv__bucket_complete(p, b); /* those without one get zeros, and still have none */
    device->copy_out(&last, qkv_params_at(ps, 5)->grad + 998, sizeof last);
    assert_true(last == 0 && !qkv_params_at(ps, 5)->has_grad);
    qkv_free(ctx, other);
    qkv__partition_destroy(p);
    free_params();
}

static void give_grads(qkv_real more)
{
    for (size_t k = 0; k < PARAMS; k++) {
        qkv_param *x = qkv_params_at(ps, k);
        if (k == 4)
            continue;
        x->has_grad = true;
        qkv_real *grad = qkv_param_grad(x);
        for (size_t i = 0; i < counts[k]; i++)
            grad[i] = (qkv_real)(i % 31) / 7 - 2 + more;
        qkv_param_touch_grad(x);
    }
}

/* Two updates of all parameters, by so many optimisers in turn, each of which owns an equal number
 * of the chunks; and averages of them. */
static void update(size_t chunks, size_t owners, qkv_optimizer_kind kind, qkv_real *values)
{
    const qkv_optimizer_options oo = qkv_optimizer_defaults(kind);
    const qkv_average_options ao = {.decay = 0.5};
    qkv__partition *p;
    make_params();
    assert_int_equal(qkv__partition_create(&p, ps, chunks, kind == QKV_OPTIMIZER_MUON,
                                            false), QKV_OK);
    for (size_t owner = 0; owner < owners; owner++) {
        qkv__own own[PARAMS] = {{0, 0}};
        qkv_optimizer *o;
        qkv_average *a;
        for (size_t i = 0; i < p->piece_count; i++) {
            const qkv__piece *x = &p->pieces[i];
            if (x->chunk / (chunks / owners) != owner)
                continue;
            own[x->param].from = own[x->param].count ? own[x->param].from : x->from;
            own[x->param].count += x->count;
        }
        assert_int_equal(qkv__optimizer_create_of(&o, ps, &oo, NULL, 0, own), QKV_OK);
        assert_int_equal(qkv__average_create_of(&a, ps, &ao, own), QKV_OK);
        for (int step = 0; step < 2; step++) {
            give_grads((qkv_real)step);
            qkv__optimizer_count(o);
            for (size_t i = 0; i < p->piece_count; i++) {
                const qkv__piece *x = &p->pieces[i];
                if (x->chunk / (chunks / owners) == owner)
                    assert_true(qkv__optimizer_update(o, x->param, x->from, x->count, NULL, 0.1,
                                                       0.5));
            }
            qkv_average_add(a);
        }
        assert_int_equal(qkv_average_swap(a), QKV_OK);
        qkv_average_destroy(a);
        qkv_optimizer_destroy(o);
    }
    for (size_t k = 0; k < PARAMS; values += counts[k++])
        memcpy(values, qkv_param_data(qkv_params_at(ps, k)), counts[k] * sizeof *values);
    qkv__partition_destroy(p);
    free_params();
}

static void test_update(void **state)
{
    (void)state;
    size_t n = 0;
    for (size_t k = 0; k < PARAMS; k++)
        n += counts[k];
    qkv_real *one = test_malloc(n * sizeof *one), *more = test_malloc(n * sizeof *more);
    const qkv_optimizer_kind kinds[] = {QKV_OPTIMIZER_ADAMW, QKV_OPTIMIZER_MUON,
                                        QKV_OPTIMIZER_RMSPROP};
    for (size_t k = 0; k < 3; k++) {
        update(4, 1, kinds[k], one);
        for (size_t owners = 2; owners <= 4; owners *= 2) {
            update(4, owners, kinds[k], more);
            assert_memory_equal(one, more, n * sizeof *one);
        }
        update(1, 1, kinds[k], more); /* elements do not depend on each other */
        for (size_t i = 0; i < n; i++)
            assert_true(one[i] == more[i]);
    }
    test_free(one);
    test_free(more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layout), cmocka_unit_test(test_swap),
                                       cmocka_unit_test(test_update)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
