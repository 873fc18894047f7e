/* config_rows.h - rows of a model's configuration table, in one line each. Before including it,
 * define CONFIG as the type of the struct that the table describes. */
#ifndef QKV_SRC_MODEL_CONFIG_ROWS_H
#define QKV_SRC_MODEL_CONFIG_ROWS_H

#include "model/model.h"

enum { QKV__MOST_SIZE = 16777216 };

#define FIELD(member) .offset = offsetof(CONFIG, member)
#define SIZE_ROW(key_, member, least, initial_, help_)                                         \
    {.key = key_, .type = QKV_OPT_SIZE, .min = least, .max = QKV__MOST_SIZE, FIELD(member),    \
     .initial = initial_, .help = help_}
#define REAL_ROW(key_, member, most, initial_, help_)                                          \
    {.key = key_, .type = QKV_OPT_REAL, .max = most, FIELD(member), .initial = initial_,       \
     .help = help_}
/* A dropout rate, in [0, 1). */
#define RATE_ROW(key_, member, initial_, help_)                                                \
    {.key = key_, .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1, FIELD(member),       \
     .initial = initial_, .help = help_}
#define BOOL_ROW(key_, member, initial_, help_)                                                \
    {.key = key_, .type = QKV_OPT_BOOL, FIELD(member), .initial = initial_, .help = help_}
#define ENUM_ROW(key_, member, names_, initial_, help_)                                        \
    {.key = key_, .type = QKV_OPT_ENUM, FIELD(member), .names = names_, .initial = initial_,   \
     .help = help_}
/* A token id; -1: none. */
#define TOKEN_ROW(key_, member, initial_, help_)                                               \
    {.key = key_, .type = QKV_OPT_INT, .flags = QKV_OPT_NULL, .min = -1,                       \
     .max = QKV__MOST_SIZE - 1, FIELD(member), .initial = initial_, .help = help_}
/* What qkv__init_range makes of it is written back. */
#define INIT_ROW(key_, member, rule)                                                           \
    REAL_ROW(key_, member, 10, "0", "deviation of initial weights; 0: " rule)

#endif
