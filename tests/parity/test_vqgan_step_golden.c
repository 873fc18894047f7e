/* test_vqgan_step_golden.c - one whole step of training codes against taming-transformers' in
 * torch, through the task that training uses: the generator's loss with its adaptive weight, all
 * its gradients, its update; then the discriminator's on images that are decoded anew (recipe:
 * tools/make-golden/vqgan_step.py). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "qkv/codes.h"
#include "qkv/train.h"
#include "rule.h"
#include "tiny_vqgan.h"

enum { COLORS = 3, IMAGES = 2, AFTER = RULE_SAMPLES / 2 };
static const double rate = 1e-4;

typedef struct {
    fixture f;
    char folder[PATH_BYTES], perceptual_folder[PATH_BYTES];
    qkv_model *lpips;
    qkv_pixels *pixels;
    qkv_task task;
} setting;

static qkv_pixels *photos(qkv_context *ctx)
{
    enum { BYTES = SIDE * SIDE * COLORS };
    qkv_pixels_writer *w;
    qkv_pixels *p;
    uint8_t data[BYTES];
    assert_int_equal(qkv_pixels_create(&w, ctx, NULL, SIDE, SIDE, COLORS), QKV_OK);
    for (size_t i = 0; i < IMAGES; i++) {
        for (size_t k = 0; k < BYTES; k++)
            data[k] = (uint8_t)rule_id("photos", i * BYTES + k, 256);
        assert_int_equal(qkv_pixels_add(w, data, -1, "photo"), QKV_OK);
    }
    assert_int_equal(qkv_pixels_finish(w, &p), QKV_OK);
    return p;
}

static void open_setting(setting *s, unsigned isa, qkv_gan_loss disc_loss)
{
    const qkv_vqgan_config c = tiny_vqgan();
    const qkv_perceptual_config l = {.channels = {3, {16, 24, 32}},
                                     .convolutions = {3, {1, 2, 3}}};
    qkv_codes_options o = qkv_codes_defaults();
    make_rule_directory(s->folder, qkv_vqgan_type(), &c);
    make_rule_directory(s->perceptual_folder, qkv_perceptual_type(), &l);
    open_rule_model(&s->f, s->folder, "vqgan_step", isa);
    assert_int_equal(qkv_hub_load(&s->lpips, s->f.ctx, s->perceptual_folder), QKV_OK);
    qkv_params_freeze(qkv_model_params(s->lpips), true);
    s->pixels = photos(s->f.ctx);
    o.augment = (qkv_augment_options){0};
    o.legacy = o.second = true;
    o.revive = false;
    o.decay = 0;
    o.disc_loss = disc_loss;
    if (qkv_task_codes(&s->task, s->f.model, s->lpips, s->pixels, NULL, &o, 1))
        fail_msg("%s", qkv_context_message(s->f.ctx));
}

static void close_setting(setting *s)
{
    qkv_task_destroy(&s->task);
    qkv_pixels_close(s->pixels);
    qkv_model_destroy(s->lpips);
    close_fixture(&s->f);
    remove_folder(s->perceptual_folder);
    remove_folder(s->folder);
}

static qkv_optimizer_options adam(void)
{
    qkv_optimizer_options o = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAM);
    o.beta1 = 0.5;
    o.beta2 = 0.9;
    return o;
}

/* ---- losses and gradients ----------------------------------------------------------------- */

static void compare_phase(setting *s, int phase, const char *name)
{
    const qkv_micro_batch part = {.phase = phase, .count = IMAGES, .total = IMAGES};
    char loss[32], gradients[32];
    qkv_tape *t = s->f.t;
    (void)snprintf(loss, sizeof loss, "%s.loss", name);
    (void)snprintf(gradients, sizeof gradients, "%s.gradients", name);
    qkv_params_zero_grad(qkv_model_params(s->f.model));
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    qkv_tensor *y = s->task.type->loss(s->task.self, t, &part);
    compare_tensor(&s->f, loss, y);
    assert_int_equal(qkv_backward(t, y), QKV_OK);
    compare_rule_gradients(&s->f, gradients, idle);
}

static void compare_phases(unsigned isa, qkv_gan_loss discriminator, const char *name)
{
    const qkv_optimizer_options o = adam();
    const qkv_optimizer_step_args args = {.lr = rate};
    qkv_optimizer *optimizer;
    setting s;
    open_setting(&s, isa, discriminator);
    assert_int_equal(qkv_optimizer_create(&optimizer, qkv_model_params(s.f.model), &o, NULL, 0),
                     QKV_OK);
    compare_phase(&s, 0, "generator");
    assert_int_equal(qkv_optimizer_step(optimizer, &args, NULL), QKV_OK);
    compare_phase(&s, 1, name);
    print_message("vqgan step, %s: at worst %.3g of what is allowed\n", name, s.f.worst);
    qkv_optimizer_destroy(optimizer);
    close_setting(&s);
}

/* ---- what training makes of the model ------------------------------------------------------ */

static bool is_parameter(const qkv_state_entry *row) { return row->kind == QKV_STATE_PARAM; }
static bool is_kept(const qkv_state_entry *row) { return strstr(row->name, "running_") != NULL; }

static rule_region values_of(const qkv_state_entry *row)
{
    return (rule_region){row, qkv_param_data(row->param) + row->offset};
}

/* Every second number of the rows; at least nine tenths of all are sure. */
static void compare_parameters(fixture *f)
{
    static rule_tensors r = {.wants = is_parameter};
    size_t n, sure = 0;
    r.count = 0;
    assert_int_equal(qkv_model_visit(f->model, add_rule_tensor, &r), QKV_OK);
    qkv_real *expected = take(f, "after", &n);
    assert_int_equal(n, r.count * AFTER);
    for (size_t i = 0; i < r.count; i++) {
        const rule_region region = values_of(&r.row[i]);
        size_t numbers = qkv_state_entry_count(&r.row[i]);
        double error = 0, size = 0;
        for (size_t k = 0; k < numbers; k++)
            size = fmax(size, fabs(rule_number_at(&region, k)));
        for (size_t k = 0; k < AFTER; k++) {
            double e = (double)expected[i * AFTER + k];
            if (isnan(e))
                continue;
            e = fabs(rule_number_at(&region, rule_place(2 * k, numbers)) - e);
            error = e <= error ? error : e;
            sure++;
        }
        check(f, r.name[i], error, size);
    }
    assert_true(10 * sure > 9 * n);
    free(expected);
}

/* Three batches have been seen: what was decoded, the true ones, what was decoded anew. */
static void compare_kept(fixture *f)
{
    static rule_tensors r = {.wants = is_kept};
    size_t n;
    r.count = 0;
    assert_int_equal(qkv_model_visit(f->model, add_rule_tensor, &r), QKV_OK);
    qkv_real *expected = take(f, "running", &n);
    assert_int_equal(n, r.count * RULE_NUMBERS);
    for (size_t i = 0; i < r.count; i++) {
        const rule_region region = values_of(&r.row[i]);
        compare_rule_numbers(f, r.name[i], expected + i * RULE_NUMBERS,
                             qkv_state_entry_count(&r.row[i]), 0, rule_number_at, &region);
    }
    free(expected);
}

static void compare_training(unsigned isa)
{
    const qkv_optimizer_options o = adam();
    qkv_train_options options = qkv_train_defaults();
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_CONSTANT);
    qkv_train_result result;
    setting s;
    size_t n;
    options.steps = 1;
    options.batch = IMAGES;
    options.clip = options.ema = 0;
    options.dtype = QKV_PRODUCTS_F32;
    schedule.lr = rate;
    schedule.warmup = 0;
    open_setting(&s, isa, QKV_GAN_HINGE);
    if (qkv_train(&s.task, &options, &o, &schedule, NULL, false, NULL, NULL, &result))
        fail_msg("%s", qkv_context_message(s.f.ctx));
    qkv_real *generator = take(&s.f, "generator.loss", &n),
 *discriminator = take(&s.f, "hinge.loss", &n);
    double loss = (double)generator[0] + (double)discriminator[0];
    check(&s.f, "loss", fabs(result.train_loss - loss), loss);
    compare_parameters(&s.f);
    compare_kept(&s.f);
    print_message("vqgan step, trained: at worst %.3g of what is allowed\n", s.f.worst);
    free(discriminator);
    free(generator);
    close_setting(&s);
}

static void run_all(unsigned isa)
{
    compare_phases(isa, QKV_GAN_HINGE, "hinge");
    compare_phases(isa, QKV_GAN_VANILLA, "vanilla");
    compare_training(isa);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_avx2), cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
