/* The translation task: the parts of an update add up to the whole, dropout and all; packed pairs
 * are as good as each alone; the decoder's first input stays zeros; what does not fit the model is
 * refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "each.h"
#include "qkv/marian.h"
#include "qkv/task.h"

enum { VOCAB = 40, PAIRS = 60, POSITIONS = 24, SAMPLES = 4 };

static qkv_context *ctx;

static int set_up(void **state)
{
    (void)state;
    qkv_context_options o = qkv_context_defaults();
    o.threads = 1;
    return qkv_context_create(&ctx, &o);
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
    return 0;
}

static qkv_model *make_model(double dropout)
{
    qkv_marian_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(qkv_marian_type()), &c);
    assert_true(qkv_model_type_preset(qkv_marian_type(), "nano", &c));
    c.vocab = VOCAB;
    c.positions = POSITIONS;
    c.dropout = dropout;
    c.pad = c.start = VOCAB - 1;
    assert_int_equal(qkv_model_create(&m, ctx, qkv_marian_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 3), QKV_OK);
    return m;
}

/* Pair i: 1 + i % 9 and 1 + i % 7 words, each side ended by 0. */
static qkv_records *make_records(size_t fields, int32_t largest, size_t longest)
{
    qkv_records_writer *w;
    qkv_records *r;
    int32_t ids[64];
    assert_int_equal(qkv_records_create(&w, ctx, NULL, fields), QKV_OK);
    for (size_t i = 0; i < PAIRS; i++)
        for (size_t f = 0; f < fields; f++) {
            size_t n = i == 0 ? longest : 1 + i % (9 - 2 * f);
            for (size_t k = 0; k < n; k++)
                ids[k] = 1 + (int32_t)((7 * i + 3 * k + f) % (size_t)largest);
            ids[n] = 0;
            assert_int_equal(qkv_records_add(w, ids, n + 1), QKV_OK);
        }
    assert_int_equal(qkv_records_finish(w, &r), QKV_OK);
    return r;
}

/* Loss, its terms and the norm of the gradient of an update in so many parts. */
static double whole(qkv_task *task, size_t parts, double *norm, qkv_terms *terms)
{
    qkv_tape *t;
    double sum = 0, squares = 0;
    *terms = (qkv_terms){0};
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_params *ps = qkv_model_params(task->model);
    qkv_params_zero_grad(ps);
    for (size_t p = 0; p < parts; p++) {
        size_t n = SAMPLES / parts;
        qkv_micro_batch part = {.step = 5, .first = p * n, .count = n, .total = SAMPLES,
                                .terms = terms};
        qkv_tape_reset(t);
        qkv_tape_mode(t, true, true);
        qkv_tensor *y = task->type->loss(task->self, t, &part);
        assert_non_null(y);
        sum += (double)qkv_item(t, y);
        assert_int_equal(qkv_backward(t, y), QKV_OK);
    }
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        for (size_t k = 0; qkv_param_grad(p) && k < qkv_param_count(p); k++)
            squares += (double)qkv_param_grad(p)[k] * (double)qkv_param_grad(p)[k];
    }
    *norm = sqrt(squares);
    qkv_tape_destroy(t);
    return sum;
}

/* The terms, in any number of parts, are those of one, and the loss is their sum. */
static void check_terms(const qkv_terms *x, double loss, const qkv_terms *of_one, double rdrop)
{
    static const char *const names[] = {"nll", "smoothing", "rdrop"};
    double sum = 0;
    assert_int_equal(x->count, rdrop > 0 ? 3 : 2);
    for (int k = 0; k < x->count; k++) {
        double value = x->item[k].value;
        assert_string_equal(x->item[k].name, names[k]);
        assert_true(value != 0 && fabs(value - of_one->item[k].value) <= 1e-5 * loss);
        sum += value;
    }
    assert_true(fabs(sum - loss) <= 1e-5 * loss);
}

/* Without smoothing there is one term, which is what it was beside the other. */
static void check_nll(qkv_model *m, const qkv_records *r, const qkv_terms *terms)
{
    qkv_translate_options o = {.budget = 40};
    qkv_task task;
    qkv_terms none;
    double norm;
    assert_int_equal(qkv_task_translate(&task, m, r, NULL, &o, 9), QKV_OK);
    double nll = whole(&task, 1, &norm, &none);
    assert_int_equal(none.count, 0);
    assert_true(fabs(terms->item[0].value - nll) <= 1e-5 * nll);
    qkv_task_destroy(&task);
}

static void check_parts_add_up(double rdrop)
{
    qkv_records *r = make_records(2, VOCAB - 2, 5);
    qkv_model *m = make_model(0.3);
    qkv_translate_options o = {.budget = 40, .smoothing = 0.1, .rdrop = rdrop};
    qkv_task task;
    double norm[3], loss[3];
    qkv_terms terms[3];
    assert_int_equal(qkv_task_translate(&task, m, r, NULL, &o, 9), QKV_OK);
    for (size_t i = 0; i < 3; i++)
        loss[i] = whole(&task, (size_t)1 << i, &norm[i], &terms[i]);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(loss[i] - loss[0]) <= 1e-5 * loss[0]);
        assert_true(fabs(norm[i] - norm[0]) <= 1e-4 * norm[0]);
        check_terms(&terms[i], loss[i], &terms[0], rdrop);
    }
    if (rdrop == 0)
        check_nll(m, r, &terms[0]);
    assert_false(task.held_out);
    qkv_task_destroy(&task);
    qkv_model_destroy(m);
    qkv_records_close(r);
}

static void test_parts_add_up(void **state)
{
    (void)state;
    check_parts_add_up(0);
    check_parts_add_up(5);
}

/* Two readings without dropout agree: the loss is that of one. With dropout they do not. */
static void test_two_readings(void **state)
{
    (void)state;
    qkv_records *r = make_records(2, VOCAB - 2, 5);
    for (int dropout = 0; dropout < 2; dropout++) {
        qkv_model *m = make_model(dropout ? 0.3 : 0);
        double loss[3], norm[3];
        qkv_terms terms;
        for (int i = 0; i < 3; i++) {
            qkv_translate_options o = {.budget = i ? 80 : 40, .smoothing = 0.1,
                                       .rdrop = i * 50};
            qkv_task task;
            assert_int_equal(qkv_task_translate(&task, m, r, NULL, &o, 9), QKV_OK);
            loss[i] = whole(&task, 1, &norm[i], &terms);
            qkv_task_destroy(&task);
        }
        if (!dropout)
            assert_true(fabs(loss[1] - loss[0]) <= 1e-5 * loss[0] &&
                        fabs(norm[1] - norm[0]) <= 1e-4 * norm[0]);
        else
            assert_true(loss[2] - loss[1] > 0.1 * loss[0] && norm[2] > norm[1]);
        qkv_model_destroy(m);
    }
    qkv_records_close(r);
}

static void test_packed_is_each_alone(void **state)
{
    (void)state;
    qkv_records *r = make_records(2, VOCAB - 2, 5);
    qkv_model *m = make_model(0.3); /* nothing is dropped while evaluating */
    qkv_tape *t;
    qkv_translate_score all, some;
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_int_equal(qkv_translate_evaluate(m, t, r, 0, &all), QKV_OK);
    assert_int_equal(all.tokens, qkv_records_ids(r, 1));
    double sum = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        qkv_records_writer *w;
        qkv_records *one;
        qkv_translate_score s;
        assert_int_equal(qkv_records_create(&w, ctx, NULL, 2), QKV_OK);
        for (size_t f = 0; f < 2; f++) {
            const int32_t *ids;
            size_t n = qkv_records_get(r, i, f, &ids);
            assert_int_equal(qkv_records_add(w, ids, n), QKV_OK);
        }
        assert_int_equal(qkv_records_finish(w, &one), QKV_OK);
        assert_int_equal(qkv_translate_evaluate(m, t, one, 0, &s), QKV_OK);
        sum += s.loss * (double)s.tokens;
        qkv_records_close(one);
    }
    assert_true(fabs(sum / (double)all.tokens - all.loss) <= 1e-5 * all.loss);
    assert_true(fabs(exp(all.loss) - all.perplexity) <= 1e-9 * all.perplexity);
    assert_int_equal(qkv_translate_evaluate(m, t, r, all.tokens / 3, &some), QKV_OK);
    assert_true(some.tokens > all.tokens / 4 && some.tokens < all.tokens / 2);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
    qkv_records_close(r);
}

/* Where the row of the decoder's first input is zeros, no product with the table changes it. What
 * counts is the row as training begins: a run that goes on reads its weights after the task is
 * made. */
static void test_zeros_are_held(void **state)
{
    (void)state;
    qkv_records *r = make_records(2, VOCAB - 2, 5);
    for (int zeros = 0; zeros < 2; zeros++) {
        qkv_model *m = make_model(0);
        qkv_param *table = qkv_params_find(qkv_model_params(m), "source");
        size_t width = qkv_param_dim(table, 1), row = (VOCAB - 1) * width, other = row - width;
        const qkv_translate_options o = {.budget = 40, .smoothing = 0.1};
        qkv_task task;
        qkv_terms terms;
        double norm;
        assert_int_equal(qkv_task_translate(&task, m, r, NULL, &o, 9), QKV_OK);
        for (size_t i = 0; i < width; i++) {
            assert_true(qkv_param_data(table)[row + i] == 0);
            qkv_param_data(table)[row + i] = zeros ? 0 : i == 3;
        }
        qkv_param_touch(table);
        (void)whole(&task, 2, &norm, &terms);
        for (size_t i = 0; i < width; i++) {
            assert_true((qkv_param_grad(table)[row + i] == 0) == zeros);
            assert_true(qkv_param_grad(table)[other + i] != 0);
        }
        qkv_task_destroy(&task);
        qkv_model_destroy(m);
    }
    qkv_records_close(r);
}

static void test_refuses_what_does_not_fit(void **state)
{
    (void)state;
    qkv_model *m = make_model(0);
    qkv_translate_options o = {.budget = 40};
    qkv_task task;
    qkv_records *bad[] = {make_records(1, VOCAB - 2, 5), make_records(2, VOCAB + 5, 5),
                          make_records(2, VOCAB - 2, POSITIONS)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(qkv_task_translate(&task, m, bad[i], NULL, &o, 9), QKV_E_ARGUMENT);
        assert_null(task.self);
        qkv_records_close(bad[i]);
    }
    qkv_records *fine = make_records(2, VOCAB - 2, 5);
    qkv_marian_config *c = (qkv_marian_config *)(void *)(uintptr_t)qkv_model_config(m);
    c->start = VOCAB;
    assert_int_equal(qkv_task_translate(&task, m, fine, NULL, &o, 9), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "decoder_start_token_id 40: a token below"));
    qkv_records_close(fine);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_add_up), cmocka_unit_test(test_two_readings),
        cmocka_unit_test(test_packed_is_each_alone),
        cmocka_unit_test(test_zeros_are_held), cmocka_unit_test(test_refuses_what_does_not_fit),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
