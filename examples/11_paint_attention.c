/* 11_paint_attention.c - where a classifier looks, painted over the image.
 *
 * A Vision Transformer reads its class off a first token, so the row of weights with which that
 * token attends to the patches says what the class was read from. A model learns whether a spot on
 * noise is red or green. It finds out that looking for one colour is enough: all its attention is
 * on the spot if it has that, so half of it over both. Patches of an image stay as bright as the
 * first token attends to them, in ./spot-attention.png. Models of directories (qkv_hub_load) and
 * images of files (qkv_image_read, qkv_image_fit) are shown the same way. */
#include <stdio.h>

#include <qkv.h>

enum { SIDE = 64, PATCH = 16, ACROSS = 4, NUMBERS = SIDE * SIDE * 3, BATCH = 8, STEPS = 100 };

static uint8_t rgb[BATCH * NUMBERS]; /* the images of the last batch */

/* The images of a step: dark noise, and a patch of it, the spot, that has more red or green. */
static qkv_tensor *loss(void *model, qkv_tape *t, const qkv_micro_batch *part)
{
    static const int32_t colors[BATCH] = {0, 1, 0, 1, 0, 1, 0, 1};
    const size_t shape[4] = {BATCH, SIDE, SIDE, 3};
    const uint32_t spot = (uint32_t)part->step % (ACROSS * ACROSS);
    qkv_rng r;
    qkv_rng_init(&r, 1, part->step);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, shape);
    for (uint32_t n = 0; x && n < BATCH * NUMBERS; n++) {
        const uint32_t color = n / NUMBERS % 2, row = n / 3 / SIDE % SIDE, column = n / 3 % SIDE;
        const bool on = row / PATCH * ACROSS + column / PATCH == spot && n % 3 == color;
        rgb[n] = (uint8_t)qkv_rng_below(&r, on ? 256 : 99);
        qkv_tensor_fill(x)[n] = (qkv_real)(rgb[n] / 127.5 - 1);
    }
    x = qkv_vit_logits((qkv_model *)model, t, x);
    return qkv_cross_entropy(t, x, qkv_tensor_ids(t, colors, 1, shape), NULL);
}

/* Adds up images and heads; column 0 is the first token itself. */
static void keep(void *weights, const char *name, int sequence, int head, size_t row, size_t rows,
                 size_t S, const qkv_real *of)
{
    (void)name, (void)sequence, (void)head, (void)row, (void)rows;
    for (size_t i = 1; i < S; i++) ((double *)weights)[i - 1] += (double)of[i];
}

int main(void)
{
    const qkv_task_type type = qkv_task_type_defaults("spot", loss);
    const qkv_micro_batch unseen = {STEPS, 0, 0, BATCH, BATCH, NULL};
    double weights[ACROSS * ACROSS] = {0};
    const qkv_attention_probe probe = {NULL, -1, -1, 0, 1, keep, weights, false};
    qkv_image image = {SIDE, SIDE, 3, rgb};
    qkv_train_options o = qkv_train_defaults();
    qkv_vit_config c;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_task task = {&type, NULL, NULL, 1, false};
    o.steps = STEPS;
    qkv_option_defaults(qkv_model_type_config(qkv_vit_type()), &c);
    (void)qkv_model_type_preset(qkv_vit_type(), "nano", &c);
    c.trunk.image = SIDE;
    c.trunk.layers = 1;
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx) ||
        qkv_model_create(&task.model, ctx, qkv_vit_type(), &c)) return 1;
    task.self = task.model;
    if (qkv_model_init(task.model, 1) ||
        qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, NULL) ||
        qkv_attention_probe_add(t, &probe) || !loss(task.model, t, &unseen))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    qkv_image_dim(&image, weights, ACROSS, ACROSS, STEPS % (ACROSS * ACROSS));
    const double share = weights[STEPS % (ACROSS * ACROSS)] / BATCH / (double)c.trunk.heads;
    printf("%.0f %% of the attention is on the spot\n", 100 * share);
    const bool fine = !qkv_image_write(&image, ctx, "spot-attention.png") && share > 0.3;
    qkv_model_destroy(task.model);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return !fine;
}
