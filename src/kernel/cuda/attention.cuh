/* attention.cuh - what the files of attention in f32 share: the problem as kernels see it, and what
 * one file calls of another. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_CUH
#define QKV_KERNEL_CUDA_ATTENTION_CUH

#include "kernel/cuda/cuda.cuh"

enum { ATT_INLINE = 64 }; /* sequences that travel in the parameters of a launch */

struct att_sequence {
    size_t q_begin, k_begin;
    int q_len, k_len, k_full;
};

struct att_problem {
    int B, H, Hkv, D, Dv;
    int longest_q, longest_k, longest_full; /* of q_len, k_len, k_full */
    int causal, window;
    size_t q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head;
    float scale;
    const float *bias;
    ptrdiff_t bias_b, bias_h, bias_t;
    int dropout; /* of weights */
    float keep;  /* what those that are kept are multiplied by */
    uint32_t threshold, step, site, seed_low, seed_high;
    uint64_t first_row;
    /* Sequence b is few[0], b steps on, where all have the same lengths and distance; else one of
     * few, or of many (not NULL) on the device. */
    bool even;
    size_t q_step, k_step;
    const att_sequence *many;
    att_sequence few[ATT_INLINE];
};

/* False when there is nothing to launch. */
bool att_problem_of(att_problem *p, const qkv_k_attention_args *a);

qkv_k_attention_fn cuda_attention;
qkv_k_attention_bwd_fn cuda_attention_bwd;
qkv_k_attention_rows_fn cuda_attention_rows;
qkv_k_attention_stored_fn cuda_attention_stored;
/* attention of few queries a sequence; false: not of this shape, and nothing was done. */
bool att_few(const qkv_exec *e, float *out, float *lse, const float *q, const float *k,
             const float *v, const att_problem &p);

/* What the kernels of the backward pass read. */
struct att_inputs {
    const float *dout, *lse, *delta, *q, *k, *v; /* delta (rows, H): <dout, out> */
    size_t do_row, do_head;
    bool wide_do, wide_q, wide_k, wide_v;
};
/* dbias += the gradient; attention_bias.cu. */
void att_bias_bwd(const qkv_exec *e, float *dbias, const att_problem &p, const att_inputs &x);

/* Whether rows can be read 4 floats at a time. */
static inline bool att_wide(const void *p, size_t row, size_t head, int width)
{
    return ((uintptr_t)p % 16 | row % 4 | head % 4 | (size_t)width % 4) == 0;
}

#ifdef __CUDACC__
#define ATT_DEVICE static __device__ __forceinline__
#else
#define ATT_DEVICE static inline __attribute__((unused))
#endif

ATT_DEVICE att_sequence att_sequence_of(const att_problem &p, int b)
{
    if (!p.even)
        return p.many ? p.many[b] : p.few[b];
    att_sequence s = p.few[0];
    s.q_begin += (size_t)b * p.q_step;
    s.k_begin += (size_t)b * p.k_step;
    return s;
}

/* Of what is not above 0: within 2^-22 of 1, which is where attention's numbers come from. */
ATT_DEVICE float att_exp(float x) { return __expf(x); }
/* Of a score, relative to the largest; of rows that see nothing 0. A score that is NaN stays it. */
ATT_DEVICE float att_weight(float score, float largest)
{
    return score == -INFINITY ? 0 : att_exp(score - largest);
}

/* Query i sees keys lo .. hi-1. */
struct att_range {
    int lo, hi;
};
ATT_DEVICE att_range att_seen(const att_problem &p, const att_sequence &s, int i)
{
    const int diagonal = i + s.k_full - s.q_len;
    att_range r = {0, i < s.q_len ? s.k_len : 0};
    if (p.causal)
        r.hi = min(r.hi, diagonal + 1);
    if (p.window)
        r.lo = max(0, diagonal - p.window + 1);
    return r;
}

ATT_DEVICE const float *att_bias(const att_problem &p, int b, int h, int i)
{
    return p.bias + (b * p.bias_b + h * p.bias_h + i * p.bias_t);
}

#endif
