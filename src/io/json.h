/* json.h - JSON in (jansson, with errors that name file and field) and out (ordered text).
 *
 * Reading: a qkv__json is a place in a document; getters take a place and a key, or key NULL
 * for the value at the place itself. A getter whose name has _opt_ leaves *out alone when the
 * field is absent or null, so that *out holds the default before.
 * Writing is in qkv/json.h. */
#ifndef QKV_SRC_IO_JSON_H
#define QKV_SRC_IO_JSON_H

#include <jansson.h>

#include "base/base.h"
#include "qkv/json.h"

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    const char *file; /* named in messages */
    json_t *value;    /* borrowed, but for the place that load or parse filled */
    char path[120];   /* "model.vocab"; "" at the root; cut when longer */
} qkv__json;

/* The document of a file. Duplicate keys are refused. Strings may hold U+0000. When an integer
 * does not fit 64 bits all integers of the document become reals. The file's name must outlive
 * the document. On failure out->value is NULL. */
qkv_status qkv__json_load(qkv__json *out, qkv_context *ctx, const char *file);
/* The same from memory; name stands for the file in messages. */
qkv_status qkv__json_parse(qkv__json *out, qkv_context *ctx, const char *name, const char *text,
                           size_t length);
void qkv__json_free(qkv__json *document); /* what load or parse filled, or a zeroed one */

bool qkv__json_has(const qkv__json *at, const char *key); /* present and not null */

qkv_status qkv__json_get_string(const qkv__json *at, const char *key, const char **out);
qkv_status qkv__json_get_int(const qkv__json *at, const char *key, int64_t min, int64_t max,
                             int64_t *out); /* 3.0 is an integer too */
qkv_status qkv__json_get_real(const qkv__json *at, const char *key, double min, double max,
                              double *out);
qkv_status qkv__json_get_bool(const qkv__json *at, const char *key, bool *out);
qkv_status qkv__json_get_object(const qkv__json *at, const char *key, qkv__json *out);
qkv_status qkv__json_get_array(const qkv__json *at, const char *key, qkv__json *out);

qkv_status qkv__json_opt_string(const qkv__json *at, const char *key, const char **out);
qkv_status qkv__json_opt_int(const qkv__json *at, const char *key, int64_t min, int64_t max,
                             int64_t *out);
qkv_status qkv__json_opt_real(const qkv__json *at, const char *key, double min, double max,
                              double *out);
qkv_status qkv__json_opt_bool(const qkv__json *at, const char *key, bool *out);

/* Element i of the array at a place (i < qkv__json_count). */
size_t qkv__json_count(const qkv__json *at); /* of an array or object; else 0 */
void qkv__json_item(const qkv__json *array, size_t i, qkv__json *out);

/* Records "FILE: field "model.vocab": <what>" for the field at the key (NULL: the place). */
qkv_status qkv__json_fail(const qkv__json *at, const char *key, const char *fmt, ...)
    QKV_PRINTF(3, 4);

/* ---- writing -------------------------------------------------------------------------------- */

/* Bytes of the well-formed UTF-8 sequence at s (Unicode table 3-7), 0 when there is none;
 * left > 0. */
size_t qkv__utf8_length(const unsigned char *s, size_t left);

/* A value that was read, with all in it. */
void qkv__json_put_value(qkv_json_writer *w, const char *key, const json_t *value);

#endif
