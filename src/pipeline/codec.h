/* codec.h - the VQGANs that code images, and grids of codes in files. */
#ifndef QKV_SRC_PIPELINE_CODEC_H
#define QKV_SRC_PIPELINE_CODEC_H

#include "base/base.h"
#include "qkv/vqgan.h"

/* QKV_E_UNSUPPORTED, with the directory's name, unless the model is a VQGAN. */
qkv_status qkv__codec_check(const qkv_model *m, const char *dir);
/* The VQGAN of a directory; on failure *out is NULL. */
qkv_status qkv__codec_load(qkv_model **out, qkv_context *ctx, const char *dir);
const qkv_vqgan_config *qkv__codec_config(const qkv_model *m);

/* An image of so many codes must be one that qkv would read again. what: a file or flags that ask
 * for it, with which the sentence begins. */
qkv_status qkv__codec_size(const qkv_model *vqgan, qkv_context *ctx, const char *what, size_t rows,
                           size_t columns);

/* Whole numbers from 0 on, (rows, columns), of a NumPy file or of rows with commas; *out is to be
 * freed with qkv_free, and NULL on failure. */
qkv_status qkv__codes_load(int32_t **out, qkv_context *ctx, const char *path, size_t *rows,
                           size_t *columns);
/* The same as a NumPy file. */
qkv_status qkv__codes_save(qkv_context *ctx, const char *path, const int32_t *codes, size_t rows,
                           size_t columns);

#endif
