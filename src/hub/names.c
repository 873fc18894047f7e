/* names.c - names that other libraries give to tensors of the models of images: timm, and
 * facebookresearch/mae, which is written upon it. One table serves both. The names that
 * taming-transformers gives are those that its models have here too. */
#include <stdio.h>
#include <string.h>

#include "hub/parts.h"
#include "qkv/mae.h"

/* A beginning of a name: ours, which is Hugging Face's, and the other library's. */
typedef struct {
    const char *ours, *theirs;
} pair;

static const pair outside[] = {
    {"vit.embeddings.cls_token", "cls_token"},
    {"vit.embeddings.position_embeddings", "pos_embed"},
    {"vit.embeddings.patch_embeddings.projection.", "patch_embed.proj."},
    {"vit.layernorm.", "norm."},
    {"classifier.", "head."},
    {"decoder.mask_token", "mask_token"},
    {"decoder.decoder_pos_embed", "decoder_pos_embed"},
    {"decoder.decoder_embed.", "decoder_embed."},
    {"decoder.decoder_norm.", "decoder_norm."},
    {"decoder.decoder_pred.", "decoder_pred."},
    {NULL, NULL},
};

/* A number and a dot follow, and then a name inside the block. */
static const pair blocks[] = {
    {"vit.encoder.layer.", "blocks."},
    {"decoder.decoder_layers.", "decoder_blocks."},
    {NULL, NULL},
};

/* The query's tensor has the rows of key and value too, which thus have none. */
static const char PACKED[] = "attn.qkv.";
static const pair inside[] = {
    {"attention.attention.query.", PACKED},
    {"attention.output.dense.", "attn.proj."},
    {"intermediate.dense.", "mlp.fc1."},
    {"output.dense.", "mlp.fc2."},
    {"layernorm_before.", "norm1."},
    {"layernorm_after.", "norm2."},
    {NULL, NULL},
};

static const pair *names_find(const pair *list, const char *name)
{
    for (; list->ours; list++)
        if (strncmp(name, list->ours, strlen(list->ours)) == 0)
            return list;
    return NULL;
}

typedef struct {
    const char *under;
    qkv_state_entry_fn *fn;
    void *user;
} visitor;

/* False: the other library has no such tensor. */
static bool rename_row(const visitor *v, qkv_state_entry *row, char *out, size_t room)
{
    const char *name = row->name, *stem = "";
    size_t number = 0;
    const pair *p = names_find(blocks, name);
    if (p) {
        stem = p->theirs;
        name += strlen(p->ours);
        number = strspn(name, "0123456789") + 1;
        p = names_find(inside, name + number);
    } else {
        p = names_find(outside, name);
    }
    if (!p)
        return false;
    if (p->theirs == PACKED)
        row->shape[0] *= 3; /* key and value follow the query in the region as in the file */
    int n = snprintf(out, room, "%s%s%.*s%s%s", v->under, stem, (int)number, name, p->theirs,
                     name + number + strlen(p->ours));
    return n > 0 && (size_t)n < room;
}

static qkv_status visit_row(void *user, const qkv_state_entry *row)
{
    visitor *v = user;
    char name[512];
    qkv_state_entry theirs = *row;
    if (!rename_row(v, &theirs, name, sizeof name))
        return QKV_OK;
    theirs.name = name;
    return v->fn(v->user, &theirs);
}

static qkv_status visit_same_row(void *user, const qkv_state_entry *row)
{
    visitor *v = user;
    char name[512];
    qkv_state_entry theirs = *row;
    (void)snprintf(name, sizeof name, "%s%s", v->under, row->name);
    theirs.name = name;
    return v->fn(v->user, &theirs);
}

qkv_status qkv__hub_visit_named(qkv_model *m, const char *under, qkv_state_entry_fn *fn, void *user)
{
    const qkv_model_type *type = qkv_model_type_of(m);
    bool other = type == qkv_vit_type() || type == qkv_mae_type();
    visitor v = {under, fn, user};
    return qkv_model_visit(m, other ? visit_row : visit_same_row, &v);
}
