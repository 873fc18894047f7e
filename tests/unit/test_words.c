/* Tasks on BERT: which words are hidden, how texts are laid out, that each task learns one batch
 * by heart, that a batch done in parts is the same batch, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "qkv/bert.h"
#include "qkv/train.h"
#include "task/masking.h"
#include "task/packed.h"
#include "tokenizers.h"

static qkv_tokenizer *tokenizer;
static int32_t cls, sep, mask;

static void make_tokenizer(void)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    o.vocab = 100;
    tokenizer = trained(&o, lines);
    cls = qkv_tokenizer_special(tokenizer, QKV_TOKEN_CLS);
    sep = qkv_tokenizer_special(tokenizer, QKV_TOKEN_SEP);
    mask = qkv_tokenizer_special(tokenizer, QKV_TOKEN_MASK);
}

static qkv_model *bert(const qkv_model_type *type, size_t positions)
{
    qkv_bert_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.vocab = qkv_tokenizer_vocab_size(tokenizer);
    c.positions = positions;
    c.width = 32;
    c.layers = 2;
    c.heads = 2;
    c.classes = 3;
    c.dropout = c.attention_dropout = 0;
    check(qkv_model_create(&m, ctx, type, &c));
    check(qkv_model_init(m, 7));
    return m;
}

/* Record i of n: [CLS] i+4 words, each the next of the vocabulary, [SEP]; with labels also a
 * second text for every third one, and class i % 3. */
static qkv_records *records(size_t n, bool labels)
{
    qkv_records_writer *w;
    qkv_records *r;
    int32_t ids[64];
    int32_t words = (int32_t)qkv_tokenizer_vocab_size(tokenizer) - mask - 1;
    check(qkv_records_create(&w, ctx, NULL, labels ? 3 : 1));
    for (size_t i = 0; i < n; i++) {
        size_t count = 0;
        ids[count++] = cls;
        for (size_t k = 0; k < i % 20 + 4; k++)
            ids[count++] = mask + 1 + (int32_t)((5 * i + k) % (size_t)words);
        ids[count++] = sep;
        check(qkv_records_add(w, ids, count));
        if (!labels)
            continue;
        int32_t label = (int32_t)(i % 3);
        check(qkv_records_add(w, ids + 2, i % 3 ? 0 : count - 2));
        check(qkv_records_add(w, &label, 1));
    }
    check(qkv_records_finish(w, &r));
    return r;
}

/* ---- hiding ---------------------------------------------------------------------------------- */

static void near(double share, double expected, double n)
{
    double std = sqrt(expected * (1 - expected) / n);
    if (!(fabs(share - expected) < 5 * std))
        fail_msg("%g of %g, expected %g", share, n, expected);
}

enum { IDS = 200000 };

static void test_masking(void **state)
{
    (void)state;
    static int32_t ids[IDS], was[IDS], rows[IDS], targets[IDS], again[IDS];
    qkv__masking m;
    make_tokenizer();
    size_t V = qkv_tokenizer_vocab_size(tokenizer);
    check(qkv__masking_init(&m, ctx, tokenizer, V, 0.15, 5));
    for (size_t i = 0; i < IDS; i++)
        was[i] = ids[i] = again[i] = i % 10 == 0 ? cls : i % 10 == 9 ? sep : (int32_t)(20 + i % 7);
    size_t n = qkv__masking_hide(&m, 3, ids, IDS, 1000, rows, targets);
    double masked = 0, kept = 0, other = 0, changed = 0;
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)rows[i] - 1000;
        assert_true(row < IDS && (i == 0 || rows[i] > rows[i - 1]));
        assert_int_equal(targets[i], was[row]);
        assert_true(was[row] >= 20);
        masked += ids[row] == mask;
        kept += ids[row] == was[row];
        other += ids[row] != mask && ids[row] != was[row];
    }
    for (size_t i = 0; i < IDS; i++)
        changed += ids[i] != was[i];
    assert_true(changed == masked + other); /* nothing but what is a target */
    near((double)n / (0.8 * IDS), 0.15, 0.8 * IDS);
    near(masked / (double)n, 0.8 + 0.1 / (double)V, (double)n);
    near(kept / (double)n, 0.1 + 0.1 / (double)V, (double)n);
    near(other / (double)n, 0.1 - 0.2 / (double)V, (double)n);
    /* a function of seed, sample and place: a part of the ids gives a part of the result */
    size_t few = qkv__masking_hide(&m, 3, again, 100, 1000, rows, targets);
    assert_true(few > 0);
    assert_memory_equal(again, ids, 100 * sizeof *ids);
    assert_memory_equal(again + 100, was + 100, 100 * sizeof *ids);
    memcpy(again, was, sizeof was);
    qkv__masking_hide(&m, 4, again, IDS, 1000, rows, targets);
    assert_memory_not_equal(again, ids, sizeof ids);
    qkv__masking_free(&m, ctx);
    qkv_tokenizer_destroy(tokenizer);
}

static void test_dropping(void **state)
{
    (void)state;
    static int32_t ids[IDS];
    qkv__masking m;
    make_tokenizer();
    check(qkv__masking_init(&m, ctx, tokenizer, qkv_tokenizer_vocab_size(tokenizer), 0.3, 5));
    for (size_t i = 0; i < IDS; i++)
        ids[i] = i % 2 ? 30 : sep;
    qkv__masking_drop(&m, 1, ids, IDS);
    double dropped = 0;
    for (size_t i = 0; i < IDS; i++) {
        assert_true(i % 2 ? ids[i] == 30 || ids[i] == mask : ids[i] == sep);
        dropped += ids[i] == mask;
    }
    near(dropped / (IDS / 2), 0.3, IDS / 2);
    qkv__masking_free(&m, ctx);
    qkv_tokenizer_destroy(tokenizer);
}

static void test_packed(void **state)
{
    (void)state;
    make_tokenizer();
    qkv_records *r = records(4, true);
    qkv__packed p = {.ctx = ctx};
    for (int round = 0; round < 2; round++) {
        qkv__packed_clear(&p);
        for (size_t i = 0; i < 4; i++)
            qkv__packed_record(&p, r, i, 2);
        assert_false(p.failed);
        assert_int_equal(p.sequences, 4);
        assert_int_equal(p.rows, 6 + 4 + 7 + 8 + 9 + 7);
        static const int32_t offsets[] = {0, 10, 17, 25, 41};
        assert_memory_equal(p.offsets, offsets, sizeof offsets);
        for (size_t i = 0; i < p.rows; i++)
            assert_int_equal(p.segments[i], (i >= 6 && i < 10) || i >= 34);
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(p.ids[offsets[i]], cls);
    }
    qkv__packed_free(&p);
    qkv_records_close(r);
    qkv_tokenizer_destroy(tokenizer);
}

/* ---- learning -------------------------------------------------------------------------------- */

/* The gradients of one update done in `parts`, summed over all parameters with random signs. */
static double gradient(qkv_task *task, qkv_tape *t, size_t batch, size_t parts, double *loss)
{
    double sum = 0;
    qkv_params *ps = qkv_model_params(task->model);
    qkv_params_zero_grad(ps);
    *loss = 0;
    for (size_t i = 0; i < parts; i++) {
        size_t from = batch * i / parts, to = batch * (i + 1) / parts;
        qkv_micro_batch part = {2, 0, from, to - from, batch, NULL};
        qkv_tape_reset(t);
        qkv_tape_mode(t, true, true);
        qkv_tensor *y = task->type->loss(task->self, t, &part);
        *loss += (double)qkv_item(t, y);
        check(qkv_backward(t, y));
    }
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        const qkv_real *g = qkv_param_grad(p);
        for (size_t k = 0; g && k < qkv_param_count(p); k++)
            sum += (double)g[k] * ((k * 2654435761u >> 7) % 2 ? 1 : -1);
    }
    return sum;
}

static double check_parts(qkv_task *task, size_t batch) /* returns the loss */
{
    qkv_tape *t;
    double one, three;
    check(qkv_tape_create(&t, ctx));
    double whole = gradient(task, t, batch, 1, &one), parts = gradient(task, t, batch, 3, &three);
    assert_true(fabs(one - three) < 1e-5 * fabs(one));
    if (!(fabs(whole - parts) < 1e-3 * fabs(whole)))
        fail_msg("gradients %g in one part, %g in three", whole, parts);
    qkv_tape_destroy(t);
    return one;
}

static double learn(qkv_task *task, size_t steps, size_t batch, qkv_train_result *r)
{
    qkv_train_options o = qkv_train_defaults();
    o.steps = steps;
    o.batch = batch;
    qkv_optimizer_options adam = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_schedule s = qkv_schedule_defaults(QKV_SCHEDULE_CONSTANT);
    s.lr = 3e-3;
    check(qkv_train(task, &o, &adam, &s, NULL, false, NULL, NULL, r));
    return r->train_loss;
}

static void test_mlm(void **state)
{
    (void)state;
    make_tokenizer();
    qkv_model *m = bert(qkv_bert_masked_type(), 32);
    qkv_records *r = records(30, false);
    qkv_mlm_options o = qkv_mlm_defaults();
    o.budget = 100;
    qkv_task task;
    check(qkv_task_mlm(&task, m, r, r, tokenizer, &o, 1));
    check_parts(&task, 5);
    qkv_train_result result;
    learn(&task, 600, 4, &result);
    assert_string_equal(result.metrics.item[0].name, "loss");
    assert_string_equal(result.metrics.item[2].name, "accuracy");
    /* chance: 4.4 nats, 1 in 83 */
    if (!(result.metrics.item[0].value < 1 && result.metrics.item[2].value > 0.7))
        fail_msg("loss %g, accuracy %g", result.metrics.item[0].value,
                 result.metrics.item[2].value);
    qkv_tape *t;
    qkv_mlm_score score, few;
    check(qkv_tape_create(&t, ctx));
    check(qkv_mlm_evaluate(m, t, r, tokenizer, NULL, 0, &score));
    assert_true(score.loss == result.metrics.item[0].value); /* the same words are hidden */
    assert_int_equal(score.tokens, qkv_records_ids(r, 0));
    check(qkv_mlm_evaluate(m, t, r, tokenizer, NULL, 100, &few));
    assert_true(few.tokens < 200);
    qkv_tape_destroy(t);
    qkv_task_destroy(&task);
    qkv_records_close(r);
    qkv_model_destroy(m);
    qkv_tokenizer_destroy(tokenizer);
}

static void test_classify(void **state)
{
    (void)state;
    make_tokenizer();
    qkv_model *m = bert(qkv_bert_classifier_type(), 64);
    qkv_records *r = records(24, true);
    qkv_task task;
    check(qkv_task_classify(&task, m, r, r, NULL, NULL, 1));
    double once = check_parts(&task, 11);
    qkv_task twice;
    qkv_classify_options read_twice = {.drop = 0.2, .rdrop = 3};
    check(qkv_task_classify(&twice, m, r, r, tokenizer, &read_twice, 1));
    double two = check_parts(&twice, 11); /* a mean over both readings: hardly more */
    assert_true(two > 0.8 * once && two < 1.5 * once);
    qkv_task_destroy(&twice);
    qkv_train_result result;
    double loss = learn(&task, 100, 24, &result);
    assert_true(loss < 0.05);
    assert_string_equal(result.metrics.item[0].name, "accuracy");
    assert_true(result.metrics.more_is_better);
    for (int i = 0; i < 3; i += 2) /* accuracy and F1 */
        assert_true(result.metrics.item[i].value == 1);
    qkv_tape *t;
    qkv_classify_score score;
    check(qkv_tape_create(&t, ctx));
    check(qkv_classify_evaluate(m, t, r, 5, &score));
    assert_int_equal(score.texts, 5);
    qkv_tape_destroy(t);
    qkv_task_destroy(&task);
    qkv_records_close(r);
    qkv_model_destroy(m);
    qkv_tokenizer_destroy(tokenizer);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    make_tokenizer();
    qkv_model *words = bert(qkv_bert_masked_type(), 16), *classes = bert(qkv_bert_classifier_type(),
                                                                         16);
    qkv_records *texts = records(5, false), *long_texts = records(30, false);
    qkv_records *labelled = records(3, true);
    qkv_task task;
    assert_int_equal(qkv_task_mlm(&task, classes, texts, NULL, tokenizer, NULL, 1),
                     QKV_E_ARGUMENT);
    expect_message("fills masks: a BertForSequenceClassification does not");
    assert_int_equal(qkv_task_mlm(&task, words, long_texts, NULL, tokenizer, NULL, 1),
                     QKV_E_ARGUMENT);
    expect_message("the training data have a text of 25 tokens, the model only 16 positions");
    qkv_mlm_options none = {.budget = 100, .share = 0};
    assert_int_equal(qkv_task_mlm(&task, words, texts, NULL, tokenizer, &none, 1),
                     QKV_E_ARGUMENT);
    expect_message("above 0 and at most 1, not 0");
    assert_int_equal(qkv_task_classify(&task, words, labelled, NULL, NULL, NULL, 1),
                     QKV_E_ARGUMENT);
    expect_message("classifies text: a BertForMaskedLM does not");
    assert_int_equal(qkv_task_classify(&task, classes, texts, NULL, NULL, NULL, 1),
                     QKV_E_ARGUMENT);
    expect_message("the training data are no labelled texts");
    qkv_classify_options drop = {.drop = 0.1};
    assert_int_equal(qkv_task_classify(&task, classes, labelled, NULL, NULL, &drop, 1),
                     QKV_E_ARGUMENT);
    expect_message("needs the tokenizer");
    assert_null(task.self);
    qkv_records_close(texts);
    qkv_records_close(long_texts);
    qkv_records_close(labelled);
    qkv_model_destroy(words);
    qkv_model_destroy(classes);
    qkv_tokenizer_destroy(tokenizer);
}

/* One thread: models this small gain nothing from more. */
static int setup_one(void **state)
{
    (void)state;
    qkv_context_options o = qkv_context_defaults();
    o.threads = 1;
    return qkv_context_create(&ctx, &o);
}

/* ---- dropout of the head for classes -------------------------------------------------------- */

enum { WIDE = 32, ROWS = 64 };

/* Logits (ROWS, WIDE) of rows of ones, by a head whose layers hand on what they get: dense and
 * output are identities. */
static void drop_in_head(const qkv_model_type *type, qkv_real *out)
{
    qkv_bert_config c;
    qkv_model *m;
    qkv_tape *t;
    const size_t shape[] = {1, ROWS, WIDE}, rows = ROWS;
    int32_t at[ROWS];
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.vocab = 40;
    c.width = c.ff_width = c.classes = WIDE;
    c.layers = 1;
    c.heads = 2;
    c.dropout = c.attention_dropout = 0;
    c.classifier_dropout = 0.5;
    check(qkv_model_create(&m, ctx, type, &c));
    check(qkv_tape_create(&t, ctx));
    for (size_t i = 0; i < 2; i++) {
        qkv_param *p = qkv_params_find(qkv_model_params(m), i ? "head.weight" : "dense.weight");
        assert_int_equal(qkv_param_count(p), WIDE * WIDE);
        for (size_t k = 0; k < WIDE; k++)
            qkv_param_data(p)[k * WIDE + k] = 1;
        qkv_param_touch(p);
    }
    qkv_tape_mode(t, true, true);
    qkv_tape_randomness(t, &(qkv_randomness){.seed = 3, .step = 7});
    qkv_tensor *x = qkv_tensor_from(t, NULL, 3, shape);
    for (size_t i = 0; i < ROWS * WIDE; i++)
        qkv_tensor_fill(x)[i] = 1;
    for (int32_t i = 0; i < ROWS; i++)
        at[i] = i;
    qkv_tensor *ids = qkv_tensor_ids(t, at, 1, &rows);
    const qkv_real *y = qkv_data(t, qkv_bert_class_logits(m, t, x, ids));
    assert_non_null(y);
    memcpy(out, y, ROWS * WIDE * sizeof *out);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
}

/* BERT's drops what tanh gives; RoBERTa's its input too, with a mask of its own, so that 1/4 is
 * left; DistilBERT's ReLU is between no other dropouts than BERT's tanh is. */
static void test_head_dropout(void **state)
{
    (void)state;
    const struct {
        const qkv_model_type *type;
        double left, value;
    } cases[] = {{qkv_bert_classifier_type(), 0.5, 2 * tanh(1)},
                 {qkv_roberta_classifier_type(), 0.25, 2 * tanh(2)},
                 {qkv_distilbert_classifier_type(), 0.5, 2}};
    qkv_real y[ROWS * WIDE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t left = 0;
        drop_in_head(cases[i].type, y);
        for (size_t k = 0; k < ROWS * WIDE; k++) {
            left += y[k] != 0;
            if (y[k] != 0 && !(fabs((double)y[k] - cases[i].value) < 1e-5))
                fail_msg("%s: %g, not %g", qkv_model_type_name(cases[i].type), (double)y[k],
                         cases[i].value);
        }
        double share = (double)left / (ROWS * WIDE);
        if (!(fabs(share - cases[i].left) < 0.05))
            fail_msg("%s: %g are left, not %g", qkv_model_type_name(cases[i].type), share,
                     cases[i].left);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masking),  cmocka_unit_test(test_dropping),
        cmocka_unit_test(test_packed),   cmocka_unit_test(test_mlm),
        cmocka_unit_test(test_classify), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_head_dropout),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup_one, teardown);
}
