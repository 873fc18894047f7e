/* shortlist.h - vocabulary shortlists of translators: which target tokens may translate which
 * source token, so that a search multiplies few rows of the output layer (Jean et al. 2015, section
 * 3.3). Learnt from sentence pairs, or read from Marian's lexical shortlists ("lex.s2t").
 * Layer: text */
#ifndef QKV_SHORTLIST_H
#define QKV_SHORTLIST_H

#include <qkv/records.h>
#include <qkv/tokenizer.h>

QKV_BEGIN_DECLS

typedef struct qkv_shortlist qkv_shortlist;

/* How probable it is that source becomes target where it is translated. */
typedef struct {
    int32_t source, target;
    float probability; /* (0, 1] */
} qkv_shortlist_entry;

/* Makes one of entries (count, in any order), which are copied; 0: none, and lists have the first
 * tokens alone. QKV_E_ARGUMENT: an id that is not in [0, vocab), a probability that is not in (0,
 * 1], a pair that occurs twice. On failure *out is NULL. */
qkv_status qkv_shortlist_create(qkv_shortlist **out, qkv_context *ctx, size_t vocab,
                                const qkv_shortlist_entry *entries, size_t count);
void qkv_shortlist_destroy(qkv_shortlist *s); /* NULL is allowed */

size_t qkv_shortlist_vocab(const qkv_shortlist *s);
/* All entries (*count) by source, the most probable first, of equals the smaller target. */
const qkv_shortlist_entry *qkv_shortlist_entries(const qkv_shortlist *s, size_t *count);

/* ---- the tokens of a list ------------------------------------------------------------------- */

typedef struct {
    size_t first; /* most frequent target tokens, in every list            [0, 2^24] 1000 */
    size_t best;  /* most probable translations of each source token       [0, 2^24]  100 */
} qkv_shortlist_options;

/* Sets *out to the tokens that sentences of these source ids (n) leave to choose among, increasing:
 * the union over all ids of their `best` translations, the `first` tokens, and those that no file
 * can name. How frequent a token is, is not in a lexicon: the sum of p(token | source) over all
 * source tokens stands for it, of equals the smaller id comes first. QKV_E_ARGUMENT: an id that is
 * not in [0, vocab). */
qkv_status qkv_shortlist_tokens(const qkv_shortlist *s, const qkv_shortlist_options *options,
                                const int32_t *ids, size_t n, qkv_ids *out);

/* ---- learning ------------------------------------------------------------------------------- */

typedef struct {
    size_t iterations; /* of EM                                               [1, 1000]    5 */
    size_t most;       /* translations kept of a source token              [1, 2^24]  100 */
    double least;      /* less probable ones are left out                       [0, 1]  1e-6 */
} qkv_shortlist_learn_options;

/* Learns p(target | source) by expectation maximisation in model 1 (Brown et al. 1993, eq. 16-17),
 * with an empty source word, from records of 2 fields, ids of a sentence and its translation, all
 * below vocab. One thread; the same records give the same bits. Between iterations a source token
 * keeps its 256 (or `most`) most probable translations, so that memory is 4 bytes for a token of
 * either side and 8 for a pair beside the records, and at most 8 KiB for each token of the
 * vocabulary (in proportion more where `most` is). Reports its progress. QKV_E_ARGUMENT: other
 * records. On failure *out is NULL. */
qkv_status qkv_shortlist_learn(qkv_shortlist **out, qkv_context *ctx, const qkv_records *pairs,
                               size_t vocab, const qkv_shortlist_learn_options *options);

/* ---- files ---------------------------------------------------------------------------------- */

/* Lines "target source probability" with the tokens as the tokenizer spells them, separated by
 * blanks: what Marian reads with --shortlist. A token that has a blank in it, or is spelled NULL
 * (Marian's empty word), cannot stand in such a file. */

/* Writes s, atomically; leaves out entries whose tokens cannot stand there. */
qkv_status qkv_shortlist_save(const qkv_shortlist *s, const qkv_tokenizer *t, const char *path);

/* Reads a file for a model with `vocab` tokens. A note says how many lines have tokens that it does
 * not know; they are skipped, as lines of NULL are. QKV_E_FORMAT, with file, line and field, for a
 * line that is none, a pair that occurs twice, and a file of which no line is known. Tokens that
 * cannot stand in a file are in all lists. On failure *out is NULL. */
qkv_status qkv_shortlist_load(qkv_shortlist **out, qkv_context *ctx, const qkv_tokenizer *t,
                              size_t vocab, const char *path);

QKV_END_DECLS
#endif
