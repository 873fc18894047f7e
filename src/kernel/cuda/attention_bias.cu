/* attention_bias.cu - the gradient of a bias of attention. Gradients of scores are summed over what
 * shares an element of the bias: sequences and heads where it is broadcast, and within a pair of
 * sequence and head all queries (one row for all) or the diagonals (a bias of j - i alone). A block
 * owns 64 x 64 places and sums a slice of what falls on them, in order; slices are added last. */
#include "kernel/cuda/attention.cuh"
#include "kernel/cuda/attention_backward.cuh"

/* Rows of their own; one row for all queries; j - i. */
enum bias_kind { BIAS_ROWS, BIAS_ROW, BIAS_DIAGONALS };

struct bias_job {
    bias_kind kind;
    int batches, heads;         /* of the bias: 1 or B, 1 or H */
    int q_tiles, k_tiles;       /* of the longest sequence */
    int places;                 /* tiles of places of one batch and head */
    int slices;                 /* of what is summed for a tile */
    int q_held, do_held, k_held, v_held;
    float *dbias;
    float *part;                /* (batches, heads, places, slices, width): sums; NULL: dbias */
    int width;                  /* of a tile's sums: 64 x 64, 64, or 127 and one unused */
};

/* What is summed for a tile: step n of all. */
struct bias_step {
    int b, h, i0, j0;
};
ATT_DEVICE int bias_steps(const bias_job &w, const att_problem &p)
{
    return p.B / w.batches * (p.H / w.heads) * (w.kind == BIAS_ROWS ? 1 : w.q_tiles);
}
ATT_DEVICE bias_step bias_step_of(const bias_job &w, const att_problem &p, int batch, int head,
                                  int place, int n)
{
    int tile = place / w.k_tiles, keys = place % w.k_tiles;
    if (w.kind != BIAS_ROWS) {
        tile = n % w.q_tiles;
        n /= w.q_tiles;
        keys = w.kind == BIAS_ROW ? place : tile + place - (w.q_tiles - 1);
    }
    const int heads = p.H / w.heads;
    return {batch + n / heads, head + n % heads, tile * ATT_TILE, keys * ATT_TILE};
}

/* The sums of a tile of 64 x 64 (in shared memory, too) as the kind has them. */
ATT_DEVICE float bias_sum(const bias_job &w, const float *tile, int at)
{
    float sum = 0;
    if (w.kind == BIAS_ROWS)
        return tile[at / ATT_TILE * ATT_ROW + at % ATT_TILE];
    for (int r = 0; r < ATT_TILE; r++) {
        const int c = w.kind == BIAS_ROW ? at : at + r - (ATT_TILE - 1);
        if (c >= 0 && c < ATT_TILE)
            sum += tile[r * ATT_ROW + c];
    }
    return sum;
}

/* Rows of their own that one block has summed. */
ATT_DEVICE void bias_add_tile(const bias_job &w, const att_problem &p, float *y, const float *tile,
                              int i0, int j0)
{
    for (int at = (int)threadIdx.x; at < w.width; at += ATT_THREADS) {
        const int i = i0 + at / ATT_TILE, j = j0 + at % ATT_TILE;
        if (i < p.longest_q && j < p.longest_k)
            y[i * p.bias_t + j] += bias_sum(w, tile, at);
    }
}

/* Block x: place, head, batch; y: slice. */
static __global__ void __launch_bounds__(ATT_THREADS)
    bias_bwd(const __grid_constant__ att_problem p, const att_inputs in, const bias_job w)
{
    DYNAMIC_SHARED(memory);
    const int place = (int)(blockIdx.x % w.places), slice = (int)blockIdx.y;
    const int head = (int)(blockIdx.x / w.places % w.heads);
    const int batch = (int)(blockIdx.x / w.places / w.heads);
    const int steps = bias_steps(w, p);
    att_pair t;
    float *tile = att_pair_of(&t, (float *)memory, p, in, w.q_held, w.do_held, w.k_held, w.v_held);
    att_numbers x, y, sum;
    att_clear(sum);
    for (int n = (int)((long long)steps * slice / w.slices);
         n < (int)((long long)steps * (slice + 1) / w.slices); n++) {
        const bias_step at = bias_step_of(w, p, batch, head, place, n);
        const att_sequence s = att_sequence_of(p, at.b);
        if (at.j0 < 0 || at.i0 >= s.q_len || at.j0 >= s.k_len)
            continue;
        const int last = min(at.i0 + (int)ATT_TILE, s.q_len) - 1;
        if (at.j0 >= att_seen(p, s, last).hi || at.j0 + ATT_TILE <= att_seen(p, s, at.i0).lo)
            continue;
        __syncthreads();
        att_pair_queries(&t, p, in, s, at.h, at.i0);
        att_pair_keys(&t, p, in, s, at.h / (p.H / p.Hkv), at.j0);
        att_fill(t.q);
        att_fill(t.dout);
        att_fill(t.k);
        att_fill(t.v);
        __syncthreads();
        att_all_dots(x, t.q, t.k);
        att_all_dots(y, t.dout, t.v);
        att_score_gradients(x, y, p, in, s, at.b, at.h, at.i0, at.j0);
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                sum[r][c] += y[r][c];
    }
    att_put(tile, sum);
    __syncthreads();
    if (!w.part) {
        float *y = w.dbias + (batch * p.bias_b + head * p.bias_h);
        bias_add_tile(w, p, y, tile, place / w.k_tiles * ATT_TILE, place % w.k_tiles * ATT_TILE);
        return;
    }
    float *part = w.part + ((size_t)blockIdx.x * w.slices + slice) * w.width;
    for (int at = (int)threadIdx.x; at < w.width; at += ATT_THREADS)
        part[at] = bias_sum(w, tile, at);
}

ATT_DEVICE float bias_slices(const bias_job &w, size_t pair, int place, int at)
{
    const float *part = w.part + (pair * w.places + place) * w.slices * (size_t)w.width + at;
    float sum = 0;
    for (int s = 0; s < w.slices; s++)
        sum += part[(size_t)s * w.width];
    return sum;
}

/* dbias += sums of slices: element (i, j), or j, or j - i, of every batch and head of the bias. A
 * diagonal lies in two places: number n counts them from that of the first place's first. */
static __global__ void bias_add(const __grid_constant__ att_problem p, const bias_job w, int rows,
                                int columns)
{
    const size_t each = (size_t)rows * columns, n = each * w.heads * w.batches;
    for (FOR_EACH(x, n)) {
        const size_t pair = x / each;
        const int i = (int)(x % each / columns), j = (int)(x % columns);
        float *y = w.dbias + ((ptrdiff_t)(pair / w.heads) * p.bias_b +
                              (ptrdiff_t)(pair % w.heads) * p.bias_h);
        if (w.kind == BIAS_ROWS) {
            const int place = i / ATT_TILE * w.k_tiles + j / ATT_TILE;
            y[i * p.bias_t + j] +=
                bias_slices(w, pair, place, i % ATT_TILE * ATT_TILE + j % ATT_TILE);
        } else if (w.kind == BIAS_ROW) {
            y[j] += bias_slices(w, pair, j / ATT_TILE, j % ATT_TILE);
        } else {
            const int n = j + w.q_tiles * ATT_TILE - p.longest_q, place = n / ATT_TILE;
            float sum = place > 0 ? bias_slices(w, pair, place - 1, n % ATT_TILE + ATT_TILE) : 0;
            sum += place < w.places ? bias_slices(w, pair, place, n % ATT_TILE) : 0;
            y[j - (p.longest_q - 1)] += sum;
        }
    }
}

static bias_job job_of(const att_problem &p)
{
    bias_job w = {};
    w.kind = p.bias_t == 0 ? BIAS_ROW : p.bias_t == -1 ? BIAS_DIAGONALS : BIAS_ROWS;
    w.batches = p.bias_b ? p.B : 1;
    w.heads = p.bias_h ? p.H : 1;
    w.q_tiles = (p.longest_q + ATT_TILE - 1) / ATT_TILE;
    w.k_tiles = (p.longest_k + ATT_TILE - 1) / ATT_TILE;
    w.places = w.kind == BIAS_ROWS ? w.q_tiles * w.k_tiles
               : w.kind == BIAS_ROW ? w.k_tiles : w.q_tiles + w.k_tiles - 1;
    w.width = w.kind == BIAS_ROWS ? ATT_TILE * ATT_TILE
              : w.kind == BIAS_ROW ? (int)ATT_TILE : 2 * ATT_TILE;
    const int steps = p.B / w.batches * (p.H / w.heads) * (w.kind == BIAS_ROWS ? 1 : w.q_tiles);
    const long long blocks = (long long)w.places * w.heads * w.batches, enough = 528;
    const long long slices = (enough + blocks - 1) / blocks;
    w.slices = (int)(slices < steps ? slices : steps);
    w.q_held = w.k_held = att_held(p.D);
    w.do_held = w.v_held = att_held(p.Dv);
    return w;
}

void att_bias_bwd(const qkv_exec *e, float *dbias, const att_problem &p, const att_inputs &in)
{
    if (p.longest_q == 0 || p.longest_k == 0)
        return;
    bias_job w = job_of(p);
    const unsigned blocks = (unsigned)w.places * w.heads * w.batches;
    const bool direct = w.kind == BIAS_ROWS && w.slices == 1;
    const size_t bytes =
        (size_t)(w.q_held + w.do_held + w.k_held + w.v_held + 1) * ATT_CHUNK_BYTES;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    const size_t floats = (size_t)blocks * w.slices * w.width;
    w.dbias = dbias;
    w.part = direct ? NULL : (float *)qkv__arena_alloc(e->scratch, floats * sizeof *w.part);
    if (direct || w.part) {
        ATT_ALLOW(bias_bwd, bytes);
        LAUNCH(bias_bwd, dim3(blocks, w.slices), ATT_THREADS, bytes, p, in, w);
    }
    if (w.part) {
        const int rows = w.kind == BIAS_ROWS ? p.longest_q : 1;
        const int columns = p.longest_k + (w.kind == BIAS_DIAGONALS ? p.longest_q - 1 : 0);
        LAUNCH(bias_add, cuda_blocks((size_t)rows * columns * w.heads * w.batches), BLOCK, 0, p, w,
               rows, columns);
    }
    qkv__arena_release(e->scratch, mark);
}
