/* test_hostile_packed.c - packed tensors whose shapes, types and sizes do not fit each other: a
 * sentence with the file and the tensor, and no more memory than the file's own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qkv/hub.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/quantized/tiny/"
#define LAYER "model.layers.0."
enum { FILE_BYTES = 1 << 14 };

static char bytes[FILE_BYTES];

static size_t read_golden(void)
{
    FILE *f = fopen(GOLDEN "model.safetensors", "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    assert_true(size > 0 && size < sizeof bytes);
    assert_int_equal(fclose(f), 0);
    return size;
}

/* In the header entry of the tensor, `from` becomes `to`, which is as long. */
static void change_header(size_t size, const char *tensor, const char *from, const char *to)
{
    char *end = bytes + size, *at = bytes + 8;
    assert_int_equal(strlen(from), strlen(to));
    while (at < end && strncmp(at, tensor, strlen(tensor)) != 0)
        at++;
    while (at < end && strncmp(at, from, strlen(from)) != 0)
        at++;
    assert_true(at < end);
    memcpy(at, to, strlen(to));
}

/* Loads a directory with these bytes as its tensors; the status, message in the context. */
static qkv_status load_bytes(qkv_context *ctx, size_t size)
{
    char dir[] = "/tmp/qkv-packed-XXXXXX", tensors[64], config[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(tensors, sizeof tensors, "%s/model.safetensors", dir);
    (void)snprintf(config, sizeof config, "%s/config.json", dir);
    FILE *f = fopen(tensors, "wb");
    assert_true(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
    assert_int_equal(symlink(GOLDEN "config.json", config), 0);
    qkv_model *m;
    qkv_status status = qkv_hub_load_stored(&m, ctx, dir, QKV_WEIGHTS_AUTO);
    if (status && !strstr(qkv_context_message(ctx), dir))
        fail_msg("no file in: %s", qkv_context_message(ctx));
    qkv_model_destroy(m);
    assert_int_equal(unlink(tensors) | unlink(config) | rmdir(dir), 0);
    return status;
}

/* Loading the bytes says the words, or succeeds if they are NULL, and leaves no memory in use. */
static void check_load(size_t size, const char *words)
{
    qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    qkv_status status = load_bytes(ctx, size);
    const char *said = status ? qkv_context_message(ctx) : "it was read";
    if (status != (words ? QKV_E_FORMAT : QKV_OK) || (words && !strstr(said, words)))
        fail_msg("expected \"%s\", found \"%s\"", words ? words : "it was read", said);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    assert_true(qkv_context_memory(ctx).peak_bytes < 8 << 20);
    qkv_context_destroy(ctx);
}

static void test_headers(void **state)
{
    (void)state;
    static const struct {
        const char *tensor, *from, *to, *words; /* NULL: it is fine */
    } cases[] = {
        {LAYER "mlp.up_proj.weight_packed", "[32,4]", "[32,4]", NULL},
        {LAYER "mlp.up_proj.weight_packed", "[32,4]", "[16,8]", "expected I32 (32, 8) of 8 bits"},
        {LAYER "mlp.up_proj.weight_packed", "[32,4]", "[64,2]", "or (32, 4) of 4"},
        {LAYER "mlp.up_proj.weight_packed", "[32,4]", "[4,32]", "expected I32"},
        {LAYER "mlp.up_proj.weight_packed", "I32", "F32", "the weights have"},
        {LAYER "mlp.up_proj.weight_packed", "[32,4]", "[128 ]", "expected I32"},
        {LAYER "mlp.up_proj.weight_scale", "[32,1]", "[1,32]", "that share 32 numbers evenly"},
        {LAYER "mlp.up_proj.weight_scale", "[32,1]", "[16,2]", "expected floats (32, groups)"},
        {LAYER "mlp.up_proj.weight_scale", "F32", "I32", "expected floats"},
        {LAYER "mlp.up_proj.weight_shape", "[2]", "[1]", "data_offsets"},
        {LAYER "mlp.up_proj.weight_shape", "I64", "F64", "integer"},
        {LAYER "mlp.up_proj.weight_packed", "up_proj", "xx_proj", "mlp.up_proj.weight"},
        {LAYER "mlp.up_proj.weight_shape", "up_proj", "xx_proj", "weight_scale and weight_shape"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = read_golden();
        change_header(size, cases[i].tensor, cases[i].from, cases[i].to);
        check_load(size, cases[i].words);
    }
}

/* The two integers of weight_shape, which are first among the data. */
static void test_shapes(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{33, 32}, {32, 31}, {-32, -32}, {0, 0},
                                        {INT64_MAX, INT64_MAX}, {1, 1024}, {INT64_MIN, 32}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint64_t header;
        size_t size = read_golden();
        memcpy(&header, bytes, sizeof header);
        assert_true(header < size);
        memcpy(bytes + sizeof header + header, shapes[i], sizeof shapes[i]);
        check_load(size, "expected (32, 32), found (");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
