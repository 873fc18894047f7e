/* cmd_eval.c - `qkv eval`: what a model is judged by, on held-out data. */
#include <stdio.h>

#include "cli/commands.h"
#include "io/file.h"
#include "qkv/hub.h"
#include "qkv/task.h"

typedef struct {
    const char *file;
} settings;

static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, .offset = offsetof(settings, file), .value = "FILE",
     .help = "data to judge on; else what was held out in training"},
};
static const qkv_option_table table = {"Evaluation", rows, sizeof rows / sizeof *rows};

/* Tokens of the file, or those that training kept in the model's directory. */
static qkv_status open_tokens(cli *c, const char *dir, const char *file, qkv_tokens **out)
{
    char *path = qkv__path_join(c->ctx, dir, "train/valid.tokens");
    if (!path)
        return QKV_E_MEMORY;
    qkv_status status = QKV_OK;
    if (!file && !qkv__file_exists(path))
        status = qkv__fail(c->ctx, QKV_E_IO, "%s holds no held-out data: name a --file", dir);
    else if (!file)
        status = qkv_tokens_open(out, c->ctx, path);
    qkv__free(c->ctx, path);
    if (status || !file)
        return status;
    qkv__map map = {0};
    qkv_tokenizer *tokenizer = NULL;
    status = qkv_tokenizer_load(&tokenizer, c->ctx, dir);
    if (!status)
        status = qkv__map_open(&map, c->ctx, file);
    if (!status && map.size == 0)
        status = qkv__fail(c->ctx, QKV_E_FORMAT, "%s: the file is empty", file);
    qkv_text_part part = {(const char *)map.data, map.size, file};
    if (!status)
        status = qkv_tokens_pack_memory(out, c->ctx, tokenizer, &part, 1);
    qkv__map_close(&map);
    qkv_tokenizer_destroy(tokenizer);
    return status;
}

static int answer(cli *c, const qkv_lm_score *s)
{
    if (!c->common.json) {
        printf("loss           %.4f nats\nperplexity     %.3f\nbits per byte  %.4f\n"
               "tokens         %zu\n", s->loss, s->perplexity, s->bits_per_byte, s->tokens);
        return CLI_DONE;
    }
    qkv__json_out w;
    qkv__json_out_init(&w, c->ctx, 0);
    qkv__json_begin_object(&w, NULL);
    qkv__json_put_real(&w, "loss", s->loss);
    qkv__json_put_real(&w, "perplexity", s->perplexity);
    qkv__json_put_real(&w, "bits_per_byte", s->bits_per_byte);
    qkv__json_put_int(&w, "tokens", (int64_t)s->tokens);
    qkv__json_end_object(&w);
    return cli_answer(c, &w);
}

static int run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    if (cli_parse(c, argc, argv, 1, 1))
        return CLI_USAGE;
    const char *dir = c->args.items[0];
    qkv_model *model = NULL;
    qkv_tokens *tokens = NULL;
    qkv_tape *tape = NULL;
    qkv_lm_score score;
    qkv_status status = qkv_hub_load(&model, c->ctx, dir);
    if (!status && !qkv_model_is_lm(model))
        status = qkv__fail(c->ctx, QKV_E_UNSUPPORTED, "%s: a %s model cannot be judged on text",
                           dir, qkv_model_type_name(qkv_model_type_of(model)));
    if (!status)
        status = open_tokens(c, dir, s.file, &tokens);
    if (!status)
        status = qkv_tape_create(&tape, c->ctx);
    if (!status) {
        status = qkv_lm_evaluate(model, tape, tokens, qkv_lm_positions(model), 0, &score);
        if (status)
            qkv__fail_prefix(c->ctx, s.file ? s.file : dir);
    }
    int code = status ? cli_error(c) : answer(c, &score);
    qkv_tape_destroy(tape);
    qkv_tokens_close(tokens);
    qkv_model_destroy(model);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {"qkv eval runs/book",
                                       "qkv eval runs/book --file other.txt --json", NULL};

const cli_command cli_eval = {
    .manual = {.name = "eval", .summary = "judge a model on held-out data",
               .usage = "DIR [--file DATA]", .examples = examples, .tables = tables,
               .text = "Scores every token but the first once, each from the tokens before it in "
                       "its window of the training length. loss: mean -log p of a token, in "
                       "nats; perplexity: e^loss; bits per byte of the text, which compares "
                       "models with different tokens."},
    .run = run};
