/* test_pieces.c - tokens below the word: WordPiece trained, saved, read again; pairs of texts;
 * vocab.txt that is wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "tokenizers.h"

#include "base/base64.h"
#include "tokenizer/json.h"
#include "tokenizer/spm_files.h"
#include "io/file.h"

#define SAVED QKV_BINARY_DIR "/tests/pieces"

static void expect_ids(const qkv_ids *ids, const int32_t *want, size_t count)
{
    assert_int_equal(ids->count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ids->data[i], want[i]);
}

static void expect_text(const qkv_tokenizer *t, const qkv_ids *ids, const char *want)
{
    qkv_text text = {0};
    check(qkv_tokenizer_decode(t, ids->data, ids->count, QKV_DECODE_SKIP_SPECIAL, &text));
    assert_string_equal(text.data, want);
    qkv_text_free(&text, ctx);
}

static qkv_tokenizer *trained_wordpiece(void)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    o.vocab = 80;
    return trained(&o, lines);
}

static void test_wordpiece_trains(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_wordpiece();
    qkv_ids ids = {0};
    assert_int_equal(qkv_tokenizer_vocab_size(t), 80);
    assert_string_equal(qkv_tokenizer_model(t), "WordPiece");
    assert_int_equal(qkv_tokenizer_special(t, QKV_TOKEN_PAD), 0);
    assert_int_equal(qkv_tokenizer_special(t, QKV_TOKEN_MASK), 4);
    assert_true(qkv_tokenizer_id(t, "the", 3) > 0);
    assert_true(qkv_tokenizer_id(t, "##at", 4) > 0);
    check(qkv_tokenizer_encode(t, "The CATS  sat, Zw\xc3\xb6lf!", 23, 0, &ids));
    expect_text(t, &ids, "the cats sat, zwolf!");
    ids.count = 0;
    check(qkv_tokenizer_encode(t, "the [MASK]q", 11, QKV_ENCODE_ADD_SPECIAL, &ids));
    assert_int_equal(ids.data[0], 2);
    assert_int_equal(ids.data[2], 4);
    assert_int_equal(ids.data[3], 1); /* there is no q */
    assert_int_equal(ids.data[4], 3);
    qkv_ids_free(&ids, ctx);
    qkv_tokenizer_destroy(t);
}

static void test_pairs(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_wordpiece();
    qkv_ids ids = {0}, types = {0};
    int32_t the = qkv_tokenizer_id(t, "the", 3), cat = qkv_tokenizer_id(t, "cat", 3);
    const int32_t want[] = {2, the, cat, 3, cat, 3}, want_types[] = {0, 0, 0, 0, 1, 1};
    const int32_t plain[] = {the, cat, cat}, plain_types[] = {0, 0, 1};
    check(qkv_tokenizer_encode_pair(t, "the cat", 7, "Cat", 3, QKV_ENCODE_ADD_SPECIAL, &ids,
                                    &types));
    expect_ids(&ids, want, 6);
    expect_ids(&types, want_types, 6);
    ids.count = types.count = 0;
    check(qkv_tokenizer_encode_pair(t, "the cat", 7, "Cat", 3, 0, &ids, &types));
    expect_ids(&ids, plain, 3);
    expect_ids(&types, plain_types, 3);
    types.count = 1;
    assert_int_equal(qkv_tokenizer_encode_pair(t, "a", 1, NULL, 0, 0, &ids, &types),
                     QKV_E_ARGUMENT);
    assert_int_equal(ids.count, 3);
    qkv_ids_free(&ids, ctx);
    qkv_ids_free(&types, ctx);
    qkv_tokenizer_destroy(t);
}

/* All files, and vocab.txt with tokenizer_config.json alone. */
static void test_wordpiece_files(void **state)
{
    (void)state;
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    o.vocab = 80;
    o.keep_case = true;
    qkv_tokenizer *t = trained(&o, lines), *again;
    qkv_ids want = {0}, ids = {0};
    check(qkv_tokenizer_encode(t, lines, strlen(lines), 1, &want));
    check(qkv_tokenizer_save(t, SAVED));
    qkv_tokenizer_destroy(t);
    for (int round = 0; round < 2; round++) {
        check(qkv_tokenizer_load(&again, ctx, SAVED));
        ids.count = 0;
        check(qkv_tokenizer_encode(again, lines, strlen(lines), 1, &ids));
        expect_ids(&ids, want.data, want.count);
        assert_int_equal(qkv_tokenizer_special(again, QKV_TOKEN_SEP), 3);
        qkv_tokenizer_destroy(again);
        check(qkv__file_remove(ctx, SAVED "/tokenizer.json"));
    }
    qkv_ids_free(&want, ctx);
    qkv_ids_free(&ids, ctx);
}

static void test_bad_vocab_txt(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "there is no token"},
        {"a\nb\na\n", "line 3: the token \"a\" stands in line 1"},
        {"a\n\xff\n", "line 2 is not text"},
        {"a\nb\n\nc\n\n", "line 5: the token \"\" stands in line 3"},
    };
    qkv_tokenizer *t;
    check(qkv_dir_create(ctx, SAVED "/bad"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check(qkv_file_write(ctx, SAVED "/bad/vocab.txt", bad[i].text, strlen(bad[i].text)));
        assert_int_equal(qkv_tokenizer_load(&t, ctx, SAVED "/bad"), QKV_E_FORMAT);
        assert_null(t);
        expect_message("bad/vocab.txt");
        expect_message(bad[i].message);
    }
    check(qkv_file_write(ctx, SAVED "/bad/vocab.txt", "a\r\nb", 4)); /* no [UNK], no newline */
    check(qkv_tokenizer_load(&t, ctx, SAVED "/bad"));
    qkv_ids ids = {0};
    const int32_t want[] = {1, 0};
    check(qkv_tokenizer_encode(t, "B a", 3, QKV_ENCODE_ADD_SPECIAL, &ids));
    expect_ids(&ids, want, 2);
    assert_int_equal(qkv_tokenizer_encode(t, "a c", 3, 0, &ids), QKV_E_FORMAT);
    assert_int_equal(ids.count, 2);
    qkv_ids_free(&ids, ctx);
    qkv_tokenizer_destroy(t);
}

/* Both kinds: trained, text back, both files of a folder, drawing. */
static void test_sentencepiece(void **state)
{
    (void)state;
    static const char text[] = "the cats sat on  the mat, 12 q";
    for (int kind = QKV_TOKENIZER_UNIGRAM; kind <= QKV_TOKENIZER_SENTENCEPIECE_BPE; kind++) {
        qkv_tokenizer_options o = qkv_tokenizer_defaults((qkv_tokenizer_kind)kind);
        qkv_tokenizer *t, *again;
        qkv_ids best = {0}, ids = {0}, other = {0};
        o.vocab = 60;
        o.coverage = 1;
        t = trained(&o, lines);
        assert_int_equal(qkv_tokenizer_id(t, "</s>", 4), 0);
        assert_int_equal(qkv_tokenizer_special(t, QKV_TOKEN_PAD),
                         qkv_tokenizer_vocab_size(t) - 1);
        assert_true(qkv_tokenizer_id(t, "\xe2\x96\x81the", 6) > 1);
        check(qkv_tokenizer_encode(t, text, sizeof text - 1, QKV_ENCODE_ADD_SPECIAL, &best));
        assert_int_equal(best.data[best.count - 1], 0);
        assert_int_equal(best.data[best.count - 2], 1); /* there is no q */
        expect_text(t, &best, "the cats sat on the mat, 12 ");
        check(qkv_tokenizer_save(t, SAVED "/marian"));
        check(qkv_tokenizer_load(&again, ctx, SAVED "/marian"));
        for (unsigned flags = 1; flags < 8; flags += QKV_ENCODE_TARGET) {
            ids.count = 0;
            check(qkv_tokenizer_encode(again, text, sizeof text - 1, flags, &ids));
            expect_ids(&ids, best.data, best.count);
        }
        size_t differ = 0;
        for (uint64_t seed = 0; seed < 20; seed++) {
            ids.count = other.count = 0;
            check(qkv_tokenizer_sample(t, kind == QKV_TOKENIZER_UNIGRAM ? 0.2 : 0.3, seed));
            check(qkv_tokenizer_encode(t, text, sizeof text - 1, 0, &ids));
            check(qkv_tokenizer_sample(t, kind == QKV_TOKENIZER_UNIGRAM ? 0.2 : 0.3, seed));
            check(qkv_tokenizer_encode(t, text, sizeof text - 1, 0, &other));
            expect_ids(&other, ids.data, ids.count);
            expect_text(t, &ids, "the cats sat on the mat, 12 ");
            differ += ids.count != best.count - 1;
        }
        assert_true(differ > 5);
        check(qkv_tokenizer_sample(t, 0, 0));
        ids.count = 0;
        check(qkv_tokenizer_encode(t, text, sizeof text - 1, QKV_ENCODE_ADD_SPECIAL, &ids));
        expect_ids(&ids, best.data, best.count);
        qkv_ids_free(&best, ctx);
        qkv_ids_free(&ids, ctx);
        qkv_ids_free(&other, ctx);
        qkv_tokenizer_destroy(t);
        qkv_tokenizer_destroy(again);
    }
}

/* Byte-level BPE drops merges too, and the text comes back. */
static void test_dropout(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_bpe();
    qkv_ids best = {0}, ids = {0};
    check(qkv_tokenizer_encode(t, lines, strlen(lines), 0, &best));
    check(qkv_tokenizer_sample(t, 0.2, 1));
    check(qkv_tokenizer_encode(t, lines, strlen(lines), 0, &ids));
    assert_true(ids.count > best.count);
    expect_text(t, &ids, lines);
    ids.count = 0;
    check(qkv_tokenizer_sample(t, 1, 1));
    check(qkv_tokenizer_encode(t, lines, strlen(lines), 0, &ids));
    assert_int_equal(ids.count, strlen(lines));
    ids.count = 0;
    check(qkv_tokenizer_sample(t, 0, 1));
    check(qkv_tokenizer_encode(t, lines, strlen(lines), 0, &ids));
    expect_ids(&ids, best.data, best.count);
    assert_int_equal(qkv_tokenizer_sample(t, 1.5, 1), QKV_E_ARGUMENT);
    qkv_ids_free(&best, ctx);
    qkv_ids_free(&ids, ctx);
    qkv_tokenizer_destroy(t);
    t = trained_wordpiece();
    assert_int_equal(qkv_tokenizer_sample(t, 0.1, 1), QKV_E_UNSUPPORTED);
    qkv_tokenizer_destroy(t);
}

static void test_bad_models(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } bad[] = {
        {"", 0, "stands for what is unknown"},
        {"\x0a\x7f\x0a", 3, "a field breaks off at byte 0 of 3"},
        {"\x0a\x03\x0a\x05" "a", 5, "a piece breaks off at byte 2 of 5"},
        {"\x0a\x03\x0a\x01" "a\x0a\x03\x0a\x01" "a", 10, "stands there twice"},
        {"\x0a\x02\x18\x02", 4, "piece 0 has no text"},
        {"\x1a\x06\x12\x04\xff\xff\xff\xff", 8, "map of characters is broken"},
    };
    qkv_tokenizer *t;
    check(qkv_dir_create(ctx, SAVED));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check(qkv_file_write(ctx, SAVED "/bad.model", bad[i].bytes, bad[i].size));
        assert_int_equal(qkv_tokenizer_load_sentencepiece(&t, ctx, SAVED "/bad.model"),
                         QKV_E_FORMAT);
        assert_null(t);
        expect_message("bad.model");
        expect_message(bad[i].message);
    }
}

static void test_base64(void **state)
{
    (void)state;
    static const char *const good[][2] = {{"", ""}, {"YQ==", "a"}, {"YWI=", "ab"}, {"YWJj", "abc"}};
    qkv_str out;
    qkv_str_init(&out, ctx);
    for (size_t i = 0; i < 4; i++) {
        qkv_str_clear(&out);
        assert_true(qkv__base64_take(&out, good[i][0]));
        assert_string_equal(out.data ? out.data : "", good[i][1]);
    }
    assert_false(qkv__base64_take(&out, "Y"));
    assert_false(qkv__base64_take(&out, "Y*=="));
    assert_false(qkv__base64_take(&out, "Y==="));
    qkv_str_free(&out);
}

/* The unknown token spelled out in the text joins what is unknown beside it. */
static void test_unknown_joins(void **state)
{
    (void)state;
    static const char json[] = "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\":"
                               " [[\"<u>\", 0], [\"a\", -1], [\"ab\", -3.5], [\"b\", -2]]}}";
    const int32_t want[] = {1, 3, 0, 1};
    qkv_tokenizer *t;
    qkv_ids ids = {0};
    check(qkv__tokenizer_parse(&t, ctx, "test", json, sizeof json - 1));
    check(qkv_tokenizer_encode(t, "abq<u>q<u>a", 11, 0, &ids));
    expect_ids(&ids, want, 4);
    qkv_ids_free(&ids, ctx);
    qkv_tokenizer_destroy(t);
}

/* Of the space before a text one goes, or all of it where extra space is removed. */
static void test_leading_space(void **state)
{
    (void)state;
    for (int trim = 0; trim < 2; trim++) {
        qkv__spm *m = qkv__spm_new(ctx);
        qkv_tokenizer *t;
        qkv_ids ids = {0};
        assert_non_null(m);
        m->trim = trim;
        check(qkv__spm_add(m, "<unk>", 5, 0, QKV__PIECE_UNKNOWN));
        check(qkv__spm_add(m, QKV__SPACE_MARK, 3, -1, QKV__PIECE_NORMAL));
        check(qkv__spm_add(m, "a", 1, -2, QKV__PIECE_NORMAL));
        check(qkv__spm_finish(m, "test"));
        check(qkv__tokenizer_of_spm(&t, m));
        check(qkv_tokenizer_encode(t, "  a ", 4, 0, &ids));
        assert_int_equal(ids.count, trim ? 2 : 5);
        expect_text(t, &ids, trim ? "a" : "  a ");
        qkv_ids_free(&ids, ctx);
        qkv_tokenizer_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wordpiece_trains),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_wordpiece_files),
        cmocka_unit_test(test_bad_vocab_txt),
        cmocka_unit_test(test_sentencepiece),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_bad_models),
        cmocka_unit_test(test_leading_space),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_unknown_joins),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
