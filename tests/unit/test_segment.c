/* test_segment.c - masks as classes, and their pairs; what a part of an update adds, what is
 * evaluated and told. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "drawn.h"
#include "qkv/image_file.h"
#include "qkv/segment.h"

enum { SIDE = 8, PIXELS = SIDE * SIDE, COUNT = 20 };

/* ---- masks --------------------------------------------------------------------------------- */

/* An image FOLDER/NAME of one channel or three, the left half of one colour, the right of
 * another. */
static void write_halves(const char *name, size_t width, size_t height, size_t channels,
                         uint32_t left, uint32_t right)
{
    qkv_image image;
    assert_int_equal(qkv_image_create(&image, ctx, width, height, channels), QKV_OK);
    for (size_t i = 0; i < width * height; i++) {
        uint32_t color = i % width < width / 2 ? left : right;
        for (size_t k = 0; k < channels; k++)
            image.data[i * channels + k] = (uint8_t)(color >> (16 - 8 * k));
    }
    assert_int_equal(qkv_image_write(&image, ctx, in(folder, name)), QKV_OK);
    qkv_image_free(&image, ctx);
}

static void make_folders(void)
{
    assert_int_equal(mkdir(in(folder, "images"), 0700), 0);
    assert_int_equal(mkdir(in(folder, "masks"), 0700), 0);
}

static qkv_image_list *opened(const char *name)
{
    qkv_image_list *p;
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, name)), QKV_OK);
    return p;
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        uint32_t color;
        const char *name;
    } cases[] = {{0, "0"}, {0xffffff, "255"}, {0x111111, "17"}, {0xff0000, "#ff0000"},
                 {0x00000a, "#00000a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[QKV_MASK_NAME];
        uint32_t back;
        qkv_mask_name(name, cases[i].color);
        assert_string_equal(name, cases[i].name);
        assert_true(qkv_mask_color(name, &back));
        assert_int_equal(back, cases[i].color);
    }
    uint32_t none;
    static const char *const wrong[] = {"", "256", "#ff", "#ffffff", "sky", "-1", "#FF0000"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(qkv_mask_color(wrong[i], &none));
}

/* Reads images and masks at SIDE; the status. */
static qkv_status read_pairs(qkv_pixels **images, qkv_pixels **classes,
                             const qkv_mask_palette *palette)
{
    qkv_image_list *a = opened("images"), *b = opened("masks");
    qkv_status status =
        qkv_masks_read(images, classes, ctx, a, b, palette, SIDE, NULL, NULL);
    qkv_image_list_close(a);
    qkv_image_list_close(b);
    return status;
}

static qkv_mask_palette palette_of_masks(void)
{
    qkv_mask_palette p;
    qkv_image_list *masks = opened("masks");
    assert_int_equal(qkv_mask_palette_read(&p, ctx, masks), QKV_OK);
    qkv_image_list_close(masks);
    return p;
}

/* Grey and colours in one set, another size than the model's, names with other folders. */
static void test_pairs(void **state)
{
    (void)state;
    qkv_pixels *images, *classes;
    make_folders();
    write_halves("images/a.b.png", 20, 12, 3, 0x102030, 0x405060);
    write_halves("images/c.png", SIDE, SIDE, 1, 0x500000, 0x500000);
    write_halves("masks/a.b.png", 20, 12, 3, 0xff0000, 0x010101);
    write_halves("masks/c.png", SIDE, SIDE, 1, 0, 0xff0000);
    qkv_mask_palette p = palette_of_masks();
    static const uint32_t expected[] = {0, 0x010101, 0xff0000, 0xffffff};
    assert_int_equal(p.count, 4);
    assert_memory_equal(p.color, expected, sizeof expected);
    assert_int_equal(read_pairs(&images, &classes, &p), QKV_OK);
    assert_int_equal(qkv_pixels_count(images), 2);
    assert_int_equal(qkv_pixels_channels(images), 3);
    assert_int_equal(qkv_pixels_channels(classes), 1);
    for (size_t i = 0; i < PIXELS; i++) {
        bool left = i % SIDE < SIDE / 2;
        assert_int_equal(qkv_pixels_data(classes, 0)[i], left ? 2 : 1);
        assert_int_equal(qkv_pixels_data(classes, 1)[i], left ? 0 : 3);
    }
    qkv_pixels_close(images);
    qkv_pixels_close(classes);
}

static void expect_refused(const qkv_mask_palette *p, const char *file, const char *words)
{
    qkv_pixels *images, *classes;
    assert_int_not_equal(read_pairs(&images, &classes, p), QKV_OK);
    assert_null(images);
    assert_null(classes);
    if (!strstr(qkv_context_message(ctx), file) || !strstr(qkv_context_message(ctx), words))
        fail_msg("%s, %s expected: %s", file, words, qkv_context_message(ctx));
}

static void test_bad_masks(void **state)
{
    (void)state;
    make_folders();
    write_halves("images/a.png", SIDE, SIDE, 3, 1, 2);
    write_halves("masks/b.png", SIDE, SIDE, 3, 1, 2);
    qkv_mask_palette p = palette_of_masks();
    expect_refused(&p, "images/a.png", "no mask \"a\"");
    write_halves("masks/a.png", SIDE, SIDE + 1, 3, 1, 2);
    expect_refused(&p, "masks/a.png", "8 x 8 pixels expected");
    write_halves("masks/a.png", SIDE, SIDE, 3, 1, 3);
    expect_refused(&p, "masks/a.png", "4,0 is #000003");
    FILE *broken = fopen(in(folder, "masks/a.png"), "wb");
    assert_non_null(broken);
    assert_int_equal(fputs("no image", broken) >= 0, true);
    assert_int_equal(fclose(broken), 0);
    expect_refused(&p, "masks/a.png: neither", "");
    broken = fopen(in(folder, "images/a.png"), "wb");
    assert_non_null(broken);
    assert_int_equal(fclose(broken), 0);
    expect_refused(&p, "images/a.png: neither", "");
}

static bool count_bad(void *user, const qkv_pixels_event *event)
{
    size_t *bad = user;
    *bad += event->bad != NULL;
    return true;
}

/* One of three masks, and another's image, cannot be read: one pair is left, and its colours. */
static void test_some_broken(void **state)
{
    (void)state;
    qkv_pixels *images, *classes;
    size_t bad = 0;
    make_folders();
    for (uint32_t i = 0; i < 3; i++) {
        const char *const files[] = {"images/a.png", "images/b.png", "images/c.png"};
        const char *const masks[] = {"masks/a.png", "masks/b.png", "masks/c.png"};
        write_halves(files[i], SIDE, SIDE, 3, 1, 2);
        write_halves(masks[i], SIDE, SIDE, 3, i, 7);
    }
    put_file(in(folder, "masks/a.png"), "no image", 8);
    put_file(in(folder, "images/b.png"), "no image", 8);
    qkv_mask_palette p = palette_of_masks();
    assert_int_equal(p.count, 3); /* of b and c */
    qkv_image_list *x = opened("images"), *y = opened("masks");
    assert_int_equal(qkv_masks_read(&images, &classes, ctx, x, y, &p, SIDE, count_bad, &bad),
                     QKV_OK);
    assert_int_equal(bad, 2);
    assert_int_equal(qkv_pixels_count(images), 1);
    assert_int_equal(qkv_pixels_count(classes), 1);
    assert_non_null(strstr(qkv_pixels_name(images, 0), "c.png"));
    assert_non_null(strstr(qkv_pixels_name(classes, 0), "c.png"));
    qkv_image_list_close(x);
    qkv_image_list_close(y);
    qkv_pixels_close(images);
    qkv_pixels_close(classes);
}

static void test_too_many_colors(void **state)
{
    (void)state;
    qkv_image image;
    qkv_mask_palette p;
    make_folders();
    assert_int_equal(qkv_image_create(&image, ctx, 257, 1, 3), QKV_OK);
    for (size_t i = 0; i < 257 * 3; i++)
        image.data[i] = (uint8_t)(i % 3 ? i / 3 : i / 3 / 256);
    assert_int_equal(qkv_image_write(&image, ctx, in(folder, "masks/a.png")), QKV_OK);
    qkv_image_free(&image, ctx);
    qkv_image_list *masks = opened("masks");
    assert_int_equal(qkv_mask_palette_read(&p, ctx, masks), QKV_E_FORMAT);
    assert_int_equal(p.count, 0);
    assert_non_null(strstr(qkv_context_message(ctx), "more than 256 colours"));
    qkv_image_list_close(masks);
}

/* ---- the task ------------------------------------------------------------------------------ */

static qkv_model *made_model(size_t classes)
{
    qkv_pixelwise_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_segmenter_type()), &c);
    c.trunk.image = SIDE;
    c.trunk.patch = 2;
    c.trunk.width = 16;
    c.trunk.layers = 1;
    c.trunk.heads = 2;
    c.trunk.ff_width = 0;
    c.outputs = classes;
    c.tanh = true; /* whatever the memory held: a segmenter's defaults do not set it */
    return made(qkv_segmenter_type(), &c);
}

static void test_logits_are_not_bounded(void **state)
{
    (void)state;
    qkv_model *m = made_model(3);
    assert_false(((const qkv_pixelwise_config *)qkv_model_config(m))->tanh);
    qkv_model_destroy(m);
}

static uint8_t thirds(size_t image, size_t k) { return (uint8_t)((image + k) % 3); }
/* A quarter is class 1, the rest class 0. */
static uint8_t quarter(size_t image, size_t k) { return (void)image, k % 4 == 0; }

static void test_parts(void **state)
{
    (void)state;
    qkv_model *m = made_model(3);
    qkv_pixels *x = drawn(COUNT, SIDE, 3, 0, mixed), *y = drawn(COUNT, SIDE, 1, 0, thirds);
    const qkv_segment_data data = {x, y};
    qkv_task task;
    const qkv_segment_options o = {.augment = {.crop_pad = 1, .flip = true}};
    assert_int_equal(qkv_task_segment(&task, m, &data, &data, &o, 9), QKV_OK);
    assert_true(fabs(expect_parts(&task) - log(3)) < 0.5);
    expect_evaluated(&task, "miou", COUNT);
    qkv_task_destroy(&task);
    qkv_pixels_close(x);
    qkv_pixels_close(y);
    qkv_model_destroy(m);
}

/* A model that says class 0 everywhere: 3/4 of class 0's union and nothing of class 1's. */
static void test_evaluated(void **state)
{
    (void)state;
    qkv_model *m = made_model(3);
    qkv_pixels *x = drawn(COUNT, SIDE, 3, 0, mixed), *y = drawn(COUNT, SIDE, 1, 0, quarter);
    const qkv_segment_data data = {x, y};
    qkv_segment_score s;
    set_to_zero(m, "head.weight");
    assert_int_equal(qkv_segment_evaluate(m, tape, &data, 0, &s), QKV_OK);
    assert_int_equal(s.images, COUNT);
    assert_true(fabs(s.miou - 0.375) < 1e-9 && fabs(s.accuracy - 0.75) < 1e-9);
    assert_true(fabs(s.loss - log(3)) < 1e-5);
    qkv_pixels_close(x);
    qkv_pixels_close(y);
    qkv_model_destroy(m);
}

/* Of another size: what is told for the small image, each pixel stretched. */
static void test_told(void **state)
{
    (void)state;
    qkv_model *m = made_model(3);
    qkv_image small, large;
    uint8_t a[PIXELS], b[6 * PIXELS];
    assert_int_equal(qkv_image_create(&small, ctx, SIDE, SIDE, 3), QKV_OK);
    assert_int_equal(qkv_image_create(&large, ctx, 3 * SIDE, 2 * SIDE, 3), QKV_OK);
    for (size_t k = 0; k < 3 * PIXELS; k++)
        small.data[k] = 90;
    memset(large.data, 90, 18 * PIXELS);
    assert_int_equal(qkv_segment(a, m, tape, &small), QKV_OK);
    assert_int_equal(qkv_segment(b, m, tape, &large), QKV_OK);
    for (size_t y = 0; y < 2 * SIDE; y++)
        for (size_t x = 0; x < 3 * SIDE; x++)
            assert_int_equal(b[y * 3 * SIDE + x], a[y / 2 * SIDE + x / 3]);
    qkv_image_free(&small, ctx);
    qkv_image_free(&large, ctx);
    qkv_model_destroy(m);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_model *m = made_model(2);
    qkv_pixels *x = drawn(COUNT, SIDE, 3, 0, mixed), *y = drawn(COUNT, SIDE, 1, 0, thirds);
    const qkv_segment_data data = {x, y}, swapped = {y, x};
    qkv_task task;
    assert_int_equal(qkv_task_segment(&task, m, &data, NULL, NULL, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "class 2"));
    qkv_model *many = made_model(QKV_MASK_CLASSES + 1);
    qkv_segment_score score;
    assert_int_equal(qkv_segment_evaluate(many, tape, &data, 0, &score), QKV_E_UNSUPPORTED);
    assert_non_null(strstr(qkv_context_message(ctx), "257 classes"));
    qkv_model_destroy(many);
    assert_int_equal(qkv_task_segment(&task, m, &swapped, NULL, NULL, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "channels"));
    assert_null(task.self);
    qkv_pixels *z = drawn(COUNT, SIDE, 1, 0, quarter);
    const qkv_segment_data fine = {x, z};
    const qkv_segment_options mixing = {.augment = {.mixup = 1, .mix = 1}};
    assert_int_equal(qkv_task_segment(&task, m, &fine, NULL, &mixing, 1), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "not mixed"));
    assert_null(task.self);
    qkv_pixels_close(z);
    qkv_pixels_close(x);
    qkv_pixels_close(y);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_bad_masks), cmocka_unit_test(test_some_broken),
        cmocka_unit_test(test_too_many_colors),
        cmocka_unit_test(test_logits_are_not_bounded),
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_evaluated),
        cmocka_unit_test(test_told),    cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
