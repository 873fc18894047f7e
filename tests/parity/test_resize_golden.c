/* Resizing: the same bytes as Pillow's, for every filter, up and down, of parts; no leaks; what
 * cannot be is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

#include "qkv/image_file.h"
#include "qkv/npy.h"
#include "qkv/resize.h"

#define IMAGES QKV_SOURCE_DIR "/tests/golden/images/resize"

static const qkv_box part = {3.5, 2.25, 30.75, 31};
static const struct {
    size_t width, height;
    const qkv_box *box;
} sizes[] = {{16, 16, NULL}, {90, 20, NULL}, {64, 70, &part}, {47, 33, NULL}, {1, 1, NULL}};

static void test_is_pillows(void **state)
{
    (void)state;
    static const char *const names[] = {"box", "bilinear", "bicubic"};
    qkv_image source, made;
    assert_int_equal(qkv_image_read(&source, ctx, IMAGES "/source.png", NULL), QKV_OK);
    for (int f = 0; f < QKV_RESIZE_FILTERS; f++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            char path[PATH_BYTES];
            qkv_array want;
            snprintf(path, sizeof path, "%s/%s-%zux%zu.npy", IMAGES, names[f],
                     sizes[s].width, sizes[s].height);
            assert_int_equal(qkv_npy_load(&want, ctx, path), QKV_OK);
            assert_int_equal(qkv_image_resize(&made, ctx, &source, sizes[s].width, sizes[s].height,
                                              (qkv_resize_filter)f, sizes[s].box), QKV_OK);
            assert_int_equal(made.width * made.height * 3, want.count);
            for (size_t i = 0; i < want.count; i++)
                if (made.data[i] != (int)want.data[i])
                    fail_msg("%s at %zu: %d, not %d", path, i, made.data[i], (int)want.data[i]);
            qkv_image_free(&made, ctx);
            qkv_array_free(&want);
        }
    qkv_image_free(&source, ctx);
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
        cmocka_unit_test(test_is_pillows),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
