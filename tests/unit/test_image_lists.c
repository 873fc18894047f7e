/* Sets of images: folders with classes and without, archives, idx files; what is none; and
 * that one damaged image is named. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

#include "qkv/image_list.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden"

static void copy(const char *from, const char *to)
{
    size_t size;
    char *data = take_file(from, &size);
    put_file(to, data, size);
    free(data);
}

static void test_folder(void **state)
{
    (void)state;
    qkv_image_list *p;
    qkv_image image;
    assert_int_equal(mkdir(in(folder, "dogs"), 0700), 0);
    assert_int_equal(mkdir(in(folder, "cats"), 0700), 0);
    copy(GOLDEN "/images/grey.jpg", in(folder, "dogs/b.JPG"));
    copy(GOLDEN "/images/type2-8bit.png", in(folder, "dogs/a.png"));
    copy(GOLDEN "/images/type0-1bit.png", in(folder, "cats/x.png"));
    put_file(in(folder, "dogs/notes.txt"), "x", 1);
    assert_int_equal(qkv_image_list_open(&p, ctx, folder), QKV_OK);
    assert_int_equal(qkv_image_list_count(p), 3);
    assert_int_equal(qkv_image_list_classes(p), 2);
    assert_string_equal(qkv_image_list_class_name(p, 0), "cats");
    assert_string_equal(qkv_image_list_class_name(p, 1), "dogs");
    static const int32_t classes[] = {0, 1, 1};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(qkv_image_list_class(p, i), classes[i]);
        assert_int_equal(qkv_image_list_read(p, i, &image, NULL), QKV_OK);
        assert_int_equal(image.channels, 3);
        qkv_image_free(&image, ctx);
    }
    assert_non_null(strstr(qkv_image_list_name(p, 1), "dogs/a.png"));
    qkv_image_list_close(p);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "dogs")), QKV_OK);
    assert_int_equal(qkv_image_list_classes(p), 0);
    assert_int_equal(qkv_image_list_class(p, 0), -1);
    qkv_image_list_close(p);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "cats/x.png")), QKV_OK);
    assert_int_equal(qkv_image_list_count(p), 1);
    qkv_image_list_close(p);
}

static void test_idx(void **state)
{
    (void)state;
    qkv_image_list *p;
    qkv_image image;
    static const char labels[] = "\0\0\x08\1\0\0\0\5\x0a\2\2\x0a\3";
    copy(GOLDEN "/io/plain.idx", in(folder, "t-images-idx3-ubyte"));
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "t-images-idx3-ubyte")), QKV_OK);
    assert_int_equal(qkv_image_list_classes(p), 0);
    qkv_image_list_close(p);
    put_file(in(folder, "t-labels-idx1-ubyte"), labels, 13);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "t-images-idx3-ubyte")), QKV_OK);
    assert_int_equal(qkv_image_list_count(p), 5);
    assert_int_equal(qkv_image_list_classes(p), 3);
    assert_string_equal(qkv_image_list_class_name(p, 0), "2");
    assert_string_equal(qkv_image_list_class_name(p, 2), "10");
    static const int32_t classes[] = {2, 0, 0, 2, 1};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(qkv_image_list_class(p, i), classes[i]);
    assert_int_equal(qkv_image_list_read(p, 4, &image, NULL), QKV_OK);
    assert_int_equal(image.height, 4);
    assert_int_equal(image.width, 3);
    assert_int_equal(image.data[3 * 2 + 1], (7 * (4 * 12 + 2) + 3) % 256);
    qkv_image_free(&image, ctx);
    qkv_image_list_close(p);
    put_file(in(folder, "t-labels-idx1-ubyte"), "\0\0\x08\1\0\0\0\1a", 9);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "t-images-idx3-ubyte")), QKV_E_FORMAT);
    assert_null(p);
}

/* A header block for a file of so many bytes, GNU's way; the rest is 0. */
static void put_header(char *block, const char *name, size_t size)
{
    unsigned sum = 0;
    memset(block, 0, 512);
    strcpy(block, name);
    snprintf(block + 124, 12, "%011zo", size);
    memset(block + 148, ' ', 8);
    block[156] = '0';
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 7, "%06o", sum);
}

static void test_tar(void **state)
{
    (void)state;
    qkv_image_list *p;
    qkv_image image;
    size_t size, at = 0;
    char *data = take_file(GOLDEN "/images/type2-8bit.png", &size);
    size_t blocks = (size + 511) / 512 * 512;
    char *tar = calloc(1, 3 * (512 + blocks) + 1024);
    static const char *const names[] = {"set/dogs/b.png", "set/dogs/a.png", "set/cats/x.png"};
    for (size_t i = 0; i < 3; i++, at += 512 + blocks) {
        put_header(tar + at, names[i], size);
        memcpy(tar + at + 512, data, i == 1 ? size / 2 : size); /* the second is damaged */
    }
    put_file(in(folder, "x.tar"), tar, at + 1024);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "x.tar")), QKV_OK);
    assert_int_equal(qkv_image_list_count(p), 3);
    assert_string_equal(qkv_image_list_name(p, 0), "set/cats/x.png");
    assert_int_equal(qkv_image_list_class(p, 0), 0);
    assert_int_equal(qkv_image_list_class(p, 1), 1);
    assert_int_equal(qkv_image_list_read(p, 0, &image, NULL), QKV_OK);
    qkv_image_free(&image, ctx);
    assert_int_equal(qkv_image_list_read(p, 1, &image, NULL), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "set/dogs/a.png"));
    qkv_image_list_close(p);
    free(tar);
    free(data);
}

/* Of the larger size; without characters that have no image, and without a second one of the same
 * image. */
static void test_font(void **state)
{
    (void)state;
    static const char *const names[] = {"animals/1f43b", "faces/1f600", "hearts/2764"};
    static const uint8_t colours[3][3] = {{90, 60, 30}, {255, 200, 0}, {200, 0, 0}};
    qkv_image_list *p;
    qkv_image image;
    assert_int_equal(qkv_image_list_open(&p, ctx, GOLDEN "/io/emoji.ttf"), QKV_OK);
    assert_int_equal(qkv_image_list_count(p), 3);
    assert_int_equal(qkv_image_list_classes(p), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(strstr(qkv_image_list_name(p, i), names[i]));
        assert_int_equal(qkv_image_list_class(p, i), i);
        assert_int_equal(qkv_image_list_read(p, i, &image, NULL), QKV_OK);
        assert_int_equal(image.width, 4);
        assert_memory_equal(image.data, colours[i], 3);
        qkv_image_free(&image, ctx);
    }
    qkv_image_list_close(p);
}

/* Cut anywhere, it is refused with its name; so is a font without images. Without memory nothing
 * is left behind. */
static void test_bad_font(void **state)
{
    (void)state;
    qkv_image_list *p;
    size_t size;
    char *data = take_file(GOLDEN "/io/emoji.ttf", &size);
    for (size_t n = 4; n + 4 < size; n += 3) { /* up to 3 bytes at the end fill a word */
        put_file(in(folder, "x.ttf"), data, n);
        assert_int_not_equal(qkv_image_list_open(&p, ctx, in(folder, "x.ttf")), QKV_OK);
        assert_non_null(strstr(qkv_context_message(ctx), "x.ttf"));
    }
    memcpy(data + 12, "glyf", 4);
    put_file(in(folder, "x.ttf"), data, size);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "x.ttf")), QKV_E_UNSUPPORTED);
    free(data);
    for (size_t n = 0; n < 12; n++) {
        memory.left = n;
        if (qkv_image_list_open(&p, ctx, GOLDEN "/io/emoji.ttf") == QKV_OK)
            n = 12;
        qkv_image_list_close(p);
    }
    memory.left = SIZE_MAX;
}

static void test_refused(void **state)
{
    (void)state;
    qkv_image_list *p;
    assert_int_equal(qkv_image_list_open(&p, ctx, folder), QKV_E_FORMAT);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "none")), QKV_E_IO);
    put_file(in(folder, "x"), "what is this?", 13);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "x")), QKV_E_FORMAT);
    assert_int_equal(qkv_image_list_open(&p, ctx, GOLDEN "/io/ustar.tar"), QKV_E_FORMAT);
    assert_null(p);
    copy(GOLDEN "/images/grey.jpg", in(folder, "b.jpg"));
    for (size_t n = 0; n < 12; n++) {
        memory.left = n;
        if (qkv_image_list_open(&p, ctx, folder) == QKV_OK)
            n = 12;
        qkv_image_list_close(p);
    }
    memory.left = SIZE_MAX;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_idx),
        cmocka_unit_test(test_tar),
        cmocka_unit_test(test_font),
        cmocka_unit_test(test_bad_font),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
