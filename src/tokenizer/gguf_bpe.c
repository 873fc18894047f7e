/* gguf_bpe.c - byte-level BPE in GGUF files: "gpt2". */
#include <string.h>

#include "tokenizer/gguf_kinds.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* "left right": the space is not the first character. */
static qkv_status add_gguf_merge(qkv__gguf_reading *f, size_t i)
{
    size_t len;
    const char *text = qkv__gguf_text(f->merges, i, &len);
    const char *space = len > 1 ? memchr(text + 1, ' ', len - 1) : NULL;
    if (space) {
        const size_t left = (size_t)(space - text);
        const int32_t a = qkv__vocab_find(&f->vocab, text, left);
        const int32_t b = qkv__vocab_find(&f->vocab, space + 1, len - left - 1);
        if (a >= 0 && b >= 0)
            return qkv__ids_push(f->ctx, &f->pairs, a) && qkv__ids_push(f->ctx, &f->pairs, b)
                       ? QKV_OK
                       : QKV_E_MEMORY;
    }
    return qkv__gguf_fail(f->g, QKV__FIELD("merges"), "merge %zu: expected two tokens with a space "
                          "between, found \"%.*s\"", i, len < 60 ? (int)len : 60, text);
}

qkv_status qkv__gguf_read_bpe(qkv_tokenizer **out, qkv__gguf_reading *f)
{
    const char *name = "default";
    qkv_status status = qkv__gguf_opt_string(f->g, QKV__FIELD("pre"), &name);
    const qkv__gguf_pre *pre = status ? NULL : qkv__gguf_pre_named(name);
    if (!status && !pre)
        return qkv__gguf_fail(f->g, QKV__FIELD("pre"),
                              "\"%.60s\" is no pre-tokenizer that qkv knows", name);
    if (!status && !f->merges)
        return qkv__gguf_fail(f->g, QKV__FIELD("merges"), "is missing");
    if (status)
        return status;
    f->add_bos = pre->add_bos;
    status = qkv__gguf_read_roles(f);
    if (f->add_sep && f->roles[QKV_TOKEN_CLS] < 0) /* RoBERTa's, which files call bos alone */
        f->roles[QKV_TOKEN_CLS] = f->roles[QKV_TOKEN_BOS];
    if (!status)
        status = qkv__gguf_add_tokens(f);
    for (size_t i = 0; i < f->merges->count && !status; i++)
        status = add_gguf_merge(f, i);
    if (status)
        return status;
    json_t *post = qkv__spec_byte_level(true);
    if (f->add_bos || f->add_eos)
        post = json_pack("{s:s, s:[o, o]}", "type", "Sequence", "processors", post,
                         qkv__gguf_processor(f));
    json_t *spec = qkv__spec(qkv__gguf_added_tokens(f), qkv__gguf_pre_normalizer(pre),
                             qkv__gguf_pre_splitter(pre), post, qkv__spec_byte_level(true),
                             qkv__gguf_bpe_model(NULL, false, pre->ignore_merges));
    return qkv__tokenizer_build(out, qkv__gguf_path(f->g), spec, &f->vocab, &f->pairs);
}

/* ---- writing --------------------------------------------------------------------------------- */

static qkv_status gguf_put_merges(const qkv__gguf_writing *w)
{
    const qkv__merges *m = qkv__bpe_merges(w->t);
    bool spaces = false;
    qkv_str merge;
    qkv_str_init(&merge, w->o->ctx);
    qkv__gguf_put_array(w->f, QKV__FIELD("merges"), QKV__GGUF_STRING, m->count);
    for (size_t i = 0; i < m->count; i++) {
        qkv_str_clear(&merge);
        for (int side = 0; side < 2; side++) {
            size_t len;
            const char *text = qkv__vocab_text(&w->t->vocab, m->pairs[i][side], &len);
            spaces = spaces || memchr(text, ' ', len);
            qkv_str_puts(&merge, side ? " " : "");
            qkv_str_add(&merge, text, len);
        }
        if (merge.failed)
            w->f->bytes.failed = true;
        else
            qkv__gguf_item_string(w->f, merge.data, merge.len);
    }
    qkv_str_free(&merge);
    return spaces ? qkv__gguf_refuse(w, "model.merges, of tokens with spaces") : QKV_OK;
}

qkv_status qkv__gguf_write_bpe(qkv__gguf_writing *w)
{
    const qkv__gguf_pre *pre = qkv__gguf_pre_of(w->t);
    if (w->t->word_end)
        return qkv__gguf_refuse(w, "model.end_of_word_suffix");
    if (!pre)
        return qkv__gguf_refuse(w, "pre_tokenizer, with normalizer and model.ignore_merges");
    qkv__gguf_put_tokens(w, "gpt2", pre->name, false);
    return gguf_put_merges(w);
}
