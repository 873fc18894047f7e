/* Templates: what jinja2 gives and refuses (tests/golden/jinja.json), what is refused by name, and
 * that hostile ones end with a sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "fixture.h"
#include "io/json.h"
#include "jinja/jinja.h"

static void check(qkv_status status)
{
    if (status)
        fail_msg("%s", qkv_context_message(ctx));
}

/* The text of a template with variables (JSON); NULL: refused. Valid until the next call. */
static const char *render(const char *source, size_t length, const json_t *variables)
{
    static char text[1 << 16];
    qkv__jinja *t;
    qkv_text out = {0};
    if (qkv__jinja_open(&t, ctx, "template", source, length))
        return NULL;
    qkv_status status = qkv__jinja_render(t, variables, 0, &out, NULL);
    assert_true(out.len < sizeof text);
    snprintf(text, sizeof text, "%.*s", (int)out.len, out.data ? out.data : "");
    qkv_text_free(&out, ctx);
    qkv__jinja_close(t);
    return status ? NULL : text;
}

static void test_golden(void **state)
{
    qkv__json file;
    (void)state;
    check(qkv__json_load(&file, ctx, QKV_SOURCE_DIR "/tests/golden/jinja.json"));
    const json_t *cases = json_object_get(file.value, "cases"), *one;
    size_t i, texts = 0;
    json_array_foreach(cases, i, one) {
        const json_t *source = json_object_get(one, "template");
        const char *expected = json_string_value(json_object_get(one, "text"));
        const char *found = render(json_string_value(source), json_string_length(source),
                                   json_object_get(file.value, "context"));
        if (!expected != !found || (found && strcmp(expected, found) != 0))
            fail_msg("%s\nexpected %s\nfound    %s\n%s", json_string_value(source),
                     expected ? expected : "a refusal", found ? found : "a refusal",
                     found ? "" : qkv_context_message(ctx));
        texts += expected != NULL;
    }
    assert_true(i > 200 && texts > 140);
    qkv__json_free(&file);
}

/* A string of a million characters, and two loops of ten million rounds. */
#define LONG "{% set s = ('a' * 1000) * 1000 %}"
#define LOOP "{% for i in range(9999) %}{% for j in range(1000) %}"
#define ENDS "{% endfor %}{% endfor %}"

/* A template that is refused, and a part of the sentence. */
static const struct {
    const char *source, *sentence;
} refused[] = {
    {"a\n{{ x | nope }}", "template: line 2 of the template: filter \"nope\" is not known"},
    {"{{ x is nope }}", "test \"nope\" is not known"},
    {"{% include 'x' %}", "tag \"include\" is not known"},
    {"\n\n{{ nope(1) }}", "line 3 of the template: function \"nope\" is not known"},
    {"{{ 'a'.nope() }}", "function \"nope\" is not known"},
    {"{% for i in [1] %}{{ loop.cycle(1) }}{% endfor %}", "loop.cycle is not known"},
    {"{{ raise_exception('only\nusers') }}", "the template refuses this: only?users"},
    {"{{ missing.a }}", "\"missing\" is undefined, and has no .a"},
    {"{% if 1 %}\n\n", "line 2 of the template: endif expected, found the end"},
    {"{{ 1 + }}", "a value expected, found \"}}\""},
    {"{{ 99999999999999999999 }}", "a number is too long"},
    {"{{ 9000000000000000000 * 2 }}", "too l"},
    {"{% for i in 3 %}{% endfor %}", "an integer cannot be iterated over"},
    {"{% set x = namespace() %}{% set x.__class__.y = 1 %}", "expected"},
    {"{% for (a, 1) in [] %}{% endfor %}", "a name expected"},
    {"{% for (a, (b, c)) in [[1, 2]] %}{% endfor %}", "an integer cannot be iterated over"},
    /* Hostile: time, memory, depth. */
    {"{% for i in range(10**9) %}{% endfor %}", "at most 100000 numbers expected"},
    {"{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}", "is stopped"},
    {"{{ 'aaaaaaaaaaaaaaaa' * 10**12 }}", "is stopped"},
    {"{{ [0] * 10**12 }}", "is stopped"},
    {"{{ ('a' * 10**7) * 10**9 }}", "is stopped"},
    {"{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
     "is stopped"},
    {"{% set n = namespace(l=[]) %}{% for i in range(99) %}{% set n.l = [n.l, n.l] %}{% endfor %}"
     "{{ n.l == n.l[0] }}{{ n.l | tojson }}", "is stopped"},
    {"{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}"
     "{{ n.l }}", "cannot be printed"},
    {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "within each other"},
    {"{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}", "within each other"},
    {"{{ ('ab' * 1000000).replace('a', 'b' * 1000000) }}", "is stopped"},
    {"{% for i in range(99999) %}{% if 'b' in 'a' * 9000 %}{% endif %}{% endfor %}", "is stopped"},
    {LONG "{{ (s ~ 'b') in (s ~ s) }}", "is stopped"},
    {LONG "{{ (s ~ s).rfind(s) }}", "is stopped"},
    {LONG "{{ (s ~ s).count(s ~ 'b') }}", "is stopped"},
    {LONG "{{ (s ~ s).rsplit(s ~ 'b') }}", "is stopped"},
    {LONG "{{ s.strip('b' * 1000000 ~ s) }}", "is stopped"},
    {LONG LOOP "{% if s.strip('a') or s < s or s.startswith(s) %}{% endif %}" ENDS, "is stopped"},
    {LONG LOOP "{% if s.isalpha() and s.splitlines() %}{% endif %}" ENDS, "is stopped"},
    {"{% set l = [0] * 100000 %}" LOOP "{% if l | sum %}{% endif %}" ENDS, "is stopped"},
    {"{% set l = [0] * 100000 %}" LOOP "{% if l | select | first %}{% endif %}" ENDS, "is stopped"},
    {"{{ 2 ** 10**9 }}", "too large"}, {"{{ 1 ** 1000000000000 }}", "is stopped"},
};

static void test_refused(void **state)
{
    json_t *none = json_object();
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *source = refused[i].source, *found = render(source, strlen(source), none);
        if (found || !strstr(qkv_context_message(ctx), refused[i].sentence))
            fail_msg("%s: %s", source, found ? found : qkv_context_message(ctx));
    }
    json_decref(none);
}

/* Brackets, tags, signs and operators within each other, thousands of them. */
static void test_deep(void **state)
{
    static const char *const parts[][3] = {
        {"{{ ", "(", "1"}, {"{{ ", "[", "1"}, {"{{ ", "{1:", "1"}, {"{{ ", "not ", "1 }}"},
        {"{{ ", "-", "1 }}"}, {"{{ a", "(", "1"}, {"{{ a", "[", "1"}, {"{{ 1", "+1", " }}"},
        {"{{ 1", " if 1 else 1", " }}"}, {"{{ 1", "|string", " }}"}, {"", "{% if 1 %}", ""},
        {"{% filter trim", "|trim", " %}1{% endfilter %}"},
        {"{% set x | trim", "|trim", " %}1{% endset %}{{ x }}"}, {"{% for ", "(", "a"},
        {"", "{% for i in x %}", ""}, {"", "{% set x %}", ""}, {"{{ a", ".b", " }}"},
        {"{{ 1", " and 1", " }}"}, {"{{ 1", " ** 1", " }}"}, {"{{ 1", " < 2", " }}"}};
    static char source[1 << 20];
    json_t *none = json_object();
    enum { ROUNDS = 60000 };
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *at = stpcpy(source, parts[i][0]);
        for (size_t k = 0; k < ROUNDS; k++)
            at = stpcpy(at, parts[i][1]);
        (void)stpcpy(at, parts[i][2]);
        const char *found = render(source, strlen(source), none);
        if (found ? strcmp(found, "False") != 0 && strcmp(found, "1") != 0
                  : !strstr(qkv_context_message(ctx), "template"))
            fail_msg("%s: %s", parts[i][1], found ? found : qkv_context_message(ctx));
    }
    json_decref(none);
}

/* The bytes that the model says, with marks in a loop. */
static void test_spans(void **state)
{
    static const char source[] =
        "{% for m in ['a', 'bc'] %}u:{% generation %}{{ m }}\n{% endgeneration %}{% endfor %}.";
    json_t *none = json_object();
    qkv__jinja *t;
    qkv__jinja_spans spans = {0};
    qkv_text out = {0};
    (void)state;
    check(qkv__jinja_open(&t, ctx, "template", source, strlen(source)));
    assert_true(qkv__jinja_marks(t));
    check(qkv__jinja_render(t, none, 0, &out, &spans));
    assert_string_equal(out.data, "u:a\nu:bc\n.");
    assert_int_equal(spans.count, 2);
    const size_t ends[] = {2, 4, 6, 9};
    assert_memory_equal(spans.ends, ends, sizeof ends);
    qkv_free(ctx, spans.ends);
    qkv_text_free(&out, ctx);
    qkv__jinja_close(t);
    static const char macro[] = "{% macro m() %}{% generation %}a{% endgeneration %}{% endmacro %}"
                                "{{ m() }}";
    check(qkv__jinja_open(&t, ctx, "template", macro, strlen(macro)));
    spans = (qkv__jinja_spans){0};
    assert_int_equal(qkv__jinja_render(t, none, 0, &out, &spans), QKV_E_FORMAT);
    qkv__jinja_close(t);
    json_decref(none);
}

static qkv_status render_once(void *user)
{
    static const char source[] =
        "{% macro m(a) %}{{ a | trim }}{% endmacro %}{% for x in [1, 'b'] %}{{ m(x) }}"
        "{% generation %}{{ {'a': x} | tojson }}{% endgeneration %}{% endfor %}{{ 'x' * 300000 }}";
    qkv__jinja *t;
    qkv__jinja_spans spans = {0};
    qkv_text out = {0};
    qkv_status status = qkv__jinja_open(&t, ctx, "template", source, strlen(source));
    if (!status) {
        status = qkv__jinja_render(t, user, 0, &out, &spans);
        qkv__jinja_close(t);
    }
    qkv_text_free(&out, ctx);
    qkv_free(ctx, spans.ends);
    return status;
}

static void test_memory(void **state)
{
    json_t *none = json_object();
    (void)state;
    size_t failures = 0;
    for (size_t n = 0;; n++) {
        memory.left = n;
        qkv_status status = render_once(none);
        bool failed = memory.left == SIZE_MAX;
        memory.left = SIZE_MAX;
        assert_int_equal(status, failed ? QKV_E_MEMORY : QKV_OK);
        if (!failed)
            break;
        failures++;
    }
    assert_true(failures > 5);
    json_decref(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_refused), cmocka_unit_test(test_deep),
        cmocka_unit_test(test_spans), cmocka_unit_test(test_memory),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
