/* probe.c - places of a forward pass that have names: tensors are read and replaced there, and
 * stacks of blocks are entered there. */
#include <string.h>

#include "tensor/tape.h"

/* "*" matches any characters. Quadratic at worst: on a mismatch the last star takes one more. */
static bool probe_pattern_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *mark = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            mark = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++mark;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

bool qkv__probe_matches(qkv__probe *p, const char *name)
{
    const bool matches = !p->pattern || probe_pattern_matches(p->pattern, name);
    p->met = p->met || matches;
    return matches;
}

size_t qkv__probe_count(const qkv_tape *t)
{
    size_t n = 0;
    for (const qkv__probe *p = t->probes; p; p = p->next)
        n++;
    return n;
}

const char *qkv__probe_unmet(const qkv_tape *t, size_t from)
{
    for (const qkv__probe *p = t->probes; p; p = p->next) {
        if (from)
            from--;
        else if (!p->met && p->pattern && !p->attention.gradient)
            return p->pattern;
    }
    return NULL;
}

static qkv__probe *probe_append(qkv_tape *t, const char *pattern)
{
    qkv__probe *p = qkv_calloc(t->ctx, 1, sizeof *p), **last = &t->probes;
    if (!p)
        return NULL;
    if (pattern && !(p->pattern = qkv_strdup(t->ctx, pattern))) {
        qkv_free(t->ctx, p);
        return NULL;
    }
    while (*last)
        last = &(*last)->next;
    return *last = p;
}

qkv_status qkv_probe_add(qkv_tape *t, const char *pattern, qkv_probe_fn *fn, void *user)
{
    qkv__probe *p = probe_append(t, pattern);
    if (!p)
        return QKV_E_MEMORY;
    p->fn = fn;
    p->user = user;
    return QKV_OK;
}

qkv_status qkv_attention_probe_add(qkv_tape *t, const qkv_attention_probe *probe)
{
    qkv__probe *p = probe_append(t, probe->name);
    if (!p)
        return QKV_E_MEMORY;
    p->attention = *probe;
    return QKV_OK;
}

bool qkv__probed(qkv_tape *t, const char *name)
{
    bool found = false;
    if (!t->probes || t->status)
        return false;
    qkv_name_push(t, "%s", name);
    for (qkv__probe *p = t->probes; p && !found; p = p->next)
        found = p->fn && qkv__probe_matches(p, t->name);
    qkv_name_pop(t);
    return found;
}

static qkv_tensor *probe_call(qkv_tape *t, const qkv__probe *p, qkv_tensor *x)
{
    qkv_tensor *y = p->fn(p->user, t, t->name, x);
    if (t->status)
        return NULL;
    if (!y)
        return qkv__op_fail(t, "probe", "a probe returned NULL");
    if (y != x && (y->dtype != x->dtype || !qkv__same_shape(x, y)))
        return qkv__op_fail(t, "probe", "%s was replaced by %s", qkv__shape_text(t, x),
                            qkv__shape_text(t, y));
    return y;
}

qkv_tensor *qkv_probe(qkv_tape *t, const char *name, qkv_tensor *x)
{
    if (!t->probes || !x || t->status)
        return x;
    qkv_name_push(t, "%s", name);
    for (qkv__probe *p = t->probes; p && x; p = p->next)
        if (p->fn && qkv__probe_matches(p, t->name))
            x = probe_call(t, p, x);
    qkv_name_pop(t);
    return x;
}

qkv_status qkv_tape_enter(qkv_tape *t, const char *name, qkv_tensor *x)
{
    size_t size = strlen(name) + 1;
    qkv__entry *e = qkv__step_alloc(t, sizeof *e + size);
    if (!e)
        return t->status;
    char *copy = (char *)(e + 1);
    memcpy(copy, name, size);
    *e = (qkv__entry){copy, x, t->entries};
    t->entries = e;
    return QKV_OK;
}

qkv_tensor *qkv__entered(qkv_tape *t, const char *stack, size_t i)
{
    const qkv__entry *e = t->entries;
    if (!e || t->status)
        return NULL;
    qkv_name_push(t, "%s.%zu", stack, i);
    while (e && strcmp(e->name, t->name) != 0)
        e = e->next;
    qkv_name_pop(t);
    return e ? e->x : NULL;
}
