/* tokenize.c - `qkv bench tokenize`: learning byte pairs and encoding, on given text or
 * on text that is made up. */
#include <math.h>
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { BYTES = 256, PASSES = 5 };

typedef struct {
    qkv_strings file;
    size_t merges;
} settings;

static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_LIST, .offset = offsetof(settings, file), .value = "FILE",
     .help = "text, one file or more; 4 MB of made-up words"},
    {.flag = "merges", .type = QKV_OPT_SIZE, .min = 0, .max = 16000000,
     .offset = offsetof(settings, merges), .initial = "10000",
     .help = "pairs that become tokens, beside 256 bytes and the end of text"},
};
static const qkv_option_table table = {"Tokenising", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_texts files;
    qkv_str made;
    qkv_text_span made_part;
    const qkv_text_span *texts; /* (count): the files, or made_part */
    size_t count;
    qkv_tokenizer *tokenizer;
    size_t bytes, vocab, tokens;
    double train, first, again; /* seconds */
} job;

/* ---- text ------------------------------------------------------------------------------------ */

/* A language of so many words, the n-th of which is used 1/n times as often as the first (Zipf's
 * law), is enough for 10,000 pairs; so much of its text is as long as the Multi30k captions. */
enum { WORDS = 30000, MADE_BYTES = 4000000, SENTENCE = 12 };

/* The n-th word: the same in every run. Common words are short. */
static void tokenize_add_word(qkv_str *out, uint64_t seed, size_t n)
{
    static const char begin[] = "bcdfghjklmnprstvwz", middle[] = "aeiou", end[] = "lmnrst";
    qkv_rng r;
    qkv_rng_init(&r, seed, n + 1);
    uint32_t syllables = (n > 3000 ? 3 : n > 100 ? 2 : 1) + qkv_rng_below(&r, 2);
    for (uint32_t i = 0; i < syllables; i++) {
        qkv_str_add(out, &begin[qkv_rng_below(&r, sizeof begin - 1)], 1);
        qkv_str_add(out, &middle[qkv_rng_below(&r, sizeof middle - 1)], 1);
        if (qkv_rng_below(&r, 3) == 0)
            qkv_str_add(out, &end[qkv_rng_below(&r, sizeof end - 1)], 1);
    }
}

static qkv_status make_text(job *j)
{
    qkv_rng r;
    uint64_t seed = j->c->common.seed;
    qkv_rng_init(&r, seed, 0);
    qkv_str_init(&j->made, j->c->ctx);
    while (j->made.len < MADE_BYTES && !j->made.failed) {
        tokenize_add_word(&j->made, seed, (size_t)pow(WORDS, qkv_rng_uniform(&r)) - 1);
        uint32_t after = qkv_rng_below(&r, SENTENCE);
        qkv_str_puts(&j->made, after == 0 ? ".\n" : after == 1 ? ", " : " ");
    }
    j->made_part = (qkv_text_span){.data = j->made.data, .len = j->made.len};
    j->texts = &j->made_part;
    j->count = 1;
    return j->made.failed ? QKV_E_MEMORY : QKV_OK;
}

static qkv_status open_files(job *j)
{
    qkv_status status = qkv_texts_open(&j->files, j->c->ctx, &j->s.file);
    j->texts = j->files.spans;
    j->count = j->files.count;
    return status;
}

static qkv_status read_texts(job *j)
{
    qkv_status status = j->s.file.count ? open_files(j) : make_text(j);
    for (size_t i = 0; i < j->count; i++)
        j->bytes += j->texts[i].len;
    return status;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static qkv_status tokenize_train(job *j)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    o.vocab = BYTES + 1 + j->s.merges;
    qkv_tokenizer_trainer *tr = NULL;
    double start = qkv_now();
    qkv_status status = qkv_tokenizer_trainer_create(&tr, j->c->ctx, &o);
    for (size_t i = 0; i < j->count && !status; i++)
        status = qkv_tokenizer_trainer_add(tr, j->texts[i].data, j->texts[i].len);
    if (!status)
        status = qkv_tokenizer_trainer_finish(tr, &j->tokenizer);
    j->train = qkv_now() - start;
    qkv_tokenizer_trainer_destroy(tr);
    if (!status)
        j->vocab = qkv_tokenizer_vocab_size(j->tokenizer);
    return status;
}

static qkv_status tokenize_encode(job *j, qkv_ids *ids, double *seconds)
{
    qkv_status status = QKV_OK;
    double start = qkv_now();
    ids->count = 0;
    for (size_t i = 0; i < j->count && !status; i++)
        status = qkv_tokenizer_encode(j->tokenizer, j->texts[i].data, j->texts[i].len,
                                      QKV_ENCODE_PLAIN, ids);
    *seconds = qkv_now() - start;
    return status;
}

static qkv_status tokenize_measure(job *j)
{
    qkv_ids ids = {0};
    double seconds[PASSES];
    qkv_status status = read_texts(j);
    if (!status)
        status = tokenize_train(j);
    if (!status)
        status = tokenize_encode(j, &ids, &j->first);
    for (size_t i = 0; i < PASSES && !status; i++)
        status = tokenize_encode(j, &ids, &seconds[i]);
    if (!status)
        j->again = bench_median(seconds, PASSES);
    j->tokens = ids.count;
    qkv_ids_free(&ids, j->c->ctx);
    return status;
}

static void tokenize_report(const job *j, bench_report *r)
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
    *r = (bench_report){.reached = bytes / j->first / 1e6, .unit = "MB/s"};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    (void)snprintf(r->title, sizeof r->title, "byte pairs, %zu learnt in %.2f s: encoding",
                   j->vocab > BYTES ? j->vocab - BYTES - 1 : 0, j->train);
}

static qkv_status tokenize_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = tokenize_measure(&j);
    if (!status)
        tokenize_report(&j, out);
    qkv_tokenizer_destroy(j.tokenizer);
    qkv_texts_close(&j.files);
    qkv_str_free(&j.made);
    return status;
}

const bench_measure bench_tokenize = {
    .name = "tokenize", .command = &cli_bench_tokenize, .size = sizeof(settings), .adapt = NULL,
    .measure = tokenize_work};

static const char *const examples[] = {"qkv bench tokenize --file book.txt --merges 10000", NULL};

CLI_COMMAND(cli_bench_tokenize, 760) = {
    .manual = {.name = "bench tokenize", .summary = "time learning and using byte pairs",
               .usage = "[--file FILE...] [--merges N]", .examples = examples,
               .text = "Learns a byte-pair vocabulary from the text and encodes the text with it: "
                       "once, and again when the pieces are known (median of five). Without a "
                       "file the text is made of 30000 invented words, which follow Zipf's law "
                       "as those of languages do."},
    .own = {&table}, .measure = &bench_tokenize, .run = bench_run};
