/* picture_job.h - what the `qkv train ...` on pictures share: options that say which pictures, and
 * their way from files to OUT/train and back from there.
 *
 * A command's own struct begins with a cli_picture_job; cli_picture_write, _open and _close are
 * those of its cli_job_type. */
#ifndef QKV_CMD_TRAIN_PICTURE_JOB_H
#define QKV_CMD_TRAIN_PICTURE_JOB_H

#include "train/job.h"
#include "use/pictures.h"
#include "qkv/masks.h"
#include "qkv/vit.h"

typedef struct {
    const char *images, *valid, *valid_last, *model;
    const char *masks, *valid_masks; /* of the classes of pixels; NULL: not learnt */
    int split;                       /* a qkv_held_out_by */
    size_t size;
} cli_picture_options;
/* --images, --valid, --valid-last, --split, --size, --model */
extern const qkv_option_table cli_picture_table;
/* What manuals say of --size and --model, for a list of qkv_preset. */
#define CLI_PICTURE_SIZE {"size", "0", "the first one's, at most 64"}
#define CLI_PICTURE_MODEL {"model", "micro", "micro; others: nano mini tiny small base large"}
extern const char *const cli_picture_splits[]; /* what --split can be */

typedef struct {
    cli_job base;
    cli_picture_options s;
    bool labelled;             /* pictures have classes, which the model's labels name */
    cli_picture_set all, held; /* as read: --images, --valid */
    qkv_held_out split;        /* of all */
    cli_picture_set train, valid; /* in OUT/train */
} cli_picture_job;

/* What a model to be made is like, before anything is read: the side of its pictures is --size, or
 * that of the first one that can be read, at most 64, a multiple of 8. Where --set has not given
 * them, width, layers and heads are those of `size`, which --model names (NULL: there is none, an
 * error), and patches the smallest that cut the side into at most 8. */
qkv_status cli_picture_trunk(const cli_picture_job *p, const qkv_patches_config *size,
                             qkv_patches_config *trunk);

/* A field that is as the data say: an error if --set says something else. */
qkv_status cli_picture_given(const cli *c, const char *key, size_t *field, size_t found);

/* The trunk of a model that another one can begin with: of one that tells classes or what is
 * hidden; NULL: it has none. */
const qkv_patches_config *cli_picture_trunk_of(const qkv_model *m);

/* The side of the pictures, as above. */
qkv_status cli_picture_side(const cli_picture_job *p, size_t *side);

/* Reads --images and --valid, side x side, and splits; palette: that of the masks, NULL without. */
qkv_status cli_picture_read(cli_picture_job *p, size_t side, size_t channels,
                            const qkv_mask_palette *palette);
/* Which of all.images are held out, as the options say; nothing with --valid. */
qkv_status cli_picture_split(cli_picture_job *p);
/* Mean and deviation of what is learnt from; a channel that hardly varies is not stretched. */
void cli_picture_measure(const cli_picture_job *p, qkv_picture_format *format);

/* For a cli_job_type; the job is a cli_picture_job. */
qkv_status cli_picture_write(cli_job *base);
qkv_status cli_picture_open(cli_job *base);
void cli_picture_close(cli_job *base);

/* "vit, 123 parameters, WORDS; 90 pictures to learn from, 10 held out" */
void cli_picture_tell(const cli_picture_job *p, const char *words, ...) QKV_PRINTF(2, 3);

#endif
