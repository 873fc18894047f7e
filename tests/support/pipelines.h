/* pipelines.h - a model directory of each kind of model of images, images as files and pixels,
 * and a listener, for tests of pipelines. */
#ifndef QKV_TESTS_PIPELINES_H
#define QKV_TESTS_PIPELINES_H

#include <sys/stat.h>

#include "codes_setting.h"
#include "qkv/pixelwise.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"
#include "qkv/image_file.h"
#include "qkv/mae.h"
#include "qkv/pipeline_images.h"
#include "qkv/vit.h"

enum { CLASSES = 3, GRID = 4, PLACES = GRID * GRID };

/* ---- a directory of each kind ---------------------------------------------------------------- */

static const char *const names[CLASSES] = {"0", "17", "#ff0000"}; /* colours of masks, too */

static inline void trunk(qkv_patches_config *t, size_t channels)
{
    t->image = SIDE;
    t->patch = 4;
    t->channels = channels;
    t->width = 16;
    t->layers = t->heads = 2;
    t->ff_width = 32;
}

static inline qkv_model *made_vit(void)
{
    qkv_vit_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_vit_type()), &c);
    trunk(&c.trunk, 3);
    c.classes = CLASSES;
    return made(qkv_vit_type(), &c);
}

static inline qkv_model *made_mae(void)
{
    qkv_mae_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_mae_type()), &c);
    trunk(&c.trunk, 3);
    c.decoder_width = 16;
    c.decoder_ff_width = 32;
    c.decoder_layers = c.decoder_heads = 2;
    return made(qkv_mae_type(), &c);
}

static inline qkv_model *made_dense(const qkv_model_type *type, size_t channels, size_t outputs)
{
    qkv_pixelwise_config c;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    trunk(&c.trunk, channels);
    c.convolutions = 0;
    c.outputs = outputs;
    return made(type, &c);
}

static inline qkv_model *made_segmenter(void)
{
    return made_dense(qkv_segmenter_type(), 3, CLASSES);
}
static inline qkv_model *made_colorizer(void)
{
    return made_dense(qkv_colorizer_type(), QKV_COLORIZER_INPUTS, 2);
}

static inline qkv_model *made_codec(void)
{
    qkv_vqgan_config c = small();
    c.image = 2 * GRID; /* a code is 2 x 2 pixels */
    return made(qkv_vqgan_type(), &c);
}

static inline qkv_model *made_prior(void)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &c);
    c.vocab = CODES;
    c.rows = c.columns = GRID;
    c.before = 1;
    c.positions = PLACES;
    c.width = 16;
    c.layers = c.heads = 2;
    return made(qkv_prior_type(), &c);
}

enum { VIT, MAE, SEGMENTER, COLORIZER, CODER, LOOKS, PRIOR, KINDS };
static qkv_model *(*const make[KINDS])(void) = {made_vit, made_mae, made_segmenter, made_colorizer,
                                               made_codec, made_perceptual, made_prior};

static inline void save(qkv_model *m, const char *name)
{
    assert_int_equal(qkv_hub_save(m, in(folder, name), NULL), QKV_OK);
    qkv_model_destroy(m);
}

static inline qkv_pipeline *opened(int kind)
{
    static const qkv_image_format half = {SIDE, SIDE, 3, true, 2, {0.5, 0.5, 0.5},
                                          {0.5, 0.5, 0.5}, 0};
    qkv_pipeline *p;
    qkv_model *m = make[kind]();
    if (kind == VIT || kind == SEGMENTER)
        assert_int_equal(qkv_model_set_labels(m, names, CLASSES), QKV_OK);
    if (kind == MAE)
        qkv_model_set_image_format(m, &half);
    save(m, "m");
    if (kind == PRIOR)
        save(made_codec(), "m/vqgan");
    assert_int_equal(qkv_pipeline_open(&p, ctx, in(folder, "m")), QKV_OK);
    return p;
}

/* ---- images -------------------------------------------------------------------------------- */

static inline void draw(qkv_image *image, size_t width, size_t height, size_t number)
{
    assert_int_equal(qkv_image_create(image, ctx, width, height, 3), QKV_OK);
    for (size_t i = 0; i < width * height * 3; i++)
        image->data[i] = mixed(number, i);
}

/* FOLDER/name, and the same pixels. */
static inline qkv_image drawn_file(const char *name, size_t width, size_t height, size_t number)
{
    qkv_image image;
    draw(&image, width, height, number);
    assert_int_equal(qkv_image_write(&image, ctx, in(folder, name)), QKV_OK);
    return image;
}

static inline void drop(qkv_image *image) { qkv_image_free(image, ctx); }

static inline void same_image(const qkv_image *a, const qkv_image *b)
{
    assert_true(a->width == b->width && a->height == b->height && a->channels == b->channels);
    assert_memory_equal(a->data, b->data, a->width * a->height * a->channels);
}

enum { SET = 4 };
static const char *const set_files[SET] = {"set/0/a.png", "set/0/b.png", "set/17/c.png",
                                           "set/17/d.png"};

/* A folder with two of a class each: file i is image `number` i + first. */
static inline void make_set(size_t side, size_t number, size_t first)
{
    assert_int_equal(mkdir(in(folder, "set"), 0700), 0);
    assert_int_equal(mkdir(in(folder, "set/0"), 0700), 0);
    assert_int_equal(mkdir(in(folder, "set/17"), 0700), 0);
    for (size_t i = 0; i < SET; i++) {
        qkv_image image = drawn_file(set_files[i], side, side, number * i + first);
        drop(&image);
    }
}

static inline void expect_status(qkv_status found, qkv_status status, const char *sentence)
{
    assert_int_equal(found, status);
    if (!strstr(qkv_context_message(ctx), sentence))
        fail_msg("\"%s\" expected, found \"%s\"", sentence, qkv_context_message(ctx));
}

/* What the listener heard; it stops the work at the event of that number, from 1. */
typedef struct {
    size_t events, notes, stop_at;
    char last[256];
    bool finished;
} heard;

static inline bool listen(void *user, const qkv_event *event)
{
    heard *h = user;
    if (event->kind == QKV_EVENT_NOTE) {
        h->notes++;
        snprintf(h->last, sizeof h->last, "%s", event->text);
        return true;
    }
    if (event->kind == QKV_EVENT_WORKING)
        return true;
    h->finished = event->total && event->done == event->total;
    return ++h->events != h->stop_at;
}

/* ---- labels ---------------------------------------------------------------------------------- */

typedef struct {
    size_t count, bad, stop_at, input[8];
    qkv_real probabilities[8][CLASSES];
    char name[8][256], error[256];
} labels;

static inline bool keep(void *user, const qkv_image_labels *found)
{
    labels *l = user;
    if (found->error) {
        l->bad++;
        snprintf(l->error, sizeof l->error, "%s", found->error);
        return true;
    }
    assert_int_equal(found->classes, CLASSES);
    l->input[l->count] = found->input;
    snprintf(l->name[l->count], sizeof l->name[0], "%s", found->name);
    memcpy(l->probabilities[l->count], found->probabilities, sizeof l->probabilities[0]);
    return ++l->count != l->stop_at;
}

#endif
