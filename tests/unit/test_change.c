/* test_change.c - changes of passes: what a text says is what a probe in C does, decoding with a
 * cache included; activation patching of classifiers of texts, translators and forecasters is what
 * whole passes give. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "pipelines_text.h"
#include "qkv/forecast.h"
#include "qkv/npy.h"
#include "qkv/pipeline_look.h"

enum { WIDTH = 8, HEADS = 2, MOST = 4096 };

static qkv_ids encoded(qkv_pipeline *p, const char *text)
{
    qkv_ids ids = {0};
    assert_int_equal(qkv_tokenizer_encode(qkv_pipeline_tokenizer(p), text, strlen(text),
                                          QKV_ENCODE_ADD_SPECIAL, &ids), QKV_OK);
    return ids;
}

static qkv_tape *fresh_tape(void)
{
    qkv_tape *t;
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_tape_mode(t, false, false);
    return t;
}

/* Logits (T, V) of the language model for a text, in memory of the tape. */
static const qkv_real *lm_logits(qkv_pipeline *p, qkv_tape *t, const qkv_ids *ids, size_t *V)
{
    qkv_model *m = qkv_pipeline_model(p);
    qkv_tape_reset(t);
    qkv_tensor *x = qkv_tensor_ids(t, ids->data, 2, (size_t[]){1, ids->count});
    qkv_tensor *y = qkv_lm_logits(m, t, qkv_lm_hidden(m, t, x, 0, NULL, NULL));
    assert_non_null(qkv_data(t, y));
    *V = qkv_dim(y, -1);
    return qkv_data(t, y);
}

/* ---- what a change does ---------------------------------------------------------------------- */

/* By hand: scale at a head and positions, then times a vector of ones; or the mean. */
typedef struct {
    size_t head, first, last; /* head HEADS: all */
    double scale, plus;
    bool mean;
} by_hand;

static qkv_tensor *change_by_hand(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    const by_hand *c = user;
    size_t shape[QKV_MAX_DIMS], T = qkv_dim(x, 1), n = qkv_count(x) / T;
    (void)name;
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    const qkv_real *data = qkv_data(t, x);
    qkv_tensor *y = qkv_tensor_from(t, data, qkv_ndim(x), shape);
    for (size_t i = c->first; i <= c->last && i < T; i++)
        for (size_t k = 0; k < n; k++) {
            double mean = 0, old = (double)data[i * n + k];
            for (size_t j = 0; j < T; j++)
                mean += (double)data[j * n + k] / (double)T;
            if (c->head == HEADS || k / (n / HEADS) == c->head)
                qkv_tensor_fill(y)[i * n + k] =
                    (qkv_real)(c->scale * (c->mean ? mean : old) + c->plus);
        }
    return y;
}

static void same_as_by_hand(void **state)
{
    (void)state;
    qkv_pipeline *p = of(LM);
    qkv_tape *t = fresh_tape();
    qkv_real ones[WIDTH];
    for (size_t i = 0; i < WIDTH; i++)
        ones[i] = 1;
    size_t V, width = WIDTH;
    char add[320];
    assert_int_equal(qkv_npy_save(ctx, in(folder, "ones.npy"), 1, &width, ones, QKV_STORE_F32),
                     QKV_OK);
    (void)snprintf(add, sizeof add, "h.0.resid_post add=%s times=-2.5", in(folder, "ones.npy"));
    const struct {
        const char *text, *place;
        by_hand hand;
    } cases[] = {
        {"h.0.attn.z head=1 zero", "h.0.attn.z", {1, 0, 99, 0, 0, false}},
        {"h.0.attn.z  at=1..2 scale=-3", "h.0.attn.z", {HEADS, 1, 2, -3, 0, false}},
        {"*.ff.out mean", "h.0.ff.out", {HEADS, 0, 99, 1, 0, true}},
        {"h.0.attn.out at=2 mean scale=0.5", "h.0.attn.out", {HEADS, 2, 2, 0.5, 0, true}},
        {add, "h.0.resid_post", {HEADS, 0, 99, 1, -2.5, false}},
        {"norm zero", "norm", {HEADS, 0, 99, 0, 0, false}},
    };
    qkv_ids ids = encoded(p, "the cat sat");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        by_hand hand = cases[i].hand;
        qkv_look l;
        qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
        const char *texts[] = {cases[i].text};
        o.changes = (qkv_strings){.items = texts, .count = 1};
        o.weights = o.lens = false;
        const qkv_look_input in_ = {.text = "the cat sat"};
        if (qkv_pipeline_look(p, &in_, &o, &l))
            fail_msg("%s: %s", cases[i].text, qkv_context_message(ctx));
        assert_int_equal(qkv_probe_add(t, cases[i].place, change_by_hand, &hand), QKV_OK);
        const qkv_real *logits = lm_logits(p, t, &ids, &V);
        for (size_t at = 0; at < ids.count; at++)
            for (size_t k = 0; k < l.top; k++) {
                const qkv_look_guess g = l.guesses[at * l.top + k];
                double sum = 0;
                for (size_t v = 0; v < V; v++)
                    sum += exp((double)logits[at * V + v]);
                double wanted = exp((double)logits[at * V + (size_t)g.id]) / sum;
                if (!(fabs(wanted - (double)g.p) < 1e-5))
                    fail_msg("%s: %g, %g", cases[i].text, wanted, (double)g.p);
            }
        qkv_probes_clear(t);
        qkv_look_free(&l);
    }
    qkv_ids_free(&ids, ctx);
    qkv_tape_destroy(t);
}

/* Token by token with a cache, a change of positions gives what one pass gives. */
static void decoding(void **state)
{
    (void)state;
    qkv_pipeline *p = of(LM);
    qkv_model *m = qkv_pipeline_model(p);
    qkv_tape *whole = fresh_tape(), *step = fresh_tape();
    qkv_changes *c;
    qkv_lm_cache *cache;
    size_t V, moved = 0;
    qkv_ids ids = encoded(p, "the cat sat on");
    assert_int_equal(qkv_changes_create(&c, ctx), QKV_OK);
    assert_int_equal(qkv_changes_add_text(c, "h.0.attn.out at=2..3 scale=4"), QKV_OK);
    assert_int_equal(qkv_changes_count(c), 1);
    assert_int_equal(qkv_changes_apply(c, whole), QKV_OK);
    const qkv_real *wanted = lm_logits(p, whole, &ids, &V);
    assert_int_equal(qkv_changes_made(c, 0), 1);
    assert_int_equal(qkv_lm_cache_create(&cache, m, 1, 16), QKV_OK);
    qkv_changes *again;
    assert_int_equal(qkv_changes_create(&again, ctx), QKV_OK);
    assert_int_equal(qkv_changes_add_text(again, "h.0.attn.out at=2..3 scale=4"), QKV_OK);
    assert_int_equal(qkv_changes_apply(again, step), QKV_OK);
    qkv_tape *plain = fresh_tape();
    const qkv_real *unchanged = lm_logits(p, plain, &ids, &V);
    for (size_t i = 0; i < ids.count; i++) {
        qkv_tape_reset(step);
        qkv_tensor *x = qkv_tensor_ids(step, ids.data + i, 2, (size_t[]){1, 1});
        const qkv_real *y = qkv_data(step, qkv_lm_logits(m, step, qkv_lm_hidden(m, step, x, 0,
                                                                                NULL, cache)));
        assert_non_null(y);
        for (size_t v = 0; v < V; v++) {
            assert_true(fabs((double)(y[v] - wanted[i * V + v])) < 1e-5);
            moved += fabs((double)(y[v] - unchanged[i * V + v])) > 1e-4;
        }
    }
    assert_true(moved > 0);
    assert_int_equal(qkv_changes_made(again, 0), ids.count);
    qkv_lm_cache_destroy(cache);
    qkv_tape_destroy(whole);
    qkv_tape_destroy(step);
    qkv_tape_destroy(plain);
    qkv_changes_destroy(c);
    qkv_changes_destroy(again);
    qkv_ids_free(&ids, ctx);
}

static void before_and_after(void **state)
{
    (void)state;
    qkv_pipeline *p = of(LM);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_changed found;
    qkv_str text;
    const char *changes[] = {"*.resid_post scale=-1"};
    const qkv_look_input in_ = {.text = "the cat sat"};
    assert_int_equal(qkv_pipeline_change(p, &in_, &o, &found), QKV_E_ARGUMENT);
    o.changes = (qkv_strings){.items = changes, .count = 1};
    o.go_on = 6;
    assert_int_equal(qkv_pipeline_change(p, &in_, &o, &found), QKV_OK);
    assert_string_not_equal(found.text_before, found.text_after);
    qkv_str_init(&text, ctx);
    assert_int_equal(qkv_changed_text(&found, -1, &text), QKV_OK);
    assert_non_null(strstr(text.data, "at position"));
    assert_non_null(strstr(text.data, found.text_after));
    assert_int_equal(qkv_changed_text(&found, 99, &text), QKV_E_ARGUMENT);
    assert_int_equal(qkv_changed_page(&found, -1, NULL, in(folder, "changed.html")), QKV_OK);
    qkv_str_free(&text);
    qkv_changed_free(&found);
    const qkv_look_input source = {.text = "the cat"};
    assert_int_equal(qkv_pipeline_change(of(TRANSLATOR), &source, &o, &found), QKV_OK);
    assert_int_equal(found.before.axes[1].count, found.after.axes[1].count);
    qkv_changed_free(&found);
    assert_int_equal(qkv_pipeline_change(of(CLASSIFIER), &source, &o, &found), QKV_OK);
    assert_int_equal(found.after.class_count, 2);
    qkv_changed_free(&found);
}

/* The mean of one text less that of another, added with a change, moves the stream by so much. */
static void vectors(void **state)
{
    (void)state;
    qkv_pipeline *p = of(LM);
    const qkv_look_input a = {.text = "the cat"}, b = {.text = "a dog"};
    qkv_array one, two, both;
    assert_int_equal(qkv_pipeline_vector(p, &a, NULL, "h.0.resid_post", &one), QKV_OK);
    assert_int_equal(qkv_pipeline_vector(p, &b, NULL, "h.0.resid_post", &two), QKV_OK);
    assert_int_equal(qkv_pipeline_vector(p, &a, &b, "h.0.resid_post", &both), QKV_OK);
    assert_int_equal(both.count, WIDTH);
    double size = 0;
    for (size_t i = 0; i < WIDTH; i++) {
        assert_true(fabs((double)(one.data[i] - two.data[i] - both.data[i])) < 1e-6);
        size += fabs((double)both.data[i]);
    }
    assert_true(size > 1e-3);
    qkv_array_free(&one);
    qkv_array_free(&two);
    qkv_array_free(&both);
    assert_int_equal(qkv_pipeline_vector(p, &a, NULL, "h.7.resid_post", &one), QKV_E_ARGUMENT);
    assert_null(one.data);
}

static void wrong_changes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *told;
    } wrong[] = {
        {"", "a place, then zero"}, {"h.0.attn.z", "a place, then zero"},
        {"h.0.attn.z head=1", "a place, then zero"}, {"h.0.attn.z head=x zero", "head=NUMBER"},
        {"h.0.attn.z at=3..1 zero", "at=FIRST..LAST"}, {"h.0.attn.z scale=big", "a number"},
        {"h.0.attn.z double", "head=, at=, zero"}, {"h.0.attn.z add=/nowhere.npy", "nowhere.npy"},
        {"h.0.attn.z add=/nowhere.safetensors:x", "nowhere.safetensors"},
        {"h.9.attn.z zero", "no place of the pass is \"h.9.attn.z\""},
        {"h.0.attn.z head=2 zero", "h.0.attn.z has 2 heads, found head=2"},
        {"h.0.ff.out head=0 zero", "h.0.ff.out has no heads"},
    };
    const qkv_look_input in_ = {.text = "the cat"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qkv_look l;
        qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
        const char *texts[] = {wrong[i].text};
        o.changes = (qkv_strings){.items = texts, .count = 1};
        assert_true(qkv_pipeline_look(of(LM), &in_, &o, &l) != QKV_OK);
        if (!strstr(qkv_context_message(ctx), wrong[i].told))
            fail_msg("%s: %s", wrong[i].text, qkv_context_message(ctx));
    }
}

/* ---- patching -------------------------------------------------------------------------------- */

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

/* ---- memory ---------------------------------------------------------------------------------- */

/* A change with its page, and a vector, of the pipeline of the language model. */
static qkv_status change_and_vector(void *user)
{
    qkv_pipeline *p = user;
    const qkv_look_input cat = {.text = "the cat"}, dog = {.text = "a dog"};
    const char *texts[] = {"h.0.attn.z head=1 mean", "*.ff.out at=1 scale=2"};
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_changed changed = {0};
    qkv_array vector = {0};
    o.changes = (qkv_strings){.items = texts, .count = 2};
    o.go_on = 2;
    qkv_status status = qkv_pipeline_change(p, &cat, &o, &changed);
    if (!status)
        status = qkv_changed_page(&changed, -1, NULL, in(folder, "page.html"));
    if (!status)
        status = qkv_pipeline_vector(p, &cat, &dog, "h.0.resid_post", &vector);
    qkv_changed_free(&changed);
    qkv_array_free(&vector);
    return status;
}

static void memory_gives_out(void **state)
{
    (void)state;
    expect_memory_told(change_and_vector, of(LM), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_by_hand), cmocka_unit_test(decoding),
        cmocka_unit_test(before_and_after), cmocka_unit_test(vectors),
        cmocka_unit_test(wrong_changes), cmocka_unit_test(every_text_kind),
        cmocka_unit_test(memory_gives_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, close_all);
}
