/* test_patch_series.c - activation patching of encoders of series, whose passes pack sequences:
 * each value is what a whole pass gives in which a probe replaces that one activation. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "patched.h"
#include "pipelines_text.h"
#include "qkv/pipeline_look.h"
#include "qkv/series.h"

enum { LAYERS = 2, WIDTH = 16, COLUMNS = 2, PATCH = 2, CONTEXT = 12, ROWS = 9, TOKENS = 5 };
enum { GAP = 3 };

static qkv_tape *tape;

static int set_up_series(void **state)
{
    return set_up(state) || qkv_tape_create(&tape, ctx);
}

static int tear_down_series(void **state)
{
    qkv_tape_destroy(tape);
    return tear_down(state);
}

/* Two series of ROWS rows, of whose column 1 row GAP is missing. */
static qkv_real values[2][ROWS * COLUMNS];
static qkv_array rows_of(size_t which)
{
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        values[which][i] = (qkv_real)sin((double)i * (which ? 1.3 : 0.7) + (double)which);
    values[which][GAP * COLUMNS + 1] = NAN;
    return (qkv_array){.ctx = ctx, .ndim = 2, .shape = {ROWS, COLUMNS}, .count = ROWS * COLUMNS,
                       .data = values[which]};
}

static qkv_pipeline *make_encoder(bool filler)
{
    const qkv_model_type *type = filler ? qkv_series_filler_type() : qkv_series_classifier_type();
    qkv_series_config c;
    qkv_model *m;
    qkv_pipeline *p;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.columns = COLUMNS;
    c.rows = CONTEXT;
    c.patch = PATCH;
    c.width = WIDTH;
    c.layers = c.heads = 2;
    c.init_range = 0.5;
    c.classes = filler ? 0 : 2;
    assert_int_equal(qkv_model_create(&m, ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 5), QKV_OK);
    for (size_t i = 0; i < qkv_params_count(qkv_model_params(m)); i++) { /* heads begin as 0 */
        qkv_param *x = qkv_params_at(qkv_model_params(m), i);
        for (size_t k = 0; strstr(qkv_param_name(x), "head") && k < qkv_param_count(x); k++)
            qkv_param_data(x)[k] = (qkv_real)cos((double)k);
        qkv_param_touch(x);
    }
    if (!filler)
        assert_int_equal(qkv_model_set_labels(m, (const char *const[]){"x", "y"}, 2), QKV_OK);
    assert_int_equal(qkv_hub_save(m, in(folder, "m"), NULL), QKV_OK);
    qkv_model_destroy(m);
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "m")), QKV_OK);
    return p;
}

/* A filler's value in the gap; a classifier's log-probability of "y". */
static double whole_pass(qkv_pipeline *p, bool filler, size_t which, const char *place,
                         one_place *o)
{
    qkv_model *m = qkv_pipeline_model(p);
    const qkv_real *window = values[which];
    const size_t length = ROWS;
    const qkv_series_batch in_ = {.data = &window, .lengths = &length, .count = 1};
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, false, false);
    assert_int_equal(qkv_probe_add(tape, place, replace_one, o), QKV_OK);
    qkv_tensor *y = filler ? qkv_series_fill(m, tape, &in_)
                           : qkv_softmax(tape, qkv_series_class_logits(m, tape, &in_));
    const qkv_real *data = qkv_data(tape, y);
    if (!data)
        fail_msg("%s", qkv_context_message(ctx));
    qkv_probes_clear(tape);
    return filler ? (double)(data[GAP * COLUMNS + 1] * qkv_series_std(m)[1] + qkv_series_mean(m)[1])
                  : log((double)data[1]);
}

static void check_grid(bool filler, const char *place, bool by_head)
{
    static one_place o;
    qkv_pipeline *p = make_encoder(filler);
    const qkv_array rows[] = {rows_of(0), rows_of(1)};
    const qkv_look_input clean = {.rows = &rows[0]}, corrupt = {.rows = &rows[1]};
    qkv_pipeline_patch_options options = qkv_pipeline_patch_defaults();
    qkv_patch found;
    double moved = 0;
    options.answer = filler ? "column 1" : "y";
    options.place = place;
    options.heads = by_head;
    if (qkv_pipeline_patch(p, &clean, &corrupt, &options, &found))
        fail_msg("%s", qkv_context_message(ctx));
    const qkv_patch_grid *g = &found.grids[0];
    assert_string_equal(found.where, filler ? "row 3" : "the output"); /* where there is a gap */
    assert_true(g->layers == LAYERS && g->positions == (by_head ? 2 : TOKENS));
    for (size_t layer = 0; layer < LAYERS; layer++) {
        char name[64];
        (void)snprintf(name, sizeof name, "encoder.%zu.%s", layer, place);
        o.replace = false;
        assert_true(fabs(whole_pass(p, filler, 0, name, &o) - found.clean) < 1e-4);
        o.replace = true;
        o.stride = WIDTH;
        o.count = by_head ? WIDTH / 2 : WIDTH;
        o.times = by_head ? TOKENS : 1;
        for (size_t i = 0; i < g->positions; i++) {
            o.from = i * o.count;
            double value = g->values[layer * g->positions + i];
            assert_true(fabs(whole_pass(p, filler, 1, name, &o) - value) < 1e-4);
            moved = fmax(moved, fabs(value - found.corrupt));
        }
    }
    assert_true(moved > 1e-3);
    assert_int_equal(qkv_patch_page(&found, NULL, in(folder, "page.html")), QKV_OK);
    qkv_patch_free(&found);
    qkv_pipeline_close(p);
    remove_folder(in(folder, "m"));
}

static void every_series(void **state)
{
    (void)state;
    for (int filler = 0; filler < 2; filler++) {
        check_grid(filler, "resid_pre", false);
        check_grid(filler, "ff.out", false);
        check_grid(filler, "attn.z", true);
    }
}

static void memory_gives_out(void **state)
{
    (void)state;
    for (int filler = 0; filler < 2; filler++) {
        qkv_pipeline *p = make_encoder(filler);
        const qkv_array rows[] = {rows_of(0), rows_of(1)};
        const qkv_look_input clean = {.rows = &rows[0]}, corrupt = {.rows = &rows[1]};
        size_t failures = 0;
        for (size_t n = 0;; n += 1 + n / 12) {
            qkv_patch x = {0};
            memory.left = n;
            qkv_status status = qkv_pipeline_patch(p, &clean, &corrupt, NULL, &x);
            bool failed = memory.left == SIZE_MAX;
            memory.left = SIZE_MAX;
            qkv_patch_free(&x);
            if (!failed)
                break;
            failures++;
            if (status != QKV_E_MEMORY && status != QKV_OK)
                fail_msg("allocation %zu: %s", n, qkv_context_message(ctx));
        }
        assert_true(failures > 20);
        qkv_pipeline_close(p);
        remove_folder(in(folder, "m"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_series),
                                       cmocka_unit_test(memory_gives_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up_series, tear_down_series);
}
