/* embed.c - vectors of texts, from an encoder that was trained for them. */
#include "model/model.h"
#include "qkv/infer.h"
#include "task/vectors.h"

enum { BATCH_ROWS = 4096 }; /* ids that are read at once */

static qkv_status embed_add(qkv_model *m, qkv_tokenizer *t, qkv__packed *p, const qkv_line *text,
                            qkv_ids *ids, size_t *cut)
{
    const qkv_text_pair alone = {.text = text->data, .len = text->len};
    qkv_context *ctx = qkv_model_context(m);
    size_t second = 0, vocab, length;
    bool shorter = false;
    qkv__vector_limits(m, &vocab, &length);
    qkv_status status = qkv_corpus_encode(t, ctx, &alone, length, ids, &second, &shorter);
    for (size_t i = 0; i < ids->count && !status; i++)
        if (ids->data[i] < 0 || (size_t)ids->data[i] >= vocab)
            status = qkv_fail(ctx, QKV_E_ARGUMENT, "the text has token %d, the model only %zu",
                              (int)ids->data[i], vocab);
    if (!status && ids->count == 0)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "a text has no tokens");
    if (status)
        return status;
    qkv__packed_add(p, ids->data, ids->count, 0);
    qkv__packed_end(p);
    *cut += shorter;
    return QKV_OK;
}

qkv_status qkv_embed_texts(qkv_model *m, qkv_tokenizer *t, const qkv_line *texts, size_t count,
                           qkv_real *out, size_t *cut)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_EMBED_TEXT | QKV_CAN_EMBED_BOTH))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    size_t width = qkv__vector_width(m), done = 0, shorter = 0;
    qkv_tape *tape = NULL;
    qkv__packed p = {.ctx = ctx};
    qkv_ids ids = {0};
    qkv_status status = qkv_tape_create(&tape, ctx);
    for (size_t i = 0; i < count && !status; i++) {
        status = embed_add(m, t, &p, &texts[i], &ids, &shorter);
        if (status || (p.rows < BATCH_ROWS && i + 1 < count && !p.failed))
            continue;
        status = qkv__text_vectors_read(&p, m, tape, true, out + done * width);
        done = i + 1;
    }
    if (cut)
        *cut = shorter;
    qkv_tape_destroy(tape);
    qkv__packed_free(&p);
    qkv_ids_free(&ids, ctx);
    return status;
}
