/* test_tokenizer_files.c - tokenizer files that are wrong in every way, and memory that ends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "failing.h"
#include "io/file.h"
#include "tokenizers.h"

#define DIR QKV_BINARY_DIR "/tests/tokenizer_files"

/* ---- files --------------------------------------------------------------------------- */

static void write_file(const char *name, const char *text, size_t len)
{
    char path[300];
    (void)snprintf(path, sizeof path, DIR "/hostile/%s", name);
    FILE *f = fopen(path, "wb"); /* no flush to disk: there are hundreds */
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void clear_files(void)
{
    static const char *const names[] = {"tokenizer.json", "vocab.json", "merges.txt",
                                        "encoder.json", "vocab.bpe", "tokenizer_config.json"};
    char path[300];
    check(qkv_dir_create(ctx, DIR "/hostile"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, DIR "/hostile/%s", names[i]);
        check(qkv__file_remove(ctx, path));
    }
}

/* The folder must be refused with the sentence. */
static void refuse(const char *part)
{
    qkv_tokenizer *t;
    assert_int_not_equal(qkv_tokenizer_load(&t, ctx, DIR "/hostile"), QKV_OK);
    assert_null(t);
    expect_message("hostile");
    expect_message(part);
}

#define BPE(fields) "{\"model\": {\"type\": \"BPE\", " fields "}}"
#define WITH(part) "{" part ", \"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}}"

static const struct {
    const char *text, *message;
} hostile[] = {
    {"", "empty"},
    {"[1]", "expected an object"},
    {"{}", "\"model\": expected an object, found nothing"},
    {"{\"model\": 3}", "\"model\": expected an object, found an integer"},
    {"{\"model\": {\"type\": \"Magic\"}}", "\"Magic\" is no tokenizer model"},
    {"{\"model\": {\"type\": 1}}", "\"model.type\": expected a string"},
    {BPE("\"vocab\": []"), "\"model.vocab\": expected an object"},
    {BPE("\"vocab\": {\"a\": \"0\"}"), "token \"a\": expected an integer"},
    {BPE("\"vocab\": {\"a\": 1.5}"), "token \"a\": expected an integer"},
    {BPE("\"vocab\": {\"a\": -1}"), "found -1"},
    {BPE("\"vocab\": {\"a\": 9999999999}"), "found 9999999999"},
    {BPE("\"vocab\": {\"a\": 16777215}"), "only 1 tokens"},
    {BPE("\"vocab\": {\"a\": 99999999999999999999}"), "token \"a\": expected an integer"},
    {BPE("\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []"), "both have id 0"},
    {BPE("\"vocab\": {\"a\": 0, \"a\": 1}, \"merges\": []"), "duplicate"},
    {BPE("\"vocab\": {\"a\": 0}"), "\"model.merges\": expected an array"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [3]"), "model.merges.0"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [\"a\"]"), "expected two tokens"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [\"a a a\"]"), "expected two tokens"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]"), "model.merges.0"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [[\"a\", 1]]"), "expected two tokens"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]"), "\"b\", which is not in the"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]"), "\"aa\", which is not in the"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1"), "model.dropout"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"u\""), "model.unk_token"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [], \"continuing_subword_prefix\": \"@@\""), "@@"},
    {BPE("\"vocab\": {\"a\": 0}, \"merges\": [], \"end_of_word_suffix\": \"</w>\", "
         "\"byte_fallback\": true"), "\"</w>\" is not supported beside byte_fallback"},
    {WITH("\"normalizer\": {\"type\": \"Magic\"}"), "\"Magic\" is no normalizer"},
    {WITH("\"pre_tokenizer\": {\"type\": \"Magic\"}"), "\"Magic\" is no pre-tokenizer"},
    {WITH("\"pre_tokenizer\": {}"), "\"pre_tokenizer.type\""},
    {WITH("\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"M\"}]}"),
     "pre_tokenizer.pretokenizers.0.type"},
    {WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Isolated\", "
          "\"pattern\": {\"Regex\": \"(\"}}"), "cannot be used"},
    {WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Eat\", "
          "\"pattern\": {\"String\": \"x\"}}"), "\"Eat\""},
    {WITH("\"decoder\": {\"type\": \"Magic\"}"), "\"Magic\" is no decoder"},
    {WITH("\"post_processor\": {\"type\": \"Magic\"}"), "\"Magic\" is no post-processor"},
    {WITH("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
          "[{\"SpecialToken\": {\"id\": \"x\"}}], \"special_tokens\": {}}"), "special_tokens.x"},
    {WITH("\"added_tokens\": {}"), "\"added_tokens\": expected an array"},
    {WITH("\"added_tokens\": [{\"id\": 0, \"content\": \"b\"}]"), "\"a\" and \"b\" both"},
    {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"a\"}]"), "has id 0 in the vocabulary"},
    {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"\"}]"), "expected 1 to"},
    {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"b\\u0000c\"}]"), "U+0000"},
    {WITH("\"added_tokens\": [{\"id\": 16777216, \"content\": \"b\"}]"), "16777216"},
    {WITH("\"added_tokens\": [{\"id\": 9000000, \"content\": \"b\"}]"), "only 2 tokens"},
    {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"b\"}, {\"id\": 1, \"content\": \"c\"}]"),
     "two added tokens"},
    {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"b\"}, {\"id\": 2, \"content\": \"b\"}]"),
     "given twice"},
    {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"b\", \"lstrip\": 1}]"), "lstrip"},
};

static void test_hostile_json(void **state)
{
    (void)state;
    clear_files();
    refuse("neither tokenizer.json");
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        write_file("tokenizer.json", hostile[i].text, strlen(hostile[i].text));
        refuse(hostile[i].message);
        expect_message("tokenizer.json");
    }
    const char *fine = WITH("\"added_tokens\": []");
    write_file("tokenizer.json", fine, strlen(fine));
    write_file("tokenizer_config.json", "{\"eos_token\": 3}", 16);
    refuse("tokenizer_config.json: field \"eos_token\"");
    clear_files();
}

/* A word's last character is a token of its own; decoding puts a space behind it. */
static void test_word_ends(void **state)
{
    (void)state;
    static const char json[] =
        "{\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"decoder\": {\"type\": "
        "\"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"u\", "
        "\"end_of_word_suffix\": \"</w>\", \"vocab\": {\"u\": 0, \"a\": 1, \"b\": 2, "
        "\"a</w>\": 3, \"b</w>\": 4, \"ab</w>\": 5}, \"merges\": [\"a b</w>\"]}}";
    static const int32_t expected[] = {5, 3, 2, 3, 1, 5, 0};
    clear_files();
    write_file("tokenizer.json", json, sizeof json - 1);
    for (int again = 0; again < 2; again++) { /* then as it was saved */
        qkv_tokenizer *t;
        qkv_ids ids = {0};
        qkv_text text = {0};
        check(qkv_tokenizer_load(&t, ctx, DIR "/hostile"));
        check(qkv_tokenizer_encode(t, "ab a  ba aab c", 14, 0, &ids));
        assert_int_equal(ids.count, 7);
        assert_memory_equal(ids.data, expected, sizeof expected);
        check(qkv_tokenizer_decode(t, ids.data, ids.count, 0, &text));
        assert_string_equal(text.data, "ab a ba aab u");
        check(qkv_tokenizer_save(t, DIR "/hostile"));
        qkv_ids_free(&ids, ctx);
        qkv_text_free(&text, ctx);
        qkv_tokenizer_destroy(t);
    }
    clear_files();
}

/* A file cut anywhere is refused, or is whole. */
static void test_truncated(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_bpe();
    check(qkv_tokenizer_save(t, DIR "/whole"));
    qkv_tokenizer_destroy(t);
    char *text;
    size_t len;
    check(qkv_file_read(ctx, DIR "/whole/tokenizer.json", 0, &text, &len));
    clear_files();
    for (size_t n = 0; n + 2 < len; n += 1 + n / 40) {
        write_file("tokenizer.json", text, n);
        refuse("tokenizer.json");
    }
    qkv_free(ctx, text);
    clear_files();
}

static void test_old_files(void **state)
{
    (void)state;
    static const struct {
        const char *merges, *message;
    } wrong[] = {
        {"#version: 0.2\na t\nat\n", "line 3: expected two tokens"},
        {"#version: 0.2\nt h x\n", "line 2: expected two tokens"},
        {"t \xe6\xbc\xa2\n", "line 1: merge of \"\xe6\xbc\xa2\""},
        {"#version: 0.2\r\nq q\r\n", "line 2: merge gives \"qq\""},
    };
    static const char *const names[][2] = {{"vocab.json", "merges.txt"},
                                           {"encoder.json", "vocab.bpe"}};
    qkv_tokenizer *t = trained_bpe(), *again;
    qkv_ids one = {0}, two = {0};
    char *vocab, *merges;
    size_t vocab_len, merges_len;
    check(qkv_tokenizer_save(t, DIR "/whole"));
    check(qkv_file_read(ctx, DIR "/whole/vocab.json", 0, &vocab, &vocab_len));
    check(qkv_file_read(ctx, DIR "/whole/merges.txt", 0, &merges, &merges_len));
    check(qkv_tokenizer_encode(t, lines, strlen(lines), 0, &one));
    clear_files();
    for (size_t i = 0; i < 2; i++) {
        clear_files();
        write_file(names[i][0], vocab, vocab_len);
        refuse("no tokenizer");
        write_file(names[i][1], merges, merges_len);
        check(qkv_tokenizer_load(&again, ctx, DIR "/hostile"));
        two.count = 0;
        check(qkv_tokenizer_encode(again, lines, strlen(lines), 0, &two));
        assert_int_equal(one.count, two.count);
        assert_memory_equal(one.data, two.data, one.count * sizeof *one.data);
        assert_int_equal(qkv_tokenizer_special(again, QKV_TOKEN_EOS), 0);
        assert_int_equal(qkv_tokenizer_special(again, QKV_TOKEN_UNK), 0);
        qkv_tokenizer_destroy(again);
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            write_file(names[i][1], wrong[k].merges, strlen(wrong[k].merges));
            refuse(wrong[k].message);
            expect_message(names[i][1]);
        }
        write_file(names[i][0], "{\"a\": 0}", 8);
        refuse("no byte-level vocabulary");
    }
    clear_files();
    qkv_free(ctx, vocab);
    qkv_free(ctx, merges);
    qkv_ids_free(&one, ctx);
    qkv_ids_free(&two, ctx);
    qkv_tokenizer_destroy(t);
}

/* ---- memory -------------------------------------------------------------------------- */

/* Everything once; the first failure. */
static qkv_status everything(qkv_context *c, qkv_tokenizer_kind kind)
{
    qkv_tokenizer_trainer *tr = NULL;
    qkv_tokenizer *t = NULL, *again = NULL;
    qkv_tokenizer_stream *s = NULL;
    qkv_ids ids = {0};
    qkv_text text = {0};
    qkv_tokenizer_options o = qkv_tokenizer_defaults(kind);
    o.vocab = kind == QKV_TOKENIZER_BPE ? 280 : 60;
    char dir[sizeof DIR + 40];
    (void)snprintf(dir, sizeof dir, DIR "/memory%d", (int)kind);
    qkv_status status = qkv_tokenizer_trainer_create(&tr, c, &o);
    if (!status)
        status = qkv_tokenizer_trainer_add(tr, lines, strlen(lines));
    if (!status)
        status = qkv_tokenizer_trainer_finish(tr, &t);
    if (!status)
        status = qkv_tokenizer_save(t, dir);
    if (!status)
        status = qkv_tokenizer_load(&again, c, dir);
    if (!status)
        status = qkv_tokenizer_encode(again, lines, strlen(lines), 0, &ids);
    if (!status)
        status = qkv_tokenizer_decode(again, ids.data, ids.count, QKV_DECODE_VALID, &text);
    if (!status)
        status = qkv_tokenizer_stream_create(&s, again, 0);
    for (size_t i = 0; i < ids.count && !status; i++)
        status = qkv_tokenizer_stream_put(s, ids.data[i], &text);
    qkv_tokenizer_stream_destroy(s);
    qkv_tokenizer_destroy(t);
    qkv_tokenizer_destroy(again);
    qkv_tokenizer_trainer_destroy(tr);
    qkv_ids_free(&ids, c);
    qkv_text_free(&text, c);
    return status;
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    for (int kind = QKV_TOKENIZER_CHAR; kind <= QKV_TOKENIZER_SENTENCEPIECE_BPE; kind++) {
        qkv_status status = QKV_E_MEMORY;
        size_t step = kind == QKV_TOKENIZER_CHAR ? 1 : 11;
        for (size_t n = 0; status; n += step) {
            failing memory = {.left = SIZE_MAX};
            const qkv_context_options options = failing_options(&memory);
            qkv_context *c;
            assert_int_equal(qkv_context_create(&c, &options), QKV_OK);
            memory.left = n;
            status = everything(c, (qkv_tokenizer_kind)kind);
            assert_true(status == QKV_OK || status == QKV_E_MEMORY);
            assert_int_equal(qkv_context_memory(c).live_bytes, 0);
            qkv_context_destroy(c);
            assert_int_equal(memory.live, 0);
        }
    }
}

/* ---- what stands around a text --------------------------------------------------------- */

static int32_t special(const qkv_tokenizer *t, qkv_token_role role)
{
    int32_t id = qkv_tokenizer_special(t, role);
    assert_true(id >= 0);
    return id;
}

/* Of one text (b NULL) or a pair: begins with first (or -1: with the text) and ends with last. */
static void check_around(qkv_tokenizer *t, const char *b, int32_t first, int32_t last)
{
    qkv_ids plain = {0}, ids = {0}, types = {0};
    check(qkv_tokenizer_encode(t, "the cat", 7, 0, &plain));
    check(qkv_tokenizer_encode_pair(t, "the cat", 7, b, b ? strlen(b) : 0, QKV_ENCODE_ADD_SPECIAL,
                                    &ids, &types));
    assert_true(ids.count > plain.count);
    size_t at = first >= 0;
    if (first >= 0)
        assert_int_equal(ids.data[0], first);
    assert_memory_equal(ids.data + at, plain.data, plain.count * sizeof *plain.data);
    assert_int_equal(ids.data[ids.count - 1], last);
    if (!b)
        assert_int_equal(ids.count, plain.count + 1 + at);
    assert_int_equal(types.data[ids.count - 1], b && first >= 0);
    qkv_ids_free(&plain, ctx);
    qkv_ids_free(&ids, ctx);
    qkv_ids_free(&types, ctx);
}

/* The same when its files are read again. */
static void check_around_saved(qkv_tokenizer *t, qkv_token_role first, qkv_token_role last)
{
    for (int again = 0; again < 2; again++) {
        int32_t begin = first == QKV_TOKEN_ROLES ? -1 : special(t, first);
        check_around(t, NULL, begin, special(t, last));
        check_around(t, "a mat", begin, special(t, last));
        if (again == 0)
            check(qkv_tokenizer_save(t, DIR "/around"));
        qkv_tokenizer_destroy(t);
        if (again == 0)
            check(qkv_tokenizer_load(&t, ctx, DIR "/around"));
    }
    assert_false(qkv_file_exists(DIR "/around/merges.txt")); /* which cannot say it */
}

static void test_around(void **state)
{
    static const qkv_tokenizer_kind kinds[] = {QKV_TOKENIZER_CHAR, QKV_TOKENIZER_BPE,
                                               QKV_TOKENIZER_WORDPIECE};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        qkv_tokenizer_options o = qkv_tokenizer_defaults(kinds[i]);
        o.vocab = 300;
        o.special[QKV_TOKEN_CLS] = "[CLS]";
        o.special[QKV_TOKEN_SEP] = "[SEP]";
        check_around_saved(trained(&o, lines), QKV_TOKEN_CLS, QKV_TOKEN_SEP);
        o.special[QKV_TOKEN_EOS] = "</s>";
        o.add_eos = true;
        check_around_saved(trained(&o, lines), QKV_TOKEN_ROLES, QKV_TOKEN_EOS);
        o.special[QKV_TOKEN_EOS] = NULL;
        qkv_tokenizer_trainer *tr;
        assert_int_equal(qkv_tokenizer_trainer_create(&tr, ctx, &o), QKV_E_ARGUMENT);
        expect_message("eos_token");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_around),
        cmocka_unit_test(test_hostile_json),
        cmocka_unit_test(test_word_ends),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_old_files),
        cmocka_unit_test(test_memory_runs_out),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
