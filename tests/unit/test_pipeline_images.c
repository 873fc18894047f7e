/* test_pipeline_images.c - images through a model directory: pixels in memory give what their
 * file gives, the listener ends the work, settings that do not fit are refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipelines.h"

static void test_labels(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(VIT);
    make_set(SIDE, 1, 0);
    put_file(in(folder, "set/0/z.png"), "no image", 8);
    put_file(in(folder, "bad.png"), "no image", 8);
    qkv_image wide = drawn_file("wide.png", 40, 20, 7), first = drawn_file("first.png", 9, 9, 8);
    const qkv_image_source images[] = {{.path = in(folder, "wide.png")}, {.image = &wide},
                                       {.image = &first}, {.path = in(folder, "bad.png")},
                                       {.path = in(folder, "first.png")},
                                       {.path = in(folder, "set")}};
    static const size_t inputs[] = {0, 1, 2, 4, 5, 5, 5, 5};
    labels l = {0};
    heard h = {0};
    qkv_context_on_event(ctx, listen, &h);
    assert_int_equal(qkv_pipeline_classify_images(p, images, 6, keep, &l), QKV_OK);
    assert_int_equal(l.count, 8);
    assert_memory_equal(l.input, inputs, sizeof inputs);
    assert_int_equal(l.bad, 1);
    assert_non_null(strstr(l.error, "bad.png"));
    assert_true(h.notes == 2 && strstr(h.last, "1 of 5 images could not be read"));
    assert_true(h.finished);
    for (size_t k = 0; k < CLASSES; k++) {
        assert_true(fabs((double)(l.probabilities[0][k] - l.probabilities[1][k])) < 1e-6);
        assert_true(fabs((double)(l.probabilities[2][k] - l.probabilities[3][k])) < 1e-6);
    }
    assert_true(fabs((double)(l.probabilities[0][0] - l.probabilities[2][0])) > 1e-6);
    assert_string_equal(l.name[1], "");
    assert_non_null(strstr(l.name[4], "set/0/a.png"));
    assert_string_equal(qkv_pipeline_label(p, 1), "17");
    drop(&wide);
    drop(&first);
    qkv_pipeline_close(p);
}

static void test_stopping(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(VIT);
    make_set(SIDE, 1, 0);
    const qkv_image_source set = {.path = in(folder, "set")};
    labels l = {.stop_at = 2};
    expect_status(qkv_pipeline_classify_images(p, &set, 1, keep, &l), QKV_E_CANCELLED, "stopped");
    assert_int_equal(l.count, 2);
    heard h = {.stop_at = 2}; /* of the reading: the first says that none is read */
    l = (labels){0};
    qkv_context_on_event(ctx, listen, &h);
    expect_status(qkv_pipeline_classify_images(p, &set, 1, keep, &l), QKV_E_CANCELLED, "stopped");
    assert_int_equal(l.count, 0);
    qkv_pipeline_evaluate_options o = qkv_pipeline_evaluate_defaults();
    qkv_metrics m;
    o.file = set.path;
    h = (heard){.stop_at = 2};
    expect_status(qkv_pipeline_evaluate(p, &o, &m), QKV_E_CANCELLED, "stopped");
    qkv_pipeline_close(p);
}

/* ---- classes of pixels, hidden patches, colours ---------------------------------------------- */

static void test_classes_of_pixels(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(SEGMENTER);
    qkv_image image = drawn_file("a.png", 24, 17, 1);
    const qkv_image_source file = {.path = in(folder, "a.png")}, pixels = {.image = &image};
    const qkv_pipeline_segment_options masks = {.mask = true};
    qkv_segmentation a, b;
    assert_int_equal(qkv_pipeline_segment(p, &file, NULL, &a), QKV_OK);
    assert_int_equal(qkv_pipeline_segment(p, &pixels, &masks, &b), QKV_OK);
    assert_true(a.image.width == 24 && a.image.height == 17 && a.classes == CLASSES);
    assert_memory_equal(a.map, b.map, 24 * 17);
    assert_int_equal(a.pixels[0] + a.pixels[1] + a.pixels[2], 24 * 17);
    static const uint8_t red[3] = {255, 0, 0};
    assert_memory_equal(b.color[2], red, 3); /* as the class is called */
    assert_memory_equal(b.image.data + 3 * 30, b.color[b.map[30]], 3);
    assert_memory_equal(a.image.data + 3 * 30, a.color[a.map[30]], 3);
    assert_memory_not_equal(a.color[2], b.color[2], 3);
    qkv_segmentation_free(&a);
    qkv_segmentation_free(&b);
    drop(&image);
    qkv_pipeline_close(p);
}

static void test_hidden_patches(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(MAE);
    qkv_image image = drawn_file("a.png", 30, 20, 1);
    const qkv_image_source file = {.path = in(folder, "a.png")}, pixels = {.image = &image};
    qkv_pipeline_reconstruct_options o = qkv_pipeline_reconstruct_defaults();
    qkv_reconstruction a, b;
    assert_true(o.mask == 0.75 && !o.paste && !o.seed);
    assert_int_equal(qkv_pipeline_reconstruct(p, &file, NULL, &a), QKV_OK);
    assert_int_equal(qkv_pipeline_reconstruct(p, &pixels, &o, &b), QKV_OK);
    same_image(&a.image, &b.image);
    same_image(&a.filled, &b.filled);
    same_image(&a.hidden, &b.hidden);
    qkv_reconstruction_free(&b);
    o.paste = true;
    assert_int_equal(qkv_pipeline_reconstruct(p, &pixels, &o, &b), QKV_OK);
    size_t seen = 0; /* visible pixels are the image's */
    for (size_t i = 0; i < SIDE * SIDE; i++)
        seen += memcmp(b.filled.data + 3 * i, b.image.data + 3 * i, 3) == 0;
    assert_true(seen >= SIDE * SIDE / 4 && seen < SIDE * SIDE / 2);
    qkv_reconstruction_free(&a);
    qkv_reconstruction_free(&b);
    o.mask = 1;
    expect_status(qkv_pipeline_reconstruct(p, &pixels, &o, &b), QKV_E_ARGUMENT, "[0, 1)");
    qkv_reconstruction_free(&b);
    drop(&image);
    qkv_pipeline_close(p);
}

/* A part without colours: all else is kept, the part is of its own lightness; a mask means the same
 * as a rectangle; the grey is as asked for; what cannot be is refused. */
static void expect_missing(qkv_pipeline *p, const qkv_image_source *source, const qkv_image *image)
{
    const char *parts[] = {"4,6,10,8", "20,0,4,3"};
    qkv_pipeline_colorize_options o = qkv_pipeline_colorize_defaults();
    qkv_colorization a, b;
    qkv_image mask;
    size_t changed = 0;
    o.missing = (qkv_strings){parts, 2};
    assert_int_equal(qkv_pipeline_colorize(p, source, &o, &a), QKV_OK);
    assert_int_equal(qkv_image_create(&mask, ctx, 24, 20, 1), QKV_OK);
    for (size_t i = 0; i < 24 * 20; i++) {
        size_t x = i % 24, y = i / 24;
        bool missing = (x >= 4 && x < 14 && y >= 6 && y < 14) || (x >= 20 && y < 3);
        const uint8_t *from = image->data + 3 * i, *seen = a.seen.data + 3 * i;
        mask.data[i] = missing ? 128 : 127;
        changed += memcmp(a.image.data + 3 * i, from, 3) != 0;
        if (!missing)
            assert_memory_equal(a.image.data + 3 * i, from, 3);
        if (!missing)
            assert_memory_equal(seen, from, 3);
        else
            assert_true(seen[0] == seen[1] && seen[1] == seen[2]);
    }
    assert_true(changed > 60 && changed <= 80 + 12);
    assert_int_equal(qkv_image_write(&mask, ctx, in(folder, "mask.png")), QKV_OK);
    drop(&mask);
    o.missing.count = 0;
    o.mask = in(folder, "mask.png");
    assert_int_equal(qkv_pipeline_colorize(p, source, &o, &b), QKV_OK);
    same_image(&a.image, &b.image);
    qkv_colorization_free(&b);
    o.grey = QKV_GREY_WEIGHTS;
    assert_int_equal(qkv_pipeline_colorize(p, source, &o, &b), QKV_OK);
    const uint8_t *from = image->data + 3 * (7 * 24 + 5);
    assert_int_equal(b.seen.data[3 * (7 * 24 + 5)],
                     (int)(0.29 * from[0] + 0.58 * from[1] + 0.11 * from[2] + 0.5));
    qkv_colorization_free(&a);
    qkv_colorization_free(&b);
    o = qkv_pipeline_colorize_defaults();
    o.missing = (qkv_strings){parts, 1};
    parts[0] = "4,6,21,1";
    expect_status(qkv_pipeline_colorize(p, source, &o, &b), QKV_E_ARGUMENT, "24 x 20");
    parts[0] = "4,6,2";
    expect_status(qkv_pipeline_colorize(p, source, &o, &b), QKV_E_ARGUMENT, "x,y,width,height");
    o = qkv_pipeline_colorize_defaults();
    mask = drawn_file("small.png", 9, 9, 1);
    drop(&mask);
    o.mask = in(folder, "small.png");
    expect_status(qkv_pipeline_colorize(p, source, &o, &b), QKV_E_ARGUMENT, "24 x 20 expected");
}

static void test_colors(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(COLORIZER);
    qkv_image image = drawn_file("a.png", 24, 20, 1);
    const qkv_image_source file = {.path = in(folder, "a.png")}, pixels = {.image = &image};
    const char *hints[] = {"3,4,#ff0000"};
    qkv_pipeline_colorize_options o = qkv_pipeline_colorize_defaults();
    qkv_colorization a, b;
    assert_int_equal(qkv_pipeline_colorize(p, &file, NULL, &a), QKV_OK);
    assert_true(!a.attention.data && !a.attended_count);
    o.attention = "5,6";
    assert_int_equal(qkv_pipeline_colorize(p, &pixels, &o, &b), QKV_OK);
    same_image(&a.image, &b.image);
    assert_true(b.attention.height >= 256 && b.attended_count);
    for (size_t i = 1; i < b.attended_count; i++)
        assert_true(b.attended[i].weight <= b.attended[i - 1].weight);
    qkv_colorization_free(&b);
    o.attention = NULL;
    o.hints = (qkv_strings){hints, 1};
    assert_int_equal(qkv_pipeline_colorize(p, &pixels, &o, &b), QKV_OK);
    assert_memory_not_equal(a.image.data, b.image.data, 24 * 20 * 3);
    assert_true(!b.attention.data && !b.attended_count); /* the one before has left nothing */
    qkv_colorization_free(&a);
    qkv_colorization_free(&b);
    hints[0] = "3,4,#ff0000";
    expect_missing(p, &pixels, &image);
    o = qkv_pipeline_colorize_defaults();
    o.hints = (qkv_strings){hints, 1};
    hints[0] = "3,4,red";
    expect_status(qkv_pipeline_colorize(p, &pixels, &o, &b), QKV_E_ARGUMENT, "#rrggbb");
    o.hints.count = 0;
    o.attention = "24,0";
    expect_status(qkv_pipeline_colorize(p, &pixels, &o, &b), QKV_E_ARGUMENT, "24 x 20");
    o.attention = "0,0";
    o.layer = 3;
    expect_status(qkv_pipeline_colorize(p, &pixels, &o, &b), QKV_E_ARGUMENT, "2 layers");
    drop(&image);
    qkv_pipeline_close(p);
}

/* ---- codes ----------------------------------------------------------------------------------- */

static void test_codes(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(CODER);
    qkv_image image = drawn_file("a.png", 13, 11, 1), small_one = drawn_file("b.png", 1, 9, 2);
    const qkv_image_source file = {.path = in(folder, "a.png")}, pixels = {.image = &image},
                      tiny = {.path = in(folder, "b.png")};
    qkv_code_grid a, b;
    qkv_image again, twice;
    assert_int_equal(qkv_pipeline_encode(p, &file, &a), QKV_OK);
    assert_int_equal(qkv_pipeline_encode(p, &pixels, &b), QKV_OK);
    assert_true(a.rows == 5 && a.columns == 6);
    assert_memory_equal(a.codes, b.codes, 30 * sizeof *a.codes);
    assert_int_equal(qkv_pipeline_decode(p, &a, &again), QKV_OK);
    assert_true(again.width == 12 && again.height == 10);
    assert_int_equal(qkv_code_grid_save(&a, in(folder, "a.npy")), QKV_OK);
    qkv_code_grid_free(&b);
    assert_int_equal(qkv_code_grid_load(&b, ctx, in(folder, "a.npy")), QKV_OK);
    assert_int_equal(qkv_pipeline_decode(p, &b, &twice), QKV_OK);
    same_image(&again, &twice);
    b.codes[7] = CODES;
    drop(&twice);
    expect_status(qkv_pipeline_decode(p, &b, &twice), QKV_E_ARGUMENT, "a.npy");
    qkv_code_grid_free(&a);
    qkv_code_grid_free(&b);
    expect_status(qkv_pipeline_encode(p, &tiny, &a), QKV_E_FORMAT, "b.png: 1 x 9");
    expect_status(qkv_code_grid_load(&a, ctx, in(folder, "none.npy")), QKV_E_IO, "none.npy");
    drop(&again);
    drop(&image);
    drop(&small_one);
    qkv_pipeline_close(p);
}

/* ---- images drawn from a prior ------------------------------------------------------------- */

static void test_drawing(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(PRIOR);
    qkv_pipeline_sample_options o = qkv_pipeline_sample_defaults();
    qkv_sampled_images a, b;
    heard h = {0};
    assert_true(o.count == 16 && o.keep == 0.5 && o.sampling.temperature == 1);
    o.count = 3;
    qkv_context_on_event(ctx, listen, &h);
    assert_int_equal(qkv_pipeline_sample_images(p, &o, &a), QKV_OK);
    assert_true(h.finished && h.events == PLACES + 1);
    assert_true(a.count == 3 && a.rows == GRID && a.width == 2 * GRID && a.channels == 3);
    assert_true(a.sheet.width == 2 * 8 + 2 && a.sheet.height == 2 * 8 + 2);
    assert_memory_equal(a.sheet.data, a.images, 3 * 8); /* the first row of the first one */
    o.show_next = 5;
    assert_int_equal(qkv_pipeline_sample_images(p, &o, &b), QKV_OK);
    assert_memory_equal(a.codes, b.codes, 3 * PLACES * sizeof *a.codes); /* the same seed */
    assert_true(b.row == 2 && b.column == 2 && b.shown == 5 && b.next_count[2] == 5);
    for (size_t k = 1; k < 5; k++)
        assert_true(b.next[10 + k].probability <= b.next[10 + k - 1].probability);
    for (size_t k = 0; k < 5; k++)
        assert_true(b.next[10 + k].drawn == (b.next[10 + k].code == b.drawn[2].code));
    assert_true(b.drawn[2].code == b.codes[2 * PLACES + 2 * b.columns + 2] && b.drawn[2].drawn);
    assert_true(b.sheet.width == 6 * 8 + 5 * 2 && b.sheet.height == 3 * 8 + 2 * 2);
    qkv_sampled_images_free(&b);
    o.sampling.temperature = 0; /* the model's own probabilities are not 1 and 0 */
    o.at = "0,0";
    assert_int_equal(qkv_pipeline_sample_images(p, &o, &b), QKV_OK);
    assert_true(b.next_count[0] == 5 && b.next[0].drawn && b.next[0].probability < 0.9);
    o.sampling.temperature = 1;
    o.at = NULL;
    qkv_sampled_images_free(&b);
    o.seed = 1;
    assert_int_equal(qkv_pipeline_sample_images(p, &o, &b), QKV_OK);
    assert_memory_not_equal(a.codes, b.codes, 3 * PLACES * sizeof *a.codes);
    qkv_sampled_images_free(&a);
    qkv_sampled_images_free(&b);
    h = (heard){.stop_at = 4};
    expect_status(qkv_pipeline_sample_images(p, &o, &a), QKV_E_CANCELLED, "stopped");
    assert_null(a.codes);
    qkv_pipeline_close(p);
}

static void test_completing(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(PRIOR), *coder;
    qkv_image image = drawn_file("a.png", 8, 8, 1);
    qkv_pipeline_sample_options o = qkv_pipeline_sample_defaults();
    qkv_sampled_images a, b;
    qkv_code_grid g;
    assert_int_equal(qkv_pipeline_open(&coder, ctx, in(folder, "m/vqgan")), QKV_OK);
    o.count = 2;
    o.keep = 0.5;
    o.complete.path = in(folder, "a.png");
    assert_int_equal(qkv_pipeline_encode(coder, &o.complete, &g), QKV_OK);
    assert_int_equal(qkv_pipeline_sample_images(p, &o, &a), QKV_OK);
    o.complete = (qkv_image_source){.image = &image};
    assert_int_equal(qkv_pipeline_sample_images(p, &o, &b), QKV_OK);
    assert_memory_equal(a.codes, b.codes, 2 * PLACES * sizeof *a.codes);
    assert_memory_equal(a.codes, g.codes, PLACES / 2 * sizeof *a.codes);
    assert_memory_not_equal(a.codes + PLACES / 2, a.codes + PLACES + PLACES / 2,
                            PLACES / 2 * sizeof *a.codes); /* each has an end of its own */
    qkv_code_grid_free(&g);
    qkv_sampled_images_free(&a);
    qkv_sampled_images_free(&b);
    drop(&image);
    qkv_pipeline_close(coder);
    qkv_pipeline_close(p);
}

static void test_refused_drawing(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(PRIOR);
    const qkv_pipeline_sample_options plain = qkv_pipeline_sample_defaults();
    qkv_pipeline_sample_options o = plain;
    qkv_sampled_images s;
    o.at = "1,1";
    expect_status(qkv_pipeline_sample_images(p, &o, &s), QKV_E_ARGUMENT, "--show-next");
    o.show_next = 2;
    o.at = "4,0";
    expect_status(qkv_pipeline_sample_images(p, &o, &s), QKV_E_ARGUMENT, "row,column");
    o = plain;
    o.width = 9;
    expect_status(qkv_pipeline_sample_images(p, &o, &s), QKV_E_ARGUMENT, "multiples of 2");
    o = plain;
    o.condition.path = "a.png";
    expect_status(qkv_pipeline_sample_images(p, &o, &s), QKV_E_ARGUMENT, "--condition: none");
    o = plain;
    o.class_ = "cat"; /* classes without names are numbers */
    expect_status(qkv_pipeline_sample_images(p, &o, &s), QKV_E_ARGUMENT, "a number from 0");
    o = plain;
    o.complete.path = in(folder, "none.png");
    expect_status(qkv_pipeline_sample_images(p, &o, &s), QKV_E_IO, "none.png");
    o = plain;
    o.count = 0;
    expect_status(qkv_pipeline_sample_images(p, &o, &s), QKV_E_ARGUMENT, "10000");
    qkv_pipeline_close(p);
    save(made_prior(), "bare"); /* without a VQGAN */
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "bare")), QKV_OK);
    expect_status(qkv_pipeline_sample_images(p, &plain, &s), QKV_E_IO, "bare/vqgan");
    qkv_pipeline_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_stopping),
        cmocka_unit_test(test_classes_of_pixels),
        cmocka_unit_test(test_hidden_patches),
        cmocka_unit_test(test_colors),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_drawing),
        cmocka_unit_test(test_completing),
        cmocka_unit_test(test_refused_drawing),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
