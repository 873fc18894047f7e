/* file.c - reading and mapping files; folders. Writing is in file_write.c. */
#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens a file for reading, refusing folders. flags: more of open's. Returns -1 after recording
 * why. */
static int open_for_reading(qkv_context *ctx, const char *path, int flags, struct stat *info)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) {
        qkv_fail(ctx, QKV_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
        return -1;
    }
    if (fstat(fd, info) != 0) {
        qkv_fail(ctx, QKV_E_IO, "%s: cannot be read: %s", path, strerror(errno));
        close(fd);
        return -1;
    }
    if (S_ISDIR(info->st_mode)) {
        qkv_fail(ctx, QKV_E_IO, "%s: expected a file, found a folder", path);
        close(fd);
        return -1;
    }
    return fd;
}

/* Reads to the end of fd. The buffer grows, so that pipes and files that change work too. */
static qkv_status file_read_all(qkv_context *ctx, int fd, const char *path, size_t guess,
                                size_t limit, char **data, size_t *size)
{
    size_t capacity = guess + 1, used = 0;
    char *buffer = qkv_malloc(ctx, capacity);
    if (!buffer)
        return QKV_E_MEMORY;
    for (;;) {
        if (used + 1 >= capacity) {
            char *larger = qkv_realloc(ctx, buffer, capacity, capacity * 2 + 4096);
            if (!larger) {
                qkv_free(ctx, buffer);
                return QKV_E_MEMORY;
            }
            buffer = larger;
            capacity = capacity * 2 + 4096;
        }
        ssize_t got = read(fd, buffer + used, capacity - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            qkv_free(ctx, buffer);
            return qkv_fail(ctx, QKV_E_IO, "%s: cannot be read: %s", path, strerror(errno));
        }
        used += (size_t)got;
        if (limit && used > limit) {
            qkv_free(ctx, buffer);
            return qkv_fail(ctx, QKV_E_FORMAT, "%s: expected at most %zu bytes, found more",
                            path, limit);
        }
        if (got == 0)
            break;
    }
    buffer[used] = 0;
    *data = buffer;
    *size = used;
    return QKV_OK;
}

qkv_status qkv_file_read(qkv_context *ctx, const char *path, size_t limit, char **data,
                         size_t *size)
{
    struct stat info;
    *data = NULL;
    *size = 0;
    int fd = open_for_reading(ctx, path, 0, &info);
    if (fd < 0)
        return QKV_E_IO;
    size_t guess = S_ISREG(info.st_mode) ? (size_t)info.st_size : 0;
    qkv_status status;
    if (limit && guess > limit)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: expected at most %zu bytes, found %zu", path,
                          limit, guess);
    else /* one byte more than the file, so that its end is seen without growing */
        status = file_read_all(ctx, fd, path, guess + 1, limit, data, size);
    close(fd);
    return status;
}

/* What is behind fd, which is closed. */
static qkv_status map_all(qkv__map *m, qkv_context *ctx, const char *path, int fd,
                          const struct stat *info)
{
    qkv_status status = QKV_OK;
    if (S_ISREG(info->st_mode) && info->st_size > 0) {
        void *p = mmap(NULL, (size_t)info->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            status = qkv_fail(ctx, QKV_E_IO, "%s: cannot be mapped: %s", path, strerror(errno));
        } else {
            m->data = p;
            m->size = (size_t)info->st_size;
            m->mapped = true;
        }
    } else {
        char *data = NULL;
        status = file_read_all(ctx, fd, path, 1, 0, &data, &m->size);
        m->data = (uint8_t *)data;
    }
    close(fd);
    return status;
}

qkv_status qkv__map_open(qkv__map *m, qkv_context *ctx, const char *path)
{
    struct stat info;
    *m = (qkv__map){.ctx = ctx};
    int fd = open_for_reading(ctx, path, 0, &info);
    return fd < 0 ? QKV_E_IO : map_all(m, ctx, path, fd, &info);
}

qkv_status qkv__map_file(qkv__map *m, qkv_context *ctx, const char *path)
{
    struct stat info;
    *m = (qkv__map){.ctx = ctx};
    int fd = open_for_reading(ctx, path, O_NONBLOCK, &info); /* or a pipe makes us wait */
    if (fd < 0)
        return QKV_E_IO;
    if (S_ISREG(info.st_mode))
        return map_all(m, ctx, path, fd, &info);
    close(fd);
    return qkv_fail(ctx, QKV_E_IO, "%s: expected a file, found a pipe or a device", path);
}

void qkv__map_drop(const qkv__map *m, const void *from, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)from;
    uintptr_t map = (uintptr_t)m->data;
    if (!m->mapped || begin < map || bytes > m->size || begin - map > m->size - bytes)
        return;
    uintptr_t first = (begin + page - 1) / page * page, end = (begin + bytes) / page * page;
    if (first < end)
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

void qkv__map_close(qkv__map *m)
{
    if (m->mapped)
        munmap((void *)(uintptr_t)m->data, m->size);
    else if (m->data)
        qkv_free(m->ctx, (void *)(uintptr_t)m->data);
    *m = (qkv__map){0};
}

/* ---- folders ------------------------------------------------------------------------------ */

bool qkv_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

bool qkv_dir_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

qkv_status qkv__file_remove(qkv_context *ctx, const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return qkv_fail(ctx, QKV_E_IO, "%s: cannot be removed: %s", path, strerror(errno));
    return QKV_OK;
}

qkv_status qkv_dir_create(qkv_context *ctx, const char *path)
{
    char *part = qkv_strdup(ctx, path);
    if (!part)
        return QKV_E_MEMORY;
    qkv_status status = QKV_OK;
    for (char *p = part; !status; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char end = *p;
        *p = 0;
        if (*part && mkdir(part, 0777) != 0 && !qkv_dir_exists(part))
            status = qkv_fail(ctx, QKV_E_IO, "%s: the folder cannot be made: %s", part,
                              strerror(errno == EEXIST ? ENOTDIR : errno));
        *p = end;
        if (end == 0)
            break;
    }
    qkv_free(ctx, part);
    return status;
}

qkv_status qkv__dir_lock(int *lock, qkv_context *ctx, const char *path)
{
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return qkv_fail(ctx, QKV_E_IO, "%s: the folder cannot be opened: %s", path,
                        strerror(errno));
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0)
        return QKV_OK;
    bool taken = errno == EWOULDBLOCK;
    qkv__dir_unlock(*lock);
    *lock = -1;
    return taken ? qkv_fail(ctx, QKV_E_IO, "%s: another process is at work there", path) : QKV_OK;
}

void qkv__dir_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

qkv_status qkv__names_add(qkv_names *out, const char *name)
{
    if (!qkv__grow(out->ctx, &out->names, &out->capacity, out->count + 1, sizeof *out->names))
        return QKV_E_MEMORY;
    out->names[out->count] = qkv_strdup(out->ctx, name);
    if (!out->names[out->count])
        return QKV_E_MEMORY;
    out->count++;
    return QKV_OK;
}

qkv_status qkv_dir_list(qkv_names *out, qkv_context *ctx, const char *path)
{
    *out = (qkv_names){.ctx = ctx};
    DIR *dir = opendir(path);
    if (!dir)
        return qkv_fail(ctx, QKV_E_IO, "%s: the folder cannot be opened: %s", path,
                        strerror(errno));
    qkv_status status = QKV_OK;
    while (!status) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno)
                status = qkv_fail(ctx, QKV_E_IO, "%s: the folder cannot be read: %s", path,
                                  strerror(errno));
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = qkv__names_add(out, entry->d_name);
    }
    closedir(dir);
    if (status)
        qkv_names_free(out);
    else if (out->count)
        qsort(out->names, out->count, sizeof *out->names, compare_names);
    return status;
}

void qkv_names_free(qkv_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        qkv_free(names->ctx, names->names[i]);
    if (names->names)
        qkv_free(names->ctx, names->names);
    *names = (qkv_names){0};
}

qkv_path qkv_path_in(const char *dir, const char *name)
{
    qkv_path path;
    size_t n = strlen(dir);
    const char *slash = n && dir[n - 1] != '/' ? "/" : "";
    (void)snprintf(path.text, sizeof path.text, "%s%s%s", dir, slash, name);
    return path;
}

qkv_path qkv_path_beside(const char *file, const char *name)
{
    qkv_path path;
    (void)snprintf(path.text, sizeof path.text, "%.*s%s", (int)(qkv_path_name(file) - file), file,
                   name);
    return path;
}

char *qkv_path_join(qkv_context *ctx, const char *dir, const char *name)
{
    return qkv_strdup(ctx, qkv_path_in(dir, name).text);
}

const char *qkv_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
