/* decode.c - `qkv bench decode`: generating one text, or several at once, against reading the
 * weights. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 2 };

typedef struct {
    const char *model;
    size_t prompt, tokens, batch;
    int weights; /* a row of bench_weights */
    qkv_kv_store kv;
    qkv_sampling sampling;
} settings;

static const char *const kv_names[] = {"f32", "bf16", "int8", NULL};

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "gpt2",
     .help = "size: nano tiny mini small medium large gpt2 .."},
    {.flag = "prompt", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(prompt),
     .initial = "16", .help = "tokens that are there already"},
    {.flag = "tokens", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(tokens),
     .initial = "64", .help = "tokens timed, after the prompt and two more"},
    {.flag = "weights", .type = QKV_OPT_ENUM, .names = bench_weights, FIELD(weights),
     .initial = "f32", .help = "how matrices are kept in memory"},
    {.flag = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 4096, FIELD(batch), .initial = "1",
     .help = "texts at once, beside one alone"},
    {.flag = "kv", .type = QKV_OPT_ENUM, FIELD(kv), .names = kv_names, .initial = "f32",
     .help = "how the batch stores keys and values"},
    {.flag = "temperature", .type = QKV_OPT_REAL, .max = 100, FIELD(sampling.temperature),
     .initial = "0", .help = "tokens are drawn at this temperature; 0: the likeliest is taken"},
    {.flag = "top-k", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(sampling.top_k), .initial = "0",
     .help = "of the likeliest so many; 0: of all"},
    {.flag = "top-p", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     FIELD(sampling.top_p), .initial = "1",
     .help = "of the fewest that make up this share"},
};
static const qkv_option_table table = {"Generating", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    int32_t *prompt; /* (s.prompt) */
    double *seconds; /* (tokens) from one token to the next */
    size_t made;
    double last;      /* when the last token came */
    double bandwidth; /* bytes/s */
    const char *card; /* NULL: on the processor */
    size_t memory;    /* bytes of the card's, most */
    double *steps;    /* (tokens) of the batch, from one step to the next */
    size_t cache;     /* bytes */
} job;

static bool decode_on_token(void *user, int32_t id, const qkv_real *probabilities,
                            const qkv_real *model, size_t V)
{
    (void)id, (void)probabilities, (void)model, (void)V;
    job *j = user;
    double now = qkv_now();
    if (j->made >= WARM_UPS)
        j->seconds[j->made - WARM_UPS] = now - j->last;
    j->last = now;
    j->made++;
    return true;
}

static qkv_status read_bandwidth(job *j)
{
    double now = qkv_machine_read_bandwidth(j->c->ctx);
    if (now > j->bandwidth)
        j->bandwidth = now;
    return now > 0 ? QKV_OK : qkv_context_status(j->c->ctx);
}

static qkv_status generate(job *j)
{
    qkv_context *ctx = j->c->ctx;
    j->prompt = qkv_calloc(ctx, j->s.prompt, sizeof *j->prompt);
    j->seconds = qkv_calloc(ctx, j->s.tokens, sizeof *j->seconds);
    if (!j->prompt || !j->seconds)
        return QKV_E_MEMORY;
    bench_random_ids(j->prompt, j->s.prompt, qkv_lm_vocab(j->model), j->c->common.seed);
    const qkv_generate_options o = {.tokens = WARM_UPS + j->s.tokens, .sampling = j->s.sampling};
    qkv_ids out = {0};
    qkv_status status = qkv_generate(j->model, j->prompt, j->s.prompt, &o, decode_on_token, j,
                                     &out);
    qkv_ids_free(&out, ctx);
    return status;
}

/* The batch, with other prompts; its steps are timed once all have read theirs. */
static qkv_status decode_fill_batch(job *j, qkv_batch *b, const qkv_generate_options *o)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < j->s.batch && !status; i++) {
        bench_random_ids(j->prompt, j->s.prompt, qkv_lm_vocab(j->model),
                         j->c->common.seed + 1 + i);
        status = qkv_batch_add(b, j->prompt, j->s.prompt, o, NULL);
    }
    const qkv_batch_event *events;
    do
        status = status ? status : qkv_batch_step(b);
    while (!status && qkv_batch_events(b, &events) < j->s.batch);
    return status;
}

static qkv_status decode_time_batch(job *j)
{
    qkv_context *ctx = j->c->ctx;
    qkv_batch *b = NULL;
    qkv_batch_options o = qkv_batch_defaults();
    o.sequences = j->s.batch;
    o.kv = j->s.kv;
    size_t steps = (j->s.batch * j->s.prompt + o.chunk - 1) / o.chunk; /* until all have read */
    const qkv_generate_options g = {.tokens = steps + WARM_UPS + j->s.tokens,
                                    .sampling = j->s.sampling};
    o.positions = j->s.prompt + g.tokens;
    j->steps = qkv_calloc(ctx, j->s.tokens, sizeof *j->steps);
    qkv_status status = j->steps ? qkv_batch_create(&b, j->model, &o) : QKV_E_MEMORY;
    if (!status)
        status = decode_fill_batch(j, b, &g);
    for (size_t i = 0; i < WARM_UPS - 1 && !status; i++)
        status = qkv_batch_step(b);
    for (size_t i = 0; i < j->s.tokens && !status; i++) {
        double start = qkv_now();
        status = qkv_batch_step(b);
        j->steps[i] = qkv_now() - start;
    }
    if (!status)
        j->cache = qkv_batch_statistics(b).cache_bytes;
    qkv_batch_destroy(b);
    return status;
}

static qkv_status decode_measure(job *j)
{
    j->card = qkv_machine_card(j->c->ctx);
    qkv_status status = j->card ? QKV_OK : read_bandwidth(j); /* its memory would count */
    if (!status)
        status = bench_model(j->c->ctx, &j->model, 0, j->s.model, 0,
                             j->s.prompt * (1 + j->s.batch) + WARM_UPS + j->s.tokens, 0);
    if (!status)
        status = qkv_model_init(j->model, j->c->common.seed);
    if (!status)
        status = qkv_params_store(qkv_model_params(j->model), bench_weights_of(j->s.weights));
    if (!status)
        status = generate(j);
    if (!status && j->s.batch > 1)
        status = decode_time_batch(j);
    j->memory = bench_memory(j->c);
    return status ? status : read_bandwidth(j);
}

/* All parameters are read for every token, the embedding table once as the output layer; of the
 * table of positions one row. */
static double weight_bytes(const job *j)
{
    const qkv_gpt_config *config = qkv_model_config(j->model);
    size_t bytes = qkv_params_bytes(qkv_model_params(j->model));
    return (double)(bytes - config->positions * config->width * sizeof(qkv_real));
}

static void decode_report(job *j, bench_report *r)
{
    double rate = 1 / bench_median(j->seconds, j->s.tokens), bytes = weight_bytes(j);
    const bench_figure figures[] = {
        {"tokens_per_s", "tokens", "/s", BENCH_REAL, rate, 0},
        {"weight_bytes", "weights read per token", "MB", BENCH_COUNT, bytes, 1e6},
        {"bandwidth", j->card ? "limit: copying memory" : "limit: reading memory", "GB/s",
         BENCH_REAL, j->bandwidth, 1e9},
        {"of_bandwidth", "of the limit", "", BENCH_PERCENT, rate * bytes / j->bandwidth, 0},
    };
    *r = (bench_report){.reached = rate, .limit = j->bandwidth / bytes, .unit = "tokens/s"};
    const bench_figure memory = bench_memory_figure(j->card != NULL, j->memory);
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    bench_add_all(r, &memory, 1);
    (void)snprintf(r->title, sizeof r->title, "generating with %s, one text, %s%s", j->s.model,
                   bench_weights[j->s.weights], j->s.sampling.temperature > 0 ? ", drawn" : "");
    if (j->s.batch < 2)
        return;
    double all = (double)j->s.batch / bench_median(j->steps, j->s.tokens);
    const bench_figure together[] = {
        {"batch", "texts at once", "", BENCH_COUNT, (double)j->s.batch, 1},
        {"batch_tokens_per_s", "tokens of all", "/s", BENCH_REAL, all, 0},
        {"of_one", "beside one text", "times", BENCH_REAL, all / rate, 0},
        {"batch_of_bandwidth", "of the limit: weights once a step", "", BENCH_PERCENT,
         all / (double)j->s.batch * bytes / j->bandwidth, 0},
        {"cache_bytes", "their keys and values", "MB", BENCH_COUNT, (double)j->cache, 1e6},
    };
    bench_add_all(r, together, sizeof together / sizeof *together);
}

static qkv_status decode_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = decode_measure(&j);
    if (!status)
        decode_report(&j, out);
    qkv_free(c->ctx, j.seconds);
    qkv_free(c->ctx, j.steps);
    qkv_free(c->ctx, j.prompt);
    qkv_model_destroy(j.model);
    return status;
}

static void decode_adapt(void *asked, const bench_request *request)
{
    settings *s = asked;
    s->model = request->model;
}

const bench_measure bench_decode = {
    .name = "decode", .command = &cli_bench_decode, .size = sizeof(settings), .adapt = decode_adapt,
    .measure = decode_work};

static const char *const examples[] = {"qkv bench decode --model gpt2 --json",
                                       "qkv bench decode --model gpt2 --batch 8",
                                       "qkv bench decode --weights int8 --temperature 0.8 "
                                       "--top-k 50", NULL};

CLI_COMMAND(cli_bench_decode, 730) = {
    .manual = {.name = "bench decode", .summary = "time generating, token by token",
               .usage = "[--model PRESET] [options]", .examples = examples,
               .text = "Median time of a token by a GPT in the gpt2 layout with 50257 tokens and "
                       "random parameters, the likeliest one or, with --temperature, drawn. The "
                       "limit is the time it takes to read the weights: the best of ten readings "
                       "of 256 MB, five before and five after; on a card the rate at which it "
                       "copies within its memory, bytes read and bytes written. --batch N then "
                       "generates N texts at once."},
    .own = {&table}, .measure = &bench_decode, .run = bench_run};
