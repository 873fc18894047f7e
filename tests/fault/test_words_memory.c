/* test_words_memory.c - the n-th allocation fails, for every n, while texts become records, BERT's
 * tasks train and are evaluated, and words and labels are asked for: each time a clean error or the
 * right answer, and all memory comes back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "failing.h"
#include "learnt.h"
#include "qkv/bert.h"
#include "qkv/corpus.h"
#include "qkv/infer.h"
#include "qkv/task.h"

static const char text[] = "yes\tthe cat sat\ta cat\nno\tthe dog sat there on the mat\ta dog\n"
                           "no\tthe mat\tthe cat\nyes\ton the mat\tthe mat\n";
static const qkv_text_span part = {text, sizeof text - 1, "text", 0};
static const char *const names[] = {"no", "yes"};

typedef struct {
    qkv_context *ctx;
    qkv_tokenizer *tokenizer;
    qkv_model *model;
    qkv_records *records;
    qkv_labels labels;
    qkv_task task;
    qkv_tape *tape;
} fixture;

static qkv_status make_tokenizer(fixture *f)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    o.vocab = 60;
    return learn_tokenizer(&f->tokenizer, f->ctx, &o, text);
}

static qkv_status make_model(fixture *f, bool classes)
{
    const qkv_bert_config c = {.vocab = qkv_tokenizer_vocab_size(f->tokenizer), .positions = 12,
                               .segments = 2, .width = 8, .layers = 1, .heads = 2, .classes = 2,
                               .norm_eps = 1e-5, .dropout = 0.1, .pad = 0};
    qkv_status status = qkv_model_create(
        &f->model, f->ctx, classes ? qkv_bert_classifier_type() : qkv_bert_masked_type(), &c);
    return status ? status : qkv_model_init(f->model, 1);
}

static qkv_status make_records(fixture *f, bool classes)
{
    qkv_records_writer *w = NULL;
    size_t cut = 0;
    qkv_status status = qkv_records_create(&w, f->ctx, NULL, classes ? 3 : 1);
    if (!status && classes)
        status = qkv_labels_collect(&f->labels, &part);
    if (!status && classes)
        status = qkv_corpus_add_labelled(w, f->ctx, f->tokenizer, &part, names, 2, 9, &cut);
    else if (!status)
        status = qkv_corpus_add_lines(w, f->ctx, f->tokenizer, &part, 9, true);
    if (status)
        qkv_records_abandon(w);
    else
        status = qkv_records_finish(w, &f->records);
    return status;
}

static qkv_status make_task(fixture *f, bool classes)
{
    const qkv_classify_options drop = {.drop = 0.2};
    const qkv_mlm_options small = {.budget = 20, .share = 0.5};
    qkv_status status =
        classes ? qkv_task_classify(&f->task, f->model, f->records, f->records, f->tokenizer,
                                    &drop, 1)
                : qkv_task_mlm(&f->task, f->model, f->records, f->records, f->tokenizer, &small, 1);
    return status ? status : qkv_tape_create(&f->tape, f->ctx);
}

/* Two updates in two parts each; the last loss, or -1. */
static double train(fixture *f)
{
    double loss = 0;
    for (uint64_t i = 0; i < 4; i++) {
        const qkv_micro_batch some = {i / 2, 0, i % 2, 1, 2, NULL};
        qkv_tape_reset(f->tape);
        qkv_tape_mode(f->tape, true, true);
        qkv_tensor *y = f->task.type->loss(f->task.self, f->tape, &some);
        loss = (double)qkv_item(f->tape, y);
        if (!y || qkv_backward(f->tape, y))
            return -1;
    }
    return loss;
}

/* The probability of the best answer to a question. */
static qkv_status ask(fixture *f, bool classes, double *answer)
{
    const qkv_text_pair pair = {"the cat", 7, "a dog", 5};
    const int32_t mask = qkv_tokenizer_special(f->tokenizer, QKV_TOKEN_MASK);
    const int32_t ids[] = {7, mask, 8};
    qkv_real probs[2] = {0};
    qkv_guess best = {0};
    qkv_status status = classes
                            ? qkv_classify(f->model, f->tokenizer, &pair, 1, probs, NULL)
                            : qkv_fill(f->model, ids, 3, mask, 1, &best);
    *answer = classes ? (double)probs[0] : best.prob;
    return status;
}

/* Everything, one thing after another. The sum of what comes out, or -1 after a failure. */
static double run(failing *memory, bool classes)
{
    const qkv_context_options o = failing_options(memory);
    fixture f = {0};
    qkv_metrics m = {0};
    double loss = -1, answer = 0;
    if (qkv_context_create(&f.ctx, &o))
        return -1;
    f.labels.ctx = f.ctx;
    qkv_status status = make_tokenizer(&f);
    if (!status)
        status = make_model(&f, classes);
    if (!status)
        status = make_records(&f, classes);
    if (!status)
        status = make_task(&f, classes);
    if (!status)
        loss = train(&f);
    bool ok = !status && loss >= 0;
    ok = ok && !f.task.type->evaluate(f.task.self, f.tape, 0, &m) && !ask(&f, classes, &answer);
    if (!ok) {
        assert_int_equal(qkv_context_status(f.ctx), QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(f.ctx)) > 0);
    }
    qkv_task_destroy(&f.task);
    qkv_tape_destroy(f.tape);
    qkv_records_close(f.records);
    qkv_labels_free(&f.labels);
    qkv_model_destroy(f.model);
    qkv_tokenizer_destroy(f.tokenizer);
    qkv_context_destroy(f.ctx);
    return ok ? loss + m.item[0].value + answer : -1;
}

static void check_every_allocation(bool classes)
{
    failing memory = {.left = SIZE_MAX};
    double expected = run(&memory, classes);
    assert_true(expected > 0);
    assert_int_equal(memory.live, 0);
    size_t failures = 0;
    for (size_t n = 0;; n++) {
        assert_true(n < 5000);
        memory.left = n;
        double result = run(&memory, classes);
        assert_int_equal(memory.live, 0);
        if (memory.left > 0 && result >= 0) { /* more allocations were allowed than are made */
            assert_true(result == expected);
            break;
        }
        failures += result < 0;
    }
    assert_true(failures > 50);
}

static void test_words(void **state)
{
    (void)state;
    check_every_allocation(false);
}

static void test_classes(void **state)
{
    (void)state;
    check_every_allocation(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
