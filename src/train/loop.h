/* loop.h - the loop's own state, shared by the files that plan, save and log. */
#ifndef QKV_SRC_TRAIN_LOOP_H
#define QKV_SRC_TRAIN_LOOP_H

#include "base/base.h"
#include "io/json.h"
#include "qkv/look.h"
#include "qkv/train.h"
#include "train/ranks.h"

enum { QKV__PLANS = 4 };

/* How many updates the run has, as decided at an update: fixed from the start, or for a time
 * budget once the rate is known, and again later. */
typedef struct {
    uint64_t at, steps;
} qkv__plan;

/* Lines and events that are to be written. */
typedef struct {
    qkv_str lines, events;
    bool about; /* train/run.json is of this session */
} qkv__log;

/* Groups of parameters, whose norms are logged. */
typedef struct {
    size_t count;
    char **names;     /* (count) */
    size_t *group;    /* (parameters) */
    double *gradient; /* (count) sums of squares of the last update's gradients */
} qkv__groups;

typedef struct {
    qkv_task *task;
    qkv_context *ctx;
    qkv_params *params;
    qkv_train_options o;
    qkv_schedule schedule;
    qkv_optimizer_options optimizer_options;
    qkv_optimizer *optimizer;
    qkv_average *average; /* NULL without ema */
    qkv_tape *tape;
    qkv__ranks *ranks; /* NULL: one rank, and a batch is one shard */
    qkv_capture *capture; /* of the pass; NULL: none */
    bool keeps;      /* there is a directory, which rank 0 writes */
    const char *dir; /* NULL: this rank writes nothing */
    qkv_train_fn *event;
    void *user;

    /* What a checkpoint holds beside weights and optimiser. */
    uint64_t step;
    double seconds;
    size_t eval_units; /* as asked, or what a time budget allows */
    qkv__plan plans[QKV__PLANS];
    int plan_count;
    bool has_best;
    double best;
    uint64_t best_step, bad_evals;
    double smooth_loss;
    bool finished;
    bool owed; /* the evaluation after the last update, which was cut short */

    /* Of this session alone. */
    double began;         /* qkv_now() less the seconds of earlier sessions */
    double mark;          /* qkv_now() at the last plan, later by the evaluations since then */
    uint64_t updates;     /* since the last plan */
    double eval_time;     /* of the last evaluation on eval_units, with saving */
    double whole_eval_time; /* estimate of an evaluation on all that is held out */
    double last_save, save_time;
    double recent_time;   /* for rates */
    double update_time, data_time; /* of all updates; of which tasks say that they made batches */
    uint64_t recent_updates;
    double last_norm, last_lr, last_loss;
    qkv_terms terms; /* of the last update */
    qkv__groups groups;
    qkv__log log;
    double peak;     /* FLOP/s; 0: not measured; negative: it cannot be */
    double sample_time;
    double report_time, last_report; /* what one took; qkv_now() after the last one, 0: none yet */
    bool sampling_failed;
    bool stop;
    bool whole; /* an update cannot be cut short: part of it would be done already */
} qkv__loop;

/* ---- follow.c: what rank 0 decides by its clock, and who fails, for all ranks ---- */
bool qkv__leads(const qkv__loop *l); /* rank 0, or the only one */
/* Whether rank 0's run has a checkpoint. */
qkv_status qkv__follow_flag(qkv__loop *l, bool *flag);
/* Kinds of products, as rank 0 chooses them. */
qkv_status qkv__follow_products(qkv__loop *l);
/* Rank 0's plans and times; *planned, *save: what it does after this update. */
qkv_status qkv__follow_step(qkv__loop *l, bool *planned, bool *save);
/* Times of evaluations, which decide what is evaluated. */
qkv_status qkv__follow_evaluation(qkv__loop *l);

/* ---- watch.c ---- */
/* Before a pass, and after its backward pass (done). */
qkv_status qkv__watch(qkv__loop *l, const qkv_micro_batch *part, bool done);

/* ---- plan.c ---- */
uint64_t qkv__plan_steps(const qkv__loop *l); /* planned updates; 0: not known yet */
/* Plans anew when it is time to, and true; a note says so. */
bool qkv__plan_update(qkv__loop *l);
uint64_t qkv__eval_every(const qkv__loop *l); /* 0: not known yet */
double qkv__seconds(const qkv__loop *l);
double qkv__seconds_left(const qkv__loop *l); /* estimated; < 0: not known yet */
/* May the last evaluation be on all that is held out? */
bool qkv__plan_evaluates_all(const qkv__loop *l);

/* ---- tell.c ---- */
void qkv__rates(qkv__loop *l, qkv_train_event *e); /* units_per_s, gflops, peak_gflops of e */
void qkv__tell(qkv__loop *l, qkv_train_kind kind, const qkv_metrics *m, bool best);
/* A note if Muon's products are a large share of an update's. */
void qkv__tell_optimizer(const qkv__loop *l);
void qkv__tell_sample(qkv__loop *l, const qkv_sample *s);

/* ---- evaluate.c: evaluations ---- */
/* Chooses eval_units, evaluates and saves the untrained model. */
qkv_status qkv__evaluate_untrained(qkv__loop *l);
/* Evaluates the averaged weights when there are any, and keeps the best model. last: of the run. */
qkv_status qkv__evaluate_model(qkv__loop *l, bool last);
/* Evaluates what was saved. */
qkv_status qkv__evaluate_saved(qkv__loop *l, qkv_metrics *out);
/* QKV_E_NUMERIC and the first parameter's name unless all are finite. */
qkv_status qkv__check_finite(const qkv__loop *l);

/* ---- state.c ---- */
qkv_status qkv__state_save(qkv__loop *l);
bool qkv__state_exists(const qkv__loop *l);
qkv_status qkv__state_load(qkv__loop *l);
/* How many shards the saved run had; rank 0 alone reads it. */
qkv_status qkv__state_shards(const qkv__loop *l, size_t *shards);

/* ---- settings.c ---- */
void qkv__settings_put(const qkv__loop *l, qkv_json_writer *w);
/* A note for every setting that is not what it was. */
qkv_status qkv__settings_compare(const qkv__loop *l, const qkv__json *place);

/* ---- log.c: train/metrics.jsonl, train/events.out.tfevents.qkv, train/run.json ---- */
qkv_status qkv__log_begin(qkv__loop *l); /* drops what will be written again from l->step on */
/* *ended: false when there are evaluations in it and no last one, of the model that was saved. */
qkv_status qkv__log_ended(qkv__loop *l, bool *ended);
void qkv__log_free(qkv__loop *l);
bool qkv__log_norms_due(uint64_t step); /* are norms logged after this many updates? */
qkv_status qkv__log_step(qkv__loop *l);
qkv_status qkv__log_eval(qkv__loop *l, const qkv_metrics *m, bool best);
qkv_status qkv__log_final(qkv__loop *l, const qkv_metrics *m); /* of the model that was saved */
/* Of text and image one is NULL; png: the image's file. */
qkv_status qkv__log_sample(qkv__loop *l, const qkv_sample *s, const char *file,
                           const qkv_str *png);

/* ---- report.c: train/report.html ---- */
/* Writes it unless that would take more than a hundredth of the time; always if last. A failure is
 * told. */
void qkv__report_write(qkv__loop *l, bool last);

/* ---- groups.c: norms by group ---- */
qkv_status qkv__groups_make(qkv__loop *l);
void qkv__groups_free(qkv__loop *l);
void qkv__groups_clear(qkv__loop *l);
void qkv__groups_add(qkv__loop *l); /* gradients that parameters have now */
/* Norms by group, over the groups' parameters. */
double qkv__groups_gradient(const qkv__loop *l, size_t group);
void qkv__groups_weights(const qkv__loop *l, double *norms); /* (count) */

/* ---- samples.c ---- */
/* Makes samples, if this evaluation has some; *out is NULL if not, or if they fail, which a note
 * says. last: of the run. QKV_E_CANCELLED: the program wants an end, and l->stop is set. */
qkv_status qkv__samples_make(qkv__loop *l, bool last, qkv_samples **out);
/* Stores, logs and tells them. */
qkv_status qkv__samples_keep(qkv__loop *l, const qkv_samples *s);
void qkv__samples_free(qkv_samples *s);     /* NULL is allowed */
qkv_status qkv__samples_trim(qkv__loop *l); /* removes those that will be made again */

extern const qkv_option_table qkv__train_table; /* itself, for lists that are constant */

#endif
