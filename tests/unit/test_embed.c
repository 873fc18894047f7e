/* test_embed.c - vectors of texts: pooling, gradients of the loss, recall and neighbours against
 * plain loops, that the task learns a batch by heart, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "qkv/bert.h"
#include "qkv/corpus.h"
#include "qkv/embed.h"
#include "qkv/extend.h"
#include "qkv/job.h"
#include "qkv/random.h"
#include "qkv/train.h"
#include "tokenizers.h"

enum { VOCAB = 40, WIDTH = 16, PAIRS = 12, TEXTS = 3 };

static qkv_model *encoder(double dropout)
{
    qkv_bert_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(qkv_bert_encoder_type()), &c);
    c.vocab = VOCAB;
    c.positions = 12;
    c.width = WIDTH;
    c.layers = 2;
    c.heads = 2;
    c.dropout = c.attention_dropout = dropout;
    check(qkv_model_create(&m, ctx, qkv_bert_encoder_type(), &c));
    check(qkv_model_init(m, 3));
    return m;
}

/* Pair i: i%4+2 ids from 2i on, and the same ids backwards. */
static qkv_records *pairs(size_t n, int32_t first)
{
    qkv_records_writer *w;
    qkv_records *r;
    check(qkv_records_create(&w, ctx, NULL, 2));
    for (size_t i = 0; i < n; i++) {
        int32_t ids[2][8];
        size_t length = i % 4 + 2;
        for (size_t k = 0; k < length; k++)
            ids[0][k] = ids[1][length - 1 - k] = first + (int32_t)((2 * i + k) % (VOCAB - 2));
        for (int side = 0; side < 2; side++)
            check(qkv_records_add(w, ids[side], length));
    }
    check(qkv_records_finish(w, &r));
    return r;
}

/* ---- pooling --------------------------------------------------------------------------------- */

static const int32_t offsets[] = {0, 2, 7, 8};
static const int32_t ids[] = {5, 9, 1, 2, 3, 4, 6, 30};
enum { ROWS = 8 };

static qkv_bert_input packed(qkv_tape *t)
{
    return (qkv_bert_input){.ids = qkv_tensor_ids(t, ids, 2, (size_t[]){1, ROWS}),
                            .sequences = TEXTS, .offsets = offsets};
}

static void vectors_are_means(void **state)
{
    (void)state;
    qkv_model *m = encoder(0);
    qkv_tape *t;
    check(qkv_tape_create(&t, ctx));
    const qkv_bert_input in = packed(t);
    qkv_tensor *h = qkv_bert_hidden(m, t, &in);
    const qkv_real *hidden = qkv_data(t, h);
    const qkv_real *v = qkv_data(t, qkv_bert_vectors(m, t, &in, h));
    assert_non_null(v);
    for (size_t i = 0; i < TEXTS; i++)
        for (size_t c = 0; c < WIDTH; c++) {
            double sum = 0;
            for (int32_t k = offsets[i]; k < offsets[i + 1]; k++)
                sum += (double)hidden[(size_t)k * WIDTH + c];
            sum /= offsets[i + 1] - offsets[i];
            assert_true(fabs(sum - (double)v[i * WIDTH + c]) < 1e-6);
        }
    /* The same texts side by side, padded. */
    int32_t padded[TEXTS * 5] = {0};
    const int32_t lengths[] = {2, 5, 1};
    for (size_t i = 0; i < TEXTS; i++)
        for (int32_t k = 0; k < lengths[i]; k++)
            padded[i * 5 + (size_t)k] = ids[offsets[i] + k];
    const qkv_bert_input batch = {.ids = qkv_tensor_ids(t, padded, 2, (size_t[]){TEXTS, 5}),
                                  .lengths = lengths};
    const qkv_real *w =
        qkv_data(t, qkv_bert_vectors(m, t, &batch, qkv_bert_hidden(m, t, &batch)));
    assert_non_null(w);
    for (size_t i = 0; i < TEXTS * WIDTH; i++)
        assert_true(fabs((double)v[i] - (double)w[i]) < 1e-5);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
}

/* InfoNCE of the vectors, both ways, as the task has it. */
static qkv_tensor *both_ways(void *user, qkv_tape *t)
{
    static const int32_t four[] = {0, 2, 4, 7, 8};
    const qkv_bert_input in = {.ids = qkv_tensor_ids(t, ids, 2, (size_t[]){1, ROWS}),
                               .sequences = 4, .offsets = four};
    qkv_tensor *x = qkv_bert_vectors(user, t, &in, qkv_bert_hidden(user, t, &in));
    qkv_tensor *q = qkv_slice(t, x, 0, 0, 2), *k = qkv_slice(t, x, 0, 2, 4);
    return qkv_add(t, qkv_infonce_loss(t, q, k, 0.5), qkv_infonce_loss(t, k, q, 0.5));
}

static void gradients_reach_the_words(void **state)
{
    (void)state;
    qkv_model *m = encoder(0);
    qkv_gradient_result result;
    check(qkv_gradient_check(qkv_model_params(m), both_ways, m, NULL, &result));
    assert_true(result.checked > 100);
    qkv_model_destroy(m);
}

/* ---- recall and neighbours ------------------------------------------------------------------- */

enum { N = 300, K = 7 };

static void fill(qkv_real *x, size_t n, uint64_t seed)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, 0);
    for (size_t i = 0; i < n; i++)
        x[i] = (qkv_real)qkv_rng_u32(&r) / (qkv_real)4294967296.0 - (qkv_real)0.5;
}

static double cosine(const qkv_real *a, const qkv_real *b)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < WIDTH; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static void recall_is_what_a_loop_finds(void **state)
{
    (void)state;
    static qkv_real a[N * WIDTH], b[N * WIDTH];
    qkv_recall_score s;
    qkv_tape *t;
    double expected[2][2] = {{0}}, loss = 0;
    check(qkv_tape_create(&t, ctx));
    fill(a, N * WIDTH, 1);
    fill(b, N * WIDTH, 2);
    for (size_t i = 0; i < N * WIDTH; i++)
        b[i] += a[i];
    for (int way = 0; way < 2; way++)
        for (size_t i = 0; i < N; i++) {
            size_t before = 0;
            double sum = 0;
            const qkv_real *q = (way ? b : a) + i * WIDTH, *keys = way ? a : b;
            double own = cosine(q, keys + i * WIDTH);
            for (size_t k = 0; k < N; k++) {
                before += k != i && cosine(q, keys + k * WIDTH) >= own;
                sum += exp((cosine(q, keys + k * WIDTH) - own) / 0.1);
            }
            expected[way][0] += (before < 1) / (double)N;
            expected[way][1] += (before < 5) / (double)N;
            loss += log(sum) / (2 * N);
        }
    check(qkv_recall(t, a, b, N, WIDTH, 0.1, &s));
    assert_int_equal(s.pairs, N);
    for (int way = 0; way < 2; way++) {
        assert_true(fabs(s.recall1[way] - expected[way][0]) < 1e-9);
        assert_true(fabs(s.recall5[way] - expected[way][1]) < 1e-9);
        assert_true(expected[way][0] > 0.1 && expected[way][0] < 0.9);
    }
    assert_true(fabs(s.loss - loss) < 1e-4);
    /* All alike: no partner is found. */
    for (size_t i = 0; i < N * WIDTH; i++)
        b[i] = 1;
    check(qkv_recall(t, a, b, N, WIDTH, 0.1, &s));
    assert_true(s.recall1[0] == 0 && s.recall5[0] == 0);
    assert_int_equal(qkv_recall(t, a, b, 0, WIDTH, 0.1, &s), QKV_E_ARGUMENT);
    qkv_tape_destroy(t);
}

static void nearest_are_the_greatest_cosines(void **state)
{
    (void)state;
    static qkv_real a[N * WIDTH], b[N * WIDTH], cosines[N * K];
    static int32_t found[N * K];
    qkv_tape *t;
    check(qkv_tape_create(&t, ctx));
    fill(a, N * WIDTH, 3);
    fill(b, N * WIDTH, 4);
    for (size_t c = 0; c < WIDTH; c++) /* equals: the lower index is first */
        b[8 * WIDTH + c] = b[5 * WIDTH + c] = a[c];
    check(qkv_nearest(t, a, N, b, N, WIDTH, K, found, cosines));
    assert_int_equal(found[0], 5);
    assert_int_equal(found[1], 8);
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < K; k++) {
            size_t greater = 0;
            const qkv_real *q = a + i * WIDTH;
            double own = cosine(q, b + (size_t)found[i * K + k] * WIDTH);
            assert_true(fabs(own - (double)cosines[i * K + k]) < 1e-5);
            for (size_t j = 0; j < N; j++)
                greater += cosine(q, b + j * WIDTH) > own + 1e-6;
            assert_true(greater <= k);
            for (size_t j = 0; j < k; j++)
                assert_true(found[i * K + j] != found[i * K + k]);
        }
    assert_int_equal(qkv_nearest(t, a, 1, b, N, WIDTH, 0, found, cosines), QKV_E_ARGUMENT);
    assert_int_equal(qkv_nearest(t, a, 1, b, 3, WIDTH, 4, found, cosines), QKV_E_ARGUMENT);
    qkv_tape_destroy(t);
}

/* ---- the task -------------------------------------------------------------------------------- */

static double loss_of(const qkv_task *task, uint64_t step, size_t first, size_t count)
{
    qkv_tape *t;
    check(qkv_tape_create(&t, ctx));
    qkv_tape_mode(t, true, true);
    double value = (double)qkv_item(t, task->type->loss(task->self, t, &(qkv_micro_batch){
        .step = step, .first = first, .count = count, .total = PAIRS}));
    check(qkv_tape_status(t));
    qkv_tape_destroy(t);
    return value;
}

static void a_loss_is_of_its_step_alone(void **state)
{
    (void)state;
    qkv_model *m = encoder(0.2);
    qkv_records *r = pairs(3 * PAIRS, 1);
    qkv_task task;
    check(qkv_task_embed(&task, m, r, NULL, NULL, NULL, 5));
    double one = loss_of(&task, 1, 0, PAIRS), two = loss_of(&task, 2, 0, PAIRS);
    double half = loss_of(&task, 1, 4, 4);
    assert_true(one != two && half != one);
    assert_true(loss_of(&task, 1, 0, PAIRS) == one);
    assert_true(loss_of(&task, 1, 4, 4) == half);
    qkv_task_destroy(&task);
    qkv_records_close(r);
    qkv_model_destroy(m);
}

/* A batch of all pairs asks what the evaluation asks, whatever their order. */
static void a_batch_of_all_is_the_evaluation(void **state)
{
    (void)state;
    qkv_model *m = encoder(0);
    qkv_records *r = pairs(PAIRS, 1);
    const qkv_embed_options o = {.temperature = 0.2};
    qkv_recall_score s;
    qkv_task task;
    qkv_tape *t;
    check(qkv_tape_create(&t, ctx));
    check(qkv_task_embed(&task, m, r, NULL, NULL, &o, 5));
    check(qkv_embed_evaluate(m, t, r, &o, 0, &s));
    assert_true(s.loss > 0.1 && fabs(loss_of(&task, 0, 0, PAIRS) - s.loss) < 1e-4);
    qkv_tape_destroy(t);
    qkv_task_destroy(&task);
    qkv_records_close(r);
    qkv_model_destroy(m);
}

static void learns_who_belongs_together(void **state)
{
    (void)state;
    qkv_model *m = encoder(0);
    qkv_records *r = pairs(PAIRS, 1);
    qkv_task task;
    qkv_recall_score s;
    qkv_tape *t;
    qkv_training o = qkv_training_defaults();
    o.loop.steps = 60;
    o.loop.batch = PAIRS;
    o.schedule.lr = 0.01;
    o.schedule.warmup = 5;
    check(qkv_task_embed(&task, m, r, r, NULL, NULL, 5));
    check(qkv_tape_create(&t, ctx));
    check(qkv_embed_evaluate(m, t, r, NULL, 0, &s));
    double before = s.loss;
    check(qkv_train(&task, &o.loop, &o.optimizer, &o.schedule, NULL, false, NULL, NULL,
                    &(qkv_train_result){0}));
    check(qkv_embed_evaluate(m, t, r, NULL, 0, &s));
    assert_true(s.loss < 0.2 * before);
    assert_true(s.recall1[0] == 1 && s.recall1[1] == 1 && s.recall5[0] == 1);
    check(qkv_embed_evaluate(m, t, r, NULL, 4, &s));
    assert_int_equal(s.pairs, 4);
    qkv_tape_destroy(t);
    qkv_task_destroy(&task);
    qkv_records_close(r);
    qkv_model_destroy(m);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    qkv_model *m = encoder(0);
    qkv_records *r = pairs(PAIRS, 1), *high = pairs(PAIRS, 30);
    qkv_task task;
    assert_int_equal(qkv_task_embed(&task, m, high, NULL, NULL, NULL, 1), QKV_E_ARGUMENT);
    expect_message("training data have token");
    assert_null(task.self);
    assert_int_equal(qkv_task_embed(&task, m, r, high, NULL, NULL, 1), QKV_E_ARGUMENT);
    expect_message("held-out data have token");
    const qkv_embed_options cold = {0}, drops = {.temperature = 1, .drop = 0.5};
    assert_int_equal(qkv_task_embed(&task, m, r, NULL, NULL, &cold, 1), QKV_E_ARGUMENT);
    expect_message("temperature is above 0");
    assert_int_equal(qkv_task_embed(&task, m, r, NULL, NULL, &drops, 1), QKV_E_ARGUMENT);
    expect_message("needs the tokenizer");
    qkv_records_close(r);
    qkv_records_close(high);
    qkv_model_destroy(m);
}

/* ---- pairs of lines -------------------------------------------------------------------------- */

static qkv_status add(const char *a, const char *b, size_t length, qkv_partners_count *count)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    o.vocab = 100;
    qkv_tokenizer *tokenizer = trained(&o, lines);
    qkv_records_writer *w;
    const qkv_text_span x = {a, strlen(a), "a.txt", 0}, y = {b, b ? strlen(b) : 0, "b.txt", 0};
    *count = (qkv_partners_count){0};
    check(qkv_records_create(&w, ctx, NULL, 2));
    qkv_status status = qkv_corpus_add_partners(w, ctx, tokenizer, &x, b ? &y : NULL, length,
                                                count);
    qkv_records_abandon(w);
    qkv_tokenizer_destroy(tokenizer);
    return status;
}

static void lines_become_pairs(void **state)
{
    (void)state;
    qkv_partners_count n;
    check(add("the cat\nthe mat\n\n", "a\nb\nc\n", 20, &n));
    assert_int_equal(n.pairs, 2);
    assert_int_equal(n.empty, 1);
    check(add("the cat\tthe mat\r\n \tcat\nthe cat the cat the cat\tsat", NULL, 5, &n));
    assert_int_equal(n.pairs, 2);
    assert_int_equal(n.empty, 1);
    assert_int_equal(n.cut, 1);
    assert_int_equal(add("the\tcat\nthe cat\n", NULL, 20, &n), QKV_E_FORMAT);
    expect_message("a.txt: line 2: a text, a tab");
    assert_int_equal(add("the\tcat\tmat\n", NULL, 20, &n), QKV_E_FORMAT);
    assert_int_equal(add("the\ncat\n", "the\n", 20, &n), QKV_E_FORMAT);
    expect_message("b.txt: line 2 is missing");
    assert_int_not_equal(add("the\ncat\n", "the\n\xff\xfe\n", 20, &n), QKV_OK);
    expect_message("b.txt: line 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_means),
        cmocka_unit_test(gradients_reach_the_words),
        cmocka_unit_test(recall_is_what_a_loop_finds),
        cmocka_unit_test(nearest_are_the_greatest_cosines),
        cmocka_unit_test(a_loss_is_of_its_step_alone),
        cmocka_unit_test(a_batch_of_all_is_the_evaluation),
        cmocka_unit_test(learns_who_belongs_together),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(lines_become_pairs),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
