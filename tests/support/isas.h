/* isas.h - the same checks with the plain C kernels, with AVX2 and with all that the machine has.
 * Who includes it defines run_all. */
#ifndef QKV_TESTS_ISAS_H
#define QKV_TESTS_ISAS_H

#include "qkv/base.h"

static void run_all(unsigned isa);

static inline void test_reference(void **state)
{
    (void)state;
    run_all(QKV_ISA_REFERENCE);
}

static inline void test_avx2(void **state)
{
    (void)state;
    run_all(QKV_ISA_AVX2);
}

static inline void test_all(void **state)
{
    (void)state;
    run_all(QKV_ISA_ALL);
}

#endif
