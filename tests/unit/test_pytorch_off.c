/* test_pytorch_off.c - builds with QKV_PYTORCH=OFF refuse PyTorch's files in a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <qkv.h>

static void test_import(void **state)
{
    qkv_context *ctx;
    qkv_model *m;
    (void)state;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    const char *path = QKV_SOURCE_DIR "/tests/golden/pytorch/tensor.pth";
    assert_int_equal(qkv_hub_import(&m, ctx, path, NULL), QKV_E_UNSUPPORTED);
    assert_null(m);
    assert_non_null(strstr(qkv_context_message(ctx), "tensor.pth: this qkv was built without "
                                                     "files of PyTorch (QKV_PYTORCH=OFF)"));
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_import)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
