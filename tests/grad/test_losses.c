/* test_losses.c - gradients of the losses against differences, and their values where a line of
 * arithmetic gives them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradcheck.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { ROWS = 6, CLASSES = 5, IGNORED = -1 };
static const int32_t answers[ROWS] = {4, 0, IGNORED, 2, 2, IGNORED};

static qkv_tensor *targets(qkv_tape *t)
{
    return qkv_tensor_ids(t, answers, 2, (const size_t[]){2, 3});
}

static int cross_entropy(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_cross_entropy(t, in[0], targets(t), user);
    return 1;
}

static int classifier(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    out[0] = qkv_classifier_loss(t, in[0], in[1], in[2], targets(t), user);
    out[1] = qkv_classifier_loss(t, in[0], in[1], NULL, targets(t), user);
    return 2;
}

/* Targets that are distributions; one row is not, and sums to 1.5. */
static int soft_cross_entropy(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    static const qkv_real mixed[ROWS * CLASSES] = {
        1, 0, 0, 0, 0, 0.3, 0.7, 0, 0, 0, 0.2, 0.2, 0.2, 0.2, 0.2,
        0, 0, 0.9, 0, 0.1, 0.5, 0, 0, 0.5, 0.5, 0, 0, 0, 0, 1};
    out[0] = qkv_cross_entropy(t, in[0], qkv_tensor_from(t, mixed, 3, (size_t[]){2, 3, CLASSES}),
                               user);
    return 1;
}

static const qkv_cross_entropy_options options[] = {
    {.has_ignore = true, .ignore = IGNORED},
    {.has_ignore = true, .ignore = IGNORED, .smoothing = 0.1},
    {.has_ignore = true, .ignore = IGNORED, .smoothing = 0.2, .smoothing_kind = QKV_SMOOTH_PAPER},
    {.has_ignore = true, .ignore = IGNORED, .reduction = QKV_REDUCE_SUM},
    {.has_ignore = true, .ignore = IGNORED, .smoothing = 0.1, .normalizer = 17},
    {.has_ignore = true, .ignore = IGNORED, .rdrop = 5},
    {.has_ignore = true, .ignore = IGNORED, .smoothing = 0.1, .normalizer = 17, .rdrop = 0.7},
};

static void test_cross_entropy(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(options); i++) {
        const gradcheck_case cases[] = {
            {.name = "cross-entropy", .fn = cross_entropy, .user = &options[i], .inputs = 1,
             .seed = i, .input = {{3, {2, 3, CLASSES}, -3, 3}}},
            {.name = "classifier", .fn = classifier, .user = &options[i], .inputs = 3, .seed = i,
             .input = {{3, {2, 3, 4}}, {2, {CLASSES, 4}}, {1, {CLASSES}}}},
            {.name = "soft cross-entropy", .fn = soft_cross_entropy, .user = &options[i],
             .inputs = 1, .seed = i, .input = {{3, {2, 3, CLASSES}, -3, 3}}},
        };
        bool soft = options[i].rdrop == 0; /* two readings have a class for target */
        gradcheck_all(cases, soft ? COUNT(cases) : COUNT(cases) - 1);
    }
}

/* ---- pairs of numbers ---------------------------------------------------------------------- */

static int mse(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_mse_loss(t, in[0], in[1]);
    return 1;
}

static int l1(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_l1_loss(t, in[0], in[1]);
    return 1;
}

static int huber(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_huber_loss(t, in[0], in[1], 0.75);
    return 1;
}

static int binary(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_bce_with_logits_loss(t, in[0], in[1]);
    return 1;
}

/* Far enough from where |x - target| is 0 or Huber's delta, for targets in [-0.1, 0.1]. */
static double clear_of_kinks(double x)
{
    double size = fabs(x) < 0.5 ? 0.15 + fabs(x) : 0.9 + fabs(x);
    return x < 0 ? -size : size;
}

static void test_pairs(void **state)
{
    (void)state;
    const gradcheck_input x = {3, {2, 3, 4}, -1, 1, clear_of_kinks};
    const gradcheck_input near_zero = {3, {2, 3, 4}, -0.1, 0.1, NULL};
    const gradcheck_case cases[] = {
        {.name = "mse", .fn = mse, .inputs = 2, .input = {x, near_zero}},
        {.name = "l1", .fn = l1, .inputs = 2, .input = {x, near_zero}},
        {.name = "huber", .fn = huber, .inputs = 2, .input = {x, near_zero}},
        {.name = "binary", .fn = binary, .inputs = 2,
         .input = {{2, {3, 4}, -4, 4}, {2, {3, 4}, 0, 1}}},
    };
    gradcheck_all(cases, COUNT(cases));
}

/* ---- contrastive --------------------------------------------------------------------------- */

static int infonce(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_infonce_loss(t, in[0], in[1], 0.5);
    return 1;
}

static int ntxent(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_ntxent_loss(t, in[0], in[1], 0.5);
    return 1;
}

static int clip(qkv_tape *t, qkv_tensor **in, qkv_tensor **out, const void *user)
{
    (void)user;
    out[0] = qkv_clip_loss(t, in[0], in[1], in[2]);
    return 1;
}

static void test_contrastive(void **state)
{
    (void)state;
    const gradcheck_case cases[] = {
        {.name = "infonce", .fn = infonce, .inputs = 2, .input = {{2, {5, 4}}, {2, {5, 4}}}},
        {.name = "clip", .fn = clip, .inputs = 3, .input = {{2, {5, 4}}, {2, {5, 4}}, {1, {1}}}},
        {.name = "ntxent", .fn = ntxent, .inputs = 2, .input = {{2, {4, 3}}, {2, {4, 3}}}},
    };
    gradcheck_all(cases, COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_contrastive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
