/* pairs.h - sentence pairs: two text files, line by line translations of each other. */
#ifndef QKV_CMD_TRAIN_PAIRS_H
#define QKV_CMD_TRAIN_PAIRS_H

#include "core/cli.h"
#include "text/texts.h"
#include "qkv/model.h"
#include "qkv/records.h"

enum { CLI_SOURCE, CLI_TARGET, CLI_SIDES };

/* Zeroed: none. */
typedef struct {
    qkv_texts text[CLI_SIDES];
    size_t lines; /* of each */
} cli_pairs;

/* Unequal numbers of lines are an error. Close p after a failure too. */
qkv_status cli_pairs_open(cli_pairs *p, cli *c, const char *source, const char *target);
void cli_pairs_close(cli_pairs *p);

/* One side up to line `lines`. */
qkv_text_part cli_pairs_text(const cli_pairs *p, int side, size_t lines);

/* Lines [from, to) as records for the translator: ids of the source and of the target, each with
 * the token that ends it; in a file at path, or in memory when it is NULL. Pairs with an empty
 * side, or one longer than the model's positions, are left out, and a note says how many. */
qkv_status cli_pairs_records(const cli_pairs *p, cli *c, const qkv_model *model,
                             qkv_tokenizer *tokenizer, size_t from, size_t to, const char *path,
                             qkv_records **out);

#endif
