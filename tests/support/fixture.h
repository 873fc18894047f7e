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

#endif
