/* lora.h - training an adapter instead of the model: --lora. */
#ifndef QKV_SRC_JOB_LORA_H
#define QKV_SRC_JOB_LORA_H

#include "qkv/adapter.h"
#include "qkv/hub.h"

/* Can `lora`, what the option says or NULL, be read? */
qkv_status qkv__lora_check(qkv_context *ctx, const char *lora);
/* m, filled from the directory init, gets an adapter; rows that init lacks, as a new head, are
 * trained whole. */
qkv_status qkv__lora_begin(qkv_model *m, const char *lora, const char *init, uint64_t seed);
/* The model and the adapter of a run's directory; lora says how the frozen weights are kept. */
qkv_status qkv__lora_reopen(qkv_model **out, qkv_context *ctx, const char *dir, const char *lora);

#endif
