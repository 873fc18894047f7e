/* reading.h - the chapters in which an encoder-decoder learns to read: what the files
 * tour_reading*.c share. */
#ifndef QKV_CMD_TOUR_READING_H
#define QKV_CMD_TOUR_READING_H

#include "tour/chapter.h"

enum { TOUR_SOURCE = 96, TOUR_TARGET = 16 }; /* longest texts in tokens, the last one counted */
enum { TOUR_TRAIN_STREAM = 0x70 }; /* of the pairs that are trained on */

/* A script, the pairs drawn from it, and the model that reads it. A character is a token. */
typedef struct {
    tour *t;
    qkv_context *ctx;
    const tour_script *script;
    uint64_t seed;
    qkv_tokenizer *tokenizer;
    int32_t eos, pad;
    qkv_model *model;
} tour_reader;

/* A value's text and what is to be read out of it. */
typedef struct {
    uint32_t value;
    size_t form;
    qkv_str source, target;
    qkv_ids source_ids, target_ids; /* each ends in eos */
} tour_pair;

/* Makes the tokenizer; the model is NULL. Closed even after a failure. */
qkv_status tour_reader_open(tour_reader *reader, tour *t, const tour_script *script);
void tour_reader_close(tour_reader *reader);

void tour_pair_init(tour_pair *p, qkv_context *ctx);
void tour_pair_free(tour_pair *p, qkv_context *ctx);
/* Draws a value that is held out from training, or one that is not, and writes it. */
void tour_pair_draw(tour_pair *p, const tour_script *s, qkv_rng *r, bool held_out);
qkv_status tour_pair_encode(tour_pair *p, const tour_reader *reader);

/* Has the model read held-out texts, and shows how many were right, some of both kinds, and where
 * it looked. */
qkv_status tour_reading_show(const tour_reader *reader);

#endif
