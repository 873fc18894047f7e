/* op_embedding.c - rows of a weight by id, with rows of a position weight added. */
#include <string.h>

#include "tensor/tape.h"

enum { WEIGHT = 1 }; /* of the inputs */

typedef struct {
    double scale;
    int32_t pad; /* this row gets no gradient; below 0: all do */
} params;

/* Adds dy's rows, times scale, to the rows of weight's gradient that ids name. */
static void add_named_rows(qkv_tape *t, qkv_tensor *weight, const qkv_tensor *ids,
                           const qkv_real *dy, double scale, int32_t pad)
{
    bool acc;
    size_t C = qkv__channels(weight);
    qkv_real *d = qkv__grad(t, weight, &acc);
    qkv_real *kept = d && pad >= 0 ? qkv__step_memory(t, C * sizeof *kept) : NULL;
    if (!d || (pad >= 0 && !kept))
        return;
    if (!acc)
        t->device->fill(d, 0, qkv_count(weight) * sizeof *d); /* most rows are not named */
    if (kept)
        t->device->copy(kept, d + (size_t)pad * C, C * sizeof *kept);
    t->k->embed_bwd(&t->exec, d, qkv__ids(ids), dy, scale, qkv_count(ids), C);
    if (kept)
        t->device->copy(d + (size_t)pad * C, kept, C * sizeof *kept);
}

static void embedding_backward(qkv_tape *t, const qkv__node *n)
{
    const params *p = n->params;
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    qkv__grad_rows rows = {.dy = dy, .n = qkv_count(n->in[0]), .scale = p->scale, .pad = p->pad};
    rows.ids = t->on_rows ? qkv__read_ids(t, n->in[0]) : NULL;
    if (!rows.ids || !qkv__grad_hand_rows(t, n->in[WEIGHT], &rows))
        add_named_rows(t, n->in[WEIGHT], n->in[0], dy, p->scale, p->pad);
    if (n->in[3])
        add_named_rows(t, n->in[3], n->in[2], dy, 1.0, -1);
}

static const qkv_op embedding_op = {.name = "embedding", .backward = embedding_backward};

/* Fails the tape unless ids are i32 and name rows of weight (rows, C), in any number of bits. */
static bool rows_exist(qkv_tape *t, const char *what, const qkv_tensor *ids,
                       const qkv_tensor *weight)
{
    bool numbers = weight->dtype == QKV_REAL || qkv__small_of(t, "embedding", weight);
    if (ids->dtype != QKV_I32 || !numbers || weight->ndim != 2)
        return qkv__op_fail(t, "embedding",
                            "%ss %s (i32) and weight %s (rows, channels) do not fit",
                            what, qkv__shape_text(t, ids), qkv__shape_text(t, weight)) != NULL;
    size_t n = qkv_count(ids);
    const int32_t *list = qkv__read_ids(t, ids);
    for (size_t i = 0; list && i < n; i++)
        if (list[i] < 0 || (size_t)list[i] >= weight->shape[0])
            return qkv__op_fail(t, "embedding", "%s %d at index %zu is not in [0, %zu)", what,
                                (int)list[i], i, weight->shape[0]) != NULL;
    return list != NULL;
}

qkv_tensor *qkv_embedding(qkv_tape *t, qkv_tensor *ids, qkv_tensor *weight, double scale,
                          qkv_tensor *positions, qkv_tensor *position_weight)
{
    return qkv_embedding_padded(t, ids, weight, scale, positions, position_weight, -1);
}

qkv_tensor *qkv_embedding_padded(qkv_tape *t, qkv_tensor *ids, qkv_tensor *weight, double scale,
                                 qkv_tensor *positions, qkv_tensor *position_weight, int32_t pad)
{
    qkv_tensor *in[] = {ids, weight, positions, position_weight};
    int n = positions || position_weight ? 4 : 2;
    if (!qkv__ready(t, "embedding", n, in))
        return NULL;
    for (int i = 0; i < n; i++)
        if (!(in[i] = qkv_contiguous(t, in[i])))
            return NULL;
    const qkv_k_small *small = qkv__small_of(t, "embedding", weight);
    if (!rows_exist(t, "id", in[0], in[1]) || (n == 4 && !rows_exist(t, "position", in[2], in[3])))
        return NULL;
    if (n == 4 && (!qkv__same_shape(ids, positions) ||
                   weight->shape[1] != position_weight->shape[1]))
        return qkv__op_fail(t, "embedding",
                            "positions %s and their weight %s do not fit ids %s and "
                            "weight %s", qkv__shape_text(t, positions),
                            qkv__shape_text(t, position_weight), qkv__shape_text(t, ids),
                            qkv__shape_text(t, weight));
    if (pad >= 0 && (size_t)pad >= weight->shape[0])
        return qkv__op_fail(t, "embedding", "the padding token %d has no row in weight %s",
                            (int)pad, qkv__shape_text(t, weight));
    size_t shape[QKV_MAX_DIMS];
    if (ids->ndim == QKV_MAX_DIMS)
        return qkv__op_fail(t, "embedding", "ids %s have too many dimensions",
                            qkv__shape_text(t, ids));
    memcpy(shape, ids->shape, sizeof shape);
    shape[ids->ndim] = weight->shape[1];
    qkv_tensor *y = qkv__new(t, QKV_REAL, ids->ndim + 1, shape);
    if (!y)
        return NULL;
    const int32_t *places = n == 4 ? qkv__ids(in[2]) : NULL;
    const qkv_real *place_table = n == 4 ? qkv__real(in[3]) : NULL;
    if (small)
        t->k->embed_small(&t->exec, qkv__real(y), qkv__ids(in[0]), small, scale, places,
                          place_table, qkv_count(ids));
    else
        t->k->embed(&t->exec, qkv__real(y), qkv__ids(in[0]), qkv__real(in[1]), scale, places,
                    place_table, qkv_count(ids), weight->shape[1]);
    params p = {scale, pad};
    y = qkv__record(t, &embedding_op, 4, in, 1, &y, &p, sizeof p);
    qkv__record_table(t, y, WEIGHT);
    return y;
}
