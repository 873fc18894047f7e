/* cmd_tokenize.c - `qkv tokenize`: text to token ids, a list for every line. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "io/file.h"
#include "qkv/tokenizer.h"

typedef struct {
    const char *file;
} settings;

static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, .offset = offsetof(settings, file), .value = "FILE",
     .initial = "/dev/stdin", .help = "text, tokenised line by line"},
};
static const qkv_option_table table = {"Tokenising", rows, sizeof rows / sizeof *rows};

static qkv_status put_line(cli *c, qkv_tokenizer *t, qkv__json_out *w, const char *line, size_t len)
{
    qkv_ids ids = {0};
    qkv_status status = qkv_tokenizer_encode(t, line, len, 0, &ids);
    if (c->common.json)
        qkv__json_begin_array(w, NULL);
    for (size_t i = 0; i < ids.count && !status; i++) {
        if (c->common.json)
            qkv__json_put_int(w, NULL, ids.data[i]);
        else
            printf("%s%d", i ? " " : "", (int)ids.data[i]);
    }
    if (c->common.json)
        qkv__json_end_array(w);
    else if (!status)
        printf("\n");
    qkv_ids_free(c->ctx, &ids);
    return status;
}

static int tokenize(cli *c, qkv_tokenizer *t, const char *file, const char *text, size_t size)
{
    qkv__json_out w;
    qkv_status status = QKV_OK;
    qkv__json_out_init(&w, c->ctx, 0);
    qkv__json_begin_object(&w, NULL);
    qkv__json_begin_array(&w, "ids");
    for (size_t at = 0; at < size && !status;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t)(end - text) - at : size - at;
        status = put_line(c, t, &w, text + at, len);
        at += len + 1;
    }
    qkv__json_end_array(&w);
    qkv__json_end_object(&w);
    if (!status && c->common.json)
        return cli_answer(c, &w);
    qkv__json_out_free(&w);
    if (status)
        qkv__fail_prefix(c->ctx, file);
    return status ? cli_error(c) : CLI_DONE;
}

static int run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    if (cli_parse(c, argc, argv, 1, 1))
        return CLI_USAGE;
    qkv_tokenizer *t = NULL;
    char *text = NULL;
    size_t size = 0;
    qkv_status status = qkv_tokenizer_load(&t, c->ctx, c->args.items[0]);
    if (!status)
        status = qkv__file_read(c->ctx, s.file, 0, &text, &size);
    int code = status ? cli_error(c) : tokenize(c, t, s.file, text, size);
    qkv__free(c->ctx, text);
    qkv_tokenizer_destroy(t);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {"qkv tokenize runs/book --file book.txt --json",
                                       "echo Hello | qkv tokenize runs/book", NULL};

static const qkv__preset presets[] = {{"file", "/dev/stdin", "standard input"},
                                      {NULL, NULL, NULL}};

const cli_command cli_tokenize = {
    .manual = {.name = "tokenize", .summary = "turn text into token ids",
               .usage = "DIR [--file FILE]", .examples = examples, .tables = tables,
               .text = "Prints the ids of every line, without its newline. DIR need hold nothing "
                       "but a tokenizer's files.",
               .presets = presets},
    .run = run};
