/* pipeline_embed.h - vectors of a user's texts or images, which of them are nearest, and what a
 * linear classifier makes of them.
 * Layer: pipeline
 *
 *     qkv_vectors questions = {0}, answers = {0};
 *     qkv_status status = qkv_pipeline_embed_texts(p, texts, count, &questions);
 *     if (!status)
 *         status = qkv_pipeline_embed_file(p, "answers.txt", &answers);
 *     if (!status)
 *         status = qkv_vectors_nearest(&questions, &answers, 3, ids, cosines);
 *     qkv_vectors_free(&questions);
 *     qkv_vectors_free(&answers); */
#ifndef QKV_PIPELINE_EMBED_H
#define QKV_PIPELINE_EMBED_H

#include <qkv/embed.h>
#include <qkv/pipeline.h>

QKV_BEGIN_DECLS

/* Vectors, each of length 1, and what they are of. Zeroed: none. */
typedef struct {
    qkv_context *ctx;
    size_t count, width;
    qkv_real *data; /* (count, width) */
    char **names;   /* (count) the texts (a 0 byte ends the name), or the names of the images */
} qkv_vectors;
void qkv_vectors_free(qkv_vectors *v); /* zeroed is allowed */

/* The vectors of texts (count >= 1). Those with more tokens than the model reads are truncated; a
 * note says how many. On failure *out is zeroed. QKV_E_UNSUPPORTED: the model gives no vectors. */
qkv_status qkv_pipeline_embed_texts(qkv_pipeline *p, const char *const *texts, size_t count,
                                    qkv_vectors *out);
/* The same of images (count >= 1), each path anything that qkv_image_list_open accepts. Images that
 * cannot be read are skipped with a note, if the path has others. */
qkv_status qkv_pipeline_embed_images(qkv_pipeline *p, const char *const *paths, size_t count,
                                     qkv_vectors *out);
/* The vectors of a file's lines, empty ones too; of an encoder of images, those at the path; of one
 * of both (QKV_CAN_EMBED_BOTH) those of images where qkv_is_image_list is true of the path.
 * QKV_E_FORMAT: an empty file, or a line that is not UTF-8. */
qkv_status qkv_pipeline_embed_file(qkv_pipeline *p, const char *path, qkv_vectors *out);

/* qkv_nearest of vectors: ids and cosines (queries->count, k). QKV_E_ARGUMENT: the widths differ,
 * or k is not in 1 .. among->count. */
qkv_status qkv_vectors_nearest(const qkv_vectors *queries, const qkv_vectors *among, size_t k,
                               int32_t *ids, qkv_real *cosines);

/* Rows of numbers with classes. */
typedef struct {
    const qkv_real *rows;   /* (count, width) */
    const int32_t *classes; /* (count) in [0, classes) */
    size_t count, width;
} qkv_labelled_rows;

/* The accuracy on `test` of a linear classifier that learnt from `train`: softmax regression on
 * columns that are scaled to mean 0 and standard deviation 1, from zeros, 20 epochs of batches of
 * 256 with Adam; the rate is 0.3 / width and falls as a cosine. The same seed gives the same
 * classifier. QKV_E_ARGUMENT: no rows, widths that differ, a class out of range. */
qkv_status qkv_linear_probe(qkv_context *ctx, const qkv_labelled_rows *train,
                            const qkv_labelled_rows *test, size_t classes, uint64_t seed,
                            double *accuracy);

/* Writes them as .npy, F32 (count, width), atomically. */
qkv_status qkv_vectors_save(const qkv_vectors *v, const char *path);

QKV_END_DECLS
#endif
