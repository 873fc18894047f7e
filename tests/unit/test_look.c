/* test_look.c - looking inside the models of open directories, and patching activations: rows are
 * distributions, grids are what whole passes give, memory that gives out loses nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "looked.h"
#include "pipelines_text.h"
#include "qkv/infer.h"

enum { LAYERS = 3 };
static const char clean[] = "the cat sat", corrupt[] = "the mat sat";

static qkv_pipeline *deep_lm(const qkv_model_type *type)
{
    qkv_gpt_config c;
    qkv_tokenizer *t = learn_words(QKV_TOKENIZER_BPE);
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.vocab = qkv_tokenizer_vocab_size(t);
    c.positions = 32;
    c.width = 16;
    c.layers = LAYERS;
    c.heads = 2;
    c.eos = c.bos = -1;
    c.init_range = 0.5;
    return make("deep", type, &c, t);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Where nothing is chosen: the mean of the last layer's heads, of the class token or the last
 * token. */
static void check_choice(const qkv_look *l)
{
    qkv_look_choice c;
    const qkv_look_attention *last = &l->attentions[l->attentions_count - 1];
    const qkv_look_axis *q = &l->axes[last->query];
    assert_int_equal(qkv_look_choose(l, NULL, &c), QKV_OK);
    assert_int_equal(c.attention, l->attentions_count - 1);
    assert_int_equal(c.layer, last->layers - 1);
    assert_int_equal(c.head, -1);
    if (!q->rows)
        assert_int_equal(c.position, q->count - 1);
    else if (q->lead)
        assert_int_equal(c.position, 0);
    assert_int_equal(qkv_look_choose(l, l->attentions[0].name, &c), QKV_OK);
    assert_int_equal(c.attention, 0);
    assert_int_equal(qkv_look_choose(l, "nobody", &c), QKV_E_ARGUMENT);
}

static void check_rows(const qkv_look *l)
{
    double row[64];
    for (size_t i = 0; i < l->attentions_count; i++) {
        const qkv_look_attention *a = &l->attentions[i];
        assert_true(l->axes[a->key].count <= 64);
        for (int layer = a->rollout ? -1 : 0; layer < (int)a->layers; layer++)
            for (int head = -1; head < (int)a->heads; head++)
                for (size_t at = 0; at < l->axes[a->query].count; at++) {
                    double sum = 0;
                    const qkv_look_choice c = {i, layer, head, at};
                    assert_int_equal(qkv_look_row(l, &c, row), QKV_OK);
                    for (size_t j = 0; j < l->axes[a->key].count; j++) {
                        assert_true(row[j] >= 0 && (!a->causal || j <= at || row[j] == 0));
                        sum += row[j];
                    }
                    assert_true(fabs(sum - 1) < 1e-4);
                }
        assert_non_null(a->value_norms);
    }
    check_choice(l);
}

/* Each attention's weights are a place, and its values, whose heads they have. */
static void check_places(qkv_pipeline *p, size_t attentions)
{
    qkv_look_places x;
    size_t found = 0;
    if (qkv_pipeline_places(p, &x))
        fail_msg("%s", qkv_context_message(ctx));
    for (size_t i = 0; i < x.count; i++) {
        char name[64];
        if (!x.items[i].weights)
            continue;
        found++;
        (void)snprintf(name, sizeof name, "%s.v", x.items[i].name);
        size_t v = 0;
        while (v < x.count && strcmp(x.items[v].name, name) != 0)
            v++;
        assert_true(v < x.count && x.items[v].ndim == 4 && x.items[i].ndim == 4);
        assert_int_equal(x.items[v].shape[1], x.items[i].shape[3]);
        assert_int_equal(x.items[v].shape[2], x.items[i].shape[1]);
    }
    assert_int_equal(found, attentions);
    qkv_look_places_free(&x);
}

static void every_kind(void **state)
{
    (void)state;
    qkv_look l;
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    const struct {
        int kind;
        const char *text;
        size_t attentions;
        bool predicts;
    } cases[] = {{LM, "the cat sat", 1, true}, {MASKED, "the [MASK] sat", 1, true},
                 {CLASSIFIER, "the cat", 1, false}, {TRANSLATOR, "the cat", 3, true}};
    o.least = 1e-9;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const qkv_look_input in = {.text = cases[i].text};
        if (qkv_pipeline_look(of(cases[i].kind), &in, &o, &l))
            fail_msg("%s", qkv_context_message(ctx));
        assert_int_equal(l.attentions_count, cases[i].attentions);
        check_rows(&l);
        assert_true(cases[i].predicts ? l.top == 5 && l.lens_layers == 2 : l.class_count == 2);
        qkv_look_free(&l);
        check_places(of(cases[i].kind), cases[i].attentions);
    }
    const qkv_look_input none = {.text = NULL};
    assert_int_equal(qkv_pipeline_look(of(LM), &none, NULL, &l), QKV_E_ARGUMENT);
    assert_int_equal(qkv_pipeline_look(of(FORECASTER), &none, NULL, &l), QKV_E_ARGUMENT);
}

/* ---- series ---------------------------------------------------------------------------------- */

enum { ROWS = 9, COLUMNS = 2, CONTEXT = 4, HORIZON = 3, HELD = 2 };

/* The panel's numbers are forecasts of moved histories, made one by one. */
static void check_effects(qkv_pipeline *p, const qkv_look *l, const qkv_real *window)
{
    const qkv_look_panel *found = qkv_look_panel_of(l, "effects");
    const qkv_real *std = qkv_forecast_std(qkv_pipeline_model(p));
    assert_non_null(found);
    assert_non_null(qkv_look_panel_of(l, "forecast"));
    const char *at = found->json;
    for (size_t n = 0; n < COLUMNS * COLUMNS * HORIZON * CONTEXT; n++) {
        size_t row = n % CONTEXT, step = n / CONTEXT % HORIZON;
        size_t column = n / CONTEXT / HORIZON % COLUMNS, target = n / CONTEXT / HORIZON / COLUMNS;
        double y[2], by = 0.1 * (double)std[column];
        for (int down = 0; down < 2; down++) {
            qkv_real moved[CONTEXT * COLUMNS], forecast[HORIZON * COLUMNS];
            memcpy(moved, window, sizeof moved);
            moved[row * COLUMNS + column] += (qkv_real)(down ? -by : by);
            const qkv_series history = {moved, CONTEXT, COLUMNS};
            assert_int_equal(qkv_forecast(qkv_pipeline_model(p), &history, HORIZON, forecast),
                             QKV_OK);
            y[down] = (double)forecast[step * COLUMNS + target];
        }
        at += strspn(at, "[],");
        char *end;
        double value = strtod(at, &end);
        assert_true(end != at && fabs(value - (y[0] - y[1]) / (2 * by)) < 1e-4);
        at = end;
    }
}

/* What the page and the command show of a forecaster is what it forecasts, and the rows that were
 * held back. */
static void check_forecaster(qkv_pipeline *p, size_t attentions, bool causal)
{
    static const qkv_real numbers[ROWS * COLUMNS] = {1, 4, 2, 5, 3, 7, 4, 2, 6, 6, 1, 3, 9, 4, 2, 5,
                                                     8, 1};
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_array rows = {.ctx = ctx, .data = (qkv_real *)(uintptr_t)numbers, .ndim = 2,
                      .shape = {ROWS, COLUMNS}, .count = ROWS * COLUMNS};
    const qkv_look_input in = {.rows = &rows};
    qkv_look l;
    qkv_array y;
    o.least = 1e-9;
    o.hold_back = HELD;
    if (qkv_pipeline_look(p, &in, &o, &l))
        fail_msg("%s", qkv_context_message(ctx));
    check_rows(&l);
    const qkv_look_series *s = &l.series;
    assert_true(l.attentions_count == attentions && l.axes_count == (attentions > 1 ? 2 : 1));
    if (attentions > 1)
        assert_true(l.attentions[1].causal == causal && !l.attentions[2].causal);
    assert_true(s->first == ROWS - HELD - CONTEXT && s->read == CONTEXT && s->made == HORIZON);
    rows.shape[0] = ROWS - HELD;
    rows.count = rows.shape[0] * COLUMNS;
    assert_int_equal(qkv_pipeline_forecast(p, &rows, NULL, &y), QKV_OK);
    for (size_t i = 0; i < (CONTEXT + HORIZON) * COLUMNS; i++) {
        bool known = i < (CONTEXT + HELD) * COLUMNS, made = i >= CONTEXT * COLUMNS;
        assert_true(known ? s->values[i] == (float)numbers[s->first * COLUMNS + i]
                          : isnan(s->values[i]));
        assert_true(made ? s->answers[i] == (float)y.data[i - CONTEXT * COLUMNS]
                         : isnan(s->answers[i]));
    }
    qkv_array_free(&y);
    check_effects(p, &l, numbers + s->first * COLUMNS);
    qkv_look_free(&l);
    o.hold_back = ROWS - CONTEXT;
    assert_int_equal(qkv_pipeline_look(p, &in, &o, &l), QKV_E_ARGUMENT);
}

static void forecasters(void **state)
{
    (void)state;
    qkv_forecast_config c = *(const qkv_forecast_config *)qkv_model_config(
        qkv_pipeline_model(of(FORECASTER)));
    check_forecaster(of(FORECASTER), 1, false);
    qkv_look_places places;
    assert_int_equal(qkv_pipeline_places(of(FORECASTER), &places), QKV_OK);
    assert_true(places.count > 10);
    qkv_look_places_free(&places);
    c.decoder_layers = 1;
    for (int causal = 0; causal < 2; causal++) {
        c.causal = causal;
        qkv_pipeline *p = make("decoder", qkv_forecast_type(), &c, NULL);
        check_forecaster(p, 3, causal);
        qkv_pipeline_close(p);
    }
}

/* The norms of panel "stream" before layer 0 are those of the embeddings. */
static void check_stream(const qkv_look *l, const double *norms)
{
    const qkv_look_panel *p = qkv_look_panel_of(l, "stream");
    assert_non_null(p);
    const char *at = strstr(p->json, "\"norms\":[[");
    assert_non_null(at);
    at += strlen("\"norms\":[[");
    for (size_t i = 0; i < l->axes[0].count; i++) {
        char *end;
        assert_true(fabs(strtod(at, &end) - norms[i]) < 1e-5);
        at = end + 1;
    }
    assert_null(qkv_look_panel_of(l, "nothing"));
}

static qkv_tensor *measure_embeddings(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    double *norms = user;
    const qkv_real *data = qkv_data(t, x);
    size_t width = qkv_dim(x, -1);
    (void)name;
    for (size_t i = 0; i < qkv_count(x); i++)
        norms[i / width] += (double)data[i] * (double)data[i];
    for (size_t i = 0; i < qkv_count(x) / width; i++)
        norms[i] = sqrt(norms[i]);
    return x;
}

/* The lens behind the last layer is the model's own distribution, its likeliest first. */
static void lens(void **state)
{
    (void)state;
    qkv_look l;
    qkv_pipeline *p = deep_lm(qkv_gpt2_type());
    const qkv_look_input in = {.text = clean};
    assert_int_equal(qkv_pipeline_look(p, &in, NULL, &l), QKV_OK);
    assert_int_equal(l.lens_layers, LAYERS + 1);
    qkv_ids ids = encoded(p, clean);
    qkv_tape *t = fresh_tape();
    double norms[32] = {0};
    assert_int_equal(qkv_probe_add(t, "h.0.resid_pre", measure_embeddings, norms), QKV_OK);
    qkv_tensor *h = qkv_lm_hidden(qkv_pipeline_model(p), t,
                                  qkv_tensor_ids(t, ids.data, 2, (size_t[]){1, ids.count}), 0,
                                  NULL, NULL);
    qkv_tensor *y = qkv_softmax(t, qkv_lm_logits(qkv_pipeline_model(p), t, h));
    const qkv_real *probs = qkv_data(t, y);
    assert_non_null(probs);
    for (size_t i = 0; i < ids.count; i++)
        for (size_t k = 0; k < l.top; k++) {
            const qkv_look_guess g = l.guesses[(LAYERS * ids.count + i) * l.top + k];
            const qkv_real *row = probs + i * qkv_dim(y, -1);
            double own = (double)row[g.id];
            size_t before = 0;
            for (size_t v = 0; v < qkv_dim(y, -1); v++)
                before += (double)row[v] > own + 1e-6;
            assert_true(fabs((double)g.p - own) < 1e-5 && before <= k);
        }
    check_stream(&l, norms);
    qkv_ids_free(&ids, ctx);
    qkv_tape_destroy(t);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

/* ---- patching -------------------------------------------------------------------------------- */

typedef struct {
    qkv_real *clean; /* of the place */
    size_t position;
    bool replace;
} naive;

static qkv_tensor *patch_naively(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    naive *n = user;
    size_t width = qkv_dim(x, -1), shape[3] = {qkv_dim(x, 0), qkv_dim(x, 1), width};
    (void)name;
    const qkv_real *data = qkv_data(t, x);
    if (!n->replace) {
        memcpy(n->clean, data, qkv_count(x) * sizeof *data);
        return x;
    }
    qkv_tensor *y = qkv_tensor_from(t, data, 3, shape);
    memcpy(qkv_tensor_fill(y) + n->position * width, n->clean + n->position * width,
           width * sizeof *data);
    return y;
}

static double naive_pass(qkv_pipeline *p, qkv_tape *t, const char *text, const char *place,
                         naive *n, int32_t answer)
{
    qkv_ids ids = encoded(p, text);
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    assert_int_equal(qkv_probe_add(t, place, patch_naively, n), QKV_OK);
    qkv_tensor *x = qkv_tensor_ids(t, ids.data, 2, (size_t[]){1, ids.count});
    x = qkv_lm_hidden(qkv_pipeline_model(p), t, x, 0, NULL, NULL);
    x = qkv_softmax(t, qkv_lm_logits(qkv_pipeline_model(p), t, x));
    const qkv_real *probs = qkv_data(t, x);
    assert_non_null(probs);
    double y = log((double)probs[(ids.count - 1) * qkv_dim(x, -1) + (size_t)answer]);
    qkv_probes_clear(t);
    qkv_ids_free(&ids, ctx);
    return y;
}

static qkv_status patch_texts(qkv_pipeline *p, const char *a, const char *b,
                              const qkv_pipeline_patch_options *o, qkv_patch *out)
{
    const qkv_look_input clean_ = {.text = a}, corrupt_ = {.text = b};
    return qkv_pipeline_patch(p, &clean_, &corrupt_, o, out);
}

/* Texts of many tokens, whose positions are patched in parts. */
static const char long_clean[] = "12, there: cats, 12 cats";
static const char long_corrupt[] = "34, there: cats, 13 cats";

/* The grid is what a whole pass for each layer and position gives. */
static void check_grid(const qkv_model_type *type)
{
    static const char *const places[] = {"resid_pre", "attn.out", "ff.out"};
    qkv_pipeline *p = deep_lm(type);
    qkv_tape *t;
    qkv_patch found;
    qkv_real kept[64 * 16];
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    int32_t answer = qkv_tokenizer_id(qkv_pipeline_tokenizer(p), "a", 1);
    assert_true(answer >= 0);
    for (size_t k = 0; k < 3; k++) {
        qkv_pipeline_patch_options o = qkv_pipeline_patch_defaults();
        o.answer = "a";
        o.place = places[k];
        if (patch_texts(p, long_clean, long_corrupt, &o, &found))
            fail_msg("%s", qkv_context_message(ctx));
        assert_int_equal(found.grid_count, 1);
        const qkv_patch_grid *g = &found.grids[0];
        assert_int_equal(g->layers, LAYERS);
        assert_true(g->positions > 12); /* in several parts */
        for (size_t layer = 0; layer < LAYERS; layer++) {
            char place[32];
            naive n = {.clean = kept};
            (void)snprintf(place, sizeof place, "h.%zu.%s", layer, places[k]);
            double whole = naive_pass(p, t, long_clean, place, &n, answer);
            assert_true(fabs(whole - found.clean) < 1e-4);
            n.replace = true;
            for (n.position = 0; n.position < g->positions; n.position++) {
                double wanted = naive_pass(p, t, long_corrupt, place, &n, answer);
                assert_true(fabs(wanted - g->values[layer * g->positions + n.position]) <
                            1e-4);
            }
        }
        double moved = 0;
        for (size_t i = 0; i < LAYERS * g->positions; i++)
            moved = fmax(moved, fabs(g->values[i] - found.corrupt));
        assert_true(moved > 1e-3);
        qkv_patch_free(&found);
    }
    qkv_tape_destroy(t);
    qkv_pipeline_close(p);
}

static void grid(void **state)
{
    (void)state;
    check_grid(qkv_gpt2_type());
    check_grid(qkv_llama_type());
}

static void refused(void **state)
{
    (void)state;
    qkv_patch found;
    qkv_pipeline_patch_options o = qkv_pipeline_patch_defaults();
    o.place = "nowhere";
    assert_int_equal(patch_texts(of(LM), clean, "the", NULL, &found), QKV_E_ARGUMENT);
    assert_int_equal(patch_texts(of(LM), "the cat", "the dog", &o, &found), QKV_E_ARGUMENT);
    assert_int_equal(patch_texts(of(MASKED), "the cat", "the dog", NULL, &found),
                     QKV_E_ARGUMENT);
    assert_int_equal(patch_texts(of(FORECASTER), "a", "b", NULL, &found),
                     QKV_E_ARGUMENT);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static qkv_status all_of_text(void *user)
{
    const looked_at *a = user;
    qkv_look_places names = {0};
    qkv_patch found = {0};
    qkv_status status = look_and_write(user);
    if (!status)
        status = qkv_pipeline_places(a->p, &names);
    if (!status)
        status = patch_texts(a->p, clean, corrupt, NULL, &found);
    qkv_look_places_free(&names);
    qkv_patch_free(&found);
    return status;
}

static void memory_gives_out(void **state)
{
    (void)state;
    looked_at a = {of(LM), {.text = "the cat"}};
    expect_memory_told(all_of_text, &a, 16);
}

static void series_memory_gives_out(void **state)
{
    (void)state;
    qkv_real numbers[ROWS * COLUMNS] = {1, 2, 3, 4, 5};
    const qkv_array rows = {.ctx = ctx, .data = numbers, .ndim = 2, .shape = {ROWS, COLUMNS},
                            .count = ROWS * COLUMNS};
    looked_at a = {of(FORECASTER), {.rows = &rows}};
    expect_memory_told(look_and_write, &a, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind), cmocka_unit_test(forecasters), cmocka_unit_test(lens),
        cmocka_unit_test(grid), cmocka_unit_test(refused), cmocka_unit_test(memory_gives_out),
        cmocka_unit_test(series_memory_gives_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, close_all);
}
