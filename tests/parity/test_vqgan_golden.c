/* test_vqgan_golden.c - VQGAN and its discriminator against a torch module of the same wiring: a
 * directory in taming-transformers' names, loaded here, gives the same vectors, codes, images,
 * loss and gradient of every tensor (recipe: tools/make-golden/vqgan.py). The parameters are
 * computed by a rule that both sides know, so only samples of the gradients are compared, and
 * products with a fixed vector. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "rule.h"
#include "tiny_vqgan.h"

static void make_directory(char folder[PATH_BYTES])
{
    const qkv_vqgan_config c = tiny_vqgan();
    make_rule_directory(folder, qkv_vqgan_type(), &c);
}

/* ---- comparing ----------------------------------------------------------------------------- */

static void compare_codes(fixture *f, const qkv_tensor *codes)
{
    int64_t expected[2 * SIDE * SIDE / 4];
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, "codes");
    assert_non_null(s);
    assert_non_null(qkv_data_ids(f->t, codes));
    assert_int_equal(s->count, qkv_count(codes));
    assert_int_equal(qkv_safetensors_read_ints(f->golden, s, 0, s->count, expected), QKV_OK);
    for (size_t i = 0; i < s->count; i++)
        assert_int_equal(qkv_data_ids(f->t, codes)[i], expected[i]);
}

/* mean (a - b)^2, where b does not move */
static qkv_tensor *distance(fixture *f, qkv_tensor *a, qkv_tensor *b)
{
    return qkv_mse_loss(f->t, a, qkv_detach(f->t, b));
}

static void train_step(const char *folder, unsigned isa)
{
    fixture f;
    open_rule_model(&f, folder, "vqgan", isa);
    qkv_tape *t = f.t;
    qkv_tape_mode(t, true, true);
    qkv_tensor *x = rule_images(&f, "pixels", SIDE), *z = qkv_vqgan_encode(f.model, t, x);
    qkv_tensor *codes = qkv_vqgan_codes(f.model, t, z);
    qkv_tensor *vectors = qkv_vqgan_vectors(f.model, t, codes);
    qkv_tensor *through = qkv_add(t, z, qkv_detach(t, qkv_sub(t, vectors, z)));
    qkv_tensor *y = qkv_vqgan_decode(f.model, t, through);
    qkv_tensor *quantiser = qkv_add(t, distance(&f, z, vectors),
                                    qkv_scale(t, distance(&f, vectors, z), 0.25));
    qkv_tensor *logits = qkv_vqgan_discriminate(f.model, t, x);
    qkv_tensor *evaluated = qkv_mean(t, qkv_vqgan_discriminate(f.model, t, y));
    qkv_tensor *loss = qkv_add(t, qkv_l1_loss(t, y, x), qkv_scale(t, quantiser, 2));
    loss = qkv_add(t, loss, qkv_scale(t, evaluated, -0.1));
    compare_tensor(&f, "z", z);
    compare_codes(&f, codes);
    compare_tensor(&f, "decoded", y);
    compare_tensor(&f, "logits", logits);
    compare_tensor(&f, "loss", loss);
    assert_int_equal(qkv_backward(t, loss), QKV_OK);
    compare_rule_gradients(&f, "gradients", idle);
    print_message("vqgan: at worst %.3g of what is allowed\n", f.worst);
    close_fixture(&f);
}

static void run_all(unsigned isa)
{
    char folder[PATH_BYTES];
    make_directory(folder);
    train_step(folder, isa);
    remove_folder(folder);
}

/* Without a tape every layer's memory is released as soon as the next one has it, and the same
 * comes out. */
static void test_inference(void **state)
{
    (void)state;
    char folder[PATH_BYTES];
    fixture f;
    make_directory(folder);
    open_rule_model(&f, folder, "vqgan", QKV_ISA_ALL);
    qkv_tape_mode(f.t, false, false);
    qkv_tensor *z = qkv_vqgan_encode(f.model, f.t, rule_images(&f, "pixels", SIDE));
    qkv_tensor *codes = qkv_vqgan_codes(f.model, f.t, z);
    compare_tensor(&f, "z", z);
    compare_codes(&f, codes);
    compare_tensor(&f, "decoded",
                   qkv_vqgan_decode(f.model, f.t, qkv_vqgan_vectors(f.model, f.t, codes)));
    close_fixture(&f);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_inference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
