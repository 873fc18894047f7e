/* Batches of augmented images: what each step does to images of one colour or of numbered
 * pixels, shares of mixed targets, and that a sample depends on its number alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "fixture.h"

#include "image/augment_steps.h"

enum { COUNT = 21, H = 9, W = 11, C = 3, BYTES = H * W * C, CLASSES = 7, N = 64 };

/* One colour each: 10 i, in all channels; or numbered(): a value for every place. */
static uint8_t plain(size_t i, size_t k) { return (uint8_t)(10 * i + 0 * k); }
static uint8_t numbered(size_t i, size_t k) { return (uint8_t)(37 * i + k / C * 2 + k % C); }

static uint8_t classless(size_t i, size_t k) { return (uint8_t)(i + k); }

static qkv_pixels *made(uint8_t (*value)(size_t, size_t))
{
    qkv_pixels_writer *w;
    qkv_pixels *p;
    uint8_t data[BYTES];
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, H, W, C), QKV_OK);
    for (int c = 0; c < CLASSES; c++)
        assert_int_equal(qkv_pixels_add_class(w, "class"), QKV_OK);
    for (size_t i = 0; i < COUNT; i++) {
        int32_t class_ = value == classless ? -1 : (int32_t)(i % CLASSES);
        for (size_t k = 0; k < BYTES; k++)
            data[k] = value(i, k);
        assert_int_equal(qkv_pixels_add(w, data, class_, "a.png"), QKV_OK);
    }
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_OK);
    return p;
}

/* Numbers come back as they are stored: mean 0, and 255 of them make one. */
static qkv_batches_options options(void)
{
    qkv_batches_options o = {.count = COUNT, .seed = 3, .augment = qkv_augment_defaults()};
    for (int c = 0; c < 3; c++)
        o.std[c] = 1 / 255.0;
    return o;
}

static qkv_batches *batches(const qkv_pixels *p, const qkv_batches_options *o)
{
    qkv_batches *b;
    assert_int_equal(qkv_batches_create(&b, ctx, p, o), QKV_OK);
    return b;
}

static qkv_real x[N * BYTES], targets[N * CLASSES];
static size_t numbers[N];

/* The first N samples, and that rows of targets sum to 1. */
static void get(const qkv_pixels *p, const qkv_batches_options *o)
{
    qkv_batches *b = batches(p, o);
    assert_int_equal(qkv_batches_get(b, 0, N, x, targets, numbers), QKV_OK);
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (size_t c = 0; c < CLASSES; c++)
            sum += (double)targets[i * CLASSES + c];
        assert_true(fabs(sum - 1) < 1e-6);
    }
    qkv_batches_destroy(b);
}

static bool near_(qkv_real a, double b) { return fabs((double)a - b) < 1e-3; }

static void test_epochs(void **state)
{
    (void)state;
    qkv_pixels *p = made(numbered);
    qkv_batches_options o = options();
    const double mean[3] = {0.1, 0.2, 0.3}, std[3] = {0.5, 0.6, 0.7};
    qkv_real *plain_x = calloc(N * BYTES, sizeof *plain_x);
    size_t seen[COUNT] = {0}, moved = 0;
    memcpy(o.mean, mean, sizeof mean);
    memcpy(o.std, std, sizeof std);
    o.smoothing = 0.1;
    get(p, &o);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < BYTES; k++)
            assert_true(near_(x[i * BYTES + k],
                              (numbered(numbers[i], k) / 255.0 - mean[k % C]) / std[k % C]));
        for (size_t c = 0; c < CLASSES; c++)
            assert_true(near_(targets[i * CLASSES + c],
                              0.1 / CLASSES + (numbers[i] % CLASSES == c ? 0.9 : 0)));
        seen[numbers[i]] += i < 3 * COUNT;
        moved += i >= COUNT && numbers[i] != numbers[i - COUNT];
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(seen[i], 3);
    assert_true(moved > COUNT);
    qkv_pixels_values(plain_x, ctx, p, numbers, N, mean, std);
    assert_memory_equal(plain_x, x, sizeof x);
    static const size_t some[3] = {4, 9, 20};
    o.images = some;
    o.count = 3;
    get(p, &o);
    for (size_t i = 0; i < N; i++)
        assert_true(numbers[i] == 4 || numbers[i] == 9 || numbers[i] == 20);
    free(plain_x);
    qkv_pixels_close(p);
}

/* With everything on. */
static qkv_batches_options all_options(void)
{
    qkv_batches_options o = options();
    o.augment = (qkv_augment_options){.crop_scale = 0.3, .crop_pad = 2, .flip = true,
                                      .randaugment = 2, .magnitude = 9, .magnitude_spread = 0.5,
                                      .erase = 0.3, .mixup = 0.8, .cutmix = 1, .mix = 0.8};
    return o;
}

static void test_depends_on_the_number_alone(void **state)
{
    (void)state;
    static qkv_real other[N * BYTES], other_targets[N * CLASSES];
    qkv_pixels *p = made(numbered);
    qkv_batches_options o = all_options();
    get(p, &o);
    qkv_context *wide;
    qkv_context_options three = qkv_context_defaults();
    three.threads = 3;
    assert_int_equal(qkv_context_create(&wide, &three), QKV_OK);
    for (int team = 0; team < 2; team++) {
        qkv_batches *b;
        memset(other, 0xff, sizeof other);
        assert_int_equal(qkv_batches_create(&b, team ? wide : ctx, p, &o), QKV_OK);
        for (size_t first = N, n = 1; first > 0; n = n % 5 + 2) { /* in another order and cut */
            n = n < first ? n : first;
            first -= n;
            assert_int_equal(qkv_batches_get(b, first, n, other + first * BYTES,
                                             other_targets + first * CLASSES, NULL), QKV_OK);
        }
        assert_memory_equal(other, x, sizeof x);
        assert_memory_equal(other_targets, targets, sizeof targets);
        qkv_batches_destroy(b);
    }
    o.seed++;
    get(p, &o);
    assert_memory_not_equal(other, x, sizeof x);
    qkv_context_destroy(wide);
    qkv_pixels_close(p);
}

/* Is the sample the image moved by (dx, dy), with 77 beyond its edge? */
static bool is_moved(size_t sample, int dx, int dy)
{
    for (int y = 0; y < H; y++)
        for (int column = 0; column < W; column++) {
            int fx = column + dx, fy = y + dy;
            bool inside = fx >= 0 && fx < W && fy >= 0 && fy < H;
            double want = inside ? numbered(numbers[sample], (size_t)(fy * W + fx) * C) : 77;
            if (!near_(x[(sample * H * W + (size_t)(y * W + column)) * C] + 77, want))
                return false;
        }
    return true;
}

static void test_moves_and_mirrors(void **state)
{
    (void)state;
    qkv_pixels *p = made(numbered);
    qkv_batches_options o = options();
    o.augment.crop_pad = 2;
    for (int c = 0; c < 3; c++)
        o.mean[c] = 77 / 255.0;
    get(p, &o);
    size_t places[25] = {0}, different = 0, mirrored = 0;
    for (size_t i = 0; i < N; i++) {
        size_t found = 0;
        for (int place = 0; place < 25; place++)
            if (is_moved(i, place % 5 - 2, place / 5 - 2)) {
                places[place]++;
                found++;
            }
        assert_int_equal(found, 1);
    }
    for (int place = 0; place < 25; place++)
        different += places[place] > 0;
    assert_true(different > 17);
    o.augment.crop_pad = 0;
    o.augment.flip = true;
    get(p, &o);
    for (size_t i = 0; i < N; i++) {
        bool same = is_moved(i, 0, 0);
        mirrored += !same;
        for (size_t k = 0; !same && k < W; k++)
            assert_true(near_(x[i * BYTES + k * C] + 77, numbered(numbers[i], (W - 1 - k) * C)));
    }
    assert_true(mirrored > N / 4 && mirrored < 3 * N / 4);
    qkv_pixels_close(p);
}

/* The class of the partner: the other one with a share; or the sample's. */
static size_t partner_of(size_t i) { return numbers[i ^ 1]; }

static void test_cutmix(void **state)
{
    (void)state;
    qkv_pixels *p = made(plain);
    qkv_batches_options o = options();
    o.augment.cutmix = 1;
    get(p, &o);
    size_t cut = 0;
    for (size_t i = 0; i < N; i++) {
        size_t own = numbers[i], other = partner_of(i), foreign = 0;
        for (size_t k = 0; k < BYTES; k += C) {
            bool is_own = near_(x[i * BYTES + k], (double)plain(own, 0));
            assert_true(is_own || near_(x[i * BYTES + k], (double)plain(other, 0)));
            foreign += !is_own;
        }
        double share = (double)foreign / (H * W);
        if (own % CLASSES != other % CLASSES)
            assert_true(near_(targets[i * CLASSES + other % CLASSES], share));
        cut += foreign > 0;
    }
    assert_true(cut > N / 2);
    qkv_pixels_close(p);
}

static void test_mixup(void **state)
{
    (void)state;
    qkv_pixels *p = made(plain);
    qkv_batches_options o = options();
    o.augment.mixup = 1;
    o.augment.mix = 0.75;
    get(p, &o);
    size_t mixed = 0;
    for (size_t i = 0; i < N; i++) {
        size_t own = numbers[i], other = partner_of(i);
        if (own % CLASSES == other % CLASSES)
            continue;
        double keep = (double)targets[i * CLASSES + own % CLASSES];
        mixed += keep < 1;
        for (size_t k = 0; k < BYTES; k++)
            assert_true(near_(x[i * BYTES + k],
                              keep * plain(own, k) + (1 - keep) * plain(other, k)));
    }
    assert_true(mixed > N / 2 && mixed < 7 * N / 8);
    qkv_pixels_close(p);
}

static void test_erase_and_crop(void **state)
{
    (void)state;
    qkv_pixels *p = made(plain);
    qkv_batches_options o = options();
    o.augment.erase = 0.5;
    o.augment.crop_scale = 0.2;
    o.mean[0] = o.mean[1] = o.mean[2] = 255 / 255.0;
    get(p, &o);
    size_t erased = 0;
    for (size_t i = 0; i < N; i++) {
        size_t blank = 0;
        for (size_t k = 0; k < BYTES; k++) {
            bool is_blank = near_(x[i * BYTES + k], 0);
            assert_true(is_blank || near_(x[i * BYTES + k] + 255, plain(numbers[i], k)));
            blank += is_blank;
        }
        assert_true(blank < BYTES * 2 / 5);
        erased += blank > 0;
    }
    assert_true(erased > N / 4 && erased < 3 * N / 4);
    qkv_pixels_close(p);
}

/* Whatever is drawn, all changes are made some time, and numbers stay bytes. */
static void test_randaugment(void **state)
{
    (void)state;
    qkv_pixels *p = made(numbered);
    qkv_batches_options o = options();
    size_t names = 0, same = 0;
    while (qkv_augment_names()[names])
        names++;
    assert_int_equal(names, 14);
    o.augment.randaugment = 1;
    get(p, &o);
    for (size_t i = 0; i < N; i++) {
        bool all = true;
        for (size_t k = 0; k < BYTES; k++) {
            qkv_real v = x[i * BYTES + k];
            assert_true(v > -0.1 && v < 255.1 && near_(v, round((double)v)));
            all = all && near_(v, numbered(numbers[i], k));
        }
        same += all;
    }
    assert_true(same > 0 && same < N / 2); /* identity, and equalize of so few pixels */
    qkv_pixels_close(p);
}

/* Variance of Beta(a, a): 1 / (4 (2 a + 1)). */
static void test_beta(void **state)
{
    (void)state;
    static const double as[] = {0.2, 1, 3};
    enum { DRAWS = 20000 };
    for (size_t k = 0; k < 3; k++) {
        qkv_rng r;
        double sum = 0, squares = 0, a = as[k];
        qkv_rng_init(&r, 1, k);
        for (int i = 0; i < DRAWS; i++) {
            double v = qkv__rng_beta(&r, a);
            assert_true(v >= 0 && v <= 1);
            sum += v;
            squares += (v - 0.5) * (v - 0.5);
        }
        assert_true(fabs(sum / DRAWS - 0.5) < 0.012);
        assert_true(fabs(squares / DRAWS * 4 * (2 * a + 1) - 1) < 0.03);
    }
}

/* ---- masks ---------------------------------------------------------------------------------- */

enum { SIDE = 16, PLACES = SIDE * SIDE };

/* One image whose red and green say where a pixel is, in 16ths, and whose blue says that it is
 * one at all (C channels); or the number of each pixel (1 channel). */
static qkv_pixels *places(size_t channels)
{
    qkv_pixels_writer *w;
    qkv_pixels *p;
    uint8_t data[PLACES * C];
    for (size_t i = 0; i < PLACES; i++) {
        const size_t values[C] = {i % SIDE * SIDE, i / SIDE * SIDE, 255};
        for (size_t c = 0; c < channels; c++)
            data[i * channels + c] = (uint8_t)(channels == 1 ? i : values[c]);
    }
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, SIDE, SIDE, channels), QKV_OK);
    assert_int_equal(qkv_pixels_add(w, data, -1, "a.png"), QKV_OK);
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_OK);
    return p;
}

static bool in_place(const int32_t *classes)
{
    for (int32_t i = 0; i < PLACES; i++)
        if (classes[i] != i)
            return false;
    return true;
}

/* Do the pixels show the places that their classes are, to `error` of a pixel, and beyond the edge
 * the black that stands there? */
static bool is_aligned(const uint8_t *pixels, const int32_t *classes, double error)
{
    for (size_t i = 0; i < PLACES; i++) {
        const uint8_t *rgb = pixels + i * C;
        if ((rgb[2] == 0) != (classes[i] == QKV_BEYOND))
            return false;
        if (rgb[2] < 255) /* mixed with what is beyond */
            continue;
        if (fabs((double)rgb[0] / SIDE - classes[i] % SIDE) > error ||
            fabs((double)rgb[1] / SIDE - classes[i] / SIDE) > error)
            return false;
    }
    return true;
}

/* Some of N samples stay where they were; in the others the mask is where the image is. */
static void test_masks(void **state)
{
    (void)state;
    static const struct {
        qkv_augment_options augment;
        double error;
        size_t least, most; /* samples that stay in place */
    } cases[] = {
        {{0}, 0, N, N},
        {{.flip = true}, 0, N / 4, 3 * N / 4},
        {{.crop_pad = 3}, 0, 0, N / 8},
        {{.crop_pad = 3, .flip = true}, 0, 0, N / 8},
        {{.crop_scale = 0.3, .crop_filter = QKV_RESIZE_BILINEAR}, 0.6, 0, N / 8},
        {{.crop_scale = 0.3, .crop_filter = QKV_RESIZE_BILINEAR, .crop_pad = 2, .flip = true}, 0.6,
         0, N / 8},
        {{.randaugment = 1, .magnitude = 9, .magnitude_spread = 0.5}, 0.6, N / 3, 3 * N / 4},
        {{.erase = 1}, 0, N, N},
    };
    qkv_pixels *p = places(C), *masks = places(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const qkv_batches_options o = {.count = 1, .std = {1, 1, 1}, .seed = 5, .masks = masks,
                                       .augment = cases[i].augment};
        const uint8_t *pixels;
        const int32_t *classes;
        qkv_batches *b = batches(p, &o);
        size_t still = 0;
        assert_int_equal(qkv_batches_bytes(b, 1, N, &pixels, &classes, NULL), QKV_OK);
        for (size_t k = 0; k < N; k++) {
            bool stays = in_place(classes + k * PLACES);
            still += stays;
            if (!stays && !is_aligned(pixels + k * PLACES * C, classes + k * PLACES,
                                      cases[i].error))
                fail_msg("case %zu: sample %zu and its mask disagree", i, k);
        }
        if (still < cases[i].least || still > cases[i].most)
            fail_msg("case %zu: %zu of %d samples are in place", i, still, (int)N);
        qkv_batches_destroy(b);
    }
    qkv_pixels_close(p);
    qkv_pixels_close(masks);
}

static void test_masks_refused(void **state)
{
    (void)state;
    qkv_batches *b;
    const uint8_t *pixels;
    const int32_t *classes;
    qkv_pixels *p = places(C), *masks = places(1), *other = made(plain);
    qkv_batches_options o = {.count = 1, .std = {1, 1, 1}, .masks = p};
    assert_int_equal(qkv_batches_create(&b, ctx, p, &o), QKV_E_ARGUMENT);
    o.masks = other;
    assert_int_equal(qkv_batches_create(&b, ctx, p, &o), QKV_E_ARGUMENT);
    o.masks = masks;
    o.augment = (qkv_augment_options){.cutmix = 1, .mix = 1};
    assert_int_equal(qkv_batches_create(&b, ctx, p, &o), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "not mixed"));
    o.masks = NULL;
    b = batches(p, &o);
    assert_int_equal(qkv_batches_bytes(b, 0, 1, &pixels, &classes, NULL), QKV_E_ARGUMENT);
    qkv_batches_destroy(b);
    o.masks = masks;
    o.augment = (qkv_augment_options){.crop_scale = 0.5, .crop_pad = 1};
    for (size_t n = 0; n < 16; n++) {
        memory.left = n;
        if (qkv_batches_create(&b, ctx, p, &o) == QKV_OK &&
            qkv_batches_bytes(b, 0, 2, &pixels, &classes, NULL) != QKV_OK)
            assert_null(pixels);
        qkv_batches_destroy(b);
    }
    memory.left = SIZE_MAX;
    qkv_pixels_close(p);
    qkv_pixels_close(masks);
    qkv_pixels_close(other);
}

static void test_refused(void **state)
{
    (void)state;
    qkv_batches *b;
    qkv_pixels *p = made(plain);
    qkv_batches_options o = options();
    o.count = COUNT + 1;
    assert_int_equal(qkv_batches_create(&b, ctx, p, &o), QKV_E_ARGUMENT);
    o = options();
    o.std[1] = 0;
    assert_int_equal(qkv_batches_create(&b, ctx, p, &o), QKV_E_ARGUMENT);
    o = options();
    o.augment.crop_pad = H;
    assert_int_equal(qkv_batches_create(&b, ctx, p, &o), QKV_E_ARGUMENT);
    assert_null(b);
    o = all_options();
    b = batches(p, &o);
    assert_int_equal(qkv_batches_get(b, 0, 2, x, NULL, NULL), QKV_E_ARGUMENT);
    qkv_batches_destroy(b);
    qkv_pixels *without = made(classless);
    b = batches(without, &o);
    assert_int_equal(qkv_batches_get(b, 0, 2, x, targets, NULL), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "a.png has no class"));
    qkv_batches_destroy(b);
    qkv_pixels_close(without);
    for (size_t n = 0; n < 12; n++) {
        memory.left = n;
        if (qkv_batches_create(&b, ctx, p, &o) == QKV_OK &&
            qkv_batches_get(b, 0, 8, x, targets, NULL) == QKV_OK)
            assert_int_equal(qkv_batches_get(b, 5, 8, x, targets, NULL), QKV_OK);
        qkv_batches_destroy(b);
    }
    memory.left = SIZE_MAX;
    qkv_pixels_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_depends_on_the_number_alone),
        cmocka_unit_test(test_moves_and_mirrors),
        cmocka_unit_test(test_cutmix),
        cmocka_unit_test(test_mixup),
        cmocka_unit_test(test_erase_and_crop),
        cmocka_unit_test(test_randaugment),
        cmocka_unit_test(test_beta),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_masks_refused),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
