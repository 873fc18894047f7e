/* op_cross_entropy.c - cross-entropy of logits that are there; op_classifier.c is the one that
 * never makes them all. Targets are classes or distributions. The backward pass computes the
 * softmax again, right into the gradient. */
#include "tensor/cross_entropy.h"

/* ---- what both losses share -------------------------------------------------------------- */

/* Targets that count; SIZE_MAX when one is no class (the tape then says which). */
static size_t count_targets(qkv_tape *t, const char *op, const qkv_tensor *targets, size_t V,
                            int32_t ignore)
{
    size_t counted = 0, N = qkv_count(targets);
    const int32_t *id = qkv__read_ids(t, targets);
    for (size_t r = 0; id && r < N; r++) {
        if (id[r] == ignore)
            continue;
        if (id[r] < 0 || (size_t)id[r] >= V) {
            qkv__op_fail(t, op, "target %d at row %zu is not in [0, %zu)", (int)id[r], r, V);
            return SIZE_MAX;
        }
        counted++;
    }
    return counted;
}

/* args for targets of which `counted` count. */
static bool op_cross_entropy_plan(qkv_tape *t, const char *op, qkv_k_xent_args *args,
                                  size_t counted, size_t N,
                                  size_t V, const qkv_cross_entropy_options *o)
{
    if (!(o->smoothing >= 0 && o->smoothing < 1))
        return qkv__op_fail(t, op, "smoothing %g is not in [0, 1)", o->smoothing) != NULL;
    if (!(o->rdrop >= 0 && o->rdrop <= 1e6) ||
        (o->rdrop > 0 && (N % 2 || o->row_loss || o->row_argmax)))
        return qkv__op_fail(t, op, "rdrop %g: from 0 on, of an even number of rows, not %zu, "
                            "and nothing said of single rows", o->rdrop, N) != NULL;
    int32_t ignore = o->has_ignore ? o->ignore : QKV_IGNORED;
    double divisor = o->reduction == QKV_REDUCE_SUM || !counted ? 1.0 : (double)counted;
    if (o->normalizer > 0)
        divisor = o->normalizer;
    double others = (double)(V - 1);
    double off = o->smoothing_kind == QKV_SMOOTH_TORCH ? o->smoothing / (double)V
                 : V > 1                               ? o->smoothing / others
                                                       : 0;
    *args = (qkv_k_xent_args){1.0 - off * others, off, 1.0 / divisor, ignore, N, V, o->rdrop, 0};
    return true;
}

bool qkv__cross_entropy_plan(qkv_tape *t, const char *op, qkv_k_xent_args *args,
                             const qkv_tensor *targets, size_t N, size_t V,
                             const qkv_cross_entropy_options *o)
{
    if (V == 0 || targets->dtype != QKV_I32 || qkv_count(targets) != N)
        return qkv__op_fail(t, op, "targets %s are not one i32 per row of logits (%zu, %zu)",
                            qkv__shape_text(t, targets), N, V) != NULL;
    size_t counted = count_targets(t, op, targets, V, o->has_ignore ? o->ignore : QKV_IGNORED);
    return counted != SIZE_MAX && op_cross_entropy_plan(t, op, args, counted, N, V, o);
}

/* ---- the op ------------------------------------------------------------------------------ */

double qkv__cross_entropy_sum(qkv_tape *t, const qkv_cross_entropy_options *o,
                              const qkv_k_xent_args *args, const qkv_real *loss,
                              const qkv_real *nll, const qkv_real *kl, size_t rows)
{
    const qkv_real *each[] = {loss, nll, kl};
    const size_t n[] = {rows, rows, rows};
    qkv_cross_entropy_terms *x = o->terms;
    double sums[3];
    t->k->many_sums(&t->exec, sums, each, n, !x ? 1 : args->rdrop > 0 ? 3 : 2, false);
    sums[0] *= args->scale;
    if (x) {
        x->nll = args->scale * sums[1];
        x->rdrop = args->rdrop > 0 ? args->scale * args->rdrop * sums[2] : 0;
        x->smoothing = o->smoothing > 0 ? sums[0] - x->nll - x->rdrop : 0;
    }
    return sums[0];
}

/* The loss, and the gradient of the logits if d is not NULL: the loss is 0 then. By the kernel that
 * the targets' type asks for. d may be logits. */
static double rows(qkv_tape *t, qkv_real *d, const qkv_tensor *logits, const qkv_tensor *targets,
                   qkv_k_xent_args args, const qkv_cross_entropy_options *o)
{
    const qkv_real *x = qkv__real(logits);
    const size_t nll_bytes = args.N * sizeof(qkv_real), class_bytes = args.N * sizeof(int32_t);
    qkv_real *loss = qkv__scratch(t, args.N), *nll = qkv__target(t, o->row_loss, nll_bytes);
    qkv_real *kl = o->terms && args.rdrop > 0 ? qkv__scratch(t, args.N) : NULL;
    int32_t *argmax = qkv__target(t, o->row_argmax, class_bytes);
    nll = o->terms && !nll ? qkv__scratch(t, args.N) : nll;
    if (t->status)
        return 0;
    if (args.rdrop > 0) {
        args.N /= 2;
        size_t half = args.N * args.V;
        t->k->xent_pair(&t->exec, loss, nll, kl, d, d ? d + half : NULL, x, x + half,
                        qkv__ids(targets), &args);
    } else if (targets->dtype == QKV_I32) {
        t->k->xent(&t->exec, loss, nll, argmax, d, x, qkv__ids(targets), &args);
    } else {
        t->k->xent_soft(&t->exec, loss, nll, argmax, d, x, qkv__real(targets), &args);
    }
    if (o->row_loss)
        qkv__deliver(t, o->row_loss, nll, nll_bytes);
    qkv__deliver(t, o->row_argmax, argmax, class_bytes);
    return d ? 0 : qkv__cross_entropy_sum(t, o, &args, loss, nll, kl, args.N);
}

static void cross_entropy_backward(qkv_tape *t, const qkv__node *n)
{
    qkv_k_xent_args args = *(const qkv_k_xent_args *)n->params;
    args.scale *= qkv__grad_one(t, n);
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (!dx)
        return;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *d = acc ? qkv__scratch(t, args.N * args.V) : dx;
    if (d)
        (void)rows(t, d, n->in[0], n->in[1], args, &(qkv_cross_entropy_options){0});
    if (d != dx && !t->status)
        t->k->axpy(&t->exec, dx, d, 1.0, true, args.N * args.V);
    qkv__arena_release(t->exec.scratch, mark);
}

static const qkv_op cross_entropy_op = {.name = "cross_entropy",
                                        .backward = cross_entropy_backward};

qkv_tensor *qkv_cross_entropy(qkv_tape *t, qkv_tensor *logits, qkv_tensor *targets,
                              const qkv_cross_entropy_options *options)
{
    qkv_cross_entropy_options o = options ? *options : (qkv_cross_entropy_options){0};
    qkv_tensor *in[] = {logits, targets};
    if (!qkv__ready(t, "cross_entropy", 2, in) || !qkv__ready_reals(t, "cross_entropy", 1, in))
        return NULL;
    if (logits->ndim == 0)
        return qkv__op_fail(t, "cross_entropy", "logits () have no classes");
    in[0] = qkv_contiguous(t, logits);
    in[1] = qkv_contiguous(t, targets);
    if (t->status)
        return NULL;
    qkv_k_xent_args args;
    size_t N = qkv__rows(logits), V = qkv__channels(logits);
    bool soft = V && targets->dtype == QKV_REAL && qkv__same_shape(logits, targets);
    if (soft && o.rdrop > 0)
        return qkv__op_fail(t, "cross_entropy", "rdrop goes with targets that are classes");
    if (soft ? !op_cross_entropy_plan(t, "cross_entropy", &args, N, N, V, &o)
             : !qkv__cross_entropy_plan(t, "cross_entropy", &args, in[1], N, V, &o))
        return NULL;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_tensor *y = qkv__new_item(t, rows(t, NULL, in[0], in[1], args, &o));
    qkv__arena_release(t->exec.scratch, mark);
    if (t->status)
        return NULL;
    return qkv__record(t, &cross_entropy_op, 2, in, 1, &y, &args, sizeof args);
}
