/* gguf_template.c - the template of chats: a text, or several with names, in a GGUF file and in
 * tokenizer_config.json. */
#include <string.h>

#include "tokenizer/gguf.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* {"name": .., "template": ..} of those that have a name of their own. */
static qkv_status add_named(json_t *list, const qkv__gguf *g, const qkv__gguf_field *names,
                            size_t i)
{
    qkv_str key;
    size_t len;
    const char *name = qkv__gguf_text(names, i, &len), *text = NULL;
    qkv_str_init(&key, qkv__gguf_context(g));
    qkv_str_puts(&key, "tokenizer.chat_template.");
    qkv_str_add(&key, name, len);
    qkv_status status = key.failed ? QKV_E_MEMORY : qkv__gguf_opt_string(g, key.data, &text);
    if (!status && text &&
        json_array_append_new(list, json_pack("{s:s%, s:s}", "name", name, len, "template", text)))
        status = qkv__gguf_fail(g, "tokenizer.chat_templates", "name %zu is not text in UTF-8", i);
    qkv_str_free(&key);
    return status;
}

qkv_status qkv__gguf_read_template(json_t **out, const qkv__gguf *g)
{
    const char *text = NULL;
    const qkv__gguf_field *names = NULL;
    *out = NULL;
    qkv_status status = qkv__gguf_opt_string(g, "tokenizer.chat_template", &text);
    if (!status)
        status = qkv__gguf_opt_strings(g, "tokenizer.chat_templates", &names);
    if (status || (!text && !names))
        return status;
    if (!names) {
        *out = json_string(text);
        return *out ? QKV_OK : qkv__gguf_fail(g, "tokenizer.chat_template", "out of memory");
    }
    *out = text ? json_pack("[{s:s, s:s}]", "name", "default", "template", text) : json_array();
    for (size_t i = 0; i < names->count && !status; i++)
        status = add_named(*out, g, names, i);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_named(qkv__gguf_fields *f, qkv_context *ctx, const json_t *list)
{
    size_t named = 0;
    qkv_str key;
    qkv_str_init(&key, ctx);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *text = json_string_value(json_object_get(item, "template"));
        if (!name || !text)
            continue;
        const bool usual = strcmp(name, "default") == 0;
        named += !usual;
        qkv_str_clear(&key);
        qkv_str_printf(&key, "tokenizer.chat_template%s%s", usual ? "" : ".", usual ? "" : name);
        if (key.failed)
            f->bytes.failed = true;
        else
            qkv__gguf_put_string(f, key.data, text);
    }
    qkv_str_free(&key);
    if (named)
        qkv__gguf_put_array(f, "tokenizer.chat_templates", QKV__GGUF_STRING, named);
    for (size_t i = 0; named && i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && json_is_string(json_object_get(item, "template")) &&
            strcmp(name, "default") != 0)
            qkv__gguf_item_string(f, name, strlen(name));
    }
}

void qkv__gguf_put_template(qkv__gguf_fields *f, qkv_context *ctx, const char *text,
                            const json_t *own)
{
    if (!text)
        text = json_string_value(own);
    if (text)
        qkv__gguf_put_string(f, "tokenizer.chat_template", text);
    else
        put_named(f, ctx, own);
}
