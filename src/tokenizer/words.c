/* words.c - WordLevel: every piece is a token as it stands. With pieces of one
 * character each it is the character tokenizer. */
#include <string.h>

#include "tokenizer/bytes.h"
#include "tokenizer/models.h"

typedef struct {
    int32_t unk; /* -1: none */
} words;

static qkv_status words_read(qkv_tokenizer *t, const qkv__json *at)
{
    const char *unk = NULL;
    words *w = qkv_malloc(t->ctx, sizeof *w);
    if (!w)
        return QKV_E_MEMORY;
    w->unk = -1;
    t->kind = &qkv__model_words;
    t->model = w;
    qkv_status status = qkv__json_opt_string(at, "unk_token", &unk);
    if (!status && unk) /* the writer names one even where there is none */
        w->unk = qkv__vocab_find(&t->vocab, unk, strlen(unk));
    return status;
}

static qkv_status words_encode(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *out)
{
    const words *w = t->model;
    int32_t id;
    if (t->splitter.byte_level) {
        qkv_str chars;
        qkv_str_init(&chars, t->ctx);
        qkv__bytes_to_chars(&chars, piece, len);
        id = chars.failed ? -1 : qkv__vocab_find(&t->vocab, chars.data, chars.len);
        bool failed = chars.failed;
        qkv_str_free(&chars);
        if (failed)
            return QKV_E_MEMORY;
    } else {
        id = qkv__vocab_find(&t->vocab, piece, len);
    }
    if (id < 0)
        id = w->unk;
    if (id < 0)
        return qkv__tokenizer_unknown(t, piece, len);
    return qkv__ids_push(t->ctx, out, id) ? QKV_OK : QKV_E_MEMORY;
}

static void words_destroy(qkv_tokenizer *t)
{
    qkv_free(t->ctx, t->model);
}

const qkv__model_kind qkv__model_words = {"WordLevel", false, false, 0, words_read, words_encode,
                                          NULL,
                                           words_destroy};
