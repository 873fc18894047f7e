/* info_predict.h - what the files of `qkv info` share. */
#ifndef QKV_CMD_FILES_INFO_PREDICT_H
#define QKV_CMD_FILES_INFO_PREDICT_H

#include "bench/bench.h"

/* Over how many ranks the step is cut, and the decay of the average of the weights (0: none). */
typedef struct {
    size_t ranks;
    double ema;
} info_ranks;

/* Answers how much memory that training step takes, without taking it. An exit code. */
int info_predict(cli *c, const bench_step *step, const info_ranks *ranks);

#endif
