/* job.h - training jobs: from data files and settings to a run directory.
 * Layer: job
 *
 *     qkv_job *job;
 *     if (qkv_job_create(&job, ctx, "lm") || qkv_job_set(job, "data", "novel.txt") ||
 *         qkv_job_set(job, "minutes", "5") || qkv_job_set(job, "out", "runs/novel") ||
 *         qkv_job_run(job, on_event, NULL, &result))
 *         puts(qkv_context_message(ctx));
 *     qkv_job_destroy(job);
 *
 * The settings are those of `qkv train KIND`, with the same names; qkv_job_table describes them. */
#ifndef QKV_JOB_H
#define QKV_JOB_H

#include <qkv/options.h>
#include <qkv/train.h>

QKV_BEGIN_DECLS

/* ---- the jobs' default options, for programs that call qkv_train --------------------------- */

typedef struct {
    qkv_train_options loop;
    qkv_optimizer_options optimizer;
    qkv_schedule schedule;
} qkv_training;
qkv_training qkv_training_defaults(void);
/* The default peak learning rate for a model of this width; higher for narrow models. */
double qkv_training_rate(size_t width);

/* ---- jobs ------------------------------------------------------------------------------------ */

typedef struct qkv_job qkv_job;

/* The name of kind i of jobs, in alphabetical order: "classify" .. "vqgan"; NULL past the last. */
const char *qkv_job_kind(size_t i);

/* Creates a job of this kind with default settings. ctx must outlive it. On failure *out is NULL:
 * QKV_E_ARGUMENT for an unknown kind. */
qkv_status qkv_job_create(qkv_job **out, qkv_context *ctx, const char *kind);
void qkv_job_destroy(qkv_job *j); /* NULL is allowed */

/* Sets a setting from text, by its flag without the dashes before it ("valid-last", "valid_last")
 * or its key in config.json ("hidden_size"). A list receives one more item. QKV_E_ARGUMENT if no
 * setting has the name (the message suggests the nearest) or the value does not fit. */
qkv_status qkv_job_set(qkv_job *j, const char *name, const char *value);

/* Sets settings from a JSON object of names and values (size bytes): {"data": ["a.txt"], "steps":
 * 100}. A JSON list sets every item. null is ignored. Settings before an error stay set. */
qkv_status qkv_job_set_json(qkv_job *j, const char *json, size_t size);

/* Sets settings from arguments, parsed as by qkv_options_parse. also: a table of the program's own
 * options, parsed into target; NULL: none. Call it once. Settings that determine which others exist
 * ("layout" of lm, "data" of classify) cannot be set afterwards. */
qkv_status qkv_job_parse(qkv_job *j, int argc, char *const *argv, const qkv_option_table *also,
                         void *target);

/* True if the setting with this key or flag was set, by any of the functions above. */
bool qkv_job_given(const qkv_job *j, const char *name);

/* The settings of a kind: its option table i (NULL past the last), and what these settings are for
 * if not for every job of the kind ("texts"), else NULL; type i whose presets the setting "model"
 * names (NULL past the last); the defaults that replace those of the tables; and, if the kind has a
 * setting "recipe", the presets of each recipe (NULL: no presets), else NULL. */
const qkv_option_table *qkv_job_table(const char *kind, size_t i);
const char *qkv_job_table_about(const char *kind, size_t i);
const qkv_model_type *qkv_job_model_type(const char *kind, size_t i);
const qkv_preset *qkv_job_presets(const char *kind);
const qkv_preset *const *qkv_job_recipes(const char *kind);

/* The value of the setting "out"; NULL: not set. */
const char *qkv_job_directory(const qkv_job *j);

/* Checks that the settings are complete and consistent: QKV_E_ARGUMENT, with a message, if not.
 * qkv_job_run calls it first. */
qkv_status qkv_job_check(qkv_job *j);

/* Has watch called at the passes of the training (qkv_train_watch_fn). NULL: none. */
void qkv_job_watch(qkv_job *j, qkv_train_watch_fn *watch, void *user);

/* Prepares the data, creates or loads the model and trains it with qkv_train in the directory of
 * the setting "out". It becomes a Hugging Face model directory; its subfolder train/ contains what
 * resuming needs. Only one job at a time may use a directory. A directory that is not empty is an
 * error unless "resume" is set; then its run continues to the same bits, or, if it stopped before
 * its first checkpoint, starts anew. If a new run fails before training, its files are removed.
 * event receives qkv_train's events; event and result may be NULL. Notes and progress of the data
 * preparation are context events (qkv_context_on_event). Call it once per job. */
qkv_status qkv_job_run(qkv_job *j, qkv_train_fn *event, void *user, qkv_train_result *result);

QKV_END_DECLS
#endif
