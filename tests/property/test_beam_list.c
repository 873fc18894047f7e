/* test_beam_list.c - beam search among few tokens: a list of all tokens changes nothing; answers
 * have tokens of the list alone, and score what the model gives them when its probabilities are
 * normalised over the list. In f32 and in fewer bits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <qkv.h>

enum { VOCAB = 203, WIDTH = 32, POSITIONS = 24, SENTENCES = 5, TOKENS = 24, EOS = 150 };
static const int32_t offsets[] = {0, 5, 6, 13, 16, TOKENS};
static int32_t source[TOKENS];

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *t;
    qkv_generation g;
    qkv_shortlist *list;
} fixture;

/* Each source token has up to 8 translations, the first of which is the most probable. */
static void make_list(fixture *f)
{
    static qkv_shortlist_entry entries[VOCAB * 8];
    size_t count = 0;
    for (int32_t s = 0; s < VOCAB; s++)
        for (int32_t i = 0; i < s % 9; i++)
            entries[count++] = (qkv_shortlist_entry){s, (s * 31 + i * 57) % VOCAB,
                                                     0.5f / (float)(i + 1)};
    assert_int_equal(qkv_shortlist_create(&f->list, f->ctx, VOCAB, entries, count), QKV_OK);
}

static void open_fixture(fixture *f, qkv_weights weights, bool share)
{
    qkv_marian_config c;
    qkv_context_options o = qkv_context_defaults();
    o.threads = 1;
    assert_int_equal(qkv_context_create(&f->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    qkv_option_defaults(qkv_model_type_config(qkv_marian_type()), &c);
    c.vocab = VOCAB;
    c.width = WIDTH;
    c.encoder_layers = c.decoder_layers = 1;
    c.encoder_heads = c.decoder_heads = 2;
    c.positions = POSITIONS;
    c.pad = c.start = VOCAB - 1;
    c.eos = EOS;
    c.init_range = 0.2;
    c.share = share;
    c.tie = false;
    assert_int_equal(qkv_model_create(&f->model, f->ctx, qkv_marian_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_init(f->model, 5), QKV_OK);
    qkv_param *bias = qkv_params_find(qkv_model_params(f->model), "head.bias");
    for (size_t i = 0; i < VOCAB; i++)
        qkv_param_data(bias)[i] = (qkv_real)(i * 7 % 13) / 8;
    qkv_param_data(bias)[EOS] = 4;
    qkv_param_data(bias)[VOCAB - 1] = 6; /* banned */
    qkv_param_touch(bias);
    assert_int_equal(qkv_params_store(qkv_model_params(f->model), weights), QKV_OK);
    for (size_t i = 0; i < TOKENS; i++)
        source[i] = (int32_t)(i * i * 7 % (VOCAB - 1));
    qkv_generation_defaults(&f->g, f->model);
    f->g.max_length = 14;
    make_list(f);
}

static void close_fixture(fixture *f)
{
    qkv_shortlist_destroy(f->list);
    qkv_model_destroy(f->model);
    qkv_tape_destroy(f->t);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
}

/* A search among the tokens of the list; first 0, best 0: among all. */
static qkv_beam_search *run(fixture *f, size_t first, size_t best)
{
    qkv_beam_search *s;
    const qkv_shortlist_options o = {first, best};
    if (qkv_beam_search_create(&s, f->model, &f->g) ||
        qkv_beam_search_shortlist(s, first + best ? f->list : NULL, &o) ||
        qkv_beam_search_run(s, source, offsets, SENTENCES))
        fail_msg("%s", qkv_context_message(f->ctx));
    return s;
}

static const qkv_weights weights[] = {QKV_WEIGHTS_F32, QKV_WEIGHTS_BF16, QKV_WEIGHTS_INT8,
                                      QKV_WEIGHTS_INT4};
enum { WEIGHTS = sizeof weights / sizeof *weights };

static void test_all_tokens(void **state)
{
    (void)state;
    for (size_t w = 0; w < WEIGHTS; w++)
        for (size_t beams = 1; beams <= 4; beams += 3) {
            fixture f;
            open_fixture(&f, weights[w], false);
            f.g.beams = beams;
            qkv_beam_search *all = run(&f, 0, 0), *listed = run(&f, VOCAB, 0);
            size_t found = 0;
            for (size_t i = 0; i < SENTENCES; i++)
                for (size_t b = 0; b < beams; b++, found++) {
                    const qkv_hypothesis *x = qkv_beam_search_found(all, i, b);
                    const qkv_hypothesis *y = qkv_beam_search_found(listed, i, b);
                    assert_true(x && y && x->count == y->count);
                    assert_memory_equal(x->ids, y->ids, x->count * sizeof *x->ids);
                    assert_true(fabs(x->score - y->score) <= 1e-6 * fabs(x->score));
                }
            assert_int_equal(found, SENTENCES * beams);
            qkv_beam_stats stats = qkv_beam_search_stats(listed);
            assert_int_equal(stats.choices, stats.rows * VOCAB);
            qkv_beam_search_destroy(all);
            qkv_beam_search_destroy(listed);
            close_fixture(&f);
        }
}

/* What the list of all sentences must be: marks of tokens. */
static size_t expect_list(const fixture *f, size_t first, size_t best, bool share, bool in[VOCAB])
{
    const qkv_shortlist_options o = {first, best};
    qkv_ids tokens = {0};
    size_t count = 0;
    memset(in, 0, VOCAB);
    assert_int_equal(qkv_shortlist_tokens(f->list, &o, source, TOKENS, &tokens), QKV_OK);
    for (size_t i = 0; i < tokens.count; i++)
        in[tokens.data[i]] = true;
    in[EOS] = true;
    for (size_t i = 0; i < TOKENS && share; i++)
        in[source[i]] = true;
    for (size_t i = 0; i < VOCAB; i++)
        count += in[i];
    qkv_ids_free(&tokens, f->ctx);
    return count;
}

/* Log p of an answer's tokens when the decoder is told them, normalised over the list; a forced end
 * counts nothing. */
static double told(fixture *f, size_t sentence, const qkv_hypothesis *h, const bool in[VOCAB])
{
    int32_t input[POSITIONS] = {VOCAB - 1};
    memcpy(input + 1, h->ids, (h->count - 1) * sizeof *h->ids);
    const size_t shape[] = {1, h->count};
    const size_t from[] = {1, (size_t)(offsets[sentence + 1] - offsets[sentence])};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, false);
    qkv_marian_side s = {.ids = qkv_tensor_ids(f->t, source + offsets[sentence], 2, from)};
    qkv_marian_side t = {.ids = qkv_tensor_ids(f->t, input, 2, shape)};
    qkv_tensor *memory = qkv_marian_encode(f->model, f->t, &s);
    qkv_tensor *y = qkv_marian_decode(f->model, f->t, &t, memory, &s, NULL);
    const qkv_real *x = qkv_data(f->t, qkv_marian_logits(f->model, f->t, y));
    bool forced = h->count == f->g.max_length - 1;
    double sum = 0;
    assert_non_null(x);
    for (size_t k = 0; k + forced < h->count; k++, x += VOCAB) {
        double total = 0;
        for (size_t v = 0; v < VOCAB; v++)
            total += in[v] ? exp((double)(x[v] - x[h->ids[k]])) : 0;
        sum -= log(total);
    }
    return sum;
}

/* Tokens that are nowhere else may come from the source where its embedding is shared. */
static void check_few_tokens(qkv_weights kept, bool share, size_t first, size_t best)
{
    fixture f;
    bool in[VOCAB];
    open_fixture(&f, kept, share);
    qkv_beam_search *s = run(&f, first, best);
    size_t count = expect_list(&f, first, best, share, in), ended = 0;
    assert_true(count < 2 * VOCAB / 3);
    qkv_beam_stats stats = qkv_beam_search_stats(s);
    assert_int_equal(stats.choices, stats.rows * count);
    for (size_t i = 0; i < SENTENCES; i++)
        for (size_t b = 0; b < f.g.beams; b++) {
            const qkv_hypothesis *h = qkv_beam_search_found(s, i, b);
            assert_non_null(h);
            for (size_t k = 0; k < h->count; k++)
                assert_true(in[h->ids[k]] && h->ids[k] != VOCAB - 1);
            double expected = told(&f, i, h, in);
            /* bf16: x may be rounded to it too, or not, by the number of rows */
            assert_true(fabs(h->log_p - expected) <= (kept == QKV_WEIGHTS_BF16 ? 0.1 : 1e-4));
            ended += h->ids[h->count - 1] == EOS;
        }
    assert_int_equal(ended, SENTENCES * f.g.beams);
    qkv_beam_search_destroy(s);
    close_fixture(&f);
}

static void test_few_tokens(void **state)
{
    (void)state;
    for (size_t w = 0; w < WEIGHTS; w++) {
        check_few_tokens(weights[w], w % 2, 20, 2);
        check_few_tokens(weights[w], !(w % 2), 10, 3);
    }
}

/* However short the list is, a step has enough to examine, the banned token beside it. */
static void test_nothing_listed(void **state)
{
    (void)state;
    fixture f;
    bool in[VOCAB];
    open_fixture(&f, QKV_WEIGHTS_F32, false);
    f.g.eos_count = 3;
    f.g.eos_ids[1] = 7;
    f.g.eos_ids[2] = 77;
    qkv_beam_search *s = run(&f, 1, 0);
    (void)expect_list(&f, 4 * 4 + f.g.ban_count, 0, false, in);
    in[7] = in[77] = true;
    size_t count = 0;
    for (size_t i = 0; i < VOCAB; i++)
        count += in[i];
    qkv_beam_stats stats = qkv_beam_search_stats(s);
    assert_int_equal(stats.choices, stats.rows * count);
    for (size_t i = 0; i < SENTENCES; i++)
        assert_non_null(qkv_beam_search_found(s, i, 3));
    qkv_beam_search_destroy(s);
    close_fixture(&f);
}

/* A search goes on without a list, and refuses one of another vocabulary. */
static void test_changing_lists(void **state)
{
    (void)state;
    fixture f;
    qkv_shortlist *other;
    const qkv_shortlist_options o = {10, 2};
    open_fixture(&f, QKV_WEIGHTS_F32, false);
    qkv_beam_search *all = run(&f, 0, 0), *s = run(&f, 10, 2);
    assert_int_equal(qkv_shortlist_create(&other, f.ctx, VOCAB + 1, NULL, 0), QKV_OK);
    assert_int_equal(qkv_beam_search_shortlist(s, other, &o), QKV_E_ARGUMENT);
    assert_non_null(strstr(qkv_context_message(f.ctx), "204 tokens: the model has 203"));
    assert_int_equal(qkv_beam_search_shortlist(s, NULL, NULL), QKV_OK);
    assert_int_equal(qkv_beam_search_run(s, source, offsets, SENTENCES), QKV_OK);
    const qkv_hypothesis *x = qkv_beam_search_found(all, 2, 0), *y = qkv_beam_search_found(s, 2, 0);
    assert_int_equal(x->count, y->count);
    assert_memory_equal(x->ids, y->ids, x->count * sizeof *x->ids);
    qkv_marian_head *head;
    static const int32_t bad[] = {3, VOCAB};
    assert_int_equal(qkv_marian_head_create(&head, f.model, bad, 2), QKV_E_ARGUMENT);
    assert_int_equal(qkv_marian_head_create(&head, f.model, bad, 0), QKV_E_ARGUMENT);
    assert_null(head);
    qkv_shortlist_destroy(other);
    qkv_beam_search_destroy(all);
    qkv_beam_search_destroy(s);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_tokens), cmocka_unit_test(test_few_tokens),
        cmocka_unit_test(test_nothing_listed), cmocka_unit_test(test_changing_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
