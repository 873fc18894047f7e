/* test_hostile_files.c - files that lie, stop early or are something else: every reader answers
 * with a status and one sentence that names the file, and frees what it took. Meant to be run
 * with -DQKV_SANITIZE=address,undefined too. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "readers.h"

#define GOLDEN(name) QKV_SOURCE_DIR "/tests/golden/io/" name
#define PYTORCH(name) QKV_SOURCE_DIR "/tests/golden/pytorch/" name

/* ---- readers and good files for them ---------------------------------------------------- */

typedef struct {
    const char *name; /* of the file that the reader is given */
    qkv_status (*read)(qkv_context *ctx, const char *path);
    const char *golden; /* a file, or NULL and */
    const char *text;   /* its content */
    bool whole;         /* no proper prefix is a valid file */
} reader;

static const reader readers[] = {
    {"a.safetensors", read_safetensors, GOLDEN("types.safetensors"), NULL, true},
    {"a.npy", read_array, GOLDEN("f4.npy"), NULL, true},
    {"b.npy", read_array, GOLDEN("fortran.npy"), NULL, true},
#if QKV_PYTORCH
    {"a.pth", read_pytorch, PYTORCH("tensor.pth"), NULL, true},
    {"b.pth", read_pytorch, PYTORCH("newer-legacy.pth"), NULL, true},
#endif
    {"a.csv", read_array, NULL, sample_csv, false},
    {"b.csv", read_columns, NULL, sample_csv, false},
    {"config.json", read_config, NULL, sample_config, true},
};
static const size_t reader_count = sizeof readers / sizeof *readers;

static char *good_bytes(const reader *r, size_t *size)
{
    if (r->golden)
        return take_file(r->golden, size);
    *size = strlen(r->text);
    char *copy = malloc(*size + 1);
    assert_non_null(copy);
    memcpy(copy, r->text, *size + 1);
    return copy;
}

/* The file's name is in the sentence, and nothing stays allocated. */
static qkv_status check(const reader *r, const char *path)
{
    qkv_status status = r->read(ctx, path);
    const char *message = qkv_context_message(ctx);
    if (status && !strstr(message, path))
        fail_msg("%s: message without the file's name: %s", path, message);
    if (status && strchr(message, '\n'))
        fail_msg("%s: more than one line: %s", path, message);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    return status;
}

static void good_files_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < reader_count; i++) {
        size_t size;
        char *bytes = good_bytes(&readers[i], &size);
        const char *path = in(folder, readers[i].name);
        put_file(path, bytes, size);
        if (check(&readers[i], path))
            fail_msg("%s", qkv_context_message(ctx));
        free(bytes);
    }
}

static void files_cut_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < reader_count; i++) {
        size_t size;
        char *bytes = good_bytes(&readers[i], &size);
        const char *path = in(folder, readers[i].name);
        for (size_t cut = 0; cut < size; cut++) {
            put_file(path, bytes, cut);
            qkv_status status = check(&readers[i], path);
            if (readers[i].whole && !status)
                fail_msg("%s of %zu bytes was taken", readers[i].name, cut);
        }
        free(bytes);
    }
}

static void files_with_every_byte_changed(void **state)
{
    (void)state;
    static const unsigned char values[] = {0, 0x7f, 0xff, '"', '{', '9'};
    for (size_t i = 0; i < reader_count; i++) {
        size_t size;
        char *bytes = good_bytes(&readers[i], &size);
        const char *path = in(folder, readers[i].name);
        for (size_t at = 0; at < size; at++) {
            char old = bytes[at];
            for (size_t k = 0; k < sizeof values; k++) {
                memcpy(bytes + at, &values[k], 1);
                put_file(path, bytes, size);
                (void)check(&readers[i], path);
            }
            bytes[at] = old;
        }
        free(bytes);
    }
}

static void what_is_no_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < reader_count; i++) {
        const char *folder_path = in(folder, "is-a-folder");
        mkdir(folder_path, 0777);
        assert_int_equal(check(&readers[i], in(folder, "missing")), QKV_E_IO);
        assert_int_equal(check(&readers[i], folder_path), QKV_E_IO);
        const char *path = in(folder, "empty");
        put_file(path, "", 0);
        assert_int_equal(check(&readers[i], path), QKV_E_FORMAT);
    }
}

/* The n-th allocation fails, for n = 1, 2, .. until none does. */
static void out_of_memory_at_every_allocation(void **state)
{
    (void)state;
    for (size_t i = 0; i < reader_count; i++) {
        size_t size, n = 0;
        char *bytes = good_bytes(&readers[i], &size);
        const char *path = in(folder, readers[i].name);
        put_file(path, bytes, size);
        free(bytes);
        qkv_status status;
        do {
            memory.left = n++;
            status = readers[i].read(ctx, path);
            memory.left = SIZE_MAX;
            assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
            if (status)
                assert_int_equal(status, QKV_E_MEMORY);
            assert_true(n < 2000);
        } while (status);
        assert_true(n > 1); /* it allocated at all */
    }
}

/* ---- safetensors that lie --------------------------------------------------------------- */

/* A file of that header and n zero bytes. */
static const char *lying_file(const char *header, uint64_t length, size_t n)
{
    static char bytes[4096];
    const char *path = in(folder, "lie.safetensors");
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, strlen(header));
    memset(bytes + 8 + strlen(header), 0, n);
    put_file(path, bytes, 8 + strlen(header) + n);
    return path;
}

static void safetensors_that_lie(void **state)
{
    (void)state;
#define F32(shape, offsets) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
    static const struct {
        const char *header;
        size_t bytes;
        const char *says;
    } cases[] = {
        {"{\"a\":" F32("[1]", "[0,4]") "}", 5, "expected 4 bytes of tensors"},
        {"{\"a\":" F32("[1]", "[0,4]") "}", 3, "expected 4 bytes of tensors"},
        {"{\"a\":" F32("[2]", "[0,4]") "}", 4, "expected 8 bytes for F32 of shape (2), found 4"},
        {"{\"a\":" F32("[1]", "[4,8]") "}", 8, "expected the begin 0, found 4"},
        {"{\"a\":" F32("[1]", "[0,4]") ",\"b\":" F32("[1]", "[0,4]") "}", 4, "the begin 4"},
        {"{\"a\":" F32("[2]", "[0,8]") ",\"b\":" F32("[1]", "[4,8]") "}", 8, "the begin 8"},
        {"{\"a\":" F32("[1]", "[0,4]") ",\"b\":" F32("[1]", "[8,12]") "}", 12, "the begin 4"},
        {"{\"a\":" F32("[1]", "[4,0]") "}", 4, "expected the end at or behind 4, found 0"},
        {"{\"a\":" F32("[1]", "[-4,0]") "}", 4, "found -4"},
        {"{\"a\":" F32("[-1]", "[0,4]") "}", 4, "found -1"},
        {"{\"a\":" F32("[1.0]", "[0,4]") "}", 4, "expected an integer, found a number"},
        {"{\"a\":" F32("[9223372036854775807,9223372036854775807]", "[0,4]") "}", 4, "too large"},
        {"{\"a\":" F32("[4611686018427387904]", "[0,0]") "}", 0, "too large"},
        {"{\"a\":" F32("[4294967296,4294967296,0]", "[0,0]") "}", 0, "too large"},
        {"{\"a\":" F32("[1]", "[0,99999999999999999999]") "}", 4, "expected an integer"},
        {"{\"a\":" F32("[1]", "[0,9223372036854775807]") "}", 4, "expected 4 bytes for F32"},
        {"{\"a\":" F32("[1]", "[0]") "}", 4, "expected 2 numbers, found 1"},
        {"{\"a\":" F32("1", "[0,4]") "}", 4, "expected an array, found an integer"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "found \"F33\""},
        {"{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "expected a string"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "found nothing"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "whole number"},
        {"{\"a\":[1]}", 4, "expected an object, found an array"},
        {"{\"a\":" F32("[1]", "[0,4]") ",\"a\":" F32("[1]", "[4,8]") "}", 8, "duplicate"},
        {"{\"__metadata__\":{\"x\":1}}", 0, "expected a string"},
        {"{\"__metadata__\":[]}", 0, "expected an object"},
        {" {}", 0, "begins with {"},
        {"[]", 0, "begins with {"},
        {"{\"a\xff\":1}", 0, "not JSON"},
        {"{", 0, "not JSON"},
        {"", 0, "begins with {"},
    };
#undef F32
    const reader *r = &readers[0];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = lying_file(cases[i].header, strlen(cases[i].header), cases[i].bytes);
        assert_int_equal(check(r, path), QKV_E_FORMAT);
        if (!strstr(qkv_context_message(ctx), cases[i].says))
            fail_msg("%s", qkv_context_message(ctx));
    }
    static const uint64_t lengths[] = {3, 100000000, 100000001, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        assert_int_equal(check(r, lying_file("{}", lengths[i], 0)), QKV_E_FORMAT);
    assert_int_equal(check(r, lying_file("{}", 2, 0)), QKV_OK);
}

static void an_index_that_leads_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"weight_map\": {\"a\": \"../a.safetensors\"}}", "expected a plain file name"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "expected a plain file name"},
        {"{\"weight_map\": {\"a\": \"\"}}", "expected a plain file name"},
        {"{\"weight_map\": {\"a\": \"..\"}}", "expected a plain file name"},
        {"{\"weight_map\": {\"a\": 3}}", "expected a string, found an integer"},
        {"{\"weight_map\": {\"a\": \"missing.safetensors\"}}", "missing.safetensors: cannot"},
        {"{\"weight_map\": {\"q\": \"ok.safetensors\"}}", "expected the tensor in ok.safetensors"},
        {"{\"weight_map\": {\"f16\": \"ok.safetensors\", \"f64\": \"ok2.safetensors\"}}", "is in"},
        {"{\"weight_map\": []}", "expected an object, found an array"},
        {"{}", "expected an object, found nothing"},
    };
    size_t size;
    char *bytes = take_file(GOLDEN("types.safetensors"), &size);
    put_file(in(folder, "ok.safetensors"), bytes, size);
    put_file(in(folder, "ok2.safetensors"), bytes, size);
    free(bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = in(folder, "model.safetensors.index.json");
        put_file(path, cases[i].text, strlen(cases[i].text));
        assert_int_not_equal(read_safetensors(ctx, path), QKV_OK);
        if (!strstr(qkv_context_message(ctx), cases[i].says))
            fail_msg("%s", qkv_context_message(ctx));
        assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_are_read),
        cmocka_unit_test(files_cut_at_every_byte),
        cmocka_unit_test(files_with_every_byte_changed),
        cmocka_unit_test(what_is_no_file),
        cmocka_unit_test(out_of_memory_at_every_allocation),
        cmocka_unit_test(safetensors_that_lie),
        cmocka_unit_test(an_index_that_leads_elsewhere),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
