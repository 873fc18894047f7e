/* test_map_drop.c - pages of a file that are given back have the same bytes when they are read
 * again; what is no mapped file keeps its own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "io/file.h"

enum { BYTES = 5 * 4096 + 100 };

static void check(const qkv__map *m)
{
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(m->data[i], i % 251);
}

static void dropped_pages_are_read_again(void **state)
{
    (void)state;
    const qkv_path path = qkv_path_in(folder, "bytes");
    FILE *f = fopen(path.text, "wb");
    for (size_t i = 0; i < BYTES; i++)
        assert_int_not_equal(fputc((int)(i % 251), f), EOF);
    assert_int_equal(fclose(f), 0);
    qkv__map m;
    assert_int_equal(qkv__map_open(&m, ctx, path.text), QKV_OK);
    static const size_t parts[][2] = {{0, BYTES}, {1, 3}, {4000, 9000}, {BYTES, 0}, {BYTES - 1, 1},
                                      {BYTES - 1, 2}, {0, SIZE_MAX}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        qkv__map_drop(&m, m.data + parts[i][0], parts[i][1]);
        check(&m);
    }
    qkv__map kept = m; /* as what came through a pipe: not a file's pages */
    uint8_t *copy = qkv_malloc(ctx, BYTES);
    memcpy(copy, m.data, BYTES);
    kept.data = copy;
    kept.mapped = false;
    qkv__map_drop(&kept, copy, BYTES);
    check(&kept);
    qkv_free(ctx, copy);
    qkv__map_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dropped_pages_are_read_again)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
