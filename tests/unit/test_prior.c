/* test_prior.c - learning grids of codes: what is told from what, what a part of an update adds,
 * what is evaluated, what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "drawn.h"
#include "qkv/prior.h"

enum { VOCAB = 20, CODES = 6, BEFORE = 2, COUNT = 9 };
static int32_t codes[COUNT * CODES], conditions[COUNT * BEFORE];

static qkv_code_grids made_code_grids(void)
{
    for (size_t i = 0; i < COUNT * CODES; i++)
        codes[i] = (int32_t)(i * i * 7 % VOCAB);
    for (size_t i = 0; i < COUNT * BEFORE; i++)
        conditions[i] = (int32_t)(i * 3 % VOCAB);
    return (qkv_code_grids){.count = COUNT, .codes = CODES, .before = BEFORE, .grids = codes,
                            .conditions = conditions};
}

static qkv_model *made_prior(void)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &c);
    c.vocab = VOCAB;
    c.positions = BEFORE + CODES - 1;
    c.width = 16;
    c.layers = c.heads = 2;
    return made(qkv_prior_type(), &c);
}

/* -log p of grid i's codes, one after another, from the tokens before each alone. */
static double by_hand(qkv_model *m, const qkv_code_grids *g, size_t i)
{
    int32_t ids[BEFORE + CODES];
    double sum = 0;
    memcpy(ids, g->conditions + i * BEFORE, BEFORE * sizeof *ids);
    memcpy(ids + BEFORE, g->grids + i * CODES, CODES * sizeof *ids);
    for (size_t k = 0; k < CODES; k++) {
        const size_t shape[] = {1, BEFORE + k};
        double total = 0;
        qkv_tape_reset(tape);
        qkv_tape_mode(tape, false, false);
        qkv_tensor *h = qkv_lm_hidden(m, tape, qkv_tensor_ids(tape, ids, 2, shape), 0, NULL, NULL);
        const qkv_real *logits = qkv_data(tape, qkv_lm_logits(m, tape, h));
        assert_non_null(logits);
        logits += (BEFORE + k - 1) * VOCAB;
        for (size_t v = 0; v < VOCAB; v++)
            total += exp((double)logits[v]);
        sum += log(total) - (double)logits[ids[BEFORE + k]];
    }
    return sum;
}

static void test_evaluated(void **state)
{
    (void)state;
    qkv_code_grids g = made_code_grids();
    qkv_model *m = made_prior();
    qkv_prior_score score;
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++)
        sum += by_hand(m, &g, i);
    assert_int_equal(qkv_prior_evaluate(m, tape, &g, 0, &score), QKV_OK);
    assert_int_equal(score.codes, COUNT * CODES);
    assert_true(fabs(score.loss - sum / (COUNT * CODES)) < 1e-5);
    assert_true(fabs(score.bits_per_code - score.loss / log(2)) < 1e-12);
    assert_int_equal(qkv_prior_evaluate(m, tape, &g, 3 * CODES, &score), QKV_OK);
    sum = by_hand(m, &g, 0) + by_hand(m, &g, 3) + by_hand(m, &g, 6);
    assert_int_equal(score.codes, 3 * CODES);
    assert_true(fabs(score.loss - sum / (3 * CODES)) < 1e-5);
    qkv_model_destroy(m);
}

/* Parts add up; codes that are exchanged stay what is to be told; a start token is 0. */
static void test_training(void **state)
{
    (void)state;
    qkv_code_grids g = made_code_grids();
    qkv_model *m = made_prior();
    qkv_task plain, blurred, started;
    assert_int_equal(qkv_task_prior(&plain, m, &g, &g, 1, 1), QKV_OK);
    assert_int_equal(qkv_task_prior(&blurred, m, &g, &g, 0.5, 1), QKV_OK);
    double loss = expect_parts(&plain), other = expect_parts(&blurred);
    assert_true(fabs(loss - other) > 1e-4);
    g.conditions = NULL;
    assert_int_equal(qkv_task_prior(&started, m, &g, NULL, 1, 1), QKV_OK);
    assert_true(plain.held_out && !started.held_out);
    double before = part_loss(&started, 0, 8, NULL);
    memset(conditions, 0, sizeof conditions);
    assert_true(fabs(part_loss(&plain, 0, 8, NULL) - before) < 1e-6);
    qkv_task_destroy(&started);
    qkv_task_destroy(&blurred);
    qkv_task_destroy(&plain);
    qkv_model_destroy(m);
}

/* Mean -log p of both codes when the second is told from `read` instead of the first. */
static double loss_of_pair(qkv_model *m, const int32_t *pair, int32_t read)
{
    const int32_t ids[] = {0, read};
    const size_t shape[] = {1, 2};
    qkv_tape_reset(tape);
    qkv_tensor *h = qkv_lm_hidden(m, tape, qkv_tensor_ids(tape, ids, 2, shape), 0, NULL, NULL);
    return (double)qkv_item(tape, qkv_lm_loss(m, tape, h, qkv_tensor_ids(tape, pair, 2, shape),
                                              NULL));
}

/* The one code that is read is itself in half of all samples and any code in the others: which one
 * the loss shows, and that the grid's own are what is told. */
static void test_exchanged(void **state)
{
    (void)state;
    enum { SAMPLES = 400 };
    const int32_t pair[] = {7, 3};
    const qkv_code_grids g = {.count = 1, .codes = 2, .before = 1, .grids = pair};
    qkv_model *m = made_prior();
    qkv_task task;
    double loss[VOCAB];
    size_t met[VOCAB] = {0};
    for (int32_t v = 0; v < VOCAB; v++)
        loss[v] = loss_of_pair(m, pair, v);
    assert_int_equal(qkv_task_prior(&task, m, &g, NULL, 0.5, 1), QKV_OK);
    for (size_t i = 0; i < SAMPLES; i++) {
        const qkv_micro_batch part = {.step = i, .count = 1, .total = 1};
        qkv_tape_reset(tape);
        double got = (double)qkv_item(tape, task.type->loss(task.self, tape, &part));
        size_t nearest = 0;
        for (size_t v = 1; v < VOCAB; v++)
            nearest = fabs(loss[v] - got) < fabs(loss[nearest] - got) ? v : nearest;
        assert_true(fabs(loss[nearest] - got) < 1e-6);
        met[nearest]++;
    }
    for (size_t v = 0; v < VOCAB; v++)
        assert_true(v == 7 ? met[v] > 170 && met[v] < 250 : met[v] > 1 && met[v] < 25);
    qkv_task_destroy(&task);
    qkv_model_destroy(m);
}

/* Of what neighbours tell: counted here over all weights at once, on other numbers. */
static double neighbours_by_hand(const qkv_code_grids *train, const qkv_code_grids *valid, double w)
{
    double sum = 0;
    for (size_t i = 0; i < valid->count * CODES; i++) {
        double met = 0, pairs = 0, these = 0, total = (double)(train->count * CODES);
        int32_t code = valid->grids[i], left = i % 3 ? valid->grids[i - 1] : -1;
        for (size_t k = 0; k < train->count * CODES; k++) {
            met += train->grids[k] == code;
            bool after = k % 3 && left >= 0 && train->grids[k - 1] == left;
            pairs += after;
            these += after && train->grids[k] == code;
        }
        double alone = (met + 1) / (total + VOCAB);
        sum -= log2(pairs > 0 ? w * these / pairs + (1 - w) * alone : alone);
    }
    return sum / (double)(valid->count * CODES);
}

static void test_neighbours(void **state)
{
    (void)state;
    static int32_t train_codes[40 * CODES], valid_codes[5 * CODES];
    for (size_t i = 0; i < 40 * CODES; i++)
        train_codes[i] = i % 3 ? (train_codes[i - 1] * 3 + (int32_t)(i * i % 7 == 2)) % VOCAB
                               : (int32_t)(i * 7 % VOCAB);
    for (size_t i = 0; i < 5 * CODES; i++)
        valid_codes[i] = i % 3 ? valid_codes[i - 1] * 3 % VOCAB : (int32_t)(i * 5 % VOCAB);
    qkv_code_grids train = {.count = 40, .codes = CODES, .columns = 3, .before = 1};
    qkv_code_grids valid = train, known = train, tail = train;
    train.grids = known.grids = train_codes;
    known.count = 36;
    tail.count = 4;
    tail.grids = train_codes + 36 * CODES;
    valid.count = 5;
    valid.grids = valid_codes;
    double best = 0, least = INFINITY, bits;
    for (int k = 0; k < 101; k++) {
        double of_tail = neighbours_by_hand(&known, &tail, k / 101.0);
        if (of_tail < least - 1e-12) {
            least = of_tail;
            best = k / 101.0;
        }
    }
    assert_true(best > 0.1);
    assert_int_equal(qkv_prior_bigram(ctx, &train, &valid, VOCAB, &bits), QKV_OK);
    assert_true(fabs(bits - neighbours_by_hand(&train, &valid, best)) < 1e-9);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_code_grids g = made_code_grids(), wide = g;
    qkv_model *m = made_prior();
    qkv_task task;
    wide.codes = CODES + 1;
    wide.count = 2;
    assert_int_equal(qkv_task_prior(&task, m, &wide, NULL, 1, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "7 positions"));
    assert_int_equal(qkv_task_prior(&task, m, &g, NULL, 0, 1), QKV_E_ARGUMENT);
    codes[CODES * 4 + 1] = VOCAB;
    assert_int_equal(qkv_task_prior(&task, m, &g, NULL, 1, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "training grid 4: code 20"));
    codes[CODES * 4 + 1] = 0;
    conditions[3] = -1;
    assert_int_equal(qkv_task_prior(&task, m, &g, NULL, 1, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "hangs on token -1"));
    assert_null(task.self);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluated), cmocka_unit_test(test_training),
        cmocka_unit_test(test_exchanged), cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
