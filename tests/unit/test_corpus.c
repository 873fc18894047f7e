/* Texts as records: lines joined or alone, pairs cut to a length, labelled lines, and what is wrong
 * with them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "qkv/corpus.h"
#include "tokenizers.h"

static qkv_tokenizer *wordpiece(void)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    o.vocab = 200;
    return trained(&o, "a b c d e f g h i j k l m n o p q r s t u v w x y z\n");
}

/* The record's field as text: "[CLS] a b [SEP]". */
static const char *spelled(qkv_tokenizer *t, const qkv_records *r, size_t record, size_t field)
{
    static char text[1000];
    const int32_t *ids;
    size_t n = qkv_records_get(r, record, field, &ids), len = 0;
    text[0] = 0;
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i ? " " : "",
                                qkv_tokenizer_token(t, ids[i], NULL));
    return text;
}

static qkv_text_span part_of(const char *text)
{
    return (qkv_text_span){text, strlen(text), "some.txt", 0};
}

static void check_lines(bool join, size_t count, const char *const *expected)
{
    qkv_tokenizer *t = wordpiece();
    qkv_records_writer *w;
    qkv_records *r;
    qkv_text_span part = part_of("a b c\n\nd e f g h i\r\nj [MASK]");
    check(qkv_records_create(&w, ctx, NULL, 1));
    check(qkv_corpus_add_lines(w, ctx, t, &part, 6, join));
    check(qkv_records_finish(w, &r));
    assert_int_equal(qkv_records_count(r), count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(spelled(t, r, i, 0), expected[i]);
    qkv_records_close(r);
    qkv_tokenizer_destroy(t);
}

static void test_lines(void **state)
{
    (void)state;
    /* "[MASK]" in a text is no mask, and its parts are no words here */
    static const char *const alone[] = {"[CLS] a b c [SEP]", "[CLS] d e f g [SEP]",
                                        "[CLS] h i [SEP]", "[CLS] j [UNK] [UNK] [UNK] [SEP]"};
    static const char *const joined[] = {"[CLS] a b c d [SEP]", "[CLS] e f g h [SEP]",
                                         "[CLS] i j [UNK] [UNK] [SEP]", "[CLS] [UNK] [SEP]"};
    check_lines(false, 4, alone);
    check_lines(true, 4, joined);
}

static void check_pair(qkv_tokenizer *t, const char *a, const char *b, size_t length,
                       const char *first, const char *second)
{
    qkv_ids ids = {0};
    size_t middle;
    bool cut;
    qkv_text_pair pair = {a, strlen(a), b, b ? strlen(b) : 0};
    check(qkv_corpus_encode(t, ctx, &pair, length, &ids, &middle, &cut));
    qkv_records_writer *w;
    qkv_records *r;
    check(qkv_records_create(&w, ctx, NULL, 2));
    check(qkv_records_add(w, ids.data, middle));
    check(qkv_records_add(w, ids.data + middle, ids.count - middle));
    check(qkv_records_finish(w, &r));
    assert_string_equal(spelled(t, r, 0, 0), first);
    assert_string_equal(spelled(t, r, 0, 1), second);
    assert_true(ids.count <= length);
    assert_int_equal(cut, ids.count == length);
    qkv_records_close(r);
    qkv_ids_free(&ids, ctx);
}

static void test_pairs(void **state)
{
    (void)state;
    qkv_tokenizer *t = wordpiece();
    check_pair(t, "a b c", NULL, 9, "[CLS] a b c [SEP]", "");
    check_pair(t, "a b c d", NULL, 4, "[CLS] a b [SEP]", "");
    check_pair(t, "a b c", "d", 9, "[CLS] a b c [SEP]", "d [SEP]");
    check_pair(t, "a b c d e", "f g", 8, "[CLS] a b c [SEP]", "f g [SEP]");
    check_pair(t, "a", "f g h i j k", 8, "[CLS] a [SEP]", "f g h i [SEP]");
    check_pair(t, "a b c d e", "f g h i j", 9, "[CLS] a b c [SEP]", "f g h [SEP]");
    check_pair(t, "a b c d e", "f g h i", 8, "[CLS] a b c [SEP]", "f g [SEP]");
    check_pair(t, "a b c d", "f g h i j", 8, "[CLS] a b [SEP]", "f g h [SEP]");
    check_pair(t, "a b c d", "f g h i", 8, "[CLS] a b [SEP]", "f g h [SEP]");
    qkv_tokenizer_destroy(t);
}

static void test_labels(void **state)
{
    (void)state;
    qkv_tokenizer *t = wordpiece();
    qkv_labels l = {.ctx = ctx};
    qkv_text_span one = part_of("so-so\ta\nbad\tb c\n\nso\td\nbad\t\n"), two = part_of("a\tb\n");
    check(qkv_labels_collect(&l, &one));
    check(qkv_labels_collect(&l, &two));
    static const char *const names[] = {"a", "bad", "so", "so-so"};
    assert_int_equal(l.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(l.names[i], names[i]);
    qkv_records_writer *w;
    qkv_records *r;
    size_t cut = 0;
    check(qkv_records_create(&w, ctx, NULL, 3));
    check(qkv_corpus_add_labelled(w, ctx, t, &one, names, 4, 3, &cut));
    check(qkv_records_finish(w, &r));
    static const int32_t classes[] = {3, 1, 2, 1};
    assert_int_equal(qkv_records_count(r), 4);
    assert_int_equal(cut, 1);
    for (size_t i = 0; i < 4; i++) {
        const int32_t *label;
        assert_int_equal(qkv_records_get(r, i, 2, &label), 1);
        assert_int_equal(*label, classes[i]);
    }
    assert_string_equal(spelled(t, r, 1, 0), "[CLS] b [SEP]");
    assert_string_equal(spelled(t, r, 3, 0), "[CLS] [SEP]");
    qkv_records_close(r);
    qkv_labels_free(&l);
    qkv_tokenizer_destroy(t);
}

static void refuses(const char *text, const char *sentence)
{
    qkv_labels l = {.ctx = ctx};
    qkv_text_span part = part_of(text);
    assert_int_equal(qkv_labels_collect(&l, &part), QKV_E_FORMAT);
    expect_message(sentence);
    qkv_labels_free(&l);
}

static void test_refused(void **state)
{
    (void)state;
    refuses("a\tb\n\nno tab\n", "some.txt: line 3: 2 or 3 columns");
    refuses("a\tb\tc\td\n", "line 1: 2 or 3 columns (label, text, second text) with tabs between "
                            "expected, found 4");
    refuses("a\tb\tc\na\tb\n", "line 2: 3 columns as before expected, found 2");
    refuses("\tb\n", "line 1: a label before the first tab");
    qkv_tokenizer *t = wordpiece();
    qkv_records_writer *w;
    qkv_text_span part = part_of("a\tb\n\nnew\tb\n");
    static const char *const names[] = {"a", "ne"};
    size_t cut = 0;
    check(qkv_records_create(&w, ctx, NULL, 3));
    assert_int_equal(qkv_corpus_add_labelled(w, ctx, t, &part, names, 2, 9, &cut), QKV_E_FORMAT);
    expect_message("some.txt: line 3: the label \"new\" is none of the model's 2");
    assert_int_equal(qkv_corpus_add_lines(w, ctx, t, &part, 2, true), QKV_E_ARGUMENT);
    expect_message("records of 2 ids: at least 3 expected");
    qkv_records_abandon(w);
    qkv_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
