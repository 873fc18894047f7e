/* task.h - what is learnt: batches from data, a loss, metrics on held-out data.
 * Layer: task */
#ifndef QKV_TASK_H
#define QKV_TASK_H

#include <qkv/forecast.h>
#include <qkv/model.h>
#include <qkv/records.h>
#include <qkv/tokens.h>

QKV_BEGIN_DECLS

enum { QKV_METRICS = 8 }; /* of one evaluation, at most */

/* Named results of an evaluation; the first is the one that checkpoints are chosen by, but for
 * `newest`. */
typedef struct {
    struct {
        const char *name; /* "loss", "perplexity", "accuracy"; static */
        double value;
    } item[QKV_METRICS];
    int count;
    bool more_is_better;   /* of the first */
    bool newest; /* the first does not say which model is better: the newest one is kept */
    const char *unit;      /* of what was evaluated: "tokens"; static; NULL: not set */
    size_t scored, units;  /* how much of the held-out data was evaluated, and all there is */
} qkv_metrics;

/* name is not copied. One metric more than there is room for is left out. */
void qkv_metrics_add(qkv_metrics *m, const char *name, double value);

/* Which samples of an update's batch a call is about: first .. first+count-1 of `total`. */
typedef struct {
    uint64_t step; /* of the update, from 0 */
    int phase;
    size_t first, count, total;
    double *data_seconds; /* a task adds the time that it takes to make the batch; NULL: nobody
                             asks */
} qkv_micro_batch;

/* A task is these functions and a struct of its own; programs may bring their own. REQUIRED: name,
 * phases, loss, and evaluate where something is held out. The rest is OPTIONAL: zeroed, it has the
 * default that its comment gives. What a loss depends on is its part (step, phase and samples), the
 * task's seed and the parameters, nothing else: then a resumed run ends with the bits of one that
 * never stopped. */
typedef struct {
    const char *name;
    const char *unit; /* what rates count, "tokens"; NULL: nobody shows them */
    int phases;       /* updates in one step, each with its own loss: 1 nearly always */
    /* The part's share of the batch's mean loss: the shares of all parts add up to it. Recorded
     * on t. NULL on failure, after qkv_tape_fail, qkv_fail or an op that failed. */
    qkv_tensor *(*loss)(void *self, qkv_tape *t, const qkv_micro_batch *part);
    /* Metrics on held-out data, on at most `limit` units (0: all). Asked only of tasks that have
     * such data; NULL: none ever has. */
    qkv_status (*evaluate)(void *self, qkv_tape *t, size_t limit, qkv_metrics *out);
    size_t (*units)(void *self); /* in a sample; NULL: 1 */
    double (*flops)(void *self); /* of a training step, for one sample; NULL: not counted */
    /* Whether a phase has nothing to do in that update: no loss is asked for, nothing moves. NULL:
     * never. */
    bool (*idle)(void *self, uint64_t step, int phase);
    void (*destroy)(void *self); /* NULL: nothing to free */
} qkv_task_type;

/* A loss, one phase, and the defaults of the rest. */
qkv_task_type qkv_task_type_defaults(const char *name,
                                     qkv_tensor *(*loss)(void *self, qkv_tape *t,
                                                         const qkv_micro_batch *part));


/* What qkv_train trains: the library's tasks fill it in, and so may a program. */
typedef struct {
    const qkv_task_type *type;
    void *self;       /* what the type's functions get; may be NULL */
    qkv_model *model; /* whose parameters move */
    uint64_t seed; /* of batches and dropout */
    bool held_out; /* there are data to evaluate on */
} qkv_task;

void qkv_task_destroy(qkv_task *task);

/* ---- continuing text ----------------------------------------------------------------------- */

/* Predict each next token of windows of `length` tokens. train, valid (NULL: nothing is held out)
 * and the model must outlive the task. On failure out->self is NULL. */
qkv_status qkv_task_lm(qkv_task *out, qkv_model *model, const qkv_tokens *train,
                       const qkv_tokens *valid, size_t length, uint64_t seed);

typedef struct {
    double loss;       /* mean -log p of a token, nats */
    double perplexity; /* e^loss */
    double bits_per_byte; /* of the text: loss tokens / (ln 2 bytes) */
    size_t tokens;     /* scored */
} qkv_lm_score;

/* Scores tokens 2 .. n once each: window i reads tokens iT .. iT+T-1. limit: whole
 * windows of about so many tokens, evenly over the text (0: all). t is reset and used without
 * recording. */
qkv_status qkv_lm_evaluate(qkv_model *m, qkv_tape *t, const qkv_tokens *tokens, size_t T,
                           size_t limit, qkv_lm_score *out);

/* ---- translating --------------------------------------------------------------------------- */

typedef struct {
    size_t budget;    /* ids in a sample, source and target: as many pairs as fit */
    double smoothing; /* of the labels, PyTorch's                       [0, 1)    0.1 */
    /* > 0: R-Drop: two forward passes of each pair, with other dropout, are to agree, as in
     * qkv_cross_entropy_options. The budget holds half as many pairs then.         0 */
    double rdrop;
    /* Training reads each sentence cut anew, as by qkv_tokenizer_resegment with this amount (the
     * budget counts the records' ids); 0: as it is in the records                        0 */
    double sampling;
    qkv_tokenizer *tokenizer; /* for sampling alone: must outlive the task */
} qkv_translate_options;

/* Predict each target token from the source and those before it. Records are sentence pairs: ids of
 * the source, ids of the target, each with the token that ends it; a sample is a pack of them, laid
 * one after another. train, valid (NULL: nothing is held out) and the model, a marian or
 * qkv_translator, must outlive the task. On failure out->self is NULL. */
qkv_status qkv_task_translate(qkv_task *out, qkv_model *model, const qkv_records *train,
                              const qkv_records *valid, const qkv_translate_options *options,
                              uint64_t seed);

typedef struct {
    double loss;       /* mean -log p of a target token, nats */
    double perplexity; /* e^loss */
    size_t tokens;     /* scored */
} qkv_translate_score;

/* Scores every target token given the source and the right tokens before it. limit: pairs of about
 * so many target tokens, evenly over the records (0: all). t is reset and used without
 * recording. */
qkv_status qkv_translate_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                                  size_t limit, qkv_translate_score *out);

/* ---- guessing hidden words ----------------------------------------------------------------- */

typedef struct {
    size_t budget; /* most ids in a training sample, a pack of texts                        4096 */
    double share;  /* of the words hidden: 80 % of these as [MASK], 10 % as any id, 10 % not at
                      all                                                    (0, 1]        0.15 */
} qkv_mlm_options;
qkv_mlm_options qkv_mlm_defaults(void);

/* Guess the hidden words of records of 1 field, the ids of a text with its special tokens, which
 * are never hidden. Other words are hidden each time a text comes along; how many are in the whole
 * update divides its loss. The tokenizer says which ids are special and is not kept; all else must
 * outlive the task. options may be NULL. On failure out->self is NULL. */
qkv_status qkv_task_mlm(qkv_task *out, qkv_model *model, const qkv_records *train,
                        const qkv_records *valid, const qkv_tokenizer *tokenizer,
                        const qkv_mlm_options *options, uint64_t seed);

typedef struct {
    double loss;          /* mean -log p of a hidden word, nats */
    double perplexity;    /* e^loss */
    double accuracy;      /* share of the hidden words that the likeliest guess gets right */
    size_t words, tokens; /* hidden; read */
} qkv_mlm_score;

/* The words that are hidden are the same each time and for every model with this vocabulary.
 * limit: about so many ids, evenly over the records (0: all). t is reset and used without
 * recording. */
qkv_status qkv_mlm_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                            const qkv_tokenizer *tokenizer, const qkv_mlm_options *options,
                            size_t limit, qkv_mlm_score *out);

/* ---- choosing a class for a text ------------------------------------------------------------- */

typedef struct {
    double smoothing; /* of the labels                                     [0, 1)    0 */
    double drop;      /* share of the words that training puts [MASK] over [0, 1)    0 */
    double rdrop; /* > 0: each text is read twice, with other words dropped, and both readings
                     are to agree, as in qkv_cross_entropy_options              0 */
} qkv_classify_options;

/* Records of 3 fields: a text's ids with its special tokens; those of a second text, or none; the
 * number of the class. A sample is one text; every epoch has another order. The tokenizer may be
 * NULL when no words are dropped, and is not kept; all else must outlive the task. options may be
 * NULL. On failure out->self is NULL. */
qkv_status qkv_task_classify(qkv_task *out, qkv_model *model, const qkv_records *train,
                             const qkv_records *valid, const qkv_tokenizer *tokenizer,
                             const qkv_classify_options *options, uint64_t seed);

typedef struct {
    double accuracy;
    double loss; /* mean -log p of the class, nats; labels are not smoothed */
    double f1;   /* two classes: of class 1; more: the plain mean over the classes */
    size_t texts;
} qkv_classify_score;

/* limit: so many texts, evenly over the records (0: all). t is reset and used without recording. */
qkv_status qkv_classify_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                                 size_t limit, qkv_classify_score *out);

/* ---- forecasting --------------------------------------------------------------------------- */

/* Predict the `horizon` rows behind windows of `context` rows, all of which a sample is. Windows
 * start at every row: their order is a function of (seed, sample), an epoch has each once. valid
 * (no data: nothing is held out) begins with rows that are only looked back on: see
 * qkv_forecast_lead. What both point to and the model, a qkv_forecast, must outlive the task.
 * QKV_E_ARGUMENT: too few rows. On failure out->self is NULL. */
qkv_status qkv_task_forecast(qkv_task *out, qkv_model *model, const qkv_series *train,
                             const qkv_series *valid, uint64_t seed);

/* Where the window of a sample starts in the training rows; there must be context + horizon. */
size_t qkv_forecast_window(const qkv_forecast_config *c, size_t rows, uint64_t seed,
                           uint64_t sample);

/* Rows that come before those which are forecast: the context, or the naive forecast's season
 * where that is longer. */
size_t qkv_forecast_lead(const qkv_forecast_config *c);

/* The season of 2 rows or more whose naive forecast (each value as it was one season before, or as
 * many as the horizon needs) has the least squared error on the training rows (the last 65536); 1
 * when there are too few. Seasons up to a third of the rows, at most 4096, are tried: lags at which
 * rows differ less than at those about them. QKV_E_MEMORY. */
qkv_status qkv_forecast_find_season(size_t *out, qkv_context *ctx, const qkv_forecast_config *c,
                                    const qkv_series *train);

/* Means over all windows, rows of the horizon and targets. */
typedef struct {
    double loss;      /* squared error in the training rows' standard deviations */
    double mse, mae;  /* in the data's units */
    double persistence, seasonal; /* squared errors, as mse, of the last known row and of the row a
                                     season before; seasonal is infinite where it is not known */
    double ratio;     /* loss over that of the better of the two */
    size_t windows, rows; /* scored: windows, and rows in their horizons */
    size_t all;           /* rows that could be */
} qkv_forecast_score;

/* Forecasts from every row on, but not before qkv_forecast_lead (before the context, when there are
 * too few rows for the season: then that is left out). limit: windows of about so many rows,
 * evenly over the series (0: all). t is reset and used without recording. */
qkv_status qkv_forecast_evaluate(qkv_model *m, qkv_tape *t, const qkv_series *series,
                                 size_t limit, qkv_forecast_score *out);

QKV_END_DECLS
#endif
