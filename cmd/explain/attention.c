/* attention.c - attention twice: step by step with small ops, so that every matrix can be
 * shown, and fused as models use it, with a probe for its weights. */
#include <math.h>
#include <string.h>

#include "explain/page.h"

qkv_tensor *explain_matrix(page *p, size_t rows, size_t columns, const double *values)
{
    const size_t shape[] = {rows, columns};
    qkv_tensor *x = qkv_tensor_from(p->t, NULL, 2, shape);
    qkv_real *data = x ? qkv_tensor_fill(x) : NULL;
    for (size_t i = 0; data && i < rows * columns; i++)
        data[i] = (qkv_real)values[i];
    return x;
}

double explain_difference(page *p, const qkv_tensor *a, const qkv_tensor *b)
{
    const qkv_real *x = qkv_data(p->t, a), *y = qkv_data(p->t, b);
    double largest = 0.0;
    for (size_t i = 0; x && y && i < qkv_count(a); i++)
        largest = fmax(largest, fabs((double)x[i] - (double)y[i]));
    return largest;
}

/* 0 where query i may see key j, else -inf. */
static qkv_tensor *causal_mask(page *p, size_t T, size_t S)
{
    const size_t shape[] = {T, S};
    qkv_tensor *mask = qkv_tensor_from(p->t, NULL, 2, shape);
    qkv_real *data = mask ? qkv_tensor_fill(mask) : NULL;
    for (size_t i = 0; data && i < T; i++)
        for (size_t j = 0; j < S; j++)
            data[i * S + j] = j + T <= i + S ? 0 : -(qkv_real)INFINITY;
    return mask;
}

typedef struct {
    qkv_real *to;
} weights_sink;

static void take_weights(void *user, const char *name, int sequence, int head, size_t row,
                         size_t rows, size_t S, const qkv_real *weights)
{
    weights_sink *sink = user;
    (void)name, (void)sequence, (void)head;
    memcpy(sink->to + row * S, weights, rows * S * sizeof *weights);
}

/* x (rows, D) as one sequence of one head. */
static qkv_tensor *one_head(page *p, qkv_tensor *x)
{
    const size_t shape[] = {1, qkv_dim(x, 0), 1, qkv_dim(x, 1)};
    return qkv_reshape(p->t, x, 4, shape);
}

static void fused(page *p, attention *a, bool causal)
{
    qkv_tape *t = p->t;
    const size_t T = qkv_dim(a->q, 0), weights_shape[] = {T, qkv_dim(a->k, 0)};
    const size_t output_shape[] = {T, qkv_dim(a->v, 1)};
    a->weights = qkv_tensor_from(t, NULL, 2, weights_shape);
    if (!a->weights)
        return;
    weights_sink sink = {qkv_tensor_fill(a->weights)};
    qkv_attention_probe probe = {.sequence = -1, .head = -1, .fn = take_weights, .user = &sink};
    qkv_attention_options options = {.scale = a->scale, .causal = causal};
    if (qkv_attention_probe_add(t, &probe))
        return;
    qkv_tensor *out = qkv_attention(t, one_head(p, a->q), one_head(p, a->k), one_head(p, a->v),
                                    &options);
    qkv_probes_clear(t);
    a->output = out ? qkv_reshape(t, out, 2, output_shape) : NULL;
}

attention explain_attention(page *p, qkv_tensor *q, qkv_tensor *k, qkv_tensor *v, double scale,
                            bool causal)
{
    qkv_tape *t = p->t;
    attention a = {.q = q, .k = k, .v = v};
    if (qkv_tape_status(t))
        return a;
    a.scale = scale == 0.0 ? 1.0 / sqrt((double)qkv_dim(q, 1)) : scale;
    a.scores = qkv_matmul(t, q, false, k, true);
    a.scaled = qkv_scale(t, a.scores, a.scale);
    if (causal)
        a.scaled = qkv_add(t, a.scaled, causal_mask(p, qkv_dim(q, 0), qkv_dim(k, 0)));
    qkv_tensor *steps = qkv_matmul(t, qkv_softmax(t, a.scaled), false, v, false);
    fused(p, &a, causal);
    a.difference = explain_difference(p, a.output, steps);
    return a;
}
