/* json.c - reading JSON: jansson parses, the getters name file and field. */
#include "io/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"

/* Larger JSON than any tokeniser's; guards against reading a model file as text. */
static const size_t max_file = (size_t)1 << 30;

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    default: return "null";
    }
}

static json_t *json_find(const qkv__json *at, const char *key)
{
    return key ? json_object_get(at->value, key) : at->value;
}

/* Paths are only for messages: one that is too long is cut. */
static void join_path(char *out, size_t size, const char *path, const char *key)
{
    const char *parts[] = {path, *path && *key ? "." : "", key};
    size_t used = 0;
    for (size_t i = 0; i < 3; i++)
        for (const char *p = parts[i]; *p && used + 1 < size; p++)
            out[used++] = *p;
    out[used] = 0;
}

qkv_status qkv__json_fail(const qkv__json *at, const char *key, const char *fmt, ...)
{
    char what[400], path[sizeof at->path + 80];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    join_path(path, sizeof path, at->path, key ? key : "");
    if (!*path)
        return qkv_fail(at->ctx, QKV_E_FORMAT, "%s: %s", at->file, what);
    return qkv_fail(at->ctx, QKV_E_FORMAT, "%s: field \"%s\": %s", at->file, path, what);
}

static qkv_status wrong_type(const qkv__json *at, const char *key, const char *expected)
{
    const json_t *value = json_find(at, key);
    if (key && !json_is_object(at->value))
        return qkv__json_fail(at, NULL, "expected an object, found %s", type_name(at->value));
    if (!value)
        return qkv__json_fail(at, key, "expected %s, found nothing", expected);
    return qkv__json_fail(at, key, "expected %s, found %s", expected, type_name(value));
}

qkv_status qkv__json_load(qkv__json *out, qkv_context *ctx, const char *file)
{
    char *text;
    size_t length;
    *out = (qkv__json){.ctx = ctx, .file = file};
    qkv_status status = qkv_file_read(ctx, file, max_file, &text, &length);
    if (status)
        return status;
    status = qkv__json_parse(out, ctx, file, text, length);
    qkv_free(ctx, text);
    return status;
}

/* The value, whole numbers in it being integers again; NULL when memory ran out. Takes value, and
 * returns it or another in its place. */
static json_t *json_whole(json_t *value)
{
    static const double exact = 9007199254740992; /* 2^53: every integer up to it is a double */
    double x = json_is_real(value) ? json_real_value(value) : 0.5;
    bool fine = value != NULL;
    for (void *i = json_object_iter(value); i && fine; i = json_object_iter_next(value, i))
        fine = !json_object_iter_set_new(value, i,
                                         json_whole(json_incref(json_object_iter_value(i))));
    for (size_t i = 0; i < json_array_size(value) && fine; i++)
        fine = !json_array_set_new(value, i, json_whole(json_incref(json_array_get(value, i))));
    json_t *whole = fine && fabs(x) < exact && x == floor(x) ? json_integer((json_int_t)x) : value;
    if (!fine || whole != value)
        json_decref(value);
    return fine ? whole : NULL;
}

qkv_status qkv__json_parse(qkv__json *out, qkv_context *ctx, const char *name, const char *text,
                           size_t length)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t error;
    *out = (qkv__json){.ctx = ctx, .file = name};
    size_t bom = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (length == bom)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: expected JSON, found an empty file", name);
    text += bom;
    length -= bom;
    out->value = json_loadb(text, length, flags, &error);
    /* Hugging Face writes model_max_length 1000000000000000019884624838656. */
    if (!out->value && json_error_code(&error) == json_error_numeric_overflow) {
        out->value = json_loadb(text, length, flags | JSON_DECODE_INT_AS_REAL, &error);
        if (out->value && !(out->value = json_whole(out->value)))
            return qkv_fail(ctx, QKV_E_MEMORY, "%s: out of memory while reading JSON", name);
    }
    if (out->value)
        return QKV_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return qkv_fail(ctx, QKV_E_MEMORY, "%s: out of memory while reading JSON", name);
    return qkv_fail(ctx, QKV_E_FORMAT, "%s: not JSON: line %d, column %d: %s", name, error.line,
                    error.column, error.text);
}

void qkv__json_free(qkv__json *document)
{
    json_decref(document->value);
    *document = (qkv__json){0};
}

bool qkv__json_has(const qkv__json *at, const char *key)
{
    const json_t *value = json_find(at, key);
    return value && !json_is_null(value);
}

qkv_status qkv__json_get_string(const qkv__json *at, const char *key, const char **out)
{
    const json_t *value = json_find(at, key);
    if (!json_is_string(value))
        return wrong_type(at, key, "a string");
    const char *text = json_string_value(value);
    if (strlen(text) != json_string_length(value))
        return qkv__json_fail(at, key, "expected text, found a string with U+0000");
    *out = text;
    return QKV_OK;
}

qkv_status qkv__json_get_int(const qkv__json *at, const char *key, int64_t min, int64_t max,
                             int64_t *out)
{
    const json_t *value = json_find(at, key);
    int64_t number;
    if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else if (json_is_real(value)) {
        double real = json_real_value(value);
        if (real != floor(real))
            return qkv__json_fail(at, key, "expected an integer, found %g", real);
        if (!(fabs(real) <= 9007199254740992.0)) /* 2^53: above it reals skip integers */
            return qkv__json_fail(at, key, "expected an integer from %lld to %lld, found %.17g",
                                  (long long)min, (long long)max, real);
        number = (int64_t)real;
    } else {
        return wrong_type(at, key, "an integer");
    }
    if (number < min || number > max)
        return qkv__json_fail(at, key, "expected an integer from %lld to %lld, found %lld",
                              (long long)min, (long long)max, (long long)number);
    *out = number;
    return QKV_OK;
}

qkv_status qkv__json_get_real(const qkv__json *at, const char *key, double min, double max,
                              double *out)
{
    const json_t *value = json_find(at, key);
    if (!json_is_number(value))
        return wrong_type(at, key, "a number");
    double number = json_number_value(value);
    if (!(number >= min && number <= max))
        return qkv__json_fail(at, key, "expected a number from %g to %g, found %g", min, max,
                              number);
    *out = number;
    return QKV_OK;
}

qkv_status qkv__json_get_bool(const qkv__json *at, const char *key, bool *out)
{
    const json_t *value = json_find(at, key);
    if (!json_is_boolean(value))
        return wrong_type(at, key, "true or false");
    *out = json_is_true(value);
    return QKV_OK;
}

static void json_descend(qkv__json *out, const qkv__json *at, const char *key, json_t *value)
{
    qkv__json place = {.ctx = at->ctx, .file = at->file, .value = value};
    join_path(place.path, sizeof place.path, at->path, key);
    *out = place;
}

qkv_status qkv__json_get_object(const qkv__json *at, const char *key, qkv__json *out)
{
    json_t *value = json_find(at, key);
    if (!json_is_object(value))
        return wrong_type(at, key, "an object");
    json_descend(out, at, key ? key : "", value);
    return QKV_OK;
}

qkv_status qkv__json_get_array(const qkv__json *at, const char *key, qkv__json *out)
{
    json_t *value = json_find(at, key);
    if (!json_is_array(value))
        return wrong_type(at, key, "an array");
    json_descend(out, at, key ? key : "", value);
    return QKV_OK;
}

qkv_status qkv__json_opt_string(const qkv__json *at, const char *key, const char **out)
{
    return qkv__json_has(at, key) ? qkv__json_get_string(at, key, out) : QKV_OK;
}

qkv_status qkv__json_opt_int(const qkv__json *at, const char *key, int64_t min, int64_t max,
                             int64_t *out)
{
    return qkv__json_has(at, key) ? qkv__json_get_int(at, key, min, max, out) : QKV_OK;
}

qkv_status qkv__json_opt_real(const qkv__json *at, const char *key, double min, double max,
                              double *out)
{
    return qkv__json_has(at, key) ? qkv__json_get_real(at, key, min, max, out) : QKV_OK;
}

qkv_status qkv__json_opt_bool(const qkv__json *at, const char *key, bool *out)
{
    return qkv__json_has(at, key) ? qkv__json_get_bool(at, key, out) : QKV_OK;
}

size_t qkv__json_count(const qkv__json *at)
{
    if (json_is_object(at->value))
        return json_object_size(at->value);
    return json_array_size(at->value);
}

void qkv__json_item(const qkv__json *array, size_t i, qkv__json *out)
{
    char index[32];
    (void)snprintf(index, sizeof index, "%zu", i);
    json_descend(out, array, index, json_array_get(array->value, i));
}

const char *qkv_machine_library(size_t i, const char **version)
{
    static const char *const libraries[][2] = {
        {"jansson", JANSSON_VERSION},
#ifdef QKV_DNNL_VERSION
        {"oneDNN", QKV_DNNL_VERSION},
#endif
    };
    if (i >= sizeof libraries / sizeof *libraries)
        return NULL;
    *version = libraries[i][1];
    return libraries[i][0];
}
