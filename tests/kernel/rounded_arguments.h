/* rounded_arguments.h - arguments of kernels that lie in bf16 (qkv_exec), and what the plain
 * kernels in f32 make of the same numbers. Inputs are rounded before, so that what is off is of the
 * kernels: results in bf16 are off by one rounding; on a card, whose libraries round what they add
 * to a result, by two there. */
#ifndef TESTS_KERNEL_ROUNDED_ARGUMENTS_H
#define TESTS_KERNEL_ROUNDED_ARGUMENTS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

static const qkv_kernels *plain;
static const double rounding = 0.5 / 128; /* of bf16, relative */

/* Numbers of a kernel's argument, as f32 and, if it lies in bf16, as that. */
typedef struct {
    float *wide;
    uint16_t *bits; /* NULL: in f32; within an array with guards */
    size_t n;
    float *was; /* what a kernel adds to, in bf16; else NULL */
} argument;

static uint16_t bits_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

static float number_of(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

static uint16_t *room(size_t n)
{
    return (uint16_t *)(void *)poisoned((n + 1) / 2 + 4);
}

/* Random numbers that bf16 has; those are what a product rounds others to. */
static argument input(size_t n, bool rounded)
{
    argument a = {randoms(n), rounded ? room(n) : NULL, n, NULL};
    for (size_t i = 0; i < n; i++) {
        a.wide[i] = number_of(bits_of(a.wide[i]));
        if (rounded)
            a.bits[i] = bits_of(a.wide[i]);
    }
    return a;
}

/* What holds the answer that is wanted, and what the kernel writes. */
static argument answer(size_t n, bool rounded, bool acc)
{
    if (!acc)
        return (argument){poisoned(n), rounded ? room(n) : NULL, n, NULL};
    argument a = input(n, rounded);
    a.was = rounded ? copied(a.wide, n) : NULL;
    return a;
}

static float *given(const argument *a)
{
    return a->bits ? (float *)(void *)a->bits : copied(a->wide, a->n);
}

/* got: what given gave to the kernel. */
static void compare(const char *what, const argument *want, const float *got, double tolerance,
                    double scale)
{
    for (size_t i = 0; i < want->n; i++) {
        const float x = want->bits ? number_of(want->bits[i]) : got[i];
        const double wanted = (double)want->wide[i];
        const bool twice = want->was && !widest_alone(); /* that is the emulator's setting */
        const double added = twice ? fabs(wanted - (double)want->was[i]) : 0;
        const double rounds = want->bits ? rounding * (fabs(wanted) + added) : 0;
        const double near = rounds + tolerance * scale;
        if (!(fabs((double)x - wanted) <= near))
            fail_msg("%s: %s[%zu] is %.9g, not %.9g", kt.name, what, i, (double)x, wanted);
    }
}

static qkv_exec exec_of(const kernel_case *c, unsigned bits)
{
    qkv_exec e = c->e;
    e.bf16 = bits;
    return e;
}

/* ---- the device's table ---- */

static void try_device(void **state)
{
    const unsigned widest = qkv__cpu_isa() & (QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV_ISA_NEON);
    if (!on_a_device() || !widest)
        skip();
    plain = qkv__kernels(QKV_ISA_REFERENCE);
    const kernel_case c = {"bf16", qkv__kernels(widest | QKV__BF16), kt.e};
    const kernel_check *check = *state;
    kt.name = c.name;
    qkv_rng_init(&kt.rng, 7, 11);
    check->fn(&c);
    assert_int_equal(qkv__arena_used(kt.e.scratch), 0);
}

#define DEVICE_CHECK(f) {#f, try_device, NULL, NULL, &(kernel_check){f}}

#endif
