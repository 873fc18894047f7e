/* test_beam_search.c - what is true of every beam search: a hypothesis scores what the model, told
 * its tokens, says they are worth; one beam is greedy; no row is computed for who has left; the
 * options of a directory come back from it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "files.h"
#include <qkv.h>

enum { VOCAB = 37, POSITIONS = 40, SENTENCES = 6, TOKENS = 30 };
static const int32_t offsets[] = {0, 5, 6, 16, 19, 26, 30};
static int32_t source[TOKENS];

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *t;
    qkv_generation g;
} fixture;

static void open_fixture(fixture *f, const qkv_model_type *type)
{
    qkv_marian_config c;
    qkv_context_options o = qkv_context_defaults();
    o.threads = 1;
    assert_int_equal(qkv_context_create(&f->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.vocab = VOCAB;
    c.width = 24;
    c.encoder_layers = c.decoder_layers = 2;
    c.encoder_heads = 3;
    c.decoder_heads = 2;
    c.positions = POSITIONS;
    c.pad = c.start = VOCAB - 1;
    c.eos = 0;
    c.init_range = 0.5;
    c.tie = false; /* else a token is likely to be repeated for ever */
    assert_int_equal(qkv_model_create(&f->model, f->ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(f->model, 11), QKV_OK);
    for (size_t i = 0; i < TOKENS; i++)
        source[i] = (int32_t)(i * i * 7 % (VOCAB - 1));
    qkv_generation_defaults(&f->g, f->model);
    f->g.max_length = 14;
    f->g.eos_count = 6; /* sentences end sooner or later */
    memcpy(f->g.eos_ids, (int32_t[]){0, 3, 17, 21, 8, 30}, 6 * sizeof(int32_t));
}

static void close_fixture(fixture *f)
{
    qkv_model_destroy(f->model);
    qkv_tape_destroy(f->t);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
}

static qkv_beam_search *run(fixture *f)
{
    qkv_beam_search *s;
    if (qkv_beam_search_create(&s, f->model, &f->g) ||
        qkv_beam_search_run(s, source, offsets, SENTENCES))
        fail_msg("%s", qkv_context_message(f->ctx));
    return s;
}

/* Logits (n, VOCAB) of every token of an answer (n), which the decoder is told. */
static const qkv_real *told(fixture *f, size_t sentence, const int32_t *ids, size_t n)
{
    int32_t input[POSITIONS] = {VOCAB - 1};
    memcpy(input + 1, ids, (n - 1) * sizeof *ids);
    const size_t shape[] = {1, n}, from[] = {1, (size_t)(offsets[sentence + 1] -
                                                         offsets[sentence])};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, false);
    qkv_marian_side s = {.ids = qkv_tensor_ids(f->t, source + offsets[sentence], 2, from)};
    qkv_marian_side t = {.ids = qkv_tensor_ids(f->t, input, 2, shape)};
    qkv_tensor *memory = qkv_marian_encode(f->model, f->t, &s);
    qkv_tensor *h = qkv_marian_decode(f->model, f->t, &t, memory, &s, NULL);
    const qkv_real *x = qkv_data(f->t, qkv_marian_logits(f->model, f->t, h));
    assert_non_null(x);
    return x;
}

/* log p of one token; among those that may be chosen, or among all. */
static double log_p(const fixture *f, const qkv_real *x, int32_t id)
{
    double sum = 0;
    for (int32_t v = 0; v < VOCAB; v++)
        if (!f->g.renormalize || v != VOCAB - 1)
            sum += exp((double)(x[v] - x[id]));
    return -log(sum);
}

static double divisor(const fixture *f, size_t n)
{
    return pow(f->g.gnmt ? (5.0 + (double)n) / 6.0 : (double)n, f->g.length_penalty);
}

/* Counts the answers that ended, and those that were cut off. */
static void check_scores(fixture *f, size_t counts[2])
{
    qkv_beam_search *s = run(f);
    for (size_t i = 0; i < SENTENCES; i++) {
        double before = INFINITY;
        for (size_t b = 0; b < f->g.beams; b++) {
            const qkv_hypothesis *h = qkv_beam_search_found(s, i, b);
            assert_non_null(h);
            const qkv_real *x = told(f, i, h->ids, h->count);
            bool forced = h->count == f->g.max_length - 1 && f->g.forced_eos >= 0;
            double sum = 0;
            for (size_t k = 0; k + forced < h->count; k++)
                sum += log_p(f, x + k * VOCAB, h->ids[k]);
            assert_true(fabs(h->log_p - sum) <= 1e-4);
            assert_true(fabs(h->score - sum / divisor(f, h->count)) <= 1e-4);
            assert_true(h->score <= before);
            for (size_t k = 0; k < h->count; k++)
                assert_int_not_equal(h->ids[k], VOCAB - 1);
            before = h->score;
            counts[h->count == f->g.max_length - 1]++;
        }
    }
    qkv_beam_search_destroy(s);
}

static void test_scores(void **state)
{
    (void)state;
    const qkv_model_type *const types[] = {qkv_marian_type(), qkv_translator_type()};
    size_t counts[2] = {0, 0};
    for (int i = 0; i < 8; i++) {
        fixture f;
        open_fixture(&f, types[i & 1]);
        f.g.renormalize = i & 2;
        f.g.gnmt = i & 4;
        f.g.length_penalty = i & 4 ? 0.6 : 1.2;
        f.g.beams = i & 2 ? 5 : 3;
        if (i & 1)
            f.g.forced_eos = -1;
        check_scores(&f, counts);
        close_fixture(&f);
    }
    assert_true(counts[0] > 20 && counts[1] > 20); /* else there was little to see */
}

static void test_greedy(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, qkv_marian_type());
    f.g.beams = 1;
    f.g.forced_eos = -1;
    qkv_beam_search *s = run(&f);
    size_t rows = 0, steps = 0;
    for (size_t i = 0; i < SENTENCES; i++) {
        const qkv_hypothesis *h = qkv_beam_search_found(s, i, 0);
        const qkv_real *x = told(&f, i, h->ids, h->count);
        for (size_t k = 0; k < h->count; k++)
            for (size_t v = 0; v < VOCAB - 1; v++)
                assert_true(x[k * VOCAB + v] <= x[k * VOCAB + (size_t)h->ids[k]]);
        rows += h->count;
        steps = h->count > steps ? h->count : steps;
    }
    qkv_beam_stats stats = qkv_beam_search_stats(s); /* who is finished takes no more rows */
    assert_int_equal(stats.rows, rows);
    assert_int_equal(stats.steps, steps);
    assert_int_equal(stats.source_rows, TOKENS);
    assert_true(rows < SENTENCES * steps);
    qkv_beam_search_destroy(s);
    close_fixture(&f);
}

/* Longer than caches have room for at first. */
static void test_long(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, qkv_marian_type());
    f.g.eos_count = 0;
    f.g.max_length = 0;
    f.g.beams = 2;
    qkv_beam_search *s = run(&f);
    const qkv_hypothesis *h = qkv_beam_search_found(s, 2, 1);
    assert_int_equal(h->count, POSITIONS);
    const qkv_real *x = told(&f, 2, h->ids, h->count);
    double sum = 0;
    for (size_t k = 0; k + 1 < h->count; k++)
        sum += log_p(&f, x + k * VOCAB, h->ids[k]);
    assert_int_equal(h->ids[POSITIONS - 1], f.g.forced_eos);
    assert_true(fabs(h->log_p - sum) <= 1e-3);
    qkv_beam_search_destroy(s);
    close_fixture(&f);
}

static bool ends(const fixture *f, int32_t id)
{
    for (size_t i = 0; i < f->g.eos_count; i++)
        if (f->g.eos_ids[i] == id)
            return true;
    return false;
}

/* A sentence's limit goes with its length. Where it is reached, what has not ended counts only if
 * nothing has: then all beams. Whoever has ended before is untouched. cases: unended answers,
 * ended ones of sentences whose search the limit cut. */
static void check_length_factor(fixture *f, double factor, size_t cases[2])
{
    qkv_beam_search *free_ = run(f);
    f->g.length_factor = factor;
    qkv_beam_search *s = run(f);
    size_t shorter = 0;
    for (size_t i = 0; i < SENTENCES; i++) {
        const size_t n = (size_t)(offsets[i + 1] - offsets[i]);
        const size_t most = (size_t)(factor * (double)n) + QKV_LENGTH_SPARE;
        size_t unended = 0, longest = 0, count = 0;
        for (size_t b = 0; b < f->g.beams; b++) {
            const qkv_hypothesis *h = qkv_beam_search_found(s, i, b);
            const qkv_hypothesis *x = qkv_beam_search_found(free_, i, b);
            longest = x && x->count > longest ? x->count : longest;
            if (!h)
                continue;
            count++;
            assert_true(h->count <= most);
            unended += !ends(f, h->ids[h->count - 1]);
            if (!ends(f, h->ids[h->count - 1]))
                assert_int_equal(h->count, most);
        }
        assert_true(count > 0 && (unended == 0 || unended == count));
        shorter += longest > most;
        if (unended)
            assert_int_equal(count, f->g.beams);
        for (size_t b = 0; b < f->g.beams && longest < most; b++) {
            const qkv_hypothesis *h = qkv_beam_search_found(s, i, b);
            const qkv_hypothesis *x = qkv_beam_search_found(free_, i, b);
            assert_int_equal(h->count, x->count);
            assert_memory_equal(h->ids, x->ids, h->count * sizeof *h->ids);
        }
        cases[0] += unended > 0 && f->g.eos_count;
        cases[1] += !unended && longest > most;
    }
    assert_true(qkv_beam_search_stats(s).rows + shorter <= qkv_beam_search_stats(free_).rows);
    qkv_beam_search_destroy(s);
    qkv_beam_search_destroy(free_);
    f->g.length_factor = 0;
}

static void test_length_factor(void **state)
{
    (void)state;
    static const qkv_early_stopping stops[] = {QKV_STOP_UNLIKELY, QKV_STOP_FULL, QKV_STOP_NEVER};
    size_t cases[2] = {0, 0};
    for (size_t i = 0; i < 21; i++) {
        fixture f;
        open_fixture(&f, qkv_marian_type());
        f.g.max_length = POSITIONS;
        f.g.forced_eos = i % 2 ? -1 : 0;
        f.g.eos_count = i % 7;
        f.g.early_stopping = stops[i / 7];
        f.g.length_penalty = 3; /* long hypotheses win where nothing stops them */
        check_length_factor(&f, 0.1, cases);
        check_length_factor(&f, 1.5, cases);
        close_fixture(&f);
    }
    assert_true(cases[0] > 3 && cases[1] > 3);
}

static void refused(fixture *f, const char *words)
{
    qkv_beam_search *s;
    assert_int_equal(qkv_beam_search_create(&s, f->model, &f->g), QKV_E_ARGUMENT);
    assert_null(s);
    if (!strstr(qkv_context_message(f->ctx), words))
        fail_msg("no \"%s\" in: %s", words, qkv_context_message(f->ctx));
    qkv_generation_defaults(&f->g, f->model);
}

static void test_refused(void **state)
{
    (void)state;
    fixture f;
    qkv_beam_search *s;
    open_fixture(&f, qkv_marian_type());
    f.g.beams = VOCAB / 2 + 1;
    refused(&f, "half of the 37 tokens");
    f.g.beams = 0;
    refused(&f, "0 beams");
    f.g.max_length = POSITIONS + 2;
    refused(&f, "41 tokens");
    f.g.start = VOCAB;
    refused(&f, "token 37");
    f.g.length_factor = INFINITY;
    refused(&f, "factor is not a number");
    s = run(&f);
    static const int32_t empty[] = {0, 3, 3};
    assert_int_equal(qkv_beam_search_run(s, source, empty, 2), QKV_E_ARGUMENT);
    assert_null(qkv_beam_search_found(s, 0, 0));
    qkv_param *p = qkv_params_at(qkv_model_params(f.model), 0);
    qkv_param_data(p)[3] = (qkv_real)NAN;
    qkv_param_touch(p);
    assert_int_equal(qkv_beam_search_run(s, source, offsets, SENTENCES), QKV_E_NUMERIC);
    qkv_beam_search_destroy(s);
    close_fixture(&f);
}

/* ---- generation_config.json ------------------------------------------------------------------ */

static void write_config(const char *folder, const char *text)
{
    FILE *file = fopen(in(folder, "generation_config.json"), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(fixture *f, const char *folder, const char *text, const char *words)
{
    write_config(folder, text);
    assert_int_equal(qkv_hub_load_generation(&f->g, f->model, folder), QKV_E_FORMAT);
    if (!strstr(qkv_context_message(f->ctx), words))
        fail_msg("no \"%s\" in: %s", words, qkv_context_message(f->ctx));
}

static void test_files(void **state)
{
    (void)state;
    fixture f;
    char folder[PATH_BYTES];
    qkv_generation back;
    memset(&back, 0, sizeof back);
    open_fixture(&f, qkv_marian_type());
    make_folder(folder);
    assert_int_equal(qkv_hub_save(f.model, folder, NULL), QKV_OK);
    qkv_generation_defaults(&f.g, f.model);
    assert_int_equal(qkv_hub_load_generation(&back, f.model, folder), QKV_OK);
    assert_int_equal(back.beams, 4);
    assert_int_equal(back.max_length, POSITIONS);
    assert_int_equal(back.start, VOCAB - 1);
    assert_int_equal(back.forced_eos, 0);
    assert_int_equal(back.ban_count, 1);
    assert_int_equal(back.banned[0], VOCAB - 1);
    assert_int_equal(back.eos_count, 1);
    assert_int_equal(back.eos_ids[0], 0);
    write_config(folder, "{\"num_beams\": 6, \"early_stopping\": \"never\", \"max_length\": 20, "
                         "\"bad_words_ids\": [[9], [36], [9], [2], [4]], \"eos_token_id\": [4, 0], "
                         "\"renormalize_logits\": true, \"length_penalty\": 0.5, "
                         "\"max_new_tokens\": 7, \"no_repeat_ngram_size\": 0}");
    assert_int_equal(qkv_hub_load_generation(&back, f.model, folder), QKV_OK);
    assert_int_equal(back.beams, 6);
    assert_int_equal(back.early_stopping, QKV_STOP_NEVER);
    assert_int_equal(back.max_new_tokens, 7);
    assert_true(back.renormalize && back.length_penalty == 0.5);
    assert_int_equal(back.forced_eos, -1);
    assert_int_equal(back.eos_count, 2);
    assert_int_equal(back.ban_count, 3); /* sorted, once each, no end among them */
    assert_memory_equal(back.banned, ((int32_t[]){2, 9, 36}), 3 * sizeof(int32_t));
    expect(&f, folder, "{\"num_beams\": 0}", "num_beams");
    expect(&f, folder, "{\"early_stopping\": 3}", "early_stopping");
    expect(&f, folder, "{\"bad_words_ids\": [[1, 2]]}", "one token");
    expect(&f, folder, "{\"repetition_penalty\": 1.5}", "not supported");
    expect(&f, folder, "{\"forced_bos_token_id\": 7}", "not supported");
    expect(&f, folder, "[1]", "object");
    assert_int_equal(unlink(in(folder, "generation_config.json")), 0);
    assert_int_equal(qkv_hub_load_generation(&back, f.model, folder), QKV_OK);
    assert_int_equal(back.beams, 4); /* config.json has nothing to say */
    assert_int_equal(back.ban_count, 0);
    remove_folder(folder);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores), cmocka_unit_test(test_greedy), cmocka_unit_test(test_long),
        cmocka_unit_test(test_length_factor),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
