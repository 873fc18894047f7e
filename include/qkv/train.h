/* train.h - the training loop: batches, updates, evaluation, checkpoints, bit-exact resuming.
 * Layer: train */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include <qkv/opt.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* Settings of a task: a struct and the table that describes it. */
typedef struct {
    const qkv_option_table *table;
    const void *target;
} qkv_train_settings;

/* Options of the loop. Ranges, defaults and flags: qkv_train_table. */
typedef struct {
    size_t steps;      /* updates; 0: as many as fit into `minutes` */
    double minutes;    /* wall-clock limit of the whole run; 0: none */
    size_t batch;      /* samples per update */
    size_t accumulation_steps; /* micro-batches per batch; more take less memory */
    double clip;       /* maximum global gradient norm; 0: no clipping */
    double ema;        /* decay of the weight average that is saved; 0: none */
    size_t eval_every; /* steps between evaluations; 0: a tenth of the run */
    size_t eval_units; /* held-out units per evaluation; 0: all. The last one uses all */
    size_t patience;   /* evaluations without improvement before stopping; 0: no limit */
    size_t save_every; /* steps between checkpoints; 0: at evaluations and once a minute */
    double spent;      /* seconds used before the call (reading text ..), part of `minutes`;
                          no flag */
    const qkv_train_settings *also; /* (also_count) further settings that the checkpoint stores: */
    size_t also_count;              /* rows with flag and key. No flags */
} qkv_train_options;
const qkv_option_table *qkv_train_table(void);
qkv_train_options qkv_train_defaults(void);

typedef enum {
    QKV_TRAIN_STEP, /* after every update */
    QKV_TRAIN_EVAL, /* after every evaluation; metrics is set */
    QKV_TRAIN_NOTE  /* text is a sentence: a warning, a plan */
} qkv_train_kind;

typedef struct {
    qkv_train_kind kind;
    const char *unit;      /* unit of units_per_s: "tokens" */
    uint64_t step, steps;  /* updates done; planned, 0: unknown */
    double loss, lr, norm; /* of the last update; after an evaluation the smoothed loss */
    double seconds, left;  /* used, including `spent`; estimated remaining, < 0: unknown */
    double units_per_s, gflops; /* recent */
    const qkv_metrics *metrics;
    bool best;             /* this evaluation's model is the best so far */
    const char *text;      /* of a note; else the activity: "training" */
} qkv_train_event;

/* Receives an event. Returns false to save and stop. */
typedef bool qkv_train_fn(void *user, const qkv_train_event *event);

typedef struct {
    uint64_t step;        /* updates in total */
    double seconds;       /* used in total, including earlier sessions */
    bool stopped;         /* by the callback; continue with resume */
    bool early;           /* stopped because patience ran out */
    bool was_finished;    /* the run was already complete */
    uint64_t best_step;
    qkv_metrics metrics; /* of the saved model on the held-out data: on all of it, unless that
                            would take too much of `minutes`; count 0: nothing is held out */
    double train_loss;    /* smoothed */
    const char *unit;     /* unit of the evaluated data: "tokens" */
} qkv_train_result;

/* Trains the task's model. dir (NULL: nothing is written) receives
 *   the best model so far, as qkv_hub_save writes it (the latest if nothing is held out, or if
 *   qkv_metrics says newest),
 *   train/state.safetensors: weights, optimiser state and position of the last checkpoint,
 *   train/metrics.jsonl: an object per evaluation and every few updates.
 * resume: continues from train/state.safetensors if it exists. The run then ends with the same bits
 * as an uninterrupted run. A note names each setting of the loop, the optimiser, the schedule,
 * options->also and the task's seed that has changed. With `minutes` and no `steps`, the number of
 * steps is planned once the speed is known, and again at 50, 90 and 97 % of the time. Plans and
 * evaluation budgets are stored, so resuming is bit-exact from the last stored plan on. The warm-up
 * is at most a tenth of the first plan. optimizer (NULL: AdamW's defaults), schedule (NULL:
 * cosine's), event and result may be NULL. On failure the last checkpoint, which is always finite,
 * stays. QKV_E_NUMERIC: a loss, a gradient or a weight is not finite; the message has the step and
 * the parameter. */
qkv_status qkv_train(qkv_task *task, const qkv_train_options *options,
                     const qkv_optimizer_options *optimizer, const qkv_schedule *schedule,
                     const char *dir, bool resume, qkv_train_fn *event, void *user,
                     qkv_train_result *result);

QKV_END_DECLS
#endif
