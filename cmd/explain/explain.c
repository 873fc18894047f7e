/* explain.c - `qkv explain`: attention with every matrix on the page, on the worked example
 * or on the user's own matrices. */
#include <string.h>

#include "core/cli.h"
#include "explain/html.h"

typedef void section_fn(page *p);

static const struct {
    const char *name;
    section_fn *show;
    bool usual; /* shown when no section is named */
} sections[] = {
    {"head", explain_one_head, true},    {"heads", explain_two_heads, true},
    {"positions", explain_positions, true}, {"select", explain_select, false},
    {"plain", explain_plain, false},     {"cosine", explain_cosine, false},
    {"order", explain_order, false},     {"optimizers", explain_optimizers, false},
    {"errata", explain_errata, false},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

typedef struct {
    explain_own own;
    bool permute, optimizers, errata;
    const char *out;
} settings;

#define OWN(field) .offset = offsetof(settings, own.field)
static const qkv_option rows[] = {
    {.flag = "q", .type = QKV_OPT_STRING, OWN(q), .value = "FILE",
     .help = "queries (T, D), .npy or CSV"},
    {.flag = "k", .type = QKV_OPT_STRING, OWN(k), .value = "FILE", .help = "keys (S, D)"},
    {.flag = "v", .type = QKV_OPT_STRING, OWN(v), .value = "FILE", .help = "values (S, D')"},
    {.flag = "x", .type = QKV_OPT_STRING, OWN(x), .value = "FILE",
     .help = "rows that queries, keys and values are made of"},
    {.flag = "wq", .type = QKV_OPT_STRING, OWN(wq), .value = "FILE",
     .help = "Q = X W_Q; without it Q = X"},
    {.flag = "wk", .type = QKV_OPT_STRING, OWN(wk), .value = "FILE",
     .help = "K = X W_K; without it K = X"},
    {.flag = "wv", .type = QKV_OPT_STRING, OWN(wv), .value = "FILE",
     .help = "V = X W_V; without it V = X"},
    {.flag = "heads", .type = QKV_OPT_SIZE, OWN(heads), .min = 1, .max = 1024, .initial = "1",
     .help = "heads that the columns are cut into"},
    {.flag = "causal", .type = QKV_OPT_BOOL, OWN(causal),
     .help = "hide from each row the keys after it"},
    {.flag = "scale", .type = QKV_OPT_REAL, OWN(scale), .max = 1e6, .initial = "0",
     .help = "factor of the scores; 0: 1/sqrt(width of a head); 1: unscaled"},
    {.flag = "wo", .type = QKV_OPT_STRING, OWN(wo), .value = "FILE",
     .help = "of the page: W_O, which mixes the heads; without it the identity"},
    {.flag = "words", .type = QKV_OPT_STRING, OWN(words), .value = "TEXT",
     .help = "of the page: names of the rows, at most 12"},
    {.flag = "biases", .type = QKV_OPT_BOOL, OWN(biases),
     .help = "of the page: add b_Q, b_K, b_V and b_O"},
    {.flag = "positions", .type = QKV_OPT_BOOL, OWN(positions),
     .help = "of the page: add sinusoid positions to X"},
    {.flag = "out", .type = QKV_OPT_STRING, .offset = offsetof(settings, out), .value = "FILE",
     .help = "write the lesson as an HTML page"},
    {.flag = "permute", .type = QKV_OPT_BOOL, .offset = offsetof(settings, permute),
     .help = "the section order: shuffled words, with positions and without"},
    {.flag = "optimizers", .type = QKV_OPT_BOOL, .offset = offsetof(settings, optimizers),
     .help = "the section optimizers: five ways down one valley"},
    {.flag = "errata", .type = QKV_OPT_BOOL, .offset = offsetof(settings, errata),
     .help = "the section errata: wrong entries of a printed copy of the example"},
};
static const qkv_option_table table = {"Own matrices and sections", rows,
                                       sizeof rows / sizeof *rows, 0};

/* Marks the sections that args and flags ask for; false after an unknown name. */
static bool explain_choose(const cli *c, const settings *s, bool wanted[SECTIONS])
{
    bool any = s->permute || s->optimizers || s->errata;
    for (size_t i = 0; i < c->args.count; i++) {
        bool all = strcmp(c->args.items[i], "all") == 0, known = all;
        for (int j = 0; j < SECTIONS; j++)
            if (all || strcmp(c->args.items[i], sections[j].name) == 0)
                wanted[j] = known = true;
        if (!known)
            return false;
        any = true;
    }
    for (int j = 0; j < SECTIONS; j++)
        wanted[j] = wanted[j] || (!any && sections[j].usual) ||
                    (s->permute && sections[j].show == explain_order) ||
                    (s->optimizers && sections[j].show == explain_optimizers) ||
                    (s->errata && sections[j].show == explain_errata);
    return true;
}

static bool wants_own(const cli *c)
{
    for (size_t i = 0; i < table.count; i++)
        if (rows[i].offset < offsetof(settings, permute) &&
            qkv_options_given(c->options, rows[i].flag))
            return true;
    return false;
}

static void show_sections(page *p, const bool wanted[SECTIONS])
{
    bool all = true;
    for (int i = 0; i < SECTIONS && !page_failed(p); i++) {
        all = all && wanted[i];
        if (!wanted[i])
            continue;
        qkv_tape_reset(p->t);
        sections[i].show(p);
    }
    if (!all)
        page_text(p, "More: qkv explain select, plain, cosine, order, optimizers, errata, or all; "
                     "qkv explain --q FILE --k FILE --v FILE for your own matrices; qkv explain "
                     "--out page.html for a page whose numbers follow its switches.");
}

static int explain_run(cli *c, int argc, char **argv)
{
    settings s;
    bool wanted[SECTIONS] = {false};
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 0, SECTIONS);
    if (refused)
        return refused;
    if (!explain_choose(c, &s, wanted))
        return cli_usage(c, "no such section; there are head, heads, positions, select, plain, "
                            "cosine, order, optimizers, errata and all");
    if (s.out && (c->args.count || s.permute || s.optimizers || s.errata))
        return cli_usage(c, "--out writes the whole lesson: it takes no sections");
    if (s.out)
        return explain_lesson(c, &s.own, s.out);
    for (size_t i = 0; i < table.count; i++)
        if (rows[i].offset >= offsetof(settings, own.wo) &&
            rows[i].offset < offsetof(settings, permute) &&
            qkv_options_given(c->options, rows[i].flag))
            return cli_usage(c, "--wo, --words, --biases and --positions go with --out");
    qkv_json_writer json;
    page p;
    if (page_open(&p, c, &json))
        return CLI_FAILED;
    if (wants_own(c))
        explain_own_matrices(&p, &s.own);
    else
        show_sections(&p, wanted);
    return page_close(&p, page_failed(&p));
}

static const char *const examples[] = {
    "qkv explain", "qkv explain select cosine", "qkv explain --optimizers",
    "qkv explain --out lesson.html --heads 2 --causal", "qkv explain --errata",
    "printf '1,0\\n0,1\\n1,1\\n' > x.csv; qkv explain --x x.csv --causal",
    "qkv explain --q q.npy --k k.npy --v v.npy --heads 2 --json", NULL};

CLI_COMMAND(cli_explain, 100) = {
    .manual = {.name = "explain",
               .summary = "attention, every matrix printed",
               .usage = "[SECTION...] [--q FILE --k FILE --v FILE | --x FILE] [options]",
               .text = "Works through attention with numbers: one head, two heads and positions; "
                       "further sections: select (hard choice as the limit of attention), plain "
                       "(Q = K = V = X), cosine, order, optimizers, errata; all shows them all. "
                       "--out writes a page on which sizes, masks and numbers are changed and "
                       "sinusoids are drawn. With matrices "
                       "of your own, or with --heads, --causal or --scale alone, it "
                       "works through those.",
               .examples = examples},
    .own = {&table}, .run = explain_run};
