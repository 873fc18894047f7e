/* tokenizer.h - text to token ids and back: characters, byte-level BPE, WordPiece, SentencePiece's
 * unigram and BPE, trained here or read from the files that other libraries write.
 * Layer: tokenizer
 *
 * Text is bytes with a length. Byte-level BPE takes any bytes and gives the same bytes back;
 * a byte that is no UTF-8 counts as a symbol of its own. A character tokenizer takes UTF-8 made
 * of the characters it was trained on; another character is its unknown token where it has
 * one, and otherwise an error that names the character and the place.
 *
 * One thread at a time may use a tokenizer: encoding remembers pieces it has seen. */
#ifndef QKV_TOKENIZER_H
#define QKV_TOKENIZER_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

typedef struct qkv_tokenizer qkv_tokenizer;

/* Ids are below this in every file that is read. */
#define QKV_TOKENIZER_ID_LIMIT (1 << 24)

/* What special tokens are for. Each row: name, key in tokenizer_config.json. */
#define QKV_TOKEN_LIST(X)                                                     \
    X(QKV_TOKEN_EOS, "eos_token")                                             \
    X(QKV_TOKEN_BOS, "bos_token")                                             \
    X(QKV_TOKEN_PAD, "pad_token")                                             \
    X(QKV_TOKEN_UNK, "unk_token")                                             \
    X(QKV_TOKEN_CLS, "cls_token")                                             \
    X(QKV_TOKEN_SEP, "sep_token")                                             \
    X(QKV_TOKEN_MASK, "mask_token")

typedef enum {
#define QKV_TOKEN_ENUM(name, key) name,
    QKV_TOKEN_LIST(QKV_TOKEN_ENUM)
#undef QKV_TOKEN_ENUM
    QKV_TOKEN_ROLES
} qkv_token_role;

/* ---- files ------------------------------------------------------------------------------ */

/* Reads tokenizer.json, or vocab.json with merges.txt, or encoder.json with vocab.bpe, or BERT's
 * vocab.txt, or Marian's source.spm, target.spm and vocab.json, or spiece.model (or another of a
 * single SentencePiece model's names), and tokenizer_config.json or special_tokens_map.json for
 * the roles. On failure *out is NULL and the context names file and field. */
qkv_status qkv_tokenizer_load(qkv_tokenizer **out, qkv_context *ctx, const char *dir);

/* Byte-level BPE from its two files, whatever their names. */
qkv_status qkv_tokenizer_load_bpe(qkv_tokenizer **out, qkv_context *ctx, const char *vocab_file,
                                  const char *merges_file);

/* A SentencePiece model (unigram or BPE) with its own ids. */
qkv_status qkv_tokenizer_load_sentencepiece(qkv_tokenizer **out, qkv_context *ctx,
                                            const char *file);

/* Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json, for byte-level BPE
 * vocab.json and merges.txt, for WordPiece vocab.txt, so that Hugging Face's AutoTokenizer loads
 * the folder; of SentencePiece models the files that they came from. Makes the folder where it is
 * missing. */
qkv_status qkv_tokenizer_save(const qkv_tokenizer *t, const char *dir);

void qkv_tokenizer_destroy(qkv_tokenizer *t); /* NULL is allowed */

/* ---- training ---------------------------------------------------------------------------- */

typedef enum {
    QKV_TOKENIZER_CHAR,
    QKV_TOKENIZER_BPE,       /* byte-level */
    QKV_TOKENIZER_WORDPIECE, /* BERT's */
    QKV_TOKENIZER_UNIGRAM,   /* SentencePiece's, in Marian's folder: </s>, <unk>, ..., <pad> */
    QKV_TOKENIZER_SENTENCEPIECE_BPE, /* the same with BPE over characters */
} qkv_tokenizer_kind;

typedef struct {
    qkv_tokenizer_kind kind;
    size_t vocab;     /* most tokens, special ones counted; not CHAR
                         BPE: [256, 2^24), else [1, 2^24)                              8192 */
    size_t min_count; /* rarer pairs are not merged                     [0, 2^32)         0 */
    double coverage;  /* share of the text's characters that have a token, the most frequent
                         first; not CHAR, BPE        (0, 1]  0.9995 for SentencePiece, else 1 */
    bool keep_case;   /* WORDPIECE: capitals and accents stay                         false */
    bool add_eos;     /* EOS, which there must be then, ends every text. Otherwise CLS begins and
                         SEP ends it where there are both. SentencePiece: EOS always  false */
    /* Special tokens by role, or NULL; equal texts are one token. They get the first ids, in
     * the order of roles. Default: EOS and BOS are "<|endoftext|>" for BPE, none for
     * characters, BERT's for WORDPIECE. Without UNK a tokenizer refuses what it does not know. */
    const char *special[QKV_TOKEN_ROLES];
} qkv_tokenizer_options;

qkv_tokenizer_options qkv_tokenizer_defaults(qkv_tokenizer_kind kind);

/* Characters: the vocabulary is the text's code points in order.
 * BPE: GPT-2's pattern; the 256 bytes, then merges by count, ties to the smaller ids: what
 * Hugging Face's BpeTrainer makes of the same text with ByteLevel's alphabet.
 * WordPiece: line by line through BERT's cleaning; characters, and characters within words, then
 * merges by count as its WordPieceTrainer.
 * SentencePiece: line by line; spaces as U+2581 before the word, no rules for characters; pieces
 * hold letters, or numbers, or other characters. One model for all texts: give both languages. */
typedef struct qkv_tokenizer_trainer qkv_tokenizer_trainer;

/* options may be NULL: BPE with its defaults. On failure *out is NULL. */
qkv_status qkv_tokenizer_trainer_create(qkv_tokenizer_trainer **out, qkv_context *ctx,
                                        const qkv_tokenizer_options *options);
/* Counts a text; the bytes may go afterwards. Texts do not join. */
qkv_status qkv_tokenizer_trainer_add(qkv_tokenizer_trainer *tr, const char *text, size_t len);
qkv_status qkv_tokenizer_trainer_add_file(qkv_tokenizer_trainer *tr, const char *file);
qkv_status qkv_tokenizer_trainer_finish(qkv_tokenizer_trainer *tr, qkv_tokenizer **out);
void qkv_tokenizer_trainer_destroy(qkv_tokenizer_trainer *tr); /* NULL is allowed */

/* One tokenizer of two that were trained as UNIGRAM or SENTENCEPIECE_BPE: each language keeps its
 * model (QKV_ENCODE_TARGET: target's), and the ids are of the pieces of both, equal ones shared.
 * Copies what it needs. QKV_E_UNSUPPORTED for other kinds. On failure *out is NULL. */
qkv_status qkv_tokenizer_join(qkv_tokenizer **out, const qkv_tokenizer *source,
                              const qkv_tokenizer *target);

/* ---- text to ids --------------------------------------------------------------------------- */

enum {
    QKV_ENCODE_ADD_SPECIAL = 1, /* add the tokens that the file puts around a text */
    QKV_ENCODE_PLAIN = 2,       /* special tokens spelled out in the text are mere text */
    QKV_ENCODE_TARGET = 4       /* a text in the other language, where a folder has a model for
                                   each (Marian's target.spm) */
};

/* Appends the ids of the text. flags: QKV_ENCODE_* or 0. */
qkv_status qkv_tokenizer_encode(qkv_tokenizer *t, const char *text, size_t len, unsigned flags,
                                qkv_ids *out);

/* The same for a pair of texts (b NULL: one text), as the file joins them. types, which may be
 * NULL, gets for each id which part it belongs to (BERT: 0, and 1 for b and its separator); it
 * holds as many as out before. */
qkv_status qkv_tokenizer_encode_pair(qkv_tokenizer *t, const char *a, size_t a_len, const char *b,
                                     size_t b_len, unsigned flags, qkv_ids *out, qkv_ids *types);

/* Draws one of the ways to cut a text instead of the best, anew for each text; the numbers come
 * from the seed. BPE: amount is the probability that a merge is left out (dropout, about 0.1).
 * Unigram: amount sharpens the model's probabilities (alpha, about 0.2). 0: no more drawing. */
qkv_status qkv_tokenizer_sample(qkv_tokenizer *t, double amount, uint64_t seed);

/* Appends one drawn cut of the text that ids stand for: a function of ids, flags (those of their
 * encoding), amount and seed. Special tokens at both ends stay; so do ids that are not the best
 * cut of their text. No more drawing afterwards. */
qkv_status qkv_tokenizer_resegment(qkv_tokenizer *t, const int32_t *ids, size_t count,
                                   unsigned flags, double amount, uint64_t seed, qkv_ids *out);

/* The last place in text, at most len, where it may be cut so that encoding both parts gives
 * the ids of the whole; 0 when there is none. For text that comes, or goes out, piece by piece.
 * text[len] need not exist. Exact for what is trained here and for GPT-2's pattern. */
size_t qkv_tokenizer_cut(const qkv_tokenizer *t, const char *text, size_t len);

/* ---- ids to text --------------------------------------------------------------------------- */

enum {
    QKV_DECODE_SKIP_SPECIAL = 1, /* leave special tokens out */
    QKV_DECODE_VALID = 2         /* U+FFFD for what is not UTF-8; otherwise the exact bytes */
};

/* Appends the text. An id without a token is an error. flags: QKV_DECODE_* or 0. */
qkv_status qkv_tokenizer_decode(const qkv_tokenizer *t, const int32_t *ids, size_t count,
                                unsigned flags, qkv_text *out);

/* The same one id at a time, for text shown while it is made: what is appended never ends
 * within a character. The tokenizer must outlive the stream. */
typedef struct qkv_tokenizer_stream qkv_tokenizer_stream;

qkv_status qkv_tokenizer_stream_create(qkv_tokenizer_stream **out, const qkv_tokenizer *t,
                                       unsigned flags);
qkv_status qkv_tokenizer_stream_put(qkv_tokenizer_stream *s, int32_t id, qkv_text *out);
/* What was kept back of a character that never got whole; the stream starts anew. */
qkv_status qkv_tokenizer_stream_end(qkv_tokenizer_stream *s, qkv_text *out);
void qkv_tokenizer_stream_destroy(qkv_tokenizer_stream *s); /* NULL is allowed */

/* ---- tokens -------------------------------------------------------------------------------- */

/* One more than the greatest id. */
size_t qkv_tokenizer_vocab_size(const qkv_tokenizer *t);

/* The token as the files spell it (byte-level: "\xc4\xa0the" for " the"); NULL when there is
 * none. Lives as long as the tokenizer and ends in 0; *len may be NULL. */
const char *qkv_tokenizer_token(const qkv_tokenizer *t, int32_t id, size_t *len);

/* The id of a token so spelled, or -1. */
int32_t qkv_tokenizer_id(const qkv_tokenizer *t, const char *token, size_t len);

/* The token of a role, or -1. */
int32_t qkv_tokenizer_special(const qkv_tokenizer *t, qkv_token_role role);
bool qkv_tokenizer_is_special(const qkv_tokenizer *t, int32_t id);

/* The model's name in tokenizer.json: "BPE", "WordLevel", "WordPiece", "Unigram"; or
 * "SentencePieceBPE". */
const char *qkv_tokenizer_model(const qkv_tokenizer *t);

QKV_END_DECLS
#endif
