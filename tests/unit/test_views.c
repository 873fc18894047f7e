/* test_views.c - vectors of images: views of one image, colours that change, neighbours and probes
 * against what must come out, what is saved, and that the task learns and is a function of its
 * step. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "image/augment_steps.h"
#include "fixture.h"
#include "qkv/hub.h"
#include "qkv/job.h"
#include "qkv/pipeline_embed.h"
#include "qkv/random.h"
#include "qkv/safetensors.h"
#include "qkv/train.h"
#include "qkv/vit.h"

enum { SIDE = 8, IMAGES = 12 };

static void check(qkv_status status)
{
    if (status)
        fail_msg("%s", qkv_context_message(ctx));
}

/* Image i is one of four colours, brighter from left to right; its class is the colour. */
static qkv_pixels *images(size_t n)
{
    static const uint8_t colors[4][3] = {{200, 20, 20}, {20, 200, 20}, {20, 20, 200}, {90, 90, 90}};
    qkv_pixels_writer *w;
    qkv_pixels *p;
    check(qkv_pixels_create(&w, ctx, NULL, SIDE, SIDE, 3));
    for (int c = 0; c < 4; c++)
        check(qkv_pixels_add_class(w, (const char *const[]){"r", "g", "b", "n"}[c]));
    for (size_t i = 0; i < n; i++) {
        uint8_t data[SIDE * SIDE * 3];
        for (size_t k = 0; k < sizeof data; k++)
            data[k] = (uint8_t)(colors[i % 4][k % 3] + k / 3 % SIDE * (i % 5));
        check(qkv_pixels_add(w, data, (int32_t)(i % 4), ""));
    }
    check(qkv_pixels_finish(w, &p));
    return p;
}

static qkv_model *encoder(const qkv_model_type *type)
{
    qkv_vit_config c;
    qkv_model *m;
    const qkv_image_format f = {.height = SIDE, .width = SIDE, .channels = 3, .resample = 2,
                                .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.trunk.image = SIDE;
    c.trunk.patch = 4;
    c.trunk.width = 16;
    c.trunk.layers = 1;
    c.trunk.heads = 2;
    c.conv_channels = 8;
    check(qkv_model_create(&m, ctx, type, &c));
    check(qkv_model_init(m, 3));
    qkv_model_set_image_format(m, &f);
    return m;
}

/* ---- views ----------------------------------------------------------------------------------- */

static void two_views_are_of_one_image(void **state)
{
    (void)state;
    qkv_pixels *p = images(IMAGES);
    qkv_batches *b;
    const qkv_batches_options o = {.count = IMAGES, .std = {1, 1, 1}, .seed = 4, .views = 2,
                                   .augment = qkv_embed_images_defaults().augment};
    const uint8_t *pixels;
    const size_t *numbers;
    bool seen[IMAGES] = {false};
    check(qkv_batches_create(&b, ctx, p, &o));
    check(qkv_batches_bytes(b, 0, 2 * IMAGES, &pixels, NULL, &numbers));
    for (size_t i = 0; i < IMAGES; i++) {
        assert_int_equal(numbers[2 * i], numbers[2 * i + 1]);
        assert_false(seen[numbers[2 * i]]);
        seen[numbers[2 * i]] = true;
        assert_memory_not_equal(pixels + 2 * i * SIDE * SIDE * 3,
                                pixels + (2 * i + 1) * SIDE * SIDE * 3, SIDE * SIDE * 3);
    }
    qkv_batches_destroy(b);
    qkv_pixels_close(p);
}

static void hues_go_round(void **state)
{
    (void)state;
    uint8_t from[] = {200, 20, 20, 20, 200, 20, 90, 90, 90, 10, 60, 200}, to[sizeof from];
    const qkv_image in = {4, 1, 3, from};
    qkv_image out = {4, 1, 3, to};
    const uint8_t third[] = {20, 200, 20, 20, 20, 200, 90, 90, 90};
    qkv__hue(&out, &in, 1.0 / 3, NULL);
    assert_memory_equal(to, third, sizeof third);
    const double turns[] = {0, 1, -1};
    for (int i = 0; i < 3; i++) {
        qkv__hue(&out, &in, turns[i], NULL);
        assert_memory_equal(to, from, sizeof from);
    }
    qkv__hue(&out, &in, 0.5, NULL); /* yellow for blue, as bright */
    assert_int_equal(to[9], 200);
    assert_int_equal(to[11], 10);
    assert_true(to[10] > 140 && to[10] < 160);
}

static void colours_change_and_go(void **state)
{
    (void)state;
    qkv_pixels *p = images(400);
    qkv_batches *b;
    qkv_batches_options o = {.count = 400, .std = {1, 1, 1}, .augment = {.grey = 0.25}};
    const uint8_t *x;
    const size_t *numbers;
    size_t grey = 0, changed = 0, size = SIDE * SIDE * 3;
    check(qkv_batches_create(&b, ctx, p, &o));
    check(qkv_batches_bytes(b, 0, 400, &x, NULL, &numbers));
    for (size_t i = 0; i < 400; i++) {
        const uint8_t *at = x + i * size;
        grey += numbers[i] % 4 != 3 && at[0] == at[1] && at[1] == at[2];
    }
    assert_true(grey > 45 && grey < 110); /* of 300 images with colours a quarter */
    qkv_batches_destroy(b);
    o.augment = (qkv_augment_options){.jitter = 0.5};
    check(qkv_batches_create(&b, ctx, p, &o));
    check(qkv_batches_bytes(b, 0, 400, &x, NULL, &numbers));
    for (size_t i = 0; i < 400; i++)
        changed += memcmp(x + i * size, qkv_pixels_data(p, numbers[i]), size) != 0;
    assert_true(changed > 280 && changed < 360); /* four fifths */
    qkv_batches_destroy(b);
    qkv_pixels_close(p);
}

/* ---- classes --------------------------------------------------------------------------------- */

enum { ROWS = 200, WIDTH = 6 };

/* Class c lies around the c-th axis. */
static void classes_of(qkv_real *x, int32_t *classes, size_t n, double noise, uint64_t seed)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, 1);
    for (size_t i = 0; i < n; i++) {
        classes[i] = (int32_t)(i % 4);
        for (size_t c = 0; c < WIDTH; c++)
            x[i * WIDTH + c] = (qkv_real)((c == i % 4) + noise * qkv_rng_normal(&r));
    }
}

static void classes_are_found(void **state)
{
    (void)state;
    static qkv_real x[ROWS * WIDTH], y[ROWS * WIDTH];
    static int32_t a[ROWS], b[ROWS];
    qkv_tape *t;
    double accuracy, again;
    check(qkv_tape_create(&t, ctx));
    classes_of(x, a, ROWS, 0.1, 1);
    classes_of(y, b, ROWS, 0.1, 2);
    check(qkv_knn_accuracy(t, y, b, ROWS, x, a, ROWS, WIDTH, 5, &accuracy));
    assert_true(accuracy == 1);
    check(qkv_knn_accuracy(t, x, a, ROWS, NULL, NULL, 0, WIDTH, 5, &accuracy));
    assert_true(accuracy == 1);
    /* Each row's nearest other row is of another class: by itself it would be found. */
    static qkv_real pairs[8 * WIDTH];
    static const int32_t other[] = {0, 1, 0, 1, 0, 1, 0, 1};
    for (size_t i = 0; i < 8; i++)
        pairs[i * WIDTH + i / 2] = 1;
    check(qkv_knn_accuracy(t, pairs, other, 8, NULL, NULL, 0, WIDTH, 1, &accuracy));
    assert_true(accuracy == 0);
    check(qkv_knn_accuracy(t, pairs, other, 8, pairs, other, 8, WIDTH, 1, &accuracy));
    assert_true(accuracy == 0.5); /* of two equals the first */
    /* As many votes for either class: the nearer neighbour's, and never a row's own. */
    static const qkv_real three[3 * WIDTH] = {1, 0, 0, 0, 0, 0, 9, 1, 0, 0, 0, 0, 8, 3};
    static const int32_t mixed[] = {0, 1, 0};
    check(qkv_knn_accuracy(t, three, mixed, 3, NULL, NULL, 0, WIDTH, 2, &accuracy));
    assert_true(accuracy == 0);
    qkv_tape_destroy(t);
    const qkv_labelled_rows train = {x, a, ROWS, WIDTH}, test = {y, b, ROWS, WIDTH};
    check(qkv_linear_probe(ctx, &train, &test, 4, 1, &accuracy));
    check(qkv_linear_probe(ctx, &train, &test, 4, 1, &again));
    assert_true(accuracy > 0.98 && accuracy == again);
    assert_int_equal(qkv_linear_probe(ctx, &train, &test, 3, 1, &accuracy), QKV_E_ARGUMENT);
    const qkv_labelled_rows narrow = {y, b, ROWS, WIDTH - 1}, none = {y, b, 0, WIDTH};
    assert_int_equal(qkv_linear_probe(ctx, &train, &narrow, 4, 1, &accuracy), QKV_E_ARGUMENT);
    assert_int_equal(qkv_linear_probe(ctx, &none, &test, 4, 1, &accuracy), QKV_E_ARGUMENT);
}

/* ---- the task -------------------------------------------------------------------------------- */

static double loss_of(const qkv_task *task, uint64_t step, size_t first, size_t count)
{
    qkv_tape *t;
    check(qkv_tape_create(&t, ctx));
    qkv_tape_mode(t, true, true);
    double value = (double)qkv_item(t, task->type->loss(task->self, t, &(qkv_micro_batch){
        .step = step, .first = first, .count = count, .total = IMAGES}));
    check(qkv_tape_status(t));
    qkv_tape_destroy(t);
    return value;
}

static void learns_what_an_image_is(void **state)
{
    (void)state;
    const qkv_model_type *const types[] = {qkv_vit_encoder_type(), qkv_cct_encoder_type()};
    qkv_pixels *p = images(IMAGES), *held = images(64);
    for (int i = 0; i < 2; i++) {
        qkv_model *m = encoder(types[i]);
        qkv_task task;
        qkv_training o = qkv_training_defaults();
        o.loop.steps = 60;
        o.loop.batch = IMAGES;
        o.schedule.lr = 0.003;
        o.schedule.warmup = 5;
        qkv_embed_images_options e = qkv_embed_images_defaults();
        e.augment = (qkv_augment_options){.flip = true};
        e.temperature = 0.2;
        check(qkv_task_embed_images(&task, m, p, held, &e, 5));
        double before = loss_of(&task, 1, 0, IMAGES), part = loss_of(&task, 1, 4, 6);
        assert_true(loss_of(&task, 1, 0, IMAGES) == before && loss_of(&task, 1, 4, 6) == part);
        assert_true(loss_of(&task, 2, 0, IMAGES) != before && part != before);
        check(qkv_train(&task, &o.loop, &o.optimizer, &o.schedule, NULL, false, NULL, NULL,
                        &(qkv_train_result){0}));
        assert_true(loss_of(&task, 1, 0, IMAGES) < 0.7 * before);
        qkv_metrics metrics;
        qkv_tape *t;
        check(qkv_tape_create(&t, ctx));
        check(task.type->evaluate(task.self, t, 0, &metrics));
        assert_string_equal(metrics.item[0].name, "knn");
        assert_true(metrics.item[0].value > 0.9); /* 15 others of its colour, 10 neighbours */
        assert_string_equal(metrics.item[1].name, "loss");
        assert_true(metrics.more_is_better);
        qkv_tape_destroy(t);
        qkv_task_destroy(&task);
        qkv_model_destroy(m);
    }
    qkv_pixels_close(held);
    qkv_pixels_close(p);
}

/* The projection stays out of the directory, which a classifier begins with. */
static void directories_hold_the_encoder(void **state)
{
    (void)state;
    qkv_pixels *p = images(IMAGES);
    qkv_model *m = encoder(qkv_vit_encoder_type()), *again, *classifier;
    qkv_safetensors *file;
    qkv_task task;
    qkv_vit_config c = *(const qkv_vit_config *)qkv_model_config(m);
    check(qkv_task_embed_images(&task, m, p, NULL, NULL, 5));
    assert_non_null(qkv_params_find(qkv_model_params(m), "projection.1.weight"));
    check(qkv_hub_save(m, in(folder, "vit"), NULL));
    check(qkv_safetensors_open(&file, ctx, in(folder, "vit")));
    assert_null(qkv_safetensors_find(file, "projection.1.weight"));
    assert_non_null(qkv_safetensors_find(file, "embeddings.cls_token"));
    assert_non_null(qkv_safetensors_find(file, "layernorm.weight"));
    assert_non_null(qkv_safetensors_find(file, "pooler.dense.weight"));
    qkv_safetensors_close(file);
    check(qkv_hub_load(&again, ctx, in(folder, "vit")));
    assert_ptr_equal(qkv_model_type_of(again), qkv_vit_encoder_type());
    check(qkv_model_create(&classifier, ctx, qkv_vit_type(), &c));
    size_t rows = qkv_model_copy(classifier, again);
    assert_int_equal(rows, 22); /* all but the pooler, and but the classes */
    check(qkv_hub_load_matching(classifier, in(folder, "vit")));
    qkv_task_destroy(&task);
    qkv_model_destroy(m);
    qkv_model_destroy(again);
    qkv_model_destroy(classifier);
    qkv_pixels_close(p);
}

static void mixtures_are_refused(void **state)
{
    (void)state;
    qkv_pixels *p = images(IMAGES);
    qkv_model *m = encoder(qkv_vit_encoder_type());
    qkv_task task;
    qkv_embed_images_options o = qkv_embed_images_defaults();
    o.augment.cutmix = 1;
    o.augment.mix = 1;
    assert_int_equal(qkv_task_embed_images(&task, m, p, NULL, &o, 5), QKV_E_ARGUMENT);
    o = qkv_embed_images_defaults();
    o.temperature = 0;
    assert_int_equal(qkv_task_embed_images(&task, m, p, NULL, &o, 5), QKV_E_ARGUMENT);
    assert_null(task.self);
    qkv_model_destroy(m);
    qkv_pixels_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_views_are_of_one_image), cmocka_unit_test(hues_go_round),
        cmocka_unit_test(colours_change_and_go), cmocka_unit_test(classes_are_found),
        cmocka_unit_test(learns_what_an_image_is), cmocka_unit_test(directories_hold_the_encoder),
        cmocka_unit_test(mixtures_are_refused)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
