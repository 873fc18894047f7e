/* tokenize.c - `qkv tokenize`: text to token ids. */
#include <stdio.h>
#include <string.h>

#include "core/cli.h"

typedef struct {
    const char *file;
    bool lines;
} settings;

static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, .offset = offsetof(settings, file), .value = "FILE",
     .help = "text to tokenise"},
    {.flag = "lines", .type = QKV_OPT_BOOL, .offset = offsetof(settings, lines),
     .help = "each line alone, without its end (LF or CR LF)"},
};
static const qkv_option_table table = {"Tokenising", rows, sizeof rows / sizeof *rows, 0};

/* The ids of one text: a JSON array under key, or a line. */
static qkv_status tokenize_put(cli *c, qkv_tokenizer *t, qkv_json_writer *w, const char *key,
                               const char *text, size_t size)
{
    qkv_ids ids = {0};
    qkv_status status = qkv_tokenizer_encode(t, text, size, 0, &ids);
    if (c->common.json)
        qkv_json_put_ids(w, key, ids.data, ids.count);
    for (size_t i = 0; i < ids.count && !status && !c->common.json; i++)
        printf("%s%d", i ? " " : "", (int)ids.data[i]);
    if (!c->common.json && !status)
        printf("\n");
    qkv_ids_free(&ids, c->ctx);
    return status;
}

static qkv_status put_lines(cli *c, qkv_tokenizer *t, qkv_json_writer *w, const char *text,
                            size_t size)
{
    qkv_status status = QKV_OK;
    qkv_json_begin_array(w, "ids");
    const char *at = text;
    for (qkv_line line; !status && qkv_next_line(&at, text + size, &line);)
        status = tokenize_put(c, t, w, NULL, line.data, line.len);
    qkv_json_end_array(w);
    return status;
}

/* name: of the file, for messages; NULL: the text is an argument. */
static int tokenize(cli *c, qkv_tokenizer *t, const settings *s, const char *name,
                    const char *text, size_t size)
{
    qkv_json_writer w = cli_object(c);
    qkv_status status = s->lines ? put_lines(c, t, &w, text, size)
                                 : tokenize_put(c, t, &w, "ids", text, size);
    if (!status && c->common.json)
        return cli_answer(c, &w);
    qkv_json_writer_free(&w);
    if (status && name)
        qkv_fail_prefix(c->ctx, name);
    return status ? cli_error(c) : CLI_DONE;
}

static int tokenize_run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 1, 2);
    if (refused)
        return refused;
    const char *given = c->args.count == 2 ? c->args.items[1] : NULL;
    if (given && s.file)
        return cli_usage(c, "TEXT and --file: only one can be tokenised");
    const char *name = given ? NULL : s.file ? s.file : "/dev/stdin";
    qkv_tokenizer *t = NULL;
    char *text = NULL;
    size_t size = given ? strlen(given) : 0;
    qkv_status status = qkv_tokenizer_load(&t, c->ctx, c->args.items[0]);
    if (!status && name)
        status = qkv_file_read(c->ctx, name, 0, &text, &size);
    int code = status ? cli_error(c) : tokenize(c, t, &s, name, given ? given : text, size);
    qkv_free(c->ctx, text);
    qkv_tokenizer_destroy(t);
    return code;
}

static const char *const examples[] = {"qkv tokenize runs/book --file book.txt --json",
                                       "qkv tokenize runs/book 'To be, or not to be'",
                                       "head book.txt | qkv tokenize runs/book --lines", NULL};

static const qkv_preset presets[] = {{"file", NULL, "standard input"},
                                      {NULL, NULL, NULL}};

CLI_COMMAND(cli_tokenize, 620) = {
    .manual = {.name = "tokenize", .summary = "turn text into token ids",
               .usage = "DIR [TEXT | --file FILE]", .examples = examples,
               .text = "Prints the ids of the text, newlines and all. DIR need hold nothing but a "
                       "tokenizer's files.",
               .presets = presets},
    .own = {&table}, .run = tokenize_run};
