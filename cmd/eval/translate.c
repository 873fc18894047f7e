/* translate.c - judging translators: the loss of the reference, and how near the model's own
 * translations come to it. */
#include "eval/kinds.h"
#include "text/texts.h"
#include "text/pairs.h"
#include "qkv/marian.h"
#include "qkv/hub.h"
#include "qkv/run.h"
#include "qkv/score.h"

typedef struct {
    eval *e;
    qkv__pairs pairs; /* named files, or nothing */
    qkv_records *records;
    qkv_str text[QKV__SIDES]; /* lines of the records: when there are no files */
    qkv_str found;           /* the model's lines */
    qkv_bleu *bleu;
    qkv_chrf *chrf;
    cli_progress progress;
} judge;

/* ---- data --------------------------------------------------------------------------------- */

/* The held-out pairs' own text. */
static qkv_status decode_records(judge *j)
{
    qkv_context *ctx = j->e->c->ctx;
    qkv_text line = {0};
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV__SIDES * qkv_records_count(j->records) && !status; i++) {
        const int32_t *ids;
        size_t n = qkv_records_get(j->records, i / QKV__SIDES, i % QKV__SIDES, &ids);
        qkv_str *text = &j->text[i % QKV__SIDES];
        line.len = 0;
        status = qkv_tokenizer_decode(j->e->tokenizer, ids, n, QKV_DECODE_SKIP_SPECIAL, &line);
        qkv_str_add(text, line.data ? line.data : "", line.len);
        qkv_str_puts(text, "\n");
        if (!status && text->failed)
            status = QKV_E_MEMORY;
    }
    qkv_text_free(ctx, &line);
    return status;
}

/* Pairs of the files, or those that training kept in the model's directory. */
static qkv_status open_data(judge *j)
{
    eval *e = j->e;
    char *path = NULL;
    qkv_status status;
    const qkv_marian_config *config = qkv_model_config(e->model);
    const qkv__pairs_coding coding = {e->tokenizer, config->eos, config->positions};
    if (!e->source != !e->target)
        return qkv_fail(e->c->ctx, QKV_E_ARGUMENT,
                        "--source and --target: both or none expected, found one");
    if (e->source) {
        status = qkv__pairs_open(&j->pairs, e->c->ctx, e->source, e->target);
        if (!status)
            status = qkv__pairs_records(&j->records, &j->pairs, &coding, 0, j->pairs.lines, NULL);
        return status;
    }
    status = eval_held_out(e, "valid-records.safetensors", &path);
    if (!status)
        status = qkv__records_open_of(&j->records, e->c->ctx, path, QKV__SIDES, e->tokenizer);
    if (!status)
        status = decode_records(j);
    qkv_free(e->c->ctx, path);
    return status;
}

static qkv_text_part side(const judge *j, int which)
{
    if (j->e->source)
        return j->pairs.text[which].parts[0];
    return (qkv_text_part){j->text[which].data, j->text[which].len, "held-out text",
                           0};
}

/* ---- translations ------------------------------------------------------------------------- */

static void on_line(void *user, size_t line, const qkv_translated *found)
{
    judge *j = user;
    (void)line;
    const qkv_text *text = &found->best[0].text;
    qkv_str_add(&j->found, text->data ? text->data : "", text->len);
    qkv_str_puts(&j->found, "\n");
}

static bool on_progress(void *user, size_t lines)
{
    judge *j = user;
    cli_progress_show(&j->progress, lines, qkv_records_count(j->records), NULL);
    return true;
}

static qkv_status translate(judge *j)
{
    qkv_translate_text_options o = qkv_translate_text_defaults();
    qkv_text_part source = side(j, QKV__SOURCE);
    qkv_beam_search *search = NULL;
    qkv_generation g;
    o.progress = on_progress;
    o.user = j;
    qkv_status status = qkv_hub_load_generation(&g, j->e->model, j->e->dir);
    if (!status && j->e->beam)
        g.beams = j->e->beam;
    if (!status)
        status = qkv_beam_search_create(&search, j->e->model, &g);
    cli_progress_begin(&j->progress, j->e->c, "translating", "lines", 0);
    if (!status)
        status = qkv_translate(search, j->e->tokenizer, source.data, source.len, &o, on_line, j);
    cli_progress_end(&j->progress);
    qkv_beam_search_destroy(search);
    return !status && j->found.failed ? QKV_E_MEMORY : status;
}

static qkv_status compare(judge *j, qkv_measures *out)
{
    qkv_context *ctx = j->e->c->ctx;
    const qkv_bleu_options o = {.tokenized = j->e->tokenized};
    qkv_text_part found = {j->found.data, j->found.len, "the translations", 0};
    qkv_text_part target = side(j, QKV__TARGET);
    qkv_bleu_score bleu;
    qkv_chrf_score chrf;
    qkv_status status = qkv_bleu_create(&j->bleu, ctx, &o);
    if (!status)
        status = qkv_bleu_add_texts(j->bleu, &found, &target);
    if (!status)
        status = qkv_chrf_create(&j->chrf, ctx, false);
    if (!status)
        status = qkv_chrf_add_texts(j->chrf, &found, &target);
    if (status)
        return status;
    qkv_bleu_result(j->bleu, &bleu);
    qkv_chrf_result(j->chrf, &chrf);
    qkv_measures_add(out, "bleu", bleu.bleu);
    qkv_measures_add(out, "chrf", chrf.chrf);
    return QKV_OK;
}

static void clean_up(judge *j)
{
    qkv_records_close(j->records);
    qkv__pairs_close(&j->pairs);
    qkv_str_free(&j->text[QKV__SOURCE]);
    qkv_str_free(&j->text[QKV__TARGET]);
    qkv_str_free(&j->found);
    qkv_bleu_destroy(j->bleu);
    qkv_chrf_destroy(j->chrf);
}

qkv_status eval_translate(eval *e, qkv_measures *out)
{
    judge j = {.e = e};
    qkv_str_init(&j.text[QKV__SOURCE], e->c->ctx);
    qkv_str_init(&j.text[QKV__TARGET], e->c->ctx);
    qkv_str_init(&j.found, e->c->ctx);
    qkv_translate_score s = {0};
    qkv_status status = open_data(&j);
    if (!status)
        status = qkv_translate_evaluate(e->model, e->tape, j.records, 0, &s);
    qkv_measures_add(out, "loss", s.loss);
    qkv_measures_add(out, "perplexity", s.perplexity);
    out->scored = s.tokens;
    if (!status)
        status = translate(&j);
    if (!status)
        status = compare(&j, out);
    clean_up(&j);
    return status;
}
