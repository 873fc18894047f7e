/* tokenizer_json.c - tokenizer.json: every part by its name, and back. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "data/tokenizer.h"

/* ---- normalizers --------------------------------------------------------------------- */

static int normal_form(const char *in, size_t len, qkv__str *out, int options)
{
    utf8proc_uint8_t *text = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)in, (utf8proc_ssize_t)len, &text,
                                      (utf8proc_option_t)(options | UTF8PROC_STABLE));
    if (n >= 0)
        qkv__str_add(out, (const char *)text, (size_t)n);
    free(text);
    return n >= 0;
}

static int nfc(const char *in, size_t len, qkv__str *out)
{
    return normal_form(in, len, out, UTF8PROC_COMPOSE);
}

static int nfd(const char *in, size_t len, qkv__str *out)
{
    return normal_form(in, len, out, UTF8PROC_DECOMPOSE);
}

static int nfkc(const char *in, size_t len, qkv__str *out)
{
    return normal_form(in, len, out, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
}

static int nfkd(const char *in, size_t len, qkv__str *out)
{
    return normal_form(in, len, out, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
}

static const struct {
    const char *name;
    int (*run)(const char *in, size_t len, qkv__str *out);
} normalizers[] = {
    {"NFC", nfc},
    {"NFD", nfd},
    {"NFKC", nfkc},
    {"NFKD", nfkd},
};

static qkv_status read_normalizer(qkv_tokenizer *t, const qkv__json *at)
{
    const char *type;
    qkv__json list;
    qkv_status status = qkv__json_get_string(at, "type", &type);
    if (status)
        return status;
    if (strcmp(type, "Sequence") == 0) {
        status = qkv__json_get_array(at, "normalizers", &list);
        size_t count = status ? 0 : qkv__json_count(&list);
        if (count > 1)
            return qkv__json_fail(at, "normalizers", "more than one is not supported");
        qkv__json item;
        if (count == 1)
            qkv__json_item(&list, 0, &item);
        return count == 1 ? read_normalizer(t, &item) : status;
    }
    for (size_t i = 0; i < sizeof normalizers / sizeof *normalizers; i++)
        if (strcmp(type, normalizers[i].name) == 0) {
            t->normalize = normalizers[i].run;
            return QKV_OK;
        }
    return qkv__json_fail(at, "type", "\"%.40s\" is no normalizer that qkv knows", type);
}

/* ---- post-processors ----------------------------------------------------------------- */

/* The ids of one special token of a template: before the text into prefix, after into suffix. */
static qkv_status read_template_token(qkv_tokenizer *t, const qkv__json *tokens,
                                      const qkv__json *use, qkv_ids *out)
{
    const char *name = NULL;
    qkv__json token, ids;
    qkv_status status = qkv__json_get_string(use, "id", &name);
    if (!status)
        status = qkv__json_get_object(tokens, name, &token);
    if (!status)
        status = qkv__json_get_array(&token, "ids", &ids);
    size_t count = status ? 0 : qkv__json_count(&ids);
    for (size_t i = 0; !status && i < count; i++) {
        qkv__json item;
        int64_t id = 0;
        qkv__json_item(&ids, i, &item);
        status = qkv__json_get_int(&item, NULL, 0, QKV_TOKENIZER_ID_LIMIT - 1, &id);
        if (!status && !qkv_tokenizer_token(t, (int32_t)id, NULL))
            status = qkv__json_fail(&item, NULL, "%d is the id of no token", (int)id);
        if (!status && !qkv__ids_push(t->ctx, out, (int32_t)id))
            status = QKV_E_MEMORY;
    }
    return status;
}

static qkv_status read_template(qkv_tokenizer *t, const qkv__json *at)
{
    qkv__json single, tokens, use;
    qkv_status status = qkv__json_get_array(at, "single", &single);
    if (!status)
        status = qkv__json_get_object(at, "special_tokens", &tokens);
    bool after = false;
    size_t count = status ? 0 : qkv__json_count(&single);
    for (size_t i = 0; !status && i < count; i++) {
        qkv__json item;
        qkv__json_item(&single, i, &item);
        if (qkv__json_has(&item, "Sequence")) {
            if (after)
                return qkv__json_fail(&item, NULL, "the text stands twice in the template");
            after = true;
            continue;
        }
        status = qkv__json_get_object(&item, "SpecialToken", &use);
        if (!status)
            status = read_template_token(t, &tokens, &use, after ? &t->suffix : &t->prefix);
    }
    if (!status && !after)
        status = qkv__json_fail(&single, NULL, "the text does not stand in the template");
    return status;
}

/* ByteLevel only moves offsets, which qkv does not give. */
static qkv_status read_nothing(qkv_tokenizer *t, const qkv__json *at)
{
    (void)t;
    (void)at;
    return QKV_OK;
}

static const struct {
    const char *name;
    qkv_status (*read)(qkv_tokenizer *t, const qkv__json *at);
} post_processors[] = {
    {"TemplateProcessing", read_template},
    {"ByteLevel", read_nothing},
};

static qkv_status read_post_processor(qkv_tokenizer *t, const qkv__json *at)
{
    const char *type;
    qkv_status status = qkv__json_get_string(at, "type", &type);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof post_processors / sizeof *post_processors; i++)
        if (strcmp(type, post_processors[i].name) == 0)
            return post_processors[i].read(t, at);
    return qkv__json_fail(at, "type", "\"%.40s\" is no post-processor that qkv knows", type);
}

static qkv_status read_post(qkv_tokenizer *t, const qkv__json *at)
{
    const char *type;
    qkv__json list;
    qkv_status status = qkv__json_get_string(at, "type", &type);
    if (status || strcmp(type, "Sequence") != 0)
        return status ? status : read_post_processor(t, at);
    status = qkv__json_get_array(at, "processors", &list);
    size_t count = status ? 0 : qkv__json_count(&list);
    for (size_t i = 0; !status && i < count; i++) {
        qkv__json item;
        qkv__json_item(&list, i, &item);
        status = read_post_processor(t, &item);
    }
    return status;
}

/* ---- the rest ------------------------------------------------------------------------ */

static const qkv__model_kind *const models[] = {&qkv__model_bpe, &qkv__model_words};

static qkv_status read_model(qkv_tokenizer *t, const qkv__json *at)
{
    const char *type = NULL;
    qkv__json vocab;
    qkv_status status = qkv__json_opt_string(at, "type", &type);
    if (status)
        return status;
    if (!type) /* old files do not say it: only BPE has merges */
        type = qkv__json_has(at, "merges") ? "BPE" : "nothing";
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (strcmp(type, models[i]->name) != 0)
            continue;
        status = t->files ? qkv__json_get_object(&t->files->vocab, NULL, &vocab)
                          : qkv__json_get_object(at, "vocab", &vocab);
        if (!status)
            status = qkv__vocab_read(&t->vocab, &vocab);
        return status ? status : models[i]->read(t, at);
    }
    return qkv__json_fail(at, "type", "\"%.40s\" is no tokenizer model that qkv knows", type);
}

static qkv_status read_decoder(qkv_tokenizer *t, const qkv__json *at)
{
    t->decoder.spaced = false;
    return qkv__decoder_read(&t->decoder, at);
}

static qkv_status read_splitter(qkv_tokenizer *t, const qkv__json *at)
{
    return qkv__splitter_read(&t->splitter, t->ctx, at);
}

/* In the order in which they need each other: the model asks the splitter whether pieces are
 * bytes, a template asks for tokens. */
static const struct {
    const char *key;
    qkv_status (*read)(qkv_tokenizer *t, const qkv__json *at);
} parts[] = {
    {"normalizer", read_normalizer}, {"pre_tokenizer", read_splitter}, {"model", read_model},
    {"post_processor", read_post},   {"decoder", read_decoder},
};

qkv_status qkv__tokenizer_read_spec(qkv_tokenizer *t)
{
    qkv__json at;
    qkv_status status = qkv__json_get_object(&t->spec, "model", &at);
    t->decoder.spaced = true;
    for (size_t i = 0; !status && i < sizeof parts / sizeof *parts; i++) {
        bool is_model = strcmp(parts[i].key, "model") == 0;
        if (!qkv__json_has(&t->spec, parts[i].key))
            continue;
        status = qkv__json_get_object(&t->spec, parts[i].key, &at);
        if (!status)
            status = parts[i].read(t, &at);
        if (!status && is_model && qkv__json_has(&t->spec, "added_tokens")) {
            status = qkv__json_get_array(&t->spec, "added_tokens", &at);
            if (!status)
                status = qkv__added_read(&t->added, &t->vocab, &at);
        }
    }
    if (status)
        return status;
    json_t *model = json_object_get(t->spec.value, "model");
    json_object_del(model, "vocab");
    json_object_del(model, "merges");
    return QKV_OK;
}
