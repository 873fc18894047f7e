/* contexts.c - programs linked with --wrap=qkv_context_create have every context on the CUDA
 * device, which refuses memory that the context's allocator would refuse. */
#include <stdio.h>
#include <stdlib.h>

#include "base/plugin.h"

qkv_status __wrap_qkv_context_create(qkv_context **out, const qkv_context_options *options);
qkv_status __real_qkv_context_create(qkv_context **out, const qkv_context_options *options);

static const qkv__device *device;
static qkv__device strict; /* the device, but for alloc */

/* The device asks the allocator for a small block beside its own memory; tests limit blocks. */
static void *strict_alloc(qkv_context *ctx, size_t bytes)
{
    void *as_much = qkv_malloc(ctx, bytes);
    if (!as_much)
        return NULL;
    qkv_free(ctx, as_much);
    return device->alloc(ctx, bytes);
}

static const qkv__device *find_device(void)
{
    qkv_context *ctx;
    if (device)
        return &strict;
    if (__real_qkv_context_create(&ctx, NULL))
        abort();
    device = qkv__device_named(ctx, "cuda");
    if (!device) {
        fprintf(stderr, "%s\n", qkv_context_message(ctx));
        exit(1);
    }
    qkv_context_destroy(ctx);
    strict = *device;
    strict.alloc = strict_alloc;
    return &strict;
}

qkv_status __wrap_qkv_context_create(qkv_context **out, const qkv_context_options *options)
{
    return options && options->meta ? __real_qkv_context_create(out, options)
                                    : qkv__context_create_on(out, options, find_device());
}
