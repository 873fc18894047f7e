/* chat_template.c - where a model directory keeps its template and its special tokens. */
#include "text/chat_template.h"

#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "qkv/file.h"
#include "qkv/gguf.h"
#include "tokenizer/object.h"

enum { LONGEST_FILE = 1 << 20 };

/* The library's own. */
static const struct {
    const char *name, *source;
} own[] = {
    {"chatml", "{%- for message in messages %}\n"
               "    {{- '<|im_start|>' + message.role + '\\n' + message.content }}\n"
               "    {{- '<|im_end|>\\n' }}\n"
               "{%- endfor %}\n"
               "{%- if add_generation_prompt %}\n"
               "    {{- '<|im_start|>assistant\\n' }}\n"
               "{%- endif %}\n"},
};

/* ---- special tokens -------------------------------------------------------------------------- */

/* A token is a string, or an object with its "content". */
static qkv_status read_special(const qkv__json *file, const char *key, json_t *tokens)
{
    const char *text = NULL;
    qkv__json object;
    if (!qkv__json_has(file, key))
        return QKV_OK;
    qkv_status status = QKV_OK;
    if (json_is_object(json_object_get(file->value, key))) {
        status = qkv__json_get_object(file, key, &object);
        if (!status)
            status = qkv__json_get_string(&object, "content", &text);
    } else {
        status = qkv__json_get_string(file, key, &text);
    }
    if (!status && !json_object_get(tokens, key) &&
        json_object_set_new(tokens, key, json_string(text)))
        status = qkv_fail(file->ctx, QKV_E_MEMORY, "out of memory for a chat template");
    return status;
}

static qkv_status read_tokens(const qkv__json *file, json_t *tokens)
{
    static const char *const keys[] = {
#define TOKEN_KEY(name, key) key,
        QKV_TOKEN_LIST(TOKEN_KEY)
#undef TOKEN_KEY
    };
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !status; i++)
        status = read_special(file, keys[i], tokens);
    return status;
}

/* ---- places of a template -------------------------------------------------------------------- */

static qkv_status set_source(qkv_chat_template *t, const char *file, const char *source,
                             size_t length)
{
    t->source = qkv_malloc(t->ctx, length + 1);
    if (!t->source)
        return QKV_E_MEMORY;
    memcpy(t->source, source, length);
    t->source[length] = 0;
    t->length = length;
    return qkv__jinja_open(&t->jinja, t->ctx, file, t->source, length);
}

static qkv_status read_jinja_file(qkv_chat_template *t, const char *file)
{
    char *text;
    size_t length;
    qkv_status status = qkv_file_read(t->ctx, file, LONGEST_FILE, &text, &length);
    if (status)
        return status;
    status = set_source(t, file, text, length);
    qkv_free(t->ctx, text);
    return status;
}

/* [{"name": "default", "template": ".."}, ..] */
static qkv_status read_named(qkv_chat_template *t, const qkv__json *file)
{
    qkv__json list, one;
    qkv_status status = qkv__json_get_array(file, "chat_template", &list);
    for (size_t i = 0; !status && i < qkv__json_count(&list); i++) {
        const char *name, *source;
        qkv__json_item(&list, i, &one);
        status = qkv__json_get_string(&one, "name", &name);
        if (!status)
            status = qkv__json_get_string(&one, "template", &source);
        if (!status && strcmp(name, "default") == 0 && !t->jinja)
            status = set_source(t, file->file, source, strlen(source));
        else if (!status && strcmp(name, "tool_use") == 0 && !t->with_tools)
            status = qkv__jinja_open(&t->with_tools, t->ctx, file->file, source, strlen(source));
    }
    if (!status && !t->jinja)
        status = qkv__json_fail(file, "chat_template",
                                "a template of the name \"default\" expected");
    return status;
}

static qkv_status read_template_field(qkv_chat_template *t, const qkv__json *file)
{
    const char *source;
    if (!qkv__json_has(file, "chat_template"))
        return QKV_OK;
    if (json_is_array(json_object_get(file->value, "chat_template")))
        return read_named(t, file);
    qkv_status status = qkv__json_get_string(file, "chat_template", &source);
    return status ? status : set_source(t, file->file, source, strlen(source));
}

/* What the JSON file of that name in dir has: tokens, or the template unless it was found. */
static qkv_status read_json_file(qkv_chat_template *t, const char *dir, const char *name)
{
    const qkv_path path = qkv_path_in(dir, name);
    qkv__json file = {0};
    if (!qkv_file_exists(path.text))
        return QKV_OK;
    qkv_status status = qkv__json_load(&file, t->ctx, path.text);
    if (!status)
        status = read_tokens(&file, t->tokens);
    if (!status && !t->jinja)
        status = read_template_field(t, &file);
    qkv__json_free(&file);
    return status;
}

static qkv_status template_alloc(qkv_chat_template **out, qkv_context *ctx)
{
    qkv_chat_template *t = *out = qkv_calloc(ctx, 1, sizeof *t);
    if (!t)
        return QKV_E_MEMORY;
    t->ctx = ctx;
    t->tokens = json_object();
    return t->tokens ? QKV_OK : qkv_fail(ctx, QKV_E_MEMORY, "out of memory for a chat template");
}

static qkv_status template_finish(qkv_chat_template **out, qkv_status status)
{
    if (status) {
        qkv_chat_template_close(*out);
        *out = NULL;
    }
    return status;
}

/* A GGUF file's tokenizer says what tokenizer_config.json would. */
static qkv_status read_gguf(qkv_chat_template *t, const char *path)
{
    qkv_tokenizer *tokenizer;
    qkv_status status = qkv_tokenizer_load(&tokenizer, t->ctx, path);
    if (status)
        return status;
    qkv__json config = tokenizer->config;
    config.file = path;
    status = read_tokens(&config, t->tokens);
    if (!status && !t->jinja)
        status = read_template_field(t, &config);
    qkv_tokenizer_destroy(tokenizer);
    return status;
}

/* Tokens, and the template unless it was found. */
static qkv_status read_directory(qkv_chat_template *t, const char *dir)
{
    static const char *const files[] = {"chat_template.json", "tokenizer_config.json",
                                        "special_tokens_map.json"};
    qkv_status status = QKV_OK;
    if (qkv_gguf_is(dir))
        return read_gguf(t, dir);
    for (size_t i = 0; i < sizeof files / sizeof *files && !status; i++)
        status = read_json_file(t, dir, files[i]);
    return status;
}

qkv_status qkv_chat_template_open(qkv_chat_template **out, qkv_context *ctx, const char *dir)
{
    const qkv_path path = qkv_path_in(dir, "chat_template.jinja");
    qkv_status status = template_alloc(out, ctx);
    if (!status && qkv_file_exists(path.text))
        status = read_jinja_file(*out, path.text);
    if (!status)
        status = read_directory(*out, dir);
    if (!status && !(*out)->jinja)
        status = qkv_fail(ctx, QKV_E_IO, "%s: a chat template expected, in %s, found none", dir,
                          qkv_gguf_is(dir) ? "tokenizer.chat_template"
                                           : "chat_template.jinja or tokenizer_config.json");
    return template_finish(out, status);
}

qkv_status qkv_chat_template_load(qkv_chat_template **out, qkv_context *ctx, const char *file,
                                  const char *dir)
{
    qkv_status status = template_alloc(out, ctx);
    for (size_t i = 0; i < sizeof own / sizeof *own && !status; i++)
        if (!qkv_file_exists(file) && strcmp(file, own[i].name) == 0)
            status = set_source(*out, file, own[i].source, strlen(own[i].source));
    if (!status && !(*out)->jinja)
        status = read_jinja_file(*out, file);
    if (!status && dir)
        status = read_directory(*out, dir);
    return template_finish(out, status);
}

void qkv_chat_template_close(qkv_chat_template *t)
{
    if (!t)
        return;
    qkv__jinja_close(t->jinja);
    qkv__jinja_close(t->with_tools);
    json_decref(t->tokens);
    qkv_free(t->ctx, t->source);
    qkv_free(t->ctx, t);
}

qkv_status qkv_chat_template_save(const qkv_chat_template *t, const char *dir)
{
    const qkv_path path = qkv_path_in(dir, "chat_template.jinja");
    return qkv_file_write(t->ctx, path.text, t->source, t->length);
}
