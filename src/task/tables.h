/* tables.h - the option tables themselves, for lists that are constant. */
#ifndef QKV_SRC_TASK_TABLES_H
#define QKV_SRC_TASK_TABLES_H

#include "qkv/options.h"

extern const qkv_option_table qkv__segment_table, qkv__colorize_table, qkv__codes_table;

#endif
