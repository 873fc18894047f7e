/* test_machine.c - the measured limits are there, and nothing stays allocated. How fast the
 * machine is, is not tested. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "failing.h"
#include "qkv/machine.h"
#include "qkv/tensor.h"

static void test_limits(void **state)
{
    (void)state;
    qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_true(strlen(qkv_machine_cpu()) > 0);
    assert_true(!qkv_machine_card(ctx) || strlen(qkv_machine_card(ctx)) > 0);
    assert_int_equal(qkv_context_wait(ctx), QKV_OK);
    assert_true(qkv_machine_peak_flops(ctx, 1) > 1e8);
    for (int w = QKV_WEIGHTS_AUTO; w <= QKV_WEIGHTS_INT4; w++)
        assert_true(qkv_weights_peak_flops(ctx, (qkv_weights)w, 1) > 1e7);
    assert_true(qkv_machine_read_bandwidth(ctx) > 1e8);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    assert_true(qkv_machine_peak_flops(ctx, 0) == 0);
    assert_int_equal(qkv_context_status(ctx), QKV_E_ARGUMENT);
    qkv_context_destroy(ctx);
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_true(qkv_weights_peak_flops(ctx, (qkv_weights)(QKV_WEIGHTS_INT4 + 1), 1) == 0);
    assert_int_equal(qkv_context_status(ctx), QKV_E_ARGUMENT);
    qkv_context_destroy(ctx);
}

static void test_no_memory(void **state)
{
    (void)state;
    qkv_context *ctx;
    failing memory = {.left = SIZE_MAX, .largest = 1u << 18};
    const qkv_context_options options = failing_options(&memory);
    assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
    assert_true(qkv_machine_peak_flops(ctx, 1) == 0);
    assert_int_equal(qkv_context_status(ctx), QKV_E_MEMORY);
    assert_true(qkv_weights_peak_flops(ctx, QKV_WEIGHTS_INT8, 1) == 0);
    if (!qkv_machine_card(ctx)) /* nothing of the host's is needed for a card's */
        assert_true(qkv_machine_read_bandwidth(ctx) == 0);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
