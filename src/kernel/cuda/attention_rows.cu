/* attention_rows.cu - the weights of some queries of one sequence and head, for reports: a block
 * for each query, in double as in the reference. */
#include "kernel/cuda/attention.cuh"

struct rows_job {
    int b, h, first;
};

/* <q, k> by a warp, in every lane. */
ATT_DEVICE double rows_dot(const float *q, const float *k, int D)
{
    double sum = 0;
    for (int c = (int)threadIdx.x % WARP; c < D; c += WARP)
        sum += (double)q[c] * (double)k[c];
    return warp_sum(sum);
}

/* Divided by their sum at the end, so that the rounding of lse does not show. */
static __global__ void weights_of_rows(const __grid_constant__ att_problem p, float *weights,
                                       const float *lse, const float *q, const float *k,
                                       double scale, const rows_job w)
{
    __shared__ double partial[WARP];
    const int i = w.first + (int)blockIdx.x;
    const att_sequence s = att_sequence_of(p, w.b);
    const att_range seen = att_seen(p, s, i);
    const float *x = q + (s.q_begin + i) * p.q_row + w.h * p.q_head;
    const float *keys = k + s.k_begin * p.k_row + w.h / (p.H / p.Hkv) * p.k_head;
    const float *bias = p.bias ? att_bias(p, w.b, w.h, i) : NULL;
    const double l = lse[(s.q_begin + i) * p.H + w.h];
    float *y = weights + (size_t)blockIdx.x * s.k_len;
    double sum = 0;
    for (int j = (int)threadIdx.x / WARP; j < s.k_len; j += BLOCK / WARP) {
        double weight = 0;
        if (j >= seen.lo && j < seen.hi && l != -INFINITY)
            weight = exp(scale * rows_dot(x, keys + (size_t)j * p.k_row, p.D) +
                         (bias ? (double)bias[j] : 0) - l);
        if (threadIdx.x % WARP == 0) {
            y[j] = (float)weight;
            sum += weight;
        }
    }
    sum = block_sum(sum, partial); /* all weights are written behind its barriers */
    for (int j = (int)threadIdx.x; sum > 0 && j < s.k_len; j += BLOCK)
        y[j] = (float)((double)y[j] / sum);
}

void cuda_attention_rows(const qkv_exec *, qkv_real *weights, const qkv_real *lse,
                         const qkv_real *q, const qkv_real *k, const qkv_k_attention_args *a,
                         size_t b, size_t h, size_t row, size_t rows)
{
    att_problem p;
    const rows_job w = {0, (int)h, (int)row};
    qkv_k_attention_args one = *a;
    one.B = 1;
    one.q_begin += b, one.q_len += b, one.k_begin += b, one.k_len += b, one.k_len_full += b;
    one.bias = a->bias ? a->bias + b * a->bias_b : NULL;
    if (att_problem_of(&p, &one) && rows && p.longest_k)
        LAUNCH(weights_of_rows, (unsigned)rows, BLOCK, 0, p, weights, lse, q, k, a->scale, w);
}
