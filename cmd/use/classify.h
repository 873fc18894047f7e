/* classify.h - the two halves of `qkv train classify` and of `qkv classify`: texts and pictures. */
#ifndef QKV_CMD_USE_CLASSIFY_H
#define QKV_CMD_USE_CLASSIFY_H

#include "core/cli.h"
#include "qkv/pipeline.h"

/* Options of both kinds of training. */
typedef struct {
    const char *data, *valid, *valid_last, *model;
    double smoothing;
} cli_classify_options;
extern const qkv_option_table cli_classify_table;

/* ---- pictures: train_recognize.c, recognize.c ----------------------------------------------- */

int cli_train_recognize(cli *c, int argc, char **argv);
/* Their own options, and the fields of their models. */
extern const qkv_option_table cli_recognize_table, cli_recognizer_table;

/* Answers for each of the paths (count): pictures, or what holds some. Those that cannot be read
 * are named and passed over. An exit code: CLI_FAILED when there were any. */
int cli_recognize(cli *c, qkv_pipeline *p, const char *const *paths, size_t count);

#endif
