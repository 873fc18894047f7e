/* test_score_golden.c - BLEU and chrF against sacrebleu (recipe: tools/make-golden/score.py): of
 * every pair of lines by itself, of ten at a time, of all. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "each.h"
#include "files.h"
#include "qkv/safetensors.h"
#include "qkv/score.h"

#define FOLDER QKV_SOURCE_DIR "/tests/golden/score/"
enum { MOST = 4000, CHUNK = 10 };

static const struct {
    const char *name;
    bool chrf, tokenized, lowercase;
} metrics[] = {{"13a", false, false, false}, {"13a.lc", false, false, true},
               {"tok", false, true, false},  {"tok.lc", false, true, true},
               {"chrf", true, false, false}, {"chrf.lc", true, false, true}};

typedef struct {
    qkv_context *ctx;
    qkv_safetensors *golden;
    char *text[2];
    size_t size[2], lines, start[2][MOST + 1]; /* hypotheses, references */
} fixture;

static void cut_lines(fixture *f, int side)
{
    f->lines = 0;
    f->start[side][0] = 0;
    for (size_t i = 0; i < f->size[side]; i++)
        if (f->text[side][i] == '\n') {
            assert_true(f->lines < MOST);
            f->start[side][++f->lines] = i + 1;
        }
}

static int setup(void **state)
{
    static fixture f;
    assert_int_equal(qkv_context_create(&f.ctx, NULL), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&f.golden, f.ctx, FOLDER "scores.safetensors"), QKV_OK);
    f.text[0] = take_file(FOLDER "hyp.txt", &f.size[0]);
    f.text[1] = take_file(FOLDER "ref.txt", &f.size[1]);
    cut_lines(&f, 0);
    size_t lines = f.lines;
    cut_lines(&f, 1);
    assert_int_equal(lines, f.lines);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    free(f->text[0]);
    free(f->text[1]);
    qkv_safetensors_close(f->golden);
    size_t live = qkv_context_memory(f->ctx).live_bytes;
    qkv_context_destroy(f->ctx);
    return live != 0;
}

/* MEASURE.WHAT: as many reals as that. */
static void read_golden(const fixture *f, size_t m, const char *what, size_t count, double *out)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s.%s", metrics[m].name, what);
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, name);
    assert_non_null(s);
    assert_int_equal(s->store, QKV_STORE_F64);
    assert_int_equal(s->count, count);
    memcpy(out, s->data, count * sizeof *out);
}

static bool equal(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(1, fabs(b)); }

/* The score of lines from .. from+count-1; *details may be NULL. */
static double score(const fixture *f, size_t m, size_t from, size_t count, qkv_bleu_score *details)
{
    qkv_text_span part[2];
    for (int side = 0; side < 2; side++)
        part[side] = (qkv_text_span){
            .data = f->text[side] + f->start[side][from],
            .len = f->start[side][from + count] - f->start[side][from]};
    if (metrics[m].chrf) {
        qkv_chrf *chrf;
        qkv_chrf_score s;
        assert_int_equal(qkv_chrf_create(&chrf, f->ctx, metrics[m].lowercase), QKV_OK);
        assert_int_equal(qkv_chrf_add_texts(chrf, &part[0], &part[1]), QKV_OK);
        qkv_chrf_result(chrf, &s);
        qkv_chrf_destroy(chrf);
        return s.chrf;
    }
    const qkv_bleu_options options = {metrics[m].tokenized, metrics[m].lowercase};
    qkv_bleu *bleu;
    qkv_bleu_score s;
    assert_int_equal(qkv_bleu_create(&bleu, f->ctx, &options), QKV_OK);
    assert_int_equal(qkv_bleu_add_texts(bleu, &part[0], &part[1]), QKV_OK);
    qkv_bleu_result(bleu, &s);
    qkv_bleu_destroy(bleu);
    if (details)
        *details = s;
    return s.bleu;
}

static void check_parts(const fixture *f, const char *what, size_t lines)
{
    static double expected[MOST];
    size_t parts = f->lines / lines;
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
        read_golden(f, m, what, parts, expected);
        for (size_t i = 0; i < parts; i++) {
            double found = score(f, m, i * lines, lines, NULL);
            if (!equal(found, expected[i]))
                fail_msg("%s.%s %zu: %.17g, not %.17g: %.*s", metrics[m].name, what, i, found,
                         expected[i],
                         (int)(f->start[0][(i + 1) * lines] - f->start[0][i * lines]),
                         f->text[0] + f->start[0][i * lines]);
        }
    }
}

static void test_pairs(void **state)
{
    const fixture *f = *state;
    assert_true(f->lines > 2000);
    check_parts(f, "pair", 1);
}

static void test_chunks(void **state) { check_parts(*state, "chunk", CHUNK); }

static void test_all(void **state)
{
    const fixture *f = *state;
    double expected[16];
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
        qkv_bleu_score s;
        read_golden(f, m, "all", metrics[m].chrf ? 1 : 16, expected);
        assert_true(equal(score(f, m, 0, f->lines, &s), expected[0]));
        if (metrics[m].chrf)
            continue;
        for (size_t n = 0; n < QKV_BLEU_ORDERS; n++) {
            assert_true(equal(s.precisions[n], expected[1 + n]));
            assert_int_equal(s.correct[n], (size_t)expected[8 + n]);
            assert_int_equal(s.total[n], (size_t)expected[12 + n]);
        }
        assert_true(equal(s.brevity, expected[5]));
        assert_int_equal(s.hyp_words, (size_t)expected[6]);
        assert_int_equal(s.ref_words, (size_t)expected[7]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_chunks),
                                       cmocka_unit_test(test_all)};
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
