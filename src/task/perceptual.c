/* perceptual.c - teaching a perceptual network. */
#include "task/perceptual.h"

#include "qkv/color.h"
#include "task/common.h"

enum { COLORS = 3, AB = 2, LEAST_SIDE = 8 };
static const double MOST_AB = 110; /* a and b of Lab over it are learnt */

typedef struct {
    qkv__image_task base;
    qkv_real *lab; /* (room, 3) of the pixels of an image */
    bool colors;   /* it is asked for colours, not for classes */
} lpips;

static const qkv_perceptual_config *perceptual_config_of(const qkv_model *m)
{
    return qkv_model_config(m);
}

qkv_perceptual_config qkv_perceptual_task_config(size_t side, size_t classes)
{
    static const size_t channels[] = {32, 64, 128, 128, 128};
    qkv_perceptual_config c = {.answers = classes > 1 ? classes : AB};
    size_t most = sizeof channels / sizeof *channels;
    for (size_t s = 0; s < most && (s == 0 || side >= LEAST_SIDE); s++, side /= 2) {
        c.channels.item[s] = channels[s];
        c.convolutions.item[s] = 2;
        c.channels.count = c.convolutions.count = s + 1;
    }
    return c;
}

/* ---- colours ------------------------------------------------------------------------------ */

/* An image (height, width) in Lab as the network sees it, three times its lightness in [-1, 1],
 * and the mean a and b of each of rows x columns parts of it. */
static void perceptual_make_sample(const qkv_real *lab, size_t height, size_t width, size_t rows,
                                   size_t columns, qkv_real *x, qkv_real *ab)
{
    size_t down = height / rows, along = width / columns;
    for (size_t i = 0; i < height * width; i++)
        for (size_t c = 0; c < COLORS; c++)
            x[COLORS * i + c] = lab[COLORS * i] / 50 - 1;
    for (size_t p = 0; p < rows * columns; p++) {
        size_t top = p / columns * down, left = p % columns * along;
        double sum[AB] = {0};
        for (size_t i = 0; i < down * along; i++) {
            const qkv_real *at = lab + COLORS * ((top + i / along) * width + left + i % along);
            sum[0] += (double)at[1];
            sum[1] += (double)at[2];
        }
        for (size_t k = 0; k < AB; k++)
            ab[AB * p + k] = (qkv_real)(sum[k] / (double)(down * along) / MOST_AB);
    }
}

static qkv_tensor *color_loss(lpips *s, qkv_tape *t, uint64_t first, size_t count)
{
    size_t height = qkv_pixels_height(s->base.train), width = qkv_pixels_width(s->base.train);
    size_t deep = perceptual_config_of(s->base.model)->channels.count - 1;
    const size_t out[] = {count, height >> deep, width >> deep, AB};
    qkv_tensor *x = qkv__images_tensor(t, s->base.train, count);
    qkv_tensor *y = qkv_tensor_from(t, NULL, 4, out);
    const uint8_t *bytes;
    if (!x || !y || qkv_batches_bytes(s->base.batches, first, count, &bytes, NULL, NULL))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t each = height * width * COLORS;
        qkv_bytes_to_lab(s->lab, bytes + i * each, height * width);
        perceptual_make_sample(s->lab, height, width, out[1], out[2], qkv_tensor_fill(x) + i * each,
                               qkv_tensor_fill(y) + i * out[1] * out[2] * AB);
    }
    qkv_tensor *features = qkv_perceptual_features(s->base.model, t, x);
    return qkv_mse_loss(t, qkv_perceptual_answers(s->base.model, t, features, true), y);
}

/* ---- classes ------------------------------------------------------------------------------ */

static qkv_tensor *class_loss(lpips *s, qkv_tape *t, uint64_t first, size_t count)
{
    const size_t out[] = {count, perceptual_config_of(s->base.model)->answers};
    qkv_tensor *x = qkv__images_tensor(t, s->base.train, count);
    qkv_tensor *y = qkv_tensor_from(t, NULL, 2, out);
    if (!x || !y || qkv_batches_get(s->base.batches, first, count, qkv_tensor_fill(x),
                                    qkv_tensor_fill(y), NULL))
        return NULL;
    qkv_tensor *features = qkv_perceptual_features(s->base.model, t, x);
    return qkv_cross_entropy(t, qkv_perceptual_answers(s->base.model, t, features, false), y, NULL);
}

/* ---- the task ----------------------------------------------------------------------------- */

static qkv_tensor *perceptual_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    lpips *s = self;
    uint64_t first = qkv__first_sample(part);
    qkv_tensor *y = s->colors ? color_loss(s, t, first, part->count)
                              : class_loss(s, t, first, part->count);
    return qkv__share_of_batch(t, y, part);
}

static void perceptual_destroy(void *self)
{
    lpips *s = self;
    qkv_free(s->base.ctx, s->lab);
    qkv__image_task_destroy(s);
}

static const qkv_task_type perceptual_task_type = {
    .name = "perceptual", .unit = "images", .phases = 1, .loss = perceptual_loss,
    .flops = qkv__image_task_flops, .destroy = perceptual_destroy};

qkv_status qkv__perceptual_check(const qkv_model *m, const qkv_pixels *p)
{
    qkv_context *ctx = qkv_model_context(m);
    if (qkv_pixels_channels(p) != COLORS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "images of %zu channels: 3 expected",
                        qkv_pixels_channels(p));
    size_t least = (size_t)1 << (perceptual_config_of(m)->channels.count - 1);
    if (qkv_pixels_height(p) < least || qkv_pixels_width(p) < least)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "images of %zu x %zu pixels for a network of %zu "
                        "stages", qkv_pixels_width(p), qkv_pixels_height(p),
                        perceptual_config_of(m)->channels.count);
    return QKV_OK;
}

static qkv_status check_answers(const qkv_model *m, const qkv_pixels *p)
{
    size_t classes = qkv_pixels_classes(p);
    if (perceptual_config_of(m)->answers == (classes > 1 ? classes : AB))
        return QKV_OK;
    return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "a network of %zu answers for images "
                    "of %zu classes", perceptual_config_of(m)->answers, classes);
}

qkv_status qkv_task_perceptual(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                               const qkv_augment_options *augment, uint64_t seed)
{
    qkv_context *ctx = qkv_model_context(model);
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_COMPARE_IMAGES))
        return QKV_E_ARGUMENT;
    qkv_status status = qkv__perceptual_check(model, train);
    if (!status)
        status = check_answers(model, train);
    lpips *s = qkv__task_alloc(ctx, sizeof *s, &status);
    if (!s)
        return status;
    qkv_batches_options b = {0};
    if (augment)
        b.augment = *augment;
    status = qkv__image_task_init(&s->base, model, train, NULL, seed, b, NULL);
    size_t pixels = qkv_pixels_height(train) * qkv_pixels_width(train);
    s->colors = qkv_pixels_classes(train) < 2;
    s->lab = status ? NULL : qkv_malloc(ctx, pixels * COLORS * sizeof *s->lab);
    if (!status && !s->lab)
        status = QKV_E_MEMORY;
    return qkv__task_finish(out, status, (qkv_task){&perceptual_task_type, s, model, seed, false});
}
