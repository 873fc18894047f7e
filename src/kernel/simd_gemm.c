/* simd_gemm.c - c = [c +] op(a) op(b) [+ bias] in f32, of matrices as they come: a panel of b is
 * packed, then blocks of rows of c meet it (simd_packed.h). Rows of a are read where they lie; a
 * turned one is copied into tiles, along its rows, so that no memory is read in long strides.
 *
 * Where there is no library it serves every product. Beside oneDNN's, which is as fast on most
 * shapes, it serves those that the library is slow on (gemm_is_ours). */
#include "kernel/simd_packed.h"

enum { SOON = 8 }; /* rows that are fetched ahead */
static const size_t panel_parameters = 1u << 20; /* of b: what is packed at a time, 4 MB */
static const size_t worth_threads = 1u << 17; /* multiplications that pay for waking a team */

typedef struct {
    float *c;
    const float *a, *b;
    const qkv_k_gemm_args *args;
    float *panel, *tiles; /* packed numbers of b; of a: `team` times `room` */
    size_t team, room, depth; /* depth: numbers of k that are taken at a time */
} job;

/* ---- packing b ----------------------------------------------------------------------------- */

/* Columns j .. j+15 of op(b) where b is (n, k): 16 of its rows, VF numbers of each at a time. */
static void gemm_turn_group(float *to, const float *b, size_t ldb, size_t columns, size_t depth)
{
    for (size_t p = 0; p < depth; p += VF)
        for (size_t v = 0; v < QKV_K_PACKED; v += VF) {
            size_t now = at_most(depth - p, VF);
            vf row[VF];
            packed_turn(row, b + v * ldb + p, ldb, v < columns ? columns - v : 0, now);
            for (size_t i = 0; i < now; i++)
                vf_store(to + (p + i) * QKV_K_PACKED + v, row[i]);
        }
}

/* Groups g0 .. g1-1 of a panel where b is (k, n), along its rows; `columns` are left. A few groups
 * at a time: those of a whole row would lie in the same sets of the cache. */
static void gemm_copy_groups(float *to, const float *b, size_t ldb, size_t columns, size_t depth,
                             size_t g0, size_t g1)
{
    enum { TOGETHER = 4 };
    for (size_t first = g0; first < g1; first += TOGETHER)
        for (size_t p = 0; p < depth; p++)
            for (size_t g = first; g < at_most(g1, first + TOGETHER); g++) {
                float *line = to + (g * depth + p) * QKV_K_PACKED;
                const float *from = b + p * ldb + g * QKV_K_PACKED;
                size_t left = at_most(columns - g * QKV_K_PACKED, QKV_K_PACKED);
                __builtin_prefetch(from + SOON * ldb);
                if (left < QKV_K_PACKED)
                    memset(line, 0, QKV_K_PACKED * sizeof *line);
                memcpy(line, from, left == QKV_K_PACKED ? QKV_K_PACKED * sizeof *line
                                                        : left * sizeof *line);
            }
}

/* Numbers p .. p+depth-1 of columns j .. j+n-1, groups g0 .. g1-1 of them. */
static void gemm_pack_groups(const job *t, size_t j, size_t n, size_t p, size_t depth, size_t g0,
                             size_t g1)
{
    size_t ldb = t->args->ldb;
    if (!t->args->tb) {
        gemm_copy_groups(t->panel, t->b + p * ldb + j, ldb, n, depth, g0, g1);
        return;
    }
    for (size_t g = g0; g < g1; g++) {
        size_t at = g * QKV_K_PACKED;
        gemm_turn_group(t->panel + at * depth, t->b + (j + at) * ldb + p, ldb,
                        at_most(n - at, QKV_K_PACKED), depth);
    }
}

static void gemm_pack_panel(const job *t, size_t j, size_t n, size_t p, size_t depth)
{
    size_t groups = pieces_of(n, QKV_K_PACKED);
#pragma omp parallel for num_threads((int)t->team) if (t->team > 1) schedule(static)               \
    default(none) shared(t, j, n, p, depth, groups)
    for (size_t i = 0; i < t->team; i++)
        gemm_pack_groups(t, j, n, p, depth, groups * i / t->team, groups * (i + 1) / t->team);
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* Tiles of m rows of op(a) where a is (k, m). */
static void gemm_turn_rows(float *to, const float *a, size_t lda, size_t m, size_t depth)
{
    for (size_t p = 0; p < depth; p++, a += lda)
        for (size_t i = 0; i < m; i += MR) {
            float *line = to + i / MR * packed_tile_size(depth) + p * MR;
            __builtin_prefetch(a + i + SOON * lda);
            if (m - i >= MR)
                memcpy(line, a + i, MR * sizeof *line);
            else
                memcpy(line, a + i, (m - i) * sizeof *line);
        }
}

/* Rows i0 .. i1-1, groups g0 .. g1-1 of the panel of columns j .. j+n-1 and numbers from p on. */
static void gemm_blocks(const job *t, float *tiles, size_t i0, size_t i1, size_t g0, size_t g1,
                        size_t j, size_t n, size_t p, size_t depth)
{
    const qkv_k_gemm_args *s = t->args;
    size_t rows = packed_rows(i1 - i0, t->depth);
    bool tiled = t->room > 0;
    packed_block b = {.w = t->panel, .bias = s->bias && p + depth == s->k ? s->bias + j : NULL,
                      .ldy = s->ldc, .ldx = tiled ? packed_tile_size(depth) : s->lda, .n = n,
                      .depth = depth, .run = depth * QKV_K_PACKED,
                      .add = s->acc || p > 0};
    for (; i0 < i1; i0 += rows) {
        b.m = at_most(i1 - i0, rows);
        b.y = t->c + i0 * s->ldc + j;
        b.x = tiled ? tiles : t->a + i0 * s->lda + p;
        if (s->ta)
            gemm_turn_rows(tiles, t->a + p * s->lda + i0, s->lda, b.m, depth);
        else if (tiled)
            packed_copy_rows(tiles, t->a + i0 * s->lda + p, s->lda, b.m, depth);
        packed_groups(&b, g0, g1, tiled);
    }
}

static void gemm_meet_panel(const job *t, size_t j, size_t n, size_t p, size_t depth)
{
    size_t m = t->args->m, across = packed_across(m, n, t->team), down = t->team / across;
    size_t tiles = pieces_of(m, MR), groups = pieces_of(n, QKV_K_PACKED);
#pragma omp parallel for num_threads((int)t->team) if (t->team > 1) schedule(static)               \
    default(none) shared(t, j, n, p, depth, m, across, down, tiles, groups)
    for (size_t q = 0; q < down * across; q++) {
        size_t x = q / across, y = q % across;
        gemm_blocks(t, t->tiles + q * t->room, tiles * x / down * MR,
                    at_most(tiles * (x + 1) / down * MR, m), groups * y / across,
                    groups * (y + 1) / across, j, n, p, depth);
    }
}

/* ---- the product --------------------------------------------------------------------------- */

static qkv_k_gemm_fn *rest; /* what serves others, and without memory */

/* oneDNN's sgemm reads columns of a turned a that lie 1 KB or a multiple of it apart, which share
 * sets of the caches: 2,048 x 512 of 4,096 rows took 1.5 times as long as here. A turned b it reads
 * in as long strides, and nothing fetches them ahead: 1,024 x 768 x 768 took 1.2 times as long; a
 * small b is not worth a panel. And many rows of c with a short k, 1.1 times
 * (bench/products_kernel.c; family 6 model 207, two threads). Where the library does not suffer
 * from strides (model 85), a turned b takes 0.92 to 1 of its rate here. With AVX2 a turned b has 1
 * to 1.1 times its rate where it is small, else 0.9; b as it lies, with rows of a multiple of 1 KB
 * and up to 256 rows of c a thread, 1.1 to 2 times (AMD, family 25 model 1). */
static bool gemm_is_ours(const qkv_exec *e, const qkv_k_gemm_args *s)
{
    (void)e;
    if (!s->m || !s->n || !s->k)
        return false;
#if defined(QKV_HAVE_DNNL) && !defined(QKV_SIMD_neon)
    enum { SAME_SETS = 256, WIDE = 1024, SOME = 320, WORTH = 1 << 16, MANY = 8192, SHORT = 512 };
    if (s->ta)
        return s->lda % SAME_SETS == 0 && s->lda >= WIDE;
#ifdef QKV_SIMD_avx2
    enum { NARROW = 4096, SOME_ROWS = 64, ROWS_A_THREAD = 256 };
    if (!s->tb && s->ldb % SAME_SETS == 0 && s->m >= SOME_ROWS &&
        s->m <= ROWS_A_THREAD * (size_t)e->threads)
        return true;
    if (s->tb && (s->n > NARROW || s->k > WIDE))
        return false;
#endif
    return (s->tb && s->m >= SOME && s->n * s->k >= WORTH) || (s->m >= MANY && s->k <= SHORT);
#else
    return true;
#endif
}

static size_t gemm_columns(size_t n, size_t depth)
{
    const size_t unit = GROUPS * QKV_K_PACKED;
    return at_most(pieces_of(n, QKV_K_PACKED) * QKV_K_PACKED,
                   panel_parameters / depth / unit * unit);
}

void QKV_SIMD(qkv__own_gemm)(const qkv_exec *e, float *c, const float *a, const float *b,
                             const qkv_k_gemm_args *args)
{
    const size_t m = args->m, n = args->n, k = args->k, depth = packed_depth(k);
    const size_t columns = gemm_columns(n, depth);
    job t = {.c = c, .a = a, .b = b, .args = args, .depth = depth,
             .team = m * n * k > worth_threads ? (size_t)e->threads : 1,
             .room = args->ta || packed_worth_tiles(m, n) ? packed_room(m, depth) : 0};
    qkv__mark mark = qkv__arena_mark(e->scratch);
    t.panel = qkv__arena_alloc(e->scratch,
                               (columns * depth + t.team * t.room) * sizeof *t.panel);
    t.tiles = t.panel ? t.panel + columns * depth : NULL;
    if (!t.panel && !e->meta)
        rest(e, c, a, b, args);
    for (size_t j = 0; j < n && t.panel && !e->meta; j += columns)
        for (size_t p = 0; p < k; p += depth) {
            size_t n_now = at_most(n - j, columns), k_now = at_most(k - p, depth);
            gemm_pack_panel(&t, j, n_now, p, k_now);
            gemm_meet_panel(&t, j, n_now, p, k_now);
        }
    qkv__arena_release(e->scratch, mark);
}

static void simd_gemm_gemm(const qkv_exec *e, float *c, const float *a, const float *b,
                           const qkv_k_gemm_args *args)
{
    if (gemm_is_ours(e, args))
        QKV_SIMD(qkv__own_gemm)(e, c, a, b, args);
    else if (!e->meta)
        rest(e, c, a, b, args);
}

void QKV_SIMD(qkv__kernels_gemm)(qkv_kernels *k)
{
    rest = k->gemm;
    k->gemm = simd_gemm_gemm;
}
