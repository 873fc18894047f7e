/* config.c - config.json: a model type's table of fields, and the few keys that no field holds. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "hub/adapter.h"
#include "hub/parts.h"
#include "hub/quantized.h"
#include "io/file.h"
#include "io/json.h"
#include "io/json_options.h"
#include "model/model.h"
#include "qkv/gguf.h"

/* ---- reading ------------------------------------------------------------------------------- */

static qkv_status find_type(const qkv__json *j, const qkv_model_type **out)
{
    const char *name = NULL, *architecture = NULL;
    qkv__json list, first;
    qkv_status status = qkv__json_get_string(j, "model_type", &name);
    if (!status && qkv__json_has(j, "architectures"))
        status = qkv__json_get_array(j, "architectures", &list);
    if (!status && qkv__json_has(j, "architectures") && qkv__json_count(&list)) {
        qkv__json_item(&list, 0, &first);
        status = qkv__json_get_string(&first, NULL, &architecture);
    }
    if (status)
        return status;
    *out = qkv_model_type_find(j->ctx, name, architecture);
    if (*out)
        return QKV_OK;
    qkv_str known;
    qkv_str_init(&known, j->ctx);
    const char *last = "";
    for (size_t i = 0; qkv_model_type_at(j->ctx, i); i++) {
        const char *type = qkv_model_type_name(qkv_model_type_at(j->ctx, i));
        if (strcmp(type, last) != 0) /* types of one name are neighbours */
            qkv_str_printf(&known, "%s%s", i ? ", " : "", type);
        last = type;
    }
    status = qkv__json_fail(j, "model_type", "one of %s expected, \"%s\" found",
                            known.data ? known.data : "?", name);
    qkv_str_free(&known);
    return status;
}

/* Files say how many classes there are by listing their names. */
static qkv_status classes_from_labels(const qkv__json *j, qkv_options *o,
                                      const qkv_option_table *table)
{
    size_t count = 0;
    char text[24];
    qkv_status status = qkv__hub_count_labels(j, &count);
    for (size_t i = 0; i < table->count && count && !status; i++)
        if (table->rows[i].key && strcmp(table->rows[i].key, "num_labels") == 0) {
            snprintf(text, sizeof text, "%zu", count);
            status = qkv_options_set(o, "num_labels", text);
        }
    return status;
}

/* Makes the model, unless it needs more numbers than there are. */
static qkv_status config_make_model(qkv_model **out, const qkv__json *j, const qkv_model_type *type,
                                    const void *config, size_t most)
{
    double parameter_count = type->parameter_count ? type->parameter_count(type, config) : 0;
    *out = NULL;
    if (parameter_count > (double)most)
        return qkv__json_fail(j, NULL, "describes a model of %.0f numbers or more, the weights "
                              "have %zu", parameter_count, most);
    if (qkv_model_create(out, j->ctx, type, config) == QKV_OK)
        return QKV_OK;
    char why[400];
    snprintf(why, sizeof why, "%s", qkv_context_message(j->ctx));
    return qkv_fail(j->ctx, qkv_context_status(j->ctx), "%s: %s", j->file, why);
}

/* "eos_token_id" as a list: kept for the model, and the first stands for the field. Types that do
 * not continue text have no use for a list, and their tables refuse it. */
static qkv_status take_eos_ids(const qkv__json *j, const qkv_model_type *type,
                               int32_t eos_ids[QKV_LM_EOS_IDS], size_t *count)
{
    qkv__json list, item;
    *count = 0;
    if (!type->builtin || !type->builtin->lm ||
        !json_is_array(json_object_get(j->value, "eos_token_id")))
        return QKV_OK;
    qkv_status status = qkv__json_get_array(j, "eos_token_id", &list);
    size_t n = status ? 0 : qkv__json_count(&list);
    if (!status && (n == 0 || n > QKV_LM_EOS_IDS))
        status = qkv__json_fail(j, "eos_token_id", "expected 1 to %d ids, found %zu",
                                QKV_LM_EOS_IDS, n);
    for (size_t i = 0; i < n && !status; i++) {
        int64_t id = 0;
        qkv__json_item(&list, i, &item);
        status = qkv__json_get_int(&item, NULL, 0, INT32_MAX, &id);
        eos_ids[i] = (int32_t)id;
    }
    if (!status && json_object_set(j->value, "eos_token_id", json_array_get(list.value, 0)))
        status = qkv_fail(j->ctx, QKV_E_MEMORY, "%s: out of memory", j->file);
    *count = n;
    return status;
}

/* "layer_types" says again which layers have a window; it must say what the other fields say. */
static qkv_status check_layer_types(const qkv__json *j, const qkv_model *m)
{
    const qkv__lm *lm = qkv_model_can(m, QKV_CAN_GENERATE) ? qkv_model_type_of(m)->builtin->lm
                                                           : NULL;
    qkv__json list, item;
    if (!lm || !qkv__json_has(j, "layer_types"))
        return QKV_OK;
    qkv_status status = qkv__json_get_array(j, "layer_types", &list);
    if (!status && qkv__json_count(&list) != lm->layers(m))
        return qkv__json_fail(j, "layer_types", "%zu layers expected, %zu found", lm->layers(m),
                              qkv__json_count(&list));
    for (size_t i = 0; !status && i < lm->layers(m); i++) {
        const char *type = NULL;
        const char *is = lm->window(m, i) ? "sliding_attention" : "full_attention";
        qkv__json_item(&list, i, &item);
        status = qkv__json_get_string(&item, NULL, &type);
        if (!status && strcmp(type, is) != 0)
            return qkv__json_fail(j, "layer_types", "layer %zu: by the other fields it is \"%s\", "
                                  "found \"%.40s\"", i, is, type);
    }
    return status;
}

/* Sets those of changes, "key=value", that o knows. */
static qkv_status change_fields(qkv_options *o, qkv_strings changes)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < changes.count && !status; i++) {
        char key[QKV_OPTION_TEXT];
        size_t length = strcspn(changes.items[i], "=");
        snprintf(key, sizeof key, "%.*s", (int)length, changes.items[i]);
        if (changes.items[i][length] && qkv_options_know(o, key))
            status = qkv_options_set(o, key, changes.items[i] + length + 1);
    }
    return status;
}

static qkv_status read_fields(qkv_model **out, const qkv__json *j, const qkv_model_type *type,
                              qkv_strings changes, size_t most)
{
    const qkv_option_table *table = qkv_model_type_config(type);
    void *config = qkv_calloc(j->ctx, 1, qkv_model_type_config_size(type));
    qkv_options *o = NULL;
    int32_t eos_ids[QKV_LM_EOS_IDS];
    size_t eos_count = 0;
    qkv_status status = config ? qkv_options_create(&o, j->ctx) : QKV_E_MEMORY;
    if (!status)
        status = qkv_options_bind(o, table, config);
    if (!status)
        status = take_eos_ids(j, type, eos_ids, &eos_count);
    if (!status)
        status = qkv__json_get_options(j, o, table);
    if (!status)
        status = qkv__hub_check_fields(j, type);
    if (!status)
        status = classes_from_labels(j, o, table);
    if (!status)
        status = change_fields(o, changes);
    if (!status)
        status = config_make_model(out, j, type, config, most);
    if (!status)
        status = check_layer_types(j, *out);
    if (!status)
        status = qkv__hub_read_labels(*out, j);
    if (!status)
        qkv_model_set_eos_ids(*out, eos_ids, eos_count);
    if (status) {
        qkv_model_destroy(*out);
        *out = NULL;
    }
    qkv_options_destroy(o);
    qkv_free(j->ctx, config);
    return status;
}

qkv_status qkv__hub_make_model(qkv_model **out, const qkv__json *config, qkv_strings changes,
                               size_t most)
{
    const qkv_model_type *type = NULL;
    qkv_weights unused;
    *out = NULL;
    qkv_status status = find_type(config, &type);
    if (!status)
        status = qkv__hub_read_quantization(config, &unused);
    return status ? status : read_fields(out, config, type, changes, most);
}

qkv_status qkv__hub_read_config(qkv_model **out, qkv_context *ctx, const char *file,
                                const char *adapter, qkv_strings changes, size_t most)
{
    qkv__json j;
    *out = NULL;
    qkv_status status = qkv__json_load(&j, ctx, file);
    if (!status && adapter)
        status = qkv__hub_adapt_config(&j, adapter);
    if (!status)
        status = qkv__hub_make_model(out, &j, changes, most);
    qkv__json_free(&j);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct {
    qkv_json_writer w; /* first, so that the sink's own functions find it */
    qkv_model *m;
} config_writer;

/* The model's list where it has one. */
static void config_put_integer(void *user, const char *key, int64_t value)
{
    config_writer *c = user;
    size_t count = qkv_model_eos_count(c->m);
    if (count == 0 || strcmp(key, "eos_token_id") != 0)
        qkv_json_put_int(&c->w, key, value);
    else
        qkv_json_put_ids(&c->w, key, c->m->eos_ids, count);
}

static void put_given(qkv_json_writer *w, const char *key, double value)
{
    if (value > 0)
        qkv_json_put_real(w, key, value);
}

/* What the kind of rotary positions needs. */
static void put_rope_fields(qkv_json_writer *w, const qkv_rotary_config *c)
{
    static const char *const names[] = {
        [QKV_ROPE_DEFAULT] = "default", [QKV_ROPE_LINEAR] = "linear",
        [QKV_ROPE_LLAMA3] = "llama3", [QKV_ROPE_YARN] = "yarn"};
    qkv_json_put_string(w, "rope_type", names[c->kind]);
    if (c->kind == QKV_ROPE_DEFAULT)
        return;
    qkv_json_put_real(w, "factor", c->factor);
    if (c->kind == QKV_ROPE_LINEAR)
        return;
    qkv_json_put_int(w, "original_max_position_embeddings", (int64_t)c->original);
    if (c->kind == QKV_ROPE_LLAMA3) {
        qkv_json_put_real(w, "low_freq_factor", c->low);
        qkv_json_put_real(w, "high_freq_factor", c->high);
        return;
    }
    put_given(w, "beta_fast", c->beta_fast);
    put_given(w, "beta_slow", c->beta_slow);
    put_given(w, "attention_factor", c->attention_factor);
    put_given(w, "mscale", c->mscale);
    put_given(w, "mscale_all_dim", c->mscale_all_dim);
}

/* Rotary positions, under the names of transformers 5 and those of transformers 4. */
static void put_rope(qkv_json_writer *w, const qkv_model *m)
{
    const qkv_option_table *table = qkv_model_type_config(qkv_model_type_of(m));
    for (size_t i = 0; i < table->count; i++) {
        const qkv_option *row = &table->rows[i];
        if (!row->key || !strstr(row->key, "rope_parameters.rope_theta"))
            continue;
        qkv_rotary_config c; /* of which the row is the first member */
        memcpy(&c, (const char *)qkv_model_config(m) + row->offset, sizeof c);
        qkv_json_begin_object(w, "rope_parameters");
        qkv_json_put_real(w, "rope_theta", c.base);
        if (c.share > 0)
            qkv_json_put_real(w, "partial_rotary_factor", c.share);
        put_rope_fields(w, &c);
        qkv_json_end_object(w);
        if (c.kind == QKV_ROPE_DEFAULT) {
            qkv_json_put_null(w, "rope_scaling");
            continue;
        }
        qkv_json_begin_object(w, "rope_scaling");
        put_rope_fields(w, &c);
        qkv_json_end_object(w);
    }
}

/* For models that write text: ids that they stop at or start with, as config.json has them. */
static qkv_status write_generation(qkv_model *m, const char *dir)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id", NULL};
    const qkv_option_table *table = qkv_model_type_config(qkv_model_type_of(m));
    config_writer c = {.m = m};
    qkv_json_writer_init(&c.w, qkv_model_context(m), 2);
    qkv_json_begin_object(&c.w, NULL);
    if (qkv_model_can(m, QKV_CAN_TRANSLATE))
        qkv__hub_write_generation(&c.w, m);
    for (size_t k = 0; keys[k]; k++)
        for (size_t i = 0; i < table->count; i++) {
            const qkv_option *row = &table->rows[i];
            int id;
            if (!row->key || strcmp(row->key, keys[k]) != 0)
                continue;
            memcpy(&id, (const char *)qkv_model_config(m) + row->offset, sizeof id);
            if (id >= 0)
                config_put_integer(&c, keys[k], id);
        }
    qkv_json_end_object(&c.w);
    return qkv_json_writer_save(&c.w, qkv_path_in(dir, "generation_config.json").text);
}

qkv_status qkv_hub_weights(qkv_weights *out, qkv_context *ctx, const char *dir)
{
    char *base = NULL; /* of an adapter, which is kept in full */
    qkv_status status = qkv_hub_base(&base, ctx, dir);
    const qkv_path path = qkv_path_in(base ? base : dir, "config.json");
    qkv__json j = {0};
    *out = QKV_WEIGHTS_F32;
    if (!status && qkv_gguf_is(dir))
        return QKV_OK;
    if (!status)
        status = qkv__json_load(&j, ctx, path.text);
    if (!status)
        status = qkv__hub_read_quantization(&j, out);
    qkv__json_free(&j);
    qkv_free(ctx, base);
    return status;
}

/* The whole object. */
static qkv_status put_config_json(config_writer *c, qkv_store store, qkv_weights weights)
{
    qkv_model *m = c->m;
    const qkv_model_type *type = qkv_model_type_of(m);
    qkv_json_writer *w = &c->w;
    const char *dtype = store == QKV_STORE_F32   ? "float32"
                        : store == QKV_STORE_F16 ? "float16"
                                                 : "bfloat16";
    qkv_json_begin_object(w, NULL);
    qkv_json_begin_array(w, "architectures");
    qkv_json_put_string(w, NULL, qkv_model_type_architecture(type));
    qkv_json_end_array(w);
    qkv_json_put_string(w, "model_type", qkv_model_type_name(type));
    qkv_json_put_string(w, "dtype", dtype);
    qkv_json_put_string(w, "torch_dtype", dtype);
    qkv_option_sink sink = qkv__json_option_sink(w);
    sink.integer = config_put_integer;
    qkv_option_write(qkv_model_type_config(type), qkv_model_config(m), &sink);
    put_rope(w, m);
    qkv__hub_write_labels(w, m);
    qkv_status status = qkv__hub_write_quantization(w, m, weights);
    qkv_json_end_object(w);
    return status;
}

qkv_status qkv__hub_config_json(qkv__json *out, qkv_model *m, const char *name)
{
    config_writer c = {.m = m};
    qkv_json_writer_init(&c.w, qkv_model_context(m), -1);
    *out = (qkv__json){0};
    qkv_status status = put_config_json(&c, QKV_STORE_F32, QKV_WEIGHTS_F32);
    const char *text = status ? NULL : qkv_json_writer_text(&c.w);
    if (!status)
        status = text ? qkv__json_parse(out, qkv_model_context(m), name, text, strlen(text))
                      : QKV_E_MEMORY;
    qkv_json_writer_free(&c.w);
    return status;
}

qkv_status qkv__hub_write_config(qkv_model *m, const char *dir, qkv_store store,
                                 qkv_weights weights)
{
    config_writer c = {.m = m};
    qkv_json_writer *w = &c.w;
    qkv_json_writer_init(w, qkv_model_context(m), 2);
    qkv_status status = put_config_json(&c, store, weights);
    if (status) {
        qkv_json_writer_free(w);
        return status;
    }
    status = qkv_json_writer_save(w, qkv_path_in(dir, qkv__hub_settings_name(m)).text);
    bool generates = qkv_model_can(m, QKV_CAN_GENERATE | QKV_CAN_TRANSLATE);
    return status || !generates ? status : write_generation(m, dir);
}
