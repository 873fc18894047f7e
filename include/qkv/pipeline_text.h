/* pipeline_text.h - text and series tasks of a pipeline: generation, translation, masked words,
 * classification, forecasts.
 * Layer: pipeline
 *
 * Each task has an option struct, the table that describes it (for command lines, for settings by
 * name, for JSON) and its defaults; options may be NULL: the defaults. Results go to a callback,
 * which must not be NULL. They are valid during the callback. A callback that returns false ends
 * the call, which then returns QKV_OK. QKV_E_UNSUPPORTED if the model cannot perform the task. */
#ifndef QKV_PIPELINE_TEXT_H
#define QKV_PIPELINE_TEXT_H

#include <stdio.h>

#include <qkv/npy.h>
#include <qkv/pipeline.h>
#include <qkv/infer.h>

QKV_BEGIN_DECLS

/* ---- generation ---------------------------------------------------------------------------- */

enum { QKV_GENERATE_NEXT = 1000 }; /* maximum of show_next */

typedef struct {
    const char *prompt; /* text to continue                                                  "\n" */
    const char *file;   /* file with the text to continue; NULL: use prompt                  NULL */
    const char *lines;  /* file with a text to continue on each line; not beside file        NULL */
    size_t tokens;      /* maximum new tokens per continuation                                256 */
    size_t count;       /* number of continuations of each text                                 1 */
    size_t batch;       /* texts made at once, where there are several (qkv_batch); their
                           memory is that of so many caches. 1, show_next and changes: one
                           after another                                        [1, 4096]       8 */
    qkv_kv_store kv;    /* how the cache stores keys and values; with show_next and changes
                          F32                                                          QKV_KV_F32 */
    bool greedy;        /* always choose the most likely token                              false */
    qkv_sampling sampling;
    size_t window;      /* preceding tokens that the model sees; 0: max positions               0 */
    size_t show_next;   /* number of most likely tokens to report at each step
                                                               [0, QKV_GENERATE_NEXT]           0 */
    qkv_strings changes; /* of every pass (qkv_changes_add_text)                             none */
    uint64_t seed;      /* determines the texts                                                 0 */
} qkv_pipeline_generate_options;
const qkv_option_table *qkv_pipeline_generate_table(void);
qkv_pipeline_generate_options qkv_pipeline_generate_defaults(void);

typedef enum {
    QKV_GENERATED_PROMPT, /* once for each continuation, before its first token */
    QKV_GENERATED_TOKEN,
    QKV_GENERATED_END     /* once for each continuation, even if the callback stopped it */
} qkv_generated_kind;

/* A candidate for the next token. */
typedef struct {
    int32_t id;
    double probability; /* the model's own, softmax(logits): not changed by temperature, top_k and
                           the other settings of sampling */
    bool drawn;         /* it is the one that the text goes on with */
    const char *text;   /* (len) what it adds to the text before it, not 0-terminated; perhaps part
                           of a character */
    size_t len;
} qkv_next_token;

typedef struct {
    qkv_generated_kind kind;
    size_t index;     /* number of the continuation, from 0: all of the first text come first */
    const char *text; /* (len) the next bytes to show, not 0-terminated: the prompt; the characters
                         that the token completes, perhaps none; at the end the bytes of an
                         incomplete character */
    size_t len;
    int32_t id;                    /* TOKEN: the id */
    const qkv_real *probabilities; /* TOKEN: (vocab) the distribution it was sampled from; NULL
                                      where several texts are made at once */
    size_t vocab;
    const qkv_real *model_probabilities; /* TOKEN, show_next: (vocab) the model's distribution */
    const qkv_next_token *next;    /* TOKEN, show_next: (next_count) its most likely tokens, the
                                      first first; the drawn one comes last if it is not among
                                      them. Else NULL */
    size_t next_count;
    const qkv_ids *ids;            /* END: all new tokens, without the eos id */
    const qkv_text *continuation;  /* END: their text, valid UTF-8 */
} qkv_generated;
typedef bool qkv_generated_fn(void *user, const qkv_generated *piece);

/* Continues the prompt, or each line's, until an eos id or options->tokens. Texts are told of in
 * order, the first as it is made, also where several are made at once. The same seed and index give
 * the same text; made at once or alone, up to the rounding of numbers (batch.h). QKV_E_ARGUMENT: a
 * prompt has no tokens; file and lines are both set. */
qkv_status qkv_pipeline_generate(qkv_pipeline *p, const qkv_pipeline_generate_options *options,
                                 qkv_generated_fn *fn, void *user);

/* ---- translation --------------------------------------------------------------------------- */

typedef struct {
    size_t beams;          /* number of beams; 1: greedy                     [1, QKV_BEAMS]     4 */
    size_t n_best;         /* translations per line, fewer where length_factor ended the search
                              of the others                                    [1, beams]       1 */
    double length_penalty; /* a score is log p / length^length_penalty                          1 */
    bool gnmt;             /* a score is log p / ((5 + length) / 6)^length_penalty          false */
    size_t max_length;     /* maximum tokens of a translation, including start; 0: as in the
                              directory                                                       512 */
    double length_factor;  /* a line of n tokens gets at most length_factor n + QKV_LENGTH_SPARE;
                              0: no limit but max_length. Of T5, whose lines may ask for more
                              than a translation, 0                                           3 */
    size_t batch;          /* lines per search                                                 64 */
    size_t lines;          /* lines of a file that are read and sorted by length together    4096 */
    const char *shortlist; /* file (qkv_shortlist_load): the search chooses among the tokens that it
                              has for the lines of a batch. Read at the first call with this name,
                              and kept until one with another. NULL: among all             NULL */
    qkv_shortlist_options list;                                                      /* 1000, 100 */
    qkv_strings ensemble;  /* directories of translators with the same tokenizer, which score tokens
                              together with p's (qkv_beam_search_add). Opened at the first call with
                              these names, and kept until one with others. None: p's alone */
    const char *reverse;   /* directory of a translator of the other direction, which rescores all
                              hypotheses of a line (qkv_reverse); opened and kept like shortlist.
                              NULL: none                                                   NULL */
    double reverse_weight; /* of its scores                                        [0, 100]   0.1 */
} qkv_pipeline_translate_options;
const qkv_option_table *qkv_pipeline_translate_table(void);
/* The settings in the directory's generation_config.json, and defaults for the others. */
qkv_pipeline_translate_options qkv_pipeline_translate_defaults(const qkv_pipeline *p);

/* Receives the translations of a line, numbered from 0. Lines come in order. */
typedef bool qkv_pipeline_translate_fn(void *user, size_t line, const qkv_translated *found);

/* Translates every line of the text (len bytes). A note reports how many lines exceed max positions
 * and are truncated; with a shortlist another says how many tokens it left to choose among.
 * QKV_E_ARGUMENT: n_best > beams, options that qkv_generation does not allow, or an ensemble whose
 * models have other tokens. */
qkv_status qkv_pipeline_translate(qkv_pipeline *p, const char *text, size_t len,
                                  const qkv_pipeline_translate_options *options,
                                  qkv_pipeline_translate_fn *fn, void *user);

/* Translates a file that is open for reading to its end; it may be larger than memory. name: used
 * in error messages. */
qkv_status qkv_pipeline_translate_file(qkv_pipeline *p, FILE *file, const char *name,
                                       const qkv_pipeline_translate_options *options,
                                       qkv_pipeline_translate_fn *fn, void *user);

/* Making a shortlist for a translator. */
typedef struct {
    const char *source, *target; /* files of sentences, line by line translations            NULL */
    size_t pairs;                /* the first lines that are read, at most                1000000 */
    qkv_shortlist_learn_options learn;                                            /* 5, 100, 1e-6 */
} qkv_make_shortlist_options;
const qkv_option_table *qkv_make_shortlist_table(void);
qkv_make_shortlist_options qkv_make_shortlist_defaults(void);

/* What was made. */
typedef struct {
    size_t pairs;   /* learnt from */
    size_t sources; /* source tokens with translations */
    size_t entries; /* lines of the file */
} qkv_made_shortlist;

/* Learns (qkv_shortlist_learn) which tokens of the translator in dir may translate which, from
 * pairs that it could read whole, and writes them to the file (qkv_shortlist_save). The directory's
 * weights are not read. Notes say what was left out. *made may be NULL. QKV_E_ARGUMENT: source or
 * target is NULL. */
qkv_status qkv_make_shortlist(qkv_context *ctx, const char *dir, const char *file,
                              const qkv_make_shortlist_options *options, qkv_made_shortlist *made);

/* ---- masked words --------------------------------------------------------------------------- */

typedef struct {
    size_t top_k; /* tokens per mask, most likely first; at most the vocabulary
                     5 */
} qkv_pipeline_fill_options;
const qkv_option_table *qkv_pipeline_fill_table(void);
qkv_pipeline_fill_options qkv_pipeline_fill_defaults(void);

typedef struct {
    int32_t id;
    const char *text; /* (len) UTF-8, not 0-terminated */
    size_t len;
    double prob;
} qkv_filling;

/* The predictions for one mask. */
typedef struct {
    size_t text, mask;       /* index of the text, and of the mask in it, from 0 */
    const qkv_filling *best; /* (count) */
    size_t count;
} qkv_filled;
typedef bool qkv_filled_fn(void *user, const qkv_filled *filled);

/* Predicts every mask token of the tokenizer ("[MASK]") in the texts. QKV_E_ARGUMENT: a text
 * without a mask token, or longer than max positions. */
qkv_status qkv_pipeline_fill(qkv_pipeline *p, const char *const *texts, size_t count,
                             const qkv_pipeline_fill_options *options, qkv_filled_fn *fn,
                             void *user);

/* ---- text classification -------------------------------------------------------------------- */

typedef struct {
    size_t text; /* index of the text, from 0 */
    size_t best; /* the most likely class; qkv_pipeline_label returns its name */
    const qkv_real *probabilities; /* (classes) */
    size_t classes;
} qkv_classified;
typedef bool qkv_classified_fn(void *user, const qkv_classified *classified);

/* Classifies texts or text pairs, in order. A note reports the number of truncated texts, which
 * exceed max positions. */
qkv_status qkv_pipeline_classify_texts(qkv_pipeline *p, const qkv_text_pair *texts, size_t count,
                                       qkv_classified_fn *fn, void *user);

/* Classifies every line of a file, as qkv_text_pair_of splits it. QKV_E_FORMAT: an empty file. */
qkv_status qkv_pipeline_classify_lines(qkv_pipeline *p, const char *path, qkv_classified_fn *fn,
                                       void *user);

/* ---- forecasts ------------------------------------------------------------------------------ */

typedef struct {
    size_t horizon; /* rows to forecast; 0: the horizon of the model                            0 */
} qkv_pipeline_forecast_options;
const qkv_option_table *qkv_pipeline_forecast_table(void);
qkv_pipeline_forecast_options qkv_pipeline_forecast_defaults(void);

/* Forecasts the rows after a history (rows, columns) with the training columns in their order. *out
 * receives (horizon, targets) with the history's column names. Free it with qkv_array_free. On
 * failure *out is zeroed. */
qkv_status qkv_pipeline_forecast(qkv_pipeline *p, const qkv_array *history,
                                 const qkv_pipeline_forecast_options *options, qkv_array *out);

/* Forecasts from a CSV file, in which the model's columns are found by name. history, if not NULL,
 * receives the rows; free it with qkv_array_free. On failure both arrays are zeroed. */
qkv_status qkv_pipeline_forecast_file(qkv_pipeline *p, const char *path,
                                      const qkv_pipeline_forecast_options *options,
                                      qkv_array *history, qkv_array *out);

/* ---- classes of series ---------------------------------------------------------------------- */

/* Labels the series of a file of lines V1,V2,..: the values of a series, step after step (of as
 * many numbers as the model's rows have); commas, semicolons or tabs between, empty cells at the
 * end are left out. What is longer than the model reads is cut. */
qkv_status qkv_pipeline_classify_series(qkv_pipeline *p, const char *path, qkv_classified_fn *fn,
                                        void *user);

/* ---- gaps in series ------------------------------------------------------------------------- */

/* Fills in what is missing (NaN) of a series (rows, columns) with the training columns in their
 * order. *out receives its rows with its column names. Free it with qkv_array_free. On failure *out
 * is zeroed. */
qkv_status qkv_pipeline_fill_series(qkv_pipeline *p, const qkv_array *rows, qkv_array *out);
/* The same of a CSV file (qkv_csv_load_gaps), in which the model's columns are found by name. rows,
 * if not NULL, receives what was read; free it with qkv_array_free. On failure both arrays are
 * zeroed. */
qkv_status qkv_pipeline_fill_series_file(qkv_pipeline *p, const char *path, qkv_array *rows,
                                         qkv_array *out);

QKV_END_DECLS
#endif
