/* tables.c - programs linked with --wrap=qkv__kernels get the CUDA device's kernels, each of which
 * waits until it is done, in place of those of the processor's widest vectors; of bf16 products in
 * place of the processor's own. The tests give kernels the host's memory: a card reads it if the
 * system lets it, and the emulator always. */
#include <stdio.h>
#include <stdlib.h>

#include "base/plugin.h"
#include "kernel/kernel.h"
#include "kernels_device.h"

static qkv_context *context;
static const qkv__device *device;

/* AMX's bits are not the device's. */
bool __wrap_qkv__cpu_amx(void);
bool __wrap_qkv__cpu_amx(void) { return false; }

bool kernels_alone_write;

bool kernels_wait = true;

void kernels_copy_in(void *to, const void *host, size_t bytes)
{
    device->copy_in(to, host, bytes);
}

void kernels_copy_out(void *host, const void *from, size_t bytes)
{
    device->copy_out(host, from, bytes);
}

static void wait(const char *kernel)
{
    if (!kernels_wait)
        return;
    if (!kernels_alone_write) /* the device is told that something wrote */
        device->fill(NULL, 0, 0);
    if (!device->sync(context))
        return;
    fprintf(stderr, "%s: %s\n", kernel, qkv_context_message(context));
    abort();
}

#define WAIT(which, name, parameters, arguments)                                                 \
    static void which##_##name parameters                                                        \
    {                                                                                            \
        device->kernels(which)->name arguments;                                                  \
        wait(#name);                                                                             \
    }
#define WAIT_SUM(which, name, parameters, arguments)                                             \
    static double which##_##name parameters                                                      \
    {                                                                                            \
        double sum = device->kernels(which)->name arguments;                                     \
        wait(#name);                                                                             \
        return sum;                                                                              \
    }
enum { f32 = 0, rounds = QKV__BF16 };
#define KERNEL(name, parameters, arguments) WAIT(f32, name, parameters, arguments)
#define KERNEL_SUM(name, parameters, arguments) WAIT_SUM(f32, name, parameters, arguments)
#include "kernel/slots.h"
#define KERNEL(name, parameters, arguments) WAIT(rounds, name, parameters, arguments)
#define KERNEL_SUM(name, parameters, arguments) WAIT_SUM(rounds, name, parameters, arguments)
#include "kernel/slots.h"

static const qkv_kernels tables[] = {
    {
#define KERNEL(name, parameters, arguments) .name = f32_##name,
#define KERNEL_SUM(name, parameters, arguments) .name = f32_##name,
#include "kernel/slots.h"
    },
    {
#define KERNEL(name, parameters, arguments) .name = rounds_##name,
#define KERNEL_SUM(name, parameters, arguments) .name = rounds_##name,
#include "kernel/slots.h"
    }};

bool kernels_of_device(const qkv_kernels *k)
{
    return k == &tables[0] || k == &tables[1];
}

const qkv_kernels *__real_qkv__kernels(unsigned isa);
const qkv_kernels *__wrap_qkv__kernels(unsigned isa);

const qkv_kernels *__wrap_qkv__kernels(unsigned isa)
{
    const unsigned widest = qkv__cpu_isa() & (QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV_ISA_NEON);
    const unsigned others = QKV__BF16_AMX | QKV__BF16_LIBRARY;
    if ((isa & widest) != widest || isa & others || !widest)
        return __real_qkv__kernels(isa);
    if (!device) {
        if (qkv_context_create(&context, NULL))
            abort();
        device = qkv__device_named(context, "cuda");
        if (!device) {
            fprintf(stderr, "%s\n", qkv_context_message(context));
            exit(1);
        }
    }
    return &tables[(isa & QKV__BF16) != 0];
}
