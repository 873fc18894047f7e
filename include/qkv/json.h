/* json.h - a JSON writer.
 * Layer: io
 *
 *     qkv_json_writer w;
 *     qkv_json_writer_init(&w, ctx, 2);
 *     qkv_json_begin_object(&w, NULL);
 *     qkv_json_put_int(&w, "tokens", 120);
 *     qkv_json_end_object(&w);
 *     if (qkv_json_writer_text(&w))
 *         puts(qkv_json_writer_text(&w));
 *     qkv_json_writer_free(&w);                                                                */
#ifndef QKV_JSON_H
#define QKV_JSON_H

#include <qkv/string.h>

QKV_BEGIN_DECLS

/* indent 2: formatted as Python's json.dumps(indent=2); 0: one line; -1: one line without spaces.
 * Inside arrays and at the top level key is NULL. U+FFFD replaces invalid UTF-8. Reals that are not
 * finite become null. A failed allocation is reported by qkv_json_writer_text and _save. */
typedef struct {
    qkv_str text;
    int indent, depth;
    bool first; /* the innermost object or array is still empty */
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
void qkv_json_put_float(qkv_json_writer *w, const char *key, float value); /* digits of a float */
void qkv_json_put_bool(qkv_json_writer *w, const char *key, bool value);
void qkv_json_put_null(qkv_json_writer *w, const char *key);
/* A value that is JSON text already. */
void qkv_json_put_text(qkv_json_writer *w, const char *key, const char *json);
/* Arrays. */
void qkv_json_put_strings(qkv_json_writer *w, const char *key, const char *const *values,
                          size_t count);
void qkv_json_put_reals(qkv_json_writer *w, const char *key, const double *values, size_t count);
void qkv_json_put_sizes(qkv_json_writer *w, const char *key, const size_t *values, size_t count);
void qkv_json_put_ids(qkv_json_writer *w, const char *key, const int32_t *values, size_t count);

/* The text so far, valid until the next call; NULL if an allocation failed. */
const char *qkv_json_writer_text(const qkv_json_writer *w);
/* Writes the text and a newline to the file, atomically. Always frees the writer. */
qkv_status qkv_json_writer_save(qkv_json_writer *w, const char *file);

QKV_END_DECLS
#endif
