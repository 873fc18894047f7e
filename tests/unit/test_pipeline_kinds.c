/* test_pipeline_kinds.c - every function on images with a model of every kind: its own answers,
 * another is refused with a sentence; bad images; metrics on files; settings by name. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipelines.h"

/* ---- all of them ----------------------------------------------------------------------------- */

/* Calls what the kind does, number `call` in the order of the kinds, with an image. */
static qkv_status call(qkv_pipeline *p, int kind, const qkv_image_source *in_)
{
    qkv_status status = QKV_OK;
    labels l = {0};
    qkv_segmentation s;
    qkv_reconstruction r;
    qkv_colorization c;
    qkv_code_grid g = {0};
    qkv_sampled_images drawn_;
    qkv_pipeline_sample_options o = qkv_pipeline_sample_defaults();
    o.count = 1;
    o.complete = *in_;
    switch (kind) {
    case VIT:
        status = qkv_pipeline_classify_images(p, in_, 1, keep, &l);
        return status ? status : l.bad ? qkv_context_status(ctx) : QKV_OK;
    case MAE:
        status = qkv_pipeline_reconstruct(p, in_, NULL, &r);
        qkv_reconstruction_free(&r);
        break;
    case SEGMENTER:
        status = qkv_pipeline_segment(p, in_, NULL, &s);
        qkv_segmentation_free(&s);
        break;
    case COLORIZER:
        status = qkv_pipeline_colorize(p, in_, NULL, &c);
        qkv_colorization_free(&c);
        break;
    case CODER:
        status = qkv_pipeline_encode(p, in_, &g);
        qkv_code_grid_free(&g);
        break;
    case PRIOR:
        status = qkv_pipeline_sample_images(p, &o, &drawn_);
        qkv_sampled_images_free(&drawn_);
        break;
    default:
        break;
    }
    return status;
}

/* Each with a model of every kind: its own answers; another is a sentence that names it. */
static void test_kinds(void **state)
{
    (void)state;
    qkv_image image = drawn_file("a.png", 16, 16, 1);
    const qkv_image_source pixels = {.image = &image};
    for (int kind = 0; kind < KINDS; kind++) {
        qkv_pipeline *p = opened(kind);
        for (int other = 0; other < KINDS; other++) {
            if (other == LOOKS)
                continue;
            qkv_status status = call(p, other, &pixels);
            assert_int_equal(status, other == kind ? QKV_OK : QKV_E_UNSUPPORTED);
            if (status)
                assert_non_null(strstr(qkv_context_message(ctx), "/m: a "));
        }
        const qkv_code_grid g = {.ctx = ctx, .rows = 1, .columns = 1, .codes = (int32_t[]){0}};
        qkv_image decoded;
        assert_int_equal(qkv_pipeline_decode(p, &g, &decoded),
                         kind == CODER ? QKV_OK : QKV_E_UNSUPPORTED);
        drop(&decoded);
        qkv_pipeline_close(p);
    }
    drop(&image);
}

/* Images that are missing, damaged, or none at all. */
static void test_bad_images(void **state)
{
    (void)state;
    put_file(in(folder, "bad.png"), "\x89PNG\r\n\x1a\n", 8);
    char none_path[PATH_BYTES], bad_path[PATH_BYTES];
    const qkv_image_source missing = {.path = none_path}, bad = {.path = bad_path},
                      nothing = {.path = NULL};
    snprintf(none_path, sizeof none_path, "%.400s/none.png", folder);
    snprintf(bad_path, sizeof bad_path, "%.400s/bad.png", folder);
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == LOOKS)
            continue;
        qkv_pipeline *p = opened(kind);
        expect_status(call(p, kind, &missing), QKV_E_IO, "none.png");
        expect_status(call(p, kind, &bad), QKV_E_FORMAT, "bad.png");
        if (kind != PRIOR) /* which completes none then */
            expect_status(call(p, kind, &nothing), QKV_E_ARGUMENT, "neither a path nor pixels");
        qkv_pipeline_close(p);
    }
}

/* Each kind's metrics on files; what it has no data of. */
static void test_evaluation(void **state)
{
    (void)state;
    static const char *const first[KINDS] = {"accuracy", "psnr", "miou", "psnr", "psnr",
                                             "ranks_blur", "bits_per_code"};
    make_set(SIDE, 1, 0);
    assert_int_equal(mkdir(in(folder, "masks"), 0700), 0);
    for (char name[] = "masks/a.png"; name[6] <= 'd'; name[6]++) {
        qkv_image mask;
        draw(&mask, SIDE, SIDE, 0);
        for (size_t i = 0; i < SIDE * SIDE; i++)
            memset(mask.data + 3 * i, i % 2 ? 17 : 0, 3);
        assert_int_equal(qkv_image_write(&mask, ctx, in(folder, name)), QKV_OK);
        drop(&mask);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        qkv_pipeline *p = opened(kind);
        qkv_pipeline_evaluate_options o = qkv_pipeline_evaluate_defaults();
        qkv_metrics m;
        expect_status(qkv_pipeline_evaluate(p, NULL, &m), QKV_E_IO, "holds no held-out data");
        o.images = in(folder, "set");
        o.masks = in(folder, "masks");
        if (kind != SEGMENTER) {
            expect_status(qkv_pipeline_evaluate(p, &o, &m), QKV_E_ARGUMENT, "--file expected");
            o.images = o.masks = NULL;
            o.file = in(folder, "set");
        }
        if (qkv_pipeline_evaluate(p, &o, &m))
            fail_msg("%s: %s", first[kind], qkv_context_message(ctx));
        assert_string_equal(m.item[0].name, first[kind]);
        assert_int_equal(m.scored, kind == PRIOR ? 4 * PLACES : 4);
        qkv_pipeline_close(p);
    }
}

/* A setting by name is the struct's field. */
static void test_settings(void **state)
{
    (void)state;
    qkv_options *options;
    qkv_pipeline_sample_options s = qkv_pipeline_sample_defaults();
    qkv_pipeline_reconstruct_options r;
    assert_int_equal(qkv_options_create(&options, ctx), QKV_OK);
    assert_int_equal(qkv_options_bind(options, qkv_pipeline_sample_table(), &s), QKV_OK);
    assert_int_equal(qkv_options_set(options, "show_next", "7"), QKV_OK);
    assert_int_equal(qkv_options_set(options, "top_k", "9"), QKV_OK);
    assert_int_equal(qkv_options_set(options, "complete", "a.png"), QKV_OK);
    assert_true(s.show_next == 7 && s.sampling.top_k == 9 && s.count == 16);
    assert_string_equal(s.complete.path, "a.png");
    assert_int_equal(qkv_options_set(options, "show_next", "65"), QKV_E_ARGUMENT);
    qkv_options_destroy(options);
    assert_int_equal(qkv_options_create(&options, ctx), QKV_OK);
    assert_int_equal(qkv_options_bind(options, qkv_pipeline_reconstruct_table(), &r), QKV_OK);
    assert_int_equal(qkv_options_set(options, "mask", "0.25"), QKV_OK);
    assert_int_equal(qkv_options_set(options, "seed", "3"), QKV_OK);
    assert_true(r.mask == 0.25 && r.seed == 3);
    qkv_options_destroy(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_bad_images),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_settings),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
