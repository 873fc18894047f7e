/* run.c - the way of a training run through its directory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dist/dist.h"
#include "hub/adapter.h"
#include "io/file.h"
#include "job/directory.h"
#include "job/lora.h"
#include "job/mirror.h"
#include "job/run.h"
#include "job/vocabulary.h"
#include "text/texts.h"
#include "opt/tables.h"
#include "train/loop.h"

static const double TUNING = 0.25; /* of the learning rate, with --init */

#define FIELD(member) .offset = offsetof(qkv__run_options, member)
static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out), .value = "DIR",
     .help = "where the model goes"},
    {.flag = "resume", .type = QKV_OPT_BOOL, FIELD(resume),
     .help = "go on from the last checkpoint in --out"},
    {.flag = "init", .type = QKV_OPT_STRING, FIELD(init), .value = "DIR",
     .help = "start from this model and its tokenizer; --set may change what the weights do "
             "not depend on"},
    {.flag = "lora", .type = QKV_OPT_STRING, FIELD(lora), .value = "r=8,..",
     .help = "train an adapter of --init's matrices, which stay as they are: r, alpha, dropout, "
             "targets=NAME+NAME, modules=NAME, weights=bf16|int8|int4, or default"},
    {.flag = "seed", .type = QKV_OPT_U64, FIELD(seed), .initial = "0",
     .help = "of everything random"},
};
const qkv_option_table qkv__run_table = {"Run", rows, sizeof rows / sizeof *rows, 0};

static const double RATE_TIMES_WIDTH = 0.384; /* 3e-3 at 128 channels */

double qkv_training_rate(size_t width)
{
    return RATE_TIMES_WIDTH / (double)width;
}

qkv_path qkv__run_path(const qkv__run *r, const char *name)
{
    return qkv_path_in(r->o.out, name);
}

bool qkv__run_given(const qkv__run *r, const char *name)
{
    return qkv_options_given(r->options, name);
}

qkv_status qkv__run_preset(const qkv__run *r, const qkv_model_type *type, const char *preset,
                           const qkv_option_table *table, void *config)
{
    char text[QKV_OPTION_TEXT];
    void *given = qkv_malloc(r->ctx, table->bytes);
    if (!given)
        return QKV_E_MEMORY;
    memcpy(given, config, table->bytes);
    bool known = qkv_model_type_preset(type, preset, config);
    for (size_t i = 0; i < table->count && known; i++) {
        const qkv_option *row = &table->rows[i];
        if (!qkv_options_given(r->options, row->key))
            continue;
        qkv_option_text(row, given, text);
        (void)qkv_option_assign(row, config, text); /* it has been parsed once */
    }
    qkv_free(r->ctx, given);
    return known ? QKV_OK
                 : qkv_fail(r->ctx, QKV_E_ARGUMENT, "--model: no preset \"%.40s\"", preset);
}

qkv_status qkv__run_create(qkv__run *r, const qkv_model_type *type, const void *config)
{
    qkv_status status = qkv_model_create(&r->model, r->ctx, type, config);
    return status ? status : qkv_model_init(r->model, r->o.seed);
}

qkv_status qkv__run_load(qkv__run *r, qkv_model **out)
{
    qkv_strings set = qkv_options_pairs(r->options);
    qkv_status status = qkv_hub_load_with(out, r->ctx, r->o.init, set);
    if (!status || !set.count)
        return status;
    char prefix[QKV_OPTION_TEXT];
    snprintf(prefix, sizeof prefix, "--init with --set %s%s", set.items[0],
             set.count > 1 ? " and more" : "");
    return qkv_fail_prefix(r->ctx, prefix);
}

qkv_status qkv__run_init(qkv__run *r)
{
    qkv_status status = qkv_hub_load_tokenizer(&r->tokenizer, r->ctx, r->o.init);
    return status ? status : qkv__run_load(r, &r->model);
}

qkv_status qkv__run_load_able(qkv__run *r, unsigned can, const char *what)
{
    qkv_status status = qkv__run_load(r, &r->model);
    if (!status && !qkv_model_can(r->model, can))
        status = qkv_fail(r->ctx, QKV_E_ARGUMENT, "--init: a %s model expected, %s holds a %s",
                          what, r->o.init, qkv_model_type_name(qkv_model_type_of(r->model)));
    return status;
}

void qkv__run_rate(qkv__run *r, size_t width, double lr)
{
    qkv_schedule *s = &r->t.schedule;
    if (!qkv_options_given(r->options, "lr"))
        s->lr = s->kind == QKV_SCHEDULE_NOAM ? 1 : lr;
    if (!qkv_options_given(r->options, "width"))
        s->width = width;
}

void qkv__run_tuned_rate(qkv__run *r, size_t width, double most)
{
    double lr = fmin(qkv_training_rate(width), most);
    qkv__run_rate(r, width, r->o.init ? TUNING * lr : lr);
}

/* ---- records ------------------------------------------------------------------------------- */

/* The records in OUT/name; *out stays NULL when there is no such file and it is not required. */
static qkv_status run_open_records(const qkv__run *r, const char *name, bool required,
                                   size_t fields, qkv_records **out)
{
    const qkv_path path = qkv__run_path(r, name);
    if (qkv_file_exists(path.text))
        return qkv__records_open_of(out, r->ctx, path.text, fields, r->tokenizer);
    return required ? qkv_fail(r->ctx, QKV_E_IO, "%s is missing", path.text) : QKV_OK;
}

static qkv_status run_open_data(qkv__run *r, const qkv__job_kind *kind)
{
    if (!kind->fields)
        return kind->open(r);
    qkv_status status = run_open_records(r, QKV__TRAIN_RECORDS, true, kind->fields, &r->train);
    return status ? status : run_open_records(r, QKV__VALID_RECORDS, false, kind->fields,
                                              &r->valid);
}

qkv_status qkv__run_records(qkv__run *r, const qkv_text_span *parts, size_t count,
                            const char *name, size_t fields, qkv__add_part_fn *add,
                            qkv_records **out)
{
    qkv_records_writer *w = NULL;
    qkv_status status = qkv_records_create(&w, r->ctx, qkv__run_path(r, name).text, fields);
    for (size_t i = 0; i < count && !status; i++)
        status = add(r, w, &parts[i]);
    if (!status)
        return qkv_records_finish(w, out);
    qkv_records_abandon(w);
    return status;
}

/* ---- settings ------------------------------------------------------------------------------ */

qkv_status qkv__run_check(qkv__run *r, const qkv__job_kind *kind)
{
    qkv_train_options *loop = &r->t.loop;
    qkv_status status = qkv__options_complete(r->options);
    if (!status && kind->recipes)
        status = qkv_recipe_apply(r->options, kind->recipes);
    if (!status && loop->steps && loop->minutes > 0)
        status = qkv_fail(r->ctx, QKV_E_ARGUMENT, "--steps and --minutes: one of them expected, "
                           "found both");
    if (!status && loop->accumulation_steps > loop->batch)
        status = qkv_fail(r->ctx, QKV_E_ARGUMENT,
                          "--accumulation-steps: at most the batch, %zu, expected, "
                           "found %zu", loop->batch, loop->accumulation_steps);
    if (!status && r->o.lora)
        status = qkv__lora_check(r->ctx, r->o.lora);
    if (!status && r->o.lora && !r->o.init && !r->o.resume)
        status = qkv_fail(r->ctx, QKV_E_ARGUMENT, "--lora: --init expected, the model that the "
                          "adapter is for");
    if (!status && kind->check)
        status = kind->check(r);
    if (!status && !loop->steps && loop->minutes <= 0)
        loop->minutes = 5;
    if (!status && !qkv_options_given(r->options, "warmup") && loop->steps && loop->steps < 1000)
        r->t.schedule.warmup = loop->steps / 10;
    return status;
}

static qkv_status check_decided(const qkv__run *r, const qkv__job_kind *kind)
{
    const char *const *key = kind->decided;
    for (; key && *key && !r->o.init; key++)
        if (qkv_options_given(r->options, *key))
            return qkv_fail(r->ctx, QKV_E_ARGUMENT, "--set %s: it follows from the data and "
                             "from other options", *key);
    return QKV_OK;
}

/* What comes with the model that --init starts from cannot be chosen. */
static void note_unused(const qkv__run *r, const qkv__job_kind *kind)
{
    if (r->o.init && kind->has_text)
        qkv__vocabulary_unused(r->ctx, r->options, "--init", r->o.init);
    for (size_t i = 0; kind->fixed && kind->fixed[i] && r->o.init; i++)
        if (qkv_options_given(r->options, kind->fixed[i]))
            qkv__note(r->ctx, "--%s has no effect: with --init it is as in %s", kind->fixed[i],
                      r->o.init);
}

static void keep_settings(qkv__run *r, const qkv__job_kind *kind)
{
    size_t n = 0;
    for (; kind->task_tables && kind->task_tables[n]; n++)
        r->kept[n] = (qkv_train_settings){kind->task_tables[n],
                                          qkv_options_target(r->options, kind->task_tables[n])};
    r->t.loop.also = r->kept;
    r->t.loop.also_count = n;
}

/* ---- training -------------------------------------------------------------------------------- */

qkv_training qkv_training_defaults(void)
{
    static const qkv_preset presets[] = {QKV__RUN_PRESETS, {NULL, NULL, NULL}};
    const qkv_option_table *const tables[] = {&qkv__train_table, &qkv__optimizer_table,
                                              &qkv__schedule_table};
    qkv_training t;
    void *const targets[] = {&t.loop, &t.optimizer, &t.schedule};
    for (int i = 0; i < 3; i++) {
        qkv_option_defaults(tables[i], targets[i]);
        qkv_preset_apply(presets, tables[i], targets[i]);
    }
    return t;
}

typedef struct {
    const qkv__run *run;
    const char *what;
} teller;

/* Says what is being trained. */
static bool run_tell(void *user, const qkv_train_event *event)
{
    const teller *t = user;
    qkv_train_event e = *event;
    if (e.kind != QKV_TRAIN_NOTE)
        e.text = t->what;
    return t->run->event(t->run->user, &e);
}

static qkv_status run_train(const qkv__run *r, const qkv_training *training, qkv_task *task,
                            const char *dir, bool resume, const char *what,
                            qkv_train_result *result)
{
    qkv_train_options loop = training->loop; /* its samples are set, or there are none */
    teller t = {r, what};
    loop.spent = qkv_now() - r->began;
    loop.measure_peak = true;
    return qkv_train(task, &loop, &training->optimizer, &training->schedule, dir, resume,
                     r->event ? run_tell : NULL, &t, result);
}

qkv_status qkv__run_task_settings(qkv__run *r, const qkv_training *training, qkv_task *task,
                                  const char *dir, const char *what)
{
    qkv_train_result result;
    qkv_status status = run_train(r, training, task, dir, true, what, &result);
    if (!status && result.stopped)
        status = qkv_fail(r->ctx, QKV_E_CANCELLED, "stopped while %s, after %llu steps, and "
                           "saved; the same command with --resume goes on", what,
                           (unsigned long long)result.step);
    return status;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* The chat template of --init goes with the model, unless the run has one of its own; one that is
 * not understood does not matter here. */
static qkv_status keep_template(const qkv__run *r)
{
    qkv_chat_template *t = NULL;
    if (!r->o.init || qkv_file_exists(qkv__run_path(r, "chat_template.jinja").text))
        return QKV_OK;
    qkv_status status = qkv_hub_load_chat_template(&t, r->ctx, r->o.init);
    if (!t)
        return status == QKV_E_MEMORY ? status : QKV_OK;
    status = qkv_chat_template_save(t, r->o.out);
    qkv_chat_template_close(t);
    return status;
}

/* Nothing is written before all that can be checked without writing is. */
static qkv_status prepare_run(qkv__run *r, const qkv__job_kind *kind, qkv__run_dir *dir)
{
    qkv_status status = check_decided(r, kind);
    if (!status)
        status = kind->read(r);
    if (!status && r->o.lora)
        status = qkv__lora_begin(r->model, r->o.lora, r->o.init, r->o.seed);
    if (!status)
        status = qkv__run_dir_open(dir, r->ctx, r->o.out);
    if (!status)
        status = kind->write(r);
    if (!status && r->tokenizer)
        status = qkv_tokenizer_save(r->tokenizer, r->o.out);
    if (!status && r->tokenizer)
        status = keep_template(r);
    return status ? status : qkv_hub_save(r->model, r->o.out, NULL);
}

/* Data and model of a run that is there already: those it began with. */
static qkv_status reopen(qkv__run *r, const qkv__job_kind *kind)
{
    qkv_status status = qkv__hub_is_adapter(r->o.out)
                            ? qkv__lora_reopen(&r->model, r->ctx, r->o.out, r->o.lora)
                            : qkv_hub_load_config(&r->model, r->ctx, r->o.out);
    if (!status && !(kind->can ? qkv_model_can(r->model, kind->can)
                               : qkv_model_type_of(r->model) == kind->type()))
        status = qkv_fail(r->ctx, QKV_E_ARGUMENT, "--resume: %s holds a %s, which train %s "
                           "does not make", r->o.out,
                           qkv_model_type_architecture(qkv_model_type_of(r->model)), kind->name);
    if (!status && kind->has_text)
        status = qkv_hub_load_tokenizer(&r->tokenizer, r->ctx, r->o.out);
    return status ? status : run_open_data(r, kind);
}

/* Of several ranks the first prepares the run's directory, which the others then read. What a new
 * run has written is removed again if the rest fails. */
static qkv_status run_begin(qkv__run *r, const qkv__job_kind *kind, qkv__run_dir *dir)
{
    bool leads = qkv_dist_rank(r->ctx) == 0, again = false;
    qkv_status status = leads ? qkv__run_dir_check(r->ctx, r->o.out, r->o.resume) : QKV_OK;
    if (!status && leads) {
        again = r->o.resume && qkv__run_dir_has_checkpoint(r->o.out);
        status = again ? qkv__run_dir_open(dir, r->ctx, r->o.out) : prepare_run(r, kind, dir);
    }
    if (!status && again)
        status = reopen(r, kind);
    status = qkv__dist_agree(r->ctx, status);
    if (!status)
        status = qkv__run_mirror(r->ctx, r->o.out);
    if (!status && !leads)
        status = reopen(r, kind);
    if (!status)
        status = kind->begin(r);
    status = qkv__dist_agree(r->ctx, status);
    if (status && !again && dir->ctx)
        qkv__run_dir_undo(dir);
    return status;
}

static void run_clean_up(qkv__run *r, const qkv__job_kind *kind)
{
    qkv_task_destroy(&r->task);
    qkv_model_destroy(r->model);
    kind->close(r);
    qkv_records_close(r->train);
    qkv_records_close(r->valid);
    qkv_tokenizer_destroy(r->tokenizer);
}

qkv_status qkv__run_all(qkv__run *r, const qkv__job_kind *kind, qkv_train_result *result)
{
    qkv__run_dir dir = {0};
    qkv_status status = run_begin(r, kind, &dir);
    if (!status) {
        note_unused(r, kind);
        keep_settings(r, kind);
        r->t.loop.sample = kind->sample;
        r->t.loop.sample_user = r;
        status = run_train(r, &r->t, &r->task, r->o.out, r->o.resume, "training", result);
    }
    run_clean_up(r, kind);
    qkv__run_dir_close(&dir);
    return status;
}
