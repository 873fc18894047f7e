/* sample.h - what runs show of their models at evaluations: texts and images that were held out, or
 * were learnt from where nothing was. Each is a function of the parameters alone. */
#ifndef QKV_SRC_JOB_SAMPLE_H
#define QKV_SRC_JOB_SAMPLE_H

#include "job/image_job.h"
#include "qkv/reconstruct.h"
#include "qkv/tokens.h"
#include "pipeline/prior.h"

/* ---- texts, of runs with a tokenizer ---- */

/* Two places of the text, each continued. */
qkv_status qkv__sample_continuations(const qkv__run *r, const qkv_tokens *text, qkv_samples *out);
/* Two conversations up to an answer, each answered. Of records of ids and marks. */
qkv_status qkv__sample_answers(const qkv__run *r, qkv_samples *out);
/* A text with words hidden: guesses, and what was there. */
qkv_status qkv__sample_hidden_words(const qkv__run *r, qkv_samples *out);
/* Three sources, their greedy translations, their references. */
qkv_status qkv__sample_translations(const qkv__run *r, qkv_samples *out);
/* Texts with the label that the model gives them, and their own. */
qkv_status qkv__sample_text_labels(const qkv__run *r, qkv_tape *t, qkv_samples *out);

/* Adds "GUESS 93 % (TRUTH)". logits: (classes); truth: a class, or -1. */
void qkv__sample_label(qkv_str *text, const qkv_model *m, const qkv_real *logits, size_t classes,
                       int32_t truth);

/* ---- images: sheets of up to 8 columns ---- */

/* What a sheet shows of each image: rows of images of the set's size and channels. */
typedef struct {
    const char *name;
    size_t rows;     /* 1 to 3 */
    /* Fills in rows[0 ..], images as the set's, for image number `image` of it. */
    qkv_status (*paint)(const qkv__image_job *p, qkv_tape *t, size_t image, uint8_t *const *rows);
} qkv__sample_images_kind;
qkv_status qkv__sample_images(const qkv__image_job *p, qkv_tape *t,
                             const qkv__sample_images_kind *kind, qkv_samples *out);

/* The images, and a text of the classes that the model gives them. */
qkv_status qkv__sample_image_labels(const qkv__image_job *p, qkv_tape *t, qkv_samples *out);

/* Four images from a prior. */
qkv_status qkv__sample_imagined(qkv__prior *codecs, const qkv__run *r, const qkv_code_grids *grids,
                                qkv_samples *out);

/* The set that is shown, of those that a run has. */
static inline const qkv__image_set *qkv__sample_set(const qkv__image_job *p)
{
    return p->valid.images ? &p->valid : &p->train;
}

#endif
