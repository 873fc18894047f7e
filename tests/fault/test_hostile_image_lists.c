/* test_hostile_image_lists.c - folders in which images are cut short, lie about their size or are
 * something else: each is named and left out, good ones come through, memory stays bounded. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

#include "base/base.h"
#include "qkv/pixels.h"

#define IMAGES QKV_SOURCE_DIR "/tests/golden/images"

enum { CUTS = 24, SIDE = 8 };

/* What was said of images that were left out. */
typedef struct {
    size_t count;
    char named[4 * CUTS][64]; /* their files */
} told;

static bool listen(void *user, const qkv_pixels_event *event)
{
    told *t = user;
    if (!event->bad)
        return true;
    const char *name = strstr(event->bad, "bad-");
    assert_non_null(name);
    assert_true(t->count < 4 * CUTS);
    snprintf(t->named[t->count++], 64, "%.*s", (int)strcspn(name, ":"), name);
    return true;
}

/* Reads the folder: `good` images come through, `bad` are named, each once and in order. */
static void check(size_t good, size_t bad)
{
    static told t;
    qkv_image_list *images;
    qkv_pixels *p;
    qkv_pixels_options o = qkv_pixels_defaults();
    o.height = o.width = SIDE;
    t.count = 0;
    size_t before = qkv_machine_peak_rss();
    assert_int_equal(qkv_image_list_open(&images, ctx, folder), QKV_OK);
    qkv_status status = qkv_pixels_read(&p, ctx, images, NULL, &o, listen, &t);
    if (status)
        fail_msg("%s", qkv_context_message(ctx));
    assert_int_equal(qkv_pixels_count(p), good);
    assert_int_equal(t.count, bad);
    for (size_t i = 1; i < bad; i++)
        assert_true(strcmp(t.named[i - 1], t.named[i]) < 0);
    assert_true(qkv_machine_peak_rss() < before + (64 << 20));
    qkv_pixels_close(p);
    qkv_image_list_close(images);
}

static void put(const char *name, const void *data, size_t size)
{
    put_file(in(folder, name), data, size);
}

static void put_good(void)
{
    size_t size;
    char *data = take_file(IMAGES "/colour-420.jpg", &size);
    put("a.jpg", data, size);
    put("z.png", data, size); /* a JPEG whatever its name says */
    free(data);
}

static void cut_short(void **state)
{
    (void)state;
    static const char *const files[2] = {"colour-444.jpg", "type2-16bit.png"};
    char name[64], path[PATH_BYTES];
    put_good();
    for (size_t f = 0; f < 2; f++) {
        size_t size;
        snprintf(path, sizeof path, IMAGES "/%s", files[f]);
        char *data = take_file(path, &size);
        for (size_t i = 0; i < CUTS; i++) { /* without the mark at its end it is never whole */
            snprintf(name, sizeof name, "bad-%02zu-%s", i, files[f]);
            put(name, data, (size - 20) * i / CUTS);
        }
        free(data);
    }
    check(2, 2 * CUTS);
}

/* PNGs that say they have 30,000 x 30,000 and 2^31 - 1 x 1 pixels, a JPEG of 65,500 x 65,500. */
static void giants(void **state)
{
    (void)state;
    static const uint8_t sides[2][8] = {{0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30},
                                        {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1}};
    size_t size;
    put_good();
    char *png = take_file(IMAGES "/type2-8bit.png", &size);
    for (size_t i = 0; i < 2; i++) {
        memcpy(png + 16, sides[i], 8);
        uint32_t crc = 0xffffffff;
        for (size_t k = 12; k < 29; k++) { /* of the header's kind and data */
            crc ^= (uint8_t)png[k];
            for (int bit = 0; bit < 8; bit++)
                crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        }
        for (int k = 0; k < 4; k++)
            png[29 + k] = (char)(~crc >> (24 - 8 * k));
        put(i ? "bad-1.png" : "bad-0.png", png, size);
    }
    free(png);
    char *jpeg = take_file(IMAGES "/colour-444.jpg", &size);
    for (size_t k = 0; k + 9 < size; k++)
        if ((uint8_t)jpeg[k] == 0xff && (uint8_t)jpeg[k + 1] == 0xc0) /* start of frame */
            memcpy(jpeg + k + 5, "\xff\xdc\xff\xdc", 4);
    put("bad-2.jpg", jpeg, size);
    free(jpeg);
    check(2, 3);
}

static void something_else(void **state)
{
    (void)state;
    put_good();
    put("bad-0.png", "", 0);
    put("bad-1.jpg", "this is no image", 16);
    put("bad-2.png", "\x89PNG\r\n\x1a\n", 8);
    put("bad-3.jpeg", "\xff\xd8\xff\xd9", 4);
    assert_int_equal(symlink("nowhere", in(folder, "bad-4.png")), 0);
    assert_int_equal(symlink("bad-5.png", in(folder, "bad-5.png")), 0); /* itself */
    check(2, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_short),
        cmocka_unit_test(giants),
        cmocka_unit_test(something_else),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
