/* Token files: packing, files that are cut short or lie; the windows that training
 * reads and the order they come in. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "files.h"
#include "tokenizers.h"

#include "qkv/safetensors.h"
#include "qkv/tokens.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden"

static qkv_tokenizer *trained_chars(void)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    return trained(&o, lines);
}

static qkv_tokens *packed(qkv_tokenizer *tk, const char *path, const qkv_text_span *parts, size_t n)
{
    qkv_tokens *t;
    check(qkv_tokens_pack(&t, ctx, tk, parts, n, path, NULL, NULL));
    return t;
}

static void assert_holds(const qkv_tokens *t, const qkv_ids *ids)
{
    assert_int_equal(qkv_tokens_count(t), ids->count);
    int32_t *got = test_malloc(ids->count * sizeof *got);
    qkv_tokens_read(t, 0, ids->count, got);
    assert_memory_equal(got, ids->data, ids->count * sizeof *got);
    test_free(got);
}

static void test_packed_batches_text(void **state)
{
    (void)state;
    char folder[PATH_BYTES];
    make_folder(folder);
    qkv_tokenizer *kinds[] = {trained_chars(), trained_bpe()};
    for (int k = 0; k < 2; k++) {
        qkv_ids ids = {0};
        qkv_text_span part = {lines, strlen(lines), NULL, 0};
        check(qkv_tokenizer_encode(kinds[k], lines, part.len, 0, &ids));
        qkv_tokens *t = packed(kinds[k], in(folder, "t"), &part, 1), *m;
        assert_holds(t, &ids);
        assert_int_equal(qkv_tokens_bytes(t), part.len);
        int32_t max = 0;
        for (size_t i = 0; i < ids.count; i++)
            max = ids.data[i] > max ? ids.data[i] : max;
        assert_int_equal(qkv_tokens_max(t), max);
        check(qkv_tokens_pack(&m, ctx, kinds[k], &part, 1, NULL, NULL, NULL));
        assert_holds(m, &ids);
        assert_int_equal(qkv_tokens_bytes(m), part.len);
        qkv_tokens_close(m);
        qkv_tokens_close(t);
        qkv_ids_free(&ids, ctx);
        qkv_tokenizer_destroy(kinds[k]);
    }
    remove_folder(folder);
}

/* Parts are separated by the end-of-text token, in the file and in memory alike. */
static void test_packed_batches_parts(void **state)
{
    (void)state;
    char folder[PATH_BYTES];
    make_folder(folder);
    qkv_tokenizer *tk = trained_bpe();
    int32_t eos = qkv_tokenizer_special(tk, QKV_TOKEN_EOS);
    qkv_text_span parts[] = {{"the cat", 7, NULL, 0}, {"sat", 3, NULL, 0}};
    qkv_ids a = {0}, b = {0};
    check(qkv_tokenizer_encode(tk, "the cat", 7, 0, &a));
    check(qkv_tokenizer_encode(tk, "sat", 3, 0, &b));
    qkv_tokens *both[2];
    both[0] = packed(tk, in(folder, "t"), parts, 2);
    check(qkv_tokens_pack(&both[1], ctx, tk, parts, 2, NULL, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        int32_t id[16];
        size_t separators = eos >= 0;
        assert_int_equal(qkv_tokens_count(both[i]), a.count + b.count + separators);
        assert_int_equal(qkv_tokens_bytes(both[i]), 10);
        qkv_tokens_read(both[i], 0, qkv_tokens_count(both[i]), id);
        assert_memory_equal(id, a.data, a.count * sizeof *id);
        assert_memory_equal(id + a.count + separators, b.data, b.count * sizeof *id);
        if (separators)
            assert_int_equal(id[a.count], eos);
        qkv_tokens_close(both[i]);
    }
    qkv_ids_free(&a, ctx);
    qkv_ids_free(&b, ctx);
    qkv_tokenizer_destroy(tk);
    remove_folder(folder);
}

static bool stop_at_once(void *user, size_t done)
{
    *(size_t *)user = done;
    return false;
}

/* Text of several pieces gives the ids of the whole; a stop leaves no file. */
static void test_packed_batches_pieces(void **state)
{
    (void)state;
    char folder[PATH_BYTES];
    make_folder(folder);
    qkv_tokenizer *tk = trained_bpe();
    size_t len = strlen(lines), times = ((size_t)5 << 19) / len, done = 0;
    char *text = test_malloc(times * len);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * len, lines, len);
    qkv_text_span part = {text, times * len, NULL, 0};
    qkv_ids ids = {0};
    check(qkv_tokenizer_encode(tk, text, part.len, 0, &ids));
    qkv_tokens *t = packed(tk, in(folder, "t"), &part, 1);
    assert_holds(t, &ids);
    assert_int_equal(qkv_tokens_bytes(t), part.len);
    qkv_tokens_close(t);
    qkv_ids_free(&ids, ctx);
    unlink(in(folder, "t"));
    assert_int_equal(qkv_tokens_pack(&t, ctx, tk, &part, 1, in(folder, "t"), stop_at_once, &done),
                     QKV_E_CANCELLED);
    assert_null(t);
    assert_in_range(done, 1, part.len - 1);
    assert_int_equal(files_in(folder), 0);
    test_free(text);
    qkv_tokenizer_destroy(tk);
    remove_folder(folder);
}

static void refuse(const char *path)
{
    qkv_tokens *t = (void *)path;
    assert_int_equal(qkv_tokens_open(&t, ctx, path), QKV_E_FORMAT);
    assert_null(t);
    expect_message(path);
}

/* A safetensors file of one tensor of three numbers, with one value of metadata. */
static void put_tokens(const char *path, const char *name, qkv_store store, int ndim,
                       const char *key, const char *value)
{
    static const uint32_t ids[] = {1, 1u << 31, 2, 0, 0, 0};
    const size_t shape[] = {3, 1};
    const char *const metadata[] = {key, value, NULL};
    const qkv_safetensors_entry e = {.name = name, .ndim = ndim, .shape = shape, .store = store,
                                     .raw = ids};
    const qkv_safetensors_options o = {.metadata = metadata};
    check(qkv_safetensors_save(ctx, path, &e, 1, &o));
}

static void test_refuses_hostile_files(void **state)
{
    (void)state;
    static const char *const lengths[] = {"", "0", "-1", "+1", " 1", "1x", "0x1",
                                          "18446744073709551616"};
    char folder[PATH_BYTES];
    make_folder(folder);
    qkv_tokenizer *tk = trained_chars();
    qkv_text_span part = {"the cat sat", 11, NULL, 0};
    qkv_tokens_close(packed(tk, in(folder, "t"), &part, 1));
    size_t size;
    char *good = take_file(in(folder, "t"), &size);
    for (size_t n = 0; n < size; n++) {
        put_file(in(folder, "cut"), good, n);
        refuse(in(folder, "cut"));
    }
    const char *path = in(folder, "lie");
    put_tokens(path, "token", QKV_STORE_U16, 1, "bytes", "9");
    refuse(path);
    put_tokens(path, "tokens", QKV_STORE_U16, 2, "bytes", "9");
    refuse(path);
    put_tokens(path, "tokens", QKV_STORE_I64, 1, "bytes", "9");
    refuse(path);
    put_tokens(path, "tokens", QKV_STORE_F32, 1, "bytes", "9");
    refuse(path);
    put_tokens(path, "tokens", QKV_STORE_U16, 1, "byte", "9");
    refuse(path);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put_tokens(path, "tokens", QKV_STORE_U16, 1, "bytes", lengths[i]);
        refuse(path);
    }
    free(good);
    qkv_tokenizer_destroy(tk);
    remove_folder(folder);
}

/* A file that the reference library wrote, and one with an id that is none. */
static void test_format(void **state)
{
    (void)state;
    char folder[PATH_BYTES];
    int32_t ids[3];
    qkv_tokens *t;
    check(qkv_tokens_open(&t, ctx, GOLDEN "/io/tokens.safetensors"));
    assert_int_equal(qkv_tokens_count(t), 3);
    assert_int_equal(qkv_tokens_bytes(t), 9);
    assert_int_equal(qkv_tokens_max(t), 65535);
    qkv_tokens_read(t, 1, 2, ids);
    assert_int_equal(ids[0], 300);
    assert_int_equal(ids[1], 65535);
    qkv_tokens_close(t);
    make_folder(folder);
    put_tokens(in(folder, "t"), "tokens", QKV_STORE_I32, 1, "bytes", "9");
    check(qkv_tokens_open(&t, ctx, in(folder, "t")));
    assert_int_equal(qkv_tokens_max(t), INT32_MAX);
    qkv_tokens_close(t);
    remove_folder(folder);
}

/* Every epoch reads every window of its cut once; targets are the ids that follow. */
static void test_windows(void **state)
{
    (void)state;
    enum { N = 103, T = 7 };
    char text[N];
    for (size_t i = 0; i < N; i++)
        text[i] = (char)(' ' + i % 95);
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    text[N - 1] = 0;
    qkv_tokenizer *tk = trained(&o, text);
    qkv_text_span part = {text, N - 1, NULL, 0};
    qkv_tokens *t;
    check(qkv_tokens_pack(&t, ctx, tk, &part, 1, NULL, NULL, NULL));
    int32_t all[N], ids[T], next[T], again[T];
    qkv_tokens_read(t, 0, N - 1, all);
    size_t windows = qkv_tokens_windows(t, T), offsets[4];
    assert_int_equal(windows, (N - 2) / T - 1);
    for (size_t epoch = 0; epoch < 4; epoch++) {
        bool seen[N] = {false};
        for (size_t i = 0; i < windows; i++) {
            qkv_tokens_window(t, 5, epoch * windows + i, T, ids, next);
            qkv_tokens_window(t, 5, epoch * windows + i, T, again, next);
            assert_memory_equal(ids, again, sizeof ids);
            size_t from = 0; /* ids repeat after 95: the second place shows in what follows */
            while (from + T < N - 1 && (memcmp(all + from, ids, sizeof ids) != 0 || seen[from]))
                from++;
            assert_in_range(from, 0, N - 2 - T);
            assert_memory_equal(all + from + 1, next, sizeof next);
            seen[from] = true;
            if (i == 0)
                offsets[epoch] = from % T;
            assert_true(from % T == offsets[epoch] || from >= 95 || from < N - 95);
        }
    }
    assert_false(offsets[0] == offsets[1] && offsets[1] == offsets[2] && offsets[2] == offsets[3]);
    qkv_tokens_close(t);
    qkv_tokenizer_destroy(tk);
}

/* As little text as can be: one window, one place. */
static void test_one_window(void **state)
{
    (void)state;
    qkv_tokenizer *tk = trained_chars();
    qkv_text_span part = {"the c", 5, NULL, 0};
    qkv_tokens *t;
    check(qkv_tokens_pack(&t, ctx, tk, &part, 1, NULL, NULL, NULL));
    int32_t all[5], ids[4], next[4];
    qkv_tokens_read(t, 0, 5, all);
    for (uint64_t sample = 0; sample < 9; sample++) {
        qkv_tokens_window(t, sample, sample, 4, ids, next);
        assert_memory_equal(ids, all, sizeof ids);
        assert_memory_equal(next, all + 1, sizeof next);
    }
    qkv_tokens_close(t);
    qkv_tokenizer_destroy(tk);
}

static void test_shuffles(void **state)
{
    (void)state;
    enum { MOST = 1025 };
    static const uint64_t sizes[] = {1, 2, 3, 5, 16, 17, 100, 1024, MOST};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        bool seen[MOST] = {false};
        size_t moved = 0, other = 0;
        for (uint64_t i = 0; i < sizes[k]; i++) {
            uint64_t to = qkv_shuffled(i, sizes[k], 1);
            assert_in_range(to, 0, sizes[k] - 1);
            assert_false(seen[to]);
            seen[to] = true;
            moved += to != i;
            other += to != qkv_shuffled(i, sizes[k], 2);
        }
        assert_true(sizes[k] < 100 || (moved > sizes[k] * 9 / 10 && other > sizes[k] * 9 / 10));
    }
    for (uint64_t i = 0; i < 100; i++)
        assert_true(qkv_shuffled(i, UINT64_MAX, i) < UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_batches_text),
        cmocka_unit_test(test_packed_batches_parts),
        cmocka_unit_test(test_packed_batches_pieces),
        cmocka_unit_test(test_refuses_hostile_files),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_one_window),
        cmocka_unit_test(test_shuffles),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
