/* vectors.c - models that give vectors: encoders of texts, of images, and of both. */
#include "task/vectors.h"

#include <string.h>

#include "qkv/bert.h"
#include "qkv/clip.h"
#include "qkv/vit.h"
#include "task/common.h"
#include "task/parts.h"

enum { EVAL_ROWS = 4096 }; /* ids that are read at once */
static const double EPS = 1e-12;

size_t qkv__vector_width(const qkv_model *m)
{
    const void *c = qkv_model_config(m);
    if (qkv_model_can(m, QKV_CAN_EMBED_BOTH))
        return ((const qkv_clip_config *)c)->projection;
    return qkv_model_can(m, QKV_CAN_EMBED_IMAGES) ? ((const qkv_vit_config *)c)->trunk.width
                                                  : ((const qkv_bert_config *)c)->width;
}

void qkv__vector_limits(const qkv_model *m, size_t *vocab, size_t *length)
{
    if (qkv_model_can(m, QKV_CAN_EMBED_BOTH)) {
        const qkv_clip_config *c = qkv_model_config(m);
        *vocab = c->text.vocab;
        *length = c->text.positions;
        return;
    }
    const qkv_bert_config *c = qkv_model_config(m);
    *vocab = c->vocab;
    *length = c->max_length ? c->max_length : qkv_bert_longest(m);
}

const qkv_patches_config *qkv__vector_trunk(const qkv_model *m)
{
    const void *c = qkv_model_config(m);
    return qkv_model_can(m, QKV_CAN_EMBED_BOTH) ? &((const qkv_clip_config *)c)->vision
                                                : &((const qkv_vit_config *)c)->trunk;
}

qkv_tensor *qkv__text_vectors(const qkv__packed *p, qkv_model *m, qkv_tape *t)
{
    const size_t shape[] = {1, p->rows};
    if (p->failed)
        return NULL;
    if (qkv_model_can(m, QKV_CAN_EMBED_BOTH))
        return qkv_clip_texts(m, t, qkv_tensor_ids(t, p->ids, 2, shape), p->sequences,
                              p->offsets);
    const qkv_bert_input in = {.ids = qkv_tensor_ids(t, p->ids, 2, shape),
                               .sequences = p->sequences, .offsets = p->offsets};
    return qkv_bert_vectors(m, t, &in, qkv_bert_hidden(m, t, &in));
}

qkv_tensor *qkv__image_vectors(qkv_model *m, qkv_tape *t, qkv_tensor *pixels)
{
    return qkv_model_can(m, QKV_CAN_EMBED_BOTH) ? qkv_clip_images(m, t, pixels)
                                                : qkv_vit_vectors(m, t, pixels);
}

qkv_status qkv__text_vectors_read(qkv__packed *p, qkv_model *m, qkv_tape *t, bool unit,
                                  qkv_real *out)
{
    size_t n = p->sequences * qkv__vector_width(m);
    if (p->failed)
        return QKV_E_MEMORY;
    qkv__begin_inference(t);
    qkv_tensor *x = qkv__text_vectors(p, m, t);
    const qkv_real *from = qkv_data(t, unit ? qkv_l2_normalize(t, x, EPS) : x);
    if (from)
        memcpy(out, from, n * sizeof *out);
    qkv__packed_clear(p);
    return qkv_tape_status(t);
}

qkv_status qkv__field_vectors(qkv_model *m, qkv_tape *t, const qkv_records *r, size_t field,
                              const size_t *records, size_t count, qkv_real *out)
{
    qkv_context *ctx = qkv_model_context(m);
    qkv__packed p = {.ctx = ctx};
    qkv__record_parts parts = {.records = r, .numbers = records, .count = count};
    size_t width = qkv__vector_width(m), from = 0, to = 0;
    qkv_status status = qkv__record_parts_cut(&parts, ctx, field, 1, EVAL_ROWS);
    if (!status)
        qkv__own_stretch(ctx, parts.parts, &from, &to);
    for (size_t part = from; part < to && !status; part++) {
        size_t begin = parts.begins[part];
        for (size_t i = begin; i < parts.begins[part + 1]; i++)
            qkv__packed_field(&p, r, qkv__record_number(&parts, i), field);
        status = qkv__text_vectors_read(&p, m, t, false, out + begin * width);
    }
    from = parts.begins ? parts.begins[from] : 0;
    to = parts.begins ? parts.begins[to] : 0;
    status = qkv__share_rows(ctx, status, out, from, to, width * sizeof *out);
    qkv__packed_free(&p);
    qkv_free(ctx, parts.begins);
    return status;
}

qkv_status qkv__temperature_check(qkv_context *ctx, double temperature)
{
    return temperature > 0 && temperature <= 100
               ? QKV_OK
               : qkv_fail(ctx, QKV_E_ARGUMENT, "the temperature is above 0 and at most 100, not %g",
                          temperature);
}

void qkv__recall_add(qkv_metrics *m, const qkv_recall_score *s)
{
    qkv_metrics_add(m, "recall_1", (s->recall1[0] + s->recall1[1]) / 2);
    qkv_metrics_add(m, "recall_5", (s->recall5[0] + s->recall5[1]) / 2);
}
