/* adapter.h - directories of adapters, as PEFT writes them: adapter_config.json says how they were
 * made and which model is beneath them, adapter_model.safetensors has
 * base_model.model.MODULE.lora_A.weight (r, in), .lora_B.weight (out, r), and the tensors of
 * modules that are trained whole. qkv_config.json, which config.json would be for a whole model,
 * and the tokenizer may be there too, or are the base's. */
#ifndef QKV_SRC_HUB_ADAPTER_H
#define QKV_SRC_HUB_ADAPTER_H

#include "hub/parts.h"
#include "qkv/adapter.h"

#define QKV__ADAPTER_WEIGHTS "adapter_model.safetensors"
#define QKV__ADAPTER_PREFIX "base_model.model."

bool qkv__hub_is_adapter(const char *dir);
/* The file of dir's settings: config.json; of an adapter what it was made with, else its base's
 * config.json. Other settings lie beside it. To be freed. */
qkv_status qkv__hub_settings(char **out, qkv_context *ctx, const char *dir);
/* Is dir an adapter whose settings are its base's? */
bool qkv__hub_takes_settings(const char *dir);
/* adapter_task.c: config, the base's config.json, becomes what the adapter in dir was trained on: a
 * base with another head is a classifier where the adapter has weights of classes, whose names are
 * then LABEL_0, LABEL_1, ... */
qkv_status qkv__hub_adapt_config(qkv__json *config, const char *dir);
/* Where a model's settings are written: an adapter has no config.json, which would make it a whole
 * model for other libraries. */
const char *qkv__hub_settings_name(const qkv_model *m);
/* Numbers in dir's weights; of an adapter, its base's too. */
qkv_status qkv__hub_count_all(size_t *out, qkv_context *ctx, const char *dir);

/* Adds an adapter of the shapes in dir, values zero, and freezes the rest. */
qkv_status qkv__hub_attach_adapter(qkv_adapter **out, qkv_model *m, const char *dir);
/* Reads dir's values into a; every tensor must have a place. */
qkv_status qkv__hub_read_adapter(qkv_adapter *a, const char *dir);
/* The base's values, then the adapter's: rows that the base lacks must be in the adapter. */
qkv_status qkv__hub_read_adapted(qkv_model *m, const char *dir, qkv_weights weights);
qkv_status qkv__hub_write_adapter(qkv_adapter *a, const char *dir, qkv_store store);

#endif
