/* test_sample_codes.c - drawing grids of codes: what each is drawn from, with and without a window
 * that moves, against passes over all that it may see; what is given stays; what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "drawn.h"
#include "qkv/gpt.h"
#include "qkv/sample_codes.h"

enum { VOCAB = 24, CODES = 20, SIDE = 4, MOST = 10, COUNT = 3 };

static qkv_model *made_prior(size_t before)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &c);
    c.vocab = VOCAB;
    c.rows = c.columns = SIDE;
    c.before = before;
    c.positions = before + SIDE * SIDE - 1;
    c.width = 16;
    c.layers = c.heads = 2;
    return made(qkv_prior_type(), &c);
}

/* What was told of each place. */
typedef struct {
    size_t rows, columns, calls;
    bool seen[MOST * MOST];
    double chances[MOST * MOST][COUNT][VOCAB];
    size_t stop_at; /* calls; 0: never */
} record;

/* Keeps the model's own distributions where they come. */
static bool keep_record(void *user, size_t row, size_t column, const qkv_real *drawn_from,
                        const qkv_real *own)
{
    const qkv_real *p = own ? own : drawn_from;
    record *r = user;
    size_t at = row * r->columns + column;
    r->seen[at] = true;
    for (size_t i = 0; i < COUNT * VOCAB; i++)
        r->chances[at][i / VOCAB][i % VOCAB] = (double)p[i];
    return ++r->calls != r->stop_at;
}

/* Softmax of the logits after ids (n), of the codes that may be drawn. */
static void by_hand(qkv_model *m, const int32_t *ids, size_t n, double out[VOCAB])
{
    const size_t shape[] = {1, n};
    double total = 0;
    qkv_tape_reset(tape);
    qkv_tape_mode(tape, false, false);
    qkv_tensor *h = qkv_lm_hidden(m, tape, qkv_tensor_ids(tape, ids, 2, shape), 0, NULL, NULL);
    const qkv_real *logits = qkv_data(tape, qkv_lm_logits(m, tape, h));
    assert_non_null(logits);
    logits += (n - 1) * VOCAB;
    for (size_t v = 0; v < VOCAB; v++)
        total += out[v] = v < CODES ? exp((double)logits[v]) : 0;
    for (size_t v = 0; v < VOCAB; v++)
        out[v] /= total;
}

/* Where in a window of SIDE place i of `all` stands: as the authors' script has it. */
static size_t local(size_t i, size_t all)
{
    if (i <= SIDE / 2)
        return i;
    return all - i < SIDE / 2 ? SIDE - (all - i) : SIDE / 2;
}

/* Every place's chances are those of a pass over its window: conditions, then codes before it. */
static void check_record(qkv_model *m, const record *r, const qkv_sample_codes_options *o,
                         const int32_t *codes, size_t before)
{
    size_t size = r->rows * r->columns;
    bool follows = before > 1 && size > SIDE * SIDE;
    for (size_t at = 0; at < size; at++) {
        size_t row = at / r->columns, column = at % r->columns;
        size_t high = r->rows < SIDE ? row : local(row, r->rows), wide = local(column, r->columns);
        size_t top = row - high, left = column - wide;
        assert_int_equal(r->seen[at], !o->given || o->given[at] < 0);
        for (size_t i = 0; i < COUNT && r->seen[at]; i++) {
            int32_t ids[2 * SIDE * SIDE];
            double expected[VOCAB];
            size_t n = 0;
            for (size_t k = 0; k < before; k++) {
                size_t there = (top + k / SIDE) * r->columns + left + k % SIDE;
                ids[n++] = !o->conditions ? 0
                           : follows      ? o->conditions[i * size + there]
                                          : o->conditions[i * before + k];
            }
            for (size_t k = 0; k < high * SIDE + wide; k++)
                ids[n++] = codes[i * size + (top + k / SIDE) * r->columns + left + k % SIDE];
            by_hand(m, ids, n, expected);
            for (size_t v = 0; v < VOCAB; v++)
                assert_true(fabs(r->chances[at][i][v] - expected[v]) < 1e-5);
        }
    }
}

static record made_record(size_t rows, size_t columns)
{
    return (record){.rows = rows, .columns = columns};
}

static qkv_sample_codes_options plain(void)
{
    return (qkv_sample_codes_options){.count = COUNT, .codes = CODES, .seed = 5,
                                      .sampling = {.temperature = 1, .top_p = 1}};
}

static void test_trained_size(void **state)
{
    (void)state;
    qkv_model *m = made_prior(1);
    int32_t codes[COUNT * SIDE * SIDE], classes[COUNT] = {0, 3, 23};
    qkv_sample_codes_options o = plain();
    record r = made_record(SIDE, SIDE);
    o.conditions = classes;
    assert_int_equal(qkv_sample_codes(m, &o, keep_record, &r, codes), QKV_OK);
    assert_int_equal(r.calls, SIDE * SIDE);
    for (size_t i = 0; i < COUNT * SIDE * SIDE; i++)
        assert_in_range(codes[i], 0, CODES - 1);
    check_record(m, &r, &o, codes, 1);
    o.rows = 2; /* fewer rows are the beginning of more */
    int32_t fewer[COUNT * 2 * SIDE];
    assert_int_equal(qkv_sample_codes(m, &o, NULL, NULL, fewer), QKV_OK);
    for (size_t i = 0; i < COUNT; i++)
        assert_memory_equal(fewer + i * 2 * SIDE, codes + i * SIDE * SIDE, 2 * SIDE * 4);
    qkv_model_destroy(m);
}

static void test_window_moves(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{7, 4}, {4, 9}, {7, 9}, {2, 6}, {10, 5}};
    int32_t codes[COUNT * MOST * MOST], other[COUNT * MOST * MOST];
    for (size_t i = 0; i < COUNT * MOST * MOST; i++)
        other[i] = (int32_t)(i * i * 7 % VOCAB);
    for (size_t before = 1; before <= SIDE * SIDE; before += SIDE * SIDE - 1) {
        qkv_model *m = made_prior(before);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            if (before > 1 && sizes[k][0] < SIDE)
                continue;
            qkv_sample_codes_options o = plain();
            record r = made_record(sizes[k][0], sizes[k][1]);
            o.rows = r.rows;
            o.columns = r.columns;
            o.conditions = before > 1 ? other : NULL;
            assert_int_equal(qkv_sample_codes(m, &o, keep_record, &r, codes), QKV_OK);
            check_record(m, &r, &o, codes, before);
        }
        qkv_model_destroy(m);
    }
}

static void test_given_stays(void **state)
{
    (void)state;
    qkv_model *m = made_prior(SIDE * SIDE);
    int32_t codes[COUNT * 6 * 5], given[6 * 5], other[COUNT * 6 * 5];
    for (size_t i = 0; i < COUNT * 6 * 5; i++)
        other[i] = (int32_t)(i * 5 % VOCAB);
    for (size_t i = 0; i < 6 * 5; i++)
        given[i] = i < 11 || i == 17 ? (int32_t)(i * 3 % VOCAB) : -1;
    qkv_sample_codes_options o = plain();
    record r = made_record(6, 5);
    o.rows = 6;
    o.columns = 5;
    o.given = given;
    o.conditions = other;
    assert_int_equal(qkv_sample_codes(m, &o, keep_record, &r, codes), QKV_OK);
    assert_int_equal(r.calls, 6 * 5 - 12);
    for (size_t i = 0; i < COUNT * 6 * 5; i++)
        if (given[i % 30] >= 0)
            assert_int_equal(codes[i], given[i % 30]);
    check_record(m, &r, &o, codes, SIDE * SIDE);
    qkv_model_destroy(m);
}

/* A grid follows from seed and number alone; the likeliest code is the one without chance. */
static void test_chance(void **state)
{
    (void)state;
    qkv_model *m = made_prior(1);
    int32_t codes[COUNT * SIDE * SIDE], one[SIDE * SIDE];
    qkv_sample_codes_options o = plain();
    assert_int_equal(qkv_sample_codes(m, &o, NULL, NULL, codes), QKV_OK);
    assert_memory_not_equal(codes, codes + SIDE * SIDE, sizeof one);
    o.count = 1;
    o.first = 2;
    assert_int_equal(qkv_sample_codes(m, &o, NULL, NULL, one), QKV_OK);
    assert_memory_equal(one, codes + 2 * SIDE * SIDE, sizeof one);
    o = plain();
    o.sampling.temperature = 0;
    record r = made_record(SIDE, SIDE);
    assert_int_equal(qkv_sample_codes(m, &o, keep_record, &r, codes), QKV_OK);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        assert_true(r.chances[i][0][codes[i]] == 1);
    o.model_distribution = true; /* which the sampler does not change */
    r = made_record(SIDE, SIDE);
    assert_int_equal(qkv_sample_codes(m, &o, keep_record, &r, codes), QKV_OK);
    check_record(m, &r, &o, codes, 1);
    o.model_distribution = false;
    r = made_record(SIDE, SIDE);
    r.stop_at = 3;
    assert_int_equal(qkv_sample_codes(m, &o, keep_record, &r, codes), QKV_E_CANCELLED);
    assert_int_equal(r.calls, 3);
    qkv_model_destroy(m);
}

static void refused(qkv_model *m, const qkv_sample_codes_options *o, const char *words)
{
    int32_t codes[COUNT * MOST * MOST];
    assert_int_equal(qkv_sample_codes(m, o, NULL, NULL, codes), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(ctx), words));
}

static void test_refused(void **state)
{
    (void)state;
    const int32_t beyond[COUNT * MOST * MOST] = {0, VOCAB};
    qkv_gpt_config c;
    qkv_model *m = made_prior(1), *other = made_prior(3), *grid = made_prior(SIDE * SIDE), *gpt;
    qkv_sample_codes_options o = plain();
    o.conditions = beyond;
    refused(m, &o, "condition 1 is 24");
    o = plain();
    o.given = beyond;
    refused(m, &o, "given code 1 is 24");
    o = plain();
    o.columns = SIDE - 1;
    refused(m, &o, "3 columns of codes");
    o.columns = SIDE + 1;
    refused(other, &o, "after 3 tokens");
    o.columns = SIDE + 1;
    o.rows = SIDE - 1;
    refused(grid, &o, "3 rows of codes");
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &c);
    c.vocab = VOCAB;
    c.positions = c.width = 16;
    c.layers = c.heads = 1;
    gpt = made(qkv_gpt2_type(), &c);
    o = plain();
    refused(gpt, &o, "takes a model that samples codes");
    qkv_model_destroy(gpt);
    qkv_model_destroy(grid);
    qkv_model_destroy(other);
    c = *(const qkv_gpt_config *)qkv_model_config(m);
    qkv_model_destroy(m);
    c.positions--;
    m = made(qkv_prior_type(), &c);
    refused(m, &o, "block_size: 16 expected");
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trained_size), cmocka_unit_test(test_window_moves),
        cmocka_unit_test(test_given_stays),  cmocka_unit_test(test_chance),
        cmocka_unit_test(test_refused),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up_tape, tear_down_tape);
}
