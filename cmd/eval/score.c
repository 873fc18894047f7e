/* score.c - `qkv score`: translations against references, by BLEU or chrF. */
#include <stdio.h>
#include <string.h>

#include "core/cli.h"

#define SIGNATURE_BYTES 128
#define STDIN "/dev/stdin"

typedef struct {
    bool tokenized, lowercase;
    const char *file;
} settings;

static const qkv_option rows[] = {
    {.flag = "tokenized", .type = QKV_OPT_BOOL, .offset = offsetof(settings, tokenized),
     .help = "bleu: words are what blanks separate, and nothing is smoothed"},
    {.flag = "lowercase", .type = QKV_OPT_BOOL, .offset = offsetof(settings, lowercase),
     .help = "compare in lower case"},
    {.flag = "file", .type = QKV_OPT_STRING, .offset = offsetof(settings, file), .value = "HYP",
     .initial = STDIN, .help = "translations, a line for every line of REF"},
};
static const qkv_option_table table = {"Scoring", rows, sizeof rows / sizeof *rows, 0};

/* ---- BLEU --------------------------------------------------------------------------------- */

static int answer_bleu(cli *c, const settings *s, const qkv_bleu_score *b)
{
    const double *p = b->precisions;
    char signature[SIGNATURE_BYTES];
    (void)snprintf(signature, sizeof signature,
                   "nrefs:1|case:%s|eff:no|tok:%s|smooth:%s|version:qkv-%s",
                   s->lowercase ? "lc" : "mixed", s->tokenized ? "none" : "13a",
                   s->tokenized ? "none" : "exp", qkv_version(NULL));
    if (c->common.json) {
        qkv_json_writer w = cli_object(c);
        qkv_json_put_real(&w, "bleu", b->bleu);
        qkv_json_put_reals(&w, "precisions", b->precisions, QKV_BLEU_ORDERS);
        qkv_json_put_real(&w, "bp", b->brevity);
        qkv_json_put_real(&w, "ratio", b->ratio);
        qkv_json_put_int(&w, "hyp_len", (int64_t)b->hyp_words);
        qkv_json_put_int(&w, "ref_len", (int64_t)b->ref_words);
        qkv_json_put_sizes(&w, "correct", b->correct, QKV_BLEU_ORDERS);
        qkv_json_put_sizes(&w, "total", b->total, QKV_BLEU_ORDERS);
        qkv_json_put_string(&w, "signature", signature);
        return cli_answer(c, &w);
    }
    if (s->tokenized) /* multi-bleu's line */
        printf("BLEU = %.2f, %.1f/%.1f/%.1f/%.1f (BP=%.3f, ratio=%.3f, hyp_len=%zu, "
               "ref_len=%zu)\n", b->bleu, p[0], p[1], p[2], p[3], b->brevity, b->ratio,
               b->hyp_words, b->ref_words);
    else
        printf("BLEU|%s = %.2f %.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %zu "
               "ref_len = %zu)\n", signature, b->bleu, p[0], p[1], p[2], p[3], b->brevity,
               b->ratio, b->hyp_words, b->ref_words);
    return CLI_DONE;
}

/* What sacrebleu warns of: text that was not put together again before it is cut as raw text. */
static void note_tokenized(const cli *c, const qkv_text_span *hyp)
{
    size_t lines = 0;
    for (size_t i = 2; i < hyp->len; i++)
        lines += memcmp(hyp->data + i - 2, " .\n", 3) == 0;
    if (lines >= 100)
        cli_note(c, "%zu lines end in \" .\": text that is still cut into tokens wants "
                 "--tokenized", lines);
}

static int score_bleu(cli *c, const settings *s, const qkv_text_span *hyp,
                      const qkv_text_span *ref)
{
    const qkv_bleu_options options = {.tokenized = s->tokenized, .lowercase = s->lowercase};
    qkv_bleu *bleu;
    qkv_bleu_score score;
    qkv_status status = qkv_bleu_create(&bleu, c->ctx, &options);
    if (!status)
        status = qkv_bleu_add_texts(bleu, hyp, ref);
    if (!status)
        qkv_bleu_result(bleu, &score);
    qkv_bleu_destroy(bleu);
    if (!status && !s->tokenized)
        note_tokenized(c, hyp);
    return status ? cli_error(c) : answer_bleu(c, s, &score);
}

/* ---- chrF --------------------------------------------------------------------------------- */

static int answer_chrf(cli *c, const settings *s, const qkv_chrf_score *f)
{
    char signature[SIGNATURE_BYTES];
    (void)snprintf(signature, sizeof signature,
                   "nrefs:1|case:%s|eff:yes|nc:%d|nw:0|space:no|version:qkv-%s",
                   s->lowercase ? "lc" : "mixed", QKV_CHRF_ORDERS, qkv_version(NULL));
    if (c->common.json) {
        qkv_json_writer w = cli_object(c);
        qkv_json_put_real(&w, "chrf", f->chrf);
        qkv_json_put_real(&w, "precision", f->precision);
        qkv_json_put_real(&w, "recall", f->recall);
        qkv_json_put_sizes(&w, "matches", f->matches, QKV_CHRF_ORDERS);
        qkv_json_put_sizes(&w, "hyp", f->hyp, QKV_CHRF_ORDERS);
        qkv_json_put_sizes(&w, "ref", f->ref, QKV_CHRF_ORDERS);
        qkv_json_put_string(&w, "signature", signature);
        return cli_answer(c, &w);
    }
    printf("chrF2|%s = %.2f\n", signature, f->chrf);
    return CLI_DONE;
}

static int score_chrf(cli *c, const settings *s, const qkv_text_span *hyp,
                      const qkv_text_span *ref)
{
    qkv_chrf *chrf;
    qkv_chrf_score score;
    qkv_status status = qkv_chrf_create(&chrf, c->ctx, s->lowercase);
    if (!status)
        status = qkv_chrf_add_texts(chrf, hyp, ref);
    if (!status)
        qkv_chrf_result(chrf, &score);
    qkv_chrf_destroy(chrf);
    return status ? cli_error(c) : answer_chrf(c, s, &score);
}

/* ---- the command -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*score)(cli *c, const settings *s, const qkv_text_span *hyp, const qkv_text_span *ref);
} measures[] = {{"bleu", score_bleu}, {"chrf", score_chrf}};

static int score_run(cli *c, int argc, char **argv)
{
    settings s;
    size_t m = 0;
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 2, 2);
    if (refused)
        return refused;
    while (m < sizeof measures / sizeof *measures &&
           strcmp(measures[m].name, c->args.items[0]) != 0)
        m++;
    if (m == sizeof measures / sizeof *measures)
        return cli_usage(c, "expected bleu or chrf, found \"%s\"", c->args.items[0]);
    char *hyp = NULL, *ref = NULL;
    qkv_text_span h = {.name = strcmp(s.file, STDIN) == 0 ? "the standard input" : s.file};
    qkv_text_span r = {.name = c->args.items[1]};
    qkv_status status = qkv_file_read(c->ctx, r.name, 0, &ref, &r.len);
    if (!status)
        status = qkv_file_read(c->ctx, s.file, 0, &hyp, &h.len);
    h.data = hyp;
    r.data = ref;
    int code = status ? cli_error(c) : measures[m].score(c, &s, &h, &r);
    qkv_free(c->ctx, hyp);
    qkv_free(c->ctx, ref);
    return code;
}

static const char *const examples[] = {
    "qkv score bleu ref.de < out.de", "qkv score bleu --tokenized --lowercase ref.tok < out.tok",
    "qkv score chrf ref.de --json < out.de", NULL};
static const qkv_preset presets[] = {{"file", STDIN, "standard input"}, {NULL, NULL, NULL}};

CLI_COMMAND(cli_score, 610) = {
    .manual = {.name = "score", .summary = "compare translations with references",
               .usage = "bleu|chrf REF [--tokenized] [--lowercase] < HYP", .examples = examples,
               .text = "Compares every line of the input with the same line of REF. bleu: of "
                       "text as people write it, cut into words as sacrebleu does (13a, "
                       "exponential smoothing); with --tokenized of words with blanks between, "
                       "as multi-bleu.perl does. The two are different figures. chrf: chrF2, of "
                       "characters without blanks; --tokenized changes nothing there.",
               .presets = presets},
    .own = {&table}, .run = score_run};
