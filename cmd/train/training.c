/* training.c - the command line's side of the training loop. */
#include "train/training.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "qkv/machine.h"

static const double RATE_TIMES_WIDTH = 0.384; /* 3e-3 at 128 channels */

const qkv_preset cli_training_presets[] = {
    {"weight-decay", "0.3", NULL},
    {"beta2", "0.95", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / channels"},
    {"minutes", NULL, "5 without --steps"},
    {"bf16", "true", NULL},
    {NULL, NULL, NULL},
};

double cli_training_rate(size_t width)
{
    return RATE_TIMES_WIDTH / (double)width;
}

void cli_training_defaults(cli_training *t)
{
    const qkv_option_table *const tables[] = {&qkv_train_table, &qkv_optimizer_table,
                                              &qkv_schedule_table};
    void *const targets[] = {&t->loop, &t->optimizer, &t->schedule};
    *t = (cli_training){0}; /* fields that no table has, too */
    for (int i = 0; i < 3; i++) {
        qkv_option_defaults(tables[i], targets[i]);
        qkv__preset_apply(cli_training_presets, tables[i], targets[i]);
    }
}

void cli_training_bind(cli *c, cli_training *t)
{
    cli_bind(c, &qkv_train_table, &t->loop);
    cli_bind(c, &qkv_optimizer_table, &t->optimizer);
    cli_bind(c, &qkv_schedule_table, &t->schedule);
}

bool cli_training_exists(cli *c, const char *dir)
{
    char *path = qkv__path_join(c->ctx, dir, "train/state.safetensors");
    bool exists = path && qkv__file_exists(path);
    qkv__free(c->ctx, path);
    return exists;
}

/* All that a run writes before its first checkpoint. */
static const char *const first_files[] = {
    "train/metrics.jsonl", "train/train.tokens", "train/valid.tokens", "train/train.records",
    "train/valid.records", "train/train.npy", "train/valid.npy", "train/train.pixels",
    "train/valid.pixels", "train/train-masks.pixels", "train/valid-masks.pixels", "train/looks",
    "preprocessor_config.json", "tokenizer.json", "vocab.txt", "source.spm",
    "target.spm", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
    "merges.txt", "config.json", "generation_config.json", "model.safetensors",
    "vqgan/config.json", "vqgan/preprocessor_config.json", "vqgan/model.safetensors",
    "condition/config.json", "condition/preprocessor_config.json", "condition/model.safetensors"};
enum { FIRST_FILES = sizeof first_files / sizeof *first_files };
static const char *const folders[] = {"train", "vqgan", "condition"}; /* that these lie in */
enum { FOLDERS = sizeof folders / sizeof *folders };

/* Is the path inside a run's directory one of these, or the temporary of one? */
static bool is_first_file(const char *folder, const char *name)
{
    char temporary[80];
    for (size_t i = 0; i < FIRST_FILES; i++) {
        const char *first = first_files[i], *base = qkv__path_name(first);
        size_t len = base > first ? (size_t)(base - first) - 1 : 0; /* without the slash */
        bool here = len == strlen(folder) && strncmp(first, folder, len) == 0;
        (void)snprintf(temporary, sizeof temporary, ".%s.tmp", base);
        if (here && (strcmp(name, base) == 0 || strcmp(name, temporary) == 0))
            return true;
    }
    return strcmp(name, ".state.safetensors.tmp") == 0 && *folder;
}

static bool is_folder(const char *name)
{
    for (size_t i = 0; i < FOLDERS; i++)
        if (strcmp(name, folders[i]) == 0)
            return true;
    return false;
}

/* Are all files in `folder` ("" or one of the folders) of dir first files? *count += how many there
 * are, without the folders themselves. */
static qkv_status only_first_files(cli *c, const char *dir, const char *folder, bool *only,
                                   size_t *count)
{
    qkv__names names = {0};
    char *path = qkv__path_join(c->ctx, dir, folder);
    qkv_status status = path ? QKV_OK : QKV_E_MEMORY;
    if (!status && qkv__dir_exists(path))
        status = qkv__dir_list(&names, c->ctx, path);
    for (size_t i = 0; i < names.count; i++) {
        if (!*folder && is_folder(names.names[i]))
            continue;
        *only = *only && is_first_file(folder, names.names[i]);
        ++*count;
    }
    qkv__names_free(&names);
    qkv__free(c->ctx, path);
    return status;
}

/* A directory that is not empty must hold a run: a checkpoint, or the beginning of one. */
static int check_dir(cli *c, const char *dir, bool resume)
{
    bool only = true;
    size_t all = 0, begun = 0;
    if (!qkv__dir_exists(dir) || (resume && cli_training_exists(c, dir)))
        return 0;
    qkv_status status = only_first_files(c, dir, "", &only, &all);
    for (size_t i = 0; i < FOLDERS && !status; i++)
        status = only_first_files(c, dir, folders[i], &only, &begun);
    if (status)
        return cli_error(c);
    if ((all || begun) && !resume)
        return cli_fail("%s is not empty: give --resume to go on there, or another --out", dir);
    if (!only || (all && !begun))
        return cli_fail("%s holds something else than a training run: give another --out", dir);
    return 0;
}

void cli_training_undo(cli *c, const char *dir, bool existed)
{
    char *path = NULL;
    for (size_t i = 0; i < FIRST_FILES; i++) {
        path = qkv__path_join(c->ctx, dir, first_files[i]);
        if (path)
            (void)unlink(path);
        qkv__free(c->ctx, path);
    }
    for (size_t i = 0; i < FOLDERS; i++) {
        path = qkv__path_join(c->ctx, dir, folders[i]);
        if (path)
            (void)rmdir(path);
        qkv__free(c->ctx, path);
    }
    if (!existed)
        (void)rmdir(dir);
}

int cli_training_check(cli *c, cli_training *t, const char *dir, bool resume)
{
    int code = check_dir(c, dir, resume);
    if (code)
        return code;
    if (t->loop.steps && t->loop.minutes > 0)
        return cli_usage(c, "--steps and --minutes: one of them expected, found both");
    if (t->loop.parts > t->loop.batch)
        return cli_usage(c, "--parts: at most the batch, %zu, expected, found %zu", t->loop.batch,
                         t->loop.parts);
    if (!t->loop.steps && t->loop.minutes <= 0)
        t->loop.minutes = 5;
    if (!qkv_options_given(c->options, "warmup") && t->loop.steps && t->loop.steps < 1000)
        t->schedule.warmup = t->loop.steps / 10;
    return 0;
}

qkv_status cli_training_dir(cli *c, const char *dir)
{
    char *path = qkv__path_join(c->ctx, dir, "train");
    qkv_status status = path ? qkv__dir_create(c->ctx, path) : QKV_E_MEMORY;
    int lock;
    if (!status)
        status = qkv__dir_lock(&lock, c->ctx, path);
    qkv__free(c->ctx, path);
    return status;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* Seconds of training after which a tenth of a second for the machine's limit is no loss. */
static const double PEAK_AFTER = 3;

typedef struct {
    const cli *c;
    const char *unit; /* what rates count: "tokens" */
    cli_progress line;
    double peak; /* GF/s; 0: not measured yet; negative: it cannot be */
} shower;

static void show_step(shower *s, const qkv_train_event *e)
{
    char rate[CLI_NUMBER], share[CLI_NUMBER] = "";
    bool last = e->steps && e->step >= e->steps;
    if (!last && !cli_progress_due(&s->line))
        return;
    if (s->peak == 0 && qkv__now() - s->line.begun > PEAK_AFTER) {
        s->peak = 1e-9 * qkv_machine_peak_flops(s->c->ctx, 1);
        if (s->peak <= 0)
            s->peak = -1;
    }
    if (s->peak > 0)
        (void)snprintf(share, sizeof share, " (%.0f%% of peak)", 100 * e->gflops / s->peak);
    s->line.left = e->left > 0 ? e->left : 0;
    cli_progress_show(&s->line, (size_t)e->step, (size_t)e->steps,
                      "loss %.4f  %s %s/s  %.3g GF/s%s", e->loss,
                      cli_short_number(e->units_per_s, rate), s->unit, e->gflops, share);
}

static void show_eval(shower *s, const qkv_train_event *e)
{
    char train[CLI_NUMBER] = "";
    if (e->step)
        (void)snprintf(train, sizeof train, "train %.4f  ", e->loss);
    const char *kept = e->measures->newest ? "  (kept)" : "  (best)";
    cli_note(s->c, "step %llu  %sheld out %s %.4f%s", (unsigned long long)e->step, train,
             e->measures->item[0].name, e->measures->item[0].value, e->best ? kept : "");
}

static bool show(void *user, const qkv_train_event *e)
{
    shower *s = user;
    if (e->kind == QKV_TRAIN_STEP) {
        show_step(s, e);
    } else {
        cli_progress_hide(&s->line);
        if (e->kind == QKV_TRAIN_NOTE)
            cli_note(s->c, "%s", e->text);
        else
            show_eval(s, e);
    }
    return !cli_stopped();
}

/* ---- last words --------------------------------------------------------------------------- */

static int answer_json(cli *c, const qkv_train_result *r)
{
    qkv__json_out w;
    qkv__json_out_init(&w, c->ctx, 0);
    qkv__json_begin_object(&w, NULL);
    qkv__json_put_int(&w, "steps", (int64_t)r->step);
    qkv__json_put_real(&w, "seconds", r->seconds);
    qkv__json_put_bool(&w, "finished", !r->stopped);
    qkv__json_put_int(&w, "best_step", (int64_t)r->best_step);
    qkv__json_put_real(&w, "train_loss", r->train_loss);
    for (int i = 0; i < r->measures.count; i++)
        qkv__json_put_real(&w, r->measures.item[i].name, r->measures.item[i].value);
    qkv__json_end_object(&w);
    return cli_answer(c, &w);
}

static void say(const cli *c, const qkv_train_result *r, const char *dir, const char *unit)
{
    if (r->was_finished) {
        cli_note(c, "%s is finished (%llu steps); nothing was changed (--init goes on from its "
                 "model, in another --out)", dir,
                 (unsigned long long)r->step);
        return;
    }
    if (r->stopped) {
        cli_note(c, "stopped at step %llu and saved; the same command with --resume goes on",
                 (unsigned long long)r->step);
        return;
    }
    bool minutes = r->seconds >= 100;
    cli_note(c, "%llu steps in %.3g %s%s; the model in %s is of step %llu",
             (unsigned long long)r->step, minutes ? r->seconds / 60 : r->seconds,
             minutes ? "minutes" : "seconds",
             r->early ? " (no better for a while)" : "", dir, (unsigned long long)r->best_step);
    if (r->measures.scored < r->measures.units)
        cli_note(c, "judged on %zu of %zu held-out %s, for lack of time", r->measures.scored,
                 r->measures.units, unit);
    for (int i = 0; i < r->measures.count; i++)
        cli_note(c, "held out: %s %.4f", r->measures.item[i].name, r->measures.item[i].value);
}

static qkv_status train(shower *s, cli *c, const cli_training *t, qkv_task *task, const char *dir,
                        bool resume, const char *what, qkv_train_result *r)
{
    qkv_train_options loop = t->loop;
    *s = (shower){.c = c, .unit = task->type->unit};
    cli_catch_signals();
    cli_progress_begin(&s->line, c, what, "steps", 0);
    s->line.rate = -1; /* the words behind it say it */
    loop.spent = qkv__now() - c->began;
    qkv_status status = qkv_train(task, &loop, &t->optimizer, &t->schedule, dir, resume, show, s,
                                  r);
    cli_progress_end(&s->line);
    return status;
}

qkv_status cli_training_lesson(cli *c, const cli_training *t, qkv_task *task, const char *dir,
                               const char *what)
{
    shower s;
    qkv_train_result r;
    qkv_status status = train(&s, c, t, task, dir, true, what, &r);
    if (!status && r.stopped)
        status = qkv__fail(c->ctx, QKV_E_CANCELLED, "stopped while %s, after %llu steps, and "
                           "saved; the same command with --resume goes on", what,
                           (unsigned long long)r.step);
    return status;
}

int cli_training_run(cli *c, const cli_training *t, qkv_task *task, const char *dir, bool resume)
{
    shower s;
    qkv_train_result r;
    if (train(&s, c, t, task, dir, resume, "training", &r))
        return cli_error(c);
    say(c, &r, dir, s.unit);
    return c->common.json ? answer_json(c, &r) : CLI_DONE;
}
