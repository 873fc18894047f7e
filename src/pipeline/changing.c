/* changing.c - the changes that options name. */
#include "pipeline/changing.h"

qkv_status qkv__changes_read(qkv_changes **out, qkv_context *ctx, const qkv_strings *texts)
{
    *out = NULL;
    qkv_status status = texts->count ? qkv_changes_create(out, ctx) : QKV_OK;
    for (size_t i = 0; i < texts->count && !status; i++)
        status = qkv_changes_add_text(*out, texts->items[i]);
    if (status) {
        qkv_changes_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv__no_such_place(const qkv_pipeline *p, const char *place)
{
    return qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s: no place of the pass is \"%.80s\"; `qkv info DIR "
                    "--probes` lists the places of a block", p->dir, place);
}

qkv_status qkv__changes_check(const qkv_pipeline *p, const qkv_changes *c)
{
    for (size_t i = 0; c && i < qkv_changes_count(c); i++)
        if (!qkv_changes_made(c, i))
            return qkv__no_such_place(p, qkv_changes_place(c, i));
    return QKV_OK;
}
