/* cmd_bench_tokenize.c - `qkv bench tokenize`: learning byte pairs and encoding, on given text. */
#include <stdio.h>

#include "cli/bench.h"
#include "cli/commands.h"
#include "io/file.h"
#include "qkv/tokenizer.h"

enum { BYTES = 256, PASSES = 5 };

typedef struct {
    qkv_strings file;
    size_t merges;
} settings;

static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_LIST, .flags = QKV_OPT_REQUIRED,
     .offset = offsetof(settings, file), .value = "FILE", .help = "text, one file or more"},
    {.flag = "merges", .type = QKV_OPT_SIZE, .min = 0, .max = 16000000,
     .offset = offsetof(settings, merges), .initial = "10000",
     .help = "pairs that become tokens, beside 256 bytes and the end of text"},
};
static const qkv_option_table table = {"Tokenising", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    settings s;
    qkv__map *maps; /* (s.file.count) */
    qkv_tokenizer *tokenizer;
    size_t bytes, vocab, tokens;
    double train, first, again; /* seconds */
} job;

static qkv_status open_files(job *j)
{
    qkv_context *ctx = j->c->ctx;
    j->maps = qkv__calloc(ctx, j->s.file.count, sizeof *j->maps);
    qkv_status status = j->maps ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < j->s.file.count && !status; i++) {
        status = qkv__map_open(&j->maps[i], ctx, j->s.file.items[i]);
        j->bytes += j->maps[i].size;
    }
    if (!status && j->bytes == 0)
        status = qkv__fail(ctx, QKV_E_FORMAT, "%s: the file is empty", j->s.file.items[0]);
    return status;
}

static qkv_status train(job *j)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    o.vocab = BYTES + 1 + j->s.merges;
    qkv_tokenizer_trainer *tr = NULL;
    double start = qkv__now();
    qkv_status status = qkv_tokenizer_trainer_create(&tr, j->c->ctx, &o);
    for (size_t i = 0; i < j->s.file.count && !status; i++)
        status = qkv_tokenizer_trainer_add(tr, (const char *)j->maps[i].data, j->maps[i].size);
    if (!status)
        status = qkv_tokenizer_trainer_finish(tr, &j->tokenizer);
    j->train = qkv__now() - start;
    qkv_tokenizer_trainer_destroy(tr);
    if (!status)
        j->vocab = qkv_tokenizer_vocab_size(j->tokenizer);
    return status;
}

static qkv_status encode(job *j, qkv_ids *ids, double *seconds)
{
    qkv_status status = QKV_OK;
    double start = qkv__now();
    ids->count = 0;
    for (size_t i = 0; i < j->s.file.count && !status; i++)
        status = qkv_tokenizer_encode(j->tokenizer, (const char *)j->maps[i].data,
                                      j->maps[i].size, QKV_ENCODE_PLAIN, ids);
    *seconds = qkv__now() - start;
    return status;
}

static qkv_status measure(job *j)
{
    qkv_ids ids = {0};
    double seconds[PASSES];
    qkv_status status = open_files(j);
    if (!status)
        status = train(j);
    if (!status)
        status = encode(j, &ids, &j->first);
    for (size_t i = 0; i < PASSES && !status; i++)
        status = encode(j, &ids, &seconds[i]);
    if (!status)
        j->again = bench_median(seconds, PASSES);
    j->tokens = ids.count;
    qkv_ids_free(j->c->ctx, &ids);
    return status;
}

static int answer(job *j)
{
    double bytes = (double)j->bytes;
    const bench_figure figures[] = {
        {"bytes", "text", "bytes", BENCH_COUNT, bytes, 0},
        {"vocab", "vocabulary", "tokens", BENCH_COUNT, (double)j->vocab, 0},
        {"train_s", "learning it", "s", BENCH_REAL, j->train, 0},
        {"encode_mb_per_s", "encoding", "MB/s", BENCH_REAL, bytes / j->first / 1e6, 0},
        {"encode_again_mb_per_s", "encoding it again", "MB/s", BENCH_REAL,
         bytes / j->again / 1e6, 0},
        {"tokens", "encoded", "tokens", BENCH_COUNT, (double)j->tokens, 0},
        {"bytes_per_token", "bytes in a token", "", BENCH_REAL,
         bytes / (double)(j->tokens ? j->tokens : 1), 0},
    };
    return bench_answer(j->c, "byte-pair encoding", figures, sizeof figures / sizeof *figures);
}

static int run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, &table, &j.s);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    int code = measure(&j) ? cli_error(c) : answer(&j);
    qkv_tokenizer_destroy(j.tokenizer);
    for (size_t i = 0; j.maps && i < j.s.file.count; i++)
        qkv__map_close(&j.maps[i]);
    qkv__free(c->ctx, j.maps);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {"qkv bench tokenize --file book.txt --merges 10000", NULL};

const cli_command cli_bench_tokenize = {
    .manual = {.name = "bench tokenize", .summary = "time learning and using byte pairs",
               .usage = "--file FILE... [--merges N]", .examples = examples, .tables = tables,
               .text = "Learns a byte-pair vocabulary from the text and encodes the text with it: "
                       "once, and again when the pieces are known (median of five)."},
    .run = run};
