/* every_allocation.h - a piece of work in which each allocation fails in turn. */
#ifndef QKV_TESTS_EVERY_ALLOCATION_H
#define QKV_TESTS_EVERY_ALLOCATION_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "failing.h"

/* Runs the work with its n-th allocation failing, for every n: alone, and with all behind it. It
 * gives a positive number, the same one whenever it succeeds, and -1 after a failure. It leaves
 * nothing behind, has at most `most` allocations, and more than `least` of them make it fail. */
static inline void fail_every_allocation(double (*run)(failing *memory), size_t most, size_t least)
{
    for (int once = 0; once < 2; once++) {
        failing memory = {.left = SIZE_MAX};
        double expected = run(&memory);
        assert_true(expected > 0);
        assert_int_equal(memory.live, 0);
        size_t n = 0, failures = 0;
        for (bool done = false; !done; n++) {
            memory = (failing){.left = n, .once = once != 0};
            double result = run(&memory);
            assert_int_equal(memory.live, 0);
            done = result >= 0 && memory.left > 0 && memory.left < SIZE_MAX / 2;
            failures += result < 0;
            if (result >= 0)
                assert_true(result == expected);
            assert_true(n < most);
        }
        assert_true(failures > least);
    }
}

#endif
