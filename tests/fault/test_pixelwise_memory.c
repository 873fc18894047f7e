/* test_pixelwise_memory.c - the n-th allocation fails, for every n, while images and masks are read
 * and models that tell classes or colours are made, train, are evaluated and used: each time a
 * clean error or the right answer, and all memory comes back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "failing.h"
#include "files.h"
#include "qkv/colorize.h"
#include "qkv/image_file.h"
#include "qkv/segment.h"

enum { SIDE = 8, PIXELS = SIDE * SIDE };
static char folder[PATH_BYTES];

typedef struct {
    qkv_context *ctx;
    qkv_image_list *files, *masks;
    qkv_pixels *images, *classes;
    qkv_model *model;
    qkv_task task;
    qkv_tape *tape;
    qkv_image in, out;
} fixture;

static qkv_status make_model(fixture *f, const qkv_model_type *type, size_t channels,
                             size_t outputs)
{
    const qkv_pixelwise_config c = {
        .trunk = {.image = SIDE, .patch = 4, .channels = channels, .width = 8, .layers = 1,
                  .heads = 2, .act = QKV_ACT_GELU, .qkv_bias = true, .norm_eps = 1e-6},
        .convolutions = 1, .conv_channels = 4, .outputs = outputs};
    qkv_status status = qkv_model_create(&f->model, f->ctx, type, &c);
    return status ? status : qkv_model_init(f->model, 1);
}

static qkv_status make(fixture *f, bool colors)
{
    qkv_mask_palette palette;
    qkv_status status = qkv_image_list_open(&f->files, f->ctx, in(folder, "images"));
    if (!status)
        status = qkv_image_list_open(&f->masks, f->ctx, in(folder, "masks"));
    if (!status)
        status = qkv_mask_palette_read(&palette, f->ctx, f->masks);
    if (!status)
        status = qkv_masks_read(&f->images, &f->classes, f->ctx, f->files, f->masks, &palette,
                                SIDE, NULL, NULL);
    if (!status)
        status = make_model(f, colors ? qkv_colorizer_type() : qkv_segmenter_type(),
                            colors ? QKV_COLORIZER_INPUTS : 3, colors ? 2 : 3);
    const qkv_segment_data data = {f->images, f->classes};
    double mean[2];
    if (!status && colors)
        status = qkv_colorize_mean(f->ctx, f->images, NULL, 2, mean);
    if (!status)
        status = colors ? qkv_task_colorize(&f->task, f->model, f->images, f->images, NULL, 1)
                        : qkv_task_segment(&f->task, f->model, &data, &data, NULL, 1);
    return status ? status : qkv_tape_create(&f->tape, f->ctx);
}

static bool train(fixture *f)
{
    const qkv_micro_batch part = {.step = 1, .count = 2, .total = 2};
    qkv_tape_reset(f->tape);
    qkv_tape_mode(f->tape, true, true);
    qkv_tensor *y = f->task.type->loss(f->task.self, f->tape, &part);
    return y && !qkv_backward(f->tape, y);
}

static bool use(fixture *f, bool colors, uint8_t *answer)
{
    const qkv_color_hint hint = {3, 1, {255, 0, 0}};
    if (qkv_image_read(&f->in, f->ctx, in(folder, "images/a.png"), NULL))
        return false;
    if (!colors)
        return !qkv_segment(answer, f->model, f->tape, &f->in);
    if (qkv_colorize(&f->out, f->model, f->tape, &f->in, NULL, &hint, 1))
        return false;
    memcpy(answer, f->out.data, 3 * PIXELS);
    return true;
}

/* True when all went well; answer: what the model says of an image. */
static bool run(failing *memory, bool colors, uint8_t *answer)
{
    const qkv_context_options o = failing_options(memory);
    fixture f = {0};
    qkv_metrics m;
    if (qkv_context_create(&f.ctx, &o))
        return false;
    bool ok = !make(&f, colors) && train(&f) &&
              !f.task.type->evaluate(f.task.self, f.tape, 0, &m) && use(&f, colors, answer);
    if (!ok) {
        if (qkv_context_status(f.ctx) != QKV_E_MEMORY)
            fail_msg("%s", qkv_context_message(f.ctx));
        assert_true(strlen(qkv_context_message(f.ctx)) > 0);
    }
    qkv_task_destroy(&f.task);
    qkv_tape_destroy(f.tape);
    qkv_model_destroy(f.model);
    qkv_image_free(&f.in, f.ctx);
    qkv_image_free(&f.out, f.ctx);
    qkv_pixels_close(f.images);
    qkv_pixels_close(f.classes);
    qkv_image_list_close(f.files);
    qkv_image_list_close(f.masks);
    qkv_context_destroy(f.ctx);
    assert_int_equal(memory->live, 0);
    return ok;
}

static void draw(const char *name, size_t channels, const uint8_t *colors)
{
    qkv_context *ctx;
    qkv_image image;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_image_create(&image, ctx, SIDE, SIDE, channels), QKV_OK);
    for (size_t i = 0; i < PIXELS * channels; i++)
        image.data[i] = colors[i / channels * 3 / PIXELS];
    assert_int_equal(qkv_image_write(&image, ctx, in(folder, name)), QKV_OK);
    qkv_image_free(&image, ctx);
    qkv_context_destroy(ctx);
}

static void fail_everywhere(bool colors)
{
    uint8_t expected[3 * PIXELS] = {0}, got[3 * PIXELS] = {0};
    failing memory = {.left = SIZE_MAX};
    assert_true(run(&memory, colors, expected));
    size_t n = 0;
    for (bool done = false; !done; n++) {
        for (int once = 0; once < 2; once++) {
            memory = (failing){.left = n, .once = once};
            bool ok = run(&memory, colors, got);
            done = ok && memory.left > 0 && memory.left < SIZE_MAX / 2; /* nothing failed */
            if (ok)
                assert_memory_equal(got, expected, sizeof got);
        }
        assert_true(n < 5000);
    }
    print_message("%zu allocations\n", n);
}

static void test_segment(void **state)
{
    (void)state;
    fail_everywhere(false);
}

static void test_colorize(void **state)
{
    (void)state;
    fail_everywhere(true);
}

int main(void)
{
    static const uint8_t shades[] = {30, 90, 200}, classes[] = {0, 1, 2};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_segment),
                                       cmocka_unit_test(test_colorize)};
    make_folder(folder);
    int failed = mkdir(in(folder, "images"), 0700) || mkdir(in(folder, "masks"), 0700);
    draw("images/a.png", 3, shades);
    draw("images/b.png", 3, classes);
    draw("masks/a.png", 1, classes);
    draw("masks/b.png", 1, classes);
    failed = failed || cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(folder);
    return failed;
}
