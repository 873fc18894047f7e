/* convert.c - a model directory or a file of another library, written as the one or the other. */
#include "qkv/convert.h"

#include <string.h>

#include "io/file.h"
#include "pipeline/adapters.h"
#include "pipeline/convert_gguf.h"
#include "pipeline/options.h"
#include "pipeline/prior.h"
#include "pytorch/pytorch.h"
#include "qkv/gguf.h"
#include "qkv/gpt.h"
#include "qkv/mae.h"
#include "tensor/make.h"

static const char *const targets[] = {"directory", "timm", "mae", "taming", "gguf", NULL};
static const char *const dtypes[] = {"auto", "f32", "f16", "bf16", "q8_0", "q4_0", NULL};
static const qkv_store stores[] = {QKV_STORE_NONE, QKV_STORE_F32, QKV_STORE_F16, QKV_STORE_BF16,
                                   QKV_STORE_NONE, QKV_STORE_NONE};

#define FIELD(member) .offset = offsetof(qkv_convert_options, member)
static const qkv_option rows[] = {
    {.flag = "dtype", .type = QKV_OPT_ENUM, FIELD(dtype), .names = dtypes, .initial = "auto",
     .help = "how numbers are stored; auto: f32, but as they are in a FILE of other names; q8_0 "
             "and q4_0: with --to gguf"},
    {.flag = "shard", .type = QKV_OPT_SIZE, .max = 1e6, FIELD(shard), .value = "MB",
     .initial = "0", .help = "split files beyond this many megabytes; 0: never"},
    {.flag = "under", .type = QKV_OPT_STRING, FIELD(import.under), .value = "NAME",
     .help = "of a FILE, only the tensors beneath that name: state_dict"},
    {.flag = "skip-objects", .type = QKV_OPT_BOOL, FIELD(import.skip_objects),
     .help = "of a FILE, leave out objects of unknown classes instead of refusing it"},
    {.flag = "to", .type = QKV_OPT_ENUM, FIELD(to), .names = targets, .initial = "directory",
     .help = "what OUT is: a directory, a .safetensors or .pth file with the names of timm or of "
             "facebookresearch/mae, a checkpoint of taming-transformers, or a GGUF file"},
    {.flag = "lpips", .type = QKV_OPT_STRING, FIELD(import.distance), .value = "FILE",
     .help = "weights of LPIPS' distance, for a FILE that holds VGG16"},
    {.flag = "merge", .type = QKV_OPT_BOOL, FIELD(merge),
     .help = "make LoRA adapters part of the model's matrices"},
    {.flag = "adapter", .type = QKV_OPT_LIST, FIELD(adapters), .value = "DIR[=W]",
     .help = "put this adapter on the model first, W of it"},
    {.key = "weights", .type = QKV_OPT_ENUM, FIELD(weights), .names = qkv__weights_names,
     .initial = "auto", .help = "int8, int4: matrices as `qkv quantize` keeps them"},
    {.key = "num_attention_heads", .type = QKV_OPT_SIZE, .max = 1e6, .initial = "0",
     FIELD(import.heads), .help = "of such a FILE; 0: hidden_size / 64"},
    {.key = "decoder_num_attention_heads", .type = QKV_OPT_SIZE, .max = 1e6, .initial = "0",
     FIELD(import.decoder_heads), .help = "0: decoder_hidden_size / 32"},
    {.key = "layer_norm_eps", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     .initial = "1e-6", FIELD(import.norm_eps), .help = "added to the variance in LayerNorm"},
    {.key = "norm_pix_loss", .type = QKV_OPT_BOOL, FIELD(import.norm_pix),
     .help = "it learnt each patch less its mean, over its standard deviation"},
    {.key = "resolution", .type = QKV_OPT_SIZE, .max = 65536, .initial = "0", FIELD(import.side),
     .help = "side of the images that a VQGAN learnt from; 0: 256"},
    {.key = "condition_length", .type = QKV_OPT_SIZE, .max = 1e6, .initial = "0",
     FIELD(import.before),
     .help = "tokens before a prior's codes; 0: half its positions, if they are twice a square, "
             "else 1"},
};
QKV__OPTIONS(qkv_convert, "Converting")

/* Where a prior's directory has its VQGANs, and where taming-transformers' file has them. */
enum { VQGAN, CONDITION, CODECS };
static const char *const codecs[CODECS][2] = {{QKV__PRIOR_VQGAN, "first_stage_model"},
                                              {QKV__PRIOR_CONDITION, "cond_stage_model"}};

/* One conversion. */
typedef struct {
    qkv_context *ctx;
    const char *from, *to;
    const qkv_convert_options *o;
    qkv_model *model, *inside[CODECS]; /* of a prior: its VQGANs; NULL: none */
    size_t left_out;                   /* tensors of the file that have no use */
} job;

/* What a model directory holds beside the model, byte for byte. */
static const char *const companions[] = {
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "vocab.json", "merges.txt", "encoder.json", "vocab.bpe", "added_tokens.json", "vocab.txt",
    "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model",
    "source.spm", "target.spm", "chat_template.jinja",
    "preprocessor_config.json", NULL};

/* Beside a FILE of PyTorch's, which holds no configuration. */
static const char *const file_companions[] = {"config.json", NULL};

static qkv_status copy_file(qkv_context *ctx, const char *from, const char *to, const char *name)
{
    const qkv_path source = qkv_path_in(from, name);
    char *data;
    size_t size;
    if (!qkv_file_exists(source.text))
        return QKV_OK;
    qkv_status status = qkv_file_read(ctx, source.text, 0, &data, &size);
    if (!status)
        status = qkv_file_write(ctx, qkv_path_in(to, name).text, data, size);
    qkv_free(ctx, data);
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

/* ---- directories ------------------------------------------------------------------------- */

static qkv_hub_save_options save_options(const job *j)
{
    qkv_hub_save_options o = qkv_hub_save_defaults();
    o.store = stores[j->o->dtype];
    o.shard_bytes = j->o->shard * 1000000;
    o.weights = j->o->weights;
    return o;
}

static qkv_status convert_save(const job *j, qkv_model *m, const char *to)
{
    qkv_hub_save_options o = save_options(j);
    if (m != j->model)
        o.weights = QKV_WEIGHTS_AUTO; /* a prior's VQGANs are convolutions */
    if (o.weights > QKV_WEIGHTS_BF16 && qkv_model_type_of(m) == qkv_gpt2_type())
        qkv__note(j->ctx, "%s: for qkv alone. Transformers passes over GPT-2's layers in few bits, "
                  "and would run them with random weights", to);
    return qkv_hub_save(m, to, &o);
}

static bool is_prior(const job *j) { return qkv_model_type_of(j->model) == qkv_prior_type(); }

/* The VQGANs are in directories of their own inside a prior's. */
static qkv_status convert_load(job *j)
{
    qkv_status status = qkv_hub_load(&j->model, j->ctx, j->from);
    if (!status)
        status = qkv__add_adapters(j->model, &j->o->adapters);
    if (!status && j->o->merge && !qkv_model_adapter_count(j->model))
        status = qkv_fail(j->ctx, QKV_E_ARGUMENT, "--merge: %s has no adapter, and --adapter gives "
                          "none", j->from);
    if (!status && j->o->merge)
        status = qkv_model_merge_adapters(j->model);
    for (size_t i = 0; i < CODECS && !status && is_prior(j); i++) {
        const qkv_path path = qkv_path_in(j->from, codecs[i][0]);
        if (qkv_dir_exists(path.text))
            status = qkv__codec_load(&j->inside[i], j->ctx, path.text);
    }
    return status;
}

static qkv_status save_codecs(const job *j)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < CODECS && !status; i++) {
        const qkv_path path = qkv_path_in(j->to, codecs[i][0]);
        if (!j->inside[i])
            continue;
        status = convert_save(j, j->inside[i], path.text);
        if (!status)
            qkv__note(j->ctx, "%s: a %s of %zu numbers", path.text,
                      qkv_model_type_name(qkv_vqgan_type()),
                      qkv_params_elements(qkv_model_params(j->inside[i])));
    }
    return status;
}

/* An adapter without a tokenizer has its base's. */
static qkv_status copy_companions(const job *j)
{
    char *base;
    qkv_status status = qkv_hub_base(&base, j->ctx, j->from);
    if (!status && base)
        status = copy_files(j->ctx, base, j->to, companions);
    qkv_free(j->ctx, base);
    return status ? status : copy_files(j->ctx, j->from, j->to, companions);
}

static qkv_status convert_directory(job *j)
{
    qkv_status status = convert_load(j);
    if (!status)
        status = convert_save(j, j->model, j->to);
    if (!status)
        status = copy_companions(j);
    if (status)
        return status;
    const qkv_params *params = qkv_model_params(j->model);
    qkv__note(j->ctx, "%s: %zu numbers in %zu parameters", j->to, qkv_params_elements(params),
              qkv_params_count(params));
    return save_codecs(j);
}

/* What stands beside the file comes along, so that the directory is a model where it can be. */
static qkv_status copy_neighbours(const job *j)
{
    const qkv_path from = qkv_path_beside(j->from, "");
    qkv_status status = copy_files(j->ctx, from.text, j->to, file_companions);
    return status ? status : copy_files(j->ctx, from.text, j->to, companions);
}

/* ---- another library's names ------------------------------------------------------------- */

/* Says what was taken to be so because no shape tells it. */
static void note_guesses(const job *j)
{
    qkv_context *ctx = j->ctx;
    const qkv_hub_import_options *o = &j->o->import;
    const qkv_model_type *type = qkv_model_type_of(j->model);
    bool mae = type == qkv_mae_type(), patches = mae || type == qkv_vit_type();
    const qkv_mae_config *full = qkv_model_config(j->model);
    const qkv_vit_config *vit = qkv_model_config(j->model);
    const qkv_gpt_config *gpt = qkv_model_config(j->model);
    const qkv_image_format *p = qkv_model_image_format(j->model);
    const qkv_model *vqgan = type == qkv_vqgan_type() ? j->model : j->inside[VQGAN];
    if (!o->heads && (patches || is_prior(j)))
        qkv__note(ctx, "num_attention_heads is taken to be %zu, hidden_size / 64: "
                  "num_attention_heads=N says otherwise",
                  mae       ? full->trunk.heads
                  : patches ? vit->trunk.heads
                            : gpt->heads);
    if (mae && !o->decoder_heads)
        qkv__note(ctx, "decoder_num_attention_heads is taken to be %zu, decoder_hidden_size / 32",
                  full->decoder_heads);
    if (patches && p)
        qkv__note(ctx, "preprocessor_config.json: images are taken to be normalised with mean "
                  "%g and standard deviation %g of red", p->mean[0], p->std[0]);
    if (is_prior(j))
        qkv__note(ctx, "its codes are taken to be %zu x %zu behind %zu others: condition_length=N "
                  "says otherwise", gpt->rows, gpt->columns, gpt->before);
    if (vqgan && !o->side)
        qkv__note(ctx, "resolution is taken to be %zu: resolution=N says otherwise",
                  qkv__codec_config(vqgan)->image);
}

static qkv_status save_imported(const job *j)
{
    qkv_status status = convert_save(j, j->model, j->to);
    if (!status)
        status = save_codecs(j);
    if (status)
        return status;
    qkv__note(j->ctx, "%s: a %s of %zu numbers", j->to,
              qkv_model_type_name(qkv_model_type_of(j->model)),
              qkv_params_elements(qkv_model_params(j->model)));
    if (j->left_out && !is_prior(j))
        qkv__note(j->ctx, "%zu tensors of the file are no part of it", j->left_out);
    note_guesses(j);
    return QKV_OK;
}

/* What each target holds, as a sentence calls it, which models those are, and what is not in it. */
static const struct {
    const char *words;
    const qkv_model_type *(*types[2])(void);
    const char *lacks[2];
} written[] = {
    [QKV_CONVERT_TIMM] = {"vit", {qkv_vit_type},
                          {"num_attention_heads and layer_norm_eps are"}},
    [QKV_CONVERT_MAE] = {"vit_mae", {qkv_mae_type},
                         {"num_attention_heads and layer_norm_eps are"}},
    [QKV_CONVERT_TAMING] = {"qkv_vqgan or qkv_prior", {qkv_vqgan_type, qkv_prior_type},
                            {"resolution is", "n_head is"}}};

/* The shape of a vit or vit_mae is what the other library's code makes by itself. */
static qkv_status convert_out(job *j)
{
    qkv_status status = convert_load(j);
    if (status)
        return status;
    const qkv_model_type *type = qkv_model_type_of(j->model);
    const qkv_model_type *(*const *fits)(void) = written[j->o->to].types;
    const bool second = fits[1] && type == fits[1]();
    if (type != fits[0]() && !second)
        return qkv_fail(j->ctx, QKV_E_UNSUPPORTED, "%s: --to %s writes a %s, found a %s", j->from,
                        targets[j->o->to], written[j->o->to].words, qkv_model_type_name(type));
    qkv_hub_save_options o = save_options(j);
    o.vqgan = j->inside[VQGAN];
    o.condition = j->inside[CONDITION];
    status = qkv_hub_export(j->model, j->to, &o);
    if (!status)
        qkv__note(j->ctx, "%s: %s not in it", j->to, written[j->o->to].lacks[second]);
    return status;
}

/* ---- files --------------------------------------------------------------------------------- */

static qkv_status convert_pytorch(const job *j)
{
    qkv__pytorch *p = NULL;
    const qkv__pytorch_options o = {.under = j->o->import.under,
                                    .skip_objects = j->o->import.skip_objects};
    qkv_status status = qkv__pytorch_open(&p, j->ctx, j->from, &o);
    if (!status)
        status = qkv_dir_create(j->ctx, j->to);
    if (!status)
        status = qkv__pytorch_save(p, qkv_path_in(j->to, "model.safetensors").text,
                                   stores[j->o->dtype], j->o->shard * 1000000);
    if (!status)
        status = copy_neighbours(j);
    if (!status)
        qkv__note(j->ctx, "%s: %zu tensors; %zu other values left out", j->to,
                  qkv__pytorch_count(p), qkv__pytorch_left_out(p));
    qkv__pytorch_close(p);
    return status;
}

static bool is_safetensors(const char *path)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(path), k = sizeof end - 1;
    return n >= k && strcmp(path + n - k, end) == 0;
}

static qkv_status convert_to_gguf(const job *j)
{
    const qkv_convert_dtype dtype = j->o->dtype;
    return qkv__convert_to_gguf(j->ctx, j->from, j->to, dtype ? dtypes[dtype] : NULL, j->o);
}

/* With names that are known here, a model: of a prior, the VQGANs too. */
static qkv_status convert_file(job *j)
{
    const qkv_hub_save_options save = save_options(j);
    if (qkv_gguf_is(j->from))
        return qkv__convert_from_gguf(j->ctx, j->from, j->to, &save);
    qkv_hub_import_options o = j->o->import;
    o.part = NULL;
    o.left_out = &j->left_out;
    qkv_status status = qkv_hub_import(&j->model, j->ctx, j->from, &o);
    if (!status && !j->model && is_safetensors(j->from))
        return qkv_fail(j->ctx, QKV_E_UNSUPPORTED,
                        "%s: expected the names of timm, of facebookresearch/mae or of "
                        "taming-transformers (patch_embed.proj.weight, encoder.conv_in.weight), "
                        "found others", j->from);
    if (!status && !j->model)
        return convert_pytorch(j);
    for (size_t i = 0; i < CODECS && !status && is_prior(j); i++) {
        o.part = codecs[i][1];
        status = qkv_hub_import(&j->inside[i], j->ctx, j->from, &o);
    }
    return status ? status : save_imported(j);
}

/* ---- all ------------------------------------------------------------------------------------ */

static bool is_file(const char *path) { return qkv_file_exists(path) && !qkv_dir_exists(path); }

qkv_status qkv_convert_check(qkv_context *ctx, const char *from, const char *to,
                             const qkv_convert_options *o)
{
    bool file = is_file(from);
    const char *of_file = o->import.under          ? "--under"
                          : o->import.distance     ? "--lpips"
                          : o->import.skip_objects ? "--skip-objects"
                                                   : NULL;
    if (o->to && file)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--to %s: %s is no model directory", targets[o->to],
                        from);
    if (o->to == QKV_CONVERT_TAMING && is_safetensors(to))
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                        "--to taming writes a PyTorch file: %s is to be called otherwise", to);
    if (o->dtype > QKV_CONVERT_BF16 && o->to != QKV_CONVERT_GGUF)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--dtype %s: expected --to gguf", dtypes[o->dtype]);
    if (o->to == QKV_CONVERT_GGUF && o->shard)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--shard: a GGUF file is one");
    if (file && of_file && qkv_gguf_is(from))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %s is a GGUF file", of_file, from);
    if (o->weights == QKV_WEIGHTS_BF16)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "weights=%s: expected int8 or int4",
                        qkv__weights_names[o->weights]);
    if (o->weights > QKV_WEIGHTS_BF16 && o->to)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "weights=%s: --to %s has no such matrices",
                        qkv__weights_names[o->weights], targets[o->to]);
    if (o->weights > QKV_WEIGHTS_BF16 && file)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "weights=%s: expected a model directory, found %s: "
                        "qkv convert makes one of it", qkv__weights_names[o->weights], from);
    if ((o->merge || o->adapters.count) && file)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--%s: %s is no model directory",
                        o->merge ? "merge" : "adapter", from);
    if (!o->to && !file && of_file)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %s is no file", of_file, from);
    return QKV_OK;
}

/* Nothing is written over. */
static qkv_status refuse_target(const job *j)
{
    qkv_names names = {0};
    bool dir = qkv_dir_exists(j->to);
    qkv_status status = dir ? qkv_dir_list(&names, j->ctx, j->to) : QKV_OK;
    size_t count = names.count;
    qkv_names_free(&names);
    if (!status && count)
        return qkv_fail(j->ctx, QKV_E_IO, "%s is not empty: name another directory", j->to);
    if (!status && j->o->to && qkv_file_exists(j->to))
        return qkv_fail(j->ctx, QKV_E_IO, "%s is there already: name another file", j->to);
    return status;
}

qkv_status qkv_convert(qkv_context *ctx, const char *from, const char *to,
                       const qkv_convert_options *options)
{
    const qkv_convert_options o = options ? *options : qkv_convert_defaults();
    job j = {.ctx = ctx, .from = from, .to = to, .o = &o};
    qkv_status status = qkv_convert_check(ctx, from, to, &o);
    if (!status)
        status = refuse_target(&j);
    if (!status)
        status = o.to == QKV_CONVERT_GGUF ? convert_to_gguf(&j)
                 : o.to          ? convert_out(&j)
                 : is_file(from) ? convert_file(&j)
                                 : convert_directory(&j);
    for (size_t i = 0; i < CODECS; i++)
        qkv_model_destroy(j.inside[i]);
    qkv_model_destroy(j.model);
    return status;
}
