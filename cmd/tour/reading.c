/* reading.c - chapters of the tour: an encoder-decoder learns to read dates and numbers that
 * are written in many ways, a character at a time. */
#include <math.h>

#include "tour/reading.h"
#include "job/vocabulary.h"
#include "qkv/records.h"

enum { ALPHABET_PAIRS = 2000, HOLD_OUT_EVERY = 10, STREAM_TRAIN = 0x70 };
enum { LAYERS = 2, WIDTH = 64, HEADS = 4, BUDGET = 3072 /* ids in an update: 65 numbers */ };
/* So many that few are met twice; but no more than so many in all. */
static const double PAIRS_PER_SECOND = 3000, MOST_PAIRS = 500000;
static const double TRAINING_SHARE = 0.9; /* of the chapter's time; the rest is judging */

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
    qkv_ids_free(ctx, &p->source_ids);
    qkv_ids_free(ctx, &p->target_ids);
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

static qkv_status encode(const tour_reader *reader, const qkv_str *text, qkv_ids *out)
{
    out->count = 0;
    if (text->failed)
        return QKV_E_MEMORY;
    qkv_status status = qkv_tokenizer_encode(reader->tokenizer, text->data, text->len, 0, out);
    return status ? status : qkv_ids_add(reader->ctx, out, reader->eos);
}

qkv_status tour_pair_encode(tour_pair *p, const tour_reader *reader)
{
    qkv_status status = encode(reader, &p->source, &p->source_ids);
    return status ? status : encode(reader, &p->target, &p->target_ids);
}

/* ---- before ------------------------------------------------------------------------------- */

/* The alphabet is the characters of the first pairs: all there are. */
qkv_status tour_reader_open(tour_reader *reader, tour *t, const tour_script *script)
{
    const qkv__vocabulary kind = {.kind = QKV_TOKENIZER_CHAR};
    const unsigned roles = QKV__TRANSLATE_ROLES;
    qkv_str text;
    qkv_rng r;
    tour_pair p;
    *reader = (tour_reader){.t = t, .ctx = t->page->c->ctx, .script = script,
                            .seed = t->page->c->common.seed};
    qkv_str_init(&text, reader->ctx);
    qkv_rng_init(&r, reader->seed, STREAM_TRAIN);
    tour_pair_init(&p, reader->ctx);
    for (int i = 0; i < ALPHABET_PAIRS; i++) {
        tour_pair_draw(&p, script, &r, false);
        qkv_str_add(&text, p.source.data, p.source.len);
        qkv_str_add(&text, p.target.data, p.target.len);
    }
    const qkv_text_part part = {text.data, text.len, NULL, 0};
    qkv_status status = text.failed ? QKV_E_MEMORY
                                    : qkv__vocabulary_train(t->page->c->ctx, &kind, NULL, roles,
                                                            &part, 1, NULL, 0, &reader->tokenizer);
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

static qkv_status make_records(const tour_reader *reader, size_t pairs, qkv_records **out)
{
    qkv_records_writer *w = NULL;
    qkv_rng r;
    tour_pair p;
    qkv_rng_init(&r, reader->seed, STREAM_TRAIN);
    tour_pair_init(&p, reader->ctx);
    qkv_status status = qkv_records_create(&w, reader->ctx, NULL, 2);
    for (size_t i = 0; i < pairs && !status; i++) {
        tour_pair_draw(&p, reader->script, &r, false);
        status = tour_pair_encode(&p, reader);
        if (!status)
            status = qkv_records_add(w, p.source_ids.data, p.source_ids.count);
        if (!status)
            status = qkv_records_add(w, p.target_ids.data, p.target_ids.count);
    }
    tour_pair_free(&p, reader->ctx);
    if (!status)
        return qkv_records_finish(w, out);
    qkv_records_abandon(w);
    return status;
}

static qkv_status make_model(tour_reader *reader)
{
    qkv_marian_config c;
    qkv_option_defaults(qkv_model_type_config(&qkv_translator_type), &c);
    c.vocab = qkv_tokenizer_vocab_size(reader->tokenizer);
    c.positions = TOUR_SOURCE;
    c.width = WIDTH;
    c.encoder_layers = LAYERS;
    c.decoder_layers = LAYERS;
    c.encoder_heads = c.decoder_heads = HEADS;
    c.dropout = 0; /* hardly a text comes twice */
    c.init_range = 1 / sqrt(WIDTH); /* with the default, a third of it, numbers take far longer */
    c.eos = reader->eos;
    c.pad = c.start = reader->pad;
    qkv_status status = qkv_model_create(&reader->model, reader->ctx, &qkv_translator_type, &c);
    return status ? status : qkv_model_init(reader->model, reader->seed);
}

/* ---- the chapter -------------------------------------------------------------------------- */

static void introduce(const tour_reader *reader, const qkv_records *records, double seconds)
{
    const page *p = reader->t->page;
    const qkv_marian_config *c = qkv_model_config(reader->model);
    page_text(p, "%s", reader->script->introduction);
    page_text(p, "The model: an encoder of %zu layers reads the text, a decoder of %zu writes the "
                 "answer and looks back at what was read, %zu channels, %zu parameters, all random "
                 "at first. A letter is a token; nothing is known of words, months or the order of "
                 "digits. It learns from pairs for %.0f seconds; %zu are at hand.",
              c->encoder_layers, c->decoder_layers, c->width,
              qkv_params_elements(qkv_model_params(reader->model)), seconds,
              qkv_records_count(records));
    page_text(p, "One %s in ten is held out: it is in training in no form, and judges.",
              reader->script->one);
}

static qkv_status learn(const tour_reader *reader)
{
    const double seconds = TRAINING_SHARE * reader->t->seconds;
    const qkv_translate_options o = {.budget = BUDGET};
    qkv_records *records = NULL;
    qkv_task task = {0};
    tour_training training;
    qkv_training s = qkv_training_defaults();
    s.loop.batch = 1; /* a pack of pairs */
    s.schedule.lr = qkv_training_rate(WIDTH);
    const size_t pairs = (size_t)fmin(PAIRS_PER_SECOND * seconds, MOST_PAIRS);
    qkv_status status = make_records(reader, pairs, &records);
    if (!status)
        status = qkv_task_translate(&task, reader->model, records, NULL, &o, reader->seed);
    if (!status) {
        introduce(reader, records, seconds);
        status = tour_train(&training, reader->t, &task, &s, reader->t->dir, seconds);
    }
    if (!status && !training.result.stopped)
        tour_training_show(&training, reader->t->page,
                           "Training loss, nats a character, over the time:");
    qkv_task_destroy(&task);
    qkv_records_close(records);
    return status;
}

static qkv_status read_script(tour *t, const tour_script *script)
{
    tour_reader reader;
    qkv_status status = tour_reader_open(&reader, t, script);
    if (!status)
        status = make_model(&reader);
    if (!status)
        status = learn(&reader);
    if (!status && !cli_stopped())
        status = tour_reading_show(&reader);
    tour_reader_close(&reader);
    return status;
}

qkv_status tour_dates(tour *t) { return read_script(t, &tour_dates_script); }
qkv_status tour_numbers(tour *t) { return read_script(t, &tour_numbers_script); }
