/* translate.c - `qkv bench translate`: beam search with the base transformer, against the
 * limit of products. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 1 };

typedef struct {
    size_t sentences, length, tokens, beams, shortlist, repeats;
    int weights; /* a row of bench_weights */
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "sentences", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(sentences),
     .initial = "64", .help = "translated at once"},
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(length),
     .initial = "25", .help = "tokens of a sentence"},
    {.flag = "tokens", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(tokens),
     .initial = "25", .help = "tokens of its translation"},
    {.flag = "beam", .type = QKV_OPT_SIZE, .min = 1, .max = QKV_BEAMS, FIELD(beams), .value = "N",
     .initial = "4", .help = "hypotheses kept of each sentence"},
    {.flag = "shortlist", .type = QKV_OPT_SIZE, .max = QKV_TOKENIZER_ID_LIMIT, FIELD(shortlist),
     .initial = "0",
     .help = "most frequent tokens to choose among, and the source's own, timed in turn with all; "
             "0: all alone"},
    {.flag = "weights", .type = QKV_OPT_ENUM, .names = bench_weights, FIELD(weights),
     .initial = "f32", .help = "how matrices are kept in memory"},
    {.flag = "repeats", .type = QKV_OPT_SIZE, .min = 1, .max = 1000, FIELD(repeats),
     .initial = "3", .help = "searches timed, after one that is not"},
};
static const qkv_option_table table = {"Translating", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_beam_search *search, *all; /* all: among all tokens, where search has a shortlist */
    qkv_shortlist *list;
    int32_t *ids, *offsets; /* (sentences length), (sentences + 1) */
    double *seconds, *all_seconds; /* (WARM_UPS + repeats) each: of both by turns */
    size_t passes;
    bench_timing timing; /* of both together, where there are two */
} job;

/* A list of as many tokens as asked for, whatever the sentences. */
static qkv_status take_shortlist(job *j, const qkv_generation *g)
{
    const qkv_marian_config *config = qkv_model_config(j->model);
    const qkv_shortlist_options first = {j->s.shortlist, 0};
    if (!j->s.shortlist)
        return QKV_OK;
    qkv_status status = qkv_shortlist_create(&j->list, j->c->ctx, config->vocab, NULL, 0);
    if (!status)
        status = qkv_beam_search_shortlist(j->search, j->list, &first);
    return status ? status : qkv_beam_search_create(&j->all, j->model, g);
}

static qkv_status translate_prepare(void *user)
{
    job *j = user;
    qkv_context *ctx = j->c->ctx;
    const settings *s = &j->s;
    size_t longest = s->length > s->tokens ? s->length : s->tokens;
    qkv_generation g;
    j->ids = qkv_calloc(ctx, s->sentences, s->length * sizeof *j->ids);
    j->offsets = qkv_calloc(ctx, s->sentences + 1, sizeof *j->offsets);
    j->seconds = qkv_calloc(ctx, 2 * (WARM_UPS + s->repeats), sizeof *j->seconds);
    if (!j->ids || !j->offsets || !j->seconds)
        return QKV_E_MEMORY;
    j->all_seconds = j->seconds + WARM_UPS + s->repeats;
    qkv_status status = bench_transformer(ctx, &j->model, longest, 0);
    if (!status)
        status = qkv_model_init(j->model, j->c->common.seed);
    if (!status)
        status = qkv_params_store(qkv_model_params(j->model), bench_weights_of(s->weights));
    if (status)
        return status;
    const qkv_marian_config *config = qkv_model_config(j->model);
    bench_random_ids(j->ids, s->sentences * s->length, config->vocab - 1, j->c->common.seed);
    for (size_t i = 0; i <= s->sentences; i++)
        j->offsets[i] = (int32_t)(i * s->length);
    qkv_generation_defaults(&g, j->model);
    g.beams = s->beams;
    g.eos_count = 0; /* every translation is as long as asked for */
    g.forced_eos = -1;
    g.max_new_tokens = s->tokens;
    status = qkv_beam_search_create(&j->search, j->model, &g);
    return status ? status : take_shortlist(j, &g);
}

static qkv_status time_search(const job *j, qkv_beam_search *search, double *seconds)
{
    double begun = qkv_now();
    qkv_status status = qkv_beam_search_run(search, j->ids, j->offsets, j->s.sentences);
    *seconds = qkv_now() - begun;
    return status;
}

static qkv_status translate_pass(void *user)
{
    job *j = user;
    size_t i = j->passes++;
    qkv_status status = time_search(j, j->search, &j->seconds[i]);
    return status || !j->all ? status : time_search(j, j->all, &j->all_seconds[i]);
}

/* Rows that go through the decoder: one for the first token, then one a hypothesis. */
static double rows_needed(const settings *s)
{
    return (double)s->sentences * (1 + (double)(s->tokens - 1) * (double)s->beams);
}

/* Tokens that a step chooses among. */
static size_t choices_of(const job *j)
{
    const qkv_beam_stats stats = qkv_beam_search_stats(j->search);
    return stats.choices / stats.rows;
}

/* FLOPs: 2 a row and parameter multiplied with; attention's two products, 4 a row, key and
 * channel. */
static double flops_of(const job *j)
{
    const qkv_marian_config *c = qkv_model_config(j->model);
    const settings *s = &j->s;
    double d = (double)c->width, layers = (double)c->decoder_layers, length = (double)s->length;
    double source = (double)s->sentences * length, out = rows_needed(s);
    double encoder = (double)c->encoder_layers *
                     (4 * d * d + 2 * d * (double)c->encoder_ff_width + 2 * length * d);
    double decoder = layers * (6 * d * d + 2 * d * (double)c->decoder_ff_width +
                               2 * d * (length + ((double)s->tokens + 1) / 2)) +
                     d * (double)choices_of(j);
    return 2 * (source * (encoder + layers * 2 * d * d) + out * decoder);
}

static void bench_translate_report(const job *j, bench_report *r)
{
    const settings *s = &j->s;
    double seconds = bench_median(j->seconds + WARM_UPS, s->repeats), peak = j->timing.peak;
    double flops = flops_of(j);
    double tokens = (double)s->sentences * (double)s->tokens, source =
        (double)s->sentences * (double)s->length;
    double needed = source + rows_needed(s);
    const qkv_beam_stats all = qkv_beam_search_stats(j->search); /* of equal searches */
    double computed = (double)((all.source_rows + all.rows) / (WARM_UPS + s->repeats));
    const bench_figure figures[] = {
        {"tokens_per_s", "tokens", "tokens/s", BENCH_REAL, tokens / seconds, 0},
        {"sentences_per_s", "sentences", "1/s", BENCH_REAL, (double)s->sentences / seconds, 0},
        {"rows", "rows computed", "", BENCH_COUNT, computed, 0},
        {"rows_of_needed", "of the rows needed", "", BENCH_PERCENT, computed / needed, 0},
        {"gflops", "arithmetic", "GFLOP/s", BENCH_REAL, flops / seconds / 1e9, 0},
        {"peak_gflops", "limit: best product", "GFLOP/s", BENCH_REAL, peak / 1e9, 0},
        {"of_peak", "of the limit", "", BENCH_PERCENT, flops / seconds / peak, 0},
    };
    *r = (bench_report){.reached = tokens / seconds, .unit = "tokens/s",
                        .limit = tokens / (flops / peak)};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    const bench_figure memory = bench_memory_figure(j->timing.card, j->timing.memory);
    bench_add_all(r, &memory, 1);
    const bench_figure ratio = {"of_all_tokens", "of all tokens' speed", "", BENCH_PERCENT,
                                bench_median(j->all_seconds + WARM_UPS, s->repeats) / seconds, 0};
    if (j->all)
        bench_add_all(r, &ratio, 1);
    size_t n = (size_t)snprintf(r->title, sizeof r->title, "translating %zu x %zu, beam %zu, %s",
                                s->sentences, s->tokens, s->beams, bench_weights[s->weights]);
    if (j->all && n < sizeof r->title)
        (void)snprintf(r->title + n, sizeof r->title - n, ", shortlist of %zu",
                       choices_of(j));
}

static qkv_status translate_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    j.timing.weights = bench_weights_of(j.s.weights);
    qkv_status status = bench_time(c, &j.timing, WARM_UPS, j.s.repeats, translate_prepare,
                                   translate_pass, &j);
    if (!status)
        bench_translate_report(&j, out);
    qkv_beam_search_destroy(j.search);
    qkv_beam_search_destroy(j.all);
    qkv_shortlist_destroy(j.list);
    qkv_model_destroy(j.model);
    qkv_free(c->ctx, j.ids);
    qkv_free(c->ctx, j.offsets);
    qkv_free(c->ctx, j.seconds);
    return status;
}

/* A small request is one of somebody in a hurry. */
static void translate_adapt(void *asked, const bench_request *request)
{
    settings *s = asked;
    s->repeats = request->repeats < s->repeats ? request->repeats : s->repeats;
    if (request->length < s->length) {
        s->length = s->tokens = request->length;
        s->sentences = 2;
    }
}

const bench_measure bench_translate = {
    .name = "translate", .command = &cli_bench_translate, .size = sizeof(settings),
    .adapt = translate_adapt, .measure = translate_work};

static const char *const examples[] = {"qkv bench translate --json",
                                       "qkv bench translate --shortlist 3000",
                                       "qkv bench translate --beam 1 --sentences 1", NULL};

CLI_COMMAND(cli_bench_translate, 750) = {
    .manual = {.name = "bench translate", .summary = "time translating by beam search",
               .usage = "[options]", .examples = examples,
               .text = "Median time of a search with the base model of \"Attention Is All You "
                       "Need\" (6 + 6 layers of 512, 32001 tokens, random parameters), all "
                       "sentences of one length and no translation ending early. Rows are tokens "
                       "that go through the encoder or the decoder; needed are those of the "
                       "sentences, one for the first token of a translation, and one a hypothesis "
                       "for the others. With --shortlist searches among so many tokens and among "
                       "all take turns, and the figures are of the former. The limit is that of "
                       "`qkv bench prompt`."},
    .own = {&table}, .measure = &bench_translate, .run = bench_run};
