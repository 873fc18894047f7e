/* embed.c - vectors of texts, from an encoder that was trained for them. */
#include "infer/read_texts.h"
#include "model/model.h"
#include "qkv/infer.h"
#include "task/vectors.h"

/* The normalised vectors of p, which is emptied. */
static qkv_status embed_read(qkv__packed *p, qkv_model *m, qkv_tape *t, qkv_real *out)
{
    return qkv__text_vectors_read(p, m, t, true, out);
}

qkv_status qkv_embed_texts(qkv_model *m, qkv_tokenizer *t, const qkv_line *texts, size_t count,
                           qkv_real *out, size_t *cut)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_EMBED_TEXT | QKV_CAN_EMBED_BOTH))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    qkv__text_reader r = {.model = m, .tokenizer = t, .width = qkv__vector_width(m),
                          .read = embed_read};
    qkv__vector_limits(m, &r.vocab, &r.length);
    qkv_text_pair *alone = qkv_calloc(ctx, count, sizeof *alone);
    for (size_t i = 0; i < count && alone; i++)
        alone[i] = (qkv_text_pair){.text = texts[i].data, .len = texts[i].len};
    qkv_status status = alone ? qkv__read_texts(&r, alone, count, out, cut) : QKV_E_MEMORY;
    qkv_free(ctx, alone);
    return status;
}
