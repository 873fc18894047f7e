/* test_shortlist.c - lexicons: their tokens against a plain union, model 1 against its equations in
 * double, files there and back, and files that are none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "files.h"
#include "qkv/random.h"
#include "qkv/shortlist.h"
#include "tokenizers.h"

enum { VOCAB = 40 };

/* ---- the tokens of a list ------------------------------------------------------------------- */

/* Some pairs of all, in an order that is nobody's. */
static size_t random_entries(qkv_rng *rng, qkv_shortlist_entry entries[VOCAB * VOCAB])
{
    size_t count = 0;
    for (int32_t i = 0; i < VOCAB * VOCAB; i++) {
        int32_t pair = i * 7 % (VOCAB * VOCAB); /* 7 has no divisor in common with it */
        if (qkv_rng_below(rng, 5) == 0)
            entries[count++] = (qkv_shortlist_entry){pair / VOCAB, pair % VOCAB,
                                                     (float)(1 + qkv_rng_below(rng, 9)) / 10};
    }
    return count;
}

/* How many of a source token's entries come before e. */
static size_t place_of(const qkv_shortlist_entry *e, const qkv_shortlist_entry *all, size_t count)
{
    size_t before = 0;
    for (size_t i = 0; i < count; i++)
        before += all[i].source == e->source &&
                  (all[i].probability > e->probability ||
                   (all[i].probability == e->probability && all[i].target < e->target));
    return before;
}

static double frequency(int32_t target, const qkv_shortlist_entry *all, size_t count)
{
    double sum = 0;
    for (int32_t s = 0; s < VOCAB; s++) /* in the order of the entries: equal sums are equal */
        for (size_t i = 0; i < count; i++)
            sum += all[i].source == s && all[i].target == target ? (double)all[i].probability : 0;
    return sum;
}

static void expect_tokens(const qkv_shortlist_entry *all, size_t count,
                          const qkv_shortlist_options *o, const int32_t *ids, size_t n,
                          bool in[VOCAB])
{
    double sums[VOCAB];
    memset(in, 0, VOCAB);
    for (int32_t v = 0; v < VOCAB; v++)
        sums[v] = frequency(v, all, count);
    for (size_t v = 0; v < VOCAB; v++) {
        size_t before = 0;
        for (size_t u = 0; u < VOCAB; u++)
            before += sums[u] > sums[v] || (sums[u] == sums[v] && u < v);
        in[v] = before < o->first;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++)
            if (all[k].source == ids[i] && place_of(&all[k], all, count) < o->best)
                in[all[k].target] = true;
}

static void test_tokens(void **state)
{
    (void)state;
    static qkv_shortlist_entry entries[VOCAB * VOCAB];
    qkv_rng rng;
    qkv_ids out = {0};
    qkv_rng_init(&rng, 3, 0);
    for (int round = 0; round < 40; round++) {
        qkv_shortlist *s;
        bool in[VOCAB];
        int32_t ids[6];
        size_t count = random_entries(&rng, entries), n = qkv_rng_below(&rng, 7), at = 0;
        const qkv_shortlist_options o = {qkv_rng_below(&rng, 8), qkv_rng_below(&rng, 9)};
        for (size_t i = 0; i < n; i++)
            ids[i] = (int32_t)qkv_rng_below(&rng, VOCAB);
        check(qkv_shortlist_create(&s, ctx, VOCAB, entries, count));
        check(qkv_shortlist_tokens(s, &o, ids, n, &out));
        expect_tokens(entries, count, &o, ids, n, in);
        for (int32_t v = 0; v < VOCAB; v++)
            if (in[v])
                assert_true(at < out.count && out.data[at++] == v);
        assert_int_equal(at, out.count);
        qkv_shortlist_destroy(s);
    }
    qkv_ids_free(&out, ctx);
}

static void refused(const qkv_shortlist_entry *entries, size_t count, const char *words)
{
    qkv_shortlist *s;
    assert_int_equal(qkv_shortlist_create(&s, ctx, 5, entries, count), QKV_E_ARGUMENT);
    assert_null(s);
    expect_message(words);
}

static void test_refused(void **state)
{
    (void)state;
    refused(&(qkv_shortlist_entry){0, 5, 0.5f}, 1, "entry 0 of a shortlist: tokens below 5");
    refused(&(qkv_shortlist_entry){-1, 0, 0.5f}, 1, "found -1, 0, 0.5");
    refused(&(qkv_shortlist_entry){0, 0, 0}, 1, "found 0, 0, 0");
    refused(&(qkv_shortlist_entry){0, 0, (float)NAN}, 1, "nan");
    refused((const qkv_shortlist_entry[]){{1, 2, 0.5f}, {1, 3, 0.1f}, {1, 2, 0.25f}}, 3,
            "source token 1 with target token 2 occurs twice");
    qkv_shortlist *s;
    qkv_ids out = {0};
    const qkv_shortlist_options o = {1, 1};
    assert_int_equal(qkv_shortlist_create(&s, ctx, 0, NULL, 0), QKV_E_ARGUMENT);
    check(qkv_shortlist_create(&s, ctx, 5, NULL, 0));
    assert_int_equal(qkv_shortlist_tokens(s, &o, (const int32_t[]){5}, 1, &out), QKV_E_ARGUMENT);
    expect_message("source token 5");
    qkv_shortlist_destroy(s);
}

/* ---- model 1 -------------------------------------------------------------------------------- */

enum { PAIRS = 60, LONGEST = 9 };

/* Sentences of random tokens, and as their translations token + 20, in another order. */
static qkv_records *random_pairs(void)
{
    qkv_records_writer *w;
    qkv_records *r;
    qkv_rng rng;
    qkv_rng_init(&rng, 8, 0);
    check(qkv_records_create(&w, ctx, NULL, 2));
    for (size_t i = 0; i < PAIRS; i++) {
        int32_t source[LONGEST], target[LONGEST];
        size_t n = 1 + qkv_rng_below(&rng, LONGEST);
        for (size_t k = 0; k < n; k++) {
            source[k] = (int32_t)qkv_rng_below(&rng, 20);
            target[n - 1 - k] = source[k] + 20;
        }
        check(qkv_records_add(w, source, n));
        check(qkv_records_add(w, target, n));
    }
    check(qkv_records_finish(w, &r));
    return r;
}

/* One iteration, from t to next: row VOCAB is the empty word's. */
static void model1(const qkv_records *r, double (*t)[VOCAB], double (*next)[VOCAB])
{
    memset(next, 0, (VOCAB + 1) * sizeof *next);
    for (size_t i = 0; i < PAIRS; i++) {
        const int32_t *e, *f;
        size_t l = qkv_records_get(r, i, 0, &e), m = qkv_records_get(r, i, 1, &f);
        for (size_t j = 0; j < m; j++) {
            double norm = t[VOCAB][f[j]];
            for (size_t k = 0; k < l; k++)
                norm += t[e[k]][f[j]];
            for (size_t k = 0; k < l; k++)
                next[e[k]][f[j]] += t[e[k]][f[j]] / norm;
            next[VOCAB][f[j]] += t[VOCAB][f[j]] / norm;
        }
    }
    for (size_t s = 0; s <= VOCAB; s++) {
        double sum = 0;
        for (size_t v = 0; v < VOCAB; v++)
            sum += next[s][v];
        for (size_t v = 0; v < VOCAB && sum > 0; v++)
            next[s][v] /= sum;
    }
}

static void test_model_1(void **state)
{
    (void)state;
    static double t[2][VOCAB + 1][VOCAB];
    qkv_records *r = random_pairs();
    for (size_t s = 0; s <= VOCAB; s++)
        for (size_t v = 0; v < VOCAB; v++)
            t[0][s][v] = 1;
    for (size_t iterations = 1; iterations <= 8; iterations++) {
        double (*now)[VOCAB] = t[iterations % 2];
        const qkv_shortlist_learn_options o = {iterations, VOCAB, 1e-3};
        qkv_shortlist *s, *again;
        size_t count, same, expected = 0;
        model1(r, t[1 - iterations % 2], now);
        check(qkv_shortlist_learn(&s, ctx, r, VOCAB, &o));
        check(qkv_shortlist_learn(&again, ctx, r, VOCAB, &o));
        const qkv_shortlist_entry *e = qkv_shortlist_entries(s, &count);
        for (size_t i = 0; i < count; i++)
            assert_true(fabs((double)e[i].probability - now[e[i].source][e[i].target]) <= 1e-5);
        for (size_t i = 0; i < VOCAB * VOCAB; i++)
            expected += now[i / VOCAB][i % VOCAB] >= 1e-3;
        assert_int_equal(count, expected);
        const qkv_shortlist_entry *f = qkv_shortlist_entries(again, &same);
        assert_int_equal(same, count);
        assert_memory_equal(e, f, count * sizeof *e);
        for (size_t i = 0; i < count && iterations == 8; i++) /* it found how they were made */
            if (i == 0 || e[i].source != e[i - 1].source)
                assert_int_equal(e[i].target, e[i].source + 20);
        qkv_shortlist_destroy(s);
        qkv_shortlist_destroy(again);
    }
    qkv_records_close(r);
}

static void test_limits(void **state)
{
    (void)state;
    qkv_records *r = random_pairs();
    qkv_shortlist *s;
    size_t count, of_one = 0;
    check(qkv_shortlist_learn(&s, ctx, r, VOCAB, &(qkv_shortlist_learn_options){2, 3, 0.02}));
    const qkv_shortlist_entry *e = qkv_shortlist_entries(s, &count);
    assert_true(count > 40 && count <= 60);
    for (size_t i = 0; i < count; i++) {
        of_one = i && e[i].source == e[i - 1].source ? of_one + 1 : 1;
        assert_true(of_one <= 3 && e[i].probability >= 0.02f);
    }
    qkv_shortlist_destroy(s);
    assert_int_equal(qkv_shortlist_learn(&s, ctx, r, 39, &(qkv_shortlist_learn_options){2, 3, 0}),
                     QKV_E_ARGUMENT);
    expect_message("token 39: tokens below 39 expected");
    qkv_records_close(r);
}

/* ---- files ---------------------------------------------------------------------------------- */

static char folder[PATH_BYTES];

static qkv_status load_text(qkv_shortlist **s, const qkv_tokenizer *t, const char *text)
{
    FILE *file = fopen(in(folder, "lex"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return qkv_shortlist_load(s, ctx, t, qkv_tokenizer_vocab_size(t), in(folder, "lex"));
}

static void test_there_and_back(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained_bpe();
    size_t vocab = qkv_tokenizer_vocab_size(t), count, back;
    qkv_shortlist_entry entries[] = {{70, 80, 0.25f}, {70, 3, 0.5f}, {299, 0, 1}, {4, 4, 1e-6f}};
    qkv_shortlist *s, *loaded;
    check(qkv_shortlist_create(&s, ctx, vocab, entries, 4));
    check(qkv_shortlist_save(s, t, in(folder, "saved")));
    assert_int_equal(files_in(folder), 1);
    check(qkv_shortlist_load(&loaded, ctx, t, vocab, in(folder, "saved")));
    const qkv_shortlist_entry *e = qkv_shortlist_entries(s, &count);
    const qkv_shortlist_entry *f = qkv_shortlist_entries(loaded, &back);
    assert_int_equal(count, back);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(e[i].source, f[i].source);
        assert_int_equal(e[i].target, f[i].target);
        assert_true(fabsf(e[i].probability - f[i].probability) <= 1e-6f * e[i].probability);
    }
    qkv_shortlist_destroy(s);
    qkv_shortlist_destroy(loaded);
    qkv_tokenizer_destroy(t);
}

/* A character tokenizer has tokens that no line can name; they are left out, and in every list. */
static void test_blanks(void **state)
{
    (void)state;
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    o.special[QKV_TOKEN_UNK] = "NULL";
    qkv_tokenizer *t = trained(&o, "ab c\nd");
    size_t vocab = qkv_tokenizer_vocab_size(t), count;
    int32_t a = qkv_tokenizer_id(t, "a", 1), b = qkv_tokenizer_id(t, "b", 1);
    int32_t blank = qkv_tokenizer_id(t, " ", 1), newline = qkv_tokenizer_id(t, "\n", 1);
    int32_t null = qkv_tokenizer_special(t, QKV_TOKEN_UNK);
    const qkv_shortlist_entry entries[] = {
        {a, b, 0.5f}, {a, blank, 0.25f}, {newline, a, 1}, {a, null, 0.125f}};
    qkv_shortlist *s;
    qkv_ids out = {0};
    check(qkv_shortlist_create(&s, ctx, vocab, entries, 4));
    check(qkv_shortlist_save(s, t, in(folder, "blanks")));
    qkv_shortlist_destroy(s);
    check(qkv_shortlist_load(&s, ctx, t, vocab, in(folder, "blanks")));
    assert_int_equal(qkv_shortlist_entries(s, &count)->target, b);
    assert_int_equal(count, 1);
    check(qkv_shortlist_tokens(s, &(qkv_shortlist_options){0, 5}, &a, 1, &out));
    assert_int_equal(out.count, 4);
    for (size_t i = 0; i < out.count; i++)
        assert_true(out.data[i] == b || out.data[i] == blank || out.data[i] == newline ||
                    out.data[i] == null);
    qkv_ids_free(&out, ctx);
    qkv_shortlist_destroy(s);
    qkv_tokenizer_destroy(t);
}

/* What Marian's files may have: tabs, empty lines, no newline at the end, the empty word, tokens of
 * others, probabilities of 0. */
static void test_lines(void **state)
{
    (void)state;
    static const char text[] = "b\ta  0.5\r\n\n  c a 2.5e-1 \nNULL a 0.3\nb NULL 0.3\nzz a 0.1\n"
                               "a zz 1\nd a 0\nd b 1";
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "the file is empty"},
        {"a b 0.5\na b\n", "line 2: 3 fields expected"},
        {"a b 0.5 0.5\n", "line 1: 3 fields expected"},
        {"a b nan\n", "field 3, the probability: a number from 0 to 1 expected, found \"nan\""},
        {"a b 1.5\n", "found \"1.5\""},
        {"a b -1\n", "found \"-1\""},
        {"a b 0.5x\n", "found \"0.5x\""},
        {"0.5 a b\n", "found \"b\""},
        {"a b 0.0000000000000000000000000000000000000000000000000000000000000001\n", "found \"0.0"},
        {"a b 0.5\nc b 0.2\na b 0.4\n",
         "target token \"a\" with source token \"b\": one line expected, found two"},
        {"hund dog 0.5\nkatze a 0.2\n", "found 2 lines, none with two tokens that it has"},
        {"NULL NULL 1\n", "found 0 lines"},
    };
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    qkv_tokenizer *t = trained(&o, "abcd");
    qkv_shortlist *s;
    size_t count;
    check(load_text(&s, t, text));
    const qkv_shortlist_entry *e = qkv_shortlist_entries(s, &count);
    assert_int_equal(count, 3);
    assert_true(e[0].source == 0 && e[0].target == 1 && e[0].probability == 0.5f);
    assert_true(e[1].source == 0 && e[1].target == 2 && e[1].probability == 0.25f);
    assert_true(e[2].source == 1 && e[2].target == 3 && e[2].probability == 1);
    qkv_shortlist_destroy(s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (load_text(&s, t, bad[i].text) != QKV_E_FORMAT)
            fail_msg("taken: %s", bad[i].text);
        assert_null(s);
        expect_message(bad[i].words);
        expect_message(in(folder, "lex"));
    }
    assert_int_equal(qkv_shortlist_load(&s, ctx, t, 4, in(folder, "missing")), QKV_E_IO);
    qkv_tokenizer_destroy(t);
}

static int open_all(void **state)
{
    make_folder(folder);
    return setup(state);
}

static int close_all(void **state)
{
    remove_folder(folder);
    return teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_model_1), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_lines),
    };
    return run_each(tests, sizeof tests / sizeof *tests, open_all, close_all);
}
