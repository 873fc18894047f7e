/* test_series.c - encoders of series: interpolation, what an untrained filler does, that a series
 * is read alone and beside others alike, that hidden values are not read, filling of long and short
 * series, files with gaps, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fixture.h"
#include "qkv/csv.h"
#include "qkv/infer.h"
#include "qkv/task.h"

enum { N = 12, PATCH = 3, C = 2, ROWS = 50, CLASSES = 3 };
static qkv_real rows[ROWS * C];
static const qkv_series series = {rows, ROWS, C};

static void check(qkv_status status)
{
    if (status)
        fail_msg("%s", qkv_context_message(ctx));
}

static void make_rows(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        rows[C * i] = (qkv_real)(100 + 10 * sin(0.5 * (double)i));
        rows[C * i + 1] = (qkv_real)(cos(0.7 * (double)i) - 3);
    }
}

/* random: not a single parameter is zero. */
static qkv_model *made(const qkv_model_type *type, bool random)
{
    qkv_model *m;
    qkv_series_config c;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.columns = C;
    c.rows = N;
    c.patch = PATCH;
    c.width = 16;
    c.heads = 2;
    c.classes = CLASSES;
    c.mask_span = 3;
    make_rows();
    check(qkv_model_create(&m, ctx, type, &c));
    check(qkv_model_init(m, 7));
    check(qkv_series_fit_scale(m, &series));
    qkv_params *ps = qkv_model_params(m);
    for (size_t i = 0; i < qkv_params_count(ps) && random; i++) {
        qkv_param *p = qkv_params_at(ps, i);
        for (size_t j = 0; j < qkv_param_count(p) && !qkv_param_frozen(p); j++)
            qkv_param_data(p)[j] += (qkv_real)(0.2 * sin((double)(7 * i + 3 * j)));
        qkv_param_touch(p);
    }
    return m;
}

static void near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%.9g, expected %.9g", found, expected);
}

/* ---- interpolation --------------------------------------------------------------------------- */

static void lines_between_neighbours(void **state)
{
    (void)state;
    const qkv_real none = (qkv_real)NAN;
    qkv_real x[] = {none, 2, none, none, 5, 1, none, none, none};
    static const double wanted[] = {2, 2, 3, 4, 5, 1, 1, 1, 1};
    qkv_series_interpolate(x, 9, 1, 7);
    for (size_t i = 0; i < 9; i++)
        near((double)x[i], wanted[i], 1e-6);
    qkv_real pairs[] = {1, none, none, none, 3, none};
    qkv_series_interpolate(pairs, 3, 2, 7);
    qkv_series_interpolate(pairs + 1, 3, 2, 7);
    near((double)pairs[2], 2, 0);
    for (size_t i = 1; i < 6; i += 2)
        near((double)pairs[i], 7, 0);
}

/* Scale is that of the values that are there. */
static void scale_without_gaps(void **state)
{
    (void)state;
    qkv_model *m = made(qkv_series_filler_type(), false);
    qkv_real x[4 * C] = {1, (qkv_real)NAN, 3, (qkv_real)NAN, (qkv_real)NAN, (qkv_real)NAN, 5, 4};
    check(qkv_series_fit_scale(m, &(qkv_series){x, 4, C}));
    near((double)qkv_series_mean(m)[0], 3, 1e-6);
    near((double)qkv_series_std(m)[0], sqrt(8.0 / 3), 1e-6);
    near((double)qkv_series_mean(m)[1], 4, 1e-6);
    near((double)qkv_series_std(m)[1], 1, 0);
    assert_int_equal(qkv_series_fit_scale(m, &(qkv_series){x, 4, 1}), QKV_E_SHAPE);
    qkv_model_destroy(m);
}

/* ---- fillers --------------------------------------------------------------------------------- */

static void untrained_interpolates(void **state)
{
    (void)state;
    qkv_model *m = made(qkv_series_filler_type(), false);
    qkv_real gapped[ROWS * C], line[ROWS * C], y[ROWS * C];
    memcpy(gapped, rows, sizeof gapped);
    for (size_t i = 0; i < ROWS * C; i++)
        if (i * 7 % 5 < 2)
            gapped[i] = (qkv_real)NAN;
    memcpy(line, gapped, sizeof line);
    for (size_t j = 0; j < C; j++)
        qkv_series_interpolate(line + j, ROWS, C, 0);
    check(qkv_fill_series(m, &(qkv_series){gapped, ROWS, C}, y));
    for (size_t i = 0; i < ROWS * C; i++)
        near((double)y[i], (double)line[i], isfinite(gapped[i]) ? 0 : 1e-4);
    qkv_model_destroy(m);
}

/* Known values stay, to the bit; what fills a gap depends on no row that its windows have not. */
static void long_and_short(void **state)
{
    (void)state;
    qkv_model *m = made(qkv_series_filler_type(), true);
    qkv_real gapped[ROWS * C], y[ROWS * C], z[ROWS * C];
    for (size_t length = 1; length <= ROWS; length += 7) {
        memcpy(gapped, rows, sizeof gapped);
        gapped[length / 2 * C] = (qkv_real)NAN;
        check(qkv_fill_series(m, &(qkv_series){gapped, length, C}, y));
        for (size_t i = 0; i < length * C; i++)
            assert_true(i == length / 2 * C ? isfinite(y[i]) : y[i] == gapped[i]);
    }
    gapped[(ROWS - 1) * C] += 50;
    check(qkv_fill_series(m, &(qkv_series){gapped, ROWS, C}, z));
    assert_true(y[25 * C] == z[25 * C]);
    gapped[24 * C] += 50;
    check(qkv_fill_series(m, &(qkv_series){gapped, ROWS, C}, z));
    assert_true(y[25 * C] != z[25 * C]);
    assert_int_equal(qkv_fill_series(m, &(qkv_series){gapped, ROWS, 1}, z), QKV_E_ARGUMENT);
    qkv_model_destroy(m);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A series beside others, whatever their lengths, gives what it gives alone. */
static void alone_and_packed(void **state)
{
    (void)state;
    enum { B = 4 };
    static const size_t lengths[B] = {N, 5, 1, 9};
    const qkv_real *data[B] = {rows, rows + 3 * C, rows + 20 * C, rows + 30 * C};
    qkv_model *m = made(qkv_series_classifier_type(), true);
    qkv_tape *t;
    qkv_real kept[B * CLASSES];
    check(qkv_tape_create(&t, ctx));
    qkv_tape_mode(t, false, false);
    const qkv_series_batch all = {.data = data, .lengths = lengths, .count = B};
    const qkv_real *y = qkv_data(t, qkv_series_class_logits(m, t, &all));
    assert_non_null(y);
    memcpy(kept, y, sizeof kept);
    for (size_t i = 0; i < B; i++) {
        qkv_tape_reset(t);
        const qkv_series_batch one = {.data = data + i, .lengths = lengths + i, .count = 1};
        y = qkv_data(t, qkv_series_class_logits(m, t, &one));
        assert_non_null(y);
        for (size_t k = 0; k < CLASSES; k++)
            near((double)kept[i * CLASSES + k], (double)y[k], 1e-5);
    }
    qkv_tape_reset(t);
    const size_t long_ = N + 1;
    const qkv_series_batch refused = {.data = data, .lengths = &long_, .count = 1};
    assert_null(qkv_series_hidden(m, t, &refused));
    assert_non_null(strstr(qkv_context_message(ctx), "a series of 13 rows"));
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
}

/* ---- the task -------------------------------------------------------------------------------- */

static double loss_of(const qkv_task *task, qkv_tape *t, uint64_t step)
{
    const qkv_micro_batch part = {.step = step, .count = 4, .total = 4};
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    qkv_tensor *y = task->type->loss(task->self, t, &part);
    assert_non_null(y);
    return (double)qkv_item(t, y);
}

/* An untrained filler's error is that of the lines; values that are missing in the data are neither
 * asked for nor read. */
static void baselines(void **state)
{
    (void)state;
    qkv_model *m = made(qkv_series_filler_type(), false);
    qkv_tape *t;
    qkv_task task, other;
    qkv_fill_score s, gaps;
    qkv_real holes[ROWS * C];
    check(qkv_tape_create(&t, ctx));
    check(qkv_fill_evaluate(m, t, &series, 0, &s));
    near(s.mse, s.interpolation, 1e-4);
    near(s.ratio, 1, 1e-5);
    assert_true(s.last > s.interpolation && s.values > 20);
    assert_true(s.values < s.rows * C / 2); /* a quarter is hidden */
    memcpy(holes, rows, sizeof holes);
    for (size_t i = 0; i < ROWS; i++)
        holes[C * i] = i % 2 ? rows[C * i] : (qkv_real)NAN;
    check(qkv_fill_evaluate(m, t, &(qkv_series){holes, ROWS, C}, 0, &gaps));
    assert_true(gaps.values < s.values && isfinite(gaps.mse) && gaps.mse > 0);
    check(qkv_task_fill(&task, m, &(qkv_series){holes, ROWS, C}, NULL, 3));
    double with_holes = loss_of(&task, t, 5);
    assert_true(isfinite(with_holes) && with_holes > 0);
    qkv_task_destroy(&task);
    check(qkv_task_fill(&task, m, &series, NULL, 3));
    check(qkv_task_fill(&other, m, &series, NULL, 4));
    double first = loss_of(&task, t, 5);
    assert_true(first > 0 && first == loss_of(&task, t, 5));
    assert_true(first != loss_of(&task, t, 6) && first != loss_of(&other, t, 5));
    qkv_task_destroy(&task);
    qkv_task_destroy(&other);
    assert_int_equal(qkv_task_fill(&task, m, &(qkv_series){rows, N - 1, C}, NULL, 3),
                     QKV_E_ARGUMENT);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
}

/* A classifier's loss with smoothing is the sum of the terms that it reports. */
static void terms_of_a_smoothed_loss(void **state)
{
    (void)state;
    enum { COUNT = 2 };
    static const size_t start[] = {0, 7, N};
    static const int32_t labels[] = {2, 0};
    qkv_model *m = made(qkv_series_classifier_type(), true);
    const qkv_series_set set = {rows, start, labels, COUNT, C};
    qkv_task task;
    qkv_tape *t;
    qkv_terms terms = {.count = 0};
    check(qkv_task_classify_series(&task, m, &set, NULL, 0.1, 5));
    check(qkv_tape_create(&t, ctx));
    qkv_micro_batch part = {.count = COUNT, .total = COUNT, .terms = &terms};
    double loss = (double)qkv_item(t, task.type->loss(task.self, t, &part));
    check(qkv_tape_status(t));
    assert_int_equal(terms.count, 2);
    assert_string_equal(terms.item[0].name, "nll");
    assert_string_equal(terms.item[1].name, "smoothing");
    near(terms.item[0].value + terms.item[1].value, loss, 1e-5);
    qkv_tape_destroy(t);
    qkv_task_destroy(&task);
    qkv_model_destroy(m);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void files_with_gaps(void **state)
{
    (void)state;
    static const char table[] = "t,a,b\n1,2,\n2,NA,3.5\n3,nan,?\n", column[] = "a\n1\n\n\n4\n\n";
    static const char *const wanted[] = {"b", "a"};
    qkv_array x;
    put_file(in(folder, "gaps.csv"), table, sizeof table - 1);
    check(qkv_csv_load_gaps(&x, ctx, in(folder, "gaps.csv"), wanted, 2));
    assert_true(x.shape[0] == 3 && x.shape[1] == 2 && strcmp(x.names[1], "a") == 0);
    static const double expected[] = {NAN, 2, 3.5, NAN, NAN, NAN};
    for (size_t i = 0; i < 6; i++)
        assert_true(isnan(expected[i]) ? isnan(x.data[i]) : (double)x.data[i] == expected[i]);
    qkv_array_free(&x);
    assert_int_equal(qkv_csv_load_columns(&x, ctx, in(folder, "gaps.csv"), wanted, 2),
                     QKV_E_FORMAT);
    put_file(in(folder, "column.csv"), column, sizeof column - 1);
    check(qkv_csv_load_gaps(&x, ctx, in(folder, "column.csv"), NULL, 0));
    assert_true(x.shape[0] == 4 && x.shape[1] == 1 && isnan(x.data[1]) && isnan(x.data[2]) &&
                (double)x.data[3] == 4);
    qkv_array_free(&x);
    put_file(in(folder, "bad.csv"), "a,b\n1,two\n", 10);
    assert_int_equal(qkv_csv_load_gaps(&x, ctx, in(folder, "bad.csv"), NULL, 0), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "line 2, column 2 (b)"));
}

/* Names that separate, quote or comment come back as they were; values to seven digits. */
static void rows_as_text(void **state)
{
    (void)state;
    static const char table[] = "\"a,b\";\"say \"\"x\"\"\";# c;d\n1;-2.5;3e-7;NA\n";
    qkv_array x, y;
    qkv_str text;
    qkv_str_init(&text, ctx);
    put_file(in(folder, "names.csv"), table, sizeof table - 1);
    check(qkv_csv_load_gaps(&x, ctx, in(folder, "names.csv"), NULL, 0));
    qkv_csv_text(&text, &x);
    assert_string_equal(text.data, "\"a,b\",\"say \"\"x\"\"\",\"# c\",d\n1,-2.5,3e-07,nan\n");
    put_file(in(folder, "names.csv"), text.data, text.len);
    check(qkv_csv_load_gaps(&y, ctx, in(folder, "names.csv"), NULL, 0));
    for (size_t j = 0; j < 4; j++)
        assert_string_equal(y.names[j], x.names[j]);
    assert_memory_equal(y.data, x.data, 3 * sizeof *x.data);
    assert_true(isnan(y.data[3]));
    qkv_str_free(&text);
    qkv_array_free(&x);
    qkv_array_free(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_between_neighbours), cmocka_unit_test(scale_without_gaps),
        cmocka_unit_test(untrained_interpolates),   cmocka_unit_test(long_and_short),
        cmocka_unit_test(alone_and_packed),         cmocka_unit_test(baselines),
        cmocka_unit_test(terms_of_a_smoothed_loss), cmocka_unit_test(files_with_gaps),
        cmocka_unit_test(rows_as_text)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
