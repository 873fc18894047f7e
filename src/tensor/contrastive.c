/* contrastive.c - losses that tell a row's partner from all other rows, made of other ops. */
#include "tensor/tape.h"

static const double EPS = 1e-12;    /* under the root of a row's length */
static const double HIDDEN = -1e9;  /* a similarity that is not to be chosen */

/* Row i's answer is class (i + shift) mod N. */
static qkv_tensor *partners(qkv_tape *t, size_t N, size_t shift)
{
    int32_t *targets = qkv__step_alloc(t, N * sizeof *targets);
    for (size_t i = 0; targets && i < N; i++)
        targets[i] = (int32_t)((i + shift) % N);
    return targets ? qkv_tensor_ids(t, targets, 1, &N) : NULL;
}

static bool contrastive_ready(qkv_tape *t, const char *op, qkv_tensor *a, qkv_tensor *b,
                              double temperature)
{
    qkv_tensor *in[] = {a, b};
    if (!qkv__ready_reals(t, op, 2, in))
        return false;
    if (a->ndim != 2 || !qkv__same_shape(a, b) || a->shape[0] > INT32_MAX / 2)
        return qkv__op_fail(t, op, "%s and %s are not two (rows, channels) of one shape",
                            qkv__shape_text(t, a), qkv__shape_text(t, b)) != NULL;
    return temperature > 0 ||
           qkv__op_fail(t, op, "temperature %g is not positive", temperature) != NULL;
}

qkv_tensor *qkv_infonce_loss(qkv_tape *t, qkv_tensor *q, qkv_tensor *k, double temperature)
{
    if (!contrastive_ready(t, "infonce_loss", q, k, temperature))
        return NULL;
    qkv_tensor *similarity = qkv_matmul(t, qkv_l2_normalize(t, q, EPS), false,
                                        qkv_l2_normalize(t, k, EPS), true);
    return qkv_cross_entropy(t, qkv_scale(t, similarity, 1.0 / temperature),
                             partners(t, q->shape[0], 0), NULL);
}

qkv_tensor *qkv_clip_loss(qkv_tape *t, qkv_tensor *a, qkv_tensor *b, qkv_tensor *log_scale)
{
    if (!contrastive_ready(t, "clip_loss", a, b, 1) ||
        !qkv__ready_reals(t, "clip_loss", 1, &log_scale))
        return NULL;
    if (log_scale->ndim != 1 || log_scale->shape[0] != 1)
        return qkv__op_fail(t, "clip_loss", "log_scale %s is not one number",
                            qkv__shape_text(t, log_scale));
    qkv_tensor *u = qkv_l2_normalize(t, a, EPS), *v = qkv_l2_normalize(t, b, EPS);
    qkv_tensor *scale = qkv_exp(t, log_scale), *answers = partners(t, a->shape[0], 0);
    qkv_tensor *there = qkv_mul(t, qkv_matmul(t, u, false, v, true), scale);
    qkv_tensor *back = qkv_mul(t, qkv_matmul(t, v, false, u, true), scale);
    there = qkv_cross_entropy(t, there, answers, NULL);
    back = qkv_cross_entropy(t, back, answers, NULL);
    return qkv_scale(t, qkv_add(t, there, back), 0.5);
}

qkv_tensor *qkv_ntxent_loss(qkv_tape *t, qkv_tensor *a, qkv_tensor *b, double temperature)
{
    if (!contrastive_ready(t, "ntxent_loss", a, b, temperature))
        return NULL;
    size_t N = a->shape[0], twice = 2 * N;
    qkv_tensor *z = qkv_l2_normalize(t, qkv_concat(t, 0, 2, (qkv_tensor *[]){a, b}), EPS);
    qkv_tensor *similarity = qkv_scale(t, qkv_matmul(t, z, false, z, true), 1.0 / temperature);
    qkv_tensor *self = qkv_tensor_from(t, NULL, 2, (size_t[]){twice, twice});
    if (!self)
        return NULL;
    for (size_t i = 0; i < twice * twice; i++)
        qkv_tensor_fill(self)[i] = (qkv_real)(i % (twice + 1) == 0 ? HIDDEN : 0);
    return qkv_cross_entropy(t, qkv_add(t, similarity, self), partners(t, twice, N), NULL);
}
