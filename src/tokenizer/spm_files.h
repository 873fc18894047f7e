/* spm_files.h - SentencePiece's and Marian's files. */
#ifndef QKV_SRC_TOKENIZER_SPM_FILES_H
#define QKV_SRC_TOKENIZER_SPM_FILES_H

#include "io/json.h"
#include "qkv/tokenizer.h"
#include "tokenizer/spm.h"

/* Each leaves *out alone where there are no such files. */
qkv_status qkv__load_spm(qkv_tokenizer **out, qkv_context *ctx, const char *dir);
qkv_status qkv__load_marian(qkv_tokenizer **out, qkv_context *ctx, const char *dir);
/* They take the models, in case of failure too. */
qkv_status qkv__tokenizer_of_spm(qkv_tokenizer **out, qkv__spm *m);
qkv_status qkv__tokenizer_of_marian(qkv_tokenizer **out, qkv__spm *source, qkv__spm *target,
                                    const qkv__json *vocab);

#endif
