/* gguf_write.c - what all kinds of tokenizers write into a GGUF file. */
#include <string.h>

#include "tokenizer/gguf_kinds.h"

qkv_status qkv__gguf_refuse(const qkv__gguf_writing *w, const char *part)
{
    return qkv_fail(w->o->ctx, QKV_E_UNSUPPORTED, "%s/tokenizer.json: %s: a GGUF file has no place "
                    "for this one", w->o->dir, part);
}

/* ---- around a text --------------------------------------------------------------------------- */

/* RoBERTa's: bos A eos eos B eos. */
static bool is_roberta(const qkv__template *x, int32_t bos, int32_t eos)
{
    const int32_t ids[] = {bos, QKV__TEXT_A, eos, eos, QKV__TEXT_B, eos};
    bool same = x->count == sizeof ids / sizeof *ids;
    for (size_t i = 0; i < x->count && same; i++)
        same = x->items[i].id == ids[i];
    return same;
}

/* At most bos (CLS where there is none) before a text and eos (SEP of WordPiece) behind, which are
 * the ids that the file has for them. */
qkv_status qkv__gguf_put_processor(const qkv__gguf_writing *w)
{
    const qkv_tokenizer *t = w->t;
    const qkv__template *x = &t->templates.single;
    const bool words = t->kind == &qkv__model_wordpiece;
    const int32_t bos = t->special[t->special[QKV_TOKEN_BOS] < 0 ? QKV_TOKEN_CLS : QKV_TOKEN_BOS];
    const int32_t eos = t->special[words ? QKV_TOKEN_SEP : QKV_TOKEN_EOS];
    bool before = false, behind = false, text = false;
    for (size_t i = 0; i < x->count; i++) {
        const int32_t id = x->items[i].id;
        bool *side = text ? &behind : &before;
        if (id == QKV__TEXT_A) {
            text = true;
            continue;
        }
        if (*side || id != (text ? eos : bos))
            return qkv__gguf_refuse(w, "post_processor");
        *side = true;
    }
    if (words)
        return before && behind ? QKV_OK : qkv__gguf_refuse(w, "post_processor");
    qkv__gguf_put_bool(w->f, QKV__FIELD("add_bos_token"), before);
    qkv__gguf_put_bool(w->f, QKV__FIELD("add_eos_token"), behind);
    if (before && behind && is_roberta(&t->templates.pair, bos, eos))
        qkv__gguf_put_bool(w->f, QKV__FIELD("add_sep_token"), true);
    return QKV_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* What a GGUF file does not have, and llama.cpp does without. */
static void note_stripping(const qkv__gguf_writing *w)
{
    const qkv__added *a = &w->t->added;
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].lstrip || a->list[i].rstrip || a->list[i].single_word)
            qkv__note(w->o->ctx, "lstrip, rstrip and single_word of the token \"%s\" have no place "
                      "in a GGUF file", qkv_tokenizer_token(w->t, a->list[i].id, NULL));
}

qkv_status qkv__gguf_take_types(qkv__gguf_writing *w)
{
    const size_t count = qkv_tokenizer_vocab_size(w->t);
    if (count > w->o->count)
        return qkv_fail(w->o->ctx, QKV_E_FORMAT, "%s: the tokenizer has %zu tokens, the model %zu",
                        w->o->dir, count, w->o->count);
    w->types = qkv_calloc(w->o->ctx, w->o->count + 1, sizeof *w->types);
    if (!w->types)
        return QKV_E_MEMORY;
    for (size_t id = 0; id < w->o->count; id++) {
        const qkv__added_token *a = qkv__added_find(&w->t->added, (int32_t)id);
        const bool is = qkv_tokenizer_token(w->t, (int32_t)id, NULL) != NULL;
        w->types[id] = !is          ? QKV__GGUF_UNUSED
                       : !a         ? QKV__GGUF_NORMAL
                       : a->special ? QKV__GGUF_CONTROL
                                    : QKV__GGUF_USER;
    }
    note_stripping(w);
    return QKV_OK;
}

static void put_token(const qkv__gguf_writing *w, size_t id, bool words)
{
    char filler[QKV__GGUF_FILLER];
    size_t len;
    const char *text = qkv_tokenizer_token(w->t, (int32_t)id, &len);
    if (!text) {
        len = qkv__gguf_filler(filler, id);
        text = filler;
    }
    if (!words || w->types[id] != QKV__GGUF_NORMAL) {
        qkv__gguf_item_string(w->f, text, len);
        return;
    }
    qkv_str marked; /* "##" continues a word here, a mark begins one there */
    qkv_str_init(&marked, w->o->ctx);
    const bool inside = len > 2 && memcmp(text, "##", 2) == 0;
    qkv_str_puts(&marked, inside ? "" : QKV__SPACE_MARK);
    qkv_str_add(&marked, text + (inside ? 2 : 0), len - (inside ? 2 : 0));
    if (marked.failed)
        w->f->bytes.failed = true;
    else
        qkv__gguf_item_string(w->f, marked.data, marked.len);
    qkv_str_free(&marked);
}

qkv_status qkv__gguf_new_scores(qkv__gguf_writing *w)
{
    w->scores = qkv_calloc(w->o->ctx, w->o->count + 1, sizeof *w->scores);
    return w->scores ? QKV_OK : QKV_E_MEMORY;
}

void qkv__gguf_put_tokens(const qkv__gguf_writing *w, const char *model, const char *pre,
                          bool words)
{
    qkv__gguf_put_string(w->f, QKV__FIELD("model"), model);
    qkv__gguf_put_string(w->f, QKV__FIELD("pre"), pre);
    qkv__gguf_put_array(w->f, QKV__FIELD("tokens"), QKV__GGUF_STRING, w->o->count);
    for (size_t id = 0; id < w->o->count; id++)
        put_token(w, id, words);
    if (w->scores) {
        qkv__gguf_put_array(w->f, QKV__FIELD("scores"), QKV__GGUF_F32, w->o->count);
        for (size_t id = 0; id < w->o->count; id++)
            qkv__gguf_item_f32(w->f, w->scores[id]);
    }
    qkv__gguf_put_array(w->f, QKV__FIELD("token_type"), QKV__GGUF_I32, w->o->count);
    for (size_t id = 0; id < w->o->count; id++)
        qkv__gguf_item_i32(w->f, w->types[id]);
}
