/* test_page.c - pages: what they hold, that hostile text stays text, that the policy names exactly
 * the styles and scripts that are there, wrong uses, memory that gives out; charts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/base64.h"
#include "draw/encode.h"
#include "fixture.h"
#include "qkv/chart.h"
#include "qkv/page.h"

static const char hostile[] = "x</script></style></title><script>alert(1)</script>\" onload='a()' "
                              "<img src=x onerror=alert(2)>&amp;\x1b[31m\xe2\x80\xae\xff";
static const char hostile_shown[] =
    "x&lt;/script&gt;&lt;/style&gt;&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot; "
    "onload=&#39;a()&#39; &lt;img src=x onerror=alert(2)&gt;&amp;amp;\\x1b[31m\\u202e\\xff";

static qkv_page *new_page(const char *title)
{
    qkv_page *p;
    const qkv_page_options o = {.title = title, .subtitle = title};
    assert_int_equal(qkv_page_create(&p, ctx, &o), QKV_OK);
    return p;
}

/* Every kind of content with this text. */
static void fill(qkv_page *p, const char *text)
{
    const char *const cells[] = {text, NULL, text, "4"};
    const char *const names[] = {text, text, text};
    qkv_drawing *d;
    qkv_page_heading(p, 2, "one", text);
    qkv_page_heading(p, 2, "two", text);
    qkv_page_heading(p, 2, "three", text);
    qkv_page_begin(p, QKV_PAGE_DETAILS, "folded", text);
    qkv_page_text(p, text);
    qkv_page_printf(p, "%s %d", text, 7);
    qkv_page_end(p);
    qkv_page_begin(p, QKV_PAGE_PANEL, NULL, text);
    qkv_page_code(p, text);
    qkv_page_list(p, names, 3);
    qkv_page_link(p, "a b/<c>.html", text);
    qkv_page_end(p);
    qkv_page_table(p, &(qkv_page_table_options){.id = "t", .caption = text, .columns = names,
                                                .rows = names, .cells = cells, .row_count = 2,
                                                .column_count = 2});
    if (qkv_drawing_create(&d, ctx, 60, 60)) {
        return;
    }
    qkv_drawing_describe(d, text, text);
    qkv_draw_text(d, 5, 20, text, NULL);
    qkv_page_figure(p, d, NULL, text);
    qkv_drawing_destroy(d);
    qkv_page_json(p, "j", "{\"a\": \"</script><!--\"}");
    qkv_page_bytes(p, "b", text, strlen(text));
    qkv_page_css(p, ".mine { color: red; }");
    qkv_page_js(p, "if (1 < 2) window.mine = 1;");
}

/* The caller frees. */
static char *text_of(const qkv_page *p)
{
    qkv_str s;
    qkv_str_init(&s, ctx);
    if (qkv_page_text_of(p, &s))
        fail_msg("%s", qkv_context_message(ctx));
    char *copy = strdup(s.data);
    qkv_str_free(&s);
    return copy;
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void links_are_relative(void **state)
{
    (void)state;
    static const char *const refused[] = {"javascript:alert(1)", "https://example.com/", "/etc"};
    for (size_t i = 0; i < 3; i++) {
        qkv_page *p = new_page("links");
        qkv_page_link(p, "below/it.html", "a link");
        assert_int_equal(qkv_page_status(p), QKV_OK);
        qkv_page_link(p, refused[i], "a link");
        assert_int_equal(qkv_page_status(p), QKV_E_ARGUMENT);
        qkv_page_destroy(p);
    }
}

static void flags_stay_whole(void **state)
{
    (void)state;
    qkv_page *p = new_page("flags");
    qkv_page_text(p, "More with --minutes. (--hold-out N) a--b, -- c ---d --E");
    qkv_page_text(p, "--data");
    qkv_page_text(p, "");
    char *html = text_of(p);
    assert_non_null(strstr(html, "<p>More with <code>--minutes</code>. (<code>--hold-out</code> N) "
                                 "a--b, -- c ---d --E</p>\n<p><code>--data</code></p>\n"
                                 "<p></p>\n"));
    free(html);
    qkv_page_destroy(p);
}

static void hostile_text_stays_text(void **state)
{
    (void)state;
    qkv_page *p = new_page(hostile);
    fill(p, hostile);
    char *html = text_of(p);
    assert_null(strstr(html, "alert(1)</script>"));
    assert_null(strstr(html, "<img"));
    assert_null(strstr(html, "\x1b"));
    assert_null(strstr(html, "\xe2\x80\xae"));
    assert_int_equal(count_of(html, "<script>"), 2); /* the page's own and the test's */
    assert_int_equal(count_of(html, "</script>"), 4); /* and two blocks of data */
    assert_int_equal(count_of(html, "</style>"), 1);
    assert_int_equal(count_of(html, " style="), 0);
    /* title twice, subtitle, headings and contents, summary, text, printf, label, code, list, link,
     * caption twice, column and row names, cells, figure's label, description, text, caption */
    assert_int_equal(count_of(html, hostile_shown), 3 + 6 + 1 + 2 + 1 + 1 + 3 + 1 + 2 + 3 + 2 + 2 +
                                                        4);
    assert_non_null(strstr(html, "<a href=\"a%20b/%3Cc%3E.html\">"));
    assert_non_null(strstr(html, "{\"a\": \"\\u003c/script>\\u003c!--\"}"));
    free(html);
    qkv_page_destroy(p);
}

/* What stands between a tag and its end must be what the policy's next hash is of. */
static void assert_hashed(const char *html, const char *begin, const char *end, size_t count)
{
    const char *policy = strstr(html, "Content-Security-Policy");
    for (size_t i = 0; i < count; i++) {
        qkv_str s;
        uint8_t hash[32];
        html = strstr(html, begin) + strlen(begin);
        qkv__sha256(hash, html, (size_t)(strstr(html, end) - html));
        qkv_str_init(&s, ctx);
        qkv_str_puts(&s, " 'sha256-");
        qkv__base64_put(&s, hash, sizeof hash);
        qkv_str_puts(&s, "'");
        policy = strstr(policy, s.data);
        if (!policy || policy > html)
            fail_msg("%s number %zu is not in the policy: %s", begin, i, s.data);
        qkv_str_free(&s);
    }
}

static void the_policy_names_what_is_there(void **state)
{
    (void)state;
    qkv_page *p = new_page("A page");
    fill(p, "text");
    char *html = text_of(p);
    assert_int_equal(strncmp(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                                   "<meta charset=\"utf-8\">\n<meta http-equiv=", 80), 0);
    assert_non_null(strstr(html, "default-src 'none'; img-src data:; base-uri 'none'; form-action "
                                 "'none'; style-src 'sha256-"));
    assert_null(strstr(html, "unsafe"));
    assert_int_equal(count_of(html, "http://www.w3.org/2000/svg"),
                     count_of(html, "http://"));
    assert_hashed(html, "<style>", "</style>", 1);
    assert_hashed(html, "<script>", "</script>", 2);
    assert_int_equal(count_of(html, "sha256-"), 3);
    assert_int_equal(count_of(html, "<nav"), 1);
    free(html);
    qkv_page_destroy(p);
}

/* Numbers that repeat are packed, and come back. */
static void bytes_are_deflated_where_it_pays(void **state)
{
    (void)state;
    static const char zeros[4096];
    qkv_page *p = new_page("Data");
    qkv_page_bytes(p, "zeros", zeros, sizeof zeros);
    qkv_page_bytes(p, "short", "abc", 3);
    char *html = text_of(p);
    assert_non_null(strstr(html, "id=\"short\">YWJj</script>"));
    const char *block = strstr(html, "id=\"zeros\""), *end = strstr(block, "</script>");
    bool deflated = strncmp(block + 10, " data-encoding=\"deflate\">", 25) == 0;
    assert_true(deflated ? end - block < 200 : end - block > 4096);
    free(html);
    qkv_page_destroy(p);
}

typedef void misuse(qkv_page *p);
static void id_twice(qkv_page *p)
{
    qkv_page_heading(p, 2, "a", "A");
    qkv_page_heading(p, 2, "ab", "B");
    qkv_page_heading(p, 2, "a", "C");
}
static void bad_id(qkv_page *p) { qkv_page_heading(p, 2, "a b", "A"); }
static void no_letter(qkv_page *p) { qkv_page_heading(p, 2, "1", "A"); }
static void own_id(qkv_page *p) { qkv_page_heading(p, 2, "theme", "A"); }
static void level_one(qkv_page *p) { qkv_page_heading(p, 1, NULL, "A"); }
static void end_alone(qkv_page *p) { qkv_page_end(p); }
static void left_open(qkv_page *p) { qkv_page_begin(p, QKV_PAGE_SECTION, NULL, NULL); }
static void style_ends(qkv_page *p) { qkv_page_css(p, "</style>"); }
static void script_ends(qkv_page *p) { qkv_page_js(p, "'<!--'"); }

static void wrong_uses_are_told(void **state)
{
    (void)state;
    static const struct {
        misuse *use;
        const char *said;
    } cases[] = {
        {id_twice, "\"a\" of a page: it is there already"}, {bad_id, "letters, digits"},
        {no_letter, "first a letter"}, {own_id, "there already"}, {level_one, "2, 3 or 4"},
        {end_alone, "without qkv_page_begin"}, {left_open, "1 parts of a page are still open"},
        {style_ends, "a style of a page"}, {script_ends, "a script of a page"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_page *p = new_page("Wrong");
        cases[i].use(p);
        assert_int_equal(qkv_page_save(p, in(folder, "p.html")), QKV_E_ARGUMENT);
        if (!strstr(qkv_context_message(ctx), cases[i].said))
            fail_msg("%zu: %s", i, qkv_context_message(ctx));
        qkv_page_destroy(p);
    }
    assert_int_equal(files_in(folder), 0);
}

/* ---- charts ---------------------------------------------------------------------------------- */

static void charts_take_odd_data(void **state)
{
    (void)state;
    const double odd[] = {NAN, 1e300, -INFINITY, 0.0, 5e-324}, same[] = {2, 2, 2};
    const float map[] = {NAN, 1, INFINITY, -2};
    const char *const labels[] = {"a", NULL, hostile};
    double edges[3], counts[2];
    qkv_drawing *d;
    const qkv_curve curves[] = {{.name = hostile, .y = odd, .count = 5},
                                {.y = same, .count = 3}, {.x = odd, .y = odd, .count = 0}};
    assert_int_equal(qkv_drawing_create(&d, ctx, 300, 200), QKV_OK);
    for (int log = 0; log < 2; log++)
        for (size_t n = 0; n <= 3; n++)
            qkv_draw_lines(d, NULL,
                           &(qkv_line_chart){.curves = curves, .count = n, .x_log = log,
                                             .y_log = log, .title = "t", .y_label = hostile});
    for (int sideways = 0; sideways < 2; sideways++)
        for (size_t n = 0; n <= 3; n++)
            qkv_draw_bars(d, NULL,
                          &(qkv_bar_chart){.values = odd, .labels = labels, .count = n,
                                           .sideways = sideways});
    qkv_histogram(odd, 1, 2, edges, counts);
    qkv_histogram(same, 3, 2, edges, counts);
    assert_true(counts[0] + counts[1] == 3.0 && edges[0] < 2 && edges[2] > 2);
    qkv_draw_heat(d, NULL, &(qkv_heat_map){.values = map, .rows = 2, .columns = 2, .numbers = true,
                                           .row_labels = labels, .diverging = true});
    qkv_draw_heat(d, NULL, &(qkv_heat_map){.values = map, .rows = 0, .columns = 2});
    qkv_draw_images(d, NULL, &(qkv_image_sheet){.count = 0});
    qkv_str s;
    qkv_image image;
    qkv_str_init(&s, ctx);
    assert_int_equal(qkv_drawing_svg(d, &s, true, NULL), QKV_OK);
    assert_null(strstr(s.data, "nan"));
    assert_int_equal(qkv_drawing_image(d, &image, NULL), QKV_OK);
    qkv_image_free(&image, ctx);
    qkv_str_free(&s);
    qkv_drawing_destroy(d);
}

/* The cells of a heat map have the scale's colours and names; the axis has round numbers. */
static void charts_say_their_values(void **state)
{
    (void)state;
    const float map[] = {0.0f, 0.5f, 1.0f, NAN};
    const char *const labels[] = {"The", "cat"};
    const double y[] = {1, 2, 5, 9}, values[] = {0.1, 0.2, 0.9, 0.95, 0.3};
    double edges[3], counts[2];
    uint8_t rgb[3];
    char fill_of[24];
    qkv_drawing *d;
    qkv_str s;
    qkv_str_init(&s, ctx);
    assert_int_equal(qkv_drawing_create(&d, ctx, 300, 200), QKV_OK);
    qkv_draw_heat(d, NULL, &(qkv_heat_map){.values = map, .rows = 2, .columns = 2, .numbers = true,
                                           .row_labels = labels, .column_labels = labels,
                                           .key = "cells"});
    qkv_draw_lines(d, NULL, &(qkv_line_chart){.curves = &(qkv_curve){.y = y, .count = 4},
                                              .count = 1});
    assert_int_equal(qkv_drawing_svg(d, &s, false, NULL), QKV_OK);
    assert_non_null(strstr(s.data, "<title>The, cat: 0.5</title>"));
    assert_non_null(strstr(s.data, "<title>cat, cat: NaN</title>"));
    assert_non_null(strstr(s.data, "data-key=\"cells\""));
    assert_non_null(strstr(s.data, ">0.50<"));
    assert_non_null(strstr(s.data, ">10<"));
    qkv_ink_color(qkv_ink_heat(0.5), false, rgb);
    snprintf(fill_of, sizeof fill_of, "fill=\"#%02x%02x%02x\"", rgb[0], rgb[1], rgb[2]);
    assert_non_null(strstr(s.data, fill_of));
    qkv_histogram(values, 5, 2, edges, counts);
    assert_true(counts[0] == 3.0 && counts[1] == 2.0 && edges[0] == 0.1 && edges[2] == 0.95);
    qkv_str_free(&s);
    qkv_drawing_destroy(d);
}

static bool page_in_memory(void)
{
    qkv_page *p;
    qkv_str s;
    if (qkv_page_create(&p, ctx, NULL))
        return false;
    fill(p, "text");
    qkv_str_init(&s, ctx);
    bool good = qkv_page_text_of(p, &s) == QKV_OK && strstr(s.data, "window.mine") &&
                strstr(s.data, "<svg");
    qkv_str_free(&s);
    qkv_page_destroy(p);
    return good;
}

static void memory_that_gives_out_is_told(void **state)
{
    (void)state;
    size_t n = 0;
    for (bool good = false; !good; n++) {
        memory.left = n;
        good = page_in_memory();
        assert_int_equal(memory.live, 1); /* the context */
        assert_true(!good || memory.left != SIZE_MAX);
    }
    assert_true(n > 10);
    memory.left = SIZE_MAX;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_relative), cmocka_unit_test(flags_stay_whole),
        cmocka_unit_test(hostile_text_stays_text),
        cmocka_unit_test(the_policy_names_what_is_there),
        cmocka_unit_test(bytes_are_deflated_where_it_pays),
        cmocka_unit_test(wrong_uses_are_told),
        cmocka_unit_test(charts_take_odd_data),
        cmocka_unit_test(charts_say_their_values),
        cmocka_unit_test(memory_that_gives_out_is_told),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
