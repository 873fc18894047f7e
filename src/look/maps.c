/* maps.c - the weights of all heads that are worth keeping, row by row, and what flows through all
 * layers together. */
#include <string.h>

#include "look/look.h"

/* ---- maps ----------------------------------------------------------------------------------- */

typedef struct {
    char *attention;
    int sequence, head;
    size_t rows, keys, kept;
    size_t *start; /* (rows + 1) */
    uint32_t *key; /* (kept) */
    float *weight; /* (kept) */
    size_t row_room, key_room, weight_room;
} kept_map;

struct qkv_head_maps {
    qkv_context *ctx;
    double least;
    kept_map *maps;
    size_t count, capacity;
    bool failed;
};

static kept_map *map_of(qkv_head_maps *m, const char *name, int sequence, int head, size_t S)
{
    kept_map *last = m->count ? &m->maps[m->count - 1] : NULL;
    if (last && last->sequence == sequence && last->head == head &&
        strcmp(last->attention, name) == 0)
        return last;
    if (!qkv__grow(m->ctx, &m->maps, &m->capacity, m->count + 1, sizeof *m->maps))
        return NULL;
    last = &m->maps[m->count];
    *last = (kept_map){.sequence = sequence, .head = head, .keys = S};
    last->attention = qkv_strdup(m->ctx, name);
    m->count += last->attention != NULL;
    return last->attention ? last : NULL;
}

static bool keep_row(qkv_context *ctx, kept_map *k, const qkv_real *w, double least)
{
    if (!qkv__grow(ctx, &k->start, &k->row_room, k->rows + 2, sizeof *k->start))
        return false;
    k->start[k->rows] = k->kept;
    for (size_t j = 0; j < k->keys; j++) {
        if ((double)w[j] < least)
            continue;
        if (!qkv__grow(ctx, &k->key, &k->key_room, k->kept + 1, sizeof *k->key) ||
            !qkv__grow(ctx, &k->weight, &k->weight_room, k->kept + 1, sizeof *k->weight))
            return false;
        k->key[k->kept] = (uint32_t)j;
        k->weight[k->kept++] = (float)w[j];
    }
    k->start[++k->rows] = k->kept;
    return true;
}

static void take_map_rows(void *user, const char *name, int sequence, int head, size_t row,
                          size_t rows, size_t S, const qkv_real *weights)
{
    qkv_head_maps *m = user;
    kept_map *k = m->failed ? NULL : map_of(m, name, sequence, head, S);
    (void)row;
    for (size_t r = 0; r < rows && k; r++)
        if (!keep_row(m->ctx, k, weights + r * S, m->least))
            k = NULL;
    m->failed = m->failed || !k;
}

qkv_status qkv_head_maps_open(qkv_head_maps **out, qkv_context *ctx, qkv_tape *t,
                              const char *pattern, double least)
{
    qkv_head_maps *m = *out = qkv_calloc(ctx, 1, sizeof *m);
    if (!m)
        return QKV_E_MEMORY;
    m->ctx = ctx;
    m->least = least;
    const qkv_attention_probe probe = {.name = pattern, .sequence = -1, .head = -1,
                                       .fn = take_map_rows, .user = m};
    if (!qkv_attention_probe_add(t, &probe))
        return QKV_OK;
    qkv_head_maps_free(m);
    *out = NULL;
    return QKV_E_MEMORY;
}

bool qkv_head_maps_at(const qkv_head_maps *m, size_t i, qkv_head_map *out)
{
    if (m->failed || i >= m->count)
        return false;
    const kept_map *k = &m->maps[i];
    *out = (qkv_head_map){k->attention, k->sequence, k->head, k->rows, k->keys, k->start, k->key,
                          k->weight};
    return true;
}

void qkv_head_maps_free(qkv_head_maps *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        qkv_free(m->ctx, m->maps[i].attention);
        qkv_free(m->ctx, m->maps[i].start);
        qkv_free(m->ctx, m->maps[i].key);
        qkv_free(m->ctx, m->maps[i].weight);
    }
    qkv_free(m->ctx, m->maps);
    qkv_free(m->ctx, m);
}

/* ---- rollout -------------------------------------------------------------------------------- */

struct qkv_rollout {
    qkv_context *ctx;
    char *layer;     /* the attention that is being summed up; NULL: none yet */
    size_t n;        /* positions */
    int heads;       /* summed up */
    float *sum;      /* (n, n): of the heads' weights */
    float *flow, *next; /* (n, n): product of the layers before; room for the next */
    bool failed, other; /* other: of another shape */
};

enum { FLOW_ROWS = 8, FLOW_COLUMNS = 512 }; /* of next at a time: they stay in the first cache */

/* Rows first .. of next = (scale sum + 1/2) flow. causal: flow has zeros above its diagonal. */
static void flow_rows(const qkv_rollout *r, size_t first, float scale, bool causal)
{
    const size_t n = r->n, end = first + FLOW_ROWS < n ? first + FLOW_ROWS : n;
    for (size_t k0 = 0; k0 < n; k0 += FLOW_COLUMNS) {
        const size_t k1 = k0 + FLOW_COLUMNS < n ? k0 + FLOW_COLUMNS : n;
        for (size_t i = first; i < end; i++)
            for (size_t k = k0; k < k1; k++)
                r->next[i * n + k] = 0.5f * r->flow[i * n + k];
        for (size_t j = causal ? k0 : 0; j < n; j++)
            for (size_t i = first; i < end; i++) {
                const float w = scale * r->sum[i * n + j], *from = r->flow + j * n;
                float *y = r->next + i * n;
                if (w > 0)
                    for (size_t k = k0; k < k1; k++)
                        y[k] += w * from[k];
            }
    }
}

/* Whether x (n, n) has zeros above its diagonal. */
static bool is_causal(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (x[i * n + j] > 0)
                return false;
    return true;
}

/* next = (sum / heads + 1) / 2 flow; a row of attention and of the flow sums to 1. */
static void end_layer(qkv_rollout *r)
{
    const size_t n = r->n;
    const float scale = r->heads ? 0.5f / (float)r->heads : 0;
    if (!r->layer || r->failed || !r->heads)
        return;
    const bool causal = is_causal(r->flow, n);
#pragma omp parallel for schedule(dynamic) default(none) shared(r, n, scale, causal)
    for (size_t i = 0; i < n; i += FLOW_ROWS)
        flow_rows(r, i, scale, causal);
    float *next = r->next;
    r->next = r->flow;
    r->flow = next;
    r->heads = 0;
}

static bool begin_flow(qkv_rollout *r, size_t n)
{
    size_t bytes;
    if (!qkv__mul_size(n, n, &bytes) || !qkv__mul_size(bytes, sizeof(float), &bytes))
        return false;
    r->n = n;
    r->sum = qkv_malloc(r->ctx, bytes);
    r->flow = qkv_malloc(r->ctx, bytes);
    r->next = qkv_malloc(r->ctx, bytes);
    for (size_t i = 0; r->flow && i < n * n; i++)
        r->flow[i] = i % (n + 1) == 0;
    return r->sum && r->flow && r->next;
}

static void take_flow(void *user, const char *name, int sequence, int head, size_t row,
                      size_t rows, size_t S, const qkv_real *weights)
{
    qkv_rollout *r = user;
    (void)head;
    if (r->failed || r->other || sequence)
        return;
    if (!r->layer || strcmp(r->layer, name) != 0) {
        end_layer(r);
        qkv_free(r->ctx, r->layer);
        r->layer = qkv_strdup(r->ctx, name);
        r->failed = !r->layer || (!r->n && !begin_flow(r, S));
        if (r->failed)
            return;
        memset(r->sum, 0, r->n * r->n * sizeof *r->sum);
    }
    r->other = S != r->n || row + rows > r->n;
    for (size_t i = 0; i < rows * S && !r->other; i++)
        r->sum[row * S + i] += (float)weights[i];
    r->heads += row == 0 && !r->other;
}

qkv_status qkv_rollout_open(qkv_rollout **out, qkv_context *ctx, qkv_tape *t, const char *pattern)
{
    qkv_rollout *r = *out = qkv_calloc(ctx, 1, sizeof *r);
    if (!r)
        return QKV_E_MEMORY;
    r->ctx = ctx;
    const qkv_attention_probe probe = {.name = pattern, .sequence = 0, .head = -1,
                                       .fn = take_flow, .user = r};
    if (!qkv_attention_probe_add(t, &probe))
        return QKV_OK;
    qkv_rollout_free(r);
    *out = NULL;
    return QKV_E_MEMORY;
}

const float *qkv_rollout_matrix(qkv_rollout *r, size_t *n)
{
    end_layer(r);
    *n = r->n;
    return r->failed || r->other ? NULL : r->flow;
}

void qkv_rollout_free(qkv_rollout *r)
{
    if (!r)
        return;
    qkv_free(r->ctx, r->layer);
    qkv_free(r->ctx, r->sum);
    qkv_free(r->ctx, r->flow);
    qkv_free(r->ctx, r->next);
    qkv_free(r->ctx, r);
}
