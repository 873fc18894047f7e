/* cmd_convert.c - `qkv convert`: a model directory, read and written again in another number
 * type or in shards. It changes how a model is stored, never what it is. */
#include <string.h>

#include "cli/commands.h"
#include "io/file.h"
#include "qkv/hub.h"

typedef struct {
    int dtype;
    size_t shard;
} settings;

static const char *const dtypes[] = {"f32", "f16", "bf16", NULL};
static const qkv_store stores[] = {QKV_STORE_F32, QKV_STORE_F16, QKV_STORE_BF16};

static const qkv_option rows[] = {
    {.flag = "dtype", .type = QKV_OPT_ENUM, .offset = offsetof(settings, dtype), .names = dtypes,
     .initial = "f32", .help = "how numbers are stored"},
    {.flag = "shard", .type = QKV_OPT_SIZE, .max = 1e6, .offset = offsetof(settings, shard),
     .value = "MB", .initial = "0", .help = "split files beyond this many megabytes; 0: never"},
};
static const qkv_option_table table = {"Converting", rows, sizeof rows / sizeof *rows};

/* What a model directory holds beside the model, byte for byte. */
static const char *const companions[] = {
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "vocab.json", "merges.txt", "encoder.json", "vocab.bpe", "added_tokens.json", "vocab.txt",
    "tokenizer.model", "source.spm", "target.spm", "chat_template.jinja",
    "preprocessor_config.json", NULL};

static qkv_status copy_file(qkv_context *ctx, const char *from, const char *to, const char *name)
{
    char *source = qkv__path_join(ctx, from, name), *target = qkv__path_join(ctx, to, name);
    char *data = NULL;
    size_t size = 0;
    qkv_status status = source && target ? QKV_OK : QKV_E_MEMORY;
    if (!status && qkv__file_exists(source)) {
        status = qkv__file_read(ctx, source, 0, &data, &size);
        if (!status)
            status = qkv__file_write(ctx, target, data, size);
    }
    qkv__free(ctx, data);
    qkv__free(ctx, source);
    qkv__free(ctx, target);
    return status;
}

static int refuse_target(cli *c, const char *dir)
{
    qkv__names names = {0};
    if (!qkv__dir_exists(dir))
        return CLI_DONE;
    if (qkv__dir_list(&names, c->ctx, dir))
        return cli_error(c);
    size_t count = names.count;
    qkv__names_free(&names);
    return count ? cli_fail("%s is not empty: name another directory", dir) : CLI_DONE;
}

static int run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    if (cli_parse(c, argc, argv, 2, 2))
        return CLI_USAGE;
    const char *from = c->args.items[0], *to = c->args.items[1];
    int code = refuse_target(c, to);
    if (code)
        return code;
    qkv_model *m = NULL;
    qkv_hub_save_options o = qkv_hub_save_defaults();
    o.store = stores[s.dtype];
    o.shard_bytes = s.shard * 1000000;
    qkv_status status = qkv_hub_load(&m, c->ctx, from);
    if (!status)
        status = qkv_hub_save(m, to, &o);
    for (size_t i = 0; companions[i] && !status; i++)
        status = copy_file(c->ctx, from, to, companions[i]);
    if (!status)
        cli_note(c, "%s: %zu numbers in %zu parameters", to,
                 qkv_params_elements(qkv_model_params(m)), qkv_params_count(qkv_model_params(m)));
    code = status ? cli_error(c) : CLI_DONE;
    qkv_model_destroy(m);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv convert runs/book runs/book-bf16 --dtype bf16",
    "qkv convert runs/book runs/book-shards --shard 1", NULL};

const cli_command cli_convert = {
    .manual = {.name = "convert", .summary = "store a model in another number type, or in shards",
               .usage = "DIR OUT [options]",
               .text = "Reads a model directory and writes it to another, which must be empty or "
                       "missing. Tokeniser files are copied.",
               .examples = examples, .tables = tables},
    .run = run};
