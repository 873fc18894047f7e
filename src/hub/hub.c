/* hub.c - model directories, opened and saved whole. */
#include "hub/adapter.h"
#include "hub/gguf.h"
#include "hub/quantized.h"
#include "io/file.h"

static qkv_status read_settings(qkv_model **out, qkv_context *ctx, const char *dir,
                                qkv_strings changes, bool weights)
{
    size_t most = SIZE_MAX;
    char *at = NULL;
    qkv_adapter *adapter;
    *out = NULL;
    qkv_status status = qkv__hub_settings(&at, ctx, dir);
    const qkv_path beside = qkv_path_beside(at ? at : dir, "");
    if (!status && weights && qkv_file_exists(at)) /* else reading it says so */
        status = qkv__hub_count_all(&most, ctx, dir);
    if (!status)
        status = qkv__hub_read_config(out, ctx, at, qkv__hub_takes_settings(dir) ? dir : NULL,
                                      changes, most);
    if (!status)
        status = qkv__hub_read_preprocessor(*out, beside.text);
    if (!status)
        status = qkv__hub_read_sentence(*out, beside.text);
    if (!status && qkv__hub_is_adapter(dir))
        status = qkv__hub_attach_adapter(&adapter, *out, dir);
    qkv_free(ctx, at);
    if (status) {
        qkv_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv_hub_load_config_with(qkv_model **out, qkv_context *ctx, const char *dir,
                                    qkv_strings changes)
{
    qkv_status status = read_settings(out, ctx, dir, changes, false);
    bool has_weights = qkv_file_exists(qkv_path_in(dir, "model.safetensors").text);
    if (!status && has_weights) /* which say what is left out */
        status = qkv__hub_visit_lacking(*out, dir, NULL, NULL, NULL);
    if (status) {
        qkv_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv_hub_load_config(qkv_model **out, qkv_context *ctx, const char *dir)
{
    return qkv_hub_load_config_with(out, ctx, dir, (qkv_strings){0});
}

/* Of a model whose adapters are those of the directory. */
static qkv_status hub_read_values(qkv_model *m, const char *dir, qkv_weights weights)
{
    return qkv__hub_is_adapter(dir) ? qkv__hub_read_adapted(m, dir, weights)
                                    : qkv__hub_read_stored(m, dir, weights, false);
}

static bool is_stored(qkv_model *m)
{
    const qkv_params *ps = qkv_model_params(m);
    size_t i = 0;
    while (i < qkv_params_count(ps) && qkv_param_weights(qkv_params_at(ps, i)) == QKV_WEIGHTS_F32)
        i++;
    return i < qkv_params_count(ps);
}

/* Frozen weights in fewer bits were read when they were stored, and stay. */
qkv_status qkv_hub_load_weights(qkv_model *m, const char *dir)
{
    if (!qkv__hub_is_adapter(dir))
        return qkv__hub_read_weights(m, dir, false);
    if (qkv_model_adapter_count(m) != 1)
        return qkv_fail(qkv_model_context(m), QKV_E_ARGUMENT, "%s holds an adapter: a model with "
                        "that one expected, found %zu", dir, qkv_model_adapter_count(m));
    return is_stored(m) ? qkv__hub_read_adapter(qkv_model_adapter(m, 0), dir)
                        : qkv__hub_read_adapted(m, dir, QKV_WEIGHTS_F32);
}

qkv_status qkv_hub_load_matching(qkv_model *m, const char *dir)
{
    return qkv__hub_read_weights(m, dir, true);
}

qkv_status qkv_hub_load_with(qkv_model **out, qkv_context *ctx, const char *dir,
                             qkv_strings changes)
{
    if (qkv_gguf_is(dir))
        return qkv__hub_read_gguf(out, NULL, ctx, dir, changes, QKV_WEIGHTS_F32);
    qkv_status status = read_settings(out, ctx, dir, changes, true);
    if (!status)
        status = hub_read_values(*out, dir, QKV_WEIGHTS_F32);
    if (status) {
        qkv_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv_hub_load_stored(qkv_model **out, qkv_context *ctx, const char *dir,
                               qkv_weights weights)
{
    qkv_status status = QKV_OK;
    *out = NULL;
    if (weights == QKV_WEIGHTS_AUTO)
        status = qkv_hub_weights(&weights, ctx, dir);
    if (!status && weights > QKV_WEIGHTS_INT4)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "no weights of kind %d", (int)weights);
    if (status || weights == QKV_WEIGHTS_F32)
        return status ? status : qkv_hub_load(out, ctx, dir);
    if (qkv_gguf_is(dir))
        return qkv__hub_read_gguf(out, NULL, ctx, dir, (qkv_strings){0}, weights);
    status = read_settings(out, ctx, dir, (qkv_strings){0}, true);
    if (!status)
        status = hub_read_values(*out, dir, weights);
    if (status) {
        qkv_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv_hub_load(qkv_model **out, qkv_context *ctx, const char *dir)
{
    return qkv_hub_load_with(out, ctx, dir, (qkv_strings){0});
}

qkv_hub_save_options qkv_hub_save_defaults(void)
{
    return (qkv_hub_save_options){.store = QKV_STORE_F32};
}

qkv_status qkv_hub_save(qkv_model *m, const char *dir, const qkv_hub_save_options *options)
{
    qkv_hub_save_options o = options ? *options : qkv_hub_save_defaults();
    qkv_context *ctx = qkv_model_context(m);
    if (!o.store)
        o.store = QKV_STORE_F32;
    if (o.store != QKV_STORE_F32 && o.store != QKV_STORE_F16 && o.store != QKV_STORE_BF16)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "weights are saved as F32, F16 or BF16, not %s",
                        qkv_store_name(o.store));
    size_t adapters = qkv_model_adapter_count(m);
    if (adapters > 1 || (adapters && o.weights > QKV_WEIGHTS_BF16))
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: a model with %zu adapter%s is saved with one, "
                        "in f32, f16 or bf16; merge them first", dir, adapters,
                        adapters > 1 ? "s" : "");
    qkv_status status = qkv__hub_check_weights(m, o.weights);
    if (!status)
        status = qkv_dir_create(ctx, dir);
    if (!status)
        status = qkv__hub_write_config(m, dir, o.store, o.weights);
    if (!status)
        status = qkv__hub_write_preprocessor(m, dir);
    if (!status)
        status = qkv__hub_write_sentence(m, dir);
    if (!status && adapters)
        return qkv__hub_write_adapter(qkv_model_adapter(m, 0), dir, o.store);
    return status ? status : qkv__hub_write_weights(m, dir, &o);
}
