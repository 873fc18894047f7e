/* test_code_table.c - how codes move while they are learnt: those that nobody meets are revived,
 * those that are running means follow what they code, and the discriminator's phase leaves them
 * alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "codes_setting.h"

static bool equal_rows(const qkv_real *a, const qkv_real *b)
{
    for (size_t i = 0; i < WIDTH; i++)
        if (!(fabs((double)a[i] - (double)b[i]) < 1e-4))
            return false;
    return true;
}

/* At first no code has been met: all become vectors that are to be coded, so that these are coded
 * as they are. */
static void test_revived(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    s.o.revive = true;
    s.o.adversarial = 0;
    start(&s);
    qkv_param *table = qkv_vqgan_codebook(s.model), *usage = qkv_vqgan_usage(s.model);
    (void)step(&s, 0, 0);
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, false, false);
    const qkv_tensor *z = qkv_vqgan_encode(s.model, tape, images(&s));
    const qkv_real *rows = qkv_data(tape, z);
    for (size_t k = 0; k < CODES; k++) {
        bool found = false;
        for (size_t i = 0; i < qkv_count(z) / WIDTH && !found; i++)
            found = equal_rows(rows + i * WIDTH, qkv_param_data(table) + k * WIDTH);
        assert_true(found);
        assert_true(qkv_param_data(usage)[k] > 0);
    }
    /* One that is met stays, one that is not any more is moved. */
    for (size_t k = 0; k < CODES; k++)
        for (size_t i = 0; i < WIDTH; i++)
            qkv_param_data(table)[k * WIDTH + i] = k ? 1000 : 0;
    qkv_param_touch(table);
    for (size_t k = 0; k < CODES; k++)
        qkv_param_data(usage)[k] = k == 5 ? (qkv_real)1e-9 : 1;
    (void)step(&s, 0, 1);
    assert_true(qkv_param_data(table)[0] == 0 && qkv_param_data(table)[4 * WIDTH] == 1000);
    assert_true(fabs((double)qkv_param_data(table)[5 * WIDTH]) < 100);
    close_setting(&s);
}

/* Codes that are running means: of sums and counts, each of which keeps 0.9 of what it was. */
static void test_followed(void **state)
{
    (void)state;
    setting s;
    double met[CODES], sums[CODES][WIDTH];
    open_setting(&s);
    s.o.decay = 0.9;
    s.o.adversarial = 0;
    start(&s);
    qkv_param *table = qkv_vqgan_codebook(s.model), *usage = qkv_vqgan_usage(s.model);
    assert_true(qkv_param_frozen(table)); /* no optimiser's */
    for (size_t k = 0; k < CODES; k++) {
        qkv_param_data(usage)[k] = (qkv_real)(1 + k % 3) / 4;
        met[k] = 0.9 * (double)qkv_param_data(usage)[k];
        for (size_t i = 0; i < WIDTH; i++)
            sums[k][i] = met[k] * (double)qkv_param_data(table)[k * WIDTH + i];
    }
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, false, false);
    qkv_tensor *z = qkv_vqgan_encode(s.model, tape, images(&s));
    qkv_tensor *ids = qkv_vqgan_codes(s.model, tape, z);
    const qkv_real *rows = qkv_data(tape, z);
    size_t several = 0;
    for (size_t i = 0; i < qkv_count(ids); i++) {
        size_t k = (size_t)qkv_data_ids(tape, ids)[i];
        several += met[k] != 0.9 * (double)qkv_param_data(usage)[k];
        met[k] += 0.1;
        for (size_t d = 0; d < WIDTH; d++)
            sums[k][d] += 0.1 * (double)rows[i * WIDTH + d];
    }
    assert_true(several > 0); /* some code is met more than once */
    (void)step(&s, 0, 0);
    for (size_t k = 0; k < CODES; k++) {
        assert_true(fabs((double)qkv_param_data(usage)[k] / met[k] - 1) < 1e-5);
        for (size_t i = 0; i < WIDTH; i++)
            assert_true(fabs((double)qkv_param_data(table)[k * WIDTH + i] - sums[k][i] / met[k]) <
                        1e-4);
    }
    assert_true(qkv_param_frozen(table));
    qkv_task_destroy(&s.task);
    assert_false(qkv_param_frozen(table));
    close_setting(&s);
}

/* How often codes have been met in all, after an update done in so many parts. */
static double met_after(size_t parts)
{
    setting s;
    double sum = 0;
    open_setting(&s);
    s.o.decay = 0.9;
    s.o.adversarial = 0;
    start(&s);
    qkv_param *usage = qkv_vqgan_usage(s.model);
    for (size_t k = 0; k < CODES; k++)
        qkv_param_data(usage)[k] = 1;
    for (size_t i = 0; i < parts; i++) {
        const qkv_micro_batch part = {.first = i * COUNT / parts, .count = COUNT / parts,
                                      .total = COUNT};
        qkv_tape_reset(tape);
        qkv_tape_mode(tape, true, true);
        assert_non_null(s.task.type->loss(s.task.self, tape, &part));
    }
    assert_int_equal(s.task.type->end_phase(s.task.self, 0, 0), QKV_OK);
    for (size_t k = 0; k < CODES; k++)
        sum += (double)qkv_param_data(usage)[k];
    close_setting(&s);
    return sum;
}

static void test_in_parts(void **state)
{
    (void)state;
    double whole = met_after(1);
    assert_true(met_after(2) == whole);
    assert_true(met_after(COUNT) == whole);
}

/* The discriminator's phase decodes anew, but neither counts codes nor moves them. */
static void test_left_alone(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    s.o.revive = s.o.second = true;
    s.o.decay = 0.9;
    start(&s);
    (void)step(&s, 0, 0);
    qkv_real met[CODES], table[CODES * WIDTH];
    memcpy(met, qkv_param_data(qkv_vqgan_usage(s.model)), sizeof met);
    memcpy(table, qkv_param_data(qkv_vqgan_codebook(s.model)), sizeof table);
    (void)step(&s, 1, 0);
    assert_memory_equal(met, qkv_param_data(qkv_vqgan_usage(s.model)), sizeof met);
    assert_memory_equal(table, qkv_param_data(qkv_vqgan_codebook(s.model)), sizeof table);
    close_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_revived), cmocka_unit_test(test_followed),
        cmocka_unit_test(test_in_parts), cmocka_unit_test(test_left_alone),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
