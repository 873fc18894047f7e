/* test_patch_codes.c - activation patching of a VQGAN and of a prior: each value is what a whole
 * pass gives in which a probe replaces that one activation. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "patched.h"
#include "pipelines.h"
#include "qkv/pipeline_look.h"

enum { IMAGE = 2 * GRID, ROW = 3, COLUMN = 5, GREEN = 1, CODE = 7, PLACE = 6 };

static qkv_image image[2]; /* clean, corrupt */

static qkv_look_input input(size_t which)
{
    return (qkv_look_input){.image = {.image = &image[which]}};
}

static void draw_both(void)
{
    for (size_t i = 0; i < 2; i++)
        draw(&image[i], IMAGE, IMAGE, 3 + i);
}

static void drop_both(void)
{
    for (size_t i = 0; i < 2; i++)
        drop(&image[i]);
}

static qkv_patch patched(qkv_pipeline *p, const qkv_pipeline_patch_options *o)
{
    const qkv_look_input clean = input(0), corrupt = input(1);
    qkv_patch found;
    if (qkv_pipeline_patch(p, &clean, &corrupt, o, &found))
        fail_msg("%s", qkv_context_message(ctx));
    return found;
}

/* ---- a VQGAN --------------------------------------------------------------------------------- */

/* Its last level attends, too. */
static qkv_pipeline *attending(void)
{
    qkv_vqgan_config c = small();
    qkv_pipeline *p;
    c.image = IMAGE;
    c.attention = (qkv_sizes){1, {GRID}};
    save(made(qkv_vqgan_type(), &c), "m");
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "m")), QKV_OK);
    return p;
}

static double decoded_pixel(qkv_model *m, size_t which, const char *place, one_place *o)
{
    qkv_real pixels[IMAGE * IMAGE * 3];
    for (size_t i = 0; i < IMAGE * IMAGE * 3; i++)
        pixels[i] = (qkv_real)(image[which].data[i] / 127.5 - 1);
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, false, false);
    assert_int_equal(qkv_probe_add(tape, place, replace_one, o), QKV_OK);
    qkv_tensor *x = qkv_tensor_from(tape, pixels, 4, (size_t[]){1, IMAGE, IMAGE, 3});
    x = qkv_vqgan_codes(m, tape, qkv_vqgan_encode(m, tape, x));
    const qkv_real *y = qkv_data(tape, qkv_vqgan_decode(m, tape, qkv_vqgan_vectors(m, tape, x)));
    assert_non_null(y);
    qkv_probes_clear(tape);
    return (double)y[(ROW * IMAGE + COLUMN) * 3 + GREEN];
}

/* The side of the map at a place of a tower: before the encoder halves the image, and from where
 * the decoder has doubled it, that of the image. */
static size_t side_at(const char *stack, const char *name)
{
    bool outer = *stack == 'e' ? strstr(name, "conv_in") || strcmp(name, "down.0.block.0") == 0
                               : strstr(name, "conv_out") || strstr(name, "up.0") ||
                                     strstr(name, "upsample");
    return outer ? IMAGE : GRID;
}

static double check_tower(qkv_model *m, const qkv_patch *found, const qkv_patch_grid *g)
{
    static one_place o;
    double moved = 0;
    assert_int_equal(g->positions, PLACES);
    for (size_t layer = 0; layer < g->layers; layer++) {
        char name[96];
        size_t side = side_at(g->stack, g->names[layer]), cell = side / GRID;
        size_t channels = strcmp(g->names[layer], "conv_out") ? 32 : *g->stack == 'e' ? WIDTH : 3;
        (void)snprintf(name, sizeof name, "%s.%s", g->stack, g->names[layer]);
        o.replace = false;
        assert_true(fabs(decoded_pixel(m, 0, name, &o) - found->clean) < 1e-4);
        o.replace = true;
        o.count = cell * channels;
        o.stride = side * channels;
        o.times = cell;
        for (size_t i = 0; i < PLACES; i++) {
            o.from = i / GRID * cell * o.stride + i % GRID * o.count;
            double value = g->values[layer * PLACES + i], want = decoded_pixel(m, 1, name, &o);
            if (!(fabs(want - value) < 1e-4))
                fail_msg("%s at %zu: %g expected, found %g", name, i, want, value);
            moved = fmax(moved, fabs(value - found->corrupt));
        }
    }
    return moved;
}

static void towers(void **state)
{
    (void)state;
    qkv_pipeline *p = attending();
    qkv_pipeline_patch_options o = qkv_pipeline_patch_defaults();
    o.answer = "green";
    o.pixel = "5,3";
    draw_both();
    qkv_patch found = patched(p, &o);
    assert_string_equal(found.where, "pixel 5,3");
    assert_int_equal(found.grid_count, 2);
    assert_string_equal(found.grids[0].pattern, "encoder.*");
    assert_int_equal(found.grids[0].layers, 9);  /* in, 2 blocks, downsample, attn, 3, out */
    assert_int_equal(found.grids[1].layers, 12); /* in, 3, 4 blocks, 2 attn, upsample, out */
    for (size_t i = 0; i < 2; i++)
        assert_true(check_tower(qkv_pipeline_model(p), &found, &found.grids[i]) > 1e-3);
    qkv_patch_free(&found);

    /* Some layers alone are the same numbers. */
    o.place = "mid.attn_1";
    qkv_patch some = patched(p, &o);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(some.grids[i].layers, 1);
        assert_string_equal(some.grids[i].names[0], "mid.attn_1");
        assert_true(check_tower(qkv_pipeline_model(p), &some, &some.grids[i]) >= 0);
    }
    qkv_patch_free(&some);
    drop_both();
    qkv_pipeline_close(p);
}

/* ---- a prior --------------------------------------------------------------------------------- */

/* What the prior reads of an image: the start, and the codes but the last. */
static void read_tokens(size_t which, int32_t tokens[PLACES + 1])
{
    qkv_pipeline *codec;
    assert_int_equal(qkv_pipeline_open(&codec, ctx, in(folder, "m/vqgan")), QKV_OK);
    tokens[0] = 0;
    assert_int_equal(qkv_images_encode(qkv_pipeline_model(codec), tape, image[which].data, 1,
                                       IMAGE, IMAGE, tokens + 1), QKV_OK);
    qkv_pipeline_close(codec);
}

static double log_probability(qkv_model *m, const int32_t *tokens, const char *place,
                              one_place *o)
{
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, false, false);
    assert_int_equal(qkv_probe_add(tape, place, replace_one, o), QKV_OK);
    qkv_tensor *x = qkv_tensor_ids(tape, tokens, 2, (size_t[]){1, PLACES});
    x = qkv_slice(tape, qkv_lm_hidden(m, tape, x, 0, NULL, NULL), 1, PLACE, PLACE + 1);
    x = qkv_softmax(tape, qkv_lm_logits(m, tape, qkv_contiguous(tape, x)));
    const qkv_real *p = qkv_data(tape, x);
    assert_non_null(p);
    qkv_probes_clear(tape);
    return log((double)p[CODE]);
}

static void check_prior(const char *place, bool by_head)
{
    static one_place o;
    qkv_pipeline *p = opened(PRIOR);
    qkv_model *m = qkv_pipeline_model(p);
    qkv_pipeline_patch_options options = qkv_pipeline_patch_defaults();
    int32_t tokens[2][PLACES + 1];
    double moved = 0;
    options.answer = "code 7";
    options.at = PLACE;
    options.place = place;
    options.heads = by_head;
    draw_both();
    for (size_t i = 0; i < 2; i++)
        read_tokens(i, tokens[i]);
    qkv_patch found = patched(p, &options);
    const qkv_patch_grid *g = &found.grids[0];
    assert_string_equal(found.answer, "code 7");
    assert_string_equal(found.where, "place 2,1");
    assert_int_equal(g->layers, 2);
    assert_int_equal(g->positions, by_head ? 2 : PLACES);
    for (size_t layer = 0; layer < 2; layer++) {
        char name[64];
        (void)snprintf(name, sizeof name, "h.%zu.%s", layer, place);
        o.replace = false;
        assert_true(fabs(log_probability(m, tokens[0], name, &o) - found.clean) < 1e-4);
        o.replace = true;
        o.stride = 16;
        o.count = by_head ? 8 : 16;
        o.times = by_head ? PLACES : 1;
        for (size_t i = 0; i < g->positions; i++) {
            o.from = i * o.count;
            double value = g->values[layer * g->positions + i];
            assert_true(fabs(log_probability(m, tokens[1], name, &o) - value) < 1e-4);
            assert_true(by_head || i <= PLACE || fabs(value - found.corrupt) < 1e-6);
            moved = fmax(moved, fabs(value - found.corrupt));
        }
    }
    assert_true(moved > 1e-4);
    qkv_patch_free(&found);
    drop_both();
    qkv_pipeline_close(p);
    remove_folder(in(folder, "m"));
}

static void priors(void **state)
{
    (void)state;
    check_prior("resid_pre", false);
    check_prior("attn.out", false);
    check_prior("attn.z", true);
}

/* Without a place, where the answers differ most; X,Y says the same as the place's number. */
static void prior_places(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(PRIOR);
    qkv_pipeline_patch_options o = qkv_pipeline_patch_defaults();
    draw_both();
    qkv_patch any = patched(p, NULL);
    double most = fabs(any.clean - any.corrupt);
    o.pixel = any.where + strlen("place ");
    qkv_patch same = patched(p, &o);
    assert_string_equal(same.where, any.where);
    assert_string_equal(same.answer, any.answer);
    assert_true(fabs(same.clean - any.clean) < 1e-5 && fabs(same.corrupt - any.corrupt) < 1e-5);
    o.pixel = NULL;
    for (o.at = 0; o.at < PLACES; o.at++) {
        qkv_patch at = patched(p, &o);
        assert_true(fabs(at.clean - at.corrupt) <= most + 1e-5);
        qkv_patch_free(&at);
    }
    qkv_patch_free(&same);
    qkv_patch_free(&any);
    drop_both();
    qkv_pipeline_close(p);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void wrong_codes(void **state)
{
    (void)state;
    static const struct {
        bool prior;
        const char *pixel, *answer, *place, *told;
        bool heads;
    } wrong[] = {
        {true, "4,0", NULL, NULL, "--pixel: X,Y in an image of 4 x 4 expected", false},
        {true, NULL, "24", NULL, "--answer: a code below 24 expected, found \"24\"", false},
        {true, NULL, "red", NULL, "--answer: a code below 24 expected, found \"red\"", false},
        {true, NULL, NULL, "nowhere", "--place: the model has no h.*.nowhere", false},
        {false, "8,0", NULL, NULL, "--pixel: X,Y in an image of 8 x 8 expected", false},
        {false, NULL, "3", NULL, "--answer: one of 3 names such as \"red\"", false},
        {false, NULL, NULL, "resid_pre", "--place: the model has no encoder.resid_pre", false},
        {false, NULL, NULL, "mid.*", "--heads: encoder.mid.block_1 has no heads", true}};
    draw_both();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qkv_pipeline *p = wrong[i].prior ? opened(PRIOR) : attending();
        qkv_pipeline_patch_options o = qkv_pipeline_patch_defaults();
        const qkv_look_input clean = input(0), corrupt = input(1);
        qkv_patch found;
        o.pixel = wrong[i].pixel;
        o.answer = wrong[i].answer;
        o.place = wrong[i].place;
        o.heads = wrong[i].heads;
        expect_status(qkv_pipeline_patch(p, &clean, &corrupt, &o, &found), QKV_E_ARGUMENT,
                      wrong[i].told);
        qkv_pipeline_close(p);
        remove_folder(in(folder, "m"));
    }
    drop_both();
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_gives_out(void **state)
{
    (void)state;
    draw_both();
    for (int kind = 0; kind < 2; kind++) {
        qkv_pipeline *p = kind ? opened(PRIOR) : attending();
        const qkv_look_input clean = input(0), corrupt = input(1);
        qkv_pipeline_patch_options o = qkv_pipeline_patch_defaults();
        size_t failures = 0;
        o.place = kind ? NULL : "mid.*";
        for (size_t n = 0;; n += 1 + n / 12) {
            qkv_patch x = {0};
            memory.left = n;
            qkv_status status = qkv_pipeline_patch(p, &clean, &corrupt, &o, &x);
            if (!status)
                status = qkv_patch_page(&x, NULL, in(folder, "page.html"));
            bool failed = memory.left == SIZE_MAX;
            memory.left = SIZE_MAX;
            qkv_patch_free(&x);
            if (!failed)
                break;
            failures++;
            if (status != QKV_E_MEMORY && status != QKV_OK)
                fail_msg("allocation %zu: %s", n, qkv_context_message(ctx));
        }
        assert_true(failures > 20);
        qkv_pipeline_close(p);
        remove_folder(in(folder, "m"));
    }
    drop_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers), cmocka_unit_test(priors), cmocka_unit_test(prior_places),
        cmocka_unit_test(wrong_codes), cmocka_unit_test(memory_gives_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
