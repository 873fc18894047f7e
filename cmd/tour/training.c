/* training.c - a chapter's training: qkv_train with a progress line and a curve. */
#include <stdio.h>
#include <string.h>

#include "tour/chapter.h"

typedef struct {
    tour_training *out;
    const cli *c;
    cli_progress line;
    double seconds;
    bool open; /* line */
} watcher;

static bool on_event(void *user, const qkv_train_event *e)
{
    watcher *w = user;
    if (e->kind == QKV_TRAIN_STEP) {
        if (!w->open)
            cli_progress_begin(&w->line, w->c, "training", "steps", (size_t)e->step - 1);
        w->open = true;
        tour_curve_add(&w->out->curve, e->seconds / w->seconds, e->loss);
        cli_progress_show(&w->line, (size_t)e->step, (size_t)e->steps, "loss %.3f", e->loss);
    } else if (e->kind == QKV_TRAIN_NOTE && strncmp(e->text, "plan:", 5) != 0) {
        cli_note(w->c, "%s", e->text);
    }
    return !cli_stopped();
}

qkv_status tour_make(qkv_model **out, const tour *t, const qkv_model_type *type,
                     const void *config)
{
    qkv_status status = qkv_model_create(out, t->page->c->ctx, type, config);
    return status ? status : qkv_model_init(*out, t->page->c->common.seed);
}

qkv_status tour_train(tour_training *out, const tour *t, qkv_task *task, qkv_training *settings,
                      const char *dir, double seconds)
{
    watcher w = {.out = out, .c = t->page->c, .seconds = seconds};
    *out = (tour_training){0};
    settings->loop.minutes = seconds / 60;
    if (t->page->json == NULL)
        (void)fflush(stdout); /* the progress line is on the other stream */
    qkv_status status = qkv_train(task, &settings->loop, &settings->optimizer,
                                  &settings->schedule, dir, false, on_event, &w, &out->result);
    if (w.open)
        cli_progress_end(&w.line);
    if (!status && dir) {
        char text[160];
        (void)snprintf(text, sizeof text, "How %s learnt: curves, norms by layer, memory",
                       qkv_path_name(dir));
        tour_link(t, dir, "train/report.html", text);
    }
    return status;
}

void tour_training_show(const tour_training *x, const tour *t, const char *title)
{
    const page *p = t->page;
    page_text(p, "%llu steps in %.0f seconds.", (unsigned long long)x->result.step,
              x->result.seconds);
    tour_curve_show(&x->curve, t, title);
    page_number(p, "steps", (double)x->result.step);
}
