/* augment.c - batches of augmented images, and of the classes of their pixels. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "image/augment_steps.h"

/* ---- options -------------------------------------------------------------------------------- */

#define FIELD(member) .offset = offsetof(qkv_augment_options, member)

static const char *const filters[] = {"box", "bilinear", "bicubic", NULL};
static const qkv_option rows[] = {
    {.flag = "crop-scale", .key = "crop_scale", .type = QKV_OPT_REAL, .max = 1, FIELD(crop_scale),
     .initial = "0", .help = "smallest share of an image that is cut out and seen; 0: all"},
    {.flag = "crop-filter", .key = "crop_filter", .type = QKV_OPT_ENUM, FIELD(crop_filter),
     .names = filters, .initial = "bicubic", .help = "how such a part is resized"},
    {.flag = "crop-pad", .key = "crop_pad", .type = QKV_OPT_SIZE, .max = 1024, FIELD(crop_pad),
     .initial = "0", .help = "most pixels that an image is moved by"},
    {.flag = "flip", .key = "flip", .type = QKV_OPT_BOOL, FIELD(flip), .initial = "false",
     .help = "show every other image mirrored"},
    {.flag = "jitter", .key = "jitter", .type = QKV_OPT_REAL, .max = 1, FIELD(jitter),
     .initial = "0", .help = "strength of random changes of brightness, contrast and colours"},
    {.flag = "grey", .key = "grey", .type = QKV_OPT_REAL, .max = 1, FIELD(grey), .initial = "0",
     .help = "probability that an image loses its colours"},
    {.flag = "randaugment", .key = "randaugment", .type = QKV_OPT_SIZE, .max = 14,
     FIELD(randaugment), .initial = "0", .help = "RandAugment's changes to each image"},
    {.flag = "magnitude", .key = "magnitude", .type = QKV_OPT_REAL, .max = 10, FIELD(magnitude),
     .initial = "9", .help = "their strength, of 10"},
    {.flag = "magnitude-spread", .key = "magnitude_spread", .type = QKV_OPT_REAL, .max = 10,
     FIELD(magnitude_spread), .initial = "0.5", .help = "standard deviation of the strength"},
    {.flag = "erase", .key = "erase", .type = QKV_OPT_REAL, .max = 1, FIELD(erase), .initial = "0",
     .help = "probability that a part of an image is blanked"},
};

static const qkv_option mix_rows[] = {
    {.flag = "mixup", .key = "mixup", .type = QKV_OPT_REAL, .max = 1000, FIELD(mixup),
     .initial = "0", .help = "alpha of mixup's Beta distribution; 0: none"},
    {.flag = "cutmix", .key = "cutmix", .type = QKV_OPT_REAL, .max = 1000, FIELD(cutmix),
     .initial = "0", .help = "alpha of cutmix's Beta distribution; 0: none"},
    {.flag = "mix", .key = "mix", .type = QKV_OPT_REAL, .max = 1, FIELD(mix), .initial = "1",
     .help = "probability of mixup or cutmix, where given"},
};

const qkv_option_table qkv__augment_table = {"Augmentation", rows, sizeof rows / sizeof *rows,
                                             sizeof(qkv_augment_options)};
const qkv_option_table qkv__mix_table = {"Mixing", mix_rows, sizeof mix_rows / sizeof *mix_rows, 0};
const qkv_option_table *qkv_augment_table(void) { return &qkv__augment_table; }
const qkv_option_table *qkv_mix_table(void) { return &qkv__mix_table; }

qkv_augment_options qkv_augment_defaults(void)
{
    qkv_augment_options o;
    qkv_option_defaults(&qkv__augment_table, &o);
    qkv_option_defaults(&qkv__mix_table, &o);
    return o;
}

bool qkv_augment_mixes(const qkv_augment_options *o)
{
    return (o->mixup > 0 || o->cutmix > 0) && o->mix > 0;
}

/* ---- values --------------------------------------------------------------------------------- */

void qkv__values_make(qkv__values *t, const double mean[3], const double std[3])
{
    for (size_t c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            t->of[c][v] = (qkv_real)((v / 255.0 - mean[c]) / std[c]);
}

void qkv__values_put(qkv_real *x, const uint8_t *data, size_t size, size_t C,
                     const qkv__values *t)
{
    for (size_t i = 0; i < size; i += C)
        for (size_t c = 0; c < C; c++)
            x[i + c] = t->of[c][data[i + c]];
}

void qkv_pixels_values(qkv_real *x, qkv_context *ctx, const qkv_pixels *p, const size_t *images,
                       size_t n, const double mean[3], const double std[3])
{
    size_t C = qkv_pixels_channels(p), size = qkv_pixels_height(p) * qkv_pixels_width(p) * C;
    int threads = qkv_context_threads(ctx);
    qkv__values t;
    qkv__values_make(&t, mean, std);
#pragma omp parallel for num_threads(threads) if (n > 1) default(none) \
    shared(x, p, images, n, C, size, t)
    for (size_t i = 0; i < n; i++)
        qkv__values_put(x + i * size, qkv_pixels_data(p, images[i]), size, C, &t);
}

/* ---- batches -------------------------------------------------------------------------------- */

struct qkv_batches {
    qkv_context *ctx;
    const qkv_pixels *pixels;
    qkv_batches_options o;
    bool mixes;
    size_t height, width, channels, size; /* size: values of an image */
    qkv__values table;
    uint8_t fill[3]; /* the mean colour */
    int threads;
    qkv__augmenter *workers; /* (threads) */
    uint8_t *data;           /* (room, size): the samples of a batch before they are mixed */
    int32_t *classes;        /* (room, height, width), where there are masks */
    size_t *numbers;         /* (room): of their images */
    size_t room;
};

static qkv_status make_workers(qkv_batches *b)
{
    qkv_context_options one = qkv_context_defaults();
    one.threads = 1;
    b->workers = qkv_calloc(b->ctx, (size_t)b->threads, sizeof *b->workers);
    if (!b->workers)
        return QKV_E_MEMORY;
    for (int i = 0; i < b->threads; i++) {
        qkv__augmenter *a = &b->workers[i];
        qkv_status status = qkv_image_create(&a->spare, b->ctx, b->width, b->height, b->channels);
        if (!status && qkv_context_create(&a->ctx, &one))
            status = qkv_fail(b->ctx, QKV_E_MEMORY, "out of memory");
        if (!status && b->o.masks) {
            a->from = qkv_malloc(b->ctx, b->height * b->width * sizeof *a->from);
            a->spare_from = qkv_malloc(b->ctx, b->height * b->width * sizeof *a->from);
            status = a->from && a->spare_from ? QKV_OK : QKV_E_MEMORY;
        }
        if (status)
            return status;
    }
    return QKV_OK;
}

static qkv_status check_masks(qkv_context *ctx, const qkv_pixels *p, const qkv_batches_options *o)
{
    if (qkv_pixels_count(o->masks) != qkv_pixels_count(p) ||
        qkv_pixels_height(o->masks) != qkv_pixels_height(p) ||
        qkv_pixels_width(o->masks) != qkv_pixels_width(p) || qkv_pixels_channels(o->masks) != 1)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%zu masks of %zu x %zu with %zu channels, expected "
                        "%zu of %zu x %zu with 1", qkv_pixels_count(o->masks),
                        qkv_pixels_height(o->masks), qkv_pixels_width(o->masks),
                        qkv_pixels_channels(o->masks), qkv_pixels_count(p), qkv_pixels_height(p),
                        qkv_pixels_width(p));
    if (qkv_augment_mixes(&o->augment))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "images with masks are not mixed");
    return QKV_OK;
}

static qkv_status augment_check_options(qkv_context *ctx, const qkv_pixels *p,
                                        const qkv_batches_options *o)
{
    const qkv_augment_options *a = &o->augment;
    size_t height = qkv_pixels_height(p), width = qkv_pixels_width(p);
    if (a->crop_pad && (a->crop_pad >= height || a->crop_pad >= width))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "crop_pad: %zu x %zu pixels cannot be moved by %zu",
                        height, width, a->crop_pad);
    if (!o->count || (!o->images && o->count > qkv_pixels_count(p)))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "batches from %zu of %zu images", o->count,
                        qkv_pixels_count(p));
    for (size_t c = 0; c < qkv_pixels_channels(p); c++)
        if (!(o->std[c] > 0))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "a standard deviation of %g: above 0 expected",
                            o->std[c]);
    return o->masks ? check_masks(ctx, p, o) : QKV_OK;
}

qkv_status qkv_batches_create(qkv_batches **out, qkv_context *ctx, const qkv_pixels *pixels,
                              const qkv_batches_options *options)
{
    *out = NULL;
    qkv_status status = augment_check_options(ctx, pixels, options);
    if (status)
        return status;
    qkv_batches *b = qkv_calloc(ctx, 1, sizeof *b);
    if (!b)
        return QKV_E_MEMORY;
    b->ctx = ctx;
    b->pixels = pixels;
    b->o = *options;
    b->mixes = qkv_augment_mixes(&options->augment);
    b->height = qkv_pixels_height(pixels);
    b->width = qkv_pixels_width(pixels);
    b->channels = qkv_pixels_channels(pixels);
    b->size = b->height * b->width * b->channels;
    b->threads = qkv_context_threads(ctx);
    qkv__values_make(&b->table, options->mean, options->std);
    for (size_t c = 0; c < 3; c++) {
        double m = options->mean[c] * 255 + 0.5;
        b->fill[c] = (uint8_t)(m < 0 ? 0 : m > 255 ? 255 : m);
    }
    status = make_workers(b);
    if (status) {
        qkv_batches_destroy(b);
        return status;
    }
    *out = b;
    return QKV_OK;
}

void qkv_batches_destroy(qkv_batches *b)
{
    if (!b)
        return;
    for (int i = 0; b->workers && i < b->threads; i++) {
        qkv_image_free(&b->workers[i].spare, b->ctx);
        qkv_context_destroy(b->workers[i].ctx);
        qkv_free(b->ctx, b->workers[i].from);
        qkv_free(b->ctx, b->workers[i].spare_from);
    }
    qkv_free(b->ctx, b->workers);
    qkv_free(b->ctx, b->data);
    qkv_free(b->ctx, b->classes);
    qkv_free(b->ctx, b->numbers);
    qkv_free(b->ctx, b);
}

/* For n samples and the partners of the first and the last. */
static qkv_status augment_make_room(qkv_batches *b, size_t n)
{
    n += 2;
    if (n <= b->room)
        return QKV_OK;
    qkv_free(b->ctx, b->data);
    qkv_free(b->ctx, b->classes);
    qkv_free(b->ctx, b->numbers);
    b->room = 0;
    b->data = qkv_calloc(b->ctx, n, b->size);
    b->classes = b->o.masks ? qkv_calloc(b->ctx, n, b->height * b->width * sizeof *b->classes)
                            : NULL;
    b->numbers = qkv_calloc(b->ctx, n, sizeof *b->numbers);
    if (!b->data || !b->numbers || (b->o.masks && !b->classes))
        return QKV_E_MEMORY;
    b->room = n;
    return QKV_OK;
}

/* The image of a sample. */
static size_t image_of(const qkv_batches *b, uint64_t sample)
{
    size_t views = b->o.views ? b->o.views : 1;
    size_t place = (size_t)qkv__epoch_place(b->o.seed, "pictures", sample / views, b->o.count);
    return b->o.images ? b->o.images[place] : place;
}

/* Of the sample at place k, which a has just made. */
static void put_classes(const qkv_batches *b, size_t k, const qkv__augmenter *a)
{
    size_t n = b->height * b->width;
    const uint8_t *mask = qkv_pixels_data(b->o.masks, b->numbers[k]);
    for (size_t i = 0; i < n; i++)
        b->classes[k * n + i] = a->from[i] < 0 ? QKV_BEYOND : mask[a->from[i]];
}

/* Sample number `sample`, at place k of the batch's memory. */
static qkv_status change_one(const qkv_batches *b, uint64_t sample, size_t k, qkv__augmenter *a)
{
    qkv_rng r;
    size_t number = image_of(b, sample);
    qkv_image out = {b->width, b->height, b->channels, b->data + k * b->size};
    const uint8_t *data = qkv_pixels_data(b->pixels, number);
    /* qkv_image has no const data; nothing is written to it. */
    const qkv_image in = {b->width, b->height, b->channels, (uint8_t *)(uintptr_t)data};
    b->numbers[k] = number;
    qkv_rng_init(&r, b->o.seed, qkv_hash64("augment", 7) + sample);
    qkv_status status = qkv__augment(&out, &in, &b->o.augment, b->fill, &r, a);
    if (!status && b->o.masks)
        put_classes(b, k, a);
    return status;
}

/* The sample at place k, mixed with the one at place `partner`. */
static void mix_one(const qkv_batches *b, const qkv__mixture *m, size_t k, size_t partner,
                    qkv_real *x)
{
    const uint8_t *own = b->data + k * b->size, *other = b->data + partner * b->size;
    size_t C = b->channels, row = b->width * C;
    qkv__values_put(x, own, b->size, C, &b->table);
    for (size_t y = m->top; y < m->bottom; y++) {
        size_t at = y * row + m->left * C;
        qkv__values_put(x + at, other + at, (m->right - m->left) * C, C, &b->table);
    }
    if (m->pixel_keep >= 1)
        return;
    qkv_real keep = (qkv_real)m->pixel_keep;
    for (size_t i = 0; i < b->size; i += C)
        for (size_t c = 0; c < C; c++)
            x[i + c] = keep * x[i + c] + (1 - keep) * b->table.of[c][other[i + c]];
}

static void put_target(const qkv_batches *b, double keep, size_t k, size_t partner,
                       qkv_real *target)
{
    size_t classes = qkv_pixels_classes(b->pixels);
    double all = b->o.smoothing / (double)classes, one = 1 - b->o.smoothing;
    for (size_t c = 0; c < classes; c++)
        target[c] = (qkv_real)all;
    int32_t own = qkv_pixels_class(b->pixels, b->numbers[k]);
    int32_t other = qkv_pixels_class(b->pixels, b->numbers[partner]);
    if (own == other)
        keep = 1;
    target[own] = (qkv_real)(all + one * keep);
    if (own != other)
        target[other] = (qkv_real)(all + one * (1 - keep));
}

static void finish_one(const qkv_batches *b, uint64_t sample, size_t k, size_t partner,
                       qkv_real *x, qkv_real *target)
{
    qkv__mixture m = {.keep = 1, .pixel_keep = 1};
    if (b->mixes) {
        qkv_rng r;
        qkv_rng_init(&r, b->o.seed, qkv_hash64("mix", 3) + sample);
        m = qkv__draw_mixture(&b->o.augment, b->height, b->width, &r);
    }
    mix_one(b, &m, k, partner, x);
    if (target)
        put_target(b, m.keep, k, partner, target);
}

/* Samples from .. from + n - 1, as they are before they are mixed. */
static qkv_status change_all(qkv_batches *b, uint64_t from, size_t n)
{
    int failed = 0;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 4) default(none) \
    shared(b, from, n) reduction(max : failed)
    for (size_t k = 0; k < n; k++)
        if (change_one(b, from + k, k, &b->workers[omp_get_thread_num()]))
            failed = 1;
    return failed ? qkv_fail(b->ctx, QKV_E_MEMORY, "out of memory for a batch of %zu images", n)
                  : QKV_OK;
}

static qkv_status check_classes(const qkv_batches *b, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (qkv_pixels_class(b->pixels, b->numbers[k]) < 0)
            return qkv_fail(b->ctx, QKV_E_ARGUMENT, "%s has no class",
                            qkv_pixels_name(b->pixels, b->numbers[k]));
    return QKV_OK;
}

qkv_status qkv_batches_get(qkv_batches *b, uint64_t first, size_t n, qkv_real *x,
                           qkv_real *targets, size_t *numbers)
{
    /* Both of every pair are needed to mix them. */
    uint64_t from = b->mixes ? first & ~(uint64_t)1 : first;
    uint64_t end = b->mixes ? (first + n + 1) & ~(uint64_t)1 : first + n;
    size_t skip = (size_t)(first - from), all = (size_t)(end - from);
    size_t classes = qkv_pixels_classes(b->pixels);
    if (b->mixes && !targets)
        return qkv_fail(b->ctx, QKV_E_ARGUMENT, "mixed images have targets");
    qkv_status status = augment_make_room(b, n);
    if (!status)
        status = change_all(b, from, all);
    if (!status && targets)
        status = check_classes(b, all);
    if (status)
        return status;
#pragma omp parallel for num_threads(b->threads) default(none) \
    shared(b, first, n, skip, x, targets, classes)
    for (size_t i = 0; i < n; i++) {
        size_t k = i + skip, partner = b->mixes ? k ^ 1 : k;
        finish_one(b, first + i, k, partner, x + i * b->size,
                   targets ? targets + i * classes : NULL);
    }
    if (numbers)
        memcpy(numbers, b->numbers + skip, n * sizeof *numbers);
    return QKV_OK;
}

qkv_status qkv_batches_bytes(qkv_batches *b, uint64_t first, size_t n, const uint8_t **pixels,
                             const int32_t **classes, const size_t **numbers)
{
    if (b->mixes)
        return qkv_fail(b->ctx, QKV_E_ARGUMENT, "mixed images are no bytes");
    qkv_status status = augment_make_room(b, n);
    if (!status)
        status = change_all(b, first, n);
    *pixels = status ? NULL : b->data;
    if (classes)
        *classes = status ? NULL : b->classes;
    if (numbers)
        *numbers = status ? NULL : b->numbers;
    return status;
}
