/* job.h - one `qkv train ...` from its options to its last words: a new run or one that goes on.
 *
 * A command's own struct begins with a cli_job. Its run function binds its tables and those of the
 * job, parses, and hands over:
 *
 *     job j = {.base.c = c};
 *     cli_bind(c, &table, &j.s);
 *     cli_job_bind(&j.base);
 *     if (cli_parse(c, argc, argv, 0, 0))
 *         return CLI_USAGE;
 *     return cli_job_run(&j.base, &type);                                                      */
#ifndef QKV_CMD_TRAIN_JOB_H
#define QKV_CMD_TRAIN_JOB_H

#include "train/training.h"
#include "text/texts.h"
#include "qkv/hub.h"
#include "qkv/records.h"
#include "qkv/tokens.h"

/* Options of every job. */
typedef struct {
    const char *out, *init;
    bool resume;
} cli_job_options;
extern const qkv_option_table cli_job_table;

typedef struct {
    cli *c;
    cli_job_options o;
    cli_training t;
    qkv_model *model;
    qkv_tokenizer *tokenizer; /* NULL where there is no text */
    qkv_task task;
    qkv_records *train, *valid; /* of jobs on records; valid NULL: nothing is held out */
    qkv_train_settings kept[4]; /* the type's `lesson`, with what is bound to it */
} cli_job;

#define CLI_JOB_TRAIN "train/train.records"
#define CLI_JOB_VALID "train/valid.records"

/* What a command brings. In this order, for a new run: read, write, begin; for one that goes on:
 * open, begin; in the end close. Those that are NULL have nothing to do. */
typedef struct {
    const char *name;                  /* train NAME */
    bool (*takes)(const qkv_model *m); /* it makes such models */
    qkv_status (*read)(cli_job *j);  /* opens the data; makes tokenizer and model. Writes nothing */
    qkv_status (*write)(cli_job *j); /* puts what --resume needs of the data into OUT/train */
    size_t fields; /* of the records that write makes, CLI_JOB_TRAIN and perhaps CLI_JOB_VALID:
                      the job opens and closes them. 0: no records, `open` opens what there is */
    qkv_status (*open)(cli_job *j);  /* the tokenizer and the model are there already */
    qkv_status (*begin)(cli_job *j); /* makes the task and calls cli_job_rate */
    void (*close)(cli_job *j);       /* frees what is the command's own */
    bool has_text;                   /* there is a tokenizer */
    const char *const *fixed;        /* flags without effect beside --init, but for those of a
                                    vocabulary; ends in NULL */
    const char *const *decided; /* keys of the configuration that a new run has from its data and
                                   from flags, so that --set may not; ends in NULL; NULL: none */
    const qkv_option_table *const *lesson; /* what decides how it is learnt, beside the loop's: a
                                              resumed run is told where it differs; 4 at most,
                                              NULL at the end; NULL: nothing */
} cli_job_type;

void cli_job_bind(cli_job *j);
int cli_job_run(cli_job *j, const cli_job_type *type); /* an exit code */

/* For `read`: the model that --init names, with the fields that --set gives; and one that is to be
 * j->model, with its tokenizer. */
qkv_status cli_job_load(cli_job *j, qkv_model **out);
qkv_status cli_job_init(cli_job *j);

/* The peak learning rate of a model of that width, unless --lr gave one; and noam's width. */
void cli_job_rate(cli_job *j, size_t width, double lr);

/* OUT/name, to be freed with qkv_free; NULL when memory is out. */
char *cli_job_path(const cli_job *j, const char *name);

#endif
