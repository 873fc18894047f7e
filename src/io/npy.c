/* npy.c - NumPy's .npy files: magic, version, a Python dict of text, numbers. No .npz, no
 * structured types, no pickled objects. */
#include "qkv/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/convert.h"
#include "io/file.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, ALIGN = 64, CHUNK = 16384 };

/* descr without the byte order. */
static const struct {
    const char *name;
    qkv_store store;
} types[] = {{"b1", QKV_STORE_BOOL}, {"i1", QKV_STORE_I8},  {"u1", QKV_STORE_U8},
             {"i2", QKV_STORE_I16},  {"u2", QKV_STORE_U16}, {"i4", QKV_STORE_I32},
             {"u4", QKV_STORE_U32},  {"i8", QKV_STORE_I64}, {"u8", QKV_STORE_U64},
             {"f2", QKV_STORE_F16},  {"f4", QKV_STORE_F32}, {"f8", QKV_STORE_F64}};

/* The header being read: p moves from its begin to its end. */
typedef struct {
    qkv_context *ctx;
    const char *path;
    const char *p, *end;
    qkv_array *array;
    qkv_store store;
    bool fortran;
    bool has_descr, has_order, has_shape;
} reader;

static void skip_space(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
        r->p++;
}

/* Takes the character c after space, if it is there. */
static bool npy_take(reader *r, char c)
{
    skip_space(r);
    bool there = r->p < r->end && *r->p == c;
    r->p += there;
    return there;
}

static qkv_status malformed(reader *r, const char *expected)
{
    skip_space(r);
    char found[24] = "its end";
    if (r->p < r->end && *r->p >= ' ' && *r->p < 127)
        (void)snprintf(found, sizeof found, "'%c'", *r->p);
    else if (r->p < r->end)
        (void)snprintf(found, sizeof found, "byte 0x%02x", (unsigned char)*r->p);
    return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: header: expected %s, found %s", r->path, expected,
                    found);
}

/* A string in single or double quotes, without escapes. */
static qkv_status take_string(reader *r, const char *expected, char *out, size_t size)
{
    skip_space(r);
    char quote = r->p < r->end ? *r->p : 0;
    if (quote != '\'' && quote != '"')
        return malformed(r, expected);
    const char *begin = r->p + 1, *close = begin;
    while (close < r->end && *close != quote)
        close++;
    size_t length = (size_t)(close - begin);
    if (close == r->end || length >= size)
        return malformed(r, expected);
    memcpy(out, begin, length);
    out[length] = 0;
    r->p = close + 1;
    return QKV_OK;
}

static qkv_status take_descr(reader *r)
{
    char descr[16];
    qkv_status status = take_string(r, "a plain type in 'descr'", descr, sizeof descr);
    if (status)
        return status;
    size_t i = 0, n = sizeof types / sizeof *types;
    bool ordered = *descr && strchr("<|=", *descr);
    while (ordered && i < n && strcmp(descr + 1, types[i].name) != 0)
        i++;
    if (!ordered || i == n)
        return qkv_fail(r->ctx, QKV_E_UNSUPPORTED,
                        "%s: header: 'descr': expected one of <f2 <f4 <f8 |i1 <i2 <i4 <i8 |u1 <u2 "
                        "<u4 <u8 |b1, found %s", r->path, descr);
    r->store = types[i].store;
    r->has_descr = true;
    return QKV_OK;
}

static qkv_status take_order(reader *r)
{
    skip_space(r);
    size_t left = (size_t)(r->end - r->p);
    if (left >= 4 && memcmp(r->p, "True", 4) == 0) {
        r->fortran = true;
        r->p += 4;
    } else if (left >= 5 && memcmp(r->p, "False", 5) == 0) {
        r->fortran = false;
        r->p += 5;
    } else {
        return malformed(r, "True or False in 'fortran_order'");
    }
    r->has_order = true;
    return QKV_OK;
}

static qkv_status take_size(reader *r, size_t *out)
{
    size_t value = 0;
    skip_space(r);
    if (r->p == r->end || *r->p < '0' || *r->p > '9')
        return malformed(r, "a size in 'shape'");
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
        if (!qkv__mul_size(value, 10, &value) ||
            !qkv__add_size(value, (size_t)(*r->p - '0'), &value))
            return malformed(r, "a smaller size in 'shape'");
        r->p++;
    }
    (void)npy_take(r, 'L'); /* Python 2 wrote 3L */
    *out = value;
    return QKV_OK;
}

static qkv_status take_shape(reader *r)
{
    qkv_array *a = r->array;
    if (!npy_take(r, '('))
        return malformed(r, "a tuple in 'shape'");
    a->ndim = 0;
    while (!npy_take(r, ')')) {
        if (a->ndim == QKV_ARRAY_DIMS)
            return malformed(r, "at most 32 sizes in 'shape'");
        qkv_status status = take_size(r, &a->shape[a->ndim]);
        if (status)
            return status;
        a->ndim++;
        bool comma = npy_take(r, ',');
        skip_space(r);
        if (!comma && (r->p == r->end || *r->p != ')'))
            return malformed(r, "',' or ')' in 'shape'");
    }
    r->has_shape = true;
    return QKV_OK;
}

static qkv_status take_header(reader *r)
{
    static const struct {
        const char *key;
        qkv_status (*take)(reader *r);
    } fields[] = {{"descr", take_descr}, {"fortran_order", take_order}, {"shape", take_shape}};
    if (!npy_take(r, '{'))
        return malformed(r, "'{'");
    while (!npy_take(r, '}')) {
        char key[32];
        size_t i = 0;
        qkv_status status = take_string(r, "a key", key, sizeof key);
        if (status)
            return status;
        while (i < 3 && strcmp(fields[i].key, key) != 0)
            i++;
        if (i == 3)
            return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: header: unknown key '%s'", r->path, key);
        if (!npy_take(r, ':'))
            return malformed(r, "':'");
        status = fields[i].take(r);
        if (status)
            return status;
        bool comma = npy_take(r, ',');
        skip_space(r);
        if (!comma && (r->p == r->end || *r->p != '}'))
            return malformed(r, "',' or '}'");
    }
    skip_space(r);
    if (r->p != r->end)
        return malformed(r, "nothing after '}'");
    const char *missing = !r->has_descr ? "descr" : !r->has_order ? "fortran_order" : "shape";
    if (!r->has_descr || !r->has_order || !r->has_shape)
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: header: key '%s' is missing", r->path, missing);
    return QKV_OK;
}

/* Where the header is: its length is 2 bytes in version 1, 4 in 2 and 3. */
static qkv_status find_header(reader *r, const qkv__map *m)
{
    if (m->size < MAGIC + 4 || memcmp(m->data, magic, MAGIC) != 0)
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: expected an .npy file, found other bytes",
                        r->path);
    unsigned version = m->data[MAGIC];
    if (version < 1 || version > 3)
        return qkv_fail(r->ctx, QKV_E_UNSUPPORTED, "%s: expected .npy version 1 to 3, found %u",
                        r->path, version);
    size_t bytes = version == 1 ? 2 : 4, begin = MAGIC + 2 + bytes, length = 0;
    if (m->size >= begin)
        memcpy(&length, m->data + MAGIC + 2, bytes); /* little-endian, as this machine */
    if (m->size < begin || length > m->size - begin)
        return qkv_fail(r->ctx, QKV_E_FORMAT,
                        "%s: expected a header of %zu bytes, found a file of %zu", r->path,
                        length, m->size);
    r->p = (const char *)m->data + begin;
    r->end = r->p + length;
    return QKV_OK;
}

/* Fortran order has the first index fastest: visit the numbers so, store them row-major. */
static void npy_reorder(qkv_real *out, const qkv_real *in, const qkv_array *a)
{
    size_t index[QKV_ARRAY_DIMS] = {0}, stride[QKV_ARRAY_DIMS], at = 0;
    size_t step = 1;
    for (int d = a->ndim; d-- > 0; step *= a->shape[d])
        stride[d] = step;
    for (size_t i = 0; i < a->count; i++) {
        out[at] = in[i];
        for (int d = 0; d < a->ndim; d++) {
            at += stride[d];
            if (++index[d] < a->shape[d])
                break;
            at -= a->shape[d] * stride[d];
            index[d] = 0;
        }
    }
}

static qkv_status npy_read_numbers(reader *r, const qkv__map *m)
{
    qkv_array *a = r->array;
    size_t bytes, left = (size_t)(m->data + m->size - (const uint8_t *)r->end);
    a->count = 1;
    for (int d = 0; d < a->ndim; d++)
        if (!qkv__mul_size(a->count, a->shape[d], &a->count))
            return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: header: 'shape' is too large", r->path);
    if (!qkv__mul_size(a->count, qkv_store_bytes(r->store), &bytes) || bytes != left)
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: expected %zu numbers of %zu bytes, found %zu "
                        "bytes", r->path, a->count, qkv_store_bytes(r->store), left);
    a->data = qkv_calloc(r->ctx, a->count, sizeof *a->data);
    qkv_real *in_order = r->fortran && a->ndim > 1
                             ? qkv_calloc(r->ctx, a->count, sizeof *in_order) : a->data;
    if (a->data && in_order) {
        (void)qkv__store_read(in_order, r->end, r->store, a->count); /* types has no other */
        if (in_order != a->data)
            npy_reorder(a->data, in_order, a);
    }
    bool failed = !a->data || !in_order;
    if (in_order != a->data)
        qkv_free(r->ctx, in_order);
    return failed ? qkv_fail_prefix(r->ctx, r->path) : QKV_OK;
}

qkv_status qkv_array_load(qkv_array *out, qkv_context *ctx, const char *path)
{
    qkv__map m;
    *out = (qkv_array){.ctx = ctx};
    qkv_status status = qkv__map_open(&m, ctx, path);
    if (status)
        return status;
    bool npy = m.size >= MAGIC && memcmp(m.data, magic, MAGIC) == 0;
    qkv__map_close(&m);
    return npy ? qkv_npy_load(out, ctx, path) : qkv_csv_load(out, ctx, path);
}

qkv_status qkv_npy_load(qkv_array *out, qkv_context *ctx, const char *path)
{
    qkv__map m;
    reader r = {.ctx = ctx, .path = path, .array = out};
    *out = (qkv_array){.ctx = ctx};
    qkv_status status = qkv__map_open(&m, ctx, path);
    if (status)
        return status;
    status = find_header(&r, &m);
    if (!status)
        status = take_header(&r);
    if (!status)
        status = npy_read_numbers(&r, &m);
    qkv__map_close(&m);
    if (status)
        qkv_array_free(out);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* As NumPy pads: room for the first size to grow to 21 digits, then to a multiple of 64. */
static void npy_make_header(qkv_str *s, int ndim, const size_t *shape, qkv_store store)
{
    char first[24] = "";
    qkv_str_printf(s, "{'descr': '<%c%zu', 'fortran_order': False, 'shape': (",
                   store == QKV_STORE_I32 ? 'i' : 'f', qkv_store_bytes(store));
    for (int d = 0; d < ndim; d++)
        qkv_str_printf(s, "%s%zu%s", d ? ", " : "", shape[d], ndim == 1 ? "," : "");
    qkv_str_puts(s, "), }");
    if (ndim > 0)
        (void)snprintf(first, sizeof first, "%zu", shape[0]);
    for (size_t i = strlen(first); ndim > 0 && i < 21; i++)
        qkv_str_puts(s, " ");
    size_t pad = ALIGN - (MAGIC + 4 + s->len + 1) % ALIGN;
    while (pad--)
        qkv_str_puts(s, " ");
    qkv_str_puts(s, "\n");
}

static void put_whole(unsigned char *out, const qkv_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t whole = (int32_t)x[i];
        memcpy(out + sizeof whole * i, &whole, sizeof whole);
    }
}

static qkv_status write_numbers(qkv_context *ctx, qkv__writer *w, const qkv_real *data,
                                size_t count, qkv_store store)
{
    unsigned char *buffer = qkv_malloc(ctx, CHUNK * 8);
    qkv_status status = buffer ? QKV_OK : QKV_E_MEMORY;
    for (size_t at = 0; at < count && !status; at += CHUNK) {
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        if (store == QKV_STORE_I32)
            put_whole(buffer, data + at, n);
        else
            (void)qkv__store_write(buffer, data + at, store, n);
        status = qkv__writer_put(w, buffer, n * qkv_store_bytes(store));
    }
    qkv_free(ctx, buffer);
    return status;
}

static qkv_status npy_write_all(qkv_context *ctx, const char *path, const qkv_str *header,
                                const qkv_real *data, size_t count, qkv_store store)
{
    qkv__writer *w;
    unsigned char start[MAGIC + 4] = "\x93NUMPY\x01";
    qkv_status status = qkv__writer_open(&w, ctx, path);
    if (status)
        return status;
    start[MAGIC + 2] = (unsigned char)(header->len & 0xff);
    start[MAGIC + 3] = (unsigned char)(header->len >> 8);
    status = qkv__writer_put(w, start, sizeof start);
    if (!status)
        status = qkv__writer_put(w, header->data, header->len);
    if (!status)
        status = write_numbers(ctx, w, data, count, store);
    if (!status)
        return qkv__writer_close(w);
    qkv__writer_abandon(w);
    return status;
}

qkv_status qkv_npy_save(qkv_context *ctx, const char *path, int ndim, const size_t *shape,
                        const qkv_real *data, qkv_store store)
{
    qkv_str header;
    size_t count = 1;
    bool known = store == QKV_STORE_F16 || store == QKV_STORE_F32 || store == QKV_STORE_F64 ||
                 store == QKV_STORE_I32;
    if (!known || ndim < 0 || ndim > QKV_ARRAY_DIMS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %d dimensions of %s cannot be written", path,
                        ndim, qkv_store_name(store));
    for (int d = 0; d < ndim; d++)
        count *= shape[d]; /* the data is in memory: it fits */
    qkv_str_init(&header, ctx);
    npy_make_header(&header, ndim, shape, store);
    qkv_status status = header.failed ? QKV_E_MEMORY
                                      : npy_write_all(ctx, path, &header, data, count, store);
    qkv_str_free(&header);
    return status;
}
