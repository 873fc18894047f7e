/* fill.c - `qkv fill`: what may stand where a text says [MASK]. */
#include <stdio.h>
#include <string.h>

#include "core/commands.h"
#include "qkv/bert.h"
#include "qkv/hub.h"
#include "qkv/run.h"

typedef struct {
    size_t top;
} settings;

static const qkv_option rows[] = {
    {.flag = "top", .type = QKV_OPT_SIZE, .min = 1, .max = 16777216,
     .offset = offsetof(settings, top), .initial = "5", .help = "how many tokens, likeliest first"},
};
static const qkv_option_table table = {"Filling in", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    size_t top;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    qkv_ids ids;
    qkv_guess *guesses; /* (masks, top) */
    size_t masks;
} job;

static qkv_status encode(job *j, const char *text, int32_t *mask)
{
    qkv_context *ctx = j->c->ctx;
    *mask = qkv_tokenizer_special(j->tokenizer, QKV_TOKEN_MASK);
    if (*mask < 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: the tokenizer has no mask token",
                        j->c->args.items[0]);
    qkv_status status = qkv_tokenizer_encode(j->tokenizer, text, strlen(text),
                                             QKV_ENCODE_ADD_SPECIAL, &j->ids);
    for (size_t i = 0; i < j->ids.count; i++)
        j->masks += j->ids.data[i] == *mask;
    if (!status && j->masks == 0)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "the text has no %s to fill in",
                          qkv_tokenizer_token(j->tokenizer, *mask, NULL));
    return status;
}

static qkv_status work(job *j)
{
    qkv_context *ctx = j->c->ctx;
    int32_t mask;
    const char *dir = j->c->args.items[0];
    qkv_status status = qkv_hub_load(&j->model, ctx, dir);
    if (!status && qkv_model_type_of(j->model) != &qkv_bert_masked_type)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a %s does not guess hidden words", dir,
                          qkv_model_type_architecture(qkv_model_type_of(j->model)));
    if (!status)
        status = qkv_tokenizer_load(&j->tokenizer, ctx, dir);
    if (!status)
        status = encode(j, j->c->args.items[1], &mask);
    size_t vocab = status ? 0 : qkv_tokenizer_vocab_size(j->tokenizer);
    j->top = j->top < vocab ? j->top : vocab;
    if (!status) {
        j->guesses = qkv_calloc(ctx, j->masks * j->top, sizeof *j->guesses);
        status = j->guesses ? QKV_OK : QKV_E_MEMORY;
    }
    return status ? status
                  : qkv_fill(j->model, j->ids.data, j->ids.count, mask, j->top, j->guesses);
}

/* The token as text, to be freed with qkv_text_free. */
static qkv_text spelled(const job *j, int32_t id)
{
    qkv_text text = {0};
    (void)qkv_tokenizer_decode(j->tokenizer, &id, 1, QKV_DECODE_VALID, &text);
    return text;
}

static int put_json(const job *j, const qkv_guess *g)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_begin_array(&w, "fills");
    for (size_t i = 0; i < j->top; i++) {
        qkv_text token = spelled(j, g[i].id);
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_bytes(&w, "token", token.data ? token.data : "", token.len);
        qkv_json_put_real(&w, "prob", g[i].prob);
        qkv_json_end_object(&w);
        qkv_text_free(j->c->ctx, &token);
    }
    qkv_json_end_array(&w);
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

static void put_lines(const job *j, const qkv_guess *g)
{
    for (size_t i = 0; i < j->top; i++) {
        qkv_text token = spelled(j, g[i].id);
        printf("%.4f  %s\n", g[i].prob, token.data ? token.data : "");
        qkv_text_free(j->c->ctx, &token);
    }
}

static int run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    if (cli_parse(c, argc, argv, 2, 2))
        return CLI_USAGE;
    job j = {.c = c, .top = s.top};
    int code = work(&j) ? cli_error(c) : CLI_DONE;
    for (size_t i = 0; i < j.masks && code == CLI_DONE; i++) {
        const qkv_guess *g = j.guesses + i * j.top;
        if (c->common.json) {
            code = put_json(&j, g);
            continue;
        }
        if (i)
            printf("\n");
        put_lines(&j, g);
    }
    qkv_free(c->ctx, j.guesses);
    qkv_ids_free(c->ctx, &j.ids);
    qkv_model_destroy(j.model);
    qkv_tokenizer_destroy(j.tokenizer);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv fill runs/words \"the [MASK] sat on the [MASK] .\"",
    "qkv fill runs/words \"the [MASK] sat .\" --top 3 --json", NULL};

const cli_command cli_fill = {
    .manual = {.name = "fill", .summary = "guess the hidden words of a text",
               .usage = "DIR TEXT [--top K]", .examples = examples, .tables = tables,
               .text = "The likeliest tokens for every [MASK] in the text, one mask after "
                       "another, with their probabilities. --json: an object a mask, "
                       "{\"fills\": [{\"token\", \"prob\"}, ..]}."},
    .run = run};
