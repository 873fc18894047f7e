/* evaluate_translate.c - evaluating translators: the loss of the reference, and how near the
 * model's own translations come to it. */
#include "pipeline/held_out.h"
#include "pipeline/evaluators.h"

#include "text/pairs.h"
#include "qkv/marian.h"
#include "qkv/pipeline_text.h"
#include "qkv/score.h"

typedef struct {
    qkv_pipeline *p;
    const qkv_pipeline_evaluate_options *o;
    qkv__pairs pairs; /* named files, or nothing */
    qkv_records *records;
    qkv_str text[QKV__SIDES]; /* lines of the records: when there are no files */
    qkv_str found;            /* the model's lines */
    qkv_bleu *bleu;
    qkv_chrf *chrf;
} evaluation;

/* ---- data --------------------------------------------------------------------------------- */

/* The held-out pairs' own text. */
static qkv_status decode_records(evaluation *j)
{
    qkv_context *ctx = j->p->ctx;
    qkv_text line = {0};
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV__SIDES * qkv_records_count(j->records) && !status; i++) {
        const int32_t *ids;
        size_t n = qkv_records_get(j->records, i / QKV__SIDES, i % QKV__SIDES, &ids);
        qkv_str *text = &j->text[i % QKV__SIDES];
        line.len = 0;
        status = qkv_tokenizer_decode(j->p->tokenizer, ids, n, QKV_DECODE_SKIP_SPECIAL, &line);
        qkv_str_add(text, line.data ? line.data : "", line.len);
        qkv_str_puts(text, "\n");
        if (!status && text->failed)
            status = QKV_E_MEMORY;
    }
    qkv_text_free(&line, ctx);
    return status;
}

/* Pairs of the files, or those that training kept in the model's directory. */
static qkv_status evaluate_translate_open_data(evaluation *j)
{
    qkv_pipeline *p = j->p;
    const qkv_pipeline_evaluate_options *o = j->o;
    qkv_path path;
    qkv_status status;
    if (!o->source != !o->target)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT,
                        "--source and --target: both or none expected, found one");
    if (o->source) {
        const qkv_marian_config *c = qkv_model_config(p->model);
        const qkv__pairs_coding coding = {p->tokenizer, c->eos, c->positions};
        status = qkv__pairs_open(&j->pairs, p->ctx, o->source, o->target);
        if (!status)
            status = qkv__pairs_records(&j->records, &j->pairs, &coding, 0, j->pairs.lines, NULL);
        return status;
    }
    status = qkv__evaluate_held_out(p, QKV__VALID_RECORDS, &path);
    if (!status)
        status = qkv__records_open_of(&j->records, p->ctx, path.text, QKV__SIDES,
                                      p->tokenizer);
    return status ? status : decode_records(j);
}

static qkv_text_span evaluate_translate_side(const evaluation *j, int which)
{
    if (j->o->source)
        return j->pairs.text[which].spans[0];
    return (qkv_text_span){j->text[which].data, j->text[which].len, "held-out text", 0};
}

/* ---- translations ------------------------------------------------------------------------- */

static bool evaluate_translate_on_line(void *user, size_t line, const qkv_translated *found)
{
    evaluation *j = user;
    (void)line;
    const qkv_text *text = &found->best[0].text;
    qkv_str_add(&j->found, text->data ? text->data : "", text->len);
    qkv_str_puts(&j->found, "\n");
    return !j->found.failed;
}

static qkv_status evaluate_translate_translate(evaluation *j)
{
    qkv_pipeline_translate_options o = qkv_pipeline_translate_defaults(j->p);
    qkv_text_span source = evaluate_translate_side(j, QKV__SOURCE);
    if (j->o->beam)
        o.beams = j->o->beam;
    qkv_status status = qkv_pipeline_translate(j->p, source.data, source.len, &o,
                                               evaluate_translate_on_line, j);
    return !status && j->found.failed ? QKV_E_MEMORY : status;
}

static qkv_status evaluate_translate_compare(evaluation *j, qkv_metrics *out)
{
    qkv_context *ctx = j->p->ctx;
    const qkv_bleu_options o = {.tokenized = j->o->tokenized};
    qkv_text_span found = {j->found.data, j->found.len, "the translations", 0};
    qkv_text_span target = evaluate_translate_side(j, QKV__TARGET);
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
    qkv_metrics_add(out, "bleu", bleu.bleu);
    qkv_metrics_add(out, "chrf", chrf.chrf);
    return QKV_OK;
}

static void evaluate_translate_clean_up(evaluation *j)
{
    qkv_records_close(j->records);
    qkv__pairs_close(&j->pairs);
    qkv_str_free(&j->text[QKV__SOURCE]);
    qkv_str_free(&j->text[QKV__TARGET]);
    qkv_str_free(&j->found);
    qkv_bleu_destroy(j->bleu);
    qkv_chrf_destroy(j->chrf);
}

static qkv_status evaluate_translate(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                     qkv_metrics *out)
{
    evaluation j = {.p = p, .o = o};
    qkv_str_init(&j.text[QKV__SOURCE], p->ctx);
    qkv_str_init(&j.text[QKV__TARGET], p->ctx);
    qkv_str_init(&j.found, p->ctx);
    qkv_translate_score s = {0};
    qkv_status status = evaluate_translate_open_data(&j);
    if (!status)
        status = qkv_translate_evaluate(p->model, p->tape, j.records, 0, &s);
    qkv_metrics_add(out, "loss", s.loss);
    qkv_metrics_add(out, "perplexity", s.perplexity);
    out->scored = s.tokens;
    if (!status)
        status = evaluate_translate_translate(&j);
    if (!status)
        status = evaluate_translate_compare(&j, out);
    evaluate_translate_clean_up(&j);
    return status;
}

const qkv__evaluator qkv__evaluator_translate = {
    .can = QKV_CAN_TRANSLATE, .evaluate = evaluate_translate, .unit = "tokens",
    .data = QKV__ON_PAIRS, .text = true};
