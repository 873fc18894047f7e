/* patch_images.c - where models of images answer, for activation patching: a class, or numbers at a
 * pixel, for many sequences at once. */
#include <string.h>

#include "report/code_panels.h"
#include "qkv/mae.h"
#include "qkv/pixelwise.h"
#include "qkv/vit.h"
#include "qkv/vqgan.h"

static qkv_tensor *keep_pixels(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv__looking *l = user;
    const qkv_real *data = qkv_data(t, x);
    size_t n = data ? qkv_count(x) : 0;
    (void)name;
    if (!l->pixels && data && qkv_ndim(x) == 4 && qkv_dim(x, 0) == 1 &&
        (l->pixels = qkv_malloc(l->p->ctx, n * sizeof *data)) != NULL) {
        memcpy(l->pixels, data, n * sizeof *data);
        for (int i = 0; i < 4; i++)
            l->pixel_shape[i] = qkv_dim(x, i);
    }
    return x;
}

/* What the model's own call on the image gets as its pixels. */
qkv_status qkv__patch_pixels(qkv__looking *l)
{
    qkv_tape *t = l->p->tape;
    qkv_status status = qkv_probe_add(t, "pixels", keep_pixels, l);
    if (!status)
        status = l->kind->run(l);
    qkv_probes_clear(t);
    return status ? status : l->pixels ? QKV_OK : QKV_E_MEMORY;
}

/* One image for all sequences: what comes before the stacks is not computed again. */
qkv_tensor *qkv__patch_image(const qkv__looking *l)
{
    return qkv_tensor_from(l->p->tape, l->pixels, 4, l->pixel_shape);
}

static qkv_tensor *image_class_outputs(qkv__looking *l, size_t n, int at)
{
    (void)n;
    (void)at;
    return qkv_vit_logits(l->p->model, l->p->tape, qkv__patch_image(l));
}

const qkv__patch_kind qkv__patch_image_classes = {
    .inputs = qkv__patch_pixels, .outputs = image_class_outputs, .name = qkv__patch_class_name};

static size_t pixel_places(const qkv__looking *l, size_t *columns)
{
    *columns = l->pixel_shape[2];
    return l->pixel_shape[1] * l->pixel_shape[2];
}

/* Images (n, H, W, channels) -> (n, H W, channels), or their pixel `at`. */
static qkv_tensor *pixel_outputs(qkv__looking *l, qkv_tensor *images, int at)
{
    if (!images)
        return NULL;
    size_t shape[] = {qkv_dim(images, 0), qkv_dim(images, 1) * qkv_dim(images, 2),
                      qkv_dim(images, 3)};
    images = qkv_contiguous(l->p->tape, images);
    return qkv__look_at(l, qkv_reshape(l->p->tape, images, 3, shape), at);
}

static const qkv_mae_config *mae_config_of(const qkv__looking *l)
{
    return qkv_model_config(l->p->model);
}

/* The masks of n copies of the image; order is to be freed. NULL: out of memory. */
static int32_t *mae_masks(const qkv__looking *l, size_t n, qkv_mae_masks *out)
{
    const qkv_patches_config *c = &mae_config_of(l)->trunk;
    size_t side = c->image / c->patch, patches = side * side;
    int32_t *order = qkv_malloc(l->p->ctx, n * patches * sizeof *order);
    for (size_t i = 0; order && i < n; i++)
        qkv_mae_shuffle(order + i * patches, patches, l->o.seed, 0);
    *out = (qkv_mae_masks){n, patches, qkv_mae_kept(patches, l->o.mask), order};
    return order;
}

/* Of a hidden patch: the model has learnt those alone. */
static bool mae_answers(const qkv__looking *l, size_t at)
{
    const qkv_patches_config *c = &mae_config_of(l)->trunk;
    const qkv_look_axis *a = &l->out->axes[0]; /* visible patches */
    size_t cell = at / c->image / c->patch * a->columns + at % c->image / c->patch;
    for (size_t i = a->lead; i < a->count; i++)
        if ((size_t)a->cells[i - a->lead] == cell)
            return a->count - a->lead == a->rows * a->columns; /* none is hidden */
    return true;
}

static qkv_tensor *masked_outputs(qkv__looking *l, size_t n, int at)
{
    const qkv_patches_config *c = &mae_config_of(l)->trunk;
    qkv_tape *t = l->p->tape;
    qkv_model *m = l->p->model;
    qkv_mae_masks one, all;
    int32_t *order = mae_masks(l, 1, &one), *orders = mae_masks(l, n, &all);
    qkv_tensor *y = NULL;
    size_t side = c->image / c->patch;
    if (order && orders)
        y = qkv_mae_decode(m, t, qkv_mae_encode(m, t, qkv__patch_image(l), &one), &all);
    y = y ? qkv_mae_patches(m, t, y) : NULL;
    y = y ? pixel_outputs(l, qkv_unpatchify(t, y, c->patch, side, side), at) : NULL;
    qkv_free(l->p->ctx, order);
    qkv_free(l->p->ctx, orders);
    return y;
}

static char *channel_name(const qkv__looking *l, size_t choice)
{
    static const char *const rgb[] = {"red", "green", "blue"};
    return qkv_strdup(l->p->ctx, l->pixel_shape[3] == 1 ? "grey" : rgb[choice % 3]);
}

const qkv__patch_kind qkv__patch_masked = {
    .numbers = true, .place = "pixel", .inputs = qkv__patch_pixels, .places = pixel_places,
    .answers = mae_answers, .outputs = masked_outputs, .name = channel_name};

static qkv_tensor *pixelwise_outputs(qkv__looking *l, size_t n, int at)
{
    qkv_tensor *y = qkv_pixelwise_forward(l->p->model, l->p->tape, qkv__patch_image(l));
    (void)n;
    return pixel_outputs(l, y, at);
}

const qkv__patch_kind qkv__patch_segmenter = {
    .place = "pixel", .inputs = qkv__patch_pixels, .places = pixel_places,
    .outputs = pixelwise_outputs, .name = qkv__patch_class_name};

static qkv_tensor *color_outputs(qkv__looking *l, size_t n, int at)
{
    enum { AB = 110 }; /* outputs are Lab's a and b divided by it */
    return qkv_scale(l->p->tape, pixelwise_outputs(l, n, at), AB);
}

static char *color_name(const qkv__looking *l, size_t choice)
{
    return qkv_strdup(l->p->ctx, choice ? "b" : "a");
}

const qkv__patch_kind qkv__patch_colorizer = {
    .numbers = true, .place = "pixel", .inputs = qkv__patch_pixels, .places = pixel_places,
    .outputs = color_outputs, .name = color_name};

/* ---- codes ----------------------------------------------------------------------------------- */

/* Every place of a tower has a map, and what it is given has no name. */
static const qkv__patch_layers towers = {
    .behind = ".*", .place = ".", .usual = "*", .maps = true};

/* The image decoded from the nearest codes. Where the encoder is not entered, of n copies. */
static qkv_tensor *decoded_outputs(qkv__looking *l, size_t n, int at)
{
    qkv_tape *t = l->p->tape;
    qkv_model *m = l->p->model;
    size_t shape[4], size = 1;
    memcpy(shape, l->pixel_shape, sizeof shape);
    for (int i = 1; i < 4; i++)
        size *= shape[i];
    shape[0] = n;
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, shape);
    qkv_real *to = qkv_tensor_fill(x);
    for (size_t i = 0; to && i < n; i++)
        memcpy(to + i * size, l->pixels, size * sizeof *to);
    qkv_tensor *codes = qkv_vqgan_codes(m, t, qkv_vqgan_encode(m, t, x));
    return pixel_outputs(l, qkv_vqgan_decode(m, t, qkv_vqgan_vectors(m, t, codes)), at);
}

static size_t images_at_once(const qkv__looking *l)
{
    return qkv__look_codes_batch(l->pixel_shape[1] * l->pixel_shape[2]);
}

const qkv__patch_kind qkv__patch_codes = {
    .layers = &towers, .numbers = true, .place = "pixel", .inputs = qkv__patch_pixels,
    .places = pixel_places, .at_once = images_at_once, .outputs = decoded_outputs,
    .name = channel_name};
