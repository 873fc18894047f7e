/* name_list.c - lists of names with commas between. */
#include "job/name_list.h"

#include <string.h>

qkv_status qkv__names_cut(qkv__name_list *n, qkv_context *ctx, const char *list, size_t room)
{
    list = list ? list : "";
    *n = (qkv__name_list){.text = qkv_strdup(ctx, list)};
    n->items = qkv_calloc(ctx, strlen(list) + 1 + room, sizeof *n->items);
    if (!n->text || !n->items)
        return QKV_E_MEMORY;
    for (char *at = n->text, *comma; at && *n->text; at = comma) {
        comma = strchr(at, ',');
        if (comma)
            *comma++ = 0;
        n->items[n->count++] = at;
    }
    return QKV_OK;
}

bool qkv__names_have(const qkv__name_list *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->items[i], name) == 0)
            return true;
    return false;
}

void qkv__names_drop(qkv__name_list *n, qkv_context *ctx)
{
    qkv_free(ctx, n->text);
    qkv_free(ctx, n->items);
    *n = (qkv__name_list){0};
}
