/* recompute.c - parts of a forward pass whose tensors are not kept (Chen et al. 2016).
 *
 * A function's nodes and tensors are dropped as soon as it has run, but for copies of its outputs.
 * One node takes their place: its inputs are the tensors from outside that the function used and
 * that have gradients. The backward pass runs the function again, in the same memory, and goes
 * through the nodes that this records as if they were the tape's own. They name the same tensors
 * outside, so gradients add up in the order in which they would have without. */
#include <string.h>

#include "tensor/tape.h"

typedef struct {
    qkv_recompute_args call; /* args and in are copies in step memory */
    qkv_randomness random;
    bool train;
    const char *name; /* pushed when it ran first */
    qkv_tensor **out; /* (n_out) of the first run, those with a gradient; else NULL */
} recompute_params;

/* ---- regions ------------------------------------------------------------------------------ */

/* The tape's nodes outside of a region. Regions are not nested: calls within one are plain. */
typedef struct {
    qkv__node *first, *last;
} outside;

static void region_memory(qkv_tape *t, const qkv__memory *m)
{
    t->step = m->step;
    t->host = m->host;
}

static outside region_begin(qkv_tape *t, const qkv__node *again)
{
    outside o = {t->first, t->last};
    region_memory(t, &t->brief);
    t->first = t->last = NULL;
    t->again = again;
    t->region = ++t->regions;
    return o;
}

/* The region's tensors stay until region_release. */
static void region_leave(qkv_tape *t, const outside *o)
{
    region_memory(t, &t->kept);
    t->first = o->first;
    t->last = o->last;
    t->again = NULL;
    t->region = 0;
}

/* The memory becomes one block, of the most that was needed: functions that differ a little would
 * fill a chain of blocks in different ways, and so touch more than any of them needs. */
static void region_release(qkv_tape *t)
{
    (void)qkv__take_status(t, t->device->check(t->ctx));
    qkv__arena_reset(t->brief.step);
    qkv__arena_reset(t->brief.host);
}

static bool recompute_call(qkv_tape *t, const qkv_recompute_args *a, qkv_tensor **out)
{
    qkv_tensor *in[QKV_RECOMPUTE_TENSORS]; /* whose list may be that of the outputs */
    for (int i = 0; i < a->n_in; i++)
        in[i] = a->in[i];
    for (int i = 0; i < a->n_out; i++)
        out[i] = NULL;
    if (!a->fn(t, a->args, in, out))
        (void)qkv__op_fail(t, "recompute", "the function failed");
    return !t->status;
}

/* ---- backward ------------------------------------------------------------------------------- */

/* The tape as the function found it. */
static bool recompute_run_again(qkv_tape *t, const recompute_params *p, qkv_tensor **out)
{
    const bool record = t->record, train = t->train;
    const qkv_kernels *k = t->k;
    const qkv_randomness random = t->random;
    qkv__probe *probes = t->probes;
    char name[QKV__NAME_BYTES];
    int depth = t->name_depth;
    memcpy(name, t->name, sizeof name);
    memcpy(t->name, p->name, strlen(p->name) + 1);
    t->probes = NULL;
    t->random = p->random;
    qkv_tape_mode(t, true, p->train);
    bool fine = recompute_call(t, &p->call, out);
    t->record = record;
    t->train = train;
    t->k = k;
    t->random = random;
    t->probes = probes;
    t->name_depth = depth;
    memcpy(t->name, name, sizeof name);
    return fine;
}

static void recompute_backward(qkv_tape *t, const qkv__node *n)
{
    const recompute_params *p = n->params;
    qkv_tensor *out[QKV_RECOMPUTE_TENSORS];
    for (int i = 0; i < p->call.n_in; i++) /* views of what was made again */
        qkv__remake(t, p->call.in[i]);
    outside o = region_begin(t, n);
    bool fine = recompute_run_again(t, p, out);
    region_memory(t, &t->kept); /* for gradients, which others read */
    for (int i = 0; i < p->call.n_out && fine; i++) {
        qkv_tensor *first = p->out[i], *second = first && out[i] ? out[i]->root : NULL;
        if (first && (!second || !qkv__same_shape(first, second)))
            fine = qkv__op_fail(t, "recompute", "output %d was %s, and is %s when it is computed "
                                "again", i, qkv__shape_text(t, first),
                                qkv__shape_text(t, second)) != NULL;
        else if (first)
            qkv__grad_hand_over(t, first, second);
    }
    if (fine)
        qkv__backward_region(t);
    region_leave(t, &o);
    region_release(t);
}

static const qkv_op recompute_op = {.name = "recompute", .backward = recompute_backward};

/* ---- forward -------------------------------------------------------------------------------- */

/* Tensors, each once. */
typedef struct {
    qkv_tensor **list;
    int count;
} recompute_set;

/* Adds x's root, if it is from outside of the region and has a gradient. */
static void recompute_add(const qkv_tape *t, recompute_set *s, const qkv_tensor *x)
{
    qkv_tensor *root = x ? x->root : NULL;
    int at = 0;
    if (!root || !root->needs_grad || root->region == t->region)
        return;
    while (at < s->count && s->list[at] != root)
        at++;
    if (at == s->count)
        s->list[s->count++] = root;
}

/* The tensors with gradients from outside that the region's nodes take or its outputs are views
 * of, in memory of the region. */
static recompute_set recompute_inputs(qkv_tape *t, qkv_tensor *const *out, int n_out)
{
    size_t room = (size_t)n_out + 1;
    for (const qkv__node *n = t->first; n; n = n->next)
        room += (size_t)n->n_in;
    recompute_set s = {qkv__step_alloc(t, room * sizeof(qkv_tensor *)), 0};
    for (const qkv__node *n = t->first; n && s.list; n = n->next)
        for (int i = 0; i < n->n_in; i++)
            recompute_add(t, &s, n->in[i]);
    for (int i = 0; i < n_out && s.list; i++)
        recompute_add(t, &s, out[i]);
    return s;
}

/* The cut of a root into parts, as it was. */
static const qkv__parts *recompute_keep_parts(qkv_tape *t, const qkv__parts *p)
{
    size_t n = p ? (size_t)p->n : 0, *lists = NULL;
    qkv__parts *copy = p ? qkv__step_alloc(t, sizeof *copy + 2 * n * sizeof *lists) : NULL;
    if (!copy)
        return NULL;
    lists = (size_t *)(copy + 1);
    *copy = *p;
    memcpy(lists, p->offset, n * sizeof *lists);
    memcpy(lists + n, p->len, n * sizeof *lists);
    copy->offset = lists;
    copy->len = lists + n;
    return copy;
}

/* A copy of a root of the region, in memory that lasts. */
static qkv_tensor *recompute_keep_root(qkv_tape *t, const qkv_tensor *root)
{
    qkv_tensor *kept = qkv__new(t, root->dtype, root->ndim, root->shape);
    if (!kept)
        return NULL;
    qkv__arrive(t, root);
    t->device->copy(kept->data, root->data, qkv_count(root) * qkv__dtype_size(root->dtype));
    kept->parts = recompute_keep_parts(t, root->parts);
    return kept;
}

/* The function's outputs, made in region `from`, become kept ones: views remain views, of a root
 * from outside or of a kept one. `list` gets the kept roots that have gradients. */
static int recompute_outputs(qkv_tape *t, uint64_t from, const recompute_params *p,
                             qkv_tensor **out, qkv_tensor **list)
{
    qkv_tensor *made[QKV_RECOMPUTE_TENSORS], *root[QKV_RECOMPUTE_TENSORS];
    int count = 0;
    for (int i = 0; i < p->call.n_out && !t->status; i++) {
        const qkv_tensor *y = out[i];
        int same = 0;
        p->out[i] = NULL;
        made[i] = root[i] = y ? y->root : NULL;
        if (!y || y->region != from)
            continue;
        while (made[same] != made[i])
            same++;
        if (same < i)
            root[i] = root[same];
        else if (y->root->region == from)
            root[i] = recompute_keep_root(t, y->root);
        if (root[i] && root[i] != made[i] && same == i && made[i]->needs_grad)
            p->out[i] = list[count++] = root[i];
        out[i] = !root[i] || y == y->root ? root[i]
                                          : qkv__view(t, root[i], y->ndim, y->shape, y->stride,
                                                      y->offset, y->part);
    }
    return count;
}

/* What the backward pass needs, in memory that lasts; false: none left. */
static bool recompute_remember(qkv_tape *t, recompute_params *p, const qkv_recompute_args *a)
{
    size_t inputs = (size_t)a->n_in, outputs = (size_t)a->n_out, name = strlen(t->name) + 1;
    qkv_tensor **lists = qkv__step_alloc(t, (inputs + outputs + 1) * sizeof(qkv_tensor *));
    void *args = qkv__step_alloc(t, a->args_size + 1);
    char *text = qkv__step_alloc(t, name);
    if (t->status)
        return false;
    if (inputs)
        memcpy(lists, a->in, inputs * sizeof(qkv_tensor *));
    if (a->args_size)
        memcpy(args, a->args, a->args_size);
    memcpy(text, t->name, name);
    *p = (recompute_params){*a, t->random, t->train, text, lists + inputs};
    p->call.args = a->args ? args : NULL;
    p->call.in = lists;
    return true;
}

bool qkv_recompute(qkv_tape *t, const qkv_recompute_args *a, qkv_tensor **out)
{
    recompute_params p;
    if (t->status)
        return false;
    if (a->n_in < 0 || a->n_in > QKV_RECOMPUTE_TENSORS || a->n_out < 0 ||
        a->n_out > QKV_RECOMPUTE_TENSORS)
        return qkv__op_fail(t, "recompute", "%d inputs and %d outputs: 0 to %d of each expected",
                            a->n_in, a->n_out, QKV_RECOMPUTE_TENSORS) != NULL;
    if (!t->record || t->probes || t->region)
        return recompute_call(t, a, out);
    if (!recompute_remember(t, &p, a))
        return false;
    outside o = region_begin(t, NULL);
    bool fine = recompute_call(t, &p.call, out);
    qkv_tensor *kept[QKV_RECOMPUTE_TENSORS];
    const uint64_t region = t->region;
    const recompute_set in = fine ? recompute_inputs(t, out, a->n_out) : (recompute_set){NULL, 0};
    region_leave(t, &o);
    const int outputs = fine ? recompute_outputs(t, region, &p, out, kept) : 0;
    if (!t->status && outputs) /* before the region's memory goes, which has the list */
        (void)qkv__record(t, &recompute_op, in.count, in.list, outputs, kept, &p, sizeof p);
    region_release(t);
    return !t->status;
}
