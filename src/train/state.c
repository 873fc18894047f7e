/* state.c - checkpoints: train/state.safetensors holds weights, optimiser, averages, and in its
 * metadata the place of the run. One file, replaced atomically, so that a run killed at any
 * moment finds one whole state. */
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "qkv/safetensors.h"
#include "train/loop.h"

static char *state_path(const qkv__loop *l)
{
    return qkv_path_join(l->ctx, l->dir, "train/state.safetensors");
}

bool qkv__state_exists(const qkv__loop *l)
{
    char *path = state_path(l);
    bool exists = path && qkv_file_exists(path);
    qkv_free(l->ctx, path);
    return exists;
}

/* ---- the list of arrays: weights, then optimiser, then average ---------------------------- */

enum { VERSION = 3 };

typedef struct {
    char name[320];
    qkv_state s;
    void *mapped; /* its numbers for the host, or NULL */
} entry;

static size_t entry_count(const qkv__loop *l)
{
    return qkv_params_count(l->params) + qkv_optimizer_state_count(l->optimizer) +
           (l->average ? qkv_average_state_count(l->average) : 0);
}

static void entry_at(const qkv__loop *l, size_t i, entry *e)
{
    size_t weights = qkv_params_count(l->params), opt = qkv_optimizer_state_count(l->optimizer);
    const char *owner = "weight";
    if (i < weights) {
        qkv_param *p = qkv_params_at(l->params, i);
        e->s = (qkv_state){.param = qkv_param_name(p), .what = "value", .dtype = QKV_REAL,
                           .ndim = qkv_param_ndim(p), .data = qkv_param_data(p)};
        for (int d = 0; d < e->s.ndim; d++)
            e->s.shape[d] = qkv_param_dim(p, d);
    } else if (i < weights + opt) {
        owner = "optimizer";
        e->s = qkv_optimizer_state(l->optimizer, i - weights);
    } else {
        owner = "average";
        e->s = qkv_average_state(l->average, i - weights - opt);
    }
    snprintf(e->name, sizeof e->name, "%s.%s%s%s", owner, e->s.what, e->s.param ? "." : "",
             e->s.param ? e->s.param : "");
}

/* ---- the place ---------------------------------------------------------------------------- */

static void put_place(const qkv__loop *l, qkv_json_writer *w)
{
    qkv_json_begin_object(w, NULL);
    qkv_json_put_int(w, "version", VERSION);
    qkv_json_put_string(w, "task", l->task->type->name);
    qkv_json_put_int(w, "step", (int64_t)l->step);
    qkv_json_put_real(w, "seconds", qkv__seconds(l));
    qkv_json_begin_array(w, "plans");
    for (int i = 0; i < l->plan_count; i++) {
        qkv_json_put_int(w, NULL, (int64_t)l->plans[i].at);
        qkv_json_put_int(w, NULL, (int64_t)l->plans[i].steps);
    }
    qkv_json_end_array(w);
    qkv_json_put_int(w, "eval_units", (int64_t)l->eval_units);
    qkv_json_put_real(w, "eval_time", l->eval_time);
    /* its key is that of the first versions */
    qkv_json_put_real(w, "judge_time", l->whole_eval_time);
    qkv_json_put_bool(w, "has_best", l->has_best);
    qkv_json_put_real(w, "best", l->best);
    qkv_json_put_int(w, "best_step", (int64_t)l->best_step);
    qkv_json_put_int(w, "bad_evals", (int64_t)l->bad_evals);
    qkv_json_put_real(w, "smooth_loss", l->smooth_loss);
    qkv_json_put_bool(w, "finished", l->finished);
    qkv_json_put_string(w, "products", qkv_machine_products(l->ctx));
    qkv__settings_put(l, w);
    qkv_json_end_object(w);
}

static qkv_status get_count(const qkv__json *j, const char *key, uint64_t *out)
{
    int64_t value = 0;
    qkv_status status = qkv__json_get_int(j, key, 0, INT64_MAX, &value);
    *out = (uint64_t)value;
    return status;
}

static qkv_status get_plans(qkv__loop *l, const qkv__json *j)
{
    qkv__json list, item;
    qkv_status status = qkv__json_get_array(j, "plans", &list);
    size_t n = status ? 0 : qkv__json_count(&list);
    if (!status && (n % 2 || n / 2 > QKV__PLANS))
        return qkv__json_fail(j, "plans", "at most %d pairs expected, %zu numbers found",
                              QKV__PLANS, n);
    l->plan_count = (int)(n / 2);
    for (size_t i = 0; i < n && !status; i++) {
        uint64_t *field = i % 2 ? &l->plans[i / 2].steps : &l->plans[i / 2].at;
        qkv__json_item(&list, i, &item);
        status = get_count(&item, NULL, field);
    }
    return status;
}

/* What products the run began with: it stays with them, unless somebody says otherwise. */
static qkv_status get_products(const qkv__loop *l, const qkv__json *j)
{
    const char *was = NULL;
    bool bf16 = false; /* what earlier versions saved */
    qkv_status status = qkv__json_opt_string(j, "products", &was);
    if (!status && !was && qkv__json_has(j, "bf16")) {
        status = qkv__json_get_bool(j, "bf16", &bf16);
        was = qkv__products_name(bf16 ? QKV__PRODUCTS_BF16 : QKV__PRODUCTS_F32);
    }
    if (!status && was && !qkv__context_keep_products(l->ctx, was))
        qkv__note(l->ctx, "note: products are in %s, were in %s when this run was saved",
                  qkv_machine_products(l->ctx), was);
    return status;
}

static qkv_status get_place(qkv__loop *l, const char *path, const char *text)
{
    qkv__json j;
    qkv_status status = qkv__json_parse(&j, l->ctx, path, text, strlen(text));
    if (status)
        return status;
    const char *task = NULL;
    const double inf = 1e300;
    uint64_t eval_units = 0;
    int64_t version;
    if (!(status = qkv__json_get_int(&j, "version", VERSION, VERSION, &version)) &&
        !(status = qkv__json_get_string(&j, "task", &task)) &&
        strcmp(task, l->task->type->name) != 0)
        status = qkv__json_fail(&j, "task", "%s expected, %s found", l->task->type->name, task);
    if (!status && !(status = get_count(&j, "step", &l->step)) &&
        !(status = qkv__json_get_real(&j, "seconds", 0, inf, &l->seconds)) &&
        !(status = get_plans(l, &j)) && !(status = get_count(&j, "eval_units", &eval_units)) &&
        !(status = qkv__json_get_real(&j, "eval_time", 0, inf, &l->eval_time)) &&
        !(status = qkv__json_get_real(&j, "judge_time", 0, inf, &l->whole_eval_time)) &&
        !(status = qkv__json_get_bool(&j, "has_best", &l->has_best)) &&
        !(status = qkv__json_get_real(&j, "best", -inf, inf, &l->best)) &&
        !(status = get_count(&j, "best_step", &l->best_step)) &&
        !(status = get_count(&j, "bad_evals", &l->bad_evals)) &&
        !(status = qkv__json_get_real(&j, "smooth_loss", -inf, inf, &l->smooth_loss)))
        status = qkv__json_get_bool(&j, "finished", &l->finished);
    if (!status && !l->finished)
        status = get_products(l, &j);
    if (!status && !l->finished)
        status = qkv__settings_compare(l, &j);
    if (!l->o.steps) /* what a time budget allowed */
        l->eval_units = (size_t)eval_units;
    qkv__json_free(&j);
    return status;
}

/* ---- saving and loading ------------------------------------------------------------------- */

qkv_status qkv__state_save(qkv__loop *l)
{
    if (!l->dir)
        return QKV_OK;
    double begun = qkv_now();
    qkv_status finite = qkv__check_finite(l);
    if (finite)
        return finite;
    size_t n = entry_count(l);
    entry *list = qkv_calloc(l->ctx, n, sizeof *list);
    qkv_safetensors_entry *out = list ? qkv_calloc(l->ctx, n, sizeof *out) : NULL;
    char *path = out ? state_path(l) : NULL;
    qkv_json_writer place;
    qkv_json_writer_init(&place, l->ctx, 0);
    put_place(l, &place);
    const char *text = qkv_json_writer_text(&place);
    qkv_status status = path && text ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++) {
        entry_at(l, i, &list[i]);
        const qkv_state *s = &list[i].s;
        bool real = s->dtype == QKV_REAL;
        list[i].mapped = qkv_state_map(s);
        status = list[i].mapped ? QKV_OK : QKV_E_MEMORY;
        out[i] = (qkv_safetensors_entry){.name = list[i].name, .ndim = s->ndim, .shape = s->shape,
                                         .store = real ? QKV_STORE_F32 : QKV_STORE_I32,
                                         .data = real ? list[i].mapped : NULL,
                                         .raw = real ? NULL : list[i].mapped};
    }
    const char *metadata[] = {"qkv", text, NULL};
    qkv_safetensors_options o = {.metadata = metadata};
    if (!status)
        status = qkv_safetensors_save(l->ctx, path, out, n, &o);
    for (size_t i = 0; i < n && list; i++)
        qkv_state_unmap(&list[i].s, list[i].mapped, false);
    qkv_json_writer_free(&place);
    qkv_free(l->ctx, path);
    qkv_free(l->ctx, out);
    qkv_free(l->ctx, list);
    l->last_save = qkv_now();
    l->save_time = l->last_save - begun;
    return status;
}

/* into: e's numbers. */
static qkv_status read_entry(qkv_context *ctx, const char *path, const qkv_safetensors *file,
                             const entry *e, void *into)
{
    const qkv_safetensor *t;
    qkv_status status = qkv_safetensors_get(file, e->name, e->s.ndim, e->s.shape, &t);
    if (status)
        return status;
    if (e->s.dtype == QKV_REAL)
        return qkv_safetensors_read(file, t, 0, t->count, into);
    int32_t *out = into;
    for (size_t i = 0; i < t->count && !status; i++) {
        int64_t value = 0;
        status = qkv_safetensors_read_ints(file, t, i, 1, &value);
        if (!status && (value < 0 || value > INT32_MAX))
            status = qkv_fail(ctx, QKV_E_FORMAT, "%s: %s: a count expected, %lld found", path,
                              e->name, (long long)value);
        out[i] = (int32_t)value;
    }
    return status;
}

qkv_status qkv__state_load(qkv__loop *l)
{
    char *path = state_path(l);
    qkv_safetensors *file = NULL;
    qkv_status status = path ? qkv_safetensors_open(&file, l->ctx, path) : QKV_E_MEMORY;
    const char *text = file ? qkv_safetensors_metadata(file, "qkv") : NULL;
    if (!status && !text)
        status = qkv_fail(l->ctx, QKV_E_FORMAT, "%s: no metadata \"qkv\": not a training state",
                          path);
    if (!status)
        status = get_place(l, path, text);
    size_t n = entry_count(l);
    for (size_t i = 0; i < n && !status; i++) {
        entry e;
        entry_at(l, i, &e);
        e.mapped = qkv_state_map(&e.s);
        status = e.mapped ? read_entry(l->ctx, path, file, &e, e.mapped) : QKV_E_MEMORY;
        qkv_state_unmap(&e.s, e.mapped, true);
    }
    for (size_t i = 0; i < qkv_params_count(l->params); i++)
        qkv_param_touch(qkv_params_at(l->params, i));
    qkv_safetensors_close(file);
    qkv_free(l->ctx, path);
    return status;
}
