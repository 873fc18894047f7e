/* vectors.h - what all models that give vectors have: their width, and the vectors themselves. */
#ifndef QKV_SRC_TASK_VECTORS_H
#define QKV_SRC_TASK_VECTORS_H

#include "qkv/embed.h"
#include "qkv/model.h"
#include "qkv/pixels.h"
#include "task/packed.h"

/* Numbers of a vector, of a model with QKV_CAN_EMBED_TEXT, _IMAGES or _BOTH. */
size_t qkv__vector_width(const qkv_model *m);

/* Of those that read texts: ids are below *vocab; a text has at most *length, which stays below the
 * positions where the directory says so. */
void qkv__vector_limits(const qkv_model *m, size_t *vocab, size_t *length);

/* Of those that read images: how they cut them. */
const qkv_patches_config *qkv__vector_trunk(const qkv_model *m);

/* (sequences, width) of texts of segment 0 alone, not normalised; p must stay as it is until the
 * step ends. */
qkv_tensor *qkv__text_vectors(const qkv__packed *p, qkv_model *m, qkv_tape *t);
/* pixels (B, H, W, channels) -> (B, width), not normalised. */
qkv_tensor *qkv__image_vectors(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

/* Reads the vectors of p's texts, of length 1 if `unit`, into out (sequences, width). Empties p. */
qkv_status qkv__text_vectors_read(qkv__packed *p, qkv_model *m, qkv_tape *t, bool unit,
                                  qkv_real *out);
/* Those of a field of `count` records, whose numbers are in `records`; NULL: evenly over all. Ranks
 * share the work. */
qkv_status qkv__field_vectors(qkv_model *m, qkv_tape *t, const qkv_records *r, size_t field,
                              const size_t *records, size_t count, qkv_real *out);

/* qkv_embed_images, where ranks share the work. */
qkv_status qkv__image_set_vectors(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                  const size_t *images, size_t n, bool unit, qkv_real *out);

/* qkv_recall and qkv_recall_many, where the ranks of ctx share the work. */
qkv_status qkv__recall(qkv_context *ctx, qkv_tape *t, const qkv_real *a, const qkv_real *b,
                       size_t n, size_t width, double temperature, qkv_recall_score *out);
qkv_status qkv__recall_many(qkv_context *ctx, qkv_tape *t, const qkv_real *a, size_t n,
                            const qkv_real *b, const size_t *begins, size_t width,
                            double temperature, qkv_recall_score *out);

/* Can the cosines of a loss be divided by it? */
qkv_status qkv__temperature_check(qkv_context *ctx, double temperature);

/* Adds recall_1 and recall_5, the means over both directions. */
void qkv__recall_add(qkv_metrics *m, const qkv_recall_score *s);

#endif
