/* gguf.c - models and their tokenizers, out of GGUF files and into them. */
#include "hub/gguf.h"

#include <string.h>

#include "tokenizer/gguf.h"

enum { QUANTISATION_VERSION = 2 }; /* of ggml's blocks */

/* ---- reading --------------------------------------------------------------------------------- */

static size_t count_numbers(const qkv__gguf *g)
{
    size_t n = 0;
    for (size_t i = 0; i < qkv_gguf_tensors(g); i++)
        n += qkv__gguf_at(g, i)->count;
    return n;
}

static qkv_status read_model(qkv_model **out, qkv_context *ctx, const qkv__gguf *g,
                             qkv_strings changes, qkv_weights weights)
{
    const qkv__gguf_arch *a = qkv__gguf_arch_of_file(g);
    qkv__json config = {.ctx = ctx, .file = qkv__gguf_path(g)};
    if (!a)
        return qkv_context_status(ctx);
    qkv_status status = qkv__gguf_read_config(&config.value, g, a);
    if (!status)
        status = qkv__hub_make_model(out, &config, changes, count_numbers(g));
    if (!status)
        status = qkv__gguf_read_pooling(*out, g);
    if (!status)
        status = qkv__gguf_read_weights(*out, g, a, weights);
    qkv__json_free(&config);
    return status;
}

qkv_status qkv__hub_read_gguf(qkv_model **model, qkv_tokenizer **tokenizer, qkv_context *ctx,
                              const char *path, qkv_strings changes, qkv_weights weights)
{
    qkv__gguf *g = NULL;
    *model = NULL;
    if (tokenizer)
        *tokenizer = NULL;
    qkv_status status = qkv_gguf_open(&g, ctx, path);
    if (!status)
        status = read_model(model, ctx, g, changes, weights);
    if (!status && tokenizer)
        status = qkv__tokenizer_from_gguf(tokenizer, g);
    qkv_gguf_close(g);
    if (status) {
        qkv_model_destroy(*model);
        *model = NULL;
    }
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The last name of a path that may end in a slash. */
static void put_model_name(qkv__gguf_fields *f, qkv_context *ctx, const char *dir)
{
    qkv_str name;
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    qkv_str_init(&name, ctx);
    qkv_str_add(&name, dir, n);
    if (name.failed)
        f->bytes.failed = true;
    else
        qkv__gguf_put_string(f, "general.name", qkv_path_name(name.data));
    qkv_str_free(&name);
}

static qkv_status write_fields(qkv__gguf_fields *f, qkv_model *m, const qkv__gguf_arch *a,
                               const qkv_tokenizer *tokenizer, const qkv__hub_gguf_options *o)
{
    const qkv_path name = qkv_path_in(o->dir, "config.json");
    qkv__json config;
    qkv_status status = qkv__hub_config_json(&config, m, name.text);
    qkv__gguf_put_string(f, "general.architecture", a->name);
    put_model_name(f, qkv_model_context(m), o->dir);
    qkv__gguf_put_u32(f, "general.file_type", o->type->file_type);
    if (o->type->block > 1)
        qkv__gguf_put_u32(f, "general.quantization_version", QUANTISATION_VERSION);
    if (!status)
        status = qkv__gguf_write_config(f, a, m, &config);
    if (!status)
        status = qkv__gguf_write_ids(f, a, tokenizer, &config);
    if (!status)
        status = qkv__tokenizer_to_gguf(
            tokenizer, f,
            &(qkv__gguf_tokenizer_options){.ctx = qkv_model_context(m), .dir = o->dir,
                                           .chat_template = o->chat_template,
                                           .count = (size_t)json_integer_value(json_object_get(
                                               config.value, "vocab_size"))});
    qkv__json_free(&config);
    return status;
}

qkv_status qkv__hub_write_gguf(qkv_model *m, const qkv_tokenizer *tokenizer, const char *path,
                               const qkv__hub_gguf_options *o)
{
    const qkv__gguf_arch *a = qkv__gguf_arch_of_model(m);
    qkv__gguf_fields f;
    if (!a)
        return qkv_fail_prefix(qkv_model_context(m), o->dir);
    qkv__gguf_fields_init(&f, qkv_model_context(m));
    qkv_status status = write_fields(&f, m, a, tokenizer, o);
    if (!status)
        status = qkv__gguf_write_weights(m, path, a, &f, o);
    qkv__gguf_fields_free(&f);
    return status;
}
