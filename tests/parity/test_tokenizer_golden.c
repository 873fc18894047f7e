/* test_tokenizer_golden.c - ids equal those of Hugging Face's tokenizers on thousands of odd
 * texts; so do trained vocabularies and merges. Recipe: tools/make-golden/tokenizer.py. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "tokenizers.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/tokenizer/"

/* The next of the golden file's numbers, in 7-bit groups. */
static size_t next_number(const unsigned char **g, const unsigned char *end)
{
    size_t n = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(*g < end && shift < 28);
        n |= (size_t)(**g & 127) << shift;
        if (*(*g)++ < 128)
            return n;
    }
}

/* Encodes every text and compares with the golden ids; decoding must give the text back where
 * exact. Returns the number of texts that differ. */
static size_t differing(qkv_tokenizer *t, const char *ids_file, bool exact)
{
    char *docs, *golden;
    size_t docs_len, golden_len, bad = 0, count = 0;
    qkv_ids ids = {0};
    qkv_text text = {0};
    check(qkv_file_read(ctx, GOLDEN "docs.txt", 0, &docs, &docs_len));
    check(qkv_file_read(ctx, ids_file, 0, &golden, &golden_len));
    const unsigned char *g = (unsigned char *)golden, *end = g + golden_len;
    for (const char *p = docs, *stop; p <= docs + docs_len; p = stop + 1, count++) {
        stop = memchr(p, 0x1e, (size_t)(docs + docs_len - p));
        stop = stop ? stop : docs + docs_len;
        size_t len = (size_t)(stop - p);
        ids.count = text.len = 0;
        check(qkv_tokenizer_encode(t, p, len, QKV_ENCODE_ADD_SPECIAL, &ids));
        size_t n = next_number(&g, end);
        bool same = n == ids.count;
        for (size_t i = 0; i < n; i++) {
            size_t id = next_number(&g, end);
            same = same && (size_t)ids.data[i] == id;
        }
        check(qkv_tokenizer_decode(t, ids.data, ids.count, 0, &text));
        if (exact)
            same = same && text.len == len && memcmp(text.data, p, len) == 0;
        if (!same && bad++ < 5)
            print_message("text %zu differs: \"%.*s\"\n", count, (int)len, p);
    }
    assert_ptr_equal(g, end);
    assert_true(count > 2000);
    qkv_free(ctx, docs);
    qkv_free(ctx, golden);
    qkv_ids_free(&ids, ctx);
    qkv_text_free(&text, ctx);
    return bad;
}

/* name: of the tokenizer's folder and of its ids. exact: what goes in comes out. */
static void compare(const char *name, bool exact)
{
    qkv_tokenizer *t;
    char dir[256], file[256];
    (void)snprintf(dir, sizeof dir, GOLDEN "%s", name);
    (void)snprintf(file, sizeof file, GOLDEN "%s.ids", name);
    check(qkv_tokenizer_load(&t, ctx, dir));
    size_t bad = differing(t, file, exact);
    (void)snprintf(dir, sizeof dir, QKV_BINARY_DIR "/tests/tokenizer_golden/%s", name);
    check(qkv_tokenizer_save(t, dir));
    qkv_tokenizer_destroy(t);
    assert_int_equal(bad, 0);
    check(qkv_tokenizer_load(&t, ctx, dir));
    assert_int_equal(differing(t, file, exact), 0);
    qkv_tokenizer_destroy(t);
}

static void test_bpe(void **state)
{
    (void)state;
    compare("bpe", true);
}

/* Metaspace's "first": what the normalizer made of the first character, if anything. */
static void test_marks(void **state)
{
    (void)state;
    compare("marks", false);
}

static void test_added_tokens(void **state)
{
    (void)state;
    compare("added", false); /* tokens that swallow the space beside them */
}

static void test_pattern(void **state)
{
    (void)state;
    compare("pattern", false); /* NFC, and a template */
}

static void test_word_ends(void **state)
{
    (void)state;
    compare("word-ends", false); /* lower case, single spaces */
}

static void test_splits(void **state)
{
    (void)state;
    compare("splits", false); /* digits removed */
}

static void test_wordpiece(void **state)
{
    (void)state;
    compare("wordpiece", false); /* case and space go; from vocab.txt, then tokenizer.json */
}

static void test_words(void **state)
{
    (void)state;
    compare("words", false); /* every other cleaning and cutting */
}

static void test_unigram(void **state)
{
    (void)state;
    compare("unigram", false); /* Metaspace */
}

static void test_sentencepiece(void **state)
{
    (void)state;
    compare("spm-unigram", false); /* NFKC by a map of characters, fixed pieces */
    compare("spm-bpe", false);     /* bytes, spaces kept */
}

/* $QKV_DATA or ../shared/data, where there are vocabularies too large for the repository. */
static void test_gpt2(void **state)
{
    (void)state;
    qkv_tokenizer *t;
    char vocab[400], merges[400];
    const char *data = getenv("QKV_DATA");
    data = data ? data : QKV_SOURCE_DIR "/../shared/data";
    (void)snprintf(vocab, sizeof vocab, "%s/vocabs/gpt2_bpe_encoder.json", data);
    (void)snprintf(merges, sizeof merges, "%s/vocabs/gpt2_bpe_vocab.bpe", data);
    if (!qkv_file_exists(vocab) || !qkv_file_exists(merges)) {
        print_message("GPT-2's vocabulary is not at %s: set QKV_DATA\n", vocab);
        skip();
    }
    check(qkv_tokenizer_load_bpe(&t, ctx, vocab, merges));
    assert_int_equal(qkv_tokenizer_vocab_size(t), 50257);
    assert_int_equal(qkv_tokenizer_special(t, QKV_TOKEN_EOS), 50256);
    size_t bad = differing(t, GOLDEN "gpt2.ids", true);
    qkv_tokenizer_destroy(t);
    assert_int_equal(bad, 0);
}

/* The file's model must be what training on the same text gives. */
static void test_training(void **state)
{
    (void)state;
    const char *const mine = QKV_BINARY_DIR "/tests/tokenizer_trained";
    qkv_tokenizer_trainer *tr;
    qkv_tokenizer *t;
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    o.vocab = 700;
    check(qkv_tokenizer_trainer_create(&tr, ctx, &o));
    check(qkv_tokenizer_trainer_add_file(tr, GOLDEN "train.txt"));
    check(qkv_tokenizer_trainer_finish(tr, &t));
    qkv_tokenizer_trainer_destroy(tr);
    check(qkv_tokenizer_save(t, mine));
    qkv_tokenizer_destroy(t);

    qkv__json golden, made;
    check(qkv__json_load(&golden, ctx, GOLDEN "bpe/tokenizer.json"));
    check(qkv__json_load(&made, ctx, QKV_BINARY_DIR "/tests/tokenizer_trained/tokenizer.json"));
    json_t *want = json_object_get(golden.value, "model");
    json_t *have = json_object_get(made.value, "model");
    assert_true(json_equal(json_object_get(want, "vocab"), json_object_get(have, "vocab")));
    json_t *want_merges = json_object_get(want, "merges");
    json_t *have_merges = json_object_get(have, "merges");
    assert_int_equal(json_array_size(want_merges), 700 - 257);
    assert_int_equal(json_array_size(have_merges), 700 - 257);
    for (size_t i = 0; i < json_array_size(want_merges); i++) {
        const json_t *pair = json_array_get(want_merges, i);
        char line[200];
        (void)snprintf(line, sizeof line, "%s %s", json_string_value(json_array_get(pair, 0)),
                       json_string_value(json_array_get(pair, 1)));
        assert_string_equal(line, json_string_value(json_array_get(have_merges, i)));
    }
    qkv__json_free(&golden);
    qkv__json_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe),       cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_marks),     cmocka_unit_test(test_pattern),
        cmocka_unit_test(test_word_ends), cmocka_unit_test(test_splits),
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_training),  cmocka_unit_test(test_wordpiece),
        cmocka_unit_test(test_words),     cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_sentencepiece),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
