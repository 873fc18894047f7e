/* test_gguf.c - GGUF files against gguf-py's (tests/golden/gguf): every kind of field, the numbers
 * of every type, and the bytes of those that are written. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/gguf.h"
#include "qkv/safetensors.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/gguf/"
enum { NUMBERS = 4 * 256 };

typedef struct {
    qkv_context *ctx;
    qkv__gguf *g;
    qkv_safetensors *numbers;
} files;

static int open_golden(void **state)
{
    static files f;
    assert_int_equal(qkv_context_create(&f.ctx, NULL), QKV_OK);
    assert_int_equal(qkv_gguf_open(&f.g, f.ctx, GOLDEN "types.gguf"), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&f.numbers, f.ctx, GOLDEN "types.safetensors"), QKV_OK);
    *state = &f;
    return 0;
}

static int close_golden(void **state)
{
    files *f = *state;
    qkv_gguf_close(f->g);
    qkv_safetensors_close(f->numbers);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
    return 0;
}

static void test_fields(void **state)
{
    static const struct {
        const char *key;
        int64_t value;
    } integers[] = {{"a.u8", 200}, {"a.i8", -100}, {"a.u16", 60000}, {"a.i16", -30000},
                    {"a.i32", -2000000000}, {"a.u64", INT64_C(1) << 40},
                    {"a.i64", -(INT64_C(1) << 40)}};
    files *f = *state;
    int64_t n = 0;
    double x = 0;
    bool yes = false;
    const char *text = NULL;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        assert_int_equal(qkv__gguf_opt_int(f->g, integers[i].key, INT64_MIN, INT64_MAX, &n),
                         QKV_OK);
        assert_int_equal(n, integers[i].value);
    }
    assert_int_equal(qkv__gguf_opt_real(f->g, "a.f32", &x), QKV_OK);
    assert_true((float)x == 0.1f);
    assert_int_equal(qkv__gguf_opt_real(f->g, "a.f64", &x), QKV_OK);
    assert_true(x == 0.1);
    assert_int_equal(qkv__gguf_opt_bool(f->g, "a.bool", &yes), QKV_OK);
    assert_true(yes);
    assert_int_equal(qkv__gguf_get_string(f->g, "a.string", &text), QKV_OK);
    assert_string_equal(text, "three \xe2\x86\x92 words");
    assert_int_equal(qkv__gguf_opt_int(f->g, "absent", 0, 1, &n), QKV_OK);
    assert_int_equal(n, -(INT64_C(1) << 40));
}

static void test_arrays(void **state)
{
    static const char *const words[] = {"", "\xc3\xa4", "bc"};
    static const int numbers[] = {3, -1, 2};
    files *f = *state;
    const qkv__gguf_field *a;
    assert_int_equal(qkv__gguf_opt_strings(f->g, "a.strings", &a), QKV_OK);
    assert_int_equal(a->count, 3);
    for (size_t i = 0; i < 3; i++) {
        size_t len;
        const char *text = qkv__gguf_text(a, i, &len);
        assert_int_equal(len, strlen(words[i]));
        assert_memory_equal(text, words[i], len);
    }
    assert_int_equal(qkv__gguf_opt_numbers(f->g, "a.numbers", &a), QKV_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(qkv__gguf_int(a, i), numbers[i]);
}

static void test_wrong_kinds(void **state)
{
    files *f = *state;
    const qkv__gguf_field *a;
    int64_t n;
    bool yes;
    const char *text;
    assert_int_equal(qkv__gguf_opt_int(f->g, "a.string", 0, 1, &n), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(f->ctx), "types.gguf: field \"a.string\""));
    assert_int_equal(qkv__gguf_opt_int(f->g, "a.u8", 0, 199, &n), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(f->ctx), "expected 0 to 199, found 200"));
    assert_int_equal(qkv__gguf_opt_bool(f->g, "a.u8", &yes), QKV_E_FORMAT);
    assert_int_equal(qkv__gguf_get_string(f->g, "a.u8", &text), QKV_E_FORMAT);
    assert_int_equal(qkv__gguf_get_string(f->g, "absent", &text), QKV_E_FORMAT);
    assert_int_equal(qkv__gguf_opt_numbers(f->g, "a.strings", &a), QKV_E_FORMAT);
    assert_int_equal(qkv__gguf_opt_strings(f->g, "a.numbers", &a), QKV_E_FORMAT);
}

/* Bit-equal, from the beginning and from within blocks. */
static void test_numbers(void **state)
{
    static qkv_real expected[NUMBERS], found[NUMBERS];
    files *f = *state;
    assert_int_equal(qkv_gguf_tensors(f->g), 13);
    for (size_t i = 0; i < qkv_gguf_tensors(f->g); i++) {
        const qkv__gguf_tensor *t = qkv__gguf_at(f->g, i);
        const qkv_safetensor *e = qkv_safetensors_find(f->numbers, t->name);
        assert_non_null(e);
        assert_string_equal(t->type->name, t->name);
        assert_int_equal(t->count, e->count);
        assert_int_equal(t->ndim, 2);
        assert_int_equal(t->shape[0], e->shape[0]);
        assert_int_equal(t->shape[1], e->shape[1]);
        assert_int_equal(qkv_safetensors_read(f->numbers, e, 0, e->count, expected), QKV_OK);
        assert_int_equal(qkv__gguf_read(f->g, t, 0, t->count, found), QKV_OK);
        assert_memory_equal(found, expected, t->count * sizeof *found);
        memset(found, 0, sizeof found);
        for (size_t at = 0, n; at < t->count; at += n) {
            n = t->count - at < 77 ? t->count - at : 77;
            assert_int_equal(qkv__gguf_read(f->g, t, at, n, found + at), QKV_OK);
        }
        assert_memory_equal(found, expected, t->count * sizeof *found);
    }
}

static qkv_status fill(void *user, size_t begin, size_t count, qkv_real *out)
{
    const files *f = user;
    return qkv_safetensors_read(f->numbers, qkv_safetensors_find(f->numbers, "x"), begin, count,
                                out);
}

/* What is written has gguf-py's bytes. */
static void test_written(void **state)
{
    static const char *const names[] = {"f32", "f16", "bf16", "q8_0", "q4_0"};
    enum { COUNT = sizeof names / sizeof *names };
    files *f = *state;
    char path[64];
    qkv__gguf *g;
    qkv__gguf_entry entries[COUNT];
    qkv__gguf_fields fields;
    qkv__gguf_fields_init(&fields, f->ctx);
    qkv__gguf_put_string(&fields, "b", "text");
    qkv__gguf_put_array(&fields, "a", QKV__GGUF_STRING, 2);
    qkv__gguf_item_string(&fields, "one", 3);
    qkv__gguf_item_string(&fields, "", 0);
    for (size_t i = 0; i < COUNT; i++) {
        entries[i] = (qkv__gguf_entry){.type = qkv__gguf_type_named(names[i]), .ndim = 2,
                                       .shape = {4, 128}, .fill = fill, .user = f};
        assert_non_null(entries[i].type);
        (void)snprintf(entries[i].name, sizeof entries[i].name, "%s", entries[i].type->name);
    }
    (void)snprintf(path, sizeof path, "/tmp/qkv-gguf-%ld", (long)getpid());
    assert_int_equal(qkv__gguf_save(f->ctx, path, &fields, entries, COUNT), QKV_OK);
    qkv__gguf_fields_free(&fields);
    assert_int_equal(qkv_gguf_open(&g, f->ctx, path), QKV_OK);
    for (size_t i = 0; i < COUNT; i++) {
        const qkv__gguf_tensor *t = qkv__gguf_tensor_find(g, entries[i].name);
        const qkv__gguf_tensor *theirs = qkv__gguf_tensor_find(f->g, entries[i].name);
        assert_non_null(t);
        assert_non_null(theirs);
        assert_memory_equal(t->data, theirs->data,
                            t->count / t->type->block * t->type->bytes);
    }
    assert_int_equal(qkv__gguf_find(g, "a")->count, 2);
    qkv_gguf_close(g);
    unlink(path);
}

static qkv_status fill_large(void *user, size_t begin, size_t count, qkv_real *out)
{
    (void)user;
    for (size_t i = 0; i < count; i++)
        out[i] = begin + i == 40 ? 70000 : 1;
    return QKV_OK;
}

/* Numbers whose scale is 0 as a half, or has no finite inverse, become 0. */
static void test_tiny(void **state)
{
    static const char *const names[] = {"q8_0", "q4_0"};
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        const qkv__gguf_type *type = qkv__gguf_type_named(names[n]);
        qkv_real x[32], y[32];
        uint8_t bytes[64];
        for (int i = 0; i < 32; i++)
            x[i] = (qkv_real)(i % 2 ? 1e-41 : -3e-12);
        for (int way = 0; way < 2; way++) {
            type->encode(bytes, x, 1);
            type->decode(y, bytes, 1);
            for (int i = 0; i < 32; i++) {
                assert_true(y[i] == 0);
                x[i] = (qkv_real)(i % 2 ? 1e-41 : -2e-41);
            }
        }
    }
}

/* A refused tensor leaves no file. */
static void test_no_room(void **state)
{
    files *f = *state;
    qkv__gguf_fields fields;
    static const char *const types[] = {"q8_0", "q4_0", "f16"};
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/qkv-gguf-%ld", (long)getpid());
    qkv__gguf_fields_init(&fields, f->ctx);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const qkv__gguf_entry e = {.name = "blk.0.w", .type = qkv__gguf_type_named(types[i]),
                                   .ndim = 1, .shape = {64}, .fill = fill_large};
        assert_int_equal(qkv__gguf_save(f->ctx, path, &fields, &e, 1), QKV_E_UNSUPPORTED);
        assert_non_null(strstr(qkv_context_message(f->ctx), "tensor \"blk.0.w\""));
        assert_int_not_equal(access(path, F_OK), 0);
    }
    qkv__gguf_fields_free(&fields);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_golden, close_golden)
    const struct CMUnitTest tests[] = {
        TEST(test_fields),  TEST(test_arrays),  TEST(test_wrong_kinds),
        TEST(test_numbers), TEST(test_written), TEST(test_no_room),
        TEST(test_tiny),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
