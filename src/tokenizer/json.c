/* json.c - tokenizer.json: every part by its name. */
#include "tokenizer/json.h"

#include <string.h>

#include "tokenizer/models.h"
#include "tokenizer/spec.h"

static const qkv__model_kind *const models[] = {&qkv__model_bpe, &qkv__model_words,
                                                &qkv__model_wordpiece, &qkv__model_unigram};

static qkv_status json_read_model(qkv_tokenizer *t, const qkv__json *at)
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
        if (!models[i]->writes_vocab)
            status = t->files ? qkv__json_get_object(&t->files->vocab, NULL, &vocab)
                              : qkv__json_get_object(at, "vocab", &vocab);
        if (!status && !models[i]->writes_vocab)
            status = qkv__vocab_read(&t->vocab, &vocab);
        return status ? status : models[i]->read(t, at);
    }
    return qkv__json_fail(at, "type", "\"%.40s\" is no tokenizer model that qkv knows", type);
}

static qkv_status json_read_normalizer(qkv_tokenizer *t, const qkv__json *at)
{
    return qkv__normalizer_read(&t->normalizer, at);
}

static qkv_status read_decoder(qkv_tokenizer *t, const qkv__json *at)
{
    t->decoder.spaced = false;
    return qkv__decoder_read(&t->decoder, at);
}

static qkv_status json_read_template(qkv_tokenizer *t, const qkv__json *at)
{
    const qkv__vocab *const tokens[2] = {&t->vocab, &t->added.names};
    return qkv__templates_read(&t->templates, t->ctx, tokens, at);
}

static qkv_status read_splitter(qkv_tokenizer *t, const qkv__json *at)
{
    return qkv__splitter_read(&t->splitter, at);
}

/* In the order in which they need each other: the model asks the splitter whether pieces are
 * bytes, a template asks for tokens. */
static const struct {
    const char *key;
    qkv_status (*read)(qkv_tokenizer *t, const qkv__json *at);
} parts[] = {
    {"normalizer", json_read_normalizer}, {"pre_tokenizer", read_splitter},
             {"model", json_read_model},
    {"post_processor", json_read_template}, {"decoder", read_decoder},
};

static qkv_status read_spec(qkv_tokenizer *t)
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
                status = qkv__added_read(&t->added, &t->vocab, &t->normalizer, &at);
        }
    }
    if (!status)
        status = qkv__templates_default(&t->templates, t->ctx);
    if (status)
        return status;
    json_t *model = json_object_get(t->spec.value, "model");
    json_object_del(model, "vocab");
    json_object_del(model, "merges");
    return QKV_OK;
}

qkv_status qkv__tokenizer_from_spec(qkv_tokenizer **out, qkv_context *ctx, const char *name,
                                    json_t *spec, const qkv__bpe_files *files)
{
    *out = NULL;
    qkv_tokenizer *t = qkv__tokenizer_new(ctx);
    if (!t || !spec) {
        json_decref(spec);
        qkv_tokenizer_destroy(t);
        return qkv_fail(ctx, QKV_E_MEMORY, "%s: out of memory", name);
    }
    t->spec = (qkv__json){.ctx = ctx, .file = name, .value = spec};
    t->files = files;
    qkv_status status = read_spec(t);
    t->spec.file = NULL; /* the caller's, and not needed any more */
    t->files = NULL;
    if (status)
        qkv_tokenizer_destroy(t);
    else
        *out = t;
    return status;
}

static json_t *merges_of(const qkv__vocab *v, const qkv_ids *merges)
{
    json_t *list = json_array();
    bool fine = true;
    for (size_t i = 0; i < merges->count && fine; i += 2) {
        size_t len;
        const char *left = qkv__vocab_text(v, merges->data[i], &len);
        const char *right = qkv__vocab_text(v, merges->data[i + 1], &len);
        fine = json_array_append_new(list, json_pack("[s, s]", left, right)) == 0;
    }
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

qkv_status qkv__tokenizer_build(qkv_tokenizer **out, const char *name, json_t *spec,
                                const qkv__vocab *v, const qkv_ids *merges)
{
    json_t *model = json_object_get(spec, "model");
    bool fine = json_object_set_new(model, "vocab", qkv__spec_vocab(v)) == 0;
    if (merges)
        fine = json_object_set_new(model, "merges", merges_of(v, merges)) == 0 && fine;
    if (!fine) {
        json_decref(spec);
        spec = NULL;
    }
    return qkv__tokenizer_from_spec(out, v->ctx, name, spec, NULL);
}

qkv_status qkv__tokenizer_parse(qkv_tokenizer **out, qkv_context *ctx, const char *name,
                                const char *text, size_t len)
{
    qkv__json document;
    *out = NULL;
    qkv_status status = qkv__json_parse(&document, ctx, name, text, len);
    return status ? status : qkv__tokenizer_from_spec(out, ctx, name, document.value, NULL);
}
