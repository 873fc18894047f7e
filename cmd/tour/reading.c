/* reading.c - chapters of the tour: an encoder-decoder learns to read dates and numbers that
 * are written in many ways, a character at a time. */
#include "tour/reading.h"

enum { ALPHABET_PAIRS = 2000, HOLD_OUT_EVERY = 10 };

/* ---- pairs -------------------------------------------------------------------------------- */

static bool is_held_out(uint32_t value)
{
    return qkv_hash64(&value, sizeof value) % HOLD_OUT_EVERY == 0;
}

void tour_pair_init(tour_pair *p, qkv_context *ctx)
{
    *p = (tour_pair){0};
    qkv_str_init(&p->source, ctx);
    qkv_str_init(&p->target, ctx);
}

void tour_pair_free(tour_pair *p, qkv_context *ctx)
{
    qkv_str_free(&p->source);
    qkv_str_free(&p->target);
    qkv_ids_free(&p->source_ids, ctx);
    qkv_ids_free(&p->target_ids, ctx);
}

void tour_pair_draw(tour_pair *p, const tour_script *s, qkv_rng *r, bool held_out)
{
    do
        p->value = s->draw(r);
    while (is_held_out(p->value) != held_out);
    p->form = qkv_rng_below(r, (uint32_t)s->forms);
    qkv_str_clear(&p->source);
    qkv_str_clear(&p->target);
    s->write(&p->source, p->value, p->form, r);
    s->answer(&p->target, p->value);
}

static qkv_status reading_encode(const tour_reader *reader, const qkv_str *text, qkv_ids *out)
{
    out->count = 0;
    if (text->failed)
        return QKV_E_MEMORY;
    qkv_status status = qkv_tokenizer_encode(reader->tokenizer, text->data, text->len, 0, out);
    return status ? status : qkv_ids_add(out, reader->ctx, reader->eos);
}

qkv_status tour_pair_encode(tour_pair *p, const tour_reader *reader)
{
    qkv_status status = reading_encode(reader, &p->source, &p->source_ids);
    return status ? status : reading_encode(reader, &p->target, &p->target_ids);
}

/* ---- before ------------------------------------------------------------------------------- */

/* The alphabet is the characters of the first pairs: all there are. */
qkv_status tour_reader_open(tour_reader *reader, tour *t, const tour_script *script)
{
    const qkv_vocabulary kind = {.kind = QKV_TOKENIZER_CHAR};
    qkv_str text;
    qkv_rng r;
    tour_pair p;
    *reader = (tour_reader){.t = t, .ctx = t->page->c->ctx, .script = script,
                            .seed = t->page->c->common.seed};
    qkv_str_init(&text, reader->ctx);
    qkv_rng_init(&r, reader->seed, TOUR_TRAIN_STREAM);
    tour_pair_init(&p, reader->ctx);
    for (int i = 0; i < ALPHABET_PAIRS; i++) {
        tour_pair_draw(&p, script, &r, false);
        qkv_str_add(&text, p.source.data, p.source.len);
        qkv_str_add(&text, p.target.data, p.target.len);
    }
    const qkv_text_span part = {text.data, text.len, NULL, 0};
    qkv_status status = text.failed ? QKV_E_MEMORY
                                    : qkv_train_tokenizer(&reader->tokenizer, reader->ctx, &part, 1,
                                                          QKV_VOCABULARY_TRANSLATE, &kind, NULL);
    if (!status) {
        reader->eos = qkv_tokenizer_special(reader->tokenizer, QKV_TOKEN_EOS);
        reader->pad = qkv_tokenizer_special(reader->tokenizer, QKV_TOKEN_PAD);
        status = qkv_tokenizer_save(reader->tokenizer, t->dir);
    }
    tour_pair_free(&p, reader->ctx);
    qkv_str_free(&text);
    return status;
}

void tour_reader_close(tour_reader *reader)
{
    qkv_model_destroy(reader->model);
    qkv_tokenizer_destroy(reader->tokenizer);
}
