/* generate.c - `qkv generate`: a language model goes on writing. */
#include <math.h>
#include <stdio.h>

#include "core/cli.h"

typedef struct {
    size_t show_next;
} settings;

static const qkv_option rows[] = {
    {.flag = "show-next", .type = QKV_OPT_SIZE, .max = 1000,
     .offset = offsetof(settings, show_next), .value = "K", .initial = "0",
     .help = "print the K likeliest tokens at each step"},
};
static const qkv_option_table table = {"Generating", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_pipeline_generate_options o;
    qkv_pipeline *p;
    int code;
} job;

/* The K likeliest tokens of a distribution, one line. */
static void generate_show_next(const job *j, const qkv_real *p, size_t V)
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
        if (qkv_tokenizer_decode(qkv_pipeline_tokenizer(j->p), &best, 1, QKV_DECODE_VALID,
                                 &text) == QKV_OK) {
            printf("%s%5.1f%% ", k ? "  " : "", 100 * (double)p[best]);
            for (size_t i = 0; i < text.len; i++)
                (void)fputs(text.data[i] == '\n' ? "\\n" : (char[]){text.data[i], 0}, stdout);
        }
        qkv_text_free(&text, j->c->ctx);
        last = best;
        bound = (double)p[best];
    }
    printf("\n");
}

static int generate_answer_json(const job *j, const qkv_generated *end)
{
    qkv_json_writer w = cli_object(j->c);
    qkv_json_put_bytes(&w, "text", end->continuation->data ? end->continuation->data : "",
                       end->continuation->len);
    qkv_json_put_ids(&w, "ids", end->ids->data, end->ids->count);
    return cli_answer(j->c, &w);
}

static bool on_piece(void *user, const qkv_generated *piece)
{
    job *j = user;
    bool ends = piece->kind == QKV_GENERATED_END;
    if (j->c->common.json) {
        if (ends)
            j->code = generate_answer_json(j, piece);
    } else if (j->s.show_next) {
        if (piece->kind == QKV_GENERATED_TOKEN)
            generate_show_next(j, piece->probabilities, piece->vocab);
    } else {
        (void)fwrite(piece->text, 1, piece->len, stdout);
        if (ends)
            printf("\n%s", piece->index + 1 < j->o.count ? "\n" : "");
    }
    if (j->code == CLI_DONE)
        j->code = cli_flush();
    return j->code == CLI_DONE && !cli_stopped();
}

static int use_generate_run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, qkv_pipeline_generate_table(), &j.o);
    cli_bind(c, &table, &j.s);
    if (cli_parse(c, argc, argv, 1, 1))
        return CLI_USAGE;
    if (j.s.show_next && c->common.json)
        return cli_usage(c, "--json and --show-next: one of them expected, found both");
    if (j.o.file && qkv_options_given(c->options, "prompt"))
        return cli_usage(c, "--prompt and --file: one of them expected, found both");
    j.o.seed = c->common.seed;
    cli_catch_signals();
    cli_listen_notes(c);
    qkv_status status = qkv_pipeline_open(&j.p, c->ctx, c->args.items[0]);
    if (!status)
        status = qkv_pipeline_generate(j.p, &j.o, on_piece, &j);
    qkv_pipeline_close(j.p);
    return status ? cli_error(c) : j.code;
}

static const char *const examples[] = {
    "qkv generate runs/book --prompt \"It was\" --tokens 500",
    "qkv generate runs/book --prompt \"It was\" --greedy --json",
    "qkv generate runs/book --prompt \"It was\" --tokens 10 --show-next 5", NULL};

static const qkv_preset presets[] = {{"prompt", "\n", "a new line"}, {NULL, NULL, NULL}};

CLI_COMMAND(cli_generate, 400) = {
    .manual = {.name = "generate", .summary = "continue a text", .usage = "DIR [options]",
               .text = "Prints the prompt and, as they are made, the tokens that the model draws "
                       "to continue it. The same --seed gives the same text.",
               .examples = examples, .presets = presets},
    .library = {qkv_pipeline_generate_table},
    .own = {&table}, .run = use_generate_run};
