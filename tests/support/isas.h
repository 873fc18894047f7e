/* isas.h - every set of kernels, for tests to try one after the other. Include after cmocka.h. */
#ifndef QKV_TESTS_ISAS_H
#define QKV_TESTS_ISAS_H

#include "base/base.h"

#define ISA_BITS(name, bits) bits,
static const unsigned isa_list[] = {QKV_ISA_LIST(ISA_BITS)};
enum { ISAS = sizeof isa_list / sizeof *isa_list };

static inline bool machine_has(unsigned isa) { return !(isa & ~qkv__cpu_isa()); }

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
