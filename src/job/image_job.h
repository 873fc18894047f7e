/* image_job.h - what the `qkv train ...` on images share: options that say which images, and
 * their way from files to OUT/train and back from there.
 *
 * A command's own struct begins with a qkv__image_job; qkv__image_write, _open and _close are
 * those of its qkv__job_kind. */
#ifndef QKV_SRC_JOB_IMAGE_JOB_H
#define QKV_SRC_JOB_IMAGE_JOB_H

#include "job/run.h"
#include "pipeline/image_set.h"
#include "qkv/masks.h"
#include "qkv/vit.h"

typedef struct {
    const char *images, *valid, *valid_last, *model;
    const char *masks, *valid_masks; /* of the classes of pixels; NULL: not learnt */
    int split;                       /* a qkv_held_out_by */
    size_t size;
} qkv__image_options;
/* --images, --valid, --valid-last, --split, --size, --model */
extern const qkv_option_table qkv__image_table;
/* What manuals say of --size, for a list of qkv_preset. */
#define QKV__IMAGE_SIZE {"size", "0", "the first one's, at most 64"}
/* Jobs that learn from whole images: rows of their tables, with FIELD(size) and FIELD(split) of
 * their settings s, and their options, with o what jobs on data have. */
#define QKV__IMAGE_SIZE_ROW                                                                       \
    {.flag = "size", .type = QKV_OPT_SIZE, .max = 4096, FIELD(size), .initial = "0",              \
     .help = "side that images get, in pixels; 0: the first one's, at most 224"}
#define QKV__IMAGE_SPLIT_ROW                                                                      \
    {.flag = "split", .type = QKV_OPT_ENUM, FIELD(split), .names = qkv__image_splits,             \
     .initial = "auto",                                                                           \
     .help = "what --valid-last takes: the last, the last of each class, files whose names begin " \
             "alike; auto: of each class where they lie sorted by it"}
#define QKV__IMAGE_OPTIONS(o, s)                                                                  \
    (qkv__image_options){.images = (o).data, .valid = (o).valid, .model = (o).model,              \
                         .valid_last = (o).valid_last, .split = (s).split, .size = (s).size}
extern const char *const qkv__image_splits[]; /* what --split can be */
extern const char *const qkv__image_fixed[];    /* what a model to begin with settles */

typedef struct {
    qkv__run base;
    qkv__image_options s;
    bool labelled;             /* images have classes, which the model's labels name */
    qkv__image_set all, held; /* as read: --images, --valid */
    qkv_held_out split;        /* of all */
    qkv__image_set train, valid; /* in OUT/train */
} qkv__image_job;

/* What a model to be made is like, before anything is read: the side of its images is --size, or
 * that of the first one that can be read, at most 64, a multiple of 8; patches are the smallest
 * that cut it into at most 8, unless --set gave theirs. */
qkv_status qkv__image_trunk(const qkv__image_job *p, qkv_patches_config *trunk);
/* The same, and where --set has not given them width, layers and heads of the Vision Transformer
 * that --model names. */
qkv_status qkv__image_pixelwise(const qkv__image_job *p, qkv_patches_config *trunk);

/* A field that is as the data say: an error if --set says something else. */
qkv_status qkv__image_given(const qkv__run *r, const char *key, size_t *field, size_t found);

/* The trunk of a model that another one can begin with: of one that tells classes or what is
 * hidden; NULL: it has none. */
const qkv_patches_config *qkv__image_trunk_of(const qkv_model *m);

/* The side of the images, as above. --set key=N, a field of the model's configuration, means the
 * same as --size N: *side, which has it, stays. An error if both are given. */
qkv_status qkv__image_side(const qkv__image_job *p, const char *key, size_t *side);

/* The classes of p->all are the model's labels. */
qkv_status qkv__image_label(const qkv__image_job *p);

/* Reads --images and --valid, side x side, and splits; palette: that of the masks, NULL without. */
qkv_status qkv__image_read(qkv__image_job *p, size_t side, size_t channels,
                            const qkv_mask_palette *palette);
/* Which of all.images are held out, as the options say; nothing with --valid. */
qkv_status qkv__image_split(qkv__image_job *p);
/* Mean and standard deviation of what is learnt from; a channel that hardly varies is not
 * stretched. */
void qkv__image_measure(const qkv__image_job *p, qkv_image_format *format);

/* For a qkv__job_kind; the job is a qkv__image_job. */
qkv_status qkv__image_write(qkv__run *base);
qkv_status qkv__image_open(qkv__run *base);
void qkv__image_close(qkv__run *base);

/* "vit, 123 parameters, WORDS; 90 images to learn from, 10 held out" */
void qkv__image_tell(const qkv__image_job *p, const char *words, ...) QKV_PRINTF(2, 3);

#endif
