/* gguf_tokenizer.c - a tokenizer out of the fields of a GGUF file, and as such fields. */
#include <string.h>

#include "tokenizer/gguf_kinds.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* tokenizer_config.json as it would be written, with the template that the file may have. */
static qkv_status set_config(qkv_tokenizer *t, const qkv__gguf *g)
{
    json_t *template = NULL;
    qkv_json_writer w;
    qkv_status status = qkv__gguf_read_template(&template, g);
    if (status)
        return status;
    qkv_json_writer_init(&w, t->ctx, -1);
    qkv__tokenizer_put_config(t, &w);
    const char *text = qkv_json_writer_text(&w);
    status = text ? qkv__json_parse(&t->config, t->ctx, qkv__gguf_path(g), text, strlen(text))
                  : QKV_E_MEMORY;
    qkv_json_writer_free(&w);
    t->config.file = NULL; /* the file goes */
    if (status)
        json_decref(template);
    else if (template && json_object_set_new(t->config.value, "chat_template", template))
        status = QKV_E_MEMORY;
    return status;
}

static const struct {
    const char *name; /* tokenizer.ggml.model */
    qkv_status (*read)(qkv_tokenizer **out, qkv__gguf_reading *f);
} kinds[] = {{"gpt2", qkv__gguf_read_bpe}, {"llama", qkv__gguf_read_spm},
             {"t5", qkv__gguf_read_unigram}, {"bert", qkv__gguf_read_words}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static qkv_status read_kind(qkv_tokenizer **out, const qkv__gguf *g, const char *kind)
{
    qkv__gguf_reading f = {.g = g, .ctx = qkv__gguf_context(g)};
    size_t i = 0;
    while (i < KINDS && strcmp(kinds[i].name, kind) != 0)
        i++;
    if (i == KINDS)
        return qkv__gguf_fail(g, QKV__FIELD("model"), "expected \"gpt2\", \"llama\", \"t5\" or "
                              "\"bert\", found \"%.60s\"", kind);
    for (int role = 0; role < QKV_TOKEN_ROLES; role++)
        f.roles[role] = -1;
    qkv__vocab_init(&f.vocab, f.ctx);
    qkv_status status = qkv__gguf_read_lists(&f);
    if (!status)
        status = kinds[i].read(out, &f);
    for (size_t role = 0; role < QKV_TOKEN_ROLES && !status; role++)
        (*out)->special[role] = f.roles[role];
    qkv__vocab_free(&f.vocab);
    qkv_ids_free(&f.pairs, f.ctx);
    return status ? status : set_config(*out, g);
}

qkv_status qkv__tokenizer_from_gguf(qkv_tokenizer **out, const qkv__gguf *g)
{
    const char *kind = "none";
    *out = NULL;
    qkv_status status = qkv__gguf_opt_string(g, QKV__FIELD("model"), &kind);
    if (status || strcmp(kind, "none") == 0 || strcmp(kind, "no_vocab") == 0)
        return status;
    status = read_kind(out, g, kind);
    if (status) {
        qkv_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static qkv_status gguf_write_kind(qkv__gguf_writing *w)
{
    const qkv_tokenizer *t = w->t;
    if (t->kind == &qkv__model_wordpiece)
        return qkv__gguf_write_words(w);
    if (t->kind == &qkv__model_unigram)
        return qkv__gguf_write_unigram(w);
    if (t->kind == &qkv__model_bpe && t->splitter.byte_level)
        return qkv__gguf_write_bpe(w);
    if (t->kind == &qkv__model_bpe || t->kind == &qkv__model_spm_bpe)
        return qkv__gguf_write_spm(w);
    return qkv_fail(w->o->ctx, QKV_E_UNSUPPORTED, "%s/tokenizer.json: a GGUF file has no place for "
                    "a %s tokenizer", w->o->dir, t->kind->name);
}

qkv_status qkv__tokenizer_to_gguf(const qkv_tokenizer *t, qkv__gguf_fields *f,
                                  const qkv__gguf_tokenizer_options *o)
{
    qkv__gguf_writing w = {.t = t, .f = f, .o = o};
    if (!t) {
        qkv__gguf_put_string(f, QKV__FIELD("model"), "none");
        return QKV_OK;
    }
    qkv_status status = qkv__gguf_take_types(&w);
    if (!status)
        status = gguf_write_kind(&w);
    if (!status)
        status = qkv__gguf_put_processor(&w);
    if (!status)
        qkv__gguf_put_template(f, o->ctx, o->chat_template,
                               json_object_get(t->config.value, "chat_template"));
    qkv_free(o->ctx, w.scores);
    qkv_free(o->ctx, w.types);
    return status;
}
