/* tokenizer.h - tokenizers: characters, byte-level BPE, WordPiece, SentencePiece's unigram and BPE,
 * trained here or loaded from the files of other libraries.
 * Layer: tokenizer
 *
 * A text is bytes with a length. Byte-level BPE encodes any bytes and decodes to the same bytes; a
 * byte that is not valid UTF-8 is a symbol of its own. A character tokenizer encodes UTF-8 of the
 * characters it was trained on. Another character becomes the unknown token, if there is one; else
 * it is an error whose message names the character and its position.
 *
 * One thread uses a tokenizer at a time, because encoding caches pieces. */
#ifndef QKV_TOKENIZER_H
#define QKV_TOKENIZER_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

typedef struct qkv_tokenizer qkv_tokenizer;

/* Ids are below this in every file that is loaded. */
#define QKV_TOKENIZER_ID_LIMIT (1 << 24)

/* Roles of special tokens. Each row: enum name, key in tokenizer_config.json. */
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

/* Loads a tokenizer from a directory with one of: tokenizer.json; vocab.json and merges.txt;
 * encoder.json and vocab.bpe; BERT's vocab.txt; Marian's source.spm, target.spm and vocab.json;
 * spiece.model (or another usual name of a single SentencePiece model). The roles come from
 * tokenizer_config.json or special_tokens_map.json. dir may be a GGUF file. On failure *out is NULL
 * and the message names the file and field. */
qkv_status qkv_tokenizer_load(qkv_tokenizer **out, qkv_context *ctx, const char *dir);

/* Loads byte-level BPE from its two files. */
qkv_status qkv_tokenizer_load_bpe(qkv_tokenizer **out, qkv_context *ctx, const char *vocab_file,
                                  const char *merges_file);

/* Loads a SentencePiece model (unigram or BPE) with its own ids. */
qkv_status qkv_tokenizer_load_sentencepiece(qkv_tokenizer **out, qkv_context *ctx,
                                            const char *file);

/* Saves a folder that Hugging Face's AutoTokenizer loads: tokenizer.json, tokenizer_config.json and
 * special_tokens_map.json; for byte-level BPE also vocab.json and merges.txt, for WordPiece
 * vocab.txt. A SentencePiece model is saved as the files it was loaded from. Creates the folder. */
qkv_status qkv_tokenizer_save(const qkv_tokenizer *t, const char *dir);

void qkv_tokenizer_destroy(qkv_tokenizer *t); /* NULL is allowed */

/* ---- training ---------------------------------------------------------------------------- */

/* Each row: kind, what it is called among settings, and in the library. */
#define QKV_TOKENIZER_KINDS(X)                                                                     \
    X(QKV_TOKENIZER_CHAR, "char", chars)                                                           \
    X(QKV_TOKENIZER_BPE, "bpe", bpe)                   /* byte-level */                            \
    X(QKV_TOKENIZER_WORDPIECE, "wordpiece", wordpiece) /* BERT's */                                \
    /* SentencePiece's, in Marian's folder: </s>, <unk>, ..., <pad>; the same with BPE over        \
     * characters */                                                                               \
    X(QKV_TOKENIZER_UNIGRAM, "unigram", unigram)                                                   \
    X(QKV_TOKENIZER_SENTENCEPIECE_BPE, "sentencepiece-bpe", spm_bpe)

typedef enum {
#define QKV_TOKENIZER_ENUM(kind, name, trainer) kind,
    QKV_TOKENIZER_KINDS(QKV_TOKENIZER_ENUM)
#undef QKV_TOKENIZER_ENUM
} qkv_tokenizer_kind;

typedef struct {
    qkv_tokenizer_kind kind;
    size_t vocab;     /* maximum number of tokens, including special ones; not CHAR
                         BPE: [256, 2^24), else [1, 2^24)                              8192 */
    size_t min_count; /* minimum count of a pair to be merged           [0, 2^32)         0 */
    double coverage;  /* share of the text's characters to cover by tokens, most frequent
                         first; not CHAR, BPE        (0, 1]  0.9995 for SentencePiece, else 1 */
    bool keep_case;   /* WORDPIECE: keep case and accents                             false */
    bool add_eos;     /* end every text with EOS, which must exist. false: CLS begins and SEP ends
                         a text if both exist. SentencePiece: always EOS              false */
    /* Special tokens by role, or NULL; roles with equal text share a token. They get the first ids,
     * in the order of roles. Defaults: BPE: EOS and BOS "<|endoftext|>"; CHAR: none; WORDPIECE:
     * BERT's. Without UNK a text with an unknown symbol is an error. */
    const char *special[QKV_TOKEN_ROLES];
} qkv_tokenizer_options;

qkv_tokenizer_options qkv_tokenizer_defaults(qkv_tokenizer_kind kind);

/* Trains a tokenizer.
 * CHAR: the vocabulary is the text's code points in order.
 * BPE: GPT-2's pattern; 256 bytes, then merges by count, ties to the smaller ids. Equals Hugging
 * Face's BpeTrainer with ByteLevel's alphabet on the same text.
 * WORDPIECE: line by line, with BERT's cleaning; characters, characters within words, then merges
 * by count, as in Hugging Face's WordPieceTrainer.
 * SentencePiece: line by line; U+2581 for a space, before the word; no normalisation; a piece has
 * only letters, only digits or only other characters. Add all languages to one trainer. */
typedef struct qkv_tokenizer_trainer qkv_tokenizer_trainer;

/* options may be NULL: BPE with its defaults. On failure *out is NULL. */
qkv_status qkv_tokenizer_trainer_create(qkv_tokenizer_trainer **out, qkv_context *ctx,
                                        const qkv_tokenizer_options *options);
/* Counts a text, which may then be freed. Texts are not joined. */
qkv_status qkv_tokenizer_trainer_add(qkv_tokenizer_trainer *tr, const char *text, size_t len);
qkv_status qkv_tokenizer_trainer_add_file(qkv_tokenizer_trainer *tr, const char *file);
qkv_status qkv_tokenizer_trainer_finish(qkv_tokenizer_trainer *tr, qkv_tokenizer **out);
void qkv_tokenizer_trainer_destroy(qkv_tokenizer_trainer *tr); /* NULL is allowed */

/* Joins two tokenizers trained as UNIGRAM or SENTENCEPIECE_BPE. Each language keeps its model
 * (QKV_ENCODE_TARGET: target's). The vocabulary is the union of the pieces. Keeps no reference to
 * the arguments. QKV_E_UNSUPPORTED for other kinds. On failure *out is NULL. */
qkv_status qkv_tokenizer_join(qkv_tokenizer **out, const qkv_tokenizer *source,
                              const qkv_tokenizer *target);

/* ---- text to ids --------------------------------------------------------------------------- */

enum {
    QKV_ENCODE_ADD_SPECIAL = 1, /* add special tokens around the text, as the files define */
    QKV_ENCODE_PLAIN = 2,       /* treat special tokens spelled out in the text as plain text */
    QKV_ENCODE_TARGET = 4       /* text in the target language, if the tokenizer has a model for
                                   each language (Marian's target.spm) */
};

/* Appends the ids of the text. flags: QKV_ENCODE_* or 0. */
qkv_status qkv_tokenizer_encode(qkv_tokenizer *t, const char *text, size_t len, unsigned flags,
                                qkv_ids *out);

/* Appends the ids of a text pair (b NULL: one text), joined as the files define. types, if not
 * NULL, receives a token type for each id (BERT: 0; 1 for b and its separator). Before the call it
 * must have as many entries as out. */
qkv_status qkv_tokenizer_encode_pair(qkv_tokenizer *t, const char *a, size_t a_len, const char *b,
                                     size_t b_len, unsigned flags, qkv_ids *out, qkv_ids *types);

/* Turns on subword regularisation: every later text gets a random segmentation instead of the best,
 * drawn with seed. BPE: amount is the probability of skipping a merge (BPE dropout, about 0.1).
 * Unigram: amount is the exponent alpha of the probabilities (about 0.2). 0: off. */
qkv_status qkv_tokenizer_sample(qkv_tokenizer *t, double amount, uint64_t seed);

/* Appends a random segmentation of the text of ids: a function of ids, flags (those of encoding),
 * amount and seed. Keeps special tokens at both ends, and ids that are not the best segmentation of
 * their text. Afterwards subword regularisation is off. */
qkv_status qkv_tokenizer_resegment(qkv_tokenizer *t, const int32_t *ids, size_t count,
                                   unsigned flags, double amount, uint64_t seed, qkv_ids *out);

/* The last position <= len at which the text can be split so that encoding both parts gives the ids
 * of the whole; 0 if there is none. For streaming. text[len] need not exist. Exact for tokenizers
 * trained here and for GPT-2's pattern. */
size_t qkv_tokenizer_cut(const qkv_tokenizer *t, const char *text, size_t len);

/* ---- ids to text --------------------------------------------------------------------------- */

enum {
    QKV_DECODE_SKIP_SPECIAL = 1, /* omit special tokens, and ids without a token: a model's table
                                    may have more rows than there are tokens, as T5's */
    QKV_DECODE_VALID = 2         /* replace invalid UTF-8 by U+FFFD; otherwise the exact bytes */
};

/* Appends the text of ids. An id without a token is an error, unless it is omitted. flags:
 * QKV_DECODE_* or 0. */
qkv_status qkv_tokenizer_decode(const qkv_tokenizer *t, const int32_t *ids, size_t count,
                                unsigned flags, qkv_text *out);

/* Decodes id by id, to show a text while it is generated. The appended bytes never end within a
 * character. The tokenizer must outlive the stream. */
typedef struct qkv_tokenizer_stream qkv_tokenizer_stream;

qkv_status qkv_tokenizer_stream_create(qkv_tokenizer_stream **out, const qkv_tokenizer *t,
                                       unsigned flags);
qkv_status qkv_tokenizer_stream_put(qkv_tokenizer_stream *s, int32_t id, qkv_text *out);
/* Appends the bytes of an incomplete character, and resets the stream. */
qkv_status qkv_tokenizer_stream_end(qkv_tokenizer_stream *s, qkv_text *out);
void qkv_tokenizer_stream_destroy(qkv_tokenizer_stream *s); /* NULL is allowed */

/* ---- tokens -------------------------------------------------------------------------------- */

/* The greatest id + 1. */
size_t qkv_tokenizer_vocab_size(const qkv_tokenizer *t);

/* The token as spelled in the files (byte-level: "\xc4\xa0the" for " the"); NULL if there is none.
 * Ends in a 0 byte and lives as long as the tokenizer. *len may be NULL. */
const char *qkv_tokenizer_token(const qkv_tokenizer *t, int32_t id, size_t *len);

/* The id of the token with this spelling, or -1. */
int32_t qkv_tokenizer_id(const qkv_tokenizer *t, const char *token, size_t len);

/* The id of the special token with this role, or -1. */
int32_t qkv_tokenizer_special(const qkv_tokenizer *t, qkv_token_role role);
bool qkv_tokenizer_is_special(const qkv_tokenizer *t, int32_t id);

/* The kind of model in tokenizer.json: "BPE", "WordLevel", "WordPiece", "Unigram"; or
 * "SentencePieceBPE". */
const char *qkv_tokenizer_model(const qkv_tokenizer *t);

QKV_END_DECLS
#endif
