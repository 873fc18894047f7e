/* An event function ends training between two operations: what was learned is saved, and the run
 * goes on to the same bits and the same log. Losses, evaluations and samples here take longer than
 * events are apart. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qkv/gpt.h"
#include "qkv/ops.h"
#include "qkv/train.h"
#include "tokenizers.h"

enum { LONG = 70000 /* microseconds */, STEPS = 6 };

typedef struct {
    qkv_model *model;
    size_t losses, evaluations, events; /* events: that asked for an end */
    size_t samples; /* times that some were made */
    size_t shards; /* 0: as many as by default */
    size_t slow_at; /* the evaluation that takes long, counted from 1; 0: none */
    bool slow_loss, slow_sample, asked; /* asked: to end */
    uint64_t evaluated[2 * STEPS], sampled[2 * STEPS], step;
} job;

static qkv_tensor *sum_of_squares(const job *j, qkv_tape *t)
{
    qkv_tensor *x = qkv_use(t, qkv_params_find(qkv_model_params(j->model), "tokens"));
    return qkv_sum(t, qkv_mul(t, x, x));
}

static void wait_long(job *j)
{
    (void)usleep(LONG);
    j->asked = true;
}

static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    job *j = self;
    j->losses++;
    if (j->slow_loss && part->step == 3)
        wait_long(j);
    return sum_of_squares(j, t);
}

static qkv_status evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    job *j = self;
    (void)limit;
    if (j->slow_at == j->evaluations + 1)
        wait_long(j);
    qkv_tape_reset(t);
    const qkv_tensor *y = sum_of_squares(j, t);
    if (!y)
        return qkv_tape_status(t);
    *out = (qkv_metrics){.scored = 1, .units = 1};
    qkv_metrics_add(out, "loss", (double)qkv_item(t, y));
    j->evaluated[j->evaluations++] = j->step;
    return QKV_OK;
}

static qkv_status sample(void *self, qkv_tape *t, qkv_samples *out)
{
    job *j = self;
    (void)out;
    if (j->slow_sample && j->step == 4)
        wait_long(j);
    if (!sum_of_squares(j, t))
        return qkv_tape_status(t);
    j->sampled[j->samples++] = j->step;
    return QKV_OK;
}

static bool on_train(void *user, const qkv_train_event *e)
{
    job *j = user;
    j->step = e->step;
    j->asked = false;
    return true;
}

static bool on_event(void *user, const qkv_event *event)
{
    job *j = user;
    bool stop = event->kind == QKV_EVENT_WORKING && j->asked;
    j->events += stop;
    return !stop;
}

static qkv_model *small_gpt(void)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_llama_type()), &c);
    c.vocab = 11;
    c.positions = c.width = 8;
    c.layers = 1;
    c.heads = 2;
    c.bos = c.eos = c.pad = -1;
    qkv_model *m;
    check(qkv_model_create(&m, ctx, qkv_llama_type(), &c));
    check(qkv_model_init(m, 3));
    return m;
}

/* From the start, or from where the run in dir stopped. */
static qkv_train_result learn(job *j, const char *dir, int phases)
{
    qkv_task_type type = {.name = "slow", .unit = "items", .phases = phases, .loss = loss,
                          .evaluate = evaluate};
    qkv_task task = {&type, j, j->model, 1, true};
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result r;
    o.steps = STEPS;
    o.eval_every = 2;
    o.batch = 2;
    o.shards = j->shards;
    o.sample = sample;
    o.sample_user = j;
    qkv_context_on_event(ctx, on_event, j);
    check(qkv_train(&task, &o, NULL, NULL, dir, true, on_train, j, &r));
    qkv_context_on_event(ctx, NULL, NULL);
    return r;
}

static void expect_same_bits(const job *a, const job *b)
{
    for (size_t i = 0; i < qkv_params_count(qkv_model_params(a->model)); i++) {
        qkv_param *p = qkv_params_at(qkv_model_params(a->model), i);
        assert_memory_equal(qkv_param_data(p),
                            qkv_param_data(qkv_params_at(qkv_model_params(b->model), i)),
                            qkv_param_count(p) * sizeof(qkv_real));
    }
}

/* The lines of a run's log that are of this kind. */
static int lines_of(const char *dir, const char *kind)
{
    char path[80], begin[40], line[4096];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/train/metrics.jsonl", dir);
    (void)snprintf(begin, sizeof begin, "{\"kind\": \"%s\"", kind);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        count += strncmp(line, begin, strlen(begin)) == 0;
    assert_int_equal(fclose(f), 0);
    return count;
}

/* Stops j at its first event, goes on, and compares with a run that was not stopped. */
static void expect_resumed(job j, uint64_t step)
{
    char dir[] = "/tmp/qkv-cancel-XXXXXX", command[64];
    job whole = {.model = small_gpt(), .shards = j.shards};
    assert_non_null(mkdtemp(dir));
    qkv_train_result straight = learn(&whole, NULL, 1);
    j.model = small_gpt();
    qkv_train_result r = learn(&j, dir, 1);
    assert_true(r.stopped);
    assert_int_equal(r.step, step);
    assert_int_equal(j.events, 1);
    bool again = j.slow_sample; /* an evaluation is, if its samples were cut short */
    j.slow_loss = j.slow_sample = j.asked = false;
    j.slow_at = 0;
    r = learn(&j, dir, 1);
    assert_false(r.stopped || r.was_finished);
    assert_int_equal(r.metrics.count, 1);
    assert_true(r.metrics.item[0].value == straight.metrics.item[0].value);
    assert_int_equal(lines_of(dir, "eval"), STEPS / 2 + 1);
    assert_int_equal(lines_of(dir, "final"), 1);
    assert_int_equal(r.step, STEPS);
    assert_int_equal(r.best_step, STEPS);
    expect_same_bits(&j, &whole);
    assert_int_equal(j.evaluations, whole.evaluations + again); /* else each once, where due */
    if (!again)
        assert_memory_equal(j.evaluated, whole.evaluated, sizeof whole.evaluated);
    assert_int_equal(j.samples, whole.samples);
    assert_memory_equal(j.sampled, whole.sampled, sizeof whole.sampled);
    assert_true(learn(&j, dir, 1).was_finished);
    assert_int_equal(j.evaluations, whole.evaluations + again);
    qkv_model_destroy(j.model);
    qkv_model_destroy(whole.model);
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_within_an_update(void **state)
{
    (void)state;
    expect_resumed((job){.slow_loss = true}, 3);
}

static void test_within_an_evaluation(void **state)
{
    (void)state;
    expect_resumed((job){.slow_at = 3}, 4);
    expect_resumed((job){.slow_at = 4}, STEPS);
}

/* The state says already that the run is finished: the log says that this one is missing. */
static void test_within_the_last_evaluation(void **state)
{
    (void)state;
    expect_resumed((job){.slow_at = 5}, STEPS);
}

/* One process has them all: its updates are whole, the rest can be cut short. */
static void test_several_shards(void **state)
{
    (void)state;
    expect_resumed((job){.slow_at = 3, .shards = 2}, 4);
    expect_resumed((job){.slow_at = 5, .shards = 2}, STEPS);
    expect_resumed((job){.slow_sample = true, .shards = 2}, 4);
}

static void test_within_samples(void **state)
{
    (void)state;
    expect_resumed((job){.slow_sample = true}, 4);
}

/* The first of two phases has changed the weights: the update is done whole. */
static void test_updates_of_two_phases(void **state)
{
    (void)state;
    job j = {.model = small_gpt(), .slow_loss = true};
    qkv_train_result r = learn(&j, NULL, 2);
    assert_true(!r.stopped && r.step == STEPS && j.losses == 2 * STEPS && j.events == 0);
    qkv_model_destroy(j.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_within_an_update),
        cmocka_unit_test(test_within_an_evaluation),
        cmocka_unit_test(test_within_the_last_evaluation),
        cmocka_unit_test(test_within_samples), cmocka_unit_test(test_several_shards),
        cmocka_unit_test(test_updates_of_two_phases)};
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
