/* test_attention_rows.c - attention's other kernels, of every instruction set: rows of weights, and
 * keys and values as a cache keeps them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "attention_results.h"

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
            if (machine_fills(isa_list[i])) {
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

/* x (rows, heads, width) as a cache keeps it, and in x what that stands for. */
static qkv_k_stored stored_of(array *x, qkv_k_kv kind, const qkv_exec *e)
{
    const qkv_kernels *k = qkv__kernels(0);
    size_t rows = x->rows * x->heads;
    float *scale = kind == QKV_K_KV_INT8 ? malloc((rows + 1) * sizeof *scale) : NULL;
    void *data = malloc((rows * x->width + 1) * sizeof(uint16_t));
    float *reals = malloc((rows * x->width + 1) * sizeof *reals);
    size_t *places = malloc((x->rows + 1) * sizeof *places);
    for (size_t n = 0; n < x->rows; n++)
        places[n] = n;
    k->kv_store(e, data, scale, x->data, x->row, x->head, places, kind, x->rows, x->heads,
                x->width);
    free(places);
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
        if (!machine_fills(isa_list[i]))
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
        const recipe r = { QKV_K_FEW, 300, n % 8 ? 90 : 280, .causal = roll(&d, 2),
                           .lengths = roll(&d, 2), .packed = roll(&d, 2),
                           .grouped = roll(&d, 2),
                           .bias = n % 5 == 0, .strides = roll(&d, 2), .window = n % 3 == 0 };
        problem p;
        problem_make(&p, &r, &d);
        qkv_exec e = { .threads = 1 + (int)n % 3, .scratch = scratch };
        check_stored(&p, n % 2 ? QKV_K_KV_BF16 : QKV_K_KV_INT8, &e, &d);
        problem_free(&p);
    }
    qkv__arena_destroy(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_stored),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
