/* pair_loss.c - sentence pairs packed one after another on a tape, and a translator's loss. */
#include "task/pair_loss.h"

#include <string.h>

#include "qkv/marian.h"
#include "tensor/make.h"

/* Some pairs on the tape: their ids one after another, and where each begins. All in step
 * memory. */
typedef struct {
    size_t pairs;
    int32_t *offsets[QKV__SIDES]; /* (pairs + 1) */
    int32_t *ids[QKV__SIDES];     /* the decoder's inputs on the target's side */
    int32_t *targets;             /* once for every reading */
} batch;

/* False when memory is out. */
static bool make_batch(batch *b, qkv_tape *t, const qkv_id_pair *all, size_t pairs, size_t readings)
{
    b->pairs = pairs;
    for (size_t f = 0; f < QKV__SIDES; f++) {
        b->offsets[f] = qkv__step_alloc(t, (pairs + 1) * sizeof(int32_t));
        if (!b->offsets[f])
            return false;
        b->offsets[f][0] = 0;
        for (size_t i = 0; i < pairs; i++)
            b->offsets[f][i + 1] = b->offsets[f][i] + (int32_t)all[i].size[f];
        b->ids[f] = qkv__step_alloc(t, ((size_t)b->offsets[f][pairs] + 1) * sizeof(int32_t));
    }
    b->targets = qkv__step_alloc(
        t, (readings * (size_t)b->offsets[QKV__TARGET][pairs] + 1) * sizeof(int32_t));
    return b->ids[QKV__SOURCE] && b->ids[QKV__TARGET] && b->targets;
}

static void fill_batch(batch *b, const qkv_id_pair *all, int32_t start, size_t readings)
{
    size_t targets = (size_t)b->offsets[QKV__TARGET][b->pairs];
    for (size_t i = 0; i < b->pairs; i++) {
        const qkv_id_pair *p = &all[i];
        const int32_t *target = p->ids[QKV__TARGET];
        size_t n = p->size[QKV__TARGET];
        memcpy(b->ids[QKV__SOURCE] + b->offsets[QKV__SOURCE][i], p->ids[QKV__SOURCE],
               p->size[QKV__SOURCE] * sizeof *target);
        memcpy(b->targets + b->offsets[QKV__TARGET][i], target, n * sizeof *target);
        int32_t *in = b->ids[QKV__TARGET] + b->offsets[QKV__TARGET][i];
        in[0] = start; /* one behind the targets */
        memcpy(in + 1, target, (n - 1) * sizeof *target);
    }
    if (readings == 2)
        memcpy(b->targets + targets, b->targets, targets * sizeof *b->targets);
}

static qkv_marian_side pair_side(qkv_tape *t, const batch *b, size_t field)
{
    size_t shape[] = {1, (size_t)b->offsets[field][b->pairs]};
    return (qkv_marian_side){.ids = qkv_tensor_ids(t, b->ids[field], 2, shape),
                             .sequences = b->pairs, .offsets = b->offsets[field]};
}

/* The decoder's output (1, rows, width). before: see qkv__pair_loss. */
static qkv_tensor *read_batch(qkv_model *m, qkv_tape *t, const batch *b,
                              const qkv_randomness before[QKV__SIDES], size_t reading)
{
    qkv_marian_side sides[QKV__SIDES];
    qkv_tensor *y[QKV__SIDES] = {NULL};
    for (size_t f = 0; f < QKV__SIDES; f++) {
        sides[f] = pair_side(t, b, f);
        if (before) {
            qkv_randomness r = before[f];
            r.seed ^= (uint64_t)reading << 63;
            qkv_tape_randomness(t, &r);
        }
        y[f] = f == QKV__SOURCE ? qkv_marian_encode(m, t, &sides[f])
                                : qkv_marian_decode(m, t, &sides[f], y[QKV__SOURCE],
                                                    &sides[QKV__SOURCE], NULL);
    }
    return y[QKV__TARGET];
}

qkv_tensor *qkv__pair_loss(qkv_model *m, qkv_tape *t, const qkv_id_pair *all, size_t pairs,
                           const qkv_randomness before[QKV__SIDES],
                           const qkv_cross_entropy_options *o)
{
    const qkv_marian_config *c = qkv_model_config(m);
    size_t readings = qkv__pair_readings(o->rdrop);
    qkv_tensor *hidden[2];
    batch b;
    if (!make_batch(&b, t, all, pairs, readings))
        return NULL;
    fill_batch(&b, all, c->start, readings);
    for (size_t i = 0; i < readings; i++)
        hidden[i] = read_batch(m, t, &b, before, i);
    size_t shape[] = {1, readings * (size_t)b.offsets[QKV__TARGET][pairs]};
    return qkv_marian_loss(m, t, readings == 1 ? hidden[0] : qkv_concat(t, 1, 2, hidden),
                           qkv_tensor_ids(t, b.targets, 2, shape), o);
}
