/* kernels_device.h - what programs that test a device's kernels are linked with beside its table of
 * them (tests/cuda/tables.c). */
#ifndef TEST_KERNELS_DEVICE_H
#define TEST_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* True while arrays change by kernels alone, so that copies of them may be kept. */
extern bool kernels_alone_write;
/* True: each kernel is waited for; else what it wrote is read by copies out of the device alone. */
extern bool kernels_wait;
void kernels_copy_in(void *to, const void *host, size_t bytes);
void kernels_copy_out(void *host, const void *from, size_t bytes);

#endif
