/* beam_list.c - the tokens of a batch by its shortlist. */
#include "infer/beam_list.h"

#include <stdlib.h>

#include "qkv/marian.h"

static int list_by_id(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Adds tokens to a list that stays increasing. */
static qkv_status list_add(qkv_ids *list, qkv_context *ctx, const int32_t *ids, size_t n)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = qkv_ids_add(list, ctx, ids[i]);
    if (list->count)
        qsort(list->data, list->count, sizeof *list->data, list_by_id);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (!kept || list->data[i] != list->data[kept - 1])
            list->data[kept++] = list->data[i];
    list->count = kept;
    return status;
}

/* Both increase. */
static void find_banned(qkv__beam_list *l, const qkv_generation *g)
{
    l->bans = 0;
    for (size_t i = 0, b = 0; i < l->tokens.count && b < g->ban_count; i++) {
        while (b < g->ban_count && g->banned[b] < l->tokens.data[i])
            b++;
        if (b < g->ban_count && g->banned[b] == l->tokens.data[i])
            l->banned[l->bans++] = (int32_t)i;
    }
}

qkv_status qkv__beam_list_begin(qkv__beam_list *l, qkv_model *m, const qkv_generation *g, size_t k,
                                const int32_t *ids, size_t n)
{
    const qkv_marian_config *c = qkv_model_config(m);
    qkv_context *ctx = qkv_model_context(m);
    qkv_shortlist_options o = l->o;
    if (!l->from)
        return QKV_OK;
    if (o.first < k + g->ban_count) /* enough to choose from, whatever is banned */
        o.first = k + g->ban_count;
    qkv_status status = qkv_shortlist_tokens(l->from, &o, ids, n, &l->tokens);
    if (!status)
        status = list_add(&l->tokens, ctx, g->eos_ids, g->eos_count);
    if (!status && c->share) /* names and numbers stay what they are */
        status = list_add(&l->tokens, ctx, ids, n);
    find_banned(l, g);
    return status;
}

void qkv__beam_list_name(const qkv__beam_list *l, int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = ids[i] < 0 ? ids[i] : l->tokens.data[ids[i]];
}
