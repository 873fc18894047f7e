/* test_patch.c - activation patching of models of images: each value is what a whole pass gives in
 * which a probe replaces that one activation. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "patched.h"
#include "pipelines.h"
#include "qkv/color.h"
#include "qkv/pipeline_look.h"

enum { LAYERS = 2, ROW = 3, COLUMN = 5, PIXEL = ROW * SIDE + COLUMN };

/* The inputs, of the model's own size, and what the model gets of them. */
typedef struct {
    qkv_image image[2]; /* clean, corrupt */
    qkv_real pixels[2][SIDE * SIDE * QKV_COLORIZER_INPUTS];
} pair;

/* A kind of model in tests. */
typedef struct {
    int kind;
    size_t channels;
    const char *answer;
    size_t choice;
    bool numbers;
    const char *stacks[2];
    qkv_tensor *(*outputs)(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
} tested;

static qkv_tensor *pixel_of(qkv_tape *t, qkv_tensor *images)
{
    size_t n = qkv_dim(images, -1);
    images = qkv_reshape(t, qkv_contiguous(t, images), 2, (size_t[]){SIDE * SIDE, n});
    return qkv_slice(t, images, 0, PIXEL, PIXEL + 1);
}

static qkv_tensor *dense(qkv_model *m, qkv_tape *t, qkv_tensor *pixels)
{
    return pixel_of(t, qkv_pixelwise_forward(m, t, pixels));
}

static qkv_tensor *colors(qkv_model *m, qkv_tape *t, qkv_tensor *pixels)
{
    return qkv_scale(t, dense(m, t, pixels), 110);
}

static qkv_tensor *filled(qkv_model *m, qkv_tape *t, qkv_tensor *pixels)
{
    int32_t order[(SIDE / 4) * (SIDE / 4)];
    size_t n = sizeof order / sizeof *order;
    qkv_mae_shuffle(order, n, 7, 0);
    const qkv_mae_masks masks = {1, n, qkv_mae_kept(n, 0.75), order};
    qkv_tensor *y = qkv_mae_decode(m, t, qkv_mae_encode(m, t, pixels, &masks), &masks);
    return pixel_of(t, qkv_unpatchify(t, qkv_mae_patches(m, t, y), 4, SIDE / 4, SIDE / 4));
}

static const tested kinds[] = {
    {VIT, 3, "17", 1, false, {"layer"}, qkv_vit_logits},
    {MAE, 3, "green", 1, true, {"layer", "decoder.layer"}, filled},
    {SEGMENTER, 3, "#ff0000", 2, false, {"layer"}, dense},
    {COLORIZER, QKV_COLORIZER_INPUTS, "b", 1, true, {"layer"}, colors},
};

static void make_pair(pair *p, const tested *k)
{
    for (size_t i = 0; i < 2; i++) {
        draw(&p->image[i], SIDE, SIDE, 3 + i);
        for (size_t v = 0; v < SIDE * SIDE; v++) {
            const uint8_t *rgb = p->image[i].data + 3 * v;
            qkv_real lab[3], *to = p->pixels[i] + v * k->channels;
            qkv_bytes_to_lab(lab, rgb, 1);
            for (size_t c = 0; c < k->channels; c++)
                to[c] = k->channels == 3 ? (qkv_real)(rgb[c] / 127.5 - 1) : 0;
            if (k->channels == QKV_COLORIZER_INPUTS)
                to[0] = (lab[0] - 50) / 100;
        }
    }
}

/* The measure in a whole pass on one of the inputs. */
static double whole_pass(const tested *k, qkv_pipeline *p, qkv_tape *t, pair *in, size_t which,
                         const char *place, one_place *o)
{
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    assert_int_equal(qkv_probe_add(t, place, replace_one, o), QKV_OK);
    qkv_tensor *x = qkv_tensor_from(t, in->pixels[which], 4,
                                    (size_t[]){1, SIDE, SIDE, k->channels});
    qkv_tensor *y = k->outputs(qkv_pipeline_model(p), t, x);
    if (!k->numbers)
        y = qkv_softmax(t, y);
    const qkv_real *out = qkv_data(t, qkv_contiguous(t, y));
    assert_non_null(out);
    double value = k->numbers ? (double)out[k->choice] : log((double)out[k->choice]);
    qkv_probes_clear(t);
    return value;
}

static void check_grids(const tested *k, const char *place, bool by_head)
{
    qkv_pipeline *p = opened(k->kind);
    static pair in;
    static one_place o;
    qkv_tape *t;
    qkv_patch found;
    qkv_pipeline_patch_options options = qkv_pipeline_patch_defaults();
    double moved = 0;
    make_pair(&in, k);
    options.answer = k->answer;
    options.place = place;
    options.heads = by_head;
    options.seed = 7;
    options.pixel = k->kind == VIT ? NULL : "5,3";
    const qkv_look_input clean = {.image = {.image = &in.image[0]}};
    const qkv_look_input corrupt = {.image = {.image = &in.image[1]}};
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    if (qkv_pipeline_patch(p, &clean, &corrupt, &options, &found))
        fail_msg("%s", qkv_context_message(ctx));
    assert_string_equal(found.answer, k->answer);
    assert_int_equal(found.grid_count, k->stacks[1] ? 2 : 1);
    for (size_t s = 0; s < found.grid_count; s++) {
        const qkv_patch_grid *g = &found.grids[s];
        size_t T = found.corrupt_input.axes[g->axis].count;
        assert_string_equal(g->stack, k->stacks[s]);
        assert_int_equal(g->layers, LAYERS);
        assert_int_equal(g->positions, by_head ? 2 : T);
        for (size_t layer = 0; layer < LAYERS; layer++) {
            char name[64];
            (void)snprintf(name, sizeof name, "%s.%zu.%s", g->stack, layer, place);
            o.replace = false;
            assert_true(fabs(whole_pass(k, p, t, &in, 0, name, &o) - found.clean) < 1e-4);
            o.replace = true;
            o.stride = 16;
            o.count = by_head ? 8 : 16;
            o.times = by_head ? T : 1;
            for (size_t i = 0; i < g->positions; i++) {
                o.from = i * o.count;
                double value = g->values[layer * g->positions + i];
                assert_true(fabs(whole_pass(k, p, t, &in, 1, name, &o) - value) < 1e-4);
                moved = fmax(moved, fabs(value - found.corrupt));
            }
        }
    }
    assert_true(moved > 1e-3);
    qkv_patch_free(&found);
    qkv_tape_destroy(t);
    for (size_t i = 0; i < 2; i++)
        drop(&in.image[i]);
    qkv_pipeline_close(p);
}

static void every_image_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        check_grids(&kinds[i], "resid_pre", false);
        check_grids(&kinds[i], "attn.out", false);
        check_grids(&kinds[i], "attn.z", true);
    }
}

/* Without a pixel, the one whose colours differ most. */
static void pixel_that_differs_most(void **state)
{
    (void)state;
    static pair in;
    const tested *k = &kinds[3];
    qkv_pipeline *p = opened(k->kind);
    qkv_patch found;
    qkv_tape *t;
    size_t x, y, pixel = 0;
    double most = -1;
    make_pair(&in, k);
    const qkv_look_input clean = {.image = {.image = &in.image[0]}};
    const qkv_look_input corrupt = {.image = {.image = &in.image[1]}};
    assert_int_equal(qkv_pipeline_patch(p, &clean, &corrupt, NULL, &found), QKV_OK);
    assert_int_equal(sscanf(found.where, "pixel %zu,%zu", &x, &y), 2);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_tape_mode(t, false, false);
    const qkv_real *out[2];
    for (size_t i = 0; i < 2; i++) {
        const size_t shape[] = {1, SIDE, SIDE, k->channels};
        out[i] = qkv_data(t, qkv_pixelwise_forward(qkv_pipeline_model(p), t,
                                                   qkv_tensor_from(t, in.pixels[i], 4, shape)));
        assert_non_null(out[i]);
    }
    for (size_t i = 0; i < 2 * SIDE * SIDE; i++)
        if (fabs((double)(out[0][i] - out[1][i])) > most) {
            most = fabs((double)(out[0][i] - out[1][i]));
            pixel = i / 2;
        }
    assert_true(pixel > 0);
    assert_int_equal(y * SIDE + x, pixel);
    qkv_tape_destroy(t);
    qkv_patch_free(&found);
    for (size_t i = 0; i < 2; i++)
        drop(&in.image[i]);
    qkv_pipeline_close(p);
}

/* Drawings and pages of the grids over the image. */
static void shown(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(MAE);
    qkv_patch found;
    qkv_drawing *d;
    qkv_image image[2];
    for (size_t i = 0; i < 2; i++)
        draw(&image[i], SIDE, SIDE, 3 + i);
    const qkv_look_input clean = {.image = {.image = &image[0]}};
    const qkv_look_input corrupt = {.image = {.image = &image[1]}};
    assert_int_equal(qkv_pipeline_patch(p, &clean, &corrupt, NULL, &found), QKV_OK);
    assert_true(strncmp(found.where, "pixel ", 6) == 0);
    assert_int_equal(found.outcome_count, 3);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(qkv_patch_draw(&found, i, &d), QKV_OK);
        qkv_drawing_destroy(d);
    }
    assert_int_equal(qkv_patch_draw(&found, 2, &d), QKV_E_ARGUMENT);
    assert_int_equal(qkv_patch_page(&found, NULL, in(folder, "patch.html")), QKV_OK);
    assert_true(fabs(qkv_patch_share(&found, found.clean) - 1) < 1e-12);
    assert_true(fabs(qkv_patch_share(&found, found.corrupt)) < 1e-12);
    qkv_patch_free(&found);
    for (size_t i = 0; i < 2; i++)
        drop(&image[i]);
    qkv_pipeline_close(p);
}

static void wrong_patches(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(SEGMENTER);
    qkv_patch found;
    qkv_image image;
    draw(&image, SIDE, SIDE, 3);
    const qkv_look_input in_ = {.image = {.image = &image}};
    static const struct {
        const char *pixel, *answer, *place, *told;
        bool heads;
    } wrong[] = {{"99,0", NULL, "resid_pre", "--pixel: X,Y in an image of", false},
                 {"1", NULL, "resid_pre", "--pixel: X,Y", false},
                 {"1,2", "none", "resid_pre", "--answer: one of 3 names such as \"0\"", false},
                 {"1,2", NULL, "cross.out", "--place: the model has no layer.*.cross.out", false},
                 {"1,2", NULL, "ff.out", "--heads: layer.0.ff.out has no heads", true}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qkv_pipeline_patch_options o = qkv_pipeline_patch_defaults();
        o.pixel = wrong[i].pixel;
        o.answer = wrong[i].answer;
        o.place = wrong[i].place;
        o.heads = wrong[i].heads;
        expect_status(qkv_pipeline_patch(p, &in_, &in_, &o, &found), QKV_E_ARGUMENT,
                      wrong[i].told);
    }
    drop(&image);
    qkv_pipeline_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_image_kind),
                                       cmocka_unit_test(pixel_that_differs_most),
                                       cmocka_unit_test(shown), cmocka_unit_test(wrong_patches)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
