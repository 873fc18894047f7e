/* test_preprocessor.c - preprocessor_config.json: read in the shapes that files have it, refused
 * where it asks for something else, and written so that it reads the same. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "files.h"
#include "qkv/hub.h"
#include "qkv/vit.h"

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    char folder[PATH_BYTES];
} fixture;

static void open_fixture(fixture *f)
{
    qkv_vit_config c;
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    qkv_option_defaults(qkv_model_type_config(qkv_vit_type()), &c);
    assert_true(qkv_model_type_preset(qkv_vit_type(), "nano", &c));
    c.trunk.image = 16;
    assert_int_equal(qkv_model_create(&f->model, f->ctx, qkv_vit_type(), &c), QKV_OK);
    make_folder(f->folder);
    assert_int_equal(qkv_hub_save(f->model, f->folder, NULL), QKV_OK);
}

static void close_fixture(fixture *f)
{
    qkv_model_destroy(f->model);
    remove_folder(f->folder);
    qkv_context_destroy(f->ctx);
}

/* The model again, beside that file. */
static qkv_status load(fixture *f, const char *text, qkv_model **out)
{
    put_file(in(f->folder, "preprocessor_config.json"), text, strlen(text));
    return qkv_hub_load_config(out, f->ctx, f->folder);
}

static void test_none(void **state)
{
    (void)state;
    fixture f;
    qkv_model *again;
    open_fixture(&f);
    assert_null(qkv_model_image_format(f.model));
    assert_int_equal(qkv_hub_load(&again, f.ctx, f.folder), QKV_OK);
    assert_null(qkv_model_image_format(again));
    qkv_model_destroy(again);
    close_fixture(&f);
}

static void test_reads(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        qkv_image_format expected;
    } cases[] = {
        {"{}", {224, 224, 3, false, 2, {.5, .5, .5}, {.5, .5, .5}, 0}},
        {"{\"size\": 384, \"resample\": 3, \"image_mean\": [0.1, 0.2, 0.3], \"image_std\": [1, 2,"
         " 3]}", {384, 384, 3, false, 3, {.1, .2, .3}, {1, 2, 3}, 0}},
        {"{\"size\": {\"height\": 20, \"width\": 30}, \"do_normalize\": false}",
         {20, 30, 3, false, 2, {0, 0, 0}, {1, 1, 1}, 0}},
        {"{\"size\": {\"shortest_edge\": 28}, \"do_center_crop\": true, \"crop_size\": 28, "
         "\"image_mean\": [0.25], \"image_std\": [0.125]}",
         {28, 28, 1, true, 2, {.25, .5, .5}, {.125, .5, .5}, 28}},
        /* DINOv2's, DeiT's of transformers 4 and of 5, CLIP's first. */
        {"{\"crop_size\": {\"height\": 224, \"width\": 224}, \"do_center_crop\": true, "
         "\"image_processor_type\": \"BitImageProcessor\", \"resample\": 3, "
         "\"size\": {\"shortest_edge\": 256}}",
         {224, 224, 3, true, 3, {.5, .5, .5}, {.5, .5, .5}, 256}},
        {"{\"crop_size\": 224, \"do_center_crop\": true, \"size\": 256, "
         "\"feature_extractor_type\": \"DeiTFeatureExtractor\"}",
         {224, 224, 3, false, 2, {.5, .5, .5}, {.5, .5, .5}, 256}},
        {"{\"crop_size\": {\"height\": 224, \"width\": 200}, \"do_center_crop\": true, "
         "\"size\": {\"height\": 256, \"width\": 256}}",
         {224, 200, 3, false, 2, {.5, .5, .5}, {.5, .5, .5}, 256}},
        {"{\"crop_size\": 224, \"do_center_crop\": true, \"size\": 224, "
         "\"feature_extractor_type\": \"CLIPFeatureExtractor\"}",
         {224, 224, 3, true, 2, {.5, .5, .5}, {.5, .5, .5}, 224}},
        {"{\"do_center_crop\": false, \"crop_size\": 224, \"size\": 256}",
         {256, 256, 3, false, 2, {.5, .5, .5}, {.5, .5, .5}, 0}},
    };
    fixture f;
    qkv_model *m;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (load(&f, cases[i].text, &m))
            fail_msg("%s", qkv_context_message(f.ctx));
        const qkv_image_format *got = qkv_model_image_format(m), *e = &cases[i].expected;
        assert_non_null(got);
        assert_true(got->height == e->height && got->width == e->width);
        assert_true(got->channels == e->channels && got->crop == e->crop);
        assert_int_equal(got->resample, e->resample);
        assert_int_equal(got->resize, e->resize);
        for (size_t k = 0; k < 3; k++)
            assert_true(got->mean[k] == e->mean[k] && got->std[k] == e->std[k]);
        qkv_model_destroy(m);
    }
    close_fixture(&f);
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"{\"size\": 0}", "size"},
        {"{\"size\": {\"height\": 20}}", "size.width"},
        {"{\"resample\": 1}", "2 (bilinear), 3 (bicubic) or 4 (box) expected, found 1"},
        {"{\"rescale_factor\": 1}", "pixels that are not divided by 255 are not supported"},
        {"{\"image_mean\": [1, 2]}", "1 or 3 numbers expected, found 2"},
        {"{\"image_mean\": [1], \"image_std\": [1, 1, 1]}", "3 numbers, but image_mean has 1"},
        {"{\"image_std\": [0, 0, 0]}", "image_std"},
        {"{\"size\": {\"shortest_edge\": 224}, \"do_center_crop\": true, \"crop_size\": 256}",
         "\"crop_size\": a crop larger than the resized image (224) is not supported"},
        {"{\"size\": {\"height\": 256, \"width\": 300}, \"do_center_crop\": true, "
         "\"crop_size\": 224}", "\"size\": 300 x 256, of which a part is cut, is not supported"},
        {"{\"feature_extractor_type\": 3}", "feature_extractor_type"},
        {"[", "preprocessor_config.json"},
    };
    fixture f;
    qkv_model *m;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_not_equal(load(&f, cases[i].text, &m), QKV_OK);
        assert_null(m);
        if (!strstr(qkv_context_message(f.ctx), cases[i].sentence))
            fail_msg("expected \"%s\" in: %s", cases[i].sentence, qkv_context_message(f.ctx));
    }
    close_fixture(&f);
}

static void test_writes(void **state)
{
    (void)state;
    static const qkv_image_format formats[] = {
        {32, 48, 3, false, 3, {.1, .2, .3}, {.4, .5, .6}, 0},
        {28, 28, 1, true, 2, {.3, .5, .5}, {.25, .5, .5}, 28},
        {32, 48, 3, true, 3, {.1, .2, .3}, {.4, .5, .6}, 0},
        {28, 20, 3, true, 3, {.1, .2, .3}, {.4, .5, .6}, 30},
        {28, 20, 3, false, 3, {.1, .2, .3}, {.4, .5, .6}, 30},
    };
    fixture f;
    qkv_model *m;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        qkv_model_set_image_format(f.model, &formats[i]);
        assert_int_equal(qkv_hub_save(f.model, f.folder, NULL), QKV_OK);
        assert_int_equal(qkv_hub_load(&m, f.ctx, f.folder), QKV_OK);
        const qkv_image_format *got = qkv_model_image_format(m);
        assert_true(got->height == formats[i].height && got->width == formats[i].width);
        assert_true(got->channels == formats[i].channels && got->crop == formats[i].crop);
        assert_int_equal(got->resize, formats[i].resize);
        assert_memory_equal(got->mean, formats[i].mean, got->channels * sizeof(double));
        assert_memory_equal(got->std, formats[i].std, got->channels * sizeof(double));
        qkv_model_destroy(m);
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none), cmocka_unit_test(test_reads), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
