/* eval_translate.c - judging translators: the loss of the reference, and how near the model's own
 * translations come to it. */
#include "cli/eval.h"
#include "cli/pairs.h"

/* Pairs of the files, or those that training kept in the model's directory. */
static qkv_status open_records(eval *e, cli_pairs *pairs, qkv_records **out)
{
    char *path = NULL;
    qkv_status status;
    if (!e->source != !e->target)
        return qkv__fail(e->c->ctx, QKV_E_ARGUMENT,
                         "--source and --target: both or none expected, found one");
    if (e->source) {
        status = cli_pairs_open(pairs, e->c, e->source, e->target);
        if (!status)
            status = cli_pairs_records(pairs, e->c, e->model, e->tokenizer, 0, pairs->lines, NULL,
                                       out);
        return status;
    }
    status = eval_held_out(e, "valid.records", &path);
    if (!status)
        status = qkv_records_open(out, e->c->ctx, path);
    qkv__free(e->c->ctx, path);
    return status;
}

qkv_status eval_translate(eval *e, qkv_measures *out)
{
    qkv_records *records = NULL;
    cli_pairs pairs = {0};
    qkv_translate_score s = {0};
    qkv_status status = open_records(e, &pairs, &records);
    if (!status)
        status = qkv_translate_evaluate(e->model, e->tape, records, 0, &s);
    eval_add(out, "loss", s.loss);
    eval_add(out, "perplexity", s.perplexity);
    out->scored = s.tokens;
    qkv_records_close(records);
    cli_pairs_close(&pairs);
    return status;
}
