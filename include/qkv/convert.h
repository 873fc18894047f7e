/* convert.h - converts models: number type, shards, files of other libraries.
 * Layer: pipeline */
#ifndef QKV_CONVERT_H
#define QKV_CONVERT_H

#include <qkv/hub.h>
#include <qkv/options.h>

QKV_BEGIN_DECLS

/* The format to write. */
typedef enum {
    QKV_CONVERT_DIRECTORY, /* a model directory */
    QKV_CONVERT_TIMM,      /* vit: a .safetensors or .pth file with timm's names */
    QKV_CONVERT_MAE,       /* vit_mae: such a file with the names of facebookresearch/mae */
    QKV_CONVERT_TAMING,    /* VQGAN or prior: a checkpoint of taming-transformers */
    QKV_CONVERT_GGUF       /* GPT, BERT and its kin: a GGUF file, as llama.cpp runs it */
} qkv_convert_target;

/* The data type to store. */
typedef enum {
    QKV_CONVERT_AUTO, /* F32; unchanged if only the container of a file's tensors changes */
    QKV_CONVERT_F32,
    QKV_CONVERT_F16,
    QKV_CONVERT_BF16,
    QKV_CONVERT_Q8_0, /* GGUF only, this and the next: 8 bits and a scale for each 32 numbers */
    QKV_CONVERT_Q4_0  /* 4 bits; tables of tokens Q8_0 */
} qkv_convert_dtype;

typedef struct {
    qkv_convert_dtype dtype;
    qkv_convert_target to;
    qkv_weights weights;           /* of a directory, INT8 or INT4: matrices in so many bits
                                      (qkv_hub_save)                                       AUTO */
    bool merge;                    /* adapters become part of the matrices              false */
    qkv_strings adapters;          /* as in qkv_pipeline_options                           none */
    size_t shard;                  /* maximum size of a file, megabytes; 0: one file            0 */
    qkv_hub_import_options import; /* for an input file; part and left_out are ignored            */
} qkv_convert_options;

qkv_convert_options qkv_convert_defaults(void);
const qkv_option_table *qkv_convert_table(void); /* of qkv_convert_options */

/* Converts `from` and writes `to`. from: a model directory, or an adapter's, which stays one unless
 * it is merged; a file that PyTorch saved, a GGUF file, or a file with the names of timm,
 * facebookresearch/mae, taming-transformers or VGG16. to: an empty or new directory, which also
 * receives the tokenizer's files, or a new file. A PyTorch file with other names becomes
 * model.safetensors. To GGUF, AUTO keeps the integers of a directory that qkv_quantize wrote (Q8_0,
 * Q4_0); from GGUF, numbers become F32 or what dtype says. Code in a file is never run. options may
 * be NULL. Guesses are reported as notes (qkv_context_on_event). On failure part of `to` may have
 * been written. */
qkv_status qkv_convert(qkv_context *ctx, const char *from, const char *to,
                       const qkv_convert_options *options);

/* QKV_E_ARGUMENT, with a message that names the option, if options do not suit `from` and `to`.
 * qkv_convert calls it first. */
qkv_status qkv_convert_check(qkv_context *ctx, const char *from, const char *to,
                             const qkv_convert_options *options);

/* ---- fewer bits ------------------------------------------------------------------------------ */

typedef struct {
    int to; /* 0: 8 bits and a scale for each row; 1: 4 bits and one for each 32 numbers      0 */
    size_t shard;                  /* as above                                               0 */
} qkv_quantize_options;

qkv_quantize_options qkv_quantize_defaults(void);
const qkv_option_table *qkv_quantize_table(void); /* of qkv_quantize_options */

/* qkv_convert of a model directory with `weights` set: what is written is read by this library and,
 * where a model's layers are torch.nn.Linear, by transformers with compressed-tensors. It is for
 * inference; it can be converted back, but what was rounded stays so. */
qkv_status qkv_quantize(qkv_context *ctx, const char *from, const char *to,
                        const qkv_quantize_options *options);

QKV_END_DECLS
#endif
