/* state.c - checkpoints: train/state.safetensors holds weights, optimiser, averages, and in its
 * metadata the place of the run. One file, replaced atomically, so that a run killed at any
 * moment finds one whole state. */
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "qkv/safetensors.h"
#include "tensor/make.h"
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
    void *mapped; /* its numbers for the host, or NULL: those of this rank */
    bool cut;     /* each rank has some of them */
    size_t param; /* of qkv_params_at, if so */
    size_t index; /* of the list */
    qkv__loop *l;
    qkv_real *whole; /* all numbers of a cut one, while it is written: room for the largest */
} entry;

static size_t entry_count(const qkv__loop *l)
{
    return qkv_params_count(l->params) + qkv_optimizer_state_count(l->optimizer) +
           (l->average ? qkv_average_state_count(l->average) : 0);
}

/* False: the values of a fixed parameter, and what follows them, which no state keeps. */
static bool entry_at(const qkv__loop *l, size_t i, entry *e)
{
    size_t weights = qkv_params_count(l->params), opt = qkv_optimizer_state_count(l->optimizer);
    const char *owner = "weight";
    e->index = i;
    if (i < weights) {
        qkv_param *p = qkv_params_at(l->params, i);
        if (qkv__param_fixed(p))
            return false;
        e->s = (qkv_state){.param = qkv_param_name(p), .what = "value", .dtype = QKV_REAL,
                           .ndim = qkv_param_ndim(p), .data = qkv_param_data(p),
                           .held = qkv_param_count(p)};
        for (int d = 0; d < e->s.ndim; d++)
            e->s.shape[d] = qkv_param_dim(p, d);
    } else if (i < weights + opt) {
        owner = "optimizer";
        e->s = qkv_optimizer_state(l->optimizer, i - weights);
    } else {
        owner = "average";
        e->s = qkv_average_state(l->average, i - weights - opt);
    }
    const qkv_param *p = e->s.param && i >= weights ? qkv_params_find(l->params, e->s.param) : NULL;
    if (p && qkv__param_fixed(p))
        return false;
    e->param = p ? qkv__param_index(p) : 0;
    e->cut = p && qkv__ranks_cuts(l->ranks, e->param) && qkv_dist_size(l->ctx) > 1;
    snprintf(e->name, sizeof e->name, "%s.%s%s%s", owner, e->s.what, e->s.param ? "." : "",
             e->s.param ? e->s.param : "");
    return true;
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
    if (l->owed)
        qkv_json_put_bool(w, "evaluation_owed", true);
    qkv_json_put_string(w, "products", qkv_machine_products(l->ctx));
    qkv_json_put_int(w, "shards", (int64_t)l->o.shards);
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
    if (!status)
        status = qkv__json_opt_bool(&j, "evaluation_owed", &l->owed);
    if (!l->o.steps) /* what a time budget allowed */
        l->eval_units = (size_t)eval_units;
    qkv__json_free(&j);
    return status;
}

/* A finished run is saved before its last evaluation. If that was cut short, it is still to do. */
static qkv_status check_end(qkv__loop *l)
{
    bool ended = true;
    qkv_status status = l->finished && l->dir ? qkv__log_ended(l, &ended) : QKV_OK;
    status = qkv__dist_agree(l->ctx, status);
    if (!status)
        status = qkv__follow_flag(l, &ended);
    l->finished = l->finished && ended;
    return status;
}

/* What a run that goes on is to keep, or a note tells of. */
static qkv_status get_settings(qkv__loop *l, const char *path, const char *text)
{
    qkv__json j;
    if (l->finished)
        return QKV_OK;
    qkv_status status = qkv__json_parse(&j, l->ctx, path, text, strlen(text));
    if (status)
        return status;
    status = get_products(l, &j);
    if (!status)
        status = qkv__settings_compare(l, &j);
    qkv__json_free(&j);
    return status;
}

/* ---- between ranks -------------------------------------------------------------------------- */

static size_t largest(const qkv__loop *l)
{
    size_t most = 1;
    for (size_t i = 0; i < qkv_params_count(l->params); i++)
        if (qkv_param_count(qkv_params_at(l->params, i)) > most)
            most = qkv_param_count(qkv_params_at(l->params, i));
    return most;
}

/* Rank 0 asks for an entry, or says that it needs no more. */
static const size_t NO_MORE = SIZE_MAX;
static qkv_status ask_for(qkv__loop *l, size_t index)
{
    return qkv__dist_broadcast(l->ctx, &index, sizeof index);
}

/* Rank 0: the numbers of a cut entry, from all ranks. */
static qkv_status collect_entry(const entry *e)
{
    qkv_context *ctx = e->l->ctx;
    qkv_status status = ask_for(e->l, e->index);
    memcpy(e->whole + e->s.first, e->mapped, e->s.held * sizeof *e->whole);
    for (int r = 1; r < qkv_dist_size(ctx) && !status; r++) {
        qkv__request request;
        qkv__own own = qkv__ranks_own_of(e->l->ranks, e->param, r);
        if (!own.count)
            continue;
        status = qkv__dist_receive(ctx, e->whole + own.from, own.count * sizeof *e->whole, r,
                                   QKV__DIST_STATE, &request);
        status = status ? status : qkv__dist_wait(ctx, &request);
    }
    return status;
}

/* A fill function of safetensors; its user is an entry. */
static qkv_status fill_cut(void *user, size_t begin, size_t count, qkv_real *out)
{
    const entry *e = user;
    qkv_status status = begin ? QKV_OK : collect_entry(e);
    if (!status)
        memcpy(out, e->whole + begin, count * sizeof *out);
    return status;
}

/* The other ranks: what they have of the entries that rank 0 asks for. */
static qkv_status hand_in(qkv__loop *l)
{
    size_t i;
    qkv_status status;
    while (!(status = qkv__dist_broadcast(l->ctx, &i, sizeof i)) && i != NO_MORE) {
        entry e;
        qkv__request request;
        if (!entry_at(l, i, &e) || !e.s.held)
            continue;
        e.mapped = qkv_state_map(&e.s);
        status = e.mapped ? qkv__dist_send(l->ctx, e.mapped, e.s.held * sizeof(qkv_real), 0,
                                           QKV__DIST_STATE, &request)
                          : QKV_E_MEMORY;
        status = status ? status : qkv__dist_wait(l->ctx, &request);
        qkv_state_unmap(&e.s, e.mapped, false);
        if (status)
            break;
    }
    return status;
}

/* ---- saving and loading ------------------------------------------------------------------- */

static qkv_status write_state(qkv__loop *l)
{
    size_t all = entry_count(l), n = 0;
    entry *list = qkv_calloc(l->ctx, all, sizeof *list);
    qkv_safetensors_entry *out = list ? qkv_calloc(l->ctx, all, sizeof *out) : NULL;
    char *path = out ? state_path(l) : NULL;
    qkv_real *whole = path && l->ranks ? qkv_malloc(l->ctx, largest(l) * sizeof *whole) : NULL;
    qkv_json_writer place;
    qkv_json_writer_init(&place, l->ctx, 0);
    put_place(l, &place);
    const char *text = qkv_json_writer_text(&place);
    qkv_status status = path && text && (whole || !l->ranks) ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < all && !status; i++) {
        entry *e = &list[n];
        if (!entry_at(l, i, e))
            continue;
        e->l = l;
        e->whole = whole;
        const qkv_state *s = &e->s;
        bool real = s->dtype == QKV_REAL;
        e->mapped = qkv_state_map(s);
        status = e->mapped ? QKV_OK : QKV_E_MEMORY;
        out[n++] = (qkv_safetensors_entry){.name = e->name, .ndim = s->ndim, .shape = s->shape,
                                           .store = real ? QKV_STORE_F32 : QKV_STORE_I32,
                                           .data = real && !e->cut ? e->mapped : NULL,
                                           .raw = real ? NULL : e->mapped,
                                           .fill = e->cut ? fill_cut : NULL,
                                           .user = e};
    }
    const char *metadata[] = {"qkv", text, NULL};
    qkv_safetensors_options o = {.metadata = metadata};
    if (!status)
        status = qkv_safetensors_save(l->ctx, path, out, n, &o);
    for (size_t i = 0; i < n && list; i++)
        qkv_state_unmap(&list[i].s, list[i].mapped, false);
    qkv_json_writer_free(&place);
    qkv_free(l->ctx, whole);
    qkv_free(l->ctx, path);
    qkv_free(l->ctx, out);
    qkv_free(l->ctx, list);
    return status;
}

qkv_status qkv__state_save(qkv__loop *l)
{
    if (!l->keeps)
        return QKV_OK;
    double begun = qkv_now();
    qkv_status status = qkv__check_finite(l);
    if (!status && qkv__leads(l)) {
        qkv_status written = write_state(l);
        status = ask_for(l, NO_MORE);
        status = written ? written : status;
    } else if (!status) {
        status = hand_in(l);
    }
    status = qkv__dist_agree(l->ctx, status);
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

/* Rank 0's text for all, to be freed. */
static qkv_status share_text(qkv__loop *l, const char *text, char **out)
{
    size_t size = text ? strlen(text) + 1 : 0;
    qkv_status status = qkv__dist_broadcast(l->ctx, &size, sizeof size);
    *out = status ? NULL : qkv_malloc(l->ctx, size);
    if (*out && text)
        memcpy(*out, text, size);
    if (!status)
        status = *out ? qkv__dist_broadcast(l->ctx, *out, size) : QKV_E_MEMORY;
    return status;
}

/* An entry's numbers, read by rank 0, of which each rank takes its own. room: for all of any
 * entry; NULL: there is one rank. */
static qkv_status load_entry(qkv__loop *l, const char *path, const qkv_safetensors *file,
                             const entry *e, void *room)
{
    size_t each = e->s.dtype == QKV_REAL ? sizeof(qkv_real) : sizeof(int32_t), count = 1;
    if (!room)
        return read_entry(l->ctx, path, file, e, e->mapped);
    for (int d = 0; d < e->s.ndim; d++)
        count *= e->s.shape[d];
    qkv_status status = file ? read_entry(l->ctx, path, file, e, room) : QKV_OK;
    if (!status)
        status = qkv__dist_broadcast(l->ctx, room, count * each);
    if (!status)
        memcpy(e->mapped, (char *)room + e->s.first * each, e->s.held * each);
    return status;
}

static qkv_status load_entries(qkv__loop *l, const char *path, const qkv_safetensors *file)
{
    bool several = qkv_dist_size(l->ctx) > 1;
    size_t n = entry_count(l), most = largest(l);
    most = most > qkv_params_count(l->params) ? most : qkv_params_count(l->params);
    void *room = several ? qkv_malloc(l->ctx, most * sizeof(qkv_real)) : NULL;
    qkv_status status = several && !room ? QKV_E_MEMORY : QKV_OK;
    for (size_t i = 0; i < n && !status; i++) {
        entry e;
        if (!entry_at(l, i, &e))
            continue;
        e.mapped = qkv_state_map(&e.s);
        status = e.mapped ? load_entry(l, path, file, &e, room) : QKV_E_MEMORY;
        qkv_state_unmap(&e.s, e.mapped, true);
    }
    for (size_t i = 0; i < qkv_params_count(l->params); i++)
        qkv_param_touch(qkv_params_at(l->params, i));
    qkv_free(l->ctx, room);
    return status;
}

/* Rank 0: opens the checkpoint. *text lives as long as the file. */
static qkv_status open_state(const qkv__loop *l, const char *path, qkv_safetensors **file,
                             const char **text)
{
    qkv_status status = path ? qkv_safetensors_open(file, l->ctx, path) : QKV_E_MEMORY;
    *text = *file ? qkv_safetensors_metadata(*file, "qkv") : NULL;
    if (!status && !*text)
        status = qkv_fail(l->ctx, QKV_E_FORMAT, "%s: no metadata \"qkv\": not a training state",
                          path);
    return status;
}

qkv_status qkv__state_shards(const qkv__loop *l, size_t *shards)
{
    char *path = state_path(l);
    qkv_safetensors *file = NULL;
    const char *text;
    qkv__json j;
    int64_t saved = 1;
    qkv_status status = open_state(l, path, &file, &text);
    if (!status && !(status = qkv__json_parse(&j, l->ctx, path, text, strlen(text)))) {
        status = qkv__json_opt_int(&j, "shards", 1, INT32_MAX, &saved);
        qkv__json_free(&j);
    }
    *shards = (size_t)saved;
    qkv_safetensors_close(file);
    qkv_free(l->ctx, path);
    return status;
}

qkv_status qkv__state_load(qkv__loop *l)
{
    char *path = l->dir ? state_path(l) : NULL, *place = NULL;
    const char *text = NULL, *named = path ? path : "the checkpoint";
    qkv_safetensors *file = NULL;
    qkv_status status = qkv__leads(l) ? open_state(l, path, &file, &text) : QKV_OK;
    status = qkv__dist_agree(l->ctx, status);
    if (!status)
        status = share_text(l, text, &place);
    if (!status)
        status = qkv__dist_agree(l->ctx, get_place(l, named, place));
    if (!status)
        status = check_end(l);
    if (!status)
        status = qkv__dist_agree(l->ctx, get_settings(l, named, place));
    if (!status)
        status = load_entries(l, path, file);
    qkv_safetensors_close(file);
    qkv_free(l->ctx, place);
    qkv_free(l->ctx, path);
    return status;
}
