/* 11_paint_attention.c - where a classifier looks, painted over the image.
 *
 *     11_paint_attention             a Vision Transformer
 *     11_paint_attention qkv_cct     a compact transformer
 *
 * A Vision Transformer reads its class off a first token, so the row of weights with which that
 * token attends to the patches says what the class was read from. A compact transformer reads it
 * off all tokens, so all rows are added up. A model learns whether a spot on noise is red or green.
 * The first kind finds out that looking for one colour is enough: all its attention is on the spot
 * if it has that, so half of it over both; the second one has its sum of tokens to choose with, and
 * attends less sharply. Patches of an image stay as bright as they are attended to, in
 * ./attended.png. Models of directories (qkv_hub_load) and images of files (qkv_image_read,
 * qkv_image_fit) are shown the same way. */
#include <stdio.h>

#include <qkv.h>

enum { SIDE = 64, PATCH = 16, ACROSS = 4, PATCHES = ACROSS * ACROSS, NUMBERS = SIDE * SIDE * 3 };
enum { BATCH = 8, STEPS = 100, SPOT = STEPS % PATCHES };

static uint8_t rgb[BATCH * NUMBERS]; /* the images of the last batch */

/* The images of a step: dark noise, and a patch of it, the spot, that has more red or green. */
static qkv_tensor *loss(void *model, qkv_tape *t, const qkv_micro_batch *part)
{
    static const int32_t colors[BATCH] = {0, 1, 0, 1, 0, 1, 0, 1};
    const size_t shape[4] = {BATCH, SIDE, SIDE, 3};
    qkv_rng r;
    qkv_rng_init(&r, 1, part->step);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, shape);
    for (uint32_t n = 0; x && n < BATCH * NUMBERS; n++) {
        const uint32_t row = n / 3 / SIDE % SIDE / PATCH, column = n / 3 % SIDE / PATCH;
        const bool spot = row * ACROSS + column == part->step % PATCHES;
        rgb[n] = (uint8_t)qkv_rng_below(&r, spot && n % 3 == n / NUMBERS % 2 ? 256 : 99);
        qkv_tensor_fill(x)[n] = (qkv_real)(rgb[n] / 127.5 - 1);
    }
    x = qkv_vit_logits((qkv_model *)model, t, x);
    return qkv_cross_entropy(t, x, qkv_tensor_ids(t, colors, 1, shape), NULL);
}

/* Adds up images, heads and rows. */
static void keep(void *weights, const char *name, int sequence, int head, size_t row, size_t rows,
                 size_t S, const qkv_real *of)
{
    (void)name, (void)sequence, (void)head, (void)row;
    for (size_t i = 0; i < rows * S; i++) ((double *)weights)[i % S] += (double)of[i] / (int)rows;
}

int main(int argc, char **argv)
{
    const bool cct = argc > 1 && argv[1][0] == 'q';
    const qkv_task_type type = qkv_task_type_defaults("spot", loss);
    const qkv_micro_batch unseen = {STEPS, 0, 0, BATCH, BATCH, NULL, NULL};
    double weights[1 + PATCHES] = {0}, *patch = weights + !cct; /* a vit's first token leads */
    const qkv_attention_probe probe = {NULL, -1, -1, 0, !cct, keep, weights, false};
    qkv_image image = {SIDE, SIDE, 3, rgb};
    qkv_train_options o = qkv_train_defaults();
    qkv_vit_config c;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_task task = {&type, NULL, NULL, 1, false};
    o.steps = STEPS;
    qkv_option_defaults(qkv_model_type_config(cct ? qkv_cct_type() : qkv_vit_type()), &c);
    c.trunk.image = SIDE, c.trunk.width = 64, c.trunk.heads = 2, c.trunk.layers = 1;
    c.convolutions = 4, c.conv_channels = 32; /* of a cct: each halves the image, to ACROSS */
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx) ||
        qkv_model_create(&task.model, ctx, cct ? qkv_cct_type() : qkv_vit_type(), &c)) return 1;
    task.self = task.model;
    if (qkv_model_init(task.model, 1) ||
        qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, NULL) ||
        qkv_attention_probe_add(t, &probe) || !loss(task.model, t, &unseen))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    qkv_image_dim(&image, patch, ACROSS, ACROSS, SPOT);
    const double share = patch[SPOT] / BATCH / (double)c.trunk.heads;
    printf("%.0f %% of the attention is on the spot\n", 100 * share);
    const bool fine = share > (cct ? .08 : .3) && !qkv_image_write(&image, ctx, "attended.png");
    qkv_model_destroy(task.model);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return !fine;
}
