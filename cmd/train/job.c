/* job.c - the way of a training run through its directory. */
#include "train/job.h"

#include "train/vocabulary.h"
#include "io/file.h"

#define FIELD(member) .offset = offsetof(cli_job_options, member)
static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out), .value = "DIR",
     .help = "where the model goes"},
    {.flag = "resume", .type = QKV_OPT_BOOL, FIELD(resume),
     .help = "go on from the last checkpoint in --out"},
    {.flag = "init", .type = QKV_OPT_STRING, FIELD(init), .value = "DIR",
     .help = "start from this model and its tokenizer; --set may change what the weights do "
             "not depend on"},
};
const qkv_option_table cli_job_table = {"Run", rows, sizeof rows / sizeof *rows};

void cli_job_bind(cli_job *j)
{
    cli_bind(j->c, &cli_job_table, &j->o);
    cli_training_bind(j->c, &j->t);
}

char *cli_job_path(const cli_job *j, const char *name)
{
    return qkv_path_join(j->c->ctx, j->o.out, name);
}

qkv_status cli_job_load(cli_job *j, qkv_model **out)
{
    qkv_strings set = qkv_options_pairs(j->c->options);
    qkv_status status = qkv_hub_load_changed(out, j->c->ctx, j->o.init, set);
    if (!status || !set.count)
        return status;
    char prefix[QKV_OPTION_TEXT];
    snprintf(prefix, sizeof prefix, "--init with --set %s%s", set.items[0],
             set.count > 1 ? " and more" : "");
    return qkv_fail_prefix(j->c->ctx, prefix);
}

qkv_status cli_job_init(cli_job *j)
{
    qkv_status status = qkv_tokenizer_load(&j->tokenizer, j->c->ctx, j->o.init);
    return status ? status : cli_job_load(j, &j->model);
}

void cli_job_rate(cli_job *j, size_t width, double lr)
{
    qkv_schedule *s = &j->t.schedule;
    if (!qkv_options_given(j->c->options, "lr"))
        s->lr = s->kind == QKV_SCHEDULE_NOAM ? 1 : lr;
    if (!qkv_options_given(j->c->options, "width"))
        s->width = width;
}

/* The records in OUT/name; *out stays NULL when there is no such file and it is not required. */
static qkv_status open_records(const cli_job *j, const char *name, bool required, size_t fields,
                               qkv_records **out)
{
    char *path = cli_job_path(j, name);
    qkv_status status = path ? QKV_OK : QKV_E_MEMORY;
    if (!status && qkv_file_exists(path))
        status = qkv__records_open_of(out, j->c->ctx, path, fields, j->tokenizer);
    else if (!status && required)
        status = qkv_fail(j->c->ctx, QKV_E_IO, "%s is missing", path);
    qkv_free(j->c->ctx, path);
    return status;
}

static qkv_status open_data(cli_job *j, const cli_job_type *type)
{
    if (!type->fields)
        return type->open(j);
    qkv_status status = open_records(j, CLI_JOB_TRAIN, true, type->fields, &j->train);
    return status ? status : open_records(j, CLI_JOB_VALID, false, type->fields, &j->valid);
}

static qkv_status check_decided(const cli_job *j, const cli_job_type *type)
{
    const char *const *key = type->decided;
    for (; key && *key && !j->o.init; key++)
        if (qkv_options_given(j->c->options, *key))
            return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--set %s: it follows from the data and "
                            "from other options", *key);
    return QKV_OK;
}

/* Nothing is written before all that can be checked without writing is, and what was written is
 * removed again if the rest fails. */
static qkv_status begin(cli_job *j, const cli_job_type *type)
{
    bool existed = qkv_dir_exists(j->o.out);
    qkv_status status = check_decided(j, type);
    if (!status)
        status = type->read(j);
    if (!status)
        status = cli_training_dir(j->c, j->o.out);
    if (status)
        return status;
    status = type->write(j);
    if (!status)
        status = type->begin(j);
    if (!status && j->tokenizer)
        status = qkv_tokenizer_save(j->tokenizer, j->o.out);
    if (!status)
        status = qkv_hub_save(j->model, j->o.out, NULL);
    if (status)
        cli_training_undo(j->c, j->o.out, existed);
    return status;
}

/* What a run that is there already has: data and model are those it began with. */
static qkv_status reopen(cli_job *j, const cli_job_type *type)
{
    qkv_status status = cli_training_dir(j->c, j->o.out);
    if (!status)
        status = qkv_hub_load_config(&j->model, j->c->ctx, j->o.out);
    if (!status && !type->takes(j->model))
        status = qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--resume: %s holds a %s, which train %s "
                          "does not make", j->o.out,
                          qkv_model_type_architecture(qkv_model_type_of(j->model)), type->name);
    if (!status && type->has_text)
        status = qkv_tokenizer_load(&j->tokenizer, j->c->ctx, j->o.out);
    if (!status)
        status = open_data(j, type);
    return status ? status : type->begin(j);
}

/* What comes with the model that --init starts from cannot be chosen. */
static void note_unused(const cli_job *j, const cli_job_type *type)
{
    const char *const *fixed = type->fixed;
    if (j->o.init && type->has_text)
        cli_vocabulary_unused(j->c, "--init", j->o.init);
    for (size_t i = 0; fixed[i] && j->o.init; i++)
        if (qkv_options_given(j->c->options, fixed[i]))
            cli_note(j->c, "--%s has no effect: with --init it is as in %s", fixed[i], j->o.init);
}

static void clean_up(cli_job *j, const cli_job_type *type)
{
    qkv_task_destroy(&j->task);
    qkv_model_destroy(j->model);
    type->close(j);
    qkv_records_close(j->train);
    qkv_records_close(j->valid);
    qkv_tokenizer_destroy(j->tokenizer);
}

static void keep_settings(cli_job *j, const cli_job_type *type)
{
    size_t n = 0;
    for (; type->lesson && type->lesson[n]; n++)
        j->kept[n] = (qkv_train_settings){type->lesson[n], qkv_options_target(j->c->options,
                                                                              type->lesson[n])};
    j->t.loop.also = j->kept;
    j->t.loop.also_count = n;
}

int cli_job_run(cli_job *j, const cli_job_type *type)
{
    int code = cli_training_check(j->c, &j->t, j->o.out, j->o.resume);
    if (code)
        return code;
    bool again = j->o.resume && cli_training_exists(j->c, j->o.out);
    if (again ? reopen(j, type) : begin(j, type))
        code = cli_error(j->c);
    if (!code) {
        note_unused(j, type);
        keep_settings(j, type);
        code = cli_training_run(j->c, &j->t, &j->task, j->o.out, j->o.resume);
    }
    clean_up(j, type);
    return code;
}
