/* train.h - the training loop: batches, updates, evaluation, checkpoints, bit-exact resuming.
 * Layer: train */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include <qkv/image.h>
#include <qkv/opt.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* Settings of a task: a struct and the table that describes it. */
typedef struct {
    const qkv_option_table *table;
    const void *target;
} qkv_train_settings;

/* ---- samples --------------------------------------------------------------------------------- */

/* What the model makes at an evaluation, to be looked at: a text or an image. */
typedef struct {
    const char *name;       /* "continuation" */
    const char *text;       /* (length) UTF-8, ends in a 0 byte; NULL: an image */
    size_t length;
    const qkv_image *image; /* NULL: a text */
} qkv_sample;

enum {
    QKV_SAMPLES = 8,            /* maximum number of samples of an evaluation */
    QKV_SAMPLE_TEXT = 8192,     /* maximum bytes of a text */
    QKV_SAMPLE_NAME = 32,       /* maximum bytes of a name */
    QKV_SAMPLE_PIXELS = 1 << 22 /* maximum pixels of an image */
};

typedef struct qkv_samples qkv_samples; /* those of one evaluation */

/* Adds a copy of a text (len bytes; a longer one is cut, U+FFFD replaces invalid UTF-8) or an
 * image. name: lower-case letters, digits and '-'. QKV_E_ARGUMENT: another name, one that is there
 * already, too many samples, too large an image. */
qkv_status qkv_samples_text(qkv_samples *s, const char *name, const char *text, size_t len);
qkv_status qkv_samples_image(qkv_samples *s, const char *name, const qkv_image *image);

/* Makes samples with the model's current parameters. They must be a function of the parameters
 * alone. t is free for use without recording. A failure is reported as a note, and no more samples
 * are made. */
typedef qkv_status qkv_train_sample_fn(void *user, qkv_tape *t, qkv_samples *out);

/* ---- passes ---------------------------------------------------------------------------------- */

/* A forward and backward pass over a micro-batch. */
typedef struct {
    uint64_t step;       /* updates made before it */
    int phase;           /* of the task */
    size_t first, count; /* samples of the batch */
    bool done;           /* false: the pass begins, and probes may be added to the tape; true: its
                            backward pass is over, and the tape has values and gradients */
} qkv_train_pass;

/* Watches training: called twice for each pass. Probes that it adds (qkv_capture_open ..) stay on
 * the tape until they are removed. A failure ends the training. */
typedef qkv_status qkv_train_watch_fn(void *user, qkv_tape *t, const qkv_train_pass *pass);

/* ---- the loop ------------------------------------------------------------------------------- */

/* Options of the loop. Ranges, defaults and flags: qkv_train_table. */
typedef struct {
    size_t steps;      /* updates; 0: as many as fit into `minutes` */
    double minutes;    /* wall-clock limit of the whole run; 0: none */
    size_t batch;      /* samples per update */
    size_t accumulation_steps; /* micro-batches per batch; more take less memory */
    size_t shards; /* parts of a batch whose gradients are computed apart and added up as a binary
                      tree: the same number gives the same bits on any number of ranks, both being
                      powers of two. A multiple of the ranks (dist.h); 0: one for each rank, or,
                      resumed, as before. accumulation_steps is then that of a shard */
    int dtype; /* QKV_PRODUCTS_*: the context's products are set to it (qkv_context_set_products) */
    bool recompute;    /* qkv_tape_recompute: blocks of stacks keep their outputs alone */
    double clip;       /* maximum global gradient norm; 0: no clipping */
    double ema;        /* decay of the weight average that is saved; 0: none */
    size_t eval_every; /* steps between evaluations; 0: a tenth of the run */
    size_t eval_units; /* held-out units per evaluation; 0: all. The last one uses all */
    size_t patience;   /* evaluations without improvement before stopping; 0: no limit */
    size_t save_every; /* steps between checkpoints; 0: at evaluations and once a minute */
    size_t capture_step; /* update whose first pass is captured (qkv_capture_open): attention
                          weights, hidden states, norms and their gradients, in the file
                          train/capture-STEP.safetensors; 0: none */
    double spent;      /* seconds used before the call (reading text ..), part of `minutes`;
                          no flag */
    const qkv_train_settings *also; /* (also_count) further settings that the checkpoint stores: */
    size_t also_count;              /* rows with flag and key. No flags */
    qkv_train_sample_fn *sample; /* called at evaluations, at 16 to 32 of them and a few more in a
                                    run of thousands; NULL: no samples. No flag */
    void *sample_user;
    qkv_train_watch_fn *watch; /* NULL: none. No flag */
    void *watch_user;
    bool measure_peak; /* measures the machine's limit once, after 3 seconds of training (0.1 s on
                          two cores), for events and the log. No flag */
} qkv_train_options;
const qkv_option_table *qkv_train_table(void);
qkv_train_options qkv_train_defaults(void);

typedef enum {
    QKV_TRAIN_STEP, /* after every update */
    QKV_TRAIN_EVAL, /* after every evaluation; metrics is set */
    QKV_TRAIN_NOTE, /* text is a sentence: a warning, a plan */
    QKV_TRAIN_SAMPLE /* after an evaluation: a sample of its model; sample is set */
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
    const qkv_terms *terms; /* of the last update's loss; NULL: it has one term */
    double peak_gflops;     /* the machine's limit, as qkv_machine_peak_flops; 0: not known */
    const qkv_sample *sample;
} qkv_train_event;

/* Receives an event. Returns false to save and stop. So does false from the context's event
 * function at QKV_EVENT_WORKING, sooner: it undoes the update or the evaluation that it falls into,
 * which the resumed run does again. (With several ranks or shards, a task of several phases or
 * running values updates are whole.) */
typedef bool qkv_train_fn(void *user, const qkv_train_event *event);

typedef struct {
    uint64_t step;        /* updates in total */
    double seconds;       /* used in total, including earlier sessions */
    bool stopped;         /* by an event function; continue with resume */
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
 *   train/metrics.jsonl: an object per evaluation and every few updates; docs/training.md,
 *   train/events.out.tfevents.qkv: the same for TensorBoard,
 *   train/samples, train/report.html (qkv_run_report), train/run.json.
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
