/* Resizing: the same bytes as Pillow's, for every filter, up and down, of parts, and as Hugging
 * Face's processors', which then cut out the middle; no leaks; what cannot be is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

#include "qkv/image_file.h"
#include "qkv/npy.h"
#include "qkv/pixels.h"
#include "qkv/resize.h"

#define IMAGES QKV_SOURCE_DIR "/tests/golden/images/resize"

static const qkv_box part = {3.5, 2.25, 30.75, 31};
static const struct {
    size_t width, height;
    const qkv_box *box;
} sizes[] = {{16, 16, NULL}, {90, 20, NULL}, {64, 70, &part}, {47, 33, NULL}, {1, 1, NULL}};

static void compare_bytes(const char *path, const qkv_image *made)
{
    qkv_array want;
    assert_int_equal(qkv_npy_load(&want, ctx, path), QKV_OK);
    assert_int_equal(made->width * made->height * 3, want.count);
    for (size_t i = 0; i < want.count; i++)
        if (made->data[i] != (int)want.data[i])
            fail_msg("%s at %zu: %d, not %d", path, i, made->data[i], (int)want.data[i]);
    qkv_array_free(&want);
}

static void test_is_pillows(void **state)
{
    (void)state;
    static const char *const names[] = {"box", "bilinear", "bicubic"};
    qkv_image source, made;
    assert_int_equal(qkv_image_read(&source, ctx, IMAGES "/source.png", NULL), QKV_OK);
    for (int f = 0; f < QKV_RESIZE_FILTERS; f++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            char path[PATH_BYTES];
            snprintf(path, sizeof path, "%s/%s-%zux%zu.npy", IMAGES, names[f],
                     sizes[s].width, sizes[s].height);
            assert_int_equal(qkv_image_resize(&made, ctx, &source, sizes[s].width, sizes[s].height,
                                              (qkv_resize_filter)f, sizes[s].box), QKV_OK);
            compare_bytes(path, &made);
            qkv_image_free(&made, ctx);
        }
    qkv_image_free(&source, ctx);
}

static void test_is_processors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        qkv_pixels_options o;
    } cases[] = {
        {"shorter", {.fit = QKV_FIT_CROP, .resize = 20, .height = 16, .width = 14,
                     .filter = QKV_RESIZE_BICUBIC}},
        {"larger", {.fit = QKV_FIT_CROP, .resize = 50, .height = 47, .width = 65,
                    .filter = QKV_RESIZE_BICUBIC}},
        {"whole", {.fit = QKV_FIT_CROP, .resize = 17, .height = 17, .width = 17,
                   .filter = QKV_RESIZE_BILINEAR}},
        {"squashed", {.fit = QKV_FIT_SQUASH, .resize = 21, .height = 16, .width = 15,
                      .filter = QKV_RESIZE_BICUBIC}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[PATH_BYTES];
        qkv_image image;
        snprintf(path, sizeof path, "%s/processor-%s.npy", IMAGES, cases[i].name);
        assert_int_equal(qkv_image_read(&image, ctx, IMAGES "/source.png", NULL), QKV_OK);
        assert_int_equal(qkv_image_fit(&image, ctx, &cases[i].o), QKV_OK);
        compare_bytes(path, &image);
        qkv_image_free(&image, ctx);
    }
}

/* A side of the crop is longer than what it is cut from. */
static void test_crop_refused(void **state)
{
    (void)state;
    static const qkv_pixels_options o = {.fit = QKV_FIT_CROP, .resize = 20, .height = 21,
                                         .width = 20};
    qkv_image image;
    assert_int_equal(qkv_image_read(&image, ctx, IMAGES "/source.png", NULL), QKV_OK);
    assert_int_equal(qkv_image_fit(&image, ctx, &o), QKV_E_ARGUMENT);
    assert_string_equal(qkv_context_message(ctx), "an image of 47 x 33, resized to 28 x 20, cannot "
                                                  "be cut to 20 x 21");
    qkv_image_free(&image, ctx);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_image source, made;
    static const qkv_box bad[] = {{0, 0, 48, 33}, {-1, 0, 5, 5}, {5, 0, 5, 5}, {0, 9, 5, 3}};
    assert_int_equal(qkv_image_read(&source, ctx, IMAGES "/source.png", NULL), QKV_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(qkv_image_resize(&made, ctx, &source, 4, 4, QKV_RESIZE_BOX, &bad[i]),
                         QKV_E_ARGUMENT);
    assert_int_equal(qkv_image_resize(&made, ctx, &source, 0, 4, QKV_RESIZE_BOX, NULL),
                     QKV_E_ARGUMENT);
    assert_null(made.data);
    for (size_t n = 0; n < 10; n++) {
        memory.left = n;
        assert_int_equal(qkv_image_resize(&made, ctx, &source, 8, 8, QKV_RESIZE_BICUBIC, NULL),
                         QKV_E_MEMORY);
        assert_null(made.data);
    }
    memory.left = SIZE_MAX;
    qkv_image_free(&source, ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_pillows), cmocka_unit_test(test_is_processors),
        cmocka_unit_test(test_crop_refused),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
