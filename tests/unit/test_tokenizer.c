/* test_tokenizer.c - tokenizers by themselves: round trips, streams, cuts, training.
 * Ids against another library: parity/test_tokenizer_golden.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizers.h"

#define DIR QKV_BINARY_DIR "/tests/tokenizer_unit"

static qkv_tokenizer *trained_chars(const char *text)
{
    const qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    return trained(&o, text);
}

static void round_trip(qkv_tokenizer *t, const char *text, size_t len)
{
    qkv_ids ids = {0};
    qkv_text back = {0};
    check(qkv_tokenizer_encode(t, text, len, 0, &ids));
    check(qkv_tokenizer_decode(t, ids.data, ids.count, 0, &back));
    assert_int_equal(back.len, len);
    assert_memory_equal(back.data, text, len);
    qkv_ids_free(&ids, ctx);
    qkv_text_free(&back, ctx);
}

/* ---- characters ---------------------------------------------------------------------- */

static void test_chars(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_chars("hello\n \xc3\xa9\xf0\x9f\x98\x80");
    static const int32_t want[] = {3, 2, 4, 4, 5, 0, 1, 6, 7}; /* \n, space, e h l o, ... */
    qkv_ids ids = {0};
    assert_int_equal(qkv_tokenizer_vocab_size(t), 8);
    check(qkv_tokenizer_encode(t, "hello\n \xc3\xa9\xf0\x9f\x98\x80", 13, 0, &ids));
    assert_int_equal(ids.count, 9);
    assert_memory_equal(ids.data, want, sizeof want);
    round_trip(t, "\xc3\xa9 hell \n\n ", 11);
    assert_string_equal(qkv_tokenizer_model(t), "WordLevel");
    assert_int_equal(qkv_tokenizer_special(t, QKV_TOKEN_EOS), -1);

    assert_int_not_equal(qkv_tokenizer_encode(t, "hell\xc3\xb6", 6, 0, &ids), QKV_OK);
    expect_message("\"\xc3\xb6\" (U+00F6) at byte 4");
    assert_int_equal(ids.count, 9); /* as before */
    assert_int_not_equal(qkv_tokenizer_encode(t, "he\xffo", 4, 0, &ids), QKV_OK);
    expect_message("byte 0xff at byte 2");
    qkv_ids_free(&ids, ctx);
    qkv_tokenizer_destroy(t);
}

static void test_chars_with_unknown(void **state)
{
    (void)state;
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    o.special[QKV_TOKEN_UNK] = "<unk>";
    o.special[QKV_TOKEN_EOS] = "</s>";
    qkv_tokenizer *t = trained(&o, "abc"), *again;
    static const int32_t want[] = {2, 1, 0, 3};
    qkv_ids ids = {0};
    check(qkv_tokenizer_save(t, DIR "/unknown"));
    check(qkv_tokenizer_load(&again, ctx, DIR "/unknown"));
    qkv_tokenizer *both[] = {t, again};
    for (size_t i = 0; i < 2; i++) {
        ids.count = 0;
        check(qkv_tokenizer_encode(both[i], "a\xc3\xb6</s>b", 8, 0, &ids));
        assert_int_equal(ids.count, 4);
        assert_memory_equal(ids.data, want, sizeof want);
        assert_int_equal(qkv_tokenizer_special(both[i], QKV_TOKEN_UNK), 1);
        assert_int_equal(qkv_tokenizer_special(both[i], QKV_TOKEN_EOS), 0);
        assert_true(qkv_tokenizer_is_special(both[i], 0));
        assert_false(qkv_tokenizer_is_special(both[i], 2));
    }
    qkv_ids_free(&ids, ctx);
    qkv_tokenizer_destroy(t);
    qkv_tokenizer_destroy(again);
}

/* ---- bytes --------------------------------------------------------------------------- */

static void test_bytes_round_trip(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_bpe();
    char text[2000];
    srand(1);
    for (size_t round = 0; round < 200; round++) {
        size_t len = (size_t)rand() % sizeof text;
        for (size_t i = 0; i < len; i++) /* any bytes, then more and more spaces and letters */
            text[i] = (size_t)rand() % 200 > round ? (char)(rand() & 255)
                                                   : " ae\n\xc3\xa4"[rand() % 6];
        round_trip(t, text, len);
    }
    round_trip(t, lines, strlen(lines));
    round_trip(t, "", 0);
    qkv_tokenizer_destroy(t);
}

/* Byte-level BPE has a token for any text; where none is named for unknown text, it is the one
 * that ends texts, as GPT-2's. */
static void test_bytes_with_unknown(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
        o.special[QKV_TOKEN_UNK] = named ? "<unk>" : NULL;
        o.vocab = 300;
        qkv_tokenizer *t = trained(&o, lines), *again;
        const char *text = named ? "<unk>" : "<|endoftext|>";
        int32_t id = qkv_tokenizer_id(t, text, strlen(text));
        check(qkv_tokenizer_save(t, DIR "/unknown"));
        check(qkv_tokenizer_load(&again, ctx, DIR "/unknown"));
        assert_true(id >= 0);
        assert_int_equal(qkv_tokenizer_special(t, QKV_TOKEN_UNK), id);
        assert_int_equal(qkv_tokenizer_special(again, QKV_TOKEN_UNK), id);
        qkv_tokenizer_destroy(t);
        qkv_tokenizer_destroy(again);
    }
}

static void test_special_in_text(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_bpe();
    const char *text = "the<|endoftext|>cat";
    qkv_ids ids = {0};
    qkv_text out = {0};
    check(qkv_tokenizer_encode(t, text, strlen(text), 0, &ids));
    size_t ends = 0;
    for (size_t i = 0; i < ids.count; i++)
        ends += ids.data[i] == 0;
    assert_int_equal(ends, 1);
    assert_int_equal(qkv_tokenizer_special(t, QKV_TOKEN_EOS), 0);
    assert_int_equal(qkv_tokenizer_id(t, "<|endoftext|>", 13), 0);
    check(qkv_tokenizer_decode(t, ids.data, ids.count, QKV_DECODE_SKIP_SPECIAL, &out));
    assert_string_equal(out.data, "thecat");

    ids.count = 0;
    check(qkv_tokenizer_encode(t, text, strlen(text), QKV_ENCODE_PLAIN, &ids));
    for (size_t i = 0; i < ids.count; i++)
        assert_int_not_equal(ids.data[i], 0);
    const int32_t wrong[] = {0, 300};
    assert_int_not_equal(qkv_tokenizer_decode(t, wrong, 2, 0, &out), QKV_OK);
    expect_message("id 300 is no token");
    assert_string_equal(out.data, "thecat"); /* as before */
    const int32_t padding[] = {ids.data[0], 300}, negative = -1;
    const size_t first = out.len;
    check(qkv_tokenizer_decode(t, padding, 2, QKV_DECODE_SKIP_SPECIAL, &out));
    check(qkv_tokenizer_decode(t, padding, 1, 0, &out));
    const size_t one = (out.len - first) / 2; /* the second adds nothing */
    assert_memory_equal(out.data + first, out.data + first + one, one);
    assert_int_not_equal(qkv_tokenizer_decode(t, &negative, 1, QKV_DECODE_SKIP_SPECIAL, &out),
                         QKV_OK);
    expect_message("id -1 is no token");
    qkv_ids_free(&ids, ctx);
    qkv_text_free(&out, ctx);
    qkv_tokenizer_destroy(t);
}

/* Ill-formed bytes and what Unicode's "substitution of maximal subparts" makes of them. */
static const struct {
    const char *bytes, *valid;
} broken[] = {
    {"a\xff" "b", "a\xef\xbf\xbd" "b"},
    {"\xe6\xbc", "\xef\xbf\xbd"},
    {"\xe6\xbc" "a", "\xef\xbf\xbd" "a"},
    {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf0\x9f\x98", "\xef\xbf\xbd"},
    {"\xf0\x9f\x98\xc3\xa4", "\xef\xbf\xbd\xc3\xa4"},
    {"\xf4\x90\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xc0\xaf\xc3", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
};

static void test_stream(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_bpe();
    qkv_tokenizer_stream *s;
    qkv_ids ids = {0};
    qkv_text out = {0}, whole = {0};
    const char *text = "\xe6\xbc\xa2 the \xf0\x9f\x98\x80\xc3\xa4 cat";
    check(qkv_tokenizer_stream_create(&s, t, 0));
    check(qkv_tokenizer_encode(t, text, strlen(text), 0, &ids));
    assert_true(ids.count > 8);
    for (size_t i = 0; i < ids.count; i++) {
        check(qkv_tokenizer_stream_put(s, ids.data[i], &out));
        /* What is out ends where a character ends: no byte there continues one. */
        assert_int_not_equal((unsigned char)text[out.len] & 0xc0, 0x80);
    }
    check(qkv_tokenizer_stream_end(s, &out));
    assert_string_equal(out.data, text);
    qkv_tokenizer_stream_destroy(s);

    check(qkv_tokenizer_stream_create(&s, t, QKV_DECODE_VALID));
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        ids.count = out.len = whole.len = 0;
        check(qkv_tokenizer_encode(t, broken[i].bytes, strlen(broken[i].bytes), 0, &ids));
        for (size_t k = 0; k < ids.count; k++)
            check(qkv_tokenizer_stream_put(s, ids.data[k], &out));
        check(qkv_tokenizer_stream_end(s, &out));
        assert_string_equal(out.data, broken[i].valid);
        check(qkv_tokenizer_decode(t, ids.data, ids.count, QKV_DECODE_VALID, &whole));
        assert_string_equal(whole.data, broken[i].valid);
    }
    qkv_tokenizer_stream_destroy(s);
    qkv_ids_free(&ids, ctx);
    qkv_text_free(&out, ctx);
    qkv_text_free(&whole, ctx);
    qkv_tokenizer_destroy(t);
}

/* ---- cuts ---------------------------------------------------------------------------- */

/* Encoding in two parts gives the ids of the whole, wherever the text broke off. */
static void check_cuts(qkv_tokenizer *t, const char *text, size_t len)
{
    qkv_ids whole = {0}, parts = {0};
    check(qkv_tokenizer_encode(t, text, len, 0, &whole));
    for (size_t seen = 0; seen <= len; seen++) {
        size_t cut = qkv_tokenizer_cut(t, text, seen);
        assert_true(cut <= seen);
        parts.count = 0;
        check(qkv_tokenizer_encode(t, text, cut, 0, &parts));
        check(qkv_tokenizer_encode(t, text + cut, len - cut, 0, &parts));
        assert_int_equal(parts.count, whole.count);
        assert_memory_equal(parts.data, whole.data, whole.count * sizeof *whole.data);
    }
    qkv_ids_free(&whole, ctx);
    qkv_ids_free(&parts, ctx);
}

static void test_cuts(void **state)
{
    (void)state;
    static const char *const parts[] = {"the", " ", "\n", "\xc3\xa4", "  ", "\xc2\xa0", "<|end",
                                        "<|endoftext|>", "'s", "\xe3\x80\x80", "12", "!",
                                        "cat", "\t"};
    qkv_tokenizer *bpe = trained_bpe();
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    o.special[QKV_TOKEN_EOS] = "<|endoftext|>";
    char all[200] = "";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        strcat(all, parts[i]);
    qkv_tokenizer *chars = trained(&o, all);
    srand(2);
    for (size_t round = 0; round < 60; round++) {
        char text[400] = "";
        for (size_t i = 0; i < 12; i++)
            strcat(text, parts[(size_t)rand() % (sizeof parts / sizeof *parts)]);
        check_cuts(bpe, text, strlen(text));
        check_cuts(chars, text, strlen(text));
    }
    assert_int_equal(qkv_tokenizer_cut(bpe, "the cat sat", 11), 7);
    assert_int_equal(qkv_tokenizer_cut(chars, "the cat", 7), 7);
    qkv_tokenizer_destroy(bpe);
    qkv_tokenizer_destroy(chars);
}

/* ---- training ------------------------------------------------------------------------ */

static void test_training_refuses(void **state)
{
    (void)state;
    qkv_tokenizer_trainer *tr;
    qkv_tokenizer *t;
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    o.vocab = 255;
    assert_int_equal(qkv_tokenizer_trainer_create(&tr, ctx, &o), QKV_E_ARGUMENT);
    assert_null(tr);
    expect_message("not 255");
    o.vocab = 256; /* no room for the special token */
    check(qkv_tokenizer_trainer_create(&tr, ctx, &o));
    assert_int_equal(qkv_tokenizer_trainer_finish(tr, &t), QKV_E_ARGUMENT);
    expect_message("no text");
    check(qkv_tokenizer_trainer_add(tr, "abc", 3));
    assert_int_equal(qkv_tokenizer_trainer_finish(tr, &t), QKV_E_ARGUMENT);
    expect_message("alone are 257");
    qkv_tokenizer_trainer_destroy(tr);

    o = qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    o.special[QKV_TOKEN_UNK] = "<\xff>";
    assert_int_equal(qkv_tokenizer_trainer_create(&tr, ctx, &o), QKV_E_ARGUMENT);
    expect_message("unk_token is not text in UTF-8");

    o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    check(qkv_tokenizer_trainer_create(&tr, ctx, &o));
    assert_int_equal(qkv_tokenizer_trainer_add(tr, "ab\0", 3), QKV_E_FORMAT);
    assert_int_equal(qkv_tokenizer_trainer_add(tr, "ab\xc3", 3), QKV_E_FORMAT);
    expect_message("byte 0xc3 at 2");
    assert_int_not_equal(qkv_tokenizer_trainer_add_file(tr, DIR "/none"), QKV_OK);
    expect_message(DIR "/none");
    qkv_tokenizer_trainer_destroy(tr);
}

/* Fewer tokens than asked for when pairs run out; min_count stops earlier. */
static void test_training_ends(void **state)
{
    (void)state;
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    qkv_tokenizer *t = trained(&o, "abc abc abd");
    /* ab, c after ab, " ab", " abc", d after ab, " abd" in some order: every word one token. */
    assert_true(qkv_tokenizer_id(t, "\xc4\xa0" "abc", 5) > 256);
    assert_true(qkv_tokenizer_id(t, "\xc4\xa0" "abd", 5) > 256);
    assert_int_equal(qkv_tokenizer_vocab_size(t), 257 + 5);
    qkv_tokenizer_destroy(t);
    o.min_count = 3;
    t = trained(&o, "abc abc abd");
    assert_int_equal(qkv_tokenizer_vocab_size(t), 257 + 1);
    assert_int_equal(qkv_tokenizer_id(t, "ab", 2), 257);
    qkv_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chars),
        cmocka_unit_test(test_chars_with_unknown),
        cmocka_unit_test(test_bytes_round_trip),
        cmocka_unit_test(test_bytes_with_unknown),
        cmocka_unit_test(test_special_in_text),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_training_refuses),
        cmocka_unit_test(test_training_ends),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
