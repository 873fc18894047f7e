/* op_dropout.c - dropout, alone or with a residual added in the same pass; and of whole samples.
 *
 * Of dropout nothing is remembered: the backward pass draws the same numbers again, from the seed,
 * the step, the site and the place of each element in the global batch. */
#include "tensor/tape.h"

static void dropout_backward(qkv_tape *t, const qkv__node *n)
{
    const qkv_k_dropout_args *args = n->params;
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    size_t count = qkv_count(n->out[0]);
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (dx)
        t->k->dropout(&t->exec, dx, dy, NULL, acc, args, count);
    if (n->in[1] && !qkv__grad_share(t, n->out[0], n->in[1]))
        qkv__grad_add(t, n->in[1], dy, 1.0, count);
}

static const qkv_op dropout_op = {.name = "dropout", .backward = dropout_backward, .product = true};
static const qkv_op dropout_add_op = {.name = "dropout_add", .backward = dropout_backward};

/* residual may be NULL. */
static qkv_tensor *op_dropout_drop(qkv_tape *t, const qkv_op *op, qkv_tensor *x,
                                   qkv_tensor *residual, double p, uint32_t dropout_id)
{
    qkv_tensor *in[] = {qkv_contiguous(t, x), residual};
    if (residual)
        in[1] = qkv_contiguous(t, residual);
    if (t->status)
        return NULL;
    qkv_tensor *y = qkv__new_in_place(t, in[0]);
    if (!y)
        return NULL;
    uint64_t row = qkv__first_row(t, qkv__rows(x), x->ndim ? x->shape[0] : 1);
    qkv_k_dropout_args args = {p, t->random.seed, t->random.step, row * qkv__channels(x),
                               dropout_id};
    t->k->dropout(&t->exec, qkv__real(y), qkv__real(in[0]), residual ? qkv__real(in[1]) : NULL,
                  false, &args, qkv_count(x));
    return qkv__record(t, op, 2, in, 1, &y, &args, sizeof args);
}

static bool possible(qkv_tape *t, const char *op, double p)
{
    return (p >= 0 && p < 1) ||
           qkv__op_fail(t, op, "the probability %g is not in [0, 1)", p) != NULL;
}

qkv_tensor *qkv_dropout(qkv_tape *t, qkv_tensor *x, double p, uint32_t dropout_id)
{
    x = qkv__widened(t, x);
    if (!qkv__ready_reals(t, "dropout", 1, &x) || !possible(t, "dropout", p))
        return NULL;
    return t->train && p > 0 ? op_dropout_drop(t, &dropout_op, x, NULL, p, dropout_id) : x;
}

qkv_tensor *qkv_dropout_add(qkv_tape *t, qkv_tensor *x, qkv_tensor *residual, double p,
                            uint32_t dropout_id)
{
    qkv_tensor *in[] = {x, residual};
    if (!qkv__ready_reals(t, "dropout_add", 2, in) || !possible(t, "dropout_add", p))
        return NULL;
    if (!qkv__same_shape(x, residual))
        return qkv__op_fail(t, "dropout_add", "x is %s, the residual %s", qkv__shape_text(t, x),
                            qkv__shape_text(t, residual));
    return t->train && p > 0 ? op_dropout_drop(t, &dropout_add_op, x, residual, p, dropout_id)
                             : qkv_add(t, residual, x);
}

/* ---- whole samples ------------------------------------------------------------------------- */

typedef struct {
    const qkv_real *factor; /* (N) */
    size_t N, C;
} path_params;

static void drop_path_backward(qkv_tape *t, const qkv__node *n)
{
    const path_params *p = n->params;
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    if (dx)
        t->k->scale_rows(&t->exec, dx, qkv__grad_out(t, n, 0), p->factor, acc, p->N, p->C);
}

static const qkv_op drop_path_op = {.name = "drop_path", .backward = drop_path_backward};

/* 0, or 1/(1-p): of one sample of the global batch. */
static qkv_real fate(const qkv_tape *t, double p, uint32_t dropout_id, uint64_t sample)
{
    const uint32_t key[] = {(uint32_t)t->random.seed, (uint32_t)(t->random.seed >> 32)};
    const uint32_t counter[] = {(uint32_t)(sample / 4), (uint32_t)(sample / 4 >> 32),
                                (uint32_t)t->random.step, dropout_id};
    uint32_t word[4];
    qkv__philox(word, counter, key);
    return word[sample % 4] >= qkv__dropout_threshold(p) ? (qkv_real)(1 / (1 - p)) : 0;
}

/* The sequences' rows, which make up all N. */
static bool op_dropout_in_order(size_t N, size_t sequences, const int32_t *offsets)
{
    bool fine = offsets[0] == 0 && (size_t)offsets[sequences] == N;
    for (size_t s = 0; s < sequences; s++)
        fine = fine && offsets[s] <= offsets[s + 1];
    return fine;
}

qkv_tensor *qkv_drop_path(qkv_tape *t, qkv_tensor *x, double p, uint32_t dropout_id,
                          size_t sequences, const int32_t *offsets)
{
    if (!qkv__ready_reals(t, "drop_path", 1, &x) || !possible(t, "drop_path", p))
        return NULL;
    if (!t->train || p == 0 || qkv_count(x) == 0)
        return x;
    size_t N = offsets ? qkv__rows(x) : x->ndim ? x->shape[0] : 1;
    if (offsets && !op_dropout_in_order(N, sequences, offsets))
        return qkv__op_fail(t, "drop_path", "the offsets of %zu sequences do not cut up x %s",
                            sequences, qkv__shape_text(t, x));
    qkv_tensor *in = qkv_contiguous(t, x), *y = qkv__new_like(t, x);
    qkv_real *factor = qkv__step_alloc(t, N * sizeof *factor);
    qkv_real *factors = qkv__step_memory(t, N * sizeof *factors);
    if (t->status)
        return NULL;
    size_t samples = t->random.samples && !offsets ? t->random.samples : N;
    uint64_t first = t->random.first_sample * (samples == N ? 1 : N / samples);
    for (size_t s = 0; s < (offsets ? sequences : N); s++) {
        size_t row = offsets ? (size_t)offsets[s] : s;
        size_t end = offsets ? (size_t)offsets[s + 1] : s + 1;
        for (qkv_real f = fate(t, p, dropout_id, first + s); row < end; row++)
            factor[row] = f;
    }
    t->device->copy_in(factors, factor, N * sizeof *factors);
    path_params params = {factors, N, qkv_count(x) / N};
    t->k->scale_rows(&t->exec, qkv__real(y), qkv__real(in), factors, false, N, params.C);
    return qkv__record(t, &drop_path_op, 1, &in, 1, &y, &params, sizeof params);
}
