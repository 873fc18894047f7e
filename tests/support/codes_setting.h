/* codes_setting.h - a small VQGAN, a network that looks and images, for tests of codes. */
#ifndef QKV_TESTS_CODES_SETTING_H
#define QKV_TESTS_CODES_SETTING_H

#include "drawn.h"
#include "qkv/codes.h"
#include "qkv/perceptual_task.h"

enum { SIDE = 16, C = 3, COUNT = 6, CODES = 24, WIDTH = 8 };

static inline qkv_vqgan_config small(void)
{
    qkv_vqgan_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_vqgan_type()), &c);
    c.channels = 32;
    c.multiples = (qkv_sizes){2, {1, 1}};
    c.blocks = 1;
    c.attention = (qkv_sizes){0};
    c.image = SIDE;
    c.z_channels = c.code_width = WIDTH;
    c.codes = CODES;
    c.disc_channels = 4;
    c.disc_layers = 2;
    return c;
}

static inline qkv_model *made_model(void)
{
    const qkv_vqgan_config c = small();
    return made(qkv_vqgan_type(), &c);
}

static inline qkv_model *made_perceptual(void)
{
    const qkv_perceptual_config c = {.channels = {2, {4, 6}}, .convolutions = {2, {1, 2}}};
    qkv_model *m = made(qkv_perceptual_type(), &c);
    qkv_params_freeze(qkv_model_params(m), true);
    return m;
}

typedef struct {
    qkv_model *model, *lpips;
    qkv_pixels *pixels;
    qkv_codes_options o;
    qkv_task task;
} setting;

static inline void open_setting(setting *s)
{
    s->model = made_model();
    s->lpips = made_perceptual();
    s->pixels = drawn(COUNT, SIDE, C, 0, mixed);
    s->o = qkv_codes_defaults();
    s->o.adversarial = 0.7;
    s->o.perceptual = 0.3;
    s->o.squared = 0.6;
    s->o.revive = false;
    s->o.decay = 0;
}

static inline void start(setting *s)
{
    if (qkv_task_codes(&s->task, s->model, s->lpips, s->pixels, s->pixels, &s->o, 3))
        fail_msg("%s", qkv_context_message(ctx));
}

static inline void close_setting(setting *s)
{
    qkv_task_destroy(&s->task);
    qkv_pixels_close(s->pixels);
    qkv_model_destroy(s->lpips);
    qkv_model_destroy(s->model);
}

/* A phase of a step on all images, and back; terms: or NULL. */
static inline double step_terms(setting *s, int phase, uint64_t number, qkv_terms *terms)
{
    const qkv_micro_batch part = {.step = number, .phase = phase, .count = COUNT, .total = COUNT,
                                  .terms = terms};
    qkv_params_zero_grad(qkv_model_params(s->model));
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, true, true);
    qkv_tensor *loss = s->task.type->loss(s->task.self, tape, &part);
    if (!loss || qkv_backward(tape, loss) ||
        s->task.type->end_phase(s->task.self, number, phase))
        fail_msg("%s", qkv_context_message(ctx));
    return (double)qkv_item(tape, loss);
}

static inline double step(setting *s, int phase, uint64_t number)
{
    return step_terms(s, phase, number, NULL);
}

/* As they are. */
static inline qkv_tensor *images(const setting *s)
{
    static const double half[] = {0.5, 0.5, 0.5};
    const size_t shape[] = {COUNT, SIDE, SIDE, C};
    size_t numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = i;
    qkv_tensor *x = qkv_tensor_from(tape, NULL, 4, shape);
    qkv_pixels_values(qkv_tensor_fill(x), ctx, s->pixels, numbers, COUNT, half, half);
    return x;
}

#endif
