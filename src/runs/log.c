/* log.c - metrics.jsonl and run.json, read. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "qkv/runs.h"

enum { MOST_SERIES = 4096, NAME = 320, MOST_LINE = 1 << 20 };

typedef struct {
    qkv_run_series s;
    char *name;
    double *numbers; /* steps, seconds, values: (room) each */
    size_t room;
} series;

typedef struct {
    qkv_run_sample s;
    char *name, *text, *file;
} sample;

typedef struct {
    char *name, *value;
} setting;

struct qkv_run_log {
    qkv_context *ctx;
    char *dir;
    series *series;
    size_t count, series_room, hint; /* hint: where the next name probably is */
    sample *samples;
    size_t sample_count, sample_room;
    setting *settings, *about;
    size_t setting_count, setting_room, about_count, about_room;
    double steps, seconds, best;
};

/* ---- adding ------------------------------------------------------------------------------- */

/* The series of that name, made if it is not there; NULL: out of memory, or too many. */
static series *series_of(qkv_run_log *r, const char *name)
{
    size_t at = r->hint;
    if (at >= r->count || strcmp(r->series[at].name, name) != 0)
        for (at = 0; at < r->count && strcmp(r->series[at].name, name) != 0;)
            at++;
    r->hint = at + 1;
    if (at < r->count)
        return &r->series[at];
    if (r->count == MOST_SERIES ||
        !qkv__grow(r->ctx, &r->series, &r->series_room, at + 1, sizeof *r->series))
        return NULL;
    r->series[at] = (series){.name = qkv_strdup(r->ctx, name)};
    if (!r->series[at].name)
        return NULL;
    r->count++;
    return &r->series[at];
}

static bool series_make_room(qkv_context *ctx, series *x)
{
    size_t n = x->s.count, room = x->room ? 2 * x->room : 64;
    if (n < x->room)
        return true;
    double *numbers = qkv_calloc(ctx, 3 * room, sizeof *numbers);
    if (!numbers)
        return false;
    for (size_t k = 0; k < 3 && n; k++)
        memcpy(numbers + k * room, x->numbers + k * x->room, n * sizeof *numbers);
    qkv_free(ctx, x->numbers);
    x->numbers = numbers;
    x->room = room;
    return true;
}

static qkv_status add_value(qkv_run_log *r, const char *name, double step, double seconds,
                            double value)
{
    series *x = series_of(r, name);
    if (!x && r->count == MOST_SERIES)
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s/train/metrics.jsonl: more than %d series",
                        r->dir, (int)MOST_SERIES);
    if (!x || !series_make_room(r->ctx, x))
        return QKV_E_MEMORY;
    size_t n = x->s.count++;
    x->numbers[n] = step;
    x->numbers[x->room + n] = seconds;
    x->numbers[2 * x->room + n] = value;
    return QKV_OK;
}

/* The text of a sample, NULL without one; *failed: out of memory. What a model writes may have
 * U+0000 in it, which is shown as its symbol, U+2400. */
static char *sample_text(qkv_run_log *r, const qkv__json *j, bool *failed)
{
    const json_t *value = json_object_get(j->value, "text");
    if (!json_is_string(value))
        return NULL;
    qkv_str text;
    const char *from = json_string_value(value);
    size_t length = json_string_length(value);
    qkv_str_init(&text, r->ctx);
    for (size_t i = 0; i < length; i++)
        qkv_str_add(&text, from[i] ? from + i : "\xe2\x90\x80", from[i] ? 1 : 3);
    char *own = text.failed ? NULL : qkv_strdup(r->ctx, length ? text.data : "");
    qkv_str_free(&text);
    *failed = !own;
    return own;
}

static qkv_status run_log_add_sample(qkv_run_log *r, const qkv__json *j, double step,
                                     double seconds)
{
    const char *name = "", *file = "";
    bool failed = false;
    qkv_status status = qkv__json_get_string(j, "name", &name);
    if (!status)
        status = qkv__json_get_string(j, "file", &file);
    if (status)
        return status;
    if (!qkv__grow(r->ctx, &r->samples, &r->sample_room, r->sample_count + 1, sizeof *r->samples))
        return QKV_E_MEMORY;
    sample *x = &r->samples[r->sample_count++];
    *x = (sample){.name = qkv_strdup(r->ctx, name), .file = qkv_strdup(r->ctx, file),
                  .text = sample_text(r, j, &failed)};
    x->s = (qkv_run_sample){x->name, step, seconds, x->text, x->file};
    return x->name && x->file && !failed ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status add_setting(qkv_run_log *r, setting **list, size_t *count, size_t *room,
                              const char *name, const char *value)
{
    if (!qkv__grow(r->ctx, list, room, *count + 1, sizeof **list))
        return QKV_E_MEMORY;
    setting *x = &(*list)[(*count)++];
    *x = (setting){qkv_strdup(r->ctx, name), qkv_strdup(r->ctx, value)};
    return x->name && x->value ? QKV_OK : QKV_E_MEMORY;
}

/* ---- lines -------------------------------------------------------------------------------- */

static const char *group_of_kind(const char *kind)
{
    return strcmp(kind, "step") == 0 ? "train" : kind;
}

/* Numbers of a line, but for those that all lines have. */
static qkv_status read_numbers(qkv_run_log *r, const qkv__json *j, const char *kind, double step,
                               double seconds)
{
    const char *key;
    json_t *value;
    qkv_status status = QKV_OK;
    json_object_foreach(j->value, key, value) {
        char name[NAME];
        bool number = json_is_number(value) || json_is_null(value);
        if (!number || strcmp(key, "step") == 0 || strcmp(key, "seconds") == 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", group_of_kind(kind), key);
        status = add_value(r, name, step, seconds,
                           json_is_null(value) ? NAN : json_number_value(value));
        if (status)
            return status;
    }
    return status;
}

static qkv_status read_line(qkv_run_log *r, const char *path, const char *line, size_t len)
{
    const char *kind = "";
    double step = 0, seconds = 0;
    bool best = false;
    qkv__json j;
    qkv_status status = qkv__json_parse(&j, r->ctx, path, line, len);
    if (!status)
        status = qkv__json_get_string(&j, "kind", &kind);
    if (!status)
        status = qkv__json_get_real(&j, "step", 0, 1e300, &step);
    if (!status)
        status = qkv__json_get_real(&j, "seconds", 0, 1e300, &seconds);
    if (!status)
        status = qkv__json_opt_bool(&j, "best", &best);
    if (!status)
        status = strcmp(kind, "sample") == 0 ? run_log_add_sample(r, &j, step, seconds)
                                             : read_numbers(r, &j, kind, step, seconds);
    r->steps = step > r->steps ? step : r->steps;
    r->seconds = seconds > r->seconds ? seconds : r->seconds;
    r->best = best ? step : r->best;
    qkv__json_free(&j);
    return status;
}

static qkv_status read_log(qkv_run_log *r)
{
    const qkv_path path = qkv_path_in(r->dir, "train/metrics.jsonl");
    char *text = NULL, where[sizeof path.text + 32];
    size_t size = 0, number = 1;
    qkv_status status = qkv_file_read(r->ctx, path.text, 0, &text, &size);
    for (size_t at = 0; at < size && !status; number++) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end)
            break; /* the run was killed while it wrote, or writes */
        size_t len = (size_t)(end - text) - at;
        snprintf(where, sizeof where, "%s: line %zu", path.text, number);
        status = len < MOST_LINE ? read_line(r, where, text + at, len)
                                 : qkv_fail(r->ctx, QKV_E_FORMAT, "%s: too long", where);
        at += len + 1;
    }
    qkv_free(r->ctx, text);
    return status;
}

/* ---- settings ----------------------------------------------------------------------------- */

/* A JSON scalar in words; false for others. */
static bool scalar_text(const json_t *value, char *text, size_t size)
{
    if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        snprintf(text, size, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        snprintf(text, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, size, "%g", json_real_value(value));
    else
        return false;
    return true;
}

static qkv_status add_scalars(qkv_run_log *r, json_t *object, bool about)
{
    const char *key;
    json_t *value;
    qkv_status status = QKV_OK;
    json_object_foreach(object, key, value) {
        char text[NAME];
        if (status || !scalar_text(value, text, sizeof text))
            continue;
        if (about)
            status = add_setting(r, &r->about, &r->about_count, &r->about_room, key, text);
        else if (!qkv_run_log_setting_of(r, key))
            status = add_setting(r, &r->settings, &r->setting_count, &r->setting_room, key, text);
    }
    return status;
}

static qkv_status run_log_read_settings(qkv_run_log *r)
{
    const qkv_path about = qkv_path_in(r->dir, "train/run.json");
    const qkv_path adapted = qkv_path_in(r->dir, "qkv_config.json"); /* of an adapter */
    const qkv_path config = qkv_file_exists(adapted.text) ? adapted
                                                          : qkv_path_in(r->dir, "config.json");
    qkv_status status = QKV_OK;
    qkv__json j;
    if (qkv_file_exists(about.text)) {
        status = qkv__json_load(&j, r->ctx, about.text);
        if (!status)
            status = add_scalars(r, j.value, true);
        if (!status)
            status = add_scalars(r, json_object_get(j.value, "machine"), true);
        if (!status)
            status = add_scalars(r, json_object_get(j.value, "settings"), false);
        qkv__json_free(&j);
    }
    if (!status && qkv_file_exists(config.text)) {
        status = qkv__json_load(&j, r->ctx, config.text);
        if (!status)
            status = add_scalars(r, j.value, false);
        qkv__json_free(&j);
    }
    return status;
}

/* ---- opening and asking --------------------------------------------------------------------- */

qkv_status qkv_run_log_open(qkv_run_log **out, qkv_context *ctx, const char *dir)
{
    *out = NULL;
    qkv_run_log *r = qkv_calloc(ctx, 1, sizeof *r);
    if (!r)
        return QKV_E_MEMORY;
    *r = (qkv_run_log){.ctx = ctx, .best = -1, .dir = qkv_strdup(ctx, dir)};
    qkv_status status = r->dir ? read_log(r) : QKV_E_MEMORY;
    if (!status)
        status = run_log_read_settings(r);
    if (status) {
        qkv_run_log_close(r);
        return status;
    }
    for (size_t i = 0; i < r->count; i++) {
        series *x = &r->series[i];
        x->s.name = x->name;
        x->s.steps = x->numbers;
        x->s.seconds = x->numbers + x->room;
        x->s.values = x->numbers + 2 * x->room;
    }
    *out = r;
    return QKV_OK;
}

static void free_settings(qkv_context *ctx, setting *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qkv_free(ctx, list[i].name);
        qkv_free(ctx, list[i].value);
    }
    qkv_free(ctx, list);
}

void qkv_run_log_close(qkv_run_log *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++) {
        qkv_free(r->ctx, r->series[i].name);
        qkv_free(r->ctx, r->series[i].numbers);
    }
    for (size_t i = 0; i < r->sample_count; i++) {
        qkv_free(r->ctx, r->samples[i].name);
        qkv_free(r->ctx, r->samples[i].text);
        qkv_free(r->ctx, r->samples[i].file);
    }
    free_settings(r->ctx, r->settings, r->setting_count);
    free_settings(r->ctx, r->about, r->about_count);
    qkv_free(r->ctx, r->samples);
    qkv_free(r->ctx, r->series);
    qkv_free(r->ctx, r->dir);
    qkv_free(r->ctx, r);
}

const char *qkv_run_log_directory(const qkv_run_log *r) { return r->dir; }

static const char *value_of(const setting *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].value;
    return NULL;
}

const char *qkv_run_log_about(const qkv_run_log *r, const char *name)
{
    return value_of(r->about, r->about_count, name);
}

size_t qkv_run_log_count(const qkv_run_log *r) { return r->count; }

const qkv_run_series *qkv_run_log_at(const qkv_run_log *r, size_t i)
{
    return i < r->count ? &r->series[i].s : NULL;
}

const qkv_run_series *qkv_run_log_find(const qkv_run_log *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->series[i].name, name) == 0)
            return &r->series[i].s;
    return NULL;
}

const qkv_run_sample *qkv_run_log_sample(const qkv_run_log *r, size_t i)
{
    return i < r->sample_count ? &r->samples[i].s : NULL;
}

bool qkv_run_log_setting(const qkv_run_log *r, size_t i, const char **name, const char **value)
{
    if (i >= r->setting_count)
        return false;
    *name = r->settings[i].name;
    *value = r->settings[i].value;
    return true;
}

const char *qkv_run_log_setting_of(const qkv_run_log *r, const char *name)
{
    return value_of(r->settings, r->setting_count, name);
}

double qkv_run_log_steps(const qkv_run_log *r) { return r->steps; }
double qkv_run_log_seconds(const qkv_run_log *r) { return r->seconds; }
double qkv_run_log_best(const qkv_run_log *r) { return r->best; }

double qkv_run_series_at(const qkv_run_series *s, double step)
{
    for (size_t i = s->count; i-- > 0;)
        if (s->steps[i] == step)
            return s->values[i];
    return NAN;
}
