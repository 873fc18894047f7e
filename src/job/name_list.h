/* name_list.h - lists of names with commas between, as settings have them. */
#ifndef QKV_SRC_JOB_NAME_LIST_H
#define QKV_SRC_JOB_NAME_LIST_H

#include "base/base.h"

typedef struct {
    char *text;         /* what the items point into */
    const char **items; /* (count) */
    size_t count;
} qkv__name_list;

/* Cuts list (NULL: empty) at its commas, with room for so many more items. On failure, too, end
 * with qkv__names_drop. */
qkv_status qkv__names_cut(qkv__name_list *n, qkv_context *ctx, const char *list, size_t room);
bool qkv__names_have(const qkv__name_list *n, const char *name);
void qkv__names_drop(qkv__name_list *n, qkv_context *ctx);

#endif
