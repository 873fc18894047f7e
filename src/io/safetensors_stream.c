/* safetensors_stream.c - safetensors files of tensors that are named and counted while they are
 * written: the header's room is left free at the start and filled at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/convert.h"
#include "io/json.h"
#include "io/safetensors_header.h"

enum { CHUNK = 16384, ROOM = 1 << 19 }; /* numbers converted at a time; bytes of the header */

struct qkv_safetensors_stream {
    qkv_context *ctx;
    qkv__writer *file;
    char *path;
    qkv_store store;
    qkv_json_writer header;
    qkv_names names;
    size_t put, named; /* numbers; those that entries cover */
    unsigned char *stored;
};

static qkv_status leave_room(qkv_safetensors_stream *s)
{
    char *room = qkv_calloc(s->ctx, 1, ROOM);
    qkv_status status = room ? qkv__writer_put(s->file, room, ROOM) : QKV_E_MEMORY;
    qkv_free(s->ctx, room);
    return status;
}

qkv_status qkv_safetensors_stream_open(qkv_safetensors_stream **out, qkv_context *ctx,
                                       const char *path, qkv_store store)
{
    qkv_safetensors_stream *s = qkv_calloc(ctx, 1, sizeof *s);
    *out = NULL;
    if (!s)
        return QKV_E_MEMORY;
    s->ctx = ctx;
    s->store = store;
    s->names.ctx = ctx;
    qkv_json_writer_init(&s->header, ctx, -1);
    qkv_json_begin_object(&s->header, NULL);
    qkv_json_begin_object(&s->header, "__metadata__");
    qkv_json_put_string(&s->header, "format", "pt");
    qkv_json_end_object(&s->header);
    s->path = qkv_strdup(ctx, path);
    s->stored = qkv_malloc(ctx, CHUNK * 8);
    qkv_status status = s->path && s->stored ? QKV_OK : QKV_E_MEMORY;
    if (!status && store != QKV_STORE_F32 && store != QKV_STORE_F16 && store != QKV_STORE_BF16)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: F32, F16 or BF16 expected, found %s", path,
                          qkv_store_name(store));
    if (!status)
        status = qkv__writer_open(&s->file, ctx, path);
    if (!status)
        status = leave_room(s);
    if (status)
        qkv_safetensors_stream_abandon(s);
    else
        *out = s;
    return status;
}

qkv_status qkv_safetensors_stream_put(qkv_safetensors_stream *s, const qkv_real *x, size_t n)
{
    qkv_status status = QKV_OK;
    s->put += n;
    if (s->store == QKV_STORE_F32 && sizeof *x == 4)
        return qkv__writer_put(s->file, x, n * sizeof *x);
    for (size_t at = 0; at < n && !status; at += CHUNK) {
        size_t count = n - at < CHUNK ? n - at : CHUNK;
        qkv__store_write(s->stored, x + at, s->store, count);
        status = qkv__writer_put(s->file, s->stored, count * qkv_store_bytes(s->store));
    }
    return status;
}

qkv_status qkv_safetensors_stream_entry(qkv_safetensors_stream *s, const char *name, int ndim,
                                        const size_t *shape)
{
    size_t count, bytes = qkv_store_bytes(s->store);
    if (!qkv__file_shape_count(ndim, shape, &count) || count > s->put - s->named)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: tensor \"%s\": fewer numbers were put than "
                        "its shape has", s->path, name);
    for (size_t i = 0; i < s->names.count; i++)
        if (strcmp(s->names.names[i], name) == 0)
            return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: two tensors are named \"%s\"", s->path,
                            name);
    qkv_status status = qkv__names_add(&s->names, name);
    if (status)
        return status;
    qkv_json_begin_object(&s->header, name);
    qkv_json_put_string(&s->header, "dtype", qkv_store_name(s->store));
    qkv_json_put_sizes(&s->header, "shape", shape, (size_t)ndim);
    qkv_json_put_sizes(&s->header, "data_offsets",
                       (size_t[]){s->named * bytes, (s->named + count) * bytes}, 2);
    qkv_json_end_object(&s->header);
    s->named += count;
    if (s->header.text.len > ROOM - 64)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: the header of %zu tensors does not fit into "
                        "%d bytes", s->path, s->names.count, ROOM);
    return QKV_OK;
}

static qkv_status put_streamed_header(qkv_safetensors_stream *s)
{
    qkv_str out;
    const uint64_t length = ROOM - sizeof length;
    qkv_json_end_object(&s->header);
    if (!qkv_json_writer_text(&s->header))
        return QKV_E_MEMORY;
    qkv_str_init(&out, s->ctx);
    qkv_str_add(&out, (const char *)&length, sizeof length);
    qkv_str_add(&out, s->header.text.data, s->header.text.len);
    while (!out.failed && out.len < ROOM)
        qkv_str_puts(&out, " ");
    qkv_status status = out.failed ? QKV_E_MEMORY : qkv__writer_rewind(s->file);
    if (!status)
        status = qkv__writer_put(s->file, out.data, out.len);
    qkv_str_free(&out);
    return status;
}

static void safetensors_stream_free(qkv_safetensors_stream *s)
{
    qkv_json_writer_free(&s->header);
    qkv_names_free(&s->names);
    qkv_free(s->ctx, s->path);
    qkv_free(s->ctx, s->stored);
    qkv_free(s->ctx, s);
}

qkv_status qkv_safetensors_stream_close(qkv_safetensors_stream *s)
{
    qkv_status status = QKV_OK;
    if (s->put != s->named)
        status = qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: %zu numbers belong to no tensor", s->path,
                          s->put - s->named);
    if (!status)
        status = put_streamed_header(s);
    if (status) {
        qkv_safetensors_stream_abandon(s);
        return status;
    }
    status = qkv__writer_close(s->file);
    safetensors_stream_free(s);
    return status;
}

void qkv_safetensors_stream_abandon(qkv_safetensors_stream *s)
{
    if (!s)
        return;
    qkv__writer_abandon(s->file);
    safetensors_stream_free(s);
}
