/* convert.c - `qkv convert`: a model directory, read and written again in another number
 * type or in shards, or as a file with another library's names; or a file of PyTorch's or with
 * such names, made such a directory. It changes how a model is stored, never what it is. */
#include <string.h>

#include "core/commands.h"
#include "pipeline/prior.h"
#include "io/file.h"
#include "pytorch/pytorch.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"
#include "qkv/mae.h"

typedef struct {
    int dtype, to;
    size_t shard;
    const char *under, *lpips;
    bool skip_objects;
    size_t heads, decoder_heads, side, before;
    double norm_eps;
    bool norm_pix;
} settings;

enum { TO_DIRECTORY, TO_TIMM, TO_MAE, TO_TAMING };
static const char *const targets[] = {"directory", "timm", "mae", "taming", NULL};

/* Where a prior's directory has its VQGANs, and where taming-transformers' file has them. */
enum { VQGAN, CONDITION, CODERS };
static const char *const coders[CODERS][2] = {{QKV__PRIOR_VQGAN, "first_stage_model"},
                                              {QKV__PRIOR_CONDITION, "cond_stage_model"}};

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
     .initial = "directory",
     .help = "what OUT is: a directory, a .safetensors or .pth file with the names of timm or of "
             "facebookresearch/mae, or a checkpoint of taming-transformers"},
    {.flag = "lpips", .type = QKV_OPT_STRING, .offset = offsetof(settings, lpips), .value = "FILE",
     .help = "weights of LPIPS' distance, for a FILE that holds VGG16"},
    {.key = "num_attention_heads", .type = QKV_OPT_SIZE, .max = 1e6, .initial = "0",
     .offset = offsetof(settings, heads), .help = "of such a FILE; 0: hidden_size / 64"},
    {.key = "decoder_num_attention_heads", .type = QKV_OPT_SIZE, .max = 1e6, .initial = "0",
     .offset = offsetof(settings, decoder_heads), .help = "0: decoder_hidden_size / 32"},
    {.key = "layer_norm_eps", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     .initial = "1e-6", .offset = offsetof(settings, norm_eps),
     .help = "added to the variance in LayerNorm"},
    {.key = "norm_pix_loss", .type = QKV_OPT_BOOL, .offset = offsetof(settings, norm_pix),
     .help = "it learnt each patch less its mean, over its deviation"},
    {.key = "resolution", .type = QKV_OPT_SIZE, .max = 65536, .initial = "256",
     .offset = offsetof(settings, side), .help = "side of the pictures that a VQGAN learnt from"},
    {.key = "condition_length", .type = QKV_OPT_SIZE, .max = 1e6, .initial = "0",
     .offset = offsetof(settings, before),
     .help = "tokens before a prior's codes; 0: half its positions, if they are twice a square, "
             "else 1"},
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
    char *source = qkv_path_join(ctx, from, name), *target = qkv_path_join(ctx, to, name);
    char *data = NULL;
    size_t size = 0;
    qkv_status status = source && target ? QKV_OK : QKV_E_MEMORY;
    if (!status && qkv_file_exists(source)) {
        status = qkv_file_read(ctx, source, 0, &data, &size);
        if (!status)
            status = qkv_file_write(ctx, target, data, size);
    }
    qkv_free(ctx, data);
    qkv_free(ctx, source);
    qkv_free(ctx, target);
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
    qkv_names names = {0};
    if (!qkv_dir_exists(dir))
        return CLI_DONE;
    if (qkv_dir_list(&names, c->ctx, dir))
        return cli_error(c);
    size_t count = names.count;
    qkv_names_free(&names);
    return count ? cli_fail("%s is not empty: name another directory", dir) : CLI_DONE;
}

/* ---- directories ------------------------------------------------------------------------- */

static qkv_status save(const settings *s, qkv_model *m, const char *to)
{
    qkv_hub_save_options o = qkv_hub_save_defaults();
    o.store = stores[s->dtype];
    o.shard_bytes = s->shard * 1000000;
    return qkv_hub_save(m, to, &o);
}

/* A prior's directory has its VQGANs in others inside; NULL: none. Other models have none. */
static qkv_status load_coders(qkv_model *out[CODERS], cli *c, const qkv_model *m, const char *dir)
{
    qkv_status status = QKV_OK;
    bool prior = qkv_model_type_of(m) == &qkv_prior_type;
    for (size_t i = 0; i < CODERS && prior && !status; i++) {
        char *path = qkv_path_join(c->ctx, dir, coders[i][0]);
        status = path ? QKV_OK : QKV_E_MEMORY;
        if (!status && qkv_dir_exists(path))
            status = qkv__codec_load(&out[i], c->ctx, path);
        qkv_free(c->ctx, path);
    }
    return status;
}

static qkv_status save_coders(cli *c, const settings *s, qkv_model *const inside[CODERS],
                              const char *to)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < CODERS && !status; i++) {
        char *path = inside[i] ? qkv_path_join(c->ctx, to, coders[i][0]) : NULL;
        if (inside[i])
            status = path ? save(s, inside[i], path) : QKV_E_MEMORY;
        if (inside[i] && !status)
            cli_note(c, "%s: a %s of %zu numbers", path, qkv_model_type_name(&qkv_vqgan_type),
                     qkv_params_elements(qkv_model_params(inside[i])));
        qkv_free(c->ctx, path);
    }
    return status;
}

static void destroy_coders(qkv_model *const inside[CODERS])
{
    for (size_t i = 0; i < CODERS; i++)
        qkv_model_destroy(inside[i]);
}

static int convert_directory(cli *c, const settings *s, const char *from, const char *to)
{
    qkv_model *m = NULL, *inside[CODERS] = {0};
    qkv_status status = qkv_hub_load(&m, c->ctx, from);
    if (!status)
        status = load_coders(inside, c, m, from);
    if (!status)
        status = save(s, m, to);
    if (!status)
        status = copy_files(c->ctx, from, to, companions);
    if (!status)
        cli_note(c, "%s: %zu numbers in %zu parameters", to,
                 qkv_params_elements(qkv_model_params(m)), qkv_params_count(qkv_model_params(m)));
    if (!status)
        status = save_coders(c, s, inside, to);
    destroy_coders(inside);
    qkv_model_destroy(m);
    return status ? cli_error(c) : CLI_DONE;
}

/* What stands beside the file comes along, so that the directory is a model where it can be. */
static qkv_status copy_neighbours(qkv_context *ctx, const char *file, const char *to)
{
    qkv_str from;
    qkv_str_init(&from, ctx);
    size_t folder = (size_t)(qkv_path_name(file) - file);
    qkv_str_add(&from, folder ? file : ".", folder ? folder : 1);
    qkv_status status = from.failed ? QKV_E_MEMORY : QKV_OK;
    if (!status)
        status = copy_files(ctx, from.data, to, file_companions);
    if (!status)
        status = copy_files(ctx, from.data, to, companions);
    qkv_str_free(&from);
    return status;
}

/* ---- another library's names ------------------------------------------------------------- */

/* Says what was taken to be so because no shape tells it. coded: it is a prior with a VQGAN. */
static void note_guesses(const cli *c, const settings *s, const qkv_model *m, bool coded)
{
    const qkv_model_type *type = qkv_model_type_of(m);
    bool mae = type == &qkv_mae_type, patches = mae || type == &qkv_vit_type;
    const qkv_mae_config *full = qkv_model_config(m);
    const qkv_vit_config *vit = qkv_model_config(m);
    const qkv_gpt_config *gpt = qkv_model_config(m);
    const qkv_picture_format *p = qkv_model_pictures(m);
    if (!s->heads && (patches || type == &qkv_prior_type))
        cli_note(c, "num_attention_heads is taken to be %zu, hidden_size / 64: --set "
                 "num_attention_heads=N says otherwise",
                 mae       ? full->trunk.heads
                 : patches ? vit->trunk.heads
                           : gpt->heads);
    if (mae && !s->decoder_heads)
        cli_note(c, "decoder_num_attention_heads is taken to be %zu, decoder_hidden_size / 32",
                 full->decoder_heads);
    if (patches && p)
        cli_note(c, "preprocessor_config.json: pictures are taken to be normalised with mean %g "
                 "and deviation %g of red", p->mean[0], p->std[0]);
    if (type == &qkv_prior_type)
        cli_note(c, "its codes are taken to be %zu x %zu behind %zu others: --set "
                 "condition_length=N says otherwise", gpt->rows, gpt->columns, gpt->before);
    if ((coded || type == &qkv_vqgan_type) && !qkv_options_given(c->options, "resolution"))
        cli_note(c, "resolution is taken to be %zu: --set resolution=N says otherwise", s->side);
}

/* left_out: tensors of the file that had no use. */
static int save_imported(cli *c, const settings *s, qkv_model *m, qkv_model *const inside[CODERS],
                         const char *to, size_t left_out)
{
    if (save(s, m, to) || save_coders(c, s, inside, to))
        return cli_error(c);
    cli_note(c, "%s: a %s of %zu numbers", to, qkv_model_type_name(qkv_model_type_of(m)),
             qkv_params_elements(qkv_model_params(m)));
    if (left_out)
        cli_note(c, "%zu tensors of the file are no part of it", left_out);
    note_guesses(c, s, m, inside[VQGAN] != NULL);
    return CLI_DONE;
}

/* What --to writes, as a sentence calls it, and which models that are. */
static const struct {
    const char *words;
    const qkv_model_type *types[2];
} written[] = {[TO_TIMM] = {"vit", {&qkv_vit_type}},
               [TO_MAE] = {"vit_mae", {&qkv_mae_type}},
               [TO_TAMING] = {"qkv_vqgan or qkv_prior", {&qkv_vqgan_type, &qkv_prior_type}}};

static void note_written(const cli *c, const qkv_model_type *type, const char *to)
{
    cli_note(c, "%s: %s not in it", to,
             type == &qkv_vqgan_type   ? "resolution is"
             : type == &qkv_prior_type ? "n_head is"
                                       : "num_attention_heads and layer_norm_eps are");
}

/* The shape of a vit or vit_mae is what the other library's code makes by itself. */
static int convert_out(cli *c, const settings *s, const char *from, const char *to)
{
    qkv_model *m = NULL, *inside[CODERS] = {0};
    qkv_hub_save_options o = qkv_hub_save_defaults();
    o.store = stores[s->dtype];
    o.shard_bytes = s->shard * 1000000;
    if (qkv_hub_load(&m, c->ctx, from))
        return cli_error(c);
    const qkv_model_type *type = qkv_model_type_of(m), *const *fits = written[s->to].types;
    qkv_status status = load_coders(inside, c, m, from);
    o.vqgan = inside[VQGAN];
    o.condition = inside[CONDITION];
    int code = CLI_DONE;
    if (type != fits[0] && type != fits[1])
        code = cli_fail("%s: --to %s writes a %s, found a %s", from, targets[s->to],
                        written[s->to].words, qkv_model_type_name(type));
    else if (status || qkv_hub_export(m, to, &o))
        code = cli_error(c);
    else
        note_written(c, type, to);
    destroy_coders(inside);
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
    char *target = status ? NULL : qkv_path_join(c->ctx, to, "model.safetensors");
    if (!status && !target)
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv_dir_create(c->ctx, to);
    if (!status)
        status = qkv__pytorch_save(p, target, given ? stores[s->dtype] : QKV_STORE_NONE,
                                   s->shard * 1000000);
    if (!status)
        status = copy_neighbours(c->ctx, from, to);
    if (!status)
        cli_note(c, "%s: %zu tensors; %zu other values left out", to, qkv__pytorch_count(p),
                 qkv__pytorch_left_out(p));
    qkv_free(c->ctx, target);
    qkv__pytorch_close(p);
    return status ? cli_error(c) : CLI_DONE;
}

static bool is_safetensors(const char *path)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(path), k = sizeof end - 1;
    return n >= k && strcmp(path + n - k, end) == 0;
}

static int refuse_names(const char *from)
{
    return cli_fail("%s: expected the names of timm, of facebookresearch/mae or of "
                    "taming-transformers (patch_embed.proj.weight, encoder.conv_in.weight), found "
                    "others", from);
}

/* Of a file with a model that is known here: the model, and the VQGANs that go with a prior. */
static int convert_named(cli *c, const settings *s, qkv_model *m, const char *from, const char *to,
                         const qkv_hub_import_options *options)
{
    qkv_model *inside[CODERS] = {0};
    bool prior = qkv_model_type_of(m) == &qkv_prior_type;
    size_t left_out = *options->left_out;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < CODERS && prior && !status; i++) {
        qkv_hub_import_options o = *options;
        o.part = coders[i][1];
        status = qkv_hub_import(&inside[i], c->ctx, from, &o);
    }
    int code = status ? cli_error(c) : save_imported(c, s, m, inside, to, prior ? 0 : left_out);
    destroy_coders(inside);
    return code;
}

static int convert_file(cli *c, const settings *s, const char *from, const char *to)
{
    size_t left_out = 0;
    qkv_model *m = NULL;
    const qkv_hub_import_options o = {
        .under = s->under, .skip_objects = s->skip_objects, .heads = s->heads,
        .decoder_heads = s->decoder_heads, .norm_eps = s->norm_eps, .norm_pix = s->norm_pix,
        .side = s->side, .distance = s->lpips, .before = s->before, .left_out = &left_out};
    if (qkv_hub_import(&m, c->ctx, from, &o))
        return cli_error(c);
    int code = m                      ? convert_named(c, s, m, from, to, &o)
               : is_safetensors(from) ? refuse_names(from)
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
    bool file = qkv_file_exists(from) && !qkv_dir_exists(from);
    if (s.to && file)
        return cli_usage(c, "--to %s: %s is no model directory", targets[s.to], from);
    if (s.to == TO_TAMING && is_safetensors(to))
        return cli_usage(c, "--to taming writes a PyTorch file: %s is to be called otherwise", to);
    if (s.to && qkv_file_exists(to))
        return cli_fail("%s is there already: name another file", to);
    if (s.to)
        return convert_out(c, &s, from, to);
    if (!file && (s.under || s.skip_objects || s.lpips))
        return cli_usage(c, "%s: %s is no file", s.under   ? "--under"
                                                 : s.lpips ? "--lpips"
                                                           : "--skip-objects", from);
    return file ? convert_file(c, &s, from, to) : convert_directory(c, &s, from, to);
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv convert runs/book runs/book-bf16 --dtype bf16",
    "qkv convert runs/book runs/book-shards --shard 1",
    "qkv convert gpt2/pytorch_model.bin gpt2-new",
    "qkv convert last.ckpt runs/vqgan --skip-objects",
    "qkv convert runs/vqgan vqgan.ckpt --to taming",
    "qkv convert vgg16-397923af.pth runs/lpips --lpips vgg.pth",
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
                       "Transformer, of facebookresearch/mae or of taming-transformers (VQGAN, the "
                       "prior on its codes, LPIPS), .safetensors too, becomes a directory with a "
                       "config.json derived from shapes; --to timm, --to mae and --to taming write "
                       "such a file. With --lpips VGG16's own file becomes the network that qkv "
                       "train vqgan --lpips asks.",
               .examples = examples, .tables = tables},
    .run = run};
