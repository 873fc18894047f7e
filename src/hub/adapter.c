/* adapter.c - directories of low-rank adapters, in PEFT's layout. */
#include "hub/adapter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hub/adapter_config.h"
#include "io/file.h"
#include "model/adapter.h"

#define WEIGHTS QKV__ADAPTER_WEIGHTS
#define SETTINGS "qkv_config.json"
static const char under[] = QKV__ADAPTER_PREFIX;
enum { NAME = 384 };

bool qkv__hub_is_adapter(const char *dir)
{
    return qkv_file_exists(qkv_path_in(dir, QKV__ADAPTER_CONFIG).text);
}

/* ---- the model beneath ---------------------------------------------------------------------- */

/* Is it a whole model that has an adapter in its directory? */
static bool has_whole_model(const char *dir)
{
    return qkv_file_exists(qkv_path_in(dir, "config.json").text);
}

/* The path from the root on. */
static qkv_status absolute(char **out, qkv_context *ctx, const char *dir)
{
    char *path = realpath(dir, NULL);
    *out = path ? qkv_strdup(ctx, path) : NULL;
    if (!path)
        return qkv_fail(ctx, QKV_E_IO, "%s: %s", dir, strerror(errno));
    free(path);
    return *out ? QKV_OK : QKV_E_MEMORY;
}

qkv_status qkv_hub_base(char **out, qkv_context *ctx, const char *dir)
{
    const qkv_path file = qkv_path_in(dir, QKV__ADAPTER_CONFIG);
    qkv__adapter_config a;
    *out = NULL;
    if (!qkv__hub_is_adapter(dir))
        return QKV_OK;
    qkv_status status = qkv__adapter_config_read(&a, ctx, file.text);
    if (!status && has_whole_model(dir)) {
        status = absolute(out, ctx, dir);
    } else if (!status && a.base) {
        const qkv_path inside = qkv_path_in(dir, a.base);
        const bool rooted = a.base[0] == '/' || has_whole_model(a.base);
        const bool within = !rooted && has_whole_model(inside.text);
        const char *at = rooted || (!within && qkv_dir_exists(a.base)) ? a.base : inside.text;
        if (!qkv_dir_exists(at))
            status = qkv__json_fail(&a.j, "base_model_name_or_path", "a model directory of this "
                                    "machine expected, found \"%s\": --adapter puts an adapter on "
                                    "a model elsewhere", a.base);
        else if (qkv__hub_is_adapter(at) && !has_whole_model(at))
            status = qkv__json_fail(&a.j, "base_model_name_or_path", "%s is an adapter itself; "
                                    "`qkv convert --merge` makes a model of it", at);
        else
            status = absolute(out, ctx, at);
    } else if (!status) {
        status = qkv__json_fail(&a.j, "base_model_name_or_path", "a model directory expected, "
                                "found none");
    }
    qkv__adapter_config_free(&a);
    return status;
}

const char *qkv__hub_settings_name(const qkv_model *m)
{
    return qkv_model_adapter_count(m) ? SETTINGS : "config.json";
}

bool qkv__hub_takes_settings(const char *dir)
{
    return qkv__hub_is_adapter(dir) && !qkv_file_exists(qkv_path_in(dir, SETTINGS).text);
}

qkv_status qkv__hub_settings(char **out, qkv_context *ctx, const char *dir)
{
    const qkv_path own = qkv_path_in(dir, SETTINGS);
    char *base = NULL;
    bool adapts = qkv__hub_is_adapter(dir), has = adapts && !qkv__hub_takes_settings(dir);
    qkv_status status = adapts && !has ? qkv_hub_base(&base, ctx, dir) : QKV_OK;
    if (!status)
        *out = has ? qkv_strdup(ctx, own.text) : qkv_path_join(ctx, base ? base : dir,
                                                               "config.json");
    qkv_free(ctx, base);
    return status || *out ? status : QKV_E_MEMORY;
}

qkv_status qkv__hub_count_all(size_t *out, qkv_context *ctx, const char *dir)
{
    char *base = NULL;
    size_t own = 0;
    const qkv_path file = qkv_path_in(dir, WEIGHTS);
    qkv_status status = qkv_hub_base(&base, ctx, dir);
    if (status || !base)
        return status ? status : qkv__hub_count_weights(out, ctx, dir);
    status = qkv__hub_count_weights(out, ctx, base);
    if (!status)
        status = qkv__hub_count_weights(&own, ctx, file.text);
    *out += own;
    qkv_free(ctx, base);
    return status;
}

qkv_status qkv_hub_load_tokenizer(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    char *base = NULL;
    qkv_status status = qkv_tokenizer_load(out, ctx, dir);
    if (!status || status == QKV_E_MEMORY || !qkv__hub_is_adapter(dir))
        return status;
    status = qkv_hub_base(&base, ctx, dir);
    if (!status)
        status = qkv_tokenizer_load(out, ctx, base);
    qkv_free(ctx, base);
    return status;
}

qkv_status qkv_hub_load_chat_template(qkv_chat_template **out, qkv_context *ctx, const char *dir)
{
    char *base = NULL;
    qkv_status status = qkv_chat_template_open(out, ctx, dir);
    if (status != QKV_E_IO || !qkv__hub_is_adapter(dir))
        return status;
    status = qkv_hub_base(&base, ctx, dir);
    if (!status)
        status = qkv_chat_template_open(out, ctx, base);
    qkv_free(ctx, base);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct {
    qkv_adapter *a;
    qkv_context *ctx;
    const qkv_safetensors *file;
    bool *used; /* one per tensor of the file */
} reader;

/* The tensor under that name of the model's, with the type's prefix or without it. */
static const qkv_safetensor *adapter_find(const reader *r, const char *name, const char *suffix)
{
    const char *prefix = qkv_model_type_prefix(r->a->model->type);
    size_t n = strlen(prefix);
    bool has = n && strncmp(name, prefix, n) == 0;
    char full[NAME];
    snprintf(full, sizeof full, "%s%s%s", under, name, suffix);
    const qkv_safetensor *t = qkv_safetensors_find(r->file, full);
    if (!t && n) {
        snprintf(full, sizeof full, "%s%s%s%s", under, has ? "" : prefix, has ? name + n : name,
                 suffix);
        t = qkv_safetensors_find(r->file, full);
    }
    if (t)
        r->used[t - qkv_safetensors_at(r->file, 0)] = true;
    return t;
}

static qkv_status attach_row(void *user, const qkv_state_entry *row)
{
    reader *r = user;
    char module[QKV__MODULE_NAME];
    if (row->kind != QKV_STATE_PARAM || !qkv__module_of(module, row->name) || row->ndim != 2)
        return QKV_OK;
    const qkv_safetensor *a = adapter_find(r, module, ".lora_A.weight");
    if (!a)
        return QKV_OK;
    if (a->ndim != 2 || a->shape[0] < 1 || a->shape[0] > row->shape[0] + row->shape[1])
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: tensor \"%s\": expected a matrix (r, in)",
                        a->file, a->name);
    return qkv__adapter_add(r->a, row, a->shape[0]);
}

static qkv_status open_adapter(reader *r, qkv_safetensors **file, const char *dir)
{
    const qkv_path path = qkv_path_in(dir, WEIGHTS);
    if (!qkv_file_exists(path.text))
        return qkv_fail(r->ctx, QKV_E_IO, "%s is missing", path.text);
    qkv_status status = qkv_safetensors_open(file, r->ctx, path.text);
    r->file = *file;
    if (!status)
        r->used = qkv_calloc(r->ctx, qkv_safetensors_count(*file) + 1, sizeof *r->used);
    return status || r->used ? status : QKV_E_MEMORY;
}

qkv_status qkv__hub_attach_adapter(qkv_adapter **out, qkv_model *m, const char *dir)
{
    const qkv_path config = qkv_path_in(dir, QKV__ADAPTER_CONFIG);
    qkv_safetensors *file = NULL;
    qkv__adapter_config c;
    reader r = {.ctx = m->ctx};
    *out = NULL;
    qkv_status status = qkv__adapter_config_read(&c, m->ctx, config.text);
    if (!status && !(r.a = qkv__adapter_create(m, &c.c, dir, c.base)))
        status = QKV_E_MEMORY;
    qkv__adapter_config_free(&c);
    if (!status)
        status = open_adapter(&r, &file, dir);
    if (!status)
        status = qkv_model_visit(m, attach_row, &r);
    if (!status && !r.a->count)
        status = qkv_fail(m->ctx, QKV_E_FORMAT, "%s/" WEIGHTS ": no tensor is the lora_A of a "
                          "linear layer of this %s", dir, qkv_model_type_name(m->type));
    if (!status)
        status = qkv__adapters_freeze(m);
    if (!status)
        *out = r.a;
    qkv_safetensors_close(file);
    qkv_free(m->ctx, r.used);
    return status;
}

/* A whole parameter from the file's tensor of its shape. */
static qkv_status read_part(reader *r, const char *module, const char *suffix, qkv_param *p)
{
    const qkv_safetensor *t = adapter_find(r, module, suffix);
    char name[NAME];
    snprintf(name, sizeof name, "%s%s%s", under, module, suffix);
    const qkv_state_entry row = {.name = name, .param = p, .ndim = 2, .perm = {0, 1},
                                 .shape = {qkv_param_dim(p, 0), qkv_param_dim(p, 1)}};
    return qkv__hub_read_row(&row, r->ctx, r->file, t ? t->name : name);
}

static qkv_status read_module(void *user, const qkv_state_entry *row)
{
    reader *r = user;
    if (row->kind == QKV_STATE_TIED || row->kind == QKV_STATE_IGNORED ||
        !qkv__adapter_has_module(r->a, row->name))
        return QKV_OK;
    const qkv_safetensor *t = adapter_find(r, row->name, "");
    char name[NAME];
    snprintf(name, sizeof name, "%s%s", under, row->name);
    return qkv__hub_read_row(row, r->ctx, r->file, t ? t->name : name);
}

qkv_status qkv__hub_read_adapter(qkv_adapter *a, const char *dir)
{
    qkv_model *m = a->model;
    qkv_safetensors *file = NULL;
    reader r = {.a = a, .ctx = m->ctx};
    qkv_status status = open_adapter(&r, &file, dir);
    for (size_t i = 0; i < a->count && !status; i++) {
        const qkv__adapted *x = &a->list[i];
        status = read_part(&r, x->module, ".lora_A.weight", x->term->a);
        if (!status)
            status = read_part(&r, x->module, ".lora_B.weight", x->term->b);
    }
    if (!status)
        status = qkv_model_visit(m, read_module, &r);
    for (size_t i = 0; !status && i < qkv_safetensors_count(file); i++)
        if (!r.used[i])
            status = qkv_fail(m->ctx, QKV_E_FORMAT, "%s: tensor %s has no place in this %s model",
                              qkv_safetensors_at(file, i)->file,
                              qkv_safetensors_at(file, i)->name, qkv_model_type_name(m->type));
    qkv_safetensors_close(file);
    qkv_free(m->ctx, r.used);
    return status;
}

/* A row that the base lacks must be one that the adapter has whole. */
static qkv_status check_lacking(void *user, const qkv_state_entry *row)
{
    const reader *r = user;
    return qkv__adapter_has_module(r->a, row->name)
               ? QKV_OK : qkv_fail(r->ctx, QKV_E_FORMAT, "tensor %s is neither in %s nor in the "
                                   "model beneath it", row->name, r->a->name);
}

qkv_status qkv__hub_read_adapted(qkv_model *m, const char *dir, qkv_weights weights)
{
    qkv_adapter *a = qkv_model_adapter(m, 0);
    reader r = {.a = a, .ctx = m->ctx};
    char *base = NULL;
    size_t lacks = 0;
    qkv_status status = qkv_hub_base(&base, m->ctx, dir);
    if (!status)
        status = qkv__hub_visit_lacking(m, base, check_lacking, &r, &lacks);
    if (!status)
        status = qkv__hub_read_stored(m, base, weights, lacks > 0);
    if (!status)
        status = qkv__hub_read_adapter(a, dir);
    if (!status)
        status = qkv_adapter_set_base(a, base);
    qkv_free(m->ctx, base);
    return status;
}

qkv_status qkv_hub_add_adapter(qkv_adapter **out, qkv_model *m, const char *dir)
{
    *out = NULL;
    if (!qkv__hub_is_adapter(dir))
        return qkv_fail(m->ctx, QKV_E_IO, "%s: an adapter's directory expected, it has no "
                        QKV__ADAPTER_CONFIG, dir);
    qkv_status status = qkv__hub_attach_adapter(out, m, dir);
    return status ? status : qkv__hub_read_adapter(*out, dir);
}

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct {
    qkv_adapter *a;
    qkv_context *ctx;
    qkv_store store;
    qkv_safetensors_entry *entries;
    size_t (*shapes)[2];
    size_t count, room;
} writer;

static qkv_status write_entry(writer *w, const char *module, const char *suffix, const qkv_param *p,
                            const qkv_real *data, const qkv_state_entry *row)
{
    char name[NAME];
    qkv_safetensors_entry *e = &w->entries[w->count];
    size_t *shape = w->shapes[w->count];
    snprintf(name, sizeof name, "%s%s%s", under, module, suffix);
    shape[0] = row ? row->shape[0] : qkv_param_dim(p, 0);
    shape[1] = row ? row->shape[1] : qkv_param_dim(p, 1);
    *e = (qkv_safetensors_entry){.name = qkv_strdup(w->ctx, name), .ndim = row ? row->ndim : 2,
                                 .shape = shape, .store = w->store, .data = data};
    w->count += e->name != NULL;
    return e->name && data ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status check_whole_module(void *user, const qkv_state_entry *row)
{
    writer *w = user;
    bool whole = row->kind == QKV_STATE_PARAM && qkv__adapter_has_module(w->a, row->name);
    w->room += whole;
    if (whole && (row->ndim > 2 || row->perm[0] != 0))
        return qkv_fail(w->ctx, QKV_E_UNSUPPORTED, "modules: %s has another order in files: it "
                        "cannot be saved with an adapter", row->name);
    return QKV_OK;
}

static qkv_status write_module(void *user, const qkv_state_entry *row)
{
    writer *w = user;
    if (row->kind != QKV_STATE_PARAM || !qkv__adapter_has_module(w->a, row->name))
        return QKV_OK;
    const qkv_real *data = qkv_param_data(row->param);
    return write_entry(w, row->name, "", row->param, data ? data + row->offset : NULL, row);
}

static qkv_status write_tensors(qkv_adapter *a, const char *dir, qkv_store store)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    const qkv_safetensors_options o = {.metadata = metadata};
    qkv_model *m = a->model;
    writer w = {.a = a, .ctx = m->ctx, .store = store, .room = 2 * a->count};
    qkv_status status = qkv_model_visit(m, check_whole_module, &w);
    w.entries = qkv_calloc(m->ctx, w.room + 1, sizeof *w.entries);
    w.shapes = qkv_calloc(m->ctx, w.room + 1, sizeof *w.shapes);
    if (!w.entries || !w.shapes)
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < a->count && !status; i++) {
        const qkv__adapted *x = &a->list[i];
        status = write_entry(&w, x->module, ".lora_A.weight", x->term->a,
                           qkv_param_data(x->term->a), NULL);
        if (!status)
            status = write_entry(&w, x->module, ".lora_B.weight", x->term->b,
                               qkv_param_data(x->term->b), NULL);
    }
    if (!status)
        status = qkv_model_visit(m, write_module, &w);
    if (!status)
        status = qkv_safetensors_save(m->ctx, qkv_path_in(dir, WEIGHTS).text, w.entries, w.count,
                                      &o);
    for (size_t i = 0; i < w.count; i++)
        qkv_free(m->ctx, (char *)(uintptr_t)w.entries[i].name);
    qkv_free(m->ctx, w.entries);
    qkv_free(m->ctx, w.shapes);
    return status;
}

qkv_status qkv__hub_write_adapter(qkv_adapter *a, const char *dir, qkv_store store)
{
    char *base = NULL;
    bool here = a->base && qkv_dir_exists(a->base);
    qkv_status status = here ? absolute(&base, a->model->ctx, a->base) : QKV_OK;
    if (!status)
        status = write_tensors(a, dir, store);
    if (!status)
        status = qkv__adapter_config_write(a, dir, base ? base : a->base);
    qkv_free(a->model->ctx, base);
    return status;
}
