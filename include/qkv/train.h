/* train.h - the loop: batches, updates, evaluation, checkpoints, resuming to the same bits.
 * Layer: train */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include <qkv/opt.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* Fields that a task takes, as a table describes them. */
typedef struct {
    const qkv_option_table *table;
    const void *target;
} qkv_train_settings;

/* Ranges, defaults and flags of the fields: qkv_train_table. */
typedef struct {
    size_t steps;      /* updates; 0: as many as fit into `minutes` */
    double minutes;    /* wall-clock time for all of it; 0: no limit */
    size_t batch;      /* samples in an update */
    size_t accumulation_steps; /* micro-batches that the batch is cut into, to save memory */
    double clip;       /* largest global gradient norm; 0: any */
    double ema;        /* decay of the averaged weights that are saved; 0: none */
    size_t eval_every; /* steps between evaluations; 0: a tenth of the run */
    size_t eval_units; /* held-out units evaluated while training; 0: all. At the end all are */
    size_t patience;   /* evaluations without improvement before stopping; 0: never */
    size_t save_every; /* steps between checkpoints; 0: at evaluations and once a minute */
    double spent;      /* seconds used before the call (reading text ..), part of `minutes`;
                          no flag */
    const qkv_train_settings *also; /* (also_count) whose rows with flag and key are kept beside */
    size_t also_count;              /* the loop's own. No flags */
} qkv_train_options;
const qkv_option_table *qkv_train_table(void);
qkv_train_options qkv_train_defaults(void);

typedef enum {
    QKV_TRAIN_STEP, /* after every update */
    QKV_TRAIN_EVAL, /* after every evaluation: metrics is set */
    QKV_TRAIN_NOTE  /* text is a sentence: a warning, a plan */
} qkv_train_kind;

typedef struct {
    qkv_train_kind kind;
    const char *unit;      /* what units_per_s counts: "tokens" */
    uint64_t step, steps;  /* updates done; planned (0: not known yet) */
    double loss, lr, norm; /* of the last update; after an evaluation the smoothed loss */
    double seconds, left;  /* spent, `spent` included; estimated to remain (< 0: not known yet) */
    double units_per_s, gflops; /* recent */
    const qkv_metrics *metrics;
    bool best;             /* this evaluation's model is the one to keep so far */
    const char *text;      /* of a note; else what is being trained: "training" */
} qkv_train_event;

/* Returns false to save and stop. */
typedef bool qkv_train_fn(void *user, const qkv_train_event *event);

typedef struct {
    uint64_t step;        /* updates done in all */
    double seconds;       /* spent in all, earlier sessions included */
    bool stopped;         /* by the callback: go on with resume */
    bool early;           /* patience ran out */
    bool was_finished;    /* there was nothing left to do */
    uint64_t best_step;
    qkv_metrics metrics; /* of the saved model on the held-out data: on all of it, unless that
                            would take too much of `minutes`; count 0 without any */
    double train_loss;    /* smoothed */
    const char *unit;     /* what is evaluated: "tokens" */
} qkv_train_result;

/* Trains the task's model. With a directory (else NULL: nothing is written) it keeps there
 *   the best model so far (the last one when nothing is held out or qkv_metrics says so), as
 *   qkv_hub_save does,
 *   train/state.safetensors: weights, optimiser and place of the last checkpoint,
 *   train/metrics.jsonl: one object per evaluation and every few updates.
 * resume: goes on from train/state.safetensors if there is one. The run then ends with the same
 * bits as one that never stopped; a note tells each setting of the loop, the optimiser, the
 * schedule and options->also, and the task's seed, that is not what it was. With `minutes` instead
 * of `steps` the number of steps is planned once the rate is known, and again at 50, 90 and 97 % of
 * the time; the plans, and what an evaluation may cost, are stored, so this holds from the last
 * stored plan on. A warm-up is cut to a tenth of the first plan. optimizer (NULL: AdamW's
 * defaults), schedule (NULL: cosine's), event and result may be NULL. On failure
 * (QKV_E_NUMERIC: a loss, a gradient or a weight is not finite; the sentence has step and
 * parameter) the last checkpoint stays: what is saved is always finite. */
qkv_status qkv_train(qkv_task *task, const qkv_train_options *options,
                     const qkv_optimizer_options *optimizer, const qkv_schedule *schedule,
                     const char *dir, bool resume, qkv_train_fn *event, void *user,
                     qkv_train_result *result);

QKV_END_DECLS
#endif
