/* test_safetensors.c - safetensors against files of the reference library, both ways. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "io/convert.h"
#include "io/json.h"
#include "qkv/safetensors.h"

static const char types[] = QKV_SOURCE_DIR "/tests/golden/io/types.safetensors";
static const char rounding[] = QKV_SOURCE_DIR "/tests/golden/io/rounding.safetensors";

static qkv_safetensors *must_open(const char *path)
{
    qkv_safetensors *s;
    if (qkv_safetensors_open(&s, ctx, path))
        fail_msg("%s", qkv_context_message(ctx));
    return s;
}

/* ---- the reference library's files -------------------------------------------------------- */

static void every_type_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double scale, offset;
    } floats[] = {{"b.f32", 0.25, -0.5}, {"f16", 0.25, 0}, {"bf16", 0.25, 0}, {"i8", 1, -3},
                  {"i16", -1000, 0}, {"i32", -100000, 0}};
    qkv_real x[6];
    int64_t n[6];
    qkv_safetensors *s = must_open(types);
    assert_int_equal(qkv_safetensors_count(s), 13);
    for (size_t k = 0; k < sizeof floats / sizeof *floats; k++) {
        const qkv_safetensor *t = qkv_safetensors_find(s, floats[k].name);
        assert_non_null(t);
        assert_int_equal(t->ndim, 2);
        assert_int_equal(t->shape[0], 2);
        assert_int_equal(t->shape[1], 3);
        assert_int_equal(qkv_safetensors_read(s, t, 0, 6, x), QKV_OK);
        for (int i = 0; i < 6; i++)
            assert_true(x[i] == (qkv_real)(i * floats[k].scale + floats[k].offset));
    }
    assert_int_equal(qkv_safetensors_read(s, qkv_safetensors_find(s, "f64"), 1, 1, x), QKV_OK);
    assert_true(x[0] == (qkv_real)(1.0 / 3));
    assert_int_equal(qkv_safetensors_read_ints(s, qkv_safetensors_find(s, "i64"), 0, 6, n), 0);
    assert_true(n[5] == -5 * ((int64_t)1 << 40));
    assert_int_equal(qkv_safetensors_read_ints(s, qkv_safetensors_find(s, "u8"), 0, 6, n), 0);
    assert_true(n[5] == 255);
    assert_int_equal(qkv_safetensors_read_ints(s, qkv_safetensors_find(s, "bool"), 0, 6, n), 0);
    assert_true(n[4] == 0 && n[5] == 1);
    qkv_safetensors_close(s);
}

static void scalars_empty_tensors_and_metadata(void **state)
{
    (void)state;
    qkv_real x = 0;
    const qkv_safetensor *t;
    const size_t wrong[] = {3, 2};
    qkv_safetensors *s = must_open(types);
    assert_int_equal(qkv_safetensors_get(s, "a.f32", 0, NULL, &t), QKV_OK);
    assert_int_equal(qkv_safetensors_read(s, t, 0, 1, &x), QKV_OK);
    assert_true(x == 2.5);
    t = qkv_safetensors_find(s, "empty");
    assert_true(t && t->count == 0 && t->ndim == 2);
    assert_int_equal(qkv_safetensors_read(s, t, 0, 0, &x), QKV_OK);
    assert_string_equal(qkv_safetensors_metadata(s, "format"), "pt");
    assert_null(qkv_safetensors_metadata(s, "other"));
    assert_null(qkv_safetensors_find(s, "nothing"));
    for (size_t i = 1; i < qkv_safetensors_count(s); i++)
        assert_true(strcmp(qkv_safetensors_at(s, i - 1)->name, qkv_safetensors_at(s, i)->name) < 0);
    assert_int_equal(qkv_safetensors_get(s, "b.f32", 2, wrong, &t), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx),
                           "tensor \"b.f32\": expected shape (3, 2), found (2, 3)"));
    assert_int_equal(qkv_safetensors_get(s, "c", 2, wrong, &t), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "tensor \"c\" is missing"));
    t = qkv_safetensors_find(s, "f8");
    assert_int_equal(qkv_safetensors_read(s, t, 0, 6, &x), QKV_E_UNSUPPORTED);
    t = qkv_safetensors_find(s, "i64");
    assert_int_equal(qkv_safetensors_read(s, t, 5, 2, &x), QKV_E_ARGUMENT);
    qkv_safetensors_close(s);
}

/* torch rounded the same numbers: the bits must agree. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    qkv_safetensors *s = must_open(rounding);
    const qkv_safetensor *t = qkv_safetensors_find(s, "source");
    const unsigned char *half = qkv_safetensors_find(s, "f16")->data;
    const unsigned char *brain = qkv_safetensors_find(s, "bf16")->data;
    assert_true(t->count > 1000);
    for (size_t i = 0; i < t->count; i++) {
        qkv_real x;
        uint16_t h, b;
        assert_int_equal(qkv_safetensors_read(s, t, i, 1, &x), QKV_OK);
        memcpy(&h, half + 2 * i, 2);
        memcpy(&b, brain + 2 * i, 2);
        assert_int_equal(qkv__to_f16((float)x), h);
        assert_int_equal(qkv__to_bf16((float)x), b);
    }
    qkv_safetensors_close(s);
}

static void sixteen_bits_survive_a_round_trip(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float h = qkv__from_f16((uint16_t)i), b = qkv__from_bf16((uint16_t)i);
        if (h == h)
            assert_int_equal(qkv__to_f16(h), i);
        else
            assert_true((qkv__to_f16(h) & 0x7c00) == 0x7c00 && (qkv__to_f16(h) & 0x3ff) != 0);
        if (b == b)
            assert_int_equal(qkv__to_bf16(b), i);
    }
    /* Ties between subnormals go to the even one. */
    assert_int_equal(qkv__to_f16(0x0.8p-24f), 0);
    assert_int_equal(qkv__to_f16(0x1.8p-24f), 2);
    assert_int_equal(qkv__to_f16(0x2.8p-24f), 2);
    assert_true(qkv__from_f16(1) == 0x1p-24f && qkv__from_f16(0x7bff) == 65504.0f);
}

/* The same tensors, from raw bytes and in another order, give the same file. */
static void the_writer_gives_the_reference_librarys_bytes(void **state)
{
    (void)state;
    qkv_safetensors_entry entries[13];
    size_t n = 0, size, golden_size;
    qkv_safetensors *s = must_open(rounding);
    for (size_t i = 0; i < 3; i++) {
        const qkv_safetensor *t = qkv_safetensors_at(s, 2 - i);
        entries[n++] = (qkv_safetensors_entry){.name = t->name, .ndim = t->ndim, .raw = t->data,
                                               .shape = t->shape, .store = t->store};
    }
    qkv_real *source = malloc(entries[0].shape[0] * sizeof *source);
    const qkv_safetensor *t = qkv_safetensors_find(s, "source");
    assert_int_equal(qkv_safetensors_read(s, t, 0, t->count, source), QKV_OK);
    for (size_t i = 0; i < n; i++) { /* from reals, so that the writer rounds */
        entries[i].data = source;
        entries[i].raw = NULL;
    }
    const char *path = in(folder, "out.safetensors");
    assert_int_equal(qkv_safetensors_save(ctx, path, entries, n, NULL), QKV_OK);
    char *ours = take_file(path, &size), *golden = take_file(rounding, &golden_size);
    assert_int_equal(size, golden_size);
    assert_memory_equal(ours, golden, size);
    assert_int_equal(files_in(folder), 1);
    free(ours);
    free(golden);
    free(source);
    qkv_safetensors_close(s);
}

/* ---- writing ------------------------------------------------------------------------------ */

static qkv_status count_up(void *user, size_t begin, size_t count, qkv_real *out)
{
    const double *step = user;
    for (size_t i = 0; i < count; i++)
        out[i] = (qkv_real)((double)(begin + i) * *step);
    return QKV_OK;
}

static qkv_status give_up(void *user, size_t begin, size_t count, qkv_real *out)
{
    (void)user;
    memset(out, 0, count * sizeof *out);
    return begin ? QKV_E_CANCELLED : QKV_OK;
}

static const size_t big[] = {100, 500}, small[] = {7};
static double step = 0.5;
static const qkv_safetensors_entry three[] = {
    {.name = "w.2", .ndim = 2, .shape = big, .store = QKV_STORE_F32, .fill = count_up,
     .user = &step},
    {.name = "w.1", .ndim = 2, .shape = big, .store = QKV_STORE_BF16, .fill = count_up,
     .user = &step},
    {.name = "b", .ndim = 1, .shape = small, .store = QKV_STORE_F32, .fill = count_up,
     .user = &step},
};

static void check_three(const char *path)
{
    qkv_real x[2];
    qkv_safetensors *s = must_open(path);
    assert_int_equal(qkv_safetensors_count(s), 3);
    const qkv_safetensor *t = qkv_safetensors_find(s, "w.2");
    assert_int_equal(qkv_safetensors_read(s, t, 49998, 2, x), QKV_OK);
    assert_true(x[0] == 24999 && x[1] == (qkv_real)24999.5);
    t = qkv_safetensors_find(s, "w.1");
    assert_int_equal(qkv_safetensors_read(s, t, 511, 2, x), QKV_OK);
    assert_true(x[0] == 255.5 || x[0] == 256); /* 8 bits of fraction */
    assert_true(x[1] == 256);
    qkv_safetensors_close(s);
}

static void shards_are_written_and_found(void **state)
{
    (void)state;
    const qkv_safetensors_options split = {.shard_bytes = 100000};
    const char *path = in(folder, "model.safetensors");
    qkv__json index;
    int64_t total;
    assert_int_equal(qkv_safetensors_save(ctx, path, three, 3, NULL), QKV_OK);
    check_three(folder);
    assert_int_equal(qkv_safetensors_save(ctx, path, three, 3, &split), QKV_OK);
    check_three(folder);
    check_three(in(folder, "model.safetensors.index.json"));
    assert_int_equal(files_in(folder), 4); /* 3 shards; the whole file is gone */
    path = in(folder, "model.safetensors.index.json");
    assert_int_equal(qkv__json_load(&index, ctx, path), QKV_OK);
    qkv__json meta;
    assert_int_equal(qkv__json_get_object(&index, "metadata", &meta), QKV_OK);
    assert_int_equal(qkv__json_get_int(&meta, "total_size", 0, INT64_MAX, &total), QKV_OK);
    assert_true(total == 50000 * 6 + 28);
    qkv__json_free(&index);
    path = in(folder, "model.safetensors");
    assert_int_equal(qkv_safetensors_save(ctx, path, three, 3, NULL), QKV_OK);
    assert_int_equal(access(in(folder, "model.safetensors.index.json"), F_OK), -1);
    check_three(folder);
}

static void a_failed_save_leaves_the_old_file(void **state)
{
    (void)state;
    const char *path = in(folder, "model.safetensors");
    qkv_safetensors_entry bad[] = {three[0], three[1], three[2]};
    assert_int_equal(qkv_safetensors_save(ctx, path, three, 3, NULL), QKV_OK);
    bad[1].fill = give_up;
    assert_int_equal(qkv_safetensors_save(ctx, path, bad, 3, NULL), QKV_E_CANCELLED);
    bad[1] = three[0]; /* a name twice */
    assert_int_equal(qkv_safetensors_save(ctx, path, bad, 3, NULL), QKV_E_ARGUMENT);
    bad[1] = three[1];
    bad[1].store = QKV_STORE_I32;
    assert_int_equal(qkv_safetensors_save(ctx, path, bad, 3, NULL), QKV_E_ARGUMENT);
    bad[1].store = QKV_STORE_F32;
    bad[1].fill = NULL;
    assert_int_equal(qkv_safetensors_save(ctx, path, bad, 3, NULL), QKV_E_ARGUMENT);
    assert_int_equal(files_in(folder), 1);
    check_three(folder);
    assert_int_equal(qkv_safetensors_save(ctx, in(folder, "no/x"), three, 3, NULL), QKV_E_IO);
    assert_int_equal(qkv_safetensors_save(ctx, folder, three, 3, NULL), QKV_E_IO);
    assert_int_equal(files_in(folder), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_type_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scalars_empty_tensors_and_metadata, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rounding_is_to_nearest_even, set_up, tear_down),
        cmocka_unit_test(sixteen_bits_survive_a_round_trip),
        cmocka_unit_test_setup_teardown(the_writer_gives_the_reference_librarys_bytes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(shards_are_written_and_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_save_leaves_the_old_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
