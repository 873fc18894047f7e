/* test_beam_models.c - several translators in one beam search: a hypothesis scores what the mean of
 * their logits, each told its tokens, is worth; a model beside itself changes nothing; with a
 * shortlist too. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <qkv.h>

enum { VOCAB = 37, POSITIONS = 40, SENTENCES = 4, TOKENS = 19, MODELS = 3 };
static const int32_t offsets[] = {0, 5, 6, 16, TOKENS};
static int32_t source[TOKENS];

typedef struct {
    qkv_context *ctx;
    qkv_model *models[MODELS]; /* of other sizes and values */
    qkv_shortlist *list;
    qkv_tape *t;
    qkv_generation g;
} fixture;

static qkv_model *make_model(fixture *f, const qkv_model_type *type, size_t width, size_t vocab,
                             size_t positions)
{
    qkv_model *m;
    qkv_marian_config c;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.vocab = vocab;
    c.width = width;
    c.encoder_layers = 2;
    c.decoder_layers = width / 8;
    c.encoder_heads = c.decoder_heads = 2;
    c.positions = positions;
    c.pad = c.start = VOCAB - 1;
    c.eos = 0;
    c.init_range = 0.5;
    c.tie = false;
    assert_int_equal(qkv_model_create(&m, f->ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 3 + width), QKV_OK);
    return m;
}

static void open_fixture(fixture *f)
{
    static qkv_shortlist_entry entries[VOCAB];
    qkv_context_options o = qkv_context_defaults();
    o.threads = 1;
    assert_int_equal(qkv_context_create(&f->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    f->models[0] = make_model(f, qkv_marian_type(), 24, VOCAB, POSITIONS);
    f->models[1] = make_model(f, qkv_marian_type(), 16, VOCAB, POSITIONS + 3);
    f->models[2] = make_model(f, qkv_translator_type(), 8, VOCAB, POSITIONS);
    for (size_t i = 0; i < TOKENS; i++)
        source[i] = (int32_t)(i * i * 7 % (VOCAB - 1));
    for (int32_t i = 0; i < VOCAB; i++)
        entries[i] = (qkv_shortlist_entry){i, i / 2, 0.5f};
    assert_int_equal(qkv_shortlist_create(&f->list, f->ctx, VOCAB, entries, VOCAB), QKV_OK);
    qkv_generation_defaults(&f->g, f->models[0]);
    f->g.max_length = 12;
    f->g.forced_eos = -1;
    f->g.renormalize = false;
    f->g.ban_count = 0;
}

static void close_fixture(fixture *f)
{
    for (size_t i = 0; i < MODELS; i++)
        qkv_model_destroy(f->models[i]);
    qkv_shortlist_destroy(f->list);
    qkv_tape_destroy(f->t);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
}

static qkv_beam_search *run(fixture *f, size_t n, qkv_model *const *models, bool listed)
{
    qkv_beam_search *s;
    const qkv_shortlist_options few = {1, 1};
    bool fine = !qkv_beam_search_create(&s, models[0], &f->g);
    for (size_t i = 1; i < n && fine; i++)
        fine = !qkv_beam_search_add(s, models[i]);
    if (!fine || qkv_beam_search_shortlist(s, listed ? f->list : NULL, &few) ||
        qkv_beam_search_run(s, source, offsets, SENTENCES))
        fail_msg("%s", qkv_context_message(f->ctx));
    return s;
}

/* Adds a model's logits (n, VOCAB) of an answer's tokens, which its decoder is told. */
static void add_logits(fixture *f, qkv_model *m, size_t sentence, const qkv_hypothesis *h,
                       double *sum)
{
    int32_t input[POSITIONS] = {VOCAB - 1};
    memcpy(input + 1, h->ids, (h->count - 1) * sizeof *h->ids);
    const size_t from = (size_t)(offsets[sentence + 1] - offsets[sentence]);
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, false);
    qkv_marian_side s = {.ids = qkv_tensor_ids(f->t, source + offsets[sentence], 2,
                                               (size_t[]){1, from})};
    qkv_marian_side t = {.ids = qkv_tensor_ids(f->t, input, 2, (size_t[]){1, h->count})};
    qkv_tensor *hidden = qkv_marian_decode(m, f->t, &t, qkv_marian_encode(m, f->t, &s), &s, NULL);
    const qkv_real *x = qkv_data(f->t, qkv_marian_logits(m, f->t, hidden));
    assert_non_null(x);
    for (size_t i = 0; i < h->count * VOCAB; i++)
        sum[i] += (double)x[i];
}

/* Log p of an answer by the normalised product of n models' probabilities to the power 1 / n, among
 * the tokens that are in. */
static double told(fixture *f, size_t n, size_t sentence, const qkv_hypothesis *h, const bool *in)
{
    double sum[POSITIONS * VOCAB] = {0}, log_p = 0;
    for (size_t i = 0; i < n; i++)
        add_logits(f, f->models[i], sentence, h, sum);
    for (size_t k = 0; k < h->count; k++) {
        const double *x = sum + k * VOCAB;
        double all = 0;
        for (size_t v = 0; v < VOCAB; v++)
            all += in[v] ? exp((x[v] - x[h->ids[k]]) / (double)n) : 0;
        log_p -= log(all);
    }
    return log_p;
}

/* Returns the tokens of the longest answer. */
static size_t check(size_t n, bool listed, size_t most)
{
    fixture f;
    bool in[VOCAB];
    size_t longest = 0;
    open_fixture(&f);
    f.g.max_length = most + 1;
    qkv_beam_search *s = run(&f, n, f.models, listed);
    memset(in, !listed, sizeof in);
    if (listed) {
        const qkv_shortlist_options few = {f.g.beams * 2, 1};
        qkv_ids tokens = {0};
        assert_int_equal(qkv_shortlist_tokens(f.list, &few, source, TOKENS, &tokens), QKV_OK);
        for (size_t i = 0; i < tokens.count; i++)
            in[tokens.data[i]] = true;
        qkv_ids_free(&tokens, f.ctx);
        in[0] = true;
        for (size_t i = 0; i < TOKENS; i++) /* an embedding is shared */
            in[source[i]] = true;
    }
    for (size_t i = 0; i < SENTENCES; i++)
        for (size_t b = 0; b < f.g.beams; b++) {
            const qkv_hypothesis *h = qkv_beam_search_found(s, i, b);
            assert_non_null(h);
            assert_true(fabs(h->log_p - told(&f, n, i, h, in)) <= 1e-4);
            longest = h->count > longest ? h->count : longest;
        }
    qkv_beam_stats stats = qkv_beam_search_stats(s);
    assert_int_equal(stats.source_rows, TOKENS);
    qkv_beam_search_destroy(s);
    close_fixture(&f);
    return longest;
}

static void test_scores(void **state)
{
    (void)state;
    check(1, false, 12);
    check(2, false, 12);
    check(MODELS, true, 12);
    assert_int_equal(check(MODELS, false, POSITIONS), POSITIONS); /* caches have to grow */
}

/* What a search counted is what the same tokens are worth when they are given. */
static void test_given_tokens(void **state)
{
    (void)state;
    enum { TIMES = 30 }; /* more than are read at once */
    fixture f;
    static qkv_id_pair pairs[TIMES * SENTENCES * QKV_BEAMS];
    static double log_p[TIMES * SENTENCES * QKV_BEAMS];
    size_t n = 0;
    open_fixture(&f);
    f.g.max_length = POSITIONS;
    qkv_beam_search *s = run(&f, 1, f.models, false);
    for (size_t k = 0; k < TIMES; k++)
        for (size_t i = 0; i < SENTENCES; i++)
            for (size_t b = 0; b < f.g.beams; b++) {
                const qkv_hypothesis *h = qkv_beam_search_found(s, i, b);
                const size_t from = (size_t)(offsets[i + 1] - offsets[i]);
                pairs[n++] = (qkv_id_pair){{source + offsets[i], h->ids}, {from, h->count}};
            }
    size_t ids = 0;
    for (size_t i = 0; i < n; i++)
        ids += pairs[i].size[0] + pairs[i].size[1];
    assert_true(ids > 2 * 4096);
    assert_int_equal(qkv_translate_log_p(f.models[0], f.t, pairs, n, log_p), QKV_OK);
    for (size_t i = 0; i < n; i++) {
        const size_t at = i % (SENTENCES * f.g.beams);
        const qkv_hypothesis *h = qkv_beam_search_found(s, at / f.g.beams, at % f.g.beams);
        assert_true(fabs(log_p[i] - h->log_p) <= 1e-4);
    }
    static const int32_t high[] = {VOCAB}, low[] = {QKV_IGNORED};
    static const int32_t many[POSITIONS + 1];
    const qkv_id_pair wrong[] = {{{source, source}, {0, 1}}, {{source, source}, {1, 0}},
                                 {{high, source}, {1, 1}}, {{source, high}, {1, 1}},
                                 {{source, low}, {1, 1}}, {{source, many}, {1, POSITIONS + 1}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(qkv_translate_log_p(f.models[0], f.t, &wrong[i], 1, log_p),
                         QKV_E_ARGUMENT);
    qkv_beam_search_destroy(s);
    close_fixture(&f);
}

static void test_a_model_beside_itself(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    qkv_beam_search *one = run(&f, 1, f.models, false);
    qkv_beam_search *two = run(&f, 2, (qkv_model *[]){f.models[0], f.models[0]}, false);
    for (size_t i = 0; i < SENTENCES; i++) {
        const qkv_hypothesis *x = qkv_beam_search_found(one, i, 0);
        const qkv_hypothesis *y = qkv_beam_search_found(two, i, 0);
        assert_int_equal(x->count, y->count);
        assert_memory_equal(x->ids, y->ids, x->count * sizeof *x->ids);
        assert_true(fabs(x->score - y->score) <= 1e-6 * fabs(x->score));
    }
    assert_int_equal(qkv_beam_search_stats(one).rows, qkv_beam_search_stats(two).rows);
    qkv_beam_search_destroy(one);
    qkv_beam_search_destroy(two);
    close_fixture(&f);
}

/* Sentences first .. end-1 by s find what they found among all, which `all` has. */
static void check_some(qkv_beam_search *s, qkv_beam_search *all, size_t first, size_t end)
{
    int32_t begins[SENTENCES + 1] = {0};
    for (size_t i = first; i <= end; i++)
        begins[i - first] = offsets[i] - offsets[first];
    assert_int_equal(qkv_beam_search_run(s, source + offsets[first], begins, end - first), QKV_OK);
    for (size_t i = first; i < end; i++) {
        const qkv_hypothesis *x = qkv_beam_search_found(all, i, 0);
        const qkv_hypothesis *y = qkv_beam_search_found(s, i - first, 0);
        assert_int_equal(x->count, y->count);
        assert_memory_equal(x->ids, y->ids, x->count * sizeof *x->ids);
        assert_true(fabs(x->score - y->score) <= 1e-5 * fabs(x->score));
    }
}

/* Fewer, more and longer sentences than the batch before, whose caches serve again. */
static void test_batches_of_all_sizes(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    f.g.max_length = POSITIONS + 1;
    qkv_beam_search *all = run(&f, MODELS, f.models, false), *s = run(&f, MODELS, f.models, false);
    check_some(s, all, 0, 1);
    check_some(s, all, 1, SENTENCES);
    check_some(s, all, 0, SENTENCES);
    qkv_beam_search_destroy(s);
    s = run(&f, MODELS, f.models, false);
    check_some(s, all, 1, 2);
    qkv_beam_search_destroy(s);
    assert_int_equal(qkv_beam_search_create(&s, f.models[0], &f.g), QKV_OK);
    assert_int_equal(qkv_beam_search_add(s, f.models[1]), QKV_OK);
    assert_int_equal(qkv_beam_search_add(s, f.models[2]), QKV_OK);
    for (size_t i = 0; i < SENTENCES; i++)
        check_some(s, all, i, i + 1); /* 5, 1, 10 and 3 tokens */
    qkv_beam_search_destroy(s);
    qkv_beam_search_destroy(all);
    close_fixture(&f);
}

static void refused(fixture *f, qkv_model *m, const char *words)
{
    qkv_beam_search *s;
    assert_int_equal(qkv_beam_search_create(&s, f->models[0], &f->g), QKV_OK);
    assert_int_equal(qkv_beam_search_add(s, m), QKV_E_ARGUMENT);
    if (!strstr(qkv_context_message(f->ctx), words))
        fail_msg("no \"%s\" in: %s", words, qkv_context_message(f->ctx));
    assert_int_equal(qkv_beam_search_run(s, source, offsets, SENTENCES), QKV_OK); /* as it was */
    qkv_beam_search_destroy(s);
    qkv_model_destroy(m);
}

static void test_refused(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    refused(&f, make_model(&f, qkv_marian_type(), 8, VOCAB + 1, POSITIONS),
            "38 tokens and 40 positions beside one of 37 and 40");
    refused(&f, make_model(&f, qkv_marian_type(), 8, VOCAB, POSITIONS - 1), "39 positions");
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores), cmocka_unit_test(test_given_tokens),
        cmocka_unit_test(test_a_model_beside_itself),
        cmocka_unit_test(test_batches_of_all_sizes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
