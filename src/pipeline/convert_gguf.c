/* convert_gguf.c - a GGUF file made a model directory, and a model directory a GGUF file. */
#include "pipeline/convert_gguf.h"

#include <string.h>

#include "hub/gguf.h"
#include "io/file.h"
#include "pipeline/adapters.h"
#include "tokenizer/object.h"

qkv_status qkv__convert_from_gguf(qkv_context *ctx, const char *file, const char *dir,
                                  const qkv_hub_save_options *o)
{
    qkv_model *m = NULL;
    qkv_tokenizer *t = NULL;
    qkv_status status = qkv__hub_read_gguf(&m, &t, ctx, file, (qkv_strings){0},
                                           QKV_WEIGHTS_F32);
    if (!status)
        status = qkv_hub_save(m, dir, o);
    if (!status && t)
        status = qkv_tokenizer_save(t, dir);
    if (!status)
        qkv__note(ctx, "%s: a %s of %zu numbers%s", dir,
                  qkv_model_type_name(qkv_model_type_of(m)),
                  qkv_params_elements(qkv_model_params(m)),
                  t ? "" : "; the file has no tokenizer");
    qkv_tokenizer_destroy(t);
    qkv_model_destroy(m);
    return status;
}

/* A directory may have no tokenizer, an adapter its base's. */
static qkv_status load_any_tokenizer(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    char *base = NULL;
    qkv_status status = qkv__tokenizer_load_any(out, ctx, dir);
    if (!status && !*out)
        status = qkv_hub_base(&base, ctx, dir);
    if (!status && base)
        status = qkv__tokenizer_load_any(out, ctx, base);
    qkv_free(ctx, base);
    return status;
}

/* The file of a template, which counts more than tokenizer_config.json. */
static qkv_status load_template(char **out, qkv_context *ctx, const char *dir)
{
    const qkv_path path = qkv_path_in(dir, "chat_template.jinja");
    size_t size;
    *out = NULL;
    return qkv_file_exists(path.text) ? qkv_file_read(ctx, path.text, (size_t)1 << 24, out, &size)
                                      : QKV_OK;
}

/* The model, its adapters merged. */
static qkv_status load_merged(qkv_model **out, qkv_context *ctx, const char *dir,
                              const qkv_convert_options *asked)
{
    qkv_status status = qkv_hub_load(out, ctx, dir);
    if (!status)
        status = qkv__add_adapters(*out, &asked->adapters);
    if (!status && !asked->merge && qkv_model_adapter_count(*out))
        status = qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: a GGUF file holds a whole model: --merge "
                          "makes one of a model and its adapters", dir);
    return status ? status : qkv_model_merge_adapters(*out);
}

qkv_status qkv__convert_to_gguf(qkv_context *ctx, const char *dir, const char *file,
                                const char *type, const qkv_convert_options *asked)
{
    qkv_model *m = NULL;
    qkv_tokenizer *t = NULL;
    char *template = NULL;
    qkv__hub_gguf_options o = {.dir = dir};
    qkv_status status = qkv_hub_weights(&o.kept, ctx, dir);
    if (!type)
        type = o.kept == QKV_WEIGHTS_INT8 ? "q8_0" : o.kept == QKV_WEIGHTS_INT4 ? "q4_0" : "f32";
    o.type = qkv__gguf_type_named(type);
    if (!status)
        status = load_merged(&m, ctx, dir, asked);
    if (!status)
        status = load_any_tokenizer(&t, ctx, dir);
    if (!status)
        status = load_template(&template, ctx, dir);
    o.chat_template = template;
    if (!status)
        status = qkv__hub_write_gguf(m, t, file, &o);
    if (!status)
        qkv__note(ctx, "%s: a %s of %zu numbers, matrices in %s%s", file,
                  qkv_model_type_name(qkv_model_type_of(m)),
                  qkv_params_elements(qkv_model_params(m)), o.type->name,
                  t ? "" : "; the directory has no tokenizer");
    qkv_free(ctx, template);
    qkv_tokenizer_destroy(t);
    qkv_model_destroy(m);
    return status;
}
