/* simd_attention_few.c - attention of a few queries to many keys, as when decoding: a row at a
 * time, keys and values read where they lie; those of fewer bits are widened, as many as stay in
 * the first cache. A task takes neighbouring heads through a few keys before it goes on to the next
 * keys: memory is read in the order of addresses. No dropout. And rows of weights, on request. */
#include <omp.h>

#include "kernel/simd_attention_parts.h"

/* Keys a step, between two looks at the largest score. Rows of one head that are gone through
 * before the next keys. Bytes of a cache line. __builtin_prefetch's name for the second cache. */
enum { KEYS = 64, TOGETHER = 128, LINE = 64, L2 = 2 };
enum { ROWS_TOGETHER = 32 }; /* of weights that are asked for */

/* What a row sees of a step's keys, counted from the step's first. */
typedef struct {
    size_t begin, end;
} range;

static range range_within(range x, size_t first, size_t n)
{
    return (range){ x.begin > first ? x.begin : first, at_most(x.end, first + n) };
}

/* One thread's memory: the rows (head, query) of one task, a head's queries one after another. */
typedef struct {
    size_t b, head, heads; /* the task: query heads head .. head+heads-1 of sequence b */
    size_t kv_heads;       /* their key/value heads */
    range *seen;           /* (rows): of the step */
    float *q;              /* (rows, D), scaled */
    float *out;            /* (rows, padded(Dv)) */
    float *max, *sum;      /* (rows) */
    float *alpha;          /* (rows): what `out` is multiplied by before the step's values */
    float *weights;        /* (rows, KEYS) */
    float *k, *v;          /* (KEYS, D), (KEYS, Dv): widened */
} room;

static size_t simd_attention_few_room_size(const attention_args *a, size_t rows)
{
    return rows * (sizeof(range) / sizeof(float) + padded(a->D) + padded(a->Dv) + 3 + KEYS) +
           KEYS * (a->D + a->Dv);
}

static room simd_attention_few_room_at(float *p, const attention_args *a, size_t rows)
{
    room r = { .seen = (range *)(void *)p, .weights = p + rows * sizeof(range) / sizeof(float) };
    r.k = r.weights + rows * KEYS;
    r.v = r.k + KEYS * a->D;
    r.q = r.v + KEYS * a->Dv;
    r.out = r.q + rows * padded(a->D);
    r.max = r.out + rows * padded(a->Dv);
    r.sum = r.max + rows;
    r.alpha = r.sum + rows;
    return r;
}

/* part[j] += products of q and key j, `width` vectors of at most m lanes each. Of n < VF keys
 * the last serves all further lanes. */
QKV_INLINE void add_products(vf part[VF], const float *q, const float *k, size_t k_row, size_t n,
                             const size_t width, size_t m)
{
    vf x[4];
    for (size_t c = 0; c < width; c++) {
        x[c] = vf_get(q + c * VF, m);
    }
    QKV_UNROLL
    for (size_t j = 0; j < VF; j++) {
        const float *key = k + at_most(j, n - 1) * k_row;
        for (size_t c = 0; c < width; c++) {
            part[j] = vf_fma(x[c], vf_get(key + c * VF, m), part[j]);
        }
    }
}

/* s (n <= VF) = k (n, D; row stride k_row) q. n is a constant where all lanes are used. */
QKV_INLINE void scores_of_vector(float *s, const float *q, const float *k, size_t k_row, size_t n,
                                 size_t D)
{
    vf part[VF];
    size_t c = 0;
    QKV_UNROLL
    for (size_t j = 0; j < VF; j++) {
        part[j] = vf_zero();
    }
    for (; c + 4 * VF <= D; c += 4 * VF) {
        add_products(part, q + c, k + c, k_row, n, 4, VF);
    }
    for (; c + VF <= D; c += VF) {
        add_products(part, q + c, k + c, k_row, n, 1, VF);
    }
    if (c < D) {
        add_products(part, q + c, k + c, k_row, n, 1, D - c);
    }
    vf_transpose(part);
    QKV_UNROLL
    for (size_t step = VF / 2; step; step /= 2) {
        QKV_UNROLL
        for (size_t j = 0; j < step; j++) {
            part[j] = part[j] + part[j + step];
        }
    }
    vf_put(s, part[0], n);
}

static void scores_of(float *s, const float *q, const float *k, size_t k_row, size_t n, size_t D,
                      const float *bias)
{
    for (size_t j = 0; j < n; j += VF) {
        size_t m = at_most(n - j, VF);
        if (m == VF) {
            scores_of_vector(s + j, q, k + j * k_row, k_row, VF, D);
        } else {
            scores_of_vector(s + j, q, k + j * k_row, k_row, m, D);
        }
        if (bias) {
            vf_put(s + j, vf_get(s + j, m) + vf_get(bias + j, m), m);
        }
    }
}

static float simd_attention_few_largest(const float *s, size_t n, float floor)
{
    vf max = vf_set1(floor);
    size_t j = 0;
    for (; j + VF <= n; j += VF) {
        max = vf_max(vf_load(s + j), max);
    }
    for (; j < n; j++) {
        floor = s[j] > floor ? s[j] : floor;
    }
    float all = vf_maximum(max);
    return all > floor ? all : floor;
}

/* s = exp(s - base); returns the sum. */
static float exponentials(float *s, size_t n, float base)
{
    vf sum = vf_zero();
    for (size_t j = 0; j < n; j += VF) {
        size_t m = at_most(n - j, VF);
        vf p = vf_exp(vf_get(s + j, m) - vf_set1(base));
        vf_put(s + j, p, m);
        sum = sum + vf_get(s + j, m); /* lanes past the end are 0 */
    }
    return vf_sum(sum);
}

/* out (width) = alpha out + w (n) v (n, Dv; row stride v_row) */
static void add_values(float *out, float alpha, const float *w, const float *v, size_t v_row,
                       size_t n, size_t Dv)
{
    size_t c = 0;
    for (; c + 4 * VF <= Dv; c += 4 * VF) {
        vf sum[4];
        for (int i = 0; i < 4; i++) {
            sum[i] = vf_load(out + c + (size_t)i * VF) * vf_set1(alpha);
        }
        for (size_t j = 0; j < n; j++) {
            vf p = vf_set1(w[j]);
            for (int i = 0; i < 4; i++) {
                sum[i] = vf_fma(p, vf_load(v + j * v_row + c + (size_t)i * VF), sum[i]);
            }
        }
        for (int i = 0; i < 4; i++) {
            vf_store(out + c + (size_t)i * VF, sum[i]);
        }
    }
    for (; c < Dv; c += VF) {
        size_t m = at_most(Dv - c, VF);
        vf sum = vf_load(out + c) * vf_set1(alpha);
        for (size_t j = 0; j < n; j++) {
            sum = vf_fma(vf_set1(w[j]), vf_get(v + j * v_row + c, m), sum);
        }
        vf_store(out + c, sum);
    }
}

/* Keys or values in memory, in bytes: rows and heads are so far apart, a head's row takes `width`.
 * stored: what they are kept in; NULL: floats. */
typedef struct {
    const char *data;
    size_t row, head, width;
    const qkv_k_stored *stored;
} side;

static side side_of_floats(const float *x, size_t row, size_t head, size_t D)
{
    return (side){ (const char *)x, row * sizeof *x, head * sizeof *x, D * sizeof *x, NULL };
}

static side side_of_stored(const qkv_k_stored *x, size_t heads, size_t D)
{
    size_t width = D * (x->kind == QKV_K_KV_INT8 ? sizeof(int8_t) : sizeof(uint16_t));
    return (side){ x->data, heads * width, width, width, x };
}

/* Rows of one head. */
typedef struct {
    const float *x;
    size_t row;
} head_rows;

/* The head's keys or values key .. key+n-1: where they lie, or widened to `to` (KEYS, D). */
static head_rows rows_of(const side *s, size_t key, size_t kv, size_t n, size_t heads, size_t D,
                         float *to)
{
    const char *from = s->data + key * s->row + kv * s->head;
    if (!s->stored) {
        return (head_rows){ (const float *)(const void *)from, s->row / sizeof(float) };
    }
    for (size_t j = 0; j < n; j++, from += s->row, to += D) {
        if (s->stored->kind == QKV_K_KV_BF16) {
            const uint16_t *x = (const uint16_t *)(const void *)from;
#pragma omp simd
            for (size_t c = 0; c < D; c++) {
                to[c] = qkv__bf16_number(x[c]);
            }
        } else {
            const int8_t *x = (const int8_t *)from;
            float scale = s->stored->scale[(key + j) * heads + kv];
#pragma omp simd
            for (size_t c = 0; c < D; c++) {
                to[c] = (float)x[c] * scale;
            }
        }
    }
    return (head_rows){ to - n * D, D };
}

static void rows_load(room *m, const float *q, const attention_args *a)
{
    size_t queries = a->q_len[m->b], rows = queries * m->heads;
    for (size_t r = 0; r < rows; r++) {
        size_t row = a->q_begin[m->b] + r % queries, h = m->head + r / queries;
        const float *from = q + row * a->q_row + h * a->q_head;
        for (size_t c = 0; c < a->D; c++) {
            m->q[r * padded(a->D) + c] = from[c] * (float)a->scale;
        }
        m->max[r] = -INFINITY;
        m->sum[r] = 0;
    }
    memset(m->out, 0, rows * padded(a->Dv) * sizeof *m->out);
}

static void rows_store(const room *m, float *out, float *lse, const attention_args *a)
{
    for (size_t r = 0, queries = a->q_len[m->b]; r < queries * m->heads; r++) {
        size_t row = a->q_begin[m->b] + r % queries, h = m->head + r / queries;
        bool blind = !(m->sum[r] > 0);
        float *to = out + row * a->o_row + h * a->o_head, scale = blind ? 0 : 1 / m->sum[r];
        for (size_t c = 0; c < a->Dv; c++) {
            to[c] = m->out[r * padded(a->Dv) + c] * scale;
        }
        lse[row * a->H + h] = blind ? -INFINITY : m->max[r] + logf(m->sum[r]);
    }
}

/* Some keys of a sequence, in the task's first key/value head. */
typedef struct {
    const side *of;
    size_t key, n;
} piece;

/* Part h of kv_heads of the piece, in all heads, on its way to the second cache, in the order of
 * addresses: rows of some heads are too short for the processor to fetch ahead by itself. Inline:
 * gcc 12 drops calls of a function that does nothing else. */
QKV_INLINE void fetch(const room *m, piece x, size_t kv0, size_t h)
{
    size_t end = x.n * (h + 1) / m->kv_heads;
    for (size_t j = x.n * h / m->kv_heads; j < end; j++) {
        const char *row = x.of->data + (x.key + j) * x.of->row + kv0 * x.of->head;
        for (size_t head = 0; head < m->kv_heads; head++, row += x.of->head) {
            for (size_t i = 0; i < x.of->width; i += LINE) {
                __builtin_prefetch(row + i, 0, L2);
            }
        }
    }
}

/* Keys j .. j+n-1 of the sequence, and as many as `next` after them. */
typedef struct {
    size_t j, n, next;
} step;

/* n keys of a step from `first` on, of head kv; rows r .. end-1 are of its query heads. */
typedef struct {
    size_t first, n, kv, r, end;
} part;

static part part_of_keys(const room *m, const attention_args *a, size_t first, size_t n, size_t kv)
{
    size_t group = a->H / a->Hkv, queries = a->q_len[m->b], r = (kv * group - m->head) * queries;
    return (part){ first, n, kv, r, r + group * queries };
}

static void scores_of_part(room *m, const side *k, const attention_args *a, const step *s, part p)
{
    size_t queries = a->q_len[m->b], key = a->k_begin[m->b] + s->j + p.first;
    head_rows keys = rows_of(k, key, p.kv, p.n, a->Hkv, a->D, m->k);
    for (size_t r = p.r; r < p.end; r++) {
        range x = range_within(m->seen[r], p.first, p.n);
        if (x.begin < x.end) {
            ptrdiff_t row = qkv__bias_row(a, m->b, m->head + r / queries, r % queries);
            const float *bias = a->bias ? a->bias + row + s->j + x.begin : NULL;
            const float *key0 = keys.x + (x.begin - p.first) * keys.row;
            scores_of(m->weights + r * KEYS + x.begin, m->q + r * padded(a->D), key0, keys.row,
                      x.end - x.begin, a->D, bias);
        }
    }
}

/* Scores become weights, and m->alpha what was summed up before them is to be multiplied by. */
static void weights_of_row(room *m, size_t r)
{
    float *w = m->weights + r * KEYS + m->seen[r].begin;
    size_t n = m->seen[r].end - m->seen[r].begin;
    float max = simd_attention_few_largest(w, n, m->max[r]);
    float base = max == -INFINITY ? 0 : max;
    m->alpha[r] = expf(m->max[r] - base);
    m->sum[r] = m->sum[r] * m->alpha[r] + exponentials(w, n, base);
    m->max[r] = max;
}

static void add_values_of_part(room *m, const side *v, const attention_args *a, const step *s,
                               part p)
{
    size_t key = a->k_begin[m->b] + s->j + p.first;
    head_rows values = rows_of(v, key, p.kv, p.n, a->Hkv, a->Dv, m->v);
    for (size_t r = p.r; r < p.end; r++) {
        range x = range_within(m->seen[r], p.first, p.n);
        if (x.begin < x.end) {
            const float *w = m->weights + r * KEYS + x.begin;
            const float *value = values.x + (x.begin - p.first) * values.row;
            add_values(m->out + r * padded(a->Dv), m->alpha[r], w, value, values.row,
                       x.end - x.begin, a->Dv);
            m->alpha[r] = 1;
        }
    }
}

/* All rows of the task on a step's keys, then on their values; what comes next is fetched. */
static void keys_step(room *m, const side *k, const side *v, const attention_args *a, const step *s)
{
    size_t b = m->b, queries = a->q_len[b], kv0 = m->head * a->Hkv / a->H;
    size_t key = a->k_begin[b] + s->j, together = TOGETHER / m->kv_heads / VF * VF;
    together = together < VF ? VF : at_most(together, KEYS);
    for (size_t r = 0; r < m->heads * queries; r++) {
        block x = block_of(a, b, m->head + r / queries, r % queries);
        m->seen[r] = (range){ keys_passed(&x, 0, s->j, s->n), keys_seen(&x, 0, s->j, s->n) };
    }
    for (size_t i = 0; i < s->n; i += together) {
        size_t n = at_most(s->n - i, together), left = at_most(s->n - i - n, together);
        piece next = left ? (piece){ k, key + i + n, left }
                          : (piece){ v, key, at_most(s->n, together) };
        for (size_t h = 0; h < m->kv_heads; h++) {
            fetch(m, next, kv0, h);
            scores_of_part(m, k, a, s, part_of_keys(m, a, i, n, kv0 + h));
        }
    }
    for (size_t r = 0; r < m->heads * queries; r++) {
        if (m->seen[r].begin < m->seen[r].end) {
            weights_of_row(m, r);
        }
    }
    for (size_t i = 0; i < s->n; i += together) {
        size_t n = at_most(s->n - i, together), left = at_most(s->n - i - n, together);
        piece next = left ? (piece){ v, key + i + n, left }
                          : (piece){ k, key + s->n, at_most(s->next, together) };
        for (size_t h = 0; h < m->kv_heads; h++) {
            fetch(m, next, kv0, h);
            add_values_of_part(m, v, a, s, part_of_keys(m, a, i, n, kv0 + h));
        }
    }
}

/* Query heads of a task: of a sequence's heads as few parts as give all threads as many tasks. */
static size_t heads_of_task(const attention_args *a, size_t threads)
{
    size_t parts = 1;
    while (a->B < 2 * threads && a->B * parts % threads) {
        parts++;
    }
    parts = at_most(parts, a->Hkv);
    return (a->Hkv + parts - 1) / parts * (a->H / a->Hkv);
}

static void attention_of_sides(const qkv_exec *e, float *out, float *lse, const float *q,
                               const side *k, const side *v, const attention_args *a)
{
    qkv__mark mark = qkv__arena_mark(e->scratch);
    size_t threads = (size_t)e->threads, group = a->H / a->Hkv;
    size_t heads = heads_of_task(a, threads), rows = FEW * heads;
    size_t parts = (a->H + heads - 1) / heads; /* of a sequence: none is empty */
    size_t size = qkv__whole_lines(simd_attention_few_room_size(a, rows)), tasks = a->B * parts;
    float *memory = qkv__arena_alloc(e->scratch, threads * size * sizeof *memory);
    if (memory && !e->meta) {
#pragma omp parallel for schedule(dynamic) num_threads(e->threads) if (tasks > 1) default(none) \
    shared(out, lse, q, k, v, a, size, tasks, memory, parts, heads, rows, group)
        for (size_t n = 0; n < tasks; n++) {
            room m = simd_attention_few_room_at(memory + (size_t)omp_get_thread_num() * size, a,
                                                rows);
            m.b = n / parts;
            m.head = n % parts * heads;
            m.heads = at_most(heads, a->H - m.head);
            m.kv_heads = m.heads / group;
            rows_load(&m, q, a);
            block x = block_of(a, m.b, m.head, 0);
            size_t first = keys_passed(&x, 0, 0, a->k_len[m.b]) / KEYS * KEYS;
            for (size_t j = first; j < a->k_len[m.b]; j += KEYS) {
                size_t now = at_most(a->k_len[m.b] - j, KEYS);
                step s = { j, now, at_most(a->k_len[m.b] - j - now, KEYS) };
                keys_step(&m, k, v, a, &s);
            }
            rows_store(&m, out, lse, a);
        }
    }
    qkv__arena_release(e->scratch, mark);
}

void attention_few(const qkv_exec *e, float *out, float *lse, const float *q, const float *k,
                   const float *v, const attention_args *a)
{
    side keys = side_of_floats(k, a->k_row, a->k_head, a->D);
    side values = side_of_floats(v, a->v_row, a->v_head, a->Dv);
    attention_of_sides(e, out, lse, q, &keys, &values, a);
}

void attention_few_stored(const qkv_exec *e, float *out, float *lse, const float *q,
                          const qkv_k_stored *k, const qkv_k_stored *v, const attention_args *a)
{
    side keys = side_of_stored(k, a->Hkv, a->D), values = side_of_stored(v, a->Hkv, a->Dv);
    attention_of_sides(e, out, lse, q, &keys, &values, a);
}

/* From scores to weights: rows of keys that a query does not see are zeros. */
static void weights_finish(float *w, const attention_args *a, const block *x, size_t seen,
                           float lse)
{
    const float *bias = a->bias;
    bias = bias ? bias + qkv__bias_row(a, x->b, x->h, x->i0) : NULL;
    size_t passed = at_most(keys_passed(x, 0, 0, a->k_len[x->b]), seen);
    memset(w, 0, passed * sizeof *w);
    memset(w + seen, 0, (a->k_len[x->b] - seen) * sizeof *w);
    /* The scale goes in here: q is not ours to change. */
    for (size_t j = passed; j < seen; j += VF) {
        size_t m = at_most(seen - j, VF);
        vf added = bias ? vf_get(bias + j, m) : vf_zero();
        vf_put(w + j, vf_fma(vf_get(w + j, m), vf_set1((float)a->scale), added), m);
    }
    /* The rounding of lse does not show. */
    float scale = 1 / exponentials(w + passed, seen - passed, lse);
    for (size_t j = passed; j < seen; j += VF) {
        size_t m = at_most(seen - j, VF);
        vf_put(w + j, vf_get(w + j, m) * vf_set1(scale), m);
    }
}

/* Some rows together: KEYS keys serve all of them while they lie in the first cache. */
static void weights_rows(float *weights, const float *lse, const float *q, const float *k,
                         const attention_args *a, size_t b, size_t h, size_t row, size_t rows)
{
    size_t S = a->k_len[b], seen[ROWS_TOGETHER], most = 0, query = a->q_begin[b] + row;
    for (size_t r = 0; r < rows; r++) {
        block x = block_of(a, b, h, row + r);
        seen[r] = keys_seen(&x, 0, 0, S);
        if (lse[(query + r) * a->H + h] == -INFINITY) {
            seen[r] = 0;
        }
        most = seen[r] > most ? seen[r] : most;
    }
    size_t kv = block_of(a, b, h, row).kv;
    k += a->k_begin[b] * a->k_row + kv * a->k_head;
    for (size_t j = 0; j < most; j += KEYS) {
        for (size_t r = 0; r < rows; r++) {
            if (j < seen[r]) {
                scores_of(weights + r * S + j, q + (query + r) * a->q_row + h * a->q_head,
                          k + j * a->k_row, a->k_row, at_most(seen[r] - j, KEYS), a->D, NULL);
            }
        }
    }
    for (size_t r = 0; r < rows; r++) {
        block x = block_of(a, b, h, row + r);
        if (seen[r]) {
            weights_finish(weights + r * S, a, &x, seen[r], lse[(query + r) * a->H + h]);
        } else {
            memset(weights + r * S, 0, S * sizeof *weights);
        }
    }
}

void attention_weights_few(const qkv_exec *e, float *weights, const float *lse, const float *q,
                           const float *k, const attention_args *a, size_t b, size_t h, size_t row,
                           size_t rows)
{
#pragma omp parallel for num_threads(e->threads) if (rows > ROWS_TOGETHER) default(none) \
    shared(weights, lse, q, k, a, b, h, row, rows)
    for (size_t r = 0; r < rows; r += ROWS_TOGETHER) {
        weights_rows(weights + r * a->k_len[b], lse, q, k, a, b, h, row + r,
                     at_most(rows - r, ROWS_TOGETHER));
    }
}
