/* test_codes.c - learning codes: that going back once, from the images on, is the gradient of the
 * loss as it is written down; what each phase moves; how decoded images look to a network. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/device.h"
#include "codes_setting.h"
#include "qkv/score.h"

static const double tolerance = 2e-4;

/* ---- the loss as it is written down ------------------------------------------------------- */

static double norm_at_last(const setting *s, qkv_tensor *loss)
{
    qkv_tensor *last = qkv_use(tape, qkv_vqgan_last(s->model));
    const qkv_backward_args args = {.n = 1, .outputs = &loss, .n_wrt = 1, .wrt = &last,
                                    .retain_graph = true};
    assert_int_equal(qkv_backward_from(tape, &args), QKV_OK);
    const qkv_tensor *d = qkv_grad_of(tape, last);
    const qkv_real *g = qkv_data(tape, d);
    double sum = 0;
    for (size_t i = 0; i < qkv_count(d); i++)
        sum += (double)g[i] * (double)g[i];
    return sqrt(sum);
}

static void freeze_discriminator(const setting *s, bool frozen)
{
    qkv_params *ps = qkv_model_params(s->model);
    for (size_t i = 0; i < qkv_params_count(ps); i++)
        if (qkv_vqgan_is_discriminator(qkv_params_at(ps, i)) &&
            qkv_param_ndim(qkv_params_at(ps, i)) == 4)
            qkv_param_freeze(qkv_params_at(ps, i), frozen);
}

static qkv_tensor *half_square(qkv_tensor *a, qkv_tensor *b)
{
    return qkv_mse_loss(tape, a, qkv_detach(tape, b));
}

/* Esser et al. 2021, with the weight that the ratio of gradients gives; and back. *terms: all that
 * is added up. */
static double written_down(const setting *s, double share, qkv_terms *terms)
{
    const qkv_codes_options *o = &s->o;
    qkv_params_zero_grad(qkv_model_params(s->model));
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, true, true);
    qkv_tensor *x = images(s), *z = qkv_vqgan_encode(s->model, tape, x);
    qkv_tensor *v = qkv_vqgan_vectors(s->model, tape, qkv_vqgan_codes(s->model, tape, z));
    qkv_tensor *through = qkv_add(tape, z, qkv_detach(tape, qkv_sub(tape, v, z)));
    qkv_tensor *y = qkv_vqgan_decode(s->model, tape, through);
    qkv_tensor *rec = qkv_l1_loss(tape, y, x), *squared = qkv_mse_loss(tape, y, x);
    qkv_tensor *distance = qkv_perceptual_distance(s->lpips, tape, y, x);
    qkv_tensor *unlike = qkv_add(tape, rec, qkv_scale(tape, distance, o->perceptual));
    unlike = qkv_add(tape, unlike, qkv_scale(tape, squared, o->squared));
    qkv_tensor *g = qkv_scale(tape, qkv_mean(tape, qkv_vqgan_discriminate(s->model, tape, y)), -1);
    double weight = norm_at_last(s, unlike) / (norm_at_last(s, g) + 1e-4);
    qkv_tensor *price = qkv_add(tape, qkv_scale(tape, half_square(z, v), o->legacy ? 1
                                                                          : o->commitment),
                                qkv_scale(tape, half_square(v, z), o->legacy ? o->commitment : 1));
    qkv_tensor *loss = qkv_add(tape, unlike, qkv_scale(tape, g, weight * o->adversarial * share));
    loss = qkv_add(tape, loss, qkv_scale(tape, price, o->codebook));
    *terms = (qkv_terms){{{"rec", qkv_item(tape, rec)},
                          {"perceptual", qkv_item(tape, distance)},
                          {"squared", qkv_item(tape, squared)},
                          {"codebook", qkv_item(tape, price)},
                          {"generator", qkv_item(tape, g)}, {"adaptive_weight", weight}}, 6};
    assert_int_equal(qkv_backward(tape, loss), QKV_OK);
    return (double)qkv_item(tape, loss);
}

static void same_terms(const qkv_terms *got, const qkv_terms *expected)
{
    assert_int_equal(got->count, expected->count);
    for (int i = 0; i < got->count; i++) {
        double a = got->item[i].value, b = expected->item[i].value;
        assert_string_equal(got->item[i].name, expected->item[i].name);
        if (!(fabs(a - b) <= tolerance * fabs(b)))
            fail_msg("%s: %g, not %g", got->item[i].name, a, b);
    }
}

static void test_gradient(void **state)
{
    (void)state;
    for (int legacy = 0; legacy < 2; legacy++) {
        setting s;
        open_setting(&s);
        s.o.legacy = legacy;
        s.o.codebook = 1.5;
        s.o.disc_start = 2;
        s.o.disc_ramp = 4;
        start(&s);
        qkv_params *ps = qkv_model_params(s.model);
        size_t n = qkv_params_count(ps), moved = 0;
        qkv_terms terms = {0}, written;
        double got = step_terms(&s, 0, 3, &terms), largest = 0; /* half of the ramp */
        qkv_real **kept = calloc(n, sizeof *kept);
        assert_non_null(kept);
        for (size_t i = 0; i < n; i++) {
            qkv_param *p = qkv_params_at(ps, i);
            assert_true(!qkv_param_grad(p) || !qkv_vqgan_is_discriminator(p));
            if (!qkv_param_grad(p))
                continue;
            moved++;
            kept[i] = malloc(qkv_param_count(p) * sizeof **kept);
            assert_non_null(kept[i]);
            memcpy(kept[i], qkv_param_grad(p), qkv_param_count(p) * sizeof **kept);
            for (size_t k = 0; k < qkv_param_count(p); k++)
                largest = fmax(largest, fabs((double)kept[i][k]));
        }
        freeze_discriminator(&s, true);
        double expected = written_down(&s, 0.5, &written);
        same_terms(&terms, &written);
        assert_true(fabs(got - expected) <= tolerance * fabs(expected));
        assert_true(moved > 40);
        for (size_t i = 0; i < n; i++) {
            qkv_param *p = qkv_params_at(ps, i);
            double most = 2e-3 * largest; /* many biases have no gradient by mathematics */
            for (size_t k = 0; kept[i] && k < qkv_param_count(p); k++)
                most = fmax(most, fabs((double)qkv_param_grad(p)[k]));
            for (size_t k = 0; kept[i] && k < qkv_param_count(p); k++)
                if (!(fabs((double)kept[i][k] - (double)qkv_param_grad(p)[k]) <=
                      tolerance * most))
                    fail_msg("%s[%zu]: %g, not %g", qkv_param_name(p), k, (double)kept[i][k],
                             (double)qkv_param_grad(p)[k]);
            free(kept[i]);
        }
        free(kept);
        close_setting(&s);
    }
}

/* ---- phases ------------------------------------------------------------------------------- */

/* The discriminator's loss by hand, and nobody else moves. */
static void test_discriminator(void **state)
{
    (void)state;
    for (int vanilla = 0; vanilla < 2; vanilla++) {
        setting s;
        open_setting(&s);
        s.o.disc_loss = vanilla ? QKV_GAN_VANILLA : QKV_GAN_HINGE;
        start(&s);
        (void)step(&s, 0, 0);
        qkv_terms terms = {0}, written = {{{"real", 0}, {"fake", 0}}, 2};
        double got = step_terms(&s, 1, 0, &terms), expected = 0;
        for (size_t i = 0; i < qkv_params_count(qkv_model_params(s.model)); i++) {
            qkv_param *p = qkv_params_at(qkv_model_params(s.model), i);
            if (!qkv_vqgan_is_discriminator(p))
                assert_null(qkv_param_grad(p));
            else if (qkv_param_ndim(p) == 4)
                assert_non_null(qkv_param_grad(p));
        }
        qkv_tape_reset(tape);
        qkv_tensor *x = images(&s), *z = qkv_vqgan_encode(s.model, tape, x);
        qkv_tensor *v = qkv_vqgan_vectors(s.model, tape, qkv_vqgan_codes(s.model, tape, z));
        qkv_tensor *y = qkv_vqgan_decode(s.model, tape, v);
        for (int real = 0; real < 2; real++) {
            qkv_tensor *said = qkv_vqgan_discriminate(s.model, tape, real ? x : y);
            const qkv_real *data = qkv_data(tape, said);
            for (size_t i = 0; i < qkv_count(said); i++) {
                double d = real ? -(double)data[i] : (double)data[i];
                double doubt = (vanilla ? log1p(exp(d)) : fmax(0, 1 + d)) /
                               (double)qkv_count(said);
                written.item[!real].value += doubt;
                expected += doubt / 2;
            }
        }
        same_terms(&terms, &written);
        assert_true(fabs(got - expected) <= 1e-5 * expected);
        close_setting(&s);
    }
}

static void test_idle(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    s.o.disc_start = 5;
    start(&s);
    assert_true(s.task.type->idle(s.task.self, 4, 1));
    assert_false(s.task.type->idle(s.task.self, 5, 1));
    assert_false(s.task.type->idle(s.task.self, 4, 0));
    qkv_task_destroy(&s.task);
    s.o.second = true; /* as the authors: idle steps are made too */
    start(&s);
    assert_false(s.task.type->idle(s.task.self, 4, 1));
    (void)step(&s, 0, 4);
    assert_true(step(&s, 1, 4) == 0);
    assert_true(step(&s, 1, 5) > 0);
    close_setting(&s);
}

/* Once the discriminator takes part, the distance no longer chooses the model. */
static void test_newest(void **state)
{
    (void)state;
    qkv_metrics m;
    setting s;
    open_setting(&s);
    s.o.disc_start = 5;
    start(&s);
    for (uint64_t n = 4; n <= 5; n++) {
        (void)step(&s, 0, n);
        assert_int_equal(s.task.type->evaluate(s.task.self, tape, 0, &m), QKV_OK);
        assert_string_equal(m.item[0].name, "loss");
        assert_int_equal(m.newest, n == 5);
    }
    close_setting(&s);
}

/* ---- how decoded images look ------------------------------------------------------------ */

/* An image, or what comes back of it, for the network. */
static qkv_tensor *seen(const uint8_t *bytes)
{
    const size_t shape[] = {1, SIDE, SIDE, C};
    qkv_tensor *x = qkv_tensor_from(tape, NULL, 4, shape);
    for (size_t i = 0; i < qkv_count(x); i++)
        qkv_tensor_fill(x)[i] = (qkv_real)(bytes[i] / 127.5 - 1);
    return x;
}

/* One image after another gives what all together give. */
static void test_compared(void **state)
{
    (void)state;
    enum { FEATURES = 6, FACTOR = 2 };
    setting s;
    qkv_codes_likeness got;
    qkv_frechet *f;
    double unlike = 0, far;
    open_setting(&s);
    assert_int_equal(qkv_codes_compare(s.model, s.lpips, tape, s.pixels, &got), QKV_OK);
    assert_int_equal(qkv_frechet_create(&f, ctx, FEATURES), QKV_OK);
    for (size_t i = 0; i < COUNT; i++) {
        const uint8_t *image = qkv_pixels_data(s.pixels, i);
        int32_t codes[SIDE / FACTOR * SIDE / FACTOR];
        uint8_t back[SIDE * SIDE * C];
        assert_int_equal(qkv_images_encode(s.model, tape, image, 1, SIDE, SIDE, codes), QKV_OK);
        assert_int_equal(qkv_images_decode(s.model, tape, codes, 1, SIDE / FACTOR, SIDE / FACTOR,
                                           back), QKV_OK);
        qkv_tensor *sides[] = {seen(image), seen(back)};
        unlike += (double)qkv_item(tape, qkv_perceptual_distance(s.lpips, tape, sides[1],
                                                                 sides[0])) / COUNT;
        for (int k = 0; k < 2; k++) {
            qkv_tensor *of = qkv_perceptual_features(s.lpips, tape, sides[k]);
            of = qkv_mean_axis(tape, qkv_mean_axis(tape, of, 1), 1);
            assert_int_equal(qkv_count(of), FEATURES);
            qkv_frechet_add(f, k, qkv_data(tape, of), 1);
        }
    }
    assert_int_equal(qkv_frechet_distance(f, &far), QKV_OK);
    assert_int_equal(got.features, FEATURES);
    assert_int_equal(got.images, COUNT);
    assert_true(unlike > 0 && fabs(got.lpips - unlike) < 1e-5 * unlike);
    assert_true(far > 0 && fabs(got.frechet - far) < 1e-4 * far);
    assert_int_equal(qkv_codes_compare(s.model, s.model, tape, s.pixels, &got), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), "compares images: a VQModel does not"));
    qkv_frechet_destroy(f);
    s.task = (qkv_task){0};
    close_setting(&s);
}

static uint8_t levels(size_t image, size_t k) { return (uint8_t)(40 * image + k % 7); }

/* What comes back is nearest to its own image, or to another: told here by all distances. */
static void test_found(void **state)
{
    (void)state;
    static uint8_t decoded[SIDE * SIDE * C];
    setting s;
    int32_t codes[SIDE * SIDE / 4];
    double share = -1, expected = 0;
    open_setting(&s);
    qkv_pixels_close(s.pixels);
    s.pixels = drawn(COUNT, SIDE, C, 0, levels);
    start(&s);
    for (size_t i = 0; i < COUNT; i++) {
        double least = INFINITY;
        size_t nearest = COUNT;
        assert_int_equal(qkv_images_encode(s.model, tape, qkv_pixels_data(s.pixels, i), 1, SIDE,
                                           SIDE, codes), QKV_OK);
        assert_int_equal(qkv_images_decode(s.model, tape, codes, 1, SIDE / 2, SIDE / 2, decoded),
                         QKV_OK);
        for (size_t k = 0; k < COUNT; k++) {
            double sum = 0;
            for (size_t v = 0; v < sizeof decoded; v++)
                sum += pow((double)decoded[v] - qkv_pixels_data(s.pixels, k)[v], 2);
            nearest = sum < least ? k : nearest;
            least = fmin(least, sum);
        }
        expected += nearest == i ? 1.0 / COUNT : 0;
    }
    assert_int_equal(qkv_codes_find(s.model, tape, s.pixels, &share), QKV_OK);
    assert_true(fabs(share - expected) < 1e-9 && expected > 0 && expected < 1);
    close_setting(&s);
}

/* ---- memory ------------------------------------------------------------------------------- */

/* A grid whose image has no room is refused before anything is computed: by then not even one
 * layer's image has been allocated. One that has room is decoded. */
static void test_no_room(void **state)
{
    (void)state;
    enum { COLUMNS = 4096, MEGABYTE = 1 << 20, LAYER = 2 * MEGABYTE };
    static int32_t codes[COLUMNS];
    static uint8_t image[COLUMNS * 4 * C];
    qkv_model *m = made_model();
    size_t before = qkv_context_memory(ctx).peak_bytes;
    memory.largest = 4 * LAYER; /* six layers' images are wanted at once */
    assert_int_equal(qkv_images_decode(m, tape, codes, 1, 1, COLUMNS, image), QKV_E_MEMORY);
    assert_non_null(strstr(qkv_context_message(ctx), "out of memory"));
    assert_true(qkv_context_memory(ctx).peak_bytes < before + LAYER);
    /* The convolutions of a card take scratch memory. */
    memory.largest = (qkv__context_device(ctx)->products ? 64 : 14) * MEGABYTE;
    if (qkv_images_decode(m, tape, codes, 1, 1, COLUMNS, image))
        fail_msg("%s", qkv_context_message(ctx));
    memory.largest = 0;
    qkv_model_destroy(m);
}

/* ---- arithmetic --------------------------------------------------------------------------- */

static void same(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * expected))
        fail_msg("%.0f operations expected, found %.0f", expected, found);
}

/* The sides are the model's own. */
static double flops_of(const setting *s, qkv_pass pass, qkv_model_part part, double images)
{
    const qkv_workload w = {.pass = pass, .part = part, .samples = images};
    return qkv_model_flops(s->model, &w);
}

/* Multiplications counted by hand: window, channels in, channels out, pixels. Forward is 2 for
 * each, every gradient 2 more; images have none, nor has what is frozen. */
static void test_flops(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    const double deep = SIDE / 2 * (SIDE / 2), all = SIDE * SIDE; /* pixels */
    const double residual = 2 * 9 * 32 * 32;                      /* a pixel */
    const double products = 4 * 32 * 32 * deep, scores = 2 * deep * deep * 32; /* attention's */
    const double decoder = WIDTH * WIDTH * deep + 9 * WIDTH * 32 * deep + 4 * residual * deep +
                           products + 9 * 32 * 32 * all + 2 * residual * all + 9 * 32 * C * all;
    const double first = 9 * C * 32 * all;
    const double encoder = residual * all + 9 * 32 * 32 * deep + 3 * residual * deep + products +
                           9 * 32 * WIDTH * deep + WIDTH * WIDTH * deep;
    same(flops_of(&s, QKV_PASS_FORWARD, QKV_PART_DECODER, 3), 3 * 2 * (decoder + scores));
    same(flops_of(&s, QKV_PASS_FORWARD, QKV_PART_WHOLE, 1),
         2 * (decoder + first + encoder + 2 * scores + deep * CODES * WIDTH));
    const double generator = 6 * (decoder + encoder) + 4 * first + 2 * 7 * scores +
                             2 * deep * CODES * WIDTH;
    same(flops_of(&s, QKV_PASS_TRAIN, QKV_PART_WHOLE, 1), generator);
    const double disc_first = 16 * C * 4 * 64;
    const double evaluate = disc_first + 16 * (4 * 8 * 16 + 8 * 16 * 9 + 16 * 4);
    same(flops_of(&s, QKV_PASS_INPUT, QKV_PART_DISCRIMINATOR, 1), 4 * evaluate);
    same(flops_of(&s, QKV_PASS_TRAIN, QKV_PART_DISCRIMINATOR, 2),
         2 * (6 * evaluate - 2 * disc_first));
    /* Two stages of 4 and 6 channels, 1 and 2 convolutions; images on both sides, and back. */
    const double lpips = 9 * (C * 4 * all + 4 * 6 * deep + 6 * 6 * deep);
    start(&s);
    same(s.task.type->flops(s.task.self), generator + 6 * lpips); /* nothing is evaluated yet */
    (void)step(&s, 0, 0);
    same(s.task.type->flops(s.task.self),
         generator + 6 * lpips + 4 * evaluate + 2 * (6 * evaluate - 2 * disc_first));
    close_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient), cmocka_unit_test(test_discriminator),
        cmocka_unit_test(test_idle), cmocka_unit_test(test_newest),
        cmocka_unit_test(test_compared), cmocka_unit_test(test_found),
        cmocka_unit_test(test_no_room), cmocka_unit_test(test_flops),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
