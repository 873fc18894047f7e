/* conv_cudnn.cu - convolutions of operands rounded to bf16 by cuDNN, over those of conv.cu, which
 * serve the rest: windows that do not overlap, which are unfolded at the price of a copy, small
 * problems, what the library refuses.
 *
 * Operands are copies in bf16 whose channels are filled up with zeros to a multiple of ROW. The
 * library pads an image alike on both sides; one that is padded otherwise is copied into a larger
 * one of zeros. The library sums in f32 and writes bf16, as it has no f32 beside operands in bf16,
 * into scratch memory; a kernel takes it from there to its place. */
#include "kernel/cuda/cudnn.cuh"
#include "kernel/cuda/elements.cuh"
#include "kernel/cuda/operands.cuh"

#ifdef QKV_CUDNN

enum { ROW = 8, ALIGNMENT = 256 };
static const size_t worth = (size_t)1 << 24;        /* multiplications that pay for a plan */
static const size_t elements_most = ((size_t)1 << 31) - 1; /* of an operand */

/* What serves the rest. */
static qkv_k_conv_fn *other_conv;
static qkv_k_conv_bwd_data_fn *other_bwd_data;
static qkv_k_conv_bwd_weights_fn *other_bwd_weights;

static size_t filled_up(size_t n) { return (n + ROW - 1) / ROW * ROW; }

/* ---- the problem ----------------------------------------------------------------------------- */

/* Images that the library sees: H rows, of which ours begin at `top`; ours as they are, or not. */
struct framed {
    size_t H, W, C, top, left;
    bool is_copy;
};

/* One axis: `out` windows of `window` places, `stride` apart, over `in` places and `before` zeros
 * before them. False: the library would count more windows. */
static bool frame_axis(size_t in, size_t before, size_t window, size_t stride, size_t out,
                       size_t *size, size_t *at, int64_t *zeros)
{
    const size_t least = (out - 1) * stride + window, both = in + 2 * before;
    const bool alike = both >= least && both < least + stride;
    *size = alike ? in : in + before > least ? in + before : least;
    *at = alike ? 0 : before;
    *zeros = alike ? (int64_t)before : 0;
    return alike || *size < least + stride;
}

/* False: not for the library. */
static bool describe(cudnn_problem *p, framed *f, const qkv_k_conv_args *a, cudnn_operand makes)
{
    const size_t windows = a->B * a->OH * a->OW, C = filled_up(a->C), N = filled_up(a->N);
    if (a->stride >= a->KH && a->stride >= a->KW)
        return false;
    if (windows * a->N * a->KH * a->KW * a->C < worth)
        return false;
    *p = cudnn_problem{};
    if (!frame_axis(a->H, a->top, a->KH, a->stride, a->OH, &f->H, &f->top, &p->rows) ||
        !frame_axis(a->W, a->left, a->KW, a->stride, a->OW, &f->W, &f->left, &p->columns))
        return false;
    f->C = C;
    f->is_copy = f->H != a->H || f->W != a->W;
    if (a->B * f->H * f->W * C > elements_most || windows * N > elements_most)
        return false;
    p->makes = makes, p->stride = (int64_t)a->stride;
    p->B = (int64_t)a->B, p->H = (int64_t)f->H, p->W = (int64_t)f->W, p->C = (int64_t)C;
    p->N = (int64_t)N, p->KH = (int64_t)a->KH, p->KW = (int64_t)a->KW;
    p->OH = (int64_t)a->OH, p->OW = (int64_t)a->OW;
    return true;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* to = from (rows, columns, C) in each of several images, with zeros around it as f says; 4
 * neighbouring channels a thread. */
static __global__ void round_framed(bf16 *to, const float *from, framed f, size_t rows,
                                    size_t columns, size_t C, size_t count, bool wide)
{
    for (FOR_EACH(i, count / 4)) {
        size_t pixel, c, image, y, x;
        split(i, f.C / 4, &pixel, &c);
        split(pixel, f.W, &image, &x);
        split(image, f.H, &image, &y);
        c *= 4;
        float4 v = make_float4(0, 0, 0, 0);
        if (y >= f.top && y - f.top < rows && x >= f.left && x - f.left < columns) {
            const float *p = from + ((image * rows + y - f.top) * columns + x - f.left) * C + c;
            if (wide)
                v = *(const float4 *)p;
            else
                v = make_float4(c < C ? p[0] : 0, c + 1 < C ? p[1] : 0, c + 2 < C ? p[2] : 0,
                                c + 3 < C ? p[3] : 0);
        }
        operand_store(to + 4 * i, v.x, v.y, v.z, v.w);
    }
}

/* Scratch memory at a multiple of ALIGNMENT; NULL without memory. */
static void *room(const qkv_exec *e, size_t bytes)
{
    void *p = qkv__arena_alloc(e->scratch, bytes + ALIGNMENT);
    return p ? (void *)(((uintptr_t)p + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT) : NULL;
}

static const bf16 *rounded_framed(const qkv_exec *e, const float *from, const framed *f,
                                  size_t rows, size_t columns, size_t C, size_t images)
{
    const size_t count = images * f->H * f->W * f->C;
    bf16 *to = (bf16 *)room(e, count * sizeof *to);
    if (to)
        LAUNCH(round_framed, cuda_blocks(count / 4), BLOCK, 0, to, from, *f, rows, columns, C,
               count, C % 8 == 0 && aligned16(from));
    return to;
}

static const bf16 *rounded_images(const qkv_exec *e, const float *x, const framed *f,
                                  const qkv_k_conv_args *a)
{
    size_t row;
    if (!f->is_copy)
        return operand_rounded(x, a->B * a->H * a->W, a->C, a->C, &row);
    return rounded_framed(e, x, f, a->H, a->W, a->C, a->B);
}

/* Weights, of as many windows as fill up N: an image of N rows, of KH * KW pixels. They take no
 * place of a copy that is kept. */
static const bf16 *rounded_weights(const qkv_exec *e, const float *w, const framed *f,
                                   const qkv_k_conv_args *a)
{
    const framed all = {filled_up(a->N), a->KH * a->KW, f->C, 0, 0, true};
    return rounded_framed(e, w, &all, a->N, a->KH * a->KW, a->C, 1);
}

static const bf16 *rounded_result(const float *dy, const qkv_k_conv_args *a)
{
    size_t row;
    return operand_rounded(dy, a->B * a->OH * a->OW, a->N, a->N, &row);
}

/* ---- what comes out -------------------------------------------------------------------------- */

/* to (images, rows, columns, C) = [to +] what lies there in `made`, images of f [+ bias (C)]. */
struct widen_body {
    float *to;
    const bf16 *made;
    const float *bias;
    framed f;
    size_t rows, columns, C;
    bool dense, acc;
    template <int W> __device__ void at(size_t i) const
    {
        size_t from = i, pixel, c = 0, image, y, x;
        if (!dense || bias)
            split(i, C, &pixel, &c);
        if (!dense) {
            split(pixel, columns, &image, &x);
            split(image, rows, &image, &y);
            from = ((image * f.H + y + f.top) * f.W + x + f.left) * f.C + c;
        }
        pack<W> v;
        if constexpr (W == 4) {
            const float2 a = __bfloat1622float2(((const __nv_bfloat162 *)(made + from))[0]);
            const float2 b = __bfloat1622float2(((const __nv_bfloat162 *)(made + from))[1]);
            v = {{a.x, a.y, b.x, b.y}};
        } else {
            for (int k = 0; k < W; k++)
                v.v[k] = __bfloat162float(made[from + k]);
        }
        if (bias) {
            const pack<W> b = load<W>(bias + c);
            for (int k = 0; k < W; k++)
                v.v[k] += b.v[k];
        }
        put<W>(to + i, v, acc);
    }
};

/* Where what the library makes, images of f, is to go. */
struct output {
    float *to;
    size_t images, rows, columns, C;
    const float *bias;
    bool acc;
    framed f;
};

static void widen(const output *o, const bf16 *made)
{
    const bool dense = o->f.H == o->rows && o->f.W == o->columns && o->f.C == o->C;
    launch_elements(widen_body{o->to, made, o->bias, o->f, o->rows, o->columns, o->C, dense,
                               o->acc},
                    o->images * o->rows * o->columns * o->C,
                    o->C % 4 == 0 && aligned16(o->to, o->bias));
}

/* Runs the plan, with every operand but that which it makes. False: nothing was written. */
static bool make(const qkv_exec *e, cudnn_plan *plan, const bf16 *operands[CUDNN_OPERANDS],
                 cudnn_operand makes, const output *o)
{
    const size_t numbers = o->images * o->f.H * o->f.W * o->f.C;
    bf16 *made = (bf16 *)room(e, numbers * sizeof *made);
    void *workspace = room(e, plan->workspace), *arrays[CUDNN_OPERANDS];
    operands[makes] = made;
    for (int i = 0; i < CUDNN_OPERANDS; i++) {
        if (!operands[i])
            return false;
        arrays[i] = (void *)operands[i];
    }
    if (!workspace || !cudnn_run(plan, arrays, workspace))
        return false;
    widen(o, made);
    return true;
}

/* Of x, w and y, that which the problem makes is written. */
static bool serve(const qkv_exec *e, cudnn_operand makes, const float *x, const float *w,
                  const float *y, const qkv_k_conv_args *a, output *o)
{
    cudnn_problem p;
    framed f;
    if (!describe(&p, &f, a, makes))
        return false;
    const framed result = {a->OH, a->OW, filled_up(a->N), 0, 0, false};
    const framed weights = {filled_up(a->N), a->KH * a->KW, f.C, 0, 0, false};
    o->f = makes == CUDNN_IMAGES ? f : makes == CUDNN_WEIGHTS ? weights : result;
    operands_lock();
    qkv__mark mark = qkv__arena_mark(e->scratch);
    cudnn_plan *plan = cudnn_plan_of(&p);
    bool served = false;
    if (plan && plan->serves) {
        const bf16 *operands[CUDNN_OPERANDS] = {};
        if (makes != CUDNN_RESULT)
            operands[CUDNN_RESULT] = rounded_result(y, a);
        if (makes != CUDNN_IMAGES)
            operands[CUDNN_IMAGES] = rounded_images(e, x, &f, a);
        if (makes != CUDNN_WEIGHTS)
            operands[CUDNN_WEIGHTS] = rounded_weights(e, w, &f, a);
        served = make(e, plan, operands, makes, o);
    }
    qkv__arena_release(e->scratch, mark);
    operands_unlock(o->to, o->images * o->rows * o->columns, o->C);
    return served;
}

/* ---- the slots ------------------------------------------------------------------------------- */

static void conv(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w,
                 const qkv_real *bias, const qkv_k_conv_args *a)
{
    output o = {y, a->B, a->OH, a->OW, a->N, bias, false, {}};
    if (!serve(e, CUDNN_RESULT, x, w, NULL, a, &o))
        other_conv(e, y, x, w, bias, a);
}

static void conv_bwd_data(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const qkv_real *w,
                          const qkv_k_conv_args *a, bool acc)
{
    output o = {dx, a->B, a->H, a->W, a->C, NULL, acc, {}};
    if (!serve(e, CUDNN_IMAGES, NULL, w, dy, a, &o))
        other_bwd_data(e, dx, dy, w, a, acc);
}

static void conv_bwd_weights(const qkv_exec *e, qkv_real *dw, const qkv_real *dy,
                             const qkv_real *x, const qkv_k_conv_args *a, bool acc)
{
    output o = {dw, 1, a->N, a->KH * a->KW, a->C, NULL, acc, {}};
    if (!serve(e, CUDNN_WEIGHTS, x, NULL, dy, a, &o))
        other_bwd_weights(e, dw, dy, x, a, acc);
}

extern "C" void qkv__cuda_conv_cudnn(qkv_kernels *k)
{
    other_conv = k->conv;
    other_bwd_data = k->conv_bwd_data;
    other_bwd_weights = k->conv_bwd_weights;
    k->conv = conv;
    k->conv_bwd_data = conv_bwd_data;
    k->conv_bwd_weights = conv_bwd_weights;
}

#else

extern "C" void qkv__cuda_conv_cudnn(qkv_kernels *) {}

#endif
