/* The training loop over tasks that are scripted: evaluations, early stopping, warnings, numbers
 * that are not finite; and the rule by which a language model is evaluated. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qkv/gpt.h"
#include "qkv/ops.h"
#include "qkv/safetensors.h"
#include "qkv/train.h"
#include "tokenizers.h"

enum { V = 11, T = 8 };

static qkv_model *gpt(bool random)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_llama_type()), &c);
    c.vocab = V;
    c.positions = T;
    c.width = 8;
    c.layers = 1;
    c.heads = 2;
    c.tie = false;
    c.init_range = 1;
    c.bos = c.eos = c.pad = -1;
    qkv_model *m;
    check(qkv_model_create(&m, ctx, qkv_llama_type(), &c));
    if (random)
        check(qkv_model_init(m, 3));
    return m;
}

/* ---- the loop -------------------------------------------------------------------------------- */

typedef struct {
    qkv_model *model;
    const double *values; /* of the evaluations, one after another; NULL: none */
    size_t evaluations, events, newest_from; /* 0: none */
    uint64_t nan_at, stop_at, best_step;
    char note[200];
} script;

/* The sum of squares of one parameter: no other gets a gradient. */
static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    script *s = self;
    qkv_param *p = qkv_params_find(qkv_model_params(s->model), "tokens");
    qkv_tensor *x = qkv_use(t, p);
    double factor = (double)part->count / (double)part->total;
    if (s->nan_at && part->step + 1 == s->nan_at)
        factor = NAN;
    return qkv_scale(t, qkv_sum(t, qkv_mul(t, x, x)), factor);
}

static qkv_status evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    script *s = self;
    (void)t;
    (void)limit;
    *out = (qkv_metrics){.scored = 1, .units = 1, .newest = s->newest_from &&
                                                            s->evaluations >= s->newest_from};
    qkv_metrics_add(out, "loss", s->values[s->evaluations++]);
    return QKV_OK;
}

static double flops(void *self)
{
    (void)self;
    return 1;
}

static bool on_event(void *user, const qkv_train_event *e)
{
    script *s = user;
    s->events++;
    if (e->kind == QKV_TRAIN_NOTE)
        snprintf(s->note, sizeof s->note, "%s", e->text);
    if (e->kind == QKV_TRAIN_EVAL && e->best)
        s->best_step = e->step;
    return !(s->stop_at && e->kind == QKV_TRAIN_STEP && e->step == s->stop_at);
}

/* In dir; NULL: nothing is written. */
static qkv_status learn_in(const char *dir, script *s, const qkv_train_options *o,
                           qkv_train_result *r)
{
    qkv_task_type type = {.name = "script", .unit = "items", .phases = 1, .loss = loss,
                          .evaluate = evaluate, .flops = flops};
    qkv_task task = {&type, s, s->model, 1, s->values != NULL};
    qkv_optimizer_options sgd = qkv_optimizer_defaults(QKV_OPTIMIZER_SGD);
    qkv_schedule constant = qkv_schedule_defaults(QKV_SCHEDULE_CONSTANT);
    return qkv_train(&task, o, &sgd, &constant, dir, false, on_event, s, r);
}

static qkv_status learn(script *s, const qkv_train_options *o, qkv_train_result *r)
{
    return learn_in(NULL, s, o, r);
}

/* ---- passes, watched ------------------------------------------------------------------------- */

typedef struct {
    size_t begun, done, fail_at; /* fail_at 0: never */
    double gradient; /* of the weights of head 0, absolute values */
} watched;

static void watch_gradient(void *user, const char *name, int sequence, int head, size_t row,
                           size_t rows, size_t S, const qkv_real *weights)
{
    watched *w = user;
    (void)name;
    (void)sequence;
    (void)head;
    (void)row;
    for (size_t i = 0; i < rows * S; i++)
        w->gradient += fabs((double)weights[i]);
}

static qkv_status watch(void *user, qkv_tape *t, const qkv_train_pass *pass)
{
    watched *w = user;
    w->begun += !pass->done;
    w->done += pass->done;
    assert_int_equal(pass->step, w->begun - 1);
    if (pass->done)
        qkv_probes_clear(t);
    if (w->begun == w->fail_at)
        return QKV_E_CANCELLED;
    return pass->done ? QKV_OK : qkv_attention_probe_add(t, &(qkv_attention_probe){
        .fn = watch_gradient, .user = w, .gradient = true});
}

static qkv_tensor *lm_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    script *s = self;
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7}, next[] = {2, 3, 4, 5, 6, 7, 8};
    const size_t shape[] = {1, T - 1};
    (void)part;
    qkv_tensor *h = qkv_lm_hidden(s->model, t, qkv_tensor_ids(t, ids, 2, shape), 0, NULL, NULL);
    qkv_tensor *y = qkv_reshape(t, qkv_lm_logits(s->model, t, h), 2, (size_t[]){T - 1, V});
    return qkv_cross_entropy(t, y, qkv_tensor_ids(t, next, 1, shape + 1), NULL);
}

static void learn_watched(script *s, const char *dir, const qkv_train_options *o, qkv_status wanted)
{
    qkv_task_type type = {.name = "script", .unit = "items", .phases = 1, .loss = lm_loss,
                          .flops = flops};
    qkv_task task = {&type, s, s->model, 1, false};
    qkv_train_result r;
    assert_int_equal(qkv_train(&task, o, NULL, NULL, dir, false, NULL, NULL, &r), wanted);
}

/* Watching and capturing change no bit of the weights. */
static void test_watched_passes(void **state)
{
    (void)state;
    watched w = {0};
    script plain = {.model = gpt(true)}, seen = {.model = gpt(true)};
    qkv_train_options o = qkv_train_defaults();
    char dir[] = "/tmp/qkv-watch-XXXXXX", path[128], command[64];
    assert_non_null(mkdtemp(dir));
    o.steps = 3;
    learn_watched(&plain, NULL, &o, QKV_OK);
    o.watch = watch;
    o.watch_user = &w;
    o.capture_step = 2;
    learn_watched(&seen, dir, &o, QKV_OK);
    assert_true(w.begun == 3 && w.done == 3 && w.gradient > 0);
    for (size_t i = 0; i < qkv_params_count(qkv_model_params(plain.model)); i++) {
        qkv_param *a = qkv_params_at(qkv_model_params(plain.model), i);
        qkv_param *b = qkv_params_at(qkv_model_params(seen.model), i);
        assert_memory_equal(qkv_param_data(a), qkv_param_data(b),
                            qkv_param_count(a) * sizeof(qkv_real));
    }
    qkv_safetensors *file;
    (void)snprintf(path, sizeof path, "%s/train/capture-2.safetensors", dir);
    check(qkv_safetensors_open(&file, ctx, path));
    assert_non_null(qkv_safetensors_find(file, "grad.attentions.0"));
    assert_non_null(qkv_safetensors_find(file, "grad.hidden_states.1"));
    qkv_safetensors_close(file);
    w = (watched){.fail_at = 2};
    learn_watched(&seen, NULL, &o, QKV_E_CANCELLED);
    assert_true(w.begun == 2 && w.done == 1);
    qkv_model_destroy(plain.model);
    qkv_model_destroy(seen.model);
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_early_stopping(void **state)
{
    (void)state;
    static const double values[] = {9, 5, 6, 4, 4, 7, 3.9, 4, 5, 6, 1, 1, 1};
    script s = {.model = gpt(true), .values = values};
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result r;
    o.steps = 100;
    o.eval_every = 2;
    o.patience = 3;
    check(learn(&s, &o, &r)); /* the tenth value is the third that is no better than 3.9 */
    assert_true(r.early);
    assert_false(r.stopped);
    assert_int_equal(r.step, 2 * 9);
    assert_int_equal(r.best_step, 2 * 6);
    assert_int_equal(s.best_step, 2 * 6);
    assert_int_equal(s.evaluations, 11); /* and once more at the end */
    qkv_model_destroy(s.model);
}

/* From the fourth evaluation on the newest counts, whatever its value. */
static void test_newest(void **state)
{
    (void)state;
    static const double values[] = {9, 5, 6, 7, 8, 6, 6};
    script s = {.model = gpt(true), .values = values, .newest_from = 3};
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result r;
    o.steps = 10;
    o.eval_every = 2;
    check(learn(&s, &o, &r));
    assert_int_equal(r.best_step, 10);
    s = (script){.model = s.model, .values = values, .newest_from = 6};
    check(learn(&s, &o, &r));
    assert_int_equal(r.best_step, 2);
    qkv_model_destroy(s.model);
}

static void test_evaluates_in_rhythm(void **state)
{
    (void)state;
    static const double values[20] = {0};
    script s = {.model = gpt(true), .values = values};
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result r;
    o.steps = 25; /* every 3 steps, a tenth rounded up: 0, 3 .. 24, the last, the last evaluation */
    check(learn(&s, &o, &r));
    assert_int_equal(s.evaluations, 1 + 8 + 1 + 1);
    assert_int_equal(r.step, 25);
    assert_int_equal(s.events, 25 + 10 + 1); /* steps, evaluations, the warning */
    qkv_model_destroy(s.model);
}

static void test_warns_without_gradient(void **state)
{
    (void)state;
    script s = {.model = gpt(true)};
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result r;
    o.steps = 2;
    o.accumulation_steps = 3;
    check(learn(&s, &o, &r));
    assert_non_null(strstr(s.note, "got no gradient"));
    assert_int_equal(r.metrics.count, 0);
    qkv_model_destroy(s.model);
}

static void test_stops_when_told(void **state)
{
    (void)state;
    script s = {.model = gpt(true), .stop_at = 4};
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result r;
    o.steps = 9;
    check(learn(&s, &o, &r));
    assert_true(r.stopped);
    assert_int_equal(r.step, 4);
    qkv_model_destroy(s.model);
}

static void test_not_finite(void **state)
{
    (void)state;
    static const double nan_value[] = {1, NAN};
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result r;
    o.steps = 9;
    script gradient = {.model = gpt(true), .nan_at = 3};
    assert_int_equal(learn(&gradient, &o, &r), QKV_E_NUMERIC);
    expect_message("step 3: the gradient of tokens is not finite");

    script weight = {.model = gradient.model};
    qkv_param *p = qkv_params_find(qkv_model_params(weight.model), "head");
    qkv_param_data(p)[5] = (qkv_real)INFINITY;
    qkv_param_touch(p);
    weight.nan_at = 2;
    assert_int_equal(learn(&weight, &o, &r), QKV_E_NUMERIC);
    expect_message("step 2: head is not finite");

    /* Nor is it saved as the best so far. */
    char dir[] = "/tmp/qkv-train-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    assert_int_equal(learn_in(dir, &weight, &o, &r), QKV_E_NUMERIC);
    expect_message("step 0: head is not finite");
    snprintf(path, sizeof path, "%s/train", dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
    qkv_param_data(p)[5] = 0;

    script held_out = {.model = gradient.model, .values = nan_value};
    o.eval_every = 5;
    assert_int_equal(learn(&held_out, &o, &r), QKV_E_NUMERIC);
    expect_message("the loss on what is held out is nan");
    qkv_model_destroy(gradient.model);
}

static void test_refuses_options(void **state)
{
    (void)state;
    script s = {.model = gpt(true)};
    qkv_train_options o = qkv_train_defaults();
    qkv_train_result r;
    assert_int_equal(learn(&s, &o, &r), QKV_E_ARGUMENT);
    expect_message("steps or of minutes");
    o.steps = 1;
    o.accumulation_steps = o.batch + 1;
    assert_int_equal(learn(&s, &o, &r), QKV_E_ARGUMENT);
    expect_message("cannot be done in");
    qkv_model_destroy(s.model);
}

/* cmocka's own takes a NaN for anything. */
static void assert_near(double x, double expected, double most)
{
    if (!(fabs(x - expected) <= most))
        fail_msg("%g, not %g", x, expected);
}

/* ---- evaluating a language model ------------------------------------------------------------- */

/* "abcdefghijk" repeated: V characters, n tokens. */
static qkv_tokens *letters(size_t n)
{
    char text[200] = "";
    assert_true(n < sizeof text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i * i % V);
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    qkv_tokenizer *tk = trained(&o, "abcdefghijk");
    qkv_text_span part = {text, n, NULL, 0};
    qkv_tokens *t;
    check(qkv_tokens_pack(&t, ctx, tk, &part, 1, NULL, NULL, NULL));
    qkv_tokenizer_destroy(tk);
    return t;
}

/* Weights of zero: every token has probability 1/V, so the loss is ln V whatever the text. */
static void test_uniform_model(void **state)
{
    (void)state;
    static const size_t counts[] = {2, 3, T, T + 1, T + 2, 2 * T + 1, 100};
    qkv_model *m = gpt(false);
    qkv_tape *tape;
    check(qkv_tape_create(&tape, ctx));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        qkv_tokens *t = letters(counts[i]);
        qkv_lm_score score;
        check(qkv_lm_evaluate(m, tape, t, T, 0, &score));
        assert_int_equal(score.tokens, counts[i] - 1);
        assert_near(score.loss, log(V), 1e-6);
        assert_near(score.perplexity, V, 1e-5);
        assert_near(score.bits_per_byte,
                           log2(V) * (double)(counts[i] - 1) / (double)counts[i], 1e-6);
        qkv_tokens_close(t);
    }
    qkv_tape_destroy(tape);
    qkv_model_destroy(m);
}

/* -log p of what follows each of the n tokens from `from` on, read alone. */
static double window_loss(qkv_model *m, qkv_tape *tape, const qkv_tokens *t, size_t from, size_t n)
{
    int32_t ids[T + 1];
    double sum = 0;
    size_t shape[] = {1, n};
    qkv_tokens_read(t, from, n + 1, ids);
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, false, false);
    qkv_tensor *h = qkv_lm_hidden(m, tape, qkv_tensor_ids(tape, ids, 2, shape), 0, NULL, NULL);
    const qkv_real *logits = qkv_data(tape, qkv_lm_logits(m, tape, h));
    check(qkv_tape_status(tape));
    for (size_t i = 0; i < n; i++) {
        double total = 0;
        for (size_t v = 0; v < V; v++)
            total += exp((double)logits[i * V + v]);
        sum += log(total) - (double)logits[i * V + (size_t)ids[i + 1]];
    }
    return sum;
}

/* Window i reads tokens iT .. iT+T-1; the last is short. A limit takes the first ones. */
static void test_scores_each_token_once(void **state)
{
    (void)state;
    enum { N = 3 * T + 4 };
    qkv_model *m = gpt(true);
    qkv_tape *tape;
    check(qkv_tape_create(&tape, ctx));
    qkv_tokens *t = letters(N);
    double sum[5] = {0};
    for (size_t i = 0; i < 4; i++)
        sum[i + 1] = sum[i] + window_loss(m, tape, t, i * T, i < 3 ? T : N - 1 - 3 * T);
    qkv_lm_score score;
    check(qkv_lm_evaluate(m, tape, t, T, 0, &score));
    assert_int_equal(score.tokens, N - 1);
    assert_near(score.loss, sum[4] / (N - 1), 1e-5);
    assert_true(fabs(score.loss - log(V)) > 0.1);
    check(qkv_lm_evaluate(m, tape, t, T, 2 * T, &score));
    assert_int_equal(score.tokens, 2 * T);
    assert_near(score.loss, sum[2] / (2 * T), 1e-5);
    assert_near(score.bits_per_byte, score.loss / log(2) * (N - 1) / N, 1e-6); /* a letter a byte */
    qkv_tokens_close(t);
    qkv_tape_destroy(tape);
    qkv_model_destroy(m);
}

static void test_refuses_short_text(void **state)
{
    (void)state;
    qkv_model *m = gpt(false);
    qkv_tape *tape;
    qkv_lm_score score;
    qkv_task task;
    check(qkv_tape_create(&tape, ctx));
    qkv_tokens *one = letters(1), *window = letters(T), *enough = letters(T + 1);
    assert_int_equal(qkv_lm_evaluate(m, tape, one, T, 0, &score), QKV_E_ARGUMENT);
    expect_message("at least 2");
    assert_int_equal(qkv_task_lm(&task, m, window, NULL, T, 1), QKV_E_ARGUMENT);
    expect_message("at least 9");
    assert_int_equal(qkv_task_lm(&task, m, enough, one, T, 1), QKV_E_ARGUMENT);
    check(qkv_task_lm(&task, m, enough, NULL, T, 1));
    qkv_task_destroy(&task);
    qkv_tokens_close(one);
    qkv_tokens_close(window);
    qkv_tokens_close(enough);
    qkv_tape_destroy(tape);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watched_passes), cmocka_unit_test(test_early_stopping),
        cmocka_unit_test(test_newest),
        cmocka_unit_test(test_evaluates_in_rhythm),
        cmocka_unit_test(test_warns_without_gradient),
        cmocka_unit_test(test_stops_when_told),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_refuses_options),
        cmocka_unit_test(test_uniform_model),
        cmocka_unit_test(test_scores_each_token_once),
        cmocka_unit_test(test_refuses_short_text),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
