/* corpus.h - texts as records of ids: lines, text pairs, labelled texts.
 * Layer: text */
#ifndef QKV_CORPUS_H
#define QKV_CORPUS_H

#include <qkv/records.h>
#include <qkv/tokens.h>

QKV_BEGIN_DECLS

/* ---- lines ------------------------------------------------------------------------------- */

/* Appends a text's lines to records of 1 field. A record is a line's ids, between [CLS] and [SEP]
 * if the tokenizer has them, at most `length` in total. A longer line is split into several
 * records. Empty lines are skipped. join: consecutive lines fill a record. */
qkv_status qkv_corpus_add_lines(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                                const qkv_text_span *part, size_t length, bool join);

/* ---- one text or two --------------------------------------------------------------------- */

typedef struct {
    const char *text;
    size_t len;
    const char *second; /* NULL: one text */
    size_t second_len;
} qkv_text_pair;

/* Splits "text" or "text TAB second text". The result points into the caller's bytes. */
qkv_text_pair qkv_text_pair_of(const char *text, size_t len);

/* Sets *out to the pair's ids with special tokens, and *second to the index where the second text's
 * ids begin. More than `length` ids are truncated, from the end of the longer text first (Hugging
 * Face's "longest_first", as in its fast tokenizers), and *cut is set to true. */
qkv_status qkv_corpus_encode(qkv_tokenizer *t, qkv_context *ctx, const qkv_text_pair *pair,
                             size_t length, qkv_ids *out, size_t *second, bool *cut);

/* ---- texts that belong together ---------------------------------------------------------- */

/* What became of the lines; qkv_corpus_add_partners adds to it. */
typedef struct {
    size_t pairs; /* records added */
    size_t empty; /* left out: a side is blank */
    size_t cut;   /* of pairs: a side was truncated */
} qkv_partners_count;

/* Appends pairs of texts to records of 2 fields: the ids of a text and of its partner, each with
 * special tokens and at most `length`. Line i of b is the partner of line i of a; b NULL: lines of
 * a are a text, a tab and its partner. A line without partner, or that is not UTF-8, is an error
 * whose message names file and line. */
qkv_status qkv_corpus_add_partners(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                                   const qkv_text_span *a, const qkv_text_span *b, size_t length,
                                   qkv_partners_count *count);

/* ---- labelled texts ---------------------------------------------------------------------- */

/* A line: label TAB text, or label TAB text TAB second text. Points into the file's bytes. */
typedef struct {
    const char *label; /* NULL: end of the text */
    size_t label_len;
    qkv_text_pair pair;
    size_t line; /* line number in the file, from 1 */
} qkv_labelled_text;

/* Reads a text span line by line and skips empty lines. A line that is not UTF-8, or has another
 * number of columns than the first, is an error whose message names file and line. */
typedef struct {
    qkv_context *ctx;
    const qkv_text_span *part;
    size_t at, line, columns;
} qkv_labelled_reader;

void qkv_labelled_begin(qkv_labelled_reader *r, qkv_context *ctx, const qkv_text_span *part);
qkv_status qkv_labelled_next(qkv_labelled_reader *r, qkv_labelled_text *out);

/* The distinct labels, sorted by bytes. The index is the class. */
typedef struct {
    qkv_context *ctx;
    char **names; /* (count) */
    size_t count, capacity;
} qkv_labels;

/* Adds the labels of a span. Initialise with {ctx}. On failure earlier labels stay. */
qkv_status qkv_labels_collect(qkv_labels *l, const qkv_text_span *part);
void qkv_labels_free(qkv_labels *l);

/* Appends a span's labelled texts to records of 3 fields: the ids of the text, of the second text
 * (or none), and the label's index in names (count). An unknown label is an error whose message
 * names file and line. Adds the number of truncated texts to *cut. */
qkv_status qkv_corpus_add_labelled(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                                   const qkv_text_span *part, const char *const *names,
                                   size_t count, size_t length, size_t *cut);

QKV_END_DECLS
#endif
