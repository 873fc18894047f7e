/* tables.h - the option tables themselves, for lists that are constant. */
#ifndef QKV_SRC_OPT_TABLES_H
#define QKV_SRC_OPT_TABLES_H

#include "qkv/options.h"

extern const qkv_option_table qkv__optimizer_table, qkv__schedule_table;

#endif
