/* test_look_codes.c - looking inside VQGANs and priors: panels show what encoding, decoding,
 * sampling and the discriminator give by other ways; memory that gives out loses nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>

#include "looked.h"
#include "pipelines.h"

enum { LEVEL_BLOCKS = 1, IMAGE = 2 * GRID };

/* A VQGAN whose last level attends, too; its discriminator counts as trained. */
static qkv_pipeline *attending(size_t disc_layers, bool trained)
{
    qkv_vqgan_config c = small();
    qkv_pipeline *p;
    c.image = IMAGE;
    c.attention = (qkv_sizes){1, {GRID}};
    c.disc_layers = disc_layers;
    qkv_model *m = made(qkv_vqgan_type(), &c);
    qkv_param *x;
    for (size_t i = 0; trained && (x = qkv_params_at(qkv_model_params(m), i)); i++)
        if (strstr(qkv_param_name(x), "num_batches_tracked")) {
            qkv_param_data(x)[0] = 1;
            qkv_param_touch(x);
        }
    save(m, "m");
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "m")), QKV_OK);
    return p;
}

/* Looks, and the numbers of its panels; freed with end_look. */
static json_t *look_at(qkv_pipeline *p, const qkv_look_input *in_,
                       const qkv_pipeline_look_options *o, qkv_look *l)
{
    qkv_json_writer w;
    json_error_t error;
    if (qkv_pipeline_look(p, in_, o, l))
        fail_msg("%s", qkv_context_message(ctx));
    qkv_json_writer_init(&w, ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_look_json(l, NULL, &w);
    qkv_json_end_object(&w);
    json_t *all = json_loads(qkv_json_writer_text(&w), JSON_ALLOW_NUL, &error);
    if (!all)
        fail_msg("%s", error.text);
    qkv_json_writer_free(&w);
    return all;
}

static const json_t *panel(const json_t *all, const char *name)
{
    return json_object_get(json_object_get(all, "panels"), name);
}

static double number(const json_t *x, const char *key)
{
    return json_number_value(json_object_get(x, key));
}

static double cell(const json_t *rows, size_t row, size_t column)
{
    return json_number_value(json_array_get(json_array_get(rows, row), column));
}

/* ---- a VQGAN --------------------------------------------------------------------------------- */

static void attention(void **state)
{
    (void)state;
    static const char *const names_[2][3] = {
        {"encoder.down.1.attn.0", "encoder.mid.attn_1"},
        {"decoder.mid.attn_1", "decoder.up.1.attn.0", "decoder.up.1.attn.1"}};
    qkv_look l;
    qkv_pipeline *p = attending(1, true);
    qkv_image image;
    draw(&image, IMAGE, IMAGE, 3);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    o.least = 1e-9;
    json_t *all = look_at(p, &(qkv_look_input){.image = {.image = &image}}, &o, &l);
    assert_int_equal(l.attentions_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const qkv_look_attention *a = &l.attentions[i];
        assert_string_equal(a->name, i ? "decoder_attentions" : "encoder_attentions");
        assert_true(a->layers == 2 + i && a->heads == 1 && !a->rollout);
        for (size_t layer = 0; layer < a->layers; layer++) {
            assert_string_equal(a->maps[layer].attention, names_[i][layer]);
            for (size_t at = 0; at < PLACES; at++) {
                double row[PLACES], sum = 0;
                const qkv_look_choice c = {i, (int)layer, 0, at};
                assert_int_equal(qkv_look_row(&l, &c, row), QKV_OK);
                for (size_t j = 0; j < PLACES; j++)
                    sum += row[j];
                assert_true(fabs(sum - 1) < 1e-4);
            }
        }
    }
    const json_t *shown = json_object_get(json_array_get(json_object_get(all, "attentions"), 1),
                                          "names");
    assert_string_equal(json_string_value(json_array_get(shown, 2)), names_[1][2]);
    json_decref(all);
    qkv_look_free(&l);
    drop(&image);
    qkv_pipeline_close(p);
}

/* The input's codes, its reconstruction and the discriminator's logits. */
static void codes(void **state)
{
    (void)state;
    qkv_look l;
    qkv_pipeline *p = attending(1, true);
    qkv_image image, decoded;
    qkv_code_grid grid;
    draw(&image, IMAGE, IMAGE, 5);
    const qkv_image_source in_ = {.image = &image};
    json_t *all = look_at(p, &(qkv_look_input){.image = in_}, NULL, &l);
    assert_int_equal(qkv_pipeline_encode(p, &in_, &grid), QKV_OK);
    assert_int_equal(qkv_pipeline_decode(p, &grid, &decoded), QKV_OK);
    const json_t *found = json_object_get(panel(all, "codes-grid"), "codes");
    for (size_t i = 0; i < PLACES; i++)
        assert_int_equal(cell(found, i / GRID, i % GRID), grid.codes[i]);
    assert_int_equal(l.images_count, 2);
    same_image(&l.images[0].image, &image);
    same_image(&l.images[1].image, &decoded);
    const qkv_image *const images[] = {&image, &decoded};
    for (size_t k = 0; k < 2; k++) {
        qkv_tape *t;
        assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
        qkv_tape_mode(t, false, false);
        qkv_tensor *x = qkv_tensor_from(t, NULL, 4, (size_t[]){1, IMAGE, IMAGE, 3});
        for (size_t i = 0; i < qkv_count(x); i++)
            qkv_tensor_fill(x)[i] = (qkv_real)((double)images[k]->data[i] / 127.5 - 1);
        const qkv_tensor *y = qkv_vqgan_discriminate(qkv_pipeline_model(p), t, x);
        const qkv_real *logits = qkv_data(t, y);
        assert_non_null(logits);
        const json_t *rows_ = json_object_get(panel(all, "codes-verdict"),
                                              k ? "reconstruction" : "input");
        assert_int_equal(json_array_size(rows_), qkv_dim(y, 1));
        for (size_t i = 0; i < qkv_count(y); i++)
            assert_true(fabs(cell(rows_, i / qkv_dim(y, 2), i % qkv_dim(y, 2)) -
                             (double)logits[i]) < 1e-5);
        qkv_tape_destroy(t);
    }
    json_decref(all);
    qkv_code_grid_free(&grid);
    qkv_look_free(&l);
    drop(&image);
    drop(&decoded);
    qkv_pipeline_close(p);
}

/* Grids of the set by qkv_pipeline_encode, in the order of the list: a, b, c, d. */
static void encode_set(qkv_pipeline *p, int32_t grids[SET][PLACES])
{
    for (size_t i = 0; i < SET; i++) {
        qkv_code_grid g;
        const qkv_image_source file = {.path = in(folder, set_files[i])};
        assert_int_equal(qkv_pipeline_encode(p, &file, &g), QKV_OK);
        assert_int_equal(g.rows * g.columns, PLACES);
        memcpy(grids[i], g.codes, sizeof grids[i]);
        qkv_code_grid_free(&g);
    }
}

static void check_usage(const json_t *usage, int32_t grids[SET][PLACES])
{
    size_t counts[CODES] = {0}, used = 0;
    double entropy = 0;
    for (size_t i = 0; i < SET * PLACES; i++)
        used += !counts[grids[i / PLACES][i % PLACES]]++;
    for (size_t k = 0; k < CODES; k++) {
        double share = (double)counts[k] / (SET * PLACES);
        entropy -= share > 0 ? share * log2(share) : 0;
        assert_int_equal(json_integer_value(json_array_get(json_object_get(usage, "counts"), k)),
                         counts[k]);
    }
    assert_int_equal(number(usage, "used"), used);
    assert_int_equal(number(usage, "dead"), CODES - used);
    assert_true(fabs(number(usage, "perplexity") - exp2(entropy)) < 1e-9);
    assert_int_equal(number(usage, "images"), SET);
}

/* Neighbours of two codes, counted from both sides. */
static size_t neighbours(int32_t grids[SET][PLACES], int32_t a, int32_t b)
{
    size_t n = 0;
    for (size_t i = 0; i < SET; i++)
        for (size_t at = 0; at < PLACES; at++)
            for (size_t to = 0; to < PLACES; to++) {
                bool beside = (to == at + 1 && to % GRID) || to == at + GRID ||
                              (at == to + 1 && at % GRID) || at == to + GRID;
                n += beside && grids[i][at] == a && grids[i][to] == b;
            }
    return n;
}

static void check_together(const json_t *together, int32_t grids[SET][PLACES])
{
    const json_t *order = json_object_get(together, "codes");
    double ends[CODES] = {0}, all = 0;
    for (int32_t a = 0; a < CODES; a++)
        for (int32_t b = 0; b < CODES; b++)
            ends[a] += (double)neighbours(grids, a, b);
    for (size_t k = 0; k < CODES; k++)
        all += ends[k];
    assert_true(json_array_size(order) > 1);
    for (size_t i = 0; i < json_array_size(order); i++)
        for (size_t j = 0; j < json_array_size(order); j++) {
            int32_t a = (int32_t)json_integer_value(json_array_get(order, i));
            int32_t b = (int32_t)json_integer_value(json_array_get(order, j));
            double n = (double)neighbours(grids, a, b);
            assert_true(cell(json_object_get(together, "counts"), i, j) == n);
            const json_t *bits = json_array_get(json_array_get(json_object_get(together, "bits"),
                                                               i), j);
            if (n > 0)
                assert_true(fabs(json_number_value(bits) - log2(n * all / (ends[a] * ends[b]))) <
                            1e-5);
            else
                assert_true(json_is_null(bits));
        }
}

/* The encoder's output of a set's image, (PLACES, WIDTH). */
static void encoder_output(qkv_pipeline *p, const char *file, qkv_real *z)
{
    qkv_tape *t;
    qkv_image image;
    assert_int_equal(qkv_image_read(&image, ctx, file, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, (size_t[]){1, IMAGE, IMAGE, 3});
    for (size_t i = 0; i < qkv_count(x); i++)
        qkv_tensor_fill(x)[i] = (qkv_real)((double)image.data[i] / 127.5 - 1);
    const qkv_real *found = qkv_data(t, qkv_vqgan_encode(qkv_pipeline_model(p), t, x));
    assert_non_null(found);
    memcpy(z, found, PLACES * WIDTH * sizeof *z);
    qkv_tape_destroy(t);
    drop(&image);
}

/* Patches that have the codes do; nearest ones are in order, none nearer is left out. */
static void check_patches(qkv_pipeline *p, const json_t *all, int32_t grids[SET][PLACES])
{
    static qkv_real z[SET][PLACES][WIDTH];
    const qkv_real *table = qkv_param_data(qkv_vqgan_codebook(qkv_pipeline_model(p)));
    size_t k;
    json_t *one;
    for (size_t i = 0; i < SET; i++)
        encoder_output(p, in(folder, set_files[i]), z[i][0]);
    json_array_foreach(json_object_get(panel(all, "codes-where"), "codes"), k, one) {
        const json_t *patches = json_object_get(one, "patches");
        size_t wanted = (size_t)number(one, "count") < 8 ? (size_t)number(one, "count") : 8;
        assert_int_equal(json_array_size(patches), wanted);
        for (size_t i = 0; i < wanted; i++) {
            const json_t *at = json_array_get(patches, i);
            size_t place = (size_t)(number(at, "row") * GRID + number(at, "column"));
            assert_int_equal(grids[(size_t)number(at, "image")][place], number(one, "code"));
        }
    }
    assert_true(k > 0);
    json_array_foreach(json_object_get(panel(all, "codes-nearest"), "codes"), k, one) {
        const json_t *patches = json_object_get(one, "patches");
        const qkv_real *e = table + (size_t)number(one, "code") * WIDTH;
        double before = -1;
        size_t nearer = 0;
        assert_int_equal(json_array_size(patches), 8);
        for (size_t i = 0; i < 8; i++) {
            double distance = number(json_array_get(patches, i), "distance");
            assert_true(distance >= before);
            before = distance;
        }
        for (size_t i = 0; i < SET * PLACES; i++) {
            double sum = 0;
            for (size_t w = 0; w < WIDTH; w++) {
                double d = (double)z[i / PLACES][i % PLACES][w] - (double)e[w];
                sum += d * d;
            }
            nearer += sqrt(sum) < before - 1e-6;
        }
        assert_true(nearer < 8);
    }
    assert_true(k > 0);
}

static void among(void **state)
{
    (void)state;
    qkv_look l;
    int32_t grids[SET][PLACES];
    qkv_pipeline *p = attending(1, true);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    make_set(IMAGE, 11, 1);
    encode_set(p, grids);
    o.among = in(folder, "set");
    const qkv_look_input in_ = {.image = {.path = in(folder, "set/0/b.png")}};
    json_t *all = look_at(p, &in_, &o, &l);
    check_usage(panel(all, "codes-usage"), grids);
    check_together(panel(all, "codes-together"), grids);
    check_patches(p, all, grids);
    const json_t *order = json_object_get(panel(all, "codes-alone"), "codes");
    const json_t *counts = json_object_get(panel(all, "codes-alone"), "counts");
    const json_t *usage = json_object_get(panel(all, "codes-usage"), "counts");
    assert_int_equal(json_array_size(order), CODES);
    for (size_t i = 0; i < CODES; i++) {
        json_int_t code = json_integer_value(json_array_get(order, i));
        json_int_t n = json_integer_value(json_array_get(counts, i));
        assert_int_equal(n, json_integer_value(json_array_get(usage, (size_t)code)));
        assert_true(!i || n <= json_integer_value(json_array_get(counts, i - 1)));
    }
    json_decref(all);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

/* Without a discriminator, and with one that was not trained, a sentence says so. */
static void no_verdict(void **state)
{
    (void)state;
    static const char *const sentences[] = {"has no discriminator", "was not trained",
                                            "too small"};
    qkv_image image;
    draw(&image, IMAGE, IMAGE, 5);
    for (size_t i = 0; i < 3; i++) {
        qkv_look l;
        qkv_pipeline *p = attending(i, i == 2);
        json_t *all = look_at(p, &(qkv_look_input){.image = {.image = &image}}, NULL, &l);
        const qkv_look_panel *verdict = qkv_look_panel_of(&l, "codes-verdict");
        assert_non_null(verdict);
        assert_non_null(strstr(verdict->note, sentences[i]));
        assert_true(json_is_null(panel(all, "codes-verdict")));
        json_decref(all);
        qkv_look_free(&l);
        qkv_pipeline_close(p);
        remove_folder(in(folder, "m"));
    }
    drop(&image);
}

/* ---- a prior --------------------------------------------------------------------------------- */

/* The distribution at each place is what sampling reports there; attention is causal. */
static void prior(void **state)
{
    (void)state;
    qkv_look l;
    qkv_pipeline *p = opened(PRIOR);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    o.seed = 7;
    o.top = 3;
    json_t *all = look_at(p, &(qkv_look_input){.text = NULL}, &o, &l);
    assert_int_equal(l.axes[0].count, PLACES);
    assert_string_equal(l.axes[0].labels[0], "start");
    assert_string_equal(l.images[0].name, "drawn");
    assert_true(l.attentions[0].causal && l.lens_layers == 3 && l.predicted == 0);
    double bits = 0;
    for (size_t i = 0; i < PLACES; i++) {
        char at[32];
        qkv_sampled_images s;
        qkv_pipeline_sample_options ask = qkv_pipeline_sample_defaults();
        (void)snprintf(at, sizeof at, "%zu,%zu", i / GRID, i % GRID);
        ask.count = 1;
        ask.seed = 7;
        ask.show_next = 3;
        ask.at = at;
        assert_int_equal(qkv_pipeline_sample_images(p, &ask, &s), QKV_OK);
        const json_t *here = json_array_get(json_object_get(panel(all, "prior-next"), "positions"),
                                            i);
        assert_int_equal(number(here, "code"), s.codes[i]);
        assert_true(fabs(number(here, "p") - s.drawn[0].probability) < 1e-5);
        for (size_t k = 0; k < 3; k++) {
            const json_t *next = json_array_get(json_object_get(here, "next"), k);
            assert_int_equal(number(next, "code"), s.next[k].code);
            assert_true(fabs(number(next, "p") - s.next[k].probability) < 1e-5);
            assert_true(fabs((double)l.guesses[(2 * PLACES + i) * 3 + k].p -
                             s.next[k].probability) < 1e-5);
        }
        bits -= log2(s.drawn[0].probability) / PLACES;
        if (!i) {
            const qkv_image whole = {s.width, s.height, s.channels, s.images};
            same_image(&l.images[0].image, &whole);
        }
        qkv_sampled_images_free(&s);
    }
    assert_true(fabs(number(panel(all, "prior-entropy"), "bits_per_code") - bits) < 1e-4);
    json_decref(all);
    qkv_look_free(&l);
    qkv_pipeline_close(p);
}

/* Probes see the prior's pass, not its VQGAN's. */
static void prior_places(void **state)
{
    (void)state;
    qkv_pipeline *p = opened(PRIOR);
    qkv_look_places places;
    assert_int_equal(qkv_pipeline_places(p, &places), QKV_OK);
    assert_true(places.count > 10);
    for (size_t i = 0; i < places.count; i++)
        assert_null(strstr(places.items[i].name, "coder."));
    qkv_look_places_free(&places);
    qkv_pipeline_close(p);
}

/* An image's codes are those of its VQGAN; classes by name. */
static void prior_of_image(void **state)
{
    (void)state;
    qkv_look l;
    qkv_pipeline *p, *codec;
    qkv_model *m = made_prior();
    qkv_image image;
    qkv_code_grid grid;
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    assert_int_equal(qkv_model_set_labels(m, names, CLASSES), QKV_OK);
    save(m, "m");
    save(made_codec(), "m/vqgan");
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "m")), QKV_OK);
    assert_int_equal(qkv_pipeline_open(&codec, ctx, in(folder, "m/vqgan")), QKV_OK);
    draw(&image, IMAGE, IMAGE, 9);
    const qkv_image_source in_ = {.image = &image};
    assert_int_equal(qkv_pipeline_encode(codec, &in_, &grid), QKV_OK);
    o.class_ = "17";
    json_t *all = look_at(p, &(qkv_look_input){.image = in_}, &o, &l);
    assert_string_equal(l.axes[0].labels[0], "class 17");
    qkv_look_choice c; /* the code in the middle: the class attends to itself alone */
    assert_int_equal(qkv_look_choose(&l, NULL, &c), QKV_OK);
    assert_int_equal(c.position, l.axes[0].lead + GRID / 2 * GRID + GRID / 2);
    assert_string_equal(l.images[1].name, "decoded");
    const json_t *found = json_object_get(panel(all, "codes-grid"), "codes");
    for (size_t i = 0; i < PLACES; i++)
        assert_int_equal(cell(found, i / GRID, i % GRID), grid.codes[i]);
    json_decref(all);
    qkv_look_free(&l);
    o.class_ = "nothing";
    expect_status(qkv_pipeline_look(p, &(qkv_look_input){.image = in_}, &o, &l), QKV_E_ARGUMENT,
                  "knows no \"nothing\"");
    qkv_code_grid_free(&grid);
    drop(&image);
    qkv_pipeline_close(codec);
    qkv_pipeline_close(p);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_gives_out(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        qkv_image image;
        looked_at a = {.p = kind ? opened(PRIOR) : attending(1, true),
                       .in = {.image = {.image = &image}}};
        draw(&image, IMAGE, IMAGE, 9);
        expect_memory_told(look_and_write, &a, 12);
        drop(&image);
        qkv_pipeline_close(a.p);
        remove_folder(in(folder, "m"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention), cmocka_unit_test(codes), cmocka_unit_test(among),
        cmocka_unit_test(no_verdict), cmocka_unit_test(prior), cmocka_unit_test(prior_of_image),
        cmocka_unit_test(prior_places), cmocka_unit_test(memory_gives_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
