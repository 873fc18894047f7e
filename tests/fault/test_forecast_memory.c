/* test_forecast_memory.c - the n-th allocation fails, for every n, while a CSV file becomes a
 * series, a forecaster is made, trains, is evaluated and forecasts: each time a clean error or the
 * right answer, and all memory comes back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "failing.h"
#include "files.h"
#include "qkv/npy.h"
#include "qkv/infer.h"
#include "qkv/task.h"

enum { ROWS = 24, N = 4, H = 3, LONG = 5 };
static char folder[PATH_BYTES], path[PATH_BYTES + 16];
static const char *const columns[] = {"b", "1"};

typedef struct {
    qkv_context *ctx;
    qkv_array rows;
    qkv_model *model;
    qkv_task task;
    qkv_tape *tape;
} fixture;

static qkv_status make(fixture *f, bool decoder)
{
    qkv_forecast_config c = {.columns = 2, .context = N, .horizon = H, .patch = 2, .width = 8,
                             .layers = 1, .heads = 2, .decoder_layers = decoder, .dropout = 0.1,
                             .normalization = QKV_NORMALIZE_WINDOW, .linear = !decoder};
    qkv_status status = qkv_csv_load_columns(&f->rows, f->ctx, path, columns, 2);
    qkv_series series = {f->rows.data, ROWS, 2};
    if (!status)
        status = qkv_forecast_find_season(&c.season, f->ctx, &c, &series);
    if (!status)
        status = qkv_model_create(&f->model, f->ctx, qkv_forecast_type(), &c);
    if (!status)
        status = qkv_model_init(f->model, 1);
    if (!status)
        status = qkv_model_set_labels(f->model, (const char *const *)f->rows.names, 2);
    if (!status)
        status = qkv_forecast_fit_scale(f->model, &series);
    if (!status)
        status = qkv_task_forecast(&f->task, f->model, &series, &series, 1);
    return status ? status : qkv_tape_create(&f->tape, f->ctx);
}

static bool train(fixture *f)
{
    for (uint64_t i = 0; i < 4; i++) {
        const qkv_micro_batch some = {i / 2, 0, i % 2, 1, 2, NULL};
        qkv_tape_reset(f->tape);
        qkv_tape_mode(f->tape, true, true);
        qkv_params_zero_grad(qkv_model_params(f->model));
        qkv_tensor *y = f->task.type->loss(f->task.self, f->tape, &some);
        if (!y || qkv_backward(f->tape, y))
            return false;
    }
    return true;
}

/* True when all went well; y: what is forecast. */
static bool run(failing *memory, bool decoder, qkv_real *y)
{
    const qkv_context_options o = failing_options(memory);
    fixture f = {0};
    qkv_metrics m;
    if (qkv_context_create(&f.ctx, &o))
        return false;
    bool ok = !make(&f, decoder) && train(&f) &&
              !f.task.type->evaluate(f.task.self, f.tape, 0, &m) &&
              !qkv_forecast(f.model, &(qkv_series){f.rows.data, ROWS, 2}, LONG, y);
    if (!ok) {
        assert_int_equal(qkv_context_status(f.ctx), QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(f.ctx)) > 0);
    }
    qkv_task_destroy(&f.task);
    qkv_tape_destroy(f.tape);
    qkv_model_destroy(f.model);
    qkv_array_free(&f.rows);
    qkv_context_destroy(f.ctx);
    return ok;
}

static void test_every_allocation(void **state)
{
    (void)state;
    for (int decoder = 0; decoder < 2; decoder++)
        for (int once = 0; once < 2; once++) {
            qkv_real expected[2 * LONG], y[2 * LONG];
            failing memory = {.left = SIZE_MAX};
            assert_true(run(&memory, decoder, expected));
            size_t n = 0;
            for (bool done = false; !done; n++) {
                memory = (failing){.left = n, .once = once != 0};
                bool ok = run(&memory, decoder, y);
                assert_int_equal(memory.live, 0);
                done = ok && memory.left > 0 && memory.left < SIZE_MAX / 2;
                if (ok)
                    assert_memory_equal(y, expected, sizeof y);
                assert_true(n < 2000);
            }
            assert_true(n > 30);
        }
}

static int make_file(void **state)
{
    (void)state;
    char text[ROWS * 16 + 16] = "a,b\n";
    make_folder(folder);
    snprintf(path, sizeof path, "%s/rows.csv", folder);
    for (int i = 0; i < ROWS; i++)
        snprintf(text + strlen(text), 16, "%d,%d\n", i * 7 % 10, i * 3 % 8);
    put_file(path, text, strlen(text));
    return 0;
}

static int drop_file(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
