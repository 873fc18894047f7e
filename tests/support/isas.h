/* isas.h - every set of kernels, for tests to try one after the other. Include after cmocka.h. */
#ifndef QKV_TESTS_ISAS_H
#define QKV_TESTS_ISAS_H

#include <stdlib.h>

#include "base/base.h"
#include "kernel/kernel.h"
#include "kernels_device.h"

/* Of programs that test a device's kernels: those alone have kernels_device.h's. */
#pragma weak kernels_alone_write
#pragma weak kernels_wait
#pragma weak kernels_of_device
#pragma weak kernels_copy_in
#pragma weak kernels_copy_out
static inline bool on_a_device(void) { return &kernels_alone_write != NULL; }
/* Whether k is the device's table, of which a program has one beside the processor's. */
static inline bool table_is_device(const qkv_kernels *k)
{
    return on_a_device() && kernels_of_device(k);
}

#define ISA_BITS(name, bits) bits,
static const unsigned isa_list[] = {QKV_ISA_LIST(ISA_BITS)};
enum { ISAS = sizeof isa_list / sizeof *isa_list };

static inline bool machine_has(unsigned isa) { return !(isa & ~qkv__cpu_isa()); }

/* An emulated card is slow, so its tests set QKV_TEST_WIDEST: they want no table but those of the
 * widest vectors, in f32 and in bf16, whose place the card's have taken. */
static inline bool widest_alone(void) { return getenv("QKV_TEST_WIDEST") != NULL; }

static inline bool table_wanted(unsigned table)
{
    const unsigned widest = qkv__cpu_isa() & (QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV_ISA_NEON);
    const unsigned others = QKV__BF16_AMX | QKV__BF16_LIBRARY;
    return !widest_alone() || ((table & widest) == widest && !(table & others));
}

/* Whether a table of this machine rounds operands to bf16. A device's does, whatever the processor
 * has. */
static inline bool table_rounds(unsigned table)
{
    if (table & QKV__BF16_AMX)
        return qkv__cpu_amx();
    return table & QKV__BF16_ANY && (qkv__cpu_bf16() || on_a_device());
}

/* Among the tests of a file that defines run_all(isa), ISA_TESTS calls it with every set; those
 * that this machine lacks are skipped. */
typedef struct {
    void (*run)(unsigned isa);
    unsigned isa;
} isa_check;

static inline void try_isa(void **state)
{
    const isa_check *check = *state;
    if (!machine_has(check->isa))
        skip();
    check->run(check->isa);
}

#define ISA_TEST(name, bits) {name, try_isa, NULL, NULL, &(isa_check){run_all, bits}},
#define ISA_TESTS QKV_ISA_LIST(ISA_TEST)

#endif
