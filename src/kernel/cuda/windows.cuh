/* windows.cuh - images as rows of windows, for convolutions that are products.
 *
 * Rows are filled up with zeros to a multiple of ROW numbers, and those of the weights with them,
 * so that products read both in vectors. They are f32, or rounded to bf16 as they are unfolded. */
#ifndef QKV_KERNEL_CUDA_WINDOWS_CUH
#define QKV_KERNEL_CUDA_WINDOWS_CUH

#include "kernel/cuda/elements.cuh"
#include "kernel/cuda/operands.cuh"

enum { ROW = 8 };
#ifdef QKV_CUDA_EMULATED
static const size_t chunk_bytes = (size_t)1 << 16; /* so that tests have chunks */
#else
static const size_t chunk_bytes = (size_t)256 << 20;
#endif

/* Sizes of a convolution: numbers of a window, and with those that fill up its row; windows. */
struct conv_sizes {
    size_t window, row, windows;
};

static inline conv_sizes sizes_of(const qkv_k_conv_args *a)
{
    const size_t window = a->KH * a->KW * a->C;
    return {window, (window + ROW - 1) / ROW * ROW, a->B * a->OH * a->OW};
}

static inline bool is_product(const qkv_k_conv_args *a)
{
    return a->KH == 1 && a->KW == 1 && a->stride == 1 && a->top == 0 && a->left == 0 &&
           a->OH == a->H && a->OW == a->W;
}

/* ---- unfolding ------------------------------------------------------------------------------- */

template <int W> static __device__ __forceinline__ void store_row(float *to, const pack<W> &x)
{
    store<W>(to, x);
}

template <int W> static __device__ __forceinline__ void store_row(bf16 *to, const pack<W> &x)
{
    if constexpr (W == 4) {
        operand_store(to, x.v[0], x.v[1], x.v[2], x.v[3]);
    } else {
        for (int i = 0; i < W; i++)
            to[i] = __float2bfloat16(x.v[i]);
    }
}

/* W neighbouring numbers of a window, of one pixel; elements are counted from window `first` on. */
template <typename T> struct unfold_body {
    T *rows;
    const float *x;
    qkv_k_conv_args a;
    size_t first, window, row;
    template <int W> __device__ void at(size_t i) const
    {
        size_t r, p, image, oy, ox, place, c, ky, kx;
        split(i, row, &r, &p);
        pack<W> v = {};
        if (p < window) {
            split(first + r, a.OW, &image, &ox);
            split(image, a.OH, &image, &oy);
            split(p, a.C, &place, &c);
            split(place, a.KW, &ky, &kx);
            const size_t y = oy * a.stride + ky, z = ox * a.stride + kx;
            if (y >= a.top && y - a.top < a.H && z >= a.left && z - a.left < a.W)
                v = load<W>(x + ((image * a.H + y - a.top) * a.W + z - a.left) * a.C + c);
        }
        store_row<W>(rows + i, v);
    }
};

template <typename T>
static void unfold(T *rows, const float *x, const qkv_k_conv_args *a, const conv_sizes *s,
                   size_t first, size_t count)
{
    launch_elements(unfold_body<T>{rows, x, *a, first, s->window, s->row}, count * s->row,
                    a->C % 4 == 0 && aligned16(rows, x));
}

/* to (n, row) = from (n, window), 0 behind it. */
template <typename T> struct fill_up_body {
    T *to;
    const float *from;
    size_t window, row;
    template <int W> __device__ void at(size_t i) const
    {
        size_t r, p;
        split(i, row, &r, &p);
        const pack<1> v = {{p < window ? from[r * window + p] : 0}};
        store_row<1>(to + i, v);
    }
};

/* Windows, of `least` or a multiple, that are unfolded at a time. */
static inline size_t chunk_of(const conv_sizes *s, size_t least)
{
    const size_t most = chunk_bytes / (s->row * sizeof(float)) / least * least;
    return smaller(most > least ? most : least, s->windows);
}

#endif
