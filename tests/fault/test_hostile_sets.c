/* test_hostile_sets.c - tar archives, idx files, gzipped or not, and folders that lie, unfold or
 * lead elsewhere, made here: one sentence with the file's name, or the images that there are,
 * within little memory; and one damaged image among thousands. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <zlib.h>

#include "fixture.h"

#include "base/base.h"
#include "qkv/image_file.h"
#include "qkv/pixels.h"

#define PNG QKV_SOURCE_DIR "/tests/golden/images/type0-1bit.png"

enum { BLOCK = 512, ROOM = 1 << 20, LITTLE = 48 << 20 /* bytes of memory, for any of them */ };

static uint8_t file[ROOM];
static size_t size;

static void put(const void *data, size_t n)
{
    assert_true(n <= ROOM - size);
    memcpy(file + size, data, n);
    size += n;
}

static void put_zeros(size_t n)
{
    assert_true(n <= ROOM - size);
    memset(file + size, 0, n);
    size += n;
}

/* What comes of the file or folder `name`: words NULL: images (count), of which all can be read;
 * else a sentence with these and the name of the file at fault, when it is opened or read. */
static void expect_of(const char *what, const char *name, const char *fault, size_t count,
                      const char *words)
{
    qkv_image_list *p = NULL;
    qkv_pixels *pixels = NULL;
    size_t before = qkv_machine_peak_rss();
    qkv_status status = qkv_image_list_open(&p, ctx, in(folder, name));
    size_t found = status ? 0 : qkv_image_list_count(p);
    if (!status)
        status = qkv_pixels_read(&pixels, ctx, p, NULL, NULL, NULL, NULL);
    const char *said = status ? qkv_context_message(ctx) : "images";
    if (status ? !words || !strstr(said, words) || !strstr(said, fault) : words != NULL)
        fail_msg("%s: expected %s, found %s", what, words ? words : "images", said);
    if (!status)
        assert_int_equal(qkv_pixels_count(pixels), found);
    if (!words && found != count)
        fail_msg("%s: %zu images, not %zu", what, found, count);
    if (qkv_machine_peak_rss() > before + LITTLE)
        fail_msg("%s: %zu bytes of memory", what, qkv_machine_peak_rss() - before);
    qkv_pixels_close(pixels);
    qkv_image_list_close(p);
}

static void expect(const char *what, const char *name, size_t count, const char *words)
{
    expect_of(what, name, name, count, words);
}

/* ---- tar ------------------------------------------------------------------------------------- */

typedef struct {
    const char *what, *words;
    const char *name;   /* NULL: x.png */
    char type;          /* 0: a file's */
    char size[13];      /* as it stands there; "": the image's */
    const char *sum;    /* NULL: the right one */
    const char *before; /* the data of an entry before it, of type `kind` */
    char kind;
    size_t cut;         /* bytes off the end */
} tar_case;

static void put_entry(const char *name, char type, const char bytes[13], const char *sum,
                      const void *data, size_t n)
{
    uint8_t *h = file + size;
    unsigned total = 0;
    put_zeros(BLOCK);
    memcpy(h, name, strlen(name));
    if (bytes && *bytes)
        memcpy(h + 124, bytes, 12);
    else
        snprintf((char *)h + 124, 12, "%011zo", n);
    memset(h + 148, ' ', 8);
    h[156] = (uint8_t)(type ? type : '0');
    memcpy(h + 257, "ustar\0" "00", 8);
    for (size_t i = 0; i < BLOCK; i++)
        total += h[i];
    snprintf((char *)h + 148, 7, "%06o", total);
    if (sum)
        memcpy(h + 148, sum, strlen(sum));
    put(data, n);
    put_zeros((BLOCK - n % BLOCK) % BLOCK);
}

static void make_tar(const tar_case *c)
{
    size_t n;
    char *data = take_file(PNG, &n);
    size = 0;
    if (c->before)
        put_entry("before", c->kind, NULL, NULL, c->before, strlen(c->before));
    put_entry(c->name ? c->name : "x.png", c->type, c->size, c->sum, data, n);
    put_zeros(2 * BLOCK);
    size -= c->cut;
    put_file(in(folder, "x.tar"), file, size);
    free(data);
}

static void test_tar(void **state)
{
    (void)state;
    static const tar_case cases[] = {
        {"one that is fine", NULL},
        /* names that lead elsewhere are names */
        {"above", NULL, .name = "../x.png"},
        {"far above", NULL, .name = "a/../../../x.png"},
        {"absolute", NULL, .name = "/tmp/x.png"},
        {"control characters", NULL, .name = "a\n\x1b[2J.png"},
        {"a long name before it", NULL, .before = "../../long.png", .kind = 'L'},
        /* links, devices and folders hold no image */
        {"a hard link", "no PNG", .type = '1'},
        {"a link", "no PNG", .type = '2'},
        {"a device", "no PNG", .type = '3'},
        {"a disk", "no PNG", .type = '4'},
        {"a folder", "no PNG", .type = '5'},
        {"a pipe", "no PNG", .type = '6'},
        {"no name", "no PNG", .name = ""},
        /* headers */
        {"another sum", "damaged", .sum = "000001"},
        {"no sum", "damaged", .sum = "zzzzzz"},
        {"no size", "damaged", .size = "zzzzzzzzzzz"},
        {"a size of 8 GB", "cut short", .size = "77777777777"},
        {"a size of 2^63", "cut short", .size = "\x80\0\0\0\x80"},
        {"a negative size", "damaged", .size = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"},
        {"a size of 2^88", "damaged", .size = "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"},
        {"a size of 0", "damaged", .size = "00000000000"},
        /* records before it */
        {"a record longer than a number", NULL, .before = "99999999999999999999999 path=y.png\n",
         .kind = 'x'},
        {"a record of length 0", NULL, .before = "0 path=y.png\n", .kind = 'x'},
        {"a record beyond its block", NULL, .before = "999 path=y.png\n", .kind = 'x'},
        {"a record that ends in its key", NULL, .before = "7 path=\n", .kind = 'x'},
        {"a record without a length", NULL, .before = " path=y.png\n", .kind = 'x'},
        {"a record that is right", "no PNG", .before = "10 path=y\n", .kind = 'x'},
        /* ends */
        {"cut in its end", NULL, .cut = BLOCK},
        {"without its end", NULL, .cut = 2 * BLOCK},
        {"cut in the image", "cut short", .cut = 3 * BLOCK - 10},
        {"cut behind the header", "cut short", .cut = 3 * BLOCK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_tar(&cases[i]);
        expect(cases[i].what, "x.tar", 1, cases[i].words);
        assert_int_equal(files_in(folder), 1);
    }
}

/* A second header of which any part is left. */
static void test_cut_header(void **state)
{
    (void)state;
    static const tar_case fine = {"", NULL, .cut = 2 * BLOCK};
    for (size_t left = 1; left < BLOCK; left += 73) {
        make_tar(&fine);
        memmove(file + size, file, left);
        put_file(in(folder, "x.tar"), file, size + left);
        expect("a header that is cut", "x.tar", 1, "cut short");
    }
}

/* What lies in ./ and ../ is of no class. */
static void test_dots(void **state)
{
    (void)state;
    static const char *const names[] = {"./x.png", "../y.png", "a/../z.png", "./cats/c.png",
                                        "./.dogs/d.png"};
    static const int32_t classes[] = {-1, 0, 1, -1, -1}; /* by name: ../y ./.d ./c ./x a/.. */
    qkv_image_list *p;
    size_t n;
    char *data = take_file(PNG, &n);
    size = 0;
    for (size_t i = 0; i < 5; i++)
        put_entry(names[i], 0, NULL, NULL, data, n);
    put_zeros(2 * BLOCK);
    put_file(in(folder, "x.tar"), file, size);
    free(data);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "x.tar")), QKV_OK);
    assert_int_equal(qkv_image_list_classes(p), 2);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(qkv_image_list_class(p, i), classes[i]);
    qkv_image_list_close(p);
}

/* A sentence stays one line, whatever a name holds. */
static void test_names(void **state)
{
    (void)state;
    qkv_image_list *p;
    qkv_image image;
    size = 0;
    put_entry("a\nb\x1b[2J\x7f.png", 0, NULL, NULL, "none", 4);
    put_file(in(folder, "x.tar"), file, size);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "x.tar")), QKV_OK);
    assert_int_not_equal(qkv_image_list_read(p, 0, &image, NULL), QKV_OK);
    assert_non_null(strstr(qkv_context_message(ctx), "a?b?[2J?.png: neither a PNG nor"));
    qkv_image_list_close(p);
}

/* 3,000 images, one of them damaged: it is named and counted, the others come. */
static bool hear(void *user, const qkv_pixels_event *event)
{
    size_t *skipped = user;
    if (event->bad)
        assert_non_null(strstr(event->bad, "x1234.png"));
    *skipped = event->skipped;
    return true;
}

static void test_one_of_thousands(void **state)
{
    (void)state;
    enum { COUNT = 3000, BAD = 1234 };
    qkv_image_list *p;
    qkv_pixels *pixels;
    char name[32], *data = take_file(PNG, &size);
    size_t n = size, skipped = 0;
    assert_int_equal(mkdir(in(folder, "set"), 0700), 0);
    put_file(in(folder, "one"), data, n);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "set/x%d.png", i);
        if (i == BAD)
            put_file(in(folder, name), data, n - 20);
        else
            assert_int_equal(link(in(folder, "one"), in(folder, name)), 0);
    }
    free(data);
    assert_int_equal(qkv_image_list_open(&p, ctx, in(folder, "set")), QKV_OK);
    assert_int_equal(qkv_pixels_read(&pixels, ctx, p, NULL, NULL, hear, &skipped), QKV_OK);
    assert_int_equal(skipped, 1);
    assert_int_equal(qkv_pixels_count(pixels), COUNT - 1);
    qkv_pixels_close(pixels);
    qkv_image_list_close(p);
}

/* ---- idx ------------------------------------------------------------------------------------- */

/* A header of so many dimensions, bytes. */
static void put_sizes(size_t dims, const size_t *sizes)
{
    const uint8_t magic[4] = {0, 0, 8, (uint8_t)dims};
    put(magic, 4);
    for (size_t i = 0; i < dims; i++) {
        const uint8_t four[4] = {(uint8_t)(sizes[i] >> 24), (uint8_t)(sizes[i] >> 16),
                                 (uint8_t)(sizes[i] >> 8), (uint8_t)sizes[i]};
        put(four, 4);
    }
}

static void test_idx(void **state)
{
    (void)state;
    static const size_t MOST = 0xffffffff;
    static const struct {
        const char *what, *words;
        size_t dims, sizes[4];
        uint64_t bytes; /* of zeros that follow, a hole in the file */
    } cases[] = {
        {"two images", NULL, 3, {2, 3, 4}, 24},
        {"in colour", NULL, 4, {2, 3, 4, 3}, 72},
        {"a byte too few", "40 bytes expected, for sizes of 2 x 3 x 4, found 39", 3, {2, 3, 4}, 23},
        {"a byte too many", "found 41", 3, {2, 3, 4}, 25},
        {"nothing behind the sizes", "found 16", 3, {2, 3, 4}, 0},
        {"sizes that overflow", "too large", 4, {MOST, MOST, MOST, MOST}, 24},
        {"sizes that overflow to 0", "too large", 4, {65536, 65536, 65536, 65536}, 0},
        {"2^64 - 1 bytes", "too large", 3, {MOST, 641, 6700417}, 28},
        {"a size of 0", "0", 3, {2, 0, 4}, 0},
        {"no images", "no PNG", 3, {0, 3, 4}, 0},
        {"two dimensions", "2 dimensions", 2, {2, 3}, 6},
        {"two channels", "4 dimensions", 4, {2, 3, 4, 2}, 48},
        {"4 GB", "found 65536 x 65536", 3, {1, 65536, 65536}, (uint64_t)1 << 32},
        {"a line of 2^30 pixels", "found 1073741824 x 1", 3, {1, 1, 1 << 30}, 1 << 30},
        {"a pixel each", "at most 8388608 images", 3, {8388609, 1, 1}, 8388609},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size = 0;
        put_sizes(cases[i].dims, cases[i].sizes);
        put_file(in(folder, "x.idx"), file, size);
        assert_int_equal(truncate(in(folder, "x.idx"), (off_t)(size + cases[i].bytes)), 0);
        expect(cases[i].what, "x.idx", 2, cases[i].words);
    }
}

/* Labels beside two images. */
static void test_labels(void **state)
{
    (void)state;
    static const struct {
        const char *what, *words, *bytes;
        size_t size;
    } cases[] = {
        {"two", NULL, "\0\0\x08\1\0\0\0\2\1\2", 10},
        {"one", "2 labels expected", "\0\0\x08\1\0\0\0\1\1", 9},
        {"three", "2 labels expected", "\0\0\x08\1\0\0\0\3\1\1\1", 11},
        {"none", "2 labels expected", "\0\0\x08\1\0\0\0\0", 8},
        {"too many dimensions", "in 2 dimensions", "\0\0\x08\2\0\0\0\2\0\0\0\1\1\2", 14},
        {"numbers of 4 bytes", "found type 12", "\0\0\x0c\1\0\0\0\2\0\0\0\0\0\0\0\0", 16},
        {"cut", "found 9", "\0\0\x08\1\0\0\0\2\1", 9},
        {"text", "not an idx file", "1\n2\n", 4},
        {"nothing", "not an idx file", "", 0},
    };
    static const size_t sizes[] = {2, 3, 4};
    size = 0;
    put_sizes(3, sizes);
    put_zeros(24);
    put_file(in(folder, "x-images-idx3-ubyte"), file, size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(in(folder, "x-labels-idx1-ubyte"), cases[i].bytes, cases[i].size);
        expect_of(cases[i].what, "x-images-idx3-ubyte", "x-labels-idx1-ubyte", 2, cases[i].words);
    }
}

/* The file so far and n zeros behind it, gzipped. */
static void gzip(size_t n)
{
    static uint8_t packed[ROOM], zeros[1 << 16];
    z_stream z = {.next_in = file, .avail_in = (uInt)size, .next_out = packed, .avail_out = ROOM};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    for (int code = Z_OK; code != Z_STREAM_END;) {
        if (!z.avail_in && n) {
            z.next_in = zeros;
            z.avail_in = (uInt)(n < sizeof zeros ? n : sizeof zeros);
            n -= z.avail_in;
        }
        code = deflate(&z, n || z.avail_in ? Z_NO_FLUSH : Z_FINISH);
        assert_true(code == Z_OK || code == Z_STREAM_END);
    }
    size = 0;
    put(packed, z.total_out);
    deflateEnd(&z);
}

static void test_gzip(void **state)
{
    (void)state;
    static const struct {
        const char *what, *words;
        size_t sizes[3], bytes; /* bytes of zeros that follow */
        int times;              /* gzipped */
        size_t cut, more;       /* bytes off the end; zeros there */
    } cases[] = {
        {"two images", NULL, {2, 3, 4}, 24, 1},
        {"100 MB in place of 24 bytes", "found at least 41", {2, 3, 4}, 100000000, 1},
        {"a byte too few", "found 39", {2, 3, 4}, 23, 1},
        {"256 MB that are not there", "found 40", {1, 16384, 16384}, 24, 1},
        {"2 GB", "found 2147483664", {2, 32768, 32768}, 24, 1},
        {"sizes that overflow", "too large", {0xffffffff, 0xffffffff, 0xffffffff}, 24, 1},
        {"gzipped twice", "not an idx file", {2, 3, 4}, 24, 2},
        {"not gzipped", "damaged", {2, 3, 4}, 24, 0},
        {"cut in its sum", "cut short", {2, 3, 4}, 24, 1, 5},
        {"cut", "cut short", {2, 3, 4}, 24, 1, 15},
        {"its head alone", "cut short", {2, 3, 4}, 24, 1, 20},
        {"zeros behind it", "damaged", {2, 3, 4}, 24, 1, 0, 30},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size = 0;
        put_sizes(3, cases[i].sizes);
        for (int k = 0; k < cases[i].times; k++)
            gzip(k ? 0 : cases[i].bytes);
        if (!cases[i].times)
            memcpy(file, "\x1f\x8b", 2);
        size -= cases[i].cut;
        put_zeros(cases[i].more);
        put_file(in(folder, "x.gz"), file, size);
        expect(cases[i].what, "x.gz", 2, cases[i].words);
    }
}

/* ---- what is no file ------------------------------------------------------------------------- */

/* Neither waited for nor read for ever. */
static void test_pipes_and_devices(void **state)
{
    (void)state;
    qkv_image_list *p;
    qkv_pixels *pixels;
    qkv_image image;
    size_t n;
    char *data = take_file(PNG, &n);
    assert_int_equal(mkfifo(in(folder, "a.png"), 0600), 0);
    assert_int_equal(symlink("/dev/zero", in(folder, "b.png")), 0);
    assert_int_equal(mkdir(in(folder, "c.png"), 0700), 0);
    expect("a pipe", "a.png", 0, "found a pipe or a device");
    expect("a device", "b.png", 0, "found a pipe or a device");
    expect("a folder that is empty", "c.png", 0, "no PNG");
    assert_int_equal(qkv_image_read(&image, ctx, in(folder, "a.png"), NULL), QKV_E_IO);
    assert_int_equal(qkv_image_read(&image, ctx, in(folder, "b.png"), NULL), QKV_E_IO);
    expect_of("a folder of such", "", "b.png", 0, "none of 2 images");
    put_file(in(folder, "d.png"), data, n);
    assert_int_equal(qkv_image_list_open(&p, ctx, folder), QKV_OK);
    assert_int_equal(qkv_pixels_read(&pixels, ctx, p, NULL, NULL, NULL, NULL), QKV_OK);
    assert_int_equal(qkv_pixels_count(pixels), 1);
    qkv_pixels_close(pixels);
    qkv_image_list_close(p);
    free(data);
}

static void test_something_else(void **state)
{
    (void)state;
    static const struct {
        const char *what, *bytes, *words;
        size_t size;
    } cases[] = {
        {"nothing", "", "found something else", 0},
        {"text", "what is this?", "found something else", 13},
        {"a font of outlines", "OTTO\0\1\0\0\0\0\0\0", "found something else", 12},
        {"a font without tables", "\0\1\0\0\xff\xff\0\0\0\0\0\0", "found no table cmap", 12},
        {"a font that ends", "\0\1\0\0\0\1\0\0", "idx", 8},
        {"a zip file", "PK\3\4\0\0\0\0", "found something else", 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(in(folder, "x"), cases[i].bytes, cases[i].size);
        expect(cases[i].what, "x", 0, cases[i].words);
    }
    size_t n; /* an image whatever its name */
    char *data = take_file(PNG, &n);
    put_file(in(folder, "x"), data, n);
    expect("an image", "x", 1, NULL);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tar),    cmocka_unit_test(test_cut_header),
        cmocka_unit_test(test_dots),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_one_of_thousands),
        cmocka_unit_test(test_idx),    cmocka_unit_test(test_labels),
        cmocka_unit_test(test_gzip),   cmocka_unit_test(test_pipes_and_devices),
        cmocka_unit_test(test_something_else),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
