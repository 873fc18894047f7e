/* test_beams.c - caches whose sequences change places, and hypotheses that read one memory: both
 * give what each hypothesis gives when everything about it is computed anew, alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/base.h"
#include <qkv.h>

/* ---- places -------------------------------------------------------------------------------- */

enum { MOST = 9, HEADS = 2, D = 3, DV = 5, ROUNDS = 300 };

/* Position p of the sequence with this number. */
static qkv_real key_of(size_t number, size_t p) { return (qkv_real)(number * 1000 + p); }

static void append(qkv_tape *t, qkv_kv_cache *c, const size_t *number, size_t n, size_t p)
{
    const size_t ks[] = {n, 1, HEADS, D}, vs[] = {n, 1, HEADS, DV};
    qkv_tensor *k = qkv_tensor_from(t, NULL, 4, ks), *v = qkv_tensor_from(t, NULL, 4, vs), *all[2];
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < HEADS * D; j++)
            qkv_tensor_fill(k)[i * HEADS * D + j] = key_of(number[i], p);
        for (size_t j = 0; j < HEADS * DV; j++)
            qkv_tensor_fill(v)[i * HEADS * DV + j] = -key_of(number[i], p);
    }
    assert_true(qkv_kv_cache_append(t, c, k, v, &all[0], &all[1]));
}

/* history[i][p]: which number sequence i had at position p. */
static void check_cache(qkv_tape *t, qkv_kv_cache *c, size_t (*history)[ROUNDS], size_t n,
                        size_t length)
{
    qkv_tensor *k, *v;
    assert_true(qkv_kv_cache_all(t, c, &k, &v));
    assert_int_equal(qkv_dim(k, 0), n);
    assert_int_equal(qkv_dim(v, 1), length);
    const qkv_real *x = qkv_data(t, k), *y = qkv_data(t, v);
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < length; p++) {
            double expected = (double)key_of(history[i][p], p);
            assert_true((double)x[((i * length + p) * HEADS + 1) * D] == expected);
            assert_true((double)y[((i * length + p) * HEADS + 1) * DV + DV - 1] == -expected);
        }
}

/* Random places, rings and copies among them, shrinking and growing; memory that grows. */
static void test_select(void **state)
{
    (void)state;
    static size_t history[MOST][ROUNDS], before[MOST][ROUNDS];
    qkv_context *ctx;
    qkv_tape *t;
    qkv_kv_cache *c;
    qkv_rng r;
    qkv_rng_init(&r, 3, 0);
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_int_equal(qkv_kv_cache_create(&c, ctx, MOST, 2, HEADS, D, DV), QKV_OK);
    size_t n = MOST, number[MOST], rows[MOST];
    for (size_t p = 0; p < ROUNDS; p++) {
        if (p > 2 && qkv_rng_below(&r, 4) == 0) {
            p -= 2;
            qkv_kv_cache_truncate(c, p);
        }
        qkv_tape_reset(t);
        qkv_tape_mode(t, false, false);
        for (size_t i = 0; i < n; i++)
            history[i][p] = number[i] = qkv_rng_below(&r, 1000);
        if (p >= 2)
            assert_true(qkv_kv_cache_reserve(t, c, p + 1 + qkv_rng_below(&r, 9)));
        append(t, c, number, n, p);
        size_t next = 1 + qkv_rng_below(&r, MOST);
        bool permute = next <= n && p % 2;
        for (size_t i = 0; i < next; i++)
            rows[i] = permute ? i : qkv_rng_below(&r, (uint32_t)n);
        for (size_t i = next; permute && i-- > 1;) { /* without copies: rings of any length */
            size_t j = qkv_rng_below(&r, (uint32_t)i + 1), row = rows[i];
            rows[i] = rows[j];
            rows[j] = row;
        }
        assert_true(qkv_kv_cache_select(t, c, rows, next));
        memcpy(before, history, sizeof history);
        for (size_t i = 0; i < next; i++)
            memcpy(history[i], before[rows[i]], sizeof history[i]);
        n = next;
        check_cache(t, c, history, n, p + 1);
    }
    rows[0] = n;
    assert_false(qkv_kv_cache_select(t, c, rows, 1));
    qkv_kv_cache_destroy(c);
    qkv_tape_destroy(t);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
}

static void put(qkv_tape *t, qkv_kv_cache *c, int32_t slot, size_t number)
{
    const int32_t offsets[] = {0, 1}, past = 0;
    const qkv_kv_slots s = {1, offsets, &slot, &past, NULL, NULL};
    const size_t ks[] = {1, 1, HEADS, D}, vs[] = {1, 1, HEADS, DV};
    qkv_tensor *k = qkv_tensor_from(t, NULL, 4, ks), *v = qkv_tensor_from(t, NULL, 4, vs);
    for (size_t j = 0; j < HEADS * D; j++)
        qkv_tensor_fill(k)[j] = key_of(number, 0);
    for (size_t j = 0; j < HEADS * DV; j++)
        qkv_tensor_fill(v)[j] = -key_of(number, 0);
    assert_true(qkv_kv_cache_put(t, c, &s, k, v));
}

/* A place that held the same as another, until a slot was written or copied. */
static void test_select_slots(void **state)
{
    (void)state;
    enum { PLACES = 3 };
    static size_t history[PLACES][ROUNDS];
    const size_t first[PLACES] = {0}, number[PLACES] = {1, 2, 3};
    qkv_context *ctx;
    qkv_tape *t;
    qkv_kv_cache *c;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_int_equal(qkv_kv_cache_create(&c, ctx, PLACES, 2, HEADS, D, DV), QKV_OK);
    qkv_tape_mode(t, false, false);
    append(t, c, number, PLACES, 0);
    for (size_t now = 1; now <= 9; now += 4) {
        if (now == 5)
            put(t, c, 0, now);
        if (now == 9) {
            put(t, c, 2, now);
            assert_true(qkv_kv_cache_copy(t, c, 0, 2, 0, 1));
        }
        assert_true(qkv_kv_cache_select(t, c, first, PLACES));
        for (size_t i = 0; i < PLACES; i++)
            history[i][0] = now;
        check_cache(t, c, history, PLACES, 1);
    }
    qkv_kv_cache_destroy(c);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

/* ---- one memory for all beams of a sentence -------------------------------------------- */

enum { SENTENCES = 3, BEAMS = 2, VOCAB = 31, STEPS = 6 };
static const int32_t offsets[] = {0, 4, 11, 12}, lengths[] = {4, 7, 1};
static const int32_t source[] = {3, 9, 4, 2, 8, 8, 1, 30, 5, 6, 2, 2};

static qkv_model *make_model(qkv_context *ctx, const qkv_model_type *type)
{
    qkv_marian_config c;
    qkv_model *m = NULL;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.vocab = VOCAB;
    c.width = 24;
    c.encoder_layers = c.decoder_layers = 2;
    c.encoder_heads = 3;
    c.decoder_heads = 2;
    c.positions = 32;
    c.pad = c.start = VOCAB - 1;
    c.init_range = 0.5;
    assert_int_equal(qkv_model_create(&m, ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 7), QKV_OK);
    return m;
}

/* Logits after ids (n) for one sentence, everything anew. */
static const qkv_real *alone(qkv_model *m, qkv_tape *t, size_t sentence, const int32_t *ids,
                             size_t n)
{
    const size_t s_shape[] = {1, (size_t)lengths[sentence]}, shape[] = {1, n};
    qkv_marian_side from = {.ids = qkv_tensor_ids(t, source + offsets[sentence], 2, s_shape)};
    qkv_marian_side to = {.ids = qkv_tensor_ids(t, ids, 2, shape)};
    qkv_tensor *h = qkv_marian_decode(m, t, &to, qkv_marian_encode(m, t, &from), &from, NULL);
    return qkv_data(t, qkv_marian_logits(m, t, qkv_slice(t, h, 1, n - 1, n)));
}

static void check_rows(qkv_model *m, qkv_tape *t, const qkv_real *got, int32_t (*ids)[STEPS],
                       const size_t *sentence, size_t rows, size_t n)
{
    if (!got)
        fail_msg("%s", qkv_context_message(qkv_model_context(m)));
    for (size_t i = 0; i < rows; i++) {
        const qkv_real *expected = alone(m, t, sentence[i], ids[i], n);
        assert_non_null(expected);
        double most = 0;
        for (size_t v = 0; v < VOCAB; v++)
            most = fmax(most, fabs((double)expected[v]));
        for (size_t v = 0; v < VOCAB; v++)
            if (!(fabs((double)(got[i * VOCAB + v] - expected[v])) <= 5e-6 * most))
                fail_msg("row %zu after %zu tokens: %g, not %g", i, n,
                         (double)got[i * VOCAB + v], (double)expected[v]);
    }
}

/* Beams of three sentences, the middle of which ends early; the order of sentences changes. */
static void decode(const qkv_model_type *type)
{
    qkv_context *ctx;
    qkv_tape *t;
    qkv_lm_cache *cache;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_model *m = make_model(ctx, type);
    assert_int_equal(qkv_marian_cache_create(&cache, m, SENTENCES * BEAMS, 2, 12, true), QKV_OK);
    qkv_tape_mode(t, false, false);
    const size_t s_shape[] = {1, 12};
    qkv_marian_side from = {qkv_tensor_ids(t, source, 2, s_shape), SENTENCES, offsets, NULL, NULL,
                            NULL};
    qkv_tensor *memory = qkv_marian_encode(m, t, &from);
    int32_t ids[SENTENCES * BEAMS][STEPS], before[SENTENCES * BEAMS][STEPS];
    size_t active = SENTENCES, beams = 1, order[] = {0, 1, 2}, sentence[SENTENCES * BEAMS];
    assert_true(qkv_lm_cache_select(t, cache, order, SENTENCES));
    for (size_t n = 1; n <= STEPS; n++) {
        size_t rows = active * beams, shape[] = {rows, 1};
        int32_t queries[SENTENCES + 1], begins[SENTENCES], sizes[SENTENCES], last[6];
        for (size_t i = 0; i < rows; i++) {
            sentence[i] = order[i / beams];
            ids[i][n - 1] = n == 1 ? VOCAB - 1 : (int32_t)((7 * i + 3 * n) % VOCAB);
            last[i] = ids[i][n - 1];
        }
        for (size_t b = 0; b < active; b++) {
            begins[b] = offsets[order[b]];
            sizes[b] = lengths[order[b]];
            queries[b] = (int32_t)(b * beams);
        }
        queries[active] = (int32_t)rows;
        qkv_marian_side read = {NULL, active, NULL, sizes, queries, begins};
        qkv_marian_side to = {.ids = qkv_tensor_ids(t, last, 2, shape)};
        assert_true(qkv_lm_cache_reserve(t, cache, n));
        qkv_tensor *h = qkv_marian_decode(m, t, &to, n == 1 ? memory : NULL, &read, cache);
        const qkv_real *got = qkv_data(t, qkv_marian_logits(m, t, h));
        check_rows(m, t, got, ids, sentence, rows, n);
        size_t pick[] = {1, 1, 2, 3, 4, 4};
        if (n == 1) { /* one row becomes two beams */
            for (size_t i = 0; i < SENTENCES * BEAMS; i++)
                pick[i] = i / BEAMS;
            beams = BEAMS;
        } else if (n == 3) { /* the last sentence takes the place of the middle one */
            order[1] = 2;
            active = 2;
            pick[2] = 5;
            pick[3] = 4;
        }
        rows = active * beams;
        assert_true(qkv_lm_cache_select(t, cache, pick, rows));
        memcpy(before, ids, sizeof ids);
        for (size_t i = 0; i < rows; i++)
            memcpy(ids[i], before[pick[i]], sizeof ids[i]);
    }
    qkv_lm_cache_destroy(cache);
    qkv_model_destroy(m);
    qkv_tape_destroy(t);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
}

static void test_shared_memory(void **state)
{
    (void)state;
    decode(qkv_marian_type());
    decode(qkv_translator_type());
}

/* ---- what is refused ------------------------------------------------------------------- */

static void refused(qkv_tape *t, qkv_context *ctx, bool done, const char *words)
{
    assert_false(done);
    if (!strstr(qkv_context_message(ctx), words))
        fail_msg("no \"%s\" in: %s", words, qkv_context_message(ctx));
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
}

static bool attends(qkv_tape *t, bool wants_gradient, const qkv_attention_options *o)
{
    const size_t qs[] = {1, 3, 1, 2}, ks[] = {1, 5, 1, 2};
    qkv_real zeros[10] = {0};
    qkv_tensor *q = qkv_tensor_from(t, zeros, 4, qs), *k = qkv_tensor_from(t, zeros, 4, ks);
    if (wants_gradient)
        qkv_require_grad(t, q);
    return qkv_attention(t, q, k, k, o) != NULL;
}

static bool top(qkv_tape *t, size_t k, const int32_t *banned, size_t bans)
{
    enum { V = 6 };
    static const qkv_real x[V] = {1, 4, 2, 8, 5, 7};
    const size_t v = V;
    qkv_real log_p[V];
    int32_t ids[V];
    return qkv_topk(t, qkv_tensor_from(t, x, 1, &v),
                    &(qkv_topk_options){.k = k, .banned = banned, .bans = bans}, log_p, ids);
}

static void test_refused(void **state)
{
    (void)state;
    static const int32_t queries[] = {0, 2, 3}, fine[] = {3, 0}, far[] = {3, 4}, sizes[] = {2, 4};
    static const int32_t back[] = {4, 1}, beyond[] = {1, 6}, in_order[] = {1, 4};
    qkv_context *ctx;
    qkv_tape *t;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_attention_options o = {.sequences = 2, .q_offsets = queries, .k_begins = fine,
                               .k_lengths = sizes};
    refused(t, ctx, attends(t, true, &o), "does not record");
    assert_true(attends(t, false, &o));
    o.k_begins = far;
    refused(t, ctx, attends(t, false, &o), "do not fit");
    o.k_begins = fine;
    o.k_lengths = NULL;
    refused(t, ctx, attends(t, false, &o), "do not fit");
    o.q_offsets = NULL;
    refused(t, ctx, attends(t, false, &o), "need q_offsets");
    assert_true(top(t, 6, in_order, 2));
    refused(t, ctx, top(t, 0, NULL, 0), "do not fit");
    refused(t, ctx, top(t, 1, back, 2), "must increase");
    refused(t, ctx, top(t, 1, beyond, 2), "must increase");
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_select),
                                       cmocka_unit_test(test_select_slots),
                                       cmocka_unit_test(test_shared_memory),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
