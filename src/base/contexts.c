/* contexts.c - contexts on the device that their options name. */
#include "base/plugin.h"

qkv_status qkv_context_create(qkv_context **out, const qkv_context_options *options)
{
    qkv_status status = qkv__context_create_on(out, options, options && options->meta ? &qkv__meta
                                                                                      : &qkv__cpu);
    if (status || options == NULL || !options->device)
        return status;
    status = qkv_context_configure(*out, options);
    if (status) {
        qkv_context_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv_context_configure(qkv_context *ctx, const qkv_context_options *options)
{
    const qkv__device *device = qkv__context_device(ctx);
    if (options->device && !qkv__context_meta(ctx))
        device = qkv__device_named(ctx, options->device);
    return device ? qkv__context_move(ctx, options, device) : qkv_context_status(ctx);
}

qkv_status qkv_context_wait(qkv_context *ctx)
{
    return qkv__context_device(ctx)->sync(ctx);
}
