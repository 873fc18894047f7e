/* test_attention.c - attention looked into and continued: probed rows are distributions that give
 * the output, and keys and values kept from earlier steps give what computing anew does. With
 * each instruction set's kernels. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "properties.h"
#include "qkv/ops.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- probes -------------------------------------------------------------------------------- */

enum { H = 4, HKV = 2, D = 8, DV = 6, ROWS = 70, KEYS = 90 };
static const int32_t q_offsets[] = {0, 20, 51, ROWS}, k_offsets[] = {0, 25, 60, KEYS};

typedef struct {
    const qkv_real *out, *v;
    size_t calls, rows;
    bool causal;
} probed;

/* Each row: not negative, sums to 1 over what may be seen, and times the values is the output. */
static void check_rows(void *user, const char *name, int sequence, int head, size_t row,
                       size_t rows, size_t S, const qkv_real *weights)
{
    probed *p = user;
    assert_string_equal(name, "h.1.attn");
    size_t q0 = (size_t)q_offsets[sequence], k0 = (size_t)k_offsets[sequence];
    size_t T = (size_t)q_offsets[sequence + 1] - q0;
    assert_int_equal(S, (size_t)k_offsets[sequence + 1] - k0);
    for (size_t i = 0; i < rows; i++) {
        const qkv_real *w = weights + i * S;
        double sum = 0;
        for (size_t j = 0; j < S; j++) {
            assert_true(w[j] >= 0);
            if (p->causal && j > row + i + S - T)
                assert_true(w[j] == 0);
            sum += (double)w[j];
        }
        assert_true(fabs(sum - 1) <= 1e-5);
        for (size_t d = 0; d < DV; d++) {
            double y = 0;
            size_t kv = (size_t)head / (H / HKV);
            for (size_t j = 0; j < S; j++)
                y += (double)w[j] * (double)p->v[((k0 + j) * HKV + kv) * DV + d];
            double got = (double)p->out[((q0 + row + i) * H + (size_t)head) * DV + d];
            assert_true(fabs(y - got) <= 1e-5);
        }
    }
    p->calls++;
    p->rows += rows;
}

static void probe(fixture *f, bool causal, const qkv_attention_probe *asked, size_t calls,
                  size_t rows)
{
    const size_t qs[] = {ROWS, H, D}, ks[] = {KEYS, HKV, D}, vs[] = {KEYS, HKV, DV};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, true);
    qkv_tensor *q = noise(f, 3, qs), *k = noise(f, 3, ks), *v = noise(f, 3, vs);
    const qkv_attention_options o = {.sequences = 3, .q_offsets = q_offsets, .causal = causal,
                                     .k_offsets = k_offsets, .probe = "attn"};
    qkv_name_push(f->t, "h.%d", 1);
    qkv_tensor *y = qkv_attention(f->t, q, k, v, &o); /* nobody asks yet */
    probed p = {qkv_data(f->t, y), qkv_data(f->t, v), 0, 0, causal};
    qkv_attention_probe request = *asked;
    request.fn = check_rows;
    request.user = &p;
    assert_int_equal(qkv_attention_probe_add(f->t, &request), QKV_OK);
    qkv_tensor *again = qkv_attention(f->t, q, k, v, &o);
    assert_memory_equal(qkv_data(f->t, again), p.out, ROWS * H * DV * sizeof *p.out);
    assert_int_equal(p.calls, calls);
    assert_int_equal(p.rows, rows);
    qkv_probes_clear(f->t);
    (void)qkv_attention(f->t, q, k, v, &o);
    assert_int_equal(p.calls, calls);
}

static void probes(fixture *f)
{
    const struct {
        qkv_attention_probe asked;
        bool causal;
        size_t calls, rows;
    } cases[] = {
        {{.sequence = -1, .head = -1}, false, 3 * H, ROWS * H},
        {{.name = "h.*", .sequence = -1, .head = 3, .row = 2}, true, 3, ROWS - 6},
        {{.name = "h.1.attn", .sequence = 1, .head = 2, .row = 30, .rows = 5}, true, 1, 1},
        {{.name = "h.1.attn", .sequence = 2, .row = 4, .rows = 3}, false, 1, 3},
        {{.name = "h.0.attn", .sequence = -1, .head = -1}, false, 0, 0},
        {{.sequence = 1, .row = 40, .rows = 1}, false, 0, 0}, /* past the end */
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        probe(f, cases[i].causal, &cases[i].asked, cases[i].calls, cases[i].rows);
}

static void test_probes(void **state)
{
    (void)state;
    with_each_isa(probes);
}

/* ---- caches -------------------------------------------------------------------------------- */

/* Tokens in chunks of several lengths, one after another, against all at once. */
static void cache(fixture *f)
{
    enum { B = 2, T = 45 };
    static const size_t chunks[] = {17, 1, 1, 9, 2, 1, 14};
    const size_t qs[] = {B, T, H, D}, ks[] = {B, T, HKV, D}, vs[] = {B, T, HKV, DV};
    const qkv_attention_options causal = {.causal = true};
    qkv_kv_cache *c;
    assert_int_equal(qkv_kv_cache_create(&c, f->ctx, B, T, HKV, D, DV), QKV_OK);
    qkv_tensor *q = noise(f, 4, qs), *k = noise(f, 4, ks), *v = noise(f, 4, vs), *k_all, *v_all;
    const qkv_real *whole = qkv_data(f->t, qkv_attention(f->t, q, k, v, &causal));
    size_t at = 0;
    for (size_t i = 0; i < COUNT(chunks); i++) {
        size_t end = at + chunks[i];
        if (i == 4) { /* forgetting and repeating changes nothing */
            qkv_kv_cache_truncate(c, at - 4);
            at -= 4;
        }
        assert_true(qkv_kv_cache_append(f->t, c, qkv_slice(f->t, k, 1, at, end),
                                        qkv_slice(f->t, v, 1, at, end), &k_all, &v_all));
        assert_int_equal(qkv_kv_cache_length(c), end);
        qkv_tensor *y = qkv_attention(f->t, qkv_slice(f->t, q, 1, at, end), k_all, v_all, &causal);
        const qkv_real *got = qkv_data(f->t, y);
        assert_non_null(got);
        for (size_t b = 0; b < B; b++)
            for (size_t j = 0; j < (end - at) * H * DV; j++) {
                double expected = (double)whole[(b * T + at) * H * DV + j];
                double is = (double)got[b * (end - at) * H * DV + j];
                if (!(fabs(is - expected) <= 1e-5))
                    fail_msg("after %zu tokens: %g, not %g", at, is, expected);
            }
        at = end;
    }
    assert_int_equal(at, T);
    assert_false(qkv_kv_cache_append(f->t, c, qkv_slice(f->t, k, 1, 0, 1),
                                     qkv_slice(f->t, v, 1, 0, 1), &k_all, &v_all));
    assert_non_null(strstr(qkv_context_message(f->ctx), "full"));
    qkv_tape_reset(f->t); /* forgets that refusal */
    qkv_kv_cache_destroy(c);
}

static void test_cache(void **state)
{
    (void)state;
    with_each_isa(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_probes), cmocka_unit_test(test_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
