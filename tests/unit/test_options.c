/* test_options.c - option tables: defaults, command lines, messages, help, JSON both ways. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/manual_help.c"
#include "core/manual_completion.c"
#include "base/options.h"
#include "io/json_options.h"

typedef enum { CHAR, BPE } tokenizer;

typedef struct {
    int depth;
    size_t steps;
    uint64_t seed;
    double lr, dropout;
    bool tied, json;
    const char *out;
    tokenizer kind;
    qkv_strings data;
    size_t inner;
} plan;

static const char *const kinds[] = {"char", "bpe", NULL};

static const qkv_option rows[] = {
    {.flag = "depth", .key = "n_layer|num_hidden_layers", .type = QKV_OPT_INT,
     .offset = offsetof(plan, depth), .min = 1, .max = 256, .initial = "12", .help = "blocks"},
    {.flag = "steps", .key = "steps", .type = QKV_OPT_SIZE, .offset = offsetof(plan, steps),
     .initial = "1000", .help = "updates to make"},
    {.flag = "seed", .key = "seed", .type = QKV_OPT_U64, .offset = offsetof(plan, seed),
     .help = "of everything random"},
    {.flag = "lr", .key = "learning_rate", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE,
     .max = 10, .offset = offsetof(plan, lr), .initial = "1e-3",
     .help = "learning rate at the peak, after warming up and before it decays again"},
    {.key = "resid_pdrop", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1,
     .offset = offsetof(plan, dropout), .initial = "0.1", .help = "dropout of residuals"},
    {.flag = "tied", .key = "tie_word_embeddings", .type = QKV_OPT_BOOL, .initial = "true",
     .offset = offsetof(plan, tied), .help = "the head is the embedding"},
    {.flag = "json", .type = QKV_OPT_BOOL, .offset = offsetof(plan, json), .help = "as JSON"},
    {.flag = "out", .key = "out", .type = QKV_OPT_STRING, .offset = offsetof(plan, out),
     .value = "DIR", .help = "where to save"},
    {.flag = "tokenizer", .key = "tokenizer", .type = QKV_OPT_ENUM, .names = kinds,
     .offset = offsetof(plan, kind), .help = "kind of tokeniser"},
    {.flag = "data", .key = "data", .type = QKV_OPT_LIST, .flags = QKV_OPT_REQUIRED,
     .offset = offsetof(plan, data), .value = "FILE...", .help = "text to learn from"},
    {.key = "n_inner|rope.inner", .type = QKV_OPT_SIZE, .flags = QKV_OPT_NULL,
     .offset = offsetof(plan, inner), .help = "width of the inner layer; 0: 4 times the width"},
};
static const qkv_option_table table = {"Training", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv_context *ctx;
    qkv_options *o;
    plan p;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    memset(&f, 0, sizeof f);
    assert_int_equal(qkv_context_create(&f.ctx, NULL), QKV_OK);
    assert_int_equal(qkv_options_create(&f.o, f.ctx), QKV_OK);
    assert_int_equal(qkv_options_bind(f.o, &table, &f.p), QKV_OK);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    qkv_options_destroy(f->o);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
    return 0;
}

/* Parses the words of a line. */
static qkv_status parse(fixture *f, const char *line, qkv_strings *rest)
{
    static char copy[400], *argv[40];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    return qkv_options_parse(f->o, argc, argv, rest);
}

static void defaults_come_from_the_table(void **state)
{
    fixture *f = *state;
    assert_int_equal(f->p.depth, 12);
    assert_int_equal(f->p.steps, 1000);
    assert_true(f->p.lr == 1e-3 && f->p.dropout == 0.1);
    assert_true(f->p.tied && !f->p.json && !f->p.out && f->p.kind == CHAR);
    assert_int_equal(f->p.data.count, 0);
}

static void a_command_line_fills_every_type(void **state)
{
    fixture *f = *state;
    qkv_strings rest;
    assert_int_equal(parse(f, "dir --depth=3 --steps 7 --seed 9223372036854774784 --lr 0.5 "
                              "--no-tied --json --out runs/x --tokenizer bpe --data a b "
                              "--set resid_pdrop=0 --data c --set num_hidden_layers=4 -- --odd -5",
                           &rest), QKV_OK);
    assert_int_equal(f->p.depth, 4);
    assert_int_equal(f->p.steps, 7);
    assert_true(f->p.seed == 9223372036854774784u);
    assert_true(f->p.lr == 0.5 && f->p.dropout == 0);
    assert_true(!f->p.tied && f->p.json && f->p.kind == BPE);
    assert_string_equal(f->p.out, "runs/x");
    assert_int_equal(f->p.data.count, 3);
    assert_string_equal(f->p.data.items[2], "c");
    assert_int_equal(rest.count, 3);
    assert_string_equal(rest.items[0], "dir");
    assert_string_equal(rest.items[1], "--odd");
    assert_true(qkv_options_given(f->o, "steps"));
    assert_true(qkv_options_given(f->o, "n_layer"));
    assert_false(qkv_options_given(f->o, "n_inner"));
}

static void mistakes_get_one_sentence(void **state)
{
    static const struct { const char *line, *message; } cases[] = {
        {"--stesp 3", "unknown option --stesp; did you mean --steps?"},
        {"--token bpe", "unknown option --token; did you mean --tokenizer?"},
        {"--xyzzy", "unknown option --xyzzy"},
        {"-x", "unknown option -x"},
        {"--steps", "--steps: expected an integer of at least 0, found nothing"},
        {"--steps --json", "--steps: expected an integer of at least 0, found --json"},
        {"--steps many", "--steps: expected an integer of at least 0, found \"many\""},
        {"--steps -1", "--steps: expected an integer of at least 0, found \"-1\""},
        {"--steps 3x", "--steps: expected an integer of at least 0, found \"3x\""},
        {"--depth 0", "--depth: expected an integer from 1 to 256, found \"0\""},
        {"--depth 99999999999999999999",
         "--depth: expected an integer from 1 to 256, found \"99999999999999999999\""},
        {"--lr 0", "--lr: expected a number above 0 and at most 10, found \"0\""},
        {"--lr nan", "--lr: expected a number above 0 and at most 10, found \"nan\""},
        {"--set resid_pdrop=1",
         "--set resid_pdrop: expected a number of at least 0 and below 1, found \"1\""},
        {"--set resid_prop=1", "unknown field resid_prop; did you mean resid_pdrop?"},
        {"--set steps", "--set: expected key=value, found \"steps\""},
        {"--tokenizer word", "--tokenizer: expected one of char, bpe, found \"word\""},
        {"--json=maybe", "--json: expected true or false, found \"maybe\""},
        {"--no-steps", "unknown option --no-steps"},
        {"--data", "--data: expected FILE..., found nothing"},
        {"--json", "--data FILE... is missing: text to learn from"},
        {"stray", "unexpected argument \"stray\""},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(f, cases[i].line, NULL), QKV_E_ARGUMENT);
        assert_string_equal(qkv_context_message(f->ctx), cases[i].message);
    }
}

static void help_fits_80_columns_and_names_every_flag(void **state)
{
    static const char *const examples[] = {"qkv train lm --data book.txt --out runs/book", NULL};
    static const qkv_option_table *const tables[] = {&table, NULL};
    static const cli_manual manual = {.name = "train lm", .summary = "train a GPT on text",
                                      .usage = "--data FILE... --out DIR [options]",
                                      .text = "Trains.\n\nAnd saves.", .examples = examples,
                                      .tables = tables};
    const cli_manual *all[] = {&manual};
    fixture *f = *state;
    qkv_str s;
    qkv_str_init(&s, f->ctx);
    cli_manual_help(&s, "qkv", &manual);
    for (const char *line = s.data; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    for (size_t i = 0; i < table.count; i++)
        if (rows[i].flag)
            assert_non_null(strstr(s.data, rows[i].flag));
    assert_non_null(strstr(s.data, "Usage: qkv train lm --data FILE... --out DIR [options]\n"));
    assert_non_null(strstr(s.data, "(default 1e-3)"));
    assert_non_null(strstr(s.data, "resid_pdrop=X"));
    assert_non_null(strstr(s.data, "Examples:\n  qkv train lm"));
    qkv_str_clear(&s);
    cli_manual_roff(&s, &manual, all, 1, "1.0");
    cli_manual_bash(&s, "qkv", all, 1);
    cli_manual_zsh(&s, "qkv", all, 1);
    assert_false(s.failed);
    assert_non_null(strstr(s.data, ".B \\-\\-steps N\n"));
    qkv_str_free(&s);
}

static const char *const known_recipes[] = {"own", "quick", NULL};
static const qkv_option recipe_rows[] = {
    {.flag = "recipe", .type = QKV_OPT_ENUM, .names = known_recipes, .help = "settings by name"}};
static const qkv_option_table recipe_table = {"Recipe", recipe_rows, 1, 0};
static const qkv_preset quick[] = {{"steps", "10", NULL},
                                    {"tied", "false", NULL},
                                    {"json", "true", NULL},
                                    {"lr", NULL, "0.1 / steps"},
                                    {NULL, NULL, NULL}};
static const qkv_preset *const recipes[] = {NULL, quick};

static void a_recipe_fills_what_was_not_given(void **state)
{
    static const qkv_option_table *const tables[] = {&recipe_table, &table, NULL};
    static const cli_manual manual = {.name = "train", .summary = "train", .usage = "[options]",
                                      .tables = tables, .recipes = recipes};
    static const char text[] = "\nRecipe quick:\n  --steps 10, --no-tied, --json, "
                               "--lr 0.1 / steps\n";
    static const qkv_preset wrong[] = {{"stesp", "10", NULL}, {NULL, NULL, NULL}};
    static const qkv_preset *const odd[] = {NULL, wrong};
    fixture *f = *state;
    int recipe = 1;
    qkv_str s;
    assert_int_equal(qkv_options_bind(f->o, &recipe_table, &recipe), QKV_OK);
    assert_int_equal(recipe, 0);
    assert_int_equal(parse(f, "--data a --depth 3 --tied", NULL), QKV_OK);
    assert_int_equal(qkv_recipe_apply(f->o, recipes), QKV_OK);
    assert_int_equal(f->p.steps, 1000);
    assert_int_equal(parse(f, "--recipe quick", NULL), QKV_OK);
    assert_int_equal(qkv_recipe_apply(f->o, recipes), QKV_OK);
    assert_int_equal(f->p.steps, 10);
    assert_true(f->p.tied && f->p.json && f->p.depth == 3);
    assert_true(f->p.lr == 1e-3 && !qkv_options_given(f->o, "lr"));
    assert_int_equal(qkv_recipe_apply(f->o, odd), QKV_E_ARGUMENT);
    qkv_str_init(&s, f->ctx);
    cli_manual_help(&s, "qkv", &manual);
    assert_non_null(strstr(s.data, text));
    const cli_manual *all[] = {&manual};
    cli_manual_roff(&s, &manual, all, 1, "1.0");
    assert_non_null(strstr(s.data, ".P\nRecipe quick:\n\\-\\-steps 10, "));
    assert_false(s.failed);
    qkv_str_free(&s);
}

static void json_is_written_in_order_and_read_back(void **state)
{
    static const char expected[] =
        "{\n  \"n_layer\": 5,\n  \"steps\": 1000,\n  \"seed\": 0,\n  \"learning_rate\": 0.001,\n"
        "  \"resid_pdrop\": 0.1,\n  \"tie_word_embeddings\": true,\n  \"out\": null,\n"
        "  \"tokenizer\": \"bpe\",\n  \"data\": [\n    \"a\",\n    \"b\"\n  ],\n"
        "  \"n_inner\": null\n}";
    fixture *f = *state;
    qkv_json_writer w;
    qkv__json j;
    plan back;
    assert_int_equal(parse(f, "--depth 5 --tokenizer bpe --data a b", NULL), QKV_OK);
    qkv_json_writer_init(&w, f->ctx, 2);
    qkv_json_begin_object(&w, NULL);
    qkv__json_put_options(&w, &table, &f->p);
    qkv_json_end_object(&w);
    assert_string_equal(qkv_json_writer_text(&w), expected);
    qkv_options *o;
    assert_int_equal(qkv_options_create(&o, f->ctx), QKV_OK);
    assert_int_equal(qkv_options_bind(o, &table, &back), QKV_OK);
    assert_int_equal(qkv__json_parse(&j, f->ctx, "c.json", expected, strlen(expected)), QKV_OK);
    assert_int_equal(qkv__json_get_options(&j, o, NULL), QKV_OK);
    assert_int_equal(back.depth, 5);
    assert_int_equal(back.kind, BPE);
    assert_int_equal(back.data.count, 2);
    assert_string_equal(back.data.items[1], "b");
    assert_false(qkv_options_given(o, "depth"));
    qkv__json_free(&j);
    qkv_options_destroy(o);
    qkv_json_writer_free(&w);
}

static void json_mistakes_name_file_and_field(void **state)
{
    static const struct { const char *text, *message; } cases[] = {
        {"[]", "c.json: expected an object, found an array"},
        {"{\"n_layer\": \"x\"}",
         "c.json: field \"n_layer\": expected an integer, found a string"},
        {"{\"num_hidden_layers\": 300}",
         "c.json: field \"num_hidden_layers\": expected an integer from 1 to 256, found 300"},
        {"{\"resid_pdrop\": 1}", "c.json: field \"resid_pdrop\": expected a number of at least 0 "
                                 "and below 1, found \"1\""},
        {"{\"tokenizer\": \"word\"}",
         "c.json: field \"tokenizer\": expected one of char, bpe, found \"word\""},
        {"{\"data\": [\"a\", 3]}",
         "c.json: field \"data.1\": expected a string, found an integer"},
        {"{\"rope\": {\"inner\": -2}}", "c.json: field \"rope.inner\": expected an integer from 0 "
                                        "to 9007199254740992, found -2"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv__json j;
        assert_int_equal(qkv__json_parse(&j, f->ctx, "c.json", cases[i].text,
                                         strlen(cases[i].text)), QKV_OK);
        assert_int_equal(qkv__json_get_options(&j, f->o, &table), QKV_E_FORMAT);
        assert_string_equal(qkv_context_message(f->ctx), cases[i].message);
        qkv__json_free(&j);
    }
}

static void distances_count_swaps(void **state)
{
    (void)state;
    assert_int_equal(qkv__edit_distance("steps", "steps"), 0);
    assert_int_equal(qkv__edit_distance("stesp", "steps"), 1);
    assert_int_equal(qkv__edit_distance("", "abc"), 3);
    assert_int_equal(qkv__edit_distance("kitten", "sitting"), 3);
}

/* 1,2,4: from the command line, as a default, in JSON; and what is none. */
static void lists_of_sizes_go_both_ways(void **state)
{
    (void)state;
    typedef struct {
        qkv_sizes mult, none;
    } network;
    static const qkv_option fields[] = {
        {.flag = "mult", .key = "ch_mult", .type = QKV_OPT_SIZES, .min = 1, .max = 9,
         .offset = offsetof(network, mult), .initial = "1,2", .help = "of channels"},
        {.key = "none", .type = QKV_OPT_SIZES, .offset = offsetof(network, none), .help = "none"},
    };
    static const qkv_option_table levels = {"Levels", fields, 2, 0};
    static const char *const bad[] = {"1,,2", "1,2,", ",1", "0", "10", "1 2", "x",
                                      "1,1,1,1,1,1,1,1,1"};
    qkv_context *ctx;
    qkv_options *o;
    network n, back;
    qkv_json_writer w;
    qkv__json j;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_options_create(&o, ctx), QKV_OK);
    assert_int_equal(qkv_options_bind(o, &levels, &n), QKV_OK);
    assert_true(n.mult.count == 2 && n.mult.item[1] == 2 && n.none.count == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(qkv_options_set(o, "mult", bad[i]), QKV_E_ARGUMENT);
        assert_non_null(strstr(qkv_context_message(ctx), "integers with commas"));
    }
    assert_true(n.mult.count == 2 && n.mult.item[1] == 2);
    assert_int_equal(qkv_options_set(o, "mult", "1,1,9"), QKV_OK);
    qkv_json_writer_init(&w, ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv__json_put_options(&w, &levels, &n);
    qkv_json_end_object(&w);
    assert_string_equal(qkv_json_writer_text(&w), "{\"ch_mult\": \"1,1,9\", \"none\": \"\"}");
    assert_int_equal(qkv_options_bind(o, &levels, &back), QKV_OK);
    assert_int_equal(qkv__json_parse(&j, ctx, "c.json", qkv_json_writer_text(&w),
                                     strlen(qkv_json_writer_text(&w))), QKV_OK);
    assert_int_equal(qkv__json_get_options(&j, o, NULL), QKV_OK);
    assert_memory_equal(&back.mult, &n.mult, sizeof n.mult);
    assert_int_equal(back.none.count, 0);
    qkv__json_free(&j);
    qkv_json_writer_free(&w);
    qkv_options_destroy(o);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
}

/* A name of a language without '-' in names. */
static void underscores_stand_for_dashes(void **state)
{
    (void)state;
    struct { size_t last; } s;
    static const qkv_option fields[] = {
        {.flag = "valid-last", .type = QKV_OPT_SIZE, .min = 0, .max = 9, .help = "held out"}};
    static const qkv_option_table held = {"Data", fields, 1, 0};
    static char text[] = "--valid_last=3";
    char *argv[] = {text};
    qkv_context *ctx;
    qkv_options *o;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_options_create(&o, ctx), QKV_OK);
    assert_int_equal(qkv_options_bind(o, &held, &s), QKV_OK);
    assert_int_equal(qkv_options_set(o, "valid_last", "3"), QKV_OK);
    assert_int_equal(s.last, 3);
    assert_int_equal(qkv_options_set(o, "valid-last", "4"), QKV_OK);
    assert_int_equal(s.last, 4);
    assert_false(qkv_options_know(o, "valid_las"));
    assert_false(qkv_options_know(o, "valid_last_"));
    assert_int_equal(qkv_options_set(o, "valid_last", "x"), QKV_E_ARGUMENT);
    assert_string_equal(qkv_context_message(ctx),
                        "valid_last: expected an integer from 0 to 9, found \"x\"");
    assert_int_equal(qkv_options_parse(o, 1, argv, NULL), QKV_E_ARGUMENT); /* flags have dashes */
    qkv_options_destroy(o);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults_come_from_the_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_command_line_fills_every_type, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes_get_one_sentence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(help_fits_80_columns_and_names_every_flag, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_recipe_fills_what_was_not_given, set_up, tear_down),
        cmocka_unit_test_setup_teardown(json_is_written_in_order_and_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(json_mistakes_name_file_and_field, set_up, tear_down),
        cmocka_unit_test(distances_count_swaps),
        cmocka_unit_test(lists_of_sizes_go_both_ways),
        cmocka_unit_test(underscores_stand_for_dashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
