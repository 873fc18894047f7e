/* hub.h - model directories as Hugging Face lays them out: config.json, model.safetensors.
 * Layer: hub */
#ifndef QKV_HUB_H
#define QKV_HUB_H

#include <qkv/model.h>
#include <qkv/safetensors.h>

QKV_BEGIN_DECLS

/* Reads config.json (and preprocessor_config.json, where there is one), makes the model it
 * describes and fills it from model.safetensors (or its shards). Every tensor must be there with
 * its shape, and none that the model has no use for. On failure *out is NULL and the context names
 * file and field. */
qkv_status qkv_hub_load(qkv_model **out, qkv_context *ctx, const char *dir);

/* The same without weights: zeros. */
qkv_status qkv_hub_load_config(qkv_model **out, qkv_context *ctx, const char *dir);

/* Both, but for fields that have the values of changes, each "key=value": dropout, say. Keys that
 * the model's type does not have are passed over; a size that the weights do not have is an error,
 * as in config.json. */
qkv_status qkv_hub_load_with(qkv_model **out, qkv_context *ctx, const char *dir,
                             qkv_strings changes);
qkv_status qkv_hub_load_config_with(qkv_model **out, qkv_context *ctx, const char *dir,
                                    qkv_strings changes);

/* Fills an existing model from the weights in dir. On failure the model may be half filled. */
qkv_status qkv_hub_load_weights(qkv_model *m, const char *dir);

/* Fills what the weights in dir have by name and leaves the rest: a classifier from the model that
 * learnt the language. A tensor of one name and another shape is an error, and so is none at all.
 * On failure the model may be half filled. */
qkv_status qkv_hub_load_matching(qkv_model *m, const char *dir);

/* Zeroed: the defaults. */
typedef struct {
    qkv_store store;    /* F32, F16 or BF16; QKV_STORE_NONE: F32                       F32 */
    size_t shard_bytes; /* 0: one file                                                   0 */
    qkv_model *vqgan, *condition; /* qkv_hub_export of a prior: the VQGAN whose codes it knows, and
                                     the one whose codes stand before them, to go with it NULL */
} qkv_hub_save_options;
qkv_hub_save_options qkv_hub_save_defaults(void);

/* Writes config.json, generation_config.json, preprocessor_config.json (of a model that says how it
 * wants images) and the weights, each atomically; makes the directory. options may be NULL. */
qkv_status qkv_hub_save(qkv_model *m, const char *dir, const qkv_hub_save_options *options);

/* ---- files of other libraries: timm, facebookresearch/mae, taming-transformers, VGG16 ---- */

/* What shapes do not tell. Zeroed: the defaults. */
typedef struct {
    const char *under;    /* what stands beneath that name; NULL: the one model in it */
    bool skip_objects;    /* of a PyTorch file: leave out objects of unknown classes     false */
    size_t heads;         /* 0: the width over 64                                            0 */
    size_t decoder_heads; /* 0: the decoder's width over 32                                  0 */
    double norm_eps;      /* 0: 1e-6, as both libraries of ViTs have it                      0 */
    bool norm_pix;        /* it learnt each patch less its mean, over its standard deviation
                             false */
    size_t side;          /* of the images that a VQGAN learnt from; 0: 256                0 */
    const char *distance; /* file with the weights of LPIPS' distance (lin0.model.1.weight),
                             where the other holds VGG16 alone                            NULL */
    const char *part;     /* of a prior's file: instead the VQGAN that stands beneath that name,
                             "first_stage_model" or "cond_stage_model"                    NULL */
    size_t before;        /* tokens before a prior's codes; 0: half its positions, where they are
                             twice a square, else 1                                          0 */
    size_t *left_out;     /* set: tensors that are no part of the VQGAN, prior or VGG16   NULL */
} qkv_hub_import_options;

/* The model in a .safetensors file, or in one that PyTorch saved, whose tensors have such names: a
 * vit (without a head in the file: of two classes, all zeros), or a vit_mae when there is a
 * decoder; a qkv_prior, a qkv_vqgan, with or without its discriminator, or the qkv_perceptual of
 * LPIPS. QKV_OK and *out NULL: other names. options may be NULL. */
qkv_status qkv_hub_import(qkv_model **out, qkv_context *ctx, const char *path,
                          const qkv_hub_import_options *options);

/* Writes the weights of a vit or vit_mae with such names, as a .safetensors file or, when path ends
 * in .pth, as {"model": ..} for torch.load; those of a qkv_vqgan or qkv_prior as {"state_dict": ..}
 * for torch.load. At most 2 GiB of the latter. Heads, norm_eps and the images' side have no place
 * there. QKV_E_UNSUPPORTED for other models. options may be NULL. */
qkv_status qkv_hub_export(qkv_model *m, const char *path, const qkv_hub_save_options *options);

/* ---- how a directory says that its model is to be searched ------------------------------ */

/* When is a sentence finished that has as many finished hypotheses as beams? */
typedef enum {
    QKV_STOP_UNLIKELY, /* early_stopping false: when the best unfinished hypothesis, ended where it
                          is, would be no better than the worst finished one */
    QKV_STOP_FULL,     /* true: at once */
    QKV_STOP_NEVER     /* "never": as the first, but ended at max_length where that is better */
} qkv_early_stopping;

enum { QKV_GENERATION_IDS = 16, QKV_BEAMS = 256 };

/* generation_config.json, in Hugging Face's words. */
typedef struct {
    size_t beams;            /* num_beams                                [1, QKV_BEAMS]  4 */
    double length_penalty;   /* scores are divided by length^this                        1 */
    bool gnmt;               /* by ((5 + length) / 6)^this; not in files             false */
    qkv_early_stopping early_stopping;                                    /* UNLIKELY      */
    size_t max_length;       /* most tokens, the first input and the end counted; 0: as many as
                                the model has positions                                  0 */
    size_t max_new_tokens;   /* the same without the first input; 0: max_length says so   0 */
    bool renormalize;        /* renormalize_logits: banned tokens have no probability false */
    int start;               /* decoder_start_token_id                           the model's */
    int forced_eos;          /* forced_eos_token_id: the last of max_length tokens; -1: none */
    int32_t eos_ids[QKV_GENERATION_IDS];   /* eos_token_id                          the model's */
    int32_t banned[QKV_GENERATION_IDS]; /* bad_words_ids of one token each                   */
    size_t eos_count, ban_count;
} qkv_generation;

/* What qkv_hub_save writes for a model with a decoder of its own: the model's ids, its end forced
 * where the positions end, its padding banned. */
void qkv_generation_defaults(qkv_generation *g, const qkv_model *m);

/* The defaults, and over them what dir/generation_config.json has; without that file, what is in
 * config.json, as in old directories. QKV_E_FORMAT for values that make no sense and for those
 * that ask for another search than this one. */
qkv_status qkv_hub_load_generation(qkv_generation *g, const qkv_model *m, const char *dir);

QKV_END_DECLS
#endif
