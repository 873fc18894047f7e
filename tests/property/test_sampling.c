/* test_sampling.c - which tokens top-k and top-p leave, of many, by their definitions: all tokens
 * in order, by comparisons. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include <qkv.h>

enum { MOST = 900, CASES = 600 };

static qkv_real logits[MOST];

static int earlier(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (logits[i] != logits[j])
        return logits[i] > logits[j] ? -1 : 1;
    return (i > j) - (i < j);
}

/* Every second case has logits in steps, so that many are equal; every fifth forbids tokens. */
static size_t make_case(qkv_rng *r, size_t n, qkv_sampling *s)
{
    size_t V = 2 + qkv_rng_below(r, MOST - 2);
    double width = 0.1 + 8 * qkv_rng_uniform(r), from = (double)(n % 4) * 4;
    for (size_t i = 0; i < V; i++) {
        double x = width * qkv_rng_normal(r) - from;
        x = n % 2 ? floor(4 * x) / 4 : x;
        logits[i] = (qkv_real)(n % 5 == 0 && i % 3 == 1 ? -INFINITY : x);
    }
    *s = qkv_sampling_defaults();
    s->temperature = 1;
    s->top_k = n % 3 ? 1 + qkv_rng_below(r, (uint32_t)V) : 0;
    s->top_p = n % 3 == 1 ? 1 : qkv_rng_uniform(r);
    return V;
}

/* kept[v]: token v may be drawn. False where rounding may decide. */
static bool by_definition(const qkv_sampling *s, size_t V, bool *kept)
{
    static int32_t order[MOST];
    double sum = 0, tail = 0;
    for (size_t i = 0; i < V; i++)
        order[i] = (int32_t)i;
    qsort(order, V, sizeof *order, earlier);
    double most = (double)logits[order[0]];
    qkv_real least = s->top_k && s->top_k < V ? logits[order[s->top_k - 1]] : (qkv_real)-INFINITY;
    for (size_t i = 0; i < V; i++) {
        kept[i] = logits[i] >= least && logits[i] > -INFINITY;
        sum += kept[i] ? exp((double)logits[i] - most) : 0;
    }
    for (size_t i = V; i-- > 1 && s->top_p < 1;) {
        tail += kept[order[i]] ? exp((double)logits[order[i]] - most) / sum : 0;
        if (fabs(tail - (1 - s->top_p)) < 1e-5)
            return false;
        if (tail > 1 - s->top_p)
            break;
        kept[order[i]] = false;
    }
    return true;
}

static void kept_by_definition(void **state)
{
    (void)state;
    static int32_t order[2 * MOST];
    static bool kept[MOST];
    size_t compared = 0;
    qkv_rng r;
    qkv_rng_init(&r, 3, 0);
    for (size_t n = 0; n < CASES; n++) {
        qkv_sampling s;
        size_t V = make_case(&r, n, &s);
        if (!by_definition(&s, V, kept))
            continue;
        compared++;
        static qkv_real before[MOST];
        for (size_t i = 0; i < V; i++)
            before[i] = logits[i];
        qkv_sampling_distribution(&s, logits, V, NULL, 0, order);
        for (size_t i = 0; i < V; i++) /* the unlikeliest of those kept may underflow */
            if (logits[i] > 0 ? !kept[i] : kept[i] && before[i] > -40)
                fail_msg("case %zu: token %zu of %zu, logit %g, %s", n, i, V, (double)before[i],
                         kept[i] ? "is to be kept" : "is not to be kept");
    }
    assert_true(compared > CASES * 3 / 4);
}

/* However small p is. */
static void the_likeliest_stays(void **state)
{
    (void)state;
    int32_t order[8];
    qkv_real few[] = {2, 7, 7, 1};
    qkv_sampling s = qkv_sampling_defaults();
    s.top_p = 1e-30;
    qkv_sampling_distribution(&s, few, 4, NULL, 0, order);
    assert_true(few[0] == 0 && few[1] == 1 && few[2] == 0 && few[3] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_by_definition),
                                       cmocka_unit_test(the_likeliest_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
