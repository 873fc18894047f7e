/* test_json.c - reading with sentences that name file and field; writing as Python does. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "fixture.h"
#include "io/json.h"

static qkv__json parse(const char *text)
{
    qkv__json j;
    if (qkv__json_parse(&j, ctx, "c.json", text, strlen(text)))
        fail_msg("%s", qkv_context_message(ctx));
    return j;
}

static void fields_of_every_type(void **state)
{
    (void)state;
    const char *text;
    int64_t n;
    double x;
    bool b;
    qkv__json o, a, item, j = parse(
        "\xef\xbb\xbf{\"s\": \"hej\", \"n\": -3, \"whole\": 4.0, \"x\": 1e-05, \"b\": true, "
        "\"o\": {\"k\": [1, [2, 3]]}, \"z\": null}");
    assert_int_equal(qkv__json_get_string(&j, "s", &text), QKV_OK);
    assert_string_equal(text, "hej");
    assert_int_equal(qkv__json_get_int(&j, "n", -3, 0, &n), QKV_OK);
    assert_int_equal(n, -3);
    assert_int_equal(qkv__json_get_int(&j, "whole", 0, 9, &n), QKV_OK);
    assert_int_equal(n, 4);
    assert_int_equal(qkv__json_get_real(&j, "x", 0, 1, &x), QKV_OK);
    assert_true(x == 1e-05);
    assert_int_equal(qkv__json_get_real(&j, "n", -9, 1, &x), QKV_OK);
    assert_true(x == -3);
    assert_int_equal(qkv__json_get_bool(&j, "b", &b), QKV_OK);
    assert_true(b);
    assert_int_equal(qkv__json_get_object(&j, "o", &o), QKV_OK);
    assert_int_equal(qkv__json_get_array(&o, "k", &a), QKV_OK);
    assert_int_equal(qkv__json_count(&a), 2);
    qkv__json_item(&a, 1, &item);
    assert_int_equal(qkv__json_count(&item), 2);
    assert_string_equal(item.path, "o.k.1");
    assert_true(qkv__json_has(&j, "s") && !qkv__json_has(&j, "z") && !qkv__json_has(&j, "q"));
    n = 7;
    assert_int_equal(qkv__json_opt_int(&j, "z", 0, 9, &n), QKV_OK);
    assert_int_equal(qkv__json_opt_int(&j, "q", 0, 9, &n), QKV_OK);
    assert_int_equal(n, 7);
    assert_int_equal(qkv__json_opt_int(&j, "s", 0, 9, &n), QKV_E_FORMAT);
    qkv__json_free(&j);
}

/* Hugging Face writes a model_max_length that no integer holds: the rest must still be read. */
static void integers_too_large_for_64_bits(void **state)
{
    (void)state;
    int64_t n;
    double x;
    qkv__json j = parse("{\"m\": 1000000000000000019884624838656, \"n\": 50257}");
    assert_int_equal(qkv__json_get_int(&j, "n", 0, 100000, &n), QKV_OK);
    assert_int_equal(n, 50257);
    assert_int_equal(qkv__json_get_real(&j, "m", 0, 1e31, &x), QKV_OK);
    assert_int_equal(qkv__json_get_int(&j, "m", 0, INT64_MAX, &n), QKV_E_FORMAT);
    qkv__json_free(&j);
    /* The others are still integers, and written as such. */
    qkv_json_writer w;
    j = parse("{\"m\": 99999999999999999999, \"n\": 7, \"x\": 0.5, \"a\": [{\"n\": -8}, 9]}");
    qkv_json_writer_init(&w, ctx, 0);
    qkv__json_put_value(&w, NULL, j.value);
    assert_string_equal(qkv_json_writer_text(&w),
                        "{\"m\": 1e+20, \"n\": 7, \"x\": 0.5, \"a\": [{\"n\": -8}, 9]}");
    qkv_json_writer_free(&w);
    qkv__json_free(&j);
}

static void mistakes_name_file_and_field(void **state)
{
    (void)state;
    int64_t n;
    double x;
    const char *text;
    qkv__json o, item, j = parse("{\"s\": \"a\\u0000b\", \"n\": 1.5, \"o\": {\"k\": [true]}}");
    assert_int_equal(qkv__json_get_int(&j, "n", 0, 9, &n), QKV_E_FORMAT);
    assert_string_equal(qkv_context_message(ctx),
                        "c.json: field \"n\": expected an integer, found 1.5");
    assert_int_equal(qkv__json_get_int(&j, "q", 0, 9, &n), QKV_E_FORMAT);
    assert_string_equal(qkv_context_message(ctx),
                        "c.json: field \"q\": expected an integer, found nothing");
    assert_int_equal(qkv__json_get_real(&j, "n", 2, 3, &x), QKV_E_FORMAT);
    assert_string_equal(qkv_context_message(ctx),
                        "c.json: field \"n\": expected a number from 2 to 3, found 1.5");
    assert_int_equal(qkv__json_get_string(&j, "s", &text), QKV_E_FORMAT);
    assert_int_equal(qkv__json_get_object(&j, "o", &o), QKV_OK);
    assert_int_equal(qkv__json_get_array(&o, "k", &o), QKV_OK);
    qkv__json_item(&o, 0, &item);
    assert_int_equal(qkv__json_get_string(&item, NULL, &text), QKV_E_FORMAT);
    assert_string_equal(qkv_context_message(ctx),
                        "c.json: field \"o.k.0\": expected a string, found true");
    assert_int_equal(qkv__json_get_string(&item, "k", &text), QKV_E_FORMAT);
    assert_string_equal(qkv_context_message(ctx),
                        "c.json: field \"o.k.0\": expected an object, found true");
    qkv__json_free(&j);
}

static void what_is_not_json_is_told_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {{"", "c.json: expected JSON, found an empty file"},
                 {"{\"a\": 1,\n \"b\" 2}", "c.json: not JSON: line 2, column 6: "},
                 {"{\"a\": 1} x", "c.json: not JSON: line 1"},
                 {"{\"a\": 1, \"a\": 2}", "duplicate object key"},
                 {"{\"a\": \"\xff\"}", "c.json: not JSON"},
                 {"{\"a\": 1e999}", "c.json: not JSON"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv__json j;
        assert_int_equal(qkv__json_parse(&j, ctx, "c.json", cases[i].text, strlen(cases[i].text)),
                         QKV_E_FORMAT);
        if (!strstr(qkv_context_message(ctx), cases[i].says))
            fail_msg("%s", qkv_context_message(ctx));
        qkv__json_free(&j);
    }
    qkv__json j;
    assert_int_equal(qkv__json_load(&j, ctx, "/no/such.json"), QKV_E_IO);
    assert_null(j.value);
}

static void write_sample(qkv_json_writer *w)
{
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "s", "a\"b\\\n\x01\xc3\xa9\xff\xed\xa0\x80");
    qkv_json_put_int(w, "n", -3);
    qkv_json_put_real(w, "x", 0.1);
    qkv_json_put_real(w, "whole", 10000);
    qkv_json_put_real(w, "eps", 1e-05);
    qkv_json_put_real(w, "third", 1.0 / 3);
    qkv_json_put_float(w, "f", 0.1f);
    qkv_json_put_real(w, "nan", NAN);
    qkv_json_put_bool(w, "b", true);
    qkv_json_begin_array(w, "a");
    qkv_json_put_int(w, NULL, 1);
    qkv_json_begin_object(w, NULL);
    qkv_json_end_object(w);
    qkv_json_end_array(w);
    qkv_json_put_text(w, "e", "[]");
    qkv_json_end_object(w);
}

static void text_is_written_as_python_writes_it(void **state)
{
    (void)state;
    static const struct {
        int indent;
        const char *text;
    } cases[] = {
        {2, "{\n  \"s\": \"a\\\"b\\\\\\n\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
            "\xef\xbf\xbd\",\n  \"n\": -3,\n  \"x\": 0.1,\n  \"whole\": 10000.0,\n"
            "  \"eps\": 1e-05,\n  \"third\": 0.3333333333333333,\n  \"f\": 0.1,\n"
            "  \"nan\": null,\n  \"b\": true,\n  \"a\": [\n    1,\n    {}\n  ],\n  \"e\": []\n}"},
        {0, "{\"s\": \"a\\\"b\\\\\\n\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
            "\xef\xbf\xbd\", \"n\": -3, \"x\": 0.1, \"whole\": 10000.0, \"eps\": 1e-05, "
            "\"third\": 0.3333333333333333, \"f\": 0.1, \"nan\": null, \"b\": true, "
            "\"a\": [1, {}], \"e\": []}"},
        {-1, "{\"s\":\"a\\\"b\\\\\\n\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
             "\xef\xbf\xbd\",\"n\":-3,\"x\":0.1,\"whole\":10000.0,\"eps\":1e-05,"
             "\"third\":0.3333333333333333,\"f\":0.1,\"nan\":null,\"b\":true,"
             "\"a\":[1,{}],\"e\":[]}"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_json_writer w;
        qkv_json_writer_init(&w, ctx, cases[i].indent);
        write_sample(&w);
        assert_string_equal(qkv_json_writer_text(&w), cases[i].text);
        qkv_json_writer_free(&w);
    }
}

static void a_document_goes_through_unchanged(void **state)
{
    (void)state;
    static const char text[] = "{\n  \"z\": [\n    1,\n    -2.5,\n    \"\\u0000\"\n  ],\n  \"a\": "
                               "{\n    \"t\": true,\n    \"f\": false,\n    \"n\": null\n  }\n}";
    qkv_json_writer w;
    qkv__json j;
    put_file(in(folder, "a.json"), text, strlen(text));
    assert_int_equal(qkv__json_load(&j, ctx, in(folder, "a.json")), QKV_OK);
    qkv_json_writer_init(&w, ctx, 2);
    qkv__json_put_value(&w, NULL, j.value);
    assert_string_equal(qkv_json_writer_text(&w), text);
    assert_int_equal(qkv_json_writer_save(&w, in(folder, "b.json")), QKV_OK);
    qkv__json_free(&j);
    size_t size;
    char *saved = take_file(in(folder, "b.json"), &size);
    assert_int_equal(size, strlen(text) + 1);
    assert_memory_equal(saved, text, strlen(text));
    assert_int_equal(saved[size - 1], '\n');
    free(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fields_of_every_type, set_up, tear_down),
        cmocka_unit_test_setup_teardown(integers_too_large_for_64_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes_name_file_and_field, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_json_is_told_by_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(text_is_written_as_python_writes_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_document_goes_through_unchanged, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
