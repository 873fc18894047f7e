/* simd_winograd_weights.c - the windows' gradient of a convolution of windows of 3 x 3, by
 * Winograd's algorithm.
 *
 * An item is 64 outputs x some inputs x a segment of the tiles; segments are added up in order.
 * How many there are depends on the sizes alone, so the bits do not depend on the team. */
#include <omp.h>

#include "kernel/simd_winograd_parts.h"

enum {
    INPUTS = 128,   /* of an item, at most */
    TILES = 8 * MR, /* of a block: how many are added up in registers */
    ITEMS = 16      /* wanted where channels are few, so that a team has work */
};

typedef struct {
    plane p;
    const float *x, *dy;
    float *sums; /* (segments, PLACES, N, C) */
    size_t segments, length; /* tiles of a segment */
    size_t down, across;     /* items of a segment, along outputs and inputs */
} gradient;

static const size_t deltas_step = TILES * ACROSS + SKEW, pixels_step = TILES * INPUTS + SKEW;

/* to = A (y0, y1). */
QKV_INLINE void along_a(vf to[SIDE], vf y0, vf y1)
{
    to[0] = y0;
    to[1] = y0 + y1;
    to[2] = y0 - y1;
    to[3] = vf_zero() - y1;
}

/* g (PLACES; deltas_step apart) of (count, ACROSS) = A dy A', outputs n .. n + width - 1. */
static void deltas(float *g, const gradient *k, size_t first, size_t count, size_t n, size_t width)
{
    const plane *p = &k->p;
    for (size_t t = 0; t < count; t++, g += ACROSS) {
        place o = place_of(p, first + t);
        bool right = o.x + 1 < p->OW, below = o.y + 1 < p->OH;
        const float *at = k->dy + ((o.image * p->OH + o.y) * p->OW + o.x) * p->N + n;
        const float *next = at + (below ? p->OW * p->N : 0);
        for (size_t j = 0; j < width; j += VF) {
            vf rows[2][SIDE], out[SIDE];
            vf y1 = right ? vf_load(at + p->N + j) : vf_zero();
            vf y2 = below ? vf_load(next + j) : vf_zero();
            vf y3 = right && below ? vf_load(next + p->N + j) : vf_zero();
            along_a(rows[0], vf_load(at + j), y1);
            along_a(rows[1], y2, y3);
            QKV_UNROLL
            for (size_t c = 0; c < SIDE; c++) {
                along_a(out, rows[0][c], rows[1][c]);
                QKV_UNROLL
                for (size_t r = 0; r < SIDE; r++) {
                    vf_store(g + (r * SIDE + c) * deltas_step + j, out[r]);
                }
            }
        }
    }
}

/* The item's part of the sums, over its segment block by block. */
static void weights_item(const gradient *k, size_t item, float *space)
{
    static const float ones[MR] = {1, 1, 1, 1, 1, 1};
    const plane *p = &k->p;
    const size_t segment = item / (k->down * k->across), part = item % (k->down * k->across);
    const size_t n = part / k->across * ACROSS, c = part % k->across * INPUTS;
    const size_t height = at_most(p->N - n, ACROSS), width = at_most(p->C - c, INPUTS);
    const size_t begin = segment * k->length, end = at_most(begin + k->length, p->tiles);
    float *g = space, *v = space + PLACES * deltas_step;
    for (size_t first = begin; first < end; first += TILES) {
        size_t count = at_most(end - first, TILES);
        deltas(g, k, first, count, n, height);
        patches(v, pixels_step, k->x, p, first, count, c, width);
        for (size_t i = 0; i < PLACES; i++) {
            float *to = k->sums + ((segment * PLACES + i) * p->N + n) * p->C + c;
            for (size_t r = 0; r < height; r += MR)
                product_columns(to + r * p->C, p->C, g + i * deltas_step + r,
                                v + i * pixels_step, width, at_most(height - r, MR), width / VF,
                                count, first > begin ? ones : NULL);
        }
    }
}

/* to = G' (s0, s1, s2, s3). */
QKV_INLINE void along_g(vf to[WINDOW], vf s0, vf s1, vf s2, vf s3)
{
    vf half = vf_set1(0.5f), ends = (s1 + s2) * half;
    to[0] = s0 + ends;
    to[1] = (s1 - s2) * half;
    to[2] = ends + s3;
}

/* dw of VF inputs of output n: the segments' sums, then G' sums G. */
static void put_windows(float *dw, const gradient *k, size_t n, size_t c, bool acc)
{
    const plane *p = &k->p;
    vf s[PLACES], rows[SIDE][WINDOW], out[WINDOW];
    for (size_t i = 0; i < PLACES; i++) {
        s[i] = vf_zero();
        for (size_t q = 0; q < k->segments; q++)
            s[i] += vf_load(k->sums + ((q * PLACES + i) * p->N + n) * p->C + c);
    }
    for (size_t i = 0; i < SIDE; i++)
        along_g(rows[i], s[i], s[SIDE + i], s[2 * SIDE + i], s[3 * SIDE + i]);
    for (size_t r = 0; r < WINDOW; r++) {
        along_g(out, rows[0][r], rows[1][r], rows[2][r], rows[3][r]);
        for (size_t i = 0; i < WINDOW; i++) {
            float *to = dw + ((n * WINDOW + r) * WINDOW + i) * p->C + c;
            vf v = out[i];
            if (acc)
                v += vf_load(to);
            vf_store(to, v);
        }
    }
}

static void weights_cut(gradient *k)
{
    const plane *p = &k->p;
    k->down = (p->N + ACROSS - 1) / ACROSS;
    k->across = (p->C + INPUTS - 1) / INPUTS;
    size_t blocks = (p->tiles + TILES - 1) / TILES;
    size_t wanted = (ITEMS + k->down * k->across - 1) / (k->down * k->across);
    /* at most so many that their sums take half of the memory of x and dy, 4 pixels a tile */
    size_t most = p->tiles * 4 * (p->C + p->N) / (2 * PLACES * p->C * p->N);
    wanted = !most ? 1 : at_most(wanted, most);
    k->length = (blocks + wanted - 1) / wanted * TILES;
    k->segments = (p->tiles + k->length - 1) / k->length;
}

void winograd_weights(const qkv_exec *e, float *dw, const float *dy, const float *x,
                      const plane *p, bool acc)
{
    gradient k = {.p = *p, .x = x, .dy = dy};
    const size_t each = PLACES * (deltas_step + pixels_step);
    weights_cut(&k);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    k.sums = qkv__arena_alloc(e->scratch, k.segments * PLACES * p->N * p->C * sizeof(float));
    float *space = qkv__arena_alloc(e->scratch, (size_t)e->threads * each * sizeof *space);
    if (k.sums && space) {
#pragma omp parallel num_threads(e->threads) default(none) shared(k, space, each, dw, p, acc)
        {
            float *own = space + (size_t)omp_get_thread_num() * each;
#pragma omp for schedule(dynamic)
            for (size_t i = 0; i < k.segments * k.down * k.across; i++)
                weights_item(&k, i, own);
#pragma omp for
            for (size_t n = 0; n < p->N; n++)
                for (size_t c = 0; c < p->C; c += VF)
                    put_windows(dw, &k, n, c, acc);
        }
    }
    qkv__arena_release(e->scratch, mark);
}
