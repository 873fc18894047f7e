/* tokenizer.h - the parts of a tokenizer, each in its own file.
 *
 *   text --added tokens cut out--> segments --normalizers--> --pre-tokenizers--> pieces
 *        --model--> ids --template--> ids          and back: ids --decoder steps--> bytes
 *
 * Every part is a row in a table under the name that tokenizer.json gives it: a new
 * kind is a new row. A part that has no row is refused by name. */
#ifndef QKV_SRC_TOKENIZER_TOKENIZER_H
#define QKV_SRC_TOKENIZER_TOKENIZER_H

#include "io/json.h"
#include "qkv/tokenizer.h"

/* ---- tokenizer_text.c: characters, and lists that grow ------------------------------- */

/* Bytes of the character at s (len > 0), and its code point; a byte that starts no
 * well-formed sequence counts 1 and *cp is -1. */
size_t qkv__utf8_next(const char *s, size_t len, int32_t *cp);
size_t qkv__utf8_put(char out[4], int32_t cp);
/* Where the character that ends before at begins (at > 0); a stray byte stands alone. */
size_t qkv__utf8_before(const char *s, size_t at, int32_t *cp);
/* Bytes at the end of s that begin a character and could become one with more: 0 to 3. */
size_t qkv__utf8_unfinished(const char *s, size_t len);

typedef enum { QKV__OTHER, QKV__LETTER, QKV__NUMBER, QKV__SPACE } qkv__char_class;
qkv__char_class qkv__class_of(int32_t cp); /* -1 is QKV__OTHER */
/* Appends, for a regular expression's [...]: all of QKV__SPACE; of letters and numbers those
 * that a library's Unicode may be too old for. */
void qkv__class_ranges(qkv_str *out, qkv__char_class class);
bool qkv__is_word(int32_t cp);             /* what \w matches in Unicode */

/* GPT-2's alphabet: each byte has a printable character (U+0021 to U+0143). */
int32_t qkv__byte_char(uint8_t byte);
int qkv__char_byte(int32_t cp); /* -1: stands for no byte */
/* The byte that the piece <0xXX> stands for, or -1. */
int qkv__fallback_byte(const char *piece, size_t len);
/* Appends the bytes' characters. */
void qkv__bytes_to_chars(qkv_str *out, const char *bytes, size_t len);

/* Room for count more; false when memory is out (recorded). */
bool qkv__ids_reserve(qkv_context *ctx, qkv_ids *ids, size_t count);
bool qkv__ids_push(qkv_context *ctx, qkv_ids *ids, int32_t id);
bool qkv__text_add(qkv_context *ctx, qkv_text *text, const char *data, size_t len);
/* Doubles an array so that it holds at least need elements; false when memory is out. */
bool qkv__grow(qkv_context *ctx, void *array, size_t *capacity, size_t need, size_t size);
/* Spreads a number's bits: for hash tables. */
static inline uint64_t qkv__mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 32);
}

/* ---- tokenizer_vocab.c: token texts and ids ------------------------------------------ */

typedef struct {
    qkv_context *ctx;
    char *text; /* texts one after another, each followed by a 0 */
    size_t text_len, text_cap;
    struct qkv__token {
        size_t start;
        uint32_t len;
        bool used; /* false: no token has this id */
    } *tokens;     /* by id */
    size_t count;  /* 1 + greatest id */
    size_t token_cap;
    size_t used;   /* tokens there are */
    uint32_t *slots; /* hash table of id + 1; 0: free; a power of two of them */
    size_t slot_count;
} qkv__vocab;

void qkv__vocab_init(qkv__vocab *v, qkv_context *ctx);
void qkv__vocab_free(qkv__vocab *v);
/* The caller knows that neither text nor id is taken and that 0 <= id < the limit. */
qkv_status qkv__vocab_add(qkv__vocab *v, const char *text, size_t len, int32_t id);
int32_t qkv__vocab_find(const qkv__vocab *v, const char *text, size_t len); /* -1: none */
const char *qkv__vocab_text(const qkv__vocab *v, int32_t id, size_t *len);  /* NULL: none */
/* From an object token -> id at a place; refuses bad ids, two tokens for one id, and ids of
 * which most are missing. */
qkv_status qkv__vocab_read(qkv__vocab *v, const qkv__json *object);

/* ---- tokenizer_bert.c: characters to the cleaning normalizers -------------------------- */

bool qkv__bert_control(int32_t cp);
bool qkv__bert_punctuation(int32_t cp);
bool qkv__bert_accent(int32_t cp);
bool qkv__bert_ideograph(int32_t cp);
bool qkv__is_mark(int32_t cp); /* what StripAccents takes away */
void qkv__put_lower(qkv_str *out, int32_t cp);

/* ---- tokenizer_charsmap.c: SentencePiece's rules for characters ------------------------ */

typedef struct {
    char *blob; /* trie size, trie, replacements; NULL: no rules */
    size_t len, units;
} qkv__charsmap;

/* Takes a copy of the blob (len 0: no rules); name stands for the file in messages. */
qkv_status qkv__charsmap_init(qkv__charsmap *m, qkv_context *ctx, const char *name,
                              const char *blob, size_t len);
void qkv__charsmap_free(qkv__charsmap *m, qkv_context *ctx);
/* Bytes of the longest (or shortest) rule that s begins with, and what replaces them; 0: none. */
size_t qkv__charsmap_find(const qkv__charsmap *m, const char *s, size_t len, bool shortest,
                          const char **replacement);
bool qkv__base64(qkv_str *out, const char *text); /* false: not base64, or memory is out */

/* ---- tokenizer_trie.c: texts with values ------------------------------------------------ */

typedef struct {
    struct qkv__trie_edge *edges; /* hash table of all nodes' children */
    size_t slot_count;
    int32_t *values; /* by node; -1: no text ends here */
    size_t nodes, value_cap;
} qkv__trie;

/* value >= 0; a text given again gets the new value. */
qkv_status qkv__trie_add(qkv__trie *t, qkv_context *ctx, const char *text, size_t len,
                         int32_t value);
/* From a node (0: the root) to its child; false: there is none. *value: of the text that ends
 * there, or -1. */
bool qkv__trie_step(const qkv__trie *t, uint32_t *node, char byte, int32_t *value);
/* Bytes of the longest text that s begins with; 0: none. */
size_t qkv__trie_longest(const qkv__trie *t, const char *s, size_t len, int32_t *value);
void qkv__trie_free(qkv__trie *t, qkv_context *ctx);

/* ---- tokenizer_spm.c: SentencePiece's model files -------------------------------------- */

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

/* ---- tokenizer_normalize.c ------------------------------------------------------------- */

typedef struct qkv__normal_step qkv__normal_step;
typedef struct {
    qkv__normal_step *steps;
    size_t count, capacity;
} qkv__normalizer;

qkv_status qkv__normalizer_read(qkv__normalizer *n, const qkv__json *at);
qkv_status qkv__normalizer_add_spm(qkv__normalizer *n, qkv_context *ctx, const qkv__spm *spm);
void qkv__normalizer_free(qkv__normalizer *n, qkv_context *ctx);
/* out: empty before. */
qkv_status qkv__normalize(const qkv__normalizer *n, qkv_context *ctx, const char *text, size_t len,
                          qkv_str *out);

/* ---- tokenizer_added.c: tokens matched in the text before anything else -------------- */

typedef struct {
    int32_t id;
    bool special, lstrip, rstrip, single_word, normalized;
} qkv__added_token;

typedef struct {
    qkv__vocab names;   /* added tokens alone */
    qkv__vocab keys[2]; /* what is looked for in the text as it is, and in the normalized one */
    qkv__added_token *list;
    size_t count, capacity;
    uint16_t *lengths; /* lengths that occur, longest first */
    size_t length_count;
    bool first[256]; /* first bytes that occur */
} qkv__added;

void qkv__added_init(qkv__added *a, qkv_context *ctx);
void qkv__added_free(qkv__added *a);
qkv_status qkv__added_read(qkv__added *a, const qkv__vocab *vocab, const qkv__normalizer *n,
                           const qkv__json *array);
const qkv__added_token *qkv__added_find(const qkv__added *a, int32_t id);

typedef struct {
    size_t start, end; /* what the token takes, stripped space included */
    int32_t id;
} qkv__match;

/* The next token at or after from, of those whose normalized flag is as told; skip_special:
 * special ones do not count. False: no more. floor: end of the match before. */
bool qkv__added_next(const qkv__added *a, const char *text, size_t len, size_t from,
                     size_t floor, bool normalized, bool skip_special, qkv__match *out);

/* ---- tokenizer_pattern.c: regular expressions ----------------------------------------- */

typedef struct qkv__pattern qkv__pattern;

/* The field "pattern": {"String": text} (literal) or {"Regex": text}. */
qkv_status qkv__pattern_read(const qkv__json *at, const char **text, bool *literal);
/* at is named when the text cannot be used. On failure *out is NULL. */
qkv_status qkv__pattern_create(qkv__pattern **out, const qkv__json *at, const char *text,
                               bool literal);
void qkv__pattern_destroy(qkv__pattern *p, qkv_context *ctx); /* NULL is allowed */
/* The next match that is not empty, at or after from; *start = *end = len: there is none. */
qkv_status qkv__pattern_next(const qkv__pattern *p, qkv_context *ctx, const char *text, size_t len,
                             size_t from, size_t *start, size_t *end);

/* ---- tokenizer_split.c: pre-tokenizers ----------------------------------------------- */

typedef struct {
    qkv_status (*piece)(void *user, const char *piece, size_t len);
    void *user;
} qkv__sink;

/* Bytes of the first piece of a text (len > 0). */
typedef size_t qkv__scan_fn(const char *s, size_t len);
size_t qkv__scan_gpt2(const char *s, size_t len);
size_t qkv__scan_char(const char *s, size_t len);

typedef struct qkv__stage qkv__stage;
typedef struct {
    qkv__stage *stages;
    size_t count, capacity;
    bool byte_level; /* pieces are bytes of GPT-2's alphabet */
    bool asks_first; /* a piece that begins the text is cut otherwise than the rest */
} qkv__splitter;

qkv_status qkv__splitter_read(qkv__splitter *s, qkv_context *ctx, const qkv__json *at);
void qkv__splitter_free(qkv__splitter *s, qkv_context *ctx);
/* Gives the pieces of a text, in order, to the sink. first: as many of its bytes come from the
 * first character of what is encoded; a piece that begins among them begins the text. */
qkv_status qkv__split(const qkv__splitter *s, qkv_context *ctx, const char *text, size_t len,
                      size_t first, const qkv__sink *sink);
/* The scanner of a splitter that has one alone; else NULL. */
qkv__scan_fn *qkv__splitter_scan(const qkv__splitter *s);

/* ---- tokenizer_decode.c: decoder steps ----------------------------------------------- */

typedef struct qkv__step qkv__step;
typedef struct {
    qkv__step *steps;
    size_t count, capacity;
    bool fused;  /* while reading: steps work on the whole text from here on */
    bool spaced; /* no decoder given: tokens are joined by spaces */
    bool leading; /* what comes first is what first gives text */
} qkv__decoder;

qkv_status qkv__decoder_read(qkv__decoder *d, qkv_context *ctx, const qkv__json *at);
qkv_status qkv__decoder_add_spm(qkv__decoder *d, qkv_context *ctx, const qkv__spm *spm);
void qkv__decoder_free(qkv__decoder *d, qkv_context *ctx);
/* Changes a token's text in place; first: nothing came before. */
qkv_status qkv__decoder_run(const qkv__decoder *d, qkv_str *token, bool first);

/* ---- tokenizer_template.c: post-processors --------------------------------------------- */

enum { QKV__TEXT_A = -1, QKV__TEXT_B = -2 };

typedef struct {
    struct qkv__template_item {
        int32_t id; /* or QKV__TEXT_* */
        int32_t type;
    } *items;
    size_t count, capacity;
} qkv__template;

qkv_status qkv__template_read(qkv_tokenizer *t, const qkv__json *at);
qkv_status qkv__template_default(qkv_tokenizer *t); /* the texts alone, where nothing was read */
qkv_status qkv__template_suffix(qkv_tokenizer *t, int32_t id); /* one token behind all */
void qkv__template_free(qkv__template *x, qkv_context *ctx);

/* ---- tokenizer_pieces.c: ids of pieces seen before ----------------------------------- */

enum { QKV__PIECE_KEPT = 64 }; /* bytes; longer pieces are not kept */

typedef struct {
    struct qkv__kept *slots; /* hash table */
    size_t slot_count, used;
    qkv_text keys;
    qkv_ids ids;
} qkv__pieces;

/* NULL: not there. */
const int32_t *qkv__pieces_find(const qkv__pieces *p, const char *piece, size_t len,
                                size_t *count);
/* The piece is not there yet. */
qkv_status qkv__pieces_keep(qkv__pieces *p, qkv_context *ctx, const char *piece, size_t len,
                            const int32_t *ids, size_t count);
void qkv__pieces_free(qkv__pieces *p, qkv_context *ctx);

/* ---- tokenizer_merges.c: pairs of tokens that become one ----------------------------- */

typedef struct {
    int32_t (*pairs)[2]; /* by rank */
    int32_t *made;       /* by rank: what the pair becomes */
    size_t count, pair_cap, made_cap;
    struct qkv__merge *table; /* hash table by pair */
    size_t mask;
    struct qkv__symbol *symbols; /* scratch */
    size_t symbol_cap;
    uint64_t *heap; /* scratch: rank << 32 | place */
    size_t heap_count, heap_cap;
    double drop; /* probability that a merge is left out */
    qkv_rng *rng;
} qkv__merges;

qkv_status qkv__merges_add(qkv__merges *b, qkv_context *ctx, int32_t left, int32_t right,
                           int32_t made);
/* To be called once, after the last merge. */
qkv_status qkv__merges_index(qkv__merges *b, qkv_context *ctx);
/* Joins ids in place; *count gets less. */
qkv_status qkv__merges_join(qkv__merges *b, qkv_context *ctx, int32_t *ids, size_t *count);
void qkv__merges_free(qkv__merges *b, qkv_context *ctx);

/* ---- models -------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    bool remembered;   /* ids of pieces are worth keeping */
    bool writes_vocab; /* and reads it: it is no object token -> id */
    /* Reads the fields beside "vocab" into t->model. */
    qkv_status (*read)(qkv_tokenizer *t, const qkv__json *at);
    /* Appends a piece's ids. */
    qkv_status (*encode)(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *out);
    /* Writes what read takes besides plain fields; NULL: nothing. */
    void (*write)(const qkv_tokenizer *t, qkv_json_writer *w);
    void (*destroy)(qkv_tokenizer *t);
} qkv__model_kind;

extern const qkv__model_kind qkv__model_bpe, qkv__model_words, qkv__model_wordpiece,
    qkv__model_unigram, qkv__model_spm_bpe;

/* tokenizer_unigram.c, tokenizer_spm_bpe.c: t's model from a SentencePiece model, which t owns.
 * to_id: a piece's id in t->vocab; NULL: the same. */
qkv_status qkv__unigram_from_spm(qkv_tokenizer *t, const qkv__spm *m, const int32_t *to_id);
qkv_status qkv__spm_bpe_from_spm(qkv_tokenizer *t, const qkv__spm *m, const int32_t *to_id);
typedef struct qkv__unigram qkv__unigram;
int32_t qkv__unigram_piece(const qkv__unigram *u, const char *s, size_t len); /* -1: none */

/* tokenizer_spm_files.c: each leaves *out alone where there are no such files. */
qkv_status qkv__load_spm(qkv_tokenizer **out, qkv_context *ctx, const char *dir);
qkv_status qkv__load_marian(qkv_tokenizer **out, qkv_context *ctx, const char *dir);
/* They take the models, in case of failure too. */
qkv_status qkv__tokenizer_of_spm(qkv_tokenizer **out, qkv__spm *m);
qkv_status qkv__tokenizer_of_marian(qkv_tokenizer **out, qkv__spm *source, qkv__spm *target,
                                    const qkv__json *vocab);
/* Bytes of a language code that begins the text, and its id; 0: there is none. */
size_t qkv__language_code(const qkv_tokenizer *t, const char *text, size_t len, int32_t *id);

/* The files that byte-level BPE had before tokenizer.json. */
typedef struct {
    qkv__json vocab;
    const char *merges_file; /* its name */
    char *merges;            /* its text */
    size_t merges_len;
} qkv__bpe_files;

const qkv__merges *qkv__bpe_merges(const qkv_tokenizer *t);

/* ---- the whole ----------------------------------------------------------------------- */

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
    qkv__pieces pieces;
    qkv__template single, pair;
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

/* The mark that stands for a space: U+2581. */
#define QKV__SPACE_MARK "\xe2\x96\x81"

/* tokenizer.c: an empty one; NULL when memory is out. */
qkv_tokenizer *qkv__tokenizer_new(qkv_context *ctx);
/* The pieces of a text without added tokens: for training. */
qkv_status qkv__tokenizer_pieces(qkv_tokenizer *t, const char *text, size_t len,
                                 const qkv__sink *sink);
/* "the character U+00E9 at byte 7 ..." for a place in the text being encoded. */
qkv_status qkv__tokenizer_unknown(qkv_tokenizer *t, const char *at, size_t len);

/* tokenizer_json.c: all parts from t->spec, which is set (vocabulary and merges from t->files
 * where they are set); takes vocabulary and merges out of t->spec. */
qkv_status qkv__tokenizer_read_spec(qkv_tokenizer *t);

/* tokenizer_spec.c: the beginning of tokenizer.json for what is made here, up to and with the
 * model's plain fields: vocabulary and merges, and two closing brackets, are to follow.
 * special: added tokens and their ids. unk: NULL where there is none. begin, end: of special, what
 * begins and ends every text; NULL for none, never begin alone. */
void qkv__tokenizer_begin_spec(qkv_json_writer *w, qkv_tokenizer_kind kind,
                               const char *const *special, const int32_t *ids, size_t count,
                               const char *unk, const char *begin, const char *end);
void qkv__put_added(qkv_json_writer *w, const char *text, int32_t id);
/* A post-processor: begin A end, and begin A end B end for a pair; with begin NULL A end, A B
 * end. */
void qkv__put_template(qkv_json_writer *w, const char *key, const char *begin, int32_t begin_id,
                       const char *end, int32_t end_id);

/* tokenizer_words_file.c: BERT's files. */
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
/* All parts but the model's vocabulary, as qkv__tokenizer_begin_spec. Roles: tokens and ids;
 * a NULL token is none. ends: EOS behind every text, in place of CLS and SEP around it. */
void qkv__bert_begin_spec(qkv_json_writer *w, const qkv__bert_options *o, bool ends,
                          const char *const special[QKV_TOKEN_ROLES],
                          const int32_t ids[QKV_TOKEN_ROLES]);

/* A tokenizer from the text of a tokenizer.json; name stands for the file in messages. */
qkv_status qkv__tokenizer_parse(qkv_tokenizer **out, qkv_context *ctx, const char *name,
                                const char *text, size_t len);
/* Keys of the roles in tokenizer_config.json. */
extern const char *const qkv__role_keys[QKV_TOKEN_ROLES];

#endif
