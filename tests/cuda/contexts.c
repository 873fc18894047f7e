/* contexts.c - programs linked with --wrap=qkv_context_create have every context on the CUDA
 * device. */
#include <stdio.h>
#include <stdlib.h>

#include "base/plugin.h"

qkv_status __wrap_qkv_context_create(qkv_context **out, const qkv_context_options *options);
qkv_status __real_qkv_context_create(qkv_context **out, const qkv_context_options *options);

static const qkv__device *find_device(void)
{
    static const qkv__device *device;
    qkv_context *ctx;
    if (device)
        return device;
    if (__real_qkv_context_create(&ctx, NULL))
        abort();
    device = qkv__device_named(ctx, "cuda");
    if (!device) {
        fprintf(stderr, "%s\n", qkv_context_message(ctx));
        exit(1);
    }
    qkv_context_destroy(ctx);
    return device;
}

qkv_status __wrap_qkv_context_create(qkv_context **out, const qkv_context_options *options)
{
    return options && options->meta ? __real_qkv_context_create(out, options)
                                    : qkv__context_create_on(out, options, find_device());
}
