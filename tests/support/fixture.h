/* fixture.h - a context and a fresh folder for each test, and that what it takes it gives back. */
#ifndef QKV_TESTS_FIXTURE_H
#define QKV_TESTS_FIXTURE_H

#include "each.h"
#include "failing.h"
#include "files.h"

static qkv_context *ctx;
static failing memory; /* of ctx; memory.left = n: the allocation after the next n fails, once */
static char folder[PATH_BYTES];

static inline int set_up(void **state)
{
    (void)state;
    memory = (failing){.left = SIZE_MAX, .once = true};
    const qkv_context_options o = failing_options(&memory);
    make_folder(folder);
    return qkv_context_create(&ctx, &o);
}

static inline int tear_down(void **state)
{
    (void)state;
    remove_folder(folder);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
    assert_int_equal(memory.live, 0);
    return 0;
}

/* Work with ctx; it frees what it made, whatever its status. */
typedef qkv_status work_fn(void *user);

/* Repeats the work, the allocation after n others failing, until none fails; n grows by
 * 1 + n / sparse. The work's status is QKV_E_MEMORY, or QKV_OK where it does without what it asked
 * for; in the end it is QKV_OK. */
static inline void expect_memory_told(work_fn *work, void *user, size_t sparse)
{
    size_t failures = 0;
    for (size_t n = 0;; n += 1 + n / sparse) {
        memory.left = n;
        qkv_status status = work(user);
        bool failed = memory.left == SIZE_MAX;
        memory.left = SIZE_MAX;
        if (status && !(failed && status == QKV_E_MEMORY))
            fail_msg("allocation %zu: %s", n, qkv_context_message(ctx));
        if (!failed)
            break;
        failures++;
    }
    assert_true(failures > 20);
}

#endif
