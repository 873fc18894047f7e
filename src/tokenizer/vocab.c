/* vocab.c - vocabularies in files. */
#include "tokenizer/vocab.h"

#include <string.h>

#include "qkv/tokenizer.h"

/* An id that files may give; most of the ids below the greatest must be there, so that a
 * small file cannot ask for much memory. */
qkv_status qkv__vocab_read(qkv__vocab *v, const qkv__json *object)
{
    const char *key;
    json_t *value;
    json_int_t greatest = -1;
    json_object_foreach(object->value, key, value) {
        if (!json_is_integer(value))
            return qkv__json_fail(object, NULL, "token \"%.60s\": expected an integer id", key);
        json_int_t id = json_integer_value(value);
        if (id < 0 || id >= QKV_TOKENIZER_ID_LIMIT)
            return qkv__json_fail(object, NULL,
                                  "token \"%.60s\": expected an id from 0 to %d, found %lld", key,
                                  QKV_TOKENIZER_ID_LIMIT - 1, (long long)id);
        if (id > greatest)
            greatest = id;
    }
    size_t count = qkv__json_count(object);
    if ((size_t)(greatest + 1) > 2 * count + 1024)
        return qkv__json_fail(object, NULL, "ids go up to %lld, but only %zu tokens are given",
                              (long long)greatest, count);
    json_object_foreach(object->value, key, value) {
        size_t old_len;
        int32_t id = (int32_t)json_integer_value(value);
        const char *old = qkv__vocab_text(v, id, &old_len);
        if (old)
            return qkv__json_fail(object, NULL, "tokens \"%.60s\" and \"%.60s\" both have id %d",
                                  old, key, (int)id);
        qkv_status status = qkv__vocab_add(v, key, strlen(key), id);
        if (status)
            return status;
    }
    return QKV_OK;
}
