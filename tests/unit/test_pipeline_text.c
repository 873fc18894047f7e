/* Tasks on text and series through an open directory: what callbacks get, how a call is stopped,
 * what each refuses; every kind of directory against every task. The models are small and know
 * nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "pipelines_text.h"

static const char hostile[] = "\xff\xfe\x80 the cat"; /* no UTF-8 */

static void expect(qkv_status status, qkv_status wanted, const char *words)
{
    if (status != wanted || !strstr(qkv_context_message(ctx), words))
        fail_msg("\"%s\" and status %d expected, found %d: %s", words, (int)wanted, (int)status,
                 qkv_context_message(ctx));
}

/* ---- what callbacks get -------------------------------------------------------------------- */

/* Counts what comes; false when `stop` have come. */
typedef struct {
    size_t calls, stop, ends, tokens;
    bool together; /* several texts at once: no probabilities come */
    char last[400];
    int32_t first[2]; /* tokens of continuations */
} counter;

static bool on_piece(void *user, const qkv_generated *g)
{
    counter *c = user;
    size_t used = strlen(c->last);
    if (g->kind == QKV_GENERATED_TOKEN) {
        double sum = 0;
        for (size_t i = 0; i < g->vocab; i++)
            sum += (double)g->probabilities[i];
        if (c->together)
            assert_null(g->probabilities);
        else
            assert_true(sum > 0.999 && sum < 1.001 && g->probabilities[g->id] > 0);
        if (c->tokens++ == 0)
            c->first[g->index] = g->id;
    }
    if (g->kind == QKV_GENERATED_END) {
        assert_int_equal(g->ids->count, c->tokens);
        c->tokens = 0;
        c->ends++;
    }
    assert_true(used + g->len < sizeof c->last);
    memcpy(c->last + used, g->text, g->len);
    return ++c->calls != c->stop;
}

/* The model's distribution of the first step, and what the drawn tokens add up to. */
typedef struct {
    size_t steps, most;
    qkv_real first[400];
    double drawn[8];
    char text[400], whole[400];
} watched;

static bool watch_next(void *user, const qkv_generated *g)
{
    watched *w = user;
    if (g->kind == QKV_GENERATED_END) {
        qkv_text text = {0}; /* its bytes, which need not be UTF-8 */
        assert_int_equal(qkv_tokenizer_decode(qkv_pipeline_tokenizer(of(LM)), g->ids->data,
                                              g->ids->count, 0, &text), QKV_OK);
        memcpy(w->whole, text.data, text.len);
        qkv_text_free(&text, ctx);
        return true;
    }
    if (g->kind != QKV_GENERATED_TOKEN)
        return true;
    double sum = 0;
    size_t drawn = 0;
    assert_true(g->vocab <= 400 && g->next_count <= w->most + 1);
    for (size_t i = 0; i < g->vocab; i++)
        sum += (double)g->model_probabilities[i];
    assert_true(fabs(sum - 1) < 1e-4);
    if (!w->steps)
        memcpy(w->first, g->model_probabilities, g->vocab * sizeof *w->first);
    for (size_t i = 0; i < g->next_count; i++) {
        const qkv_next_token *n = &g->next[i];
        assert_true(n->probability == (double)g->model_probabilities[n->id]);
        assert_true(n->drawn == (n->id == g->id));
        assert_true(!i || i == w->most || n->probability <= g->next[i - 1].probability);
        for (size_t v = 0; v < g->vocab && i == 0; v++)
            assert_true((double)g->model_probabilities[v] <= n->probability);
        if (!n->drawn)
            continue;
        w->drawn[w->steps] = n->probability;
        memcpy(w->text + strlen(w->text), n->text, n->len);
        drawn++;
    }
    assert_int_equal(drawn, 1);
    w->steps++;
    return true;
}

/* What is shown is the model's, whatever is drawn from. */
static void shows_next(void **state)
{
    (void)state;
    qkv_pipeline_generate_options o = qkv_pipeline_generate_defaults();
    watched greedy = {.most = 4}, wild = {.most = 1};
    o.prompt = "the cat";
    o.tokens = 6;
    o.greedy = true;
    o.show_next = 4;
    assert_int_equal(qkv_pipeline_generate(of(LM), &o, watch_next, &greedy), QKV_OK);
    o.greedy = false;
    o.sampling.temperature = 5;
    o.sampling.repetition_penalty = 2;
    o.show_next = 1;
    assert_int_equal(qkv_pipeline_generate(of(LM), &o, watch_next, &wild), QKV_OK);
    assert_true(greedy.steps == 6 && wild.steps > 0);
    assert_memory_equal(greedy.first, wild.first, sizeof greedy.first);
    assert_true(greedy.drawn[0] < 0.999); /* greedy is no certainty */
    assert_string_equal(greedy.text, greedy.whole);
    assert_string_equal(wild.text, wild.whole);
    o.show_next = 1001;
    expect(qkv_pipeline_generate(of(LM), &o, watch_next, &wild), QKV_E_ARGUMENT, "1001");
}

static void continues(void **state)
{
    (void)state;
    qkv_pipeline_generate_options o = qkv_pipeline_generate_defaults();
    counter c = {0}, again = {0}, stopped = {.stop = 3};
    o.prompt = "the cat";
    o.tokens = 5;
    o.count = 2;
    counter both = {.together = true};
    assert_int_equal(qkv_pipeline_generate(of(LM), &o, on_piece, &both), QKV_OK);
    o.batch = 1;
    assert_int_equal(qkv_pipeline_generate(of(LM), &o, on_piece, &c), QKV_OK);
    assert_int_equal(both.calls, c.calls);
    assert_int_equal(both.ends, 2);
    assert_int_equal(c.ends, 2);
    assert_int_equal(c.calls, 2 * (1 + 5 + 1));
    assert_memory_equal(c.last, "the cat", 7);
    assert_int_not_equal(c.first[0], c.first[1]);
    assert_int_equal(qkv_pipeline_generate(of(LM), &o, on_piece, &again), QKV_OK);
    assert_string_equal(again.last, c.last);
    assert_int_equal(qkv_pipeline_generate(of(LM), &o, on_piece, &stopped), QKV_OK);
    assert_int_equal(stopped.ends, 1); /* prompt, 2 tokens, end */
    assert_int_equal(stopped.calls, 4);
}

static bool on_line(void *user, size_t line, const qkv_translated *found)
{
    counter *c = user;
    assert_int_equal(line, c->calls);
    c->tokens += found->count;
    return ++c->calls != c->stop;
}

static void translates(void **state)
{
    (void)state;
    qkv_pipeline_translate_options o = qkv_pipeline_translate_defaults(of(TRANSLATOR));
    counter all = {0}, file = {0}, two = {.stop = 2}, none = {0};
    assert_int_equal(o.beams, 4);
    o.n_best = 2;
    assert_int_equal(qkv_pipeline_translate(of(TRANSLATOR), corpus, sizeof corpus - 1, &o,
                                            on_line, &all), QKV_OK);
    assert_int_equal(all.calls, 3);
    assert_int_equal(all.tokens, 6);
    put_file(in(folder, "lines"), "a cat\r\n\r\nthe dog\nthe mat", 24);
    FILE *f = fopen(in(folder, "lines"), "rb");
    o.lines = 3; /* two chunks */
    assert_int_equal(qkv_pipeline_translate_file(of(TRANSLATOR), f, "lines", &o, on_line,
                                                 &file), QKV_OK);
    assert_int_equal(file.calls, 4);
    rewind(f);
    assert_int_equal(qkv_pipeline_translate_file(of(TRANSLATOR), f, "lines", &o, on_line,
                                                 &two), QKV_OK);
    assert_int_equal(two.calls, 2);
    fclose(f);
    assert_int_equal(qkv_pipeline_translate(of(TRANSLATOR), "", 0, NULL, on_line, &none),
                     QKV_OK);
    assert_int_equal(none.calls, 0);
    o.n_best = 5;
    expect(qkv_pipeline_translate(of(TRANSLATOR), "a", 1, &o, on_line, &none),
           QKV_E_ARGUMENT, "--n-best");
}

static bool on_mask(void *user, const qkv_filled *f)
{
    counter *c = user;
    assert_int_equal(f->text, c->calls / 2);
    assert_int_equal(f->mask, c->calls % 2);
    assert_int_equal(f->count, 4);
    for (size_t i = 0; i < f->count; i++)
        assert_true(f->best[i].len > 0 && (!i || f->best[i].prob <= f->best[i - 1].prob));
    return ++c->calls != c->stop;
}

static void fills(void **state)
{
    (void)state;
    static const char *const texts[] = {"the [MASK] sat [MASK]", "[MASK] the [MASK]"};
    static const char *const bare = "no mask";
    const qkv_pipeline_fill_options o = {.top_k = 4};
    counter all = {0}, one = {.stop = 1};
    assert_int_equal(qkv_pipeline_fill(of(MASKED), texts, 2, &o, on_mask, &all), QKV_OK);
    assert_int_equal(all.calls, 4);
    assert_int_equal(qkv_pipeline_fill(of(MASKED), texts, 2, &o, on_mask, &one), QKV_OK);
    assert_int_equal(one.calls, 1);
    expect(qkv_pipeline_fill(of(MASKED), &bare, 1, &o, on_mask, &one), QKV_E_ARGUMENT,
           "no [MASK]");
}

static bool on_text(void *user, const qkv_classified *t)
{
    counter *c = user;
    assert_int_equal(t->text, c->calls);
    assert_int_equal(t->classes, 2);
    for (size_t i = 0; i < t->classes; i++)
        assert_true(t->probabilities[i] <= t->probabilities[t->best]);
    return ++c->calls != c->stop;
}

static void classifies(void **state)
{
    (void)state;
    enum { MANY = 300 }; /* more than one batch */
    static qkv_text_pair texts[MANY];
    counter all = {0}, some = {.stop = 5}, lines = {0}, none = {0};
    for (size_t i = 0; i < MANY; i++)
        texts[i] = qkv_text_pair_of("a cat\ta dog", i % 2 ? 11 : 5);
    assert_null(texts[0].second);
    assert_int_equal(texts[1].len, 5);
    assert_int_equal(texts[1].second_len, 5);
    qkv_pipeline *p = of(CLASSIFIER);
    assert_int_equal(qkv_pipeline_classify_texts(p, texts, MANY, on_text, &all), QKV_OK);
    assert_int_equal(all.calls, MANY);
    assert_int_equal(qkv_pipeline_classify_texts(p, texts, MANY, on_text, &some), QKV_OK);
    assert_int_equal(some.calls, 5);
    assert_int_equal(qkv_pipeline_classify_texts(p, NULL, 0, on_text, &none), QKV_OK);
    put_file(in(folder, "lines"), corpus, sizeof corpus - 1);
    assert_int_equal(qkv_pipeline_classify_lines(p, in(folder, "lines"), on_text, &lines), QKV_OK);
    assert_int_equal(lines.calls, 3);
    put_file(in(folder, "nothing"), "", 0);
    expect(qkv_pipeline_classify_lines(p, in(folder, "nothing"), on_text, &none), QKV_E_FORMAT,
           "the file is empty");
    assert_string_equal(qkv_pipeline_label(p, 1), "y");
    assert_string_equal(qkv_pipeline_label(p, 2), "LABEL_2");
}

static void forecasts(void **state)
{
    (void)state;
    static const char csv[] = "y,z,x\n1,9,2\n2,9,3\n3,9,4\n4,9,5\n";
    qkv_array history, out, far;
    qkv_pipeline *p = of(FORECASTER);
    put_file(in(folder, "csv"), csv, sizeof csv - 1);
    const char *path = in(folder, "csv");
    assert_int_equal(qkv_pipeline_forecast_file(p, path, NULL, &history, &out), QKV_OK);
    assert_int_equal(out.shape[0], 3);
    assert_int_equal(out.shape[1], 2);
    assert_string_equal(out.names[0], "x"); /* in the model's order */
    assert_true(history.data[0] == 2 && history.data[1] == 1);
    assert_int_equal(qkv_pipeline_forecast(p, &history,
                                           &(qkv_pipeline_forecast_options){.horizon = 7}, &far),
                     QKV_OK);
    assert_int_equal(far.shape[0], 7);
    assert_memory_equal(far.data, out.data, 6 * sizeof *out.data);
    qkv_array_free(&far);
    history.shape[1] = 1;
    expect(qkv_pipeline_forecast(p, &history, NULL, &far), QKV_E_ARGUMENT, "(rows, 2) expected");
    assert_null(far.data);
    history.shape[1] = 2;
    qkv_array_free(&history);
    qkv_array_free(&out);
    put_file(in(folder, "short"), "x,y\n1,2\n", 8);
    path = in(folder, "short");
    expect(qkv_pipeline_forecast_file(p, path, NULL, &history, &out), QKV_E_ARGUMENT, path);
    assert_null(history.data);
}

/* ---- evaluation ---------------------------------------------------------------------------- */

static void evaluates(void **state)
{
    (void)state;
    static const char labelled[] = "y\tthe cat\nx\ta dog\n";
    static const char *const units[] = {"tokens", "tokens", "words", "texts", "windows"};
    char numbers[4000] = "x,y\n";
    for (int i = 0; i < 60; i++)
        snprintf(numbers + strlen(numbers), 40, "%d,%d\n", i % 7, i % 5);
    put_file(in(folder, "text"), corpus, sizeof corpus - 1);
    put_file(in(folder, "labelled"), labelled, sizeof labelled - 1);
    put_file(in(folder, "numbers"), numbers, strlen(numbers));
    static const char *const files[] = {"text", "text", "text", "labelled", "numbers"};
    for (int i = 0; i < KINDS; i++) {
        qkv_pipeline_evaluate_options o = qkv_pipeline_evaluate_defaults();
        qkv_metrics m;
        expect(qkv_pipeline_evaluate(of(i), NULL, &m), QKV_E_IO, "no held-out data");
        *(i == TRANSLATOR ? &o.source : &o.file) = in(folder, files[i]);
        if (i == TRANSLATOR)
            o.target = in(folder, files[i]);
        if (qkv_pipeline_evaluate(of(i), &o, &m))
            fail_msg("%s", qkv_context_message(ctx));
        assert_string_equal(m.unit, units[i]);
        assert_true(m.count > 2 && m.scored > 0);
        o.images = "images";
        expect(qkv_pipeline_evaluate(of(i), &o, &m), QKV_E_ARGUMENT, "--images and --masks");
    }
}

/* ---- what is refused ------------------------------------------------------------------------ */

static qkv_status generate(qkv_pipeline *p, counter *c)
{
    return qkv_pipeline_generate(p, NULL, on_piece, c);
}
static qkv_status translate(qkv_pipeline *p, counter *c)
{
    return qkv_pipeline_translate(p, "a\nb", 3, NULL, on_line, c);
}
static qkv_status fill(qkv_pipeline *p, counter *c)
{
    static const char *const texts[] = {"a [MASK] b [MASK]", "[MASK] [MASK]"};
    return qkv_pipeline_fill(p, texts, 2, &(qkv_pipeline_fill_options){.top_k = 4}, on_mask, c);
}
static qkv_status classify(qkv_pipeline *p, counter *c)
{
    const qkv_text_pair texts[] = {qkv_text_pair_of("a", 1), qkv_text_pair_of("b", 1)};
    return qkv_pipeline_classify_texts(p, texts, 2, on_text, c);
}
static qkv_status forecast(qkv_pipeline *p, counter *c)
{
    const qkv_array none = {0};
    qkv_array out;
    (void)c;
    qkv_status status = qkv_pipeline_forecast(p, &none, NULL, &out);
    assert_null(out.data);
    return status;
}

static const struct {
    qkv_status (*run)(qkv_pipeline *p, counter *c);
    const char *words;
} tasks[KINDS] = {{generate, "does not continue text"}, {translate, "does not translate"},
                  {fill, "does not guess hidden words"}, {classify, "does not classify texts"},
                  {forecast, "does not forecast"}};

static void wrong_kinds(void **state)
{
    (void)state;
    counter c = {0};
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < KINDS; k++)
            if (i != k)
                expect(tasks[i].run(of(k), &c), QKV_E_UNSUPPORTED, tasks[i].words);
    assert_int_equal(c.calls, 0);
}

static bool refuse(void *user, const qkv_event *event)
{
    int *heard = user;
    *heard += event->kind == QKV_EVENT_PROGRESS;
    return event->kind == QKV_EVENT_WORKING;
}

static void cancelled(void **state)
{
    (void)state;
    for (int i = 0; i < FORECASTER; i++) {
        counter c = {0};
        int heard = 0;
        qkv_context_on_event(ctx, refuse, &heard);
        expect(tasks[i].run(of(i), &c), QKV_E_CANCELLED, "stopped");
        assert_true(heard == 1 && c.ends == 0);
        qkv_context_on_event(ctx, NULL, NULL);
    }
}

/* Bytes that are no text: tokens of bytes keep them, other tokenizers pass over them. */
static void hostile_text(void **state)
{
    (void)state;
    qkv_pipeline_generate_options o = qkv_pipeline_generate_defaults();
    const qkv_text_pair text = qkv_text_pair_of(hostile, sizeof hostile - 1);
    const char *one = hostile;
    counter bytes = {0}, line = {0}, label = {0}, none = {0};
    o.tokens = 3;
    o.prompt = hostile;
    assert_int_equal(qkv_pipeline_generate(of(LM), &o, on_piece, &bytes), QKV_OK);
    assert_memory_equal(bytes.last, hostile, sizeof hostile - 1);
    o.prompt = "";
    expect(qkv_pipeline_generate(of(LM), &o, on_piece, &none), QKV_E_ARGUMENT, "prompt");
    assert_int_equal(qkv_pipeline_translate(of(TRANSLATOR), hostile, sizeof hostile - 1,
                                            NULL, on_line, &line), QKV_OK);
    assert_int_equal(line.calls, 1);
    assert_int_equal(qkv_pipeline_classify_texts(of(CLASSIFIER), &text, 1, on_text, &label),
                     QKV_OK);
    assert_int_equal(label.calls, 1);
    expect(qkv_pipeline_fill(of(MASKED), &one, 1, NULL, on_mask, &none), QKV_E_ARGUMENT,
           "no [MASK]");
}

/* The n-th allocation fails, in opening and in each task. */
static void out_of_memory(void **state)
{
    (void)state;
    qkv_pipeline *p;
    size_t failures = 0;
    (void)of(MASKED);
    for (size_t n = 0;; n += 1 + n / 16) {
        counter c = {0};
        memory.left = n;
        qkv_status status = qkv_pipeline_open(&p, ctx, in(folder, "words"));
        if (!status)
            status = fill(p, &c);
        else
            assert_null(p);
        qkv_pipeline_close(p);
        if (!status)
            break;
        assert_int_equal(status, QKV_E_MEMORY);
        failures++;
    }
    memory.left = SIZE_MAX;
    assert_true(failures > 10);
}

/* A directory without a tokenizer opens: its model can be used, its tasks say what is missing. */
static void without_tokenizer(void **state)
{
    (void)state;
    qkv_pipeline *p;
    counter c = {0};
    (void)of(LM);
    unlink(in(folder, "lm/tokenizer.json"));
    unlink(in(folder, "lm/vocab.json"));
    unlink(in(folder, "lm/merges.txt"));
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "lm")), QKV_OK);
    assert_non_null(qkv_pipeline_model(p));
    assert_null(qkv_pipeline_tokenizer(p));
    assert_int_not_equal(qkv_pipeline_generate(p, NULL, on_piece, &c), QKV_OK);
    assert_non_null(strstr(qkv_context_message(ctx), "no tokenizer"));
    qkv_pipeline_close(p);
    expect(qkv_pipeline_open(&p, ctx, in(folder, "no-such")), QKV_E_IO, "no-such");
    assert_null(p);
}

/* One description a setting: by flag and by key the same field. */
static void set_by_name(void **state)
{
    (void)state;
    qkv_options *options;
    qkv_pipeline_generate_options g;
    qkv_pipeline_translate_options t;
    assert_int_equal(qkv_options_create(&options, ctx), QKV_OK);
    assert_int_equal(qkv_options_bind(options, qkv_pipeline_generate_table(), &g), QKV_OK);
    assert_int_equal(qkv_options_bind(options, qkv_pipeline_translate_table(), &t), QKV_OK);
    assert_int_equal(qkv_options_set(options, "top-k", "7"), QKV_OK);
    assert_int_equal(qkv_options_set(options, "top_p", "0.5"), QKV_OK);
    assert_int_equal(qkv_options_set(options, "seed", "11"), QKV_OK);
    t = qkv_pipeline_translate_defaults(of(TRANSLATOR));
    assert_int_equal(qkv_options_set(options, "n_best", "3"), QKV_OK);
    assert_int_equal(g.sampling.top_k, 7);
    assert_true(g.sampling.top_p == 0.5 && g.seed == 11 && g.tokens == 256);
    assert_true(t.n_best == 3 && t.max_length == 0);
    assert_int_equal(qkv_options_set(options, "temperature", "-1"), QKV_E_ARGUMENT);
    qkv_options_destroy(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(continues), cmocka_unit_test(shows_next),
        cmocka_unit_test(translates), cmocka_unit_test(fills),
        cmocka_unit_test(classifies), cmocka_unit_test(forecasts), cmocka_unit_test(evaluates),
        cmocka_unit_test(wrong_kinds), cmocka_unit_test(cancelled), cmocka_unit_test(hostile_text),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(without_tokenizer), cmocka_unit_test(set_by_name)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, close_all);
}
