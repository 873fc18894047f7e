/* corpus.h - texts as records: lines to learn words from, texts with labels.
 * Layer: text */
#ifndef QKV_CORPUS_H
#define QKV_CORPUS_H

#include <qkv/records.h>
#include <qkv/tokens.h>

QKV_BEGIN_DECLS

/* ---- lines ------------------------------------------------------------------------------- */

/* Adds a text to records of 1 field, a line's ids between the tokenizer's [CLS] and [SEP] (where it
 * has them), at most `length` in all: a longer line becomes several records, an empty one none.
 * join: lines follow one another within a record until it is full. */
qkv_status qkv_corpus_add_lines(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                                const qkv_text_span *part, size_t length, bool join);

/* ---- one text or two --------------------------------------------------------------------- */

typedef struct {
    const char *text;
    size_t len;
    const char *second; /* NULL: one text */
    size_t second_len;
} qkv_text_pair;

/* A text, or two with a tab between. The bytes stay the caller's. */
qkv_text_pair qkv_text_pair_of(const char *text, size_t len);

/* Sets *out to the ids with their special tokens; from *second on they are the second text's. Texts
 * with more ids than `length` lose their ends, the longer one first (Hugging Face's
 * "longest_first", as its fast tokenizers do it), and *cut is set. */
qkv_status qkv_corpus_encode(qkv_tokenizer *t, qkv_context *ctx, const qkv_text_pair *pair,
                             size_t length, qkv_ids *out, size_t *second, bool *cut);

/* ---- labelled texts ---------------------------------------------------------------------- */

/* A line: label, tab, text; or label, tab, text, tab, second text. The bytes are the file's. */
typedef struct {
    const char *label; /* NULL: there is no more line */
    size_t label_len;
    qkv_text_pair pair;
    size_t line; /* its number in the file, from 1 */
} qkv_labelled_text;

/* Reads a part line by line; empty lines are passed over. All lines are UTF-8 and have as many
 * columns as the first, or it is an error that names file and line. */
typedef struct {
    qkv_context *ctx;
    const qkv_text_span *part;
    size_t at, line, columns;
} qkv_labelled_reader;

void qkv_labelled_begin(qkv_labelled_reader *r, qkv_context *ctx, const qkv_text_span *part);
qkv_status qkv_labelled_next(qkv_labelled_reader *r, qkv_labelled_text *out);

/* The labels that occur, once each, in the order of their bytes: class 0, 1 .. */
typedef struct {
    qkv_context *ctx;
    char **names; /* (count) */
    size_t count, capacity;
} qkv_labels;

/* Adds those of a part; start from {ctx}. On failure there are those that were found before. */
qkv_status qkv_labels_collect(qkv_labels *l, const qkv_text_span *part);
void qkv_labels_free(qkv_labels *l);

/* Adds a part to records of 3 fields: the text's ids, the second's (or none), the number of the
 * label among names (count). A label that is not there is an error that names file and line.
 * *cut grows by the texts that lost their ends. */
qkv_status qkv_corpus_add_labelled(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                                   const qkv_text_span *part, const char *const *names,
                                   size_t count, size_t length, size_t *cut);

QKV_END_DECLS
#endif
