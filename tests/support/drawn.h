/* drawn.h - images that a formula gives, and what is asked of every task that learns from some: a
 * context, a folder and a tape for each test. */
#ifndef QKV_TESTS_DRAWN_H
#define QKV_TESTS_DRAWN_H

#include <math.h>
#include <string.h>

#include "fixture.h"
#include "qkv/model.h"
#include "qkv/pixels.h"
#include "qkv/task.h"

enum { DRAWN_BYTES = 16 * 16 * 3 };
static qkv_tape *tape;

static inline int set_up_tape(void **state)
{
    return set_up(state) || qkv_tape_create(&tape, ctx);
}

static inline int tear_down_tape(void **state)
{
    qkv_tape_destroy(tape);
    return tear_down(state);
}

typedef uint8_t draw_fn(size_t image, size_t k); /* the image's value number k */

static inline uint8_t mixed(size_t image, size_t k)
{
    return (uint8_t)(image * 31 + k * k * 7);
}

/* In memory; classes "a", "b", .. in turn, or none. */
static inline qkv_pixels *drawn(size_t count, size_t side, size_t channels, size_t classes,
                                draw_fn *of)
{
    qkv_pixels_writer *w;
    qkv_pixels *p;
    uint8_t data[DRAWN_BYTES];
    size_t size = side * side * channels;
    assert_true(size <= sizeof data);
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, side, side, channels), QKV_OK);
    for (size_t i = 0; i < classes; i++)
        assert_int_equal(qkv_pixels_add_class(w, (char[]){(char)('a' + i), 0}), QKV_OK);
    for (size_t i = 0; i < count; i++) {
        int32_t class_ = classes ? (int32_t)(i % classes) : -1;
        for (size_t k = 0; k < size; k++)
            data[k] = of(i, k);
        assert_int_equal(qkv_pixels_add(w, data, class_, "drawn"), QKV_OK);
    }
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_OK);
    return p;
}

/* A model with weights at random. */
static inline qkv_model *made(const qkv_model_type *type, const void *config)
{
    qkv_model *m;
    assert_int_equal(qkv_model_create(&m, ctx, type, config), QKV_OK);
    assert_int_equal(qkv_model_init(m, 1), QKV_OK);
    return m;
}

static inline void set_to_zero(qkv_model *m, const char *name)
{
    qkv_param *w = qkv_params_find(qkv_model_params(m), name);
    assert_non_null(w);
    memset(qkv_param_data(w), 0, qkv_param_count(w) * sizeof(qkv_real));
    qkv_param_touch(w);
}

/* Of samples [first, first + count) of an update of 8. */
static inline double part_loss(qkv_task *task, size_t first, size_t count, double *seconds)
{
    const qkv_micro_batch part = {.step = 5, .first = first, .count = count, .total = 8,
                                  .data_seconds = seconds};
    qkv_tape_reset(tape);
    double loss = (double)qkv_item(tape, task->type->loss(task->self, tape, &part));
    if (qkv_tape_status(tape))
        fail_msg("%s", qkv_context_message(ctx));
    return loss;
}

/* Parts of an update add up to it, whatever they are; other samples are others. The update's
 * loss. */
static inline double expect_parts(qkv_task *task)
{
    double all = part_loss(task, 0, 8, NULL);
    double sum = part_loss(task, 0, 3, NULL) + part_loss(task, 3, 5, NULL);
    assert_true(all > 0 && fabs(sum - all) <= 1e-5 * all);
    assert_true(fabs(part_loss(task, 7, 1, NULL) - part_loss(task, 6, 1, NULL)) > 1e-7);
    return all;
}

/* 7 of the held-out images are evaluated, by the measure first. */
static inline qkv_metrics expect_evaluated(qkv_task *task, const char *measure, size_t images)
{
    qkv_metrics m;
    assert_int_equal(task->type->evaluate(task->self, tape, 7, &m), QKV_OK);
    assert_string_equal(m.item[0].name, measure);
    assert_true(m.more_is_better);
    assert_int_equal(m.scored, 7);
    assert_int_equal(m.units, images);
    return m;
}

#endif
