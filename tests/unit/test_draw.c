/* test_draw.c - drawings as SVG and as pixels: well-formed whatever is written in them, the pixels
 * that shapes cover, colours that are told apart, memory that gives out. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/base64.h"
#include "draw/encode.h"
#include "fixture.h"
#include "qkv/draw.h"
#include "qkv/image_file.h"
#include "xml.h"

static const char hostile[] = "a<script>alert('1')</script>&\"\x1b[31m\xe2\x80\xae\xff\r\n]]>";

static qkv_drawing *new_drawing(double width, double height)
{
    qkv_drawing *d;
    assert_int_equal(qkv_drawing_create(&d, ctx, width, height), QKV_OK);
    return d;
}

/* The caller frees. */
static char *svg_of(qkv_drawing *d, bool standalone)
{
    qkv_str s;
    qkv_str_init(&s, ctx);
    if (qkv_drawing_svg(d, &s, standalone, "p-"))
        fail_msg("%s", qkv_context_message(ctx));
    char *copy = strdup(s.data);
    qkv_str_free(&s);
    return copy;
}

/* Can this build put images into SVG? */
static bool images_work(void)
{
    uint8_t pixel[3] = {0};
    qkv_str s;
    qkv_str_init(&s, ctx);
    bool works = qkv__png_uri(&s, &(qkv_image){1, 1, 3, pixel}) != QKV_E_UNSUPPORTED;
    qkv_str_free(&s);
    return works;
}

/* One of everything. */
static void draw_all(qkv_drawing *d, const char *text, bool images)
{
    const qkv_point points[] = {{1, 2}, {30, NAN}, {INFINITY, 4}, {50, 60}, {70, 10}};
    uint8_t pixels[] = {255, 0, 0, 0, 0, 255};
    const qkv_image image = {2, 1, 3, pixels};
    qkv_drawing_describe(d, text, text);
    qkv_draw_begin(d, text, text);
    qkv_draw_rect(d, (qkv_frame){10, 10, 20, 10}, qkv_ink_heat(0.3), qkv_ink_of(QKV_INK_TEXT));
    qkv_draw_name(d, text);
    qkv_draw_circle(d, 50, 50, 8, qkv_ink_series(9), qkv_ink_none());
    qkv_draw_line(d, 0, 0, 90, 90, qkv_ink_of(QKV_INK_GRID), 2);
    qkv_draw_end(d);
    qkv_draw_polyline(d, points, 5, qkv_ink_series(1), 1.5, true);
    qkv_draw_polygon(d, points, 5, (qkv_ink){QKV_INK_DIVERGING, -0.5, 0.25});
    qkv_draw_text(d, 5, 90, text, &(qkv_text_style){.upward = true, .bold = true});
    qkv_draw_rect(d, (qkv_frame){NAN, 10, 20, 10}, qkv_ink_heat(NAN), qkv_ink_none());
    qkv_draw_rect(d, (qkv_frame){-1e300, 10, 1e300, 10}, qkv_ink_heat(NAN), qkv_ink_none());
    if (images)
        qkv_draw_image(d, (qkv_frame){60, 60, 20, 10}, &image, false);
}

static void svg_is_well_formed_whatever_it_says(void **state)
{
    (void)state;
    for (int standalone = 0; standalone < 2; standalone++) {
        qkv_drawing *d = new_drawing(100, 100);
        draw_all(d, hostile, images_work());
        char *svg = svg_of(d, standalone);
        if (xml_fault(svg))
            fail_msg("%s", xml_fault(svg));
        assert_null(strstr(svg, "<script"));
        assert_non_null(strstr(svg, "a&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;"
                                    "\\x1b[31m\\u202e\\xff\\r\\n]]&gt;"));
        assert_null(strstr(svg, "nan"));
        assert_null(strstr(svg, "inf"));
        assert_int_equal(strstr(svg, "<style>") != NULL, standalone);
        assert_int_equal(strstr(svg, "prefers-color-scheme:dark") != NULL, standalone);
        assert_int_equal(strncmp(svg, "<?xml", 5) == 0, standalone);
        assert_non_null(strstr(svg, "aria-label=\"a&lt;script"));
        assert_int_equal(strstr(svg, "href=\"data:image/png;base64,iVBOR") != NULL,
                         images_work());
        assert_non_null(strstr(svg, "M1 2M50 60L70 10")); /* gaps */
        free(svg);
        qkv_drawing_destroy(d);
    }
}

static void hidden_characters_are_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text, *plain, *lines;
    } cases[] = {
        {"a\tb\nc", "a\\tb\\nc", "a\tb\nc"},
        {"\x01\x7f", "\\x01\\x7f", "\\x01\\x7f"},
        {"caf\xc3\xa9 \xe2\x88\x9e", "caf\xc3\xa9 \xe2\x88\x9e", "caf\xc3\xa9 \xe2\x88\x9e"},
        {"\xc0\xaf\xed\xa0\x80", "\\xc0\\xaf\\xed\\xa0\\x80", "\\xc0\\xaf\\xed\\xa0\\x80"},
        {"\xe2\x81\xa6x\xe2\x81\xa9", "\\u2066x\\u2069", "\\u2066x\\u2069"},
        {"\xef\xbb\xbf\xef\xbf\xbe", "\\ufeff\\ufffe", "\\ufeff\\ufffe"},
        {"<&>\"'", "&lt;&amp;&gt;&quot;&#39;", "&lt;&amp;&gt;&quot;&#39;"},
    };
    qkv_str s;
    qkv_str_init(&s, ctx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int lines = 0; lines < 2; lines++) {
            qkv_str_clear(&s);
            qkv_str_visible(&s, cases[i].text, strlen(cases[i].text), QKV_ESCAPE_XML, lines);
            assert_string_equal(s.data, lines ? cases[i].lines : cases[i].plain);
        }
    qkv_str_clear(&s);
    qkv_str_visible(&s, "a\0b", 3, QKV_ESCAPE_NOTHING, false);
    assert_string_equal(s.data, "a\\x00b");
    qkv_str_free(&s);
}

static void assert_pixel(const qkv_image *image, size_t x, size_t y, const uint8_t rgb[3], int off)
{
    for (size_t c = 0; c < 3; c++) {
        int found = image->data[(y * image->width + x) * 3 + c];
        if (abs(found - rgb[c]) > off)
            fail_msg("pixel (%zu, %zu), channel %zu: %d, %d expected", x, y, c, found, rgb[c]);
    }
}

static void pixels_are_those_that_shapes_cover(void **state)
{
    (void)state;
    uint8_t white[3], blue[3], text[3], half[3];
    const uint8_t red[3] = {255, 0, 0}, green[3] = {0, 255, 0};
    uint8_t pixels[] = {255, 0, 0, 0, 255, 0};
    qkv_image image;
    qkv_drawing *d = new_drawing(40, 80);
    qkv_ink clear = qkv_ink_series(0);
    clear.transparency = 0.5;
    qkv_draw_rect(d, (qkv_frame){4, 4, 10, 6}, qkv_ink_series(0), qkv_ink_none());
    qkv_draw_rect(d, (qkv_frame){20.5, 4, 10, 6}, clear, qkv_ink_none());
    qkv_draw_circle(d, 10, 40, 6, qkv_ink_series(0), qkv_ink_none());
    qkv_draw_line(d, 20, 40, 36, 40, qkv_ink_of(QKV_INK_TEXT), 2);
    qkv_draw_image(d, (qkv_frame){4, 60, 8, 4}, &(qkv_image){2, 1, 3, pixels}, false);
    qkv_draw_polygon(d, (const qkv_point[]){{20, 60}, {30, 60}, {30, 70}, {20, 70}}, 4,
                     qkv_ink_series(0));
    assert_int_equal(qkv_drawing_image(d, &image, NULL), QKV_OK);
    assert_int_equal(image.width, 40);
    assert_int_equal(image.height, 80);
    qkv_ink_color(qkv_ink_of(QKV_INK_BACKGROUND), false, white);
    qkv_ink_color(qkv_ink_of(QKV_INK_TEXT), false, text);
    qkv_ink_color(qkv_ink_series(0), false, blue);
    for (int c = 0; c < 3; c++)
        half[c] = (uint8_t)((white[c] + blue[c]) / 2);
    assert_pixel(&image, 0, 0, white, 0);
    assert_pixel(&image, 3, 5, white, 0);
    assert_pixel(&image, 4, 4, blue, 0);
    assert_pixel(&image, 13, 9, blue, 0);
    assert_pixel(&image, 14, 9, white, 0);
    assert_pixel(&image, 25, 6, half, 1);
    const uint8_t quarter[] = {(uint8_t)((white[0] + half[0]) / 2),
                               (uint8_t)((white[1] + half[1]) / 2),
                               (uint8_t)((white[2] + half[2]) / 2)};
    assert_pixel(&image, 20, 6, quarter, 2); /* half a pixel, half covered */
    assert_pixel(&image, 10, 40, blue, 0);
    assert_pixel(&image, 15, 45, white, 0);
    assert_pixel(&image, 28, 39, text, 0);
    assert_pixel(&image, 28, 40, text, 0);
    assert_pixel(&image, 28, 42, white, 0);
    assert_pixel(&image, 5, 62, red, 0);
    assert_pixel(&image, 10, 62, green, 0);
    assert_pixel(&image, 25, 65, blue, 0);
    qkv_image_free(&image, ctx);
    qkv_drawing_destroy(d);
}

/* Letters have ink, other characters are boxes; dark and scaled images are. */
static void letters_have_ink_in_both_themes(void **state)
{
    (void)state;
    static const char *const texts[] = {"A", "g", "\xe4\xb8\xad", "", " "};
    for (int i = 0; i < 5; i++)
        for (int dark = 0; dark < 2; dark++) {
            uint8_t background[3];
            qkv_image image;
            size_t inked = 0;
            qkv_drawing *d = new_drawing(20, 20);
            qkv_draw_text(d, 4, 14, texts[i], NULL);
            assert_int_equal(
                qkv_drawing_image(d, &image, &(qkv_raster_options){.scale = 2, .dark = dark}),
                QKV_OK);
            assert_int_equal(image.width, 40);
            qkv_ink_color(qkv_ink_of(QKV_INK_BACKGROUND), dark, background);
            for (size_t p = 0; p < 40 * 40; p++)
                inked += memcmp(image.data + 3 * p, background, 3) != 0;
            assert_true(i < 3 ? inked > 30 && inked < 300 : inked == 0);
            qkv_image_free(&image, ctx);
            qkv_drawing_destroy(d);
        }
}

/* ---- colours --------------------------------------------------------------------------------- */

static double luminance(const uint8_t rgb[3])
{
    static const double weights[] = {0.2126, 0.7152, 0.0722};
    double y = 0.0;
    for (int c = 0; c < 3; c++) {
        double v = rgb[c] / 255.0;
        y += weights[c] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return y;
}

static double contrast(qkv_ink a, qkv_ink b, bool dark)
{
    uint8_t x[3], y[3];
    qkv_ink_color(a, dark, x);
    qkv_ink_color(b, dark, y);
    double p = luminance(x), q = luminance(y);
    return (fmax(p, q) + 0.05) / (fmin(p, q) + 0.05);
}

static double lightness(qkv_ink ink)
{
    uint8_t rgb[3];
    qkv_ink_color(ink, false, rgb);
    return 116.0 * cbrt(luminance(rgb)) - 16.0;
}

static void colours_are_told_apart(void **state)
{
    (void)state;
    const qkv_ink background = qkv_ink_of(QKV_INK_BACKGROUND);
    for (int dark = 0; dark < 2; dark++) {
        for (size_t i = 0; i < QKV_SERIES_COLORS; i++)
            assert_true(contrast(qkv_ink_series(i), background, dark) >= 3.0);
        assert_true(contrast(qkv_ink_of(QKV_INK_TEXT), background, dark) >= 7.0);
        assert_true(contrast(qkv_ink_of(QKV_INK_FAINT), background, dark) >= 4.5);
        assert_true(contrast(qkv_ink_of(QKV_INK_MARK), background, dark) >= 4.5);
    }
    for (int i = 0; i <= 20; i++) {
        double v = i / 20.0;
        assert_true(fabs(lightness(qkv_ink_heat(v)) - (15.0 + 77.0 * v)) < 1.5);
        qkv_ink on = {.role = QKV_INK_ON_HEAT, .value = v};
        assert_true(contrast(on, qkv_ink_heat(v), false) >= 4.0);
        double both = lightness(qkv_ink_diverging(v)) - lightness(qkv_ink_diverging(-v));
        assert_true(fabs(both) < 1.5);
    }
}

/* ---- encodings ------------------------------------------------------------------------------- */

static void fingerprints_and_base64_are_the_standards(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hash, *base64;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", ""},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "YWJj"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", NULL},
        {"f", NULL, "Zg=="},
        {"fo", NULL, "Zm8="},
        {"foobar", NULL, "Zm9vYmFy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t hash[32];
        char hex[65];
        qkv_str s;
        qkv_str_init(&s, ctx);
        qkv__sha256(hash, cases[i].text, strlen(cases[i].text));
        for (int j = 0; j < 32; j++)
            snprintf(hex + 2 * j, 3, "%02x", hash[j]);
        if (cases[i].hash)
            assert_string_equal(hex, cases[i].hash);
        qkv__base64_put(&s, cases[i].text, strlen(cases[i].text));
        if (cases[i].base64)
            assert_string_equal(s.data ? s.data : "", cases[i].base64);
        qkv_str_free(&s);
    }
}

static void numbers_need_no_locale(void **state)
{
    (void)state;
    static const struct {
        double value;
        int decimals;
        bool trim;
        const char *text;
    } cases[] = {
        {1.5, 2, true, "1.5"}, {1.5, 2, false, "1.50"}, {-0.001, 2, true, "0"},
        {-2.345, 1, false, "-2.3"}, {0.05, 2, false, "0.05"}, {100.0, 2, true, "100"},
        {NAN, 2, false, "NaN"}, {12345678901.0, 2, false, "1.23e+10"}, {1e-7, 9, true, "0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qkv_str s;
        qkv_str_init(&s, ctx);
        qkv__put_real(&s, cases[i].value, cases[i].decimals, cases[i].trim);
        assert_string_equal(s.data, cases[i].text);
        qkv_str_free(&s);
    }
}

/* ---- failures -------------------------------------------------------------------------------- */

static void wrong_uses_are_told(void **state)
{
    (void)state;
    qkv_drawing *d;
    qkv_image image;
    assert_int_equal(qkv_drawing_create(&d, ctx, 0, 10), QKV_E_ARGUMENT);
    assert_null(d);
    assert_int_equal(qkv_drawing_create(&d, ctx, NAN, 10), QKV_E_ARGUMENT);
    d = new_drawing(10, 10);
    qkv_draw_end(d);
    assert_int_equal(qkv_drawing_status(d), QKV_E_ARGUMENT);
    assert_int_equal(qkv_drawing_image(d, &image, NULL), QKV_E_ARGUMENT);
    assert_null(image.data);
    qkv_drawing_destroy(d);
    d = new_drawing(30000, 30000);
    assert_int_equal(qkv_drawing_image(d, &image, NULL), QKV_E_ARGUMENT);
    assert_int_equal(qkv_drawing_save(d, in(folder, "a.jpg")), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), ".svg or .png"));
    qkv_drawing_destroy(d);
    qkv_drawing_destroy(NULL);
}

static void files_are_svg_and_png(void **state)
{
    (void)state;
    size_t size;
    qkv_drawing *d = new_drawing(50, 30);
    qkv_draw_rect(d, (qkv_frame){0, 0, 50, 30}, qkv_ink_series(1), qkv_ink_none());
    assert_int_equal(qkv_drawing_save(d, in(folder, "a.svg")), QKV_OK);
    char *svg = take_file(in(folder, "a.svg"), &size);
    assert_null(xml_fault(svg));
    free(svg);
    qkv_status status = qkv_drawing_save(d, in(folder, "a.png"));
    if (status == QKV_E_UNSUPPORTED) {
        assert_non_null(strstr(qkv_context_message(ctx), "writes no images"));
    } else {
        uint8_t orange[3];
        qkv_image image;
        assert_int_equal(status, QKV_OK);
        assert_int_equal(qkv_image_read(&image, ctx, in(folder, "a.png"), NULL), QKV_OK);
        assert_int_equal(image.width, 100);
        qkv_ink_color(qkv_ink_series(1), false, orange);
        assert_pixel(&image, 50, 30, orange, 0);
        qkv_image_free(&image, ctx);
    }
    qkv_drawing_destroy(d);
}

/* Everything once; false where memory gave out. */
static bool all_in_memory(bool images)
{
    qkv_drawing *d;
    qkv_str s;
    qkv_image image = {0};
    if (qkv_drawing_create(&d, ctx, 100, 100))
        return false;
    qkv_str_init(&s, ctx);
    draw_all(d, "text", images);
    bool good = qkv_drawing_svg(d, &s, true, NULL) == QKV_OK &&
                qkv_drawing_image(d, &image, NULL) == QKV_OK;
    qkv_image_free(&image, ctx);
    qkv_str_free(&s);
    qkv_drawing_destroy(d);
    return good;
}

static void memory_that_gives_out_is_told(void **state)
{
    (void)state;
    const bool images = images_work();
    size_t n = 0;
    for (bool good = false; !good; n++) {
        memory.left = n;
        good = all_in_memory(images);
        assert_int_equal(memory.live, 1); /* the context */
        assert_true(good || memory.left == SIZE_MAX);
        if (good)
            assert_true(memory.left != SIZE_MAX);
    }
    assert_true(n > 8);
    memory.left = SIZE_MAX;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(svg_is_well_formed_whatever_it_says),
        cmocka_unit_test(hidden_characters_are_shown),
        cmocka_unit_test(pixels_are_those_that_shapes_cover),
        cmocka_unit_test(letters_have_ink_in_both_themes),
        cmocka_unit_test(colours_are_told_apart),
        cmocka_unit_test(fingerprints_and_base64_are_the_standards),
        cmocka_unit_test(numbers_need_no_locale),
        cmocka_unit_test(wrong_uses_are_told),
        cmocka_unit_test(files_are_svg_and_png),
        cmocka_unit_test(memory_that_gives_out_is_told),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
