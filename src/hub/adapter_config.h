/* adapter_config.h - adapter_config.json. */
#ifndef QKV_SRC_HUB_ADAPTER_CONFIG_H
#define QKV_SRC_HUB_ADAPTER_CONFIG_H

#include "io/json.h"
#include "qkv/adapter.h"

#define QKV__ADAPTER_CONFIG "adapter_config.json"

typedef struct {
    qkv_lora_config c;
    const char *base; /* base_model_name_or_path; NULL: not said */
    qkv__json j;      /* which holds base */
    qkv_str targets, modules;
} qkv__adapter_config;

/* file: outlives a, which is to be freed after a failure too. */
qkv_status qkv__adapter_config_read(qkv__adapter_config *a, qkv_context *ctx, const char *file);
void qkv__adapter_config_free(qkv__adapter_config *a);
/* base: what is said of the model beneath; NULL: nothing. */
qkv_status qkv__adapter_config_write(const qkv_adapter *a, const char *dir, const char *base);

#endif
