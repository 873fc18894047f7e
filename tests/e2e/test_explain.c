/* `qkv explain` as it is run: the right numbers of the worked example on the page and in JSON, the
 * sections' claims, the user's own matrices, and one sentence for what is wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND QKV_BINARY_DIR "/qkv explain "

enum { OUTPUT_BYTES = 1 << 18 };
static char output[OUTPUT_BYTES];

/* Runs the command with both streams in `output`; its exit code. */
static int run(const char *arguments)
{
    char command[1024];
    (void)snprintf(command, sizeof command, COMMAND "%s 2>&1", arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(output, 1, sizeof output - 1, pipe);
    output[n] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The answer to a run with --json; freed by the caller. */
static json_t *answer(const char *arguments)
{
    char all[512];
    (void)snprintf(all, sizeof all, "--json %s", arguments);
    assert_int_equal(run(all), 0);
    json_t *root = json_loads(output, 0, NULL);
    if (!root)
        fail_msg("no JSON: %.200s", output);
    return root;
}

static double element(const json_t *root, const char *section, const char *key, size_t i, size_t j)
{
    const json_t *matrix = json_object_get(json_object_get(root, section), key);
    const json_t *x = json_array_get(json_array_get(matrix, i), j);
    if (!json_is_number(x))
        fail_msg("%s.%s[%zu][%zu] is no number", section, key, i, j);
    return json_number_value(x);
}

static double number(const json_t *root, const char *section, const char *key)
{
    const json_t *x = json_object_get(json_object_get(root, section), key);
    assert_true(json_is_number(x));
    return json_number_value(x);
}

static void assert_row(const json_t *root, const char *section, const char *key, size_t row,
                       const double *expected, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        double got = element(root, section, key, row, j);
        if (!(fabs(got - expected[j]) <= 0.5e-4 + 1e-9))
            fail_msg("%s.%s[%zu][%zu] is %.6f, not %.4f", section, key, row, j, got, expected[j]);
    }
    const json_t *matrix = json_object_get(json_object_get(root, section), key);
    assert_int_equal(json_array_size(json_array_get(matrix, row)), n);
}

static void test_one_head(void **state)
{
    (void)state;
    json_t *r = answer("head");
    static const struct {
        const char *key;
        size_t row;
        double expected[4];
    } rows[] = {
        {"X", 5, {0.6, 0.7, 0.8, 0.9}},
        {"W_V", 0, {0.9, 1.0, 1.1, 1.2}},
        {"Q", 0, {0.30, 0.40, 0.50, 0.60}},
        {"Q", 1, {0.40, 0.54, 0.68, 0.82}},
        {"K", 0, {0.70, 0.80, 0.90, 1.00}},
        {"K", 1, {0.96, 1.10, 1.24, 1.38}},
        {"V", 0, {1.10, 1.20, 1.30, 1.40}},
        {"V", 1, {1.52, 1.66, 1.80, 1.94}},
        {"output_unscaled", 0, {2.7571, 3.0149, 3.2728, 3.5306}},
        {"output", 0, {2.4965, 2.7295, 2.9625, 3.1955}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_row(r, "head", rows[i].key, rows[i].row, rows[i].expected, 4);
    assert_true(fabs(element(r, "head", "scores", 0, 0) - 1.58) < 1e-5);
    assert_true(fabs(element(r, "head", "scaled", 0, 0) - 0.79) < 1e-5);
    for (size_t i = 0; i < 6; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < 6; j++)
            sum += element(r, "head", "weights", i, j);
        assert_true(fabs(sum - 1.0) < 1e-5);
    }
    assert_true(number(r, "head", "difference") < 1e-5);
    json_decref(r);
}

static void test_two_heads(void **state)
{
    (void)state;
    json_t *r = answer("heads");
    /* Head 1, "cat": both articles, with e^3 / (2 e^3 + 4) each. */
    double article = exp(3.0) / (2.0 * exp(3.0) + 4.0), other = article * exp(-3.0);
    const double weights[] = {article, other, other, other, article, other};
    assert_row(r, "heads", "weights1", 1, weights, 6);
    for (size_t i = 0; i < 6; i++) {
        size_t before = i ? i - 1 : 0;
        assert_true(element(r, "heads", "weights2", i, before) > 0.8);
        double together[8];
        for (size_t j = 0; j < 8; j++) {
            together[j] = 0.0;
            for (size_t k = 0; k < 6; k++)
                together[j] += element(r, "heads", j < 4 ? "weights1" : "weights2", i, k) *
                               element(r, "heads", j < 4 ? "V1" : "V2", k, j % 4);
        }
        assert_row(r, "heads", "concat", i, together, 8);
        assert_row(r, "heads", "output", i, together, 8);
    }
    json_decref(r);
}

static void test_positions(void **state)
{
    (void)state;
    json_t *r = answer("positions");
    static const double pe[] = {0.8415, 0.5403, 0.0100, 0.99995};
    static const double x[] = {1.3415, 0.7403, -0.2900, 1.09995};
    assert_row(r, "positions", "PE_1", 0, pe, 4);
    assert_row(r, "positions", "X_1", 0, x, 4);
    assert_true(fabs(element(r, "positions", "products", 0, 2) -
                     element(r, "positions", "products", 3, 5)) < 1e-5);
    json_decref(r);
}

static void test_claims(void **state)
{
    (void)state;
    json_t *r = answer("select plain cosine --permute");
    assert_true(element(r, "select", "weights", 4, 5) > 1.0 - 1e-6);
    assert_true(element(r, "select", "weights", 0, 5) < 0.5);
    static const double chosen[] = {0, 0, 0, 0, 0, 1};
    assert_row(r, "select", "weights", 5, chosen, 6);
    assert_true(fabs(element(r, "plain", "scores", 1, 4) - 0.96) < 1e-5);
    assert_true(fabs(element(r, "cosine", "cosine", 0, 0) - 0.9937) < 1e-4);
    assert_true(number(r, "order", "change") < 1e-5);
    static const double mat_first[] = {5.3647, 5.8616, 6.3586, 6.8556}; /* by NumPy */
    assert_row(r, "order", "output_positions_permuted", 0, mat_first, 4);
    assert_true(number(r, "order", "change_positions") > 0.1);
    json_decref(r);
}

/* Heights after the last step, and the first step of each rule by hand from (-9, 2.5), where the
 * gradient is (-0.9, 5). */
static void test_optimizers(void **state)
{
    (void)state;
    json_t *r = answer("--optimizers");
    static const struct {
        const char *key;
        double x, y, last;
    } walks[] = {
        {"gradient_descent", -9 + 0.85 * 0.9, 2.5 - 0.85 * 5, 0.01},
        {"momentum", -9 + 0.3 * 0.9, 2.5 - 0.3 * 5, 0.01},
        {"rmsprop", -9 + 0.4 * 3.16228, 2.5 - 0.4 * 3.16228, 0.01}, /* 1/sqrt(1 - 0.9) */
        {"adam", -9 + 0.6, 2.5 - 0.6, 0.1},
    };
    for (size_t i = 0; i < sizeof walks / sizeof *walks; i++) {
        const double x = walks[i].x, y = walks[i].y;
        const double first[] = {x, y, 0.05 * x * x + y * y};
        assert_row(r, "optimizers", walks[i].key, 1, first, 3);
        assert_true(element(r, "optimizers", walks[i].key, 40, 2) < walks[i].last);
    }
    assert_true(element(r, "optimizers", "sgd", 40, 2) < element(r, "optimizers", "sgd", 0, 2));
    json_decref(r);
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#define Q_FILE QKV_BINARY_DIR "/explain_q.csv"
#define K_FILE QKV_BINARY_DIR "/explain_k.csv"
#define V_FILE QKV_BINARY_DIR "/explain_v.csv"

static void test_own_matrices(void **state)
{
    (void)state;
    write_file(Q_FILE, "1,0\n0,1\n");
    write_file(K_FILE, "1,0\n0,2\n");
    write_file(V_FILE, "10,1\n20,3\n");
    json_t *r = answer("--q " Q_FILE " --k " K_FILE " --v " V_FILE " --scale 1");
    double w = 1.0 / (1.0 + exp(-1.0)), u = 1.0 / (1.0 + exp(2.0));
    const double rows[2][2] = {{10 * w + 20 * (1 - w), w + 3 * (1 - w)},
                               {10 * u + 20 * (1 - u), u + 3 * (1 - u)}};
    assert_row(r, "own", "output", 0, rows[0], 2);
    assert_row(r, "own", "output", 1, rows[1], 2);
    json_decref(r);
    r = answer("--q " Q_FILE " --k " K_FILE " --v " V_FILE " --causal --heads 2");
    static const double first[] = {10, 1}, first_weights[] = {1, 0};
    assert_row(r, "own", "output", 0, first, 2);
    assert_row(r, "own", "weights1", 0, first_weights, 2);
    json_decref(r);
    write_file(V_FILE, "10,1\n");
    assert_int_equal(run("--q " Q_FILE " --k " K_FILE " --v " V_FILE), 1);
    assert_non_null(strstr(output, "K has 2 rows and V 1"));
    assert_int_equal(run("--x " V_FILE " --heads 3"), 1);
    assert_int_equal(run("--x no-such-file.csv"), 1);
    assert_non_null(strstr(output, "no-such-file.csv"));
    remove(Q_FILE);
    remove(K_FILE);
    remove(V_FILE);
}

/* The page: its numbers, no line above 80 columns, no colour into a pipe. */
static void test_page(void **state)
{
    (void)state;
    assert_int_equal(run("all"), 0);
    static const char *const wanted[] = {"1.5800", "⎡ 2.4965 2.7295 2.9625 3.1955 ⎤",
                                         "⎡ 2.7571 3.0149 3.2728 3.5306 ⎤", "1.09995", "W_O = I",
                                         "momentum: b"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(output, wanted[i]))
            fail_msg("%s is not on the page", wanted[i]);
    assert_null(strchr(output, '\033'));
    size_t columns = 0;
    for (const char *c = output; *c; c++) {
        columns = *c == '\n' ? 0 : columns + (((unsigned char)*c & 0xc0) != 0x80);
        assert_true(columns <= 80);
    }
    assert_int_equal(run("nonsense"), 2);
    assert_non_null(strstr(output, "no such section"));
}

/* The wrong entries of the printed copy, as text and JSON. */
static void test_errata(void **state)
{
    (void)state;
    json_t *root = answer("--errata"), *errata = json_object_get(root, "errata");
    json_t *entries = json_object_get(errata, "entries"), *first = json_array_get(entries, 0);
    assert_int_equal(json_array_size(entries), 120);
    assert_string_equal(json_string_value(json_object_get(first, "matrix")), "Q");
    assert_true(fabs(json_real_value(json_object_get(first, "right")) - 0.54) < 1e-6);
    assert_true(json_is_true(json_object_get(first, "rounds")));
    assert_true(number(root, "errata", "largest_output") == 3.2);
    json_decref(root);
    assert_int_equal(run("--errata"), 0);
    assert_non_null(strstr(output, "scores = Q K^T: 36 of 36 entries"));
    assert_non_null(strstr(output, "row 1  [1] 1.54 → 1.5800"));
    assert_non_null(strstr(output, "row 1  [3] 0.0001 → 0.0100"));
}

/* The page is written, from files too; what does not go together is told. */
static void test_lesson(void **state)
{
    (void)state;
    char folder[] = "/tmp/qkv-lesson-XXXXXX", arguments[512];
    static const struct {
        const char *arguments;
        int code;
        const char *said;
    } cases[] = {
        {"--x x.csv --wq w.csv --words 'a b c'", 0, ""},
        {"--heads 2 --causal --biases --positions", 0, ""},
        {"--x x.csv --words 'a b'", 1, "--words: 2 words; X has 3 rows"},
        {"--wq w.csv", 1, "w.csv: 2 x 2 numbers; the page needs 4 x 4"},
        {"--heads 3", 1, "divide the width 4"},
        {"--q x.csv --k x.csv --v x.csv", 1, "not --q"},
        {"--scale 0.3", 1, "or --scale 1"},
        {"--words '1 2 3 4 5 6 7 8 9 10 11 12 13'", 1, "1 to 12 expected"},
        {"heads", 2, "takes no sections"},
        {"--errata", 2, "takes no sections"},
    };
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    write_file("x.csv", "1,0\n0,1\n1,1\n");
    write_file("w.csv", "2,0\n0,3\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(arguments, sizeof arguments, "--out page.html %s", cases[i].arguments);
        int code = run(arguments);
        if (code != cases[i].code || !strstr(output, cases[i].said))
            fail_msg("%s: %d, %s", arguments, code, output);
        assert_int_equal(access("page.html", F_OK) == 0, code == 0);
        (void)remove("page.html");
    }
    assert_int_equal(run("--biases"), 2);
    assert_non_null(strstr(output, "go with --out"));
    json_t *root = answer("--out page.html");
    assert_string_equal(json_string_value(json_object_get(root, "out")), "page.html");
    json_decref(root);
    assert_int_equal(remove("page.html") + remove("x.csv") + remove("w.csv"), 0);
    assert_int_equal(chdir("/") + rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_head),   cmocka_unit_test(test_two_heads),
        cmocka_unit_test(test_positions),  cmocka_unit_test(test_claims),
        cmocka_unit_test(test_optimizers), cmocka_unit_test(test_own_matrices),
        cmocka_unit_test(test_page),       cmocka_unit_test(test_errata),
        cmocka_unit_test(test_lesson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
