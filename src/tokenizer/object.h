/* object.h - a tokenizer as its files see it: one struct of all parts.
 *
 *   text --added tokens cut out--> segments --normalizers--> --pre-tokenizers--> pieces
 *        --model--> ids --template--> ids          and back: ids --decoder steps--> bytes
 *
 * Every part is a row in a table under the name that tokenizer.json gives it: a new
 * kind is a new row. A part that has no row is refused by name. A part's file knows nothing of
 * the whole; the models and what reads, writes and runs all parts do. */
#ifndef QKV_SRC_TOKENIZER_OBJECT_H
#define QKV_SRC_TOKENIZER_OBJECT_H

#include "qkv/tokenizer.h"
#include "tokenizer/added.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pieces.h"
#include "tokenizer/split.h"
#include "tokenizer/steps.h"
#include "tokenizer/template.h"

typedef struct {
    const char *name;
    bool remembered;   /* ids of pieces are worth keeping */
    bool writes_vocab; /* and reads it: it is no object token -> id */
    int most_sampling; /* of qkv_tokenizer_sample's amount; 0: nothing is drawn */
    /* Reads the fields beside "vocab" into t->model. */
    qkv_status (*read)(qkv_tokenizer *t, const qkv__json *at);
    /* Appends a piece's ids. */
    qkv_status (*encode)(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *out);
    /* Writes what read takes besides plain fields; NULL: nothing. */
    void (*write)(const qkv_tokenizer *t, qkv_json_writer *w);
    void (*destroy)(qkv_tokenizer *t);
} qkv__model_kind;

/* The files that byte-level BPE had before tokenizer.json. */
typedef struct {
    qkv__json vocab;
    const char *merges_file; /* its name */
    char *merges;            /* its text */
    size_t merges_len;
} qkv__bpe_files;

struct qkv_tokenizer {
    qkv_context *ctx;
    qkv__json spec;   /* tokenizer.json without vocabulary and merges, kept for saving */
    qkv__json config; /* tokenizer_config.json as read, or nothing */
    qkv__vocab vocab; /* the model's tokens */
    qkv__added added;
    qkv__normalizer normalizer;
    qkv__splitter splitter;
    const qkv__model_kind *kind;
    void *model; /* of the kind */
    const char *word_end; /* BPE: what the last token of a word ends in, in spec; NULL: nothing */
    qkv__pieces pieces;
    qkv__templates templates;
    qkv__decoder decoder;
    int32_t special[QKV_TOKEN_ROLES]; /* -1: none */
    qkv__spm *spm;                    /* of a SentencePiece model, or NULL */
    int32_t *piece_ids;               /* Marian: by piece of spm */
    bool marian;
    qkv_tokenizer *target;            /* Marian: for the other language, or NULL */
    struct {
        double amount; /* 0: none */
        qkv_rng rng;
    } sampling;
    const qkv__bpe_files *files;      /* while the two files of old are read */
    const char *text;                 /* being encoded, for messages */
    size_t text_len;
};

/* An empty one; NULL when memory is out. */
qkv_tokenizer *qkv__tokenizer_new(qkv_context *ctx);
/* As qkv_tokenizer_load, of a folder; *out NULL: it has no tokenizer. */
qkv_status qkv__tokenizer_load_any(qkv_tokenizer **out, qkv_context *ctx, const char *dir);
/* "the character U+00E9 at byte 7 ..." for a place in the text being encoded. */
qkv_status qkv__tokenizer_unknown(qkv_tokenizer *t, const char *at, size_t len);
/* The pieces of a text without added tokens: for training. */
qkv_status qkv__tokenizer_pieces(qkv_tokenizer *t, const char *text, size_t len,
                                 const qkv__sink *sink);

/* Puts what tokenizer_config.json is to say. */
void qkv__tokenizer_put_config(const qkv_tokenizer *t, qkv_json_writer *w);

/* Keys of the roles in tokenizer_config.json. */
extern const char *const qkv__role_keys[QKV_TOKEN_ROLES];

#endif
