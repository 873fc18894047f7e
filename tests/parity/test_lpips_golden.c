/* test_lpips_golden.c - the perceptual distance and its gradient at the images, against LPIPS in
 * torch (recipe: tools/make-golden/lpips.py), from a directory in its names. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "qkv/perceptual.h"
#include "rule.h"

enum { SIDE = 16 };

static double number_at(const void *user, size_t e) { return (double)((const qkv_real *)user)[e]; }

static void run_all(unsigned isa)
{
    const qkv_perceptual_config c = {.channels = {3, {6, 8, 10}}, .convolutions = {3, {1, 2, 3}}};
    char folder[PATH_BYTES];
    fixture f;
    make_rule_directory(folder, qkv_perceptual_type(), &c);
    open_rule_model(&f, folder, "lpips", isa);
    qkv_tensor *x = qkv_require_grad(f.t, rule_images(&f, "pixels", SIDE));
    qkv_tensor *y = rule_images(&f, "others", SIDE);
    qkv_tensor *distance = qkv_perceptual_distance(f.model, f.t, x, y);
    compare_tensor(&f, "features", qkv_perceptual_features(f.model, f.t, x));
    compare_tensor(&f, "distance", distance);
    assert_int_equal(qkv_backward(f.t, distance), QKV_OK);
    const qkv_tensor *d = qkv_grad_of(f.t, x);
    assert_non_null(d);
    size_t n;
    qkv_real *row = take(&f, "gradients", &n);
    assert_int_equal(n, RULE_NUMBERS);
    compare_rule_numbers(&f, "pixels", row, qkv_count(x), 0, number_at, qkv_data(f.t, d));
    free(row);
    print_message("lpips: at worst %.3g of what is allowed\n", f.worst);
    close_fixture(&f);
    remove_folder(folder);
}

/* An image is like itself, and less and less like it the more it is changed. */
static void test_order(void **state)
{
    (void)state;
    const qkv_perceptual_config c = {.channels = {2, {6, 8}}, .convolutions = {2, {1, 1}}};
    const size_t shape[] = {2, SIDE, SIDE, 3};
    char folder[PATH_BYTES];
    fixture f;
    double last = 0;
    make_rule_directory(folder, qkv_perceptual_type(), &c);
    open_rule_model(&f, folder, "lpips", QKV_ISA_ALL);
    qkv_tape_mode(f.t, false, false);
    for (int i = 0; i < 5; i++) {
        qkv_tensor *x = rule_images(&f, "pixels", SIDE);
        qkv_tensor *y = qkv_tensor_from(f.t, qkv_data(f.t, x), 4, shape);
        for (size_t k = 0; k < qkv_count(y); k++)
            qkv_tensor_fill(y)[k] += (qkv_real)(0.1 * i) * noise("change", k);
        double d = (double)qkv_item(f.t, qkv_perceptual_distance(f.model, f.t, y, x));
        assert_true(i ? d > last : d == 0);
        last = d;
    }
    close_fixture(&f);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
