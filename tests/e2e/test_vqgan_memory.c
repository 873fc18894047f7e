/* test_vqgan_memory.c - `qkv decode` makes an image of 256 x 256 pixels with the published f16
 * model within 1 GB, the whole process.
 *
 * The model's file is as long as it would be, but has nothing written in it after its header: a
 * file system gives zeros for that and keeps no blocks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "files.h"
#include "qkv/vqgan.h"

enum { CODES = 16, MOST_KB = 1000000000 / 1024, LEAST_KB = 300000 };
static const double PARAMETERS = 72141699; /* taming-transformers', without a discriminator */
static char folder[PATH_BYTES];

typedef struct {
    FILE *header;
    uint64_t end; /* of the tensors so far */
} writer;

static qkv_status put_row(void *user, const qkv_state_entry *row)
{
    writer *w = user;
    uint64_t count = 1;
    if (row->kind == QKV_STATE_IGNORED || row->kind == QKV_STATE_TIED)
        return QKV_OK;
    fprintf(w->header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", w->end ? "," : "{", row->name);
    for (int i = 0; i < row->ndim; i++) {
        fprintf(w->header, "%s%zu", i ? "," : "", row->shape[i]);
        count *= row->shape[i];
    }
    fprintf(w->header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)w->end,
            (unsigned long long)(w->end + 4 * count));
    w->end += 4 * count;
    return QKV_OK;
}

/* The header's length, its text, and zeros. */
static void put_weights(const char *path, qkv_model *m)
{
    char *text = NULL;
    size_t size = 0;
    writer w = {.header = open_memstream(&text, &size)};
    assert_non_null(w.header);
    assert_int_equal(qkv_model_visit(m, put_row, &w), QKV_OK);
    fprintf(w.header, "}");
    assert_int_equal(fclose(w.header), 0);
    assert_true((double)w.end == 4 * PARAMETERS);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)size >> 8 * i);
    assert_int_equal(fwrite(length, 1, sizeof length, f), sizeof length);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(path, (off_t)(sizeof length + size + w.end)), 0);
    free(text);
}

/* The published sizes are the defaults; no memory is taken for them here. */
static void make_directory(void)
{
    static const char config[] = "{\"model_type\": \"qkv_vqgan\", \"disc_num_layers\": 0}";
    qkv_context_options o = qkv_context_defaults();
    qkv_vqgan_config c;
    qkv_context *ctx;
    qkv_model *m;
    o.meta = true;
    qkv_option_defaults(qkv_model_type_config(qkv_vqgan_type()), &c);
    c.disc_layers = 0;
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_OK);
    assert_int_equal(qkv_model_create(&m, ctx, qkv_vqgan_type(), &c), QKV_OK);
    put_weights(in(folder, "model.safetensors"), m);
    put_file(in(folder, "config.json"), config, sizeof config - 1);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
}

static void put_codes(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < CODES * CODES; i++)
        fprintf(f, "%d%c", i * 4, i % CODES == CODES - 1 ? '\n' : ',');
    assert_int_equal(fclose(f), 0);
}

static void test_decode(void **state)
{
    (void)state;
    struct rusage used;
    struct stat file;
    int status;
    make_directory();
    put_codes(in(folder, "codes.csv"));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl(QKV_BINARY_DIR "/qkv", "qkv", "decode", folder, in(folder, "codes.csv"), "--out",
              in(folder, "image.png"), "--threads", "2", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(wait4(child, &status, 0, &used), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(stat(in(folder, "image.png"), &file), 0);
    print_message("%ld kB\n", used.ru_maxrss);
    assert_in_range(used.ru_maxrss, LEAST_KB, MOST_KB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decode)};
    make_folder(folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(folder);
    return failed;
}
