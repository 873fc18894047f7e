/* conv_cudnn.cu - convolutions of operands rounded to bf16 by cuDNN, over those of conv.cu, which
 * serve the rest: windows that do not overlap, which are unfolded at the price of a copy, small
 * problems, what the library refuses.
 *
 * Operands are in bf16, with channels that are a multiple of ROW: images and results that hold bf16
 * (qkv_exec) as they lie; else copies, filled up with zeros. The library pads an image alike on
 * both sides; one that is padded otherwise is copied into a larger one of zeros. The library sums
 * in f32 and writes bf16, as it has no f32 beside operands in bf16: in place where that holds bf16
 * and is stored, and a kernel adds the bias; else into scratch memory, from where a kernel takes it
 * to its place. */
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
template <typename T>
static __global__ void round_framed(bf16 *to, const T *from, framed f, size_t rows, size_t columns,
                                    size_t C, size_t count, bool wide)
{
    for (FOR_EACH(i, count / 4)) {
        size_t pixel, c, image, y, x;
        split(i, f.C / 4, &pixel, &c);
        split(pixel, f.W, &image, &x);
        split(image, f.H, &image, &y);
        c *= 4;
        pack<4> v = {};
        if (y >= f.top && y - f.top < rows && x >= f.left && x - f.left < columns) {
            const T *p = from + ((image * rows + y - f.top) * columns + x - f.left) * C + c;
            if (wide)
                v = load<4>(p);
            else
                for (size_t k = 0; k < 4 && c + k < C; k++)
                    v.v[k] = load<1>(p + k).v[0];
        }
        store<4>(to + 4 * i, v);
    }
}

/* Scratch memory at a multiple of ALIGNMENT; NULL without memory. */
static void *room(const qkv_exec *e, size_t bytes)
{
    void *p = qkv__arena_alloc(e->scratch, bytes + ALIGNMENT);
    return p ? (void *)(((uintptr_t)p + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT) : NULL;
}

template <typename T>
static const bf16 *rounded_framed(const qkv_exec *e, const T *from, const framed *f,
                                  size_t rows, size_t columns, size_t C, size_t images)
{
    const size_t count = images * f->H * f->W * f->C;
    bf16 *to = (bf16 *)room(e, count * sizeof *to);
    if (to)
        LAUNCH(round_framed<T>, cuda_blocks(count / 4), BLOCK, 0, to, from, *f, rows, columns, C,
               count, C % 8 == 0 && aligned16(from));
    return to;
}

/* Images, or results, of C channels that lie in frames of `rows` x `columns`, f around them. */
static const bf16 *rounded_images(const qkv_exec *e, const float *x, bool rounded, const framed *f,
                                  size_t rows, size_t columns, size_t C, size_t images)
{
    size_t row;
    const bf16 *as_it_is = (const bf16 *)x;
    if (rounded && !f->is_copy && C % ROW == 0 && aligned16(x))
        return as_it_is;
    if (rounded)
        return rounded_framed(e, as_it_is, f, rows, columns, C, images);
    if (!f->is_copy)
        return operand_rounded(x, images * rows * columns, C, C, &row);
    return rounded_framed(e, x, f, rows, columns, C, images);
}

/* Weights, of as many windows as fill up N: an image of N rows, of KH * KW pixels. They take no
 * place of a copy that is kept. */
static const bf16 *rounded_weights(const qkv_exec *e, const float *w, const framed *f,
                                   const qkv_k_conv_args *a)
{
    const framed all = {filled_up(a->N), a->KH * a->KW, f->C, 0, 0, true};
    return rounded_framed(e, w, &all, a->N, a->KH * a->KW, a->C, 1);
}

/* ---- what comes out -------------------------------------------------------------------------- */

/* to (images, rows, columns, C) = [to +] what lies there in `made`, images of f [+ bias (C)]. to
 * may be made, where the images are dense. */
template <typename T> struct widen_body {
    T *to;
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
        pack<W> v = load<W>(made + from);
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
    bool rounded; /* to holds bf16 */
    size_t images, rows, columns, C;
    const float *bias;
    bool acc;
    framed f;
};

static bool is_dense(const output *o)
{
    return o->f.H == o->rows && o->f.W == o->columns && o->f.C == o->C;
}

template <typename T, int WIDTH> static void take(T *to, const output *o, const bf16 *made)
{
    launch_elements<widen_body<T>, WIDTH>({to, made, o->bias, o->f, o->rows, o->columns, o->C,
                                           is_dense(o), o->acc},
                                          o->images * o->rows * o->columns * o->C,
                                          o->C % WIDTH == 0 && aligned16(to, o->bias));
}

/* Brings what was made to its place. */
static void widen(const output *o, const bf16 *made)
{
    bf16 *to = (bf16 *)o->to;
    if (!o->rounded)
        take<float, 4>(o->to, o, made);
    else if (to != made || o->bias)
        take<bf16, 8>(to, o, made);
}

/* Where the library writes: to the place, or scratch memory. NULL: there is none. */
static bf16 *made_at(const qkv_exec *e, const output *o)
{
    if (o->rounded && !o->acc && is_dense(o) && aligned16(o->to))
        return (bf16 *)o->to;
    return (bf16 *)room(e, o->images * o->f.H * o->f.W * o->f.C * sizeof(bf16));
}

/* Runs the plan, with every operand but that which it makes. False: it did not serve. */
static bool make(const qkv_exec *e, cudnn_plan *plan, const bf16 *operands[CUDNN_OPERANDS],
                 cudnn_operand makes, const output *o)
{
    bf16 *made = made_at(e, o);
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

/* Images, weights and result, and whether the first and the last hold bf16. */
struct given {
    const float *x, *w, *y;
    bool x_rounded, y_rounded;
};

/* Of x, w and y, that which the problem makes is written. */
static bool serve(const qkv_exec *e, cudnn_operand makes, const given &g, const qkv_k_conv_args *a,
                  output *o)
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
            operands[CUDNN_RESULT] =
                rounded_images(e, g.y, g.y_rounded, &result, a->OH, a->OW, a->N, a->B);
        if (makes != CUDNN_IMAGES)
            operands[CUDNN_IMAGES] =
                rounded_images(e, g.x, g.x_rounded, &f, a->H, a->W, a->C, a->B);
        if (makes != CUDNN_WEIGHTS)
            operands[CUDNN_WEIGHTS] = rounded_weights(e, g.w, &f, a);
        served = make(e, plan, operands, makes, o);
    }
    qkv__arena_release(e->scratch, mark);
    const size_t rows = o->images * o->rows * o->columns;
    operands_unlock(o->to, o->rounded ? rows / 2 + 1 : rows, o->C);
    return served;
}

/* ---- the slots: y, x and their gradients may hold bf16 --------------------------------------- */

static void conv(const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w,
                 const qkv_real *bias, const qkv_k_conv_args *a)
{
    const given g = {x, w, NULL, holds_bf16(e, 1), false};
    output o = {y, holds_bf16(e, 0), a->B, a->OH, a->OW, a->N, bias, false, {}};
    if (!serve(e, CUDNN_RESULT, g, a, &o))
        other_conv(e, y, x, w, bias, a);
}

static void conv_bwd_data(const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const qkv_real *w,
                          const qkv_k_conv_args *a, bool acc)
{
    const given g = {NULL, w, dy, false, holds_bf16(e, 1)};
    output o = {dx, holds_bf16(e, 0), a->B, a->H, a->W, a->C, NULL, acc, {}};
    if (!serve(e, CUDNN_IMAGES, g, a, &o))
        other_bwd_data(e, dx, dy, w, a, acc);
}

static void conv_bwd_weights(const qkv_exec *e, qkv_real *dw, const qkv_real *dy,
                             const qkv_real *x, const qkv_k_conv_args *a, bool acc)
{
    const given g = {x, NULL, dy, holds_bf16(e, 2), holds_bf16(e, 1)};
    output o = {dw, false, 1, a->N, a->KH * a->KW, a->C, NULL, acc, {}};
    if (!serve(e, CUDNN_WEIGHTS, g, a, &o))
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
