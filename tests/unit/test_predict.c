/* test_predict.c - the memory that is predicted for a training step, beside what the step takes:
 * but for the process, the same; a step that cannot be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "qkv.h"

enum { BATCH = 3, LENGTH = 40, LONGEST = 32768 };

typedef struct {
    qkv_model *model;
    size_t batch, length, layers; /* layers 0: nano's */
    bool recompute;
    bool broken;
    int ended;
} step;

static qkv_status make(void *user, qkv_context *context, qkv_model *models[2])
{
    step *s = user;
    qkv_gpt_config config;
    if (s->broken)
        return qkv_fail(context, QKV_E_ARGUMENT, "no such model");
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &config);
    assert_true(qkv_model_type_preset(qkv_gpt2_type(), "nano", &config));
    config.vocab = 100;
    config.positions = s->length;
    config.layers = s->layers ? s->layers : config.layers;
    qkv_status status = qkv_model_create(&s->model, context, qkv_gpt2_type(), &config);
    models[0] = s->model;
    return status;
}

static qkv_tensor *loss(void *user, qkv_tape *t)
{
    static const int32_t ids[LONGEST + 1];
    const step *s = user;
    const size_t shape[2] = {s->batch, s->length};
    qkv_tensor *in = qkv_tensor_ids(t, ids, 2, shape),
 *targets = qkv_tensor_ids(t, ids + 1, 2, shape);
    return qkv_lm_loss(s->model, t, qkv_lm_hidden(s->model, t, in, 0, NULL, NULL), targets, NULL);
}

static void end(void *user)
{
    step *s = user;
    qkv_model_destroy(s->model);
    s->model = NULL;
    s->ended++;
}

/* The same step, taken. */
static qkv_memory_prediction taken(qkv_context *context, step *s)
{
    const qkv_optimizer_options o = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_memory_prediction m = {0};
    qkv_model *models[2] = {NULL, NULL};
    qkv_tape *t;
    qkv_optimizer *optimizer;
    assert_int_equal(make(s, context, models), QKV_OK);
    qkv_params *params = qkv_model_params(s->model);
    assert_int_equal(qkv_tape_create(&t, context), QKV_OK);
    assert_int_equal(qkv_optimizer_create(&optimizer, params, &o, NULL, 0), QKV_OK);
    m.parameters = qkv_params_bytes(params);
    qkv_tape_mode(t, true, true);
    qkv_tape_recompute(t, s->recompute);
    assert_int_equal(qkv_backward(t, loss(s, t)), QKV_OK);
    m.gradients = qkv_params_bytes(params) - m.parameters;
    m.optimizer = qkv_optimizer_bytes(optimizer);
    m.activations = qkv_tape_high_water(t);
    qkv_optimizer_destroy(optimizer);
    qkv_tape_destroy(t);
    end(s);
    return m;
}

static void as_taken(qkv_context *context, bool recompute)
{
    step s = {.batch = BATCH, .length = LENGTH, .layers = recompute ? 12 : 0,
              .recompute = recompute};
    const qkv_predicted_step what = {.make = make, .loss = loss, .end = end, .user = &s,
                                     .recompute = recompute};
    qkv_memory_prediction p;
    assert_int_equal(qkv_predict_memory(context, &what, NULL, &p), QKV_OK);
    assert_int_equal(s.ended, 1);
    qkv_memory_prediction m = taken(context, &s);
    assert_int_equal(p.parameters, m.parameters);
    assert_int_equal(p.gradients, m.gradients);
    assert_int_equal(p.optimizer, m.optimizer);
    /* to the byte on the CPU; another device copies what the host wants to see: 1.6 KB */
    assert_in_range(p.activations, m.activations - 1600, m.activations);
    assert_true(p.process > (size_t)1 << 20);
    assert_int_equal(p.total, p.parameters + p.gradients + p.optimizer + p.activations + p.scratch +
                                  p.process);
}

static void test_as_taken(void **state)
{
    as_taken(*state, false);
    as_taken(*state, true);
}

static size_t activations(qkv_context *context, size_t length, size_t layers, bool recompute)
{
    step s = {.batch = 1, .length = length, .layers = layers};
    const qkv_predicted_step what = {.make = make, .loss = loss, .end = end, .user = &s,
                                     .recompute = recompute};
    qkv_memory_prediction p;
    assert_int_equal(qkv_predict_memory(context, &what, NULL, &p), QKV_OK);
    return p.activations;
}

/* Linear in the length: what a token takes is the same up to the longest, but for what does not
 * depend on it, such as memory of gradients, which is lent. Recomputed, a layer more takes two of
 * its outputs, in place of all it computes. */
static void test_long(void **state)
{
    qkv_context *context = *state;
    enum { SHORT = 4096, WIDTH = 64, LAYERS = 6 };
    for (int recompute = 0; recompute < 2; recompute++) {
        size_t before = activations(context, 2 * SHORT, LAYERS, recompute);
        size_t once = before - activations(context, SHORT, LAYERS, recompute);
        for (size_t length = 4 * SHORT; length <= LONGEST; length *= 2) {
            size_t found = activations(context, length, LAYERS, recompute);
            size_t more = length / 2 / SHORT * once;
            assert_in_range(found - before, more * 98 / 100, more);
            before = found;
        }
    }
    size_t output = sizeof(qkv_real) * LONGEST * WIDTH;
    size_t kept = activations(context, LONGEST, LAYERS + 1, false) -
                  activations(context, LONGEST, LAYERS, false);
    size_t again = activations(context, LONGEST, LAYERS + 1, true) -
                   activations(context, LONGEST, LAYERS, true);
    assert_in_range(kept, 10 * output, 14 * output);
    assert_in_range(again, 2 * output, 2 * output + output / 100);
}

/* Over ranks, values and gradients are padded to chunks, and the rest is cut: AdamW's two numbers
 * for each, and the average's one. What arrives: of four buckets, of which this model has one, a
 * slice from every rank. Gradients that are dropped leave a slice, and memory of 2^18 numbers. */
static void test_ranks(void **state)
{
    enum { RANKS = 4, PADDING = 64 }; /* bytes of a chunk, at most */
    step s = {.batch = BATCH, .length = LENGTH};
    qkv_predicted_step what = {.make = make, .loss = loss, .end = end, .user = &s, .average = true};
    qkv_memory_prediction one, four;
    assert_int_equal(qkv_predict_memory(*state, &what, NULL, &one), QKV_OK);
    what.ranks = RANKS;
    what.keeps = true;
    assert_int_equal(qkv_predict_memory(*state, &what, NULL, &four), QKV_OK);
    assert_int_equal(one.exchange, 0);
    assert_int_equal(four.exchange, 4 * four.gradients);
    assert_in_range(four.parameters, one.parameters, one.parameters + RANKS * PADDING);
    assert_in_range(four.gradients, one.gradients, one.gradients + RANKS * PADDING);
    assert_in_range(four.optimizer, one.optimizer / RANKS,
                    one.optimizer / RANKS + one.optimizer / 50);
    assert_int_equal(one.averages, one.optimizer / 2);
    assert_int_equal(four.averages, four.optimizer / 2);
    /* one rank's lie in memory of gradients, too */
    assert_in_range(four.activations, one.activations + 1, one.activations + one.gradients);
    const size_t activations_of_four = four.activations;
    assert_int_equal(four.total, four.parameters + four.gradients + four.optimizer + four.averages +
                                     four.exchange + four.activations + four.scratch +
                                     four.process);
    const size_t spare = sizeof(qkv_real) << 18;
    what.keeps = false;
    assert_int_equal(qkv_predict_memory(*state, &what, NULL, &four), QKV_OK);
    assert_in_range(four.gradients, spare + one.gradients / RANKS,
                    spare + one.gradients / RANKS + 2 * PADDING);
    assert_int_equal(four.activations, activations_of_four);
}

static void test_cannot_be_made(void **state)
{
    qkv_context *context = *state;
    step s = {.broken = true, .length = LENGTH};
    const qkv_predicted_step what = {.make = make, .loss = loss, .end = end, .user = &s};
    qkv_memory_prediction p;
    assert_int_equal(qkv_predict_memory(context, &what, NULL, &p), QKV_E_ARGUMENT);
    assert_string_equal(qkv_context_message(context), "no such model");
    assert_int_equal(s.ended, 1);
    assert_int_equal(p.total, 0);
}

static int open_it(void **state)
{
    return qkv_context_create((qkv_context **)state, NULL) != QKV_OK;
}

static int close_it(void **state)
{
    qkv_context_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_as_taken, open_it, close_it),
        cmocka_unit_test_setup_teardown(test_long, open_it, close_it),
        cmocka_unit_test_setup_teardown(test_ranks, open_it, close_it),
        cmocka_unit_test_setup_teardown(test_cannot_be_made, open_it, close_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
