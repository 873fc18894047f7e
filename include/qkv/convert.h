/* convert.h - models stored in another way: number type, shards, other libraries' files.
 * Layer: pipeline */
#ifndef QKV_CONVERT_H
#define QKV_CONVERT_H

#include <qkv/hub.h>
#include <qkv/options.h>

QKV_BEGIN_DECLS

/* What is written. */
typedef enum {
    QKV_CONVERT_DIRECTORY, /* a model directory */
    QKV_CONVERT_TIMM,      /* of a vit: a .safetensors or .pth file with timm's names */
    QKV_CONVERT_MAE,       /* of a vit_mae: the same with the names of facebookresearch/mae */
    QKV_CONVERT_TAMING     /* of a VQGAN or prior: a checkpoint of taming-transformers */
} qkv_convert_target;

/* How numbers are stored. */
typedef enum {
    QKV_CONVERT_AUTO, /* F32, but as they are where a file's tensors only change their container */
    QKV_CONVERT_F32,
    QKV_CONVERT_F16,
    QKV_CONVERT_BF16
} qkv_convert_dtype;

typedef struct {
    qkv_convert_dtype dtype;
    qkv_convert_target to;
    size_t shard;                  /* split files beyond this many megabytes; 0: never          0 */
    qkv_hub_import_options import; /* of a file; part and left_out are not asked                  */
} qkv_convert_options;

qkv_convert_options qkv_convert_defaults(void);
const qkv_option_table *qkv_convert_table(void); /* of such a struct */

/* Reads a model directory, or a file that PyTorch saved or with the names of timm,
 * facebookresearch/mae, taming-transformers or VGG16, and writes it to `to`: a directory that is
 * empty or missing, with the tokenizer's files beside the model, or a file that is not there yet.
 * Tensors of a PyTorch file with other names become model.safetensors. Code in a file is never run.
 * options may be NULL. What had to be guessed is told as notes (qkv_context_on_event). On failure a
 * part of `to` may have been written. */
qkv_status qkv_convert(qkv_context *ctx, const char *from, const char *to,
                       const qkv_convert_options *options);

/* QKV_E_ARGUMENT, with a sentence that names the option, when options do not go with `from` and
 * `to`; qkv_convert asks it first. */
qkv_status qkv_convert_check(qkv_context *ctx, const char *from, const char *to,
                             const qkv_convert_options *options);

QKV_END_DECLS
#endif
