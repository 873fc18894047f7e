/* options.h - what parts of option tables share beside qkv/options.h. */
#ifndef QKV_SRC_BASE_OPTIONS_H
#define QKV_SRC_BASE_OPTIONS_H

#include "base/base.h"
#include "qkv/options.h"

/* QKV_OK when every field of target is what its row takes, as text would have had to be; else
 * QKV_E_ARGUMENT, and the sentence begins with `what`. */
qkv_status qkv__options_check(qkv_context *ctx, const qkv_option_table *table, const void *target,
                              const char *what);

/* QKV_E_ARGUMENT, with a sentence, while a required field was not given. */
qkv_status qkv__options_complete(qkv_options *o);

/* Insertions, deletions, changes and swaps of neighbours between two words (both at most 63
 * bytes; longer ones count as far). */
size_t qkv__edit_distance(const char *a, const char *b);

#endif
