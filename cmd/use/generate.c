/* generate.c - `qkv generate`: a language model goes on writing. */
#include <stdio.h>
#include <string.h>

#include "core/cli.h"

#define REPLACED "\xef\xbf\xbd" /* U+FFFD, where bytes were no character */

typedef struct {
    cli *c;
    qkv_pipeline_generate_options o;
    qkv_json_writer answer; /* of the continuation, with --json */
    int code;
} job;

/* A token's text in quotes, as JSON has it; the bytes of one that is no whole character. */
static int generate_print_token(const job *j, const qkv_next_token *token)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_put_bytes(&w, NULL, token->text, token->len);
    const char *text = qkv_json_writer_text(&w);
    bool whole = text && (!strstr(text, REPLACED) ||
                          (token->len == sizeof REPLACED - 1 &&
                           memcmp(token->text, REPLACED, token->len) == 0));
    if (whole)
        (void)fputs(text, stdout);
    for (size_t i = 0; text && !whole && i < token->len; i++)
        printf("<%02x>", (unsigned)(unsigned char)token->text[i]);
    qkv_json_writer_free(&w);
    return text ? CLI_DONE : cli_fail("out of memory while writing the answer");
}

/* The candidates of a step, one line. */
static int generate_show_next(const job *j, const qkv_generated *step)
{
    int code = CLI_DONE;
    for (size_t i = 0; i < step->next_count && code == CLI_DONE; i++) {
        const qkv_next_token *token = &step->next[i];
        double percent = 100 * token->probability;
        printf("%s%c", i ? "  " : "", token->drawn ? '*' : ' ');
        printf(percent >= 0.1 ? "%5.1f%% " : "%5.1g%% ", percent);
        code = generate_print_token(j, token);
    }
    printf("\n");
    return code;
}

/* Adds a step to "next" of the continuation's object, which its prompt began. */
static void generate_put_next(job *j, const qkv_generated *step)
{
    qkv_json_begin_array(&j->answer, NULL);
    for (size_t i = 0; i < step->next_count; i++) {
        const qkv_next_token *token = &step->next[i];
        qkv_json_begin_object(&j->answer, NULL);
        qkv_json_put_bytes(&j->answer, "token", token->text, token->len);
        qkv_json_put_int(&j->answer, "id", token->id);
        qkv_json_put_real(&j->answer, "prob", token->probability);
        qkv_json_put_bool(&j->answer, "drawn", token->drawn);
        qkv_json_end_object(&j->answer);
    }
    qkv_json_end_array(&j->answer);
}

static int generate_answer_json(job *j, const qkv_generated *end)
{
    qkv_json_writer *w = &j->answer;
    if (j->o.show_next)
        qkv_json_end_array(w);
    qkv_json_put_bytes(w, "text", end->continuation->data ? end->continuation->data : "",
                       end->continuation->len);
    qkv_json_put_ids(w, "ids", end->ids->data, end->ids->count);
    return cli_answer(j->c, w);
}

static void generate_piece_json(job *j, const qkv_generated *piece)
{
    if (piece->kind == QKV_GENERATED_PROMPT) {
        j->answer = cli_object(j->c);
        if (j->o.show_next)
            qkv_json_begin_array(&j->answer, "next");
    }
    if (piece->kind == QKV_GENERATED_TOKEN && j->o.show_next)
        generate_put_next(j, piece);
    if (piece->kind == QKV_GENERATED_END)
        j->code = generate_answer_json(j, piece);
}

static bool on_piece(void *user, const qkv_generated *piece)
{
    job *j = user;
    bool begins = piece->kind == QKV_GENERATED_PROMPT;
    if (j->c->common.json) {
        generate_piece_json(j, piece);
    } else if (j->o.show_next) {
        if (begins && piece->index)
            printf("\n");
        if (piece->kind == QKV_GENERATED_TOKEN)
            j->code = generate_show_next(j, piece);
    } else {
        if (begins && piece->index)
            printf("\n");
        (void)fwrite(piece->text, 1, piece->len, stdout);
        if (piece->kind == QKV_GENERATED_END)
            printf("\n");
    }
    if (j->code == CLI_DONE)
        j->code = cli_flush();
    return j->code == CLI_DONE && !cli_stopped();
}

static int use_generate_run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, qkv_pipeline_generate_table(), &j.o);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (refused)
        return refused;
    if (j.o.file && qkv_options_given(c->options, "prompt"))
        return cli_usage(c, "--prompt and --file: one of them expected, found both");
    if (j.o.lines && (j.o.file || qkv_options_given(c->options, "prompt")))
        return cli_usage(c, "--lines and %s: one of them expected, found both",
                         j.o.file ? "--file" : "--prompt");
    j.o.seed = c->common.seed;
    cli_catch_signals();
    cli_listen_notes(c);
    qkv_pipeline *p = NULL;
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    if (!status)
        status = qkv_pipeline_generate(p, &j.o, on_piece, &j);
    qkv_pipeline_close(p);
    qkv_json_writer_free(&j.answer);
    return status ? cli_error(c) : j.code;
}

static const char *const examples[] = {
    "qkv generate runs/book --prompt \"It was\" --tokens 500",
    "qkv generate runs/book --prompt \"It was\" --greedy --json",
    "qkv generate runs/book --prompt \"It was\" --tokens 10 --show-next 5",
    "qkv generate runs/book --adapter runs/letters=0.5 --prompt \"Dear\"",
    "qkv generate runs/book --lines prompts.txt --batch 16 --json", NULL};

static const qkv_preset presets[] = {{"prompt", "\n", "a new line"}, {NULL, NULL, NULL}};

CLI_COMMAND(cli_generate, 400) = {
    .manual = {.name = "generate", .summary = "continue a text", .usage = "DIR [options]",
               .text = "Prints the prompt and, as they are made, the tokens that the model draws "
                       "to continue it. The same --seed gives the same text. --lines continues "
                       "each line of a file, --batch of them at once, and prints them in the "
                       "order of the lines; what lines begin with alike is read once. "
                       "--show-next prints "
                       "a line for each token instead: the model's own probabilities, before "
                       "--temperature and the like change them; * marks the token that was drawn. "
                       "--json: {\"text\", \"ids\"}, with --show-next and \"next\": [[{\"token\", "
                       "\"id\", \"prob\", \"drawn\"}, ..], ..], a list for each token.",
               .examples = examples, .presets = presets},
    .library = {qkv_pipeline_generate_table},
    .opens = true, .run = use_generate_run};
