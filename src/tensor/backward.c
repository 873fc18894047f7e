/* backward.c - the tape in reverse.
 *
 * A pass starts from outputs with given gradients, and goes to every parameter and required
 * tensor, or to chosen tensors only. Nothing is filled with zeros: the first writer of a
 * gradient stores, later ones add; only parts of a tensor that no one wrote are cleared. The
 * gradient of an intermediate goes back to the pool as soon as the node that made it has run. */
#include <string.h>

#include "tensor/param.h"
#include "tensor/tape.h"

/* ---- gradients of roots ------------------------------------------------------------------- */

static size_t root_bytes(const qkv_tensor *root)
{
    return qkv_count(root) * qkv__dtype_size(root->dtype);
}

/* Its gradient from element `offset` on. */
static qkv_real *grad_from(const qkv_tensor *root, size_t offset)
{
    return (qkv_real *)(void *)((char *)root->grad + offset * qkv__dtype_size(root->dtype));
}

/* A parameter's own gradient takes part only in passes to everything. */
static bool into_param(const qkv_tape *t, const qkv_tensor *root)
{
    return root->trains && !t->wrt;
}

/* True when the graph that made this tensor is gone, so that a gradient would end here. */
static bool is_cut_off(const qkv_tape *t, const qkv_tensor *root)
{
    bool asked = root->required || root->kept == t->pass;
    return root->noted && root->noted <= t->dropped && !asked;
}

/* What the root's last pass left is stale. */
static void enter_pass(const qkv_tape *t, qkv_tensor *root)
{
    if (root->pass == t->pass)
        return;
    root->pass = t->pass;
    root->state = QKV__GRAD_NONE;
    root->written = 0;
    root->used_up = 0;
    root->complete = false;
    root->grad = NULL;
    root->one = false;
    root->shares = NULL;
}

/* Readies the root's gradient for this pass; false when memory is out. */
static bool open_grad(qkv_tape *t, qkv_tensor *root)
{
    enter_pass(t, root);
    if (root->grad)
        return true;
    if (into_param(t, root)) {
        root->grad = qkv__param_grad_memory(root->param);
        if (root->grad && root->param->has_grad)
            root->state = QKV__GRAD_FULL;
        if (!root->grad && !t->status)
            t->status = QKV_E_MEMORY;
    } else {
        root->grad = qkv__pool_take(t, root_bytes(root));
    }
    return root->grad != NULL;
}

/* The number 1 of a pass's output goes to where others read it, or add to it. */
static void write_one(qkv_tape *t, qkv_tensor *root)
{
    const qkv_real one = 1;
    if (root->one)
        t->device->copy_in(root->grad, &one, sizeof one);
    root->one = false;
}

/* Clears the parts that nobody wrote and makes the gradient whole. */
static void fill_missing(qkv_tape *t, qkv_tensor *root)
{
    write_one(t, root);
    if (root->state == QKV__GRAD_NONE)
        t->device->fill(root->grad, 0, root_bytes(root));
    const qkv__parts *p = root->parts;
    for (int i = 0; root->state == QKV__GRAD_PARTIAL && i < p->n; i++)
        if (!(root->written >> i & 1u))
            for (size_t o = 0; o < p->outer; o++)
                t->device->fill(grad_from(root, o * p->stride + p->offset[i]), 0,
                                p->len[i] * qkv__dtype_size(root->dtype));
    root->state = QKV__GRAD_FULL;
}

static void stop_sharing(qkv_tensor *root)
{
    root->shares->shares = NULL;
    root->shares = NULL;
}

/* A copy of the gradient, which is to change, is the root's own. False when memory is out. */
static bool own_grad(qkv_tape *t, qkv_tensor *root)
{
    qkv_real *copy = qkv__pool_take(t, root_bytes(root));
    if (copy)
        t->device->copy(copy, root->grad, root_bytes(root));
    root->grad = copy;
    stop_sharing(root);
    return copy != NULL;
}

bool qkv__wants(const qkv_tape *t, const qkv_tensor *x)
{
    if (!x)
        return false;
    const qkv_tensor *root = x->root;
    return t->wrt ? root->wanted == t->pass : root->needs_grad;
}

qkv_real *qkv__grad(qkv_tape *t, qkv_tensor *x, bool *acc)
{
    if (t->status || !qkv__wants(t, x))
        return NULL;
    qkv_tensor *root = x->root;
    if (is_cut_off(t, root))
        return qkv__op_fail(t, "backward", "%s was computed before a pass that did not retain "
                            "its graph", qkv__shape_text(t, x));
    if (!open_grad(t, root) || (root->shares && !own_grad(t, root)))
        return NULL;
    write_one(t, root);
    *acc = true;
    if (x->part == QKV__WHOLE && root->state == QKV__GRAD_NONE) {
        *acc = false;
        root->state = QKV__GRAD_FULL;
    } else if (x->part >= 0 && root->state != QKV__GRAD_FULL) {
        uint64_t bit = (uint64_t)1 << x->part, n = (uint64_t)root->parts->n;
        *acc = (root->written & bit) != 0;
        root->written |= bit;
        bool all = root->written == (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1);
        root->state = all ? QKV__GRAD_FULL : QKV__GRAD_PARTIAL;
    } else if (root->state != QKV__GRAD_FULL) {
        fill_missing(t, root);
    }
    return grad_from(root, x->offset);
}

/* Can x's gradient be memory that another tensor's is? */
static bool may_share(const qkv_tape *t, const qkv_tensor *x)
{
    bool asked = x->required || x->kept == t->pass;
    return x->root == x && !into_param(t, x) && !asked && !x->shares && x->dtype == QKV_REAL;
}

bool qkv__grad_share(qkv_tape *t, qkv_tensor *x, qkv_tensor *other)
{
    if (t->status || x == other || !qkv__wants(t, other) || is_cut_off(t, other) ||
        !may_share(t, x) || !may_share(t, other) || x->state != QKV__GRAD_FULL ||
        !qkv__same_shape(x, other))
        return false;
    enter_pass(t, other);
    if (other->grad || other->region != x->region)
        return false;
    write_one(t, x);
    other->grad = x->grad;
    other->state = QKV__GRAD_FULL;
    other->shares = x;
    x->shares = other;
    return true;
}

const qkv_real *qkv__grad_out(qkv_tape *t, const qkv__node *n, int i)
{
    qkv_tensor *y = n->out[i];
    if (y->pass != t->pass || y->state == QKV__GRAD_NONE)
        return NULL;
    fill_missing(t, y);
    return y->grad;
}

double qkv__grad_one(qkv_tape *t, const qkv__node *n)
{
    const qkv_tensor *y = n->out[0];
    return y->pass == t->pass && y->one ? 1 : (double)qkv__get(t, qkv__grad_out(t, n, 0));
}

/* ---- the pass ----------------------------------------------------------------------------- */

static qkv_status backward_check(qkv_tape *t, const qkv_backward_args *a)
{
    if (t->status)
        return t->status;
    if (a->n < 1 || !a->outputs)
        return t->status = qkv_fail(t->ctx, QKV_E_ARGUMENT, "backward: no output to start from");
    for (int i = 0; i < a->n; i++) {
        const qkv_tensor *y = a->outputs[i];
        const qkv_tensor *g = a->gradients ? a->gradients[i] : NULL;
        if (!y)
            return t->status = qkv_fail(t->ctx, QKV_E_ARGUMENT, "backward: output %d is NULL", i);
        if (!y->root->needs_grad)
            return t->status = qkv_fail(t->ctx, QKV_E_ARGUMENT,
                                        "backward: output %d depends on nothing that has a "
                                        "gradient, or was not recorded", i);
        if (g && !qkv__same_shape(y, g))
            return t->status = qkv_fail(t->ctx, QKV_E_SHAPE,
                                        "backward: output %d is %s, its gradient %s", i,
                                        qkv__shape_text(t, y), qkv__shape_text(t, g));
    }
    for (int i = 0; i < a->n_wrt; i++)
        if (!a->wrt[i])
            return t->status = qkv_fail(t->ctx, QKV_E_ARGUMENT, "backward: wrt %d is NULL", i);
    return QKV_OK;
}

/* Marks what the tape's nodes made of what is marked. */
static void spread_wanted(qkv_tape *t)
{
    for (qkv__node *n = t->first; n; n = n->next) {
        bool reached = false;
        for (int i = 0; i < n->n_in && !reached; i++)
            reached = n->in[i] && n->in[i]->root->wanted == t->pass;
        for (int i = 0; i < n->n_out && reached; i++)
            n->out[i]->root->wanted = t->pass;
    }
}

/* Marks what lies between the chosen tensors and the outputs. */
static void mark_wanted(qkv_tape *t, const qkv_backward_args *a)
{
    for (int i = 0; i < a->n_wrt; i++) {
        a->wrt[i]->root->wanted = t->pass;
        a->wrt[i]->root->kept = t->pass;
    }
    spread_wanted(t);
}

void qkv__grad_fill(qkv_tape *t, qkv_real *dx, const qkv_tensor *x, double value, bool acc)
{
    static const size_t same[QKV_MAX_DIMS] = {0};
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(x) ? 1 : 0);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *one = qkv__scratch(t, 1);
    if (one) {
        qkv__put(t, one, value);
        t->k->copy(&e, dx, x->stride, one, same, x->shape, x->ndim, acc);
    }
    qkv__arena_release(t->exec.scratch, mark);
}

static void seed(qkv_tape *t, qkv_tensor *y, const qkv_tensor *g)
{
    bool acc;
    qkv_real *dy = qkv__grad(t, y, &acc);
    if (!dy)
        return;
    if (g) {
        const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(y) + 2u * qkv__is_rounded(g));
        qkv__arrive(t, g->root);
        t->k->copy(&e, dy, y->stride, qkv__real(g), g->stride, y->shape, y->ndim, acc);
    } else if (!acc && qkv_count(y) == 1 && may_share(t, y)) {
        y->one = true; /* a loss's op asks for the number alone */
    } else {
        qkv__grad_fill(t, dy, y, 1, acc);
    }
}

/* Uses by ops that add to the whole gradient, where others have rows that are kept apart; all uses
 * where there are no such, or nothing but such. */
static size_t whole_uses(const qkv_tensor *root)
{
    return root->uses > root->row_uses ? root->uses - root->row_uses : root->uses;
}

bool qkv__grad_hand_rows(qkv_tape *t, const qkv_tensor *x, const qkv__grad_rows *rows)
{
    const qkv_tensor *root = x->root;
    bool begun = root->pass == t->pass && root->grad; /* by others: it will be complete */
    if (t->region || !begun || !into_param(t, root) || whole_uses(root) == root->uses)
        return false;
    qkv__grad_rows r = *rows;
    r.param = root->param;
    if (!t->on_rows(t->rows_user, &r) && !t->status)
        t->status = QKV_E_MEMORY;
    return true;
}

static void backward_complete(qkv_tape *t, qkv_tensor *leaf)
{
    const qkv_param *p = leaf->param;
    fill_missing(t, leaf);
    if (p->held) {
        size_t columns = p->count / p->shape[0];
        t->device->fill(leaf->grad + (p->held - 1) * columns, 0, columns * sizeof *leaf->grad);
    }
    leaf->complete = true;
    leaf->param->has_grad = true;
    leaf->param->grad_version++;
    if (t->on_ready)
        t->on_ready(t->ready_user, leaf->param);
}

/* One use less of everything the node took; a parameter without any left is complete. */
static void use_up(qkv_tape *t, const qkv__node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        qkv_tensor *root = n->in[i] ? n->in[i]->root : NULL;
        if (!root || !into_param(t, root) || !root->needs_grad || t->region)
            continue;
        enter_pass(t, root);
        bool rows = whole_uses(root) < root->uses && n->table == i;
        root->used_up += !rows;
        if (root->used_up == whole_uses(root) && root->grad && !root->complete)
            backward_complete(t, root);
    }
}

/* Does n's backward pass read input i? */
static bool reads_input(const qkv_tape *t, const qkv__node *n, int i)
{
    bool reads = !n->op->product;
    for (int j = 0; j < n->n_in && !reads; j++)
        reads = j != i && qkv__wants(t, n->in[j]);
    return reads;
}

static void run_node(qkv_tape *t, const qkv__node *n)
{
    bool arrived = false, wanted = false;
    for (int i = 0; i < n->n_out; i++)
        arrived = arrived || (n->out[i]->pass == t->pass && n->out[i]->state != QKV__GRAD_NONE);
    for (int i = 0; i < n->n_in; i++)
        wanted = wanted || qkv__wants(t, n->in[i]);
    const bool runs = arrived && wanted && qkv__take_status(t, qkv__working(t->ctx));
    for (int i = 0; i < n->n_in && runs; i++)
        if (reads_input(t, n, i))
            qkv__remake(t, n->in[i]);
    if (runs && !t->status)
        n->op->backward(t, n);
    if (!t->status && qkv__arena_failed(t->exec.scratch))
        t->status = QKV_E_MEMORY;
    use_up(t, n);
    qkv__let_outputs_go(t, n);
    if (t->lender && !t->region && !t->retain_graph)
        qkv__lend_return(t->lender, n->prev ? n->prev->lent : 0);
    for (int i = 0; i < n->n_out; i++) {
        qkv_tensor *y = n->out[i];
        bool keep = y->required || y->kept == t->pass;
        if (y->pass == t->pass && y->grad && !keep) {
            if (y->shares)
                stop_sharing(y);
            else
                qkv__pool_give(t, y->grad, root_bytes(y));
            y->grad = NULL;
            y->state = QKV__GRAD_NONE;
        }
    }
}

void qkv__backward_region(qkv_tape *t)
{
    if (t->wrt)
        spread_wanted(t);
    for (const qkv__node *n = t->last; n && !t->status; n = n->prev)
        run_node(t, n);
}

void qkv__grad_hand_over(qkv_tape *t, qkv_tensor *x, qkv_tensor *y)
{
    if (t->status || x->pass != t->pass || x->state == QKV__GRAD_NONE)
        return;
    fill_missing(t, x);
    bool asked = x->required || x->kept == t->pass;
    bool own = y->root == y && y->region == t->region && y->pass != t->pass && !x->shares;
    if (asked || !own) {
        seed(t, y, qkv__new_over(t, x->dtype, x->grad, x->ndim, x->shape));
        return;
    }
    enter_pass(t, y);
    y->grad = x->grad;
    y->state = QKV__GRAD_FULL;
    x->grad = NULL;
    x->state = QKV__GRAD_NONE;
}

qkv_status qkv_backward_from(qkv_tape *t, const qkv_backward_args *a)
{
    if (backward_check(t, a))
        return t->status;
    t->pass++;
    t->wrt = a->n_wrt > 0;
    t->retain_graph = a->retain_graph;
    if (t->wrt)
        mark_wanted(t, a);
    for (int i = 0; i < a->n; i++)
        seed(t, a->outputs[i], a->gradients ? a->gradients[i] : NULL);
    for (const qkv__node *n = t->last; n && !t->status; n = n->prev)
        run_node(t, n);
    for (qkv_tensor *leaf = t->leaves; leaf && !t->status; leaf = leaf->next_leaf)
        if (into_param(t, leaf) && leaf->uses == 0 && leaf->pass == t->pass)
            backward_complete(t, leaf); /* an output of the pass itself */
    if (!a->retain_graph) {
        qkv__lend_end(&t->lender);
        t->dropped++;
        t->first = t->last = NULL;
        for (qkv_tensor *leaf = t->leaves; leaf; leaf = leaf->next_leaf)
            leaf->uses = leaf->row_uses = 0;
    }
    return t->status;
}

qkv_status qkv_backward(qkv_tape *t, qkv_tensor *loss)
{
    if (loss && qkv_count(loss) != 1 && !t->status)
        return t->status = qkv_fail(t->ctx, QKV_E_SHAPE, "backward: the loss is %s, not a scalar",
                                    qkv__shape_text(t, loss));
    return qkv_backward_from(t, &(qkv_backward_args){.n = 1, .outputs = &loss});
}

const qkv_tensor *qkv_grad_of(qkv_tape *t, const qkv_tensor *x)
{
    if (!x || t->status)
        return NULL;
    qkv_tensor *root = x->root;
    if (root->pass != t->pass || !root->grad || root->state == QKV__GRAD_NONE)
        return NULL;
    fill_missing(t, root);
    qkv_tensor *g = qkv__new_over(t, root->dtype, root->grad, root->ndim, root->shape);
    if (g && x != root)
        g = qkv__view(t, g, x->ndim, x->shape, x->stride, x->offset, QKV__OTHER);
    return g && (qkv__is_rounded(g) || !qkv__is_contiguous(g)) ? qkv__copy(t, g) : g;
}
