/* Forecasting: which windows are read, what normalisation does and undoes, naive forecasts, that
 * one batch is learnt by heart, rolling out, saving and loading, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "files.h"
#include "qkv/hub.h"
#include "qkv/infer.h"
#include "qkv/train.h"
#include "tokenizers.h"

enum { N = 12, H = 4, ROWS = 60, C = 2 };

static qkv_real rows[ROWS * C];
static const qkv_series series = {rows, ROWS, C};

/* Two waves, one with a trend, far from zero. */
static void make_rows(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        double x = (double)i;
        rows[C * i] = (qkv_real)(100 + 10 * sin(x) + x / 5);
        rows[C * i + 1] = (qkv_real)(-3 + cos(0.7 * x));
    }
}

static qkv_forecast_config config(void)
{
    qkv_forecast_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_forecast_type()), &c);
    c.columns = C;
    c.context = N;
    c.horizon = H;
    c.patch = 3;
    c.width = 16;
    c.heads = 2;
    c.dropout = 0;
    return c;
}

/* random: not a single parameter is zero. */
static qkv_model *make(const qkv_forecast_config *c, bool random)
{
    qkv_model *m;
    make_rows();
    check(qkv_model_create(&m, ctx, qkv_forecast_type(), c));
    check(qkv_model_init(m, 7));
    check(qkv_forecast_fit_scale(m, &(qkv_series){rows, ROWS, c->columns}));
    qkv_params *ps = qkv_model_params(m);
    for (size_t i = 0; i < qkv_params_count(ps) && random; i++) {
        qkv_param *p = qkv_params_at(ps, i);
        for (size_t j = 0; j < qkv_param_count(p) && !qkv_param_frozen(p); j++)
            qkv_param_data(p)[j] += (qkv_real)(0.1 * sin((double)(7 * i + 3 * j)));
        qkv_param_touch(p);
    }
    return m;
}

static void near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%.9g, expected %.9g", found, expected);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void test_windows(void **state)
{
    (void)state;
    enum { WINDOWS = ROWS - N - H + 1 };
    qkv_forecast_config c = config();
    bool differ = false, seeds_differ = false;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        bool seen[WINDOWS] = {false};
        for (uint64_t i = 0; i < WINDOWS; i++) {
            size_t at = qkv_forecast_window(&c, ROWS, 5, epoch * WINDOWS + i);
            assert_true(at < WINDOWS);
            assert_false(seen[at]);
            seen[at] = true;
            differ = differ || at != qkv_forecast_window(&c, ROWS, 5, i);
            seeds_differ = seeds_differ || at != qkv_forecast_window(&c, ROWS, 6,
                                                                     epoch * WINDOWS + i);
        }
    }
    assert_true(differ && seeds_differ);
    assert_int_equal(qkv_forecast_window(&c, N + H, 5, 9), 0);
}

/* ---- scale ----------------------------------------------------------------------------------- */

/* Before training the forecast is what numbers are measured from, in every row. */
static void test_first_forecast(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        qkv_forecast_config c = config();
        c.normalization = (qkv_normalization)kind;
        c.decoder_layers = kind == 1;
        qkv_model *m = make(&c, false);
        qkv_real y[H * C];
        check(qkv_forecast(m, &series, H, y));
        for (size_t j = 0; j < C; j++) {
            double all = 0, window = 0;
            for (size_t i = 0; i < ROWS; i++) {
                all += (double)rows[i * C + j] / ROWS;
                window += i >= ROWS - N ? (double)rows[i * C + j] / N : 0;
            }
            near((double)qkv_forecast_mean(m)[j], all, 1e-4);
            for (size_t i = 0; i < H; i++)
                near((double)y[i * C + j],
                     kind == 0 ? all : kind == 1 ? window : (double)rows[(ROWS - 1) * C + j], 1e-4);
        }
        qkv_model_destroy(m);
    }
}

/* Seen from its own mean, a window that is moved and stretched has a forecast that is, too; seen
 * from its end, one that is moved has. */
static void test_undone(void **state)
{
    (void)state;
    for (int kind = 1; kind < 3; kind++) {
        qkv_forecast_config c = config();
        c.normalization = (qkv_normalization)kind;
        qkv_model *m = make(&c, true);
        double stretch = kind == 1 ? 2.5 : 1;
        qkv_real other[N * C], y[H * C], z[H * C];
        qkv_series last = {rows + (ROWS - N) * C, N, C}, moved = {other, N, C};
        for (size_t i = 0; i < N * C; i++)
            other[i] = (qkv_real)(stretch * (double)last.data[i] + 40);
        check(qkv_forecast(m, &last, H, y));
        check(qkv_forecast(m, &moved, H, z));
        bool level = true;
        for (size_t i = 0; i < H * C; i++) {
            near((double)z[i], stretch * (double)y[i] + 40, 2e-3);
            level = level && fabs((double)y[i] - (double)y[i % C]) < 1e-3;
        }
        assert_false(level);
        qkv_model_destroy(m);
    }
}

/* ---- evaluating ------------------------------------------------------------------------------ */

static void test_season(void **state)
{
    (void)state;
    qkv_forecast_config c = config();
    qkv_real x[120];
    size_t season;
    for (size_t i = 0; i < 120; i++)
        x[i] = (qkv_real)((i % 7 == 2 ? 5 : 0) + 0.01 * sin(3.0 * (double)i));
    c.columns = 1;
    c.horizon = 10;
    check(qkv_forecast_find_season(&season, ctx, &c, &(qkv_series){x, 120, 1}));
    assert_int_equal(season % 7, 0);
    for (size_t i = 0; i < 120; i++) /* slow: rows beside each other are most alike */
        x[i] = (qkv_real)sin(2 * 3.14159265 * (double)i / 30);
    check(qkv_forecast_find_season(&season, ctx, &c, &(qkv_series){x, 120, 1}));
    assert_int_equal(season, 30);
    check(qkv_forecast_find_season(&season, ctx, &c, &(qkv_series){x, 12, 1}));
    assert_int_equal(season, 1);
}

/* All errors of an untrained model, which forecasts the mean, counted again. */
static void count_errors(qkv_model *m, size_t season, qkv_forecast_score *sum)
{
    double mean = (double)qkv_forecast_mean(m)[0], d = (double)qkv_forecast_std(m)[0];
    size_t lead = season > N ? season : N;
    *sum = (qkv_forecast_score){.windows = ROWS - lead - H + 1};
    double n = (double)(H * sum->windows);
    for (size_t at = lead; at + H <= ROWS; at++)
        for (size_t h = 0; h < H; h++) {
            double y = (double)rows[(at + h) * C];
            size_t before = at + h - season;
            while (before >= at)
                before -= season;
            sum->mse += (y - mean) * (y - mean) / n;
            sum->mae += fabs(y - mean) / n;
            sum->persistence += pow(y - (double)rows[(at - 1) * C], 2) / n;
            sum->seasonal += pow(y - (double)rows[before * C], 2) / n;
        }
    sum->loss = sum->mse / (d * d);
    sum->ratio = sum->mse / fmin(sum->persistence, sum->seasonal);
}

static void test_errors(void **state)
{
    (void)state;
    static const size_t seasons[] = {3, 14}; /* shorter than the horizon, longer than the context */
    for (size_t i = 0; i < 2; i++) {
        qkv_forecast_config c = config();
        qkv_forecast_score s, expected;
        qkv_tape *t;
        c.season = seasons[i];
        c.targets = 1;
        qkv_model *m = make(&c, false);
        count_errors(m, c.season, &expected);
        check(qkv_tape_create(&t, ctx));
        check(qkv_forecast_evaluate(m, t, &series, 0, &s));
        assert_int_equal(s.windows, expected.windows);
        near(s.mse, expected.mse, 1e-3);
        near(s.loss, expected.loss, 1e-5);
        near(s.mae, expected.mae, 1e-4);
        near(s.persistence, expected.persistence, 1e-3);
        near(s.seasonal, expected.seasonal, 1e-3);
        near(s.ratio, expected.ratio, 1e-4);
        check(qkv_forecast_evaluate(m, t, &series, 3 * H, &s));
        assert_int_equal(s.windows, 3);
        check(qkv_forecast_evaluate(m, t, &(qkv_series){rows, N + H, C}, 0, &s));
        assert_int_equal(s.windows, 1);
        assert_int_equal(isinf(s.seasonal) != 0, c.season > N); /* too few rows for the season */
        qkv_tape_destroy(t);
        qkv_model_destroy(m);
    }
}

/* ---- learning -------------------------------------------------------------------------------- */

static void learn(qkv_forecast_config *c)
{
    qkv_task task;
    qkv_train_result r;
    qkv_train_options o = qkv_train_defaults();
    qkv_optimizer_options optimizer;
    qkv_schedule schedule;
    qkv_option_defaults(qkv_optimizer_table(), &optimizer);
    qkv_option_defaults(qkv_schedule_table(), &schedule);
    optimizer.weight_decay = 0;
    schedule.lr = 3e-3;
    schedule.warmup = 20;
    o.steps = 400;
    o.batch = 4;
    o.accumulation_steps = 2;
    qkv_model *m = make(c, false);
    qkv_series four = {rows, N + H + 3, C}; /* the same four windows in every batch */
    check(qkv_task_forecast(&task, m, &four, &four, 1));
    check(qkv_train(&task, &o, &optimizer, &schedule, NULL, false, NULL, NULL, &r));
    if (!(r.metrics.item[0].value < 1e-3))
        fail_msg("loss %g after learning four windows by heart", r.metrics.item[0].value);
    qkv_task_destroy(&task);
    qkv_model_destroy(m);
}

static void test_by_heart(void **state)
{
    (void)state;
    qkv_forecast_config c = config();
    c.linear = false;
    learn(&c);
    c.decoder_layers = 2;
    c.normalization = QKV_NORMALIZE_LAST;
    c.position_kind = QKV_POSITIONS_SINUSOID;
    learn(&c);
}

/* A batch in parts has the loss of the batch. */
static void test_parts(void **state)
{
    (void)state;
    qkv_forecast_config c = config();
    qkv_task task;
    qkv_tape *t;
    qkv_model *m = make(&c, true);
    check(qkv_tape_create(&t, ctx));
    check(qkv_task_forecast(&task, m, &series, NULL, 1));
    assert_false(task.held_out);
    double all = 0, sum = 0;
    for (size_t i = 0; i < 3; i++) {
        const size_t first[] = {0, 0, 3}, count[] = {8, 3, 5};
        qkv_micro_batch part = {.step = 2, .first = first[i], .count = count[i], .total = 8};
        qkv_tape_reset(t);
        double value = (double)qkv_item(t, task.type->loss(task.self, t, &part));
        all += i == 0 ? value : 0;
        sum += i ? value : 0;
    }
    near(sum, all, 1e-5 * all);
    qkv_task_destroy(&task);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
}

/* ---- at work --------------------------------------------------------------------------------- */

/* Rolled out, the second horizon is forecast from the first one's forecast. */
static void test_rolled_out(void **state)
{
    (void)state;
    qkv_forecast_config c = config();
    qkv_model *m = make(&c, true);
    qkv_real y[2 * H * C], first[H * C], second[H * C], longer[(ROWS + H) * C];
    check(qkv_forecast(m, &series, 2 * H - 1, y));
    check(qkv_forecast(m, &series, H, first));
    memcpy(longer, rows, sizeof rows);
    memcpy(longer + ROWS * C, first, sizeof first);
    check(qkv_forecast(m, &(qkv_series){longer, ROWS + H, C}, H - 1, second));
    assert_memory_equal(y, first, sizeof first);
    assert_memory_equal(y + H * C, second, (H - 1) * C * sizeof *y);
    qkv_model_destroy(m);
}

/* A causal decoder: what it rolls out with caches is what it gives when it reads all of that at
 * once, for every form of the window; row i hangs on true rows before its token alone. */
static void test_causal(void **state)
{
    (void)state;
    const qkv_real *windows[] = {rows, rows + 7 * C};
    qkv_tape *tape;
    check(qkv_tape_create(&tape, ctx));
    enum { B = 2, HORIZON = 8, PATCH = 3 };
    for (int kind = 0; kind < 3; kind++) {
        qkv_forecast_config c = config();
        c.causal = true;
        c.decoder_layers = 2;
        c.horizon = HORIZON; /* no multiple of the patch */
        c.targets = kind == 1 ? 1 : C;
        c.linear = kind != 2;
        c.normalization = (qkv_normalization)kind;
        qkv_model *m = make(&c, true);
        size_t K = c.targets, n = B * HORIZON * K, shape[] = {B, HORIZON, K};
        qkv_real rolled[B * HORIZON * C], whole[B * HORIZON * C];
        qkv_tape_reset(tape);
        qkv_tape_mode(tape, false, false);
        const qkv_real *y = qkv_data(tape, qkv_forecast_forward(m, tape, windows, B));
        assert_non_null(y);
        memcpy(rolled, y, n * sizeof *y);
        y = qkv_data(tape, qkv_forecast_forced(m, tape, windows,
                                               qkv_tensor_from(tape, rolled, 3, shape), B));
        assert_non_null(y);
        memcpy(whole, y, n * sizeof *y);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs((double)(whole[i] - rolled[i])) < 2e-5);
        for (size_t row = 0; row < HORIZON; row++) { /* another value in one row of both */
            qkv_real other[B * HORIZON * C];
            bool differs = false;
            memcpy(other, rolled, n * sizeof *y);
            for (size_t b = 0; b < B; b++)
                other[(b * HORIZON + row) * K] += 3;
            y = qkv_data(tape, qkv_forecast_forced(m, tape, windows,
                                                   qkv_tensor_from(tape, other, 3, shape), B));
            for (size_t i = 0; i < n; i++)
                if (i / K % HORIZON / PATCH <= row / PATCH)
                    assert_true(y[i] == whole[i]);
                else
                    differs = differs || y[i] != whole[i];
            assert_true(differs == (row / PATCH + 1 < (HORIZON + PATCH - 1) / PATCH));
        }
        qkv_model_destroy(m);
    }
    qkv_tape_destroy(tape);
}

static void test_causal_refused(void **state)
{
    (void)state;
    qkv_forecast_config c = config();
    qkv_model *m;
    const qkv_real *windows[] = {rows};
    qkv_tape *tape;
    check(qkv_tape_create(&tape, ctx));
    c.causal = true;
    assert_int_equal(qkv_model_create(&m, ctx, qkv_forecast_type(), &c), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "decoder_layers is 0"));
    c.decoder_layers = 1;
    m = make(&c, true);
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, true, true);
    assert_null(qkv_forecast_forward(m, tape, windows, 1));
    assert_non_null(strstr(qkv_context_message(ctx), "qkv_forecast_forced"));
    qkv_model_destroy(m);
    qkv_tape_destroy(tape);
}

static void test_saved(void **state)
{
    (void)state;
    char folder[PATH_BYTES];
    make_folder(folder);
    for (size_t decoder = 0; decoder < 2; decoder++) {
        qkv_forecast_config c = config();
        c.decoder_layers = decoder;
        c.linear = !decoder;
        c.position_kind = decoder ? QKV_POSITIONS_SINUSOID : QKV_POSITIONS_LEARNED;
        c.season = 13;
        qkv_model *m = make(&c, true), *again;
        qkv_real y[H * C], z[H * C];
        check(qkv_hub_save(m, folder, NULL));
        check(qkv_hub_load(&again, ctx, folder));
        assert_ptr_equal(qkv_model_type_of(again), qkv_forecast_type());
        assert_int_equal(((const qkv_forecast_config *)qkv_model_config(again))->season, 13);
        check(qkv_forecast(m, &series, H, y));
        check(qkv_forecast(again, &series, H, z));
        assert_memory_equal(y, z, sizeof y);
        qkv_model_destroy(m);
        qkv_model_destroy(again);
    }
    remove_folder(folder);
}

/* A saved model's config.json with one field changed. */
static void test_configurations(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"patch_length\": 3", "\"patch_length\": 5", "config.json: qkv_forecast: a context"},
        {"\"patch_length\": 3", "\"patch_length\": 0", "\"patch_length\""},
        {"\"patch_length\": 3", "\"patch_length\": 16777216", "describes a model of"},
        {"\"input_size\": 2", "\"input_size\": 16777216", "describes a model of"},
        {"\"input_size\": 2", "\"input_size\": 3", "series.mean"},
        {"\"prediction_length\": 4", "\"prediction_length\": 16777216", "describes a model of"},
        {"\"prediction_length\": 4", "\"prediction_length\": 3", "head."},
        {"\"context_length\": 12", "\"context_length\": 16777215", "describes a model of"},
        {"\"target_size\": 2", "\"target_size\": 3", "3 of 2 columns cannot be forecast"},
        {"\"d_model\": 16", "\"d_model\": 16777216", "describes a model of"},
        {"\"num_attention_heads\": 2", "\"num_attention_heads\": 3", "the heads (3)"},
        {"\"normalize\": \"series\"", "\"normalize\": \"magic\"", "\"normalize\""},
        {"\"loss\": \"mse\"", "\"loss\": 3", "\"loss\""},
    };
    char folder[PATH_BYTES], text[4000];
    qkv_forecast_config c = config();
    c.linear = false;
    qkv_model *m = make(&c, true), *again;
    make_folder(folder);
    check(qkv_hub_save(m, folder, NULL));
    size_t size;
    char *good = take_file(in(folder, "config.json"), &size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(good, cases[i].from);
        if (!at)
            fail_msg("no %s in %s", cases[i].from, good);
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, cases[i].to,
                       at + strlen(cases[i].from));
        put_file(in(folder, "config.json"), text, strlen(text));
        assert_int_not_equal(qkv_hub_load(&again, ctx, folder), QKV_OK);
        assert_null(again);
        expect_message(cases[i].says);
        expect_message(folder);
    }
    free(good);
    remove_folder(folder);
    qkv_model_destroy(m);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_forecast_config c = config();
    qkv_task task;
    qkv_real y[2 * H * C];
    qkv_model *m = make(&c, false), *none;
    qkv_series few = {rows, N - 1, C}, three = {rows, ROWS / 2, 3};
    assert_int_equal(qkv_forecast(m, &few, H, y), QKV_E_ARGUMENT);
    expect_message("from 12 rows, the history has only 11");
    assert_int_equal(qkv_forecast(m, &three, H, y), QKV_E_ARGUMENT);
    expect_message("rows of 2 numbers expected, found 3");
    assert_int_equal(qkv_task_forecast(&task, m, &few, NULL, 1), QKV_E_ARGUMENT);
    expect_message("the training series has 11 rows; at least 16");
    assert_int_equal(qkv_task_forecast(&task, m, &series, &few, 1), QKV_E_ARGUMENT);
    expect_message("the held-out series has 11 rows");
    assert_int_equal(qkv_forecast_fit_scale(m, &three), QKV_E_SHAPE);
    qkv_model_destroy(m);
    c.targets = 1;
    m = make(&c, false);
    assert_int_equal(qkv_forecast(m, &series, H + 1, y), QKV_E_ARGUMENT);
    expect_message("forecasts 4 rows, not 5");
    qkv_model_destroy(m);
    c.patch = 5;
    assert_int_equal(qkv_model_create(&none, ctx, qkv_forecast_type(), &c), QKV_E_ARGUMENT);
    expect_message("12 rows cannot be cut into patches of 5");
    c = config();
    c.targets = C + 1;
    assert_int_equal(qkv_model_create(&none, ctx, qkv_forecast_type(), &c), QKV_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),  cmocka_unit_test(test_first_forecast),
        cmocka_unit_test(test_undone),   cmocka_unit_test(test_season),
        cmocka_unit_test(test_errors),   cmocka_unit_test(test_by_heart),
        cmocka_unit_test(test_parts),    cmocka_unit_test(test_rolled_out),
        cmocka_unit_test(test_causal), cmocka_unit_test(test_causal_refused),
        cmocka_unit_test(test_saved),    cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
