/* generate.c - `qkv generate`: a language model goes on writing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/commands.h"
#include "io/file.h"
#include "qkv/hub.h"
#include "qkv/run.h"

typedef struct {
    const char *prompt, *file;
    size_t tokens, count, show_next, window;
    bool greedy;
    qkv_sampling sampling;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "prompt", .type = QKV_OPT_STRING, FIELD(prompt), .value = "TEXT", .initial = "\n",
     .help = "text to continue"},
    {.flag = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "FILE",
     .help = "file with the text to continue"},
    {.flag = "tokens", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(tokens), .initial = "256",
     .help = "tokens to make at most"},
    {.flag = "count", .type = QKV_OPT_SIZE, .min = 1, .max = 1e6, FIELD(count), .initial = "1",
     .help = "continuations"},
    {.flag = "greedy", .type = QKV_OPT_BOOL, FIELD(greedy), .help = "always the likeliest token"},
    {.flag = "temperature", .type = QKV_OPT_REAL, .max = 100, FIELD(sampling.temperature),
     .initial = "0.8", .help = "above 1 wilder, below 1 tamer; 0: greedy"},
    {.flag = "top-k", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(sampling.top_k), .initial = "0",
     .help = "only the k likeliest tokens; 0: all"},
    {.flag = "top-p", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     FIELD(sampling.top_p), .initial = "1", .help = "only the likeliest that make up p together"},
    {.flag = "min-p", .type = QKV_OPT_REAL, .max = 1, FIELD(sampling.min_p), .initial = "0",
     .help = "only tokens above p times the likeliest"},
    {.flag = "repetition-penalty", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 100,
     FIELD(sampling.repetition_penalty), .initial = "1",
     .help = "above 1: what was there becomes less likely"},
    {.flag = "no-repeat-ngram", .type = QKV_OPT_SIZE, .max = 1e6,
     FIELD(sampling.no_repeat_ngram), .initial = "0", .help = "never the same n tokens twice"},
    {.flag = "window", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(window), .initial = "0",
     .help = "earlier tokens to look at; 0: as many as it was trained on"},
    {.flag = "show-next", .type = QKV_OPT_SIZE, .max = 1000, FIELD(show_next), .value = "K",
     .initial = "0",
     .help = "print the K likeliest tokens at each step"},
};
static const qkv_option_table table = {"Generating", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    qkv_tokenizer_stream *stream;
    qkv_text piece;
    qkv_ids prompt;
} job;

static void print_piece(job *j)
{
    if (j->piece.len)
        (void)fwrite(j->piece.data, 1, j->piece.len, stdout);
    j->piece.len = 0;
    (void)fflush(stdout);
}

/* The K likeliest tokens of a distribution, one line. */
static void show_next(const job *j, const qkv_real *p, size_t V)
{
    int32_t last = -1;
    double bound = INFINITY;
    for (size_t k = 0; k < j->s.show_next && k < V; k++) {
        int32_t best = -1;
        for (size_t i = 0; i < V; i++) {
            bool after = (double)p[i] < bound || ((double)p[i] == bound && (int32_t)i > last);
            if (after && (best < 0 || p[i] > p[best]))
                best = (int32_t)i;
        }
        if (best < 0 || p[best] <= 0)
            break;
        qkv_text text = {0};
        if (qkv_tokenizer_decode(j->tokenizer, &best, 1, QKV_DECODE_VALID, &text) == QKV_OK) {
            printf("%s%5.1f%% ", k ? "  " : "", 100 * (double)p[best]);
            for (size_t i = 0; i < text.len; i++)
                (void)fputs(text.data[i] == '\n' ? "\\n" : (char[]){text.data[i], 0}, stdout);
        }
        qkv_text_free(j->c->ctx, &text);
        last = best;
        bound = (double)p[best];
    }
    printf("\n");
}

static bool on_token(void *user, int32_t id, const qkv_real *p, size_t V)
{
    job *j = user;
    if (j->s.show_next)
        show_next(j, p, V);
    else if (!j->c->common.json &&
             qkv_tokenizer_stream_put(j->stream, id, &j->piece) == QKV_OK)
        print_piece(j);
    return !cli_stopped();
}

static int answer_json(job *j, const qkv_ids *ids)
{
    qkv_text text = {0};
    if (qkv_tokenizer_decode(j->tokenizer, ids->data, ids->count,
                             QKV_DECODE_SKIP_SPECIAL | QKV_DECODE_VALID, &text))
        return cli_error(j->c);
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_bytes(&w, "text", text.data ? text.data : "", text.len);
    qkv_json_begin_array(&w, "ids");
    for (size_t i = 0; i < ids->count; i++)
        qkv_json_put_int(&w, NULL, ids->data[i]);
    qkv_json_end_array(&w);
    qkv_json_end_object(&w);
    qkv_text_free(j->c->ctx, &text);
    return cli_answer(j->c, &w);
}

static int one(job *j, size_t index)
{
    qkv_generate_options o = {.tokens = j->s.tokens, .window = j->s.window,
                              .seed = j->c->common.seed, .index = index,
                              .sampling = j->s.sampling};
    int32_t ends[QKV_LM_ENDS];
    o.stop = ends;
    o.stops = qkv_lm_ends(j->model, ends);
    if (!o.stops) {
        ends[0] = qkv_tokenizer_special(j->tokenizer, QKV_TOKEN_EOS);
        o.stops = ends[0] >= 0;
    }
    if (j->s.greedy)
        o.sampling.temperature = 0;
    bool text = !j->c->common.json && !j->s.show_next;
    if (text)
        (void)qkv_tokenizer_decode(j->tokenizer, j->prompt.data, j->prompt.count,
                                   QKV_DECODE_SKIP_SPECIAL, &j->piece);
    print_piece(j);
    qkv_ids ids = {0};
    qkv_status status =
        qkv_generate(j->model, j->prompt.data, j->prompt.count, &o, on_token, j, &ids);
    int code = status ? cli_error(j->c) : j->c->common.json ? answer_json(j, &ids) : CLI_DONE;
    if (!status && text) {
        (void)qkv_tokenizer_stream_end(j->stream, &j->piece);
        print_piece(j);
        printf("\n%s", index + 1 < j->s.count ? "\n" : "");
    }
    qkv_ids_free(j->c->ctx, &ids);
    return code;
}

static qkv_status open_all(job *j, const char *dir)
{
    qkv_context *ctx = j->c->ctx;
    qkv_status status = qkv_hub_load(&j->model, ctx, dir);
    if (!status && !qkv_model_is_lm(j->model))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a %s model does not continue text", dir,
                          qkv_model_type_name(qkv_model_type_of(j->model)));
    if (!status)
        status = qkv_tokenizer_load(&j->tokenizer, ctx, dir);
    char *text = NULL;
    size_t len = strlen(j->s.prompt);
    if (!status && j->s.file)
        status = qkv_file_read(ctx, j->s.file, 0, &text, &len);
    if (!status)
        status = qkv_tokenizer_encode(j->tokenizer, text ? text : j->s.prompt, len,
                                      QKV_ENCODE_ADD_SPECIAL, &j->prompt);
    if (status && text)
        qkv_fail_prefix(ctx, j->s.file);
    qkv_free(ctx, text);
    return status ? status
                  : qkv_tokenizer_stream_create(&j->stream, j->tokenizer, QKV_DECODE_SKIP_SPECIAL);
}

static int run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, &table, &j.s);
    if (cli_parse(c, argc, argv, 1, 1))
        return CLI_USAGE;
    if (j.s.show_next && c->common.json)
        return cli_usage(c, "--json and --show-next: one of them expected, found both");
    if (j.s.file && qkv_options_given(c->options, "prompt"))
        return cli_usage(c, "--prompt and --file: one of them expected, found both");
    cli_catch_signals();
    int code = open_all(&j, c->args.items[0]) ? cli_error(c) : CLI_DONE;
    for (size_t i = 0; i < j.s.count && code == CLI_DONE && !cli_stopped(); i++)
        code = one(&j, i);
    qkv_tokenizer_stream_destroy(j.stream);
    qkv_text_free(c->ctx, &j.piece);
    qkv_ids_free(c->ctx, &j.prompt);
    qkv_model_destroy(j.model);
    qkv_tokenizer_destroy(j.tokenizer);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv generate runs/book --prompt \"It was\" --tokens 500",
    "qkv generate runs/book --prompt \"It was\" --greedy --json",
    "qkv generate runs/book --prompt \"It was\" --tokens 10 --show-next 5", NULL};

static const qkv_preset presets[] = {{"prompt", "\n", "a new line"}, {NULL, NULL, NULL}};

const cli_command cli_generate = {
    .manual = {.name = "generate", .summary = "continue a text", .usage = "DIR [options]",
               .text = "Prints the prompt and, as they are made, the tokens that the model draws "
                       "to continue it. The same --seed gives the same text.",
               .examples = examples, .tables = tables, .presets = presets},
    .run = run};
