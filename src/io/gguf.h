/* gguf.h - GGUF files (ggml's): fields, tensors, the blocks that numbers are rounded in.
 *
 * A file is "GGUF", u32 version (2 or 3), u64 tensors, u64 fields; for each field its key, u32 kind
 * and value; for each tensor its name, u32 axes, their lengths from the innermost out, u32 type and
 * u64 offset; then the data, from a multiple of the alignment on. A text is its length, u64, and
 * its bytes. All is little-endian. Version 2 differs from 3 in nothing that is read here. */
#ifndef QKV_SRC_IO_GGUF_H
#define QKV_SRC_IO_GGUF_H

#include "base/base.h"
#include "io/file.h"
#include "io/gguf_types.h"
#include "qkv/gguf.h"

/* ---- reading --------------------------------------------------------------------------------- */

typedef enum {
    QKV__GGUF_U8, QKV__GGUF_I8, QKV__GGUF_U16, QKV__GGUF_I16, QKV__GGUF_U32, QKV__GGUF_I32,
    QKV__GGUF_F32, QKV__GGUF_BOOL, QKV__GGUF_STRING, QKV__GGUF_ARRAY, QKV__GGUF_U64,
    QKV__GGUF_I64, QKV__GGUF_F64, QKV__GGUF_KINDS
} qkv__gguf_kind;

/* A field. */
typedef struct {
    const char *key;
    qkv__gguf_kind kind; /* of the value, or of an array's */
    bool array;
    size_t count;           /* of an array; else 1 */
    const uint8_t *data;    /* the first value */
    const uint8_t **texts;  /* (count) of strings: each one's length and bytes; else NULL */
} qkv__gguf_field;

enum { QKV__GGUF_DIMS = 4 };
typedef struct {
    const char *name;
    const qkv__gguf_type *type;
    int ndim;
    size_t shape[QKV__GGUF_DIMS]; /* row-major: the innermost last */
    size_t count;
    const uint8_t *data;
} qkv__gguf_tensor;

typedef qkv_gguf qkv__gguf;

const char *qkv__gguf_path(const qkv__gguf *g);
qkv_context *qkv__gguf_context(const qkv__gguf *g);

/* Sorted by key, and by name. */
const qkv__gguf_field *qkv__gguf_field_at(const qkv__gguf *g, size_t i);
const qkv__gguf_field *qkv__gguf_find(const qkv__gguf *g, const char *key); /* NULL: none */

/* Fail with the field's name; those with _opt_ leave *out alone when there is none. A text ends in
 * a 0 and lives as long as g. */
qkv_status qkv__gguf_fail(const qkv__gguf *g, const char *key, const char *fmt, ...)
    QKV_PRINTF(3, 4);
qkv_status qkv__gguf_get_string(const qkv__gguf *g, const char *key, const char **out);
qkv_status qkv__gguf_opt_string(const qkv__gguf *g, const char *key, const char **out);
qkv_status qkv__gguf_opt_int(const qkv__gguf *g, const char *key, int64_t min, int64_t max,
                             int64_t *out);
/* A float as the shortest decimal that gives it. */
qkv_status qkv__gguf_opt_real(const qkv__gguf *g, const char *key, double *out);
qkv_status qkv__gguf_opt_bool(const qkv__gguf *g, const char *key, bool *out);
/* An array of strings, or of numbers; *out NULL: there is none. */
qkv_status qkv__gguf_opt_strings(const qkv__gguf *g, const char *key, const qkv__gguf_field **out);
qkv_status qkv__gguf_opt_numbers(const qkv__gguf *g, const char *key, const qkv__gguf_field **out);
/* i < count. The bytes of a string, which no 0 follows; a number of any kind. */
const char *qkv__gguf_text(const qkv__gguf_field *f, size_t i, size_t *len);
int64_t qkv__gguf_int(const qkv__gguf_field *f, size_t i);
double qkv__gguf_real(const qkv__gguf_field *f, size_t i);

const qkv__gguf_tensor *qkv__gguf_at(const qkv__gguf *g, size_t i);
const qkv__gguf_tensor *qkv__gguf_tensor_find(const qkv__gguf *g, const char *name);
/* Elements begin .. begin+count-1, row-major. QKV_E_UNSUPPORTED, with the tensor's name: its type
 * is not read. */
qkv_status qkv__gguf_read(const qkv__gguf *g, const qkv__gguf_tensor *t, size_t begin, size_t count,
                          qkv_real *out);

/* ---- writing --------------------------------------------------------------------------------- */

/* Fields in the order in which they are put. */
typedef struct {
    qkv_str bytes;
    size_t count;
} qkv__gguf_fields;

void qkv__gguf_fields_init(qkv__gguf_fields *f, qkv_context *ctx);
void qkv__gguf_fields_free(qkv__gguf_fields *f);
void qkv__gguf_put_u32(qkv__gguf_fields *f, const char *key, uint32_t value);
void qkv__gguf_put_f32(qkv__gguf_fields *f, const char *key, float value);
void qkv__gguf_put_bool(qkv__gguf_fields *f, const char *key, bool value);
void qkv__gguf_put_string(qkv__gguf_fields *f, const char *key, const char *text);
void qkv__gguf_put_bytes(qkv__gguf_fields *f, const char *key, const void *data, size_t size);
/* An array; `count` items of its kind follow. */
void qkv__gguf_put_array(qkv__gguf_fields *f, const char *key, qkv__gguf_kind kind, size_t count);
void qkv__gguf_item_i32(qkv__gguf_fields *f, int32_t value);
void qkv__gguf_item_f32(qkv__gguf_fields *f, float value);
void qkv__gguf_item_string(qkv__gguf_fields *f, const char *text, size_t len);

/* A tensor to be written. fill gives its numbers, a few thousand at a time; blocks, if it is not
 * NULL, gives them as the type's blocks instead. */
typedef struct {
    char name[64];
    const qkv__gguf_type *type;
    int ndim;
    size_t shape[QKV__GGUF_DIMS];
    qkv_status (*fill)(void *user, size_t begin, size_t count, qkv_real *out);
    qkv_status (*blocks)(void *user, size_t first, size_t count, uint8_t *out);
    void *user;
} qkv__gguf_entry;

enum { QKV__GGUF_MOST_HALF = 65504 };

/* Atomically. QKV_E_UNSUPPORTED, with the tensor's name: F16 or a type of blocks has no room for
 * its numbers (not finite, or beyond what half precision holds). */
qkv_status qkv__gguf_save(qkv_context *ctx, const char *path, const qkv__gguf_fields *fields,
                          const qkv__gguf_entry *entries, size_t count);

#endif
