/* spm.h - SentencePiece's model files. */
#ifndef QKV_SRC_TOKENIZER_SPM_H
#define QKV_SRC_TOKENIZER_SPM_H

#include "base/vocab.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/trie.h"

/* The mark that stands for a space: U+2581. */
#define QKV__SPACE_MARK "\xe2\x96\x81"

enum { QKV__SPM_UNIGRAM = 1, QKV__SPM_BPE = 2 };
enum { QKV__PIECE_NORMAL = 1, QKV__PIECE_UNKNOWN, QKV__PIECE_CONTROL, QKV__PIECE_USER,
       QKV__PIECE_UNUSED, QKV__PIECE_BYTE };

typedef struct {
    qkv_context *ctx;
    int kind; /* QKV__SPM_* */
    qkv__vocab pieces;
    struct qkv__spm_piece {
        float score;
        int type; /* QKV__PIECE_* */
    } *info;      /* by id */
    size_t info_cap;
    int32_t unk;
    bool prefix, trim, escape; /* a space before the text; no space but between words; as U+2581 */
    bool suffix, byte_fallback, denormalizes;
    double coverage;
    qkv__charsmap map;
    qkv__trie fixed;      /* pieces of the user: found before anything else */
    qkv_str unk_surface; /* what an unknown piece decodes to */
    qkv_str file;        /* the protocol buffer */
} qkv__spm;

qkv__spm *qkv__spm_new(qkv_context *ctx); /* NULL: memory */
void qkv__spm_destroy(qkv__spm *m);       /* NULL is allowed */
/* One more piece, which is not there yet. */
qkv_status qkv__spm_add(qkv__spm *m, const char *text, size_t len, float score, int type);
/* To be called once, after the last piece; name stands for the file in messages. */
qkv_status qkv__spm_finish(qkv__spm *m, const char *name);
/* From a file's bytes, which are kept in m->file. */
qkv_status qkv__spm_parse(qkv__spm **out, qkv_context *ctx, const char *name, const char *data,
                          size_t size);
/* Fills m->file from the rest. */
qkv_status qkv__spm_write(qkv__spm *m);
/* Appends the text as pieces are looked for in it. */
void qkv__spm_normalize(const qkv__spm *m, const char *s, size_t len, qkv_str *out);

#endif
