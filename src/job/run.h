/* run.h - one run of a training job, from its settings to its end: what every kind shares.
 *
 * A kind is a file NAME.c with a table of its settings, a struct that begins with a qkv__run, and
 * one qkv__job_kind qkv__job_NAME, which the build adds to qkv__job_kinds. */
#ifndef QKV_SRC_JOB_RUN_H
#define QKV_SRC_JOB_RUN_H

#include "base/base.h"
#include "base/options.h"
#include "pipeline/run_data.h"
#include "qkv/file.h"
#include "qkv/hub.h"
#include "qkv/job.h"
#include "qkv/records.h"
#include "qkv/tokens.h"
#include "opt/tables.h"
#include "train/loop.h"

/* Settings of every job. */
typedef struct {
    const char *out, *init, *lora;
    bool resume;
    uint64_t seed;
} qkv__run_options;
extern const qkv_option_table qkv__run_table;

typedef struct {
    qkv_context *ctx;
    qkv_options *options; /* all tables are bound to it */
    qkv__run_options o;
    qkv_training t;
    double began;        /* qkv_now() when the job was made */
    qkv_train_fn *event; /* NULL: nobody is told */
    void *user;
    qkv_model *model;
    qkv_tokenizer *tokenizer; /* NULL where there is no text */
    qkv_task task;
    qkv_records *train, *valid; /* of kinds on records; valid NULL: nothing is held out */
    qkv_train_settings kept[4]; /* the kind's `task_tables`, with what is bound to it */
} qkv__run;

/* A table and the member of the kind's struct that it fills. */
typedef struct {
    const qkv_option_table *table;
    size_t offset;
} qkv__job_table;

/* The tables of every job, for a kind's list; a qkv__run is the first member of its struct. */
#define QKV__RUN_TABLES                                                                            \
    {&qkv__run_table, offsetof(qkv__run, o)}, {&qkv__train_table, offsetof(qkv__run, t.loop)},     \
        {&qkv__optimizer_table, offsetof(qkv__run, t.optimizer)},                                  \
    {                                                                                              \
        &qkv__schedule_table, offsetof(qkv__run, t.schedule)                                       \
    }

/* Defaults that kinds share, for their lists of presets: those of a GPT, of all. */
#define QKV__RUN_PRESETS {"weight-decay", "0.3", NULL}, {"beta2", "0.95", NULL}, QKV__WARMUP_PRESET
#define QKV__WARMUP_PRESET                                                                         \
    {                                                                                              \
        "warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"                \
    }
#define QKV__COMMON_PRESETS                                                                        \
    {                                                                                              \
        "minutes", NULL, "5 without --steps"                                                       \
    }

/* What a kind brings. In this order, for a new run: read, write, begin; for one that goes on: open,
 * begin; in the end close. Those that are NULL have nothing to do. */
typedef struct qkv__job_kind qkv__job_kind;
enum { QKV__DECIDERS = 2 };
struct qkv__job_kind {
    const char *name;             /* "lm"; that of all its variants */
    size_t size;                  /* of the kind's struct */
    const qkv__job_table *tables; /* table NULL at the end */
    size_t config; /* the member that is a configuration of `type`, set like the others; 0: none */
    const qkv_preset *presets;    /* its own defaults */
    const qkv_preset *const *recipes; /* as in qkv_recipe_apply; NULL: none */
    const char *const *decides; /* settings whose values decide between variants, QKV__DECIDERS at
                                   most, NULL at the end; NULL: there is one variant */
    size_t (*variant)(const char *const *values); /* how often to go on to `other` from the first;
                                                     values of `decides`, "": not set */
    const qkv__job_kind *other; /* the next variant; NULL: this is the last */
    const char *about; /* what its settings are for that others have not: "texts" */
    qkv_model_type_fn *sizes[3]; /* whose presets "model" names; NULL at the end */
    unsigned can; /* QKV_CAN_* of the models that it makes; 0: none, they are .. */
    qkv_model_type_fn *type; /* .. of this type */
    qkv_status (*check)(qkv__run *r);  /* do settings of its own agree? Fills those that follow
                                          from others */
    qkv_status (*read)(qkv__run *r); /* opens the data; makes tokenizer and model. Writes nothing */
    qkv_status (*write)(qkv__run *r); /* puts what resuming needs of the data into OUT/train */
    size_t fields; /* of the records that write makes, QKV__TRAIN_RECORDS and perhaps
                      QKV__VALID_RECORDS: the job opens and closes them. 0: no records, `open` opens
                      what there is */
    qkv_status (*open)(qkv__run *r);  /* the tokenizer and the model are there already */
    qkv_status (*begin)(qkv__run *r); /* makes the task and calls qkv__run_rate */
    qkv_train_sample_fn *sample; /* of the task's model; its user is the qkv__run. NULL: none */
    void (*close)(qkv__run *r);       /* frees what is the kind's own */
    bool has_text;                    /* there is a tokenizer */
    const char *const *fixed;   /* flags without effect beside --init, but for those of a
                                   vocabulary; ends in NULL; NULL: none */
    const char *const *decided; /* keys of the configuration that a new run has from its data and
                                   from flags, so that --set may not; ends in NULL; NULL: none */
    const qkv_option_table *const *task_tables; /* what decides how it is learnt, beside the loop's:
                                                   a resumed run is told where it differs; 4 at
                                                   most, NULL at the end; NULL: nothing */
};

/* The first variant of every kind, NULL at the end. */
extern const qkv__job_kind *const qkv__job_kinds[];

/* ---- run.c ------------------------------------------------------------------------------- */

qkv_status qkv__run_check(qkv__run *r, const qkv__job_kind *kind);
qkv_status qkv__run_all(qkv__run *r, const qkv__job_kind *kind, qkv_train_result *result);

/* For `read`: the model that --init names, with the fields that --set gives; and one that is to be
 * r->model, with its tokenizer. */
qkv_status qkv__run_load(qkv__run *r, qkv_model **out);
qkv_status qkv__run_init(qkv__run *r);

/* The same, of a kind that can do that, else an error: "--init: a WHAT model expected". */
qkv_status qkv__run_load_able(qkv__run *r, unsigned can, const char *what);
/* Makes r->model, with random parameters. */
qkv_status qkv__run_create(qkv__run *r, const qkv_model_type *type, const void *config);
/* The sizes of the preset that --model names go into config, to which the table was bound; fields
 * that --set gave stay. */
qkv_status qkv__run_preset(const qkv__run *r, const qkv_model_type *type, const char *preset,
                           const qkv_option_table *table, void *config);

/* The peak learning rate of a model of that width, unless --lr gave one; and noam's width. */
void qkv__run_rate(qkv__run *r, size_t width, double lr);
/* The same with qkv_training_rate(width), at most `most`, and a quarter of that with --init: a
 * model that knows its texts or images learns in smaller steps. */
void qkv__run_tuned_rate(qkv__run *r, size_t width, double most);

qkv_path qkv__run_path(const qkv__run *r, const char *name); /* OUT/name */

bool qkv__run_given(const qkv__run *r, const char *name); /* was the setting set? */

/* Adds a part of a text to records. */
typedef qkv_status qkv__add_part_fn(qkv__run *r, qkv_records_writer *w, const qkv_text_span *part);
/* The parts as records of so many fields in OUT/name. */
qkv_status qkv__run_records(qkv__run *r, const qkv_text_span *parts, size_t count,
                            const char *name, size_t fields, qkv__add_part_fn *add,
                            qkv_records **out);

/* Trains a part of what a job makes, in dir, which is there; goes on where it was. what names it
 * ("learning words") in events. QKV_E_CANCELLED, with a sentence, when it was stopped. */
qkv_status qkv__run_task_settings(qkv__run *r, const qkv_training *training, qkv_task *task,
                                  const char *dir, const char *what);

#endif
