/* embed.h - contrastive learning of vectors: pairs of texts, images in two views, images with
 * captions; recall, nearest neighbours.
 * Layer: task */
#ifndef QKV_EMBED_H
#define QKV_EMBED_H

#include <qkv/augment.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* ---- training on pairs of texts ------------------------------------------------------------ */

typedef struct {
    double temperature; /* divides the cosines                        (0, 100]    0.05 */
    double drop;        /* share of the words that training replaces by [MASK] [0, 1)   0 */
} qkv_embed_options;
qkv_embed_options qkv_embed_defaults(void);

/* A task that trains a model with QKV_CAN_EMBED_TEXT to tell a text's partner from the other texts
 * of the batch. Records have 2 fields: the ids of a text and of its partner, both with special
 * tokens. A sample is one pair, shuffled in every epoch. With q and k (B, width) the vectors of a
 * batch's texts and partners, the loss is the mean of qkv_infonce_loss(q, k) and
 * qkv_infonce_loss(k, q) (CLIP's, Radford et al. 2021); a micro-batch has no other partners than
 * its own. tokenizer may be NULL if drop is 0, and is not kept. train, valid (NULL: nothing is held
 * out) and the model must outlive the task. options may be NULL. On failure out->self is NULL. */
qkv_status qkv_task_embed(qkv_task *out, qkv_model *model, const qkv_records *train,
                          const qkv_records *valid, const qkv_tokenizer *tokenizer,
                          const qkv_embed_options *options, uint64_t seed);

/* ---- training on images -------------------------------------------------------------------- */

typedef struct {
    double temperature; /* divides the cosines                          (0, 100]  0.5 */
    size_t projection;  /* width of the projection's output             >= 1      128 */
    qkv_augment_options augment; /* of each view: random resized crops of at least 0.2 of the area,
                                    flip, jitter 0.5, grey 0.2; mixup and cutmix are not allowed */
} qkv_embed_images_options;
qkv_embed_images_options qkv_embed_images_defaults(void);

/* A task that trains a model with QKV_CAN_EMBED_IMAGES and an image format so that two random views
 * of an image are alike, and unlike the other images of the batch (SimCLR, Chen et al. 2020). A
 * sample is one image in two views, shuffled in every epoch. The loss is qkv_ntxent_loss of the
 * vectors behind a projection: linear, ReLU, linear. Its parameters, projection.0 and projection.1,
 * are added to the model's: training saves and resumes them, qkv_hub_save leaves them out. Labels
 * are not learnt from. Metrics on held-out images: knn, if they have classes, the share whose 10
 * most similar other images have their class most often; loss, of fixed views in batches of 128.
 * Neither ranks models: the latest is kept. train, valid (NULL: nothing is held out) and the model
 * must outlive the task. options may be NULL. On failure out->self is NULL. */
qkv_status qkv_task_embed_images(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                                 const qkv_pixels *valid, const qkv_embed_images_options *options,
                                 uint64_t seed);

/* The vectors of the images with indices images (n; NULL: the first n) into out (n, width of the
 * trunk, or of CLIP's common space); unit: scaled to length 1. The model has QKV_CAN_EMBED_IMAGES
 * or QKV_CAN_EMBED_BOTH, and an image format. t is
 * reset and used without recording. */
qkv_status qkv_embed_images(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                            const size_t *images, size_t n, bool unit, qkv_real *out);

/* ---- training on images with captions ------------------------------------------------------- */

/* Images, and their captions as records of 3 fields: a caption's ids with special tokens; nothing;
 * the number of its image. In the order of images, each of which has one caption or more. */
typedef struct {
    const qkv_pixels *images;
    const qkv_records *captions;
} qkv_captioned;

typedef struct {
    qkv_augment_options augment; /* of the images: random resized crops of at least 0.5 of the area;
                                    mixup and cutmix are not allowed */
} qkv_captions_options;
qkv_captions_options qkv_captions_defaults(void);

/* A task that trains a model with QKV_CAN_EMBED_BOTH and an image format so that an image and its
 * caption are alike, and unlike the other captions and images of the batch (CLIP, Radford et al.
 * 2021). A sample is one image with one of its captions, drawn anew each time, so that no two
 * captions of an image are in a batch; images are shuffled in every epoch. The loss is
 * qkv_clip_loss; its scale is learnt, and set back to QKV_CLIP_MOST_SCALE where it is greater.
 * Metrics on held-out images as of qkv_captions_evaluate, recall as means over both directions.
 * train and valid are copied, what they name and the model must outlive the task. valid NULL:
 * nothing is held out. options may be NULL. On failure out->self is NULL. */
qkv_status qkv_task_captions(qkv_task *out, qkv_model *model, const qkv_captioned *train,
                             const qkv_captioned *valid, const qkv_captions_options *options,
                             uint64_t seed);

/* ---- recall -------------------------------------------------------------------------------- */

/* Share of the rows whose partner is the most similar of all (recall at 1), or among the 5 most
 * similar. [0]: each row of a among b, [1]: each row of b among a. */
typedef struct {
    double recall1[2], recall5[2];
    double loss; /* of all rows as one batch, both directions, nats */
    size_t pairs;
} qkv_recall_score;

/* a, b (n, width): row i of a is the partner of row i of b. Similarity is the cosine; a row that is
 * as similar as the partner counts as more similar. temperature: of the loss. t is reset and used
 * without recording. QKV_E_ARGUMENT: n is 0. */
qkv_status qkv_recall(qkv_tape *t, const qkv_real *a, const qkv_real *b, size_t n, size_t width,
                      double temperature, qkv_recall_score *out);

/* The same of rows with several partners: rows begins[i] .. begins[i+1]-1 of b are the partners of
 * row i of a (n, width); begins (n + 1), begins[0] 0, each row has one partner or more. [0]: of a
 * row's partners the most similar counts. loss is the mean over the pairs. pairs: begins[n]. */
qkv_status qkv_recall_many(qkv_tape *t, const qkv_real *a, size_t n, const qkv_real *b,
                           const size_t *begins, size_t width, double temperature,
                           qkv_recall_score *out);

/* Images as a, their captions as b; the temperature is the model's. The model has
 * QKV_CAN_EMBED_BOTH. limit: number of images, evenly spaced (0: all). t is reset and used without
 * recording. */
qkv_status qkv_captions_evaluate(qkv_model *m, qkv_tape *t, const qkv_captioned *data,
                                 size_t limit, qkv_recall_score *out);

/* The recall of the records' pairs. limit: number of pairs, evenly spaced (0: all); fewer pairs are
 * easier. options may be NULL. t is reset and used without recording. */
qkv_status qkv_embed_evaluate(qkv_model *m, qkv_tape *t, const qkv_records *records,
                              const qkv_embed_options *options, size_t limit,
                              qkv_recall_score *out);

/* ---- nearest neighbours -------------------------------------------------------------------- */

/* For each row of queries (n, width) the k rows of rows (count, width) with the greatest cosine,
 * greatest first, the lower index first among equals, into ids (n, k) and cosines (n, k). 1 <= k
 * <= count <= INT32_MAX. t is reset and used without recording. */
qkv_status qkv_nearest(qkv_tape *t, const qkv_real *queries, size_t n, const qkv_real *rows,
                       size_t count, size_t width, size_t k, int32_t *ids, qkv_real *cosines);

/* The share of queries (n, width) whose class is the most frequent among their k nearest rows
 * (count, width); the nearer one's among equals. expected (n), classes (count): >= 0. rows NULL:
 * the queries, each without itself. k is at most the rows that there are. t is reset and used
 * without recording. */
qkv_status qkv_knn_accuracy(qkv_tape *t, const qkv_real *queries, const int32_t *expected, size_t n,
                            const qkv_real *rows, const int32_t *classes, size_t count,
                            size_t width, size_t k, double *accuracy);

QKV_END_DECLS
#endif
