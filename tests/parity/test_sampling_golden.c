/* test_sampling_golden.c - the distribution that tokens are drawn from, against transformers'
 * logits processors (recipe: tools/make-golden/sampling.py): the same tokens are ruled out, the
 * others are as likely. And what transformers has no word for: nothing left to choose from. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "qkv/infer.h"
#include "qkv/safetensors.h"

enum { V = 53, MOST_PAST = 64, OPTIONS = 6 };

typedef struct {
    qkv_sampling sampling;
    qkv_real logits[V], expected[V];
    int32_t past[MOST_PAST];
    size_t past_count;
} sampling_case;

/* The tensor "I.WHAT", or NULL. */
static const qkv_safetensor *find(const qkv_safetensors *file, size_t i, const char *what)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%zu.%s", i, what);
    return qkv_safetensors_find(file, name);
}

static void read_reals(const qkv_safetensors *file, size_t i, const char *what, size_t count,
                       qkv_real *out)
{
    const qkv_safetensor *s = find(file, i, what);
    assert_non_null(s);
    assert_int_equal(s->count, count);
    assert_int_equal(qkv_safetensors_read(file, s, 0, count, out), QKV_OK);
}

static void read_case(const qkv_safetensors *file, size_t i, sampling_case *c)
{
    double o[OPTIONS];
    int64_t past[MOST_PAST];
    const qkv_safetensor *s = find(file, i, "options"), *p = find(file, i, "past");
    assert_int_equal(s->count, OPTIONS);
    assert_int_equal(s->store, QKV_STORE_F64);
    memcpy(o, s->data, sizeof o);
    c->sampling = (qkv_sampling){o[0], (size_t)o[1], o[2], o[3], o[4], (size_t)o[5]};
    assert_true(p && p->count <= MOST_PAST);
    assert_int_equal(qkv_safetensors_read_ints(file, p, 0, p->count, past), QKV_OK);
    c->past_count = p->count;
    for (size_t k = 0; k < p->count; k++)
        c->past[k] = (int32_t)past[k];
    read_reals(file, i, "logits", V, c->logits);
    read_reals(file, i, "out", V, c->expected);
}

static void test_golden(void **state)
{
    (void)state;
    qkv_context *ctx;
    qkv_safetensors *file;
    size_t cases = 0;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&file, ctx,
                                          QKV_SOURCE_DIR "/tests/golden/sampling.safetensors"),
                     QKV_OK);
    for (; find(file, cases, "options"); cases++) {
        sampling_case c;
        int32_t order[2 * V];
        read_case(file, cases, &c);
        qkv_sampling_distribution(&c.sampling, c.logits, V, c.past, c.past_count, order);
        for (size_t i = 0; i < V; i++)
            if ((c.logits[i] > 0) != (c.expected[i] > 0) ||
                !(fabs((double)c.logits[i] - (double)c.expected[i]) <= 1e-6))
                fail_msg("case %zu, token %zu: %g, not %g", cases, i, (double)c.logits[i],
                         (double)c.expected[i]);
    }
    assert_true(cases > 60);
    qkv_safetensors_close(file);
    qkv_context_destroy(ctx);
}

static void test_greedy(void **state)
{
    (void)state;
    qkv_sampling s = {.temperature = 0, .top_p = 1, .repetition_penalty = 2};
    qkv_real logits[] = {1, 3, 2.5, 3}, again[] = {1, 3, 2.5, 3};
    const int32_t past[] = {1, 1};
    int32_t order[8];
    qkv_sampling_distribution(&s, logits, 4, past, 0, order);
    assert_true(logits[1] == 1 && logits[3] == 0); /* the first of equals */
    qkv_sampling_distribution(&s, again, 4, past, 2, order);
    assert_true(again[1] == 0 && again[3] == 1); /* halved once, not twice */
}

static void test_nothing_left(void **state)
{
    (void)state;
    const int32_t past[] = {0, 1, 2};
    for (int greedy = 0; greedy < 2; greedy++) {
        qkv_sampling s = qkv_sampling_defaults();
        qkv_real logits[] = {1, 3, 2};
        int32_t order[6];
        s.no_repeat_ngram = 1;
        if (greedy)
            s.temperature = 0;
        qkv_sampling_distribution(&s, logits, 3, past, 3, order);
        assert_true(logits[0] == 0 && logits[1] == 0 && logits[2] == 0);
        assert_int_equal(qkv_sampling_draw(logits, 3, 0.5), -1);
    }
}

static void test_draw(void **state)
{
    (void)state;
    const qkv_real p[] = {0, 0.25F, 0, 0.75F, 0};
    assert_int_equal(qkv_sampling_draw(p, 5, 0), 1);
    assert_int_equal(qkv_sampling_draw(p, 5, 0.2499), 1);
    assert_int_equal(qkv_sampling_draw(p, 5, 0.25), 3);
    assert_int_equal(qkv_sampling_draw(p, 5, 0.99999999), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
