/* test_relative_golden.c - T5's buckets of relative positions against those of transformers
 * (recipe: tools/make-golden/t5.py). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "files.h"
#include "golden.h"
#include "qkv/nn.h"

enum { MOST = 400, OFFSETS = 2 * MOST + 1 };

static void test_buckets(void **state)
{
    (void)state;
    qkv_context *ctx;
    qkv_safetensors *golden;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&golden, ctx, QKV_SOURCE_DIR
                                          "/tests/golden/relative.safetensors"), QKV_OK);
    assert_int_equal(qkv_safetensors_count(golden), 10);
    for (size_t i = 0; i < qkv_safetensors_count(golden); i++) {
        const qkv_safetensor *s = qkv_safetensors_at(golden, i);
        qkv_relative_config c;
        char side[16];
        int64_t expected[OFFSETS];
        assert_int_equal(sscanf(s->name, "%zu-%zu.%15s", &c.buckets, &c.distance, side), 3);
        c.bidirectional = strcmp(side, "encoder") == 0;
        assert_int_equal(s->count, OFFSETS);
        assert_int_equal(qkv_safetensors_read_ints(golden, s, 0, OFFSETS, expected), QKV_OK);
        for (ptrdiff_t offset = -MOST; offset <= MOST; offset++) {
            size_t got = qkv_relative_bucket(&c, offset);
            if (got != (size_t)expected[offset + MOST])
                fail_msg("%s: bucket %zu of offset %td, %td expected", s->name, got, offset,
                         (ptrdiff_t)expected[offset + MOST]);
        }
    }
    qkv_safetensors_close(golden);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_buckets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
