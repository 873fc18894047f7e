/* gguf_show.c - what is in a GGUF file, for those who look. */
#include "base/utf8.h"
#include "io/gguf_file.h"

enum { SHOWN = 5, SHOWN_BYTES = 300 }; /* of an array; of a text */

static void show_text(qkv_str *out, const qkv__gguf_field *f, size_t i)
{
    size_t len, at = 0;
    const char *text = qkv__gguf_text(f, i, &len);
    qkv_str_puts(out, "\"");
    for (size_t n; at < len && at < SHOWN_BYTES; at += n) {
        int32_t cp;
        n = qkv__utf8_next(text + at, len - at, &cp);
        if (cp == '\n')
            qkv_str_puts(out, "\\n");
        else if (qkv__gguf_printable(cp))
            qkv_str_add(out, text + at, n);
        else
            qkv_str_printf(out, "\\x%02x", (unsigned)(cp < 0 ? (unsigned char)text[at] : cp));
    }
    qkv_str_puts(out, at < len ? "\" .." : "\"");
}

static void show_value(qkv_str *out, const qkv__gguf_field *f, size_t i)
{
    if (f->kind == QKV__GGUF_STRING)
        show_text(out, f, i);
    else if (f->kind == QKV__GGUF_BOOL)
        qkv_str_puts(out, f->data[i] ? "true" : "false");
    else if (f->kind == QKV__GGUF_F32 || f->kind == QKV__GGUF_F64)
        qkv_str_printf(out, "%.*g", f->kind == QKV__GGUF_F32 ? 7 : 16, qkv__gguf_real(f, i));
    else
        qkv_str_printf(out, "%lld", (long long)qkv__gguf_int(f, i));
}

const char *qkv_gguf_field(const qkv_gguf *g, size_t i, qkv_str *value)
{
    const qkv__gguf_field *f = qkv__gguf_field_at(g, i);
    if (!value)
        return f->key;
    if (!f->array) {
        show_value(value, f, 0);
        return f->key;
    }
    qkv_str_printf(value, "%zu: ", f->count);
    for (size_t k = 0; k < f->count && k < SHOWN; k++) {
        qkv_str_puts(value, k ? ", " : "");
        show_value(value, f, k);
    }
    qkv_str_puts(value, f->count > SHOWN ? ", .." : "");
    return f->key;
}

qkv_gguf_tensor qkv_gguf_tensor_at(const qkv_gguf *g, size_t i)
{
    const qkv__gguf_tensor *t = qkv__gguf_at(g, i);
    qkv_gguf_tensor out = {.name = t->name, .type = t->type->name, .ndim = t->ndim,
                           .count = t->count,
                           .bytes = t->count / t->type->block * t->type->bytes};
    for (int d = 0; d < t->ndim; d++)
        out.shape[d] = t->shape[d];
    return out;
}

qkv_status qkv_gguf_read(const qkv_gguf *g, size_t i, size_t begin, size_t count, qkv_real *out)
{
    const qkv__gguf_tensor *t = qkv__gguf_at(g, i);
    if (begin > t->count || count > t->count - begin)
        return qkv_fail(qkv__gguf_context(g), QKV_E_ARGUMENT, "%s: tensor \"%s\": %zu numbers from "
                        "%zu wanted, found %zu in all", qkv__gguf_path(g), t->name, count, begin,
                        t->count);
    return qkv__gguf_read(g, t, begin, count, out);
}
