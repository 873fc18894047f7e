/* test_defaults.c - defaults set all of a struct, whatever lay there before. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "qkv/codes.h"
#include "qkv/colorize.h"
#include "qkv/model.h"
#include "qkv/segment.h"
#include "qkv/train.h"

static void check(const char *what, const qkv_option_table *table, size_t bytes)
{
    unsigned char *low = malloc(bytes), *high = malloc(bytes);
    assert_true(low && high);
    memset(low, 0x55, bytes);
    memset(high, 0xaa, bytes);
    qkv_option_defaults(table, low);
    qkv_option_defaults(table, high);
    for (size_t i = 0; i < bytes; i++)
        if (low[i] != high[i])
            fail_msg("%s: byte %zu of %zu keeps what lay there", what, i, bytes);
    free(low);
    free(high);
}

static void test_options(void **state)
{
    (void)state;
    check("train", qkv_train_table(), sizeof(qkv_train_options));
    check("optimizer", qkv_optimizer_table(), sizeof(qkv_optimizer_options));
    check("schedule", qkv_schedule_table(), sizeof(qkv_schedule));
    check("augment", qkv_augment_table(), sizeof(qkv_augment_options));
    check("codes", qkv_codes_table(), sizeof(qkv_codes_options));
    check("colorize", qkv_colorize_table(), sizeof(qkv_colorize_options));
    check("segment", qkv_segment_table(), sizeof(qkv_segment_options));
}

static void test_models(void **state)
{
    (void)state;
    const qkv_model_type *type;
    size_t i = 0;
    for (; (type = qkv_model_type_at(NULL, i)); i++)
        check(qkv_model_type_name(type), qkv_model_type_config(type),
              qkv_model_type_config_size(type));
    assert_true(i > 10);
}

/* A table of a part leaves the rest alone. */
static void test_part(void **state)
{
    (void)state;
    qkv_augment_options o = {.crop_scale = 0.5};
    qkv_option_defaults(qkv_mix_table(), &o);
    assert_true(o.crop_scale == 0.5 && o.mix == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
