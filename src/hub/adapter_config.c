/* adapter_config.c - adapter_config.json: how an adapter was made, in PEFT's words. */
#include "hub/adapter_config.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "model/adapter.h"

/* ---- reading -------------------------------------------------------------------------------- */

/* Fields that do not change what a loaded adapter computes, or that are read below. */
static const char *const harmless[] = {
    "alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "corda_config",
    "eva_config",
    "exclude_modules", "fan_in_fan_out", "inference_mode", "init_lora_weights", "layers_pattern",
    "layers_to_transform", "loftq_config", "lora_alpha", "lora_dropout", "lora_ga_config",
    "modules_to_save", "peft_type", "peft_version", "r", "rank_pattern", "revision",
    "runtime_config", "target_modules", "task_type", "use_rslora", "ensure_weight_tying",
    "qalora_group_size", "megatron_core", NULL};

static bool is_neutral(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) || (json_is_array(value) &&
           !json_array_size(value)) || (json_is_object(value) && !json_object_size(value)) ||
           (json_is_integer(value) && !json_integer_value(value)) ||
           (json_is_string(value) && strcmp(json_string_value(value), "none") == 0);
}

/* Fields with which an adapter asks for what is not done here. */
static qkv_status check_fields(const qkv__json *j)
{
    const char *key, *type = NULL, *bias = "none";
    json_t *value;
    qkv_status status = qkv__json_get_string(j, "peft_type", &type);
    if (!status && strcmp(type, "LORA") != 0)
        status = qkv__json_fail(j, "peft_type", "\"LORA\" expected, found \"%.40s\"", type);
    if (!status)
        status = qkv__json_opt_string(j, "bias", &bias);
    if (!status && strcmp(bias, "none") != 0)
        status = qkv__json_fail(j, "bias", "\"none\" expected, found \"%.40s\"", bias);
    if (!status && !is_neutral(json_object_get(j->value, "alpha_pattern")))
        status = qkv__json_fail(j, "alpha_pattern", "alphas of single modules are not supported");
    json_object_foreach(j->value, key, value) {
        size_t i = 0;
        while (harmless[i] && strcmp(harmless[i], key) != 0)
            i++;
        if (!status && !harmless[i] && !is_neutral(value))
            status = qkv__json_fail(j, key, "not supported");
    }
    return status;
}

/* A list of names, joined with "+"; a name by itself stays. */
static qkv_status read_names(const qkv__json *j, const char *key, qkv_str *out)
{
    qkv__json list, item;
    if (!qkv__json_has(j, key))
        return QKV_OK;
    if (json_is_string(json_object_get(j->value, key))) {
        const char *text = NULL;
        qkv_status one = qkv__json_get_string(j, key, &text);
        qkv_str_printf(out, "%s", one ? "" : text);
        return one;
    }
    qkv_status status = qkv__json_get_array(j, key, &list);
    for (size_t i = 0; !status && i < qkv__json_count(&list); i++) {
        const char *name = NULL;
        qkv__json_item(&list, i, &item);
        status = qkv__json_get_string(&item, NULL, &name);
        if (!status)
            qkv_str_printf(out, "%s%s", i ? "+" : "", name);
    }
    return status;
}

void qkv__adapter_config_free(qkv__adapter_config *a)
{
    qkv__json_free(&a->j);
    qkv_str_free(&a->targets);
    qkv_str_free(&a->modules);
}

qkv_status qkv__adapter_config_read(qkv__adapter_config *a, qkv_context *ctx, const char *file)
{
    int64_t rank = 0;
    *a = (qkv__adapter_config){.c = qkv_lora_defaults()};
    qkv_str_init(&a->targets, ctx);
    qkv_str_init(&a->modules, ctx);
    qkv_status status = qkv__json_load(&a->j, ctx, file);
    if (!status)
        status = check_fields(&a->j);
    if (!status)
        status = qkv__json_opt_string(&a->j, "base_model_name_or_path", &a->base);
    if (!status)
        status = qkv__json_get_int(&a->j, "r", 1, 65536, &rank);
    if (!status)
        status = qkv__json_get_real(&a->j, "lora_alpha", 0, 1e6, &a->c.alpha);
    if (!status)
        status = qkv__json_opt_bool(&a->j, "use_rslora", &a->c.rslora);
    if (!status)
        status = qkv__json_opt_real(&a->j, "lora_dropout", 0, 0.999, &a->c.dropout);
    if (!status)
        status = read_names(&a->j, "target_modules", &a->targets);
    if (!status)
        status = read_names(&a->j, "modules_to_save", &a->modules);
    a->c.rank = (size_t)rank;
    a->c.targets = a->targets.data;
    a->c.modules = a->modules.data;
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The last part of a module's name. */
static const char *last_part(const char *module)
{
    const char *dot = strrchr(module, '.');
    return dot ? dot + 1 : module;
}

typedef struct {
    const qkv_adapter *a;
    const char *name;
    bool found;
} sought;

/* Is it a matrix of that name which is not adapted? */
static qkv_status seek_other(void *user, const qkv_state_entry *row)
{
    sought *x = user;
    char module[QKV__MODULE_NAME];
    if (row->ndim != 2 || !qkv__module_of(module, row->name) ||
        strcmp(last_part(module), x->name) != 0)
        return QKV_OK;
    bool adapted = false;
    for (size_t i = 0; i < x->a->count && !adapted; i++)
        adapted = strcmp(x->a->list[i].module, module) == 0;
    x->found = x->found || !adapted;
    return QKV_OK;
}

/* The last parts of the adapted modules' names, each once; whole names where others end alike. */
static void put_targets(qkv_json_writer *w, const qkv_adapter *a)
{
    qkv_json_begin_array(w, "target_modules");
    for (size_t i = 0; i < a->count; i++) {
        sought x = {.a = a, .name = last_part(a->list[i].module)};
        size_t k = 0;
        (void)qkv_model_visit(a->model, seek_other, &x);
        while (k < i && strcmp(last_part(a->list[k].module), x.name) != 0)
            k++;
        if (x.found || k == i)
            qkv_json_put_string(w, NULL, x.found ? a->list[i].module : x.name);
    }
    qkv_json_end_array(w);
}

/* Matrices with another rank than most. */
static void put_ranks(qkv_json_writer *w, const qkv_adapter *a)
{
    qkv_json_begin_object(w, "rank_pattern");
    for (size_t i = 0; i < a->count; i++) {
        size_t r = qkv_param_dim(a->list[i].term->a, 0);
        if (r != a->config.rank)
            qkv_json_put_int(w, a->list[i].module, (int64_t)r);
    }
    qkv_json_end_object(w);
}

static void put_modules(qkv_json_writer *w, const char *modules)
{
    if (!modules || !*modules) {
        qkv_json_put_null(w, "modules_to_save");
        return;
    }
    qkv_json_begin_array(w, "modules_to_save");
    while (*modules) {
        char name[QKV__MODULE_NAME];
        size_t n = strcspn(modules, "+");
        snprintf(name, sizeof name, "%.*s", (int)n, modules);
        qkv_json_put_string(w, NULL, name);
        modules += n + (modules[n] == '+');
    }
    qkv_json_end_array(w);
}

/* PEFT's word for what the model does; NULL: it has none. */
static const char *task_type(const qkv_model *m)
{
    static const struct {
        unsigned can;
        const char *word;
    } words[] = {{QKV_CAN_GENERATE, "CAUSAL_LM"},
                 {QKV_CAN_TRANSLATE, "SEQ_2_SEQ_LM"},
                 {QKV_CAN_CLASSIFY_TEXT, "SEQ_CLS"},
                 {QKV_CAN_EMBED_TEXT, "FEATURE_EXTRACTION"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (qkv_model_can(m, words[i].can))
            return words[i].word;
    return NULL;
}

qkv_status qkv__adapter_config_write(const qkv_adapter *a, const char *dir, const char *base)
{
    qkv_json_writer w;
    const char *task = task_type(a->model);
    qkv_json_writer_init(&w, a->model->ctx, 2);
    qkv_json_begin_object(&w, NULL);
    if (base)
        qkv_json_put_string(&w, "base_model_name_or_path", base);
    else
        qkv_json_put_null(&w, "base_model_name_or_path");
    qkv_json_put_string(&w, "bias", "none");
    qkv_json_put_bool(&w, "fan_in_fan_out", a->list[0].turned);
    qkv_json_put_bool(&w, "inference_mode", true);
    qkv_json_put_bool(&w, "init_lora_weights", true);
    qkv_json_put_real(&w, "lora_alpha", a->config.alpha);
    qkv_json_put_real(&w, "lora_dropout", a->config.dropout);
    put_modules(&w, a->config.modules);
    qkv_json_put_string(&w, "peft_type", "LORA");
    qkv_json_put_int(&w, "r", (int64_t)a->config.rank);
    put_ranks(&w, a);
    put_targets(&w, a);
    if (task)
        qkv_json_put_string(&w, "task_type", task);
    else
        qkv_json_put_null(&w, "task_type");
    qkv_json_put_bool(&w, "use_rslora", a->config.rslora);
    qkv_json_end_object(&w);
    return qkv_json_writer_save(&w, qkv_path_in(dir, QKV__ADAPTER_CONFIG).text);
}
