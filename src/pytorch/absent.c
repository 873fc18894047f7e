/* absent.c - a build with QKV_PYTORCH=OFF: this file is all of the folder, and every file of
 * PyTorch is refused. */
#include "pytorch/pytorch.h"

static qkv_status refuse(qkv_context *ctx, const char *path)
{
    return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: this qkv was built without files of PyTorch "
                    "(QKV_PYTORCH=OFF)", path);
}

qkv_status qkv__pytorch_open(qkv__pytorch **out, qkv_context *ctx, const char *path,
                             const qkv__pytorch_options *options)
{
    (void)options;
    *out = NULL;
    return refuse(ctx, path);
}

qkv_status qkv__pytorch_write(qkv_context *ctx, const char *path, const char *under,
                              const qkv_safetensors_entry *entries, size_t count)
{
    (void)under, (void)entries, (void)count;
    return refuse(ctx, path);
}

/* The others take an open file, of which there is none. */

void qkv__pytorch_close(qkv__pytorch *p) { (void)p; }
size_t qkv__pytorch_count(const qkv__pytorch *p) { return (void)p, 0; }
size_t qkv__pytorch_left_out(const qkv__pytorch *p) { return (void)p, 0; }

const qkv__pytorch_tensor *qkv__pytorch_at(const qkv__pytorch *p, size_t i)
{
    return (void)p, (void)i, NULL;
}

void qkv__pytorch_gather(const qkv__pytorch_tensor *t, size_t begin, size_t count, void *out)
{
    (void)t, (void)begin, (void)count, (void)out;
}

qkv_status qkv__pytorch_save(const qkv__pytorch *p, const char *path, qkv_store store,
                             size_t shard_bytes)
{
    return (void)p, (void)path, (void)store, (void)shard_bytes, QKV_E_UNSUPPORTED;
}

qkv_status qkv__pytorch_view(qkv_safetensors **out, const qkv__pytorch *p)
{
    return (void)p, *out = NULL, QKV_E_UNSUPPORTED;
}
