/* test_explain.c - the lesson and the errata from C: the right numbers of the worked example, which
 * entries of the printed copy are wrong, sizes that do not fit, memory that gives out. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "explain/lesson.h"
#include "fixture.h"
#include "qkv/explain.h"

static double entry(const qkv__lesson *l, const char *key, size_t i, size_t j)
{
    const qkv__lesson_matrix *m = qkv__lesson_find(l, key);
    if (!m)
        fail_msg("no matrix %s", key);
    return (double)qkv_data(l->t, m->x)[i * qkv_dim(m->x, 1) + j];
}

static void assert_row(const qkv__lesson *l, const char *key, size_t i, const double *right,
                       double off)
{
    for (size_t j = 0; j < 4; j++)
        if (!(fabs(entry(l, key, i, j) - right[j]) <= off))
            fail_msg("%s[%zu][%zu] is %.6f, not %.6f", key, i, j, entry(l, key, i, j), right[j]);
}

/* By hand, and the outputs by a program of a few lines in double. */
static void the_worked_example_has_its_numbers(void **state)
{
    (void)state;
    qkv__lesson l;
    assert_int_equal(qkv__lesson_create(&l, ctx, NULL), QKV_OK);
    assert_row(&l, "Q", 1, (const double[]){0.40, 0.54, 0.68, 0.82}, 1e-6);
    assert_row(&l, "K", 1, (const double[]){0.96, 1.10, 1.24, 1.38}, 1e-6);
    assert_row(&l, "V", 1, (const double[]){1.52, 1.66, 1.80, 1.94}, 1e-6);
    assert_true(fabs(entry(&l, "scores_1", 0, 0) - 1.58) < 1e-6);
    assert_true(fabs(entry(&l, "scaled_1", 0, 0) - 0.79) < 1e-6);
    assert_row(&l, "output", 0, (const double[]){2.4965, 2.7295, 2.9625, 3.1955}, 6e-5);
    assert_true(l.difference < 2e-6);
    qkv__lesson_destroy(&l);
    assert_int_equal(qkv__lesson_create(&l, ctx, &(qkv_explain_options){.unscaled = true}), QKV_OK);
    assert_row(&l, "output", 0, (const double[]){2.7571, 3.0149, 3.2728, 3.5306}, 6e-5);
    qkv__lesson_destroy(&l);
}

static void switches_do_what_they_say(void **state)
{
    (void)state;
    const qkv_explain_options o = {.heads = 2, .causal = true, .biases = true, .positions = true};
    qkv__lesson l;
    assert_int_equal(qkv__lesson_create(&l, ctx, &o), QKV_OK);
    assert_true(isinf(entry(&l, "masked_2", 0, 1)));
    for (size_t h = 0; h < 2; h++)
        for (size_t i = 0; i < 6; i++) {
            const char *key = h ? "weights_2" : "weights_1";
            double sum = 0.0;
            for (size_t j = 0; j < 6; j++) {
                sum += entry(&l, key, i, j);
                assert_true(j <= i || entry(&l, key, i, j) == 0.0);
            }
            assert_true(fabs(sum - 1.0) < 1e-6);
        }
    assert_row(&l, "PE", 1, (const double[]){0.8415, 0.5403, 0.0100, 0.99995}, 6e-5);
    assert_true(fabs(entry(&l, "Q", 0, 0) - (0.1 * 0.1 + 1.2 * 0.2 + 0.3 * 0.3 + 1.4 * 0.4 + 0.1)) <
                1e-6);
    assert_true(entry(&l, "concat", 3, 2) == entry(&l, "head_2", 3, 0));
    assert_true(fabs(entry(&l, "output", 3, 2) - entry(&l, "concat", 3, 2) - 0.2) < 1e-6);
    assert_true(l.difference < 2e-6);
    assert_null(qkv__lesson_find(&l, "weights_3"));
    qkv__lesson_destroy(&l);
}

static void own_matrices_are_used(void **state)
{
    (void)state;
    const qkv_real x[] = {1, 0, 0, 1, 1, 1}, w[] = {2, 0, 0, 3};
    const qkv_explain_options o = {.rows = 3, .width = 2, .x = x, .wq = w, .wk = w, .wv = w,
                                   .wo = w};
    qkv__lesson l;
    assert_int_equal(qkv__lesson_create(&l, ctx, &o), QKV_OK);
    assert_true(entry(&l, "scores_1", 2, 2) == 13.0);
    assert_true(entry(&l, "Q", 1, 1) == 3.0);
    qkv__lesson_destroy(&l);
}

static void wrong_entries_are_told(void **state)
{
    (void)state;
    static const size_t wrong[] = {15, 20, 24, 36, 24, 1};
    qkv_errata e;
    size_t all = 0;
    assert_int_equal(qkv_explain_errata(&e, ctx), QKV_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(e.matrices[i].wrong, wrong[i]);
        all += wrong[i];
    }
    assert_int_equal(e.count, all);
    const qkv_erratum *first = &e.entries[0], *last = &e.entries[all - 1];
    assert_string_equal(first->matrix, "Q"); /* 0.54, printed with one decimal */
    assert_true(first->row == 2 && first->column == 2 && first->rounds);
    assert_true(first->printed == 0.5 && fabs(first->right - 0.54) < 1e-6);
    assert_true(!e.entries[1].rounds && fabs(e.entries[1].right - 0.68) < 1e-6);
    assert_string_equal(last->matrix, "PE_1");
    assert_true(last->column == 3 && last->printed == 0.0001 && fabs(last->right - 0.01) < 1e-5);
    assert_true(e.largest_output == 3.20 && e.largest_value == 1.8);
    for (size_t i = 0; i < e.count; i++)
        if (strcmp(e.entries[i].matrix, "scores") == 0) {
            assert_true(e.entries[i].printed == 1.54 && fabs(e.entries[i].right - 1.58) < 1e-6);
            break;
        }
    qkv_errata_free(&e);
    qkv_errata_free(&e);
}

static void sizes_that_do_not_fit_are_told(void **state)
{
    (void)state;
    static const struct {
        qkv_explain_options o;
        const char *said;
    } cases[] = {
        {{.rows = 13}, "1 to 12"}, {{.width = 3}, "even number"}, {{.width = 18}, "2 to 16"},
        {{.heads = 3}, "divide the width 4"}, {{.width = 16, .heads = 16}, "at most 8"},
    };
    const char *path = in(folder, "page.html");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(qkv_explain_page(ctx, &cases[i].o, path), QKV_E_ARGUMENT);
        assert_non_null(strstr(qkv_context_message(ctx), cases[i].said));
    }
    assert_int_equal(files_in(folder), 0);
    assert_int_equal(qkv_explain_page(ctx, NULL, in(folder, "none/page.html")), QKV_E_IO);
}

static void memory_that_gives_out_is_told(void **state)
{
    (void)state;
    const char *path = in(folder, "page.html");
    size_t size, n = 0;
    assert_int_equal(qkv_explain_page(ctx, NULL, path), QKV_OK);
    char *whole = take_file(path, &size);
    for (bool good = false; !good; n += n < 40 ? 1 : 37) {
        remove(path);
        memory.left = n;
        qkv_status status = qkv_explain_page(ctx, NULL, path);
        good = memory.left != SIZE_MAX;
        assert_int_equal(memory.live, 1); /* the context */
        if (good)
            assert_int_equal(status, QKV_OK);
        if (status) {
            assert_int_equal(files_in(folder), 0);
        } else { /* a piece of text may be missing nowhere */
            size_t again;
            char *text = take_file(path, &again);
            assert_int_equal(again, size);
            assert_memory_equal(text, whole, size);
            free(text);
        }
    }
    assert_true(n > 40);
    free(whole);
    memory.left = SIZE_MAX;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_has_its_numbers),
        cmocka_unit_test(switches_do_what_they_say),
        cmocka_unit_test(own_matrices_are_used),
        cmocka_unit_test(wrong_entries_are_told),
        cmocka_unit_test(sizes_that_do_not_fit_are_told),
        cmocka_unit_test(memory_that_gives_out_is_told),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
