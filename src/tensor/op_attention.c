/* op_attention.c - attention: one op for self, cross, causal, packed, grouped and cached.
 *
 * This file turns tensors and options into the kernel's description of sequences, and answers
 * probes; the arithmetic is the kernel's. Inputs may be views (a packed query/key/value product
 * is not copied) as long as rows are evenly spaced within a sequence. */
#include <math.h>
#include <string.h>

#include "tensor/tape.h"

typedef struct {
    qkv_k_attention_args args;
    qkv_real *lse;
    size_t q_rows;
    const char *name; /* for probes of gradients; NULL: there are none */
} attention_params;

/* ---- probes ------------------------------------------------------------------------------- */

/* What probes are answered from. */
typedef struct {
    const attention_params *p;
    const qkv_real *q, *k; /* weights */
    const qkv_real *dout, *v; /* gradients; NULL: weights are asked for */
} op_attention_source;

/* Weights of a tile of rows, or their gradient: dP = dO V^T. */
static void op_attention_tile(qkv_tape *t, qkv_real *out, const op_attention_source *s, size_t b,
                              size_t h, size_t row, size_t rows)
{
    const qkv_k_attention_args *a = &s->p->args;
    size_t hkv = h / (a->H / a->Hkv);
    if (!s->dout) {
        t->k->attention_rows(&t->exec, out, s->p->lse, s->q, s->k, a, b, h, row, rows);
        return;
    }
    qkv__kernels_of(t->ctx, false)->gemm(
        &t->exec, out, s->dout + (a->q_begin[b] + row) * a->o_row + h * a->o_head,
        s->v + a->k_begin[b] * a->v_row + hkv * a->v_head,
        &(qkv_k_gemm_args){.tb = true, .m = rows, .n = a->k_len[b], .k = a->Dv, .lda = a->o_row,
                           .ldb = a->v_row, .ldc = a->k_len[b]});
}

static void op_attention_answer(qkv_tape *t, const qkv_attention_probe *probe,
                                const op_attention_source *s, const char *name, size_t b, size_t h)
{
    const qkv_k_attention_args *a = &s->p->args;
    size_t T = a->q_len[b], S = a->k_len[b], end = T;
    if (probe->row >= T || !S)
        return;
    if (probe->rows && probe->rows < T - probe->row)
        end = probe->row + probe->rows;
    size_t tile = S < QKV_PROBE_TILE ? QKV_PROBE_TILE / S : 1;
    for (size_t row = probe->row; row < end && !t->status; row += tile) {
        size_t rows = end - row < tile ? end - row : tile;
        qkv__mark mark = qkv__arena_mark(t->exec.scratch), host = qkv__arena_mark(t->host);
        qkv_real *weights = qkv__scratch(t, rows * S);
        if (weights) {
            op_attention_tile(t, weights, s, b, h, row, rows);
            const qkv_real *seen = qkv__read(t, weights, rows * S * sizeof *weights);
            if (seen)
                probe->fn(probe->user, name, (int)b, (int)h, row, rows, S, seen);
        }
        qkv__arena_release(t->host, host);
        qkv__arena_release(t->exec.scratch, mark);
    }
}

static void answer_all(qkv_tape *t, const op_attention_source *s, const char *name)
{
    for (qkv__probe *r = t->probes; r; r = r->next) {
        const qkv_attention_probe *probe = &r->attention;
        if (!probe->fn || probe->gradient != (s->dout != NULL) || !qkv__probe_matches(r, name))
            continue;
        for (size_t b = 0; b < s->p->args.B; b++)
            for (size_t h = 0; h < s->p->args.H; h++)
                if ((probe->sequence < 0 || (size_t)probe->sequence == b) &&
                    (probe->head < 0 || (size_t)probe->head == h))
                    op_attention_answer(t, probe, s, name, b, h);
    }
}

/* Answers probes of weights, and keeps the name for the backward pass if it is to answer some. */
static void op_attention_probes(qkv_tape *t, attention_params *p, const qkv_real *q,
                                const qkv_real *k, const char *name)
{
    bool gradients = false;
    qkv_name_push(t, "%s", name ? name : "attention");
    answer_all(t, &(op_attention_source){.p = p, .q = q, .k = k}, t->name);
    for (const qkv__probe *r = t->probes; r; r = r->next)
        gradients = gradients || r->attention.gradient;
    if (gradients && t->record) {
        char *copy = qkv__step_alloc(t, strlen(t->name) + 1);
        if (copy)
            memcpy(copy, t->name, strlen(t->name) + 1);
        p->name = copy;
    }
    qkv_name_pop(t);
}

/* ---- sequences ---------------------------------------------------------------------------- */

/* x as (B, T, H, D) with T rows evenly spaced: a view of (rows, H, D), or a copy if it must.
 * joined: sequences follow each other without a gap, as they will in the dense output. */
static qkv_tensor *as_rows(qkv_tape *t, qkv_tensor *x, bool joined)
{
    if (x->ndim == 3) {
        size_t shape[] = {1, x->shape[0], x->shape[1], x->shape[2]};
        x = qkv_reshape(t, x, 4, shape);
    }
    if (!x)
        return NULL;
    bool fits = x->ndim == 4 && (x->shape[3] == 1 || x->stride[3] == 1) && x->stride[1] > 0 &&
                (x->shape[0] == 1 || (joined ? x->stride[0] == x->stride[1] * x->shape[1]
                                             : x->stride[0] % x->stride[1] == 0));
    return fits || x->ndim != 4 ? x : qkv_contiguous(t, x);
}

static size_t rows_apart(const qkv_tensor *x) /* of one sequence and the next, equal lengths */
{
    return x->shape[0] > 1 ? x->stride[0] / x->stride[1] : x->shape[1];
}

/* Keys and values are found by one count of rows: where their sequences lie differently far apart,
 * both are copied. False on failure. */
static bool same_spacing(qkv_tape *t, qkv_tensor **in)
{
    bool same = in[1]->ndim != 4 || in[2]->ndim != 4 || rows_apart(in[1]) == rows_apart(in[2]);
    for (int i = 1; i < 3 && !same; i++)
        if (!(in[i] = qkv_contiguous(t, in[i])))
            return false;
    return true;
}

/* All three are rounded, or none is. False on failure. */
static bool of_one_dtype(qkv_tape *t, qkv_tensor **in)
{
    bool all = qkv__is_rounded(in[0]) && qkv__is_rounded(in[1]) && qkv__is_rounded(in[2]);
    for (int i = 0; i < 3 && !all; i++)
        in[i] = qkv__widened(t, in[i]);
    return all || qkv__ready_reals(t, "attention", 3, in);
}

static bool op_attention_offsets_fit(const int32_t *offsets, size_t n, size_t rows)
{
    bool fit = offsets[0] >= 0;
    for (size_t b = 0; b < n && fit; b++)
        fit = offsets[b + 1] >= offsets[b];
    return fit && (size_t)offsets[n] <= rows;
}

static bool begins_fit(const qkv_attention_options *o, size_t n, size_t rows)
{
    bool fit = o->k_lengths != NULL;
    for (size_t b = 0; b < n && fit; b++)
        fit = o->k_begins[b] >= 0 && o->k_lengths[b] >= 0 &&
              (size_t)o->k_begins[b] + (size_t)o->k_lengths[b] <= rows;
    return fit;
}

/* Fills in begin and length of every sequence; false when the options do not fit. */
static bool op_attention_lay_out(qkv_tape *t, qkv_k_attention_args *a, const qkv_tensor *q,
                                 const qkv_tensor *k, const qkv_attention_options *o)
{
    const int32_t *qo = o->q_offsets, *ko = o->k_offsets ? o->k_offsets : o->q_offsets;
    a->B = qo ? o->sequences : q->shape[0];
    size_t *list = qkv__step_alloc(t, (5 * a->B + 1) * sizeof *list);
    if (!list)
        return false;
    if (qo && (q->shape[0] != 1 || k->shape[0] != 1 ||
               !op_attention_offsets_fit(qo, a->B, q->shape[1]) ||
               !(o->k_begins ? begins_fit(o, a->B, k->shape[1])
                             : op_attention_offsets_fit(ko, a->B, k->shape[1]))))
        return qkv__op_fail(t, "attention", "offsets of %zu sequences do not fit q %s and k %s",
                            a->B, qkv__shape_text(t, q), qkv__shape_text(t, k)) != NULL;
    size_t *q_begin = list, *q_len = q_begin + a->B, *k_begin = q_len + a->B,
           *k_len = k_begin + a->B, *k_full = k_len + a->B;
    for (size_t b = 0; b < a->B; b++) {
        q_begin[b] = qo ? (size_t)qo[b] : b * rows_apart(q);
        q_len[b] = qo ? (size_t)(qo[b + 1] - qo[b]) : q->shape[1];
        if (qo && o->k_begins) {
            k_begin[b] = (size_t)o->k_begins[b];
            k_full[b] = k_len[b] = (size_t)o->k_lengths[b];
            continue;
        }
        k_begin[b] = qo ? (size_t)ko[b] : b * rows_apart(k);
        k_full[b] = qo ? (size_t)(ko[b + 1] - ko[b]) : k->shape[1];
        k_len[b] = k_full[b];
        if (o->k_lengths) {
            if (o->k_lengths[b] < 0 || (size_t)o->k_lengths[b] > k_full[b])
                return qkv__op_fail(t, "attention", "key length %d of sequence %zu exceeds %zu",
                                    (int)o->k_lengths[b], b, k_full[b]) != NULL;
            k_len[b] = (size_t)o->k_lengths[b];
        }
    }
    a->q_begin = q_begin;
    a->q_len = q_len;
    a->k_begin = k_begin;
    a->k_len = k_len;
    a->k_len_full = k_full;
    return true;
}

static size_t longest_of(const size_t *lengths, size_t n)
{
    size_t most = 0;
    for (size_t b = 0; b < n; b++)
        most = lengths[b] > most ? lengths[b] : most;
    return most;
}

static bool set_bias(qkv_tape *t, qkv_k_attention_args *a, const qkv_tensor *bias)
{
    size_t T = longest_of(a->q_len, a->B), S = longest_of(a->k_len_full, a->B);
    if (bias->ndim != 4 || (bias->shape[0] != 1 && bias->shape[0] != a->B) ||
        (bias->shape[1] != 1 && bias->shape[1] != a->H) || bias->shape[2] != T ||
        bias->shape[3] != S)
        return qkv__op_fail(t, "attention", "bias or mask %s is not (%zu or 1, %zu or 1, %zu, %zu)",
                            qkv__shape_text(t, bias), a->B, a->H, T, S) != NULL;
    a->bias = qkv__real(bias);
    a->bias_b = bias->shape[0] == 1 ? 0 : bias->stride[0];
    a->bias_h = bias->shape[1] == 1 ? 0 : bias->stride[1];
    a->bias_t = (ptrdiff_t)bias->stride[2];
    return true;
}

/* Row i of the scores begins one number before row i - 1 does. */
static bool set_relative(qkv_tape *t, qkv_k_attention_args *a, const qkv_tensor *relative)
{
    size_t T = longest_of(a->q_len, a->B), S = longest_of(a->k_len_full, a->B);
    if (!T || !S || relative->ndim != 2 ||
        (relative->shape[0] != 1 && relative->shape[0] != a->H) || relative->shape[1] != T + S - 1)
        return qkv__op_fail(t, "attention", "relative %s is not (%zu or 1, %zu + %zu - 1)",
                            qkv__shape_text(t, relative), a->H, T, S) != NULL;
    a->bias = qkv__real(relative) + T - 1;
    a->bias_h = relative->shape[0] == 1 ? 0 : relative->stride[0];
    a->bias_t = -1;
    return true;
}

/* ---- the op ------------------------------------------------------------------------------- */

/* Parameters of the kernels that hold bf16, all or none (qkv_exec): out, q, k, v; dq, dk, dv, dout,
 * out, q, k, v. */
enum { FORWARD_ALL = 0x1d, BACKWARD_ALL = 0x3b7 };

static void attention_backward(qkv_tape *t, const qkv__node *n)
{
    const attention_params *p = n->params;
    qkv_tensor *q = n->in[0], *k = n->in[1], *v = n->in[2], *bias = n->in[3], *out = n->out[0];
    qkv_k_attention_bwd_args bwd = {
        q->stride[1], q->stride[2], k->stride[1], k->stride[2], v->stride[1], v->stride[2],
        out->stride[1], out->stride[2], false, false, false};
    const qkv_real *dout = qkv__grad_out(t, n, 0);
    qkv_real *dq = qkv__grad(t, q, &bwd.acc_q);
    qkv_real *dk = qkv__grad(t, k, &bwd.acc_k);
    qkv_real *dv = qkv__grad(t, v, &bwd.acc_v);
    bool acc_bias = true;
    qkv_real *dbias = bias ? qkv__grad(t, bias, &acc_bias) : NULL;
    if (dbias && !acc_bias)
        t->device->fill(dbias, 0, qkv_count(bias) * sizeof *dbias);
    if (dbias)
        dbias += p->args.bias - qkv__real(bias);
    if (t->status || !p->args.B)
        return;
    if (p->name)
        answer_all(t, &(op_attention_source){.p = p, .dout = dout, .v = qkv__real(v)}, p->name);
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(out) ? BACKWARD_ALL : 0);
    t->k->attention_bwd(&e, dq, dk, dv, dbias, dout, qkv__real(out), p->lse, qkv__real(q),
                        qkv__real(k), qkv__real(v), &p->args, &bwd);
}

static const qkv_op attention_op = {.name = "attention", .backward = attention_backward};

/* True when some rows of q or k belong to no sequence: nobody would write their output. */
static bool rows_are_left_out(const qkv_k_attention_args *a, const qkv_tensor *q,
                              const qkv_tensor *k, const qkv_attention_options *o)
{
    size_t last = a->B - 1;
    if (!o->q_offsets)
        return false;
    return a->B == 0 || a->q_begin[0] || a->q_begin[last] + a->q_len[last] != q->shape[1] ||
           (!o->k_begins &&
            (a->k_begin[0] || a->k_begin[last] + a->k_len_full[last] != k->shape[1]));
}

static bool shapes_fit(const qkv_tensor *q, const qkv_tensor *k, const qkv_tensor *v)
{
    return q->ndim == 4 && k->ndim == 4 && v->ndim == 4 && q->shape[3] == k->shape[3] &&
           k->shape[0] == v->shape[0] && k->shape[1] == v->shape[1] &&
           k->shape[2] == v->shape[2] && q->shape[0] == k->shape[0] && k->shape[2] &&
           q->shape[2] % k->shape[2] == 0;
}

static bool op_attention_describe(qkv_tape *t, attention_params *p, qkv_tensor *const *in,
                                  const qkv_attention_options *o)
{
    const qkv_tensor *q = in[0], *k = in[1], *v = in[2];
    qkv_k_attention_args *a = &p->args;
    if (!shapes_fit(q, k, v))
        return qkv__op_fail(t, "attention",
                            "q %s, k %s and v %s are not (B, T, H, D), (B, S, Hkv, D), "
                            "(B, S, Hkv, Dv) with H a multiple of Hkv", qkv__shape_text(t, q),
                            qkv__shape_text(t, k), qkv__shape_text(t, v)) != NULL;
    a->H = q->shape[2];
    a->Hkv = k->shape[2];
    a->D = q->shape[3];
    a->Dv = v->shape[3];
    a->q_row = q->stride[1];
    a->q_head = q->stride[2];
    a->k_row = k->stride[1];
    a->k_head = k->stride[2];
    a->v_row = v->stride[1];
    a->v_head = v->stride[2];
    a->o_row = a->H * a->Dv;
    a->o_head = a->Dv;
    a->scale = o->scale != 0 ? o->scale : 1.0 / sqrt((double)a->D);
    a->causal = o->causal;
    a->window = o->causal ? o->window : 0;
    if (!op_attention_lay_out(t, a, q, k, o) ||
        (in[3] && !(o->relative ? set_relative : set_bias)(t, a, in[3])))
        return false;
    if (rows_are_left_out(a, q, k, o))
        return qkv__op_fail(t, "attention", "offsets leave rows out that no sequence has") != NULL;
    if (t->train && o->dropout > 0)
        a->dropout = (qkv_k_dropout_args){o->dropout, t->random.seed, t->random.step,
                                          qkv__first_row(t, q->shape[0] * q->shape[1],
                                                         q->shape[0]), o->dropout_id};
    p->q_rows = a->B ? a->q_begin[a->B - 1] + a->q_len[a->B - 1] : 0;
    return true;
}

/* The options' bias, with -INFINITY where their mask has 0; NULL on failure. */
static qkv_tensor *op_attention_masked(qkv_tape *t, const qkv_attention_options *o)
{
    const int32_t *seen = qkv_data_ids(t, o->mask);
    if (t->status)
        return NULL;
    if (!seen)
        return qkv__op_fail(t, "attention", "mask %s: i32 and contiguous expected",
                            qkv__shape_text(t, o->mask));
    qkv_tensor *m = qkv_tensor_from(t, NULL, o->mask->ndim, o->mask->shape);
    qkv_real *p = qkv_tensor_fill(m);
    for (size_t i = 0; p && i < qkv_count(o->mask); i++)
        p[i] = seen[i] ? 0 : -(qkv_real)INFINITY;
    return o->bias ? qkv_add(t, o->bias, m) : m;
}

qkv_tensor *qkv_attention(qkv_tape *t, qkv_tensor *q, qkv_tensor *k, qkv_tensor *v,
                          const qkv_attention_options *options)
{
    qkv_attention_options o = options ? *options : (qkv_attention_options){0};
    if (o.relative && (o.bias || o.mask))
        return qkv__op_fail(t, "attention", "a bias or mask beside relative");
    if (o.mask && !(o.bias = op_attention_masked(t, &o)))
        return NULL;
    qkv_tensor *added = o.relative ? o.relative : o.bias, *in[] = {q, k, v, added};
    if (!qkv__ready(t, "attention", 3, in) ||
        (added && !qkv__ready_reals(t, "attention", 1, &added)))
        return NULL;
    if (!(o.dropout >= 0 && o.dropout < 1))
        return qkv__op_fail(t, "attention", "the dropout probability %g is not in [0, 1)",
                            o.dropout);
    int ndim = q->ndim;
    for (int i = 0; i < 3; i++)
        if (!(in[i] = as_rows(t, in[i], i == 0)))
            return NULL;
    if (!same_spacing(t, in) || !of_one_dtype(t, in) ||
        (added && !(in[3] = qkv_contiguous(t, added))))
        return NULL;
    if (o.k_begins && (!o.q_offsets || qkv__recording(t, added ? 4 : 3, in)))
        return qkv__op_fail(t, "attention", "keys by their begins need q_offsets, and a tape that "
                            "does not record");
    attention_params p = {0};
    if (!op_attention_describe(t, &p, in, &o))
        return NULL;
    size_t shape[] = {in[0]->shape[0], in[0]->shape[1], p.args.H, p.args.Dv};
    qkv_tensor *y = t->remaking ? qkv__new_inner(t, in[0]->dtype, 4, shape)
                                : qkv__new(t, in[0]->dtype, 4, shape);
    p.lse = qkv__step_memory(t, (p.q_rows * p.args.H + 1) * sizeof *p.lse);
    if (!y || !p.lse)
        return NULL;
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(y) ? FORWARD_ALL : 0);
    if (p.args.B)
        t->k->attention(&e, qkv__real(y), p.lse, qkv__real(in[0]), qkv__real(in[1]),
                        qkv__real(in[2]), &p.args);
    if (t->probes)
        op_attention_probes(t, &p, qkv__real(in[0]), qkv__real(in[1]), o.probe);
    if (!qkv__record(t, &attention_op, 4, in, 1, &y, &p, sizeof p))
        return NULL;
    return ndim == 3 ? qkv_reshape(t, y, 3, y->shape + 1) : y;
}
