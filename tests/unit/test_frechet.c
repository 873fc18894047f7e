/* test_frechet.c - the Frechet distance where it is known: equal sets, axes of their own, turned
 * sets, fewer rows than axes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "fixture.h"
#include "qkv/score.h"

enum { C = 8, ROWS = 40 };

/* Row i of a set: (C). */
typedef void row_fn(qkv_real *row, size_t i);

/* sin(1.7 (i + 1) (c + 2)) + c / 4, and longer, moved and mixed in the other set. */
static void first_row(qkv_real *row, size_t i)
{
    for (size_t c = 0; c < C; c++)
        row[c] = (qkv_real)(sin(1.7 * (double)((i + 1) * (c + 2))) + (double)c / 4);
}

static void second_row(qkv_real *row, size_t i)
{
    for (size_t c = 0; c < C; c++)
        row[c] = (qkv_real)((1 + (double)c / 2) * sin(0.9 * (double)((i + 2) * (c + 1))) +
                            cos((double)i));
}

static double distance(row_fn *a, size_t rows_a, row_fn *b, size_t rows_b)
{
    qkv_frechet *f;
    qkv_real row[C];
    double out;
    assert_int_equal(qkv_frechet_create(&f, ctx, C), QKV_OK);
    for (size_t i = 0; i < rows_a; i++) {
        a(row, i);
        qkv_frechet_add(f, false, row, 1);
    }
    for (size_t i = 0; i < rows_b; i++) {
        b(row, i);
        qkv_frechet_add(f, true, row, 1);
    }
    if (qkv_frechet_distance(f, &out))
        fail_msg("%s", qkv_context_message(ctx));
    qkv_frechet_destroy(f);
    return out;
}

static void expect(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-6 * expected))
        fail_msg("%.9g, not %.9g", got, expected);
}

/* numpy: np.cov of both, roots of the eigenvalues of their product, in double, of float rows. */
static const double all_rows = 27.44245258737027, few_rows = 42.55797252052678;

static void test_numpy(void **state)
{
    (void)state;
    expect(distance(first_row, ROWS, second_row, ROWS - 10), all_rows);
    expect(distance(first_row, 5, second_row, 6), few_rows); /* of rank 4 and 5 */
    assert_true(distance(first_row, ROWS, first_row, ROWS) < 1e-9);
    assert_true(distance(second_row, 5, second_row, 5) < 1e-9);
    expect(distance(second_row, 30, first_row, ROWS), all_rows);
}

/* ---- axes of their own -------------------------------------------------------------------- */

/* 2 C rows at +-length(c) on axis c, about a mean: variances 2 length^2 / (2 C - 1), and nothing
 * between axes. */
static void on_axes(qkv_real *row, size_t i, double step, double mean)
{
    for (size_t c = 0; c < C; c++)
        row[c] = (qkv_real)mean;
    double length = 1 + step * (double)(i / 2);
    row[i / 2] += (qkv_real)(i % 2 ? length : -length);
}
static void short_axes(qkv_real *row, size_t i) { on_axes(row, i, 0.25, 0.5); }
static void long_axes(qkv_real *row, size_t i) { on_axes(row, i, 0.5, -1); }

static void test_axes(void **state)
{
    (void)state;
    double expected = C * 1.5 * 1.5;
    for (size_t c = 0; c < C; c++) {
        double apart = 0.25 * (double)c; /* (1 + c / 2) - (1 + c / 4) */
        expected += apart * apart * 2 / (2 * C - 1);
    }
    expect(distance(short_axes, 2 * C, long_axes, 2 * C), expected);
}

/* ---- a turned space ----------------------------------------------------------------------- */

/* Reflected at the plane across (1, 2, .., C). */
static void reflect(qkv_real *row)
{
    double dot = 0, square = 0;
    for (size_t c = 0; c < C; c++) {
        dot += (double)(c + 1) * (double)row[c];
        square += (double)((c + 1) * (c + 1));
    }
    for (size_t c = 0; c < C; c++)
        row[c] -= (qkv_real)(2 * dot / square * (double)(c + 1));
}

static void first_turned(qkv_real *row, size_t i)
{
    first_row(row, i);
    reflect(row);
}

static void second_turned(qkv_real *row, size_t i)
{
    second_row(row, i);
    reflect(row);
}

static void test_turned(void **state)
{
    (void)state;
    expect(distance(first_turned, ROWS, second_turned, 30), all_rows);
    assert_true(distance(first_row, ROWS, first_turned, ROWS) > 0.1);
}

/* ---- what cannot be ----------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    qkv_frechet *f;
    qkv_real rows[3 * C] = {0};
    double out;
    assert_int_equal(qkv_frechet_create(&f, ctx, 0), QKV_E_ARGUMENT);
    assert_int_equal(qkv_frechet_create(&f, ctx, 4097), QKV_E_ARGUMENT);
    assert_null(f);
    assert_int_equal(qkv_frechet_create(&f, ctx, C), QKV_OK);
    qkv_frechet_add(f, false, rows, 3);
    qkv_frechet_add(f, true, rows, 1);
    assert_int_equal(qkv_frechet_distance(f, &out), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "of 3 rows and 1"));
    qkv_frechet_add(f, true, rows, 1);
    assert_int_equal(qkv_frechet_distance(f, &out), QKV_OK);
    assert_true(out == 0);
    rows[C - 1] = NAN;
    qkv_frechet_add(f, true, rows, 1);
    assert_int_equal(qkv_frechet_distance(f, &out), QKV_E_NUMERIC);
    assert_true(isnan(out));
    qkv_frechet_destroy(f);
    for (size_t n = 0; n < 7; n++) {
        memory.left = n;
        assert_int_equal(qkv_frechet_create(&f, ctx, C), QKV_E_MEMORY);
        assert_null(f);
    }
    memory.left = SIZE_MAX;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numpy), cmocka_unit_test(test_axes), cmocka_unit_test(test_turned),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
