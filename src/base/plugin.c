/* plugin.c - devices by name; those that are shared objects are opened when one is asked for. */
#include "base/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const qkv__plugin_host host = {QKV__PLUGIN_VERSION, qkv_fail, qkv__arena_alloc,
                                      qkv__arena_mark, qkv__arena_release, qkv__claim, qkv_free};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const qkv__device *opened; /* a process has one device beside the processor */
static int opened_number;

static const qkv__device *open_plugin(qkv_context *ctx, int number)
{
    const char *named = getenv("QKV_CUDA"), *name = named && *named ? named : "libqkv-cuda.so";
    char why[QKV__PLUGIN_WHY] = "";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        qkv_fail(ctx, QKV_E_UNSUPPORTED, "device cuda: %s does not open: is qkv built with CUDA? "
                 "(%s)", name, dlerror());
        return NULL;
    }
    qkv__device_open_fn *open_device;
    void *symbol = dlsym(library, "qkv__device_open");
    memcpy(&open_device, &symbol, sizeof open_device); /* C has no cast between the two */
    const qkv__device *device = open_device ? open_device(&host, number, why) : NULL;
    if (!device) {
        qkv_fail(ctx, QKV_E_UNSUPPORTED, "device cuda:%d: %s", number,
                 open_device ? why : "the shared object is not of this version of qkv");
        dlclose(library);
    }
    return device;
}

static bool parse_number(const char *name, int *number)
{
    *number = 0;
    if (strcmp(name, "cuda") == 0)
        return true;
    if (strncmp(name, "cuda:", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    char *end;
    long n = strtol(name + 5, &end, 10);
    *number = n < 1024 ? (int)n : 1024;
    return *end == '\0';
}

const qkv__device *qkv__device_named(qkv_context *ctx, const char *name)
{
    int number;
    if (!name || !*name || strcmp(name, "cpu") == 0)
        return &qkv__cpu;
    if (!parse_number(name, &number)) {
        qkv_fail(ctx, QKV_E_ARGUMENT, "device: cpu, cuda or cuda:N expected, found %s", name);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    const qkv__device *device = NULL;
    if (!opened) {
        device = opened = open_plugin(ctx, number);
        opened_number = number;
    } else if (number == opened_number) {
        device = opened;
    } else {
        qkv_fail(ctx, QKV_E_UNSUPPORTED, "device cuda:%d: this process uses cuda:%d already",
                 number, opened_number);
    }
    pthread_mutex_unlock(&lock);
    return device;
}
