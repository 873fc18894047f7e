/* parts.c - steps of tokenizer.json, alone or in a "Sequence". */
#include "tokenizer/parts.h"

#include <string.h>

qkv_status qkv__parts_read(void *part, const qkv__json *at, const char *list, unsigned depth,
                           qkv__part_fn *read)
{
    const char *type;
    qkv__json steps, step;
    qkv_status status = qkv__json_get_string(at, "type", &type);
    if (status || strcmp(type, "Sequence") != 0 || depth == 0)
        return status ? status : read(part, at, type);
    status = qkv__json_get_array(at, list, &steps);
    for (size_t i = 0; !status && i < qkv__json_count(&steps); i++) {
        qkv__json_item(&steps, i, &step);
        status = qkv__parts_read(part, &step, list, depth - 1, read);
    }
    return status;
}
