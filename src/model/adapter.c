/* adapter.c - low-rank adapters: which matrices of a model they adapt. The arithmetic is that of
 * the linear layers (tensor/low_rank.c). */
#include "model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"

static const char all_linear[] = "all-linear";
enum { DROPOUT_IDS = 1 << 30 }; /* a model's own are below */

#define FIELD(member) .offset = offsetof(qkv_lora_config, member)
static const qkv_option rows[] = {
    {.key = "r", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(rank), .initial = "8",
     .help = "rank of what is added to a matrix"},
    {.key = "alpha", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1e6, FIELD(alpha),
     .initial = "16", .help = "what is added is multiplied by alpha / r"},
    {.key = "rslora", .type = QKV_OPT_BOOL, FIELD(rslora), .help = "by alpha / sqrt(r)"},
    {.key = "dropout", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1, FIELD(dropout),
     .initial = "0", .help = "of what goes into the adapter"},
    {.key = "targets", .type = QKV_OPT_STRING, FIELD(targets), .initial = all_linear,
     .help = "layers to adapt, as q_proj+v_proj; all-linear: all but the heads"},
    {.key = "modules", .type = QKV_OPT_STRING, FIELD(modules),
     .help = "modules to train whole, as classifier"},
    {.key = "weights", .type = QKV_OPT_ENUM, .names = qkv__weights_names, FIELD(weights),
     .initial = "auto", .help = "how frozen matrices are kept: bf16, int8, int4"},
};
static const qkv_option_table table = {"LoRA", rows, sizeof rows / sizeof *rows,
                                       sizeof(qkv_lora_config)};
const qkv_option_table *qkv_lora_table(void) { return &table; }

qkv_lora_config qkv_lora_defaults(void)
{
    qkv_lora_config c;
    qkv_option_defaults(&table, &c);
    return c;
}

qkv_status qkv_lora_parse(qkv_lora_config *config, qkv_options **owner, qkv_context *ctx,
                          const char *text)
{
    qkv_status status = qkv_options_create(owner, ctx);
    if (!status)
        status = qkv_options_bind(*owner, &table, config);
    const char *at = text;
    bool more = strcmp(text, "default") != 0;
    while (more && !status) {
        char key[QKV_OPTION_TEXT], value[QKV_OPTION_TEXT];
        size_t n = strcspn(at, ","), k = strcspn(at, ",=");
        if (n >= sizeof key || at[k] != '=')
            return qkv_fail(ctx, QKV_E_ARGUMENT, "key=value expected, as in r=8,alpha=16, found "
                            "\"%.*s\"", (int)(n < 40 ? n : 40), at);
        (void)snprintf(key, sizeof key, "%.*s", (int)k, at);
        (void)snprintf(value, sizeof value, "%.*s", (int)(n - k - 1), at + k + 1);
        if (qkv_options_given(*owner, key))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s is given twice", key);
        status = qkv_options_set(*owner, key, value);
        more = at[n] == ',';
        at += n + more;
    }
    return status;
}

/* ---- names ---------------------------------------------------------------------------------- */

bool qkv__module_of(char out[QKV__MODULE_NAME], const char *row)
{
    const char *dot = strrchr(row, '.');
    size_t n = dot ? (size_t)(dot - row) : 0;
    if (!n || n >= QKV__MODULE_NAME)
        return false;
    memcpy(out, row, n);
    out[n] = 0;
    return true;
}

/* Is name (length n) the module, or the end of it from a dot on? */
static bool names_module(const char *name, size_t n, const char *module)
{
    size_t all = strlen(module);
    return n && n <= all && memcmp(module + all - n, name, n) == 0 &&
           (n == all || module[all - n - 1] == '.');
}

bool qkv__module_listed(const char *list, const char *module)
{
    while (list && *list) {
        size_t n = strcspn(list, "+");
        if (names_module(list, n, module))
            return true;
        list += n + (list[n] == '+');
    }
    return false;
}

/* A row belongs to a module if the module's name ends where a part of the row's begins. */
bool qkv__adapter_has_module(const qkv_adapter *a, const char *row)
{
    char module[QKV__MODULE_NAME];
    if (!a->config.modules || !qkv__module_of(module, row))
        return false;
    for (char *end = module + strlen(module); end; end = strrchr(module, '.')) {
        *end = 0;
        if (qkv__module_listed(a->config.modules, module))
            return true;
    }
    return false;
}

/* ---- making --------------------------------------------------------------------------------- */

/* A text of its own; NULL for NULL. False: no memory. */
static bool set_text(const qkv_adapter *a, const char **out, const char *text)
{
    *out = qkv__layer_name(a->model->params, text);
    return *out || !text;
}

qkv_status qkv_adapter_set_base(qkv_adapter *a, const char *dir)
{
    return set_text(a, &a->base, dir) ? QKV_OK : QKV_E_MEMORY;
}

qkv_adapter *qkv__adapter_create(qkv_model *m, const qkv_lora_config *config, const char *name,
                                 const char *base)
{
    qkv_adapter *a = qkv__params_alloc(m->params, sizeof *a), **end = &m->adapters;
    char *copy = qkv__layer_name(m->params, name);
    if (!a || !copy)
        return NULL;
    *a = (qkv_adapter){.model = m, .name = copy, .config = *config, .weight = 1,
                       .number = qkv_model_adapter_count(m)};
    if (qkv_adapter_set_base(a, base) || !set_text(a, &a->config.targets, config->targets) ||
        !set_text(a, &a->config.modules, config->modules))
        return NULL;
    while (*end)
        end = &(*end)->next;
    *end = a;
    return a;
}

/* A (r, in) and B (out, r) of one matrix, as parameters "adapter.MODULE.lora_A". */
static qkv_param *make_part(const qkv_adapter *a, const char *module, const char *part,
                            size_t rows_, size_t columns)
{
    char name[QKV__MODULE_NAME + 64];
    if (a->number)
        snprintf(name, sizeof name, "adapter%zu.%s.%s", a->number, module, part);
    else
        snprintf(name, sizeof name, "adapter.%s.%s", module, part);
    const size_t shape[] = {rows_, columns};
    return qkv_param_create(a->model->params, name, 2, shape);
}

/* For one more matrix; the parameters' memory, which an outgrown list keeps. */
static bool adapter_room(qkv_adapter *a)
{
    if (a->count < a->room)
        return true;
    size_t room = a->room ? 2 * a->room : 16;
    qkv__adapted *list = qkv__params_alloc(a->model->params, room * sizeof *list);
    if (!list)
        return false;
    if (a->count)
        memcpy(list, a->list, a->count * sizeof *list);
    a->list = list;
    a->room = room;
    return true;
}

qkv_status qkv__adapter_add(qkv_adapter *a, const qkv_state_entry *row, size_t r)
{
    qkv_model *m = a->model;
    const qkv_lora_config *c = &a->config;
    char module[QKV__MODULE_NAME];
    if (row->ndim != 2 || !row->param || !qkv__param_is_linear(row->param) ||
        !qkv__module_of(module, row->name))
        return qkv_fail(m->ctx, QKV_E_ARGUMENT, "%s: %s is not the matrix of a linear layer: it "
                        "cannot be adapted", a->name, row->name);
    bool turned = row->perm[0] == 1;
    size_t out = row->shape[turned], in = row->shape[!turned];
    if (!adapter_room(a))
        return QKV_E_MEMORY;
    qkv__adapted *x = &a->list[a->count];
    *x = (qkv__adapted){.module = qkv__layer_name(m->params, module), .turned = turned,
                        .scale = c->alpha / (c->rslora ? sqrt((double)r) : (double)r)};
    const qkv__low_rank term = {.a = make_part(a, module, "lora_A", r, in),
                                .b = make_part(a, module, "lora_B", out, r),
                                .from = row->offset / in, .scale = a->weight * x->scale,
                                .dropout = c->dropout,
                                .dropout_id = DROPOUT_IDS + (uint32_t)m->adapted++};
    if (!x->module || !term.a || !term.b)
        return QKV_E_MEMORY;
    qkv_status status = qkv__param_add_term(row->param, &term, &x->term);
    a->count += !status;
    return status;
}

static qkv_status freeze_row(void *user, const qkv_state_entry *row)
{
    const qkv_model *m = user;
    bool whole = false;
    if (!row->param || row->kind == QKV_STATE_TIED || row->kind == QKV_STATE_IGNORED)
        return QKV_OK;
    for (const qkv_adapter *a = m->adapters; a && !whole; a = a->next)
        whole = qkv__adapter_has_module(a, row->name);
    if (whole)
        qkv__param_keep_full(row->param);
    else if (!qkv__param_running(row->param))
        qkv__param_fix(row->param);
    return QKV_OK;
}

qkv_status qkv__adapters_freeze(qkv_model *m) { return qkv_model_visit(m, freeze_row, m); }

/* ---- a new one ------------------------------------------------------------------------------ */

typedef struct {
    qkv_adapter *a;
    uint64_t seed;
    size_t found_modules;
} adding;

static qkv_status adapt_row(void *user, const qkv_state_entry *row)
{
    adding *x = user;
    qkv_adapter *a = x->a;
    char module[QKV__MODULE_NAME];
    if (row->kind != QKV_STATE_PARAM || !qkv__module_of(module, row->name))
        return QKV_OK;
    bool whole = qkv__adapter_has_module(a, row->name);
    bool all = strcmp(a->config.targets, all_linear) == 0;
    x->found_modules += whole;
    bool linear = row->ndim == 2 && qkv__param_is_linear(row->param);
    if (whole || !(all ? linear : row->ndim == 2 && qkv__module_listed(a->config.targets, module)))
        return QKV_OK;
    qkv_status status = qkv__adapter_add(a, row, a->config.rank);
    if (status)
        return status;
    qkv_param *part = a->list[a->count - 1].term->a; /* Kaiming's with a = sqrt 5, as PEFT has it */
    return qkv_param_init(part, QKV_INIT_KAIMING, 1 / sqrt(6), x->seed);
}

qkv_status qkv_model_add_lora(qkv_adapter **out, qkv_model *m, const qkv_lora_config *config,
                              uint64_t seed)
{
    const qkv_lora_config defaults = qkv_lora_defaults(), *c = config ? config : &defaults;
    *out = NULL;
    qkv_status status = qkv__options_check(m->ctx, &table, c, "lora");
    if (status)
        return status;
    adding x = {.a = qkv__adapter_create(m, c, "adapter", NULL), .seed = seed};
    if (!x.a)
        return QKV_E_MEMORY;
    status = qkv_model_visit(m, adapt_row, &x);
    if (!status && !x.a->count)
        status = qkv_fail(m->ctx, QKV_E_ARGUMENT, "lora: targets=%s: a linear layer of the %s "
                          "expected, none is called so", c->targets,
                          qkv_model_type_name(m->type));
    if (!status && c->modules && *c->modules && !x.found_modules)
        status = qkv_fail(m->ctx, QKV_E_ARGUMENT, "lora: modules=%s: a module of the %s expected, "
                          "none is called so", c->modules, qkv_model_type_name(m->type));
    if (!status)
        status = qkv__adapters_freeze(m);
    if (!status)
        status = c->weights > QKV_WEIGHTS_F32 ? qkv_params_store(m->params, c->weights)
                                              : qkv__params_status(m->params);
    if (!status)
        *out = x.a;
    return status;
}

/* ---- using ---------------------------------------------------------------------------------- */

size_t qkv_model_adapter_count(const qkv_model *m)
{
    size_t n = 0;
    for (const qkv_adapter *a = m->adapters; a; a = a->next)
        n++;
    return n;
}

qkv_adapter *qkv_model_adapter(const qkv_model *m, size_t i)
{
    qkv_adapter *a = m->adapters;
    for (; a && i; i--)
        a = a->next;
    return a;
}

const char *qkv_adapter_name(const qkv_adapter *a) { return a->name; }
size_t qkv_adapter_matrices(const qkv_adapter *a) { return a->count; }

typedef struct {
    const qkv_adapter *a;
    size_t n;
} counted;

static qkv_status count_module_elements(void *user, const qkv_state_entry *row)
{
    counted *c = user;
    if (row->kind == QKV_STATE_PARAM && qkv__adapter_has_module(c->a, row->name))
        c->n += qkv_state_entry_count(row);
    return QKV_OK;
}

size_t qkv_adapter_elements(const qkv_adapter *a)
{
    counted c = {a, 0};
    (void)qkv_model_visit(a->model, count_module_elements, &c);
    for (size_t i = 0; i < a->count; i++)
        c.n += qkv_param_count(a->list[i].term->a) + qkv_param_count(a->list[i].term->b);
    return c.n;
}

void qkv_adapter_set_weight(qkv_adapter *a, double weight)
{
    a->weight = weight;
    for (size_t i = 0; i < a->count; i++)
        a->list[i].term->scale = weight * a->list[i].scale;
}

double qkv_adapter_weight(const qkv_adapter *a) { return a->weight; }

qkv_status qkv_model_merge_adapters(qkv_model *m)
{
    const qkv_adapter *first = m->adapters;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < qkv_params_count(m->params) && !status; i++)
        status = qkv__param_merge_terms(qkv_params_at(m->params, i));
    if (!status && first && first->count) { /* theirs come behind the model's own */
        qkv__params_forget(m->params, qkv__param_index(first->list[0].term->a));
        m->adapters = NULL;
    }
    return status;
}
