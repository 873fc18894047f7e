/* test_scale.c - what training over ranks is predicted to take, beside cases worked out by hand;
 * the step that predictions start from, taken and assumed; clusters that cannot be. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "qkv.h"

/* Passes of 1 and 2 s on 4 samples; two buckets, complete in the middle of the backward pass and at
 * its end. Of 4 ranks each sends 3/4 of a bucket: at 4 MB/s in 1.5 s. */
static qkv_scale_bucket buckets[] = {{8e6, 0.5, false}, {8e6, 1, false}};
static const qkv_scale_step by_hand = {.samples = 4, .forward = 1, .backward = 2, .update = 0.4,
                                       .sum = 0.1, .buckets = buckets, .bucket_count = 2};
static const qkv_scale_cluster four = {.ranks = 4, .bandwidth = 4e6};

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected) + 1e-12))
        fail_msg("found %.12g, expected %.12g", found, expected);
}

static qkv_scale_prediction predict(const qkv_scale_cluster *on)
{
    qkv_scale_prediction p;
    assert_int_equal(qkv_scale_predict(ctx, &by_hand, on, &p), QKV_OK);
    near(p.step, p.compute + p.waiting + p.update);
    return p;
}

/* The first bucket goes from 1 s to 2.5 s of the backward pass, the last one to 4 s: 2 s late.
 * Values: 3 s. Update: a quarter of all, and three ranks' quarters are added. */
static void bandwidth(void **state)
{
    (void)state;
    qkv_scale_prediction p = predict(&four);
    near(p.compute, 3);
    near(p.waiting, 2 + 3);
    near(p.update, 0.4 / 4 + 0.1 * 3 / 4);
    near(p.samples_per_s, 16 / 8.175);
    near(p.efficiency, 3.4 / 8.175);
    near(p.bytes, 2 * 16e6 * 3 / 4);
    near(p.messages, 2 * (3 + 3) + 4 * 3); /* a window of each bucket and its values; gathers */
}

/* 10 ms for each of those messages, 3 of them for a bucket. */
static void latency(void **state)
{
    (void)state;
    qkv_scale_cluster on = four;
    on.latency = 0.01;
    near(predict(&on).waiting, (1 + 2 * 1.53 - 2) + 2 * 1.53 + 0.12);
}

/* A rank's slice of just more than two windows takes three. */
static void windows(void **state)
{
    (void)state;
    enum { WINDOW = 1 << 20, RANKS = 4 };
    qkv_scale_bucket large = {((double)2 * WINDOW + 1) * RANKS * sizeof(qkv_real), 1, false};
    qkv_scale_step s = by_hand;
    qkv_scale_prediction p;
    s.buckets = &large;
    s.bucket_count = 1;
    assert_int_equal(qkv_scale_predict(ctx, &s, &four, &p), QKV_OK);
    near(p.messages, 3 * 3 + 3 + 4 * 3);
}

/* A network that is so fast hides all but the bucket that is complete last, and the values; if none
 * is last, the values alone. */
static void hidden(void **state)
{
    (void)state;
    qkv_scale_cluster on = four;
    on.bandwidth = 4e8;
    near(predict(&on).waiting, 0.015 + 2 * 0.015);
    qkv_scale_step early = by_hand;
    qkv_scale_prediction p;
    early.bucket_count = 1;
    assert_int_equal(qkv_scale_predict(ctx, &early, &on, &p), QKV_OK);
    near(p.waiting, 0.015);
}

/* A table that is shared goes early, like any other; in the second of two passes, last: both
 * buckets are 3 s late. */
static void tied(void **state)
{
    (void)state;
    qkv_scale_bucket both[] = {{8e6, 0.5, true}, {8e6, 1, false}};
    qkv_scale_step s = by_hand;
    qkv_scale_cluster on = four;
    qkv_scale_prediction p;
    s.buckets = both;
    assert_int_equal(qkv_scale_predict(ctx, &s, &on, &p), QKV_OK);
    near(p.waiting, 2 + 3);
    on.batch = 32;
    assert_int_equal(qkv_scale_predict(ctx, &s, &on, &p), QKV_OK);
    near(p.waiting, 3 + 3);
}

/* TCP takes 1 ns of a processor for each of 24 MB out and in. */
static void transport(void **state)
{
    (void)state;
    qkv_scale_step s = by_hand;
    qkv_scale_prediction p;
    s.transport = 1e-9;
    assert_int_equal(qkv_scale_predict(ctx, &s, &four, &p), QKV_OK);
    near(p.update, predict(&four).update + 0.024);
}

/* Two ranks on each of two machines: half of a bucket leaves a rank, and a machine twice that. */
static void machines(void **state)
{
    (void)state;
    qkv_scale_cluster on = four;
    on.ranks_per_machine = 2;
    qkv_scale_prediction p = predict(&on);
    near(p.waiting, (1 + 2 + 2 - 2) + 2 * 2);
    near(p.bytes, 2 * 16e6 / 2);
    near(p.messages, 2 * (2 + 2) + 4 * 2);
    near(qkv_scale_cost(&on, &p, 1000, 1.2), 2 * 1000 * p.step / 3600 * 1.2);
    on.ranks_per_machine = 4;
    near(predict(&on).waiting, 0);
}

/* Four passes of a rank: the last one alone hides messages. A quarter of a pass hides a quarter. */
static void batches(void **state)
{
    (void)state;
    qkv_scale_cluster on = four;
    on.batch = 64;
    near(predict(&on).compute, 12);
    near(predict(&on).waiting, 5);
    on.batch = 4;
    near(predict(&on).compute, 0.75);
    near(predict(&on).waiting, (0.25 + 2 * 1.5 - 0.5) + 3);
}

static void one_rank(void **state)
{
    (void)state;
    qkv_scale_cluster on = {.ranks = 1, .bandwidth = 1};
    qkv_scale_prediction p = predict(&on);
    near(p.step, 3.4);
    near(p.efficiency, 1);
    near(p.messages, 0);
}

static void refuse(const qkv_scale_step *s, const qkv_scale_cluster *on, const char *part)
{
    qkv_scale_prediction p = {.step = 1};
    qkv_context *own;
    assert_int_equal(qkv_context_create(&own, NULL), QKV_OK);
    assert_int_equal(qkv_scale_predict(own, s, on, &p), QKV_E_ARGUMENT);
    if (!strstr(qkv_context_message(own), part))
        fail_msg("\"%s\" is not about \"%s\"", qkv_context_message(own), part);
    assert_true(p.step == 0);
    qkv_context_destroy(own);
}

static void cannot_be(void **state)
{
    (void)state;
    qkv_scale_step none = by_hand;
    none.bucket_count = 0;
    refuse(&none, &four, "samples and buckets");
    refuse(&by_hand, &(qkv_scale_cluster){.ranks = 0, .bandwidth = 1}, "found 0 ranks");
    refuse(&by_hand, &(qkv_scale_cluster){.ranks = 6, .ranks_per_machine = 4, .bandwidth = 1},
           "a multiple of the 4 ranks");
    refuse(&by_hand, &(qkv_scale_cluster){.ranks = 4}, "a bandwidth above 0");
    refuse(&by_hand, &(qkv_scale_cluster){.ranks = 4, .bandwidth = 1, .latency = -1}, "latency");
    refuse(&by_hand, &(qkv_scale_cluster){.ranks = 4, .bandwidth = 1, .batch = 3},
           "a sample for each of the 4 ranks");
}

/* ---- the step ------------------------------------------------------------------------------- */

enum { BATCH = 1, LENGTH = 4, VOCAB = 5000, WIDTH = 256 };

typedef struct {
    qkv_model *model;
    bool small, broken;
} network;

static qkv_status make(void *user, qkv_context *context, qkv_model *models[2])
{
    network *n = user;
    qkv_gpt_config config;
    if (n->broken)
        return qkv_fail(context, QKV_E_ARGUMENT, "no such model");
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &config);
    assert_true(qkv_model_type_preset(qkv_gpt2_type(), "nano", &config));
    config.vocab = n->small ? 10 : VOCAB; /* whose embedding is a bucket, tied to the head */
    config.layers = n->small ? 1 : 4;
    config.width = n->small ? 16 : WIDTH; /* 0.8 million numbers a layer: several buckets */
    qkv_status status = qkv_model_create(&n->model, context, qkv_gpt2_type(), &config);
    models[0] = n->model;
    return status;
}

static qkv_tensor *loss(void *user, qkv_tape *t)
{
    static const int32_t ids[BATCH * LENGTH + 1];
    const network *n = user;
    const size_t shape[2] = {BATCH, LENGTH};
    qkv_tensor *in = qkv_tensor_ids(t, ids, 2, shape);
    qkv_tensor *targets = qkv_tensor_ids(t, ids + 1, 2, shape);
    return qkv_lm_loss(n->model, t, qkv_lm_hidden(n->model, t, in, 0, NULL, NULL), targets, NULL);
}

static void end(void *user)
{
    network *n = user;
    qkv_model_destroy(n->model);
    n->model = NULL;
}

/* The bucket of the table that embedding and head share, which the head completes early. */
static void check_tied(const qkv_scale_step *s)
{
    size_t n = 0, tied = 0;
    for (size_t i = 0; i < s->bucket_count; i++)
        if (s->buckets[i].tied) {
            tied = i;
            n++;
        }
    assert_int_equal(n, 1);
    assert_true(tied + 1 < s->bucket_count);
    assert_true(s->buckets[tied].bytes >= VOCAB * WIDTH * sizeof(qkv_real));
}

/* Several buckets, whose gradients are complete one after another. */
static void the_step(void **state)
{
    (void)state;
    network n = {.model = NULL};
    const qkv_predicted_step what = {.make = make, .loss = loss, .end = end, .user = &n};
    qkv_scale_step taken, assumed;
    assert_int_equal(qkv_scale_measure(ctx, &what, BATCH, NULL, 2, &taken), QKV_OK);
    assert_true(taken.forward > 0 && taken.backward > 0 && taken.update > 0 && taken.sum > 0);
    assert_int_equal(qkv_scale_assume(ctx, &what, BATCH, 6, &assumed), QKV_OK);
    near(assumed.forward, 2);
    near(assumed.backward, 4);
    assert_true(assumed.update > assumed.sum && assumed.sum > 0);
    assert_true(taken.bucket_count >= 3);
    assert_int_equal(assumed.bucket_count, taken.bucket_count);
    for (size_t i = 0; i < taken.bucket_count; i++) {
        assert_true(taken.buckets[i].bytes == assumed.buckets[i].bytes);
        assert_true(taken.buckets[i].ready > 0 && taken.buckets[i].ready <= 1);
        assert_true(!i || taken.buckets[i].ready >= taken.buckets[i - 1].ready);
        assert_true(!i || assumed.buckets[i].ready > assumed.buckets[i - 1].ready);
    }
    near(assumed.buckets[assumed.bucket_count - 1].ready, 1);
    check_tied(&taken);
    check_tied(&assumed);
    qkv_scale_step_free(ctx, &taken);
    qkv_scale_step_free(ctx, &assumed);
    assert_null(assumed.buckets);
    qkv_scale_step_free(ctx, &assumed);
}

static void cannot_be_made(void **state)
{
    (void)state;
    network n = {.broken = true};
    const qkv_predicted_step what = {.make = make, .loss = loss, .end = end, .user = &n};
    for (int assume = 0; assume < 2; assume++) {
        qkv_context *own;
        qkv_scale_step s = {.samples = 1};
        assert_int_equal(qkv_context_create(&own, NULL), QKV_OK);
        qkv_status status = assume ? qkv_scale_assume(own, &what, BATCH, 6, &s)
                                   : qkv_scale_measure(own, &what, BATCH, NULL, 1, &s);
        assert_int_equal(status, QKV_E_ARGUMENT);
        assert_string_equal(qkv_context_message(own), "no such model");
        assert_true(!s.buckets && s.samples == 0);
        qkv_context_destroy(own);
    }
}

static qkv_status take_and_assume(void *user)
{
    network n = {.small = true};
    const qkv_predicted_step what = {.make = make, .loss = loss, .end = end, .user = &n};
    qkv_scale_step s;
    (void)user;
    qkv_status status = qkv_scale_measure(ctx, &what, BATCH, NULL, 1, &s);
    qkv_scale_step_free(ctx, &s);
    if (!status)
        status = qkv_scale_assume(ctx, &what, BATCH, 6, &s);
    qkv_scale_step_free(ctx, &s);
    return status;
}

static void memory_missing(void **state)
{
    (void)state;
    expect_memory_told(take_and_assume, NULL, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bandwidth), cmocka_unit_test(latency),   cmocka_unit_test(windows),
        cmocka_unit_test(hidden),    cmocka_unit_test(tied),      cmocka_unit_test(transport),
        cmocka_unit_test(machines),  cmocka_unit_test(batches),   cmocka_unit_test(one_rank),
        cmocka_unit_test(cannot_be), cmocka_unit_test(the_step),  cmocka_unit_test(cannot_be_made),
        cmocka_unit_test(memory_missing)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
