/* info_predict.h - what the files of `qkv info` share. */
#ifndef QKV_CMD_FILES_INFO_PREDICT_H
#define QKV_CMD_FILES_INFO_PREDICT_H

#include "bench/bench.h"

/* Answers how much memory that training step takes, without taking it. An exit code. */
int info_predict(cli *c, const bench_step *step);

#endif
