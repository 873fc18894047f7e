/* test_recognize.c - choosing a class for a picture: the parts of an update add up to the whole,
 * evaluations judge what they are asked to, probabilities are what the loss says, and what does
 * not fit the model is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "qkv/recognize.h"

enum { SIDE = 8, CLASSES = 3, COUNT = 12 };

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *t;
    qkv_pixels *pixels;
} fixture;

static qkv_pixels *draw(qkv_context *ctx, size_t side, int32_t classes)
{
    qkv_pixels_writer *w;
    qkv_pixels *p;
    uint8_t data[2 * SIDE * 2 * SIDE];
    assert_true(side <= 2 * SIDE);
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, side, side, 1), QKV_OK);
    for (int32_t i = 0; i < classes; i++)
        assert_int_equal(qkv_pixels_add_class(w, i == 0 ? "a" : i == 1 ? "b" : "c"), QKV_OK);
    for (int32_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < side * side; k++)
            data[k] = (uint8_t)((k * k + 37 * k * (size_t)i) % 251);
        assert_int_equal(qkv_pixels_add(w, data, i % classes, "drawn"), QKV_OK);
    }
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_OK);
    return p;
}

static void open_fixture(fixture *f, const qkv_model_type *type)
{
    static const qkv_picture_format format = {SIDE, SIDE, 1, false, 2, {0.5}, {0.25}};
    qkv_vit_config c;
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    qkv_option_defaults(qkv_model_type_config(type), &c);
    assert_true(qkv_vit_preset(type, "nano", &c));
    c.trunk.image = SIDE;
    c.trunk.patch = 4;
    c.trunk.channels = 1;
    c.classes = CLASSES;
    assert_int_equal(qkv_model_create(&f->model, f->ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(f->model, 3), QKV_OK);
    qkv_model_set_pictures(f->model, &format);
    f->pixels = draw(f->ctx, SIDE, CLASSES);
}

static void close_fixture(fixture *f)
{
    qkv_pixels_close(f->pixels);
    qkv_tape_destroy(f->t);
    qkv_model_destroy(f->model);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
}

static double loss(fixture *f, qkv_task *task, size_t first, size_t count, double *seconds)
{
    const qkv_task_part part = {.step = 1, .first = first, .count = count, .total = 8,
                                .data_seconds = seconds};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, false);
    double y = (double)qkv_item(f->t, task->type->loss(task->self, f->t, &part));
    if (qkv_tape_status(f->t))
        fail_msg("%s", qkv_context_message(f->ctx));
    return y;
}

static void parts_of(const qkv_model_type *type)
{
    fixture f;
    qkv_task task;
    double seconds = 0;
    qkv_recognize_options o = {.smoothing = 0.1, .augment = {.flip = true, .crop_pad = 1,
                                                             .mixup = 0.8, .mix = 1}};
    open_fixture(&f, type);
    assert_int_equal(qkv_task_recognize(&task, f.model, f.pixels, NULL, &o, 5), QKV_OK);
    assert_null(task.type->evaluate);
    double whole = loss(&f, &task, 0, 8, &seconds);
    double parts = loss(&f, &task, 0, 3, NULL) + loss(&f, &task, 3, 5, NULL);
    assert_true(whole > 0 && fabs(whole - parts) < 1e-5 * whole);
    assert_true(seconds > 0);
    qkv_task_destroy(&task);
    close_fixture(&f);
}

static void test_parts(void **state)
{
    (void)state;
    parts_of(&qkv_vit_type);
    parts_of(&qkv_cct_type);
}

static void test_judging(void **state)
{
    (void)state;
    fixture f;
    qkv_recognize_score s;
    size_t numbers[COUNT], right = 0;
    qkv_real probs[COUNT * CLASSES];
    double sum = 0;
    open_fixture(&f, &qkv_vit_type);
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = i;
    assert_int_equal(qkv_recognize(f.model, f.t, f.pixels, numbers, COUNT, probs), QKV_OK);
    for (size_t i = 0; i < COUNT; i++) {
        const qkv_real *p = probs + i * CLASSES;
        size_t best = 0, class_ = i % CLASSES;
        for (size_t k = 1; k < CLASSES; k++)
            best = p[k] > p[best] ? k : best;
        right += best == class_;
        sum -= log((double)p[class_]);
        assert_true(fabs((double)(p[0] + p[1] + p[2]) - 1) < 1e-5);
    }
    assert_int_equal(qkv_recognize_evaluate(f.model, f.t, f.pixels, 0, &s), QKV_OK);
    assert_int_equal(s.pictures, COUNT);
    assert_true(fabs(s.accuracy - (double)right / COUNT) < 1e-9);
    assert_true(fabs(s.loss - sum / COUNT) < 1e-4);
    assert_int_equal(qkv_recognize_evaluate(f.model, f.t, f.pixels, 5, &s), QKV_OK);
    assert_int_equal(s.pictures, 5);
    close_fixture(&f);
}

static void test_copy(void **state)
{
    (void)state;
    fixture f, g;
    open_fixture(&f, &qkv_vit_type);
    open_fixture(&g, &qkv_vit_type);
    assert_int_equal(qkv_model_init(g.model, 4), QKV_OK);
    assert_int_equal(qkv_model_copy(g.model, f.model), 4 + 2 * 16 + 2 + 2);
    for (size_t i = 0; i < qkv_params_count(qkv_model_params(f.model)); i++) {
        qkv_param *a = qkv_params_at(qkv_model_params(f.model), i);
        qkv_param *b = qkv_params_at(qkv_model_params(g.model), i);
        assert_memory_equal(qkv_param_data(a), qkv_param_data(b),
                            qkv_param_count(a) * sizeof(qkv_real));
    }
    close_fixture(&f);
    close_fixture(&g);
}

static void test_refuses(void **state)
{
    (void)state;
    fixture f;
    qkv_task task;
    open_fixture(&f, &qkv_vit_type);
    qkv_pixels *odd = draw(f.ctx, 10, CLASSES);
    assert_int_equal(qkv_task_recognize(&task, f.model, odd, NULL, NULL, 0), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(f.ctx), "cannot be cut into patches of 4"));
    assert_null(task.self);
    qkv_pixels_close(odd);
    static const qkv_picture_format colour = {SIDE, SIDE, 3, false, 2, {0}, {1, 1, 1}};
    qkv_model_set_pictures(f.model, &colour);
    assert_int_equal(qkv_task_recognize(&task, f.model, f.pixels, NULL, NULL, 0),
                     QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(f.ctx), "reads 1 channels"));
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts), cmocka_unit_test(test_judging), cmocka_unit_test(test_copy),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
