/* test_file.c - files in, out, and replaced as a whole. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <signal.h>

#include "fixture.h"
#include "io/file.h"

static void a_whole_file_is_read_up_to_a_limit(void **state)
{
    (void)state;
    char *data;
    size_t size;
    const char *path = in(folder, "a");
    put_file(path, "hello", 5);
    assert_int_equal(qkv_file_read(ctx, path, 5, &data, &size), QKV_OK);
    assert_int_equal(size, 5);
    assert_string_equal(data, "hello");
    qkv_free(ctx, data);
    assert_int_equal(qkv_file_read(ctx, path, 4, &data, &size), QKV_E_FORMAT);
    assert_null(data);
    assert_non_null(strstr(qkv_context_message(ctx), "a: expected at most 4 bytes, found 5"));
    put_file(path, "", 0);
    assert_int_equal(qkv_file_read(ctx, path, 0, &data, &size), QKV_OK);
    assert_true(size == 0 && data[0] == 0);
    qkv_free(ctx, data);
}

static void what_cannot_be_read_is_named(void **state)
{
    (void)state;
    char *data;
    size_t size;
    qkv__map map;
    qkv_names names;
    assert_int_equal(qkv_file_read(ctx, in(folder, "no"), 0, &data, &size), QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), "/no: cannot be opened: No such file"));
    assert_int_equal(qkv_file_read(ctx, folder, 0, &data, &size), QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), "expected a file, found a folder"));
    assert_int_equal(qkv__map_open(&map, ctx, in(folder, "no")), QKV_E_IO);
    assert_int_equal(qkv__map_open(&map, ctx, folder), QKV_E_IO);
    qkv__map_close(&map);
    assert_int_equal(qkv_dir_list(&names, ctx, in(folder, "no")), QKV_E_IO);
    qkv_names_free(&names);
    assert_int_equal(qkv_file_read(ctx, "/dev/zero", 100000, &data, &size), QKV_E_FORMAT);
}

static void a_map_is_the_file(void **state)
{
    (void)state;
    qkv__map map;
    const char *path = in(folder, "a");
    put_file(path, "hello", 5);
    assert_int_equal(qkv__map_open(&map, ctx, path), QKV_OK);
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "hello", 5);
    qkv__map_close(&map);
    put_file(path, "", 0);
    assert_int_equal(qkv__map_open(&map, ctx, path), QKV_OK);
    assert_true(map.size == 0 && map.data);
    qkv__map_close(&map);
    qkv__map_close(&map);
}

static void check_text(const char *path, const char *text)
{
    size_t size;
    char *data = take_file(path, &size);
    assert_string_equal(data, text);
    free(data);
}

static void a_write_replaces_the_file_at_the_end(void **state)
{
    (void)state;
    qkv__writer *w;
    const char *path = in(folder, "a");
    assert_int_equal(qkv_file_write(ctx, path, "old", 3), QKV_OK);
    assert_int_equal(qkv__writer_open(&w, ctx, path), QKV_OK);
    assert_int_equal(qkv__writer_put(w, "ne", 2), QKV_OK);
    check_text(path, "old");
    assert_int_equal(qkv__writer_put(w, "w", 1), QKV_OK);
    assert_int_equal(qkv__writer_close(w), QKV_OK);
    check_text(path, "new");
    assert_int_equal(files_in(folder), 1);
    struct stat info;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
}

static void an_abandoned_or_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    static char block[1 << 16];
    qkv__writer *w;
    const char *path = in(folder, "a");
    assert_int_equal(qkv_file_write(ctx, path, "old", 3), QKV_OK);
    assert_int_equal(qkv__writer_open(&w, ctx, path), QKV_OK);
    assert_int_equal(qkv__writer_put(w, "new", 3), QKV_OK);
    qkv__writer_abandon(w);
    qkv__writer_abandon(NULL);
    check_text(path, "old");
    /* A disk that fills up: the largest file is 40,000 bytes from here on. */
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 40000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    qkv_status status = qkv_file_write(ctx, path, block, sizeof block);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), "/a: cannot be written: File too large"));
    check_text(path, "old");
    assert_int_equal(files_in(folder), 1);
}

static void what_cannot_be_written_is_named(void **state)
{
    (void)state;
    qkv__writer *w;
    assert_int_equal(qkv_file_write(ctx, in(folder, "no/a"), "x", 1), QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), "no/a: cannot be written: No such file"));
    assert_int_equal(qkv__writer_open(&w, ctx, folder), QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), "it is a folder"));
    assert_null(w);
    /* Two writers of one file. */
    const char *path = in(folder, "a");
    qkv__writer *second;
    assert_int_equal(qkv__writer_open(&w, ctx, path), QKV_OK);
    assert_int_equal(qkv__writer_open(&second, ctx, path), QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), "another process is writing it"));
    assert_int_equal(qkv__writer_close(w), QKV_OK);
    assert_int_equal(files_in(folder), 1);
}

static void what_a_killed_process_left_is_used_again(void **state)
{
    (void)state;
    put_file(in(folder, ".a.tmp"), "a longer rest of an earlier write", 33);
    assert_int_equal(qkv_file_write(ctx, in(folder, "a"), "new", 3), QKV_OK);
    check_text(in(folder, "a"), "new");
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(qkv_file_write(ctx, "/dev/null", "x", 1), QKV_OK);
    struct stat info;
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void folders_are_made_and_listed(void **state)
{
    (void)state;
    qkv_names names;
    assert_int_equal(qkv_dir_create(ctx, in(folder, "b/c//d")), QKV_OK);
    assert_int_equal(qkv_dir_create(ctx, in(folder, "b/c/d/")), QKV_OK);
    assert_true(qkv_dir_exists(in(folder, "b/c/d")));
    assert_false(qkv_file_exists(in(folder, "b/c/d")));
    put_file(in(folder, "b/z"), "", 0);
    put_file(in(folder, "b/a"), "", 0);
    assert_true(qkv_file_exists(in(folder, "b/z")));
    assert_false(qkv_dir_exists(in(folder, "b/z")));
    assert_int_equal(qkv_dir_list(&names, ctx, in(folder, "b")), QKV_OK);
    assert_int_equal(names.count, 3);
    assert_string_equal(names.names[0], "a");
    assert_string_equal(names.names[1], "c");
    assert_string_equal(names.names[2], "z");
    qkv_names_free(&names);
    assert_int_equal(qkv_dir_create(ctx, in(folder, "b/z/y")), QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), "b/z: the folder cannot be made"));
    assert_int_equal(qkv__file_remove(ctx, in(folder, "b/z")), QKV_OK);
    assert_int_equal(qkv__file_remove(ctx, in(folder, "b/z")), QKV_OK);
    assert_int_equal(qkv__file_remove(ctx, in(folder, "b")), QKV_E_IO);
}

static void paths_are_joined(void **state)
{
    (void)state;
    char *path = qkv_path_join(ctx, "a/b", "c");
    assert_string_equal(path, "a/b/c");
    assert_string_equal(qkv_path_name(path), "c");
    qkv_free(ctx, path);
    path = qkv_path_join(ctx, "/", "c");
    assert_string_equal(path, "/c");
    qkv_free(ctx, path);
    path = qkv_path_join(ctx, "", "c");
    assert_string_equal(path, "c");
    assert_string_equal(qkv_path_name(path), "c");
    qkv_free(ctx, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_whole_file_is_read_up_to_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_map_is_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_write_replaces_the_file_at_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_abandoned_or_failed_write_leaves_the_old_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_killed_process_left_is_used_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(folders_are_made_and_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paths_are_joined, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
