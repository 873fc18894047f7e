/* networks.c - the networks whose training steps are timed: what each is, what it reads, its
 * loss and its arithmetic. Texts and images are made up and of equal size. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

static qkv_tensor *matrix(const bench_training *b, const int32_t *ids, size_t length)
{
    size_t shape[] = {b->batch, length};
    return qkv_tensor_ids(b->tape, ids, 2, shape);
}

static size_t networks_tokens(const bench_training *b) { return b->batch * b->length; }

/* ---- a GPT: a token's target is the next one ------------------------------------------------ */

static qkv_status gpt_create(bench_training *b, const bench_step *step)
{
    qkv_status status = bench_model(b->ctx, &b->model, step->layout, step->model, step->vocab,
                                    b->length, b->dropout);
    if (status)
        return status;
    (void)snprintf(b->name, sizeof b->name, "%.24s (%s)", step->model,
                   bench_layouts[step->layout]);
    b->vocab = qkv_lm_vocab(b->model);
    return QKV_OK;
}

static size_t gpt_ids(const bench_training *b) { return b->batch * b->length + 1; }

static qkv_tensor *gpt_loss(const bench_training *b)
{
    qkv_tensor *ids = matrix(b, b->ids, b->length), *targets = matrix(b, b->ids + 1, b->length);
    qkv_tensor *h = qkv_lm_hidden(b->model, b->tape, ids, 0, NULL, NULL);
    return qkv_lm_loss(b->model, b->tape, h, targets, NULL);
}

static double gpt_flops(const bench_training *b)
{
    return qkv_model_flops(b->model, &(qkv_workload){.samples = (double)b->batch,
                                                     .length = (double)b->length});
}

/* ---- BERT-base: 15 % of the words are guessed (Devlin et al. 2019, 3.1) ---------------------- */

static size_t masked(const bench_training *b)
{
    size_t rows = b->batch * b->length;
    return rows - rows * 85 / 100; /* at least one */
}

static qkv_status bert_create(bench_training *b, const bench_step *step)
{
    qkv_bert_config config;
    size_t count = masked(b);
    qkv_option_defaults(qkv_model_type_config(qkv_bert_masked_type()), &config);
    if (config.positions < b->length)
        config.positions = b->length;
    config.dropout = config.attention_dropout = b->dropout;
    b->vocab = config.vocab;
    (void)snprintf(b->name, sizeof b->name, "%s", step->model);
    b->rows = qkv_calloc(b->ctx, count, sizeof *b->rows);
    for (size_t i = 0; b->rows && i < count; i++)
        b->rows[i] = (int32_t)(i * b->batch * b->length / count);
    return b->rows ? qkv_model_create(&b->model, b->ctx, qkv_bert_masked_type(), &config)
                   : QKV_E_MEMORY;
}

/* The tokens, then the masked ones' targets. */
static size_t bert_ids(const bench_training *b) { return b->batch * b->length + masked(b); }

static qkv_tensor *bert_loss(const bench_training *b)
{
    size_t tokens = b->batch * b->length, count = masked(b);
    qkv_bert_input in = {.ids = matrix(b, b->ids, b->length)};
    qkv_tensor *targets = qkv_tensor_ids(b->tape, b->ids + tokens, 1, &count);
    qkv_tensor *rows = qkv_tensor_ids(b->tape, b->rows, 1, &count);
    return qkv_bert_word_loss(b->model, b->tape, qkv_bert_hidden(b->model, b->tape, &in), rows,
                              targets, NULL);
}

static qkv_tensor *bert_forward(const bench_training *b)
{
    qkv_bert_input in = {.ids = matrix(b, b->ids, b->length)};
    return qkv_bert_hidden(b->model, b->tape, &in);
}

static double bert_flops(const bench_training *b)
{
    return qkv_model_flops(b->model, &(qkv_workload){.samples = (double)b->batch,
                                                     .length = (double)b->length,
                                                     .predictions = (double)masked(b)});
}

/* ---- the base model of "Attention Is All You Need" ------------------------------------------- */

enum { PAIRS_VOCAB = 32001 };

qkv_status bench_transformer(qkv_context *ctx, qkv_model **out, size_t positions, double dropout)
{
    qkv_marian_config config;
    qkv_option_defaults(qkv_model_type_config(qkv_marian_type()), &config);
    config.vocab = PAIRS_VOCAB;
    config.pad = config.start = PAIRS_VOCAB - 1;
    config.act = QKV_ACT_RELU;
    config.dropout = dropout;
    if (config.positions < positions)
        config.positions = positions;
    return qkv_model_create(out, ctx, qkv_marian_type(), &config);
}

static qkv_status transformer_create(bench_training *b, const bench_step *step)
{
    (void)snprintf(b->name, sizeof b->name, "%s", step->model);
    b->vocab = PAIRS_VOCAB;
    return bench_transformer(b->ctx, &b->model, b->length, b->dropout);
}

/* The sources, then what the decoder reads and predicts. */
static size_t transformer_ids(const bench_training *b) { return 2 * b->batch * b->length + 1; }

static qkv_tensor *transformer_loss(const bench_training *b)
{
    const int32_t *target = b->ids + b->batch * b->length;
    static const qkv_cross_entropy_options options = {.smoothing = 0.1};
    qkv_marian_side source = {.ids = matrix(b, b->ids, b->length)};
    qkv_marian_side in = {.ids = matrix(b, target, b->length)};
    qkv_tensor *memory = qkv_marian_encode(b->model, b->tape, &source);
    qkv_tensor *h = qkv_marian_decode(b->model, b->tape, &in, memory, &source, NULL);
    return qkv_marian_loss(b->model, b->tape, h, matrix(b, target + 1, b->length), &options);
}

static double transformer_flops(const bench_training *b)
{
    return qkv_model_flops(b->model, &(qkv_workload){.samples = (double)b->batch,
                                                     .length = (double)b->length,
                                                     .target_length = (double)b->length});
}

static size_t transformer_tokens(const bench_training *b) { return 2 * b->batch * b->length; }

/* ---- image classifiers: ViT-B/16 (Dosovitskiy et al. 2020) and CCT-7 (Hassani et al. 2021) --- */

static qkv_status make_pixels(bench_training *b, size_t channels)
{
    b->pixel_count = b->batch * b->length * b->length * channels;
    b->pixels = qkv_calloc(b->ctx, b->pixel_count, sizeof *b->pixels);
    return b->pixels ? QKV_OK : QKV_E_MEMORY;
}

static qkv_tensor *networks_pixels(const bench_training *b)
{
    size_t channels = b->pixel_count / b->batch / b->length / b->length;
    size_t shape[] = {b->batch, b->length, b->length, channels};
    return qkv_tensor_wrap(b->tape, b->pixels, 4, shape);
}

static qkv_status classifier_create(bench_training *b, const bench_step *step,
                                    const qkv_model_type *type, const char *preset, size_t classes)
{
    qkv_vit_config config;
    qkv_option_defaults(qkv_model_type_config(type), &config);
    (void)qkv_model_type_preset(type, preset, &config);
    config.trunk.image = b->length;
    config.trunk.dropout = b->dropout;
    config.classes = b->vocab = classes;
    (void)snprintf(b->name, sizeof b->name, "%s", step->model);
    qkv_status status = qkv_model_create(&b->model, b->ctx, type, &config);
    return status ? status : make_pixels(b, config.trunk.channels);
}

static qkv_status vit_create(bench_training *b, const bench_step *step)
{
    return classifier_create(b, step, qkv_vit_type(), "base", 1000);
}

static qkv_status cct_create(bench_training *b, const bench_step *step)
{
    return classifier_create(b, step, qkv_cct_type(), "tiny", 10);
}

/* The classes. */
static size_t vit_ids(const bench_training *b) { return b->batch; }

static qkv_tensor *vit_forward(const bench_training *b)
{
    return qkv_vit_logits(b->model, b->tape, networks_pixels(b));
}

static qkv_tensor *vit_loss(const bench_training *b)
{
    return qkv_cross_entropy(b->tape, vit_forward(b),
                             qkv_tensor_ids(b->tape, b->ids, 1, &b->batch), NULL);
}

/* Of an image model and one of those passes, on the batch. */
static double image_flops(const bench_training *b, const qkv_model *m, qkv_pass pass,
                          qkv_model_part part)
{
    return qkv_model_flops(m, &(qkv_workload){.pass = pass, .part = part,
                                              .samples = (double)b->batch, .height = b->length,
                                              .width = b->length});
}

static double picture_flops(const bench_training *b)
{
    return image_flops(b, b->model, QKV_PASS_TRAIN, QKV_PART_WHOLE);
}

static size_t vit_tokens(const bench_training *b)
{
    size_t side = b->length / ((const qkv_vit_config *)qkv_model_config(b->model))->trunk.patch;
    return b->batch * (1 + side * side);
}

static size_t images_count(const bench_training *b) { return b->batch; }

/* ---- MAE-base, 75 % of the patches masked (He et al. 2021) ----------------------------------- */

static qkv_status mae_create(bench_training *b, const bench_step *step)
{
    qkv_mae_config config;
    qkv_option_defaults(qkv_model_type_config(qkv_mae_type()), &config);
    config.trunk.image = b->length;
    config.trunk.dropout = b->dropout;
    (void)snprintf(b->name, sizeof b->name, "%s", step->model);
    qkv_status status = qkv_model_create(&b->model, b->ctx, qkv_mae_type(), &config);
    if (!status)
        status = make_pixels(b, config.trunk.channels);
    size_t side = b->length / config.trunk.patch, patches = side * side;
    b->rows = status ? NULL : qkv_calloc(b->ctx, b->batch * patches, sizeof *b->rows);
    for (size_t i = 0; b->rows && i < b->batch; i++)
        qkv_mae_shuffle(b->rows + i * patches, patches, 1, i);
    return status ? status : b->rows ? QKV_OK : QKV_E_MEMORY;
}

static qkv_tensor *mae_loss(const bench_training *b)
{
    const qkv_mae_config *c = qkv_model_config(b->model);
    const size_t side = b->length / c->trunk.patch, patches = side * side;
    const qkv_mae_masks masks = {.images = b->batch, .patches = patches, .order = b->rows,
                                 .kept = qkv_mae_kept(patches, c->mask_ratio)};
    qkv_tensor *pixels = networks_pixels(b);
    qkv_tensor *encoded = qkv_mae_encode(b->model, b->tape, pixels, &masks);
    qkv_tensor *decoded = qkv_mae_decode(b->model, b->tape, encoded, &masks);
    return qkv_mae_loss(b->model, b->tape, decoded, pixels, &masks);
}

/* ---- VQGAN: the generator's phase of a step, with a discriminator ---------------------------- */

enum { PUBLISHED_SIDE = 128 }; /* of images from here on VGG16 says how unlike they look */
static const char vqgan_prefix[] = "vqgan-";

qkv_status bench_vqgan(qkv_context *ctx, qkv_model **out, const char *preset, size_t side,
                       double dropout)
{
    qkv_vqgan_config config;
    qkv_option_defaults(qkv_model_type_config(qkv_vqgan_type()), &config);
    config.image = side;
    config.dropout = dropout;
    if (!qkv_model_type_preset(qkv_vqgan_type(), preset, &config))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--model: no preset \"%.40s\" of a VQGAN", preset);
    return qkv_model_create(out, ctx, qkv_vqgan_type(), &config);
}

/* LPIPS, or a network of our own as small images get one; it does not learn. */
static qkv_status make_perceptual(bench_training *b)
{
    qkv_perceptual_config config = qkv_perceptual_task_config(b->length, 0);
    if (b->length >= PUBLISHED_SIDE)
        qkv_option_defaults(qkv_model_type_config(qkv_perceptual_type()), &config);
    qkv_status status = qkv_model_create(&b->lpips, b->ctx, qkv_perceptual_type(), &config);
    if (!status)
        qkv_params_freeze(qkv_model_params(b->lpips), true);
    return status;
}

static qkv_status make_images(bench_training *b)
{
    const size_t colors = 3, bytes = b->length * b->length * colors;
    qkv_pixels_writer *w = NULL;
    qkv_rng r;
    qkv_rng_init(&r, 1, qkv_hash64("pictures", 8));
    qkv_status status = qkv_pixels_create(&w, b->ctx, NULL, b->length, b->length, colors);
    uint8_t *image = status ? NULL : qkv_malloc(b->ctx, bytes);
    if (!status && !image)
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < b->batch && !status; i++) {
        for (size_t k = 0; k < bytes; k++)
            image[k] = (uint8_t)qkv_rng_below(&r, 256);
        status = qkv_pixels_add(w, image, -1, "made up");
    }
    qkv_free(b->ctx, image);
    if (!status)
        return qkv_pixels_finish(w, &b->images);
    qkv_pixels_abandon(w);
    return status;
}

static qkv_status vqgan_create(bench_training *b, const bench_step *step)
{
    qkv_status status = bench_vqgan(b->ctx, &b->model, step->model + strlen(vqgan_prefix),
                                    b->length, b->dropout);
    if (!status)
        status = make_perceptual(b);
    if (!status)
        status = make_images(b);
    if (status)
        return status;
    (void)snprintf(b->name, sizeof b->name, "%s", step->model);
    b->codes = qkv_codes_defaults();
    b->codes.revive = false;
    b->part = (qkv_micro_batch){.count = b->batch, .total = b->batch};
    return qkv_task_codes(&b->task, b->model, b->lpips, b->images, NULL, &b->codes, 1);
}

/* It reads images alone. */
static size_t no_ids(const bench_training *b)
{
    (void)b;
    return 0;
}

static qkv_tensor *vqgan_loss(const bench_training *b)
{
    return b->task.type->loss(b->task.self, b->tape, &b->part);
}

/* Of the generator's phase in a step in which the discriminator takes part. */
static double vqgan_flops(const bench_training *b)
{
    return image_flops(b, b->model, QKV_PASS_TRAIN, QKV_PART_WHOLE) +
           image_flops(b, b->lpips, QKV_PASS_INPUT, QKV_PART_WHOLE) +
           image_flops(b, b->lpips, QKV_PASS_FORWARD, QKV_PART_WHOLE) +
           image_flops(b, b->model, QKV_PASS_INPUT, QKV_PART_DISCRIMINATOR);
}

static size_t vqgan_tokens(const bench_training *b)
{
    size_t side = b->length / qkv_vqgan_factor(b->model);
    return b->batch * side * side;
}

#define VQGAN(name, batch, side)                                                                 \
    {name, batch, side, 0, vqgan_create, no_ids, vqgan_loss, vqgan_flops, vqgan_tokens,          \
     "codes", " pixels", NULL}

const bench_network bench_networks[] = {
    {"bert-base", 8, 128, 0.1, bert_create, bert_ids, bert_loss, bert_flops, networks_tokens,
     "tokens", "", bert_forward},
    {"transformer-base", 128, 32, 0.1, transformer_create, transformer_ids, transformer_loss,
     transformer_flops, transformer_tokens, "tokens", " pairs", NULL},
    {"vit-base", 8, 224, 0, vit_create, vit_ids, vit_loss, picture_flops, vit_tokens, "tokens",
     " pixels", vit_forward},
    {"mae-base", 8, 224, 0, mae_create, no_ids, mae_loss, picture_flops, images_count, "images",
     " pixels", NULL},
    {"cct-7", 128, 32, 0, cct_create, vit_ids, vit_loss, picture_flops, images_count, "images",
     " pixels", vit_forward},
    VQGAN("vqgan-nano", 16, 32), VQGAN("vqgan-micro", 16, 32), VQGAN("vqgan-mini", 16, 64),
    VQGAN("vqgan-f8", 1, 256), VQGAN("vqgan-f16", 1, 256),
    {NULL, 4, 256, 0, gpt_create, gpt_ids, gpt_loss, gpt_flops, networks_tokens, "tokens", "",
     NULL},
};
