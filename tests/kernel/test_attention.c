/* test_attention.c - every attention kernel of every instruction set against whole matrices of
 * weights in double: all options, odd shapes, poisoned outputs, nothing touched in between. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "attention_problem.h"
#include "each.h"
#include "isas.h"

static qkv_context *context;

/* Every table: those in f32, then those that round operands to bf16. */
enum { AVX512 = QKV_ISA_AVX2 | QKV_ISA_AVX512 };
static const unsigned tables[] = { AVX512 | QKV__BF16, AVX512 | QKV__BF16_AMX };
enum { TABLES = ISAS + sizeof tables / sizeof *tables };

static unsigned table_of(size_t i) { return i < ISAS ? isa_list[i] : tables[i - ISAS]; }

static bool machine_fills(unsigned table)
{
    return machine_has(table & ~(unsigned)QKV__BF16_ANY) &&
           !(table & QKV__BF16 && !qkv__cpu_bf16()) && !(table & QKV__BF16_AMX && !qkv__cpu_amx());
}

static int setup(void **state)
{
    (void)state;
    return qkv_context_create(&context, NULL) != QKV_OK;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(qkv_context_memory(context).live_bytes, 0);
    qkv_context_destroy(context);
    return 0;
}

/* Of one (rows, heads, width) result: max |error| over max |answer|, infinite after a NaN, a
 * stray write or an error where the answer is infinite. before: what was there, or NULL. */
static double error_of(const array *got, const double *answer, const array *before)
{
    double error = 0, largest = 0.5; /* inputs are about normal; one key makes dq 0 */
    for (size_t n = 0; n < got->rows * got->heads; n++) {
        const float *y = at(got, n / got->heads, n % got->heads);
        for (size_t c = 0; c < got->width; c++) {
            double want = answer[n * got->width + c];
            want += before ? (double)at(before, n / got->heads, n % got->heads)[c] : 0;
            if (isinf(want) && (double)y[c] == want) {
                continue;
            }
            double difference = fabs((double)y[c] - want);
            error = difference <= error ? error : isnan(difference) ? INFINITY : difference;
            largest = fabs(want) > largest ? fabs(want) : largest;
        }
    }
    return array_strays(got) ? INFINITY : error / largest;
}

/* A result buffer like the given array: poisoned, or with random numbers to add to. */
static array result(const array *like, bool accumulate, dice *d)
{
    array x = array_make(like->rows, like->heads, like->width, roll(d, 3));
    if (accumulate) {
        array_fill(&x, d);
    }
    return x;
}

static array copy_of(const array *x)
{
    array y = *x;
    y.buffer = malloc(x->total * sizeof *x->buffer);
    if (x->total)
        memcpy(y.buffer, x->buffer, x->total * sizeof *x->buffer);
    y.data = y.buffer + GUARD;
    return y;
}

typedef struct {
    array out, lse, dq, dk, dv, dbias;
} results;

enum { RESULTS = sizeof(results) / sizeof(array) };

static results results_make(const problem *p, dice *d)
{
    return (results){ result(&p->dout, false, d), array_make(p->q_rows, p->a.H, 1, 0),
                      result(&p->q, p->w.acc_q, d), result(&p->k, p->w.acc_k, d),
                      result(&p->v, p->w.acc_v, d), copy_of(&p->bias) };
}

static void results_free(results *r)
{
    array *all = &r->out;
    for (size_t i = 0; i < RESULTS; i++) {
        free(all[i].buffer);
    }
}

/* What kernels find in their scratch memory means nothing. */
static void poison_scratch(qkv__arena *scratch)
{
    enum { FLOATS = 1 << 20 };
    qkv__mark mark = qkv__arena_mark(scratch);
    float *p = qkv__arena_alloc(scratch, FLOATS * sizeof *p);
    for (size_t i = 0; p && i < FLOATS; i++)
        p[i] = poison();
    qkv__arena_release(scratch, mark);
}

static void run_kernels(results *r, problem *p, const qkv_kernels *k, const qkv_exec *e)
{
    p->a.o_row = r->out.row, p->a.o_head = r->out.head;
    p->w.do_row = r->out.row, p->w.do_head = r->out.head;
    array dout = copy_of(&r->out);
    poison_scratch(e->scratch);
    k->attention(e, r->out.data, r->lse.data, p->q.data, p->k.data, p->v.data, &p->a);
    for (size_t n = 0; n < dout.rows * dout.heads; n++) {
        memcpy(at(&dout, n / dout.heads, n % dout.heads),
               at(&p->dout, n / dout.heads, n % dout.heads), dout.width * sizeof(float));
    }
    poison_scratch(e->scratch);
    p->w.dq_row = r->dq.row, p->w.dq_head = r->dq.head;
    p->w.dk_row = r->dk.row, p->w.dk_head = r->dk.head;
    p->w.dv_row = r->dv.row, p->w.dv_head = r->dv.head;
    float *dbias = p->want_bias && p->a.bias ? r->dbias.data + (p->a.bias - p->bias.data) : NULL;
    k->attention_bwd(e, p->want_q ? r->dq.data : NULL, p->want_k ? r->dk.data : NULL,
                     p->want_v ? r->dv.data : NULL, dbias, dout.data, r->out.data, r->lse.data,
                     p->q.data, p->k.data, p->v.data, &p->a, &p->w);
    free(dout.buffer);
}

static void fail_case(const problem *p, unsigned isa, const char *what, double error)
{
    fail_msg("%s off by %g: isa %u, B %zu, H %zu/%zu, D %zu/%zu, T %zu, S %zu, causal %d, "
             "bias %d, dropout %g", what, error, isa, p->a.B, p->a.H, p->a.Hkv, p->a.D, p->a.Dv,
             p->longest_q, p->longest_k, p->a.causal, p->a.bias != NULL, p->a.dropout.p);
}

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
            qkv_exec e = { .threads = 1 + n % 3, .scratch = scratch };
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
                     .relative = n % 5 == 2 };
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

/* So many heads that a block of a card has all keys of one. */
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
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_recipe(&cases[i].r, cases[i].seed, 1);
    }
}

/* x (rows, heads, width) as a cache keeps it, and in x what that stands for. */
static qkv_k_stored stored_of(array *x, qkv_k_kv kind, const qkv_exec *e)
{
    const qkv_kernels *k = qkv__kernels(0);
    size_t rows = x->rows * x->heads;
    float *scale = kind == QKV_K_KV_INT8 ? malloc((rows + 1) * sizeof *scale) : NULL;
    void *data = malloc((rows * x->width + 1) * sizeof(uint16_t));
    float *reals = malloc((rows * x->width + 1) * sizeof *reals);
    k->kv_store(e, data, scale, x->data, x->row, x->head, kind, x->rows, x->heads, x->width);
    k->kv_load(e, reals, data, scale, kind, rows, x->width);
    for (size_t n = 0; n < rows; n++)
        memcpy(at(x, n / x->heads, n % x->heads), reals + n * x->width,
               x->width * sizeof *reals);
    free(reals);
    return (qkv_k_stored){kind, data, scale};
}

static void stored_free(qkv_k_stored *x)
{
    free((void *)x->data);
    free((void *)x->scale);
}

/* Every instruction set on a problem whose keys and values a cache has. */
static void check_stored(problem *p, qkv_k_kv kind, const qkv_exec *e, dice *d)
{
    qkv_k_stored k = stored_of(&p->k, kind, e), v = stored_of(&p->v, kind, e);
    results want = results_make(p, d);
    run_kernels(&want, p, qkv__kernels(0), e);
    for (size_t i = 0; i < ISAS; i++) {
        if (!machine_has(isa_list[i]))
            continue;
        results got = results_make(p, d);
        p->a.o_row = got.out.row, p->a.o_head = got.out.head;
        poison_scratch(e->scratch);
        qkv__kernels(isa_list[i])->attention_stored(e, got.out.data, got.lse.data, p->q.data, &k,
                                                    &v, &p->a);
        assert_int_equal(qkv__arena_used(e->scratch), 0);
        assert_int_equal(array_strays(&got.out), 0);
        for (size_t n = 0; n < p->q_rows * p->a.H; n++) {
            const float *x = at(&got.out, n / p->a.H, n % p->a.H);
            const float *y = at(&want.out, n / p->a.H, n % p->a.H);
            for (size_t c = 0; c < p->a.Dv; c++)
                if (!(fabsf(x[c] - y[c]) <= 2e-5f * (1 + fabsf(y[c]))))
                    fail_case(p, isa_list[i], "stored", (double)fabsf(x[c] - y[c]));
        }
        results_free(&got);
    }
    results_free(&want);
    stored_free(&k);
    stored_free(&v);
}

static void test_stored(void **state)
{
    (void)state;
    qkv__arena *scratch;
    assert_int_equal(qkv__arena_create(&scratch, context, "scratch"), QKV_OK);
    for (unsigned n = 0; n < 60; n++) {
        dice d = { n * 17 + 3 };
        const recipe r = { QKV_K_FEW, 300, n % 8 ? 90 : 280, .causal = roll(&d, 2), .lengths = roll(&d, 2),
                           .packed = roll(&d, 2), .grouped = roll(&d, 2),
                           .bias = n % 5 == 0, .strides = roll(&d, 2), .window = n % 3 == 0 };
        problem p;
        problem_make(&p, &r, &d);
        qkv_exec e = { .threads = 1 + (int)n % 3, .scratch = scratch };
        check_stored(&p, n % 2 ? QKV_K_KV_BF16 : QKV_K_KV_INT8, &e, &d);
        problem_free(&p);
    }
    qkv__arena_destroy(scratch);
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
            p.a.scale = 4000;
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

/* Rows of weights: exact, distributions, and their average of the values is the output. */
static void check_rows(const problem *p, unsigned isa, const qkv_exec *e, const results *r)
{
    const qkv_k_attention_args *a = &p->a;
    for (size_t n = 0; n < a->B * a->H; n++) {
        size_t b = n / a->H, h = n % a->H, kv = h / (a->H / a->Hkv), keys = p->k_len[b];
        size_t first = p->q_len[b] / 3, rows = p->q_len[b] - first;
        float *w = malloc((rows * keys + 1) * sizeof *w);
        w[rows * keys] = poison();
        qkv__kernels(isa)->attention_rows(e, w, r->lse.data, p->q.data, p->k.data, a, b, h, first,
                                          rows);
        assert_true(is_poison(w[rows * keys]));
        for (size_t i = 0; i < rows; i++) {
            size_t row = p->q_begin[b] + first + i;
            double sum = 0, out = 0;
            for (size_t j = 0; j < keys; j++) {
                double want = p->weights[(row * a->H + h) * p->longest_k + j];
                double got = (double)w[i * keys + j];
                assert_true(fabs(got - want) <= 2e-6);
                sum += got;
                out += got * (double)at(&p->v, p->k_begin[b] + j, kv)[0];
            }
            bool blind = p->lse[row * a->H + h] == -INFINITY;
            assert_true(fabs(sum - (blind ? 0 : 1)) <= 1e-6);
            assert_true(fabs(out - (double)at(&r->out, row, h)[0]) <= 1e-5);
        }
        free(w);
    }
}

static void test_rows(void **state)
{
    (void)state;
    qkv__arena *scratch;
    assert_int_equal(qkv__arena_create(&scratch, context, "scratch"), QKV_OK);
    for (unsigned n = 0; n < 24; n++) {
        dice d = { n };
        recipe r = { 1 + roll(&d, 90), 1 + roll(&d, 150), 80, .causal = roll(&d, 2),
                     .lengths = roll(&d, 2), .packed = roll(&d, 2), .bias = roll(&d, 2),
                     .grouped = roll(&d, 2), .strides = roll(&d, 2), .window = n % 3 == 0,
                     .relative = n % 4 == 1 };
        problem p;
        problem_make(&p, &r, &d);
        for (size_t i = 0; i < ISAS; i++) {
            qkv_exec e = { .threads = 2, .scratch = scratch };
            if (machine_has(isa_list[i])) {
                results got = results_make(&p, &d);
                run_kernels(&got, &p, qkv__kernels(isa_list[i]), &e);
                check_rows(&p, isa_list[i], &e, &got);
                results_free(&got);
            }
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
        cmocka_unit_test(test_options_one_by_one), cmocka_unit_test(test_options_together),
        cmocka_unit_test(test_few_queries),        cmocka_unit_test(test_long),
        cmocka_unit_test(test_large_scale),        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_same_bits),          cmocka_unit_test(test_no_keys),
        cmocka_unit_test(test_stored),             cmocka_unit_test(test_wide),
        cmocka_unit_test(test_many_heads),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
