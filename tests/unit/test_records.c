/* Record files: what is put in comes out, files that are cut short or lie are refused; packs hold
 * every record once an epoch, within the budget, and depend on their number alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"
#include "qkv/records.h"
#include "qkv/safetensors.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden"

enum { RECORDS = 500 };

/* Field f of record i: (7 i + 3 f) % 11 ids, from 100 i + 10 f on. */
static size_t expected(size_t i, size_t f, int32_t ids[16])
{
    size_t n = (7 * i + 3 * f) % 11;
    for (size_t k = 0; k < n; k++)
        ids[k] = (int32_t)(100 * i + 10 * f + k);
    return n;
}

static qkv_records *made(const char *path)
{
    qkv_records_writer *w;
    qkv_records *r;
    int32_t ids[16];
    assert_int_equal(qkv_records_create(&w, ctx, path, 2), QKV_OK);
    for (size_t i = 0; i < RECORDS; i++)
        for (size_t f = 0; f < 2; f++)
            assert_int_equal(qkv_records_add(w, ids, expected(i, f, ids)), QKV_OK);
    assert_int_equal(qkv_records_finish(w, &r), QKV_OK);
    return r;
}

static void test_comes_out_as_put_in(void **state)
{
    (void)state;
    const char *paths[] = {in(folder, "r"), NULL};
    for (size_t p = 0; p < 2; p++) {
        qkv_records *r = made(paths[p]);
        size_t all[2] = {0};
        int32_t ids[16];
        const int32_t *got;
        assert_int_equal(qkv_records_count(r), RECORDS);
        assert_int_equal(qkv_records_fields(r), 2);
        for (size_t i = 0; i < RECORDS; i++)
            for (size_t f = 0; f < 2; f++) {
                size_t n = expected(i, f, ids);
                assert_int_equal(qkv_records_get(r, i, f, &got), n);
                assert_memory_equal(got, ids, n * sizeof *ids);
                all[f] += n;
            }
        assert_int_equal(qkv_records_ids(r, 0), all[0]);
        assert_int_equal(qkv_records_ids(r, 1), all[1]);
        assert_int_equal(qkv_records_max(r, 1), 100 * 499 + 10 + (7 * 499 + 3) % 11 - 1);
        qkv_records_close(r);
    }
}

static void test_empty_and_unfinished(void **state)
{
    (void)state;
    qkv_records_writer *w;
    qkv_records *r;
    int32_t id = 1;
    assert_int_equal(qkv_records_create(&w, ctx, NULL, 2), QKV_OK);
    assert_int_equal(qkv_records_finish(w, &r), QKV_OK);
    assert_int_equal(qkv_records_count(r), 0);
    assert_int_equal(qkv_records_max(r, 0), -1);
    qkv_packed_batches *p;
    assert_int_equal(qkv_packed_batches_create(&p, ctx, r, 10, 1), QKV_E_ARGUMENT);
    assert_null(p);
    qkv_records_close(r);
    assert_int_equal(qkv_records_create(&w, ctx, in(folder, "u"), 2), QKV_OK);
    assert_int_equal(qkv_records_add(w, &id, 1), QKV_OK);
    assert_int_equal(qkv_records_finish(w, &r), QKV_E_ARGUMENT);
    assert_null(r);
    assert_int_equal(files_in(folder), 0);
    assert_int_equal(qkv_records_create(&w, ctx, NULL, 0), QKV_E_ARGUMENT);
}

/* A file that the reference library wrote. */
static void test_format(void **state)
{
    (void)state;
    qkv_records *r;
    const int32_t *ids;
    assert_int_equal(qkv_records_open(&r, ctx, GOLDEN "/io/records.safetensors"), QKV_OK);
    assert_int_equal(qkv_records_count(r), 3);
    assert_int_equal(qkv_records_fields(r), 2);
    assert_int_equal(qkv_records_get(r, 0, 1, &ids), 2);
    assert_int_equal(ids[0], 7);
    assert_int_equal(qkv_records_get(r, 1, 0, &ids), 0);
    assert_int_equal(qkv_records_get(r, 2, 0, &ids), 4);
    assert_int_equal(ids[2], 11);
    assert_int_equal(qkv_records_get(r, 2, 1, &ids), 0);
    qkv_records_close(r);
}

/* Two records of two fields in five tokens, unless something in them lies. */
static qkv_status open_made(const int32_t *tokens, const int64_t *offsets, size_t columns)
{
    const size_t n = 5, shape[] = {6 / columns, columns};
    const qkv_safetensors_entry entries[] = {
        {.name = "tokens", .ndim = 1, .shape = &n, .store = QKV_STORE_I32, .raw = tokens},
        {.name = "offsets", .ndim = 2, .shape = shape, .store = QKV_STORE_I64, .raw = offsets}};
    const char *path = in(folder, "made");
    qkv_records *r;
    assert_int_equal(qkv_safetensors_save(ctx, path, entries, 2, NULL), QKV_OK);
    qkv_status status = qkv_records_open(&r, ctx, path);
    assert_true(!status == (r != NULL));
    if (status)
        assert_non_null(strstr(qkv_context_message(ctx), path));
    qkv_records_close(r);
    return status;
}

static void test_refuses_what_lies(void **state)
{
    (void)state;
    static const int32_t fine[] = {1, 2, 3, 4, 5}, negative[] = {1, 2, -3, 4, 5};
    static const int64_t lies[][6] = {{0, 1, 2, 2, 3, 4},  {1, 1, 2, 2, 3, 5},
                                      {0, 2, 1, 1, 3, 5},  {0, 1, 2, 3, 4, 5},
                                      {0, 1, 3, 2, 3, 5},  {0, 1, 2, 2, 6, 5},
                                      {0, 1, 2, 2, 3, 6},  {0, -1, 2, 2, 3, 5},
                                      {0, 1, 2, 2, 3, INT64_MAX}};
    static const int64_t good[] = {0, 1, 2, 2, 3, 5};
    assert_int_equal(open_made(fine, good, 3), QKV_OK);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        assert_int_equal(open_made(fine, lies[i], 3), QKV_E_FORMAT);
    assert_int_equal(open_made(fine, good, 1), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "offsets of 1 columns"));
    assert_int_equal(open_made(negative, good, 3), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "id 2: 0 or more expected"));
    size_t size;
    qkv_records_close(made(in(folder, "r")));
    char *data = take_file(in(folder, "r"), &size);
    const char *path = in(folder, "bad");
    for (size_t cut = 1; cut < 200; cut++) {
        qkv_records *r;
        put_file(path, data, size - cut);
        assert_int_equal(qkv_records_open(&r, ctx, path), QKV_E_FORMAT);
        assert_null(r);
    }
    free(data);
}

static void test_packed_batches(void **state)
{
    (void)state;
    enum { BUDGET = 60 };
    qkv_records *r = made(NULL);
    qkv_packed_batches *p, *other;
    assert_int_equal(qkv_packed_batches_create(&p, ctx, r, BUDGET, 5), QKV_OK);
    assert_int_equal(qkv_packed_batches_create(&other, ctx, r, BUDGET, 5), QKV_OK);
    const uint64_t *records, *again;
    const int32_t *ids;
    size_t orders_differ = 0, first_order[RECORDS];
    uint64_t pack = 0;
    for (int epoch = 0; epoch < 3; epoch++) {
        bool seen[RECORDS] = {false};
        for (size_t done = 0; done < RECORDS; pack++) {
            size_t size = 0, n = qkv_packed_batches_get(p, pack, &records);
            assert_true(n > 0);
            for (size_t i = 0; i < n; i++) {
                assert_false(seen[records[i]]);
                seen[records[i]] = true;
                size += qkv_records_get(r, records[i], 0, &ids);
                size += qkv_records_get(r, records[i], 1, &ids);
                if (epoch == 0)
                    first_order[done + i] = records[i];
                orders_differ += first_order[done + i] != records[i];
            }
            assert_true(size <= BUDGET);
            done += n;
        }
        if (epoch == 0)
            assert_int_equal(pack, qkv_packed_batches_per_epoch(p));
    }
    assert_true(orders_differ > RECORDS);
    static const uint64_t asked[] = {90, 3, 250, 0, 91};
    for (size_t i = 0; i < 5; i++) { /* whatever was asked for before */
        size_t n = qkv_packed_batches_get(other, asked[i], &again);
        assert_int_equal(qkv_packed_batches_get(p, asked[i], &records), n);
        assert_memory_equal(records, again, n * sizeof *again);
    }
    qkv_packed_batches_destroy(p);
    qkv_packed_batches_destroy(other);
    qkv_records_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_out_as_put_in),
        cmocka_unit_test(test_empty_and_unfinished),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_refuses_what_lies),
        cmocka_unit_test(test_packed_batches),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
