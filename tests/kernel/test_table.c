/* test_table.c - which instruction sets fill each slot of the table of kernels: a slot that a set
 * fills holds another pointer than the set below. Attention, norms, activations, softmax with
 * cross-entropy and updates must exist in plain C and every vector set; gemm comes from a library
 * that chooses for itself. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "kernel/kernel.h"

/* Every function of C has pointers of one size here (POSIX); compared as bytes. */
typedef void any_fn(void);

static const struct {
    const char *name;
    size_t offset;
} slots[] = {
#define KERNEL(name, parameters, arguments) {#name, offsetof(qkv_kernels, name)},
#define KERNEL_SUM(name, parameters, arguments) {#name, offsetof(qkv_kernels, name)},
#include "kernel/slots.h"
};
/* These need no version of their own in every instruction set: a library's, memory moves where
 * plain C is as fast, and what takes too little of a step. */
static const char *const plain[] = {
    "gemm", "pack", "conv", "conv_bwd_data", "conv_bwd_weights", "max_pool", "max_pool_bwd",
    "mean_pool", "mean_pool_bwd", "scale_rows", "exp", "reciprocal", "copy", "move", "row_squares",
    "embed_small", "take_small", "widen", "kv_store", "kv_load", "xent_soft", "xent_pair", "loss",
    "loss_bwd", "lerp", "swap"};
enum { SLOTS = sizeof slots / sizeof *slots };

/* From the plain one up: each is filled over the one before it that the machine has. */
#define SET_ROW(name, bits) {name, bits},
static const struct {
    const char *name;
    unsigned isa;
} sets[] = {QKV_ISA_LIST(SET_ROW)};

static any_fn *slot(unsigned isa, size_t i)
{
    any_fn *fn;
    memcpy(&fn, (const char *)qkv__kernels(isa) + slots[i].offset, sizeof fn);
    return fn;
}

static bool may_be_plain(const char *name)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i], name) == 0)
            return true;
    return false;
}

static void test_reference_is_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < SLOTS; i++)
        if (!slot(QKV_ISA_REFERENCE, i))
            fail_msg("%s has no plain C version", slots[i].name);
}

/* A slot that is missing would only show where a prediction crashes. */
static void test_meta_is_complete(void **state)
{
    (void)state;
    qkv_context *ctx;
    qkv_context_options o = qkv_context_defaults();
    o.meta = true;
    assert_int_equal(qkv_context_create(&ctx, &o), QKV_OK);
    const char *table = (const char *)qkv__kernels_of(ctx, false);
    for (size_t i = 0; i < SLOTS; i++) {
        any_fn *fn;
        memcpy(&fn, table + slots[i].offset, sizeof fn);
        if (!fn)
            fail_msg("%s has no dry version", slots[i].name);
    }
    qkv_context_destroy(ctx);
}

/* Lists slot by slot who fills it; fails where one is missing that must not be. */
static void test_instruction_sets(void **state)
{
    (void)state;
    int missing = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        any_fn *plain_c = slot(QKV_ISA_REFERENCE, i), *below = plain_c;
        print_message("%-16s", slots[i].name);
        for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
            if (sets[s].isa & ~qkv__cpu_isa())
                continue;
            any_fn *fn = slot(sets[s].isa, i);
            bool own = sets[s].isa == QKV_ISA_REFERENCE || (fn != below && fn != plain_c);
            print_message(" %s", own ? sets[s].name : "");
            if (!own && !may_be_plain(slots[i].name)) {
                print_error("%s lacks a version in %s\n", slots[i].name, sets[s].name);
                missing++;
            }
            below = fn;
        }
        print_message("\n");
    }
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_is_complete),
        cmocka_unit_test(test_meta_is_complete),
        cmocka_unit_test(test_instruction_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
