/* json_options.h - structs described by option tables, in and out of JSON. */
#ifndef QKV_SRC_IO_JSON_OPTIONS_H
#define QKV_SRC_IO_JSON_OPTIONS_H

#include "io/json.h"
#include "qkv/options.h"

/* Puts what it gets into the object that is open in w, its user. */
qkv_option_sink qkv__json_option_sink(qkv_json_writer *w);

/* Puts every field that has a key into the object that is open in w. */
void qkv__json_put_options(qkv_json_writer *w, const qkv_option_table *table, const void *target);

/* Fills the fields of one bound table (NULL: of all) from an object; absent and null fields
 * keep what they hold, unknown keys are ignored. */
qkv_status qkv__json_get_options(const qkv__json *at, qkv_options *o,
                                 const qkv_option_table *table);

#endif
