/* test_killed_run.c - what a run leaves that is killed with SIGKILL in the middle: its log, its
 * event file and its samples are readable, and once it has been resumed no step is there twice. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "event_file.h"

enum { STEPS = 150, KILLED_AT = 93, LOGGED = 90, EVERY = 20 /* and saved */ };
static char dir[64], straight[64];

/* ---- a run --------------------------------------------------------------------------------- */

/* The mean square of one parameter, and a quarter of the mean of the rest, as two terms. */
static qkv_tensor *loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    qkv_params *ps = qkv_model_params(self);
    qkv_tensor *x = qkv_use(t, qkv_params_at(ps, 0)), *y = qkv_use(t, qkv_params_at(ps, 1));
    qkv_tensor *a = qkv_mean(t, qkv_mul(t, x, x)), *b = qkv_mean(t, y);
    double share = (double)part->count / (double)part->total;
    if (!a || !b)
        return NULL;
    qkv_term_mean(part, "square", (double)qkv_item(t, a));
    qkv_term_mean(part, "mean", (double)qkv_item(t, b));
    return qkv_scale(t, qkv_add(t, a, qkv_scale(t, b, 0.25)), share);
}

static qkv_status evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    const qkv_real *x = qkv_param_data(qkv_params_at(qkv_model_params(self), 0));
    (void)t;
    (void)limit;
    *out = (qkv_metrics){.scored = 1, .units = 1};
    qkv_metrics_add(out, "loss", (double)x[0] * (double)x[0]);
    qkv_metrics_add(out, "other", NAN); /* null in the log, and no event */
    return QKV_OK;
}

static qkv_status show(void *user, qkv_tape *t, qkv_samples *out)
{
    const qkv_real *x = qkv_param_data(qkv_params_at(qkv_model_params(user), 0));
    uint8_t pixels[12];
    char text[64];
    (void)t;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)((int)(1000 * fabs((double)x[i % 4])) & 255);
    const qkv_image image = {2, 2, 3, pixels};
    int n = snprintf(text, sizeof text, "<script> \"%g\"\n\xe2\x80\xae \xff end", (double)x[0]);
    qkv_status status = qkv_samples_text(out, "a-text", text, (size_t)n);
    return status ? status : qkv_samples_image(out, "an-image", &image);
}

static bool kill_at(void *user, const qkv_train_event *e)
{
    const uint64_t *at = user;
    assert_true(e->kind != QKV_TRAIN_STEP || (e->terms && e->terms->count == 2));
    if (*at && e->kind == QKV_TRAIN_STEP && e->step == *at)
        (void)raise(SIGKILL);
    return true;
}

static void train(qkv_context *ctx, const char *where, uint64_t killed, bool resume)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_llama_type()), &c);
    c.vocab = 5;
    c.width = 8;
    c.layers = 1;
    c.heads = 2;
    c.bos = c.eos = c.pad = -1;
    qkv_model *m;
    assert_int_equal(qkv_model_create(&m, ctx, qkv_llama_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 3), QKV_OK);
    qkv_task_type type = qkv_task_type_defaults("killed", loss);
    type.evaluate = evaluate;
    qkv_task task = {&type, m, m, 1, true};
    qkv_train_options o = qkv_train_defaults();
    o.steps = STEPS;
    o.accumulation_steps = 3;
    o.eval_every = EVERY;
    o.sample = show;
    o.sample_user = m;
    qkv_status status = qkv_train(&task, &o, NULL, NULL, where, resume, kill_at, &killed, NULL);
    if (status)
        fail_msg("%s", qkv_context_message(ctx));
    qkv_model_destroy(m);
}

static qkv_context *one_thread(void)
{
    qkv_context_options o = qkv_context_defaults();
    qkv_context *ctx;
    o.threads = 1;
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_OK);
    return ctx;
}

/* ---- the log beside it ---------------------------------------------------------------------- */

/* The one event of that tag and step, which nobody has asked for before. */
static const value *take(events *e, const char *tag, double step)
{
    for (size_t i = 0; i < e->count; i++)
        if (!e->items[i].seen && strcmp(e->items[i].tag, tag) == 0 &&
            (double)e->items[i].step == step) {
            e->items[i].seen = true;
            return &e->items[i];
        }
    fail_msg("no event %s of step %g", tag, step);
    return NULL;
}

static void check_sample(qkv_context *ctx, const char *where, const qkv_run_sample *s, events *e)
{
    const qkv_path train = qkv_path_in(where, "train"), path = qkv_path_in(train.text, s->file);
    char tag[EVENT_TAG], *bytes;
    size_t size;
    snprintf(tag, sizeof tag, "samples/%s", s->name);
    const value *v = take(e, tag, s->step);
    assert_int_equal(v->text, s->text != NULL);
    assert_int_equal(v->image, s->text == NULL);
    assert_int_equal(qkv_file_read(ctx, path.text, 0, &bytes, &size), QKV_OK);
    assert_int_equal(size, v->len);
    assert_memory_equal(bytes, v->data, size);
    if (s->text)
        assert_string_equal(s->text, bytes);
    qkv_free(ctx, bytes);
}

/* The event file says what the log says, no more and no less, and no step is there twice. */
static void check_files(qkv_context *ctx, const char *where)
{
    static events e;
    qkv_run_log *r;
    const qkv_run_series *s;
    const qkv_run_sample *sample;
    if (qkv_run_log_open(&r, ctx, where))
        fail_msg("%s", qkv_context_message(ctx));
    read_events(ctx, where, &e);
    for (size_t i = 0; (s = qkv_run_log_at(r, i)) != NULL; i++)
        for (size_t k = 0; k < s->count; k++) {
            assert_true(!k || s->steps[k] > s->steps[k - 1]);
            assert_true(!k || s->seconds[k] >= s->seconds[k - 1]);
            if (!isnan(s->values[k])) {
                const value *v = take(&e, s->name, s->steps[k]);
                assert_true(!v->text && !v->image && v->number == (float)s->values[k]);
            }
        }
    for (size_t i = 0; (sample = qkv_run_log_sample(r, i)) != NULL; i++)
        check_sample(ctx, where, sample, &e);
    for (size_t i = 0; i < e.count; i++)
        assert_true(e.items[i].seen);
    qkv_free(ctx, e.bytes);
    qkv_run_log_close(r);
}

/* The steps of a series are first, first + every .. and last. */
static void check_steps(const qkv_run_log *r, const char *name, double first, double every,
                        double last)
{
    const qkv_run_series *s = qkv_run_log_find(r, name);
    size_t before = (size_t)((last - first) / every); /* the last may be off the grid */
    assert_non_null(s);
    before += first + every * (double)before < last;
    assert_int_equal(s->count, before + 1);
    for (size_t i = 0; i < before; i++)
        assert_true(s->steps[i] == first + every * (double)i);
    assert_true(s->steps[before] == last);
}

static void same_series(const qkv_run_log *a, const qkv_run_log *b)
{
    const qkv_run_series *s, *other;
    for (size_t i = 0; (s = qkv_run_log_at(a, i)) != NULL; i++) {
        if (strncmp(s->name, "machine/", 8) == 0)
            continue;
        other = qkv_run_log_find(b, s->name);
        assert_true(other && other->count == s->count);
        for (size_t k = 0; k < s->count; k++) {
            assert_true(other->steps[k] == s->steps[k]);
            assert_true(other->values[k] == s->values[k] || isnan(s->values[k]));
        }
    }
}

/* The loss of every update is that of its terms, each summed up over three parts. */
static void check_sums(const qkv_run_log *r)
{
    const qkv_run_series *sum = qkv_run_log_find(r, "train/loss");
    const qkv_run_series *square = qkv_run_log_find(r, "terms/square");
    const qkv_run_series *mean = qkv_run_log_find(r, "terms/mean");
    assert_true(square->count == sum->count && mean->count == sum->count);
    for (size_t k = 0; k < sum->count; k++) {
        double expected = square->values[k] + 0.25 * mean->values[k];
        assert_true(fabs(sum->values[k] - expected) <= 1e-5 * fabs(expected) + 1e-8);
    }
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void append(const char *where, const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(qkv_path_in(where, name).text, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_killed(void **state)
{
    (void)state;
    pid_t child = fork();
    int code;
    if (child == 0) {
        train(one_thread(), dir, KILLED_AT, false);
        _exit(1); /* it should not have come so far */
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFSIGNALED(code) && WTERMSIG(code) == SIGKILL);
    qkv_context *ctx = one_thread();
    check_files(ctx, dir);
    qkv_run_log *r;
    assert_int_equal(qkv_run_log_open(&r, ctx, dir), QKV_OK);
    check_steps(r, "train/loss", 10, 10, LOGGED); /* after the checkpoint of step 80 */
    check_steps(r, "eval/loss", 0, EVERY, 80);
    check_steps(r, "terms/square", 10, 10, LOGGED);
    qkv_run_log_close(r);
    qkv_context_destroy(ctx);
}

/* As if the kill had met it in the middle of writing. */
static void test_torn(void **state)
{
    (void)state;
    qkv_context *ctx = one_thread();
    qkv_run_log *r;
    append(dir, "train/metrics.jsonl", "{\"kind\": \"step\", \"st", 21);
    append(dir, "train/events.out.tfevents.qkv", "\x20\0\0\0\0\0\0\0abc", 11);
    assert_int_equal(qkv_run_log_open(&r, ctx, dir), QKV_OK);
    check_steps(r, "train/loss", 10, 10, LOGGED);
    qkv_run_log_close(r);
    const qkv_path page = qkv_path_in(dir, "page.html");
    assert_int_equal(qkv_run_report(ctx, dir, page.text), QKV_OK);
    assert_int_equal(remove(page.text), 0);
    qkv_context_destroy(ctx);
}

static void test_resumed(void **state)
{
    (void)state;
    qkv_context *ctx = one_thread();
    qkv_run_log *r, *other;
    train(ctx, dir, 0, true);
    train(ctx, straight, 0, false);
    check_files(ctx, dir);
    check_files(ctx, straight);
    assert_int_equal(qkv_run_log_open(&r, ctx, dir), QKV_OK);
    assert_int_equal(qkv_run_log_open(&other, ctx, straight), QKV_OK);
    check_steps(r, "train/loss", 10, 10, STEPS);
    check_steps(r, "eval/loss", 0, EVERY, STEPS);
    check_steps(r, "final/loss", STEPS, 1, STEPS);
    check_sums(r);
    same_series(r, other);
    same_series(other, r);
    qkv_run_log_close(r);
    qkv_run_log_close(other);
    qkv_context_destroy(ctx);
}

/* What is shown cannot leave the text that it is. */
static void test_report(void **state)
{
    (void)state;
    qkv_context *ctx = one_thread();
    const qkv_path path = qkv_path_in(dir, "train/report.html");
    char *text;
    size_t size;
    assert_int_equal(qkv_file_read(ctx, path.text, 0, &text, &size), QKV_OK);
    assert_non_null(strstr(text, "gradient by layer"));
    assert_non_null(strstr(text, "accumulation-steps"));
    assert_non_null(strstr(text, "&lt;script&gt; &quot;"));
    assert_null(strstr(text, "<script> "));
    assert_non_null(strstr(text, "data:image/png"));
    qkv_free(ctx, text);
    qkv_context_destroy(ctx);
}

static int make_folders(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/qkv-killed-XXXXXX");
    strcpy(straight, "/tmp/qkv-killed-XXXXXX");
    return !mkdtemp(dir) || !mkdtemp(straight);
}

static int remove_folders(void **state)
{
    char command[256];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", dir, straight);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_torn),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
