/* test_patch_vectors.c - activation patching of encoders: each value is the cosine that a whole
 * pass gives in which a probe replaces that one activation. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "patched.h"
#include "pipelines_text.h"
#include "qkv/clip.h"
#include "qkv/image_file.h"
#include "qkv/pipeline_embed.h"
#include "qkv/pipeline_look.h"
#include "qkv/vit.h"

enum { LAYERS = 2, WIDTH = 16, SIDE = 16, PATCHES = 16, LONGEST = 16 };

static const char *const texts[] = {"the cat sat on the mat", "the dog sat on the mat",
                                    "a cat, a dog"};
static qkv_image images[2];
static qkv_tape *tape;

static int set_up_images(void **state)
{
    if (set_up(state) || qkv_tape_create(&tape, ctx))
        return -1;
    for (size_t i = 0; i < 2; i++) {
        if (qkv_image_create(&images[i], ctx, SIDE, SIDE, 3))
            return -1;
        for (size_t k = 0; k < SIDE * SIDE * 3; k++)
            images[i].data[k] = (uint8_t)((k * k * (7 + i) + 31 * k) % 251);
    }
    return 0;
}

static int tear_down_images(void **state)
{
    qkv_tape_destroy(tape);
    for (size_t i = 0; i < 2; i++)
        qkv_image_free(&images[i], ctx);
    return tear_down(state);
}

/* ---- models ---------------------------------------------------------------------------------- */

static void trunk(qkv_patches_config *c)
{
    c->image = SIDE;
    c->patch = 4;
    c->channels = 3;
    c->width = WIDTH;
    c->layers = c->heads = 2;
    c->ff_width = 2 * WIDTH;
}

static qkv_pipeline *make_text_encoder(void)
{
    qkv_bert_config c;
    qkv_tokenizer *t = learn_words(QKV_TOKENIZER_WORDPIECE);
    qkv_option_defaults(qkv_model_type_config(qkv_bert_encoder_type()), &c);
    c.vocab = qkv_tokenizer_vocab_size(t);
    c.positions = LONGEST;
    c.width = WIDTH;
    c.layers = c.heads = 2;
    c.init_range = 0.5;
    return make("m", qkv_bert_encoder_type(), &c, t);
}

static qkv_pipeline *make_image_encoder(void)
{
    qkv_vit_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_vit_encoder_type()), &c);
    trunk(&c.trunk);
    c.trunk.init_range = 0.5;
    return make("m", qkv_vit_encoder_type(), &c, NULL);
}

static qkv_pipeline *make_clip(void)
{
    static const qkv_image_format half = {SIDE, SIDE, 3, true, 2, {0.5, 0.5, 0.5},
                                          {0.5, 0.5, 0.5}, 0};
    qkv_clip_config c;
    qkv_model *m;
    qkv_pipeline *p;
    qkv_tokenizer *t = learn_words(QKV_TOKENIZER_WORDPIECE);
    qkv_option_defaults(qkv_model_type_config(qkv_clip_type()), &c);
    trunk(&c.vision);
    c.text.vocab = qkv_tokenizer_vocab_size(t);
    c.text.positions = LONGEST;
    c.text.width = WIDTH;
    c.text.layers = c.text.heads = 2;
    c.text.ff_width = 2 * WIDTH;
    c.text.eos = qkv_tokenizer_special(t, QKV_TOKEN_SEP);
    c.projection = 8;
    assert_int_equal(qkv_model_create(&m, ctx, qkv_clip_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 3), QKV_OK);
    qkv_model_set_image_format(m, &half);
    assert_int_equal(qkv_hub_save(m, in(folder, "m"), NULL), QKV_OK);
    assert_int_equal(qkv_tokenizer_save(t, in(folder, "m")), QKV_OK);
    qkv_tokenizer_destroy(t);
    qkv_model_destroy(m);
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "m")), QKV_OK);
    return p;
}

/* ---- whole passes ---------------------------------------------------------------------------- */

static qkv_tensor *tokens_of(qkv_pipeline *p, size_t which, size_t *count)
{
    qkv_ids ids = {0};
    assert_int_equal(qkv_tokenizer_encode(qkv_pipeline_tokenizer(p), texts[which],
                                          strlen(texts[which]), QKV_ENCODE_ADD_SPECIAL, &ids),
                     QKV_OK);
    qkv_tensor *x = qkv_tensor_ids(tape, ids.data, 2, (size_t[]){1, ids.count});
    *count = ids.count;
    qkv_ids_free(&ids, ctx);
    return x;
}

static qkv_tensor *of_text(qkv_pipeline *p, size_t which, size_t *T)
{
    qkv_model *m = qkv_pipeline_model(p);
    const qkv_bert_input in_ = {.ids = tokens_of(p, which, T)};
    return qkv_bert_vectors(m, tape, &in_, qkv_bert_hidden(m, tape, &in_));
}

static qkv_tensor *of_caption(qkv_pipeline *p, size_t which, size_t *T)
{
    return qkv_clip_texts(qkv_pipeline_model(p), tape, tokens_of(p, which, T), 0, NULL);
}

static qkv_tensor *pixels_of(size_t which, size_t *T)
{
    qkv_real x[SIDE * SIDE * 3];
    for (size_t i = 0; i < SIDE * SIDE * 3; i++)
        x[i] = (qkv_real)(images[which].data[i] / 127.5 - 1);
    *T = 1 + PATCHES;
    return qkv_tensor_from(tape, x, 4, (size_t[]){1, SIDE, SIDE, 3});
}

static qkv_tensor *of_image(qkv_pipeline *p, size_t which, size_t *T)
{
    return qkv_vit_vectors(qkv_pipeline_model(p), tape, pixels_of(which, T));
}

static qkv_tensor *of_captioned(qkv_pipeline *p, size_t which, size_t *T)
{
    return qkv_clip_images(qkv_pipeline_model(p), tape, pixels_of(which, T));
}

/* A kind of encoder in tests. */
typedef struct {
    qkv_pipeline *(*make)(void);
    qkv_tensor *(*vector)(qkv_pipeline *p, size_t which, size_t *T);
    const char *stack;
    bool image;
} tested;

static const tested kinds[] = {{make_text_encoder, of_text, "layer", false},
                               {make_image_encoder, of_image, "layer", true},
                               {make_clip, of_caption, "text", false},
                               {make_clip, of_captioned, "vision", true}};

static qkv_look_input input(const tested *k, size_t which)
{
    return k->image ? (qkv_look_input){.image = {.image = &images[which]}}
                    : (qkv_look_input){.text = texts[which]};
}

/* The vector of a whole pass: its width. */
static size_t whole_pass(const tested *k, qkv_pipeline *p, size_t which, const char *place,
                         one_place *o, double *out, size_t *T)
{
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, false, false);
    if (place)
        assert_int_equal(qkv_probe_add(tape, place, replace_one, o), QKV_OK);
    const qkv_tensor *x = k->vector(p, which, T);
    const qkv_real *data = qkv_data(tape, x);
    if (!data)
        fail_msg("%s", qkv_context_message(ctx));
    for (size_t i = 0; i < qkv_count(x); i++)
        out[i] = (double)data[i];
    qkv_probes_clear(tape);
    return qkv_count(x);
}

static double cosine(const double *a, const double *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

/* ---- grids ----------------------------------------------------------------------------------- */

static void check_grids(const tested *k, const char *place, bool by_head)
{
    static one_place o;
    qkv_pipeline *p = k->make();
    qkv_pipeline_patch_options options = qkv_pipeline_patch_defaults();
    const qkv_look_input clean = input(k, 0), corrupt = input(k, 1);
    qkv_patch found;
    double toward[WIDTH], moved = 0;
    size_t T;
    options.place = place;
    options.heads = by_head;
    if (qkv_pipeline_patch(p, &clean, &corrupt, &options, &found))
        fail_msg("%s", qkv_context_message(ctx));
    size_t width = whole_pass(k, p, 0, NULL, NULL, toward, &T);
    const qkv_patch_grid *g = &found.grids[0];
    assert_string_equal(found.answer, "cosine with the clean input");
    assert_true(found.grid_count == 1 && found.numbers && found.outcome_count == 1);
    assert_string_equal(g->stack, k->stack);
    assert_true(g->layers == LAYERS && g->positions == (by_head ? 2 : T));
    assert_true(fabs(found.clean - 1) < 1e-5 && found.corrupt < 0.999);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        char name[64];
        double vector[WIDTH];
        (void)snprintf(name, sizeof name, "%s.%zu.%s", k->stack, layer, place);
        o.replace = false;
        (void)whole_pass(k, p, 0, name, &o, vector, &T);
        o.replace = true;
        o.stride = WIDTH;
        o.count = by_head ? WIDTH / 2 : WIDTH;
        o.times = by_head ? T : 1;
        for (size_t i = 0; i < g->positions; i++) {
            o.from = i * o.count;
            double value = g->values[layer * g->positions + i];
            (void)whole_pass(k, p, 1, name, &o, vector, &T);
            assert_true(fabs(cosine(vector, toward, width) - value) < 1e-4);
            moved = fmax(moved, fabs(value - found.corrupt));
        }
    }
    assert_true(moved > 1e-3);
    qkv_patch_free(&found);
    qkv_pipeline_close(p);
    remove_folder(in(folder, "m"));
}

static void every_encoder(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        check_grids(&kinds[i], "resid_pre", false);
        check_grids(&kinds[i], "ff.out", false);
        check_grids(&kinds[i], "attn.z", true);
    }
}

/* The cosine with a text less that with another, of texts and of images. */
static void toward_texts(void **state)
{
    (void)state;
    qkv_pipeline *p = make_clip();
    qkv_vectors v = {0};
    qkv_pipeline_patch_options options = qkv_pipeline_patch_defaults();
    options.answer = texts[2];
    options.other = texts[0];
    assert_int_equal(qkv_pipeline_embed_texts(p, texts, 3, &v), QKV_OK);
    for (size_t i = 2; i < 4; i++) {
        const qkv_look_input clean = input(&kinds[i], 0), corrupt = input(&kinds[i], 1);
        qkv_patch found;
        double vector[WIDTH], measured[2], to[2][WIDTH];
        size_t T;
        assert_int_equal(qkv_pipeline_patch(p, &clean, &corrupt, &options, &found), QKV_OK);
        assert_string_equal(found.answer, "cosine with a cat, a dog");
        assert_string_equal(found.other, "cosine with the cat sat on the mat");
        assert_int_equal(found.outcome_count, 2);
        for (size_t d = 0; d < v.width; d++) {
            to[0][d] = (double)v.data[2 * v.width + d];
            to[1][d] = (double)v.data[d];
        }
        for (size_t which = 0; which < 2; which++) {
            (void)whole_pass(&kinds[i], p, which, NULL, NULL, vector, &T);
            measured[which] = cosine(vector, to[0], v.width) - cosine(vector, to[1], v.width);
        }
        assert_true(fabs(measured[0] - found.clean) < 1e-4);
        assert_true(fabs(measured[1] - found.corrupt) < 1e-4);
        qkv_patch_free(&found);
    }
    qkv_vectors_free(&v);
    qkv_pipeline_close(p);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* The vectors before and after a layer's output is taken out. */
static void changed_encoders(void **state)
{
    (void)state;
    static one_place o;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const tested *k = &kinds[i];
        qkv_pipeline *p = k->make();
        const qkv_look_input in_ = input(k, 0);
        qkv_pipeline_look_options options = qkv_pipeline_look_defaults();
        qkv_changed found;
        qkv_str text;
        char place[32], change[48];
        const char *changes[] = {change};
        double before[WIDTH], after[WIDTH], sum = 0;
        size_t T;
        (void)snprintf(place, sizeof place, "%s.1.ff.out", k->stack);
        (void)snprintf(change, sizeof change, "%s zero", place);
        options.changes = (qkv_strings){.count = 1, .items = changes};
        if (qkv_pipeline_change(p, &in_, &options, &found))
            fail_msg("%s", qkv_context_message(ctx));
        size_t width = whole_pass(k, p, 0, NULL, NULL, before, &T);
        o = (one_place){.count = T * WIDTH, .times = 1, .replace = true};
        (void)whole_pass(k, p, 0, place, &o, after, &T);
        assert_int_equal(found.before.vector_width, width);
        for (size_t d = 0; d < width; d++)
            sum += (double)found.before.vector[d] * (double)found.after.vector[d];
        assert_true(fabs(sum - cosine(before, after, width)) < 1e-4 && sum < 0.9999);
        qkv_str_init(&text, ctx);
        assert_int_equal(qkv_changed_text(&found, -1, &text), QKV_OK);
        assert_non_null(strstr(text.data, "cosine of the vectors before and after: "));
        assert_int_equal(qkv_changed_page(&found, -1, NULL, in(folder, "page.html")), QKV_OK);
        qkv_str_free(&text);
        qkv_changed_free(&found);
        qkv_pipeline_close(p);
        remove_folder(in(folder, "m"));
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

/* A model of texts and images has the places of both, and looks at either. */
static void both_sides(void **state)
{
    (void)state;
    qkv_pipeline *p = make_clip();
    qkv_look_places names;
    bool seen[2] = {false, false};
    assert_int_equal(qkv_pipeline_places(p, &names), QKV_OK);
    for (size_t i = 0; i < names.count; i++) {
        seen[0] = seen[0] || strcmp(names.items[i].name, "text.1.attn.z") == 0;
        seen[1] = seen[1] || strcmp(names.items[i].name, "vision.1.attn.z") == 0;
    }
    assert_true(seen[0] && seen[1]);
    qkv_look_places_free(&names);
    for (size_t i = 2; i < 4; i++) {
        const qkv_look_input in_ = input(&kinds[i], 0);
        qkv_look l;
        assert_int_equal(qkv_pipeline_look(p, &in_, NULL, &l), QKV_OK);
        assert_true(l.attentions_count == 1 && l.attentions[0].layers == LAYERS);
        assert_true(l.attentions[0].causal == !kinds[i].image);
        assert_non_null(qkv_look_panel_of(&l, "positions"));
        assert_true(!kinds[i].image == !qkv_look_panel_of(&l, "filters"));
        assert_int_equal(qkv_look_page(&l, NULL, in(folder, "page.html")), QKV_OK);
        qkv_look_free(&l);
    }
    qkv_pipeline_close(p);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void expect(qkv_pipeline *p, const qkv_look_input *clean, const qkv_look_input *corrupt,
                   const qkv_pipeline_patch_options *o, const char *sentence)
{
    qkv_patch found;
    assert_int_not_equal(qkv_pipeline_patch(p, clean, corrupt, o, &found), QKV_OK);
    if (!strstr(qkv_context_message(ctx), sentence))
        fail_msg("\"%s\" expected, found \"%s\"", sentence, qkv_context_message(ctx));
}

static void wrong_inputs(void **state)
{
    (void)state;
    qkv_pipeline *p = make_clip();
    qkv_pipeline_patch_options o = qkv_pipeline_patch_defaults();
    const qkv_look_input text = input(&kinds[2], 0), image = input(&kinds[3], 0);
    const qkv_look_input shorter = {.text = "the cat"};
    expect(p, &text, &image, NULL, "a text and an image: two of a kind expected");
    expect(p, &text, &shorter, NULL, "as many expected");
    o.pixel = "1,2";
    expect(p, &image, &image, &o, "--pixel: the model does not answer at pixels");
    o.pixel = NULL;
    o.place = "cross.out";
    expect(p, &image, &image, &o, "--place: the model has no vision.*.cross.out");
    qkv_pipeline_close(p);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_gives_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        patching_of a = {kinds[i].make(), input(&kinds[i], 0), input(&kinds[i], 1),
                         qkv_pipeline_patch_defaults()};
        a.options.answer = kinds[i].image ? NULL : texts[2];
        expect_memory_told(patch_and_write, &a, 12);
        qkv_pipeline_close(a.p);
        remove_folder(in(folder, "m"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_encoder), cmocka_unit_test(toward_texts),
        cmocka_unit_test(changed_encoders), cmocka_unit_test(both_sides),
        cmocka_unit_test(wrong_inputs),
        cmocka_unit_test(memory_gives_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up_images, tear_down_images);
}
