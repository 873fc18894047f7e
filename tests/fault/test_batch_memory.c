/* test_batch_memory.c - a batch whose allocations fail one after another: it tells, and a step that
 * failed may be tried again, with the same tokens in the end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <qkv.h>

#include "fixture.h"

enum { VOCAB = 17, MANY = 30000, COUNT = 5, MADE = 6 };
static const int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static qkv_model *make_model(size_t vocab)
{
    qkv_gpt_config c;
    qkv_model *m = NULL;
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &c);
    c.layers = 1;
    c.heads = 2;
    c.width = 16;
    c.vocab = vocab;
    c.positions = 32;
    c.init_range = 0.5;
    c.tie = false;
    assert_int_equal(qkv_model_create(&m, ctx, qkv_gpt2_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 2), QKV_OK);
    return m;
}

typedef struct {
    qkv_model *model;
    int32_t made[COUNT][MADE];
    size_t tries; /* steps that failed */
} job;

static qkv_status work(void *user)
{
    job *j = user;
    qkv_batch *b = NULL;
    qkv_batch_options o = qkv_batch_defaults();
    static const int32_t never = MANY; /* the stop is copied, and no token */
    qkv_generate_options g = {.tokens = MADE, .stop = &never, .stops = 1};
    size_t counts[COUNT] = {0};
    j->tries = 0;
    o.sequences = 3;
    qkv_status status = qkv_batch_create(&b, j->model, &o);
    for (size_t i = 0; i < COUNT && !status; i++)
        status = qkv_batch_add(b, prompt + i, sizeof prompt / sizeof *prompt - i, &g, NULL);
    while (!status && qkv_batch_live(b) + qkv_batch_waiting(b)) {
        status = qkv_batch_step(b);
        const qkv_batch_event *e;
        size_t n = qkv_batch_events(b, &e);
        for (size_t i = 0; i < n; i++)
            if (e[i].kind == QKV_BATCH_TOKEN)
                j->made[e[i].sequence - 1][counts[e[i].sequence - 1]++] = e[i].id;
        if (status == QKV_E_MEMORY && j->tries++ == 0) /* it was one, this is the next try */
            status = QKV_OK;
    }
    for (size_t i = 0; i < COUNT && !status; i++)
        assert_int_equal(counts[i], MADE);
    qkv_batch_destroy(b);
    return status;
}

/* Of many tokens the logits take memory of their own, and a tape that cannot put its memory
 * together goes on; of few, no failure is passed over. */
static void fail_steps(size_t vocab)
{
    job j = {.model = make_model(vocab)};
    assert_int_equal(work(&j), QKV_OK);
    int32_t expected[COUNT][MADE];
    memcpy(expected, j.made, sizeof expected);
    size_t failures = 0;
    for (size_t n = 0;; n++) {
        memset(j.made, 0, sizeof j.made);
        memory.left = n;
        qkv_status status = work(&j);
        bool failed = memory.left == SIZE_MAX;
        memory.left = SIZE_MAX;
        assert_true(!status || (failed && status == QKV_E_MEMORY));
        assert_true(!failed || status || j.tries || vocab == MANY);
        if (!status)
            assert_memory_equal(j.made, expected, sizeof expected);
        failures += status != QKV_OK;
        if (!failed)
            break;
    }
    assert_true(failures > 10);
    qkv_model_destroy(j.model);
}

static void a_failed_step_is_tried_again(void **state)
{
    (void)state;
    fail_steps(VOCAB);
    fail_steps(MANY);
}

/* What is refused, with a sentence, changes nothing. */
static void wrong_requests_are_refused(void **state)
{
    (void)state;
    qkv_model *m = make_model(VOCAB);
    qkv_batch *b = NULL;
    qkv_batch_options o = qkv_batch_defaults();
    const qkv_generate_options g = {.tokens = 4}, many = {.tokens = 30};
    static const struct { size_t sequences, positions, chunk; } bad[] = {
        {0, 0, 64}, {5000, 0, 64}, {2, 0, 7}, {2, 0, 1 << 20}, {2, SIZE_MAX, 64},
        {2, (size_t)1 << 31, 64}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.sequences = bad[i].sequences;
        o.positions = bad[i].positions;
        o.chunk = bad[i].chunk;
        assert_int_equal(qkv_batch_create(&b, m, &o), QKV_E_ARGUMENT);
        assert_null(b);
    }
    o = qkv_batch_defaults();
    o.positions = 16;
    assert_int_equal(qkv_batch_create(&b, m, &o), QKV_OK);
    static const int32_t wrong[] = {1, VOCAB}, below[] = {-1};
    uint64_t id = 77;
    assert_int_equal(qkv_batch_add(b, prompt, 0, &g, &id), QKV_E_ARGUMENT);
    assert_int_equal(qkv_batch_add(b, wrong, 2, &g, &id), QKV_E_ARGUMENT);
    assert_int_equal(qkv_batch_add(b, below, 1, &g, &id), QKV_E_ARGUMENT);
    assert_int_equal(qkv_batch_add(b, prompt, 11, &many, &id), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "need 32 positions; the batch has 16"));
    qkv_generate_options own = {.tokens = 4, .model_distribution = true};
    assert_int_equal(qkv_batch_add(b, prompt, 3, &own, &id), QKV_E_ARGUMENT);
    assert_int_equal(id, 77);
    assert_int_equal(qkv_batch_live(b) + qkv_batch_waiting(b), 0);
    assert_int_equal(qkv_batch_remove(b, 1), QKV_E_ARGUMENT);
    assert_int_equal(qkv_batch_add(b, prompt, 3, &g, &id), QKV_OK);
    assert_int_equal(id, 1);
    assert_int_equal(qkv_batch_remove(b, 1), QKV_OK);
    assert_int_equal(qkv_batch_step(b), QKV_OK);
    qkv_batch_destroy(b);
    qkv_model_destroy(m);
}

/* A number that is none ends its sequence, not those before and after it. */
static void nan_ends_one_sequence(void **state)
{
    (void)state;
    qkv_model *m = make_model(VOCAB);
    qkv_param *tokens = qkv_params_find(qkv_model_params(m), "tokens");
    qkv_batch *b;
    const qkv_generate_options g = {.tokens = 2};
    static const int32_t good[] = {3, 9}, ill[] = {1, 16};
    assert_int_equal(qkv_batch_create(&b, m, NULL), QKV_OK);
    assert_int_equal(qkv_batch_add(b, good, 2, &g, NULL), QKV_OK);
    qkv_real *row = qkv_param_data(tokens) + 16 * 16;
    assert_int_equal(qkv_batch_step(b), QKV_OK);
    row[0] = (qkv_real)NAN;
    qkv_param_touch(tokens);
    assert_int_equal(qkv_batch_add(b, ill, 2, &g, NULL), QKV_OK);
    assert_int_equal(qkv_batch_add(b, good, 2, &g, NULL), QKV_OK);
    assert_int_equal(qkv_batch_step(b), QKV_E_NUMERIC);
    assert_non_null(strstr(qkv_context_message(ctx), "sequence 2: "));
    const qkv_batch_event *e;
    assert_int_equal(qkv_batch_events(b, &e), 3);
    assert_true(e[0].sequence == 1 && e[0].kind == QKV_BATCH_TOKEN);
    assert_true(e[1].sequence == 1 && e[1].kind == QKV_BATCH_LENGTH);
    assert_true(e[2].sequence == 3 && e[2].kind == QKV_BATCH_TOKEN);
    assert_int_equal(qkv_batch_live(b), 1);
    qkv_batch_destroy(b);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_failed_step_is_tried_again),
                                       cmocka_unit_test(wrong_requests_are_refused),
                                       cmocka_unit_test(nan_ends_one_sequence)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
