/* groups.c - norms of gradients and weights by layer.
 *
 * A group is what the parameters' names begin with, up to the first number: "h.3" for
 * "h.3.attn.weight"; without a number two parts, or all but the last one. So a block is a group,
 * and so is each layer outside of blocks. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "tensor/make.h"
#include "tensor/update.h"
#include "train/loop.h"

enum { MOST_GROUPS = 256, NAME = 256 };

static bool is_number(const char *part, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isdigit((unsigned char)part[i]))
            return false;
    return len > 0;
}

/* Bytes of the name that are its group's. */
static size_t group_length(const char *name)
{
    const char *last = strrchr(name, '.'), *part = name, *second = strchr(name, '.');
    second = second ? strchr(second + 1, '.') : NULL;
    for (;;) {
        size_t len = strcspn(part, ".");
        if (part > name && is_number(part, len))
            return (size_t)(part - name) + len;
        if (!part[len])
            break;
        part += len + 1;
    }
    last = second ? second : last;
    return last ? (size_t)(last - name) : strlen(name);
}

/* The group of this name, made if it is not there. SIZE_MAX: out of memory. */
static size_t find_group(qkv__loop *l, const char *param)
{
    qkv__groups *g = &l->groups;
    char name[NAME] = "";
    size_t len = group_length(param);
    memcpy(name, param, len < NAME ? len : NAME - 1);
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->names[i], name) == 0)
            return i;
    if (g->count == MOST_GROUPS)
        return MOST_GROUPS - 1; /* more than anybody looks at */
    g->names[g->count] = qkv_strdup(l->ctx, name);
    return g->names[g->count] ? g->count++ : SIZE_MAX;
}

qkv_status qkv__groups_make(qkv__loop *l)
{
    qkv__groups *g = &l->groups;
    size_t n = qkv_params_count(l->params);
    g->names = qkv_calloc(l->ctx, MOST_GROUPS, sizeof *g->names);
    g->group = qkv_calloc(l->ctx, n + 1, sizeof *g->group);
    g->gradient = qkv_calloc(l->ctx, MOST_GROUPS, sizeof *g->gradient);
    if (!g->names || !g->group || !g->gradient)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++) {
        g->group[i] = find_group(l, qkv_param_name(qkv_params_at(l->params, i)));
        if (g->group[i] == SIZE_MAX)
            return QKV_E_MEMORY;
    }
    return QKV_OK;
}

void qkv__groups_free(qkv__loop *l)
{
    qkv__groups *g = &l->groups;
    for (size_t i = 0; i < g->count; i++)
        qkv_free(l->ctx, g->names[i]);
    qkv_free(l->ctx, g->names);
    qkv_free(l->ctx, g->group);
    qkv_free(l->ctx, g->gradient);
    *g = (qkv__groups){0};
}

void qkv__groups_clear(qkv__loop *l)
{
    memset(l->groups.gradient, 0, l->groups.count * sizeof *l->groups.gradient);
}

void qkv__groups_add(qkv__loop *l)
{
    for (size_t i = 0; i < qkv_params_count(l->params); i++) {
        qkv_param *p = qkv_params_at(l->params, i);
        if (!qkv_param_frozen(p) && qkv__param_has_grad(p))
            l->groups.gradient[l->groups.group[i]] += l->ranks ? qkv__ranks_squares(l->ranks, i)
                                                               : qkv__param_grad_squares(p);
    }
}

double qkv__groups_gradient(const qkv__loop *l, size_t group)
{
    return sqrt(l->groups.gradient[group]);
}

void qkv__groups_weights(const qkv__loop *l, double *norms)
{
    const qkv__groups *g = &l->groups;
    memset(norms, 0, g->count * sizeof *norms);
    for (size_t i = 0; i < qkv_params_count(l->params); i++)
        if (!qkv__param_fixed(qkv_params_at(l->params, i)))
            norms[g->group[i]] += qkv__param_squares(qkv_params_at(l->params, i));
    for (size_t i = 0; i < g->count; i++)
        norms[i] = sqrt(norms[i]);
}
