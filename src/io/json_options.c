/* json_options.c - option tables and JSON: the callbacks that options.h asks for. */
#include "io/json_options.h"

#include <string.h>

/* ---- writing ---------------------------------- */

static void json_options_put_integer(void *w, const char *key, int64_t value)
{
    qkv_json_put_int(w, key, value);
}

static void put_real(void *w, const char *key, double value)
{
    qkv_json_put_real(w, key, value);
}

static void put_boolean(void *w, const char *key, bool value)
{
    qkv_json_put_bool(w, key, value);
}

static void json_options_put_text(void *w, const char *key, const char *value)
{
    qkv_json_put_string(w, key, value);
}

static void put_list(void *w, const char *key, const qkv_strings *value)
{
    qkv_json_put_strings(w, key, value->items, value->count);
}

static void put_null(void *w, const char *key)
{
    qkv_json_put_null(w, key);
}

static void begin_group(void *w, const char *key)
{
    qkv_json_begin_object(w, key);
}

static void end_group(void *w)
{
    qkv_json_end_object(w);
}

qkv_option_sink qkv__json_option_sink(qkv_json_writer *w)
{
    return (qkv_option_sink){.user = w, .integer = json_options_put_integer, .real = put_real,
                             .boolean = put_boolean, .text = json_options_put_text,
                             .list = put_list, .null = put_null, .begin = begin_group,
                             .end = end_group};
}

void qkv__json_put_options(qkv_json_writer *w, const qkv_option_table *table, const void *target)
{
    const qkv_option_sink sink = qkv__json_option_sink(w);
    qkv_option_write(table, target, &sink);
}

/* ---- reading ---------------------------------- */

/* Goes down "a.b" to the object that holds b; the rest of the key is returned. */
static const char *json_options_descend(const qkv__json *at, const char *key, qkv__json *out)
{
    char name[128];
    *out = *at;
    for (const char *dot; (dot = strchr(key, '.')); key = dot + 1) {
        size_t length = (size_t)(dot - key);
        if (length >= sizeof name)
            break;
        memcpy(name, key, length);
        name[length] = 0;
        if (!json_is_object(json_object_get(out->value, name)))
            break;
        qkv__json inner;
        (void)qkv__json_get_object(out, name, &inner); /* it is one: seen above */
        *out = inner;
    }
    return key;
}

static bool json_options_has(void *user, const char *key)
{
    qkv__json at;
    key = json_options_descend(user, key, &at);
    return qkv__json_has(&at, key);
}

static qkv_status json_options_get_integer(void *user, const char *key, int64_t min, int64_t max,
                                           int64_t *out)
{
    qkv__json at;
    key = json_options_descend(user, key, &at);
    return qkv__json_get_int(&at, key, min, max, out);
}

static qkv_status get_real(void *user, const char *key, double min, double max, double *out)
{
    qkv__json at;
    key = json_options_descend(user, key, &at);
    return qkv__json_get_real(&at, key, min, max, out);
}

static qkv_status get_boolean(void *user, const char *key, bool *out)
{
    qkv__json at;
    key = json_options_descend(user, key, &at);
    return qkv__json_get_bool(&at, key, out);
}

static qkv_status get_text(void *user, const char *key, const char **out)
{
    qkv__json at;
    key = json_options_descend(user, key, &at);
    return qkv__json_get_string(&at, key, out);
}

static qkv_status get_length(void *user, const char *key, size_t *out)
{
    qkv__json at, list;
    key = json_options_descend(user, key, &at);
    qkv_status status = qkv__json_get_array(&at, key, &list);
    if (!status)
        *out = qkv__json_count(&list);
    return status;
}

static qkv_status get_item(void *user, const char *key, size_t i, const char **out)
{
    qkv__json at, list, item;
    key = json_options_descend(user, key, &at);
    qkv_status status = qkv__json_get_array(&at, key, &list);
    if (status)
        return status;
    qkv__json_item(&list, i, &item);
    return qkv__json_get_string(&item, NULL, out);
}

static qkv_status json_options_fail(void *user, const char *key, const char *message)
{
    qkv__json at;
    key = json_options_descend(user, key, &at);
    return qkv__json_fail(&at, key, "%s", message);
}

qkv_status qkv__json_get_options(const qkv__json *at, qkv_options *o,
                                 const qkv_option_table *table)
{
    qkv__json place;
    qkv_status status = qkv__json_get_object(at, NULL, &place);
    if (status)
        return status;
    const qkv_option_source source = {.user = &place, .has = json_options_has, .integer =
        json_options_get_integer,
                                      .real = get_real, .boolean = get_boolean, .text = get_text,
                                      .length = get_length, .item = get_item,
                                      .fail = json_options_fail};
    return qkv_options_read(o, table, &source);
}
