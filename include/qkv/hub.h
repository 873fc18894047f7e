/* hub.h - model directories in Hugging Face's layout: config.json, model.safetensors.
 * Layer: hub */
#ifndef QKV_HUB_H
#define QKV_HUB_H

#include <qkv/adapter.h>
#include <qkv/chat.h>
#include <qkv/model.h>
#include <qkv/safetensors.h>
#include <qkv/tokenizer.h>

QKV_BEGIN_DECLS

/* Loads a model: reads config.json and, if present, preprocessor_config.json, creates the model and
 * fills it from model.safetensors or its shards. Every tensor must be present with its shape; an
 * unknown tensor is an error. On failure *out is NULL and the message names the file and field.
 * Here and in qkv_hub_load_with and qkv_hub_load_stored, dir may be a GGUF file. */
qkv_status qkv_hub_load(qkv_model **out, qkv_context *ctx, const char *dir);

/* qkv_hub_load without weights: the parameters are zeros. */
qkv_status qkv_hub_load_config(qkv_model **out, qkv_context *ctx, const char *dir);

/* Load with overrides, each "key=value", that replace settings of config.json (dropout, say). Keys
 * that the model's type does not have are ignored. A size that does not match the weights is an
 * error, as in config.json. */
qkv_status qkv_hub_load_with(qkv_model **out, qkv_context *ctx, const char *dir,
                             qkv_strings changes);
qkv_status qkv_hub_load_config_with(qkv_model **out, qkv_context *ctx, const char *dir,
                                    qkv_strings changes);

/* qkv_hub_load, then qkv_params_store, a parameter at a time: besides the model as it is kept no
 * more than its largest matrix is in memory in f32. AUTO: as the directory has it. */
qkv_status qkv_hub_load_stored(qkv_model **out, qkv_context *ctx, const char *dir,
                               qkv_weights weights);

/* How config.json says that matrices are kept: F32, INT8 or INT4. Loading takes all to f32. Of
 * others' directories those are read that compressed-tensors has packed ("pack-quantized") in
 * symmetric integers of 8 or 4 bits. QKV_E_FORMAT, with the field's name, for other ways. */
qkv_status qkv_hub_weights(qkv_weights *out, qkv_context *ctx, const char *dir);

/* Fills an existing model from the weights in dir. On failure the model may be partly filled. */
qkv_status qkv_hub_load_weights(qkv_model *m, const char *dir);

/* Fills the parameters that the weights in dir have by name, and leaves the others: a classifier
 * from a pretrained model, say. A tensor of another shape is an error, and so is no match at all.
 * On failure the model may be partly filled. */
qkv_status qkv_hub_load_matching(qkv_model *m, const char *dir);

/* Zeroed: the defaults. */
typedef struct {
    qkv_store store;    /* F32, F16 or BF16; QKV_STORE_NONE: F32                       F32 */
    size_t shard_bytes; /* maximum size of a file; 0: one file                           0 */
    qkv_weights weights; /* qkv_hub_save: INT8 or INT4 keeps the matrices of linear layers in so
                            many bits, as compressed-tensors packs them, and tables of tokens in
                            BF16; else all as `store`                                  AUTO */
    qkv_model *vqgan, *condition; /* qkv_hub_export of a prior: its codec, and the VQGAN of its
                                     conditions, to be included                         NULL */
} qkv_hub_save_options;
qkv_hub_save_options qkv_hub_save_defaults(void);

/* Writes config.json, generation_config.json, preprocessor_config.json (if the model has an image
 * format) and the weights, each atomically. Creates the directory. options may be NULL. */
qkv_status qkv_hub_save(qkv_model *m, const char *dir, const qkv_hub_save_options *options);

/* ---- adapters, in PEFT's directories: adapter_config.json, adapter_model.safetensors ---------

 * Such a directory is opened like a model's: the functions above load the model that
 * base_model_name_or_path names (a directory of this machine, absolute, or relative to the working
 * directory or to the adapter's) and put the adapter on it. The tokenizer is the adapter's where it
 * has one, else the base's. qkv_hub_save of a model with one adapter writes the adapter and, as
 * qkv_config.json, the settings of the model, but not the frozen weights. */

/* Puts the adapter in dir on a loaded model, beside those it has. *out is the model's. After a
 * failure the model is to be destroyed. QKV_E_FORMAT, with the field or tensor: what is no LoRA, or
 * has no place in the model. */
qkv_status qkv_hub_add_adapter(qkv_adapter **out, qkv_model *m, const char *dir);

/* The directory of the model beneath an adapter's, to be freed with qkv_free; NULL for a directory
 * that is no adapter's. */
qkv_status qkv_hub_base(char **out, qkv_context *ctx, const char *dir);

/* qkv_tokenizer_load and qkv_chat_template_open; an adapter's directory without a tokenizer or a
 * template has its base's. */
qkv_status qkv_hub_load_tokenizer(qkv_tokenizer **out, qkv_context *ctx, const char *dir);
qkv_status qkv_hub_load_chat_template(qkv_chat_template **out, qkv_context *ctx, const char *dir);

/* ---- files of other libraries: timm, facebookresearch/mae, taming-transformers, VGG16 ---- */

/* Settings that cannot be inferred from tensor shapes. Zeroed: the defaults. */
typedef struct {
    const char *under;    /* key of the model in the file; NULL: the file has one model */
    bool skip_objects;    /* PyTorch file: ignore objects of unknown classes             false */
    size_t heads;         /* 0: width / 64                                                   0 */
    size_t decoder_heads; /* 0: decoder width / 32                                           0 */
    double norm_eps;      /* 0: 1e-6, as in both ViT libraries                               0 */
    bool norm_pix;        /* the model was trained on patches normalised by mean and std
                             false */
    size_t side;          /* VQGAN: side of the training images; 0: 256                    0 */
    const char *distance; /* LPIPS: file with the distance's weights (lin0.model.1.weight), if
                             the other file has only VGG16                                NULL */
    const char *part;     /* prior's file: import the VQGAN under this name, "first_stage_model"
                             or "cond_stage_model"                                        NULL */
    size_t before;        /* prior: tokens before the codes; 0: half of the positions, if they
                             are twice a square, else 1                                      0 */
    size_t *left_out;     /* receives the number of unused tensors (VQGAN, prior, VGG16)  NULL */
} qkv_hub_import_options;

/* Imports a model from a .safetensors file or a PyTorch file with one of these libraries' tensor
 * names: a vit (without a head in the file: 2 classes, zeros), a vit_mae (if there is a decoder), a
 * qkv_prior, a qkv_vqgan with or without its discriminator, or the qkv_perceptual of LPIPS. QKV_OK
 * with *out NULL: other names. options may be NULL. */
qkv_status qkv_hub_import(qkv_model **out, qkv_context *ctx, const char *path,
                          const qkv_hub_import_options *options);

/* Exports weights with these libraries' names. vit and vit_mae: a .safetensors file, or, if path
 * ends in .pth, {"model": ..} for torch.load. qkv_vqgan and qkv_prior: {"state_dict": ..} for
 * torch.load. PyTorch files have at most 2 GiB. The number of heads, norm_eps and the images' side
 * are not stored. QKV_E_UNSUPPORTED for other models. options may be NULL. */
qkv_status qkv_hub_export(qkv_model *m, const char *path, const qkv_hub_save_options *options);

/* ---- generation_config.json: how to search with an encoder-decoder ----------------------- */

/* When the search ends for a sentence that has as many finished hypotheses as beams. */
typedef enum {
    QKV_STOP_UNLIKELY, /* early_stopping false: when the best unfinished hypothesis, ended now,
                          would not score above the worst finished one */
    QKV_STOP_FULL,     /* true: immediately */
    QKV_STOP_NEVER     /* "never": as false, but ended at max_length if that scores higher */
} qkv_early_stopping;

enum { QKV_GENERATION_IDS = 16, QKV_BEAMS = 256, QKV_LENGTH_SPARE = 10 };

/* generation_config.json. Comments give Hugging Face's names. */
typedef struct {
    size_t beams;            /* num_beams                                [1, QKV_BEAMS]  4 */
    double length_penalty;   /* a score is log p / length^length_penalty                 1 */
    bool gnmt;               /* divide by ((5 + length) / 6)^length_penalty; no key   false */
    qkv_early_stopping early_stopping;                                    /* UNLIKELY      */
    size_t max_length;       /* maximum tokens, including start and eos; 0: max positions of
                                the model                                                0 */
    size_t max_new_tokens;   /* maximum tokens without the start token; 0: max_length     0 */
    double length_factor;    /* > 0: a sentence of n tokens, its eos among them, gets at most
                                length_factor n + QKV_LENGTH_SPARE; hypotheses that have not ended
                                by then count only where none has, so that fewer than `beams` may
                                be found; no key                                          0 */
    bool renormalize;        /* renormalize_logits: banned tokens get no probability  false */
    int start;               /* decoder_start_token_id                           the model's */
    int forced_eos;          /* forced_eos_token_id, at max_length; -1: none                 */
    int32_t eos_ids[QKV_GENERATION_IDS];   /* eos_token_id                          the model's */
    int32_t banned[QKV_GENERATION_IDS]; /* bad_words_ids of a single token                   */
    size_t eos_count, ban_count;
} qkv_generation;

/* The settings that qkv_hub_save writes for an encoder-decoder: the model's ids, eos forced at max
 * positions, padding banned. */
void qkv_generation_defaults(qkv_generation *g, const qkv_model *m);

/* The defaults, replaced by the settings in dir/generation_config.json; without that file, by those
 * in config.json, as in old directories. QKV_E_FORMAT for invalid values and for settings of a
 * different search. */
qkv_status qkv_hub_load_generation(qkv_generation *g, const qkv_model *m, const char *dir);

QKV_END_DECLS
#endif
