/* Texts cut anew: the ids are other ids of the same text, a function of the seed alone; what the
 * text does not give back stays. A translator trains on them, the same whether it was there from
 * the first step or came later. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fixture.h"
#include "learnt.h"
#include "qkv/marian.h"
#include "qkv/task.h"

static const char text[] = "a low lower lowest widow widens the window .\n"
                           "the lower window is wider than the lowest window .\n"
                           "a new newer newest low-lying wide widow , &apos;the widest &apos; .\n";
enum { DRAWS = 8, LINES = 3, SAMPLES = 2 };

static qkv_tokenizer *make(qkv_tokenizer_kind kind, size_t vocab)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(kind);
    qkv_tokenizer *t;
    o.vocab = vocab;
    o.coverage = 1;
    assert_int_equal(learn_tokenizer(&t, ctx, &o, text), QKV_OK);
    return t;
}

/* The i-th line of the text, without its end. */
static const char *line(size_t i, size_t *len)
{
    const char *at = text;
    for (; i > 0; i--)
        at = strchr(at, '\n') + 1;
    *len = (size_t)(strchr(at, '\n') - at);
    return at;
}

static void encode(qkv_tokenizer *t, size_t i, qkv_ids *ids)
{
    size_t len;
    const char *at = line(i, &len);
    ids->count = 0;
    assert_int_equal(qkv_tokenizer_encode(t, at, len, 0, ids), QKV_OK);
}

static bool equal(const qkv_ids *a, const qkv_ids *b)
{
    return a->count == b->count && memcmp(a->data, b->data, a->count * sizeof *a->data) == 0;
}

static void check_kind(qkv_tokenizer_kind kind, size_t vocab, double amount)
{
    qkv_tokenizer *t = make(kind, vocab);
    qkv_ids ids = {0}, drawn[2] = {{0}, {0}}, again = {0};
    size_t others = 0, changes = 0;
    for (size_t i = 0; i < LINES; i++) {
        size_t len;
        const char *at = line(i, &len);
        encode(t, i, &ids);
        for (size_t seed = 0; seed < DRAWS; seed++) {
            qkv_text back = {0};
            for (size_t k = 0; k < 2; k++) {
                drawn[k].count = 0;
                assert_int_equal(qkv_tokenizer_resegment(t, ids.data, ids.count, 0, amount,
                                                         seed + k, &drawn[k]), QKV_OK);
            }
            assert_int_equal(qkv_tokenizer_decode(t, drawn[0].data, drawn[0].count, 0, &back),
                             QKV_OK);
            assert_int_equal(back.len, len);
            assert_memory_equal(back.data, at, len);
            qkv_text_free(&back, ctx);
            others += !equal(&drawn[0], &ids);
            changes += !equal(&drawn[0], &drawn[1]);
            again.count = 0;
            assert_int_equal(qkv_tokenizer_resegment(t, ids.data, ids.count, 0, amount, seed,
                                                     &again),
                             QKV_OK);
            assert_true(equal(&again, &drawn[0]));
        }
        encode(t, i, &again); /* drawing is over */
        assert_true(equal(&again, &ids));
    }
    assert_true(others > LINES * DRAWS / 2);
    assert_true(changes > LINES * DRAWS / 2);
    qkv_ids_free(&ids, ctx);
    qkv_ids_free(&again, ctx);
    for (size_t k = 0; k < 2; k++)
        qkv_ids_free(&drawn[k], ctx);
    qkv_tokenizer_destroy(t);
}

static void test_same_text(void **state)
{
    (void)state;
    check_kind(QKV_TOKENIZER_BPE, 300, 0.3);
    check_kind(QKV_TOKENIZER_SENTENCEPIECE_BPE, 80, 0.3);
    check_kind(QKV_TOKENIZER_UNIGRAM, 80, 0.2);
}

static void test_what_stays(void **state)
{
    (void)state;
    qkv_tokenizer *t = make(QKV_TOKENIZER_SENTENCEPIECE_BPE, 80);
    int32_t eos = qkv_tokenizer_special(t, QKV_TOKEN_EOS), last;
    qkv_ids ids = {0}, drawn = {0};
    size_t unknown = 0;
    assert_int_equal(qkv_tokenizer_encode(t, "the \xd0\x96 widow", 12, 0, &ids), QKV_OK);
    assert_int_equal(qkv_tokenizer_resegment(t, ids.data, ids.count, 0, 0.9, 1, &drawn), QKV_OK);
    for (size_t i = 0; i < drawn.count; i++)
        unknown += drawn.data[i] == qkv_tokenizer_special(t, QKV_TOKEN_UNK);
    assert_int_equal(unknown, 1); /* the letter that training never saw */
    ids.count = drawn.count = 0; /* a cut that nobody would choose */
    assert_int_equal(qkv_tokenizer_encode(t, "widow", 5, 0, &ids), QKV_OK);
    assert_true(ids.count < 5);
    ids.count = 0;
    assert_int_equal(qkv_tokenizer_encode(t, "the widow lower", 15, 0, &ids), QKV_OK);
    ids.count = 6;
    ids.data[0] = qkv_tokenizer_id(t, "\xe2\x96\x81", 3);
    for (size_t i = 0; i < 5; i++)
        ids.data[i + 1] = qkv_tokenizer_id(t, &"widow"[i], 1);
    assert_int_equal(qkv_tokenizer_resegment(t, ids.data, ids.count, 0, 0.01, 1, &drawn), QKV_OK);
    assert_true(equal(&ids, &drawn));
    encode(t, 0, &ids);
    last = ids.data[ids.count - 1];
    ids.data[ids.count - 1] = eos;
    drawn.count = 0;
    assert_int_equal(qkv_tokenizer_resegment(t, ids.data, ids.count, 0, 0.9, 1, &drawn), QKV_OK);
    assert_true(drawn.count > ids.count);
    assert_int_equal(drawn.data[drawn.count - 1], eos);
    assert_int_not_equal(last, eos);
    drawn.count = 1; /* appends; nothing but special tokens */
    assert_int_equal(qkv_tokenizer_resegment(t, &eos, 1, 0, 0.9, 1, &drawn), QKV_OK);
    assert_int_equal(drawn.count, 2);
    assert_int_equal(drawn.data[1], eos);
    assert_int_equal(qkv_tokenizer_resegment(t, ids.data, ids.count, 0, 1.5, 1, &drawn),
                     QKV_E_ARGUMENT);
    assert_int_equal(drawn.count, 2);
    qkv_ids_free(&ids, ctx);
    qkv_ids_free(&drawn, ctx);
    qkv_tokenizer_destroy(t);
}

/* ---- the task ------------------------------------------------------------------------------ */

static qkv_model *make_model(const qkv_tokenizer *t)
{
    qkv_marian_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(qkv_marian_type()), &c);
    assert_true(qkv_model_type_preset(qkv_marian_type(), "nano", &c));
    c.vocab = qkv_tokenizer_vocab_size(t);
    c.positions = 80;
    c.eos = qkv_tokenizer_special(t, QKV_TOKEN_EOS);
    c.pad = c.start = qkv_tokenizer_special(t, QKV_TOKEN_PAD);
    assert_int_equal(qkv_model_create(&m, ctx, qkv_marian_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 3), QKV_OK);
    return m;
}

/* Every line is the translation of the next. */
static qkv_records *make_records(qkv_tokenizer *t)
{
    qkv_records_writer *w;
    qkv_records *r;
    qkv_ids ids = {0};
    assert_int_equal(qkv_records_create(&w, ctx, NULL, 2), QKV_OK);
    for (size_t i = 0; i < LINES; i++)
        for (size_t f = 0; f < 2; f++) {
            encode(t, (i + f) % LINES, &ids);
            ids.data[ids.count - 1] = qkv_tokenizer_special(t, QKV_TOKEN_EOS);
            assert_int_equal(qkv_records_add(w, ids.data, ids.count), QKV_OK);
        }
    assert_int_equal(qkv_records_finish(w, &r), QKV_OK);
    qkv_ids_free(&ids, ctx);
    return r;
}

static double loss(qkv_task *task, uint64_t step)
{
    qkv_tape *t;
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_micro_batch part = {.step = step, .count = SAMPLES, .total = SAMPLES};
    double value = (double)qkv_item(t, task->type->loss(task->self, t, &part));
    assert_int_equal(qkv_tape_status(t), QKV_OK);
    qkv_tape_destroy(t);
    return value;
}

static void test_training(void **state)
{
    (void)state;
    qkv_tokenizer *t = make(QKV_TOKENIZER_SENTENCEPIECE_BPE, 80);
    qkv_model *m = make_model(t);
    qkv_records *r = make_records(t);
    qkv_translate_options o = {.budget = 60};
    qkv_task plain, drawing, late;
    assert_int_equal(qkv_task_translate(&plain, m, r, NULL, &o, 9), QKV_OK);
    o.sampling = 0.5;
    assert_int_equal(qkv_task_translate(&drawing, m, r, NULL, &o, 9), QKV_E_ARGUMENT);
    o.tokenizer = t;
    assert_int_equal(qkv_task_translate(&drawing, m, r, NULL, &o, 9), QKV_OK);
    assert_int_equal(qkv_task_translate(&late, m, r, NULL, &o, 9), QKV_OK);
    size_t epoch = LINES; /* steps after which the same samples come again: at most */
    for (uint64_t step = 0; step < 2 * epoch; step++) {
        double now = loss(&drawing, step);
        assert_true(now != loss(&plain, step));
        if (step == 2 * epoch - 1)
            assert_true(now == loss(&late, step));
    }
    qkv_task_destroy(&plain);
    qkv_task_destroy(&drawing);
    qkv_task_destroy(&late);
    o.sampling = 2;
    assert_int_equal(qkv_task_translate(&late, m, r, NULL, &o, 9), QKV_E_ARGUMENT);
    qkv_records_close(r);
    qkv_model_destroy(m);
    qkv_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_text),
        cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_training),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
