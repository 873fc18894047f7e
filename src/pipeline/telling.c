/* telling.c - how the caller of a generation hears of its continuations, piece by piece. */
#include "pipeline/pipeline.h"
#include "pipeline/prompts.h"

static void telling_hand_on(qkv__telling *t, size_t index, qkv_generated piece)
{
    piece.index = index;
    piece.text = t->piece.data ? t->piece.data : "";
    piece.len = t->piece.len;
    t->stopped = !t->fn(t->user, &piece) || t->stopped;
    t->piece.len = 0;
}

qkv_status qkv__tell_prompt(qkv__telling *t, size_t index, const qkv_ids *prompt)
{
    qkv_status status = QKV_OK;
    if (!t->stream)
        status = qkv_tokenizer_stream_create(&t->stream, t->p->tokenizer, QKV_DECODE_SKIP_SPECIAL);
    if (!status)
        status = qkv_tokenizer_decode(t->p->tokenizer, prompt->data, prompt->count,
                                      QKV_DECODE_SKIP_SPECIAL, &t->piece);
    if (!status)
        telling_hand_on(t, index, (qkv_generated){.kind = QKV_GENERATED_PROMPT});
    return status;
}

void qkv__tell_token(qkv__telling *t, size_t index, qkv_generated token)
{
    token.kind = QKV_GENERATED_TOKEN;
    if (qkv_tokenizer_stream_put(t->stream, token.id, &t->piece))
        t->piece.len = 0;
    telling_hand_on(t, index, token);
}

qkv_status qkv__tell_end(qkv__telling *t, size_t index, const qkv_ids *made)
{
    qkv_text whole = {0};
    qkv_status status = qkv_tokenizer_decode(t->p->tokenizer, made->data, made->count,
                                             QKV_DECODE_SKIP_SPECIAL | QKV_DECODE_VALID, &whole);
    if (!status)
        status = qkv_tokenizer_stream_end(t->stream, &t->piece);
    if (!status)
        telling_hand_on(t, index, (qkv_generated){.kind = QKV_GENERATED_END, .ids = made,
                                                  .continuation = &whole});
    qkv_text_free(&whole, t->p->ctx);
    return status;
}

void qkv__telling_free(qkv__telling *t)
{
    qkv_tokenizer_stream_destroy(t->stream);
    qkv_text_free(&t->piece, t->p->ctx);
}
