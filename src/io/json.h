/* json.h - JSON in (jansson, with errors that name file and field) and out (ordered text).
 *
 * Reading: a qkv__json is a place in a document; getters take a place and a key, or key NULL
 * for the value at the place itself. A getter whose name has _opt_ leaves *out alone when the
 * field is absent or null, so that *out holds the default before.
 * Writing: begin, put, end, in the order in which the text shall stand. */
#ifndef QKV_SRC_IO_JSON_H
#define QKV_SRC_IO_JSON_H

#include <jansson.h>

#include "base/base.h"

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

/* indent 2 looks as Python's json.dumps(indent=2) does, indent 0 is one line, indent -1 one line
 * without spaces. The key is NULL inside arrays and at the top. Strings that are not UTF-8 get
 * U+FFFD for what is wrong; reals that are not finite become null. A failed allocation is told
 * at the end. */
typedef struct {
    qkv_str text;
    int indent, depth;
    bool first; /* nothing yet inside the innermost bracket */
} qkv_json_writer;

void qkv_json_writer_init(qkv_json_writer *w, qkv_context *ctx, int indent);
void qkv_json_writer_free(qkv_json_writer *w);
void qkv_json_begin_object(qkv_json_writer *w, const char *key);
void qkv_json_end_object(qkv_json_writer *w);
void qkv_json_begin_array(qkv_json_writer *w, const char *key);
void qkv_json_end_array(qkv_json_writer *w);
void qkv_json_put_string(qkv_json_writer *w, const char *key, const char *value);
void qkv_json_put_bytes(qkv_json_writer *w, const char *key, const char *value, size_t length);
void qkv_json_put_int(qkv_json_writer *w, const char *key, int64_t value);
void qkv_json_put_real(qkv_json_writer *w, const char *key, double value);
void qkv_json_put_float(qkv_json_writer *w, const char *key, float value); /* fewer digits */
void qkv_json_put_bool(qkv_json_writer *w, const char *key, bool value);
void qkv_json_put_null(qkv_json_writer *w, const char *key);
void qkv__json_put_value(qkv_json_writer *w, const char *key, const json_t *value);

/* The text so far, valid until the next call; NULL after a failed allocation. */
const char *qkv_json_writer_text(const qkv_json_writer *w);
/* Writes text and a newline to the file, atomically, and frees the writer in any case. */
qkv_status qkv_json_writer_save(qkv_json_writer *w, const char *file);

#endif
