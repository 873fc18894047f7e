/* test_map_drop.c - pages of a file that are given back leave the memory, and have the same bytes
 * when they are read again; what is no mapped file keeps its own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "io/file.h"

enum { BYTES = 5 * 4096 + 100, PAGES = 40 };

static void check(const qkv__map *m)
{
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(m->data[i], i % 251);
}

static void open_bytes(qkv__map *m, size_t count)
{
    const qkv_path path = qkv_path_in(folder, "bytes");
    FILE *f = fopen(path.text, "wb");
    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(fputc((int)(i % 251), f), EOF);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(qkv__map_open(m, ctx, path.text), QKV_OK);
}

static void dropped_pages_are_read_again(void **state)
{
    (void)state;
    qkv__map m;
    open_bytes(&m, BYTES);
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

/* The pages of the map that are in this process's memory, as Linux counts them; SIZE_MAX: it does
 * not say. */
static size_t pages_held(const qkv__map *m)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    size_t kilobytes = SIZE_MAX;
    for (bool here = false; f && kilobytes == SIZE_MAX && fgets(line, sizeof line, f);) {
        char *end;
        uintptr_t begin = (uintptr_t)strtoull(line, &end, 16);
        if (*end == '-' && end > line)
            here = begin == (uintptr_t)m->data;
        if (here && strncmp(line, "Rss:", 4) == 0)
            kilobytes = strtoul(line + 4, NULL, 10);
    }
    if (f)
        fclose(f);
    return kilobytes == SIZE_MAX ? SIZE_MAX : kilobytes * 1024 / (size_t)sysconf(_SC_PAGESIZE);
}

/* Pages that are dropped leave the memory: those that lie in the range as a whole, no others, and
 * none where the range is not all in the map. */
static void whole_pages_leave_memory(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = PAGES * page;
    const struct {
        size_t from, bytes, pages;
    } parts[] = {{0, bytes, PAGES}, {5 * page, 7 * page, 7}, {5 * page + 1, 7 * page, 6},
                 {5 * page - 1, 7 * page + 2, 7}, {5 * page + 1, page, 0}, {5 * page, page - 1, 0},
                 {5 * page, bytes, 0}, {0, bytes + 1, 0}, {0, SIZE_MAX, 0},
                 {bytes - page, page, 1}};
    qkv__map m;
    open_bytes(&m, bytes);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (size_t k = 0; k < bytes; k++)
            assert_int_equal(m.data[k], k % 251);
        if (pages_held(&m) != PAGES)
            skip(); /* an emulator or another system: there is nothing to see */
        qkv__map_drop(&m, m.data + parts[i].from, parts[i].bytes);
        if (pages_held(&m) != PAGES - parts[i].pages)
            fail_msg("part %zu: %zu pages are left of %d; %zu dropped expected", i,
                     pages_held(&m), (int)PAGES, parts[i].pages);
    }
    qkv__map_drop(&m, m.data - page, 2 * page);
    assert_int_equal(pages_held(&m), PAGES - 1);
    qkv__map_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dropped_pages_are_read_again),
                                       cmocka_unit_test(whole_pages_leave_memory)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
