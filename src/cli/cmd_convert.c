/* cmd_convert.c - `qkv convert`: a model directory, read and written again in another number
 * type or in shards, or as a file with another library's names; or a file of PyTorch's or with
 * such names, made such a directory. It changes how a model is stored, never what it is. */
#include <string.h>

#include "cli/commands.h"
#include "io/file.h"
#include "io/pytorch.h"
#include "qkv/hub.h"
#include "qkv/mae.h"

typedef struct {
    int dtype, to;
    size_t shard;
    const char *under;
    bool skip_objects;
    size_t heads, decoder_heads;
    double norm_eps;
    bool norm_pix;
} settings;

enum { TO_DIRECTORY, TO_TIMM, TO_MAE };
static const char *const targets[] = {"directory", "timm", "mae", NULL};

static const char *const dtypes[] = {"f32", "f16", "bf16", NULL};
static const qkv_store stores[] = {QKV_STORE_F32, QKV_STORE_F16, QKV_STORE_BF16};

static const qkv_option rows[] = {
    {.flag = "dtype", .type = QKV_OPT_ENUM, .offset = offsetof(settings, dtype), .names = dtypes,
     .initial = "f32", .help = "how numbers are stored; without it a FILE's stay as they are"},
    {.flag = "shard", .type = QKV_OPT_SIZE, .max = 1e6, .offset = offsetof(settings, shard),
     .value = "MB", .initial = "0", .help = "split files beyond this many megabytes; 0: never"},
    {.flag = "under", .type = QKV_OPT_STRING, .offset = offsetof(settings, under),
     .value = "NAME", .help = "of a FILE, only the tensors beneath that name: state_dict"},
    {.flag = "skip-objects", .type = QKV_OPT_BOOL, .offset = offsetof(settings, skip_objects),
     .help = "of a FILE, leave out objects of unknown classes instead of refusing it"},
    {.flag = "to", .type = QKV_OPT_ENUM, .offset = offsetof(settings, to), .names = targets,
     .initial = "directory", .help = "what OUT is: a directory, or a .safetensors or .pth file "
                                     "with the names of timm or of facebookresearch/mae"},
    {.key = "num_attention_heads", .type = QKV_OPT_SIZE, .max = 1e6, .initial = "0",
     .offset = offsetof(settings, heads), .help = "of such a FILE; 0: hidden_size / 64"},
    {.key = "decoder_num_attention_heads", .type = QKV_OPT_SIZE, .max = 1e6, .initial = "0",
     .offset = offsetof(settings, decoder_heads), .help = "0: decoder_hidden_size / 32"},
    {.key = "layer_norm_eps", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     .initial = "1e-6", .offset = offsetof(settings, norm_eps),
     .help = "added to the variance in LayerNorm"},
    {.key = "norm_pix_loss", .type = QKV_OPT_BOOL, .offset = offsetof(settings, norm_pix),
     .help = "it learnt each patch less its mean, over its deviation"},
};
static const qkv_option_table table = {"Converting", rows, sizeof rows / sizeof *rows};

/* What a model directory holds beside the model, byte for byte. */
static const char *const companions[] = {
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "vocab.json", "merges.txt", "encoder.json", "vocab.bpe", "added_tokens.json", "vocab.txt",
    "tokenizer.model", "source.spm", "target.spm", "chat_template.jinja",
    "preprocessor_config.json", NULL};

/* Beside a FILE of PyTorch's, which holds no configuration. */
static const char *const file_companions[] = {"config.json", NULL};

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

static qkv_status copy_files(qkv_context *ctx, const char *from, const char *to,
                             const char *const *names)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; names[i] && !status; i++)
        status = copy_file(ctx, from, to, names[i]);
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

static int convert_directory(cli *c, const settings *s, const char *from, const char *to)
{
    qkv_model *m = NULL;
    qkv_hub_save_options o = qkv_hub_save_defaults();
    o.store = stores[s->dtype];
    o.shard_bytes = s->shard * 1000000;
    qkv_status status = qkv_hub_load(&m, c->ctx, from);
    if (!status)
        status = qkv_hub_save(m, to, &o);
    if (!status)
        status = copy_files(c->ctx, from, to, companions);
    if (!status)
        cli_note(c, "%s: %zu numbers in %zu parameters", to,
                 qkv_params_elements(qkv_model_params(m)), qkv_params_count(qkv_model_params(m)));
    qkv_model_destroy(m);
    return status ? cli_error(c) : CLI_DONE;
}

/* What stands beside the file comes along, so that the directory is a model where it can be. */
static qkv_status copy_neighbours(qkv_context *ctx, const char *file, const char *to)
{
    qkv__str from;
    qkv__str_init(&from, ctx);
    size_t folder = (size_t)(qkv__path_name(file) - file);
    qkv__str_add(&from, folder ? file : ".", folder ? folder : 1);
    qkv_status status = from.failed ? QKV_E_MEMORY : QKV_OK;
    if (!status)
        status = copy_files(ctx, from.data, to, file_companions);
    if (!status)
        status = copy_files(ctx, from.data, to, companions);
    qkv__str_free(&from);
    return status;
}

/* ---- another library's names ------------------------------------------------------------- */

/* Says what was taken to be so because no shape tells it. */
static void note_guesses(const cli *c, const settings *s, const qkv_model *m)
{
    bool mae = qkv_model_type_of(m) == &qkv_mae_type;
    const qkv_mae_config *full = qkv_model_config(m);
    const qkv_vit_config *vit = qkv_model_config(m);
    const qkv_patches_config *t = mae ? &full->trunk : &vit->trunk;
    const qkv_picture_format *p = qkv_model_pictures(m);
    if (!s->heads)
        cli_note(c, "num_attention_heads is taken to be %zu, hidden_size / 64: --set "
                 "num_attention_heads=N says otherwise", t->heads);
    if (mae && !s->decoder_heads)
        cli_note(c, "decoder_num_attention_heads is taken to be %zu, decoder_hidden_size / 32",
                 full->decoder_heads);
    if (p)
        cli_note(c, "preprocessor_config.json: pictures are taken to be normalised with mean %g "
                 "and deviation %g of red", p->mean[0], p->std[0]);
}

static int save_imported(cli *c, const settings *s, qkv_model *m, const char *to)
{
    qkv_hub_save_options o = qkv_hub_save_defaults();
    o.store = stores[s->dtype];
    o.shard_bytes = s->shard * 1000000;
    if (qkv_hub_save(m, to, &o))
        return cli_error(c);
    cli_note(c, "%s: a %s of %zu numbers", to, qkv_model_type_name(qkv_model_type_of(m)),
             qkv_params_elements(qkv_model_params(m)));
    note_guesses(c, s, m);
    return CLI_DONE;
}

/* The shape of a vit or vit_mae is what the other library's code makes by itself. */
static int convert_out(cli *c, const settings *s, const char *from, const char *to)
{
    qkv_model *m = NULL;
    qkv_hub_save_options o = qkv_hub_save_defaults();
    o.store = stores[s->dtype];
    o.shard_bytes = s->shard * 1000000;
    const qkv_model_type *type = s->to == TO_MAE ? &qkv_mae_type : &qkv_vit_type;
    if (qkv_hub_load(&m, c->ctx, from))
        return cli_error(c);
    const char *name = qkv_model_type_name(qkv_model_type_of(m));
    int code = CLI_DONE;
    if (qkv_model_type_of(m) != type)
        code = cli_fail("%s: --to %s writes a %s, found a %s", from, targets[s->to],
                        qkv_model_type_name(type), name);
    else if (qkv_hub_export(m, to, &o))
        code = cli_error(c);
    else
        cli_note(c, "%s: %zu numbers; num_attention_heads and layer_norm_eps are not in it", to,
                 qkv_params_elements(qkv_model_params(m)));
    qkv_model_destroy(m);
    return code;
}

/* ---- files --------------------------------------------------------------------------------- */

static int convert_pytorch(cli *c, const settings *s, const char *from, const char *to)
{
    qkv__pytorch *p = NULL;
    qkv__pytorch_options o = {.under = s->under, .skip_objects = s->skip_objects};
    bool given = qkv_options_given(c->options, "dtype");
    qkv_status status = qkv__pytorch_open(&p, c->ctx, from, &o);
    char *target = status ? NULL : qkv__path_join(c->ctx, to, "model.safetensors");
    if (!status && !target)
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv__dir_create(c->ctx, to);
    if (!status)
        status = qkv__pytorch_save(p, target, given ? stores[s->dtype] : QKV_STORE_NONE,
                                   s->shard * 1000000);
    if (!status)
        status = copy_neighbours(c->ctx, from, to);
    if (!status)
        cli_note(c, "%s: %zu tensors; %zu other values left out", to, qkv__pytorch_count(p),
                 qkv__pytorch_left_out(p));
    qkv__free(c->ctx, target);
    qkv__pytorch_close(p);
    return status ? cli_error(c) : CLI_DONE;
}

static int convert_file(cli *c, const settings *s, const char *from, const char *to)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(from), k = sizeof end - 1;
    qkv_model *m = NULL;
    const qkv_hub_import_options o = {s->under,    s->skip_objects, s->heads, s->decoder_heads,
                                      s->norm_eps, s->norm_pix};
    if (qkv_hub_import(&m, c->ctx, from, &o))
        return cli_error(c);
    int code = m                                          ? save_imported(c, s, m, to)
               : n >= k && strcmp(from + n - k, end) == 0 ? cli_fail(
                     "%s: expected the names of timm or of facebookresearch/mae "
                     "(patch_embed.proj.weight), found others", from)
                                                          : convert_pytorch(c, s, from, to);
    qkv_model_destroy(m);
    return code;
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
    bool file = qkv__file_exists(from) && !qkv__dir_exists(from);
    if (s.to && file)
        return cli_usage(c, "--to %s: %s is no model directory", targets[s.to], from);
    if (s.to && qkv__file_exists(to))
        return cli_fail("%s is there already: name another file", to);
    if (s.to)
        return convert_out(c, &s, from, to);
    if (!file && (s.under || s.skip_objects))
        return cli_usage(c, "%s: %s is no file", s.under ? "--under" : "--skip-objects", from);
    return file ? convert_file(c, &s, from, to) : convert_directory(c, &s, from, to);
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv convert runs/book runs/book-bf16 --dtype bf16",
    "qkv convert runs/book runs/book-shards --shard 1",
    "qkv convert gpt2/pytorch_model.bin gpt2-new",
    "qkv convert last.ckpt vqgan --under state_dict --skip-objects",
    "qkv convert vit_tiny.safetensors runs/tiny",
    "qkv convert runs/digits digits.safetensors --to timm",
    "qkv convert runs/mae mae.pth --to mae", NULL};

const cli_command cli_convert = {
    .manual = {.name = "convert", .summary = "store a model in another number type, or in shards",
               .usage = "DIR|FILE OUT [options]",
               .text = "Reads a model directory and writes it to another, which must be empty or "
                       "missing. Tokeniser files are copied. A FILE is one that PyTorch saved "
                       "(.bin, .pth, .pt, .ckpt): its tensors become model.safetensors, named by "
                       "the keys that lead to them with dots between, and config.json and "
                       "tokeniser files beside it are copied. Code in it is never run: a file "
                       "that asks for any class or function but those that make tensors and "
                       "containers is refused by that name, or with --skip-objects read without "
                       "what it asked for. A FILE whose tensors have the names of timm's Vision "
                       "Transformer or of facebookresearch/mae, .safetensors too, becomes a "
                       "directory with a config.json derived from shapes; --to timm and --to mae "
                       "write such a file.",
               .examples = examples, .tables = tables},
    .run = run};
