/* options.h - what parts of option tables share beside qkv/options.h. */
#ifndef QKV_SRC_BASE_OPTIONS_H
#define QKV_SRC_BASE_OPTIONS_H

#include "base/base.h"
#include "qkv/options.h"

/* QKV_E_ARGUMENT, with a sentence, while a required field was not given. */
qkv_status qkv__options_complete(qkv_options *o);

/* Insertions, deletions, changes and swaps of neighbours between two words (both at most 63
 * bytes; longer ones count as far). */
size_t qkv__edit_distance(const char *a, const char *b);

#endif
