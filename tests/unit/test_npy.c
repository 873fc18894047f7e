/* test_npy.c - arrays from NumPy's files and from text, and NumPy's bytes from ours. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "qkv/npy.h"

#define GOLDEN(name) QKV_SOURCE_DIR "/tests/golden/io/" name

static qkv_array must_load(const char *path)
{
    qkv_array a;
    if (qkv_array_load(&a, ctx, path))
        fail_msg("%s", qkv_context_message(ctx));
    return a;
}

/* Every file but the booleans holds i * scale, i counting the (2, 3, 4) numbers in C order. */
static void every_type_order_and_version(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        double scale;
    } files[] = {{GOLDEN("f2.npy"), 0.25}, {GOLDEN("f4.npy"), 0.25}, {GOLDEN("f8.npy"), 0.25},
                 {GOLDEN("fortran.npy"), 0.25}, {GOLDEN("v2.npy"), 0.25}, {GOLDEN("v3.npy"), 0.25},
                 {GOLDEN("i1.npy"), 1}, {GOLDEN("u1.npy"), 1}, {GOLDEN("i2.npy"), 1},
                 {GOLDEN("u2.npy"), 1}, {GOLDEN("i4.npy"), 1}, {GOLDEN("u4.npy"), 1},
                 {GOLDEN("i8.npy"), 1}, {GOLDEN("u8.npy"), 1}};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        qkv_array a = must_load(files[k].path);
        assert_true(a.ndim == 3 && a.shape[0] == 2 && a.shape[1] == 3 && a.shape[2] == 4);
        assert_int_equal(a.count, 24);
        for (size_t i = 0; i < 24; i++)
            assert_true(a.data[i] == (qkv_real)((double)i * files[k].scale));
        qkv_array_free(&a);
    }
    qkv_array a = must_load(GOLDEN("b1.npy"));
    for (size_t i = 0; i < 24; i++)
        assert_true(a.data[i] == (qkv_real)(i % 2));
    qkv_array_free(&a);
    a = must_load(GOLDEN("scalar.npy"));
    assert_true(a.ndim == 0 && a.count == 1 && a.data[0] == 2.5);
    qkv_array_free(&a);
    a = must_load(GOLDEN("vector.npy"));
    assert_true(a.ndim == 1 && a.shape[0] == 5 && a.data[4] == 4);
    qkv_array_free(&a);
}

static void the_writer_gives_numpys_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        qkv_store store;
    } files[] = {{GOLDEN("f2.npy"), QKV_STORE_F16}, {GOLDEN("f4.npy"), QKV_STORE_F32},
                 {GOLDEN("f8.npy"), QKV_STORE_F64}, {GOLDEN("scalar.npy"), QKV_STORE_F32},
                 {GOLDEN("vector.npy"), QKV_STORE_F32}};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        const char *path = in(folder, "x.npy");
        size_t size, golden_size;
        qkv_array a = must_load(files[k].path);
        assert_int_equal(qkv_npy_save(ctx, path, a.ndim, a.shape, a.data, files[k].store), QKV_OK);
        char *ours = take_file(path, &size), *golden = take_file(files[k].path, &golden_size);
        assert_int_equal(size, golden_size);
        assert_memory_equal(ours, golden, size);
        free(ours);
        free(golden);
        qkv_array_free(&a);
    }
    assert_int_equal(qkv_npy_save(ctx, in(folder, "x"), 0, NULL, NULL, QKV_STORE_BF16),
                     QKV_E_ARGUMENT);
}

/* A version 1 file of that header and n zero bytes. */
static const char *npy_file(const char *header, size_t n)
{
    static char bytes[2000];
    const char *path = in(folder, "made.npy");
    size_t length = strlen(header);
    memcpy(bytes, "\x93NUMPY\x01", 8);
    bytes[8] = (char)(length & 0xff);
    bytes[9] = (char)(length >> 8);
    memcpy(bytes + 10, header, length);
    memset(bytes + 10 + length, 0, n);
    put_file(path, bytes, 10 + length + n);
    return path;
}

static void headers_in_other_clothes(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t bytes, count;
    } cases[] = {{"{\"shape\":(2,3L),\"descr\":\"<f4\",\"fortran_order\":False}", 24, 6},
                 {"{'fortran_order': True, 'descr': '=i2', 'shape': (4,)}\n\n  ", 8, 4},
                 {"{'descr': '<f8', 'fortran_order': False, 'shape': ( ) , }", 8, 1},
                 {"{'descr': '<f8', 'fortran_order': True, 'shape': (0, 5)}", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_array a = must_load(npy_file(cases[i].header, cases[i].bytes));
        assert_int_equal(a.count, cases[i].count);
        qkv_array_free(&a);
    }
}

static void malformed_headers_get_one_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t bytes;
        const char *says;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4, "found >f4"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, "found |O"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4, "plain type"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4, "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, "a size in 'shape'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", 4, "a tuple in 'shape'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", 4, "unknown key 'x'"},
        {"{'descr': '<f4', 'shape': (1,)}", 4, "key 'fortran_order' is missing"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 4, "expected 2 numbers"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4, "nothing after '}'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0,
         "'shape' is too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", 0,
         "expected 4611686018427387904 numbers"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 0,
         "a smaller size"},
        {"", 0, "'{'"},
        {"{", 0, "a key"},
        {"{'descr", 0, "a key"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_array a;
        const char *path = npy_file(cases[i].header, cases[i].bytes);
        assert_int_not_equal(qkv_array_load(&a, ctx, path), QKV_OK);
        if (!strstr(qkv_context_message(ctx), cases[i].says))
            fail_msg("%s", qkv_context_message(ctx));
        assert_non_null(strstr(qkv_context_message(ctx), path));
        assert_null(a.data);
    }
}

static qkv_array text(const char *words)
{
    const char *path = in(folder, "x.csv");
    put_file(path, words, strlen(words));
    return must_load(path);
}

static void text_between_separators(void **state)
{
    (void)state;
    static const char *const words[] = {"1,2.5,-3e2\n4,5,6\n", "1;2.5;-300\r\n4;5;6",
                                        "# comment\n\n  1\t2.5\t-300\n4\t5\t6\n\n",
                                        "\xef\xbb\xbf 1  2.5 -300 \n 4 5 6 \n",
                                        "a,\"b c\",d\n1, 2.5 ,-300\n4,5,6\n"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        qkv_array a = text(words[k]);
        assert_true(a.ndim == 2 && a.shape[0] == 2 && a.shape[1] == 3 && a.count == 6);
        assert_true(a.data[1] == 2.5 && a.data[2] == -300 && a.data[5] == 6);
        assert_true(!a.names == (k < 4));
        if (a.names)
            assert_string_equal(a.names[1], "b c");
        qkv_array_free(&a);
    }
}

static void malformed_text_names_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *words, *says;
    } cases[] = {{"1,2\n\n3\n", "line 3: expected 2 columns, found 1"},
                 {"1,2\n3,4,5\n", "line 2: expected 2 columns, found 3"},
                 {"1,2\n3,x\n", "line 2, column 2: expected a number, found \"x\""},
                 {"1,2\n3,\n", "line 2, column 2: expected a number, found \"\""},
                 {"a,b\nc,d\n", "line 2, column 1 (a): expected a number, found \"c\""},
                 {"a,b\n1\n", "line 2: expected 2 columns, found 1"},
                 {"a,b\n", "expected rows of numbers, found none"},
                 {"", "expected rows of numbers, found none"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_array a;
        const char *path = in(folder, "x.csv");
        put_file(path, cases[i].words, strlen(cases[i].words));
        assert_int_equal(qkv_array_load(&a, ctx, path), QKV_E_FORMAT);
        if (!strstr(qkv_context_message(ctx), cases[i].says))
            fail_msg("%s", qkv_context_message(ctx));
        assert_non_null(strstr(qkv_context_message(ctx), path));
    }
}

static void columns_that_were_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        const char *columns[3];
        const char *says; /* NULL: -300 and 2.5 are found, under these names */
        const char *names[2];
    } cases[] = {
        {"a,b,day\n2.5,-300,monday\n4,5,\n", {"b", "a"}, NULL, {"b", "a"}},
        {"\"\",\"a b\",\"c\"\n\"1\",\"2.5\",-300\n\"2\",4,5\n", {"c", "a b"}, NULL,
         {"c", "a b"}},
        {"\"a, b\" ,\"the \"\"c\"\"\",d\n2.5, \"-300\" ,\"x,\"\",y\"\n4,5,\"\"\n",
         {"the \"c\"", "a, b"}, NULL, {"the \"c\"", "a, b"}},
        {"\"a,b;c\"\t\"d\"\n2.5\t\"-300\"\n", {"d", "a,b;c"}, NULL, {"d", "a,b;c"}},
        {"\"a b\" \"c,d\"  e\n2.5 \"-300\" \"\"\n", {"c,d", "a b"}, NULL, {"c,d", "a b"}},
        {"5\",\"x\"y,z\n2.5,-300,1\n", {"\"x\"y", "5\""}, NULL, {"\"x\"y", "5\""}},
        {"\"a,b\n-300,2.5\n", {"\"a", "b"}, NULL, {"\"a", "b"}}, /* no second quote */
        {"2.5;-300;7\n4;5;6\n", {"2", "1"}, NULL, {NULL}},
        {"3,b,1\n2.5,-300,7\n", {"2", "3"}, NULL, {"b", "3"}}, /* a name before a number */
        {"-300,2.5\n4,5\n", {"b", "a"}, NULL, {NULL}},
        {"a,b\n1,2\n", {"c"}, "no column \"c\", there are 2: a, b", {NULL}},
        {"1,2\n", {"3"}, "no column \"3\", there are 2 without names", {NULL}},
        {"1,2\n", {"0"}, "no column \"0\"", {NULL}},
        {"a,b\n1,2\n", {"b", "2"}, "column \"2\" is named twice", {NULL}},
        {"a,b\n1,2\n3,\n", {"b"}, "line 3, column 2 (b): expected a number, found \"\"", {NULL}},
        {"a,b\n1,2\n3,nan\n", {NULL}, "column 2 (b): expected a finite number, found \"nan\"",
         {NULL}},
        {"a,b\n1,2\n3\n", {"a"}, "line 3: expected 2 columns, found 1", {NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_array a;
        size_t n = 0;
        const char *path = in(folder, "x.csv");
        put_file(path, cases[i].words, strlen(cases[i].words));
        while (cases[i].columns[n])
            n++;
        qkv_status status = qkv_csv_load_columns(&a, ctx, path, cases[i].columns, n);
        bool said = cases[i].says && strstr(qkv_context_message(ctx), cases[i].says);
        if (cases[i].says ? !status || !said : status != QKV_OK)
            fail_msg("case %zu: %s", i, qkv_context_message(ctx));
        if (status)
            continue;
        assert_true(a.shape[1] == 2 && a.count == 2 * a.shape[0]);
        assert_true(a.data[0] == -300 && a.data[1] == 2.5);
        for (size_t k = 0; k < 2 && a.names; k++)
            assert_string_equal(a.names[k], cases[i].names[k]);
        assert_true(!a.names == !cases[i].names[0]);
        qkv_array_free(&a);
    }
}

/* As NumPy writes an int32 array of 2 x 3: read again, it is the same. */
static void whole_numbers_are_saved_as_such(void **state)
{
    (void)state;
    const size_t shape[] = {2, 3};
    const qkv_real numbers[] = {0, 1, -2, 3, 16777215, 70000};
    qkv_array a;
    size_t size;
    assert_int_equal(qkv_npy_save(ctx, in(folder, "i"), 2, shape, numbers, QKV_STORE_I32), QKV_OK);
    char *file = take_file(in(folder, "i"), &size);
    assert_int_equal(size, 128 + 6 * 4);
    assert_non_null(strstr(file + 10, "'descr': '<i4'"));
    const int32_t last = 70000;
    assert_memory_equal(file + size - 4, &last, 4);
    free(file);
    assert_int_equal(qkv_npy_load(&a, ctx, in(folder, "i")), QKV_OK);
    assert_true(a.ndim == 2 && a.shape[1] == 3);
    assert_memory_equal(a.data, numbers, sizeof numbers);
    qkv_array_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_type_order_and_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_writer_gives_numpys_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whole_numbers_are_saved_as_such, set_up, tear_down),
        cmocka_unit_test_setup_teardown(headers_in_other_clothes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_headers_get_one_sentence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(text_between_separators, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_text_names_the_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(columns_that_were_asked_for, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
