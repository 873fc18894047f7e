/* Images: every kind of PNG and JPEG becomes the pixels it should; what is written is read again;
 * damaged files are refused, and nothing is lost with them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

#include "qkv/image_file.h"
#include "qkv/npy.h"

#define IMAGES QKV_SOURCE_DIR "/tests/golden/images"

static const qkv_image_options over = {3, {10, 200, 90}, 1000000};

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* Largest difference between the image and its golden pixels. */
static int difference(const char *name, const char *type)
{
    char path[PATH_BYTES];
    qkv_image image;
    qkv_array want;
    int most = 0;
    snprintf(path, sizeof path, "%s/%s", IMAGES, name);
    if (qkv_image_read(&image, ctx, path, &over))
        fail_msg("%s", qkv_context_message(ctx));
    snprintf(path, sizeof path, "%s/%.*s.npy", IMAGES, (int)(strlen(name) - strlen(type)), name);
    assert_int_equal(qkv_npy_load(&want, ctx, path), QKV_OK);
    assert_int_equal(image.height, want.shape[0]);
    assert_int_equal(image.width, want.shape[1]);
    assert_int_equal(image.channels, 3);
    for (size_t i = 0; i < want.count; i++) {
        int d = abs((int)image.data[i] - (int)want.data[i]);
        most = d > most ? d : most;
    }
    qkv_array_free(&want);
    qkv_image_free(&image, ctx);
    return most;
}

static size_t check_all(const char *type, int allowed)
{
    size_t n = 0;
    DIR *dir = opendir(IMAGES);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (!ends_in(e->d_name, type))
            continue;
        int d = difference(e->d_name, type);
        if (d > (strstr(e->d_name, "-8bit") ? 0 : allowed))
            fail_msg("%s differs by %d", e->d_name, d);
        n++;
    }
    closedir(dir);
    return n;
}

static void test_png(void **state)
{
    (void)state;
    assert_int_equal(check_all(".png", 1), 26); /* 1: 16 bits become 8 before they are blended */
}

static void test_jpeg(void **state)
{
    (void)state;
    assert_int_equal(check_all(".jpg", 1), 14); /* 1: two ways of one ink on another */
}

static void test_channels(void **state)
{
    (void)state;
    qkv_image grey, colour, again;
    qkv_image_options o = over;
    o.channels = 1;
    assert_int_equal(qkv_image_read(&grey, ctx, IMAGES "/type2-8bit.png", &o), QKV_OK);
    assert_int_equal(qkv_image_read(&colour, ctx, IMAGES "/type2-8bit.png", &over), QKV_OK);
    for (size_t i = 0; i < grey.width * grey.height; i++) {
        const uint8_t *p = colour.data + 3 * i;
        double want = 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
        assert_true(want - grey.data[i] <= 0.51 && grey.data[i] - want <= 0.51);
    }
    const char *path = in(folder, "x.png");
    assert_int_equal(qkv_image_write(&colour, ctx, path), QKV_OK);
    assert_int_equal(qkv_image_read(&again, ctx, path, NULL), QKV_OK);
    assert_memory_equal(again.data, colour.data, 3 * colour.width * colour.height);
    qkv_image_free(&again, ctx);
    assert_int_equal(qkv_image_write(&grey, ctx, path), QKV_OK);
    o.channels = 0;
    assert_int_equal(qkv_image_read(&again, ctx, path, &o), QKV_OK);
    assert_int_equal(again.channels, 1);
    assert_memory_equal(again.data, grey.data, grey.width * grey.height);
    qkv_image_free(&again, ctx);
    qkv_image_free(&grey, ctx);
    qkv_image_free(&colour, ctx);
}

static void refused(const char *data, size_t size, const qkv_image_options *o, qkv_status status)
{
    qkv_image image;
    assert_int_equal(qkv_image_decode(&image, ctx, data, size, "x", o), status);
    assert_null(image.data);
    if (status != QKV_E_MEMORY)
        assert_non_null(strstr(qkv_context_message(ctx), "x: "));
}

static void test_damaged(void **state)
{
    (void)state;
    static const char *const files[] = {"type6-8bit.png", "type0-16bit.png", "colour-420.jpg",
                                        "print.jpg", "turn6.jpg"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        size_t size;
        char *data = take_file(in(IMAGES, files[f]), &size);
        qkv_image_options few = over;
        few.most = 50;
        refused(data, size, &few, QKV_E_FORMAT);
        for (size_t cut = 16; cut + 8 <= size; cut += 7) /* PNG's last chunk is of no use */
            if (!(ends_in(files[f], ".png") && cut <= 28))
                refused(data, size - cut, &over, QKV_E_FORMAT);
        for (memory.left = 0; memory.left < 40; memory.left++) {
            size_t left = memory.left;
            qkv_image image;
            if (qkv_image_decode(&image, ctx, data, size, "x", &over) == QKV_OK)
                left = 40;
            qkv_image_free(&image, ctx);
            memory.left = left;
        }
        memory.left = SIZE_MAX;
        for (size_t at = 0; at < size; at += 3) { /* anything but a crash */
            qkv_image image;
            data[at] = (char)(data[at] ^ 0x55);
            (void)qkv_image_decode(&image, ctx, data, size, "x", &over);
            qkv_image_free(&image, ctx);
            data[at] = (char)(data[at] ^ 0x55);
        }
        free(data);
    }
    refused("GIF89a..", 8, NULL, QKV_E_UNSUPPORTED);
    refused("", 0, NULL, QKV_E_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png),
        cmocka_unit_test(test_jpeg),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_damaged),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
