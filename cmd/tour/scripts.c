/* scripts.c - the chapters in which an encoder-decoder learns to read a script. */
#include <math.h>

#include "tour/reading.h"

enum { LAYERS = 2, WIDTH = 64, HEADS = 4, BUDGET = 3072 /* ids in an update: 65 numbers */ };
/* So many that few are met twice; but no more than so many in all. */
static const double PAIRS_PER_SECOND = 3000, MOST_PAIRS = 500000;
static const double TRAINING_SHARE = 0.9; /* of the chapter's time; the rest is evaluating */

static qkv_status make_records(const tour_reader *reader, size_t pairs, qkv_records **out)
{
    qkv_records_writer *w = NULL;
    qkv_rng r;
    tour_pair p;
    qkv_rng_init(&r, reader->seed, TOUR_TRAIN_STREAM);
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

static qkv_status scripts_make_model(tour_reader *reader)
{
    qkv_marian_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_translator_type()), &c);
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
    return tour_make(&reader->model, reader->t, qkv_translator_type(), &c);
}

/* ---- the chapter -------------------------------------------------------------------------- */

static void scripts_introduce(const tour_reader *reader, const qkv_records *records, double seconds)
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
    page_text(p, "One %s in ten is held out: it is in training in no form, and is used for "
                 "evaluation.",
              reader->script->one);
}

static qkv_status scripts_learn(const tour_reader *reader)
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
        scripts_introduce(reader, records, seconds);
        status = tour_train(&training, reader->t, &task, &s, reader->t->dir, seconds);
    }
    if (!status && !training.result.stopped)
        tour_training_show(&training, reader->t,
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
        status = scripts_make_model(&reader);
    if (!status)
        status = scripts_learn(&reader);
    if (!status && !cli_stopped())
        status = tour_reading_show(&reader);
    tour_reader_close(&reader);
    return status;
}

qkv_status tour_dates(tour *t) { return read_script(t, &tour_dates_script); }
qkv_status tour_numbers(tour *t) { return read_script(t, &tour_numbers_script); }
