/* shortlist.c - `qkv shortlist`: which tokens may translate which, learnt from sentence pairs. */
#include "core/cli.h"

typedef struct {
    const char *out;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out), .value = "FILE",
     .help = "where the shortlist goes"},
};
static const qkv_option_table table = {"Output", rows, sizeof rows / sizeof *rows,
                                       sizeof(settings)};

static int shortlist_answer(cli *c, const qkv_made_shortlist *made, const char *file)
{
    cli_note(c, "%s: %zu lines, translations of %zu tokens, from %zu pairs", file, made->entries,
             made->sources, made->pairs);
    if (!c->common.json)
        return CLI_DONE;
    qkv_json_writer w = cli_object(c);
    qkv_json_put_int(&w, "entries", (int64_t)made->entries);
    qkv_json_put_int(&w, "sources", (int64_t)made->sources);
    qkv_json_put_int(&w, "pairs", (int64_t)made->pairs);
    return cli_answer(c, &w);
}

static int shortlist_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_make_shortlist_options o;
    qkv_made_shortlist made;
    cli_bind(c, &table, &s);
    cli_bind(c, qkv_make_shortlist_table(), &o);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (refused)
        return refused;
    cli_catch_signals();
    if (qkv_make_shortlist(c->ctx, c->args.items[0], s.out, &o, &made))
        return cli_error(c);
    return shortlist_answer(c, &made, s.out);
}

static const char *const examples[] = {
    "qkv shortlist runs/ende --source train.en --target train.de --out lex.s2t",
    "qkv translate runs/ende --shortlist lex.s2t <in.en >out.de", NULL};

CLI_COMMAND(cli_shortlist, 648) = {
    .manual = {.name = "shortlist", .summary = "learn which tokens may translate which",
               .usage = "DIR --source FILE --target FILE --out FILE",
               .text = "Writes a vocabulary shortlist of the translator in DIR: for each source "
                       "token its most probable translations by IBM's model 1, in the text format "
                       "of Marian (\"target source probability\"). With --shortlist `qkv "
                       "translate` multiplies these rows of the output layer alone. The sentences "
                       "that DIR has learnt from are the best to learn it from.",
               .examples = examples},
    .own = {&table}, .library[CLI_BEHIND] = qkv_make_shortlist_table, .run = shortlist_run};
