/* file_write.c - atomic writing: temporary, write, fsync, rename, fsync of the folder; and adding
 * to the end of a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

struct qkv__writer {
    qkv_context *ctx;
    int fd;
    bool direct;       /* a device or a pipe: no temporary */
    qkv_status status; /* of the first failure */
    char *path;
    char *temporary; /* ".NAME.tmp" in the same folder */
};

static qkv_status file_write_fail(qkv__writer *w, const char *what, int error)
{
    w->status = qkv_fail(w->ctx, QKV_E_IO, "%s: %s: %s", w->path, what, strerror(error));
    return w->status;
}

static char *temporary_name(qkv_context *ctx, const char *path)
{
    qkv_str s;
    qkv_str_init(&s, ctx);
    const char *name = qkv_path_name(path);
    qkv_str_add(&s, path, (size_t)(name - path));
    qkv_str_printf(&s, ".%s.tmp", name);
    if (s.failed) {
        qkv_str_free(&s);
        return NULL;
    }
    char *copy = qkv_strdup(ctx, s.data);
    qkv_str_free(&s);
    return copy;
}

/* Opens and locks the temporary. The name is fixed, so that what a killed process left is
 * used again; the lock keeps a second writer out; and a temporary that was renamed between
 * open and lock is not ours: try again. */
static qkv_status open_temporary(qkv__writer *w)
{
    for (;;) {
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (w->fd < 0)
            return file_write_fail(w, "cannot be written", errno);
        if (flock(w->fd, LOCK_EX | LOCK_NB) != 0) {
            int error = errno;
            close(w->fd);
            w->fd = -1;
            if (error == EINTR)
                continue;
            return file_write_fail(w, "cannot be written, another process is writing it", error);
        }
        struct stat opened, named;
        if (fstat(w->fd, &opened) == 0 && lstat(w->temporary, &named) == 0 &&
            opened.st_ino == named.st_ino && opened.st_dev == named.st_dev)
            break;
        close(w->fd);
        w->fd = -1;
    }
    if (ftruncate(w->fd, 0) != 0)
        return file_write_fail(w, "cannot be written", errno);
    return QKV_OK;
}

static qkv_status open_target(qkv__writer *w)
{
    struct stat info;
    bool exists = stat(w->path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
        w->status = qkv_fail(w->ctx, QKV_E_IO, "%s: cannot be written: it is a folder", w->path);
        return w->status;
    }
    w->direct = exists && !S_ISREG(info.st_mode);
    if (!w->direct)
        return open_temporary(w);
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
    return w->fd < 0 ? file_write_fail(w, "cannot be written", errno) : QKV_OK;
}

/* The folder's entry is on disk too. Some file systems refuse to sync a folder: no matter. */
static void sync_folder(const char *path, char *scratch)
{
    size_t length = (size_t)(qkv_path_name(path) - path);
    memcpy(scratch, path, length);
    strcpy(scratch + length, length ? "" : ".");
    int fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static void file_write_destroy(qkv__writer *w)
{
    qkv_context *ctx = w->ctx;
    if (w->fd >= 0)
        close(w->fd);
    if (w->temporary)
        qkv_free(ctx, w->temporary);
    if (w->path)
        qkv_free(ctx, w->path);
    qkv_free(ctx, w);
}

qkv_status qkv__writer_open(qkv__writer **out, qkv_context *ctx, const char *path)
{
    *out = NULL;
    qkv__writer *w = qkv_malloc(ctx, sizeof *w);
    if (!w)
        return QKV_E_MEMORY;
    *w = (qkv__writer){.ctx = ctx, .fd = -1};
    w->path = qkv_strdup(ctx, path);
    w->temporary = w->path ? temporary_name(ctx, path) : NULL;
    qkv_status status = w->temporary ? open_target(w) : QKV_E_MEMORY;
    if (status) {
        if (w->fd >= 0)
            unlink(w->temporary);
        file_write_destroy(w);
        return status;
    }
    *out = w;
    return QKV_OK;
}

qkv_status qkv__writer_put(qkv__writer *w, const void *data, size_t size)
{
    const char *p = data;
    while (!w->status && size > 0) {
        size_t piece = size < ((size_t)1 << 30) ? size : (size_t)1 << 30;
        ssize_t done = write(w->fd, p, piece);
        if (done < 0) {
            if (errno != EINTR)
                file_write_fail(w, "cannot be written", errno);
            continue;
        }
        p += done;
        size -= (size_t)done;
    }
    return w->status;
}

qkv_status qkv__writer_rewind(qkv__writer *w)
{
    if (!w->status && lseek(w->fd, 0, SEEK_SET) < 0)
        file_write_fail(w, "cannot be written", errno);
    return w->status;
}

qkv_status qkv__writer_close(qkv__writer *w)
{
    if (!w->direct) {
        if (!w->status && fsync(w->fd) != 0)
            file_write_fail(w, "cannot be written", errno);
        if (!w->status && rename(w->temporary, w->path) != 0)
            file_write_fail(w, "cannot be replaced", errno);
        if (w->status)
            unlink(w->temporary);
        else /* the temporary's name is not needed any more: its memory is */
            sync_folder(w->path, w->temporary);
    }
    qkv_status status = w->status;
    file_write_destroy(w);
    return status;
}

void qkv__writer_abandon(qkv__writer *w)
{
    if (!w)
        return;
    if (!w->direct)
        unlink(w->temporary);
    file_write_destroy(w);
}

qkv_status qkv_file_write(qkv_context *ctx, const char *path, const void *data, size_t size)
{
    qkv__writer *w;
    qkv_status status = qkv__writer_open(&w, ctx, path);
    if (status)
        return status;
    qkv__writer_put(w, data, size);
    return qkv__writer_close(w);
}

/* ---- logs --------------------------------------------------------------------------------- */

qkv_status qkv__file_append(qkv_context *ctx, const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    const char *p = data;
    int error = fd < 0 || end < 0 ? errno : 0;
    while (!error && size > 0) {
        ssize_t done = write(fd, p, size);
        error = done < 0 && errno != EINTR ? errno : 0;
        p += done > 0 ? done : 0;
        size -= done > 0 ? (size_t)done : 0;
    }
    if (error && end >= 0 && ftruncate(fd, end) != 0)
        error = errno;
    if (fd >= 0 && close(fd) != 0 && !error)
        error = errno;
    return error ? qkv_fail(ctx, QKV_E_IO, "%s: cannot be appended to: %s", path, strerror(error))
                 : QKV_OK;
}

qkv_status qkv__file_cut(qkv_context *ctx, const char *path, size_t size)
{
    if (truncate(path, (off_t)size) != 0)
        return qkv_fail(ctx, QKV_E_IO, "%s: cannot be cut: %s", path, strerror(errno));
    return QKV_OK;
}
