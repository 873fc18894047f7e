/* test_pipeline_shortlist.c - shortlists through an open directory: made of two files by one call,
 * used by another, which reads the file once; what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipelines_text.h"

static bool count_notes(void *user, const qkv_event *event)
{
    size_t *choices = user;
    if (event->kind == QKV_EVENT_NOTE)
        (void)sscanf(event->text, "the shortlist left %zu of", choices);
    return true;
}

static bool ignore_line(void *user, size_t line, const qkv_translated *found)
{
    (void)user;
    (void)line;
    return found->count > 0;
}

/* How many tokens were left to choose among. */
static size_t translate_with(const char *file, size_t first, size_t best)
{
    size_t choices = 0;
    qkv_pipeline_translate_options o = qkv_pipeline_translate_defaults(of(TRANSLATOR));
    assert_null(o.shortlist);
    assert_true(o.list.first == 1000 && o.list.best == 100);
    o.shortlist = file;
    o.list = (qkv_shortlist_options){first, best};
    o.beams = 1;
    qkv_context_on_event(ctx, count_notes, &choices);
    qkv_status status =
        qkv_pipeline_translate(of(TRANSLATOR), corpus, sizeof corpus - 1, &o, ignore_line, NULL);
    qkv_context_on_event(ctx, NULL, NULL);
    return status ? 0 : choices;
}

static void made_and_used(void **state)
{
    (void)state;
    char dir[PATH_BYTES], text[PATH_BYTES], file[PATH_BYTES], copy[PATH_BYTES];
    qkv_made_shortlist made;
    const qkv_marian_config *c = qkv_model_config(qkv_pipeline_model(of(TRANSLATOR)));
    qkv_make_shortlist_options o = qkv_make_shortlist_defaults();
    (void)snprintf(dir, sizeof dir, "%s", in(folder, "mt"));
    (void)snprintf(text, sizeof text, "%s", in(folder, "text"));
    (void)snprintf(file, sizeof file, "%s", in(folder, "lex"));
    (void)snprintf(copy, sizeof copy, "%s", in(folder, "copy"));
    put_file(text, corpus, sizeof corpus - 1);
    o.source = text;
    assert_int_equal(qkv_make_shortlist(ctx, dir, file, &o, NULL), QKV_E_ARGUMENT);
    o.target = text;
    if (qkv_make_shortlist(ctx, dir, file, &o, &made))
        fail_msg("%s", qkv_context_message(ctx));
    assert_int_equal(made.pairs, 3);
    assert_true(made.sources > 5 && made.entries > made.sources);
    assert_non_null(of(LM)); /* makes its directory */
    assert_int_equal(qkv_make_shortlist(ctx, in(folder, "lm"), copy, &o, &made),
                     QKV_E_UNSUPPORTED);
    put_file(copy, "a b\n", 4);
    size_t some = translate_with(file, 1, 1), all = translate_with(file, c->vocab, 0);
    assert_true(some > 2 && some < c->vocab);
    assert_int_equal(all, c->vocab);
    assert_int_equal(translate_with(NULL, 1, 1), 0);
    assert_int_equal(translate_with(copy, 1, 1), 0);
    assert_non_null(strstr(qkv_context_message(ctx), "line 1: 3 fields expected"));
    assert_int_equal(unlink(file), 0); /* it was read, and is kept */
    assert_int_equal(translate_with(file, 1, 1), some);
    assert_int_equal(translate_with(text, 1, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(made_and_used)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, close_all);
}
