/* test_classify_images.c - choosing a class for an image: the parts of an update add up to the
 * whole, evaluations evaluate what they are asked to, probabilities are what the loss says, and
 * what does not fit the model is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "drawn.h"
#include "qkv/pixelwise.h"
#include "qkv/classify_images.h"

enum { SIDE = 8, CLASSES = 3, COUNT = 12 };

static uint8_t waves(size_t image, size_t k)
{
    return (uint8_t)((k * k + 37 * k * image) % 251);
}

static qkv_model *made_model(const qkv_model_type *type)
{
    static const qkv_image_format format = {SIDE, SIDE, 1, false, 2, {0.5}, {0.25}, 0};
    qkv_vit_config c;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    assert_true(qkv_model_type_preset(type, "nano", &c));
    c.trunk.image = SIDE;
    c.trunk.patch = 4;
    c.trunk.channels = 1;
    c.classes = CLASSES;
    qkv_model *m = made(type, &c);
    qkv_model_set_image_format(m, &format);
    return m;
}

static void parts_of(const qkv_model_type *type)
{
    qkv_model *m = made_model(type);
    qkv_pixels *p = drawn(COUNT, SIDE, 1, CLASSES, waves);
    qkv_task task;
    double seconds = 0;
    qkv_classify_images_options o = {.smoothing = 0.1, .augment = {.flip = true, .crop_pad = 1,
                                                                   .mixup = 0.8, .mix = 1}};
    assert_int_equal(qkv_task_classify_images(&task, m, p, NULL, &o, 5), QKV_OK);
    assert_false(task.held_out);
    expect_parts(&task);
    part_loss(&task, 0, 8, &seconds);
    assert_true(seconds > 0);
    qkv_task_destroy(&task);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

static void test_parts(void **state)
{
    (void)state;
    parts_of(qkv_vit_type());
    parts_of(qkv_cct_type());
}

static void test_evaluating(void **state)
{
    (void)state;
    qkv_model *m = made_model(qkv_vit_type());
    qkv_pixels *p = drawn(COUNT, SIDE, 1, CLASSES, waves);
    qkv_classify_images_score s;
    size_t numbers[COUNT], right = 0;
    qkv_real probs[COUNT * CLASSES];
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = i;
    assert_int_equal(qkv_classify_images(m, tape, p, numbers, COUNT, probs), QKV_OK);
    for (size_t i = 0; i < COUNT; i++) {
        const qkv_real *q = probs + i * CLASSES;
        size_t best = 0, class_ = i % CLASSES;
        for (size_t k = 1; k < CLASSES; k++)
            best = q[k] > q[best] ? k : best;
        right += best == class_;
        sum -= log((double)q[class_]);
        assert_true(fabs((double)(q[0] + q[1] + q[2]) - 1) < 1e-5);
    }
    assert_int_equal(qkv_classify_images_evaluate(m, tape, p, 0, &s), QKV_OK);
    assert_int_equal(s.images, COUNT);
    assert_true(fabs(s.accuracy - (double)right / COUNT) < 1e-9);
    assert_true(fabs(s.loss - sum / COUNT) < 1e-4);
    assert_int_equal(qkv_classify_images_evaluate(m, tape, p, 5, &s), QKV_OK);
    assert_int_equal(s.images, 5);
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

static void test_copy(void **state)
{
    (void)state;
    qkv_model *m = made_model(qkv_vit_type()), *other = made_model(qkv_vit_type());
    assert_int_equal(qkv_model_init(other, 4), QKV_OK);
    assert_int_equal(qkv_model_copy(other, m), 4 + 2 * 16 + 2 + 2);
    for (size_t i = 0; i < qkv_params_count(qkv_model_params(m)); i++) {
        qkv_param *a = qkv_params_at(qkv_model_params(m), i);
        qkv_param *b = qkv_params_at(qkv_model_params(other), i);
        assert_memory_equal(qkv_param_data(a), qkv_param_data(b),
                            qkv_param_count(a) * sizeof(qkv_real));
    }
    qkv_model_destroy(m);
    qkv_model_destroy(other);
}

/* A segmenter has the weights of a ViT's blocks, and of DeiT's, under its own names. Its places are
 * theirs without the rows of tokens that are no patches. */
static void test_copy_to_segmenter(void **state)
{
    (void)state;
    const qkv_model_type *const types[] = {qkv_vit_type(), qkv_deit_type()};
    const char *const names[] = {"layer.1.ff.up.weight", "positions"};
    enum { EMBEDDINGS = 3, BLOCK = 16, BLOCKS = 2, NORM = 2 };
    for (size_t k = 0; k < 4; k++) {
        size_t type = k / 2, name = k % 2;
        qkv_model *m = made_model(types[type]);
        qkv_pixelwise_config c;
        qkv_option_defaults(qkv_model_type_config(qkv_segmenter_type()), &c);
        c.trunk = ((const qkv_vit_config *)qkv_model_config(m))->trunk;
        qkv_model *segmenter = made(qkv_segmenter_type(), &c);
        assert_int_equal(qkv_model_copy(segmenter, m), EMBEDDINGS + BLOCKS * BLOCK + NORM);
        qkv_param *from = qkv_params_find(qkv_model_params(m), names[name]);
        qkv_param *to = qkv_params_find(qkv_model_params(segmenter), names[name]);
        size_t leads = qkv_param_count(from) - qkv_param_count(to);
        assert_int_equal(leads, name * (type + 1) * c.trunk.width);
        assert_memory_equal(qkv_param_data(from) + leads, qkv_param_data(to),
                            qkv_param_count(to) * sizeof(qkv_real));
        qkv_model_destroy(m);
        qkv_model_destroy(segmenter);
    }
}

/* A model of larger images has the places of the smaller one, spread: what is alike everywhere
 * stays so, and the first token's row comes as it is. */
static void test_copy_larger(void **state)
{
    (void)state;
    qkv_model *m = made_model(qkv_vit_type());
    qkv_vit_config c = *(const qkv_vit_config *)qkv_model_config(m);
    c.trunk.image = 3 * SIDE;
    qkv_model *large = made(qkv_vit_type(), &c);
    qkv_param *from = qkv_params_find(qkv_model_params(m), "positions");
    qkv_param *to = qkv_params_find(qkv_model_params(large), "positions");
    size_t width = c.trunk.width;
    for (size_t i = 0; i < qkv_param_count(from); i++)
        qkv_param_data(from)[i] = (qkv_real)(i < width ? 9 + i : i % width);
    assert_int_equal(qkv_param_count(to), (1 + 9 * (qkv_param_count(from) / width - 1)) * width);
    assert_int_equal(qkv_model_copy(large, m), 4 + 2 * 16 + 2 + 2);
    for (size_t i = 0; i < qkv_param_count(to); i++) {
        double expected = (double)(i < width ? 9 + i : i % width);
        assert_true(fabs((double)qkv_param_data(to)[i] - expected) < 1e-4 * (1 + expected));
    }
    qkv_model_destroy(m);
    qkv_model_destroy(large);
}

static void test_refuses(void **state)
{
    (void)state;
    qkv_model *m = made_model(qkv_vit_type());
    qkv_pixels *p = drawn(COUNT, SIDE, 1, CLASSES, waves);
    qkv_pixels *odd = drawn(COUNT, 10, 1, CLASSES, waves);
    qkv_task task;
    assert_int_equal(qkv_task_classify_images(&task, m, odd, NULL, NULL, 0), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "cannot be cut into patches of 4"));
    assert_null(task.self);
    qkv_pixels_close(odd);
    qkv_pixels *fewer = drawn(COUNT, SIDE, 1, CLASSES - 1, waves);
    assert_int_equal(qkv_task_classify_images(&task, m, fewer, NULL, NULL, 0), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "have 2 classes, the model 3"));
    qkv_pixels_close(fewer);
    static const qkv_image_format colour = {SIDE, SIDE, 3, false, 2, {0}, {1, 1, 1}, 0};
    qkv_model_set_image_format(m, &colour);
    assert_int_equal(qkv_task_classify_images(&task, m, p, NULL, NULL, 0),
                     QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "reads 1 channels"));
    qkv_pixels_close(p);
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts), cmocka_unit_test(test_evaluating),
                                       cmocka_unit_test(test_copy),
        cmocka_unit_test(test_copy_to_segmenter), cmocka_unit_test(test_copy_larger),
        cmocka_unit_test(test_refuses),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
