/* test_look_images.c - panels on patches: their numbers are those of plain sums over weights and
 * pixels, of finite differences and of further passes; options that do not suit are refused; memory
 * that gives out loses nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "report/patches.h"
#include "looked.h"
#include "pipelines.h"
#include "qkv/color.h"

enum { PATCH = 4, FILTERS = 16, VALUES = PATCH * PATCH * 3, PIXELS = SIDE * SIDE };

/* `count` numbers behind the key in a panel's JSON, from `from` on (NULL: its begin). */
static const char *read_numbers(const qkv_look *l, const char *panel, const char *key,
                                const char *from, double *out, size_t count)
{
    const qkv_look_panel *p = qkv_look_panel_of(l, panel);
    assert_non_null(p);
    const char *at = strstr(from ? from : p->json, key);
    if (!at)
        fail_msg("panel %s has no %s", panel, key);
    at += strlen(key);
    for (size_t i = 0; i < count; i++) {
        char *end;
        at += strspn(at, "\":[],");
        out[i] = strtod(at, &end);
        assert_true(end > at);
        at = end;
    }
    return at;
}

static void check_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%.9g is not %.9g", a, b);
}

static void look_at(qkv_pipeline *p, const qkv_image *image, const qkv_pipeline_look_options *o,
                    qkv_look *l)
{
    const qkv_look_input in = {.image = {.image = image}};
    if (qkv_pipeline_look(p, &in, o, l))
        fail_msg("%s", qkv_context_message(ctx));
}

/* The numbers that a classifier gets for a window's pixels. */
static double value_at(const qkv_image *image, size_t x, size_t y, size_t i)
{
    size_t pixel = i / 3, at = (y + pixel / PATCH) * image->width + x + pixel % PATCH;
    return (image->data[3 * at + i % 3] / 255.0 - 0.5) / 0.5;
}

/* ---- principal components ------------------------------------------------------------------- */

/* Rows around a mean, along two directions at a right angle. */
static void components(void **state)
{
    (void)state;
    enum { N = 40, WIDE = 12 };
    double rows[N * WIDE], found[2 * WIDE], shares[2], sum[2] = {0, 0};
    for (size_t i = 0; i < N; i++) {
        double a = 3 * cos(2 * M_PI * (double)i / N), b = sin(2 * M_PI * (double)i / N);
        sum[0] += a * a;
        sum[1] += b * b;
        for (size_t j = 0; j < WIDE; j++)
            rows[i * WIDE + j] = 5 + (double)j + a * (j < 6) / sqrt(6) - b * (j >= 6) / sqrt(6);
    }
    assert_int_equal(qkv__look_components(ctx, rows, N, WIDE, 2, found, shares), QKV_OK);
    for (size_t j = 0; j < WIDE; j++) {
        check_near(found[j], j < 6 ? 1 / sqrt(6) : 0, 1e-6);
        check_near(found[WIDE + j], j < 6 ? 0 : 1 / sqrt(6), 1e-6);
    }
    for (size_t k = 0; k < 2; k++)
        check_near(shares[k], sum[k] / (sum[0] + sum[1]), 1e-9);
}

/* The largest stay, in order; what overlaps or is equal is kept once, at its best. */
static void best(void **state)
{
    (void)state;
    qkv__look_found items[3];
    qkv__look_best b = {.room = 3, .items = items};
    static const qkv__look_found given[] = {
        {1, 0, 0, 0, 1}, {5, 0, 8, 0, 2}, {4, 0, 10, 0, 3}, /* overlaps the one before */
        {6, 0, 7, 1, 4},                                    /* and is better than both */
        {3, 1, 8, 0, 5}, {2, 0, 0, 8, 6}, {7, 2, 0, 0, 5},  /* pixels of the last but one */
        {5.5, 3, 7, 1, 7},                                  /* there, but of another image */
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        qkv__look_best_add(&b, &given[i], 4);
    static const double wanted[] = {7, 6, 5.5};
    assert_int_equal(b.count, 3);
    for (size_t i = 0; i < 3; i++)
        check_near(items[i].value, wanted[i], 0);
}

/* The image under the patches is what the classifier reads: without a crop, squashed. */
static void input_as_read(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(VIT);
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_image image;
    qkv_look l;
    draw(&image, 3 * SIDE, SIDE, 3);
    look_at(p, &image, NULL, &l);
    o.height = o.width = SIDE;
    assert_int_equal(qkv_image_fit(&image, ctx, &o), QKV_OK);
    same_image(&l.images[0].image, &image);
    drop(&image);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

/* ---- filters and neighbours ----------------------------------------------------------------- */

static double respond_plainly(qkv_model *m, size_t filter, const qkv_image *image, size_t x,
                              size_t y)
{
    const qkv_real *w = qkv_param_data(qkv_params_find(qkv_model_params(m), "patches.weight"));
    double sum = (double)qkv_param_data(qkv_params_find(qkv_model_params(m),
                                                        "patches.bias"))[filter];
    for (size_t i = 0; i < VALUES; i++)
        sum += (double)w[filter * VALUES + i] * value_at(image, x, y, i);
    return sum;
}

static void exciting(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(VIT);
    qkv_image image;
    qkv_look l;
    double number, most, least;
    const char *at = NULL;
    qkv_param *bias = qkv_params_find(qkv_model_params(qkv_pipeline_model(p)), "patches.bias");
    for (size_t k = 0; k < FILTERS; k++)
        qkv_param_data(bias)[k] = (qkv_real)k / 8;
    qkv_param_touch(bias);
    draw(&image, SIDE, SIDE, 3);
    look_at(p, &image, NULL, &l);
    for (size_t k = 0; k < FILTERS; k++) {
        most = -INFINITY, least = INFINITY;
        for (size_t i = 0; i < PLACES; i++) {
            double response = respond_plainly(qkv_pipeline_model(p), k, &image,
                                              i % GRID * PATCH, i / GRID * PATCH);
            most = fmax(most, response);
            least = fmin(least, response);
        }
        at = strstr(at ? at : qkv_look_panel_of(&l, "exciting")->json, "\"most\"");
        at = read_numbers(&l, "exciting", "\"response\"", at, &number, 1);
        check_near(number, most, 1e-5);
        at = read_numbers(&l, "exciting", "\"response\"", strstr(at, "\"least\""), &number, 1);
        check_near(number, least, 1e-5);
    }
    drop(&image);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

static bool same_window(const qkv_image *a, const qkv_image *b, size_t x, size_t y)
{
    bool same = true;
    for (size_t i = 0; i < VALUES; i++)
        same = same && value_at(a, 0, 0, i) == value_at(b, x, y, i);
    return same;
}

/* Of patch 0 the nearest in a set of two images, the second of which is the input: patches with
 * the same pixels do not count. */
static void nearest(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(VIT);
    qkv_model *m = qkv_pipeline_model(p);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_image image, other;
    qkv_look l;
    double a[FILTERS], cosine = -1, number;
    draw(&image, SIDE, SIDE, 3);
    make_set(SIDE, 1, 0);
    draw(&other, SIDE, SIDE, 2); /* set/17/c.png */
    for (size_t k = 0; k < FILTERS; k++)
        a[k] = respond_plainly(m, k, &image, 0, 0);
    o.among = in(folder, "set/17");
    look_at(p, &image, &o, &l);
    const char *at = read_numbers(&l, "nearest", "\"set\":[{\"image\"", NULL, NULL, 0);
    (void)read_numbers(&l, "nearest", "\"cosine\"", at, &number, 1);
    for (size_t i = 0; i < 2 * PLACES; i++) {
        double ab = 0, aa = 0, bb = 0;
        const qkv_image *of = i < PLACES ? &other : &image; /* d.png has the input's pixels */
        size_t x = i % GRID * PATCH, y = i / GRID % GRID * PATCH;
        if (same_window(&image, of, x, y))
            continue;
        for (size_t k = 0; k < FILTERS; k++) {
            double b = respond_plainly(m, k, of, x, y);
            ab += a[k] * b;
            aa += a[k] * a[k];
            bb += b * b;
        }
        cosine = fmax(cosine, ab / sqrt(aa * bb));
    }
    check_near(number, cosine, 1e-5);
    drop(&image);
    drop(&other);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

/* ---- positions ------------------------------------------------------------------------------ */

static void positions(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(VIT);
    qkv_image image;
    qkv_look l;
    double found[PLACES * PLACES];
    draw(&image, SIDE, SIDE, 3);
    look_at(p, &image, NULL, &l);
    (void)read_numbers(&l, "positions", "\"cosine\"", NULL, found, PLACES * PLACES);
    qkv_param *table = qkv_params_find(qkv_model_params(qkv_pipeline_model(p)), "positions");
    const qkv_real *x = qkv_param_data(table) + qkv_param_dim(table, 1); /* behind the class's */
    for (size_t i = 0; i < PLACES * PLACES; i++) {
        double ab = 0, aa = 0, bb = 0;
        for (size_t k = 0; k < qkv_param_dim(table, 1); k++) {
            double a = (double)x[i / PLACES * qkv_param_dim(table, 1) + k];
            double b = (double)x[i % PLACES * qkv_param_dim(table, 1) + k];
            ab += a * b;
            aa += a * a;
            bb += b * b;
        }
        check_near(found[i], ab / sqrt(aa * bb), 6e-5);
    }
    drop(&image);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

/* ---- where a class came from ---------------------------------------------------------------- */

static double logit(qkv_pipeline *p, qkv_tape *t, const qkv_real *values, size_t pixel,
                    size_t class_)
{
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_tensor_from(t, values, 4, (size_t[]){1, SIDE, SIDE, 3});
    const qkv_real *y = qkv_data(t, qkv_pixelwise_forward(qkv_pipeline_model(p), t, x));
    assert_non_null(y);
    return (double)y[pixel * CLASSES + class_];
}

static void source(void **state)
{
    (void)state;
    static const size_t checked[] = {0, 37, 5 * SIDE + 6, PIXELS - 1};
    qkv_pipeline *p = opened(SEGMENTER);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_segmentation s;
    qkv_image image;
    qkv_look l;
    qkv_tape *t;
    qkv_real values[PIXELS * 3];
    double gradient[PIXELS];
    draw(&image, SIDE, SIDE, 3);
    o.pixel = "6,5";
    look_at(p, &image, &o, &l);
    (void)read_numbers(&l, "source", "\"gradient\"", NULL, gradient, PIXELS);
    const qkv_image_source in_ = {.image = &image};
    assert_int_equal(qkv_pipeline_segment(p, &in_, NULL, &s), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    for (size_t i = 0; i < PIXELS * 3; i++)
        values[i] = (qkv_real)((image.data[i] / 255.0 - 0.5) / 0.5);
    for (size_t i = 0; i < sizeof checked / sizeof *checked; i++) {
        double sum = 0;
        for (size_t c = 0; c < 3; c++) {
            qkv_real *x = values + 3 * checked[i] + c, before = *x;
            double up, down, step = 0.05;
            *x = before + (qkv_real)step;
            up = logit(p, t, values, 5 * SIDE + 6, s.map[5 * SIDE + 6]);
            *x = before - (qkv_real)step;
            down = logit(p, t, values, 5 * SIDE + 6, s.map[5 * SIDE + 6]);
            *x = before;
            sum += fabs(up - down) / (2 * step);
        }
        assert_true(sum > 0);
        check_near(gradient[checked[i]], sum, 0.02 * sum + 1e-5);
    }
    qkv_tape_destroy(t);
    qkv_segmentation_free(&s);
    drop(&image);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

/* Intersection over union of each class with a mask, pixel by pixel. */
static void truth(void **state)
{
    (void)state;
    static const uint8_t colors[CLASSES][3] = {{0, 0, 0}, {17, 17, 17}, {255, 0, 0}};
    qkv_pipeline *p = opened(SEGMENTER);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_segmentation s;
    qkv_image image, mask;
    qkv_look l;
    size_t both[CLASSES] = {0}, either[CLASSES] = {0};
    draw(&image, SIDE, SIDE, 3);
    const qkv_image_source in_ = {.image = &image};
    assert_int_equal(qkv_pipeline_segment(p, &in_, NULL, &s), QKV_OK);
    assert_int_equal(qkv_image_create(&mask, ctx, SIDE, SIDE, 3), QKV_OK);
    for (size_t i = 0; i < PIXELS; i++) {
        size_t right = i % 3 ? s.map[i] : i / SIDE % CLASSES;
        memcpy(mask.data + 3 * i, colors[right], 3);
        both[right] += right == s.map[i];
        either[right]++;
        either[s.map[i]] += right != s.map[i];
    }
    assert_int_equal(qkv_image_write(&mask, ctx, in(folder, "mask.png")), QKV_OK);
    o.truth = in(folder, "mask.png");
    look_at(p, &image, &o, &l);
    const char *at = NULL;
    for (size_t k = 0; k < CLASSES; k++) {
        double iou;
        at = read_numbers(&l, "segments", "\"iou\"", at, &iou, 1);
        check_near(iou, (double)both[k] / (double)either[k], 1e-9);
    }
    qkv_look_free(&l);
    drop(&mask);
    drop(&image);
    qkv_segmentation_free(&s);
    qkv_pipeline_close(p);
}

/* ---- hints, masked patches ------------------------------------------------------------------ */

/* What a hint changes is the difference to a colouring without it. */
static void hints(void **state)
{
    (void)state;
    static const char *given[] = {"2,3,#d02030", "12,13,#2040e0"};
    qkv_pipeline *p = opened(COLORIZER);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_pipeline_colorize_options with = qkv_pipeline_colorize_defaults(), without = with;
    qkv_colorization a, b;
    qkv_image image;
    qkv_look l;
    double sum = 0, change;
    draw(&image, SIDE, SIDE, 3);
    o.hints = with.hints = (qkv_strings){given, 2};
    without.hints = (qkv_strings){given, 1};
    o.pixel = "9,1"; /* of patch 0,2 */
    look_at(p, &image, &o, &l);
    const qkv_image_source in_ = {.image = &image};
    assert_int_equal(qkv_pipeline_colorize(p, &in_, &with, &a), QKV_OK);
    assert_int_equal(qkv_pipeline_colorize(p, &in_, &without, &b), QKV_OK);
    for (size_t i = 0; i < PATCH * PATCH; i++) {
        size_t at = i / PATCH * SIDE + 2 * PATCH + i % PATCH;
        qkv_real x[3], y[3];
        qkv_bytes_to_lab(x, a.image.data + 3 * at, 1);
        qkv_bytes_to_lab(y, b.image.data + 3 * at, 1);
        sum += hypot((double)(x[1] - y[1]), (double)(x[2] - y[2])) / (PATCH * PATCH);
    }
    const char *second = strstr(qkv_look_panel_of(&l, "hints")->json, "#2040e0");
    assert_non_null(second);
    (void)read_numbers(&l, "hints", "\"change\"", second, &change, 1);
    assert_true(sum > 0);
    check_near(change, sum, 1e-6);
    qkv_colorization_free(&a);
    qkv_colorization_free(&b);
    drop(&image);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

static void masked_errors(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(MAE);
    qkv_image image;
    qkv_look l;
    double found[PLACES];
    draw(&image, SIDE, SIDE, 3);
    look_at(p, &image, NULL, &l);
    (void)read_numbers(&l, "reconstruction", "\"error\"", NULL, found, PLACES);
    for (size_t i = 0; i < PLACES; i++) {
        double sum = 0;
        for (size_t k = 0; k < VALUES; k++) {
            double a = value_at(&l.images[0].image, i % GRID * PATCH, i / GRID * PATCH, k);
            double b = value_at(&l.images[2].image, i % GRID * PATCH, i / GRID * PATCH, k);
            sum += (a - b) * (a - b) / 4 / VALUES; /* values from -1 to 1 */
        }
        check_near(found[i], sum, 1e-6);
    }
    drop(&image);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

/* ---- what goes wrong ------------------------------------------------------------------------ */

static void refused(void **state)
{
    (void)state;
    static const char *hint[] = {"2,3,#d02030"};
    qkv_pipeline *vit = opened(VIT), *segmenter = opened(SEGMENTER);
    qkv_image image = drawn_file("a.png", SIDE, SIDE, 3), small = drawn_file("small.png", 8, 8, 1);
    const qkv_look_input in_ = {.image = {.image = &image}};
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults(), plain = o;
    qkv_look l;
    o.truth = in(folder, "a.png");
    expect_status(qkv_pipeline_look(vit, &in_, &o, &l), QKV_E_ARGUMENT, "--truth: a vit model");
    expect_status(qkv_pipeline_look(segmenter, &in_, &o, &l), QKV_E_FORMAT, "no class");
    o.truth = in(folder, "small.png");
    expect_status(qkv_pipeline_look(segmenter, &in_, &o, &l), QKV_E_FORMAT, "16 x 16 pixels");
    o = plain;
    o.pixel = "16,0";
    expect_status(qkv_pipeline_look(segmenter, &in_, &o, &l), QKV_E_ARGUMENT, "found 16,0");
    o = plain;
    o.hints = (qkv_strings){hint, 1};
    expect_status(qkv_pipeline_look(segmenter, &in_, &o, &l), QKV_E_ARGUMENT, "--hint");
    o = plain;
    o.among = in(folder, "nowhere");
    expect_status(qkv_pipeline_look(vit, &in_, &o, &l), QKV_E_IO, "nowhere");
    drop(&image);
    drop(&small);
    qkv_pipeline_close(vit);
    qkv_pipeline_close(segmenter);
}

static void memory_gives_out(void **state)
{
    (void)state;
    static const char *hint[] = {"2,3,#d02030"};
    char among[2 * PATH_BYTES];
    make_set(SIDE, 1, 0);
    (void)snprintf(among, sizeof among, "%s/set/0", folder);
    for (int kind = VIT; kind <= COLORIZER; kind++) {
        qkv_image image;
        qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
        looked_at a = {opened(kind), {.image = {.image = &image}}, &o};
        draw(&image, SIDE, SIDE, 3);
        o.among = among;
        o.hints = (qkv_strings){hint, kind == COLORIZER ? 1 : 0};
        expect_memory_told(look_and_write, &a, 8);
        drop(&image);
        qkv_pipeline_close(a.p);
    }
}

/* Tokens before the patches have names, and are no part of the grid. */
static void leads(void **state)
{
    (void)state;
    static const struct {
        const char *folder;
        size_t count;
        const char *last;
    } cases[] = {{"deit", 2, "[DIST]"}, {"deit-encoder", 2, "[DIST]"}, {"dinov2", 1, "[CLS]"},
                 {"dinov2-registers", 4, "[REG 3]"}, {"dinov2-registers-encoder", 3, "[REG 2]"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[PATH_BYTES];
        qkv_pipeline *p;
        qkv_image image;
        qkv_look l;
        (void)snprintf(path, sizeof path, QKV_SOURCE_DIR "/tests/golden/models/%s",
                       cases[i].folder);
        if (qkv_pipeline_open(&p, ctx, path))
            fail_msg("%s", qkv_context_message(ctx));
        draw(&image, 24, 16, 3);
        look_at(p, &image, NULL, &l);
        const qkv_look_axis *a = &l.axes[0];
        assert_int_equal(a->lead, cases[i].count);
        assert_int_equal(a->count, cases[i].count + a->rows * a->columns);
        assert_int_equal(a->rows, 3);
        assert_string_equal(a->labels[a->lead - 1], cases[i].last);
        assert_string_equal(a->labels[a->lead], "0,0");
        assert_non_null(qkv_look_panel_of(&l, "positions"));
        drop(&image);
        qkv_look_free(&l);
        qkv_pipeline_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(components), cmocka_unit_test(best), cmocka_unit_test(input_as_read),
        cmocka_unit_test(exciting), cmocka_unit_test(nearest), cmocka_unit_test(positions),
        cmocka_unit_test(source), cmocka_unit_test(truth), cmocka_unit_test(hints),
        cmocka_unit_test(masked_errors), cmocka_unit_test(refused), cmocka_unit_test(leads),
        cmocka_unit_test(memory_gives_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
