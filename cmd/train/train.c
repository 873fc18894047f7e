/* train.c - the command line's side of training jobs. */
#include "train/train.h"

#include <stdio.h>
#include <string.h>

#include "train/panel.h"

/* ---- progress -------------------------------------------------------------------------------- */

enum { ALL_WORDS = 95 }; /* columns that the line takes with everything in it */

typedef struct {
    const cli *c;
    cli_progress line;
    bool begun; /* line */
    const char *dir;
    panel panel;
    qkv_train_event last; /* update */
} shower;

/* The line, and on a terminal what is above it. */
static void show_line(shower *s, const qkv_train_event *e)
{
    char rate[CLI_NUMBER], share[CLI_NUMBER] = "";
    bool narrow = s->line.terminal && cli_progress_columns(&s->line) < ALL_WORDS;
    if (e->peak_gflops > 0)
        (void)snprintf(share, sizeof share, narrow ? "  %.0f%% of peak" : " (%.0f%% of peak)",
                       100 * e->gflops / e->peak_gflops);
    s->line.left = e->left > 0 ? e->left : 0;
    s->line.above = panel_show(&s->panel, cli_progress_columns(&s->line),
                               cli_progress_rows(&s->line));
    cli_short_number(e->units_per_s, rate);
    if (narrow)
        cli_progress_show(&s->line, (size_t)e->step, (size_t)e->steps, "loss %.4f  %s %s/s%s",
                          e->loss, rate, e->unit, share);
    else
        cli_progress_show(&s->line, (size_t)e->step, (size_t)e->steps,
                          "loss %.4f  %s %s/s  %.3g GF/s%s", e->loss, rate, e->unit, e->gflops,
                          share);
}

static void show_step(shower *s, const qkv_train_event *e)
{
    bool last = e->steps && e->step >= e->steps;
    if (!s->begun || strcmp(s->line.label, e->text) != 0) {
        cli_progress_begin(&s->line, s->c, e->text, "steps", 0);
        s->line.rate = -1; /* the words behind it say it */
        if (s->begun)
            memset(&s->panel, 0, sizeof s->panel); /* of another network */
        else if (e->step > 1)
            panel_read(&s->panel, s->c, s->dir);
        s->begun = true;
    }
    panel_add(&s->panel, e->step, e->loss);
    s->last = *e;
    s->last.terms = NULL; /* they do not live so long */
    if (last || cli_progress_due(&s->line))
        show_line(s, e);
}

static void show_eval(shower *s, const qkv_train_event *e)
{
    char train[CLI_NUMBER] = "";
    if (e->step)
        (void)snprintf(train, sizeof train, "train %.4f  ", e->loss);
    for (int i = 0; i < e->metrics->count; i++)
        if (strcmp(e->metrics->item[i].name, "loss") == 0)
            panel_add_held_out(&s->panel, e->step, e->metrics->item[i].value);
    const char *kept = e->metrics->newest ? "  (kept)" : "  (best)";
    cli_note(s->c, "step %llu  %sheld out %s %.4f%s", (unsigned long long)e->step, train,
             e->metrics->item[0].name, e->metrics->item[0].value, e->best ? kept : "");
}

static bool train_show(void *user, const qkv_train_event *e)
{
    shower *s = user;
    if (e->kind == QKV_TRAIN_STEP) {
        show_step(s, e);
    } else if (e->kind == QKV_TRAIN_SAMPLE) {
        panel_add_sample(&s->panel, s->c, e->step, e->sample);
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

static int train_answer_json(cli *c, const qkv_train_result *r)
{
    qkv_json_writer w = cli_object(c);
    qkv_json_put_int(&w, "steps", (int64_t)r->step);
    qkv_json_put_real(&w, "seconds", r->seconds);
    qkv_json_put_bool(&w, "finished", !r->stopped);
    qkv_json_put_int(&w, "best_step", (int64_t)r->best_step);
    qkv_json_put_real(&w, "train_loss", r->train_loss);
    for (int i = 0; i < r->metrics.count; i++)
        qkv_json_put_real(&w, r->metrics.item[i].name, r->metrics.item[i].value);
    return cli_answer(c, &w);
}

static void train_say(const cli *c, const qkv_train_result *r, const char *dir)
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
    if (r->metrics.scored < r->metrics.units)
        cli_note(c, "evaluated on %zu of %zu held-out %s, for lack of time", r->metrics.scored,
                 r->metrics.units, r->unit);
    for (int i = 0; i < r->metrics.count; i++)
        cli_note(c, "held out: %s %.4f", r->metrics.item[i].name, r->metrics.item[i].value);
}

/* ---- the command ------------------------------------------------------------------------- */

static int run_job(cli *c, qkv_job *job)
{
    shower s = {.c = c, .dir = qkv_job_directory(job)};
    qkv_train_result r;
    cli_catch_signals();
    qkv_status status = qkv_job_run(job, train_show, &s, &r);
    if (!status && s.line.terminal && !s.line.open)
        show_line(&s, &s.last); /* the last evaluation has hidden it */
    cli_progress_end(&s.line);
    if (status)
        return cli_error(c);
    train_say(c, &r, qkv_job_directory(job));
    return c->common.json ? train_answer_json(c, &r) : CLI_DONE;
}

int train_run(cli *c, int argc, char **argv)
{
    qkv_job *job = NULL;
    qkv_status status = qkv_job_create(&job, c->ctx, c->command->job);
    if (!status)
        status = qkv_job_parse(job, argc, argv, &cli_job_common_table, &c->common);
    if (!status)
        status = qkv_job_check(job); /* a recipe may choose what the context is to be */
    int code = status ? cli_usage(c, "%s", qkv_context_message(c->ctx)) : cli_configure(c);
    if (!code)
        code = run_job(c, job);
    qkv_job_destroy(job);
    return code;
}
