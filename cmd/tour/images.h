/* images.h - what the tour's chapters on images share: images, and sheets of them. */
#ifndef QKV_CMD_TOUR_IMAGES_H
#define QKV_CMD_TOUR_IMAGES_H

#include "tour/chapter.h"

enum { TOUR_SIDE = 32 };

/* ---- the images: images.c, drawn.c --------------------------------------------- */

/* The emoji font of this machine, where there is one that can be read; else NULL. */
const char *tour_images_find(qkv_context *ctx);

/* Colour images with classes, of one size; no image is in both. Zeroed: none. */
typedef struct {
    qkv_pixels *train, *valid;
} tour_images;

/* Those of t->images, or drawn ones, side x side, over a grey of that level; the same images in
 * the same order whatever the two are. On failure *out is empty. */
qkv_status tour_images_read(tour_images *out, const tour *t, size_t side, uint8_t background);
void tour_images_close(tour_images *p); /* an empty one is allowed */

/* Seconds that training may take after that: most of what is left of the chapter's. */
double tour_images_time(const tour *t);

/* The chapter's seconds, as many as two Zen 4 cores would need for the same work. */
double tour_images_effort(const tour *t);

/* How images of the size are wanted, normalised by those learnt from. */
void tour_images_format(const tour_images *p, qkv_model *m);

/* Says what they are, how many, and of what size. */
void tour_images_tell(const tour_images *p, const tour *t);


/* ---- sheets: sheet.c -------------------------------------------------------------------- */

/* Images side by side. Zeroed: none. */
typedef struct {
    qkv_context *ctx;
    qkv_sheet s;
} tour_sheet;

qkv_status tour_sheet_create(tour_sheet *s, qkv_context *ctx, size_t rows, size_t columns,
                             size_t side);
/* rgb (side, side, 3), several pixels a side for each. frame: a colour around it, or NULL. */
void tour_sheet_put(tour_sheet *s, size_t row, size_t column, const uint8_t *rgb,
                    const uint8_t *frame);
/* Writes the chapter's file of that name, says where it is and what one sees, and frees the sheet.
 * A build that writes no images says so. */
qkv_status tour_sheet_write(tour_sheet *s, const tour *t, const char *name, const char *caption);
void tour_sheet_free(tour_sheet *s);

/* One image (side, side, 3) as the chapter's file of that name: for the reader to try. */
qkv_status tour_image_write(const tour *t, const char *name, const uint8_t *rgb, size_t side);

/* ---- chapters on images: image_chapter.c -------------------------------------------------- */

/* A trunk for images of TOUR_SIDE: so many blocks, each of as many heads of 32 channels. */
void tour_trunk_set(qkv_patches_config *trunk, size_t blocks);

/* Who learns, and from what. A chapter that keeps more begins a struct of its own with one. Start
 * with t and p; the chapter closes p, tour_image_chapter_train destroys the model. */
typedef struct {
    tour *t;
    tour_images p; /* TOUR_SIDE x TOUR_SIDE, as the model gets them */
    qkv_model *model;
    tour_training training;
} tour_pupil;

qkv_status tour_pupil_create(tour_pupil *h, const qkv_model_type *type, const void *config);

/* What a chapter teaches, and how it is evaluated. */
typedef struct {
    qkv_status (*make_model)(tour_pupil *h); /* and says what it is */
    qkv_status (*make_task)(qkv_task *task, const tour_pupil *h);
    size_t batch;
    double rate, beta2; /* beta2 0: the default */
    /* Says what it reaches and writes a sheet. Is it better than what it is compared with? */
    qkv_status (*evaluate)(const tour_pupil *h, bool *better);
    const char *learnt, *not_learnt; /* what is said when it is, when it is not */
    const char *verb, *options;      /* qkv VERB DIR IMAGE OPTIONS asks the model */
} tour_image_chapter;

/* Makes the model, trains it in t->dir and, unless the reader has had enough, reports. */
qkv_status tour_image_chapter_train(const tour_image_chapter *l, tour_pupil *h);
/* The same on the tour's images over white; says what they are. */
qkv_status tour_image_chapter_run(const tour_image_chapter *l, tour *t);

/* A sheet of some held-out images, one a row: put fills the row of the i-th. */
typedef qkv_status tour_row_fn(const tour_pupil *h, tour_sheet *s, size_t row, size_t i);
qkv_status tour_pupil_sheet(const tour_pupil *h, size_t columns, tour_row_fn *put,
                            const char *name, const char *caption);

/* ---- images become codes: codes.c ---------------------------------------------------------- */

/* Trains a VQGAN in t->dir and evaluates it beside cut-outs that clustering finds. The images stay
 * the caller's. *stopped: the reader has had enough. */
qkv_status tour_codes_learn(tour *t, const tour_images *images, bool *stopped);

#endif
