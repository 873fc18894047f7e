/* job.c - the settings of a training job, by name, from JSON and from arguments; its running. */
#include "job/run.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"

struct qkv_job {
    qkv_context *ctx;
    const char *name; /* of the kind */
    const qkv__job_kind *kind; /* the variant */
    qkv__run *run;             /* of kind->size bytes */
    qkv_names set;            /* name, value, name, value .. as they came, for another variant */
    double began;
    bool parsed, ran;
};

const char *qkv_job_kind(size_t i)
{
    for (size_t k = 0; qkv__job_kinds[k]; k++)
        if (k == i)
            return qkv__job_kinds[k]->name;
    return NULL;
}

/* The first variant of the kind of that name; NULL: there is none. */
static const qkv__job_kind *job_find(const char *name)
{
    for (size_t i = 0; qkv__job_kinds[i]; i++)
        if (strcmp(qkv__job_kinds[i]->name, name) == 0)
            return qkv__job_kinds[i];
    return NULL;
}

/* ---- what settings there are ----------------------------------------------------------------- */

/* The i-th, the type's in front of those of every run; table NULL past the last. */
static qkv__job_table job_table_at(const qkv__job_kind *kind, size_t i)
{
    size_t own = 0;
    while (kind->config && kind->tables[own].table != &qkv__run_table)
        own++;
    if (kind->config && i == own)
        return (qkv__job_table){qkv_model_type_config(kind->type()), kind->config};
    return kind->tables[kind->config && i > own ? i - 1 : i];
}

static bool has_table(const qkv__job_kind *kind, const qkv_option_table *table)
{
    const qkv_option_table *own;
    for (size_t i = 0; (own = job_table_at(kind, i).table); i++)
        if (own == table)
            return true;
    return false;
}

/* *about: what the table's settings are for; NULL: always. */
static const qkv_option_table *job_find_table(const char *name, size_t i, const char **about)
{
    const qkv__job_kind *first = job_find(name), *other;
    const qkv_option_table *table;
    for (const qkv__job_kind *kind = first; kind; kind = kind->other)
        for (size_t k = 0; (table = job_table_at(kind, k).table); k++) {
            bool seen = false, everywhere = true;
            for (other = first; other != kind; other = other->other)
                seen = seen || has_table(other, table);
            for (other = first; other; other = other->other)
                everywhere = everywhere && has_table(other, table);
            if (seen || i-- > 0)
                continue;
            *about = everywhere ? NULL : kind->about;
            return table;
        }
    return NULL;
}

const qkv_option_table *qkv_job_table(const char *name, size_t i)
{
    const char *about;
    return job_find_table(name, i, &about);
}

const char *qkv_job_table_about(const char *name, size_t i)
{
    const char *about = NULL;
    (void)job_find_table(name, i, &about);
    return about;
}

const qkv_model_type *qkv_job_model_type(const char *name, size_t i)
{
    for (const qkv__job_kind *kind = job_find(name); kind; kind = kind->other)
        for (size_t k = 0; kind->sizes[k]; k++)
            if (i-- == 0)
                return kind->sizes[k]();
    return NULL;
}

const qkv_preset *qkv_job_presets(const char *name)
{
    const qkv__job_kind *kind = job_find(name);
    return kind ? kind->presets : NULL;
}

const qkv_preset *const *qkv_job_recipes(const char *name)
{
    const qkv__job_kind *kind = job_find(name);
    return kind ? kind->recipes : NULL;
}

/* ---- setting them ------------------------------------------------------------------------ */

static void drop_run(qkv_job *j)
{
    if (j->run)
        qkv_options_destroy(j->run->options);
    qkv_free(j->ctx, j->run);
    j->run = NULL;
}

/* A run of that variant with its defaults. */
static qkv_status begin_run(qkv_job *j, const qkv__job_kind *kind)
{
    drop_run(j);
    qkv__run *r = j->run = qkv_calloc(j->ctx, 1, kind->size);
    j->kind = kind;
    if (!r)
        return QKV_E_MEMORY;
    r->ctx = j->ctx;
    r->began = j->began;
    qkv_status status = qkv_options_create(&r->options, j->ctx);
    qkv__job_table t;
    for (size_t i = 0; (t = job_table_at(kind, i)).table && !status; i++) {
        void *target = (char *)r + t.offset;
        status = qkv_options_bind(r->options, t.table, target);
        if (!status)
            qkv_preset_apply(kind->presets, t.table, target);
    }
    return status;
}

/* Is the setting one of those that decide? */
static bool job_decides(const qkv__job_kind *kind, const char *name)
{
    for (size_t i = 0; kind->decides && kind->decides[i]; i++)
        if (strcmp(kind->decides[i], name) == 0)
            return true;
    return false;
}

/* What was set last for each that decides. */
static void job_deciders(const qkv_job *j, const char *values[QKV__DECIDERS])
{
    const char *const *decides = j->kind->decides;
    for (size_t k = 0; decides && decides[k]; k++) {
        values[k] = "";
        for (size_t i = 0; i < j->set.count; i += 2)
            if (strcmp(j->set.names[i], decides[k]) == 0)
                values[k] = j->set.names[i + 1];
    }
}

/* The variant that the values of the deciding settings ask for, with what was set so far. */
static qkv_status job_choose(qkv_job *j, const char *const *values)
{
    const qkv__job_kind *kind = job_find(j->kind->name);
    for (size_t n = kind->variant(values); n && kind->other; n--)
        kind = kind->other;
    if (kind == j->kind)
        return QKV_OK;
    if (j->parsed)
        return qkv_fail(j->ctx, QKV_E_ARGUMENT, "%s: it decides which settings there are and "
                         "cannot be set after them", j->kind->decides[0]);
    qkv_status status = begin_run(j, kind);
    for (size_t i = 0; i < j->set.count && !status; i += 2)
        status = qkv_options_set(j->run->options, j->set.names[i], j->set.names[i + 1]);
    return status;
}

qkv_status qkv_job_create(qkv_job **out, qkv_context *ctx, const char *kind)
{
    const qkv__job_kind *first = job_find(kind);
    *out = NULL;
    if (!first)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "\"%s\" is no kind of job", kind);
    qkv_job *j = qkv_calloc(ctx, 1, sizeof *j);
    if (!j)
        return QKV_E_MEMORY;
    *j = (qkv_job){.ctx = ctx, .set.ctx = ctx, .began = qkv_now()};
    qkv_status status = begin_run(j, first);
    if (status)
        qkv_job_destroy(j);
    else
        *out = j;
    return status;
}

void qkv_job_destroy(qkv_job *j)
{
    if (!j)
        return;
    drop_run(j);
    qkv_names_free(&j->set);
    qkv_free(j->ctx, j);
}

qkv_status qkv_job_set(qkv_job *j, const char *name, const char *value)
{
    const char *values[QKV__DECIDERS];
    qkv_status status = QKV_OK;
    job_deciders(j, values);
    for (size_t i = 0; j->kind->decides && j->kind->decides[i]; i++)
        if (strcmp(name, j->kind->decides[i]) == 0)
            values[i] = value;
    if (job_decides(j->kind, name))
        status = job_choose(j, values);
    if (!status)
        status = qkv_options_set(j->run->options, name, value);
    if (!status)
        status = qkv__names_add(&j->set, name);
    return status ? status : qkv__names_add(&j->set, value);
}

/* One value of JSON that is no list; null is passed over. */
static qkv_status set_value(qkv_job *j, const qkv__json *at, const char *name, json_t *value)
{
    char number[32];
    if (json_is_null(value))
        return QKV_OK;
    if (json_is_string(value))
        return qkv_job_set(j, name, json_string_value(value));
    if (json_is_boolean(value))
        return qkv_job_set(j, name, json_is_true(value) ? "true" : "false");
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
    else
        return qkv__json_fail(at, name, "a text, a number, true or false expected");
    return qkv_job_set(j, name, number);
}

/* Settings come in any order: the variant is chosen before them. */
static qkv_status choose_of_json(qkv_job *j, const json_t *settings)
{
    const char *values[QKV__DECIDERS];
    job_deciders(j, values);
    for (size_t i = 0; j->kind->decides[i]; i++) {
        const json_t *value = json_object_get(settings, j->kind->decides[i]);
        if (json_is_string(value))
            values[i] = json_string_value(value);
    }
    return job_choose(j, values);
}

qkv_status qkv_job_set_json(qkv_job *j, const char *json, size_t size)
{
    qkv__json at;
    const char *name;
    json_t *value, *item;
    size_t i;
    qkv_status status = qkv__json_parse(&at, j->ctx, "settings", json, size);
    if (status)
        return status;
    if (!json_is_object(at.value))
        status = qkv__json_fail(&at, NULL, "an object of settings expected");
    else if (j->kind->decides)
        status = choose_of_json(j, at.value);
    for (void *k = json_object_iter(at.value); k && !status;
         k = json_object_iter_next(at.value, k)) {
        name = json_object_iter_key(k);
        value = json_object_iter_value(k);
        if (!json_is_array(value)) {
            status = set_value(j, &at, name, value);
            continue;
        }
        json_array_foreach(value, i, item)
            status = status ? status : set_value(j, &at, name, item);
    }
    qkv__json_free(&at);
    return status;
}

/* The value of --name among arguments; "" where it is not. */
static const char *job_among(int argc, char *const *argv, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, length) != 0)
            continue;
        const char *end = argv[i] + 2 + length;
        if (*end == '=')
            return end + 1;
        if (!*end && i + 1 < argc)
            return argv[i + 1];
    }
    return "";
}

qkv_status qkv_job_parse(qkv_job *j, int argc, char *const *argv, const qkv_option_table *also,
                         void *target)
{
    const char *values[QKV__DECIDERS];
    bool given = false;
    job_deciders(j, values);
    for (size_t i = 0; j->kind->decides && j->kind->decides[i]; i++) {
        const char *value = job_among(argc, argv, j->kind->decides[i]);
        values[i] = *value ? value : values[i];
        given = given || *value;
    }
    qkv_status status = given ? job_choose(j, values) : QKV_OK;
    if (!status && also)
        status = qkv_options_bind(j->run->options, also, target);
    if (!status && also)
        qkv_preset_apply(j->kind->presets, also, target);
    j->parsed = true;
    return status ? status : qkv_options_parse(j->run->options, argc, argv, NULL);
}

bool qkv_job_given(const qkv_job *j, const char *name)
{
    return qkv_options_given(j->run->options, name);
}

const char *qkv_job_directory(const qkv_job *j) { return j->run->o.out; }

/* ---- running ------------------------------------------------------------------------------- */

qkv_status qkv_job_check(qkv_job *j)
{
    return qkv__run_check(j->run, j->kind);
}

void qkv_job_watch(qkv_job *j, qkv_train_watch_fn *watch, void *user)
{
    j->run->t.loop.watch = watch;
    j->run->t.loop.watch_user = user;
}

qkv_status qkv_job_run(qkv_job *j, qkv_train_fn *event, void *user, qkv_train_result *result)
{
    qkv_train_result own;
    if (j->ran)
        return qkv_fail(j->ctx, QKV_E_ARGUMENT, "the job has run: make another one");
    qkv_status status = qkv_job_check(j);
    if (status)
        return status;
    j->ran = true;
    j->run->event = event;
    j->run->user = user;
    return qkv__run_all(j->run, j->kind, result ? result : &own);
}
