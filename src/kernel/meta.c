/* meta.c - kernels that do nothing, for contexts that only want to know how much memory a step
 * takes. What an op reads back (sums, losses) is zero. */
#include <string.h>

#include "kernel/kernel.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define KERNEL(name, parameters, arguments) static void meta_##name parameters {}
#define KERNEL_SUM(name, parameters, arguments) static double meta_##name parameters { return 0; }
#include "kernel/slots.h"

/* These are ids: whoever takes them checks that they are rows of a table. */
static void meta_ids(const qkv_exec *e, int32_t *id, const qkv_real *products, const qkv_real *x2,
                     const qkv_real *code2, size_t N, size_t K)
{
    memset(id, 0, N * sizeof *id);
}

static void meta_sums(const qkv_exec *e, double *sums, const qkv_real *const *x, const size_t *n,
                      size_t count, bool squares)
{
    memset(sums, 0, count * sizeof *sums);
}

void qkv__kernels_meta(qkv_kernels *k)
{
    *k = (qkv_kernels){
#define KERNEL(name, parameters, arguments) .name = meta_##name,
#define KERNEL_SUM(name, parameters, arguments) .name = meta_##name,
#include "kernel/slots.h"
    };
    k->nearest = meta_ids;
    k->many_sums = meta_sums;
}
