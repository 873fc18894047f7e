/* attention_backward.cuh - what the kernels of attention's backward pass share whose tiles have
 * queries as rows and keys as columns: their four tiles and the gradients of scores. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_BACKWARD_CUH
#define QKV_KERNEL_CUDA_ATTENTION_BACKWARD_CUH

#include "kernel/cuda/attention.cuh"

/* 64 queries and 64 keys. */
struct att_pair {
    att_side q, dout, k, v;
};

/* Their places in shared memory; returns what follows. */
ATT_DEVICE float *att_pair_of(att_pair *t, float *memory, const att_problem &p,
                              const att_inputs &in, int q_held, int do_held, int k_held, int v_held)
{
    t->q = {NULL, p.q_row, 0, p.D, in.wide_q, q_held, memory};
    t->dout = {NULL, in.do_row, 0, p.Dv, in.wide_do, do_held, t->q.shared + q_held * ATT_CHUNK};
    t->k = {NULL, p.k_row, 0, p.D, in.wide_k, k_held, t->dout.shared + do_held * ATT_CHUNK};
    t->v = {NULL, p.v_row, 0, p.Dv, in.wide_v, v_held, t->k.shared + k_held * ATT_CHUNK};
    return t->v.shared + v_held * ATT_CHUNK;
}

ATT_DEVICE void att_pair_queries(att_pair *t, const att_problem &p, const att_inputs &in,
                                 const att_sequence &s, int h, int i0)
{
    t->q.data = in.q + (s.q_begin + i0) * p.q_row + h * p.q_head;
    t->dout.data = in.dout + (s.q_begin + i0) * in.do_row + h * in.do_head;
    t->q.rows = t->dout.rows = min((int)ATT_TILE, s.q_len - i0);
}

ATT_DEVICE void att_pair_keys(att_pair *t, const att_problem &p, const att_inputs &in,
                              const att_sequence &s, int group, int j0)
{
    t->k.data = in.k + (s.k_begin + j0) * p.k_row + group * p.k_head;
    t->v.data = in.v + (s.k_begin + j0) * p.v_row + group * p.v_head;
    t->k.rows = t->v.rows = min((int)ATT_TILE, s.k_len - j0);
}

/* One row of what follows: kept has a bit for each of its numbers. */
ATT_DEVICE void att_score_gradient(const float (&x)[4], float (&y)[4], const att_problem &p,
                                   const att_inputs &in, const att_sequence &s, int h, int i,
                                   int j0, unsigned kept)
{
    const att_range seen = att_seen(p, s, i);
    const size_t at = (s.q_begin + min(i, s.q_len - 1)) * p.H + h;
    const float lse = in.lse[at], delta = in.delta[at];
    const bool blind = lse == -INFINITY;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const int j = j0 + att_column() + 16 * c;
        const float keep = kept >> c & 1 ? p.keep : 0;
        const float ds = att_exp(x[c] - lse) * (keep * y[c] - delta);
        y[c] = (j < seen.lo) | (j >= seen.hi) | blind ? 0 : ds;
    }
}

/* y, dots of dout and v, becomes the gradient of scores; x: dots of q and k. */
ATT_DEVICE void att_score_gradients(att_numbers &x, att_numbers &y, const att_problem &p,
                                    const att_inputs &in, const att_sequence &s, int b, int h,
                                    int i0, int j0)
{
    att_scores(x, p, s, b, h, i0, j0);
    const unsigned kept = att_kept(p, s, h, i0, j0);
    const int i = i0 + att_row();
    const auto row = [&](int r) {
        att_score_gradient(x[r], y[r], p, in, s, h, i + att_step(r), j0, kept >> 4 * r);
    };
    row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7);
}

#endif
