/* test_batch.c - what a sequence gets in a batch is what it gets alone: its numbers to the bit,
 * whoever shares its passes, its cache and its prefix, and its tokens in any order of arrival. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <qkv.h>

#include "isas.h"

enum { VOCAB = 61, WINDOW = 48, PROMPTS = 14, LONGEST = 60, SLOTS = 4 };

/* Learned positions; rotary ones; rotary ones and a window of keys. */
static qkv_model_type_fn *const layouts[] = {qkv_gpt2_type, qkv_llama_type, qkv_mistral_type};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static bool is_rotary(const qkv_model_type *type) { return type != qkv_gpt2_type(); }

static qkv_model *make_model(qkv_context *ctx, const qkv_model_type *type)
{
    qkv_gpt_config c;
    qkv_model *m = NULL;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.width = 92; /* heads of 23: no vector's length divides them */
    c.head_width = is_rotary(type) ? 24 : 0;
    c.window = 9;
    c.vocab = VOCAB;
    c.positions = WINDOW;
    c.init_range = 0.3;
    assert_int_equal(qkv_model_create(&m, ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 5), QKV_OK);
    return m;
}

/* ---- the same bits ------------------------------------------------------------------------ */

enum { LONG = 40 };

/* Reads ids (LONG) into slot 0, cut at `cut` unless it is 0, beside `others` other sequences that
 * each pass reads some rows of; out (LONG, width). */
static void read_beside(qkv_model *m, qkv_tape *t, qkv_kv_store kv, const int32_t *ids, size_t cut,
                        size_t others, qkv_real *out)
{
    qkv_lm_cache *cache;
    assert_int_equal(qkv_lm_cache_create_as(&cache, m, kv, 8, 2 * LONG), QKV_OK);
    const size_t ends[] = {cut ? cut : LONG, LONG};
    size_t past = 0;
    for (size_t pass = 0; pass < 2 && past < LONG; pass++) {
        int32_t all[8 * LONG], offsets[9] = {0}, slots[8], pasts[8];
        size_t rows = 0;
        for (size_t i = 0; i <= others; i++) { /* the one that is looked at is in the middle */
            bool it = i == others / 2;
            size_t n = it ? ends[pass] - past : 5 + (3 * i + pass) % 11;
            for (size_t j = 0; j < n; j++)
                all[rows++] = it ? ids[past + j] : (int32_t)((7 * i + j) % VOCAB);
            offsets[i + 1] = (int32_t)rows;
            slots[i] = it ? 0 : (int32_t)(i < others / 2 ? i + 1 : i);
            pasts[i] = it ? (int32_t)past : (int32_t)(pass * 17);
        }
        const qkv_kv_slots s = {others + 1, offsets, slots, pasts, NULL, NULL};
        qkv_tape_reset(t);
        qkv_tape_mode(t, false, false);
        qkv_tensor *h = qkv_lm_hidden_slots(m, t, qkv_tensor_ids(t, all, 2, (size_t[]){1, rows}),
                                            &s, cache);
        const qkv_real *data = qkv_data(t, h);
        assert_non_null(data);
        size_t width = qkv_dim(h, 2), first = (size_t)offsets[others / 2];
        memcpy(out + past * width, data + first * width, (ends[pass] - past) * width * sizeof *out);
        past = ends[pass];
    }
    qkv_lm_cache_destroy(cache);
}

static void check_bits(const qkv_context_options *o, const qkv_model_type *type, bool pack,
                       qkv_kv_store kv)
{
    qkv_context *ctx;
    qkv_tape *t;
    static qkv_real alone[LONG * 92], beside[LONG * 92];
    int32_t ids[LONG];
    qkv_rng r;
    qkv_rng_init(&r, 4, 0);
    for (size_t i = 0; i < LONG; i++)
        ids[i] = (int32_t)qkv_rng_below(&r, VOCAB);
    assert_int_equal(qkv_context_create(&ctx, o), QKV_OK);
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    qkv_model *m = make_model(ctx, type);
    qkv_tape_pack(t, pack);
    qkv_tape_batch_invariant(t, true);
    read_beside(m, t, kv, ids, 0, 0, alone);
    for (size_t others = 0; others < 7; others += 3)
        for (size_t cut = 0; cut < LONG - QKV_BATCH_FEW; cut = cut ? cut + 6 : QKV_BATCH_FEW + 1) {
            read_beside(m, t, kv, ids, cut, others, beside);
            assert_memory_equal(alone, beside, sizeof alone);
        }
    qkv_model_destroy(m);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
}

/* ---- the same tokens ---------------------------------------------------------------------- */

typedef struct {
    int32_t prompt[LONGEST];
    size_t n, arrives; /* at which step */
    qkv_generate_options o;
    uint64_t id;
    qkv_ids made;
    bool ended;
} request;

/* Prompts of all lengths, most of which begin like another one. */
static void make_requests(request *q, uint64_t seed, bool rotary)
{
    static const int32_t stops[] = {3};
    qkv_rng r;
    qkv_rng_init(&r, seed, 1);
    for (size_t i = 0; i < PROMPTS; i++) {
        q[i] = (request){.n = 1 + qkv_rng_below(&r, LONGEST), .arrives = qkv_rng_below(&r, 30)};
        size_t like = i ? qkv_rng_below(&r, (uint32_t)i) : 0, same = qkv_rng_below(&r, LONGEST);
        for (size_t j = 0; j < q[i].n; j++)
            q[i].prompt[j] = i && j < same && j < q[like].n ? q[like].prompt[j]
                                                            : (int32_t)qkv_rng_below(&r, VOCAB);
        q[i].o = (qkv_generate_options){.tokens = qkv_rng_below(&r, 40), .seed = seed, .index = i,
                                        .sampling = qkv_sampling_defaults(), .stop = stops,
                                        .stops = i % 2};
        q[i].o.sampling.temperature = i % 3 ? 1 : 0;
        q[i].o.window = rotary && i % 4 == 0 ? 9 : 0;
    }
}

static void take_events(qkv_batch *b, qkv_context *ctx, request *q, size_t first, size_t last)
{
    const qkv_batch_event *e;
    size_t n = qkv_batch_events(b, &e);
    for (size_t j = 0; j < n; j++)
        for (size_t i = first; i < last; i++) {
            if (q[i].id != e[j].sequence)
                continue;
            assert_false(q[i].ended);
            if (e[j].kind == QKV_BATCH_TOKEN)
                assert_int_equal(qkv_ids_add(&q[i].made, ctx, e[j].id), QKV_OK);
            q[i].ended = e[j].kind != QKV_BATCH_TOKEN;
            assert_true(e[j].kind != QKV_BATCH_LENGTH || q[i].made.count == q[i].o.tokens);
        }
}

/* All requests from first to last-1 in one batch, to their ends. */
static qkv_batch_stats serve(qkv_model *m, request *q, size_t first, size_t last,
                             const qkv_batch_options *o)
{
    qkv_context *ctx = qkv_model_context(m);
    qkv_batch *b;
    uint64_t noise = 0;
    size_t added = 0, ended = 0;
    assert_int_equal(qkv_batch_create(&b, m, o), QKV_OK);
    for (size_t step = 0; ended < last - first; step++) {
        assert_true(step < 5000);
        for (size_t i = first; i < last; i++)
            if (step == (last - first == 1 ? 0 : q[i].arrives)) {
                assert_int_equal(qkv_batch_add(b, q[i].prompt, q[i].n, &q[i].o, &q[i].id), QKV_OK);
                added++;
            }
        if (last - first > 1 && step % 7 == 3) { /* one that never ends by itself */
            if (noise)
                (void)qkv_batch_remove(b, noise);
            qkv_generate_options other = {.tokens = 1000};
            assert_int_equal(qkv_batch_add(b, q[step % PROMPTS].prompt, 1, &other, &noise), QKV_OK);
        }
        assert_int_equal(qkv_batch_step(b), QKV_OK);
        take_events(b, ctx, q, first, last);
        ended = 0;
        for (size_t i = first; i < last; i++)
            ended += q[i].ended;
    }
    assert_int_equal(added, last - first);
    qkv_batch_stats stats = qkv_batch_statistics(b);
    qkv_batch_destroy(b);
    return stats;
}

static void check_tokens(const qkv_context_options *c, const qkv_model_type *type, bool pack,
                         qkv_kv_store kv, uint64_t seed)
{
    qkv_context *ctx;
    static request alone[PROMPTS], together[PROMPTS];
    assert_int_equal(qkv_context_create(&ctx, c), QKV_OK);
    qkv_model *m = make_model(ctx, type);
    bool rotary = is_rotary(type);
    make_requests(alone, seed, rotary);
    make_requests(together, seed, rotary);
    qkv_batch_options o = qkv_batch_defaults();
    o.pack = pack;
    o.kv = kv;
    o.positions = rotary ? WINDOW + 5 : 0;
    for (size_t i = 0; i < PROMPTS; i++) {
        o.sequences = 1 + i % 2;
        o.chunk = 64;
        serve(m, alone, i, i + 1, &o);
    }
    o.sequences = SLOTS;
    o.chunk = 2 * QKV_BATCH_FEW + seed % 9;
    qkv_batch_stats stats = serve(m, together, 0, PROMPTS, &o);
    assert_true(stats.shared_tokens > 0);
    for (size_t i = 0; i < PROMPTS; i++) {
        assert_int_equal(alone[i].made.count, together[i].made.count);
        if (alone[i].made.count)
            assert_memory_equal(alone[i].made.data, together[i].made.data,
                                alone[i].made.count * sizeof(int32_t));
        qkv_ids_free(&alone[i].made, ctx);
        qkv_ids_free(&together[i].made, ctx);
    }
    qkv_model_destroy(m);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
}

static void run_all(unsigned isa)
{
    for (int i = 0; i < 4; i++) {
        const qkv_model_type *type = layouts[i == 3 ? 2 : i % 2]();
        qkv_context_options o = qkv_context_defaults();
        o.isa = isa;
        o.threads = i == 1 || i == 2 ? 2 : 1;
        check_bits(&o, type, i / 2, (qkv_kv_store)(i % 3));
        check_tokens(&o, type, i / 2, (qkv_kv_store)(i % 3), (uint64_t)i);
    }
}

/* ---- numbers of fewer bits ---------------------------------------------------------------- */

/* The stack's output differs from the one with reals by what the rounding of keys and values makes
 * of it: bf16's is 2^-9 of each number, int8's half of 1/127 of the largest of its head. */
static void fewer_bits_are_near(void **state)
{
    (void)state;
    static const double bounds[] = {0, 0.02, 0.06}, floors[] = {-1, 1e-5, 1e-4};
    for (int type = 0; type < LAYOUTS; type++) {
        qkv_context *ctx;
        qkv_tape *t;
        static qkv_real real[LONG * 92], fewer[LONG * 92];
        int32_t ids[LONG];
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
        qkv_model *m = make_model(ctx, layouts[type]());
        qkv_tape_batch_invariant(t, true);
        for (size_t i = 0; i < LONG; i++)
            ids[i] = (int32_t)(i * 37 % VOCAB);
        /* Many rows a pass, and few, which have a kernel of their own. */
        for (int way = 0; way < 6; way++) {
            int kv = way % 3;
            size_t cut = way < 3 ? 20 : LONG - 2, others = way < 3 ? 3 : 0;
            double error = 0, all = 0;
            if (kv == QKV_KV_F32)
                read_beside(m, t, QKV_KV_F32, ids, cut, others, real);
            read_beside(m, t, (qkv_kv_store)kv, ids, cut, others, fewer);
            for (size_t i = 0; i < LONG * 92; i++) {
                double d = (double)fewer[i] - (double)real[i];
                error += d * d;
                all += (double)real[i] * (double)real[i];
            }
            double relative = sqrt(error / all);
            if (!(relative <= bounds[kv] && relative > floors[kv]))
                fail_msg("type %d, kv %d: %g", type, kv, relative);
        }
        qkv_model_destroy(m);
        qkv_tape_destroy(t);
        qkv_context_destroy(ctx);
    }
}

enum { HEADS = 3, D = 7, ROWS = 5 };

/* Row r of p (ROWS, HEADS, D) through slot 1 of a cache: attention that sees this key alone. */
static const qkv_real *come_back(qkv_tape *t, qkv_kv_cache *c, const qkv_real *p, int32_t r)
{
    static const qkv_real zeros[HEADS * D];
    const int32_t offsets[] = {0, 1}, slot[] = {1}, past[] = {r};
    const qkv_kv_slots s = {1, offsets, slot, past, past, NULL};
    const size_t shape[] = {1, 1, HEADS, D};
    const qkv_attention_options o = {.causal = true};
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_tensor_from(t, p + r * HEADS * D, 4, shape);
    assert_true(qkv_kv_cache_put(t, c, &s, x, x));
    return qkv_data(t, qkv_kv_cache_attend(t, c, &s, qkv_tensor_from(t, zeros, 4, shape), &o));
}

/* What does not fit is refused. */
static void check_refused(qkv_context *ctx, qkv_tape *t, qkv_kv_cache *c, const qkv_real *p,
                          bool plain)
{
    static const struct { int32_t end, slot, past, first; const char *words; } wrong[] = {
        {3, 1, 7, 0, "slot 1 is full: 7 of 9"}, {3, 2, 0, 0, "3 rows for slot 2 of 2"},
        {3, -1, 0, 0, "slot -1"}, {3, 0, -1, 0, "-1 positions"}, {3, 0, 2, 3, "from 3"},
        {-1, 0, 0, 0, "-1 rows"}, {2, 0, 0, 0, "offsets end at 2; 3 rows"}};
    const size_t shape[] = {1, 3, HEADS, D}, two[] = {2, 1, HEADS, D};
    qkv_tensor *k_all, *v_all;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int32_t offsets[] = {0, wrong[i].end};
        const qkv_kv_slots s = {1, offsets, &wrong[i].slot, &wrong[i].past, &wrong[i].first, NULL};
        qkv_tape_reset(t);
        qkv_tensor *x = qkv_tensor_from(t, p, 4, shape);
        assert_false(qkv_kv_cache_put(t, c, &s, x, x));
        if (!strstr(qkv_context_message(ctx), wrong[i].words))
            fail_msg("%s", qkv_context_message(ctx));
    }
    qkv_tape_reset(t);
    assert_false(qkv_kv_cache_copy(t, c, 0, 1, 5, 5));
    qkv_tape_reset(t);
    qkv_tensor *x = qkv_tensor_from(t, p, 4, two);
    assert_int_equal(qkv_kv_cache_append(t, c, x, x, &k_all, &v_all), plain);
}

/* What a head of a cache gives back; NaN and infinity do not become numbers. */
static void a_head_comes_back(void **state)
{
    (void)state;
    static const double steps[] = {0, 1.0 / 256, 1.0 / 127};
    for (int kv = 0; kv < 3; kv++) {
        qkv_context *ctx;
        qkv_tape *t;
        qkv_kv_cache *c;
        qkv_rng r;
        qkv_real p[ROWS * HEADS * D];
        qkv_rng_init(&r, 8, 0);
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
        assert_int_equal(qkv_kv_cache_create_as(&c, ctx, (qkv_kv_store)kv, 2, 9, HEADS, D, D),
                         QKV_OK);
        for (size_t i = 0; i < ROWS * HEADS * D; i++)
            p[i] = i < D ? 0 : (qkv_real)(qkv_rng_uniform(&r) * 8 - 4);
        p[D + 1] = (qkv_real)1e-40; /* beside others, and alone in a head */
        for (size_t i = 0; i < D; i++)
            p[4 * HEADS * D + i] = (qkv_real)1e-40;
        p[2 * HEADS * D + 1] = (qkv_real)NAN;
        p[3 * HEADS * D + 2] = (qkv_real)INFINITY;
        for (int32_t row = 0; row < ROWS; row++) {
            const qkv_real *y = come_back(t, c, p, row), *x = p + row * HEADS * D;
            assert_non_null(y);
            for (size_t i = 0; i < HEADS * D; i++) {
                bool ill = i < D && (row == 2 || row == 3);
                double error = fabs((double)y[i] - (double)x[i]);
                if (ill ? !isnan(y[i]) : !(error <= 2.01 * steps[kv] + 1e-30))
                    fail_msg("kv %d: %g of %g", kv, (double)y[i], (double)x[i]);
            }
        }
        check_refused(ctx, t, c, p, kv == 0);
        qkv_kv_cache_destroy(c);
        qkv_tape_destroy(t);
        assert_int_equal(qkv_kv_cache_create_as(&c, ctx, (qkv_kv_store)7, 1, 1, 1, 1, 1),
                         QKV_E_ARGUMENT);
        assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
        qkv_context_destroy(ctx);
    }
}

/* ---- as qkv_generate ---------------------------------------------------------------------- */

/* The likeliest tokens are those that qkv_generate finds, past the window, too. */
static void greedy_text_is_that_of_generate(void **state)
{
    (void)state;
    for (int type = 0; type < LAYOUTS; type++) {
        bool rotary = type > 0;
        qkv_context *ctx;
        static request q[PROMPTS];
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        qkv_model *m = make_model(ctx, layouts[type]());
        make_requests(q, 9, rotary);
        for (size_t i = 0; i < PROMPTS; i++)
            q[i].o.sampling.temperature = 0;
        qkv_batch_options o = qkv_batch_defaults();
        o.positions = rotary ? WINDOW + 1 : 0;
        serve(m, q, 0, PROMPTS, &o);
        for (size_t i = 0; i < PROMPTS; i++) {
            qkv_ids out = {0};
            assert_int_equal(qkv_generate(m, q[i].prompt, q[i].n, &q[i].o, NULL, NULL, &out),
                             QKV_OK);
            assert_int_equal(out.count, q[i].made.count);
            if (out.count)
                assert_memory_equal(out.data, q[i].made.data, out.count * sizeof *out.data);
            qkv_ids_free(&out, ctx);
            qkv_ids_free(&q[i].made, ctx);
        }
        qkv_model_destroy(m);
        qkv_context_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS
        cmocka_unit_test(fewer_bits_are_near),
        cmocka_unit_test(a_head_comes_back),
        cmocka_unit_test(greedy_text_is_that_of_generate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
