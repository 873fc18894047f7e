/* hub.h - model directories as Hugging Face lays them out: config.json, model.safetensors.
 * Layer: hub */
#ifndef QKV_HUB_H
#define QKV_HUB_H

#include <qkv/model.h>
#include <qkv/safetensors.h>

QKV_BEGIN_DECLS

/* Reads config.json, makes the model it describes and fills it from model.safetensors (or its
 * shards). Every tensor must be there with its shape, and none that the model has no use for.
 * On failure *out is NULL and the context names file and field. */
qkv_status qkv_hub_load(qkv_model **out, qkv_context *ctx, const char *dir);

/* The same without weights: zeros. */
qkv_status qkv_hub_load_config(qkv_model **out, qkv_context *ctx, const char *dir);

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
} qkv_hub_save_options;
qkv_hub_save_options qkv_hub_save_defaults(void);

/* Writes config.json, generation_config.json and the weights, each atomically; makes the
 * directory. options may be NULL. */
qkv_status qkv_hub_save(qkv_model *m, const char *dir, const qkv_hub_save_options *options);

QKV_END_DECLS
#endif
