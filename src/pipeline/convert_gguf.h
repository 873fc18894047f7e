/* convert_gguf.h - GGUF files and model directories. */
#ifndef QKV_SRC_PIPELINE_CONVERT_GGUF_H
#define QKV_SRC_PIPELINE_CONVERT_GGUF_H

#include "qkv/convert.h"

/* The file becomes a directory, tokenizer included. */
qkv_status qkv__convert_from_gguf(qkv_context *ctx, const char *file, const char *dir,
                                  const qkv_hub_save_options *o);
/* type: "f32" to "q4_0"; NULL: as the directory keeps its matrices. asked: its adapters, merged. */
qkv_status qkv__convert_to_gguf(qkv_context *ctx, const char *dir, const char *file,
                                const char *type, const qkv_convert_options *asked);

#endif
