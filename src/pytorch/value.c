/* value.c - values of a pickle: their names, and those of a dict. */
#include "pytorch/value.h"

#include <string.h>

const char *qkv__value_name(const qkv__value *v)
{
    static const char *const names[] = {"None", "a truth value", "an integer", "a long integer",
                                        "a text", "a number or bytes", "a tuple", "a list",
                                        "a set", "a dict", "a class", "an object",
                                        "an unknown object"};
    return names[v->kind];
}

const qkv__value *qkv__value_find(const qkv__value *dict, const char *key)
{
    size_t length = strlen(key);
    for (size_t i = 0; dict->kind == QKV__VALUE_DICT && i < dict->as.list.count; i += 2) {
        const qkv__value *k = dict->as.list.items[i];
        if (k->kind == QKV__VALUE_TEXT && k->as.text.length == length &&
            memcmp(k->as.text.data, key, length) == 0)
            return dict->as.list.items[i + 1];
    }
    return NULL;
}
