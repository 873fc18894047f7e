/* types.c - the list of model types: the library's, and those that a program registers. */
#include <string.h>

#include "model/model.h"

const qkv_model_type *qkv_model_type_at(const qkv_context *ctx, size_t i)
{
    size_t own = 0;
    for (; qkv__model_types[own]; own++)
        if (own == i)
            return qkv__model_types[i]();
    return ctx ? qkv__context_type_at(ctx, i - own) : NULL;
}

const qkv_model_type *qkv_model_type_find(const qkv_context *ctx, const char *name,
                                          const char *architecture)
{
    const qkv_model_type *first = NULL, *type;
    for (size_t i = 0; (type = qkv_model_type_at(ctx, i)); i++) {
        if (strcmp(type->name, name) != 0)
            continue;
        if (architecture && strcmp(qkv_model_type_architecture(type), architecture) == 0)
            return type;
        first = first ? first : type;
    }
    return first;
}

qkv_status qkv_model_type_register(qkv_context *ctx, const qkv_model_type *type)
{
    qkv_status status = qkv__model_type_check(ctx, type);
    const char *architecture = status ? NULL : qkv_model_type_architecture(type);
    const qkv_model_type *other = status ? NULL
                                         : qkv_model_type_find(ctx, type->name, architecture);
    if (status || other == type)
        return status;
    if (other && strcmp(qkv_model_type_architecture(other), architecture) == 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "model type %s: there is one with this architecture",
                        type->name);
    return qkv__context_add_type(ctx, type);
}
