/* What counting guesses of lines, on records small enough to count by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tour/lines_counts.c"
#include "fixture.h"

enum { V = 8, CLS = 0, SEP = 1 };

static qkv_records *records(size_t fields, size_t n, const int32_t *const *ids,
                            const size_t *counts)
{
    qkv_records_writer *w;
    qkv_records *r;
    assert_int_equal(qkv_records_create(&w, ctx, NULL, fields), QKV_OK);
    for (size_t i = 0; i < n * fields; i++)
        assert_int_equal(qkv_records_add(w, ids[i], counts[i]), QKV_OK);
    assert_int_equal(qkv_records_finish(w, &r), QKV_OK);
    return r;
}

/* Learnt: 2 3 4, 2 3 2, 5 2: 2 is the commonest; 3 follows 2, after 3 the smaller of 2 and 4, after
 * [CLS] comes 2. Evaluated: 2 3 4, 5 3. */
static void guesses_are_counted(void **state)
{
    (void)state;
    const int32_t *const learnt[] = {(int32_t[]){CLS, 2, 3, 4, SEP}, (int32_t[]){CLS, 2, 3, 2, SEP},
                                     (int32_t[]){CLS, 5, 2, SEP}};
    const int32_t *const evaluated[] = {(int32_t[]){CLS, 2, 3, 4, SEP}, (int32_t[]){CLS, 5, 3,
                                                                                    SEP}};
    qkv_records *learn = records(1, 3, learnt, (size_t[]){5, 5, 4});
    qkv_records *evaluate = records(1, 2, evaluated, (size_t[]){5, 4});
    tour_guesses g;
    assert_int_equal(tour_count_guesses(&g, ctx, learn, evaluate, V), QKV_OK);
    assert_float_equal(g.commonest, 1.0 / 5, 1e-12); /* the first 2 */
    assert_float_equal(g.after, 2.0 / 5, 1e-12);     /* that 2, and the 3 behind it */
    qkv_records_close(learn);
    qkv_records_close(evaluate);
}

/* Class 0 says 2 and 3, class 1 says 4; with nothing to go by the commoner class, 0, is found. */
static void naive_bayes_counts_words(void **state)
{
    (void)state;
    const int32_t *const learnt[] = {
        (int32_t[]){CLS, 2, 3, SEP}, NULL, (int32_t[]){0}, (int32_t[]){CLS, 3, 2, SEP}, NULL,
        (int32_t[]){0}, (int32_t[]){CLS, 4, 4, SEP}, NULL, (int32_t[]){1}};
    const int32_t *const evaluated[] = {
        (int32_t[]){CLS, 2, 4, 4, SEP}, NULL, (int32_t[]){1}, (int32_t[]){CLS, 3, SEP}, NULL,
        (int32_t[]){0}, (int32_t[]){CLS, SEP}, NULL, (int32_t[]){0},
        (int32_t[]){CLS, 2, SEP}, NULL, (int32_t[]){1}};
    qkv_records *learn = records(3, 3, learnt, (size_t[]){4, 0, 1, 4, 0, 1, 4, 0, 1});
    qkv_records *evaluate =
        records(3, 4, evaluated, (size_t[]){5, 0, 1, 3, 0, 1, 2, 0, 1, 3, 0, 1});
    double right;
    assert_int_equal(tour_naive_bayes(&right, ctx, learn, evaluate, V, 2), QKV_OK);
    assert_float_equal(right, 3.0 / 4, 1e-12); /* the last one is labelled against its word */
    qkv_records_close(learn);
    qkv_records_close(evaluate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(guesses_are_counted),
                                       cmocka_unit_test(naive_bayes_counts_words)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
