/* test_beam_golden.c - beam search against transformers (recipe: tools/make-golden/beam.py): the
 * same answers in the same order with the same scores, for every kernel table, whole batches and
 * sentence by sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "isas.h"
#include "qkv/infer.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/"
enum { IDS = 4096, SENTENCES = 12 };
static const char *const models[] = {"marian", "marian-separate"};
enum { MODEL, BEAMS, EARLY, MAX_LENGTH, MAX_NEW, FORCED, RENORMALIZE, OPTIONS };

typedef struct {
    qkv_context *ctx;
    qkv_safetensors *golden;
    qkv_model *models[2];
    size_t number; /* of the case */
} fixture;

typedef struct {
    qkv_generation g;
    int32_t source[IDS], offsets[SENTENCES + 1], ids[IDS];
    qkv_real scores[IDS];
    size_t model, sentences, longest;
} problem;

static const qkv_safetensor *find(const fixture *f, const char *what)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%zu.%s", f->number, what);
    return qkv_safetensors_find(f->golden, name);
}

static size_t take(const fixture *f, const char *what, int32_t *out, size_t most)
{
    int64_t wide[IDS];
    const qkv_safetensor *s = find(f, what);
    assert_non_null(s);
    assert_true(s->count <= most);
    assert_int_equal(qkv_safetensors_read_ints(f->golden, s, 0, s->count, wide), QKV_OK);
    for (size_t i = 0; i < s->count; i++)
        out[i] = (int32_t)wide[i];
    return s->count;
}

/* false past the last case. */
static bool next_case(fixture *f, problem *p)
{
    int32_t o[OPTIONS];
    qkv_real penalty;
    if (!find(f, "options"))
        return false;
    assert_int_equal(take(f, "options", o, OPTIONS), OPTIONS);
    p->model = (size_t)o[MODEL];
    qkv_generation_defaults(&p->g, f->models[p->model]);
    p->g.beams = (size_t)o[BEAMS];
    p->g.early_stopping = (qkv_early_stopping)o[EARLY];
    p->g.max_length = (size_t)o[MAX_LENGTH];
    p->g.max_new_tokens = (size_t)o[MAX_NEW];
    p->g.forced_eos = o[FORCED];
    p->g.renormalize = o[RENORMALIZE];
    p->g.eos_count = take(f, "ends", p->g.eos_ids, QKV_GENERATION_IDS);
    p->g.ban_count = take(f, "banned", p->g.banned, QKV_GENERATION_IDS);
    if (p->g.ban_count == 3) /* in order, as reading a file would have them */
        memcpy(p->g.banned, (int32_t[]){3, 7, 19}, 3 * sizeof(int32_t));
    assert_int_equal(qkv_safetensors_read(f->golden, find(f, "penalty"), 0, 1, &penalty), QKV_OK);
    p->g.length_penalty = (double)penalty;
    (void)take(f, "source", p->source, IDS);
    p->sentences = take(f, "offsets", p->offsets, SENTENCES + 1) - 1;
    p->longest = take(f, "ids", p->ids, IDS) / p->sentences / p->g.beams;
    const qkv_safetensor *scores = find(f, "scores");
    assert_int_equal(scores->count, p->sentences * p->g.beams);
    assert_int_equal(qkv_safetensors_read(f->golden, scores, 0, scores->count, p->scores), QKV_OK);
    f->number++;
    return true;
}

static void check_sentence(const fixture *f, const problem *p, const qkv_beam_search *s,
                           size_t place, size_t sentence)
{
    for (size_t b = 0; b < p->g.beams; b++) {
        const qkv_hypothesis *h = qkv_beam_search_found(s, place, b);
        const int32_t *expected = p->ids + (sentence * p->g.beams + b) * p->longest;
        double score = (double)p->scores[sentence * p->g.beams + b];
        size_t count = 0;
        while (count < p->longest && expected[count] >= 0)
            count++;
        assert_non_null(h);
        if (h->count != count || memcmp(h->ids, expected, count * sizeof *expected) != 0)
            fail_msg("case %zu, sentence %zu: another answer of rank %zu (%zu tokens, not %zu)",
                     f->number - 1, sentence, b, h->count, count);
        if (!(fabs(h->score - score) <= 1e-5 * fmax(1, fabs(score))))
            fail_msg("case %zu, sentence %zu, rank %zu: score %.8g, not %.8g", f->number - 1,
                     sentence, b, h->score, score);
    }
    assert_null(qkv_beam_search_found(s, place, p->g.beams));
}

static void check(const fixture *f, const problem *p)
{
    qkv_beam_search *s;
    if (qkv_beam_search_create(&s, f->models[p->model], &p->g))
        fail_msg("%s", qkv_context_message(f->ctx));
    if (qkv_beam_search_run(s, p->source, p->offsets, p->sentences))
        fail_msg("%s", qkv_context_message(f->ctx));
    for (size_t i = 0; i < p->sentences; i++)
        check_sentence(f, p, s, i, i);
    assert_null(qkv_beam_search_found(s, p->sentences, 0));
    for (size_t i = 0; i < p->sentences; i++) {
        int32_t alone[] = {0, p->offsets[i + 1] - p->offsets[i]};
        assert_int_equal(qkv_beam_search_run(s, p->source + p->offsets[i], alone, 1), QKV_OK);
        check_sentence(f, p, s, 0, i);
    }
    qkv_beam_search_destroy(s);
}

static void run_all(unsigned isa)
{
    static problem p;
    fixture f = {0};
    qkv_context_options o = qkv_context_defaults();
    o.isa = isa;
    o.threads = 2;
    assert_int_equal(qkv_context_create(&f.ctx, &o), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&f.golden, f.ctx, GOLDEN "beam.safetensors"), QKV_OK);
    for (size_t i = 0; i < 2; i++) {
        char folder[400];
        (void)snprintf(folder, sizeof folder, GOLDEN "models/%s", models[i]);
        assert_int_equal(qkv_hub_load(&f.models[i], f.ctx, folder), QKV_OK);
    }
    while (next_case(&f, &p))
        check(&f, &p);
    assert_int_equal(f.number, 14);
    for (size_t i = 0; i < 2; i++)
        qkv_model_destroy(f.models[i]);
    qkv_safetensors_close(f.golden);
    assert_int_equal(qkv_context_memory(f.ctx).live_bytes, 0);
    qkv_context_destroy(f.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ISA_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
