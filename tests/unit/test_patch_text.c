/* test_patch_text.c - activation patching of classifiers of texts, translators and forecasters:
 * each value is what a whole pass gives in which a probe replaces that one activation. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "pipelines_text.h"
#include "qkv/forecast.h"
#include "qkv/pipeline_look.h"

enum { MOST = 4096 };

/* A kind, its inputs, and a whole pass of it. */
typedef struct {
    int kind;
    qkv_look_input clean, corrupt;
    const char *answer, *place;
    int at;
    size_t choice;
    const char *stacks[2];
    double (*whole)(qkv_pipeline *p, qkv_tape *t, const qkv_look_input *in, size_t at,
                    size_t choice);
} tested;

static double log_p(qkv_tape *t, qkv_tensor *logits, size_t row, size_t choice)
{
    qkv_tensor *y = qkv_contiguous(t, qkv_softmax(t, logits));
    assert_non_null(qkv_data(t, y));
    return log((double)qkv_data(t, y)[row * qkv_dim(y, -1) + choice]);
}

static double whole_class(qkv_pipeline *p, qkv_tape *t, const qkv_look_input *in_, size_t at,
                          size_t choice)
{
    static const int32_t first[] = {0};
    qkv_ids ids = encoded(p, in_->text);
    const qkv_bert_input x = {.ids = qkv_tensor_ids(t, ids.data, 2, (size_t[]){1, ids.count})};
    qkv_tensor *h = qkv_bert_hidden(qkv_pipeline_model(p), t, &x);
    qkv_tensor *y = qkv_bert_class_logits(qkv_pipeline_model(p), t, h,
                                          qkv_tensor_ids(t, first, 1, (size_t[]){1}));
    (void)at;
    qkv_ids_free(&ids, ctx);
    return log_p(t, y, 0, choice);
}

static double whole_translation(qkv_pipeline *p, qkv_tape *t, const qkv_look_input *in_,
                                size_t at, size_t choice)
{
    qkv_model *m = qkv_pipeline_model(p);
    const qkv_marian_config *c = qkv_model_config(m);
    qkv_ids from = encoded(p, in_->text), to = {0};
    assert_int_equal(qkv_ids_add(&to, ctx, c->start), QKV_OK);
    assert_int_equal(qkv_tokenizer_encode(qkv_pipeline_tokenizer(p), in_->second,
                                          strlen(in_->second),
                                          QKV_ENCODE_ADD_SPECIAL | QKV_ENCODE_TARGET, &to),
                     QKV_OK);
    to.count -= to.data[to.count - 1] == c->eos;
    const qkv_marian_side source = {
        .ids = qkv_tensor_ids(t, from.data, 2, (size_t[]){1, from.count})};
    const qkv_marian_side target = {.ids = qkv_tensor_ids(t, to.data, 2,
                                                          (size_t[]){1, to.count})};
    qkv_tensor *h = qkv_marian_decode(m, t, &target, qkv_marian_encode(m, t, &source), &source,
                                      NULL);
    qkv_ids_free(&from, ctx);
    qkv_ids_free(&to, ctx);
    return log_p(t, qkv_marian_logits(m, t, h), at, choice);
}

static double whole_forecast(qkv_pipeline *p, qkv_tape *t, const qkv_look_input *in_, size_t at,
                             size_t choice)
{
    const qkv_real *window = in_->rows->data;
    const qkv_real *y = qkv_data(t, qkv_forecast_forward(qkv_pipeline_model(p), t, &window, 1));
    assert_non_null(y);
    return (double)y[at * 2 + choice]; /* the scale of a model that saw no series is 1 */
}

typedef struct {
    qkv_real kept[MOST];
    size_t at, width;
    bool replace;
} one_row;

static qkv_tensor *replace_row(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    one_row *o = user;
    size_t shape[] = {1, qkv_dim(x, 1), qkv_dim(x, 2)};
    (void)name;
    o->width = shape[2];
    if (!o->replace) {
        memcpy(o->kept, qkv_data(t, x), qkv_count(x) * sizeof *o->kept);
        return x;
    }
    qkv_tensor *y = qkv_tensor_from(t, qkv_data(t, x), 3, shape);
    memcpy(qkv_tensor_fill(y) + o->at * shape[2], o->kept + o->at * shape[2],
           shape[2] * sizeof *o->kept);
    return y;
}

static double pass_with(const tested *k, qkv_tape *t, bool clean, const char *place, one_row *o)
{
    qkv_tape_reset(t);
    assert_int_equal(qkv_probe_add(t, place, replace_row, o), QKV_OK);
    double y = k->whole(of(k->kind), t, clean ? &k->clean : &k->corrupt, (size_t)k->at,
                        k->choice);
    qkv_probes_clear(t);
    return y;
}

static void check_patched(const tested *k)
{
    static one_row o;
    qkv_tape *t = fresh_tape();
    qkv_patch found;
    qkv_pipeline_patch_options options = qkv_pipeline_patch_defaults();
    double moved = 0;
    options.answer = k->answer;
    options.place = k->place;
    options.at = k->at;
    if (qkv_pipeline_patch(of(k->kind), &k->clean, &k->corrupt, &options, &found))
        fail_msg("%s", qkv_context_message(ctx));
    assert_int_equal(found.grid_count, 1 + (k->stacks[1] != NULL));
    for (size_t s = 0; s < found.grid_count; s++) {
        const qkv_patch_grid *g = &found.grids[s];
        assert_string_equal(g->stack, k->stacks[s]);
        for (size_t i = 0; i < g->layers * g->positions; i++) {
            char name[64];
            (void)snprintf(name, sizeof name, "%s.%zu.%s", g->stack, i / g->positions, k->place);
            o.replace = false;
            assert_true(fabs(pass_with(k, t, true, name, &o) - found.clean) < 1e-4);
            o.replace = true;
            o.at = i % g->positions;
            assert_true(fabs(pass_with(k, t, false, name, &o) - g->values[i]) < 1e-4);
            moved = fmax(moved, fabs(g->values[i] - found.corrupt));
        }
    }
    if (!(moved > 1e-6))
        fail_msg("%s, kind %d: moved by %g", k->place, k->kind, moved);
    qkv_patch_free(&found);
    qkv_tape_destroy(t);
}

static void every_text_kind(void **state)
{
    (void)state;
    qkv_real rows_[2][8] = {{1, 2, -1, 0.5, 3, -2, 1, 1}, {1, 2, -1, 0.5, -3, 2, 0, 1}};
    const qkv_array series[] = {{.ctx = ctx, .ndim = 2, .shape = {4, 2}, .count = 8,
                                 .data = rows_[0]},
                                {.ctx = ctx, .ndim = 2, .shape = {4, 2}, .count = 8,
                                 .data = rows_[1]}};
    qkv_param *head = qkv_params_find(qkv_model_params(qkv_pipeline_model(of(FORECASTER))),
                                      "head.weight");
    for (size_t i = 0; i < qkv_param_dim(head, 0) * qkv_param_dim(head, 1); i++)
        qkv_param_data(head)[i] = (qkv_real)(0.1 * (double)(i % 7) - 0.3); /* was 0 */
    qkv_param_touch(head);
    qkv_ids a = {0};
    assert_int_equal(qkv_tokenizer_encode(qkv_pipeline_tokenizer(of(TRANSLATOR)), "a", 1, 0, &a),
                     QKV_OK);
    const tested kinds[] = {
        {CLASSIFIER, {.text = "the cat sat"}, {.text = "the dog sat"}, "y", "resid_pre", -1, 1,
         {"layer"}, whole_class},
        {TRANSLATOR, {.text = "the cat sat", .second = "a cat"},
         {.text = "the dog sat", .second = "a cat"}, "a", "resid_pre", 2, (size_t)a.data[0],
         {"encoder", "decoder"}, whole_translation},
        {TRANSLATOR, {.text = "the cat sat", .second = "a cat"},
         {.text = "the dog sat", .second = "a cat"}, "a", "cross.out", 1, (size_t)a.data[0],
         {"decoder"}, whole_translation},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check_patched(&kinds[i]);
    const tested forecast = {FORECASTER, {.rows = &series[0]}, {.rows = &series[1]}, "column 1",
                             "ff.out", 2, 1, {"encoder"}, whole_forecast};
    check_patched(&forecast);
    qkv_ids_free(&a, ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_text_kind)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, close_all);
}
