/* pipeline_text.h - tasks on text and series through a pipeline: continuing, translating, filling
 * in, classifying, forecasting.
 * Layer: pipeline
 *
 * Each task has an option struct, the table that describes it (for command lines, for a program
 * that sets fields by name, for JSON) and its defaults; options may be NULL for these. Answers come
 * through a callback, which must not be NULL; what it is given is valid until it returns, and false
 * ends the call, which then returns QKV_OK. A model of another kind is QKV_E_UNSUPPORTED. */
#ifndef QKV_PIPELINE_TEXT_H
#define QKV_PIPELINE_TEXT_H

#include <stdio.h>

#include <qkv/npy.h>
#include <qkv/pipeline.h>
#include <qkv/infer.h>

QKV_BEGIN_DECLS

/* ---- continuing a text --------------------------------------------------------------------- */

typedef struct {
    const char *prompt; /* text to continue                                                  "\n" */
    const char *file;   /* the file with that text; NULL: prompt is the text                 NULL */
    size_t tokens;      /* most to make, for each continuation                                256 */
    size_t count;       /* continuations                                                        1 */
    bool greedy;        /* always the likeliest token                                       false */
    qkv_sampling sampling;
    size_t window;      /* earlier tokens to look at; 0: as many as it was trained on           0 */
    uint64_t seed;      /* the same seed gives the same texts                                   0 */
} qkv_pipeline_generate_options;
const qkv_option_table *qkv_pipeline_generate_table(void);
qkv_pipeline_generate_options qkv_pipeline_generate_defaults(void);

typedef enum {
    QKV_GENERATED_PROMPT, /* once for each continuation, before its first token */
    QKV_GENERATED_TOKEN,
    QKV_GENERATED_END     /* once for each continuation, also for one that the callback ended */
} qkv_generated_kind;

typedef struct {
    qkv_generated_kind kind;
    size_t index;     /* of the continuation, from 0 */
    const char *text; /* (len) bytes to show next, without a 0 behind them: the prompt; what the
                         token makes complete, which may be nothing; at the end the bytes of a
                         character that stayed incomplete */
    size_t len;
    int32_t id;                    /* of a token */
    const qkv_real *probabilities; /* (vocab) of a token: what it was drawn from */
    size_t vocab;
    const qkv_ids *ids;            /* of an end: the tokens, without the one that ended it */
    const qkv_text *continuation;  /* of an end: the same as UTF-8 */
} qkv_generated;
typedef bool qkv_generated_fn(void *user, const qkv_generated *piece);

/* Continues the prompt until one of the model's end tokens. QKV_E_ARGUMENT: a prompt without
 * tokens. */
qkv_status qkv_pipeline_generate(qkv_pipeline *p, const qkv_pipeline_generate_options *options,
                                 qkv_generated_fn *fn, void *user);

/* ---- translating --------------------------------------------------------------------------- */

typedef struct {
    size_t beams;          /* hypotheses kept of each line; 1: greedy        [1, QKV_BEAMS]     4 */
    size_t n_best;         /* answers to every line                            [1, beams]       1 */
    double length_penalty; /* scores are log p / length^this                                    1 */
    bool gnmt;             /* scores are log p / ((5 + length) / 6)^length_penalty          false */
    size_t max_length;     /* most tokens of an answer, the first input counted; 0: as the
                              directory says                                                  512 */
    size_t batch;          /* lines searched at once                                           64 */
    size_t lines;          /* lines of a file read, sorted by length and answered together   4096 */
} qkv_pipeline_translate_options;
const qkv_option_table *qkv_pipeline_translate_table(void);
/* What the directory's generation_config.json says, and the defaults of the rest. */
qkv_pipeline_translate_options qkv_pipeline_translate_defaults(const qkv_pipeline *p);

/* line: from 0. Lines come in order. */
typedef bool qkv_pipeline_translate_fn(void *user, size_t line, const qkv_translated *found);

/* Translates every line of the text (len bytes). Notes how many lines were longer than the model
 * reads and lost their ends. QKV_E_ARGUMENT: n_best is more than beams; options that qkv_generation
 * does not allow. */
qkv_status qkv_pipeline_translate(qkv_pipeline *p, const char *text, size_t len,
                                  const qkv_pipeline_translate_options *options,
                                  qkv_pipeline_translate_fn *fn, void *user);

/* The same of a file that is open for reading, up to its end; it may be larger than memory. name:
 * for the sentence when it cannot be read. */
qkv_status qkv_pipeline_translate_file(qkv_pipeline *p, FILE *file, const char *name,
                                       const qkv_pipeline_translate_options *options,
                                       qkv_pipeline_translate_fn *fn, void *user);

/* ---- filling in hidden words ---------------------------------------------------------------- */

typedef struct {
    size_t top_k; /* tokens for every mask, the likeliest first; the vocabulary at most
                     5 */
} qkv_pipeline_fill_options;
const qkv_option_table *qkv_pipeline_fill_table(void);
qkv_pipeline_fill_options qkv_pipeline_fill_defaults(void);

typedef struct {
    int32_t id;
    const char *text; /* (len) UTF-8, without a 0 behind it */
    size_t len;
    double prob;
} qkv_filling;

/* What may stand for one mask. */
typedef struct {
    size_t text, mask;       /* the mask-th of that text, both from 0 */
    const qkv_filling *best; /* (count) */
    size_t count;
} qkv_filled;
typedef bool qkv_filled_fn(void *user, const qkv_filled *filled);

/* Guesses what the tokenizer's mask token, "[MASK]", hides in each of the texts. QKV_E_ARGUMENT: a
 * text without it, or longer than the model reads. */
qkv_status qkv_pipeline_fill(qkv_pipeline *p, const char *const *texts, size_t count,
                             const qkv_pipeline_fill_options *options, qkv_filled_fn *fn,
                             void *user);

/* ---- classifying texts ---------------------------------------------------------------------- */

typedef struct {
    size_t text; /* its number, from 0 */
    size_t best; /* the likeliest class: qkv_pipeline_label has its name */
    const qkv_real *probabilities; /* (classes) */
    size_t classes;
} qkv_classified;
typedef bool qkv_classified_fn(void *user, const qkv_classified *classified);

/* Labels texts, or pairs of them, in order. Notes how many were longer than the model reads and
 * lost their ends. */
qkv_status qkv_pipeline_classify_texts(qkv_pipeline *p, const qkv_text_pair *texts, size_t count,
                                       qkv_classified_fn *fn, void *user);

/* The same of every line of a file, each as qkv_text_pair_of has it. QKV_E_FORMAT: it is empty. */
qkv_status qkv_pipeline_classify_lines(qkv_pipeline *p, const char *path, qkv_classified_fn *fn,
                                       void *user);

/* ---- forecasting ---------------------------------------------------------------------------- */

typedef struct {
    size_t horizon; /* rows to forecast; 0: as many as it was trained for                       0 */
} qkv_pipeline_forecast_options;
const qkv_option_table *qkv_pipeline_forecast_table(void);
qkv_pipeline_forecast_options qkv_pipeline_forecast_defaults(void);

/* The rows that follow a history (rows, columns) of the columns that the model was trained on, in
 * its order: out gets (horizon, targets), with the history's names. On failure out is zeroed. */
qkv_status qkv_pipeline_forecast(qkv_pipeline *p, const qkv_array *history,
                                 const qkv_pipeline_forecast_options *options, qkv_array *out);

/* The same of a CSV file, where the model's columns are found by name. history, if not NULL, gets
 * the rows read, to be freed with qkv_array_free; on failure it is zeroed too. */
qkv_status qkv_pipeline_forecast_file(qkv_pipeline *p, const char *path,
                                      const qkv_pipeline_forecast_options *options,
                                      qkv_array *history, qkv_array *out);

QKV_END_DECLS
#endif
