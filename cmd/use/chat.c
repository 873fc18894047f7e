/* chat.c - `qkv chat`: a conversation with a language model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cli.h"

typedef struct {
    qkv_strings messages;
    const char *file;
    bool show_text;
} chat_options;

#define FIELD(member) .offset = offsetof(chat_options, member)
static const qkv_option rows[] = {
    {.flag = "message", .type = QKV_OPT_LIST, FIELD(messages), .value = "TEXT",
     .help = "what to say; as often as you like, one after another"},
    {.flag = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "FILE",
     .help = "conversations to answer, one in JSON on each line: {\"messages\": [..]}"},
    {.flag = "show-text", .type = QKV_OPT_BOOL, FIELD(show_text),
     .help = "with --file: print the text that the model would continue, and answer nothing"},
};
static const qkv_option_table table = {"Messages", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    qkv_chat_options o;
    chat_options own;
    qkv_chat *chat;
    int code;
    bool terminal; /* a person types */
} job;

static int chat_answer_json(job *j, const qkv_chat_piece *end)
{
    static const char *const reasons[] = {"stop", "length", "interrupted"};
    qkv_json_writer w = cli_object(j->c);
    qkv_json_put_bytes(&w, "text", end->text, end->len);
    qkv_json_put_ids(&w, "ids", end->ids->data, end->ids->count);
    qkv_json_put_string(&w, "end", reasons[end->reason]);
    qkv_json_put_int(&w, "prompt_tokens", (int64_t)end->prompt);
    qkv_json_put_int(&w, "reused_tokens", (int64_t)end->reused);
    return cli_answer(j->c, &w);
}

static bool on_chat_piece(void *user, const qkv_chat_piece *piece)
{
    job *j = user;
    if (j->c->common.json) {
        if (piece->kind == QKV_CHAT_END)
            j->code = chat_answer_json(j, piece);
    } else if (piece->kind == QKV_CHAT_END) {
        printf("\n");
        if (j->terminal && piece->reason == QKV_CHAT_LENGTH)
            cli_note(j->c, "the answer is cut after %zu tokens: --tokens, or the model has no more "
                     "positions", piece->ids->count);
    } else {
        (void)fwrite(piece->text, 1, piece->len, stdout);
    }
    if (j->code == CLI_DONE)
        j->code = cli_flush();
    return j->code == CLI_DONE && !cli_stopped();
}

/* Ctrl-C ends the answer; a person goes on, and others do not. */
static bool chat_goes_on(job *j)
{
    bool stopped = cli_release_signals();
    return j->code == CLI_DONE && (!stopped || j->terminal);
}

static qkv_status chat_say(job *j, const char *text)
{
    cli_catch_signals();
    return qkv_chat_say(j->chat, text, on_chat_piece, j);
}

static qkv_status chat_messages(job *j)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < j->own.messages.count && !status; i++) {
        status = chat_say(j, j->own.messages.items[i]);
        if (!chat_goes_on(j))
            break;
    }
    return status;
}

static qkv_status chat_show(job *j, const char *where, const char *line, size_t length)
{
    qkv_text text = {0};
    qkv_status status = qkv_chat_show(j->chat, where, line, length, &text);
    if (!status && j->c->common.json) {
        qkv_json_writer w = cli_object(j->c);
        qkv_json_put_bytes(&w, "text", text.data ? text.data : "", text.len);
        j->code = cli_answer(j->c, &w);
    } else if (!status) {
        (void)fwrite(text.data, 1, text.len, stdout);
        j->code = cli_flush();
    }
    qkv_text_free(&text, j->c->ctx);
    return status;
}

static bool is_blank(const char *line, size_t len) { return strspn(line, " \t\r\n") == len; }

static qkv_status chat_file(job *j, FILE *in)
{
    char *line = NULL, where[4096];
    size_t room = 0, number = 0;
    ssize_t length;
    qkv_status status = QKV_OK;
    while (!status && (length = getline(&line, &room, in)) > 0) {
        (void)snprintf(where, sizeof where, "%s: line %zu", j->own.file, ++number);
        if (is_blank(line, (size_t)length))
            continue;
        cli_catch_signals();
        status = j->own.show_text
                     ? chat_show(j, where, line, (size_t)length)
                     : qkv_chat_answer(j->chat, where, line, (size_t)length, on_chat_piece, j);
        if (!chat_goes_on(j))
            break;
    }
    free(line);
    return status;
}

static const char commands[] = "/reset forgets the conversation, /quit or Ctrl-D ends it, Ctrl-C "
                               "ends an answer, \\ at the end of a line continues it";

/* A line of a person or a pipe: a message, or a command. False: it is the last. */
static bool chat_line(job *j, const char *line, qkv_status *status)
{
    if (strcmp(line, "/quit") == 0)
        return false;
    if (strcmp(line, "/reset") == 0) {
        *status = qkv_chat_reset(j->chat);
        return !*status;
    }
    if (j->terminal && *line == '/' && !line[1 + strspn(line + 1, "abcdefghijklmnopqrstuvwxyz")]) {
        cli_note(j->c, "%s is no command: %s", line, commands); /* "/home/me" is a message */
        return true;
    }
    if (is_blank(line, strlen(line)))
        return true;
    *status = chat_say(j, line);
    bool on = chat_goes_on(j);
    if (*status && j->terminal && *status != QKV_E_MEMORY) { /* it is told, and may be said again */
        (void)cli_error(j->c);
        *status = QKV_OK;
    }
    return on && !*status;
}

static void chat_ask(const job *j, const char *mark)
{
    if (j->terminal)
        printf("%s", mark);
    (void)fflush(stdout);
}

/* Reads a line, or, of a person, several that end in \; false: there is none. */
static bool chat_read_line(const job *j, qkv_str *message)
{
    char *line = NULL;
    size_t room = 0;
    bool more = true, found = false;
    qkv_str_clear(message);
    for (chat_ask(j, "> "); more && getline(&line, &room, stdin) > 0; found = true) {
        size_t end = strcspn(line, "\r\n");
        more = j->terminal && end && line[end - 1] == '\\';
        qkv_str_add(message, line, end - more);
        if (more) {
            qkv_str_add(message, "\n", 1);
            chat_ask(j, "| ");
        }
    }
    free(line);
    if (!found)
        chat_ask(j, "\n"); /* after Ctrl-D */
    return found;
}

static qkv_status chat_lines(job *j)
{
    qkv_str message;
    qkv_status status = QKV_OK;
    qkv_str_init(&message, j->c->ctx);
    if (j->terminal)
        cli_note(j->c, "%s", commands);
    while (!status && chat_read_line(j, &message)) {
        if (message.failed)
            status = QKV_E_MEMORY;
        else if (!chat_line(j, message.data, &status))
            break;
    }
    qkv_str_free(&message);
    return status;
}

static qkv_status chat_all(job *j)
{
    if (j->own.messages.count)
        return chat_messages(j);
    if (!j->own.file) {
        j->terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
        return chat_lines(j);
    }
    if (qkv_dir_exists(j->own.file))
        return qkv_fail(j->c->ctx, QKV_E_IO, "%s: expected a file, found a folder", j->own.file);
    FILE *in = fopen(j->own.file, "r");
    if (!in)
        return qkv_fail(j->c->ctx, QKV_E_IO, "%s: cannot be opened: %s", j->own.file,
                        strerror(errno));
    qkv_status status = chat_file(j, in);
    (void)fclose(in);
    return status;
}

static int use_chat_run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, &table, &j.own);
    cli_bind(c, qkv_chat_table(), &j.o);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (refused)
        return refused;
    if (j.own.file && j.own.messages.count)
        return cli_usage(c, "--message and --file: one of them expected, found both");
    if (j.own.show_text && !j.own.file)
        return cli_usage(c, "--show-text: --file expected, found none");
    j.o.seed = c->common.seed;
    cli_listen_notes(c);
    qkv_pipeline *p = NULL;
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    if (!status)
        status = qkv_chat_open(&j.chat, p, &j.o);
    if (!status)
        status = chat_all(&j);
    qkv_chat_close(j.chat);
    qkv_pipeline_close(p);
    return status ? cli_error(c) : j.code;
}

static const char *const examples[] = {
    "qkv chat SmolLM2-135M-Instruct",
    "qkv chat SmolLM2-135M-Instruct --system \"Be brief.\" --message \"Is ice cold?\"",
    "qkv chat runs/tutor < questions.txt",
    "qkv chat runs/tutor --file conversations.jsonl --greedy --json", NULL};

CLI_COMMAND(cli_chat, 405) = {
    .manual = {.name = "chat", .summary = "talk with a model", .usage = "DIR [options]",
               .text = "Answers what is typed, or each line of a pipe, and keeps the "
                       "conversation. The text that the model reads is made by the template of "
                       "the directory (tokenizer_config.json or chat_template.jinja) or of the "
                       "GGUF file. An answer ends at an end token of the model or at what ends an "
                       "answer in the template. Where a conversation becomes too long, its oldest "
                       "messages are left out, with a note. /reset forgets it, /quit ends the "
                       "program; Ctrl-C ends an answer; in a terminal, \\ at the end of a line "
                       "continues the message on the next. --file answers conversations, each by "
                       "itself: lines of JSON, {\"messages\": [{\"role\": \"user\", \"content\": "
                       "TEXT}, ..]}; other keys are variables of the template, as those of "
                       "--variables. --json: {\"text\", \"ids\", \"end\": \"stop\", \"length\" or "
                       "\"interrupted\", \"prompt_tokens\", \"reused_tokens\"} for each answer; "
                       "--show-text: {\"text\"}.",
               .examples = examples},
    .library = {qkv_chat_table}, .own = {&table}, .opens = true, .run = use_chat_run};
