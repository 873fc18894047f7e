/* op_classifier.c - cross-entropy of x W^T + b, a block of rows at a time.
 *
 * The logits of a language model are its largest tensor, and nobody needs all of them at once.
 * Each block's logits become their own gradient in place, and go into the gradients of x, W and
 * b right in the forward pass, as if the loss were the end of everything; the backward pass only
 * multiplies by the gradient that arrives (one, nearly always). So the logits are computed once.
 * Where the device rounds activations, logits that have gradients are in bf16. */
#include <math.h>
#include <string.h>

#include "tensor/cross_entropy.h"

/* A block's logits take about so many bytes or, if there are gradients and that is more, half as
 * many again as W: every block lays W out for its products, and reads and writes W's gradient. */
static const size_t BLOCK_BYTES = (size_t)64 << 20;
enum { BLOCK_ROWS = 64 }; /* or so many rows, if those are more */

typedef struct {
    qkv_real *dx, *dw, *db; /* gradients for an upstream gradient of one; NULL: not wanted */
    size_t nx, nw, nb;
} classifier_params;

/* Logits of some rows in memory: (rows, V), rows ld apart; rounded: in bf16, rows aligned. */
typedef struct {
    size_t V, ld;
    bool rounded;
} logits_layout;

static logits_layout logits_layout_of(size_t V, bool rounded)
{
    enum { ALIGNED = 8 }; /* numbers: 16 bytes */
    return (logits_layout){V, rounded ? (V + ALIGNED - 1) / ALIGNED * ALIGNED : V, rounded};
}

/* Numbers of scratch memory for so many rows. */
static size_t logits_room(const logits_layout *l, size_t rows)
{
    return l->rounded ? rows * l->ld / 2 + 1 : rows * l->ld;
}

static void classifier_backward(qkv_tape *t, const qkv__node *n)
{
    const classifier_params *p = n->params;
    double factor = qkv__grad_one(t, n);
    qkv__grad_add(t, n->in[0], p->dx, factor, p->nx);
    qkv__grad_add(t, n->in[1], p->dw, factor, p->nw);
    qkv__grad_add(t, n->in[2], p->db, factor, p->nb);
    if (p->dw) /* the largest buffer of a step: all gradients to come may fit */
        qkv__grad_spare(t, p->dw, p->nw * sizeof *p->dw);
}

static const qkv_op classifier_op = {.name = "classifier_loss", .backward = classifier_backward};

static qkv_real *wanted_memory(qkv_tape *t, bool recording, const qkv_tensor *x, size_t *n)
{
    *n = x ? qkv_count(x) : 0;
    bool wanted = recording && x && x->root->needs_grad;
    return wanted ? qkv__step_memory(t, *n * sizeof(qkv_real)) : NULL;
}

/* Some rows of x, from `from` on: their logits. The weight may be in fewer bits; exact: x is not
 * rounded then. */
static void make_logits(qkv_tape *t, qkv_tensor *const *in, size_t from, size_t rows,
                        const logits_layout *l, bool exact, qkv_real *logits)
{
    const qkv_exec e = qkv__exec_bf16(t, l->rounded);
    size_t C = qkv__channels(in[0]);
    const qkv_real *x = qkv__real(in[0]) + from * C, *bias = in[2] ? qkv__real(in[2]) : NULL;
    const qkv_k_small *small = qkv__small_of(t, "classifier_loss", in[1]);
    if (small)
        (exact ? qkv__small_exact : qkv__small_product)(t, logits, x, small, bias, rows);
    else
        t->k->gemm(&e, logits, x, qkv__real(in[1]),
                   &(qkv_k_gemm_args){false, true, false, rows, l->V, C, C, C, l->ld, bias,
                                      qkv__version_of(in[1])});
}

/* What their gradients d add to those that p wants; first: nothing was added yet. */
static void pass_back(qkv_tape *t, qkv_tensor *const *in, const classifier_params *p, size_t from,
                      size_t rows, const logits_layout *l, const qkv_real *d, bool first)
{
    const qkv_exec e = qkv__exec_bf16(t, 2u * l->rounded); /* d: the second parameter of each */
    size_t C = qkv__channels(in[0]), V = l->V;
    const qkv_k_small *small = qkv__small_of(t, "classifier_loss", in[1]);
    if (p->dx && small)
        qkv__small_input_gradient(t, p->dx + from * C, false, d, small, rows);
    else if (p->dx)
        t->k->gemm(&e, p->dx + from * C, d, qkv__real(in[1]),
                   &(qkv_k_gemm_args){false, false, false, rows, C, V, l->ld, C, C, NULL,
                                      qkv__version_of(in[1])});
    if (p->dw)
        t->k->gemm(&e, p->dw, d, qkv__real(in[0]) + from * C,
                   &(qkv_k_gemm_args){true, false, !first, V, C, rows, l->ld, C, C, NULL, 0});
    if (p->db)
        t->k->sum_rows(&e, p->db, d, l->ld, !first, rows, V);
}

/* Of all rows or pairs of them. */
typedef struct {
    qkv_real *loss, *nll, *kl; /* nll, kl: NULL unless terms are asked for */
} classifier_rows;

enum { LOGITS_AND_GRADIENTS = 0xc }; /* of xent's parameters: their bits (qkv_exec) */

/* One block of rows, and of their second readings when there are some: logits, losses, and the
 * gradients that p wants. */
static void op_classifier_block(qkv_tape *t, qkv_tensor *const *in, const classifier_params *p,
                                size_t from, const logits_layout *l, qkv_real *logits,
                                const classifier_rows *all, const qkv_k_xent_args *args,
                                const qkv_cross_entropy_options *o, size_t second)
{
    const qkv_exec e = qkv__exec_bf16(t, l->rounded ? LOGITS_AND_GRADIENTS : 0);
    size_t rows = args->N;
    qkv_real *other = second ? logits + logits_room(l, rows) : NULL;
    bool gradients = p->dx || p->dw || p->db;
    const int32_t *targets = qkv__ids(in[3]) + from;
    qkv_real *loss = all->loss + from, *kl = all->kl ? all->kl + from : NULL;
    qkv_real *nll = all->nll ? all->nll + from : NULL;
    make_logits(t, in, from, rows, l, gradients, logits);
    if (second) {
        make_logits(t, in, second + from, rows, l, gradients, other);
        t->k->xent_pair(&t->exec, loss, nll, kl, gradients ? logits : NULL,
                        gradients ? other : NULL, logits, other, targets, args);
    } else {
        qkv_real *row_loss = o->row_loss ? o->row_loss + from : NULL;
        int32_t *row_argmax = o->row_argmax ? o->row_argmax + from : NULL;
        nll = nll ? nll : qkv__target(t, row_loss, rows * sizeof *nll);
        int32_t *argmax = qkv__target(t, row_argmax, rows * sizeof *argmax);
        if (t->status)
            return;
        t->k->xent(&e, loss, nll, argmax, gradients ? logits : NULL, logits, targets, args);
        if (row_loss)
            qkv__deliver(t, row_loss, nll, rows * sizeof *nll);
        qkv__deliver(t, row_argmax, argmax, rows * sizeof *argmax);
    }
    pass_back(t, in, p, from, rows, l, logits, !from);
    if (second)
        pass_back(t, in, p, second + from, rows, l, other, false);
}

/* Rows of a block: all blocks have nearly as many, since a product of few rows is slow. weight:
 * bytes of W; 0 without gradients. */
static size_t block_rows(const qkv__device *device, size_t N, size_t weight,
                         const logits_layout *l)
{
    enum { UNIT = 16 };
    size_t bytes = device->block_bytes;
    if (!bytes)
        bytes = BLOCK_BYTES < weight / 2 * 3 ? weight / 2 * 3 : BLOCK_BYTES;
    size_t most = bytes / (l->rounded ? 2 : sizeof(float)) / l->ld;
    most = most < BLOCK_ROWS ? BLOCK_ROWS : most;
    size_t blocks = (N + most / 2) / most, rows = blocks > 1 ? (N + blocks - 1) / blocks : N;
    return rows < N ? (rows + UNIT - 1) / UNIT * UNIT : N;
}

qkv_tensor *qkv_classifier_loss(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                                qkv_tensor *targets, const qkv_cross_entropy_options *options)
{
    qkv_cross_entropy_options o = options ? *options : (qkv_cross_entropy_options){0};
    qkv_tensor *in[] = {x, w, b, targets};
    if (!qkv__ready_product(t, "classifier_loss", in) ||
        !qkv__ready(t, "classifier_loss", 1, &targets) || !(in[3] = qkv_contiguous(t, targets)))
        return NULL;
    size_t N = qkv__rows(x), V = w->shape[0];
    if (x->ndim < 1 || w->ndim != 2 || qkv__channels(x) != w->shape[1] ||
        (b && (b->ndim != 1 || b->shape[0] != V)))
        return qkv__op_fail(t, "classifier_loss", "x %s and weight %s do not fit",
                            qkv__shape_text(t, x), qkv__shape_text(t, w));
    qkv_k_xent_args args;
    if (!qkv__cross_entropy_plan(t, "classifier_loss", &args, in[3], N, V, &o))
        return NULL;
    classifier_params p = {0};
    bool recording = qkv__recording(t, 3, in);
    p.dx = wanted_memory(t, recording, in[0], &p.nx);
    p.dw = wanted_memory(t, recording, in[1], &p.nw);
    p.db = wanted_memory(t, recording, in[2], &p.nb);
    size_t readings = o.rdrop > 0 ? 2 : 1, count = N / readings;
    const bool gradients = p.dx || p.dw || p.db, small = qkv__small_of(t, "classifier_loss", w);
    const bool rounded = gradients && !small && readings == 1 && qkv__rounds(t);
    const logits_layout l = logits_layout_of(V, rounded);
    size_t rows = block_rows(t->device, count, gradients ? qkv_count(w) * sizeof(qkv_real) : 0, &l);
    args.ld = l.ld;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    classifier_rows all = {.loss = qkv__scratch(t, count)};
    if (o.terms) {
        all.nll = qkv__scratch(t, count);
        all.kl = o.rdrop > 0 ? qkv__scratch(t, count) : NULL;
    }
    qkv_real *logits = qkv__scratch(t, readings * logits_room(&l, rows));
    size_t from = 0;
    do { /* once even without rows: the gradients are zeros then */
        args.N = count - from < rows ? count - from : rows;
        if (!t->status)
            op_classifier_block(t, in, &p, from, &l, logits, &all, &args, &o,
                                count * (readings - 1));
        from += rows;
    } while (from < count);
    qkv_tensor *y = NULL;
    if (!t->status)
        y = qkv__new_item(t, qkv__cross_entropy_sum(t, &o, &args, all.loss, all.nll, all.kl,
                                                    count));
    qkv__arena_release(t->exec.scratch, mark);
    return qkv__record(t, &classifier_op, 3, in, 1, &y, &p, sizeof p);
}
