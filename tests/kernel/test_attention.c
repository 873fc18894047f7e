/* test_attention.c - attention and its gradients of every instruction set against whole matrices of
 * weights in double: all options, odd shapes, poisoned outputs, nothing touched in between. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "attention_results.h"

static void check_results(problem *p, unsigned isa, const qkv_exec *e, dice *d)
{
    const double tolerance = isa & QKV__BF16_ANY ? 1.2e-2 : 2e-5; /* of bf16: 2^-8 is 4e-3 */
    results r = results_make(p, d);
    array q = copy_of(&r.dq), k = copy_of(&r.dk), v = copy_of(&r.dv);
    run_kernels(&r, p, qkv__kernels(isa), e);
    const struct {
        const char *name;
        const array *got;
        const double *answer;
        const array *before;
        bool wanted;
    } checks[] = {
        { "out", &r.out, p->out, NULL, true },
        { "lse", &r.lse, p->lse, NULL, true },
        { "dq", &r.dq, p->dq, p->w.acc_q ? &q : NULL, p->want_q },
        { "dk", &r.dk, p->dk, p->w.acc_k ? &k : NULL, p->want_k },
        { "dv", &r.dv, p->dv, p->w.acc_v ? &v : NULL, p->want_v },
        { "dbias", &r.dbias, p->dbias, &p->bias, p->want_bias && p->bias.buffer },
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (!checks[i].wanted) {
            continue;
        }
        double error = error_of(checks[i].got, checks[i].answer, checks[i].before);
        if (!(error <= tolerance)) {
            fail_case(p, isa, checks[i].name, error);
        }
    }
    results_free(&r);
    free(q.buffer);
    free(k.buffer);
    free(v.buffer);
}

/* The first `most` tables on `count` problems of one kind. */
static void check_tables(const recipe *r, uint64_t seed, int count, size_t most)
{
    qkv__arena *scratch;
    assert_int_equal(qkv__arena_create(&scratch, context, "scratch"), QKV_OK);
    for (int n = 0; n < count; n++) {
        dice d = { seed * 1000 + (uint64_t)n };
        problem p;
        problem_make(&p, r, &d);
        for (size_t i = 0; i < most; i++) {
            qkv_exec e = { .threads = 1 + (int)((seed + (uint64_t)n) % 8), .scratch = scratch };
            if (machine_fills(table_of(i))) {
                check_results(&p, table_of(i), &e, &d);
                assert_int_equal(qkv__arena_used(scratch), 0);
            }
        }
        problem_free(&p);
    }
    qkv__arena_destroy(scratch);
}

static void check_recipe(const recipe *r, uint64_t seed, int count)
{
    check_tables(r, seed, count, TABLES);
}

static void test_options_one_by_one(void **state)
{
    (void)state;
    const recipe recipes[] = {
        { 20, 20, 40, .causal = false },
        { 70, 70, 70, .causal = true },
        { 70, 70, 70, .window = true },
        { 30, 30, 40, .lengths = true },
        { 30, 30, 40, .packed = true },
        { 20, 90, 40, .bias = true },
        { 20, 40, 40, .dropout = true },
        { 20, 30, 40, .grouped = true },
        { 30, 20, 40, .strides = true },
        { 20, 20, 40, .accumulate = true, .drop_outputs = true },
        { 70, 150, 40, .relative = true },
    };
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        check_recipe(&recipes[i], i + 1, 8);
    }
}

static void test_options_together(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 96; n++) {
        dice d = { n * 77 + 5 };
        recipe r = { 1 + roll(&d, 80), 1 + roll(&d, 140), 1 + roll(&d, 80),
                     .causal = roll(&d, 2), .lengths = roll(&d, 2), .packed = roll(&d, 2),
                     .bias = roll(&d, 2), .dropout = roll(&d, 2), .grouped = roll(&d, 2),
                     .strides = roll(&d, 2), .accumulate = roll(&d, 2),
                     .drop_outputs = roll(&d, 4) == 0, .window = n % 4 == 0,
                     .relative = n % 3 == 1 };
        check_recipe(&r, 100 + n, 1);
    }
}

/* One and few queries against many keys: decoding has a path of its own. */
static void test_few_queries(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 48; n++) {
        dice d = { n * 13 + 1 };
        recipe r = { 1 + n % 6, 400, 130, .causal = roll(&d, 2), .lengths = roll(&d, 2),
                     .packed = roll(&d, 2), .bias = n % 5 == 0, .dropout = n % 7 == 0,
                     .grouped = roll(&d, 2), .strides = roll(&d, 2), .window = n % 3 == 0,
                     .relative = n % 5 == 2, .heads = n % 3 ? 7 : 0 };
        check_recipe(&r, 300 + n, 1);
    }
}

static void test_long(void **state)
{
    (void)state;
    const recipe recipes[] = {
        { 400, 400, 64, .causal = true },
        { 500, 300, 64, .causal = true, .lengths = true, .grouped = true },
        { 300, 400, 96, .bias = true, .dropout = true, .strides = true },
        { 500, 500, 64, .window = true, .grouped = true },
        { 500, 300, 40, .window = true, .lengths = true, .packed = true, .dropout = true },
        { 400, 400, 64, .relative = true, .causal = true, .lengths = true },
    };
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        check_recipe(&recipes[i], 500 + i, 2);
    }
}

/* More channels than a tile of any kernel holds; scores of so many need f32. */
static void test_wide(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 12; n++) {
        dice d = { n * 7 + 2 };
        recipe r = { n % 3 ? 70 : 4, 90, 400, .causal = roll(&d, 2), .packed = roll(&d, 2),
                     .bias = n % 4 == 0, .dropout = n % 5 == 0, .grouped = roll(&d, 2),
                     .strides = roll(&d, 2), .accumulate = n % 2 };
        check_tables(&r, 800 + n, 1, ISAS);
    }
}

/* So many heads that a block of a card has all keys of one, and that a task of the processor has
 * several blocks of queries. */
static void test_many_heads(void **state)
{
    (void)state;
    const struct {
        uint64_t seed;
        recipe r;
    } cases[] = {
        { 902, { 90, 200, 60, .heads = 270, .window = true } },
        { 902, { 90, 200, 60, .heads = 270, .causal = true, .accumulate = true } },
        { 925, { 90, 200, 60, .heads = 270, .causal = true } },
        { 934, { 90, 200, 60, .heads = 270, .lengths = true } },
        { 940, { 400, 400, 40, .heads = 24, .window = true, .lengths = true } },
        { 941, { 400, 300, 40, .heads = 24, .causal = true, .packed = true, .dropout = true } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_recipe(&cases[i].r, cases[i].seed, 1);
    }
}

/* Sequences without keys among others, each also the first that a thread meets. */
static void test_no_keys(void **state)
{
    (void)state;
    const recipe r = { 60, 60, 40, .lengths = true, .packed = true };
    check_recipe(&r, 700, 60);
}

/* Scores in the hundreds: weights become a selection, nothing overflows. */
static void test_large_scale(void **state)
{
    const double scales[] = {100, 400, 4000};
    (void)state;
    qkv__arena *scratch;
    assert_int_equal(qkv__arena_create(&scratch, context, "scratch"), QKV_OK);
    for (unsigned n = 0; n < 6; n++) {
        const recipe r = { 40, 90, 32, .causal = n % 2 };
        dice d = { n };
        problem p;
        problem_make(&p, &r, &d);
        for (size_t i = 0; i < TABLES; i++) {
            if (!machine_fills(table_of(i))) {
                continue;
            }
            results got = results_make(&p, &d);
            p.a.scale = scales[n / 2];
            run_kernels(&got, &p, qkv__kernels(table_of(i)),
                        &(qkv_exec){ .threads = 2, .scratch = scratch });
            for (size_t row = 0; row < p.q_rows * p.a.H; row++) {
                const float *y = at(&got.out, row / p.a.H, row % p.a.H);
                const float *g = at(&got.dq, row / p.a.H, row % p.a.H);
                assert_true(isfinite(y[0]) && isfinite(g[0]) && fabsf(y[0]) < 10);
            }
            results_free(&got);
        }
        problem_free(&p);
    }
    qkv__arena_destroy(scratch);
}

/* The same bits again and again; forward, whatever the number of threads. */
static void test_same_bits(void **state)
{
    (void)state;
    qkv__arena *scratch;
    assert_int_equal(qkv__arena_create(&scratch, context, "scratch"), QKV_OK);
    const recipe all = { 300, 300, 64, .causal = true, .grouped = true, .bias = true,
                            .packed = true };
    for (uint64_t n = 0; n < 4; n++) {
        dice d = { n };
        problem p;
        recipe r = all;
        r.relative = n % 2;
        problem_make(&p, &r, &d);
        for (size_t i = 0; i < TABLES; i++) {
            if (!machine_fills(table_of(i))) {
                continue;
            }
            results runs[3];
            for (int k = 0; k < 3; k++) {
                dice same = d;
                runs[k] = results_make(&p, &same);
                run_kernels(&runs[k], &p, qkv__kernels(table_of(i)),
                            &(qkv_exec){ .threads = k < 2 ? 3 : 1, .scratch = scratch });
            }
            for (size_t m = 0; m < RESULTS; m++) {
                array *x = &runs[0].out + m, *y = &runs[1].out + m, *z = &runs[2].out + m;
                assert_memory_equal(x->buffer, y->buffer, x->total * sizeof(float));
                if (m < 2) {
                    assert_memory_equal(x->buffer, z->buffer, x->total * sizeof(float));
                }
            }
            for (int k = 0; k < 3; k++) {
                results_free(&runs[k]);
            }
        }
        problem_free(&p);
    }
    qkv__arena_destroy(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_one_by_one),
        cmocka_unit_test(test_options_together),
        cmocka_unit_test(test_few_queries),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_large_scale),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_no_keys),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_many_heads),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
