/* simd_winograd.c - convolutions whose windows are 3 x 3 and one pixel apart, by Winograd's
 * F(2 x 2, 3 x 3), in vector types. Other shapes are left to what served them before. */
#include <omp.h>

#include "kernel/simd_winograd_parts.h"

enum {
    LANES = 16,        /* channels come in multiples of it: whole vectors of every set */
    LEAST_CHANNELS = 32,
    /* Tiles of all images: fewer do not pay for transforming the windows. The forward pass also
     * transposes them, so it needs more. */
    LEAST_TILES = 64, LEAST_FORWARD = 320,
    BLOCK = 6144       /* tiles x channels of a block, about */
};

/* What served before; the same of every table. */
static struct {
    qkv_k_conv_fn *conv;
    qkv_k_conv_bwd_data_fn *data;
    qkv_k_conv_bwd_weights_fn *weights;
} winograd_else;

static bool suits_winograd(const qkv_k_conv_args *a, size_t least)
{
    return a->KH == WINDOW && a->KW == WINDOW && a->stride == 1 && a->top < WINDOW &&
           a->left < WINDOW && a->C % LANES == 0 && a->N % LANES == 0 &&
           a->C >= LEAST_CHANNELS && a->N >= LEAST_CHANNELS &&
           plane_of(a).tiles >= least;
}

/* ---- windows ------------------------------------------------------------------------------ */

/* to = G (g0, g1, g2). */
QKV_INLINE void by_g(vf to[SIDE], vf g0, vf g1, vf g2)
{
    vf half = vf_set1(0.5f), ends = (g0 + g2) * half;
    to[0] = g0;
    to[1] = vf_fma(half, g1, ends);
    to[2] = vf_fnma(half, g1, ends);
    to[3] = g2;
}

/* u[i] = G g G' of VF windows, g[i] the i-th number of each. */
QKV_INLINE void window_transform(vf u[PLACES], const vf g[WINDOW * WINDOW])
{
    vf rows[WINDOW][SIDE], out[SIDE]; /* rows[column]: that column by G */
    QKV_UNROLL
    for (size_t k = 0; k < WINDOW; k++) {
        by_g(rows[k], g[k], g[WINDOW + k], g[2 * WINDOW + k]);
    }
    QKV_UNROLL
    for (size_t r = 0; r < SIDE; r++) {
        by_g(out, rows[0][r], rows[1][r], rows[2][r]);
        QKV_UNROLL
        for (size_t k = 0; k < SIDE; k++) {
            u[r * SIDE + k] = out[k];
        }
    }
}

static size_t window_panels(size_t columns) { return (columns + PANEL - 1) / PANEL; }

/* Windows as products read them: by panel of columns, place, then (inputs, PANEL). */
static float *window_at(float *u, size_t inputs, size_t column)
{
    return u + column / PANEL * PLACES * inputs * PANEL + column % PANEL;
}

/* u from w (N, 3, 3, C), C inputs, N columns. Neighbouring channels of w lie PANEL apart in u. A
 * thread takes as many columns at a time as fill a cache line. */
static void windows_forward(const qkv_exec *e, float *u, const float *w, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) schedule(static, QKV__LINE / VF) default(none) \
    shared(u, w, N, C)
    for (size_t first = 0; first < N; first += VF)
        for (size_t c = 0; c < C; c += VF) {
            float turned[PLACES][VF * VF];
            for (size_t n = 0; n < VF; n++) {
                vf g[WINDOW * WINDOW], out[PLACES];
                for (size_t i = 0; i < WINDOW * WINDOW; i++)
                    g[i] = vf_load(w + ((first + n) * WINDOW * WINDOW + i) * C + c);
                window_transform(out, g);
                for (size_t i = 0; i < PLACES; i++)
                    vf_store(turned[i] + n * VF, out[i]);
            }
            for (size_t i = 0; i < PLACES; i++) {
                float *to = window_at(u, C, first) + (i * C + c) * PANEL;
                for (size_t k = 0; k < VF; k++)
                    for (size_t n = 0; n < VF; n++)
                        to[k * PANEL + n] = turned[i][n * VF + k];
            }
        }
}

/* The same windows turned round, N inputs, C columns. */
static void windows_backward(const qkv_exec *e, float *u, const float *w, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(u, w, N, C)
    for (size_t n = 0; n < N; n++)
        for (size_t c = 0; c < C; c += VF) {
            const size_t last = WINDOW * WINDOW - 1;
            vf g[WINDOW * WINDOW], out[PLACES];
            for (size_t i = 0; i <= last; i++)
                g[i] = vf_load(w + (n * WINDOW * WINDOW + last - i) * C + c);
            window_transform(out, g);
            for (size_t i = 0; i < PLACES; i++)
                vf_store(window_at(u, N, c) + (i * N + n) * PANEL, out[i]);
        }
}

/* ---- outputs ------------------------------------------------------------------------------ */

typedef struct {
    plane p;
    float *y;
    const float *x, *u, *bias; /* bias: NULL for none */
    bool acc;
    size_t rows, blocks;   /* tiles of a block, blocks */
    size_t columns, parts; /* of an item, a multiple of PANEL; items a block makes */
} convolution;

static size_t patches_step(const convolution *k) { return k->rows * k->p.C + SKEW; }
static size_t outputs_step(const convolution *k) { return k->rows * PANEL + SKEW; }

/* to = A' (m0, m1, m2, m3). */
QKV_INLINE void by_a(vf to[2], vf m0, vf m1, vf m2, vf m3)
{
    to[0] = m0 + m1 + m2;
    to[1] = m1 - m2 - m3;
}

/* The outputs of a tile at columns n .. n + VF - 1, from its products m. */
QKV_INLINE void put_tile(const convolution *k, const float *m, size_t tile, size_t n)
{
    const plane *p = &k->p;
    const size_t step = outputs_step(k);
    place o = place_of(p, tile);
    vf rows[SIDE][2], out[2], bias = k->bias ? vf_load(k->bias + n) : vf_zero();
    QKV_UNROLL
    for (size_t c = 0; c < SIDE; c++) {
        by_a(rows[c], vf_load(m + c * step), vf_load(m + (SIDE + c) * step),
             vf_load(m + (2 * SIDE + c) * step), vf_load(m + (3 * SIDE + c) * step));
    }
    for (size_t r = 0; r < 2 && o.y + r < p->OH; r++) {
        float *y = k->y + (((o.image * p->OH + o.y + r) * p->OW) + o.x) * p->N + n;
        by_a(out, rows[0][r], rows[1][r], rows[2][r], rows[3][r]);
        for (size_t c = 0; c < 2 && o.x + c < p->OW; c++) {
            vf v = out[c] + bias;
            if (k->acc)
                v += vf_load(y + c * p->N);
            vf_store(y + c * p->N, v);
        }
    }
}

/* One block of tiles, some columns. space holds the patches, then the products. */
static void winograd_item(const convolution *k, size_t item, float *space)
{
    const plane *p = &k->p;
    const size_t first = item % k->blocks * k->rows, count = at_most(p->tiles - first, k->rows);
    const size_t begin = item / k->blocks * k->columns, end = at_most(begin + k->columns, p->N);
    const size_t step = patches_step(k), put = outputs_step(k);
    float *v = space, *m = space + PLACES * step;
    patches(v, step, k->x, p, first, count, 0, p->C);
    for (size_t n = begin; n < end; n += PANEL) {
        const float *u = k->u + n / PANEL * PLACES * p->C * PANEL;
        const size_t width = at_most(end - n, PANEL);
        for (size_t i = 0; i < PLACES; i++)
            for (size_t r = 0; r < count; r += MR)
                product_rows(m + i * put + r * PANEL, PANEL, v + i * step + r * p->C, p->C,
                             u + i * p->C * PANEL, PANEL, at_most(count - r, MR), width / VF,
                             p->C, NULL);
        for (size_t t = 0; t < count; t++)
            for (size_t c = 0; c < width; c += VF)
                put_tile(k, m + t * PANEL + c, first + t, n + c);
    }
}

/* Chooses blocks and parts, so that the team has work. Every sum lies within one of each: the bits
 * do not depend on the team. */
static void winograd_cut(convolution *k, size_t team)
{
    const plane *p = &k->p;
    size_t rows = BLOCK / p->C / MR * MR;
    k->rows = rows < 4 * MR ? 4 * MR : rows > 16 * MR ? 16 * MR : rows;
    k->blocks = (p->tiles + k->rows - 1) / k->rows;
    k->columns = window_panels(p->N) * PANEL;
    while (k->columns > PANEL && k->blocks * ((p->N + k->columns - 1) / k->columns) < 4 * team)
        k->columns = window_panels(k->columns / 2) * PANEL;
    k->parts = (p->N + k->columns - 1) / k->columns;
}

static void winograd_run(const qkv_exec *e, convolution *k)
{
    winograd_cut(k, (size_t)e->threads);
    const size_t each = PLACES * (patches_step(k) + outputs_step(k));
    float *space = qkv__arena_alloc(e->scratch, (size_t)e->threads * each * sizeof *space);
    if (!space)
        return; /* the scratch knows */
#pragma omp parallel num_threads(e->threads) default(none) shared(k, space, each)
    {
        float *own = space + (size_t)omp_get_thread_num() * each;
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < k->blocks * k->parts; i++)
            winograd_item(k, i, own);
    }
}

typedef void windows_fn(const qkv_exec *e, float *u, const float *w, size_t N, size_t C);

/* k, whose windows are w (N, 3, 3, C) as `windows` transforms them. */
static void winograd_with(const qkv_exec *e, convolution *k, windows_fn *windows, const float *w,
                          size_t N, size_t C)
{
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *u = qkv__arena_alloc(e->scratch, window_panels(k->p.N) * PLACES * k->p.C * PANEL *
                                                sizeof *u);
    if (u) {
        windows(e, u, w, N, C);
        k->u = u;
        winograd_run(e, k);
    }
    qkv__arena_release(e->scratch, mark);
}

/* ---- kernels ------------------------------------------------------------------------------ */

static void winograd_conv(const qkv_exec *e, float *y, const float *x, const float *w,
                          const float *bias, const qkv_k_conv_args *a)
{
    convolution k = {.p = plane_of(a), .y = y, .x = x, .bias = bias};
    if (suits_winograd(a, LEAST_FORWARD))
        winograd_with(e, &k, windows_forward, w, a->N, a->C);
    else
        winograd_else.conv(e, y, x, w, bias, a);
}

/* A convolution of dy with the windows turned round. */
static void winograd_data(const qkv_exec *e, float *dx, const float *dy, const float *w,
                          const qkv_k_conv_args *a, bool acc)
{
    const qkv_k_conv_args back = {.B = a->B, .H = a->OH, .W = a->OW, .C = a->N, .N = a->C,
                                  .OH = a->H, .OW = a->W, .top = WINDOW - 1 - a->top,
                                  .left = WINDOW - 1 - a->left};
    convolution k = {.p = plane_of(&back), .y = dx, .x = dy, .acc = acc};
    if (suits_winograd(a, LEAST_TILES))
        winograd_with(e, &k, windows_backward, w, a->N, a->C);
    else
        winograd_else.data(e, dx, dy, w, a, acc);
}

static void winograd_dw(const qkv_exec *e, float *dw, const float *dy, const float *x,
                        const qkv_k_conv_args *a, bool acc)
{
    const plane p = plane_of(a);
    if (suits_winograd(a, LEAST_TILES))
        winograd_weights(e, dw, dy, x, &p, acc);
    else
        winograd_else.weights(e, dw, dy, x, a, acc);
}

void QKV_SIMD(qkv__kernels_winograd)(qkv_kernels *k)
{
    winograd_else.conv = k->conv;
    winograd_else.data = k->conv_bwd_data;
    winograd_else.weights = k->conv_bwd_weights;
    k->conv = winograd_conv;
    k->conv_bwd_data = winograd_data;
    k->conv_bwd_weights = winograd_dw;
}
