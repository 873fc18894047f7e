/* test_score.c - BLEU, chrF, accuracy and F1 by hand: what their header promises beyond the
 * goldens, edges, sentences, failing allocations. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "fixture.h"
#include "qkv/score.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(1, fabs(b)); }

static qkv_text_span part(const char *text, const char *name)
{
    return (qkv_text_span){text, strlen(text), name, 0};
}

/* One call for texts; QKV_OK fills *out. */
static qkv_status bleu(const char *hyp, const char *ref, bool tokenized, bool lowercase,
                       qkv_bleu_score *out)
{
    const qkv_bleu_options options = {tokenized, lowercase};
    qkv_text_span h = part(hyp, "HYP"), r = part(ref, "REF");
    qkv_bleu *b;
    assert_int_equal(qkv_bleu_create(&b, ctx, &options), QKV_OK);
    qkv_status status = qkv_bleu_add_texts(b, &h, &r);
    qkv_bleu_result(b, out);
    qkv_bleu_destroy(b);
    return status;
}

static qkv_status chrf(const char *hyp, const char *ref, bool lowercase, qkv_chrf_score *out)
{
    qkv_text_span h = part(hyp, NULL), r = part(ref, NULL);
    qkv_chrf *c;
    assert_int_equal(qkv_chrf_create(&c, ctx, lowercase), QKV_OK);
    qkv_status status = qkv_chrf_add_texts(c, &h, &r);
    qkv_chrf_result(c, out);
    qkv_chrf_destroy(c);
    return status;
}

/* ---- BLEU --------------------------------------------------------------------------------- */

static void test_bleu_by_hand(void **state)
{
    (void)state;
    qkv_bleu_score s;
    /* "the" is in the reference twice: of three only two count. */
    assert_int_equal(bleu("the cat the dog the mat\n", "the cat and the dog sat there\n", true,
                          false, &s), QKV_OK);
    const size_t correct[] = {4, 2, 0, 0}, total[] = {6, 5, 4, 3};
    assert_memory_equal(s.correct, correct, sizeof correct);
    assert_memory_equal(s.total, total, sizeof total);
    assert_true(near(s.precisions[0], 400.0 / 6) && near(s.precisions[1], 40));
    assert_true(s.precisions[2] == 0 && s.precisions[3] == 0 && s.bleu == 0);
    assert_true(near(s.brevity, exp(1 - 7.0 / 6)) && near(s.ratio, 6.0 / 7));
    assert_int_equal(s.hyp_words, 6);
    assert_int_equal(s.ref_words, 7);
    /* The same smoothed: the orders that are never right count 1/2, 1/4. */
    assert_int_equal(bleu("the cat the dog the mat", "the cat and the dog sat there", false, false,
                          &s), QKV_OK);
    assert_true(near(s.precisions[2], 100 / 8.0) && near(s.precisions[3], 100 / 12.0));
    assert_true(near(s.bleu, s.brevity * pow(400.0 / 6 * 40 * (100 / 8.0) * (100 / 12.0), 0.25)));
}

static void test_bleu_edges(void **state)
{
    (void)state;
    static const struct {
        const char *hyp, *ref;
        bool tokenized;
        double bleu;
    } cases[] = {
        {"a b c d", "a b c d", true, 100},
        {"a b c d e f", "a b c d e f", false, 100},
        {"a b c", "a b c", true, 0},  /* no four words: no figure, as multi-bleu */
        {"a b c", "a b c", false, 0}, /* smoothing does not reach orders without n-grams */
        {"w x y z", "a b c d", false, 0},
        {"\n", "a b c d", false, 0},
        {"a b c d", "\n", false, 0},
        {"\n", "\n", true, 0},
        {"a\nb\nc d e f\r\n", "a\nb\nc d e f", true, 100}, /* a CR is a blank */
        {"&quot;a&amp;b&quot; c-\n", "\" a & b \" c-\n", false, 100},
        {"a, b. c-d 1-2", "a , b . c-d 1 - 2", false, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_bleu_score s;
        assert_int_equal(bleu(cases[i].hyp, cases[i].ref, cases[i].tokenized, false, &s), QKV_OK);
        if (!near(s.bleu, cases[i].bleu))
            fail_msg("case %zu: %.17g, not %g", i, s.bleu, cases[i].bleu);
    }
}

static void test_bleu_line_by_line(void **state)
{
    (void)state;
    static const char *const hyp[] = {"a b c d", "e f g\n", "", "h-\ni"};
    static const char *const ref[] = {"a b c d\n", "e f x g", "y", "hi"};
    qkv_bleu *b;
    qkv_bleu_score s, again;
    assert_int_equal(qkv_bleu_create(&b, ctx, NULL), QKV_OK);
    qkv_bleu_result(b, &s);
    assert_true(s.bleu == 0 && s.ratio == 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(qkv_bleu_add(b, hyp[i], strlen(hyp[i]), ref[i], strlen(ref[i])), QKV_OK);
    qkv_bleu_result(b, &s);
    assert_int_equal(s.hyp_words, 8);
    assert_int_equal(s.correct[0], 8); /* mteval joins what "-\n" parts */
    assert_int_equal(qkv_bleu_add(b, "\xff", 1, "a", 1), QKV_E_FORMAT);
    assert_string_equal(qkv_context_message(ctx), "the hypothesis is not UTF-8: expected a "
                                                  "character at byte 0, found 0xff");
    assert_int_equal(qkv_bleu_add(b, "a", 1, "a\xc3", 2), QKV_E_FORMAT);
    assert_string_equal(qkv_context_message(ctx), "the reference is not UTF-8: expected a "
                                                  "character at byte 1, found 0xc3");
    qkv_bleu_result(b, &again);
    assert_memory_equal(&s, &again, sizeof s);
    qkv_bleu_destroy(b);
    qkv_bleu_destroy(NULL);
}

/* ---- chrF --------------------------------------------------------------------------------- */

static void test_chrf_by_hand(void **state)
{
    (void)state;
    qkv_chrf_score s;
    /* abab against abc: a, b once each, ab once; of order 4 the reference has none. */
    assert_int_equal(chrf("ab ab", "a bc", false, &s), QKV_OK);
    const size_t matches[] = {2, 1, 0, 0, 0, 0}, hyp[] = {4, 3, 2, 0, 0, 0};
    const size_t ref[] = {3, 2, 1, 0, 0, 0};
    assert_memory_equal(s.matches, matches, sizeof matches);
    assert_memory_equal(s.hyp, hyp, sizeof hyp);
    assert_memory_equal(s.ref, ref, sizeof ref);
    const double p = (2 / 4.0 + 1 / 3.0) / 3, r = (2 / 3.0 + 1 / 2.0) / 3;
    assert_true(near(s.precision, 100 * p) && near(s.recall, 100 * r));
    assert_true(near(s.chrf, 100 * 5 * p * r / (4 * p + r)));
}

static void test_chrf_edges(void **state)
{
    (void)state;
    static const struct {
        const char *hyp, *ref;
        bool lowercase;
        double chrf;
    } cases[] = {
        {"a", "a", false, 100},
        {"a", "b", false, 0},
        {"\n", "a", false, 0},
        {"a", "\n", false, 0},
        {" \n", " \n", false, 0},
        {"ein Mann", "einMann\r\n", false, 100},
        {"\xe2\x80\x89x\xc2\xa0y\x1f", "xy", false, 100},      /* U+2009, U+00A0 */
        {"\xc4\xb0", "i\xcc\x87", true, 100},                  /* I with a dot */
        {"\xce\xa3\xce\x91\xce\xa3", "\xcf\x83\xce\xb1\xcf\x82", true, 100}, /* final sigma */
        {"\xce\xa3", "\xcf\x83", true, 100},
        {"\xc3\x84", "\xc3\xa4", true, 100},
        {"\xc3\x84", "\xc3\xa4", false, 0},
        {"a\nbb", "a\nbb", false, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_chrf_score s;
        assert_int_equal(chrf(cases[i].hyp, cases[i].ref, cases[i].lowercase, &s), QKV_OK);
        if (!near(s.chrf, cases[i].chrf))
            fail_msg("case %zu: %.17g, not %g", i, s.chrf, cases[i].chrf);
    }
}

/* ---- errors ------------------------------------------------------------------------------- */

static void test_sentences(void **state)
{
    (void)state;
    static const struct {
        const char *hyp, *ref, *sentence;
    } cases[] = {
        {"a\nb\nc", "a\n\n", "expected a line for every reference, found 3 in HYP and 2 in REF"},
        {"", "a\n", "expected a line for every reference, found 0 in HYP and 1 in REF"},
        {"", "", "HYP and REF are empty: there is nothing to score"},
        {"a\nb\n", "a\n\xe9\n", "REF: line 2 is not UTF-8"},
        {"\xed\xa0\x80\nb\n", "a\nb\n", "HYP: line 1 is not UTF-8"}, /* a surrogate */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_bleu_score s;
        assert_int_equal(bleu(cases[i].hyp, cases[i].ref, i % 2, false, &s), QKV_E_FORMAT);
        assert_string_equal(qkv_context_message(ctx), cases[i].sentence);
        assert_true(s.bleu == 0);
    }
    qkv_chrf_score s;
    assert_int_equal(chrf("a\n", "a\nb\n", false, &s), QKV_E_FORMAT);
    assert_string_equal(qkv_context_message(ctx), "expected a line for every reference, found 1 "
                                                  "in the hypotheses and 2 in the references");
}

/* Scores a pair both ways with memory for this many allocations; true when all went well. */
static bool score_with(size_t allocations)
{
    static const char hyp[] = "The cat, it sat on the mat - again and again and again.";
    static const char ref[] = "THE CAT sat on the 3.5 mats, and again it sat on some other mat.";
    failing few = {.left = allocations};
    const qkv_context_options o = failing_options(&few);
    qkv_context *c;
    qkv_bleu *b = NULL;
    qkv_chrf *f = NULL;
    if (qkv_context_create(&c, &o))
        return false;
    const qkv_bleu_options options = {.lowercase = true};
    qkv_status status = qkv_bleu_create(&b, c, &options);
    if (!status)
        status = qkv_bleu_add(b, hyp, sizeof hyp - 1, ref, sizeof ref - 1);
    if (!status)
        status = qkv_chrf_create(&f, c, true);
    if (!status)
        status = qkv_chrf_add(f, hyp, sizeof hyp - 1, ref, sizeof ref - 1);
    assert_true(status == QKV_OK || status == QKV_E_MEMORY);
    assert_int_equal(qkv_context_status(c), status);
    qkv_bleu_destroy(b);
    qkv_chrf_destroy(f);
    qkv_context_destroy(c);
    assert_int_equal(few.live, 0);
    return status == QKV_OK;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    size_t n = 0;
    for (bool done = false; !done; n++) {
        done = score_with(n);
        assert_true(n < 200);
    }
    assert_true(n > 10);
}

/* ---- classes ------------------------------------------------------------------------------ */

static void test_classes(void **state)
{
    (void)state;
    /* Class 0: 3 true, 2 predicted, 2 right; 1: 2, 3, 1; 2: 1, 1, 0; 3: never; 4: 0, 0. */
    const int32_t labels[] = {0, 0, 0, 1, 1, 2}, predicted[] = {0, 0, 1, 1, 2, 1};
    assert_true(near(qkv_accuracy(predicted, labels, 6), 3 / 6.0));
    assert_true(near(qkv_f1(predicted, labels, 6, 0), 4 / 5.0));
    assert_true(near(qkv_f1(predicted, labels, 6, 1), 2 / 5.0));
    assert_true(qkv_f1(predicted, labels, 6, 2) == 0);
    assert_true(qkv_f1(predicted, labels, 6, 3) == 0);
    assert_true(near(qkv_f1_macro(predicted, labels, 6, 5), (4 / 5.0 + 2 / 5.0 + 0) / 3));
    assert_true(near(qkv_f1_macro(predicted, labels, 6, 2), (4 / 5.0 + 2 / 5.0) / 2));
    assert_true(near(qkv_f1_macro(labels, labels, 6, 3), 1));
    /* A class that is only ever predicted counts, as 0. */
    const int32_t none[] = {0, 0}, other[] = {0, 1};
    assert_true(near(qkv_f1_macro(other, none, 2, 2), (2 / 3.0 + 0) / 2));
    assert_true(qkv_accuracy(labels, labels, 0) == 0 && qkv_f1(labels, labels, 0, 1) == 0);
    assert_true(qkv_f1_macro(labels, labels, 0, 3) == 0);
}

/* Flat images differ by their means alone; a pattern and its inverse have nothing in common. */
static void test_ssim(void **state)
{
    (void)state;
    enum { SIDE = 16, C = 3, N = SIDE * SIDE * C };
    static uint8_t a[N], b[N], p[N], q[N];
    for (size_t i = 0; i < N; i++) {
        bool odd = (i / C % SIDE + i / C / SIDE) % 2;
        a[i] = 100;
        b[i] = 150;
        p[i] = odd ? 150 : 50;
        q[i] = odd ? 50 : 150;
    }
    const double c1 = 0.01 * 255 * 0.01 * 255;
    assert_true(near(qkv_ssim(a, a, SIDE, SIDE, C), 1) && near(qkv_ssim(p, p, SIDE, SIDE, C), 1));
    double flat = qkv_ssim(a, b, SIDE, SIDE, C);
    assert_true(fabs(flat - (2 * 100 * 150 + c1) / (100 * 100 + 150 * 150 + c1)) < 1e-9);
    assert_true(qkv_ssim(p, q, SIDE, SIDE, C) < -0.95);
    double one = qkv_ssim(p, a, 11, SIDE, C);
    assert_true(one > 0 && one < 0.1);
    assert_true(isnan(qkv_ssim(p, a, 10, SIDE, C)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bleu_by_hand),   cmocka_unit_test(test_bleu_edges),
        cmocka_unit_test(test_bleu_line_by_line), cmocka_unit_test(test_chrf_by_hand),
        cmocka_unit_test(test_chrf_edges),     cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_failing_allocations), cmocka_unit_test(test_classes),
        cmocka_unit_test(test_ssim)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
