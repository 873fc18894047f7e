/* Sets of pixels: what is put in comes out; images of all kinds become one size, damaged ones
 * are named and left out; parts to evaluate on; files that lie are refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "fixture.h"
#include "qkv/pixels.h"
#include "qkv/safetensors.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden"

enum { COUNT = 60, H = 3, W = 5, C = 3, BYTES = H * W * C, CLASSES = 4 };

static uint8_t value(size_t image, size_t k) { return (uint8_t)(image * 31 + k * 7); }

/* Images of classes 0 0 0 .. 1 1 1 .., or i % classes; every tenth without one. */
static qkv_pixels *made(const char *path, bool sorted)
{
    qkv_pixels_writer *w;
    qkv_pixels *p;
    uint8_t data[BYTES];
    char name[32];
    assert_int_equal(qkv_pixels_create(&w, ctx, path, H, W, C), QKV_OK);
    for (int c = 0; c < CLASSES; c++) {
        snprintf(name, sizeof name, "class %d", c);
        assert_int_equal(qkv_pixels_add_class(w, name), QKV_OK);
    }
    for (size_t i = 0; i < COUNT; i++) {
        int32_t class_ = (int32_t)(sorted ? i / (COUNT / CLASSES) : i % CLASSES);
        for (size_t k = 0; k < BYTES; k++)
            data[k] = value(i, k);
        snprintf(name, sizeof name, "dir-1/%zu-%zu.png", i / 3, i % 3);
        class_ = !sorted && i % 10 == 9 ? -1 : class_;
        assert_int_equal(qkv_pixels_add(w, data, class_, name), QKV_OK);
    }
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_OK);
    return p;
}

static void test_comes_out_as_put_in(void **state)
{
    (void)state;
    const char *paths[] = {in(folder, "p"), NULL};
    for (size_t n = 0; n < 2; n++) {
        qkv_pixels *p = made(paths[n], false);
        char name[32];
        assert_int_equal(qkv_pixels_count(p), COUNT);
        assert_int_equal(qkv_pixels_height(p), H);
        assert_int_equal(qkv_pixels_width(p), W);
        assert_int_equal(qkv_pixels_channels(p), C);
        assert_int_equal(qkv_pixels_classes(p), CLASSES);
        assert_string_equal(qkv_pixels_class_name(p, 3), "class 3");
        for (size_t i = 0; i < COUNT; i++) {
            snprintf(name, sizeof name, "dir-1/%zu-%zu.png", i / 3, i % 3);
            assert_string_equal(qkv_pixels_name(p, i), name);
            assert_int_equal(qkv_pixels_class(p, i), i % 10 == 9 ? -1 : (int32_t)i % CLASSES);
            for (size_t k = 0; k < BYTES; k++)
                assert_int_equal(qkv_pixels_data(p, i)[k], value(i, k));
        }
        qkv_pixels_close(p);
    }
}

/* A file that the reference library wrote. */
static void test_format(void **state)
{
    (void)state;
    qkv_pixels *p;
    assert_int_equal(qkv_pixels_open(&p, ctx, GOLDEN "/io/images.safetensors"), QKV_OK);
    assert_int_equal(qkv_pixels_count(p), 3);
    assert_int_equal(qkv_pixels_height(p), 2);
    assert_int_equal(qkv_pixels_data(p, 2)[1], 5);
    assert_int_equal(qkv_pixels_class(p, 2), -1);
    assert_string_equal(qkv_pixels_name(p, 1), "b/y-1.png");
    assert_string_equal(qkv_pixels_class_name(p, 1), "b");
    qkv_pixels_close(p);
}

static void test_writing_fails_cleanly(void **state)
{
    (void)state;
    qkv_pixels_writer *w;
    qkv_pixels *p;
    const uint8_t dot[1] = {7};
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, 0, 4, 3), QKV_E_ARGUMENT);
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, 4, 4, 2), QKV_E_ARGUMENT);
    assert_null(w);
    assert_int_equal(qkv_pixels_create(&w, ctx, in(folder, "x"), 1, 1, 1), QKV_OK);
    assert_int_equal(qkv_pixels_add(w, dot, 0, "a"), QKV_OK);
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_E_ARGUMENT); /* a class that has no name */
    assert_null(p);
    assert_int_equal(files_in(folder), 0);
    for (size_t n = 0; n < 12; n++) {
        memory.left = n;
        if (qkv_pixels_create(&w, ctx, NULL, 1, 1, 1))
            continue;
        if (qkv_pixels_add_class(w, "a") || qkv_pixels_add(w, dot, 0, "a"))
            qkv_pixels_abandon(w);
        else if (!qkv_pixels_finish(w, &p))
            qkv_pixels_close(p);
    }
    memory.left = SIZE_MAX;
}

typedef struct {
    size_t images[4], labels[1], names[1], classes[1];
    qkv_store store; /* of the labels */
    int32_t label;   /* of the second image */
    const char *text; /* the names */
} set;

/* Two grey images of two classes, unless something in them lies. */
static qkv_status open_set(const set *s)
{
    static const uint8_t data[16] = {0};
    const int32_t labels[] = {0, s->label, 0, 0};
    const qkv_safetensors_entry entries[] = {
        {.name = "images", .ndim = 4, .shape = s->images, .store = QKV_STORE_U8, .raw = data},
        {.name = "labels", .ndim = 1, .shape = s->labels, .store = s->store, .raw = labels},
        {.name = "names", .ndim = 1, .shape = s->names, .store = QKV_STORE_U8, .raw = s->text},
        {.name = "classes", .ndim = 1, .shape = s->classes, .store = QKV_STORE_U8, .raw = "A\0B"}};
    const char *path = in(folder, "made");
    qkv_pixels *p;
    assert_int_equal(qkv_safetensors_save(ctx, path, entries, 4, NULL), QKV_OK);
    qkv_status status = qkv_pixels_open(&p, ctx, path);
    assert_true(!status == (p != NULL));
    if (status)
        assert_non_null(strstr(qkv_context_message(ctx), path));
    qkv_pixels_close(p);
    return status;
}

static void test_refuses_what_lies(void **state)
{
    (void)state;
    const set good = {{2, 1, 2, 1}, {2}, {5}, {4}, QKV_STORE_I32, 1, "a\0bc"};
    set lies[13];
    for (size_t i = 0; i < 13; i++)
        lies[i] = good;
    assert_int_equal(open_set(&good), QKV_OK);
    lies[0].images[0] = 3; /* more images than labels and names */
    lies[1].images[0] = 1;
    lies[2].images[3] = 2;
    lies[3].images[1] = 0;
    lies[4].images[2] = (1 << 16) + 1;
    lies[4].images[0] = 0;
    lies[5].labels[0] = 3;
    lies[6].store = QKV_STORE_U32;
    lies[7].names[0] = 2; /* one name */
    lies[8].names[0] = 4; /* the second one goes on behind the text */
    lies[9].names[0] = 0;
    lies[10].classes[0] = 3;
    lies[11].label = 2;
    lies[12].label = -2;
    for (size_t i = 0; i < 13; i++)
        assert_int_equal(open_set(&lies[i]), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "a class beyond the 2"));
    set more = good; /* a name for an image that there is not */
    more.text = "a\0b";
    more.names[0] = 4;
    more.images[0] = more.labels[0] = 1;
    assert_int_equal(open_set(&more), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "a name with a 0 behind it"));
    size_t size;
    qkv_pixels *p;
    qkv_pixels_close(made(in(folder, "p"), true));
    char *data = take_file(in(folder, "p"), &size);
    const char *path = in(folder, "bad");
    for (size_t cut = 1; cut < 400; cut++) {
        put_file(path, data, size - cut);
        assert_int_equal(qkv_pixels_open(&p, ctx, path), QKV_E_FORMAT);
        assert_null(p);
    }
    free(data);
}

/* ---- from images ------------------------------------------------------------------------- */

static void copy(const char *from, const char *to, size_t most)
{
    size_t size;
    char *data = take_file(from, &size);
    put_file(to, data, size < most ? size : most);
    free(data);
}

typedef struct {
    size_t bad, calls, stop;
    char text[300];
} told;

static bool listen(void *user, const qkv_pixels_event *event)
{
    told *t = user;
    t->calls++;
    if (event->bad) {
        t->bad++;
        snprintf(t->text, sizeof t->text, "%.299s", event->bad);
    }
    return t->calls != t->stop;
}

static void put_images(void)
{
    assert_int_equal(mkdir(in(folder, "in"), 0700), 0);
    assert_int_equal(mkdir(in(folder, "in/a"), 0700), 0);
    assert_int_equal(mkdir(in(folder, "in/b"), 0700), 0);
    copy(GOLDEN "/images/grey.jpg", in(folder, "in/a/1.jpg"), SIZE_MAX);
    copy(GOLDEN "/images/type2-8bit.png", in(folder, "in/a/2.png"), 90);
    copy(GOLDEN "/images/type6-8bit.png", in(folder, "in/b/3.png"), SIZE_MAX);
    copy(GOLDEN "/images/colour-420.jpg", in(folder, "in/b/4.jpg"), SIZE_MAX);
}

static void test_image_lists(void **state)
{
    (void)state;
    qkv_image_list *images;
    qkv_pixels *p;
    put_images();
    assert_int_equal(qkv_image_list_open(&images, ctx, in(folder, "in")), QKV_OK);
    qkv_pixels_options o = qkv_pixels_defaults();
    const char *paths[] = {NULL, in(folder, "out")};
    for (size_t n = 0; n < 2; n++) {
        told t = {0};
        o.width = o.height = n ? 8 : 0;
        assert_int_equal(qkv_pixels_read(&p, ctx, images, paths[n], &o, listen, &t), QKV_OK);
        assert_int_equal(t.bad, 1);
        assert_non_null(strstr(t.text, "2.png"));
        assert_int_equal(qkv_pixels_count(p), 3);
        assert_int_equal(qkv_pixels_classes(p), 2);
        assert_string_equal(qkv_pixels_class_name(p, 1), "b");
        assert_int_equal(qkv_pixels_class(p, 0), 0);
        assert_int_equal(qkv_pixels_class(p, 2), 1);
        qkv_image image;
        assert_int_equal(qkv_image_list_read(images, 2, &image, NULL), QKV_OK);
        if (n == 0) { /* the size of the first */
            assert_int_equal(qkv_pixels_width(p), 40);
            assert_int_equal(qkv_pixels_height(p), 24);
        }
        o.width = qkv_pixels_width(p);
        o.height = qkv_pixels_height(p);
        assert_int_equal(qkv_image_fit(&image, ctx, &o), QKV_OK);
        assert_memory_equal(image.data, qkv_pixels_data(p, 1), o.width * o.height * 3);
        qkv_image_free(&image, ctx);
        qkv_pixels_close(p);
    }
    told t = {.stop = 1};
    assert_int_equal(qkv_pixels_read(&p, ctx, images, in(folder, "none"), NULL, listen, &t),
                     QKV_E_CANCELLED);
    assert_null(p);
    for (size_t n = 0; n < 20; n++) {
        memory.left = n;
        if (qkv_pixels_read(&p, ctx, images, in(folder, "none"), &o, NULL, NULL) == QKV_OK)
            unlink(in(folder, "none"));
        qkv_pixels_close(p);
    }
    memory.left = SIZE_MAX;
    assert_int_equal(files_in(folder), 2); /* in, out */
    qkv_image_list_close(images);
}

static void test_none_left(void **state)
{
    (void)state;
    qkv_image_list *images;
    qkv_pixels *p;
    copy(GOLDEN "/images/type2-8bit.png", in(folder, "2.png"), 90);
    assert_int_equal(qkv_image_list_open(&images, ctx, folder), QKV_OK);
    assert_int_equal(qkv_pixels_read(&p, ctx, images, in(folder, "x"), NULL, NULL, NULL),
                     QKV_E_FORMAT);
    assert_null(p);
    assert_non_null(strstr(qkv_context_message(ctx), "2.png: "));
    assert_int_equal(files_in(folder), 1);
    qkv_image_list_close(images);
    copy(GOLDEN "/images/type2-8bit.png", in(folder, "3.png"), 90);
    assert_int_equal(qkv_image_list_open(&images, ctx, folder), QKV_OK);
    assert_int_equal(qkv_pixels_read(&p, ctx, images, in(folder, "x"), NULL, NULL, NULL),
                     QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "none of 2 images"));
    assert_non_null(strstr(qkv_context_message(ctx), "3.png: "));
    qkv_image_list_close(images);
}

/* An image of 4 x 2 cut to its middle is that of its two middle columns. */
static void test_fit(void **state)
{
    (void)state;
    qkv_image image;
    qkv_pixels_options o = qkv_pixels_defaults();
    static const uint8_t grey[8] = {200, 1, 3, 100, 200, 5, 7, 100};
    assert_int_equal(qkv_image_create(&image, ctx, 4, 2, 1), QKV_OK);
    memcpy(image.data, grey, sizeof grey);
    o.width = o.height = 1;
    o.channels = 1;
    o.fit = QKV_FIT_CROP;
    o.filter = QKV_RESIZE_BOX;
    assert_int_equal(qkv_image_fit(&image, ctx, &o), QKV_OK);
    assert_int_equal(image.data[0], 4);
    qkv_image_free(&image, ctx);
}

/* ---- parts --------------------------------------------------------------------------------- */

static size_t group_of(size_t i) { return i / 3; } /* as the names have it */

static void check_parts(const qkv_held_out *s, size_t train, size_t valid)
{
    bool seen[COUNT] = {false};
    assert_int_equal(s->train_count, train);
    assert_int_equal(s->valid_count, valid);
    for (size_t i = 0; i < train + valid; i++) {
        size_t k = i < train ? s->train[i] : s->valid[i - train];
        assert_true(k < COUNT && !seen[k]);
        seen[k] = true;
    }
}

/* Folders need not come in the order of their names: "dog-toy/1.png" is before "dog/1.png". Nor has
 * every image a class. */
static void test_split_folders(void **state)
{
    (void)state;
    static const int32_t classes[] = {2, 2, 2, 2, -1, 0, 0, 0, 0, 1, 1, 1, 1, -1};
    qkv_pixels_writer *w;
    qkv_pixels *p;
    qkv_held_out s;
    static const uint8_t data[BYTES];
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, H, W, C), QKV_OK);
    for (size_t c = 0; c < 3; c++)
        assert_int_equal(qkv_pixels_add_class(w, (char[]){(char)('a' + c), 0}), QKV_OK);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        assert_int_equal(qkv_pixels_add(w, data, classes[i], "x"), QKV_OK);
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_OK);
    assert_int_equal(qkv_pixels_split(&s, ctx, p, 3, QKV_SPLIT_AUTO, true), QKV_OK);
    assert_int_equal(s.valid_count, 3);
    assert_int_equal(s.valid[0], 3);
    assert_int_equal(s.valid[1], 8);
    assert_int_equal(s.valid[2], 12);
    qkv_held_out_free(&s);
    qkv_pixels_close(p);
}

static void test_split(void **state)
{
    (void)state;
    qkv_held_out s;
    qkv_pixels *p = made(NULL, true), *mixed = made(NULL, false);
    size_t held[CLASSES] = {0};
    assert_int_equal(qkv_pixels_split(&s, ctx, p, 10, QKV_SPLIT_AUTO, true), QKV_OK);
    check_parts(&s, COUNT - 10, 10);
    for (size_t i = 0; i < 10; i++)
        held[qkv_pixels_class(p, s.valid[i])]++;
    assert_int_equal(held[0], 3);
    assert_int_equal(held[3], 2);
    assert_int_equal(s.valid[2], 14); /* the last of its class */
    qkv_held_out_free(&s);
    assert_int_equal(qkv_pixels_split(&s, ctx, mixed, 10, QKV_SPLIT_AUTO, true), QKV_OK);
    check_parts(&s, COUNT - 16, 10); /* 6 have no class */
    assert_int_equal(s.valid[0], 49 - 1);
    qkv_held_out_free(&s);
    assert_int_equal(qkv_pixels_split(&s, ctx, mixed, 10, QKV_SPLIT_NAME, false), QKV_OK);
    check_parts(&s, COUNT - 9, 9); /* whole groups of three */
    for (size_t i = 0; i < s.valid_count; i++)
        for (size_t k = 0; k < s.train_count; k++)
            assert_true(group_of(s.valid[i]) != group_of(s.train[k]));
    qkv_held_out_free(&s);
    assert_int_equal(qkv_pixels_split(&s, ctx, p, 0, QKV_SPLIT_AUTO, false), QKV_OK);
    check_parts(&s, COUNT, 0);
    qkv_held_out_free(&s);
    assert_int_equal(qkv_pixels_split(&s, ctx, p, COUNT, QKV_SPLIT_LAST, false), QKV_E_ARGUMENT);
    assert_int_equal(qkv_pixels_split(&s, ctx, p, 2, QKV_SPLIT_NAME, false), QKV_E_ARGUMENT);
    assert_null(s.train);
    qkv_pixels_close(p);
    qkv_pixels_close(mixed);
}

/* Of 400 names that count up, 80 are held out: about as many from every hundred. */
static void test_names_are_drawn_from_all(void **state)
{
    (void)state;
    qkv_pixels_writer *w;
    qkv_pixels *p;
    qkv_held_out s;
    const uint8_t pixel = 0;
    char name[24];
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, 1, 1, 1), QKV_OK);
    for (unsigned i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "set/1f%03u.png", i);
        assert_int_equal(qkv_pixels_add(w, &pixel, -1, name), QKV_OK);
    }
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_OK);
    assert_int_equal(qkv_pixels_split(&s, ctx, p, 80, QKV_SPLIT_NAME, false), QKV_OK);
    size_t held[4] = {0};
    for (size_t i = 0; i < s.valid_count; i++)
        held[s.valid[i] / 100]++;
    for (size_t i = 0; i < 4; i++)
        if (held[i] < 10 || held[i] > 30)
            fail_msg("%zu of 80 from hundred %zu", held[i], i);
    qkv_held_out_free(&s);
    qkv_pixels_close(p);
}

static void test_stats(void **state)
{
    (void)state;
    qkv_pixels *p = made(NULL, true);
    double mean[3], std[3], sum = 0, squares = 0;
    const size_t some[2] = {4, 40};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 1; k < BYTES; k += 3) {
            sum += value(some[i], k) / 255.0;
            squares += value(some[i], k) / 255.0 * value(some[i], k) / 255.0;
        }
    qkv_pixels_stats(p, some, 2, mean, std);
    sum /= 2 * H * W;
    assert_true(fabs(mean[1] - sum) < 1e-12);
    assert_true(fabs(std[1] - sqrt(squares / (2 * H * W) - sum * sum)) < 1e-9);
    qkv_pixels_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_out_as_put_in),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_names_are_drawn_from_all),
        cmocka_unit_test(test_writing_fails_cleanly),
        cmocka_unit_test(test_refuses_what_lies),
        cmocka_unit_test(test_image_lists),
        cmocka_unit_test(test_none_left),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_folders),
        cmocka_unit_test(test_stats),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
