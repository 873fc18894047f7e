/* test_series_memory.c - the n-th allocation fails, for every n, while a file of series with labels
 * is read, kept and opened again: each time a clean error or the same series, and all memory comes
 * back. */
#include <math.h>
#include <string.h>

#include "every_allocation.h"
#include "files.h"
#include "pipeline/series_set.h"

enum { COLUMNS = 2, MOST = 40 };

static const char text[] = "# label, then steps of two\n"
                           "up,1,2,3,4,5,6\r\n\ndown,6,5,,3\nflat,1,1,NaN,1,,\nup,2,3\n";
static char lines[PATH_BYTES + 8], kept[PATH_BYTES + 16];

/* A number that depends on every value, label and length. */
static double sum_of(const qkv_series_set *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = s->start[i] * COLUMNS; k < s->start[i + 1] * COLUMNS; k++) {
            double value = isnan((double)s->data[k]) ? 100 : (double)s->data[k];
            sum += value * (double)(k + 1) * (1 + s->labels[i]);
        }
    return sum;
}

/* What was read and what was kept of it; -1 after a failure. */
static double run(failing *memory)
{
    const qkv_context_options o = failing_options(memory);
    qkv__series_file read = {0}, again = {0};
    qkv_context *ctx;
    if (qkv_context_create(&ctx, &o))
        return -1;
    unlink(kept);
    qkv_status status = qkv__series_file_load(&read, ctx, lines, true, COLUMNS, MOST, NULL, 0);
    if (!status) {
        assert_int_equal(read.set.count, 4);
        status = qkv__series_set_save(ctx, kept, &read.set, 1, 3);
    }
    if (!status)
        status = qkv__series_set_open(&again, ctx, kept, COLUMNS, read.classes);
    double result = status ? -1 : sum_of(&read.set) + 1e6 * sum_of(&again.set);
    if (status) {
        assert_int_equal(qkv_context_status(ctx), QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(ctx)) > 0);
    } else {
        assert_int_equal(read.classes, 3);
        assert_int_equal(again.set.count, 3);
    }
    qkv__series_file_free(&read);
    qkv__series_file_free(&again);
    qkv_context_destroy(ctx);
    return result;
}

static void test_every_allocation(void **state)
{
    (void)state;
    fail_every_allocation(run, 500, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    char folder[PATH_BYTES];
    make_folder(folder);
    snprintf(lines, sizeof lines, "%s/lines", folder);
    snprintf(kept, sizeof kept, "%s/kept.npy", folder);
    FILE *f = fopen(lines, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, sizeof text - 1, f), sizeof text - 1);
    assert_int_equal(fclose(f), 0);
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(folder);
    return result;
}
