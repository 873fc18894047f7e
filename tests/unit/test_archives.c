/* gzip, idx and tar: what Python wrote is read; what is damaged, cut short or too large is refused
 * or read within its bounds. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"

#include "io/gzip.h"
#include "io/idx.h"
#include "io/tar.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/io"

static void test_idx(void **state)
{
    (void)state;
    static const char *const files[] = {GOLDEN "/plain.idx", GOLDEN "/packed.idx.gz"};
    for (size_t f = 0; f < 2; f++) {
        qkv__idx x;
        assert_int_equal(qkv__idx_open(&x, ctx, files[f]), QKV_OK);
        assert_int_equal(x.ndim, 3);
        assert_int_equal(x.shape[0], 5);
        assert_int_equal(x.shape[1], 4);
        assert_int_equal(x.shape[2], 3);
        for (size_t i = 0; i < 60; i++)
            assert_int_equal(x.data[i], (7 * i + 3) % 256);
        qkv__idx_close(&x);
    }
}

static void test_tar(void **state)
{
    (void)state;
    static const char *const formats[] = {"ustar.tar", "gnu.tar", "pax.tar"};
    for (size_t f = 0; f < 3; f++) {
        size_t size, files = 0;
        char *data = take_file(in(GOLDEN, formats[f]), &size);
        char path[400] = "dogs/", text[64];
        for (int i = 0; i < 30; i++)
            strcat(path, "long/");
        strcat(path, "b.txt");
        const char *const names[] = {"cats/a.txt", path, "empty", "dogs/\xc3\xbcmlaut.txt"};
        qkv__tar t = {ctx, formats[f], (uint8_t *)data, size, 0};
        qkv__tar_entry e;
        bool more;
        assert_true(qkv__tar_begins(t.data, t.size));
        for (;; files++) {
            assert_int_equal(qkv__tar_next(&t, &e, &more), QKV_OK);
            if (!more)
                break;
            size_t n = (size_t)snprintf(text, sizeof text, "file %zu ", files);
            assert_string_equal(e.name, names[files]);
            assert_int_equal(e.size, 100 * files * n);
            assert_true(e.size == 0 || memcmp(e.data, text, n) == 0);
        }
        assert_int_equal(files, 4);
        free(data);
    }
}

/* Walks all of an archive; an entry always lies within it. */
static qkv_status walk(const uint8_t *data, size_t size)
{
    qkv__tar t = {ctx, "x", data, size, 0};
    qkv__tar_entry e;
    bool more = true;
    qkv_status status = QKV_OK;
    for (int n = 0; more && !status && n < 1000; n++) {
        status = qkv__tar_next(&t, &e, &more);
        if (!status && more)
            assert_true(e.data >= data && e.size <= size - (size_t)(e.data - data));
    }
    return status;
}

static void test_damaged_tar(void **state)
{
    (void)state;
    static const char *const formats[] = {"ustar.tar", "gnu.tar", "pax.tar"};
    for (size_t f = 0; f < 3; f++) {
        size_t size, refused = 0;
        char *data = take_file(in(GOLDEN, formats[f]), &size);
        for (size_t at = 0; at < size; at += 11) {
            data[at] = (char)(data[at] ^ 0x31);
            refused += walk((uint8_t *)data, size) == QKV_E_FORMAT;
            data[at] = (char)(data[at] ^ 0x31);
            (void)walk((uint8_t *)data, at);
        }
        assert_true(refused > 100);
        free(data);
    }
}

static void test_damaged_gzip(void **state)
{
    (void)state;
    size_t size, n;
    uint8_t out[1000];
    uint8_t *data = (uint8_t *)take_file(GOLDEN "/packed.idx.gz", &size);
    assert_true(qkv__gzip_begins(data, size));
    assert_int_equal(qkv__gunzip(ctx, "x", data, size, out, sizeof out, &n), QKV_OK);
    assert_int_equal(n, 76);
    for (size_t room = 0; room < 76; room += 25) { /* no byte behind it is touched */
        memset(out, 0xa5, sizeof out);
        assert_int_equal(qkv__gunzip(ctx, "x", data, size, out, room, &n), QKV_OK);
        assert_int_equal(n, room);
        for (size_t i = room; i < sizeof out; i++)
            assert_int_equal(out[i], 0xa5);
    }
    for (size_t cut = 1; cut < size; cut++) {
        qkv_status status = qkv__gunzip(ctx, "x", data, size - cut, out, sizeof out, &n);
        assert_true(status == QKV_E_FORMAT || n == 20); /* 20: the first member alone */
    }
    for (size_t left = 0; left < 8; left++) {
        memory.left = left;
        qkv_status status = qkv__gunzip(ctx, "x", data, size, out, sizeof out, &n);
        assert_true(status == QKV_E_MEMORY || status == QKV_OK);
    }
    memory.left = SIZE_MAX;
    free(data);
}

static void test_refused_idx(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        qkv_status status;
    } bad[] = {
        {"\0\0\x08\1\0\0\0\2ab", 10, QKV_OK},
        {"\0\0\x08\1\0\0\0\2a", 9, QKV_E_FORMAT},
        {"\0\0\x08\1\0\0\0\2abc", 11, QKV_E_FORMAT},
        {"\0\0\x08\1\0\0", 6, QKV_E_FORMAT},
        {"\0\0\x0d\1\0\0\0\1abcd", 12, QKV_E_UNSUPPORTED},
        {"\0\0\x08\0", 4, QKV_E_UNSUPPORTED},
        {"\0\0\x08\5aaaaaaaaaaaaaaaaaaaa", 24, QKV_E_UNSUPPORTED},
        {"\0\0\x08\4\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20,
         QKV_E_FORMAT},
        {"\0\0\x08\2\0\0\0\1\0\0\0\0", 12, QKV_E_FORMAT},
        {"PK", 2, QKV_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qkv__idx x;
        put_file(in(folder, "x"), bad[i].bytes, bad[i].size);
        if (qkv__idx_open(&x, ctx, in(folder, "x")) != bad[i].status)
            fail_msg("case %zu", i);
        qkv__idx_close(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx),         cmocka_unit_test(test_tar),
        cmocka_unit_test(test_damaged_tar), cmocka_unit_test(test_damaged_gzip),
        cmocka_unit_test(test_refused_idx),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
