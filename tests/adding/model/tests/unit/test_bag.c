/* test_bag.c - a bag of words: its order does not matter, other kinds of models are refused, and a
 * job learns labels, stops, goes on to the same bits, saves, loads, answers and is evaluated. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "qkv.h"
#include "wrong_kind.h"

static struct {
    qkv_task task;
    qkv_bag_score score;
} a;
#define ROWS(T, P, Z, S, V)                                                                        \
    T(qkv_bag_logits, 0, (m, t, NULL, NULL, 0))                                                    \
    S(qkv_task_bag, 0, (&a.task, m, NULL, NULL, 1))                                                \
    S(qkv_bag_evaluate, 0, (m, t, NULL, 0, &a.score))
REFUSALS(ROWS)

static void other_kinds_are_refused(void **state)
{
    (void)state;
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_true(refuse_others(refusals, sizeof refusals / sizeof *refusals, qkv_bag_type()) > 40);
    qkv_tape_destroy(t);
}

static void order_does_not_matter(void **state)
{
    (void)state;
    const int32_t ids[] = {3, 1, 7, 7, 3, 1}, offsets[] = {0, 3, 6};
    qkv_model *m = made(qkv_bag_type());
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_int_equal(qkv_model_init(m, 1), QKV_OK);
    const qkv_real *y = qkv_data(t, qkv_bag_logits(m, t, ids, offsets, 2));
    assert_non_null(y);
    for (size_t i = 0; i < 2; i++)
        assert_true(y[i] - y[2 + i] < 1e-6f && y[2 + i] - y[i] < 1e-6f);
    assert_true(y[0] != y[1]);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
}

/* ---- from lines to answers ------------------------------------------------------------------- */

static void write_lines(const char *path)
{
    static const char lines[] = "good\ta fine film\nbad\ta dull film\ngood\tfine and moving\n"
                                "bad\tdull and long\n";
    char text[30 * sizeof lines];
    for (size_t i = 0; i < 30; i++)
        memcpy(text + i * (sizeof lines - 1), lines, sizeof lines - 1);
    put_file(path, text, 30 * (sizeof lines - 1));
}

static bool stop_at_50(void *user, const qkv_train_event *e)
{
    (void)user;
    return e->kind != QKV_TRAIN_STEP || e->step < 50;
}

static qkv_train_result trained(const char *out, bool resume, qkv_train_fn *event)
{
    qkv_job *j;
    qkv_train_result r;
    const char *const settings[][2] = {
        {"data", in(folder, "lines")}, {"steps", "100"}, {"batch", "8"}, {"hidden_size", "8"},
        {"vocab", "60"}, {"save-every", "25"}, {"lr", "0.05"}, {"out", in(folder, out)}};
    assert_int_equal(qkv_job_create(&j, ctx, "bag"), QKV_OK);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_int_equal(qkv_job_set(j, settings[i][0], settings[i][1]), QKV_OK);
    assert_int_equal(qkv_job_set(j, "resume", resume ? "true" : "false"), QKV_OK);
    if (qkv_job_run(j, event, NULL, &r))
        fail_msg("%s", qkv_context_message(ctx));
    qkv_job_destroy(j);
    return r;
}

static void assert_same_model(const char *x, const char *y)
{
    size_t n, m;
    char *one = take_file(x, &n), *other = take_file(y, &m);
    assert_int_equal(n, m);
    assert_memory_equal(one, other, n);
    free(one);
    free(other);
}

static void learns_and_answers(void **state)
{
    (void)state;
    qkv_pipeline *p;
    qkv_metrics metrics;
    qkv_real probabilities[2];
    size_t best;
    write_lines(in(folder, "lines"));
    assert_int_equal(trained("straight", false, NULL).step, 100);
    assert_true(trained("cut", false, stop_at_50).stopped);
    assert_int_equal(trained("cut", true, NULL).step, 100);
    assert_same_model(in(folder, "straight/model.safetensors"),
                      in(folder, "cut/model.safetensors"));
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "cut")), QKV_OK);
    assert_int_equal(qkv_pipeline_bag(p, "a moving film", 13, &best, probabilities), QKV_OK);
    assert_string_equal(qkv_pipeline_label(p, best), "good");
    assert_true(probabilities[best] > 0.6f);
    assert_int_equal(qkv_pipeline_evaluate(p, NULL, &metrics), QKV_OK);
    assert_int_equal(metrics.scored, 12); /* a tenth of the lines */
    assert_true(metrics.item[0].value == 1); /* the lines are those it learnt from */
    qkv_pipeline_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_kinds_are_refused),
                                       cmocka_unit_test(order_does_not_matter),
                                       cmocka_unit_test(learns_and_answers)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
