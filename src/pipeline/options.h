/* options.h - what every call with options has: a table of them, and defaults. */
#ifndef QKV_SRC_PIPELINE_OPTIONS_H
#define QKV_SRC_PIPELINE_OPTIONS_H

#include "base/base.h"

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

#endif
