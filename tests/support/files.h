/* files.h - a folder for a test's files, and whole files in and out. */
#ifndef QKV_TESTS_FILES_H
#define QKV_TESTS_FILES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

/* A fresh folder; removed again with remove_folder. */
static inline void make_folder(char path[PATH_BYTES])
{
    const char *base = getenv("TMPDIR");
    snprintf(path, PATH_BYTES, "%s/qkv-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

static inline void remove_folder(const char *path)
{
    char inside[PATH_BYTES + 300];
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (snprintf(inside, sizeof inside, "%s/%s", path, e->d_name) >= (int)sizeof inside)
            continue;
        struct stat info;
        if (lstat(inside, &info) == 0 && S_ISDIR(info.st_mode))
            remove_folder(inside);
        else
            unlink(inside);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static inline size_t files_in(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (dir)
        closedir(dir);
    return n;
}

/* "FOLDER/NAME" in a buffer that the eighth call after this one uses again. */
static inline const char *in(const char *folder, const char *name)
{
    static char buffers[8][2 * PATH_BYTES];
    static unsigned next;
    char *path = buffers[next++ % 8];
    snprintf(path, 2 * PATH_BYTES, "%s/%s", folder, name);
    return path;
}

/* A new file each time: some file systems flush one that is truncated and written again. */
static inline void put_file(const char *path, const void *data, size_t size)
{
    unlink(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* The caller frees. A byte 0 follows. */
static inline char *take_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, f), *size);
    data[*size] = 0;
    fclose(f);
    return data;
}

#endif
