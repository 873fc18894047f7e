/* labels.c - names of classes in config.json: "id2label" and "label2id". */
#include <stdio.h>

#include "hub/parts.h"

/* The label of id i, as id2label has it under "i". */
static qkv_status labels_label_of(const qkv__json *labels, size_t i, const char **out)
{
    char key[24];
    snprintf(key, sizeof key, "%zu", i);
    return qkv__json_get_string(labels, key, out);
}

qkv_status qkv__hub_count_labels(const qkv__json *config, size_t *count)
{
    qkv__json labels;
    *count = 0;
    if (!qkv__json_has(config, "id2label"))
        return QKV_OK;
    qkv_status status = qkv__json_get_object(config, "id2label", &labels);
    if (!status)
        *count = qkv__json_count(&labels);
    return status;
}

qkv_status qkv__hub_read_labels(qkv_model *m, const qkv__json *config)
{
    qkv__json labels;
    size_t count = 0;
    qkv_status status = qkv__hub_count_labels(config, &count);
    if (status || count == 0)
        return status;
    status = qkv__json_get_object(config, "id2label", &labels);
    const char **names = qkv_calloc(config->ctx, count, sizeof *names);
    if (!names)
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        status = labels_label_of(&labels, i, &names[i]);
    if (!status)
        status = qkv_model_set_labels(m, names, count);
    qkv_free(config->ctx, names);
    return status;
}

void qkv__hub_write_labels(qkv_json_writer *w, const qkv_model *m)
{
    size_t count = qkv_model_label_count(m);
    if (count == 0)
        return;
    qkv_json_begin_object(w, "id2label");
    for (size_t i = 0; i < count; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        qkv_json_put_string(w, key, qkv_model_label(m, i));
    }
    qkv_json_end_object(w);
    qkv_json_begin_object(w, "label2id");
    for (size_t i = 0; i < count; i++)
        qkv_json_put_int(w, qkv_model_label(m, i), (int64_t)i);
    qkv_json_end_object(w);
}
