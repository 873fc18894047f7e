/* embedding.cu - rows of a table by index, and rotary positions. */
#include "kernel/cuda/list.cuh"
#include "kernel/cuda/positions.cuh"

extern "C" qkv_k_embed_bwd_fn cuda_embed_bwd; /* embedding_bwd.cu */

/* ---- rows by index: a warp for a row --------------------------------------------------------- */

template <bool QUADS> __global__ void embed_rows(float *y, embed_job a)
{
    const size_t warps = blockDim.x / WARP;
    embed_some<QUADS>(y, a, blockIdx.x * warps + threadIdx.x / WARP, gridDim.x * warps);
}

static void cuda_embed(const qkv_exec *e, qkv_real *y, const int32_t *ids, const qkv_real *table,
                       double scale, const int32_t *positions, const qkv_real *ptable, size_t N,
                       size_t C)
{
    (void)e;
    if (N == 0 || C == 0)
        return;
    const embed_job a = {ids, positions, table, ptable, (float)scale, N, C};
    const unsigned blocks = row_blocks((N + BLOCK / WARP - 1) / (BLOCK / WARP));
    const bool quads = C % 4 == 0 && quads_fit(y) && quads_fit(table) && quads_fit(ptable);
    if (list_embed(y, a, quads))
        return;
    if (quads)
        LAUNCH(embed_rows<true>, blocks, BLOCK, 0, y, a);
    else
        LAUNCH(embed_rows<false>, blocks, BLOCK, 0, y, a);
}

/* ---- rotary positions ------------------------------------------------------------------------ */

static __global__ void __launch_bounds__(BLOCK) rotary_rows(rotary_job a)
{
    rotary_some(a, (size_t)blockIdx.x * blockDim.x + threadIdx.x,
                (size_t)gridDim.x * blockDim.x, [](float *p, float v) { *p = v; });
}

static void cuda_rotary(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                        const int32_t *positions, const qkv_k_rotary_args *args)
{
    (void)e;
    enum { MANY = 1 << 17 }; /* threads that fill a card */
    const size_t half = args->width / 2, each = args->D - half;
    if (args->N * args->H * args->D == 0)
        return;
    const size_t heads = args->N * each >= MANY ? args->H : 1;
    rotary_job a = {y, x, positions, args->frequency, args->N, args->H, args->D, half, heads,
                    args->sx, args->hx, args->sy, args->hy, args->scale, args->sign, args->acc};
    if (list_rotary(a))
        return;
    if (half)
        a.frequency = (const double *)cuda_upload(a.frequency, half * sizeof *a.frequency);
    if (!half || a.frequency)
        LAUNCH(rotary_rows, cuda_blocks(args->N * ((args->H + heads - 1) / heads) * each), BLOCK, 0,
               a);
}

extern "C" void qkv__cuda_embedding(qkv_kernels *k)
{
    k->embed = cuda_embed;
    k->embed_bwd = cuda_embed_bwd;
    k->rotary = cuda_rotary;
}
