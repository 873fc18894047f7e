/* op_linear.c - y = act(x W^T + b): product, bias and activation as one op; and two of them, a
 * feed-forward network, as one.
 *
 * The value before the activation is kept for the backward pass; without an activation, or when
 * nothing is recorded, nothing is kept. A feed-forward network does not keep what comes out of its
 * activation, the widest tensor of a transformer's block: its backward pass activates again; only a
 * device that keeps what is cheap to compute keeps that, where it is rounded. A few rows without a
 * tape (decoding) are bound by the speed at which the weights are read and take their own kernel.
 * Weights in fewer bits: small_product.c; low-rank terms of weights: low_rank.c, whose tensors are
 * inputs of the op behind its own. */
#include <string.h>

#include "tensor/low_rank.h"
#include "tensor/param.h"

enum { GEMV_ROWS = 32, PACKED_ROWS = 4 };

enum { WEIGHT = 1, BIAS, LINEAR_INPUTS };

typedef struct {
    qkv_activation act;
    qkv_tensor *before; /* x W^T + b, or NULL without an activation */
    qkv__terms terms;   /* of W; of a feed-forward network, of the first W */
    qkv__terms down;    /* of its second */
    qkv_real *after;    /* what came out of a feed-forward network's activation; NULL: not kept */
} linear_params;

typedef qkv__product_sizes linear_sizes;

/* Which of a layer's activations, and of their gradients, hold bf16. */
typedef struct {
    bool x, y;
} linear_rounded;

/* For a kernel with parameters y, x, ... or, the other way round, dx, dy, .... */
static qkv_exec linear_exec(const qkv_tape *t, bool first, bool second, bool third)
{
    return qkv__exec_bf16(t, first | second << 1 | third << 2);
}

/* y (M, N) = x (M, K) w^T + b, for a backward pass. */
static void output(qkv_tape *t, qkv_real *y, const qkv_real *x, const qkv_tensor *w,
                   const qkv_tensor *b, const linear_sizes *s, linear_rounded rounded)
{
    const qkv_exec e = linear_exec(t, rounded.y, rounded.x, false);
    const qkv_real *bias = b ? qkv__real(b) : NULL;
    const qkv_k_small *small = qkv__small_of(t, "linear", w);
    if (small)
        qkv__small_exact(t, y, x, small, bias, s->M);
    else
        t->k->gemm(&e, y, x, qkv__real(w),
                   &(qkv_k_gemm_args){false, true, false, s->M, s->N, s->K, s->K, s->K, s->N,
                                      bias, qkv__version_of(w)});
}

/* dw += dy^T x and db += sums of dy's columns, where they are wanted; x (M, K), dy (M, N). */
static void weight_gradients(qkv_tape *t, qkv_tensor *w, qkv_tensor *b, const qkv_real *x,
                             const qkv_real *dy, const linear_sizes *s, linear_rounded rounded)
{
    const qkv_exec e = linear_exec(t, false, rounded.y, rounded.x);
    const qkv_exec of_bias = linear_exec(t, false, rounded.y, false);
    bool acc;
    qkv_real *dw = qkv__grad(t, w, &acc);
    if (dw)
        t->k->gemm(&e, dw, dy, x,
                   &(qkv_k_gemm_args){true, false, acc, s->N, s->K, s->M, s->N, s->K, s->K, NULL,
                                      0});
    qkv_real *db = b ? qkv__grad(t, b, &acc) : NULL;
    if (db)
        t->k->sum_rows(&of_bias, db, dy, s->N, acc, s->M, s->N);
}

/* dx (M, K) = [dx +] dy w. */
static void input_gradient(qkv_tape *t, qkv_real *dx, bool acc, const qkv_tensor *w,
                           const qkv_real *dy, const linear_sizes *s, linear_rounded rounded)
{
    const qkv_exec e = linear_exec(t, rounded.x, rounded.y, false);
    const qkv_k_small *small = qkv__small_of(t, "linear", w);
    if (dx && small)
        qkv__small_input_gradient(t, dx, acc, dy, small, s->M);
    else if (dx)
        t->k->gemm(&e, dx, dy, qkv__real(w),
                   &(qkv_k_gemm_args){false, false, acc, s->M, s->K, s->N, s->N, s->K, s->K, NULL,
                                      qkv__version_of(w)});
}

static void linear_backward(qkv_tape *t, const qkv__node *n)
{
    const linear_params *p = n->params;
    qkv_tensor *x = n->in[0], *y = n->out[0];
    const linear_sizes s = {qkv__rows(x), qkv__channels(x), qkv__channels(y), x->shape[0]};
    const linear_rounded rounded = {qkv__is_rounded(x), qkv__is_rounded(y)};
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    if (p->before) { /* the gradient before the activation, in place unless dy was asked for */
        bool asked = y->required || y->kept == t->pass || y->shares;
        qkv_real *du = asked ? qkv__scratch(t, s.M * s.N) : (qkv_real *)(uintptr_t)dy;
        if (du)
            t->k->act_bwd(&t->exec, du, qkv__real(p->before), dy, (qkv_k_act)p->act, false,
                          s.M * s.N);
        dy = du; /* without scratch the tape has failed, and nobody wants a gradient now */
    }
    bool acc = false;
    qkv_real *dx = qkv__grad(t, x, &acc);
    input_gradient(t, dx, acc, n->in[WEIGHT], dy, &s, rounded);
    weight_gradients(t, n->in[WEIGHT], n->in[BIAS], qkv__real(x), dy, &s, rounded);
    qkv__terms_backward(t, &p->terms, n->in + LINEAR_INPUTS, dx, qkv__real(x), dy, &s);
    qkv__arena_release(t->exec.scratch, mark);
}

/* y (M, N) = x (M, K) w^T + bias where no backward pass follows. */
static void infer(qkv_tape *t, qkv_real *y, const qkv_tensor *x, const qkv_tensor *w,
                  const qkv_real *bias, size_t M, size_t N, size_t K)
{
    const qkv_real *packed = NULL;
    const bool whole = w->root == w && w->param && (M >= PACKED_ROWS || t->invariant);
    const bool now = whole && (t->invariant || qkv__param_packs(w->param));
    if (whole && (t->pack || qkv__param_packs(w->param)) &&
        !qkv__param_packed(&packed, w->param, t->k, &t->exec, now))
        t->status = QKV_E_MEMORY;
    if (packed)
        t->k->packed(&t->exec, y, N, qkv__real(x), K, packed, bias, M, N, K);
    else if (t->invariant)
        for (size_t i = 0; i < M; i += GEMV_ROWS)
            t->k->gemv(&t->exec, y + i * N, N, qkv__real(x) + i * K, K, qkv__real(w), bias,
                       M - i < GEMV_ROWS ? M - i : GEMV_ROWS, N, K);
    else if (M <= GEMV_ROWS)
        t->k->gemv(&t->exec, y, N, qkv__real(x), K, qkv__real(w), bias, M, N, K);
    else
        t->k->gemm(&t->exec, y, qkv__real(x), qkv__real(w),
                   &(qkv_k_gemm_args){false, true, false, M, N, K, K, K, N, bias,
                                      qkv__version_of(w)});
}

static const qkv_op linear_op = {.name = "linear", .backward = linear_backward, .product = true};

qkv_tensor *qkv_linear(qkv_tape *t, qkv_tensor *x, qkv_tensor *w, qkv_tensor *b,
                       qkv_activation act)
{
    qkv_tensor *in[LINEAR_INPUTS + QKV__TERM_INPUTS] = {x, w, b};
    const qkv_k_small *small = qkv__small_of(t, "linear", w);
    if (!qkv__ready_product(t, "linear", in) || !qkv__known_act(t, "linear", act))
        return NULL;
    x = in[0];
    w = in[1];
    if (x->ndim < 1 || w->ndim != 2 || qkv__channels(x) != w->shape[1] ||
        (b && (b->ndim != 1 || b->shape[0] != w->shape[0])))
        return qkv__op_fail(t, "linear", "x %s, weight %s and bias %s do not fit",
                            qkv__shape_text(t, x), qkv__shape_text(t, w), qkv__shape_text(t, b));
    size_t shape[QKV_MAX_DIMS], M = qkv__rows(x), K = w->shape[1], N = w->shape[0];
    for (int i = 0; i < x->ndim; i++)
        shape[i] = x->shape[i];
    shape[x->ndim - 1] = N;
    const linear_sizes sizes = {M, K, N, x->shape[0]};
    linear_params params = {.act = act};
    int inputs = LINEAR_INPUTS + (int)qkv__terms_use(t, w, in + LINEAR_INPUTS);
    bool recording = qkv__recording(t, inputs, in), plain = inputs == LINEAR_INPUTS && !small;
    if (!(plain && recording) && !(x = in[0] = qkv__widened(t, x)))
        return NULL;
    bool rounds = plain && recording && act == QKV_ACT_NONE;
    qkv_tensor *y = rounds ? qkv__new_for_products(t, x->ndim, shape, inputs, in)
                           : qkv__new(t, QKV_REAL, x->ndim, shape);
    if (!y)
        return NULL;
    qkv_real *out = qkv__real(y);
    if (act != QKV_ACT_NONE && recording) {
        params.before = qkv__new_inner(t, y->dtype, y->ndim, y->shape);
        if (!params.before)
            return NULL;
        out = qkv__real(params.before);
    }
    const qkv_real *bias = b ? qkv__real(in[BIAS]) : NULL;
    if (recording)
        output(t, out, qkv__real(x), w, in[BIAS], &sizes,
               (linear_rounded){qkv__is_rounded(x), qkv__is_rounded(y)});
    else if (small)
        qkv__small_product(t, out, qkv__real(x), small, bias, M);
    else
        infer(t, out, x, w, bias, M, N, K);
    qkv__terms_add(t, &params.terms, w, in + LINEAR_INPUTS, out, qkv__real(x), &sizes, recording);
    if (act != QKV_ACT_NONE)
        t->k->act(&t->exec, qkv__real(y), out, (qkv_k_act)act, M * N);
    return qkv__record(t, &linear_op, inputs, in, 1, &y, &params, sizeof params);
}

/* ---- a feed-forward network ---------------------------------------------------------------- */

enum { X, UP, UP_BIAS, DOWN, DOWN_BIAS, FEED_FORWARD_INPUTS };

/* The layers' sizes, of n's tensors. */
static void feed_forward_sizes(qkv_tensor *const *in, linear_sizes *up, linear_sizes *down)
{
    *up = (linear_sizes){qkv__rows(in[X]), qkv__channels(in[X]), in[UP]->shape[0],
                         in[X]->shape[0]};
    *down = (linear_sizes){up->M, up->N, in[DOWN]->shape[0], up->leading};
}

/* Unless it was kept, a piece of scratch holds what came out of the activation, then its gradient,
 * then that of what went in. The second matrix's terms ask for the first two at once. */
static void feed_forward_backward(qkv_tape *t, const qkv__node *n)
{
    const linear_params *p = n->params;
    const qkv_real *dy = qkv__grad_out(t, n, 0), *before = qkv__real(p->before);
    qkv_tensor *const *up_terms = n->in + FEED_FORWARD_INPUTS;
    qkv_tensor *const *down_terms = up_terms + 2 * p->terms.count;
    linear_sizes up, down;
    feed_forward_sizes(n->in, &up, &down);
    size_t count = up.M * up.N;
    const bool inner = qkv__is_rounded(p->before);
    const linear_rounded of_up = {qkv__is_rounded(n->in[X]), inner}, of_down = {inner, false};
    const qkv_exec e = linear_exec(t, inner, inner, inner);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *h = p->after ? p->after : qkv__scratch(t, count);
    qkv_real *dh = p->after || p->down.count ? qkv__scratch(t, count) : h;
    if (h && dh) {
        bool acc = false;
        if (!p->after && (qkv__wants(t, n->in[DOWN]) || p->down.count))
            t->k->act(&e, h, before, (qkv_k_act)p->act, count);
        weight_gradients(t, n->in[DOWN], n->in[DOWN_BIAS], h, dy, &down, of_down);
        input_gradient(t, dh, false, n->in[DOWN], dy, &down, of_down);
        qkv__terms_backward(t, &p->down, down_terms, dh, h, dy, &down);
        t->k->act_bwd(&e, dh, before, dh, (qkv_k_act)p->act, false, count);
        qkv_real *dx = qkv__grad(t, n->in[X], &acc);
        input_gradient(t, dx, acc, n->in[UP], dh, &up, of_up);
        weight_gradients(t, n->in[UP], n->in[UP_BIAS], qkv__real(n->in[X]), dh, &up, of_up);
        qkv__terms_backward(t, &p->terms, up_terms, dx, qkv__real(n->in[X]), dh, &up);
    }
    qkv__arena_release(t->exec.scratch, mark);
}

static const qkv_op feed_forward_op = {.name = "feed_forward",
                                       .backward = feed_forward_backward, .product = true};

/* Is it a layer for rows of K numbers? */
static bool feed_forward_layer(const qkv__layer *l, size_t K)
{
    const qkv_tensor *w = l->weight, *b = l->bias;
    bool weight = w && (w->dtype == QKV_REAL || w->dtype == (qkv_dtype)QKV__SMALL);
    return weight && w->ndim == 2 && w->shape[1] == K && qkv__is_contiguous(w) &&
           (!b || qkv__is_vector(b, w->shape[0]));
}

qkv_tensor *qkv__feed_forward(qkv_tape *t, qkv_tensor *x, const qkv__layer *up, qkv_activation act,
                              const qkv__layer *down)
{
    qkv_tensor *in[FEED_FORWARD_INPUTS + 2 * QKV__TERM_INPUTS] = {x, up->weight, up->bias,
                                                                  down->weight, down->bias};
    qkv_tensor **up_terms = in + FEED_FORWARD_INPUTS;
    qkv_tensor **down_terms = up_terms + qkv__terms_use(t, up->weight, up_terms);
    int inputs = (int)(down_terms + qkv__terms_use(t, down->weight, down_terms) - in);
    bool terms = inputs > FEED_FORWARD_INPUTS;
    if (act == QKV_ACT_NONE || !x || x->ndim < 1 || !qkv__recording(t, inputs, in) ||
        !feed_forward_layer(up, qkv__channels(x)) ||
        !feed_forward_layer(down, up->weight->shape[0]))
        return qkv_linear(t, qkv_linear(t, x, up->weight, up->bias, act), down->weight, down->bias,
                          QKV_ACT_NONE);
    qkv_tensor *second[] = {in[X], in[DOWN], in[DOWN_BIAS]};
    if (!qkv__ready_product(t, "feed_forward", in) ||
        !qkv__ready_product(t, "feed_forward", second) ||
        !qkv__known_act(t, "feed_forward", act))
        return NULL;
    size_t shape[QKV_MAX_DIMS];
    linear_sizes wide, narrow;
    feed_forward_sizes(in, &wide, &narrow);
    memcpy(shape, in[X]->shape, sizeof shape);
    shape[in[X]->ndim - 1] = wide.N;
    in[DOWN_BIAS] = second[2];
    bool inner = qkv__rounds(t) && !terms && !qkv__small_of(t, "feed_forward", up->weight) &&
                 !qkv__small_of(t, "feed_forward", down->weight);
    if (terms && !(in[X] = qkv__widened(t, in[X])))
        return NULL;
    linear_params p = {.act = act};
    p.before = qkv__new_inner(t, inner ? (qkv_dtype)QKV__ROUNDED : QKV_REAL, in[X]->ndim, shape);
    shape[in[X]->ndim - 1] = narrow.N;
    qkv_tensor *y = p.before ? qkv__new(t, QKV_REAL, in[X]->ndim, shape) : NULL;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    if (inner && t->device->keeps)
        p.after = qkv__step_memory(t, wide.M * wide.N * qkv__dtype_size((qkv_dtype)QKV__ROUNDED));
    qkv_real *h = !y ? NULL : p.after ? p.after : qkv__scratch(t, wide.M * wide.N);
    if (h) {
        const qkv_exec e = linear_exec(t, inner, inner, false);
        output(t, qkv__real(p.before), qkv__real(in[X]), in[UP], in[UP_BIAS], &wide,
               (linear_rounded){qkv__is_rounded(in[X]), inner});
        qkv__terms_add(t, &p.terms, in[UP], up_terms, qkv__real(p.before), qkv__real(in[X]), &wide,
                       true);
        t->k->act(&e, h, qkv__real(p.before), (qkv_k_act)act, wide.M * wide.N);
        output(t, qkv__real(y), h, in[DOWN], in[DOWN_BIAS], &narrow,
               (linear_rounded){inner, false});
        qkv__terms_add(t, &p.down, in[DOWN], down_terms, qkv__real(y), h, &narrow, true);
    }
    qkv__arena_release(t->exec.scratch, mark);
    return qkv__record(t, &feed_forward_op, inputs, in, 1, &y, &p, sizeof p);
}
