/* words_file.h - BERT's files. */
#ifndef QKV_SRC_TOKENIZER_WORDS_FILE_H
#define QKV_SRC_TOKENIZER_WORDS_FILE_H

#include "tokenizer/object.h"

/* vocab.txt; config (or NULL) is tokenizer_config.json. *out is NULL on failure. */
qkv_status qkv__load_vocab_txt(qkv_tokenizer **out, qkv_context *ctx, const char *path,
                               const qkv__json *config);
extern const char *const qkv__bert_names[QKV_TOKEN_ROLES]; /* NULL: BERT has none */
/* BERT's token for a role, as far as there is one; -1. */
int32_t qkv__bert_role(const qkv_tokenizer *t, qkv_token_role role);
/* What tokenizer_config.json says of a WordPiece tokenizer. */
void qkv__put_bert_config(const qkv_tokenizer *t, qkv_json_writer *w);
typedef struct {
    bool lowercase, ideographs;
    int accents; /* 0, 1, or -1: as lowercase */
} qkv__bert_options;
/* All parts but the model's vocabulary, as in spec.h. Roles: tokens and ids; a NULL token is none.
 * ends: EOS behind every text, in place of CLS and SEP around it. */
json_t *qkv__bert_spec(const qkv__bert_options *o, bool ends,
                       const char *const special[QKV_TOKEN_ROLES],
                       const int32_t ids[QKV_TOKEN_ROLES]);

#endif
