/* log.c - what a run writes as it goes: train/metrics.jsonl, one JSON object a line, and the same
 * numbers for TensorBoard. Both are appended to, a whole piece at a time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "qkv/machine.h"
#include "train/events.h"
#include "train/loop.h"

static const char METRICS[] = "train/metrics.jsonl", EVENTS[] = "train/events.out.tfevents.qkv";
enum { EVERY_TENTH = 100, NORMS_EVERY = 50, TAG = 320 };

/* ---- one line ----------------------------------------------------------------------------- */

/* An object of the log and the summary with the same numbers. */
typedef struct {
    qkv__loop *l;
    qkv_json_writer json;
    qkv_str summary;
    const char *group; /* what the tags begin with */
} log_line;

static void line_begin(log_line *x, qkv__loop *l, const char *kind, const char *group)
{
    *x = (log_line){.l = l, .group = group};
    qkv_str_init(&x->summary, l->ctx);
    qkv_json_writer_init(&x->json, l->ctx, 0);
    qkv_json_begin_object(&x->json, NULL);
    qkv_json_put_string(&x->json, "kind", kind);
    qkv_json_put_int(&x->json, "step", (int64_t)l->step);
    qkv_json_put_real(&x->json, "seconds", qkv__seconds(l));
}

static void line_put(log_line *x, const char *name, double value)
{
    char tag[TAG];
    qkv_json_put_real(&x->json, name, value);
    snprintf(tag, sizeof tag, "%s/%s", x->group, name);
    if (isfinite(value))
        qkv__summary_scalar(&x->summary, tag, value);
}

/* Adds it to what is to be written. */
static void line_end(log_line *x)
{
    qkv__log *log = &x->l->log;
    qkv_json_end_object(&x->json);
    const char *text = qkv_json_writer_text(&x->json);
    log->lines.failed = log->lines.failed || !text;
    if (text)
        qkv_str_printf(&log->lines, "%s\n", text);
    qkv__event_put(&log->events, x->l->step, &x->summary);
    qkv_json_writer_free(&x->json);
    qkv_str_free(&x->summary);
}

/* ---- writing ------------------------------------------------------------------------------ */

static void put_machine(const qkv__loop *l, qkv_json_writer *w)
{
    qkv_json_begin_object(w, "machine");
    qkv_json_put_string(w, "cpu", qkv_machine_cpu());
    qkv_json_put_int(w, "threads", qkv_context_threads(l->ctx));
    qkv_json_put_string(w, "products", qkv_machine_products(l->ctx));
    qkv_json_end_object(w);
}

/* What the numbers of the log belong to. */
static qkv_status write_about(qkv__loop *l)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, l->ctx, 2);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "task", l->task->type->name);
    qkv_json_put_string(&w, "unit", l->task->type->unit ? l->task->type->unit : "samples");
    qkv_json_put_int(&w, "parameters", (int64_t)qkv_params_elements(l->params));
    qkv__settings_put(l, &w);
    put_machine(l, &w);
    qkv_json_end_object(&w);
    const char *text = qkv_json_writer_text(&w);
    const qkv_path path = qkv_path_in(l->dir, "train/run.json");
    qkv_status status = text ? qkv__file_remove(l->ctx, path.text) : QKV_E_MEMORY;
    if (!status) /* no waiting for the disk: a session writes it anew */
        status = qkv__file_append(l->ctx, path.text, text, strlen(text));
    qkv_json_writer_free(&w);
    return status;
}

static qkv_status log_append(qkv__loop *l, const char *name, qkv_str *what)
{
    qkv_status status = what->failed ? QKV_E_MEMORY : QKV_OK;
    if (!status && what->len)
        status = qkv__file_append(l->ctx, qkv_path_in(l->dir, name).text, what->data, what->len);
    qkv_str_clear(what);
    return status;
}

/* Nothing is written before there is something to write. */
static qkv_status log_flush(qkv__loop *l)
{
    qkv_status status = l->log.about ? QKV_OK : write_about(l);
    l->log.about = true;
    if (!status)
        status = log_append(l, METRICS, &l->log.lines);
    qkv_status other = log_append(l, EVENTS, &l->log.events);
    return status ? status : other;
}

/* ---- what is logged ------------------------------------------------------------------------- */

bool qkv__log_norms_due(uint64_t step)
{
    return step % (step <= EVERY_TENTH ? 10 : NORMS_EVERY) == 0;
}

static void log_terms(qkv__loop *l)
{
    log_line x;
    if (!l->terms.count)
        return;
    line_begin(&x, l, "terms", "terms");
    for (int i = 0; i < l->terms.count; i++)
        line_put(&x, l->terms.item[i].name, l->terms.item[i].value);
    line_end(&x);
}

static qkv_status log_norms(qkv__loop *l)
{
    const qkv__groups *g = &l->groups;
    double *weights = qkv_malloc(l->ctx, (g->count + 1) * sizeof *weights);
    log_line x;
    if (!weights)
        return QKV_E_MEMORY;
    qkv__groups_weights(l, weights);
    line_begin(&x, l, "gradient_norm", "gradient_norm");
    for (size_t i = 0; i < g->count; i++)
        line_put(&x, g->names[i], qkv__groups_gradient(l, i));
    line_end(&x);
    line_begin(&x, l, "weight_norm", "weight_norm");
    for (size_t i = 0; i < g->count; i++)
        line_put(&x, g->names[i], weights[i]);
    line_end(&x);
    qkv_free(l->ctx, weights);
    return QKV_OK;
}

static void log_machine(qkv__loop *l)
{
    qkv_train_event e;
    log_line x;
    qkv__rates(l, &e);
    line_begin(&x, l, "machine", "machine");
    line_put(&x, "units_per_s", e.units_per_s);
    line_put(&x, "gflops", e.gflops);
    if (e.peak_gflops > 0)
        line_put(&x, "share_of_peak", e.gflops / e.peak_gflops);
    line_put(&x, "peak_rss", (double)qkv_machine_peak_rss());
    line_put(&x, "step_memory", (double)qkv_tape_high_water(l->tape));
    line_put(&x, "scratch_memory", (double)qkv_tape_scratch_high_water(l->tape));
    line_end(&x);
}

/* Shares of the time of all updates that rank 0 waited: for the slowest rank, for messages. hidden:
 * of the gradients, what had arrived when the backward pass ended. */
static void log_ranks(qkv__loop *l)
{
    log_line x;
    if (qkv_dist_size(l->ctx) == 1)
        return;
    const qkv__ranks_cost c = qkv__ranks_cost_of(l->ranks);
    line_begin(&x, l, "ranks", "ranks");
    line_put(&x, "ranks", (double)qkv_dist_size(l->ctx));
    line_put(&x, "wait_slowest", c.slowest / l->update_time);
    line_put(&x, "wait_messages", c.messages / l->update_time);
    line_put(&x, "hidden", c.hidden);
    line_end(&x);
}

qkv_status qkv__log_step(qkv__loop *l)
{
    qkv_status status = QKV_OK;
    log_line x;
    if (!l->dir)
        return QKV_OK;
    line_begin(&x, l, "step", "train");
    line_put(&x, "loss", l->last_loss);
    line_put(&x, "lr", l->last_lr);
    line_put(&x, "norm", l->last_norm);
    if (l->data_time > 0)
        line_put(&x, "data_wait", l->data_time / l->update_time);
    line_end(&x);
    log_terms(l);
    log_ranks(l);
    if (qkv__log_norms_due(l->step)) {
        status = log_norms(l);
        log_machine(l);
    }
    return status ? status : log_flush(l);
}

/* best: -1: it is not said. */
static qkv_status log_metrics(qkv__loop *l, const qkv_metrics *m, const char *kind,
                              const char *also, double value, int best)
{
    log_line x;
    if (!l->dir || !m->count)
        return QKV_OK;
    line_begin(&x, l, kind, kind);
    if (also)
        line_put(&x, also, value);
    for (int i = 0; i < m->count; i++)
        line_put(&x, m->item[i].name, m->item[i].value);
    if (best >= 0)
        qkv_json_put_bool(&x.json, "best", best);
    line_end(&x);
    return log_flush(l);
}

qkv_status qkv__log_eval(qkv__loop *l, const qkv_metrics *m, bool best)
{
    return log_metrics(l, m, "eval", l->step ? "train_loss" : NULL, l->smooth_loss, best);
}

qkv_status qkv__log_final(qkv__loop *l, const qkv_metrics *m)
{
    return log_metrics(l, m, "final", "best_step", (double)l->best_step, -1);
}

qkv_status qkv__log_sample(qkv__loop *l, const qkv_sample *s, const char *file,
                           const qkv_str *png)
{
    char tag[TAG];
    log_line x;
    if (!l->dir)
        return QKV_OK;
    line_begin(&x, l, "sample", "samples");
    qkv_json_put_string(&x.json, "name", s->name);
    qkv_json_put_string(&x.json, "file", file);
    snprintf(tag, sizeof tag, "samples/%s", s->name);
    if (s->text) {
        qkv_json_put_bytes(&x.json, "text", s->text, s->length);
        qkv__summary_text(&x.summary, tag, s->text, s->length);
    } else {
        qkv_json_put_int(&x.json, "width", (int64_t)s->image->width);
        qkv_json_put_int(&x.json, "height", (int64_t)s->image->height);
        qkv__summary_image(&x.summary, tag, s->image, png);
    }
    line_end(&x);
    return log_flush(l);
}

/* ---- beginning and going on ----------------------------------------------------------------- */

/* The step that a line of the log is about; -1 when it is no such line. */
static int64_t step_of(qkv__loop *l, const char *path, const char *line, size_t len)
{
    qkv__json j;
    int64_t step = -1;
    if (qkv__json_parse(&j, l->ctx, path, line, len) == QKV_OK) {
        if (qkv__json_get_int(&j, "step", 0, INT64_MAX, &step) != QKV_OK)
            step = -1;
        qkv__json_free(&j);
    }
    return step;
}

static qkv_status trim_lines(qkv__loop *l, const char *path)
{
    char *text = NULL;
    size_t size = 0, kept = 0;
    if (!qkv_file_exists(path))
        return QKV_OK;
    qkv_status status = qkv_file_read(l->ctx, path, 0, &text, &size);
    for (size_t at = 0; at < size && !status;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t)(end - text) - at : size - at;
        int64_t step = end ? step_of(l, path, text + at, len) : -1;
        if (step >= 0 && l->step && (uint64_t)step <= l->step) {
            memmove(text + kept, text + at, len + 1);
            kept += len + 1;
        }
        at += len + 1;
    }
    if (!status)
        status = qkv_file_write(l->ctx, path, text, kept);
    qkv_free(l->ctx, text);
    return status;
}

static bool is_of_kind(const char *line, size_t len, const char *kind)
{
    char begin[48];
    int n = snprintf(begin, sizeof begin, "{\"kind\": \"%s\"", kind); /* as line_begin writes it */
    return len > (size_t)n && memcmp(line, begin, (size_t)n) == 0;
}

qkv_status qkv__log_ended(qkv__loop *l, bool *ended)
{
    const qkv_path path = qkv_path_in(l->dir, METRICS);
    char *text = NULL;
    size_t size = 0;
    *ended = true;
    if (!qkv_file_exists(path.text))
        return QKV_OK;
    qkv_status status = qkv_file_read(l->ctx, path.text, 0, &text, &size);
    for (size_t at = 0; at < size && !status;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t)(end - text) - at : 0;
        *ended = is_of_kind(text + at, len, "final") ||
                 (*ended && !is_of_kind(text + at, len, "eval"));
        at = end ? at + len + 1 : size;
    }
    qkv_free(l->ctx, text);
    return status;
}

/* A run that begins anew has a file of its own. */
static qkv_status begin_events(qkv__loop *l, const char *path)
{
    qkv_status status = l->step ? qkv__events_trim(l->ctx, path, l->step)
                                : qkv__file_remove(l->ctx, path);
    if (status)
        return status;
    if (qkv_file_exists(path) && l->step)
        qkv__event_put_start(&l->log.events, l->step + 1);
    else
        qkv__event_put_version(&l->log.events);
    return QKV_OK;
}

qkv_status qkv__log_begin(qkv__loop *l)
{
    if (!l->dir)
        return QKV_OK;
    qkv_status status = trim_lines(l, qkv_path_in(l->dir, METRICS).text);
    if (!status)
        status = begin_events(l, qkv_path_in(l->dir, EVENTS).text);
    return status;
}

void qkv__log_free(qkv__loop *l)
{
    qkv_str_free(&l->log.lines);
    qkv_str_free(&l->log.events);
}
