/* train.h - what every `qkv train KIND` does: a job of the library's from arguments. */
#ifndef QKV_CMD_TRAIN_TRAIN_H
#define QKV_CMD_TRAIN_TRAIN_H

#include "core/cli.h"

/* Runs the job that the command names, shows how it goes, answers. An exit code. */
int train_run(cli *c, int argc, char **argv);

#endif
