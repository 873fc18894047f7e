/* job.h - from data files and settings to a run directory: one training job of each kind.
 * Layer: job
 *
 *     qkv_job *job;
 *     if (qkv_job_create(&job, ctx, "lm") || qkv_job_set(job, "data", "novel.txt") ||
 *         qkv_job_set(job, "minutes", "5") || qkv_job_set(job, "out", "runs/novel") ||
 *         qkv_job_run(job, on_event, NULL, &result))
 *         puts(qkv_context_message(ctx));
 *     qkv_job_destroy(job);
 *
 * The settings are those of `qkv train KIND`, by the same names: qkv_job_table describes them. */
#ifndef QKV_JOB_H
#define QKV_JOB_H

#include <qkv/options.h>
#include <qkv/train.h>

QKV_BEGIN_DECLS

/* ---- how jobs train by default, for programs that call qkv_train themselves ---------------- */

typedef struct {
    qkv_train_options loop;
    qkv_optimizer_options optimizer;
    qkv_schedule schedule;
} qkv_training;
qkv_training qkv_training_defaults(void);
/* The usual peak learning rate of a model of that width: narrow models take larger steps. */
double qkv_training_rate(size_t width);

/* ---- jobs ------------------------------------------------------------------------------------ */

typedef struct qkv_job qkv_job;

/* The name of the i-th kind of job: "lm", "translate", "mlm", "classify", "forecast", "colorize",
 * "segment", "reconstruct", "vqgan", "imagine"; NULL past the last. */
const char *qkv_job_kind(size_t i);

/* A job of that kind, all of whose settings have their defaults. ctx must outlive it. On failure
 * *out is NULL: QKV_E_ARGUMENT for a kind that there is not. */
qkv_status qkv_job_create(qkv_job **out, qkv_context *ctx, const char *kind);
void qkv_job_destroy(qkv_job *j); /* NULL is allowed */

/* Sets one setting from text, by its flag without dashes ("valid-last") or its key in config.json
 * ("hidden_size"); a list gets one item more. QKV_E_ARGUMENT when there is none of that name (the
 * sentence suggests the nearest) or the value does not fit. */
qkv_status qkv_job_set(qkv_job *j, const char *name, const char *value);

/* The same from an object of names and values (size bytes of JSON): {"data": ["a.txt"], "steps":
 * 100}. A list sets every item, null is passed over. What stands before the mistake is set. */
qkv_status qkv_job_set_json(qkv_job *j, const char *json, size_t size);

/* The same from arguments, as qkv_options_parse reads them. also: a table of the program's own that
 * is filled from them too, into target; NULL: none. Once; what decides which settings there are
 * ("layout" of lm, "data" of classify) cannot be set afterwards. */
qkv_status qkv_job_parse(qkv_job *j, int argc, char *const *argv, const qkv_option_table *also,
                         void *target);

/* True if the setting of that key or flag was given: set, or among the arguments. */
bool qkv_job_given(const qkv_job *j, const char *name);

/* What the settings of a kind of job are: the i-th table that describes them, NULL past the last;
 * the defaults of such jobs in place of the tables' own; and, where there is a setting "recipe",
 * those that each of its names adds (NULL for a name that adds none), else NULL. */
const qkv_option_table *qkv_job_table(const char *kind, size_t i);
const qkv_preset *qkv_job_presets(const char *kind);
const qkv_preset *const *qkv_job_recipes(const char *kind);

/* The setting "out"; NULL: not set. */
const char *qkv_job_directory(const qkv_job *j);

/* Whether the settings are complete and agree with each other: QKV_E_ARGUMENT, with a sentence, if
 * not. qkv_job_run asks this first. */
qkv_status qkv_job_check(qkv_job *j);

/* Prepares the data, makes or opens the model and trains it, as qkv_train does, into the directory
 * of the setting "out", a model directory as Hugging Face lays it out; train/ in it keeps what
 * resuming needs. One job at a time works in a directory. A directory that is not empty is refused
 * unless "resume" is set; then a run in it goes on to the same bits, and one that was stopped
 * before its first checkpoint begins anew. What a new run has written is removed again when it
 * fails before it trains. event gets what qkv_train tells; it and result may be NULL. Notes and the
 * progress of reading data go to the context's listener. Once for a job. */
qkv_status qkv_job_run(qkv_job *j, qkv_train_fn *event, void *user, qkv_train_result *result);

QKV_END_DECLS
#endif
