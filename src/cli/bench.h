/* bench.h - what the commands of `qkv bench` share: how figures are shown, medians, random
 * models and numbers. */
#ifndef QKV_CLI_BENCH_H
#define QKV_CLI_BENCH_H

#include "cli/cli.h"
#include "qkv/gpt.h"

enum { BENCH_PEAK_PRODUCTS = 5 }; /* timed before the work and again after it */

typedef enum { BENCH_REAL, BENCH_COUNT, BENCH_PERCENT } bench_kind;

/* One row of an answer. */
typedef struct {
    const char *key;   /* in JSON: "of_peak", in base units */
    const char *label; /* in the table: "of the peak" */
    const char *unit;  /* in the table; "" for none */
    bench_kind kind;
    double value;
    double shown; /* the table divides by it: 1e6 for megabytes; 0 means 1 */
} bench_figure;

/* The figures, as JSON or as a table under the title and the processor's name. Exit code. */
int bench_answer(const cli *c, const char *title, const bench_figure *figures, size_t count);

double bench_median(double *seconds, size_t n); /* sorts them */

/* The products' limit so far: the larger of *peak and what is measured now. */
qkv_status bench_peak(const cli *c, double *peak);

/* A GPT-2 of that size with its vocabulary, random parameters, no dropout and at least
 * `positions` positions. */
qkv_status bench_model(const cli *c, qkv_model **out, const char *preset, size_t positions);

void bench_random_ids(int32_t *ids, size_t n, size_t vocab, uint64_t seed);

#endif
