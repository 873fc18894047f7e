/* gguf_kinds.h - the kinds of tokenizers in GGUF files: what their files share, both directions. */
#ifndef QKV_SRC_TOKENIZER_GGUF_KINDS_H
#define QKV_SRC_TOKENIZER_GGUF_KINDS_H

#include "tokenizer/gguf.h"
#include "tokenizer/models.h"
#include "tokenizer/spm.h"

/* A field's key. */
#define QKV__FIELD(name) "tokenizer.ggml." name

/* A type of token. */
enum { QKV__GGUF_NORMAL = 1, QKV__GGUF_UNKNOWN, QKV__GGUF_CONTROL, QKV__GGUF_USER, QKV__GGUF_UNUSED,
       QKV__GGUF_BYTE };

/* A filler's text: of an id that has no token. */
enum { QKV__GGUF_FILLER = 32 };
size_t qkv__gguf_filler(char out[QKV__GGUF_FILLER], size_t id);

/* ---- reading (gguf_read.c) ------------------------------------------------------------------- */

/* The fields, and what is made of them. */
typedef struct {
    const qkv__gguf *g;
    qkv_context *ctx;
    const qkv__gguf_field *tokens, *types, *scores, *merges;
    qkv__vocab vocab;
    qkv_ids pairs; /* of merges: left, right, .. */
    int32_t roles[QKV_TOKEN_ROLES]; /* -1: none */
    bool add_bos, add_eos, add_sep;
} qkv__gguf_reading;

qkv_status qkv__gguf_read_lists(qkv__gguf_reading *f); /* tokens to merges */
int64_t qkv__gguf_type_of_token(const qkv__gguf_reading *f, size_t id);
bool qkv__gguf_is_filler(const qkv__gguf_reading *f, size_t id, const char *text, size_t len);
/* roles and add_*, which keep what they are where the file does not say it. */
qkv_status qkv__gguf_read_roles(qkv__gguf_reading *f);
/* Into vocab, as the file has them; ids without a token have a filler there. */
qkv_status qkv__gguf_add_token(qkv__gguf_reading *f, size_t id, const char *text, size_t len);
qkv_status qkv__gguf_add_tokens(qkv__gguf_reading *f);
/* Parts of tokenizer.json. Control tokens are special; those of the user are found in the text as
 * they are, too. role_text: NULL: there is none. */
json_t *qkv__gguf_added_tokens(const qkv__gguf_reading *f);
const char *qkv__gguf_role_text(const qkv__gguf_reading *f, qkv_token_role role);
json_t *qkv__gguf_processor(const qkv__gguf_reading *f);
/* unk: NULL: none. fallback: bytes of unknown characters have tokens. */
json_t *qkv__gguf_bpe_model(const char *unk, bool fallback, bool ignore_merges);

/* ---- writing (gguf_write.c) ------------------------------------------------------------------ */

typedef struct {
    const qkv_tokenizer *t;
    qkv__gguf_fields *f;
    const qkv__gguf_tokenizer_options *o;
    float *scores; /* (count) or NULL */
    int *types;    /* (count) */
} qkv__gguf_writing;

/* "FOLDER/tokenizer.json: PART: a GGUF file has no place for this one". */
qkv_status qkv__gguf_refuse(const qkv__gguf_writing *w, const char *part);
qkv_status qkv__gguf_take_types(qkv__gguf_writing *w);
qkv_status qkv__gguf_put_processor(const qkv__gguf_writing *w); /* what stands around a text */
qkv_status qkv__gguf_new_scores(qkv__gguf_writing *w); /* zeros */
/* model, pre, tokens, scores and types. words: with WordPiece's marks. */
void qkv__gguf_put_tokens(const qkv__gguf_writing *w, const char *model, const char *pre,
                          bool words);

/* ---- byte-level BPE (gguf_bpe.c, gguf_pre.c) ------------------------------------------------- */

/* How it cuts a text, under the name that llama.cpp gives it. */
typedef struct {
    const char *name; /* tokenizer.ggml.pre */
    bool digits;      /* each digit alone, before all */
    const char *pattern; /* NULL: GPT-2's */
    bool nfc;            /* Unicode's form C, before all */
    bool ignore_merges;
    bool add_bos; /* where the file does not say it */
} qkv__gguf_pre;

const qkv__gguf_pre *qkv__gguf_pre_named(const char *name); /* NULL: none */
/* The first that cuts as tokenizer.json says; NULL: none does. */
const qkv__gguf_pre *qkv__gguf_pre_of(const qkv_tokenizer *t);
/* The parts of tokenizer.json. */
json_t *qkv__gguf_pre_normalizer(const qkv__gguf_pre *p);
json_t *qkv__gguf_pre_splitter(const qkv__gguf_pre *p);

qkv_status qkv__gguf_read_bpe(qkv_tokenizer **out, qkv__gguf_reading *f);
qkv_status qkv__gguf_write_bpe(qkv__gguf_writing *w);

/* ---- SentencePiece (gguf_marks.c, gguf_spm.c, gguf_unigram.c) -------------------------------- */

/* How spaces become marks, in tokenizer.json. */
typedef struct {
    bool prefix;       /* a mark is put before a text */
    bool trim;         /* no space but between words, and one there */
    const char *rules; /* for characters, in base64; NULL: none */
    bool splits;       /* read: a text is cut before each mark */
    bool strips;       /* read: spaces at the ends of a text go */
} qkv__gguf_marks;

/* The normalizer, and what undoes it; bytes: with tokens of bytes. The way back: false: the parts
 * are others. */
json_t *qkv__gguf_marks_normalizer(const qkv__gguf_marks *m);
json_t *qkv__gguf_marks_decoder(const qkv__gguf_marks *m, bool bytes);
bool qkv__gguf_marks_of(qkv__gguf_marks *out, const qkv_tokenizer *t);

/* BPE, of tokenizer.json or of a SentencePiece model; the unigram model. */
qkv_status qkv__gguf_read_spm(qkv_tokenizer **out, qkv__gguf_reading *f);
qkv_status qkv__gguf_write_spm(qkv__gguf_writing *w);
qkv_status qkv__gguf_read_unigram(qkv_tokenizer **out, qkv__gguf_reading *f);
qkv_status qkv__gguf_write_unigram(qkv__gguf_writing *w);

/* ---- WordPiece (gguf_words.c) ---------------------------------------------------------------- */

qkv_status qkv__gguf_read_words(qkv_tokenizer **out, qkv__gguf_reading *f);
qkv_status qkv__gguf_write_words(qkv__gguf_writing *w);

#endif
