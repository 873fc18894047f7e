/* test_mae_memory.c - the n-th allocation fails, for every n, while a masked autoencoder is made,
 * trains, is evaluated and fills in an image: each time a clean error or the right answer, and all
 * memory comes back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "failing.h"
#include "qkv/reconstruct.h"

enum { SIDE = 8, BYTES = SIDE * SIDE * 3, COUNT = 3 };

typedef struct {
    qkv_context *ctx;
    qkv_pixels *pixels;
    qkv_model *model;
    qkv_task task;
    qkv_tape *tape;
} fixture;

static qkv_status make_pixels(fixture *f)
{
    qkv_pixels_writer *w;
    uint8_t data[BYTES];
    qkv_status status = qkv_pixels_create(&w, f->ctx, NULL, SIDE, SIDE, 3);
    for (size_t i = 0; i < COUNT && !status; i++) {
        for (size_t k = 0; k < BYTES; k++)
            data[k] = (uint8_t)(k * k + i * 91);
        status = qkv_pixels_add(w, data, -1, "a");
    }
    if (!status)
        return qkv_pixels_finish(w, &f->pixels);
    qkv_pixels_abandon(w);
    return status;
}

static qkv_status make(fixture *f)
{
    qkv_mae_config c;
    qkv_image_format format = {.height = SIDE, .width = SIDE, .channels = 3, .resample = 2,
                               .mean = {0.5, 0.5, 0.5}, .std = {0.3, 0.3, 0.3}};
    qkv_augment_options o = qkv_augment_defaults();
    qkv_option_defaults(qkv_model_type_config(qkv_mae_type()), &c);
    o.crop_scale = 0.5;
    c.trunk.image = SIDE;
    c.trunk.patch = 4;
    c.trunk.width = c.decoder_width = 8;
    c.trunk.layers = c.decoder_layers = 1;
    c.trunk.heads = c.decoder_heads = 2;
    c.trunk.dropout = 0.1;
    c.norm_pix = true;
    qkv_status status = make_pixels(f);
    if (!status)
        status = qkv_model_create(&f->model, f->ctx, qkv_mae_type(), &c);
    if (!status)
        status = qkv_model_init(f->model, 1);
    if (status)
        return status;
    qkv_model_set_image_format(f->model, &format);
    status = qkv_task_reconstruct(&f->task, f->model, f->pixels, f->pixels, &o, 1);
    return status ? status : qkv_tape_create(&f->tape, f->ctx);
}

static bool train(fixture *f)
{
    for (uint64_t i = 0; i < 4; i++) {
        const qkv_micro_batch some = {i / 2, 0, i % 2, 1, 2, NULL};
        qkv_tape_reset(f->tape);
        qkv_tape_mode(f->tape, true, true);
        qkv_params_zero_grad(qkv_model_params(f->model));
        qkv_tensor *y = f->task.type->loss(f->task.self, f->tape, &some);
        if (!y || qkv_backward(f->tape, y))
            return false;
    }
    return true;
}

/* True when all went well; filled: an image. */
static bool run(failing *memory, uint8_t *filled)
{
    const qkv_context_options o = failing_options(memory);
    fixture f = {0};
    qkv_metrics m;
    uint8_t hidden[BYTES];
    if (qkv_context_create(&f.ctx, &o))
        return false;
    bool ok = !make(&f) && train(&f) && !f.task.type->evaluate(f.task.self, f.tape, 0, &m) &&
              !qkv_reconstruct(f.model, f.tape, qkv_pixels_data(f.pixels, 1), 0.5, 1, false,
                               hidden, filled);
    if (!ok) {
        assert_int_equal(qkv_context_status(f.ctx), QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(f.ctx)) > 0);
    }
    qkv_task_destroy(&f.task);
    qkv_tape_destroy(f.tape);
    qkv_model_destroy(f.model);
    qkv_pixels_close(f.pixels);
    qkv_context_destroy(f.ctx);
    return ok;
}

static void test_every_allocation(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        uint8_t expected[BYTES], filled[BYTES];
        failing memory = {.left = SIZE_MAX};
        assert_true(run(&memory, expected));
        size_t n = 0;
        for (bool done = false; !done; n++) {
            memory = (failing){.left = n, .once = once != 0};
            bool ok = run(&memory, filled);
            assert_int_equal(memory.live, 0);
            done = ok && memory.left > 0 && memory.left < SIZE_MAX / 2;
            if (ok)
                assert_memory_equal(filled, expected, BYTES);
            assert_true(n < 2000);
        }
        assert_true(n > 30);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
