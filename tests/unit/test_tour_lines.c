/* Lines of C and of documents get the kind that they are, and lose what gives it away. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/texts.c"
#include "tour/lines.c"
#include "fixture.h"

static bool with_source; /* else there is the help alone */

/* In place of the walk through folders: the same files to learn from and to evaluate by. */
qkv_status tour_text_collect(tour_text *x, const tour *t, const char *const *endings,
                             size_t valid_bytes)
{
    static const char c[] = "/* a comment of its own, in\n"
                            " * two lines */\n"
                            "static int counter = 0; /* at the beginning\n"
                            "                           and beyond its end */\n"
                            "    return counter + 1;\n"
                            "\n"
                            "}\n"
                            "/* ------------ a heading ---------- */\n"
                            "#include <stdio.h>\n"
                            "int more_code_than_comments;\n";
    static const char documents[] = "# A heading is passed over\n"
                                    "Prose, one line of it.\n"
                                    "    code --that stands=here\n"
                                    "```\n"
                                    "and code between two fences\n"
                                    "```\n"
                                    "| a table | of two columns |\n"
                                    "* a list's line is prose\n";
    static const char help[] = "Usage: help, some of it\n";
    const char *text = !with_source ? help : endings[0][1] == 'c' ? c : documents;
    (void)t, (void)valid_bytes;
    *x = (tour_text){.files = with_source ? 10 : 0, .held_out = with_source};
    qkv_str_init(&x->train, ctx);
    qkv_str_init(&x->valid, ctx);
    qkv_str_puts(&x->train, text);
    qkv_str_puts(&x->valid, text);
    return QKV_OK;
}

void tour_text_free(tour_text *x)
{
    qkv_str_free(&x->train);
    qkv_str_free(&x->valid);
}

static void collect_lines(tour_lines out[2], bool source)
{
    cli c = {.ctx = ctx};
    page p = {.c = &c};
    const tour t = {.page = &p};
    with_source = source;
    assert_int_equal(tour_lines_collect(out, &t), QKV_OK);
}

static void lines_have_their_kind(void **state)
{
    (void)state;
    tour_lines x[2];
    collect_lines(x, true);
    for (int i = 0; i < 2; i++)
        assert_string_equal(x[i].labelled.data, "comment\ta comment of its own, in\n"
                                                "code\tstatic int counter = 0; /* at the "
                                                "beginning\n"
                                                "comment\tand beyond its end\n"
                                                "code\treturn counter + 1;\n"
                                                "code\t#include <stdio.h>\n"
                                                "prose\tProse, one line of it.\n"
                                                "prose\ta list's line is prose\n");
    assert_string_equal(strstr(x[0].text.data, "int more"), "int more_code_than_comments;\n"
                                                            "Prose, one line of it.\n"
                                                            "a list's line is prose\n");
    assert_int_equal(x[0].files, 18);
    assert_int_equal(x[1].files, 2);
    tour_lines_free(&x[0]);
    tour_lines_free(&x[1]);
}

static void help_has_no_kinds(void **state)
{
    (void)state;
    tour_lines x[2];
    collect_lines(x, false);
    assert_int_equal(x[0].labelled.len, 0);
    assert_int_equal(x[0].files, 0);
    assert_string_equal(x[1].text.data, "Usage: help, some of it\n");
    tour_lines_free(&x[0]);
    tour_lines_free(&x[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_have_their_kind),
                                       cmocka_unit_test(help_has_no_kinds)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
