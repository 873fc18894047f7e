/* adapter_task.c - what an adapter asks of its base's configuration. PEFT puts adapters on a model
 * that was opened for a task: the base may be saved with another head, and no file but the
 * adapter's own says that there are classes, and how many. */
#include <stdio.h>
#include <string.h>

#include "hub/adapter.h"
#include "hub/adapter_config.h"
#include "io/file.h"
#include "model/model.h"

/* The type of that name which classifies texts; NULL: there is none. */
static const qkv_model_type *classifier_type(const qkv_context *ctx, const char *name)
{
    const qkv_model_type *type;
    for (size_t i = 0; (type = qkv_model_type_at(ctx, i)); i++)
        if (strcmp(type->name, name) == 0 && type->builtin &&
            (type->builtin->can & QKV_CAN_CLASSIFY_TEXT))
            return type;
    return NULL;
}

/* Outputs of the layer that gives classes, which PEFT saves whole; 0: the file has none. */
static qkv_status count_classes(size_t *out, qkv_context *ctx, const char *dir)
{
    static const char *const names[] = {"classifier.weight", "classifier.out_proj.weight"};
    const qkv_path path = qkv_path_in(dir, QKV__ADAPTER_WEIGHTS);
    qkv_safetensors *file = NULL;
    *out = 0;
    if (!qkv_file_exists(path.text))
        return QKV_OK; /* reading it says so */
    qkv_status status = qkv_safetensors_open(&file, ctx, path.text);
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        char name[64];
        snprintf(name, sizeof name, QKV__ADAPTER_PREFIX "%s", names[i]);
        const qkv_safetensor *t = qkv_safetensors_find(file, name);
        if (t && t->ndim == 2 && t->shape[1])
            *out = t->shape[0];
    }
    qkv_safetensors_close(file);
    return status;
}

/* A classifier of so many classes, named as transformers names them. */
static qkv_status describe_classifier(qkv__json *config, const qkv_model_type *type, size_t classes)
{
    json_t *labels = json_object();
    bool fine = labels;
    for (size_t i = 0; i < classes && fine; i++) {
        char key[24], label[32];
        snprintf(key, sizeof key, "%zu", i);
        snprintf(label, sizeof label, "LABEL_%zu", i);
        fine = json_object_set_new(labels, key, json_string(label)) == 0;
    }
    fine = fine && json_object_set(config->value, "id2label", labels) == 0 &&
           json_object_set_new(config->value, "architectures",
                               json_pack("[s]", qkv_model_type_architecture(type))) == 0;
    json_decref(labels);
    return fine ? QKV_OK : qkv_fail(config->ctx, QKV_E_MEMORY, "%s: out of memory", config->file);
}

/* Does config.json describe such a classifier? */
static bool classifies_as_it_is(const qkv__json *config, const qkv_model_type *type)
{
    const json_t *is = json_array_get(json_object_get(config->value, "architectures"), 0);
    return json_is_string(is) &&
           strcmp(json_string_value(is), qkv_model_type_architecture(type)) == 0;
}

qkv_status qkv__hub_adapt_config(qkv__json *config, const char *dir)
{
    const qkv_path path = qkv_path_in(dir, QKV__ADAPTER_CONFIG);
    const char *task = NULL, *name = NULL;
    qkv__adapter_config a;
    size_t classes = 0;
    qkv_status status = qkv__adapter_config_read(&a, config->ctx, path.text);
    if (!status)
        status = qkv__json_opt_string(&a.j, "task_type", &task);
    bool wanted = !status && task && strcmp(task, "SEQ_CLS") == 0;
    if (wanted)
        status = qkv__json_get_string(config, "model_type", &name);
    qkv__adapter_config_free(&a);
    const qkv_model_type *type = wanted && !status ? classifier_type(config->ctx, name) : NULL;
    if (!type || classifies_as_it_is(config, type))
        return status;
    status = count_classes(&classes, config->ctx, dir);
    return status || !classes ? status : describe_classifier(config, type, classes);
}
