/* plugin.h - what a device's shared object and this library ask of each other.
 *
 * libqkv-cuda.so exports one function, qkv__device_open. It uses nothing of the library but the
 * functions that it is given here, so it serves the static and the shared library alike. */
#ifndef QKV_BASE_PLUGIN_H
#define QKV_BASE_PLUGIN_H

#include "base/device.h"

enum { QKV__PLUGIN_VERSION = 4, QKV__PLUGIN_WHY = 256 };

typedef struct {
    int version; /* QKV__PLUGIN_VERSION */
    qkv_status (*fail)(qkv_context *ctx, qkv_status status, const char *fmt, ...);
    void *(*arena_alloc)(qkv__arena *a, size_t bytes);
    qkv__mark (*arena_mark)(const qkv__arena *a);
    void (*arena_release)(qkv__arena *a, qkv__mark mark);
    /* Of each piece of the device's memory: claim when it is had, unclaim when it is given back. */
    void *(*claim)(qkv_context *ctx, size_t bytes);
    void (*unclaim)(qkv_context *ctx, void *claimed);
} qkv__plugin_host;

/* Counts that many bytes of a device's memory among the context's (qkv_context_memory), which takes
 * a small block of its allocator. qkv_free of what it returns takes them off again. NULL: the
 * allocator has no block, and the context says so. */
void *qkv__claim(qkv_context *ctx, size_t bytes);

/* The device with that number, counted from 0. NULL: why (QKV__PLUGIN_WHY) says in a sentence. host
 * outlives the device. */
typedef const qkv__device *qkv__device_open_fn(const qkv__plugin_host *host, int number, char *why);

/* The device that a name stands for: NULL, "" or "cpu", the processor; "cuda" or "cuda:N". NULL on
 * failure, and the context says why. What was opened stays open. */
const qkv__device *qkv__device_named(qkv_context *ctx, const char *name);

#endif
