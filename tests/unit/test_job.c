/* Training jobs through the library alone: settings by name, from JSON and arguments; a run that is
 * stopped and goes on to the same bits; what is refused, and what is undone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"
#include "qkv/hub.h"
#include "qkv/job.h"

static const char line[] = "to be or not to be, that is the question: whether tis nobler in the "
                           "mind to suffer the slings and arrows of outrageous fortune\n";

static void write_text(const char *path)
{
    char text[40 * sizeof line] = "";
    for (int i = 0; i < 40; i++)
        memcpy(text + (size_t)i * (sizeof line - 1), line, sizeof line - 1);
    put_file(path, text, 40 * (sizeof line - 1));
}

/* A job of eight steps in folder/out. */
static qkv_job *lm(const char *out)
{
    qkv_job *j;
    assert_int_equal(qkv_job_create(&j, ctx, "lm"), QKV_OK);
    const char *const settings[][2] = {
        {"data", in(folder, "text")}, {"tokenizer", "char"}, {"model", "nano"}, {"length", "16"},
        {"steps", "8"}, {"batch", "2"}, {"num_hidden_layers", "1"}, {"hidden_size", "16"},
        {"num_attention_heads", "2"}, {"seed", "7"}, {"save-every", "2"},
        {"dtype", "f32"}, /* else each run times what is fastest */
        {"out", in(folder, out)}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_int_equal(qkv_job_set(j, settings[i][0], settings[i][1]), QKV_OK);
    return j;
}

static bool stop_at_3(void *user, const qkv_train_event *e)
{
    (void)user;
    return e->kind != QKV_TRAIN_STEP || e->step < 3;
}

static qkv_train_result run(qkv_job *j, qkv_train_fn *event)
{
    qkv_train_result r;
    assert_int_equal(qkv_job_run(j, event, NULL, &r), QKV_OK);
    qkv_job_destroy(j);
    return r;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n, m;
    char *x = take_file(a, &n), *y = take_file(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void stopped_and_resumed(void **state)
{
    (void)state;
    write_text(in(folder, "text"));
    assert_int_equal(run(lm("straight"), NULL).step, 8);
    assert_true(run(lm("cut"), stop_at_3).stopped);
    qkv_job *again = lm("cut");
    assert_int_equal(qkv_job_set(again, "resume", "true"), QKV_OK);
    assert_int_equal(run(again, NULL).step, 8);
    assert_same_file(in(folder, "straight/model.safetensors"),
                     in(folder, "cut/model.safetensors"));
    qkv_job *taken = lm("cut");
    assert_int_equal(qkv_job_run(taken, NULL, NULL, NULL), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "is not empty"));
    qkv_job_destroy(taken);
}

static void settings_from_json(void **state)
{
    (void)state;
    write_text(in(folder, "text"));
    char json[2 * PATH_BYTES + 400];
    snprintf(json, sizeof json, "{\"steps\": 8, \"data\": [\"%s\"], \"tokenizer\": \"char\", "
             "\"model\": \"nano\", \"length\": 16, \"batch\": 2, \"n_layer\": 1, \"n_embd\": 16, "
             "\"n_head\": 2, \"seed\": 7, \"init\": null, \"layout\": \"gpt2\", \"out\": \"%s\"}",
             in(folder, "text"), in(folder, "out"));
    qkv_job *j;
    assert_int_equal(qkv_job_create(&j, ctx, "lm"), QKV_OK);
    assert_int_equal(qkv_job_set_json(j, json, strlen(json)), QKV_OK);
    assert_string_equal(qkv_job_directory(j), in(folder, "out"));
    run(j, NULL);
    qkv_model *m;
    assert_int_equal(qkv_hub_load(&m, ctx, in(folder, "out")), QKV_OK);
    assert_string_equal(qkv_model_type_name(qkv_model_type_of(m)), "gpt2");
    qkv_model_destroy(m);
}

/* Each a list of names and values, ending in NULL, and what the sentence has. */
static void refused(void **state)
{
    (void)state;
    static const char *const cases[][8] = {
        {"--data", "steps", "5", "out", "x"},
        {"--out", "data", "a", "steps", "5"},
        {"one of them", "data", "a", "out", "x", "steps", "5"},
        {"\"many\"", "steps", "many"},
        {"did you mean", "stepz", "5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_job *j;
        assert_int_equal(qkv_job_create(&j, ctx, "lm"), QKV_OK);
        qkv_status status = QKV_OK;
        for (size_t k = 1; k + 1 < 8 && cases[i][k] && !status; k += 2)
            status = qkv_job_set(j, cases[i][k], cases[i][k + 1]);
        if (!status && i == 2)
            status = qkv_job_set(j, "minutes", "1");
        if (!status)
            status = qkv_job_check(j);
        assert_int_equal(status, QKV_E_ARGUMENT);
        if (!strstr(qkv_context_message(ctx), cases[i][0]))
            fail_msg("\"%s\" is not in \"%s\"", cases[i][0], qkv_context_message(ctx));
        qkv_job_destroy(j);
    }
    qkv_job *none;
    assert_int_equal(qkv_job_create(&none, ctx, "tea"), QKV_E_ARGUMENT);
    assert_null(none);
}

static void undone(void **state)
{
    (void)state;
    write_text(in(folder, "text"));
    qkv_job *j = lm("out"); /* fails once it has written: no window of so many tokens */
    assert_int_equal(qkv_job_set(j, "length", "100000"), QKV_OK);
    assert_int_not_equal(qkv_job_run(j, NULL, NULL, NULL), QKV_OK);
    qkv_job_destroy(j);
    assert_int_not_equal(access(in(folder, "out"), F_OK), 0);
    assert_int_equal(files_in(folder), 1);
}

static void described(void **state)
{
    (void)state;
    size_t kinds = 0;
    for (const char *kind; (kind = qkv_job_kind(kinds)); kinds++) {
        size_t tables = 0, out = 0;
        for (const qkv_option_table *t; (t = qkv_job_table(kind, tables)); tables++)
            for (size_t i = 0; i < t->count; i++)
                out += t->rows[i].flag && strcmp(t->rows[i].flag, "out") == 0;
        assert_int_equal(out, 1);
        assert_non_null(qkv_job_presets(kind));
    }
    assert_true(kinds >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_and_resumed),
        cmocka_unit_test(settings_from_json),
        cmocka_unit_test(refused),
        cmocka_unit_test(undone),
        cmocka_unit_test(described),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
