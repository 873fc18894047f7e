/* options.h - what every call with options has: a table of them, and defaults. */
#ifndef QKV_SRC_PIPELINE_OPTIONS_H
#define QKV_SRC_PIPELINE_OPTIONS_H

#include "base/base.h"
#include "qkv/options.h"

/* Defines call_table() and call_defaults() for the call_options that `rows` describe. */
#define QKV__OPTIONS(call, title)                                                              \
    static const qkv_option_table table = {title, rows, sizeof rows / sizeof *rows,            \
                                           sizeof(call##_options)};                            \
    const qkv_option_table *call##_table(void) { return &table; }                              \
    call##_options call##_defaults(void)                                                       \
    {                                                                                          \
        call##_options o;                                                                      \
        qkv_option_defaults(&table, &o);                                                       \
        return o;                                                                              \
    }

/* How tokens are drawn: rows of a struct with `greedy` and `sampling`. */
#define QKV__SAMPLING_ROWS                                                                     \
    {.flag = "greedy", .key = "greedy", .type = QKV_OPT_BOOL, FIELD(greedy),                   \
     .help = "always the likeliest token"},                                                    \
    {.flag = "temperature", .key = "temperature", .type = QKV_OPT_REAL, .max = 100,            \
     FIELD(sampling.temperature), .initial = "0.8",                                            \
     .help = "above 1 wilder, below 1 tamer; 0: greedy"},                                      \
    {.flag = "top-k", .key = "top_k", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(sampling.top_k), \
     .initial = "0", .help = "only the k likeliest tokens; 0: all"},                           \
    {.flag = "top-p", .key = "top_p", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,  \
     FIELD(sampling.top_p), .initial = "1",                                                    \
     .help = "only the likeliest that make up p together"},                                    \
    {.flag = "min-p", .key = "min_p", .type = QKV_OPT_REAL, .max = 1, FIELD(sampling.min_p),   \
     .initial = "0", .help = "only tokens above p times the likeliest"},                       \
    {.flag = "repetition-penalty", .key = "repetition_penalty", .type = QKV_OPT_REAL,          \
     .flags = QKV_OPT_ABOVE, .max = 100, FIELD(sampling.repetition_penalty), .initial = "1",   \
     .help = "above 1: what was there becomes less likely"},                                   \
    {.flag = "no-repeat-ngram", .key = "no_repeat_ngram", .type = QKV_OPT_SIZE, .max = 1e6,    \
     FIELD(sampling.no_repeat_ngram), .initial = "0", .help = "never the same n tokens twice"}

#endif
