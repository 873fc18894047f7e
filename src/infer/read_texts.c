/* read_texts.c - many texts through an encoder, some thousand ids at a time. */
#include "infer/read_texts.h"

enum { BATCH_ROWS = 4096 }; /* ids that are read at once */

/* Adds a text; ids is room. */
static qkv_status read_texts_add(const qkv__text_reader *r, qkv__packed *p,
                                 const qkv_text_pair *text, qkv_ids *ids, size_t *cut)
{
    qkv_context *ctx = p->ctx;
    size_t second = 0;
    bool shorter = false;
    qkv_status status = qkv_corpus_encode(r->tokenizer, ctx, text, r->length, ids, &second,
                                          &shorter);
    for (size_t i = 0; i < ids->count && !status; i++)
        if (ids->data[i] < 0 || (size_t)ids->data[i] >= r->vocab)
            status = qkv_fail(ctx, QKV_E_ARGUMENT, "the text has token %d, the model only %zu",
                              (int)ids->data[i], r->vocab);
    if (!status && ids->count == 0)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "a text has no tokens");
    if (status)
        return status;
    qkv__packed_add(p, ids->data, second, 0);
    qkv__packed_add(p, ids->data + second, ids->count - second, 1);
    qkv__packed_end(p);
    *cut += shorter;
    return QKV_OK;
}

qkv_status qkv__read_texts(const qkv__text_reader *r, const qkv_text_pair *texts, size_t count,
                           qkv_real *out, size_t *cut)
{
    qkv_context *ctx = qkv_model_context(r->model);
    qkv_tape *tape = NULL;
    qkv__packed p = {.ctx = ctx};
    qkv_ids ids = {0};
    size_t done = 0, shorter = 0;
    qkv_status status = qkv_tape_create(&tape, ctx);
    for (size_t i = 0; i < count && !status; i++) {
        status = read_texts_add(r, &p, &texts[i], &ids, &shorter);
        if (status || (p.rows < BATCH_ROWS && i + 1 < count && !p.failed))
            continue;
        status = r->read(&p, r->model, tape, out + done * r->width);
        done = i + 1;
    }
    if (cut)
        *cut = shorter;
    qkv_tape_destroy(tape);
    qkv__packed_free(&p);
    qkv_ids_free(&ids, ctx);
    return status;
}
