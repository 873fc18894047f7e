/* simd_attention_bf16_tiles.c - tiles of attention's operands in bf16, and their products by AMX
 * or by AVX512_BF16. */
#include "kernel/simd.h"

#ifdef QKV_SIMD_avx512
#include "kernel/simd_attention_bf16_tiles.h"

/* ---- products of tiles --------------------------------------------------------------------- */

static void tiles_begin(void) { configure_tiles(SIDE, ROW_BYTES); }
static void tiles_end(void) { _tile_release(); }
static void nothing(void) {}

/* Two by two tiles of c. */
static inline void amx_unit(float *c, size_t ldc, tiles a, tiles b, size_t steps, bool add)
{
    const size_t row = ldc * sizeof *c;
    float *below = c + SIDE * ldc;
    if (add) {
        _tile_loadd(0, c, row);
        _tile_loadd(1, c + SIDE, row);
        _tile_loadd(2, below, row);
        _tile_loadd(3, below + SIDE, row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t p = 0; p < steps; p++, a.at += a.step, b.at += b.step) {
        _tile_loadd(4, a.at, ROW_BYTES);
        _tile_loadd(6, b.at, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b.at + b.panel, ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a.at + a.panel, ROW_BYTES);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, row);
    _tile_stored(1, c + SIDE, row);
    _tile_stored(2, below, row);
    _tile_stored(3, below + SIDE, row);
}

static void amx_multiply(float *c, size_t ldc, tiles a, tiles b, size_t m, size_t n, size_t steps,
                         bool add)
{
    tiles_fence();
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            tiles left = { a.at + 2 * i * a.panel, a.panel, a.step };
            tiles right = { b.at + 2 * j * b.panel, b.panel, b.step };
            amx_unit(c + i * UNIT * ldc + j * UNIT, ldc, left, right, steps, add);
        }
    }
}

/* One tile of c. */
static inline void dot_tile(float *c, size_t ldc, const uint32_t *a, size_t a_step,
                            const uint32_t *b, size_t b_step, size_t steps, bool add)
{
    vf sum[SIDE];
    QKV_UNROLL
    for (size_t r = 0; r < SIDE; r++) {
        sum[r] = add ? vf_load(c + r * ldc) : vf_zero();
    }
    for (size_t p = 0; p < steps; p++, a += a_step, b += b_step) {
        for (size_t w = 0; w < SIDE; w++) {
            __m512bh right = (__m512bh)_mm512_loadu_si512(b + w * SIDE);
            QKV_UNROLL
            for (size_t r = 0; r < SIDE; r++) {
                __m512bh left = (__m512bh)_mm512_set1_epi32((int)a[r * SIDE + w]);
                sum[r] = _mm512_dpbf16_ps(sum[r], left, right);
            }
        }
    }
    QKV_UNROLL
    for (size_t r = 0; r < SIDE; r++) {
        vf_store(c + r * ldc, sum[r]);
    }
}

static void dot_multiply(float *c, size_t ldc, tiles a, tiles b, size_t m, size_t n, size_t steps,
                         bool add)
{
    for (size_t i = 0; i < 2 * m; i++) {
        for (size_t j = 0; j < 2 * n; j++) {
            dot_tile(c + i * SIDE * ldc + j * SIDE, ldc, a.at + i * a.panel, a.step,
                     b.at + j * b.panel, b.step, steps, add);
        }
    }
}

const engine attention_by_amx = { tiles_begin, amx_multiply, tiles_end };
const engine attention_by_dot = { nothing, dot_multiply, nothing };

/* ---- layouts ------------------------------------------------------------------------------- */

tiles tiles_make(uint32_t *to, const operand *o)
{
    tiles t = { to, units_of(o->k, DEPTH) * TILE, TILE };
    for (size_t i = 0; i < 2 * units_of(o->lanes, UNIT); i++) {
        for (size_t p = 0; p < o->k; p += DEPTH, to += TILE) {
            pack_tile(to, o, i * SIDE, p);
        }
    }
    return t;
}

/* Where the layout of a sequence's head begins. */
static size_t key_tiles_at(const key_tiles *t, const attention_args *a, size_t b, size_t kv,
                           size_t depth)
{
    return (t->first[b] * a->Hkv + kv * units_of(a->k_len[b], UNIT)) * 2 * depth * TILE;
}

tiles keys_down(const key_tiles *t, const uint32_t *from, size_t depth, const block *x, size_t j0)
{
    from += key_tiles_at(t, x->a, x->b, x->kv, depth) + j0 / SIDE * depth * TILE;
    return (tiles){ from, depth * TILE, TILE };
}

tiles keys_across(const key_tiles *t, const uint32_t *from, size_t depth, const block *x,
                  size_t j0)
{
    from += key_tiles_at(t, x->a, x->b, x->kv, depth) + j0 / DEPTH * 2 * depth * TILE;
    return (tiles){ from, TILE, 2 * depth * TILE };
}

/* Of one sequence and head, x (keys, n; row stride ld): to NULL or across NULL: not wanted. */
static void key_tiles_fill(uint32_t *to, uint32_t *across, const float *x, size_t ld, size_t keys,
                           size_t n)
{
    if (to) {
        tiles_make(to, &(operand){ x, ld, keys, n, .along = true, .lane_rows = true });
    }
    for (size_t j = 0; across && j < keys; j += DEPTH) {
        for (size_t d = 0; d < 2 * units_of(n, UNIT); d++, across += TILE) {
            pack_tile(across, &(operand){ x, ld, n, keys, .along = false, .lane_rows = true },
                      d * SIDE, j);
        }
    }
}

bool key_tiles_make(key_tiles *t, const qkv_exec *e, const attention_args *a, const float *k,
                    const float *v, bool forward)
{
    size_t units = 0, tasks = a->B * a->Hkv;
    t->depth_k = units_of(a->D, DEPTH);
    t->depth_v = units_of(a->Dv, DEPTH);
    t->first = qkv__arena_alloc(e->scratch, (a->B + 1) * sizeof *t->first);
    for (size_t b = 0; t->first && b < a->B; b++) {
        t->first[b] = units;
        units += units_of(a->k_len[b], UNIT);
    }
    size_t k_size = units * a->Hkv * 2 * t->depth_k * TILE * sizeof *t->k;
    size_t v_size = units * a->Hkv * 2 * t->depth_v * TILE * sizeof *t->v;
    t->k = qkv__arena_alloc(e->scratch, k_size + TILE_BYTES);
    t->v = forward ? NULL : qkv__arena_alloc(e->scratch, v_size + TILE_BYTES);
    t->k_across = forward ? NULL : qkv__arena_alloc(e->scratch, k_size + TILE_BYTES);
    t->v_across = forward ? qkv__arena_alloc(e->scratch, v_size + TILE_BYTES) : NULL;
    if (!t->first || !t->k || !(forward ? t->v_across : t->v) || !(forward || t->k_across)) {
        return false;
    }
#pragma omp parallel for num_threads(e->threads) if (tasks > 1 && !e->meta) schedule(dynamic)     \
    default(none) shared(t, e, a, k, v, tasks)
    for (size_t n = 0; n < tasks * !e->meta; n++) {
        size_t b = n / a->Hkv, kv = n % a->Hkv, row = a->k_begin[b];
        size_t at_k = key_tiles_at(t, a, b, kv, t->depth_k);
        size_t at_v = key_tiles_at(t, a, b, kv, t->depth_v);
        key_tiles_fill(t->k + at_k, t->k_across ? t->k_across + at_k : NULL,
                       k + row * a->k_row + kv * a->k_head, a->k_row, a->k_len[b], a->D);
        key_tiles_fill(t->v ? t->v + at_v : NULL, t->v_across ? t->v_across + at_v : NULL,
                       v + row * a->v_row + kv * a->v_head, a->v_row, a->k_len[b], a->Dv);
    }
    return true;
}

void unpack_transposed(float *y, size_t ldy, const float *x, size_t rows, size_t n,
                       const float *scale, bool acc)
{
    for (size_t i = 0; i < rows; i += VF) {
        for (size_t c = 0; c < n; c += VF) {
            size_t count = at_most(n - c, VF);
            vf r[VF];
            for (size_t d = 0; d < VF; d++) {
                r[d] = vf_load(x + (c + d) * TQ + i) * vf_load(scale + i);
            }
            vf_transpose(r);
            for (size_t l = 0; l < at_most(rows - i, VF); l++) {
                float *to = y + (i + l) * ldy + c;
                vf before = acc ? vf_get(to, count) : vf_zero();
                vf_put(to, before + r[l], count);
            }
        }
    }
}

/* ---- tiles of scores ----------------------------------------------------------------------- */

void tile_scores(float *tile, const engine *by, const block *x, tiles a, tiles b, size_t steps,
                 size_t j0, size_t nk)
{
    size_t end = units_of(x->rows, UNIT);
    for (size_t j = 0; j < nk; j += UNIT, a.at += 2 * a.panel) {
        size_t begin = first_query(x, j0 + j) / UNIT;
        if (begin < end) {
            tiles right = { b.at + 2 * begin * b.panel, b.panel, b.step };
            by->multiply(tile + j * TQ + begin * UNIT, TQ, a, right, 1, end - begin, steps, false);
        }
    }
}

void add_over_keys(float *sum, const engine *by, const block *x, tiles a, size_t depth,
                   const float *tile, uint32_t *room, size_t j0, size_t nk, bool add)
{
    tiles b = tiles_make(room, &(operand){ tile, TQ, x->rows, nk, .along = false });
    for (size_t i = 0; i < x->rows; i += UNIT) {
        size_t seen = keys_seen(x, at_most(i + UNIT, x->rows) - 1, j0, nk);
        tiles right = { b.at + i / SIDE * b.panel, b.panel, b.step };
        by->multiply(sum + i, TQ, a, right, depth, 1, units_of(seen, DEPTH), add);
    }
}
#endif
