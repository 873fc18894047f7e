/* kernels_device.h - what programs that test a device's kernels are linked with beside its table of
 * them (tests/cuda/tables.c). */
#ifndef TEST_KERNELS_DEVICE_H
#define TEST_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/kernel.h"

/* True while arrays change by kernels alone, so that copies of them may be kept. */
extern bool kernels_alone_write;
/* True: each kernel is waited for; else what it wrote is read by copies out of the device alone. */
extern bool kernels_wait;
/* Whether k is its table: others are the processor's, whose arrays no copies of these may be made
 * of. */
bool kernels_of_device(const qkv_kernels *k);
void kernels_copy_in(void *to, const void *host, size_t bytes);
void kernels_copy_out(void *host, const void *from, size_t bytes);

#endif
