/* task.h - training tasks: batches from data, a loss, metrics on held-out data.
 * Layer: task */
#ifndef QKV_TASK_H
#define QKV_TASK_H

#include <qkv/forecast.h>
#include <qkv/model.h>
#include <qkv/records.h>
#include <qkv/series.h>
#include <qkv/tokens.h>

QKV_BEGIN_DECLS

enum { QKV_METRICS = 8 }; /* maximum number of metrics of an evaluation */

/* Named results of an evaluation. The best checkpoint is chosen by the first, unless `newest`. */
typedef struct {
    struct {
        const char *name; /* "loss", "perplexity", "accuracy"; static */
        double value;
    } item[QKV_METRICS];
    int count;
    bool more_is_better;   /* for the first metric */
    bool newest; /* keep the latest model: the first metric does not rank models */
    const char *unit;      /* of the evaluated data: "tokens"; static; NULL: not set */
    size_t scored, units;  /* held-out units: evaluated; in total */
} qkv_metrics;

/* name is not copied. Ignored if the struct is full. */
void qkv_metrics_add(qkv_metrics *m, const char *name, double value);

enum { QKV_TERMS = 16 }; /* maximum number of terms of an update's loss */

/* Named terms of an update's loss, and what weighs them. A term is reported as it is, without its
 * weight in the loss. */
typedef struct {
    struct {
        const char *name; /* "rec", "codebook"; static */
        double value;
    } item[QKV_TERMS];
    int count;
} qkv_terms;

/* Adds value to the term of this name, which begins with 0. name is not copied. Ignored for NULL
 * and if the struct is full. */
void qkv_terms_add(qkv_terms *terms, const char *name, double value);

/* A micro-batch: samples first .. first+count-1 of the batch's `total`. */
typedef struct {
    uint64_t step; /* number of the update, from 0 */
    int phase;
    size_t first, count, total;
    double *data_seconds; /* the task adds its time for making the batch; NULL: not
                             measured */
    qkv_terms *terms;     /* the task may add its terms' shares of the batch's means; NULL: not
                             asked */
} qkv_micro_batch;

/* Reports a term whose mean over the micro-batch's samples this is: adds its share of the batch's
 * mean. */
void qkv_term_mean(const qkv_micro_batch *part, const char *name, double mean);

/* A task type: functions on a task's own struct. A program can define its own. REQUIRED: name,
 * phases, loss, and evaluate if the task has held-out data. The rest is OPTIONAL: zeroed, it has
 * the default given here. The loss must depend on nothing but the micro-batch (step, phase,
 * samples), the task's seed and the parameters. Then a resumed run ends with the same bits as an
 * uninterrupted one. */
typedef struct {
    const char *name;
    const char *unit; /* unit of the training speed, "tokens"; NULL: speed is not shown */
    int phases;       /* updates per step, each with its own loss; usually 1 */
    /* Records on t the micro-batch's share of the batch's mean loss; the shares of a batch's
     * micro-batches add up to it. NULL on failure, after qkv_tape_fail, qkv_fail or a failed op. */
    qkv_tensor *(*loss)(void *self, qkv_tape *t, const qkv_micro_batch *part);
    /* Computes metrics on at most `limit` held-out units (0: all). Called only if the task has
     * held-out data. */
    qkv_status (*evaluate)(void *self, qkv_tape *t, size_t limit, qkv_metrics *out);
    size_t (*units)(void *self); /* units per sample; NULL: 1 */
    double (*flops)(void *self); /* per sample of a training step; NULL: not counted */
    /* Called once a phase, after the loss of every micro-batch and its backward pass, before the
     * parameters are updated; on every rank (dist.h). For what a batch as a whole decides. NULL:
     * nothing. */
    qkv_status (*end_phase)(void *self, uint64_t step, int phase);
    /* True if a phase does nothing in this update: no loss is computed, no parameter changes. NULL:
     * never. */
    bool (*idle)(void *self, uint64_t step, int phase);
    void (*destroy)(void *self); /* NULL: nothing to free */
} qkv_task_type;

/* A type with this loss, one phase, and defaults for the others. */
qkv_task_type qkv_task_type_defaults(const char *name,
                                     qkv_tensor *(*loss)(void *self, qkv_tape *t,
                                                         const qkv_micro_batch *part));


/* What qkv_train trains. The library's tasks, or a program, fill it in. */
typedef struct qkv_task {
    const qkv_task_type *type;
    void *self;       /* argument of the type's functions; may be NULL */
    qkv_model *model; /* the model to train */
    uint64_t seed; /* of batches and dropout */
    bool held_out; /* the task has held-out data */
} qkv_task;

void qkv_task_destroy(qkv_task *task);

/* ---- language models ----------------------------------------------------------------------- */

/* A task that trains a GPT to predict the next token, on windows of `length` tokens. train, valid
 * (NULL: nothing is held out) and the model must outlive the task. On failure out->self is NULL. */
qkv_status qkv_task_lm(qkv_task *out, qkv_model *model, const qkv_tokens *train,
                       const qkv_tokens *valid, size_t length, uint64_t seed);

typedef struct {
    double loss;       /* mean -log p of a token, nats */
    double perplexity; /* e^loss */
    double bits_per_byte; /* loss tokens / (ln 2 bytes), bytes of the text */
    size_t tokens;     /* number of tokens scored */
} qkv_lm_score;

/* Scores tokens 2 .. n once each: window i reads tokens iT .. iT+T-1. limit: approximate number of
 * tokens, in whole windows, evenly spaced (0: all). t is reset and used without recording. */
qkv_status qkv_lm_evaluate(qkv_model *m, qkv_tape *t, const qkv_tokens *tokens, size_t T,
                           size_t limit, qkv_lm_score *out);

/* The same on conversations, records of 2 fields (qkv_chat_add_records): a sample is as many whole
 * conversations as have `length` ids together, which do not attend to each other, and the loss is
 * the mean over the tokens of the assistant. */
qkv_status qkv_task_chat(qkv_task *out, qkv_model *model, const qkv_records *train,
                         const qkv_records *valid, size_t length, uint64_t seed);

typedef struct {
    double loss;       /* mean -log p of a token of the assistant, nats */
    double perplexity; /* e^loss */
    double accuracy;   /* share of these tokens that were the most likely */
    size_t answers;    /* number of these tokens */
    size_t tokens;     /* read */
} qkv_chat_score;

/* Scores conversations; limit: approximate number of tokens, in whole ones, evenly spaced (0: all).
 * t is reset and used without recording. */
qkv_status qkv_chat_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records, size_t limit,
                             qkv_chat_score *out);

/* ---- translation --------------------------------------------------------------------------- */

typedef struct {
    size_t budget;    /* maximum ids of a packed batch, source and target together */
    double smoothing; /* label smoothing, PyTorch's                     [0, 1)    0.1 */
    /* > 0: R-Drop with this weight, as in qkv_cross_entropy_options: two forward passes per pair.
     * The budget then holds half as many pairs.                                    0 */
    double rdrop;
    /* Subword regularisation: amount of qkv_tokenizer_resegment, applied to each sentence whenever
     * it is read (the budget counts the records' ids); 0: none                          0 */
    double sampling;
    qkv_tokenizer *tokenizer; /* for sampling only; must outlive the task */
} qkv_translate_options;

/* A task that trains a model that translates to predict each target token from the source and
 * the target tokens before it. Records are sentence pairs: source ids, target ids, both with their
 * eos id. A sample is a packed batch of pairs. train, valid (NULL: nothing is held out) and the
 * model must outlive the task. On failure out->self is NULL. */
qkv_status qkv_task_translate(qkv_task *out, qkv_model *model, const qkv_records *train,
                              const qkv_records *valid, const qkv_translate_options *options,
                              uint64_t seed);

typedef struct {
    double loss;       /* mean -log p of a target token, nats */
    double perplexity; /* e^loss */
    size_t tokens;     /* number of tokens scored */
} qkv_translate_score;

/* Scores every target token given the source and the correct tokens before it. limit: approximate
 * number of target tokens, in whole pairs, evenly spaced (0: all). t is reset and used without
 * recording. */
qkv_status qkv_translate_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                                  size_t limit, qkv_translate_score *out);

/* A sentence pair: ids of the source, then of the target, each side with its eos id. */
typedef struct {
    const int32_t *ids[2]; /* (size) each */
    size_t size[2];
} qkv_id_pair;

/* The log-probability of a given translation, the sum over its tokens, for each of n pairs, into
 * log_p (n), which a failure may leave partly written. t is reset and used without recording.
 * QKV_E_ARGUMENT: another kind of model, no decoder_start_token_id, or a side that is empty, longer
 * than max positions, or has an id outside the vocabulary. */
qkv_status qkv_translate_log_p(qkv_model *m, qkv_tape *t, const qkv_id_pair *pairs, size_t n,
                               double *log_p);

/* ---- masked language models ---------------------------------------------------------------- */

typedef struct {
    size_t budget; /* maximum ids of a training sample, a packed batch of texts             4096 */
    double share;  /* share of tokens to predict: 80 % become [MASK], 10 % any id, 10 % stay
                                                                             (0, 1]        0.15 */
} qkv_mlm_options;
qkv_mlm_options qkv_mlm_defaults(void);

/* A task that trains a masked language model. Records have 1 field, the ids of a text with its
 * special tokens, which are never masked. Masks are drawn anew each time a text is read. The loss
 * is the mean over the update's masked tokens. tokenizer identifies the special ids and is not
 * kept. train, valid (NULL: nothing is held out) and the model must outlive the task. options may
 * be NULL. On failure out->self is NULL. */
qkv_status qkv_task_mlm(qkv_task *out, qkv_model *model, const qkv_records *train,
                        const qkv_records *valid, const qkv_tokenizer *tokenizer,
                        const qkv_mlm_options *options, uint64_t seed);

typedef struct {
    double loss;          /* mean -log p of a masked token, nats */
    double perplexity;    /* e^loss */
    double accuracy;      /* share of masked tokens whose most likely prediction is right */
    size_t words, tokens; /* number of masked tokens; of tokens read */
} qkv_mlm_score;

/* Masks the same tokens in every call and for every model with this vocabulary. limit: approximate
 * number of ids, evenly spaced (0: all). t is reset and used without recording. */
qkv_status qkv_mlm_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                            const qkv_tokenizer *tokenizer, const qkv_mlm_options *options,
                            size_t limit, qkv_mlm_score *out);

/* ---- text classification --------------------------------------------------------------------- */

typedef struct {
    double smoothing; /* label smoothing                                   [0, 1)    0 */
    double drop;      /* share of the words that training replaces by [MASK] [0, 1)  0 */
    double rdrop; /* > 0: R-Drop with this weight, as in qkv_cross_entropy_options: two forward
                     passes per text, with different dropped words              0 */
} qkv_classify_options;

/* A task that trains a text classifier. Records have 3 fields: a text's ids with its special
 * tokens; those of a second text, or none; the class number. A sample is one text, shuffled in
 * every epoch. tokenizer may be NULL if drop is 0, and is not kept. train, valid and the model must
 * outlive the task. options may be NULL. On failure out->self is NULL. */
qkv_status qkv_task_classify(qkv_task *out, qkv_model *model, const qkv_records *train,
                             const qkv_records *valid, const qkv_tokenizer *tokenizer,
                             const qkv_classify_options *options, uint64_t seed);

typedef struct {
    double accuracy;
    double loss; /* mean -log p of the class, nats, without label smoothing */
    double f1;   /* 2 classes: F1 of class 1; more: the mean over the classes */
    size_t texts;
} qkv_classify_score;

/* limit: number of texts, evenly spaced (0: all). t is reset and used without recording. */
qkv_status qkv_classify_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                                 size_t limit, qkv_classify_score *out);

/* ---- forecasts ----------------------------------------------------------------------------- */

/* A task that trains a qkv_forecast to predict the `horizon` rows after a window of `context` rows;
 * a sample is both. A window can start at any row. The order is a function of (seed, sample), and
 * an epoch has each window once. valid (without data: nothing is held out) begins with rows that
 * are only input: qkv_forecast_lead of them. The data of both and the model must outlive the task.
 * QKV_E_ARGUMENT: too few rows. On failure out->self is NULL. */
qkv_status qkv_task_forecast(qkv_task *out, qkv_model *model, const qkv_series *train,
                             const qkv_series *valid, uint64_t seed);

/* First row of a sample's window in the training rows. rows must be >= context + horizon. */
size_t qkv_forecast_window(const qkv_forecast_config *c, size_t rows, uint64_t seed,
                           uint64_t sample);

/* Number of rows that must precede the first forecast: the context, or the season of the naive
 * forecast if it is longer. */
size_t qkv_forecast_lead(const qkv_forecast_config *c);

/* Finds the season, >= 2 rows, whose naive forecast (the value one season before, or as many
 * seasons as the horizon requires) has the least squared error on the last 65536 training rows; 1
 * if there are too few. Candidates are lags up to a third of the rows, at most 4096, at which rows
 * differ less than at the neighbouring lags. QKV_E_MEMORY. */
qkv_status qkv_forecast_find_season(size_t *out, qkv_context *ctx, const qkv_forecast_config *c,
                                    const qkv_series *train);

/* Means over all windows, horizon rows and targets. */
typedef struct {
    double loss;      /* squared error, in the training rows' standard deviations */
    double mse, mae;  /* in the data's units */
    double persistence, seasonal; /* squared errors like mse of two baselines: the last known row,
                                     and the row a season before; infinite if there is none */
    double ratio;     /* loss divided by that of the better baseline */
    size_t windows, rows; /* scored: windows, and rows in their horizons */
    size_t all;           /* rows that could be scored */
} qkv_forecast_score;

/* Forecasts from every row from qkv_forecast_lead on (from the context on, without the seasonal
 * baseline, if there are too few rows). limit: approximate number of rows, in whole windows, evenly
 * spaced (0: all). t is reset and used without recording. */
qkv_status qkv_forecast_evaluate(qkv_model *m, qkv_tape *t, const qkv_series *series,
                                 size_t limit, qkv_forecast_score *out);

/* ---- classes of series ---------------------------------------------------------------------- */

/* A task that trains a qkv_series_classifier. A sample is one series, shuffled in every epoch.
 * smoothing: label smoothing, [0, 1). train, valid (NULL: nothing is held out) and the model must
 * outlive the task. QKV_E_ARGUMENT: a series is too long, or a class too many. On failure out->self
 * is NULL. */
qkv_status qkv_task_classify_series(qkv_task *out, qkv_model *model, const qkv_series_set *train,
                                    const qkv_series_set *valid, double smoothing, uint64_t seed);

/* limit: number of series, evenly spaced (0: all). t is reset and used without recording. */
qkv_status qkv_classify_series_evaluate(qkv_model *m, qkv_tape *t, const qkv_series_set *set,
                                        size_t limit, qkv_classify_score *out);

/* ---- filling gaps --------------------------------------------------------------------------- */

/* A task that trains a qkv_series_filler on windows of its rows: known values are hidden in spans
 * and predicted; the loss is their squared error in the training rows' standard deviations, the
 * mean over a window, then over windows. The series may have missing values (NaN), which nothing is
 * learnt from. An epoch has each window once. valid without data: nothing is held out. The data of
 * both and the model must outlive the task. QKV_E_ARGUMENT: too few rows. On failure out->self is
 * NULL. */
qkv_status qkv_task_fill(qkv_task *out, qkv_model *model, const qkv_series *train,
                         const qkv_series *valid, uint64_t seed);

/* Means over the values that were hidden. */
typedef struct {
    double loss;     /* squared error, in the training rows' standard deviations */
    double mse, mae; /* in the data's units */
    double interpolation, last; /* squared errors like mse of two baselines: the line between the
                                   neighbours, and the last value again */
    double ratio;    /* loss divided by that of the better baseline */
    size_t values;   /* hidden */
    size_t rows, all; /* in the windows that were read; in all windows */
} qkv_fill_score;

/* Hides values in windows that begin a quarter of their rows apart, the same ones in every call.
 * limit: approximate number of rows, in whole windows, evenly spaced (0: all). t is reset and used
 * without recording. */
qkv_status qkv_fill_evaluate(qkv_model *m, qkv_tape *t, const qkv_series *series, size_t limit,
                             qkv_fill_score *out);

QKV_END_DECLS
#endif
