/* adapters.c - adapters that an option asks for. */
#include "pipeline/adapters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "qkv/file.h"

/* "DIR" or "DIR=WEIGHT"; a directory's own name may have a "=". */
static qkv_status add_adapter(qkv_model *m, const char *text)
{
    qkv_context *ctx = qkv_model_context(m);
    char *dir = qkv_strdup(ctx, text), *equals = dir ? strrchr(dir, '=') : NULL, *end = NULL;
    double weight = equals ? strtod(equals + 1, &end) : 1;
    qkv_adapter *a;
    if (!dir)
        return QKV_E_MEMORY;
    bool weighted = equals && equals[1] && !*end && !qkv_dir_exists(dir);
    if (weighted)
        *equals = 0;
    qkv_status status = weighted && !isfinite(weight)
                            ? qkv_fail(ctx, QKV_E_ARGUMENT, "--adapter %s: a number expected "
                                       "behind \"=\", found %s", dir, equals + 1)
                            : qkv_hub_add_adapter(&a, m, dir);
    if (!status && weighted)
        qkv_adapter_set_weight(a, weight);
    qkv_free(ctx, dir);
    return status;
}

qkv_status qkv__add_adapters(qkv_model *m, const qkv_strings *list)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < list->count && !status; i++)
        status = add_adapter(m, list->items[i]);
    return status;
}
