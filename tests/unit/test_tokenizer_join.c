/* A tokenizer of two: each language is cut by its own model, pieces that both have share an id,
 * what is saved and read again gives the same ids; other kinds are refused, and memory that runs
 * out leaves nothing behind. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fixture.h"
#include "learnt.h"

static const char english[] = "the lower window is wider than the lowest window .";
static const char german[] = "das untere Fenster ist breiter als das unterste Fenster .";

static qkv_tokenizer *make(qkv_tokenizer_kind kind, const char *text, size_t vocab)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(kind);
    qkv_tokenizer *t;
    o.vocab = vocab;
    o.coverage = 1;
    assert_int_equal(learn_tokenizer(&t, ctx, &o, text), QKV_OK);
    return t;
}

/* Cut as `alone` cuts it, and the same text comes back. */
static void check_side(qkv_tokenizer *t, qkv_tokenizer *alone, const char *text, unsigned flags)
{
    qkv_ids ids = {0}, own = {0};
    qkv_text back = {0};
    assert_int_equal(qkv_tokenizer_encode(t, text, strlen(text), flags, &ids), QKV_OK);
    assert_int_equal(qkv_tokenizer_encode(alone, text, strlen(text), 0, &own), QKV_OK);
    assert_int_equal(ids.count, own.count);
    for (size_t i = 0; i < ids.count; i++)
        assert_string_equal(qkv_tokenizer_token(t, ids.data[i], NULL),
                            qkv_tokenizer_token(alone, own.data[i], NULL));
    assert_int_equal(qkv_tokenizer_decode(t, ids.data, ids.count, 0, &back), QKV_OK);
    assert_string_equal(back.data, text);
    qkv_ids_free(&ids, ctx);
    qkv_ids_free(&own, ctx);
    qkv_text_free(&back, ctx);
}

static void check_kind(qkv_tokenizer_kind kind)
{
    qkv_tokenizer *source = make(kind, english, 40), *target = make(kind, german, 40), *t, *again;
    size_t shared = 0;
    assert_int_equal(qkv_tokenizer_join(&t, source, target), QKV_OK);
    for (int32_t id = 0; (size_t)id < qkv_tokenizer_vocab_size(target); id++) {
        const char *piece = qkv_tokenizer_token(target, id, NULL);
        assert_true(qkv_tokenizer_id(t, piece, strlen(piece)) >= 0);
        shared += qkv_tokenizer_id(source, piece, strlen(piece)) >= 0;
    }
    assert_true(shared > 3); /* more than the special tokens */
    assert_int_equal(qkv_tokenizer_vocab_size(t), qkv_tokenizer_vocab_size(source) +
                                                      qkv_tokenizer_vocab_size(target) - shared);
    assert_int_equal(qkv_tokenizer_save(t, folder), QKV_OK);
    assert_int_equal(qkv_tokenizer_load(&again, ctx, folder), QKV_OK);
    qkv_tokenizer *const both[] = {t, again};
    for (size_t i = 0; i < 2; i++) {
        check_side(both[i], source, english, 0);
        check_side(both[i], target, german, QKV_ENCODE_TARGET);
    }
    qkv_tokenizer_destroy(source);
    qkv_tokenizer_destroy(target);
    qkv_tokenizer_destroy(t);
    qkv_tokenizer_destroy(again);
}

static void test_sentencepiece_bpe(void **state)
{
    (void)state;
    check_kind(QKV_TOKENIZER_SENTENCEPIECE_BPE);
}

static void test_unigram(void **state)
{
    (void)state;
    check_kind(QKV_TOKENIZER_UNIGRAM);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_tokenizer *source = make(QKV_TOKENIZER_UNIGRAM, english, 40);
    qkv_tokenizer *target = make(QKV_TOKENIZER_CHAR, german, 0), *t = source;
    assert_int_equal(qkv_tokenizer_join(&t, source, target), QKV_E_UNSUPPORTED);
    assert_null(t);
    qkv_tokenizer_destroy(source);
    qkv_tokenizer_destroy(target);
}

static void test_no_memory(void **state)
{
    (void)state;
    qkv_tokenizer *one = make(QKV_TOKENIZER_UNIGRAM, english, 40), *t = NULL;
    qkv_status status = QKV_E_MEMORY;
    size_t n = 0;
    for (; status; n++) {
        memory.left = n;
        status = qkv_tokenizer_join(&t, one, one);
        if (status) {
            assert_int_equal(status, QKV_E_MEMORY);
            assert_null(t);
        }
    }
    memory.left = SIZE_MAX;
    assert_true(n > 20);
    qkv_tokenizer_destroy(t);
    qkv_tokenizer_destroy(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentencepiece_bpe), cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_refused),           cmocka_unit_test(test_no_memory),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
