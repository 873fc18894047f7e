/* attention.c - multi-head attention: queries, keys and values of its own, heads, the output layer.
 * The block is built on it; qkv_attention does the arithmetic between the linear layers. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "nn/rotary.h"
#include "nn/state_entries.h"
#include "tensor/make.h"

struct qkv_mha {
    qkv_mha_config c;
    qkv_mha_params p;
    const char *probe; /* the last part of the layer's name, of probes */
    qkv_rotary_angles angles;
    uint32_t dropout_id;
};

qkv_mha_config qkv_mha_defaults(void)
{
    return (qkv_mha_config){.width = 512, .heads = 8, .qkv_bias = true, .out_bias = true};
}

/* ---- making ----------------------------------------------------------------------------- */

static qkv_status mha_check(qkv_context *ctx, const qkv_mha_config *c, const char *name)
{
    if (!c->width || !c->heads || !c->head_width)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: width %zu, %zu heads of %zu: none may be 0", name,
                        c->width, c->heads, c->head_width);
    if (c->heads % c->kv_heads != 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %zu heads cannot share %zu key/value heads "
                        "evenly", name, c->heads, c->kv_heads);
    if (c->cross && (c->rotary.base > 0 || c->qk_norm_eps > 0 || c->causal))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: cross-attention has no rotary positions, no "
                        "norms of query and key, and is not causal", name);
    if (c->window && !c->causal)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a window of %zu keys, but it is not causal", name,
                        c->window);
    if (!c->cross && c->memory_width != c->width)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: self-attention has no memory of width %zu", name,
                        c->memory_width);
    return c->rotary.base > 0 ? qkv__rotary_check(ctx, &c->rotary, c->head_width, name) : QKV_OK;
}

/* The matrices, as they are packed. q and kv: rows of a query's and of a key's. */
static bool mha_declare(const qkv_mha_params *p, size_t q, size_t kv)
{
    const size_t out = qkv_param_dim(p->out_weight, 0), packed[] = {q, kv, kv};
    bool declared = p->qkv_weight ? !qkv_param_set_hidden(p->qkv_weight, 3, packed)
                                  : !qkv_param_set_hidden(p->q_weight, 1, &q) &&
                                    !qkv_param_set_hidden(p->kv_weight, 2, packed + 1);
    return declared && !qkv_param_set_hidden(p->out_weight, 1, &out);
}

static bool mha_make_angles(qkv_params *ps, qkv_mha *m)
{
    const qkv_mha_config *c = &m->c;
    if (!(c->rotary.base > 0))
        return true;
    m->angles.width = qkv_rotary_width(&c->rotary, c->head_width);
    double *frequency = qkv__params_alloc(ps, (m->angles.width / 2 + 1) * sizeof *frequency);
    if (frequency)
        m->angles.scale = qkv_rotary_frequencies(&c->rotary, c->head_width, frequency);
    m->angles.frequency = frequency;
    return frequency != NULL;
}

static bool mha_make_norms(qkv_params *ps, qkv_mha *m, const char *name)
{
    const qkv_mha_config *c = &m->c;
    if (!(c->qk_norm_eps > 0))
        return true;
    char path[256];
    snprintf(path, sizeof path, "%s.q_norm", name);
    m->p.q_norm = qkv__layer_param(ps, path, "weight", c->head_width, 0);
    snprintf(path, sizeof path, "%s.k_norm", name);
    m->p.k_norm = qkv__layer_param(ps, path, "weight", c->head_width, 0);
    return m->p.q_norm && m->p.k_norm;
}

qkv_mha *qkv_mha_create(qkv_params *ps, const qkv_mha_config *config, const char *name,
                        uint32_t dropout_id)
{
    qkv_mha *m = qkv__params_alloc(ps, sizeof *m);
    char *copy = qkv__layer_name(ps, name);
    if (!m || !copy)
        return NULL;
    const char *dot = strrchr(copy, '.');
    *m = (qkv_mha){.c = *config, .probe = dot ? dot + 1 : copy, .dropout_id = dropout_id};
    qkv_mha_config *c = &m->c;
    if (!c->memory_width)
        c->memory_width = c->width;
    if (!c->head_width && c->heads)
        c->head_width = c->width / c->heads;
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (mha_check(qkv__params_context(ps), c, name))
        return NULL;
    qkv_mha_params *p = &m->p;
    size_t q = c->heads * c->head_width, kv = c->kv_heads * c->head_width;
    bool made = c->cross
                    ? qkv__dense_params(ps, &p->q_weight, &p->q_bias, name, "q", q, c->width,
                                        c->qkv_bias) &&
                      qkv__dense_params(ps, &p->kv_weight, &p->kv_bias, name, "kv", 2 * kv,
                                        c->memory_width, c->qkv_bias)
                    : qkv__dense_params(ps, &p->qkv_weight, &p->qkv_bias, name, "qkv", q + 2 * kv,
                                        c->width, c->qkv_bias);
    made = made && qkv__dense_params(ps, &p->out_weight, &p->out_bias, name, "out", c->width, q,
                                     c->out_bias);
    made = made && mha_make_norms(ps, m, name) && mha_make_angles(ps, m);
    return made && mha_declare(p, q, kv) ? m : NULL;
}

const qkv_mha_params *qkv_mha_parameters(const qkv_mha *m) { return &m->p; }
const qkv_mha_config *qkv_mha_configuration(const qkv_mha *m) { return &m->c; }

/* Rows from .. from + rows - 1 of a packed matrix, under a name that other matrices lack. */
static void mha_init_part(qkv_param *p, const char *part, size_t from, size_t rows, uint64_t seed)
{
    char name[256];
    size_t columns = qkv_param_dim(p, 1);
    snprintf(name, sizeof name, "%s.%s", qkv_param_name(p), part);
    qkv_state_entry row = {.name = name, .param = p, .ndim = 2, .shape = {rows, columns},
                           .offset = from * columns, .init = QKV_INIT_XAVIER, .scale = 1};
    qkv_state_entry_init(&row, seed);
}

void qkv_mha_init(qkv_mha *m, uint64_t seed)
{
    const qkv_mha_config *c = &m->c;
    const qkv_mha_params *p = &m->p;
    size_t q = c->heads * c->head_width, kv = c->kv_heads * c->head_width;
    qkv_param *of_kv = c->cross ? p->kv_weight : p->qkv_weight;
    size_t first = c->cross ? 0 : q;
    mha_init_part(c->cross ? p->q_weight : p->qkv_weight, "q", 0, q, seed);
    mha_init_part(of_kv, "k", first, kv, seed);
    mha_init_part(of_kv, "v", first + kv, kv, seed);
    mha_init_part(p->out_weight, "out", 0, c->width, seed);
    qkv_param *const biases[] = {p->qkv_bias, p->q_bias, p->kv_bias, p->out_bias};
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++)
        if (biases[i])
            (void)qkv_param_init(biases[i], QKV_INIT_ZEROS, 0, seed);
}

/* ---- forward ------------------------------------------------------------------------------- */

static qkv_tensor *mha_linear(qkv_tape *t, qkv_tensor *x, qkv_param *weight, qkv_param *bias)
{
    return qkv_linear_forward(&(qkv_linear_layer){weight, bias}, t, x, QKV_ACT_NONE);
}

/* (B, T, n * D) -> (B, T, n, D) */
static qkv_tensor *heads(qkv_tape *t, qkv_tensor *x, size_t n, size_t D)
{
    if (!x)
        return NULL;
    size_t shape[] = {qkv_dim(x, 0), qkv_dim(x, 1), n, D};
    return qkv_reshape(t, x, 4, shape);
}

/* x (B, T, H, D) as one sequence of rows, (1, B T, H, D), where memories have other rows. */
static qkv_tensor *rows_of_memories(qkv_tape *t, qkv_tensor *x, const qkv_sequence *seq)
{
    if (!x || !seq->memory_queries)
        return x;
    size_t shape[] = {1, qkv_dim(x, 0) * qkv_dim(x, 1), qkv_dim(x, 2), qkv_dim(x, 3)};
    return qkv_reshape(t, x, 4, shape);
}

/* A place in the layer: "attn.q". */
static qkv_tensor *mha_place(qkv_mha *m, qkv_tape *t, const char *name, qkv_tensor *x)
{
    char place[64];
    snprintf(place, sizeof place, "%s.%s", m->probe, name);
    return qkv_probe(t, place, x);
}

/* What attention sees: two tensors, or slots of a cache. */
typedef struct {
    qkv_tensor *k, *v;
    qkv_kv_cache *cache;
    const qkv_kv_slots *slots; /* NULL: k and v */
} mha_seen;

/* Attention of q to that with the layer's options, heads joined, and the output layer. */
static qkv_tensor *mha_attend(qkv_mha *m, qkv_tape *t, qkv_tensor *q, const mha_seen *seen,
                              qkv_attention_options *o)
{
    o->scale = m->c.scale;
    o->dropout = m->c.dropout;
    o->dropout_id = m->dropout_id;
    o->probe = m->probe;
    qkv__for_products(t, !seen->cache);
    qkv_tensor *y = seen->slots ? qkv_kv_cache_attend(t, seen->cache, seen->slots, q, o)
                                : qkv_attention(t, q, seen->k, seen->v, o);
    qkv__for_products(t, false);
    y = mha_place(m, t, "z", y);
    if (!y)
        return NULL;
    size_t joined[] = {qkv_dim(y, 0), qkv_dim(y, 1), m->c.heads * m->c.head_width};
    y = mha_linear(t, qkv_reshape(t, y, 3, joined), m->p.out_weight, m->p.out_bias);
    return mha_place(m, t, "out", y);
}

/* Queries or keys x (B, T, heads, head_width) as they meet. */
static qkv_tensor *mha_prepare(qkv_mha *m, qkv_tape *t, qkv_tensor *x, qkv_param *norm,
                               const qkv_sequence *seq)
{
    if (norm)
        x = qkv_norm(t, QKV_NORM_RMS, x, qkv_use(t, norm), NULL, m->c.qk_norm_eps);
    return m->angles.frequency ? qkv_rotary_by(t, x, seq->positions, &m->angles) : x;
}

static qkv_tensor *self_attention(qkv_mha *m, qkv_tape *t, qkv_tensor *x, const qkv_sequence *seq,
                                  qkv_kv_cache *cache)
{
    const qkv_mha_config *c = &m->c;
    size_t q_width = c->heads * c->head_width, kv_width = c->kv_heads * c->head_width;
    size_t sizes[] = {q_width, kv_width, kv_width};
    qkv_tensor *part[3];
    qkv__for_products(t, !cache && !m->p.q_norm && !m->angles.frequency);
    qkv_tensor *packed = mha_linear(t, x, m->p.qkv_weight, m->p.qkv_bias);
    qkv__for_products(t, false);
    if (!packed || !qkv_split(t, packed, -1, 3, sizes, part))
        return NULL;
    qkv_tensor *q = heads(t, part[0], c->heads, c->head_width);
    qkv_tensor *k = heads(t, part[1], c->kv_heads, c->head_width);
    qkv_tensor *v = heads(t, part[2], c->kv_heads, c->head_width);
    q = mha_place(m, t, "q", mha_prepare(m, t, q, m->p.q_norm, seq));
    k = mha_place(m, t, "k", mha_prepare(m, t, k, m->p.k_norm, seq));
    v = mha_place(m, t, "v", v);
    qkv_attention_options o = {.causal = c->causal, .window = c->window,
                               .sequences = seq->sequences, .q_offsets = seq->offsets,
                               .k_lengths = seq->lengths, .bias = seq->bias, .mask = seq->mask,
                               .relative = seq->relative};
    if (cache && !(seq->slots ? qkv_kv_cache_put(t, cache, seq->slots, k, v)
                              : qkv_kv_cache_append(t, cache, k, v, &k, &v)))
        return NULL;
    return mha_attend(m, t, q, &(mha_seen){k, v, cache, cache ? seq->slots : NULL}, &o);
}

/* Keys and values of the memory, of the cache once it holds them. */
static bool mha_memory(qkv_mha *m, qkv_tape *t, const qkv_sequence *seq, qkv_kv_cache *cache,
                       qkv_tensor **k, qkv_tensor **v)
{
    const qkv_mha_config *c = &m->c;
    size_t kv_width = c->kv_heads * c->head_width, sizes[] = {kv_width, kv_width};
    qkv_tensor *part[2];
    if (cache && qkv_kv_cache_length(cache))
        return qkv_kv_cache_all(t, cache, k, v);
    qkv__for_products(t, !cache);
    qkv_tensor *packed = mha_linear(t, seq->memory, m->p.kv_weight, m->p.kv_bias);
    qkv__for_products(t, false);
    if (!packed || !qkv_split(t, packed, -1, 2, sizes, part))
        return false;
    *k = mha_place(m, t, "k", heads(t, part[0], c->kv_heads, c->head_width));
    *v = mha_place(m, t, "v", heads(t, part[1], c->kv_heads, c->head_width));
    return !cache || qkv_kv_cache_append(t, cache, *k, *v, k, v);
}

static qkv_tensor *cross_attention(qkv_mha *m, qkv_tape *t, qkv_tensor *x, const qkv_sequence *seq,
                                   qkv_kv_cache *cache)
{
    const qkv_mha_config *c = &m->c;
    qkv__for_products(t, !cache);
    qkv_tensor *k, *v, *q = heads(t, mha_linear(t, x, m->p.q_weight, m->p.q_bias), c->heads,
                                  c->head_width);
    qkv__for_products(t, false);
    q = mha_place(m, t, "q", q);
    if (!q || !mha_memory(m, t, seq, cache, &k, &v))
        return NULL;
    bool own = seq->memory_queries != NULL;
    qkv_attention_options o = {.sequences = own ? seq->memories : seq->sequences,
                               .q_offsets = own ? seq->memory_queries : seq->offsets,
                               .k_offsets = seq->memory_offsets,
                               .k_begins = seq->memory_begins,
                               .k_lengths = seq->memory_lengths,
                               .bias = seq->memory_bias, .mask = seq->memory_mask};
    qkv_tensor *y = mha_attend(m, t, rows_of_memories(t, q, seq), &(mha_seen){.k = k, .v = v},
                               &o);
    size_t shape[] = {qkv_dim(x, 0), qkv_dim(x, 1), c->width};
    return own && y ? qkv_reshape(t, y, 3, shape) : y;
}

qkv_tensor *qkv_mha_forward(qkv_mha *m, qkv_tape *t, qkv_tensor *x, const qkv_sequence *seq,
                            qkv_kv_cache *cache)
{
    static const qkv_sequence none;
    seq = seq ? seq : &none;
    if (m->angles.frequency && !seq->positions)
        return qkv__op_fail(t, "attention", "rotary positions without positions");
    if (m->c.cross && !seq->memory && !(cache && qkv_kv_cache_length(cache)))
        return qkv__op_fail(t, "attention", "cross-attention without a memory");
    if (m->c.cross)
        return cross_attention(m, t, x, seq, cache);
    return self_attention(m, t, x, seq, cache);
}
