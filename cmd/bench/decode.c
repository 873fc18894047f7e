/* decode.c - `qkv bench decode`: generating one text, against reading the weights. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 2 };

typedef struct {
    const char *model;
    size_t prompt, tokens, batch;
    int weights; /* a row of bench_weights */
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "gpt2",
     .help = "size: nano tiny mini small medium large gpt2 .."},
    {.flag = "prompt", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(prompt),
     .initial = "16", .help = "tokens that are there already"},
    {.flag = "tokens", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(tokens),
     .initial = "64", .help = "tokens timed, after the prompt and two more"},
    {.flag = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 1024, FIELD(batch), .initial = "1",
     .value = "N", .help = "texts at once, of equal length"},
    {.flag = "weights", .type = QKV_OPT_ENUM, .names = bench_weights, FIELD(weights),
     .initial = "f32", .help = "how matrices are kept in memory"},
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
    qkv_generate_options o = {.tokens = WARM_UPS + j->s.tokens,
                              .sampling = qkv_sampling_defaults()};
    o.sampling.temperature = 0;
    qkv_ids out = {0};
    qkv_status status = qkv_generate(j->model, j->prompt, j->s.prompt, &o, decode_on_token, j,
                                     &out);
    qkv_ids_free(&out, ctx);
    return status;
}

/* One more token of each text, or the prompts. */
static qkv_status decode_step(job *j, qkv_tape *t, qkv_lm_cache *cache, const int32_t *ids,
                              size_t length)
{
    const size_t shape[] = {j->s.batch, length};
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tape_pack(t, true);
    qkv_tensor *x = qkv_lm_hidden(j->model, t, qkv_tensor_ids(t, ids, 2, shape), 0, NULL, cache);
    (void)qkv_lm_logits(j->model, t, qkv_slice(t, x, 1, length - 1, length));
    return qkv_tape_status(t);
}

/* Several texts, whose tokens are drawn beforehand: which they are does not matter here. */
static qkv_status generate_batch(job *j)
{
    qkv_context *ctx = j->c->ctx;
    size_t steps = WARM_UPS + j->s.tokens, ids = j->s.batch * (j->s.prompt + steps);
    qkv_tape *t = NULL;
    qkv_lm_cache *cache = NULL;
    j->prompt = qkv_calloc(ctx, ids, sizeof *j->prompt);
    j->seconds = qkv_calloc(ctx, j->s.tokens, sizeof *j->seconds);
    qkv_status status = j->prompt && j->seconds ? qkv_tape_create(&t, ctx) : QKV_E_MEMORY;
    if (!status)
        status = qkv_lm_cache_create(&cache, j->model, j->s.batch, j->s.prompt + steps);
    if (!status) {
        bench_random_ids(j->prompt, ids, qkv_lm_vocab(j->model), j->c->common.seed);
        status = decode_step(j, t, cache, j->prompt, j->s.prompt);
    }
    for (size_t i = 0; i < steps && !status; i++) {
        double begun = qkv_now();
        status = decode_step(j, t, cache, j->prompt + j->s.batch * (j->s.prompt + i), 1);
        if (i >= WARM_UPS)
            j->seconds[i - WARM_UPS] = qkv_now() - begun;
    }
    qkv_lm_cache_destroy(cache);
    qkv_tape_destroy(t);
    return status;
}

static qkv_status decode_measure(job *j)
{
    qkv_status status = read_bandwidth(j);
    if (!status)
        status = bench_model(j->c->ctx, &j->model, 0, j->s.model,
                             j->s.prompt + WARM_UPS + j->s.tokens, 0);
    if (!status)
        status = qkv_model_init(j->model, j->c->common.seed);
    if (!status)
        status = qkv_params_store(qkv_model_params(j->model), bench_weights_of(j->s.weights));
    if (!status)
        status = j->s.batch > 1 ? generate_batch(j) : generate(j);
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
    double texts = (double)j->s.batch, bytes = weight_bytes(j);
    double rate = 1 / bench_median(j->seconds, j->s.tokens);
    const bench_figure figures[] = {
        {"tokens_per_s", "tokens", "/s", BENCH_REAL, rate * texts, 0},
        {"weight_bytes", texts > 1 ? "weights read per step" : "weights read per token", "MB",
         BENCH_COUNT, bytes, 1e6},
        {"bandwidth", "limit: reading memory", "GB/s", BENCH_REAL, j->bandwidth, 1e9},
        {"of_bandwidth", "of the limit", "", BENCH_PERCENT, rate * bytes / j->bandwidth, 0},
    };
    *r = (bench_report){.reached = rate * texts, .limit = j->bandwidth / bytes * texts,
                        .unit = "tokens/s"};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    (void)snprintf(r->title, sizeof r->title, "generating with %s, %zu %s, %s", j->s.model,
                   j->s.batch, j->s.batch > 1 ? "texts" : "text", bench_weights[j->s.weights]);
}

static qkv_status decode_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = decode_measure(&j);
    if (!status)
        decode_report(&j, out);
    qkv_free(c->ctx, j.seconds);
    qkv_free(c->ctx, j.prompt);
    qkv_model_destroy(j.model);
    return status;
}

static void decode_adapt(void *asked, const bench_request *request)
{
    settings *s = asked;
    s->model = request->model;
}

const bench_measure bench_decode = {"decode", &cli_bench_decode, sizeof(settings), decode_adapt,
                                    decode_work};

static const char *const examples[] = {"qkv bench decode --model gpt2 --json", NULL};

CLI_COMMAND(cli_bench_decode, 730) = {
    .manual = {.name = "bench decode", .summary = "time generating, token by token",
               .usage = "[--model PRESET] [options]", .examples = examples,
               .text = "Median time of a token, greedily chosen, by a GPT in the gpt2 layout with "
                       "50257 tokens and random parameters. The limit is the time it takes to "
                       "read the weights: the best of ten readings of 256 MB, five before and "
                       "five after. With --batch N texts that grow at once, all of their "
                       "tokens."},
    .own = {&table}, .measure = &bench_decode, .run = bench_run};
